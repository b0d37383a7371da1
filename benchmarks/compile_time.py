"""How long cold compilation takes, by stage, each in a new process after the imports.

    python -m benchmarks.compile_time [PROGRAM...]      programs of benchmarks.models, or bert_12
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys

RUNS = 5
_CHILD = """
import json, sys, time
import tcp_eqsat as tcp
import tcp_eqsat.pipeline, tcp_eqsat.egraph
from tcp_eqsat.egraph import saturate
from benchmarks.models import MODELS, bert
name = sys.argv[1]
model = bert(12) if name == "bert_12" else MODELS[name]()
start = time.perf_counter()
f = tcp.compile(model.program, constants=model.weights)
print(json.dumps({"total": time.perf_counter() - start, **f.report.seconds}))
"""


def measure(name: str) -> dict[str, float]:
    """Median seconds by stage."""
    runs = [
        json.loads(subprocess.run([sys.executable, "-c", _CHILD, name], capture_output=True, text=True,
                                  check=True).stdout.splitlines()[-1])
        for _ in range(RUNS)]
    return {stage: statistics.median(run[stage] for run in runs) for stage in runs[0]}


def main() -> None:
    for name in sys.argv[1:] or ("mlp_tanh", "mlp_full", "softmax", "attention_block", "bert", "bert_12"):
        found = measure(name)
        shown = "  ".join(f"{stage} {seconds * 1e3:.0f} ms" for stage, seconds in found.items())
        print(f"{name:16s}{shown}", flush=True)


if __name__ == "__main__":
    main()

"""How long cold compilation takes, by stage, each in a new process after the imports, and with those it makes itself.

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
from benchmarks.models import MODELS, bert
name = sys.argv[1]
if sys.argv[2] == "imported":
    import tcp_eqsat.pipeline
    from tcp_eqsat.egraph import saturate
model = bert(12) if name == "bert_12" else MODELS[name]()
start = time.perf_counter()
f = tcp.compile(model.program, constants=model.weights)
print(json.dumps({"total": time.perf_counter() - start, **f.report.seconds}))
"""


def measure(name: str) -> dict[str, float]:
    """Median seconds by stage; `with imports` is a total where the first compilation imports what it needs."""
    runs = [_run(name, "imported") for _ in range(RUNS)]
    importing = [_run(name, "importing")["total"] for _ in range(RUNS)]
    return {**{stage: statistics.median(run[stage] for run in runs) for stage in runs[0]},
            "with imports": statistics.median(importing)}


def _run(name: str, mode: str) -> dict[str, float]:
    command = [sys.executable, "-c", _CHILD, name, mode]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds: dict[str, float] = json.loads(found.stdout.splitlines()[-1])
    return seconds


def main() -> None:
    for name in sys.argv[1:] or ("mlp_tanh", "mlp_full", "softmax", "attention_block", "bert", "bert_12"):
        found = measure(name)
        shown = "  ".join(f"{stage} {seconds * 1e3:.0f} ms" for stage, seconds in found.items())
        print(f"{name:16s}{shown}", flush=True)


if __name__ == "__main__":
    main()

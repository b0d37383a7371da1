"""What every benchmark shares: rows of interleaved timings against named peers, printed and as JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import metadata

# Libraries read this when they are first imported.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import numpy as np

from tcp_eqsat.codegen.target import host_target
from tcp_eqsat.timing import Timing, ratios


@dataclass
class Table:
    """Rows of one benchmark: what was run, our time, each peer's time and the ratio peer / ours."""

    title: str
    rows: list[tuple[str, Timing, dict[str, tuple[Timing, Timing]], str]] = field(default_factory=list)

    def add(self, name: str, ours: Callable[[], object], peers: Mapping[str, Callable[[], object]], *,
            rounds: int = 31, slice_seconds: float = 2e-3, note: Callable[[float], str] = lambda seconds: "") -> None:
        """Time `ours` and the peers in turns. `note` makes a remark of our median, such as GFLOP/s."""
        own, others = ratios(ours, list(peers.values()), rounds=rounds, slice_seconds=slice_seconds)
        self.rows.append((name, own, dict(zip(peers, others, strict=True)), note(own.median)))
        self._print_row(*self.rows[-1])

    def _print_row(self, name: str, own: Timing, peers: dict[str, tuple[Timing, Timing]], note: str) -> None:
        shown = "  ".join(
            f"{peer} {ratio.median:5.2f}x ({ratio.lower:.2f}-{ratio.upper:.2f})" for peer, (_, ratio) in peers.items())
        print(f"{self.title:12s} {name:28s} {own.median * 1e6:10.1f} us  {shown}  {note}", flush=True)

    def to_json(self) -> dict[str, object]:
        return {"title": self.title, "rows": [
            {"name": name, "us": own.median * 1e6, "note": note, "peers": {
                peer: {"us": time.median * 1e6, "ratio": ratio.median, "quartiles": [ratio.lower, ratio.upper]}
                for peer, (time, ratio) in peers.items()}}
            for name, own, peers, note in self.rows]}


def machine() -> dict[str, str]:
    """Processor and versions, as far as they matter."""
    found = {"processor": str(host_target()), "python": platform.python_version()}
    for package in ("numpy", "llvmlite", "egglog", "jax", "torch", "numba", "onnxruntime"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def pin_to_one_core() -> None:
    """This process on one core. Libraries have one thread since this module was imported."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def agree(ours: np.ndarray, theirs: np.ndarray, tolerance: float) -> None:
    """Outputs are compared before anything is timed."""
    error = np.abs(np.asarray(ours, np.float64) - np.asarray(theirs, np.float64)).max(initial=0.0)
    if not error <= tolerance:
        raise SystemExit(f"outputs differ by {error}, more than {tolerance}")


def parser(description: str) -> argparse.ArgumentParser:
    """--json FILE and --quick, which every script takes."""
    found = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("--json", help="write the results to this file")
    found.add_argument("--quick", action="store_true", help="few rounds and small sizes: does it run at all")
    return found


def arguments(description: str) -> argparse.Namespace:
    return parser(description).parse_args()


def finish(tables: list[Table], options: argparse.Namespace) -> None:
    print(machine())
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"machine": machine(), "tables": [t.to_json() for t in tables]}, file, indent=2)

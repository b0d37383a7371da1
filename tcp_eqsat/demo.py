"""`tcp-eqsat demo`: the proposal's two perceptrons, optimised, compiled, checked and timed against plain NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from importlib import resources
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tcp_eqsat import pipeline
from tcp_eqsat.compare import compare
from tcp_eqsat.lang.reference import evaluate
from tcp_eqsat.report import SCHEMA, Report, json_ready
from tcp_eqsat.run import random_arrays
from tcp_eqsat.timing import interleaved

BATCHES = (1, 7, 128, 4096)
COST_BATCH = 128  # the batch size that modelled costs are for
LARGEST_ERROR = 1e-5


@dataclass(frozen=True, slots=True)
class Row:
    """One batch size: microseconds a call, medians of interleaved runs."""

    batch: int
    max_abs_error: float
    ours_us: float
    numpy_us: float

    @property
    def ratio(self) -> float:
        return self.numpy_us / self.ours_us


@dataclass(frozen=True)
class Part:
    """One program."""

    report: Report
    types: str
    rows: tuple[Row, ...]

    @property
    def compile_seconds(self) -> float:
        return sum(self.report.seconds.values())


@dataclass(frozen=True)
class Outcome:
    parts: tuple[Part, ...]

    @property
    def passed(self) -> bool:
        return all(row.max_abs_error <= LARGEST_ERROR for part in self.parts for row in part.rows)

    def to_json(self) -> dict[str, Any]:
        programs = [
            {**part.report.to_json(), "compile_ms": part.compile_seconds * 1e3,
             "rows": [{**asdict(row), "ratio": row.ratio} for row in part.rows]}
            for part in self.parts]
        ready: dict[str, Any] = json_ready({"schema": SCHEMA, "passed": self.passed, "programs": programs})
        return ready


def numpy_mlp_tanh(x, h2_bias, out_bias, h1_bias, h2_weights, out_weights, h1_weights):  # type: ignore[no-untyped-def]
    """The program as one would write it in NumPy."""
    for weights, bias in ((h1_weights, h1_bias), (h2_weights, h2_bias), (out_weights, out_bias)):
        x = np.tanh(x @ weights + bias)
    return x


def numpy_mlp_full(x, h2_bias, out_bias, h1_bias, h2_weights, out_weights, h1_weights):  # type: ignore[no-untyped-def]
    """The program as one would write it in NumPy."""
    half = np.float32(0.5)
    for weights, bias in ((h1_weights, h1_bias), (h2_weights, h2_bias), (out_weights, out_bias)):
        x = np.tanh((x @ weights + bias) * half) * half + half
    shifted = np.exp(x - x.max(1, keepdims=True))
    return shifted / shifted.sum(1, keepdims=True)


PROGRAMS: dict[str, Callable[..., np.ndarray]] = {"mlp_tanh": numpy_mlp_tanh, "mlp_full": numpy_mlp_full}


def bundled(name: str) -> str:
    """The text of a bundled program, e.g. `mlp_full.mlir`."""
    return resources.files("tcp_eqsat").joinpath("programs", name).read_text(encoding="utf-8")


def run_demo() -> Outcome:
    """Optimise, compile, check and time both programs."""
    return Outcome(tuple(_part(name, plain) for name, plain in PROGRAMS.items()))


def _part(name: str, plain: Callable[..., np.ndarray]) -> Part:
    program = pipeline.parse(bundled(f"{name}.mlir"), f"{name}.mlir")
    compiled = pipeline.compile(program, sizes={"b": COST_BATCH})
    rows = []
    for batch in BATCHES:
        arrays = random_arrays(program.main, {"b": batch}, seed=batch)
        (expected,) = evaluate(program.main, arrays)
        error = compare(compiled(*arrays), expected).max_abs_error
        ours, theirs = interleaved([partial(compiled, *arrays), partial(plain, *arrays)])
        rows.append(Row(batch, error, ours.median * 1e6, theirs.median * 1e6))
    types = f"{program.main.parameters[0].type} -> {program.main.results[0].type}"
    return Part(compiled.report, types, tuple(rows))


def show_demo(outcome: Outcome, console: Console) -> None:
    """A few lines and a table for each program."""
    for part in outcome.parts:
        report = part.report
        saturation = report.saturation
        console.print(f"[bold]{escape(report.name)}[/bold]   {escape(part.types)}")
        console.print(
            f"  {len(saturation.matches)} rules fired, {saturation.classes} e-classes, {saturation.nodes} e-nodes, "
            f"{report.stop_reason} after {len(saturation.iterations)} iterations")
        console.print(
            f"  {report.operations} operations in {report.kernels_before} kernels -> {report.kernels} kernels; "
            f"modelled cost {report.cost_before:.1f} us -> {report.cost:.1f} us at b = {COST_BATCH}; "
            f"compiled in {part.compile_seconds * 1e3:.0f} ms")
        table = Table(box=None, pad_edge=False, padding=(0, 2))
        for title in ("b", "max error", "ours", "NumPy", "ratio"):
            table.add_column(title, justify="right")
        for row in part.rows:
            table.add_row(str(row.batch), f"{row.max_abs_error:.1e}", f"{row.ours_us:.1f} us",
                          f"{row.numpy_us:.1f} us", f"{row.ratio:.1f}x")
        console.print(table, soft_wrap=False)
        console.print()
    tiers = {part.report.numerics for part in outcome.parts}
    console.print(f"numerics tier: {', '.join(sorted(tiers))}; times are medians of interleaved calls on one core")
    if not outcome.passed:
        console.print(f"[red]an error is above {LARGEST_ERROR}[/red]")

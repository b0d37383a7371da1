"""What happened on the way from a program to its kernels, for people and as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tcp_eqsat.egraph import SaturationReport
from tcp_eqsat.extract import Extraction
from tcp_eqsat.lang.plan import Plan, format_step
from tcp_eqsat.lang.program import Function
from tcp_eqsat.lang.tiers import Permissions

SCHEMA = 1


@dataclass(frozen=True)
class Report:
    """Numbers of one optimisation.

    operations     nodes of the input that are no parameters or constants
    saturation     e-nodes, e-classes, iterations, rules fired, why it stopped
    cost, cost_before  modelled microseconds at the typical sizes, of the result and of the input, one kernel an
                   operation
    kernels, kernels_before  how many, routines and what stands in the bodies of control flow included
    kernel_texts   the steps of the plan
    seconds        by stage
    """

    name: str
    signature: str
    numerics: str
    operations: int
    saturation: SaturationReport
    cost_before: float
    cost: float
    kernels_before: int
    kernels: int
    kernel_texts: tuple[str, ...]
    extraction: Extraction = field(repr=False)
    seconds: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, function: Function, granted: Permissions, saturation: SaturationReport, before: Extraction,
           best: Extraction, plan: Plan, seconds: Mapping[str, float]) -> Report:
        operations = sum(1 for x in function.nodes() if x.op.arity != 0)
        texts = tuple(format_step(step, plan) for step in plan.steps)
        return cls(function.name, str(function), str(granted), operations, saturation, before.cost, best.cost,
                   len(before.plan.kernels), len(plan.kernels), texts, best, dict(seconds))

    def __str__(self) -> str:
        """A few lines: signature, rewriting, kernels and cost, seconds by stage."""
        saturation = self.saturation
        seconds = ", ".join(f"{name} {value * 1e3:.1f} ms" for name, value in self.seconds.items())
        return "\n".join([
            self.signature,
            f"  {sum(saturation.matches.values())} rewrites by {len(saturation.matches)} rules, {saturation.classes} "
            f"e-classes, {saturation.nodes} e-nodes, {self.stop_reason} after {len(saturation.iterations)} iterations",
            f"  {self.operations} operations in {self.kernels_before} kernels -> {self.kernels} kernels; modelled "
            f"cost {self.cost_before:.1f} us -> {self.cost:.1f} us{self._typical_sizes()}; numerics {self.numerics}",
            f"  {seconds}"])

    def _typical_sizes(self) -> str:
        """What symbols stood for in costs: " at b = 128, s = 128"."""
        sizes = ", ".join(f"{name} = {size}" for name, size in sorted(self.extraction.report.sizes.items()))
        return f" at {sizes}" if sizes else ""

    @property
    def graph(self) -> Any:
        """The kernels and buffers as a networkx.DiGraph."""
        return self.extraction.graph

    @property
    def stop_reason(self) -> str:
        return self.saturation.stop_reason.value

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready dictionary; non-finite numbers are strings."""
        saturation = self.saturation
        return json_ready({
            "schema": SCHEMA, "name": self.name, "signature": self.signature, "numerics": self.numerics,
            "operations": self.operations, "e_nodes": saturation.nodes, "e_classes": saturation.classes,
            "iterations": len(saturation.iterations), "rules_fired": saturation.matches,
            "rules_dropped": list(saturation.dropped),
            "stop_reason": self.stop_reason, "cost": self.cost, "cost_before": self.cost_before, "cost_unit": "us",
            "cost_sizes": dict(self.extraction.report.sizes),
            "kernels": self.kernels, "kernels_before": self.kernels_before, "kernel_list": list(self.kernel_texts),
            "seconds": dict(self.seconds),
        })


def json_ready(value: Any) -> Any:
    """The value with tuples as lists and non-finite numbers as strings."""
    if isinstance(value, dict):
        return {str(k): json_ready(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_ready(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value

"""What happened on the way from a program to its kernels, for people and as JSON."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tcp_eqsat.egraph import SaturationReport, StopReason
from tcp_eqsat.extract import Extraction
from tcp_eqsat.lang.plan import Plan, format_step
from tcp_eqsat.lang.program import Function
from tcp_eqsat.lang.tiers import Permissions

SCHEMA = 1


@dataclass(frozen=True)
class Report:
    """Numbers of one optimisation.

    operations     nodes of the input that are no parameters or constants
    saturation     e-nodes, e-classes, iterations, rules fired, why it stopped: of the program around all regions
    regions        the same of each distinct region of control flow, inner ones first
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
    regions: tuple[SaturationReport, ...]
    cost_before: float
    cost: float
    kernels_before: int
    kernels: int
    kernel_texts: tuple[str, ...]
    extraction: Extraction = field(repr=False)
    seconds: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, function: Function, granted: Permissions, saturation: SaturationReport,
           regions: tuple[SaturationReport, ...], before: Extraction, best: Extraction, plan: Plan,
           seconds: Mapping[str, float]) -> Report:
        operations = sum(1 for x in function.nodes() if x.op.arity != 0)
        texts = tuple(format_step(step, plan) for step in plan.steps)
        return cls(function.name, str(function), str(granted), operations, saturation, regions, before.cost, best.cost,
                   len(before.plan.kernels), len(plan.kernels), texts, best, dict(seconds))

    def __str__(self) -> str:
        """A few lines: signature, rewriting, kernels and cost, seconds by stage."""
        seconds = ", ".join(f"{name} {value * 1e3:.1f} ms" for name, value in self.seconds.items())
        return "\n".join([
            self.signature,
            f"  {sum(self.matches.values())} rewrites by {len(self.matches)} rules, {self.classes} e-classes, "
            f"{self.nodes} e-nodes{self._with_regions()}, {self.stop_reason} after {self.iterations} iterations",
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
    def saturations(self) -> tuple[SaturationReport, ...]:
        """Of the program and of its regions."""
        return (self.saturation, *self.regions)

    @property
    def matches(self) -> dict[str, int]:
        """Matches by rule, in the program and its regions together."""
        total: Counter[str] = Counter()
        for each in self.saturations:
            total.update(each.matches)
        return dict(total)

    @property
    def nodes(self) -> int:
        """The e-nodes of all e-graphs together."""
        return sum(each.nodes for each in self.saturations)

    @property
    def classes(self) -> int:
        """The e-classes of all e-graphs together."""
        return sum(each.classes for each in self.saturations)

    @property
    def iterations(self) -> int:
        """The rounds of all saturations together."""
        return sum(len(each.iterations) for each in self.saturations)

    @property
    def stop_reason(self) -> str:
        """Why saturation ended: `saturated` where that is so of the program and of every region."""
        reasons = [each.stop_reason for each in self.saturations]
        return next((x for x in reasons if x is not StopReason.SATURATED), StopReason.SATURATED).value

    def _with_regions(self) -> str:
        """Of how many e-graphs the numbers are: " in the program and 2 regions"."""
        count = len(self.regions)
        return f" in the program and {count} {'region' if count == 1 else 'regions'}" if count else ""

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready dictionary; non-finite numbers are strings."""
        return json_ready({
            "schema": SCHEMA, "name": self.name, "signature": self.signature, "numerics": self.numerics,
            "operations": self.operations, "e_nodes": self.nodes, "e_classes": self.classes,
            "iterations": self.iterations, "rules_fired": self.matches,
            "rules_dropped": list(dict.fromkeys(name for each in self.saturations for name in each.dropped)),
            "regions": [_saturated(each) for each in self.regions],
            "stop_reason": self.stop_reason, "cost": self.cost, "cost_before": self.cost_before, "cost_unit": "us",
            "cost_sizes": dict(self.extraction.report.sizes),
            "kernels": self.kernels, "kernels_before": self.kernels_before, "kernel_list": list(self.kernel_texts),
            "seconds": dict(self.seconds),
        })


def _saturated(report: SaturationReport) -> dict[str, Any]:
    """One saturation, JSON-ready."""
    return {"e_nodes": report.nodes, "e_classes": report.classes, "iterations": len(report.iterations),
            "rules_fired": report.matches, "rules_dropped": list(report.dropped),
            "stop_reason": report.stop_reason.value}


def json_ready(value: Any) -> Any:
    """The value with tuples as lists and non-finite numbers as strings."""
    if isinstance(value, dict):
        return {str(k): json_ready(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_ready(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value

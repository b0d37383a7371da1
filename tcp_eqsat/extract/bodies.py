"""Bodies of control flow: regions that were optimised on their own, and what running them costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tcp_eqsat.extract.cost import UNKNOWN_TRIPS
from tcp_eqsat.lang.dims import value
from tcp_eqsat.lang.ops.attributes import ScanAttributes, WhileAttributes
from tcp_eqsat.lang.plan import Plan
from tcp_eqsat.lang.program import Region


@dataclass(frozen=True)
class Body:
    """The best that was found for a region: its plan, the same as a region, and microseconds of one run."""

    original: Region
    region: Region
    plan: Plan
    cost: float


BodyOf = Callable[[Region], Body]


def control_work(attributes: Any, bodies: Sequence[Body], bindings: Mapping[str, int]) -> float:
    """Microseconds that control flow spends in its bodies.

    A branch costs as much as the dearest one; a loop without a length runs `UNKNOWN_TRIPS` times.
    """
    costs = [body.cost for body in bodies]
    match attributes:
        case ScanAttributes(length=length):
            return value(length, bindings) * costs[0]
        case WhileAttributes():
            condition, step = costs
            return (UNKNOWN_TRIPS + 1) * condition + UNKNOWN_TRIPS * step
        case _:
            return max(costs)

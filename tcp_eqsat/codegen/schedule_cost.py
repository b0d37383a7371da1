"""What a schedule weighs its choices by: how often things run, and what they cost as vectors.

Costs are counts of simple instructions, coarse on purpose: they rank choices within one kernel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tcp_eqsat.codegen.graph import FoldValue, Graph
from tcp_eqsat.codegen.loops import Apply, Choose, Constant, IndexValue, Load, Read, Value, walk_values
from tcp_eqsat.codegen.target import CpuTarget
from tcp_eqsat.lang.dims import Size, bounds
from tcp_eqsat.lang.pointful import Affine
from tcp_eqsat.lang.types import BOOL

TYPICAL_EXTENT = 64
"""Iterations assumed of a loop whose extent is not known."""
GATHER = 1.0
SCATTER = 2.0
"""Per element, where one of a contiguous vector costs 1 / lanes."""
MOST_GATHERED = 16
"""Lanes of a vector loop that gathers, at most."""

_WEIGHTS = {
    "maximum": 4, "minimum": 4, "divide": 4, "fmod": 60, "sqrt": 4, "rsqrt": 6, "pow": 60, "exp": 14, "exp2": 12,
    "expm1": 20, "log": 18, "log2": 18, "log1p": 22, "tanh": 20, "logistic": 20, "erf": 24, "sin": 30, "cos": 30,
    "log10": 40, "sinh": 24, "cosh": 18, "asinh": 100, "acosh": 100, "atanh": 80, "tan": 80, "asin": 20, "acos": 24,
    "atan": 20, "atan2": 30, "cbrt": 30, "hypot": 24, "erfc": 100, "erf_inv": 100, "lgamma": 140, "digamma": 140,
    "zeta": 1000, "polygamma": 1000, "bessel_i0e": 200, "bessel_i1e": 200, "igamma": 1000, "igammac": 1000,
    "igamma_grad_a": 1000, "nextafter": 9, "round_away": 6,
}
"""Vector instructions of one operation; 1 if not listed."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value computed in the innermost of the loops over `axes` (outermost first): stored at `offset`, or folded."""

    axes: tuple[int, ...]
    value: Value
    offset: Affine | None
    fold: FoldValue | None


def op_weight(name: str) -> int:
    return _WEIGHTS.get(name, 1)


def weight(value: Value, stop: dict[int, Value] | None = None) -> int:
    """Instructions to compute the value from loads and names; what is in `stop` is free."""
    return sum(op_weight(x.op.name) for x in walk_values(value, stop=stop or {})
               if isinstance(x, Apply) and (not stop or id(x) not in stop))


def estimate(extent: Size) -> int:
    """Iterations that are planned for."""
    if isinstance(extent, int):
        return extent
    low, high = bounds(extent)
    return max(low, min(TYPICAL_EXTENT, high))


def best_vector_axis(graph: Graph, leaves: Sequence[Leaf], target: CpuTarget) -> int | None:
    """The axis whose loop should be a vector loop; None where none gains."""
    candidates = list(dict.fromkeys(axis for leaf in leaves for axis in leaf.axes))
    costs = {axis: _cost(graph, leaves, axis, target) for axis in candidates}
    scalar = _cost(graph, leaves, None, target)
    if not costs:
        return None
    depth = {axis: max(leaf.axes.index(axis) for leaf in leaves if axis in leaf.axes) for axis in candidates}
    best = min(candidates, key=lambda axis: (costs[axis], -depth[axis]))
    return best if costs[best] < scalar else None


def _cost(graph: Graph, leaves: Sequence[Leaf], vector: int | None, target: CpuTarget) -> float:
    lanes = 1 if vector is None else lanes_for(graph, leaves, vector, target)
    return sum(_leaf_cost(graph, leaf, vector, lanes) for leaf in leaves)


def _leaf_cost(graph: Graph, leaf: Leaf, vector: int | None, lanes: int) -> float:
    """The cost of everything computed in a leaf, where `vector` is the vector loop's axis."""
    counts = {axis: estimate(graph.extents[axis]) for axis in leaf.axes}
    if vector in counts:
        shrink = math.ceil(counts[vector] / lanes) / max(1, counts[vector])
    else:
        vector, shrink = None, 1.0
    total = 0.0
    for value in walk_values(leaf.value):
        runs, free = _runs(graph, leaf, value, counts), graph.free(value)
        vectorised = shrink if vector in leaf.axes[:_depth(graph, leaf, value)] else 1.0
        match value:
            case Load(offset=offset):
                total += runs * _access(offset, vector, vectorised, GATHER)
            case Apply(op=op):
                total += runs * vectorised * op_weight(op.name)
            case Choose() | IndexValue():
                total += runs * vectorised * (2 if vector in free else 1)
            case _:
                pass
    if leaf.offset is not None:
        total += math.prod(counts.values()) * _access(leaf.offset, vector, shrink, SCATTER)
    if leaf.fold is not None:
        update = op_weight(leaf.fold.op.name)
        total += math.prod(counts.values()) * shrink * update
        if vector in leaf.fold.axes:
            outside = math.prod(n for axis, n in counts.items() if axis not in leaf.fold.axes)
            total += outside * (1 + update) * math.log2(lanes)
    return total


def _depth(graph: Graph, leaf: Leaf, value: Value) -> int:
    """How many of the leaf's loops are around a value that is computed as far out as it can be."""
    free = graph.free(value)
    return max((n + 1 for n, axis in enumerate(leaf.axes) if axis in free), default=0)


def _runs(graph: Graph, leaf: Leaf, value: Value, counts: dict[int, int]) -> int:
    return math.prod(counts[axis] for axis in leaf.axes[:_depth(graph, leaf, value)])


def _access(offset: Affine, vector: int | None, vectorised: float, scattered: float) -> float:
    stride = dict(offset.terms).get(vector, 0) if vector is not None else 0
    return vectorised if stride in (0, 1) else scattered


def lanes_for(graph: Graph, leaves: Sequence[Leaf], axis: int, target: CpuTarget) -> int:
    """Lanes of a vector loop over `axis`: as many of the widest dtype in it as a register holds, no more than
    the loop has iterations (rounded up to a power of two)."""
    inside = [leaf for leaf in leaves if axis in leaf.axes]
    bits, gathers = 8, False
    for leaf in inside:
        gathers |= leaf.offset is not None and dict(leaf.offset.terms).get(axis, 0) not in (0, 1)
        for value in walk_values(leaf.value):
            if axis not in graph.free(value) and not isinstance(value, Constant):
                continue
            if not isinstance(value, Read) and value.dtype != BOOL:
                bits = max(bits, _working_bits(value))
            if isinstance(value, Load):
                gathers |= dict(value.offset.terms).get(axis, 0) not in (0, 1)
        bits = max(bits, 8 * leaf.value.dtype.bytes)
    lanes = max(1, target.vector_bits // bits)
    if gathers:
        lanes = min(lanes, MOST_GATHERED)
    extent = graph.extents[axis]
    if isinstance(extent, int):
        lanes = min(lanes, 1 << max(0, extent - 1).bit_length())
    return lanes


def _working_bits(value: Value) -> int:
    """The width in which a value is computed: what is done to f16 and bf16 is done in f32."""
    if isinstance(value, Apply) and not value.op.takes_narrow and any(
            x.dtype.is_narrow_float for x in (value, *value.operands)):
        return 32
    return 8 * value.dtype.bytes


def order_by_stride(graph: Graph, axes: tuple[int, ...], value: Value) -> tuple[int, ...]:
    """The axes, those along which loads take the greatest steps first."""
    def step(axis: int) -> tuple[int, int]:
        strides = [c for x in walk_values(value) if isinstance(x, Load) for a, c in x.offset.terms if a == axis]
        numbers = [abs(c) for c in strides if isinstance(c, int)]
        return (min(numbers) if numbers else TYPICAL_EXTENT * TYPICAL_EXTENT, -axis)

    return tuple(sorted(axes, key=lambda axis: (-step(axis)[0], axis)))

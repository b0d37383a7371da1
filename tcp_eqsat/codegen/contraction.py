"""Register tiles of contractions, and operands packed for them.

A contraction's accumulators stay in registers: `rows` copies of a loop along which one operand moves, times
`columns` vectors along which the other moves, for which in each step the second operand's vectors are loaded once
and the first's elements are spread. The tile obeys rows * columns + columns + 1 <= registers.

Where the second operand is large, its columns are packed: what a tile reads lies in one piece, a panel. A constant
is packed once, ahead of all runs (see `loops.Panels`). Anything else is copied for one step of the loop over columns,
which pays if enough rows use the copy.
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace

from tcp_eqsat.codegen.graph import FoldValue, Graph
from tcp_eqsat.codegen.loops import Apply, Load, Panels, Read, Value, walk_values
from tcp_eqsat.codegen.schedule_cost import Leaf, best_vector_axis, estimate, lanes_for, order_by_stride, weight
from tcp_eqsat.codegen.target import CpuTarget
from tcp_eqsat.lang.dims import Size
from tcp_eqsat.lang.pointful import Affine, axis_index

HEAVY = 12
"""Instructions after a contraction from which its results are kept in a scratch row."""
ROW_TILE = 8
"""Rows of a tile that few rows are cut into."""
UNROLL = 4
"""Steps of the contracted loop between jumps."""


ROWS_TO_PACK = 64
"""Rows from which a copy of the columns pays."""
ROWS_TO_TRANSPOSE = 32
"""The same where both operands are contiguous along the contracted axis, and the copy gathers."""
MATVEC_VECTORS = 3
"""Times as many vectors side by side where there is one row: it is read in longer pieces."""
PANEL_STEPS_AHEAD = 16
"""Steps of the contracted loop by which a panel is fetched ahead."""
STREAM_STEPS_AHEAD = 8
"""The same for an operand that is loaded as it is, whose rows may compete for the same places in the cache."""


@dataclass(frozen=True, slots=True)
class Packing:
    """The operand `value` of the contraction `fold` in panels, along the loop over `axis`.

    `ahead`: a constant, packed before all runs. `rows` is the axis whose loop uses a copy again and again.
    """

    value: Value
    fold: FoldValue
    axis: int
    rows: int | None
    ahead: bool


@dataclass(frozen=True, slots=True)
class Tile:
    """How a nest's contraction runs.

    order    of the nest's loops (empty: as they come)
    copies   of the loops around the contraction, by axis
    kept     the contraction whose results go to a scratch row over the axis `along` before anything else is done with
             them: what follows is so much that code for it in every copy would not pay
    packing  of the operand that moves along the vector
    stream   that operand, where it is large and loaded as it is: worth fetching ahead
    """

    order: tuple[int, ...]
    copies: dict[int, int]
    kept: str = ""
    along: int | None = None
    packing: Packing | None = None
    stream: Load | None = None

    @property
    def vector(self) -> int | None:
        """The axis of the vector loop where that is settled."""
        return None if self.packing is None else self.packing.axis


NO_TILE = Tile((), {})


def choose_tile(graph: Graph, order: tuple[int, ...], leaves: Sequence[Leaf], target: CpuTarget,
                constants: Container[str] = (), many_rows: bool = True) -> Tile:
    """The tile of the first contraction among the leaves; an empty one where there is none.

    `constants` are the arrays that can be packed ahead; others are packed only where there are `many_rows`.
    """
    leaf = next((x for x in leaves if x.fold is not None and x.fold.fused), None)
    if leaf is None or leaf.fold is None:
        return NO_TILE
    fold = leaf.fold
    vector = best_vector_axis(graph, leaves, target)
    packing = _choose_packing(graph, fold, leaf, leaves, vector, target, constants, many_rows)
    vector = vector if packing is None else packing.axis
    rows, columns = _sides(graph, fold, leaf.axes, vector)
    lanes = 1 if vector is None else lanes_for(graph, leaves, vector, target)
    copies: dict[int, int] = {}
    if vector in fold.axes or vector is None:
        across = 4 if target.registers >= 32 else 2
        copies |= {axis: min(across, _most(graph, axis, 1)) for axis in (rows, columns) if axis is not None}
        return Tile((), {a: n for a, n in copies.items() if n > 1})
    vectors = _vectors(graph, rows, _most(graph, vector, lanes), packing, target)
    copies[vector] = vectors
    if rows is not None:
        most = min(12 if vectors == 1 else target.registers, (target.registers - vectors - 1) // vectors)
        extent = graph.extents[rows]
        copies[rows] = _balanced(extent, most) if isinstance(extent, int) else _dynamic_rows(most)
    copies = {a: n for a, n in copies.items() if n > 1}
    inner = vector
    if rows is not None and len([x for x in leaves if x.fold is not None]) == 1:
        swapped = _columns_outside(graph, order, fold, rows, vector, vectors * lanes, packing, target)
        order, inner = (swapped, rows) if swapped else (order, vector)
    else:
        swapped = ()
    if packing is not None and not packing.ahead and not swapped:
        return choose_tile(graph, order, leaves, target, constants, many_rows=False)
    stream = _stream(graph, fold, vector, target) if packing is None and rows is not None else None
    tile = Tile(order, copies, packing=packing, stream=stream)
    if copies and fold.free >= set(copies) and _epilogue(leaves, fold) > HEAVY:
        return replace(tile, kept=fold.name, along=inner)
    return tile


def _vectors(graph: Graph, rows: int | None, count: int, packing: Packing | None, target: CpuTarget) -> int:
    """Vectors side by side in a tile, of `count`: fewer where that lets all rows, or more of them, share a load."""
    most = 4 if target.registers >= 32 else 2
    if rows is None:
        return _balanced(count, min(most if packing is not None else MATVEC_VECTORS * most, count))
    extent = graph.extents[rows]
    best = _balanced(count, min(most, count))
    if isinstance(extent, int) and extent <= 4 * ROW_TILE and best == most:
        def passes(vectors: int) -> int:
            return -(-extent // max(1, (target.registers - vectors - 1) // vectors))

        best = min(range(most, 1, -1), key=lambda vectors: (passes(vectors), -vectors))
    return best


def _choose_packing(graph: Graph, fold: FoldValue, leaf: Leaf, leaves: Sequence[Leaf], vector: int | None,
                    target: CpuTarget, constants: Container[str], many_rows: bool) -> Packing | None:
    """What is packed; None where it does not pay."""
    if vector is None or not isinstance(fold.body, Apply) or len(fold.body.operands) != 2:
        return None
    candidates = [vector]
    if vector in fold.axes:
        stored = {axis for x in leaves if x.offset is not None for axis, c in x.offset.terms if c == 1}
        candidates = [axis for axis in leaf.axes if axis in stored and axis not in fold.axes]
    for axis in candidates:
        moving = [x for x in fold.body.operands if axis in graph.free(x)]
        rows = _sides(graph, fold, leaf.axes, axis)[0]
        if len(moving) != 1 or moving[0].dtype.bits > 64 or not graph.free(moving[0]) & set(fold.axes):
            continue
        value = moving[0]
        size = math.prod(estimate(graph.extents[a]) for a in graph.free(value)) * value.dtype.bytes
        if isinstance(value, Load) and value.array in constants:
            if size > target.l1_bytes or vector in fold.axes:
                return Packing(value, fold, axis, rows, True)
        elif rows is not None and many_rows and (size > target.l2_bytes // 2 or vector in fold.axes):
            extent = graph.extents[rows]
            least = ROWS_TO_TRANSPOSE if vector in fold.axes else ROWS_TO_PACK
            if not isinstance(extent, int) or extent >= least:
                return Packing(value, fold, axis, rows, False)
    return None


def _stream(graph: Graph, fold: FoldValue, vector: int, target: CpuTarget) -> Load | None:
    """The operand that moves along the vector, where it does not stay in cache and adjacent lanes load neighbours."""
    operands = fold.body.operands if isinstance(fold.body, Apply) else ()
    for x in operands:
        if isinstance(x, Load) and vector in graph.free(x) and dict(x.offset.terms)[vector] == 1:
            size = math.prod(estimate(graph.extents[axis]) for axis in graph.free(x)) * x.dtype.bytes
            return x if size > target.l2_bytes // 2 else None
    return None


def panels_of(graph: Graph, packing: Packing, width: int, position: int) -> tuple[Panels, Affine]:
    """How a constant is packed, and where in the copy its value is; `position` counts columns within a panel."""
    load, fold = packing.value, packing.fold
    assert isinstance(load, Load)
    strides = {axis: _number(c) for axis, c in load.offset.terms}
    steps = [axis for axis in order_by_stride(graph, fold.axes, fold.body) if axis in strides]
    batch = sorted((a for a in strides if a not in steps and a != packing.axis), key=lambda a: -strides[a])
    panels = Panels(
        load.array, _number(load.offset.offset),
        tuple((_number(graph.extents[a]), strides[a]) for a in (*batch, *steps)), len(batch),
        _number(graph.extents[packing.axis]), strides[packing.axis], width)
    place = axis_index(packing.axis).scaled(panels.steps) + axis_index(position).scaled(1 - panels.steps)
    for axes, stride in ((steps, width), (batch, panels.matrix)):
        for axis in reversed(axes):
            place = place + axis_index(axis).scaled(stride)
            stride *= _number(graph.extents[axis])
    return panels, place


def _number(size: Size) -> int:
    """A size of a constant, which is known."""
    assert isinstance(size, int)
    return size


def _columns_outside(graph: Graph, order: tuple[int, ...], fold: FoldValue, rows: int, vector: int, width: int,
                     packing: Packing | None, target: CpuTarget) -> tuple[int, ...]:
    """The loops with that over columns outside that over rows, where the operand that moves along the columns would
    not stay in cache from one row of tiles to the next, but what a tile needs of it (`width` columns) would from one
    tile to the next; empty otherwise, or where the two loops are not neighbours."""
    place = order.index(rows)
    if order[place + 1:place + 2] != (vector,) or not isinstance(fold.body, Apply):
        return ()
    moved = next((x for x in fold.body.operands if vector in graph.free(x)), None)
    if moved is None:
        return ()
    size = math.prod(estimate(graph.extents[axis]) for axis in graph.free(moved)) * moved.dtype.bytes
    panel = size * width // max(1, estimate(graph.extents[vector]))
    pays = packing is not None or panel <= target.l2_bytes // 2 < size
    return (*order[:place], vector, rows, *order[place + 2:]) if pays else ()


def _epilogue(leaves: Sequence[Leaf], fold: FoldValue) -> int:
    """How much is computed from the contraction where it is stored."""
    return sum(weight(x.value) for x in leaves if x.fold is None and any(
        isinstance(value, Read) and value.name == fold.name for value in walk_values(x.value)))


def _dynamic_rows(most: int) -> int:
    """Rows of a tile where the number of rows is not known: it is halved for the last ones."""
    return 8 if most >= 8 else most


def _balanced(count: int, most: int) -> int:
    """The tile of at most `most` that cuts `count` into as few and as equal parts as can be."""
    if count <= 0:
        return 1
    return -(-count // -(-count // most))


def _most(graph: Graph, axis: int, lanes: int) -> int:
    """How many steps of `lanes` an axis has; a large number where that is not known."""
    extent = graph.extents[axis]
    return -(-extent // lanes) if isinstance(extent, int) else 1 << 30


def _sides(graph: Graph, fold: FoldValue, axes: tuple[int, ...],
           vector: int | None) -> tuple[int | None, int | None]:
    """The innermost loops along which one operand moves and the other does not: (other than the vector, vector)."""
    if not isinstance(fold.body, Apply) or len(fold.body.operands) != 2:
        return None, None
    x, y = (graph.free(operand) - frozenset(fold.axes) for operand in fold.body.operands)
    domain = [axis for axis in axes if axis not in fold.axes and estimate(graph.extents[axis]) > 1]
    only_x = [axis for axis in domain if axis in x - y]
    only_y = [axis for axis in domain if axis in y - x]
    swapped = bool(only_x and only_y) and axes.index(only_x[-1]) > axes.index(only_y[-1])
    if vector in only_x or (vector not in only_y and swapped):
        only_x, only_y = only_y, only_x
    return (only_x[-1] if only_x else None), (only_y[-1] if only_y else None)

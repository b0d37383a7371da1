"""Register tiles of contractions.

A contraction's accumulators stay in registers: `rows` copies of a loop along which one operand moves, times
`columns` vectors along which the other moves, for which in each step the second operand's vectors are loaded once
and the first's elements are spread. The tile obeys rows * columns + columns + 1 <= registers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tcp_eqsat.codegen.graph import FoldValue, Graph
from tcp_eqsat.codegen.loops import Apply, Read, walk_values
from tcp_eqsat.codegen.schedule_cost import Leaf, best_vector_axis, estimate, lanes_for, weight
from tcp_eqsat.codegen.target import CpuTarget

HEAVY = 12
"""Instructions after a contraction from which its results are kept in a scratch row."""
UNROLL = 4
"""Steps of the contracted loop between jumps."""


@dataclass(frozen=True, slots=True)
class Tile:
    """How a nest's contraction runs.

    order    of the nest's loops (empty: as they come)
    copies   of the loops around the contraction, by axis
    kept     the contraction whose results go to a scratch row over the axis `along` before anything else is done with
             them: what follows is so much that code for it in every copy would not pay
    """

    order: tuple[int, ...]
    copies: dict[int, int]
    kept: str = ""
    along: int | None = None


NO_TILE = Tile((), {})


def choose_tile(graph: Graph, order: tuple[int, ...], leaves: Sequence[Leaf], target: CpuTarget) -> Tile:
    """The tile of the first contraction among the leaves; an empty one where there is none."""
    leaf = next((x for x in leaves if x.fold is not None and x.fold.fused), None)
    if leaf is None or leaf.fold is None:
        return NO_TILE
    fold = leaf.fold
    vector = best_vector_axis(graph, leaves, target)
    rows, columns = _sides(graph, fold, leaf.axes, vector)
    lanes = 1 if vector is None else lanes_for(graph, leaves, vector, target)
    copies: dict[int, int] = {}
    if vector in fold.axes or vector is None:
        across = 4 if target.registers >= 32 else 2
        copies |= {axis: min(across, _most(graph, axis, 1)) for axis in (rows, columns) if axis is not None}
        return Tile((), {a: n for a, n in copies.items() if n > 1})
    vectors = min(4 if target.registers >= 32 else 2, _most(graph, vector, lanes))
    vectors = _balanced(_most(graph, vector, lanes), vectors)
    copies[vector] = vectors
    if rows is not None:
        most = min(12 if vectors == 1 else 8, (target.registers - vectors - 1) // vectors)
        extent = graph.extents[rows]
        copies[rows] = _balanced(extent, most) if isinstance(extent, int) else _dynamic_rows(most)
    copies = {a: n for a, n in copies.items() if n > 1}
    inner = vector
    if rows is not None and len([x for x in leaves if x.fold is not None]) == 1:
        swapped = _columns_outside(graph, order, fold, rows, vector, vectors * lanes, target)
        order, inner = (swapped, rows) if swapped else (order, vector)
    if copies and fold.free >= set(copies) and _epilogue(leaves, fold) > HEAVY:
        return Tile(order, copies, fold.name, inner)
    return Tile(order, copies)


def _columns_outside(graph: Graph, order: tuple[int, ...], fold: FoldValue, rows: int, vector: int, width: int,
                     target: CpuTarget) -> tuple[int, ...]:
    """The loops with that over columns outside that over rows, where the operand that moves along the columns would
    not stay in cache from one row of tiles to the next, but what a tile needs of it (`width` columns) would from one
    tile to the next; empty otherwise, or where the two loops are not neighbours."""
    place = order.index(rows)
    if order[place + 1:place + 2] != (vector,) or not isinstance(fold.body, Apply):
        return ()
    moved = next(x for x in fold.body.operands if vector in graph.free(x))
    size = math.prod(estimate(graph.extents[axis]) for axis in graph.free(moved)) * moved.dtype.bytes
    panel = size * width // max(1, estimate(graph.extents[vector]))
    pays = panel <= target.l2_bytes // 2 < size
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

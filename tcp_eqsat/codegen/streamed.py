"""Contractions that read their large operand once, row by row: where few rows of the other operand meet it.

A register tile walks down the columns of the large operand, so each step touches another piece of memory, and what
lies beside it is fetched much later. With few rows that costs more than the arithmetic. Here some rows of the large
operand are read along their length. Vectors of them stay in registers while all rows of the small operand meet them;
sums wait in a scratch array for the next block of rows. The same for a first block, which may be shorter:

    ordered for k < blocks:
      for j < rows:                          the small operand's part, side by side
        for u < steps vector: part[steps*j + u] = x[j, steps*k + u]
      for i < columns vector copies:
        t1 = y[steps*k, i]; t2 = y[steps*k + 1, i]; ...
        for j < rows copies:
          fold sum: sum <- sums[j, i]; sum <- part[steps*j] * t1; sum <- part[steps*j + 1] * t2; ...
          sums[j, i] = sum
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container
from dataclasses import dataclass

from tcp_eqsat.codegen.contraction import ROW_TILE, ROWS_TO_PACK
from tcp_eqsat.codegen.graph import FoldValue, Graph
from tcp_eqsat.codegen.loops import (
    Accumulator,
    Apply,
    Body,
    Fold,
    For,
    How,
    Let,
    Load,
    Read,
    Statement,
    Store,
    Update,
    Value,
)
from tcp_eqsat.codegen.schedule_cost import Leaf, estimate, lanes_for
from tcp_eqsat.codegen.target import CpuTarget
from tcp_eqsat.lang.dims import Size
from tcp_eqsat.lang.pointful import ZERO, Affine, axis_index
from tcp_eqsat.lang.types import DType

LINE = 64
"""Bytes of a cache line: rows of sums begin on different ones."""
PAGE = 4096
"""Bytes within which a processor fetches ahead by itself, also from row to row."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How much is held in registers: vectors of `steps` rows, `across` side by side, and sums of `copies` rows."""

    steps: int
    across: int
    copies: int


ONE_ROW = Shape(6, 4, 1)
"""With one row nothing is used twice: these are as many streams, and pieces of each, as memory serves best."""


def _shape(rows: int | None, target: CpuTarget) -> Shape:
    if rows is None:
        return ONE_ROW
    copies = 4 if target.registers >= 32 else 3
    return Shape(min(10, (target.registers - 2 * copies - 1) // 2), 2, copies)


@dataclass(frozen=True, slots=True)
class Streamed:
    """A contraction over one axis. `large` is contiguous along the axis `columns`; `small` moves along `rows`."""

    fold: FoldValue
    small: Load
    large: Load
    columns: int
    rows: int | None
    lanes: int
    shape: Shape

    @property
    def contracted(self) -> int:
        return self.fold.axes[0]


def choose_streamed(graph: Graph, leaf: Leaf, target: CpuTarget, constants: Container[str],
                    many_rows: bool) -> Streamed | None:
    """The leaf's contraction, if it is better streamed: an operand that is no constant and does not stay in cache,
    and few rows. A number of rows that is known only at run time is taken for many or few as `many_rows` says."""
    fold = leaf.fold
    if fold is None or not fold.fused or len(fold.axes) != 1 or not isinstance(fold.body, Apply):
        return None
    for large, small in (fold.body.operands, fold.body.operands[::-1]):
        if isinstance(large, Load) and isinstance(small, Load) and large.array not in constants:
            found = _streamed(graph, leaf, fold, large, small, target)
            if found is not None and _few(graph, found, many_rows) and not _fits_tile(graph, found):
                return found
    return None


def _streamed(graph: Graph, leaf: Leaf, fold: FoldValue, large: Load, small: Load,
              target: CpuTarget) -> Streamed | None:
    (contracted,) = fold.axes
    columns = [a for a, c in large.offset.terms if c == 1 and a != contracted]
    if len(columns) != 1 or graph.free(large) != {contracted, columns[0]}:
        return None
    rows = fold.free - {columns[0]}
    steps = graph.extents[contracted]
    size = math.prod(estimate(graph.extents[axis]) for axis in graph.free(large)) * large.dtype.bytes
    if (len(rows) > 1 or graph.free(small) != rows | {contracted} or not isinstance(steps, int) or steps == 0
            or size <= target.l2_bytes // 2):
        return None
    lanes = lanes_for(graph, [leaf], columns[0], target)
    row = next(iter(rows), None)
    return Streamed(fold, small, large, columns[0], row, lanes, _shape(row, target)) if lanes > 1 else None


def _few(graph: Graph, streamed: Streamed, many_rows: bool) -> bool:
    if streamed.rows is None:
        return True
    rows = graph.extents[streamed.rows]
    return rows <= ROWS_TO_PACK if isinstance(rows, int) else not many_rows


def _fits_tile(graph: Graph, streamed: Streamed) -> bool:
    """Whether a register tile reads the large operand once too, in steps that are short enough."""
    if streamed.rows is None:
        return False
    rows, step = graph.extents[streamed.rows], dict(streamed.large.offset.terms)[streamed.contracted]
    return (isinstance(rows, int) and rows <= ROW_TILE
            and isinstance(step, int) and abs(step) * streamed.large.dtype.bytes <= PAGE)


def write_streamed(graph: Graph, streamed: Streamed, array: Callable[[DType, Size], str],
                   name: Callable[[], str]) -> tuple[list[Statement], Load]:
    """The loops, and where the results lie after them. `array` makes a scratch array, `name` a name for a value."""
    return _Writer(graph, streamed, array, name).write()


class _Writer:
    def __init__(self, graph: Graph, streamed: Streamed, array: Callable[[DType, Size], str],
                 name: Callable[[], str]) -> None:
        self.graph = graph
        self.streamed = streamed
        self.name = name
        dtype, columns = streamed.fold.dtype, graph.extents[streamed.columns]
        self.place = axis_index(streamed.columns)
        if streamed.rows is None:
            self.sums = array(dtype, columns)
            return
        rows = graph.extents[streamed.rows]
        capacity = rows if isinstance(rows, int) else ROWS_TO_PACK
        line = LINE // dtype.bytes
        whole = -(-columns // line) * line if isinstance(columns, int) else columns
        self.place = self.place + axis_index(streamed.rows).scaled(whole + line)
        self.sums = array(dtype, (whole + line) * capacity)
        self.part = array(streamed.small.dtype, streamed.shape.steps * capacity)

    def write(self) -> tuple[list[Statement], Load]:
        streamed, steps = self.streamed, self.streamed.shape.steps
        extent = self.graph.extents[streamed.contracted]
        assert isinstance(extent, int)
        first = extent % steps or steps
        statements = self._block(ZERO, first, ())
        blocks = (extent - first) // steps
        if blocks:
            block = self.graph.axis(blocks)
            before = (Update(streamed.fold.name, Load(self.sums, self.place, streamed.fold.dtype)),)
            body = self._block(axis_index(block).scaled(steps) + first, steps, before)
            statements.append(For(block, blocks, tuple(body), How(ordered=True)))
        return statements, self.graph.row(self.sums, self.place, streamed.fold.dtype, streamed.fold.free)

    def _block(self, start: Affine, steps: int, before: tuple[Update, ...]) -> list[Statement]:
        """What `steps` rows of the large operand from `start` add to the sums; `before` are the first updates."""
        streamed, shape = self.streamed, self.streamed.shape
        fold = streamed.fold
        assert isinstance(fold.body, Apply)
        statements: list[Statement] = []
        inside: list[Statement] = []
        updates = list(before)
        for step in range(steps):
            large: Value = self._at(streamed.large, start + step)
            small = self._at(streamed.small, start + step)
            if streamed.rows is not None:
                let = Let(self.name(), large)
                inside.append(let)
                large = Read(let.name, large.dtype)
                place = axis_index(streamed.rows).scaled(shape.steps) + step
                small = Load(self.part, place, small.dtype)
            pair = tuple(large if x is streamed.large else small for x in fold.body.operands)
            updates.append(Update(fold.name, Apply(fold.body.op, pair, fold.dtype), fused=True))
        sums: Body = (Fold((Accumulator(fold.name, fold.op, fold.dtype),), tuple(updates)),
                      Store(self.sums, self.place, Read(fold.name, fold.dtype)))
        if streamed.rows is not None:
            statements.append(self._side_by_side(start, steps))
            sums = (For(streamed.rows, self.graph.extents[streamed.rows], sums, How(copies=shape.copies)),)
        columns = self.graph.extents[streamed.columns]
        across = min(shape.across, -(-columns // streamed.lanes)) if isinstance(columns, int) else shape.across
        how = How(streamed.lanes, max(1, across))
        return [*statements, For(streamed.columns, columns, (*inside, *sums), how)]

    def _side_by_side(self, start: Affine, steps: int) -> For:
        """Copies what a block needs of the small operand, whose rows may lie so far apart that they would compete
        for places in the cache."""
        small, rows = self.streamed.small, self.streamed.rows
        assert rows is not None
        step = self.graph.axis(steps)
        place = axis_index(rows).scaled(self.streamed.shape.steps) + axis_index(step)
        copy = Store(self.part, place, self._at(small, start + axis_index(step)))
        return For(rows, self.graph.extents[rows], (For(step, steps, (copy,), How(self.streamed.lanes)),))

    def _at(self, load: Load, step: Affine) -> Load:
        """An operand at a step of the contracted axis."""
        return Load(load.array, load.offset.substitute({self.streamed.contracted: step}), load.dtype)

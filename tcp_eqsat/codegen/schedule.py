"""Kernels to loop nests: what is computed where, what is kept, which loops are vectors.

A nest has the loops of its outputs' axes. A value is computed at the outermost level where the axes it depends on
are bound: a fold in loops of its own ahead of the next loop (see `stages`), anything else by a Let.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from tcp_eqsat.codegen.axes import simplify_axes
from tcp_eqsat.codegen.contraction import (
    NO_TILE,
    PANEL_STEPS_AHEAD,
    ROWS_TO_PACK,
    STREAM_STEPS_AHEAD,
    UNROLL,
    Packing,
    choose_tile,
    panels_of,
)
from tcp_eqsat.codegen.graph import FoldValue, Graph, Output, inline_kernel
from tcp_eqsat.codegen.loops import (
    BYPASS_WIDTHS,
    SERIAL,
    Access,
    Accumulator,
    Apply,
    Array,
    Constant,
    Each,
    Fold,
    For,
    How,
    If,
    Let,
    Load,
    Nest,
    Prefetch,
    Read,
    Statement,
    Store,
    Update,
    Value,
    operands_of,
    value_of_statement,
    walk_statements,
    walk_values,
)
from tcp_eqsat.codegen.schedule_cost import Leaf, best_vector_axis, lanes_for, order_by_stride, weight
from tcp_eqsat.codegen.stages import Place, Row, Scope, Stage, Task, shared_values
from tcp_eqsat.codegen.streamed import choose_streamed, write_streamed
from tcp_eqsat.codegen.target import CpuTarget
from tcp_eqsat.lang.dims import Size, bounds, product
from tcp_eqsat.lang.plan import Kernel, Plan, Role
from tcp_eqsat.lang.pointful import ZERO, Affine, IndexRange, axis_index
from tcp_eqsat.lang.types import DType

ENOUGH_CHAINS = 8
"""Independent additions that keep the units busy; loops around a fold that make as many leave its own loop alone."""

BYPASSING_STEPS = 64
"""Vectors in a row from which it may be stored around the caches: one begins and ends with a masked vector."""


def schedule_kernel(kernel: Kernel, plan: Plan, target: CpuTarget, last: frozenset[str] = frozenset()) -> Nest:
    """The kernel as a nest of loops for `target`. Nothing in the plan reads the buffers `last` after it."""
    graph, outputs = simplify_axes(*inline_kernel(kernel, plan))
    constants = frozenset(b.name for b in plan.buffers.values() if b.role is Role.CONSTANT)
    scheduler = _Scheduler(graph, target, constants, last)
    body: list[Statement] = []
    for group in _groups(graph, outputs):
        body += scheduler.nest(group)
    own = [*scheduler.packed.values(), *scheduler.scratch]
    return Nest(kernel.name, _arrays(body, plan, own), tuple(body), kernel.origin)


def _arrays(body: Sequence[Statement], plan: Plan, known: list[Array]) -> tuple[Array, ...]:
    """The arrays of the nest: buffers that it reads, those that it writes, and what is known already."""
    reads: dict[str, None] = {}
    writes: dict[str, None] = {}
    own = {a.name for a in known}
    for statement in walk_statements(tuple(body)):
        if isinstance(statement, Store):
            writes[statement.array] = None
        root = value_of_statement(statement)
        if root is not None:
            reads |= {x.array: None for x in walk_values(root) if isinstance(x, Load)}
    found = []
    for names, access in ((reads, Access.READ), (writes, Access.WRITE)):
        for name in names:
            if name not in own:
                type_ = plan.buffers[name].type
                found.append(Array(name, type_.dtype, product(type_.shape), access))
    return (*found, *known)


def _groups(graph: Graph, outputs: tuple[Output, ...]) -> list[list[Output]]:
    """Outputs that share loops: those of equal axes, and smaller ones whose axes come first in the order."""
    groups: list[list[Output]] = []
    for output in sorted(outputs, key=lambda o: -len(o.axes)):
        for group in groups:
            order = _domain_order(graph, group)
            if set(order[:len(output.axes)]) == set(output.axes):
                group.append(output)
                break
        else:
            groups.append([output])
    return groups


def _domain_order(graph: Graph, group: list[Output]) -> tuple[int, ...]:
    """The loops of a group, outermost first: axes that folds depend on before others, rows before columns."""
    axes = group[0].axes
    folds = graph.reachable_folds(*(o.value for o in group))
    uses = {axis: sum(axis in fold.free for fold in folds) for axis in axes}
    return tuple(sorted(axes, key=lambda axis: (-uses[axis], axes.index(axis))))


class _Scheduler:
    def __init__(self, graph: Graph, target: CpuTarget, constants: frozenset[str], last: frozenset[str]) -> None:
        self.graph = graph
        self.target = target
        self.constants = constants  # arrays that can be packed ahead
        self.last = last  # arrays that nothing reads after this kernel
        self.scratch: list[Array] = []
        self.packed: dict[str, Array] = {}  # copies of constants, by name
        self.tile = NO_TILE
        self.top = Scope()  # what is known outside all loops
        self.open: dict[int, How] = {}  # the open loops
        self.positions: dict[int, int] = {}  # position indices asked for, by axis
        self.lets = 0

    def nest(self, group: list[Output]) -> list[Statement]:
        """The loops of a group; two forms of them where the number of rows decides which is better."""
        many, scope = self._tiled(group, many_rows=True)
        packing = self.tile.packing
        rows = None if packing is None or packing.ahead or packing.rows is None else self.graph.extents[packing.rows]
        if rows is None or isinstance(rows, int) or bounds(rows)[0] >= ROWS_TO_PACK:
            self.top = scope
            return many
        least, most = bounds(rows)
        few, _ = self._tiled(group, many_rows=False)
        return [If((IndexRange(ZERO + rows, least, ROWS_TO_PACK),), tuple(few)),
                If((IndexRange(ZERO + rows, ROWS_TO_PACK, most + 1),), tuple(many))]

    def _tiled(self, group: list[Output], many_rows: bool) -> tuple[list[Statement], Scope]:
        """The loops of a group with the tile for many or few rows, and what is known after them."""
        order = _domain_order(self.graph, group)
        scope = self.top.copy()
        tasks = [Task(order, o.value, o.array, o.offset) for o in group]
        statements = self._streamed(tasks, scope, many_rows)
        leaves = self._place((), tasks, scope).leaves
        self.tile = choose_tile(self.graph, order, leaves, self.target, self.constants, many_rows)
        order = self.tile.order or order
        tasks = [
            Task(tuple(a for a in order if a in o.axes), o.value, o.array, o.offset) for o in group]
        return [*statements, *self._block((), tasks, scope)], scope

    def _streamed(self, tasks: list[Task], scope: Scope, many_rows: bool) -> list[Statement]:
        """The loops of contractions that are computed row by row of an operand, before all else."""
        statements: list[Statement] = []
        for leaf in self._place((), tasks, scope).leaves:
            streamed = choose_streamed(self.graph, leaf, self.target, self.constants, many_rows)
            if streamed is not None:
                loops, results = write_streamed(self.graph, streamed, self._array, self._name)
                statements += loops
                fold = streamed.fold
                scope.known[id(self.graph.read(fold.name, fold.dtype, fold.free))] = results
        return statements

    # Blocks

    def _block(self, bound: tuple[int, ...], tasks: list[Task], scope: Scope) -> list[Statement]:
        """What happens inside the loops over `bound`; `scope` learns what is computed there."""
        statements: list[Statement] = []
        stages = self._place(bound, tasks, scope).stages()
        tiled = 1 + max((n for n, stage in enumerate(stages) if stage.contracts), default=-1)
        for stage in stages[:tiled]:
            statements += self._stage(bound, stage, scope)
        how = self.open[bound[-1]] if bound else SERIAL
        if tiled and how.copies > 1 and how.lanes == 1 and not any(stage.folds for stage in stages[:tiled]):
            self.open[bound[-1]] = replace(how, copies=1)
            statements.append(Each(bound[-1], tuple(self._rest(bound, stages[tiled:], tasks, scope.copy()))))
            self.open[bound[-1]] = how
        else:
            statements += self._rest(bound, stages[tiled:], tasks, scope)
        return statements

    def _place(self, bound: tuple[int, ...], tasks: list[Task], scope: Scope) -> Place:
        return Place(self.graph, self.tile, bound, tasks, scope)

    def _rest(self, bound: tuple[int, ...], stages: list[Stage], tasks: list[Task],
              scope: Scope) -> list[Statement]:
        """What follows the contractions of a block."""
        statements: list[Statement] = []
        for stage in stages:
            statements += self._stage(bound, stage, scope)
        statements += self._leaf([t for t in tasks if not t.axes], scope)
        inner: dict[int, list[Task]] = {}
        for task in tasks:
            if task.axes:
                inner.setdefault(task.axes[0], []).append(task)
        for axis, group in inner.items():
            lets, loop = self._loop(bound, axis, group, scope)
            statements += [*lets, loop]
        return statements

    def _loop(self, bound: tuple[int, ...], axis: int, tasks: list[Task],
              scope: Scope) -> tuple[list[Statement], For]:
        """The loop over the tasks' first axis, and what it needs that does not change in it."""
        lets = self._hoist(bound, tasks, scope)
        how = self._how(bound, axis, tasks, scope)
        self.open[axis] = how
        inside = scope.copy()
        packing = self.tile.packing
        if packing is not None and packing.ahead and packing.axis == axis and how.lanes > 1:
            inside.known[id(packing.value)] = self._packed(packing, how)
        body = self._block((*bound, axis), [t.inside() for t in tasks], inside)
        del self.open[axis]
        how = replace(how, position=self.positions.pop(axis, None), bypass=self._bypasses(axis, how, body))
        return lets, For(axis, self.graph.extents[axis], tuple(body), how)

    def _bypasses(self, axis: int, how: How, body: list[Statement]) -> bool:
        """Whether all that a loop stores are long rows, side by side, of large results that nothing reads again."""
        stores = [s for s in body if isinstance(s, Store)]
        extent = self.graph.extents[axis]
        return (
            self.target.bypass_bytes > 0 and how.lanes > 1 and bool(stores)
            and all(isinstance(s, (Let, Store)) for s in body) and all(x.copies == 1 for x in self.open.values())
            and all(s.array in self.last and dict(s.offset.terms).get(axis) == 1
                    and how.lanes * s.value.dtype.bytes in BYPASS_WIDTHS for s in stores)
            and (not isinstance(extent, int) or extent >= BYPASSING_STEPS * how.lanes))

    def _leaf(self, tasks: list[Task], scope: Scope) -> list[Statement]:
        """The tasks themselves, all their axes bound. What several uses share is named."""
        statements: list[Statement] = []
        for shared in shared_values([self._resolve(t.value, scope) for t in tasks]):
            statements.append(self._let(shared, scope))
        for task in tasks:
            value = self._resolve(task.value, scope)
            if task.row and not isinstance(value, (Read, Constant)):
                statements.append(self._let(task.value, scope))
                value = scope.known[id(task.value)]
            if task.fold is not None:
                statements += self._prefetch(task.fold, scope)
                statements.append(Update(task.fold.name, value, task.fold.fused))
            else:
                statements.append(Store(task.array, task.offset, value))
        return statements

    def _prefetch(self, fold: FoldValue, scope: Scope) -> list[Statement]:
        """A hint for what a contraction reads some steps later along the innermost of its loops."""
        packing, stream = self.tile.packing, self.tile.stream
        load: Value | None
        if packing is not None and fold is packing.fold:
            load, ahead = scope.known.get(id(packing.value)), PANEL_STEPS_AHEAD
        elif stream is not None and any(x is stream for x in walk_values(fold.body)):
            load, ahead = scope.known.get(id(stream), stream), STREAM_STEPS_AHEAD
        else:
            return []
        innermost = order_by_stride(self.graph, fold.axes, fold.body)[-1]
        step = dict(load.offset.terms).get(innermost, 0) if isinstance(load, Load) else 0
        if not isinstance(load, Load) or step == 0:
            return []
        return [Prefetch(load.array, load.offset + step * ahead)]

    def _name(self) -> str:
        """A name for a value."""
        self.lets += 1
        return f"t{self.lets}"

    def _array(self, dtype: DType, size: Size) -> str:
        """A new scratch array."""
        name = f"row{len(self.scratch) + 1}"
        self.scratch.append(Array(name, dtype, size, Access.SCRATCH))
        return name

    def _let(self, value: Value, scope: Scope) -> Let:
        """Names the value."""
        name = self._name()
        resolved = self._resolve(value, scope)
        read = self.graph.read(name, value.dtype, self.graph.free(value))
        scope.known[id(value)] = scope.known[id(resolved)] = read
        return Let(name, resolved)

    def _resolve(self, root: Value, scope: Scope) -> Value:
        """The value in terms of what is known."""
        done: dict[int, Value] = {}
        for value in walk_values(root, stop=scope.known):
            new = scope.known.get(id(value))
            if new is None:
                new = self.graph.rebuild(value, tuple(done[id(x)] for x in operands_of(value)))
                new = scope.known.get(id(new), new)
            done[id(value)] = new
        return done[id(root)]

    def _hoist(self, bound: tuple[int, ...], tasks: list[Task], scope: Scope) -> list[Statement]:
        """Names what the loops inside compute from the axes bound so far."""
        here = frozenset(bound)
        statements: list[Statement] = []
        seen: set[int] = set()
        for leaf in self._place(bound, tasks, scope).leaves:
            pending = [leaf.value]
            while pending:
                value = pending.pop()
                if id(value) in seen or id(value) in scope.known or isinstance(value, (Constant, Read)):
                    continue
                seen.add(id(value))
                if self.graph.free(value) <= here:
                    statements.append(self._let(value, scope))
                elif isinstance(value, Apply):
                    pending.extend(value.operands)
        return statements

    def _stage(self, bound: tuple[int, ...], stage: Stage, scope: Scope) -> list[Statement]:
        """The loops of a stage; then its folds and rows are known."""
        loads: dict[int, Value] = {}
        tasks: list[Task] = []
        for row in stage.rows:
            load = self._allocate(row, bound)
            loads[id(row.value)] = load
            tasks.append(Task(stage.axes, row.value, load.array, load.offset, None, True))
        tasks += [Task(stage.axes, fold.body, fold=fold) for fold in stage.folds]
        lets, loop = self._loop(bound, stage.axes[0], tasks, scope)
        scope.known |= loads
        scope.folds |= {fold.name for fold in stage.folds}
        if not stage.folds:
            return [*lets, loop]
        accumulators = tuple(Accumulator(f.name, f.op, f.dtype) for f in stage.folds)
        return [*lets, Fold(accumulators, (loop,))]

    def _allocate(self, row: Row, bound: tuple[int, ...]) -> Load:
        """A scratch array for a row, and where in it the value of the row's axes is.

        Each copy and lane of the open loops that the value depends on has a place of its own.
        """
        offset: Affine = ZERO
        size: Size = 1
        free = self.graph.free(row.value)
        several = [a for a in bound if a in free and self.open[a].lanes * self.open[a].copies > 1]
        for axis in sorted(several, key=lambda a: -self.open[a].lanes):
            if self.open[axis].lanes > 1:
                offset, size = self._along(axis, offset, size)
        for axis in reversed(row.axes):
            offset = offset + axis_index(axis).scaled(size)
            size = size * self.graph.extents[axis]
        for axis in several:
            if self.open[axis].lanes == 1:
                offset, size = self._along(axis, offset, size)
        name = self._array(row.value.dtype, size)
        return self.graph.row(name, offset, row.value.dtype, free)

    def _along(self, axis: int, offset: Affine, size: Size) -> tuple[Affine, Size]:
        """The offset and size with a place for every iteration of one step of an open loop."""
        count = self.open[axis].lanes * self.open[axis].copies
        return offset + axis_index(self._position(axis)).scaled(size), size * count

    def _position(self, axis: int) -> int:
        """An index that counts iterations from the start of a step of an open loop."""
        if axis not in self.positions:
            self.positions[axis] = self.graph.axis(self.open[axis].lanes * self.open[axis].copies)
        return self.positions[axis]

    def _packed(self, packing: Packing, how: How) -> Load:
        """The value of a constant in its packed copy; the loop over columns runs as `how` says."""
        panels, place = panels_of(self.graph, packing, how.lanes * how.copies, self._position(packing.axis))
        dtype = packing.value.dtype
        name = f"panels{len(self.packed) + 1}"
        self.packed[name] = Array(name, dtype, panels.size, Access.READ, panels)
        return self.graph.row(name, place, dtype, self.graph.free(packing.value))

    # Loops

    def _is_vector(self, axis: int, leaves: list[Leaf]) -> bool:
        """Whether the loop over the axis, which `leaves` are in, runs in vectors."""
        if any(how.lanes > 1 for how in self.open.values()):
            return False
        packing = self.tile.packing
        if packing is not None and any(x.fold is packing.fold and packing.axis in x.axes for x in leaves):
            return axis == packing.axis
        return best_vector_axis(self.graph, leaves, self.target) == axis

    def _how(self, bound: tuple[int, ...], axis: int, tasks: list[Task], scope: Scope) -> How:
        """How the loop over the tasks' first axis runs."""
        leaves = [replace(x, value=self._resolve(x.value, scope)) for x in self._place(bound, tasks, scope).leaves]
        lanes = 1
        if self._is_vector(axis, leaves):
            lanes = lanes_for(self.graph, leaves, axis, self.target)
        contractions = [x.fold for x in leaves if x.fold is not None and x.fold.fused]
        contracts = any(axis in x.axes and axis not in x.fold.axes for x in leaves if x.fold in contractions)
        innermost = all(x.axes == (axis,) for x in leaves)
        work = max(weight(x.value) for x in leaves)
        folds = any(t.fold is not None for t in tasks)
        copies, unroll = 1, 1
        tiled = math.prod(self.open[a].copies for fold in contractions for a in fold.free if a in self.open)
        if contracts:
            copies = self.tile.copies.get(axis, 1)
        elif lanes > 1 and tiled < ENOUGH_CHAINS:
            copies = 4 if work <= 4 else 2 if work <= 12 else 1
        elif innermost and folds and work <= 16:
            unroll = UNROLL
        elif self._transposes(axis, leaves):
            copies = next(how.lanes for how in self.open.values() if how.lanes > 1)
        extent = self.graph.extents[axis]
        if isinstance(extent, int):
            copies = max(1, min(copies, -(-extent // lanes)))
        parallel = not bound and not folds and not any(t.row for t in tasks)
        return How(lanes, copies, unroll, None, parallel)

    def _transposes(self, axis: int, leaves: list[Leaf]) -> bool:
        """Whether the loop reads memory piece by piece across the lanes of the open vector loop: what as many
        iterations as there are lanes read is a square block."""
        vector = next((a for a, how in self.open.items() if how.lanes > 1), None)
        extent = self.graph.extents[axis]
        if vector is None or not isinstance(extent, int) or any(x.axes != (axis,) or x.fold for x in leaves):
            return False
        strides = [dict(x.offset.terms) for leaf in leaves for x in walk_values(leaf.value) if isinstance(x, Load)]
        return extent >= self.open[vector].lanes and any(
            terms.get(axis) == 1 and terms.get(vector, 0) not in (0, 1) for terms in strides)

"""Kernels to loop nests: what is computed where, what is kept, which loops are vectors.

A nest has the loops of its outputs' axes. A value is computed at the outermost level where the axes it depends on
are bound: a fold in loops of its own ahead of the next loop (a stage), anything else by a Let. A costly value that
several stages need, or that a loop would compute again and again, fills a scratch row.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field, replace

from tcp_eqsat.codegen.axes import simplify_axes
from tcp_eqsat.codegen.contraction import NO_TILE, UNROLL, choose_tile
from tcp_eqsat.codegen.graph import FoldValue, Graph, Output, inline_kernel
from tcp_eqsat.codegen.loops import (
    Access,
    Accumulator,
    Apply,
    Array,
    Constant,
    Each,
    Fold,
    For,
    How,
    IndexValue,
    Let,
    Load,
    Nest,
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
from tcp_eqsat.codegen.schedule_cost import Leaf, best_vector_axis, estimate, lanes_for, order_by_stride, weight
from tcp_eqsat.codegen.target import CpuTarget
from tcp_eqsat.lang.dims import Size, product
from tcp_eqsat.lang.plan import Kernel, Plan
from tcp_eqsat.lang.pointful import ZERO, Affine, axis_index

KEPT_WEIGHT = 8
"""A value whose computation weighs less than this is computed again rather than kept in a scratch row."""
ENOUGH_CHAINS = 8
"""Independent additions that keep the units busy; loops around a fold that make as many leave its own loop alone."""
KEPT_ELEMENTS = 1 << 17
"""A scratch row of more elements is not kept if its value can be computed again."""


def schedule_kernel(kernel: Kernel, plan: Plan, target: CpuTarget) -> Nest:
    """The kernel as a nest of loops for `target`."""
    graph, outputs = simplify_axes(*inline_kernel(kernel, plan))
    scheduler = _Scheduler(graph, target)
    body: list[Statement] = []
    for group in _groups(graph, outputs):
        body += scheduler.nest(group)
    return Nest(kernel.name, _arrays(body, plan, scheduler.scratch), tuple(body), kernel.origin)


def _arrays(body: Sequence[Statement], plan: Plan, scratch: list[Array]) -> tuple[Array, ...]:
    reads: dict[str, None] = {}
    writes: dict[str, None] = {}
    own = {a.name for a in scratch}
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
    return (*found, *scratch)


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


@dataclass(frozen=True, slots=True)
class _Task:
    """What is done with a value in loops over `axes`: stored, or gathered by a fold."""

    axes: tuple[int, ...]
    value: Value
    array: str = ""
    offset: Affine = ZERO
    fold: FoldValue | None = None
    row: bool = False

    def inside(self) -> _Task:
        """The task within its first loop."""
        return replace(self, axes=self.axes[1:])


@dataclass(slots=True)
class _Scope:
    """What is known at a place: values by what replaces them, and folds."""

    known: dict[int, Value] = field(default_factory=dict)
    folds: set[str] = field(default_factory=set)

    def copy(self) -> _Scope:
        return _Scope(dict(self.known), set(self.folds))


@dataclass(frozen=True, slots=True)
class _Row:
    """A value kept for all values of `axes`, outermost first."""

    value: Value
    axes: tuple[int, ...]


@dataclass(slots=True)
class _Stage:
    """Folds and rows that are computed in the same loops."""

    axes: tuple[int, ...]
    folds: list[FoldValue] = field(default_factory=list)
    rows: list[_Row] = field(default_factory=list)


class _Scheduler:
    def __init__(self, graph: Graph, target: CpuTarget) -> None:
        self.graph = graph
        self.target = target
        self.scratch: list[Array] = []
        self.tile = NO_TILE
        self.open: dict[int, How] = {}  # the open loops
        self.positions: dict[int, int] = {}  # position indices asked for, by axis
        self.lets = 0

    def nest(self, group: list[Output]) -> list[Statement]:
        order = _domain_order(self.graph, group)
        leaves = self._leaves((), [_Task(order, o.value, o.array, o.offset) for o in group], _Scope())
        self.tile = choose_tile(self.graph, order, leaves, self.target)
        order = self.tile.order or order
        tasks = [
            _Task(tuple(a for a in order if a in o.axes), o.value, o.array, o.offset) for o in group]
        return self._block((), tasks, _Scope())

    # Blocks

    def _block(self, bound: tuple[int, ...], tasks: list[_Task], scope: _Scope) -> list[Statement]:
        """What happens inside the loops over `bound`."""
        scope = scope.copy()
        statements: list[Statement] = []
        stages = self._stages(bound, tasks, scope)
        tiled = 1 + max((n for n, stage in enumerate(stages) if self._contracts(stage)), default=-1)
        for stage in stages[:tiled]:
            statements += self._stage(bound, stage, scope)
        axis = bound[-1] if bound else None
        how = self.open.get(axis)
        if tiled and how is not None and how.copies > 1 and how.lanes == 1 and not any(s.folds for s in stages[:tiled]):
            self.open[axis] = replace(how, copies=1)
            statements.append(Each(axis, tuple(self._rest(bound, stages[tiled:], tasks, scope))))
            self.open[axis] = how
        else:
            statements += self._rest(bound, stages[tiled:], tasks, scope)
        return statements

    def _contracts(self, stage: _Stage) -> bool:
        """Whether the stage keeps the results of a contraction."""
        return any(isinstance(row.value, Read) for row in stage.rows)

    def _rest(self, bound: tuple[int, ...], stages: list[_Stage], tasks: list[_Task],
              scope: _Scope) -> list[Statement]:
        """What follows the contractions of a block."""
        statements: list[Statement] = []
        for stage in stages:
            statements += self._stage(bound, stage, scope)
        statements += self._leaf([t for t in tasks if not t.axes], scope)
        inner: dict[int, list[_Task]] = {}
        for task in tasks:
            if task.axes:
                inner.setdefault(task.axes[0], []).append(task)
        for axis, group in inner.items():
            lets, loop = self._loop(bound, axis, group, scope)
            statements += [*lets, loop]
        return statements

    def _loop(self, bound: tuple[int, ...], axis: int, tasks: list[_Task],
              scope: _Scope) -> tuple[list[Statement], For]:
        """The loop over the tasks' first axis, and what it needs that does not change in it."""
        lets = self._hoist(bound, tasks, scope)
        how = self._how(bound, axis, tasks, scope)
        self.open[axis] = how
        body = self._block((*bound, axis), [t.inside() for t in tasks], scope)
        del self.open[axis]
        how = replace(how, position=self.positions.pop(axis, None))
        return lets, For(axis, self.graph.extents[axis], tuple(body), how)

    def _leaf(self, tasks: list[_Task], scope: _Scope) -> list[Statement]:
        """The tasks themselves, all their axes bound. What several uses share is named."""
        statements: list[Statement] = []
        for shared in _shared([self._resolve(t.value, scope) for t in tasks]):
            statements.append(self._let(shared, scope))
        for task in tasks:
            value = self._resolve(task.value, scope)
            if task.row and not isinstance(value, (Read, Constant)):
                statements.append(self._let(task.value, scope))
                value = scope.known[id(task.value)]
            if task.fold is not None:
                statements.append(Update(task.fold.name, value, task.fold.fused))
            else:
                statements.append(Store(task.array, task.offset, value))
        return statements

    def _let(self, value: Value, scope: _Scope) -> Let:
        """Names the value."""
        self.lets += 1
        name = f"t{self.lets}"
        resolved = self._resolve(value, scope)
        read = self.graph.read(name, value.dtype, self.graph.free(value))
        scope.known[id(value)] = scope.known[id(resolved)] = read
        return Let(name, resolved)

    def _resolve(self, root: Value, scope: _Scope) -> Value:
        """The value in terms of what is known."""
        done: dict[int, Value] = {}
        for value in walk_values(root, stop=scope.known):
            new = scope.known.get(id(value))
            if new is None:
                new = self.graph.rebuild(value, tuple(done[id(x)] for x in operands_of(value)))
                new = scope.known.get(id(new), new)
            done[id(value)] = new
        return done[id(root)]

    def _hoist(self, bound: tuple[int, ...], tasks: list[_Task], scope: _Scope) -> list[Statement]:
        """Names what the loops inside compute from the axes bound so far."""
        here = frozenset(bound)
        statements: list[Statement] = []
        for leaf in self._leaves(bound, tasks, scope):
            pending = [leaf.value]
            while pending:
                value = pending.pop()
                if id(value) in scope.known or isinstance(value, (Constant, Read)):
                    continue
                if self.graph.free(value) <= here:
                    statements.append(self._let(value, scope))
                elif isinstance(value, Apply):
                    pending.extend(value.operands)
        return statements

    # Stages

    def _leaves(self, bound: tuple[int, ...], tasks: Iterable[_Task], scope: _Scope) -> list[Leaf]:
        """What is computed in the innermost loops of the tasks and of the folds they need."""
        here = frozenset(bound)
        tasks = list(tasks)
        leaves: list[Leaf] = []
        prefixes: dict[str, tuple[int, ...]] = {}

        def add(leaf: Leaf) -> None:
            leaves.append(leaf)
            for value in walk_values(leaf.value, stop=scope.known):
                if (isinstance(value, Read) and id(value) not in scope.known
                        and value.name in self.graph.folds and value.name not in scope.folds):
                    outer = self.graph.folds[value.name].free - here
                    last = max((n for n, axis in enumerate(leaf.axes) if axis in outer), default=-1)
                    prefixes.setdefault(value.name, leaf.axes[:last + 1])

        for task in tasks:
            add(Leaf(task.axes, task.value, None if task.fold else task.offset, task.fold))
        for fold in reversed(self.graph.folds.values()):
            if fold.name in prefixes:
                add(Leaf((*prefixes[fold.name], *self._fold_order(fold)), fold.body, None, fold))
        return leaves

    def _fold_order(self, fold: FoldValue) -> tuple[int, ...]:
        """The fold's loops, the one along which memory is contiguous innermost."""
        return order_by_stride(self.graph, fold.axes, fold.body)

    def _stages(self, bound: tuple[int, ...], tasks: list[_Task], scope: _Scope) -> list[_Stage]:
        """What is computed in loops of its own before the loops of the tasks, in an order that can run."""
        here = frozenset(bound)
        own = {t.fold.name for t in tasks if t.fold is not None}
        leaves = self._leaves(bound, tasks, scope)
        ready = {leaf.fold.name: leaf.fold for leaf in reversed(leaves)
                 if leaf.fold is not None and leaf.fold.free <= here and leaf.fold.name not in own}
        rows = self._rows(here, leaves, ready, scope)
        needs = _Needs(self.graph, ready, rows, scope)
        stages: list[_Stage] = []
        placed: dict[str | int, int] = {}
        for item in needs.order():
            axes = self._fold_order(ready[item]) if isinstance(item, str) else rows[item].axes
            first = 0
            for need in needs.of(item):
                together = isinstance(need, int) and set(stages[placed[need]].axes) == set(axes)
                first = max(first, placed[need] + (not together))
            place = next((n for n in range(first, len(stages)) if set(stages[n].axes) == set(axes)), None)
            if place is None:
                place = len(stages)
                stages.append(_Stage(axes))
            placed[item] = place
            if isinstance(item, str):
                stages[place].folds.append(ready[item])
            else:
                stages[place].rows.append(rows[item])
        return stages

    def _rows(self, here: frozenset[int], leaves: list[Leaf], ready: dict[str, FoldValue],
              scope: _Scope) -> dict[int, _Row]:
        """Values to be kept for all values of axes that are not bound yet: those that several loops need, and
        those that a loop would compute again and again."""
        rows: dict[int, _Row] = {}
        tops = _top_loops(self.graph, leaves, ready)
        uses: dict[int, set[object]] = {}
        values: dict[int, Value] = {}
        for leaf, top in zip(leaves, tops, strict=True):
            for value in outside_choices(leaf.value, scope.known):
                uses.setdefault(id(value), set()).add(top)
                values[id(value)] = value
        candidates = [v for key, v in values.items() if self._is_worth_keeping(v, here, uses[key], ready, scope)]
        for value in sorted(candidates, key=self._size_of, reverse=True):
            stop = {**scope.known, **{key: row.value for key, row in rows.items()}}
            using = {top for leaf, top in zip(leaves, tops, strict=True)
                     if any(v is value for v in outside_choices(leaf.value, stop))}
            using |= {row.axes for row in rows.values()
                      if any(v is value for v in outside_choices(row.value, {k: v for k, v in stop.items()
                                                                             if v is not row.value}))}
            if self._is_worth_keeping(value, here, using, ready, scope):
                axes = order_by_stride(self.graph, tuple(sorted(self.graph.free(value) - here)), value)
                rows[id(value)] = _Row(value, axes)
        return rows

    def _size_of(self, value: Value) -> int:
        return sum(1 for _ in walk_values(value))

    def _is_worth_keeping(self, value: Value, here: frozenset[int], tops: set[object], ready: dict[str, FoldValue],
                          scope: _Scope) -> bool:
        """Whether a value that the loops `tops` use is worth a scratch row."""
        axes = self.graph.free(value) - here
        if not axes or isinstance(value, (Constant, IndexValue, Load)) or id(value) in scope.known or not tops:
            return False
        if isinstance(value, Read) and value.name == self.tile.kept and axes == {self.tile.columns}:
            return any(top[0] == "task" for top in tops)
        if len(tops) == 1 and next(iter(tops))[-1] in axes:
            return False
        inner = [x for x in walk_values(value, stop=scope.known)
                 if isinstance(x, Read) and x.name in self.graph.folds and x.name not in scope.folds
                 and x.name not in ready]
        if inner:
            return True
        if weight(value, scope.known) < KEPT_WEIGHT:
            return False
        return math.prod(estimate(self.graph.extents[a]) for a in axes) <= KEPT_ELEMENTS

    def _stage(self, bound: tuple[int, ...], stage: _Stage, scope: _Scope) -> list[Statement]:
        """The loops of a stage; then its folds and rows are known."""
        loads: dict[int, Value] = {}
        tasks: list[_Task] = []
        for row in stage.rows:
            load = self._allocate(row, bound)
            loads[id(row.value)] = load
            tasks.append(_Task(stage.axes, row.value, load.array, load.offset, None, True))
        tasks += [_Task(stage.axes, fold.body, fold=fold) for fold in stage.folds]
        lets, loop = self._loop(bound, stage.axes[0], tasks, scope)
        scope.known |= loads
        scope.folds |= {fold.name for fold in stage.folds}
        if not stage.folds:
            return [*lets, loop]
        accumulators = tuple(Accumulator(f.name, f.op, f.dtype) for f in stage.folds)
        return [*lets, Fold(accumulators, (loop,))]

    def _allocate(self, row: _Row, bound: tuple[int, ...]) -> Load:
        """A scratch array for a row, and where in it the value of the row's axes is.

        Each copy and lane of the open loops that the value depends on has a place of its own.
        """
        offset, size = ZERO, 1
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
        name = f"row{len(self.scratch) + 1}"
        self.scratch.append(Array(name, row.value.dtype, size, Access.SCRATCH))
        return self.graph.row(name, offset, row.value.dtype, free)

    def _along(self, axis: int, offset: Affine, size: Size) -> tuple[Affine, Size]:
        """The offset and size with a place for every iteration of one step of an open loop."""
        count = self.open[axis].lanes * self.open[axis].copies
        if axis not in self.positions:
            self.positions[axis] = self.graph.axis(count)
        return offset + axis_index(self.positions[axis]).scaled(size), size * count

    # Loops

    def _how(self, bound: tuple[int, ...], axis: int, tasks: list[_Task], scope: _Scope) -> How:
        """How the loop over the tasks' first axis runs."""
        leaves = [replace(x, value=self._resolve(x.value, scope)) for x in self._leaves(bound, tasks, scope)]
        lanes = 1
        if all(how.lanes == 1 for how in self.open.values()) and best_vector_axis(
                self.graph, leaves, self.target) == axis:
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
        extent = self.graph.extents[axis]
        if isinstance(extent, int):
            copies = max(1, min(copies, -(-extent // lanes)))
        parallel = not bound and not folds and not any(t.row for t in tasks)
        return How(lanes, copies, unroll, None, parallel)


class _Needs:
    """What folds (by name) and rows (by value) of a place need of each other."""

    def __init__(self, graph: Graph, ready: dict[str, FoldValue], rows: dict[int, _Row], scope: _Scope) -> None:
        self.graph = graph
        self.ready = ready
        self.rows = rows
        self.scope = scope
        self._found: dict[str | int, tuple[str | int, ...]] = {}

    def of(self, item: str | int) -> tuple[str | int, ...]:
        """What must be computed before the item, directly."""
        if item in self._found:
            return self._found[item]
        needs: dict[str | int, None] = {}
        first = self.ready[item].body if isinstance(item, str) else self.rows[item].value
        pending, seen = [first], set()
        while pending:
            root = pending.pop()
            stop = {*self.scope.known, *self.rows} - ({item} if root is first else set())
            for value in walk_values(root, stop=stop):
                if id(value) in self.rows and id(value) != item:
                    needs[id(value)] = None
                elif isinstance(value, Read) and id(value) not in stop and value.name in self.graph.folds:
                    if value.name in self.ready:
                        needs[value.name] = None
                    elif value.name not in self.scope.folds and value.name not in seen:
                        seen.add(value.name)
                        pending.append(self.graph.folds[value.name].body)
        self._found[item] = tuple(needs)
        return self._found[item]

    def order(self) -> list[str | int]:
        """All items, each after what it needs."""
        done: dict[str | int, None] = {}
        for start in (*self.ready, *self.rows):
            stack: list[tuple[str | int, bool]] = [(start, False)]
            while stack:
                item, expanded = stack.pop()
                if expanded:
                    done[item] = None
                elif item not in done:
                    stack.append((item, True))
                    stack.extend((need, False) for need in self.of(item) if need not in done)
        return list(done)


def _top_loops(graph: Graph, leaves: list[Leaf], ready: dict[str, FoldValue]) -> list[tuple[object, ...]]:
    """For each leaf, which loop at the place itself it is in; the loop's first axis comes last.

    Folds of one depth over the same axes will share a loop.
    """
    depth: dict[str, int] = {}
    for name, fold in ready.items():
        inner = graph.reachable_folds(fold.body)
        depth[name] = 1 + max((depth[f.name] for f in inner if f.name in depth), default=0)
    top: dict[str, tuple[object, ...]] = {}
    found: list[tuple[object, ...]] = []
    for leaf in leaves:
        first = leaf.axes[0] if leaf.axes else None
        if leaf.fold is None or leaf.fold.name not in {*ready, *top}:
            own: tuple[object, ...] = ("task", first)
        elif leaf.fold.name in ready:
            own = ("stage", depth[leaf.fold.name], frozenset(leaf.fold.axes), first)
        else:
            own = top[leaf.fold.name]
        found.append(own)
        for value in walk_values(leaf.value):
            if isinstance(value, Read) and value.name in graph.folds and value.name not in ready:
                top.setdefault(value.name, own)
    return found


def outside_choices(root: Value, stop: Container[int]) -> list[Value]:
    """The values that `root` is always computed from, users first; not what is below those in `stop`."""
    found: dict[int, Value] = {}
    pending = [root]
    while pending:
        value = pending.pop()
        if id(value) not in found:
            found[id(value)] = value
            if isinstance(value, Apply) and id(value) not in stop:
                pending.extend(value.operands)
    return list(found.values())


def _shared(roots: list[Value]) -> list[Value]:
    """Values with several uses among the roots, operands first, that are worth a name and always computed."""
    always = {id(v) for root in roots for v in outside_choices(root, ())}
    uses: dict[int, int] = {}
    values = list(walk_values(*roots))
    for root in roots:
        uses[id(root)] = uses.get(id(root), 0) + 1
    for value in values:
        for operand in operands_of(value):
            uses[id(operand)] = uses.get(id(operand), 0) + 1
    return [v for v in values
            if uses[id(v)] > 1 and id(v) in always and not isinstance(v, (Constant, Read))]

"""What a schedule computes ahead at a place between loops: folds, and rows of values that are worth keeping.

At a place some axes are bound. Tasks say what must be done in loops over further axes. A fold that depends on bound
axes only is computed at the place, in loops of its own. A costly value that several loops of the place need, or that
one of them would compute again and again, fills a row of scratch memory. Both form stages, in an order that can run.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Container
from dataclasses import dataclass, field, replace

from tcp_eqsat.codegen.contraction import Tile
from tcp_eqsat.codegen.graph import FoldValue, Graph
from tcp_eqsat.codegen.loops import Apply, Constant, IndexValue, Load, Read, Value, operands_of, walk_values
from tcp_eqsat.codegen.schedule_cost import Leaf, estimate, order_by_stride, weight
from tcp_eqsat.lang.pointful import ZERO, Affine

KEPT_WEIGHT = 8
"""A value whose computation weighs less than this is computed again rather than kept in a row."""
KEPT_ELEMENTS = 1 << 17
"""A row of more elements is not kept if its value can be computed again."""


@dataclass(frozen=True, slots=True)
class Task:
    """What is done with a value in loops over `axes`: stored, or gathered by `fold`. `row`: stored to be kept."""

    axes: tuple[int, ...]
    value: Value
    array: str = ""
    offset: Affine = ZERO
    fold: FoldValue | None = None
    row: bool = False

    def inside(self) -> Task:
        """The task within its first loop."""
        return replace(self, axes=self.axes[1:])


@dataclass(slots=True)
class Scope:
    """What is known at a place: what values are replaced by, and the folds that can be read."""

    known: dict[int, Value] = field(default_factory=dict)
    folds: set[str] = field(default_factory=set)

    def copy(self) -> Scope:
        return Scope(dict(self.known), set(self.folds))


@dataclass(frozen=True, slots=True)
class Row:
    """A value kept for all values of `axes`, outermost first."""

    value: Value
    axes: tuple[int, ...]


@dataclass(slots=True)
class Stage:
    """Folds and rows that are computed in the same loops."""

    axes: tuple[int, ...]
    folds: list[FoldValue] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    @property
    def contracts(self) -> bool:
        """Whether results of a fold are kept, as they are."""
        return any(isinstance(row.value, Read) for row in self.rows)


@dataclass(frozen=True, slots=True)
class _Loop:
    """A loop of a place: that of a task, or of folds of one depth over the same axes, which share it."""

    first: int | None
    task: bool
    depth: int = 0
    axes: frozenset[int] = frozenset()


Item = str | int
"""A fold by name, or a row by its value's id."""


class Place:
    """Where the axes `bound` are bound and `tasks` are to be done with what `scope` knows."""

    def __init__(self, graph: Graph, tile: Tile, bound: tuple[int, ...], tasks: list[Task], scope: Scope) -> None:
        self.graph = graph
        self.tile = tile
        self.bound = frozenset(bound)
        self.tasks = tasks
        self.scope = scope

    def _waits(self, value: Value) -> bool:
        """Whether the value is a fold that is not known yet."""
        return (isinstance(value, Read) and id(value) not in self.scope.known
                and value.name in self.graph.folds and value.name not in self.scope.folds)

    @functools.cached_property
    def leaves(self) -> list[Leaf]:
        """What is computed in the innermost loops of the tasks and of the folds they need; users first."""
        leaves: list[Leaf] = []
        outer: dict[str, tuple[int, ...]] = {}

        def add(leaf: Leaf) -> None:
            leaves.append(leaf)
            for value in walk_values(leaf.value, stop=self.scope.known):
                if self._waits(value):
                    assert isinstance(value, Read)
                    free = self.graph.folds[value.name].free - self.bound
                    last = max((n for n, axis in enumerate(leaf.axes) if axis in free), default=-1)
                    outer.setdefault(value.name, leaf.axes[:last + 1])

        for task in self.tasks:
            add(Leaf(task.axes, task.value, None if task.fold else task.offset, task.fold))
        for fold in reversed(self.graph.folds.values()):
            if fold.name in outer:
                add(Leaf((*outer[fold.name], *self._fold_order(fold)), fold.body, None, fold))
        return leaves

    def _fold_order(self, fold: FoldValue) -> tuple[int, ...]:
        """The fold's loops, the one along which memory is contiguous innermost."""
        return order_by_stride(self.graph, fold.axes, fold.body)

    @functools.cached_property
    def ready(self) -> dict[str, FoldValue]:
        """The folds that are computed here, operands first."""
        own = {t.fold.name for t in self.tasks if t.fold is not None}
        return {leaf.fold.name: leaf.fold for leaf in reversed(self.leaves)
                if leaf.fold is not None and leaf.fold.free <= self.bound and leaf.fold.name not in own}

    @functools.cached_property
    def _loops(self) -> list[_Loop]:
        """For each leaf, the loop of this place that it is in."""
        depth: dict[str, int] = {}
        for name, fold in self.ready.items():
            inner = self.graph.reachable_folds(fold.body)
            depth[name] = 1 + max((depth[f.name] for f in inner if f.name in depth), default=0)
        around: dict[str, _Loop] = {}
        found: list[_Loop] = []
        for leaf in self.leaves:
            first = leaf.axes[0] if leaf.axes else None
            name = leaf.fold.name if leaf.fold is not None else ""
            if name in self.ready:
                own = _Loop(first, False, depth[name], frozenset(self.ready[name].axes))
            else:
                own = around.get(name, _Loop(first, True))
            found.append(own)
            for value in walk_values(leaf.value, stop=self.scope.known):
                if isinstance(value, Read) and self._waits(value) and value.name not in self.ready:
                    around.setdefault(value.name, own)
        return found

    @functools.cached_property
    def rows(self) -> dict[int, Row]:
        """What is worth keeping, by the id of the value; values that are computed from others first."""
        uses: dict[int, set[_Loop]] = {}
        values: dict[int, Value] = {}
        for leaf, loop in zip(self.leaves, self._loops, strict=True):
            for value in outside_choices(leaf.value, self.scope.known):
                uses.setdefault(id(value), set()).add(loop)
                values[id(value)] = value
        rows: dict[int, Row] = {}
        candidates = [v for key, v in values.items() if self._is_worth_keeping(v, uses[key])]
        for value in sorted(candidates, key=_size, reverse=True):
            if self._is_worth_keeping(value, self._uses_beside(value, rows)):
                axes = tuple(sorted(self.graph.free(value) - self.bound))
                rows[id(value)] = Row(value, order_by_stride(self.graph, axes, value))
        return rows

    def _uses_beside(self, value: Value, rows: dict[int, Row]) -> set[_Loop]:
        """The loops that need the value where `rows` are kept, theirs included."""
        stop = {*self.scope.known, *rows}
        users = {loop for leaf, loop in zip(self.leaves, self._loops, strict=True)
                 if any(v is value for v in outside_choices(leaf.value, stop))}
        for key, row in rows.items():
            if any(v is value for v in outside_choices(row.value, stop - {key})):
                users.add(_Loop(row.axes[0], False, 0, frozenset(row.axes)))
        return users

    def _is_worth_keeping(self, value: Value, users: set[_Loop]) -> bool:
        """Whether a value that some loops need is worth a row."""
        axes = self.graph.free(value) - self.bound
        if not axes or not users or id(value) in self.scope.known:
            return False
        packing = self.tile.packing
        if packing is not None and value is packing.value:
            return not packing.ahead and packing.axis in self.bound and axes <= set(packing.fold.axes)
        if isinstance(value, (Constant, IndexValue, Load)):
            return False
        if isinstance(value, Read) and value.name == self.tile.kept and axes == {self.tile.along}:
            return any(loop.task for loop in users)
        if len(users) == 1 and next(iter(users)).first in axes:
            return False
        if any(self._waits(x) and isinstance(x, Read) and x.name not in self.ready
               for x in walk_values(value, stop=self.scope.known)):
            return True
        if weight(value, self.scope.known) < KEPT_WEIGHT:
            return False
        return math.prod(estimate(self.graph.extents[a]) for a in axes) <= KEPT_ELEMENTS

    def stages(self) -> list[Stage]:
        """What is computed in loops of its own before those of the tasks, each thing as early as it can be."""
        stages: list[Stage] = []
        placed: dict[Item, int] = {}
        for item in self._in_order():
            axes = self._fold_order(self.ready[item]) if isinstance(item, str) else self.rows[item].axes
            first = 0
            for need in self._needs(item):
                together = isinstance(need, int) and set(stages[placed[need]].axes) == set(axes)
                first = max(first, placed[need] + (not together))
            place = next((n for n in range(first, len(stages)) if set(stages[n].axes) == set(axes)), len(stages))
            if place == len(stages):
                stages.append(Stage(axes))
            placed[item] = place
            if isinstance(item, str):
                stages[place].folds.append(self.ready[item])
            else:
                stages[place].rows.append(self.rows[item])
        return stages

    def _needs(self, item: Item) -> tuple[Item, ...]:
        """What must be computed before a fold or row, directly."""
        root = self.ready[item].body if isinstance(item, str) else self.rows[item].value
        needs: dict[Item, None] = {}
        seen: set[str] = set()
        pending = [(root, {*self.scope.known, *self.rows} - {item})]
        while pending:
            root, stop = pending.pop()
            for value in walk_values(root, stop=stop):
                if id(value) in self.rows and id(value) != item:
                    needs[id(value)] = None
                elif isinstance(value, Read) and self._waits(value):
                    if value.name in self.ready:
                        needs[value.name] = None
                    elif value.name not in seen:
                        seen.add(value.name)
                        pending.append((self.graph.folds[value.name].body, {*self.scope.known, *self.rows}))
        return tuple(needs)

    def _in_order(self) -> list[Item]:
        """The folds and rows of the place, each after what it needs."""
        done: dict[Item, None] = {}
        items: tuple[Item, ...] = (*self.ready, *self.rows)
        for start in items:
            stack: list[tuple[Item, bool]] = [(start, False)]
            while stack:
                item, expanded = stack.pop()
                if expanded:
                    done[item] = None
                elif item not in done:
                    stack.append((item, True))
                    stack.extend((need, False) for need in self._needs(item) if need not in done)
        return list(done)


def _size(value: Value) -> int:
    return sum(1 for _ in walk_values(value))


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


def shared_values(roots: list[Value]) -> list[Value]:
    """Values with several uses among the roots, operands first, that are worth a name and always computed."""
    always = {id(v) for root in roots for v in outside_choices(root, ())}
    values = list(walk_values(*roots))
    uses: dict[int, int] = {id(value): 0 for value in values}
    for value in (*roots, *(x for v in values for x in operands_of(v))):
        uses[id(value)] += 1
    return [v for v in values if uses[id(v)] > 1 and id(v) in always and not isinstance(v, (Constant, Read))]

"""Kernels of a selection, as costs: whether one kernel can compute a value, from what memory, at what price.

The walk over a kernel's values follows index maps from its result inwards. A map gives, for each axis of a value, the
loop it runs along: 0, 1, ... are the axes of the result, later numbers are loops that folds and contractions bind,
-1 is the constant index 0. A value at two different maps is computed twice.

What one kernel can be:
- elementwise code over the axes of what it stores, with any folds that all depend on the same outer axes;
- or one contraction over exactly these axes, with elementwise code after it and on its operands, and no folds.
Operands of slices and reshapes are in memory. Everything a kernel stores has the same axes.

Routines and control flow are steps of their own beside kernels: what they read and write is in memory.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from tcp_eqsat.extract.cost import Access, Contraction, KernelFacts
from tcp_eqsat.extract.selection import Selection
from tcp_eqsat.extract.terms import GIVEN, STEPS, WRITTEN, Form, Term
from tcp_eqsat.lang.dims import Size

INFEASIBLE = math.inf

Map = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One kernel.

    cost     microseconds; infinite if the kernel can't exist, and then `reason` says why
    reads    the stored classes it needs
    visited  every class the walk came to, in order: the kernel changes only when one of them does
    """

    cost: float
    reads: frozenset[int]
    visited: tuple[int, ...]
    facts: KernelFacts | None = None
    reason: str = ""


def evaluate_kernel(selection: Selection, outputs: tuple[int, ...]) -> Evaluation:
    """The kernel that stores `outputs`, the first of which names it; or the step that is no kernel."""
    known, choice, stored = selection.terms.known, selection.choice, selection.stored
    found: Evaluation | None = known.find(outputs, choice, stored)
    if found is None:
        found = _evaluate(selection, outputs)
        known.add(outputs, found.visited, choice, stored, found)
    return found


def _evaluate(selection: Selection, outputs: tuple[int, ...]) -> Evaluation:
    if selection.form(outputs[0]) in STEPS:
        return _evaluate_step(selection, outputs)
    walk = _Walk(selection, outputs)
    try:
        walk.run()
    except _Illegal as reason:
        return Evaluation(INFEASIBLE, frozenset(), tuple(walk.visited), None, str(reason))
    facts = walk.facts()
    return Evaluation(selection.terms.model.kernel(facts), frozenset(walk.reads), tuple(walk.visited), facts)


def _evaluate_step(selection: Selection, outputs: tuple[int, ...]) -> Evaluation:
    """A routine or control flow: what it reads must be in memory under any axes, or a number, which gets memory."""
    terms, (found, *guests) = selection.terms, outputs
    term = selection.term(found)
    visited, reads = dict.fromkeys(outputs), set()
    loads: list[Access] = []
    reason = "a routine stores another value" if guests else ""
    for operand in term.operands:
        *passed, base = selection.memory_under(operand)
        visited |= dict.fromkeys((*passed, base))
        form = selection.form(base)
        if form not in GIVEN and not selection.in_memory(base):
            reason = f"an operand of {term.node.op.name} is not in memory"
            continue
        if form is not Form.BUFFER and not selection.terms.is_held(base):
            reads.add(base)
        footprint = terms.leaf_bytes if form is Form.BUFFER else terms.value_bytes
        loads.append(Access(terms.elements[base] * terms.types[base].dtype.bytes, footprint))
    if reason:
        return Evaluation(INFEASIBLE, frozenset(), tuple(visited), None, reason)
    facts = KernelFacts(tuple(loads), tuple(Access(size, terms.value_bytes) for size in term.writes), term.work)
    return Evaluation(terms.model.kernel(facts), frozenset(reads), tuple(visited), facts)


class _Illegal(Exception):
    """The kernel can't exist; says why."""


class _Place(enum.Enum):
    """Where in a kernel a value is needed."""

    BODY = enum.auto()
    FOLD = enum.auto()
    OPERAND = enum.auto()
    BRANCH = enum.auto()


_Leave = int
_Enter = tuple[int, Map, _Place, float]


class _Walk:
    """One walk; `loops` are the extents of loops as numbers."""

    def __init__(self, selection: Selection, outputs: tuple[int, ...]) -> None:
        self.selection = selection
        self.terms = selection.terms
        self.outputs = outputs
        self.shape = self.terms.types[outputs[0]].shape
        self.rank = len(self.shape)
        self.loops = list(self.terms.shapes[outputs[0]])
        self.visited: dict[int, None] = {}
        self.reads: set[int] = set()
        self.loads: dict[int, tuple[int, dict[Map, bool]]] = {}
        self.scalar = 0.0
        self.contraction: tuple[int, Map, Contraction] | None = None
        self.outer: frozenset[int] | None = None
        self.folds = 0
        self._bound: dict[tuple[str, tuple[Size, ...]], Map] = {}
        self._open: set[int] = set()
        self._seen: set[tuple[int, Map, bool]] = set()
        self._pending: list[_Enter | _Leave] = []

    def run(self) -> None:
        identity = tuple(range(self.rank))
        for output in reversed(self.outputs):
            if self.terms.types[output].shape != self.shape:
                raise _Illegal("its results have different axes")
            self._pending.append((output, identity, _Place.BODY, 1.0))
        while self._pending:
            item = self._pending.pop()
            if isinstance(item, int):
                self._open.discard(item)
            else:
                self._enter(*item)

    def _enter(self, found: int, at: Map, place: _Place, times: float) -> None:
        if found in self._open:
            raise _Illegal("a value depends on itself")
        key = (found, at, place is _Place.OPERAND)
        if key in self._seen:
            return
        self._seen.add(key)
        self.visited[found] = None
        selection = self.selection
        term = selection.terms.terms[found][selection.choice[found]]
        form = term.form
        if form is Form.LITERAL:
            return
        if form is Form.BUFFER or (selection.in_memory(found) and found not in self.outputs):
            self._load(found, found, at, place)
            return
        if form in WRITTEN:
            raise _Illegal("a kernel can't store what a routine writes")
        self._pending.append(found)
        self._open.add(found)
        if form is Form.POINT:
            self.scalar += term.work * self._points(at) * times
            for operand, labels in zip(term.operands, term.maps, strict=True):
                self._pending.append((operand, _compose(at, labels), place, times))
        elif form is Form.VIEW:
            self._pending.append((term.operands[0], _compose(at, term.maps[0]), place, times))
        elif form is Form.FOLD:
            self._fold(term, at, place, times)
        elif form is Form.CONTRACT:
            self._contract(found, term, at, place)
        elif form is Form.JOIN:
            self._join(found, term, at, place, times)
        elif form is Form.SLICE or form is Form.RESHAPE:
            self._through(found, term, at, place)

    def _points(self, at: Map) -> float:
        return math.prod(self.loops[loop] for loop in at if loop >= 0)

    def _fresh(self, kind: str, sizes: tuple[Size, ...], extents: tuple[int, ...]) -> Map:
        """Loops of these extents; folds over equal extents share theirs."""
        known = self._bound.get((kind, sizes))
        if known is None:
            known = self._bound[kind, sizes] = tuple(range(len(self.loops), len(self.loops) + len(extents)))
            self.loops.extend(extents)
        return known

    # Memory ----------------------------------------------------------------------------------------------------------

    def _load(self, found: int, base: int, at: Map, place: _Place) -> None:
        """`found`, whose elements are in the memory of `base`."""
        if self.selection.form(base) is not Form.BUFFER:
            self.reads.add(base)
        self.loads.setdefault(found, (base, {}))[1][at] = place is not _Place.OPERAND

    def _through(self, found: int, term: Term, at: Map, place: _Place) -> None:
        """A slice or reshape: down to memory."""
        selection, current, contiguous = self.selection, term.operands[0], term.form is Form.RESHAPE
        passed = {found}
        while True:
            if current in passed or current in self._open:
                raise _Illegal("a value depends on itself")
            passed.add(current)
            self.visited[current] = None
            inner = selection.term(current)
            if inner.form is Form.LITERAL:
                return
            if inner.form is Form.BUFFER or (selection.in_memory(current) and current not in self.outputs):
                self._load(found, current, at, place)
                return
            if inner.form is Form.RESHAPE:
                contiguous = True
            elif contiguous or inner.form not in (Form.VIEW, Form.SLICE, Form.RAMP):
                raise _Illegal("the operand of a slice or reshape is not in memory")
            if inner.form is Form.RAMP:
                return
            current = inner.operands[0]

    # What can't be everywhere ----------------------------------------------------------------------------------------

    def _fold(self, term: Term, at: Map, place: _Place, times: float) -> None:
        if place not in (_Place.BODY, _Place.FOLD) or self.contraction is not None:
            raise _Illegal("a reduction beside a contraction or in a choice")
        outer = frozenset(loop for loop in at if loop >= self.rank or (loop >= 0 and self.shape[loop] != 1))
        if self.outer is None:
            self.outer = outer
        if outer != self.outer or any(loop >= self.rank for loop in outer):
            raise _Illegal("reductions for different outer axes")
        self.folds += 1
        rest = tuple(axis for axis in range(self.rank) if axis not in at)
        same_row = tuple(self.shape[axis] for axis in rest) == term.bound
        loops = rest if same_row else self._fresh("fold", term.bound, term.extents)
        self.scalar += term.work * self._points(at) * math.prod(term.extents) * times
        self._pending.append((term.operands[0], _compose((*at, *loops), term.maps[0]), _Place.FOLD, times))

    def _contract(self, found: int, term: Term, at: Map, place: _Place) -> None:
        if place is not _Place.BODY or self.contraction is not None or self.folds:
            raise _Illegal("a contraction beside another one or a reduction")
        covered = {loop for loop in at if loop >= 0}
        if any(axis not in covered and size != 1 for axis, size in enumerate(self.shape)):
            raise _Illegal("a contraction at other axes than the result's")
        results = self._points(at)
        depth = math.prod(term.extents)
        dtype = self.terms.types[found].dtype
        columns = next((n for n in reversed(self.loops[: self.rank]) if n != 1), 1)
        self.contraction = (found, at, Contraction(dtype, 2.0 * results * depth, columns))
        loops = self._fresh("sum", term.bound, term.extents)
        innermost = max((axis for axis in range(self.rank) if self.loops[axis] != 1), default=-1)
        for operand, labels in zip(term.operands, term.maps, strict=True):
            inner = _compose((*at, *loops), labels)
            others = math.prod(self.loops[axis] for axis in range(self.rank) if axis not in inner)
            times = self.terms.model.recomputation(others, innermost in inner, dtype)
            self._pending.append((operand, inner, _Place.OPERAND, times))

    def _join(self, found: int, term: Term, at: Map, place: _Place, times: float) -> None:
        if place is _Place.OPERAND:
            raise _Illegal("a choice inside a contraction")
        self.scalar += self.terms.model.choice(self.terms.types[found].dtype) * self._points(at) * times
        inner = _Place.BRANCH if place is _Place.BODY else place
        whole = max(self.terms.elements[found], 1)
        for operand, labels in zip(term.operands, term.maps, strict=True):
            share = self.terms.elements[operand] / whole if labels else 1.0
            self._pending.append((operand, _compose(at, labels), inner, times * share))

    # Facts -----------------------------------------------------------------------------------------------------------

    def facts(self) -> KernelFacts:
        terms = self.terms
        innermost = self._innermost()
        loads = []
        for found, (base, maps) in self.loads.items():
            size = terms.types[found].dtype.bytes
            footprint = terms.leaf_bytes if self.selection.form(base) is Form.BUFFER else terms.value_bytes
            straight = all(self._contiguous(found, at, innermost) for at, judged in maps.items() if judged)
            loads.append(Access(terms.elements[found] * size, footprint, straight, len(maps)))
        stores = tuple(
            Access(terms.elements[c] * terms.types[c].dtype.bytes, terms.value_bytes) for c in self.outputs)
        rows = math.prod(self.loops[axis] for axis in self.outer or ())
        row_bytes = sum(access.bytes for access in loads) / max(rows, 1) if self.folds else 0.0
        return KernelFacts(
            tuple(loads), stores, self.scalar, self.contraction[2] if self.contraction else None, self.folds, row_bytes)

    def _innermost(self) -> set[int]:
        """The loops that vectors may run along: the last axis of the result, the last of each fold."""
        found = {loops[-1] for loops in self._bound.values() if loops}
        axes = [axis for axis in range(self.rank) if self.loops[axis] != 1]
        return found | set(axes[-1:])

    def _contiguous(self, found: int, at: Map, innermost: set[int]) -> bool:
        """Whether no vector loop strides through the value; one that the value does not depend on repeats it."""
        running = [loop for loop, size in zip(at, self.terms.shapes[found], strict=True) if loop >= 0 and size != 1]
        return not running or running[-1] in innermost or innermost.isdisjoint(running)


def _compose(at: Map, labels: Map) -> Map:
    """The map of an operand whose axes run along `labels` of a value at `at`."""
    return tuple([at[label] if label >= 0 else -1 for label in labels])

"""The search for kernels: which e-node computes each class, and which classes are kept in memory, chosen together.

Local search under the true cost of kernels. A move is tried by evaluating again only the kernels that came to a class
it changes, and kept if the whole gets cheaper. A move that failed is not tried again until something near it changes.
Moves are tried in a fixed order, and their number is the budget, so that results are reproducible.
"""

from __future__ import annotations

import itertools
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tcp_eqsat.extract.partition import Change, Partition, Undo
from tcp_eqsat.extract.seeds import in_memory_for
from tcp_eqsat.extract.terms import ABSORBED, GIVEN, STEPS, WRITTEN, Form, Term

_GAIN = 1e-9
"""Microseconds a move must save."""

_SETTLED = GIVEN | WRITTEN
"""Forms that are in memory or not, whatever the selection says."""
_KEPT = WRITTEN | {Form.CONTRACT}
"""Forms that can't be recomputed, or shouldn't be."""
_FREE = GIVEN | ABSORBED
"""Forms that need no memory."""


@dataclass
class Effort:
    """What a search may spend and has spent. `deadline` is a time of `time.perf_counter`."""

    steps: int
    deadline: float
    tried: int = 0
    accepted: int = 0
    cut: bool = False
    late: bool = False

    def spent(self) -> bool:
        """Whether the search must stop; remembers why."""
        if self.tried >= self.steps:
            self.cut = True
        elif self.tried % 16 == 0 and time.perf_counter() > self.deadline:
            self.late = True
        return self.cut or self.late


class Search:
    """One selection being improved. `cost` is its cost, always finite."""

    def __init__(self, partition: Partition, effort: Effort) -> None:
        self.partition = partition
        self.selection = partition.selection
        self.terms = partition.selection.terms
        self.effort = effort
        self.cost = partition.settle()
        self._clock = 0
        self._changed: dict[int, int] = defaultdict(int)
        self._failed: dict[tuple[object, ...], int] = {}

    # One move ------------------------------------------------------------------------------------------------------

    def attempt(self, key: tuple[object, ...], change: Change, near: Iterable[int] = ()) -> bool:
        """Makes the change if that saves cost. `key` names the move; `near` are classes it depends on besides."""
        last = self._failed.get(key)
        touched = change.classes
        if last is not None and all(self._changed[c] <= last for c in (*touched, *near)):
            return False
        if self.effort.spent():
            return False
        self.effort.tried += 1
        partition = self.partition
        undo = partition.apply(change)
        if partition.estimate(undo) < self.cost - _GAIN and partition.total() < self.cost - _GAIN:
            self.cost = partition.settle()
            self.effort.accepted += 1
            self._note(touched, undo)
            return True
        partition.revert(undo)
        self._failed[key] = self._clock
        return False

    def _note(self, touched: set[int], undo: Undo) -> None:
        """Remembers that everything near a change may be tried again."""
        self._clock += 1
        evaluations = self.partition.evaluations
        after = [evaluations[k] for k in (*undo.forgotten, *touched) if k in evaluations]
        for c in touched.union(*(e.visited for e in (*undo.forgotten.values(), *after))):
            self._changed[c] = self._clock

    # What is kept in memory ------------------------------------------------------------------------------------------

    def partition_moves(self) -> bool:
        """Moves that keep the e-nodes, until none helps. Returns whether one did."""
        improved = False
        while not self.effort.spent():
            if self._toggles() or self._cuts() or self._pairs() or self._swaps() or self._shared_kernels():
                improved = True
            else:
                break
        return improved

    def _computed(self) -> list[int]:
        """The classes that may be kept in memory or not, users before operands."""
        return [c for c in reversed(self.selection.reachable()) if self.selection.form(c) not in _SETTLED]

    def _toggles(self) -> bool:
        improved = False
        for c in self._computed():
            improved |= self.attempt(("toggle", c), Change(stored={c: c not in self.selection.stored}))
        return improved

    def _cuts(self) -> bool:
        """Store a class and recompute what its kernel would read."""
        improved = False
        selection = self.selection
        for c in self._computed():
            if c in selection.stored or selection.form(c) in ABSORBED:
                continue
            inline = {x: False for x in self._reads(c) if selection.form(x) not in _KEPT}
            if inline:
                improved |= self.attempt(("cut", c), Change(stored={c: True, **inline}), inline)
        return improved

    def _reads(self, found: int) -> list[int]:
        """The stored classes nearest below a class."""
        selection, reads = self.selection, []
        stack, seen = list(selection.term(found).operands), set()
        while stack:
            c = stack.pop()
            if c in seen or selection.form(c) in GIVEN:
                continue
            seen.add(c)
            if selection.in_memory(c):
                reads.append(c)
            else:
                stack.extend(selection.term(c).operands)
        return sorted(reads)

    def _pairs(self) -> bool:
        """Toggle a class together with an operand."""
        improved = False
        selection = self.selection
        for c in self._computed():
            for x in selection.term(c).operands:
                if selection.form(x) in _SETTLED:
                    continue
                change = Change(stored={c: c not in selection.stored, x: x not in selection.stored})
                improved |= self.attempt(("pair", c, x), change)
        return improved

    def _swaps(self) -> bool:
        """Store another reduction in place of one: those of one kernel must agree on their outer axes."""
        improved = False
        selection, partition = self.selection, self.partition
        for kernel in partition.kernels():
            visited = sorted(partition.evaluate(kernel).visited)
            folds = [c for c in visited if selection.form(c) is Form.FOLD]
            for c, x in itertools.permutations(folds, 2):
                if c in selection.stored and x not in selection.stored:
                    improved |= self.attempt(("swap", c, x), Change(stored={c: False, x: True}))
        return improved

    def _shared_kernels(self) -> bool:
        """Let one kernel store what another one computes: a value it reads, or one that reads the same memory."""
        improved = False
        for guest, host in self._neighbours():
            if len(self.partition.outputs(guest)) == 1 and host not in self.selection.host:
                stored = dict.fromkeys((guest, host), True)
                improved |= self.attempt(("share", guest, host), Change(stored=stored, host={guest: host}))
        for guest in sorted(self.selection.host):
            improved |= self.attempt(("alone", guest), Change(host={guest: None}))
        return improved

    def _neighbours(self) -> Iterator[tuple[int, int]]:
        """Pairs of kernels with equal axes where one reads the other, or both read the same."""
        partition, types = self.partition, self.terms.types
        readers: dict[int, list[int]] = defaultdict(list)
        pairs: dict[tuple[int, int], None] = {}
        kernels = [kernel for kernel in partition.kernels() if self.selection.form(kernel) not in STEPS]
        for kernel in kernels:
            for read in sorted(partition.evaluate(kernel).visited):
                form = self.selection.form(read)
                if form is Form.BUFFER or (self.selection.in_memory(read) and read != kernel):
                    readers[read].append(kernel)
        for read, users in readers.items():
            producer = self.selection.kernel_of(read)
            before = () if self.selection.form(producer) in STEPS else (producer,)
            for number, kernel in enumerate(users):
                others = users[number + 1:]
                for other in (*before, *others):
                    if other != kernel and types[other].shape == types[kernel].shape:
                        pairs[other, kernel] = None
        yield from pairs

    # Which e-node ----------------------------------------------------------------------------------------------------

    def joint_moves(self) -> bool:
        """All moves, until none helps. Returns whether one did."""
        improved = self.partition_moves()
        while not self.effort.spent():
            if self._switches() | self._attractions() | self._evictions() | self.partition_moves():
                improved = True
            else:
                break
        return improved

    def _alternatives(self, found: int) -> Iterator[tuple[int, Term]]:
        for index, term in self.terms.terms[found].items():
            if index != self.selection.choice[found] and all(self.selection.choice[x] >= 0 for x in term.operands):
                yield index, term

    def _passed(self, choice: Mapping[int, int]) -> dict[int, bool]:
        """Classes that become another view of memory need none of their own."""
        return {c: False for c, index in choice.items()
                if c in self.selection.stored and self.terms.terms[c][index].form in ABSORBED}

    def _switches(self) -> bool:
        """Another e-node for one class; new operands kept in memory, or all operands recomputed."""
        improved = False
        order = self.selection.reachable()
        used = set(order)
        for c in reversed(order):
            for index, term in self._alternatives(c):
                passed = self._passed({c: index})
                new = {x: True for x in term.operands
                       if x not in used and self.selection.form(x) not in _FREE}
                if term.form in STEPS:
                    new |= dict.fromkeys(in_memory_for(self.selection, term), True)
                inline = {x: False for x in term.operands if x in self.selection.stored}
                for name, stored in (("", {}), ("store", new), ("inline", inline)):
                    if (stored or not name) and self.attempt(
                            ("switch", c, index, name), Change({c: index}, {**passed, **stored}), term.operands):
                        improved = True
                        used = set(self.selection.reachable())
                        break
        return improved

    def _attractions(self) -> bool:
        """Several classes at once to a value that none of them uses yet."""
        improved = False
        order = self.selection.reachable()
        used = set(order)
        users: dict[int, dict[int, int]] = defaultdict(dict)
        for c in order:
            for index, term in self._alternatives(c):
                for x in term.operands:
                    if x not in used:
                        users[x].setdefault(c, index)
        for x in sorted(users):
            choice = {c: i for c, i in users[x].items() if self.selection.choice[c] != i}
            if len(choice) < 2:
                continue
            passed = self._passed(choice)
            inline = {y: False for y in self.selection.term(x).operands if y not in used}
            for number, stored in enumerate(({x: True}, {x: False}, {x: True, **inline})):
                if self.attempt(("attract", x, number, *choice), Change(choice, {**passed, **stored}), inline):
                    improved = True
                    break
        return improved

    def _evictions(self) -> bool:
        """All users of a value away from it at once."""
        improved = False
        users: dict[int, list[int]] = defaultdict(list)
        for c in self.selection.reachable():
            for x in dict.fromkeys(self.selection.term(c).operands):
                users[x].append(c)
        for x in sorted(users):
            choice = {}
            for c in users[x]:
                others = [(term.form in ABSORBED, index) for index, term in self._alternatives(c)
                          if x not in term.operands]
                if others:
                    choice[c] = min(others)[1]
            if len(choice) != len(users[x]):
                continue
            stored = dict.fromkeys(choice, True)
            alone = [{c: c == kept for c in choice} for kept in choice] if 1 < len(choice) <= 3 else []
            for number, kept in enumerate((stored, {}, *alone)):
                if self.attempt(("evict", x, number, *choice), Change(choice, kept)):
                    improved = True
                    break
        return improved


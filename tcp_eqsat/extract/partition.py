"""The kernels of a selection, each evaluated again only when something it depends on changes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from tcp_eqsat.extract.evaluate import INFEASIBLE, Evaluation, evaluate_kernel
from tcp_eqsat.extract.selection import Selection
from tcp_eqsat.extract.terms import Form


@dataclass(frozen=True, slots=True)
class Change:
    """What a move changes: e-nodes by class, whether classes are stored, hosts of classes (None: no host)."""

    choice: Mapping[int, int] = field(default_factory=dict)
    stored: Mapping[int, bool] = field(default_factory=dict)
    host: Mapping[int, int | None] = field(default_factory=dict)

    @property
    def classes(self) -> set[int]:
        return {*self.choice, *self.stored, *self.host, *(h for h in self.host.values() if h is not None)}


@dataclass(frozen=True, slots=True)
class _Settled:
    """The kernels in use at one time: evaluations, the kernels each reads, how many read each, those of results."""

    evaluations: dict[int, Evaluation]
    reads: dict[int, tuple[int, ...]]
    readers: Mapping[int, int]
    targets: frozenset[int]
    total: float


@dataclass(frozen=True, slots=True)
class Undo:
    """What takes a change back: the state before it, and the evaluations that it made invalid."""

    change: Change
    forgotten: dict[int, Evaluation]


class Partition:
    """A selection with the costs of its kernels."""

    def __init__(self, selection: Selection) -> None:
        self.selection = selection
        self.evaluations: dict[int, Evaluation] = {}
        self._watchers: dict[int, set[int]] = defaultdict(set)
        self._guests: dict[int, set[int]] = defaultdict(set)
        for guest, host in selection.host.items():
            self._guests[host].add(guest)
        self._settled = _Settled({}, {}, {}, frozenset(), 0.0)

    def evaluate(self, kernel: int) -> Evaluation:
        known = self.evaluations.get(kernel)
        if known is None:
            known = self.evaluations[kernel] = evaluate_kernel(self.selection, self.outputs(kernel))
            self._watch(kernel, known)
        return known

    def outputs(self, kernel: int) -> tuple[int, ...]:
        """What a kernel stores, its own class first."""
        guests = self._guests.get(kernel)
        if not guests:
            return (kernel,)
        return (kernel, *sorted(c for c in guests if self.selection.kernel_of(c) == kernel))

    def total(self) -> float:
        """The cost of the kernels that the results need; infinite where one can't exist or they form a cycle."""
        return self._needed()[0]

    def kernels(self) -> list[int]:
        """The kernels that the results need, by the classes that name them, each after those it reads from."""
        return self._needed()[1]

    def _needed(self) -> tuple[float, list[int]]:
        selection = self.selection
        order: list[int] = []
        opened: set[int] = set()
        closed: set[int] = set()
        stack = [~selection.kernel_of(t) for t in reversed(selection.targets())]
        total = 0.0
        while stack:
            item = stack.pop()
            if item >= 0:
                closed.add(item)
                order.append(item)
            elif ~item not in opened:
                evaluation = self.evaluate(~item)
                total += evaluation.cost
                if total == INFEASIBLE:
                    return INFEASIBLE, []
                opened.add(~item)
                stack.append(~item)
                stack.extend(~selection.kernel_of(read) for read in evaluation.reads)
            elif ~item not in closed:
                return INFEASIBLE, []
        return total, order

    def obstacle(self) -> str:
        """Why the cost is infinite."""
        return next((e.reason for e in self.evaluations.values() if e.reason), "kernels depend on each other")

    def apply(self, change: Change) -> Undo:
        """Makes a change."""
        selection = self.selection
        forgotten: dict[int, Evaluation] = {}
        self._forget(change, forgotten)
        old = Change(
            {c: selection.choice[c] for c in change.choice},
            {c: c in selection.stored for c in change.stored},
            {c: selection.host.get(c) for c in change.host})
        self._write(change)
        return Undo(old, forgotten)

    def revert(self, undo: Undo) -> None:
        """Takes a change back."""
        self._forget(undo.change, {})
        self._write(undo.change)
        for kernel, evaluation in undo.forgotten.items():
            self.evaluations[kernel] = evaluation
            self._watch(kernel, evaluation)

    def settle(self) -> float:
        """The total, remembered as what `estimate` starts from."""
        total, order = self._needed()
        if total < INFEASIBLE:
            evaluations = {k: self.evaluate(k) for k in order}
            reads = {k: self._kernels_read(e) for k, e in evaluations.items()}
            targets = frozenset(map(self.selection.kernel_of, self.selection.targets()))
            readers = Counter(x for found in reads.values() for x in found)
            self._settled = _Settled(evaluations, reads, readers, targets, total)
        return total

    def estimate(self, undo: Undo) -> float:
        """The total after the change that `undo` takes back, from what was settled before it.

        Looks only at kernels that changed, and not for cycles: the true total is this or infinite.
        """
        settled = self._settled
        if self._moves_kernels(undo.change):
            return self.total()
        readers = dict.fromkeys(settled.targets, 1)
        used: dict[int, Evaluation | None] = {}
        total = settled.total

        def count(kernel: int) -> int:
            return settled.readers.get(kernel, 0) + readers.get(kernel, 0)

        for kernel in undo.forgotten:
            if kernel in settled.evaluations:
                used[kernel] = None
                total -= settled.evaluations[kernel].cost
                for read in settled.reads[kernel]:
                    readers[read] = readers.get(read, 0) - 1
        infeasible: set[int] = set()
        pending = [k for k in used if count(k) > 0]
        while pending:
            kernel = pending.pop()
            if used.get(kernel, settled.evaluations.get(kernel)) is not None:
                continue
            found = used[kernel] = self.evaluate(kernel)
            if found.cost == INFEASIBLE:
                infeasible.add(kernel)
                continue
            total += found.cost
            for read in self._kernels_read(found):
                readers[read] = readers.get(read, 0) + 1
                pending.append(read)
        idle = [k for k in readers if count(k) <= 0]
        while idle:
            kernel = idle.pop()
            known = used.get(kernel, settled.evaluations.get(kernel))
            if known is None or count(kernel) > 0:
                continue
            used[kernel] = None
            infeasible.discard(kernel)
            if known.cost < INFEASIBLE:
                total -= known.cost
                for read in self._kernels_read(known):
                    readers[read] = readers.get(read, 0) - 1
                    idle.append(read)
        return INFEASIBLE if infeasible else total

    def _moves_kernels(self, change: Change) -> bool:
        """Whether a change may decide which kernel stores a class, or which class holds a result."""
        selection = self.selection
        return bool(change.host) or any(c in selection.host or self._guests.get(c) for c in change.stored) or any(
            selection.form(root) is Form.RESHAPE or root in change.choice
            or any(x in change.choice for x in selection.term(root).operands)
            for root in selection.terms.view.roots)

    def _kernels_read(self, evaluation: Evaluation) -> tuple[int, ...]:
        return tuple(map(self.selection.kernel_of, evaluation.reads))

    def _watch(self, kernel: int, evaluation: Evaluation) -> None:
        for found in evaluation.visited:
            self._watchers[found].add(kernel)

    def _forget(self, change: Change, forgotten: dict[int, Evaluation]) -> None:
        """Drops the kernels that came to any class that a change is about to touch, or that store one."""
        host = self.selection.host
        for found in change.classes | {host[c] for c in (*change.stored, *change.host) if c in host}:
            for kernel in (found, *self._watchers[found]):
                evaluation = self.evaluations.pop(kernel, None)
                if evaluation is not None:
                    forgotten[kernel] = evaluation
            self._watchers[found].clear()

    def _write(self, change: Change) -> None:
        selection = self.selection
        for found, index in change.choice.items():
            selection.choice[found] = index
        for found, stored in change.stored.items():
            (selection.stored.add if stored else selection.stored.discard)(found)
        for found, host in change.host.items():
            previous = selection.host.pop(found, None)
            if previous is not None:
                self._guests[previous].discard(found)
            if host is not None:
                selection.host[found] = host
                self._guests[host].add(found)

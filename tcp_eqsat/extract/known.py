"""What has been found out about kernels, by all that it depends on."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Generic, TypeVar

Found = TypeVar("Found")


class _Question(Generic[Found]):
    """A class whose state decides what comes next: a further question or what was found."""

    __slots__ = ("asked", "next")

    def __init__(self, asked: int) -> None:
        self.asked = asked
        self.next: dict[int, _Question[Found] | Found] = {}


class Known(Generic[Found]):
    """Values by outputs and the states of some classes: which e-node each has, and whether it is in memory.

    A walk that came to some classes in order comes to the same ones wherever their states are the same. So what walks
    found is kept as a tree of questions; the search, which asks for the same kernels over and over, follows a path.
    """

    def __init__(self) -> None:
        self._roots: dict[tuple[int, ...], _Question[Found] | Found] = {}

    def find(self, outputs: tuple[int, ...], choice: Sequence[int], stored: Collection[int]) -> Found | None:
        """What was found for `outputs` in these states, if anything was."""
        node = self._roots.get(outputs)
        while isinstance(node, _Question):
            asked = node.asked
            node = node.next.get(2 * choice[asked] + (asked in stored))
        return node

    def add(self, outputs: tuple[int, ...], visited: Sequence[int], choice: Sequence[int], stored: Collection[int],
            found: Found) -> None:
        """Keeps what was found by a walk that came to the classes `visited`, in order, without repetitions."""
        node: _Question[Found] | Found = found
        known = self._roots.get(outputs)
        start = 0
        last: _Question[Found] | None = None
        while isinstance(known, _Question) and start < len(visited) and known.asked == visited[start]:
            last, state = known, 2 * choice[visited[start]] + (visited[start] in stored)
            known = known.next.get(state)
            start += 1
        if known is not None:
            return
        for asked in reversed(visited[start:]):
            question: _Question[Found] = _Question(asked)
            question.next[2 * choice[asked] + (asked in stored)] = node
            node = question
        if last is None:
            self._roots[outputs] = node
        else:
            last.next[2 * choice[last.asked] + (last.asked in stored)] = node

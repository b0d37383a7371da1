"""The sizes that a text leaves open: each `?` is an unknown, and what is learned of one holds
everywhere.

A function is lowered again when a pass over it has learned something, with the answers from the
start; so the lowering of an operation only says which sizes it takes to be equal, and never looks
back.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from tcp_eqsat.errors import ShapeMismatch
from tcp_eqsat.lang.dims import (
    LARGEST,
    Guard,
    Size,
    Symbol,
    equal,
    substitute,
    symbol,
    symbol_dim,
    symbols_of,
)
from tcp_eqsat.lang.types import TensorType
from tcp_eqsat.lang.unify import Unifier

_FIRST_NAMES = ("b", "s")


def symbol_name(number: int) -> str:
    """b, s, d2, d3, ..."""
    return _FIRST_NAMES[number] if number < len(_FIRST_NAMES) else f"d{number}"


Place = tuple[tuple[int, ...], int, int]
"""Where a `?` stands: the calls that lead there, the offset of what has the type, and the axis."""


@dataclass(frozen=True)
class Answers:
    """What a pass learned: the size of each unknown, and what remains to be checked when the
    sizes are known."""

    sizes: Mapping[Place, Size] = field(default_factory=dict)
    guards: tuple[Guard, ...] = ()


class Sizes:
    """The unknowns of one pass over a function, in order of appearance."""

    def __init__(self, answers: Answers) -> None:
        self._known = answers
        self._unknowns: dict[Place, Size] = {}
        self._order = {
            found.name: -1 for size in answers.sizes.values() for found in symbols_of(size)
        }
        self._unifier = Unifier(lambda found: self._order.get(found.name, len(self._order)))
        self.version = 0
        """How often something was learned in this pass."""

    def unknown(self, place: Place) -> Size:
        """The size of the `?` at `place`."""
        size = self._known.sizes.get(place)
        if size is None:
            names = map(symbol_name, itertools.count())
            size = symbol(next(name for name in names if name not in self._order))
        for found in symbols_of(size):
            if self._order.get(found.name, -1) < 0:
                self._order[found.name] = len(self._unknowns)
        self._unknowns[place] = size
        return self.resolve(size)

    def resolve(self, size: Size) -> Size:
        """`size` by what is known now."""
        return self._unifier.resolve(size) if self.version else size

    def resolve_type(self, type_: TensorType) -> TensorType:
        """A type by what is known now."""
        shape = tuple(map(self.resolve, type_.shape))
        return type_ if shape == type_.shape else TensorType(type_.dtype, shape)

    def assume_equal(self, x: Size, y: Size) -> bool:
        """Learns what makes two sizes equal; False where they are not known to be equal
        afterwards. Of two unknowns the one that appeared first stays."""
        x, y = self.resolve(x), self.resolve(y)
        if equal(x, y):
            return True
        try:
            self._unifier.unify(x, y)
        except ShapeMismatch:
            return False
        left, right = self._unifier.resolve(x), self._unifier.resolve(y)
        self.version += left is not x or right is not y
        return equal(left, right)

    def assume_at_least(self, size: Size, bound: int) -> None:
        """Learns the least value of an unknown; what contradicts, or is no unknown, is left."""
        self.assume_within(size, bound, LARGEST)

    def assume_within(self, size: Size, least: int, most: int) -> None:
        """Learns the range of an unknown; what contradicts, or is no unknown, is left."""
        size = self.resolve(size)
        for found in symbols_of(size):
            lower, upper = max(found.lower, least), min(found.upper, most)
            if size is symbol_dim(found) and lower <= upper and (lower, upper) != (found.lower, found.upper):
                self.assume_equal(size, symbol(found.name, lower, upper, found.divisor))

    def assume_multiple(self, size: Size, divisor: int) -> None:
        """Learns that an unknown is a multiple of a positive number; what is no unknown is left."""
        size = self.resolve(size)
        for found in symbols_of(size):
            common = math.lcm(found.divisor, divisor)
            if size is symbol_dim(found) and common != found.divisor and common <= found.upper:
                self.assume_equal(size, symbol(found.name, found.lower, found.upper, common))

    def answers(self) -> Answers:
        """What is known now, the symbols that remain named in order of appearance."""
        sizes = {place: self.resolve(size) for place, size in self._unknowns.items()}
        names: dict[str, Size] = {}
        for size in sizes.values():
            for found in sorted(symbols_of(size), key=self._appearance):
                if found.name not in names:
                    name = symbol_name(len(names))
                    names[found.name] = symbol(name, found.lower, found.upper, found.divisor)
        guards = (
            Guard(substitute(guard.left, names), substitute(guard.right, names))
            for guard in (*self._known.guards, *self._unifier.guards)
        )
        return Answers(
            {place: substitute(size, names) for place, size in sizes.items()},
            tuple(dict.fromkeys(guards)),
        )

    def _appearance(self, found: Symbol) -> int:
        return self._order.get(found.name, len(self._order))

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
from fractions import Fraction

from tcp_eqsat.errors import ShapeMismatch
from tcp_eqsat.lang.dims import (
    LARGEST,
    Guard,
    Size,
    Symbol,
    equal,
    less_equal,
    maximum,
    minimum,
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
        self._guards: list[Guard] = []
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
        """Learns that a size is at least a number, as `assume_within`."""
        self.assume_within(size, bound, LARGEST)

    def assume_within(self, size: Size, least: int, most: int) -> None:
        """Learns the range of a size: of its unknown, where it has one and is linear in it, else by a guard.

        A size may be negative here, and `LARGEST` means no upper end. What contradicts is left.
        """
        size = self.resolve(size)
        if isinstance(size, int) or self._is_within(size, least, most):
            return
        line = _line(size)
        if line is None:
            guard = Guard(maximum(size if most == LARGEST else minimum(size, most), least), size)
            if guard not in self._known.guards and guard not in self._guards:
                self._guards.append(guard)
                self.version += 1
            return
        found, slope, constant = line
        ends = [Fraction(least - constant) / slope, None if most == LARGEST else Fraction(most - constant) / slope]
        low, high = ends if slope > 0 else reversed(ends)
        lower = found.lower if low is None else max(found.lower, math.ceil(low))
        upper = found.upper if high is None else min(found.upper, math.floor(high))
        if lower <= upper and (lower, upper) != (found.lower, found.upper):
            self.assume_equal(symbol_dim(found), symbol(found.name, lower, upper, found.divisor))

    def _is_within(self, size: Size, least: int, most: int) -> bool:
        return less_equal(least, size) is True and (most == LARGEST or less_equal(size, most) is True)

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
            for guard in (*self._known.guards, *self._unifier.guards, *self._guards)
        )
        return Answers(
            {place: substitute(size, names) for place, size in sizes.items()},
            tuple(dict.fromkeys(guard for guard in guards if not equal(guard.left, guard.right))),
        )

    def _appearance(self, found: Symbol) -> int:
        return self._order.get(found.name, len(self._order))


def _line(size: Size) -> tuple[Symbol, Fraction, int] | None:
    """The symbol, slope and constant of a size that is linear in its only symbol."""
    found = symbols_of(size)
    if len(found) != 1:
        return None
    (each,) = found
    constant, ahead = (substitute(size, {each.name: n}) for n in (0, each.divisor))
    if not isinstance(constant, int) or not isinstance(ahead, int) or constant == ahead:
        return None
    if not equal((size - constant) * each.divisor, symbol_dim(each) * (ahead - constant)):
        return None
    return each, Fraction(ahead - constant, each.divisor), constant

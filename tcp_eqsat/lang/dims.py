"""Sizes, known or symbolic: `Size = int | Dim`. What the rest of the package uses of them.

A `Dim` is a canonical polynomial (see `polynomial`); ints go first on every path. Names are
resolved by the caller: one function has one symbol of a name.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import index

from tcp_eqsat.errors import ShapeMismatch
from tcp_eqsat.lang.monomials import CACHE, content
from tcp_eqsat.lang.polynomial import (
    INT64_MAX,
    LARGEST,
    Atom,
    Dim,
    Floor,
    Maximum,
    Minimum,
    Size,
    Symbol,
    bounds,
    exact_divide,
    floor_divide,
    maximum,
    minimum,
    polynomial_of,
    symbol_dim,
    symbols_in,
    value_of,
)
from tcp_eqsat.lang.size_text import parse_size

__all__ = [
    "INT64_MAX",
    "LARGEST",
    "Atom",
    "Dim",
    "Floor",
    "Guard",
    "Maximum",
    "Minimum",
    "Size",
    "Symbol",
    "bounds",
    "divides",
    "equal",
    "evaluate",
    "exact_divide",
    "floor_divide",
    "format_size",
    "less_equal",
    "maximum",
    "minimum",
    "parse_size",
    "product",
    "substitute",
    "symbol",
    "symbols_of",
    "value",
]


@functools.lru_cache(CACHE)
def symbol(name: str, lower: int = 0, upper: int = LARGEST, divisor: int = 1) -> Dim:
    """A size called `name`, in `lower..upper` and a multiple of `divisor`."""
    return symbol_dim(Symbol(name, lower, upper, divisor))


def format_size(size: Size) -> str:
    """The text of a size, which `parse_size` reads back: `b*s`, `2*b + 1`, `h//2`, `min(a, b)`."""
    return str(size)


def evaluate(size: Size, bindings: Mapping[str, int]) -> int:
    """The value of a size, in [0, 2**63).

    Raises ShapeMismatch where a symbol is not bound or bound outside its range, where a divisor
    is 0, and where the value is negative or overflows. `value` has no such checks.
    """
    if isinstance(size, Dim):
        return size.evaluate(bindings)
    if 0 <= size <= INT64_MAX:
        return index(size)
    raise ShapeMismatch(f"a size must be in [0, 2**63), got {size}")


def value(size: Size, bindings: Mapping[str, int]) -> int:
    """The value of an expression of any sign; for offsets and guards.

    The symbols must be bound within their ranges, which is not checked. Raises ShapeMismatch where
    one is not bound or a divisor is 0.
    """
    try:
        return value_of(size, bindings)
    except KeyError as error:
        raise ShapeMismatch(f"{size} requires a value of {error.args[0]}") from None


def substitute(size: Size, mapping: Mapping[str, Size]) -> Size:
    """`size` with symbols replaced by name, all at once."""
    return size.substitute(mapping) if isinstance(size, Dim) else size


def symbols_of(*sizes: Size) -> tuple[Symbol, ...]:
    """The symbols of all sizes, by name."""
    found: set[Symbol] = set()
    for size in sizes:
        if type(size) is not int:
            found |= symbols_in(size)
    return tuple(sorted(found, key=lambda each: each.key))


def product(sizes: Iterable[Size]) -> Size:
    """The product of sizes, 1 of none; raises ShapeMismatch for a constant over 2**63 - 1."""
    constant = 1
    symbolic: Size = 1
    for size in sizes:
        if isinstance(size, Dim):
            symbolic = symbolic * size
        else:
            constant *= index(size)
    result = constant if symbolic == 1 else symbolic * constant
    if type(result) is int and result > INT64_MAX:
        raise ShapeMismatch(f"a product of sizes must be below 2**63, got {result} (overflow)")
    return result


def equal(x: Size, y: Size) -> bool:
    """Whether x and y are provably equal for all values of their symbols."""
    if x is y or x == y:
        return True
    if type(x) is int and type(y) is int:
        return False
    return bounds(x - y) == (0, 0)


def less_equal(x: Size, y: Size) -> bool | None:
    """True or False where `x <= y` holds always or never by the symbols' ranges, else None."""
    if type(x) is int and type(y) is int:
        return x <= y
    low, high = bounds(y - x)
    return True if low >= 0 else False if high < 0 else None


def divides(divisor: Size, size: Size) -> bool:
    """Whether `size` is provably a multiple of `divisor`."""
    if type(divisor) is not int:
        return size == 0 or exact_divide(size, divisor) is not None
    if type(size) is int:
        return size == 0 if divisor == 0 else size % divisor == 0
    return divisor != 0 and content(polynomial_of(size)) % divisor == 0


@dataclass(frozen=True, slots=True)
class Guard:
    """An equality of sizes that is checked when the sizes are known."""

    left: Size
    right: Size

    def check(self, bindings: Mapping[str, int]) -> bool:
        """Whether both sides have the same value; `bindings` bind every symbol."""
        return value(self.left, bindings) == value(self.right, bindings)

    def __str__(self) -> str:
        return f"{self.left} == {self.right}"

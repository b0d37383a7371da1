"""Atoms, monomials, sums of them: the bookkeeping under `polynomial`, which says what atoms are."""

from __future__ import annotations

import functools
import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from tcp_eqsat.errors import LimitError
from tcp_eqsat.lang.intervals import Interval, Number

MAX_TERMS = 1 << 14
"""Products with more terms than this raise LimitError."""
CACHE = 1 << 14
"""Entries that each memoised operation keeps."""


class Immutable:
    """Objects compared by identity, whose fields are set once, by their constructor."""

    __slots__ = ("__weakref__",)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable; can't set {name}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable; can't delete {name}")

    def _set(self, **fields: Any) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self


class Atom(Immutable):
    """What a polynomial can't take apart. `key` orders atoms, the same way in every process."""

    __slots__ = ("depth", "interval", "key", "multiple", "symbols", "text")
    key: tuple[Any, ...]
    text: str
    symbols: frozenset[Any]
    """The symbols inside; a symbol's own set is itself."""
    depth: int
    """0 for a symbol, else one more than that of the deepest atom inside."""
    interval: Interval
    multiple: int
    """Every value of the atom is a multiple of this."""
    loose: ClassVar[bool] = False
    """Whether the text needs brackets in a product."""
    smallest: ClassVar[bool] = False
    """Whether the atom is the smallest of its alternatives, not the largest."""

    @property
    def alternatives(self) -> tuple[Terms, ...]:
        """What a minimum or maximum is one of; empty for other atoms."""
        return ()

    @property
    def estimate(self) -> tuple[Terms, Interval] | None:
        """Terms that a floor is near to, and the range of the error to add; None for others."""
        return None

    @abstractmethod
    def value(self, bindings: Mapping[str, int]) -> int:
        """The value under `bindings`, which bind every symbol."""

    @abstractmethod
    def substitute(self, mapping: Mapping[str, Any]) -> Any:
        """The size with symbols replaced by name; `mapping` gives sizes."""

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.text})"


Monomial = tuple[tuple[Atom, int], ...]
"""Atoms with their exponents (>= 1), ordered by `Atom.key`; `()` is the constant 1."""
Terms = Mapping[Monomial, Number]
"""Coefficients by monomial."""


@functools.lru_cache(CACHE)
def order(monomial: Monomial) -> tuple[Any, ...]:
    """Graded lexicographic order, leading monomial first; compatible with multiplication."""
    degree = sum(exponent for _, exponent in monomial)
    return -degree, tuple((atom.key, -exponent) for atom, exponent in monomial)


@functools.lru_cache(CACHE)
def monomial_product(m: Monomial, n: Monomial) -> Monomial:
    if not m or not n:
        return m or n
    exponents = dict(m)
    for atom, exponent in n:
        exponents[atom] = exponents.get(atom, 0) + exponent
    return tuple(sorted(exponents.items(), key=lambda factor: factor[0].key))


def monomial_quotient(m: Monomial, n: Monomial) -> Monomial | None:
    """`m / n` if it is a monomial."""
    exponents = dict(m)
    for atom, exponent in n:
        left = exponents.get(atom, 0) - exponent
        if left < 0:
            return None
        exponents[atom] = left
    return tuple((atom, exponent) for atom, exponent in exponents.items() if exponent)


def common_factor(m: Monomial, n: Monomial) -> Monomial:
    others = dict(n)
    return tuple((atom, min(e, others[atom])) for atom, e in m if atom in others)


@functools.lru_cache(CACHE)
def multiple_of(monomial: Monomial) -> int:
    """Every value of the monomial is a multiple of this."""
    return math.prod(atom.multiple**exponent for atom, exponent in monomial)


def content(terms: Terms) -> int:
    """The largest integer that provably divides every value; 0 for the size 0."""
    return math.gcd(*(int(c * multiple_of(m)) for m, c in terms.items()))


def combine(terms: Terms, factor: Number, others: Terms) -> dict[Monomial, Number]:
    """`terms + factor * others`."""
    result = dict(terms)
    for monomial, coefficient in others.items():
        result[monomial] = result.get(monomial, 0) + factor * coefficient
    return result


def multiply_terms(xs: Terms, ys: Terms) -> dict[Monomial, Number]:
    if len(xs) * len(ys) > MAX_TERMS:
        raise LimitError(f"a product of sizes of {len(xs)} and {len(ys)} terms is too long")
    result: dict[Monomial, Number] = {}
    for m, a in xs.items():
        for n, b in ys.items():
            monomial = monomial_product(m, n)
            result[monomial] = result.get(monomial, 0) + a * b
    return result

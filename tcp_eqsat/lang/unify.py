"""Making sizes equal: which symbols other sizes replace, and which equalities remain to be checked.

Equations are solved one by one, each under the substitutions found before. Where a symbol is a term
of its own, the equation defines it or says what it is a multiple of; an equation that does neither
waits for more substitutions, and is a guard at the end.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from tcp_eqsat.errors import Location, ShapeMismatch
from tcp_eqsat.lang.dims import (
    LARGEST,
    Dim,
    Guard,
    Size,
    Symbol,
    bounds,
    equal,
    maximum,
    minimum,
    substitute,
    symbol_dim,
    symbols_of,
)
from tcp_eqsat.lang.intervals import Number
from tcp_eqsat.lang.monomials import (
    CACHE,
    Monomial,
    Terms,
    common_factor,
    content,
    monomial_quotient,
    multiple_of,
)
from tcp_eqsat.lang.polynomial import Atom, lone_atom, polynomial_of, size_of_terms

MAX_STEPS = 16
"""Steps after which an equation waits. None known needs more than four."""


_Equation = tuple[Size, Size]
_STATE = ("_declared", "_facts", "_replaced", "_equations", "_waiting")


class Unifier:
    """Equations between sizes. All symbols of one name are one symbol: their facts add up.

    `priority` orders symbols by how much they deserve to survive, smallest first (user-given names
    before generated ones, say); among equals the name decides, `d2` before `d10`. A symbol that is
    one side of an equation is replaced before a symbol inside an expression.
    """

    def __init__(self, priority: Callable[[Symbol], Any] | None = None) -> None:
        self._priority = priority or (lambda _: 0)
        self._declared: dict[str, Dim] = {}
        self._facts: dict[Symbol, None] = {}
        self._made: set[Symbol] = set()
        self._replaced: dict[Symbol, Size] = {}
        self._equations: dict[_Equation, None] = {}
        self._waiting: dict[_Equation, Size] = {}
        self._resolved: dict[Size, Size] = {}

    def unify(self, left: Size, right: Size, where: Location | None = None) -> Size:
        """Requires `left == right` and returns what both are now.

        Raises ShapeMismatch, placed at `where`, if no values of the symbols make them equal; the
        unifier is then what it was before the call.
        """
        if type(left) is int and type(right) is int:
            if left == right:
                return left
            raise ShapeMismatch(f"sizes must be equal, got {left} and {right}", where)
        new = symbols_of(left, right)
        if left is right and self._facts.keys() >= set(new):
            return self.resolve(left)
        before = {name: getattr(self, name).copy() for name in _STATE}
        try:
            for each in new:
                self._declare(each)
            self._equations[left, right] = None
            self._settle((left, right))
        except ShapeMismatch as error:
            self.__dict__.update(before, _resolved={})
            raise error.at(where) from None
        return self.resolve(left)

    def resolve(self, size: Size) -> Size:
        """`size` with everything found so far: replaced symbols, narrowed ranges, divisors."""
        if type(size) is int:
            return size
        result = self._resolved.get(size)
        if result is None:
            result = self._resolved[size] = self._resolve(size)
        return result

    def _resolve(self, size: Size) -> Size:
        while not isinstance(size, int):
            found = {
                each.name: self._follow(each) for each in size.symbols if each in self._replaced
            }
            if not found:
                break
            size = size.substitute(found)
        return size

    def _follow(self, each: Symbol) -> Size:
        """What replaces a symbol, past symbols that only stand for others."""
        passed = []
        atom: Atom | None = each
        size: Size = 0
        while isinstance(atom, Symbol) and atom in self._replaced:
            passed.append(atom)
            size = self._replaced[atom]
            atom = lone_atom(size)
        for symbol in passed:
            self._replaced[symbol] = size
        return size

    @property
    def guards(self) -> tuple[Guard, ...]:
        """The equalities to check when sizes are known, over the surviving symbols as declared.

        For values of the surviving symbols within their declared facts, the guards hold exactly if
        all equations do and every replaced symbol is within its declared facts.
        """
        pairs = [(self._final(left), self._final(right)) for left, right in self._equations]
        for fact in self._facts:
            final = self._final(symbol_dim(fact))
            pairs.append((minimum(maximum(final, fact.lower), fact.upper), final))
            pairs.append((final // fact.divisor * fact.divisor, final))
        kept: dict[Size, Guard] = {}
        for left, right in pairs:
            if not equal(left, right) and right - left not in kept:
                kept.setdefault(left - right, Guard(left, right))
        return tuple(kept.values())

    def _final(self, size: Size) -> Size:
        """`size` over the surviving symbols, with their facts as they were declared."""
        mapping: dict[str, Size] = {}
        for each in symbols_of(size):
            declared = self._declared[each.name]
            result = self.resolve(declared)
            survivors = {other.name: self._declared[other.name] for other in symbols_of(result)}
            mapping[each.name] = substitute(result, survivors)
        return substitute(size, mapping)

    def _declare(self, new: Symbol) -> None:
        """Takes note of a symbol; one of a known name adds its facts to those known."""
        if new in self._facts or new in self._made:
            return
        self._facts[new] = None
        if new.name not in self._declared:
            self._declared[new.name] = symbol_dim(new)
            return
        known = self.resolve(self._declared[new.name])
        if known is not symbol_dim(new):
            self._replace(new, known)
            self._impose(known, new)

    def _settle(self, equation: _Equation) -> None:
        """Solves an equation, then those that waited for what it replaced."""
        ready = [equation]
        while ready:
            for each in ready:
                rest = self._solve(*each)
                if type(rest) is int:
                    self._waiting.pop(each, None)
                else:
                    self._waiting[each] = rest
            ready = [each for each, rest in self._waiting.items() if self.resolve(rest) is not rest]

    def _solve(self, left: Size, right: Size) -> Size:
        """Makes the sides equal as far as it can; returns their difference now, 0 if solved."""
        difference: Size = 0
        for _ in range(MAX_STEPS):
            left_now, right_now = self.resolve(left), self.resolve(right)
            difference = left_now - right_now
            if equal(difference, 0):
                return 0
            if isinstance(difference, int) or _never_zero(difference):
                raise ShapeMismatch(self._contradiction(left, right))
            alone = (lone_atom(left_now), lone_atom(right_now))
            terms = _without_nonzero_factors(difference.polynomial)
            try:
                if not self._define(terms, alone) and not self._restrict(terms):
                    break
            except ShapeMismatch as error:
                raise ShapeMismatch(self._contradiction(left, right, error.message)) from None
        return difference

    def _define(self, terms: Terms, alone: tuple[Atom | None, Atom | None]) -> bool:
        """Replaces a symbol by what `terms == 0` says it is, if it says so."""
        found = []
        for each in _linear_symbols(terms):
            solution = _solved_for(each, terms)
            if solution is not None:
                negative = any(coefficient < 0 for coefficient in solution.values())
                found.append(((each not in alone, negative), each, solution))
        if not found:
            return False
        best = min(rank for rank, _, _ in found)
        _, chosen, solution = max(
            (each for each in found if each[0] == best), key=lambda each: self._standing(each[1])
        )
        size = size_of_terms(solution)
        self._impose(size, chosen)
        self._replace(chosen, size)
        return True

    def _restrict(self, terms: Terms) -> bool:
        """Notes a divisor that `terms == 0` implies: a term is a multiple of what the others are."""
        for each in _linear_symbols(terms):
            monomial = ((each, 1),)
            unit = int(terms[monomial] * each.divisor)
            rest = content({m: c for m, c in terms.items() if m != monomial})
            factor = rest // math.gcd(unit, rest)
            if factor > 1:
                self._narrow(each, each.lower, each.upper, each.divisor * factor)
                return True
        return False

    def _impose(self, size: Size, fact: Symbol) -> None:
        """Passes the facts of `fact` on to the symbol of `size`, its new value, if it has one only.

        The upper end that symbols have by default is left to a guard: it would only rename symbols.
        """
        low, high = bounds(size)
        if high < fact.lower or low > fact.upper:
            raise ShapeMismatch(f"{fact.requirement()}, and {size} in [{low}, {high}]")
        terms = dict(polynomial_of(size))
        constant = terms.pop((), 0)
        each = next(_linear_symbols(terms), None)
        if each is None or len(terms) > 1:
            return
        slope = Fraction(terms[((each, 1),)])
        stated = fact.upper != LARGEST or size is symbol_dim(each)
        ends = [
            (fact.lower - constant) / slope,
            (fact.upper - constant) / slope if stated else None,
        ]
        low_end, high_end = ends if slope > 0 else reversed(ends)
        lower = each.lower if low_end is None else max(each.lower, math.ceil(low_end))
        upper = each.upper if high_end is None else min(each.upper, math.floor(high_end))
        factor = 1
        if constant % fact.divisor == 0:
            factor = fact.divisor // math.gcd(int(slope * each.divisor), fact.divisor)
        self._narrow(each, lower, upper, each.divisor * factor)

    def _narrow(self, old: Symbol, lower: int, upper: int, divisor: int) -> None:
        """Replaces a symbol by one of the same name and stronger facts, or by its only value."""
        new = Symbol(old.name, lower, upper, divisor)
        if new is old:
            return
        self._replaced.pop(new, None)
        self._made.add(new)
        low, high = new.interval
        self._replace(old, symbol_dim(new) if low < high else int(low))

    def _replace(self, old: Symbol, new: Size) -> None:
        self._replaced[old] = new
        self._resolved.clear()

    def _standing(self, each: Symbol) -> tuple[Any, ...]:
        return self._priority(each), _natural(each.name)

    def _contradiction(self, left: Size, right: Size, reason: str = "") -> str:
        """The sides as given, what they are by now, and what is known of their symbols."""
        text = f"sizes must be equal, got {left} and {right}"
        left_now, right_now = self.resolve(left), self.resolve(right)
        now = f"{left_now} and {right_now}"
        if not text.endswith(now):
            text += f", which are {now}"
        facts = "; ".join(
            each.requirement()
            for each in symbols_of(left_now, right_now)
            if each is not Symbol(each.name)
        )
        return text + "".join(f" ({part})" for part in (facts, reason) if part)


@functools.lru_cache(CACHE)
def _natural(name: str) -> tuple[Any, ...]:
    """Orders `d2` before `d10`."""
    parts = re.split(r"([0-9]+)", name)
    return tuple(int(part) if place % 2 else part for place, part in enumerate(parts))


def _never_zero(size: Dim) -> bool:
    """Whether ranges or divisors exclude the value 0."""
    low, high = size.bounds()
    if low > 0 or high < 0:
        return True
    variable = dict(size.polynomial)
    constant = variable.pop((), 0)
    return constant % content(variable) != 0


def _without_nonzero_factors(terms: Terms) -> Terms:
    """Terms with integer coefficients that sum to 0 exactly where `terms` do."""
    common = functools.reduce(common_factor, terms)
    nonzero = tuple(
        (atom, exponent)
        for atom, exponent in common
        if atom.interval[0] > 0 or atom.interval[1] < 0
    )
    scale = math.lcm(*(coefficient.denominator for coefficient in terms.values()))
    return {
        quotient: int(coefficient * scale)
        for monomial, coefficient in terms.items()
        if (quotient := monomial_quotient(monomial, nonzero)) is not None
    }


def _linear_symbols(terms: Terms) -> Iterator[Symbol]:
    """The symbols that are the atoms of a term of their own."""
    for monomial in terms:
        if len(monomial) == 1 and monomial[0][1] == 1 and isinstance(monomial[0][0], Symbol):
            yield monomial[0][0]


def _solved_for(each: Symbol, terms: Terms) -> Terms | None:
    """What `each` is where `terms == 0`, if it occurs nowhere else and that is an integer."""
    own = ((each, 1),)
    solution: dict[Monomial, Number] = {}
    for monomial, coefficient in terms.items():
        if monomial == own:
            continue
        ratio = Fraction(-coefficient, terms[own])
        unit = multiple_of(monomial)
        if any(each in atom.symbols for atom, _ in monomial) or (ratio * unit).denominator != 1:
            return None
        solution[monomial] = ratio
    return solution

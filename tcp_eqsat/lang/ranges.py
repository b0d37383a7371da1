"""Ranges of sizes: an interval around every value of a sum of terms, and tighter ones."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tcp_eqsat.lang import intervals
from tcp_eqsat.lang.intervals import Interval, Number
from tcp_eqsat.lang.monomials import Atom, Monomial, Terms, combine, multiply_terms

MAX_BOUNDED = 32
"""Sizes of more terms are bounded term by term only."""
MAX_MEASURED = 6
"""The same for sizes of more symbols or a higher degree, where they are measured from an end."""
MAX_CHOSEN = 3
"""Sizes with more minima and maxima are bounded without looking into them."""
_EVERYTHING: Interval = (-math.inf, math.inf)  # type: ignore[assignment]


def range_of(terms: Terms) -> Interval:
    """An interval around every value: term by term, then by whatever ties the terms together."""
    result = _termwise(terms, {})
    if not 1 < len(terms) <= MAX_BOUNDED or result[0] == result[1]:
        return result
    atoms = [atom for monomial in terms for atom, _ in monomial]
    if len(set(atoms)) == len(atoms) and not any(atom.depth for atom in atoms):
        return result
    for tighten in (_range_by_estimates, _range_from_ends, _range_by_alternatives):
        result = intervals.intersect(result, tighten(terms))
    return result


def _termwise(terms: Terms, ranges: Mapping[Atom, Interval]) -> Interval:
    low: Number = 0
    high: Number = 0
    for monomial, coefficient in terms.items():
        within: Interval = (1, 1)
        for atom, exponent in monomial:
            interval = ranges.get(atom, atom.interval)
            if exponent > 1:
                interval = intervals.power(interval, exponent)
            within = intervals.multiply(within, interval)
        within = intervals.scale(coefficient, within)
        low += within[0]
        high += within[1]
    return low, high


def _range_by_estimates(terms: Terms) -> Interval:
    """With floors by what they are nearly: what cancels against their dividend cancels."""
    exact: dict[Monomial, Number] = {}
    slack: Interval = (0, 0)
    for monomial, coefficient in terms.items():
        for place, (atom, exponent) in enumerate(monomial):
            if exponent == 1 and atom.estimate is not None:
                near, error = atom.estimate
                cofactor = {monomial[:place] + monomial[place + 1 :]: coefficient}
                exact = combine(exact, 1, multiply_terms(cofactor, near))
                lost = intervals.multiply(_termwise(cofactor, {}), error)
                slack = intervals.add(slack, lost)
                break
        else:
            exact[monomial] = exact.get(monomial, 0) + coefficient
    if slack == (0, 0):
        return _EVERYTHING
    return intervals.add(range_of({m: c for m, c in exact.items() if c}), slack)


def _range_from_ends(terms: Terms) -> Interval:
    """Symbols measured from an end of their range: `b*s - b` is `b*(s - 1)`, so >= 0 for s >= 1."""
    result = _EVERYTHING
    signs = {coefficient > 0 for monomial, coefficient in terms.items() if monomial}
    degree = max(sum(exponent for _, exponent in monomial) for monomial in terms)
    factors = [atom for monomial in terms for atom, _ in monomial if not atom.depth]
    symbols = list(dict.fromkeys(factors))
    if len(signs) < 2 or len(symbols) == len(factors) or max(len(symbols), degree) > MAX_MEASURED:
        return result
    for from_above in ((), *((symbol,) for symbol in symbols), tuple(symbols)):
        result = intervals.intersect(result, _range_measured(terms, symbols, from_above))
    return result


def _range_measured(terms: Terms, symbols: list[Atom], from_above: tuple[Atom, ...]) -> Interval:
    distances: dict[Atom, Interval] = {}
    measured: dict[Atom, Terms] = {}
    for symbol in symbols:
        low, high = symbol.interval
        distances[symbol] = (0, high - low)
        above = symbol in from_above
        measured[symbol] = {(): high if above else low, ((symbol, 1),): -1 if above else 1}
    total: dict[Monomial, Number] = {}
    for monomial, coefficient in terms.items():
        product: Terms = {(): coefficient}
        for atom, exponent in monomial:
            for _ in range(exponent):
                product = multiply_terms(product, measured.get(atom) or {((atom, 1),): 1})
        total = combine(total, 1, product)
    return _termwise(total, distances)


def _range_by_alternatives(terms: Terms) -> Interval:
    """A minimum or maximum is one of its operands, and no operand is beyond it."""
    chosen = [m[0][0] for m in terms if len(m) == 1 and m[0][1] == 1 and m[0][0].alternatives]
    if not 1 <= len(chosen) <= MAX_CHOSEN:
        return _EVERYTHING
    atom = chosen[0]
    coefficient = terms[((atom, 1),)]
    others = {m: c for m, c in terms.items() if m != ((atom, 1),)}
    ranges = [range_of(combine(others, coefficient, each)) for each in atom.alternatives]
    lows, highs = zip(*ranges, strict=True)
    if (coefficient > 0) == atom.smallest:
        return min(lows), min(highs)
    return max(lows), max(highs)

"""The series of the vector math functions that are no minimax fits: Chebyshev's and Temme's coefficients.

    python -m benchmarks.expansions

prints them as they stand in `tcp_eqsat/codegen/vector_math/` (bessel.py, incomplete_gamma.py). Needs mpmath.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import mpmath as mp

mp.mp.prec = 200
NODES = 80
Real = Callable[[mp.mpf], mp.mpf]


def chebyshev(function: Real) -> list[float]:
    """Coefficients of T0, T1, ... on [-1, 1], as long as they matter to an f64."""
    places = [mp.cos(mp.pi * (k + mp.mpf(1) / 2) / NODES) for k in range(NODES)]
    values = [function(x) for x in places]
    found = []
    for j in range(NODES // 2):
        waves = [mp.cos(mp.pi * j * (k + mp.mpf(1) / 2) / NODES) for k in range(NODES)]
        found.append((2 - (j == 0)) * mp.fsum(map(mp.fmul, values, waves)) / NODES)
    least = mp.mpf(2) ** -57 * abs(function(mp.mpf(0)))
    count = max(j for j, each in enumerate(found) if abs(each) > least) + 1
    return [float(each) for each in found[:count]]


def scaled_bessel_near(order: int) -> Real:
    """exp(-x) I(x), over x for order 1, with x = 4 (t + 1)."""

    def function(t: mp.mpf) -> mp.mpf:
        x = 4 * (t + 1)
        return mp.exp(-x) * mp.besseli(order, x) / (x if order else 1)

    return function


def scaled_bessel_far(order: int) -> Real:
    """sqrt(x) exp(-x) I(x) with 1 / x = (t + 1) / 16; by the asymptotic series for huge x."""

    def function(t: mp.mpf) -> mp.mpf:
        inverse = (t + 1) / 16
        if inverse > mp.mpf("1e-6"):
            x = 1 / inverse
            return mp.sqrt(x) * mp.exp(-x) * mp.besseli(order, x)
        term = total = mp.mpf(1)
        for k in range(1, 20):
            term *= ((2 * k - 1) ** 2 - 4 * order * order) * inverse / (8 * k)
            total += term
        return total / mp.sqrt(2 * mp.pi)

    return function


def temme(functions: int = 10, terms: int = 40) -> list[list[float]]:
    """Taylor coefficients in eta of Temme's c0, c1, ... (DLMF 8.12), in rational numbers.

    mu = x / a - 1 as a series in eta, from mu mu' = eta (1 + mu); 1 / mu; then c0 = 1 / mu - 1 / eta and
    ck = (d/d eta of c(k-1)) / eta + (-1)**k g(k) / mu, with Stirling's coefficients g.
    """
    mu = [Fraction(0)] * (terms + 2)
    mu[1] = Fraction(1)
    for n in range(2, terms + 2):
        mu[n] = (mu[n - 1] - sum(mu[i] * (n + 1 - i) * mu[n + 1 - i] for i in range(2, n))) / (n + 1)
    inverse = [Fraction(1)]  # of eta**-1, eta**0, ...
    for n in range(1, terms):
        inverse.append(-sum((mu[i + 1] * inverse[n - i] for i in range(1, n + 1)), Fraction(0)))
    bernoulli = [Fraction(1)]
    for k in range(1, 2 * functions + 4):
        bernoulli.append(-sum((math.comb(k + 1, j) * bernoulli[j] for j in range(k)), Fraction(0)) / (k + 1))
    logarithm = {2 * k - 1: bernoulli[2 * k] / (2 * k * (2 * k - 1)) for k in range(1, functions + 1)}
    stirling = [Fraction(1)]
    for n in range(1, functions):
        stirling.append(sum((j * logarithm.get(j, Fraction(0)) * stirling[n - j] for j in range(1, n + 1)),
                            Fraction(0)) / n)
    series = [[Fraction(0), *inverse[1:]]]
    for k in range(1, functions):
        before = series[-1]
        series.append([before[j + 2] * (j + 1) + (-1) ** k * stirling[k] * inverse[j] for j in range(len(before) - 2)])
    counts = [*(max(3, 18 - 2 * k) for k in range(functions - 1)), 2]
    return [[float(x) for x in each[1 : 1 + count]] for each, count in zip(series, counts, strict=True)]


def main() -> None:
    for order in (0, 1):
        for name, function in (("NEAR", scaled_bessel_near(order)), ("FAR", scaled_bessel_far(order))):
            print(f"I{order}_{name} = (")
            print("".join(f"    {x!r},\n" for x in chebyshev(function)) + ")")
    print("TEMME = (")
    for coefficients in temme():
        print("    (\n" + "".join(f"        {x!r},\n" for x in coefficients) + "    ),")
    print(")")


if __name__ == "__main__":
    main()

"""The Hurwitz zeta function and polygamma. f32 is computed in f64."""

from __future__ import annotations

import math

from tcp_eqsat.codegen.vector_math.arithmetic import (
    MathBuilder,
    V,
    VectorFunction,
    clamp,
    first_that_holds,
    number,
    outlined,
    through_double,
)
from tcp_eqsat.codegen.vector_math.exponential import exp
from tcp_eqsat.codegen.vector_math.gamma import BERNOULLI, digamma, lgamma
from tcp_eqsat.codegen.vector_math.logarithm import log
from tcp_eqsat.codegen.vector_math.power import pow
from tcp_eqsat.lang.types import F64, I64

TERMS = 10
"""That many terms are summed one by one before Euler and Maclaurin's formula takes over."""
LARGEST_FACTORIAL = 170
FACTORIALS = tuple(float(math.factorial(n)) for n in range(LARGEST_FACTORIAL + 1))


def _sum_of_powers(b: MathBuilder[V], s: V, q: V, unit: V | None) -> V:
    """The sum of ((q + k) / unit)**-s for q > 0 and s > 1; no unit is 1."""

    def power(base: V) -> V:
        return pow(b, base if unit is None else b.divide(base, unit), b.negate(s))

    one, half = number(b, s, 1.0), number(b, s, 0.5)
    a = b.add(q, number(b, s, float(TERMS)))
    last = power(a)
    finite = clamp(b, s, 0.0, 4096.0)
    # B(2j) / (2j)! * s (s + 1) ... (s + 2j - 2) * a**(-s - 2j + 1)
    inverse = b.divide(one, a)
    factor = b.multiply(b.multiply(last, inverse), finite)
    tail = b.multiply(last, half)
    for j, bernoulli in enumerate(BERNOULLI, 1):
        tail = b.fma(factor, number(b, s, float(bernoulli / math.factorial(2 * j))), tail)
        for k in (2 * j - 1, 2 * j):
            factor = b.multiply(factor, b.multiply(b.add(finite, number(b, s, float(k))), inverse))
    # a * last, but where that has underflowed
    integral = pow(b, a, b.subtract(one, s)) if unit is None else b.multiply(a, last)
    total = b.add(tail, b.divide(integral, b.subtract(s, one)))
    for k in reversed(range(TERMS)):
        total = b.add(total, power(b.add(q, number(b, s, float(k)))))
    return total


@outlined
def _hurwitz(b: MathBuilder[V], s: V, q: V) -> V:
    """The sum of (q + k)**-s for q > 0 and s > 1."""
    return _sum_of_powers(b, s, q, None)


@outlined
def _log_large(b: MathBuilder[V], n: V, x: V) -> V:
    """log(n! * zeta(n + 1, x)) for x > 0, where a factor is beyond the range of numbers."""
    s = b.add(n, number(b, n, 1.0))
    total = log(b, _sum_of_powers(b, s, x, x))
    factorial = lgamma(b, s)
    result = b.add(b.subtract(factorial, b.multiply(s, log(b, x))), total)
    infinity = number(b, n, math.inf)
    return b.select(b.compare("equal", factorial, infinity), infinity, result)


@outlined
def _zeta(b: MathBuilder[V], s: V, q: V) -> V:
    zero, one = number(b, s, 0.0), number(b, s, 1.0)
    positive = b.compare("greater", q, zero)
    total = _hurwitz(b, s, b.select(positive, q, one))
    half = b.multiply(s, number(b, s, 0.5))
    whole = b.compare("equal", b.trunc(s), s)
    odd = b.bitwise_and(whole, b.compare("not_equal", b.trunc(half), half))

    def from_above() -> tuple[V]:
        """For integral s: the terms with q + k < 0 are two sums of the other kind, up to their sign."""
        fraction, gap = b.subtract(q, b.floor(q)), b.subtract(b.ceil(q), q)
        below = b.subtract(_hurwitz(b, s, gap), _hurwitz(b, s, b.subtract(one, q)))
        below = b.select(odd, b.negate(below), below)
        return (b.add(_hurwitz(b, s, fraction), below),)

    result = b.where_any(b.compare("less", q, zero), from_above, (total,))[0]
    integral = b.compare("equal", b.trunc(q), q)
    infinity, nan = number(b, s, math.inf), number(b, s, math.nan)
    ordered = b.bitwise_and(b.compare("equal", s, s), b.compare("equal", q, q))
    return first_that_holds(
        b,
        result,
        (b.bitwise_not(ordered), nan),
        (b.compare("less", s, one), nan),
        (b.compare("equal", s, one), infinity),
        (b.bitwise_and(b.bitwise_not(positive), integral), infinity),
        (b.bitwise_and(b.bitwise_not(positive), b.bitwise_not(whole)), nan),
        (b.compare("equal", q, infinity), zero),
    )


@outlined
def _polygamma(b: MathBuilder[V], n: V, x: V) -> V:
    zero, one = number(b, n, 0.0), number(b, n, 1.0)
    positive = b.compare("greater", n, zero)

    def derivative() -> tuple[V]:
        """(-1)**(n + 1) * n! * zeta(n + 1, x)."""
        sum_of_powers = zeta(b, b.add(n, one), x)
        index = b.convert(clamp(b, n, 0.0, float(LARGEST_FACTORIAL)), I64)
        factorial = b.lookup("tcp.factorials", FACTORIALS, F64, index)
        result = b.multiply(sum_of_powers, factorial)
        least = number(b, n, 2.0**-1022)
        beyond = b.bitwise_or(
            b.compare("greater", n, number(b, n, float(LARGEST_FACTORIAL))),
            b.compare("less", b.absolute(sum_of_powers), least),
        )
        by_logarithms = exp(b, b.add(lgamma(b, b.add(n, one)), log(b, b.absolute(sum_of_powers))))
        result = b.select(beyond, b.copysign(by_logarithms, sum_of_powers), result)
        infinity = number(b, x, math.inf)
        beyond = b.bitwise_and(beyond, b.bitwise_and(b.compare("greater", x, zero), b.compare("less", x, infinity)))
        result = b.where_any(beyond, lambda: (exp(b, _log_large(b, n, x)),), (result,))[0]
        result = b.select(b.compare("equal", x, infinity), zero, result)
        half = b.multiply(n, number(b, n, 0.5))
        even = b.compare("equal", b.trunc(half), half)
        return (b.select(even, b.negate(result), result),)

    result = b.where_any(positive, derivative, (digamma(b, x),))[0]
    undefined = b.bitwise_or(
        b.bitwise_not(b.compare("greater_equal", n, zero)), b.compare("not_equal", b.trunc(n), n)
    )
    undefined = b.bitwise_or(undefined, b.compare("equal", n, number(b, n, math.inf)))
    return b.select(undefined, number(b, n, math.nan), result)


@through_double
def zeta(b: MathBuilder[V], s: V, q: V) -> V:
    """The sum over k >= 0 of (q + k)**-s for s > 1; see the scalar operation for the other cases."""
    return _zeta(b, s, q)


@through_double
def polygamma(b: MathBuilder[V], n: V, x: V) -> V:
    """The derivative of digamma of order n, an integer from 0."""
    return _polygamma(b, n, x)


FUNCTIONS: dict[str, VectorFunction] = {"zeta": zeta, "polygamma": polygamma}

"""lgamma and digamma. f32 is computed in f64."""

from __future__ import annotations

import math
from fractions import Fraction

from tcp_eqsat.codegen.vector_math.arithmetic import (
    MathBuilder,
    V,
    VectorFunction,
    number,
    outlined,
    polynomial,
    through_double,
)
from tcp_eqsat.codegen.vector_math.logarithm import log
from tcp_eqsat.codegen.vector_math.trigonometric import sin, tan

# lgamma(2 + u) / u, minimax (benchmarks/minimax.py)
# degree 18 on [-0.5, 0.5], error 2**-60.86
LGAMMA_NEAR_TWO = (
    0.42278433509846713,
    0.32246703342411326,
    -0.06735230105319817,
    0.020580808427780335,
    -0.0073855510286641,
    0.0028905103310367915,
    -0.0011927539121675051,
    0.0005096695153479901,
    -0.00022315474732026065,
    9.945767440656867e-05,
    -4.492639068242249e-05,
    2.0505584332470456e-05,
    -9.438190053548034e-06,
    4.384732100037085e-06,
    -2.0459830146521306e-06,
    9.199894327062944e-07,
    -4.2808837550908533e-07,
    2.78800480423694e-07,
    -1.3614379222253802e-07,
)
# digamma(x) / (x - root) in x - 3/2, minimax
# degree 22 on [-0.5, 0.5], error 2**-58.5
DIGAMMA_NEAR_ROOT = (
    0.9510558760318328,
    -0.4236274212814606,
    0.24054248424078778,
    -0.14840492305388006,
    0.09498872445276281,
    -0.061922133275562084,
    0.04076083394882097,
    -0.02697579665685532,
    0.017907248061730722,
    -0.011908220169975978,
    0.007927026574003748,
    -0.005279936415539911,
    0.003518050911383186,
    -0.0023455016462780405,
    0.0015637859184400786,
    -0.001036422633192741,
    0.0006889255885074489,
    -0.00048606445233430876,
    0.000329925041215051,
    -0.00014460335832847405,
    8.648180202738435e-05,
    -0.00017837378720841465,
    0.0001261296616136173,
)
# The positive root of digamma, and that less 1, as sums of two numbers
ROOT = (1.4616321449683622, 9.549995429965697e-17)
ROOT_LESS_ONE = (0.46163214496836236, -1.5522348162858677e-17)

BERNOULLI = tuple(
    map(Fraction, ("1/6", "-1/30", "1/42", "-1/30", "5/66", "-691/2730", "7/6", "-3617/510"))
)
"""B(2), B(4), ..., B(16)."""
STIRLING = tuple(float(value / (2 * k * (2 * k - 1))) for k, value in enumerate(BERNOULLI, 1))
DIGAMMA_TAIL = tuple(float(-value / (2 * k)) for k, value in enumerate(BERNOULLI, 1))
LARGE = 10.0
"""From here on the asymptotic series are good to the last digit."""


def _is_between(b: MathBuilder[V], x: V, low: float, high: float) -> V:
    """low < x <= high."""
    return b.bitwise_and(
        b.compare("greater", x, number(b, x, low)), b.compare("less_equal", x, number(b, x, high))
    )


def _distance_to_integer(b: MathBuilder[V], x: V) -> V:
    return b.subtract(x, b.round_even(x))


def _lgamma_positive(b: MathBuilder[V], x: V) -> V:
    """For x > 0, infinity and NaN: lgamma(2 + u) and the logarithm of what leads from 2 + u to x, or Stirling."""
    half, one, two = (number(b, x, value) for value in (0.5, 1.0, 2.0))
    small, middle = b.compare("less_equal", x, half), _is_between(b, x, 0.5, 1.5)
    u = b.select(small, x, b.select(middle, b.subtract(x, one), b.subtract(x, two)))
    factor = b.select(small, b.multiply(x, b.add(x, one)), b.select(middle, x, one))
    for k in range(1, 9):
        further = _is_between(b, x, k + 1.5, LARGE)
        below = b.subtract(x, number(b, x, float(k)))
        factor = b.select(further, b.multiply(factor, below), factor)
        u = b.select(further, b.subtract(below, two), u)
    large = b.compare("greater_equal", x, number(b, x, LARGE))
    logarithm = log(b, b.select(large, x, factor))
    near = b.multiply(u, polynomial(b, u, LGAMMA_NEAR_TWO))
    below_two = b.compare("less_equal", x, number(b, x, 1.5))
    near = b.add(near, b.select(below_two, b.negate(logarithm), logarithm))
    inverse = b.divide(one, x)
    series = b.multiply(inverse, polynomial(b, b.multiply(inverse, inverse), STIRLING))
    far = b.multiply(b.subtract(x, half), b.subtract(logarithm, one))
    far = b.add(far, b.add(series, number(b, x, (math.log(2 * math.pi) - 1) / 2)))
    return b.select(b.compare("less", x, number(b, x, LARGE)), near, far)


@outlined
def _lgamma(b: MathBuilder[V], x: V) -> V:
    size = b.absolute(x)
    positive = _lgamma_positive(b, size)

    def reflected() -> tuple[V]:
        """log(pi / |x sin(pi x)|) - lgamma(|x|), and infinities at the poles."""
        distance = _distance_to_integer(b, size)
        sine = b.absolute(sin(b, b.multiply(distance, number(b, x, math.pi))))
        pole = b.compare("equal", distance, number(b, x, 0.0))
        product = b.multiply(b.multiply(size, sine), number(b, x, 1 / math.pi))
        result = b.negate(b.add(log(b, product), positive))
        return (b.select(pole, number(b, x, math.inf), result),)

    # Closer to 0 the sign does not matter.
    usual = b.bitwise_and(
        b.compare("less", x, number(b, x, -(2.0**-60))), b.compare("greater", x, number(b, x, -math.inf))
    )
    return b.where_any(usual, reflected, (positive,))[0]


@outlined
def _digamma(b: MathBuilder[V], x: V) -> V:
    size = b.absolute(x)
    one, zero = number(b, x, 1.0), number(b, x, 0.0)
    below_one = b.compare("less", size, one)
    # Between 1 and 2, and from there: the sum of 1 / (x - k), as a fraction.
    moved, numerator, denominator = size, zero, one
    for k in range(1, 9):
        further = _is_between(b, size, k + 1.0, LARGE)
        term = b.subtract(size, number(b, x, float(k)))
        moved = b.select(further, term, moved)
        numerator = b.select(further, b.fma(numerator, term, denominator), numerator)
        denominator = b.select(further, b.multiply(denominator, term), denominator)
    numerator = b.select(below_one, b.negate(one), numerator)
    denominator = b.select(below_one, size, denominator)
    root = [
        b.select(below_one, number(b, x, less_one), number(b, x, part))
        for less_one, part in zip(ROOT_LESS_ONE, ROOT, strict=True)
    ]
    centre = b.select(below_one, number(b, x, 0.5), number(b, x, 1.5))
    slope = polynomial(b, b.subtract(moved, centre), DIGAMMA_NEAR_ROOT)
    near = b.multiply(b.subtract(b.subtract(moved, root[0]), root[1]), slope)
    near = b.add(near, b.divide(numerator, denominator))
    inverse = b.divide(one, size)
    square = b.multiply(inverse, inverse)
    tail = b.multiply(square, polynomial(b, square, DIGAMMA_TAIL))
    far = b.add(log(b, size), b.subtract(tail, b.multiply(inverse, number(b, x, 0.5))))
    positive = b.select(b.compare("less", size, number(b, x, LARGE)), near, far)

    def reflected() -> tuple[V]:
        """digamma(-x) - 1 / x - pi / tan(pi x), and NaN at the poles."""
        distance = _distance_to_integer(b, size)
        angle = b.multiply(distance, number(b, x, math.pi))
        result = b.add(b.add(positive, inverse), b.divide(number(b, x, math.pi), tan(b, angle)))
        # Next to 0 the first terms are infinite with opposite signs.
        result = b.select(b.compare("less", size, number(b, x, 1e-300)), inverse, result)
        pole = b.compare("equal", distance, zero)
        return (b.select(pole, number(b, x, math.nan), result),)

    result = b.where_any(b.compare("less_equal", x, zero), reflected, (positive,))[0]
    return b.select(b.compare("equal", x, number(b, x, -math.inf)), number(b, x, math.nan), result)


@through_double
def lgamma(b: MathBuilder[V], x: V) -> V:
    """log |gamma(x)|; infinite at 0 and the negative integers."""
    return _lgamma(b, x)


@through_double
def digamma(b: MathBuilder[V], x: V) -> V:
    """The derivative of lgamma; NaN at 0 and the negative integers."""
    return _digamma(b, x)


FUNCTIONS: dict[str, VectorFunction] = {"lgamma": lgamma, "digamma": digamma}

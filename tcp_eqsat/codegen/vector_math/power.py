"""rsqrt and pow, of integers too."""

from __future__ import annotations

import math

from tcp_eqsat.codegen.vector_math.arithmetic import (
    MathBuilder,
    V,
    VectorFunction,
    clamp,
    is_single,
    nearest_integer,
    number,
    polynomial,
    quick_two_sum,
    scale,
    two_product,
)
from tcp_eqsat.codegen.vector_math.exponential import EXP_F64, exp2
from tcp_eqsat.codegen.vector_math.logarithm import log2, special_cases, split
from tcp_eqsat.lang.types import F64

# (2 * atanh(s) / s - 2 - 2/3 * s**2) / s**4 in s**2, minimax, weighted for the relative error of log
# (benchmarks/minimax.py)
# degree 7 on [0.0, 0.0294961], error 2**-73.52
POW_LOG_F64 = (
    0.39999999999999974,
    0.2857142857144534,
    0.22222222217481566,
    0.18181818877052877,
    0.15384556411036893,
    0.13336335127679574,
    0.11674458739412893,
    0.1199201205317277,
)

# 2/3, 1 / log(2) and log(2), each as a sum of two numbers
TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)
INVERSE_LOG2 = (1.4426950408889634, 2.0355273740931033e-17)
LOG2 = (0.6931471805599453, 2.3190468138462996e-17)


def rsqrt(b: MathBuilder[V], x: V) -> V:
    """1 / sqrt(x) by two correctly rounded operations."""
    return b.divide(number(b, x, 1.0), b.sqrt(x))


def _pair_product(b: MathBuilder[V], x: tuple[V, V], y: tuple[V, V]) -> tuple[V, V]:
    """The product of two unevaluated sums."""
    product, error = two_product(b, x[0], y[0])
    cross = b.add(b.multiply(x[0], y[1]), b.multiply(x[1], y[0]))
    return quick_two_sum(b, product, b.add(error, cross))


def _constant_pair(b: MathBuilder[V], pair: tuple[float, float]) -> tuple[V, V]:
    return b.constant(pair[0], F64), b.constant(pair[1], F64)


def _log2_pair(b: MathBuilder[V], x: V) -> tuple[V, V]:
    """log2(x) as an unevaluated sum with about 66 correct digits, for positive finite f64 x.

    log(1 + f) = 2 s + 2/3 s**3 + s**5 * P(s**2) with s = f / (2 + f); all but the last term in pairs.
    """
    f, e = split(b, x)
    two = number(b, x, 2.0)
    below, below_error = quick_two_sum(b, two, f)
    s = b.divide(f, below)
    product, error = two_product(b, s, below)
    rest = b.subtract(b.subtract(b.subtract(f, product), error), b.multiply(s, below_error))
    s_pair = (s, b.divide(rest, below))
    square = _pair_product(b, s_pair, s_pair)
    cubic = _pair_product(b, square, _constant_pair(b, TWO_THIRDS))
    higher = b.multiply(b.multiply(square[0], square[0]), polynomial(b, square[0], POW_LOG_F64))
    factor, factor_error = quick_two_sum(b, two, cubic[0])
    factor_pair = quick_two_sum(b, factor, b.add(b.add(factor_error, cubic[1]), higher))
    logarithm = _pair_product(b, s_pair, factor_pair)
    scaled = _pair_product(b, logarithm, _constant_pair(b, INVERSE_LOG2))
    total, error = quick_two_sum(b, e, scaled[0])
    return quick_two_sum(b, total, b.add(error, scaled[1]))


def _power_double(b: MathBuilder[V], x: V, y: V) -> V:
    """x**y for positive finite f64 x."""
    high, low = _log2_pair(b, x)
    product, error = two_product(b, high, clamp(b, y, -(2.0**65), 2.0**65))
    exponent = clamp(b, product, -1100.0, 1100.0)
    inside = b.compare("equal", exponent, product)
    tail = b.add(error, b.multiply(low, y))
    tail = b.select(inside, tail, number(b, x, 0.0))
    n, whole = nearest_integer(b, exponent, 1.0)
    r, r_error = quick_two_sum(b, b.subtract(exponent, n), tail)
    # 2**(r + r_error) = exp(q + q_error)
    q, q_error = _pair_product(b, (r, r_error), _constant_pair(b, LOG2))
    one = number(b, x, 1.0)
    head, head_error = quick_two_sum(b, one, q)
    rest = b.fma(b.multiply(q, q), polynomial(b, q, EXP_F64), b.fma(q, q_error, q_error))
    return scale(b, b.add(head, b.add(head_error, rest)), whole)


def _pow(b: MathBuilder[V], x: V, y: V) -> V:
    """C99's pow. f32 is computed in f64; f64 with the logarithm as a pair of numbers."""
    zero, one = number(b, x, 0.0), number(b, x, 1.0)
    infinity, nan = number(b, x, math.inf), number(b, x, math.nan)
    size = b.absolute(x)
    if is_single(x):
        exponent = b.multiply(log2(b, b.convert(size, F64)), b.convert(y, F64))
        result = b.convert(exp2(b, exponent), x.dtype)
    else:
        # At 0, infinity and NaN the sign of the exponent decides: -inf * y, inf * y, NaN * y.
        ordinary = b.bitwise_and(b.compare("greater", size, zero), b.compare("less", size, infinity))
        edge = exp2(b, b.multiply(special_cases(b, size, size), y))
        result = b.select(ordinary, _power_double(b, b.select(ordinary, size, one), y), edge)
        result = b.select(b.compare("equal", y, y), result, nan)
    result = b.select(b.compare("equal", size, one), b.select(b.compare("equal", y, y), one, nan), result)
    half = b.multiply(y, number(b, x, 0.5))
    integral = b.compare("equal", b.trunc(y), y)
    odd = b.bitwise_and(integral, b.compare("not_equal", b.trunc(half), half))
    signed = b.select(odd, b.copysign(result, x), result)
    undefined = b.bitwise_and(b.compare("less", x, zero), b.compare("greater", x, number(b, x, -math.inf)))
    signed = b.select(b.bitwise_and(undefined, b.bitwise_not(integral)), nan, signed)
    always_one = b.bitwise_or(b.compare("equal", x, one), b.compare("equal", y, zero))
    return b.select(always_one, one, signed)


def pow(b: MathBuilder[V], x: V, y: V) -> V:
    """x to the power y with the special cases of C99."""
    return b.outlined("pow", _pow, x, y)


def _integer_pow(b: MathBuilder[V], x: V, y: V) -> V:
    zero, one = b.constant(0, x.dtype), b.constant(1, x.dtype)

    def is_odd(n: V) -> V:
        return b.compare("equal", b.bitwise_and(n, one), one)

    def step(result: V, square: V, rest: V) -> tuple[V, V, V, V]:
        result = b.select(is_odd(rest), b.multiply(result, square), result)
        rest = b.shift_right(rest, one)
        return b.compare("not_equal", rest, zero), result, b.multiply(square, square), rest

    if not x.dtype.is_signed:
        return b.iterate(x.dtype.bits, step, one, x, y)[0]
    below = b.compare("less", y, zero)
    result = b.iterate(x.dtype.bits, step, one, x, b.select(below, zero, y))[0]
    minus_one = b.constant(-1, x.dtype)
    alternating = b.select(is_odd(y), minus_one, one)
    inverse = b.select(b.compare("equal", x, minus_one), alternating, zero)
    inverse = b.select(b.compare("equal", x, one), one, inverse)
    return b.select(below, inverse, result)


def integer_pow(b: MathBuilder[V], x: V, y: V) -> V:
    """x to the power y of integers, wrapping; to negative powers 1 and -1 have reciprocals, others give 0."""
    return b.outlined(f"integer_pow.{x.dtype}", _integer_pow, x, y)


FUNCTIONS: dict[str, VectorFunction] = {"rsqrt": rsqrt, "pow": pow, "integer_pow": integer_pow}

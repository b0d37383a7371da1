"""log, log2, log10, log1p.

x = 2**e * (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), by integer arithmetic on the bits.
"""

from __future__ import annotations

import math

from tcp_eqsat.codegen.vector_math.arithmetic import (
    MathBuilder,
    V,
    VectorFunction,
    bits_type,
    is_single,
    mantissa_bits,
    number,
    polynomial,
)
from tcp_eqsat.codegen.vector_math.exponential import log2_parts
from tcp_eqsat.lang.types import F32, F64

# (log(1 + f) - f + f**2 / 2) / f**3, minimax, weighted for the relative error of log (benchmarks/minimax.py)
# degree 8 on [-0.292893, 0.414214], error 2**-30.36
LOG_F32 = (
    0.3333331048488617,
    -0.24999986588954926,
    0.20002226531505585,
    -0.16669252514839172,
    0.14218665659427643,
    -0.12384331971406937,
    0.11872915178537369,
    -0.11789879202842712,
    0.06915576756000519,
)
# (2 * atanh(s) / s - 2) / s**2 in s**2, minimax, weighted for the relative error of log
# degree 6 on [0.0, 0.0294961], error 2**-59.47
LOG_F64 = (
    0.6666666666666735,
    0.39999999999407476,
    0.2857142874414256,
    0.2222219837845921,
    0.18183575162755541,
    0.1531375589665996,
    0.1479906425289413,
)

# 1 / log(2) = high + low; high has trailing zeros, so that its product with half of the digits is exact
INVERSE_LOG2_F32 = (1.4428710938e00, -1.7605285393e-04)
INVERSE_LOG2_F64 = (1.44269504072144627571e00, 1.67517131648865118353e-10)
# 1 / log(10) and log10(2) likewise
INVERSE_LOG10_F64 = (0.4342944622039795, 1.9699272335463627e-08)
LOG10_OF_2_F64 = (0.30102999566361177, 3.694239077158931e-13)


def split(b: MathBuilder[V], x: V) -> tuple[V, V]:
    """f and e (a float) with x = 2**e * (1 + f); for positive finite x, subnormals included."""
    mantissa = mantissa_bits(x)
    least_normal = number(b, x, 2.0**-126 if is_single(x) else 2.0**-1022)
    lift = 24 if is_single(x) else 54
    tiny = b.compare("less", x, least_normal)
    lifted = b.select(tiny, b.multiply(x, number(b, x, 2.0**lift)), x)
    offset = b.select(tiny, number(b, x, -float(lift)), number(b, x, 0.0))
    f, e = split_normal(b, lifted, mantissa)
    return f, b.add(e, offset)


def split_normal(b: MathBuilder[V], x: V, mantissa: int) -> tuple[V, V]:
    """`split` for normal numbers."""
    integer = bits_type(x)
    bits = b.bitcast(x, integer)
    root_half = b.bitcast(number(b, x, math.sqrt(0.5)), integer)
    width = b.constant(mantissa, integer)
    e = b.shift_right(b.subtract(bits, root_half), width)
    m = b.bitcast(b.subtract(bits, b.shift_left(e, width)), x.dtype)
    return b.subtract(m, number(b, x, 1.0)), b.convert(e, x.dtype)


def curvature(b: MathBuilder[V], f: V) -> tuple[V, V]:
    """f**2 / 2 and log(1 + f) - (f - f**2 / 2)."""
    if is_single(f):
        square = b.multiply(f, f)
        cubic = b.multiply(b.multiply(f, square), polynomial(b, f, LOG_F32))
        return b.multiply(square, number(b, f, 0.5)), cubic
    half_square = b.multiply(b.multiply(f, f), number(b, f, 0.5))
    s = b.divide(f, b.add(f, number(b, f, 2.0)))
    z = b.multiply(s, s)
    return half_square, b.multiply(s, b.fma(z, polynomial(b, z, LOG_F64), half_square))


def combine(b: MathBuilder[V], f: V, e: V, correction: V | None = None) -> V:
    """e * log(2) + log(1 + f) + correction, small terms first."""
    high, low = log2_parts(f)
    half_square, rest = curvature(b, f)
    if correction is not None:
        rest = b.add(rest, correction)
    rest = b.fma(e, number(b, f, low), rest)
    result = b.add(f, b.subtract(rest, half_square))
    return b.fma(e, number(b, f, high), result)


def special_cases(b: MathBuilder[V], x: V, result: V, zero: float = 0.0) -> V:
    """`result`, but x at infinity and NaN, -inf at `zero`, NaN below."""
    at = number(b, x, zero)
    result = b.select(b.compare("less", x, number(b, x, math.inf)), result, x)
    result = b.select(b.compare("equal", x, at), number(b, x, -math.inf), result)
    return b.select(b.compare("less", x, at), number(b, x, math.nan), result)


def log(b: MathBuilder[V], x: V) -> V:
    """Natural logarithm."""
    return special_cases(b, x, combine(b, *split(b, x)))


def _to_base(b: MathBuilder[V], x: V, inverse: tuple[float, float], place: tuple[float, float]) -> V:
    """The logarithm of x to another base: 1 / log(base) = sum(inverse), log(2) / log(base) = sum(place)."""
    f, e = split(b, x)
    half_square, rest = curvature(b, f)
    # f - f**2 / 2 in two parts, the first with half of the digits
    integer = bits_type(x)
    keep = b.constant(-(1 << 12) if is_single(x) else -(1 << 32), integer)
    head = b.bitcast(b.bitwise_and(b.bitcast(b.subtract(f, half_square), integer), keep), x.dtype)
    tail = b.add(b.subtract(b.subtract(f, head), half_square), rest)
    high, low = (number(b, x, part) for part in inverse)
    small = b.fma(b.add(tail, head), low, b.multiply(tail, high))
    if place[1]:
        small = b.fma(e, number(b, x, place[1]), small)
    e = b.multiply(e, number(b, x, place[0])) if place[0] != 1 else e
    product = b.multiply(head, high)
    total = b.add(e, product)
    small = b.add(small, b.add(b.subtract(e, total), product))
    return special_cases(b, x, b.add(total, small))


def log2(b: MathBuilder[V], x: V) -> V:
    """Logarithm to base 2; exact for powers of two."""
    return _to_base(b, x, INVERSE_LOG2_F32 if is_single(x) else INVERSE_LOG2_F64, (1.0, 0.0))


def log10(b: MathBuilder[V], x: V) -> V:
    """Logarithm to base 10."""
    if is_single(x):
        return b.convert(b.multiply(log(b, b.convert(x, F64)), b.constant(1 / math.log(10), F64)), F32)
    return _to_base(b, x, INVERSE_LOG10_F64, LOG10_OF_2_F64)


def log1p(b: MathBuilder[V], x: V) -> V:
    """log(1 + x) without cancellation: what 1 + x loses by rounding is put back."""
    one = number(b, x, 1.0)
    total = b.add(x, one)
    f, e = split_normal(b, total, mantissa_bits(x))
    large = b.compare("greater", x, one)
    lost = b.select(large, b.subtract(one, b.subtract(total, x)), b.subtract(x, b.subtract(total, one)))
    near = b.compare("equal", e, number(b, x, 0.0))
    f = b.select(near, x, f)
    correction = b.select(near, number(b, x, 0.0), b.divide(lost, total))
    result = special_cases(b, x, combine(b, f, e, correction), -1.0)
    return b.select(b.compare("equal", x, number(b, x, 0.0)), x, result)


FUNCTIONS: dict[str, VectorFunction] = {"log": log, "log2": log2, "log10": log10, "log1p": log1p}

"""cbrt and hypot."""

from __future__ import annotations

import math

from tcp_eqsat.codegen.vector_math.arithmetic import (
    MathBuilder,
    V,
    VectorFunction,
    bits_type,
    is_single,
    number,
    polynomial,
    two_product,
)
from tcp_eqsat.lang.types import F32, F64, I32

# Of FreeBSD's cbrt (Bruce Evans): a third of the bits and these make a start that is right to 5 bits, for normal
# numbers and for subnormal ones times 2**24 (2**54); a polynomial in t**3 / x takes it to 23 bits.
THIRDS_F32 = (709958130, 642849266)
THIRDS_F64 = (715094163, 696219795)
CBRT = (
    1.87595182427177009643,
    -1.88497979543377169875,
    1.621429720105354466140,
    -0.758397934778766047437,
    0.145996192886612446982,
)


def _third_of_exponent(b: MathBuilder[V], size: V) -> V:
    """A number within a few percent of the cube root of a finite size > 0, with few digits."""
    single = is_single(size)
    normal, subnormal = THIRDS_F32 if single else THIRDS_F64
    tiny = b.compare("less", size, number(b, size, 2.0**-126 if single else 2.0**-1022))
    lifted = b.select(tiny, b.multiply(size, number(b, size, 2.0**24 if single else 2.0**54)), size)
    integer = bits_type(size)
    bits = b.bitcast(lifted, integer)
    word = bits if single else b.convert(b.shift_right(bits, b.constant(32, integer)), I32)
    start = b.select(tiny, b.constant(subnormal, I32), b.constant(normal, I32))
    word = b.add(b.divide(word, b.constant(3, I32)), start)
    if single:
        return b.bitcast(word, F32)
    return b.bitcast(b.shift_left(b.convert(word, integer), b.constant(32, integer)), F64)


def cbrt(b: MathBuilder[V], x: V) -> V:
    """Cube root; odd. The last step, of third order, starts from digits whose square is exact."""
    size = b.absolute(x)
    t = _third_of_exponent(b, size)
    t = b.multiply(t, polynomial(b, b.multiply(b.multiply(t, t), b.divide(t, size)), CBRT))
    integer = bits_type(x)
    dropped = 12 if is_single(x) else 30
    bits = b.add(b.bitcast(t, integer), b.constant(1 << (dropped - 1), integer))
    t = b.bitcast(b.bitwise_and(bits, b.constant(-1 << dropped, integer)), x.dtype)
    quotient = b.divide(size, b.multiply(t, t))
    step = b.divide(b.subtract(quotient, t), b.add(b.add(t, t), quotient))
    result = b.copysign(b.fma(t, step, t), x)
    usual = b.bitwise_and(
        b.compare("greater", size, number(b, x, 0.0)), b.compare("less", size, number(b, x, math.inf))
    )
    return b.select(usual, result, x)


def hypot(b: MathBuilder[V], x: V, y: V) -> V:
    """sqrt(x * x + y * y) without overflow in between; infinite where an operand is, even beside NaN."""
    result = _hypot_single(b, x, y) if is_single(x) else _hypot_double(b, x, y)
    infinity = number(b, x, math.inf)
    infinite = b.bitwise_or(
        b.compare("equal", b.absolute(x), infinity), b.compare("equal", b.absolute(y), infinity)
    )
    return b.select(infinite, infinity, result)


def _hypot_single(b: MathBuilder[V], x: V, y: V) -> V:
    x, y = b.convert(x, F64), b.convert(y, F64)
    return b.convert(b.sqrt(b.add(b.multiply(x, x), b.multiply(y, y))), F32)


def _hypot_double(b: MathBuilder[V], x: V, y: V) -> V:
    """With what the squares, their sum and the root lose put back (C. F. Borges, 2019)."""
    large, small = b.maximum(b.absolute(x), b.absolute(y)), b.minimum(b.absolute(x), b.absolute(y))
    one, up, down = (number(b, x, value) for value in (1.0, 2.0**600, 2.0**-600))
    huge = b.compare("greater", large, number(b, x, 2.0**500))
    tiny = b.compare("less", large, number(b, x, 2.0**-400))
    factor = b.select(huge, down, b.select(tiny, up, one))
    back = b.select(huge, up, b.select(tiny, down, one))
    large, small = b.multiply(large, factor), b.multiply(small, factor)
    large_square, large_error = two_product(b, large, large)
    small_square, small_error = two_product(b, small, small)
    root = b.sqrt(b.add(large_square, small_square))
    square, square_error = two_product(b, root, root)
    excess = b.subtract(b.subtract(square, large_square), small_square)
    excess = b.add(excess, b.subtract(b.subtract(square_error, large_error), small_error))
    zero = number(b, x, 0.0)
    divisor = b.select(b.compare("greater", root, zero), b.add(root, root), one)
    return b.multiply(b.subtract(root, b.divide(excess, divisor)), back)


FUNCTIONS: dict[str, VectorFunction] = {"cbrt": cbrt, "hypot": hypot}

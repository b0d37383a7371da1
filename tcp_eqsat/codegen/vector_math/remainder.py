"""fmod, exactly: long division with 51 binary digits of the quotient in a step."""

from __future__ import annotations

import math

from tcp_eqsat.codegen.vector_math.arithmetic import (
    MathBuilder,
    V,
    VectorFunction,
    first_that_holds,
    number,
    outlined,
    power_of_two,
    through_double,
    two_product,
)
from tcp_eqsat.lang.types import F64, I64

DIGITS = 51
STEPS = (1023 + 1074) // DIGITS + 1


def _normalised(b: MathBuilder[V], size: V) -> tuple[V, V]:
    """m in [1, 2) and e (i64) with size = m * 2**e, for finite f64 above 0."""
    tiny = b.compare("less", size, number(b, size, 2.0**-1022))
    bits = b.bitcast(b.select(tiny, b.multiply(size, number(b, size, 2.0**54)), size), I64)
    bias = b.select(tiny, b.constant(1023 + 54, I64), b.constant(1023, I64))
    e = b.subtract(b.shift_right(bits, b.constant(52, I64)), bias)
    fraction = b.bitwise_and(bits, b.constant((1 << 52) - 1, I64))
    return b.bitcast(b.bitwise_or(fraction, b.constant(1023 << 52, I64)), F64), e


@outlined
def _fmod(b: MathBuilder[V], x: V, y: V) -> V:
    zero, one = number(b, x, 0.0), number(b, x, 1.0)
    infinity = number(b, x, math.inf)
    size, divisor = b.absolute(x), b.absolute(y)
    divides = b.bitwise_and(b.compare("greater_equal", size, divisor), b.compare("greater", divisor, zero))
    divides = b.bitwise_and(divides, b.compare("less", size, infinity))
    m, e = _normalised(b, b.select(divides, size, one))
    d, place = _normalised(b, b.select(divides, divisor, one))
    none, most = b.constant(0, I64), b.constant(DIGITS, I64)

    def step(m: V, gap: V) -> tuple[V, V, V]:
        """m * 2**gap modulo d, `DIGITS` at a time. The quotient may be 1 too large, the rest is exact."""
        digits = b.minimum(gap, most)
        lifted = b.multiply(m, power_of_two(b, digits, m))
        quotient = b.trunc(b.divide(lifted, d))
        product, error = two_product(b, quotient, d)
        rest = b.subtract(b.subtract(lifted, product), error)
        rest = b.select(b.compare("less", rest, zero), b.add(rest, d), rest)
        gap = b.subtract(gap, digits)
        return b.compare("greater", gap, none), rest, gap

    rest, _ = b.iterate(STEPS, step, m, b.subtract(e, place))
    result = b.copysign(b.ldexp(rest, place), x)
    ordered = b.bitwise_and(b.compare("equal", x, x), b.compare("equal", y, y))
    defined = b.bitwise_and(b.compare("less", size, infinity), b.compare("greater", divisor, zero))
    return first_that_holds(
        b,
        x,
        (b.bitwise_not(b.bitwise_and(ordered, defined)), number(b, x, math.nan)),
        (divides, result),
    )


@through_double
def fmod(b: MathBuilder[V], x: V, y: V) -> V:
    """x - y * trunc(x / y) without any rounding, with the sign of x; NaN for infinite x and for y = 0."""
    return _fmod(b, x, y)


FUNCTIONS: dict[str, VectorFunction] = {"fmod": fmod}

"""asinh, acosh and atanh by log1p of a sum of two numbers. f32 is computed in f64."""

from __future__ import annotations

import math

from tcp_eqsat.codegen.vector_math.arithmetic import (
    MathBuilder,
    V,
    VectorFunction,
    mantissa_bits,
    number,
    quick_two_sum,
    through_double,
    two_product,
)
from tcp_eqsat.codegen.vector_math.logarithm import combine, log, split_normal

LARGE = 2.0**28
"""From here on sqrt(x * x + 1) is x but for half a unit in the last place."""


def log1p_sum(b: MathBuilder[V], high: V, low: V) -> V:
    """log(1 + high + low) for finite 0 <= high and a low part that is tiny beside it."""
    one = number(b, high, 1.0)
    total = b.add(high, one)
    f, e = split_normal(b, total, mantissa_bits(high))
    large = b.compare("greater", high, one)
    lost = b.select(
        large, b.subtract(one, b.subtract(total, high)), b.subtract(high, b.subtract(total, one))
    )
    near = b.compare("equal", e, number(b, high, 0.0))
    f = b.select(near, high, f)
    lost = b.select(near, low, b.add(lost, low))
    return combine(b, f, e, b.divide(lost, total))


def _log_double(b: MathBuilder[V], x: V) -> V:
    """log(2x), of infinity and NaN too."""
    return b.add(log(b, x), number(b, x, math.log(2)))


@through_double
def asinh(b: MathBuilder[V], x: V) -> V:
    """log1p(|x| + x**2 / (1 + sqrt(x**2 + 1))); odd."""
    size, one = b.absolute(x), number(b, x, 1.0)
    square = b.multiply(size, size)
    rest = b.divide(square, b.add(one, b.sqrt(b.add(square, one))))
    total, error = quick_two_sum(b, size, rest)
    usual = b.compare("less", size, number(b, x, LARGE))
    result = b.select(usual, log1p_sum(b, total, error), _log_double(b, size))
    # Where the square is 0 the terms above would be, too.
    tiny = b.compare("less", size, number(b, x, 2.0**-30))
    return b.copysign(b.select(tiny, size, result), x)


@through_double
def acosh(b: MathBuilder[V], x: V) -> V:
    """log1p(t + sqrt(t * (x + 1))) with t = x - 1; NaN below 1."""
    one = number(b, x, 1.0)
    t = b.subtract(x, one)
    product, product_error = two_product(b, t, t)
    square = b.add(product, b.add(t, t))
    square_error = b.add(b.subtract(product, b.subtract(square, b.add(t, t))), product_error)
    root = b.sqrt(square)
    back, back_error = two_product(b, root, root)
    missing = b.add(b.subtract(b.subtract(square, back), back_error), square_error)
    correction = b.divide(missing, b.add(root, root))
    large, small = b.maximum(t, root), b.minimum(t, root)
    total, error = quick_two_sum(b, large, small)
    error = b.add(error, b.select(b.compare("greater", root, number(b, x, 0.0)), correction, number(b, x, 0.0)))
    usual = b.compare("less", x, number(b, x, LARGE))
    result = b.select(usual, log1p_sum(b, total, error), _log_double(b, x))
    return b.select(b.compare("less", x, one), number(b, x, math.nan), result)


@through_double
def atanh(b: MathBuilder[V], x: V) -> V:
    """log1p(2|x| + 2 x**2 / (1 - |x|)) / 2; odd, infinite at 1, NaN beyond."""
    size, one = b.absolute(x), number(b, x, 1.0)
    double = b.add(size, size)
    rest = b.divide(b.multiply(double, size), b.subtract(one, size))
    large, small = b.maximum(double, rest), b.minimum(double, rest)
    total, error = quick_two_sum(b, large, small)
    result = b.multiply(log1p_sum(b, total, error), number(b, x, 0.5))
    result = b.select(b.compare("less", size, number(b, x, 2.0**-30)), size, result)
    result = b.select(b.compare("equal", size, one), number(b, x, math.inf), result)
    result = b.select(b.compare("greater", size, one), number(b, x, math.nan), result)
    return b.copysign(result, x)


FUNCTIONS: dict[str, VectorFunction] = {"asinh": asinh, "acosh": acosh, "atanh": atanh}

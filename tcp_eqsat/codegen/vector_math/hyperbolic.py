"""sinh, cosh, tanh and the logistic function."""

from __future__ import annotations

from tcp_eqsat.codegen.vector_math.arithmetic import (
    MathBuilder,
    V,
    VectorFunction,
    clamp,
    is_single,
    number,
    polynomial,
    scale,
)
from tcp_eqsat.codegen.vector_math.exponential import exp, exp_normal, expm1_reduced, reduced

# (tanh(x) / x - 1) / x**2 in x**2, minimax (benchmarks/minimax.py)
# degree 4 on [0.0, 0.4096], error 2**-27.47
TANH_F32 = (
    -0.33333271741867065,
    0.13331152498722076,
    -0.05371410772204399,
    0.020551718771457672,
    -0.005603912752121687,
)
# degree 10 on [0.0, 0.3136], error 2**-60.07
TANH_F64 = (
    -0.33333333333333287,
    0.13333333333324252,
    -0.053968253962354454,
    0.02186948834481332,
    -0.008863231916932706,
    0.003592085003493615,
    -0.0014554969280618799,
    0.0005882530177723907,
    -0.00023288841700540522,
    8.260175157521174e-05,
    -1.9049029453744253e-05,
)

# (sinh(x) / x - 1) / x**2 in x**2, minimax
# degree 3 on [0.0, 1.0], error 2**-34.04
SINH_F32 = (
    0.1666666716337204,
    0.008333350531756878,
    0.0001983606634894386,
    2.817439280988765e-06,
)
# degree 6 on [0.0, 1.0], error 2**-63.21
SINH_F64 = (
    0.16666666666666669,
    0.008333333333333139,
    0.0001984126984143768,
    2.755731915533689e-06,
    2.505212339854894e-08,
    1.605724034149663e-10,
    7.759312210921486e-13,
)


def half_exponential(b: MathBuilder[V], size: V) -> V:
    """exp(size) / 2 for size >= 0, infinite only where that is too large."""
    limited = clamp(b, size, 0.0, 90.0 if is_single(size) else 711.0)
    r, whole = reduced(b, limited)
    half = b.subtract(whole, b.constant(1, whole.dtype))
    return scale(b, b.add(expm1_reduced(b, r), number(b, size, 1.0)), half)


def sinh(b: MathBuilder[V], x: V) -> V:
    """Hyperbolic sine: a polynomial up to 1, beyond h - 1 / 4h with h = exp(|x|) / 2; odd."""
    size = b.absolute(x)
    square = b.multiply(size, size)
    near = b.fma(b.multiply(size, square), polynomial(b, square, SINH_F32 if is_single(x) else SINH_F64), size)
    half = half_exponential(b, size)
    far = b.subtract(half, b.divide(number(b, x, 0.25), half))
    return b.copysign(b.select(b.compare("less", size, number(b, x, 1.0)), near, far), x)


def cosh(b: MathBuilder[V], x: V) -> V:
    """Hyperbolic cosine: h + 1 / 4h with h = exp(|x|) / 2; even."""
    half = half_exponential(b, b.absolute(x))
    return b.add(half, b.divide(number(b, x, 0.25), half))


def tanh(b: MathBuilder[V], x: V) -> V:
    """Hyperbolic tangent: a polynomial near 0, elsewhere 1 - 2t / (1 + t) with t = exp(-2|x|); odd."""
    size = b.absolute(x)
    square = b.multiply(x, x)
    near = b.fma(b.multiply(size, square), polynomial(b, square, TANH_F32 if is_single(x) else TANH_F64), size)
    limit = number(b, x, 10.0 if is_single(x) else 20.0)
    limited = b.select(b.compare("greater", size, limit), limit, size)
    t = exp_normal(b, b.multiply(limited, number(b, x, -2.0)))
    one = number(b, x, 1.0)
    far = b.subtract(one, b.divide(b.add(t, t), b.add(t, one)))
    threshold = number(b, x, 0.625 if is_single(x) else 0.55)
    return b.copysign(b.select(b.compare("less", size, threshold), near, far), x)


def logistic(b: MathBuilder[V], x: V) -> V:
    """1 / (1 + exp(-x)), below 0 as exp(x) / (1 + exp(x)), so that it ends in subnormals, not in 0."""
    one = number(b, x, 1.0)
    t = exp(b, b.negate(b.absolute(x)))
    above = b.select(b.compare("less", x, number(b, x, 0.0)), t, one)
    return b.divide(above, b.add(t, one))


FUNCTIONS: dict[str, VectorFunction] = {"sinh": sinh, "cosh": cosh, "tanh": tanh, "logistic": logistic}

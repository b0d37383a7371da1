"""exp, exp2, expm1.

exp(x) = 2**n * exp(r) with n = round(x / log 2) and |r| <= log(2) / 2. The product n * LOG2_HIGH is exact (its
trailing zeros leave room for n), so the reduction keeps its accuracy with and without a fused multiply-add.
"""

from __future__ import annotations

import math

from tcp_eqsat.codegen.vector_math.arithmetic import (
    MathBuilder,
    V,
    VectorFunction,
    clamp,
    exponent_bias,
    is_single,
    nearest_integer,
    number,
    polynomial,
    power_of_two,
    scale,
)

# log(2) = high + low
LOG2_F32 = (0.693359375, -2.12194440e-4)
LOG2_F64 = (6.93147180369123816490e-01, 1.90821492927058770002e-10)

# (exp(r) - 1 - r) / r**2, minimax, weighted for the relative error of exp (benchmarks/minimax.py)
# degree 4 on [-0.347267, 0.347267], error 2**-28.27
EXP_F32 = (
    0.4999999403953552,
    0.1666651964187622,
    0.041668400168418884,
    0.00836885068565607,
    0.0013814325211569667,
)
# degree 9 on [-0.347267, 0.347267], error 2**-57.9
EXP_F64 = (
    0.5000000000000011,
    0.16666666666666408,
    0.04166666666652811,
    0.008333333333496926,
    0.0013888888944247981,
    0.00019841269502726355,
    2.4801492389487458e-05,
    2.7557588437438057e-06,
    2.7630523070764084e-07,
    2.4999852868185495e-08,
)

# (2**r - 1) / r, minimax, weighted for the relative error of 2**r
# degree 5 on [-0.5, 0.5], error 2**-28.92
EXP2_F32 = (
    0.6931471824645996,
    0.24022647738456726,
    0.055503323674201965,
    0.00961843691766262,
    0.0013398875016719103,
    0.00015353357593994588,
)
# degree 11 on [-0.5, 0.5], error 2**-64.36
EXP2_F64 = (
    0.6931471805599453,
    0.24022650695910072,
    0.05550410866482169,
    0.00961812910762833,
    0.001333355814639269,
    0.00015403530393640722,
    1.5252733854318575e-05,
    1.3215486594916444e-06,
    1.0178051941798279e-07,
    7.054974475169699e-09,
    4.4565705388033804e-10,
    2.5625426775747668e-11,
)


def log2_parts(x: V) -> tuple[float, float]:
    """log(2) as a number with trailing zeros and the rest."""
    return LOG2_F32 if is_single(x) else LOG2_F64


def reduced(b: MathBuilder[V], x: V) -> tuple[V, V]:
    """r and the integer n with x = n * log(2) + r."""
    high, low = log2_parts(x)
    n, whole = nearest_integer(b, x, 1 / math.log(2))
    r = b.fma(n, number(b, x, -high), x)
    return b.fma(n, number(b, x, -low), r), whole


def expm1_reduced(b: MathBuilder[V], r: V) -> V:
    """exp(r) - 1 for |r| <= log(2) / 2."""
    tail = polynomial(b, r, EXP_F32 if is_single(r) else EXP_F64)
    return b.fma(b.multiply(r, r), tail, r)


def exp_normal(b: MathBuilder[V], x: V) -> V:
    """exp(x) where x and the result are such that 2**round(x / log 2) is a normal number."""
    r, whole = reduced(b, x)
    return b.multiply(b.add(expm1_reduced(b, r), number(b, x, 1.0)), power_of_two(b, whole, x))


def exp(b: MathBuilder[V], x: V) -> V:
    """e to the power x, subnormal results included."""
    x = clamp(b, x, *((-104.0, 89.0) if is_single(x) else (-746.0, 710.0)))
    r, whole = reduced(b, x)
    return scale(b, b.add(expm1_reduced(b, r), number(b, x, 1.0)), whole)


def exp2(b: MathBuilder[V], x: V) -> V:
    """2 to the power x; exact for integers."""
    x = clamp(b, x, *((-151.0, 129.0) if is_single(x) else (-1076.0, 1025.0)))
    n, whole = nearest_integer(b, x, 1.0)
    r = b.subtract(x, n)
    tail = polynomial(b, r, EXP2_F32 if is_single(x) else EXP2_F64)
    return scale(b, b.fma(r, tail, number(b, x, 1.0)), whole)


def expm1(b: MathBuilder[V], x: V) -> V:
    """exp(x) - 1 without cancellation: 2**n * (exp(r) - 1) + (2**n - 1)."""
    limited = clamp(b, x, *((-18.0, 89.0) if is_single(x) else (-40.0, 710.0)))
    r, whole = reduced(b, limited)
    top = b.constant(exponent_bias(x), whole.dtype)
    beyond = b.compare("greater", whole, top)
    power = power_of_two(b, b.select(beyond, top, whole), x)
    one, two = number(b, x, 1.0), number(b, x, 2.0)
    result = b.fma(power, expm1_reduced(b, r), b.subtract(power, one))
    return b.copysign(b.multiply(result, b.select(beyond, two, one)), x)


FUNCTIONS: dict[str, VectorFunction] = {"exp": exp, "exp2": exp2, "expm1": expm1}

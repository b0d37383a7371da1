"""tanh and the logistic function."""

from __future__ import annotations

from tcp_eqsat.codegen.vector_math.arithmetic import (
    MathBuilder,
    V,
    VectorFunction,
    is_single,
    number,
    polynomial,
)
from tcp_eqsat.codegen.vector_math.exponential import exp, exp_normal

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


FUNCTIONS: dict[str, VectorFunction] = {"tanh": tanh, "logistic": logistic}

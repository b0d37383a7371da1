"""Exponential functions, logarithms, powers and roots."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tcp_eqsat.lang.scalar import ScalarExpr, apply, literal, scalar_op
from tcp_eqsat.lang.scalars.functions import float_function, in_double
from tcp_eqsat.lang.scalars.typing import floats, numbers


def _logistic(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x)), by the form that does not overflow on either side."""
    tail = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + tail), tail / (1 + tail)) + np.where(np.isnan(x), x, 0)


def _derivative_of_pow(g: ScalarExpr, x: ScalarExpr, y: ScalarExpr) -> tuple[ScalarExpr, ScalarExpr]:
    """y * x**(y - 1), which is 0 where y is 0; x**y * log(x), with log(1) at 0, where x**y is flat in y > 0."""
    one = literal(1, x.dtype)
    exponent = apply("where", apply("equal", y, literal(0, y.dtype)), one, y - 1)
    base = apply("where", apply("equal", x, literal(0, x.dtype)), one, x)
    return g * y * apply("pow", x, exponent), g * apply("pow", x, y) * apply("log", base)


exp = float_function(
    "exp", np.exp, lambda g, x: (g * apply("exp", x),), "e to the power x; infinite where it is too large, 0 at -inf.")
exp2 = float_function(
    "exp2", np.exp2, lambda g, x: (g * apply("exp2", x) * math.log(2),),
    "2 to the power x, exact for integers; infinite where it is too large, 0 at -inf.")
expm1 = float_function(
    "expm1", np.expm1, lambda g, x: (g * apply("exp", x),),
    "exp(x) - 1, accurate near 0; keeps the sign of zero, -1 at -inf.")
log = float_function("log", np.log, lambda g, x: (g / x,), "Natural logarithm; NaN below 0, -inf at 0.")
log2 = float_function(
    "log2", np.log2, lambda g, x: (g / (x * math.log(2)),), "Logarithm to base 2; NaN below 0, -inf at 0.")
log10 = float_function(
    "log10", np.log10, lambda g, x: (g / (x * math.log(10)),), "Logarithm to base 10; NaN below 0, -inf at 0.")
log1p = float_function(
    "log1p", np.log1p, lambda g, x: (g / (x + 1),),
    "log(1 + x), accurate near 0; keeps the sign of zero, NaN below -1, -inf at -1.")
logistic = float_function(
    "logistic", _logistic,
    lambda g, x: (g * apply("logistic", x) * (1 - apply("logistic", x)),),
    "1 / (1 + exp(-x)); 0 at -inf, 1 at inf, and accurate in its tail.")
sqrt = scalar_op(
    "sqrt", "x", infer=floats("sqrt"), reference=np.sqrt, emit=lambda b, x: b.sqrt(x),
    derivative=lambda g, x: (g / (apply("sqrt", x) * 2),),
    doc="Square root, correctly rounded; NaN below 0, sqrt(-0) is -0.",
)
rsqrt = scalar_op(
    "rsqrt", "x", infer=floats("rsqrt"), reference=in_double(lambda x: 1 / np.sqrt(x)),
    emit=lambda b, x: b.function("rsqrt", x), derivative=lambda g, x: (g * apply("rsqrt", x) / x * -0.5,),
    doc="1 / sqrt(x); infinite at zeros with their sign, NaN below 0, 0 at inf.",
)
cbrt = float_function(
    "cbrt", np.cbrt, lambda g, x: (g / (apply("square", apply("cbrt", x)) * 3),),
    "Cube root, of negative x too; odd.")


def _derivative_of_hypot(g: ScalarExpr, x: ScalarExpr, y: ScalarExpr) -> tuple[ScalarExpr, ScalarExpr]:
    """x and y over hypot(x, y), 0 at the origin."""
    zero = literal(0, x.dtype)
    length = apply("hypot", x, y)
    length = apply("where", apply("equal", length, zero), literal(1, x.dtype), length)
    return g * (x / length), g * (y / length)


hypot = float_function(
    "hypot", np.hypot, _derivative_of_hypot,
    "sqrt(x * x + y * y) without overflow in between; infinite where an operand is, even beside NaN.", "x y",
    commutative=True)


def _pow(x: Any, y: Any) -> np.ndarray:
    x, y = np.broadcast_arrays(x, y)
    if x.dtype.kind not in "iu":
        return in_double(np.float_power)(x, y)  # np.power takes sqrt for 0.5
    result, square, rest = np.ones_like(x), x.copy(), y.copy()
    for _ in range(x.dtype.itemsize * 8 - (x.dtype.kind == "i")):
        result = np.where(rest & 1, result * square, result)
        square, rest = square * square, rest >> 1
    if x.dtype.kind == "u":
        return result
    inverse = np.where(x == 1, 1, np.where(x == -1, np.where(y & 1, -1, 1), 0)).astype(x.dtype)
    return np.where(y < 0, inverse, result)


pow_ = scalar_op(
    "pow", "x y", infer=numbers("pow"), reference=_pow,
    emit=lambda b, x, y: b.function("pow" if x.dtype.is_float else "integer_pow", x, y),
    derivative=lambda g, x, y: _derivative_of_pow(g, x, y),
    doc="x to the power y. Floats: the special cases of C99's pow. Integers wrap; to a negative power 1 and -1 stay "
        "what they are or alternate, and everything else, 0 included, gives 0.",
)

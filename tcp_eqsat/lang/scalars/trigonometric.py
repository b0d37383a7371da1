"""Trigonometric functions and their inverses."""

from __future__ import annotations

import numpy as np

from tcp_eqsat.lang.scalar import ScalarExpr, apply
from tcp_eqsat.lang.scalars.functions import float_function

sin = float_function("sin", np.sin, lambda g, x: (g * apply("cos", x),), "Sine of x radians; odd; NaN at infinities.")
cos = float_function("cos", np.cos, lambda g, x: (-(g * apply("sin", x)),), "Cosine of x radians; NaN at infinities.")
tan = float_function(
    "tan", np.tan, lambda g, x: (g * (apply("square", apply("tan", x)) + 1),),
    "Tangent of x radians; odd; NaN at infinities.")
asin = float_function(
    "asin", np.arcsin, lambda g, x: (g * apply("rsqrt", (1 - x) * (x + 1)),),
    "Arcsine in radians, from -pi/2 to pi/2; odd; NaN beyond 1.")
acos = float_function(
    "acos", np.arccos, lambda g, x: (-(g * apply("rsqrt", (1 - x) * (x + 1))),),
    "Arccosine in radians, from 0 to pi; NaN beyond 1.")
atan = float_function(
    "atan", np.arctan, lambda g, x: (g / (x * x + 1),),
    "Arctangent in radians, from -pi/2 to pi/2, which it is at the infinities; odd.")


def _derivative_of_atan2(g: ScalarExpr, y: ScalarExpr, x: ScalarExpr) -> tuple[ScalarExpr, ScalarExpr]:
    length = apply("hypot", x, y)
    return g * (x / length / length), -(g * (y / length / length))


atan2 = float_function(
    "atan2", np.arctan2, _derivative_of_atan2,
    "The angle in radians, from -pi to pi, of the point (x, y), with the special cases of C99; odd in y.", "y x")

"""Hyperbolic functions and their inverses."""

from __future__ import annotations

import numpy as np

from tcp_eqsat.lang.scalar import apply
from tcp_eqsat.lang.scalars.functions import float_function

sinh = float_function(
    "sinh", np.sinh, lambda g, x: (g * apply("cosh", x),), "Hyperbolic sine; odd, infinite where it is too large.")
cosh = float_function(
    "cosh", np.cosh, lambda g, x: (g * apply("sinh", x),), "Hyperbolic cosine; even, infinite where it is too large.")
tanh = float_function(
    "tanh", np.tanh, lambda g, x: (g * (1 - apply("square", apply("tanh", x))),),
    "Hyperbolic tangent; odd, -1 and 1 at the infinities.")
asinh = float_function(
    "asinh", np.arcsinh, lambda g, x: (g * apply("rsqrt", x * x + 1),), "Inverse hyperbolic sine; odd.")
acosh = float_function(
    "acosh", np.arccosh, lambda g, x: (g * (apply("rsqrt", x - 1) * apply("rsqrt", x + 1)),),
    "Inverse hyperbolic cosine; NaN below 1.")
atanh = float_function(
    "atanh", np.arctanh, lambda g, x: (g / ((1 - x) * (x + 1)),),
    "Inverse hyperbolic tangent; odd, infinite at 1 and -1, NaN beyond.")

"""Trigonometric functions."""

from __future__ import annotations

import numpy as np

from tcp_eqsat.lang.scalar import apply
from tcp_eqsat.lang.scalars.functions import float_function

sin = float_function("sin", np.sin, lambda g, x: (g * apply("cos", x),), "Sine of x radians; odd; NaN at infinities.")
cos = float_function("cos", np.cos, lambda g, x: (-(g * apply("sin", x)),), "Cosine of x radians; NaN at infinities.")

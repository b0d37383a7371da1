"""x * y + z rounded once, in NumPy: the definition of the scalar operation fma."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from tcp_eqsat.lang.narrow import convert_array
from tcp_eqsat.lang.scalars.functions import elementwise
from tcp_eqsat.lang.types import F64, dtype_of


def fused(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """x * y + z with one rounding, in the dtype of the operands (arrays of one shape)."""
    dtype = dtype_of(x.dtype)
    if dtype == F64:
        return _in_rationals(x, y, z)
    # In f64 the product is exact. The sum is rounded to odd, so that rounding it again is rounding once.
    product, addend = x.astype(np.float64) * y.astype(np.float64), z.astype(np.float64)
    total = product + addend
    part = total - product
    error = (product - (total - part)) + (addend - part)
    even = (np.asarray(total).view(np.int64) & 1) == 0
    odd = np.nextafter(total, np.copysign(np.inf, error))
    return convert_array(np.where(even & (error != 0) & np.isfinite(error), odd, total), dtype)


def _exactly(x: float, y: float, z: float) -> float:
    if not (math.isfinite(x) and math.isfinite(y)):
        return x * y + z
    if not math.isfinite(z):
        return z
    total = Fraction(x) * Fraction(y) + Fraction(z)
    if total == 0:
        return x * y + z if x == 0 or y == 0 else 0.0
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


_in_rationals = elementwise(_exactly, 3)

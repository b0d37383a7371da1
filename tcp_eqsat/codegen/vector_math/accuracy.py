"""What the functions promise, and how their errors are measured."""

from __future__ import annotations

import numpy as np

from tcp_eqsat.lang.types import F32, DType

# The largest error in ULP, in f32 and in f64, over all arguments and on every target; docs/accuracy.md holds
# what was measured.
MAX_ULP: dict[str, tuple[float, float]] = {
    "exp": (1.1, 1.1),
    "exp2": (1.5, 1.5),
    "expm1": (1.6, 2.4),
    "log": (1.0, 1.0),
    "log2": (1.0, 1.0),
    "log1p": (1.0, 1.0),
    "tanh": (1.6, 1.8),
    "logistic": (2.6, 2.6),
    "erf": (1.5, 1.8),
    "sin": (1.6, 1.0),
    "cos": (1.6, 1.0),
    "tan": (3.5, 2.5),
    "pow": (0.51, 1.0),
    "rsqrt": (1.5, 1.5),
}


def max_ulp(name: str, dtype: DType) -> float:
    """The promised bound of function `name` in `dtype`."""
    return MAX_ULP[name][0 if dtype is F32 else 1]


def ulp_errors(found: np.ndarray, exact: np.ndarray, dtype: DType, exact_rest: np.ndarray | float = 0.0) -> np.ndarray:
    """|found - exact| in units of the last place of `exact` in `dtype`, as f64.

    `exact + exact_rest` is the reference, in a wider type (or as a sum of two numbers). A NaN that is wrong or
    missing and an infinity of the wrong sign count as infinite; an infinity stands for the least number above
    the range.
    """
    mantissa, least, top = (23, -149, 128) if dtype is F32 else (52, -1074, 1024)
    with np.errstate(all="ignore"):
        wide = found.astype(exact.dtype)
        rounded = exact.astype(dtype.numpy)
        place = np.maximum(np.frexp(exact)[1].astype(np.int64) - 1 - mantissa, least)
        # Large numbers are measured at a quarter of their size: the least number above the range is one of them.
        shift = np.where(np.abs(exact) > 1, -2, 0)
        limit = np.copysign(np.ldexp(np.asarray(1, exact.dtype), top - 2), wide)
        scaled = np.where(np.isinf(wide), limit, np.ldexp(wide, shift))
        difference = scaled - np.ldexp(exact, shift) - np.ldexp(np.asarray(exact_rest, exact.dtype), shift)
        # In two steps: 2**-place alone may be out of range.
        half = -place // 2
        errors = np.abs(np.ldexp(np.ldexp(difference, half), -place - shift - half))
        alike = (np.isnan(found) & np.isnan(exact)) | ((found == rounded) & np.isinf(found))
        errors = np.where(alike, 0.0, errors)
        wrong = np.isnan(errors) | (np.isnan(found) != np.isnan(exact))
        return np.where(wrong, np.inf, errors).astype(np.float64)

"""What the functions promise, and how their errors are measured."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tcp_eqsat.lang.types import F32, DType


@dataclass(frozen=True, slots=True)
class Promise:
    """The largest errors in f32 and in f64, on every target.

    They are in units of the last place of the exact result, or of the floor where the result is smaller than that:
    next to a zero that is not exactly representable, an error can only be bounded absolutely.
    """

    f32: float
    f64: float
    f32_floor: float = 0.0
    f64_floor: float = 0.0


PROMISES: dict[str, Promise] = {
    "exp": Promise(1.1, 1.1),
    "exp2": Promise(1.5, 1.5),
    "expm1": Promise(1.6, 2.4),
    "log": Promise(1.0, 1.0),
    "log2": Promise(1.0, 1.0),
    "log10": Promise(0.51, 0.9),
    "log1p": Promise(1.0, 1.0),
    "sinh": Promise(1.8, 1.8),
    "cosh": Promise(1.6, 1.7),
    "tanh": Promise(1.6, 1.8),
    "asinh": Promise(0.51, 1.4),
    "acosh": Promise(0.51, 1.3),
    "atanh": Promise(0.51, 1.5),
    "logistic": Promise(2.6, 2.6),
    "sin": Promise(1.6, 1.0),
    "cos": Promise(1.6, 1.0),
    "tan": Promise(0.51, 2.5),
    "asin": Promise(1.4, 1.3),
    "acos": Promise(1.4, 1.3),
    "atan": Promise(1.6, 1.8),
    "atan2": Promise(1.6, 1.8),
    "pow": Promise(0.51, 1.0),
    "rsqrt": Promise(1.5, 1.5),
    "cbrt": Promise(1.0, 1.0),
    "hypot": Promise(0.51, 0.9),
    "fma": Promise(0.5, 0.5),
    "erf": Promise(1.5, 1.8),
    "erfc": Promise(0.51, 2.9),
    "erf_inv": Promise(0.7, 3.8),
    "lgamma": Promise(0.51, 6.0, 2.0**-20, 1.0),
    "digamma": Promise(0.51, 20.0, 2.0**-20, 1.0),
    "zeta": Promise(0.51, 20.0),
    "polygamma": Promise(0.51, 20.0),
    "bessel_i0e": Promise(0.51, 8.0),
    "bessel_i1e": Promise(0.51, 10.0),
    "igamma": Promise(0.51, 24.0, 2.0**-20, 1.0),
    "igammac": Promise(0.51, 24.0, 2.0**-20, 1.0),
    "igamma_grad_a": Promise(0.51, 24.0, 2.0**-20, 1.0),
}
"""docs/accuracy.md holds what was measured."""


def max_ulp(name: str, dtype: DType) -> float:
    """The promised bound of function `name` in `dtype`."""
    return PROMISES[name].f32 if dtype is F32 else PROMISES[name].f64


def error_floor(name: str, dtype: DType) -> float:
    """The result below which errors of function `name` in `dtype` are measured as if it were that large."""
    return PROMISES[name].f32_floor if dtype is F32 else PROMISES[name].f64_floor


def ulp_errors(
    found: np.ndarray,
    exact: np.ndarray,
    dtype: DType,
    exact_rest: np.ndarray | float = 0.0,
    floor: float = 0.0,
) -> np.ndarray:
    """|found - exact| in units of the last place of `exact`, or of `floor` if that is larger, in `dtype`; as f64.

    `exact + exact_rest` is the reference, in a wider type (or as a sum of two numbers). A NaN that is wrong or
    missing and an infinity of the wrong sign count as infinite; an infinity stands for the least number above
    the range.
    """
    mantissa, least, top = (23, -149, 128) if dtype is F32 else (52, -1074, 1024)
    with np.errstate(all="ignore"):
        wide = found.astype(exact.dtype)
        rounded = exact.astype(dtype.numpy)
        place = np.maximum(np.frexp(np.maximum(np.abs(exact), floor))[1].astype(np.int64) - 1 - mantissa, least)
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

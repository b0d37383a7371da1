"""Comparing results: within the tolerance of a dtype, with NaN and infinities where they belong."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tcp_eqsat.lang.float_format import float_limits
from tcp_eqsat.lang.types import F32, F64, DType, dtype_of, is_float_array

# Relative and absolute tolerance of compiled code against the reference. Contractions and reductions accumulate in
# the result's precision (at least f32), the reference in double.
_TOLERANCE = {F32: (2e-4, 1e-5), F64: (1e-10, 1e-12)}
_STEPS = 8
"""Of the last place in a narrower float, relative to its size."""


def _tolerance(dtype: DType) -> tuple[float, float]:
    """What is stored in 8 bits may be a neighbour; what is computed in 16 is a few steps away."""
    if dtype in _TOLERANCE:
        return _TOLERANCE[dtype]
    limits = float_limits(dtype)
    return limits.epsilon * (1 if dtype.storage_only else _STEPS), limits.least_normal


@dataclass(frozen=True, slots=True)
class Comparison:
    """The largest absolute and relative error over finite elements, and whether everything agrees."""

    max_abs_error: float
    max_rel_error: float
    agrees: bool
    message: str = ""


def compare(found: np.ndarray, expected: np.ndarray, *, signs: bool = False) -> Comparison:
    """Whether two arrays agree: equal dtype and shape, integers exactly, floats within tolerance.

    Any NaN equals any NaN; infinities must be equal. `signs` also asks that zeros have equal signs. The parts of
    complex numbers are compared one by one.
    """
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return Comparison(np.inf, np.inf, False, f"expected {expected.dtype}{list(expected.shape)}, got "
                                                 f"{found.dtype}{list(found.shape)}")
    if found.dtype.kind == "c":
        return compare(_parts(found), _parts(expected), signs=signs)
    if not is_float_array(found):
        wrong = int((found != expected).sum())
        gap = 0.0
        if wrong:
            gap = float(np.abs(found.astype(np.float64) - expected.astype(np.float64)).max())
        return Comparison(gap, gap, wrong == 0, f"{wrong} elements differ" if wrong else "")
    relative, absolute = _tolerance(dtype_of(found.dtype))
    found, expected = found.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(expected)
    alike = np.where(np.isnan(expected), np.isnan(found), np.where(finite, np.isfinite(found), found == expected))
    if signs:
        alike &= ~((expected == 0) & (found == 0)) | (np.signbit(expected) == np.signbit(found))
    with np.errstate(all="ignore"):
        error = np.abs(found - expected)[finite]
        size = np.abs(expected)[finite]
        error = np.where(np.isnan(error), np.inf, error)
        within = error <= absolute + relative * np.maximum(size, _scale(size))
        share = error / np.where(size > 0, size, 1)
    largest = float(error.max(initial=0.0))
    agrees = bool(alike.all() and within.all())
    message = "" if agrees else f"{int((~alike).sum() + (~within).sum())} elements differ"
    return Comparison(largest, float(share.max(initial=0.0)), agrees, message)


def _parts(array: np.ndarray) -> np.ndarray:
    return np.stack((array.real, array.imag))


def _scale(size: np.ndarray) -> float:
    """A typical magnitude: a sum that cancels has the error of its terms."""
    return float(np.median(size)) if size.size else 0.0

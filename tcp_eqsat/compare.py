"""Comparing results: within the tolerance of a dtype, with NaN and infinities where they belong."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# Relative and absolute tolerance of compiled code against the reference, by element size in bytes. Contractions and
# reductions accumulate in the result's precision, the reference in double.
_TOLERANCE = {4: (2e-4, 1e-5), 8: (1e-10, 1e-12)}


@dataclass(frozen=True, slots=True)
class Comparison:
    """The largest absolute and relative error over finite elements, and whether everything agrees."""

    max_abs_error: float
    max_rel_error: float
    agrees: bool
    message: str = ""


def compare(found: np.ndarray, expected: np.ndarray, *, signs: bool = False) -> Comparison:
    """Whether two arrays agree: equal dtype and shape, integers exactly, floats within tolerance.

    Any NaN equals any NaN; infinities must be equal. `signs` also asks that zeros have equal signs.
    """
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return Comparison(np.inf, np.inf, False, f"expected {expected.dtype}{list(expected.shape)}, got "
                                                 f"{found.dtype}{list(found.shape)}")
    if found.dtype.kind != "f":
        wrong = int((found != expected).sum())
        gap = 0.0
        if wrong:
            gap = float(np.abs(found.astype(np.float64) - expected.astype(np.float64)).max())
        return Comparison(gap, gap, wrong == 0, f"{wrong} elements differ" if wrong else "")
    finite = np.isfinite(expected)
    alike = np.where(np.isnan(expected), np.isnan(found), np.where(finite, np.isfinite(found), found == expected))
    if signs:
        alike &= ~((expected == 0) & (found == 0)) | (np.signbit(expected) == np.signbit(found))
    relative, absolute = _TOLERANCE[found.dtype.itemsize]
    with np.errstate(all="ignore"):
        error = np.abs(found.astype(np.float64) - expected.astype(np.float64))[finite]
        size = np.abs(expected.astype(np.float64))[finite]
        error = np.where(np.isnan(error), np.inf, error)
        within = error <= absolute + relative * np.maximum(size, _scale(size))
        share = error / np.where(size > 0, size, 1)
    largest = float(error.max(initial=0.0))
    agrees = bool(alike.all() and within.all())
    message = "" if agrees else f"{int((~alike).sum() + (~within).sum())} elements differ"
    return Comparison(largest, float(share.max(initial=0.0)), agrees, message)


def _scale(size: np.ndarray) -> float:
    """A typical magnitude: a sum that cancels has the error of its terms."""
    return float(np.median(size)) if size.size else 0.0

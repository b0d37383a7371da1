"""Whether a value agrees with what a program expects: equal, within an absolute tolerance, or at most so many
numbers apart; with the first place where it does not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tcp_eqsat.lang.types import dtype_of, is_float_array


@dataclass(frozen=True)
class Difference:
    """The first element that differs, with what stands there."""

    index: tuple[int, ...]
    found: Any
    expected: Any
    count: int

    def __str__(self) -> str:
        more = f" and {self.count - 1} more" if self.count > 1 else ""
        return f"at {list(self.index)}{more}: got {self.found}, expected {self.expected}"


def difference(relation: str, found: np.ndarray, expected: np.ndarray, tolerance: float) -> Difference | None:
    """The first difference between arrays of one dtype and shape, None where they agree.

    relation   equal, almost (absolute tolerance), close (numbers of the dtype apart)

    Infinities and NaNs agree with themselves only; any NaN with any NaN. Parts of complex numbers agree one by one.
    """
    found, expected = np.asarray(found), np.asarray(expected)
    differs = ~_agree(relation, found, expected, tolerance)
    if not differs.any():
        return None
    index = tuple(int(n) for n in np.argwhere(differs)[0])
    return Difference(index, _shown(found[index]), _shown(expected[index]), int(differs.sum()))


def _shown(value: Any) -> str:
    dtype = np.asarray(value).dtype
    if dtype.kind in "biu":
        return str(value)
    return repr(complex(value)) if dtype.kind == "c" else repr(float(value)) if dtype.itemsize > 4 else str(value)


def _agree(relation: str, found: np.ndarray, expected: np.ndarray, tolerance: float) -> np.ndarray:
    if found.dtype.kind == "c":
        return (_agree(relation, found.real, expected.real, tolerance)
                & _agree(relation, found.imag, expected.imag, tolerance))
    if not is_float_array(found):
        return np.asarray(found == expected)
    wide, wanted = found.astype(np.float64), expected.astype(np.float64)
    same = (wide == wanted) | (np.isnan(wide) & np.isnan(wanted))
    if relation == "equal":
        return np.asarray(same)
    finite = np.isfinite(wide) & np.isfinite(wanted)
    with np.errstate(all="ignore"):
        near = np.abs(wide - wanted) <= tolerance if relation == "almost" else _steps(found, expected) <= tolerance
    return np.asarray(same | (finite & near))


def _steps(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """How many numbers of the dtype apart, as f64; exact up to 2**53."""
    a, b = _place(x), _place(y)
    apart = np.signbit(a.astype(np.float64)) != np.signbit(b.astype(np.float64))
    with np.errstate(over="ignore"):
        near = np.abs(a - b).astype(np.float64)
    return np.where(apart, np.abs(a.astype(np.float64)) + np.abs(b.astype(np.float64)), near)


def _place(x: np.ndarray) -> np.ndarray:
    """The place of each number in the order of its dtype, both zeros at 0, as i64."""
    bits = np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}").reshape(x.shape)
    sign = 1 << (dtype_of(x.dtype).bits - 1)
    size = (bits & np.array(sign - 1, bits.dtype)).astype(np.int64)
    return np.where(bits >= np.array(sign, bits.dtype), -size, size)

"""Conversions of NumPy arrays between all dtypes, each rounded once to nearest even.

Not every version of NumPy and `ml_dtypes` converts f64 and wide integers to f16, bf16 and the 8-bit floats without
rounding to f32 on the way. Here they go to f32 rounded to odd: what is inexact gets an odd last bit, so that the next
rounding sees on which side of a tie it is.

Scalar operations on f16 and bf16 are computed in f32 and rounded: see `in_f32` (references) and `by_f32` (emission).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from tcp_eqsat.lang.float_format import FORMATS, NonFinite, float_limits
from tcp_eqsat.lang.types import F8E8M0FNU, F32, DType, Kind, dtype_of, integer_range

_F = TypeVar("_F", bound=Callable[..., Any])
_SIGNIFICAND = 53
"""Bits of an f64's significand."""


def narrow_dtype(*operands: Any) -> DType | None:
    """The first dtype among arrays' that is f16 or bf16."""
    for x in operands:
        dtype = getattr(x, "dtype", None)
        if dtype is not None and dtype.itemsize == 2 and dtype.kind in "fV":
            return dtype_of(dtype)
    return None


def widened(array: np.ndarray) -> np.ndarray:
    """The same values in a dtype that NumPy computes with: narrow floats as f32, narrow integers in 8 bits."""
    if array.dtype.itemsize > 2 or array.dtype.kind in "biu":
        return array
    dtype = dtype_of(array.dtype)
    if dtype.is_float:
        if dtype.bits < 8:
            array = from_bits(array.view(np.uint8), dtype)
        with np.errstate(invalid="ignore"):  # a signalling NaN
            return array.astype(np.float32)
    return array.astype(np.int8 if dtype.is_signed else np.uint8)


def convert_array(array: Any, dtype: DType) -> np.ndarray:
    """Value conversion to `dtype`, see the scalar operations astype_*."""
    array = np.asarray(array)
    if array.dtype == dtype.numpy:
        return array
    array = widened(array)
    with np.errstate(all="ignore"):
        if dtype.kind is Kind.BOOL:
            return array != 0
        if dtype.is_integer:
            return _to_integer(array, dtype)
        return _to_float(array, dtype)


def _to_integer(array: np.ndarray, dtype: DType) -> np.ndarray:
    """Floats truncate and saturate, NaN becomes 0; integers wrap."""
    stored = np.dtype(f"{'i' if dtype.is_signed else 'u'}{dtype.bytes}")
    if array.dtype.kind == "f":
        least, most = integer_range(dtype)
        whole = np.trunc(np.where(np.isnan(array), 0, array).astype(np.float64))
        inside = (whole >= float(least)) & (whole < float(most) + (dtype.bits <= 32))
        result = np.where(inside, whole, 0).astype(stored)
        array = np.where(inside, result, np.where(whole < 0, *np.array([least, most], stored)))
    array = np.asarray(array.astype(stored))
    return array if dtype.bits >= 8 else from_bits(array.view(np.uint8), dtype)


def from_bits(stored: np.ndarray, dtype: DType) -> np.ndarray:
    """Values of a dtype of at most 8 bits from bytes whose low bits they are."""
    return np.asarray(stored & np.uint8((1 << dtype.bits) - 1)).view(dtype.numpy)


def _to_float(array: np.ndarray, dtype: DType) -> np.ndarray:
    if dtype.bits >= 32:
        return array.astype(dtype.numpy)
    if array.dtype.kind in "iu" and array.dtype.itemsize > 2:
        array = _odd_f64(array)
    if array.dtype.kind == "f" and array.dtype.itemsize > 4:
        array = odd_f32(array)
    single = np.asarray(array.astype(np.float32))
    if not has_nan(dtype):
        single = np.where(np.isnan(single), np.float32(-0.0), single)
    return _to_power(single) if dtype == F8E8M0FNU else single.astype(dtype.numpy)


def _to_power(array: np.ndarray) -> np.ndarray:
    """f32 to f8e8m0fnu: the exponent of the nearest power of two, ties up, 255 (NaN) for what has none.

    `ml_dtypes` before 0.7 rounds all that lies between the least two up.
    """
    bits = array.view(np.int32)
    power = np.where(bits < 1 << 23, bits >= 0x600000, (bits + 0x400000) >> 23)
    return np.where((bits <= 0) | (bits > 0x7F800000), 255, power).astype(np.uint8).view(F8E8M0FNU.numpy)


def has_nan(dtype: DType) -> bool:
    """Whether a float dtype has a NaN. In others NaN becomes -0, and what is too large their largest number."""
    return dtype not in FORMATS or FORMATS[dtype].non_finite is not NonFinite.NONE


def is_beyond(value: Any, dtype: DType) -> bool:
    """Whether a float dtype without NaN has nothing near a real number: it is none, or too large."""
    if has_nan(dtype):
        return False
    form, most = FORMATS[dtype], float_limits(dtype).largest
    before = 2.0 ** ((form.largest >> form.mantissa_bits) - form.bias - form.mantissa_bits)
    return not abs(value) < most + before / 2


def odd_f32(array: np.ndarray) -> np.ndarray:
    """f64 to f32 rounded to odd: towards zero, and then to an odd last bit where that was inexact."""
    array = np.asarray(array, np.float64)
    near = np.asarray(array.astype(np.float32))
    back = near.astype(np.float64)
    bits = near.view(np.uint32) - (np.abs(back) > np.abs(array)).astype(np.uint32)
    inexact = (back != array) & ~np.isnan(array)
    return np.asarray(np.where(inexact, bits | np.uint32(1), bits)).view(np.float32)


def _odd_f64(array: np.ndarray) -> np.ndarray:
    """Integers to f64 rounded to odd: the bits that don't fit are joined in the last one that does."""
    if array.dtype.itemsize <= 4:
        return array.astype(np.float64)
    shift = array.dtype.type(64 - _SIGNIFICAND)
    low = array & array.dtype.type((1 << int(shift)) - 1)
    joined = ((array >> shift) | (low != 0).astype(array.dtype)) << shift
    large = np.abs(array.astype(np.float64)) >= 2.0**_SIGNIFICAND
    return np.where(large, joined, array).astype(np.float64)


def encode_float(value: Any, dtype: DType) -> np.ndarray:
    """A real number as an array of rank 0 of a float dtype, rounded once; every NaN is one NaN."""
    if isinstance(value, int) and not isinstance(value, bool) and not -(1 << 63) <= value < 1 << 64:
        value = _odd_number(value) if dtype.bits < 64 else _float_of(value)
    array = convert_array(np.asarray(value), dtype)
    return np.array(np.nan, dtype.numpy) if np.isnan(array) else array


def _float_of(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf


def _odd_number(value: int) -> float:
    """A large integer as an f64 rounded to odd."""
    excess = max(0, abs(value).bit_length() - _SIGNIFICAND)
    kept = abs(value) >> excess
    kept |= kept << excess != abs(value)
    return _float_of((kept << excess) * (1 if value > 0 else -1))


def in_f32(reference: Callable[..., Any]) -> Callable[..., Any]:
    """A reference that is given f16 and bf16 operands as f32; what it gives in f32 is rounded to their dtype."""

    def widening(*operands: Any) -> Any:
        dtype = narrow_dtype(*operands)
        if dtype is None:
            return reference(*operands)
        result = np.asarray(reference(*(widened(x) if narrow_dtype(x) else x for x in operands)))
        return convert_array(result, dtype) if result.dtype == np.float32 else result

    return widening


def by_f32(emit: _F) -> _F:
    """An emission that is given f16 and bf16 values as f32; what it gives in f32 is rounded to their dtype."""

    def widening(builder: Any, *values: Any) -> Any:
        dtype = next((x.dtype for x in values if x.dtype.is_narrow_float), None)
        if dtype is None:
            return emit(builder, *values)
        wide = (builder.convert(x, F32) if x.dtype.is_narrow_float else x for x in values)
        result = emit(builder, *wide)
        return builder.convert(result, dtype) if result.dtype == F32 else result

    return cast(_F, widening)

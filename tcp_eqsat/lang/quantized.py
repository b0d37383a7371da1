"""Quantised dtypes: integers that stand for real numbers, value = scale * (stored - zero_point)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tcp_eqsat.errors import ParseError, TypeMismatch
from tcp_eqsat.lang.types import DType, Kind, dtype_named, integer_range


@dataclass(frozen=True, slots=True)
class QuantizedDType(DType):
    """Integers of dtype `storage` in [low, high] that stand for numbers of the float dtype `expressed`.

    With an `axis` there are a scale and a zero point for each index along it, else one of each. In memory, and in
    NumPy, such a tensor is its stored integers.
    """

    storage: DType = None  # type: ignore[assignment]
    expressed: DType = None  # type: ignore[assignment]
    scales: tuple[float, ...] = ()
    zero_points: tuple[int, ...] = ()
    axis: int | None = None
    low: int = 0
    high: int = 0

    @property
    def numpy(self) -> np.dtype:
        return self.storage.numpy


def quantized(storage: DType, expressed: DType, scales: float | Sequence[float], zero_points: int | Sequence[int] = 0,
              axis: int | None = None, low: int | None = None, high: int | None = None) -> QuantizedDType:
    """A quantised dtype, per tensor or, with an `axis`, per index along it.

    `low` and `high` bound what is stored (default: the range of `storage`). Raises TypeMismatch for dtypes that are no
    integer and float, scales that are not positive and finite, and zero points and bounds outside the storage's range.
    """
    if not storage.is_integer or not expressed.is_float:
        raise TypeMismatch(f"a quantised dtype requires integer storage of a float dtype, got {storage} of {expressed}")
    scales = (float(scales),) if isinstance(scales, (int, float)) else tuple(map(float, scales))
    zeros = (zero_points,) * len(scales) if isinstance(zero_points, int) else tuple(zero_points)
    least, most = integer_range(storage)
    low, high = least if low is None else low, most if high is None else high
    if axis is None and len(scales) != 1:
        raise TypeMismatch(f"a quantised dtype without an axis requires one scale, got {len(scales)}")
    if axis is not None and axis < 0:
        raise TypeMismatch(f"a quantised dtype requires an axis of at least 0, got {axis}")
    if len(zeros) != len(scales):
        raise TypeMismatch(f"a quantised dtype requires {len(scales)} zero points, got {len(zeros)}")
    for scale in scales:
        if not (math.isfinite(scale) and scale > 0):
            raise TypeMismatch(f"a quantised dtype requires positive, finite scales, got {scale}")
    if not least <= low <= high <= most:
        raise TypeMismatch(f"a quantised dtype requires bounds in {least}..{most}, got {low}..{high}")
    for zero in zeros:
        if not least <= zero <= most:
            raise TypeMismatch(f"a quantised dtype requires zero points in {least}..{most}, got {zero}")
    name = _name(storage, expressed, scales, zeros, axis, None if (low, high) == (least, most) else (low, high))
    return QuantizedDType(name, Kind.QUANTIZED, storage.bits, True, storage, expressed, scales, zeros, axis, low, high)


def _name(storage: DType, expressed: DType, scales: tuple[float, ...], zeros: tuple[int, ...], axis: int | None,
          bounds: tuple[int, int] | None) -> str:
    """`quant(i8:f32, 0.5:3)`, `quant(i8:f32:1, 0.5:0, 0.25:0)`, `quant(i8:-127:127:f32, 0.5:0)`."""
    head = [str(storage), *map(str, bounds or ()), str(expressed), *(() if axis is None else (str(axis),))]
    return f"quant({':'.join(head)}, {', '.join(f'{s!r}:{z}' for s, z in zip(scales, zeros, strict=True))})"


def parse_quantized(text: str) -> QuantizedDType:
    """The dtype that `(i8:f32, 0.5:3)` spells, what follows `quant` in its name.

    Raises ParseError for malformed text, UnknownName for unknown dtypes, TypeMismatch as `quantized`.
    """
    shown = " ".join(text.split())[:60]
    malformed = ParseError(f"a quantised dtype is written like quant(i8:f32, 0.5:3), got quant{shown}")
    head, *pairs = (part.strip() for part in text.strip().removeprefix("(").removesuffix(")").split(","))
    try:
        storage, *rest = (part.strip() for part in head.split(":"))
        bounds = [int(rest.pop(0)) for _ in range(2)] if rest and not rest[0][:1].isalpha() else [None, None]
        expressed, *axis = rest
        numbers = [(float(scale), int(zero)) for scale, zero in (pair.split(":") for pair in pairs)]
        position = int(axis.pop()) if axis else None
    except ValueError:
        raise malformed from None
    if axis or not numbers:
        raise malformed
    return quantized(dtype_named(storage), dtype_named(expressed), [s for s, _ in numbers], [z for _, z in numbers],
                     position, *bounds)


__all__ = ["QuantizedDType", "parse_quantized", "quantized"]

"""Operations on bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from tcp_eqsat.lang.scalar import NOT_DIFFERENTIABLE, scalar_op
from tcp_eqsat.lang.scalars.typing import bits, integers
from tcp_eqsat.lang.types import Kind


def _shift_left(x: Any, y: Any) -> np.ndarray:
    x, y = np.broadcast_arrays(x, y)
    width = x.dtype.itemsize * 8
    amount = y.astype(np.uint64) if y.dtype.kind == "u" else y.astype(np.int64).astype(np.uint64)
    outside = amount >= width
    shifted = np.left_shift(x, np.where(outside, 0, amount).astype(x.dtype))
    return np.where(outside, np.zeros_like(x), shifted)


def _shift_right(x: Any, y: Any) -> np.ndarray:
    x, y = np.broadcast_arrays(x, y)
    width = x.dtype.itemsize * 8
    amount = y.astype(np.uint64) if y.dtype.kind == "u" else y.astype(np.int64).astype(np.uint64)
    outside = amount >= width
    shifted = np.right_shift(x, np.where(outside, width - 1, amount).astype(x.dtype))
    if x.dtype.kind == "u":
        return np.where(outside, np.zeros_like(x), shifted)
    return shifted


def _ones(x: Any) -> np.ndarray:
    """The number of bits of x that are set, in x's dtype."""
    x = np.asarray(x)
    unsigned = x.view(f"u{x.dtype.itemsize}")
    places = range(x.dtype.itemsize * 8)
    return sum(((unsigned >> unsigned.dtype.type(k)) & unsigned.dtype.type(1)).astype(x.dtype) for k in places)


def _leading_zeros(x: Any) -> np.ndarray:
    x = np.asarray(x)
    unsigned = x.view(f"u{x.dtype.itemsize}")
    places = range(x.dtype.itemsize * 8)
    return sum(((unsigned >> unsigned.dtype.type(k)) == 0).astype(x.dtype) for k in places)


bitwise_and = scalar_op(
    "bitwise_and", "x y", infer=bits("bitwise_and"), reference=np.bitwise_and,
    emit=lambda b, x, y: b.bitwise_and(x, y), derivative=NOT_DIFFERENTIABLE, commutative=True,
    identity=lambda dtype: True if dtype.kind is Kind.BOOL else (-1 if dtype.is_signed else (1 << dtype.bits) - 1),
    doc="And of all bits; of bool: and.",
)
bitwise_or = scalar_op(
    "bitwise_or", "x y", infer=bits("bitwise_or"), reference=np.bitwise_or,
    emit=lambda b, x, y: b.bitwise_or(x, y), derivative=NOT_DIFFERENTIABLE, commutative=True,
    identity=lambda dtype: 0, doc="Or of all bits; of bool: or.",
)
bitwise_xor = scalar_op(
    "bitwise_xor", "x y", infer=bits("bitwise_xor"), reference=np.bitwise_xor,
    emit=lambda b, x, y: b.bitwise_xor(x, y), derivative=NOT_DIFFERENTIABLE, commutative=True,
    identity=lambda dtype: 0, doc="Exclusive or of all bits; of bool: not equal.",
)
bitwise_invert = scalar_op(
    "bitwise_invert", "x", infer=bits("bitwise_invert"), reference=np.invert,
    emit=lambda b, x: b.bitwise_not(x), derivative=NOT_DIFFERENTIABLE, doc="All bits flipped; of bool: not.",
)
bitwise_left_shift = scalar_op(
    "bitwise_left_shift", "x y", infer=integers("bitwise_left_shift"), reference=_shift_left,
    emit=lambda b, x, y: b.shift_left(x, y), derivative=NOT_DIFFERENTIABLE,
    doc="x shifted left by y bits, y read as unsigned; 0 from the width of x on.",
)
bitwise_right_shift = scalar_op(
    "bitwise_right_shift", "x y", infer=integers("bitwise_right_shift"), reference=_shift_right,
    emit=lambda b, x, y: b.shift_right(x, y), derivative=NOT_DIFFERENTIABLE,
    doc="x shifted right by y bits, y read as unsigned; signed x keeps its sign, and from the width on gives "
        "only sign bits.",
)
popcount = scalar_op(
    "popcount", "x", infer=integers("popcount"), reference=_ones, emit=lambda b, x: b.count_ones(x),
    derivative=NOT_DIFFERENTIABLE, doc="How many bits of x are set.",
)
count_leading_zeros = scalar_op(
    "count_leading_zeros", "x", infer=integers("count_leading_zeros"), reference=_leading_zeros,
    emit=lambda b, x: b.count_leading_zeros(x), derivative=NOT_DIFFERENTIABLE,
    doc="How many zeros stand before the first bit of x that is set; the width for 0.",
)

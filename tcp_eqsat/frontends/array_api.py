"""The Python array API's functions over traced tensors: `tcp.numpy`.

Functions take traced tensors, NumPy arrays (which become constants) and Python numbers. Sizes may be symbolic.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np

from tcp_eqsat.errors import ShapeMismatch, TypeMismatch
from tcp_eqsat.frontends import array_fft, array_linalg, array_random
from tcp_eqsat.frontends.array_elementwise import *  # noqa: F403  (all of its names are functions of this namespace)
from tcp_eqsat.frontends.array_elementwise import astype, multiply, square, where
from tcp_eqsat.frontends.array_structure import argmax as argmax
from tcp_eqsat.frontends.array_structure import argmin as argmin
from tcp_eqsat.frontends.array_structure import argsort as argsort
from tcp_eqsat.frontends.array_structure import cumulative_logsumexp as cumulative_logsumexp
from tcp_eqsat.frontends.array_structure import cumulative_max as cumulative_max
from tcp_eqsat.frontends.array_structure import cumulative_min as cumulative_min
from tcp_eqsat.frontends.array_structure import cumulative_prod as cumulative_prod
from tcp_eqsat.frontends.array_structure import cumulative_sum as cumulative_sum
from tcp_eqsat.frontends.array_structure import dynamic_slice as dynamic_slice
from tcp_eqsat.frontends.array_structure import dynamic_update_slice as dynamic_update_slice
from tcp_eqsat.frontends.array_structure import flip as flip
from tcp_eqsat.frontends.array_structure import one_hot as one_hot
from tcp_eqsat.frontends.array_structure import repeat as repeat
from tcp_eqsat.frontends.array_structure import roll as roll
from tcp_eqsat.frontends.array_structure import scatter_add as scatter_add
from tcp_eqsat.frontends.array_structure import searchsorted as searchsorted
from tcp_eqsat.frontends.array_structure import sort as sort
from tcp_eqsat.frontends.array_structure import take as take
from tcp_eqsat.frontends.array_structure import take_along_axis as take_along_axis
from tcp_eqsat.frontends.array_structure import tile as tile
from tcp_eqsat.frontends.array_structure import top_k as top_k
from tcp_eqsat.frontends.array_structure import unique_all as unique_all
from tcp_eqsat.frontends.array_structure import unique_counts as unique_counts
from tcp_eqsat.frontends.array_structure import unique_inverse as unique_inverse
from tcp_eqsat.frontends.array_structure import unique_values as unique_values
from tcp_eqsat.frontends.traced import (
    Operand,
    Traced,
    agree,
    as_dtype,
    as_shape,
    as_size,
    infer_sizes,
    lift,
    lift_together,
    resolve_axes,
)
from tcp_eqsat.frontends.traced import broadcast_to as _broadcast_to
from tcp_eqsat.frontends.traced import matmul as matmul
from tcp_eqsat.lang.dims import Size, product
from tcp_eqsat.lang.dims import equal as equal_sizes
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.scalar import scalar_op_named
from tcp_eqsat.lang.types import F32, Kind, Shape

fft, linalg, random = array_fft, array_linalg, array_random
newaxis = None
e, pi, inf, nan = np.e, np.pi, np.inf, np.nan


# Creation


def asarray(value: Operand, dtype: Any = None) -> Traced:
    """A constant, or the traced tensor itself."""
    result = Traced(lift(value))
    return result if dtype is None else result.astype(dtype)


def full(shape: Any, value: Any, dtype: Any = F32) -> Traced:
    """The same number everywhere (f32 unless told)."""
    return Traced(builders.splat(value, as_dtype(dtype), as_shape(shape)))


def zeros(shape: Any, dtype: Any = F32) -> Traced:
    """0 everywhere (f32 unless told)."""
    return full(shape, 0, dtype)


def ones(shape: Any, dtype: Any = F32) -> Traced:
    """1 everywhere (f32 unless told)."""
    return full(shape, 1, dtype)


def full_like(x: Operand, value: Any) -> Traced:
    """The same number at every index of x, in its dtype."""
    node = lift(x)
    return full(node.shape, value, node.dtype)


def zeros_like(x: Operand) -> Traced:
    """0 at every index of x, in its dtype."""
    return full_like(x, 0)


def ones_like(x: Operand) -> Traced:
    """1 at every index of x, in its dtype."""
    return full_like(x, 1)


def arange(size: Size, dtype: Any = "i64") -> Traced:
    """0, 1, ..., size - 1."""
    return Traced(builders.iota(as_dtype(dtype), (as_size(size),), 0))


def eye(size: int, dtype: Any = F32) -> Traced:
    """The identity matrix."""
    rows, columns = (Traced(builders.iota(as_dtype("i64"), (size, size), axis)) for axis in (0, 1))
    return where(rows == columns, ones((size, size), dtype), zeros((size, size), dtype))


# Movement


def _axes(axis: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    return resolve_axes(range(rank) if axis is None else axis, rank)


def reshape(x: Operand, shape: Any) -> Traced:
    """Row-major reshape; one size may be -1."""
    node = lift(x)
    return Traced(builders.reshape(node, infer_sizes(node.shape, as_shape(shape))))


def permute_dims(x: Operand, axes: Sequence[int]) -> Traced:
    """Result axis n is axis axes[n] of x."""
    node = lift(x)
    return Traced(builders.transpose(node, resolve_axes(axes, len(node.shape))))


def matrix_transpose(x: Operand) -> Traced:
    """The last two axes swapped."""
    rank = len(lift(x).shape)
    return permute_dims(x, (*range(rank - 2), rank - 1, rank - 2))


def moveaxis(x: Operand, source: int, destination: int) -> Traced:
    """Axis `source` of x becomes axis `destination`, the others keep their order."""
    rank = len(lift(x).shape)
    (source,), (destination,) = _axes(source, rank), _axes(destination, rank)
    order = [a for a in range(rank) if a != source]
    order.insert(destination, source)
    return permute_dims(x, order)


def broadcast_to(x: Operand, shape: Any) -> Traced:
    """x under a shape that NumPy would broadcast it to."""
    return Traced(_broadcast_to(lift(x), as_shape(shape)))


def expand_dims(x: Operand, axis: int = 0) -> Traced:
    """A new axis of size 1 at `axis` of the result."""
    node = lift(x)
    (at,) = _axes(axis, len(node.shape) + 1)
    return Traced(node)[(*([slice(None)] * at), None)]


def squeeze(x: Operand, axis: int | Sequence[int]) -> Traced:
    """Axes of size 1 removed."""
    node = lift(x)
    axes = _axes(axis, len(node.shape))
    for a in axes:
        if not equal_sizes(node.shape[a], 1):
            raise ShapeMismatch(f"squeeze requires size 1 along axis {a} of {node.type}")
    kept = [a for a in range(len(node.shape)) if a not in axes]
    labels = tuple(kept.index(a) if a in kept else -1 for a in range(len(node.shape)))
    return Traced(builders.view(node, labels, tuple(node.shape[a] for a in kept)))


def concat(arrays: Sequence[Operand], axis: int = 0) -> Traced:
    """Arrays one after the other along `axis`."""
    if not arrays:
        raise TypeMismatch("concat requires at least one array")
    nodes = lift_together(arrays)
    (at,) = _axes(axis, len(nodes[0].shape))
    for node in nodes[1:]:
        if len(node.shape) == len(nodes[0].shape):
            for a, (left, right) in enumerate(zip(nodes[0].shape, node.shape, strict=True)):
                if a != at:
                    agree(left, right)
    return Traced(builders.concatenate(tuple(nodes), at))


def stack(arrays: Sequence[Operand], axis: int = 0) -> Traced:
    """Arrays of one shape along a new axis, which is `axis` of the result."""
    return concat([expand_dims(x, axis) for x in arrays], axis)


def split(x: Operand, sections: int, axis: int = 0) -> tuple[Traced, ...]:
    """`sections` equal parts along `axis`; raises ShapeMismatch where the size does not divide."""
    node = lift(x)
    (at,) = _axes(axis, len(node.shape))
    size = node.shape[at]
    if not isinstance(size, int) or sections < 1 or size % sections:
        raise ShapeMismatch(f"split requires a static multiple of {sections} along axis {at} of {node.type}")
    step = size // sections
    lead = (slice(None),) * at
    return tuple(Traced(node)[(*lead, slice(i * step, (i + 1) * step))] for i in range(sections))


def pad(x: Operand, widths: Sequence[tuple[Size, Size]], value: Any = 0) -> Traced:
    """`value` around x: (before, after) for each axis."""
    node = lift(x)
    filling = builders.scalar_constant(value, node.dtype)
    if not isinstance(widths, (tuple, list)) or not builtins.all(
            isinstance(width, (tuple, list)) and len(width) == 2 for width in widths):
        raise TypeMismatch(f"pad requires a pair (before, after) for each axis, got {widths!r}")
    low, high = (tuple(as_size(width[side]) for width in widths) for side in (0, 1))
    return Traced(builders.pad(node, filling, low, high))


# Reductions


def _reduce(name: str, x: Operand, axis: int | Sequence[int] | None, keepdims: bool) -> Traced:
    node = lift(x)
    axes = _axes(axis, len(node.shape))
    result = Traced(builders.reduce_axes(scalar_op_named(name), node, axes))
    if keepdims:
        for a in sorted(axes):
            result = expand_dims(result, a)
    return result


def sum(x: Operand, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Traced:
    """The sum over axes (all unless told), in x's dtype; 0 of nothing."""
    return _reduce("add", x, axis, keepdims)


def prod(x: Operand, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Traced:
    """The product over axes, in x's dtype; 1 of nothing."""
    return _reduce("multiply", x, axis, keepdims)


def max(x: Operand, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Traced:
    """The greatest; NaN if there is one; -inf or the least integer of nothing."""
    return _reduce("maximum", x, axis, keepdims)


def min(x: Operand, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Traced:
    """The least; NaN if there is one; inf or the greatest integer of nothing."""
    return _reduce("minimum", x, axis, keepdims)


def any(x: Operand, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Traced:
    """Whether any element is not 0."""
    return _reduce("bitwise_or", astype(x, "bool"), axis, keepdims)


def all(x: Operand, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Traced:
    """Whether no element is 0."""
    return _reduce("bitwise_and", astype(x, "bool"), axis, keepdims)


def mean(x: Operand, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Traced:
    """The sum over the count (NaN of nothing); of floating-point dtypes only, f16 and bf16 in f32."""
    node = _lift_float("mean", x)
    if node.dtype.is_narrow_float:
        return mean(astype(node, F32), axis, keepdims).astype(node.dtype)
    return sum(node, axis, keepdims) / size_value(_count(node.shape, axis), node.dtype)


def var(x: Operand, axis: int | Sequence[int] | None = None, correction: int = 0, keepdims: bool = False) -> Traced:
    """Two passes: the sum of squared distances from the mean over the count less `correction`; f16 and bf16 in f32."""
    node = _lift_float("var", x)
    if node.dtype.is_narrow_float:
        return var(astype(node, F32), axis, correction, keepdims).astype(node.dtype)
    centred = Traced(node) - mean(node, axis, keepdims=True)
    return sum(square(centred), axis, keepdims) / (
        size_value(_count(node.shape, axis), node.dtype) - correction)


def _lift_float(name: str, x: Operand) -> Node:
    node = lift(x)
    if not node.dtype.is_float:
        raise TypeMismatch(f"{name} requires a floating-point dtype, got {node.type}: convert with astype")
    return node


def _count(shape: Shape, axis: int | Sequence[int] | None) -> Size:
    return product(tuple(shape[a] for a in _axes(axis, len(shape))))


def size_value(size: Size, dtype: Any) -> Traced:
    """A size as a tensor of rank 0, symbolic sizes included."""
    kind, size = as_dtype(dtype), as_size(size)
    if isinstance(size, int):
        return Traced(builders.scalar_constant(size, kind))
    if kind.kind is Kind.BOOL:
        raise TypeMismatch("a size can't be of dtype bool")
    return Traced(builders.size_value(size)).astype(kind)


# Contractions


def tensordot(x: Operand, y: Operand, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Traced:
    """Sums of products over pairs of axes, or over the last and first `axes` axes."""
    left, right = lift_together([x, y])
    if isinstance(axes, int):
        if not 0 <= axes <= builtins.min(len(left.shape), len(right.shape)):
            raise TypeMismatch(f"tensordot requires at most the axes of {left.type} and {right.type}, got {axes}")
        pairs = (tuple(range(len(left.shape) - axes, len(left.shape))), tuple(range(axes)))
    else:
        pairs = (_axes(tuple(axes[0]), len(left.shape)), _axes(tuple(axes[1]), len(right.shape)))
    for a, b in zip(*pairs, strict=False):
        agree(left.shape[a], right.shape[b])
    return Traced(builders.dot_general(left, right, pairs))


def vecdot(x: Operand, y: Operand, axis: int = -1) -> Traced:
    """Sums of products along one axis of broadcast operands."""
    return sum(multiply(x, y), axis)


def einsum(equation: str, *operands: Operand) -> Traced:
    """Einstein summation of one or two operands, with an explicit result: "bhsd,bhtd->bhst"."""
    left, arrow, out = str(equation).replace(" ", "").partition("->")
    terms = left.split(",")
    if not arrow or len(terms) != len(operands) or len(operands) not in (1, 2):
        raise TypeMismatch(f"einsum requires 'a,b->c' with one or two operands, got {equation!r}")
    nodes = lift_together(operands)
    extents: dict[str, Size] = {}
    for term, node in zip(terms, nodes, strict=True):
        if len(term) != len(node.shape) or len(set(term)) != len(term):
            raise TypeMismatch(f"einsum requires one distinct letter for each axis of {node.type}, got {term!r}")
        for letter, size in zip(term, node.shape, strict=True):
            if not agree(extents.setdefault(letter, size), size):
                raise ShapeMismatch(f"einsum letter {letter} has sizes {extents[letter]} and {size}")
    missing = [letter for letter in out if letter not in extents]
    if missing or len(set(out)) != len(out):
        raise TypeMismatch(f"einsum result {out!r} must have distinct letters of the operands")
    letters = [*out, *(letter for letter in extents if letter not in out)]
    labels = [tuple(letters.index(letter) for letter in term) for term in terms]
    sizes = tuple(extents[letter] for letter in letters)
    if len(nodes) == 2:
        return Traced(builders.contract(nodes[0], nodes[1], labels[0], labels[1], sizes, len(out)))
    reduced = tuple(a for a, letter in enumerate(terms[0]) if letter not in out)
    kept = [letter for letter in terms[0] if letter in out]
    result = Traced(builders.reduce_axes(scalar_op_named("add"), nodes[0], reduced)) if reduced else Traced(nodes[0])
    return permute_dims(result, [kept.index(letter) for letter in out])

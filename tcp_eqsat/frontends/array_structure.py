"""The array API's functions that index, order, accumulate and repeat, over traced tensors; part of `tcp.numpy`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tcp_eqsat.errors import ShapeMismatch, TypeMismatch
from tcp_eqsat.frontends.indexing import from_end
from tcp_eqsat.frontends.traced import (
    Operand,
    Traced,
    as_dtype,
    as_shape,
    as_size,
    lift,
    lift_together,
    resolve_axes,
)
from tcp_eqsat.lang.dims import Size, product
from tcp_eqsat.lang.ops import accumulate_builders, builders, index_builders, order_builders, window_builders
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.scalar import scalar_op_named as _op
from tcp_eqsat.lang.types import BOOL, F32, I64, DType


def _axis(axis: int, rank: int) -> int:
    (found,) = resolve_axes(axis, rank)
    return found


def _flat(x: Node) -> Node:
    return builders.reshape(x, (product(x.shape),))


def _along(x: Operand, axis: int | None) -> tuple[Node, int]:
    """The operand and an axis of it; flat where no axis is given."""
    node = lift(x)
    return (_flat(node), 0) if axis is None else (node, _axis(axis, len(node.shape)))


# Indexing by values


def _indices(indices: Operand, size: Size) -> Node:
    return from_end(lift(indices), size)


def take(x: Operand, indices: Operand, axis: int | None = None) -> Traced:
    """x[..., indices, ...] along an axis (None: of all elements in a row).

    Negative indices count from the end; what is still outside is clamped.
    """
    node, along = _along(x, axis)
    return Traced(index_builders.take(node, _indices(indices, node.shape[along]), along))


def take_along_axis(x: Operand, indices: Operand, axis: int = -1) -> Traced:
    """result[..., i, ...] = x[..., indices[..., i, ...], ...]; indices as for `take`."""
    node, along = _along(x, axis)
    return Traced(index_builders.take_along_axis(node, _indices(indices, node.shape[along]), along))


def dynamic_slice(x: Operand, starts: Sequence[Operand], sizes: Any) -> Traced:
    """The box of `sizes` at `starts`, integers of rank 0, which are moved so that it lies inside."""
    return Traced(index_builders.dynamic_slice(lift(x), tuple(map(lift, starts)), as_shape(sizes)))


def dynamic_update_slice(x: Operand, update: Operand, starts: Sequence[Operand]) -> Traced:
    """x with `update` in place of the box at `starts`, which are moved so that it lies inside."""
    whole, part = lift_together([x, update])
    return Traced(index_builders.dynamic_update_slice(whole, part, tuple(map(lift, starts))))


# Order


def _order(dtype: DType, descending: bool) -> Any:
    return (order_builders.descending if descending else order_builders.ascending)(dtype)


def sort(x: Operand, axis: int = -1, descending: bool = False) -> Traced:
    """In order along an axis, NaNs last (first if descending)."""
    node, along = _along(x, axis)
    return Traced(order_builders.sort((node,), _order(node.dtype, descending), along)[0])


def argsort(x: Operand, axis: int = -1, descending: bool = False) -> Traced:
    """The indices (i64) that sort along an axis; equal elements keep their order."""
    node, along = _along(x, axis)
    return Traced(order_builders.sort_with_order(node, along, _order(node.dtype, descending))[1])


def top_k(x: Operand, k: Any, axis: int = -1) -> tuple[Traced, Traced]:
    """The k greatest values along an axis in descending order, NaNs first, and their indices (i64)."""
    node, along = _along(x, axis)
    rank = len(node.shape)
    order = (*(a for a in range(rank) if a != along), along)
    back = tuple(order.index(a) for a in range(rank))
    values, indices = order_builders.top_k(builders.transpose(node, order), as_size(k), I64)
    return Traced(builders.transpose(values, back)), Traced(builders.transpose(indices, back))


def searchsorted(x1: Operand, x2: Operand, side: str = "left", sorter: Operand | None = None) -> Traced:
    """For each element of x2 the first place (i64) in x1, of rank 1 and ascending, to put it; "right": the last."""
    if side not in ("left", "right"):
        raise TypeMismatch(f"searchsorted requires side 'left' or 'right', got {side!r}")
    ordered, wanted = lift_together([x1, x2])
    if sorter is not None:
        ordered = index_builders.take(ordered, lift(sorter), 0)
    return Traced(order_builders.search_sorted(ordered, wanted, right=side == "right"))


def _extreme(x: Operand, axis: int | None, keepdims: bool, least: bool) -> Traced:
    node, along = _along(x, axis)
    found = accumulate_builders.extreme_index(node, along, least=least)
    if not keepdims:
        return Traced(found)
    shape = lift(x).shape
    kept = tuple(1 if axis is None or a == along else size for a, size in enumerate(shape))
    return Traced(builders.reshape(found, kept))


def argmax(x: Operand, axis: int | None = None, keepdims: bool = False) -> Traced:
    """The first index (i64) of the greatest element, or of the first NaN; None: among all elements in a row."""
    return _extreme(x, axis, keepdims, least=False)


def argmin(x: Operand, axis: int | None = None, keepdims: bool = False) -> Traced:
    """The first index (i64) of the least element, or of the first NaN; None: among all elements in a row."""
    return _extreme(x, axis, keepdims, least=True)


def unique_all(x: Operand, size: Any, fill_value: Any = 0) -> tuple[Traced, Traced, Traced, Traced]:
    """Of the distinct elements in ascending order: values, first indices, inverse indices, counts.

    There are `size` of them: more are left out, missing ones have `fill_value` and count 0.
    """
    node = lift(x)
    fill = builders.scalar_constant(fill_value, node.dtype)
    values, counts, inverse, _ = order_builders.unique(node, as_size(size), fill)
    length = product(node.shape)
    least = builders.splat(int(np.iinfo(np.int64).max), I64, values.shape)
    axes = index_builders.element_axes()
    first = index_builders.scatter(
        (least,), _flat(inverse), (builders.iota(I64, (length,), 0),), axes, (index_builders.least(I64),))[0]
    missing = builders.map_scalar(_op("equal"), counts, builders.splat(0, I64, counts.shape))
    first = builders.map_scalar(_op("where"), missing, builders.splat(0, I64, counts.shape), first)
    return Traced(values), Traced(first), Traced(inverse), Traced(counts)


def unique_counts(x: Operand, size: Any, fill_value: Any = 0) -> tuple[Traced, Traced]:
    """The distinct elements and how often each occurs; `size` as for `unique_all`."""
    values, _, _, counts = unique_all(x, size, fill_value)
    return values, counts


def unique_inverse(x: Operand, size: Any, fill_value: Any = 0) -> tuple[Traced, Traced]:
    """The distinct elements and for each element which of them it is; `size` as for `unique_all`."""
    values, _, inverse, _ = unique_all(x, size, fill_value)
    return values, inverse


def unique_values(x: Operand, size: Any, fill_value: Any = 0) -> Traced:
    """The distinct elements in ascending order; `size` as for `unique_all`."""
    return unique_all(x, size, fill_value)[0]


# Accumulation


def _summed_dtype(node: Node, dtype: Any) -> Node:
    """Small integers and bool are accumulated as i64 (u64) unless a dtype is given."""
    wanted = as_dtype(dtype) if dtype is not None else None
    if wanted is None and (node.dtype == BOOL or (node.dtype.is_integer and node.dtype.bits < 64)):
        wanted = as_dtype("i64" if node.dtype == BOOL or node.dtype.is_signed else "u64")
    if wanted is None or wanted == node.dtype:
        return node
    return builders.map_scalar(_op(f"astype_{wanted}"), node)


def _cumulative(name: str, x: Operand, axis: int | None, node: Node, initial: Any = None) -> Traced:
    if axis is None:
        if len(node.shape) != 1:
            raise TypeMismatch(f"a cumulative form of {node.type} requires an axis")
        axis = 0
    along = _axis(axis, len(node.shape))
    found = accumulate_builders.cumulative_of(name, node, along)
    if initial is not None:
        shape = tuple(1 if a == along else size for a, size in enumerate(node.shape))
        found = builders.concatenate((builders.splat(initial, node.dtype, shape), found), along)
    return Traced(found)


def cumulative_sum(x: Operand, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Traced:
    """Sums of everything so far along an axis, from the left; with a 0 before if `include_initial`."""
    return _cumulative("add", x, axis, _summed_dtype(lift(x), dtype), 0 if include_initial else None)


def cumulative_prod(x: Operand, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Traced:
    """Products of everything so far along an axis, from the left; with a 1 before if `include_initial`."""
    return _cumulative("multiply", x, axis, _summed_dtype(lift(x), dtype), 1 if include_initial else None)


def cumulative_max(x: Operand, axis: int | None = None) -> Traced:
    """The greatest element so far along an axis."""
    return _cumulative("maximum", x, axis, lift(x))


def cumulative_min(x: Operand, axis: int | None = None) -> Traced:
    """The least element so far along an axis."""
    return _cumulative("minimum", x, axis, lift(x))


def cumulative_logsumexp(x: Operand, axis: int = -1) -> Traced:
    """log(sum(exp(...))) of everything so far along an axis."""
    node, along = _along(x, axis)
    return Traced(accumulate_builders.cumulative((node,), (accumulate_builders.log_add_exp(node.dtype),), along)[0])


# Repetition and reversal


def flip(x: Operand, axis: int | Sequence[int] | None = None) -> Traced:
    """Axes backwards (None: all)."""
    node = lift(x)
    axes = range(len(node.shape)) if axis is None else resolve_axes(axis, len(node.shape))
    return Traced(window_builders.reverse(node, tuple(axes)))


def roll(x: Operand, shift: int | Sequence[int], axis: int | Sequence[int] | None = None) -> Traced:
    """Elements moved towards higher indices; what leaves at the end enters at the start. None: all in a row."""
    node = lift(x)
    if axis is None:
        if not isinstance(shift, int):
            raise TypeMismatch(f"roll without an axis requires one shift, got {list(shift)}")
        return Traced(builders.reshape(window_builders.roll(_flat(node), shift, 0), node.shape))
    axes = resolve_axes(axis, len(node.shape))
    shifts = (shift,) * len(axes) if isinstance(shift, int) else tuple(shift)
    if len(shifts) != len(axes):
        raise TypeMismatch(f"roll requires a shift for each axis, got {len(shifts)} and {len(axes)}")
    for amount, along in zip(shifts, axes, strict=True):
        node = window_builders.roll(node, amount, along)
    return Traced(node)


def tile(x: Operand, repetitions: Any) -> Traced:
    """The whole of x again and again along each axis; missing axes come first."""
    node, counts = lift(x), as_shape(repetitions)
    rank = max(len(node.shape), len(counts))
    node = builders.reshape(node, (*(1,) * (rank - len(node.shape)), *node.shape))
    return Traced(window_builders.tile(node, (*(1,) * (rank - len(counts)), *counts)))


def repeat(x: Operand, repeats: Any, axis: int | None = None) -> Traced:
    """Each element `repeats` times in a row along an axis (None: of all elements in a row)."""
    node, along = _along(x, axis)
    return Traced(window_builders.repeat(node, as_size(repeats), along))


def one_hot(indices: Operand, size: Any, dtype: Any = F32) -> Traced:
    """A new last axis of `size` with 1 where its index is the value, else 0."""
    node, target = lift(indices), as_dtype(dtype)
    if not node.dtype.is_integer:
        raise TypeMismatch(f"one_hot requires an integer dtype, got {node.type}")
    shape = (*node.shape, as_size(size))
    spread = builders.view(node, tuple(range(len(node.shape))), shape)
    hit = builders.map_scalar(_op("equal"), spread, builders.iota(node.dtype, shape, len(node.shape)))
    return Traced(builders.map_scalar(_op(f"astype_{target}"), hit))


def scatter_add(x: Operand, indices: Operand, updates: Operand, axis: int = 0) -> Traced:
    """x with updates added at `indices` along an axis: the axes of the indices stand in place of it in the updates.

    Negative indices count from the end; updates at what is still outside are left out.
    """
    whole, parts = lift_together([x, updates])
    along = _axis(axis, len(whole.shape))
    at = _indices(indices, whole.shape[along])
    wanted = (*whole.shape[:along], *at.shape, *whole.shape[along + 1:])
    if len(parts.shape) != len(wanted):
        raise ShapeMismatch(f"scatter_add requires updates of rank {len(wanted)}, got {parts.type}")
    axes = index_builders.row_axes(len(whole.shape), len(at.shape), along, clamped=False)
    return Traced(index_builders.scatter((whole,), at, (parts,), axes, (index_builders.adding(whole.dtype),))[0])

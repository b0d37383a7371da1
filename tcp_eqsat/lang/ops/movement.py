"""Operations that move elements: view, reshape, slice, concatenate, pad."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from tcp_eqsat.errors import ShapeMismatch, TypeMismatch
from tcp_eqsat.lang.dims import Size, bounds, equal, less_equal, maximum, product
from tcp_eqsat.lang.op import EXPANDED, define_op, tensor_types
from tcp_eqsat.lang.ops.attributes import (
    ConcatenateAttributes,
    PadAttributes,
    ReduceAttributes,
    ReshapeAttributes,
    SliceAttributes,
    ViewAttributes,
)
from tcp_eqsat.lang.ops.builders import (
    broadcast_in_dim,
    map_scalar,
    pad,
    reduce,
    reduce_axes,
    reshape,
    scalar_constant,
    slice_,
    splat,
)
from tcp_eqsat.lang.ops.labels import check_labels, gather_labels, label_indices
from tcp_eqsat.lang.pointful import Affine, Choose, Expr, IndexRange, Operand, axis_index
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.scalar import scalar_op_named
from tcp_eqsat.lang.types import BOOL, TensorType, Type, numbers

# View


def _infer_view(operands: tuple[Type, ...], attributes: ViewAttributes) -> TensorType:
    (x,) = tensor_types("view", operands)
    check_labels("view", x, attributes.labels, attributes.shape)
    return TensorType(x.dtype, attributes.shape)


def _view_derivative(node: Node, g: Node) -> tuple[Node | None, ...]:
    """Broadcast axes are summed away, the others go back to their places."""
    attributes: ViewAttributes = node.attributes
    (x,) = node.operands
    kept = [label for label in attributes.labels if label >= 0]
    order = [*kept, *(label for label in range(len(attributes.shape)) if label not in kept)]
    labels = tuple(order.index(label) for label in range(len(order)))
    extents = tuple(attributes.shape[label] for label in order)
    add = scalar_op_named("add")
    total = reduce(add, g, ReduceAttributes(add, labels, extents, len(kept)))
    axes = tuple(axis for axis, label in enumerate(attributes.labels) if label >= 0)
    return (broadcast_in_dim(total, x.shape, axes),)


view_op = define_op(
    "view", operands="x", attributes=ViewAttributes, infer=_infer_view,
    reference=lambda attributes, result, x: gather_labels(x, attributes.labels, attributes.shape),
    pointful=lambda attributes, operands, result: Operand(0, label_indices(attributes.labels), result.dtype),
    derivative=_view_derivative,
    doc="Broadcast, transpose and removal of axes of size 1, in one: operand axes map one to one to result axes, "
        "other result axes repeat the value.",
)

# Reshape


def _infer_reshape(operands: tuple[Type, ...], attributes: ReshapeAttributes) -> TensorType:
    (x,) = tensor_types("reshape", operands)
    before, after = product(x.shape), product(attributes.shape)
    if not equal(before, after):
        wanted = TensorType(x.dtype, attributes.shape)
        raise ShapeMismatch(f"reshape requires equal element counts, got {x} ({before}) and {wanted} ({after})")
    return TensorType(x.dtype, attributes.shape)


reshape_op = define_op(
    "reshape", operands="x", attributes=ReshapeAttributes, infer=_infer_reshape,
    reference=lambda attributes, result, x: x.reshape(attributes.shape),
    pointful=EXPANDED, derivative=lambda node, g: (reshape(g, node.operands[0].shape),),
    doc="The same elements in row-major order under another shape. Regular reshapes vanish when axes are refined; "
        "others are another shape of the same memory. The number of elements is the same, provably.",
)

# Slice


def sliced_size(start: Size, limit: Size, stride: int) -> Size:
    return (limit - start + (stride - 1)) // stride


def _infer_slice(operands: tuple[Type, ...], attributes: SliceAttributes) -> TensorType:
    (x,) = tensor_types("slice", operands)
    starts, limits, strides = attributes.starts, attributes.limits, attributes.strides
    if not len(starts) == len(limits) == len(strides) == x.rank:
        raise TypeMismatch(
            f"slice requires {x.rank} starts, limits and strides for {x}, got {len(starts)}, {len(limits)} and "
            f"{len(strides)}")
    for axis, (start, limit, stride) in enumerate(zip(starts, limits, strides, strict=True)):
        if stride < 1:
            raise TypeMismatch(f"slice requires positive strides, got {stride} along axis {axis}")
        whole = start == 0 and equal(limit, x.shape[axis])
        if not whole and not all(
                less_equal(low, high) is True for low, high in pairwise((0, start, limit, x.shape[axis]))):
            raise ShapeMismatch(
                f"slice requires 0 <= start <= limit <= {x.shape[axis]} along axis {axis} of {x}, got start {start} "
                f"and limit {limit}")
    return TensorType(x.dtype, tuple(map(sliced_size, starts, limits, strides)))


def _slice_pointful(attributes: SliceAttributes, operands: tuple[TensorType, ...], result: TensorType) -> Expr:
    indices = tuple(axis_index(axis).scaled(stride) + start for axis, (start, stride) in enumerate(
        zip(attributes.starts, attributes.strides, strict=True)))
    return Operand(0, indices, result.dtype)


def _slice_derivative(node: Node, g: Node) -> tuple[Node | None, ...]:
    """The cotangents at their places in zeros."""
    attributes: SliceAttributes = node.attributes
    (x,) = node.operands
    for axis, stride in enumerate(attributes.strides):
        if stride != 1:
            g = _spread_strided(g, axis, stride)
    high = [_zeros_after(*each) for each in zip(x.shape, attributes.starts, g.shape, strict=True)]
    padded = pad(g, scalar_constant(0, x.dtype), attributes.starts, tuple(high))
    return (slice_(padded, (0,) * len(x.shape), x.shape),)


def _spread_strided(g: Node, axis: int, stride: int) -> Node:
    """Each element followed by stride - 1 zeros along an axis."""
    shape = g.shape
    split = reshape(g, (*shape[: axis + 1], 1, *shape[axis + 1:]))
    none = (0,) * len(split.shape)
    padded = pad(split, scalar_constant(0, g.dtype), none, (*none[: axis + 1], stride - 1, *none[axis + 2:]))
    return reshape(padded, (*shape[:axis], shape[axis] * stride, *shape[axis + 1:]))


def _zeros_after(size: Size, start: Size, have: Size) -> Size:
    """How many make start + have at least `size`."""
    missing = size - start - have
    return missing if less_equal(0, missing) is True else maximum(0, missing)


slice_op = define_op(
    "slice", operands="x", attributes=SliceAttributes, infer=_infer_slice,
    reference=lambda attributes, result, x: x[tuple(map(
        slice, attributes.starts, attributes.limits, attributes.strides))],
    pointful=_slice_pointful, derivative=_slice_derivative,
    doc="A box of the operand with a positive step along each axis; empty where start and limit are equal. Starts and "
        "limits lie in the operand, provably.",
)

# Concatenate


def _infer_concatenate(operands: tuple[Type, ...], attributes: ConcatenateAttributes) -> TensorType:
    types = tensor_types("concatenate", operands)
    if not types:
        raise TypeMismatch("concatenate requires at least one operand")
    first, axis = types[0], attributes.axis
    if not 0 <= axis < first.rank:
        raise TypeMismatch(f"concatenate requires an axis of {first}, got {axis}")
    for number, found in enumerate(types):
        if found.dtype != first.dtype or found.rank != first.rank:
            raise TypeMismatch(
                f"concatenate requires operands of one dtype and rank, got {first} and {found} (operand {number})")
        for a, (left, right) in enumerate(zip(first.shape, found.shape, strict=True)):
            if a != axis and not equal(left, right):
                raise ShapeMismatch(
                    f"concatenate along axis {axis} requires equal sizes along axis {a}, got {left} and {right} "
                    f"(operand {number})")
    total: Size = sum((x.shape[axis] for x in types[1:]), types[0].shape[axis])
    return TensorType(first.dtype, (*first.shape[:axis], total, *first.shape[axis + 1:]))


def _concatenate_pointful(
        attributes: ConcatenateAttributes, operands: tuple[TensorType, ...], result: TensorType) -> Expr:
    axis = attributes.axis
    indices = list(map(axis_index, range(result.rank)))
    starts: list[Size] = [0]
    for operand in operands[:-1]:
        starts.append(starts[-1] + operand.shape[axis])

    def part(number: int) -> Operand:
        at = (*indices[:axis], indices[axis] + -starts[number], *indices[axis + 1:])
        return Operand(number, tuple(at), result.dtype)

    expr: Expr = part(len(operands) - 1)
    for number in reversed(range(len(operands) - 1)):
        inside = IndexRange(indices[axis], starts[number], starts[number + 1])
        expr = Choose((inside,), part(number), expr)
    return expr


def _concatenate_derivative(node: Node, g: Node) -> tuple[Node | None, ...]:
    axis = node.attributes.axis
    parts: list[Node | None] = []
    start: Size = 0
    for x in node.operands:
        limit = start + x.shape[axis]
        starts = tuple(start if a == axis else 0 for a in range(len(x.shape)))
        limits = tuple(limit if a == axis else size for a, size in enumerate(g.shape))
        parts.append(slice_(g, starts, limits))
        start = limit
    return tuple(parts)


concatenate_op = define_op(
    "concatenate", operands="x*", attributes=ConcatenateAttributes, infer=_infer_concatenate,
    reference=lambda attributes, result, *arrays: np.concatenate(arrays, attributes.axis),
    pointful=_concatenate_pointful, derivative=_concatenate_derivative,
    doc="Operands one after the other along an axis. Other sizes are equal, provably; an operand of size 0 along it "
        "adds nothing.",
)

# Pad


def _infer_pad(operands: tuple[Type, ...], attributes: PadAttributes) -> TensorType:
    x, value = tensor_types("pad", operands)
    if value != TensorType(x.dtype, ()):
        raise TypeMismatch(f"pad requires a value of type {x.dtype}[], got {value}")
    if not len(attributes.low) == len(attributes.high) == x.rank:
        raise TypeMismatch(f"pad requires {x.rank} amounts before and after for {x}")
    for axis, (low, high) in enumerate(zip(attributes.low, attributes.high, strict=True)):
        if bounds(low)[0] < 0 or bounds(high)[0] < 0:
            raise ShapeMismatch(f"pad requires amounts of at least 0, got {low} and {high} along axis {axis}")
    shape = tuple(low + size + high for low, size, high in zip(
        attributes.low, x.shape, attributes.high, strict=True))
    return TensorType(x.dtype, shape)


def _pad_reference(attributes: PadAttributes, result: TensorType, x: np.ndarray, value: np.ndarray) -> np.ndarray:
    padded = np.full(numbers(result.shape), value, x.dtype)
    padded[tuple(slice(low, low + size) for low, size in zip(attributes.low, x.shape, strict=True))] = x
    return padded


def _pad_pointful(attributes: PadAttributes, operands: tuple[TensorType, ...], result: TensorType) -> Expr:
    x = operands[0]
    indices = tuple(Affine(((axis, 1),), -low) for axis, low in enumerate(attributes.low))
    ranges = tuple(
        IndexRange(axis_index(axis), low, low + x.shape[axis])
        for axis, (low, high) in enumerate(zip(attributes.low, attributes.high, strict=True))
        if not (low == 0 and high == 0))
    inside = Operand(0, indices, result.dtype)
    return Choose(ranges, inside, Operand(1, (), result.dtype)) if ranges else inside


def _pad_derivative(node: Node, g: Node) -> tuple[Node | None, ...]:
    attributes: PadAttributes = node.attributes
    x, _ = node.operands
    limits = tuple(low + size for low, size in zip(attributes.low, x.shape, strict=True))
    around = pad(splat(False, BOOL, x.shape), scalar_constant(True, BOOL), attributes.low, attributes.high)
    outside = map_scalar(scalar_op_named("where"), around, g, splat(0, g.dtype, g.shape))
    total = reduce_axes(scalar_op_named("add"), outside, tuple(range(len(g.shape))))
    return slice_(g, attributes.low, limits), total


pad_op = define_op(
    "pad", operands="x value", attributes=PadAttributes, infer=_infer_pad, reference=_pad_reference,
    pointful=_pad_pointful, derivative=_pad_derivative,
    doc="A value of rank 0 around the operand: `low` elements before and `high` after, along each axis, none of them "
        "negative. An operand without elements gives the value everywhere.",
)

"""Windows along axes: what convolutions, pooling and window reductions read; and axes backwards."""

from __future__ import annotations

import numpy as np

from tcp_eqsat.errors import ShapeMismatch, TypeMismatch
from tcp_eqsat.lang.dims import Size, bounds, equal, less_equal, maximum
from tcp_eqsat.lang.op import PROCEDURAL, define_op, tensor_types
from tcp_eqsat.lang.ops.attributes import OverlapAddAttributes, ReverseAttributes, WindowsAttributes
from tcp_eqsat.lang.ops.window_builders import overlap_add, reverse, windows
from tcp_eqsat.lang.pointful import Affine, Expr, Operand, axis_index
from tcp_eqsat.lang.procedural import Procedure, Scalar, Writer
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.types import Kind, TensorType, Type, numbers

# Reverse


def _check_axes(name: str, x: TensorType, axes: tuple[int, ...]) -> None:
    if list(axes) != sorted(set(axes)) or not all(0 <= axis < x.rank for axis in axes):
        raise TypeMismatch(f"{name} requires distinct axes of {x} in order, got {list(axes)}")


def _infer_reverse(operands: tuple[Type, ...], a: ReverseAttributes) -> TensorType:
    (x,) = tensor_types("reverse", operands)
    _check_axes("reverse", x, a.axes)
    return x


def _reverse_pointful(a: ReverseAttributes, operands: tuple[TensorType, ...], result: TensorType) -> Expr:
    return Operand(0, tuple(
        Affine(((axis, -1),), size - 1) if axis in a.axes else axis_index(axis)
        for axis, size in enumerate(result.shape)), result.dtype)


reverse_op = define_op(
    "reverse", operands="x", attributes=ReverseAttributes, infer=_infer_reverse,
    reference=lambda attributes, result, x: np.flip(x, attributes.axes),
    pointful=_reverse_pointful, derivative=lambda node, g: (reverse(g, node.attributes.axes),),
    doc="The operand with axes backwards: index i along one of them reads index size - 1 - i.",
)

# Windows


def window_count(size: Size, window: Size, stride: int, dilation: int) -> Size:
    """How many windows lie inside an axis."""
    span = (window - 1) * dilation + 1
    count = (size - span) // stride + 1
    return count if less_equal(span, size) is True else maximum(0, count)


def _check_windows(name: str, x: TensorType, a: WindowsAttributes) -> None:
    _check_axes(name, x, a.axes)
    if not len(a.axes) == len(a.sizes) == len(a.strides) == len(a.dilations):
        raise TypeMismatch(f"{name} requires a size, stride and dilation for each of the axes {list(a.axes)}, got "
                           f"{len(a.sizes)}, {len(a.strides)} and {len(a.dilations)}")
    for axis, size, stride, dilation in zip(a.axes, a.sizes, a.strides, a.dilations, strict=True):
        if stride < 1 or dilation < 1:
            raise TypeMismatch(f"{name} requires positive strides and dilations, got {stride} and {dilation} for axis "
                               f"{axis}")
        if bounds(size)[0] < 1:
            raise ShapeMismatch(f"{name} requires windows of at least 1 element, got {size} along axis {axis}")


def _infer_windows(operands: tuple[Type, ...], a: WindowsAttributes) -> TensorType:
    (x,) = tensor_types("windows", operands)
    _check_windows("windows", x, a)
    shape = list(x.shape)
    for axis, size, stride, dilation in zip(a.axes, a.sizes, a.strides, a.dilations, strict=True):
        shape[axis] = window_count(shape[axis], size, stride, dilation)
    return TensorType(x.dtype, (*shape, *a.sizes))


def _windows_reference(a: WindowsAttributes, result: TensorType, x: np.ndarray) -> np.ndarray:
    shape = numbers(result.shape)
    for n, axis in enumerate(a.axes):
        at = _window_indices(a, n, shape[axis])
        empty = np.zeros((*x.shape[:axis], *at.shape, *x.shape[axis + 1:]), x.dtype)
        x = np.moveaxis(np.take(x, at, axis) if at.size else empty, axis + 1, -1)
    return x


def _window_indices(a: WindowsAttributes, n: int, count: int) -> np.ndarray:
    """[window, element] -> index along axis number n."""
    return np.add.outer(np.arange(count) * a.strides[n], np.arange(numbers(a.sizes)[n]) * a.dilations[n])


def _windows_pointful(a: WindowsAttributes, operands: tuple[TensorType, ...], result: TensorType) -> Expr:
    rank = operands[0].rank
    indices = [axis_index(axis) for axis in range(rank)]
    for n, axis in enumerate(a.axes):
        indices[axis] = axis_index(axis).scaled(a.strides[n]) + axis_index(rank + n).scaled(a.dilations[n])
    return Operand(0, tuple(indices), result.dtype)


def _windows_derivative(node: Node, g: Node) -> tuple[Node | None, ...]:
    (x,), a = node.operands, node.attributes
    return (overlap_add(g, a, tuple(x.shape[axis] for axis in a.axes)),)


windows_op = define_op(
    "windows", operands="x", attributes=WindowsAttributes, infer=_infer_windows, reference=_windows_reference,
    pointful=_windows_pointful, derivative=_windows_derivative,
    doc="All windows of the operand that lie inside it: along each of the axes the result has the number of the "
        "window, and after the operand's axes one more for each, the number of the element in the window. Element k of "
        "window o is at o * stride + k * dilation. An axis shorter than a window has none.",
)

# Overlap-add


def _infer_overlap(operands: tuple[Type, ...], a: OverlapAddAttributes) -> TensorType:
    (x,) = tensor_types("overlap_add", operands)
    rank = x.rank - len(a.axes)
    if rank < 0 or len(a.extents) != len(a.axes):
        raise TypeMismatch("overlap_add requires an axis of windows, an axis inside and an extent for each of the axes "
                           f"{list(a.axes)}, got {x} and {len(a.extents)} extents")
    if x.dtype.kind is Kind.BOOL or x.dtype.storage_only:
        raise TypeMismatch(f"overlap_add requires numbers, got {x}")
    target = TensorType(x.dtype, x.shape[:rank])
    _check_windows("overlap_add", target, a)
    shape = list(target.shape)
    for n, axis in enumerate(a.axes):
        count = window_count(a.extents[n], a.sizes[n], a.strides[n], a.dilations[n])
        if not equal(x.shape[axis], count) or not equal(x.shape[rank + n], a.sizes[n]):
            raise ShapeMismatch(f"overlap_add requires {count} windows of {a.sizes[n]} elements along axis {axis}, got "
                                f"{x.shape[axis]} of {x.shape[rank + n]}")
        shape[axis] = a.extents[n]
    return TensorType(x.dtype, tuple(shape))


def _overlap_reference(a: OverlapAddAttributes, result: TensorType, x: np.ndarray) -> np.ndarray:
    """One element of all windows after the other."""
    rank = result.rank
    total = np.zeros(numbers(result.shape), np.float64 if x.dtype == np.float32 else x.dtype)
    for inside in np.ndindex(*x.shape[rank:]):
        place = [slice(None)] * rank
        for n, axis in enumerate(a.axes):
            first = inside[n] * a.dilations[n]
            place[axis] = slice(first, first + (x.shape[axis] - 1) * a.strides[n] + 1 if x.shape[axis] else first,
                                a.strides[n])
        total[tuple(place)] += x[(..., *inside)]
    return total.astype(x.dtype)


def _overlap_procedure(a: OverlapAddAttributes, operands: tuple[TensorType, ...], results: tuple[TensorType, ...]
                       ) -> Procedure:
    w = Writer(operands, results)
    (x,), (out,) = w.operands, w.results
    rank = out.type.rank
    with w.loops(out.type.shape) as at:
        w.store(out, at, 0)
    with w.loops([x.type.shape[axis] for axis in range(rank)]) as at, w.loops(a.sizes) as inside:
        place: list[Scalar] = list(at)
        for n, axis in enumerate(a.axes):
            place[axis] = at[axis] * a.strides[n] + inside[n] * a.dilations[n]
        w.store(out, place, w.load(out, place) + w.load(x, (*at, *inside)))
    return w.finish()


def _overlap_derivative(node: Node, g: Node) -> tuple[Node | None, ...]:
    return (windows(g, node.attributes.axes, node.attributes.sizes, node.attributes.strides,
                    node.attributes.dilations),)


overlap_add_op = define_op(
    "overlap_add", operands="x", attributes=OverlapAddAttributes, infer=_infer_overlap, reference=_overlap_reference,
    pointful=PROCEDURAL, procedure=_overlap_procedure, derivative=_overlap_derivative,
    doc="The sum of windows where they lie, the transpose of `windows`: each element of the result is the sum of all "
        "elements of windows that are there, in any order; 0 where there is none.",
)

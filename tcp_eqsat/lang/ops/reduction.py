"""Reductions by an associative scalar operation, over any axes, with an index map for the result."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tcp_eqsat.errors import TypeMismatch
from tcp_eqsat.lang.narrow import convert_array
from tcp_eqsat.lang.op import define_op, tensor_types
from tcp_eqsat.lang.ops.attributes import ReduceAttributes
from tcp_eqsat.lang.ops.builders import map_scalar, reduce, splat, view
from tcp_eqsat.lang.ops.labels import check_labels, check_reduced, gather_labels, label_indices
from tcp_eqsat.lang.pointful import Expr, Fold, Operand, converted
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.scalar import ScalarOp, evaluate_op
from tcp_eqsat.lang.scalar import scalar_op_named as _op
from tcp_eqsat.lang.types import C128, F32, F64, TensorType, Type, dtype_of, numbers


def _infer(operands: tuple[Type, ...], attributes: ReduceAttributes) -> TensorType:
    (operand,) = tensor_types("reduce", operands)
    operation = attributes.operation
    if operation.identity is None:
        raise TypeMismatch(f"reduce requires an associative operation with a start value, got {operation.name}")
    result = operation.result_dtype(operand.dtype, operand.dtype)
    if result != operand.dtype:
        raise TypeMismatch(f"reduce requires an operation within {operand.dtype}, {operation.name} gives {result}")
    check_labels("reduce", operand, attributes.labels, attributes.extents)
    check_reduced("reduce", attributes.rank, attributes.extents, attributes.labels)
    return TensorType(operand.dtype, attributes.extents[: attributes.rank])


def _reference(attributes: ReduceAttributes, result: TensorType, array: np.ndarray) -> np.ndarray:
    whole = gather_labels(array, attributes.labels, numbers(attributes.extents))
    axes = tuple(range(attributes.rank, whole.ndim))
    return fold_axes(attributes.operation, whole, axes) if axes else whole


def fold_axes(operation: ScalarOp, array: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """`array` reduced over `axes` from the operation's start value; floats accumulate in double precision."""
    kept = [a for a in range(array.ndim) if a not in axes]
    moved = np.transpose(array, (*axes, *kept))
    moved = moved.reshape((-1 if moved.size else int(np.prod(moved.shape[: len(axes)])),
                           *(array.shape[a] for a in kept)))
    assert operation.identity is not None
    dtype = dtype_of(array.dtype)
    wide = F64 if dtype.is_float else C128 if dtype.is_complex else dtype
    work = wide.numpy
    with np.errstate(all="ignore"):
        total = np.full(moved.shape[1:], operation.identity(dtype), dtype=work)
        if operation.name == "add":
            return convert_array(total + moved.sum(0, dtype=work), dtype)
        for part in moved.astype(work):
            total = evaluate_op(operation, wide, total, part)
        return convert_array(total, dtype)


def _pointful(attributes: ReduceAttributes, operands: tuple[TensorType, ...], result: TensorType) -> Expr:
    body: Expr = Operand(0, label_indices(attributes.labels), result.dtype)
    extents = attributes.extents[attributes.rank:]
    if not extents:
        return body
    if result.dtype.is_narrow_float:
        body = converted(body, F32)
    return converted(Fold(attributes.operation, extents, attributes.rank, body), result.dtype)


def _derivative(node: Node, g: Node) -> tuple[Node | None, ...]:
    (x,), attributes = node.operands, node.attributes
    g, attributes = _without_new_axes(g, attributes)
    derivative = _DERIVATIVES.get(attributes.operation.name)
    return (None if derivative is None else derivative(x, g, attributes),)


def _without_new_axes(g: Node, attributes: ReduceAttributes) -> tuple[Node, ReduceAttributes]:
    """The cotangent summed over result axes along which the value only repeats, and the reduction without them."""
    kept = [label for label in range(attributes.rank) if label in attributes.labels]
    absent = [label for label in range(attributes.rank) if label not in attributes.labels]
    if not absent:
        return g, attributes
    order = {label: n for n, label in enumerate([*kept, *absent])}
    g = reduce(_op("add"), g, ReduceAttributes(
        _op("add"), tuple(order[label] for label in range(attributes.rank)),
        tuple(attributes.extents[label] for label in (*kept, *absent)), len(kept)))
    live = [*kept, *range(attributes.rank, len(attributes.extents))]
    position = {label: n for n, label in enumerate(live)} | {-1: -1}
    return g, ReduceAttributes(
        attributes.operation, tuple(position[label] for label in attributes.labels),
        tuple(attributes.extents[label] for label in live), len(kept))


def _spread(value: Node, x: Node, attributes: ReduceAttributes) -> Node:
    """A value of the result's shape at every index of the operand."""
    axis_of = {label: axis for axis, label in enumerate(attributes.labels)}
    return view(value, tuple(axis_of[label] for label in range(attributes.rank)), x.shape)


def _derivative_of_extreme(x: Node, g: Node, attributes: ReduceAttributes) -> Node:
    """The elements that attain the extreme share the cotangent equally."""
    winners = map_scalar(_op("equal"), x, _spread(reduce(attributes.operation, x, attributes), x, attributes))
    number = reduce(_op("add"), map_scalar(_op(f"astype_{x.dtype}"), winners), attributes)
    share = _spread(map_scalar(_op("divide"), g, number), x, attributes)
    return map_scalar(_op("where"), winners, share, splat(0, x.dtype, x.shape))


def _derivative_of_product(x: Node, g: Node, attributes: ReduceAttributes) -> Node:
    """The product of the others: what is left of the product of all but zeros, where all zeros are this element."""
    zero, one = splat(0, x.dtype, x.shape), splat(1, x.dtype, x.shape)
    is_zero = map_scalar(_op("equal"), x, zero)
    others = map_scalar(_op("where"), is_zero, one, x)
    zeros = map_scalar(_op(f"astype_{x.dtype}"), is_zero)
    product = _spread(map_scalar(_op("multiply"), g, reduce(_op("multiply"), others, attributes)), x, attributes)
    number = _spread(reduce(_op("add"), zeros, attributes), x, attributes)
    return map_scalar(
        _op("where"), map_scalar(_op("equal"), number, zeros), map_scalar(_op("divide"), product, others), zero)


_DERIVATIVES: dict[str, Callable[[Node, Node, ReduceAttributes], Node]] = {
    "add": lambda x, g, attributes: _spread(g, x, attributes),
    "maximum": _derivative_of_extreme,
    "minimum": _derivative_of_extreme,
    "multiply": _derivative_of_product,
}


reduce_op = define_op(
    "reduce", operands="x", attributes=ReduceAttributes, infer=_infer, reference=_reference,
    pointful=_pointful, derivative=_derivative,
    doc="An associative operation over axes, from its start value (so the sum of nothing is 0, the maximum -inf). "
        "The order is free. f16 and bf16 are gathered in f32 and rounded once. Over no axes it is the operand itself.",
)

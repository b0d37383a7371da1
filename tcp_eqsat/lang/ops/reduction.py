"""Reductions by an associative scalar operation, over any axes, with an index map for the result."""

from __future__ import annotations

import numpy as np

from tcp_eqsat.errors import TypeMismatch
from tcp_eqsat.lang.op import define_op, tensor_types
from tcp_eqsat.lang.ops.attributes import ReduceAttributes
from tcp_eqsat.lang.ops.builders import map_scalar, reduce, splat, view
from tcp_eqsat.lang.ops.labels import check_labels, gather_labels, label_indices
from tcp_eqsat.lang.pointful import Expr, Fold, Operand
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.scalar import ScalarOp, scalar_op_named
from tcp_eqsat.lang.types import TensorType, Type, dtype_of


def _infer(operands: tuple[Type, ...], attributes: ReduceAttributes) -> TensorType:
    (operand,) = tensor_types("reduce", operands)
    operation = attributes.operation
    if operation.identity is None:
        raise TypeMismatch(f"reduce requires an associative operation with a start value, got {operation.name}")
    result = operation.result_dtype(operand.dtype, operand.dtype)
    if result != operand.dtype:
        raise TypeMismatch(f"reduce requires an operation within {operand.dtype}, {operation.name} gives {result}")
    check_labels("reduce", operand, attributes.labels, attributes.extents)
    missing = set(range(attributes.rank, len(attributes.extents))) - set(attributes.labels)
    if missing:
        raise TypeMismatch(f"reduce requires every reduced label in the operand, {min(missing)} is missing")
    return TensorType(operand.dtype, attributes.extents[: attributes.rank])


def _reference(attributes: ReduceAttributes, result: TensorType, array: np.ndarray) -> np.ndarray:
    whole = gather_labels(array, attributes.labels, attributes.extents)
    return fold_axes(attributes.operation, whole, tuple(range(attributes.rank, whole.ndim)))


def fold_axes(operation: ScalarOp, array: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """`array` reduced over `axes` from the operation's start value; floats accumulate in double precision."""
    kept = [a for a in range(array.ndim) if a not in axes]
    moved = np.transpose(array, (*axes, *kept))
    moved = moved.reshape((-1 if moved.size else int(np.prod(moved.shape[: len(axes)])),
                           *(array.shape[a] for a in kept)))
    assert operation.identity is not None
    dtype = array.dtype
    work = np.float64 if dtype == np.float32 else dtype
    with np.errstate(all="ignore"):
        total = np.full(moved.shape[1:], operation.identity(dtype_of(dtype)), dtype=work)
        if operation.name == "add":
            return np.asarray((total + moved.sum(0, dtype=work)).astype(dtype))
        for part in moved.astype(work):
            total = np.asarray(operation.reference(total, part), work)
        return np.asarray(total.astype(dtype))


def _pointful(attributes: ReduceAttributes, operands: tuple[TensorType, ...], result: TensorType) -> Expr:
    body = Operand(0, label_indices(attributes.labels), result.dtype)
    extents = attributes.extents[attributes.rank:]
    return Fold(attributes.operation, extents, attributes.rank, body) if extents else body


def _derivative(node: Node, g: Node) -> tuple[Node | None, ...]:
    attributes: ReduceAttributes = node.attributes
    (x,) = node.operands
    spread = _spread_like(g, attributes, x)
    name = attributes.operation.name
    if name == "add":
        return (spread,)
    equal, where, divide, astype = (
        scalar_op_named(n) for n in ("equal", "where", "divide", f"astype_{x.dtype}"))
    if name in ("maximum", "minimum"):
        winners = map_scalar(equal, x, _spread_like(node, attributes, x))
        count = reduce(scalar_op_named("add"), map_scalar(astype, winners), attributes)
        share = map_scalar(divide, spread, _spread_like(count, attributes, x))
        zero = splat(0, x.dtype, x.shape)
        return (map_scalar(where, winners, share, zero),)
    if name == "multiply":
        product = _spread_like(node, attributes, x)
        return (map_scalar(divide, map_scalar(scalar_op_named("multiply"), spread, product), x),)
    return (None,)


def _spread_like(value: Node, attributes: ReduceAttributes, x: Node) -> Node:
    """A value of the result's shape at every index of the operand it came from (broadcast labels summed away)."""
    absent = [label for label in range(attributes.rank) if label not in attributes.labels]
    if absent:
        kept = [label for label in range(attributes.rank) if label in attributes.labels]
        order = {label: n for n, label in enumerate([*kept, *absent])}
        labels = tuple(order[label] for label in range(attributes.rank))
        extents = tuple(attributes.extents[label] for label in (*kept, *absent))
        value = reduce(scalar_op_named("add"), value,
                       ReduceAttributes(scalar_op_named("add"), labels, extents, len(kept)))
    else:
        kept = list(range(attributes.rank))
    axis_of = {label: axis for axis, label in enumerate(attributes.labels) if label >= 0}
    return view(value, tuple(axis_of[label] for label in kept), x.shape)


reduce_op = define_op(
    "reduce", arity=1, attributes=ReduceAttributes, infer=_infer, reference=_reference,
    pointful=_pointful, derivative=_derivative,
    doc="An associative operation over axes, from its start value (so the sum of nothing is 0, the maximum -inf). "
        "The order is free.",
)

"""Contraction: sums of products of two operands along any labels (a generalised matrix product)."""

from __future__ import annotations

import numpy as np

from tcp_eqsat.lang.dims import less_equal, product
from tcp_eqsat.lang.narrow import convert_array
from tcp_eqsat.lang.op import define_op, tensor_types
from tcp_eqsat.lang.ops.attributes import ContractAttributes
from tcp_eqsat.lang.ops.builders import broadcast_in_dim, contract
from tcp_eqsat.lang.ops.labels import check_labels, check_reduced, gather_labels, label_indices
from tcp_eqsat.lang.pointful import Expr, Fold, Operand, apply_op, converted
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.scalar import scalar_op_named
from tcp_eqsat.lang.types import F32, TensorType, Type, numbers


def _infer(operands: tuple[Type, ...], attributes: ContractAttributes) -> TensorType:
    x, y = tensor_types("contract", operands)
    dtype = scalar_op_named("multiply").result_dtype(x.dtype, y.dtype)
    check_labels("contract", x, attributes.lhs, attributes.extents, "lhs")
    check_labels("contract", y, attributes.rhs, attributes.extents, "rhs")
    check_reduced("contract", attributes.rank, attributes.extents, attributes.lhs, attributes.rhs)
    return TensorType(dtype, attributes.extents[: attributes.rank])


def _reference(attributes: ContractAttributes, result: TensorType, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Floats accumulate in double precision, from +0, and are rounded once at the end.

    Products come before sums: NumPy adds up an operand that has a summed label alone before it multiplies, which is
    another value where infinities meet.
    """
    dtype, extents = result.dtype.numpy, numbers(attributes.extents)
    if attributes.rank == len(attributes.extents):
        return scalar_op_named("multiply").reference(*(gather_labels(array, labels, extents)
                             for array, labels in ((x, attributes.lhs), (y, attributes.rhs))))
    terms = [[label for label in labels if label >= 0] for labels in (attributes.lhs, attributes.rhs)]
    arrays = [array.reshape([extents[label] for label in term]).astype(
        np.float64 if result.dtype.is_float else dtype) for array, term in zip((x, y), terms, strict=True)]
    summed = set(range(attributes.rank, len(attributes.extents)))
    if not summed <= {*terms[0]} & {*terms[1]}:
        product = np.multiply(*(gather_labels(array, tuple(term), extents)
                                for array, term in zip(arrays, terms, strict=True)))
        return convert_array(0 + product.sum(tuple(summed), dtype=product.dtype), result.dtype)
    present = tuple(label for label in range(attributes.rank) if label in terms[0] or label in terms[1])
    total = np.einsum(arrays[0], terms[0], arrays[1], terms[1], present, optimize=result.dtype.is_float)
    return convert_array(gather_labels(0 + total, present, numbers(result.shape)), result.dtype)


_SHORT = 4
"""Sums of so few products round each product, as their definition elsewhere does: what cancels then agrees with it."""


def _pointful(attributes: ContractAttributes, operands: tuple[TensorType, ...], result: TensorType) -> Expr:
    x: Expr = Operand(0, label_indices(attributes.lhs), result.dtype)
    y: Expr = Operand(1, label_indices(attributes.rhs), result.dtype)
    extents = attributes.extents[attributes.rank:]
    if not extents:
        return apply_op("multiply", x, y)
    if result.dtype.is_narrow_float:
        x, y = converted(x, F32), converted(y, F32)
    short = less_equal(product(extents), _SHORT) is True
    total = Fold(scalar_op_named("add"), extents, attributes.rank, apply_op("multiply", x, y), contraction=not short)
    return converted(total, result.dtype)


def _derivative(node: Node, g: Node) -> tuple[Node | None, ...]:
    attributes: ContractAttributes = node.attributes
    x, y = node.operands
    return (
        _cotangent(attributes, attributes.lhs, x, y, attributes.rhs, g),
        _cotangent(attributes, attributes.rhs, y, x, attributes.lhs, g),
    )


def _cotangent(attributes: ContractAttributes, own: tuple[int, ...], operand: Node, other: Node,
               others: tuple[int, ...], g: Node) -> Node:
    """sum over all labels but the operand's of g * other, at the operand's index."""
    kept = [label for label in own if label >= 0]
    summed = [label for label in range(len(attributes.extents))
              if label not in kept and (label < attributes.rank or label in others)]
    order = {label: n for n, label in enumerate([*kept, *summed])}
    extents = tuple(attributes.extents[label] for label in (*kept, *summed))
    product = contract(
        g, other, tuple(order[label] for label in range(attributes.rank)),
        tuple(order[label] if label >= 0 else -1 for label in others), extents, len(kept))
    axes = tuple(axis for axis, label in enumerate(own) if label >= 0)
    return broadcast_in_dim(product, operand.shape, axes)


contract_op = define_op(
    "contract", operands="x y", attributes=ContractAttributes, infer=_infer, reference=_reference,
    pointful=_pointful, derivative=_derivative,
    doc="Sums of products along any contracted labels, with any batch labels. The order and the use of fused "
        "multiply-add are free; sums start at +0, which is the sum of nothing. Integers wrap. f16 and bf16 are added "
        "up in f32 and rounded once. Without contracted labels it is the product itself.",
)

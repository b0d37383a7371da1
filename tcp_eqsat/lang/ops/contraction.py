"""Contraction: sums of products of two operands along any labels (a generalised matrix product)."""

from __future__ import annotations

import numpy as np

from tcp_eqsat.errors import TypeMismatch
from tcp_eqsat.lang.op import define_op, tensor_types
from tcp_eqsat.lang.ops.attributes import ContractAttributes
from tcp_eqsat.lang.ops.builders import broadcast_in_dim, contract
from tcp_eqsat.lang.ops.labels import check_labels, gather_labels, label_indices
from tcp_eqsat.lang.pointful import Apply, Expr, Fold, Operand
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.scalar import scalar_op_named
from tcp_eqsat.lang.types import TensorType, Type


def _infer(operands: tuple[Type, ...], attributes: ContractAttributes) -> TensorType:
    x, y = tensor_types("contract", operands)
    dtype = scalar_op_named("multiply").result_dtype(x.dtype, y.dtype)
    check_labels("contract", x, attributes.lhs, attributes.extents, "lhs")
    check_labels("contract", y, attributes.rhs, attributes.extents, "rhs")
    missing = set(range(attributes.rank, len(attributes.extents))) - {*attributes.lhs, *attributes.rhs}
    if missing:
        raise TypeMismatch(f"contract requires every contracted label in an operand, {min(missing)} is missing")
    return TensorType(dtype, attributes.extents[: attributes.rank])


def _reference(attributes: ContractAttributes, result: TensorType, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Floats accumulate in double precision. Products come first: NumPy would add up an operand that has a summed
    label alone before it multiplies, which is another value where infinities meet."""
    work = np.float64 if result.dtype.is_float else result.dtype.numpy
    summed = set(range(attributes.rank, len(attributes.extents)))
    if summed & {*attributes.lhs} != summed & {*attributes.rhs}:
        with np.errstate(all="ignore"):
            product = (gather_labels(x.astype(work), attributes.lhs, attributes.extents)
                       * gather_labels(y.astype(work), attributes.rhs, attributes.extents))
            return np.asarray(product.sum(tuple(summed), dtype=work, initial=0).astype(result.dtype.numpy))
    names = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    out = names[: attributes.rank]
    terms, arrays = [], []
    for array, labels in ((x, attributes.lhs), (y, attributes.rhs)):
        kept = [n for n, label in zip(array.shape, labels, strict=True) if label >= 0]
        arrays.append(array.reshape(kept).astype(work))
        terms.append("".join(names[label] for label in labels if label >= 0))
    present = "".join(name for name in out if name in terms[0] or name in terms[1])
    with np.errstate(all="ignore"):
        value = np.einsum(f"{terms[0]},{terms[1]}->{present}", *arrays, optimize=result.dtype.is_float)
    labels = tuple(out.index(name) for name in present)
    return np.asarray(gather_labels(value, labels, result.shape).astype(result.dtype.numpy))


def _pointful(attributes: ContractAttributes, operands: tuple[TensorType, ...], result: TensorType) -> Expr:
    x = Operand(0, label_indices(attributes.lhs), result.dtype)
    y = Operand(1, label_indices(attributes.rhs), result.dtype)
    product = Apply(scalar_op_named("multiply"), (x, y), result.dtype)
    extents = attributes.extents[attributes.rank:]
    if not extents:
        return product
    return Fold(scalar_op_named("add"), extents, attributes.rank, product, contraction=True)


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
    "contract", arity=2, attributes=ContractAttributes, infer=_infer, reference=_reference,
    pointful=_pointful, derivative=_derivative,
    doc="Sums of products along any contracted labels, with any batch labels. The order and the use of fused "
        "multiply-add are free; a sum of nothing is 0.",
)

"""Where values come from: parameters, constants, index ramps."""

from __future__ import annotations

from typing import Any

import numpy as np

from tcp_eqsat.errors import TypeMismatch
from tcp_eqsat.lang.dims import Dim
from tcp_eqsat.lang.narrow import convert_array
from tcp_eqsat.lang.op import NOT_DIFFERENTIABLE, define_op
from tcp_eqsat.lang.ops.attributes import ConstantAttributes, IotaAttributes, ParameterAttributes, SizeAttributes
from tcp_eqsat.lang.pointful import Affine, Expr, Literal, Operand, Position, axis_index
from tcp_eqsat.lang.scalar import literal
from tcp_eqsat.lang.types import I64, Kind, TensorType, Type, numbers


def _no_reference(attributes: ParameterAttributes, result: TensorType) -> np.ndarray:
    raise TypeMismatch(f"parameter {attributes.name} has no value of its own")


def _parameter_pointful(attributes: ParameterAttributes, operands: Any, result: TensorType) -> Expr:
    return Operand(0, tuple(map(axis_index, range(result.rank))), result.dtype)


parameter_op = define_op(
    "parameter", operands="", attributes=ParameterAttributes,
    infer=lambda operands, attributes: attributes.type,
    reference=_no_reference, pointful=_parameter_pointful, derivative=NOT_DIFFERENTIABLE,
    doc="A tensor that the caller provides.",
)


def _constant_pointful(attributes: ConstantAttributes, operands: Any, result: TensorType) -> Expr:
    if attributes.data.is_splat:
        return Literal(literal(attributes.data.array.reshape(-1)[0], result.dtype))
    return Operand(0, tuple(map(axis_index, range(result.rank))), result.dtype)


constant_op = define_op(
    "constant", operands="", attributes=ConstantAttributes,
    infer=lambda operands, attributes: TensorType(attributes.data.dtype, attributes.data.shape),
    reference=lambda attributes, result: attributes.data.array,
    pointful=_constant_pointful, derivative=NOT_DIFFERENTIABLE,
    doc="A tensor known when the program is made, compared by its bits.",
)


def _infer_iota(operands: tuple[Type, ...], attributes: IotaAttributes) -> TensorType:
    found = attributes.type
    if found.dtype.kind in (Kind.BOOL, Kind.QUANTIZED):
        raise TypeMismatch(f"iota requires a numeric dtype, got {found.dtype}")
    if not 0 <= attributes.axis < found.rank:
        raise TypeMismatch(f"iota requires an axis of {found}, got {attributes.axis}")
    return found


def _iota_reference(attributes: IotaAttributes, result: TensorType) -> np.ndarray:
    ramp = convert_array(np.arange(numbers(result.shape)[attributes.axis], dtype=np.int64), result.dtype)
    shape = [1] * result.rank
    shape[attributes.axis] = -1
    return np.broadcast_to(ramp.reshape(shape), numbers(result.shape))


iota_op = define_op(
    "iota", operands="", attributes=IotaAttributes, infer=_infer_iota, reference=_iota_reference,
    pointful=lambda attributes, operands, result: Position(axis_index(attributes.axis), result.dtype),
    derivative=NOT_DIFFERENTIABLE,
    doc="The index along one axis, converted to the dtype (integers wrap, floats round).",
)


def _infer_size(operands: tuple[Type, ...], attributes: SizeAttributes) -> TensorType:
    if not isinstance(attributes.size, (int, Dim)):
        raise TypeMismatch(f"size requires a size that is an int or symbolic, got {attributes.size!r}")
    return TensorType(I64, ())


size_op = define_op(
    "size", operands="", attributes=SizeAttributes, infer=_infer_size,
    reference=lambda attributes, result: np.int64(attributes.size),
    pointful=lambda attributes, operands, result: Position(Affine((), attributes.size), I64),
    derivative=NOT_DIFFERENTIABLE,
    doc="A size as a number, an i64 of rank 0.",
)

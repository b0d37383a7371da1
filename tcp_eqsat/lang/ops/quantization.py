"""Quantised tensors: from real numbers and back, and as the integers that they are in memory.

A quantised tensor moves like any other; arithmetic is done on what `dequantize` gives, or on its integers.
"""

from __future__ import annotations

import numpy as np

from tcp_eqsat.errors import ShapeMismatch, TypeMismatch
from tcp_eqsat.lang.narrow import convert_array
from tcp_eqsat.lang.op import TAKEN_APART, define_op, op_named, tensor_types
from tcp_eqsat.lang.ops.attributes import QuantizationAttributes
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.quantized import QuantizedDType
from tcp_eqsat.lang.scalar import NOT_DIFFERENTIABLE
from tcp_eqsat.lang.types import I64, TensorType, Type


def quantize(x: Node, dtype: QuantizedDType) -> Node:
    """x of the expressed dtype as the nearest numbers of `dtype`."""
    return Node.make(op_named("quantize"), (x,), QuantizationAttributes(dtype))


def dequantize(x: Node) -> Node:
    """The real numbers that a quantised tensor stands for, of its expressed dtype; raises TypeMismatch for others."""
    dtype = x.dtype
    if not isinstance(dtype, QuantizedDType):
        raise TypeMismatch(f"dequantize requires a quantised dtype, got {x.type}")
    return Node.make(op_named("dequantize"), (x,), QuantizationAttributes(dtype))


def view_as_storage(x: Node) -> Node:
    """The stored integers of a quantised tensor."""
    return Node.make(op_named("view_as_storage"), (x,))


def view_as_quantized(x: Node, dtype: QuantizedDType) -> Node:
    """Integers of `dtype`'s storage read as a quantised tensor."""
    return Node.make(op_named("view_as_quantized"), (x,), QuantizationAttributes(dtype))


def per_axis(values: tuple[float, ...] | tuple[int, ...], dtype: QuantizedDType, rank: int) -> np.ndarray:
    """Scales or zero points in f64 or i64, shaped to broadcast over a tensor of a rank."""
    array = np.asarray(values)
    return array.reshape(()) if dtype.axis is None else array.reshape(
        [-1 if axis == dtype.axis else 1 for axis in range(rank)])


def _checked(name: str, x: TensorType, dtype: QuantizedDType) -> None:
    """Raises TypeMismatch or ShapeMismatch where the axis of `dtype` does not fit a shape."""
    if dtype.axis is None:
        return
    if dtype.axis >= x.rank:
        raise TypeMismatch(f"{name} along axis {dtype.axis} requires that axis, got {x}")
    size = x.shape[dtype.axis]
    if size != len(dtype.scales):
        raise ShapeMismatch(
            f"{name} requires size {len(dtype.scales)} along axis {dtype.axis}, one scale each, got {x}")


def _quantized_operand(name: str, operands: tuple[Type, ...]) -> tuple[TensorType, QuantizedDType]:
    (x,) = tensor_types(name, operands)
    if not isinstance(x.dtype, QuantizedDType):
        raise TypeMismatch(f"{name} requires a quantised dtype, got {x}")
    return x, x.dtype


def _infer_quantize(operands: tuple[Type, ...], attributes: QuantizationAttributes) -> TensorType:
    (x,), dtype = tensor_types("quantize", operands), attributes.dtype
    if x.dtype != dtype.expressed:
        raise TypeMismatch(f"quantize to {dtype} requires dtype {dtype.expressed}, got {x}")
    _checked("quantize", x, dtype)
    return TensorType(dtype, x.shape)


def _infer_dequantize(operands: tuple[Type, ...], attributes: QuantizationAttributes) -> TensorType:
    x, dtype = _quantized_operand("dequantize", operands)
    if dtype != attributes.dtype:
        raise TypeMismatch(f"dequantize from {attributes.dtype} requires that dtype, got {x}")
    return TensorType(dtype.expressed, x.shape)


def _infer_storage(operands: tuple[Type, ...], attributes: None) -> TensorType:
    x, dtype = _quantized_operand("view_as_storage", operands)
    return TensorType(dtype.storage, x.shape)


def _infer_quantized(operands: tuple[Type, ...], attributes: QuantizationAttributes) -> TensorType:
    (x,), dtype = tensor_types("view_as_quantized", operands), attributes.dtype
    if x.dtype != dtype.storage:
        raise TypeMismatch(f"view_as_quantized as {dtype} requires dtype {dtype.storage}, got {x}")
    _checked("view_as_quantized", x, dtype)
    return TensorType(dtype, x.shape)


def _reference_of_quantize(attributes: QuantizationAttributes, result: TensorType, x: np.ndarray) -> np.ndarray:
    """In the expressed dtype, one rounding an operation: the definition."""
    dtype = attributes.dtype

    def rounded(array: np.ndarray) -> np.ndarray:
        return convert_array(array, dtype.expressed).astype(np.float64)

    scale = rounded(per_axis(dtype.scales, dtype, x.ndim))
    zero = rounded(per_axis(dtype.zero_points, dtype, x.ndim))
    low, high = rounded(np.asarray(dtype.low)), rounded(np.asarray(dtype.high))
    stored = rounded(np.round(rounded(x.astype(np.float64) / scale)) + zero)
    return convert_array(np.minimum(np.maximum(stored, low), high), dtype.storage)


def _reference_of_dequantize(attributes: QuantizationAttributes, result: TensorType, x: np.ndarray) -> np.ndarray:
    """(stored - zero point) * scale: the difference is exact."""
    dtype = attributes.dtype
    whole = convert_array(x, I64) - per_axis(dtype.zero_points, dtype, x.ndim)
    scale = convert_array(per_axis(dtype.scales, dtype, x.ndim), dtype.expressed).astype(np.float64)
    return convert_array(convert_array(whole, dtype.expressed).astype(np.float64) * scale, dtype.expressed)


define_op(
    "quantize", operands="x", attributes=QuantizationAttributes, infer=_infer_quantize,
    reference=_reference_of_quantize, pointful=TAKEN_APART, derivative=NOT_DIFFERENTIABLE,
    doc="round(x / scale) + zero_point, ties to even, clamped to the stored range. Each operation rounds in the "
        "expressed dtype; NaN is stored as 0, clamped.",
)
define_op(
    "dequantize", operands="x", attributes=QuantizationAttributes, infer=_infer_dequantize,
    reference=_reference_of_dequantize, pointful=TAKEN_APART, derivative=NOT_DIFFERENTIABLE,
    doc="(stored - zero_point) * scale. The difference is exact; it, and the product, are rounded to the expressed "
        "dtype.",
)
define_op(
    "view_as_storage", operands="x", attributes=None, infer=_infer_storage, reference=lambda attributes, result, x: x,
    pointful=TAKEN_APART, derivative=NOT_DIFFERENTIABLE, doc="The integers that a quantised tensor is in memory.",
)
define_op(
    "view_as_quantized", operands="x", attributes=QuantizationAttributes, infer=_infer_quantized,
    reference=lambda attributes, result, x: x, pointful=TAKEN_APART, derivative=NOT_DIFFERENTIABLE,
    doc="Integers read as a quantised tensor of the same memory.",
)

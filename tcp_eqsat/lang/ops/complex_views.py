"""Complex tensors as the pairs of floats that they are in memory, and back."""

from __future__ import annotations

import numpy as np

from tcp_eqsat.errors import ShapeMismatch, TypeMismatch
from tcp_eqsat.lang.op import TAKEN_APART, define_op, op_named, tensor_types
from tcp_eqsat.lang.ops.builders import map_scalar
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.scalar import scalar_op_named
from tcp_eqsat.lang.types import TensorType, Type


def view_as_real(x: Node) -> Node:
    """c64[n] as f32[n, 2]: real part, imaginary part."""
    return Node.make(op_named("view_as_real"), (x,))


def view_as_complex(x: Node) -> Node:
    """f32[n, 2] as c64[n]."""
    return Node.make(op_named("view_as_complex"), (x,))


def _infer_real(operands: tuple[Type, ...], attributes: None) -> TensorType:
    (x,) = tensor_types("view_as_real", operands)
    if not x.dtype.is_complex:
        raise TypeMismatch(f"view_as_real requires a complex dtype, got {x}")
    return TensorType(x.dtype.part, (*x.shape, 2))


def _infer_complex(operands: tuple[Type, ...], attributes: None) -> TensorType:
    (x,) = tensor_types("view_as_complex", operands)
    if not x.dtype.is_float or x.dtype.bits not in (32, 64):
        raise TypeMismatch(f"view_as_complex requires dtype f32 or f64, got {x}")
    if not x.shape or x.shape[-1] != 2:
        raise ShapeMismatch(f"view_as_complex requires a last axis of size 2, got {x}")
    return TensorType(x.dtype.of_parts, x.shape[:-1])


def _read_as(x: np.ndarray, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    return np.ascontiguousarray(x).reshape(-1).view(dtype).reshape(shape)


view_as_real_op = define_op(
    "view_as_real", operands="x", attributes=None, infer=_infer_real, pointful=TAKEN_APART,
    reference=lambda attributes, result, x: _read_as(x, result.dtype.numpy, result.shape),
    derivative=lambda node, g: (_conjugate(view_as_complex(g)),),
    doc="A complex tensor as floats, with a last axis of real and imaginary part: its memory.",
)
view_as_complex_op = define_op(
    "view_as_complex", operands="x", attributes=None, infer=_infer_complex, pointful=TAKEN_APART,
    reference=lambda attributes, result, x: _read_as(x, result.dtype.numpy, result.shape),
    derivative=lambda node, g: (view_as_real(_conjugate(g)),),
    doc="Floats with a last axis of real and imaginary part as a complex tensor: the same memory.",
)


def _conjugate(x: Node) -> Node:
    """A cotangent of a complex value is the conjugate of the cotangents of its parts (as for `real` and `imag`)."""
    return map_scalar(scalar_op_named("conj"), x)


__all__ = ["view_as_complex", "view_as_complex_op", "view_as_real", "view_as_real_op"]

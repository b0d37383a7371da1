"""What numbers look like: their bits as another dtype, signs, neighbours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tcp_eqsat.errors import TypeMismatch
from tcp_eqsat.lang.scalar import NOT_DIFFERENTIABLE, ScalarExpr, ScalarOp, apply, scalar_op, scalar_op_named
from tcp_eqsat.lang.scalars.layout import integer_as_wide
from tcp_eqsat.lang.scalars.typing import floats, predicate
from tcp_eqsat.lang.types import BOOL, DTYPES, DType


def _infer_bitcast(target: DType) -> Callable[..., DType]:
    def infer(dtype: DType) -> DType:
        if dtype == BOOL or dtype.bits != target.bits:
            raise TypeMismatch(f"bitcast_{target} requires a dtype of {target.bits} bits, got {dtype}")
        return target

    return infer


def _define_bitcast(target: DType) -> None:
    scalar_op(
        f"bitcast_{target}", "x", infer=_infer_bitcast(target),
        reference=lambda x: np.ascontiguousarray(x).view(target.numpy).reshape(np.shape(x)),
        emit=lambda b, x: b.bitcast(x, target), derivative=NOT_DIFFERENTIABLE, takes_narrow=True,
        doc=f"The bits of x read as {target}, of a dtype as wide (not bool).",
    )


for _dtype in DTYPES.values():
    if _dtype != BOOL:
        _define_bitcast(_dtype)


def bitcast(dtype: DType) -> ScalarOp:
    """The operation that reads bits as `dtype`."""
    return scalar_op_named(f"bitcast_{dtype}")


def _emit_signbit(b: Any, x: Any) -> Any:
    integer = integer_as_wide(x.dtype, signed=True)
    return b.compare("less", b.bitcast(x, integer), b.constant(0, integer))


signbit = scalar_op(
    "signbit", "x", infer=predicate("signbit"), reference=np.signbit, emit=_emit_signbit,
    derivative=NOT_DIFFERENTIABLE, doc="True where the sign bit is set: negative numbers, -0, NaN with a sign.",
)


def _derivative_of_copysign(g: ScalarExpr, x: ScalarExpr, y: ScalarExpr) -> tuple[ScalarExpr | None, ...]:
    turned = apply("not_equal", apply("signbit", x), apply("signbit", y))
    return apply("where", turned, -g, g), None


copysign = scalar_op(
    "copysign", "x y", infer=floats("copysign"), reference=np.copysign,
    emit=lambda b, x, y: b.copysign(x, y), derivative=_derivative_of_copysign,
    doc="x with the sign bit of y, of zeros and NaNs as well.",
)


def _emit_nextafter(b: Any, x: Any, y: Any) -> Any:
    integer = integer_as_wide(x.dtype, signed=True)
    zero, one = b.constant(0.0, x.dtype), b.constant(1, integer)
    bits = b.bitcast(x, integer)
    outward = b.compare("equal", b.compare("less", x, y), b.compare("greater", x, zero))
    moved = b.bitcast(b.select(outward, b.add(bits, one), b.subtract(bits, one)), x.dtype)
    least = b.copysign(b.bitcast(one, x.dtype), y)
    moved = b.select(b.compare("equal", x, zero), least, moved)
    moved = b.select(b.compare("equal", x, y), y, moved)
    ordered = b.bitwise_and(b.compare("equal", x, x), b.compare("equal", y, y))
    return b.select(ordered, moved, b.add(x, y))


nextafter = scalar_op(
    "nextafter", "x y", infer=floats("nextafter"),
    reference=lambda x, y: np.where(np.equal(x, y), y, np.nextafter(x, y)), emit=_emit_nextafter,
    derivative=NOT_DIFFERENTIABLE, takes_narrow=True,
    doc="The number next to x on the way to y; y where they are equal, NaN where one is NaN. From zero to the "
        "least subnormal, and beyond the greatest number to infinity.",
)

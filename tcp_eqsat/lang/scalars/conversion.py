"""Conversion between dtypes."""

from __future__ import annotations

from tcp_eqsat.lang.narrow import convert_array
from tcp_eqsat.lang.scalar import ScalarExpr, ScalarOp, apply, scalar_op, scalar_op_named
from tcp_eqsat.lang.types import DTYPES, DType

_DOC = (
    "The value as {}. Float to integer truncates, saturates, and turns NaN into 0; integer to integer wraps; to bool "
    "is x != 0; to float rounds once, to nearest even. What is too large for a float dtype is infinite, or NaN where "
    "it has no infinity (f8e4m3fn and those in fnuz). f4 and f6 have no NaN either: what is too large becomes their "
    "largest number, and NaN -0. f8e8m0fnu holds powers of two: ties go up, positive numbers below the least become "
    "the least, zeros and negative numbers NaN.")


def _define_conversion(target: DType) -> None:
    def derivative(g: ScalarExpr, x: ScalarExpr) -> tuple[ScalarExpr | None, ...]:
        both = x.dtype.is_differentiable and target.is_differentiable
        return (apply(f"astype_{x.dtype}", g),) if both else (None,)

    scalar_op(
        f"astype_{target}", "x", infer=lambda dtype: target,
        reference=lambda x: convert_array(x, target), emit=lambda b, x: b.convert(x, target),
        derivative=derivative, takes_narrow=True, doc=_DOC.format(target),
    )


for _dtype in DTYPES.values():
    _define_conversion(_dtype)


def conversion(dtype: DType) -> ScalarOp:
    """The operation that converts to `dtype`."""
    return scalar_op_named(f"astype_{dtype}")

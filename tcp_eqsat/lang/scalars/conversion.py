"""Conversion between dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tcp_eqsat.lang.scalar import ScalarExpr, ScalarOp, apply, scalar_op, scalar_op_named
from tcp_eqsat.lang.types import DTYPES, DType, Kind


def convert_array(array: Any, dtype: DType) -> np.ndarray:
    """Value conversion: float to integer truncates, saturates, NaN becomes 0; integer to integer wraps."""
    array = np.asarray(array)
    if dtype.kind is Kind.BOOL:
        return array != 0
    if array.dtype.kind == "f" and dtype.is_integer:
        info = np.iinfo(dtype.numpy)
        whole = np.trunc(np.where(np.isnan(array), 0, array).astype(np.float64))
        inside = (whole >= float(info.min)) & (whole < float(info.max) + (dtype.bits <= 32))
        result = np.where(inside, whole, 0).astype(dtype.numpy)
        return np.where(inside, result, np.where(whole < 0, *np.array([info.min, info.max], dtype.numpy)))
    return array.astype(dtype.numpy)


def _define_conversion(target: DType) -> None:
    def derivative(g: ScalarExpr, x: ScalarExpr) -> tuple[ScalarExpr | None, ...]:
        return (apply(f"astype_{x.dtype}", g),) if x.dtype.is_float and target.is_float else (None,)

    scalar_op(
        f"astype_{target}", "x", infer=lambda dtype: target,
        reference=lambda x: convert_array(x, target), emit=lambda b, x: b.convert(x, target),
        derivative=derivative,
        doc=f"The value as {target}. Float to integer truncates, saturates, and turns NaN into 0; integer to "
            "integer wraps; to bool is x != 0; to a narrower float rounds to nearest even.",
    )


for _dtype in DTYPES.values():
    _define_conversion(_dtype)


def conversion(dtype: DType) -> ScalarOp:
    """The operation that converts to `dtype`."""
    return scalar_op_named(f"astype_{dtype}")

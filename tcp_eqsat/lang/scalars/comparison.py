"""Comparison and choice."""

from __future__ import annotations

import math

import numpy as np

from tcp_eqsat.errors import TypeMismatch
from tcp_eqsat.lang.scalar import NOT_DIFFERENTIABLE, apply, literal, scalar_op
from tcp_eqsat.lang.scalars.typing import comparison, predicate
from tcp_eqsat.lang.types import BOOL, DType

COMPARISONS = {
    "equal": "x equals y", "not_equal": "x does not equal y", "less": "x is less than y",
    "less_equal": "x is at most y", "greater": "x is greater than y", "greater_equal": "x is at least y"}


def _define_comparison(name: str) -> None:
    scalar_op(
        name, "x y", infer=comparison(name), reference=getattr(np, name),
        emit=lambda b, x, y: b.compare(name, x, y), derivative=NOT_DIFFERENTIABLE,
        commutative=name in ("equal", "not_equal"),
        doc=f"True where {COMPARISONS[name]}. With NaN only not_equal is true; -0 equals +0.",
    )


for _name in COMPARISONS:
    _define_comparison(_name)


def _infer_where(condition: DType, x: DType, y: DType) -> DType:
    if condition is not BOOL and condition != BOOL:
        raise TypeMismatch(f"where requires a condition of dtype bool, got {condition}")
    if x != y:
        raise TypeMismatch(f"where requires branches of one dtype, got {x} and {y}")
    return x


where = scalar_op(
    "where", "condition x y", infer=_infer_where, reference=np.where,
    emit=lambda b, c, x, y: b.select(c, x, y),
    derivative=lambda g, c, x, y: (
        None, apply("where", c, g, literal(0, g.dtype)), apply("where", c, literal(0, g.dtype), g)),
    takes_narrow=True,
    doc="x where the condition holds, else y, whatever the other one is, NaN included.",
)
isfinite = scalar_op(
    "isfinite", "x", infer=predicate("isfinite"), reference=np.isfinite,
    emit=lambda b, x: b.compare("less", b.absolute(x), b.constant(math.inf, x.dtype)),
    derivative=NOT_DIFFERENTIABLE, doc="True where x is neither infinite nor NaN. Complex: both parts.",
)
isnan = scalar_op(
    "isnan", "x", infer=predicate("isnan"), reference=np.isnan,
    emit=lambda b, x: b.compare("not_equal", x, x), derivative=NOT_DIFFERENTIABLE,
    doc="True where x is NaN. Complex: either part.",
)
isinf = scalar_op(
    "isinf", "x", infer=predicate("isinf"), reference=np.isinf,
    emit=lambda b, x: b.compare("equal", b.absolute(x), b.constant(math.inf, x.dtype)),
    derivative=NOT_DIFFERENTIABLE, doc="True where x is infinite. Complex: either part.",
)

"""Rounding to integers."""

from __future__ import annotations

import numpy as np

from tcp_eqsat.lang.scalar import NOT_DIFFERENTIABLE, scalar_op
from tcp_eqsat.lang.scalars.typing import floats

for _name, _reference, _emit, _doc in (
    ("floor", np.floor, lambda b, x: b.floor(x), "The greatest integer that is not above x."),
    ("ceil", np.ceil, lambda b, x: b.ceil(x), "The least integer that is not below x."),
    ("trunc", np.trunc, lambda b, x: b.trunc(x), "x without its fraction."),
    ("round", np.round, lambda b, x: b.round_even(x), "The nearest integer, ties to even."),
):
    scalar_op(_name, "x", infer=floats(_name), reference=_reference, emit=_emit,
              derivative=NOT_DIFFERENTIABLE, doc=_doc)

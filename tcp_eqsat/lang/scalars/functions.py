"""What functions of floating-point numbers share.

References compute f32 functions in double precision and round once: the definition is the correctly rounded value
but for double rounding. Accuracy promises of compiled code stand in docs/accuracy.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tcp_eqsat.lang.scalar import ScalarOp, scalar_op
from tcp_eqsat.lang.scalars.typing import floats


def in_double(function: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """f32 operands are computed in double precision and rounded once."""

    def reference(*operands: np.ndarray) -> np.ndarray:
        dtype = np.result_type(*operands)
        return np.asarray(function(*(np.asarray(x, np.float64) for x in operands))).astype(dtype)

    return reference


def elementwise(function: Callable[..., float], arity: int = 1) -> Callable[..., np.ndarray]:
    """A function of Python floats on arrays."""
    vectorised = np.frompyfunc(function, arity, 1)
    return lambda *operands: np.asarray(vectorised(*operands), np.float64)


def float_function(
    name: str, reference: Callable[..., Any], derivative: Any, doc: str, operands: str = "x", *,
    commutative: bool = False,
) -> ScalarOp:
    """A function of floats that the vector math library computes; `reference` is given f64 operands."""
    return scalar_op(
        name, operands, infer=floats(name), reference=in_double(reference),
        emit=lambda b, *x: b.function(name, *x), derivative=derivative, doc=doc,
        commutative=commutative,
    )

"""Mathematical functions, each described once over the scalar builder, for every target and lane count."""

from __future__ import annotations

from tcp_eqsat.codegen.vector_math import (
    bessel,
    error_function,
    exponential,
    fused,
    gamma,
    hyperbolic,
    incomplete_gamma,
    inverse_hyperbolic,
    inverse_trigonometric,
    logarithm,
    power,
    remainder,
    roots,
    trigonometric,
    zeta,
)
from tcp_eqsat.codegen.vector_math.arithmetic import VectorFunction

FUNCTIONS: dict[str, VectorFunction] = {
    **exponential.FUNCTIONS,
    **logarithm.FUNCTIONS,
    **hyperbolic.FUNCTIONS,
    **inverse_hyperbolic.FUNCTIONS,
    **error_function.FUNCTIONS,
    **power.FUNCTIONS,
    **roots.FUNCTIONS,
    **fused.FUNCTIONS,
    **remainder.FUNCTIONS,
    **trigonometric.FUNCTIONS,
    **inverse_trigonometric.FUNCTIONS,
    **gamma.FUNCTIONS,
    **zeta.FUNCTIONS,
    **bessel.FUNCTIONS,
    **incomplete_gamma.FUNCTIONS,
}

"""Mathematical functions, each described once over the scalar builder, for every target and lane count."""

from __future__ import annotations

from tcp_eqsat.codegen.vector_math import error_function, exponential, hyperbolic, logarithm, power, trigonometric
from tcp_eqsat.codegen.vector_math.arithmetic import VectorFunction

FUNCTIONS: dict[str, VectorFunction] = {
    **exponential.FUNCTIONS,
    **logarithm.FUNCTIONS,
    **hyperbolic.FUNCTIONS,
    **error_function.FUNCTIONS,
    **power.FUNCTIONS,
    **trigonometric.FUNCTIONS,
}

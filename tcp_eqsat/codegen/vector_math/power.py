"""Roots and powers."""

from __future__ import annotations

from tcp_eqsat.codegen.vector_math.arithmetic import MathBuilder, V, VectorFunction


def rsqrt(b: MathBuilder[V], x: V) -> V:
    """1 / sqrt(x) by two correctly rounded operations: at most 1 ULP."""
    return b.divide(b.constant(1.0, x.dtype), b.sqrt(x))


FUNCTIONS: dict[str, VectorFunction] = {"rsqrt": rsqrt}

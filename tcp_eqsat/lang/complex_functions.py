"""Scalar functions of complex numbers as functions of their real and imaginary parts."""

from __future__ import annotations

import functools

from tcp_eqsat.lang.scalar import (
    COMPLEX_FORMS,
    Parts,
    ScalarApply,
    ScalarExpr,
    ScalarFunction,
    ScalarLiteral,
    ScalarParameter,
    apply,
    literal,
    parameter,
)
from tcp_eqsat.lang.types import DType


def part_dtypes(dtype: DType) -> tuple[DType, ...]:
    """The dtypes of what a value is taken apart into: of a real one, its own."""
    return (dtype.part, dtype.part) if dtype.is_complex else (dtype,)


def is_complex_function(function: ScalarFunction) -> bool:
    """Whether any value in it is complex."""
    return any(expr.dtype.is_complex for expr in function.walk()) or any(d.is_complex for d in function.parameters)


@functools.lru_cache(maxsize=1024)
def function_parts(function: ScalarFunction) -> tuple[ScalarFunction, ...]:
    """The function that gives each part of the result; a complex parameter becomes two, one after the other."""
    parameters = tuple(part for dtype in function.parameters for part in part_dtypes(dtype))
    first = [0]
    for dtype in function.parameters:
        first.append(first[-1] + len(part_dtypes(dtype)))
    values: dict[ScalarExpr, Parts | ScalarExpr] = {}
    for expr in function.walk():
        match expr:
            case ScalarParameter():
                at = first[expr.index]
                own = tuple(parameter(at + n, part) for n, part in enumerate(part_dtypes(expr.dtype)))
                values[expr] = (own[0], own[1]) if len(own) == 2 else own[0]
            case ScalarLiteral():
                dtype = expr.dtype
                values[expr] = expr if not dtype.is_complex else (
                    literal(expr.value.real, dtype.part), literal(expr.value.imag, dtype.part))
            case ScalarApply():
                arguments = [values[x] for x in expr.arguments]
                values[expr] = _applied(expr, arguments)
    result = values[function.result]
    results = result if isinstance(result, tuple) else (result,)
    return tuple(ScalarFunction(parameters, part) for part in results)


def _applied(expr: ScalarApply, arguments: list[Parts | ScalarExpr]) -> Parts | ScalarExpr:
    if any(isinstance(x, tuple) for x in arguments):
        return COMPLEX_FORMS[expr.op.name].parts(*arguments)
    real = [x for x in arguments if isinstance(x, ScalarExpr)]
    if not expr.dtype.is_complex:
        return apply(expr.op, *real)
    if expr.op.name == "complex":
        return real[0], real[1]
    return apply(f"astype_{expr.dtype.part}", real[0]), literal(0, expr.dtype.part)


__all__ = ["function_parts", "is_complex_function", "part_dtypes"]

"""`map`, the one elementwise operation: a scalar function at every index."""

from __future__ import annotations

import numpy as np

from tcp_eqsat.errors import ShapeMismatch, TypeMismatch
from tcp_eqsat.lang.dims import equal
from tcp_eqsat.lang.op import define_op, tensor_types
from tcp_eqsat.lang.ops.attributes import MapAttributes
from tcp_eqsat.lang.ops.builders import map_used
from tcp_eqsat.lang.pointful import Expr, Operand, axis_index, of_function
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.scalar import (
    ScalarApply,
    ScalarExpr,
    ScalarFunction,
    ScalarParameter,
    _NotDifferentiable,
    apply,
)
from tcp_eqsat.lang.scalar import parameter as scalar_parameter
from tcp_eqsat.lang.types import TensorType, Type


def map_name(attributes: MapAttributes) -> str:
    """What a map is called in messages and text: its single operation's name, or "map"."""
    op = attributes.function.single_op
    return op.name if op else "map"


def _infer(operands: tuple[Type, ...], attributes: MapAttributes) -> TensorType:
    function = attributes.function
    name = map_name(attributes)
    types = tensor_types(name, operands)
    if len(types) != len(function.parameters):
        raise TypeMismatch(f"{name} requires {len(function.parameters)} operands, got {len(types)}")
    if not types:
        raise TypeMismatch("map requires at least one operand")
    for number, (found, dtype) in enumerate(zip(types, function.parameters, strict=True)):
        if found.dtype != dtype:
            raise TypeMismatch(f"{name} requires dtype {dtype} of operand {number}, got {found}")
        if found.rank != types[0].rank or not all(map(equal, found.shape, types[0].shape)):
            raise ShapeMismatch(
                f"{name} requires operands of one shape, got {types[0]} (operand 0) and {found} (operand {number})")
    return TensorType(function.dtype, types[0].shape)


def _pointful(attributes: MapAttributes, operands: tuple[TensorType, ...], result: TensorType) -> Expr:
    indices = tuple(map(axis_index, range(result.rank)))
    return of_function(
        attributes.function, tuple(Operand(n, indices, x.dtype) for n, x in enumerate(operands)))


def scalar_vjp(function: ScalarFunction) -> tuple[ScalarFunction | None, ...]:
    """For each parameter the function (cotangent, *parameters) -> its cotangent, or None where it is zero.

    Reverse accumulation over the expression; the cotangent is parameter 0.
    """
    shifted = [scalar_parameter(i + 1, dtype) for i, dtype in enumerate(function.parameters)]
    moved: dict[ScalarExpr, ScalarExpr] = {}
    order = list(function.walk())
    for expr in order:
        match expr:
            case ScalarParameter():
                moved[expr] = shifted[expr.index]
            case ScalarApply():
                moved[expr] = apply(expr.op, *(moved[x] for x in expr.arguments))
            case _:
                moved[expr] = expr
    cotangents: dict[ScalarExpr, ScalarExpr] = {function.result: scalar_parameter(0, function.dtype)}
    for expr in reversed(order):
        g = cotangents.get(expr)
        if g is None or not isinstance(expr, ScalarApply) or isinstance(expr.op.derivative, _NotDifferentiable):
            continue
        parts = expr.op.derivative(g, *(moved[x] for x in expr.arguments))
        for argument, part in zip(expr.arguments, parts, strict=True):
            if part is not None and argument.dtype.is_differentiable:
                known = cotangents.get(argument)
                cotangents[argument] = part if known is None else known + part
    signature = (function.dtype, *function.parameters)
    results: list[ScalarFunction | None] = []
    for i, dtype in enumerate(function.parameters):
        cotangent = cotangents.get(scalar_parameter(i, dtype))
        results.append(None if cotangent is None else ScalarFunction(signature, cotangent))
    return tuple(results)


def _derivative(node: Node, g: Node) -> tuple[Node | None, ...]:
    functions = scalar_vjp(node.attributes.function)
    return tuple(None if f is None else map_used(f, g, *node.operands) for f in functions)


map_op = define_op(
    "map", operands="x*", attributes=MapAttributes, infer=_infer,
    reference=lambda attributes, result, *arrays: np.asarray(
        attributes.function.evaluate(*arrays), result.dtype.numpy),
    pointful=_pointful, derivative=_derivative,
    doc="A scalar function applied at every index of operands of one shape. A map of a single scalar operation is "
        "printed under that one's name.",
)

"""Regions over tensors of rank 0 as scalar functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tcp_eqsat.errors import VerificationError
from tcp_eqsat.lang.ops.regions import placeholder
from tcp_eqsat.lang.ops.structure import expand
from tcp_eqsat.lang.program import Node, walk
from tcp_eqsat.lang.scalar import (
    ScalarApply,
    ScalarExpr,
    ScalarFunction,
    ScalarParameter,
    apply,
    literal,
    parameter,
)
from tcp_eqsat.lang.types import DType, TensorType

_SAME = frozenset({"view", "reshape"})  # of rank 0 to rank 0


def scalar_functions(
    body: Callable[..., tuple[Node, ...]], dtypes: Sequence[DType]
) -> tuple[ScalarFunction, ...]:
    """What a function of nodes of rank 0 computes, one scalar function for each result.

    Raises VerificationError where it does anything else than scalar operations on its arguments and constants.
    """
    arguments = tuple(placeholder(TensorType(dtype, ()), n) for n, dtype in enumerate(dtypes))
    results = body(*arguments)
    values: dict[Node, ScalarExpr] = {
        x: parameter(n, dtype) for n, (x, dtype) in enumerate(zip(arguments, dtypes, strict=True))
    }
    expanded = expand(results)
    for node in walk(expanded[x] for x in results):
        if node not in values:
            values[node] = _expression(node, values)
    return tuple(ScalarFunction(tuple(dtypes), values[expanded[x]]) for x in results)


def _expression(node: Node, values: dict[Node, ScalarExpr]) -> ScalarExpr:
    if not isinstance(node.type, TensorType) or node.type.shape != ():
        raise VerificationError(f"a region over scalars is required, got {node.op.name} of type {node.type}")
    operands = [values[x] for x in node.operands]
    name = node.op.name
    if name == "constant":
        return literal(node.attributes.data.array[()], node.dtype)
    if name in _SAME:
        return operands[0]
    if name != "map":
        raise VerificationError(f"a region of scalar operations on its own arguments is required, got {name}")
    function: ScalarFunction = node.attributes.function
    known: dict[ScalarExpr, ScalarExpr] = {}
    for expr in function.walk():
        match expr:
            case ScalarParameter():
                known[expr] = operands[expr.index]
            case ScalarApply():
                known[expr] = apply(expr.op, *(known[x] for x in expr.arguments))
            case _:
                known[expr] = expr
    return known[function.result]

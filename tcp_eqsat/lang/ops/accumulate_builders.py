"""Constructors of nodes that combine elements along axes: cumulative forms, general reductions, argmax."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tcp_eqsat.errors import TypeMismatch
from tcp_eqsat.lang.op import op_named
from tcp_eqsat.lang.ops.attributes import ConstantAttributes, CumulativeAttributes, ReduceGeneralAttributes
from tcp_eqsat.lang.ops.builders import broadcast_scalar, iota, map_scalar, reduce_axes, results_of, splat, view
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.scalar import (
    ScalarApply,
    ScalarFunction,
    ScalarOp,
    apply,
    encode_number,
    function_of,
    literal,
)
from tcp_eqsat.lang.scalar import parameter as scalar_parameter
from tcp_eqsat.lang.scalar import scalar_op_named as _op
from tcp_eqsat.lang.types import I64, DType


def cumulative(operands: Sequence[Node], functions: Sequence[ScalarFunction], axis: int, *, reverse: bool = False
               ) -> tuple[Node, ...]:
    """Everything so far along an axis; function n of 2k parameters: k values so far, k next elements."""
    attributes = CumulativeAttributes(tuple(functions), axis, reverse)
    return results_of(Node.make(op_named("cumulative"), tuple(operands), attributes))


def cumulative_of(operation: str, x: Node, axis: int, *, reverse: bool = False) -> Node:
    """Everything so far by one scalar operation: "add", "multiply", "maximum", "minimum"."""
    function = function_of(_op(operation), x.dtype, x.dtype)
    return cumulative((x,), (function,), axis, reverse=reverse)[0]


def log_add_exp(dtype: DType) -> ScalarFunction:
    """log(exp(x) + exp(y)) without overflow; exactly the greater one where the other is -inf."""
    x, y = scalar_parameter(0, dtype), scalar_parameter(1, dtype)
    greater = apply("maximum", x, y)
    difference = apply("abs", x - y)
    total = greater + apply("log1p", apply("exp", -difference))
    same = apply("equal", x, y)  # also both infinite, where the difference is NaN
    return ScalarFunction((dtype, dtype), apply("where", same, greater + literal(0.6931471805599453, dtype), total))


def reduce_general(operands: Sequence[Node], initial: Sequence[Node], functions: Sequence[ScalarFunction],
                   axes: Sequence[int]) -> tuple[Node, ...]:
    """Operands combined over axes from initial values on, in row-major order."""
    attributes = ReduceGeneralAttributes(tuple(functions), tuple(sorted(axes)))
    return results_of(Node.make(op_named("reduce_general"), (*operands, *initial), attributes))


def reduction_operation(function: ScalarFunction) -> ScalarOp | None:
    """The associative and commutative operation that a function of two values of a dtype is, if it is one."""
    dtype, body = function.dtype, function.result
    x, y = scalar_parameter(0, dtype), scalar_parameter(1, dtype)
    if function.parameters != (dtype, dtype) or not isinstance(body, ScalarApply) or body.op.identity is None:
        return None
    return body.op if body.arguments in ((x, y), (y, x)) and body.op.commutative else None


def reduce_by(operands: Sequence[Node], initial: Sequence[Node], functions: Sequence[ScalarFunction],
              axes: Sequence[int]) -> tuple[Node, ...]:
    """Operands combined over axes from initial values on, in any order where one associative operation combines them.

    That one is `reduce`, which code generation vectorises; anything else `reduce_general`.
    """
    operation = reduction_operation(functions[0]) if len(operands) == 1 else None
    if operation is None:
        return reduce_general(operands, initial, functions, axes)
    (x,), (start,) = operands, initial
    found = reduce_axes(operation, x, tuple(axes))
    if not axes:
        return (map_scalar(operation, broadcast_scalar(start, x.shape), x),)
    return (found if is_identity(operation, start) else map_scalar(
        operation, broadcast_scalar(start, found.shape), found),)


def is_identity(operation: ScalarOp, start: Node) -> bool:
    """Whether a value of rank 0 is a constant that changes nothing in a reduction by the operation."""
    if operation.identity is None or not isinstance(start.attributes, ConstantAttributes):
        return False
    bits = start.attributes.data.array.tobytes()
    identities = [operation.identity(start.dtype)]
    if operation.name == "add" and start.dtype.is_float:
        identities.append(-0.0)  # reductions start at +0 anyway
    return bits in [encode_number(each, start.dtype) for each in identities]


def extreme_index(x: Node, axis: int, *, least: bool = False, dtype: DType = I64) -> Node:
    """The first index of the greatest (or least) value along an axis; a NaN counts as the most extreme.

    0 along an axis of no elements.
    """
    if not 0 <= axis < len(x.shape):
        raise TypeMismatch(f"the index of an extreme requires an axis of {x.type}, got {axis}")
    labels = tuple(label for label in range(len(x.shape)) if label != axis)
    best = reduce_axes(_op("minimum" if least else "maximum"), x, (axis,))
    same = _is_value(x, view(best, labels, x.shape))
    none = int(np.iinfo(dtype.numpy).max)
    places = map_scalar(_op("where"), same, iota(dtype, x.shape, axis), splat(none, dtype, x.shape))
    first = reduce_axes(_op("minimum"), places, (axis,))
    missing = map_scalar(_op("equal"), first, splat(none, dtype, first.shape))
    return map_scalar(_op("where"), missing, splat(0, dtype, first.shape), first)


def _is_value(x: Node, value: Node) -> Node:
    """Where x is a value, a NaN any NaN."""
    same = map_scalar(_op("equal"), x, value)
    if not x.dtype.is_float:
        return same
    both = map_scalar(_op("bitwise_and"), map_scalar(_op("isnan"), x), map_scalar(_op("isnan"), value))
    return map_scalar(_op("bitwise_or"), same, both)

"""Programs in the operations of `xla_hlo`: every node becomes nodes of which each is one operation
there.

Views become transposes and broadcasts, reductions and contractions lose their index maps to views
around them, scalar functions become one elementwise operation after the other.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.ops.attributes import (
    ContractAttributes,
    MapAttributes,
    ReduceAttributes,
    ViewAttributes,
)
from tcp_eqsat.lang.ops.builders import map_scalar, splat
from tcp_eqsat.lang.ops.structure import expand
from tcp_eqsat.lang.program import Function, Node, walk
from tcp_eqsat.lang.scalar import (
    ScalarApply,
    ScalarExpr,
    ScalarLiteral,
    ScalarOp,
    ScalarParameter,
    scalar_op_named,
)
from tcp_eqsat.lang.scalars.conversion import conversion
from tcp_eqsat.lang.types import Shape

Rewrite = Callable[[Any, tuple[Node, ...]], Node]


def decomposed(function: Function, rewrites: Mapping[str, Rewrite] | None = None) -> Function:
    """The function without composites, its nodes in the forms that `rewrites` give (default: those of `xla_hlo`).

    Locations are kept, and stand for everything a node becomes.
    """
    rewrites = REWRITES if rewrites is None else rewrites
    expanded = expand(function.results)
    places = {expanded[node]: where for node, where in function.locations.items() if node in expanded}
    results = tuple(expanded[x] for x in function.results)
    values: dict[Node, Node] = {}
    locations = dict(function.locations)
    for node in walk((*function.parameters, *results)):
        operands = tuple(values[x] for x in node.operands)
        rewrite = rewrites.get(node.op.name)
        if rewrite is not None:
            values[node] = rewrite(node.attributes, operands)
        else:
            values[node] = Node.make(node.op, operands, node.attributes)
        stack = [values[node]] if node in places else []
        while stack:
            made = stack.pop()
            if made not in locations and made not in operands:
                locations[made] = places[node]
                stack += made.operands
    return Function(
        function.name,
        function.parameters,
        tuple(values[x] for x in results),
        locations=locations,
        guards=function.guards,
    )


# Views


def axes_of_broadcast(labels: Sequence[int], rank: int) -> tuple[int, ...] | None:
    """Increasing result axes for the operand axes of a view, or None where there are none.

    An axis that runs along no result axis (-1, of size 1) is stretched along one that repeats.
    """
    axes: list[int] = []
    for label in labels:
        start = axes[-1] + 1 if axes else 0
        free = (axis for axis in range(start, rank) if axis not in labels)
        axis = next(free, -1) if label < 0 else label
        if axis < start:
            return None
        axes.append(axis)
    return tuple(axes)


def is_transpose(labels: Sequence[int], rank: int) -> bool:
    return sorted(labels) == list(range(rank))


def _spread(x: Node, labels: tuple[int, ...], shape: Shape) -> Node:
    """A view as a reshape that drops axes of size 1, a transpose and a broadcast, each only where
    needed."""
    rank = len(shape)
    if is_transpose(labels, rank) or axes_of_broadcast(labels, rank) is not None:
        return builders.view(x, labels, shape)
    units = [axis for axis, label in enumerate(labels) if label < 0]
    repeating = [axis for axis in range(rank) if axis not in labels]
    stretched = dict(zip(units, repeating, strict=False))
    kept = [axis for axis, label in enumerate(labels) if label >= 0 or axis in stretched]
    axes = [stretched.get(axis, labels[axis]) for axis in kept]
    x = builders.reshape(x, tuple(x.shape[axis] for axis in kept))
    x = builders.transpose(x, tuple(sorted(range(len(axes)), key=axes.__getitem__)))
    return builders.broadcast_in_dim(x, shape, tuple(sorted(axes)))


def _view(attributes: ViewAttributes, operands: tuple[Node, ...]) -> Node:
    return _spread(operands[0], attributes.labels, attributes.shape)


# Reductions and contractions


def _reduce(attributes: ReduceAttributes, operands: tuple[Node, ...]) -> Node:
    """A reduction over axes in place, then a view. Axes of size 1 that run along nothing are
    reduced too."""
    (x,) = operands
    rank, labels = attributes.rank, attributes.labels
    if rank == len(attributes.extents):
        return _spread(x, labels, attributes.extents)
    kept = tuple(label for label in labels if 0 <= label < rank)
    axes = tuple(axis for axis, label in enumerate(labels) if label not in kept)
    total = builders.reduce_axes(attributes.operation, x, axes)
    return _spread(total, kept, attributes.extents[:rank])


def _contract(attributes: ContractAttributes, operands: tuple[Node, ...]) -> Node:
    """Operands without axes of size 1 that run along nothing and with every contracted label, a
    contraction by pairs of axes, a view of its result."""
    extents, rank = attributes.extents, attributes.rank
    summed = range(rank, len(extents))
    given = (attributes.lhs, attributes.rhs)
    wanted = [_present(labels, summed) for labels in given]
    x, y = (
        _spread(
            operand,
            tuple(own.index(label) if label >= 0 else -1 for label in labels),
            tuple(extents[label] for label in own),
        )
        for operand, labels, own in zip(operands, given, wanted, strict=True)
    )
    lhs, rhs = wanted
    batch = [label for label in lhs if label in rhs and label < rank]
    result = builders.dot_general(
        x,
        y,
        (tuple(map(lhs.index, summed)), tuple(map(rhs.index, summed))),
        (tuple(map(lhs.index, batch)), tuple(map(rhs.index, batch))),
    )
    free = [label for label in (*lhs, *rhs) if label < rank and label not in batch]
    return _spread(result, (*batch, *free), extents[:rank])


def _present(labels: tuple[int, ...], summed: Sequence[int]) -> list[int]:
    """The labels an operand has, then the contracted ones that it lacks."""
    own = [label for label in labels if label >= 0]
    return own + [label for label in summed if label not in own]


# Scalar functions


def by_operation(spelt: Mapping[str, Callable[..., Node]]) -> Rewrite:
    """Scalar functions as one operation after the other, some of which are spelt by others."""
    return functools.partial(_map, spelt)


def _map(spelt: Mapping[str, Callable[..., Node]], attributes: MapAttributes, operands: tuple[Node, ...]) -> Node:
    shape = operands[0].shape
    values: dict[ScalarExpr, Node] = {}
    for expr in attributes.function.walk():
        match expr:
            case ScalarParameter():
                values[expr] = operands[expr.index]
            case ScalarLiteral():
                values[expr] = splat(expr.value, expr.dtype, shape)
            case ScalarApply():
                values[expr] = _apply(spelt, expr.op, *(values[x] for x in expr.arguments))
    return values[attributes.function.result]


def _apply(spelt: Mapping[str, Callable[..., Node]], op: ScalarOp, *operands: Node) -> Node:
    other = spelt.get(op.name)
    if other is not None:
        return other(*operands)
    if op is conversion(operands[0].dtype):
        return operands[0]
    return map_scalar(op, *operands)


def scalar(name: str, *operands: Node) -> Node:
    return map_scalar(scalar_op_named(name), *operands)


def _truncated(x: Node) -> Node:
    below = scalar("less", x, splat(0, x.dtype, x.shape))
    return scalar("where", below, scalar("ceil", x), scalar("floor", x))


SPELT: Mapping[str, Callable[..., Node]] = {
    "exp2": lambda x: scalar("pow", splat(2, x.dtype, x.shape), x),
    "isnan": lambda x: scalar("not_equal", x, x),
    "square": lambda x: scalar("multiply", x, x),
    "trunc": _truncated,
}
"""Scalar operations that `xla_hlo` lacks and others equal."""

REWRITES: Mapping[str, Rewrite] = {
    "contract": _contract,
    "map": by_operation(SPELT),
    "reduce": _reduce,
    "view": _view,
}

"""Regions: what makes one well-formed, and how Python functions of nodes become regions.

A region is closed. What a Python function uses of the values around it becomes an operand of the node that carries the
region, and a parameter of the region: a capture.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tcp_eqsat.errors import TypeMismatch
from tcp_eqsat.lang.dims import equal
from tcp_eqsat.lang.ops.attributes import ParameterAttributes
from tcp_eqsat.lang.ops.builders import parameter
from tcp_eqsat.lang.program import Node, Region, recording, walk
from tcp_eqsat.lang.types import TensorType, TupleType, Type


def same_type(x: Type, y: Type) -> bool:
    """Whether two types are of one dtype and provably equal sizes."""
    if isinstance(x, TupleType) or isinstance(y, TupleType):
        return x == y
    return x.dtype == y.dtype and x.rank == y.rank and all(map(equal, x.shape, y.shape))


def type_of_results(types: Sequence[TensorType]) -> Type:
    """The type of a node with these results: a tuple where there are several."""
    return types[0] if len(types) == 1 else TupleType(tuple(types))


def check_region(what: str, region: Region) -> None:
    """Raises TypeMismatch where a body is not closed, its parameters are not numbered in order, or it has no result."""
    if not region.results:
        raise TypeMismatch(f"{what} requires a result")
    for number, x in enumerate(region.results):
        if not isinstance(x.type, TensorType):
            raise TypeMismatch(f"{what} requires tensors as results, result {number} is {x.type}")
    for index, x in enumerate(region.parameters):
        if not isinstance(x.attributes, ParameterAttributes) or x.attributes.index != index:
            found = x.op.name if x.op.name != "parameter" else f"parameter {x.attributes.index} at {index}"
            raise TypeMismatch(f"{what} requires parameters 0, 1, ..., got {found}")
    own = set(region.parameters)
    for node in walk(region.results):
        if isinstance(node.attributes, ParameterAttributes) and node not in own:
            raise TypeMismatch(
                f"{what} requires a closed body, which reads parameter {node.attributes.name} of the function around "
                "it")
    if len({x.attributes.name for x in region.parameters}) != len(region.parameters):
        raise TypeMismatch(f"{what} requires parameters of different names")


def check_parameters(what: str, region: Region, required: Sequence[TensorType]) -> None:
    """Raises TypeMismatch for an ill-formed region and for parameters of other types than `required`."""
    check_region(what, region)
    found = tuple(x.type for x in region.parameters)
    if len(found) != len(required) or not all(map(same_type, found, required)):
        shown = (f"({', '.join(map(str, types))})" for types in (required, found))
        raise TypeMismatch("{} requires parameters {}, got {}".format(what, *shown))


# From Python functions to regions

_fresh = itertools.count()


def placeholder(type_: TensorType, index: int = 0) -> Node:
    """A parameter that is no other one, to be replaced."""
    return parameter(f"placeholder {next(_fresh)}", index, type_)


@dataclass(frozen=True)
class Body:
    """A body as a Python function left it: over placeholders of its own and values around it.

    made    the nodes that the function made, which stay inside; None: whatever does not depend on the placeholders is
            computed once, around the body
    """

    placeholders: tuple[Node, ...]
    results: tuple[Node, ...]
    made: frozenset[Node] | None


def trace_body(function: Callable[..., Sequence[Node]], types: Sequence[TensorType], *, keep: bool) -> Body:
    """The body that a function of nodes computes on parameters of these types.

    keep    what the function makes stays inside, whether it depends on the parameters or not
    """
    placeholders = tuple(placeholder(t, i) for i, t in enumerate(types))
    if not keep:
        return Body(placeholders, tuple(function(*placeholders)), None)
    with recording() as made:
        results = tuple(function(*placeholders))
    return Body(placeholders, results, frozenset(made))


def close_bodies(bodies: Sequence[Body], names: Sequence[str]) -> tuple[tuple[Region, ...], tuple[Node, ...]]:
    """The bodies as regions, and what they capture.

    The parameters of each region are its own, called `names`, then every capture of all bodies, called c0, c1, ...
    """
    inner = [_inside(body) for body in bodies]
    captures = tuple(dict.fromkeys(x for _, captured in inner for x in captured))
    offset = len(names)
    outer = tuple(parameter(f"c{i}", offset + i, x.tensor_type) for i, x in enumerate(captures))
    regions = []
    for body, (nodes, _) in zip(bodies, inner, strict=True):
        own = tuple(parameter(name, i, x.tensor_type)
                    for i, (name, x) in enumerate(zip(names, body.placeholders, strict=True)))
        values = dict(zip((*captures, *body.placeholders), (*outer, *own), strict=True))
        for node in nodes:
            values[node] = Node.make(node.op, tuple(values[x] for x in node.operands), node.attributes)
        regions.append(Region((*own, *outer), tuple(values[x] for x in body.results)))
    return tuple(regions), captures


def _inside(body: Body) -> tuple[list[Node], list[Node]]:
    """The nodes that are computed inside of a body, operands before users, and those that it captures."""
    order = list(walk(body.results))
    own = set(body.placeholders)
    dependent = set(own)
    inner: set[Node] = set()
    for node in order:
        if any(x in dependent for x in node.operands):
            dependent.add(node)
        if node not in own and (node in dependent or _stays(node, inner, body.made)):
            inner.add(node)
    needed = set(body.results)
    for node in reversed(order):
        if node in needed and node in inner:
            needed.update(node.operands)
    return ([x for x in order if x in needed and x in inner],
            [x for x in order if x in needed and x not in inner and x not in own])


def _stays(node: Node, inner: set[Node], made: frozenset[Node] | None) -> bool:
    """Whether a node that does not depend on a body's parameters is computed inside all the same.

    Constants, ramps and views are: they cost nothing there.
    """
    if node.op.name == "parameter":
        return False
    if node.op.name == "project":
        return node.operands[0] in inner
    return node.op.arity == 0 or node.op.name == "view" or (made is not None and node in made)

"""Loops hand on only what changes: state that a body gives back as it got it becomes a capture.

Front ends put all that a loop uses into its state. Code generation copies state from turn to turn, captures stay where
they are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from tcp_eqsat.lang.op import map_regions, regions_of
from tcp_eqsat.lang.ops.attributes import ScanAttributes, WhileAttributes
from tcp_eqsat.lang.ops.builders import parameter, results_of
from tcp_eqsat.lang.ops.structure import inline, project_op, tuple_of, tuple_op
from tcp_eqsat.lang.program import Function, Node, Region, walk
from tcp_eqsat.lang.types import TupleType


def capture_unchanged(function: Function) -> Function:
    """The function, with unchanged state of its loops, nested ones included, as captures."""
    if not any(regions_of(node.attributes) for node in function.nodes()):
        return function
    values = _rebuilt((*function.parameters, *function.results))
    return dataclasses.replace(
        function, results=tuple(values[x] for x in function.results),
        names=_carried(function.names, values), locations=_carried(function.locations, values))


def _carried(table: Mapping[Node, object], values: Mapping[Node, Node]) -> dict:
    return {values[node]: entry for node, entry in table.items() if node in values}


def _rebuilt(roots: Sequence[Node]) -> dict[Node, Node]:
    values: dict[Node, Node] = {}
    for node in walk(roots):
        operands = tuple(values[x] for x in node.operands)
        if node.op is project_op and operands[0].op is tuple_op:
            values[node] = operands[0].operands[node.attributes.index]
            continue
        attributes = map_regions(node.attributes, _in_region)
        new = node if operands == node.operands and attributes == node.attributes else Node.make(
            node.op, operands, attributes)
        values[node] = _captured(new)
    return values


def _in_region(region: Region) -> Region:
    values = _rebuilt((*region.parameters, *region.results))
    return Region(region.parameters, tuple(values[x] for x in region.results))


def _captured(node: Node) -> Node:
    """A loop as one whose unchanged state is captured; other nodes as they are."""
    match node.attributes:
        case WhileAttributes(body=body, count=count):
            state, sequences = count, 0
        case ScanAttributes(body=body, carries=carries, sequences=sequences):
            state = carries
        case _:
            return node
    kept = [i for i in range(state) if body.results[i] is body.parameters[i]]
    if not kept or len(kept) == len(body.results):
        return node
    changing = [i for i in range(state) if i not in kept]
    first = state + sequences
    order = [*changing, *range(state, first), *kept, *range(first, len(node.operands))]
    results = [i for i in range(len(body.results)) if i not in kept]
    operands = tuple(node.operands[i] for i in order)
    attributes = map_regions(node.attributes, lambda region: _reordered(
        region, order, results if region is body else range(len(region.results))))
    fields = {"count": len(changing)} if isinstance(node.attributes, WhileAttributes) else {"carries": len(changing)}
    made = iter(results_of(Node.make(node.op, operands, dataclasses.replace(attributes, **fields))))
    whole = [node.operands[i] if i in kept else next(made) for i in range(len(body.results))]
    assert isinstance(node.type, TupleType), node.type
    return tuple_of(*whole)


def _reordered(region: Region, order: Sequence[int], results: Sequence[int]) -> Region:
    """The region with its parameters in another order and some of its results."""
    old = region.parameters
    parameters = tuple(parameter(old[i].attributes.name, n, old[i].tensor_type) for n, i in enumerate(order))
    places = dict(zip(order, parameters, strict=True))
    found = inline(region, tuple(places[i] for i in range(len(old))))
    return Region(parameters, tuple(found[i] for i in results))

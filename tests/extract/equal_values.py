"""E-graph views made by hand: a program, and values declared equal to some of its own."""

from __future__ import annotations

from collections.abc import Sequence

from tcp_eqsat.egraph.view import EGraphView, ENode, program_view
from tcp_eqsat.lang.ops.structure import expand
from tcp_eqsat.lang.program import Function, Node, walk


def view_of(function: Function, equal: Sequence[tuple[Node, Node]] = ()) -> EGraphView:
    """The view of a function in which every pair of `equal` is one class."""
    base = program_view(function)
    classes = [list(nodes) for nodes in base.classes]
    types = list(base.types)
    expanded = expand((*function.parameters, *function.results))
    numbers: dict[Node, int] = {node: base.original[node] for node in expanded if node in base.original}
    for known, other in equal:
        for node in walk((known, other)):
            if node in numbers:
                continue
            enode = ENode(node.op, node.attributes, tuple(numbers[x] for x in node.operands))
            if node is other:
                numbers[node] = numbers[known]
                classes[numbers[known]].append(enode)
            else:
                numbers[node] = len(classes)
                classes.append([enode])
                types.append(node.type)
    return EGraphView(tuple(map(tuple, classes)), tuple(types), base.roots, dict(numbers))

"""An immutable picture of an e-graph in the program's own terms: what extraction reads. Knows nothing of egglog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tcp_eqsat.lang.op import Op
from tcp_eqsat.lang.ops.structure import expand
from tcp_eqsat.lang.program import Function, Node, walk
from tcp_eqsat.lang.types import Type


@dataclass(frozen=True, slots=True)
class ENode:
    """One operation on classes; the operations and attributes of programs. A `map` is one scalar operation."""

    op: Op
    attributes: Any
    operands: tuple[int, ...]


@dataclass(frozen=True)
class EGraphView:
    """Classes of equal values.

    The numbering is the same in every run, and every class has an e-node whose operands all have smaller numbers.

    classes   the e-nodes of each class, in a fixed order; at least one; none is an operand of itself
    types     the type of each class
    roots     the class of each result of the function
    original  the class of each value of the function (values with several results excepted)
    """

    classes: tuple[tuple[ENode, ...], ...]
    types: tuple[Type, ...]
    roots: tuple[int, ...]
    original: Mapping[Node, int]

    @property
    def size(self) -> int:
        """The number of e-nodes."""
        return sum(map(len, self.classes))


def program_view(function: Function) -> EGraphView:
    """The function itself: every value a class of one e-node. Nothing is rewritten, maps keep their functions."""
    expanded = expand((*function.parameters, *function.results))
    nodes = list(walk(expanded[x] for x in (*function.parameters, *function.results)))
    numbers = {node: n for n, node in enumerate(nodes)}
    return EGraphView(
        tuple((ENode(x.op, x.attributes, tuple(numbers[y] for y in x.operands)),) for x in nodes),
        tuple(x.type for x in nodes),
        tuple(numbers[expanded[x]] for x in function.results),
        {node: numbers[new] for node, new in expanded.items() if new in numbers})

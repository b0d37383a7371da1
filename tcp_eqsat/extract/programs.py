"""Between choices of e-nodes and programs: the input as a choice, a choice as a program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np

from tcp_eqsat.egraph.view import ENode
from tcp_eqsat.extract.selection import Selection
from tcp_eqsat.extract.terms import GIVEN, Terms
from tcp_eqsat.lang.op import Op, map_regions
from tcp_eqsat.lang.ops.attributes import ConstantAttributes, MapAttributes, ViewAttributes
from tcp_eqsat.lang.ops.elementwise import map_op
from tcp_eqsat.lang.ops.movement import view_op
from tcp_eqsat.lang.ops.source import constant_op
from tcp_eqsat.lang.ops.structure import expand
from tcp_eqsat.lang.program import Function, Node, TensorData, walk
from tcp_eqsat.lang.scalar import ScalarApply, ScalarExpr, ScalarLiteral, ScalarParameter, function_of
from tcp_eqsat.lang.types import Shape

T = TypeVar("T")


def original_choice(terms: Terms, function: Function, fallback: list[int]) -> list[int]:
    """The e-nodes that the input program is made of; `fallback` elsewhere.

    A class that several values of the input share keeps the first of them, so that there are no cycles among them.
    """
    finder = _Finder(terms, list(fallback))
    expanded = expand(function.results)
    classes: dict[Node, int | None] = {}
    for node in walk(expanded[x] for x in function.results):
        operands = [classes[x] for x in node.operands]
        if node.op is map_op:
            classes[node] = finder.map(node, operands)
        elif node.op is constant_op and node.attributes.data.is_splat and node.shape:
            classes[node] = finder.number(node.attributes.data.array.reshape(-1)[0], node.shape)
        else:
            classes[node] = finder.find(node.op, node.attributes, operands)
    return finder.choice


class _Finder:
    """Classes by their e-nodes."""

    def __init__(self, terms: Terms, choice: list[int]) -> None:
        self.choice = choice
        self._terms = terms
        self._numbers: dict[ENode, tuple[int, int]] = {}
        for c, candidates in enumerate(terms.terms):
            for index, term in candidates.items():
                self._numbers.setdefault(term.node, (c, index))
        self._chosen: set[int] = set()

    def find(self, op: Op, attributes: object, operands: list[int | None]) -> int | None:
        """The class of an e-node, which is chosen if the class has none yet; None where there is no such e-node."""
        found = self._numbers.get(ENode(op, attributes, tuple(x for x in operands if x is not None)))
        if found is None or None in operands:
            return None
        c, index = found
        if c not in self._chosen:
            self._chosen.add(c)
            self.choice[c] = index
        return c

    def number(self, value: np.generic, shape: Shape) -> int | None:
        """The class of one number at every index."""
        scalar = self.find(constant_op, ConstantAttributes(TensorData(np.asarray(value))), [])
        return self.find(view_op, ViewAttributes((), shape), [scalar]) if shape else scalar

    def map(self, node: Node, operands: list[int | None]) -> int | None:
        """The class of a scalar function at every index: as one e-node, or taken apart."""
        whole = self.find(map_op, node.attributes, operands)
        if whole is not None:
            return whole
        known: dict[ScalarExpr, int | None] = {}
        for expr in node.attributes.function.walk():
            match expr:
                case ScalarParameter():
                    known[expr] = operands[expr.index]
                case ScalarLiteral():
                    known[expr] = self.number(expr.value, node.shape)
                case ScalarApply(op, arguments):
                    single = MapAttributes(function_of(op, *(x.dtype for x in arguments)))
                    known[expr] = self.find(map_op, single, [known[x] for x in arguments])
        return known[node.attributes.function.result]


def chosen_function(selection: Selection, function: Function) -> Function:
    """The program of a selection, with the parameters, names and locations of the input."""
    terms = selection.terms
    values: dict[int, Node] = {}
    for c in selection.reachable():
        if c in terms.constants.choice and selection.form(c) in GIVEN:
            values[c] = terms.constants.node(c)
        else:
            term = selection.term(c)
            better = {body.original: body.region for body in term.bodies}
            attributes = map_regions(term.node.attributes, better.__getitem__) if better else term.node.attributes
            values[c] = Node.make(term.node.op, tuple(values[x] for x in term.operands), attributes)
    results = tuple(values[root] for root in terms.view.roots)
    return Function(
        function.name, function.parameters, results, _carried(function.names, terms, values),
        _carried(function.locations, terms, values), function.guards)


def _carried(known: Mapping[Node, T], terms: Terms, values: Mapping[int, Node]) -> dict[Node, T]:
    """What is known of values of the input, for the values that took their places."""
    found: dict[Node, T] = {}
    for node, c in terms.view.original.items():
        if node in known and c in values:
            found.setdefault(values[c], known[node])
    return found

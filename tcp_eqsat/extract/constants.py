"""Values that need no kernel: numbers that stand in code, and constants that are computed at compile time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tcp_eqsat.egraph.view import EGraphView, ENode
from tcp_eqsat.lang.dims import Size, product
from tcp_eqsat.lang.op import IN_REGIONS, map_attribute_sizes
from tcp_eqsat.lang.ops.elementwise import map_op
from tcp_eqsat.lang.ops.movement import reshape_op, slice_op, view_op
from tcp_eqsat.lang.ops.source import constant_op, iota_op, parameter_op, size_op
from tcp_eqsat.lang.ops.windows import reverse_op, windows_op
from tcp_eqsat.lang.program import Node, TensorData
from tcp_eqsat.lang.reference import evaluate_nodes
from tcp_eqsat.lang.scalar import ScalarLiteral, literal
from tcp_eqsat.lang.types import TensorType, Type

GROWTH = 2
"""A constant is computed at compile time if it has at most this many times the bytes it is made from..."""
ALWAYS = 4096
"""... and this many bytes more."""

_INDEXED = (view_op, slice_op, reverse_op, windows_op, iota_op)


@dataclass(frozen=True)
class Constants:
    """What is known when the program is compiled.

    literals  classes with one number at every index, by class
    choice    for every class known at compile time (numbers included): the e-node that computes it
    buffers   the known classes that are held in memory; other known classes are read from these by index
    """

    literals: dict[int, ScalarLiteral]
    choice: dict[int, int]
    buffers: frozenset[int]
    _view: EGraphView = field(repr=False)
    _nodes: dict[int, Node] = field(default_factory=dict, repr=False)

    def node(self, found: int) -> Node:
        """The value of a class known at compile time, as a program."""
        pending = [found]
        while pending:
            current = pending[-1]
            enode = self._view.classes[current][self.choice[current]]
            missing = [x for x in enode.operands if x not in self._nodes]
            if current not in self._nodes and missing:
                pending.extend(missing)
                continue
            pending.pop()
            self._nodes[current] = Node.make(
                enode.op, tuple(self._nodes[x] for x in enode.operands), enode.attributes)
        return self._nodes[found]

    def data(self, found: int) -> TensorData:
        """The value of a class that is known at compile time."""
        node = self.node(found)
        return node.attributes.data if node.op is constant_op else TensorData(evaluate_nodes([node], {}, {})[node])


def find_constants(view: EGraphView) -> Constants:
    """The classes of a view that are known at compile time, each by an e-node of least depth."""
    literals: dict[int, ScalarLiteral] = {}
    choice: dict[int, int] = {}
    sources: dict[int, int] = {}
    buffers: set[int] = set()
    pending = [c for c, nodes in enumerate(view.classes)
               if isinstance(view.types[c], TensorType) and not any(n.op is parameter_op for n in nodes)]
    while True:
        found: dict[int, tuple[int, ScalarLiteral | None, int]] = {}
        for c in pending:
            for index, node in enumerate(view.classes[c]):
                if all(x in choice for x in node.operands):
                    number = _literal(view, c, node, literals)
                    source = _source(view, c, node, sources, number is not None)
                    if source is not None:
                        found[c] = (index, number, source)
                        break
        if not found:
            return Constants(literals, choice, frozenset(buffers), view)
        for c, (index, number, source) in found.items():
            choice[c], sources[c] = index, source
            if number is not None:
                literals[c] = number
            elif view.classes[c][index].op not in _INDEXED:
                buffers.add(c)
        pending = [c for c in pending if c not in found]


def _literal(view: EGraphView, found: int, node: ENode, literals: dict[int, ScalarLiteral]) -> ScalarLiteral | None:
    dtype = _tensor(view.types[found]).dtype
    if node.op is constant_op:
        data = node.attributes.data
        return literal(data.array.reshape(-1)[0], dtype) if data.is_splat else None
    if node.op is size_op and type(node.attributes.size) is int:
        return literal(node.attributes.size, dtype)
    operands = [literals.get(x) for x in node.operands]
    if not operands or any(x is None for x in operands):
        return None
    if node.op in (view_op, slice_op, reshape_op, reverse_op):
        return operands[0]
    if node.op is map_op:
        arrays = [np.asarray(x.value) for x in operands if x is not None]
        return literal(node.attributes.function.evaluate(*arrays)[()], dtype)
    return None


def _source(view: EGraphView, found: int, node: ENode, sources: dict[int, int], is_literal: bool) -> int | None:
    """The bytes of the constants that the node is made from, or None where it must not be computed now."""
    own = _tensor(view.types[found])
    if is_literal:
        return own.dtype.bytes
    if node.op.expand is not None or node.op.pointful is IN_REGIONS:  # which may run for long
        return None
    if not all(_static(view.types[x]) for x in (found, *node.operands)) or not all(
            type(size) is int for size in attribute_sizes(node.attributes)):
        return None
    if node.op is constant_op:
        return _bytes(own)
    source = sum(sources[x] for x in set(node.operands))
    return source if node.op in _INDEXED or _bytes(own) <= GROWTH * source + ALWAYS else None


def attribute_sizes(attributes: Any) -> list[Size]:
    """Every size in the attributes of an operation."""
    sizes: list[Size] = []

    def collect(size: Size) -> Size:
        sizes.append(size)
        return size

    map_attribute_sizes(attributes, collect)
    return sizes


def _tensor(found: Type) -> TensorType:
    assert isinstance(found, TensorType), found
    return found


def _static(found: Type) -> bool:
    return isinstance(found, TensorType) and all(type(size) is int for size in found.shape)


def _bytes(found: TensorType) -> int:
    size = product(found.shape)
    assert isinstance(size, int), size
    return size * found.dtype.bytes

"""Integers that are known when a program is read."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tcp_eqsat.lang.dims import Size
from tcp_eqsat.lang.ops.structure import expand
from tcp_eqsat.lang.program import Node, walk
from tcp_eqsat.lang.reference import evaluate_nodes
from tcp_eqsat.lang.types import TensorType

_MOST_NODES = 200
_MOST_ELEMENTS = 4096


def known_array(x: Node) -> np.ndarray | None:
    """The value of a small node that depends on no parameter, else None."""
    for number, node in enumerate(walk((x,))):
        type_ = node.type
        if node.op.name in ("parameter", "size") or number > _MOST_NODES or not isinstance(type_, TensorType):
            return None
        count = 1
        for size in type_.shape:
            if not isinstance(size, int):
                return None
            count *= size
        if count > _MOST_ELEMENTS:
            return None
    root = expand((x,))[x]
    return np.asarray(evaluate_nodes((root,), {}, {})[root])


def known_integers(x: Node) -> tuple[int, ...] | None:
    """The elements in order of a small tensor of integers that depends on no parameter, else None."""
    found = known_array(x) if x.dtype.is_integer else None
    return None if found is None else tuple(map(int, found.reshape(-1).tolist()))


def known_sizes(x: Node) -> tuple[Size, ...] | None:
    """The elements in order of a tensor of integers that is put together from sizes and numbers, else None."""
    found: dict[Node, tuple[Size, ...] | None] = {}
    for number, node in enumerate(walk((x,))):
        if number > _MOST_NODES:
            return None
        found[node] = _sizes_of(node, found)
    return found[x]


def _sizes_of(node: Node, found: Mapping[Node, tuple[Size, ...] | None]) -> tuple[Size, ...] | None:
    name = node.op.name
    if name == "size":
        return (node.attributes.size,)
    if name == "constant":
        return known_integers(node)
    operands = [found[x] for x in node.operands]
    known = [each for each in operands if each is not None]
    if len(known) != len(operands) or not known:
        return None
    if name == "reshape" or (name == "map" and _is_conversion(node)):
        return known[0]
    if name == "concatenate" and node.attributes.axis == 0:
        return tuple(size for each in known for size in each)
    return known_integers(node)


def _is_conversion(node: Node) -> bool:
    op = node.attributes.function.single_op
    return op is not None and op.name.startswith("astype_") and node.dtype.is_integer

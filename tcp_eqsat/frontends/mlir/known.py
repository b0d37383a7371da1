"""Integers that are known when a program is read."""

from __future__ import annotations

import numpy as np

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
        if node.op.name == "parameter" or number > _MOST_NODES or not isinstance(type_, TensorType):
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

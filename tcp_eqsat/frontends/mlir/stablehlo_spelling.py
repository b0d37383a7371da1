"""Scalar operations and nodes that StableHLO lacks, as others that it has."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from tcp_eqsat.frontends.mlir.decompose import REWRITES, SPELT, Rewrite, by_operation, scalar
from tcp_eqsat.lang.ops.attributes import SearchSortedAttributes
from tcp_eqsat.lang.ops.builders import reduce_axes, splat, view
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.scalar import scalar_op_named
from tcp_eqsat.lang.types import I64, dtype_named


def _number(value: float, like: Node) -> Node:
    return splat(value, like.dtype, like.shape)


def _signbit(x: Node) -> Node:
    bits = scalar(f"bitcast_{dtype_named(f'i{x.dtype.bits}')}", x)
    return scalar("less", bits, _number(0, bits))


def _copysign(size: Node, sign: Node) -> Node:
    positive = scalar("abs", size)
    return scalar("where", _signbit(sign), scalar("negative", positive), positive)


def _hypot(x: Node, y: Node) -> Node:
    """The larger by the root of 1 + the square of the ratio, so that squares don't overflow."""
    a, b = scalar("abs", x), scalar("abs", y)
    large, small = scalar("maximum", a, b), scalar("minimum", a, b)
    zero = _number(0, x)
    safe = scalar("where", scalar("equal", large, zero), _number(1, x), large)
    ratio = scalar("divide", small, safe)
    root = scalar("sqrt", scalar("add", _number(1, x), scalar("multiply", ratio, ratio)))
    infinite = scalar("equal", large, _number(math.inf, x))
    return scalar("where", infinite, large, scalar("multiply", large, root))


def _logarithm(base: float) -> Callable[[Node], Node]:
    return lambda x: scalar("divide", scalar("log", x), _number(math.log(base), x))


SPELLINGS: Mapping[str, Callable[..., Node]] = {
    **SPELT,
    "conj": lambda x: scalar("complex", scalar("real", x), scalar("negative", scalar("imag", x))),
    "copysign": _copysign,
    "fma": lambda x, y, z: scalar("add", scalar("multiply", x, y), z),
    "hypot": _hypot,
    "isinf": lambda x: scalar("equal", scalar("abs", x), _number(math.inf, x)),
    "log10": _logarithm(10.0),
    "log2": _logarithm(2.0),
    "signbit": _signbit,
}


def _search_sorted(attributes: SearchSortedAttributes, operands: tuple[Node, ...]) -> Node:
    """How many elements come before each that is wanted."""
    ordered, wanted = operands
    rank = len(wanted.shape)
    shape = (*wanted.shape, *ordered.shape)
    x, y = view(ordered, (rank,), shape), view(wanted, tuple(range(rank)), shape)
    before = scalar("less_equal" if attributes.right else "less", x, y)
    return reduce_axes(scalar_op_named("add"), scalar(f"astype_{I64}", before), (rank,))


STABLEHLO_REWRITES: Mapping[str, Rewrite] = {
    **REWRITES,
    "map": by_operation(SPELLINGS),
    "search_sorted": _search_sorted,
}

"""How far a program's results move when every value in between is rounded otherwise.

Rewrites of real arithmetic may round differently everywhere. What that can do to a result depends on the program and
its inputs; `disturbances` measures it, so that a test neither fails on a sum that cancels nor lets a wrong rule pass.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tcp_eqsat.lang.binding import bind_symbols
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.ops.structure import expand
from tcp_eqsat.lang.program import Function, Node, walk
from tcp_eqsat.lang.reference import evaluate_nodes
from tcp_eqsat.lang.scalar import ScalarApply, ScalarExpr, ScalarLiteral, function_of

RUNS = 6
ROUNDINGS = 8
"""Each value is changed by up to so many units in its last place, in each of the runs."""
UNSTABLE = 1e-2
"""A result that moves by this share of its magnitude says nothing about a rewrite."""


def single_operations(roots: Sequence[Node]) -> dict[Node, Node]:
    """Everything the roots depend on, with maps of one scalar operation each."""
    known: dict[Node, Node] = {}
    for node in walk(tuple(roots)):
        operands = tuple(known[x] for x in node.operands)
        known[node] = _split(node, operands) if node.op.name == "map" else Node.make(
            node.op, operands, node.attributes)
    return known


def _split(node: Node, operands: tuple[Node, ...]) -> Node:
    known: dict[ScalarExpr, Node] = {}
    for expr in node.attributes.function.walk():
        match expr:
            case ScalarApply():
                arguments = [known[x] for x in expr.arguments]
                known[expr] = builders.map_function(function_of(expr.op, *(x.dtype for x in arguments)), *arguments)
            case ScalarLiteral():
                known[expr] = builders.splat(expr.value, expr.dtype, node.shape)
            case _:
                known[expr] = operands[expr.index]
    return known[node.attributes.function.result]


def disturbances(function: Function, arrays: Sequence[np.ndarray]) -> list[np.ndarray | None] | None:
    """For each result how far each element moves; None for a result that a rounding can change altogether.

    None in place of the list where a value in between is infinite, or so large or small that another order of
    operations may overflow or underflow.
    """
    expanded = expand(function.results)
    known = single_operations([expanded[x] for x in function.results])
    roots = [known[expanded[x]] for x in function.results]
    values = dict(zip(function.parameters, arrays, strict=True))
    bindings = bind_symbols(function.parameter_names, [x.tensor_type for x in function.parameters], arrays)
    undisturbed = evaluate_nodes(roots, values, bindings)
    if not all(_is_moderate(x) for x in undisturbed.values()):
        return None
    moved: list[np.ndarray | None] = [np.zeros(undisturbed[x].shape) for x in roots]
    for run in range(RUNS):
        generator = np.random.default_rng(run)
        found: dict[Node, np.ndarray] = {}
        for node in walk(tuple(roots)):
            exact = values[node] if node in values else evaluate_nodes((node,), found, bindings)[node]
            found[node] = _disturbed(exact, generator)
        for n, root in enumerate(roots):
            change = _change(found[root], undisturbed[root])
            before = moved[n]
            moved[n] = None if change is None or before is None else np.maximum(before, change)
    return moved


def _is_moderate(array: np.ndarray) -> bool:
    if array.dtype.kind != "f":
        return True
    limit = float(np.finfo(array.dtype).max) ** 0.25
    size = np.abs(array[~np.isnan(array) & (array != 0)])
    return bool(((size < limit) & (size > 1 / limit)).all())


def _disturbed(array: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    if array.dtype.kind != "f":
        return array
    noise = generator.uniform(-ROUNDINGS, ROUNDINGS, array.shape) * np.finfo(array.dtype).eps
    return np.asarray(array * (1 + noise), array.dtype)


def _change(found: np.ndarray, expected: np.ndarray) -> np.ndarray | None:
    if expected.dtype.kind != "f":
        return np.zeros(expected.shape) if np.array_equal(found, expected) else None
    if not np.array_equal(np.isnan(found), np.isnan(expected)):
        return None
    change = np.nan_to_num(np.abs(found.astype(np.float64) - expected))
    size = np.nan_to_num(np.abs(expected.astype(np.float64)))
    typical = float(np.median(size)) if size.size else 0.0
    return None if (change > UNSTABLE * np.maximum(size, typical)).any() else change

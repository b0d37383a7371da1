"""Derivatives of functions in a direction, by forward accumulation over the operation table.

An operation's derivative is linear in the cotangent; its transpose takes tangents to the tangent of the result. Regions
run with tangents beside their values.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tcp_eqsat.lang.grad import Wrt, accumulate, more_parameters, targets_of
from tcp_eqsat.lang.grad_control import has_cotangent
from tcp_eqsat.lang.op import IN_REGIONS
from tcp_eqsat.lang.ops.attributes import ScanAttributes, WhileAttributes
from tcp_eqsat.lang.ops.builders import map_used, results_of, splat
from tcp_eqsat.lang.ops.control import case, case_op, if_, if_op, scan, scan_op, split_scan, while_, while_op
from tcp_eqsat.lang.ops.elementwise import map_op, scalar_vjp
from tcp_eqsat.lang.ops.regions import placeholder
from tcp_eqsat.lang.ops.structure import expand, inline, project_op
from tcp_eqsat.lang.program import Function, Node, Region, result_types, walk
from tcp_eqsat.lang.scalar import (
    NOT_DIFFERENTIABLE,
    ScalarApply,
    ScalarExpr,
    ScalarFunction,
    ScalarParameter,
    apply,
)
from tcp_eqsat.lang.scalar import parameter as scalar_parameter
from tcp_eqsat.lang.types import TensorType, TupleType

Tangents = Sequence["Node | None"]
"""None: zero, or a dtype without derivatives."""


def jvp(function: Function, wrt: Wrt = None) -> Function:
    """The function's results, then the derivative of each floating-point one in a direction.

    The parameters are the function's, then one for the tangent of each of `wrt`, of its type. `wrt` names
    floating-point parameters, one or several; None means all of them; the others are held still. Errors are those
    of `grad`; a while needs no bound.
    """
    targets = targets_of(function, wrt)
    directions = more_parameters(function, [(f"tangent_{x.attributes.name}", x.tensor_type) for x in targets])
    pushed = push_forward(function.results, dict(zip(targets, directions, strict=True)))
    tangents = [zeros(x) if t is None else t for x, t in zip(function.results, pushed.tangents, strict=True)
                if has_cotangent(x.type)]
    made = Function(f"{function.name}_jvp", (*function.parameters, *directions), (*pushed.results, *tangents),
                    guards=function.guards)
    kept = set(made.nodes())
    names = {new: name for x, name in function.names.items() if (new := pushed.values.get(x, x)) in kept}
    places = {new: place for x, place in function.locations.items() if (new := pushed.values.get(x, x)) in kept}
    return replace(made, names=names, locations=places)


def zeros(x: Node) -> Node:
    """Zeros of the type of a value."""
    return splat(0, x.dtype, x.shape)


@dataclass(frozen=True)
class Pushed:
    """Results and their tangents; `values` is what every node became: operations with regions now give both."""

    results: tuple[Node, ...]
    tangents: tuple[Node | None, ...]
    values: Mapping[Node, Node]


def push_forward(results: Iterable[Node], directions: Mapping[Node, Node | None]) -> Pushed:
    """The results and their tangents where `directions` are the tangents of some nodes."""
    results = tuple(results)
    expanded = expand(results)
    roots = tuple(expanded[x] for x in results)
    values: dict[Node, Node] = {}
    tangents: dict[Node, Node | None] = dict(directions)
    several: dict[Node, tuple[tuple[Node, ...], Tangents]] = {}
    for node in walk(roots):
        if node in tangents or (not node.operands and isinstance(node.type, TensorType)):
            values[node] = node
            continue
        if node.op is project_op:
            (items, moved), index = several[node.operands[0]], node.attributes.index
            values[node], tangents[node] = items[index], moved[index]
            continue
        operands = tuple(values[x] for x in node.operands)
        moves = [tangents.get(x) for x in node.operands]
        items, moved = _push_node(Node.make(node.op, operands, node.attributes), moves)
        if isinstance(node.type, TupleType):
            several[node] = items, moved
        else:
            values[node], tangents[node] = items[0], moved[0]
    changed = {x: values[y] for x, y in expanded.items() if y in values and values[y] is not y}
    made = tuple(values[x] for x in roots) if changed else results
    return Pushed(made, tuple(tangents.get(x) for x in roots), changed)


def _push_node(node: Node, tangents: Tangents) -> tuple[tuple[Node, ...], Tangents]:
    """The results of a node and their tangents."""
    if node.op.derivative is NOT_DIFFERENTIABLE or all(t is None for t in tangents):
        return results_of(node), [None] * len(result_types((node,)))
    if node.op.derivative is IN_REGIONS:
        return _RULES[node.op.name](node, tangents)
    if node.op is map_op:
        return (node,), [_push_map(node, tangents)]
    return results_of(node), _push_linear(node, tangents)


# One operation


def _push_linear(node: Node, tangents: Tangents) -> Tangents:
    """The transpose of the derivative, which is linear in the cotangents."""
    derivative = node.op.derivative
    assert callable(derivative), f"{node.op.name} must be expanded before differentiation"
    operands = tuple(placeholder(x.tensor_type) for x in node.operands)
    moves = [None if t is None else placeholder(t.tensor_type) for t in tangents]
    seeds = [placeholder(t) if has_cotangent(t) else None for t in result_types((node,))]
    parts = derivative(Node.make(node.op, operands, node.attributes),
                       tuple(seeds) if isinstance(node.type, TupleType) else seeds[0])
    pairs = [(part, t) for part, t in zip(parts, moves, strict=True) if part is not None and t is not None]
    own = [seed for seed in seeds if seed is not None]
    if not pairs:
        return [None] * len(seeds)
    transposed = accumulate([p for p, _ in pairs], [t for _, t in pairs], own)
    # No value of the cotangents changes the transpose; an intermediate form may mention them all the same.
    parameters = (*operands, *(t for t in moves if t is not None), *own)
    values = (*node.operands, *(t for t in tangents if t is not None), *map(zeros, own))
    found = dict(zip(own, inline(Region(parameters, transposed), values), strict=True))
    return [None if seed is None else found[seed] for seed in seeds]


def _push_map(node: Node, tangents: Tangents) -> Node | None:
    moving = tuple(i for i, t in enumerate(tangents) if t is not None)
    function = scalar_jvp(node.attributes.function, moving)
    moves = [t for t in tangents if t is not None]
    return None if function is None else map_used(function, *moves, *node.operands)


@functools.lru_cache(maxsize=4096)
def scalar_jvp(function: ScalarFunction, moving: tuple[int, ...]) -> ScalarFunction | None:
    """(tangents of the parameters in `moving`, *parameters) -> the tangent of the result, or None where it is zero."""
    count = len(moving)
    signature = (*(function.parameters[i] for i in moving), *function.parameters)
    values: dict[ScalarExpr, ScalarExpr] = {}
    tangents: dict[ScalarExpr, ScalarExpr] = {}
    for expr in function.walk():
        match expr:
            case ScalarParameter(index=index):
                values[expr] = scalar_parameter(count + index, expr.dtype)
                if index in moving:
                    tangents[expr] = scalar_parameter(moving.index(index), expr.dtype)
            case ScalarApply():
                values[expr] = apply(expr.op, *(values[x] for x in expr.arguments))
                tangent = _scalar_tangent(expr, values, [tangents.get(x) for x in expr.arguments])
                if tangent is not None:
                    tangents[expr] = tangent
            case _:
                values[expr] = expr
    result = tangents.get(function.result)
    return None if result is None else ScalarFunction(signature, result)


def _scalar_tangent(expr: ScalarApply, values: Mapping[ScalarExpr, ScalarExpr],
                    tangents: Sequence[ScalarExpr | None]) -> ScalarExpr | None:
    """The tangent of one operation: what its arguments contribute, added up."""
    derivative = expr.op.derivative
    if not callable(derivative) or not expr.dtype.is_differentiable or all(t is None for t in tangents):
        return None
    arguments = [values[x] for x in expr.arguments]
    if expr.op.name == "where" and None not in tangents[1:]:
        return apply(expr.op, arguments[0], *(t for t in tangents[1:] if t is not None))
    total: ScalarExpr | None = None
    for number, tangent in enumerate(tangents):
        if tangent is None:
            continue
        part = _scalar_part(expr, number, tangent, arguments)
        if part is not None:
            total = part if total is None else total + part
    return total


def _scalar_part(expr: ScalarApply, number: int, tangent: ScalarExpr, arguments: Sequence[ScalarExpr]
                 ) -> ScalarExpr | None:
    """What one argument contributes.

    Of real numbers within a dtype the derivative is a factor, which is its own transpose; any other is transposed.
    """
    derivative = expr.op.derivative
    assert callable(derivative)
    if tangent.dtype == expr.dtype and not expr.dtype.is_complex:
        return derivative(tangent, *arguments)[number]
    signature = (expr.dtype, *(x.dtype for x in arguments))
    seed, *own = (scalar_parameter(i, dtype) for i, dtype in enumerate(signature))
    linear = derivative(seed, *own)[number]
    transposed = None if linear is None else scalar_vjp(ScalarFunction(signature, linear))[0]
    return None if transposed is None else transposed.applied(
        {0: tangent} | dict(enumerate(arguments, 2)))


# Regions


def _pushed_region(region: Region, moving: Sequence[bool]) -> tuple[Region, Pushed]:
    """The region that takes tangents of the parameters in `moving` after its own, without results; and those."""
    directions = {p: placeholder(p.tensor_type) for p, moves in zip(region.parameters, moving, strict=True) if moves}
    pushed = push_forward(region.results, dict(directions))
    return Region((*region.parameters, *directions.values()), ()), pushed


def _push_branches(node: Node, tangents: Tangents) -> tuple[tuple[Node, ...], Tangents]:
    selector, *captures = node.operands
    moves = [t for t in tangents[1:] if t is not None]
    moving = [t is not None for t in tangents[1:]]
    branches = [_pushed_region(region, moving) for region in node.attributes.regions]
    count = len(branches[0][1].results)
    live = [i for i in range(count) if any(pushed.tangents[i] is not None for _, pushed in branches)]

    def branch(region: Region, pushed: Pushed) -> Callable[[], Sequence[Node]]:
        both = (*pushed.results, *(pushed.tangents[i] or zeros(pushed.results[i]) for i in live))
        return lambda: inline(Region(region.parameters, both), (*captures, *moves))

    functions = [branch(*each) for each in branches]
    found = if_(selector, *functions) if node.op is if_op else case(selector, functions)
    of_result = dict(zip(live, found[count:], strict=True))
    return found[:count], [of_result.get(i) for i in range(count)]


def _settled(body: Region, moving: Sequence[bool], count: int) -> tuple[list[bool], Region, Pushed]:
    """The body of a loop with tangents, where those of its first `count` parameters last from step to step."""
    settled = list(moving)
    while True:
        region, pushed = _pushed_region(body, settled)
        more = [moves or pushed.tangents[i] is not None for i, moves in enumerate(settled[:count])]
        if more == settled[:count]:
            return settled, region, pushed
        settled[:count] = more


def _push_while(node: Node, tangents: Tangents) -> tuple[tuple[Node, ...], Tangents]:
    attributes: WhileAttributes = node.attributes
    count = attributes.count
    state, captures = node.operands[:count], node.operands[count:]
    settled, region, pushed = _settled(attributes.body, [t is not None for t in tangents], count)
    live = [i for i in range(count) if settled[i]]
    outside = [t for t in tangents[count:] if t is not None]
    both = (*pushed.results, *(pushed.tangents[i] or zeros(pushed.results[i]) for i in live))

    def condition(*now: Node) -> Node:
        return inline(attributes.condition, (*now[:count], *captures))[0]

    def body(*now: Node) -> tuple[Node, ...]:
        return inline(Region(region.parameters, both), (*now[:count], *captures, *now[count:], *outside))

    found = while_(condition, body, (*state, *(tangents[i] or zeros(state[i]) for i in live)))
    of_result = dict(zip(live, found[count:], strict=True))
    return found[:count], [of_result.get(i) for i in range(count)]


def _push_scan(node: Node, tangents: Tangents) -> tuple[tuple[Node, ...], Tangents]:
    attributes: ScanAttributes = node.attributes
    count = attributes.carries
    carries, sequences, captures = split_scan(node.operands, attributes)
    of_carries, of_sequences, of_captures = split_scan(tangents, attributes)
    settled, region, pushed = _settled(attributes.body, [t is not None for t in tangents], count)
    live = [i for i in range(len(pushed.results)) if (settled[i] if i < count else pushed.tangents[i] is not None)]
    first = [i for i in live if i < count]
    moving_sequences = [t for t in of_sequences if t is not None]
    both = {i: pushed.tangents[i] or zeros(pushed.results[i]) for i in live}
    results = (*pushed.results[:count], *(both[i] for i in first),
               *pushed.results[count:], *(both[i] for i in live if i >= count))

    def body(*now: Node) -> tuple[Node, ...]:
        parts = iter(now)
        values = [[next(parts) for _ in group] for group in (carries, first, sequences, moving_sequences)]
        outside = [t for t in of_captures if t is not None]
        return inline(Region(region.parameters, results), (
            *values[0], *values[2], *captures, *values[1], *values[3], *outside))

    found = scan(body, (*carries, *(of_carries[i] or zeros(carries[i]) for i in first)),
                 (*sequences, *moving_sequences), attributes.length, attributes.reverse)
    start = count + len(first)
    stacked = len(pushed.results) - count
    of_result = dict(zip(live, (*found[count:start], *found[start + stacked:]), strict=True))
    return (*found[:count], *found[start: start + stacked]), [of_result.get(i) for i in range(len(pushed.results))]


_RULES: dict[str, Callable[[Node, Tangents], tuple[tuple[Node, ...], Tangents]]] = {
    if_op.name: _push_branches, case_op.name: _push_branches, while_op.name: _push_while, scan_op.name: _push_scan,
}

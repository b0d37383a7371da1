"""Functions over a batch: each operation by its batching rule, regions over batches of their parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tcp_eqsat.errors import ArgumentError
from tcp_eqsat.lang.batching import Value, batch_node, batched_type, spread
from tcp_eqsat.lang.dims import Dim, Size, symbol
from tcp_eqsat.lang.ops.attributes import ScanAttributes, WhileAttributes
from tcp_eqsat.lang.ops.builders import (
    broadcast_in_dim,
    map_scalar,
    parameter,
    reduce_axes,
    scalar_constant,
    transpose,
)
from tcp_eqsat.lang.ops.control import case, case_op, if_, if_op, scan, scan_op, split_scan, while_, while_op
from tcp_eqsat.lang.ops.regions import placeholder
from tcp_eqsat.lang.ops.structure import expand, inline, project_op
from tcp_eqsat.lang.program import Function, Node, Region, walk
from tcp_eqsat.lang.scalar import scalar_op_named
from tcp_eqsat.lang.types import TensorType

Axes = int | None | Sequence[int | None]


def vmap(function: Function, in_axes: Axes = 0, out_axes: Axes = 0, size: Size | str = "n") -> Function:
    """The function on a batch of each argument, giving a batch of each result.

    in_axes    the axis of each parameter that numbers the batch, or None: the same for the whole batch; one for all
    out_axes   that axis of each result; one for all. A result that is the same for the whole batch is repeated;
               None gives it once
    size       of the batch: a number, a size, or the name of a new symbol

    A condition that differs within the batch runs both branches and chooses; a loop runs until the last one is done.
    Raises ArgumentError for axes out of range, for none at all, and for a name that a size of the function has.
    """
    extent = _batch_size(function, size)
    places = _axes(function.name, "in_axes", in_axes, [len(x.shape) + 1 for x in function.parameters])
    if all(axis is None for axis in places):
        raise ArgumentError(f"vmap of {function.name} requires an axis for one parameter at least, got None for all")
    parameters = []
    given: dict[Node, Value] = {}
    for x, axis in zip(function.parameters, places, strict=True):
        type_ = x.tensor_type if axis is None else batched_type(x.tensor_type, extent, axis)
        made = parameter(x.attributes.name, x.attributes.index, type_)
        parameters.append(made)
        given[x] = Value(made, False) if axis is None else Value(_moved(made, axis, 0), True)
    values = batch(function.results, given, extent)
    out = _axes(function.name, "out_axes", out_axes, [len(x.shape) + 1 for x in function.results])
    results = tuple(_placed(function.name, values[x], axis, extent)
                    for x, axis in zip(function.results, out, strict=True))
    made_function = Function(f"{function.name}_vmap", tuple(parameters), results, guards=function.guards)
    kept = set(made_function.nodes())
    names = {values[x].node: name for x, name in function.names.items() if x in values and values[x].node in kept}
    places_of = {values[x].node: at for x, at in function.locations.items() if x in values and values[x].node in kept}
    return Function(made_function.name, made_function.parameters, results, names, places_of, function.guards)


def _batch_size(function: Function, size: Size | str) -> Size:
    if isinstance(size, str):
        if not size.isidentifier():
            raise ArgumentError(f"the size of a batch must be a number, a size or a name, got {size!r}")
        used = {each.name for each in function.symbols}
        if size in used:
            raise ArgumentError(f"{function.name} has a size {size!r} already: give the batch's another name")
        return symbol(size)
    if isinstance(size, bool) or not isinstance(size, (int, Dim)) or (isinstance(size, int) and size < 0):
        raise ArgumentError(f"the size of a batch must be a number, a size or a name, got {size!r}")
    return size


def _axes(name: str, what: str, axes: Axes, ranks: Sequence[int]) -> list[int | None]:
    """An axis or None for each of several values, counted from the front."""
    given = list(axes) if isinstance(axes, Sequence) else [axes] * len(ranks)
    if len(given) != len(ranks):
        raise ArgumentError(f"vmap of {name} requires {len(ranks)} {what}, got {len(given)}")
    found: list[int | None] = []
    for axis, rank in zip(given, ranks, strict=True):
        if axis is not None and (isinstance(axis, bool) or not isinstance(axis, int) or not -rank <= axis < rank):
            raise ArgumentError(f"vmap of {name} requires {what} in {-rank}..{rank - 1} or None, got {axis!r}")
        found.append(axis if axis is None or axis >= 0 else axis + rank)
    return found


def _moved(x: Node, axis: int, to: int) -> Node:
    """The value with one axis at another place."""
    order = [a for a in range(len(x.shape)) if a != axis]
    order.insert(to, axis)
    return transpose(x, tuple(order))


def _placed(name: str, value: Value, axis: int | None, size: Size) -> Node:
    if axis is not None:
        return _moved(spread(value, size), 0, axis)
    if value.batched:
        raise ArgumentError(f"vmap of {name} requires an axis in out_axes for a result that differs within the batch")
    return value.node


# Values


def batch(results: Iterable[Node], given: Mapping[Node, Value], size: Size) -> dict[Node, Value]:
    """The value of everything the results depend on, for a batch, where `given` are some of them."""
    results = tuple(results)
    expanded = expand(results)
    values: dict[Node, Value] = dict(given)
    several: dict[Node, Sequence[Value]] = {}
    for node in walk(expanded[x] for x in results):
        if node in values:
            continue
        if node.op is project_op:
            values[node] = several[node.operands[0]][node.attributes.index]
            continue
        operands = [values[x] for x in node.operands]
        rule = _REGION_RULES.get(node.op.name) if any(x.batched for x in operands) else None
        found = batch_node(node, operands, size) if rule is None else rule(node, operands, size)
        if isinstance(node.type, TensorType):
            values[node] = found[0]
        else:
            several[node] = found
    return values | {x: values[y] for x, y in expanded.items() if y in values}


# Regions


@dataclass(frozen=True)
class _Batched:
    """A region over batches: `parameters` in place of its own, and its results."""

    parameters: tuple[Node, ...]
    results: tuple[Value, ...]

    def run(self, operands: Sequence[Node], size: Size, spread_results: Sequence[bool]) -> tuple[Node, ...]:
        """The results on operands, with a batch axis where wished."""
        results = tuple(
            spread(x, size) if wide else x.node for x, wide in zip(self.results, spread_results, strict=True))
        return inline(Region(self.parameters, results), tuple(operands))


def _batched_region(region: Region, batched: Sequence[bool], size: Size) -> _Batched:
    given = {p: Value(placeholder(batched_type(p.tensor_type, size)), True) if wide else Value(p, False)
             for p, wide in zip(region.parameters, batched, strict=True)}
    values = batch(region.results, given, size)
    return _Batched(tuple(given[p].node for p in region.parameters), tuple(values[x] for x in region.results))


def _branches(node: Node, operands: Sequence[Value], size: Size) -> Sequence[Value]:
    """One branch where the selector is the same for the whole batch; else all of them, and a choice."""
    selector, *captures = operands
    regions = [_batched_region(region, [x.batched for x in captures], size) for region in node.attributes.regions]
    own = [x.node for x in captures]
    if not selector.batched:
        wide = [any(flags) for flags in zip(*([x.batched for x in r.results] for r in regions), strict=True)]
        functions = [_runner(region, own, size, wide) for region in regions]
        found = if_(selector.node, *functions) if node.op is if_op else case(selector.node, functions)
        return [Value(x, is_wide) for x, is_wide in zip(found, wide, strict=True)]
    everything = [region.run(own, size, [True] * len(region.results)) for region in regions]
    if node.op is if_op:
        conditions = [selector.node]
    else:
        conditions = [map_scalar(scalar_op_named("equal"), selector.node, _number(i, selector.node))
                      for i in range(len(regions) - 1)]
    chosen = list(everything[-1])
    for condition, results in zip(reversed(conditions), reversed(everything[:-1]), strict=True):
        chosen = [_choose(condition, x, y) for x, y in zip(results, chosen, strict=True)]
    return [Value(x, True) for x in chosen]


def _runner(region: _Batched, operands: Sequence[Node], size: Size, wide: Sequence[bool]
            ) -> Callable[[], Sequence[Node]]:
    return lambda: region.run(operands, size, wide)


def _number(value: int, like: Node) -> Node:
    return broadcast_in_dim(scalar_constant(value, like.dtype), like.shape, ())


def _choose(condition: Node, x: Node, y: Node) -> Node:
    """For each element of the batch, x or y."""
    return map_scalar(scalar_op_named("where"), broadcast_in_dim(condition, x.shape, (0,)), x, y)


def _settled(region: Region, batched: Sequence[bool], count: int, size: Size) -> tuple[list[bool], _Batched]:
    """The body of a loop where what its first `count` parameters are lasts from step to step."""
    wide = list(batched)
    while True:
        body = _batched_region(region, wide, size)
        more = [own or x.batched for own, x in zip(wide[:count], body.results, strict=False)]
        if more == wide[:count]:
            return wide, body
        wide[:count] = more


def _while(node: Node, operands: Sequence[Value], size: Size) -> Sequence[Value]:
    """Where the condition differs within the batch the loop runs as long as it holds for any element.

    The state of elements for which it does not hold stays. The condition is then part of the state.
    """
    a: WhileAttributes = node.attributes
    count = a.count
    wide = [x.batched for x in operands]
    while True:
        wide, body = _settled(a.body, wide, count, size)
        condition = _batched_region(a.condition, wide, size)
        changing = [x is not p for x, p in zip(a.body.results, a.body.parameters, strict=False)]
        more = [own or changes for own, changes in zip(wide[:count], changing, strict=True)]
        if not condition.results[0].batched or more == wide[:count]:
            break
        wide[:count] = more
    state = [spread(x, size) if is_wide else x.node for x, is_wide in zip(operands[:count], wide, strict=False)]
    captures = [x.node for x in operands[count:]]

    def holds(values: Sequence[Node]) -> Node:
        return condition.run((*values, *captures), size, [condition.results[0].batched])[0]

    def step(*now: Node) -> tuple[Node, ...]:
        return body.run((*now, *captures), size, wide[:count])

    if not condition.results[0].batched:
        found = while_(lambda *now: holds(now), step, state)
    else:
        def masked(running: Node, *now: Node) -> tuple[Node, ...]:
            after = [_choose(running, new, old) if is_wide else new
                     for new, old, is_wide in zip(step(*now), now, wide, strict=False)]
            return (holds(after), *after)

        anything = scalar_op_named("bitwise_or")
        found = while_(lambda running, *now: reduce_axes(anything, running, (0,)), masked, (holds(state), *state))[1:]
    return [Value(x, is_wide) for x, is_wide in zip(found, wide, strict=False)]


def _scan(node: Node, operands: Sequence[Value], size: Size) -> Sequence[Value]:
    a: ScanAttributes = node.attributes
    carries, sequences, captures = split_scan(operands, a)
    wide, body = _settled(a.body, [x.batched for x in operands], a.carries, size)
    start = [spread(x, size) if is_wide else x.node for x, is_wide in zip(carries, wide, strict=False)]
    stacked = [x.batched for x in body.results[a.carries:]]
    results_wide = [*wide[: a.carries], *stacked]

    def step(*now: Node) -> tuple[Node, ...]:
        return body.run((*now, *(x.node for x in captures)), size, results_wide)

    found = scan(step, start, [_moved(x.node, 0, 1) if x.batched else x.node for x in sequences], a.length, a.reverse)
    return [Value(_moved(x, 1, 0) if is_wide and number >= a.carries else x, is_wide)
            for number, (x, is_wide) in enumerate(zip(found, results_wide, strict=True))]


_REGION_RULES: dict[str, Callable[[Node, Sequence[Value], Size], Sequence[Value]]] = {
    if_op.name: _branches, case_op.name: _branches, while_op.name: _while, scan_op.name: _scan,
}

"""Loops as what they are: what stays is captured, and a `while` that counts is a scan.

Front ends put all that a loop uses into its state, and say `while` for every loop. Captures stay where they are while
state goes from turn to turn; a scan has slices for what a `while` indexes by its counter, and needs no condition.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from tcp_eqsat.lang.counting import Counted, Line, Values, count_turns, known_integer
from tcp_eqsat.lang.dims import equal
from tcp_eqsat.lang.op import map_regions, regions_of
from tcp_eqsat.lang.ops.attributes import ScanAttributes, WhileAttributes
from tcp_eqsat.lang.ops.builders import parameter, results_of, scalar_constant, view
from tcp_eqsat.lang.ops.control import scan_op
from tcp_eqsat.lang.ops.indexing import dynamic_slice_op, dynamic_update_slice_op
from tcp_eqsat.lang.ops.structure import inline, project_op, tuple_of, tuple_op
from tcp_eqsat.lang.program import Function, Node, Region, walk
from tcp_eqsat.lang.types import TensorType, TupleType


def capture_unchanged(function: Function) -> Function:
    """The function, with unchanged state of its loops, nested ones included, as captures."""
    return _with_loops(function, _captured)


def raise_counted(function: Function) -> Function:
    """The function, with every `while` whose number of turns is known as a scan, nested ones included.

    The counter starts at a number, each turn adds a number, and the condition compares it with a number. What the body
    takes of captures by `dynamic_slice`, a whole slice of the leading axis in each turn, first to last or last to
    first, are sequences; state of which the body writes all such slices by `dynamic_update_slice` is stacked.
    """
    return _with_loops(function, _scanned)


def _with_loops(function: Function, change: Callable[[Node], Node]) -> Function:
    """The function with `change` applied to its nodes with regions, inner ones first."""
    if not any(regions_of(node.attributes) for node in function.nodes()):
        return function
    values = _rebuilt((*function.parameters, *function.results), change)
    return dataclasses.replace(
        function, results=tuple(values[x] for x in function.results),
        names=_carried(function.names, values), locations=_carried(function.locations, values))


def _carried(table: Mapping[Node, object], values: Mapping[Node, Node]) -> dict:
    return {values[node]: entry for node, entry in table.items() if node in values}


def _rebuilt(roots: Sequence[Node], change: Callable[[Node], Node]) -> dict[Node, Node]:
    values: dict[Node, Node] = {}

    def in_region(region: Region) -> Region:
        inner = _rebuilt((*region.parameters, *region.results), change)
        return Region(region.parameters, tuple(inner[x] for x in region.results))

    for node in walk(roots):
        operands = tuple(values[x] for x in node.operands)
        if node.op is project_op and operands[0].op is tuple_op:
            values[node] = operands[0].operands[node.attributes.index]
            continue
        attributes = map_regions(node.attributes, in_region)
        new = node if operands == node.operands and attributes == node.attributes else Node.make(
            node.op, operands, attributes)
        values[node] = change(new)
    return values


# State that stays


def _captured(node: Node) -> Node:
    """A loop as one whose unchanged state is captured; other nodes as they are."""
    match node.attributes:
        case WhileAttributes(body=body, count=count):
            state, sequences = count, 0
        case ScanAttributes(body=body, carries=carries, sequences=sequences):
            state = carries
        case _:
            return node
    kept = [i for i in range(state) if body.results[i] is body.parameters[i]]
    if not kept or len(kept) == len(body.results):
        return node
    changing = [i for i in range(state) if i not in kept]
    first = state + sequences
    order = [*changing, *range(state, first), *kept, *range(first, len(node.operands))]
    results = [i for i in range(len(body.results)) if i not in kept]
    operands = tuple(node.operands[i] for i in order)
    attributes = map_regions(node.attributes, lambda region: _reordered(
        region, order, results if region is body else range(len(region.results))))
    fields = {"count": len(changing)} if isinstance(node.attributes, WhileAttributes) else {"carries": len(changing)}
    made = iter(results_of(Node.make(node.op, operands, dataclasses.replace(attributes, **fields))))
    whole = [node.operands[i] if i in kept else next(made) for i in range(len(body.results))]
    assert isinstance(node.type, TupleType), node.type
    return tuple_of(*whole)


def _reordered(region: Region, order: Sequence[int], results: Sequence[int]) -> Region:
    """The region with its parameters in another order and some of its results."""
    old = region.parameters
    parameters = tuple(parameter(old[i].attributes.name, n, old[i].tensor_type) for n, i in enumerate(order))
    places = dict(zip(order, parameters, strict=True))
    found = inline(region, tuple(places[i] for i in range(len(old))))
    return Region(parameters, tuple(found[i] for i in results))


# Loops that count


def _scanned(node: Node) -> Node:
    """A `while` that runs a known number of turns as a scan; other nodes as they are."""
    if not isinstance(node.attributes, WhileAttributes):
        return node
    counted = count_turns(node)
    if counted is None:
        return node
    results = node.operands[:node.attributes.count] if counted.turns == 0 else _Scan(node, counted).results()
    return results[0] if isinstance(node.type, TensorType) else tuple_of(*results)


class _Scan:
    """A `while` becomes a scan of `turns` turns.

    slices   nodes of the body that are a slice of a capture in each turn, with the number of the capture's operand
    stacked  state that the turns write slice by slice, with what they write
    """

    def __init__(self, node: Node, counted: Counted) -> None:
        self.node = node
        self.loop: WhileAttributes = node.attributes
        self.counted = counted
        self.turns = counted.turns
        fixed = {n: Line(value) for n, x in enumerate(node.operands)
                 if n >= self.loop.count and (value := known_integer(x)) is not None}
        self.values = Values(self.loop.body, {**counted.state, **fixed}, self.turns - 1)
        self.numbers = {x: n for n, x in enumerate(self.loop.body.parameters)}
        self.users: dict[Node, list[Node]] = defaultdict(list)
        for each in walk(self.loop.body.results):
            for x in each.operands:
                self.users[x].append(each)
        steps = {each: step for each in walk(self.loop.body.results) if (step := self.direction(each)) is not None}
        found = [*steps.values()]
        self.step = -1 if found.count(-1) > found.count(1) else 1
        chosen = [each for each, step in steps.items() if step == self.step]
        self.slices = {each: self.numbers[each.operands[0]] for each in chosen if each.op is dynamic_slice_op}
        self.stacked = {self.numbers[each.operands[0]]: each.operands[1]
                        for each in chosen if each.op is dynamic_update_slice_op}

    def direction(self, node: Node) -> int | None:
        """1 or -1 where a node takes the slices of a capture in order or in reverse, or writes those of a state."""
        if node.op is dynamic_slice_op:
            (array, *starts), sizes = node.operands, node.attributes.sizes
            if self.numbers.get(array, 0) < self.loop.count:
                return None
        elif node.op is dynamic_update_slice_op:
            array, update, *starts = node.operands
            sizes = update.shape
            if not self.is_only_written(array, node):
                return None
        else:
            return None
        whole = array.shape != () and sizes[0] == 1 and array.shape[0] == self.turns and all(
            map(equal, sizes[1:], array.shape[1:]))
        start = self.values.line(starts[0]) if whole else None
        return {Line(0, 1): 1, Line(self.turns - 1, -1): -1}.get(start) if start is not None else None

    def is_only_written(self, array: Node, node: Node) -> bool:
        """Whether an array is state that the body knows only to hand on this update of it."""
        number, results = self.numbers.get(array, self.loop.count), self.loop.body.results
        return (number < self.loop.count and self.users[array] == [node] and not self.users[node]
                and results[number] is node and results.count(node) == 1 and array not in results)

    def results(self) -> tuple[Node, ...]:
        """The last state."""
        needed = self.needed()
        carried = [n for n in range(self.loop.count)
                   if n not in self.stacked and (n in needed or n not in self.counted.state)]
        sequences = sorted(set(self.slices.values()))
        captured = [n for n in range(self.loop.count, len(self.node.operands)) if n in needed]
        order = [*carried, *sequences, *captured]
        found: dict[int, Node] = {}
        if carried or self.stacked:
            attributes = ScanAttributes(
                self.region(carried, sequences, captured), len(carried), len(sequences), self.turns, self.step < 0)
            operands = tuple(self.node.operands[n] for n in order)
            found = dict(zip((*carried, *self.stacked), results_of(Node.make(scan_op, operands, attributes)),
                             strict=True))
        return tuple(
            scalar_constant(self.counted.state[n].at(self.turns), x.dtype) if n in self.counted.state else found[n]
            for n, x in enumerate(self.node.operands[:self.loop.count]))

    def needed(self) -> set[int]:
        """The numbers of the parameters that the new body uses."""
        results = self.loop.body.results
        left = [*self.stacked.values(),
                *(x for n, x in enumerate(results) if n not in self.stacked and n not in self.counted.state)]
        seen: set[Node] = set()
        while left:
            node = left.pop()
            if node in seen:
                continue
            seen.add(node)
            left.extend(() if node in self.slices else node.operands)
            number = self.numbers.get(node)
            if number is not None and number < self.loop.count:
                left.append(results[number])
        return {n for x, n in self.numbers.items() if x in seen}

    def region(self, carried: Sequence[int], sequences: Sequence[int], captured: Sequence[int]) -> Region:
        """The body with slices in place of what it takes slices of."""
        types = [*((f"s{n}", self.node.operands[i].tensor_type) for n, i in enumerate(carried)),
                 *((f"x{n}", _slice_type(self.node.operands[i])) for n, i in enumerate(sequences)),
                 *((f"c{n}", self.node.operands[i].tensor_type) for n, i in enumerate(captured))]
        parameters = tuple(parameter(name, n, type_) for n, (name, type_) in enumerate(types))
        first = len(carried) + len(sequences)
        own = self.loop.body.parameters
        values = dict(zip((own[n] for n in carried), parameters, strict=False))
        values |= dict(zip((own[n] for n in captured), parameters[first:], strict=True))
        items = dict(zip(sequences, parameters[len(carried):first], strict=True))
        values |= {x: view(items[n], tuple(range(1, len(x.shape))), x.shape) for x, n in self.slices.items()}
        roots = (*(self.loop.body.results[n] for n in carried), *self.stacked.values())
        for node in walk(roots):
            if node not in values:
                values[node] = Node.make(node.op, tuple(values[x] for x in node.operands), node.attributes)
        given = [values[x] for x in roots]
        outputs = (view(x, (-1, *range(len(x.shape) - 1)), x.shape[1:]) for x in given[len(carried):])
        return Region(parameters, (*given[:len(carried)], *outputs))


def _slice_type(x: Node) -> TensorType:
    return TensorType(x.dtype, x.shape[1:])

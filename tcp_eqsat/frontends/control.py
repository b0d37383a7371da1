"""Control flow over traced tensors: tcp.cond, tcp.switch, tcp.while_loop, tcp.scan, tcp.fori_loop, tcp.call.

States, carries and results are tensors, or tuples, lists and dicts of them. Functions may use traced tensors from
around them. They are called once, when the program is built.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tcp_eqsat.errors import ArgumentError, ShapeMismatch, TypeMismatch
from tcp_eqsat.frontends.traced import Operand, Traced, agree, as_size, elementwise, is_number, lift
from tcp_eqsat.frontends.trees import Tree, check_form, flatten, unflatten
from tcp_eqsat.lang import specialise
from tcp_eqsat.lang.dims import Dim, Size, less_equal, maximum
from tcp_eqsat.lang.op import Op
from tcp_eqsat.lang.ops import builders, control
from tcp_eqsat.lang.ops.regions import trace_body
from tcp_eqsat.lang.program import Function, Node, Program
from tcp_eqsat.lang.scalar import scalar_op_named
from tcp_eqsat.lang.types import I32, I64


def _traced(tree: Tree, nodes: Sequence[Node]) -> Any:
    return unflatten(tree, [Traced(x) for x in nodes])


def _nodes(what: str, value: Any) -> tuple[list[Node], Tree]:
    leaves, tree = flatten(value)
    if not leaves:
        raise TypeMismatch(f"{what} requires a tensor at least, got {value!r}")
    return [lift(x) for x in leaves], tree


# Branches


def cond(predicate: Operand, then: Callable[..., Any], otherwise: Callable[..., Any], *operands: Any) -> Any:
    """`then(*operands)` where the predicate (a bool of rank 0) is true, else `otherwise(*operands)`.

    Only the chosen one runs. Both give tensors of the same types in the same form; a number takes the dtype of its
    counterpart. Raises TypeMismatch where they differ.
    """
    if isinstance(predicate, bool):
        return (then if predicate else otherwise)(*operands)
    return _choose("cond", control.if_op, lift(predicate), (then, otherwise), operands)


def switch(index: Operand, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """`branches[index](*operands)`; the last one where the index (an integer of rank 0) is out of range.

    Else as `cond`.
    """
    functions = tuple(branches)
    if not functions:
        raise ArgumentError("switch requires a branch at least, got none")
    last = len(functions) - 1
    if isinstance(index, int) and not isinstance(index, bool):
        return functions[index if 0 <= index <= last else last](*operands)
    node = lift(index)
    if not node.dtype.is_integer or node.shape:
        raise TypeMismatch(f"switch requires an integer of rank 0 as its index, got {node.type}")
    if node.dtype is not I32:
        number = Traced(node)
        low = number >= 0 if node.dtype.is_signed else elementwise("equal", number, number)
        node = elementwise("where", low & (number <= last), number, last).astype(I32).node
    return _choose("switch", control.case_op, node, functions, operands)


def _choose(what: str, op: Op, selector: Node, functions: Sequence[Callable[..., Any]], operands: Sequence[Any]
            ) -> Any:
    found: list[tuple[list[Any], Tree]] = []

    def results(function: Callable[..., Any]) -> Callable[[], Sequence[Node]]:
        def run() -> Sequence[Node]:
            found.append(flatten(function(*operands)))
            return [lift(x) for x in found[-1][0]]

        return run

    bodies = [trace_body(results(function), (), keep=True) for function in functions]
    leaves, tree = found[0]
    if not leaves:
        raise TypeMismatch(f"{what} requires branches that give a tensor at least")
    for _, other in found:
        check_form(f"each branch of {what}", tree, other)
    columns = [_with_one_dtype(nodes, values) for nodes, values in zip(
        zip(*(body.results for body in bodies), strict=True), zip(*(values for values, _ in found), strict=True),
        strict=True)]
    rows = zip(*columns, strict=True)
    closed = [replace(body, results=row) for body, row in zip(bodies, rows, strict=True)]
    return _traced(tree, control.branches(op, selector, closed))


def _with_one_dtype(nodes: Sequence[Node], values: Sequence[Any]) -> list[Node]:
    """Results of several branches, with numbers in the dtype of the first tensor among them."""
    tensor = next((x for x, value in zip(nodes, values, strict=True) if not is_number(value)), None)
    if tensor is None:
        widest = max(nodes, key=lambda x: (x.dtype.is_float, x.dtype.is_integer))
        return [builders.scalar_constant(value, widest.dtype) for value in values]
    for x in nodes:
        for a, b in zip(x.shape, tensor.shape, strict=False):
            agree(a, b)
    return [lift_like(value, tensor) if is_number(value) else x for x, value in zip(nodes, values, strict=True)]


def lift_like(value: Any, like: Node) -> Node:
    """A tensor, or a number in the dtype of another one where it fits."""
    fits = is_number(value) and not (isinstance(value, float) and not like.dtype.is_differentiable)
    return builders.scalar_constant(value, like.dtype) if fits else lift(value)


# Loops


def while_loop(condition: Callable[[Any], Any], body: Callable[[Any], Any], state: Any, *, bound: Size | None = None
               ) -> Any:
    """The last state, where `body(state)` runs as long as `condition(state)` (a bool of rank 0) is true.

    bound   at most so many steps run. Then the loop has a derivative: it is a scan of so many steps, of which those
            after the last do nothing

    The body gives a state of the same form and types. Raises TypeMismatch where it does not. Python numbers in the
    first state are i64 and f64.
    """
    nodes, tree = _nodes("while_loop", state)

    def holds(*now: Node) -> Node:
        return lift(condition(_traced(tree, now)))

    def step(*now: Node) -> Sequence[Node]:
        return _state("while_loop", tree, now, body(_traced(tree, now)))

    return _traced(tree, control.while_(holds, step, nodes, None if bound is None else _steps("while_loop", bound)))


def _steps(what: str, size: Any) -> Size:
    steps = as_size(size)
    if less_equal(0, steps) is False:
        raise ShapeMismatch(f"{what} requires a number of steps of at least 0, got {steps}")
    return steps


def _state(what: str, tree: Tree, before: Sequence[Node], value: Any) -> list[Node]:
    """The nodes of the next state, whose form must be that of the last; numbers take its dtypes."""
    leaves, found = flatten(value)
    check_form(f"the body of {what}", tree, found)
    after = [lift_like(x, old) for x, old in zip(leaves, before, strict=True)]
    for old, new in zip(before, after, strict=True):
        for a, b in zip(old.shape, new.shape, strict=False):
            agree(a, b)
    return after


def scan(body: Callable[[Any, Any], tuple[Any, Any]], carry: Any, sequences: Any = None, length: Size | None = None,
         *, reverse: bool = False) -> tuple[Any, Any]:
    """The last carry, and what the steps give besides, stacked along a new first axis.

        carry, outputs = tcp.scan(body, carry, sequences)     # carry, output = body(carry, slice) at each step

    sequences  tensors that are sliced along their first axes, which have equal sizes; None: give the `length`
    reverse    steps go from the last slice to the first; outputs stand at the places of their slices

    The carry keeps its form and types. Raises TypeMismatch where it does not, ShapeMismatch for sequences of
    different lengths.
    """
    nodes, tree = flatten(carry)
    carries = [lift(x) for x in nodes]
    leaves, sequence_tree = flatten(sequences)
    slices = [lift(x) for x in leaves]
    steps = _length(slices, length)
    output_tree: list[Tree] = []

    def step(*now: Node) -> Sequence[Node]:
        before, current = now[: len(carries)], now[len(carries):]
        returned = body(_traced(tree, before), _traced(sequence_tree, current))
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise TypeMismatch(f"the body of scan must give a pair (carry, output), got {type(returned).__name__}")
        outputs, found = flatten(returned[1])
        output_tree.append(found)
        return [*_state("scan", tree, before, returned[0]), *map(lift, outputs)]

    results = control.scan(step, carries, slices, steps, reverse)
    return _traced(tree, results[: len(carries)]), _traced(output_tree[0], results[len(carries):])


def _length(sequences: Sequence[Node], length: Size | None) -> Size:
    if length is None and not sequences:
        raise ArgumentError("scan requires sequences or a length")
    for x in sequences:
        if not x.shape:
            raise ShapeMismatch(f"scan requires sequences with a first axis, got {x.type}")
    steps = sequences[0].shape[0] if length is None else _steps("scan", length)
    for x in sequences:
        if not agree(x.shape[0], steps):
            raise ShapeMismatch(f"scan requires sequences of one length, got {steps} and {x.type}")
    return steps


def fori_loop(lower: Operand, upper: Operand, body: Callable[[Traced, Any], Any], state: Any) -> Any:
    """The last state, where `body(i, state)` runs for i in lower, lower + 1, ..., upper - 1 (i64 of rank 0).

    The limits are numbers, sizes or integers of rank 0. With numbers and sizes it is a scan, which has a derivative.
    """
    nodes, tree = _nodes("fori_loop", state)
    one = builders.scalar_constant(1, I64)

    def step(*now: Node) -> Sequence[Node]:
        index, *before = now
        after = _state("fori_loop", tree, before, body(Traced(index), _traced(tree, before)))
        return [builders.map_scalar(scalar_op_named("add"), index, one), *after]

    first = _limit("lower", lower)
    last = _limit("upper", upper)
    if isinstance(lower, (int, Dim)) and isinstance(upper, (int, Dim)):
        steps = maximum(0, upper - lower) if less_equal(lower, upper) is not True else upper - lower
        return _traced(tree, control.scan(step, (first, *nodes), (), steps)[1:])

    def holds(*now: Node) -> Node:
        return builders.map_scalar(scalar_op_named("less"), now[0], last)

    return _traced(tree, control.while_(holds, step, (first, *nodes))[1:])


def _limit(what: str, value: Any) -> Node:
    """A limit of a loop as an i64 of rank 0."""
    if isinstance(value, Dim):
        return builders.size_value(value)
    node = lift(value)
    if not node.dtype.is_integer or node.shape:
        raise TypeMismatch(f"fori_loop requires an integer of rank 0 as its {what} limit, got {node.type}")
    return Traced(node).astype(I64).node


# Calls


def call(program: Program | Function, *operands: Operand, entry: str | None = None) -> Traced | tuple[Traced, ...]:
    """The results of a program's function on traced tensors; its symbols become their sizes.

    Raises TypeMismatch and ShapeMismatch for operands that are not what its parameters require.
    """
    function = program.function(entry) if isinstance(program, Program) else program
    results = tuple(map(Traced, specialise.call(function, *map(lift, operands))))
    return results[0] if len(results) == 1 else results

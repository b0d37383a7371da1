"""Control flow: if, case, while and scan, which run regions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tcp_eqsat.errors import ShapeMismatch, TypeMismatch
from tcp_eqsat.lang.dims import Size, equal
from tcp_eqsat.lang.op import IN_REGIONS, Op, check_sizes, define_op, tensor_types
from tcp_eqsat.lang.ops.attributes import CaseAttributes, IfAttributes, ScanAttributes, WhileAttributes
from tcp_eqsat.lang.ops.builders import results_of
from tcp_eqsat.lang.ops.regions import Body, check_parameters, close_bodies, same_type, trace_body, type_of_results
from tcp_eqsat.lang.program import Node, Region
from tcp_eqsat.lang.types import BOOL, I32, TensorType, TupleType, Type, numbers

Arrays = tuple[np.ndarray, ...]
Run = Callable[..., Arrays]
Nodes = Callable[..., Sequence[Node]]


def _result_types(region: Region) -> tuple[TensorType, ...]:
    return tuple(x.tensor_type for x in region.results)


def _shown(types: Sequence[Type]) -> str:
    return f"({', '.join(map(str, types))})"


def _one_or_all(results: Arrays) -> np.ndarray | Arrays:
    """What a reference returns: an array for one result, a tuple for several."""
    return results[0] if len(results) == 1 else results


def _check_count(name: str, what: str, found: int, lower: int, upper: int) -> None:
    if not lower <= found <= upper:
        raise TypeMismatch(f"{name} requires {lower} to {upper} {what}, got {found}")


# If and case


def _infer_branches(name: str, selector: TensorType, operands: tuple[Type, ...], regions: tuple[Region, ...]) -> Type:
    """The type that all branches agree on."""
    types = tensor_types(name, operands)
    if not types or types[0] != selector:
        raise TypeMismatch(f"{name} requires {selector} as operand 0, got {types[0] if types else 'no operand'}")
    for number, region in enumerate(regions):
        check_parameters(f"branch {number} of {name}", region, types[1:])
    first = _result_types(regions[0])
    for number, region in enumerate(regions):
        found = _result_types(region)
        if len(found) != len(first) or not all(map(same_type, first, found)):
            raise TypeMismatch(f"{name} requires branches with results of the same types, got {_shown(first)} "
                               f"(branch 0) and {_shown(found)} (branch {number})")
    return type_of_results(first)


def _infer_if(operands: tuple[Type, ...], attributes: IfAttributes) -> Type:
    if len(attributes.regions) != 2:
        raise TypeMismatch(f"if requires 2 branches, got {len(attributes.regions)}")
    return _infer_branches("if", TensorType(BOOL, ()), operands, attributes.regions)


def _if_reference(run: Run, attributes: IfAttributes, result: Type, predicate: np.ndarray, *captures: np.ndarray
                  ) -> np.ndarray | Arrays:
    return _one_or_all(run(attributes.regions[0 if predicate else 1], *captures))


if_op = define_op(
    "if", operands="predicate captures*", attributes=IfAttributes, infer=_infer_if, reference=_if_reference,
    pointful=IN_REGIONS, derivative=IN_REGIONS,
    doc="One of two regions: the first where operand 0 (bool[]) is true, the second where it is false. The other "
        "operands are the parameters of both. Only the chosen one runs.",
)


def _infer_case(operands: tuple[Type, ...], attributes: CaseAttributes) -> Type:
    if not attributes.regions:
        raise TypeMismatch("case requires at least 1 branch, got 0")
    return _infer_branches("case", TensorType(I32, ()), operands, attributes.regions)


def _case_reference(run: Run, attributes: CaseAttributes, result: Type, index: np.ndarray, *captures: np.ndarray
                    ) -> np.ndarray | Arrays:
    last = len(attributes.regions) - 1
    chosen = int(index) if 0 <= index <= last else last
    return _one_or_all(run(attributes.regions[chosen], *captures))


case_op = define_op(
    "case", operands="index captures*", attributes=CaseAttributes, infer=_infer_case, reference=_case_reference,
    pointful=IN_REGIONS, derivative=IN_REGIONS,
    doc="The region whose number operand 0 (i32[]) is; the last one where it is out of range, negative numbers "
        "included. The other operands are the parameters of all. Only the chosen one runs.",
)


# While


def _infer_while(operands: tuple[Type, ...], attributes: WhileAttributes) -> Type:
    types = tensor_types("while", operands)
    _check_count("while", "values of state", attributes.count, 1, len(types))
    check_parameters("the condition of while", attributes.condition, types)
    check_parameters("the body of while", attributes.body, types)
    found = _result_types(attributes.condition)
    if found != (TensorType(BOOL, ()),):
        raise TypeMismatch(f"while requires a condition that gives bool[], got {_shown(found)}")
    state = types[: attributes.count]
    _check_kept("while", "state", state, _result_types(attributes.body))
    return type_of_results(state)


def _check_kept(name: str, what: str, before: tuple[TensorType, ...], after: tuple[TensorType, ...]) -> None:
    """Raises TypeMismatch where a step changes the number or a type of the values that it hands on."""
    if len(before) != len(after):
        raise TypeMismatch(f"{name} requires a body that gives {len(before)} values of {what}, got {len(after)}")
    for number, (required, found) in enumerate(zip(before, after, strict=True)):
        if not same_type(required, found):
            raise TypeMismatch(
                f"{name} requires a body that keeps the type of {what} {number}, {required}, got {found}")


def _while_reference(run: Run, attributes: WhileAttributes, result: Type, *operands: np.ndarray) -> np.ndarray | Arrays:
    state, captures = operands[: attributes.count], operands[attributes.count:]
    while run(attributes.condition, *state, *captures)[0]:
        state = run(attributes.body, *state, *captures)
    return _one_or_all(state)


while_op = define_op(
    "while", operands="state* captures*", attributes=WhileAttributes, infer=_infer_while, reference=_while_reference,
    pointful=IN_REGIONS, derivative=IN_REGIONS,
    doc="The body runs on the state (and captures, which stay) as long as the condition on it is true; the last state "
        "is the result, and the first one where the condition is false at once. Types of the state do not change. A "
        "condition that stays true never ends.",
)


# Scan


def _infer_scan(operands: tuple[Type, ...], attributes: ScanAttributes) -> Type:
    types = tensor_types("scan", operands)
    length = attributes.length
    check_sizes("scan", (length,))
    _check_count("scan", "carries", attributes.carries, 0, len(types))
    _check_count("scan", "sequences", attributes.sequences, 0, len(types) - attributes.carries)
    carries, sequences, captures = split_scan(types, attributes)
    for number, x in enumerate(sequences):
        if not x.shape or not equal(x.shape[0], length):
            raise ShapeMismatch(
                f"scan requires sequences with a leading axis of size {length}, sequence {number} is {x}")
    slices = tuple(TensorType(x.dtype, x.shape[1:]) for x in sequences)
    check_parameters("the body of scan", attributes.body, (*carries, *slices, *captures))
    found = _result_types(attributes.body)
    _check_kept("scan", "carry", carries, found[: attributes.carries])
    stacked = tuple(TensorType(x.dtype, (length, *x.shape)) for x in found[attributes.carries:])
    return type_of_results((*carries, *stacked))


def split_scan(items: Sequence[Any], attributes: ScanAttributes) -> tuple[tuple[Any, ...], ...]:
    """What belongs to carries, sequences and captures, of things that stand in the order of a scan's operands."""
    first, second = attributes.carries, attributes.carries + attributes.sequences
    return tuple(items[:first]), tuple(items[first:second]), tuple(items[second:])


def _scan_reference(run: Run, attributes: ScanAttributes, result: Type, *operands: np.ndarray) -> np.ndarray | Arrays:
    carries, sequences, captures = split_scan(operands, attributes)
    items = result.items if isinstance(result, TupleType) else (result,)
    stacked = tuple(np.empty(numbers(x.shape), x.dtype.numpy) for x in items[attributes.carries:])
    assert isinstance(attributes.length, int)
    steps = range(attributes.length)
    for step in reversed(steps) if attributes.reverse else steps:
        found = run(attributes.body, *carries, *(np.asarray(x[step]) for x in sequences), *captures)
        carries = found[: attributes.carries]
        for array, part in zip(stacked, found[attributes.carries:], strict=True):
            array[step] = part
    return _one_or_all((*carries, *stacked))


scan_op = define_op(
    "scan", operands="carries* sequences* captures*", attributes=ScanAttributes, infer=_infer_scan,
    reference=_scan_reference, pointful=IN_REGIONS, derivative=IN_REGIONS,
    doc="`length` steps of the body over carries and slices of sequences along their leading axis, from the first or "
        "(`reverse`) from the last. The results are the last carries, then what the steps give besides, stacked "
        "at the places of their slices. Captures stay. Without steps the carries are what they were.",
)


# Builders: Python functions of nodes become regions, and find their captures


def if_(predicate: Node, then: Nodes, otherwise: Nodes) -> tuple[Node, ...]:
    """The results of `then()` where `predicate` (bool[]) is true, else those of `otherwise()`.

    What a function makes runs in its branch only; what it takes from around it is captured. Raises TypeMismatch where
    the results have different types.
    """
    return branches(if_op, predicate, [trace_body(f, (), keep=True) for f in (then, otherwise)])


def case(index: Node, functions: Sequence[Nodes]) -> tuple[Node, ...]:
    """The results of function `index` (i32[]), of the last one where it is out of range; else as `if_`."""
    return branches(case_op, index, [trace_body(f, (), keep=True) for f in functions])


def branches(op: Op, selector: Node, bodies: Sequence[Body]) -> tuple[Node, ...]:
    """The results of an `if` or `case` of bodies without parameters."""
    regions, captures = close_bodies(bodies, ())
    kind = IfAttributes if op is if_op else CaseAttributes
    return results_of(Node.make(op, (selector, *captures), kind(regions)))


def while_(condition: Callable[..., Node], body: Nodes, state: Sequence[Node], bound: Size | None = None
           ) -> tuple[Node, ...]:
    """The last state, where `body(*state)` runs as long as `condition(*state)` (bool[]) is true.

    What does not depend on the state is computed once, before the loop. With a `bound` at most so many steps run, as a
    scan that has a derivative. Raises TypeMismatch where the body changes a type.
    """
    types = [x.tensor_type for x in state]
    if bound is None:
        bodies = [trace_body(lambda *x: (condition(*x),), types, keep=False), trace_body(body, types, keep=False)]
        regions, captures = close_bodies(bodies, [f"s{i}" for i in range(len(types))])
        return results_of(Node.make(
            while_op, (*state, *captures), WhileAttributes(regions[0], regions[1], len(types))))

    def step(*now: Node) -> tuple[Node, ...]:
        return if_(condition(*now), lambda: body(*now), lambda: now)

    return scan(step, state, (), bound)


def scan(body: Nodes, carries: Sequence[Node], sequences: Sequence[Node], length: Size, reverse: bool = False
         ) -> tuple[Node, ...]:
    """The last carries and what the steps give besides: `body(*carries, *slices)` gives both, carries first.

    What does not depend on carries and slices is computed once, before the loop. Raises TypeMismatch where the body
    changes the type of a carry, ShapeMismatch for a sequence of another length.
    """
    for number, x in enumerate(sequences):
        if not x.shape:
            raise ShapeMismatch(f"scan requires sequences with a leading axis, sequence {number} is {x.type}")
    types = [*(x.tensor_type for x in carries), *(TensorType(x.dtype, x.shape[1:]) for x in sequences)]
    names = [*(f"s{i}" for i in range(len(carries))), *(f"x{i}" for i in range(len(sequences)))]
    (region,), captures = close_bodies([trace_body(body, types, keep=False)], names)
    return results_of(Node.make(
        scan_op, (*carries, *sequences, *captures),
        ScanAttributes(region, len(carries), len(sequences), length, reverse)))

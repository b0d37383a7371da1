"""Complex values taken apart: a program without complex numbers that computes the same.

A complex tensor c64[b] becomes two tensors f32[b], its real and imaginary parts. At the border parameters and results
are what they are in memory: f32[b, 2]. So rules, extraction and code generation see real numbers only.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tcp_eqsat.errors import TypeMismatch
from tcp_eqsat.lang.complex_functions import function_parts, is_complex_function
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.ops.attributes import MapAttributes
from tcp_eqsat.lang.ops.complex_views import view_as_complex, view_as_real
from tcp_eqsat.lang.ops.structure import inline
from tcp_eqsat.lang.program import Function, Node, Region, walk
from tcp_eqsat.lang.scalar import scalar_op_named
from tcp_eqsat.lang.types import TensorType, TupleType, Type

Value = tuple[Node, ...]  # a real value, or real part and imaginary part


@dataclass(frozen=True)
class Apart:
    """A function, and the same without complex values.

    `real` has the same parameters and results in the same order; a complex one has a trailing axis of size 2 in place
    of its dtype, which is how it lies in memory.
    """

    original: Function
    real: Function

    def restored(self, function: Function) -> Function:
        """A function with the parameters and results of `real`, with those of `original` again."""
        if self.real is self.original:
            return function
        operands = tuple(view_as_real(x) if x.dtype.is_complex else x for x in self.original.parameters)
        results = inline(Region(function.parameters, function.results), operands)
        return Function(
            self.original.name, self.original.parameters,
            tuple(view_as_complex(x) if y.dtype.is_complex else x
                  for x, y in zip(results, self.original.results, strict=True)),
            self.original.names, self.original.locations, self.original.guards)


def take_apart(function: Function) -> Apart:
    """The function without complex values. Composites must be expanded.

    Raises TypeMismatch for an operation that has no form on complex values.
    """
    if not any(map(_is_complex, function.nodes())):
        return Apart(function, function)
    values: dict[Node, tuple[Value, ...]] = {}
    parameters = []
    for x in function.parameters:
        made = builders.parameter(x.attributes.name, x.attributes.index, memory_type(x.tensor_type))
        parameters.append(made)
        values[x] = (parts_of_memory(made) if x.dtype.is_complex else (made,),)
    rewrite(function, values)
    results = tuple(memory_of_parts(values[x][0]) for x in function.results)
    real = Function(
        function.name, tuple(parameters), results,
        {values[k][0][0]: v for k, v in function.names.items() if k in values and len(values[k][0]) == 1},
        {values[k][0][0]: v for k, v in function.locations.items() if k in values and len(values[k][0]) == 1},
        function.guards)
    return Apart(function, real)


def rewrite(function: Function | Region, values: dict[Node, tuple[Value, ...]]) -> None:
    """The parts of every value, in `values`, which has those of the parameters."""
    for node in walk((*function.parameters, *function.results)):
        if node in values:
            continue
        operands = [values[x] for x in node.operands]
        if node.op.name == "tuple":
            values[node] = tuple(x[0] for x in operands)
        elif node.op.name == "project":
            values[node] = (operands[0][node.attributes.index],)
        elif not _is_complex(node) and not any(map(_is_complex, node.operands)):
            values[node] = _split(Node.make(node.op, tuple(x[0][0] for x in operands), node.attributes), node.type)
        else:
            rule = _RULES.get(node.op.name)
            if rule is None:
                raise TypeMismatch(f"{node.op.name} has no form on complex values, got {node.type}")
            values[node] = rule(node, [x[0] for x in operands])


def memory_type(type_: TensorType) -> TensorType:
    """How a tensor lies in memory: a complex one as pairs of floats."""
    return TensorType(type_.dtype.part, (*type_.shape, 2)) if type_.dtype.is_complex else type_


def parts_of_memory(x: Node) -> Value:
    """The parts of a complex tensor of which `x` is the memory."""
    shape, rank = x.shape[:-1], len(x.shape) - 1
    labels = (*range(rank), -1)

    def part(index: int) -> Node:
        pair = builders.slice_(x, (*(0,) * rank, index), (*shape, index + 1))
        return builders.view(pair, labels, shape)

    return part(0), part(1)


def memory_of_parts(parts: Value) -> Node:
    """The memory of a complex tensor with these parts; a real one is its own."""
    if len(parts) == 1:
        return parts[0]
    rank = len(parts[0].shape)
    columns = tuple(builders.view(x, tuple(range(rank)), (*x.shape, 1)) for x in parts)
    return builders.concatenate(columns, rank)


def _is_complex(node: Node) -> bool:
    items = node.type.items if isinstance(node.type, TupleType) else (node.type,)
    if any(x.dtype.is_complex for x in items):
        return True
    return isinstance(node.attributes, MapAttributes) and is_complex_function(node.attributes.function)


def _split(node: Node, type_: Type) -> tuple[Value, ...]:
    """The results of a node of the new program, in pairs where those of `type_` are complex."""
    flat = iter(builders.results_of(node))
    items = type_.items if isinstance(type_, TupleType) else (type_,)
    return tuple((next(flat), next(flat)) if x.dtype.is_complex else (next(flat),) for x in items)


# What becomes of each operation


def _constant(node: Node, operands: Sequence[Value]) -> tuple[Value, ...]:
    array: np.ndarray = node.attributes.data.array
    return ((builders.constant(array.real), builders.constant(array.imag)),)


def _iota(node: Node, operands: Sequence[Value]) -> tuple[Value, ...]:
    part = node.dtype.part
    return ((builders.iota(part, node.shape, node.attributes.axis), builders.splat(0, part, node.shape)),)


def _map(node: Node, operands: Sequence[Value]) -> tuple[Value, ...]:
    flat = tuple(part for x in operands for part in x)
    return (tuple(builders.map_function(f, *flat) for f in function_parts(node.attributes.function)),)


def _partwise(node: Node, operands: Sequence[Value]) -> tuple[Value, ...]:
    """Operations that move elements: the same for each part."""

    def part(number: int) -> Node:
        return Node.make(node.op, tuple(x[number] if len(x) == 2 else x[0] for x in operands), node.attributes)

    return ((part(0), part(1)),)


def _reduce(node: Node, operands: Sequence[Value]) -> tuple[Value, ...]:
    if node.attributes.operation.name == "add":
        return _partwise(node, operands)
    raise TypeMismatch(f"reduce by {node.attributes.operation.name} has no form on complex values, got {node.type}")


def _contract(node: Node, operands: Sequence[Value]) -> tuple[Value, ...]:
    (a, b), (c, d) = operands
    add, subtract = scalar_op_named("add"), scalar_op_named("subtract")

    def product(x: Node, y: Node) -> Node:
        return Node.make(node.op, (x, y), node.attributes)

    return ((builders.map_scalar(subtract, product(a, c), product(b, d)),
             builders.map_scalar(add, product(a, d), product(b, c))),)


def _view_as_real(node: Node, operands: Sequence[Value]) -> tuple[Value, ...]:
    return ((memory_of_parts(operands[0]),),)


def _view_as_complex(node: Node, operands: Sequence[Value]) -> tuple[Value, ...]:
    return (parts_of_memory(operands[0][0]),)


def _functions(node: Node, operands: Sequence[Value]) -> tuple[Value, ...]:
    """Operations of several operands whose functions take elements of all: each part is an operand of its own."""
    attributes = dataclasses.replace(
        node.attributes, functions=tuple(p for f in node.attributes.functions for p in function_parts(f)))
    return _split(Node.make(node.op, tuple(part for x in operands for part in x), attributes), node.type)


def _region(region: Region) -> Region:
    """The region with a parameter and a result for each part."""
    values: dict[Node, tuple[Value, ...]] = {}
    parameters: list[Node] = []
    for x in region.parameters:
        types = [x.tensor_type] if not x.dtype.is_complex else [TensorType(x.dtype.part, x.shape)] * 2
        name = x.attributes.name
        names = [name] if len(types) == 1 else [f"{name}_real", f"{name}_imag"]
        own = tuple(builders.parameter(n, len(parameters) + i, t)
                    for i, (n, t) in enumerate(zip(names, types, strict=True)))
        parameters += own
        values[x] = (own,)
    rewrite(region, values)
    return Region(tuple(parameters), tuple(part for x in region.results for part in values[x][0]))


def _count(values: Sequence[Value]) -> int:
    return sum(map(len, values))


def _control(node: Node, operands: Sequence[Value]) -> tuple[Value, ...]:
    a = node.attributes
    changed: dict[str, object] = {}
    for field in dataclasses.fields(a):
        value = getattr(a, field.name)
        if isinstance(value, Region):
            changed[field.name] = _region(value)
        elif field.name == "regions":
            changed[field.name] = tuple(map(_region, value))
    if node.op.name == "while":
        changed["count"] = _count(operands[:a.count])
    elif node.op.name == "scan":
        changed["carries"] = _count(operands[:a.carries])
        changed["sequences"] = _count(operands[a.carries:a.carries + a.sequences])
    flat = tuple(part for x in operands for part in x)
    return _split(Node.make(node.op, flat, dataclasses.replace(a, **changed)), node.type)


_RULES: Mapping[str, Callable[[Node, Sequence[Value]], tuple[Value, ...]]] = {
    "constant": _constant, "iota": _iota, "map": _map, "reduce": _reduce, "contract": _contract,
    "view_as_real": _view_as_real, "view_as_complex": _view_as_complex, "scatter": _functions,
    **dict.fromkeys(("if", "case", "while", "scan"), _control),
    **dict.fromkeys(("view", "reshape", "slice", "concatenate", "pad", "gather", "dynamic_slice",
                     "dynamic_update_slice"), _partwise),
}

__all__ = ["Apart", "memory_type", "take_apart"]

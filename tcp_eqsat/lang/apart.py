"""Complex and quantised values taken apart: a program of real numbers that computes the same.

A complex tensor c64[b] becomes two tensors f32[b], its real and imaginary parts; a quantised one becomes its integers.
At the border parameters and results are what they are in memory, c64[b] f32[b, 2]. So rules, extraction and code
generation see plain numbers only.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tcp_eqsat.errors import TypeMismatch
from tcp_eqsat.lang.complex_functions import function_parts, is_complex_function
from tcp_eqsat.lang.narrow import convert_array
from tcp_eqsat.lang.op import MOVEMENT, op_named, regions_of
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.ops.attributes import MapAttributes, ReduceGeneralAttributes, SortAttributes
from tcp_eqsat.lang.ops.complex_views import view_as_complex, view_as_real
from tcp_eqsat.lang.ops.quantization import view_as_quantized, view_as_storage
from tcp_eqsat.lang.ops.structure import inline
from tcp_eqsat.lang.program import Function, Node, Region, walk
from tcp_eqsat.lang.quantized import QuantizedDType
from tcp_eqsat.lang.scalar import function_of, scalar_op_named
from tcp_eqsat.lang.types import I32, I64, DType, Kind, TensorType, TupleType, Type

Value = tuple[Node, ...]  # a plain value, or real part and imaginary part


@dataclass(frozen=True)
class Apart:
    """A function, and the same over plain numbers.

    `plain` has the same parameters and results in the same order, as they lie in memory: a complex one is of floats
    with a trailing axis of size 2, a quantised one of integers.
    """

    original: Function
    plain: Function

    def restored(self, function: Function) -> Function:
        """A function with the parameters and results of `plain`, with those of `original` again."""
        if self.plain is self.original:
            return function
        operands = tuple(map(_as_memory, self.original.parameters))
        results = inline(Region(function.parameters, function.results), operands)
        return Function(
            self.original.name, self.original.parameters,
            tuple(_of_memory(x, y.dtype) for x, y in zip(results, self.original.results, strict=True)),
            self.original.names, self.original.locations, self.original.guards)


def _as_memory(x: Node) -> Node:
    if x.dtype.is_complex:
        return view_as_real(x)
    return view_as_storage(x) if isinstance(x.dtype, QuantizedDType) else x


def _of_memory(x: Node, dtype: DType) -> Node:
    if dtype.is_complex:
        return view_as_complex(x)
    return view_as_quantized(x, dtype) if isinstance(dtype, QuantizedDType) else x


def take_apart(function: Function) -> Apart:
    """The function without complex and quantised values. Composites must be expanded.

    Raises TypeMismatch for an operation that has no form on them.
    """
    if not any(map(_has_compound, function.nodes())):
        return Apart(function, function)
    values: dict[Node, tuple[Value, ...]] = {}
    parameters = []
    for x in function.parameters:
        made = builders.parameter(x.attributes.name, x.attributes.index, memory_type(x.tensor_type))
        parameters.append(made)
        values[x] = (parts_of_memory(made) if x.dtype.is_complex else (made,),)
    rewrite(function, values)
    results = tuple(memory_of_parts(values[x][0]) for x in function.results)
    plain = Function(
        function.name, tuple(parameters), results,
        {values[k][0][0]: v for k, v in function.names.items() if k in values and len(values[k][0]) == 1},
        {values[k][0][0]: v for k, v in function.locations.items() if k in values and len(values[k][0]) == 1},
        function.guards)
    return Apart(function, plain)


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
        elif not _has_compound(node) and not any(map(_gives_compound, node.operands)):
            values[node] = _split(Node.make(node.op, tuple(x[0][0] for x in operands), node.attributes), node.type)
        else:
            rule = _RULES.get(node.op.name)
            if rule is None:
                raise TypeMismatch(f"{node.op.name} has no form on complex or quantised values, got {node.type}")
            values[node] = rule(node, [x[0] for x in operands])


def memory_type(type_: TensorType) -> TensorType:
    """How a tensor lies in memory: a complex one as pairs of floats, a quantised one as integers."""
    if type_.dtype.is_complex:
        return TensorType(type_.dtype.part, (*type_.shape, 2))
    return TensorType(type_.dtype.storage, type_.shape) if isinstance(type_.dtype, QuantizedDType) else type_


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


def _gives_compound(node: Node) -> bool:
    """Whether a node gives complex or quantised values."""
    items = node.type.items if isinstance(node.type, TupleType) else (node.type,)
    return any(x.dtype.kind in (Kind.COMPLEX, Kind.QUANTIZED) for x in items)


def _has_compound(node: Node) -> bool:
    """Whether a node gives complex or quantised values, or computes with complex ones inside."""
    if _gives_compound(node) or any(_has_compound(x) for region in regions_of(node.attributes)
                                   for x in walk((*region.parameters, *region.results))):
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
    return (tuple(
        Node.make(node.op, tuple(x[number] if len(x) == 2 else x[0] for x in operands), node.attributes)
        for number in range(max(map(len, operands)))),)


def _reduce(node: Node, operands: Sequence[Value]) -> tuple[Value, ...]:
    """Sums of each part; by other operations, both parts together."""
    a = node.attributes
    if a.operation.name == "add":
        return _partwise(node, operands)
    parts = [builders.view(x, a.labels, a.extents) for x in operands[0]]
    start = np.asarray(a.operation.identity(node.dtype), node.dtype.numpy)
    attributes = ReduceGeneralAttributes(
        function_parts(function_of(a.operation, node.dtype, node.dtype)), tuple(range(a.rank, len(a.extents))))
    made = Node.make(op_named("reduce_general"), (
        *parts, builders.constant(start.real), builders.constant(start.imag)), attributes)
    return _split(made, node.type)


def _contract(node: Node, operands: Sequence[Value]) -> tuple[Value, ...]:
    (a, b), (c, d) = operands

    def product(x: Node, y: Node) -> Node:
        return Node.make(node.op, (x, y), node.attributes)

    return ((_map_named("subtract", product(a, c), product(b, d)), _map_named("add", product(a, d), product(b, c))),)


def _view_as_real(node: Node, operands: Sequence[Value]) -> tuple[Value, ...]:
    return ((memory_of_parts(operands[0]),),)


def _view_as_complex(node: Node, operands: Sequence[Value]) -> tuple[Value, ...]:
    return (parts_of_memory(operands[0][0]),)


def _same_memory(node: Node, operands: Sequence[Value]) -> tuple[Value, ...]:
    return (operands[0],)


def _spread(values: tuple[float, ...] | tuple[int, ...], dtype: QuantizedDType, of: DType, x: Node) -> Node:
    """Scales or zero points at every index of x."""
    array = convert_array(np.asarray(values), of)
    if dtype.axis is None:
        return builders.broadcast_scalar(builders.constant(array.reshape(())), x.shape)
    return builders.view(builders.constant(array), (dtype.axis,), x.shape)


def _quantize(node: Node, operands: Sequence[Value]) -> tuple[Value, ...]:
    """round(x / scale) + zero point, clamped."""
    ((x,),), dtype = operands, node.attributes.dtype
    real = dtype.expressed
    steps = _map_named("round", _map_named("divide", x, _spread(dtype.scales, dtype, real, x)))
    stored = _map_named("add", steps, _spread(dtype.zero_points, dtype, real, x))
    for name, bound in (("maximum", dtype.low), ("minimum", dtype.high)):
        limit = builders.constant(convert_array(np.asarray(bound), real))
        stored = _map_named(name, stored, builders.broadcast_scalar(limit, x.shape))
    return ((_map_named(f"astype_{dtype.storage}", stored),),)


def _dequantize(node: Node, operands: Sequence[Value]) -> tuple[Value, ...]:
    """(stored - zero point) * scale."""
    ((x,),), dtype = operands, node.attributes.dtype
    whole = I32 if dtype.storage.bits <= 16 else I64
    difference = _map_named("subtract", _map_named(f"astype_{whole}", x), _spread(dtype.zero_points, dtype, whole, x))
    return ((_map_named("multiply", _map_named(f"astype_{dtype.expressed}", difference),
                        _spread(dtype.scales, dtype, dtype.expressed, x)),),)


def _map_named(name: str, *operands: Node) -> Node:
    return builders.map_scalar(scalar_op_named(name), *operands)


def _functions(node: Node, operands: Sequence[Value]) -> tuple[Value, ...]:
    """Operations of several operands whose functions take elements of all: each part is an operand of its own."""
    a = node.attributes
    if isinstance(a, SortAttributes):
        (function,) = function_parts(a.function)
        attributes = dataclasses.replace(a, function=function)
    else:
        attributes = dataclasses.replace(a, functions=tuple(p for f in a.functions for p in function_parts(f)))
    return _split(Node.make(node.op, tuple(part for x in operands for part in x), attributes), node.type)


def _in_parts(node: Node, operands: Sequence[Value]) -> tuple[Value, ...]:
    """Operations that take real and imaginary parts as operands of their own."""
    return _split(Node.make(node.op, tuple(part for x in operands for part in x), node.attributes), node.type)


def _region(region: Region) -> Region:
    """The region with a parameter and a result for each part."""
    values: dict[Node, tuple[Value, ...]] = {}
    parameters: list[Node] = []
    for x in region.parameters:
        types = [TensorType(x.dtype.part, x.shape)] * 2 if x.dtype.is_complex else [memory_type(x.tensor_type)]
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
    "view_as_real": _view_as_real, "view_as_complex": _view_as_complex,
    "quantize": _quantize, "dequantize": _dequantize,
    **dict.fromkeys(("view_as_storage", "view_as_quantized"), _same_memory),
    **dict.fromkeys(("scatter", "reduce_general", "cumulative", "sort"), _functions),
    **dict.fromkeys(("cholesky", "triangular_solve", "fft"), _in_parts),
    **dict.fromkeys(("if", "case", "while", "scan"), _control),
    **dict.fromkeys((*MOVEMENT, "overlap_add"), _partwise),
}

__all__ = ["Apart", "memory_type", "take_apart"]

"""Printing programs as text. Everything printed reads back to the same interned nodes."""

from __future__ import annotations

import base64
import collections
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tcp_eqsat.errors import VerificationError
from tcp_eqsat.lang.dims import LARGEST, Symbol, format_size, symbols_of
from tcp_eqsat.lang.narrow import encode_float, is_beyond
from tcp_eqsat.lang.op import region_fields, regions_of, size_fields
from tcp_eqsat.lang.ops.attributes import (
    CompositeAttributes,
    ConstantAttributes,
    ContractAttributes,
    IotaAttributes,
    MapAttributes,
    ReduceAttributes,
    SliceAttributes,
    ViewAttributes,
)
from tcp_eqsat.lang.program import Function, Node, Program, Region, TensorData, walk
from tcp_eqsat.lang.scalar import ScalarApply, ScalarExpr, ScalarFunction, ScalarLiteral, ScalarParameter
from tcp_eqsat.lang.text.names import index_name, is_plain, quoted, region_labels
from tcp_eqsat.lang.types import DType, TupleType

VERSION = 1
_DENSE_LIMIT = 64  # elements; larger constants are printed as base64


def write(program: Program) -> str:
    """The whole program, functions in order."""
    return "\n\n".join([f"tcp {VERSION}", *map(write_function, program.functions.values())]) + "\n"


def write_function(function: Function) -> str:
    """One function, without the version line."""
    names = _Names(function.parameters, function.names)
    parameters = ", ".join(f"{names[x]}: {x.type}" for x in function.parameters)
    results = ", ".join(str(x.type) for x in function.results)
    sizes = [size for x in function.nodes() for size in _sizes(x)]
    symbols = symbols_of(*sizes, *(size for g in function.guards for size in (g.left, g.right)))
    _check_names(function, symbols)
    where = [text for symbol in symbols for text in _ranges(symbol)]
    where += [f"{format_size(g.left)} == {format_size(g.right)}" for g in function.guards]
    clause = f" where {', '.join(where)}" if where else ""
    results = results if len(function.results) == 1 else f"({results})"
    head = f"func @{quoted(function.name)}({parameters}) -> {results}{clause} {{"
    body = _body(function.nodes(), set(function.parameters), names, "  ")
    returned = ", ".join(names[x] for x in function.results)
    return "\n".join([head, *body, f"  return {returned}".rstrip(), "}"])


def _sizes(node: Node) -> Iterable[Any]:
    types = node.type.items if isinstance(node.type, TupleType) else (node.type,)
    yield from (size for t in types for size in t.shape)
    for region in regions_of(node.attributes):
        for inner in walk((*region.parameters, *region.results)):
            yield from _sizes(inner)
    if node.attributes is not None:
        for name in size_fields(node.attributes.__class__):
            value = getattr(node.attributes, name)
            yield from value if isinstance(value, tuple) else getattr(value, "shape", (value,))


def _check_names(function: Function, symbols: Sequence[Symbol]) -> None:
    """Raises VerificationError where a name stands for two parameters or sizes, or parameters are out of order."""
    for what, names in (("parameter", function.parameter_names), ("size", tuple(s.name for s in symbols))):
        twice = next((name for name, count in collections.Counter(names).items() if count > 1), None)
        if twice is not None:
            raise VerificationError(f"{function.name} requires different {what} names, {twice!r} is there twice")
    for index, x in enumerate(function.parameters):
        if x.attributes.index != index:
            raise VerificationError(
                f"{function.name} requires parameters 0, 1, ..., got parameter {x.attributes.index} at {index}")


def _ranges(symbol: Symbol) -> list[str]:
    default = (symbol.lower, symbol.upper) == (0, LARGEST)
    texts = [] if default else [f"{symbol.name} in [{symbol.lower}, {symbol.upper}]"]
    return texts + ([f"{symbol.name} % {symbol.divisor} == 0"] if symbol.divisor != 1 else [])


class _Names:
    """A name for every node: a parameter's own, else the source's where it is plain and free, else a number."""

    def __init__(self, parameters: Iterable[Node], known: Mapping[Node, str]) -> None:
        self.names = {x: x.attributes.name for x in parameters}
        self.taken = set(self.names.values())
        for node, name in known.items():
            if node not in self.names and name not in self.taken and is_plain(name) and not name.isdigit():
                self.names[node] = name
                self.taken.add(name)
        self.count = 0

    def __getitem__(self, node: Node) -> str:
        name = self.names.get(node)
        if name is None:
            while str(self.count) in self.taken:
                self.count += 1
            name = self.names[node] = str(self.count)
            self.count += 1
        return f"%{quoted(name)}"


def _body(nodes: Iterable[Node], given: set[Node], names: _Names, indent: str) -> list[str]:
    return [f"{indent}{names[node]} = {_operation(node, names, indent)}: {node.type}"
            for node in nodes if node not in given]


def _operation(node: Node, names: _Names, indent: str) -> str:
    operands = [names[x] for x in node.operands]
    writer = _FORMS.get(type(node.attributes))
    if writer is not None:
        return writer(node, node.attributes, operands)
    if isinstance(node.attributes, CompositeAttributes):
        return _composite(node, node.attributes, operands, indent)
    regions = "".join(f" {label} {_region(region, indent)}" for label, region in _labelled(node.attributes))
    head = f"{node.op.name} {', '.join(operands)}".rstrip()
    return f"{head}{_generic(node.attributes)}{regions}"


def _labelled(attributes: Any) -> Iterable[tuple[str, Region]]:
    """The regions among attributes, each with the word before it."""
    regions = regions_of(attributes)
    labels = [label for _, words in region_labels(attributes.__class__) for label in words or ("branch",) * len(regions)
              ] if regions else []
    return zip(labels, regions, strict=True)


def _generic(attributes: Any) -> str:
    """`{name = value, ...}` for attributes without a form of their own."""
    if attributes is None:
        return ""
    fields = [f"{f.name} = {_value(getattr(attributes, f.name))}" for f in dataclasses.fields(attributes)
              if f.name != "shape" and f.name not in region_fields(attributes.__class__)]
    return f" {{{', '.join(fields)}}}" if fields else ""


def _value(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, ScalarFunction):
        return format_function(value)
    return value.name if hasattr(value, "name") else format_size(value)


def _indexed(operand: str, labels: Iterable[int]) -> str:
    return f"{operand}[{', '.join(map(index_name, labels))}]"


def _view(node: Node, attributes: ViewAttributes, operands: list[str]) -> str:
    result = _indexed("", range(len(attributes.shape)))
    return f"view {_indexed(operands[0], attributes.labels)} -> {result}"


def _reduce(node: Node, attributes: ReduceAttributes, operands: list[str]) -> str:
    result = _indexed("", range(attributes.rank))
    return f"reduce {attributes.operation.name} {_indexed(operands[0], attributes.labels)} -> {result}"


def _contract(node: Node, attributes: ContractAttributes, operands: list[str]) -> str:
    terms = f"{_indexed(operands[0], attributes.lhs)}, {_indexed(operands[1], attributes.rhs)}"
    return f"contract {terms} -> {_indexed('', range(attributes.rank))}"


def _slice(node: Node, attributes: SliceAttributes, operands: list[str]) -> str:
    parts = []
    for start, limit, stride in zip(attributes.starts, attributes.limits, attributes.strides, strict=True):
        step = f":{stride}" if stride != 1 else ""
        parts.append(f"{format_size(start)}:{format_size(limit)}{step}")
    return f"slice {operands[0]}[{', '.join(parts)}]"


def _iota(node: Node, attributes: IotaAttributes, operands: list[str]) -> str:
    return f"iota {{axis = {attributes.axis}}}"


def _constant(node: Node, attributes: ConstantAttributes, operands: list[str]) -> str:
    return f"constant {format_data(attributes.data)}"


def _map(node: Node, attributes: MapAttributes, operands: list[str]) -> str:
    op = attributes.function.single_op
    head = op.name if op else f"map {format_function(attributes.function)}"
    return f"{head} {', '.join(operands)}"


_FORMS: dict[type, Callable[[Node, Any, list[str]], str]] = {
    ViewAttributes: _view, ReduceAttributes: _reduce, ContractAttributes: _contract, SliceAttributes: _slice,
    IotaAttributes: _iota, ConstantAttributes: _constant, MapAttributes: _map,
}


def _composite(node: Node, attributes: CompositeAttributes, operands: list[str], indent: str) -> str:
    return f"composite @{quoted(attributes.name)} {', '.join(operands)} {_region(attributes.region, indent)}"


def _region(region: Region, indent: str) -> str:
    """`(parameters) { ... return results }`."""
    names = _Names(region.parameters, {})
    parameters = ", ".join(f"{names[x]}: {x.type}" for x in region.parameters)
    body = _body(walk((*region.parameters, *region.results)), set(region.parameters), names, indent + "  ")
    returned = ", ".join(names[x] for x in region.results)
    return "\n".join([f"({parameters}) {{", *body, f"{indent}  return {returned}", f"{indent}}}"])


# Numbers and scalar functions


def format_number(value: Any, dtype: DType) -> str:
    """A number that reads back to the same bits."""
    if dtype.is_complex:
        return f"({format_number(value.real, dtype.part)}, {format_number(value.imag, dtype.part)})"
    if dtype.is_float:
        if np.isnan(value):
            return "nan"
        if np.isinf(value):
            return "inf" if value > 0 else "-inf"
        number = _shortest(value, dtype) if dtype.bits < 32 else value
        return np.format_float_scientific(number, trim="0") if value != 0 and not 1e-4 <= abs(
            number) < 1e16 else np.format_float_positional(number, trim="0")
    return str(bool(value)).lower() if dtype.name == "bool" else str(int(value))


def _shortest(value: Any, dtype: DType) -> float:
    """The f64 of fewest digits that rounds to a value of a narrow dtype."""
    bits = np.asarray(value, dtype.numpy).tobytes()
    near = (float(f"{float(value):.{digits}e}") for digits in range(9))
    return next(x for x in near if encode_float(x, dtype).tobytes() == bits and not is_beyond(x, dtype))


def format_data(data: TensorData) -> str:
    """Nested lists of numbers, `splat n`, or base64 of little-endian elements.

    Numbers have one NaN, so that others are written as base64.
    """
    array = data.array
    as_numbers = not (data.dtype.is_float or data.dtype.is_complex) or _has_usual_nans(array)
    if array.size and array.ndim and as_numbers and data.is_splat:
        return f"splat {format_number(array.reshape(-1)[0], data.dtype)}"
    if array.size <= _DENSE_LIMIT and as_numbers:
        return _nested(array, data.dtype)
    size = data.dtype.bytes
    little = array.reshape(-1).view(f"u{size}").astype(f"<u{size}") if size < 4 else array.astype(
        array.dtype.newbyteorder("<"))
    return f'base64 "{base64.b64encode(little.tobytes()).decode()}"'


def _has_usual_nans(array: np.ndarray) -> bool:
    if array.dtype.kind == "c":
        return _has_usual_nans(array.reshape(-1).view(array.real.dtype))
    with np.errstate(invalid="ignore"):  # signalling NaNs
        nans = array[np.isnan(array)]
    return nans.tobytes() == np.full_like(nans, np.nan).tobytes()


def _nested(array: np.ndarray, dtype: DType) -> str:
    if array.ndim == 0:
        return format_number(array[()], dtype)
    return f"[{', '.join(_nested(part, dtype) for part in array)}]"


_SCALAR_DEPTH = 30


def format_function(function: ScalarFunction) -> str:
    """`(a0: f32, a1: f32) { t0 = exp(a0); add(t0, t0) }`: what is used more than once or is deep gets a name."""
    uses: dict[ScalarExpr, int] = {}
    order = list(function.walk())
    for expr in order:
        for x in expr.operands:
            uses[x] = uses.get(x, 0) + 1
    texts: dict[ScalarExpr, str] = {}
    depths: dict[ScalarExpr, int] = {}
    statements: list[str] = []
    for expr in order:
        depths[expr] = 1 + max((depths[x] for x in expr.operands), default=0)
        match expr:
            case ScalarParameter():
                texts[expr] = f"a{expr.index}"
            case ScalarLiteral():
                texts[expr] = f"{expr.dtype} {format_number(expr.value, expr.dtype)}"
            case ScalarApply():
                text = f"{expr.op.name}({', '.join(texts[x] for x in expr.arguments)})"
                if uses.get(expr, 0) > 1 or depths[expr] > _SCALAR_DEPTH:
                    name = f"t{len(statements)}"
                    statements.append(f"{name} = {text}; ")
                    text, depths[expr] = name, 0
                texts[expr] = text
    parameters = ", ".join(f"a{i}: {dtype}" for i, dtype in enumerate(function.parameters))
    return f"({parameters}) {{ {''.join(statements)}{texts[function.result]} }}"

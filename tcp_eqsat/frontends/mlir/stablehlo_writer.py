"""Programs as StableHLO text, in generic form.

A program is decomposed into operations that StableHLO has (`stablehlo_spelling`), and a table (`stablehlo_forms`)
says how each is written. Sizes that are not numbers are computed from the parameters' shapes, as tensors of i32.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

import numpy as np

from tcp_eqsat.errors import ShapeMismatch, TcpError, UnknownName
from tcp_eqsat.frontends.mlir.decompose import decomposed
from tcp_eqsat.frontends.mlir.dense_text import dense_text
from tcp_eqsat.frontends.mlir.elements import element_text
from tcp_eqsat.frontends.mlir.stablehlo_spelling import STABLEHLO_REWRITES
from tcp_eqsat.frontends.mlir.syntax_text import symbol_text
from tcp_eqsat.lang.dims import Atom, Dim, Floor, Maximum, Minimum, Size, Symbol, symbols_of
from tcp_eqsat.lang.ops.builders import map_function, parameter
from tcp_eqsat.lang.program import Function, Node, Program, Region, TensorData
from tcp_eqsat.lang.quantized import QuantizedDType
from tcp_eqsat.lang.scalar import ScalarFunction
from tcp_eqsat.lang.types import DType, Shape, TensorType, TupleType

Form = Callable[["Body", Node, "list[Operand]"], "Operand | tuple[Operand, ...]"]


class Operand(NamedTuple):
    """A value of the text: its name and its type."""

    name: str
    type: str


def dtype_text(dtype: DType) -> str:
    """An element type."""
    if not isinstance(dtype, QuantizedDType):
        return element_text(dtype)
    storage = element_text(dtype.storage)
    axis = "" if dtype.axis is None else f":{dtype.axis}"
    pairs = ", ".join(f"{s!r}:{z}" for s, z in zip(dtype.scales, dtype.zero_points, strict=True))
    scales = pairs if dtype.axis is None else f"{{{pairs}}}"
    return f"!quant.uniform<{storage}<{dtype.low}:{dtype.high}>:{element_text(dtype.expressed)}{axis}, {scales}>"


def type_text(type_: TensorType) -> str:
    """`tensor<?x16xf32>`, every symbolic size a `?`."""
    sizes = "".join(f"{size if isinstance(size, int) else '?'}x" for size in type_.shape)
    return f"tensor<{sizes}{dtype_text(type_.dtype)}>"


def is_known(shape: Sequence[Size]) -> bool:
    """Whether every size is a number."""
    return all(isinstance(size, int) for size in shape)


def integers(values: Sequence[Size]) -> str:
    """`array<i64: 0, 1>` of numbers."""
    numbers = ", ".join(map(str, values))
    return f"array<i64: {numbers}>" if numbers else "array<i64>"


def write_stablehlo(program: Program, forms: Mapping[str, Form]) -> str:
    """The program as a module of StableHLO, functions in order.

    Raises UnknownName for what StableHLO has no operation for, ShapeMismatch where a symbol can't be computed from
    the parameters' shapes.
    """
    functions = "\n".join(_function_text(function, forms) for function in program.functions.values())
    return f"module {{\n{functions}}}\n"


def _function_text(function: Function, forms: Mapping[str, Form]) -> str:
    text = Text(forms)
    body = Body(text)
    whole = decomposed(function, STABLEHLO_REWRITES)
    arguments = []
    for number, x in enumerate(function.parameters):
        operand = Operand(f"%arg{number}", type_text(x.tensor_type))
        body.values[x] = (operand,)
        arguments.append(f"{operand.name}: {operand.type}")
    body.bind_symbols(function)
    results = body.results(whole.results, whole)
    types = ", ".join(x.type for x in results)
    head = f"  func.func public {symbol_text(function.name)}({', '.join(arguments)}) -> ({types}) {{"
    names = ", ".join(x.name for x in results)
    end = f'    "func.return"({names}) : ({types}) -> ()'
    return "\n".join([head, *text.lines, end, "  }"]) + "\n"


@dataclass
class Text:
    """The lines of a function, and names for its values."""

    forms: Mapping[str, Form]
    lines: list[str] = field(default_factory=list)
    indent: str = "    "
    names: Iterator[int] = field(default_factory=count)

    def fresh(self) -> str:
        return f"%{next(self.names)}"


@dataclass
class Body:
    """The values of a function, or of a region inside it."""

    text: Text
    values: dict[Node, tuple[Operand, ...]] = field(default_factory=dict)
    sizes: dict[Size | Atom, Operand] = field(default_factory=dict)
    shapes: dict[Shape, Operand] = field(default_factory=dict)

    def results(self, nodes: Sequence[Node], function: Function | None = None) -> list[Operand]:
        """Writes what the nodes need, and gives their operands."""
        for node in (function or Function("region", (), tuple(nodes))).nodes():
            if node not in self.values:
                try:
                    self._write(node)
                except TcpError as error:
                    raise error.at(function.locations.get(node) if function else None) from None
        return [self.values[x][0] for x in nodes]

    def _write(self, node: Node) -> None:
        name = node.op.name
        if name == "project":
            self.values[node] = (self.values[node.operands[0]][node.attributes.index],)
            return
        form = self.text.forms.get(name)
        if form is None:
            raise UnknownName(f"StableHLO has no operation for {name}")
        found = form(self, node, [self.values[x][0] for x in node.operands])
        self.values[node] = (found,) if isinstance(found, Operand) else found

    # Operations

    def op(self, name: str, operands: Sequence[Operand], result: str, *attributes: str) -> Operand:
        """Writes an operation with one result."""
        (found,) = self.op_with_regions(name, operands, (result,), (), *attributes)
        return found

    def op_with_regions(
        self, name: str, operands: Sequence[Operand], results: Sequence[str], regions: Sequence[Sequence[str]],
        *attributes: str,
    ) -> tuple[Operand, ...]:
        """Writes an operation whose regions are lines that stand already."""
        text = self.text
        label = text.fresh() if results else ""
        many = f":{len(results)}" if len(results) > 1 else ""
        properties = f" <{{{', '.join(attributes)}}}>" if attributes else ""
        head = f"{text.indent}{label}{many} = " if results else text.indent
        head += f'"{name}"({", ".join(x.name for x in operands)}){properties}'
        shown = results[0] if len(results) == 1 else f"({', '.join(results)})"
        types = f" : ({', '.join(x.type for x in operands)}) -> {shown}"
        if not regions:
            text.lines.append(head + types)
        else:
            text.lines.append(f"{head} ({{")
            for number, lines in enumerate(regions):
                if number:
                    text.lines.append(f"{text.indent}}}, {{")
                text.lines += lines
            text.lines.append(f"{text.indent}}}){types}")
        if not many:
            return tuple(Operand(label, result) for result in results)
        return tuple(Operand(f"{label}#{n}", result) for n, result in enumerate(results))

    def constant(self, array: np.ndarray) -> Operand:
        data = TensorData(np.asarray(array))
        type_ = type_text(TensorType(data.dtype, data.shape))
        return self.op("stablehlo.constant", (), type_, f"value = {dense_text(data)}")

    # Regions

    @contextmanager
    def region(self, arguments: Sequence[TensorType]) -> Iterator[tuple[Body, list[Operand], list[str]]]:
        """A body of its own with arguments, whose lines are collected."""
        text = self.text
        operands = [Operand(text.fresh(), type_text(x)) for x in arguments]
        outer, indent = text.lines, text.indent
        lines: list[str] = []
        text.lines, text.indent = lines, indent + "  "
        if operands:
            lines.append(f"{indent}^bb0({', '.join(f'{x.name}: {x.type}' for x in operands)}):")
        try:
            yield Body(text, {}, dict(self.sizes), dict(self.shapes)), operands, lines
        finally:
            text.lines, text.indent = outer, indent

    def end(self, results: Sequence[Operand]) -> None:
        types = ", ".join(x.type for x in results)
        names = ", ".join(x.name for x in results)
        self.text.lines.append(f'{self.text.indent}"stablehlo.return"({names}) : ({types}) -> ()')

    def run(self, region: Region, arguments: Sequence[Operand]) -> list[Operand]:
        """What a region of the program gives on operands, written here."""
        self.values.update((x, (y,)) for x, y in zip(region.parameters, arguments, strict=True))
        whole = decomposed(Function("region", region.parameters, region.results), STABLEHLO_REWRITES)
        return self.results(whole.results)

    def scalar_region(
        self, functions: Sequence[ScalarFunction], order: Sequence[int] | None = None
    ) -> list[str]:
        """Scalar functions of the same parameters as a region; argument n is parameter order[n]."""
        dtypes = functions[0].parameters
        arguments = range(len(dtypes)) if order is None else order
        parameters = tuple(parameter(f"x{n}", n, TensorType(dtype)) for n, dtype in enumerate(dtypes))
        results = tuple(map_function(f, *parameters) for f in functions)
        whole = decomposed(Function("region", parameters, results), STABLEHLO_REWRITES)
        with self.region([TensorType(dtypes[n]) for n in arguments]) as (body, operands, lines):
            body.values.update((parameters[n], (x,)) for n, x in zip(arguments, operands, strict=True))
            body.end(body.results(whole.results))
        return lines

    # Sizes

    def bind_symbols(self, function: Function) -> None:
        """Computes every symbol from a parameter's shape. Raises ShapeMismatch where none tells it."""
        places = [(x, axis, size) for x in function.parameters for axis, size in enumerate(x.shape)
                  if isinstance(size, Dim)]
        told: set[tuple[Node, int]] = set()
        for each in function.symbols:
            found = _linear_place(places, each)
            if found is None:
                raise ShapeMismatch(
                    f"StableHLO of {function.name} requires {each.name} as a size of a parameter, or one that is "
                    "linear in it")
            x, axis, offset, factor = found
            extent = self._extent(x, axis)
            moved = self._combined("subtract", extent, self._number(offset)) if offset else extent
            self.sizes[each] = self._combined("divide", moved, self._number(factor)) if factor != 1 else moved
            if not offset and factor == 1:
                told.add((x, axis))
        self._assert(function, [place for place in places if place[:2] not in told])

    def _assert(self, function: Function, places: Sequence[tuple[Node, int, Dim]]) -> None:
        """States ranges, divisors and equal sizes, which types don't, as JAX's exports do."""
        for each in function.symbols:
            if each.lower > 0:
                self._claim("GE", self.sizes[each], self._number(each.lower))
            if each.divisor > 1:
                rest = self._combined("remainder", self.sizes[each], self._number(each.divisor))
                self._claim("EQ", rest, self._number(0))
        for x, axis, size in places:
            self._claim("EQ", self._extent(x, axis), self.size(size))
        for guard in function.guards:
            self._claim("EQ", self.size(guard.left), self.size(guard.right))

    def _claim(self, direction: str, x: Operand, y: Operand) -> None:
        holds = self.op(
            "stablehlo.compare", (x, y), "tensor<i1>",
            f"comparison_direction = #stablehlo<comparison_direction {direction}>")
        self.op_with_regions(
            "stablehlo.custom_call", (holds,), (), (), 'call_target_name = "shape_assertion"',
            'error_message = "sizes are outside of what the program is for"', "has_side_effect = true")

    def _extent(self, x: Node, axis: int) -> Operand:
        return self.op("stablehlo.get_dimension_size", self.values[x], _SCALAR, f"dimension = {axis} : i64")

    def _number(self, value: int) -> Operand:
        return self.constant(np.array(value, np.int32))

    def _combined(self, name: str, x: Operand, y: Operand) -> Operand:
        return self.op(f"stablehlo.{name}", (x, y), _SCALAR)

    def size(self, size: Size) -> Operand:
        """A size as a tensor<i32>."""
        if isinstance(size, int):
            return self._number(size)
        if size not in self.sizes:
            total: Operand | None = None
            for coefficient, monomial in size.terms:
                factors = [self._atom(atom) for atom, exponent in monomial for _ in range(exponent)]
                if coefficient != 1 or not factors:
                    factors.append(self._number(coefficient))
                term = functools.reduce(functools.partial(self._combined, "multiply"), factors)
                total = term if total is None else self._combined("add", total, term)
            assert total is not None, size
            self.sizes[size] = total
        return self.sizes[size]

    def _atom(self, atom: Atom) -> Operand:
        if atom not in self.sizes:
            match atom:
                case Floor(dividend, divisor):
                    found = self._combined("divide", self.size(dividend), self.size(divisor))
                case Minimum(operands) | Maximum(operands):
                    name = "minimum" if isinstance(atom, Minimum) else "maximum"
                    found = self.size(operands[0])
                    for other in operands[1:]:
                        found = self._combined(name, found, self.size(other))
                case _:
                    raise ShapeMismatch(f"StableHLO requires {atom} from the parameters' shapes")
            self.sizes[atom] = found
        return self.sizes[atom]

    def shape(self, shape: Shape) -> Operand:
        """A shape as a tensor of i32."""
        if shape not in self.shapes:
            self.shapes[shape] = self._vector(shape)
        return self.shapes[shape]

    def _vector(self, shape: Shape) -> Operand:
        type_ = f"tensor<{len(shape)}xi32>"
        if is_known(shape):
            return self.constant(np.array(shape, np.int32))
        parts = [self.op("stablehlo.reshape", (self.size(size),), "tensor<1xi32>") for size in shape]
        return parts[0] if len(parts) == 1 else self.op("stablehlo.concatenate", parts, type_, "dimension = 0 : i64")


_SCALAR = "tensor<i32>"


def _linear_place(
    places: Sequence[tuple[Node, int, Dim]], each: Symbol
) -> tuple[Node, int, int, int] | None:
    """A parameter, an axis, offset and factor, where the axis has size factor * symbol + offset; simple ones first."""
    for x, axis, size in sorted(places, key=lambda place: len(str(place[2]))):
        if symbols_of(size) != (each,):
            continue
        zero, one, two = (size.substitute({each.name: n}) for n in (0, 1, 2))
        if isinstance(zero, int) and isinstance(one, int) and one > zero and two == 2 * one - zero:
            return x, axis, zero, one - zero
    return None


def result_types(node: Node) -> tuple[TensorType, ...]:
    """The types of a node's results."""
    return node.type.items if isinstance(node.type, TupleType) else (node.type,)


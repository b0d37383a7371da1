"""Reading programs from our text. Every error is a TcpError with file, line and column."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable
from typing import Any

from tcp_eqsat.errors import Location, ParseError, TcpError, TypeMismatch, UnknownName
from tcp_eqsat.lang.dims import LARGEST, Guard, Size, equal, symbol
from tcp_eqsat.lang.op import OPS
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.ops.attributes import (
    ConcatenateAttributes,
    PadAttributes,
    ProjectAttributes,
    ReduceAttributes,
    ReshapeAttributes,
    SliceAttributes,
    ViewAttributes,
)
from tcp_eqsat.lang.program import Function, Node, Program, Region
from tcp_eqsat.lang.quantized import QuantizedDType
from tcp_eqsat.lang.scalar import (
    ScalarFunction,
    find_scalar_op,
    scalar_op_named,
)
from tcp_eqsat.lang.text.names import index_order, quoted, region_labels
from tcp_eqsat.lang.text.tokens import Source, Token
from tcp_eqsat.lang.text.values import MAX_DEPTH, ValueReader
from tcp_eqsat.lang.types import DType, Shape


def parse(text: str, file: str = "<text>") -> Program:
    """The program that `text` spells.

    Raises ParseError for malformed text, UnknownName for unknown operations, values and dtypes, and TypeMismatch or
    ShapeMismatch where an operation does not type or its stated type is not the inferred one.
    """
    source = Source(text, file)
    source.expect("tcp")
    version = source.expect_kind("number", "a version number")
    if version.text != "1":
        raise ParseError(f"version 1 of the format is read here, got {version.text}", source.location(version.offset))
    functions: dict[str, Function] = {}
    while source.token.kind != "end":
        place = source.place
        try:
            function = _FunctionReader(source).read()
        except TcpError as error:
            raise error.at(source.place) from None
        if function.name in functions:
            raise ParseError(f"function @{function.name} is defined twice", place)
        functions[function.name] = function
    if not functions:
        raise source.error("a function is required")
    return Program(functions)


class _FunctionReader(ValueReader):
    """Reads one function. Symbols are scoped to it."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.ranges: dict[str, tuple[Location, int, int, int]] = {}
        self.depth = 0

    def read(self) -> Function:
        source = self.source
        source.expect("func")
        name = source.expect_named("symbol", "a function name such as @main")
        self.guards = self._scan_where()
        values: dict[str, Node] = {}
        parameters = self._parameters(values)
        source.expect("->")
        stated = self._result_types()
        if source.at("where") and self.body:
            source.position = self.body
        self.locations: dict[Node, Location] = {}
        self.names: dict[Node, str] = {node: name for name, node in values.items()}
        results = self._body(values, top=True)
        place = source.location(source.tokens[source.position - 1].offset)
        if tuple(x.type for x in results) != stated:
            found = ", ".join(str(x.type) for x in results)
            raise TypeMismatch(f"@{name} states results {', '.join(map(str, stated))} but returns {found}", place)
        return Function(name, parameters, results, self.names, self.locations, self.guards)

    # Symbols and their ranges come before types, though they are written after them.

    def _scan_where(self) -> tuple[Guard, ...]:
        """Read the where clause ahead, so that symbols have their ranges when types are read."""
        source, start = self.source, self.source.position
        depth = self.body = 0
        guards: tuple[Guard, ...] = ()
        while source.token.kind != "end" and not (depth == 0 and source.at("{")):
            depth += source.at("(", "[") - source.at(")", "]")
            if depth == 0 and source.at("where"):
                source.next()
                guards = self._where()
                self.body = source.position
                break
            source.next()
        source.position = start
        return guards

    def _where(self) -> tuple[Guard, ...]:
        source = self.source
        pending: list[tuple[Token, Token, Token, Token]] = []
        while True:
            if self._is_range():
                self._range()
            else:
                left = self._size_tokens("==", ",", "{")
                source.expect("==")
                right = self._size_tokens(",", "{")
                pending.append((*left, *right))
            if not source.take(","):
                break
        for name, (place, lower, upper, divisor) in self.ranges.items():
            try:
                self.symbols[name] = symbol(name, lower, upper, divisor)
            except TcpError as error:
                raise error.at(place) from None
        return tuple(Guard(self._size_of(a, b), self._size_of(c, d)) for a, b, c, d in pending)

    def _is_range(self) -> bool:
        tokens, n = self.source.tokens, self.source.position
        ahead = [t.text for t in tokens[n: n + 5]]
        return self.source.token.kind == "name" and len(ahead) == 5 and (
            ahead[1] == "in" or (ahead[1] == "%" and ahead[3] == "==" and ahead[4] == "0"))

    def _range(self) -> None:
        source = self.source
        place = source.place
        name = source.next().text
        _, lower, upper, divisor = self.ranges.get(name, (place, 0, LARGEST, 1))
        if ((lower, upper) != (0, LARGEST)) if source.at("in") else divisor != 1:
            raise ParseError(f"size {name} must have one range and one divisor, got another", place)
        if source.take("in"):
            source.expect("[")
            lower = self._integer()
            source.expect(",")
            upper = self._integer()
            source.expect("]")
        else:
            source.next()
            divisor = self._integer()
            source.expect("==")
            self._integer()
        self.ranges[name] = place, lower, upper, divisor

    def _parameters(self, values: dict[str, Node]) -> tuple[Node, ...]:
        source = self.source
        source.expect("(")
        parameters: list[Node] = []
        while not source.at(")"):
            place = source.place
            name = source.expect_named("value", "a parameter such as %x")
            source.expect(":")
            if name in values:
                raise ParseError(f"parameter %{quoted(name)} is defined twice", place)
            type_ = self._tensor_type()
            try:
                values[name] = builders.parameter(name, len(parameters), type_)
            except TcpError as error:
                raise error.at(place) from None
            parameters.append(values[name])
            if not source.take(","):
                break
        source.expect(")")
        return tuple(parameters)

    # Bodies

    def _body(self, values: dict[str, Node], top: bool = False) -> tuple[Node, ...]:
        source = self.source
        source.expect("{")
        while not source.at("return"):
            defined = source.place
            name = source.expect_named("value", "a value such as %0, or return,")
            source.expect("=")
            if name in values:
                raise ParseError(f"value %{quoted(name)} is defined twice", defined)
            operation = source.token
            try:
                node = self._operation(values)
            except TcpError as error:
                raise error.at(source.location_of(operation)) from None
            source.expect(":")
            token = source.token
            stated = self._type()
            if stated != node.type:
                raise TypeMismatch(
                    f"%{quoted(name)} states type {stated} but its operation gives {node.type}",
                    source.location_of(token))
            values[name] = node
            if top:
                self.locations.setdefault(node, defined)
                self.names.setdefault(node, name)
        source.expect("return")
        results = self._operands(values)
        source.expect("}")
        return results

    def _operand(self, values: dict[str, Node]) -> Node:
        token = self.source.token
        name = self.source.expect_named("value", "a value such as %0")
        if name not in values:
            raise UnknownName(f"value %{quoted(name)} is not defined", self.source.location_of(token))
        return values[name]

    def _operands(self, values: dict[str, Node]) -> tuple[Node, ...]:
        operands: list[Node] = []
        while self.source.token.kind == "value":
            operands.append(self._operand(values))
            if not self.source.take(","):
                break
        return tuple(operands)

    def _operation(self, values: dict[str, Node]) -> Node:
        source = self.source
        token = source.expect_kind("name", "an operation")
        form = getattr(self, f"_read_{token.text}", None)
        if form is not None:
            return form(values)
        if find_scalar_op(token.text) is not None:
            return builders.map_scalar(scalar_op_named(token.text), *self._operands_of(token, values))
        if token.text in OPS:
            op = OPS[token.text]
            operands = self._operands(values)
            return Node.make(op, operands, None if op.attributes is None else self._attributes(op.attributes))
        raise UnknownName(f"unknown operation {token.text!r}", source.location(token.offset, len(token.text)))

    def _operands_of(self, token: Token, values: dict[str, Node]) -> tuple[Node, ...]:
        operands = self._operands(values)
        arity = scalar_op_named(token.text).arity
        if len(operands) != arity:
            raise TypeMismatch(f"{token.text} requires {arity} operands, got {len(operands)}")
        return operands

    def _attributes(self, kind: type) -> Any:
        """`{name = value, ...} label (...) {...}`: the fields of an attribute class, in order, regions at the end.

        `shape` is that of the stated type.
        """
        source = self.source
        hints = typing.get_type_hints(kind)
        fields = [f.name for f in dataclasses.fields(kind)]
        regions = dict(region_labels(kind))
        found: dict[str, Any] = {}
        for n, name in enumerate(each for each in fields if each != "shape" and each not in regions):
            source.expect("," if n else "{")
            found[name] = self._attribute(name, lambda hint=hints[name]: self._value(hint))  # type: ignore[misc]
        if found:
            source.expect("}")
        if "shape" in fields:
            found["shape"] = self._peek_tensor().shape
        for name, labels in regions.items():
            found[name] = self._branches() if labels is None else tuple(map(self._labelled, labels))
            found[name] = found[name] if name == "regions" else found[name][0]
        return kind(**found)

    def _labelled(self, label: str) -> Region:
        self.source.expect(label)
        return self._region()

    def _branches(self) -> tuple[Region, ...]:
        regions: list[Region] = []
        while self.source.take("branch"):
            regions.append(self._region())
        return tuple(regions)

    def _region(self) -> Region:
        if self.depth >= MAX_DEPTH:
            raise self.source.error(f"regions nested deeper than {MAX_DEPTH}")
        values: dict[str, Node] = {}
        parameters = self._parameters(values)
        self.depth += 1
        results = self._body(values)
        self.depth -= 1
        return Region(parameters, results)

    def _value(self, hint: Any) -> Any:
        """A value of a field annotated with `hint`."""
        readers: dict[Any, Callable[[], Any]] = {
            int: self._integer, bool: self._truth, Size: lambda: self._size(",", "}"), Shape: self._sizes,
            tuple[int, ...]: self._integers, DType: self._dtype, QuantizedDType: self._dtype,
            ScalarFunction: self._scalar_function,
            tuple[ScalarFunction, ...]: lambda: self._list(self._scalar_function),
        }
        return readers[hint]()

    # Forms of single operations

    def _read_constant(self, values: dict[str, Node]) -> Node:
        source = self.source
        start = source.position
        while not source.at(":") and source.token.kind != "end":
            source.next()
        stated = self._peek_tensor()
        source.position = start
        if not all(isinstance(n, int) for n in stated.shape):
            raise source.error(f"a constant requires static sizes, got {stated}")
        return builders.constant(self._data(stated))

    def _read_iota(self, values: dict[str, Node]) -> Node:
        source = self.source
        source.expect("{")
        axis = self._attribute("axis", self._integer)
        source.expect("}")
        stated = self._peek_tensor()
        return builders.iota(stated.dtype, stated.shape, axis)

    def _read_map(self, values: dict[str, Node]) -> Node:
        function = self._scalar_function()
        return builders.map_function(function, *self._operands(values))

    def _indices(self) -> tuple[str, ...]:
        source = self.source
        source.expect("[")
        names: list[str] = []
        while not source.at("]"):
            token = source.next()
            if token.kind != "name" and token.text != "0":
                raise ParseError(f"an index name or 0 is required, got {token.text!r}", source.location(token.offset))
            names.append(token.text)
            if not source.take(","):
                break
        source.expect("]")
        return tuple(names)

    def _indexed(self, values: dict[str, Node], count: int) -> tuple[list[Node], list[tuple[int, ...]],
                                                                     tuple[Size, ...], int]:
        """`%x[i, k], %w[k, j] -> [i, j]`: operands, their labels, the extents of all labels, the result's rank."""
        source = self.source
        place = source.place
        operands: list[Node] = []
        terms: list[tuple[str, ...]] = []
        for n in range(count):
            if n:
                source.expect(",")
            operands.append(self._operand(values))
            terms.append(self._indices())
        source.expect("->")
        out = self._indices()
        if len(set(out)) != len(out) or "0" in out:
            raise ParseError(f"distinct index names are required in the result, got {list(out)}", place)
        stated = self._peek_tensor()
        if len(out) != stated.rank:
            raise ParseError(f"an index for each axis of {stated} is required, got {list(out)}", place)
        extents: dict[str, Size] = dict(zip(out, stated.shape, strict=True))
        for operand, term in zip(operands, terms, strict=True):
            if len(term) != len(operand.shape):
                raise TypeMismatch(f"an index for each axis of {operand.type} is required, got {list(term)}", place)
            for name, size in zip(term, operand.shape, strict=True):
                if name != "0" and not equal(extents.setdefault(name, size), size):
                    raise TypeMismatch(f"index {name} has sizes {extents[name]} and {size}", place)
        inner = sorted((name for name in extents if name not in out), key=index_order)
        extents = {name: extents[name] for name in (*out, *inner)}
        order = {name: label for label, name in enumerate(extents)}
        labels = [tuple(-1 if name == "0" else order[name] for name in term) for term in terms]
        return operands, labels, tuple(extents.values()), len(out)

    def _read_view(self, values: dict[str, Node]) -> Node:
        (x,), (labels,), extents, rank = self._indexed(values, 1)
        if rank != len(extents):
            raise TypeMismatch("every index of a view's operand must be an index of its result")
        return Node.make(OPS["view"], (x,), ViewAttributes(labels, extents))

    def _read_reduce(self, values: dict[str, Node]) -> Node:
        place = self.source.place
        try:
            operation = scalar_op_named(self.source.expect_kind("name", "a scalar operation").text)
        except UnknownName as error:
            raise error.at(place) from None
        (x,), (labels,), extents, rank = self._indexed(values, 1)
        return Node.make(OPS["reduce"], (x,), ReduceAttributes(operation, labels, extents, rank))

    def _read_contract(self, values: dict[str, Node]) -> Node:
        (x, y), (lhs, rhs), extents, rank = self._indexed(values, 2)
        return builders.contract(x, y, lhs, rhs, extents, rank)

    def _read_reshape(self, values: dict[str, Node]) -> Node:
        x = self._operand(values)
        return Node.make(OPS["reshape"], (x,), ReshapeAttributes(self._peek_tensor().shape))

    def _read_slice(self, values: dict[str, Node]) -> Node:
        source = self.source
        x = self._operand(values)
        source.expect("[")
        starts: list[Size] = []
        limits: list[Size] = []
        strides: list[int] = []
        while not source.at("]"):
            starts.append(self._size(":"))
            source.expect(":")
            limits.append(self._size(",", "]", ":"))
            strides.append(self._integer() if source.take(":") else 1)
            if not source.take(","):
                break
        source.expect("]")
        return Node.make(OPS["slice"], (x,), SliceAttributes(tuple(starts), tuple(limits), tuple(strides)))

    def _read_concatenate(self, values: dict[str, Node]) -> Node:
        operands = self._operands(values)
        self.source.expect("{")
        axis = self._attribute("axis", self._integer)
        self.source.expect("}")
        return Node.make(OPS["concatenate"], operands, ConcatenateAttributes(axis))

    def _read_pad(self, values: dict[str, Node]) -> Node:
        operands = self._operands(values)
        source = self.source
        source.expect("{")
        low = self._attribute("low", self._sizes)
        source.expect(",")
        high = self._attribute("high", self._sizes)
        source.expect("}")
        return Node.make(OPS["pad"], operands, PadAttributes(low, high))

    def _read_project(self, values: dict[str, Node]) -> Node:
        operands = self._operands(values)
        self.source.expect("{")
        index = self._attribute("index", self._integer)
        self.source.expect("}")
        return Node.make(OPS["project"], operands, ProjectAttributes(index))

    def _read_composite(self, values: dict[str, Node]) -> Node:
        name = self.source.expect_named("symbol", "a name such as @softmax")
        operands = self._operands(values)
        return builders.composite(name, self._region(), *operands)

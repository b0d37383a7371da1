"""From egglog's tables to a view, with a numbering that does not depend on egglog's own."""

from __future__ import annotations

import functools
import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tcp_eqsat.egraph.columns import Decoder
from tcp_eqsat.egraph.encode import Encoding, Outside
from tcp_eqsat.egraph.engine import EGraphError, Engine, Tables
from tcp_eqsat.egraph.schema import CONSTANT, OPAQUE, SCALAR, Constructor, constructors
from tcp_eqsat.egraph.view import EGraphView, ENode
from tcp_eqsat.lang.ops.attributes import ConstantAttributes, MapAttributes
from tcp_eqsat.lang.ops.elementwise import map_op
from tcp_eqsat.lang.ops.source import constant_op
from tcp_eqsat.lang.program import TensorData
from tcp_eqsat.lang.scalar import function_of, scalar_op_named
from tcp_eqsat.lang.types import DType, TensorType, Type, dtype_named


def read_view(engine: Engine, tables: Tables, decoder: Decoder, encoding: Encoding) -> EGraphView:
    """The picture of an e-graph. Raises EGraphError where an operand has no class: egglog went wrong then."""
    decoder.read(tables)
    rows = _Rows(engine, tables, decoder, encoding.outside)
    values = {decoder.value("i64", inputs[0]): output for inputs, output in tables.rows("original")}
    order = _number(rows, [values[n] for n in range(len(values))])
    numbers = {value: n for n, value in enumerate(order)}
    if not numbers.keys() >= {*values.values(), *rows.operands()}:
        raise EGraphError("egglog lost the class of a value")
    types = rows.types(order)
    classes = tuple(
        tuple(rows.enode(row, numbers, types) for row in sorted(
            rows.members[value], key=lambda row: _row_key(row, numbers)))
        for value in order)
    return EGraphView(
        classes, tuple(types[n] for n in range(len(order))),
        tuple(numbers[values[n]] for n in encoding.results),
        {node: numbers[values[n]] for node, n in encoding.numbers.items()})


@dataclass(frozen=True, slots=True)
class _Row:
    """An e-node whose operands are still egglog's values; `key` orders rows, `columns` are decoded attributes."""

    constructor: Constructor
    key: tuple[str, str]
    columns: tuple[Any, ...]
    operands: tuple[Any, ...]


class _Rows:
    """The rows of all constructors, by class."""

    def __init__(self, engine: Engine, tables: Tables, decoder: Decoder, outside: Outside) -> None:
        self._tables = tables
        self._decoder = decoder
        self._outside = outside
        self.members: dict[Any, list[_Row]] = defaultdict(list)
        columns_of: dict[tuple[str, tuple[Any, ...]], tuple[tuple[str, str], tuple[Any, ...]]] = {}
        for constructor in constructors().values():
            width = constructor.operands
            for inputs, output in tables.rows(constructor.name):
                if width is None:
                    operands, raw = tuple(engine.items(inputs[0])), inputs[1:]
                else:
                    operands, raw = inputs[:width], inputs[width:]
                if output in operands:
                    continue
                found = columns_of.get((constructor.name, raw))
                if found is None:
                    columns = tuple(
                        decoder.value(sort, value) for sort, value in zip(constructor.sorts, raw, strict=True))
                    text = ";".join(_column_text(x) for x in columns)
                    found = columns_of[(constructor.name, raw)] = ((constructor.name, text), columns)
                self.members[output].append(_Row(constructor, *found, operands))

    def operands(self) -> set[Any]:
        """Every class that is an operand."""
        return {x for members in self.members.values() for row in members for x in row.operands}

    def types(self, order: list[Any]) -> dict[int, Type]:
        """The type of each class, by its place in `order`."""
        dtypes = {inputs[0]: output for inputs, output in self._tables.rows("dtype")}
        shapes = {inputs[0]: output for inputs, output in self._tables.rows("shape")}
        types: dict[int, Type] = {}
        for n, value in enumerate(order):
            if value in shapes:
                types[n] = TensorType(
                    dtype_named(self._decoder.value("String", dtypes[value])),
                    self._decoder.value("Dims", shapes[value]))
            else:
                (row,) = (row for row in self.members[value] if row.constructor is OPAQUE)
                types[n] = self._outside.opaques[row.columns[0]][2]
        return types

    def enode(self, row: _Row, numbers: Mapping[Any, int], types: Mapping[int, Type]) -> ENode:
        operands = tuple(numbers[x] for x in row.operands)
        constructor = row.constructor
        if constructor is OPAQUE:
            op, attributes, _ = self._outside.opaques[row.columns[0]]
            return ENode(op, attributes, operands)
        if constructor is CONSTANT:
            return ENode(constant_op, ConstantAttributes(self._outside.constants[row.columns[0]]), ())
        if constructor is SCALAR:
            return ENode(constant_op, _scalar(*row.columns), ())
        if constructor.op is map_op:
            return ENode(map_op, _map(row.columns[0], tuple(_dtype(types[x]) for x in operands)), operands)
        assert constructor.op is not None
        return ENode(constructor.op, _attributes(constructor, row.columns), operands)


def _dtype(type_: Type) -> DType:
    assert isinstance(type_, TensorType), type_
    return type_.dtype


def _column_text(column: Any) -> str:
    return f"({','.join(map(str, column))})" if isinstance(column, tuple) else str(column)


@functools.lru_cache(maxsize=1 << 12)
def _scalar(dtype: str, bits: str) -> ConstantAttributes:
    return ConstantAttributes(TensorData(np.frombuffer(bytes.fromhex(bits), dtype_named(dtype).numpy).reshape(())))


@functools.lru_cache(maxsize=1 << 12)
def _map(name: str, dtypes: tuple[DType, ...]) -> MapAttributes:
    return MapAttributes(function_of(scalar_op_named(name), *dtypes))


@functools.lru_cache(maxsize=1 << 14)
def _attributes(constructor: Constructor, columns: tuple[Any, ...]) -> Any:
    """The attributes of columns that stand in the order of the fields."""
    assert constructor.op is not None
    if constructor.op.attributes is None:
        return None
    values, position = {}, 0
    for name, codec in constructor.fields:
        end = position + len(codec.sorts)
        values[name] = codec.decode(*columns[position:end])
        position = end
    return constructor.op.attributes(**values)


def _row_key(row: _Row, numbers: Mapping[Any, int]) -> tuple[tuple[str, str], tuple[int, ...]]:
    return row.key, tuple(numbers[x] for x in row.operands)


def _number(rows: _Rows, originals: Iterable[Any]) -> list[Any]:
    """All classes, each after the operands of one of its e-nodes, in an order that does not depend on egglog's numbers.

    Of the classes that may come next, the program's come first, in order; then the one with the smallest e-node over
    what is numbered: congruence makes that a name for its class, no two share it. Every class of an e-graph has a
    finite term, so that every class gets its turn.
    """
    places = {value: n for n, value in reversed(list(enumerate(originals)))}
    numbers: dict[Any, int] = {}
    users: dict[Any, list[tuple[Any, _Row]]] = defaultdict(list)
    missing: dict[int, int] = {}
    heap: list[tuple[int, Any, Any]] = []

    def offer(value: Any, row: _Row) -> None:
        place = places.get(value)
        key = (0, (place,)) if place is not None else (1, _row_key(row, numbers))
        heapq.heappush(heap, (*key, _Unordered(value)))

    for value, members in rows.members.items():
        for row in members:
            operands = set(row.operands)
            missing[id(row)] = len(operands)
            for operand in operands:
                users[operand].append((value, row))
            if not operands:
                offer(value, row)
    while heap:
        value = heapq.heappop(heap)[2].value
        if value not in numbers:
            numbers[value] = len(numbers)
            for user, row in users[value]:
                missing[id(row)] -= 1
                if not missing[id(row)] and user not in numbers:
                    offer(user, row)
    return list(numbers)


@dataclass(frozen=True, slots=True, order=True)
class _Unordered:
    """A value that takes no part in comparisons: equal keys belong to one class."""

    value: Any = field(compare=False)

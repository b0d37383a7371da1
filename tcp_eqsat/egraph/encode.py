"""Programs as egglog commands: one `set` a value.

Composites are expanded, scalar functions are taken apart into single operations, literals become views of a scalar.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tcp_eqsat.egraph.columns import Vocabulary, labels_text, shape_text
from tcp_eqsat.egraph.schema import CONSTANT, MAPS, OPAQUE, SCALAR, Constructor, constructor_of
from tcp_eqsat.errors import LimitError
from tcp_eqsat.lang.op import Op
from tcp_eqsat.lang.ops.elementwise import map_op
from tcp_eqsat.lang.ops.movement import view_op
from tcp_eqsat.lang.ops.source import constant_op, parameter_op
from tcp_eqsat.lang.ops.structure import expand
from tcp_eqsat.lang.program import Function, Node, TensorData, walk
from tcp_eqsat.lang.scalar import ScalarApply, ScalarExpr, ScalarLiteral, ScalarParameter
from tcp_eqsat.lang.types import DType, Shape, TensorType, Type

TYPED_BY_RULES = frozenset(("parameter", "iota", "map", "view", "reshape", "reduce", "contract"))
"""Operations whose result types egglog derives. Others are typed by whoever adds them."""
TYPED_DEPTH = 16
"""Types flow one value a round, so that every value this deep below the last typed ones is typed in the text."""


@dataclass
class Outside:
    """What the e-graph knows by number only: large constants, and operations without a constructor."""

    constants: list[TensorData] = field(default_factory=list)
    opaques: list[tuple[Op, Any, Type]] = field(default_factory=list)
    _numbers: dict[Any, int] = field(default_factory=dict)

    def constant(self, data: TensorData) -> int:
        return self._number(data, self.constants, data)

    def opaque(self, op: Op, attributes: Any, type_: Type) -> int:
        return self._number((op, attributes, type_), self.opaques, (op, attributes, type_))

    def _number(self, key: Any, items: list[Any], item: Any) -> int:
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(items)
            items.append(item)
        return number


@dataclass(frozen=True)
class Encoding:
    """A program in egglog's text.

    lines     commands that define `(original n)` for n = 0, 1, ...
    numbers   n of every value of the function that is a tensor
    results   n of each result
    origins   n of each parameter and constant, in order
    dtypes    every dtype in the program
    names     every tensor and scalar operation in it
    outside   what the numbers in the text stand for
    vocabulary  names that the text uses; the lines define them
    """

    lines: tuple[str, ...]
    numbers: dict[Node, int]
    results: tuple[int, ...]
    origins: tuple[int, ...]
    dtypes: frozenset[DType]
    names: frozenset[str]
    outside: Outside
    vocabulary: Vocabulary


def encode(function: Function) -> Encoding:
    """The function's values as commands, operands before users."""
    expanded = expand((*function.parameters, *function.results))
    roots = [expanded[x] for x in (*function.parameters, *function.results)]
    writer = _Writer()
    for node in walk(roots):
        writer.add(node)
    numbers = {node: writer.numbers[new] for node, new in expanded.items() if new in writer.numbers}
    return Encoding(
        (*writer.vocabulary.definitions(), *writer.lines), numbers, tuple(numbers[x] for x in function.results),
        tuple(writer.origins), frozenset(writer.dtypes), frozenset(writer.names), writer.outside,
        writer.vocabulary)


class _Writer:
    """Writes nodes in order; `numbers` are those of the values written."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.numbers: dict[Node, int] = {}
        self.origins: list[int] = []
        self.outside = Outside()
        self.vocabulary = Vocabulary()
        self.dtypes: set[DType] = set()
        self.names: set[str] = set()
        self._depths: list[int] = []

    def add(self, node: Node) -> None:
        operands = tuple(self.numbers[x] for x in node.operands)
        if node.op is map_op:
            number = self._map(node, operands)
        elif node.op is constant_op:
            number = self._constant(node.attributes.data)
        else:
            number = self._plain(node, operands)
        self.numbers[node] = number
        self.names.add(node.op.name)
        if node.op in (parameter_op, constant_op):
            self.origins.append(number)
        if isinstance(node.type, TensorType):
            self.dtypes.add(node.type.dtype)

    def _define(self, term: str, type_: Type, operands: tuple[int, ...] = (), *, derived: bool = True) -> int:
        """The number of a new value; `derived` says that rules find its type from those of its operands."""
        number = len(self._depths)
        self.lines.append(f"(set (original {number}) {term})")
        depth = max((self._depths[x] for x in operands), default=0) + 1
        if isinstance(type_, TensorType) and (not derived or depth == TYPED_DEPTH):
            depth = 0
            self.lines.append(
                f'(set (dtype (original {number})) "{type_.dtype}")'
                f"(set (shape (original {number})) {self.vocabulary.name(shape_text(type_.shape))})")
        self._depths.append(depth)
        return number

    def _plain(self, node: Node, operands: tuple[int, ...]) -> int:
        constructor, columns = self._columns(node)
        return self._define(
            constructor.text(_references(operands), columns), node.type, operands,
            derived=constructor is not OPAQUE and node.op.name in TYPED_BY_RULES)

    def _columns(self, node: Node) -> tuple[Constructor, tuple[str, ...]]:
        """The constructor and attribute columns; a node whose attributes no column can hold is opaque."""
        constructor = constructor_of(node.op)
        if constructor is not OPAQUE:
            try:
                return constructor, tuple(
                    self.vocabulary.name(text) for name, codec in constructor.fields
                    for text in codec.encode(getattr(node.attributes, name)))
            except LimitError:
                pass
        return OPAQUE, (str(self.outside.opaque(node.op, node.attributes, node.type)),)

    def _constant(self, data: TensorData) -> int:
        type_ = TensorType(data.dtype, data.shape)
        if data.is_splat:
            self.names.add("view")
            return self._define(self._splat(data.dtype, data.array.reshape(-1)[:1].tobytes(), data.shape), type_)
        return self._define(CONSTANT.text((), (str(self.outside.constant(data)),)), type_, derived=False)

    def _splat(self, dtype: DType, bits: bytes, shape: Shape) -> str:
        """The same scalar at every index of a shape."""
        scalar = SCALAR.text((), (f'"{dtype.name}"', f'"{bits.hex()}"'))
        if not shape:
            return scalar
        columns = tuple(map(self.vocabulary.name, (labels_text(()), shape_text(shape))))
        return constructor_of(view_op).text((scalar,), columns)

    def _map(self, node: Node, operands: tuple[int, ...]) -> int:
        """One value for each subexpression."""
        known: dict[ScalarExpr, int] = {}
        for expr in node.attributes.function.walk():
            type_ = TensorType(expr.dtype, node.shape)
            match expr:
                case ScalarParameter():
                    known[expr] = operands[expr.index]
                case ScalarLiteral():
                    known[expr] = self._define(self._splat(expr.dtype, expr.bits, node.shape), type_)
                    self.names |= {"constant", "view"}
                case ScalarApply():
                    arguments = tuple(known[x] for x in expr.arguments)
                    term = MAPS[len(arguments)].text(_references(arguments), (f'"{expr.op.name}"',))
                    known[expr] = self._define(term, type_, arguments)
                    self.names.add(expr.op.name)
            self.dtypes.add(expr.dtype)
        return known[node.attributes.function.result]


def _references(numbers: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(f"(original {n})" for n in numbers)

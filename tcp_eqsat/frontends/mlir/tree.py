"""The syntax tree: what a text says, before any operation is given a meaning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class ElementType:
    """A type without parts: f32, i64, ui8, index, none."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class TensorText:
    """`tensor<?x16xf32, encoding>`; None stands for `?`."""

    shape: tuple[int | None, ...]
    element: SyntaxType
    encoding: str | None = None

    def __str__(self) -> str:
        sizes = "".join(f"{'?' if size is None else size}x" for size in self.shape)
        return f"tensor<{sizes}{self.element}{f', {self.encoding}' if self.encoding else ''}>"


@dataclass(frozen=True, slots=True)
class FunctionType:
    """`(inputs) -> results`."""

    inputs: tuple[SyntaxType, ...]
    results: tuple[SyntaxType, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.inputs))}) -> ({', '.join(map(str, self.results))})"


@dataclass(frozen=True, slots=True)
class ComplexType:
    """`complex<f32>`."""

    element: ElementType

    @property
    def name(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return f"complex<{self.element}>"


@dataclass(frozen=True, slots=True)
class TupleText:
    """`tuple<tensor<f32>, tensor<2xi32>>`."""

    items: tuple[SyntaxType, ...]

    def __str__(self) -> str:
        return f"tuple<{', '.join(map(str, self.items))}>"


@dataclass(frozen=True, slots=True)
class QuantizedType:
    """`!quant.uniform<i8<-127:127>:f32:0, {0.1:2, 0.2}>`: value = scale * (stored - zero point).

    bounds       least and greatest stored value
    axis         the axis along which scales and zero points differ, or None: one of each
    """

    storage: ElementType
    bounds: tuple[int, int]
    expressed: ElementType
    axis: int | None
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class OpaqueType:
    """A type this package gives no structure: `!shape.ranked_shape<?x5xindex>` has this name
    and body."""

    name: str
    body: str = ""

    def __str__(self) -> str:
        mark = "" if self.name in _UNMARKED else "!"
        return f"{mark}{self.name}<{self.body}>" if self.body else f"{mark}{self.name}"


_UNMARKED = frozenset({"array", "memref", "vector"})

SyntaxType = ElementType | ComplexType | QuantizedType | TensorText | TupleText | FunctionType | OpaqueType


class Unit:
    """The value of an attribute that is only named."""

    def __repr__(self) -> str:
        return "unit"


UNIT = Unit()


class Number(NamedTuple):
    """`1 : i32`, `2.5`, `0xFF : i8`. `text` is as written; the type is None when it is not
    stated."""

    text: str
    type: SyntaxType | None
    offset: int


class Dense(NamedTuple):
    """`dense<text> : type`, decoded by `literals.decode`. `offset` is that of the first
    character of `text`."""

    text: str
    type: TensorText
    offset: int


class DenseResource(NamedTuple):
    """`dense_resource<key> : type`, whose bytes stand at the end of the text."""

    key: str
    type: TensorText
    offset: int


class DenseArray(NamedTuple):
    """`array<i64: 1, 2>`."""

    text: str
    element: ElementType
    offset: int


class Symbol(NamedTuple):
    """`@name`, or `@a::@b` as ("a", "b")."""

    path: tuple[str, ...]
    offset: int

    @property
    def name(self) -> str:
        return self.path[-1]


class OpaqueAttribute(NamedTuple):
    """An attribute kept as text: `#dialect.name<...>`, `affine_map<...>`, a location."""

    text: str
    offset: int


Attribute = (
    Number
    | Dense
    | DenseResource
    | DenseArray
    | Symbol
    | OpaqueAttribute
    | SyntaxType
    | Unit
    | str
    | bool
    | tuple
    | dict
)


class Reference(NamedTuple):
    """A value's name where it is defined or used: `%5`, `%1#0`."""

    name: str
    offset: int


class Argument(NamedTuple):
    """`%arg0: type` of a block."""

    name: Reference
    type: SyntaxType


class Block(NamedTuple):
    label: str
    arguments: tuple[Argument, ...]
    operations: tuple[SyntaxOp, ...]


class Region(NamedTuple):
    blocks: tuple[Block, ...]
    offset: int


class SyntaxOp(NamedTuple):
    """One operation, in generic or pretty form alike. `operand_types` are those that the text
    states: one for each operand in generic form. The name as written has `length` characters at
    `offset`."""

    name: str
    results: tuple[Reference, ...]
    operands: tuple[Reference, ...]
    attributes: Mapping[str, Attribute]
    regions: tuple[Region, ...]
    operand_types: tuple[SyntaxType, ...]
    result_types: tuple[SyntaxType, ...]
    offset: int
    length: int

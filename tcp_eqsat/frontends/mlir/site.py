"""What the lowering of one operation sees: its operands as nodes, its attributes as Python values,
its stated types.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tcp_eqsat.errors import Location, TypeMismatch, UnknownName, VerificationError
from tcp_eqsat.frontends.mlir.lexer import Source
from tcp_eqsat.frontends.mlir.elements import ELEMENT_DTYPES
from tcp_eqsat.frontends.mlir.literals import integers
from tcp_eqsat.frontends.mlir.sizes import Sizes
from tcp_eqsat.frontends.mlir.tree import (
    Attribute,
    ElementType,
    OpaqueType,
    Reference,
    SyntaxOp,
    SyntaxType,
    TensorText,
)
from tcp_eqsat.frontends.mlir.types import parse_sizes
from tcp_eqsat.lang.dims import Size
from tcp_eqsat.lang.ops.builders import parameter
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.types import DType, TensorType


@dataclass(frozen=True, slots=True)
class Extents:
    """A shape as a value of the program (`!shape.ranked_shape<...>`), known when the program is
    read."""

    sizes: tuple[Size, ...]


Content = Node | Extents
Lowering = Callable[["Site"], "Content | tuple[Content, ...]"]


@dataclass(slots=True)
class Value:
    """What a name stands for, typed by what was known of the sizes at `version`."""

    content: Content
    defined: Reference
    version: int


@dataclass
class Scope:
    """One pass over one function."""

    source: Source
    sizes: Sizes
    values: dict[str, Value] = field(default_factory=dict)
    parameters: dict[str, Node] = field(default_factory=dict)
    variables: dict[str, Node] = field(default_factory=dict)
    names: dict[Node, str] = field(default_factory=dict)
    locations: dict[Node, Location] = field(default_factory=dict)

    def define(self, reference: Reference, content: Content) -> None:
        """Raises VerificationError where the name is taken."""
        known = self.values.get(reference.name)
        if known is not None:
            first = self.source.location(known.defined.offset)
            raise VerificationError(
                f"{reference.name} is defined twice, first at {first}", self.location_of(reference)
            )
        self.values[reference.name] = Value(content, reference, self.sizes.version)

    def lookup(self, reference: Reference) -> Value:
        """Raises UnknownName."""
        value = self.values.get(reference.name) or self.values.get(f"{reference.name}#0")
        if value is None:
            raise UnknownName(f"{reference.name} is not defined", self.location_of(reference))
        if value.version != self.sizes.version:
            value.content = self._retyped(value.content)
            value.version = self.sizes.version
        return value

    def location_of(self, reference: Reference) -> Location:
        return self.source.location(reference.offset, len(reference.name))

    def add_parameter(self, name: str, type_: TensorType) -> Node:
        """Raises VerificationError where a parameter has the name."""
        if name in self.parameters:
            raise VerificationError(f"two parameters are called {name!r}")
        node = self.parameters[name] = parameter(name, len(self.parameters), type_)
        return node

    def tensor_type(self, stated: SyntaxType, offset: int) -> TensorType:
        """The type stated for what is at `offset`, each `?` an unknown; raises TypeMismatch
        without a place."""
        dtype, shape = tensor_parts(stated)
        sizes = (
            self.sizes.unknown((offset, axis)) if size is None else size
            for axis, size in enumerate(shape)
        )
        return TensorType(dtype, tuple(sizes))

    def agree(self, stated: SyntaxType, content: Content) -> bool:
        """Whether a value has its stated type, once what the type says of unknown sizes is
        learned."""
        shape: tuple[int | None, ...]
        if isinstance(content, Extents):
            if stated == ElementType("index"):
                return True
            if not isinstance(stated, OpaqueType) or not stated.body.endswith("index"):
                return False
            shape, sizes = parse_sizes(stated.body.removesuffix("index")), content.sizes
        else:
            type_ = content.tensor_type
            dtype, shape = tensor_parts(stated)
            sizes = type_.shape
            if dtype != type_.dtype:
                return False
        if len(shape) != len(sizes):
            return False
        for required, size in zip(shape, sizes, strict=True):
            if (
                required is not None
                and required != size
                and not self.sizes.assume_equal(size, required)
            ):
                return False
        return True

    def _retyped(self, content: Content) -> Content:
        """A stand-in of the type that is known now, for a value whose type has changed."""
        if isinstance(content, Extents):
            return Extents(tuple(map(self.sizes.resolve, content.sizes)))
        type_ = self.sizes.resolve_type(content.tensor_type)
        return content if type_ == content.type else parameter("", -1, type_)


@dataclass(slots=True)
class Site:
    """One operation to be lowered."""

    scope: Scope
    op: SyntaxOp

    @property
    def name(self) -> str:
        return self.op.name

    @property
    def where(self) -> Location:
        return self.scope.source.location(self.op.offset, self.op.length)

    # operands

    def content(self, number: int) -> Content:
        if number >= len(self.op.operands):
            raise TypeMismatch(
                f"{self.name} requires more than {number} operands, got {len(self.op.operands)}"
            )
        return self.scope.lookup(self.op.operands[number]).content

    def tensor(self, number: int) -> Node:
        content = self.content(number)
        if not isinstance(content, Node):
            raise TypeMismatch(f"{self.name} requires a tensor as operand {number}, got a shape")
        return content

    def tensors(self, count: int | None = None) -> tuple[Node, ...]:
        """All operands, of which there must be `count`."""
        self.require_operands(count)
        return tuple(map(self.tensor, range(len(self.op.operands))))

    def extents(self, number: int) -> tuple[Size, ...]:
        content = self.content(number)
        if not isinstance(content, Extents):
            raise TypeMismatch(
                f"{self.name} requires a shape as operand {number}, got {content.type}"
            )
        return content.sizes

    def require_operands(self, count: int | None) -> None:
        found = len(self.op.operands)
        if count is not None and found != count:
            raise TypeMismatch(f"{self.name} requires {counted(count, 'operand')}, got {found}")

    def assume_equal(self, x: Size, y: Size) -> bool:
        """Learns that two sizes are equal; False where they are not."""
        return self.scope.sizes.assume_equal(x, y)

    # attributes

    def attribute(self, key: str) -> Attribute:
        try:
            return self.op.attributes[key]
        except KeyError:
            raise VerificationError(f"{self.name} requires attribute {key!r}") from None

    def integers(self, key: str, default: Sequence[int] | None = None) -> tuple[int, ...]:
        """A vector of integers; `default` where the attribute is absent."""
        if default is not None and key not in self.op.attributes:
            return tuple(default)
        return self.integers_of(self.attribute(key))

    def integers_of(self, attribute: Attribute) -> tuple[int, ...]:
        """The vector of integers that an attribute spells."""
        return integers(attribute, self.scope.source, self.op.offset)

    def integer(self, key: str) -> int:
        found = self.integers(key)
        if len(found) != 1:
            raise VerificationError(
                f"{self.name} requires one integer as {key!r}, got {len(found)}"
            )
        return found[0]

    def word(self, key: str) -> str:
        found = self.attribute(key)
        if not isinstance(found, str):
            raise VerificationError(f"{self.name} requires a string as {key!r}")
        return found

    # results

    def stated(self) -> tuple[DType, tuple[int | None, ...]]:
        """Dtype and shape of the stated result type, None for `?`."""
        if len(self.op.result_types) != 1:
            raise TypeMismatch(f"{self.name} requires one result, got {len(self.op.result_types)}")
        return tensor_parts(self.op.result_types[0])

    def result_shape(self, known: dict[int, Size] | None = None) -> tuple[Size, ...]:
        """The stated shape of the result; a `?` is the size that `known` gives its axis, or
        an unknown."""
        known = known or {}
        shape: list[Size] = []
        for axis, stated in enumerate(self.stated()[1]):
            size = known.get(axis) if stated is None else stated
            shape.append(self.scope.sizes.unknown((self.op.offset, axis)) if size is None else size)
        return tuple(shape)


def counted(number: int, noun: str) -> str:
    """`1 result`, `2 results`."""
    return f"{number} {noun}{'s' * (number != 1)}"


def tensor_parts(stated: SyntaxType) -> tuple[DType, tuple[int | None, ...]]:
    """Dtype and shape of a tensor type; raises TypeMismatch for other types."""
    if not isinstance(stated, TensorText):
        raise TypeMismatch(f"a tensor type is required, got {stated}")
    name = stated.element.name if isinstance(stated.element, ElementType) else ""
    dtype = ELEMENT_DTYPES.get(name)
    if dtype is None:
        raise TypeMismatch(
            f"element type {stated.element} is not supported; supported are {', '.join(ELEMENT_DTYPES)}"
        )
    return dtype, stated.shape


def format_stated(stated: SyntaxType) -> str:
    """A stated type as our types are printed: f32[?, 16]."""
    if not isinstance(stated, TensorText):
        return str(stated)
    dtype, shape = tensor_parts(stated)
    return f"{dtype}[{', '.join('?' if size is None else str(size) for size in shape)}]"

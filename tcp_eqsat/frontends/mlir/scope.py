"""What names stand for while a function is lowered: values, sizes, symbols of the module around it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from tcp_eqsat.errors import LimitError, Location, TcpError, TypeMismatch, UnknownName, VerificationError
from tcp_eqsat.frontends.mlir.elements import ELEMENT_DTYPES
from tcp_eqsat.frontends.mlir.lexer import Source
from tcp_eqsat.frontends.mlir.sizes import Sizes
from tcp_eqsat.frontends.mlir.tree import (
    Dense,
    ElementType,
    OpaqueType,
    QuantizedType,
    Reference,
    Region,
    Symbol,
    SyntaxOp,
    SyntaxType,
    TensorText,
    TupleText,
)
from tcp_eqsat.frontends.mlir.types import parse_sizes
from tcp_eqsat.lang.dims import Size
from tcp_eqsat.lang.ops.builders import parameter
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.quantized import QuantizedDType, quantized
from tcp_eqsat.lang.types import DType, TensorType

MOST_LEVELS = 48
_MOST_OPERATIONS = 100_000
class SeveralProcesses(TcpError):
    """An operation that means something between several processes only."""


class Uninstrumented(TcpError):
    """An operation that asks for what is seen of a program while it runs."""


MODULES = frozenset({"module", "builtin.module"})
FUNCTIONS = frozenset({"func", "func.func"})
RETURNS = frozenset({
    "chlo.return", "func.return", "mhlo.return", "return", "shape.assuming_yield", "stablehlo.return",
    "std.return", "tcp.yield", "xla_hlo.return",
})
"""What regions end with."""


# Values


@dataclass(frozen=True, slots=True)
class Extents:
    """Integers that are known, as sizes, when the program is read: a shape, an index, a tensor of them.

    shape    () for a single one, (n,) for n of them
    element  the element type that the text gives them
    """

    sizes: tuple[Size, ...]
    shape: tuple[int, ...]
    element: str = "index"

    def __str__(self) -> str:
        return f"shape {list(map(str, self.sizes))}" if self.shape else f"index {self.sizes[0]}"


@dataclass(frozen=True, slots=True)
class Claim:
    """The truth value of a comparison of sizes: EQ, NE, LT, LE, GT or GE."""

    direction: str
    left: Size
    right: Size

    def __str__(self) -> str:
        return f"{self.left} {self.direction} {self.right}"


@dataclass(frozen=True, slots=True)
class Token:
    """What orders effects, of which there are none."""

    def __str__(self) -> str:
        return "token"


@dataclass(frozen=True, slots=True)
class Pack:
    """A tuple."""

    items: tuple[Content, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(format_content, self.items))})"


Content = Node | Extents | Claim | Token | Pack


def format_content(content: Content) -> str:
    """The type of a value, in our words."""
    return str(content.type) if isinstance(content, Node) else str(content)


def tensors_of(contents: tuple[Content, ...]) -> Iterator[Node | Extents | Claim]:
    """The tensors among contents, tuples taken apart, tokens left out."""
    for content in contents:
        if isinstance(content, Pack):
            yield from tensors_of(content.items)
        elif not isinstance(content, Token):
            yield content


def tensor_parts(stated: SyntaxType) -> tuple[DType, tuple[int | None, ...]]:
    """Dtype and shape of a tensor type; raises TypeMismatch for other types."""
    if not isinstance(stated, TensorText):
        raise TypeMismatch(f"a tensor type is required, got {stated}")
    return dtype_of_element(stated.element), stated.shape


def dtype_of_element(element: SyntaxType) -> DType:
    """The dtype of an element type; raises TypeMismatch where there is none."""
    if isinstance(element, QuantizedType):
        return _quantized(element)
    dtype = ELEMENT_DTYPES.get(str(element))
    if dtype is None:
        raise TypeMismatch(
            f"element type {element} is not supported; supported are {', '.join(ELEMENT_DTYPES)}"
        )
    return dtype


@functools.lru_cache(maxsize=256)
def _quantized(element: QuantizedType) -> QuantizedDType:
    storage, expressed = dtype_of_element(element.storage), dtype_of_element(element.expressed)
    return quantized(storage, expressed, element.scales, element.zero_points, element.axis, *element.bounds)


def is_token(stated: SyntaxType) -> bool:
    return isinstance(stated, OpaqueType) and stated.name.rpartition(".")[2] in ("token", "witness")


# Symbols


@dataclass(frozen=True)
class Symbols:
    """The functions and modules that a module defines, by name, and the module around it."""

    functions: Mapping[str, SyntaxOp]
    modules: Mapping[str, Symbols]
    outer: Symbols | None = None

    def function(self, symbol: Symbol) -> tuple[Symbols, SyntaxOp] | None:
        """The function of a name as seen from here, and the module that defines it."""
        table: Symbols | None = self
        while table is not None:
            found: Symbols | None = table
            for name in symbol.path[:-1]:
                found = found.modules.get(name) if found is not None else None
            if found is not None and symbol.name in found.functions:
                return found, found.functions[symbol.name]
            table = table.outer
        return None


# Scopes


@dataclass(frozen=True)
class Expectation:
    """What a program says of its own values: `actual` is `relation` to `expected`.

    relation   equal, almost (within `tolerance`), close (at most `tolerance` numbers apart)
    """

    relation: str
    actual: Node
    expected: Node
    tolerance: float
    name: str
    where: Location


@dataclass(slots=True)
class Value:
    """What a name stands for, typed by what was known of the sizes at `version`."""

    content: Content
    defined: Reference
    version: int


@dataclass
class Context:
    """One pass over one function of the program, with everything that it calls.

    run    lowers a region: (a scope for it, region, arguments) -> results
    """

    source: Source
    sizes: Sizes
    resources: Mapping[str, Dense]
    run: Callable[[Scope, Region, tuple[Content, ...]], tuple[Content, ...]]
    parameters: dict[str, Node] = field(default_factory=dict)
    variables: dict[str, Node] = field(default_factory=dict)
    names: dict[Node, str] = field(default_factory=dict)
    locations: dict[Node, Location] = field(default_factory=dict)
    expectations: list[Expectation] = field(default_factory=list)
    fed: list[Symbol] = field(default_factory=list)
    """Functions whose results the program is fed, in order."""
    probes: dict[str, Node] = field(default_factory=dict)
    """Values that the text gives names for others to ask for."""
    called: set[int] = field(default_factory=set)
    """Offsets of the functions that were called."""
    results: dict[tuple[object, ...], tuple[Content, ...]] = field(default_factory=dict)
    """What calls gave, by callee, arguments and what was known of the sizes."""
    operations: int = 0
    has_sizes_as_values: bool = False
    """Whether any value so far is known as sizes."""

    def count(self, where: Location) -> None:
        """Raises LimitError where calls within calls make too many operations."""
        self.operations += 1
        if self.operations > _MOST_OPERATIONS:
            raise LimitError(f"a function has more than {_MOST_OPERATIONS} operations, calls included", where)


@dataclass
class Scope:
    """The names of one region, and of those around it.

    path   the calls that lead here, by their offsets: what is unknown in a callee differs from call to call
    depth  regions and calls around
    in_region   whether this is a region of an operation, or called from one
    """

    context: Context
    symbols: Symbols
    parent: Scope | None = None
    path: tuple[int, ...] = ()
    depth: int = 0
    in_region: bool = False
    values: dict[str, Value] = field(default_factory=dict)

    @property
    def source(self) -> Source:
        return self.context.source

    @property
    def sizes(self) -> Sizes:
        return self.context.sizes

    def inner(self, where: Location) -> Scope:
        """The scope of a region inside this one; raises LimitError."""
        self._check_depth(where)
        return Scope(self.context, self.symbols, self, self.path, self.depth + 1, True)

    def callee(self, symbols: Symbols, offset: int, where: Location) -> Scope:
        """The scope of a function called from here; raises LimitError."""
        self._check_depth(where)
        path = (*self.path, offset)
        return Scope(self.context, symbols, None, path, self.depth + 1, self.in_region)

    def _check_depth(self, where: Location) -> None:
        if self.depth >= MOST_LEVELS:
            raise LimitError(f"regions and calls are nested deeper than {MOST_LEVELS} levels", where)

    def define(self, reference: Reference, content: Content) -> None:
        """Raises VerificationError where the name is taken."""
        scope: Scope | None = self
        while scope is not None:
            known = scope.values.get(reference.name)
            if known is not None:
                first = self.source.location(known.defined.offset)
                raise VerificationError(
                    f"{reference.name} is defined twice, first at {first}", self.location_of(reference)
                )
            scope = scope.parent
        self.values[reference.name] = Value(content, reference, self.sizes.version)

    def find(self, name: str) -> Value | None:
        scope: Scope | None = self
        while scope is not None:
            value = scope.values.get(name)
            if value is not None:
                return value
            scope = scope.parent
        return None

    def lookup(self, reference: Reference) -> Value:
        """Raises UnknownName."""
        value = self.find(reference.name) or self.find(f"{reference.name}#0")
        if value is None and reference.name.endswith("#0"):
            value = self.find(reference.name[:-2])
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
        parameters = self.context.parameters
        if name in parameters:
            raise VerificationError(f"two parameters are called {name!r}")
        node = parameters[name] = parameter(name, len(parameters), type_)
        return node

    def unknown(self, offset: int, axis: int) -> Size:
        """The size of the `?` at an axis of what is at `offset`."""
        return self.sizes.unknown((self.path, offset, axis))

    def tensor_type(self, stated: SyntaxType, offset: int) -> TensorType:
        """The type stated for what is at `offset`, each `?` an unknown; raises TypeMismatch
        without a place."""
        dtype, shape = tensor_parts(stated)
        sizes = (
            self.unknown(offset, axis) if size is None else size for axis, size in enumerate(shape)
        )
        return TensorType(dtype, tuple(sizes))

    def agree(self, stated: SyntaxType, content: Content) -> bool:
        """Whether a value has its stated type, once what the type says of unknown sizes is
        learned."""
        if isinstance(content, Node):
            type_ = content.type
            if not isinstance(type_, TensorType):
                return False
            dtype, shape = tensor_parts(stated)
            return dtype == type_.dtype and self._agree_sizes(shape, type_.shape)
        if isinstance(content, Token):
            return is_token(stated)
        if isinstance(content, Claim):
            return str(stated) in ("i1", "tensor<i1>")
        if isinstance(content, Pack):
            return (
                isinstance(stated, TupleText)
                and len(stated.items) == len(content.items)
                and all(map(self.agree, stated.items, content.items))
            )
        return self._agree_extents(stated, content)

    def _agree_extents(self, stated: SyntaxType, content: Extents) -> bool:
        if isinstance(stated, ElementType):
            return content.shape == () or stated.name == "index"
        if isinstance(stated, OpaqueType):
            if not stated.body:
                return stated.name in ("shape.shape", "shape.size", "shape.value_shape")
            return stated.body.endswith("index") and self._agree_sizes(
                parse_sizes(stated.body.removesuffix("index")), content.sizes
            )
        if not isinstance(stated, TensorText) or len(stated.shape) != len(content.shape):
            return False
        return all(n is None or n == size for n, size in zip(stated.shape, content.shape, strict=True))

    def _agree_sizes(self, shape: tuple[int | None, ...], sizes: tuple[Size, ...]) -> bool:
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
            return Extents(tuple(map(self.sizes.resolve, content.sizes)), content.shape, content.element)
        if isinstance(content, Pack):
            return Pack(tuple(map(self._retyped, content.items)))
        if isinstance(content, Claim):
            return Claim(content.direction, *map(self.sizes.resolve, (content.left, content.right)))
        if isinstance(content, Token) or not isinstance(content.type, TensorType):
            return content
        type_ = self.sizes.resolve_type(content.type)
        return content if type_ == content.type else parameter("", -1, type_)

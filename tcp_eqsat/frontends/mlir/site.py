"""What the lowering of one operation sees: its operands as nodes, its attributes as Python values,
its regions as functions, its stated types.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tcp_eqsat.errors import Location, ShapeMismatch, TcpError, TypeMismatch, VerificationError
from tcp_eqsat.frontends.mlir.attributes import fields, word_of
from tcp_eqsat.frontends.mlir.elements import ELEMENT_DTYPES
from tcp_eqsat.frontends.mlir.known import known_integers, known_sizes
from tcp_eqsat.frontends.mlir.literals import extents_of, integers, number
from tcp_eqsat.frontends.mlir.scalar_region import scalar_functions
from tcp_eqsat.frontends.mlir.scope import (
    Content,
    Extents,
    Scope,
    format_content,
    tensor_parts,
    tensors_of,
)
from tcp_eqsat.frontends.mlir.tree import (
    Attribute,
    Number,
    Region,
    Symbol,
    SyntaxOp,
    SyntaxType,
    TensorText,
)
from tcp_eqsat.lang.dims import Size, bounds
from tcp_eqsat.lang.ops.builders import concatenate, constant, map_scalar, reshape, size_value
from tcp_eqsat.lang.polynomial import size_of_terms
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.scalar import ScalarFunction, scalar_op_named
from tcp_eqsat.lang.scalars.conversion import conversion
from tcp_eqsat.lang.types import DType, TensorType

Lowering = Callable[["Site"], "Content | tuple[Content, ...]"]


@dataclass(slots=True)
class Site:
    """One operation to be lowered."""

    scope: Scope
    op: SyntaxOp

    @property
    def name(self) -> str:
        return self.op.name

    @property
    def dialect(self) -> str:
        return self.op.name.partition(".")[0]

    @property
    def where(self) -> Location:
        return self.scope.source.location(self.op.offset, self.op.length)

    # operands

    def content(self, position: int) -> Content:
        if position >= len(self.op.operands):
            raise TypeMismatch(
                f"{self.name} requires more than {position} operands, got {len(self.op.operands)}"
            )
        return self.scope.lookup(self.op.operands[position]).content

    def contents(self) -> tuple[Content, ...]:
        return tuple(map(self.content, range(len(self.op.operands))))

    def tensor(self, position: int) -> Node:
        content = self.content(position)
        if isinstance(content, Extents):
            return self.node_of(content)
        if not isinstance(content, Node):
            raise TypeMismatch(
                f"{self.name} requires a tensor as operand {position}, got {format_content(content)}"
            )
        return content

    def tensors(self, count: int | None = None) -> tuple[Node, ...]:
        """All operands, of which there must be `count`."""
        self.require_operands(count)
        return tuple(map(self.tensor, range(len(self.op.operands))))

    def node_of(self, content: Content) -> Node:
        """A tensor as a node."""
        if isinstance(content, Node):
            return content
        if not isinstance(content, Extents):
            raise TypeMismatch(f"{self.name} requires a tensor, got {format_content(content)}")
        dtype = ELEMENT_DTYPES.get(content.element, ELEMENT_DTYPES["index"])
        numbers = [size for size in content.sizes if isinstance(size, int)]
        if len(numbers) == len(content.sizes):
            return constant(np.array(numbers, np.int64).astype(dtype.numpy).reshape(content.shape))
        values = [map_scalar(conversion(dtype), _value_of(size)) for size in content.sizes]
        if not content.shape:
            return values[0]
        return concatenate(tuple(reshape(value, (1,)) for value in values), 0)

    def known(self, position: int) -> tuple[Size, ...]:
        """The integers of an operand, in order, which must be known when the program is read."""
        content = self.content(position)
        if isinstance(content, Extents):
            return content.sizes
        found: tuple[Size, ...] | None = None
        if isinstance(content, Node) and content.dtype.is_integer:
            found = known_integers(content)
            found = known_sizes(content) if found is None else found
        if found is None:
            raise ShapeMismatch(
                f"{self.name} requires integers that are known when the program is read as operand "
                f"{position}, got {format_content(content)}"
            )
        return found

    def extents(self, position: int) -> tuple[Size, ...]:
        """The sizes of a shape or an index."""
        content = self.content(position)
        if isinstance(content, Node) and not content.dtype.is_integer:
            raise TypeMismatch(
                f"{self.name} requires a shape as operand {position}, got {content.type}"
            )
        return self.known(position)

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

    def pairs(self, key: str, rank: int) -> tuple[tuple[int, int], ...]:
        """`rank` pairs of integers, (0, 0) where the attribute is absent."""
        if key not in self.op.attributes:
            return ((0, 0),) * rank
        attribute = self.attribute(key)
        found = self.integers_of(attribute)
        if extents_of(attribute) not in ((rank, 2), (0,)) or len(found) != 2 * rank:
            raise VerificationError(f"{self.name} requires {rank} pairs of integers as {key!r}")
        return tuple(zip(found[::2], found[1::2], strict=True))

    def integer(self, key: str, default: int | None = None) -> int:
        if default is not None and key not in self.op.attributes:
            return default
        found = self.integers(key)
        if len(found) != 1:
            raise VerificationError(
                f"{self.name} requires one integer as {key!r}, got {len(found)}"
            )
        return found[0]

    def number(self, key: str, default: float | None = None) -> float:
        if default is not None and key not in self.op.attributes:
            return default
        found = self.attribute(key)
        if not isinstance(found, Number):
            raise VerificationError(f"{self.name} requires a number as {key!r}")
        return float(number(found, self.scope.source))

    def flag(self, key: str, default: bool = False) -> bool:
        found = self.op.attributes.get(key, default)
        if not isinstance(found, bool):
            raise VerificationError(f"{self.name} requires true or false as {key!r}")
        return found

    def word(self, key: str, default: str | None = None) -> str:
        if default is not None and key not in self.op.attributes:
            return default
        found = word_of(self.attribute(key))
        if found is None:
            raise VerificationError(f"{self.name} requires a string as {key!r}")
        return found

    def parts(self, key: str) -> dict[str, Attribute]:
        """The named parts of an attribute."""
        return fields(self.attribute(key), self.scope.source)

    def symbol(self, key: str) -> Symbol:
        found = self.attribute(key)
        if isinstance(found, str):
            return Symbol((found,), self.op.offset)
        if not isinstance(found, Symbol):
            raise VerificationError(f"{self.name} requires a symbol as {key!r}")
        return found

    # regions

    def region(self, position: int) -> Region:
        if position >= len(self.op.regions):
            raise VerificationError(
                f"{self.name} requires more than {counted(position, 'region')}, got {len(self.op.regions)}"
            )
        return self.op.regions[position]

    def run(self, position: int, *arguments: Content) -> tuple[Content, ...]:
        """The results of a region on arguments."""
        region = self.region(position)
        where = self.scope.source.location(region.offset)
        return self.scope.context.run(self.scope.inner(where), region, arguments)

    def run_on_tensors(self, position: int, *arguments: Content) -> tuple[Node, ...]:
        """The results of a region on arguments, tuples taken apart and tokens left out."""
        return tuple(map(self.node_of, tensors_of(self.run(position, *arguments))))

    def scalar_functions(
        self, position: int, dtypes: Sequence[DType], order: Sequence[int] | None = None
    ) -> tuple[ScalarFunction, ...]:
        """A region over tensors of rank 0 as scalar functions of parameters of these dtypes; argument n of
        the region is parameter order[n]."""
        arguments = range(len(dtypes)) if order is None else order

        def body(*parameters: Node) -> tuple[Node, ...]:
            return self.run_on_tensors(position, *(parameters[n] for n in arguments))

        try:
            return scalar_functions(body, dtypes)
        except TcpError as error:
            raise error.at(self.scope.source.location(self.region(position).offset)) from None

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
            shape.append(self.scope.unknown(self.op.offset, axis) if size is None else size)
        return tuple(shape)

    def result_type(self) -> TensorType:
        """The stated type of the result, each `?` an unknown."""
        return TensorType(self.stated()[0], self.result_shape())


def _value_of(size: Size) -> Node:
    """A size, or a difference of sizes that may be negative, as an i64."""
    if isinstance(size, int) or bounds(size)[0] >= 0:
        return size_value(size)
    terms = size.polynomial.items()
    added = size_of_terms({monomial: each for monomial, each in terms if each > 0})
    taken = size_of_terms({monomial: -each for monomial, each in terms if each < 0})
    return map_scalar(scalar_op_named("subtract"), size_value(added), size_value(taken))


def counted(found: int, noun: str) -> str:
    """`1 result`, `2 results`."""
    return f"{found} {noun}{'s' * (found != 1)}"


def format_stated(stated: SyntaxType) -> str:
    """A stated type as our types are printed: f32[?, 16]."""
    if not isinstance(stated, TensorText):
        return str(stated)
    dtype, shape = tensor_parts(stated)
    return f"{dtype}[{', '.join('?' if size is None else str(size) for size in shape)}]"

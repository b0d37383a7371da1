"""The pointful form: what a value is at one index of its domain.

An operation's pointful form is an expression over the axes of its result (axis 0..rank-1) and over axes that
folds bind (numbered from the rank up). Indices are affine in those axes. This is what extraction gathers into
kernels and what code generation turns into loops.

    expr   ::= Operand(number, indices)              an operand at an index
             | Literal(literal)                      a constant
             | Position(index)                       an index as a number
             | Apply(op, expr...)                    a scalar operation
             | Fold(op, extents, first, expr)        op over all values of axes first, first+1, ...
             | Choose(ranges, expr, expr)            the first where every index is in its range; lazy
    index  ::= sum of coefficient * axis + offset
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tcp_eqsat.lang.dims import Size
from tcp_eqsat.lang.scalar import (
    ScalarApply,
    ScalarExpr,
    ScalarFunction,
    ScalarLiteral,
    ScalarOp,
    ScalarParameter,
    scalar_op_named,
)
from tcp_eqsat.lang.types import DType


@dataclass(frozen=True, slots=True)
class Affine:
    """sum of coefficient * axis, plus offset. Terms are sorted by axis, without zero coefficients."""

    terms: tuple[tuple[int, Size], ...] = ()
    offset: Size = 0

    @property
    def axes(self) -> tuple[int, ...]:
        return tuple(axis for axis, _ in self.terms)

    @property
    def single_axis(self) -> int | None:
        """The axis, where the index is just that axis."""
        if len(self.terms) == 1 and self.terms[0][1] == 1 and self.offset == 0:
            return self.terms[0][0]
        return None

    def __add__(self, other: Affine | Size) -> Affine:
        if not isinstance(other, Affine):
            return Affine(self.terms, self.offset + other)
        total: dict[int, Size] = dict(self.terms)
        for axis, coefficient in other.terms:
            total[axis] = total.get(axis, 0) + coefficient
        terms = tuple((axis, c) for axis, c in sorted(total.items()) if c != 0)
        return Affine(terms, self.offset + other.offset)

    def scaled(self, factor: Size) -> Affine:
        if factor == 0:
            return Affine()
        return Affine(tuple((axis, c * factor) for axis, c in self.terms), self.offset * factor)

    def substitute(self, at: Mapping[int, Affine]) -> Affine:
        """The index with axes replaced; axes that `at` does not name stay."""
        result = Affine((), self.offset)
        for axis, coefficient in self.terms:
            result = result + at.get(axis, axis_index(axis)).scaled(coefficient)
        return result


def axis_index(axis: int) -> Affine:
    """The index that is just `axis`."""
    return Affine(((axis, 1),))


ZERO = Affine()


@dataclass(frozen=True, slots=True)
class Operand:
    """Operand `number` at `indices`, one per axis of the operand."""

    number: int
    indices: tuple[Affine, ...]
    dtype: DType


@dataclass(frozen=True, slots=True)
class Literal:
    literal: ScalarLiteral

    @property
    def dtype(self) -> DType:
        return self.literal.dtype


@dataclass(frozen=True, slots=True)
class Position:
    """The value of an index, converted to `dtype`."""

    index: Affine
    dtype: DType


@dataclass(frozen=True, slots=True)
class Apply:
    op: ScalarOp
    operands: tuple[Expr, ...]
    dtype: DType


@dataclass(frozen=True, slots=True)
class Fold:
    """`op` over all values of the axes first, ..., first + len(extents) - 1, from `op`'s start value.

    The order is free. `contraction` says that body is a product whose rounding may be fused into the sum.
    """

    op: ScalarOp
    extents: tuple[Size, ...]
    first: int
    body: Expr
    contraction: bool = False

    @property
    def dtype(self) -> DType:
        return self.body.dtype

    @property
    def bound(self) -> range:
        return range(self.first, self.first + len(self.extents))


@dataclass(frozen=True, slots=True)
class IndexRange:
    """lower <= index < upper."""

    index: Affine
    lower: Size
    upper: Size


@dataclass(frozen=True, slots=True)
class Choose:
    """`inside` where every range holds, else `outside`. Only the chosen side is evaluated."""

    ranges: tuple[IndexRange, ...]
    inside: Expr
    outside: Expr

    @property
    def dtype(self) -> DType:
        return self.inside.dtype


Expr = Operand | Literal | Position | Apply | Fold | Choose


def apply_op(name: str, *operands: Expr) -> Apply:
    """A scalar operation by name; raises TypeMismatch where it does not type."""
    op = scalar_op_named(name)
    return Apply(op, operands, op.result_dtype(*(x.dtype for x in operands)))


def converted(expr: Expr, dtype: DType) -> Expr:
    """The expression as `dtype`."""
    return expr if expr.dtype == dtype else apply_op(f"astype_{dtype}", expr)


def children(expr: Expr) -> tuple[Expr, ...]:
    match expr:
        case Apply(operands=operands):
            return operands
        case Fold(body=body):
            return (body,)
        case Choose(inside=inside, outside=outside):
            return (inside, outside)
        case _:
            return ()


def walk_expr(expr: Expr) -> Iterator[Expr]:
    """Every distinct subexpression, operands before users."""
    seen: set[int] = set()
    stack: list[tuple[Expr, bool]] = [(expr, False)]
    while stack:
        current, expanded = stack.pop()
        if expanded:
            yield current
        elif id(current) not in seen:
            seen.add(id(current))
            stack.append((current, True))
            stack.extend((x, False) for x in reversed(children(current)))


def rewrite_leaves(expr: Expr, leaf: Callable[[Operand | Position], Expr],
                   ranges: Callable[[IndexRange], IndexRange] = lambda r: r) -> Expr:
    """The expression with its operands and positions replaced; shared parts stay shared."""
    done: dict[int, Expr] = {}
    for current in walk_expr(expr):
        match current:
            case Operand() | Position():
                new: Expr = leaf(current)
            case Apply(op, operands, dtype):
                new = Apply(op, tuple(done[id(x)] for x in operands), dtype)
            case Fold(op, extents, first, body, contraction):
                new = Fold(op, extents, first, done[id(body)], contraction)
            case Choose(bounds, inside, outside):
                new = Choose(tuple(map(ranges, bounds)), done[id(inside)], done[id(outside)])
            case _:
                new = current
        done[id(current)] = new
    return done[id(expr)]


def of_function(function: ScalarFunction, operands: tuple[Expr, ...]) -> Expr:
    """The scalar function applied to expressions."""
    values: dict[ScalarExpr, Expr] = {}
    for expr in function.walk():
        match expr:
            case ScalarParameter():
                values[expr] = operands[expr.index]
            case ScalarLiteral():
                values[expr] = Literal(expr)
            case ScalarApply():
                values[expr] = Apply(expr.op, tuple(values[x] for x in expr.arguments), expr.dtype)
    return values[function.result]

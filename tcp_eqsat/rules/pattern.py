"""Patterns: programs over variables. One pattern drives matching, building, checking and printing.

`x, y = variables("x y")` stand for tensors, `labels_variables("m n")` and its siblings for attributes; Python's
operators and the functions of `rules.functions` apply scalar operations, and a Python number stands for a tensor
of that number, of the shape and dtype its place asks for. A variable that occurs twice stands for the same value
twice. Patterns are immutable, hashable, compared by structure, and print as they are written.
"""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

import tcp_eqsat.lang.ops  # noqa: F401  (fills the tables of operations)
from tcp_eqsat.errors import RuleError, TcpError
from tcp_eqsat.lang.op import op_named
from tcp_eqsat.lang.scalar import Number, ScalarOp, scalar_op_named
from tcp_eqsat.lang.types import BOOL, DTYPES, DType
from tcp_eqsat.rules.attribute import (
    AttributeTerm,
    AttributeVariable,
    Sort,
    attribute_sorts,
    constant,
    term,
    variables_of,
)

_INFIX = {"add": ("+", 1), "subtract": ("-", 1), "multiply": ("*", 2), "divide": ("/", 2)}
_ATOM = 4


class Pattern:
    """A tensor in a rule: TensorVariable, Splat, Apply or Operation."""

    __slots__ = ()
    is_tensor_variable: ClassVar[bool] = False

    @property
    def operands(self) -> tuple[Pattern, ...]:
        return ()

    @property
    def attributes(self) -> tuple[AttributeTerm, ...]:
        return ()

    def with_operands(self, operands: tuple[Pattern, ...]) -> Pattern:
        """The same pattern over other operands."""
        return self

    def walk(self) -> Iterator[Pattern]:
        """This pattern and everything in it, parents first, repeated where it is."""
        yield self
        for operand in self.operands:
            yield from operand.walk()

    def __add__(self, other: Operand) -> Apply:
        return apply("add", self, other)

    def __radd__(self, other: Number) -> Apply:
        return apply("add", other, self)

    def __sub__(self, other: Operand) -> Apply:
        return apply("subtract", self, other)

    def __rsub__(self, other: Number) -> Apply:
        return apply("subtract", other, self)

    def __mul__(self, other: Operand) -> Apply:
        return apply("multiply", self, other)

    def __rmul__(self, other: Number) -> Apply:
        return apply("multiply", other, self)

    def __truediv__(self, other: Operand) -> Apply:
        return apply("divide", self, other)

    def __rtruediv__(self, other: Number) -> Apply:
        return apply("divide", other, self)

    def __neg__(self) -> Apply:
        return apply("negative", self)

    @abstractmethod
    def _text(self, binding: int) -> str:
        """The pattern as text, in brackets where what is around it binds more tightly than `binding`."""

    def __str__(self) -> str:
        return self._text(0)


@dataclass(frozen=True, slots=True)
class TensorVariable(Pattern):
    """Any tensor."""

    name: str
    is_tensor_variable: ClassVar[bool] = True

    def _text(self, binding: int) -> str:
        return self.name

    __str__ = Pattern.__str__


@dataclass(frozen=True, slots=True)
class Splat(Pattern):
    """A tensor with the same number everywhere: a literal, or a variable over all such tensors.

    It is matched by value, however it is built (a scalar constant under a view, a constant tensor). True and False
    stand for tensors of dtype bool only, other numbers for any dtype that has them. In a
    replacement `like` is the tensor variable or the root of the left side that has its shape and, for a literal,
    its dtype; `rule` finds it where it follows from the place.
    """

    value: AttributeTerm
    like: Pattern | None = None

    @property
    def attributes(self) -> tuple[AttributeTerm, ...]:
        return (self.value,)

    @property
    def attribute_term(self) -> AttributeTerm:
        """What a condition or attribute function is given in place of this pattern."""
        return self.value

    def _text(self, binding: int) -> str:
        text = str(self.value)
        return f"({text})" if binding and text.startswith("-") else text

    __str__ = Pattern.__str__


@dataclass(frozen=True, slots=True)
class OperationVariable:
    """Any scalar operation of `arity` operands."""

    name: str
    arity: int

    def __call__(self, *operands: Operand) -> Apply:
        return _apply(self, operands)


@dataclass(frozen=True, slots=True)
class Apply(Pattern):
    """A scalar operation at every index of operands of one shape."""

    operation: ScalarOp | OperationVariable
    arguments: tuple[Pattern, ...]

    @property
    def operands(self) -> tuple[Pattern, ...]:
        return self.arguments

    def with_operands(self, operands: tuple[Pattern, ...]) -> Pattern:
        return Apply(self.operation, operands)

    def _text(self, binding: int) -> str:
        name, x = self.operation.name, self.arguments
        if name in _INFIX:
            sign, level = _INFIX[name]
            text = f"{x[0]._text(level)} {sign} {x[1]._text(level + 1)}"
        elif name == "negative":
            level, text = 3, f"-{x[0]._text(_ATOM)}"
        else:
            level, text = _ATOM, f"{name}({', '.join(map(str, x))})"
        return f"({text})" if level < binding else text

    __str__ = Pattern.__str__


@dataclass(frozen=True, slots=True)
class Operation(Pattern):
    """A tensor operation, by its name in the operation table, with a term for each attribute in order."""

    name: str
    arguments: tuple[Pattern, ...]
    terms: tuple[AttributeTerm, ...] = field(default=())

    @property
    def operands(self) -> tuple[Pattern, ...]:
        return self.arguments

    @property
    def attributes(self) -> tuple[AttributeTerm, ...]:
        return self.terms

    def with_operands(self, operands: tuple[Pattern, ...]) -> Pattern:
        return Operation(self.name, operands, self.terms)

    def attribute(self, name: str) -> AttributeTerm:
        """The term of the attribute called `name`."""
        return self.terms[[each for each, _ in attribute_sorts(self.name)].index(name)]

    def _text(self, binding: int) -> str:
        operands, terms = list(map(str, self.arguments)), list(map(str, self.terms))
        if self.name == "reduce":
            return f"reduce({', '.join((terms[0], *operands, *terms[1:]))})"
        if self.name == "concatenate":
            return f"concatenate({terms[0]}, {', '.join(operands)})"
        name = "slice_" if self.name == "slice" else self.name
        return f"{name}({', '.join((*operands, *terms))})"

    __str__ = Pattern.__str__


Operand = Pattern | Number


def lift(x: Any) -> Pattern:
    """A pattern from a pattern or a number; raises RuleError for anything else."""
    if isinstance(x, Pattern):
        return x
    if isinstance(x, (bool, int, float, np.generic)):
        return Splat(constant(x, Sort.NUMBER))
    raise RuleError(f"a pattern requires patterns or numbers, got {x!r}")


def _apply(operation: ScalarOp | OperationVariable, operands: tuple[Any, ...]) -> Apply:
    if len(operands) != operation.arity:
        raise RuleError(f"{operation.name} requires {operation.arity} operands, got {len(operands)}")
    return Apply(operation, tuple(map(lift, operands)))


def apply(operation: ScalarOp | str, *operands: Operand) -> Apply:
    """A scalar operation over patterns; raises UnknownName or RuleError."""
    return _apply(scalar_op_named(operation) if isinstance(operation, str) else operation, operands)


def operation(name: str, operands: tuple[Operand, ...], *attributes: Any) -> Operation:
    """A tensor operation over patterns, with terms or Python values as attributes; raises RuleError."""
    op, sorts = op_named(name), attribute_sorts(name)
    if op.arity is not None and op.arity != len(operands):
        raise RuleError(f"{name} requires {op.arity} operands, got {len(operands)}")
    if len(sorts) != len(attributes):
        raise RuleError(f"{name} requires attributes {', '.join(n for n, _ in sorts)}, got {len(attributes)}")
    return Operation(name, tuple(map(lift, operands)), tuple(
        term(value, sort) for value, (_, sort) in zip(attributes, sorts, strict=True)))


# Variables ------------------------------------------------------------------------------------------------------


def variables(names: str) -> tuple[TensorVariable, ...]:
    """Tensor variables by names: `x, y = variables("x y")`."""
    return tuple(map(TensorVariable, names.split()))


def _attribute_variables(sort: Sort, names: str) -> tuple[AttributeVariable, ...]:
    return tuple(AttributeVariable(name, sort) for name in names.split())


labels_variables = functools.partial(_attribute_variables, Sort.INTS)
strides_variables = functools.partial(_attribute_variables, Sort.INTS)
shape_variables = functools.partial(_attribute_variables, Sort.SHAPE)
size_variables = functools.partial(_attribute_variables, Sort.SIZE)
int_variables = functools.partial(_attribute_variables, Sort.INT)
type_variables = functools.partial(_attribute_variables, Sort.TYPE)
monoid_variables = functools.partial(_attribute_variables, Sort.OPERATION)


def constant_variables(names: str) -> tuple[Splat, ...]:
    """Variables over tensors that have one known number everywhere."""
    return tuple(map(Splat, _attribute_variables(Sort.NUMBER, names)))


def scalar_operation(name: str, arity: int) -> OperationVariable:
    """A variable over all scalar operations of `arity`, for rules stated once for all of them."""
    return OperationVariable(name, arity)


# Tensor operations ------------------------------------------------------------------------------------------------


def view(x: Operand, labels: Any, shape: Any) -> Operation:
    return operation("view", (x,), labels, shape)


def reshape(x: Operand, shape: Any) -> Operation:
    return operation("reshape", (x,), shape)


def slice_(x: Operand, starts: Any, limits: Any, strides: Any) -> Operation:
    return operation("slice", (x,), starts, limits, strides)


def concatenate(axis: Any, *operands: Operand) -> Operation:
    return operation("concatenate", operands, axis)


def pad(x: Operand, value: Operand, low: Any, high: Any) -> Operation:
    """`value` is a tensor of rank 0."""
    return operation("pad", (x, value), low, high)


def reduce(monoid: Any, x: Operand, labels: Any, extents: Any, rank: Any) -> Operation:
    """`monoid` is a variable, a scalar operation or its name."""
    found = scalar_op_named(monoid) if isinstance(monoid, str) else monoid
    return operation("reduce", (x,), found, labels, extents, rank)


def contract(x: Operand, y: Operand, lhs: Any, rhs: Any, extents: Any, rank: Any) -> Operation:
    return operation("contract", (x, y), lhs, rhs, extents, rank)


def iota(type_: Any, axis: Any) -> Operation:
    return operation("iota", (), type_, axis)


def full_like(x: Pattern, value: Number | Splat) -> Splat:
    """The number everywhere, in the shape and dtype of x."""
    splat = lift(value)
    assert isinstance(splat, Splat)
    return Splat(splat.value, x)


def ones_like(x: Pattern) -> Splat:
    return full_like(x, 1)


def zeros_like(x: Pattern) -> Splat:
    return full_like(x, 0)


# What a pattern says about variables and dtypes ----------------------------------------------------


def tensor_variables(*patterns: Pattern) -> tuple[TensorVariable, ...]:
    """The tensor variables of patterns, each once, in order."""
    found = (x for pattern in patterns for x in pattern.walk() if isinstance(x, TensorVariable))
    return tuple(dict.fromkeys(found))


def attribute_variables(*patterns: Pattern) -> tuple[AttributeVariable, ...]:
    """The attribute variables of patterns, each once, in order."""
    found = (v for pattern in patterns for x in pattern.walk() for each in x.attributes for v in variables_of(each)
             if isinstance(v, AttributeVariable))
    return tuple(dict.fromkeys(found))


def operation_variables(*patterns: Pattern) -> tuple[OperationVariable, ...]:
    """The scalar-operation variables of patterns, each once, in order."""
    found = (x.operation for pattern in patterns for x in pattern.walk()
             if isinstance(x, Apply) and isinstance(x.operation, OperationVariable))
    return tuple(dict.fromkeys(found))


@functools.cache
def signature(op: ScalarOp) -> tuple[tuple[DType | None, ...], DType | None]:
    """The dtype of each operand and of the result, None for the one dtype that the call chooses.

    Found by asking the operation's typing rule: `where` gives ((bool, None, None), None), `less` ((None, None), bool).
    """
    choices: list[tuple[DType | None, ...]] = [(None,) * op.arity]
    choices += [(BOOL, *(None,) * (op.arity - 1))] if op.arity > 2 else []
    for operands in choices:
        results = {}
        for dtype in DTYPES.values():
            try:
                results[dtype] = op.result_dtype(*(each or dtype for each in operands))
            except TcpError:
                continue
        if len(results) > 1:
            same = all(dtype == result for dtype, result in results.items())
            return operands, None if same else next(iter(results.values()))
    raise RuleError(f"{op.name} has no signature of one chosen dtype")

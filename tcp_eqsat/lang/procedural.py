"""The procedural form: what an operation does where no index expression says it (sorting, scattering, decompositions).

A procedure is a small program in single-assignment form over the operation's operand and result arrays, in memory and
C-contiguous, and scratch arrays. Values are scalars; indices are i64. Code generation turns it into machine code;
`run` interprets it.

    statement ::= Compute(result, op, values)        a scalar operation
                | Constant(result, literal)
                | Extent(result, size)                a size, as i64
                | Load(result, array, indices)
                | Store(array, indices, value)
                | Set(variable, value)                a variable that changes
                | Get(result, variable)
                | For(index, extent, body)            index = 0, 1, ..., extent - 1, in this order
                | While(head, condition, body)        head gives the condition before each iteration
                | If(condition, then, otherwise)

Indices must be inside the array: a procedure that indexes by data clamps or tests it first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tcp_eqsat.errors import TypeMismatch
from tcp_eqsat.lang.dims import Size, evaluate
from tcp_eqsat.lang.scalar import (
    Number,
    ScalarApply,
    ScalarExpr,
    ScalarFunction,
    ScalarLiteral,
    ScalarOp,
    ScalarParameter,
    evaluate_op,
    literal,
    scalar_op_named,
)
from tcp_eqsat.lang.types import I64, DType, TensorType


@dataclass(frozen=True, slots=True)
class Name:
    """A value of a procedure, by number."""

    number: int
    dtype: DType


@dataclass(frozen=True, slots=True)
class Variable:
    """A scalar that changes, by number; `Set` before the first `Get`."""

    number: int
    dtype: DType


@dataclass(frozen=True, slots=True)
class Array:
    """An array that a procedure reads or writes.

    name   `x0`, `x1`, ... for operands, `r0`, ... for results, `s0`, ... for scratch
    """

    name: str
    type: TensorType


@dataclass(frozen=True, slots=True)
class Compute:
    result: Name
    op: ScalarOp
    operands: tuple[Name, ...]


@dataclass(frozen=True, slots=True)
class Constant:
    result: Name
    literal: ScalarLiteral


@dataclass(frozen=True, slots=True)
class Extent:
    result: Name
    size: Size


@dataclass(frozen=True, slots=True)
class Load:
    result: Name
    array: Array
    indices: tuple[Name, ...]


@dataclass(frozen=True, slots=True)
class Store:
    array: Array
    indices: tuple[Name, ...]
    value: Name


@dataclass(frozen=True, slots=True)
class Set:
    variable: Variable
    value: Name


@dataclass(frozen=True, slots=True)
class Get:
    result: Name
    variable: Variable


@dataclass(frozen=True, slots=True)
class For:
    index: Name
    extent: Name
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class While:
    head: tuple[Statement, ...]
    condition: Name
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class If:
    condition: Name
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...]


Statement = Compute | Constant | Extent | Load | Store | Set | Get | For | While | If


@dataclass(frozen=True)
class Procedure:
    """Operands, results and scratch arrays, and what is done with them. Every element of every result is stored."""

    operands: tuple[Array, ...]
    results: tuple[Array, ...]
    scratch: tuple[Array, ...]
    body: tuple[Statement, ...] = field(repr=False)


class Scalar:
    """A value under construction. Python's arithmetic and comparison operators apply scalar operations to it."""

    __hash__ = None  # type: ignore[assignment]
    __slots__ = ("_writer", "name")

    def __init__(self, writer: Writer, name: Name) -> None:
        self._writer = writer
        self.name = name

    @property
    def dtype(self) -> DType:
        return self.name.dtype

    def _apply(self, op: str, other: Scalar | Number) -> Scalar:
        return self._writer.apply(op, self, other)

    def __add__(self, other: Scalar | Number) -> Scalar:
        return self._apply("add", other)

    def __radd__(self, other: Number) -> Scalar:
        return self._writer.constant(other, self.dtype) + self

    def __sub__(self, other: Scalar | Number) -> Scalar:
        return self._apply("subtract", other)

    def __rsub__(self, other: Number) -> Scalar:
        return self._writer.constant(other, self.dtype) - self

    def __mul__(self, other: Scalar | Number) -> Scalar:
        return self._apply("multiply", other)

    def __rmul__(self, other: Number) -> Scalar:
        return self._writer.constant(other, self.dtype) * self

    def __truediv__(self, other: Scalar | Number) -> Scalar:
        """Floats: IEEE; integers: truncating."""
        return self._apply("divide", other)

    def __mod__(self, other: Scalar | Number) -> Scalar:
        """The remainder with the dividend's sign."""
        return self._apply("fmod", other)

    def __neg__(self) -> Scalar:
        return self._writer.apply("negative", self)

    def __and__(self, other: Scalar | Number) -> Scalar:
        return self._apply("bitwise_and", other)

    def __or__(self, other: Scalar | Number) -> Scalar:
        return self._apply("bitwise_or", other)

    def __invert__(self) -> Scalar:
        return self._writer.apply("bitwise_invert", self)

    def __lt__(self, other: Scalar | Number) -> Scalar:
        return self._apply("less", other)

    def __le__(self, other: Scalar | Number) -> Scalar:
        return self._apply("less_equal", other)

    def __gt__(self, other: Scalar | Number) -> Scalar:
        return self._apply("greater", other)

    def __ge__(self, other: Scalar | Number) -> Scalar:
        return self._apply("greater_equal", other)

    def __eq__(self, other: Scalar | Number) -> Scalar:  # type: ignore[override]
        return self._apply("equal", other)

    def __ne__(self, other: Scalar | Number) -> Scalar:  # type: ignore[override]
        return self._apply("not_equal", other)


class Cell:
    """A variable under construction."""

    def __init__(self, writer: Writer, variable: Variable) -> None:
        self._writer = writer
        self.variable = variable

    def get(self) -> Scalar:
        return self._writer.named(lambda result: Get(result, self.variable), self.variable.dtype)

    def set(self, value: Scalar | Number) -> None:
        self._writer.write(Set(self.variable, self._writer.lift(value, self.variable.dtype).name))


class Writer:
    """Writes a procedure: each call appends a statement to the innermost open block."""

    def __init__(self, operands: Sequence[TensorType], results: Sequence[TensorType]) -> None:
        self.operands = tuple(Array(f"x{n}", each) for n, each in enumerate(operands))
        self.results = tuple(Array(f"r{n}", each) for n, each in enumerate(results))
        self._scratch: list[Array] = []
        self._blocks: list[list[Statement]] = [[]]
        self._names = 0
        self._variables = 0

    def finish(self) -> Procedure:
        (body,) = self._blocks
        return Procedure(self.operands, self.results, tuple(self._scratch), tuple(body))

    # Values

    def write(self, statement: Statement) -> None:
        self._blocks[-1].append(statement)

    def named(self, make: Callable[[Name], Statement], dtype: DType) -> Scalar:
        """A new value, which the statement that `make` makes of its name computes."""
        name = self._fresh(dtype)
        self.write(make(name))
        return Scalar(self, name)

    def _fresh(self, dtype: DType) -> Name:
        self._names += 1
        return Name(self._names - 1, dtype)

    def constant(self, value: Number | np.generic, dtype: DType = I64) -> Scalar:
        return self.named(lambda result: Constant(result, literal(value, dtype)), dtype)

    def extent(self, size: Size) -> Scalar:
        """A size as an i64."""
        if isinstance(size, int):
            return self.constant(size)
        return self.named(lambda result: Extent(result, size), I64)

    def lift(self, value: Scalar | Number, dtype: DType) -> Scalar:
        return value if isinstance(value, Scalar) else self.constant(value, dtype)

    def apply(self, op: str | ScalarOp, *operands: Scalar | Number) -> Scalar:
        """A scalar operation; numbers take the dtype of the last operand that has one."""
        applied = scalar_op_named(op) if isinstance(op, str) else op
        dtype = next(x.dtype for x in reversed(operands) if isinstance(x, Scalar))
        lifted = tuple(self.lift(x, dtype).name for x in operands)
        result = applied.result_dtype(*(x.dtype for x in lifted))
        return self.named(lambda name: Compute(name, applied, lifted), result)

    def function(self, function: ScalarFunction, *operands: Scalar) -> Scalar:
        """A scalar function applied to values."""
        (result,) = self.functions((function,), *operands)
        return result

    def functions(self, functions: Sequence[ScalarFunction], *operands: Scalar) -> tuple[Scalar, ...]:
        """Several scalar functions of the same values; what they share is computed once."""
        values: dict[ScalarExpr, Scalar] = {}
        for function in functions:
            for expr in function.walk():
                if expr in values:
                    continue
                match expr:
                    case ScalarParameter():
                        values[expr] = operands[expr.index]
                    case ScalarLiteral():
                        values[expr] = self.named(lambda name, e=expr: Constant(name, e), expr.dtype)  # type: ignore[misc]
                    case ScalarApply():
                        values[expr] = self.apply(expr.op, *(values[x] for x in expr.arguments))
        return tuple(values[function.result] for function in functions)

    def convert(self, value: Scalar, dtype: DType) -> Scalar:
        return value if value.dtype == dtype else self.apply(f"astype_{dtype}", value)

    def where(self, condition: Scalar, x: Scalar | Number, y: Scalar | Number) -> Scalar:
        dtype = x.dtype if isinstance(x, Scalar) else y.dtype if isinstance(y, Scalar) else I64
        return self.apply("where", condition, self.lift(x, dtype), self.lift(y, dtype))

    def clamp(self, value: Scalar, low: Scalar | Number, high: Scalar | Number) -> Scalar:
        """min(max(value, low), high)."""
        return self.apply("minimum", self.apply("maximum", value, low), high)

    # Arrays

    def scratch(self, dtype: DType, *shape: Size) -> Array:
        """An array of its own, uninitialised."""
        array = Array(f"s{len(self._scratch)}", TensorType(dtype, shape))
        self._scratch.append(array)
        return array

    def load(self, array: Array, indices: Sequence[Scalar | Number]) -> Scalar:
        at = self._indices(array, indices)
        return self.named(lambda result: Load(result, array, at), array.type.dtype)

    def store(self, array: Array, indices: Sequence[Scalar | Number], value: Scalar | Number) -> None:
        at = self._indices(array, indices)
        stored = self.lift(value, array.type.dtype)
        if stored.dtype != array.type.dtype:
            raise TypeMismatch(f"{array.name} holds {array.type.dtype}, and {stored.dtype} is stored")
        self.write(Store(array, at, stored.name))

    def _indices(self, array: Array, indices: Sequence[Scalar | Number]) -> tuple[Name, ...]:
        at = tuple(self.lift(index, I64).name for index in indices)
        if len(at) != array.type.rank or any(x.dtype != I64 for x in at):
            raise TypeMismatch(f"{array.name} of type {array.type} requires {array.type.rank} indices of dtype i64")
        return at

    # Control

    @contextmanager
    def _block(self) -> Iterator[list[Statement]]:
        self._blocks.append([])
        yield self._blocks[-1]
        self._blocks.pop()

    @contextmanager
    def loop(self, extent: Scalar | Size) -> Iterator[Scalar]:
        """`with w.loop(n) as i:` runs the block for i = 0, ..., n - 1; a negative extent is an empty loop."""
        count = extent if isinstance(extent, Scalar) else self.extent(extent)
        index = self._fresh(I64)
        with self._block() as body:
            yield Scalar(self, index)
        self.write(For(index, count.name, tuple(body)))

    @contextmanager
    def loops(self, extents: Sequence[Scalar | Size]) -> Iterator[tuple[Scalar, ...]]:
        """Nested loops, the first outermost."""
        if not extents:
            yield ()
            return
        with self.loop(extents[0]) as first, self.loops(extents[1:]) as rest:
            yield (first, *rest)

    @contextmanager
    def while_(self, condition: Callable[[], Scalar]) -> Iterator[None]:
        """Runs the block as long as what `condition` writes and returns is true."""
        with self._block() as head:
            test = condition()
        with self._block() as body:
            yield
        self.write(While(tuple(head), test.name, tuple(body)))

    @contextmanager
    def if_(self, condition: Scalar) -> Iterator[None]:
        with self._block() as then:
            yield
        self.write(If(condition.name, tuple(then), ()))

    def choose(self, condition: Scalar, then: Callable[[], None], otherwise: Callable[[], None]) -> None:
        """Runs what one of two functions writes."""
        with self._block() as first:
            then()
        with self._block() as second:
            otherwise()
        self.write(If(condition.name, tuple(first), tuple(second)))

    def variable(self, initial: Scalar | Number, dtype: DType = I64) -> Cell:
        """A scalar that changes, of the initial value's dtype (`dtype` for a number)."""
        value = self.lift(initial, dtype)
        self._variables += 1
        cell = Cell(self, Variable(self._variables - 1, value.dtype))
        cell.set(value)
        return cell


def run(procedure: Procedure, operands: Sequence[np.ndarray], bindings: Mapping[str, int] | None = None
        ) -> tuple[np.ndarray, ...]:
    """The results by interpretation, element by element; IndexError for an index outside an array."""
    state = _State(procedure, operands, bindings or {})
    with np.errstate(all="ignore"):
        state.block(procedure.body)
    return tuple(state.arrays[x.name] for x in procedure.results)


class _State:
    def __init__(self, procedure: Procedure, operands: Sequence[np.ndarray], bindings: Mapping[str, int]) -> None:
        self.bindings = bindings
        self.values: dict[int, Any] = {}
        self.variables: dict[int, Any] = {}
        self.arrays = {a.name: np.asarray(x) for a, x in zip(procedure.operands, operands, strict=True)}
        for array in (*procedure.results, *procedure.scratch):
            shape = tuple(evaluate(size, bindings) for size in array.type.shape)
            self.arrays[array.name] = np.zeros(shape, array.type.dtype.numpy)

    def block(self, statements: tuple[Statement, ...]) -> None:
        for statement in statements:
            self.statement(statement)

    def statement(self, statement: Statement) -> None:
        values = self.values
        match statement:
            case Compute(result, op, operands):
                found = evaluate_op(op, result.dtype, *(values[x.number] for x in operands))
                values[result.number] = found[()]
            case Constant(result, number):
                values[result.number] = number.value
            case Extent(result, size):
                values[result.number] = np.int64(evaluate(size, self.bindings))
            case Load(result, array, indices):
                values[result.number] = self.arrays[array.name][self.at(array, indices)]
            case Store(array, indices, value):
                self.arrays[array.name][self.at(array, indices)] = values[value.number]
            case Set(variable, value):
                self.variables[variable.number] = values[value.number]
            case Get(result, variable):
                values[result.number] = self.variables[variable.number]
            case For(index, extent, body):
                for n in range(int(values[extent.number])):
                    values[index.number] = np.int64(n)
                    self.block(body)
            case While(head, condition, body):
                self.block(head)
                while values[condition.number]:
                    self.block(body)
                    self.block(head)
            case If(condition, then, otherwise):
                self.block(then if values[condition.number] else otherwise)

    def at(self, array: Array, indices: tuple[Name, ...]) -> tuple[int, ...]:
        at = tuple(int(self.values[x.number]) for x in indices)
        if any(not 0 <= i < size for i, size in zip(at, self.arrays[array.name].shape, strict=True)):
            raise IndexError(f"{array.name}{list(at)} is outside {self.arrays[array.name].shape}")
        return at


__all__ = ["Array", "Cell", "Procedure", "Scalar", "Variable", "Writer", "run"]

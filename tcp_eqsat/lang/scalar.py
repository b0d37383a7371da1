"""Scalar operations and functions: what an elementwise operation, a reduction or a fold does to its elements.

One `ScalarOp` is everything a scalar operation is: its typing rule, its NumPy reference, how a back end emits it,
its derivative and its documentation. `SCALAR_OPS` is the table; the package `lang/scalars` fills it.
A `ScalarFunction` composes scalar operations over parameters; it is interned, so equal functions are one object.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from tcp_eqsat.errors import TypeMismatch, UnknownName
from tcp_eqsat.lang.narrow import by_f32, convert_array, encode_float, in_f32, is_beyond, widened
from tcp_eqsat.lang.types import DType, Kind, integer_range

Number = bool | int | float | complex


class _NotDifferentiable:
    """The explicit absence of a derivative: cotangents stop here (they are zero)."""

    def __repr__(self) -> str:
        return "NOT_DIFFERENTIABLE"


NOT_DIFFERENTIABLE: Final = _NotDifferentiable()

Derivative = Callable[..., tuple["ScalarExpr | None", ...]]


@dataclass(frozen=True, eq=False)
class ScalarOp:
    """One scalar operation. Equality is identity; operations are interned by name.

    infer       operand dtypes -> result dtype; raises TypeMismatch
    reference   arrays of the operand dtypes -> array of the result dtype, elementwise (the definition)
    emit        (builder, *values) -> value
    derivative  (cotangent, *operands) -> one ScalarExpr per operand (None: no contribution), or NOT_DIFFERENTIABLE
    identity    dtype -> the value a reduction by this operation starts from, for associative commutative operations
    takes_narrow  whether reference and emission take f16 and bf16 as they are; else they compute in f32, and
                what they give in f32 is rounded to the operands' dtype
    """

    name: str
    operands: tuple[str, ...]
    infer: Callable[..., DType] = field(repr=False)
    reference: Callable[..., np.ndarray] = field(repr=False)
    emit: Callable[..., Any] = field(repr=False)
    derivative: Derivative | _NotDifferentiable = field(repr=False)
    doc: str = field(repr=False)
    commutative: bool = False
    identity: Callable[[DType], Number] | None = field(default=None, repr=False)
    takes_narrow: bool = field(default=False, repr=False)

    @property
    def arity(self) -> int:
        return len(self.operands)

    def result_dtype(self, *operands: DType) -> DType:
        """The dtype of the result; raises TypeMismatch with the operation's name."""
        if len(operands) != self.arity:
            raise TypeMismatch(f"{self.name} requires {self.arity} operands, got {len(operands)}")
        if not any(dtype.is_complex for dtype in operands):
            return self.infer(*operands)
        form = COMPLEX_FORMS.get(self.name)
        if form is None:
            raise TypeMismatch(f"{self.name} requires real numbers, got {', '.join(map(str, operands))}")
        return form.infer(*operands)


SCALAR_OPS: dict[str, ScalarOp] = {}

Parts = tuple["ScalarExpr", "ScalarExpr"]


@dataclass(frozen=True)
class ComplexForm:
    """What a scalar operation is on complex operands. Complex values are taken apart before the e-graph is built.

    infer      operand dtypes, some of them complex -> result dtype; raises TypeMismatch
    parts      the operands, complex ones as pairs of real and imaginary part -> the result, a pair if it is complex
    reference  arrays of the operand dtypes -> array of the result dtype, elementwise (the definition)
    """

    infer: Callable[..., DType]
    parts: Callable[..., Parts | ScalarExpr]
    reference: Callable[..., Any]


COMPLEX_FORMS: dict[str, ComplexForm] = {}


def scalar_op(name: str, operands: str, **definition: Any) -> ScalarOp:
    """Define a scalar operation and enter it in the table."""
    if name in SCALAR_OPS:
        raise ValueError(f"scalar operation {name} is defined twice")
    if not definition["doc"].strip():
        raise ValueError(f"scalar operation {name} has no documentation")
    if not definition.get("takes_narrow") and {"reference", "emit"} <= definition.keys():
        definition |= {"reference": in_f32(definition["reference"]), "emit": by_f32(definition["emit"])}
    op = ScalarOp(name, tuple(operands.split()), **definition)
    SCALAR_OPS[name] = op
    return op


_FAMILIES: dict[str, Callable[[str], ScalarOp | None]] = {}


def scalar_family(pattern: str, find: Callable[[str], ScalarOp | None]) -> None:
    """Declare operations with numbers in their names, which enter the table when they are first asked for.

    `find` gives the operation called by a name, or None where the name is not one of the family's.
    """
    _FAMILIES[pattern] = find


def find_scalar_op(name: str) -> ScalarOp | None:
    """The scalar operation called `name`, or None."""
    found = SCALAR_OPS.get(name)
    return found or next(filter(None, (find(name) for find in _FAMILIES.values())), None)


def scalar_op_named(name: str) -> ScalarOp:
    """The scalar operation called `name`; raises UnknownName."""
    found = find_scalar_op(name)
    if found is None:
        raise UnknownName(f"unknown scalar operation {name!r}")
    return found


class ScalarExpr:
    """A scalar expression: a parameter, a literal, or an operation applied to expressions. Interned.

    Python's operators build expressions, so that a derivative reads as mathematics.
    """

    __slots__ = ("__weakref__", "dtype")
    dtype: DType

    def _lift(self, other: ScalarExpr | Number) -> ScalarExpr:
        return other if isinstance(other, ScalarExpr) else literal(other, self.dtype)

    def __add__(self, other: ScalarExpr | Number) -> ScalarExpr:
        return apply("add", self, self._lift(other))

    def __radd__(self, other: Number) -> ScalarExpr:
        return apply("add", self._lift(other), self)

    def __sub__(self, other: ScalarExpr | Number) -> ScalarExpr:
        return apply("subtract", self, self._lift(other))

    def __rsub__(self, other: Number) -> ScalarExpr:
        return apply("subtract", self._lift(other), self)

    def __mul__(self, other: ScalarExpr | Number) -> ScalarExpr:
        return apply("multiply", self, self._lift(other))

    def __rmul__(self, other: Number) -> ScalarExpr:
        return apply("multiply", self._lift(other), self)

    def __truediv__(self, other: ScalarExpr | Number) -> ScalarExpr:
        return apply("divide", self, self._lift(other))

    def __rtruediv__(self, other: Number) -> ScalarExpr:
        return apply("divide", self._lift(other), self)

    def __neg__(self) -> ScalarExpr:
        return apply("negative", self)

    @property
    def operands(self) -> tuple[ScalarExpr, ...]:
        return ()


@dataclass(frozen=True, eq=False, slots=True, init=False)
class ScalarParameter(ScalarExpr):
    index: int

    def __init__(self, index: int, dtype: DType) -> None:
        object.__setattr__(self, "index", index)
        object.__setattr__(self, "dtype", dtype)


@dataclass(frozen=True, eq=False, slots=True, init=False)
class ScalarLiteral(ScalarExpr):
    """A constant, kept by its bits: -0.0 is not 0.0, and one NaN is one NaN."""

    bits: bytes

    def __init__(self, bits: bytes, dtype: DType) -> None:
        object.__setattr__(self, "bits", bits)
        object.__setattr__(self, "dtype", dtype)

    @property
    def value(self) -> Any:
        """The constant as a NumPy scalar."""
        return np.frombuffer(self.bits, self.dtype.numpy)[0]


@dataclass(frozen=True, eq=False, slots=True, init=False)
class ScalarApply(ScalarExpr):
    op: ScalarOp
    arguments: tuple[ScalarExpr, ...]

    def __init__(self, op: ScalarOp, arguments: tuple[ScalarExpr, ...], dtype: DType) -> None:
        object.__setattr__(self, "op", op)
        object.__setattr__(self, "arguments", arguments)
        object.__setattr__(self, "dtype", dtype)

    @property
    def operands(self) -> tuple[ScalarExpr, ...]:
        return self.arguments


_table: weakref.WeakValueDictionary[tuple[Any, ...], Any] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def _interned(key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
    """The one living expression of `key`."""
    found = _table.get(key)
    if found is None:
        made = make()
        with _lock:
            found = _table.setdefault(key, made)
    return found


@functools.lru_cache(maxsize=None)
def parameter(index: int, dtype: DType) -> ScalarParameter:
    return ScalarParameter(index, dtype)


def encode_number(value: Number | np.generic, dtype: DType) -> bytes:
    """The bits of `value` in `dtype`; a float is rounded to nearest even, and every NaN is one NaN.

    Raises TypeMismatch for what is no real number, where an integer does not fit or would be rounded, and for a
    number that a float dtype lacks altogether: an infinity, or what would be one, or 0 in f8e8m0fnu.
    """
    if isinstance(value, np.generic) and value.dtype.itemsize <= 2:
        value = widened(np.asarray(value)).item()
    if dtype.is_complex and isinstance(value, (complex, np.complexfloating)):
        return encode_number(value.real, dtype.part) + encode_number(value.imag, dtype.part)
    if not isinstance(value, (bool, int, float, np.bool_, np.integer, np.floating)):
        raise TypeMismatch(f"a number is required, got {type(value).__name__}")
    if dtype.is_complex:
        return encode_number(value, dtype.part) + encode_number(0, dtype.part)
    if dtype.kind is not Kind.FLOAT:
        if isinstance(value, (float, np.floating)) and not float(value).is_integer():
            raise TypeMismatch(f"a literal of dtype {dtype} must be an integer, got {value}")
        number = int(value)
        least, most = integer_range(dtype)
        if not least <= number <= most:
            raise TypeMismatch(f"a literal of dtype {dtype} must be in {least}..{most}, got {number}")
        return convert_array(np.array(number, np.int64 if number < 0 else np.uint64), dtype).tobytes()
    array = encode_float(value, dtype)
    if (np.isnan(array) and value == value) or is_beyond(value, dtype):
        raise TypeMismatch(f"a literal of dtype {dtype} must be one of its numbers, which {value} is not")
    return array.tobytes()


def literal(value: Number | np.generic, dtype: DType) -> ScalarLiteral:
    """A constant of `dtype`; a float is rounded to nearest even."""
    bits = encode_number(value, dtype)
    found: ScalarLiteral = _interned((bits, dtype), lambda: ScalarLiteral(bits, dtype))
    return found


def apply(op: ScalarOp | str, *arguments: ScalarExpr) -> ScalarApply:
    """The operation applied to expressions; raises TypeMismatch where it does not type."""
    applied = scalar_op_named(op) if isinstance(op, str) else op

    def make() -> ScalarApply:
        return ScalarApply(applied, arguments, applied.result_dtype(*(x.dtype for x in arguments)))

    found: ScalarApply = _interned((applied, arguments), make)
    return found


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """A scalar function: parameter dtypes and one result expression over `ScalarParameter`s. Closed."""

    parameters: tuple[DType, ...]
    result: ScalarExpr

    @property
    def dtype(self) -> DType:
        return self.result.dtype

    @property
    def single_op(self) -> ScalarOp | None:
        """The operation, when the function is one operation applied to all parameters in order."""
        body = self.result
        if isinstance(body, ScalarApply) and body.arguments == tuple(
            parameter(i, dtype) for i, dtype in enumerate(self.parameters)
        ):
            return body.op
        return None

    def walk(self) -> Iterator[ScalarExpr]:
        """Every distinct subexpression, operands before users."""
        seen: set[ScalarExpr] = set()
        stack: list[tuple[ScalarExpr, bool]] = [(self.result, False)]
        while stack:
            expr, expanded = stack.pop()
            if expanded:
                yield expr
            elif expr not in seen:
                seen.add(expr)
                stack.append((expr, True))
                stack.extend((x, False) for x in reversed(expr.operands) if x not in seen)

    def applied(self, arguments: Mapping[int, ScalarExpr]) -> ScalarExpr:
        """The result with expressions in place of the parameters that it uses, by their numbers."""
        known: dict[ScalarExpr, ScalarExpr] = {}
        for expr in self.walk():
            match expr:
                case ScalarParameter():
                    known[expr] = arguments[expr.index]
                case ScalarApply():
                    known[expr] = apply(expr.op, *(known[x] for x in expr.arguments))
                case _:
                    known[expr] = expr
        return known[self.result]

    def evaluate(self, *operands: np.ndarray) -> np.ndarray:
        """The function's value by the NumPy references, elementwise."""
        values: dict[ScalarExpr, Any] = {}
        for expr in self.walk():
            match expr:
                case ScalarParameter():
                    values[expr] = operands[expr.index]
                case ScalarLiteral():
                    values[expr] = expr.value
                case ScalarApply():
                    values[expr] = evaluate_op(expr.op, expr.dtype, *(values[x] for x in expr.arguments))
        return np.broadcast_to(values[self.result], np.broadcast_shapes(*(np.shape(x) for x in operands)))


def evaluate_op(op: ScalarOp, dtype: DType, *operands: Any) -> np.ndarray:
    """One operation on arrays by its reference, with the floating-point warnings off."""
    is_complex = any(np.asarray(x).dtype.kind == "c" for x in operands)
    reference = COMPLEX_FORMS[op.name].reference if is_complex else op.reference
    with np.errstate(all="ignore"):
        return np.asarray(reference(*operands), dtype.numpy)


@functools.lru_cache(maxsize=None)
def function_of(op: ScalarOp, *dtypes: DType) -> ScalarFunction:
    """The scalar function that applies `op` to its parameters in order."""
    return ScalarFunction(dtypes, apply(op, *(parameter(i, dtype) for i, dtype in enumerate(dtypes))))

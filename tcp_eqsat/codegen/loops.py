"""The loop IR: what a schedule writes and what the CPU and GPU back ends emit.

    nest      ::= Nest(name, arrays, body)
    statement ::= For(index, extent, body, how)       extent iterations, in any order
                | Fold(accumulators, body)            values that the body's updates gather; read after it
                | Update(accumulator, value)          accumulator = op(accumulator, value)
                | Let(name, value)
                | Store(array, offset, value)
                | Prefetch(array, offset)             a hint: the element is loaded soon. It may be beyond the end
                | If(ranges, body)
                | Each(index, body)                     the copies of an open loop, one after the other
    value     ::= Load(array, offset) | Read(name) | Constant | IndexValue(index)
                | Apply(op, value...) | Choose(ranges, value, value)
    how       ::= parallel?, lanes, copies, unroll, position?

Offsets count elements and are affine in the indices of the loops around; extents, offsets and strides are sizes
that are known when the nest starts. Iterations of a loop are independent but for the updates of accumulators
declared outside it, whose order is free, unless the loop is ordered. How a loop runs:

    lanes     that many adjacent iterations in one vector: a value that depends on the index is a vector
    copies    that many such steps side by side, statement by statement (unroll and jam): a value that depends on
              the index exists that many times, and so do accumulators that the loop updates. In an Each it has one
    unroll    that many steps one after the other before the loop jumps
    position  an index that counts iterations from the start of the step (0 .. lanes * copies - 1), by which
              scratch arrays are addressed
    parallel  steps may run on several cores
    bypass    stores go around the caches where the arrays that they fill are large: nothing here reads these again
    ordered   iterations run one after the other: each reads what those before stored in scratch arrays

The last step is masked or shortened, so no access is out of bounds. A Choose evaluates only the chosen value.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Container, Iterator
from dataclasses import dataclass, field

from tcp_eqsat.errors import VerificationError
from tcp_eqsat.lang.dims import Size, format_size
from tcp_eqsat.lang.pointful import Affine, IndexRange, axis_index
from tcp_eqsat.lang.scalar import ScalarLiteral, ScalarOp
from tcp_eqsat.lang.types import BOOL, DType

# Values. Equality is identity: equal values are made one object by the schedule. ---------------------------------


@dataclass(frozen=True, eq=False, slots=True)
class Load:
    array: str
    offset: Affine
    dtype: DType


@dataclass(frozen=True, eq=False, slots=True)
class Read:
    """What a Let or an accumulator is called."""

    name: str
    dtype: DType


@dataclass(frozen=True, eq=False, slots=True)
class Constant:
    literal: ScalarLiteral

    @property
    def dtype(self) -> DType:
        return self.literal.dtype


@dataclass(frozen=True, eq=False, slots=True)
class IndexValue:
    """An index as a number, converted to `dtype`."""

    index: Affine
    dtype: DType


@dataclass(frozen=True, eq=False, slots=True)
class Apply:
    op: ScalarOp
    operands: tuple[Value, ...]
    dtype: DType


@dataclass(frozen=True, eq=False, slots=True)
class Choose:
    """`inside` where every index is in its range, else `outside`."""

    ranges: tuple[IndexRange, ...]
    inside: Value
    outside: Value

    @property
    def dtype(self) -> DType:
        return self.inside.dtype


Value = Load | Read | Constant | IndexValue | Apply | Choose


def operands_of(value: Value) -> tuple[Value, ...]:
    match value:
        case Apply(operands=operands):
            return operands
        case Choose(inside=inside, outside=outside):
            return (inside, outside)
        case _:
            return ()


def walk_values(*roots: Value, stop: Container[int] = ()) -> Iterator[Value]:
    """Every distinct value the roots depend on, operands before users; not what is below those with ids in `stop`."""
    seen: set[int] = set()
    stack: list[tuple[Value, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        value, expanded = stack.pop()
        if expanded:
            yield value
        elif id(value) not in seen:
            seen.add(id(value))
            stack.append((value, True))
            if id(value) not in stop:
                stack.extend((x, False) for x in reversed(operands_of(value)) if id(x) not in seen)


# Statements ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class How:
    """How a loop runs; see the module's documentation."""

    lanes: int = 1
    copies: int = 1
    unroll: int = 1
    position: int | None = None
    parallel: bool = False
    ordered: bool = False
    bypass: bool = False


SERIAL = How()
BYPASS_WIDTHS = (16, 32, 64)
"""Bytes of the vectors that a loop may store around the caches."""


@dataclass(frozen=True, slots=True)
class For:
    index: int
    extent: Size
    body: tuple[Statement, ...]
    how: How = SERIAL


@dataclass(frozen=True, slots=True)
class Accumulator:
    """A value gathered by `op`, which starts from the value that changes nothing."""

    name: str
    op: ScalarOp
    dtype: DType


@dataclass(frozen=True, slots=True)
class Fold:
    accumulators: tuple[Accumulator, ...]
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Update:
    """`fused` says that a product may be added with a single rounding."""

    name: str
    value: Value
    fused: bool = False


@dataclass(frozen=True, slots=True)
class Let:
    name: str
    value: Value


@dataclass(frozen=True, slots=True)
class Store:
    array: str
    offset: Affine
    value: Value


@dataclass(frozen=True, slots=True)
class Prefetch:
    array: str
    offset: Affine


@dataclass(frozen=True, slots=True)
class If:
    ranges: tuple[IndexRange, ...]
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Each:
    """The body for one copy of the open loop over `index` at a time. Names from outside don't depend on the index."""

    index: int
    body: tuple[Statement, ...]


Statement = For | Fold | Update | Let | Store | Prefetch | If | Each
Body = tuple[Statement, ...]


class Access(enum.Enum):
    """What a nest does with an array. SCRATCH belongs to one run of the nest and starts undefined."""

    READ = "read"
    WRITE = "write"
    SCRATCH = "scratch"


@dataclass(frozen=True, slots=True)
class Panels:
    """How a packed copy of the array `source` is made, once and before any run.

    The copy goes over `axes` in order (extent and stride in the source, in elements) and in each place has `width`
    columns side by side. The first `batch` axes are outermost, panels of columns stand between them and the others:
    copy[batch, column // width, others, column % width] = source[batch, others, column], zero beyond the last column.
    """

    source: str
    offset: int
    axes: tuple[tuple[int, int], ...]
    batch: int
    columns: int
    column_stride: int
    width: int

    @property
    def steps(self) -> int:
        """Rows of a panel."""
        return math.prod(extent for extent, _ in self.axes[self.batch:])

    @property
    def matrix(self) -> int:
        """Elements of all panels of one matrix."""
        return -(-self.columns // self.width) * self.width * self.steps

    @property
    def size(self) -> int:
        """Elements of the copy."""
        return math.prod(extent for extent, _ in self.axes[:self.batch]) * self.matrix


@dataclass(frozen=True, slots=True)
class Array:
    """Memory of `size` elements; `panels` where it holds a packed copy of a constant."""

    name: str
    dtype: DType
    size: Size
    access: Access
    panels: Panels | None = None


@dataclass(frozen=True)
class Nest:
    """One kernel as loops. `origin` says in a few words what it computes."""

    name: str
    arrays: tuple[Array, ...]
    body: Body
    origin: str = field(default="", compare=False)

    def array(self, name: str) -> Array:
        return next(a for a in self.arrays if a.name == name)


def inner_bodies(statement: Statement) -> tuple[Body, ...]:
    match statement:
        case For(body=body) | Fold(body=body) | If(body=body) | Each(body=body):
            return (body,)
        case _:
            return ()


def walk_statements(body: Body) -> Iterator[Statement]:
    """Every statement, outer ones first."""
    for statement in body:
        yield statement
        for inner in inner_bodies(statement):
            yield from walk_statements(inner)


def value_of_statement(statement: Statement) -> Value | None:
    match statement:
        case Let(value=value) | Store(value=value) | Update(value=value):
            return value
        case _:
            return None


# Verification ----------------------------------------------------------------------------------------------------


def verify_nest(nest: Nest) -> None:
    """Raises VerificationError where a name, index or array is not defined, or used against its declaration."""
    _Verifier(nest).run()


class _Verifier:
    def __init__(self, nest: Nest) -> None:
        self.nest = nest
        self.arrays = {a.name: a for a in nest.arrays}
        if len(self.arrays) != len(nest.arrays):
            self._fail("two arrays have one name")

    def run(self) -> None:
        self._body(self.nest.body, frozenset(), {}, frozenset(), vector=False)

    def _fail(self, fact: str) -> None:
        raise VerificationError(f"nest {self.nest.name}: {fact}")

    def _body(self, body: Body, indices: frozenset[int], names: dict[str, DType], open_: frozenset[str],
              vector: bool) -> None:
        names = dict(names)
        for statement in body:
            match statement:
                case For(index, _, inner, how):
                    if index in indices:
                        self._fail(f"index {index} is bound twice")
                    if how.lanes > 1 and vector:
                        self._fail("a vector loop stands in a vector loop")
                    if min(how.lanes, how.copies, how.unroll) < 1:
                        self._fail("lanes, copies and unroll must be at least 1")
                    if how.ordered and (how.lanes > 1 or how.copies > 1 or how.parallel):
                        self._fail(f"the ordered loop over {index} runs iterations side by side")
                    bound = indices | {index} | ({how.position} if how.position is not None else set())
                    self._body(inner, bound, names, open_, vector or how.lanes > 1)
                case Fold(accumulators, inner):
                    fresh = {a.name: a.dtype for a in accumulators}
                    if len(fresh) != len(accumulators) or any(n in names for n in fresh):
                        self._fail(f"an accumulator of {', '.join(fresh)} is declared twice")
                    self._body(inner, indices, names, open_ | set(fresh), vector)
                    names |= fresh
                case Update(name, value):
                    if name not in open_:
                        self._fail(f"{name} is updated outside its fold")
                    self._value(value, indices, names)
                case Let(name, value):
                    if name in names:
                        self._fail(f"{name} is defined twice")
                    self._value(value, indices, names)
                    names[name] = value.dtype
                case Store(array, offset, value):
                    self._index(offset, indices)
                    self._value(value, indices, names)
                    if array not in self.arrays or self.arrays[array].access is Access.READ:
                        self._fail(f"{array} is not an array to write")
                    if self.arrays[array].dtype != value.dtype:
                        self._fail(f"{array} holds {self.arrays[array].dtype}, not {value.dtype}")
                case Prefetch(array, offset):
                    self._index(offset, indices)
                    if array not in self.arrays:
                        self._fail(f"{array} is not an array")
                case If(ranges, inner):
                    for r in ranges:
                        self._index(r.index, indices)
                    self._body(inner, indices, names, open_, vector)
                case Each(index, inner):
                    self._index(axis_index(index), indices)
                    self._body(inner, indices, names, open_, vector)

    def _index(self, index: Affine, indices: frozenset[int]) -> None:
        for axis in index.axes:
            if axis not in indices:
                self._fail(f"index {axis} is used outside its loop")

    def _value(self, root: Value, indices: frozenset[int], names: dict[str, DType]) -> None:
        for value in walk_values(root):
            match value:
                case Load(array, offset, dtype):
                    self._index(offset, indices)
                    found = self.arrays.get(array)
                    if found is None or found.access is Access.WRITE or found.dtype != dtype:
                        self._fail(f"{array} is not an array of {dtype} to read")
                case Read(name, dtype):
                    if names.get(name) != dtype:
                        self._fail(f"{name} of {dtype} is read before it is defined")
                case IndexValue(index):
                    self._index(index, indices)
                case Choose(ranges):
                    for r in ranges:
                        self._index(r.index, indices)
                case Constant() | Apply():
                    pass


# Text ------------------------------------------------------------------------------------------------------------

_OPERATORS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}


def format_nest(nest: Nest) -> str:
    """The nest as text, one statement a line."""
    return _Printer(nest).text()


class _Printer:
    def __init__(self, nest: Nest) -> None:
        self.nest = nest
        self.axes: dict[int, str] = {}
        self.named = 0

    def text(self) -> str:
        nest = self.nest
        groups = {access: [a for a in nest.arrays if a.access is access] for access in Access}
        reads, writes, scratch = (
            ", ".join(map(_array, groups[access])) for access in Access
        )
        title = f"nest {nest.name}({reads}) -> ({writes})" + (f" scratch ({scratch})" if scratch else "")
        lines = [title + (f"  # {nest.origin}" if nest.origin else "")]
        self._body(nest.body, 1, lines)
        return "\n".join(lines)

    def _axis(self, index: int) -> str:
        if index not in self.axes:
            number = self.named = self.named + 1
            self.axes[index] = "ijklmnopqrst"[number - 1] if number <= 12 else f"i{number}"
        return self.axes[index]

    def _body(self, body: Body, depth: int, lines: list[str]) -> None:
        pad = "  " * depth
        for statement in body:
            match statement:
                case For(index, extent, inner, how):
                    lines.append(f"{pad}{self._for(index, extent, how)}:")
                    self._body(inner, depth + 1, lines)
                case Fold(accumulators, inner):
                    lines.append(pad + "fold " + ", ".join(f"{a.name} by {a.op.name}" for a in accumulators) + ":")
                    self._body(inner, depth + 1, lines)
                case Update(name, value, fused):
                    lines.append(f"{pad}{name} <- {self._value(value)}" + ("  (fused)" if fused else ""))
                case Let(name, value):
                    lines.append(f"{pad}{name} = {self._value(value)}")
                case Store(array, offset, value):
                    lines.append(f"{pad}{array}[{self._index(offset)}] = {self._value(value)}")
                case Prefetch(array, offset):
                    lines.append(f"{pad}prefetch {array}[{self._index(offset)}]")
                case Each(index, inner):
                    lines.append(f"{pad}each {self._axis(index)}:")
                    self._body(inner, depth + 1, lines)
                case If(ranges, inner):
                    lines.append(f"{pad}if {self._ranges(ranges)}:")
                    self._body(inner, depth + 1, lines)

    def _for(self, index: int, extent: Size, how: How) -> str:
        kind = "parallel " if how.parallel else "ordered " if how.ordered else ""
        text = f"{kind}for {self._axis(index)} < {format_size(extent)}"
        if how.lanes > 1:
            text += f" vector {how.lanes}"
        if how.copies > 1:
            text += f" copies {how.copies}"
        if how.unroll > 1:
            text += f" unroll {how.unroll}"
        if how.bypass:
            text += " bypass"
        if how.position is not None:
            self.axes[how.position] = f"{self._axis(index)}'"
        return text

    def _index(self, index: Affine) -> str:
        parts = []
        for axis, coefficient in index.terms:
            name, factor = self._axis(axis), str(coefficient)
            if not isinstance(coefficient, int) and (" " in factor or "/" in factor):
                factor = f"({factor})"
            parts.append(name if coefficient == 1 else f"{factor}*{name}")
        if index.offset != 0 or not parts:
            parts.append(str(index.offset))
        return " + ".join(parts).replace("+ -", "- ")

    def _ranges(self, ranges: tuple[IndexRange, ...]) -> str:
        return " and ".join(f"{r.lower} <= {self._index(r.index)} < {r.upper}" for r in ranges)

    def _value(self, value: Value) -> str:
        match value:
            case Load(array, offset):
                return f"{array}[{self._index(offset)}]"
            case Read(name):
                return name
            case Constant(literal):
                return _literal(literal)
            case IndexValue(index, dtype):
                return f"{dtype}({self._index(index)})"
            case Apply(op, operands):
                parts = [self._value(x) for x in operands]
                if op.name in _OPERATORS:
                    return f"({parts[0]} {_OPERATORS[op.name]} {parts[1]})"
                return f"{op.name}({', '.join(parts)})"
            case Choose(ranges, inside, outside):
                return f"({self._value(inside)} if {self._ranges(ranges)} else {self._value(outside)})"


def _array(array: Array) -> str:
    text = f"{array.name}: {array.dtype}[{format_size(array.size)}]"
    panels = array.panels
    return text if panels is None else f"{text} = {panels.source} in panels of {panels.width} columns"


def _literal(literal: ScalarLiteral) -> str:
    if literal.dtype == BOOL:
        return str(bool(literal.value)).lower()
    return f"{float(literal.value):.9g}" if literal.dtype.is_float else str(literal.value)


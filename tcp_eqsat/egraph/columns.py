"""How attributes stand in the e-graph: one codec a kind of field, derived from its annotation.

    int, str                 i64, String
    DType, ScalarOp          String, the name
    Size                     Dim, a structural term of the canonical polynomial
    Shape                    Vec of Dim
    tuple of ints            Vec of i64
    labels                   Vec of i64 with a leading 0 and every label raised by 1: -1 becomes position 0, so
                             that composing two index maps is reading one at the entries of the other
    TensorType               two columns, dtype and shape; the type of a value is one column, a term of sort Type
"""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tcp_eqsat.egraph.engine import Engine, Tables, quoted, vector
from tcp_eqsat.errors import LimitError
from tcp_eqsat.lang import dims
from tcp_eqsat.lang.dims import Dim, Floor, Maximum, Minimum, Size, Symbol
from tcp_eqsat.lang.scalar import ScalarOp, scalar_op_named
from tcp_eqsat.lang.types import DType, Shape, TensorType, dtype_named

Ints = tuple[int, ...]
"""The annotation of labels and strides."""

DIM_TABLES: dict[str, str] = {
    "DimConstant": "i64", "DimLarge": "String", "DimSymbol": "String i64 i64 i64",
    "DimAdd": "Dim Dim", "DimMultiply": "Dim Dim",
    "DimFloor": "Dim Dim", "DimMinimum": "Dim Dim", "DimMaximum": "Dim Dim",
}
"""Constructors of sizes and the sorts of their columns."""

SORTS = (
    "(sort Ints (Vec i64))", "(sort Dim)", "(sort Dims (Vec Dim))",
    *(f"(constructor {name} ({columns}) Dim)" for name, columns in DIM_TABLES.items()),
    "(sort Type)", "(constructor TypeOf (String Dims) Type)",
)


# To text -----------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1 << 14)
def size_text(size: Size) -> str:
    """A size as a term: sorted sums of products; constants are literals."""
    if not isinstance(size, Dim):
        return _constant_text(size)
    terms = []
    for coefficient, monomial in size.terms:
        factors = [] if coefficient == 1 and monomial else [_constant_text(coefficient)]
        for atom, exponent in monomial:
            factors += [_atom_text(atom)] * exponent
        terms.append(_fold("DimMultiply", factors))
    return _fold("DimAdd", terms)


def _constant_text(number: int) -> str:
    """egglog reads an integer that is too large as a float."""
    return f"(DimConstant {number})" if _is_i64(number) else f'(DimLarge "{number}")'


def _fold(constructor: str, parts: list[str]) -> str:
    text = parts[-1]
    for part in reversed(parts[:-1]):
        text = f"({constructor} {part} {text})"
    return text


def _atom_text(atom: dims.Atom) -> str:
    match atom:
        case Symbol(name, lower, upper, divisor):
            return f"(DimSymbol {quoted(name)} {lower} {upper} {divisor})"
        case Floor(dividend, divisor):
            return f"(DimFloor {size_text(dividend)} {size_text(divisor)})"
        case Minimum(operands):
            return _fold("DimMinimum", [size_text(x) for x in operands])
        case Maximum(operands):
            return _fold("DimMaximum", [size_text(x) for x in operands])
    raise TypeError(f"a size has an atom of unknown kind {type(atom).__name__}")


@functools.lru_cache(maxsize=1 << 14)
def shape_text(shape: Shape) -> str:
    return vector(map(size_text, shape))


def int_text(value: int) -> str:
    """An i64; raises LimitError for an integer that is none."""
    if not _is_i64(value):
        raise LimitError(f"the e-graph's integers have 64 bits, got {value}")
    return str(value)


def _is_i64(value: int) -> bool:
    return -(2**63) <= value < 2**63


@functools.lru_cache(maxsize=1 << 14)
def ints_text(values: tuple[int, ...]) -> str:
    return vector(map(int_text, values))


@functools.lru_cache(maxsize=1 << 14)
def labels_text(labels: tuple[int, ...]) -> str:
    return vector(str(label + 1) for label in (-1, *labels))


class Vocabulary:
    """Names for the compound texts of one e-graph: each is defined once and named from then on.

    egglog takes a millisecond to type a command with a dozen shapes written out, and a twentieth of that with names.
    Names end in a letter: egglog 13 appends numbers to make variables of its own, and `$v1` so became `$v11`.
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._pending: list[str] = []

    def name(self, text: str) -> str:
        """A name for a text in parentheses; other texts stand for themselves (and the empty Vec, which has no sort)."""
        if not text.startswith("(") or text == "(vec-empty)":
            return text
        found = self._names.get(text)
        if found is None:
            found = self._names[text] = f"$v{len(self._names)}v"
            self._pending.append(f"(let {found} {text})")
        return found

    def definitions(self) -> list[str]:
        """The commands that define the names given since the last call."""
        pending, self._pending = self._pending, []
        return pending

    def __len__(self) -> int:
        return len(self._names)

    def forget(self, size: int) -> None:
        """Only the first `size` names are defined (any more)."""
        truncate(self._names, size)


def truncate(table: dict[Any, Any], size: int) -> None:
    """Drops what was added to a dictionary after its first `size` items."""
    while len(table) > size:
        table.popitem()


# From values --------------------------------------------------------------------------------------------------------


class Decoder:
    """Reads values back, each distinct one once.

    A value is a number without a sort, so every sort has a table of its own.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._readers: dict[str, Callable[[Any], Any]] = {
            "i64": engine.integer, "String": engine.string, "Ints": self._ints, "Dims": self._dims, "Dim": self._dim,
            "Type": self._type}
        self._known: dict[str, dict[Any, Any]] = {sort: {} for sort in self._readers}
        self._dim_rows: dict[Any, tuple[str, tuple[Any, ...]]] = {}
        self._type_rows: dict[Any, tuple[Any, ...]] = {}
        self._tables: Tables | None = None

    def read(self, tables: Tables) -> None:
        """Sizes and types are looked up in `tables` from now on."""
        self._tables = tables
        self._dim_rows, self._type_rows = {}, {}

    def sizes(self) -> dict[str, int]:
        """How many values of each sort are known."""
        return {sort: len(known) for sort, known in self._known.items()}

    def forget(self, sizes: dict[str, int]) -> None:
        """Only the first so many values of each sort mean anything (any more)."""
        for sort, size in sizes.items():
            truncate(self._known[sort], size)

    def value(self, sort: str, value: Any) -> Any:
        """The Python counterpart of a value of a sort: int, str, Size, tuple."""
        known = self._known[sort]
        found = known.get(value)
        if found is None:
            found = known[value] = self._readers[sort](value)
        return found

    def _ints(self, value: Any) -> tuple[int, ...]:
        return tuple(map(self._engine.integer, self._engine.items(value)))

    def _dims(self, value: Any) -> Shape:
        return tuple(self.value("Dim", x) for x in self._engine.items(value))

    def _type(self, value: Any) -> TensorType:
        if not self._type_rows:
            assert self._tables is not None, "types are read from tables"
            self._type_rows = {output: inputs for inputs, output in self._tables.rows("TypeOf")}
        dtype, shape = self._type_rows[value]
        return TensorType(dtype_named(self.value("String", dtype)), self.value("Dims", shape))

    def _dim(self, value: Any) -> Size:
        if not self._dim_rows:
            assert self._tables is not None, "sizes are read from tables"
            for name in DIM_TABLES:
                for inputs, output in self._tables.rows(name):
                    self._dim_rows.setdefault(output, (name, inputs))
        name, inputs = self._dim_rows[value]
        if name == "DimConstant":
            return self._engine.integer(inputs[0])
        if name == "DimLarge":
            return int(self.value("String", inputs[0]))
        if name == "DimSymbol":
            lower, upper, divisor = (self.value("i64", x) for x in inputs[1:])
            return dims.symbol(self.value("String", inputs[0]), lower, upper, divisor)
        x, y = (self.value("Dim", each) for each in inputs)
        return _DIM_OPERATIONS[name](x, y)


_DIM_OPERATIONS: dict[str, Callable[[Size, Size], Size]] = {
    "DimAdd": lambda x, y: x + y, "DimMultiply": lambda x, y: x * y, "DimFloor": dims.floor_divide,
    "DimMinimum": dims.minimum, "DimMaximum": dims.maximum,
}


# Codecs -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Codec:
    """How one kind of attribute becomes columns.

    sorts   the sort of each column
    encode  attribute -> text of each column; raises LimitError where a column can't hold it
    decode  Python counterparts of the columns -> attribute
    """

    sorts: tuple[str, ...]
    encode: Callable[[Any], tuple[str, ...]]
    decode: Callable[..., Any]


TYPE = Codec(("Type",), lambda x: (f'(TypeOf "{x.dtype.name}" {shape_text(x.shape)})',), lambda x: x)
LABELS = Codec(("Ints",), lambda x: (labels_text(x),), lambda x: tuple(n - 1 for n in x[1:]))
_CODECS: dict[Any, Codec] = {
    int: Codec(("i64",), lambda x: (int_text(x),), lambda x: x),
    str: Codec(("String",), lambda x: (quoted(x),), lambda x: x),
    DType: Codec(("String",), lambda x: (f'"{x.name}"',), dtype_named),
    ScalarOp: Codec(("String",), lambda x: (f'"{x.name}"',), scalar_op_named),
    Size: Codec(("Dim",), lambda x: (size_text(x),), lambda x: x),
    Shape: Codec(("Dims",), lambda x: (shape_text(x),), lambda x: x),
    Ints: Codec(("Ints",), lambda x: (ints_text(x),), lambda x: x),
    TensorType: Codec(("String", "Dims"), lambda x: (f'"{x.dtype.name}"', shape_text(x.shape)),
                      lambda dtype, shape: TensorType(dtype_named(dtype), shape)),
}
LABEL_FIELDS = frozenset(("labels", "lhs", "rhs"))
"""Names of the fields that hold index maps."""


@functools.cache
def field_codecs(attributes: type) -> tuple[tuple[str, Codec], ...] | None:
    """The fields of an attribute class with their codecs, or None where one has no codec."""
    hints = typing.get_type_hints(attributes)
    found = []
    for field in dataclasses.fields(attributes):
        hint = hints[field.name]
        codec = LABELS if field.name in LABEL_FIELDS and hint == Ints else _CODECS.get(hint)
        if codec is None:
            return None
        found.append((field.name, codec))
    return tuple(found)


def codec_of(kind: Any) -> Codec:
    """The codec of an annotation (int, Size, Shape, DType, ...); raises KeyError."""
    return _CODECS[kind]

"""Types of values: dtypes, tensor types with symbolic sizes, tuples of them."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np

from tcp_eqsat.errors import UnknownName
from tcp_eqsat.lang.dims import Size, format_size


class Kind(enum.Enum):
    """What the bits of a dtype mean."""

    BOOL = "bool"
    INT = "int"
    UINT = "uint"
    FLOAT = "float"
    COMPLEX = "complex"


@dataclass(frozen=True, slots=True)
class DType:
    """An element type. `bits` is the width in storage (bool is stored in 8)."""

    name: str
    kind: Kind
    bits: int

    @property
    def numpy(self) -> np.dtype:
        """The NumPy dtype of the same values, in native byte order."""
        return _NUMPY[self.name]

    @property
    def bytes(self) -> int:
        return self.bits // 8

    @property
    def is_float(self) -> bool:
        return self.kind is Kind.FLOAT

    @property
    def is_integer(self) -> bool:
        return self.kind in (Kind.INT, Kind.UINT)

    @property
    def is_signed(self) -> bool:
        return self.kind in (Kind.INT, Kind.FLOAT, Kind.COMPLEX)

    def __str__(self) -> str:
        return self.name


BOOL = DType("bool", Kind.BOOL, 8)
I8, I16, I32, I64 = (DType(f"i{n}", Kind.INT, n) for n in (8, 16, 32, 64))
U8, U16, U32, U64 = (DType(f"u{n}", Kind.UINT, n) for n in (8, 16, 32, 64))
F32, F64 = (DType(f"f{n}", Kind.FLOAT, n) for n in (32, 64))

DTYPES: dict[str, DType] = {
    dtype.name: dtype for dtype in (BOOL, I8, I16, I32, I64, U8, U16, U32, U64, F32, F64)
}
_PREFIX = {Kind.INT: "int", Kind.UINT: "uint", Kind.FLOAT: "float"}
_NUMPY: dict[str, np.dtype] = {
    dtype.name: np.dtype("bool" if dtype.kind is Kind.BOOL else f"{_PREFIX[dtype.kind]}{dtype.bits}")
    for dtype in DTYPES.values()
}
_OF_NUMPY: dict[np.dtype, DType] = {_NUMPY[name]: dtype for name, dtype in DTYPES.items()}


def dtype_named(name: str) -> DType:
    """The dtype called `name`; raises UnknownName."""
    try:
        return DTYPES[name]
    except KeyError:
        known = ", ".join(DTYPES)
        raise UnknownName(f"unknown dtype {name!r}; known are {known}") from None


def dtype_of(array_dtype: np.dtype) -> DType:
    """The dtype of a NumPy dtype (any byte order); raises UnknownName."""
    try:
        return _OF_NUMPY[np.dtype(array_dtype).newbyteorder("=")]
    except KeyError:
        raise UnknownName(f"NumPy dtype {array_dtype} has no counterpart") from None


Shape = tuple[Size, ...]


def numbers(shape: Shape) -> tuple[int, ...]:
    """A shape whose symbols are bound, as plain ints."""
    assert all(isinstance(size, int) for size in shape), shape
    return tuple(size for size in shape if isinstance(size, int))


def format_shape(shape: Shape) -> str:
    """`[b, 16]`."""
    return f"[{', '.join(map(format_size, shape))}]"


@dataclass(frozen=True, slots=True)
class TensorType:
    """An immutable tensor of `dtype`; each size is an int or a symbolic Dim."""

    dtype: DType
    shape: Shape = ()

    @property
    def rank(self) -> int:
        return len(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype}{format_shape(self.shape)}"


@dataclass(frozen=True, slots=True)
class TupleType:
    """Several results of one operation, taken apart by `project`."""

    items: tuple[TensorType, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.items))})"


Type = TensorType | TupleType

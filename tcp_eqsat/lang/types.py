"""Types of values: dtypes, tensor types with symbolic sizes, tuples of them."""

from __future__ import annotations

import enum
import functools
import sys
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
    QUANTIZED = "quantized"


@dataclass(frozen=True, slots=True)
class DType:
    """An element type.

    `bits` is the width of a value (bool counts as 8), `bytes` what an element takes in memory: values of less than
    8 bits lie in a byte of their own, as in `ml_dtypes`. A dtype that is `storage_only` has no arithmetic: its
    values are moved, converted and read as bits.
    """

    name: str
    kind: Kind
    bits: int
    storage_only: bool = False

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def numpy(self) -> np.dtype:
        """The NumPy dtype of the same values, in native byte order."""
        found = _NUMPY.get(self.name)
        return found if found is not None else _extension_dtype(self.name)

    @property
    def bytes(self) -> int:
        return max(self.bits, 8) // 8

    @property
    def is_float(self) -> bool:
        return self.kind is Kind.FLOAT

    @property
    def is_integer(self) -> bool:
        return self.kind in (Kind.INT, Kind.UINT)

    @property
    def is_complex(self) -> bool:
        return self.kind is Kind.COMPLEX

    @property
    def is_signed(self) -> bool:
        return self.kind in (Kind.INT, Kind.FLOAT, Kind.COMPLEX)

    @property
    def is_differentiable(self) -> bool:
        """Whether values have cotangents (of the same dtype)."""
        return self.kind in (Kind.FLOAT, Kind.COMPLEX) and not self.storage_only

    @property
    def is_narrow_float(self) -> bool:
        """Whether arithmetic is done in f32 and rounded to this dtype after each operation: f16, bf16."""
        return self.kind is Kind.FLOAT and self.bits == 16

    @property
    def part(self) -> DType:
        """The dtype of the real and imaginary parts of a complex dtype."""
        return {64: F32, 128: F64}[self.bits]

    @property
    def of_parts(self) -> DType:
        """The complex dtype whose parts are of this one: f32 or f64."""
        return {32: C64, 64: C128}[self.bits]

    def __str__(self) -> str:
        return self.name


BOOL = DType("bool", Kind.BOOL, 8)
I8, I16, I32, I64 = (DType(f"i{n}", Kind.INT, n) for n in (8, 16, 32, 64))
U8, U16, U32, U64 = (DType(f"u{n}", Kind.UINT, n) for n in (8, 16, 32, 64))
I2, I4 = (DType(f"i{n}", Kind.INT, n, storage_only=True) for n in (2, 4))
U2, U4 = (DType(f"u{n}", Kind.UINT, n, storage_only=True) for n in (2, 4))
BF16 = DType("bf16", Kind.FLOAT, 16)
F16, F32, F64 = (DType(f"f{n}", Kind.FLOAT, n) for n in (16, 32, 64))
C64, C128 = (DType(f"c{n}", Kind.COMPLEX, n) for n in (64, 128))
F8E3M4, F8E4M3, F8E4M3FN, F8E4M3FNUZ, F8E4M3B11FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0FNU = FLOAT8 = tuple(
    DType(f"f8{form}", Kind.FLOAT, 8, storage_only=True)
    for form in ("e3m4", "e4m3", "e4m3fn", "e4m3fnuz", "e4m3b11fnuz", "e5m2", "e5m2fnuz", "e8m0fnu"))
F4E2M1FN, F6E2M3FN, F6E3M2FN = FLOAT_BELOW_8 = tuple(
    DType(f"f{bits}{form}", Kind.FLOAT, bits, storage_only=True)
    for bits, form in ((4, "e2m1fn"), (6, "e2m3fn"), (6, "e3m2fn")))

# The real dtypes: what is left when complex values are taken apart.
DTYPES: dict[str, DType] = {
    dtype.name: dtype for dtype in (
        BOOL, I8, I16, I32, I64, U8, U16, U32, U64, F32, F64, F16, BF16, I2, I4, U2, U4, *FLOAT8, *FLOAT_BELOW_8)
}
# Every dtype.
NAMED_DTYPES: dict[str, DType] = DTYPES | {
    dtype.name: dtype for dtype in (C64, C128)
}

_PREFIX = {Kind.INT: "int", Kind.UINT: "uint", Kind.FLOAT: "float", Kind.COMPLEX: "complex"}
# Names of the dtypes that NumPy lacks in `ml_dtypes`, which takes 0.4 s to import and so is imported on first use.
_EXTENSIONS: dict[str, str] = {
    BF16.name: "bfloat16",
    **{dtype.name: f"float{dtype.bits}_{dtype.name[2:]}" for dtype in (*FLOAT8, *FLOAT_BELOW_8)},
    **{dtype.name: f"{_PREFIX[dtype.kind]}{dtype.bits}" for dtype in (I2, I4, U2, U4)},
}
_FLOAT_EXTENSIONS = frozenset(_EXTENSIONS[dtype.name] for dtype in (BF16, *FLOAT8, *FLOAT_BELOW_8))
_NUMPY: dict[str, np.dtype] = {
    dtype.name: np.dtype("bool" if dtype.kind is Kind.BOOL else f"{_PREFIX[dtype.kind]}{dtype.bits}")
    for dtype in NAMED_DTYPES.values() if dtype.name not in _EXTENSIONS
}
_OF_NUMPY: dict[np.dtype, DType] = {_NUMPY[name]: dtype for name, dtype in NAMED_DTYPES.items() if name in _NUMPY}
_OF_EXTENSION: dict[str, DType] = {_EXTENSIONS[name]: dtype for name, dtype in DTYPES.items() if name in _EXTENSIONS}


@functools.lru_cache(maxsize=None)
def _extension_dtype(name: str) -> np.dtype:
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, _EXTENSIONS[name]))


def dtype_named(name: str) -> DType:
    """The dtype called `name`; raises UnknownName."""
    try:
        return NAMED_DTYPES[name]
    except KeyError:
        known = ", ".join(NAMED_DTYPES)
        raise UnknownName(f"unknown dtype {name!r}; known are {known}") from None


def dtype_of(array_dtype: np.dtype) -> DType:
    """The dtype of a NumPy dtype (any byte order); raises UnknownName."""
    native = np.dtype(array_dtype).newbyteorder("=")
    found = _OF_NUMPY.get(native)
    if found is None and "ml_dtypes" in sys.modules:
        found = _OF_EXTENSION.get(native.name)
        found = found if found is not None and found.numpy == native else None
    if found is None:
        raise UnknownName(f"NumPy dtype {array_dtype} has no counterpart")
    return found


def integer_range(dtype: DType) -> tuple[int, int]:
    """The least and greatest value of an integer dtype or bool."""
    if dtype.kind is Kind.BOOL:
        return 0, 1
    if dtype.kind is Kind.INT:
        return -1 << (dtype.bits - 1), (1 << (dtype.bits - 1)) - 1
    return 0, (1 << dtype.bits) - 1


def is_float_array(array: np.ndarray | np.generic) -> bool:
    """Whether the elements are of a float dtype of ours: NumPy's own `kind` does not tell for those of `ml_dtypes`."""
    return array.dtype.kind == "f" or (array.dtype.kind == "V" and array.dtype.name in _FLOAT_EXTENSIONS)


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

"""What a compiled call reads of NumPy and CPython: fields of an array object and functions, checked once.

The offsets are those of `PyArrayObject` and `PyObject` on a 64-bit CPython with a GIL, the same in NumPy 1.x and
2.x; the function numbers are places in NumPy's C API table, which its ABI promise fixes. `obstacle` compares
both with arrays made here, and nothing is read from Python objects where they don't agree.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import struct
import sys
import sysconfig
from dataclasses import dataclass

import numpy as np

# Offsets in bytes from the start of an array object.
TYPE, DATA, RANK, SIZES, DTYPE, FLAGS = 8, 16, 24, 32, 56, 64

# Bits of the field at FLAGS.
CONTIGUOUS, ALIGNED, WRITEABLE, WARNS_ON_WRITE = 0x1, 0x100, 0x400, 0x80000000



@dataclass(frozen=True, slots=True)
class Flags:
    """Which bits of the flags count, and which of those must be set."""

    mask: int
    wanted: int


READABLE = Flags(CONTIGUOUS | ALIGNED, CONTIGUOUS | ALIGNED)
FILLABLE = Flags(
    CONTIGUOUS | ALIGNED | WRITEABLE | WARNS_ON_WRITE, CONTIGUOUS | ALIGNED | WRITEABLE
)

# Places in NumPy's C API table.
_VERSION, _ARRAY_TYPE, _NEW_ARRAY = 0, 2, 93
_ABI_MAJORS = (1, 2)

_FUNCTIONS = {
    "vectorcall": "PyObject_Vectorcall",
    "clear_error": "PyErr_Clear",
    "increase": "Py_IncRef",
    "decrease": "Py_DecRef",
    "new_tuple": "PyTuple_New",
    "set_item": "PyTuple_SetItem",
    "get_item": "PyTuple_GetItem",
    "tuple_size": "PyTuple_Size",
    "save_thread": "PyEval_SaveThread",
    "restore_thread": "PyEval_RestoreThread",
    "check_signals": "PyErr_CheckSignals",
    "allocate": "PyMem_RawMalloc",
    "release": "PyMem_RawFree",
}

# What the addresses of `runtime_addresses` are of, in order.
RUNTIME = ("array_type", "tuple_type", "none", "new_array", *_FUNCTIONS)


@functools.cache
def obstacle() -> str:
    """Why calls can't be compiled against this interpreter and NumPy; empty if they can."""
    if sys.implementation.name != "cpython":
        return f"{sys.implementation.name} is not CPython"
    if struct.calcsize("P") != 8:
        return "pointers have not 64 bits"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "this CPython is built without a GIL"
    missing = [name for name in _FUNCTIONS.values() if not hasattr(ctypes.pythonapi, name)]
    if missing:
        return f"this CPython does not export {', '.join(missing)}"
    if not all(map(_as_documented, _samples())):
        return "array objects are not laid out as documented"
    table = _api_table()
    if table is None or table[_ARRAY_TYPE] != id(np.ndarray):
        return "NumPy's C API table was not found"
    major = ctypes.CFUNCTYPE(ctypes.c_uint)(table[_VERSION])() >> 24
    return "" if major in _ABI_MAJORS else f"NumPy's C ABI has the unknown version {major}"


@functools.cache
def runtime_addresses() -> tuple[int, ...]:
    """The addresses of the objects and functions named by RUNTIME. Only where there is no obstacle."""
    table = _api_table()
    assert table is not None and not obstacle()
    return id(np.ndarray), id(tuple), id(None), table[_NEW_ARRAY], *function_addresses(*_FUNCTIONS)


def function_addresses(*names: str) -> tuple[int, ...]:
    """The addresses of functions of CPython, by their names in RUNTIME."""
    return tuple(
        ctypes.cast(getattr(ctypes.pythonapi, _FUNCTIONS[name]), ctypes.c_void_p).value or 0 for name in names)


def _api_table() -> ctypes.Array[ctypes.c_size_t] | None:
    for name in ("numpy._core._multiarray_umath", "numpy.core._multiarray_umath"):
        try:
            capsule = importlib.import_module(name)._ARRAY_API
        except (ImportError, AttributeError):
            continue
        pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
            ("PyCapsule_GetPointer", ctypes.pythonapi)
        )
        return (ctypes.c_size_t * (_NEW_ARRAY + 1)).from_address(pointer(capsule, None))
    return None


def _samples() -> list[np.ndarray]:
    """Arrays that differ in every field that is read."""
    read_only = np.zeros((2, 3), np.float32)
    read_only.flags.writeable = False
    unaligned = np.zeros(33, np.uint8)[1:].view(np.float64)
    transposed = np.zeros((4, 5), np.int64).T
    return [np.zeros((), np.bool_), np.zeros((0, 7), np.int8), read_only, unaligned, transposed]


def _as_documented(array: np.ndarray) -> bool:
    """Whether the fields of `array` hold what NumPy says of it."""

    def read(offset: int, kind: type[ctypes.c_size_t] | type[ctypes.c_uint]) -> int:
        return kind.from_address(id(array) + offset).value

    flags = read(FLAGS, ctypes.c_uint)
    head = (
        read(TYPE, ctypes.c_size_t) == id(np.ndarray)
        and read(DATA, ctypes.c_size_t) == array.ctypes.data
        and read(RANK, ctypes.c_uint) == array.ndim
        and read(DTYPE, ctypes.c_size_t) == id(array.dtype)
        and bool(flags & CONTIGUOUS) == array.flags.c_contiguous
        and bool(flags & ALIGNED) == array.flags.aligned
        and bool(flags & WRITEABLE) == array.flags.writeable
    )
    if not head or array.ndim == 0:
        return head
    sizes = (ctypes.c_int64 * array.ndim).from_address(read(SIZES, ctypes.c_size_t))
    return tuple(sizes) == array.shape

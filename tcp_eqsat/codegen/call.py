"""Calling compiled code from Python: arrays in, arrays out, everything checked, in a fraction of a microsecond.

A call is two functions of one behaviour. The compiled one (`call_ir`) takes the plain cases and hands everything
else to the interpreted one (`interpreted_call`), which is complete by itself and is used alone where Python
objects can't be read by compiled code, or where the environment variable TCP_EQSAT_CALL is `python`.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any

import numpy as np

from tcp_eqsat.codegen import call_ir, numpy_abi
from tcp_eqsat.codegen.call_steps import ALLOCATION
from tcp_eqsat.codegen.call_table import Table
from tcp_eqsat.codegen.interpreted_call import InterpretedCall
from tcp_eqsat.codegen.jit import shared_module
from tcp_eqsat.codegen.signature import Parameter, Signature, WorkspaceBytes
from tcp_eqsat.errors import ArgumentError
from tcp_eqsat.lang.dims import symbols_of

__all__ = ["CompiledCall", "Parameter", "Signature", "make_call"]

ENVIRONMENT = "TCP_EQSAT_CALL"
_CHOICES = ("compiled", "python")


class CompiledCall:
    """A compiled function as Python sees it: `call(*arrays, out=None)`.

    Arrays go by position or by the parameters' names, and must have exactly the dtypes and ranks of `signature`.
    NumPy arrays that are C-contiguous, aligned and in native byte order are read in place, others are copied
    first; anything else with `__dlpack__` or `__array_interface__` is taken too. The result is a new array, or a
    tuple of them where there are several (or none). `out` (an array, or a tuple of them) is filled and returned
    instead: it must be writeable, C-contiguous and aligned, and must not overlap an argument.

    Calls may run in several threads at once. The GIL is released while much is computed. Arrays must not be
    changed by others meanwhile.

    Raises ArgumentError (number or names of arguments, an unusable `out`), TypeMismatch (dtype, rank),
    ShapeMismatch (sizes that contradict each other, a range or a guard) and MemoryError; then nothing was written.
    In the main thread a function with loops also raises what a signal's handler raises, KeyboardInterrupt for Ctrl-C;
    then what is in `out` means nothing.
    """

    __slots__ = ("__name__", "__weakref__", "function", "signature")

    def __init__(self, name: str, signature: Signature, function: Any) -> None:
        """`function` is the call itself; see `callable_class`."""
        self.__name__ = name
        self.signature = signature
        self.function = function

    def __call__(self, /, *arguments: Any, **keywords: Any) -> Any:
        return self.function(*arguments, **keywords)

    @property
    def is_compiled(self) -> bool:
        """Whether the checks are compiled code."""
        return not isinstance(self.function, InterpretedCall)

    def __repr__(self) -> str:
        return f"<compiled {self.__name__}{self.signature}>"


def make_call(
    signature: Signature,
    entry_address: int,
    workspace_bytes: WorkspaceBytes = 0,
    constants_address: int = 0,
    keep_alive: Any = None,
    *,
    name: str = "function",
    implementation: str | None = None,
    is_watched: bool = False,
) -> CompiledCall:
    """A callable around `void entry(ptr parameters, ptr results, ptr constants, ptr workspace, ptr sizes)`.

    The entry gets arrays of data addresses (C-contiguous, aligned to their items, native byte order), the address
    `constants_address`, a workspace aligned to 64 bytes, and the values of `signature.symbols` as i64. It must be
    safe to run in several threads at once, without the GIL. `keep_alive` holds what the addresses belong to; it
    must not refer to the result, since the garbage collector does not see it. An entry that `is_watched` is
    `i32 entry(..., ptr watch)`, see `interrupts`.

    `implementation` is "compiled" or "python"; by default the environment variable TCP_EQSAT_CALL, else compiled
    where this interpreter allows it. Raises ArgumentError for another one, and for a workspace whose size mentions
    symbols that no parameter's shape tells.
    """
    if not callable(workspace_bytes):
        signature.require_known(*symbols_of(workspace_bytes))
    interpreted = InterpretedCall(
        signature, entry_address, workspace_bytes, constants_address, keep_alive, is_watched=is_watched)
    function: Any = interpreted
    if _is_compiled(implementation):
        function = _compiled(interpreted, signature, entry_address, workspace_bytes, constants_address, name,
                             is_watched)
    call: CompiledCall = callable_class(CompiledCall, function)(name, signature, function)
    return call


def callable_class(base: type, function: Any) -> Any:
    """A subclass of `base` whose instances, when called, call the built-in `function` and nothing else.

    A built-in function is no descriptor: as `__call__` of a class it gets the arguments alone, and the cost of a
    Python frame is saved.
    """
    namespace = {"__slots__": (), "__call__": function, "__doc__": base.__doc__, "__module__": base.__module__}
    return type(base.__name__, (base,), namespace)


def _is_compiled(implementation: str | None) -> bool:
    chosen = implementation or os.environ.get(ENVIRONMENT) or "compiled"
    if chosen not in _CHOICES:
        raise ArgumentError(f"a call is implemented in one of {', '.join(_CHOICES)}; got {chosen!r}")
    return chosen == "compiled" and not numpy_abi.obstacle()


class _MethodDefinition(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


_FASTCALL_WITH_KEYWORDS = 0x82
_new_function = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p
)(("PyCFunction_NewEx", ctypes.pythonapi))
_free = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(("PyMem_RawFree", ctypes.pythonapi))
_workspace_function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.POINTER(ctypes.c_int64))


class _Owner:
    """What a compiled call reads while it runs; frees the workspace that the last call kept."""

    def __init__(self, table: np.ndarray, workspace: int, *parts: Any) -> None:
        self.table = table
        self.workspace = workspace
        self.parts = parts

    def __del__(self, free: Any = _free, read: Any = ctypes.c_void_p.from_address) -> None:
        kept = int(self.table[self.workspace])
        if kept:
            free(read(kept + ALLOCATION))


def _compiled(
    interpreted: InterpretedCall,
    signature: Signature,
    entry_address: int,
    workspace_bytes: WorkspaceBytes,
    constants_address: int,
    name: str,
    is_watched: bool,
) -> Any:
    """The compiled call as a built-in function.

    It is bound to an array of objects, which the garbage collector does not look into: machine code, table and
    method definition thus live until the last reference to the function goes, in whatever order a cycle that
    holds it is cleared.
    """
    module = shared_module(call_ir.emit_call(signature, workspace_bytes, is_watched))
    places = Table.of(signature)
    names = [sys.intern(text) for text in (*(p.name for p in signature.parameters), "out")]
    count_bytes = _native(workspace_bytes, len(signature.symbols))
    table = np.array(
        [
            *numpy_abi.runtime_addresses(),
            entry_address,
            constants_address,
            0,
            ctypes.cast(count_bytes, ctypes.c_void_p).value or 0,
            *(id(dtype.numpy) for dtype in places.dtypes),
            *map(id, names),
        ],
        np.int64,
    )
    assert len(table) == len(places)
    method = _MethodDefinition(
        name.encode(), module.address(call_ir.NAME), _FASTCALL_WITH_KEYWORDS, str(signature).encode()
    )
    bound = np.empty(3, object)
    owner = _Owner(table, places.of_name("workspace"), module, names, method, count_bytes)
    bound[:] = interpreted, None, owner
    bound[1] = table
    return _new_function(ctypes.addressof(method), bound, None)


def _native(workspace_bytes: WorkspaceBytes, symbols: int) -> Any:
    """`workspace_bytes` as a C function of the sizes where it is a Python function; negative if that raises."""
    if not callable(workspace_bytes):
        return _workspace_function(0)

    def count(sizes: Any) -> int:
        try:
            return workspace_bytes(sizes[:symbols])
        except Exception:  # raised again by the interpreted call, which comes next
            return -1

    return _workspace_function(count)

"""A call in Python: every check with its error, and every legal array that compiled code can't take as it is.

It is complete by itself. A compiled call comes here whenever one of its checks fails, so this is the one place
that says what is legal and words what is not.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tcp_eqsat.codegen import interrupts, numpy_abi
from tcp_eqsat.codegen.jit import Module, shared_module
from tcp_eqsat.codegen.signature import Parameter, Signature, Solve, WorkspaceBytes
from tcp_eqsat.errors import ArgumentError, ShapeMismatch, TypeMismatch, UnknownName
from tcp_eqsat.lang.binding import describe_requirement
from tcp_eqsat.lang.dims import INT64_MAX, Size, evaluate, symbols_of, value
from tcp_eqsat.lang.types import TensorType, dtype_of

_ALIGNMENT = 64
_ENTRY = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5)
_RUN = ctypes.PYFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 9, ctypes.c_int)
"""Called with the GIL, and raises the exception that it leaves behind."""


class InterpretedCall:
    """`call(*arrays, out=None)` for the entry at `entry_address`, which `keep_alive` keeps loaded.

    An entry that `is_watched` may be interrupted.
    """

    def __init__(
        self,
        signature: Signature,
        entry_address: int,
        workspace_bytes: WorkspaceBytes,
        constants_address: int,
        keep_alive: object = None,
        *,
        is_watched: bool = False,
    ) -> None:
        self.signature = signature
        self.keep_alive = keep_alive
        self._entry = _Watched(entry_address) if is_watched else _ENTRY(entry_address)
        self._workspace_bytes = workspace_bytes
        self._constants = constants_address

    def __call__(self, /, *arguments: Any, **keywords: Any) -> Any:
        """The results for these arrays; raises ArgumentError, TypeMismatch, ShapeMismatch, MemoryError."""
        out = keywords.pop("out", None)
        parameters = self.signature.parameters
        values = _in_order(self.signature, arguments, keywords)
        arrays = [_as_array(p, given) for p, given in zip(parameters, values, strict=True)]
        sizes = _Sizes(self.signature, [array.shape for array in arrays])
        shapes = [sizes.result_shape(t) for t in self.signature.results]
        if out is None:
            results = list(map(_allocate, self.signature.results, shapes))
        else:
            results = _given_results(out, arrays, sizes, shapes)
        inputs = [_plain(array, p.type) for p, array in zip(parameters, arrays, strict=True)]
        symbols = [sizes.known[symbol.name] for symbol in self.signature.symbols]
        workspace = _workspace(self._bytes(sizes, symbols))
        self._entry(
            _words(array.ctypes.data for array in inputs),
            _words(array.ctypes.data for array in results),
            self._constants,
            workspace.ctypes.data,
            _words(symbols),
        )
        return results[0] if len(results) == 1 else tuple(results)

    def _bytes(self, sizes: _Sizes, symbols: Sequence[int]) -> int:
        if callable(self._workspace_bytes):
            return self._workspace_bytes(symbols)
        return evaluate(self._workspace_bytes, sizes.known)


class _Watched:
    """An entry that may be interrupted, as a function of its five arguments: raises what a signal's handler raises."""

    def __init__(self, entry_address: int) -> None:
        self._entry = entry_address
        self._module: Module | None = None

    def __call__(self, *arguments: Any) -> None:
        if self._module is None:
            self._module = shared_module(interrupts.run_text())
        functions = numpy_abi.function_addresses(*interrupts.NEEDED)
        _RUN(self._module.address(interrupts.RUN))(self._entry, *arguments, *functions, True)


class _Sizes:
    """The value of every symbol, found from the shapes of the arguments, whose ranks are right.

    Raises ShapeMismatch where an extent contradicts a type, leaves its range, or breaks a guard, and where a size
    that the program computes with is negative or too large for 64 bits.
    """

    def __init__(self, signature: Signature, shapes: Sequence[tuple[int, ...]]) -> None:
        self.signature = signature
        self.known: dict[str, int] = {}
        self._origins: dict[str, int] = {}
        for step in signature.steps:
            number = step.place.parameter
            found = shapes[number][step.place.axis]
            if isinstance(step, Solve):
                solution = self._solve(step, found)
                if solution is None:
                    raise self._mismatch(number, shapes[number])
                self.known[step.symbol.name] = solution
                self._origins[step.symbol.name] = number
            elif found != value(step.size, self.known):
                raise self._mismatch(number, shapes[number])
        for guard in signature.guards:
            if not guard.check(self.known):
                raise ShapeMismatch(
                    f"the arguments must have sizes with {guard}, got {self._shown(guard.left, guard.right)}"
                )
        for size in signature.numbers:
            evaluate(size, self.known)

    def requirement(self, t: TensorType, besides: int | None = None) -> str:
        """`t` with what is known of its symbols, where parameter `besides` was not the one to tell."""
        facts = []
        for symbol in symbols_of(*t.shape):
            origin = self._origins.get(symbol.name)
            if origin is None or origin == besides:
                facts.append(symbol.requirement())
            else:
                teller = self.signature.parameters[origin].name
                facts.append(f"{symbol.name} = {self.known[symbol.name]} by argument {teller!r}")
        return f"{t} with {', '.join(facts)}" if facts else str(t)

    def result_shape(self, t: TensorType) -> tuple[int, ...]:
        """The shape of a result; raises ShapeMismatch for a negative size, MemoryError for one too large."""
        shape = tuple(value(size, self.known) for size in t.shape)
        if any(extent < 0 for extent in shape):
            raise ShapeMismatch(
                f"result {t} must have sizes of at least 0, got {list(shape)} with {self._shown(*t.shape)}"
            )
        total = t.dtype.bytes
        for extent in shape:
            total *= max(extent, 1)
        if total > INT64_MAX:
            raise MemoryError(f"result {t} needs {total} bytes with {self._shown(*t.shape)}")
        return shape

    def _solve(self, step: Solve, found: int) -> int | None:
        slope = value(step.slope, self.known)
        if slope == 0:
            parameter = self.signature.parameters[step.place.parameter]
            raise ShapeMismatch(
                f"argument {parameter.name!r} of {parameter.type} must tell {step.symbol.name}, "
                f"which it can't with {self._shown(step.slope)}"
            )
        units, remainder = divmod(found - value(step.rest, self.known), slope)
        solution = units * step.symbol.divisor
        return None if remainder or not step.symbol.admits(solution) else solution

    def _mismatch(self, number: int, shape: tuple[int, ...]) -> ShapeMismatch:
        parameter = self.signature.parameters[number]
        return ShapeMismatch(
            f"argument {parameter.name!r} must be {self.requirement(parameter.type, number)}, "
            f"got {parameter.type.dtype}{list(shape)}"
        )

    def _shown(self, *sizes: Size) -> str:
        return ", ".join(f"{s.name} = {self.known[s.name]}" for s in symbols_of(*sizes))


def _in_order(
    signature: Signature, arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> list[Any]:
    """One value a parameter; raises ArgumentError for missing, surplus, repeated and unknown arguments."""
    names = [parameter.name for parameter in signature.parameters]
    if len(arguments) == len(names) and not keywords:
        return list(arguments)
    takes = f"the call takes {signature}"
    if len(arguments) > len(names):
        raise ArgumentError(f"at most {len(names)} arguments must be given, got {len(arguments)}; {takes}")
    given = dict(zip(names, arguments, strict=False))
    for name, argument in keywords.items():
        if name not in names:
            raise ArgumentError(f"unknown argument {name!r}; {takes}")
        if name in given:
            raise ArgumentError(f"argument {name!r} must be given once, got it by position and by name")
        given[name] = argument
    missing = [name for name in names if name not in given]
    if missing:
        plural = "s" if len(missing) > 1 else ""
        raise ArgumentError(f"missing argument{plural} {', '.join(map(repr, missing))}; {takes}")
    return [given[name] for name in names]


def _as_array(parameter: Parameter, given: Any) -> np.ndarray:
    """`given` as an array of the parameter's dtype (any byte order) and rank; raises TypeMismatch."""
    t = parameter.type

    def mismatch(found: str) -> TypeMismatch:
        return TypeMismatch(f"argument {parameter.name!r} must be {describe_requirement(t)}, got {found}")

    if isinstance(given, np.ndarray):
        array = np.asarray(given)
    elif hasattr(given, "__dlpack__"):
        try:
            array = _shared(given)
        except Exception as error:  # the exporter's own: what it raises is not agreed on
            raise mismatch(f"{type(given).__name__}, which can't be shared: {error}") from error
    elif hasattr(given, "__array_interface__"):
        try:
            array = np.asarray(given)
        except Exception as error:  # a description that is wrong, or raises
            raise mismatch(f"{type(given).__name__}, which can't be read: {error}") from error
    else:
        raise mismatch(f"an object of type {type(given).__name__}, which is no array")
    if array.dtype.newbyteorder("=") != t.dtype.numpy or array.ndim != t.rank:
        raise mismatch(_described(array))
    return array


def _shared(given: Any) -> np.ndarray:
    """An array by DLPack, or as the object itself makes one: DLPack can't name the dtypes of `ml_dtypes` to NumPy."""
    try:
        return np.from_dlpack(given)
    except Exception:  # the exporter's own; it is raised again where there is no other way
        if not hasattr(given, "__array__"):
            raise
        return np.asarray(given)


def _described(array: np.ndarray) -> str:
    """The type of an array, in the language's words where it has them."""
    try:
        dtype = str(dtype_of(array.dtype)) if array.dtype.isnative else f"byte-swapped {array.dtype}"
    except UnknownName:
        dtype = str(array.dtype)
    return f"{dtype}{list(array.shape)}"


def _plain(array: np.ndarray, t: TensorType) -> np.ndarray:
    """The same values as the entry takes them: native, C-contiguous, aligned. A copy where `array` is not."""
    flags = array.flags
    if array.dtype.isnative and flags.c_contiguous and flags.aligned:
        return array
    copy = _allocate(t, array.shape)
    np.copyto(copy, array)
    return copy


def _allocate(t: TensorType, shape: tuple[int, ...]) -> np.ndarray:
    try:
        return np.empty(shape, t.dtype.numpy)
    except ValueError as error:  # NumPy's word for sizes beyond what it can address
        raise MemoryError(f"{t.dtype}{list(shape)} can't be allocated: {error}") from None


def _workspace(size: int) -> np.ndarray:
    """At least `size` bytes, aligned."""
    try:
        memory = np.empty(size + _ALIGNMENT, np.uint8)
    except ValueError as error:
        raise MemoryError(f"a workspace of {size} bytes can't be allocated: {error}") from None
    return memory[-memory.ctypes.data % _ALIGNMENT :]


def _words(values: Iterable[int]) -> ctypes.Array[ctypes.c_int64]:
    words = tuple(values)
    return (ctypes.c_int64 * len(words))(*words)


def _given_results(
    out: Any, inputs: Sequence[np.ndarray], sizes: _Sizes, shapes: Sequence[tuple[int, ...]]
) -> list[np.ndarray]:
    """The arrays of `out`, each fit to be written; raises ArgumentError, TypeMismatch, ShapeMismatch."""
    signature = sizes.signature
    types = signature.results
    single = len(types) == 1
    given = (out,) if single and not isinstance(out, tuple) else out
    if not isinstance(given, tuple) or len(given) != len(types):
        wanted = "an array" if single else f"a tuple of {len(types)} arrays"
        found = f"a tuple of {len(given)}" if isinstance(given, tuple) else _kind(given)
        raise ArgumentError(f"argument 'out' must be {wanted}, got {found}")
    taken = [(p.name, array) for p, array in zip(signature.parameters, inputs, strict=True)]
    for number, (t, shape, array) in enumerate(zip(types, shapes, given, strict=True)):
        name = "out" if single else f"out[{number}]"
        _check_out(name, sizes.requirement(t), t, shape, array)
        for other, other_array in taken:
            if _overlap(array, other_array):
                raise ArgumentError(
                    f"argument {name!r} must not overlap argument {other!r}, got arrays that share memory"
                )
        taken.append((name, array))
    return list(given)


def _kind(given: Any) -> str:
    return _described(given) if isinstance(given, np.ndarray) else f"an object of type {type(given).__name__}"


def _check_out(name: str, required: str, t: TensorType, shape: tuple[int, ...], array: Any) -> None:
    if not isinstance(array, np.ndarray) or array.dtype != t.dtype.numpy or array.ndim != t.rank:
        raise TypeMismatch(f"argument {name!r} must be {required}, got {_kind(array)}")
    if array.shape != shape:
        raise ShapeMismatch(f"argument {name!r} must be {required}, got {_kind(array)}")
    for holds, wanted, fact in (
        (array.flags.writeable, "writeable", "a read-only array"),
        (array.flags.c_contiguous, "C-contiguous", f"strides {array.strides} of {_kind(array)}"),
        (array.flags.aligned, f"aligned to {t.dtype.bytes} bytes", f"address {array.ctypes.data:#x}"),
    ):
        if not holds:
            raise ArgumentError(f"argument {name!r} must be {wanted}, got {fact}")


def _overlap(out: np.ndarray, other: np.ndarray) -> bool:
    """Whether a byte of both is shared; exact, and quick since `out` is contiguous."""
    return np.may_share_memory(out, other) and np.shares_memory(out.reshape(-1), other)

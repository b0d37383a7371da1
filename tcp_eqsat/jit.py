"""`tcp.jit`: a Python function, traced and compiled when it is called.

One trace is made for each combination of dtypes, ranks and axes of size 1; the other sizes are symbolic, so one
compiled function serves them all. Where the function needs two sizes to be equal and the types do not say so, they
become one symbol if they agree in the call that is traced.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tcp_eqsat import pipeline
from tcp_eqsat.errors import ArgumentError, ShapeMismatch, TypeMismatch, UnknownName
from tcp_eqsat.frontends.traced import assuming
from tcp_eqsat.frontends.tracing import parameter_names, trace
from tcp_eqsat.lang.dims import Size, evaluate, substitute, symbol, symbols_of
from tcp_eqsat.lang.program import Program
from tcp_eqsat.lang.types import TensorType, dtype_of
from tcp_eqsat.lang.unify import Unifier

_OPTIONS = tuple(inspect.signature(pipeline.compile).parameters)[1:]
_MAX_TRACES = 1000  # each unites at least two of the sizes of one call


class _Unequal(Exception):
    """Two sizes agree in the traced call but are not provably equal."""

    def __init__(self, left: Size, right: Size) -> None:
        self.sizes = left, right


@functools.lru_cache(maxsize=256)
def _is_ours(array_dtype: np.dtype) -> bool:
    """Whether a NumPy dtype has a counterpart."""
    try:
        dtype_of(array_dtype)
    except UnknownName:
        return False
    return True


class Jitted:
    """A function that compiles itself; see `jit`. `variants` holds what was compiled, newest last."""

    __name__: str

    def __init__(self, function: Callable[..., Any], static: frozenset[str], options: Mapping[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.variants: list[pipeline.Compiled] = []
        self._static = static
        self._options = dict(options)
        self._by_kind: dict[tuple[Any, ...], list[pipeline.Compiled]] = {}
        self._lock = threading.Lock()

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        arrays = self._arrays(arguments, keywords)
        kind = tuple((a.dtype if a.dtype.isnative else a.dtype.newbyteorder("="), a.ndim,
                      tuple(n == 1 for n in a.shape)) for a in arrays)
        for variant in self._by_kind.get(kind, ()):
            if _fits(variant, arrays):
                return variant(*arrays)
        with self._lock:
            for variant in self._by_kind.get(kind, ()):
                if _fits(variant, arrays):
                    break
            else:
                variant = pipeline.compile(self.trace(*arrays), **self._options)
                self._by_kind.setdefault(kind, []).append(variant)
                self.variants.append(variant)
        return variant(*arrays)

    def trace(self, *arrays: np.ndarray) -> Program:
        """The program for arrays of these kinds, sizes symbolic."""
        names = parameter_names(self.function, len(arrays))
        unknown = self._static - set(names)
        if unknown:
            raise ArgumentError(f"{self.__name__} has no parameter {min(unknown)!r} to be static; its parameters are "
                                f"{', '.join(names) or 'none'}")
        types, example = self._types(names, arrays)
        for _ in range(_MAX_TRACES):
            try:
                with _agreeing(example):
                    return trace(self.function, *types, names=names)
            except _Unequal as unequal:
                types = _united(types, *unequal.sizes)
            except ShapeMismatch as error:
                called = ", ".join(
                    f"{name}: {TensorType(dtype_of(a.dtype), a.shape)}" for name, a in zip(names, arrays, strict=True))
                raise ShapeMismatch(f"{error.message}; called with {called}") from None
        raise ShapeMismatch(f"{self.__name__} needs more than {_MAX_TRACES} equalities of sizes")

    def _arrays(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> list[np.ndarray]:
        if keywords:
            arguments = self._in_order(arguments, keywords)
        return [value if isinstance(value, np.ndarray) and _is_ours(value.dtype)
                else self._array(number, len(arguments), value) for number, value in enumerate(arguments)]

    def _in_order(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Sequence[Any]:
        try:
            bound = inspect.signature(self.function).bind(*arguments, **keywords)
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"{self.__name__}: {error}") from None
        if bound.kwargs:
            raise ArgumentError(f"{self.__name__}: {min(bound.kwargs)!r} must be a positional parameter to be traced")
        return bound.args

    def _array(self, number: int, count: int, value: Any) -> np.ndarray:
        """An argument as an array of a dtype of ours; raises TypeMismatch."""
        try:
            array = np.asarray(value)
            dtype_of(array.dtype)
        except (ValueError, UnknownName):  # nested lists of several lengths; a dtype that is none of ours
            name = parameter_names(self.function, count)[number]
            found = getattr(value, "dtype", type(value).__name__)
            raise TypeMismatch(f"argument {name!r} of {self.__name__} must be an array of our dtypes, got {found}"
                               ) from None
        return array

    def _types(self, names: Sequence[str], arrays: Sequence[np.ndarray]
               ) -> tuple[tuple[TensorType, ...], dict[str, int]]:
        """Every size its own symbol, but for sizes of 1 and for the parameters that are static."""
        example: dict[str, int] = {}
        types = []
        for name, array in zip(names, arrays, strict=True):
            shape: list[Size] = []
            for n in array.shape:
                if n == 1 or name in self._static:
                    shape.append(n)
                else:
                    shape.append(symbol(f"n{len(example)}"))
                    example[f"n{len(example)}"] = n
            types.append(TensorType(dtype_of(array.dtype), tuple(shape)))
        return tuple(types), example


def _fits(variant: pipeline.Compiled, arrays: Sequence[np.ndarray]) -> bool:
    """Whether the sizes are what the variant was traced for (dtypes and ranks agree already)."""
    known: dict[str, int] = {}
    for parameter, array in zip(variant.function.parameters, arrays, strict=True):
        for size, n in zip(parameter.shape, array.shape, strict=True):
            if (size if isinstance(size, int) else known.setdefault(str(size), n)) != n:
                return False
    return True


@contextmanager
def _agreeing(example: Mapping[str, int]) -> Iterator[None]:
    def oracle(left: Size, right: Size) -> bool:
        if evaluate(left, example) == evaluate(right, example):
            raise _Unequal(left, right)
        return False

    with assuming(oracle):
        yield


def _united(types: Sequence[TensorType], left: Size, right: Size) -> tuple[TensorType, ...]:
    """The types with two sizes made one; raises ShapeMismatch where that leaves more than a renaming."""
    unifier = Unifier()
    unifier.unify(left, right)
    mapping = {s.name: unifier.resolve(symbol(s.name)) for s in symbols_of(left, right)}
    if unifier.guards or all(isinstance(v, type(left)) and v == symbol(k) for k, v in mapping.items()):
        raise ShapeMismatch(f"sizes {left} and {right} must be equal: name them by specs and use tcp.compile")
    return tuple(TensorType(t.dtype, tuple(substitute(n, mapping) for n in t.shape)) for t in types)


def jit(function: Callable[..., Any] | None = None, *, static: Sequence[str] = (), **options: Any) -> Any:
    """Compile a function of arrays when it is called; `options` are those of `tcp.compile`.

        @tcp.jit
        def dense(x, w, b):
            return tcp.numpy.tanh(x @ w + b)

    Sizes are symbolic, but for axes of size 1 and for the parameters named in `static`, whose sizes are compiled in.
    Raises what tracing and calling raise: TypeMismatch, ShapeMismatch, ArgumentError.
    """
    unknown = [name for name in options if name not in _OPTIONS]
    if unknown:
        raise ArgumentError(f"jit has no option {unknown[0]!r}; it has static, {', '.join(_OPTIONS)}")
    if function is None:
        return functools.partial(jit, static=static, **options)
    if not callable(function):
        raise ArgumentError(f"jit requires a function, got {type(function).__name__}")
    return Jitted(function, frozenset((static,) if isinstance(static, str) else static), options)

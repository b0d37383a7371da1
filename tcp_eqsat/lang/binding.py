"""Symbols from arrays: the sizes of concrete arrays decide the values of symbolic dims."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tcp_eqsat.errors import ShapeMismatch, TypeMismatch, UnknownName
from tcp_eqsat.lang.dims import Dim, Size, evaluate, symbols_of
from tcp_eqsat.lang.types import TensorType, dtype_of


def describe_requirement(type_: TensorType) -> str:
    """The type with the ranges of its symbols, as messages show it: `f32[b, 16] with b in 1..512`."""
    ranges = []
    for symbol in symbols_of(*type_.shape):
        text = f"{symbol.name} in {symbol.lower}..{symbol.upper}"
        ranges.append(text + (f", {symbol.name} % {symbol.divisor} == 0" if symbol.divisor != 1 else ""))
    return f"{type_} with {' and '.join(ranges)}" if ranges else str(type_)


def bind_symbols(
    names: Sequence[str], types: Sequence[TensorType], arrays: Sequence[np.ndarray]
) -> dict[str, int]:
    """The value of every symbol, from the arrays' shapes.

    A symbol is read off where it is a size by itself, else solved from the sizes it occurs in alone. Raises
    TypeMismatch for a wrong dtype or rank, ShapeMismatch for a size that contradicts its type.
    """
    bindings: dict[str, int] = {}
    pending: list[tuple[Size, int, int, int]] = []
    for number, (name, required, array) in enumerate(zip(names, types, arrays, strict=True)):
        found = np.asarray(array)
        if found.dtype != required.dtype.numpy or found.ndim != required.rank:
            raise TypeMismatch(f"argument {name!r} must be {describe_requirement(required)}, got {_shown(found)}")
        pending.extend((size, found.shape[axis], number, axis) for axis, size in enumerate(required.shape))
    pending.sort(key=lambda item: len(symbols_of(item[0])) + (not _is_symbol(item[0])))
    for size, extent, number, axis in pending:
        unknown = [s for s in symbols_of(size) if s.name not in bindings]
        if len(unknown) == 1:
            value = _solve(size, unknown[0].name, extent, bindings)
            symbol = unknown[0]
            if value is None or not symbol.lower <= value <= symbol.upper or value % symbol.divisor:
                raise _contradiction(names, types, arrays, number, axis)
            bindings[symbol.name] = value
        elif unknown or evaluate(size, bindings) != extent:
            raise _contradiction(names, types, arrays, number, axis)
    return bindings


def _is_symbol(size: Size) -> bool:
    return isinstance(size, Dim) and str(size).isidentifier()


def _solve(size: Size, name: str, extent: int, bindings: dict[str, int]) -> int | None:
    """The value of `name` for which `size` is `extent`, where size is linear in it; None if there is none."""
    if _is_symbol(size):
        return extent
    at = [evaluate(size, {**bindings, name: n}) for n in (0, 1, 2)]
    slope = at[1] - at[0]
    if slope == 0 or at[2] - at[1] != slope or (extent - at[0]) % slope:
        return None
    return (extent - at[0]) // slope


def _shown(array: np.ndarray) -> str:
    try:
        dtype = str(dtype_of(array.dtype))
    except UnknownName:
        dtype = str(array.dtype)
    return f"{dtype}[{', '.join(map(str, array.shape))}]"


def _contradiction(names: Sequence[str], types: Sequence[TensorType], arrays: Sequence[np.ndarray],
                   number: int, axis: int) -> ShapeMismatch:
    required = describe_requirement(types[number])
    return ShapeMismatch(
        f"argument {names[number]!r} must be {required}, got {_shown(np.asarray(arrays[number]))} (axis {axis})")

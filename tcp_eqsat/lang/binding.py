"""Symbols from arrays: the sizes of concrete arrays decide the values of symbolic dims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tcp_eqsat.errors import ShapeMismatch, TypeMismatch, UnknownName
from tcp_eqsat.lang.dims import Size, Symbol, substitute, symbol_dim, symbols_of, value
from tcp_eqsat.lang.types import TensorType, dtype_of


def describe_requirement(type_: TensorType) -> str:
    """The type with the ranges of its symbols, as messages show it: `f32[b, 16] with b in [1, 512]`."""
    facts = ", ".join(symbol.requirement() for symbol in symbols_of(*type_.shape))
    return f"{type_} with {facts}" if facts else str(type_)


@dataclass(frozen=True, slots=True)
class _Extent:
    """One axis of one argument: the size its type gives, and how long it is."""

    size: Size
    extent: int
    argument: int
    axis: int

    @property
    def difficulty(self) -> int:
        """Ints first, then symbols by themselves, then expressions by how many symbols they have."""
        symbols = symbols_of(self.size)
        return len(symbols) if len(symbols) == 1 and self.size is symbol_dim(symbols[0]) else 2 * len(symbols)


def bind_symbols(
    names: Sequence[str], types: Sequence[TensorType], arrays: Sequence[np.ndarray]
) -> dict[str, int]:
    """The value of every symbol, from the arrays' shapes.

    A symbol is read off where it is a size by itself, else solved from a size that is linear in it and whose other
    symbols are known. Raises TypeMismatch for a wrong dtype or rank, ShapeMismatch for a size that contradicts its
    type and where the sizes don't tell a symbol.
    """
    pending: list[_Extent] = []
    for number, (name, required, array) in enumerate(zip(names, types, arrays, strict=True)):
        found = np.asarray(array)
        if found.dtype != required.dtype.numpy or found.ndim != required.rank:
            raise TypeMismatch(f"argument {name!r} must be {describe_requirement(required)}, got {_shown(found)}")
        pending.extend(
            _Extent(size, found.shape[axis], number, axis) for axis, size in enumerate(required.shape))
    pending.sort(key=lambda each: each.difficulty)
    bindings: dict[str, int] = {}
    while pending:
        waiting = []
        for each in pending:
            unknown = [s for s in symbols_of(each.size) if s.name not in bindings]
            fits = True
            if not unknown:
                fits = value(each.size, bindings) == each.extent
            elif len(unknown) == 1 and (line := _linear(each.size, unknown[0], bindings)) is not None:
                slope, start = line
                steps, rest = divmod(each.extent - start, slope)
                bindings[unknown[0].name] = steps * unknown[0].divisor
                fits = rest == 0 and unknown[0].admits(steps * unknown[0].divisor)
            else:
                waiting.append(each)
            if not fits:
                raise _contradiction(names[each.argument], types[each.argument], arrays[each.argument], each.axis)
        if len(waiting) == len(pending):
            first = waiting[0]
            untold = [s.name for s in symbols_of(first.size) if s.name not in bindings]
            raise ShapeMismatch(
                f"argument {names[first.argument]!r} of type {types[first.argument]} does not tell "
                f"{' and '.join(untold)}: axis {first.axis} of extent {first.extent} is {first.size}")
        pending = waiting
    return bindings


def _linear(size: Size, symbol: Symbol, bindings: Mapping[str, int]) -> tuple[int, int] | None:
    """(slope, start) where size is slope * (symbol / its divisor) + start under bindings of the others.

    None where it is not, or the slope is 0.
    """
    known: Size = substitute(size, bindings)
    next_one = substitute(known, {symbol.name: symbol_dim(symbol) + symbol.divisor})
    slope, start = next_one - known, substitute(known, {symbol.name: 0})
    return (slope, start) if isinstance(slope, int) and isinstance(start, int) and slope != 0 else None


def _shown(array: np.ndarray) -> str:
    try:
        dtype = str(dtype_of(array.dtype))
    except UnknownName:
        dtype = str(array.dtype)
    return f"{dtype}[{', '.join(map(str, array.shape))}]"


def _contradiction(name: str, required: TensorType, array: np.ndarray, axis: int) -> ShapeMismatch:
    shown = _shown(np.asarray(array))
    return ShapeMismatch(f"argument {name!r} must be {describe_requirement(required)}, got {shown} (axis {axis})")

"""Where a plan's buffers lie: one workspace that temporaries and scratch arrays share over time, one block of
constants. Everything begins at a multiple of 64 bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tcp_eqsat.codegen.loops import Panels
from tcp_eqsat.lang.dims import Size, divides, less_equal, product
from tcp_eqsat.lang.program import TensorData
from tcp_eqsat.lang.types import TensorType

ALIGNMENT = 64
"""In bytes: a cache line, and the widest vector."""


def byte_count(type_: TensorType) -> Size:
    """The bytes that a tensor takes."""
    return product(type_.shape) * type_.dtype.bytes


@dataclass(frozen=True, slots=True)
class Request:
    """`bytes` of memory from step `first` to step `last`, both included."""

    name: str
    bytes: Size
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Layout:
    """Offsets in bytes by name, and the bytes of the whole."""

    offsets: Mapping[str, Size]
    bytes: Size


@dataclass(slots=True)
class _Slot:
    bytes: Size
    free_after: int
    names: list[str]


def lay_out(requests: Sequence[Request]) -> Layout:
    """Requests that are never alive together share memory where one is known to be no larger than the other."""
    slots: list[_Slot] = []
    for request in sorted(requests, key=lambda r: (r.first, r.last, r.name)):
        size = aligned(request.bytes)
        slot = _fitting([s for s in slots if s.free_after < request.first], size)
        if slot is None:
            slots.append(_Slot(size, request.last, [request.name]))
            continue
        if less_equal(slot.bytes, size) is True:
            slot.bytes = size
        slot.free_after = request.last
        slot.names.append(request.name)
    offsets: dict[str, Size] = {}
    total: Size = 0
    for slot in slots:
        offsets |= dict.fromkeys(slot.names, total)
        total = total + slot.bytes
    return Layout(offsets, total)


def _fitting(free: list[_Slot], size: Size) -> _Slot | None:
    """The free slot that wastes least: the smallest that is large enough, else the largest that can grow."""
    enough = [s for s in free if less_equal(size, s.bytes) is True]
    if enough:
        return _extreme(enough, smallest=True)
    growing = [s for s in free if less_equal(s.bytes, size) is True]
    return _extreme(growing, smallest=False) if growing else None


def _extreme(slots: list[_Slot], smallest: bool) -> _Slot:
    best = slots[0]
    for slot in slots[1:]:
        x, y = (slot.bytes, best.bytes) if smallest else (best.bytes, slot.bytes)
        if less_equal(x, y) is True:
            best = slot
    return best


def aligned(size: Size) -> Size:
    """The size rounded up to a multiple of the alignment."""
    return size if divides(ALIGNMENT, size) else (size + (ALIGNMENT - 1)) // ALIGNMENT * ALIGNMENT


def pack(data: TensorData, panels: Panels) -> TensorData:
    """The packed copy of a constant."""
    flat = data.array.reshape(-1)
    extents = [extent for extent, _ in panels.axes]
    strides = [stride * flat.itemsize for _, stride in panels.axes]
    columns = -(-panels.columns // panels.width)
    padded = np.zeros((*extents, columns * panels.width), flat.dtype)
    padded[..., :panels.columns] = np.lib.stride_tricks.as_strided(
        flat[panels.offset:], (*extents, panels.columns), (*strides, panels.column_stride * flat.itemsize),
        writeable=False)
    split = padded.reshape((*extents, columns, panels.width))
    return TensorData(np.moveaxis(split, -2, panels.batch).reshape(-1))


class ConstantBlock:
    """The values of constants in one aligned block, equal ones once. `offsets` are in bytes, by name."""

    def __init__(self, constants: Mapping[str, TensorData]) -> None:
        self.offsets: dict[str, int] = {}
        places: dict[TensorData, int] = {}
        total = 0
        for name, data in constants.items():
            if data not in places:
                places[data] = total
                total = -(-(total + data.array.nbytes) // ALIGNMENT) * ALIGNMENT
            self.offsets[name] = places[data]
        self._memory = np.empty(total + ALIGNMENT, np.uint8)
        start = -self._memory.ctypes.data % ALIGNMENT
        self.bytes = self._memory[start:start + total]
        for data, offset in places.items():
            self.bytes[offset:offset + data.array.nbytes] = np.frombuffer(data.array.tobytes(), np.uint8)
        self.bytes.flags.writeable = False

    @property
    def address(self) -> int:
        return int(self.bytes.ctypes.data)

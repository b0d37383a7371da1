"""The values of a loop nest in LLVM text: indices, addresses, loads, choices, at one place in the loops.

A value of the loop IR becomes one LLVM value for every combination of copies of the loops it depends on, with as
many lanes as the vector loop it depends on.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator

from tcp_eqsat.codegen.dependence import Dependence
from tcp_eqsat.codegen.llvm_loops import LoopText
from tcp_eqsat.codegen.llvm_transpose import transpose
from tcp_eqsat.codegen.llvm_values import LLVMBuilder, LLVMValue
from tcp_eqsat.codegen.loops import Apply, Choose, Constant, IndexValue, Load, Nest, Read, Value
from tcp_eqsat.codegen.target import CpuTarget
from tcp_eqsat.lang.dims import Size
from tcp_eqsat.lang.pointful import Affine, IndexRange
from tcp_eqsat.lang.types import BOOL, I32, I64, DType

BLOCK_BYTES = (16, 32, 64)
"""Sizes of vectors of which as many as they have lanes are loaded and transposed instead of gathered."""
Coordinates = dict[int, int]
"""Which copy, for the axes of loops with several copies."""
Key = tuple[tuple[int, int], ...]
"""Coordinates as a key: sorted pairs."""


class NestValues:
    """What is known at the place where code is being written, and how values are written there."""

    def __init__(self, nest: Nest, target: CpuTarget, declarations: dict[str, str]) -> None:
        self.builder = LLVMBuilder(target, 1, declarations)
        self.text = LoopText(self.builder, self.scope)
        self.dependence = Dependence(nest)
        self.arrays = {a.name: f"%p{n}" for n, a in enumerate(nest.arrays)}
        self.axes: list[int] = []  # of the open loops, outermost first
        self.base: dict[int, tuple[str | None, int]] = {}  # where a loop's step starts: a value and a number
        self.place: dict[int, str] = {}  # which copy runs, for loops in an Each
        self.copies: dict[int, range] = {}  # which copies run, for open loops that have several
        self.vector: int | None = None  # the axis of the open vector loop
        self.masks: dict[int, LLVMValue] = {}  # by copy of the vector loop: the lanes that take part
        self.names: dict[tuple[str, Key], LLVMValue] = {}
        self._known: list[dict[tuple[int, Key, str], LLVMValue]] = [{}]

    def coordinates(self, axes: frozenset[int]) -> Iterator[Coordinates]:
        """Every combination of copies of the open loops among `axes`."""
        several = [a for a in self.copies if a in axes]
        for combination in itertools.product(*(self.copies[a] for a in several)):
            yield dict(zip(several, combination, strict=True))

    def key(self, axes: frozenset[int], at: Coordinates) -> Key:
        return tuple(sorted((a, c) for a, c in at.items() if a in axes))

    def mask(self, at: Coordinates) -> LLVMValue | None:
        """The lanes that take part in this copy of the vector loop; None: all."""
        return None if self.vector is None else self.masks.get(at.get(self.vector, 0))

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Values written inside are not used after it."""
        self._known.append({})
        with self.builder.scope():
            yield
        self._known.pop()

    def split_ranges(self, ranges: tuple[IndexRange, ...]) -> tuple[tuple[IndexRange, ...], tuple[IndexRange, ...]]:
        """The ranges that are the same for all lanes, and the others."""
        by_lane = tuple(r for r in ranges if self.lane_stride(r.index) != 0)
        return tuple(r for r in ranges if r not in by_lane), by_lane

    def holds(self, ranges: tuple[IndexRange, ...], at: Coordinates) -> LLVMValue | bool:
        """Whether all indices are in their ranges; True or False where that is known here."""
        result: LLVMValue | None = None
        for r in ranges:
            index = self._index(r.index, at)
            for direction, bound in (("greater_equal", r.lower), ("less", r.upper)):
                limit = self.text.size(bound)
                if isinstance(index, int) and isinstance(limit, int):
                    if not (index >= limit if direction == "greater_equal" else index < limit):
                        return False
                elif not (direction == "greater_equal" and limit == 0 and _is_natural(r.index)):
                    test = self.builder.compare(direction, as_i64(index), as_i64(limit))
                    result = self.conjunction(test, result)
        return True if result is None else result

    def conjunction(self, x: LLVMValue, y: LLVMValue | None) -> LLVMValue:
        return x if y is None else self.builder.bitwise_and(x, y)

    def in_lanes(self, ranges: tuple[IndexRange, ...], at: Coordinates) -> LLVMValue:
        """Which lanes' indices are in all ranges."""
        result: LLVMValue | None = None
        for r in ranges:
            start, stride = as_i64(self._index(r.index, at)), self.lane_stride(r.index)
            for direction, bound in (("greater_equal", r.lower), ("less", r.upper)):
                limit = self.text.size(bound)
                if direction == "greater_equal" and limit == 0 and _is_natural(r.index):
                    continue
                if stride == 1:
                    distance = self._clamped(self.builder.subtract(as_i64(limit), start))
                    test = self.builder.compare(direction, self.builder.iota(I32), distance)
                else:
                    index = self.builder.add(self.lane_offsets(stride), start)
                    test = self.builder.compare(direction, index, as_i64(limit))
                result = self.conjunction(test, result)
        return self.builder.splat(self.builder.constant(True, BOOL)) if result is None else result

    def _clamped(self, distance: LLVMValue) -> LLVMValue:
        """A distance as i32, held within one below 0 and the number of lanes."""
        low, high = self.builder.constant(-1, I64), self.builder.constant(self.builder.lanes, I64)
        return self.builder.convert(self.builder.maximum(low, self.builder.minimum(high, distance)), I32)

    # Indices and addresses

    def lane_stride(self, index: Affine) -> Size:
        """How far the index moves from lane to lane."""
        if self.vector is None:
            return 0
        return sum((c for a, c in index.terms if self.dependence.position_axis.get(a, a) == self.vector), start=0)

    def lane_offsets(self, stride: Size) -> LLVMValue:
        return self.builder.multiply(self.builder.iota(I64), as_i64(self.text.size(stride)))

    def _terms(self, index: Affine, at: Coordinates) -> tuple[int, list[str]]:
        """The index in the first lane: a number, and i64 values to be added, outer loops' first."""
        number = 0
        values: list[str] = []

        def add(coefficient: Size, count: int) -> None:
            nonlocal number
            if isinstance(coefficient, int):
                number += coefficient * count
            elif count:
                values.append(self.text.scaled(coefficient, count))

        add(index.offset, 1)
        coefficients = dict(index.terms)
        positions = {self.dependence.position_axis[a]: c for a, c in index.terms if a in self.dependence.position_axis}
        for axis in self.axes:
            lanes = self.builder.lanes if axis == self.vector else 1
            start = at.get(axis, 0) * lanes
            if axis in coefficients:
                value, count = self.base[axis]
                if value is not None:
                    values.append(self.text.product(value, coefficients[axis]))
                add(coefficients[axis], count + start)
            if axis in positions:
                add(positions[axis], start)
                if axis in self.place:
                    values.append(self.text.product(self.place[axis], positions[axis]))
        return number, values

    def _index(self, index: Affine, at: Coordinates) -> str | int:
        """The index in the first lane."""
        number, values = self._terms(index, at)
        total: str | int = 0
        for value in values:
            total = value if total == 0 else self.text.integer("add", total, value)
        return number if total == 0 else self.text.integer("add", total, number)

    def address(self, array: str, offset: Affine, dtype: DType, at: Coordinates) -> tuple[str, int]:
        """A pointer by the loops that are open, and elements to add to it."""
        number, values = self._terms(offset, at)
        pointer = self.arrays[array]
        for value in values:
            pointer = self.text.element(pointer, dtype, value)
        return pointer, number

    def pointer(self, array: str, offset: Affine, dtype: DType, at: Coordinates) -> str:
        pointer, number = self.address(array, offset, dtype, at)
        return self.text.element(pointer, dtype, number) if number else pointer

    # Values

    def value(self, root: Value, at: Coordinates, guard: LLVMValue | None = None) -> LLVMValue:
        """The value for one combination of copies; loads happen only in the lanes of `guard`."""
        result: LLVMValue | None = None
        for value in _same_scope(root):
            key = (id(value), self.key(self.dependence.of(value), at), "" if guard is None else guard.text)
            result = next((known[key] for known in reversed(self._known) if key in known), None)
            if result is None:
                result = self._known[-1][key] = self._compute(value, at, guard)
        assert result is not None
        return result

    def _compute(self, value: Value, at: Coordinates, guard: LLVMValue | None) -> LLVMValue:
        match value:
            case Constant(literal):
                return self.builder.constant(literal.value, literal.dtype)
            case Read(name):
                return self.names[name, self.key(self.dependence.names[name], at)]
            case Load():
                return self._load(value, at, guard)
            case IndexValue(index, dtype):
                return self._index_value(index, dtype, at)
            case Apply(op, operands):
                return op.emit(self.builder, *(self.value(x, at, guard) for x in operands))
            case Choose():
                return self._choose(value, at, guard)

    def _load(self, load: Load, at: Coordinates, guard: LLVMValue | None) -> LLVMValue:
        stride = self.lane_stride(load.offset)
        pointer = self.pointer(load.array, load.offset, load.dtype, at)
        if stride == 0 and guard is None:
            return self.builder.load(pointer, load.dtype, lanes=1)
        mask = self.mask(at)
        mask = mask if guard is None else self.conjunction(guard, mask)
        if stride == 1:
            return self.builder.load(pointer, load.dtype, mask=mask)
        axis = self._contiguous_copies(load) if guard is None else None
        if axis is not None:
            return self._load_block(load, axis, stride, at)
        return self.builder.gather(pointer, self.builder.splat(self.lane_offsets(stride)), load.dtype, mask=mask)

    def _contiguous_copies(self, load: Load) -> int | None:
        """The axis along which the load is contiguous, where it has as many copies as lanes: a square block."""
        if self.builder.lanes * load.dtype.bytes not in BLOCK_BYTES or load.dtype is BOOL:
            return None
        return next((axis for axis, c in load.offset.terms
                     if c == 1 and len(self.copies.get(axis, ())) == self.builder.lanes), None)

    def _load_block(self, load: Load, axis: int, stride: Size, at: Coordinates) -> LLVMValue:
        """The load, and with it those of all copies of the loop over `axis`: a lane's are contiguous in memory."""
        dependence = self.dependence.of(load)
        first = at | {axis: self.copies[axis][0]}
        start, mask = self.pointer(load.array, load.offset, load.dtype, first), self.mask(at)
        rows = []
        for lane in range(self.builder.lanes):
            distance = stride * lane if isinstance(stride, int) else self.text.scaled(stride, lane)
            place = self.text.element(start, load.dtype, distance) if lane else start
            taken = None if mask is None else self.builder.extract(mask, lane)
            rows.append(self.builder.load(place, load.dtype, mask=taken))
        for copy, value in zip(self.copies[axis], transpose(self.builder, rows), strict=True):
            self._known[-1][id(load), self.key(dependence, at | {axis: copy}), ""] = value
        return self._known[-1][id(load), self.key(dependence, at), ""]

    def _index_value(self, index: Affine, dtype: DType, at: Coordinates) -> LLVMValue:
        start, stride = as_i64(self._index(index, at)), self.lane_stride(index)
        if stride == 0:
            return self.builder.convert(start, dtype)
        if dtype.is_integer:
            step = self.builder.convert(as_i64(self.text.size(stride)), dtype)
            lanes = self.builder.multiply(self.builder.iota(dtype), step)
            return self.builder.add(lanes, self.builder.convert(start, dtype))
        return self.builder.convert(self.builder.add(self.lane_offsets(stride), start), dtype)

    def _choose(self, choose: Choose, at: Coordinates, guard: LLVMValue | None) -> LLVMValue:
        uniform, by_lane = self.split_ranges(choose.ranges)

        def inside() -> LLVMValue:
            if not by_lane:
                return self.value(choose.inside, at, guard)
            chosen = self.in_lanes(by_lane, at)
            x = self.value(choose.inside, at, self.conjunction(chosen, guard))
            y = self.value(choose.outside, at, self.conjunction(self.builder.bitwise_not(chosen), guard))
            return self.builder.select(chosen, x, y)

        condition = self.holds(uniform, at)
        if condition is True:
            return inside()
        if condition is False:
            return self.value(choose.outside, at, guard)
        wide = guard is not None or self.vector in self.dependence.of(choose)
        lanes = self.builder.lanes if wide else 1

        return self.text.either(
            condition.text, lambda: self.builder.splat(inside(), lanes),
            lambda: self.builder.splat(self.value(choose.outside, at, guard), lanes))


def as_i64(value: str | int) -> LLVMValue:
    return LLVMValue(str(value), I64, 1, value if isinstance(value, int) else None)


def _is_natural(index: Affine) -> bool:
    """Whether the index can't be negative, seen from its parts."""
    return all(isinstance(c, int) and c >= 0 for c in (index.offset, *(c for _, c in index.terms)))


def _same_scope(root: Value) -> Iterator[Value]:
    """The values `root` is computed from, operands first, without what stands inside choices."""
    seen: set[int] = set()
    stack: list[tuple[Value, bool]] = [(root, False)]
    while stack:
        value, expanded = stack.pop()
        if expanded:
            yield value
        elif id(value) not in seen:
            seen.add(id(value))
            stack.append((value, True))
            if isinstance(value, Apply):
                stack.extend((x, False) for x in reversed(value.operands))

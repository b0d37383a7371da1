"""Loop nests as LLVM text for a CPU: one function a nest, vectors explicit, no pass needed.

Accumulators are phis, never memory. What a loop leaves over at its end is one masked vector or a smaller tile.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

from tcp_eqsat.codegen.dependence import loops_to_update
from tcp_eqsat.codegen.graph import start_value
from tcp_eqsat.codegen.llvm_bypass import Place, bypassed_bytes, fence, until_aligned
from tcp_eqsat.codegen.llvm_loops import State
from tcp_eqsat.codegen.llvm_nest_values import Coordinates, Key, NestValues
from tcp_eqsat.codegen.llvm_values import LLVMValue
from tcp_eqsat.codegen.loops import (
    Access,
    Accumulator,
    Apply,
    Body,
    Each,
    Fold,
    For,
    If,
    Let,
    Load,
    Nest,
    Prefetch,
    Statement,
    Store,
    Update,
    value_of_statement,
    walk_statements,
    walk_values,
)
from tcp_eqsat.codegen.target import CpuTarget
from tcp_eqsat.lang.dims import Size
from tcp_eqsat.lang.pointful import Affine, IndexRange
from tcp_eqsat.lang.types import BOOL, I32, I64, DType

LINE = 64
"""Bytes of a cache line."""


@dataclass(frozen=True)
class NestCode:
    """A function in LLVM text. `arrays` and `sizes` are its arguments, in order."""

    text: str
    arrays: tuple[str, ...]
    sizes: tuple[Size, ...]


def emit_nest(nest: Nest, symbol: str, target: CpuTarget, declarations: dict[str, str]) -> NestCode:
    """The function `symbol` that runs the nest; `declarations` collects the intrinsics it calls."""
    return _Emitter(nest, target, declarations).function(symbol)


class _Emitter(NestValues):
    def __init__(self, nest: Nest, target: CpuTarget, declarations: dict[str, str]) -> None:
        super().__init__(nest, target, declarations)
        self.nest = nest
        self.target = target
        self.guarded = False  # whether a guard takes lanes out
        self.bypass = False  # whether stores go around the caches
        self.large = self._is_large()  # whether they may: what they fill is large
        self.partial: dict[str, _Partial] = {}  # open accumulators
        self._found: dict[int, dict[tuple[str, Affine], DType]] = {}  # accesses by statement

    def function(self, symbol: str) -> NestCode:
        self._body(self.nest.body)
        if self.large is True:
            fence(self.builder)
        elif self.large:
            self.text.branch(self.large, [], lambda: fence(self.builder))
        arguments = [
            f"ptr noalias {'readonly ' if a.access is Access.READ else ''}{self.arrays[a.name]}"
            for a in self.nest.arrays
        ] + [f"i64 {name}" for name in self.text.sizes.values()]
        lines = [f"define internal void @{symbol}({', '.join(arguments)}) nounwind {{", "entry:",
                 *self.text.entry, "  br label %start", "start:", *self.builder.lines, "  ret void", "}"]
        return NestCode("\n".join(lines), tuple(self.arrays), tuple(self.text.sizes))

    # Statements

    def _body(self, body: Body) -> None:
        for statement in body:
            match statement:
                case For():
                    self._for(statement)
                case Fold(accumulators, inner):
                    self._fold(accumulators, inner)
                case Update():
                    self._update(statement)
                case Let(name, value):
                    for at in self.coordinates(self.dependence.names[name]):
                        self.names[name, self.key(self.dependence.names[name], at)] = self.value(value, at)
                case Store():
                    self._store(statement)
                case Prefetch():
                    self._prefetch(statement)
                case If(ranges, inner):
                    self._if(ranges, inner)
                case Each(index, inner):
                    self._each(index, inner)

    def _store(self, store: Store) -> None:
        axes = self.dependence.loops(store.offset.axes) | self.dependence.of(store.value)
        stride = self.lane_stride(store.offset)
        for at in self.coordinates(axes):
            value, mask = self.value(store.value, at), self.mask(at)
            pointer = self.pointer(store.array, store.offset, store.value.dtype, at)
            if stride == 0 or self.builder.lanes == 1:
                self.builder.store(value, pointer, lanes=1)
            elif stride == 1 and self.bypass and mask is None:
                width = self.builder.lanes * value.dtype.bytes
                self.builder.store(value, pointer, lanes=self.builder.lanes, align=width, bypass=True)
            elif stride == 1:
                self.builder.store(value, pointer, lanes=self.builder.lanes, mask=mask)
            else:
                self.builder.scatter(value, pointer, self.lane_offsets(stride), mask=mask)

    def _prefetch(self, prefetch: Prefetch) -> None:
        """One hint for each cache line that the lanes of the open copies touch."""
        dtype = next(a.dtype for a in self.nest.arrays if a.name == prefetch.array)
        self.builder.declare("llvm.prefetch.p0", "void", ("ptr", "i32", "i32", "i32"))
        for at in self.coordinates(self.dependence.loops(prefetch.offset.axes)):
            start = at.get(self.vector, 0) * self.builder.lanes * dtype.bytes if self.vector is not None else 0
            if start % LINE == 0:
                pointer = self.pointer(prefetch.array, prefetch.offset, dtype, at)
                self.builder.line(f"  call void @llvm.prefetch.p0(ptr {pointer}, i32 0, i32 3, i32 1)")

    # Folds

    def _fold(self, accumulators: tuple[Accumulator, ...], body: Body) -> None:
        for accumulator in accumulators:
            loops = loops_to_update(body, accumulator.name) or ()
            inside = frozenset(loop.index for loop in loops if loop.how.copies > 1)
            reduces = any(loop.how.lanes > 1 for loop in loops)
            lanes = next((loop.how.lanes for loop in loops if loop.how.lanes > 1), 1)
            if self.vector is not None and self.vector in self.dependence.names[accumulator.name]:
                lanes = self.builder.lanes
            axes = self.dependence.names[accumulator.name]
            start = start_value(accumulator.op, accumulator.dtype)
            value = self.builder.splat(self.builder.constant(start.value, accumulator.dtype), lanes)
            counts = {loop.index: loop.how.copies for loop in loops if loop.how.copies > 1}
            state: dict[Key, LLVMValue] = {}
            for at in self.coordinates(axes):
                for combination in itertools.product(*(range(n) for n in counts.values())):
                    state[self.key(axes | inside, at | dict(zip(counts, combination, strict=True)))] = value
            self.partial[accumulator.name] = _Partial(accumulator, axes | inside, axes, reduces, state)
        self._body(body)
        for accumulator in accumulators:
            self._gather(self.partial.pop(accumulator.name))

    def _gather(self, partial: _Partial) -> None:
        """Combines the copies, then the lanes, of what a fold gathered."""
        op, name = partial.accumulator.op, partial.accumulator.name
        groups: dict[Key, list[LLVMValue]] = {}
        for key, value in partial.state.items():
            groups.setdefault(tuple(x for x in key if x[0] in partial.kept), []).append(value)
        for key, values in groups.items():
            while len(values) > 1:
                pairs = [values[n:n + 2] for n in range(0, len(values), 2)]
                values = [op.emit(self.builder, *pair) if len(pair) == 2 else pair[0] for pair in pairs]
            total = values[0]
            self.names[name, key] = self.builder.reduce(op.emit, total) if partial.reduces else total

    def _update(self, update: Update) -> None:
        partial = self.partial[update.name]
        whole = self.vector is None or (self.vector in partial.kept and not self.guarded)
        for at in self.coordinates(partial.axes):
            key = self.key(partial.axes, at)
            old = partial.state[key]
            new = self._combined(partial.accumulator, update, old, at)
            mask = None if whole else self.mask(at)
            partial.state[key] = new if mask is None else self.builder.select(mask, new, old)

    def _combined(self, accumulator: Accumulator, update: Update, old: LLVMValue, at: Coordinates) -> LLVMValue:
        value = update.value
        if (update.fused and accumulator.op.name == "add" and isinstance(value, Apply)
                and value.op.name == "multiply" and value.dtype.is_float):
            x, y = (self.value(v, at) for v in value.operands)
            new = self.builder.fma(x, y, old)
        else:
            new = accumulator.op.emit(self.builder, old, self.value(value, at))
        return self.builder.splat(new, old.lanes)

    # Loops

    def _for(self, loop: For) -> None:
        extent = self.text.size(loop.extent)
        updated = self._updated(loop.body)
        if loop.how.bypass and self.large is not False and not updated:
            self._bypassing_loop(loop, extent)
        else:
            self._plain_loop(loop, extent, updated)

    def _plain_loop(self, loop: For, extent: int | str, updated: list[_Partial]) -> None:
        if isinstance(extent, int):
            self._static_loop(loop, extent, updated)
        else:
            self._dynamic_loop(loop, extent, updated)

    def _static_loop(self, loop: For, extent: int, updated: list[_Partial]) -> None:
        how = loop.how
        step = how.lanes * how.copies
        steps, rest = divmod(extent, step)
        if step == 1:
            self._unrolled(loop, 0, extent, updated)
        elif steps == 1:
            self._step(loop, (None, 0), how.copies)
        elif steps:
            self.text.loop(0, steps * step, step, _states(updated), lambda i: self._step(loop, (i, 0), how.copies))
        if step > 1 and rest:
            copies = -(-rest // how.lanes)
            self._step(loop, (None, steps * step), copies, rest - (copies - 1) * how.lanes)

    def _unrolled(self, loop: For, start: int | str, extent: int | str, updated: list[_Partial]) -> None:
        """Single steps, `unroll` of them between jumps."""
        unroll = loop.how.unroll
        states = _states(updated)

        def steps(count: int) -> Callable[[str], None]:
            def emit(index: str) -> None:
                for n in range(count):
                    self._step(loop, (index, n), 1)
            return emit

        if isinstance(extent, int):
            whole = extent // unroll * unroll
            if extent <= max(unroll, 1):
                whole = 0
            elif whole:
                self.text.loop(0, whole, unroll, states, steps(unroll))
            for n in range(whole, extent):
                self._step(loop, (None, n), 1)
            return
        if unroll > 1:
            start = self.text.loop(start, extent, unroll, states, steps(unroll))
        self.text.loop(start, extent, 1, states, steps(1))

    def _dynamic_loop(self, loop: For, extent: str, updated: list[_Partial]) -> None:
        how, states = loop.how, _states(updated)
        if how.lanes * how.copies == 1:
            self._unrolled(loop, 0, extent, updated)
        elif how.lanes == 1 and not updated and _repeatable(loop):
            self._covering(loop, extent)
        else:
            self._steps_from(loop, 0, extent, states)

    def _steps_from(self, loop: For, start: int | str, extent: int | str, states: list[State]) -> None:
        """Whole steps from `start`, then such of one copy, then a masked one."""
        lanes = loop.how.lanes

        def run(copies: int) -> str:
            return self.text.loop(
                start, extent, lanes * copies, states, lambda i: self._step(loop, (i, 0), copies))

        for copies in dict.fromkeys((loop.how.copies, 1)):
            start = run(copies)
        if lanes > 1:
            rest = self.text.integer("sub", extent, start)
            self.text.branch(self.text.compare("sgt", rest, 0), states,
                             lambda: self._step(loop, (str(start), 0), 1, rest))

    def _bypassing_loop(self, loop: For, extent: int | str) -> None:
        """Stores around the caches, which begin with an aligned vector; what is before it is a masked one.

        The loop is a plain one where the arrays are small, or no first vector is aligned in all of them.
        """
        places = [
            Place(self.pointer(s.array, s.offset, s.value.dtype, {}), loop.how.lanes * s.value.dtype.bytes,
                  s.value.dtype.bytes) for s in loop.body if isinstance(s, Store)]
        ahead, aligned = until_aligned(self.builder, places)
        if isinstance(self.large, str):
            aligned = self.builder.instruction(f"and i1 {aligned}, {self.large}", BOOL, 1).text
        plain = self.builder.instruction(f"xor i1 {aligned}, true", BOOL, 1).text
        self.text.branch(aligned, [], lambda: self._aligned_loop(loop, extent, ahead))
        self.text.branch(plain, [], lambda: self._plain_loop(loop, extent, []))

    def _aligned_loop(self, loop: For, extent: int | str, ahead: str) -> None:
        """The loop with `ahead` iterations (or all, if there are fewer) before those that store around the caches."""
        self.builder.declare("llvm.smin.i64", "i64", ("i64", "i64"))
        first = self.builder.instruction(f"call i64 @llvm.smin.i64(i64 {ahead}, i64 {extent})", I64, 1).text
        self.text.branch(self.text.compare("sgt", first, 0), [], lambda: self._step(loop, (None, 0), 1, first))
        self.bypass = True
        self._steps_from(loop, first, extent, [])
        self.bypass = False

    def _is_large(self) -> bool | str:
        """Whether what the nest stores around the caches is worth it: known, or an i1."""
        size, least = bypassed_bytes(self.nest), self.target.bypass_bytes
        if isinstance(size, int) or least == 0:
            return least > 0 and isinstance(size, int) and size >= least
        self.text.entry.append(f"  %large = icmp sge i64 {self.text.size(size)}, {least}")
        return "%large"

    def _covering(self, loop: For, extent: str) -> None:
        """Steps of as many copies as the extent holds; the last step begins early enough to end with it.

        Iterations that run twice store the same values twice.
        """
        counts = [loop.how.copies]
        while counts[-1] > 1:
            counts.append(-(-counts[-1] // 2))
        self.text.covering(extent, counts, lambda i, count: self._step(loop, (i, 0), count))

    def _step(self, loop: For, base: tuple[str | None, int], copies: int, rest: int | str | None = None) -> None:
        """One step of the loop from `base`; the last copy has only `rest` lanes."""
        axis, how = loop.index, loop.how
        self.axes.append(axis)
        self.base[axis] = base
        if how.copies > 1:
            self.copies[axis] = range(copies)
        if how.lanes > 1:
            self.vector, self.builder.lanes = axis, how.lanes
            if rest is not None and rest != how.lanes:
                self.masks = {copies - 1: self._first_lanes(rest)}
        with self.scope():
            self._prepare_pointers(axis, loop.body)
            self._body(loop.body)
        if how.lanes > 1:
            self.vector, self.builder.lanes, self.masks = None, 1, {}
        self.copies.pop(axis, None)
        self.axes.pop()

    def _first_lanes(self, count: int | str) -> LLVMValue:
        lanes = self.builder.lanes
        if isinstance(count, int):
            bits = ", ".join(f"i1 {'true' if n < count else 'false'}" for n in range(lanes))
            return LLVMValue(f"<{bits}>", BOOL, lanes)
        narrow = self.builder.instruction(f"trunc i64 {count} to i32", I32, 1)
        return self.builder.compare("less", self.builder.iota(I32), narrow)

    def _each(self, axis: int, body: Body) -> None:
        """The body in a loop over the copies of an open loop, which has one step of one lane in each."""
        copies = self.copies.pop(axis, range(1))
        base, number = self.base[axis]

        def emit(place: str) -> None:
            self.place[axis] = place
            self.base[axis] = (place if base is None else str(self.text.integer("add", base, place)), number)
            self._prepare_pointers(axis, body)
            self._body(body)

        with self.scope():
            if len(copies) == 1:
                self._body(body)
            else:
                self.text.loop(0, len(copies), 1, _states(self._updated(body)), emit)
        self.place.pop(axis, None)
        self.copies[axis] = copies
        self.base[axis] = (base, number)

    def _prepare_pointers(self, axis: int, body: Body) -> None:
        """Writes what loops inside need of their pointers here, where it does not change."""
        for statement in body:
            if isinstance(statement, (For, Fold, If, Each)):
                for (array, offset), dtype in self._accesses(statement).items():
                    if axis in offset.axes:
                        dynamic = frozenset(a for a, c in offset.terms if not isinstance(c, int))
                        for at in self.coordinates(dynamic):
                            self.address(array, offset, dtype, at)

    def _accesses(self, statement: Statement) -> dict[tuple[str, Affine], DType]:
        if id(statement) not in self._found:
            self._found[id(statement)] = _accesses(statement)
        return self._found[id(statement)]

    def _updated(self, body: Body) -> list[_Partial]:
        """The open accumulators that the body updates."""
        return [p for name, p in self.partial.items() if loops_to_update(body, name) is not None]

    # Guards

    def _if(self, ranges: tuple[IndexRange, ...], body: Body) -> None:
        uniform, by_lane = self.split_ranges(ranges)
        axes = self.dependence.loops(a for r in ranges for a in r.index.axes)
        for at in tuple(self.coordinates(axes)):
            copies = self.copies
            self.copies = copies | {axis: range(c, c + 1) for axis, c in at.items()}
            condition = self.holds(uniform, at)
            if condition is True:
                self._guarded(by_lane, body)
            elif isinstance(condition, LLVMValue):
                self.text.branch(condition.text, _states(self._updated(body)), lambda: self._guarded(by_lane, body))
            self.copies = copies

    def _guarded(self, by_lane: tuple[IndexRange, ...], body: Body) -> None:
        """The body in the lanes whose indices are in the ranges."""
        masks, guarded = self.masks, self.guarded
        if by_lane:
            assert self.vector is not None
            self.masks = {c: self.conjunction(self.in_lanes(by_lane, {self.vector: c}), masks.get(c))
                          for c in self.copies.get(self.vector, range(1))}
            self.guarded = True
        with self.scope():
            self._body(body)
        self.masks, self.guarded = masks, guarded


@dataclass
class _Partial:
    """An open accumulator: its values by copy. Axes are all it varies with, `kept` those it has afterwards."""

    accumulator: Accumulator
    axes: frozenset[int]
    kept: frozenset[int]
    reduces: bool
    state: dict[Key, LLVMValue]


def _states(partials: list[_Partial]) -> list[dict[Key, LLVMValue]]:
    return [p.state for p in partials]


def _repeatable(loop: For) -> bool:
    """Whether an iteration may run twice: it reads nothing that the loop stores."""
    stored = {s.array for s in walk_statements(loop.body) if isinstance(s, Store)}
    roots = [root for s in walk_statements(loop.body) if (root := value_of_statement(s)) is not None]
    return not any(isinstance(x, Load) and x.array in stored for x in walk_values(*roots))


def _accesses(statement: Statement) -> dict[tuple[str, Affine], DType]:
    """The loads and stores in a statement."""
    found: dict[tuple[str, Affine], DType] = {}
    for inner in walk_statements((statement,)):
        root = value_of_statement(inner)
        if root is not None:
            found |= {(x.array, x.offset): x.dtype for x in walk_values(root) if isinstance(x, Load)}
        if isinstance(inner, Store):
            found[inner.array, inner.offset] = inner.value.dtype
    return found

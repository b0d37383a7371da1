"""Loop nests as LLVM text for a CPU: one function a nest, vectors explicit, no pass needed.

A value of the loop IR becomes one LLVM value for every combination of copies of the loops it depends on, with as
many lanes as the vector loop it depends on. Accumulators are phis, never memory.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tcp_eqsat.codegen.graph import start_value
from tcp_eqsat.codegen.llvm_loops import LoopText
from tcp_eqsat.codegen.llvm_values import LLVMBuilder, LLVMValue
from tcp_eqsat.codegen.loops import (
    Access,
    Accumulator,
    Apply,
    Body,
    Choose,
    Constant,
    Each,
    Fold,
    For,
    If,
    IndexValue,
    Let,
    Load,
    Nest,
    Read,
    Statement,
    Store,
    Update,
    Value,
    operands_of,
    value_of_statement,
    walk_statements,
    walk_values,
)
from tcp_eqsat.codegen.target import CpuTarget
from tcp_eqsat.lang.dims import Size
from tcp_eqsat.lang.pointful import Affine, IndexRange
from tcp_eqsat.lang.types import BOOL, I32, I64, DType

Coordinates = dict[int, int]
"""Which copy, for the axes of loops with several copies."""
Key = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class NestCode:
    """A function in LLVM text. `arrays` and `sizes` are its arguments, in order."""

    text: str
    arrays: tuple[str, ...]
    sizes: tuple[Size, ...]


def emit_nest(nest: Nest, symbol: str, target: CpuTarget, declarations: dict[str, str]) -> NestCode:
    """The function `symbol` that runs the nest; `declarations` collects the intrinsics it calls."""
    return _Emitter(nest, target, declarations).function(symbol)


class _Emitter:
    def __init__(self, nest: Nest, target: CpuTarget, declarations: dict[str, str]) -> None:
        self.nest = nest
        self.target = target
        self.builder = LLVMBuilder(target, 1, declarations)
        self.text = LoopText(self.builder)
        self.arrays = {a.name: f"%p{n}" for n, a in enumerate(nest.arrays)}
        loops = [s for s in walk_statements(nest.body) if isinstance(s, For)]
        self.position_axis = {x.how.position: x.index for x in loops if x.how.position is not None}
        self.depends: dict[str, frozenset[int]] = {}  # the axes of the loops that a name depends on
        self.value_depends: dict[int, frozenset[int]] = {}
        self._find_dependences(nest.body)
        self.accesses: dict[int, dict[tuple[str, Affine], DType]] = {}
        self.axes: list[int] = []  # of the open loops, outermost first
        self.base: dict[int, tuple[str | None, int]] = {}  # where a loop's step starts: a value and a number
        self.place: dict[int, str] = {}  # which copy runs, for loops in an Each
        self.copies: dict[int, int] = {}  # how many copies run, for open loops that have several
        self.vector: int | None = None  # the axis of the open vector loop
        self.masks: dict[int, LLVMValue] = {}  # by copy of the vector loop: the lanes that take part
        self.guarded = False  # whether a guard takes lanes out
        self.values: list[dict[tuple[int, Key, str], LLVMValue]] = [{}]
        self.names: dict[tuple[str, Key], LLVMValue] = {}
        self.partial: dict[str, _Partial] = {}  # open accumulators

    def function(self, symbol: str) -> NestCode:
        self._body(self.nest.body)
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
                    for at in self._coordinates(self.depends[name]):
                        self.names[name, self._key(self.depends[name], at)] = self._value(value, at)
                case Store():
                    self._store(statement)
                case If(ranges, inner):
                    self._if(ranges, inner)
                case Each(index, inner):
                    self._each(index, inner)

    def _coordinates(self, axes: frozenset[int]) -> Iterator[Coordinates]:
        """Every combination of copies of the open loops among `axes`."""
        several = [a for a in self.copies if a in axes]
        for combination in itertools.product(*(range(self.copies[a]) for a in several)):
            yield dict(zip(several, combination, strict=True))

    def _key(self, axes: frozenset[int], at: Coordinates) -> Key:
        return tuple(sorted((a, c) for a, c in at.items() if a in axes))

    def _mask(self, at: Coordinates) -> LLVMValue | None:
        """The lanes that take part in this copy of the vector loop; None: all."""
        return None if self.vector is None else self.masks.get(at.get(self.vector, 0))

    def _store(self, store: Store) -> None:
        axes = self._loops(store.offset.axes) | self._depends(store.value)
        stride = self._lane_stride(store.offset)
        for at in self._coordinates(axes):
            value, mask = self._value(store.value, at), self._mask(at)
            pointer = self._pointer(store.array, store.offset, store.value.dtype, at)
            if stride == 0 or self.builder.lanes == 1:
                self.builder.store(value, pointer, lanes=1)
            elif stride == 1:
                self.builder.store(value, pointer, lanes=self.builder.lanes, mask=mask)
            else:
                self.builder.scatter(value, pointer, self._lane_offsets(stride), mask=mask)

    # Folds

    def _fold(self, accumulators: tuple[Accumulator, ...], body: Body) -> None:
        for accumulator in accumulators:
            loops = _loops_to_update(body, accumulator.name) or ()
            inside = frozenset(loop.index for loop in loops if loop.how.copies > 1)
            reduces = any(loop.how.lanes > 1 for loop in loops)
            lanes = next((loop.how.lanes for loop in loops if loop.how.lanes > 1), 1)
            if self.vector is not None and self.vector in self.depends[accumulator.name]:
                lanes = self.builder.lanes
            axes = self.depends[accumulator.name]
            start = start_value(accumulator.op, accumulator.dtype)
            value = self.builder.splat(self.builder.constant(start.value, accumulator.dtype), lanes)
            counts = {loop.index: loop.how.copies for loop in loops if loop.how.copies > 1}
            state: dict[Key, LLVMValue] = {}
            for at in self._coordinates(axes):
                for combination in itertools.product(*(range(n) for n in counts.values())):
                    state[self._key(axes | inside, at | dict(zip(counts, combination, strict=True)))] = value
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
        for at in self._coordinates(partial.axes):
            key = self._key(partial.axes, at)
            old = partial.state[key]
            new = self._combined(partial.accumulator, update, old, at)
            mask = None if whole else self._mask(at)
            partial.state[key] = new if mask is None else self.builder.select(mask, new, old)

    def _combined(self, accumulator: Accumulator, update: Update, old: LLVMValue, at: Coordinates) -> LLVMValue:
        value = update.value
        if (update.fused and accumulator.op.name == "add" and isinstance(value, Apply)
                and value.op.name == "multiply" and value.dtype.is_float):
            x, y = (self._value(v, at) for v in value.operands)
            new = self.builder.fma(x, y, old)
        else:
            new = accumulator.op.emit(self.builder, old, self._value(value, at))
        return self.builder.splat(new, old.lanes)

    # Loops

    def _for(self, loop: For) -> None:
        extent = self.text.size(loop.extent)
        updated = self._updated(loop.body)
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
        step = how.lanes * how.copies
        if step == 1:
            self._unrolled(loop, 0, extent, updated)
        elif how.lanes == 1 and not updated:
            self._covering(loop, extent)
        else:
            start = self.text.loop(0, extent, step, states, lambda i: self._step(loop, (i, 0), how.copies))
            if how.copies > 1:
                start = self.text.loop(start, extent, how.lanes, states, lambda i: self._step(loop, (i, 0), 1))
            if how.lanes > 1:
                rest = self.text.integer("sub", extent, start)
                self.text.branch(self.text.compare("sgt", rest, 0), states,
                                 lambda: self._step(loop, (start, 0), 1, rest))

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
            self.copies[axis] = copies
        if how.lanes > 1:
            self.vector, self.builder.lanes = axis, how.lanes
            if rest is not None and rest != how.lanes:
                self.masks = {copies - 1: self._first_lanes(rest)}
        with self._scope():
            self._prepare_pointers(axis, loop.body)
            self._body(loop.body)
        if how.lanes > 1:
            self.vector, self.builder.lanes, self.masks = None, 1, {}
        self.copies.pop(axis, None)
        self.axes.pop()

    @contextlib.contextmanager
    def _scope(self) -> Iterator[None]:
        """Values written inside are not used after it."""
        self.values.append({})
        with self.builder.scope():
            yield
        self.values.pop()

    def _first_lanes(self, count: int | str) -> LLVMValue:
        lanes = self.builder.lanes
        if isinstance(count, int):
            bits = ", ".join(f"i1 {'true' if n < count else 'false'}" for n in range(lanes))
            return LLVMValue(f"<{bits}>", BOOL, lanes)
        narrow = self.builder.instruction(f"trunc i64 {count} to i32", I32, 1)
        return self.builder.compare("less", self.builder.iota(I32), narrow)

    def _each(self, axis: int, body: Body) -> None:
        """The body in a loop over the copies of an open loop, which has one step of one lane in each."""
        copies = self.copies.pop(axis, 1)
        base, number = self.base[axis]
        updated = self._updated(body)

        def emit(place: str) -> None:
            self.place[axis] = place
            self.base[axis] = (place if base is None else str(self.text.integer("add", base, place)), number)
            self._prepare_pointers(axis, body)
            self._body(body)

        if copies == 1:
            self._body(body)
        else:
            with self._scope():
                self.text.loop(0, copies, 1, _states(updated), emit)
            del self.place[axis]
            self.copies[axis] = copies
            self.base[axis] = (base, number)

    def _prepare_pointers(self, axis: int, body: Body) -> None:
        """Writes what loops inside need of their pointers here, where it does not change."""
        for statement in body:
            if isinstance(statement, (For, Fold, If, Each)):
                for (array, offset), dtype in self._accesses(statement).items():
                    if axis in offset.axes:
                        dynamic = frozenset(a for a, c in offset.terms if not isinstance(c, int))
                        for at in self._coordinates(dynamic):
                            self._address(array, offset, dtype, at)

    def _accesses(self, statement: Statement) -> dict[tuple[str, Affine], DType]:
        if id(statement) not in self.accesses:
            self.accesses[id(statement)] = _accesses(statement)
        return self.accesses[id(statement)]

    def _updated(self, body: Body) -> list[_Partial]:
        """The open accumulators that the body updates."""
        return [p for name, p in self.partial.items() if _loops_to_update(body, name) is not None]

    # Guards

    def _if(self, ranges: tuple[IndexRange, ...], body: Body) -> None:
        uniform, by_lane = self._split(ranges)
        saved, guarded = self.masks, self.guarded
        updated = self._updated(body)

        def emit() -> None:
            if by_lane:
                assert self.vector is not None
                count = self.copies.get(self.vector, 1)
                self.masks = {
                    c: self._conjunction(self._in_lanes(by_lane, {self.vector: c}), saved.get(c))
                    for c in range(count)}
                self.guarded = True
            with self._scope():
                self._body(body)
            self.masks, self.guarded = saved, guarded

        condition = self._holds(uniform, {})
        if condition is True:
            emit()
        elif condition is not False:
            self.text.branch(condition.text, _states(updated), emit)

    def _split(self, ranges: tuple[IndexRange, ...]) -> tuple[tuple[IndexRange, ...], tuple[IndexRange, ...]]:
        """The ranges that are the same for all lanes, and the others."""
        by_lane = tuple(r for r in ranges if self._lane_stride(r.index) != 0)
        return tuple(r for r in ranges if r not in by_lane), by_lane

    def _holds(self, ranges: tuple[IndexRange, ...], at: Coordinates) -> LLVMValue | bool:
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
                    test = self.builder.compare(direction, _i64(index), _i64(limit))
                    result = self._conjunction(test, result)
        return True if result is None else result

    def _conjunction(self, x: LLVMValue, y: LLVMValue | None) -> LLVMValue:
        return x if y is None else self.builder.bitwise_and(x, y)

    def _in_lanes(self, ranges: tuple[IndexRange, ...], at: Coordinates) -> LLVMValue:
        """Which lanes' indices are in all ranges."""
        result: LLVMValue | None = None
        for r in ranges:
            start, stride = _i64(self._index(r.index, at)), self._lane_stride(r.index)
            for direction, bound in (("greater_equal", r.lower), ("less", r.upper)):
                limit = self.text.size(bound)
                if direction == "greater_equal" and limit == 0 and _is_natural(r.index):
                    continue
                if stride == 1:
                    distance = self._clamped(self.builder.subtract(_i64(limit), start))
                    test = self.builder.compare(direction, self.builder.iota(I32), distance)
                else:
                    index = self.builder.add(self._lane_offsets(stride), start)
                    test = self.builder.compare(direction, index, _i64(limit))
                result = self._conjunction(test, result)
        return self.builder.splat(self.builder.constant(True, BOOL)) if result is None else result

    def _clamped(self, distance: LLVMValue) -> LLVMValue:
        """A distance as i32, held within one below 0 and the number of lanes."""
        low, high = self.builder.constant(-1, I64), self.builder.constant(self.builder.lanes, I64)
        return self.builder.convert(self.builder.maximum(low, self.builder.minimum(high, distance)), I32)

    # Indices and addresses

    def _loops(self, axes: Iterable[int]) -> frozenset[int]:
        """The axes with positions replaced by the axes of their loops."""
        return frozenset(self.position_axis.get(a, a) for a in axes)

    def _depends(self, root: Value) -> frozenset[int]:
        """The axes of the loops that a value depends on."""
        known = self.value_depends
        if id(root) in known:
            return known[id(root)]
        for value in walk_values(root):
            axes = frozenset().union(*(known[id(x)] for x in operands_of(value)))
            match value:
                case Load(offset=index) | IndexValue(index=index):
                    axes |= self._loops(index.axes)
                case Choose(ranges):
                    axes |= self._loops(a for r in ranges for a in r.index.axes)
                case Read(name):
                    axes = self.depends[name]
                case _:
                    pass
            known[id(value)] = axes
        return known[id(root)]

    def _find_dependences(self, body: Body) -> None:
        """What every name depends on; a fold does not depend on the loops inside it."""
        for statement in body:
            match statement:
                case Let(name, value):
                    self.depends[name] = self._depends(value)
                case Fold(accumulators, inner):
                    self._find_dependences(inner)
                    inside = {s.index for s in walk_statements(inner) if isinstance(s, For)}
                    for accumulator in accumulators:
                        gathered = self._gathered(inner, accumulator.name)
                        self.depends[accumulator.name] = gathered - inside
                case For(body=inner) | If(body=inner) | Each(body=inner):
                    self._find_dependences(inner)
                case _:
                    pass

    def _gathered(self, body: Body, name: str) -> frozenset[int]:
        """What the updates of an accumulator, and the guards around them, depend on."""
        axes: frozenset[int] = frozenset()
        for statement in body:
            match statement:
                case Update(updated, value) if updated == name:
                    axes |= self._depends(value)
                case If(ranges, inner) if _loops_to_update(inner, name) is not None:
                    axes |= self._gathered(inner, name) | self._loops(a for r in ranges for a in r.index.axes)
                case For(body=inner) | Fold(body=inner) | Each(body=inner):
                    axes |= self._gathered(inner, name)
                case _:
                    pass
        return axes

    def _lane_stride(self, index: Affine) -> Size:
        """How far the index moves from lane to lane."""
        if self.vector is None:
            return 0
        return sum((c for a, c in index.terms if self.position_axis.get(a, a) == self.vector), start=0)

    def _lane_offsets(self, stride: Size) -> LLVMValue:
        return self.builder.multiply(self.builder.iota(I64), _i64(self.text.size(stride)))

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
        positions = {self.position_axis[a]: c for a, c in index.terms if a in self.position_axis}
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

    def _address(self, array: str, offset: Affine, dtype: DType, at: Coordinates) -> tuple[str, int]:
        """A pointer by the loops that are open, and elements to add to it."""
        number, values = self._terms(offset, at)
        pointer = self.arrays[array]
        for value in values:
            pointer = self.text.element(pointer, dtype, value)
        return pointer, number

    def _pointer(self, array: str, offset: Affine, dtype: DType, at: Coordinates) -> str:
        pointer, number = self._address(array, offset, dtype, at)
        return self.text.element(pointer, dtype, number) if number else pointer

    # Values

    def _value(self, root: Value, at: Coordinates, guard: LLVMValue | None = None) -> LLVMValue:
        """The value for one combination of copies; loads happen only in the lanes of `guard`."""
        result: LLVMValue | None = None
        for value in _same_scope(root):
            key = (id(value), self._key(self._depends(value), at), "" if guard is None else guard.text)
            result = next((known[key] for known in reversed(self.values) if key in known), None)
            if result is None:
                result = self.values[-1][key] = self._compute(value, at, guard)
        assert result is not None
        return result

    def _compute(self, value: Value, at: Coordinates, guard: LLVMValue | None) -> LLVMValue:
        match value:
            case Constant(literal):
                return self.builder.constant(literal.value, literal.dtype)
            case Read(name):
                return self.names[name, self._key(self.depends[name], at)]
            case Load():
                return self._load(value, at, guard)
            case IndexValue(index, dtype):
                return self._index_value(index, dtype, at)
            case Apply(op, operands):
                return op.emit(self.builder, *(self._value(x, at, guard) for x in operands))
            case Choose():
                return self._choose(value, at, guard)

    def _load(self, load: Load, at: Coordinates, guard: LLVMValue | None) -> LLVMValue:
        stride = self._lane_stride(load.offset)
        pointer = self._pointer(load.array, load.offset, load.dtype, at)
        if stride == 0 and guard is None:
            return self.builder.load(pointer, load.dtype, lanes=1)
        mask = self._mask(at)
        mask = mask if guard is None else self._conjunction(guard, mask)
        if stride == 1:
            return self.builder.load(pointer, load.dtype, mask=mask)
        return self.builder.gather(pointer, self.builder.splat(self._lane_offsets(stride)), load.dtype, mask=mask)

    def _index_value(self, index: Affine, dtype: DType, at: Coordinates) -> LLVMValue:
        start, stride = _i64(self._index(index, at)), self._lane_stride(index)
        if stride == 0:
            return self.builder.convert(start, dtype)
        if dtype.is_integer:
            step = self.builder.convert(_i64(self.text.size(stride)), dtype)
            lanes = self.builder.multiply(self.builder.iota(dtype), step)
            return self.builder.add(lanes, self.builder.convert(start, dtype))
        return self.builder.convert(self.builder.add(self._lane_offsets(stride), start), dtype)

    def _choose(self, choose: Choose, at: Coordinates, guard: LLVMValue | None) -> LLVMValue:
        uniform, by_lane = self._split(choose.ranges)

        def inside() -> LLVMValue:
            if not by_lane:
                return self._value(choose.inside, at, guard)
            chosen = self._in_lanes(by_lane, at)
            x = self._value(choose.inside, at, self._conjunction(chosen, guard))
            y = self._value(choose.outside, at, self._conjunction(self.builder.bitwise_not(chosen), guard))
            return self.builder.select(chosen, x, y)

        condition = self._holds(uniform, at)
        if condition is True:
            return inside()
        if condition is False:
            return self._value(choose.outside, at, guard)
        wide = guard is not None or self.vector in self._depends(choose)
        lanes = self.builder.lanes if wide else 1

        def side(compute: Callable[[], LLVMValue]) -> Callable[[], LLVMValue]:
            def emit() -> LLVMValue:
                with self._scope():
                    return self.builder.splat(compute(), lanes)
            return emit

        return self.text.either(condition.text, side(inside), side(lambda: self._value(choose.outside, at, guard)))


def _loops_to_update(body: Body, name: str) -> tuple[For, ...] | None:
    """The loops around the update of an accumulator, outermost first; None where there is no update."""
    for statement in body:
        match statement:
            case Update(updated) if updated == name:
                return ()
            case For(body=inner) | Fold(body=inner) | If(body=inner) | Each(body=inner):
                found = _loops_to_update(inner, name)
                if found is not None:
                    return (statement, *found) if isinstance(statement, For) else found
            case _:
                pass
    return None


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


def _i64(value: str | int) -> LLVMValue:
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

"""Launches as LLVM text for the NVPTX back end: one kernel a launch.

Every value is scalar; a thread is a lane. Code at block level runs in all threads of a block alike; there a store is
made by the first thread, and what a loop over the threads wrote to scratch arrays is awaited by a barrier. Barriers
stand at block level only, where control flow is the same in all threads.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from tcp_eqsat.codegen.gpu_schedule import WARP, Launch, Level, domain_of
from tcp_eqsat.codegen.graph import start_value
from tcp_eqsat.codegen.llvm_loops import Integer, LoopText, State
from tcp_eqsat.codegen.llvm_text import LLVMValue, memory_type
from tcp_eqsat.codegen.llvm_values import LLVMBuilder
from tcp_eqsat.codegen.loops import (
    Access,
    Accumulator,
    Apply,
    Array,
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
    Read,
    Statement,
    Store,
    Update,
    Value,
    inner_bodies,
    value_of_statement,
    walk_statements,
    walk_values,
)
from tcp_eqsat.codegen.ptx_legal import check_legal
from tcp_eqsat.codegen.target import PtxTarget
from tcp_eqsat.errors import TargetError
from tcp_eqsat.lang.dims import Size, product
from tcp_eqsat.lang.pointful import Affine, IndexRange
from tcp_eqsat.lang.scalar import ScalarOp
from tcp_eqsat.lang.types import BOOL, I32, I64, U32, U64, DType

_THREAD = "llvm.nvvm.read.ptx.sreg.tid.x"
_BLOCK = "llvm.nvvm.read.ptx.sreg.ctaid.x"
_BARRIER = "llvm.nvvm.barrier0"
_SHUFFLE = "llvm.nvvm.shfl.sync.bfly.i32"


@dataclass(frozen=True)
class KernelCode:
    """A kernel in LLVM text. Its arguments are the addresses of `arrays` and then `sizes` (64 bits), in order.

    `shared_bytes` is the static shared memory of a block.
    """

    symbol: str
    text: str
    arrays: tuple[str, ...]
    sizes: tuple[Size, ...]
    shared_bytes: int


def emit_launch(launch: Launch, symbol: str, target: PtxTarget, declarations: dict[str, str]) -> KernelCode:
    """The kernel `symbol` that runs the launch; `declarations` collects the functions it calls.

    Raises TargetError for an operation that has no form on the target.
    """
    return _Emitter(launch, symbol, target, declarations).kernel()


class _Emitter:
    def __init__(self, launch: Launch, symbol: str, target: PtxTarget, declarations: dict[str, str]) -> None:
        self.launch = launch
        self.symbol = symbol
        self.target = target
        self.builder = LLVMBuilder(target, 1, declarations)
        self.text = LoopText(self.builder, self._scope)
        self.scratch = frozenset(a.name for a in launch.nest.arrays if a.access is Access.SCRATCH)
        self.arrays: dict[str, str] = {}  # pointers by array
        self.shared: dict[str, tuple[str, int]] = {}  # shared memory: LLVM type and bytes, by name
        self.index: dict[int, Integer] = {}  # of the open loops
        self.names: dict[str, LLVMValue] = {}
        self.open: dict[str, tuple[Accumulator, State]] = {}  # open accumulators and their values
        self.values: list[dict[int, LLVMValue]] = [{}]
        self.together = launch.each is Level.BLOCK  # whether all threads of the block run this code alike
        self.choices = {id(v) for s in walk_statements(launch.nest.body) for v in _values_of(s)
                        if isinstance(v, Choose)}

    def kernel(self) -> KernelCode:
        in_memory = [a for a in self.launch.nest.arrays if a.name not in self.launch.shared]
        head = self._locate(in_memory)
        self._domain()
        check_legal(self.builder.lines, self.target, self.symbol, "its loops")
        arguments = [
            f"ptr addrspace(1) noalias {'readonly ' if a.access is Access.READ else ''}%a{n}"
            for n, a in enumerate(in_memory)] + [f"i64 {name}" for name in self.text.sizes.values()]
        self._check_arguments(len(arguments))
        memory = [f"@{name} = internal addrspace(3) global {type_} undef, align 16"
                  for name, (type_, _) in self.shared.items()]
        lines = [
            *memory,
            f'define ptx_kernel void @{self.symbol}({", ".join(arguments)}) nounwind '
            f'"nvvm.reqntid"="{self.launch.threads}" {{',
            "entry:", *head, *self.text.entry, "  br label %start", "start:", *self.builder.lines, "  ret void", "}"]
        return KernelCode(
            self.symbol, "\n".join(lines), tuple(a.name for a in in_memory), tuple(self.text.sizes),
            sum(-(-size // 16) * 16 for _, size in self.shared.values()))

    # Where things are

    def _locate(self, in_memory: list[Array]) -> list[str]:
        """Pointers to all arrays. They are generic; LLVM finds out what kind of memory they point to."""
        head: list[str] = []
        for number, array in enumerate(in_memory):
            self.arrays[array.name] = f"%p{number}"
            head.append(f"  %p{number} = addrspacecast ptr addrspace(1) %a{number} to ptr")
        for array in self.launch.nest.arrays:
            if array.name in self.launch.shared:
                assert isinstance(array.size, int)
                self.arrays[array.name] = self._allocate(array.name, array.dtype, array.size)
            elif array.access is Access.SCRATCH:
                place = self.text.integer("mul", self._special(_BLOCK), self.text.size(array.size))
                self.arrays[array.name] = self.text.element(self.arrays[array.name], array.dtype, place)
        return head

    def _allocate(self, name: str, dtype: DType, size: int) -> str:
        """A pointer to shared memory of `size` elements, the same when it is asked for again."""
        symbol = f"{self.symbol}_{name}"
        self.shared[symbol] = f"[{size} x {memory_type(dtype)}]", size * dtype.bytes
        return f"addrspacecast (ptr addrspace(3) @{symbol} to ptr)"

    def _special(self, register: str) -> str:
        """A special register as i64."""
        self.builder.declare(register, "i32", ())
        value = self.builder.instruction(f"call i32 @{register}()", U32, 1)
        return self.builder.convert(value, I64).text

    def _check_arguments(self, count: int) -> None:
        if 8 * count > self.target.parameter_bytes:
            raise TargetError(
                f"kernel {self.symbol} requires {8 * count} bytes of parameters, {self.target} has "
                f"{self.target.parameter_bytes}")

    # Loops

    def _domain(self) -> None:
        """The iteration of the domain that this thread or block is, and what it does."""
        body = self.launch.nest.body
        number: Integer = self._special(_BLOCK)
        if self.launch.each is Level.BLOCK:
            self._decode(number, self.launch.domain)
            self._body(body)
            return
        count, threads = self.text.size(self.launch.count), self.launch.threads
        number = self.text.integer("add", self.text.integer("mul", number, threads), self._special(_THREAD))

        def inside() -> None:
            self._decode(number, self.launch.domain)
            self._body(body)

        self.text.branch(self.text.compare("slt", number, count), [], inside)

    def _decode(self, number: Integer, loops: tuple[For, ...]) -> None:
        """Sets the loops' indices to the iteration of a number, the last loop running fastest."""
        for loop in reversed(loops[1:]):
            extent = self.text.size(loop.extent)
            self.index[loop.index] = self._divide("urem", number, extent)
            number = self._divide("udiv", number, extent)
        if loops:
            self.index[loops[0].index] = number

    def _divide(self, operation: str, x: Integer, y: Integer) -> Integer:
        return self.builder.instruction(f"{operation} i64 {x}, {y}", I64, 1).text

    def _for(self, loop: For) -> None:
        if loop.index in self.index:
            self._body(loop.body)
        elif self.launch.level(loop) is Level.LANE:
            self._over_threads(loop)
        else:
            self._serial(loop)

    def _serial(self, loop: For) -> None:
        extent = self.text.size(loop.extent)

        def step(index: Integer) -> None:
            with self._scope():
                self.index[loop.index] = index
                self._body(loop.body)
                del self.index[loop.index]
                if self.together and self._writes_scratch(loop):
                    self._barrier()

        if extent == 1:
            step(0)
        elif extent != 0:
            self.text.loop(0, extent, 1, self._updated(loop.body), step)

    def _over_threads(self, first: For) -> None:
        """The loop, with those directly inside that are spread too, one iteration of all of them a thread."""
        chain = [first]
        for loop in domain_of(first.body)[0]:
            if self.launch.level(loop) is not Level.LANE:
                break
            chain.append(loop)
        threads = self.launch.threads
        total = self.text.size(product(loop.extent for loop in chain))
        thread = self._special(_THREAD)

        def step(turn: Integer) -> None:
            with self._scope():
                self.together = False
                self._decode(self.text.integer("add", self.text.integer("mul", turn, threads), thread), tuple(chain))
                self._body(first.body)
                self.together = True
            for loop in chain:
                del self.index[loop.index]

        states = self._updated(first.body)
        if isinstance(total, int):
            turns, rest = divmod(total, threads)
            if turns == 1:
                step(0)
            elif turns:
                self.text.loop(0, turns, 1, states, step)
            if rest:
                self.text.branch(self.text.compare("slt", thread, rest), states, lambda: step(turns))
        else:
            left = self.text.integer("sub", self.text.integer("add", total, threads - 1), thread)
            self.text.loop(0, self._divide("udiv", left, threads), 1, states, step)
        if self._writes_scratch(first):
            self._barrier()

    def _barrier(self) -> None:
        self.builder.declare(_BARRIER, "void", ())
        self.builder.line(f"  call void @{_BARRIER}()")

    def _writes_scratch(self, statement: Statement) -> bool:
        return any(isinstance(s, Store) and s.array in self.scratch for s in walk_statements((statement,)))

    def _updated(self, body: Body) -> list[State]:
        """The open accumulators that the body updates."""
        names = {s.name for s in walk_statements(body) if isinstance(s, Update)}
        return [state for name, (_, state) in self.open.items() if name in names]

    @contextlib.contextmanager
    def _scope(self) -> Iterator[None]:
        """Values written inside are not used after it."""
        self.values.append({})
        with self.builder.scope():
            yield
        self.values.pop()

    # Statements

    def _body(self, body: Body) -> None:
        for statement in body:
            match statement:
                case Let(name, value):
                    self.names[name] = self._value(value)
                case Store():
                    self._store(statement)
                case Update():
                    self._update(statement)
                case Fold(accumulators, inner):
                    self._fold(accumulators, inner)
                case For():
                    self._for(statement)
                case If(ranges, inner):
                    self._if(ranges, inner)
                case Each():
                    raise AssertionError("a serial nest has no copies")

    def _store(self, store: Store) -> None:
        value = self._value(store.value)
        pointer = self._pointer(store.array, store.offset, store.value.dtype)
        if not self.together:
            self.builder.store(value, pointer)
            return
        first = self.text.compare("eq", self._special(_THREAD), 0)
        self.text.branch(first, [], lambda: self.builder.store(value, pointer))
        if store.array in self.scratch:
            self._barrier()

    def _if(self, ranges: tuple[IndexRange, ...], body: Body) -> None:
        condition = self._holds(ranges)
        if condition is True:
            self._body(body)
        elif condition is not False:
            self.text.branch(condition.text, self._updated(body), lambda: self._body(body))

    # Folds

    def _fold(self, accumulators: tuple[Accumulator, ...], body: Body) -> None:
        for accumulator in accumulators:
            start = start_value(accumulator.op, accumulator.dtype)
            self.open[accumulator.name] = accumulator, {"": self.builder.constant(start.value, accumulator.dtype)}
        self._body(body)
        for accumulator in accumulators:
            total = self.open.pop(accumulator.name)[1][""]
            if self.together and self._is_spread(body, accumulator.name):
                total = self._across_block(accumulator, total)
            self.names[accumulator.name] = total

    def _update(self, update: Update) -> None:
        accumulator, state = self.open[update.name]
        value = update.value
        if update.fused and isinstance(value, Apply) and value.op.name == "multiply" and value.dtype.is_float:
            x, y = map(self._value, value.operands)
            state[""] = self.builder.fma(x, y, state[""])
        else:
            state[""] = accumulator.op.emit(self.builder, state[""], self._value(value))

    def _is_spread(self, body: Body, name: str) -> bool:
        """Whether the accumulator is updated in a loop over the threads, so that each has a part of the result."""
        for statement in body:
            if isinstance(statement, For) and self.launch.level(statement) is Level.LANE:
                if any(isinstance(s, Update) and s.name == name for s in walk_statements(statement.body)):
                    return True
            elif any(self._is_spread(inner, name) for inner in inner_bodies(statement)):
                return True
        return False

    def _across_block(self, accumulator: Accumulator, value: LLVMValue) -> LLVMValue:
        """What all threads gathered, in every thread: within warps by exchange, then through shared memory."""
        distance = WARP // 2
        while distance:
            value = accumulator.op.emit(self.builder, value, self._exchanged(value, distance))
            distance //= 2
        warps = self.launch.threads // WARP
        if warps == 1:
            return value
        place = self._allocate(f"fold_{accumulator.dtype}", accumulator.dtype, warps)
        thread = self._special(_THREAD)
        warp, lane = self._divide("udiv", thread, WARP), self._divide("urem", thread, WARP)
        self.text.branch(self.text.compare("eq", lane, 0), [], lambda: self.builder.store(
            value, self.text.element(place, accumulator.dtype, warp)))
        self._barrier()
        parts = [self.builder.load(self.text.element(place, accumulator.dtype, n), accumulator.dtype, 1)
                 for n in range(warps)]
        self._barrier()
        total = parts[0]
        for part in parts[1:]:
            total = accumulator.op.emit(self.builder, total, part)
        return total

    def _exchanged(self, value: LLVMValue, distance: int) -> LLVMValue:
        """The value of the thread whose number in the warp differs in the bit `distance`."""
        b = self.builder
        if value.dtype is BOOL or value.dtype.bits < 32:
            return b.convert(self._exchanged(b.convert(value, I32), distance), value.dtype)
        if value.dtype.bits == 64:
            bits, half = b.bitcast(value, U64), b.constant(32, U64)
            low = b.convert(self._exchanged(b.convert(bits, U32), distance), U64)
            high = b.convert(self._exchanged(b.convert(b.shift_right(bits, half), U32), distance), U64)
            return b.bitcast(b.bitwise_or(low, b.shift_left(high, half)), value.dtype)
        bits = b.bitcast(value, I32)
        b.declare(_SHUFFLE, "i32", ("i32",) * 4)
        text = f"call i32 @{_SHUFFLE}(i32 -1, {bits}, i32 {distance}, i32 {WARP - 1})"
        return b.bitcast(b.instruction(text, I32, 1, pure=False), value.dtype)

    # Indices and values

    def _index(self, index: Affine) -> Integer:
        total: Integer = 0
        for axis, coefficient in index.terms:
            term = self.text.integer("mul", self.index[axis], self.text.size(coefficient))
            total = term if total == 0 else self.text.integer("add", total, term)
        return self.text.integer("add", total, self.text.size(index.offset))

    def _pointer(self, array: str, offset: Affine, dtype: DType) -> str:
        return self.text.element(self.arrays[array], dtype, self._index(offset))

    def _value(self, root: Value) -> LLVMValue:
        """The value; what stands inside choices is computed where it is chosen."""
        for value in walk_values(root, stop=self.choices):
            if self._known(value) is None:
                self.values[-1][id(value)] = self._compute(value)
        found = self._known(root)
        assert found is not None
        return found

    def _known(self, value: Value) -> LLVMValue | None:
        return next((known[id(value)] for known in reversed(self.values) if id(value) in known), None)

    def _compute(self, value: Value) -> LLVMValue:
        match value:
            case Constant(literal):
                return self.builder.constant(literal.value, literal.dtype)
            case Read(name):
                return self.names[name]
            case Load(array, offset, dtype):
                return self.builder.load(self._pointer(array, offset, dtype), dtype, lanes=1)
            case IndexValue(index, dtype):
                return self.builder.convert(_i64(self._index(index)), dtype)
            case Apply(op, operands):
                return self._apply(op, tuple(map(self._value, operands)))
            case Choose():
                return self._choose(value)

    def _apply(self, op: ScalarOp, operands: tuple[LLVMValue, ...]) -> LLVMValue:
        """The operation, after which everything that it wrote is known to be legal."""
        first, declared = len(self.builder.lines), len(self.builder.declarations)
        result = op.emit(self.builder, *operands)
        functions = itertools.islice(self.builder.declarations.values(), declared, None)
        check_legal((*self.builder.lines[first:], *functions), self.target, self.symbol, op.name)
        return result

    def _choose(self, choose: Choose) -> LLVMValue:
        condition = self._holds(choose.ranges)
        if isinstance(condition, bool):
            return self._value(choose.inside if condition else choose.outside)

        return self.text.either(
            condition.text, lambda: self._value(choose.inside), lambda: self._value(choose.outside))

    def _holds(self, ranges: tuple[IndexRange, ...]) -> LLVMValue | bool:
        """Whether all indices are in their ranges; True or False where that is known here."""
        result: LLVMValue | None = None
        for r in ranges:
            index = self._index(r.index)
            for direction, bound in (("greater_equal", r.lower), ("less", r.upper)):
                limit = self.text.size(bound)
                if isinstance(index, int) and isinstance(limit, int):
                    if not (index >= limit if direction == "greater_equal" else index < limit):
                        return False
                    continue
                test = self.builder.compare(direction, _i64(index), _i64(limit))
                result = test if result is None else self.builder.bitwise_and(result, test)
        return True if result is None else result


def _values_of(statement: Statement) -> Iterator[Value]:
    root = value_of_statement(statement)
    return iter(()) if root is None else walk_values(root)


def _i64(value: Integer) -> LLVMValue:
    return LLVMValue(str(value), I64, 1, value if isinstance(value, int) else None)

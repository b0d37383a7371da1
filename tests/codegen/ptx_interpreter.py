"""Runs PTX in NumPy: all threads of a launch in lockstep, the ones furthest behind first.

It knows the scalar instructions that the kernels here consist of, and refuses others. While it runs, it requires what
lockstep would hide:

    every access is inside a buffer or a shared array, aligned, and reads only what was written
    no two threads touch the same byte, one of them writing, without a barrier of their block in between
    all threads of a block come to the same barrier, all threads of a warp to the same exchange, where they wait
"""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

WARP = 32
GAP = 256
TYPES = {
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "s8": np.int8, "s16": np.int16,
    "s32": np.int32, "s64": np.int64, "b8": np.uint8, "b16": np.uint16, "b32": np.uint32, "b64": np.uint64,
    "f32": np.float32, "f64": np.float64, "pred": np.bool_}
BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
WIDER = {
    np.uint16: np.uint32, np.int16: np.int32, np.uint32: np.uint64, np.int32: np.int64, np.float32: np.float64,
    np.float64: np.longdouble}


class PtxFault(Exception):
    """The kernel did what no kernel may do."""


@dataclass(frozen=True)
class Instruction:
    guard: str | None
    negated: bool
    words: tuple[str, ...]
    operands: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class Entry:
    """A kernel: parameters as (name, bytes), shared arrays by (offset, bytes), registers' types by prefix.

    `tables` are the constants of its module.
    """

    name: str
    parameters: tuple[tuple[str, int], ...]
    shared: dict[str, tuple[int, int]]
    registers: dict[str, str]
    instructions: tuple[Instruction, ...]
    labels: dict[str, int]
    threads: int
    tables: dict[str, np.ndarray]

    @property
    def shared_bytes(self) -> int:
        return max((offset + size for offset, size in self.shared.values()), default=0)


def parse(ptx: str) -> dict[str, Entry]:
    """The kernels of a module, by name."""
    text = re.sub(r"//[^\n]*", "", ptx)
    pattern = re.compile(r"\.visible \.entry (\w+)\((.*?)\)(.*?)\{(.*?)\n\}", re.S)
    tables = {
        m[2]: np.array([int(x) for x in m[3].split(",")], TYPES[m[1]])
        for m in re.finditer(r"\.global \.align \d+ \.(\w+) ([\w$]+)\[\d+\] = \{(.*?)\}", text)}
    functions = {
        m[1]: re.sub(r"\.reg [^\n]*;\n", "\n", m[2])
        for m in re.finditer(r"\.func\s+\(\.param \.\w+ func_retval0\) ([\w$]+)\([^)]*\)\s*\{(.*?)\n\}", text, re.S)}
    declared = re.findall(r"\.reg \.\w+\s+%\w+<\d+>;", text)
    return {m[1]: _entry(m[1], m[2], m[3], "\n".join([*declared, _inlined(m[4], functions)]), tables)
            for m in pattern.finditer(text)}


_CALL = re.compile(r"\{\s*\.param.*?call\.uni \(retval0\), ([\w$]+), \([^)]*\);(.*?)\n\s*\}", re.S)
_REGISTERS = {"b16": "rs", "b32": "r", "b64": "rd"}


def _inlined(body: str, functions: dict[str, str], numbers: Iterator[int] | None = None) -> str:
    """The body with the functions it calls in place of the calls, under registers and labels of their own."""
    numbers = itertools.count() if numbers is None else numbers

    def expand(call: re.Match[str]) -> str:
        number = next(numbers)

        def move_in(found: re.Match[str]) -> str:
            return f"mov.{found[1]} %{_REGISTERS[found[1]]}{number}_in{found[2]}, {found[3]};"

        def taken(found: re.Match[str]) -> str:
            return f"mov.{found[1]} {found[2]}, %{_REGISTERS[found[1]]}{number}_in{found[3]};"

        def given(found: re.Match[str]) -> str:
            return f"mov.{found[1]} %{_REGISTERS[found[1]]}{number}_out, {found[2]};"

        def move_out(found: re.Match[str]) -> str:
            return f"mov.{found[1]} {found[2]}, %{_REGISTERS[found[1]]}{number}_out;"

        inner = re.sub(r"%([a-z]+)(\d\w*)\b", rf"%\g<1>{number}_\2", _inlined(functions[call[1]], functions, numbers))
        inner = re.sub(r"\$L__(\w+)", rf"$L__\1_{number}", inner)
        name = re.escape(call[1])
        inner = re.sub(rf"ld\.param\.(\w+)\s+(%\w+), \[{name}_param_(\d+)\];", taken, inner)
        inner = re.sub(r"st\.param\.(\w+)\s+\[func_retval0\], ([^;]+);", given, inner)
        inner = re.sub(r"\bret;", f"bra $L__END{number};", inner)
        operands = re.findall(r"st\.param\.\w+\s+\[param\d+\], [^;]+;", call[0])
        moved = [re.sub(r"st\.param\.(\w+)\s+\[param(\d+)\], ([^;]+);", move_in, line) for line in operands]
        after = re.sub(r"ld\.param\.(\w+)\s+(%\w+), \[retval0\];", move_out, call[2])
        return "\n".join([*moved, inner, f"$L__END{number}:", after])

    return _CALL.sub(expand, body)


def _entry(name: str, parameters: str, attributes: str, body: str, tables: dict[str, np.ndarray]) -> Entry:
    found = re.findall(r"\.param \.([usbf]\d+).*?(\w+)\s*(?:,|$)", parameters, re.S)
    shared: dict[str, tuple[int, int]] = {}
    top = 0
    for size, symbol in ((int(m[2]), m[1]) for m in re.finditer(r"\.shared \.align \d+ \.b8 (\w+)\[(\d+)\]", body)):
        shared[symbol] = top, size
        top = -(-(top + size) // 16) * 16
    registers = {m[2]: m[1] for m in re.finditer(r"\.reg \.(\w+)\s+%(\w+)<\d+>", body)}
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    for line in body.split("\n"):
        text = line.strip().rstrip(";")
        if text.endswith(":"):
            labels[text[:-1]] = len(instructions)
        elif text and not text.startswith("."):
            instructions.append(_instruction(text))
    threads = re.search(r"\.reqntid (\d+)", attributes)
    assert threads is not None
    return Entry(name, tuple((n, np.dtype(TYPES[t]).itemsize) for t, n in found), shared, registers,
                 tuple(instructions), labels, int(threads[1]), tables)


_HIGH_HALF = re.compile(r"\{ \.reg \.b(?:16|32) tmp; mov\.b(32|64) \{tmp, (%\w+)\}, (%\w+); \}")


def _instruction(text: str) -> Instruction:
    high = _HIGH_HALF.fullmatch(text)
    if high is not None:
        half = str(int(high[1]) // 2)
        return Instruction(None, False, ("bfe", f"u{high[1]}"), (high[2], high[3], half, half), text)
    m = re.fullmatch(r"(?:@(!?)(%p\w+)\s+)?([\w.:]+)\s*(.*)", text)
    if m is None:
        raise PtxFault(f"not understood: {text}")
    operands = re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+", m[4])
    return Instruction(m[2], m[1] == "!", tuple(m[3].split(".")), tuple(operands), text)


class Memory:
    """Bytes with, for each, whether it holds a value and who accessed it last: a thread and its block's epoch."""

    def __init__(self, size: int) -> None:
        size = -(-size // 16) * 16
        self.bytes = np.zeros(size, np.uint8)
        self.inside = np.zeros(size, bool)
        self.defined = np.zeros(size, bool)
        self.who = {kind: np.full(size, -1) for kind in ("write", "read")}
        self.when = {kind: np.full(size, -1) for kind in ("write", "read")}

    def check(self, kind: str, places: np.ndarray, width: int, threads: np.ndarray, epochs: np.ndarray, block: int,
              text: str) -> None:
        """`places` and `threads` go together; `block` is the number of threads in one."""
        if places.size == 0:
            return
        if (places % width).any():
            raise PtxFault(f"misaligned access: {text}")
        for byte in range(width):
            at = places + byte
            if (at >= self.bytes.size).any() or not self.inside[at].all():
                raise PtxFault(f"access outside of memory: {text}")
            if kind == "read" and not self.defined[at].all():
                raise PtxFault(f"read of what nothing wrote: {text}")
            for other in ("write", "read") if kind == "write" else ("write",):
                who, when = self.who[other][at], self.when[other][at]
                near = (who // block != threads // block) | (when == epochs)
                if ((who >= 0) & (who != threads) & near).any():
                    raise PtxFault(f"race with another thread's {other}: {text}")
            if kind == "write":
                if np.unique(at).size != at.size:
                    raise PtxFault(f"threads write the same place at once: {text}")
                self.defined[at] = True
            self.who[kind][at], self.when[kind][at] = threads, epochs


class Machine:
    """Global memory, and launches on it."""

    def __init__(self, size: int = 1 << 20) -> None:
        self.memory = Memory(size)
        self.top = GAP
        self.tables: dict[str, int] = {}

    def allocate(self, count: int, initial: np.ndarray | None = None) -> int:
        """The address of `count` bytes, which hold `initial` or nothing."""
        address = self.top
        self.top = -(-(address + count) // GAP) * GAP + GAP
        if self.top > self.memory.bytes.size:
            raise PtxFault("out of memory")
        self.memory.inside[address:address + count] = True
        if initial is not None:
            self.memory.bytes[address:address + count] = np.frombuffer(initial.tobytes(), np.uint8)
            self.memory.defined[address:address + count] = True
        return address

    def read(self, address: int, count: int) -> bytes:
        if not self.memory.defined[address:address + count].all():
            raise PtxFault("a result was not written")
        return self.memory.bytes[address:address + count].tobytes()

    def launch(self, entry: Entry, blocks: int, threads: int, arguments: Sequence[int]) -> None:
        if threads != entry.threads or len(arguments) != len(entry.parameters):
            raise PtxFault(f"{entry.name} is launched with other threads or arguments than it has")
        if blocks:
            for name, table in entry.tables.items():
                if name not in self.tables:
                    self.tables[name] = self.allocate(table.nbytes, table)
            for kind in ("write", "read"):
                self.memory.who[kind][:] = -1
            with np.errstate(all="ignore"):
                _Launch(self, entry, blocks, threads, arguments).run()


class _Launch:
    def __init__(self, machine: Machine, entry: Entry, blocks: int, threads: int, arguments: Sequence[int]) -> None:
        self.entry = entry
        self.memory = machine.memory
        self.threads = threads
        self.count = blocks * threads
        self.number = np.arange(self.count)
        self.epoch = np.zeros(blocks, np.int64)
        self.shared_stride = max(16, -(-entry.shared_bytes // 16) * 16)
        self.shared = Memory(blocks * self.shared_stride)
        for block in range(blocks):
            for offset, size in entry.shared.values():
                start = block * self.shared_stride + offset
                self.shared.inside[start:start + size] = True
        self.arguments = np.array(arguments, np.int64).view(np.uint64)
        self.symbols = {
            **{name: offset for name, (offset, _) in entry.shared.items()}, **machine.tables,
            **{name: 8 * number for number, (name, _) in enumerate(entry.parameters)}}
        self.special = {
            "%tid.x": (self.number % threads).astype(np.uint32), "%ctaid.x": (self.number // threads).astype(np.uint32)}
        self.registers: dict[str, np.ndarray] = {}
        self.at = np.arange(0)  # the threads that run

    def run(self) -> None:
        pc = np.zeros(self.count, np.int64)
        waiting, exchanging, done = (np.zeros(self.count, bool) for _ in range(3))
        while not done.all():
            ready = ~(waiting | exchanging | done)
            if not ready.any():
                if exchanging.any():
                    raise PtxFault("threads of a warp are not at the same exchange")
                self._release(pc, waiting, done)
                continue
            place = int(pc[ready].min())
            self.at = np.flatnonzero(ready & (pc == place))
            instruction = self.entry.instructions[place]
            if instruction.guard is not None:
                holds = self._register(instruction.guard) != instruction.negated
                pc[self.at[~holds]] = place + 1
                self.at = self.at[holds]
            operation = instruction.words[0]
            if operation == "shfl":
                exchanging[self.at] = True
                together = (exchanging & (pc == place)).reshape(-1, WARP).all(1)
                self.at = np.flatnonzero(np.repeat(together, WARP))
                exchanging[self.at] = False
            pc[self.at] = place + 1
            if operation == "bra":
                pc[self.at] = self.entry.labels[instruction.operands[0]]
            elif operation == "ret":
                done[self.at] = True
            elif operation == "bar":
                waiting[self.at] = True
            elif self.at.size:
                self._execute(instruction)

    def _release(self, pc: np.ndarray, waiting: np.ndarray, done: np.ndarray) -> None:
        """All threads wait: each block must be at one barrier, with all its threads."""
        for block in range(len(self.epoch)):
            own = slice(block * self.threads, (block + 1) * self.threads)
            if waiting[own].any() and (done[own].any() or np.unique(pc[own]).size != 1):
                raise PtxFault("threads of a block are not at the same barrier")
        self.epoch[np.unique(self.number[waiting] // self.threads)] += 1
        waiting[:] = False

    # Operands

    def _register(self, name: str) -> np.ndarray:
        return self.registers[name][self.at]

    def _type_of(self, register: str) -> type:
        prefix = re.match(r"%([a-z]+)", register)
        assert prefix is not None
        declared = TYPES[self.entry.registers[prefix[1]]]
        return declared if declared is np.bool_ else BITS[np.dtype(declared).itemsize]

    def _value(self, operand: str, dtype: type) -> np.ndarray:
        """The operand as `dtype`, for the threads that run; wider registers are cut."""
        width = np.dtype(dtype).itemsize
        if operand.startswith("%"):
            raw = self.special[operand][self.at] if operand in self.special else self._register(operand)
            if dtype is np.bool_:
                return raw
            return raw.astype(BITS[width]).view(dtype)
        if operand[:2] in ("0f", "0d"):
            bits = np.array(int(operand[2:], 16), np.uint32 if operand[1] == "f" else np.uint64)
        elif operand in self.symbols:
            bits = np.array(self.symbols[operand], np.uint64)
        else:
            bits = np.array(int(operand, 0) % (1 << 8 * width), BITS[width])
        return np.broadcast_to(bits.astype(BITS[width]).view(dtype), self.at.shape)

    def _write(self, register: str, value: np.ndarray) -> None:
        """Sets a register; narrower values are extended by their own sign."""
        dtype = self._type_of(register)
        if dtype is not np.bool_:
            value = np.asarray(value)
            width = np.dtype(dtype).itemsize
            if value.dtype.itemsize != width:
                value = value.astype(np.int64 if value.dtype.kind == "i" else np.uint64)
                value = value.astype(dtype) if value.dtype.itemsize != width else value
            value = np.ascontiguousarray(value).view(dtype)
        if register not in self.registers:
            self.registers[register] = np.zeros(self.count, dtype)
        self.registers[register][self.at] = value

    # Instructions

    def _execute(self, i: Instruction) -> None:
        operation = i.words[0]
        if operation in ("ld", "st"):
            self._access(i)
        elif operation == "shfl":
            self._exchange(i)
        elif operation == "cvt":
            self._write(i.operands[0], _convert(
                self._value(i.operands[1], TYPES[i.words[-1]]), TYPES[i.words[-2]], i.words[1:-2]))
        elif operation == "setp":
            x, y = (self._value(x, TYPES[i.words[-1]]) for x in i.operands[1:])
            self._write(i.operands[0], _compare(i.words[1], x, y))
        elif operation == "selp":
            dtype = TYPES[i.words[-1]]
            x, y = (self._value(x, dtype) for x in i.operands[1:3])
            self._write(i.operands[0], np.where(self._value(i.operands[3], np.bool_), x, y))
        elif operation in ("shl", "shr"):
            x, by = self._value(i.operands[1], TYPES[i.words[-1]]), self._value(i.operands[2], np.uint32)
            self._write(i.operands[0], _shift(operation, x, by))
        elif operation == "mov" and i.text.count("{"):
            self._pack(i)
        elif operation == "shf":
            low, high = (self._value(x, np.uint32).astype(np.uint64) for x in i.operands[1:3])
            by = self._value(i.operands[3], np.uint32).astype(np.uint64) & np.uint64(31)
            both = low | (high << np.uint64(32))
            both = both >> by if i.words[1] == "r" else both >> (np.uint64(32) - by)
            self._write(i.operands[0], both.astype(np.uint32))
        elif operation == "bfe":
            x = self._value(i.operands[1], TYPES[i.words[-1]])
            start, length = (int(x, 0) for x in i.operands[2:])
            self._write(i.operands[0], (x >> x.dtype.type(start)) & x.dtype.type((1 << length) - 1))
        elif operation in _ARITHMETIC:
            operands = [self._value(x, TYPES[i.words[-1]]) for x in i.operands[1:]]
            self._write(i.operands[0], _arithmetic(i, operands, self._value))
        else:
            raise PtxFault(f"not understood: {i.text}")

    def _access(self, i: Instruction) -> None:
        space, dtype = i.words[1], TYPES[i.words[-1]]
        address, values = (i.operands[1], i.operands[0]) if i.words[0] == "ld" else i.operands
        names = re.findall(r"[^\s{},]+", values)
        found = re.fullmatch(r"\[(%?[\w$]+)(?:\+?(-?\d+))?\]", address)
        if found is None:
            raise PtxFault(f"not understood: {i.text}")
        base, offset = found.groups()
        if space == "param":
            place = self._value(base, np.uint64).astype(np.int64) + int(offset or 0)
            raw = self.arguments[place // 8] >> (8 * (place % 8)).astype(np.uint64)
            self._write(names[0], raw.astype(BITS[np.dtype(dtype).itemsize]))
            return
        memory = self.memory if space == "global" else self.shared
        places = self._value(base, np.uint64).astype(np.int64) + int(offset or 0)
        if space == "shared":
            places = places + self.at // self.threads * self.shared_stride
        elif space != "global":
            raise PtxFault(f"not understood: {i.text}")
        width = np.dtype(dtype).itemsize
        kind = "read" if i.words[0] == "ld" else "write"
        epochs = self.epoch[self.at // self.threads]
        for number, name in enumerate(names):
            at = places + number * width
            memory.check(kind, at, width, self.at, epochs, self.threads, i.text)
            view = memory.bytes.view(dtype)
            if kind == "read":
                self._write(name, view[at // width])
            else:
                view[at // width] = self._value(name, dtype)

    def _pack(self, i: Instruction) -> None:
        """Two halves to one register, or one register to two halves."""
        target, source = i.operands
        wide = TYPES[i.words[1]]
        half = BITS[np.dtype(wide).itemsize // 2]
        shift = wide(4 * np.dtype(wide).itemsize)
        if source.startswith("{"):
            low, high = (self._value(x, half).astype(wide) for x in re.findall(r"[^\s{},]+", source))
            self._write(target, low | (high << shift))
            return
        value = self._value(source, wide)
        for name, part in zip(re.findall(r"[^\s{},]+", target), (value, value >> shift), strict=True):
            if name != "_":
                self._write(name, part.astype(half))

    def _exchange(self, i: Instruction) -> None:
        if i.words[1:3] != ("sync", "bfly") or i.operands[3:] != ("31", "-1"):
            raise PtxFault(f"not understood: {i.text}")
        value = self._value(i.operands[1], np.uint32).reshape(-1, WARP)
        partner = np.arange(WARP) ^ int(i.operands[2])
        self._write(i.operands[0].split("|")[0], value[:, partner].reshape(-1))


def _fma(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Exact product, and a sum that is rounded twice at worst."""
    wide = WIDER[x.dtype.type]
    return (x.astype(wide) * y.astype(wide) + z.astype(wide)).astype(x.dtype)


def _divide(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if x.dtype.kind == "f":
        return x / y
    safe = np.where(y == 0, y.dtype.type(1), y)
    quotient = np.abs(x.astype(object)) // np.abs(safe.astype(object))
    return np.where((x < 0) != (safe < 0), -quotient, quotient).astype(x.dtype) if x.size else x


def _high(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    bits = 8 * x.dtype.itemsize
    return ((x.astype(object) * y.astype(object)) >> bits).astype(x.dtype)


def _bits(x: np.ndarray) -> np.ndarray:
    """The bits of x along a new first axis, the highest first."""
    places = np.arange(8 * x.dtype.itemsize)[::-1].astype(x.dtype)
    return (x >> places[:, None]) & x.dtype.type(1)


_ARITHMETIC: dict[str, Callable[..., np.ndarray]] = {
    "mov": lambda x: x, "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": _divide,
    "rem": lambda x, y: x - _divide(x, y) * y, "fma": _fma, "mad": lambda x, y, z: x * y + z,
    "min": np.minimum, "max": np.maximum, "and": operator.and_, "or": operator.or_, "xor": operator.xor,
    "not": operator.invert, "neg": operator.neg, "abs": np.abs, "copysign": lambda sign, x: np.copysign(x, sign),
    "popc": lambda x: _bits(x).sum(0, np.uint32), "clz": lambda x: (np.cumsum(_bits(x), 0) == 0).sum(0, np.uint32),
    "sqrt": np.sqrt, "rcp": lambda x: x.dtype.type(1) / x,
}


def _arithmetic(i: Instruction, operands: list[np.ndarray], value: Callable[[str, type], np.ndarray]) -> np.ndarray:
    operation, options = i.words[0], i.words[1:-1]
    if any(word in ("approx", "ftz", "sat", "full") for word in options):
        raise PtxFault(f"not IEEE: {i.text}")
    if operation in ("add", "sub", "mul") and operands[0].dtype.kind == "f" and "rn" not in options:
        raise PtxFault(f"may be fused: {i.text}")
    if "hi" in options:
        return _high(*operands)
    if "wide" in options:
        wide = WIDER[operands[0].dtype.type]
        product = operands[0].astype(wide) * operands[1].astype(wide)
        return product if operation == "mul" else product + value(i.operands[3], wide)
    if operands[0].dtype == np.bool_ and operation == "mov":
        return operands[0]
    return _ARITHMETIC[operation](*operands)


def _compare(direction: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    unordered = (x != x) | (y != y)
    if direction in ("num", "nan"):
        return unordered if direction == "nan" else ~unordered
    either = len(direction) == 3 and direction.endswith("u")
    name = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}.get(direction, direction[:2])
    result = getattr(operator, name)(x, y)
    return (result | unordered) if either else (result & ~unordered)


def _shift(operation: str, x: np.ndarray, by: np.ndarray) -> np.ndarray:
    bits = 8 * x.dtype.itemsize
    within = np.minimum(by, bits - 1).astype(x.dtype)
    if operation == "shl":
        return np.where(by < bits, x << within, x.dtype.type(0))
    return np.where((by < bits) | (x.dtype.kind == "i"), x >> within, x.dtype.type(0))


_ROUND = {"rzi": np.trunc, "rni": np.rint, "rmi": np.floor, "rpi": np.ceil}


def _convert(x: np.ndarray, dtype: type, options: tuple[str, ...]) -> np.ndarray:
    if any(word not in ("rn", "rz", *_ROUND) for word in options):
        raise PtxFault(f"not understood: cvt {options}")
    for word in options:
        if word in _ROUND:
            x = _ROUND[word](x)
    if x.dtype.kind == "f" and np.dtype(dtype).kind in "iu":
        info = np.iinfo(dtype)
        inside = (x >= float(info.min)) & (x <= float(info.max)) & (x.astype(np.longdouble) <= info.max)
        number = np.where(inside, x, 0).astype(dtype)
        number = np.where(x > 0, np.where(inside, number, info.max), np.where(inside, number, info.min))
        return np.where(np.isnan(x), 0, number).astype(dtype)
    return x.astype(dtype)

"""Values in LLVM text, the lines of a function body, and lanes.

Values with one lane are uniform: an operation that meets a uniform operand and one with several lanes spreads the
uniform one. Constants are uniform. Equal pure instructions are written once per scope.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tcp_eqsat.errors import TypeMismatch
from tcp_eqsat.lang.scalar import encode_number
from tcp_eqsat.lang.types import BOOL, F32, F64, U8, DType


class ValueTarget(Protocol):
    """What the builder asks of a target: which operations are one instruction."""

    @property
    def has_fma(self) -> bool: ...
    @property
    def has_round(self) -> bool: ...
    @property
    def has_scale(self) -> bool: ...
    @property
    def has_half(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class LLVMValue:
    """An operand in LLVM text: `lanes` elements of `dtype`. `literal` is the number if it is a constant.

    A bool is an i1 per lane (an i8 in memory), a float of less than 32 bits the integer of its bits, an integer of
    less than 8 bits an i8 that holds its bits and zeros.
    """

    text: str
    dtype: DType
    lanes: int
    literal: float | int | bool | None = None

    @property
    def type_text(self) -> str:
        return llvm_type(self.dtype, self.lanes)

    def __str__(self) -> str:
        return f"{self.type_text} {self.text}"


_ELEMENT = {BOOL.name: "i1", F32.name: "float", F64.name: "double"}


def element_type(dtype: DType) -> str:
    """LLVM's name of one lane of `dtype`."""
    return _ELEMENT.get(dtype.name) or f"i{8 * dtype.bytes}"


def memory_type(dtype: DType) -> str:
    """LLVM's name of one element of `dtype` in memory (bool takes a byte)."""
    return element_type(U8 if dtype is BOOL else dtype)


def llvm_type(dtype: DType, lanes: int) -> str:
    element = element_type(dtype)
    return element if lanes == 1 else f"<{lanes} x {element}>"


def format_constant(value: float | int | bool, dtype: DType) -> str:
    """`value` as LLVM text: floats exactly, rounded to `dtype` once; integers wrapped."""
    if dtype is BOOL:
        return "true" if value else "false"
    if dtype.is_float and dtype.bits < 32:
        return str(_wrap(int.from_bytes(encode_number(value, dtype), "little"), 8 * dtype.bytes))
    if dtype.bits < 8:
        return str(int(value) & ((1 << dtype.bits) - 1))
    if dtype.is_float:
        with np.errstate(over="ignore"):
            rounded = float(np.float32(value)) if dtype is F32 else float(value)
        if rounded != rounded:
            rounded = float("nan")
        return f"0x{struct.unpack('<Q', struct.pack('<d', rounded))[0]:016X}"
    return str(_wrap(int(value), dtype.bits))


def _wrap(value: int, bits: int) -> int:
    """`value` modulo 2**bits, in the signed range, as LLVM prints it."""
    half = 1 << (bits - 1)
    return (value + half) % (1 << bits) - half


class LLVMText:
    """Writes the lines of one function body.

    `lanes` is the width of what `iota`, `load`, `gather` and `splat` give by default. `declarations` maps the
    intrinsics used so far to their declarations; builders of one module may share it.
    """

    def __init__(self, target: ValueTarget, lanes: int, declarations: dict[str, str] | None = None) -> None:
        self.target = target
        self.lanes = lanes
        self.lines: list[str] = []
        self.declarations = {} if declarations is None else declarations
        self._numbering: list[dict[tuple[str, DType], LLVMValue]] = [{}]
        self._wide: dict[str, LLVMValue] = {}  # the f32 of narrow floats that were rounded from it, by their text
        self._next = 0
        self._block: str | None = None  # the block being written, where branches are allowed

    # text

    def line(self, text: str) -> None:
        """Appends one line as it is: a label, a branch, a phi."""
        self.lines.append(text)

    def fresh(self, stem: str = "v") -> str:
        """A local name (with its %) that nothing else in this body has."""
        self._next += 1
        return f"%{stem}{self._next}"

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Values written inside are not reused after it: for code that does not dominate what follows."""
        self._numbering.append({})
        try:
            yield
        finally:
            self._numbering.pop()

    def instruction(self, text: str, dtype: DType, lanes: int, pure: bool = True) -> LLVMValue:
        """The result of `text` (all that follows the `=`); a pure one that was written before is reused."""
        key = text, dtype
        if pure:
            for numbered in reversed(self._numbering):
                if key in numbered:
                    return numbered[key]
        value = LLVMValue(self.fresh(), dtype, lanes)
        self.lines.append(f"  {value.text} = {text}")
        if pure:
            self._numbering[-1][key] = value
        return value

    def declare(self, name: str, result: str, operands: tuple[str, ...]) -> None:
        """Notes that the body calls the function `name`."""
        self.declarations[name] = f"declare {result} @{name}({', '.join(operands)})"

    def intrinsic(
        self, name: str, *operands: LLVMValue, dtype: DType | None = None, also: tuple[str, ...] = ()
    ) -> LLVMValue:
        """A call of `llvm.NAME` overloaded on its first operand's type; `also` are further typed operands."""
        first, *rest = self._level(*operands)
        result = dtype or first.dtype
        overload = self.mangled(first)
        full = f"llvm.{name}.{overload}"
        result_type = llvm_type(result, first.lanes)
        arguments = [str(first), *map(str, rest), *also]
        self.declare(
            full,
            result_type,
            (first.type_text, *(other.type_text for other in rest), *(o.split()[0] for o in also)),
        )
        return self.instruction(f"call {result_type} @{full}({', '.join(arguments)})", result, first.lanes)

    @staticmethod
    def mangled(value: LLVMValue) -> str:
        """The suffix that names a value's type in an overloaded intrinsic."""
        dtype = value.dtype
        bits = 1 if dtype is BOOL else 8 * dtype.bytes
        element = f"{'f' if dtype.is_float and bits >= 32 else 'i'}{bits}"
        return element if value.lanes == 1 else f"v{value.lanes}{element}"

    # constants and lanes

    def constant(self, value: float | int | bool, dtype: DType) -> LLVMValue:
        if dtype.is_integer:
            value = _wrap(int(value), dtype.bits)
            value += 0 if dtype.is_signed or value >= 0 else 1 << dtype.bits
        elif dtype.is_float and dtype.bits < 32:
            value = float(value)
        return LLVMValue(format_constant(value, dtype), dtype, 1, value)

    def splat(self, value: LLVMValue, lanes: int | None = None) -> LLVMValue:
        """A uniform value in every lane; a value that has `lanes` lanes already is returned as it is."""
        lanes = self.lanes if lanes is None else lanes
        if value.lanes == lanes:
            return value
        if value.lanes != 1:
            raise TypeMismatch(f"only a uniform value can be spread, got {value.lanes} lanes")
        if value.literal is not None:
            return LLVMValue(f"splat ({value})", value.dtype, lanes, value.literal)
        vector = llvm_type(value.dtype, lanes)
        single = self.instruction(f"insertelement {vector} poison, {value}, i64 0", value.dtype, lanes)
        return self.instruction(
            f"shufflevector {single}, {vector} poison, <{lanes} x i32> zeroinitializer",
            value.dtype,
            lanes,
        )

    def extract(self, value: LLVMValue, index: int) -> LLVMValue:
        """One lane as a uniform value."""
        if value.lanes == 1:
            return value
        return self.instruction(f"extractelement {value}, i64 {index}", value.dtype, 1)

    def iota(self, dtype: DType) -> LLVMValue:
        """0, 1, ..., lanes - 1."""
        if self.lanes == 1:
            return self.constant(0, dtype)
        items = (f"{element_type(dtype)} {format_constant(i, dtype)}" for i in range(self.lanes))
        return LLVMValue(f"<{', '.join(items)}>", dtype, self.lanes)

    def reduce(self, combine: Callable[..., LLVMValue], value: LLVMValue) -> LLVMValue:
        """All lanes combined, halves first, by `combine(builder, x, y)`. The number of lanes is a power of two."""
        while value.lanes > 1:
            half = value.lanes // 2
            value = combine(self, self._part(value, 0, half), self._part(value, half, half))
        return value

    def _part(self, value: LLVMValue, start: int, count: int) -> LLVMValue:
        if count == 1:
            return self.extract(value, start)
        return self.shuffle(value, LLVMValue("poison", value.dtype, value.lanes), range(start, start + count))

    def shuffle(self, x: LLVMValue, y: LLVMValue, chosen: Sequence[int]) -> LLVMValue:
        """The chosen lanes of x and y, which have equally many; those of y are counted after those of x."""
        places = ", ".join(f"i32 {place}" for place in chosen)
        return self.instruction(
            f"shufflevector {x}, {y}, <{len(chosen)} x i32> <{places}>", x.dtype, len(chosen))

    def _level(self, *values: LLVMValue) -> tuple[LLVMValue, ...]:
        """The values spread to the most lanes among them."""
        lanes = max(value.lanes for value in values)
        return tuple(self.splat(value, lanes) for value in values)

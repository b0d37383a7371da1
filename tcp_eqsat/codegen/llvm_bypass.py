"""Stores around the caches in LLVM text: when they pay, and how far it is to the first aligned vector.

A store into memory that is not in cache fetches the line first, and later lines of use to others make way for it. A
store around the caches writes whole lines to memory and nothing else, so results that are too large to stay in cache
take a third less traffic in a sum of two arrays. Such stores need vectors aligned to their size, and a fence after the
last one, since other cores may else see them late.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tcp_eqsat.codegen.llvm_values import LLVMBuilder
from tcp_eqsat.codegen.loops import For, Nest, Store, walk_statements
from tcp_eqsat.lang.dims import Size
from tcp_eqsat.lang.types import BOOL, I64


@dataclass(frozen=True, slots=True)
class Place:
    """Where a loop's first store of a kind goes: `width` bytes in a vector, `bytes` in an element."""

    pointer: str
    width: int
    bytes: int


def bypassed_bytes(nest: Nest) -> Size:
    """The size of the arrays that loops of the nest fill around the caches."""
    loops = [s for s in walk_statements(nest.body) if isinstance(s, For) and s.how.bypass]
    names = {s.array for loop in loops for s in loop.body if isinstance(s, Store)}
    return sum((a.size * a.dtype.bytes for a in nest.arrays if a.name in names), start=0)


def until_aligned(builder: LLVMBuilder, places: Sequence[Place]) -> tuple[str, str]:
    """How many elements come before an aligned vector of the first place (an i64), and whether every place is aligned
    after as many (an i1)."""
    def integer(text: str) -> str:
        return builder.instruction(text, I64, 1).text

    addresses = [integer(f"ptrtoint ptr {place.pointer} to i64") for place in places]
    first = places[0]
    distance = integer(f"and i64 {integer(f'sub i64 0, {addresses[0]}')}, {first.width - 1}")
    ahead = integer(f"lshr i64 {distance}, {first.bytes.bit_length() - 1}")
    wrong = "0"
    for place, address in zip(places, addresses, strict=True):
        start = integer(f"add i64 {address}, {integer(f'mul i64 {ahead}, {place.bytes}')}")
        wrong = integer(f"or i64 {integer(f'and i64 {start}, {place.width - 1}')}, {wrong}")
    return ahead, builder.instruction(f"icmp eq i64 {wrong}, 0", BOOL, 1).text


def fence(builder: LLVMBuilder) -> None:
    """Stores before it are seen by other cores before those after it."""
    builder.declare("llvm.x86.sse.sfence", "void", ())
    builder.line("  call void @llvm.x86.sse.sfence()")

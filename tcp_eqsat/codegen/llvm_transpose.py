"""Square blocks of elements transposed in registers.

Every step takes pairs of vectors and interleaves their halves in a way that is one instruction: elements within 16
bytes, then pieces of 16 bytes. Seen as bits of a place (which vector, which lane), a step moves one bit of the vector's
number into the lane's and one back, until they have changed places.
"""

from __future__ import annotations

from collections.abc import Sequence

from tcp_eqsat.codegen.llvm_text import LLVMText, LLVMValue

PIECE = 16
"""Bytes within which elements are interleaved."""


def transpose(builder: LLVMText, rows: Sequence[LLVMValue]) -> list[LLVMValue]:
    """As many vectors as each has lanes, a power of two: lane i of vector j becomes lane j of vector i."""
    lanes = rows[0].lanes
    within = min(lanes, PIECE // rows[0].dtype.bytes)
    found = list(rows)
    bit = within // 2
    while bit:
        low = [index for start in range(0, lanes, within) for n in range(within // 2)
               for index in (start + n, lanes + start + n)]
        _step(builder, found, bit, low, [index + within // 2 for index in low])
        bit //= 2
    bit = within
    while bit < lanes:
        pieces = [index for start in range(0, 2 * lanes, 2 * within) for index in range(start, start + within)]
        _step(builder, found, bit, pieces, [index + within for index in pieces])
        bit *= 2
    return found


def _step(builder: LLVMText, rows: list[LLVMValue], bit: int, low: list[int], high: list[int]) -> None:
    """Replaces vectors whose numbers differ in one bit by the elements `low` and `high` of both."""
    for number in range(len(rows)):
        if not number & bit:
            x, y = rows[number], rows[number | bit]
            rows[number], rows[number | bit] = (builder.shuffle(x, y, chosen) for chosen in (low, high))

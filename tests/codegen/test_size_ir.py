"""Sizes in LLVM text have the values that they have in Python, or the code leaves."""

from __future__ import annotations

import ctypes
import itertools

import pytest

from tcp_eqsat.codegen.jit import compile_module
from tcp_eqsat.codegen.size_ir import INTRINSICS, CheckedText, SizeText
from tcp_eqsat.codegen.target import host_target
from tcp_eqsat.lang.dims import INT64_MAX, Size, maximum, minimum, symbol, symbols_of, value

LEFT = -(2**63)
"""What the compiled function gives where it leaves for the exit."""

b, s = symbol("b"), symbol("s", 1, 64)
h = symbol("h", 0, 4096, 8)
wide = symbol("w", 0, 2**62)
signed = symbol("m", -50, 50)

SIZES: list[Size] = [
    7,
    b,
    2 * b + 1,
    b - 3,
    b * s - 5 * b + s,
    b * b * s,
    h // 8,
    (h // 8) * s + h // 16,
    (b + 3) // 4,
    (b - 3) // 4,
    signed // 7,
    (5 - signed * b) // s,
    b % 8,
    (b - 9) % s,
    minimum(b, s, 10),
    maximum(b - 4, s) + minimum(b, h) * 2,
    maximum(2 * b, s + 1) // 3,
    wide * wide,
    wide * 8 + wide,
    b // wide,
]


def compiled(size: Size) -> ctypes._CFuncPtr:
    """A function of an array of the values of the symbols."""
    text = CheckedText(exit="leave")
    text.label("entry")
    sizes = SizeText(text)
    for number, each in enumerate(symbols_of(size)):
        sizes.bind(each, text.load("i64", "%sizes", 8 * number))
    text.line(f"ret i64 {sizes.value(size)}")
    text.label("leave")
    text.line(f"ret i64 {LEFT}")
    body = "\n".join(text.lines)
    module = compile_module(f"define i64 @size(ptr %sizes) {{\n{body}\n}}\n{INTRINSICS}", host_target())
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.POINTER(ctypes.c_int64))(module.address("size"))
    function.module = module  # type: ignore[attr-defined]
    return function


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_equals_the_value_in_python(size: Size) -> None:
    function = compiled(size)
    symbols = symbols_of(size)
    samples = [
        sorted(n for n in {e.interval[0], 0, 1, 3, 8, 16, 40, 2**31 - 1, 2**40, e.interval[1]} if e.admits(n))
        for e in symbols
    ]
    exits = 0
    for values in itertools.product(*samples):
        found = function((ctypes.c_int64 * len(values))(*values))
        bindings = {e.name: n for e, n in zip(symbols, values, strict=True)}
        try:
            expected = value(size, bindings)
        except Exception:  # a division by 0
            expected = LEFT
        exits += found == LEFT
        assert found == (expected if abs(expected) <= INT64_MAX else LEFT), bindings
    assert (exits > 0) == (size in (b * b * s, wide * wide, wide * 8 + wide, b // wide))


def test_ranges_that_rule_overflow_out_cost_nothing() -> None:
    text = CheckedText(exit="leave")
    sizes = SizeText(text)
    for each in symbols_of(b, s):
        sizes.bind(each, f"%{each.name}")
    sizes.value(b * s * 16 + b)
    assert not any("overflow" in line for line in text.lines)


def test_equal_parts_are_written_once() -> None:
    text = CheckedText(exit="leave")
    sizes = SizeText(text)
    for each in symbols_of(b, s):
        sizes.bind(each, f"%{each.name}")
    first = sizes.value((b + 3) // 4)
    count = len(text.lines)
    assert sizes.value((b + 3) // 4) == first and len(text.lines) == count

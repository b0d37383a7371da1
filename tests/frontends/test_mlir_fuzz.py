"""Hostile text: whatever is done to a program, it is read or refused with a place, and nothing else happens."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcp_eqsat.errors import TcpError
from tcp_eqsat.frontends.diagnostics import render
from tcp_eqsat.frontends.mlir import parse

PROGRAM = """func @f(%x: tensor<?x3xf32>) -> tensor<?x2xf32> attributes {a.b, c = {d = "e", f = [1 : i32, -2.5]}} {
  %0 = xla_hlo.constant dense<0xFF800000> : tensor<f32>
  %1 = xla_hlo.constant dense<[[1.0, 2.0], [3.0, -4.0e+1], [5.0, 6.0]]> : tensor<3x2xf32>
  %2 = flow.variable.load @bias : tensor<2xf32>
  %3 = "xla_hlo.dot"(%x, %1) : (tensor<?x3xf32>, tensor<3x2xf32>) -> tensor<?x2xf32>
  %4 = "xla_hlo.add"(%3, %2) {broadcast_dimensions = dense<1> : tensor<1xi64>} : (tensor<?x2xf32>, tensor<2xf32>) -> \
tensor<?x2xf32>
  %5 = "xla_hlo.broadcast"(%0) {broadcast_sizes = dense<[-1, 2]> : tensor<2xi64>} : (tensor<f32>) -> tensor<?x2xf32>
  %6 = xla_hlo.max %4, %5 : tensor<?x2xf32>
  %7 = "xla_hlo.reduce"(%6, %0) ( {
  ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):	// no predecessors
    %9 = xla_hlo.max %arg1, %arg2 : tensor<f32>
    "xla_hlo.return"(%9) : (tensor<f32>) -> ()
  }) {dimensions = dense<1> : tensor<1xi64>} : (tensor<?x2xf32>, tensor<f32>) -> tensor<?xf32>
  %10 = "xla_hlo.pad"(%6, %0) {edge_padding_low = dense<[0, 1]> : tensor<2xi64>, edge_padding_high = dense<[0, -1]> : \
tensor<2xi64>} : (tensor<?x2xf32>, tensor<f32>) -> tensor<?x2xf32>
  %11 = "xla_hlo.slice"(%10) {start_indices = dense<0> : tensor<2xi64>, limit_indices = dense<[1, 2]> : tensor<2xi64>} \
: (tensor<?x2xf32>) -> tensor<1x2xf32>
  %12 = "xla_hlo.reshape"(%6) : (tensor<?x2xf32>) -> tensor<?xf32>
  %13 = "xla_hlo.concatenate"(%10, %6) {dimension = 0 : i64} : (tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x2xf32>
  %14 = shape.get_ranked_shape %6 : tensor<?x2xf32> -> !shape.ranked_shape<?x2xindex>
  %15 = shape.ranked_broadcast_in_dim %2, %14 {broadcast_dimensions = dense<1> : tensor<1xi64>} : tensor<2xf32> -> \
tensor<?x2xf32>
  %16 = xla_hlo.sub %6, %15 : tensor<?x2xf32>
  return %16 : tensor<?x2xf32>
}
"""
PIECES = ["<", ">", "(", ")", "{", "}", '"', "%x", "%3", "-1", "0", "?", "x", "->", ":", ",", "dense<", "tensor<", "@a",
          "^bb", "#", "!", "loc(", "9" * 30, "0x", "1.5e", "\\", "\x00", "é", "\n", "//", "=", "[", "]", "i1", "i64",
          "xla_hlo.", "module {", "func @g() { return }", "return"]


def check(text: str) -> None:
    try:
        parse(text, "fuzz")
    except TcpError as error:
        assert error.where is not None and error.message
        assert 1 <= error.where.line <= text.count("\n") + 1 and error.where.column >= 1
        assert render(error, text).startswith("error: ")


def test_the_program_itself_is_read():
    assert str(parse(PROGRAM).main) == "f(x: f32[b, 3], bias: f32[2]) -> f32[b, 2]"


def test_every_cut():
    for cut in range(0, len(PROGRAM), 3):
        check(PROGRAM[:cut])


def test_every_line_dropped_or_doubled():
    lines = PROGRAM.split("\n")
    for n in range(len(lines)):
        check("\n".join(lines[:n] + lines[n + 1 :]))
        check("\n".join(lines[: n + 1] + lines[n:]))


def mutated(text: str, rng: random.Random) -> str:
    kind = rng.randrange(6)
    place = rng.randrange(len(text) + 1)
    if kind == 0:
        return text[:place] + rng.choice(PIECES) + text[place:]
    if kind == 1:
        return text[:place] + text[place + rng.randrange(1, 12) :]
    if kind == 2:
        return text[:place] + chr(rng.randrange(256)) + text[place + 1 :]
    if kind == 3:
        numbers = list(re.finditer(r"\d+", text))
        number = rng.choice(numbers)
        new = rng.choice(["0", "1", "7", "4294967296", "9" * 19, "9" * 40, "-3", "?"])
        return text[: number.start()] + new + text[number.end() :]
    if kind == 4:
        words = list(re.finditer(r"[%@\w.?<>]+", text))
        left, right = rng.choice(words), rng.choice(words)
        return text[: left.start()] + right[0] + text[left.end() :]
    other = rng.randrange(len(text) + 1)
    return text[:place] + text[min(place, other) : max(place, other)] + text[place:]


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 4))
def test_mutations(seed, times):
    rng = random.Random(seed)
    text = PROGRAM
    for _ in range(times):
        text = mutated(text, rng)
    check(text)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=30).map(" ".join))
def test_token_soup(text):
    check(text)
    check("func @f(%x: tensor<?x3xf32>) -> tensor<?x3xf32> {\n  %0 = " + text + "\n  return %x : tensor<?x3xf32>\n}")


@pytest.mark.parametrize("text", [
    "(" * 100_000, "tensor<" * 50_000, '"' * 50_001, "// " * 50_000, " " * 100_000, "dense<" * 50_000, "{a = " * 20_000,
    "%0" + ":" * 50_000, "-" * 50_000, "loc(" * 20_000, 'dense<"' * 20_000, "<" * 100_000, "#a = " * 20_000,
])
def test_long_repetitions_take_linear_time(text):
    check(text)

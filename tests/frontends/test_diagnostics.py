"""Errors as people read them."""

from __future__ import annotations

from tcp_eqsat.errors import Location, ParseError, ShapeMismatch, TcpError
from tcp_eqsat.frontends.diagnostics import render
from tcp_eqsat.frontends.mlir import parse

PROGRAM = """func @f(%arg0: tensor<?x16xf32>) -> tensor<?x16xf32> {
  %5 = xla_hlo.constant dense<0.0> : tensor<10x16xf32>
  %6 = "xla_hlo.dot"(%arg0, %5) : (tensor<?x16xf32>, tensor<10x16xf32>) -> tensor<?x16xf32>
  return %6 : tensor<?x16xf32>
}"""


def refusal(text: str) -> TcpError:
    try:
        parse(text, "mlp.mlir")
    except TcpError as error:
        return error
    raise AssertionError("not refused")


def test_the_whole_picture():
    assert render(refusal(PROGRAM), PROGRAM) == """\
error: dot_general requires equal contracted extents, got 16 (lhs axis 1) and 10 (rhs axis 0)
  --> mlp.mlir:3:8
   3 |   %6 = "xla_hlo.dot"(%arg0, %5) : (tensor<?x16xf32>, tensor<10x16xf32>) -> tensor<?x16xf32>
     |        ^^^^^^^^^^^^^
  %arg0 is defined at mlp.mlir:1:9 with type f32[b, 16]
  %5 is defined at mlp.mlir:2:3 with type f32[10, 16]"""


def test_without_text_or_place():
    error = ShapeMismatch("sizes differ\nx has 3", Location("a", 2, 4))
    assert render(error) == "error: sizes differ\n  --> a:2:4\n  x has 3"
    assert render(ParseError("bad")) == "error: bad"
    assert render(error, "one line") == "error: sizes differ\n  --> a:2:4\n  x has 3"


def test_tabs_keep_the_carets_in_their_column():
    picture = render(ParseError("bad", Location("a", 1, 3, 2)), "\t\tab").split("\n")
    assert picture[2] == "   1 | \t\tab" and picture[3] == "     | \t\t^^"


def test_a_long_line_is_cut_around_the_fault():
    text = "x" * 5000 + "FAULT" + "y" * 5000
    lines = render(ParseError("bad", Location("a", 1, 5001, 5)), text).split("\n")
    assert len(lines[2]) < 200 and lines[2].count("...") == 2
    caret = lines[3].index("^")
    assert lines[2][caret : caret + 5] == "FAULT" and lines[3].count("^") == 5


def test_a_fault_at_the_end_of_the_text():
    error = refusal("func @f(")
    lines = render(error, "func @f(").split("\n")
    assert lines[1] == "  --> mlp.mlir:1:9" and lines[3].endswith("         ^")

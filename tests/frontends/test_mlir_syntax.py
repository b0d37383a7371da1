"""The syntax of MLIR text: trees, literals, and where errors are placed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tcp_eqsat.errors import ParseError, TcpError, TypeMismatch, UnknownName
from tcp_eqsat.frontends.mlir.cursor import MAX_DEPTH
from tcp_eqsat.frontends.mlir.forms import FORMS
from tcp_eqsat.frontends.mlir.lexer import Source, tokenize
from tcp_eqsat.frontends.mlir.literals import decode, integers
from tcp_eqsat.frontends.mlir.parser import Parser
from tcp_eqsat.frontends.mlir.tree import (
    UNIT,
    ComplexType,
    Dense,
    ElementType,
    FunctionType,
    Number,
    OpaqueAttribute,
    OpaqueType,
    QuantizedType,
    Symbol,
    SyntaxOp,
    TensorText,
)

F32, I64 = ElementType("f32"), ElementType("i64")


def syntax(text: str) -> tuple[SyntaxOp, ...]:
    return Parser(Source(text, "t.mlir"), FORMS).module()


def attribute(text: str):
    (op,) = syntax('"a.b"() {x = ' + text + "} : () -> ()")
    return op.attributes["x"]


def array(literal: str) -> np.ndarray:
    """The decoded constant, a splat in full."""
    source = Source(f'"a.b"() {{x = {literal}}} : () -> ()', "t.mlir")
    dense = Parser(source, FORMS).module()[0].attributes["x"]
    assert isinstance(dense, Dense)
    return np.broadcast_to(decode(dense, source), dense.type.shape)


def test_tokens_cover_the_text_and_comments_are_skipped():
    tokens, starts = tokenize('%a = "x.y"(%b) // tail "\n  : (tensor<?x16xf32>) -> i1  // end\n\n')
    assert tokens == ["%a", "=", '"x.y"', "(", "%b", ")", ":", "(", "tensor<?x16xf32>", ")", "->", "i1", ""]
    assert starts[:3] == [0, 3, 5]


def test_generic_operation():
    (op,) = syntax('%a, %b:2 = "x.y"(%c, %d#1) <{p = 1}> {q} : (f32, i64) -> (f32, f32, tensor<4x?xi64>)')
    assert op.name == "x.y"
    assert [x.name for x in op.results] == ["%a", "%b#0", "%b#1"]
    assert [x.name for x in op.operands] == ["%c", "%d#1"]
    assert op.operand_types == (F32, I64)
    assert op.result_types == (F32, F32, TensorText((4, None), I64))
    assert op.attributes["q"] is UNIT and op.attributes["p"] == Number("1", None, op.attributes["p"].offset)


def test_pretty_operations():
    plain, mixed, load, constant = syntax("""
      %1 = xla_hlo.mul %2, %3 : tensor<2xf32>
      %4 = shape.ranked_broadcast_in_dim %5, %6 { k = 1 : i32 } : tensor<5xf32> -> tensor<?x5xf32>
      %7 = flow.variable.load @h2_bias : tensor<16xf32>
      %8 = xla_hlo.constant dense<0xFF800000> : tensor<f32>""")
    two = TensorText((2,), F32)
    assert (plain.operand_types, plain.result_types) == ((two, two), (two,))
    assert mixed.operand_types == (TensorText((5,), F32),) and len(mixed.operands) == 2
    assert load.attributes["variable"].name == "h2_bias"
    assert constant.result_types == (TensorText((), F32),)


def test_regions_blocks_and_functions():
    (op,) = syntax("""module @m attributes {a.b} {
      func.func private @f(%x: f32 {k = 1} loc("a":1:2), %y: i64) -> (f32 {r}, i64) attributes {z = "q"} {
        %r = "a.r"(%x) ( {
          ^bb0(%u: f32, %v: f32):  // no predecessors
            "a.ret"(%u) : (f32) -> ()
        }, { }) : (f32) -> f32 loc(fused<"p">["a", #loc1])
        return %r, %y : f32, i64
      }
      func @external(f32)
    }""")
    function, external = op.regions[0].blocks[0].operations
    assert op.attributes["sym_name"].name == "m"
    assert function.attributes["sym_name"].name == "f"
    assert function.attributes["function_type"] == FunctionType((F32, I64), (F32, I64))
    assert function.attributes["z"] == "q" and function.attributes["sym_visibility"] == "private"
    (body,) = function.regions[0].blocks
    assert [x.name.name for x in body.arguments] == ["%x", "%y"]
    reduce, ret = body.operations
    first, second = reduce.regions
    assert first.blocks[0].label == "^bb0" and len(first.blocks[0].arguments) == 2
    assert second.blocks[0].operations == ()
    assert ret.operand_types == (F32, I64) and external.regions == ()


@pytest.mark.parametrize(("text", "expected"), [
    ("true", True),
    ("unit", UNIT),
    ('"a\\"b\\n\\41"', 'a"b\nA'),
    ("[]", ()),
    ("{a = true, \"b c\" = [false]}", {"a": True, "b c": (False,)}),
    ("tensor<*xf32>", None),
    ("tensor<2x?xf32>", TensorText((2, None), F32)),
    ("tensor<2xf32, #enc<a, b>>", TensorText((2,), F32, "#enc<a, b>")),
    ("tensor<2xcomplex<f32>>", TensorText((2,), ComplexType(F32))),
    ("(f32) -> i64", FunctionType((F32,), (I64,))),
    ("!shape.ranked_shape<?x5xindex>", OpaqueType("shape.ranked_shape", "?x5xindex")),
    ("!quant.uniform<i8:f32, 0.1:-30>", QuantizedType(
        ElementType("i8"), (-128, 127), F32, None, (0.1,), (-30,), "!quant.uniform<i8:f32, 0.1:-30>")),
])
def test_attributes(text, expected):
    if expected is None:
        with pytest.raises(ParseError):
            attribute(text)
    else:
        assert attribute(text) == expected


def test_attributes_with_places():
    assert isinstance(attribute("@a::@\"b c\""), Symbol) and attribute("@a::@\"b c\"").path == ("a", "b c")
    assert isinstance(attribute("affine_map<(d0) -> (d0)>"), OpaqueAttribute)
    assert isinstance(attribute("#stablehlo.dot<lhs = [0], rhs = [1]>"), OpaqueAttribute)
    number = attribute("-1.5e3 : f32")
    assert number.text == "-1.5e3" and number.type == F32


def test_aliases():
    (op,) = syntax('#m = dense<1> : tensor<2xi64>\n!t = tensor<4xf32>\n%0 = "a.b"() {m = #m} : () -> !t')
    assert op.result_types == (TensorText((4,), F32),) and op.attributes["m"].text == "1"


@pytest.mark.parametrize(("literal", "expected"), [
    ("dense<0xFF800000> : tensor<f32>", np.float32(-math.inf)),
    ("dense<0x7FF0000000000000> : tensor<f64>", np.float64(math.inf)),
    ("dense<[1, -2]> : tensor<2xi64>", np.array([1, -2])),
    ("dense<[[1.5, 2.0], [-3.25e+1, 0x7F800000]]> : tensor<2x2xf32>",
     np.array([[1.5, 2], [-32.5, math.inf]], np.float32)),
    ("dense<7> : tensor<2x3xi8>", np.full((2, 3), 7, np.int8)),
    ("dense<255> : tensor<i8>", np.int8(-1)),
    ("dense<[0xFF, 1]> : tensor<2xui8>", np.array([255, 1], np.uint8)),
    ("dense<[true, false]> : tensor<2xi1>", np.array([True, False])),
    ("dense<> : tensor<0x4xf32>", np.zeros((0, 4), np.float32)),
    ("dense<[]> : tensor<0xf32>", np.zeros(0, np.float32)),
    ('dense<"0x0000803F000000C0"> : tensor<2xf32>', np.array([1, -2], np.float32)),
    ('dense<"0x0000803F"> : tensor<3xf32>', np.ones(3, np.float32)),
    ("dense<-0.0> : tensor<f32>", np.float32(-0.0)),
    ("dense<[18446744073709551615, 0]> : tensor<2xui64>", np.array([2**64 - 1, 0], np.uint64)),
])
def test_dense(literal, expected):
    found = array(literal)
    expected = np.asarray(expected)
    assert found.dtype == expected.dtype and found.shape == expected.shape
    assert found.tobytes() == expected.tobytes()


def test_hex_nan_keeps_its_meaning():
    assert np.isnan(array("dense<0x7FC00000> : tensor<f32>"))


def test_a_huge_splat_takes_no_memory():
    source = Source('"a.b"() {x = dense<1.0> : tensor<1000000x1000000xf32>} : () -> ()', "t")
    assert decode(syntax(source.text)[0].attributes["x"], source).shape == ()


@pytest.mark.parametrize("text", [
    "dense<[0, 1]> : tensor<2xi64>", "array<i64: 0, 1>", "[0, 1]", "[0 : i64, 1 : i64]",
])
def test_integer_vectors(text):
    source = Source('"a.b"() {x = ' + text + "} : () -> ()", "t")
    assert integers(syntax(source.text)[0].attributes["x"], source, 0) == (0, 1)


@pytest.mark.parametrize(("text", "kind", "place", "message"), [
    ("", None, None, None),
    ("%0 =", ParseError, (1, 5), "expected an operation, got the end of the text"),
    ("%0 = foo.bar %1 : f32", UnknownName, (1, 6), "unknown dialect 'foo'"),
    ("%0 = bar", UnknownName, (1, 6), "no form without quotes"),
    ('%0, %1 = "a.b"() : () -> f32', ParseError, (1, 1), "has 1 result, 2 are named"),
    ('%0 = "a.b"(%1, %2) : (f32) -> f32', ParseError, (1, 31), "has 2 operands, its type states 1"),
    ('%0 = "a.b"(1) : (f32) -> f32', ParseError, (1, 12), "expected an operand (%name), got '1'"),
    ('%0 = "a.b"() : () -> foo', ParseError, (1, 22), "unknown type 'foo'"),
    ('%0 = "a.b"() : () -> tensor<4xfoo>', ParseError, (1, 22), "unknown type 'foo'"),
    ('%0 = "a.b"() : () -> tensor<99999999999999999999xf32>', ParseError, (1, 22), "over the largest"),
    ('\n\n  "a.b', ParseError, (3, 3), "expected an operation, got a string without an end"),
    ('"a.b"() {x = dense<[1, 2} : () -> ()', ParseError, (1, 14), "expected '>' to close 'dense<'"),
    ('"a.b"() : () -> tensor<4xf32', ParseError, (1, 17), "expected '>' to close 'tensor<'"),
    ('"a.b"() {x = 1, x = 2} : () -> ()', ParseError, (1, 17), "'x' is given twice"),
    ('"a.b"() {x = #y} : () -> ()', ParseError, (1, 14), "defined before"),
    ('"a.b"() {x = "\\q"} : () -> ()', ParseError, (1, 15), "unknown escape"),
    ('"a.b"() ({ "a.c"() : () -> ()', ParseError, (1, 30), "expected '}' to close the region"),
    ("func @f(%a: f32, b) {", ParseError, (1, 18), "expected an argument (%name), got 'b'"),
    ("%0:9999999 = ", ParseError, (1, 4), "expected the number of results"),
    ('"a.b"(\u00e9) : () -> ()', ParseError, (1, 7), "expected an operand"),
    ('"a.b"()[^bb1] : () -> ()', ParseError, (1, 8), "successor"),
])
def test_errors_have_their_place(text, kind, place, message):
    if kind is None:
        assert syntax(text) == ()
        return
    with pytest.raises(kind) as caught:
        syntax(text)
    where = caught.value.where
    assert (where.file, where.line, where.column) == ("t.mlir", *place)
    assert message in caught.value.message


@pytest.mark.parametrize(("literal", "kind", "message"), [
    ("dense<[1, 2]> : tensor<3xi64>", ParseError, "requires 3 elements in nested lists, got 2"),
    ("dense<[[1, 2]]> : tensor<2xi64>", ParseError, "got lists of other lengths"),
    ("dense<[1, q]> : tensor<2xi64>", ParseError, "unexpected 'q'"),
    ("dense<1.5> : tensor<i64>", ParseError, "1.5 is not a value of i64"),
    ("dense<256> : tensor<i8>", ParseError, "256 is not a value of i8"),
    ("dense<-1> : tensor<ui8>", ParseError, "-1 is not a value of ui8"),
    ("dense<2> : tensor<i1>", ParseError, "2 is not a value of i1"),
    ("dense<1.0e999> : tensor<f64>", ParseError, "not a value of f64"),
    ("dense<[1.0e39, 1.0]> : tensor<2xf32>", ParseError, "not a value of f32"),
    ("dense<[true, 1.0]> : tensor<2xf32>", ParseError, "true is not a value of f32"),
    ("dense<0x1FF800000> : tensor<f32>", ParseError, "not a value of f32"),
    ("dense<-0x1> : tensor<f32>", ParseError, "not a value of f32"),
    ("dense<> : tensor<2xf32>", ParseError, "requires 2 elements"),
    ('dense<"0x00"> : tensor<2xf32>', ParseError, "requires 16 hexadecimal digits, got 2"),
    ('dense<"0x0"> : tensor<2xf32>', ParseError, "expected numbers or hexadecimal bytes"),
    ("dense<[]> : tensor<9000000000000000000x9000000000000000000x0xf32>", ParseError, "too large"),
    ("dense<1> : tensor<!foo.bar>", TypeMismatch, "foo.bar is not supported"),
    (f"dense<{'9' * 5000}> : tensor<i64>", ParseError, "is not a value of i64"),
])
def test_bad_literals(literal, kind, message):
    with pytest.raises(kind) as caught:
        array(literal)
    assert message in caught.value.message
    assert caught.value.where.line == 1 and caught.value.where.column >= 14


@pytest.mark.parametrize("text", [
    '"a.b"() ( {' * 5000,
    '"a.b"() {x = ' + "[" * 5000,
    '"a.b"() {x = ' + "{a = " * 5000,
    '"a.b"() : ' + "(" * 5000,
    '"a.b"() {x = ' + "tuple<" * 5000,
    '"a.b"() {x = dense<' + "[" * 5000 + ">",
    "module {" * 5000,
    '"a.b"() : () -> () loc' + "(" * 5000,
])
def test_deep_nesting_is_refused(text):
    with pytest.raises(ParseError):
        syntax(text)


def test_depth_within_the_limit_is_read():
    depth = MAX_DEPTH - 4
    (op,) = syntax('"a.b"() {x = ' + "[" * depth + "]" * depth + "} : () -> ()")
    assert isinstance(op.attributes["x"], tuple)


def test_every_error_is_a_tcp_error_with_a_place_at_any_cut():
    text = (
        '%0 = "a.b"(%1) ({ ^bb0(%x: f32): "r"() : () -> () }) '
        "{k = dense<[1]> : tensor<1xi64>, l = @s} : (f32) -> f32"
    )
    for cut in range(len(text)):
        try:
            syntax(text[:cut])
        except TcpError as error:
            assert error.where is not None


@pytest.mark.parametrize("text", [
    'x = dense<"0x00FF">\n', '// dense<"0x00">\n  a dense<"0x01"> b // dense<"0x02">',
    '"dense<\\"0x00\\">" dense<"0x00"',
    'dense<"0x00>', 'dense<"0x00"> dense<"0x01">', '  \n\n', 'xdense<"0x00">', "",
])
def test_hexadecimal_constants_are_tokens_like_others(text):
    tokens, starts = tokenize(text)
    assert tokens[-1] == "" and all(
        text[start : start + len(token)] == token for token, start in zip(tokens, starts, strict=True))
    plain, _ = tokenize(text.replace("0x0", "zz0"))
    assert [token.replace("zz0", "0x0") for token in plain] == tokens

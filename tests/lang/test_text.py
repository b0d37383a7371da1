"""Our own text: exact round trips, readable output, and a place for every error."""

from __future__ import annotations

import random
import re
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import programs, random_program, special_values

from benchmarks.models import MODELS
from tcp_eqsat.errors import (
    LimitError,
    ParseError,
    ShapeMismatch,
    TcpError,
    TypeMismatch,
    UnknownName,
    VerificationError,
)
from tcp_eqsat.lang import text
from tcp_eqsat.lang.dims import Guard, maximum, symbol
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.program import Function, Program, Region, TensorData
from tcp_eqsat.lang.reference import evaluate
from tcp_eqsat.lang.scalar import SCALAR_OPS, ScalarFunction, apply, literal
from tcp_eqsat.lang.scalar import parameter as scalar_parameter
from tcp_eqsat.lang.text.names import index_name, index_order, quoted, unquoted
from tcp_eqsat.lang.text.writer import format_number
from tcp_eqsat.lang.types import DTYPES, F32, F64, I32, U8, TensorType

MLP = """\
tcp 1

func @mlp(%x: f32[b, 16], %w: f32[16, 10], %bias: f32[10]) -> f32[b, 10] where b in [1, 512], b % 8 == 0 {
  %0 = contract %x[i, k], %w[k, j] -> [i, j]: f32[b, 10]
  %1 = view %bias[j] -> [i, j]: f32[b, 10]
  %2 = add %0, %1: f32[b, 10]
  %y = map (a0: f32) { t0 = exp(a0); divide(t0, add(t0, f32 1.0)) } %2: f32[b, 10]
  return %y
}
"""


def assert_round_trip(program: Program) -> None:
    written = text.write(program)
    again = text.parse(written)
    assert list(again.functions) == list(program.functions)
    for name, function in program.functions.items():
        read = again.functions[name]
        assert read.parameters == function.parameters and read.results == function.results, written
        assert read.guards == function.guards
    assert text.write(again) == written


@pytest.mark.parametrize("name", MODELS)
def test_models_round_trip(name):
    assert_round_trip(MODELS[name]().program)


@settings(max_examples=300, deadline=None)
@given(programs(8))
def test_random_programs_round_trip(sample):
    assert_round_trip(sample.program)


def test_text_is_what_the_documentation_shows():
    program = text.parse(MLP)
    assert text.write(program) == MLP.replace("{ t0 = exp(a0); divide(t0, add(t0, f32 1.0)) }",
                                              "{ t0 = exp(a0); divide(t0, add(t0, f32 1.0)) }")
    function = program.main
    assert str(function) == "mlp(x: f32[b, 16], w: f32[16, 10], bias: f32[10]) -> f32[b, 10]"
    (b,) = function.symbols
    assert (b.lower, b.upper, b.divisor) == (1, 512, 8)
    place = function.locations[function.results[0]]
    assert (place.line, place.column, place.length) == (7, 3, 2) and function.names[function.results[0]] == "y"
    x, w, bias = np.ones((8, 16), np.float32), np.ones((16, 10), np.float32), np.zeros(10, np.float32)
    (found,) = evaluate(function, (x, w, bias))
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-16.0)), rtol=1e-6)


def test_layout_and_comments_do_not_matter():
    squeezed = re.sub(r"\n\s*", " ", MLP)
    spread = MLP.replace(" ", "  ").replace("\n", "  # a comment: %0 = {\r\n")
    assert text.parse(squeezed).main.results == text.parse(spread).main.results == text.parse(MLP).main.results


def test_any_symbols_ranges_and_guards():
    b, s, c = symbol("b", 3, 3), symbol("seq.len", 2, 100, 2), symbol("c", -6, 10)
    only_in_guard, only_inside = symbol("g", 1, 7), symbol("r", 4, 5)
    x = builders.parameter("x", 0, TensorType(F32, (b, maximum(s * 2 + 1, c + 6), s // 2)))
    p = builders.parameter("p", 0, x.tensor_type)
    inner = builders.reduce_axes(SCALAR_OPS["add"], builders.splat(1, F32, (only_inside,)), (0,))
    body = Region((p,), (inner,))
    y = builders.composite("inner", body, x)
    guards = (Guard(b + 1, only_in_guard), Guard(s, 4 * c))
    assert_round_trip(Program({"main": Function("main", (x,), (x, y), guards=guards)}))


@pytest.mark.parametrize("name", ["x", "0", "7", "größe", "my-input", "", "a b", 'quo"te', "back\\slash", "new\nline",
                                  "%x", "return", "\u2028", "x.1", "tab\t"])
def test_any_name_of_a_parameter_function_or_composite(name):
    x = builders.parameter(name, 0, TensorType(F32, (2,)))
    body = builders.composite(name, Region((x,), (builders.map_scalar(SCALAR_OPS["exp"], x),)), x)
    hidden = builders.map_scalar(SCALAR_OPS["exp"], body)
    assert_round_trip(Program({name: Function(name, (x,), (hidden, body), {body: name, hidden: "0"})}))
    assert unquoted(quoted(name)) == name


def test_several_functions_no_parameters_no_results():
    one = Function("one", (), (builders.scalar_constant(1, F32),))
    none = Function("none", (), ())
    program = Program({"one": one, "none": none})
    assert_round_trip(program)
    assert text.parse(text.write(program)).main.name == "one"


def test_a_function_whose_text_would_mean_something_else_is_refused():
    x, y = (builders.parameter("x", i, TensorType(F32, (symbol("b", 0, i + 1),))) for i in (0, 1))
    with pytest.raises(VerificationError, match="different parameter names, 'x' is there twice"):
        text.write(Program({"f": Function("f", (x, y), ())}))
    z = builders.parameter("z", 1, y.tensor_type)
    with pytest.raises(VerificationError, match="different size names, 'b' is there twice"):
        text.write(Program({"f": Function("f", (x, z), ())}))
    with pytest.raises(VerificationError, match=r"parameters 0, 1, \.\.\., got parameter 1 at 0"):
        text.write(Program({"f": Function("f", (z,), ())}))


# Constants and scalar functions


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_constants_round_trip_bit_by_bit(dtype):
    special = special_values(dtype)
    arrays = [special, special.reshape(1, -1, 1), special[:0].reshape(0, 3), special[:0].reshape(2, 0), special[3:4],
              *(x.reshape(()) for x in special), np.resize(special, (9, 8)), np.full((3, 2), special[0])]
    if dtype.bytes <= 2:
        every = np.arange(1 << dtype.bits, dtype=f"u{dtype.bytes}").view(dtype.numpy if dtype.name != "bool" else "u1")
        every = every != 0 if dtype.name == "bool" else every
        arrays += [every, *every[::dtype.bits + 3].reshape(-1, 1), every[: len(every) // 16]]
    elif dtype.is_float:
        bits = f"u{dtype.bytes}"
        quiet, signalling, negative = (np.array(n, bits).view(dtype.numpy) for n in (
            (0x7FC00001, 0x7F800001, 0xFFC00000) if dtype is F32 else (
                0x7FF8000000000001, 0x7FF0000000000001, 0xFFF8000000000000)))
        arrays += [quiet, signalling, negative, np.full(3, negative), np.array([1, negative, 2], dtype.numpy)]
    nodes = tuple(builders.constant(np.asarray(a, dtype.numpy)) for a in arrays)
    assert_round_trip(Program({"main": Function("main", (), nodes)}))


@settings(max_examples=300, deadline=None)
@given(st.floats(width=32), st.floats())
def test_numbers_round_trip(single, double):
    values = (builders.constant(np.array(single, np.float32)), builders.constant(np.array(double)))
    assert_round_trip(Program({"main": Function("main", (), values)}))


@pytest.mark.parametrize(("value", "dtype", "expected"), [
    (0.1, F32, "0.1"), (-0.0, F32, "-0.0"), (1e30, F32, "1.0e+30"), (1e-45, F32, "1.0e-45"),
    (16777216, F32, "16777216.0"), (0.1, F64, "0.1"), (np.inf, F64, "inf"),
    (-np.inf, F32, "-inf"), (np.nan, F32, "nan"), (255, U8, "255"),
    (True, DTYPES["bool"], "true"),
])
def test_numbers_as_people_write_them(value, dtype, expected):
    assert format_number(np.array(value, dtype.numpy)[()], dtype) == expected


def test_large_constants_are_compact():
    random_ = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    function = Function("main", (), (builders.constant(random_), builders.constant(np.ones((512, 512), np.float32))))
    written = text.write(Program({"main": function}))
    assert len(written) < 64 * 64 * 4 * 4 / 3 + 300 and "splat 1.0" in written
    assert_round_trip(Program({"main": function}))


def test_deep_and_wide_scalar_functions():
    x = scalar_parameter(0, F32)
    deep = wide = x
    for n in range(500):
        deep = apply("exp", deep + literal(n, F32))
        wide = wide * wide
    p = builders.parameter("p", 0, TensorType(F32, (2,)))
    nodes = tuple(builders.map_function(ScalarFunction((F32, F32), e), p, p) for e in (deep, wide, x))
    assert_round_trip(Program({"main": Function("main", (p,), nodes)}))


def test_names_of_indices_are_free():
    program = text.parse("""tcp 1
func @f(%x: f32[2, 3], %y: f32[3, 1]) -> f32[2] {
  %0 = contract %x[row, inner], %y[inner, 0] -> [row]: f32[2]
  return %0
}""")
    (node,) = program.main.results
    assert node.attributes.lhs == (0, 1) and node.attributes.rhs == (1, -1) and node.attributes.rank == 1
    assert [index_order(index_name(n)) for n in range(30)] == [(n, "") for n in range(30)]
    assert index_order("ij") > index_order("t") and index_name(-1) == "0"


# Errors

VALID = """\
tcp 1

func @f(%x: f32[b, 4], %n: i32[]) -> (f32[b, 4], f32[4]) where b in [1, 64], b % 2 == 0, b == 2*b - b {
  %0 = exp %x: f32[b, 4]
  %1 = reduce add %0[j, i] -> [i]: f32[4]
  %2 = slice %x[0:b:2, 1:3]: f32[b//2, 2]
  %3 = constant [[1.0, -inf], [nan, 2e5]]: f32[2, 2]
  %4 = concatenate %3, %3 {axis = 0}: f32[4, 2]
  %5 = constant 1.5: f32[]
  %6 = pad %2, %5 {low = [0, 1], high = [b, 0]}: f32[b + b//2, 3]
  %7 = map (a: f32, c: f32) { t = add(a, c); multiply(t, f32 2.0) } %0, %x: f32[b, 4]
  %8 = reshape %7: f32[4*b]
  %9 = composite @body %x (%p: f32[b, 4]) {
    %0 = tanh %p: f32[b, 4]
    return %0, %p
  }: (f32[b, 4], f32[b, 4])
  %10 = project %9 {index = 1}: f32[b, 4]
  %11 = iota {axis = 0}: i32[b]
  %12 = constant splat 3: i32[5]
  return %10, %1
}
"""


def test_the_valid_text_is_valid():
    assert text.parse(VALID).main.results


def test_every_truncation_is_an_error_at_the_end():
    tokens = [m.end() for m in re.finditer(r"\S+", VALID)][:-1]
    for end in tokens:
        with pytest.raises(TcpError) as caught:
            text.parse(VALID[:end], "cut.tcp")
        where = caught.value.where
        assert where is not None and where.file == "cut.tcp", VALID[:end]
        assert where.line <= VALID[:end].count("\n") + 1


def line(body: str, result: str = "%x", parameters: str = "%x: f32[2, 3], %y: f32[3]") -> str:
    return f"tcp 1\nfunc @f({parameters}) -> f32[2, 3] {{\n  {body}\n  return {result}\n}}"


MALFORMED = [
    ("", 1, 1, ParseError, "'tcp' is required, got 'end of text'"),
    ("tcp 2\n", 1, 5, ParseError, "version 1 of the format is read here, got 2"),
    ("tcp 1\n", 2, 1, ParseError, "a function is required"),
    ("tcp 1\nfunc main", 2, 6, ParseError, "a function name such as @main is required, got 'main'"),
    ("tcp 1\nfunc @f() -> () { return }\nfunc @f() -> () { return }", 3, 1, ParseError, "@f is defined twice"),
    ("tcp 1\n$", 2, 1, ParseError, "unexpected character '$'"),
    ('tcp 1\nfunc @"\\q"() -> () { return }', 2, 6, ParseError, "a quoted name requires JSON's escapes"),
    ("tcp 1\nfunc @f(%x: f32[2], %x: f32[2]) -> () { return }", 2, 21, ParseError, "parameter %x is defined twice"),
    ("tcp 1\nfunc @f(%x: f33[2]) -> () { return }", 2, 13, UnknownName, "unknown dtype 'f33'"),
    ("tcp 1\nfunc @f(%x: f32[b+]) -> () { return }", 2, 17, ParseError, "size 'b+'"),
    ("tcp 1\nfunc @f(%x: f32[-3]) -> () { return }", 2, 9, ShapeMismatch, "sizes of at least 0, got [-3]"),
    ("tcp 1\nfunc @f(%x: f32[b*2**62*2**62]) -> () { return }", 2, 17, ShapeMismatch, "must be below 2**63"),
    ("tcp 1\nfunc @f() -> f32[2] where b in [5, 3] { return }", 2, 27, ShapeMismatch, "no value is left for b"),
    ("tcp 1\nfunc @f() -> f32[2] where b % 0 == 0 { return }", 2, 27, TcpError, "divisor of b must be at least 1"),
    ("tcp 1\nfunc @f() -> f32[2] where min in [0, 1] { return }", 2, 27, TcpError, "other than min and max"),
    ("tcp 1\nfunc @f() -> f32[2] where { return }", 2, 27, ParseError, "a size is required"),
    ("tcp 1\nfunc @f() -> f32[2] where b in [0, 99999999999999999999] { return }", 2, 36, ParseError,
     "an integer below 2**63 is required"),
    ("tcp 1\nfunc @f(%x: f32[2]) -> f32[3] { return %x }", 2, 43, TypeMismatch, "@f states results f32[3] but"),
    ("tcp 1\nfunc @f(%x: f32[2]) -> (f32[2], f32[2]) { return %x }", 2, 53, TypeMismatch, "but returns f32[2]"),
    (line("%0 = exp %z: f32[2, 3]"), 3, 12, UnknownName, "value %z is not defined"),
    (line("%0 = gelu %x: f32[2, 3]"), 3, 8, UnknownName, "unknown operation 'gelu'"),
    (line("%0 = add %x: f32[2, 3]"), 3, 8, TypeMismatch, "add requires 2 operands, got 1"),
    (line("%0 = add %x, %y: f32[2, 3]"), 3, 8, ShapeMismatch, "add requires operands of one shape"),
    (line("%0 = exp %x: f64[2, 3]"), 3, 16, TypeMismatch, "%0 states type f64[2, 3] but its operation gives f32[2, 3]"),
    (line("%0 = exp %x: f32[2, 3]\n  %0 = exp %x: f32[2, 3]"), 4, 3, ParseError, "value %0 is defined twice"),
    (line("%x = exp %x: f32[2, 3]"), 3, 3, ParseError, "value %x is defined twice"),
    (line("%0 exp %x: f32[2, 3]"), 3, 6, ParseError, "'=' is required, got 'exp'"),
    (line("%0 = exp %x"), 4, 3, ParseError, "':' is required, got 'return'"),
    (line("%0 = view %x[i, j] -> [i]: f32[2]"), 3, 8, TypeMismatch, "every index of a view's operand"),
    (line("%0 = view %x[i] -> [i]: f32[2]"), 3, 13, TypeMismatch, "an index for each axis of f32[2, 3]"),
    (line("%0 = view %x[i, j] -> [i, j, k]: f32[2, 3]"), 3, 13, ParseError, "an index for each axis of f32[2, 3]"),
    (line("%0 = view %x[i, i] -> [i]: f32[2]"), 3, 13, TypeMismatch, "index i has sizes 2 and 3"),
    (line("%0 = view %y[0] -> []: f32[]"), 3, 8, ShapeMismatch, "view requires size 1 along axis 0 of f32[3]"),
    (line("%0 = view %x[i, 1] -> [i]: f32[2]"), 3, 19, ParseError, "an index name or 0 is required, got '1'"),
    (line("%0 = reduce subtract %x[i, j] -> [i]: f32[2]"), 3, 8, TypeMismatch, "reduce requires an associative"),
    (line("%0 = reduce sum %x[i, j] -> [i]: f32[2]"), 3, 15, UnknownName, "unknown scalar operation 'sum'"),
    (line("%0 = contract %x[i, k], %y[j] -> [i, j]: f32[2, 4]"), 3, 17, TypeMismatch, "index j has sizes 4 and 3"),
    (line("%0 = reshape %x: f32[7]"), 3, 8, ShapeMismatch, "equal element counts"),
    (line("%0 = slice %x[0:2, 0:4]: f32[2, 4]"), 3, 8, ShapeMismatch, "0 <= start <= limit <= 3"),
    (line("%0 = slice %x[0:2]: f32[2, 4]"), 3, 8, TypeMismatch, "slice requires 2 starts"),
    (line("%0 = concatenate %x, %x {axis = 2}: f32[4, 3]"), 3, 8, TypeMismatch, "an axis of f32[2, 3], got 2"),
    (line("%0 = concatenate {axis = 2}: f32[4, 3]"), 3, 8, TypeMismatch, "at least one operand"),
    (line("%0 = pad %x, %y {low = [0, 0], high = [0, 0]}: f32[2, 3]"), 3, 8, TypeMismatch, "a value of type f32[]"),
    (line("%0 = iota {axis = 1.5}: i32[4]"), 3, 21, ParseError, "an integer is required, got 1.5"),
    (line("%0 = iota {axis = 0}: bool[4]"), 3, 8, TypeMismatch, "iota requires a numeric dtype"),
    (line("%0 = constant [1.0, 2.0]: f32[3]"), 3, 27, ParseError, "f32[3] requires data of shape [3], got [2]"),
    (line("%0 = constant [[1.0], [2.0, 3.0]]: f32[2]"), 3, 35, ParseError, "rows of one shape are required"),
    (line("%0 = constant 1.5: i32[]"), 3, 17, ParseError, "a number of dtype i32 is required, got '1.5'"),
    (line("%0 = constant 300: u8[]"), 3, 17, ParseError, "a number of dtype u8 is required, got '300'"),
    (line("%0 = constant nan: i32[]"), 3, 17, ParseError, "a number of dtype i32 is required, got 'nan'"),
    (line("%0 = constant 1: bool[]"), 3, 17, ParseError, "true or false is required, got '1'"),
    (line("%0 = constant 1e39: f32[]"), 3, 17, ParseError, "a number within f32 is required, got 1e39"),
    (line(f"%0 = constant {'9' * 5000}: i64[]"), 3, 17, ParseError, "999... (5000 characters)"),
    (line("%0 = constant 1.0: f32[b]"), 3, 17, ParseError, "a constant requires static sizes, got f32[b]"),
    (line("%0 = constant splat 1.0: f32[99999999999]"), 3, 17, LimitError, "at most 2147483648 bytes"),
    (line("%0 = constant splat 1.0: f32[9999999999, 9999999999]"), 3, 8, ShapeMismatch, "below 2**63"),
    (line("%0 = constant splat 1.0: f32[-1, -1]"), 3, 8, ShapeMismatch, "constant requires sizes of at least 0"),
    (line('%0 = constant base64 "AAA=": f32[]'), 3, 24, ParseError, "base64 of the bytes of f32[] is required"),
    (line('%0 = constant base64 "!": f32[]'), 3, 24, ParseError, "base64 of the bytes of f32[] is required"),
    (line(f"%0 = constant {'[' * 5000}: f32[]"), 3, 118, ParseError, "lists nested deeper than 100"),
    (line("%0 = map (a: f32) { exp(b) } %x: f32[2, 3]"), 3, 27, UnknownName, "unknown scalar operation or name 'b'"),
    (line("%0 = map (a: f32) { add(a, f64 1.0) } %x: f32[2, 3]"), 3, 23, TypeMismatch, "operands of one dtype"),
    (line(f"%0 = map (a: f32) {{ {'exp(' * 5000}"), 3, 427, ParseError, "expressions nested deeper than 100"),
    (line("%0 = parameter: f32[2]"), 3, 17, ParseError, "'{' is required, got ':'"),
    (line("%0 = project %x {index = 0}: f32[2, 3]"), 3, 8, TypeMismatch, "project requires an operand with more"),
    (line("%0 = composite @f %x (%p: f32[2]) {\n return %p }: f32[2]"), 3, 8, TypeMismatch,
     "composite f requires operands"),
    (line("%0 = composite @f %x (%p: f32[2, 3]) {\n return %y }: f32[3]"), 4, 9, UnknownName,
     "value %y is not defined"),
    (line("%0 = composite @f (" + ") { %0 = composite @f (" * 5000), 3, 2321, ParseError, "regions nested deeper"),
    (line("%0 = reshape %x: f32[" + "(" * 5000 + "]"), 3, 24, ParseError, "]' is required|nested"),
]


@pytest.mark.parametrize(("content", "row", "column", "error", "message"), MALFORMED,
                         ids=[f"{n}" for n in range(len(MALFORMED))])
def test_errors_have_their_place(content, row, column, error, message):
    with pytest.raises(error) as caught:
        text.parse(content, "bad.tcp")
    where = caught.value.where
    found = caught.value.message
    assert any(part in found for part in message.split("|")), found
    assert (where.file, where.line, where.column) == ("bad.tcp", row, column), str(caught.value)[:200]
    assert len(str(caught.value)) < 400


def mutated(content: str, generator: random.Random) -> str:
    """The text with a few characters or tokens changed, dropped, doubled or swapped."""
    pieces = re.findall(r"\s+|[A-Za-z0-9_.]+|.", content)
    for _ in range(generator.choice((1, 1, 2, 3))):
        at = generator.randrange(len(pieces))
        other = generator.choice((generator.choice(pieces), "", "-1", "0", "99999999999999999999", "nan", "1e999", "[",
                                  "]", "(", "{", "}", "%", "@", "b", "2**62", ":", ",", '"', "\\", "é", "\0"))
        match generator.randrange(4):
            case 0:
                pieces[at] = other
            case 1:
                pieces.insert(at, other)
            case 2:
                del pieces[at]
            case 3:
                pieces[at] = pieces[at][: len(pieces[at]) // 2]
        pieces = pieces or [" "]
    return "".join(pieces)


def survives(content: str) -> None:
    """Parsed, or refused with a place."""
    try:
        program = text.parse(content, "mutant.tcp")
    except TcpError as error:
        assert error.where is not None and error.where.file == "mutant.tcp", (error, content)
        assert 1 <= error.where.line <= content.count("\n") + 1 and error.where.column >= 1
        assert str(error) and "\n" not in error.message
    else:
        assert_round_trip(program)


@settings(max_examples=1500, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_mutations_of_valid_text_are_read_or_refused(seed):
    survives(mutated(VALID, random.Random(seed)))


@settings(max_examples=200, deadline=None)
@given(programs(5), st.integers(0, 2**32 - 1))
def test_mutations_of_random_programs_are_read_or_refused(sample, seed):
    survives(mutated(text.write(sample.program), random.Random(seed)))


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60))
def test_any_characters_are_refused(content):
    with pytest.raises(TcpError):
        text.parse("tcp 1 " + content)


def test_reading_is_linear():
    """Work is counted in calls, not in time."""

    def calls(copies: int) -> int:
        body = "\n".join(f"  %v{n} = exp %x: f32[2]" for n in range(copies))
        content = f"tcp 1\nfunc @f(%x: f32[2]) -> f32[2] {{\n{body}\n  return %x\n}}"
        count = 0

        def tracer(frame, event, argument):
            nonlocal count
            count += event == "call"

        sys.setprofile(tracer)
        try:
            text.parse(content)
        finally:
            sys.setprofile(None)
        return count

    small, large = calls(50), calls(200)
    assert large < 4.5 * small


def test_integer_constants_and_i32_results():
    program = text.parse("tcp 1\nfunc @f() -> i32[2] {\n %0 = constant [-5, 7]: i32[2]\n return %0\n}")
    assert program.main.results[0].attributes.data == TensorData(np.array([-5, 7], np.int32))
    assert program.main.results[0].type == TensorType(I32, (2,))


def test_random_programs_do_not_depend_on_what_was_made_before():
    for seed in range(20):
        first = text.write(random_program(seed, 6).program)
        assert text.write(random_program(seed, 6).program) == first

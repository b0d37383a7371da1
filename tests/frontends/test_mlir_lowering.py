"""What each operation of the read dialects means, how open sizes are unified, and what is refused where."""

from __future__ import annotations

import numpy as np
import pytest

from tcp_eqsat.errors import (
    ArgumentError,
    ParseError,
    ShapeMismatch,
    TypeMismatch,
    UnknownName,
    VerificationError,
)
from tcp_eqsat.frontends.mlir import parse, read
from tcp_eqsat.frontends.mlir.hlo_elementwise import BINARY, COMPARISONS, UNARY
from tcp_eqsat.lang.program import Function
from tcp_eqsat.lang.reference import reference


def function(arguments: str, result: str, *lines: str) -> Function:
    """A function whose last line defines its result."""
    text = "\n".join(f"  {line}" for line in lines)
    name = lines[-1].partition(" ")[0]
    return parse(f"func @f({arguments}) -> {result} {{\n{text}\n  return {name} : {result}\n}}", "f.mlir").main


def run(arguments: str, result: str, *lines: str, on: tuple = ()) -> np.ndarray:
    return reference(function(arguments, result, *lines))(*on)


F = np.float32
X = np.array([[1.5, -2, 0.25], [4, 0, -0.5]], F)
Y = np.array([[0.5, 2, -3], [1, 7, -0.5]], F)
T23, T3 = "tensor<2x3xf32>", "tensor<3xf32>"


# Meaning ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "expected"), [
    ("abs", np.abs), ("neg", np.negative), ("negate", np.negative), ("exp", np.exp), ("tanh", np.tanh),
    ("floor", np.floor), ("sine", np.sin), ("cos", np.cos), ("expm1", np.expm1), ("sign", np.sign),
    ("logistic", lambda x: 1 / (1 + np.exp(-x))),
])
def test_unary(name, expected):
    found = run(f"%x: {T23}", T23, f'%r = "xla_hlo.{name}"(%x) : ({T23}) -> {T23}', on=(X,))
    np.testing.assert_allclose(found, expected(X), rtol=1e-6)


@pytest.mark.parametrize(("name", "expected"), [
    ("add", np.add), ("sub", np.subtract), ("subtract", np.subtract), ("mul", np.multiply), ("div", np.divide),
    ("max", np.maximum), ("minimum", np.minimum), ("remainder", np.fmod),
])
def test_binary(name, expected):
    found = run(f"%x: {T23}, %y: {T23}", T23, f"%r = xla_hlo.{name} %x, %y : {T23}", on=(X, Y))
    np.testing.assert_allclose(found, expected(X, Y), rtol=1e-6)


def test_every_elementwise_name_has_a_meaning():
    of_integers = ("not", "popcnt", "count_leading_zeros")
    for name in UNARY:
        dtype, result = ("i32", "i32") if name in of_integers else ("f32", "i1" if name == "is_finite" else "f32")
        function(f"%x: tensor<{dtype}>", f"tensor<{result}>",
                 f'%r = "xla_hlo.{name}"(%x) : (tensor<{dtype}>) -> tensor<{result}>')
    for name in BINARY:
        dtype = "f32" if name in ("pow", "power", "atan2", "complex") else "i32"
        result = "complex<f32>" if name == "complex" else dtype
        function(f"%x: tensor<{dtype}>", f"tensor<{result}>", f"%r = xla_hlo.{name} %x, %x : tensor<{result}>")


@pytest.mark.parametrize("direction", COMPARISONS)
def test_compare_and_select(direction):
    found = run(
        f"%x: {T23}, %y: {T23}", T23,
        f'%c = "xla_hlo.compare"(%x, %y) {{comparison_direction = "{direction}"}} : ({T23}, {T23}) -> tensor<2x3xi1>',
        f'%r = "xla_hlo.select"(%c, %x, %y) : (tensor<2x3xi1>, {T23}, {T23}) -> {T23}', on=(X, Y))
    condition = getattr(np, COMPARISONS[direction])(X, Y)
    np.testing.assert_array_equal(found, np.where(condition, X, Y))


def test_clamp_and_scalar_condition():
    found = run(
        f"%x: {T23}", T23,
        "%l = xla_hlo.constant dense<-1.0> : tensor<f32>",
        "%h = xla_hlo.constant dense<1.0> : tensor<f32>",
        f'%r = "xla_hlo.clamp"(%l, %x, %h) : (tensor<f32>, {T23}, tensor<f32>) -> {T23}', on=(X,))
    np.testing.assert_array_equal(found, np.clip(X, -1, 1))
    found = run(
        f"%x: {T23}, %y: {T23}, %c: tensor<i1>", T23,
        f'%r = "xla_hlo.select"(%c, %x, %y) : (tensor<i1>, {T23}, {T23}) -> {T23}', on=(X, Y, np.bool_(False)))
    np.testing.assert_array_equal(found, Y)


def test_convert_and_shifts():
    found = run(f"%x: {T23}", "tensor<2x3xi32>", f'%r = "xla_hlo.convert"(%x) : ({T23}) -> tensor<2x3xi32>', on=(X,))
    np.testing.assert_array_equal(found, X.astype(np.int32))
    values, amounts = np.array([-8, 8], np.int32), np.array([1, 2], np.int32)
    for name, expected in (
        ("shift_right_arithmetic", values >> amounts),
        ("shift_right_logical", (values.view(np.uint32) >> amounts.view(np.uint32)).view(np.int32)),
        ("shift_left", values << amounts),
    ):
        found = run("%x: tensor<2xi32>, %y: tensor<2xi32>", "tensor<2xi32>",
                    f"%r = xla_hlo.{name} %x, %y : tensor<2xi32>", on=(values, amounts))
        np.testing.assert_array_equal(found, expected)


def test_sums_of_truth_values_are_or():
    p, q = np.array([True, False, False]), np.array([True, True, False])
    found = run("%p: tensor<3xi1>, %q: tensor<3xi1>", "tensor<3xi1>", "%r = xla_hlo.add %p, %q : tensor<3xi1>",
                on=(p, q))
    np.testing.assert_array_equal(found, p | q)


@pytest.mark.parametrize(("dimensions", "shape", "index"), [
    ("1", "tensor<3xf32>", np.s_[None, :]), ("0", "tensor<2xf32>", np.s_[:, None]),
])
def test_op_carried_broadcast(dimensions, shape, index):
    v = np.arange(1, 4 if shape == T3 else 3, dtype=F)
    line = (f'%r = "xla_hlo.sub"(%v, %x) {{broadcast_dimensions = dense<{dimensions}> : tensor<1xi64>}} : '
            f"({shape}, {T23}) -> {T23}")
    np.testing.assert_array_equal(run(f"%v: {shape}, %x: {T23}", T23, line, on=(v, X)), v[index] - X)


def test_unit_axes_give_way():
    v = np.array([[2], [3]], F)
    found = run(f"%v: tensor<2x1xf32>, %x: {T23}", T23,
                f'%r = "xla_hlo.mul"(%v, %x) : (tensor<2x1xf32>, {T23}) -> {T23}', on=(v, X))
    np.testing.assert_array_equal(found, v * X)


@pytest.mark.parametrize(("line", "result", "expected"), [
    (f'%r = "xla_hlo.transpose"(%x) {{permutation = dense<[1, 0]> : tensor<2xi64>}} : ({T23}) -> tensor<3x2xf32>',
     "tensor<3x2xf32>", X.T),
    (f'%r = "xla_hlo.reshape"(%x) : ({T23}) -> tensor<3x2x1xf32>', "tensor<3x2x1xf32>", X.reshape(3, 2, 1)),
    (f'%r = "xla_hlo.slice"(%x) {{start_indices = dense<[0, 1]> : tensor<2xi64>, limit_indices = dense<[2, 3]> : '
     f"tensor<2xi64>, strides = dense<[1, 2]> : tensor<2xi64>}} : ({T23}) -> tensor<2x1xf32>",
     "tensor<2x1xf32>", X[:, 1:3:2]),
    (f'%r = "xla_hlo.concatenate"(%x, %x) {{dimension = 1 : i64}} : ({T23}, {T23}) -> tensor<2x6xf32>',
     "tensor<2x6xf32>", np.concatenate([X, X], 1)),
    (f'%r = "xla_hlo.broadcast"(%x) {{broadcast_sizes = dense<[4, 1]> : tensor<2xi64>}} : '
     f"({T23}) -> tensor<4x1x2x3xf32>", "tensor<4x1x2x3xf32>", np.broadcast_to(X, (4, 1, 2, 3))),
    (f'%r = "xla_hlo.broadcast_in_dim"(%x) {{broadcast_dimensions = dense<[2, 0]> : tensor<2xi64>}} : '
     f"({T23}) -> tensor<3x4x2xf32>", "tensor<3x4x2xf32>", np.broadcast_to(X.T[:, None], (3, 4, 2))),
    ('%r = "xla_hlo.iota"() {iota_dimension = 1 : i64} : () -> tensor<2x3xi32>', "tensor<2x3xi32>",
     np.broadcast_to(np.arange(3, dtype=np.int32), (2, 3))),
    ('%r = xla_hlo.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>', "tensor<2x2xi8>",
     np.array([[1, 2], [3, 4]], np.int8)),
    ('%r = xla_hlo.constant dense<true> : tensor<2x2xi1>', "tensor<2x2xi1>", np.ones((2, 2), bool)),
    (f'%r = "xla_hlo.copy"(%x) : ({T23}) -> {T23}', T23, X),
])
def test_structure(line, result, expected):
    found = run(f"%x: {T23}", result, line, on=(X,))
    assert found.dtype == expected.dtype and found.shape == expected.shape
    np.testing.assert_array_equal(found, expected)


def padded(x: np.ndarray, low, high, interior) -> np.ndarray:
    """XLA's pad, one axis at a time."""
    for axis, (before, after, inner) in enumerate(zip(low, high, interior, strict=True)):
        n = x.shape[axis]
        spread = np.full([*x.shape[:axis], max(0, n + inner * (n - 1)), *x.shape[axis + 1 :]], 9, x.dtype)
        spread[(slice(None),) * axis + (slice(None, None, inner + 1),)] = x
        width = [(0, 0)] * x.ndim
        width[axis] = (max(0, before), max(0, after))
        x = np.pad(spread, width, constant_values=9)
        x = x[(slice(None),) * axis + (slice(max(0, -before), x.shape[axis] - max(0, -after)),)]
    return x


@pytest.mark.parametrize(("low", "high", "interior"), [
    ([1, 0], [0, 2], [0, 0]), ([0, -1], [-1, 0], [0, 0]), ([1, 2], [0, -3], [2, 1]), ([0, 0], [0, 0], [0, 3]),
])
def test_pad(low, high, interior):
    expected = padded(X, low, high, interior)
    result = f"tensor<{expected.shape[0]}x{expected.shape[1]}xf32>"
    found = run(
        f"%x: {T23}", result, "%v = xla_hlo.constant dense<9.0> : tensor<f32>",
        f'%r = "xla_hlo.pad"(%x, %v) {{edge_padding_low = dense<{low}> : tensor<2xi64>, edge_padding_high = '
        f"dense<{high}> : tensor<2xi64>, interior_padding = dense<{interior}> : tensor<2xi64>}} : "
        f"({T23}, tensor<f32>) -> {result}", on=(X,))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("left", "right"), [((2, 3), (3, 4)), ((2, 3), (3,)), ((3,), (3, 4)), ((3,), (3,))])
def test_dot(left, right):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(left).astype(F), rng.standard_normal(right).astype(F)
    a, b, c = (f"tensor<{''.join(f'{n}x' for n in shape)}f32>" for shape in (left, right, (x @ y).shape))
    found = run(f"%x: {a}, %y: {b}", c, f'%r = "xla_hlo.dot"(%x, %y) : ({a}, {b}) -> {c}', on=(x, y))
    np.testing.assert_allclose(found, x @ y, rtol=1e-5, atol=1e-6)


def test_dot_general():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 5, 3)).astype(F), rng.standard_normal((3, 2, 4)).astype(F)
    numbers = ("{lhs_batching_dimensions = dense<0> : tensor<1xi64>, rhs_batching_dimensions = dense<1> : "
               "tensor<1xi64>, lhs_contracting_dimensions = dense<2> : tensor<1xi64>, "
               "rhs_contracting_dimensions = dense<0> : tensor<1xi64>}")
    found = run(
        "%x: tensor<2x5x3xf32>, %y: tensor<3x2x4xf32>", "tensor<2x5x4xf32>",
        f'%r = "xla_hlo.dot_general"(%x, %y) {{dot_dimension_numbers = {numbers}}} : '
        "(tensor<2x5x3xf32>, tensor<3x2x4xf32>) -> tensor<2x5x4xf32>", on=(x, y))
    np.testing.assert_allclose(found, np.einsum("bik,kbj->bij", x, y), rtol=1e-5, atol=1e-6)


def reduce_lines(body: str, start: str, dimensions: str = "dense<1> : tensor<1xi64>", result: str = "tensor<2xf32>"):
    return (
        f"%i = xla_hlo.constant dense<{start}> : tensor<f32>",
        '%r = "xla_hlo.reduce"(%x, %i) ( { ^bb0(%a: tensor<f32>, %b: tensor<f32>): ' + body
        + f"}}) {{dimensions = {dimensions}}} : ({T23}, tensor<f32>) -> {result}",
    )


RETURN = '"xla_hlo.return"(%c) : (tensor<f32>) -> () '


@pytest.mark.parametrize(("name", "start", "expected"), [
    ("add", "0.0", X.sum(1)), ("add", "2.5", X.sum(1) + F(2.5)), ("max", "0xFF800000", X.max(1)),
    ("max", "1.0", np.maximum(X.max(1), 1)), ("min", "0x7F800000", X.min(1)), ("mul", "1.0", X.prod(1)),
])
def test_reduce(name, start, expected):
    lines = reduce_lines(f"%c = xla_hlo.{name} %b, %a : tensor<f32> {RETURN}", start)
    built = function(f"%x: {T23}", "tensor<2xf32>", *lines)
    np.testing.assert_allclose(reference(built)(X), expected, rtol=1e-6)
    starts_anyway = start in ("0.0", "0xFF800000", "0x7F800000") or (name, start) == ("mul", "1.0")
    assert (built.results[0].op.name == "reduce") == starts_anyway


def test_reduce_over_all_axes():
    lines = reduce_lines(f"%c = xla_hlo.add %a, %b : tensor<f32> {RETURN}", "0.0",
                         "dense<[0, 1]> : tensor<2xi64>", "tensor<f32>")
    assert run(f"%x: {T23}", "tensor<f32>", *lines, on=(X,)) == X.sum()


def test_variables_are_parameters_once():
    built = function(
        f"%x: {T3}", T3,
        f"%v = flow.variable.load @v : {T3}", f"%u = flow.variable.load @u : {T3}",
        f"%w = flow.variable.load @v : {T3}", f"%s = xla_hlo.sub %v, %w : {T3}", f"%t = xla_hlo.mul %s, %u : {T3}")
    assert built.parameter_names == ("x", "v", "u")
    v, w = (node for node, name in built.names.items() if name in ("v", "u"))
    assert v.attributes.index == 1 and w.attributes.index == 2


# Functions ----------------------------------------------------------------------------------------------------------


def test_modules_and_several_functions():
    program = parse("""
      module @m { module {
        func.func private @declared(tensor<2xf32>) -> tensor<2xf32>
        func.func @one(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
          %y = xla_hlo.add %x, %x : tensor<2xf32>
          func.return %y, %x : tensor<2xf32>, tensor<2xf32>
        }
      }
      "func.func"() <{sym_name = "main", function_type = (tensor<f32>) -> tensor<f32>}> ({
        ^bb0(%a: tensor<f32>): "func.return"(%a) : (tensor<f32>) -> () }) : () -> () }""")
    assert list(program.functions) == ["one", "main"]
    assert str(program.main) == "main(a: f32[]) -> f32[]"
    y, x = reference(program.function("one"))(np.ones(2, F))
    np.testing.assert_array_equal(y, x + x)


# Open sizes ---------------------------------------------------------------------------------------------------------


def test_open_sizes_are_named_in_order_after_unification():
    built = function(
        "%x: tensor<?x?xf32>, %y: tensor<?x?xf32>, %z: tensor<?x?xf32>", "tensor<?x?xf32>",
        "%s = xla_hlo.add %x, %z : tensor<?x?xf32>",
        '%d = "xla_hlo.dot"(%s, %y) : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>')
    assert str(built) == "f(x: f32[b, s], y: f32[s, d2], z: f32[b, s]) -> f32[b, d2]"


def test_a_later_size_settles_earlier_ones():
    """The batch is found to be 7 at the end, after many values were typed with it open."""
    built = function(
        "%x: tensor<?x3xf32>, %y: tensor<7x3xf32>", "tensor<7x3xf32>",
        "%a = xla_hlo.add %x, %x : tensor<?x3xf32>", "%b = xla_hlo.mul %a, %x : tensor<?x3xf32>",
        '%r = "xla_hlo.add"(%b, %y) : (tensor<?x3xf32>, tensor<7x3xf32>) -> tensor<7x3xf32>')
    assert str(built) == "f(x: f32[7, 3], y: f32[7, 3]) -> f32[7, 3]"


def test_the_result_states_a_size():
    built = function("%x: tensor<?xf32>", "tensor<4xf32>", "%r = xla_hlo.add %x, %x : tensor<4xf32>")
    assert str(built) == "f(x: f32[4]) -> f32[4]"


def test_sizes_may_be_expressions():
    built = function(
        "%x: tensor<?x6xf32>, %y: tensor<?x6xf32>", "tensor<?x2xf32>",
        '%c = "xla_hlo.concatenate"(%x, %y) {dimension = 0 : i64} : '
        "(tensor<?x6xf32>, tensor<?x6xf32>) -> tensor<?x6xf32>",
        '%r = "xla_hlo.reshape"(%c) : (tensor<?x6xf32>) -> tensor<?x2xf32>')
    assert str(built) == "f(x: f32[b, 6], y: f32[s, 6]) -> f32[3*b + 3*s, 2]"


def test_a_slice_bounds_an_open_size():
    built = function(
        "%x: tensor<?x3xf32>", "tensor<2x3xf32>",
        "%a = xla_hlo.add %x, %x : tensor<?x3xf32>",
        '%r = "xla_hlo.slice"(%a) {start_indices = dense<0> : tensor<2xi64>, '
        "limit_indices = dense<[2, 3]> : tensor<2xi64>} : (tensor<?x3xf32>) -> tensor<2x3xf32>")
    (b,) = built.symbols
    assert (b.name, b.lower) == ("b", 2)
    np.testing.assert_array_equal(reference(built)(np.ones((4, 3), F)), np.full((2, 3), 2))
    with pytest.raises(ShapeMismatch):
        reference(built)(np.ones((1, 3), F))


def test_a_size_found_to_be_1_after_it_was_broadcast():
    """A size that the text leaves open doesn't stretch, whatever it is found to be later."""
    built = function(
        "%x: tensor<?xf32>, %y: tensor<1xf32>, %z: tensor<?x?xf32>", "tensor<?x?xf32>",
        '%r = "xla_hlo.broadcast_in_dim"(%x) {broadcast_dimensions = dense<1> : tensor<1xi64>} : '
        "(tensor<?xf32>) -> tensor<?x?xf32>",
        "%s = xla_hlo.add %r, %z : tensor<?x?xf32>",
        "%q = xla_hlo.add %x, %y : tensor<1xf32>",
        "%t = xla_hlo.add %s, %s : tensor<?x?xf32>")
    assert str(built) == "f(x: f32[1], y: f32[1], z: f32[b, 1]) -> f32[b, 1]"


def test_static_text_is_read_in_one_pass():
    text = "func @f(%x: tensor<2xf32>) -> tensor<2xf32> {\n  return %x : tensor<2xf32>\n}"
    assert parse(text).main.symbols == ()


# Refusals -----------------------------------------------------------------------------------------------------------


def refused(text: str):
    with pytest.raises((ParseError, UnknownName, TypeMismatch, VerificationError)) as caught:
        parse(text, "t.mlir")
    return caught.value


def test_contracted_extents():
    error = refused("""func @f(%arg0: tensor<?x16xf32>, %w: tensor<16xf32>) -> tensor<?x16xf32> {
  %5 = xla_hlo.constant dense<0.0> : tensor<10x16xf32>
  %6 = "xla_hlo.dot"(%arg0, %5) : (tensor<?x16xf32>, tensor<10x16xf32>) -> tensor<?x16xf32>
  return %6 : tensor<?x16xf32>
}""")
    assert isinstance(error, ShapeMismatch)
    assert str(error.where) == "t.mlir:3:8" and error.where.length == 13
    assert error.message.split("\n") == [
        "dot_general requires equal contracted extents, got 16 (lhs axis 1) and 10 (rhs axis 0)",
        "%arg0 is defined at t.mlir:1:9 with type f32[b, 16]",
        "%5 is defined at t.mlir:2:3 with type f32[10, 16]",
    ]


HEAD = "func @f(%x: tensor<?x3xf32>, %v: tensor<4xf32>) -> tensor<?x3xf32> {\n"
TAIL = "\n  return %x : tensor<?x3xf32>\n}"
U = "tensor<?x3xf32>"


@pytest.mark.parametrize(("line", "kind", "place", "message"), [
    (f'%r = "xla_hlo.tanj"(%x) : ({U}) -> {U}', UnknownName, 8, "unknown operation 'xla_hlo.tanj'; did you mean"),
    (f'%r = "foo.tanh"(%x) : ({U}) -> {U}', UnknownName, 8, "unknown dialect 'foo'; known are arith, "),
    (f'%r = "tanh"(%x) : ({U}) -> {U}', UnknownName, 8, "unknown operation 'tanh'"),
    (f"%r = xla_hlo.add %x, %q : {U}", UnknownName, 24, "%q is not defined"),
    (f"%x = xla_hlo.add %x, %x : {U}", VerificationError, 3, "%x is defined twice, first at t.mlir:1:9"),
    ("%r = xla_hlo.add %v, %v : tensor<5xf32>", TypeMismatch, 20, "%v is f32[4], the text states f32[5]"),
    ("%r = xla_hlo.add %v, %v : tensor<4xi32>", TypeMismatch, 20, "%v is f32[4], the text states i32[4]"),
    (f'%r = "xla_hlo.tanh"(%x) : ({U}) -> tensor<?x4xf32>', ShapeMismatch, 8,
     "xla_hlo.tanh gives f32[b, 3], the text states f32[?, 4]"),
    (f'%r = "xla_hlo.tanh"(%x) : ({U}) -> tensor<?x3xi32>', TypeMismatch, 8, "the text states i32[?, 3]"),
    (f'%r = "xla_hlo.tanh"(%x, %x) : ({U}, {U}) -> {U}', TypeMismatch, 8, "requires 1 operand, got 2"),
    (f'%r = "xla_hlo.add"(%x, %v) : ({U}, tensor<4xf32>) -> {U}', TypeMismatch, 8, "or broadcast_dimensions"),
    (f'%r = "xla_hlo.add"(%x, %v) {{broadcast_dimensions = dense<1> : tensor<1xi64>}} : ({U}, tensor<4xf32>) -> {U}',
     ShapeMismatch, 8, "requires equal sizes, got 3 (operand 0) and 4 (operand 1) along axis 1"),
    (f'%r = "xla_hlo.add"(%x, %v) {{broadcast_dimensions = dense<2> : tensor<1xi64>}} : ({U}, tensor<4xf32>) -> {U}',
     TypeMismatch, 8, "requires broadcast_dimensions below 2"),
    (f'%r = "xla_hlo.add"(%x, %v) {{broadcast_dimensions = "a"}} : ({U}, tensor<4xf32>) -> {U}',
     ParseError, 8, "expected a vector of integers"),
    (f'%r = "xla_hlo.transpose"(%x) {{permutation = dense<0> : tensor<2xi64>}} : ({U}) -> {U}',
     TypeMismatch, 8, "requires a permutation"),
    (f'%r = "xla_hlo.transpose"(%x) : ({U}) -> {U}', VerificationError, 8, "requires attribute 'permutation'"),
    (f'%r = "xla_hlo.compare"(%x, %x) {{comparison_direction = "QQ"}} : ({U}, {U}) -> tensor<?x3xi1>',
     VerificationError, 8, "got 'QQ'"),
    ("%r = xla_hlo.constant dense<[1.0, 2.0]> : tensor<3xf32>", ParseError, 31, "requires 3 elements"),
    ("%r = xla_hlo.constant dense<1.0> : tensor<tf32>", TypeMismatch, 31, "tf32 is not supported"),
    ('%r = "xla_hlo.broadcast"(%v) {broadcast_sizes = dense<-1> : tensor<1xi64>} : '
     "(tensor<4xf32>) -> tensor<4xf32>", TypeMismatch, 8, "gives rank 2, the text states rank 1"),
    (f'%r = "xla_hlo.slice"(%x) {{start_indices = dense<[0, 2]> : tensor<2xi64>, limit_indices = dense<[0, 9]> : '
     f"tensor<2xi64>}} : ({U}) -> {U}", ShapeMismatch, 8, "slice"),
    (f'%r = "xla_hlo.dot"(%x) : ({U}) -> {U}', TypeMismatch, 8, "requires 2 operands, got 1"),
    (f'%r = "xla_hlo.reshape"(%x) : ({U}) -> tensor<?x?xf32>', ShapeMismatch, 8, "reshape"),
    (f'%s = shape.get_ranked_shape %x : {U} -> !shape.ranked_shape<?x4xindex>', TypeMismatch, 8, "gives shape"),
    (f'%r, %s = "xla_hlo.tanh"(%x) : ({U}) -> ({U}, {U})', TypeMismatch, 12, "gives 1 result, the text states 2"),
])
def test_refused_operations(line, kind, place, message):
    error = refused(HEAD + "  " + line + TAIL)
    assert type(error) is kind or (kind is TypeMismatch and isinstance(error, kind)), error
    assert (error.where.line, error.where.column) == (2, place), error
    assert message in error.message


@pytest.mark.parametrize(("body", "place", "message"), [
    (f'%c = "xla_hlo.copy"(%p) : (tensor<f32>) -> tensor<f32> {RETURN}', 35, "on its own arguments"),
    ('%d = "xla_hlo.broadcast"(%a) {broadcast_sizes = dense<2> : tensor<1xi64>} : (tensor<f32>) -> tensor<2xf32> '
     '%c = "xla_hlo.slice"(%d) {start_indices = dense<0> : tensor<1xi64>, limit_indices = dense<1> : tensor<1xi64>} '
     ': (tensor<2xf32>) -> tensor<1xf32> "xla_hlo.return"(%c) : (tensor<1xf32>) -> () ', 35, "over scalars"),
])
def test_refused_reductions(body, place, message):
    text = "\n  ".join(reduce_lines(body, "0.0"))
    head = f"func @f(%x: {T23}, %p: tensor<f32>) -> tensor<2xf32> {{"
    error = refused(f"{head}\n  {text}\n  return %r : tensor<2xf32>\n}}")
    assert isinstance(error, VerificationError) and message in error.message
    assert (error.where.line, error.where.column) == (3, place)


@pytest.mark.parametrize(("text", "kind", "place", "message"), [
    ("", ParseError, (1, 1), "the text has no function"),
    ("// nothing\n", ParseError, (1, 1), "the text has no function"),
    ('"a.b"() : () -> ()', VerificationError, (1, 1), "a function is required"),
    ("func @f() { }", VerificationError, (1, 11), "requires a return"),
    ("func @f(%x: tensor<f32>) -> tensor<f32> { return }", TypeMismatch, (1, 43), "requires 1 result, got 0"),
    ("func @f(%x: tensor<2xf32>) -> tensor<3xf32> { return %x : tensor<2xf32> }", TypeMismatch, (1, 54),
     "%x is f32[2], the function states f32[3]"),
    ("func @f(%x: f32) -> f32 { return %x : f32 }", TypeMismatch, (1, 9), "a tensor type is required, got f32"),
    ("func @f(%x: tensor<2xtf32>) { return }", TypeMismatch, (1, 9), "tf32 is not supported"),
    ("func @f(tensor<f32>) { return }", VerificationError, (1, 9), "requires names for its arguments"),
    ("func @f() { return }\nfunc @f() { return }", VerificationError, (2, 1), "'f' is defined twice"),
    ("func @f(%v: tensor<f32>) {\n  %0 = flow.variable.load @v : tensor<f32>\n  return\n}", VerificationError, (2, 8),
     "two parameters are called 'v'"),
    ("func @f() { ^a: return ^b: return }", VerificationError, (1, 11), "a body of one block"),
    ("func @f(%x: tensor<f32>) -> tensor<f1> { return %x : tensor<f32> }", TypeMismatch, (1, 49),
     "f1 is not supported"),
    ('"func.func"() ({}) : () -> ()', VerificationError, (1, 1), "requires sym_name"),
    ("func @f() -> tensor<?xf32> {\n  %0 = xla_hlo.constant dense<1.0> : tensor<f32>\n"
     '  %1 = "xla_hlo.broadcast"(%0) {broadcast_sizes = dense<-1> : tensor<1xi64>} : (tensor<f32>) -> tensor<?xf32>\n'
     "  return %1 : tensor<?xf32>\n}", ShapeMismatch, (3, 8), "a size that no parameter determines, b"),
])
def test_refused_functions(text, kind, place, message):
    error = refused(text)
    assert type(error) is kind and message in error.message
    assert (error.where.line, error.where.column) == place


def test_results_need_no_names():
    text = "func @f(%x: tensor<f32>) -> tensor<f32> { xla_hlo.add %x, %x : tensor<f32> return %x : tensor<f32> }"
    assert parse(text).main.results == parse(text).main.parameters


def test_a_file_that_is_not_there_or_not_text(tmp_path):
    with pytest.raises(ArgumentError, match="can't read"):
        read(tmp_path / "absent.mlir")
    (tmp_path / "a.mlir").write_bytes(b"func\n  \xff")
    with pytest.raises(ParseError) as caught:
        read(tmp_path / "a.mlir")
    assert (caught.value.where.line, caught.value.where.column) == (2, 3)

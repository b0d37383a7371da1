"""The TCP dialect: what its operations give, and what they refuse in the dialect's own words."""

# ruff: noqa: E501 (lines are programs)

from __future__ import annotations

import numpy as np
import pytest

from tcp_eqsat.conformance import Mode, run_file
from tcp_eqsat.errors import TcpError
from tcp_eqsat.frontends.mlir import generic_text, parse
from tcp_eqsat.lang.reference import reference

F = np.float32


def run(text: str, *arrays: np.ndarray) -> np.ndarray:
    return reference(parse(text, "t.mlir").main)(*arrays)


def unary(line: str, result: str = "tensor<?xf32>", operand: str = "tensor<?xf32>") -> str:
    return f"func.func @f(%x: {operand}) -> {result} {{\n  %r = {line} : {operand} -> {result}\n  return %r : {result}\n}}"


@pytest.mark.parametrize(("line", "expected"), [
    ("tcp.tanh %x", np.tanh), ("tcp.neg %x", np.negative), ("tcp.abs %x", np.abs), ("tcp.floor %x", np.floor),
    ("tcp.round %x", lambda x: np.trunc(x + np.copysign(0.5, x))), ("tcp.round_even %x", np.round),
    ("tcp.sigmoid %x", lambda x: 1 / (1 + np.exp(-x))), ("tcp.atan %x", np.arctan),
    ("tcp.clamp %x {min_float = -1.0 : f32, max_float = 1.0 : f32}", lambda x: np.clip(x, -1, 1)),
])
def test_unary(line, expected):
    x = np.array([-2.5, 0.5, 1.5, -0.25], F)
    np.testing.assert_allclose(run(unary(line), x), expected(x), rtol=1e-6)


@pytest.mark.parametrize(("signs", "element", "expected"), [
    ("in_int_signedness = #tcp<signedness Signed>, out_int_signedness = #tcp<signedness Unsigned>", "i8", [-1, 5]),
    ("in_int_signedness = #tcp<signedness Unsigned>", "f64", [2.0**32 - 1, 5]),
    ("in_int_signedness = #tcp<signedness Signed>", "f64", [-1.0, 5]),
])
def test_cast(signs, element, expected):
    result = f"tensor<?x{element}>"
    text = unary(f"tcp.cast %x {{{signs}}}", result, "tensor<?xi32>")
    np.testing.assert_array_equal(run(text, np.array([-1, 5], np.int32)), expected)


@pytest.mark.parametrize(("mode", "expected"), [("Trunc", [-3, 3]), ("Floor", [-4, 3]), ("Ceil", [-3, 4])])
def test_division_of_integers(mode, expected):
    text = f"""func.func @f(%x: tensor<2xi32>, %y: tensor<2xi32>) -> tensor<2xi32> {{
      %r = tcp.divsi %x, %y {{rounding_mode = #tcp<roundingMode {mode}>}} : tensor<2xi32>, tensor<2xi32> -> tensor<2xi32>
      return %r : tensor<2xi32>
    }}"""
    np.testing.assert_array_equal(run(text, np.array([-7, 7], np.int32), np.array([2, 2], np.int32)), expected)


def test_broadcast_slice_and_sizes():
    text = """func.func @f(%x: tensor<1x?xf32>, %y: tensor<?x?xf32>) -> tensor<?x2xf32> {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %d = tensor.dim %y, %c0 : tensor<?x?xf32>
      %b = tcp.broadcast %x, %d {axes = [0]} : tensor<1x?xf32>, index -> tensor<?x?xf32>
      %s = tcp.add %b, %y : tensor<?x?xf32>, tensor<?x?xf32> -> tensor<?x?xf32>
      %r = tcp.slice %s starts(%c0, %c0) sizes(%d, %c2) strides(%c1, %c2) : tensor<?x?xf32> -> tensor<?x2xf32>
      return %r : tensor<?x2xf32>
    }"""
    x, y = np.arange(4, dtype=F)[None], np.arange(12, dtype=F).reshape(3, 4)
    np.testing.assert_array_equal(run(text, x, y), (x + y)[:, ::2])


def test_gathers():
    text = """func.func @f(%x: tensor<3x2xf32>, %i: tensor<4x2xi64>) -> (tensor<4x2xf32>, tensor<4xf32>) {
      %a = tcp.gather %x, %i {dim = 0 : index} : tensor<3x2xf32>, tensor<4x2xi64> -> tensor<4x2xf32>
      %b = tcp.gather_nd %x, %i : tensor<3x2xf32>, tensor<4x2xi64> -> tensor<4xf32>
      return %a, %b : tensor<4x2xf32>, tensor<4xf32>
    }"""
    x, i = np.arange(6, dtype=F).reshape(3, 2), np.array([[2, 1], [0, 0], [1, 1], [2, 0]])
    rows, points = run(text, x, i)
    np.testing.assert_array_equal(rows, np.take_along_axis(x, i, 0))
    np.testing.assert_array_equal(points, x[i[:, 0], i[:, 1]])


def test_groups_constants_and_concatenation():
    text = """func.func @f(%x: tensor<?xf32>) -> tensor<?xf32> {
      %g = tcp.group {
        %t = tcp.add %x, %x : tensor<?xf32>, tensor<?xf32> -> tensor<?xf32>
        tcp.yield %t : tensor<?xf32>
      } : tensor<?xf32>
      %h = tcp.isolated_group %g attributes {group_type = "a"} {
      ^bb0(%u: tensor<?xf32>):
        %v = tcp.mul %u, %u : tensor<?xf32>, tensor<?xf32> -> tensor<?xf32>
        tcp.yield %v : tensor<?xf32>
      } : tensor<?xf32> -> tensor<?xf32>
      %c = tcp.const {value = dense<[1.0, 2.0]> : tensor<2xf32>} : tensor<2xf32>
      %r = tcp.concat %h, %c {axis = 0 : i64} : tensor<?xf32>, tensor<2xf32> -> tensor<?xf32>
      return %r : tensor<?xf32>
    }"""
    np.testing.assert_array_equal(run(text, np.array([3], F)), [36, 1, 2])
    np.testing.assert_array_equal(run(generic_text(text), np.array([3], F)), [36, 1, 2])


def test_symbols_bind_sizes_and_ranges():
    text = """func.func @f(%x: tensor<?x?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
      %s = tcp.symbolic_int "s0" {min_val = 2, max_val = 64} : i64
      tcp.bind_symbolic_shape %x, [%s], affine_map<()[s0] -> (s0, s0 * 2 + 1)> : tensor<?x?xf32>
      tcp.bind_symbolic_shape %y, [%s], affine_map<()[s0] -> ((s0 + 1) floordiv 2)> : tensor<?xf32>
      return %y : tensor<?xf32>
    }"""
    function = parse(text).main
    (symbol,) = function.symbols
    assert (symbol.lower, symbol.upper) == (2, 64)
    assert str(function.parameters[0].type) == f"f32[{symbol.name}, 2*{symbol.name} + 1]"
    reference(function)(np.zeros((4, 9), F), np.zeros(2, F))
    with pytest.raises(TcpError):
        reference(function)(np.zeros((4, 8), F), np.zeros(2, F))


def test_what_no_text_defines_is_an_input():
    text = """func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
      %0 = tcp.custom_op("my.op") %x {k = 1} : tensor<2xf32> -> tensor<2xf32>
      %1 = tcp.add %0, %x : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
      return %1 : tensor<2xf32>
    }"""
    function = parse(text).main
    assert function.parameter_names == ("x", "my.op")
    np.testing.assert_array_equal(reference(function)(np.ones(2, F), np.full(2, 3, F)), [4, 4])


REFUSED = """
func.func @elements(%x: tensor<?xf32>, %y: tensor<?xi32>) -> tensor<?xi32> {
  // expected-error@+1 {{'tcp.add' op requires the same element type for all operands and results}}
  %0 = tcp.add %x, %y : tensor<?xf32>, tensor<?xi32> -> tensor<?xi32>
  return %0 : tensor<?xi32>
}
// -----
func.func @shapes(%x: tensor<5xf32>) -> tensor<6xf32> {
  // expected-error@+1 {{'tcp.tanh' op all non-scalar operands/results must have the same shape and base type}}
  %0 = tcp.tanh %x : tensor<5xf32> -> tensor<6xf32>
  return %0 : tensor<6xf32>
}
// -----
func.func @axes(%x: tensor<1x7xf32>, %d: index) -> tensor<?x?xf32> {
  // expected-error@+1 {{dimensions listed in attribute `axes` have a static size of `1`}}
  %0 = tcp.broadcast %x, %d {axes = [1]} : tensor<1x7xf32>, index -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}
// -----
func.func @fine(%x: tensor<5xf32>) -> tensor<5xf32> {
  // expected-error@+1 {{nothing is wrong here}}
  %0 = tcp.tanh %x : tensor<5xf32> -> tensor<5xf32>
  return %0 : tensor<5xf32>
}
"""


def test_expected_errors(tmp_path):
    file = tmp_path / "refused.mlir"
    file.write_text(REFUSED)
    outcomes = list(run_file(file, Mode.REFERENCE))
    assert [(o.name, o.verdict.value) for o in outcomes] == [
        ("elements", "passed"), ("shapes", "passed"), ("axes", "passed"), ("fine", "failed")]
    assert "is not refused" in outcomes[-1].message

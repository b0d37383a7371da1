"""Operations in their own forms are the same as in generic form: both give the same program."""

# ruff: noqa: E501 (lines are programs)

from __future__ import annotations

import numpy as np
import pytest

from tcp_eqsat.errors import ParseError, TcpError
from tcp_eqsat.frontends.mlir import generic_text, parse
from tcp_eqsat.frontends.mlir.lexer import Source
from tcp_eqsat.frontends.mlir.literals import decode
from tcp_eqsat.frontends.mlir.lower import Lowered
from tcp_eqsat.frontends.mlir.modules import parse_module

HEAD = """func.func @f(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>, %i: tensor<i32>, %p: tensor<2x3xi1>, %z: tensor<f32>,
  %c: tensor<2x3xcomplex<f32>>, %n: tensor<2x3xi64>, %t: tuple<tensor<f32>, tensor<2xi32>>) -> RESULT {
  %r = OPERATION
  return %r : RESULT
}"""
X, Y, Z, N = "tensor<2x3xf32>", "tensor<2x3xf32>", "tensor<f32>", "tensor<2x3xi64>"
XY = f"({X}, {Y}) -> {X}"

PAIRS = [
    (X, f"stablehlo.tanh %x : {X}", f'"stablehlo.tanh"(%x) : ({X}) -> {X}'),
    (X, f"stablehlo.add %x, %y {{a = 1}} : {X}", f'"stablehlo.add"(%x, %y) {{a = 1}} : {XY}'),
    (X, f"stablehlo.power %x, %y : {XY}", f'"stablehlo.power"(%x, %y) : {XY}'),
    ("tensor<2x3xi1>", f"stablehlo.compare LT, %x, %y, FLOAT : ({X}, {Y}) -> tensor<2x3xi1>",
     f'"stablehlo.compare"(%x, %y) <{{comparison_direction = #stablehlo<comparison_direction LT>, '
     f'compare_type = #stablehlo<comparison_type FLOAT>}}> : ({X}, {Y}) -> tensor<2x3xi1>'),
    (X, f"stablehlo.select %p, %x, %y : tensor<2x3xi1>, {X}",
     f'"stablehlo.select"(%p, %x, %y) : (tensor<2x3xi1>, {X}, {Y}) -> {X}'),
    (X, f"stablehlo.clamp %z, %x, %z : ({Z}, {X}, {Z}) -> {X}",
     f'"stablehlo.clamp"(%z, %x, %z) : ({Z}, {X}, {Z}) -> {X}'),
    ("tensor<2x3xcomplex<f32>>", "stablehlo.complex %x, %y : tensor<2x3xcomplex<f32>>",
     f'"stablehlo.complex"(%x, %y) : ({X}, {Y}) -> tensor<2x3xcomplex<f32>>'),
    ("tensor<3x2xf32>", f"stablehlo.transpose %x, dims = [1, 0] : ({X}) -> tensor<3x2xf32>",
     f'"stablehlo.transpose"(%x) <{{permutation = array<i64: 1, 0>}}> : ({X}) -> tensor<3x2xf32>'),
    ("tensor<4x2x3xf32>", f"stablehlo.broadcast_in_dim %x, dims = [1, 2] : ({X}) -> tensor<4x2x3xf32>",
     f'"stablehlo.broadcast_in_dim"(%x) <{{broadcast_dimensions = array<i64: 1, 2>}}> : ({X}) -> tensor<4x2x3xf32>'),
    (X, f"stablehlo.broadcast_in_dim %z, dims = [] : ({Z}) -> {X}",
     f'"stablehlo.broadcast_in_dim"(%z) <{{broadcast_dimensions = array<i64>}}> : ({Z}) -> {X}'),
    ("tensor<1x2xf32>", f"stablehlo.slice %x [1:2, 0:3:2] : ({X}) -> tensor<1x2xf32>",
     f'"stablehlo.slice"(%x) <{{start_indices = array<i64: 1, 0>, limit_indices = array<i64: 2, 3>, '
     f'strides = array<i64: 1, 2>}}> : ({X}) -> tensor<1x2xf32>'),
    ("tensor<1x2xf32>", f"stablehlo.dynamic_slice %x, %i, %i, sizes = [1, 2] : ({X}, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>",
     f'"stablehlo.dynamic_slice"(%x, %i, %i) <{{slice_sizes = array<i64: 1, 2>}}> : ({X}, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>'),
    ("tensor<4x3xf32>", f"stablehlo.concatenate %x, %y, dim = 0 : ({X}, {Y}) -> tensor<4x3xf32>",
     f'"stablehlo.concatenate"(%x, %y) <{{dimension = 0 : i64}}> : ({X}, {Y}) -> tensor<4x3xf32>'),
    ("tensor<4x4xf32>", f"stablehlo.pad %x, %z, low = [0, 1], high = [1, 0], interior = [1, 0] : ({X}, {Z}) -> tensor<4x4xf32>",
     f'"stablehlo.pad"(%x, %z) <{{edge_padding_low = array<i64: 0, 1>, edge_padding_high = array<i64: 1, 0>, '
     f'interior_padding = array<i64: 1, 0>}}> : ({X}, {Z}) -> tensor<4x4xf32>'),
    ("tensor<3x3xf32>", f"stablehlo.dot_general %x, %y, contracting_dims = [0] x [0], precision = [DEFAULT, HIGHEST] : ({X}, {Y}) -> tensor<3x3xf32>",
     f'"stablehlo.dot_general"(%x, %y) <{{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [0], '
     f'rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision HIGHEST>]}}> : ({X}, {Y}) -> tensor<3x3xf32>'),
    ("tensor<2xf32>", f"stablehlo.reduce(%x init: %z) applies stablehlo.maximum across dimensions = [1] : ({X}, {Z}) -> tensor<2xf32>",
     f'"stablehlo.reduce"(%x, %z) <{{dimensions = array<i64: 1>}}> ({{ ^bb0(%a: {Z}, %b: {Z}): %m = stablehlo.maximum %a, %b : {Z} '
     f'stablehlo.return %m : {Z} }}) : ({X}, {Z}) -> tensor<2xf32>'),
    (N, "stablehlo.iota dim = 1 : tensor<2x3xi64>", '"stablehlo.iota"() <{iota_dimension = 1 : i64}> : () -> tensor<2x3xi64>'),
    (Z, f"stablehlo.get_tuple_element %t[0] : (tuple<tensor<f32>, tensor<2xi32>>) -> {Z}",
     f'"stablehlo.get_tuple_element"(%t) <{{index = 0 : i32}}> : (tuple<tensor<f32>, tensor<2xi32>>) -> {Z}'),
    (X, f"stablehlo.reverse %x, dims = [0] : {X}", f'"stablehlo.reverse"(%x) <{{dimensions = array<i64: 0>}}> : ({X}) -> {X}'),
    (X, f"stablehlo.reduce_precision %x, format = e5m10 : {X}",
     f'"stablehlo.reduce_precision"(%x) <{{exponent_bits = 5 : i32, mantissa_bits = 10 : i32}}> : ({X}) -> {X}'),
    (X, f"stablehlo.exponential %x {{result_accuracy = #stablehlo.result_accuracy<ulps = 10, mode = "
        f"#stablehlo.result_accuracy_mode<TOLERANCE>>}} : {X}", f'"stablehlo.exponential"(%x) : ({X}) -> {X}'),
    (X, f"stablehlo.optimization_barrier %x : {X}", f'"stablehlo.optimization_barrier"(%x) : ({X}) -> {X}'),
    (X, f"stablehlo.custom_call @mhlo.erf(%x) {{mhlo.attributes = {{}}}} : ({X}) -> {X}",
     f'"stablehlo.custom_call"(%x) <{{call_target_name = "mhlo.erf", mhlo.attributes = {{}}}}> : ({X}) -> {X}'),
    (X, f"chlo.lgamma %x : {X} -> {X}", f'"chlo.lgamma"(%x) : ({X}) -> {X}'),
    (X, f"mhlo.add %x, %y : {X}", f'"mhlo.add"(%x, %y) : {XY}'),
    ("tensor<3x3xf32>", f"stablehlo.einsum %x, %y, config = \"ab,ac->bc\" : ({X}, {Y}) -> tensor<3x3xf32>",
     f'"stablehlo.einsum"(%x, %y) <{{einsum_config = "ab,ac->bc"}}> : ({X}, {Y}) -> tensor<3x3xf32>'),
    ("tensor<f32>", f"stablehlo.constant {{a.b = 1 : i64}} dense<1.0> : {Z}", f'"stablehlo.constant"() <{{value = dense<1.0> : {Z}}}> : () -> {Z}'),
    ("tensor<f32>", f"stablehlo.constant() <{{value = dense<1.0> : {Z}}}> : () -> {Z}", f'"stablehlo.constant"() <{{value = dense<1.0> : {Z}}}> : () -> {Z}'),
]


def lowered(text: str) -> Lowered:
    (definition,) = parse_module(Source(text, "t.mlir")).definitions()
    return definition.lower()


def program(result: str, operation: str) -> str:
    return HEAD.replace("RESULT", result).replace("OPERATION", operation)


@pytest.mark.parametrize(("result", "own", "generic"), PAIRS, ids=[own.split()[0].split("(")[0] for _, own, _ in PAIRS])
def test_own_and_generic_form(result, own, generic):
    expected = lowered(program(result, generic)).function
    assert lowered(program(result, own)).function.results == expected.results
    again = generic_text(program(result, own))
    assert '"func.func"' in again and own.split()[0].split("(")[0] + " " not in again
    assert [str(x.type) for x in lowered(again).function.parameters] == [str(x.type) for x in expected.parameters]
    assert lowered(again).function.results == expected.results


@pytest.mark.parametrize("operation", [
    "stablehlo.slice %x [1:2 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>",
    "stablehlo.transpose %x, dims = 1 0 : (tensor<2x3xf32>) -> tensor<3x2xf32>",
    "stablehlo.reduce(%x init %z) applies stablehlo.add across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>",
    "stablehlo.reduce_precision %x, format = 5m10 : tensor<2x3xf32>",
    "stablehlo.select %p, %x, %y : tensor<2x3xi1>",
    "stablehlo.convolution(%x, %y) dim_numbers = [b, 0, f : (tensor<2x3xf32>) -> tensor<2x3xf32>",
    "stablehlo.dot_general %x, %y, contracting_dims = [0] y [0] : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<3x3xf32>",
    "stablehlo.iota dim = : tensor<2x3xi64>",
    'stablehlo.composite %x {} : (tensor<2x3xf32>) -> tensor<2x3xf32>',
])
def test_refused_forms(operation):
    with pytest.raises(ParseError) as caught:
        parse_module(Source(program("tensor<2x3xf32>", operation), "t.mlir"))
    assert caught.value.where is not None and caught.value.where.line >= 3


def test_several_modules_and_names():
    text = "module @a {\n  func.func @f() { return }\n}\n// -----\nfunc.func @f(%x: tensor<2xf32>) { return }\n"
    program = parse(text)
    assert list(program.functions) == ["f", "f.2"]
    with pytest.raises(TcpError) as caught:
        parse(text + "// -----\n\nfunc.func @g() {\n  oops\n}")
    assert caught.value.where.line == 9 and caught.value.where.column == 3


def test_resources_aliases_and_locations():
    text = """#loc = loc("a.py":1:2)
!t = tensor<2xf32>
!q = !quant.uniform<i8:f32, 0.5>
func.func @f(%x: !t loc("x"(#loc)), %q: tensor<2x!q>) -> (!t {jax.result_info = "a"}) {
  %0 = stablehlo.constant dense_resource<blob> : !t loc(#loc1)
  %1 = stablehlo.add %x, %0 : !t loc(fused["a", callsite("b" at #loc)])
  return %1 : !t loc(unknown)
} loc(#loc)
#loc1 = loc("name"(#loc))
{-# dialect_resources: { builtin: { blob: "0x040000000000803F00000040" } } #-}
"""
    module = parse_module(Source(text, "t.mlir"))
    (definition,) = module.definitions()
    function = definition.lower().function
    (constant,) = [x for x in function.nodes() if x.op.name == "constant"]
    assert constant.attributes.data.array.tolist() == [1.0, 2.0]
    (again,) = parse_module(Source(generic_text(text), "t.mlir")).definitions()
    assert again.lower().function.results[0] == function.results[0]


@pytest.mark.parametrize(("literal", "expected"), [
    ("dense<[(1.0, -2.0), (0x7F800000, 3.0)]> : tensor<2xcomplex<f32>>", [1 - 2j, complex("inf+3j")]),
    ("dense<(0.0, 1.0)> : tensor<complex<f64>>", 1j),
    ("dense<[0.1, -1.0, 0x7FC0]> : tensor<3xbf16>", [0.10009765625, -1.0, float("nan")]),
    ("dense<[-8, 7]> : tensor<2xi4>", [-8, 7]),
    ("dense<[0, 15]> : tensor<2xui4>", [0, 15]),
    ("dense<0x7F> : tensor<f8E4M3FN>", float("nan")),
    ('dense<"0x05"> : tensor<3xi1>', [True, False, True]),
    ('dense<"0x010001"> : tensor<3xi1>', [True, False, True]),
    ('dense<"0x0000803F00000040"> : tensor<complex<f32>>', 1 + 2j),
])
def test_literals_of_other_dtypes(literal, expected):
    source = Source(f'"a.b"() {{x = {literal}}} : () -> ()', "t.mlir")
    (op,) = parse_module(source).operations
    found = decode(op.attributes["x"], source).astype(complex)
    np.testing.assert_array_equal(found, np.array(expected, complex))

"""What operations of StableHLO and CHLO mean: programs that state what they expect of their own values."""

# ruff: noqa: E501 (lines are programs)

from __future__ import annotations

import pytest

from tcp_eqsat.conformance import Mode, check
from tcp_eqsat.frontends.mlir.lexer import Source
from tcp_eqsat.frontends.mlir.modules import parse_module


def outcome(body: str, mode: Mode = Mode.REFERENCE, around: str = "") -> str | None:
    text = f"{around}\nfunc.func @main() {{\n{body}\n  func.return\n}}\n"
    definitions = {x.name: x for x in parse_module(Source(text, "t.mlir")).definitions()}
    lowered = definitions["main"].lower()
    assert lowered.expectations, "a test expects something"
    return check(lowered.function, lowered.expectations, mode)


ADD = """({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    %s = stablehlo.add %a, %b : tensor<i64>
    stablehlo.return %s : tensor<i64>
})"""

PROGRAMS = {
    "gather_rows": """
  %x = stablehlo.constant dense<[[1, 2], [3, 4], [5, 6]]> : tensor<3x2xi64>
  %i = stablehlo.constant dense<[[2], [0], [9]]> : tensor<3x1xi32>
  %r = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0],
    start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 2>}> : (tensor<3x2xi64>, tensor<3x1xi32>) -> tensor<3x2xi64>
  check.expect_eq_const %r, dense<[[5, 6], [1, 2], [5, 6]]> : tensor<3x2xi64>""",
    "scatter_adds_and_skips_what_is_outside": f"""
  %x = stablehlo.constant dense<[1, 2, 3]> : tensor<3xi64>
  %i = stablehlo.constant dense<[[1], [1], [7]]> : tensor<3x1xi32>
  %u = stablehlo.constant dense<[10, 20, 30]> : tensor<3xi64>
  %r = "stablehlo.scatter"(%x, %i, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
    scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}> {ADD} : (tensor<3xi64>, tensor<3x1xi32>, tensor<3xi64>) -> tensor<3xi64>
  check.expect_eq_const %r, dense<[1, 32, 3]> : tensor<3xi64>""",
    "sort_two_operands_descending": """
  %k = stablehlo.constant dense<[2, 3, 1]> : tensor<3xi64>
  %v = stablehlo.constant dense<[20, 30, 10]> : tensor<3xi64>
  %r:2 = "stablehlo.sort"(%k, %v) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%a: tensor<i64>, %b: tensor<i64>, %c: tensor<i64>, %d: tensor<i64>):
      %p = stablehlo.compare GT, %a, %b, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
  }) : (tensor<3xi64>, tensor<3xi64>) -> (tensor<3xi64>, tensor<3xi64>)
  check.expect_eq_const %r#0, dense<[3, 2, 1]> : tensor<3xi64>
  check.expect_eq_const %r#1, dense<[30, 20, 10]> : tensor<3xi64>""",
    "reduce_with_a_region_of_two_results": """
  %x = stablehlo.constant dense<[[1, 7, 3], [9, 2, 2]]> : tensor<2x3xi64>
  %n = stablehlo.iota dim = 1 : tensor<2x3xi64>
  %c = stablehlo.constant dense<0> : tensor<i64>
  %r:2 = stablehlo.reduce(%x init: %c), (%n init: %c) across dimensions = [1] : (tensor<2x3xi64>, tensor<2x3xi64>, tensor<i64>, tensor<i64>) -> (tensor<2xi64>, tensor<2xi64>)
   reducer(%a: tensor<i64>, %b: tensor<i64>) (%i: tensor<i64>, %j: tensor<i64>) {
    %p = stablehlo.compare GE, %a, %b : (tensor<i64>, tensor<i64>) -> tensor<i1>
    %m = stablehlo.select %p, %a, %b : tensor<i1>, tensor<i64>
    %k = stablehlo.select %p, %i, %j : tensor<i1>, tensor<i64>
    stablehlo.return %m, %k : tensor<i64>, tensor<i64>
  }
  check.expect_eq_const %r#0, dense<[7, 9]> : tensor<2xi64>
  check.expect_eq_const %r#1, dense<[1, 0]> : tensor<2xi64>""",
    "reduce_in_a_wider_dtype": """
  %x = stablehlo.constant dense<[100, 100]> : tensor<2xi8>
  %c = stablehlo.constant dense<1> : tensor<i32>
  %r = stablehlo.reduce(%x init: %c) across dimensions = [0] : (tensor<2xi8>, tensor<i32>) -> tensor<i32>
   reducer(%a: tensor<i32>, %b: tensor<i32>) {
    %s = stablehlo.add %a, %b : tensor<i32>
    stablehlo.return %s : tensor<i32>
  }
  check.expect_eq_const %r, dense<201> : tensor<i32>""",
    "reduce_window_with_dilation_and_padding": f"""
  %x = stablehlo.constant dense<[1, 2, 3, 4]> : tensor<4xi64>
  %c = stablehlo.constant dense<0> : tensor<i64>
  %r = "stablehlo.reduce_window"(%x, %c) <{{window_dimensions = array<i64: 2>, window_dilations = array<i64: 2>,
    padding = dense<[[1, 0]]> : tensor<1x2xi64>}}> {ADD} : (tensor<4xi64>, tensor<i64>) -> tensor<3xi64>
  check.expect_eq_const %r, dense<[2, 4, 6]> : tensor<3xi64>""",
    "select_and_scatter": """
  %x = stablehlo.constant dense<[1, 5, 2, 4]> : tensor<4xi64>
  %s = stablehlo.constant dense<[10, 20]> : tensor<2xi64>
  %c = stablehlo.constant dense<0> : tensor<i64>
  %r = "stablehlo.select_and_scatter"(%x, %s, %c) <{window_dimensions = array<i64: 2>, window_strides = array<i64: 2>}> ({
    ^bb0(%a: tensor<i64>, %b: tensor<i64>):
      %p = stablehlo.compare GE, %a, %b : (tensor<i64>, tensor<i64>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
  }, {
    ^bb0(%a: tensor<i64>, %b: tensor<i64>):
      %t = stablehlo.add %a, %b : tensor<i64>
      stablehlo.return %t : tensor<i64>
  }) : (tensor<4xi64>, tensor<2xi64>, tensor<i64>) -> tensor<4xi64>
  check.expect_eq_const %r, dense<[0, 10, 0, 20]> : tensor<4xi64>""",
    "convolution": """
  %x = stablehlo.constant dense<[[[1.0], [2.0], [3.0]]]> : tensor<1x3x1xf32>
  %k = stablehlo.constant dense<[[[1.0]], [[10.0]]]> : tensor<2x1x1xf32>
  %r = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f],
    window = {stride = [1], pad = [[1, 0]], lhs_dilate = [1], rhs_dilate = [1], reverse = [false]}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x3x1xf32>, tensor<2x1x1xf32>) -> tensor<1x3x1xf32>
  check.expect_almost_eq_const %r, dense<[[[10.0], [21.0], [32.0]]]> : tensor<1x3x1xf32>""",
    "loop_that_captures": """
  %n = stablehlo.constant dense<5> : tensor<i64>
  %zero = stablehlo.constant dense<0> : tensor<i64>
  %one = stablehlo.constant dense<1> : tensor<i64>
  %r:2 = stablehlo.while(%i = %zero, %s = %one) : tensor<i64>, tensor<i64>
  cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i64>, tensor<i64>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %j = stablehlo.add %i, %one : tensor<i64>
    %t = stablehlo.multiply %s, %j : tensor<i64>
    stablehlo.return %j, %t : tensor<i64>, tensor<i64>
  }
  check.expect_eq_const %r#1, dense<120> : tensor<i64>""",
    "case_out_of_range_takes_the_last": """
  %i = stablehlo.constant dense<-3> : tensor<i32>
  %x = stablehlo.constant dense<[1, 2]> : tensor<2xi64>
  %r = "stablehlo.case"(%i) ({ stablehlo.return %x : tensor<2xi64> }, {
    %y = stablehlo.add %x, %x : tensor<2xi64>
    stablehlo.return %y : tensor<2xi64>
  }) : (tensor<i32>) -> tensor<2xi64>
  check.expect_eq_const %r, dense<[2, 4]> : tensor<2xi64>""",
    "if_with_tokens_and_tuples": """
  %p = stablehlo.constant dense<true> : tensor<i1>
  %x = stablehlo.constant dense<7> : tensor<i64>
  %t = stablehlo.create_token : !stablehlo.token
  %r:2 = "stablehlo.if"(%p) ({ stablehlo.return %t, %x : !stablehlo.token, tensor<i64> }, {
    %u = stablehlo.after_all %t : !stablehlo.token
    stablehlo.return %u, %x : !stablehlo.token, tensor<i64>
  }) : (tensor<i1>) -> (!stablehlo.token, tensor<i64>)
  %b = stablehlo.tuple %r#1, %p : tuple<tensor<i64>, tensor<i1>>
  %e = stablehlo.get_tuple_element %b[0] : (tuple<tensor<i64>, tensor<i1>>) -> tensor<i64>
  check.expect_eq_const %e, dense<7> : tensor<i64>""",
    "dynamic_shapes_from_constants": """
  %x = stablehlo.constant dense<[1, 2, 3, 4]> : tensor<4xi64>
  %s = stablehlo.constant dense<[2, 2]> : tensor<2xi32>
  %r = stablehlo.dynamic_reshape %x, %s : (tensor<4xi64>, tensor<2xi32>) -> tensor<?x?xi64>
  %c = stablehlo.constant dense<[2, 1]> : tensor<2xi32>
  %a = stablehlo.constant dense<[0, 1]> : tensor<2xi32>
  %b = stablehlo.constant dense<[2, 2]> : tensor<2xi32>
  %o = stablehlo.constant dense<[1, 1]> : tensor<2xi32>
  %w = stablehlo.real_dynamic_slice %r, %a, %b, %o : (tensor<?x?xi64>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<2x1xi64>
  check.expect_eq_const %w, dense<[[2], [4]]> : tensor<2x1xi64>
  %d = stablehlo.get_dimension_size %r, dim = 1 : (tensor<?x?xi64>) -> tensor<i32>
  check.expect_eq_const %d, dense<2> : tensor<i32>""",
    "bits_of_truth_values": """
  %x = stablehlo.constant dense<[5, 128]> : tensor<2xui8>
  %r = stablehlo.bitcast_convert %x : (tensor<2xui8>) -> tensor<2x8xi1>
  %y = stablehlo.bitcast_convert %r : (tensor<2x8xi1>) -> tensor<2xui8>
  check.expect_eq %y, %x : tensor<2xui8>
  %z = stablehlo.slice %r [0:1, 0:3] : (tensor<2x8xi1>) -> tensor<1x3xi1>
  check.expect_eq_const %z, dense<[[true, false, true]]> : tensor<1x3xi1>""",
    "total_order": """
  %x = stablehlo.constant dense<[-0.0, 0.0, 0x7FC00000]> : tensor<3xf32>
  %y = stablehlo.constant dense<[0.0, -0.0, 0x7F800000]> : tensor<3xf32>
  %r = stablehlo.compare LT, %x, %y, TOTALORDER : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
  check.expect_eq_const %r, dense<[true, false, false]> : tensor<3xi1>
  %v, %i = chlo.top_k(%x, k = 2) : tensor<3xf32> -> (tensor<2xf32>, tensor<2xi32>)
  check.expect_eq_const %i, dense<[2, 1]> : tensor<2xi32>""",
    "narrow_and_wide_contractions": """
  %x = stablehlo.constant dense<[100, 100]> : tensor<2xi8>
  %r = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<2xi8>, tensor<2xi8>) -> tensor<i32>
  check.expect_eq_const %r, dense<20000> : tensor<i32>
  %f = stablehlo.constant dense<[1.5, 2.0]> : tensor<2xf8E4M3FN>
  %s = stablehlo.add %f, %f : tensor<2xf8E4M3FN>
  check.expect_eq_const %s, dense<[3.0, 4.0]> : tensor<2xf8E4M3FN>
  %p = stablehlo.constant dense<[true, false]> : tensor<2xi1>
  %q = stablehlo.dot_general %p, %p, contracting_dims = [0] x [0] : (tensor<2xi1>, tensor<2xi1>) -> tensor<i1>
  check.expect_eq_const %q, dense<true> : tensor<i1>""",
    "quantised_addition": """
  %x = stablehlo.constant dense<[1.0, -2.0]> : tensor<2xf32>
  %q = stablehlo.uniform_quantize %x : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 0.5:1>>
  %s = stablehlo.add %q, %q : tensor<2x!quant.uniform<i8:f32, 0.5:1>>
  %r = stablehlo.uniform_dequantize %s : (tensor<2x!quant.uniform<i8:f32, 0.5:1>>) -> tensor<2xf32>
  check.expect_eq_const %r, dense<[2.0, -4.0]> : tensor<2xf32>""",
    "complex_parts": """
  %x = stablehlo.constant dense<[(1.0, 2.0), (0.0, -1.0)]> : tensor<2xcomplex<f32>>
  %m = stablehlo.multiply %x, %x : tensor<2xcomplex<f32>>
  check.expect_eq_const %m, dense<[(-3.0, 4.0), (-1.0, 0.0)]> : tensor<2xcomplex<f32>>
  %b = stablehlo.convert %x : (tensor<2xcomplex<f32>>) -> tensor<2xi1>
  check.expect_eq_const %b, dense<[true, false]> : tensor<2xi1>
  %i = stablehlo.imag %x : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
  check.expect_eq_const %i, dense<[2.0, -1.0]> : tensor<2xf32>""",
    "one_participant": """
  %x = stablehlo.constant dense<[1, 2]> : tensor<2xi64>
  %r = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<0> : tensor<1x1xi64>}> : (tensor<2xi64>) -> tensor<2xi64>
  check.expect_eq %r, %x : tensor<2xi64>
  %n = stablehlo.replica_id : tensor<ui32>
  check.expect_eq_const %n, dense<0> : tensor<ui32>
  %p = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<> : tensor<0x2xi64>}> : (tensor<2xi64>) -> tensor<2xi64>
  check.expect_eq_const %p, dense<0> : tensor<2xi64>""",
    "einsum_and_index_select": """
  %x = stablehlo.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi64>
  %r = stablehlo.einsum %x, %x, config = "ab,cb->ca" : (tensor<2x2xi64>, tensor<2x2xi64>) -> tensor<2x2xi64>
  check.expect_eq_const %r, dense<[[5, 11], [11, 25]]> : tensor<2x2xi64>
  %i = stablehlo.constant dense<[1, 0, 1]> : tensor<3xi32>
  %s = stablehlo.torch_index_select %x, %i, dim = 1, batch_dims = 0 : (tensor<2x2xi64>, tensor<3xi32>) -> tensor<2x3xi64>
  check.expect_eq_const %s, dense<[[2, 1, 2], [4, 3, 4]]> : tensor<2x3xi64>""",
    "batch_norm": """
  %x = stablehlo.constant dense<[[1.0], [3.0]]> : tensor<2x1xf32>
  %g = stablehlo.constant dense<2.0> : tensor<1xf32>
  %o = stablehlo.constant dense<1.0> : tensor<1xf32>
  %r:3 = "stablehlo.batch_norm_training"(%x, %g, %o) <{epsilon = 0.0 : f32, feature_index = 1 : i64}> : (tensor<2x1xf32>, tensor<1xf32>, tensor<1xf32>) -> (tensor<2x1xf32>, tensor<1xf32>, tensor<1xf32>)
  check.expect_almost_eq_const %r#0, dense<[[-1.0], [3.0]]> : tensor<2x1xf32>
  check.expect_almost_eq_const %r#1, dense<[2.0]> : tensor<1xf32>
  check.expect_almost_eq_const %r#2, dense<[1.0]> : tensor<1xf32>""",
    "linear_algebra": """
  %x = stablehlo.constant dense<[[4.0, 2.0], [2.0, 5.0]]> : tensor<2x2xf32>
  %l = stablehlo.cholesky %x, lower = true : tensor<2x2xf32>
  %b = stablehlo.constant dense<[[2.0], [5.0]]> : tensor<2x1xf32>
  %s = "stablehlo.triangular_solve"(%l, %b) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<2x2xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  check.expect_almost_eq_const %s, dense<[[1.0], [2.0]]> : tensor<2x1xf32>
  %c = stablehlo.constant dense<[1.0, 0.0, -1.0, 0.0]> : tensor<4xf32>
  %f = stablehlo.fft %c, type = RFFT, length = [4] : (tensor<4xf32>) -> tensor<3xcomplex<f32>>
  check.expect_almost_eq_const %f, dense<[(0.0, 0.0), (2.0, 0.0), (0.0, 0.0)]> : tensor<3xcomplex<f32>>
  %i = stablehlo.fft %f, type = IRFFT, length = [4] : (tensor<3xcomplex<f32>>) -> tensor<4xf32>
  check.expect_almost_eq %i, %c : tensor<4xf32>""",
    "custom_calls_by_name": """
  %x = stablehlo.constant dense<[0.0, 1.0]> : tensor<2xf32>
  %r = stablehlo.custom_call @mhlo.erf(%x) {mhlo.attributes = {}, mhlo.version = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  %e = chlo.erf %x : tensor<2xf32> -> tensor<2xf32>
  stablehlo.custom_call @check.expect_eq(%r, %e) {has_side_effect = true} : (tensor<2xf32>, tensor<2xf32>) -> ()
  %v, %i = stablehlo.custom_call @mhlo.topk(%x) {mhlo.attributes = {k = 1 : i64, largest = true}} : (tensor<2xf32>) -> (tensor<1xf32>, tensor<1xi32>)
  check.expect_eq_const %i, dense<1> : tensor<1xi32>""",
    "broadcasting_of_chlo": """
  %x = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %v = stablehlo.constant dense<[10.0, 20.0]> : tensor<2xf32>
  %r = chlo.broadcast_add %x, %v : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
  check.expect_eq_const %r, dense<[[11.0, 22.0], [13.0, 24.0]]> : tensor<2x2xf32>
  %l = "chlo.constant_like"(%v) <{value = 1.5 : f32}> : (tensor<2xf32>) -> tensor<2xf32>
  check.expect_eq_const %l, dense<1.5> : tensor<2xf32>""",
    "hyperbolic_functions": """
  %x = stablehlo.constant dense<[0.0, 0.5, -2.0, 89.0]> : tensor<4xf32>
  %c = chlo.cosh %x : tensor<4xf32> -> tensor<4xf32>
  check.expect_close %c, %c : tensor<4xf32>, tensor<4xf32>
  %s = chlo.sinh %x : tensor<4xf32> -> tensor<4xf32>
  %d = stablehlo.subtract %c, %s : tensor<4xf32>
  %a = stablehlo.slice %d [0:3] : (tensor<4xf32>) -> tensor<3xf32>
  check.expect_almost_eq_const %a, dense<[1.0, 0.60653066, 7.3890561]> : tensor<3xf32>""",
    "random_bits_follow_the_state": """
  %s = stablehlo.constant dense<[1, 2]> : tensor<2xui64>
  %t, %a = stablehlo.rng_bit_generator %s, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4xui32>)
  %u, %b = stablehlo.rng_bit_generator %s, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4xui32>)
  check.expect_eq %a, %b : tensor<4xui32>
  check.expect_eq %t, %u : tensor<2xui64>""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name):
    assert outcome(PROGRAMS[name]) is None


@pytest.mark.parametrize("name", [
    "gather_rows", "scatter_adds_and_skips_what_is_outside", "loop_that_captures", "quantised_addition",
    "complex_parts", "bits_of_truth_values", "linear_algebra", "reduce_window_with_dilation_and_padding",
])
def test_compiled_values(name):
    assert outcome(PROGRAMS[name], Mode.COMPILED) is None


AROUND = """func.func private @twice(%x: tensor<2xi64>) -> tensor<2xi64> {
  %0 = stablehlo.add %x, %x : tensor<2xi64>
  func.return %0 : tensor<2xi64>
}"""


def test_calls_and_composites_are_part_of_the_caller():
    assert outcome("""
  %x = stablehlo.constant dense<[1, 2]> : tensor<2xi64>
  %a = func.call @twice(%x) : (tensor<2xi64>) -> tensor<2xi64>
  %b = call @twice(%a) : (tensor<2xi64>) -> tensor<2xi64>
  %c = stablehlo.composite "my.twice" %b {composite_attributes = {n = 2 : i64}, decomposition = @twice} : (tensor<2xi64>) -> tensor<2xi64>
  check.expect_eq_const %c, dense<[8, 16]> : tensor<2xi64>""", around=AROUND) is None


def test_a_failure_names_place_and_values():
    message = outcome("""
  %x = stablehlo.constant dense<[[1.0, 2.0], [3.0, 0x7FC00000]]> : tensor<2x2xf32>
  check.expect_almost_eq_const %x, dense<[[1.0, 2.0], [3.5, 0x7FC00000]]> : tensor<2x2xf32>""")
    assert message == "%x in line 5 is not within 0.0001 at [1, 0]: got 3.0, expected 3.5"


@pytest.mark.parametrize(("relation", "passes"), [
    ("expect_almost_eq %x, %y, tolerance = 0.5", True), ("expect_almost_eq %x, %y", False), ("expect_eq %x, %y", False),
    ("expect_close %x, %y", False), ("expect_close %x, %y, max_ulp_difference = 2", True),
    ("expect_close %x, %y {max_ulp_difference = 1 : i64}", False),
])
def test_tolerances(relation, passes):
    values = "[1.0, 0x3F800002]" if "close" in relation or ("eq %" in relation and "almost" not in relation) else "[1.0, 1.25]"
    types = "tensor<2xf32>, tensor<2xf32>" if "close" in relation else "tensor<2xf32>"
    message = outcome(f"""
  %x = stablehlo.constant dense<{values}> : tensor<2xf32>
  %y = stablehlo.constant dense<1.0> : tensor<2xf32>
  check.{relation} : {types}""")
    assert (message is None) is passes

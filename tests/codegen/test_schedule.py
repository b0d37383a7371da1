"""Schedules: small loop nests as they must come out, for a processor with 16 lanes and 32 registers."""

from __future__ import annotations

import pytest
from plans import I, J, K, apply, choose, fold, number, single, tensor
from test_compile import B, S, layer_norm, product, softmax

from tcp_eqsat.codegen.axes import simplify_axes
from tcp_eqsat.codegen.graph import inline_kernel
from tcp_eqsat.codegen.loops import For, Nest, format_nest, verify_nest, walk_statements
from tcp_eqsat.codegen.schedule import schedule_kernel
from tcp_eqsat.codegen.target import CpuTarget
from tcp_eqsat.lang.plan import Plan

WIDE = CpuTarget("x86-64-v4", "", 512, 32, True, True, True, True, 32 << 10, 1 << 20)
NARROW = CpuTarget("x86-64", "", 128, 16, False, False, False, False, 32 << 10, 1 << 20)


def schedule(plan: Plan, target: CpuTarget = WIDE) -> Nest:
    nest = schedule_kernel(plan.kernels[0], plan, target)
    verify_nest(nest)
    return nest


def text(plan: Plan, target: CpuTarget = WIDE) -> str:
    return format_nest(schedule(plan, target)).split("\n", 1)[1]


def test_axes_coalesce_into_one_flat_loop() -> None:
    plan = single({"x": tensor("f32", B, S, 4)},
                  ("z", tensor("f32", B, S, 4), lambda at: apply("negative", at("x", I, J, K))))
    assert text(plan) == """\
  parallel for i < 4*b*s vector 16 copies 4:
    z_out[i] = negative(x[i])"""


def test_axes_coalesce_up_to_a_broadcast() -> None:
    plan = single({"x": tensor("f32", B, 3, 5), "c": tensor("f32", 3, 5)},
                  ("z", tensor("f32", B, 3, 5), lambda at: apply("add", at("x", I, J, K), at("c", J, K))))
    assert text(plan) == """\
  parallel for i < b:
    for j < 15 vector 16:
      z_out[15*i + j] = (x[15*i + j] + c[j])"""


def test_what_does_not_change_in_a_loop_is_named_before_it() -> None:
    plan = single({"x": tensor("f32", B, 64), "c": tensor("f32", B)},
                  ("z", tensor("f32", B, 64), lambda at: apply("add", at("x", I, J), apply("exp", at("c", I)))))
    assert text(plan) == """\
  parallel for i < b:
    t1 = exp(c[i])
    for j < 64 vector 16 copies 4:
      z_out[64*i + j] = (x[64*i + j] + t1)"""


def test_a_costly_row_is_kept() -> None:
    plan = single({"x": tensor("f32", B, 64), "c": tensor("f32", 64)},
                  ("z", tensor("f32", B, 64), lambda at: apply("add", at("x", I, J), apply("exp", at("c", J)))))
    assert text(plan) == """\
  for i < 64 vector 16:
    t1 = exp(c[i])
    row1[i] = t1
  parallel for j < b:
    for i < 64 vector 16 copies 4:
      z_out[64*j + i] = (x[64*j + i] + row1[i])"""


def test_softmax_keeps_its_exponentials() -> None:
    assert text(softmax(100)) == """\
  parallel for i < b:
    fold max1 by maximum:
      for j < 100 vector 16 copies 4:
        max1 <- x[100*i + j]
    fold sum2 by add:
      for j < 100 vector 16:
        t1 = exp((x[100*i + j] - max1))
        row1[j] = t1
        sum2 <- t1
    for j < 100 vector 16 copies 4:
      y_out[100*i + j] = (row1[j] / sum2)"""


def test_layer_norm_is_three_passes_and_stores_the_mean() -> None:
    assert text(layer_norm(64)) == """\
  parallel for i < b:
    fold sum1 by add:
      for j < 64 vector 16 copies 4:
        sum1 <- x[64*i + j]
    t1 = (sum1 / 64)
    fold sum2 by add:
      for j < 64 vector 16 copies 4:
        sum2 <- square((x[64*i + j] - t1))
    m_out[i] = t1
    t2 = rsqrt(((sum2 / 64) + 9.99999975e-06))
    for j < 64 vector 16 copies 4:
      y_out[64*i + j] = ((((x[64*i + j] - t1) * t2) * g[j]) + c[j])"""


def test_column_sums_are_vectors_along_the_columns() -> None:
    plan = single({"x": tensor("f32", B, S)}, ("z", tensor("f32", S), lambda at: fold("add", 1, (B,), at("x", J, I))))
    assert text(plan) == """\
  parallel for i < s vector 16 copies 4:
    fold sum1 by add:
      for j < b unroll 4:
        sum1 <- x[i + s*j]
    z_out[i] = sum1"""


def test_folds_over_the_same_axes_share_a_loop() -> None:
    plan = single(
        {"x": tensor("f32", B, 64)},
        ("s", tensor("f32", B), lambda at: fold("add", 1, (64,), at("x", I, J))),
        ("q", tensor("f32", B), lambda at: fold("add", 1, (64,), apply("square", at("x", I, J)))), outputs=("s", "q"))
    loops = [s for s in walk_statements(schedule(plan).body) if isinstance(s, For)]
    assert [loop.extent for loop in loops] == [B, 64]


def test_contraction_has_a_register_tile() -> None:
    assert text(product(96, 192, 64)) == """\
  parallel for i < 96 copies 6:
    for j < 192 vector 16 copies 4:
      fold sum1 by add:
        for k < 64 unroll 4:
          sum1 <- (x[64*i + k] * y[j + 192*k])  (fused)
      z_out[192*i + j] = sum1"""


def test_a_heavy_epilogue_runs_after_the_tile() -> None:
    plan = single(
        {"x": tensor("f32", B, 32), "w": tensor("f32", 32, 16)},
        ("z", tensor("f32", B, 16), lambda at: apply("tanh", fold(
            "add", 2, (32,), apply("multiply", at("x", I, K), at("w", K, J)), contraction=True))))
    assert text(plan) == """\
  parallel for i < b copies 8:
    for j < 16 vector 16:
      fold sum1 by add:
        for k < 32 unroll 4:
          sum1 <- (x[32*i + k] * w[j + 16*k])  (fused)
      row1[j + 16*i'] = sum1
    each i:
      for j < 16 vector 16:
        z_out[16*i + j] = tanh(row1[j + 16*i'])"""


@pytest.mark.parametrize("target", [WIDE, NARROW])
@pytest.mark.parametrize("plan", [product(B, S, 64), product(128, 768, 768), product(B, 16, 16), product(7, 10, B)])
def test_tiles_fit_the_registers(plan: Plan, target: CpuTarget) -> None:
    loops = [s for s in walk_statements(schedule(plan, target).body) if isinstance(s, For)]
    columns = next((loop.how.copies for loop in loops if loop.how.lanes > 1), 1)
    rows = next((loop.how.copies for loop in loops if loop.how.lanes == 1), 1)
    assert rows * columns + columns + 1 <= target.registers


def test_lanes_follow_the_widest_dtype_and_the_extent() -> None:
    for dtype, extent, lanes in (("f64", B, 8), ("f32", B, 16), ("i8", B, 64), ("bool", B, 64), ("f32", 5, 8)):
        plan = single({"x": tensor(dtype, extent)},
                      ("z", tensor(dtype, extent), lambda at: apply("maximum", at("x", I), at("x", I))))
        (loop,) = schedule(plan).body
        assert isinstance(loop, For) and loop.how.lanes == lanes


def test_a_decided_choice_is_no_choice() -> None:
    plan = single({"x": tensor("f32", 8), "y": tensor("f32", 8)},
                  ("z", tensor("f32", 8), lambda at: choose(I, 0, 8, at("x", I), at("y", I))))
    assert "if" not in text(plan) and "y[" not in text(plan)


def test_axes_of_one_element_vanish() -> None:
    plan = single({"x": tensor("f32", 1, B, 1, 6)},
                  ("z", tensor("f32", B, 1, 6), lambda at: apply("add", at("x", J, I, J, K), number(1))))
    graph, outputs = simplify_axes(*inline_kernel(plan.kernels[0], plan))
    assert len(outputs[0].axes) == 1 and graph.extents[outputs[0].axes[0]] == 6 * B


def test_equal_folds_at_equal_indices_are_one() -> None:
    plan = single(
        {"x": tensor("f32", B, 8)},
        ("a", tensor("f32", B), lambda at: fold("add", 1, (8,), at("x", I, J))),
        ("b", tensor("f32", B), lambda at: fold("add", 1, (8,), at("x", I, J))),
        ("z", tensor("f32", B, 8), lambda at: apply("subtract", apply("add", at("a", I), at("b", I)), at("x", I, J))))
    assert text(plan).count("fold") == 1


def test_no_array_is_named_twice() -> None:
    plan = single({"x": tensor("f32", B, 8)}, ("z", tensor("f32", 8, B, 2), lambda at: apply(
        "add", at("x", J, I), apply("multiply", at("x", J, K), number(2)))))
    names = [a.name for a in schedule(plan).arrays]
    assert sorted(names) == ["x", "z_out"]

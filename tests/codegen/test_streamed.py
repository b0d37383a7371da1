"""Contractions that read their large operand row by row: with caches so small that every operand is large."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from plans import I, J, K, apply, fold, frozen, random_array, single, tensor
from test_compile import B, S, arrays_for, check, product

from tcp_eqsat.codegen import streamed
from tcp_eqsat.codegen.compile import compile_plan
from tcp_eqsat.codegen.loops import For, format_nest, walk_statements
from tcp_eqsat.codegen.schedule import schedule_kernel
from tcp_eqsat.codegen.target import CpuTarget, available_targets, cpu_target
from tcp_eqsat.lang.plan import Plan

TARGETS = [replace(cpu_target(choice), l1_bytes=0, l2_bytes=0) for choice in available_targets()]
WIDE = CpuTarget("x86-64-v4", "", 512, 32, True, True, True, True, 0, 0)


@pytest.fixture(autouse=True)
def short_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of the large operand are longer than a page: else few of them are for a register tile."""
    monkeypatch.setattr(streamed, "PAGE", 0)


def text(plan: Plan, target: CpuTarget = WIDE) -> str:
    return format_nest(schedule_kernel(plan.kernels[0], plan, target))


def is_streamed(plan: Plan, target: CpuTarget = WIDE) -> bool:
    return "ordered for" in text(plan, target)


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("dtype", ["f32", "f64", "i32"])
def test_few_rows(dtype: str, target: CpuTarget) -> None:
    """Around the rows of a tile, the vectors of a step and the steps of a block."""
    for m, n, k in ((1, 130, 23), (2, 33, 6), (3, 7, 11), (4, 64, 10), (5, 65, 20), (8, 1, 9), (13, 40, 1),
                    (63, 17, 12), (64, 31, 31)):
        plan = product(m, n, k, dtype)
        check(plan, tolerance=0.0 if dtype == "i32" else 1e-4, target=target)
        assert is_streamed(product(m, 64, 40, dtype), target)
    assert not is_streamed(product(65, 64, 40, dtype), target)


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_the_first_operand_may_be_the_large_one(target: CpuTarget) -> None:
    plan = single({"w": tensor("f32", 30, 70), "x": tensor("f32", 9, 30)},
                  ("z", tensor("f32", 9, 70), lambda at: fold(
                      "add", 2, (30,), apply("multiply", at("w", K, J), at("x", I, K)), contraction=True)))
    check(plan, tolerance=1e-4, target=target)
    assert is_streamed(plan, target)


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_a_small_operand_whose_rows_are_columns(target: CpuTarget) -> None:
    plan = product(9, 70, 30, lhs="km")
    check(plan, tolerance=1e-4, target=target)
    assert is_streamed(plan, target)


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_rows_and_columns_whose_number_is_not_known(target: CpuTarget) -> None:
    """Few rows are streamed, many are not; no iteration runs twice, for it would add to its sum again."""
    rows = [{"b": n} for n in (0, 1, 2, 3, 4, 5, 7, 62, 63, 64, 65)]
    check(product(B, 70, 33), *rows, tolerance=1e-4, target=target)
    columns = [{"s": n} for n in (0, 1, 15, 16, 17, 33, 130)]
    check(product(5, S, 33), *columns, tolerance=1e-4, target=target)
    check(product(1, S, 33), *columns, tolerance=1e-4, target=target)
    assert "if 0 <= b < 64" in text(product(B, 70, 33)) and is_streamed(product(B, 70, 33))


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_what_follows_reads_the_sums(target: CpuTarget) -> None:
    """The product of two contractions of one operand, and the sum of each of its rows."""
    def rows(at, name: str):  # type: ignore[no-untyped-def]
        return fold("add", 2, (20,), apply("multiply", at("x", I, K), at(name, K, J)), contraction=True)

    plan = single(
        {"x": tensor("f32", 6, 20), "w": tensor("f32", 20, 70), "v": tensor("f32", 20, 70), "c": tensor("f32", 70)},
        ("gate", tensor("f32", 6, 70), lambda at: apply("logistic", apply("add", rows(at, "w"), at("c", J)))),
        ("z", tensor("f32", 6, 70), lambda at: apply("multiply", at("gate", I, J), rows(at, "v"))),
        ("t", tensor("f32", 6), lambda at: fold("add", 1, (70,), at("z", I, J))), outputs=("z", "t"))
    check(plan, tolerance=1e-4, target=target)
    assert text(plan).count("ordered for") == 2


def test_constants_and_operands_that_stay_in_cache_are_not_streamed() -> None:
    plan = product(8, 64, 64)
    assert not is_streamed(plan, replace(WIDE, l2_bytes=1 << 20))
    rng = np.random.default_rng(0)
    assert not is_streamed(frozen(plan, {"y": random_array(plan.parameters[1].type.dtype, (64, 64), rng)}))


def test_what_one_tile_reads_in_short_steps_is_not_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamed, "PAGE", 256)
    assert [is_streamed(product(m, n, 40)) for m, n in ((1, 64), (8, 64), (9, 64), (8, 65))] == [
        True, False, True, True]


def test_results_are_the_same_every_time() -> None:
    plan = product(7, 200, 50)
    function = compile_plan(plan, TARGETS[-1])
    arrays = arrays_for(plan, {})
    first = function(*arrays)
    shifted = [np.empty(x.size + 1, x.dtype)[1:].reshape(x.shape) for x in arrays]
    for x, y in zip(arrays, shifted, strict=True):
        y[...] = x
    np.testing.assert_array_equal(function(*shifted).view(np.uint32), first.view(np.uint32))


def test_loops_of_one_row_and_of_several() -> None:
    assert text(product(1, 256, 12)).split("\n", 1)[1] == """\
  for i < 256 vector 16 copies 4:
    fold sum1 by add:
      sum1 <- (x[0] * y[i])  (fused)
      sum1 <- (x[1] * y[i + 256])  (fused)
      sum1 <- (x[2] * y[i + 512])  (fused)
      sum1 <- (x[3] * y[i + 768])  (fused)
      sum1 <- (x[4] * y[i + 1024])  (fused)
      sum1 <- (x[5] * y[i + 1280])  (fused)
    row1[i] = sum1
  ordered for j < 1:
    for i < 256 vector 16 copies 4:
      fold sum1 by add:
        sum1 <- row1[i]
        sum1 <- (x[6*j + 6] * y[i + 1536*j + 1536])  (fused)
        sum1 <- (x[6*j + 7] * y[i + 1536*j + 1792])  (fused)
        sum1 <- (x[6*j + 8] * y[i + 1536*j + 2048])  (fused)
        sum1 <- (x[6*j + 9] * y[i + 1536*j + 2304])  (fused)
        sum1 <- (x[6*j + 10] * y[i + 1536*j + 2560])  (fused)
        sum1 <- (x[6*j + 11] * y[i + 1536*j + 2816])  (fused)
      row1[i] = sum1
  parallel for i < 256 vector 16 copies 4:
    z_out[i] = row1[i]"""
    several = text(product(5, 64, 22))
    assert """\
  ordered for l < 2:
    for i < 5:
      for m < 10 vector 16:
        row2[10*i + m] = x[22*i + 10*l + m + 2]
    for k < 64 vector 16 copies 2:
      t3 = y[k + 640*l + 128]
""" in several
    assert """\
      for i < 5 copies 4:
        fold sum1 by add:
          sum1 <- row1[80*i + k]
          sum1 <- (row2[10*i] * t3)  (fused)
""" in several


def test_blocks_fit_the_registers() -> None:
    for target in TARGETS:
        plan = product(9, 640, 40)
        nest = schedule_kernel(plan.kernels[0], plan, target)
        ordered = next(s for s in nest.body if isinstance(s, For) and s.how.ordered)
        across = next(s for s in ordered.body if isinstance(s, For) and s.how.copies > 1)
        lets = len(across.body) - 1
        rows = next(s for s in walk_statements(across.body) if isinstance(s, For))
        assert (lets + rows.how.copies) * across.how.copies + 1 <= target.registers

"""Operands of contractions in panels: with caches so small that everything is packed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from plans import I, J, K, L, PlanWriter, apply, fold, frozen, random_array, single, tensor
from test_compile import B, S, check, product
from test_random_plans import RandomKernel

from tcp_eqsat.codegen.compile import CompiledFunction
from tcp_eqsat.codegen.loops import Panels, format_nest
from tcp_eqsat.codegen.memory import pack
from tcp_eqsat.codegen.schedule import schedule_kernel
from tcp_eqsat.codegen.target import CpuTarget, available_targets, cpu_target
from tcp_eqsat.lang.plan import Plan, Role
from tcp_eqsat.lang.program import TensorData

TARGETS = [replace(cpu_target(choice), l1_bytes=0, l2_bytes=0) for choice in available_targets()]
BATCHES = [{"b": n} for n in (0, 1, 3, 8, 13, 63, 64, 65, 150)]


def with_constants(plan: Plan, *names: str) -> Plan:
    rng = np.random.default_rng(1)
    types = {p.name: p.type for p in plan.parameters}
    return frozen(plan, {n: random_array(types[n].dtype, types[n].shape, rng) for n in names})  # type: ignore[arg-type]


def packs(function: CompiledFunction) -> bool:
    """Whether something is copied into panels."""
    return "panels" in function.loops or "row" in function.loops


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("orders", [("mk", "kn"), ("mk", "nk"), ("km", "kn")])
@pytest.mark.parametrize("constant", [True, False])
def test_matrices(constant: bool, orders: tuple[str, str], dtype: str, target: CpuTarget) -> None:
    for m, n, k in ((B, 70, 33), (B, 5, 9), (B, 128, 0), (70, 131, 7), (8, 96, 16), (14, 65, 4), (64, 64, 64)):
        plan = product(m, n, k, dtype, *orders)
        plan = with_constants(plan, "y") if constant else plan
        function = check(plan, *(BATCHES if m is B else ({},)), tolerance=1e-4, target=target)
        if k and n >= 64 and (constant or m is B):
            assert packs(function)


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_columns_whose_number_is_not_known(target: CpuTarget) -> None:
    sizes = [{"b": b, "s": s} for b in (0, 1, 65) for s in (0, 1, 16, 33, 130)]
    check(product(B, S, 9), *sizes, tolerance=1e-4, target=target)
    check(product(B, 70, S), *sizes, tolerance=1e-4, target=target)
    check(product(70, S, B, rhs="nk"), *sizes, tolerance=1e-4, target=target)


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("epilogue", ["maximum", "tanh"])
def test_epilogues_follow_a_packed_contraction(epilogue: str, target: CpuTarget) -> None:
    plan = single(
        {"x": tensor("f32", B, 20), "w": tensor("f32", 20, 70), "c": tensor("f32", 70)},
        ("z", tensor("f32", B, 70), lambda at: apply("maximum", apply("tanh", apply("add", fold(
            "add", 2, (20,), apply("multiply", at("x", I, K), at("w", K, J)), contraction=True), at("c", J))),
            at("c", J)) if epilogue == "tanh" else apply("maximum", fold(
                "add", 2, (20,), apply("multiply", at("x", I, K), at("w", K, J)), contraction=True), at("c", J))))
    for constants in ((), ("w",), ("w", "c")):
        check(with_constants(plan, *constants), *BATCHES, tolerance=1e-4, target=target)


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("constant", [True, False])
def test_batches_and_several_contracted_axes(constant: bool, target: CpuTarget) -> None:
    batched = single(
        {"x": tensor("f32", 3, B, 9), "y": tensor("f32", 3, 9, 70)},
        ("z", tensor("f32", 3, B, 70), lambda at: fold(
            "add", 3, (9,), apply("multiply", at("x", I, J, L), at("y", I, L, K)), contraction=True)))
    apart = single(
        {"x": tensor("f32", B, 4, 9), "y": tensor("f32", 9, 70, 4)},
        ("z", tensor("f32", B, 70), lambda at: fold(
            "add", 2, (4, 9), apply("multiply", at("x", I, K, L), at("y", L, J, K)), contraction=True)))
    for plan in (batched, apart):
        check(with_constants(plan, "y") if constant else plan, *BATCHES, tolerance=1e-4, target=target)


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_a_computed_operand_is_computed_once_a_panel(target: CpuTarget) -> None:
    plan = single(
        {"x": tensor("f32", B, 20), "w": tensor("f32", 20, 70)},
        ("z", tensor("f32", B, 70), lambda at: fold(
            "add", 2, (20,), apply("multiply", at("x", I, K), apply("abs", at("w", K, J))), contraction=True)))
    for constants in ((), ("w",)):
        check(with_constants(plan, *constants), *BATCHES, tolerance=1e-4, target=target)


@pytest.mark.parametrize("seed", range(60))
def test_random_kernels(seed: int) -> None:
    plan = RandomKernel(1000 + seed).plan()
    names = [p.name for p in plan.parameters if all(isinstance(n, int) for n in p.type.shape)]
    sizes = ({"b": 0}, {"b": 1}, {"b": 5}, {"b": 70})
    check(with_constants(plan, *names), *sizes, tolerance=1e-9, target=TARGETS[seed % len(TARGETS)])


def test_equal_kernels_share_code_but_not_panels() -> None:
    rng = np.random.default_rng(0)
    writer = PlanWriter()
    writer.parameter("x", tensor("f32", B, 16))
    source = "x"
    for n in range(3):
        writer.constant(f"w{n}", rng.standard_normal((16, 16)).astype(np.float32))
        writer.kernel({f"h{n}": Role.RESULT if n == 2 else Role.TEMPORARY}, (
            f"h{n}", tensor("f32", B, 16), lambda at, source=source, n=n: fold(
                "add", 2, (16,), apply("multiply", at(source, I, K), at(f"w{n}", K, J)), contraction=True)))
        source = f"h{n}_out"
    function = check(writer.plan(), *BATCHES, tolerance=1e-3, target=TARGETS[-1])
    assert len(function.nests) < 3 and "panels" in function.loops


def test_panels_hold_columns_side_by_side() -> None:
    x = np.arange(2 * 3 * 5, dtype=np.float32).reshape(2, 3, 5)
    panels = Panels("x", 0, ((2, 15), (3, 5)), 1, 5, 1, 4)
    packed = pack(TensorData(x), panels).array
    assert packed.size == panels.size == 2 * 2 * 3 * 4
    padded = np.pad(x, ((0, 0), (0, 0), (0, 3)))
    np.testing.assert_array_equal(
        packed.reshape(2, 2, 3, 4), padded.reshape(2, 3, 2, 4).transpose(0, 2, 1, 3))


def test_columns_that_lie_apart_are_gathered_once() -> None:
    """Where both operands are contiguous along the contracted axis, and there are rows enough."""
    wide = CpuTarget("x86-64-v4", "", 512, 32, True, True, True, True, 32 << 10, 1 << 20)
    plan = product(64, 64, 16, rhs="nk")
    assert format_nest(schedule_kernel(plan.kernels[0], plan, wide)).split("\n", 1)[1] == """\
  parallel for i < 64 vector 16 copies 4:
    for j < 16 copies 16:
      t1 = y[16*i + j]
      row1[64*j + i'] = t1
    for k < 64 copies 6:
      fold sum1 by add:
        for j < 16 unroll 4:
          prefetch row1[64*j + i' + 1024]
          sum1 <- (x[16*k + j] * row1[64*j + i'])  (fused)
      z_out[64*k + i] = sum1"""


def test_panels_as_loops() -> None:
    """For a processor with 16 lanes and 32 registers: a packed constant, and copies where there are enough rows."""
    wide = CpuTarget("x86-64-v4", "", 512, 32, True, True, True, True, 0, 32 << 10)
    constant = with_constants(product(B, 192, 64), "y")
    assert format_nest(schedule_kernel(constant.kernels[0], constant, wide)) == """\
nest k0(x: f32[64*b], panels1: f32[12288] = y in panels of 64 columns) -> (z_out: f32[192*b])
  parallel for i < 192 vector 16 copies 4:
    for j < b copies 6:
      fold sum1 by add:
        for k < 64 unroll 4:
          prefetch panels1[64*i + 64*k - 63*i' + 1024]
          sum1 <- (x[64*j + k] * panels1[64*i + 64*k - 63*i'])  (fused)
      z_out[192*j + i] = sum1"""
    plan = product(96, 192, 64)
    assert format_nest(schedule_kernel(plan.kernels[0], plan, wide)) == """\
nest k0(y: f32[12288], x: f32[6144]) -> (z_out: f32[18432]) scratch (row1: f32[4096])
  parallel for i < 192 vector 16 copies 4:
    for j < 64:
      t1 = y[i + 192*j]
      row1[64*j + i'] = t1
    for k < 96 copies 6:
      fold sum1 by add:
        for j < 64 unroll 4:
          prefetch row1[64*j + i' + 1024]
          sum1 <- (x[64*k + j] * row1[64*j + i'])  (fused)
      z_out[192*k + i] = sum1"""

"""Plans compute what the program does: random programs, real ones, and results that need no arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from programs import random_program

from benchmarks.models import MODELS, bert
from tcp_eqsat.egraph.view import program_view
from tcp_eqsat.extract import Extraction, baseline, extract, load_cost_model
from tcp_eqsat.lang.apart import take_apart
from tcp_eqsat.lang.atoms import refine_axes
from tcp_eqsat.lang.dims import symbol
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.ops.attributes import ReduceAttributes
from tcp_eqsat.lang.plan import Plan, Role, format_kernel
from tcp_eqsat.lang.plan_reference import evaluate_plan
from tcp_eqsat.lang.program import Function, Node
from tcp_eqsat.lang.reference import evaluate
from tcp_eqsat.lang.scalar import scalar_op_named
from tcp_eqsat.lang.specialise import freeze
from tcp_eqsat.lang.types import F32, TensorType
from tcp_eqsat.pipeline import expanded

CPU = load_cost_model("cpu")
B = symbol("b", 0, 1000)


def parameter(name: str, number: int, *shape: object) -> Node:
    return builders.parameter(name, number, TensorType(F32, tuple(shape)))


def scalar_map(name: str, *operands: Node) -> Node:
    return builders.map_scalar(scalar_op_named(name), *operands)


def planned(function: Function) -> Extraction:
    return extract(program_view(function), function, CPU)


def assert_same(plan: Plan, function: Function, arrays: tuple[np.ndarray, ...]) -> None:
    for found, expected in zip(evaluate_plan(plan, arrays), evaluate(function, arrays), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("size", [3, 8, 30])
def test_random_programs(size: int) -> None:
    for seed in range(40):
        sample = random_program(seed=seed, size=size, stable=True)
        function = take_apart(expanded(sample.function)).plain
        before, best = baseline(function, CPU), planned(function)
        assert best.cost <= before.cost
        for variant in range(2):
            arrays = sample.arrays(variant, "tame")
            for plan in (before.plan, best.plan):
                assert_same(plan, function, arrays)
            for found, expected in zip(
                    evaluate(best.function, arrays), evaluate(function, arrays), strict=True):
                np.testing.assert_array_equal(found, expected)


KERNELS = {"mlp_tanh": (9, 3), "mlp_full": (23, 4), "softmax": (5, 1), "layer_norm": (11, 1), "group_norm": (14, 3),
           "gelu_dense": (7, 1), "attention_block": (16, 7), "bert": (49, 11)}


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("name", KERNELS)
def test_real_programs(name: str, frozen: bool) -> None:
    model = MODELS[name]()
    function = freeze(model.program.main, model.weights) if frozen else model.program.main
    refinement = refine_axes(function)
    view = program_view(refinement.refined)
    types = {"parameter_types": refinement.parameter_types, "result_types": refinement.result_types}
    before = baseline(refinement.refined, CPU, **types)
    best = extract(view, refinement.refined, CPU, **types)
    assert len(before.plan.kernels) == KERNELS[name][0]
    assert len(best.plan.kernels) <= KERNELS[name][1]
    assert best.cost < before.cost
    for b, s in ((0, 3), (2, 5)):
        arrays = model.arrays(b=b, s=s)
        given = tuple(a for a, p in zip(arrays, model.program.main.parameters, strict=True)
                      if not frozen or p.attributes.name not in model.weights)
        assert_same(best.plan, function, given)


def test_a_deep_encoder_takes_few_steps() -> None:
    model = bert(12, 48, 3)
    function = refine_axes(model.program.main).refined
    best = planned(function)
    assert len(best.plan.kernels) == 12 * 11
    assert best.report.steps < 6000


def test_results_that_need_no_arithmetic() -> None:
    x, y = parameter("x", 0, B, 4), parameter("y", 1, 4)
    table = builders.constant(np.arange(8, dtype=np.float32).reshape(2, 4))
    results = (
        x, x, builders.transpose(x, (1, 0)), builders.reshape(x, (B * 4,)), table,
        builders.splat(2.5, F32, (B, 3)), builders.iota(F32, (B, 2), 0), builders.slice_(x, (0, 1), (B, 3)),
        builders.reshape(builders.transpose(x, (1, 0)), (B * 4,)), y)
    function = Function("copies", (x, y), results)
    for plan in (baseline(function, CPU).plan, planned(function).plan):
        for b in (0, 1, 5):
            random = np.random.default_rng(b)
            arrays = (random.standard_normal((b, 4)).astype(np.float32), random.standard_normal(4).astype(np.float32))
            assert_same(plan, function, arrays)


def test_no_results_are_no_kernels() -> None:
    x = parameter("x", 0, B)
    plan = planned(Function("nothing", (x,), ())).plan
    assert plan.kernels == () and [p.name for p in plan.parameters] == ["x"]


def test_a_reshaped_result_is_another_shape_of_its_memory() -> None:
    x = parameter("x", 0, B, 4)
    y = scalar_map("tanh", x)
    function = Function("f", (x,), (builders.reshape(y, (B * 4,)), y))
    plan = planned(function).plan
    (kernel,) = plan.kernels
    assert len(kernel.outputs) == 2
    assert_same(plan, function, (np.ones((3, 4), np.float32),))


def test_a_reshape_that_stays_reads_memory() -> None:
    x = parameter("x", 0, 6, 4)
    y = builders.reshape(scalar_map("tanh", x), (8, 3))
    function = Function("f", (x,), (scalar_map("negative", y),))
    plan = planned(function).plan
    assert len(plan.kernels) == 2
    assert [b.alias is not None for b in plan.buffers.values()].count(True) == 1
    assert_same(plan, function, (np.linspace(-1, 1, 24, dtype=np.float32).reshape(6, 4),))


def test_views_and_slices_become_indices() -> None:
    x = parameter("x", 0, B, 8)
    y = builders.transpose(builders.slice_(x, (0, 1), (B, 7), (1, 2)), (1, 0))
    best = planned(Function("f", (x,), (scalar_map("tanh", y),)))
    (kernel,) = best.plan.kernels
    assert format_kernel(kernel, best.plan).splitlines()[1] == (
        "  tanh[i, j]: f32[3, b] = tanh(x[j, 2*i + 1])  -> result")


def test_constants_are_computed_when_compiling() -> None:
    x = parameter("x", 0, B, 4)
    w = builders.constant(np.arange(16, dtype=np.float32).reshape(4, 4))
    doubled = scalar_map("multiply", builders.concatenate((w, w), 1), builders.splat(2, F32, (4, 8)))
    product = builders.dot_general(x, doubled, ((1,), (0,)))
    function = Function("f", (x,), (product,), {doubled: "doubled"})
    plan = planned(function).plan
    assert len(plan.kernels) == 1
    (constant,) = (b for b in plan.buffers.values() if b.role is Role.CONSTANT)
    assert constant.name == "doubled" and constant.data is not None
    np.testing.assert_array_equal(constant.data.array[:, 4:], 2 * np.arange(16, dtype=np.float32).reshape(4, 4))
    assert_same(plan, function, (np.ones((2, 4), np.float32),))


def test_a_large_broadcast_of_constants_is_not_stored() -> None:
    x = parameter("x", 0, 3, 1000, 40)
    row = builders.constant(np.linspace(0, 1, 40, dtype=np.float32))
    shifted = scalar_map("add", builders.broadcast_in_dim(row, (3, 1000, 40), (2,)), builders.splat(1, F32, x.shape))
    plan = planned(Function("f", (x,), (scalar_map("multiply", x, shifted),))).plan
    (constant,) = (b for b in plan.buffers.values() if b.role is Role.CONSTANT)
    assert constant.type == TensorType(F32, (40,))


def test_two_results_of_equal_axes_share_a_kernel() -> None:
    x = parameter("x", 0, B, 256)
    e = scalar_map("exp", x)
    function = Function("f", (x,), (e, scalar_map("tanh", e)))
    plan = planned(function).plan
    (kernel,) = plan.kernels
    assert len(kernel.outputs) == 2
    assert_same(plan, function, (np.ones((2, 256), np.float32),))


def test_reductions_for_different_axes_are_different_kernels() -> None:
    x = parameter("x", 0, B, 64)
    add = scalar_op_named("add")
    rows = builders.broadcast_in_dim(builders.reduce_axes(add, x, (1,)), x.shape, (0,))
    columns = builders.broadcast_in_dim(builders.reduce_axes(add, x, (0,)), x.shape, (1,))
    function = Function("f", (x,), (scalar_map("add", rows, columns),))
    best = planned(function)
    assert len(best.plan.kernels) == 2
    assert_same(best.plan, function, (np.random.default_rng(0).standard_normal((5, 64)).astype(np.float32),))


def test_a_reduction_of_a_contraction_is_another_kernel() -> None:
    x, w = parameter("x", 0, B, 8), parameter("w", 1, 8, 8)
    y = builders.dot_general(x, w, ((1,), (0,)))
    best = planned(Function("f", (x, w), (builders.reduce_axes(scalar_op_named("maximum"), y, (1,)),)))
    assert [k.origin for k in best.plan.kernels] == ["contract", "reduce"]


def test_reductions_without_reduced_axes_are_views() -> None:
    x = parameter("x", 0, 4, B)
    add = scalar_op_named("add")
    turned = builders.reduce(add, x, ReduceAttributes(add, (1, 0), (B, 4), 2))
    function = Function("f", (x,), (scalar_map("negative", turned),))
    best = planned(function)
    assert len(best.plan.kernels) == 1
    assert_same(best.plan, function, (np.arange(12, dtype=np.float32).reshape(4, 3),))


def test_names_survive() -> None:
    x = parameter("x", 0, B, 8)
    hidden = scalar_map("exp", x)
    function = Function("f", (x,), (scalar_map("negative", hidden),), {hidden: "hidden"})
    best = planned(function)
    assert best.plan.kernels[0].definitions[0].name == "hidden"
    assert "hidden" in best.function.names.values()
    assert best.function.parameters == function.parameters


def test_the_same_plan_every_time() -> None:
    function = refine_axes(MODELS["bert"]().program.main).refined
    first, second = planned(function), planned(function)
    assert first.plan.kernels == second.plan.kernels and first.cost == second.cost
    assert first.report.steps == second.report.steps


def test_the_graph_shows_kernels_and_buffers() -> None:
    best = planned(refine_axes(MODELS["mlp_full"]().program.main).refined)
    graph = best.graph
    kernels = [n for n in graph if n[0] == "kernel"]
    assert len(kernels) == len(best.plan.kernels)
    assert sum(graph.nodes[k]["cost"] for k in kernels) == pytest.approx(best.cost)
    assert all(graph.in_degree(k) and graph.out_degree(k) for k in kernels)

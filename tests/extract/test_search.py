"""The joint search: merges, scales, exact optima of small e-graphs, budgets."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from equal_values import view_of

from benchmarks.models import attention_block
from tcp_eqsat.egraph.view import EGraphView
from tcp_eqsat.errors import VerificationError
from tcp_eqsat.extract import Extraction, SearchEnd, extract, load_cost_model
from tcp_eqsat.extract.cost import representative_sizes
from tcp_eqsat.extract.greedy import greedy_choice
from tcp_eqsat.extract.partition import Change, Partition
from tcp_eqsat.extract.seeds import fused
from tcp_eqsat.extract.selection import Selection
from tcp_eqsat.extract.terms import GIVEN, compile_terms
from tcp_eqsat.lang.atoms import refine_axes
from tcp_eqsat.lang.budget import Budget
from tcp_eqsat.lang.dims import symbol
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.plan_reference import evaluate_plan
from tcp_eqsat.lang.program import Function, Node, Region, walk
from tcp_eqsat.lang.reference import evaluate
from tcp_eqsat.lang.scalar import scalar_op_named
from tcp_eqsat.lang.specialise import freeze
from tcp_eqsat.lang.types import F32, TensorType

CPU = load_cost_model("cpu")
B = symbol("b", 1, 1 << 20)


def parameter(name: str, number: int, *shape: object) -> Node:
    return builders.parameter(name, number, TensorType(F32, tuple(shape)))


def constant(*shape: int, seed: int = 0) -> Node:
    return builders.constant(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def scalar_map(name: str, *operands: Node) -> Node:
    return builders.map_scalar(scalar_op_named(name), *operands)


def product(x: Node, w: Node) -> Node:
    return builders.dot_general(x, w, ((len(x.shape) - 1,), (0,)))


def cut(x: Node, axis: int, start: int, limit: int) -> Node:
    starts = tuple(start if a == axis else 0 for a in range(len(x.shape)))
    return builders.slice_(x, starts, tuple(limit if a == axis else n for a, n in enumerate(x.shape)))


def merged_siblings(siblings: Sequence[Node], axis: int) -> list[tuple[Node, Node]]:
    """Contractions that share their first operand, and maps of them with a broadcast constant, as slices of one."""
    first = siblings[0]
    if first.op.name == "contract":
        a = first.attributes
        side = a.rhs.index(axis)
        joined = builders.concatenate(tuple(c.operands[1] for c in siblings), side)
        extents = tuple(joined.shape[side] if n == axis else e for n, e in enumerate(a.extents))
        whole = builders.contract(first.operands[0], joined, a.lhs, a.rhs, extents, a.rank)
        found: list[tuple[Node, Node]] = []
    else:
        found = merged_siblings([s.operands[0] for s in siblings], axis)
        whole = found[0][1].operands[0]
        view = first.operands[1]
        side = view.attributes.labels.index(axis)
        joined = builders.concatenate(tuple(s.operands[1].operands[0] for s in siblings), side)
        whole = builders.map_function(
            first.attributes.function, whole, builders.view(joined, view.attributes.labels, whole.shape))
    start = 0
    for s in siblings:
        found.append((s, cut(whole, axis, start, start + s.shape[axis])))
        start += s.shape[axis]
    return found


def attention() -> tuple[Function, EGraphView]:
    model = attention_block()
    function = refine_axes(freeze(model.program.main, model.weights)).refined
    (x,) = function.parameters
    sums = [n for n in walk(function.results) if n.op.name == "map" and n.operands[0].op.name == "contract"
            and n.operands[0].operands[0] is x]
    assert len(sums) == 3
    return function, view_of(function, merged_siblings(sums, 2))


def assert_same(best: Extraction, function: Function, **sizes: int) -> None:
    random = np.random.default_rng(1)
    arrays = tuple(random.standard_normal([sizes.get(str(n), n) for n in p.shape]).astype(np.float32)
                   for p in function.parameters)
    expected = evaluate(function, arrays)
    for found in (evaluate_plan(best.plan, arrays), evaluate(best.function, arrays)):
        for x, y in zip(found, expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-4)


def test_attention_merges_its_projections() -> None:
    function, view = attention()
    best = extract(view, function, CPU)
    assert len(best.plan.kernels) == 5
    assert [k.origin for k in best.plan.kernels].count("contract, add") == 2
    assert sum(n.op.name == "contract" for n in best.function.nodes()) == 4
    assert_same(best, function, b=2, s=5)


def test_activations_stay_apart_when_merging_costs_copies() -> None:
    """The weights are arguments: concatenating them on every call costs more than reading x twice."""
    x, w, v = parameter("x", 0, 4, 64), parameter("w", 1, 64, 512), parameter("v", 2, 64, 512)
    y, z = product(x, w), product(x, v)
    function = Function("f", (x, w, v), (scalar_map("multiply", y, z),))
    best = extract(view_of(function, merged_siblings((y, z), 1)), function, CPU)
    assert not any(n.op.name == "concatenate" for n in best.function.nodes())


def scaled() -> tuple[Function, EGraphView]:
    """tanh(x @ w) * c = tanh(x @ w) * c; x @ (w * c) is another way to say (x @ w) * c."""
    x, w, c = parameter("x", 0, B, 64), constant(64, 32), builders.splat(0.125, F32, (64, 32))
    y = product(x, w)
    z = scalar_map("multiply", y, builders.splat(0.125, F32, y.shape))
    function = Function("f", (x,), (scalar_map("tanh", z),))
    return function, view_of(function, [(z, product(x, scalar_map("multiply", w, c)))])


def test_a_scale_moves_into_frozen_weights() -> None:
    function, view = scaled()
    best = extract(view, function, CPU)
    assert [k.origin for k in best.plan.kernels] == ["contract, tanh"]
    assert_same(best, function, b=3)


def gated() -> tuple[Function, EGraphView]:
    """SwiGLU: merging costs an epilogue."""
    x, w, v = parameter("x", 0, B, 16), constant(16, 32), constant(16, 32, seed=1)
    y, z = product(x, w), product(x, v)
    function = Function("f", (x,), (scalar_map("multiply", scalar_map("logistic", y), z),))
    return function, view_of(function, merged_siblings((y, z), 1))


def shared_producer() -> tuple[Function, EGraphView]:
    """A value that two reductions over different axes need."""
    x = parameter("x", 0, B, 64)
    e = scalar_map("exp", x)
    add = scalar_op_named("add")
    rows = builders.broadcast_in_dim(builders.reduce_axes(add, e, (1,)), x.shape, (0,))
    columns = builders.broadcast_in_dim(builders.reduce_axes(add, e, (0,)), x.shape, (1,))
    function = Function("f", (x,), (scalar_map("add", rows, columns),))
    return function, view_of(function)


def factored() -> tuple[Function, EGraphView]:
    """x*y + x*z or x*(y + z), x being an exponential that a second result needs, too."""
    p, y, z = (parameter(n, i, B, 32) for i, n in enumerate("pyz"))
    x = scalar_map("exp", p)
    spread = scalar_map("add", scalar_map("multiply", x, y), scalar_map("multiply", x, z))
    function = Function("f", (p, y, z), (spread, scalar_map("negative", x)))
    return function, view_of(function, [(spread, scalar_map("multiply", x, scalar_map("add", y, z)))])


def exhaustive(view: EGraphView, function: Function) -> float:
    """The least cost over all choices of e-nodes and of what is stored."""
    terms = compile_terms(view, CPU, representative_sizes(function.symbols))
    base = greedy_choice(terms)
    options = [list(found) or [-1] for found in terms.terms]
    several = [c for c, found in enumerate(options) if len(found) > 1]
    best = float("inf")
    for picked in itertools.product(*(options[c] for c in several)):
        choice = list(base)
        for c, index in zip(several, picked, strict=True):
            choice[c] = index
        selection = Selection(terms, choice)
        toggles = [c for c in selection.reachable() if selection.form(c) not in GIVEN]
        for size in range(len(toggles) + 1):
            for stored in itertools.combinations(toggles, size):
                best = min(best, Partition(Selection(terms, choice, set(stored))).total())
    return best


@pytest.mark.parametrize("make", [scaled, gated, shared_producer, factored])
def test_small_e_graphs_are_solved_exactly(make) -> None:
    function, view = make()
    best = extract(view, function, CPU)
    assert best.cost <= exhaustive(view, function) * (1 + 1e-9)
    assert_same(best, function, b=4)


def test_estimates_of_changes_are_true() -> None:
    function, view = attention()
    terms = compile_terms(view, CPU, representative_sizes(function.symbols))
    partition = Partition(fused(terms, greedy_choice(terms)))
    random = np.random.default_rng(0)
    partition.settle()
    kept = 0
    for _ in range(600):
        classes = [int(c) for c in random.choice(len(terms), size=2, replace=False)]
        selection = partition.selection
        change = Change(
            {c: int(random.choice(list(terms.terms[c]))) for c in classes[: int(random.integers(3))]},
            {c: c not in selection.stored for c in classes[int(random.integers(2)):]},
            {classes[0]: classes[1]} if random.integers(8) == 0 else {})
        before = partition.total()
        undo = partition.apply(change)
        estimate, fresh = partition.estimate(undo), Partition(partition.selection).total()
        assert partition.total() == pytest.approx(fresh)
        assert fresh == float("inf") or estimate == pytest.approx(fresh)
        if fresh < float("inf") and random.integers(2):
            partition.settle()
            kept += 1
        else:
            partition.revert(undo)
            assert partition.total() == pytest.approx(before)
    assert kept > 50


def test_cycles_in_the_e_graph_do_no_harm() -> None:
    """transpose(transpose(x)) = x makes every class reachable from itself."""
    x = parameter("x", 0, B, 8)
    e = scalar_map("exp", x)
    turned = builders.transpose(e, (1, 0))
    back = Node.make(turned.op, (turned,), type(turned.attributes)((1, 0), e.shape))
    function = Function("f", (x,), (scalar_map("tanh", turned),))
    best = extract(view_of(function, [(e, back)]), function, CPU)
    assert len(best.plan.kernels) == 1
    assert_same(best, function, b=3)


def test_a_budget_of_one_step_gives_a_valid_plan() -> None:
    function, view = attention()
    best = extract(view, function, CPU, Budget(steps=1))
    assert best.report.end is SearchEnd.STEP_LIMIT and best.report.steps == 1
    assert_same(best, function, b=2, s=3)
    full = extract(view, function, CPU)
    assert full.report.end is SearchEnd.CONVERGED and full.cost < best.cost


def test_no_time_gives_a_valid_plan() -> None:
    function, view = attention()
    best = extract(view, function, CPU, Budget(seconds=1e-9))
    assert best.report.end is SearchEnd.TIME_LIMIT
    assert_same(best, function, b=2, s=3)


def test_sizes_change_costs_and_not_what_is_legal() -> None:
    """At b = 1 a broadcast along b is still a broadcast."""
    x, w = parameter("x", 0, B, 8), constant(8, 8)
    shift = builders.broadcast_in_dim(product(x, w), (B, B, 8), (0, 2))
    function = Function("f", (x,), (scalar_map("tanh", shift),))
    best = extract(view_of(function), function, CPU, sizes={"b": 1})
    assert best.report.sizes == {"b": 1}
    assert len(best.plan.kernels) == 2
    assert_same(best, function, b=3)


def test_an_operation_that_no_kernel_computes_is_refused() -> None:
    x = parameter("x", 0, B)
    pair = builders.composite("pair", Region((x,), (x, scalar_map("exp", x))), x)
    function = Function("f", (x,), (builders.project(pair, 1),))
    view = view_of(function)
    broken = EGraphView(
        tuple(tuple(n for n in nodes if n.op.name != "parameter") for nodes in view.classes), view.types, view.roots,
        view.original)
    with pytest.raises(VerificationError, match="can be computed by kernels"):
        extract(broken, function, CPU)

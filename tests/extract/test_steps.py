"""Routines and control flow in plans: what they read is in memory, what they write is used where it lies."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import tcp_eqsat as tcp
from tcp_eqsat.egraph.view import EGraphView, ENode, program_view
from tcp_eqsat.errors import VerificationError
from tcp_eqsat.extract import Extraction, baseline, extract, load_cost_model
from tcp_eqsat.extract.procedures import procedure_work
from tcp_eqsat.lang.dims import symbol
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.ops.control import if_, scan
from tcp_eqsat.lang.ops.index_builders import take
from tcp_eqsat.lang.ops.order_builders import ascending, sort, sort_with_order
from tcp_eqsat.lang.plan import Control, Kernel, Plan, Role, Routine, verify_plan
from tcp_eqsat.lang.plan_reference import evaluate_plan
from tcp_eqsat.lang.procedural import Procedure, Writer
from tcp_eqsat.lang.program import Function, Node
from tcp_eqsat.lang.reference import evaluate
from tcp_eqsat.lang.scalar import scalar_op_named
from tcp_eqsat.lang.types import BOOL, F32, I32, I64, DType, TensorType

CPU = load_cost_model("cpu")
B, S = symbol("b", 0, 1000), symbol("s", 0, 1000)


def parameter(name: str, number: int, dtype: DType, *shape: object) -> Node:
    return builders.parameter(name, number, TensorType(dtype, tuple(shape)))


def scalar(name: str, *operands: Node) -> Node:
    return builders.map_scalar(scalar_op_named(name), *operands)


def ordered(x: Node, axis: int = 0) -> Node:
    return sort((x,), ascending(x.dtype), axis)[0]


def planned(*results: Node) -> Extraction:
    """The best plan of a program, which computes what the program does."""
    parameters = {x for x in Function("f", (), results).nodes() if x.op.name == "parameter"}
    function = Function("f", tuple(sorted(parameters, key=lambda x: x.attributes.index)), results)
    best = extract(program_view(function), function, CPU)
    rng = np.random.default_rng(0)
    for size in (0, 1, 6):
        arrays = [np.asarray(rng.integers(0, 5, tuple(n if isinstance(n, int) else size for n in x.shape)),
                             x.dtype.numpy) for x in function.parameters]
        expected = evaluate(function, arrays)
        for plan in (best.plan, baseline(function, CPU).plan):
            for x, y in zip(evaluate_plan(plan, arrays), expected, strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-6)
        for x, y in zip(evaluate(best.function, arrays), expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-6)
    return best


def steps(plan: Plan) -> list[str]:
    return [f"{type(step).__name__.lower()} {step.origin}" for step in plan.steps]


def test_operands_are_stored_and_results_are_read() -> None:
    x = parameter("x", 0, F32, B)
    plan = planned(scalar("exp", ordered(scalar("negative", scalar("add", x, x))))).plan
    assert steps(plan) == ["kernel add, negative", "routine sort", "kernel exp"]


def test_results_lie_where_the_caller_wants_them() -> None:
    """A routine's result under another shape, and given twice, is no kernel's business."""
    x = parameter("x", 0, F32, B, 4)
    y = ordered(x, 1)
    plan = planned(y, builders.reshape(y, (4 * B,)), y).plan
    assert steps(plan) == ["routine sort"]
    assert len({plan.root(port.buffer).name for port in plan.results}) == 1
    assert plan.buffers[plan.results[0].buffer].role is Role.RESULT


def test_operands_under_other_axes() -> None:
    """Reshapes and axes of size 1 are the same memory; a transpose is not."""
    x = parameter("x", 0, F32, B, 4)
    flat = builders.reshape(x, (4 * B,))
    assert steps(planned(ordered(flat)).plan) == ["routine sort"]
    unit = builders.view(flat, (1,), (1, 4 * B))
    assert steps(planned(ordered(unit, 1)).plan) == ["routine sort"]
    turned = builders.transpose(x, (1, 0))
    assert steps(planned(ordered(turned, 1)).plan) == ["kernel view", "routine sort"]
    repeated = builders.view(flat, (1,), (3, 4 * B))
    assert steps(planned(ordered(repeated, 1)).plan) == ["kernel view", "routine sort"]
    stretched = scalar("negative", builders.view(ordered(flat), (1,), (1, 4 * B)))
    assert steps(planned(stretched).plan) == ["routine sort", "kernel negative"]
    assert steps(planned(builders.view(ordered(flat), (1,), (1, 4 * B))).plan) == ["routine sort"]


def test_numbers_as_operands() -> None:
    """Small ones are constants in memory; where the size is unknown, or large, a kernel writes them."""
    x = parameter("x", 0, F32, B)
    zero = builders.splat(0, I32, (3,))
    plan = planned(take(x, zero, 0)).plan
    assert steps(plan) == ["routine gather"]
    assert [b.role for b in plan.buffers.values()].count(Role.CONSTANT) == 1
    many = builders.splat(0, I32, (B,))
    assert steps(planned(take(x, many, 0)).plan) == ["kernel view", "routine gather"]
    large = builders.splat(0, I32, (5000,))
    assert steps(planned(take(x, large, 0)).plan) == ["kernel view", "routine gather"]
    assert steps(planned(many, take(x, many, 0)).plan) == ["kernel view", "routine gather"]


def test_several_results() -> None:
    """Results that nothing uses have memory too."""
    x = parameter("x", 0, F32, B)
    values, order = sort_with_order(x, 0, ascending(F32))
    both = planned(values, scalar("negative", order)).plan
    assert steps(both) == ["kernel iota", "routine sort", "kernel negative"]
    one = planned(scalar("negative", order)).plan
    (routine,) = (step for step in one.steps if isinstance(step, Routine))
    assert [one.buffers[name].role for name in routine.results] == [Role.TEMPORARY, Role.TEMPORARY]
    verify_plan(one)


def test_routine_after_routine() -> None:
    x, i = parameter("x", 0, F32, B), parameter("i", 1, I64, S)
    plan = planned(ordered(take(ordered(x), i, 0))).plan
    assert steps(plan) == ["routine sort", "routine gather", "routine sort"]


def test_a_cheaper_equal_replaces_a_routine() -> None:
    """An e-graph may hold both: the search takes the kernel and needs no memory for its operand."""
    x = parameter("x", 0, F32, B)
    y = scalar("exp", x)
    function = Function("f", (x,), (ordered(y),))
    view = program_view(function)
    (root,) = view.roots
    negative = scalar("negative", y)
    operand = view.original[y]
    classes = list(view.classes)
    classes[root] = (*classes[root], ENode(negative.op, negative.attributes, (operand,)))
    both = EGraphView(tuple(classes), view.types, view.roots, view.original)
    assert steps(extract(both, function, CPU).plan) == ["kernel exp, negative"]
    only = EGraphView(view.classes, view.types, view.roots, view.original)
    assert steps(extract(only, function, CPU).plan) == ["kernel exp", "routine sort"]


def test_control_flow_needs_bodies() -> None:
    x, p = parameter("x", 0, F32, B), parameter("p", 1, BOOL)
    function = Function("f", (x, p), if_(p, lambda: (x,), lambda: (scalar("exp", x),)))
    with pytest.raises(VerificationError, match="nothing computes if"):
        baseline(function, CPU)
    with pytest.raises(VerificationError, match="can be computed"):
        extract(program_view(function), function, CPU)


def test_bodies_are_optimised() -> None:
    """On their own, once each; the program that is shown has what was found in the place of what was there."""
    xs, x = parameter("xs", 0, F32, S, B), parameter("x", 1, F32, B)

    def step(total: Node, item: Node) -> tuple[Node, ...]:
        twice = scalar("negative", scalar("negative", item))
        return (scalar("add", total, scalar("exp", twice)),)

    best = tcp.optimize(Function("f", (xs, x), scan(step, [x], [xs], S)))
    (control,) = best.plan.steps
    assert isinstance(control, Control) and control.loads == ("x", "xs")
    (body,) = control.bodies
    assert [k.origin for k in body.steps] == ["exp, add"] and "negative" not in tcp.write(best.program)
    assert best.report.kernels == 1 < best.report.kernels_before and best.report.cost < best.report.cost_before
    graph = best.report.graph
    assert [d["origin"] for n, d in graph.nodes(data=True) if n[0] == "kernel"] == ["scan"]


def test_loops_cost_what_their_bodies_do() -> None:
    xs, x = parameter("xs", 0, F32, S, B), parameter("x", 1, F32, B)
    program = Function("f", (xs, x), scan(lambda a, b: (scalar("add", a, b),), [x], [xs], S))
    short, long = (tcp.optimize(program, sizes={"s": n, "b": 100}).report.cost for n in (10, 100))
    assert 8 < long / short < 12


def nested(*extents: object) -> Procedure:
    w = Writer((TensorType(F32, (B,)),), (TensorType(F32, ()),))
    with w.loops(extents):  # type: ignore[arg-type]
        w.store(w.results[0], (), 1.0)
    return w.finish()


def test_work_of_procedures() -> None:
    """Statements count as often as loops run: by sizes, by indices at their mean, by guess."""
    def work(procedure: Procedure, b: int = 10) -> float:
        return procedure_work(procedure, CPU, {"b": b})

    single = work(nested())
    assert single > 0
    assert work(nested(7, B)) == pytest.approx(70 * single)
    assert work(nested(B, B), 20) == pytest.approx(400 * single)
    assert work(nested(0, B)) == 0
    w = Writer((), (TensorType(F32, ()),))
    with w.loop(101) as i, w.loop(i):
        w.store(w.results[0], (), 1.0)
    assert work(w.finish()) == pytest.approx(101 * 50 * single)


def test_plans_that_break_their_invariants() -> None:
    x = parameter("x", 0, F32, B)
    plan = planned(scalar("exp", ordered(x))).plan
    routine, kernel = plan.steps
    assert isinstance(routine, Routine) and isinstance(kernel, Kernel)

    def broken(step: Routine) -> Plan:
        return dataclasses.replace(plan, steps=(step, kernel))

    with pytest.raises(VerificationError, match="before any step writes it"):
        verify_plan(dataclasses.replace(plan, steps=(kernel, routine)))
    with pytest.raises(VerificationError, match="uses y, which nothing defines"):
        verify_plan(broken(dataclasses.replace(routine, operands=("y",))))
    with pytest.raises(VerificationError, match=r"requires \(f32\[b\]\), got \(f32\[b\], f32\[b\]\)"):
        verify_plan(broken(dataclasses.replace(routine, operands=("x", "x"))))
    with pytest.raises(VerificationError, match="writes memory that it reads"):
        verify_plan(broken(dataclasses.replace(routine, results=("x",))))

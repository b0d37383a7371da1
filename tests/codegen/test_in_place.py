"""Updates in place: where they are, that arguments and constants keep their values, and that results do not change."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator

import numpy as np
import pytest
import structured_programs  # noqa: F401  (fills the samplers)
from programs import random_program

import tcp_eqsat as tcp
from tcp_eqsat.codegen.compile import CompiledFunction, compile_plan
from tcp_eqsat.lang.dims import symbol
from tcp_eqsat.lang.in_place import update_in_place
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.ops.control import case, if_, scan, while_
from tcp_eqsat.lang.ops.index_builders import dynamic_slice, dynamic_update_slice
from tcp_eqsat.lang.plan import Control, Plan, Routine, format_step, verify_plan
from tcp_eqsat.lang.plan_reference import evaluate_plan
from tcp_eqsat.lang.program import Function, Node
from tcp_eqsat.lang.reference import evaluate
from tcp_eqsat.lang.scalar import scalar_op_named
from tcp_eqsat.lang.types import BOOL, F32, I64, DType, TensorType

ROWS, COLUMNS = 5, 3
B = symbol("b", 1, 1000)
RNG = np.random.default_rng(0)


def parameter(name: str, position: int, dtype: DType, *shape: object) -> Node:
    return builders.parameter(name, position, TensorType(dtype, tuple(shape)))


def scalar(name: str, *operands: Node) -> Node:
    return builders.map_scalar(scalar_op_named(name), *operands)


def number(value: int) -> Node:
    return builders.scalar_constant(value, I64)


def put(x: Node, row: Node, i: Node) -> Node:
    """x[i] = row, of shape [1, columns]."""
    return dynamic_update_slice(x, row, (i, number(0)))


def take(x: Node, i: Node) -> Node:
    return dynamic_slice(x, (i, number(0)), (1, COLUMNS))


def doubled(x: Node) -> Node:
    return scalar("add", x, x)


X, Y = parameter("x", 0, F32, ROWS, COLUMNS), parameter("y", 1, F32, ROWS, COLUMNS)
ROW, N, P = parameter("row", 2, F32, 1, COLUMNS), parameter("n", 3, I64), parameter("p", 4, BOOL)


def arguments(function: Function, seed: int = 0) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    made = {"n": np.array(seed % (ROWS + 1)), "p": np.array(seed % 2 == 0)}
    return tuple(
        made.get(x.attributes.name, rng.standard_normal((1 if x is ROW else ROWS, COLUMNS)).astype(np.float32))
        for x in function.parameters)


def checked(*results: Node) -> Plan:
    """The plan of a program, whose machine code and reference give what the program's reference gives, and leave the
    arguments as they are."""
    found = {x for x in Function("f", (), results).nodes() if x.op.name == "parameter"}
    function = Function("f", tuple(sorted(found, key=lambda x: x.attributes.index)), results)
    plan = tcp.optimize(function).plan
    verify_plan(plan)
    code: CompiledFunction = compile_plan(plan)
    for seed in range(4):
        arrays = arguments(function, seed)
        before = [np.array(x) for x in arrays]
        expected = evaluate(function, arrays)
        for _ in range(2):  # constants, too, are as they were
            compiled = code(*arrays)
            for kind in (compiled if isinstance(compiled, tuple) else (compiled,), evaluate_plan(plan, arrays)):
                for x, y in zip(kind, expected, strict=True):
                    np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-6)
        for x, y in zip(arrays, before, strict=True):
            np.testing.assert_array_equal(x, y)
    return plan


def plans(plan: Plan) -> Iterator[Plan]:
    yield plan
    for step in plan.steps:
        if isinstance(step, Control):
            for body in step.bodies:
                yield from plans(body)


def in_place(plan: Plan) -> list[str]:
    """The operations of routines that work in place, everywhere in the plan."""
    return [step.op.name for each in plans(plan) for step in each.steps if isinstance(step, Routine) and step.in_place]


def routines(plan: Plan) -> list[str]:
    return [step.op.name for each in plans(plan) for step in each.steps
            if isinstance(step, Routine) and step.op.name == "dynamic_update_slice"]


def controls(plan: Plan) -> list[Control]:
    return [step for step in plan.steps if isinstance(step, Control)]


def loop(step, *state: Node) -> tuple[Node, ...]:
    """n turns of `step(i, *state)`."""
    return while_(lambda i, *now: scalar("less", i, N), lambda i, *now: (scalar("add", i, number(1)), *step(i, *now)),
                  [number(0), *state])[1:]


def test_temporaries_are_updated_in_place() -> None:
    plan = checked(put(put(doubled(X), ROW, N), doubled(ROW), number(0)))
    assert in_place(plan) == routines(plan) == 2 * ["dynamic_update_slice"]
    (result,) = plan.results
    assert {plan.root(step.stores[0]).name for step in plan.steps if step.stores[0] != "row"} >= {result.buffer}


def test_arguments_constants_and_what_is_needed_again_are_copied() -> None:
    table = builders.constant(np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS))
    for results in ((put(X, ROW, N),), (put(table, ROW, N),), (put(doubled(X), ROW, N), doubled(X)),
                    (put(scalar("exp", X), take(scalar("exp", X), N), number(1)),
                     builders.reduce_axes(scalar_op_named("maximum"), put(scalar("exp", X), ROW, N), (0,)))):
        plan = checked(*results)
        assert len(in_place(plan)) < len(routines(plan))


def test_readers_come_first() -> None:
    """Whatever else reads the old value is moved before the update."""
    x = scalar("exp", X)
    updated = put(x, ROW, N)
    plan = checked(updated, take(x, N), scalar("add", take(x, number(1)), take(updated, number(0))))
    assert in_place(plan) == ["dynamic_update_slice"]


def test_a_value_that_a_later_step_needs_is_copied() -> None:
    """The old value is read at an index that the new one gives."""
    x = scalar("exp", X)
    updated = put(x, ROW, N)
    at = builders.map_scalar(scalar_op_named("astype_i64"), builders.reshape(
        builders.reduce_axes(scalar_op_named("add"), take(updated, N), (0, 1)), ()))
    plan = checked(take(x, at), updated)
    assert in_place(plan) == []


def test_loops_update_state_in_place() -> None:
    plan = checked(*loop(lambda i, x: (put(x, scalar("add", ROW, take(x, i)), i),), doubled(X)))
    assert in_place(plan) == ["dynamic_update_slice"]
    (control,) = controls(plan)
    assert control.in_place == control.bodies[1].in_place == ((1, 1),)
    assert not control.bodies[0].in_place and format_step(control, plan).count("in place of") == 3


def test_loops_copy_arguments_once() -> None:
    plan = checked(*loop(lambda i, x: (put(x, ROW, i),), X), X)
    (control,) = controls(plan)
    assert in_place(plan) == ["dynamic_update_slice"] and control.in_place == ()


def test_state_is_exchanged() -> None:
    """Of two states that change places none is updated where it is; of three the third one is."""
    def step(i: Node, x: Node, y: Node, z: Node) -> tuple[Node, ...]:
        return put(y, ROW, i), x, put(z, take(x, i), i)

    plan = checked(*loop(step, X, Y, doubled(Y)))
    body = controls(plan)[0].bodies[1]
    assert [k for _, k in body.in_place] == [3]


def test_old_values_in_other_states() -> None:
    """A state that gets another one's old value keeps that apart; one value in two states is written once."""
    for step, places in (
        (lambda i, x, y: (put(x, ROW, i), x), {1}),
        (lambda i, x, y: (put(x, ROW, i),) * 2, {1}),
        (lambda i, x, y: (put(y, ROW, i),) * 2, {2}),
        (lambda i, x, y: (put(x, take(y, i), i), put(y, take(x, i), i)), {1, 2}),
        (lambda i, x, y: (put(x, take(put(y, ROW, i), i), i), put(y, ROW, i)), {1, 2}),
        (lambda i, x, y: (put(put(x, ROW, i), take(x, i), number(0)), doubled(y)), {1}),
    ):
        plan = checked(*loop(step, X, Y))
        body = controls(plan)[0].bodies[1]
        assert {k for _, k in body.in_place} == places, plan


def test_one_operand_for_two_states() -> None:
    for start in (X, doubled(X)):
        plan = checked(*loop(lambda i, x, y: (put(x, ROW, i), put(y, doubled(ROW), i)), start, start))
        assert in_place(plan) == 2 * ["dynamic_update_slice"]
        assert controls(plan)[0].in_place == ()


@pytest.mark.parametrize("reverse", [False, True])
def test_scans(reverse: bool) -> None:
    """Carries in place beside those in two buffers, sequences and what is stacked."""
    def step(i: Node, x: Node, last: Node, item: Node) -> tuple[Node, ...]:
        row = builders.reshape(item, (1, COLUMNS))
        return scalar("add", i, number(1)), put(x, scalar("add", row, last), i), row, scalar("add", item, item)

    plan = checked(*scan(step, [N, doubled(X), ROW], [Y], ROWS, reverse))
    (control,) = controls(plan)
    assert control.in_place == ((1, 1),) and in_place(plan) == ["dynamic_update_slice"]


def test_branches() -> None:
    """In place where every branch updates or gives back; nothing is copied for that."""
    x = scalar("exp", X)
    plan = checked(*if_(P, lambda: (put(x, ROW, N),), lambda: (x,)))
    (control,) = controls(plan)
    assert len(control.in_place) == 1 and [len(body.steps) for body in control.bodies] == [1, 0]
    two = checked(*if_(P, lambda: (put(x, ROW, N), x), lambda: (x, x)))
    assert controls(two)[0].in_place == ((1, 0),)
    for results in (if_(P, lambda: (put(x, ROW, N),), lambda: (doubled(x),)),
                    if_(P, lambda: (put(X, ROW, N),), lambda: (X,)),
                    (*if_(P, lambda: (put(x, ROW, N),), lambda: (x,)), x)):
        assert controls(checked(*results))[0].in_place == ()


def test_branches_in_loops() -> None:
    def step(i: Node, x: Node) -> tuple[Node, ...]:
        selector = scalar("astype_i32", i)
        (x,) = case(selector, [lambda: (put(x, ROW, i),), lambda: (x,), lambda: (put(x, doubled(ROW), number(1)),)])
        return if_(P, lambda: (put(x, take(x, number(0)), i),), lambda: (x,))

    plan = checked(*loop(step, doubled(X)))
    assert in_place(plan) == routines(plan) == 3 * ["dynamic_update_slice"]
    (control,) = controls(plan)
    assert control.in_place == ((1, 1),)


def test_nested_loops() -> None:
    def inner(i: Node, x: Node) -> tuple[Node, ...]:
        return while_(lambda j, x: scalar("less", j, number(COLUMNS)),
                      lambda j, x: (scalar("add", j, number(1)), put(x, scalar("add", take(x, j), ROW), i)),
                      [number(0), x])[1:]

    plan = checked(*loop(inner, doubled(X)))
    (outer,) = controls(plan)
    (nested,) = controls(outer.bodies[1])
    assert outer.in_place == nested.in_place == nested.bodies[-1].in_place == ((1, 1),)


def test_a_nested_loop_whose_operand_is_needed_again() -> None:
    def inner(i: Node, x: Node) -> tuple[Node, ...]:
        last = while_(lambda j, x: scalar("less", j, number(COLUMNS)),
                      lambda j, x: (scalar("add", j, number(1)), put(x, ROW, j)), [number(0), x])[1]
        return (scalar("add", x, last),)

    plan = checked(*loop(inner, doubled(X)))
    (outer,) = controls(plan)
    (nested,) = controls(outer.bodies[1])
    assert outer.bodies[1].in_place == nested.in_place == () and nested.bodies[-1].in_place == ((1, 1),)


def test_symbolic_sizes() -> None:
    x, n = parameter("x", 0, F32, B, COLUMNS), parameter("n", 1, I64)
    row = builders.splat(2.0, F32, (1, COLUMNS))
    results = while_(lambda i, x: scalar("less", i, n), lambda i, x: (
        scalar("add", i, number(1)), put(x, scalar("multiply", take(x, i), row), i)), [number(0), doubled(x)])
    function = tcp.compile(Function("f", (x, n), results[1:]))
    for size in (1, 4, 9):
        array = RNG.standard_normal((size, COLUMNS)).astype(np.float32)
        expected = 2 * array
        expected[:3] *= 2
        if size >= 3:
            np.testing.assert_array_equal(function(array, np.array(3)), expected)
    assert in_place(function.optimized.plan) == ["dynamic_update_slice"]


def test_what_is_written_is_verified() -> None:
    """A plan whose steps are in an order in which an overwritten value is read is refused."""
    x = scalar("exp", X)
    plan = checked(put(x, ROW, N), take(x, N))
    assert in_place(plan)
    with pytest.raises(tcp.errors.VerificationError, match=r"whose memory holds .* by then"):
        verify_plan(dataclasses.replace(plan, steps=(plan.steps[0], *reversed(plan.steps[1:]))))
    updating = next(step for step in plan.steps if isinstance(step, Routine) and step.in_place)
    steps = tuple(dataclasses.replace(step, in_place=()) if step is updating else step for step in plan.steps)
    with pytest.raises(tcp.errors.VerificationError, match="writes memory that it reads"):
        verify_plan(dataclasses.replace(plan, steps=steps))
    assert update_in_place(tcp.optimize(Function("f", (X,), (doubled(X),))).plan).steps


class Sampler:
    """Random loops over three states of one shape, which are updated, read, exchanged and given back."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def index(self, i: Node) -> Node:
        return self.random.choice((i, number(self.random.randrange(ROWS)), scalar("add", i, number(1)), N))

    def row(self, i: Node, values: list[Node]) -> Node:
        kind = self.random.randrange(3)
        if kind == 0:
            return ROW
        taken = take(self.random.choice(values), self.index(i))
        return taken if kind == 1 else scalar("multiply", taken, builders.splat(0.5, F32, (1, COLUMNS)))

    def value(self, i: Node, values: list[Node], depth: int) -> Node:
        x = self.random.choice(values)
        match self.random.randrange(8 if depth else 6):
            case 0:
                return x
            case 1:
                return scalar("maximum", x, self.random.choice(values))
            case 6:
                other = self.random.choice(values)
                return if_(P, lambda: (put(x, self.row(i, values), self.index(i)),),
                           lambda: (self.random.choice((x, other, put(other, ROW, i))),))[0]
            case 7:
                return self.loop(i, values, depth - 1)[self.random.randrange(3)]
            case _:
                return put(x, self.row(i, values), self.index(i))

    def body(self, i: Node, values: list[Node], depth: int) -> list[Node]:
        values = list(values)
        for _ in range(self.random.randrange(1, 5)):
            values.append(self.value(i, values, depth))
        return [self.random.choice(values[-4:]) for _ in range(3)]

    def loop(self, i: Node, values: list[Node], depth: int) -> tuple[Node, ...]:
        state = [self.random.choice(values) for _ in range(3)]
        if self.random.random() < 0.5:
            return while_(
                lambda j, *now: scalar("less", j, N),
                lambda j, *now: (scalar("add", j, number(1)), *self.body(j, list(now), depth)), [number(0), *state])[1:]
        return scan(lambda j, x, y, z: (scalar("add", j, number(1)), *self.body(j, [x, y, z], depth)),
                    [number(0), *state], [], self.random.randrange(4))[1:]


@pytest.mark.parametrize("seed", range(12))
def test_random_loops(seed: int) -> None:
    sampler = Sampler(seed)
    start = [X, Y, doubled(X)]
    values = [*start, *sampler.loop(number(1), start, 1)]
    checked(*sampler.body(number(2), values, 1))


def test_random_programs() -> None:
    for seed in range(10):
        names = ("while", "scan", "if", "scatter", "dynamic_update_slice", "triangular_solve", "map")
        sample = random_program(seed, 8, names=names, stable=True, max_rank=2)
        code = compile_plan(tcp.optimize(sample.function).plan)
        for variant in range(2):
            arrays = sample.arrays(variant, "tame")
            found = code(*arrays)
            for x, y in zip(found if isinstance(found, tuple) else (found,), evaluate(sample.function, arrays),
                            strict=True):
                np.testing.assert_allclose(
                    x.astype(np.float64), y.astype(np.float64), rtol=1e-4, atol=1e-4, err_msg=f"{seed} {variant}")

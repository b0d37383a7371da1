"""Control flow as machine code: what the reference computes, on every target, whatever the number of turns."""

from __future__ import annotations

import numpy as np
import pytest
from programs import assert_sample_computed, single_operation

import tcp_eqsat as tcp
from tcp_eqsat.codegen.compile import CompiledFunction, compile_plan
from tcp_eqsat.codegen.target import available_targets, cpu_target
from tcp_eqsat.errors import TargetError
from tcp_eqsat.lang.dims import symbol
from tcp_eqsat.lang.op import IN_REGIONS, OPS
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.ops.control import case, if_, scan, while_
from tcp_eqsat.lang.ops.order_builders import ascending, sort
from tcp_eqsat.lang.plan import Control
from tcp_eqsat.lang.plan_reference import evaluate_plan
from tcp_eqsat.lang.program import Function, Node
from tcp_eqsat.lang.reference import evaluate
from tcp_eqsat.lang.scalar import scalar_op_named
from tcp_eqsat.lang.types import BOOL, F32, I32, I64, DType, TensorType

B, S = symbol("b", 0, 1000), symbol("s", 0, 1000)
TARGETS = available_targets()
RNG = np.random.default_rng(0)


def parameter(name: str, number: int, dtype: DType, *shape: object) -> Node:
    return builders.parameter(name, number, TensorType(dtype, tuple(shape)))


def scalar(name: str, *operands: Node) -> Node:
    return builders.map_scalar(scalar_op_named(name), *operands)


def number(value: int, dtype: DType = I32) -> Node:
    return builders.scalar_constant(value, dtype)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


class Checked:
    """A program compiled once, and compared with the reference and the reference of its plan at each call."""

    def __init__(self, *results: Node, target: str = "native") -> None:
        parameters = {x for r in results for x in walked(r) if x.op.name == "parameter"}
        ordered = tuple(sorted(parameters, key=lambda x: x.attributes.index))
        self.function = Function("f", ordered, results)
        self.optimized = tcp.optimize(self.function)
        self.code: CompiledFunction = compile_plan(self.optimized.plan, cpu_target(target))

    def __call__(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        found = self.code(*arrays)
        found = found if isinstance(found, tuple) else (found,)
        expected, planned = evaluate(self.function, arrays), evaluate_plan(self.optimized.plan, arrays)
        for x, y, z in zip(found, expected, planned, strict=True):
            assert x.dtype == y.dtype and x.shape == y.shape
            np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(z, y, rtol=1e-4, atol=1e-5)
        return found


def walked(root: Node) -> tuple[Node, ...]:
    return tuple(Function("f", (), (root,)).nodes())


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", [name for name, op in OPS.items() if op.pointful is IN_REGIONS])
def test_operations(name: str, target: str) -> None:
    first = 6 * TARGETS.index(target)
    for seed in range(first, first + 6):
        sample = single_operation(seed, name, max_rank=3, stable=True)
        function = compile_plan(tcp.optimize(sample.function).plan, cpu_target(target))
        assert_sample_computed(sample, function)


def test_branches() -> None:
    x, p = parameter("x", 0, F32, B), parameter("p", 1, BOOL)
    either = Checked(*if_(p, lambda: (scalar("exp", x), x), lambda: (x, scalar("negative", x))))
    for size in (0, 1, 20):
        for chosen in (True, False):
            either(normal(size), np.array(chosen))
    i = parameter("i", 1, I32)
    several = Checked(*case(i, [lambda: (scalar("exp", x),), lambda: (x,), lambda: (scalar("add", x, x),)]))
    for chosen in (-(2**31), -1, 0, 1, 2, 3, 2**31 - 1):
        several(normal(5), np.array(chosen, np.int32))


def test_only_the_chosen_branch_runs() -> None:
    """A loop without end stands in the other one."""
    p = parameter("p", 0, BOOL)

    def endless() -> tuple[Node, ...]:
        return while_(lambda n: scalar("greater_equal", n, number(0)), lambda n: (n,), [number(1)])

    function = tcp.compile(Function("f", (p,), if_(p, lambda: (number(7),), endless)))
    assert function(np.array(True)) == 7


@pytest.mark.parametrize("target", TARGETS)
def test_while(target: str) -> None:
    """Powers by squaring and Fibonacci numbers: state that is exchanged, kept and counted; no turns, one, several."""
    n = parameter("n", 0, I64)
    x, y = parameter("x", 1, I64, B), parameter("y", 2, I64, B)
    one = number(1, I64)
    results = while_(
        lambda left, a, b, kept: scalar("greater", left, number(0, I64)),
        lambda left, a, b, kept: (scalar("subtract", left, one), b, scalar("add", a, b), kept), [n, x, y, x])
    function = Checked(*results, target=target)
    for turns in (-1, 0, 1, 2, 3, 10):
        for size in (0, 1, 9):
            start = np.zeros(size, np.int64), np.ones(size, np.int64)
            left, a, _, kept = function(np.array(turns), *start)
            assert left == min(turns, 0) and (kept == 0).all()
            assert (a == {-1: 0, 0: 0, 1: 1, 2: 1, 3: 2, 10: 55}[turns]).all()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("reverse", [False, True])
def test_scan(reverse: bool, target: str) -> None:
    """A recurrent network: carries, slices, captures, what is stacked; any length, 0 included."""
    h, c = parameter("h", 0, F32, B, 4), parameter("c", 1, F32, B, 4)
    xs, w = parameter("xs", 2, F32, S, B, 3), parameter("w", 3, F32, 7, 4)

    def step(h: Node, c: Node, x: Node) -> tuple[Node, ...]:
        gate = scalar("tanh", builders.dot_general(builders.concatenate((x, h), 1), w, ((1,), (0,))))
        c = scalar("add", scalar("multiply", c, gate), gate)
        return c, h, scalar("negative", gate), builders.reduce_axes(scalar_op_named("add"), gate, (0, 1))

    function = Checked(*scan(step, [h, c], [xs], S, reverse), target=target)
    for length in (0, 1, 2, 5):
        for batch in (0, 1, 6):
            function(normal(batch, 4), normal(batch, 4), normal(length, batch, 3), normal(7, 4))
    (step_plan,) = function.optimized.plan.steps
    assert isinstance(step_plan, Control) and "memcpy" in function.code.llvm


def test_scan_without_carries_or_sequences() -> None:
    xs, x = parameter("xs", 0, I32, S), parameter("x", 1, I32)
    Checked(*scan(lambda item: (scalar("add", item, x),), [], [xs], S))(np.arange(5, dtype=np.int32), np.int32(3))
    count = Checked(*scan(lambda n: (scalar("add", n, x), n), [x], [], 4))
    last, numbers = count(np.array(2, np.int32))
    assert last == 10 and numbers.tolist() == [2, 4, 6, 8]


def test_nested() -> None:
    """A scan in a while in an if; a routine, constants and temporaries inside."""
    x, p, n = parameter("x", 0, F32, B, 5), parameter("p", 1, BOOL), parameter("n", 2, I32)
    table = builders.constant(np.arange(5, dtype=np.float32) / 5)
    zero = builders.splat(0.0, F32, (5,))

    def row(total: Node, item: Node) -> tuple[Node, ...]:
        (ordered,) = sort((scalar("add", item, table),), ascending(F32), 0)
        return scalar("add", total, ordered), scalar("multiply", ordered, table)

    def turn(i: Node, value: Node) -> tuple[Node, ...]:
        _, rows = scan(row, [zero], [value], B)
        return scalar("add", i, number(1)), rows

    def loop() -> tuple[Node, ...]:
        return while_(lambda i, value: scalar("less", i, n), turn, [number(0), x])

    function = Checked(*if_(p, loop, lambda: (n, scalar("exp", x))))
    for chosen in (True, False):
        for turns in (0, 1, 3):
            for size in (0, 1, 4):
                function(normal(size, 5), np.array(chosen), np.array(turns, np.int32))
    assert "procedure procedure0" in function.code.loops
    (text,) = function.optimized.report.kernel_texts
    assert text.count("  body region") == 5 and "routine" in text


def test_equal_bodies_are_one_function() -> None:
    xs, ys = parameter("xs", 0, F32, S), parameter("ys", 1, F32, S)
    start = builders.scalar_constant(0.0, F32)

    def summed(values: Node) -> Node:
        return scan(lambda total, x: (scalar("add", total, x),), [start], [values], S)[0]

    function = Checked(summed(xs), summed(ys))
    function(normal(10), normal(10))
    assert function.code.llvm.count("define internal void @body") == 1
    assert len(function.optimized.plan.kernels) == 2 and function.code.kernels == 2


def test_sizes_that_only_a_body_mentions() -> None:
    """A body has the symbols of the program around it."""
    x, n = parameter("x", 0, F32, B), parameter("n", 1, I32)

    def turn(i: Node, total: Node) -> tuple[Node, ...]:
        ramp = builders.iota(I32, (B,), 0)
        return scalar("add", i, number(1)), scalar(
            "add", total, builders.reduce_axes(scalar_op_named("add"), ramp, (0,)))

    function = Checked(*while_(lambda i, total: scalar("less", i, n), turn, [number(0), number(0)]), x)
    assert function(normal(5), np.array(3, np.int32))[1] == 30


def test_frozen_captures() -> None:
    """Constants that bodies capture are computed with at compile time where they stand."""
    xs, w = parameter("xs", 0, F32, S, 4), parameter("w", 1, F32, 4, 4)

    def step(h: Node, x: Node) -> tuple[Node, ...]:
        return (scalar("tanh", scalar("add", builders.dot_general(h, w, ((0,), (0,))), x)),)

    program = Function("f", (xs, w), scan(step, [builders.splat(0.0, F32, (4,))], [xs], S))
    weights = normal(4, 4)
    function = tcp.compile(program, constants={"w": weights})
    array = normal(6, 4)
    (expected,) = evaluate(program, (array, weights))
    np.testing.assert_allclose(function(array), expected, rtol=1e-5, atol=1e-6)
    changed = function.update(w=-weights)
    (expected,) = evaluate(program, (array, -weights))
    np.testing.assert_allclose(changed(array), expected, rtol=1e-5, atol=1e-6)


def test_no_form_on_gpus() -> None:
    x, p = parameter("x", 0, F32, B), parameter("p", 1, BOOL)
    program = Function("f", (x, p), if_(p, lambda: (x,), lambda: (scalar("exp", x),)))
    with pytest.raises(TargetError, match=r"if has no form on .*, which runs kernels only, no control flow"):
        tcp.compile(program, target="ptx")

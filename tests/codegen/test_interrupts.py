"""Ctrl-C ends calls with loops, compiled and in Python, and nothing else about them changes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tcp_eqsat.codegen.compile import compile_plan
from tcp_eqsat.codegen.work import MUCH, turn_work
from tcp_eqsat.lang.dims import evaluate, symbol
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.ops.control import while_
from tcp_eqsat.lang.ops.linalg_builders import cholesky
from tcp_eqsat.lang.plan import Control
from tcp_eqsat.lang.program import Function, Node
from tcp_eqsat.lang.scalar import scalar_op_named
from tcp_eqsat.lang.types import F32, TensorType
from tcp_eqsat.pipeline import optimize

SCRIPT = Path(__file__).with_name("interrupted.py")
IMPLEMENTATIONS = ("compiled", "python")


def command(scenario: str) -> list[str]:
    return [sys.executable, str(SCRIPT), scenario]


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("scenario", [
    "loops_of_all_kinds", "large_arrays", "results_are_freed", "handlers_that_return", "handlers_that_call",
    "other_threads"])
def test_signals(scenario: str, implementation: str) -> None:
    done = subprocess.run(command(scenario), capture_output=True, text=True, timeout=60,
                          env={**os.environ, "TCP_EQSAT_CALL": implementation})
    assert done.returncode == 0 and done.stdout == "done\n" and not done.stderr, done.stdout + done.stderr


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_ctrl_c(implementation: str) -> None:
    with subprocess.Popen(command("keyboard"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env={**os.environ, "TCP_EQSAT_CALL": implementation}) as child:
        try:
            assert child.stdout is not None and child.stdout.readline() == "ready\n"
            time.sleep(0.5)  # until the call runs
            child.send_signal(signal.SIGINT)
            out, err = child.communicate(timeout=30)
            assert (out, err) == ("interrupted\ndone\n", "")
        finally:
            child.kill()


def scalar(name: str, *operands: Node) -> Node:
    return builders.map_scalar(scalar_op_named(name), *operands)


def loop_over(change, *shape) -> tuple[Control, str]:  # type: ignore[no-untyped-def]
    """A loop that changes a tensor until it is large, and its machine code as text."""
    x = builders.parameter("x", 0, TensorType(F32, shape))
    axes = tuple(range(len(shape)))

    def small(v: Node) -> Node:
        return scalar("less", builders.reduce_axes(scalar_op_named("maximum"), v, axes),
                      builders.scalar_constant(9.0, F32))

    results = while_(small, lambda v: (change(v),), [x])
    plan = optimize(Function("f", (x,), results)).plan
    (control,) = plan.steps
    assert isinstance(control, Control)
    return control, compile_plan(plan).llvm


def test_work_is_counted() -> None:
    """Few turns where a turn does much, many where it does little, whatever the sizes; without overflow."""
    doubled = lambda v: scalar("add", v, v)  # noqa: E731
    small, text = loop_over(doubled, 3)
    assert turn_work(small.bodies) < 200 and "%watch" in text
    large, _ = loop_over(doubled, 1 << 23)
    assert turn_work(large.bodies) == MUCH
    product, _ = loop_over(lambda v: builders.dot_general(v, v, ((1,), (0,))), 256, 256)
    assert turn_work(product.bodies) == MUCH
    factor, _ = loop_over(cholesky, 256, 256)
    assert turn_work(factor.bodies) > 1 << 22
    n, m = symbol("n"), symbol("m")
    symbolic, _ = loop_over(doubled, n, m)
    work = turn_work(symbolic.bodies)
    assert evaluate(work, {"n": 3, "m": 5}) < 300 and evaluate(work, {"n": 2**31 - 1, "m": 2**31 - 1}) >= MUCH
    assert evaluate(work, {"n": 1000, "m": 1000}) > 10**6


def test_calls_without_loops_ask_nothing() -> None:
    x = builders.parameter("x", 0, TensorType(F32, (3,)))
    code = compile_plan(optimize(Function("f", (x,), (scalar("add", x, x),))).plan)
    assert "watch" not in code.llvm and "define void @entry" in code.llvm

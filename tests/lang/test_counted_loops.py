"""State that does not change becomes a capture, and the meaning stays."""

from __future__ import annotations

import numpy as np
import pytest
from control_programs import loops
from programs import random_program

from tcp_eqsat.lang.dims import symbol
from tcp_eqsat.lang.loops import capture_unchanged
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.ops.control import if_, scan, while_
from tcp_eqsat.lang.program import Function, Node
from tcp_eqsat.lang.reference import evaluate
from tcp_eqsat.lang.scalar import scalar_op_named
from tcp_eqsat.lang.types import BOOL, F32, I32, DType, TensorType

B, S = symbol("b"), symbol("s")


def parameter(name: str, number: int, dtype: DType, *shape: object) -> Node:
    return builders.parameter(name, number, TensorType(dtype, tuple(shape)))


def scalar(name: str, *operands: Node) -> Node:
    return builders.map_scalar(scalar_op_named(name), *operands)


def assert_same(function: Function, *arrays: np.ndarray) -> Function:
    captured = capture_unchanged(function)
    for x, y in zip(evaluate(captured, arrays), evaluate(function, arrays), strict=True):
        np.testing.assert_array_equal(x, y)
    return captured


def test_while() -> None:
    n, w, x = parameter("n", 0, I32), parameter("w", 1, F32, B), parameter("x", 2, F32, B)
    one = builders.scalar_constant(1, I32)
    results = while_(lambda i, w, limit, x: scalar("less", i, limit),
                     lambda i, w, limit, x: (scalar("add", i, one), w, limit, scalar("add", x, w)),
                     [builders.scalar_constant(0, I32), w, n, x])
    function = Function("f", (n, w, x), results, {results[0]: "count", results[3]: "sum"})
    for turns in (0, 1, 5):
        captured = assert_same(function, np.array(turns, np.int32), np.ones(3, np.float32), np.zeros(3, np.float32))
    (loop,) = loops(captured)
    assert loop.attributes.count == 2 and len(loop.operands) == 4
    assert captured.results[1:3] == (w, n) and set(captured.names.values()) == {"count", "sum"}
    assert capture_unchanged(captured).results == captured.results


def test_scan_in_a_branch() -> None:
    p, w, x, xs = (parameter("p", 0, BOOL), parameter("w", 1, F32, B), parameter("x", 2, F32, B),
                   parameter("xs", 3, F32, S, B))

    def step(w: Node, total: Node, item: Node) -> tuple[Node, ...]:
        return w, scalar("add", total, scalar("multiply", w, item)), item

    function = Function("f", (p, w, x, xs), if_(
        p, lambda: scan(step, [w, x], [xs], S), lambda: (x, w, xs)))
    rng = np.random.default_rng(0)
    for chosen in (True, False):
        captured = assert_same(
            function, np.array(chosen), *(rng.standard_normal(s).astype(np.float32) for s in (3, 3, (4, 3))))
    _, loop = loops(captured)
    assert (loop.attributes.carries, loop.attributes.sequences, len(loop.operands)) == (1, 1, 3)


def test_what_stays_as_it_is() -> None:
    """A loop that changes nothing, for it may not end; programs without loops; state that is exchanged."""
    p, x, y = parameter("p", 0, BOOL), parameter("x", 1, F32, B), parameter("y", 2, F32, B)
    nothing = Function("f", (p, x), while_(lambda p, x: p, lambda p, x: (p, x), [p, x]))
    assert capture_unchanged(nothing).results == nothing.results
    plain = Function("f", (x,), (scalar("exp", x),))
    assert capture_unchanged(plain) is plain
    exchanged = Function("f", (x, y), scan(lambda a, b: (b, a), [x, y], [], 3))
    assert capture_unchanged(exchanged).results == exchanged.results


@pytest.mark.parametrize("name", ["while", "scan"])
def test_random_programs(name: str) -> None:
    for seed in range(12):
        sample = random_program(seed, 6, names=(name, "if", "map"), stable=True, max_rank=2)
        assert_same(sample.function, *sample.arrays(0, "tame"))

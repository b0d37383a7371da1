"""Calls that never end by themselves, interrupted: run by `test_interrupts`, so that one that hangs can be ended."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator

import numpy as np

import tcp_eqsat as tcp
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.ops.control import if_, scan, while_
from tcp_eqsat.lang.program import Function, Node
from tcp_eqsat.lang.scalar import scalar_op_named
from tcp_eqsat.lang.types import F32, I64, DType, TensorType

LARGE = 1 << 20


class Alarm(Exception):
    """What the handler of this test raises."""


def parameter(name: str, position: int, dtype: DType, *shape: int) -> Node:
    return builders.parameter(name, position, TensorType(dtype, shape))


def scalar(name: str, *operands: Node) -> Node:
    return builders.map_scalar(scalar_op_named(name), *operands)


def number(value: int) -> Node:
    return builders.scalar_constant(value, I64)


N = parameter("n", 0, I64)
X = parameter("x", 1, F32, LARGE)


def until_n(start: Node | None = None) -> Node:
    """Counts up to n, for ever where n is -1."""
    return while_(lambda i: scalar("not_equal", i, N), lambda i: (scalar("add", i, number(1)),),
                  [number(0) if start is None else start])[0]


def compiled(*results: Node) -> Callable[..., object]:
    parameters = {x for x in Function("f", (), results).nodes() if x.op.name == "parameter"}
    return tcp.compile(Function("f", tuple(sorted(parameters, key=lambda x: x.attributes.index)), results))


@contextlib.contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """An Alarm after so many seconds, which must come."""
    def ring(number: int, frame: object) -> None:
        raise Alarm

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except Alarm:
        return
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    raise AssertionError("the call ended by itself")


ENDLESS, ONE = np.array(-1), np.array(1)


def loops_of_all_kinds() -> None:
    p = scalar("less", N, number(0))
    nested = while_(lambda i, j: scalar("not_equal", scalar("add", until_n(i), number(1)), i),
                    lambda i, j: (scalar("add", i, number(1)), until_n(i)), [number(0), number(0)])
    steps = scan(lambda i, last: (scalar("add", i, N), i), [N, N], [], 1 << 60)
    inside = scan(lambda i: (until_n(scalar("add", i, number(1))),), [N], [], 4)
    for results in ((until_n(),), if_(p, lambda: (until_n(),), lambda: (N,)), nested, steps, inside):
        f = compiled(*results)
        with alarm(0.05):
            f(ENDLESS)


def large_arrays() -> None:
    """Without the GIL from the start; few turns, much work in each."""
    x = while_(lambda i, x: scalar("not_equal", i, N), lambda i, x: (scalar("add", i, number(1)), scalar("sin", x)),
               [number(0), X])
    f = compiled(*x)
    with alarm(0.05):
        f(ENDLESS, np.ones(LARGE, np.float32))
    _, found = f(ONE, np.ones(LARGE, np.float32))
    assert abs(float(found[5]) - np.sin(1)) < 1e-6


def results_are_freed() -> None:
    """Those made by the call, and `out`, of which no reference is kept."""
    last = until_n()
    for f, count in ((compiled(last, scalar("add", X, X), X), 3), (compiled(builders.broadcast_scalar(
            scalar("astype_f32", last), (LARGE,))), 1)):
        arguments = (ENDLESS, np.ones(LARGE, np.float32))[: 2 if count == 3 else 1]
        with alarm(0.02):
            f(*arguments)
        tracemalloc.start()
        for _ in range(5):
            with alarm(0.02):
                f(*arguments)
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert held < LARGE, held
    out = tuple(np.zeros(s, t) for s, t in (((), np.int64), (LARGE, np.float32), (LARGE, np.float32)))
    f = compiled(last, scalar("add", X, X), X)
    before = [sys.getrefcount(x) for x in out]
    with alarm(0.02):
        f(ENDLESS, np.ones(LARGE, np.float32), out=out)
    assert [sys.getrefcount(x) for x in out] == before
    assert f(ONE, np.ones(LARGE, np.float32), out=out)[1][7] == 2


def handlers_that_return() -> None:
    """The call goes on, and gives what it gives."""
    rung: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda *_: rung.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
    try:
        f = compiled(until_n())
        turns = 1_000_000
        while not rung or turns < 10_000_000:
            assert f(np.array(turns)) == turns
            turns *= 2
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def handlers_that_call() -> None:
    """A handler runs the function that it interrupts."""
    f = compiled(until_n())
    inner: list[object] = []

    def ring(number: int, frame: object) -> None:
        inner.append(f(np.array(3)))
        raise Alarm

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        f(ENDLESS)
    except Alarm:
        assert inner == [3]
    finally:
        signal.signal(signal.SIGALRM, before)


def other_threads() -> None:
    """They run on, are not interrupted, and do not keep the GIL."""
    f = compiled(until_n())
    turns, found = 100_000_000, []
    thread = threading.Thread(target=lambda: found.append(f(np.array(turns))))
    thread.start()
    times = 0
    while thread.is_alive():
        time.sleep(0.005)
        times += 1
    assert found == [turns] and times > 5, (found, times)


def keyboard() -> None:
    """Waits for the other process."""
    f = compiled(until_n(), N)
    f(ONE)
    try:
        print("ready", flush=True)
        f(ENDLESS)
    except KeyboardInterrupt:
        print("interrupted", flush=True)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print("done", flush=True)

"""A `while` that counts becomes a scan, exactly: turns, slices, the last state; others stay."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from control_programs import loops

import tcp_eqsat as tcp
from tcp_eqsat.lang.counting import Line, count_turns
from tcp_eqsat.lang.loops import capture_unchanged, raise_counted
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.ops.attributes import ScanAttributes
from tcp_eqsat.lang.ops.control import while_
from tcp_eqsat.lang.ops.index_builders import dynamic_slice, dynamic_update_slice
from tcp_eqsat.lang.program import Function, Node
from tcp_eqsat.lang.reference import evaluate
from tcp_eqsat.lang.scalar import scalar_op_named
from tcp_eqsat.lang.types import F32, I8, I32, I64, U8, DType, TensorType

COLUMNS = 3
RNG = np.random.default_rng(0)


def parameter(name: str, position: int, dtype: DType, *shape: int) -> Node:
    return builders.parameter(name, position, TensorType(dtype, shape))


def scalar(name: str, *operands: Node) -> Node:
    return builders.map_scalar(scalar_op_named(name), *operands)


def number(value: int, dtype: DType = I32) -> Node:
    return builders.scalar_constant(value, dtype)


def raised(results: Sequence[Node]) -> tuple[Function, list[Node]]:
    """The function with its loops raised, which has the meaning that it had, bit by bit."""
    parameters = {x for x in Function("f", (), tuple(results)).nodes() if x.op.name == "parameter"}
    function = Function("f", tuple(sorted(parameters, key=lambda x: x.attributes.index)), tuple(results))
    changed = raise_counted(capture_unchanged(function))
    arrays = [RNG.integers(-3, 9, x.shape).astype(x.dtype.numpy) for x in function.parameters]
    for x, y in zip(evaluate(changed, arrays), evaluate(function, arrays), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)
    return changed, loops(changed)


def counting(start: int, step: int, comparison: str, limit: int, dtype: DType = I32, swapped: bool = False) -> Node:
    """The last value of a counter, and how many turns there were, in a float that no rule counts."""
    def condition(i: Node, total: Node) -> Node:
        return scalar(comparison, *((number(limit, dtype), i) if swapped else (i, number(limit, dtype))))

    results = while_(condition, lambda i, total: (
        scalar("add", i, number(step, dtype)), scalar("add", total, builders.scalar_constant(1.0, F32))),
        [number(start, dtype), builders.scalar_constant(0.0, F32)])
    return results[0].operands[0]


@pytest.mark.parametrize("dtype", [I8, I32, I64, U8])
@pytest.mark.parametrize("swapped", [False, True])
def test_turns(dtype: DType, swapped: bool) -> None:
    """Every comparison, whichever way it is written, up and down by steps; the count is that of the reference."""
    known = 0
    for comparison, start, step, limit in itertools.product(
            ("less", "less_equal", "greater", "greater_equal", "not_equal"), (0, 3, 7), (1, 2, 3, -1, -2), (0, 5, 7)):
        if dtype is U8 and step < 0:
            step += 256
        node = counting(start, step, comparison, limit, dtype, swapped)
        counted = count_turns(node)
        if counted is None:
            continue
        known += 1
        last, turns = evaluate(Function("f", (), builders.results_of(node)), ())
        assert counted.turns == turns and counted.state[0].at(counted.turns) == last
        raised(builders.results_of(node))
    assert known > 60


def test_what_never_ends_or_wraps_is_no_scan() -> None:
    for node in (counting(0, 1, "greater_equal", 0), counting(0, 1, "less_equal", 127, I8),
                 counting(1, 2, "not_equal", 6), counting(0, 0, "less", 3), counting(0, 3, "less", 127, I8),
                 counting(250, 10, "not_equal", 4, U8), counting(0, 100, "less", 101, I8)):
        assert count_turns(node) is None
    assert count_turns(counting(0, 3, "less", 124, I8)) is not None
    assert count_turns(counting(10, 255, "greater", 3, U8)) is None, "it counts down by what overflows"


def test_what_is_not_known_is_no_scan() -> None:
    n, x = parameter("n", 0, I32), parameter("x", 1, F32, 4)
    zero, one = number(0), number(1)
    bodies: list[tuple[Callable[..., Node], Callable[..., tuple[Node, ...]], list[Node]]] = [
        (lambda i, x: scalar("less", i, n), lambda i, x: (scalar("add", i, one), scalar("exp", x)), [zero, x]),
        (lambda i, x: scalar("less", i, number(3)), lambda i, x: (scalar("add", i, one), scalar("exp", x)), [n, x]),
        (lambda i, x: scalar("less", i, number(3)), lambda i, x: (scalar("add", i, n), scalar("exp", x)), [zero, x]),
        (lambda i, x: scalar("less", i, number(30)), lambda i, x: (
            scalar("add", i, scalar("add", i, one)), scalar("exp", x)), [zero, x]),
        (lambda i, x: scalar("less", scalar("multiply", i, i), number(30)), lambda i, x: (
            scalar("add", i, one), scalar("exp", x)), [zero, x]),
    ]
    for condition, body, state in bodies:
        (loop,) = {x for each in while_(condition, body, state) for x in each.operands}
        assert count_turns(loop) is None


def rows(turns: int, height: int, index: Callable[[Node], Node], start: int = 0, step: int = 1) -> tuple[Node, ...]:
    """A loop that takes a row of xs and writes a row of ys at an index, `turns` times."""
    xs, ys = parameter("xs", 0, F32, height, COLUMNS), parameter("ys", 1, F32, height, COLUMNS)
    zero = number(0)

    def body(i: Node, xs: Node, total: Node, ys: Node) -> tuple[Node, ...]:
        row = dynamic_slice(xs, (index(i), zero), (1, COLUMNS))
        total = scalar("add", total, row)
        return scalar("add", i, number(step)), xs, total, dynamic_update_slice(ys, total, (index(i), number(7)))

    return while_(lambda i, *_: scalar("not_equal", i, number(start + step * turns)), body,
                  [number(start), xs, builders.splat(0.0, F32, (1, COLUMNS)), ys])


def scan_of(results: Sequence[Node]) -> tuple[ScanAttributes, Function]:
    function, (loop,) = raised(results)
    assert loop.op.name == "scan"
    return loop.attributes, function


def test_slices_and_stacks() -> None:
    scan, function = scan_of(rows(4, 4, lambda i: i))
    assert (scan.carries, scan.sequences, scan.length, scan.reverse, len(scan.body.results)) == (1, 1, 4, False, 2)
    assert function.results[0].op.name == "constant" and function.results[1] is function.parameters[0]


@pytest.mark.parametrize("start, step, index", [
    (3, -1, lambda i: i), (0, 1, lambda i: scalar("subtract", number(3), i)),
    (10, 1, lambda i: scalar("subtract", number(13), i)),
    (-1, -1, lambda i: scalar("add", i, number(4))),
])
def test_from_last_to_first(start: int, step: int, index: Callable[[Node], Node]) -> None:
    scan, _ = scan_of(rows(4, 4, index, start, step))
    assert scan.reverse and (scan.carries, scan.sequences, len(scan.body.results)) == (1, 1, 2)


def test_indices_that_are_brought_into_range() -> None:
    """As front ends write them: negative ones count from the end, others are clamped."""
    def negative(i: Node) -> Node:
        return scalar("where", scalar("less", i, number(0)), scalar("add", i, number(4)), i)

    def clamped(i: Node) -> Node:
        return scalar("maximum", number(0), scalar("minimum", scalar("astype_i32", scalar("astype_i64", i)), number(3)))

    for index in (negative, clamped):
        scan, _ = scan_of(rows(4, 4, index))
        assert (scan.carries, scan.sequences) == (1, 1)
    scan, _ = scan_of(rows(4, 4, negative, -4))
    assert (scan.carries, scan.sequences) == (1, 1)
    scan, _ = scan_of(rows(4, 4, negative, -2))
    assert (scan.carries, scan.sequences) == (3, 0), "where the sign is not the same in all turns, nothing is known"


@pytest.mark.parametrize("turns, height, offset", [(3, 4, 0), (4, 3, 0), (3, 3, 1), (3, 3, -1), (3, 4, 1), (1, 1, 0)])
def test_other_slices_stay_as_they_are(turns: int, height: int, offset: int) -> None:
    """Starts that are clamped, rows that are left out: an update in each turn, not a stack."""
    scan, _ = scan_of(rows(turns, height, lambda i: scalar("add", i, number(offset))))
    whole = turns == height and offset == 0
    assert (scan.carries, scan.sequences) == ((1, 1) if whole else (3, 0))


def test_state_that_is_read_is_carried() -> None:
    xs, zero = parameter("xs", 0, F32, 4, COLUMNS), number(0)

    def loop(body: Callable[[Node, Node], tuple[Node, ...]], *state: Node) -> tuple[Node, ...]:
        return while_(lambda i, *_: scalar("less", i, number(4)),
                      lambda i, *now: (scalar("add", i, number(1)), *body(i, *now)), [zero, *state])

    row = builders.splat(1.0, F32, (1, COLUMNS))

    def put(ys: Node, value: Node, i: Node) -> Node:
        return dynamic_update_slice(ys, value, (i, zero))

    def take(ys: Node, i: Node) -> Node:
        return dynamic_slice(ys, (i, zero), (1, COLUMNS))

    for body, state in (
        (lambda i, ys: (put(ys, take(ys, i), i),), [xs]),
        (lambda i, ys: (put(put(ys, row, i), row, i),), [xs]),
        (lambda i, ys, zs: (put(ys, row, i), put(ys, row, i)), [xs, xs]),
        (lambda i, ys, zs: (put(zs, row, i), ys), [xs, xs]),
        (lambda i, ys, zs: (put(ys, row, i), scalar("add", zs, ys)), [xs, xs]),
        (lambda i, ys, zs: (put(ys, row, i), scalar("add", zs, put(ys, row, i))), [xs, xs]),
        (lambda i, ys: (put(ys, row, zero),), [xs]),
        (lambda i, ys: (scalar("add", put(ys, row, i), xs),), [xs]),
    ):
        scan, _ = scan_of(loop(body, *state))
        assert len(scan.body.results) == scan.carries


def test_the_counter_in_the_body_and_no_state_but_counters() -> None:
    x = parameter("x", 0, F32, COLUMNS)
    results = while_(
        lambda i, j, v: scalar("less", i, number(9)),
        lambda i, j, v: (scalar("add", i, number(2)), scalar("subtract", j, number(3)), scalar(
            "add", v, builders.broadcast_scalar(scalar("astype_f32", j), (COLUMNS,)))), [number(0), number(5), x])
    scan, function = scan_of(results)
    assert scan.carries == 2 and [x.op.name for x in function.results[:2]] == ["constant"] * 2
    only, none = raised(while_(lambda i: scalar("less", i, number(9)), lambda i: (scalar("add", i, number(2)),),
                               [number(0)]))
    assert not none and only.results[0] is number(10)
    unused, none = raised(while_(lambda i, x: scalar("less", i, number(0)),
                                 lambda i, x: (scalar("add", i, number(2)), scalar("exp", x)), [number(0), x]))
    assert not none and unused.results[1] is x


def test_nested_loops_and_captured_limits() -> None:
    xs = parameter("xs", 0, F32, 3, 4)

    def inner(row: Node, limit: Node) -> Node:
        return while_(lambda j, total: scalar("less", j, limit),
                      lambda j, total: (scalar("add", j, number(1)), scalar("add", total, builders.reshape(
                          dynamic_slice(row, (j,), (1,)), ()))),
                      [number(0), builders.scalar_constant(0.0, F32)])[1]

    def body(i: Node, limit: Node, totals: Node) -> tuple[Node, ...]:
        row = builders.reshape(dynamic_slice(xs, (i, number(0)), (1, 4)), (4,))
        total = builders.reshape(inner(row, number(4)), (1,))
        return scalar("add", i, number(1)), limit, dynamic_update_slice(totals, total, (i,))

    results = while_(lambda i, limit, totals: scalar("less", i, limit), body,
                     [number(0), number(3), builders.splat(0.0, F32, (3,))])
    _, found = raised(results)
    assert [x.op.name for x in found] == ["scan", "scan"]
    assert [x.attributes.sequences for x in found] == [1, 1] and found[0].attributes.carries == 0


def test_random_loops() -> None:
    """Rows at random lines of the counter, in and out of range, and updates of several states."""
    for seed in range(60):
        raised(random_loop(random.Random(seed)))


def random_loop(rng: random.Random) -> tuple[Node, ...]:
    height, turns = rng.randrange(1, 5), rng.randrange(6)
    start, step = rng.randrange(-3, 4), rng.choice((1, 1, -1, 2))
    xs, zero = parameter("xs", 0, F32, height, COLUMNS), number(0)

    def index(i: Node) -> Node:
        base = scalar("subtract", i, number(start)) if rng.random() < 0.7 else i
        if rng.random() < 0.3:
            base = scalar("subtract", number(height - 1), base)
        return scalar("add", base, number(rng.choice((0, 0, 0, 1, -1))))

    def body(i: Node, j: Node, a: Node, b: Node) -> tuple[Node, ...]:
        source = rng.choice((xs, xs, a))
        row = scalar("add", dynamic_slice(source, (index(i), zero), (1, COLUMNS)), builders.broadcast_in_dim(
            scalar("astype_f32", rng.choice((i, j))), (1, COLUMNS), ()))
        made = dynamic_update_slice(rng.choice((a, b, b)), row, (index(rng.choice((i, j))), zero))
        return (scalar("add", i, number(step)), scalar("add", j, number(1)), rng.choice((a, b, made)), made)

    return while_(lambda i, *_: scalar("not_equal", i, number(start + step * turns)), body,
                  [number(start), zero, scalar("negative", xs), xs])


def test_lines() -> None:
    assert Line(1, 2) + Line(3, -1) == Line(4, 1) and Line(1, 2) * 3 == Line(3, 6)
    assert (Line(1, 2) - Line(3, -1)).at(2) == 4


def test_loops_of_stablehlo() -> None:
    """A loop of StableHLO that writes rows is one scan without an update."""
    program = tcp.parse("""
module {
  func.func @main(%x: tensor<6x3xf32>) -> (tensor<3xf32>, tensor<6x3xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %start = stablehlo.constant dense<0.0> : tensor<3xf32>
    %rows = stablehlo.constant dense<0.0> : tensor<6x3xf32>
    %r:4 = stablehlo.while(%a = %x, %i = %zero, %c = %start, %o = %rows)
        : tensor<6x3xf32>, tensor<i32>, tensor<3xf32>, tensor<6x3xf32>
    cond {
      %n = stablehlo.constant dense<6> : tensor<i32>
      %p = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %z = stablehlo.constant dense<0> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %s = stablehlo.dynamic_slice %a, %i, %z, sizes = [1, 3]
          : (tensor<6x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
      %t = stablehlo.reshape %s : (tensor<1x3xf32>) -> tensor<3xf32>
      %d = stablehlo.add %c, %t : tensor<3xf32>
      %e = stablehlo.reshape %d : (tensor<3xf32>) -> tensor<1x3xf32>
      %u = stablehlo.dynamic_update_slice %o, %e, %i, %z
          : (tensor<6x3xf32>, tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<6x3xf32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %a, %j, %d, %u : tensor<6x3xf32>, tensor<i32>, tensor<3xf32>, tensor<6x3xf32>
    }
    return %r#2, %r#3 : tensor<3xf32>, tensor<6x3xf32>
  }
}""")
    compiled = tcp.compile(program)
    x = RNG.integers(-5, 6, (6, 3)).astype(np.float32)
    last, sums = compiled(x)
    np.testing.assert_array_equal(sums, np.cumsum(x, 0))
    np.testing.assert_array_equal(last, sums[-1])
    (text,) = compiled.report.kernel_texts
    assert "scan(" in text and "routine" not in text


def test_a_counted_loop_has_a_gradient():
    def power(x):
        return tcp.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, s[1] * x), (0, x))[1]

    program = tcp.trace(power, "f64[]")
    assert [x.op.name for x in program.main.nodes() if x.op.name in ("while", "scan")] == ["while"]
    gradient = tcp.grad(program)
    for evaluate_ in (tcp.reference(gradient), tcp.compile(gradient)):
        assert evaluate_(np.array(1.5)) == pytest.approx(6 * 1.5**5)

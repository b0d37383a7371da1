"""If, case, while, scan: meaning, regions and captures, text, substitution, derivatives, machine code."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest
from control_programs import PROGRAMS, Control
from lang.test_grad import check_gradient

import tcp_eqsat as tcp
from tcp_eqsat.errors import ArgumentError, ShapeMismatch, TcpError, TypeMismatch
from tcp_eqsat.lang import text
from tcp_eqsat.lang.atoms import refine_axes
from tcp_eqsat.lang.grad import grad, vjp
from tcp_eqsat.lang.op import regions_of
from tcp_eqsat.lang.ops import builders, control
from tcp_eqsat.lang.ops.structure import expand
from tcp_eqsat.lang.program import Function, Node, Program, Region, walk
from tcp_eqsat.lang.reference import evaluate
from tcp_eqsat.lang.scalar import scalar_op_named
from tcp_eqsat.lang.specialise import call, freeze, substitute_symbols
from tcp_eqsat.lang.type_text import parse_type
from tcp_eqsat.lang.types import BOOL, F64, I32

xp = tcp.numpy


def at_all_sizes(programs=PROGRAMS):
    return pytest.mark.parametrize(
        ("program", "sizes"), [(p, s) for p in programs for s in p.sizes],
        ids=[f"{p.name}-{'-'.join(f'{k}{v}' for k, v in s.items())}" for p in programs for s in p.sizes])


def add(x: Node, y: Node) -> Node:
    return builders.map_scalar(scalar_op_named("add"), x, y)


def x_of(text_: str, name: str = "x", index: int = 0) -> Node:
    return builders.parameter(name, index, parse_type(text_, {}))


def everywhere(roots) -> list[Node]:
    """All nodes, those of regions included."""
    found = []
    for node in walk(roots):
        found.append(node)
        for region in regions_of(node.attributes):
            found += everywhere(region.results)
    return found


def count_of(function: Function) -> Counter:
    return Counter(x.op.name for x in everywhere(function.results))


# Meaning


@at_all_sizes()
def test_the_reference_is_what_python_does(program: Control, sizes):
    for seed in range(4):
        arrays = program.arrays(sizes, seed)
        expected = program.numpy(*arrays)
        expected = expected if isinstance(expected, tuple) else (expected,)
        for y, e in zip(evaluate(program.function, arrays), expected, strict=True):
            assert y.dtype == e.dtype and y.shape == e.shape
            np.testing.assert_allclose(y, e, rtol=1e-12)


@at_all_sizes()
def test_machine_code_is_the_reference(program: Control, sizes):
    compiled = tcp.compile(program.function)
    for seed in range(3):
        arrays = program.arrays(sizes, seed)
        found = compiled(*arrays)
        found = found if isinstance(found, tuple) else (found,)
        for y, e in zip(found, evaluate(program.function, arrays), strict=True):
            np.testing.assert_allclose(y, e, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("index", "expected"), [(-1, 30), (0, 10), (1, 20), (2, 30), (3, 30), (2**31 - 1, 30),
                                                 (-2**31, 30)])
def test_case_takes_the_last_branch_out_of_range(index, expected):
    n = x_of("i32[]", "n")
    results = control.case(n, [lambda v=v: (builders.scalar_constant(v, I32),) for v in (10, 20, 30)])
    (found,) = evaluate(Function("f", (n,), results), (np.array(index, np.int32),))
    assert found == expected


@pytest.mark.parametrize("dtype", ["i8", "u8", "i64", "u32"])
def test_switch_takes_indices_of_any_integer_dtype(dtype):
    program = tcp.trace(lambda n: tcp.switch(n, [lambda: 1, lambda: 2, lambda: 3.5]), f"{dtype}[]")
    evaluated = tcp.reference(program)
    info = np.iinfo(np.dtype(program.main.parameters[0].dtype.numpy))
    for index in (0, 1, 2, 3, 77, int(info.min), int(info.max), 2**32 if info.max > 2**32 else 5):
        assert evaluated(np.array(index, info.dtype)) == {0: 1, 1: 2}.get(index, 3.5)


def test_a_zero_trip_while_is_its_state():
    x = x_of("f64[2]")
    found = control.while_(lambda v: builders.scalar_constant(False, BOOL), lambda v: (add(v, v),), (x,))
    assert evaluate(Function("f", (x,), found), (np.array([1.0, 2.0]),))[0].tolist() == [1, 2]


# Regions and captures


def test_captures_are_found_and_bodies_are_closed():
    x, w, p = x_of("f64[3]"), x_of("f64[3]", "w", 1), x_of("bool[]", "p", 2)
    outside = add(x, w)
    (result,) = control.if_(p, lambda: (add(outside, w),), lambda: (add(add(x, x), x),))
    predicate, *captures = result.operands
    assert predicate is p and captures == [w, outside, x]
    first, second = result.attributes.regions
    assert [x.attributes.name for x in first.parameters] == ["c0", "c1", "c2"] and first.parameters == second.parameters
    assert Counter(x.op.name for x in walk(first.results)) == {"parameter": 2, "map": 1}
    assert Counter(x.op.name for x in walk(second.results)) == {"parameter": 1, "map": 2}


def test_what_a_branch_makes_runs_in_it_even_where_it_was_made_before():
    x, p = x_of("f64[3]"), x_of("bool[]", "p", 1)
    kept = add(x, x)
    (result,) = control.if_(p, lambda: (add(x, x),), lambda: (x,))
    assert result.operands == (p, x) and kept not in result.operands


def test_loops_compute_what_does_not_change_once_and_keep_what_costs_nothing():
    x, b = x_of("f64[4, 3]"), x_of("f64[1]", "b", 1)
    row = builders.view(b, (-1,), (3,))

    def step(carry, part):
        square = builders.map_scalar(scalar_op_named("square"), b)
        repeated = builders.view(square, (-1,), (3,))
        return (add(add(add(carry, part), repeated), row),)

    (result,) = control.scan(step, (builders.splat(0, F64, (3,)),), (x,), 4)
    assert [n.op.name for n in result.operands] == ["view", "parameter", "parameter", "map"]
    body = result.attributes.body
    assert [(p.attributes.name, str(p.type)) for p in body.parameters] == [
        ("s0", "f64[3]"), ("x0", "f64[3]"), ("c0", "f64[1]"), ("c1", "f64[1]")]
    assert Counter(n.op.name for n in walk(body.results)) == {"parameter": 4, "map": 3, "view": 2}


def test_nested_regions_capture_through_each_other():
    x, w, p = x_of("f64[3]"), x_of("f64[3]", "w", 1), x_of("bool[]", "p", 2)

    def outer():
        y = add(x, x)
        return control.if_(p, lambda: control.scan(lambda c: (add(add(c, y), w),), (y,), (), 3), lambda: (x,))

    (result,) = control.if_(p, outer, lambda: (w,))
    assert set(result.operands) == {p, x, w}
    found = evaluate(Function("f", (x, w, p), (result,)), (np.ones(3), np.full(3, 10.0), np.array(True)))
    assert found[0].tolist() == [2 + 3 * 12] * 3


def test_equal_bodies_are_equal_nodes():
    def make():
        x = x_of("f64[3]")
        return control.scan(lambda c, s: (add(c, s), c), (builders.splat(0, F64, ()),), (x,), 3)

    assert make() == make()
    assert PROGRAMS[5].function.results == PROGRAMS[5].function.results


def test_a_value_of_a_body_can_not_leave_it():
    leaked = []

    def step(carry, part):
        leaked.append(carry * 2)
        return carry + part, None

    def outer(x):
        total, _ = tcp.scan(step, np.float64(0), x)
        return total + leaked[0]

    with pytest.raises(TypeMismatch, match="belongs to the body of a loop"):
        tcp.trace(outer, "f64[3]")


# Programs are changed inside of regions too


@at_all_sizes()
def test_symbols_are_replaced_in_regions(program: Control, sizes):
    function = substitute_symbols(program.function, sizes)
    assert all(isinstance(n, int) for x in everywhere(function.results)
               for t in (getattr(x.type, "items", None) or (x.type,)) for n in t.shape)
    arrays = program.arrays(sizes)
    for y, e in zip(evaluate(function, arrays), evaluate(program.function, arrays), strict=True):
        np.testing.assert_array_equal(y, e)


@at_all_sizes()
def test_frozen_and_refined_programs_are_equal(program: Control, sizes):
    function = program.function
    arrays = program.arrays(sizes)
    last = function.parameter_names[-1]
    frozen = freeze(function, {last: arrays[-1]})
    for y, e in zip(evaluate(frozen, arrays[:-1]), evaluate(function, arrays), strict=True):
        np.testing.assert_array_equal(y, e)
    again = refine_axes(function).restored()
    for y, e in zip(evaluate(again, arrays), evaluate(function, arrays), strict=True):
        np.testing.assert_array_equal(y, e)


def test_composites_in_regions_are_expanded():
    x = x_of("f64[3]")
    a = x_of("f64[3]", "a")
    body = Region((a,), (add(a, a),))
    (result,) = control.scan(lambda c: (builders.composite("twice", body, c),), (x,), (), 2)
    assert "composite" in {n.op.name for n in everywhere((result,))}
    assert "composite" not in {n.op.name for n in everywhere((expand((result,))[result],))}
    assert evaluate(Function("f", (x,), (result,)), (np.ones(3),))[0].tolist() == [4] * 3


def test_calls_are_composites_with_sizes_of_the_caller():
    function = tcp.trace(lambda x, w: xp.tanh(x @ w), tcp.spec("f64[n, k]", n=(0, 9)), "f64[k, 2]", name="dense").main
    program = tcp.trace(lambda x, w: tcp.call(function, x, w) + 1, tcp.spec("f64[b, 3]", b=(1, 5)), "f64[3, 2]")
    node = program.main.results[0].operands[0]
    assert node.op.name == "composite" and node.attributes.name == "dense"
    x, w = np.ones((4, 3)), np.ones((3, 2))
    np.testing.assert_allclose(tcp.reference(program)(x, w), np.tanh(x @ w) + 1)
    operands = [x_of("f64[4, 3]"), x_of("f64[4, 2]", "w", 1)]
    with pytest.raises(ShapeMismatch, match=re.escape("argument 'w' of dense must be f64[3, 2], got f64[4, 2]")):
        call(function, *operands)
    with pytest.raises(TypeMismatch, match="dense requires 2 operands, got 1"):
        call(function, operands[0])
    with pytest.raises(TypeMismatch, match=re.escape("must be f64[n, k], got f64[4]")):
        call(function, x_of("f64[4]"), operands[1])
    with pytest.raises(ShapeMismatch, match=re.escape("dense requires n in [0, 9], got 10")):
        call(function, x_of("f64[10, 4]"), operands[1])


# Text


TEXT = """tcp 1

func @f(%x: f64[s, 3], %w: f64[3], %p: bool[]) -> (f64[3], f64[s], i32[]) {
  %0 = constant 0.0: f64[]
  %1 = view %0[] -> [i]: f64[3]
  %2 = scan %1, %x {carries = 1, sequences = 1, length = s, reverse = true} body (%s0: f64[3], %x0: f64[3]) {
    %0 = add %s0, %x0: f64[3]
    %1 = reduce add %0[i] -> []: f64[]
    return %0, %1
  }: (f64[3], f64[s])
  %3 = project %2 {index = 0}: f64[3]
  %4 = if %p, %3, %w then (%c0: f64[3], %c1: f64[3]) {
    %0 = multiply %c0, %c1: f64[3]
    return %0
  } else (%c0: f64[3], %c1: f64[3]) {
    return %c0
  }: f64[3]
  %5 = project %2 {index = 1}: f64[s]
  %6 = constant 1: i32[]
  %7 = while %6 {count = 1} condition (%s0: i32[]) {
    %0 = constant 9: i32[]
    %1 = less %s0, %0: bool[]
    return %1
  } body (%s0: i32[]) {
    %0 = case %s0, %s0 branch (%c0: i32[]) {
      return %c0
    } branch (%c0: i32[]) {
      %0 = constant 4: i32[]
      %1 = multiply %c0, %0: i32[]
      return %1
    }: i32[]
    return %0
  }: i32[]
  return %4, %5, %7
}
"""


def test_text_of_control_flow():
    program = text.parse(TEXT)
    assert text.write(program) == TEXT
    x, w = np.arange(6.0).reshape(2, 3), np.full(3, 2.0)
    out, sums, count = evaluate(program.main, (x, w, np.array(True)))
    assert out.tolist() == [6, 10, 14] and sums.tolist() == [15, 12] and count == 16
    assert evaluate(program.main, (x, w, np.array(False)))[0].tolist() == [3, 5, 7]


@at_all_sizes()
def test_text_round_trip(program: Control, sizes):
    function = program.function
    written = text.write(Program({function.name: function}))
    assert text.parse(written).main.results == function.results
    if program.has_gradient:
        pulled = vjp(function)
        assert text.parse(text.write(Program({"f": pulled}))).main.results == pulled.results


def line(operation: str) -> str:
    return f"tcp 1\nfunc @f(%x: f64[3], %p: bool[]) -> f64[3] {{\n  %0 = {operation}\n  return %0\n}}"


@pytest.mark.parametrize(("content", "row", "column", "message"), [
    (line("if %p, %x then (%a: f64[3]) { return %a }: f64[3]"), 3, 49, "'else' is required, got ':'"),
    (line("if %p, %x then (%a: f64[3]) { return %a } else (%a: f32[3]) { return %a }: f64[3]"), 3, 8,
     "branch 1 of if requires parameters (f64[3]), got (f32[3])"),
    (line("if %p, %x then (%a: f64[3]) { return %x } else (%a: f64[3]) { return %a }: f64[3]"), 3, 45,
     "value %x is not defined"),
    (line("if %x then () { } else () { }: f64[3]"), 3, 24, "a value such as %0, or return, is required, got '}'"),
    (line("if %p then () { %0 = exp %p: bool[] return %0 } else () { return }: f64[3]"), 3, 33,
     "value %p is not defined"),
    (line("while %x {count = 2} condition (%a: f64[3]) { return %a } body (%a: f64[3]) { return %a }: f64[3]"), 3, 8,
     "while requires 1 to 1 values of state, got 2"),
    (line("while %x condition (%a: f64[3]) { return %a } body (%a: f64[3]) { return %a }: f64[3]"), 3, 17,
     "'{' is required, got 'condition'"),
    (line("scan %x {carries = 1, sequences = 0, length = -1, reverse = false} body (%a: f64[3]) { return %a }: f64[3]"),
     3, 8, "scan requires sizes of at least 0, got [-1]"),
    (line("scan %x {carries = 1, sequences = 0, length = 2, reverse = maybe} body (%a: f64[3]) { return %a }: f64[3]"),
     3, 67, "true or false is required, got 'maybe'"),
    (line("scan %x {carries = 1, sequences = 0, length = 2, reverse = true} body (%a: f64[3]) { return %a }: f64[9]"),
     3, 106, "%0 states type f64[9] but its operation gives f64[3]"),
    (line("case %p, %x branch (%a: f64[3]) { return %a }: f64[3]"), 3, 8,
     "case requires i32[] as operand 0, got bool[]"),
    (line("case %p, %x: f64[3]"), 3, 8, "case requires at least 1 branch, got 0"),
])
def test_malformed_text_is_refused_with_its_place(content, row, column, message):
    with pytest.raises(TcpError) as caught:
        text.parse(content)
    where = caught.value.where
    assert message in caught.value.message
    assert (where.line, where.column) == (row, column), str(caught.value)


# Python


@pytest.mark.parametrize(("function", "specs", "error", "message"), [
    (lambda x: tcp.cond(x, lambda: x, lambda: x), ["f64[]"], TypeMismatch,
     "if requires bool[] as operand 0, got f64[]"),
    (lambda x: tcp.cond(x > 0, lambda: x, lambda: (x,)), ["f64[]"], TypeMismatch,
     "each branch of cond requires a value of the form *, got (*,)"),
    (lambda x: tcp.cond(x > 0, lambda: x, lambda: x.astype("f32")), ["f64[]"], TypeMismatch,
     "if requires branches with results of the same types, got (f64[]) (branch 0) and (f32[]) (branch 1)"),
    (lambda x: tcp.cond(x > 0, lambda: None, lambda: None), ["f64[]"], TypeMismatch,
     "cond requires branches that give"),
    (lambda x: tcp.switch(x, [lambda: x]), ["f64[]"], TypeMismatch, "switch requires an integer of rank 0"),
    (lambda x: tcp.switch(x, []), ["i32[]"], ArgumentError, "switch requires a branch at least"),
    (lambda x: tcp.while_loop(lambda s: s < 9, lambda s: (s, s), x), ["f64[]"], TypeMismatch,
     "the body of while_loop requires a value of the form *, got (*, *)"),
    (lambda x: tcp.while_loop(lambda s: s[1] < 9, lambda s: (s[0], s[1].astype("f32")), (x, x)), ["f64[]"],
     TypeMismatch, "while requires a body that keeps the type of state 1, f64[], got f32[]"),
    (lambda x: tcp.while_loop(lambda s: s + 1, lambda s: s, x), ["f64[]"], TypeMismatch,
     "while requires a condition that gives bool[], got (f64[])"),
    (lambda x: tcp.while_loop(lambda s: True, lambda s: s, ()), ["f64[]"], TypeMismatch,
     "while_loop requires a tensor"),
    (lambda x: tcp.while_loop(lambda s: s < 9, lambda s: s, x, bound=-1), ["f64[]"], ShapeMismatch,
     "at least 0, got -1"),
    (lambda x: tcp.scan(lambda c, p: c, x, None, 3), ["f64[]"], TypeMismatch, "must give a pair (carry, output)"),
    (lambda x: tcp.scan(lambda c, p: ([c], p), x, None, 3), ["f64[]"], TypeMismatch,
     "the body of scan requires a value of the form *, got [*]"),
    (lambda x: tcp.scan(lambda c, p: (c, p), x), ["f64[]"], ArgumentError, "scan requires sequences or a length"),
    (lambda x: tcp.scan(lambda c, p: (c, p), 0, x), ["f64[]"], ShapeMismatch, "sequences with a first axis, got f64[]"),
    (lambda x, y: tcp.scan(lambda c, p: (c, None), 0, (x, y)), ["f64[3]", "f64[4]"], ShapeMismatch,
     "scan requires sequences of one length, got 3 and f64[4]"),
    (lambda x: tcp.scan(lambda c, p: (c + 1.5, None), 0, x), ["f64[3]"], TypeMismatch, "1.5 does not fit dtype i64"),
    (lambda x: tcp.fori_loop(0, x, lambda i, s: s, x), ["f64[]"], TypeMismatch, "integer of rank 0 as its upper limit"),
    (lambda x: x if x > 0 else -x, ["f64[]"], TypeMismatch, "use tcp.cond(condition, f, g)"),
])
def test_python_refusals(function, specs, error, message):
    with pytest.raises(error, match=re.escape(message)):
        tcp.trace(function, *specs)


def test_jit_makes_sizes_equal_that_loops_need_equal():
    @tcp.jit
    def total(x, y):
        return tcp.scan(lambda c, parts: (c + parts[0] * parts[1], None), np.float64(0), (x, y))[0]

    x, y = np.arange(4.0), np.arange(4.0) + 1
    assert total(x, y) == (x * y).sum()


# Derivatives


@at_all_sizes([p for p in PROGRAMS if p.has_gradient])
def test_gradients(program: Control, sizes):
    function = in_floats(program.function)
    for seed in range(3):
        check_gradient(function, tuple(a for a in program.arrays(sizes, seed) if a.dtype.kind == "f"))


def in_floats(function: Function) -> Function:
    """The function with integer parameters held at 1, and without integer results."""
    held = {x.attributes.name: np.ones((), x.dtype.numpy) for x in function.parameters if not x.dtype.is_float}
    frozen = freeze(function, held)
    return Function(frozen.name, frozen.parameters, tuple(x for x in frozen.results if x.dtype.is_float))


@pytest.mark.parametrize("program", [p for p in PROGRAMS if p.has_gradient], ids=lambda p: p.name)
def test_machine_code_of_gradients(program: Control):
    pulled = vjp(in_floats(program.function))
    compiled = tcp.compile(pulled)
    for sizes in program.sizes:
        arrays = [a for a in program.arrays(sizes, 2) if a.dtype.kind == "f"]
        results = evaluate(in_floats(program.function), arrays)
        arrays += [np.random.default_rng(0).standard_normal(y.shape) for y in results]
        found = compiled(*arrays)
        for y, e in zip(found if isinstance(found, tuple) else (found,), evaluate(pulled, arrays), strict=True):
            np.testing.assert_allclose(y, e, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("program", [p for p in PROGRAMS if p.has_gradient and p.name in (
    "branch", "recurrence", "bounded", "choosing_scan", "nested_scans")], ids=lambda p: p.name)
def test_second_derivatives(program: Control):
    sizes = program.sizes[-1]
    function = in_floats(program.function)
    squares = [builders.reduce_axes(scalar_op_named("add"), builders.map_scalar(scalar_op_named("square"), x),
                                    tuple(range(len(x.shape)))) for x in function.results]
    total = squares[0]
    for x in squares[1:]:
        total = add(total, x)
    first = grad(Function("total", function.parameters, (total,)))
    check_gradient(first, tuple(a for a in program.arrays(sizes, 1) if a.dtype.kind == "f"))


def test_the_way_forward_is_gone_once_and_only_needed_values_are_kept():
    function = tcp.trace(lambda x, w: tcp.scan(lambda c, p: (xp.tanh(c * w + p), None), np.float64(0), x)[0],
                         "f64[s]", "f64[]").main
    pulled = vjp(function)
    scans = [x for x in pulled.nodes() if x.op.name == "scan"]
    assert [x.attributes.reverse for x in scans] == [False, True]
    assert len(scans[0].attributes.body.results) == 2  # the carry, and the carry before
    linear = tcp.trace(lambda x: tcp.scan(lambda c, p: (c * 0.5 + p, None), np.float64(0), x)[0], "f64[s]").main
    scans = [x for x in vjp(linear).nodes() if x.op.name == "scan"]
    assert len(scans[0].attributes.body.results) == 1  # nothing is kept for a linear step
    only_x = grad(function, "x")
    (back,) = [x for x in only_x.nodes() if x.op.name == "scan" and x.attributes.reverse]
    assert back.attributes.carries == 1  # no sum for w, which nobody asked for


def test_branches_take_only_what_they_need_back():
    function = tcp.trace(lambda x, y: tcp.cond(xp.sum(x) > 0, lambda: x * 3, lambda: x + y), "f64[3]", "f64[3]").main
    (made,) = [x for x in grad(function, "x", cotangents=True).nodes() if x.op.name == "if"]
    assert len(made.operands) == 2  # the predicate and the cotangent


def test_integer_state_has_no_cotangent():
    def function(x):
        (count, product), steps = tcp.scan(lambda c, p: ((c[0] + 1, c[1] * p), c[0]), (0, np.float64(1)), x)
        return count, product, steps

    program = tcp.trace(function, "f64[3]")
    pulled = vjp(program.main)
    assert [x.attributes.name for x in pulled.parameters] == ["x", "cotangent1"]
    found = evaluate(pulled, (np.array([2.0, 3, 4]), np.array(1.0)))
    assert found[-1].tolist() == [12, 8, 6]


def test_an_unbounded_while_has_no_gradient_but_integers_may_loop():
    function = next(p for p in PROGRAMS if p.name == "doubling").function
    with pytest.raises(ArgumentError, match="give while_loop a bound"):
        vjp(function)
    program = tcp.trace(lambda x: x * xp.astype(tcp.while_loop(lambda n: n < 5, lambda n: n * 2, 1), "f64"), "f64[]")
    assert evaluate(grad(program.main), (np.array(1.5),))[0] == 8


def test_a_bound_stops_a_loop():
    program = tcp.trace(lambda x: tcp.while_loop(lambda v: v < 100, lambda v: v * 2, x, bound=3), "f64[]")
    assert tcp.reference(program)(np.array(1.0)) == 8 and tcp.reference(program)(np.array(60.0)) == 120
    assert evaluate(grad(program.main), (np.array(30.0),))[0] == 4

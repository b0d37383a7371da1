"""Procedures as machine code: what the interpreter computes, on every target, at sizes 0 and more."""

from __future__ import annotations

import re

import numpy as np
import pytest
from plans import PlanWriter, tensor
from programs import assert_sample_computed, single_operation

import tcp_eqsat as tcp
from tcp_eqsat.codegen.compile import CompiledFunction, compile_plan
from tcp_eqsat.codegen.target import available_targets, cpu_target
from tcp_eqsat.errors import ArgumentError, TargetError
from tcp_eqsat.lang.dims import symbol
from tcp_eqsat.lang.op import OPS, PROCEDURAL
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.ops.order_builders import ascending, sort
from tcp_eqsat.lang.plan import Plan, Role, Routine
from tcp_eqsat.lang.plan_reference import evaluate_plan
from tcp_eqsat.lang.procedural import Procedure, Writer
from tcp_eqsat.lang.program import Function, Node
from tcp_eqsat.lang.scalar import scalar_op_named
from tcp_eqsat.lang.types import BOOL, F32, I32, I64, TensorType

B, S = symbol("b", 0, 1000), symbol("s", 0, 1000)
TARGETS = available_targets()
OPERATIONS = [name for name, op in OPS.items() if op.pointful is PROCEDURAL]


def ordered(x: Node) -> Node:
    return sort((x,), ascending(x.dtype), 0)[0]


def plan_of(procedure: Procedure) -> Plan:
    """The procedure as the only step of a plan."""
    writer = PlanWriter()
    for x in procedure.operands:
        writer.parameter(x.name, x.type)
    for r in procedure.results:
        writer.buffer(f"{r.name}_out", r.type, Role.RESULT)
    plan = writer.plan(*(r.name for r in procedure.results))
    routine = Routine("k0", OPS["sort"], None, procedure, tuple(x.name for x in procedure.operands),
                      tuple(f"{r.name}_out" for r in procedure.results))
    return Plan(plan.name, plan.parameters, plan.results, plan.buffers, (routine,), plan.symbols)


def check(procedure: Procedure, *arrays: np.ndarray, target: str = "native") -> CompiledFunction:
    plan = plan_of(procedure)
    function = compile_plan(plan, cpu_target(target))
    found = function(*arrays)
    for x, y in zip(found if isinstance(found, tuple) else (found,), evaluate_plan(plan, arrays), strict=True):
        np.testing.assert_array_equal(x, y)
    return function


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name: str, target: str) -> None:
    """Every operation that has a procedure, from a program to its results."""
    first = 3 * TARGETS.index(target)
    for seed in range(first, first + 3):
        sample = single_operation(seed, name, max_rank=4, stable=True)
        if not {s.name for s in sample.function.symbols} >= set(sample.sizes(seed)):
            continue
        function = compile_plan(tcp.optimize(sample.function).plan, cpu_target(target))
        assert_sample_computed(sample, function)


def collatz() -> Procedure:
    """Steps until 1 is reached, and the largest number on the way: while, if and else, variables."""
    w = Writer((tensor("i64", B),), (tensor("i64", B), tensor("i64", B)))
    (x,), (steps, peak) = w.operands, w.results
    with w.loop(B) as i:
        number, count, most = w.variable(w.load(x, (i,))), w.variable(0), w.variable(0)
        with w.while_(lambda: number.get() > 1):
            now = number.get()
            w.choose(now % 2 == 0, lambda: number.set(now / 2), lambda: number.set(now * 3 + 1))
            count.set(count.get() + 1)
            with w.if_(number.get() > most.get()):
                most.set(number.get())
        w.store(steps, (i,), count.get())
        w.store(peak, (i,), most.get())
    return w.finish()


def distinct_rows() -> Procedure:
    """Whether each row equals none before it: bools in memory and in variables, symbolic strides, scratch."""
    w = Writer((tensor("i32", B, S),), (tensor("bool", B),))
    (x,), (r,) = w.operands, w.results
    sums = w.scratch(I64, B)
    with w.loop(B) as i:
        total = w.variable(0)
        with w.loop(S) as k:
            total.set(total.get() + w.convert(w.load(x, (i, k)), I64))
        w.store(sums, (i,), total.get())
    with w.loop(B) as i:
        fresh = w.variable(True, BOOL)
        with w.loop(i) as j, w.if_(w.load(sums, (i,)) == w.load(sums, (j,))):
            same = w.variable(True, BOOL)
            with w.loop(S) as k:
                same.set(same.get() & (w.load(x, (i, k)) == w.load(x, (j, k))))
            fresh.set(fresh.get() & ~same.get())
        w.store(r, (i,), fresh.get())
    return w.finish()


@pytest.mark.parametrize("target", TARGETS)
def test_statements(target: str) -> None:
    for count in (0, 1, 50):
        check(collatz(), np.arange(count, dtype=np.int64), target=target)
        rows = np.random.default_rng(count).integers(0, 2, (count, 3)).astype(np.int32)
        check(distinct_rows(), rows, target=target)
    check(distinct_rows(), np.zeros((4, 0), np.int32), target=target)


def test_rank_zero_and_empty_loops() -> None:
    w = Writer((tensor("f32"), tensor("f32", 3)), (tensor("f32"),))
    (x, y), (r,) = w.operands, w.results
    total = w.variable(w.load(x, ()))
    for extent in (0, -3, 3, w.constant(0)):
        with w.loop(w.constant(extent) if isinstance(extent, int) else extent) as i:
            total.set(total.get() + w.load(y, (i,)))
    w.store(r, (), total.get())
    check(w.finish(), np.float32(1).reshape(()), np.array([1, 2, 4], np.float32))


def test_sums_keep_their_order() -> None:
    """LLVM's passes may not change what floating point gives."""
    w = Writer((tensor("f32", B),), (tensor("f32"),))
    (x,), (r,) = w.operands, w.results
    total = w.variable(0.0, F32)
    with w.loop(B) as i:
        value = w.load(x, (i,))
        total.set(total.get() + value * value)
    w.store(r, (), total.get())
    array = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    expected = np.float32(0)
    for value in array:
        expected = np.float32(expected + np.float32(value * value))
    assert check(w.finish(), array)(array) == expected


def test_independent_stores_become_vectors() -> None:
    w = Writer((tensor("f32", B, S), tensor("f32", S)), (tensor("f32", B, S),))
    (x, y), (r,) = w.operands, w.results
    with w.loops((B, S)) as (i, j):
        w.store(r, (i, j), w.load(x, (i, j)) * w.load(y, (j,)))
    function = check(w.finish(), np.ones((3, 40), np.float32), np.arange(40, dtype=np.float32))
    assert re.search(r"fmul <\d+ x float>", function.module.text)
    assert "define internal void @procedure0" in function.module.text


def test_equal_procedures_are_one_function() -> None:
    """Two sorts of one type, and text for people."""
    x, y = (builders.parameter(name, n, TensorType(F32, (B,))) for n, name in enumerate("xy"))
    function = tcp.compile(Function("f", (x, y), (ordered(x), ordered(y))))
    assert function.report.kernels == 2 and len(function.code.procedures) == 1
    assert function.code.llvm.count("call void @procedure0") == 2
    assert function.code.loops.startswith("procedure procedure0(x0: f32[b]) -> (r0: f32[b])")
    assert function.report.to_json()["kernel_list"][0] == "routine k0  sort(x) -> result0"
    a, b = np.array([3, 1, 2], np.float32), np.array([np.inf, -1, 0], np.float32)
    first, second = function(a, b)
    assert first.tolist() == [1, 2, 3] and second.tolist() == [-1, 0, np.inf]
    assert "procedure0" in function.code.assembly


def test_results_in_given_memory() -> None:
    """Routines write results where the caller wants them, which is never where operands are."""
    x = builders.parameter("x", 0, TensorType(I32, (B,)))
    function = tcp.compile(Function("f", (x,), (ordered(x),)))
    array, out = np.array([5, 3, 9, 1], np.int32), np.zeros(4, np.int32)
    assert function(array, out=out) is out and out.tolist() == [1, 3, 5, 9]
    with pytest.raises(ArgumentError, match="must not overlap"):
        function(array, out=array)
    assert function(np.zeros(0, np.int32)).shape == (0,)


def test_programs_without_procedures_have_no_such_text() -> None:
    x = builders.parameter("x", 0, TensorType(F32, (B,)))
    function = tcp.compile(Function("f", (x,), (builders.map_scalar(scalar_op_named("negative"), x),)))
    assert function.code.procedures == () and "procedure" not in function.code.llvm


def test_no_form_on_gpus() -> None:
    x = builders.parameter("x", 0, TensorType(F32, (B,)))
    with pytest.raises(TargetError, match=r"sort has no form on .*, which runs kernels only, no procedures"):
        tcp.compile(Function("f", (x,), (ordered(x),)), target="ptx")

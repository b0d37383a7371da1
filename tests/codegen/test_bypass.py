"""Results stored around the caches: with so low a limit that nearly all are, at every alignment and small size."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from plans import I, J, PlanWriter, apply, number, single, tensor
from test_compile import B, arrays_for, check

from tcp_eqsat.codegen.compile import compile_plan
from tcp_eqsat.codegen.loops import For, walk_statements
from tcp_eqsat.codegen.target import CpuTarget, available_targets, cpu_target
from tcp_eqsat.lang.plan import Plan, Role
from tcp_eqsat.lang.plan_reference import evaluate_plan

TARGETS = [replace(cpu_target(choice), bypass_bytes=1) for choice in available_targets()]
SIZES = (1, 2, 15, 16, 17, 63, 64, 65, 128, 129, 200)


def relu(dtype: str = "f32") -> Plan:
    return single({n: tensor(dtype, B) for n in "abc"}, ("z", tensor(dtype, B), lambda at: apply(
        "maximum", apply("add", apply("multiply", at("a", I), at("b", I)), at("c", I)), number(0, dtype))))


def placed(array: np.ndarray, offset: int) -> np.ndarray:
    """A copy that begins `offset` bytes after a multiple of 64, with 64 bytes of memory before it and after it."""
    memory = np.full(array.nbytes + 256, 255, np.uint8)
    start = -memory.ctypes.data % 64 + 64 + offset
    found = memory[start:start + array.nbytes].view(array.dtype).reshape(array.shape)
    found[...] = array
    return found


def around(array: np.ndarray) -> np.ndarray:
    """The bytes before and after a placed array."""
    memory = array.base
    while memory.base is not None:
        memory = memory.base
    start = array.ctypes.data - memory.ctypes.data
    return np.concatenate([memory[:start], memory[start + array.nbytes:]])


def bypasses(plan: Plan, target: CpuTarget = TARGETS[-1]) -> bool:
    function = compile_plan(plan, target)
    marked = any(s.how.bypass for nest in function.nests for s in walk_statements(nest.body) if isinstance(s, For))
    assert marked == ("!nontemporal" in function.llvm) == ("sfence" in function.llvm)
    return marked


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("dtype", ["f32", "f64", "i8"])
def test_every_alignment(dtype: str, target: CpuTarget) -> None:
    plan = relu(dtype)
    function = compile_plan(plan, target)
    for size in SIZES:
        arrays = arrays_for(plan, {"b": size})
        (expected,) = evaluate_plan(plan, arrays, {"b": size})
        for offset in range(0, 64, expected.itemsize):
            inputs = [placed(x, (offset * n) % 64) for n, x in enumerate(arrays)]
            out = placed(np.zeros_like(expected), offset)
            function(*inputs, out=out)
            np.testing.assert_allclose(out, expected, rtol=1e-6)
            assert (around(out) == 255).all()


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_results_are_the_same_whether_or_not_they_bypass(target: CpuTarget) -> None:
    plan = relu()
    many, few = compile_plan(plan, target), compile_plan(plan, replace(target, bypass_bytes=0))
    arrays = arrays_for(plan, {"b": 1000})
    np.testing.assert_array_equal(many(*arrays), few(*arrays))


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_around_the_limit(target: CpuTarget) -> None:
    for size in (B, 1023, 1024, 1025):
        plan = single({"x": tensor("f32", size)}, ("z", tensor("f32", size), lambda at: apply("negative", at("x", I))))
        sizes = ({"b": n} for n in (0, 1, 1023, 1024, 1025)) if size is B else ({},)
        function = check(plan, *sizes, target=replace(target, bypass_bytes=4096))
        assert ("nontemporal" in function.llvm) == (size is B or size >= 1024)


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_several_results_of_one_loop(target: CpuTarget) -> None:
    """Of different dtypes and alignments, which need not agree on a first aligned vector."""
    plan = single(
        {"x": tensor("f64", B)}, ("y", tensor("f64", B), lambda at: apply("negative", at("x", I))),
        ("z", tensor("f32", B), lambda at: apply("astype_f32", at("x", I))), outputs=("y", "z"))
    function = compile_plan(plan, target)
    for size in SIZES:
        (x,) = arrays_for(plan, {"b": size})
        for first in range(0, 64, 8):
            for second in range(0, 64, 4):
                out = placed(np.zeros(size), first), placed(np.zeros(size, np.float32), second)
                function(x, out=out)
                np.testing.assert_array_equal(out[0], -x)
                np.testing.assert_array_equal(out[1], x.astype(np.float32))
                assert all((around(y) == 255).all() for y in out)


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("columns", [64 * 16, 64 * 16 + 3, 1500])
def test_long_rows(columns: int, target: CpuTarget) -> None:
    plan = single({"x": tensor("f32", B, columns), "c": tensor("f32", columns)},
                  ("z", tensor("f32", B, columns), lambda at: apply("subtract", at("x", I, J), at("c", J))))
    check(plan, *({"b": n} for n in (0, 1, 5)), target=target)
    assert bypasses(plan, target)


def test_short_rows_go_through_the_caches() -> None:
    assert not bypasses(single({"x": tensor("f32", B, 60), "c": tensor("f32", 60)}, (
        "z", tensor("f32", B, 60), lambda at: apply("subtract", at("x", I, J), at("c", J)))))


def chain(middle: Role, length: int = 2) -> Plan:
    """x -> h0 -> h1 ..., each the negative of the one before; h0 is a temporary or a result."""
    writer = PlanWriter()
    writer.parameter("x", tensor("f32", B))
    source = "x"
    for n in range(length):
        operation = "negative" if n % 2 == 0 else "abs"
        writer.kernel({f"h{n}": middle if n < length - 1 else Role.RESULT}, (
            f"h{n}", tensor("f32", B), lambda at, source=source, operation=operation: apply(operation, at(source, I))))
        source = f"h{n}_out"
    return writer.plan()


@pytest.mark.parametrize("middle", [Role.TEMPORARY, Role.RESULT])
def test_what_the_next_kernel_reads_stays_in_cache(middle: Role) -> None:
    plan = chain(middle)
    function = check(plan, {"b": 0}, {"b": 333}, target=TARGETS[-1])
    marked = [any(s.how.bypass for s in walk_statements(nest.body) if isinstance(s, For)) for nest in function.nests]
    assert marked == [False, True]


def test_kernels_that_share_code_bypass_only_if_all_may() -> None:
    """The first and the third kernel of three are one function; the first one's result is read again."""
    plan = chain(Role.TEMPORARY, 3)
    function = check(plan, {"b": 333}, target=TARGETS[-1])
    assert len(function.nests) == 2 and "nontemporal" not in function.llvm


def test_instructions() -> None:
    assembly = compile_plan(relu(), cpu_target()).assembly
    assert "vmovntps" in assembly or "movnt" in assembly
    assert "sfence" in assembly

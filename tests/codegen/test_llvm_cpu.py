"""Loop nests by hand as machine code: every statement and way of running a loop, at all small sizes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest

from tcp_eqsat.codegen.jit import compile_module
from tcp_eqsat.codegen.llvm_cpu import emit_nest
from tcp_eqsat.codegen.loops import (
    Access,
    Accumulator,
    Apply,
    Array,
    Choose,
    Constant,
    Each,
    Fold,
    For,
    How,
    If,
    IndexValue,
    Let,
    Load,
    Nest,
    Read,
    Statement,
    Store,
    Update,
    verify_nest,
)
from tcp_eqsat.codegen.target import available_targets, cpu_target
from tcp_eqsat.lang.dims import Size, symbol
from tcp_eqsat.lang.pointful import ZERO, IndexRange, axis_index
from tcp_eqsat.lang.scalar import literal
from tcp_eqsat.lang.scalars.arithmetic import add, multiply
from tcp_eqsat.lang.types import F32

N = symbol("n")
I, J, PLACE = axis_index(0), axis_index(1), axis_index(2)  # noqa: E741
HOWS = [How(), How(lanes=8), How(lanes=4, copies=3), How(copies=5), How(unroll=3), How(lanes=16, copies=2)]
TARGETS = available_targets()


def element(offset: object = I) -> Load:
    return Load("x", offset, F32)  # type: ignore[arg-type]


def number(value: float) -> Constant:
    return Constant(literal(value, F32))


def run(body: tuple[Statement, ...], x: np.ndarray, size: int, target: str = "native",
        scratch: int = 0) -> np.ndarray:
    """The nest's `y` of `size` elements that are -1 where nothing is written; arrays end where their memory may."""
    arrays = [Array("x", F32, N, Access.READ), Array("y", F32, N, Access.WRITE)]
    arrays += [Array("row", F32, scratch, Access.SCRATCH)] if scratch else []
    nest = Nest("k", tuple(arrays), body)
    verify_nest(nest)
    chosen = cpu_target(target)
    declarations: dict[str, str] = {}
    code = emit_nest(nest, "k", chosen, declarations)
    pointers = ", ".join(f"ptr %a{n}" for n in range(len(arrays)))
    sizes = ", ".join("i64 %n" for _ in code.sizes)
    arguments = f"{pointers}, {sizes}" if sizes else pointers
    wrapper = f"define void @run({pointers}, i64 %n) {{\n  call void @k({arguments})\n  ret void\n}}"
    module = compile_module("\n".join((code.text, wrapper, *declarations.values())), chosen)
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(arrays), ctypes.c_int64)(module.address("run"))
    y, row = np.full(size + 16, -1, np.float32), np.zeros(max(1, scratch), np.float32)
    memory = [x.ctypes.data, y.ctypes.data] + ([row.ctypes.data] if scratch else [])
    function(*memory, len(x))
    assert (y[size:] == -1).all()
    return y[:size]


def numbers(size: int) -> np.ndarray:
    return np.arange(1, size + 1, dtype=np.float32)


def at_sizes(check: Callable[[Size, np.ndarray], None]) -> None:
    """With the size as a number and as an argument."""
    for size in (*range(20), 31, 32, 33, 65):
        check(size, numbers(size))
        check(N, numbers(size))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("how", HOWS)
def test_every_iteration_runs_once(how: How, target: str) -> None:
    body = lambda extent: (For(0, extent, (Store("y", I, Apply(add, (element(), number(1)), F32)),), how),)  # noqa: E731
    for size in (0, 1, 5, 7, 8, 9, 31, 33):
        for extent in (size, N):
            np.testing.assert_array_equal(run(body(extent), numbers(size), size, target), numbers(size) + 1)


@pytest.mark.parametrize("how", HOWS)
def test_folds(how: How) -> None:
    def check(extent: Size, x: np.ndarray) -> None:
        fold = Fold((Accumulator("s", add, F32),), (For(0, extent, (Update("s", element()),), how),))
        (total,) = run((fold, Store("y", ZERO, Read("s", F32))), x, 1)
        assert total == x.sum()

    at_sizes(check)


NESTED = [
    (outer, inner)
    for outer in (How(copies=3), How(lanes=4), How(lanes=4, copies=2), How())
    for inner in (How(), How(copies=2), How(unroll=2), How(lanes=4, copies=2))
    if outer.lanes == 1 or inner.lanes == 1]  # vector loops don't nest


@pytest.mark.parametrize(("outer", "inner"), NESTED)
def test_folds_inside_copies(outer: How, inner: How) -> None:
    """y[i] = sum over j of x[i] * x[j], once as a product that is added."""
    for size in (1, 3, 4, 5, 11):
        for extent in (size, N):
            product = Apply(multiply, (element(), element(J)), F32)
            fold = Fold((Accumulator("s", add, F32),), (For(1, extent, (Update("s", product, fused=True),), inner),))
            x = numbers(size)
            y = run((For(0, extent, (fold, Store("y", I, Read("s", F32))), outer),), x, size)
            np.testing.assert_array_equal(y, x * x.sum())


@pytest.mark.parametrize("how", HOWS)
def test_guards_hold_back_stores_and_updates(how: How) -> None:
    def check(extent: Size, x: np.ndarray) -> None:
        inside = (IndexRange(I, 2, 9),)
        store = For(0, extent, (If(inside, (Store("y", I, element()),)),), how)
        expected = np.where((np.arange(len(x)) >= 2) & (np.arange(len(x)) < 9), x, -1)
        np.testing.assert_array_equal(run((store,), x, len(x)), expected)
        fold = Fold((Accumulator("s", add, F32),), (For(0, extent, (If(inside, (Update("s", element()),)),), how),))
        assert run((fold, Store("y", ZERO, Read("s", F32))), x, 1)[0] == x[2:9].sum()

    at_sizes(check)


@pytest.mark.parametrize("how", HOWS)
def test_choices_read_only_what_is_chosen(how: How) -> None:
    """Elements before the array are read nowhere: they would be far outside of any memory."""
    far = 1 << 40

    def check(extent: Size, x: np.ndarray) -> None:
        chosen = Choose((IndexRange(I, 0, 3),), element(), Choose(
            (IndexRange(I, 0, far),), number(7), element(I + -far)))
        y = run((For(0, extent, (Store("y", I, chosen),), how),), x, len(x))
        np.testing.assert_array_equal(y, np.where(np.arange(len(x)) < 3, x, 7))

    at_sizes(check)


@pytest.mark.parametrize("copies", [1, 2, 5])
def test_each_runs_copies_one_by_one(copies: int) -> None:
    for size in (0, 1, 2, 4, 5, 6, 12):
        for extent in (size, N):
            keep = Store("row", PLACE, Apply(multiply, (element(), number(2)), F32))
            back = Let("t", Apply(add, (Load("row", PLACE, F32), IndexValue(I, F32)), F32))
            one_by_one = Each(0, (back, Store("y", I, Read("t", F32))))
            loop = For(0, extent, (keep, one_by_one), How(copies=copies, position=2))
            expected = 2 * numbers(size) + np.arange(size, dtype=np.float32)
            np.testing.assert_array_equal(run((loop,), numbers(size), size, scratch=copies), expected)


@pytest.mark.parametrize("how", [How(lanes=8), How(lanes=4, copies=2), How(copies=3)])
def test_strided_loads_and_stores(how: How) -> None:
    x = numbers(40)
    loop = For(0, 13, (Store("y", I.scaled(3), element(I.scaled(-3) + 36)),), how)
    y = run((loop,), x, 40)
    np.testing.assert_array_equal(y[0:39:3], x[36::-3])
    assert (y[1::3] == -1).all()


def test_positions_address_lanes_and_copies() -> None:
    for size in (3, 8, 21):
        keep = Store("row", PLACE, element())
        loop = For(0, N, (keep, Store("y", I, Load("row", PLACE, F32))), How(lanes=4, copies=2, position=2))
        np.testing.assert_array_equal(run((loop,), numbers(size), size, scratch=8), numbers(size))


@pytest.mark.parametrize("how", HOWS)
def test_what_one_block_knows_is_unknown_beside_it(how: How) -> None:
    """The same sizes, indices and guards in loops and branches that run after one another, or not at all."""
    def check(size: Size, x: np.ndarray) -> None:
        ranges = (IndexRange(I, 2, 9), IndexRange(I + N, 4, 30))
        again = (IndexRange(J, 2, 9), IndexRange(J + N, 4, 30))
        row = For(1, 2, (For(0, size, (If(ranges, (Store("y", I, element()),)),), how),))
        other = For(2, size, (Store("y", axis_index(2) + N, number(0)),), how)
        chosen = Choose(again, element(J), element(J.scaled(0)))
        last = For(1, size, (Store("y", J + N, chosen),), how)
        y = run((row, other, last), x, 2 * len(x))
        i = np.arange(len(x))
        inside = (i >= 2) & (i < 9) & (i + len(x) >= 4) & (i + len(x) < 30)
        np.testing.assert_array_equal(y[:len(x)], np.where(inside, x, -1))
        np.testing.assert_array_equal(y[len(x):], np.where(inside, x, x[0] if len(x) else 0))

    at_sizes(check)

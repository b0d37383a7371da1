"""Calls: what is accepted, what is refused and how, by the compiled and by the interpreted implementation."""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import sys
import threading
import tracemalloc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tcp_eqsat.codegen import numpy_abi
from tcp_eqsat.codegen.call import CompiledCall, Parameter, Signature, callable_class, make_call
from tcp_eqsat.codegen.call_ir import emit_call
from tcp_eqsat.codegen.call_steps import KEEPS_BYTES
from tcp_eqsat.codegen.interpreted_call import InterpretedCall
from tcp_eqsat.codegen.jit import Module, compile_module
from tcp_eqsat.codegen.signature import Solve
from tcp_eqsat.codegen.target import host_target
from tcp_eqsat.errors import ArgumentError, ShapeMismatch, TcpError, TypeMismatch
from tcp_eqsat.lang.dims import Guard, Size, maximum, symbol, symbols_of
from tcp_eqsat.lang.types import BOOL, F32, F64, I64, U8, DType, TensorType

pytestmark = pytest.mark.parametrize("implementation", ["compiled", "python"])

ENTRIES = """
; r0 = p0 + p1 and, where there is a second result, r1 = p0 - p1: rows of 4 f32, as many as the first size
define void @add(ptr %p, ptr %r, ptr %c, ptr %w, ptr %s) {
  call void @rows(ptr %p, ptr %r, ptr %s, i1 false)
  ret void
}
define void @add_and_subtract(ptr %p, ptr %r, ptr %c, ptr %w, ptr %s) {
  call void @rows(ptr %p, ptr %r, ptr %s, i1 true)
  ret void
}
define internal void @rows(ptr %p, ptr %r, ptr %s, i1 %two) {
entry:
  %x = load ptr, ptr %p
  %y.at = getelementptr ptr, ptr %p, i64 1
  %y = load ptr, ptr %y.at
  %sum = load ptr, ptr %r
  %rows = load i64, ptr %s
  %count = mul i64 %rows, 4
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %tail ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %done
body:
  %xi.at = getelementptr float, ptr %x, i64 %i
  %xi = load float, ptr %xi.at
  %yi.at = getelementptr float, ptr %y, i64 %i
  %yi = load float, ptr %yi.at
  %si = fadd float %xi, %yi
  %si.at = getelementptr float, ptr %sum, i64 %i
  store float %si, ptr %si.at
  br i1 %two, label %second, label %tail
second:
  %difference.at = getelementptr ptr, ptr %r, i64 1
  %difference = load ptr, ptr %difference.at
  %di = fsub float %xi, %yi
  %di.at = getelementptr float, ptr %difference, i64 %i
  store float %di, ptr %di.at
  br label %tail
tail:
  %next = add i64 %i, 1
  br label %head
done:
  ret void
}
; r0[0] = the workspace's address, r0[1] = the constants' address; every byte of the s0 bytes of workspace is
; written and read back: r0[2] = their sum
define void @probe(ptr %p, ptr %r, ptr %c, ptr %w, ptr %s) {
entry:
  %out = load ptr, ptr %r
  store ptr %w, ptr %out
  %c.at = getelementptr i64, ptr %out, i64 1
  store ptr %c, ptr %c.at
  %count = load i64, ptr %s
  br label %fill
fill:
  %i = phi i64 [ 0, %entry ], [ %i.next, %fill.body ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %fill.body, label %sum
fill.body:
  %at = getelementptr i8, ptr %w, i64 %i
  store volatile i8 1, ptr %at
  %i.next = add i64 %i, 1
  br label %fill
sum:
  %k = phi i64 [ 0, %fill ], [ %k.next, %sum.body ]
  %total = phi i64 [ 0, %fill ], [ %total.next, %sum.body ]
  %again = icmp slt i64 %k, %count
  br i1 %again, label %sum.body, label %done
sum.body:
  %k.at = getelementptr i8, ptr %w, i64 %k
  %byte = load volatile i8, ptr %k.at
  %long = zext i8 %byte to i64
  %total.next = add i64 %total, %long
  %k.next = add i64 %k, 1
  br label %sum
done:
  %total.at = getelementptr i64, ptr %out, i64 2
  store i64 %total, ptr %total.at
  ret void
}
define void @nothing(ptr %p, ptr %r, ptr %c, ptr %w, ptr %s) { ret void }
; r0 = the sizes
define void @sizes1(ptr %p, ptr %r, ptr %c, ptr %w, ptr %s) {
  %out = load ptr, ptr %r
  call void @llvm.memcpy.p0.p0.i64(ptr %out, ptr %s, i64 8, i1 false)
  ret void
}
define void @sizes2(ptr %p, ptr %r, ptr %c, ptr %w, ptr %s) {
  %out = load ptr, ptr %r
  call void @llvm.memcpy.p0.p0.i64(ptr %out, ptr %s, i64 16, i1 false)
  ret void
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""


@functools.cache
def entries() -> Module:
    return compile_module(ENTRIES, host_target())


def tensor(*shape: Size, dtype: DType = F32) -> TensorType:
    return TensorType(dtype, shape)


def signature(*parameters: TensorType, results: tuple[TensorType, ...], guards: tuple[Guard, ...] = (),
              numbers: tuple[Size, ...] = ()) -> Signature:
    symbols = symbols_of(*(size for t in parameters for size in t.shape))
    named = tuple(Parameter(name, t) for name, t in zip("xyzuv", parameters, strict=False))
    return Signature(named, results, symbols, guards, numbers)


def call(entry: str, of: Signature, implementation: str, **options: Any) -> CompiledCall:
    made = make_call(
        of, entries().address(entry), keep_alive=entries(), name=entry, implementation=implementation, **options
    )
    assert made.is_compiled == (implementation == "compiled" and not numpy_abi.obstacle())
    return made


b = symbol("b", 0, 512)
ROWS = tensor(b, 4)
ADD = signature(ROWS, ROWS, results=(ROWS,))
TWO = signature(ROWS, ROWS, results=(ROWS, ROWS))


@pytest.fixture
def add(implementation: str) -> CompiledCall:
    return call("add", ADD, implementation)


@pytest.fixture
def two(implementation: str) -> CompiledCall:
    return call("add_and_subtract", TWO, implementation)


def rows(count: int, start: float = 0.0) -> np.ndarray:
    return np.arange(4 * count, dtype=np.float32).reshape(count, 4) + np.float32(start)


# What is accepted -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 7, 512])
def test_every_size_in_range_gives_a_new_array(add: CompiledCall, count: int) -> None:
    x, y = rows(count), rows(count, 5)
    z = add(x, y)
    assert type(z) is np.ndarray and z.dtype == np.float32 and z.shape == (count, 4)
    assert z.flags.owndata and z.flags.c_contiguous and z.flags.writeable
    assert np.array_equal(z, x + y)
    assert not np.shares_memory(z, x)


def test_several_results_are_a_tuple(two: CompiledCall) -> None:
    x, y = rows(3), rows(3, 2)
    results = two(x, y)
    assert type(results) is tuple
    assert [np.array_equal(r, e) for r, e in zip(results, (x + y, x - y), strict=True)] == [True, True]


def test_arguments_by_name(add: CompiledCall) -> None:
    x, y = rows(2), rows(2, 9)
    out = np.empty_like(x)
    assert np.array_equal(add(x, y=y), x + y)
    assert np.array_equal(add(y=y, x=x), x + y)
    assert np.array_equal(add(**{"".join(["", "x"]): x, "y": y}), x + y)
    assert add(y=y, out=out, x=x) is out
    assert np.array_equal(out, x + y)


def test_out_is_filled_and_returned(add: CompiledCall, two: CompiledCall) -> None:
    x, y = rows(5), rows(5, 1)
    out, other = np.full_like(x, -1), np.full_like(x, -1)
    assert add(x, y, out=out) is out and np.array_equal(out, x + y)
    out[:] = -1
    assert add(x, y, out=(out,)) is out and np.array_equal(out, x + y)
    assert add(x, y, out=None) is not out
    results = two(x, y, out=(out, other))
    assert results[0] is out and results[1] is other
    assert np.array_equal(out, x + y) and np.array_equal(other, x - y)


def test_out_beside_an_argument_in_one_buffer(add: CompiledCall) -> None:
    buffer = rows(12)
    x, y, out = buffer[:4], buffer[8:], buffer[4:8]
    expected = x + y
    assert np.array_equal(add(x, y, out=out), expected)


def test_one_array_may_be_several_arguments(add: CompiledCall) -> None:
    x = rows(3)
    assert np.array_equal(add(x, x), x + x)


class OnlyInterface:
    """An array of another library, by its interface."""

    def __init__(self, array: np.ndarray) -> None:
        self.__array_interface__ = array.__array_interface__
        self.array = array


class OnlyDLPack:
    """An array of another library, by DLPack."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


def unaligned(array: np.ndarray) -> np.ndarray:
    memory = np.zeros(array.nbytes + 1, np.uint8)
    result = memory[1:].view(array.dtype).reshape(array.shape)
    result[...] = array
    assert not result.flags.aligned
    return result


def read_only(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flags.writeable = False
    return array


FORMS: dict[str, Callable[[np.ndarray], Any]] = {
    "strided": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    "rows apart": lambda a: np.repeat(a, 3, axis=0)[::3],
    "negative stride": lambda a: a[::-1].copy()[::-1],
    "Fortran order": np.asfortranarray,
    "broadcast": lambda a: np.broadcast_to(a[:1], a.shape),
    "unaligned": unaligned,
    "byte-swapped": lambda a: a.astype(">f4" if sys.byteorder == "little" else "<f4"),
    "read-only": read_only,
    "matrix": lambda a: a.view(np.matrix),
    "recarray": lambda a: a.view(np.recarray),
    "dtype with metadata": lambda a: a.astype(np.dtype("f4", metadata={"unit": "m"})),
    "interface": OnlyInterface,
    "dlpack": OnlyDLPack,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("place", [0, 1])
def test_every_form_of_array_is_read_right(add: CompiledCall, form: str, place: int) -> None:
    arrays: list[Any] = [rows(6, 3), rows(6, 1)]
    if form == "broadcast":
        arrays[place][:] = arrays[place][0]
    expected = arrays[0] + arrays[1]
    arrays[place] = FORMS[form](arrays[place])
    z = add(*arrays)
    assert type(z) is np.ndarray and z.dtype.isnative
    assert np.array_equal(z, expected)
    out = np.empty_like(expected)
    assert add(*arrays, out=out) is out and np.array_equal(out, expected)


def test_scalars_and_ranks(implementation: str) -> None:
    of = signature(tensor(), tensor(1, 1, 1, dtype=BOOL), results=(tensor(), tensor(2, 0, 3, dtype=F64)))
    f = call("nothing", of, implementation)
    flag = np.ones((1, 1, 1), np.bool_)
    scalar, empty = f(np.zeros((), np.float32), flag)
    assert scalar.shape == () and scalar.dtype == np.float32
    assert empty.shape == (2, 0, 3) and empty.dtype == np.float64
    assert f(np.float32(2), flag)[0].shape == ()


def test_no_parameters_and_no_results(implementation: str) -> None:
    assert call("nothing", Signature((), (tensor(3),)), implementation)().shape == (3,)
    assert call("nothing", Signature((), ()), implementation)() == ()


PLAIN_CALLS: dict[str, Callable[[CompiledCall, np.ndarray], Any]] = {
    "by position": lambda f, x: f(x, x),
    "by name": lambda f, x: f(y=x, x=x),
    "mixed": lambda f, x: f(x, y=x),
    "empty": lambda f, x: f(x[:0], x[:0]),
    "read-only": lambda f, x: f(read_only(x), x),
    "no out": lambda f, x: f(x, x, out=None),
    "out": lambda f, x: f(x, x, out=np.empty_like(x)),
}


@pytest.mark.parametrize("form", PLAIN_CALLS)
def test_plain_calls_stay_in_compiled_code(
    implementation: str, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = call("add", ADD, implementation)
    two = call("add_and_subtract", TWO, implementation)

    def interpreted(*arguments: Any, **keywords: Any) -> Any:
        raise AssertionError("the interpreted call was used")

    monkeypatch.setattr(InterpretedCall, "__call__", interpreted)
    stays = contextlib.nullcontext() if add.is_compiled else pytest.raises(AssertionError)
    with stays:
        PLAIN_CALLS[form](add, rows(5))
    with stays:
        two(rows(2), rows(2), out=(rows(2), rows(2)))
    for name in FORMS.keys() - {"read-only"}:
        with pytest.raises(AssertionError, match="interpreted"):
            add(rows(5), FORMS[name](rows(5)))


# What is refused ------------------------------------------------------------------------------------------------

X = "argument 'x' must be f32[b, 4] with b in [0, 512], "
Y = "argument 'y' must be f32[b, 4] with b = 3 by argument 'x', "
OUT = "argument 'out' must be f32[b, 4] with b = 3 by argument 'x', "
TAKES = "; the call takes (x: f32[b, 4], y: f32[b, 4]) -> f32[b, 4]"
GOOD = rows(3)

REFUSED: dict[str, tuple[tuple[Any, ...], dict[str, Any], type[TcpError], str]] = {
    "dtype": ((GOOD.astype("f8"), GOOD), {}, TypeMismatch, X + "got f64[3, 4]"),
    "dtype without a name": ((GOOD.astype("M8[s]"), GOOD), {}, TypeMismatch, X + "got datetime64[s][3, 4]"),
    "objects": ((GOOD.astype(object), GOOD), {}, TypeMismatch, X + "got object[3, 4]"),
    "rank": ((GOOD[0], GOOD), {}, TypeMismatch, X + "got f32[4]"),
    "rank, with a stride like a size": ((GOOD[0, :3], GOOD), {}, TypeMismatch, X + "got f32[3]"),
    "rank too high": ((GOOD[..., None], GOOD), {}, TypeMismatch, X + "got f32[3, 4, 1]"),
    "size": ((GOOD[:, :3], GOOD), {}, ShapeMismatch, X + "got f32[3, 3]"),
    "size, plain": ((rows(3).reshape(4, 3), GOOD), {}, ShapeMismatch, X + "got f32[4, 3]"),
    "range": ((rows(513), rows(513)), {}, ShapeMismatch, X + "got f32[513, 4]"),
    "contradiction": ((GOOD, rows(2)), {}, ShapeMismatch, Y + "got f32[2, 4]"),
    "list": (([[1.0] * 4], GOOD), {}, TypeMismatch, X + "got an object of type list, which is no array"),
    "number": ((1.0, GOOD), {}, TypeMismatch, X + "got an object of type float, which is no array"),
    "none": ((None, GOOD), {}, TypeMismatch, X + "got an object of type NoneType, which is no array"),
    "missing": ((GOOD,), {}, ArgumentError, "missing argument 'y'" + TAKES),
    "all missing": ((), {}, ArgumentError, "missing arguments 'x', 'y'" + TAKES),
    "surplus": ((GOOD, GOOD, GOOD), {}, ArgumentError, "at most 2 arguments must be given, got 3" + TAKES),
    "missing by name": ((), {"y": GOOD}, ArgumentError, "missing argument 'x'" + TAKES),
    "missing beside out": ((GOOD,), {"out": rows(3)}, ArgumentError, "missing argument 'y'" + TAKES),
    "surplus beside a name": (
        (GOOD,) * 200,
        {"y": GOOD},
        ArgumentError,
        "at most 2 arguments must be given, got 200" + TAKES,
    ),
    "unknown": ((GOOD, GOOD), {"z": GOOD}, ArgumentError, "unknown argument 'z'" + TAKES),
    "unknown instead": ((GOOD,), {"z": GOOD}, ArgumentError, "unknown argument 'z'" + TAKES),
    "twice": (
        (GOOD, GOOD),
        {"x": GOOD},
        ArgumentError,
        "argument 'x' must be given once, got it by position and by name",
    ),
    "twice, one missing": (
        (GOOD,),
        {"x": GOOD},
        ArgumentError,
        "argument 'x' must be given once, got it by position and by name",
    ),
    "out dtype": ((GOOD, GOOD), {"out": GOOD.astype("f8")}, TypeMismatch, OUT + "got f64[3, 4]"),
    "out byte order": (
        (GOOD, GOOD),
        {"out": GOOD.astype(GOOD.dtype.newbyteorder())},
        TypeMismatch,
        OUT + f"got byte-swapped {GOOD.dtype.newbyteorder()}[3, 4]",
    ),
    "out rank": ((GOOD, GOOD), {"out": rows(3)[0]}, TypeMismatch, OUT + "got f32[4]"),
    "out shape": ((GOOD, GOOD), {"out": rows(2)}, ShapeMismatch, OUT + "got f32[2, 4]"),
    "out kind": ((GOOD, GOOD), {"out": [1]}, TypeMismatch, OUT + "got an object of type list"),
    "out count": (
        (GOOD, GOOD),
        {"out": (rows(3), rows(3))},
        ArgumentError,
        "argument 'out' must be an array, got a tuple of 2",
    ),
    "out read-only": (
        (GOOD, GOOD),
        {"out": read_only(GOOD)},
        ArgumentError,
        "argument 'out' must be writeable, got a read-only array",
    ),
    "out strided": (
        (GOOD, GOOD),
        {"out": rows(6)[::2]},
        ArgumentError,
        "argument 'out' must be C-contiguous, got strides (32, 4) of f32[3, 4]",
    ),
    "out is x": (
        (GOOD, rows(3)),
        {"out": GOOD},
        ArgumentError,
        "argument 'out' must not overlap argument 'x', got arrays that share memory",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_requirement_and_fact(add: CompiledCall, case: str) -> None:
    arguments, keywords, error, message = REFUSED[case]
    with pytest.raises(TcpError) as caught:
        add(*arguments, **keywords)
    assert type(caught.value) is error
    assert str(caught.value) == message
    assert np.array_equal(GOOD, rows(3))


def test_refused_out_that_is_unaligned_or_overlaps(add: CompiledCall, two: CompiledCall) -> None:
    buffer = rows(8)
    with pytest.raises(ArgumentError, match="'out' must be aligned to 4 bytes, got address 0x"):
        add(GOOD, GOOD, out=unaligned(GOOD))
    for first in (1, 2, 3):
        with pytest.raises(ArgumentError, match="'out' must not overlap argument 'y'"):
            add(GOOD, buffer[first : first + 3], out=buffer[2:5])
    with pytest.raises(ArgumentError, match="'out' must not overlap argument 'x'"):
        add(buffer[:6:2], GOOD, out=buffer[2:5])
    with pytest.raises(ArgumentError, match=r"'out\[1\]' must not overlap argument 'out\[0\]'"):
        two(GOOD, GOOD, out=(buffer[2:5], buffer[4:7]))
    with pytest.raises(ArgumentError, match="'out' must be a tuple of 2 arrays, got f32"):
        two(GOOD, GOOD, out=buffer[:3])
    with pytest.raises(ArgumentError, match="'out' must be a tuple of 2 arrays, got a tuple of 1"):
        two(GOOD, GOOD, out=(buffer[:3],))
    with pytest.raises(TypeMismatch, match=r"'out\[1\]' must be f32\[b, 4\] with b = 3 by argument 'x'"):
        two(GOOD, GOOD, out=(buffer[:3], buffer[:3].astype("f8")))
    assert np.array_equal(buffer, rows(8))


def test_interleaved_memory_that_does_not_overlap_is_no_overlap(implementation: str) -> None:
    f = call("nothing", signature(tensor(2, 2), results=(tensor(2),)), implementation)
    buffer = np.zeros((2, 8), np.float32)
    x, out = buffer[:, :2], buffer[0, 4:6]
    assert f(x, out=out) is out
    with pytest.raises(ArgumentError, match="overlap"):
        f(x, out=buffer[1, 1:3])


def test_errors_of_an_exporter_are_told(add: CompiledCall) -> None:
    class Elsewhere:
        def __dlpack__(self, **options: Any) -> Any:
            raise BufferError("it lives on a GPU")

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    with pytest.raises(TypeMismatch, match="got Elsewhere, which can't be shared: it lives on a GPU"):
        add(Elsewhere(), GOOD)


# Symbols --------------------------------------------------------------------------------------------------------

s = symbol("s", 0, 40)
even = symbol("h", 2, 64, 2)
few = symbol("k", 0, 10)
SIZES1 = (tensor(1, dtype=I64),)
SIZES2 = (tensor(2, dtype=I64),)


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


SOLVED: dict[str, tuple[tuple[TensorType, ...], list[tuple[tuple[int, ...], ...]], tuple[int, ...]]] = {
    "2*b": ((tensor(2 * b),), [((10,),)], (5,)),
    "b + 1": ((tensor(b + 1),), [((6,),)], (5,)),
    "3*b + 2 before b": ((tensor(3 * b + 2), tensor(b)), [((17,), (5,))], (5,)),
    "40 - s": ((tensor(40 - s),), [((38,),)], (2,)),
    "h": ((tensor(even),), [((8,),)], (8,)),
    "h // 2": ((tensor(even // 2),), [((4,),)], (8,)),
    "3*(h // 2) + 1": ((tensor(3 * (even // 2) + 1),), [((13,),)], (8,)),
}


@pytest.mark.parametrize("case", SOLVED)
def test_symbols_are_solved_from_expressions(implementation: str, case: str) -> None:
    types, shapes, expected = SOLVED[case]
    f = call("sizes1", signature(*types, results=SIZES1), implementation)
    for each in shapes:
        assert tuple(f(*(zeros(*shape) for shape in each))) == expected


def test_a_product_is_solved_when_a_factor_is_known(implementation: str) -> None:
    f = call("sizes2", signature(tensor(b * s), tensor(b), results=SIZES2), implementation)
    assert list(f(zeros(12), zeros(3))) == [3, 4]
    assert list(f(zeros(0), zeros(3))) == [3, 0]
    with pytest.raises(ShapeMismatch, match=r"'x' must be f32\[b\*s\] with b = 3 by argument 'y', s in \[0, 40\], got"):
        f(zeros(13), zeros(3))
    with pytest.raises(ShapeMismatch, match=r"'x' of f32.* must tell s, which it can't with b = 0"):
        f(zeros(0), zeros(0))


KINDS: dict[str, tuple[TensorType, ...]] = {
    "plain": (tensor(b), tensor(b)),
    "scaled": (tensor(2 * b + 1), tensor(b * 3)),
    "descending": (tensor(10 - few), tensor(few)),
    "divisible": (tensor(even), tensor(even // 2)),
    "solved from a quotient": (tensor(even // 2),),
    "floor": (tensor(s), tensor((s + 3) // 4)),
    "remainder": (tensor(s), tensor(s % 3)),
    "extrema": (tensor(s), tensor(maximum(s - 4, 2))),
    "two symbols": (tensor(b, s), tensor(b * s), tensor(s - b)),
    "product solved": (tensor(b), tensor(b * s + b)),
    "static": (tensor(3), tensor(s, 2)),
}


@pytest.mark.parametrize("case", KINDS)
def test_shapes_are_accepted_exactly_where_values_exist(implementation: str, case: str) -> None:
    """Every small shape: the call must agree with a search for values of the symbols."""
    types = KINDS[case]
    of = signature(*types, results=(tensor(len(symbols_of(*(n for t in types for n in t.shape))), dtype=I64),))
    f = call(f"sizes{len(of.symbols)}", of, implementation)
    candidates = {
        tuple(tuple(_value(n, bound) for n in t.shape) for t in types): values
        for values in itertools.product(range(70), repeat=len(of.symbols))
        if all(e.admits(n) for e, n in zip(of.symbols, values, strict=True))
        for bound in [dict(zip((e.name for e in of.symbols), values, strict=True))]
    }
    limit = 5 if sum(t.rank for t in types) > 2 else 12
    shapes = itertools.product(*(itertools.product(range(limit), repeat=t.rank) for t in types))
    accepted = 0
    for each in shapes:
        arrays = [zeros(*shape) for shape in each]
        if each in candidates:
            try:
                assert tuple(f(*arrays)) == candidates[each]
                accepted += 1
            except ShapeMismatch as error:
                assert "must tell s" in str(error) and 0 in each[0]
        else:
            with pytest.raises(ShapeMismatch):
                f(*arrays)
    assert accepted


def _value(size: Size, bindings: dict[str, int]) -> int:
    return size if isinstance(size, int) else size.value(bindings)


def test_messages_of_ranges_and_divisors(implementation: str) -> None:
    f = call("nothing", signature(tensor(even), results=()), implementation)
    for count in (0, 5, 66):
        with pytest.raises(ShapeMismatch) as caught:
            f(zeros(count))
        assert str(caught.value) == (
            f"argument 'x' must be f32[h] with h in [2, 64], h % 2 == 0, got f32[{count}]"
        )


def test_guards(implementation: str) -> None:
    t = symbol("t")
    of = signature(tensor(b, s), tensor(t), results=(), guards=(Guard(b * s, t + 1),))
    f = call("nothing", of, implementation)
    assert f(zeros(3, 4), zeros(11)) == ()
    with pytest.raises(ShapeMismatch, match=r"sizes with b\*s == t \+ 1, got b = 3, s = 4, t = 12"):
        f(zeros(3, 4), zeros(12))


def test_sizes_that_a_program_computes_with(implementation: str) -> None:
    """Numbers that no array's shape shows are checked too: they must not wrap."""
    n = symbol("n")
    f = call("nothing", signature(tensor(b), tensor(n, 0), results=(), numbers=(b - 3, n**3)), implementation)
    assert f(zeros(3), zeros(2**20, 0)) == ()
    with pytest.raises(ShapeMismatch, match=r"size b - 3 must be in \[0, 2\*\*63\), got -1 .*with b = 2"):
        f(zeros(2), zeros(1, 0))
    with pytest.raises(ShapeMismatch, match=r"size n\*\*3 must be .*overflow of 64 bits\) with n = 2097152"):
        f(zeros(3), zeros(2**21, 0))


def test_results_of_impossible_sizes(implementation: str) -> None:
    big = symbol("n")
    f = call("nothing", signature(tensor(b), results=(tensor(b - 2),)), implementation)
    assert f(zeros(2)).shape == (0,)
    message = r"result f32\[b - 2\] must have sizes of at least 0, got \[-1\] with b = 1"
    with pytest.raises(ShapeMismatch, match=message):
        f(zeros(1))
    for shape, bytes_needed in (((big, big), 2**62), ((big, big, big), 2**92), ((big, 0, big, big), 2**92)):
        f = call("nothing", signature(tensor(big, 0), results=(tensor(*shape, dtype=U8),)), implementation)
        assert f(zeros(1, 0)).size == (0 if 0 in shape else 1)
        if bytes_needed > 2**62:
            with pytest.raises(MemoryError, match="result u8"):
                f(zeros(2**31 - 1, 0))
        else:
            with pytest.raises(MemoryError):
                f(zeros(2**31 - 1, 0))


def test_the_order_of_symbols_is_the_signature_s(implementation: str) -> None:
    first, second = symbols_of(s, b)
    parameters = (Parameter("x", tensor(b)), Parameter("y", tensor(s)))
    for symbols, expected in (((first, second), [3, 7]), ((second, first), [7, 3])):
        f = call("sizes2", Signature(parameters, SIZES2, symbols), implementation)
        assert list(f(zeros(3), zeros(7))) == expected


def test_signatures_that_can_not_be_called(implementation: str) -> None:
    with pytest.raises(ArgumentError, match=r"no parameter's shape tells the size s in \(x: f32\[b\]\) -> f32\[s\]"):
        signature(tensor(b), results=(tensor(s),))
    with pytest.raises(ArgumentError, match="can't be solved"):
        signature(tensor(b * s), results=())
    with pytest.raises(ArgumentError, match="can't be solved"):
        signature(tensor(s * s), results=())
    with pytest.raises(ArgumentError, match="no parameter's shape tells the size s in"):
        make_call(ADD, entries().address("add"), s * 4, implementation=implementation)
    with pytest.raises(ArgumentError, match="different names, got 'x' twice"):
        Signature((Parameter("x", tensor()), Parameter("x", tensor())), ())
    steps = signature(tensor(2 * b), tensor(b), results=()).steps
    assert isinstance(steps[0], Solve) and steps[0].is_direct and steps[0].place.parameter == 1


def test_machine_code_is_shared_where_only_names_differ(implementation: str) -> None:
    other = symbol("rows", 0, 512)
    named = Parameter("left", tensor(other, 4)), Parameter("right", tensor(other, 4))
    same = Signature(named, (tensor(other, 4),), symbols_of(other))
    assert emit_call(same, 0) == emit_call(ADD, 0)
    assert emit_call(same, 64) != emit_call(ADD, 0)
    f = call("add", same, implementation)
    assert np.array_equal(f(right=GOOD, left=GOOD), GOOD + GOOD)
    with pytest.raises(ShapeMismatch, match=r"'right' must be f32\[rows, 4\] with rows = 3 by argument 'left'"):
        f(GOOD, rows(2))


# Workspace and constants ----------------------------------------------------------------------------------------

n = symbol("n", 0, 1 << 40)
PROBED = (tensor(3, dtype=I64),)


@pytest.mark.parametrize("form", ["size", "function"])
def test_workspace_is_aligned_and_large_enough(implementation: str, form: str) -> None:
    needed = n if form == "size" else lambda sizes: sizes[0]
    of = signature(tensor(n, 0), results=PROBED)
    f = call("probe", of, implementation, workspace_bytes=needed, constants_address=4096)
    for count in (0, 1, 63, 64, 65, 100_000, 7, 1 << 20, 3):
        address, constants, total = f(zeros(count, 0))
        assert (constants, total) == (4096, count)
        assert count == 0 or (address and address % 64 == 0)


def test_workspaces_that_can_not_be_had(implementation: str) -> None:
    huge = symbol("n", 0, 1 << 62)
    of = signature(tensor(huge, 0), results=PROBED)
    for needed in (huge * 3, lambda sizes: 3 * sizes[0]):
        f = call("probe", of, implementation, workspace_bytes=needed)
        with pytest.raises((MemoryError, ShapeMismatch, OverflowError)):
            f(zeros(1 << 60, 0))
        with pytest.raises((MemoryError, ShapeMismatch)):
            f(zeros(1 << 58, 0))

    def fails(sizes: Any) -> int:
        raise RuntimeError("no idea")

    f = call("probe", of, implementation, workspace_bytes=fails)
    with pytest.raises(RuntimeError, match="no idea"):
        f(zeros(1, 0))


def test_a_call_may_happen_within_a_call(implementation: str) -> None:
    of = signature(tensor(n, 0), results=PROBED)
    inner: list[int] = []

    def needed(sizes: Any) -> int:
        if not inner:
            inner.append(1)
            inner[0] = int(f(zeros(300, 0))[2])
        return int(sizes[0])

    f = call("probe", of, implementation, workspace_bytes=needed)
    assert f(zeros(500, 0))[2] == 500
    assert inner == [300]


def test_threads(implementation: str) -> None:
    """Calls that keep and calls that release the GIL, with one workspace at a time for each."""
    probe = call("probe", signature(tensor(n, 0), results=PROBED), implementation, workspace_bytes=n)
    add = call("add", signature(tensor(n, 4), tensor(n, 4), results=(tensor(n, 4),)), implementation)
    failures: list[object] = []
    start = threading.Barrier(4)

    def work(seed: int) -> None:
        start.wait()
        for turn in range(60):
            count = (1 + (seed * 7 + turn) % 5) * (1 if turn % 2 else 20_000)
            if probe(zeros(count, 0))[2] != count:
                failures.append(count)
            x = np.full((count // 4, 4), seed, np.float32)
            if not (add(x, x) == 2 * seed).all():
                failures.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_the_gil_is_released_while_much_is_computed(implementation: str) -> None:
    """A thread that runs only without the GIL makes progress while a long call runs."""
    f = call("probe", signature(tensor(n, dtype=U8), results=PROBED), implementation, workspace_bytes=n)
    array = np.zeros(1 << 25, np.uint8)
    seen: list[bool] = []
    running = threading.Event()

    def watch() -> None:
        running.wait()
        seen.append(finished.is_set())

    finished = threading.Event()
    thread = threading.Thread(target=watch)
    thread.start()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        running.set()
        f(array)
        finished.set()
    finally:
        sys.setswitchinterval(interval)
        thread.join()
    assert seen == [False]


# Memory and lifetime --------------------------------------------------------------------------------------------


def test_references_are_balanced(two: CompiledCall) -> None:
    x, y, out, other = rows(3), rows(3), rows(3), rows(3)
    watched = [x, y, out, other, np.dtype("f4"), None, two.function]

    def attempt(*arguments: Any, **keywords: Any) -> None:
        with contextlib.suppress(TcpError):
            two(*arguments, **keywords)

    def counts() -> list[int]:
        return [sys.getrefcount(each) for each in watched]

    def everything() -> None:
        attempt(x, y)
        attempt(y=y, x=x, out=(out, other))
        attempt(x, y, out=(out, out))
        attempt(x, y[:2])
        attempt(x, y[::-1])
        attempt(x)
        attempt(x, y, out=None)

    everything()
    gc.collect()  # not while we count: what other tests left refers to None
    before = counts()
    for _ in range(50):
        everything()
    after = counts()
    assert after[:4] == before[:4]
    assert all(abs(new - old) <= 3 for old, new in zip(before, after, strict=True))
    result = two(x, y)
    owners = [sys.getrefcount(result[number]) for number in range(2)]
    assert owners == [sys.getrefcount((object(),)[0]) + 1] * 2


def test_nothing_leaks(implementation: str, two: CompiledCall) -> None:
    big = symbol("n")
    too_large = call(
        "nothing", signature(tensor(big, 0), results=(tensor(big), tensor(big, big))), implementation
    )
    workspace = call("probe", signature(tensor(n, 0), results=PROBED), implementation, workspace_bytes=n)
    unkept = call("nothing", signature(tensor(n, 0), results=()), implementation, workspace_bytes=n)
    x, bad, many = rows(200), rows(7), zeros(2**31 - 1, 0)

    def everything() -> None:
        two(x, x)
        two(x, x[::-1])
        workspace(zeros(5000, 0))
        unkept(zeros(KEEPS_BYTES + 1, 0))
        for attempt, arguments in ((two, (x, bad)), (too_large, (zeros(1 << 30, 0),)), (too_large, (many,))):
            with pytest.raises((TcpError, MemoryError)):
                attempt(*arguments)

    tracemalloc.start()
    try:
        for _ in range(3):
            everything()
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(20):
            everything()
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 32_000, f"{grown} bytes more after 20 rounds of arrays of 3200 bytes and more"


class Owned:
    """Something that can be watched."""


@pytest.mark.parametrize("cyclic", [False, True])
def test_what_a_call_keeps_alive_goes_with_it(implementation: str, cyclic: bool) -> None:
    owned = Owned()
    watch = weakref.ref(owned)
    kept = 1 << 20
    probe = call("probe", signature(tensor(n, 0), results=PROBED), implementation)
    tracemalloc.start()
    try:
        f = make_call(
            probe.signature,
            entries().address("probe"),
            n,
            keep_alive=(entries(), owned),
            implementation=implementation,
        )
        del owned
        f(zeros(kept, 0))
        gc.collect()
        assert watch() is not None
        assert (tracemalloc.get_traced_memory()[0] > kept) == f.is_compiled
        if cyclic:
            holder: dict[str, Any] = {"f": f}
            holder["self"] = holder
            del holder
        del f
        gc.collect()
        assert watch() is None
        assert tracemalloc.get_traced_memory()[0] < kept
    finally:
        tracemalloc.stop()


def test_a_call_from_a_finalizer_within_a_dead_cycle(implementation: str) -> None:
    results: list[np.ndarray] = []

    class Last:
        def __init__(self) -> None:
            self.f = call("add", ADD, implementation)
            self.self = self

        def __del__(self) -> None:
            results.append(self.f(GOOD, GOOD))
            results.append(self.f(GOOD[::-1], GOOD))

    Last()
    gc.collect()
    assert np.array_equal(results[0], GOOD + GOOD) and np.array_equal(results[1], GOOD[::-1] + GOOD)


def test_the_function_outlives_its_wrapper(add: CompiledCall, implementation: str) -> None:
    function = call("add", ADD, implementation).function
    gc.collect()
    assert np.array_equal(function(GOOD, GOOD), GOOD + GOOD)


# What it looks like ---------------------------------------------------------------------------------------------


def test_it_says_what_it_is(add: CompiledCall, implementation: str) -> None:
    assert repr(add) == "<compiled add(x: f32[b, 4], y: f32[b, 4]) -> f32[b, 4]>"
    assert add.__name__ == "add"
    assert add.signature is ADD
    assert isinstance(add, CompiledCall) and type(add).__name__ == "CompiledCall"
    assert add.__doc__ and "out" in add.__doc__
    assert str(TWO) == "(x: f32[b, 4], y: f32[b, 4]) -> (f32[b, 4], f32[b, 4])"


def test_other_classes_can_be_called_as_fast(add: CompiledCall, implementation: str) -> None:
    class Report:
        """Something with a report."""

        def __init__(self, report: str) -> None:
            self.report = report

    f = callable_class(Report, add.function)("42 kernels")
    assert isinstance(f, Report) and f.report == "42 kernels"
    assert np.array_equal(f(GOOD, y=GOOD), GOOD + GOOD)


def test_the_implementation_is_chosen(implementation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def made(choice: str | None = None) -> CompiledCall:
        return make_call(ADD, entries().address("add"), keep_alive=entries(), implementation=choice)

    monkeypatch.setenv("TCP_EQSAT_CALL", implementation)
    possible = not numpy_abi.obstacle()
    assert made().is_compiled == (implementation == "compiled" and possible)
    assert not made("python").is_compiled
    assert made("compiled").is_compiled == possible
    with pytest.raises(ArgumentError, match="one of compiled, python; got 'fast'"):
        made("fast")
    monkeypatch.setattr(numpy_abi, "obstacle", lambda: "some reason")
    assert not made("compiled").is_compiled
    assert np.array_equal(made()(GOOD, GOOD), GOOD + GOOD)

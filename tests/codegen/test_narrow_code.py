"""Machine code for f16, bf16, the 8-bit floats and the integers of 2 and 4 bits, for every kind of processor."""

from __future__ import annotations

import functools
import re

import ml_dtypes
import numpy as np
import pytest
from programs import EXACT, special_values
from ptx_runs import run_artifact

import tcp_eqsat as tcp
from tcp_eqsat.codegen.array_function import ArrayFunction
from tcp_eqsat.codegen.target import available_targets, cpu_target
from tcp_eqsat.errors import ArgumentError, TypeMismatch
from tcp_eqsat.lang.float_format import float_limits
from tcp_eqsat.lang.narrow import convert_array, widened
from tcp_eqsat.lang.scalar import SCALAR_OPS, ScalarOp, evaluate_op
from tcp_eqsat.lang.types import (
    BF16,
    BOOL,
    DTYPES,
    F16,
    F32,
    F64,
    FLOAT8,
    DType,
    dtype_of,
    integer_range,
    is_float_array,
)

TARGETS = [choice for choice in available_targets() if choice != "native"]
LANES = {"x86-64": (1, 8)}
SMALL = [d for d in DTYPES.values() if d.storage_only or d.is_narrow_float]
NARROW = (F16, BF16)
SERIES = ("zeta", "polygamma")
"""Functions that leave the range of f32 on the way where their references, in f64, do not."""
ABSOLUTE = dict.fromkeys(("lgamma", "digamma", "igamma", "igammac", "igamma_grad_a"), 2.0**-15)
"""Errors of functions that have zeros or add up to 1: absolute, see docs/accuracy.md."""


@functools.lru_cache(maxsize=None)
def samples(dtype: DType) -> np.ndarray:
    """All values of 8 and 16 bits; around the ties of narrower floats, and at random, of wider ones."""
    if dtype is BOOL:
        return np.array([False, True])
    if dtype.bytes <= 2:
        return np.arange(1 << 8 * dtype.bytes, dtype=f"u{dtype.bytes}").view(dtype.numpy)
    random = np.random.default_rng(dtype.bits)
    bits = random.integers(0, 2**64, 20_000, dtype=np.uint64).astype(f"u{dtype.bytes}")
    if dtype.is_integer:
        least, most = integer_range(dtype)
        whole = {0, least, most, most - 1}
        for place in range(dtype.bits - 1):
            for below in (7, 8, 10, 11, 12):
                number = (1 << place) + (1 << place >> below)
                whole |= {n for d in (-1, 0, 1) for n in (number + d, -number - d) if least <= n <= most}
        return np.concatenate([np.array(sorted(whole), dtype.numpy), bits.view(dtype.numpy)])
    parts = [bits.view(dtype.numpy), special_values(dtype)]
    with np.errstate(all="ignore"):
        for narrow in (*NARROW, *FLOAT8):
            values = np.unique(widened(samples(narrow)).astype(np.float64))
            values = values[np.isfinite(values)]
            ties = ((values[1:] + values[:-1]) / 2).astype(dtype.numpy)
            parts += [values.astype(dtype.numpy), ties]
            parts += [np.nextafter(ties, dtype.numpy.type(limit)) for limit in (np.inf, -np.inf)]
    return np.concatenate(parts)


def bits(array: np.ndarray) -> np.ndarray:
    """Bit patterns with one NaN."""
    found = array.view(f"u{array.dtype.itemsize}")
    if not is_float_array(array):
        return found
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return np.where(np.isnan(array), np.full_like(array, np.nan).view(found.dtype), found)


def assert_equal(found: np.ndarray, expected: np.ndarray, *operands: np.ndarray) -> None:
    wrong = np.flatnonzero(bits(found) != bits(expected))[:3]
    assert not wrong.size, [(*(x[n] for x in operands), found[n], expected[n]) for n in wrong]


@pytest.mark.parametrize(
    ("choice", "lanes"), [(choice, lanes) for choice in TARGETS for lanes in LANES.get(choice, (16,))])
@pytest.mark.parametrize("source", DTYPES.values(), ids=str)
def test_conversions_of_all_values(source: DType, choice: str, lanes: int) -> None:
    x = samples(source)
    for dtype in DTYPES.values() if source in SMALL else SMALL:
        convert = ArrayFunction(lambda b, v, d=dtype: b.convert(v, d), (source,), dtype, cpu_target(choice), lanes)
        assert_equal(convert(x), convert_array(x, dtype), x)


@pytest.mark.parametrize("choice", TARGETS)
@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_conversions_call_nothing(dtype: DType, choice: str) -> None:
    for pair in ((dtype, F32), (F64, dtype)):
        convert = ArrayFunction(lambda b, v, d=pair[1]: b.convert(v, d), pair[:1], pair[1], cpu_target(choice), 8)
        assert not re.search(r"\bcall\b", convert.module.assembly)


def operands(op: ScalarOp, dtype: DType) -> list[np.ndarray] | None:
    """All values of one operand (every 41st for functions whose reference is slow); special and random values of
    several. None where the operation does not take the dtype.
    """
    step, count = (1, 20_000) if op.name in EXACT else (41, 500)
    for each in ((dtype,) * op.arity, (BOOL, *(dtype,) * (op.arity - 1))):
        try:
            op.result_dtype(*each)
        except TypeMismatch:
            continue
        if op.arity == 1:
            return [samples(dtype)[::step]] if each[0] == dtype else None
        grid = np.meshgrid(*(special_values(d) for d in each[:2]), indexing="ij")
        drawn = np.random.default_rng(op.arity).integers(0, 1 << 16, (op.arity, count)).astype(np.uint16)
        drawn_as = [drawn[n] > 1 << 15 if d is BOOL else drawn[n].view(d.numpy) for n, d in enumerate(each)]
        return [np.concatenate([grid[min(n, 1)].ravel(), more]) for n, more in enumerate(drawn_as)]
    return None


def steps_apart(x: np.ndarray, y: np.ndarray, dtype: DType) -> np.ndarray:
    """How many values of a 16-bit float lie between; infinitely many where only one is NaN."""
    ordered = [np.where(b >> 15, -(b & 0x7FFF).astype(np.int64), (b & 0x7FFF).astype(np.int64))
               for b in (x.view(np.uint16), y.view(np.uint16))]
    with np.errstate(invalid="ignore"):  # signalling NaNs
        one, other = np.isnan(x), np.isnan(y)
    return np.where(one | other, np.where(one & other, 0, np.inf), np.abs(ordered[0] - ordered[1]))


@pytest.mark.parametrize("choice", TARGETS)
@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_scalar_operations(dtype: DType, choice: str) -> None:
    """One rounding of a result in f32: exact operations are exact, others at most a neighbour of the reference."""
    tested = 0
    for op in SCALAR_OPS.values():
        arrays = operands(op, dtype)
        if arrays is None or op.name.startswith("astype_") or op.name in SERIES:
            continue
        dtypes = tuple(dtype_of(a.dtype) for a in arrays)
        result = op.result_dtype(*dtypes)
        if result.is_complex:
            continue
        found = ArrayFunction(op.emit, dtypes, result, cpu_target(choice), 8)(*arrays)
        expected = evaluate_op(op, result, *arrays)
        if op.name in EXACT or result != dtype:
            assert_equal(found, expected, *arrays)
        else:
            with np.errstate(all="ignore"):
                near = np.abs(widened(found) - widened(expected)) <= ABSOLUTE.get(op.name, 0)
            far = np.flatnonzero((steps_apart(found, expected, dtype) > 1) & ~near)[:3]
            assert not far.size, (op.name, [(*(x[n] for x in arrays), found[n], expected[n]) for n in far])
        tested += 1
    assert tested > 40


# Whole programs


def random_values(dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    every = samples(dtype)
    return np.random.default_rng(0).choice(every, shape)


@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_movement_keeps_the_bits(dtype: DType) -> None:
    def move(x, y):  # type: ignore[no-untyped-def]
        joined = tcp.numpy.concat([x, y], 1)
        return (joined, joined.T, x[1:, ::2], tcp.numpy.pad(x, ((1, 0), (0, 2)), value=1), tcp.numpy.reshape(x, (-1,)),
                tcp.numpy.where(tcp.numpy.asarray(np.eye(5, 7, dtype=bool)), x, y))

    f = tcp.compile(tcp.trace(move, tcp.spec(f"{dtype}[5, 7]"), tcp.spec(f"{dtype}[5, 7]")))
    x, y = random_values(dtype, (2, 5, 7))
    joined = np.concatenate([x, y], 1)
    padded = np.full((6, 9), convert_array(1, dtype))
    padded[1:, :7] = x
    expected = (joined, joined.T, x[1:, ::2], padded, x.reshape(-1), np.where(np.eye(5, 7, dtype=bool), x, y))
    for found, wanted in zip(f(x, y), expected, strict=True):
        assert found.dtype == dtype.numpy and found.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("implementation", ["compiled", "python"])
@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_calls_take_any_array_of_the_dtype(dtype: DType, implementation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCP_EQSAT_CALL", implementation)
    f = tcp.compile(tcp.trace(lambda x: x[::2], tcp.spec(f"{dtype}[n]")))
    order = slice(None, None, 2)
    x = convert_array(np.arange(1, 3, 0.25), dtype)
    raw = np.empty(x.nbytes + 1, np.uint8)
    unaligned = raw[1:].view(dtype.numpy)
    unaligned[:] = x
    swapped = x.astype(dtype.numpy.newbyteorder(">")) if dtype == F16 else x
    for given in (x, np.repeat(x, 2)[::2], unaligned, swapped):
        found = f(given)
        assert found.dtype == dtype.numpy and found.tobytes() == x[order].tobytes()
    out = np.empty_like(x[order])
    assert f(x, out=out) is out and out.tobytes() == x[order].tobytes()
    with pytest.raises(TypeMismatch, match=rf"'x' must be {dtype}\[n\] .*got u8\[8\]"):
        f(x.view(np.uint8) if dtype.bytes == 1 else np.zeros(8, np.uint8))
    with pytest.raises((TypeMismatch, ArgumentError), match="out"):
        f(x, out=np.empty(8, np.float64))


@pytest.mark.parametrize("choice", TARGETS)
@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_programs_on_narrow_floats(dtype: DType, choice: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCP_EQSAT_CPU", choice)

    def model(x, w, b):  # type: ignore[no-untyped-def]
        h = tcp.numpy.maximum(x @ w + b, 0)
        e = tcp.numpy.exp(h - tcp.numpy.max(h, 1, keepdims=True))
        return e / tcp.numpy.sum(e, 1, keepdims=True), tcp.numpy.mean(x, 0), tcp.numpy.max(x), x.astype("f32") * 3

    program = tcp.trace(model, tcp.spec(f"{dtype}[n, 37]"), tcp.spec(f"{dtype}[37, 21]"), tcp.spec(f"{dtype}[21]"))
    f = tcp.compile(program)
    random = np.random.default_rng(0)
    for n in (1, 3, 19):
        arrays = [convert_array(random.standard_normal(s), dtype) for s in ((n, 37), (37, 21), (21,))]
        for found, expected in zip(f(*arrays), tcp.reference(program)(*arrays), strict=True):
            assert found.dtype == expected.dtype
            few = 4 * float_limits(dtype).epsilon
            np.testing.assert_allclose(widened(found), widened(expected), rtol=few, atol=few / 16)


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_sums_are_gathered_in_f32(dtype: DType) -> None:
    """Ones add up to what f32 holds: in the narrow dtype they would stop at 2048 or 256."""
    program = tcp.trace(lambda x: (tcp.numpy.sum(x), tcp.numpy.sum(x, 0), x.T @ x), tcp.spec(f"{dtype}[n, 3]"))
    total, column, product = tcp.compile(program)(np.ones((5000, 3), dtype.numpy))
    rounded = float(convert_array(np.array(5000.0), dtype))
    assert float(total) == float(convert_array(np.array(15000.0), dtype))
    assert (widened(column) == rounded).all() and (widened(product) == rounded).all()


def test_arrays_from_other_libraries() -> None:
    class Exporter:
        """As a library's array: it can be asked for an array, but has no DLPack of this dtype."""

        def __init__(self, array: np.ndarray) -> None:
            self.array = array

        def __dlpack__(self, **_: object) -> object:
            raise BufferError("no such dtype")

        def __array__(self, dtype: object = None, copy: bool | None = None) -> np.ndarray:
            return self.array

    f = tcp.compile(tcp.trace(lambda x: x + x, tcp.spec("bf16[3]")))
    assert f(Exporter(np.ones(3, ml_dtypes.bfloat16))).tolist() == [2, 2, 2]


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_ptx(dtype: DType) -> None:
    program = tcp.trace(
        lambda x, w: (tcp.nn.softmax(x @ w), tcp.numpy.max(x, 0), tcp.numpy.sum(x), (x * x).astype("f8e5m2")),
        tcp.spec(f"{dtype}[n, 19]"), tcp.spec(f"{dtype}[19, 7]"))
    artifact = tcp.compile(program, target="ptx")
    random = np.random.default_rng(0)
    arrays = [convert_array(random.standard_normal(s), dtype) for s in ((5, 19), (19, 7))]
    for found, expected in zip(run_artifact(artifact, arrays, {"n": 5}), tcp.reference(program)(*arrays), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(widened(found), widened(expected), rtol=2 * float_limits(dtype).epsilon)

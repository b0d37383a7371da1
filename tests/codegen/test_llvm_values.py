"""The LLVM builder: every method against NumPy, on every target and for one lane and many."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable

import numpy as np
import pytest

from tcp_eqsat.codegen.array_function import ArrayFunction
from tcp_eqsat.codegen.jit import Module, compile_module
from tcp_eqsat.codegen.llvm_text import LLVMValue, format_constant, llvm_type
from tcp_eqsat.codegen.llvm_values import LLVMBuilder
from tcp_eqsat.codegen.target import available_targets, cpu_target
from tcp_eqsat.errors import TypeMismatch, UnknownName, VerificationError
from tcp_eqsat.lang.types import (
    BOOL,
    DTYPES,
    F32,
    F64,
    I8,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    DType,
    dtype_of,
)

TARGETS = [choice for choice in available_targets() if choice != "native"]
SETTINGS = pytest.mark.parametrize(("choice", "lanes"), [(choice, lanes) for choice in TARGETS for lanes in (1, 8)])
FLOATS = [F32, F64]
WIDE = [dtype for dtype in DTYPES.values() if not dtype.storage_only and not dtype.is_narrow_float]
INTEGERS = [dtype for dtype in WIDE if dtype.is_integer]
INF, NAN = math.inf, math.nan

REALS = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.49, -0.3, 1e-40, 8388609.0, -1e9, 3e9, 1e20, INF, -INF, NAN]


def apply(
    emit: Callable[..., LLVMValue], choice: str, lanes: int, *arrays: np.ndarray, result: DType | None = None
) -> np.ndarray:
    dtypes = tuple(dtype_of(array.dtype) for array in arrays)
    return ArrayFunction(emit, dtypes, result or dtypes[0], cpu_target(choice), lanes)(*arrays)


def pairs(values: list[float], dtype: DType) -> list[np.ndarray]:
    return [grid.ravel() for grid in np.meshgrid(*[np.array(values, dtype.numpy)] * 2)]


def corners(dtype: DType) -> list[int]:
    info = np.iinfo(dtype.numpy)
    return sorted({0, 1, 2, 3, 7, 100, info.max, info.max - 1, info.min, *([-1, -2, -7, -100] if info.min else [])})


def assert_same(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_array_equal(found, expected)
    if found.dtype.kind == "f":
        ordered = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(found[ordered]), np.signbit(expected[ordered]))


# Floats


@SETTINGS
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(
    ("method", "reference"),
    [
        ("floor", np.floor),
        ("ceil", np.ceil),
        ("trunc", np.trunc),
        ("round_even", np.rint),
        ("sqrt", np.sqrt),
        ("negate", np.negative),
        ("absolute", np.absolute),
    ],
)
def test_float_unary(method: str, reference: Callable, dtype: DType, choice: str, lanes: int) -> None:
    x = np.array(REALS, dtype.numpy)
    with np.errstate(all="ignore"):
        assert_same(apply(lambda b, x: getattr(b, method)(x), choice, lanes, x), reference(x))


@SETTINGS
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(
    ("method", "reference"),
    [
        ("add", np.add),
        ("subtract", np.subtract),
        ("multiply", np.multiply),
        ("divide", np.divide),
        ("remainder", np.fmod),
        ("copysign", np.copysign),
    ],
)
def test_float_binary(method: str, reference: Callable, dtype: DType, choice: str, lanes: int) -> None:
    x, y = pairs(REALS, dtype)
    with np.errstate(all="ignore"):
        assert_same(apply(lambda b, x, y: getattr(b, method)(x, y), choice, lanes, x, y), reference(x, y))


def ieee_extremum(x: float, y: float, greatest: bool) -> float:
    """IEEE 754-2019 maximum or minimum of two Python floats."""
    if x != x or y != y:
        return NAN
    key = (x, math.copysign(1, x)), (y, math.copysign(1, y))
    return (max(key) if greatest else min(key))[0] * 1.0


@SETTINGS
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("method", ["maximum", "minimum"])
def test_float_extrema(method: str, dtype: DType, choice: str, lanes: int) -> None:
    x, y = pairs(REALS, dtype)
    expected = np.array([ieee_extremum(*p, method == "maximum") for p in zip(x.tolist(), y.tolist(), strict=True)])
    expected = expected.astype(dtype.numpy)
    assert_same(apply(lambda b, x, y: getattr(b, method)(x, y), choice, lanes, x, y), expected)
    single = np.array(REALS, dtype.numpy)
    for constant in (0.0, -0.0, 2.0, INF, NAN):
        expected = [ieee_extremum(float(v), constant, method == "maximum") for v in single]
        for swap in (False, True):

            def emit(b: LLVMBuilder, x: LLVMValue, c: float = constant, swap: bool = swap) -> LLVMValue:
                operands = (x, b.constant(c, dtype))
                return getattr(b, method)(*(operands[::-1] if swap else operands))

            assert_same(apply(emit, choice, lanes, single), np.array(expected, dtype.numpy))


@SETTINGS
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_fma_rounds_once_where_the_target_has_it(dtype: DType, choice: str, lanes: int) -> None:
    x = np.array([1 + np.finfo(dtype.numpy).eps] * 3, dtype.numpy)
    z = -(x * x)
    found = apply(lambda b, x, z: b.fma(x, x, z), choice, lanes, x, z)
    assert (found != 0).all() == cpu_target(choice).has_fma


@SETTINGS
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_ldexp(dtype: DType, choice: str, lanes: int) -> None:
    random = np.random.default_rng(0)
    limit = 300 if dtype is F32 else 2200
    patterns = random.integers(0, 2**dtype.bits, 20_000, dtype=np.uint64).astype(f"u{dtype.bytes}").view(dtype.numpy)
    x = np.concatenate([np.array(REALS, dtype.numpy), patterns])
    exponent = random.integers(-limit, limit, x.size).astype(np.int32 if dtype is F32 else np.int64)
    exponent[:3] = np.iinfo(exponent.dtype).max, np.iinfo(exponent.dtype).min, 0
    with np.errstate(all="ignore"):
        expected = np.ldexp(x, np.clip(exponent, -10_000, 10_000).astype(np.int32))
    assert_same(apply(lambda b, x, e: b.ldexp(x, e), choice, lanes, x, exponent), expected)


@SETTINGS
@pytest.mark.parametrize("dtype", [*FLOATS, I32, U32, U8], ids=str)
@pytest.mark.parametrize("direction", ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"])
def test_compare_and_select(direction: str, dtype: DType, choice: str, lanes: int) -> None:
    x, y = pairs(REALS if dtype.is_float else corners(dtype), dtype)
    expected = getattr(np, direction)(x, y)
    assert_same(apply(lambda b, x, y: b.compare(direction, x, y), choice, lanes, x, y, result=BOOL), expected)
    chosen = apply(lambda b, x, y: b.select(b.compare(direction, x, y), x, y), choice, lanes, x, y)
    assert_same(chosen, np.where(expected, x, y))


# Integers


def truncated(x: int, y: int, dtype: DType) -> tuple[int, int]:
    """The quotient and remainder that the language defines, before wrapping."""
    if y == 0:
        return -1, x
    quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
    return quotient, x - quotient * y


def wrapped(values: list[int], dtype: DType) -> np.ndarray:
    return np.array([value % 2**dtype.bits for value in values], np.uint64).astype(dtype.numpy)


@SETTINGS
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integer_division(dtype: DType, choice: str, lanes: int) -> None:
    random = np.random.default_rng(1).integers(0, 2**64 - 1, 300, dtype=np.uint64).astype(dtype.numpy)
    x, y = pairs(corners(dtype), dtype)
    x, y = np.concatenate([x, random]), np.concatenate([y, random[::-1] >> 3 if dtype.bits > 8 else random[::-1]])
    both = [truncated(int(a), int(c), dtype) for a, c in zip(x, y, strict=True)]
    for method, place in (("divide", 0), ("remainder", 1)):
        expected = wrapped([item[place] for item in both], dtype)
        assert_same(apply(lambda b, x, y, m=method: getattr(b, m)(x, y), choice, lanes, x, y), expected)
    for divisor in {0, 1, 3, -1 if dtype.is_signed else 5}:
        expected = wrapped([truncated(int(a), divisor, dtype)[0] for a in x], dtype)
        found = apply(lambda b, x, d=divisor: b.divide(x, b.constant(d, dtype)), choice, lanes, x)
        assert_same(found, expected)


@SETTINGS
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integer_shifts(dtype: DType, choice: str, lanes: int) -> None:
    amounts = [0, 1, dtype.bits - 1, dtype.bits, dtype.bits + 1, 100, np.iinfo(dtype.numpy).max]
    x, y = (g.ravel() for g in np.meshgrid(np.array(corners(dtype), dtype.numpy), np.array(amounts, dtype.numpy)))

    def shifted(value: int, amount: int, left: bool) -> int:
        if left:
            return value << amount if amount < dtype.bits else 0
        return value >> min(amount, dtype.bits)

    for left, method in ((True, "shift_left"), (False, "shift_right")):
        expected = wrapped([shifted(int(a), int(k), left) for a, k in zip(x, y, strict=True)], dtype)
        assert_same(apply(lambda b, x, y, m=method: getattr(b, m)(x, y), choice, lanes, x, y), expected)
        for amount in amounts:
            expected = wrapped([shifted(int(a), amount, left) for a in x], dtype)
            emit = lambda b, x, m=method, k=amount: getattr(b, m)(x, b.constant(k, dtype))  # noqa: E731
            assert_same(apply(emit, choice, lanes, x), expected)


@SETTINGS
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integer_arithmetic_wraps(dtype: DType, choice: str, lanes: int) -> None:
    x, y = pairs(corners(dtype), dtype)
    with np.errstate(over="ignore"):
        for method, reference in (
            ("add", np.add),
            ("subtract", np.subtract),
            ("multiply", np.multiply),
            ("maximum", np.maximum),
            ("minimum", np.minimum),
            ("bitwise_and", np.bitwise_and),
            ("bitwise_or", np.bitwise_or),
            ("bitwise_xor", np.bitwise_xor),
        ):
            found = apply(lambda b, x, y, m=method: getattr(b, m)(x, y), choice, lanes, x, y)
            assert_same(found, reference(x, y))
        for method, reference in (("negate", np.negative), ("absolute", np.absolute), ("bitwise_not", np.invert)):
            assert_same(apply(lambda b, x, m=method: getattr(b, m)(x), choice, lanes, x), reference(x))


# Conversion


def converted(value: float | int, dtype: DType) -> float | int:
    if dtype is BOOL:
        return value != 0
    if dtype.is_float:
        return value
    if isinstance(value, int):
        return value % 2**dtype.bits
    info = np.iinfo(dtype.numpy)
    return 0 if value != value else int(min(max(value, info.min), info.max)) % 2**dtype.bits


@SETTINGS
@pytest.mark.parametrize("source", WIDE, ids=str)
def test_convert(source: DType, choice: str, lanes: int) -> None:
    numbers = REALS if source.is_float else [0, 1] if source is BOOL else corners(source)
    extra = [127.9, 128.0, 255.5, -128.9, 65535.7, 2147483520.0, 2147483648.0, 4294967040.0, 1.8e19, 9.3e18]
    x = np.array([*numbers, *(extra if source.is_float else [])], source.numpy)
    for dtype in WIDE:
        found = apply(lambda b, x, d=dtype: b.convert(x, d), choice, lanes, x, result=dtype)
        if dtype.is_float:
            with np.errstate(over="ignore"):
                expected = x.astype(dtype.numpy)
        elif dtype is BOOL:
            expected = x != 0
        else:
            expected = wrapped([int(converted(value, dtype)) for value in x.tolist()], dtype)
        assert_same(found, expected)


@SETTINGS
def test_bitcast(choice: str, lanes: int) -> None:
    for source, dtype in ((F32, I32), (F32, U32), (F64, I64), (F64, U64), (I32, U32), (BOOL, U8)):
        x = np.array([0, 1] if source is BOOL else REALS[:8] if source.is_float else corners(source), source.numpy)
        expected = x.view(dtype.numpy)
        assert_same(apply(lambda b, x, d=dtype: b.bitcast(x, d), choice, lanes, x, result=dtype), expected)
        assert_same(apply(lambda b, x, d=source: b.bitcast(x, d), choice, lanes, expected, result=source), x)
    with pytest.raises(TypeMismatch, match="equal widths, got f32 and f64"):
        apply(lambda b, x: b.bitcast(x, F64), choice, lanes, np.zeros(1, np.float32))


# Lanes and memory


@SETTINGS
@pytest.mark.parametrize("dtype", [F32, F64, I32, I8], ids=str)
def test_reductions_over_lanes(dtype: DType, choice: str, lanes: int) -> None:
    x = np.arange(1, 17).astype(dtype.numpy)
    for operation, reference in (("add", np.sum), ("maximum", np.max), ("minimum", np.min)):
        found = apply(lambda b, x, o=operation: b.reduce(getattr(LLVMBuilder, o), x), choice, lanes, x)
        assert_same(found, np.repeat(reference(x.reshape(-1, lanes), axis=1), lanes).astype(dtype.numpy))


@SETTINGS
def test_reductions_of_bool(choice: str, lanes: int) -> None:
    x = np.array([0] * 8 + [1] + [0] * 7 + [1] * 8, bool)
    for operation, reference in (("bitwise_and", np.all), ("bitwise_or", np.any)):
        found = apply(lambda b, x, o=operation: b.reduce(getattr(LLVMBuilder, o), x), choice, lanes, x)
        assert_same(found, np.repeat(reference(x.reshape(-1, lanes), axis=1), lanes))


@SETTINGS
def test_iota_and_uniform_values(choice: str, lanes: int) -> None:
    x = np.zeros(16, np.int64)
    found = apply(lambda b, x: b.add(b.iota(I64), b.extract(b.add(x, b.constant(5, I64)), 0)), choice, lanes, x)
    assert_same(found, np.arange(16) % lanes + 5)


@pytest.mark.parametrize("choice", TARGETS)
@pytest.mark.parametrize("dtype", [F32, F64, I32, U16, BOOL], ids=str)
def test_masked_memory_stays_within_the_mask(dtype: DType, choice: str) -> None:
    lanes, count = 8, 5

    def text() -> str:
        b = LLVMBuilder(cpu_target(choice), lanes)
        mask = b.compare("less", b.iota(I32), b.constant(count, I32))
        value = b.load("%in", dtype, mask=mask)
        gathered = b.gather("%in", b.subtract(b.constant(count - 1, I64), b.iota(I64)), dtype, mask=mask)
        total = b.bitwise_or(value, gathered) if dtype is BOOL else b.add(value, gathered)
        b.store(total, "%out", mask=mask)
        b.scatter(total, "%apart", b.multiply(b.iota(I64), b.constant(2, I64)), mask=mask)
        body = "\n".join(b.lines)
        declarations = "\n".join(b.declarations.values())
        return f"define void @f(ptr %in, ptr %out, ptr %apart) {{\n{body}\n  ret void\n}}\n{declarations}\n"

    module = compile_module(text(), cpu_target(choice))
    x = np.arange(1, count + 1).astype(dtype.numpy)
    out, apart = np.zeros(lanes, dtype.numpy), np.zeros(2 * lanes, dtype.numpy)
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(module.address("f"))
    function(x.ctypes.data, out.ctypes.data, apart.ctypes.data)
    expected = x | x[::-1] if dtype is BOOL else x + x[::-1]
    assert_same(out, np.concatenate([expected, np.zeros(lanes - count, dtype.numpy)]))
    assert_same(apart[::2], out)
    assert not apart[1::2].any()


# Text


def test_constants_are_exact() -> None:
    assert format_constant(0.1, F32) == "0x3FB99999A0000000"
    assert format_constant(0.1, F64) == "0x3FB999999999999A"
    assert format_constant(-0.0, F64) == "0x8000000000000000"
    assert format_constant(1e300, F32) == "0x7FF0000000000000"
    assert format_constant(200, I8) == "-56"
    assert format_constant(-1, U64) == "-1"
    assert llvm_type(BOOL, 4) == "<4 x i1>"


def test_equal_instructions_are_written_once_per_scope() -> None:
    b = LLVMBuilder(cpu_target("native"), 4)
    x, y = (b.load(f"%p{i}", F32) for i in range(2))
    assert b.add(x, y) == b.add(y, x)
    assert b.subtract(x, y) != b.subtract(y, x)
    with b.scope():
        inner = b.multiply(x, y)
        assert b.multiply(x, y) == inner
        assert b.add(x, y) == b.add(x, y)
    assert b.multiply(x, y) != inner
    assert b.load("%p0", F32) != x


def test_reuse_keeps_signedness() -> None:
    b = LLVMBuilder(cpu_target("native"), 4)
    x = b.load("%p", I32)
    y = b.bitcast(x, U32)
    assert b.add(x, x).dtype is I32
    assert b.add(y, y).dtype is U32


def test_errors() -> None:
    b = LLVMBuilder(cpu_target("native"), 4)
    with pytest.raises(UnknownName, match=r"no vector function 'sine'.*sin"):
        b.function("sine", b.constant(1.0, F32))
    with pytest.raises(TypeMismatch, match="equal dtypes, got f32 and f64"):
        b.add(b.constant(1.0, F32), b.constant(1.0, F64))
    with pytest.raises(VerificationError, match="outlined function"):
        b.where_any(b.constant(True, BOOL), tuple, ())
    with pytest.raises(VerificationError, match="LLVM rejects"):
        compile_module("define void @f() {\n  ret i32 0\n}\n", cpu_target("native"))


def test_object_code_loads_again() -> None:

    target = cpu_target("native")
    compiled = compile_module("define i32 @answer() {\n  ret i32 42\n}\n", target)
    assert "answer" in compiled.assembly
    assert compiled.symbols == ("answer",)
    again = Module(compiled.object_bytes, compiled.symbols)
    del compiled
    assert ctypes.CFUNCTYPE(ctypes.c_int)(again.address("answer"))() == 42
    with pytest.raises(VerificationError, match="can't be linked"):
        Module(again.object_bytes, ("question",))

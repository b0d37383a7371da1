"""f16, bf16, the 8-bit floats and the integers of 2 and 4 bits: conversions and arithmetic, to the last bit."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest

import tcp_eqsat as tcp
from tcp_eqsat.errors import TcpError, TypeMismatch
from tcp_eqsat.lang.float_format import FORMATS, NonFinite, float_limits
from tcp_eqsat.lang.narrow import convert_array, has_nan, widened
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.ops.attributes import ContractAttributes
from tcp_eqsat.lang.program import Function, Node, TensorData
from tcp_eqsat.lang.reference import evaluate
from tcp_eqsat.lang.scalar import SCALAR_OPS, encode_number, evaluate_op, scalar_op_named
from tcp_eqsat.lang.types import (
    BF16,
    DTYPES,
    F4E2M1FN,
    F6E3M2FN,
    F8E4M3FN,
    F8E8M0FNU,
    F16,
    F32,
    F64,
    FLOAT8,
    FLOAT_BELOW_8,
    I2,
    I4,
    U2,
    U4,
    DType,
    TensorType,
    dtype_of,
    integer_range,
)

SMALL_FLOATS = (F16, BF16, *FLOAT8, *FLOAT_BELOW_8)
SMALL_INTEGERS = (I2, I4, U2, U4)
NARROW = (F16, BF16)


def every_value(dtype: DType) -> np.ndarray:
    return np.arange(1 << dtype.bits, dtype=f"u{dtype.bytes}").view(dtype.numpy)


def as_f64(array: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return widened(array).astype(np.float64)


def finite_values(dtype: DType) -> tuple[np.ndarray, np.ndarray]:
    """The finite values in ascending order as f64, and their bits; one zero."""
    values = as_f64(every_value(dtype))
    order = np.argsort(np.where(np.isfinite(values), values, np.inf), kind="stable")[: np.isfinite(values).sum()]
    keep = np.concatenate([[True], np.diff(values[order]) > 0])
    return values[order][keep], order[keep]


@pytest.mark.parametrize("dtype", FORMATS, ids=str)
def test_formats_say_what_the_bits_mean(dtype):
    form, values = FORMATS[dtype], as_f64(every_value(dtype))
    assert (values[1], values[1 << form.mantissa_bits]) == (form.step, form.least_normal)
    assert values[form.largest] == values[np.isfinite(values)].max() == float_limits(dtype).largest
    if form.non_finite is NonFinite.NONE:
        assert np.isfinite(values).all() and form.overflow == form.largest and str(values[form.nan]) == "-0.0"
    else:
        assert np.isnan(values[form.nan])
        assert np.isnan(values[form.overflow]) == (form.non_finite is not NonFinite.IEEE)
    assert np.isinf(values).any() == float_limits(dtype).has_infinity == (form.non_finite is NonFinite.IEEE)
    one = int(np.flatnonzero(values == 1)[0])
    assert values[one + 1] - 1 == float_limits(dtype).epsilon


def test_the_powers_of_two():
    values = as_f64(every_value(F8E8M0FNU))
    assert (values[:255] == 2.0 ** np.arange(-127, 128)).all() and np.isnan(values[255])
    found = convert_array(np.array([0, -0.0, -1, 1e-300, 1.5, 3, 1.49, 1.5 * 2**127, np.inf, np.nan]), F8E8M0FNU)
    assert found.view(np.uint8).tolist() == [255, 255, 255, 0, 128, 129, 127, 255, 255, 255]


@pytest.mark.parametrize("dtype", [d for d in SMALL_FLOATS if d != F8E8M0FNU], ids=str)
@pytest.mark.parametrize("source", [F32, F64], ids=str)
def test_floats_round_once_to_nearest_even(source, dtype):
    values, bits = finite_values(dtype)
    ties = (values[1:] + values[:-1]) / 2
    with np.errstate(all="ignore"):
        ties = ties.astype(source.numpy)
        beyond = source.numpy.type(np.inf)
        x = np.concatenate([values.astype(source.numpy), ties, np.nextafter(ties, beyond), np.nextafter(ties, -beyond)])
        found = as_f64(convert_array(x, dtype))
    above = np.clip(np.searchsorted(values, x.astype(np.float64)), 1, len(values) - 1)
    low, high = values[above - 1], values[above]
    down, up = x - low, high - x
    expected = np.where(down < up, low, np.where(up < down, high, np.where(bits[above] & 1, low, high)))
    assert (found == expected).all()


@pytest.mark.parametrize("dtype", SMALL_FLOATS, ids=str)
def test_numbers_that_are_too_large(dtype):
    values, _ = finite_values(dtype)
    limit = 1.5 * values[-1] if dtype == F8E8M0FNU else values[-1] + (values[-1] - values[-2]) / 2
    overflow = np.inf if float_limits(dtype).has_infinity else np.nan if has_nan(dtype) else values[-1]
    around = np.array([np.nextafter(limit, 0), limit, np.nextafter(limit, np.inf), 1e300])
    found = widened(convert_array(around, dtype))
    ends_even = dtype != F8E8M0FNU and FORMATS[dtype].largest % 2 == 0
    np.testing.assert_array_equal(found, [values[-1], values[-1] if ends_even else overflow, overflow, overflow])


@pytest.mark.parametrize("dtype", SMALL_FLOATS, ids=str)
def test_conversions_from_f32_are_those_of_ml_dtypes(dtype):
    patterns = np.random.default_rng(0).integers(0, 2**32, 200_000, dtype=np.uint64).astype(np.uint32)
    x = patterns.view(np.float32)
    with np.errstate(all="ignore"):
        if dtype == F8E8M0FNU:
            x = x[~(np.abs(x) < 2.0**-126)]  # where versions differ
        expected = (x if has_nan(dtype) else np.where(np.isnan(x), np.float32(np.nan), x)).astype(dtype.numpy)
    np.testing.assert_array_equal(widened(convert_array(x, dtype)), widened(expected))


def test_by_way_of_f32_these_would_round_twice():
    just_above = np.array(1 + 2.0**-8 + 2.0**-40)  # a tie of bf16, and a little
    assert float(convert_array(just_above, BF16)) == 1 + 2.0**-7
    large = np.array((1 << 62) + (1 << 54) + 1)
    assert int(convert_array(large, BF16)) == (1 << 62) + (1 << 55)
    assert int(widened(convert_array(large.astype(np.uint64), BF16))) == (1 << 62) + (1 << 55)
    assert encode_number((1 << 80) + (1 << 72) + 1, BF16) == encode_number((1 << 80) + (1 << 73), BF16)


@pytest.mark.parametrize("dtype", SMALL_FLOATS, ids=str)
def test_integers_round_once(dtype):
    values, bits = finite_values(dtype)
    random = np.random.default_rng(0)
    whole = [int(v) for v in values if 0 < v < 2**63 and v == int(v)]
    ties = [(Fraction(a) + Fraction(b)) / 2 for a, b in pairwise(whole)]
    ties = [int(t) for t in ties if t.denominator == 1]
    picked = random.choice(ties, min(len(ties), 400), replace=False).tolist()
    numbers = [n + d for n in (*picked, *whole[:200]) for d in (-1, 0, 1) if 0 < n + d < 2**63]
    for signed in (True, False):
        x = np.array([-n for n in numbers] if signed and dtype != F8E8M0FNU else numbers, "i8" if signed else "u8")
        found = widened(convert_array(x, dtype))
        for number, value in zip(x.tolist(), found.tolist(), strict=True):
            expected = nearest(number, values, bits, dtype)
            assert value == expected or (value != value and expected != expected), number


def nearest(number: int, values: np.ndarray, bits: np.ndarray, dtype: DType) -> float:
    if abs(number) > values[-1]:
        return float(widened(convert_array(np.array(float(number)), dtype)))  # rounds far from any tie, or overflows
    place = int(np.searchsorted(values, number))
    if values[place] == number:
        return float(values[place])
    low, high = Fraction(values[place - 1]), Fraction(values[place])
    if number - low == high - number:
        return float(high if dtype == F8E8M0FNU or not bits[place] & 1 else low)
    return float(low if number - low < high - number else high)


@pytest.mark.parametrize("dtype", SMALL_INTEGERS, ids=str)
def test_narrow_integers(dtype):
    least, most = integer_range(dtype)
    count = 1 << dtype.bits
    bytes_ = np.arange(256, dtype=np.uint8)
    expected = [(n % count + count // 2) % count - count // 2 if least else n % count for n in range(256)]
    assert widened(bytes_.view(dtype.numpy)).tolist() == expected, "only the low bits count"
    for wide in (np.int16, np.int64, np.uint32):
        found = convert_array(np.arange(256).astype(wide), dtype)
        assert widened(found).tolist() == expected and found.view(np.uint8).max() < count
    floats = np.array([-9.5, -2.5, -1, -0.5, 0, 0.9, 1.9, 7.9, 15.9, 99, np.inf, -np.inf, np.nan], np.float32)
    truncated = [0 if x != x else int(min(max(x, least), most)) for x in floats.tolist()]
    assert widened(convert_array(floats, dtype)).tolist() == truncated
    for target in (F16, F64, F8E4M3FN):
        assert widened(convert_array(bytes_.view(dtype.numpy), target)).tolist() == expected


@pytest.mark.parametrize("dtype", [d for d in DTYPES.values() if d.storage_only], ids=str)
def test_storage_dtypes_have_no_arithmetic(dtype):
    moving = {"where", *(n for n in SCALAR_OPS if n.startswith(("astype_", "bitcast_")))}
    for name in ("add", "maximum", "less", "exp", "isnan", "bitwise_and", "negative", "fmod", "equal"):
        op = SCALAR_OPS[name]
        with pytest.raises(TypeMismatch, match=name):
            op.result_dtype(*[dtype] * op.arity)
    for op in SCALAR_OPS.values():
        if op.name not in moving:
            with pytest.raises(TypeMismatch):
                op.result_dtype(*[dtype] * op.arity)
    assert SCALAR_OPS["where"].result_dtype(DTYPES["bool"], dtype, dtype) == dtype
    x = builders.parameter("x", 0, TensorType(dtype, (3,)))
    with pytest.raises(TypeMismatch, match=rf"add requires a dtype with arithmetic, got {dtype}: convert it first"):
        builders.reduce_axes(scalar_op_named("add"), x, (0,))
    with pytest.raises(TypeMismatch, match="requires a dtype with arithmetic"):
        Node.make(tcp.lang.op.OPS["contract"], (x, x), ContractAttributes((0,), (0,), (3,), 0))


def exactly(name: str, x: float, y: float) -> Fraction:
    a, b = Fraction(x), Fraction(y)
    return {"add": a + b, "subtract": a - b, "multiply": a * b, "divide": a / b if b else Fraction(0)}[name]


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide"])
def test_arithmetic_is_rounded_once(name, dtype):
    random = np.random.default_rng(1)
    x, y = (random.integers(0, 1 << 16, 4000, dtype=np.uint16).view(dtype.numpy) for _ in range(2))
    found = as_f64(evaluate_op(SCALAR_OPS[name], dtype, x, y))
    values, bits = finite_values(dtype)
    limit = Fraction(values[-1]) + Fraction(values[-1] - values[-2]) / 2
    checked = 0
    for a, b, c in zip(widened(x).tolist(), widened(y).tolist(), found.tolist(), strict=True):
        if not (np.isfinite(a) and np.isfinite(b)) or (name == "divide" and b == 0):
            continue
        exact = exactly(name, a, b)
        checked += 1
        if abs(exact) >= limit:
            assert np.isinf(c) and (c > 0) == (exact > 0)
            continue
        place = min(max(int(np.searchsorted(values, float(exact))), 1), len(values) - 2)
        near = [p for p in (place - 1, place, place + 1) if 0 <= p < len(values)]
        best = min(near, key=lambda p: (abs(Fraction(values[p]) - exact), int(bits[p]) & 1))
        assert c == values[best], (a, b)
    assert checked > 2000


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_sums_gather_in_a_wider_dtype(dtype):
    ones = builders.parameter("x", 0, TensorType(dtype, (5000,)))
    total = builders.reduce_axes(scalar_op_named("add"), ones, (0,))
    product = builders.contract(ones, ones, (0,), (0,), (5000,), 0)
    function = Function("f", (ones,), (total, product))
    expected = float(convert_array(np.array(5000.0), dtype))
    for found in evaluate(function, [np.ones(5000, dtype.numpy)]):
        assert found.dtype == dtype.numpy and float(found) == expected


def test_numbers_that_a_dtype_lacks():
    for dtype, number in ((F8E4M3FN, np.inf), (F8E4M3FN, 1e9), (F8E8M0FNU, 0), (F8E8M0FNU, -1.0), (I4, 8), (U2, 4),
                          (F4E2M1FN, np.nan), (F4E2M1FN, -np.inf), (F4E2M1FN, 7.0), (F6E3M2FN, -30.0)):
        with pytest.raises(TypeMismatch, match=f"a literal of dtype {dtype} must be"):
            encode_number(number, dtype)
    assert encode_number(np.nan, F8E4M3FN) == b"\x7f" and encode_number(-8, I4) == b"\x08"
    assert encode_number(6.99, F4E2M1FN) == b"\x07" and encode_number(-29.9, F6E3M2FN) == b"\x3f"
    assert encode_number(ml_dtypes.bfloat16(1.5), F16) == np.float16(1.5).tobytes()
    for text in ("f8e4m3fn 1e9", "f8e4m3fn inf", "f8e8m0fnu 0.0", "u4 16", "i2 -3", "f4e2m1fn 7.0", "f6e2m3fn nan"):
        dtype, number = text.split()
        with pytest.raises(TcpError, match="required"):
            tcp.parse(f"tcp 1\n\nfunction f() -> ({dtype}[]) {{\n  %0 = constant {number} : {dtype}[]\n  return %0\n}}")


def test_constants_are_canonical():
    for name in ("int4", "float4_e2m1fn"):
        data = TensorData(np.array([0xF3, 0x03], np.uint8).view(getattr(ml_dtypes, name)))
        assert data.is_splat and data.array.view(np.uint8).tolist() == [3, 3]
    data = TensorData(np.array([0xF3, 0x03], np.uint8).view(ml_dtypes.int4))
    assert data.is_splat and data == TensorData(np.array([3, 3], ml_dtypes.int4)) and data.dtype == I4


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_numpy_dtypes_and_names(dtype):
    assert dtype_of(dtype.numpy) is dtype and dtype.numpy.itemsize == dtype.bytes
    assert dtype_of(dtype.numpy.newbyteorder(">")) is dtype
    assert tcp.spec(f"{dtype}[b, 16]") and str(dtype) == dtype.name


def test_dtypes_of_one_width_do_not_mix():
    with pytest.raises(TypeMismatch, match="f16, bf16 don't mix"):
        tcp.trace(lambda x, y: x + y, tcp.spec("f16[3]"), tcp.spec("bf16[3]"))
    program = tcp.trace(lambda x, y: (x + y, x * 2, x.astype("f8e5m2"), x.astype(ml_dtypes.bfloat16)),
                        tcp.spec("f16[3]"), tcp.spec("f32[3]"))
    assert [str(x.dtype) for x in program.main.results] == ["f32", "f16", "f8e5m2", "bf16"]


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_gradients_keep_the_dtype(dtype):
    program = tcp.trace(lambda x, w: tcp.numpy.sum(tcp.numpy.tanh(x @ w)), tcp.spec(f"{dtype}[2, 3]"),
                        tcp.spec(f"{dtype}[3, 4]"))
    gradient = tcp.grad(program)
    assert {str(x.dtype) for x in gradient.main.results} == {dtype.name}


def test_gradients_stop_at_storage():
    program = tcp.trace(lambda x: tcp.numpy.sum(x.astype("f8e5m2").astype("f32") * x), tcp.spec("f32[3]"))
    (found,) = evaluate(tcp.grad(program).main, [np.array([1, 2, 3], np.float32)])
    assert found.tolist() == [1, 2, 3]


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_means_and_norms_are_computed_in_f32(dtype):
    """In f16 the sum and the squares would overflow; in bf16 the count 1001 would be another number."""
    x = np.linspace(200, 400, 1001).astype(np.float32)
    narrow = convert_array(x, dtype)
    wide = widened(narrow)
    program = tcp.trace(lambda x: (tcp.numpy.mean(x), tcp.numpy.var(x), tcp.nn.layer_norm(x), tcp.nn.rms_norm(x),
                                   tcp.nn.softmax(x)), tcp.spec(f"{dtype}[1001]"))
    same = tcp.trace(lambda x: (tcp.numpy.mean(x), tcp.numpy.var(x), tcp.nn.layer_norm(x), tcp.nn.rms_norm(x),
                                tcp.nn.softmax(x)), tcp.spec("f32[1001]"))
    for found, expected in zip(evaluate(program.main, [narrow]), evaluate(same.main, [wide]), strict=True):
        assert found.dtype == dtype.numpy and np.isfinite(widened(found)).all()
        assert found.tobytes() == convert_array(expected, dtype).tobytes()

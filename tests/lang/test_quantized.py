"""Quantised dtypes: what they are called, what quantising gives, and programs over their integers."""

import numpy as np
import pytest

from tcp_eqsat.errors import ParseError, ShapeMismatch, TypeMismatch
from tcp_eqsat.lang.apart import take_apart
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.ops.quantization import dequantize, quantize, view_as_quantized, view_as_storage
from tcp_eqsat.lang.program import Function, Program
from tcp_eqsat.lang.quantized import parse_quantized, quantized
from tcp_eqsat.lang.reference import evaluate
from tcp_eqsat.lang.scalar import scalar_op_named
from tcp_eqsat.lang.text import parse, write
from tcp_eqsat.lang.type_text import parse_type
from tcp_eqsat.lang.types import F16, F32, F64, I8, I16, I32, U8, TensorType

DTYPES = (
    quantized(I8, F32, 0.5, 3), quantized(U8, F32, 0.1), quantized(I8, F32, 1e-3, -5, low=-127, high=127),
    quantized(I16, F64, 2.0**-7, 1000), quantized(I32, F32, 1e-4), quantized(I8, F16, 0.25, -1),
)
PER_AXIS = quantized(I8, F32, [0.5, 0.25, 2.0], [0, 1, -2], axis=1)


@pytest.mark.parametrize("dtype", [*DTYPES, PER_AXIS], ids=str)
def test_names_read_back(dtype):
    assert parse_quantized(str(dtype).removeprefix("quant")) == dtype
    assert parse_type(f"{dtype}[4, 3]", {}) == TensorType(dtype, (4, 3))


def test_names():
    assert str(DTYPES[0]) == "quant(i8:f32, 0.5:3)"
    assert str(DTYPES[2]) == "quant(i8:-127:127:f32, 0.001:-5)"
    assert str(PER_AXIS) == "quant(i8:f32:1, 0.5:0, 0.25:1, 2.0:-2)"


@pytest.mark.parametrize("text", ["(i8)", "(i8:f32)", "(i8:f32, x:1)", "(i8:f32, 0.5)", "(i8:1:f32, 0.5:0)"])
def test_malformed_names(text):
    with pytest.raises(ParseError, match="is written like"):
        parse_quantized(text)


@pytest.mark.parametrize(("make", "message"), [
    (lambda: quantized(F32, F32, 1.0), "integer storage of a float dtype, got f32 of f32"),
    (lambda: quantized(I8, F32, 0.0), "positive, finite scales, got 0.0"),
    (lambda: quantized(I8, F32, float("inf")), "positive, finite scales, got inf"),
    (lambda: quantized(I8, F32, [1.0, 2.0]), "requires one scale, got 2"),
    (lambda: quantized(I8, F32, [1.0, 2.0], [0], axis=0), "requires 2 zero points, got 1"),
    (lambda: quantized(I8, F32, 1.0, 128), r"zero points in -128\.\.127, got 128"),
    (lambda: quantized(I8, F32, 1.0, low=-200), r"bounds in -128\.\.127, got -200\.\.127"),
])
def test_what_is_no_dtype(make, message):
    with pytest.raises(TypeMismatch, match=message):
        make()


def parameter(dtype, *shape):
    return builders.parameter("x", 0, TensorType(dtype, shape))


def test_quantize_rounds_to_even_and_clamps():
    x = parameter(F32, 7)
    function = Function("f", (x,), (quantize(x, DTYPES[0]),))
    numbers = np.float32([0, 0.25, 0.75, -0.75, 1e9, -np.inf, np.nan])
    (found,) = evaluate(function, [numbers])
    assert found.dtype == np.int8
    assert found.tolist() == [3, 3, 5, 1, 127, -128, 0]


def test_scales_along_an_axis():
    x = parameter(F32, 2, 3)
    function = Function("f", (x,), (quantize(x, PER_AXIS), dequantize(quantize(x, PER_AXIS))))
    stored, back = evaluate(function, [np.float32([[1, 1, 1], [-3, 0.3, 9]])])
    assert stored.tolist() == [[2, 5, -2], [-6, 2, 2]]
    assert back.tolist() == [[1, 1, 0], [-3, 0.25, 8]]


def round_trip(dtype):
    x = parameter(dtype.expressed, 5, 3)
    q = quantize(x, dtype)
    return Function("f", (x,), (q, dequantize(q), view_as_storage(q)))


def moved(dtype):
    x = parameter(dtype, 5, 3)
    zero = view_as_quantized(builders.constant(np.array(1, dtype.storage.numpy)), dtype)
    y = builders.pad(builders.transpose(builders.concatenate((x, x), 0), (1, 0)), zero, (0, 1), (1, 0))
    total = builders.reduce_axes(scalar_op_named("add"), dequantize(y), (0, 1))
    return Function("f", (x,), (builders.reshape(y, (44,)), total))


@pytest.mark.parametrize("make", [round_trip, moved], ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_programs_taken_apart_compute_the_same(make, dtype):
    function = make(dtype)
    apart = take_apart(function)
    assert not any("quant" in str(x.type) for x in apart.plain.nodes())
    generator = np.random.default_rng(2)
    if make is moved:
        array = generator.integers(0, 100, (5, 3)).astype(dtype.storage.numpy)
    else:
        array = (generator.standard_normal((5, 3)) * 10).astype(dtype.expressed.numpy)
    expected = evaluate(function, [array])
    for found, again, want in zip(
            evaluate(apart.plain, [array]), evaluate(apart.restored(apart.plain), [array]), expected, strict=True):
        assert found.dtype == again.dtype == want.dtype
        assert np.array_equal(found, want) and np.array_equal(again, want)


@pytest.mark.parametrize("make", [round_trip, moved], ids=lambda f: f.__name__)
def test_text_reads_back(make):
    program = Program({"f": make(DTYPES[0])})
    assert write(parse(write(program))) == write(program)
    assert parse(write(program)).main.results == program.main.results


def test_arithmetic_is_refused():
    x = parameter(DTYPES[0], 4)
    with pytest.raises(TypeMismatch, match="dequantize it"):
        builders.map_scalar(scalar_op_named("add"), x, x)
    with pytest.raises(TypeMismatch, match="dequantize it"):
        builders.reduce_axes(scalar_op_named("maximum"), x, (0,))


def test_axes_with_scales_do_not_move():
    x = builders.parameter("x", 0, TensorType(PER_AXIS, (2, 3)))
    with pytest.raises(TypeMismatch, match="take view_as_storage of it"):
        builders.transpose(x, (1, 0))


def test_types_that_do_not_fit():
    with pytest.raises(ShapeMismatch, match="size 3 along axis 1"):
        quantize(parameter(F32, 2, 4), PER_AXIS)
    with pytest.raises(TypeMismatch, match="requires that axis"):
        quantize(parameter(F32, 3), PER_AXIS)
    with pytest.raises(TypeMismatch, match="requires dtype f32, got f64"):
        quantize(parameter(F64, 3), DTYPES[0])
    with pytest.raises(TypeMismatch, match="requires a quantised dtype, got f32"):
        dequantize(parameter(F32, 3))
    with pytest.raises(TypeMismatch, match="requires dtype i8, got i16"):
        view_as_quantized(parameter(I16, 3), DTYPES[0])

"""Compiled programs over complex and quantised values."""

import numpy as np
import pytest

import tcp_eqsat as tcp
from tcp_eqsat.lang.dims import symbol
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.ops.quantization import dequantize, quantize
from tcp_eqsat.lang.program import Function
from tcp_eqsat.lang.quantized import quantized
from tcp_eqsat.lang.scalar import scalar_op_named
from tcp_eqsat.lang.types import C64, C128, F32, I8, TensorType

B = symbol("b")


def elementwise(name, *operands):
    return builders.map_scalar(scalar_op_named(name), *operands)


def random_complex(shape, dtype, seed=0):
    pair = np.random.default_rng(seed).standard_normal((*shape, 2)).astype(dtype.part.numpy)
    return np.ascontiguousarray(pair).view(dtype.numpy)[..., 0]


def product(dtype):
    x = builders.parameter("x", 0, TensorType(dtype, (B, 3)))
    y = builders.parameter("y", 1, TensorType(dtype, (3, 4)))
    z = builders.contract(x, y, (0, 2), (2, 1), (B, 4, 3), 2)
    total = builders.reduce_axes(scalar_op_named("add"), z, (0,))
    return Function("product", (x, y), (elementwise("exp", z), elementwise("abs", z), total))


@pytest.mark.parametrize("rows", [0, 1, 7])
@pytest.mark.parametrize("dtype", [C64, C128], ids=str)
def test_complex_products(dtype, rows):
    function = product(dtype)
    compiled = tcp.compile(function)
    arrays = random_complex((rows, 3), dtype, 1), random_complex((3, 4), dtype, 2)
    for found, want in zip(compiled(*arrays), tcp.reference(function)(*arrays), strict=True):
        assert found.dtype == want.dtype and found.shape == want.shape
        np.testing.assert_allclose(found, want, rtol=64 * np.finfo(dtype.numpy).eps)


def test_frozen_complex_parameters_and_out():
    function = product(C64)
    x, y = random_complex((5, 3), C64, 1), random_complex((3, 4), C64, 2)
    compiled = tcp.compile(function, constants={"y": y})
    out = (np.empty((5, 4), np.complex64), np.empty((5, 4), np.float32), np.empty(4, np.complex64))
    assert compiled(x, out=out)[0] is out[0]
    for found, want in zip(out, tcp.reference(function)(x, y), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-4)


def test_the_optimised_program_has_the_same_types():
    optimized = tcp.optimize(product(C64))
    assert str(optimized.function) == str(product(C64))
    again = tcp.parse(tcp.write(optimized.program))
    arrays = random_complex((4, 3), C64, 1), random_complex((3, 4), C64, 2)
    for found, want in zip(tcp.reference(again)(*arrays), tcp.reference(product(C64))(*arrays), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-4)


def test_strided_complex_arguments():
    x = builders.parameter("x", 0, TensorType(C64, (B,)))
    compiled = tcp.compile(Function("f", (x,), (elementwise("conj", x),)))
    array = random_complex((20,), C64)
    assert np.array_equal(compiled(array[::-3]), np.conj(array[::-3]))


QUANTIZED = (quantized(I8, F32, 0.1, 3), quantized(I8, F32, [0.5, 0.25, 2.0], [0, 1, -2], axis=1))


@pytest.mark.parametrize("dtype", QUANTIZED, ids=str)
def test_quantised_addition(dtype):
    x = builders.parameter("x", 0, TensorType(dtype, (B, 3)))
    y = builders.parameter("y", 1, TensorType(dtype, (B, 3)))
    total = quantize(elementwise("add", dequantize(x), dequantize(y)), dtype)
    function = Function("add", (x, y), (total,))
    compiled = tcp.compile(function)
    assert compiled.report.kernels == 1
    arrays = np.random.default_rng(0).integers(-128, 128, (2, 50, 3)).astype(np.int8)
    found = compiled(*arrays)
    assert found.dtype == np.int8
    assert np.array_equal(found, tcp.reference(function)(*arrays))

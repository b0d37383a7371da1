"""Complex values: what operations give on them, and programs without them that compute the same."""

import itertools

import numpy as np
import pytest

import tcp_eqsat as tcp
from tcp_eqsat.errors import TypeMismatch
from tcp_eqsat.frontends import array_api as xp
from tcp_eqsat.lang.apart import take_apart
from tcp_eqsat.lang.complex_functions import function_parts
from tcp_eqsat.lang.dims import symbol
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.ops.complex_views import view_as_complex, view_as_real
from tcp_eqsat.lang.ops.elementwise import scalar_vjp
from tcp_eqsat.lang.program import Function, Node
from tcp_eqsat.lang.reference import evaluate
from tcp_eqsat.lang.scalar import COMPLEX_FORMS, NOT_DIFFERENTIABLE, evaluate_op, function_of, scalar_op_named
from tcp_eqsat.lang.types import BOOL, C64, C128, F32, F64, TensorType

PARTS = (0.0, -0.0, 1.0, -1.5, 0.3, 2.0**-40, 2.0**30, -7.0)
NUMBERS = np.array([complex(a, b) for a, b in itertools.product(PARTS, PARTS)])
SPECIAL = np.array([complex(a, b) for a, b in itertools.product((np.inf, -np.inf, np.nan, 0.0, 1.0), repeat=2)])


def operands_of(name, dtype, numbers):
    """All pairs of the numbers, as operands of an operation."""
    op = scalar_op_named(name)
    x, y = (np.ascontiguousarray(each.ravel()).astype(dtype.numpy) for each in np.meshgrid(numbers, numbers))
    if op.arity == 3:
        return op, (BOOL, dtype, dtype), (x.real > y.real, x, y)
    return op, (dtype,) * op.arity, (x, y)[:op.arity]


def by_parts(op, dtypes, arrays):
    flat = [part for x in arrays for part in ((x.real, x.imag) if x.dtype.kind == "c" else (x,))]
    parts = [f.evaluate(*flat) for f in function_parts(function_of(op, *dtypes))]
    return parts[0] if len(parts) == 1 else parts


def error(found, expected):
    """The largest distance relative to the expected number's size."""
    size = np.abs(expected)
    return np.max(np.abs(found - expected) / np.where(size == 0, 1, size))


ALGEBRAIC = ("add", "subtract", "multiply", "divide", "square", "negative", "abs", "sign", "maximum", "minimum",
             "equal", "not_equal", "isnan", "isinf", "isfinite", "where", "real", "imag", "conj", "astype_c64",
             "astype_c128", "astype_f32", "astype_i32", "astype_bool")


@pytest.mark.parametrize("dtype", [C64, C128], ids=str)
@pytest.mark.parametrize("name", ALGEBRAIC)
def test_parts_equal_the_reference(name, dtype):
    numbers = NUMBERS[np.abs(NUMBERS) > 0] if name == "divide" else NUMBERS
    op, dtypes, arrays = operands_of(name, dtype, numbers)
    result = op.result_dtype(*dtypes)
    expected = evaluate_op(op, result, *arrays)
    assert expected.dtype == result.numpy
    parts = by_parts(op, dtypes, arrays)
    if result.is_complex:
        found = parts[0].astype(np.float64) + 1j * parts[1].astype(np.float64)
        assert error(found, expected) <= 8 * np.finfo(result.numpy).eps
    elif result.is_float:
        assert error(parts, expected) <= 4 * np.finfo(result.numpy).eps
    else:
        assert np.array_equal(parts, expected)


ELEMENTARY = ("exp", "expm1", "log", "log1p", "log2", "log10", "logistic", "sqrt", "rsqrt", "sinh", "cosh", "tanh",
              "sin", "cos", "tan", "asin", "acos", "atan", "asinh", "acosh", "atanh")


@pytest.mark.parametrize("scale", [1, 30, 1e-3, 1e5, 1e30, 1e-30])
@pytest.mark.parametrize("dtype", [C64, C128], ids=str)
@pytest.mark.parametrize("name", ELEMENTARY)
def test_elementary_functions(name, dtype, scale):
    """Each part within 4 ULP; of expm1 and logistic, whose parts may cancel, 4 ULP of the whole number."""
    generator = np.random.default_rng(3)
    x = (generator.standard_normal((500, 2)) * scale).astype(dtype.part.numpy).view(dtype.numpy)[:, 0]
    op = scalar_op_named(name)
    expected = evaluate_op(op, dtype, x)
    with np.errstate(all="ignore"):
        found = by_parts(op, (dtype,), (x,))
        for part, want in zip(found, (expected.real, expected.imag), strict=True):
            size = np.abs(expected) if name in ("expm1", "logistic") else np.abs(want)
            wrong = (part != want) & ~(np.isnan(part) & np.isnan(want))
            assert np.all(np.abs(part[wrong] - want[wrong]) <= 4 * np.spacing(size[wrong]))


def test_the_error_of_pow_grows_with_its_exponent():
    generator = np.random.default_rng(4)
    z, w = (generator.standard_normal((500, 2)).view(np.complex128)[:, 0] for _ in range(2))
    expected = evaluate_op(scalar_op_named("pow"), C128, z, w)
    real, imag = by_parts(scalar_op_named("pow"), (C128, C128), (z, w))
    bound = np.finfo(np.float64).eps * (4 + 2 * np.abs(w * np.log(z)))
    assert np.all(np.abs(real + 1j * imag - expected) <= bound * np.abs(expected))


BRANCH_CUTS = {"log": -2.0, "sqrt": -2.0, "asin": 2.0, "acos": -3.0, "atanh": 1.5, "acosh": 0.5, "log1p": -3.0}


@pytest.mark.parametrize("name", BRANCH_CUTS)
def test_the_sign_of_zero_chooses_the_side_of_a_branch_cut(name):
    x = np.array([complex(BRANCH_CUTS[name], 0.0), complex(BRANCH_CUTS[name], -0.0)])
    op = scalar_op_named(name)
    expected = evaluate_op(op, C128, x)
    real, imag = by_parts(op, (C128,), (x,))
    assert expected[0] == np.conj(expected[1]) != expected[1]
    np.testing.assert_allclose(real + 1j * imag, expected, rtol=1e-15)


@pytest.mark.parametrize("name", ["add", "maximum", "minimum", "equal", "isnan", "isinf", "isfinite", "conj", "abs"])
def test_special_values(name):
    op, dtypes, arrays = operands_of(name, C128, SPECIAL)
    result = op.result_dtype(*dtypes)
    expected = evaluate_op(op, result, *arrays)
    parts = by_parts(op, dtypes, arrays)
    if result.is_complex:
        assert np.array_equal(np.isnan(expected), np.isnan(parts[0]) | np.isnan(parts[1]))
        inside = ~np.isnan(expected)
        assert np.array_equal(parts[0][inside], expected.real[inside])
        assert np.array_equal(parts[1][inside], expected.imag[inside])
    else:
        assert np.array_equal(parts, expected, equal_nan=True)


def test_every_form_has_an_operation():
    assert all(scalar_op_named(name) for name in COMPLEX_FORMS)


def test_operations_without_a_form_refuse_complex_numbers():
    with pytest.raises(TypeMismatch, match="floor requires real numbers, got c64"):
        scalar_op_named("floor").result_dtype(C64)
    with pytest.raises(TypeMismatch, match="requires a complex dtype, got f32"):
        scalar_op_named("real").result_dtype(F32)
    with pytest.raises(TypeMismatch, match="f32 or f64"):
        scalar_op_named("complex").result_dtype(F32, F64)


def unary(name, x):
    return builders.map_scalar(scalar_op_named(name), x)


def binary(name, x, y):
    return builders.map_scalar(scalar_op_named(name), x, y)


def parameters(*types):
    return tuple(builders.parameter(f"x{n}", n, t) for n, t in enumerate(types))


def matrix_product():
    x, y = parameters(TensorType(C64, (symbol("b"), 3)), TensorType(C64, (3, 4)))
    z = builders.contract(x, y, (0, 2), (2, 1), (symbol("b"), 4, 3), 2)
    return (x, y), (z, builders.reduce_axes(scalar_op_named("add"), unary("conj", z), (0,)))


def movement():
    x, y = parameters(TensorType(C128, (4, 3)), TensorType(F64, (4, 3)))
    z = binary("complex", y, unary("imag", x))
    moved = builders.concatenate((builders.transpose(x, (1, 0)), builders.transpose(z, (1, 0))), 0)
    padded = builders.pad(moved, builders.scalar_constant(2 - 1j, C128), (1, 0), (0, 2))
    return (x, y), (builders.slice_(padded, (0, 0), (7, 6), (2, 1)), builders.reshape(moved, (2, 12)))


def views():
    (x,) = parameters(TensorType(F32, (5, 2)))
    z = view_as_complex(x)
    return (x,), (view_as_real(binary("multiply", z, z)), z)


def ramp_and_constant():
    (x,) = parameters(TensorType(C64, (3,)))
    ramp = builders.iota(C64, (3,), 0)
    constant = builders.constant(np.array([1 + 2j, -0.0, 3j], np.complex64))
    return (x,), (binary("add", binary("multiply", x, ramp), constant),)


def real_numbers_of_complex_ones():
    (x,) = parameters(TensorType(C64, (3, 3)))
    real, imag = unary("real", x), unary("imag", x)
    greatest = builders.reduce_axes(scalar_op_named("maximum"), unary("abs", x), (0,))
    return (x,), (greatest, builders.contract(real, imag, (0, 2), (2, 1), (3, 3, 3), 2))


@pytest.mark.parametrize("make", [
    matrix_product, movement, views, ramp_and_constant, real_numbers_of_complex_ones], ids=lambda f: f.__name__)
def test_programs_taken_apart_compute_the_same(make):
    inputs, results = make()
    function = Function(make.__name__, inputs, results)
    apart = take_apart(function)
    assert not any(x.dtype.is_complex for x in apart.plain.nodes() if isinstance(x, Node))
    generator = np.random.default_rng(1)

    def random(type_):
        shape = tuple(5 if not isinstance(s, int) else s for s in type_.shape)
        real = generator.standard_normal((*shape, 2 if type_.dtype.is_complex else 1))
        return (real[..., 0] + (1j * real[..., 1] if type_.dtype.is_complex else 0)).astype(type_.dtype.numpy)

    arrays = [random(x.tensor_type) for x in inputs]
    memory = [x.view(x.real.dtype).reshape(*x.shape, 2) if x.dtype.kind == "c" else x for x in arrays]
    expected = evaluate(function, arrays)
    for found, want, again in zip(
            evaluate(apart.plain, memory), expected, evaluate(apart.restored(apart.plain), arrays), strict=True):
        seen = np.ascontiguousarray(found).view(want.dtype).reshape(want.shape) if want.dtype.kind == "c" else found
        np.testing.assert_allclose(seen, want, rtol=1e-5)
        np.testing.assert_allclose(again, want, rtol=1e-5)


DIFFERENTIABLE = sorted(
    name for name in COMPLEX_FORMS if scalar_op_named(name).derivative is not NOT_DIFFERENTIABLE
    and (not name.startswith("astype_") or name in ("astype_f64", "astype_c128")))


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_cotangents_of_complex_operands(name):
    """Re(g dw) = sum of Re(cotangent dz), by central differences along random directions."""
    op = scalar_op_named(name)
    random = np.random.default_rng(3)

    def numbers():
        return random.standard_normal(20) + 1j * random.standard_normal(20)

    dtypes = (C128,) * op.arity if op.arity < 3 else (BOOL, C128, C128)
    arrays = [numbers() if dtype == C128 else numbers().real > 0 for dtype in dtypes]
    directions = [numbers() if dtype == C128 else False for dtype in dtypes]
    result = op.result_dtype(*dtypes)
    g = numbers() if result.is_complex else numbers().real
    ahead, behind = (evaluate_op(op, result, *(
        x + sign * 1e-6 * d if x.dtype != bool else x for x, d in zip(arrays, directions, strict=True)))
        for sign in (1, -1))
    moved = (g * (ahead - behind) / 2e-6).real
    cotangents = [None if f is None else f.evaluate(g, *arrays) for f in scalar_vjp(function_of(op, *dtypes))]
    found = sum((c * d).real for c, d in zip(cotangents, directions, strict=True) if c is not None)
    np.testing.assert_allclose(found, moved, rtol=1e-4, atol=1e-6)


def test_second_derivative_of_the_absolute_value():
    """d2|x + iy| / dx2 is y2 / |x + iy|^3, and 0 at 0."""
    def length(x, y):
        return xp.sum(xp.abs(xp.complex(x, y)))

    def curvature(x, y):
        return tcp.grad(lambda x: xp.sum(tcp.grad(lambda x: length(x, y))(x)))(x)

    def pushed(x, y):
        return tcp.jvp(tcp.grad(lambda x: length(x, y)))((x,), (np.ones(3),))[1]

    x, y = np.array([3.0, 0.5, 0.0]), np.array([4.0, -1.2, 0.0])
    expected = [16 / 125, 1.44 / 1.3**3, 0]
    for function in (curvature, pushed):
        found = tcp.reference(tcp.trace(function, "f64[3]", "f64[3]"))(x, y)
        np.testing.assert_allclose(found, expected, rtol=1e-12)

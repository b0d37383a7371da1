"""Programs from Python functions: what the same function does to NumPy arrays, and clear refusals."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tcp_eqsat.errors import ArgumentError, ParseError, ShapeMismatch, TcpError, TypeMismatch, UnknownName
from tcp_eqsat.frontends import array_api as xp
from tcp_eqsat.frontends import neural as nn
from tcp_eqsat.frontends.traced import Traced, assuming, common_dtype, elementwise
from tcp_eqsat.frontends.tracing import spec, spec_types, trace
from tcp_eqsat.lang.dims import symbol
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.reference import evaluate
from tcp_eqsat.lang.scalar import SCALAR_OPS
from tcp_eqsat.lang.types import BOOL, F32, F64, I8, I32, U8, TensorType, dtype_of

RANDOM = np.random.default_rng(0)


def floats(*shape, dtype=np.float64):
    return RANDOM.standard_normal(shape).astype(dtype)


def ints(*shape, dtype=np.int32, low=-9, high=10):
    return RANDOM.integers(low, high, shape).astype(dtype)


def traced(function, *arrays):
    """The function's values on arrays, through a program."""
    types = [TensorType(dtype_of(a.dtype), a.shape) for a in arrays]
    names = [f"x{i}" for i in range(len(arrays))]
    results = evaluate(trace(function, *types, names=names).main, arrays)
    return results[0] if len(results) == 1 else results


def agrees(function, *arrays, expected=None):
    """The program computes what NumPy does with the same code (or `expected`), with the same dtype and shape."""
    found = traced(function, *arrays)
    with np.errstate(all="ignore"):
        wanted = np.asarray((function if expected is None else expected)(*arrays))
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-12)


X, Y, V = floats(3, 4), floats(3, 4), floats(4)
N, M = ints(3, 4), ints(3, 4, low=1)
P, Q = N > 0, M > 4

# Operators


@pytest.mark.parametrize("function", [
    lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, lambda x, y: x / y, lambda x, y: -x + abs(y) - (+x),
    lambda x, y: x < y, lambda x, y: x <= y, lambda x, y: x > y, lambda x, y: x >= y, lambda x, y: x == y,
    lambda x, y: x != y, lambda x, y: abs(x) ** y, lambda x, y: x ** 2 + y ** 3, lambda x, y: 2 ** x + 1.5 ** y,
    lambda x, y: 1 - x, lambda x, y: 2 / (x * 2 + 100), lambda x, y: 3 * x + y / 2, lambda x, y: 1 > x * y,  # noqa: SIM300
    lambda x, y: (x + 1).T @ y, lambda x, y: x @ y.T, lambda x, y: x.transpose(1, 0) @ y,
    lambda x, y: x.T.reshape(2, 6),
    lambda x, y: x.reshape((4, -1)) @ y, lambda x, y: x.reshape(-1) @ y.reshape([12]), lambda x, y: (x > 0) | (y > 0),
    lambda x, y: ~(x > y) & (x != 0), lambda x, y: (x > 0) ^ (y > 0), lambda x, y: x.astype("float32"),
    lambda x, y: x.astype(np.int64) * 2, lambda x, y: x[0] * y,
])
def test_operators_on_floats(function):
    agrees(function, X, Y)


@pytest.mark.parametrize("function", [
    lambda n, m: n + m * 3 - 7, lambda n, m: n & m, lambda n, m: n | 5, lambda n, m: 6 ^ n, lambda n, m: ~n,
    lambda n, m: n << 2, lambda n, m: n >> 1, lambda n, m: 1 << m, lambda n, m: n == m, lambda n, m: -n,
    lambda n, m: abs(n), lambda n, m: n ** 2, lambda n, m: n.astype("float64") / 2,
])
def test_operators_on_integers(function):
    agrees(function, N, M)


def test_integer_division_truncates():
    agrees(lambda n, m: n / m, N, M, expected=lambda n, m: np.trunc(n / m).astype(np.int32))


def test_operators_on_bools():
    agrees(lambda p, q: (p & ~q) | (p ^ True), P, Q)


@pytest.mark.parametrize("function", [
    lambda x: np.exp(x), lambda x: np.tanh(x) * V, lambda x: V - x, lambda x: V[:3, None] * x,
    lambda x: np.maximum(x, 0), lambda x: np.float64(2) * x, lambda x: np.absolute(x),
    lambda x: np.power(np.abs(x), 2.5), lambda x: np.matmul(x, X.T), lambda x: X @ x.T, lambda x: np.add(x, 1),
    lambda x: np.isfinite(x), lambda x: np.rint(x),
    lambda x: np.less(x, 0) & np.greater(x, -1), lambda x: np.logical_or(x > 1, x < -1), lambda x: np.sign(x),
    lambda x: np.logical_not(x > 0), lambda x: np.square(x) - np.sqrt(np.abs(x)), lambda x: np.fmod(x, 0.7),
    lambda x: np.expm1(x) + np.log1p(np.abs(x)), lambda x: np.trunc(x) + np.floor(x) - np.ceil(x),
])
def test_numpy_functions_on_traced_tensors(function):
    agrees(function, X)


@pytest.mark.parametrize(("a", "b"), [
    ((3, 4), (4,)), ((3, 1), (4,)), ((3, 1), (1, 4)), ((), (2, 3)), ((2, 1, 4), (3, 1)), ((0, 3), (3,)), ((1,), (0,)),
    ((5, 1, 3, 1), (4, 1, 2)),
])
def test_broadcasting_is_numpys(a, b):
    agrees(lambda x, y: x * 2 + y, floats(*a), floats(*b))
    agrees(lambda x, y: y - x, floats(*a), floats(*b))


@pytest.mark.parametrize(("a", "b"), [
    ((3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)),
    ((2, 3, 4), (2, 4, 5)), ((2, 1, 3, 4), (6, 4, 5)), ((4,), (2, 4, 5)), ((2, 3, 4), (4,)), ((0, 4), (4, 2)),
    ((3, 0), (0, 2)), ((1, 3, 4), (7, 4, 2)),
])
def test_matmul_is_numpys(a, b):
    agrees(lambda x, y: x @ y, floats(*a), floats(*b))


@pytest.mark.parametrize("index", [
    0, -1, (1, 2), (slice(1, 3),), slice(None, None, 2), (slice(None), -1), (..., 1), (None, 0),
    (0, None, slice(1, None)), (slice(-2, None), slice(None, -1)), (slice(5, 2),), (slice(0, 100),), (slice(-100, 2),),
    (Ellipsis,), (None, ..., None),
    (slice(1, None, 3), np.int64(2)), (), (slice(None, None, 5), slice(3, 4)),
])
def test_indexing_is_numpys(index):
    agrees(lambda x: x[index] + 0, X)


def test_iteration_and_length():
    agrees(lambda x: sum(row * i for i, row in enumerate(x)) + len(x), X)


def test_a_number_takes_the_dtype_beside_it():
    single = floats(3, dtype=np.float32)
    for function in (lambda x: x * 0.1 + 1, lambda x: xp.maximum(x, 0), lambda x: xp.where(x > 0, x, 0),
                     lambda x: 2 - x):
        assert traced(function, single).dtype == np.float32
    assert traced(lambda n: n + 1, ints(2, dtype=np.int8)).dtype == np.int8
    assert traced(lambda x: x * np.float64(2), single).dtype == np.float64
    assert traced(lambda x: x + floats(3), single).dtype == np.float64
    assert traced(lambda n, m: n + m, ints(2, dtype=np.int8), ints(2, dtype=np.int64)).dtype == np.int64
    assert common_dtype([F32, F64]) == F64


# The array API


COMPLEX = ("complex", "real", "imag", "conj")
FUNCTIONS = [n for n in SCALAR_OPS if not n.startswith(("astype_", "bitcast_", "reduce_precision_"))]


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n not in COMPLEX])
def test_scalar_operations_are_functions(name):
    function = getattr(xp, name)
    op = SCALAR_OPS[name]
    assert function.__name__ == name and op.doc in function.__doc__
    positive = np.abs(X) + 0.1, np.abs(Y), X
    integers = {"bitwise": (M, M), "popcount": (M,), "count": (M,), "where": (P, X, Y)}
    arrays = integers.get(name.split("_")[0], positive)[: op.arity]
    found = traced(lambda *x: function(*x), *arrays)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found, op.reference(*arrays))
    with pytest.raises(TypeMismatch, match=f"{name} requires {op.arity} operands, got 4"):
        function(1, 2, 3, 4)


DIVISIONS = [(7.0, 2.0), (-7.0, 2.0), (7.0, -2.0), (-7.5, -2.0), (0.0, 3.0), (-0.0, 3.0), (1.0, 0.0), (-1.0, 0.0),
             (0.0, 0.0), (np.inf, 2.0), (1.0, np.inf), (-1.0, np.inf), (np.nan, 1.0), (1.0, np.nan), (6.0, -3.0)]


def test_floored_division_is_numpys():
    x, y = np.array(DIVISIONS).T
    for function, operation in ((xp.floor_divide, np.floor_divide), (xp.remainder, np.remainder)):
        with np.errstate(all="ignore"):
            expected = operation(x, y)
        for found in (traced(function, x, y), traced(lambda a, b, f=operation: f(a, b), x, y)):
            np.testing.assert_array_equal(found, expected)
            ordered = ~np.isnan(expected)
            np.testing.assert_array_equal(np.signbit(found)[ordered], np.signbit(expected)[ordered])
        for dtype in (np.int8, np.uint16, np.int64):
            n = np.array([7, 5, 127, 0, 1, *([-7, -128, -1] if dtype != np.uint16 else [])]).astype(dtype)
            d = np.roll(np.where(n == 0, 3, n), 1)
            np.testing.assert_array_equal(traced(function, n, d), operation(n, d))
    assert traced(lambda n: n // 0, ints(2)).tolist() == [-1, -1]
    np.testing.assert_array_equal(traced(lambda n: 7 % n, ints(2) * 0 + 4), [3, 3])


def test_compositions():
    x = np.array([1.0, 1000.0, -np.inf, np.inf, 0.5])
    y = np.array([2.0, 1000.0, -np.inf, np.inf, -np.inf])
    np.testing.assert_allclose(traced(xp.logaddexp, x, y), np.logaddexp(x, y), rtol=1e-15)
    agrees(xp.reciprocal, Y, expected=lambda y: 1 / y)
    agrees(xp.positive, X, expected=lambda x: x)
    agrees(lambda x: xp.reduce_precision(x, 5, 10), np.array([1 + 2.0**-11, 7e4], np.float32),
           expected=lambda x: np.array([1.0, np.inf], np.float32))
    agrees(lambda x: xp.bitcast(x, "i32"), np.array([1.5, -0.0], np.float32),
           expected=lambda x: x.view(np.int32))
    for name in ("floor", "round", "isnan", "isinf", "isfinite"):
        found = traced(getattr(xp, name), N)
        np.testing.assert_array_equal(found, getattr(np, name)(N))
    for function, ufunc in ((xp.atan2, np.arctan2), (xp.hypot, np.hypot), (xp.nextafter, np.nextafter)):
        np.testing.assert_array_equal(traced(lambda a, b, f=ufunc: f(a, b), X, X), traced(function, X, X))
    with pytest.raises(TypeMismatch, match="reciprocal requires a floating-point dtype, got i32"):
        traced(xp.reciprocal, N)
    with pytest.raises(TypeMismatch, match="negative requires numbers, got bool"):
        traced(xp.positive, P)
    with pytest.raises(UnknownName, match="reduce_precision_e0m3"):
        traced(lambda x: xp.reduce_precision(x, 0, 3), X)


@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 1), (1, 0), ()])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions_are_numpys(axis, keepdims):
    for name in ("sum", "prod", "max", "min", "mean"):
        agrees(lambda x, name=name: getattr(xp, name)(x, axis, keepdims=keepdims), X,
               expected=lambda x, name=name: getattr(np, name)(x, axis=axis, keepdims=keepdims))
    for name in ("any", "all"):
        agrees(lambda x, name=name: getattr(xp, name)(x, axis, keepdims), P,
               expected=lambda x, name=name: getattr(np, name)(x, axis=axis, keepdims=keepdims))
    agrees(lambda x: xp.max(x, np.int64(-1)), X, expected=lambda x: x.max(-1))
    if axis != ():
        agrees(lambda x: xp.var(x, axis, 1, keepdims), X,
               expected=lambda x: np.var(x, axis=axis, ddof=1, keepdims=keepdims))


def test_reductions_of_integers_keep_their_dtype():
    for name in ("sum", "prod", "max", "min"):
        assert traced(getattr(xp, name), N).dtype == np.int32
    agrees(lambda n: xp.any(n, 0), N, expected=lambda n: np.any(n, 0))


@pytest.mark.parametrize(("function", "expected"), [
    (lambda x: xp.permute_dims(x, (2, 0, 1)), lambda x: x.transpose(2, 0, 1)),
    (xp.matrix_transpose, lambda x: x.swapaxes(-1, -2)),
    (lambda x: xp.moveaxis(x, 0, -1), lambda x: np.moveaxis(x, 0, -1)),
    (lambda x: xp.moveaxis(x, 2, 0), lambda x: np.moveaxis(x, 2, 0)),
    (lambda x: xp.broadcast_to(x, (5, 2, 3, 4)), lambda x: np.broadcast_to(x, (5, 2, 3, 4))),
    (lambda x: xp.broadcast_to(x[:, :1], [2, 6, 4]), lambda x: np.broadcast_to(x[:, :1], (2, 6, 4))),
    (lambda x: xp.expand_dims(x, 1), lambda x: x[:, None]),
    (lambda x: xp.expand_dims(x, -1), lambda x: x[..., None]),
    (lambda x: xp.squeeze(x[:, 1:2, 3:], (1, 2)), lambda x: x[:, 1, 3]),
    (lambda x: xp.squeeze(x[:1], 0), lambda x: x[0]),
    (lambda x: xp.concat([x, x * 2], 1), lambda x: np.concatenate([x, x * 2], 1)),
    (lambda x: xp.concat([x], -1), lambda x: x),
    (lambda x: xp.stack([x, -x], 1), lambda x: np.stack([x, -x], 1)),
    (lambda x: xp.stack([x, -x, x], -1), lambda x: np.stack([x, -x, x], -1)),
    (lambda x: xp.stack(xp.split(x, 2, 2)), lambda x: np.stack(np.split(x, 2, 2))),
    (lambda x: xp.pad(x, [(0, 1), (2, 0), (1, 1)], 7),
     lambda x: np.pad(x, [(0, 1), (2, 0), (1, 1)], constant_values=7)),
    (lambda x: xp.reshape(x, (-1, 6)), lambda x: x.reshape(-1, 6)),
    (lambda x: xp.reshape(x, 24), lambda x: x.reshape(24)),
    (lambda x: xp.clip(x, -0.5, 0.5), lambda x: np.clip(x, -0.5, 0.5)),
    (lambda x: xp.astype(x, "f32"), lambda x: x.astype(np.float32)),
    (lambda x: xp.zeros_like(x) + 2 * xp.ones_like(x) + xp.full_like(x, 3), lambda x: np.full_like(x, 5)),
    (lambda x: x + xp.arange(4, "f64"), lambda x: x + np.arange(4.0)),
    (lambda x: x @ xp.eye(4, "f64"), lambda x: x),
    (lambda x: xp.sum(x * xp.full((2, 3, 4), 0.5, "f64")), lambda x: x.sum() / 2),
    (lambda x: xp.tensordot(x, x, 3), lambda x: np.tensordot(x, x, 3)),
    (lambda x: xp.tensordot(x, x, ((0, 2), (0, 2))), lambda x: np.tensordot(x, x, ((0, 2), (0, 2)))),
    (lambda x: xp.tensordot(x[0], x[1], 0), lambda x: np.tensordot(x[0], x[1], 0)),
    (lambda x: xp.vecdot(x, x[0, 0]), lambda x: x @ x[0, 0]),
    (lambda x: xp.einsum("abc,abd->acd", x, x), lambda x: np.einsum("abc,abd->acd", x, x)),
    (lambda x: xp.einsum("abc, cb -> a", x, x[0].T), lambda x: np.einsum("abc,cb->a", x, x[0].T)),
    (lambda x: xp.einsum("abc->ca", x), lambda x: np.einsum("abc->ca", x)),
    (lambda x: xp.einsum("abc->", x), lambda x: x.sum()),
    (lambda x: xp.einsum("abc->bca", x), lambda x: x.transpose(1, 2, 0)),
    (lambda x: xp.logical_xor(x > 0, x > 1) | xp.logical_and(x > 2, True), lambda x: ((x > 0) ^ (x > 1)) | (x > 2)),
    (lambda x: xp.where(xp.logical_not(x > 0), xp.asarray(np.float64(1.5)), x), lambda x: np.where(x > 0, x, 1.5)),
    (lambda x: x * xp.e + xp.pi, lambda x: x * math.e + math.pi),
])
def test_array_functions(function, expected):
    agrees(function, floats(2, 3, 4), expected=expected)


def test_creation_dtypes():
    found = traced(lambda x: (xp.zeros((2,)), xp.ones(3, "i8"), xp.full((), 7, "u8"), xp.eye(2), xp.arange(3),
                              xp.asarray([1, 2]), xp.asarray(2.5), xp.asarray(True, "i32")), X)
    assert [(str(a.dtype), a.shape) for a in found] == [
        ("float32", (2,)), ("int8", (3,)), ("uint8", ()), ("float32", (2, 2)), ("int64", (3,)), ("int64", (2,)),
        ("float64", ()), ("int32", ())]


# Networks


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def normalised(x, axis, epsilon):
    return (x - x.mean(axis, keepdims=True)) / np.sqrt(x.var(axis, keepdims=True) + epsilon)


ERF = np.vectorize(math.erf)
Z, W = floats(2, 6, 5), floats(6)
HEADS = floats(3, 2, 4, 8)


@pytest.mark.parametrize(("function", "expected"), [
    (nn.relu, lambda x: np.maximum(x, 0)),
    (nn.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
    (nn.silu, lambda x: x / (1 + np.exp(-x))),
    (nn.gelu, lambda x: x * 0.5 * (1 + ERF(x / math.sqrt(2)))),
    (lambda x: nn.gelu(x, approximate=True),
     lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))),
    (nn.softmax, softmax),
    (lambda x: nn.softmax(x, 1), lambda x: softmax(x, 1)),
    (nn.log_softmax, lambda x: np.log(softmax(x))),
    (nn.layer_norm, lambda x: normalised(x, -1, 1e-5)),
    (lambda x: nn.layer_norm(x, axis=(1, 2), epsilon=0.1), lambda x: normalised(x, (1, 2), 0.1)),
    (lambda x: nn.layer_norm(x, np.arange(5.0), np.ones(5)), lambda x: normalised(x, -1, 1e-5) * np.arange(5.0) + 1),
    (lambda x: nn.rms_norm(x, np.arange(5.0)),
     lambda x: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * np.arange(5.0)),
    (lambda x: nn.group_norm(x, 3, W, W * 2),
     lambda x: normalised(x.reshape(2, 3, 10), -1, 1e-5).reshape(x.shape) * W[:, None] + 2 * W[:, None]),
    (lambda x: nn.group_norm(x, 6), lambda x: normalised(x, -1, 1e-5)),
])
def test_networks(function, expected):
    agrees(function, Z, expected=expected)


@pytest.mark.parametrize("masked", [False, True])
def test_attention(masked):
    q, k, v = HEADS
    mask = np.triu(np.full((4, 4), -1e9), 1) if masked else None
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(8)
    expected = softmax(scores if mask is None else scores + mask) @ v
    np.testing.assert_allclose(traced(lambda q, k, v: nn.attention(q, k, v, mask), q, k, v), expected, rtol=1e-6)


def test_softmax_does_not_overflow():
    agrees(nn.softmax, np.array([1000.0, 999.0, -1000.0]), expected=softmax)


# Symbolic sizes


def run(function, specs, arrays):
    return evaluate(trace(function, *specs).main, arrays)


def test_one_trace_serves_all_sizes():
    program = trace(lambda x, w: xp.mean(nn.softmax(x @ w), 0), spec("f64[b, 3]"), spec("f64[3, n]", n=(1, 9))).main
    assert str(program) == "main(x: f64[b, 3], w: f64[3, n]) -> f64[n]"
    for b, n in itertools.product((1, 2, 5), (1, 4, 9)):
        x, w = floats(b, 3), floats(3, n)
        np.testing.assert_allclose(evaluate(program, (x, w))[0], softmax(x @ w).mean(0))


@pytest.mark.parametrize(("function", "expected"), [
    (lambda x: xp.mean(x, 0), lambda x: x.mean(0)),
    (lambda x: xp.var(x), lambda x: x.var()),
    (lambda x: x[x.shape[0] - 1], lambda x: x[-1]),
    (lambda x: x[-1] + x[0], lambda x: x[-1] + x[0]),
    (lambda x: x[:-1] - x[1:], lambda x: x[:-1] - x[1:]),
    (lambda x: x[::2] * 2, lambda x: x[::2] * 2),
    (lambda x: x[x.shape[0] // 2:], lambda x: x[len(x) // 2:]),
    (lambda x: x.reshape(-1), lambda x: x.reshape(-1)),
    (lambda x: x.reshape(x.shape[0] * 3) * 2, lambda x: x.reshape(-1) * 2),
    (lambda x: x.reshape((x.shape[0], 3, 1)), lambda x: x[..., None]),
    (lambda x: xp.concat([x, x[:1]]), lambda x: np.concatenate([x, x[:1]])),
    (lambda x: xp.pad(x, [(x.shape[0], 1), (0, 0)]), lambda x: np.pad(x, [(len(x), 1), (0, 0)])),
    (lambda x: x + xp.arange(x.shape[0], "f64")[:, None], lambda x: x + np.arange(len(x))[:, None]),
    (lambda x: xp.size_value(x.shape[0] * 3, "f64") * x, lambda x: x.size * x),
    (lambda x: x.T @ x / xp.size_value(x.shape[0], "f64"), lambda x: x.T @ x / len(x)),
    (lambda x: xp.broadcast_to(x[0], x.shape) + x, lambda x: x[0] + x),
])
def test_symbolic_sizes(function, expected):
    for n in (1, 2, 3, 8):
        x = floats(n, 3)
        (found,) = run(function, [spec("f64[b, 3]", b=(1, 512))], (x,))
        assert found.shape == expected(x).shape
        np.testing.assert_allclose(found, expected(x))


def test_an_oracle_may_say_that_sizes_agree():
    asked = []

    def oracle(a, b):
        asked.append((str(a), str(b)))
        return False

    with assuming(oracle), pytest.raises(ShapeMismatch):
        trace(lambda x, y: x + y, spec("f32[a]"), spec("f32[b]"))
    assert asked == [("b", "a")]


# Refusals

S = spec("f32[b, 3]")


@pytest.mark.parametrize(("function", "specs", "error", "message"), [
    (lambda x: x if x > 0 else -x, ["f32[]"], TypeMismatch, "no truth value: use tcp.cond"),
    (lambda x: x and x, ["f32[2]"], TypeMismatch, "use & | ~|no truth value"),
    (lambda x: 1 if 0 < x < 2 else 0, ["f32[]"], TypeMismatch, "no truth value"),
    (lambda x, y: x + y, ["f32[2]", "i32[2]"], TypeMismatch, "dtypes f32, i32 don't mix: convert with astype"),
    (lambda x, y: x @ y, ["f32[2, 2]", "i32[2, 2]"], TypeMismatch, "don't mix"),
    (lambda x, y: x + y, ["i32[2]", "u32[2]"], TypeMismatch, "don't mix"),
    (lambda n: n * 0.5, ["i32[2]"], TypeMismatch, "the number 0.5 does not fit dtype i32"),
    (lambda n: n + 300, ["u8[2]"], TypeMismatch, "must be in 0..255, got 300"),
    (lambda n: xp.exp(n), ["i32[2]"], TypeMismatch, "exp requires a floating-point dtype, got i32"),
    (lambda x: x & x, ["f32[2]"], TypeMismatch, "bitwise_and requires integers or bool, got f32"),
    (lambda x: xp.logical_and(x, x), ["i32[2]"], TypeMismatch, "logical_and requires operands of dtype bool, got i32"),
    (lambda x: np.logical_not(x), ["f32[2]"], TypeMismatch, "logical_not requires operands of dtype bool, got f32"),
    (lambda x: xp.where(x, x, x), ["f32[2]"], TypeMismatch, "where requires a condition of dtype bool, got f32"),
    (lambda x: xp.mean(x), ["i32[2]"], TypeMismatch, "mean requires a floating-point dtype, got i32"),
    (lambda x: xp.sum(x > 0), ["f32[2]"], TypeMismatch, "add requires numbers, got bool"),
    (lambda x, y: x + y, ["f32[2]", "f32[3]"], ShapeMismatch, r"shapes \[2\] and \[3\] don't broadcast"),
    (lambda x, y: x + y, ["f32[a]", "f32[b]"], ShapeMismatch, "a and b are not provably equal"),
    (lambda x: x @ x, ["f32[2, 3]"], ShapeMismatch, "equal contracted extents, got 3 .* and 2"),
    (lambda x: x @ 2.0, ["f32[2]"], TypeMismatch, "matmul requires operands of rank 1 or more"),
    (lambda x: x[2], ["f32[2]"], ShapeMismatch, r"index 2 is not provably within axis 0 of f32\[2\]"),
    (lambda x: x[-3], ["f32[2]"], ShapeMismatch, "index -3 is not provably within"),
    (lambda x: x[0], ["f32[b]"], ShapeMismatch, r"index 0 is not provably within axis 0 of f32\[b\], where b in \[0, "),
    (lambda x: x.sum(), ["f32[2]"], AttributeError, "no attribute 'sum': the functions are in tcp.numpy"),
    (lambda x: float(x), ["f32[]"], TypeMismatch, "no values, which float"),
    (lambda x: int(x), ["f32[]"], TypeMismatch, "no values, which float"),
    (lambda x: x / x.shape[0], ["f32[b]"], TypeMismatch, r"size b is no tensor: tcp.numpy.size_value"),
    (lambda x: xp.add(x, [[1.0], [1.0, 2.0]]), ["f64[2]"], TypeMismatch, "a tensor, array or number is required: "),
    (lambda x: x.transpose((0, 1)), ["f32[2, 3]"], TypeMismatch, r"an axis must be an int, got \(\(0, 1\),\)"),
    (lambda x: xp.permute_dims(x, 0), ["f32[2, 3]"], TypeMismatch, "transpose requires a permutation"),
    (lambda x: xp.sum(x, True), ["f32[2, 3]"], TypeMismatch, "an axis must be an int, got True"),
    (lambda x: x.astype(None), ["f32[2]"], UnknownName, "a dtype is required, got None"),
    (lambda x: xp.pad(x, 1), ["f32[2]"], TypeMismatch, r"a pair \(before, after\) for each axis, got 1"),
    (lambda x: xp.pad(x, (1, 1)), ["f32[2]"], TypeMismatch, r"a pair \(before, after\) for each axis, got \(1, 1\)"),
    (lambda x: xp.einsum(3, x), ["f32[2]"], TypeMismatch, "einsum requires 'a,b->c'"),
    (lambda x: xp.size_value("b", "f32"), ["f32[b]"], TypeMismatch, "must be an int or symbolic, got 'b'"),
    (lambda x: nn.group_norm(x, 2.0), ["f32[2, 6]"], TypeMismatch, "must be an int or symbolic, got 2.0"),
    (lambda x: x[0, 0], ["f32[2]"], TypeMismatch, r"f32\[2\] can't be indexed by 2 items"),
    (lambda x: x[..., ...], ["f32[2]"], TypeMismatch, "can't be indexed"),
    (lambda x: x[::0], ["f32[2]"], TypeMismatch, "int steps other than 0, got 0"),
    (lambda x: x[1.5], ["f32[2]"], TypeMismatch, "must be an int or symbolic, got 1.5"),
    (lambda x: x[x], ["f32[2]"], TypeMismatch, "indices must be of an integer dtype, got f32"),
    (lambda x: x[x > 0], ["i32[2]"], TypeMismatch, "indices must be of an integer dtype, got bool"),
    (lambda x: x[True], ["i32[2]"], TypeMismatch, "must be an int or symbolic, got True"),
    (lambda x: x[x[0]:], ["i32[2]"], TypeMismatch, "must be an int or symbolic"),
    (lambda x: x[:4], ["f32[b]"], ShapeMismatch, "0 <= start <= limit <= b"),
    (lambda x: x.reshape(5), ["f32[2, 3]"], ShapeMismatch, "equal element counts"),
    (lambda x: x.reshape(-1, 4), ["f32[2, 3]"], ShapeMismatch, r"can't infer -1 in \[-1, 4\]"),
    (lambda x: x.reshape(-1, -1), ["f32[2, 3]"], ShapeMismatch, "can't infer -1"),
    (lambda x: x.reshape(0, -1), ["f32[0, 3]"], ShapeMismatch, "can't infer -1"),
    (lambda x: x.reshape(2.0, 3), ["f32[2, 3]"], TypeMismatch, "must be an int or symbolic, got 2.0"),
    (lambda x: x.reshape(-2, -3), ["f32[2, 3]"], ShapeMismatch, "sizes of at least 0"),
    (lambda x: x.transpose(0, 0), ["f32[2, 3]"], TypeMismatch, r"distinct axes in -2..1 are required, got \[0, 0\]"),
    (lambda x: xp.sum(x, 2), ["f32[2, 3]"], TypeMismatch, r"distinct axes in -2..1 are required, got \[2\]"),
    (lambda x: xp.sum(x, (0, -2)), ["f32[2, 3]"], TypeMismatch, "distinct axes"),
    (lambda x: xp.squeeze(x, 0), ["f32[2, 3]"], ShapeMismatch, "squeeze requires size 1 along axis 0"),
    (lambda x: xp.concat([]), ["f32[2]"], TypeMismatch, "concat requires at least one array"),
    (lambda x: xp.concat([x, x[0]]), ["f32[2, 3]"], TypeMismatch, "one dtype and rank"),
    (lambda x: xp.split(x, 2), ["f32[3]"], ShapeMismatch, "a static multiple of 2 along axis 0"),
    (lambda x: xp.split(x, 0), ["f32[3]"], ShapeMismatch, "a static multiple of 0"),
    (lambda x: xp.pad(x, [(1, 1)]), ["f32[2, 3]"], TypeMismatch, "pad requires 2 amounts"),
    (lambda x: xp.pad(x, [(-1, 0)]), ["f32[2]"], ShapeMismatch, "amounts of at least 0"),
    (lambda x: xp.broadcast_to(x, (3,)), ["f32[2]"], ShapeMismatch, "broadcast requires size 1 or 3"),
    (lambda x: xp.broadcast_to(x, ()), ["f32[2]"], ShapeMismatch, "does not broadcast to rank 0"),
    (lambda x: xp.einsum("ij", x), ["f32[2, 3]"], TypeMismatch, "einsum requires 'a,b->c'"),
    (lambda x: xp.einsum("ii->i", x), ["f32[2, 2]"], TypeMismatch, "one distinct letter for each axis"),
    (lambda x: xp.einsum("ij,ji->", x, x), ["f32[2, 3]"], ShapeMismatch, "einsum letter . has sizes"),
    (lambda x: xp.einsum("ij->k", x), ["f32[2, 3]"], TypeMismatch, "einsum result 'k' must have distinct letters"),
    (lambda x: xp.tensordot(x, x, 1), ["f32[2, 3]"], ShapeMismatch, "equal contracted extents"),
    (lambda x: xp.full((2,), "a"), ["f32[2]"], TypeMismatch, "a number is required, got str"),
    (lambda x: xp.full((2,), x), ["f32[2]"], TypeMismatch, "a number is required, got Traced"),
    (lambda x: xp.arange(2.5), ["f32[2]"], TypeMismatch, "must be an int or symbolic"),
    (lambda x: x + "a", ["f32[2]"], TypeMismatch, "a tensor, array or number is required, got str"),
    (lambda x: x + 1j, ["f32[2]"], TypeMismatch, "a tensor, array or number is required, got complex"),
    (lambda x: x.astype("M8[s]"), ["f32[2]"], UnknownName, r"datetime64\[s\] has no counterpart"),
    (lambda x: x + np.zeros(2, np.complex64), ["f32[2]"], TypeMismatch, "dtypes f32, c64 don't mix"),
    (lambda x: np.sum(x), ["f32[2]"], TypeMismatch, "numpy.add can't be traced here"),
    (lambda x: np.heaviside(x, x), ["f32[2]"], TypeMismatch, "numpy.heaviside can't be traced here; tcp.numpy lists"),
    (lambda x: np.fmax(x, x), ["f32[2]"], TypeMismatch, "numpy.fmax can't be traced here"),
    (lambda x: np.concatenate([x, x]), ["f32[2]"], TypeMismatch, "a traced tensor has no values"),
    (lambda x: np.exp(x, out=np.zeros(2)), ["f32[2]"], TypeMismatch, "can't be traced here"),
    (lambda x: len(x), ["f32[]"], TypeMismatch, r"len\(\) requires a static first axis"),
    (lambda x: list(x), [S], TypeMismatch, "iteration requires a static first axis"),
    (lambda x: nn.group_norm(x, 4), ["f32[2, 6]"], ShapeMismatch, "groups that divide 6 channels, got 4"),
    (lambda x: None, ["f32[2]"], TypeMismatch, "must return tensors, got NoneType"),
    (lambda x: {"y": x}, ["f32[2]"], TypeMismatch, "must return tensors, got dict"),
    (lambda x: (x, "a"), ["f32[2]"], TypeMismatch, "must return tensors, got str"),
    (lambda x: x, ["f32[2]", "f32[2]"], ArgumentError, "does not take 2 arguments"),
    (lambda x: x, [], ArgumentError, "does not take 0 arguments"),
    (lambda x: x, ["f32[2"], ParseError, "a tensor type is written like"),
    (lambda x: x, ["f32[2+]"], ParseError, r"^spec 'f32\[2\+\]': size '2\+': expected a number"),
    (lambda x: x, ["f32[1.5]"], ParseError, r"^spec 'f32\[1.5\]': a size has no '.'"),
    (lambda x: x, ["half[2]"], UnknownName, "unknown dtype 'half'"),
    (lambda x: x, ["f32[-1]"], ShapeMismatch, "sizes of at least 0"),
    (lambda x: x, [5], ArgumentError, "a spec is written like"),
    (lambda x, y: x, [spec("f32[b]", b=(1, 2)), spec("f32[b]", b=(1, 3))], ArgumentError, "size b has two ranges"),
    (lambda x: x, [spec("f32[b]", c=(1, 2))], ArgumentError, "size c has a range but no spec mentions it"),
    (lambda x: x, [spec("f32[b]", b=(5, 2))], ShapeMismatch, "no value is left for b"),
    (lambda x: x, [spec("f32[b]", b=(1, 2, 0))], ArgumentError, "divisor of b must be at least 1"),
])
def test_refusals(function, specs, error, message):
    with pytest.raises(error, match=message):
        trace(function, *specs)


@pytest.mark.parametrize("given", [(-1, 4), (0, 2**63)])
def test_ranges_that_no_array_has(given):
    with pytest.raises(ArgumentError, match=r"the range of b must be within 0\.\.2\*\*63 - 1"):
        spec("f32[b]", b=given)


@pytest.mark.parametrize("options", [
    {"name": "two words"}, {"name": 5}, {"names": [""]}, {"names": [1]}, {"names": ["x", "y"]}, {"names": []}])
def test_unusable_names(options):
    with pytest.raises(ArgumentError, match=r"distinct names|must be an identifier"):
        trace(lambda x: x, "f32[2]", **options)


@pytest.mark.parametrize("given", [5, (1,), (1, 2, 3, 4), "12", (1.0, 2.0), [1, 2], (True, 2)])
def test_ranges_of_another_form(given):
    with pytest.raises(ArgumentError, match="the range of b must be"):
        spec("f32[b]", b=given)


def test_every_refusal_is_a_tcp_error():
    for wrong in (lambda x: x.reshape(None), lambda x: xp.sum(x, "a"), lambda x: xp.permute_dims(x, (0, 1, 2)),
                  lambda x: xp.expand_dims(x, 7), lambda x: xp.stack([x, x[0]]), lambda x: xp.einsum("ij,jk->ik", x),
                  lambda x: xp.matrix_transpose(x[0]), lambda x: xp.moveaxis(x, 0, 5), lambda x: xp.zeros((-1,)),
                  lambda x: xp.astype(x, "nonsense"), lambda x: xp.tensordot(x, x, 7), lambda x: xp.eye("a")):
        with pytest.raises(TcpError):
            trace(wrong, "f32[2, 3]")


# Details


def test_names_and_signatures():
    def network(x, *, scale=2.0):
        return x * scale

    def several(x, *rest):
        return x + rest[0]

    assert trace(network, "f32[2]").main.name == "network"
    assert trace(lambda x: x, "f32[2]").main.name == "main"
    assert trace(several, "f32[2]", "f32[2]").main.parameter_names == ("x", "rest0")
    named = trace(lambda x, y: x, "f32[2]", "f32[2]", name="f", names=("a", "b")).main
    assert named.name == "f" and named.parameter_names == ("a", "b")
    for names in (("a",), ("a", "a")):
        with pytest.raises(ArgumentError, match="2 distinct names"):
            trace(lambda x, y: x, "f32[2]", "f32[2]", names=names)


def test_types_may_be_given_as_they_are():
    b = symbol("b", 1, 8)
    types = spec_types((TensorType(F32, (b,)), "i8[3]", spec("bool[c]", c=(0, 4, 2))))
    assert types[:2] == (TensorType(F32, (b,)), TensorType(I8, (3,))) and types[2].dtype is BOOL


def test_constants_are_captured_by_value():
    array = np.ones(3)
    program = trace(lambda x: x * array, "f64[3]")
    array[:] = 7
    assert evaluate(program.main, (np.ones(3),))[0].tolist() == [1, 1, 1]


def test_results_may_be_constants_parameters_or_nothing():
    program = trace(lambda x: (x, 2.5, np.arange(2), True), "f32[2]").main
    assert [str(r.type) for r in program.results] == ["f32[2]", "f64[]", "i64[2]", "bool[]"]
    assert trace(lambda x: [], "f32[2]").main.results == ()


def test_equal_subexpressions_are_shared():
    program = trace(lambda x: (x * 2 + 1) * (x * 2 + 1), "f32[2]").main
    assert sum(n.op.name == "map" for n in program.nodes()) == 3


def test_no_operation_where_nothing_changes():
    x = builders.parameter("x", 0, TensorType(F32, (2, 3)))
    t = Traced(x)
    for same in (t[...], t[:, :], t.reshape(2, -1), t.astype("f32"), +t, t.transpose(0, 1), xp.sum(t, ())):
        assert same.node is x


def test_traced_tensors_say_what_they_are():
    t = Traced(builders.parameter("x", 0, TensorType(U8, (2, symbol("b")))))
    assert repr(t) == "Traced(u8[2, b])" and t.ndim == 2 and t.shape[0] == 2 and str(t.dtype) == "u8"
    with pytest.raises(TypeError):
        hash(t)


def test_numbers_alone():
    assert elementwise("add", 1, 2).node.dtype.name == "i64"
    assert elementwise("add", 1, 2.5).node.dtype is F64
    assert elementwise("bitwise_or", True, False).node.dtype is BOOL
    assert xp.maximum(np.int32(3), 2).node.dtype is I32

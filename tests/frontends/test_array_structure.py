"""`tcp.numpy` and `tcp.nn` functions that index, order, accumulate, transform and slide windows, against NumPy.

Each case runs in the reference and compiled.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import tcp_eqsat as tcp
from tcp_eqsat.errors import ShapeMismatch, TypeMismatch
from tcp_eqsat.frontends import array_api as xp
from tcp_eqsat.frontends import neural as nn

RANDOM = np.random.default_rng(7)


def floats(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape)


def integers(*shape: int, low: int = -3, high: int = 4) -> np.ndarray:
    return RANDOM.integers(low, high, shape, dtype=np.int32)


def with_nans(*shape: int) -> np.ndarray:
    x = RANDOM.integers(-2, 3, shape).astype(np.float32)
    x.reshape(-1)[::5] = np.nan
    return x


def spec_of(x: np.ndarray) -> object:
    names = {"f": "f", "i": "i", "u": "u", "c": "c"}
    kind = "bool" if x.dtype.kind == "b" else f"{names[x.dtype.kind]}{x.dtype.itemsize * 8}"
    return tcp.spec(f"{kind}[{', '.join(map(str, x.shape))}]")


def check(traced, expected, *arrays: np.ndarray) -> None:
    program = tcp.trace(traced, *map(spec_of, arrays))
    wanted = expected(*arrays)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    for run in (tcp.reference(program), tcp.compile(program)):
        found = run(*arrays)
        found = found if isinstance(found, tuple) else (found,)
        assert len(found) == len(wanted)
        for got, value in zip(found, wanted, strict=True):
            value = np.asarray(value)
            assert got.shape == value.shape and got.dtype.kind == value.dtype.kind, (got.dtype, value.dtype)
            np.testing.assert_allclose(got, value, rtol=1e-5, atol=1e-5)


X, Y, I = floats(4, 5), floats(3, 4, 5), integers(2, 3)  # noqa: E741
NUMBERS, NANS = integers(4, 6), with_nans(4, 6)

CASES = [
    ("index by a tensor", lambda x, i: x[i], lambda x, i: x[i], (X, I)),
    ("index an inner axis", lambda x, i: x[:, i], lambda x, i: x[:, i], (X, I)),
    ("index with two tensors", lambda x, i: x[i, :, i], lambda x, i: x[i, :, i], (floats(4, 3, 5), I)),
    ("index neighbours", lambda x, i: x[:, i, i], lambda x, i: x[:, i, i], (Y, I)),
    ("index with an int beside", lambda x, i: x[1, i, 1:4], lambda x, i: x[1, i, 1:4], (Y, I)),
    ("index with a constant", lambda x: x[[0, -1], None, ::-2], lambda x: x[[0, -1], None, ::-2], (X,)),
    ("steps backwards", lambda x: x[::-1, -2:1:-2], lambda x: x[::-1, -2:1:-2], (X,)),
    ("steps backwards from the middle", lambda x: x[2::-1, 9::-3], lambda x: x[2::-1, 9::-3], (X,)),
    ("take", lambda x, i: xp.take(x, i, 1), lambda x, i: np.take(x, i, 1), (X, I)),
    ("take of all", xp.take, np.take, (X, I)),
    ("take_along_axis", lambda x, i: xp.take_along_axis(x, i, 1), lambda x, i: np.take_along_axis(x, i, 1),
     (X, integers(4, 2).astype(np.int64))),
    ("sort", xp.sort, np.sort, (NANS,)),
    ("sort an axis", lambda x: xp.sort(x, 0), lambda x: np.sort(x, 0), (NUMBERS,)),
    ("sort descending", lambda x: xp.sort(x, descending=True), lambda x: np.sort(x)[:, ::-1], (NANS,)),
    ("argsort", xp.argsort, lambda x: np.argsort(x, kind="stable"), (NUMBERS,)),
    ("argsort of NaNs", lambda x: xp.argsort(x, 0), lambda x: np.argsort(x, 0, kind="stable"), (NANS,)),
    ("argmax", lambda x: xp.argmax(x, 1), lambda x: np.argmax(x, 1), (NANS,)),
    ("argmin", lambda x: xp.argmin(x, 0, keepdims=True), lambda x: np.argmin(x, 0, keepdims=True), (NUMBERS,)),
    ("argmax of all", xp.argmax, np.argmax, (X,)),
    ("argmax of minus infinities", xp.argmax, np.argmax, (np.full((2, 3), -np.inf),)),
    ("top_k", lambda x: xp.top_k(x, 2), lambda x: (np.sort(x)[:, ::-1][:, :2], np.argsort(-x, kind="stable")[:, :2]),
     (NUMBERS,)),
    ("top_k of another axis", lambda x: xp.top_k(x, 3, 0)[0], lambda x: np.sort(x, 0)[::-1][:3], (NUMBERS,)),
    ("searchsorted", lambda x, y: xp.searchsorted(x, y), np.searchsorted, (np.sort(X[0]), Y)),
    ("searchsorted right", lambda x, y: xp.searchsorted(x, y, "right"), lambda x, y: np.searchsorted(x, y, "right"),
     (np.sort(NUMBERS[0]), NUMBERS)),
    ("unique", lambda x: xp.unique_all(x, 6), lambda x: _unique(x, 6), (integers(4, 6, low=0, high=5),)),
    ("unique with little room", lambda x: xp.unique_values(x, 2), lambda x: np.unique(x)[:2], (NUMBERS,)),
    ("cumulative_sum", lambda x: xp.cumulative_sum(x, 1), lambda x: np.cumsum(x, 1), (Y,)),
    ("cumulative_sum of small integers", lambda x: xp.cumulative_sum(x, -1), lambda x: np.cumsum(x, -1), (NUMBERS,)),
    ("cumulative_sum with 0", lambda x: xp.cumulative_sum(x, axis=0, include_initial=True),
     lambda x: np.concatenate([np.zeros((1, 5)), np.cumsum(x, 0)]), (X,)),
    ("cumulative_prod", lambda x: xp.cumulative_prod(x, -1), lambda x: np.cumprod(x, -1), (X,)),
    ("cumulative_max", lambda x: xp.cumulative_max(x, 0), lambda x: np.maximum.accumulate(x, 0), (X,)),
    ("cumulative_min", lambda x: xp.cumulative_min(x, 0), lambda x: np.minimum.accumulate(x, 0), (X,)),
    ("cumulative_logsumexp", xp.cumulative_logsumexp, lambda x: np.logaddexp.accumulate(x, -1), (X,)),
    ("flip", xp.flip, np.flip, (Y,)),
    ("flip an axis", lambda x: xp.flip(x, 1), lambda x: np.flip(x, 1), (Y,)),
    ("roll", lambda x: xp.roll(x, 7), lambda x: np.roll(x, 7), (X,)),
    ("roll axes", lambda x: xp.roll(x, (1, -2), (0, 1)), lambda x: np.roll(x, (1, -2), (0, 1)), (X,)),
    ("tile", lambda x: xp.tile(x, (2, 1, 3)), lambda x: np.tile(x, (2, 1, 3)), (X,)),
    ("repeat", lambda x: xp.repeat(x, 3, 1), lambda x: np.repeat(x, 3, 1), (X,)),
    ("repeat all", lambda x: xp.repeat(x, 2), lambda x: np.repeat(x, 2), (X,)),
    ("one_hot", lambda i: xp.one_hot(i, 4), lambda i: (i[..., None] == np.arange(4)).astype(np.float32), (I,)),
    ("scatter_add", lambda x, i, u: xp.scatter_add(x, i, u), lambda x, i, u: _add_at(x, i, u), (X, I, floats(2, 3, 5))),
    ("dynamic_slice", lambda x, i, j: xp.dynamic_slice(x, (i, j), (2, 3)), lambda x, i, j: x[2:4, :3],
     (X, np.array(9, np.int32), np.array(-4, np.int64))),
    ("dynamic_update_slice", lambda x, u, i: xp.dynamic_update_slice(x, u, (i, i)),
     lambda x, u, i: _placed(x, u), (X, floats(2, 2), np.array(1, np.uint8))),
    ("cholesky", xp.linalg.cholesky, np.linalg.cholesky, (Y @ Y.swapaxes(-1, -2) + np.eye(4),)),
    ("upper cholesky", lambda x: xp.linalg.cholesky(x, upper=True), lambda x: np.linalg.cholesky(x).T,
     (X.T @ X + np.eye(5),)),
    ("solve_triangular", lambda a, b: xp.linalg.solve_triangular(a, b), lambda a, b: np.linalg.solve(np.tril(a), b),
     (floats(4, 4) + 3 * np.eye(4), X)),
    ("solve_triangular of vectors", lambda a, b: xp.linalg.solve_triangular(a, b, lower=False, transposed=True),
     lambda a, b: np.linalg.solve(np.triu(a).T, b), (floats(4, 4) + 3 * np.eye(4), floats(4))),
    ("solve_positive_definite", xp.linalg.solve_positive_definite, np.linalg.solve, (X @ X.T + np.eye(4), X)),
    ("outer", xp.linalg.outer, np.outer, (X[0], Y[0, 0])),
    ("diagonal", lambda x: xp.linalg.diagonal(x, 1), lambda x: np.diagonal(x, 1, -2, -1), (Y,)),
    ("diagonal below", lambda x: xp.linalg.diagonal(x, -2), lambda x: np.diagonal(x, -2, -2, -1), (Y,)),
    ("trace", xp.linalg.trace, lambda x: np.trace(x, 0, -2, -1), (Y,)),
    ("fft", xp.fft.fft, np.fft.fft, (Y,)),
    ("fft of complex numbers", lambda x: xp.fft.ifft(x, axis=0), lambda x: np.fft.ifft(x, axis=0), (X + 1j,)),
    ("fft resized", lambda x: xp.fft.fft(x, 8, 0, "ortho"), lambda x: np.fft.fft(x, 8, 0, "ortho"), (X,)),
    ("fftn", xp.fft.fftn, np.fft.fftn, (Y,)),
    ("rfft", xp.fft.rfft, np.fft.rfft, (Y,)),
    ("rfftn", lambda x: xp.fft.rfftn(x, axes=(1, 0), norm="forward"),
     lambda x: np.fft.rfftn(x, axes=(1, 0), norm="forward"), (X,)),
    ("irfft", lambda x: xp.fft.irfft(x, 9), lambda x: np.fft.irfft(x, 9), (X + 1j * X[::-1],)),
    ("irfftn", xp.fft.irfftn, np.fft.irfftn, (X + 1j * X[::-1],)),
    ("fftshift", lambda x: xp.fft.ifftshift(xp.fft.fftshift(x, 0)), lambda x: np.fft.ifftshift(np.fft.fftshift(x, 0)),
     (Y,)),
    ("fftfreq", lambda x: x + xp.fft.fftfreq(5), lambda x: x + np.fft.fftfreq(5), (X,)),
    ("conv", lambda x, w: nn.conv(x, w, 2, "same", groups=2), lambda x, w: _conv(x, w, (2, 2), 2, "same"),
     (floats(2, 4, 7, 6), floats(6, 2, 3, 3))),
    ("conv channels last", lambda x, w: nn.conv(x, w, padding=[(1, 0)], dilation=2, layout="channels_last"),
     lambda x, w: _conv(x.transpose(0, 2, 1), w.transpose(2, 1, 0), (1,), 1, [(1, 0)], (2,)).transpose(0, 2, 1),
     (floats(2, 9, 3), floats(3, 3, 4))),
    ("conv_transpose", lambda x, w: nn.conv_transpose(x, w, 2, 1), lambda x, w: _conv_transpose(x, w, 2, 1),
     (floats(1, 3, 4, 4), floats(3, 2, 3, 3))),
    ("max_pool", lambda x: nn.max_pool(x, 2), lambda x: x[..., :6].reshape(2, 3, 3, 2).max(-1), (floats(2, 3, 7),)),
    ("max_pool same", lambda x: nn.max_pool(x, 3, 1, "same", "channels_last"),
     lambda x: np.max([np.pad(x, ((0, 0), (1, 1), (0, 0)), constant_values=-np.inf)[:, n: n + 7] for n in range(3)], 0),
     (floats(2, 7, 3),)),
    ("min_pool", lambda x: nn.min_pool(x, 2), lambda x: x[..., :6].reshape(2, 3, 3, 2).min(-1), (floats(2, 3, 7),)),
    ("avg_pool", lambda x: nn.avg_pool(x, 2, 2, [(1, 1)]),
     lambda x: np.pad(x, ((0, 0), (0, 0), (1, 1))).reshape(2, 3, 4, 2).mean(-1), (floats(2, 3, 6),)),
    ("avg_pool without padding", lambda x: nn.avg_pool(x, 2, 2, [(1, 1)], count_padding=False),
     lambda x: np.pad(x, ((0, 0), (0, 0), (1, 1))).reshape(2, 3, 4, 2).sum(-1) / [1, 2, 2, 1], (floats(2, 3, 6),)),
    ("embedding", nn.embedding, lambda t, i: t[np.clip(i, 0, 3)], (X, I)),
]


def _unique(x: np.ndarray, size: int) -> tuple[np.ndarray, ...]:
    values, first, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    rest = (0, size - len(values))
    return np.pad(values, rest), np.pad(first, rest), inverse.reshape(x.shape), np.pad(counts, rest)


def _add_at(x: np.ndarray, i: np.ndarray, updates: np.ndarray) -> np.ndarray:
    result = x.copy()
    np.add.at(result, i, updates)
    return result


def _placed(x: np.ndarray, update: np.ndarray) -> np.ndarray:
    result = x.copy()
    result[1:3, 1:3] = update
    return result


def _conv(x, w, strides, groups, padding, dilations=None):
    """By its definition: one element of the result after the other."""
    dilations = dilations or (1,) * len(strides)
    spans = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations, strict=True)]
    if padding == "same":
        total = [max((-(-n // s) - 1) * s + k - n, 0) for n, s, k in zip(x.shape[2:], strides, spans, strict=True)]
        padding = [(n // 2, n - n // 2) for n in total]
    x = np.pad(x, [(0, 0), (0, 0), *padding])
    counts = [(n - k) // s + 1 for n, s, k in zip(x.shape[2:], strides, spans, strict=True)]
    result = np.zeros((x.shape[0], w.shape[0], *counts))
    share, out = w.shape[1], w.shape[0] // groups
    for at in np.ndindex(*counts):
        box = tuple(slice(p * s, p * s + k, d) for p, s, k, d in zip(at, strides, spans, dilations, strict=True))
        for o in range(w.shape[0]):
            group = o // out
            part = x[(slice(None), slice(group * share, (group + 1) * share), *box)]
            result[(slice(None), o, *at)] = (part * w[o]).reshape(len(x), -1).sum(1)
    return result


def _conv_transpose(x, w, stride, padding):
    size = [(n - 1) * stride + k for n, k in zip(x.shape[2:], w.shape[2:], strict=True)]
    result = np.zeros((len(x), w.shape[1], *size))
    for i, j in np.ndindex(*x.shape[2:]):
        result[:, :, i * stride: i * stride + w.shape[2], j * stride: j * stride + w.shape[3]] += np.einsum(
            "bc,cohw->bohw", x[:, :, i, j], w)
    return result[:, :, padding: size[0] - padding, padding: size[1] - padding]


@pytest.mark.parametrize(("traced", "expected", "arrays"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_numpy(traced, expected, arrays):
    check(traced, expected, *arrays)


def test_symbolic_sizes():
    def traced(x, i):
        rolled = xp.roll(x, 2, 0)
        pooled = nn.max_pool(xp.reshape(x, (1, 1, x.shape[0], 3)), (1, 3), (1, 1))
        return (xp.sort(x, 0), xp.cumulative_sum(x, 0), x[::-1], x[i], rolled, xp.argmax(x, 0), pooled,
                xp.fft.fft(x, axis=0))

    program = tcp.trace(traced, tcp.spec("f64[b, 3]"), tcp.spec("i32[2]"))
    compiled = tcp.compile(program)
    for b in (1, 2, 5, 8):
        x, i = floats(b, 3), np.int32([0, -1])
        expected = (np.sort(x, 0), np.cumsum(x, 0), x[::-1], x[i], np.roll(x, 2, 0), np.argmax(x, 0),
                    x.max(1).reshape(1, 1, b, 1), np.fft.fft(x, axis=0))
        for found in (compiled(x, i), tcp.reference(program)(x, i)):
            for got, wanted in zip(found, expected, strict=True):
                np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-9)


def test_random_numbers():
    """Bits as XLA's rng_bit_generator gives them; moments of the distributions."""
    state = np.array([3, 3], np.uint64)

    def traced(state):
        state, bits = xp.random.bits(state, (3,), "u32")
        _, other = xp.random.bits(state, (2,), "u64", "philox")
        _, uniform = xp.random.uniform(state, (100, 100))
        _, normal = xp.random.normal(state, (100, 100), "f64")
        return state, bits, other, uniform, normal

    program = tcp.trace(traced, tcp.spec("u64[2]"))
    for run in (tcp.reference(program), tcp.compile(program)):
        after, bits, _, uniform, normal = run(state)
        assert after.tolist() == [3, 5] and [hex(n) for n in bits] == ["0x46aac5cf", "0x2e7d6052", "0x2114e542"]
        assert uniform.min() >= 0 and uniform.max() < 1
        assert abs(uniform.mean() - 0.5) < 0.01 and abs(uniform.var() - 1 / 12) < 0.003
        assert abs(normal.mean()) < 0.03 and abs(normal.std() - 1) < 0.03 and np.isfinite(normal).all()
    first = tcp.reference(tcp.trace(lambda s: xp.random.bits(s, (2,), "u64", "philox")[1], tcp.spec("u64[2]")))(state)
    assert [hex(n) for n in first] == ["0xa478f84ae30973d9", "0x89aa81fe3f952fcd"]


REFUSED = [
    (lambda x: x[x], ["f32[2]"], TypeMismatch, "indices must be of an integer dtype, got f32[2]"),
    (lambda x, i, j: x[i, j], ["f32[4, 4]", "i32[2]", "i32[3]"], ShapeMismatch, "require shapes that broadcast"),
    (lambda x: xp.sort(x, 2), ["f32[2]"], TypeMismatch, "distinct axes in -1..0 are required, got [2]"),
    (lambda x: xp.top_k(x, 3), ["f32[2]"], ShapeMismatch, "at most 2 values of f32[2], got 3"),
    (lambda x: xp.searchsorted(x, x, "middle"), ["f32[2]"], TypeMismatch, "side 'left' or 'right', got 'middle'"),
    (lambda x: xp.cumulative_sum(x), ["f32[2, 2]"], TypeMismatch, "a cumulative form of f32[2, 2] requires an axis"),
    (lambda x: xp.roll(x, (1, 2), 0), ["f32[2, 2]"], TypeMismatch, "a shift for each axis, got 2 and 1"),
    (lambda x: nn.conv(x, x, groups=2), ["f32[2, 3, 4]"], ShapeMismatch, "in 2 groups requires 3 input features"),
    (lambda x, w: nn.conv(x, w, padding="full"), ["f32[1, 1, 4]", "f32[1, 1, 2]"], TypeMismatch, "got 'full'"),
    (lambda x, w: nn.conv(x, w, stride=(1, 1)), ["f32[1, 1, 4]", "f32[1, 1, 2]"], TypeMismatch, "for each of 1 axes"),
    (lambda x: nn.max_pool(x, 2, layout="nchw"), ["f32[1, 1, 4]"], TypeMismatch, "layout must be 'channels_first'"),
    (lambda x: xp.fft.fft(x), ["i32[4]"], TypeMismatch, "a transform requires dtype f32, f64, c64 or c128"),
    (lambda x: xp.fft.fft(x, norm="none"), ["f32[4]"], TypeMismatch, "got 'none'"),
    (lambda x: xp.linalg.cholesky(x), ["f32[4, 3]"], ShapeMismatch, "cholesky requires square matrices"),
    (lambda s: xp.random.bits(s, (2,), algorithm="mt"), ["u64[2]"], TypeMismatch, "threefry or philox, got 'mt'"),
    (lambda s: xp.random.bits(s, (2,)), ["u64[3]"], TypeMismatch, "random bits require a state u64[2], got u64[3]"),
]


@pytest.mark.parametrize(("function", "specs", "error", "message"), REFUSED)
def test_refusals(function, specs, error, message):
    with pytest.raises(error, match=re.escape(message)):
        tcp.trace(function, *map(tcp.spec, specs))

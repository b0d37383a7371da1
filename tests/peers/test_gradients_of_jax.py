"""Gradients of models against those of JAX, by the reference and by machine code. Run with `pytest --peers`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tcp_eqsat as tcp
from benchmarks.models import bert, mlp_full
from benchmarks.models.model import Model
from tcp_eqsat.frontends.traced import Traced, lift
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.ops.window_builders import ConvolutionAxes, WindowShape, convolution, reduce_window
from tcp_eqsat.lang.program import Function
from tcp_eqsat.lang.scalar import function_of, scalar_op_named
from tcp_eqsat.lang.types import F32

CLOSE = 1e-5
"""Absolute, or of the largest entry of a gradient. (That of a key's bias is 0 in exact arithmetic.)"""


@dataclass(frozen=True)
class Loss:
    """A scalar loss of named arrays, once for us and once for JAX."""

    name: str
    ours: Function
    theirs: Callable[..., Any]
    arrays: Mapping[str, np.ndarray]


def loss_of_model(model: Model, theirs: Callable[..., Any], arrays: tuple[np.ndarray, ...]) -> Loss:
    """The sum of squared distances of a model's result from a target, the first array."""
    main = model.program.main
    target = builders.parameter("target", len(main.parameters), main.results[0].tensor_type)
    distance = builders.map_scalar(scalar_op_named("subtract"), main.results[0], target)
    total = builders.reduce_axes(scalar_op_named("add"), builders.map_scalar(scalar_op_named("square"), distance),
                                 tuple(range(len(target.shape))))
    shape = tcp.reference(model.program)(*arrays).shape
    wanted = np.random.default_rng(7).standard_normal(shape).astype(np.float32)
    named = dict(zip(main.parameter_names, arrays, strict=True)) | {"target": wanted}
    return Loss(model.name, Function("loss", (*main.parameters, target), (total,)),
                lambda target, **w: jnp.sum((theirs(**w) - target) ** 2), named)


def traced_loss(name: str, function: Callable[..., Any], theirs: Callable[..., Any], **arrays: np.ndarray) -> Loss:
    specs = [f"f32[{', '.join(map(str, a.shape))}]" for a in arrays.values()]
    return Loss(name, tcp.trace(function, *specs, names=list(arrays)).main, theirs, arrays)


# JAX's side of the models


def mlp_of_jax(x, h1_weights, h2_weights, out_weights, h1_bias, h2_bias, out_bias):
    for weights, bias in ((h1_weights, h1_bias), (h2_weights, h2_bias), (out_weights, out_bias)):
        x = jax.nn.sigmoid(x @ weights + bias)
    return jax.nn.softmax(x)


def transformer_of_jax(x, heads=2, **w):
    batch, length, width = x.shape

    def dense(x, name):
        return x @ w[f"l0_{name}_w"] + w[f"l0_{name}_b"]

    def norm(x, name):
        mean = jnp.mean(x, -1, keepdims=True)
        variance = jnp.mean((x - mean) ** 2, -1, keepdims=True)
        return (x - mean) / jnp.sqrt(variance + 1e-5) * w[f"l0_{name}_scale"] + w[f"l0_{name}_bias"]

    q, k, v = (dense(x, name).reshape(batch, length, heads, width // heads) for name in "qkv")
    weights = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(width // heads))
    context = jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(batch, length, width)
    x = norm(x + dense(context, "o"), "n1")
    return norm(x + dense(jax.nn.gelu(dense(x, "up"), approximate=False), "down"), "n2")


# Convolution with pooling


def max_pool(x: Traced, size: int) -> Traced:
    maximum = function_of(scalar_op_named("maximum"), F32, F32)
    shape = WindowShape.of((1, 1, size, size), (1, 1, size, size))
    return Traced(reduce_window([x.node], [builders.scalar_constant(-np.inf, F32)], [maximum], shape)[0])


def convolutional(x, kernel, bias, dense, target):
    xp = tcp.numpy
    y = Traced(convolution(lift(x), lift(kernel), ConvolutionAxes.channels_first(2), strides=(2, 1), low=(1, 2),
                           high=(1, 2)))
    y = max_pool(xp.maximum(y + bias.reshape((1, bias.shape[0], 1, 1)), 0), 2)
    y = xp.tanh(y.reshape((y.shape[0], -1)) @ dense)
    return xp.sum(xp.square(y - target))


def convolutional_of_jax(x, kernel, bias, dense, target):
    y = jax.lax.conv_general_dilated(x, kernel, (2, 1), ((1, 1), (2, 2)))
    y = jax.nn.relu(y + bias[:, None, None])
    y = jax.lax.reduce_window(y, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    y = jnp.tanh(y.reshape(y.shape[0], -1) @ dense)
    return jnp.sum((y - target) ** 2)


# LSTM


def lstm(xp: Any, scan: Callable[..., Any], x, w, u, b, target):
    """Both sides: the namespaces and scans have the same functions."""
    width = u.shape[0]

    def sigmoid(v):
        return 0.5 * (xp.tanh(0.5 * v) + 1)

    def step(state, part):
        h, c = state
        gates = part @ w + h @ u + b
        i, f, g, o = (gates[:, k * width: (k + 1) * width] for k in range(4))
        c = sigmoid(f) * c + sigmoid(i) * xp.tanh(g)
        h = sigmoid(o) * xp.tanh(c)
        return (h, c), h

    zeros = xp.zeros((x.shape[1], width), "float32")
    (h, c), outputs = scan(step, (zeros, zeros), x)
    return xp.sum(xp.square(outputs - target)) + xp.sum(h * c)


def losses() -> list[Loss]:
    random = np.random.default_rng(0)

    def normal(*shape: int, scale: float = 1.0) -> np.ndarray:
        return (scale * random.standard_normal(shape)).astype(np.float32)

    mlp, transformer = mlp_full(), bert(1, 8, 2)
    return [
        loss_of_model(mlp, mlp_of_jax, mlp.arrays(b=5)),
        loss_of_model(transformer, transformer_of_jax, transformer.arrays(b=2, s=4)),
        traced_loss("convolution", convolutional, convolutional_of_jax, x=normal(2, 3, 9, 8),
                    kernel=normal(4, 3, 3, 5, scale=0.2), bias=normal(4), dense=normal(32, 5, scale=0.3),
                    target=normal(2, 5)),
        traced_loss("lstm", lambda *a: lstm(tcp.numpy, tcp.scan, *a), lambda **a: lstm(jnp, jax.lax.scan, **a),
                    x=normal(7, 3, 4), w=normal(4, 20, scale=0.5), u=normal(5, 20, scale=0.5), b=normal(20),
                    target=normal(7, 3, 5)),
    ]


LOSSES = losses()


def check(found: Mapping[str, np.ndarray], expected: Mapping[str, Any]) -> None:
    for name, e in expected.items():
        e = np.asarray(e)
        assert found[name].shape == e.shape and found[name].dtype == e.dtype, name
        assert np.abs(found[name] - e).max() <= CLOSE * max(np.abs(e).max(), 1), name


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("run", [tcp.reference, tcp.compile], ids=["reference", "compiled"])
def test_gradients(loss: Loss, run: Callable[..., Any]):
    names = [name for name in loss.arrays if name != "target"]
    expected = jax.grad(lambda moving: loss.theirs(**{**loss.arrays, **moving}))(
        {name: loss.arrays[name] for name in names})
    found = run(tcp.grad(loss.ours, names))(*loss.arrays.values())
    check(dict(zip(names, found, strict=True)), expected)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_directions(loss: Loss):
    """Forward mode against JAX's."""
    random = np.random.default_rng(1)
    names = [name for name in loss.arrays if name != "target"]
    moves = {name: random.standard_normal(loss.arrays[name].shape).astype(np.float32) for name in names}
    value, tangent = jax.jvp(lambda moving: loss.theirs(**{**loss.arrays, **moving}),
                             ({name: loss.arrays[name] for name in names},), (moves,))
    found = tcp.reference(tcp.jvp(loss.ours, names))(*loss.arrays.values(), *moves.values())
    np.testing.assert_allclose(found[0], value, rtol=CLOSE)
    np.testing.assert_allclose(found[1], tangent, rtol=1e-4, atol=CLOSE * abs(float(value)))

"""The two perceptrons of the TCP proposal, traced: 16 -> 16 -> 16 -> 10."""

from __future__ import annotations

import numpy as np

from benchmarks.models.model import Model, glorot, trace_model
from tcp_eqsat.frontends import array_api as xp
from tcp_eqsat.frontends import neural as nn

INPUTS = {"x": "f32[b, 16]"}


def _weights() -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    sizes = {"h1": (16, 16), "h2": (16, 16), "out": (16, 10)}
    weights = {f"{name}_weights": glorot(random, *shape) for name, shape in sizes.items()}
    return weights | {f"{n}_bias": random.standard_normal(s[1]).astype(np.float32) for n, s in sizes.items()}


def mlp_tanh() -> Model:
    """Three dense layers with tanh."""

    def network(x, h1_weights, h2_weights, out_weights, h1_bias, h2_bias, out_bias):
        for weights, bias in ((h1_weights, h1_bias), (h2_weights, h2_bias), (out_weights, out_bias)):
            x = xp.tanh(x @ weights + bias)
        return x

    return trace_model("mlp_tanh", network, INPUTS, _weights())


def mlp_full() -> Model:
    """Three dense layers with the sigmoid spelled by tanh, then softmax."""

    def network(x, h1_weights, h2_weights, out_weights, h1_bias, h2_bias, out_bias):
        for weights, bias in ((h1_weights, h1_bias), (h2_weights, h2_bias), (out_weights, out_bias)):
            x = xp.tanh((x @ weights + bias) * 0.5) * 0.5 + 0.5
        return nn.softmax(x)

    return trace_model("mlp_full", network, INPUTS, _weights())

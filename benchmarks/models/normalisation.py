"""Row kernels: softmax, layer norm, group norm with two 1x1 convolutions."""

from __future__ import annotations

import numpy as np

from benchmarks.models.model import Model, glorot, trace_model
from tcp_eqsat.frontends import array_api as xp
from tcp_eqsat.frontends import neural as nn


def softmax(width: int = 1024) -> Model:
    return trace_model("softmax", lambda x: nn.softmax(x), {"x": f"f32[b, {width}]"}, {})


def layer_norm(width: int = 1024) -> Model:
    """With scale and bias."""
    random = np.random.default_rng(0)
    weights = {n: random.standard_normal(width).astype(np.float32) for n in ("scale", "bias")}
    return trace_model("layer_norm", lambda x, scale, bias: nn.layer_norm(x, scale, bias),
                       {"x": f"f32[b, {width}]"}, weights)


def group_norm(channels: int = 32, groups: int = 4, size: int = 8) -> Model:
    """1x1 convolution, group norm, relu, 1x1 convolution, over [batch, channels, height, width]."""
    random = np.random.default_rng(0)
    weights = {
        "first": glorot(random, channels, channels),
        "scale": random.standard_normal(channels).astype(np.float32),
        "bias": random.standard_normal(channels).astype(np.float32),
        "second": glorot(random, channels, channels),
    }

    def network(x, first, scale, bias, second):
        flat = x.reshape((x.shape[0], channels, size * size))
        hidden = xp.einsum("oc,bcp->bop", first, flat).reshape(x.shape)
        hidden = nn.relu(nn.group_norm(hidden, groups, scale, bias))
        return xp.einsum("oc,bcp->bop", second, hidden.reshape(flat.shape)).reshape(x.shape)

    return trace_model("group_norm", network, {"x": f"f32[b, {channels}, {size}, {size}]"}, weights)

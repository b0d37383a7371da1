"""Attention and BERT encoders, with the reshapes that exporters write."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.models.model import Model, glorot, trace_model
from tcp_eqsat.frontends import neural as nn


def gelu_dense(inputs: int = 768, outputs: int = 3072) -> Model:
    """gelu(x @ w + b)."""
    random = np.random.default_rng(0)
    weights = {"w": glorot(random, inputs, outputs), "bias": random.standard_normal(outputs).astype(np.float32)}
    return trace_model("gelu_dense", lambda x, w, bias: nn.gelu(x @ w + bias), {"x": f"f32[b, {inputs}]"}, weights)


def _dense(random: np.random.Generator, weights: dict[str, np.ndarray], name: str, fan_in: int, fan_out: int) -> None:
    weights[f"{name}_w"] = glorot(random, fan_in, fan_out)
    weights[f"{name}_b"] = (random.standard_normal(fan_out) * 0.02).astype(np.float32)


def _norm(random: np.random.Generator, weights: dict[str, np.ndarray], name: str, width: int) -> None:
    weights[f"{name}_scale"] = (1 + 0.1 * random.standard_normal(width)).astype(np.float32)
    weights[f"{name}_bias"] = (0.1 * random.standard_normal(width)).astype(np.float32)


def _self_attention(x: Any, w: dict[str, Any], prefix: str, heads: int, mask: Any = None) -> Any:
    """q, k, v projections, heads split by reshape and transpose, attention, heads merged, output projection."""
    batch, length, width = x.shape

    def projected(name: str) -> Any:
        y = x @ w[f"{prefix}{name}_w"] + w[f"{prefix}{name}_b"]
        return y.reshape((batch, length, heads, width // heads)).transpose(0, 2, 1, 3)

    context = nn.attention(projected("q"), projected("k"), projected("v"), mask)
    merged = context.transpose(0, 2, 1, 3).reshape((batch, length, width))
    return merged @ w[f"{prefix}o_w"] + w[f"{prefix}o_b"]


def attention_block(width: int = 64, heads: int = 4) -> Model:
    """Self-attention with output projection over [b, s, width]."""
    random = np.random.default_rng(0)
    weights: dict[str, np.ndarray] = {}
    for name in "qkvo":
        _dense(random, weights, name, width, width)

    def network(x: Any, **w: Any) -> Any:
        return _self_attention(x, w, "", heads)

    return trace_model("attention_block", network, {"x": f"f32[b, s, {width}]"}, weights)


def bert(layers: int = 1, width: int = 64, heads: int = 4, hidden: int | None = None) -> Model:
    """A BERT encoder (Devlin et al., 2018) of post-norm layers over embedded tokens [b, s, width].

    BERT-base is bert(12, 768, 12).
    """
    hidden = 4 * width if hidden is None else hidden
    random = np.random.default_rng(0)
    weights: dict[str, np.ndarray] = {}
    for layer in range(layers):
        for name in "qkvo":
            _dense(random, weights, f"l{layer}_{name}", width, width)
        _norm(random, weights, f"l{layer}_n1", width)
        _dense(random, weights, f"l{layer}_up", width, hidden)
        _dense(random, weights, f"l{layer}_down", hidden, width)
        _norm(random, weights, f"l{layer}_n2", width)

    def network(x: Any, **w: Any) -> Any:
        for layer in range(layers):
            p = f"l{layer}_"
            x = nn.layer_norm(x + _self_attention(x, w, p, heads), w[p + "n1_scale"], w[p + "n1_bias"])
            inner = nn.gelu(x @ w[p + "up_w"] + w[p + "up_b"])
            x = nn.layer_norm(x + (inner @ w[p + "down_w"] + w[p + "down_b"]), w[p + "n2_scale"], w[p + "n2_bias"])
        return x

    return trace_model(f"bert_{layers}", network, {"x": f"f32[b, s, {width}]"}, weights)

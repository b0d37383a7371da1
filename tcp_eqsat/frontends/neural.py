"""The functions neural networks are written with, over traced tensors: `tcp.nn`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tcp_eqsat.errors import ShapeMismatch
from tcp_eqsat.frontends import array_api as xp
from tcp_eqsat.frontends.neural_windows import avg_pool as avg_pool
from tcp_eqsat.frontends.neural_windows import conv as conv
from tcp_eqsat.frontends.neural_windows import conv_transpose as conv_transpose
from tcp_eqsat.frontends.neural_windows import embedding as embedding
from tcp_eqsat.frontends.neural_windows import max_pool as max_pool
from tcp_eqsat.frontends.neural_windows import min_pool as min_pool
from tcp_eqsat.frontends.traced import Operand, Traced, as_size, lift
from tcp_eqsat.lang.dims import divides, exact_divide
from tcp_eqsat.lang.types import F32

Axis = int | Sequence[int]


def _traced(x: Operand) -> Traced:
    return Traced(lift(x))


def _widened(x: Operand) -> Traced:
    """The same values as f32 where they are f16 or bf16: what normalises them is rounded once, at its end."""
    value = _traced(x)
    return value.astype(F32) if value.dtype.is_narrow_float else value


def relu(x: Operand) -> Traced:
    """maximum(x, 0)."""
    return xp.maximum(x, 0)


def sigmoid(x: Operand) -> Traced:
    """1 / (1 + exp(-x))."""
    return xp.logistic(x)


def silu(x: Operand) -> Traced:
    """x * sigmoid(x)."""
    return xp.multiply(x, sigmoid(x))


def gelu(x: Operand, approximate: bool = False) -> Traced:
    """x * Phi(x) by erf, or by the tanh approximation (Hendrycks and Gimpel, 2016)."""
    value = _traced(x)
    if approximate:
        inner = math.sqrt(2 / math.pi) * (value + 0.044715 * (value * value * value))
        return 0.5 * value * (1.0 + xp.tanh(inner))
    return 0.5 * value * (1.0 + xp.erf(value * math.sqrt(0.5)))


def softmax(x: Operand, axis: int = -1) -> Traced:
    """exp(x - max x) / sum exp(x - max x) along `axis`."""
    wide = _widened(x)
    shifted = xp.exp(wide - xp.max(wide, axis, keepdims=True))
    return (shifted / xp.sum(shifted, axis, keepdims=True)).astype(_traced(x).dtype)


def log_softmax(x: Operand, axis: int = -1) -> Traced:
    """x - max x - log(sum exp(x - max x)) along `axis`."""
    wide = _widened(x)
    shifted = wide - xp.max(wide, axis, keepdims=True)
    return (shifted - xp.log(xp.sum(xp.exp(shifted), axis, keepdims=True))).astype(_traced(x).dtype)


def layer_norm(x: Operand, scale: Operand | None = None, bias: Operand | None = None, axis: Axis = -1,
               epsilon: float = 1e-5) -> Traced:
    """(x - mean) / sqrt(var + epsilon) * scale + bias (Ba, Kiros and Hinton, 2016); two-pass variance."""
    wide = _widened(x)
    centred = wide - xp.mean(wide, axis, keepdims=True)
    variance = xp.mean(xp.square(centred), axis, keepdims=True)
    result = centred * xp.rsqrt(variance + epsilon)
    return _affine(result.astype(_traced(x).dtype), scale, bias)


def rms_norm(x: Operand, scale: Operand | None = None, axis: Axis = -1, epsilon: float = 1e-6) -> Traced:
    """x / sqrt(mean(x * x) + epsilon) * scale (Zhang and Sennrich, 2019)."""
    wide = _widened(x)
    result = wide * xp.rsqrt(xp.mean(xp.square(wide), axis, keepdims=True) + epsilon)
    return _affine(result.astype(_traced(x).dtype), scale, None)


def group_norm(x: Operand, groups: int, scale: Operand | None = None, bias: Operand | None = None,
               epsilon: float = 1e-5) -> Traced:
    """Normalised over groups of channels and all positions (Wu and He, 2018); x is [batch, channels, ...].

    Raises ShapeMismatch where `groups` does not divide the channels.
    """
    value = _traced(x)
    batch, channels, *positions = value.shape
    share = exact_divide(channels, as_size(groups)) if divides(as_size(groups), channels) else None
    if share is None:
        raise ShapeMismatch(f"group_norm requires groups that divide {channels} channels, got {groups}")
    grouped = value.reshape((batch, groups, share, *positions))
    axes = tuple(range(2, grouped.ndim))
    normalised = layer_norm(grouped, axis=axes, epsilon=epsilon).reshape(value.shape)
    shape = (channels, *(1 for _ in positions))
    return _affine(normalised, *(None if v is None else _traced(v).reshape(shape) for v in (scale, bias)))


def _affine(x: Traced, scale: Operand | None, bias: Operand | None) -> Traced:
    x = x if scale is None else x * scale
    return x if bias is None else x + bias


def attention(query: Operand, key: Operand, value: Operand, mask: Operand | None = None) -> Traced:
    """softmax(query @ key^T / sqrt(d) + mask) @ value over the last two axes."""
    q, k, v = (_traced(t) for t in (query, key, value))
    depth = q.shape[-1]
    scale = 1 / math.sqrt(depth) if isinstance(depth, int) else xp.rsqrt(xp.size_value(depth, q.dtype))
    scores = xp.matmul(q, xp.matrix_transpose(k)) * scale
    scores = scores if mask is None else scores + mask
    return xp.matmul(softmax(scores), v)

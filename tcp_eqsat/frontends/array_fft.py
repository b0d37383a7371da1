"""Fourier transforms over traced tensors: `tcp.numpy.fft`. Transforms are computed in double precision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tcp_eqsat.errors import TypeMismatch
from tcp_eqsat.frontends.traced import Operand, Traced, lift, resolve_axes
from tcp_eqsat.lang.dims import Size, product
from tcp_eqsat.lang.ops import builders, linalg_builders, window_builders
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.scalar import scalar_op_named as _op

Axes = int | Sequence[int] | None


def _complex(x: Operand) -> Node:
    node = lift(x)
    if node.dtype.is_complex:
        return node
    if not node.dtype.is_float or node.dtype.bits < 32:
        raise TypeMismatch(f"a transform requires dtype f32, f64, c64 or c128, got {node.type}")
    return builders.map_scalar(_op("complex"), node, builders.splat(0, node.dtype, node.shape))


def _resized(x: Node, n: int | None, axis: int) -> Node:
    """Cut off or padded with zeros to n elements along an axis."""
    if n is None:
        return x
    size = x.shape[axis]
    if n < 1 or not isinstance(size, int):
        raise TypeMismatch(f"a transform to {n} elements requires n of at least 1 and a known size, got {x.type}")
    if n <= size:
        return builders.slice_(x, (0,) * len(x.shape), tuple(n if a == axis else s for a, s in enumerate(x.shape)))
    high = tuple(n - size if a == axis else 0 for a in range(len(x.shape)))
    return builders.pad(x, builders.scalar_constant(0, x.dtype), (0,) * len(x.shape), high)


def _scaled(x: Node, sizes: Sequence[Size], norm: str, inverse: bool) -> Traced:
    """Transforms are divided by the number of elements ("backward": inverse ones), by its root, or forward ones."""
    if norm not in ("backward", "ortho", "forward"):
        raise TypeMismatch(f"norm must be 'backward', 'ortho' or 'forward', got {norm!r}")
    if norm == "backward":
        return Traced(x)
    real = x.dtype.part if x.dtype.is_complex else x.dtype
    count = builders.map_scalar(_op(f"astype_{real}"), builders.size_value(product(sizes)))
    factor = builders.map_scalar(_op("sqrt"), count) if norm == "ortho" else count
    if x.dtype.is_complex:
        factor = builders.map_scalar(_op(f"astype_{x.dtype}"), factor)
    whole = builders.broadcast_scalar(factor, x.shape)
    return Traced(builders.map_scalar(_op("multiply" if inverse else "divide"), x, whole))


def _axes(node: Node, s: Sequence[int] | None, axes: Axes) -> tuple[tuple[int, ...], tuple[int | None, ...]]:
    rank = len(node.shape)
    if axes is None:
        axes = tuple(range(rank)) if s is None else tuple(range(rank - len(s), rank))
    found = resolve_axes(axes, rank)
    sizes: tuple[int | None, ...] = (None,) * len(found) if s is None else tuple(s)
    if len(sizes) != len(found):
        raise TypeMismatch(f"a transform requires a size for each axis, got {len(sizes)} and {len(found)}")
    return found, sizes


def fftn(x: Operand, s: Sequence[int] | None = None, axes: Axes = None, norm: str = "backward") -> Traced:
    """The transform along several axes (None: all), resized to `s` before."""
    node = _complex(x)
    found, sizes = _axes(node, s, axes)
    for axis, n in zip(found, sizes, strict=True):
        node = _resized(node, n, axis)
    return _scaled(linalg_builders.fft_axes(node, found), [node.shape[a] for a in found], norm, False)


def ifftn(x: Operand, s: Sequence[int] | None = None, axes: Axes = None, norm: str = "backward") -> Traced:
    """The inverse transform along several axes (None: all), resized to `s` before."""
    node = _complex(x)
    found, sizes = _axes(node, s, axes)
    for axis, n in zip(found, sizes, strict=True):
        node = _resized(node, n, axis)
    return _scaled(linalg_builders.fft_axes(node, found, inverse=True), [node.shape[a] for a in found], norm, True)


def rfftn(x: Operand, s: Sequence[int] | None = None, axes: Axes = None, norm: str = "backward") -> Traced:
    """The transform of real numbers; along the last axis the first size // 2 + 1."""
    node = lift(x)
    if not node.dtype.is_float:
        raise TypeMismatch(f"rfftn requires a floating-point dtype, got {node.type}")
    found, sizes = _axes(node, s, axes)
    for axis, n in zip(found, sizes, strict=True):
        node = _resized(node, n, axis)
    return _scaled(linalg_builders.rfft_axes(node, found), [node.shape[a] for a in found], norm, False)


def irfftn(x: Operand, s: Sequence[int] | None = None, axes: Axes = None, norm: str = "backward") -> Traced:
    """The inverse of `rfftn`; along the last axis 2 * (size - 1) elements unless `s` tells."""
    node = _complex(x)
    found, sizes = _axes(node, s, axes)
    for axis, n in zip(found[:-1], sizes[:-1], strict=True):
        node = _resized(node, n, axis)
    last, wanted = found[-1], sizes[-1]
    if wanted is None:
        size = node.shape[last]
        if not isinstance(size, int):
            raise TypeMismatch(f"irfftn requires a known size along axis {last}, got {node.type}")
        wanted = 2 * (size - 1)
    node = _resized(node, wanted // 2 + 1, last)
    result = linalg_builders.irfft_axes(node, found, wanted)
    return _scaled(result, [result.shape[a] for a in found], norm, True)


def _one(n: int | None) -> tuple[int] | None:
    return None if n is None else (n,)


def fft(x: Operand, n: int | None = None, axis: int = -1, norm: str = "backward") -> Traced:
    """The transform along an axis, resized to n before."""
    return fftn(x, _one(n), (axis,), norm)


def ifft(x: Operand, n: int | None = None, axis: int = -1, norm: str = "backward") -> Traced:
    """The inverse transform along an axis, resized to n before."""
    return ifftn(x, _one(n), (axis,), norm)


def rfft(x: Operand, n: int | None = None, axis: int = -1, norm: str = "backward") -> Traced:
    """The first n // 2 + 1 of the transform of real numbers along an axis."""
    return rfftn(x, _one(n), (axis,), norm)


def irfft(x: Operand, n: int | None = None, axis: int = -1, norm: str = "backward") -> Traced:
    """The inverse of `rfft`, real numbers."""
    return irfftn(x, _one(n), (axis,), norm)


def fftfreq(n: int, d: float = 1.0, dtype: Any = "f64") -> Traced:
    """The frequencies that `fft` gives, of samples at a distance d."""
    return Traced(builders.constant(np.fft.fftfreq(n, d))).astype(dtype)


def rfftfreq(n: int, d: float = 1.0, dtype: Any = "f64") -> Traced:
    """The frequencies that `rfft` gives, of samples at a distance d."""
    return Traced(builders.constant(np.fft.rfftfreq(n, d))).astype(dtype)


def _shift(x: Operand, axes: Axes, inverse: bool) -> Traced:
    node = lift(x)
    rank = len(node.shape)
    for axis in resolve_axes(range(rank) if axes is None else axes, rank):
        size = node.shape[axis]
        if not isinstance(size, int):
            raise TypeMismatch(f"a shift requires a known size along axis {axis}, got {node.type}")
        node = window_builders.roll(node, -(size // 2) if inverse else size // 2, axis)
    return Traced(node)


def fftshift(x: Operand, axes: Axes = None) -> Traced:
    """Frequency 0 moved to the middle of each axis."""
    return _shift(x, axes, inverse=False)


def ifftshift(x: Operand, axes: Axes = None) -> Traced:
    """The inverse of `fftshift`."""
    return _shift(x, axes, inverse=True)

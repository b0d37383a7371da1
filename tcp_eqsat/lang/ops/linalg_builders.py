"""Constructors of nodes of linear algebra: cholesky, triangular_solve, Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence

from tcp_eqsat.errors import ShapeMismatch, TypeMismatch
from tcp_eqsat.lang.dims import Size, equal
from tcp_eqsat.lang.op import op_named
from tcp_eqsat.lang.ops.attributes import CholeskyAttributes, FftAttributes, TriangularSolveAttributes
from tcp_eqsat.lang.ops.builders import (
    broadcast_scalar,
    concatenate,
    map_scalar,
    size_value,
    slice_,
    splat,
    transpose,
)
from tcp_eqsat.lang.ops.window_builders import reverse
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.scalar import scalar_op_named as _op


def cholesky(x: Node, *, lower: bool = True) -> Node:
    """L with x = L L^H, or U with x = U^H U, of matrices in the last two axes; NaN where x is not positive definite."""
    return Node.make(op_named("cholesky"), (x,), CholeskyAttributes(lower))


def triangular_solve(a: Node, b: Node, *, left: bool = True, lower: bool = True, unit_diagonal: bool = False,
                     transposed: bool = False, conjugated: bool = False) -> Node:
    """x with op(a) x = b, or x op(a) = b; op transposes and conjugates."""
    conjugated = conjugated and a.dtype.is_complex
    return Node.make(op_named("triangular_solve"), (a, b), TriangularSolveAttributes(
        left, lower, unit_diagonal, transposed, conjugated))


def fft(x: Node, *, inverse: bool = False) -> Node:
    """The transform of a complex tensor along its last axis; nothing is divided."""
    return Node.make(op_named("fft"), (x,), FftAttributes(inverse))


def fft_axes(x: Node, axes: Sequence[int], *, inverse: bool = False) -> Node:
    """The transform of a complex tensor along several axes; the inverse is divided by their sizes."""
    rank = len(x.shape)
    if len(set(axes)) != len(axes) or not all(0 <= a < rank for a in axes):
        raise TypeMismatch(f"fft requires distinct axes of {x.type}, got {list(axes)}")
    for axis in axes:
        order = (*(a for a in range(rank) if a != axis), axis)
        x = transpose(fft(transpose(x, order), inverse=inverse), tuple(order.index(a) for a in range(rank)))
        if inverse:
            x = map_scalar(_op("divide"), x, _as_number(x.shape[axis], x))
    return x


def _as_number(size: Size, x: Node) -> Node:
    real = map_scalar(_op(f"astype_{x.dtype.part}"), size_value(size))
    return broadcast_scalar(map_scalar(_op(f"astype_{x.dtype}"), real), x.shape)


def rfft_axes(x: Node, axes: Sequence[int]) -> Node:
    """The transform of a real tensor along several axes, of the last of which the first size // 2 + 1 are kept."""
    if not axes:
        raise TypeMismatch(f"rfft requires at least one axis of {x.type}")
    whole = fft_axes(map_scalar(_op("complex"), x, splat(0, x.dtype, x.shape)), axes[-1:])
    last = axes[-1]
    limits = tuple(size // 2 + 1 if a == last else size for a, size in enumerate(x.shape))
    return fft_axes(slice_(whole, (0,) * len(limits), limits), axes[:-1])


def irfft_axes(x: Node, axes: Sequence[int], size: int) -> Node:
    """The inverse of `rfft_axes` with `size` elements along the last of the axes.

    Raises ShapeMismatch where x does not have size // 2 + 1 elements along it.
    """
    if not axes:
        raise TypeMismatch(f"irfft requires at least one axis of {x.type}")
    last = axes[-1]
    if not equal(x.shape[last], size // 2 + 1):
        raise ShapeMismatch(f"irfft to {size} elements requires {size // 2 + 1} along axis {last}, got {x.type}")
    x = fft_axes(x, axes[:-1], inverse=True)
    end = (size + 1) // 2  # of what has a mirror image
    starts = tuple(1 if a == last else 0 for a in range(len(x.shape)))
    limits = tuple(max(end, 1) if a == last else n for a, n in enumerate(x.shape))
    mirrored = map_scalar(_op("conj"), reverse(slice_(x, starts, limits), (last,)))
    return map_scalar(_op("real"), fft_axes(concatenate((x, mirrored), last), (last,), inverse=True))

"""Decompositions, solves, Fourier transforms and normalisation of XLA's dialects."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tcp_eqsat.errors import ShapeMismatch, TypeMismatch, VerificationError
from tcp_eqsat.frontends.mlir.hlo_elementwise import apply_scalar, convert
from tcp_eqsat.frontends.mlir.site import Lowering, Site
from tcp_eqsat.lang.dims import equal
from tcp_eqsat.lang.ops.builders import broadcast_in_dim, reduce_axes, size_value, splat
from tcp_eqsat.lang.ops.linalg_builders import cholesky, fft_axes, irfft_axes, rfft_axes, triangular_solve
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.scalar import scalar_op_named

_TRANSPOSES = {"NO_TRANSPOSE": (False, False), "TRANSPOSE": (True, False), "ADJOINT": (True, True)}


def _cholesky(site: Site) -> Node:
    (x,) = site.tensors(1)
    return cholesky(x, lower=site.flag("lower"))


def _triangular_solve(site: Site) -> Node:
    a, b = site.tensors(2)
    word = site.word("transpose_a", "NO_TRANSPOSE")
    if word not in _TRANSPOSES:
        raise VerificationError(f"{site.name} requires a transpose_a of {', '.join(_TRANSPOSES)}, got {word!r}")
    transposed, conjugated = _TRANSPOSES[word]
    return triangular_solve(
        a, b, left=site.flag("left_side"), lower=site.flag("lower"), unit_diagonal=site.flag("unit_diagonal"),
        transposed=transposed, conjugated=conjugated)


def _fft(site: Site) -> Node:
    """Along the last axes, one for each length."""
    (x,) = site.tensors(1)
    kind, lengths = site.word("fft_type"), site.integers("fft_length")
    rank = len(x.shape)
    axes = range(rank - len(lengths), rank)
    if not lengths or axes[0] < 0:
        raise TypeMismatch(f"{site.name} requires a length for some last axes of {x.type}, got {list(lengths)}")
    transforms: Mapping[str, Callable[[], Node]] = {
        "FFT": lambda: fft_axes(x, axes),
        "IFFT": lambda: fft_axes(x, axes, inverse=True),
        "RFFT": lambda: rfft_axes(x, axes),
        "IRFFT": lambda: irfft_axes(x, axes, lengths[-1]),
    }
    if kind not in transforms:
        raise VerificationError(f"{site.name} requires an fft_type of {', '.join(transforms)}, got {kind!r}")
    given = axes[:-1] if kind == "IRFFT" else axes
    for axis, length in zip(given, lengths, strict=False):
        if not site.assume_equal(x.shape[axis], length):
            raise ShapeMismatch(f"{site.name} requires {length} elements along axis {axis}, got {x.type}")
    return transforms[kind]()


# Normalisation over all axes but the one of features


def _feature_axis(site: Site, x: Node) -> tuple[int, tuple[int, ...]]:
    """The axis of features, and the others."""
    axis = site.integer("feature_index")
    if not 0 <= axis < len(x.shape):
        raise TypeMismatch(f"{site.name} requires a feature_index below the rank of {x.type}, got {axis}")
    return axis, tuple(a for a in range(len(x.shape)) if a != axis)


def _spread(site: Site, value: Node, x: Node, axis: int) -> Node:
    """A value per feature at every index of x."""
    if len(value.shape) != 1 or not equal(value.shape[0], x.shape[axis]):
        raise ShapeMismatch(f"{site.name} requires a value for each feature of {x.type}, got {value.type}")
    return broadcast_in_dim(value, x.shape, (axis,))


def _mean(x: Node, axes: tuple[int, ...]) -> Node:
    total = reduce_axes(scalar_op_named("add"), x, axes)
    count = convert(size_value(1), x.dtype)
    for axis in axes:
        count = apply_scalar("multiply", count, convert(size_value(x.shape[axis]), x.dtype))
    return apply_scalar("divide", total, broadcast_in_dim(count, total.shape, ()))


def _scaled(site: Site, variance: Node) -> Node:
    """1 / sqrt(variance + epsilon)."""
    epsilon = splat(site.number("epsilon"), variance.dtype, variance.shape)
    root = apply_scalar("sqrt", apply_scalar("add", variance, epsilon))
    return apply_scalar("divide", splat(1, root.dtype, root.shape), root)


def _normalised(site: Site, x: Node, axis: int, mean: Node, variance: Node) -> Node:
    centred = apply_scalar("subtract", x, _spread(site, mean, x, axis))
    return apply_scalar("multiply", centred, _spread(site, _scaled(site, variance), x, axis))


def _inference(site: Site) -> Node:
    x, scale, offset, mean, variance = site.tensors(5)
    axis, _ = _feature_axis(site, x)
    found = apply_scalar("multiply", _normalised(site, x, axis, mean, variance), _spread(site, scale, x, axis))
    return apply_scalar("add", found, _spread(site, offset, x, axis))


def _training(site: Site) -> tuple[Node, ...]:
    x, scale, offset = site.tensors(3)
    axis, others = _feature_axis(site, x)
    mean = _mean(x, others)
    centred = apply_scalar("subtract", x, _spread(site, mean, x, axis))
    variance = _mean(apply_scalar("multiply", centred, centred), others)
    found = apply_scalar("multiply", _normalised(site, x, axis, mean, variance), _spread(site, scale, x, axis))
    return apply_scalar("add", found, _spread(site, offset, x, axis)), mean, variance


def _gradient(site: Site) -> tuple[Node, ...]:
    """Cotangents of operand, scale and offset of the training form."""
    x, scale, mean, variance, g = site.tensors(5)
    axis, others = _feature_axis(site, x)
    normalised = _normalised(site, x, axis, mean, variance)
    add = scalar_op_named("add")
    of_offset = reduce_axes(add, g, others)
    of_scale = reduce_axes(add, apply_scalar("multiply", g, normalised), others)
    correction = apply_scalar(
        "add", _spread(site, _mean(g, others), x, axis),
        apply_scalar("multiply", normalised,
                     _spread(site, _mean(apply_scalar("multiply", g, normalised), others), x, axis)))
    factor = apply_scalar("multiply", scale, _scaled(site, variance))
    of_x = apply_scalar("multiply", _spread(site, factor, x, axis), apply_scalar("subtract", g, correction))
    return of_x, of_scale, of_offset


LINEAR: Mapping[str, Lowering] = {
    "batch_norm_grad": _gradient,
    "batch_norm_inference": _inference,
    "batch_norm_training": _training,
    "cholesky": _cholesky,
    "fft": _fft,
    "triangular_solve": _triangular_solve,
}

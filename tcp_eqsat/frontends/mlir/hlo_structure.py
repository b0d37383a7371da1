"""Operations of XLA's dialects that make or move elements: constants, broadcasts, reshapes, slices."""

from __future__ import annotations

from collections.abc import Mapping

from tcp_eqsat.errors import ParseError, ShapeMismatch, TypeMismatch
from tcp_eqsat.frontends.mlir.literals import decode
from tcp_eqsat.frontends.mlir.scope import tensor_parts
from tcp_eqsat.frontends.mlir.site import Lowering, Site
from tcp_eqsat.frontends.mlir.tree import Dense
from tcp_eqsat.lang.dims import Size, exact_divide, product
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.ops.builders import broadcast_in_dim, broadcast_scalar
from tcp_eqsat.lang.program import Node


def _constant(site: Site) -> Node:
    literal = site.attribute("value")
    if not isinstance(literal, Dense):
        raise ParseError(f"{site.name} requires a dense literal", site.where)
    value = builders.constant(decode(literal, site.scope.source))
    shape = tuple(size for size in literal.type.shape if size is not None)
    return value if value.shape == shape else broadcast_scalar(value, shape)


def _iota(site: Site) -> Node:
    site.require_operands(0)
    dtype, _ = site.stated()
    return builders.iota(dtype, site.result_shape(), site.integer("iota_dimension"))


def _broadcast(site: Site) -> Node:
    """`broadcast_sizes` are new leading axes; -1 stands for a size that the result's type
    leaves open."""
    (x,) = site.tensors(1)
    sizes = site.integers("broadcast_sizes")
    rank = len(sizes)
    given: dict[int, Size] = {axis: size for axis, size in enumerate(sizes) if size >= 0}
    given.update({rank + axis: size for axis, size in enumerate(x.shape)})
    stated = site.stated()[1]
    if len(stated) != rank + len(x.shape):
        raise TypeMismatch(
            f"{site.name} gives rank {rank + len(x.shape)}, the text states rank {len(stated)}"
        )
    open_axes = {axis for axis, size in enumerate(sizes) if size < 0}
    result = site.result_shape(given)
    shape = tuple(size if axis in open_axes else given[axis] for axis, size in enumerate(result))
    return broadcast_in_dim(x, shape, tuple(range(rank, len(shape))))


def _broadcast_in_dim(site: Site) -> Node:
    site.require_operands(1)
    return broadcast_along(site, None)


def broadcast_along(site: Site, shape: tuple[Size, ...] | None) -> Node:
    """Operand 0 with its axes at `broadcast_dimensions` of `shape`, or of the stated shape. Where
    the text leaves both sizes open they are equal; only an axis that is stated as 1 stretches."""
    x, axes = site.tensor(0), site.integers("broadcast_dimensions")
    known: dict[int, Size] = {}
    if len(axes) == len(x.shape) and site.op.operand_types:
        _, stated = tensor_parts(site.op.operand_types[0])
        known = {
            axis: size
            for axis, size, given in zip(axes, x.shape, stated, strict=True)
            if given != 1
        }
    if shape is None:
        shape = site.result_shape(known)
    for axis, size in known.items():
        if 0 <= axis < len(shape):
            site.assume_equal(size, shape[axis])
    return broadcast_in_dim(site.tensor(0), tuple(map(site.scope.sizes.resolve, shape)), axes)


def _reshape(site: Site) -> Node:
    """A single open size follows from the number of elements."""
    (x,) = site.tensors(1)
    stated = site.stated()[1]
    known = [size for size in stated if size is not None]
    if stated.count(None) == 1 and 0 not in known:
        rest = exact_divide(product(x.shape), product(known))
        if rest is not None:
            return builders.reshape(x, site.result_shape({stated.index(None): rest}))
    return builders.reshape(x, site.result_shape())


def _transpose(site: Site) -> Node:
    (x,) = site.tensors(1)
    return builders.transpose(x, site.integers("permutation"))


def _slice(site: Site) -> Node:
    (x,) = site.tensors(1)
    starts = site.integers("start_indices")
    limits = site.integers("limit_indices")
    strides = site.integers("strides", (1,) * len(starts))
    for size, limit in zip(x.shape, limits, strict=False):
        site.scope.sizes.assume_at_least(size, limit)
    return builders.slice_(site.tensor(0), starts, limits, strides)


def _concatenate(site: Site) -> Node:
    operands = site.tensors()
    axis = site.integer("dimension")
    if not operands:
        raise TypeMismatch(f"{site.name} requires at least one operand")
    first = operands[0]
    for x in operands[1:]:
        if len(x.shape) == len(first.shape):
            for number, (left, right) in enumerate(zip(first.shape, x.shape, strict=True)):
                if number != axis:
                    site.assume_equal(left, right)
    return builders.concatenate(site.tensors(), axis)


def _pad(site: Site) -> Node:
    """Negative amounts cut; interior padding goes by a view with an inner axis."""
    x, value = site.tensors(2)
    low, high = site.integers("edge_padding_low"), site.integers("edge_padding_high")
    rank = len(x.shape)
    interior = site.integers("interior_padding", (0,) * rank)
    if not len(low) == len(high) == len(interior) == rank:
        raise TypeMismatch(f"{site.name} requires amounts for each axis of {x.type}")
    if any(amount < 0 for amount in interior):
        raise TypeMismatch(
            f"{site.name} requires interior padding of at least 0, got {list(interior)}"
        )
    for axis, amount in enumerate(interior):
        if amount:
            x = _pad_interior(site, x, value, axis, amount)
    x = builders.pad(x, value, tuple(max(0, n) for n in low), tuple(max(0, n) for n in high))
    starts = tuple(max(0, -n) for n in low)
    limits = tuple(size - max(0, -n) for size, n in zip(x.shape, high, strict=True))
    return builders.slice_(x, starts, limits)


def _pad_interior(site: Site, x: Node, value: Node, axis: int, amount: int) -> Node:
    """`amount` times the value between neighbours along `axis`."""
    size = x.shape[axis]
    if not isinstance(size, int):
        raise ShapeMismatch(
            f"{site.name} requires a known size where it pads between elements, got {x.type} axis {axis}"
        )
    if size < 2:
        return x
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    split = builders.reshape(x, (*before, size, 1, *after))
    zeros = (0,) * len(split.shape)
    high = (*zeros[: axis + 1], amount, *zeros[axis + 2 :])
    whole = builders.reshape(
        builders.pad(split, value, zeros, high), (*before, size * (amount + 1), *after)
    )
    limits = (*before, size * (amount + 1) - amount, *after)
    return builders.slice_(whole, (0,) * len(x.shape), limits)


STRUCTURE: Mapping[str, Lowering] = {
    "broadcast": _broadcast,
    "broadcast_in_dim": _broadcast_in_dim,
    "concatenate": _concatenate,
    "constant": _constant,
    "iota": _iota,
    "pad": _pad,
    "reshape": _reshape,
    "slice": _slice,
    "transpose": _transpose,
}

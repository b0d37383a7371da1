"""Operations of XLA's dialects that move elements: broadcasts, reshapes, slices, padding."""

from __future__ import annotations

from collections.abc import Mapping

from tcp_eqsat.errors import ShapeMismatch, TypeMismatch
from tcp_eqsat.frontends.mlir.known import known_integers, known_sizes
from tcp_eqsat.frontends.mlir.scope import tensor_parts
from tcp_eqsat.frontends.mlir.site import Lowering, Site
from tcp_eqsat.lang.dims import Size, exact_divide, product
from tcp_eqsat.lang.ops import builders, window_builders
from tcp_eqsat.lang.ops.builders import broadcast_in_dim
from tcp_eqsat.lang.ops.index_builders import dynamic_slice
from tcp_eqsat.lang.program import Node


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
    return concatenated(site, site.integer("dimension"))


def concatenated(site: Site, axis: int) -> Node:
    """The operands one after the other along an axis; their other sizes are learned to be equal."""
    operands = site.tensors()
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
    x, value = site.tensors(2)
    low, high = site.integers("edge_padding_low"), site.integers("edge_padding_high")
    return _padded(x, value, low, high, site.integers("interior_padding", (0,) * len(x.shape)))


def _padded(x: Node, value: Node, low: tuple[Size, ...], high: tuple[Size, ...], interior: tuple[Size, ...]) -> Node:
    between = [n for n in interior if isinstance(n, int)]
    if len(between) != len(interior):
        raise ShapeMismatch(f"pad requires numbers as interior padding, got {list(map(str, interior))}")
    return window_builders.pad_general(x, value, low, high, between)


def _reverse(site: Site) -> Node:
    (x,) = site.tensors(1)
    axes = site.integers("dimensions")
    if len(set(axes)) != len(axes) or not all(0 <= axis < len(x.shape) for axis in axes):
        raise TypeMismatch(f"{site.name} requires distinct axes of {x.type}, got {list(axes)}")
    return window_builders.reverse(x, axes)


# Shapes that are operands


def shape_operand(site: Site, position: int) -> tuple[Size, ...]:
    """The shape that an operand holds, which is known when the program is read, or else stated."""
    stated = site.stated()[1]
    content = site.content(position)
    if isinstance(content, Node) and None not in stated and content.shape == (len(stated),):
        return tuple(size for size in stated if size is not None)
    return site.known(position)


def _dynamic_reshape(site: Site) -> Node:
    site.require_operands(2)
    return builders.reshape(site.tensor(0), shape_operand(site, 1))


def _dynamic_broadcast_in_dim(site: Site) -> Node:
    site.require_operands(2)
    return broadcast_along(site, shape_operand(site, 1))


def _real_dynamic_slice(site: Site) -> Node:
    """Starts may be values where the limits are these and sizes that are known: then they are clamped."""
    site.require_operands(4)
    window = _window(site)
    if window is not None:
        return window
    starts, limits, strides = (site.known(n) for n in (1, 2, 3))
    steps = tuple(n for n in strides if isinstance(n, int))
    if len(steps) != len(strides):
        raise ShapeMismatch(f"{site.name} requires numbers as strides, got {list(map(str, strides))}")
    return builders.slice_(site.tensor(0), starts, limits, steps)


def _window(site: Site) -> Node | None:
    """A slice with strides of 1 whose starts are values and whose sizes are known, or None."""
    x, starts, limits = site.tensor(0), site.content(1), site.content(2)
    if not isinstance(starts, Node) or not isinstance(limits, Node) or known_integers(starts) is not None:
        return None
    if any(n != 1 for n in site.known(3)):
        return None
    stated = site.stated()[1]
    sizes: tuple[Size, ...] = tuple(size for size in stated if size is not None)
    if len(sizes) != len(stated):
        op = limits.attributes.function.single_op if limits.op.name == "map" else None
        others = [each for each in limits.operands if each is not starts]
        found = known_sizes(others[0]) if op is not None and op.name == "add" and len(others) == 1 else None
        if found is None:
            return None
        sizes = found
    numbers = [
        builders.reshape(builders.slice_(starts, (n,), (n + 1,)), ()) for n in range(len(x.shape))]
    return dynamic_slice(x, numbers, sizes)


def _dynamic_pad(site: Site) -> Node:
    site.require_operands(5)
    return _padded(site.tensor(0), site.tensor(1), *(site.known(n) for n in (2, 3, 4)))


def _set_dimension_size(site: Site) -> Node:
    """The first elements along an axis."""
    site.require_operands(2)
    x, axis = site.tensor(0), site.integer("dimension")
    sizes = site.known(1)
    if not 0 <= axis < len(x.shape) or len(sizes) != 1:
        raise TypeMismatch(f"{site.name} requires an axis of {x.type} and one size, got {axis} and {len(sizes)}")
    limits = tuple(sizes[0] if a == axis else size for a, size in enumerate(x.shape))
    return builders.slice_(x, (0,) * len(limits), limits)


STRUCTURE: Mapping[str, Lowering] = {
    "broadcast": _broadcast,
    "broadcast_in_dim": _broadcast_in_dim,
    "concatenate": _concatenate,
    "dynamic_broadcast_in_dim": _dynamic_broadcast_in_dim,
    "dynamic_pad": _dynamic_pad,
    "dynamic_reshape": _dynamic_reshape,
    "pad": _pad,
    "real_dynamic_slice": _real_dynamic_slice,
    "reshape": _reshape,
    "reverse": _reverse,
    "set_dimension_size": _set_dimension_size,
    "slice": _slice,
    "transpose": _transpose,
}

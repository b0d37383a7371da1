"""NumPy's indexing of a value: ints, slices, None, an Ellipsis, and tensors of integers."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from types import EllipsisType
from typing import Any

import numpy as np

from tcp_eqsat.errors import ShapeMismatch, TypeMismatch
from tcp_eqsat.lang.dims import Dim, Size, equal, less_equal, symbols_of
from tcp_eqsat.lang.ops import builders, index_builders, window_builders
from tcp_eqsat.lang.ops.attributes import WindowAxes
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.scalar import scalar_op_named as _op
from tcp_eqsat.lang.types import I64, Shape


def as_size(value: Any) -> Size:
    """An int or a symbolic size; raises TypeMismatch for anything else."""
    if isinstance(value, Dim):
        return value
    try:
        if not isinstance(value, (bool, np.bool_)):
            return operator.index(value)
    except TypeError:
        pass
    raise TypeMismatch(f"a size or index must be an int or symbolic, got {value!r}")


def take_index(node: Node, index: tuple[Any, ...]) -> Node:
    """The value at an index of ints, slices, None, one Ellipsis and integer tensors (nodes), as NumPy has it.

    Elements of tensors count from the end where they are negative; what is still outside is clamped. Raises
    TypeMismatch for other indices, ShapeMismatch where an int or slice is not provably within its axis.
    """
    items = _items(node, index)
    if not any(isinstance(item, Node) for item in items):
        return _boxed(node, items)
    plain = [slice(None) if isinstance(item, (Node, int, np.integer)) else item for item in items]
    axes: list[int] = []  # of the plain result, one for each tensor or int
    tensors: list[Node] = []
    axis = 0
    for result_axis, item in enumerate(items):
        if isinstance(item, Node):
            axes.append(result_axis)
            tensors.append(from_end(item, node.shape[axis]))
        elif isinstance(item, (int, np.integer)):
            axes.append(result_axis)
            position = _position(item, node.shape[axis], node, axis)
            tensors.append(builders.size_value(position))
        axis += item is not None
    return _gathered(_boxed(node, plain), axes, tensors)


def _items(node: Node, index: tuple[Any, ...]) -> list[Any]:
    """One item for each axis, and each None."""
    given = sum(item is not None and not isinstance(item, EllipsisType) for item in index)
    if given > len(node.shape) or sum(isinstance(item, EllipsisType) for item in index) > 1:
        raise TypeMismatch(f"{node.type} can't be indexed by {len(index)} items")
    if not any(isinstance(item, EllipsisType) for item in index):
        index = (*index, ...)
    items: list[Any] = []
    for item in index:
        items.extend([slice(None)] * (len(node.shape) - given) if isinstance(item, EllipsisType) else [item])
    return items


# Boxes


@dataclass(frozen=True)
class _Range:
    """Indices start, start + stride, ... below limit, of the axis or of the axis backwards."""

    start: Size
    limit: Size
    stride: int
    backwards: bool = False

    @property
    def size(self) -> Size:
        return (self.limit - self.start + (self.stride - 1)) // self.stride


def _boxed(node: Node, items: list[Any]) -> Node:
    """Ints, slices and None."""
    ranges: list[_Range] = []
    labels: list[int] = []
    shape: list[Size] = []
    for item in items:
        if item is None:
            shape.append(1)
            continue
        axis = len(ranges)
        size = node.shape[axis]
        if isinstance(item, slice):
            ranges.append(_slice_range(item, size, node, axis))
            labels.append(len(shape))
            shape.append(ranges[-1].size)
        else:
            start = _position(item, size, node, axis)
            ranges.append(_Range(start, start + 1, 1))
            labels.append(-1)
    turned = window_builders.reverse(node, [axis for axis, each in enumerate(ranges) if each.backwards])
    boxed = builders.slice_(turned, tuple(r.start for r in ranges), tuple(r.limit for r in ranges),
                            tuple(r.stride for r in ranges))
    return builders.view(boxed, tuple(labels), tuple(shape))


def _position(item: Any, size: Size, node: Node, axis: int) -> Size:
    item = as_size(item)
    position = item + size if isinstance(item, int) and item < 0 else item
    if less_equal(0, position) is not True or less_equal(position + 1, size) is not True:
        facts = "".join(f", where {each.requirement()}" for each in symbols_of(size))
        raise ShapeMismatch(f"index {item} is not provably within axis {axis} of {node.type}{facts}")
    return position


def _slice_range(item: slice, size: Size, node: Node, axis: int) -> _Range:
    stride = 1 if item.step is None else as_size(item.step)
    if not isinstance(stride, int) or stride == 0:
        raise TypeMismatch(f"slices require int steps other than 0, got {stride} along axis {axis} of {node.type}")

    def bound(value: Any, default: Size) -> Size:
        """From the front; backwards, from the end."""
        if value is None:
            return default
        value = as_size(value)
        if isinstance(value, int) and value < 0:
            value = value + size
        if stride < 0:
            value = size - 1 - value
        if isinstance(value, int) and isinstance(size, int):
            return max(0, min(value, size))
        return value

    start, limit = bound(item.start, 0), bound(item.stop, size)
    if isinstance(start, int) and isinstance(limit, int):
        limit = max(start, limit)
    return _Range(start, limit, abs(stride), stride < 0)


# Tensors of indices


def from_end(indices: Node, size: Size) -> Node:
    """Indices as i64, where negative ones count from the end; raises TypeMismatch for other dtypes than integers."""
    if not indices.dtype.is_integer:
        raise TypeMismatch(f"indices must be of an integer dtype, got {indices.type}")
    wide = indices if indices.dtype == I64 else builders.map_scalar(_op("astype_i64"), indices)
    if not indices.dtype.is_signed:
        return wide
    zero = builders.splat(0, I64, wide.shape)
    whole = builders.broadcast_scalar(builders.size_value(size), wide.shape)
    moved = builders.map_scalar(_op("add"), wide, whole)
    return builders.map_scalar(_op("where"), builders.map_scalar(_op("less"), wide, zero), moved, wide)


def _gathered(node: Node, axes: list[int], tensors: list[Node]) -> Node:
    """The value at tensors of indices along some axes.

    The axes of the tensors, broadcast together, stand in the place of the axes where those are neighbours, else first.
    """
    shape = _together([x.shape for x in tensors])
    spread = [builders.broadcast_in_dim(x, shape, tuple(range(len(shape) - len(x.shape), len(shape))))
              for x in tensors]
    columns = [builders.view(x, tuple(range(len(shape))), (*shape, 1)) for x in spread]
    indices = builders.concatenate(tuple(columns), len(shape))
    rank = len(node.shape)
    kept = [axis for axis in range(rank) if axis not in axes]
    neighbours = axes == list(range(axes[0], axes[0] + len(axes)))
    first = axes[0] if neighbours else 0
    inside = tuple(n if n < first else n + len(shape) for n in range(len(kept)))
    windows = WindowAxes(inside, tuple(axes), (), (), tuple(axes), len(shape), True)
    sizes = tuple(index_builders.one_of(size) if axis in axes else size for axis, size in enumerate(node.shape))
    return index_builders.gather(node, indices, windows, sizes)


def _together(shapes: list[Shape]) -> Shape:
    rank = max(map(len, shapes))
    result: list[Size] = [1] * rank
    for shape in shapes:
        for axis, size in enumerate(shape, rank - len(shape)):
            if equal(result[axis], 1):
                result[axis] = size
            elif not equal(size, 1) and not equal(size, result[axis]):
                raise ShapeMismatch(f"tensors of indices require shapes that broadcast, got {list(map(list, shapes))}")
    return tuple(result)

"""Constructors of nodes that move and combine windows: reverse, windows, general padding, convolution, pooling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tcp_eqsat.errors import ShapeMismatch, TypeMismatch
from tcp_eqsat.lang.dims import Size, equal, exact_divide, less_equal, maximum, product
from tcp_eqsat.lang.op import op_named
from tcp_eqsat.lang.ops.accumulate_builders import cumulative, is_identity, reduce_by, reduce_general
from tcp_eqsat.lang.ops.accumulate_builders import reduction_operation as operation_of
from tcp_eqsat.lang.ops.attributes import (
    OverlapAddAttributes,
    ReverseAttributes,
    WindowsAttributes,
)
from tcp_eqsat.lang.ops.builders import (
    broadcast_scalar,
    concatenate,
    contract,
    iota,
    map_function,
    pad,
    reshape,
    scalar_constant,
    size_value,
    slice_,
    view,
)
from tcp_eqsat.lang.ops.index_builders import element_axes, renumbered, scatter, take
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.scalar import ScalarFunction, apply, literal
from tcp_eqsat.lang.scalar import parameter as scalar_parameter
from tcp_eqsat.lang.types import I64, Shape

# Axes


def reverse(x: Node, axes: Sequence[int]) -> Node:
    """Axes backwards; over none x itself."""
    return Node.make(op_named("reverse"), (x,), ReverseAttributes(tuple(sorted(axes)))) if axes else x


def tile(x: Node, repeats: Shape) -> Node:
    """The whole of x again and again along each axis; `repeats` for each."""
    if len(repeats) != len(x.shape):
        raise TypeMismatch(f"tile requires {len(x.shape)} numbers of repeats for {x.type}, got {len(repeats)}")
    live = [axis for axis, n in enumerate(repeats) if n != 1]
    shape: list[Size] = []
    labels: list[int] = []
    for axis, size in enumerate(x.shape):
        if axis in live:
            shape.append(repeats[axis])
        labels.append(len(shape))
        shape.append(size)
    whole = tuple(size * n for size, n in zip(x.shape, repeats, strict=True))
    return reshape(view(x, tuple(labels), tuple(shape)), whole)


def repeat(x: Node, count: Size, axis: int) -> Node:
    """Each element `count` times in a row along an axis."""
    shape = (*x.shape[: axis + 1], count, *x.shape[axis + 1:])
    spread = view(x, tuple(a if a <= axis else a + 1 for a in range(len(x.shape))), shape)
    return reshape(spread, (*x.shape[:axis], x.shape[axis] * count, *x.shape[axis + 1:]))


def roll(x: Node, shift: int, axis: int) -> Node:
    """Elements moved by `shift` towards higher indices along an axis; what leaves at the end enters at the start."""
    size = x.shape[axis]
    if isinstance(size, int):
        split = (-shift) % size if size else 0
        return concatenate((_part(x, axis, split, size), _part(x, axis, 0, split)), axis) if split else x
    index = iota(I64, (size,), 0)
    p, n = scalar_parameter(0, I64), scalar_parameter(1, I64)
    moved = apply("fmod", apply("add", apply("fmod", p - shift, n), n), n)
    whole = broadcast_scalar(size_value(size), (size,))
    return take(x, map_function(ScalarFunction((I64, I64), moved), index, whole), axis)


def _part(x: Node, axis: int, start: Size, limit: Size) -> Node:
    starts = tuple(start if a == axis else 0 for a in range(len(x.shape)))
    limits = tuple(limit if a == axis else size for a, size in enumerate(x.shape))
    return slice_(x, starts, limits)


def pad_general(x: Node, value: Node, low: Shape, high: Shape, interior: Sequence[int] | None = None) -> Node:
    """`value` (rank 0) around x and `interior` times between its neighbours; negative amounts cut off at the ends.

    The sign of each amount must be known. Raises ShapeMismatch where it is not, or more is cut off than there is.
    """
    rank = len(x.shape)
    interior = (0,) * rank if interior is None else tuple(interior)
    if not len(low) == len(high) == len(interior) == rank:
        raise TypeMismatch(f"pad requires {rank} amounts before, after and between for {x.type}, got {len(low)}, "
                           f"{len(high)} and {len(interior)}")
    for axis, amount in enumerate(interior):
        if amount < 0:
            raise TypeMismatch(f"pad requires amounts of at least 0 between neighbours, got {amount} along axis {axis}")
        if amount:
            x = _spread(x, value, axis, amount)
    before, after = [_signed(n, axis) for axis, n in enumerate(low)], [_signed(n, axis) for axis, n in enumerate(high)]
    x = pad(x, value, tuple(n for n, _ in before), tuple(n for n, _ in after))
    starts = tuple(cut for _, cut in before)
    return slice_(x, starts, tuple(size - cut for size, (_, cut) in zip(x.shape, after, strict=True)))


def _signed(amount: Size, axis: int) -> tuple[Size, Size]:
    """How much is added, and how much is cut off."""
    if less_equal(0, amount) is True:
        return amount, 0
    if less_equal(amount, 0) is True:
        return 0, -amount
    raise ShapeMismatch(f"pad requires amounts of known sign, got {amount} along axis {axis}")


def _spread(x: Node, value: Node, axis: int, amount: int) -> Node:
    """`amount` values after each element of an axis but the last."""
    shape = x.shape
    split = reshape(x, (*shape[: axis + 1], 1, *shape[axis + 1:]))
    none = (0,) * len(split.shape)
    padded = pad(split, value, none, (*none[: axis + 1], amount, *none[axis + 2:]))
    joined = reshape(padded, (*shape[:axis], shape[axis] * (amount + 1), *shape[axis + 1:]))
    size = shape[axis] * (amount + 1) - amount
    return _part(joined, axis, 0, size if less_equal(0, size) is True else maximum(0, size))


# Windows


def windows(x: Node, axes: Sequence[int], sizes: Shape, strides: Sequence[int] | None = None,
            dilations: Sequence[int] | None = None) -> Node:
    """All windows along `axes`, which number the windows then; the axes inside of windows come last."""
    if not axes:
        return x
    ones = (1,) * len(axes)
    return Node.make(op_named("windows"), (x,), WindowsAttributes(
        tuple(axes), sizes, tuple(strides or ones), tuple(dilations or ones)))


def overlap_add(x: Node, axes: WindowsAttributes, extents: Shape) -> Node:
    """The sum of windows where they lie, in axes of these extents."""
    return Node.make(op_named("overlap_add"), (x,), OverlapAddAttributes(
        axes.axes, axes.sizes, axes.strides, axes.dilations, extents))


@dataclass(frozen=True)
class WindowShape:
    """Windows along every axis of an operand that is padded, inside and around, before.

    sizes, strides, dilations            of the windows, per axis
    low, high                            amounts of padding, which may be negative
    interior                             padding between neighbours
    """

    sizes: Shape
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    low: Shape
    high: Shape
    interior: tuple[int, ...]

    @staticmethod
    def of(sizes: Shape, strides: Sequence[int] | None = None, dilations: Sequence[int] | None = None,
           low: Shape | None = None, high: Shape | None = None, interior: Sequence[int] | None = None) -> WindowShape:
        """Strides and dilations of 1 and no padding unless told."""
        ones, zeros = (1,) * len(sizes), (0,) * len(sizes)
        return WindowShape(sizes, tuple(strides or ones), tuple(dilations or ones), low or zeros, high or zeros,
                           tuple(interior or zeros))

    def live(self) -> tuple[int, ...]:
        """The axes along which windows are more than single elements in a row."""
        return tuple(axis for axis, (size, stride) in enumerate(zip(self.sizes, self.strides, strict=True))
                     if size != 1 or stride != 1)


def _windows_of(x: Node, shape: WindowShape, value: Node) -> tuple[Node, tuple[int, ...]]:
    """Windows of the padded operand, and the axes inside them."""
    if len(shape.sizes) != len(x.shape):
        raise TypeMismatch(f"windows of {x.type} require {len(x.shape)} sizes, got {len(shape.sizes)}")
    padded = pad_general(x, value, shape.low, shape.high, shape.interior)
    axes = shape.live()
    found = windows(padded, axes, tuple(shape.sizes[a] for a in axes), [shape.strides[a] for a in axes],
                    [shape.dilations[a] for a in axes])
    return found, tuple(range(len(x.shape), len(x.shape) + len(axes)))


def reduce_window(operands: Sequence[Node], initial: Sequence[Node], functions: Sequence[ScalarFunction],
                  shape: WindowShape) -> tuple[Node, ...]:
    """Each window combined from the initial values (rank 0) on, with which the operands are padded.

    Windows that reach from an end to every element are a cumulative form.
    """
    found = _as_cumulative(operands, initial, functions, shape)
    if found is not None:
        return found
    windowed = [_windows_of(x, shape, start) for x, start in zip(operands, initial, strict=True)]
    return reduce_by([x for x, _ in windowed], initial, functions, windowed[0][1])


def _as_cumulative(operands: Sequence[Node], initial: Sequence[Node], functions: Sequence[ScalarFunction],
                   shape: WindowShape) -> tuple[Node, ...] | None:
    """One associative operation from an end of one axis on, where the initial value changes nothing."""
    axes = [axis for axis in shape.live() if not equal(operands[0].shape[axis], 1)]
    operation = operation_of(functions[0]) if len(operands) == 1 else None
    if operation is None or len(axes) != 1 or not is_identity(operation, initial[0]):
        return None
    (axis,), size = axes, operands[0].shape[axes[0]]
    plain = all(shape.strides[a] == 1 and shape.interior[a] == 0 for a in range(len(shape.sizes)))
    still = all(shape.low[a] == 0 and shape.high[a] == 0 and shape.sizes[a] == 1
                for a in range(len(shape.sizes)) if a != axis)
    if not plain or not still or shape.dilations[axis] != 1 or not equal(shape.sizes[axis], size):
        return None
    for reverse_, (here, there) in ((False, (shape.low, shape.high)), (True, (shape.high, shape.low))):
        if equal(here[axis], size - 1) and there[axis] == 0:
            return cumulative(operands, functions, axis, reverse=reverse_)
    return None


def select_and_scatter(x: Node, source: Node, initial: Node, select: ScalarFunction, combine: ScalarFunction,
                       shape: WindowShape) -> Node:
    """In each window of x one element is selected, into whose place the window's source is combined.

    `select` of a value and the next one says whether the former stays, in row-major order; elements of padding are
    never selected. The result has x's shape and starts as `initial` (rank 0); sources come in row-major order.
    """
    count = product(x.shape)
    place = reshape(iota(I64, (count,), 0), x.shape)
    values, inside = _windows_of(x, shape, scalar_constant(0, x.dtype))
    places, _ = _windows_of(place, shape, scalar_constant(-1, I64))
    best, at = scalar_parameter(0, x.dtype), scalar_parameter(1, I64)
    value, index = scalar_parameter(2, x.dtype), scalar_parameter(3, I64)
    parameters = (x.dtype, I64, x.dtype, I64)
    stays = renumbered(select, (0, 2), parameters).result
    none_yet = apply("less", at, literal(0, I64))
    better = apply("bitwise_and", apply("greater_equal", index, literal(0, I64)),
                   apply("bitwise_or", none_yet, apply("bitwise_invert", stays)))
    functions = [ScalarFunction(parameters, apply("where", better, new, old))
                 for new, old in ((value, best), (index, at))]
    start = (scalar_constant(0, x.dtype), scalar_constant(-1, I64))
    _, chosen = reduce_general((values, places), start, functions, inside)
    if len(chosen.shape) != len(source.shape) or not all(map(equal, chosen.shape, source.shape)):
        raise ShapeMismatch(f"select_and_scatter requires a source for each window, of shape {list(chosen.shape)}, got "
                            f"{source.type}")
    number = product(source.shape)
    axes = element_axes()
    (flat,) = scatter((broadcast_scalar(initial, (count,)),), reshape(chosen, (number,)), (reshape(source, (number,)),),
                      axes, (combine,))
    return reshape(flat, x.shape)


# Convolution


@dataclass(frozen=True)
class ConvolutionAxes:
    """Which axis is which: of the input (batch, feature, spatial...), the kernel (input feature, output feature,
    spatial...) and the result (batch, feature, spatial...)."""

    input: tuple[int, ...]
    kernel: tuple[int, ...]
    result: tuple[int, ...]

    @staticmethod
    def channels_first(spatial: int) -> ConvolutionAxes:
        """NCHW, OIHW."""
        axes = tuple(range(spatial + 2))
        return ConvolutionAxes(axes, (1, 0, *axes[2:]), axes)

    @staticmethod
    def channels_last(spatial: int) -> ConvolutionAxes:
        """NHWC, HWIO."""
        axes = (0, spatial + 1, *range(1, spatial + 1))
        return ConvolutionAxes(axes, (spatial, spatial + 1, *range(spatial)), axes)


def convolution(x: Node, kernel: Node, axes: ConvolutionAxes, *, strides: Sequence[int] | None = None,
                low: Shape | None = None, high: Shape | None = None, input_dilation: Sequence[int] | None = None,
                kernel_dilation: Sequence[int] | None = None, reversed_axes: Sequence[bool] | None = None,
                feature_groups: int = 1, batch_groups: int = 1) -> Node:
    """A convolution (without reversal: a correlation) over any number of spatial axes, in any layout.

    Strides, padding, dilations (1: none) and reversals are per spatial axis. With `feature_groups` the features of
    input and kernel fall into groups of their own, with `batch_groups` the batch does. Raises TypeMismatch or
    ShapeMismatch where axes and sizes do not fit.
    """
    spatial = len(axes.input) - 2
    _check_convolution(x, kernel, axes, feature_groups, batch_groups)
    ones, zeros = (1,) * spatial, (0,) * spatial
    batch, feature, *places = axes.input
    _, _, *kernel_places = axes.kernel
    dilated = [n - 1 for n in (input_dilation or ones)]
    x = pad_general(x, scalar_constant(0, x.dtype), *_spatial(x, places, low or zeros, high or zeros, dilated))
    flipped = [axis for axis, backwards in zip(kernel_places, reversed_axes or zeros, strict=True) if backwards]
    kernel = reverse(kernel, flipped)
    sizes = tuple(kernel.shape[axis] for axis in kernel_places)
    order = sorted(range(spatial), key=lambda n: places[n])
    found = windows(x, [places[n] for n in order], tuple(sizes[n] for n in order),
                    [(strides or ones)[n] for n in order], [(kernel_dilation or ones)[n] for n in order])
    inside = [0] * spatial
    for n, which in enumerate(order):
        inside[which] = len(x.shape) + n
    found_axes = (batch, feature, *places, *inside)
    return _grouped(found, found_axes, kernel, axes, feature_groups, batch_groups)


def _spatial(x: Node, places: Sequence[int], low: Shape, high: Shape, interior: Sequence[int]
             ) -> tuple[Shape, Shape, tuple[int, ...]]:
    """Amounts per spatial axis as amounts per axis of x."""
    order = {axis: n for n, axis in enumerate(places)}
    rank = len(x.shape)
    return (tuple(low[order[a]] if a in order else 0 for a in range(rank)),
            tuple(high[order[a]] if a in order else 0 for a in range(rank)),
            tuple(interior[order[a]] if a in order else 0 for a in range(rank)))


def _check_convolution(x: Node, kernel: Node, axes: ConvolutionAxes, feature_groups: int, batch_groups: int) -> None:
    rank = len(axes.input)
    sides = (("input", axes.input, x), ("kernel", axes.kernel, kernel), ("result", axes.result, None))
    for what, own, operand in sides:
        if sorted(own) != list(range(rank)) or rank < 2 or (operand is not None and len(operand.shape) != rank):
            raise TypeMismatch(f"convolution requires all axes of the {what}, batch, feature and spatial, got "
                               f"{list(own)}" + (f" for {operand.type}" if operand is not None else ""))
    if feature_groups < 1 or batch_groups < 1 or (feature_groups > 1 and batch_groups > 1):
        raise TypeMismatch(f"convolution requires groups of features or of the batch, got {feature_groups} and "
                           f"{batch_groups}")
    groups = feature_groups * batch_groups
    features, wanted = x.shape[axes.input[1]], kernel.shape[axes.kernel[0]]
    if not equal(features, wanted * feature_groups):
        raise ShapeMismatch(f"convolution in {feature_groups} groups requires {wanted} input features in each, as the "
                            f"kernel {kernel.type} has, got {features} of {x.type}")
    for size, divided, what in ((kernel.shape[axes.kernel[1]], groups, "output features of the kernel"),
                                (x.shape[axes.input[0]], batch_groups, "batch")):
        if exact_divide(size, divided) is None:
            raise ShapeMismatch(f"convolution in {divided} groups requires a multiple of it as {what}, got {size}")


def _grouped(x: Node, x_axes: Sequence[int], kernel: Node, axes: ConvolutionAxes, feature_groups: int,
             batch_groups: int) -> Node:
    """The contraction of windows and kernel, whose features and batch are split into groups first."""
    groups, spatial = feature_groups * batch_groups, len(axes.input) - 2
    batch, feature = x_axes[:2]
    kernel_in, kernel_out, *kernel_places = axes.kernel
    # Labels of the result by role, in its layout; the group stands before the output features.
    roles: list[str] = [""] * len(axes.result)
    for role, axis in zip(("batch", "feature", *(f"at{n}" for n in range(spatial))), axes.result, strict=True):
        roles[axis] = role
    outer = [r for role in roles for r in (("group", "feature") if role == "feature" and groups > 1 else (role,))]
    labels = {role: n for n, role in enumerate(outer)}
    for role in ("channel", *(f"in{n}" for n in range(spatial))):
        labels[role] = len(labels)
    sizes: dict[str, Size] = {}
    x, lhs = _split(x, {feature: ("group", "channel", feature_groups), batch: ("group", "batch", batch_groups)}, {
        axis: role for role, axis in zip((*(f"at{n}" for n in range(spatial)), *(f"in{n}" for n in range(spatial))),
                                         x_axes[2:], strict=True)}, sizes)
    kernel, rhs = _split(kernel, {kernel_out: ("group", "feature", groups), kernel_in: ("group", "channel", 1)}, {
        axis: f"in{n}" for n, axis in enumerate(kernel_places)}, sizes)
    extents = [sizes[role] for role in labels]
    found = contract(x, kernel, tuple(labels[r] for r in lhs), tuple(labels[r] for r in rhs), tuple(extents),
                     len(outer))
    shape = [sizes["group"] * sizes["feature"] if role == "feature" and groups > 1 else sizes[role] for role in roles]
    return reshape(found, tuple(shape))


def _split(x: Node, grouped: dict[int, tuple[str, str, int]], others: dict[int, str], sizes: dict[str, Size]
           ) -> tuple[Node, list[str]]:
    """An operand with axes that are split into (group, role), and the role of each of its axes; notes their sizes."""
    shape: list[Size] = []
    roles: list[str] = []
    for axis, size in enumerate(x.shape):
        group, role, count = grouped.get(axis, ("", others.get(axis, ""), 1))
        if count > 1:
            each = exact_divide(size, count)
            assert each is not None, (size, count)
            shape += [count, each]
            roles += [group, role]
        else:
            shape.append(size)
            roles.append(role)
    for role, size in zip(roles, shape, strict=True):
        sizes[role] = size
    return reshape(x, tuple(shape)), roles

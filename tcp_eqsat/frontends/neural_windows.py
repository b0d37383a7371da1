"""Convolution, pooling and lookup over traced tensors; part of `tcp.nn`."""

from __future__ import annotations

from collections.abc import Sequence

from tcp_eqsat.errors import TypeMismatch
from tcp_eqsat.frontends.traced import Operand, Traced, as_size, lift, lift_together
from tcp_eqsat.lang.dims import Size, maximum
from tcp_eqsat.lang.ops import builders, index_builders, window_builders
from tcp_eqsat.lang.ops.window_builders import ConvolutionAxes, WindowShape
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.scalar import function_of
from tcp_eqsat.lang.scalar import scalar_op_named as _op
from tcp_eqsat.lang.types import Shape

Padding = str | Sequence[tuple[Size, Size]]
LAYOUTS = ("channels_first", "channels_last")


def _per_axis(value: int | Sequence[int], count: int, what: str) -> tuple[int, ...]:
    found = (value,) * count if isinstance(value, int) else tuple(value)
    if len(found) != count or not all(isinstance(n, int) and n >= 1 for n in found):
        raise TypeMismatch(f"{what} must be a positive int, or one for each of {count} axes, got {value!r}")
    return found


def _amounts(padding: Padding, sizes: Shape, windows: Shape, strides: Sequence[int], dilations: Sequence[int]
             ) -> tuple[Shape, Shape]:
    """How much is added before and after each axis; "same": as many windows as strides fit, the rest after."""
    if isinstance(padding, str):
        if padding not in ("valid", "same"):
            raise TypeMismatch(f"padding must be 'valid', 'same' or a pair for each axis, got {padding!r}")
        if padding == "valid":
            return (0,) * len(sizes), (0,) * len(sizes)
        totals = []
        for size, window, stride, dilation in zip(sizes, windows, strides, dilations, strict=True):
            span = (window - 1) * dilation + 1
            totals.append(span - 1 if stride == 1 else maximum(
                0, ((size + (stride - 1)) // stride - 1) * stride + span - size))
        return tuple(n // 2 for n in totals), tuple(n - n // 2 for n in totals)
    pairs = [tuple(map(as_size, pair)) for pair in padding]
    if len(pairs) != len(sizes) or any(len(pair) != 2 for pair in pairs):
        raise TypeMismatch(f"padding must have a pair for each of {len(sizes)} axes, got {padding!r}")
    return tuple(low for low, _ in pairs), tuple(high for _, high in pairs)


def _is_last(layout: str) -> bool:
    if layout not in LAYOUTS:
        raise TypeMismatch(f"layout must be {' or '.join(map(repr, LAYOUTS))}, got {layout!r}")
    return layout == "channels_last"


def conv(x: Operand, kernel: Operand, stride: int | Sequence[int] = 1, padding: Padding = "valid",
         dilation: int | Sequence[int] = 1, groups: int = 1, layout: str = "channels_first") -> Traced:
    """A convolution (correlation) over any number of spatial axes.

    channels_first: x [batch, channels, ...], kernel [out, channels / groups, ...], as PyTorch has it; channels_last:
    x [batch, ..., channels], kernel [..., channels / groups, out]. Raises TypeMismatch or ShapeMismatch.
    """
    image, weights = lift_together([x, kernel])
    spatial = len(image.shape) - 2
    if spatial < 0 or len(weights.shape) != spatial + 2:
        raise TypeMismatch(f"conv requires an image and a kernel of one rank of at least 2, got {image.type} and "
                           f"{weights.type}")
    axes = (ConvolutionAxes.channels_last if _is_last(layout) else ConvolutionAxes.channels_first)(spatial)
    strides, dilations = _per_axis(stride, spatial, "stride"), _per_axis(dilation, spatial, "dilation")
    sizes = tuple(image.shape[a] for a in axes.input[2:])
    windows = tuple(weights.shape[a] for a in axes.kernel[2:])
    low, high = _amounts(padding, sizes, windows, strides, dilations)
    return Traced(window_builders.convolution(
        image, weights, axes, strides=strides, low=low, high=high, kernel_dilation=dilations, feature_groups=groups))


def conv_transpose(x: Operand, kernel: Operand, stride: int | Sequence[int] = 1,
                   padding: int | Sequence[int] = 0, layout: str = "channels_first") -> Traced:
    """The transpose of a convolution: what `conv` of that stride and padding (the same at both ends) would map back.

    channels_first: x [batch, channels, ...], kernel [channels, out, ...], as PyTorch has it; channels_last:
    x [batch, ..., channels], kernel [..., out, channels].
    """
    image, weights = lift_together([x, kernel])
    spatial = len(image.shape) - 2
    if spatial < 0 or len(weights.shape) != spatial + 2:
        raise TypeMismatch(f"conv_transpose requires an image and a kernel of one rank of at least 2, got {image.type} "
                           f"and {weights.type}")
    last = _is_last(layout)
    plain = (ConvolutionAxes.channels_last if last else ConvolutionAxes.channels_first)(spatial)
    inputs, outputs, *places = plain.kernel
    axes = ConvolutionAxes(plain.input, (outputs, inputs, *places), plain.result)
    strides = _per_axis(stride, spatial, "stride")
    amounts = (padding,) * spatial if isinstance(padding, int) else tuple(padding)
    around = tuple(weights.shape[a] - 1 - n for a, n in zip(places, amounts, strict=True))
    return Traced(window_builders.convolution(
        image, weights, axes, low=around, high=around, input_dilation=strides, reversed_axes=(True,) * spatial))


def _pool(x: Operand, window: int | Sequence[int], stride: int | Sequence[int] | None, padding: Padding, layout: str,
          name: str) -> tuple[Node, Node, WindowShape]:
    """Each window combined by a scalar operation."""
    node = lift(x)
    spatial = len(node.shape) - 2
    if spatial < 1:
        raise TypeMismatch(f"pooling requires batch, channels and at least one spatial axis, got {node.type}")
    places = range(1, spatial + 1) if _is_last(layout) else range(2, spatial + 2)
    windows = _per_axis(window, spatial, "window")
    strides = windows if stride is None else _per_axis(stride, spatial, "stride")
    low, high = _amounts(padding, tuple(node.shape[a] for a in places), windows, strides, (1,) * spatial)

    def whole(values: Sequence[Size], other: int) -> Shape:
        return tuple(values[a - places[0]] if a in places else other for a in range(len(node.shape)))

    shape = WindowShape.of(whole(windows, 1), [n for n in whole(strides, 1) if isinstance(n, int)], None,
                           whole(low, 0), whole(high, 0))
    return node, _combined(node, shape, name), shape


def _combined(node: Node, shape: WindowShape, name: str) -> Node:
    operation = _op(name)
    assert operation.identity is not None
    start = builders.scalar_constant(operation.identity(node.dtype), node.dtype)
    return window_builders.reduce_window(
        (node,), (start,), (function_of(operation, node.dtype, node.dtype),), shape)[0]


def max_pool(x: Operand, window: int | Sequence[int], stride: int | Sequence[int] | None = None,
             padding: Padding = "valid", layout: str = "channels_first") -> Traced:
    """The maximum of each window over the spatial axes (default stride: the window); padding counts for nothing."""
    return Traced(_pool(x, window, stride, padding, layout, "maximum")[1])


def min_pool(x: Operand, window: int | Sequence[int], stride: int | Sequence[int] | None = None,
             padding: Padding = "valid", layout: str = "channels_first") -> Traced:
    """The minimum of each window over the spatial axes (default stride: the window); padding counts for nothing."""
    return Traced(_pool(x, window, stride, padding, layout, "minimum")[1])


def avg_pool(x: Operand, window: int | Sequence[int], stride: int | Sequence[int] | None = None,
             padding: Padding = "valid", layout: str = "channels_first", count_padding: bool = True) -> Traced:
    """The mean of each window over the spatial axes (default stride: the window), of padding as zeros or left out."""
    node, total, shape = _pool(x, window, stride, padding, layout, "add")
    if count_padding:
        size: Size = 1
        for n in shape.sizes:
            size = size * n
        count = builders.map_scalar(_op(f"astype_{node.dtype}"), builders.size_value(size))
        return Traced(total) / Traced(count)
    ones = builders.splat(1, node.dtype, node.shape)
    return Traced(total) / Traced(_combined(ones, shape, "add"))


def embedding(table: Operand, indices: Operand) -> Traced:
    """Rows of a table at indices, which are clamped: a composite that a back end may meet by name."""
    rows, at = lift(table), lift(indices)
    if not at.dtype.is_integer or not rows.shape:
        raise TypeMismatch(f"embedding requires a table and integer indices, got {rows.type} and {at.type}")
    return Traced(index_builders.embedding(rows, at))

"""Constructors of nodes that index by values: gather, scatter, dynamic slices, take."""

from __future__ import annotations

from collections.abc import Sequence

from tcp_eqsat.errors import TypeMismatch
from tcp_eqsat.lang.dims import Size, equal
from tcp_eqsat.lang.op import op_named
from tcp_eqsat.lang.ops.attributes import DynamicSliceAttributes, GatherAttributes, ScatterAttributes, WindowAxes
from tcp_eqsat.lang.ops.builders import composite, parameter, results_of
from tcp_eqsat.lang.program import Node, Region
from tcp_eqsat.lang.scalar import ScalarFunction, function_of, scalar_op_named
from tcp_eqsat.lang.scalar import parameter as scalar_parameter
from tcp_eqsat.lang.types import DType, Shape

# Functions that combine a value with an update


def adding(dtype: DType) -> ScalarFunction:
    """(value, update) -> their sum."""
    return function_of(scalar_op_named("add"), dtype, dtype)


def replacing(dtype: DType) -> ScalarFunction:
    """(value, update) -> the update."""
    return ScalarFunction((dtype, dtype), scalar_parameter(1, dtype))


def least(dtype: DType) -> ScalarFunction:
    """(value, update) -> the lesser."""
    return function_of(scalar_op_named("minimum"), dtype, dtype)


def renumbered(function: ScalarFunction, numbers: Sequence[int], parameters: tuple[DType, ...]) -> ScalarFunction:
    """A function of more parameters: its own n-th is number numbers[n] of `parameters`."""
    return ScalarFunction(parameters, function.applied(
        {i: scalar_parameter(numbers[i], dtype) for i, dtype in enumerate(function.parameters)}))


# Nodes


def _window_fields(axes: WindowAxes) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...],
                                              tuple[int, ...], int, bool]:
    return (axes.window_axes, axes.dropped_axes, axes.batch_axes, axes.index_batch_axes, axes.start_axes,
            axes.component_axis, axes.clamped)


def gather(x: Node, indices: Node, axes: WindowAxes, sizes: Shape) -> Node:
    """Windows of `x`, of `sizes` along its axes, at the starts that `indices` give."""
    return Node.make(op_named("gather"), (x, indices), GatherAttributes(*_window_fields(axes), sizes))


def scatter(inputs: Sequence[Node], indices: Node, updates: Sequence[Node], axes: WindowAxes,
            functions: Sequence[ScalarFunction]) -> tuple[Node, ...]:
    """The inputs with windows of updates combined into them at the starts that `indices` give."""
    attributes = ScatterAttributes(*_window_fields(axes), tuple(functions))
    return results_of(Node.make(op_named("scatter"), (*inputs, indices, *updates), attributes))


def dynamic_slice(x: Node, starts: Sequence[Node], sizes: Shape) -> Node:
    """The window of `sizes` at `starts`, integers of rank 0, which are clamped."""
    return Node.make(op_named("dynamic_slice"), (x, *starts), DynamicSliceAttributes(sizes))


def dynamic_update_slice(x: Node, update: Node, starts: Sequence[Node]) -> Node:
    """`x` with `update` in place of the window at `starts`, integers of rank 0, which are clamped."""
    return Node.make(op_named("dynamic_update_slice"), (x, update, *starts))


def row_axes(rank: int, index_rank: int, axis: int, *, clamped: bool) -> WindowAxes:
    """Axes for rows of an operand: the axes of the indices stand in place of `axis` in the tensor of rows."""
    inside = (*range(axis), *range(axis + index_rank, rank - 1 + index_rank))
    return WindowAxes(inside, (axis,), (), (), (axis,), index_rank, clamped)


def element_axes() -> WindowAxes:
    """Axes for single elements of a vector; those at indices outside are left out."""
    return row_axes(1, 1, 0, clamped=False)


def take(x: Node, indices: Node, axis: int, *, clamped: bool = True) -> Node:
    """x[..., indices, ...]: the axes of the indices stand in place of `axis`.

    Indices outside are clamped, or give 0.
    """
    rank = len(x.shape)
    if not 0 <= axis < rank:
        raise TypeMismatch(f"take requires an axis of {x.type}, got {axis}")
    axes = row_axes(rank, len(indices.shape), axis, clamped=clamped)
    return gather(x, indices, axes, tuple(one_of(size) if a == axis else size for a, size in enumerate(x.shape)))


def take_along_axis(x: Node, indices: Node, axis: int, *, clamped: bool = True) -> Node:
    """result[..., i, ...] = x[..., indices[..., i, ...], ...]; the other axes have equal sizes.

    Indices outside are clamped, or give 0.
    """
    rank = len(x.shape)
    if not 0 <= axis < rank or len(indices.shape) != rank:
        raise TypeMismatch(f"take_along_axis requires indices of the rank of {x.type} and an axis of it, got "
                           f"{indices.type} and {axis}")
    others = tuple(a for a in range(rank) if a != axis)
    axes = WindowAxes((), (axis,), others, others, (axis,), rank, clamped)
    return gather(x, indices, axes, tuple(one_of(size) if a == axis else 1 for a, size in enumerate(x.shape)))


def one_of(size: Size) -> Size:
    """The size of a window of one element along an axis, which nothing has none of."""
    return 0 if equal(size, 0) else 1


def embedding(table: Node, indices: Node) -> Node:
    """Rows of a table: table[indices], as a composite. Indices outside are clamped."""
    parameters = (parameter("table", 0, table.tensor_type), parameter("indices", 1, indices.tensor_type))
    return composite("embedding", Region(parameters, (take(*parameters, 0),)), table, indices)

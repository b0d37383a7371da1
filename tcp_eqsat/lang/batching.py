"""Batching rules: an operation on values with a leading batch axis, as operations on whole batches.

`BATCHING` has a rule for an operation's name. A rule gets the node and its operands, of which one at least is batched,
and gives its results. An operation without a rule runs in a scan over the batch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from tcp_eqsat.lang.dims import Size
from tcp_eqsat.lang.ops.attributes import (
    ContractAttributes,
    CumulativeAttributes,
    GatherAttributes,
    PadAttributes,
    QuantizationAttributes,
    ReduceAttributes,
    ReduceGeneralAttributes,
    ReverseAttributes,
    ScatterAttributes,
    SliceAttributes,
    SortAttributes,
    ViewAttributes,
    WindowAxes,
    WindowsAttributes,
)
from tcp_eqsat.lang.ops.builders import (
    broadcast_in_dim,
    concatenate,
    contract,
    map_scalar,
    pad,
    reshape,
    results_of,
    scalar_constant,
    slice_,
    splat,
    view,
)
from tcp_eqsat.lang.ops.control import scan
from tcp_eqsat.lang.ops.index_builders import dynamic_slice, dynamic_update_slice, gather, replacing, scatter
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.quantized import QuantizedDType
from tcp_eqsat.lang.scalar import scalar_op_named
from tcp_eqsat.lang.types import BOOL, I64, DType, TensorType


@dataclass(frozen=True)
class Value:
    """A value, with a leading batch axis if it is `batched`, the same for the whole batch if not."""

    node: Node
    batched: bool


DTypeOf = TypeVar("DTypeOf", bound=DType)
Rule = Callable[[Node, Sequence[Value], Size], Sequence[Value]]
"""(node, operands, size of the batch) -> results."""
BATCHING: dict[str, Rule] = {}


def batching(*names: str) -> Callable[[Rule], Rule]:
    """Declares the rule of the operations with these names."""

    def declare(rule: Rule) -> Rule:
        for name in names:
            BATCHING[name] = rule
        return rule

    return declare


def _with_axis_before(dtype: DTypeOf, axis: int) -> DTypeOf:
    """The dtype of tensors with one more axis; quantised ones may have scales along an axis after it."""
    if isinstance(dtype, QuantizedDType) and dtype.axis is not None and axis <= dtype.axis:
        return replace(dtype, axis=dtype.axis + 1)
    return dtype


def batched_type(type_: TensorType, size: Size, axis: int = 0) -> TensorType:
    """The type of a batch of values, numbered along `axis`."""
    return TensorType(_with_axis_before(type_.dtype, axis), (*type_.shape[:axis], size, *type_.shape[axis:]))


def spread(value: Value, size: Size) -> Node:
    """The value with a batch axis."""
    x = value.node
    return x if value.batched else broadcast_in_dim(x, (size, *x.shape), tuple(range(1, len(x.shape) + 1)))


def batch_node(node: Node, operands: Sequence[Value], size: Size) -> Sequence[Value]:
    """The results of an operation on a batch."""
    if not any(x.batched for x in operands):
        made = Node.make(node.op, tuple(x.node for x in operands), node.attributes)
        return [Value(x, False) for x in results_of(made)]
    return BATCHING.get(node.op.name, _one_by_one)(node, operands, size)


def _one_by_one(node: Node, operands: Sequence[Value], size: Size) -> Sequence[Value]:
    """A scan over the batch."""

    def step(*slices: Node) -> Sequence[Node]:
        parts = iter(slices)
        own = tuple(next(parts) if x.batched else x.node for x in operands)
        return results_of(Node.make(node.op, own, node.attributes))

    return [Value(x, True) for x in scan(step, (), [x.node for x in operands if x.batched], size)]


def _shifted(numbers: Sequence[int]) -> tuple[int, ...]:
    """Axes or labels one further; -1 stays."""
    return tuple(n + 1 if n >= 0 else n for n in numbers)


def _whole(node: Node, operands: Sequence[Value], size: Size, attributes: object) -> Sequence[Value]:
    """The same operation with other attributes on operands that all have a batch axis."""
    made = Node.make(node.op, tuple(spread(x, size) for x in operands), attributes)
    return [Value(x, True) for x in results_of(made)]


def _batched(x: Node) -> Sequence[Value]:
    return [Value(x, True)]


# Elementwise and movement


@batching("map", "view_as_real", "view_as_complex", "view_as_storage", "optimization_barrier", "cholesky",
          "triangular_solve", "fft")
def _same(node: Node, operands: Sequence[Value], size: Size) -> Sequence[Value]:
    return _whole(node, operands, size, node.attributes)


@batching("quantize", "dequantize", "view_as_quantized")
def _quantization(node: Node, operands: Sequence[Value], size: Size) -> Sequence[Value]:
    a: QuantizationAttributes = node.attributes
    return _whole(node, operands, size, QuantizationAttributes(_with_axis_before(a.dtype, 0)))


@batching("view")
def _view(node: Node, operands: Sequence[Value], size: Size) -> Sequence[Value]:
    a: ViewAttributes = node.attributes
    return _batched(view(operands[0].node, (0, *_shifted(a.labels)), (size, *a.shape)))


@batching("reshape")
def _reshape(node: Node, operands: Sequence[Value], size: Size) -> Sequence[Value]:
    return _batched(reshape(operands[0].node, (size, *node.shape)))


@batching("slice")
def _slice(node: Node, operands: Sequence[Value], size: Size) -> Sequence[Value]:
    a: SliceAttributes = node.attributes
    return _batched(slice_(operands[0].node, (0, *a.starts), (size, *a.limits), (1, *a.strides)))


@batching("concatenate")
def _concatenate(node: Node, operands: Sequence[Value], size: Size) -> Sequence[Value]:
    return _batched(concatenate(tuple(spread(x, size) for x in operands), node.attributes.axis + 1))


@batching("pad")
def _pad(node: Node, operands: Sequence[Value], size: Size) -> Sequence[Value]:
    """A value of each element's own is chosen where the padding is."""
    a: PadAttributes = node.attributes
    x, value = operands
    amounts = (0, *a.low), (0, *a.high)
    whole = spread(x, size)
    if not value.batched:
        return _batched(pad(whole, value.node, *amounts))
    around = pad(splat(True, BOOL, whole.shape), scalar_constant(False, BOOL), *amounts)
    inside = pad(whole, scalar_constant(0, whole.dtype), *amounts)
    outside = broadcast_in_dim(value.node, inside.shape, (0,))
    return _batched(map_scalar(scalar_op_named("where"), around, inside, outside))


@batching("reverse")
def _reverse(node: Node, operands: Sequence[Value], size: Size) -> Sequence[Value]:
    a: ReverseAttributes = node.attributes
    return _whole(node, operands, size, replace(a, axes=_shifted(a.axes)))


@batching("windows", "overlap_add")
def _windows(node: Node, operands: Sequence[Value], size: Size) -> Sequence[Value]:
    a: WindowsAttributes = node.attributes
    return _whole(node, operands, size, replace(a, axes=_shifted(a.axes)))


# Reductions, contractions, along an axis


@batching("reduce")
def _reduce(node: Node, operands: Sequence[Value], size: Size) -> Sequence[Value]:
    a: ReduceAttributes = node.attributes
    return _whole(node, operands, size, ReduceAttributes(
        a.operation, (0, *_shifted(a.labels)), (size, *a.extents), a.rank + 1))


@batching("contract")
def _contract(node: Node, operands: Sequence[Value], size: Size) -> Sequence[Value]:
    a: ContractAttributes = node.attributes
    x, y = operands
    lhs, rhs = ((0,) * value.batched + _shifted(labels) for value, labels in ((x, a.lhs), (y, a.rhs)))
    return _batched(contract(x.node, y.node, lhs, rhs, (size, *a.extents), a.rank + 1))


@batching("cumulative", "sort")
def _along_axis(node: Node, operands: Sequence[Value], size: Size) -> Sequence[Value]:
    a: CumulativeAttributes | SortAttributes = node.attributes
    return _whole(node, operands, size, replace(a, axis=a.axis + 1))


@batching("reduce_general")
def _reduce_general(node: Node, operands: Sequence[Value], size: Size) -> Sequence[Value]:
    """Initial values have no axes: where they differ within the batch it runs one by one."""
    a: ReduceGeneralAttributes = node.attributes
    count = len(a.functions)
    if any(x.batched for x in operands[count:]):
        return _one_by_one(node, operands, size)
    own = (*(spread(x, size) for x in operands[:count]), *(x.node for x in operands[count:]))
    return [Value(x, True) for x in results_of(Node.make(node.op, own, replace(a, axes=_shifted(a.axes))))]


@batching("search_sorted")
def _search_sorted(node: Node, operands: Sequence[Value], size: Size) -> Sequence[Value]:
    ordered, wanted = operands
    if ordered.batched:
        return _one_by_one(node, operands, size)
    return _batched(Node.make(node.op, (ordered.node, wanted.node), node.attributes))


# Indexing by values


def _batch_axes(a: WindowAxes, operand: bool, indices: bool) -> WindowAxes:
    """The axes where operand and windows, or the indices, or all of them have a batch axis.

    Along it windows run, or it numbers them, or they are batched along it.
    """
    axes = WindowAxes(*(getattr(a, f.name) for f in dataclasses.fields(WindowAxes)))
    inside, batch, along = _shifted(a.window_axes), a.batch_axes, a.index_batch_axes
    if operand:
        axes = replace(axes, dropped_axes=_shifted(a.dropped_axes), start_axes=_shifted(a.start_axes))
        batch = _shifted(batch)
    if indices:
        axes = replace(axes, component_axis=a.component_axis + 1)
        along = _shifted(along)
    if operand and indices:
        batch, along = (0, *batch), (0, *along)
    elif operand:
        inside = (0, *inside)
    return replace(axes, window_axes=inside, batch_axes=batch, index_batch_axes=along)


@batching("gather")
def _gather(node: Node, operands: Sequence[Value], size: Size) -> Sequence[Value]:
    a: GatherAttributes = node.attributes
    x, indices = operands
    sizes = ((1 if indices.batched else size, *a.sizes) if x.batched else a.sizes)
    return _batched(gather(x.node, indices.node, _batch_axes(a, x.batched, indices.batched), sizes))


@batching("scatter")
def _scatter(node: Node, operands: Sequence[Value], size: Size) -> Sequence[Value]:
    a: ScatterAttributes = node.attributes
    count = len(a.functions)
    inputs, indices, updates = operands[:count], operands[count], operands[count + 1:]
    made = scatter([spread(x, size) for x in inputs], indices.node, [spread(x, size) for x in updates],
                   _batch_axes(a, True, indices.batched), a.functions)
    return [Value(x, True) for x in made]


def _start_indices(starts: Sequence[Value], size: Size) -> Node:
    """Starts of rank 0 side by side: [batch, components]; all of one dtype."""
    return concatenate(tuple(reshape(spread(x, size), (size, 1)) for x in starts), 1)


def _alike(starts: Sequence[Value]) -> bool:
    return len({x.node.dtype for x in starts}) == 1


@batching("dynamic_slice")
def _dynamic_slice(node: Node, operands: Sequence[Value], size: Size) -> Sequence[Value]:
    x, *starts = operands
    sizes = node.attributes.sizes
    if not any(s.batched for s in starts):
        first = scalar_constant(0, starts[0].node.dtype if starts else I64)
        return _batched(dynamic_slice(x.node, (first, *(s.node for s in starts)), (size, *sizes)))
    if not _alike(starts):
        return _one_by_one(node, operands, size)
    rank = len(starts)
    axes = WindowAxes(tuple(range(rank)), (), (), (), tuple(range(rank)), 0, True)
    return _batched(gather(x.node, _start_indices(starts, size), _batch_axes(axes, x.batched, True),
                           (1, *sizes) if x.batched else sizes))


@batching("dynamic_update_slice")
def _dynamic_update_slice(node: Node, operands: Sequence[Value], size: Size) -> Sequence[Value]:
    x, update, *starts = operands
    whole, part = spread(x, size), spread(update, size)
    if not any(s.batched for s in starts):
        first = scalar_constant(0, starts[0].node.dtype if starts else I64)
        return _batched(dynamic_update_slice(whole, part, (first, *(s.node for s in starts))))
    if not _alike(starts):
        return _one_by_one(node, operands, size)
    rank = len(starts)
    axes = WindowAxes(tuple(range(rank)), (), (), (), tuple(range(rank)), 0, True)
    return _batched(*scatter(
        [whole], _start_indices(starts, size), [part], _batch_axes(axes, True, True), [replacing(whole.dtype)]))

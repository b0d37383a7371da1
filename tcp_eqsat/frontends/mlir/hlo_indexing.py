"""Operations of XLA's dialects that index by values, and that sort."""

from __future__ import annotations

from collections.abc import Mapping

from tcp_eqsat.errors import ShapeMismatch, TypeMismatch, VerificationError
from tcp_eqsat.frontends.mlir.hlo_reduction import learn_equal_shapes
from tcp_eqsat.frontends.mlir.site import Lowering, Site
from tcp_eqsat.lang.dims import Size, less_equal
from tcp_eqsat.lang.ops.attributes import WindowAxes
from tcp_eqsat.lang.ops.builders import slice_
from tcp_eqsat.lang.ops.index_builders import dynamic_slice, dynamic_update_slice, gather, scatter
from tcp_eqsat.lang.ops.order_builders import sort, sort_with_order
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.scalar import ScalarExpr, ScalarFunction, apply, literal, parameter
from tcp_eqsat.lang.types import I32, DType, dtype_named


def _axes(site: Site, key: str, names: tuple[str, str, str, str, str], clamped: bool) -> WindowAxes:
    """Dimension numbers; `names` are those of window, dropped, batch, index batch and start axes."""
    numbers = site.parts(key)

    def axes(name: str) -> tuple[int, ...]:
        return site.integers_of(numbers[name]) if name in numbers else ()

    component = axes("index_vector_dim") or (0,)
    if len(component) != 1:
        raise VerificationError(f"{site.name} requires one integer as index_vector_dim")
    window, dropped, batch, index_batch, start = map(axes, names)
    return WindowAxes(window, dropped, batch, index_batch, start, component[0], clamped)


_GATHER_NAMES = (
    "offset_dims", "collapsed_slice_dims", "operand_batching_dims", "start_indices_batching_dims", "start_index_map")
_SCATTER_NAMES = (
    "update_window_dims", "inserted_window_dims", "input_batching_dims", "scatter_indices_batching_dims",
    "scatter_dims_to_operand_dims")


def _learn_batches(site: Site, axes: WindowAxes, indices: int) -> None:
    """Learns that batch axes of the first operand and of the indices have equal sizes."""
    x, given = site.tensor(0), site.tensor(indices)
    for axis, along in zip(axes.batch_axes, axes.index_batch_axes, strict=False):
        if 0 <= axis < len(x.shape) and 0 <= along < len(given.shape):
            site.assume_equal(x.shape[axis], given.shape[along])


def _gather(site: Site) -> Node:
    site.require_operands(2)
    return _gathered(site, site.integers("slice_sizes"))


def _dynamic_gather(site: Site) -> Node:
    site.require_operands(3)
    return _gathered(site, site.known(2))


def _gathered(site: Site, sizes: tuple[Size, ...]) -> Node:
    axes = _axes(site, "dimension_numbers", _GATHER_NAMES, True)
    _learn_batches(site, axes, 1)
    return gather(site.tensor(0), site.tensor(1), axes, sizes)


def _scatter(site: Site) -> tuple[Node, ...]:
    operands = site.tensors()
    count, rest = divmod(len(operands) - 1, 2)
    if rest or count < 1:
        raise TypeMismatch(
            f"{site.name} requires an update for each input, and indices, got {len(operands)} operands")
    axes = _axes(site, "scatter_dimension_numbers", _SCATTER_NAMES, False)
    learn_equal_shapes(site, range(count))
    learn_equal_shapes(site, range(count + 1, len(operands)))
    _learn_batches(site, axes, count)
    operands = site.tensors()
    inputs, indices, updates = operands[:count], operands[count], operands[count + 1 :]
    functions = site.scalar_functions(0, [x.dtype for x in (*inputs, *updates)])
    return scatter(inputs, indices, updates, axes, functions)


def _dynamic_slice(site: Site) -> Node:
    x, *starts = site.tensors()
    sizes = site.integers("slice_sizes")
    if len(starts) != len(x.shape):
        raise TypeMismatch(f"{site.name} requires {len(x.shape)} starts for {x.type}, got {len(starts)}")
    return dynamic_slice(x, starts, sizes)


def _dynamic_update_slice(site: Site) -> Node:
    if len(site.op.operands) < 2:
        raise TypeMismatch(f"{site.name} requires an operand and an update, got {len(site.op.operands)} operands")
    x, update, *starts = site.tensors()
    if len(starts) != len(x.shape):
        raise TypeMismatch(f"{site.name} requires {len(x.shape)} starts for {x.type}, got {len(starts)}")
    return dynamic_update_slice(x, update, starts)


def _sort(site: Site) -> tuple[Node, ...]:
    """All sorts are stable. The region has a left and a right argument for each operand in turn."""
    operands = site.tensors()
    if not operands:
        raise TypeMismatch(f"{site.name} requires at least one operand")
    rank, count = len(operands[0].shape), len(operands)
    axis = site.integer("dimension", -1)
    axis += rank if axis < 0 else 0
    if not 0 <= axis < max(rank, 1):
        raise TypeMismatch(f"{site.name} requires an axis of {operands[0].type}, got {axis}")
    learn_equal_shapes(site, range(count))
    dtypes = [x.dtype for x in operands]
    order = [n + side * count for n in range(count) for side in (0, 1)]
    functions = site.scalar_functions(0, [*dtypes, *dtypes], order)
    if len(functions) != 1:
        raise VerificationError(f"{site.name} requires a region with 1 result, got {len(functions)}")
    return sort(site.tensors(), functions[0], axis) if rank else operands


def in_total_order(dtype: DType) -> ScalarFunction:
    """Whether x comes before y in descending order; of floats NaN, inf, ..., +0, -0, ..., -inf, -NaN."""
    x, y = (_ordered(parameter(n, dtype)) for n in (0, 1))
    return ScalarFunction((dtype, dtype), apply("greater", x, y))


def _ordered(x: ScalarExpr) -> ScalarExpr:
    """An integer in the total order of floats; x itself of other dtypes."""
    if not x.dtype.is_float:
        return x
    integer = dtype_named(f"i{x.dtype.bits}")
    bits = apply(f"bitcast_{integer}", x)
    flipped = apply("bitwise_xor", bits, literal(2 ** (integer.bits - 1) - 1, integer))
    return apply("where", apply("less", bits, literal(0, integer)), flipped, bits)


def greatest(x: Node, count: Size) -> tuple[Node, Node]:
    """The `count` greatest values along the last axis in descending total order, equal ones in order, and
    their indices as i32."""
    if not x.shape or less_equal(count, x.shape[-1]) is not True or less_equal(0, count) is not True:
        raise ShapeMismatch(f"top_k requires at most as many values as the last axis of {x.type} has, got {count}")
    values, order = sort_with_order(x, len(x.shape) - 1, in_total_order(x.dtype), I32)
    starts, limits = (0,) * len(x.shape), (*x.shape[:-1], count)
    return slice_(values, starts, limits), slice_(order, starts, limits)


def _top_k(site: Site) -> tuple[Node, ...]:
    (x,) = site.tensors(1)
    return greatest(x, site.integer("k"))


def _torch_index_select(site: Site) -> Node:
    """result[batch..., before..., i..., after...] = x[batch..., before..., index[batch..., i...], after...]."""
    x, index = site.tensors(2)
    axis, batch = site.integer("dim"), site.integer("batch_dims", 0)
    rank = len(x.shape)
    if not 0 <= batch <= min(axis, len(index.shape)) or not axis < rank:
        raise ShapeMismatch(
            f"{site.name} requires batch_dims up to dim, and dim below {rank}, got {batch} and {axis}")
    inner = len(index.shape) - batch
    inside = (*range(batch, axis), *range(axis + inner, rank - 1 + inner))
    axes = WindowAxes(
        inside, (axis,), tuple(range(batch)), tuple(range(batch)), (axis,), len(index.shape), True)
    sizes: tuple[Size, ...] = tuple(
        1 if a == axis or a < batch else size for a, size in enumerate(x.shape))
    return gather(x, index, axes, sizes)


INDEXING: Mapping[str, Lowering] = {
    "dynamic_gather": _dynamic_gather,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "gather": _gather,
    "scatter": _scatter,
    "sort": _sort,
    "torch_index_select": _torch_index_select,
}

CHLO_INDEXING: Mapping[str, Lowering] = {"top_k": _top_k}

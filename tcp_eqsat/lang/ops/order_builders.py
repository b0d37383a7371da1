"""Constructors of nodes that order: sort, top_k, unique."""

from __future__ import annotations

from collections.abc import Sequence

from tcp_eqsat.errors import ShapeMismatch, TypeMismatch
from tcp_eqsat.lang.dims import Size, less_equal, product
from tcp_eqsat.lang.op import op_named
from tcp_eqsat.lang.ops.accumulate_builders import cumulative_of
from tcp_eqsat.lang.ops.attributes import SearchSortedAttributes, SortAttributes
from tcp_eqsat.lang.ops.builders import (
    broadcast_scalar,
    concatenate,
    iota,
    map_function,
    map_scalar,
    reduce_axes,
    reshape,
    results_of,
    slice_,
    splat,
)
from tcp_eqsat.lang.ops.index_builders import adding, element_axes, renumbered, replacing, scatter
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.scalar import ScalarFunction, apply
from tcp_eqsat.lang.scalar import parameter as scalar_parameter
from tcp_eqsat.lang.scalar import scalar_op_named as _op
from tcp_eqsat.lang.types import I32, I64, DType


def ascending(dtype: DType) -> ScalarFunction:
    """Whether x comes before y in ascending order: NaNs come last, -0 is equal to 0."""
    x, y = scalar_parameter(0, dtype), scalar_parameter(1, dtype)
    if not dtype.is_float:
        return ScalarFunction((dtype, dtype), apply("less", x, y))
    less_or_nan = apply("bitwise_invert", apply("greater_equal", x, y))
    return ScalarFunction((dtype, dtype), apply("bitwise_and", less_or_nan, apply("equal", x, x)))


def descending(dtype: DType) -> ScalarFunction:
    """Whether x comes before y in descending order: NaNs come first, -0 is equal to 0."""
    x, y = scalar_parameter(0, dtype), scalar_parameter(1, dtype)
    if not dtype.is_float:
        return ScalarFunction((dtype, dtype), apply("greater", x, y))
    greater_or_nan = apply("bitwise_invert", apply("less_equal", x, y))
    return ScalarFunction((dtype, dtype), apply("bitwise_and", greater_or_nan, apply("equal", y, y)))


def of_first(function: ScalarFunction, dtypes: Sequence[DType]) -> ScalarFunction:
    """A comparator of one value as one of several, of which the first is compared."""
    return renumbered(function, (0, len(dtypes)), (*dtypes, *dtypes))


def sort(operands: Sequence[Node], function: ScalarFunction, axis: int) -> tuple[Node, ...]:
    """Elements of all operands ordered together along `axis`; equal ones keep their order.

    `function` of 2k parameters, k left and k right values, says whether left comes before right.
    """
    return results_of(Node.make(op_named("sort"), tuple(operands), SortAttributes(function, axis)))


def sort_with_order(x: Node, axis: int, function: ScalarFunction, dtype: DType = I64) -> tuple[Node, Node]:
    """The values in order along `axis`, and where along it each came from."""
    values, order = sort((x, iota(dtype, x.shape, axis)), of_first(function, (x.dtype, dtype)), axis)
    return values, order


def top_k(x: Node, count: Size, dtype: DType = I32) -> tuple[Node, Node]:
    """The `count` greatest values along the last axis, in descending order with NaNs first, and their indices."""
    if not x.shape:
        raise TypeMismatch(f"top_k requires an operand of at least rank 1, got {x.type}")
    if less_equal(count, x.shape[-1]) is not True:
        raise ShapeMismatch(f"top_k requires at most {x.shape[-1]} values of {x.type}, got {count}")
    values, order = sort_with_order(x, len(x.shape) - 1, descending(x.dtype), dtype)
    starts, limits = (0,) * len(x.shape), (*x.shape[:-1], count)
    return slice_(values, starts, limits), slice_(order, starts, limits)


def search_sorted(ordered: Node, wanted: Node, *, right: bool = False) -> Node:
    """For each element of `wanted` the first place in `ordered` (rank 1, ascending) to put it, as i64."""
    return Node.make(op_named("search_sorted"), (ordered, wanted), SearchSortedAttributes(right))


def unique(x: Node, count: Size, fill: Node | None = None) -> tuple[Node, Node, Node, Node]:
    """The distinct elements in ascending order, as many as `count`; how often each occurs; for each element of `x`
    the number of its distinct one; and how many there are.

    values    [count], those that are too many left out, missing ones `fill` (rank 0; default: 0)
    counts    i64[count]
    inverse   i64 of x's shape
    number    i64[], of all there are

    NaNs are equal here. Of zeros the first one in `x` stands for both signs.
    """
    length = product(x.shape)
    flat = reshape(x, (length,))
    function = ascending(x.dtype)
    values, order = sort_with_order(flat, 0, function)
    is_new = _differs_from_before(values, function)
    number_of = cumulative_of("add", map_scalar(_op("astype_i64"), is_new), 0)
    place = map_scalar(_op("subtract"), number_of, splat(1, I64, (length,)))
    scalars = element_axes()
    start = splat(0, x.dtype, (count,)) if fill is None else broadcast_scalar(fill, (count,))
    first_place = map_scalar(_op("where"), is_new, place, splat(-1, I64, (length,)))
    distinct = scatter((start,), first_place, (values,), scalars, (replacing(x.dtype),))[0]
    counts = scatter((splat(0, I64, (count,)),), place, (splat(1, I64, (length,)),), scalars, (adding(I64),))[0]
    inverse = scatter((splat(0, I64, (length,)),), order, (place,), scalars, (replacing(I64),))[0]
    number = reduce_axes(_op("add"), map_scalar(_op("astype_i64"), is_new), (0,))
    return distinct, counts, reshape(inverse, x.shape), number


def _differs_from_before(ordered: Node, function: ScalarFunction) -> Node:
    """Where an element of what is in order is the first or comes after its predecessor."""
    (length,) = ordered.shape
    padded = concatenate((splat(0, ordered.dtype, (1,)), ordered), 0)
    before = slice_(padded, (0,), (length,))
    first = map_scalar(_op("equal"), iota(I64, (length,), 0), splat(0, I64, (length,)))
    return map_scalar(_op("bitwise_or"), first, map_function(function, before, ordered))


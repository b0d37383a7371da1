"""Operations that order: sort with any comparator, search in what is sorted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tcp_eqsat.errors import TypeMismatch
from tcp_eqsat.lang.op import NOT_DIFFERENTIABLE, PROCEDURAL, define_op, tensor_types
from tcp_eqsat.lang.ops.accumulation import check_operands, one_or_tuple
from tcp_eqsat.lang.ops.attributes import SearchSortedAttributes, SortAttributes, WindowAxes
from tcp_eqsat.lang.ops.builders import iota, splat
from tcp_eqsat.lang.ops.index_builders import adding, renumbered, scatter
from tcp_eqsat.lang.ops.order_builders import ascending, sort
from tcp_eqsat.lang.procedural import Array, Procedure, Scalar, Writer
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.types import BOOL, I64, TensorType, Type, dtype_of, numbers

# Sort


def _infer_sort(operands: tuple[Type, ...], a: SortAttributes) -> Type:
    types = tensor_types("sort", operands)
    check_operands("sort", types)
    if not 0 <= a.axis < types[0].rank:
        raise TypeMismatch(f"sort requires an axis of {types[0]}, got {a.axis}")
    required = tuple(x.dtype for x in (*types, *types))
    if a.function.parameters != required or a.function.dtype != BOOL:
        found = ", ".join(map(str, a.function.parameters))
        raise TypeMismatch(f"sort requires a function ({', '.join(map(str, required))}) -> bool, got ({found}) -> "
                           f"{a.function.dtype}")
    return one_or_tuple(types)


def _sort_reference(a: SortAttributes, result: Type, *arrays: np.ndarray) -> Any:
    """The merges of each width at once, in all rows, an element of each run after the other."""
    length = arrays[0].shape[a.axis]
    rows = [np.moveaxis(x, a.axis, -1).reshape((-1, length) if length else (0, 0)) for x in arrays]
    width = 1
    while width < length:
        rows = _merged(a, rows, width)
        width *= 2
    shape = np.moveaxis(arrays[0], a.axis, -1).shape
    results = tuple(np.moveaxis(x.reshape(shape), -1, a.axis) for x in rows)
    return results[0] if len(results) == 1 else results


def _merged(a: SortAttributes, rows: Sequence[np.ndarray], width: int) -> list[np.ndarray]:
    count, length = rows[0].shape
    line = np.arange(count)[:, None]
    left = np.broadcast_to(np.arange(0, length, 2 * width), (count, -(-length // (2 * width)))).copy()
    start = left.copy()
    middle, end = np.minimum(left + width, length), np.minimum(left + 2 * width, length)
    right = middle.copy()
    found = [np.array(x) for x in rows]
    for step in range(2 * width):
        ls, rs = np.minimum(left, length - 1), np.minimum(right, length - 1)
        first = a.function.evaluate(*(x[line, rs] for x in rows), *(x[line, ls] for x in rows))
        take_left = (left < middle) & ((right >= end) | ~first)
        live = start + step < end
        for x, y in zip(found, rows, strict=True):
            value = np.where(take_left, y[line, ls], y[line, rs])
            to = np.minimum(start + step, length - 1)
            x[np.broadcast_to(line, live.shape)[live], to[live]] = value[live]
        left, right = left + (take_left & live), right + (~take_left & live)
    return found


def _sort_procedure(a: SortAttributes, operands: tuple[TensorType, ...], results: tuple[TensorType, ...]) -> Procedure:
    """Bottom-up merge sort of one row after the other, between two planes of scratch."""
    w = Writer(operands, results)
    shape = operands[0].shape
    length = shape[a.axis]
    planes = [w.scratch(x.dtype, 2, length) for x in operands]
    n = w.extent(length)
    others = [size for axis, size in enumerate(shape) if axis != a.axis]
    with w.loops(others) as at:

        def place(index: Scalar) -> list[Scalar]:
            return [*at[: a.axis], index, *at[a.axis:]]

        with w.loop(n) as i:
            for x, plane in zip(w.operands, planes, strict=True):
                w.store(plane, (0, i), w.load(x, place(i)))
        width, source = w.variable(1), w.variable(0)
        with w.while_(lambda: width.get() < n):
            _write_merges(w, a, planes, n, width.get(), source.get())
            width.set(width.get() * 2)
            source.set(1 - source.get())
        with w.loop(n) as i:
            for out, plane in zip(w.results, planes, strict=True):
                w.store(out, place(i), w.load(plane, (source.get(), i)))
    return w.finish()


def _write_merges(w: Writer, a: SortAttributes, planes: Sequence[Array], n: Scalar, width: Scalar, source: Scalar
                  ) -> None:
    """Runs of `width` elements merged two by two; an element of the left one goes first unless the right one must."""
    target, last = 1 - source, n - 1
    pairs = (n + width * 2 - 1) / (width * 2)
    with w.loop(pairs) as pair:
        start = pair * width * 2
        middle, end = w.apply("minimum", start + width, n), w.apply("minimum", start + width * 2, n)
        left, right = w.variable(start), w.variable(middle)
        with w.loop(end - start) as step:
            i, j = left.get(), right.get()
            lefts = [w.load(x, (source, w.apply("minimum", i, last))) for x in planes]
            rights = [w.load(x, (source, w.apply("minimum", j, last))) for x in planes]
            behind = w.function(a.function, *rights, *lefts)
            take_left = (i < middle) & ((j >= end) | ~behind)
            for plane, x, y in zip(planes, lefts, rights, strict=True):
                w.store(plane, (target, start + step), w.where(take_left, x, y))
            one = w.where(take_left, w.constant(1), w.constant(0))
            left.set(i + one)
            right.set(j + 1 - one)


def _sort_derivative(node: Node, g: Any) -> tuple[Node | None, ...]:
    """Cotangents go back to where the elements came from, which sorting their positions along tells."""
    a: SortAttributes = node.attributes
    cotangents = g if isinstance(g, tuple) else (g,)
    x = node.operands[0]
    count, rank = len(node.operands), len(x.shape)
    dtypes = tuple(each.dtype for each in (*node.operands, *node.operands))
    parameters = (*dtypes[:count], I64, *dtypes[count:], I64)
    function = renumbered(a.function, (*range(count), *range(count + 1, 2 * count + 1)), parameters)
    origin = sort((*node.operands, iota(I64, x.shape, a.axis)), function, a.axis)[count]
    others = tuple(axis for axis in range(rank) if axis != a.axis)
    axes = WindowAxes((), (a.axis,), others, others, (a.axis,), rank, False)
    return tuple(None if each is None else scatter(
        (splat(0, each.dtype, each.shape),), origin, (each,), axes, (adding(each.dtype),))[0] for each in cotangents)


sort_op = define_op(
    "sort", operands="x*", attributes=SortAttributes, infer=_infer_sort, reference=_sort_reference,
    pointful=PROCEDURAL, procedure=_sort_procedure, derivative=_sort_derivative,
    doc="Elements of all operands ordered together along an axis, so that no element comes before one that the "
        "function puts first; equal ones keep their order. Bottom-up merging: the result is defined for any function, "
        "even one that is no order.",
)

# Search


def _infer_search(operands: tuple[Type, ...], a: SearchSortedAttributes) -> TensorType:
    ordered, wanted = tensor_types("search_sorted", operands)
    if ordered.rank != 1:
        raise TypeMismatch(f"search_sorted requires a first operand of rank 1, got {ordered}")
    if ordered.dtype != wanted.dtype:
        raise TypeMismatch(f"search_sorted requires operands of one dtype, got {ordered} and {wanted}")
    return TensorType(I64, wanted.shape)


def _search_reference(a: SearchSortedAttributes, result: TensorType, ordered: np.ndarray, wanted: np.ndarray
                      ) -> np.ndarray:
    """Bisection of all at once."""
    function = ascending(dtype_of(ordered.dtype))
    shape = numbers(result.shape)
    low, high = np.zeros(shape, np.int64), np.full(shape, len(ordered), np.int64)
    while (low < high).any():
        middle = (low + high) // 2
        found = ordered[np.minimum(middle, len(ordered) - 1)]
        before = ~function.evaluate(wanted, found) if a.right else function.evaluate(found, wanted)
        low, high = (np.where((low < high) & before, middle + 1, low),
                     np.where((low < high) & ~before, middle, high))
    return low


def _search_procedure(a: SearchSortedAttributes, operands: tuple[TensorType, ...], results: tuple[TensorType, ...]
                      ) -> Procedure:
    w = Writer(operands, results)
    ordered, wanted = w.operands
    function = ascending(ordered.type.dtype)
    with w.loops(wanted.type.shape) as at:
        value = w.load(wanted, at)
        low, high = w.variable(0), w.variable(w.extent(ordered.type.shape[0]))
        with w.while_(lambda: low.get() < high.get()):
            middle = (low.get() + high.get()) / 2
            found = w.load(ordered, (middle,))
            before = ~w.function(function, value, found) if a.right else w.function(function, found, value)
            low.set(w.where(before, middle + 1, low.get()))
            high.set(w.where(before, high.get(), middle))
        w.store(w.results[0], at, low.get())
    return w.finish()


search_sorted_op = define_op(
    "search_sorted", operands="ordered wanted", attributes=SearchSortedAttributes, infer=_infer_search,
    reference=_search_reference, pointful=PROCEDURAL, procedure=_search_procedure, derivative=NOT_DIFFERENTIABLE,
    doc="For each element of the second operand how many of the first, which is in ascending order with NaNs last, "
        "come before it, or with `right` come before it or are equal to it; NaNs are equal, and so are zeros. By "
        "bisection, so defined for any first operand.",
)

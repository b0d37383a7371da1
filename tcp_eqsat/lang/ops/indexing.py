"""Operations that index by values: gather, scatter, and slices whose starts are values.

Indices are integers of any dtype. Those beyond 2^63 - 1 count as 2^63 - 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tcp_eqsat.errors import ShapeMismatch, TypeMismatch
from tcp_eqsat.lang.dims import Size, equal, less_equal, product
from tcp_eqsat.lang.op import PROCEDURAL, define_op, tensor_types
from tcp_eqsat.lang.ops.attributes import DynamicSliceAttributes, GatherAttributes, ScatterAttributes, WindowAxes
from tcp_eqsat.lang.ops.builders import iota, map_scalar, reshape, splat
from tcp_eqsat.lang.ops.index_builders import (
    adding,
    dynamic_slice,
    dynamic_update_slice,
    gather,
    one_of,
    renumbered,
    replacing,
    scatter,
)
from tcp_eqsat.lang.procedural import Array, Procedure, Scalar, Writer
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.scalar import ScalarFunction
from tcp_eqsat.lang.scalar import scalar_op_named as _op
from tcp_eqsat.lang.types import F8E8M0FNU, I64, U64, DType, Shape, TensorType, TupleType, Type, numbers


def index_array(values: np.ndarray) -> np.ndarray:
    """Indices as i64."""
    if values.dtype == np.uint64:
        values = np.minimum(values, np.uint64(2**63 - 1))
    return np.asarray(values).astype(np.int64)


def load_index(w: Writer, array: Array, at: Sequence[Scalar | int]) -> Scalar:
    """An index from memory, as i64."""
    found = w.load(array, at)
    if found.dtype == U64:
        found = w.apply("minimum", found, 2**63 - 1)
    return w.convert(found, I64)


# Windows


@dataclass(frozen=True)
class _Layout:
    """Window axes by operand axis.

    window     operand axis -> the axis of the tensor of windows that runs along it
    component  operand axis -> which component of a start it takes
    batch      operand axis -> position in `numbering`
    numbering  axes of the tensor of windows that number the windows
    indices    axes of the indices that number them, in the same order
    """

    window: Mapping[int, int]
    component: Mapping[int, int]
    batch: Mapping[int, int]
    numbering: tuple[int, ...]
    indices: tuple[int, ...]


def _layout(a: WindowAxes, rank: int, index_rank: int) -> _Layout:
    indices = tuple(axis for axis in range(index_rank) if axis != a.component_axis)
    inside = [axis for axis in range(rank) if axis not in a.dropped_axes and axis not in a.batch_axes]
    numbering = tuple(axis for axis in range(len(indices) + len(inside)) if axis not in a.window_axes)
    return _Layout(
        dict(zip(inside, a.window_axes, strict=True)), {axis: n for n, axis in enumerate(a.start_axes)},
        {axis: indices.index(along) for axis, along in zip(a.batch_axes, a.index_batch_axes, strict=True)},
        numbering, indices)


def _check_windows(name: str, a: WindowAxes, operand: TensorType, indices: TensorType) -> _Layout:
    """Raises TypeMismatch or ShapeMismatch where the axes do not fit the types."""
    if not indices.dtype.is_integer:
        raise TypeMismatch(f"{name} requires indices of an integer dtype, got {indices}")
    if not 0 <= a.component_axis <= indices.rank:
        raise TypeMismatch(f"{name} requires component_axis in 0..{indices.rank} for {indices}, got {a.component_axis}")
    for field, axes, rank in (("dropped_axes and batch_axes", (*a.dropped_axes, *a.batch_axes), operand.rank),
                              ("start_axes and batch_axes", (*a.start_axes, *a.batch_axes), operand.rank),
                              ("index_batch_axes", a.index_batch_axes, indices.rank)):
        _check_axes(f"{name} {field}", axes, rank)
    if a.component_axis in a.index_batch_axes:
        raise TypeMismatch(f"{name} requires index_batch_axes without component_axis, got {list(a.index_batch_axes)}")
    if len(a.batch_axes) != len(a.index_batch_axes):
        raise TypeMismatch(f"{name} requires as many batch_axes as index_batch_axes, got {list(a.batch_axes)} and "
                           f"{list(a.index_batch_axes)}")
    for axis, along in zip(a.batch_axes, a.index_batch_axes, strict=True):
        if not equal(operand.shape[axis], indices.shape[along]):
            raise ShapeMismatch(f"{name} requires equal sizes along batch axis {axis} of {operand} and axis {along} of "
                                f"the indices {indices}")
    inside = operand.rank - len(a.dropped_axes) - len(a.batch_axes)
    if len(a.window_axes) != inside:
        raise TypeMismatch(f"{name} requires {inside} window_axes, one for each axis of {operand} that is neither "
                           f"dropped nor batched, got {list(a.window_axes)}")
    index_axes = indices.rank - (a.component_axis < indices.rank)
    _check_axes(f"{name} window_axes", a.window_axes, index_axes + inside)
    if list(a.window_axes) != sorted(a.window_axes):
        raise TypeMismatch(f"{name} requires window_axes in order, got {list(a.window_axes)}")
    components = indices.shape[a.component_axis] if a.component_axis < indices.rank else 1
    if components != len(a.start_axes):
        raise ShapeMismatch(f"{name} requires an axis in start_axes for each of the {components} components of a "
                            f"start, got {list(a.start_axes)}")
    return _layout(a, operand.rank, indices.rank)


def _check_axes(what: str, axes: Sequence[int], rank: int) -> None:
    if len(set(axes)) != len(axes) or not all(0 <= axis < rank for axis in axes):
        raise TypeMismatch(f"{what} requires distinct axes below {rank}, got {list(axes)}")


def _check_fits(name: str, axis: int, size: Size, operand: TensorType) -> None:
    """Raises ShapeMismatch for windows that never fit, but in an axis without elements, which has none of any size."""
    too_large = less_equal(size, operand.shape[axis]) is False and operand.shape[axis] != 0
    if too_large or less_equal(0, size) is False:
        raise ShapeMismatch(f"{name} requires windows of 0 to {operand.shape[axis]} elements along axis {axis} of "
                            f"{operand}, got {size}")


def _positions(layout: _Layout, shape: Sequence[int], windows: Sequence[int], starts: Sequence[np.ndarray]
               ) -> list[np.ndarray]:
    """For each operand axis the index that each element of the tensor of windows has, broadcastable to it."""

    def along(axis: int) -> np.ndarray:
        return np.arange(windows[axis]).reshape([-1 if a == axis else 1 for a in range(len(windows))])

    found = []
    for axis in range(len(shape)):
        at = np.zeros((1,) * len(windows), np.int64)
        if axis in layout.batch:
            at = at + along(layout.numbering[layout.batch[axis]])
        if axis in layout.component:
            numbered = starts[layout.component[axis]]
            at = at + numbered.reshape([windows[a] if a in layout.numbering else 1 for a in range(len(windows))])
        if axis in layout.window:
            at = at + along(layout.window[axis])
        found.append(at)
    return found


def _starts(a: WindowAxes, indices: np.ndarray) -> list[np.ndarray]:
    """Each component of the starts."""
    indices = index_array(indices)
    return [indices] if a.component_axis == indices.ndim else list(np.moveaxis(indices, a.component_axis, 0))


def _is_inside(positions: Sequence[np.ndarray], shape: Sequence[int], windows: Sequence[int]) -> np.ndarray:
    inside = np.ones(windows, bool)
    for at, size in zip(positions, shape, strict=True):
        inside &= (at >= 0) & (at < size)
    return inside


def _load_starts(w: Writer, a: WindowAxes, layout: _Layout, indices: Array, numbers: Sequence[Scalar]
                 ) -> dict[int, Scalar]:
    """The start of window `numbers` along each operand axis that has a component."""
    starts = {}
    for axis, component in layout.component.items():
        at: list[Scalar | int] = list(numbers)
        if a.component_axis < indices.type.rank:
            at.insert(a.component_axis, component)
        starts[axis] = load_index(w, indices, at)
    return starts


def _place(layout: _Layout, numbers: Sequence[Scalar], offsets: Mapping[int, Scalar]) -> list[Scalar]:
    """The index in the tensor of windows; `offsets` by operand axis."""
    at = dict(zip(layout.numbering, numbers, strict=True)) | {layout.window[a]: x for a, x in offsets.items()}
    return [at[axis] for axis in range(len(at))]


def _all(w: Writer, conditions: Sequence[Scalar]) -> Scalar:
    found = conditions[0]
    for condition in conditions[1:]:
        found = found & condition
    return found


# Gather


def _infer_gather(operands: tuple[Type, ...], a: GatherAttributes) -> TensorType:
    x, indices = tensor_types("gather", operands)
    layout = _check_windows("gather", a, x, indices)
    if len(a.sizes) != x.rank:
        raise TypeMismatch(f"gather requires {x.rank} sizes for {x}, got {len(a.sizes)}")
    for axis, size in enumerate(a.sizes):
        if axis not in layout.batch:
            _check_fits("gather", axis, size, x)
        if axis not in layout.window and size != 1 and not (size == 0 and x.shape[axis] == 0):
            raise ShapeMismatch(f"gather requires size 1 along axis {axis}, which the windows lack, got {size}")
    return TensorType(x.dtype, _windows_shape(a, layout, indices.shape, a.sizes))


def _windows_shape(a: WindowAxes, layout: _Layout, indices: Shape, sizes: Shape) -> Shape:
    shape = {axis: indices[along] for axis, along in zip(layout.numbering, layout.indices, strict=True)}
    shape |= {axis: sizes[along] for along, axis in layout.window.items()}
    return tuple(shape[axis] for axis in range(len(shape)))


def _nothing(dtype: DType) -> float:
    """What stands where an operand has no element: 0, or 2**-127 in f8e8m0fnu, which has none. All bits are 0."""
    return 2.0**-127 if dtype == F8E8M0FNU else 0


def _gather_reference(a: GatherAttributes, result: TensorType, x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    layout = _layout(a, x.ndim, indices.ndim)
    starts = _starts(a, indices)
    if a.clamped:
        starts = [np.clip(start, 0, max(x.shape[axis] - numbers(a.sizes)[axis], 0))
                  for start, axis in zip(starts, a.start_axes, strict=True)]
    shape = numbers(result.shape)
    at = _positions(layout, x.shape, shape, starts)
    inside = _is_inside(at, x.shape, shape)
    if not x.size:
        return np.zeros(shape, x.dtype)
    found = x[tuple(np.clip(each, 0, size - 1) for each, size in zip(at, x.shape, strict=True))]
    return np.where(inside, np.broadcast_to(found, shape), np.zeros((), x.dtype))


def _gather_procedure(a: GatherAttributes, operands: tuple[TensorType, ...], results: tuple[TensorType, ...]
                      ) -> Procedure:
    w = Writer(operands, results)
    x, indices = w.operands
    (out,) = w.results
    layout, nothing = _layout(a, x.type.rank, indices.type.rank), _nothing(x.type.dtype)
    with w.loops([out.type.shape[axis] for axis in layout.numbering]) as numbers:
        starts = _load_starts(w, a, layout, indices, numbers)
        doubtful: dict[int, Scalar] = {}
        for axis, size in enumerate(a.sizes):
            fits = axis in layout.batch or less_equal(size, x.type.shape[axis]) is True
            start = starts.get(axis)
            if start is not None:
                last = w.extent(x.type.shape[axis]) - w.extent(size)
                if a.clamped:
                    starts[axis] = w.apply("maximum", w.apply("minimum", start, last), 0)
                else:
                    doubtful[axis] = (start >= 0) & (start <= last)
            if not fits and axis not in doubtful:
                doubtful[axis] = w.extent(size) <= w.extent(x.type.shape[axis])

        def copy(checked: bool) -> None:
            with w.loops([a.sizes[axis] for axis in layout.window]) as at:
                offsets = dict(zip(layout.window, at, strict=True))
                place = [_element(w, axis, layout, numbers, starts, offsets) for axis in range(x.type.rank)]
                to = _place(layout, numbers, offsets)
                if not checked:
                    w.store(out, to, w.load(x, place))
                    return
                inside = _all(w, [c for axis in doubtful
                                  for c in (place[axis] >= 0, place[axis] < w.extent(x.type.shape[axis]))])
                w.choose(inside, lambda: w.store(out, to, w.load(x, place)), lambda: w.store(out, to, nothing))

        if doubtful:
            w.choose(_all(w, list(doubtful.values())), lambda: copy(False), lambda: copy(True))
        else:
            copy(False)
    return w.finish()


def _element(w: Writer, axis: int, layout: _Layout, numbers: Sequence[Scalar], starts: Mapping[int, Scalar],
             offsets: Mapping[int, Scalar]) -> Scalar:
    """The operand's index along an axis."""
    terms = [numbers[layout.batch[axis]]] if axis in layout.batch else []
    terms += [each[axis] for each in (starts, offsets) if axis in each]
    total = terms[0] if terms else w.constant(0)
    for term in terms[1:]:
        total = total + term
    return total


def _gather_derivative(node: Node, g: Node) -> tuple[Node | None, ...]:
    """The cotangents of windows are added up where the windows lie."""
    x, indices = node.operands
    return scatter((splat(0, x.dtype, x.shape),), indices, (g,), node.attributes, (adding(x.dtype),))[0], None


gather_op = define_op(
    "gather", operands="x indices", attributes=GatherAttributes, infer=_infer_gather, reference=_gather_reference,
    pointful=PROCEDURAL, procedure=_gather_procedure, derivative=_gather_derivative,
    doc="Windows of the first operand at starts that the second gives. With `clamped`, starts are moved so that "
        "windows lie inside. Elements that lie outside are 0 (2**-127 in f8e8m0fnu); a negative start is outside.",
)

# Scatter


def _infer_scatter(operands: tuple[Type, ...], a: ScatterAttributes) -> Type:
    types = tensor_types("scatter", operands)
    count = len(a.functions)
    if len(types) != 2 * count + 1 or not count:
        raise TypeMismatch(f"scatter requires an input and an update for each function, and indices: for {count} "
                           f"functions {2 * count + 1} operands, got {len(types)}")
    inputs, indices, updates = types[:count], types[count], types[count + 1:]
    layout = _check_windows("scatter", a, inputs[0], indices)
    check_functions("scatter", a.functions, tuple(x.dtype for x in (*inputs, *updates)))
    for role, group in (("inputs", inputs), ("updates", updates)):
        for found in group:
            if found.rank != group[0].rank or not all(map(equal, found.shape, group[0].shape)):
                raise ShapeMismatch(f"scatter requires {role} of one shape, got {group[0]} and {found}")
    rank = len(layout.numbering) + len(layout.window)
    if updates[0].rank != rank:
        raise TypeMismatch(f"scatter requires updates of rank {rank}, got {updates[0]}")
    for axis, along in zip(layout.numbering, layout.indices, strict=True):
        if not equal(updates[0].shape[axis], indices.shape[along]):
            raise ShapeMismatch(f"scatter requires size {indices.shape[along]} along axis {axis} of the updates, as "
                                f"along axis {along} of the indices, got {updates[0]}")
    for axis, along in layout.window.items():
        _check_fits("scatter", axis, updates[0].shape[along], inputs[0])
    return inputs[0] if count == 1 else TupleType(inputs)


def check_functions(name: str, functions: tuple[ScalarFunction, ...], parameters: tuple[DType, ...]) -> None:
    """Raises TypeMismatch where functions do not take these dtypes, or function n does not give parameter n's."""
    for n, function in enumerate(functions):
        if function.parameters != parameters or function.dtype != parameters[n]:
            required = ", ".join(map(str, parameters))
            found = ", ".join(map(str, function.parameters))
            raise TypeMismatch(f"{name} requires a function ({required}) -> {parameters[n]} for result {n}, got "
                               f"({found}) -> {function.dtype}")


def _scatter_reference(a: ScatterAttributes, result: Type, *arrays: np.ndarray) -> Any:
    """One round combines at most one update with each element: the first of each, then the second of each, ..."""
    count = len(a.functions)
    inputs, indices, updates = arrays[:count], arrays[count], arrays[count + 1:]
    shape, windows = inputs[0].shape, updates[0].shape
    layout = _layout(a, len(shape), indices.ndim)
    starts = _starts(a, indices)
    if a.clamped:
        starts = [np.clip(start, 0, max(shape[axis] - _window_size(layout, windows, axis), 0))
                  for start, axis in zip(starts, a.start_axes, strict=True)]
    at = _positions(layout, shape, windows, starts)
    inside = _is_inside(at, shape, windows)
    order = (*layout.numbering, *layout.window.values())
    kept = inside.transpose(order).ravel()
    place = np.zeros(windows, np.int64)
    for each, size in zip(at, shape, strict=True):
        place = place * size + np.where(inside, each, 0)
    place = place.transpose(order).ravel()[kept]
    flat = [x.transpose(order).ravel()[kept] for x in updates]
    found = [np.array(x).ravel() for x in inputs]
    for chosen in _rounds(place):
        current = [x[place[chosen]] for x in found]
        new = [f.evaluate(*current, *(x[chosen] for x in flat)) for f in a.functions]
        for x, values in zip(found, new, strict=True):
            x[place[chosen]] = values
    results = tuple(x.reshape(shape) for x in found)
    return results[0] if count == 1 else results


def _rounds(place: np.ndarray) -> Iterator[np.ndarray]:
    """Which updates are the first, second, ... of their element."""
    order = np.argsort(place, kind="stable")
    first = np.searchsorted(place[order], place[order], "left")
    turn = np.empty(len(place), np.int64)
    turn[order] = np.arange(len(place)) - first
    for n in range(int(turn.max(initial=-1)) + 1):
        yield np.flatnonzero(turn == n)


def _window_size(layout: _Layout, windows: Sequence[Any], axis: int) -> Any:
    return windows[layout.window[axis]] if axis in layout.window else 1


def _scatter_procedure(a: ScatterAttributes, operands: tuple[TensorType, ...], results: tuple[TensorType, ...]
                       ) -> Procedure:
    w = Writer(operands, results)
    count = len(a.functions)
    inputs, indices, updates = w.operands[:count], w.operands[count], w.operands[count + 1:]
    shape, windows = inputs[0].type.shape, updates[0].type.shape
    layout = _layout(a, len(shape), indices.type.rank)
    for x, out in zip(inputs, w.results, strict=True):
        copy_array(w, x, out)
    with w.loops([windows[axis] for axis in layout.numbering]) as numbers:
        starts = _load_starts(w, a, layout, indices, numbers)
        firsts: dict[int, Scalar] = {}
        counts: list[Scalar] = []
        single: list[Scalar] = []
        for axis in range(len(shape)):
            if axis in layout.batch:
                continue
            extent, size = w.extent(shape[axis]), w.extent(_window_size(layout, windows, axis))
            start = starts.get(axis)
            if start is None:
                start = w.constant(0)
            elif a.clamped:
                start = starts[axis] = w.apply("maximum", w.apply("minimum", start, extent - size), 0)
            else:
                start = starts[axis] = w.clamp(start, -size, extent)
            if axis in layout.window:
                firsts[axis] = w.apply("maximum", -start, 0)
                counts.append(w.apply("minimum", size, extent - start) - firsts[axis])
            else:
                single.append((start >= 0) & (start < extent))

        def update() -> None:
            with w.loops(counts) as at:
                offsets = {axis: first + n for (axis, first), n in zip(firsts.items(), at, strict=True)}
                place = [_element(w, axis, layout, numbers, starts, offsets) for axis in range(len(shape))]
                source = _place(layout, numbers, offsets)
                current = [w.load(out, place) for out in w.results]
                new = w.functions(a.functions, *current, *(w.load(x, source) for x in updates))
                for out, value in zip(w.results, new, strict=True):
                    w.store(out, place, value)

        if single:
            with w.if_(_all(w, single)):
                update()
        else:
            update()
    return w.finish()


def copy_array(w: Writer, source: Array, target: Array) -> None:
    """Every element of an array into another of the same type."""
    with w.loops(source.type.shape) as at:
        w.store(target, at, w.load(source, at))


def _scatter_derivative(node: Node, g: Any) -> tuple[Node | None, ...]:
    """Of sums: the cotangent itself, and its windows. Of replacements: 0 where an update wins, and to that update."""
    a: ScatterAttributes = node.attributes
    count = len(a.functions)
    cotangents = g if isinstance(g, tuple) else (g,)
    inputs, indices, updates = node.operands[:count], node.operands[count], node.operands[count + 1:]
    of_inputs: list[Node | None] = []
    of_updates: list[Node | None] = []
    for n, (x, update, own) in enumerate(zip(inputs, updates, cotangents, strict=True)):
        if own is None:
            of_inputs.append(None)
            of_updates.append(None)
            continue
        function = a.functions[n]
        sizes = _window_sizes(a, x.shape, indices, update.shape)
        if function == _combining(count, n, x.dtype, a, adding):
            of_inputs.append(own)
            of_updates.append(gather(own, indices, a, sizes))
        elif function == _combining(count, n, x.dtype, a, replacing):
            winner, mine = _winners(a, x, indices, update, sizes)
            untouched = map_scalar(_op("equal"), winner, splat(0, I64, x.shape))
            of_inputs.append(map_scalar(_op("where"), untouched, own, splat(0, x.dtype, x.shape)))
            won = map_scalar(_op("equal"), gather(winner, indices, a, sizes), mine)
            of_updates.append(map_scalar(
                _op("where"), won, gather(own, indices, a, sizes), splat(0, x.dtype, update.shape)))
        else:
            raise TypeMismatch("the derivative of scatter requires functions that add or replace, got "
                               f"another one for result {n}")
    return (*of_inputs, None, *of_updates)


def _combining(count: int, n: int, dtype: DType, a: ScatterAttributes, make: Callable[[DType], ScalarFunction]
               ) -> ScalarFunction:
    """A function of value and update n, as one of all 2 * count parameters."""
    parameters = a.functions[n].parameters
    function = make(dtype)
    return function if count == 1 else renumbered(function, (n, count + n), parameters)


def _window_sizes(a: WindowAxes, shape: Shape, indices: Node, windows: Shape) -> Shape:
    layout = _layout(a, len(shape), len(indices.shape))
    return tuple(windows[layout.window[axis]] if axis in layout.window else one_of(size)
                 for axis, size in enumerate(shape))


def _winners(a: ScatterAttributes, x: Node, indices: Node, update: Node, sizes: Shape) -> tuple[Node, Node]:
    """The number from 1 of the last update of each element of x (0: none), and the numbers of the updates."""
    flat = iota(I64, (product(update.shape),), 0)
    mine = reshape(map_scalar(_op("add"), flat, splat(1, I64, flat.shape)), update.shape)
    return scatter((splat(0, I64, x.shape),), indices, (mine,), a, (replacing(I64),))[0], mine


scatter_op = define_op(
    "scatter", operands="inputs* indices updates*", attributes=ScatterAttributes, infer=_infer_scatter,
    reference=_scatter_reference, pointful=PROCEDURAL, procedure=_scatter_procedure, derivative=_scatter_derivative,
    doc="Inputs with windows of updates combined into them, at starts that the indices give. Windows come one after "
        "the other, in row-major order of their numbers, so that the last one stays where updates replace. With "
        "`clamped`, starts are moved so that windows lie inside; elements of windows that lie outside are left out, "
        "and a negative start is outside. Differentiable where the functions add or replace.",
)

# Slices whose starts are values


def _check_starts(name: str, x: TensorType, starts: tuple[TensorType, ...]) -> None:
    if len(starts) != x.rank:
        raise TypeMismatch(f"{name} requires a start for each axis of {x}, got {len(starts)}")
    for axis, start in enumerate(starts):
        if start.rank or not start.dtype.is_integer:
            raise TypeMismatch(f"{name} requires integers of rank 0 as starts, got {start} for axis {axis}")


def _infer_dynamic_slice(operands: tuple[Type, ...], a: DynamicSliceAttributes) -> TensorType:
    types = tensor_types("dynamic_slice", operands)
    if not types:
        raise TypeMismatch("dynamic_slice requires at least one operand")
    x, *starts = types
    _check_starts("dynamic_slice", x, tuple(starts))
    if len(a.sizes) != x.rank:
        raise TypeMismatch(f"dynamic_slice requires {x.rank} sizes for {x}, got {len(a.sizes)}")
    for axis, size in enumerate(a.sizes):
        _check_fits("dynamic_slice", axis, size, x)
    return TensorType(x.dtype, a.sizes)


def _clamped_starts(shape: Sequence[int], sizes: Sequence[int], starts: Sequence[np.ndarray]) -> tuple[slice, ...]:
    """Where a window lies, as far as the array reaches."""
    firsts = [int(np.clip(index_array(start), 0, max(n - size, 0)))
              for start, n, size in zip(starts, shape, sizes, strict=True)]
    return tuple(slice(first, min(first + size, n)) for first, n, size in zip(firsts, shape, sizes, strict=True))


def _dynamic_slice_reference(a: DynamicSliceAttributes, result: TensorType, x: np.ndarray, *starts: np.ndarray
                             ) -> np.ndarray:
    part = x[_clamped_starts(x.shape, numbers(a.sizes), starts)]
    found = np.zeros(numbers(a.sizes), x.dtype)
    found[tuple(map(slice, part.shape))] = part
    return found


def _write_starts(w: Writer, shape: Shape, sizes: Shape, starts: Sequence[Array]) -> list[Scalar]:
    found = []
    for n, size, start in zip(shape, sizes, starts, strict=True):
        last = w.extent(n) - w.extent(size)
        found.append(w.apply("maximum", w.apply("minimum", load_index(w, start, ()), last), 0))
    return found


def _dynamic_slice_procedure(a: DynamicSliceAttributes, operands: tuple[TensorType, ...],
                             results: tuple[TensorType, ...]) -> Procedure:
    w = Writer(operands, results)
    x, *starts = w.operands
    (out,) = w.results
    firsts, nothing = _write_starts(w, x.type.shape, a.sizes, starts), _nothing(x.type.dtype)
    doubtful = [axis for axis, size in enumerate(a.sizes) if less_equal(size, x.type.shape[axis]) is not True]
    with w.loops(a.sizes) as at:
        place = [first + n for first, n in zip(firsts, at, strict=True)]
        if doubtful:
            inside = _all(w, [place[axis] < w.extent(x.type.shape[axis]) for axis in doubtful])
            w.choose(inside, lambda: w.store(out, at, w.load(x, place)), lambda: w.store(out, at, nothing))
        else:
            w.store(out, at, w.load(x, place))
    return w.finish()


def _dynamic_slice_derivative(node: Node, g: Node) -> tuple[Node | None, ...]:
    x, *starts = node.operands
    return dynamic_update_slice(splat(0, x.dtype, x.shape), g, tuple(starts)), *(None for _ in starts)


dynamic_slice_op = define_op(
    "dynamic_slice", operands="x starts*", attributes=DynamicSliceAttributes, infer=_infer_dynamic_slice,
    reference=_dynamic_slice_reference, pointful=PROCEDURAL, procedure=_dynamic_slice_procedure,
    derivative=_dynamic_slice_derivative,
    doc="A window of the operand at a start that the other operands give, one for each axis. Starts are moved so that "
        "it lies inside, negative ones to 0; where the operand is smaller than the window, the rest is 0 (2**-127 in "
        "f8e8m0fnu).",
)


def _infer_dynamic_update(operands: tuple[Type, ...], attributes: None) -> TensorType:
    types = tensor_types("dynamic_update_slice", operands)
    if len(types) < 2:
        raise TypeMismatch(f"dynamic_update_slice requires at least 2 operands, got {len(types)}")
    x, update, *starts = types
    if update.dtype != x.dtype or update.rank != x.rank:
        raise TypeMismatch(f"dynamic_update_slice requires an update of the dtype and rank of {x}, got {update}")
    for axis, size in enumerate(update.shape):
        _check_fits("dynamic_update_slice", axis, size, x)
    _check_starts("dynamic_update_slice", x, tuple(starts))
    return x


def _dynamic_update_reference(attributes: None, result: TensorType, x: np.ndarray, update: np.ndarray,
                              *starts: np.ndarray) -> np.ndarray:
    found = np.array(x)
    place = _clamped_starts(x.shape, update.shape, starts)
    found[place] = update[tuple(slice(each.stop - each.start) for each in place)]
    return found


def _dynamic_update_procedure(attributes: None, operands: tuple[TensorType, ...], results: tuple[TensorType, ...]
                              ) -> Procedure:
    w = Writer(operands, results)
    x, update, *starts = w.operands
    (out,) = w.results
    copy_array(w, x, out)
    firsts = _write_starts(w, x.type.shape, update.type.shape, starts)
    sizes = [w.apply("minimum", w.extent(size), w.extent(n))
             for size, n in zip(update.type.shape, x.type.shape, strict=True)]
    with w.loops(sizes) as at:
        w.store(out, [first + n for first, n in zip(firsts, at, strict=True)], w.load(update, at))
    return w.finish()


def _dynamic_update_derivative(node: Node, g: Node) -> tuple[Node | None, ...]:
    _, update, *starts = node.operands
    zeros = splat(0, update.dtype, update.shape)
    return (dynamic_update_slice(g, zeros, tuple(starts)), dynamic_slice(g, tuple(starts), update.shape),
            *(None for _ in starts))


dynamic_update_slice_op = define_op(
    "dynamic_update_slice", operands="x update starts*", attributes=None, infer=_infer_dynamic_update,
    reference=_dynamic_update_reference, pointful=PROCEDURAL, procedure=_dynamic_update_procedure,
    derivative=_dynamic_update_derivative,
    doc="The first operand with the second in place of a window, at a start that the other operands give, one for each "
        "axis. Starts are moved so that the window lies inside, negative ones to 0; an update larger than the operand "
        "is cut off.",
)

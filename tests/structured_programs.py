"""Samplers of the structured operations: indexing by values, cumulation, sorting, windows, decompositions.

`programs` imports this module when its own table is filled.
"""

from __future__ import annotations

from programs import ELEMENTS, Maker, count, sampler, scalar_function, signatures

from tcp_eqsat.lang.dims import Size, equal, less_equal
from tcp_eqsat.lang.op import OPS
from tcp_eqsat.lang.ops.attributes import (
    DynamicSliceAttributes,
    GatherAttributes,
    ScatterAttributes,
    WindowAxes,
)
from tcp_eqsat.lang.ops.index_builders import adding, renumbered, replacing
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.scalar import SCALAR_OPS, ScalarFunction, function_of
from tcp_eqsat.lang.types import BOOL, DTYPES, F32, DType, Shape

INDEX_DTYPES = tuple(d for d in DTYPES.values() if d.is_integer)


def fit(maker: Maker, size: Size) -> Size:
    """The size of a window along an axis of this size."""
    if isinstance(size, int):
        return maker.random.randint(0, size) if maker.chance(0.3) else min(size, maker.random.choice((1, 2, 3)))
    choices = [n for n in (size, size - 1, 1, 2) if less_equal(0, n) is True and less_equal(n, size) is not False]
    return maker.random.choice(choices)


def windows(maker: Maker, x: Node) -> tuple[WindowAxes, Node, dict[int, Size]]:
    """Axes for windows of `x`, indices, and the sizes of windows along the axes that have one."""
    rank = len(x.shape)
    roles = {a: maker.random.choice(("window", "window", "dropped", "batch")) for a in range(rank)}
    batch = tuple(a for a in range(rank) if roles[a] == "batch")
    dropped = tuple(a for a in range(rank) if roles[a] == "dropped" and not equal(x.shape[a], 0))
    inside = [a for a in range(rank) if a not in batch and a not in dropped]
    starts = [a for a in (*inside, *dropped) if maker.chance(0.7)]
    maker.random.shuffle(starts)
    sizes = {a: fit(maker, x.shape[a]) if a in starts or maker.chance(0.2) else x.shape[a] for a in inside}
    lengths: list[Size] = [x.shape[a] for a in batch]
    total = count([*lengths, *sizes.values()])
    while maker.chance(0.6) and len(lengths) + len(inside) < maker.max_rank:
        size = maker.size()
        if total * count([size]) > ELEMENTS:
            break
        total *= count([size])
        lengths.insert(maker.random.randint(0, len(lengths)), size)
    places: list[int | None] = []
    left = list(batch)
    for n in lengths:
        found = next((a for a in left if x.shape[a] is n), None)
        if found is not None:
            left.remove(found)
        places.append(found)
    component = len(lengths) if len(starts) == 1 and maker.chance(0.5) else maker.random.randint(0, len(lengths))
    shape = list(lengths)
    if not (len(starts) == 1 and component == len(lengths)):
        shape.insert(component, len(starts))
        places.insert(component, None)
    along = tuple(places.index(a) for a in batch)
    window_axes = tuple(sorted(maker.random.sample(range(len(lengths) + len(inside)), len(inside))))
    indices = maker.tensor(maker.random.choice([d for d in INDEX_DTYPES if d in maker.dtypes] or INDEX_DTYPES),
                           tuple(shape))
    axes = WindowAxes(window_axes, dropped, batch, along, tuple(starts), component, maker.chance(0.5))
    return axes, indices, sizes


def _fields(axes: WindowAxes) -> dict[str, object]:
    return {name: getattr(axes, name) for name in WindowAxes.__slots__}


@sampler("gather")
def _gather(maker: Maker) -> Node:
    x = maker.tensor()
    axes, indices, sizes = windows(maker, x)
    attributes = GatherAttributes(**_fields(axes), sizes=tuple(sizes.get(a, 1) for a in range(len(x.shape))))
    return Node.make(OPS["gather"], (x, indices), attributes)


@sampler("scatter")
def _scatter(maker: Maker) -> Node:
    x = maker.tensor()
    axes, indices, sizes = windows(maker, x)
    lengths = [n for axis, n in enumerate(indices.shape) if axis != axes.component_axis]
    rank = len(lengths) + len(sizes)
    inside = dict(zip(axes.window_axes, sizes.values(), strict=True))
    numbering = iter(lengths)
    shape = tuple(inside[a] if a in inside else next(numbering) for a in range(rank))
    inputs = [x, *(maker.tensor(shape=x.shape) for _ in range(maker.random.choice((0, 0, 1))))]
    updates = [maker.tensor(each.dtype, shape) for each in inputs]
    functions = combining(maker, [each.dtype for each in inputs])
    return Node.make(OPS["scatter"], (*inputs, indices, *updates), ScatterAttributes(
        **_fields(axes), functions=functions))


def combining(maker: Maker, dtypes: list[DType]) -> tuple[ScalarFunction, ...]:
    """For each dtype a function of the values and the updates of all."""
    parameters = (*dtypes, *dtypes)
    found = []
    for n, dtype in enumerate(dtypes):
        function = replacing(dtype) if dtype is BOOL or maker.chance(0.4) else adding(dtype)
        if maker.stable and dtype is BOOL:
            function = function_of(SCALAR_OPS["bitwise_xor"], dtype, dtype)
        elif not maker.stable and maker.chance(0.3):
            function = binary(maker, dtype)
        found.append(renumbered(function, (n, len(dtypes) + n), parameters))
    return tuple(found)


def binary(maker: Maker, dtype: DType) -> ScalarFunction:
    """A function of two values of a dtype that gives one."""
    for _ in range(20):
        function = scalar_function(maker, (dtype, dtype), 2)
        if function.dtype == dtype:
            return function
    usable = [op for op in SCALAR_OPS.values() if (dtype, dtype) in signatures(op)
              and op.result_dtype(dtype, dtype) == dtype]
    return function_of(maker.random.choice(usable), dtype, dtype)


def starts_for(maker: Maker, shape: Shape) -> tuple[Node, ...]:
    return tuple(maker.tensor(maker.random.choice([d for d in INDEX_DTYPES if d in maker.dtypes] or INDEX_DTYPES), ())
                 for _ in shape)


@sampler("dynamic_slice")
def _dynamic_slice(maker: Maker) -> Node:
    x = maker.tensor()
    sizes = tuple(fit(maker, n) for n in x.shape)
    return Node.make(OPS["dynamic_slice"], (x, *starts_for(maker, x.shape)), DynamicSliceAttributes(sizes))


@sampler("dynamic_update_slice")
def _dynamic_update_slice(maker: Maker) -> Node:
    x = maker.tensor()
    update = maker.tensor(x.dtype, tuple(fit(maker, n) for n in x.shape))
    return Node.make(OPS["dynamic_update_slice"], (x, update, *starts_for(maker, x.shape)))



"""Samplers of the structured operations: indexing by values, cumulation, sorting, windows, decompositions.

`programs` imports this module when its own table is filled.
"""

from __future__ import annotations

from programs import ELEMENTS, SYMBOLS, Maker, count, sampler, scalar_function, signatures

from tcp_eqsat.lang.dims import Size, equal, less_equal
from tcp_eqsat.lang.op import OPS
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.ops.attributes import (
    CholeskyAttributes,
    CumulativeAttributes,
    DynamicSliceAttributes,
    FftAttributes,
    GatherAttributes,
    OverlapAddAttributes,
    ReduceGeneralAttributes,
    ReverseAttributes,
    ScatterAttributes,
    SearchSortedAttributes,
    SizeAttributes,
    SortAttributes,
    TriangularSolveAttributes,
    WindowAxes,
    WindowsAttributes,
)
from tcp_eqsat.lang.ops.index_builders import adding, renumbered, replacing
from tcp_eqsat.lang.ops.order_builders import ascending, descending
from tcp_eqsat.lang.ops.windows import window_count
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.scalar import SCALAR_OPS, ScalarFunction, function_of
from tcp_eqsat.lang.types import BOOL, DTYPES, F32, F64, I64, DType, Shape, TensorType

INDEX_DTYPES = tuple(d for d in DTYPES.values() if d.is_integer and not d.storage_only)


def computed(maker: Maker, shape: Shape | None = None, *, rank: int = 0) -> Node:
    """A value of a dtype that has arithmetic and an order."""

    def fits(dtype: DType) -> bool:
        return not dtype.storage_only and not dtype.is_complex

    allowed = [d for d in maker.dtypes if fits(d)] or [F32]
    if maker.chance(0.6):
        shape = maker.shape(max(rank, maker.rank())) if shape is None and maker.chance(0.5) else shape
        x = maker.tensor(maker.random.choice(allowed), shape, lambda x: len(x.shape) >= rank)
        return x if len(x.shape) >= rank else maker.leaf(TensorType(x.dtype, maker.shape(rank)))
    x = maker.tensor(None, shape, lambda x: len(x.shape) >= rank and x.dtype in allowed)
    if len(x.shape) >= rank and fits(x.dtype):
        return x
    return maker.leaf(TensorType(maker.random.choice(allowed), x.shape if len(x.shape) >= rank else maker.shape(rank)))


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
    x = computed(maker)
    axes, indices, sizes = windows(maker, x)
    lengths = [n for axis, n in enumerate(indices.shape) if axis != axes.component_axis]
    rank = len(lengths) + len(sizes)
    inside = dict(zip(axes.window_axes, sizes.values(), strict=True))
    numbering = iter(lengths)
    shape = tuple(inside[a] if a in inside else next(numbering) for a in range(rank))
    inputs = [x, *(computed(maker, x.shape) for _ in range(maker.random.choice((0, 0, 1))))]
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




# Along axes


def together(maker: Maker) -> list[Node]:
    """One to three values of one shape that has an axis."""
    x = computed(maker, rank=1)
    return [x, *(computed(maker, x.shape) for _ in range(maker.random.choice((0, 0, 1, 2))))]


def accumulating(maker: Maker, dtypes: list[DType]) -> tuple[ScalarFunction, ...]:
    """For each dtype a function of the values so far and the next ones of all."""
    parameters = (*dtypes, *dtypes)
    found = []
    for n, dtype in enumerate(dtypes):
        names = ("maximum", "minimum") if dtype is BOOL else ("add", "multiply", "maximum", "minimum")
        function = function_of(SCALAR_OPS[maker.random.choice(names)], dtype, dtype)
        if not maker.stable and maker.chance(0.3):
            function = binary(maker, dtype)
        found.append(renumbered(function, (n, len(dtypes) + n), parameters))
    return tuple(found)


@sampler("cumulative")
def _cumulative(maker: Maker) -> Node:
    operands = together(maker)
    functions = accumulating(maker, [x.dtype for x in operands])
    return Node.make(OPS["cumulative"], tuple(operands), CumulativeAttributes(
        functions, maker.random.randrange(len(operands[0].shape)), maker.chance(0.5)))


@sampler("reduce_general")
def _reduce_general(maker: Maker) -> Node:
    x = computed(maker)
    operands = [x, *(computed(maker, x.shape) for _ in range(maker.random.choice((0, 0, 1, 2))))]
    initial = [maker.tensor(each.dtype, ()) for each in operands]
    axes = tuple(a for a in range(len(x.shape)) if maker.chance(0.6))
    functions = accumulating(maker, [each.dtype for each in operands])
    return Node.make(OPS["reduce_general"], (*operands, *initial), ReduceGeneralAttributes(functions, axes))


@sampler("sort")
def _sort(maker: Maker) -> Node:
    operands = together(maker)
    dtypes = [x.dtype for x in operands]
    key = maker.random.randrange(len(operands))
    function = maker.random.choice((ascending, descending))(dtypes[key])
    if not maker.stable and maker.chance(0.2):
        name = maker.random.choice(("less", "less_equal", "not_equal"))
        function = function_of(SCALAR_OPS[name], dtypes[key], dtypes[key])
    function = renumbered(function, (key, len(dtypes) + key), (*dtypes, *dtypes))
    return Node.make(OPS["sort"], tuple(operands), SortAttributes(
        function, maker.random.randrange(len(operands[0].shape))))


@sampler("search_sorted")
def _search_sorted(maker: Maker) -> Node:
    wanted = computed(maker)
    return Node.make(OPS["search_sorted"], (maker.tensor(wanted.dtype, maker.shape(1)), wanted),
                     SearchSortedAttributes(maker.chance(0.5)))


# Windows


@sampler("size")
def _size(maker: Maker) -> Node:
    size = maker.size() if maker.symbolic else 3
    if maker.symbolic and isinstance(size, int):
        size = SYMBOLS["s"] * size + 1
    return Node.make(OPS["size"], (), SizeAttributes(size))


@sampler("reverse")
def _reverse(maker: Maker) -> Node:
    x = maker.tensor()
    axes = tuple(a for a in range(len(x.shape)) if maker.chance(0.6))
    return Node.make(OPS["reverse"], (x,), ReverseAttributes(axes))


def windows_along(maker: Maker, shape: Shape) -> tuple[WindowsAttributes, Shape]:
    """Windows of a shape, and the shape of all of them."""
    axes = tuple(a for a in range(len(shape)) if maker.chance(0.6))[: maker.max_rank - len(shape)]
    sizes: list[Size] = []
    strides, dilations = [], []
    counts = list(shape)
    for axis in axes:
        sizes.append(maker.random.choice((1, 2, 3, *(n for n in (shape[axis],) if less_equal(1, n) is True))))
        strides.append(maker.random.choice((1, 1, 2, 3)))
        dilations.append(maker.random.choice((1, 1, 2)))
        counts[axis] = window_count(shape[axis], sizes[-1], strides[-1], dilations[-1])
        if count((*counts, *sizes)) > ELEMENTS:
            sizes[-1] = 1
            counts[axis] = window_count(shape[axis], 1, strides[-1], dilations[-1])
    return WindowsAttributes(axes, tuple(sizes), tuple(strides), tuple(dilations)), (*counts, *sizes)


@sampler("windows")
def _windows(maker: Maker) -> Node:
    x = maker.tensor()
    return Node.make(OPS["windows"], (x,), windows_along(maker, x.shape)[0])


@sampler("overlap_add")
def _overlap_add(maker: Maker) -> Node:
    shape = computed(maker).shape
    a, whole = windows_along(maker, shape)
    allowed = [d for d in maker.dtypes if d is not BOOL and not d.storage_only] or [F32]
    x = maker.tensor(maker.random.choice(allowed), whole)
    return Node.make(OPS["overlap_add"], (x,), OverlapAddAttributes(
        a.axes, a.sizes, a.strides, a.dilations, tuple(shape[axis] for axis in a.axes)))


# Linear algebra


def real_dtype(maker: Maker) -> DType:
    return maker.random.choice([d for d in (F32, F64) if d in maker.dtypes] or [F32])


def matrices(maker: Maker) -> Shape:
    """A shape whose last axis may stand twice."""
    shape = maker.shape(maker.random.choice((1, 1, 2)))
    return shape if count((*shape, shape[-1])) <= 400 else (4,)


def positive_definite(maker: Maker, dtype: DType) -> Node:
    """x x^T + n I."""
    *batch, n = matrices(maker)
    x = maker.tensor(dtype, (*batch, n, n))
    axes = tuple(range(len(batch)))
    rank = len(x.shape)
    product = builders.dot_general(x, x, ((rank - 1,), (rank - 1,)), (axes, axes))
    row, col = (builders.iota(I64, x.shape, axis) for axis in (rank - 2, rank - 1))
    large = builders.map_scalar(SCALAR_OPS["add"], product, builders.splat(9, dtype, x.shape))
    return builders.map_scalar(
        SCALAR_OPS["where"], builders.map_scalar(SCALAR_OPS["equal"], row, col), large, product)


@sampler("cholesky")
def _cholesky(maker: Maker) -> Node:
    return Node.make(OPS["cholesky"], (positive_definite(maker, real_dtype(maker)),),
                     CholeskyAttributes(maker.chance(0.5)))


@sampler("triangular_solve")
def _triangular_solve(maker: Maker) -> Node:
    dtype, (*batch, n) = real_dtype(maker), matrices(maker)
    a = TriangularSolveAttributes(*(maker.chance(0.5) for _ in range(4)), conjugated=False)
    columns = maker.random.choice((1, 2, 3))
    matrix = maker.tensor(dtype, (*batch, n, n))
    right = maker.tensor(dtype, (*batch, n, columns) if a.left else (*batch, columns, n))
    if maker.chance(0.3):
        matrix, right = [matrix, maker.tensor(dtype, matrix.shape)], [right, maker.tensor(dtype, right.shape)]
        return Node.make(OPS["triangular_solve"], (*matrix, *right), a)
    return Node.make(OPS["triangular_solve"], (matrix, right), a)


@sampler("fft")
def _fft(maker: Maker) -> Node:
    x = maker.tensor(real_dtype(maker), maker.shape(max(1, min(3, maker.rank()))))
    return Node.make(OPS["fft"], (x, maker.tensor(x.dtype, x.shape)), FftAttributes(maker.chance(0.5)))


# Programs


@sampler("optimization_barrier")
def _barrier(maker: Maker) -> Node:
    return Node.make(OPS["optimization_barrier"], (maker.tensor(),))

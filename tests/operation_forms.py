"""A form of every tensor operation for an operand of any dtype and rank, and which dtypes each takes.

`FORMS` has one entry a tensor operation, which applies it to what an `Operands` offers; `test_every_operation` compiles
them for all dtypes and ranks. Unlike the samplers of `programs` they draw nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from programs import random_array, reduction_dtypes, special_values

from tcp_eqsat.lang.dims import Size, symbol
from tcp_eqsat.lang.op import bind_sizes
from tcp_eqsat.lang.ops import builders as b
from tcp_eqsat.lang.ops import quantization as q
from tcp_eqsat.lang.ops.accumulate_builders import cumulative_of, reduce_general
from tcp_eqsat.lang.ops.attributes import WindowsAttributes
from tcp_eqsat.lang.ops.complex_views import view_as_complex, view_as_real
from tcp_eqsat.lang.ops.control import case, if_, scan, while_
from tcp_eqsat.lang.ops.index_builders import (
    adding,
    dynamic_slice,
    dynamic_update_slice,
    replacing,
    row_axes,
    scatter,
    take,
)
from tcp_eqsat.lang.ops.linalg_builders import cholesky, fft, triangular_solve
from tcp_eqsat.lang.ops.order_builders import ascending, descending, of_first, search_sorted, sort
from tcp_eqsat.lang.ops.structure import barrier, tuple_of
from tcp_eqsat.lang.ops.window_builders import overlap_add, reverse, windows
from tcp_eqsat.lang.program import Node, Region
from tcp_eqsat.lang.quantized import quantized
from tcp_eqsat.lang.scalar import SCALAR_OPS, function_of, scalar_op_named
from tcp_eqsat.lang.types import BOOL, F32, F64, I8, I16, I32, I64, NAMED_DTYPES, DType, Shape, TensorType

M, N = symbol("m", 0, 5), symbol("n", 0, 2000)
SHAPES: tuple[Shape, ...] = ((), (N,), (M, N), (M, 2, N), (2, N, 1, M), (M, 1, 2, N, 3))
"""A shape of each rank."""
SIZES = ({"m": 1, "n": 1}, {"m": 3, "n": 7}, {"m": 0, "n": 5}, {"m": 2, "n": 0}, {"m": 2, "n": 259})
QUANTIZED = (quantized(I8, F32, 0.5, 3), quantized(I16, F64, 2.0**-7, 100), quantized(I8, F32, 0.1, low=-127, high=100))
EVERY_DTYPE: tuple[DType, ...] = (*NAMED_DTYPES.values(), *QUANTIZED)


@dataclass(frozen=True)
class Operands:
    """What forms apply operations to: parameters of a dtype and rank.

    x, y        of the shape of the rank; `axis` is the one whose size is large
    v           rank 0
    square      f32, f64 or complex: matrices of m rows, positive definite (x for other dtypes)
    at          i64[4], a start or index along an axis: anything, out of range too
    start       i32[], the same
    true        bool[]
    """

    x: Node
    y: Node
    v: Node
    square: Node
    at: Node
    start: Node
    true: Node

    @staticmethod
    def of(dtype: DType, rank: int, first: int = 0) -> Operands:
        """Parameters numbered from `first` on."""
        shape = SHAPES[rank]
        matrix = (*(2 for _ in range(rank - 2)), M, M) if dtype in FRACTIONAL and rank >= 2 else ()
        types = {
            "x": TensorType(dtype, shape), "y": TensorType(dtype, shape), "v": TensorType(dtype, ()),
            "square": TensorType(dtype, matrix), "at": TensorType(I64, (4,)), "start": TensorType(I32, ()),
            "true": TensorType(BOOL, ())}
        return Operands(**{
            name: b.parameter(f"{name}{rank}", first + n, type_) for n, (name, type_) in enumerate(types.items())})

    @property
    def parameters(self) -> tuple[Node, ...]:
        return tuple(getattr(self, name) for name in self.__dataclass_fields__)

    @property
    def dtype(self) -> DType:
        return self.x.dtype

    @property
    def rank(self) -> int:
        return len(self.x.shape)

    @property
    def axis(self) -> int:
        return self.x.shape.index(N)

    @property
    def axes(self) -> tuple[int, ...]:
        return tuple(range(self.rank))

    @property
    def half(self) -> Shape:
        return tuple((n + 1) // 2 for n in self.x.shape)

    def arrays(self, sizes: dict[str, int], values: str, seed: int) -> tuple[np.ndarray, ...]:
        """Values of the parameters: "tame" or "nasty"."""
        generator = np.random.default_rng((seed, self.rank))
        found = []
        for x in self.parameters:
            type_ = bind_sizes(x.type, sizes)
            if x is self.square and x.shape:
                found.append(positive_definite(generator, x.dtype, type_.shape))
            elif x is self.at or x is self.start:
                found.append(generator.choice(np.array([0, 1, -1, 2, 3, 10**6, -(10**6)]), type_.shape).astype(
                    x.dtype.numpy))
            else:
                found.append(array_of(generator, x.dtype, type_.shape, values))
        return tuple(np.asarray(x) for x in found)


def array_of(generator: np.random.Generator, dtype: DType, shape: tuple[int, ...], values: str) -> np.ndarray:
    """As `random_array`, complex and quantised dtypes too."""
    if dtype.is_complex:
        parts = random_array(generator, dtype.part, (*shape, 2), values)
        return np.ascontiguousarray(parts).view(dtype.numpy)[..., 0]
    if dtype in QUANTIZED:
        return generator.integers(dtype.low, dtype.high + 1, shape).astype(dtype.numpy)
    return random_array(generator, dtype, shape, values)


def positive_definite(generator: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    x = array_of(generator, dtype, shape, "tame")
    return x @ np.conj(np.swapaxes(x, -1, -2)) + (2 * np.eye(shape[-1])).astype(dtype.numpy)


# Which dtypes an operation computes with

ANY = frozenset(EVERY_DTYPE)
UNQUANTIZED = frozenset(NAMED_DTYPES.values())
COMPLEX = frozenset(d for d in EVERY_DTYPE if d.is_complex)
ARITHMETIC = frozenset(d for d in UNQUANTIZED if not d.storage_only)
ORDERED = ARITHMETIC - COMPLEX
NUMBERS = ARITHMETIC - {BOOL}
FRACTIONAL = frozenset((F32, F64)) | COMPLEX


def op(name: str, *operands: Node) -> Node:
    return b.map_scalar(scalar_op_named(name), *operands)


def reductions(o: Operands) -> Iterable[Node]:
    """By every operation that has a start value, along one axis and along all."""
    for each in SCALAR_OPS.values():
        known = reduction_dtypes(each) if o.dtype in ORDERED else (
            (o.dtype,) if each.name in ("add", "multiply", "maximum") else ())
        if o.dtype in known:
            for axes in sorted({(), o.axes, o.axes[:1], o.axes[-1:]}):
                yield b.reduce_axes(each, o.x, axes)


def _maps(o: Operands) -> Iterable[Node]:
    yield op("where", b.broadcast_scalar(o.true, o.x.shape), o.x, o.y)
    if o.dtype in NUMBERS:
        yield op("multiply", op("add", o.x, o.y), o.x)


def _contractions(o: Operands) -> Iterable[Node]:
    others = tuple(a for a in o.axes if not o.rank or a != o.axis)
    along = (o.axis,) if o.rank else ()
    yield b.dot_general(o.x, o.y, (o.axes, o.axes))
    yield b.dot_general(o.x, o.y, (along, along), (others, others))
    if 1 < o.rank < 4:
        yield b.dot_general(o.x, o.y, (along, along))


def _combining(o: Operands) -> tuple:
    return (replacing(o.dtype),) if o.dtype is BOOL else (replacing(o.dtype), adding(o.dtype))


def _scatters(o: Operands) -> Iterable[Node]:
    if o.rank:
        axes = row_axes(o.rank, 1, o.axis, clamped=False)
        rows = take(o.y, o.at, o.axis)
        for function in _combining(o):
            yield scatter((o.x,), o.at, (rows,), axes, (function,))[0]


def _windows(o: Operands) -> Iterable[Node]:
    yield windows(o.x, (o.axis,), (2,), (1,), (2,)) if o.rank else windows(o.x, (), ())


def _overlaps(o: Operands) -> Iterable[Node]:
    if o.rank:
        parts = windows(o.x, (o.axis,), (3,), (2,))
        yield overlap_add(parts, WindowsAttributes((o.axis,), (3,), (2,), (1,)), (N,))


def _sorted(o: Operands) -> Iterable[Node]:
    if o.rank:
        yield from sort((o.x,), ascending(o.dtype), o.axis)
        order = b.iota(I32, o.x.shape, o.axis)
        yield from sort((o.x, order), of_first(descending(o.dtype), (o.dtype, I32)), o.axis)


def _search(o: Operands) -> Iterable[Node]:
    table = special_values(o.dtype) if o.dtype in ORDERED else np.zeros(2, o.dtype.numpy)
    ordered = sort((b.constant(table),), ascending(o.dtype), 0)[0] if o.dtype in ORDERED else o.x
    yield from (search_sorted(ordered, o.x, right=right) for right in (False, True))


def _turns(o: Operands) -> Iterable[Node]:
    def body(i: Node, x: Node) -> tuple[Node, ...]:
        return op("add", i, b.scalar_constant(1, I32)), reverse(x, o.axes)

    three = b.scalar_constant(3, I32)
    yield while_(lambda i, _: op("less", i, three), body, (b.scalar_constant(0, I32), o.x))[1]


def _scans(o: Operands) -> Iterable[Node]:
    """Slices one step late; without axes, what is carried through 3 steps."""
    if not o.rank:
        yield from scan(lambda carry: (o.v, carry), (o.x,), (), 3)
        return
    start = b.broadcast_scalar(o.v, o.x.shape[1:])
    for backwards in (False, True):
        yield from scan(lambda carry, part: (part, carry), (start,), (o.x,), o.x.shape[0], backwards)


def _composites(o: Operands) -> Iterable[Node]:
    x, p = b.parameter("a", 0, o.x.tensor_type), b.parameter("p", 1, o.true.tensor_type)
    body = Region((x, p), if_(p, lambda: (x,), lambda: (reverse(x, o.axes),)))
    yield b.composite("my.turn", body, o.x, o.true)


def _constants(o: Operands) -> Iterable[Node]:
    size = (0, 3, 17)[o.rank % 3]
    array = array_of(np.random.default_rng(o.rank), o.dtype, (*(1,) * (o.rank - 1), size) if o.rank else (), "nasty")
    yield q.view_as_quantized(b.constant(array), o.dtype) if o.dtype in QUANTIZED else b.constant(array)


def _matrices(o: Operands, function: Callable[[Node], Iterable[Node]]) -> Iterable[Node]:
    return function(o.square) if o.rank >= 2 or o.dtype not in FRACTIONAL else ()


def _solutions(square: Node) -> Iterable[Node]:
    for left in (True, False):
        yield triangular_solve(square, square, left=left, lower=left, unit_diagonal=not left)


def _transforms(o: Operands) -> Iterable[Node]:
    if not o.rank and o.dtype in FRACTIONAL:
        return
    if o.dtype.is_complex:
        yield from (fft(o.x, inverse=inverse) for inverse in (False, True))
    else:
        yield fft(view_as_complex(windows(o.x, (o.rank - 1,), (2,))))


def _quantized(o: Operands) -> Iterable[Node]:
    for dtype in QUANTIZED:
        if dtype.expressed == o.dtype:
            yield q.view_as_storage(q.quantize(o.x, dtype))
    if o.dtype not in (F32, F64):
        yield q.quantize(o.x, QUANTIZED[0])


def _as_quantized(o: Operands) -> Iterable[Node]:
    for dtype in QUANTIZED:
        if dtype.storage == o.dtype:
            yield q.view_as_quantized(o.x, dtype)
    if o.dtype not in (I8, I16):
        yield q.view_as_quantized(o.x, QUANTIZED[0])


def _pairs(o: Operands) -> Iterable[Node]:
    pair = tuple_of(o.x, b.transpose(o.y, o.axes[::-1]))
    return b.project(pair, 1), b.project(pair, 0)


Form = Callable[[Operands], Iterable[Node]]
FORMS: dict[str, tuple[frozenset[DType], Form]] = {
    "parameter": (ANY, lambda o: (o.x,)),
    "constant": (ANY, _constants),
    "iota": (UNQUANTIZED - {BOOL}, lambda o: [b.iota(o.dtype, o.x.shape, a) for a in o.axes]),
    "size": (ANY, lambda o: (b.size_value(count(o.x.shape) * 2 + 1),)),
    "map": (UNQUANTIZED, _maps),
    "view": (ANY, lambda o: (b.transpose(o.x, o.axes[::-1]),
                             b.broadcast_in_dim(o.x, (2, *o.x.shape), tuple(a + 1 for a in o.axes)))),
    "reshape": (ANY, lambda o: (b.reshape(o.x, (count(o.x.shape),)), b.reshape(o.x, (1, *o.x.shape, 1)))),
    "slice": (ANY, lambda o: (b.slice_(o.x, tuple(n // 2 for n in o.x.shape), o.x.shape, (2,) * o.rank),)),
    "reverse": (ANY, lambda o: (reverse(o.x, o.axes), reverse(o.x, o.axes[-1:]))),
    "concatenate": (ANY, lambda o: [b.concatenate((o.x, o.y, o.x), a) for a in o.axes]),
    "pad": (ANY, lambda o: (b.pad(o.x, o.v, (1,) * o.rank, (N, 2, 0, 1, 2)[:o.rank]),)),
    "windows": (ANY, _windows),
    "overlap_add": (NUMBERS, _overlaps),
    "optimization_barrier": (ANY, lambda o: (barrier(o.x),)),
    "gather": (ANY, lambda o: [take(o.x, o.at, a, clamped=c) for a in o.axes[-2:] for c in (True, False)]),
    "scatter": (ARITHMETIC, _scatters),
    "dynamic_slice": (ANY, lambda o: (dynamic_slice(o.x, (o.start,) * o.rank, o.half),)),
    "dynamic_update_slice": (ANY, lambda o: (dynamic_update_slice(
        o.x, b.slice_(o.y, (0,) * o.rank, o.half), (o.start,) * o.rank),)),
    "reduce": (ARITHMETIC, reductions),
    "reduce_general": (ARITHMETIC, lambda o: [
        reduce_general((o.x,), (o.v,), (function_of(SCALAR_OPS["maximum"], o.dtype, o.dtype),), axes)[0]
        for axes in (o.axes, o.axes[:1])]),
    "cumulative": (ARITHMETIC, lambda o: [cumulative_of(
        "add" if o.dtype in NUMBERS else "maximum", o.x, a, reverse=a == 0) for a in o.axes]),
    "sort": (ORDERED, _sorted),
    "search_sorted": (ORDERED, _search),
    "contract": (NUMBERS, _contractions),
    "cholesky": (FRACTIONAL, lambda o: _matrices(o, lambda x: (cholesky(x), cholesky(x, lower=False)))),
    "triangular_solve": (FRACTIONAL, lambda o: _matrices(o, _solutions)),
    "fft": (FRACTIONAL, _transforms),
    "if": (ANY, lambda o: if_(o.true, lambda: (o.x, o.y), lambda: (o.y, reverse(o.x, o.axes)))),
    "case": (ANY, lambda o: case(o.start, [lambda: (o.x,), lambda: (o.y,), lambda: (reverse(o.x, o.axes),)])),
    "while": (ANY, _turns),
    "scan": (ANY, _scans),
    "composite": (ANY, _composites),
    "tuple": (ANY, _pairs),
    "project": (ANY, _pairs),
    "view_as_real": (COMPLEX, lambda o: (view_as_real(o.x),)),
    "view_as_complex": (frozenset((F32, F64)), lambda o: (view_as_complex(b.broadcast_in_dim(
        o.x, (*o.x.shape, 2), o.axes)),)),
    "quantize": (frozenset((F32, F64)), _quantized),
    "dequantize": (frozenset(QUANTIZED), lambda o: (q.dequantize(o.x),)),
    "view_as_storage": (frozenset(QUANTIZED), lambda o: (q.view_as_storage(o.x),)),
    "view_as_quantized": (frozenset((I8, I16)), _as_quantized),
}
"""For each operation, the dtypes of operands that it takes, and its form. Others are refused."""


def count(shape: Shape) -> Size:
    total: Size = 1
    for size in shape:
        total = total * size
    return total

"""Random well-typed programs over the whole operation table, from an integer seed.

    sample = random_program(seed=7, size=5)      # at most 5 operations; the same one every time
    sample.function, sample.arrays(0), sample.arrays(1, "nasty")

`SAMPLERS` has one entry per tensor operation: it draws operands and attributes and makes a node. Scalar operations
need none: their dtypes are found by asking their typing rule. A program of size n is the beginning of the program
of size n + 1, so that a failure shrinks by its size. `programs()` is the hypothesis strategy.
"""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

import tcp_eqsat.lang.ops  # noqa: F401  (fills the tables)
from tcp_eqsat.errors import TypeMismatch
from tcp_eqsat.lang import reference
from tcp_eqsat.lang.dims import Dim, Size, equal, evaluate, exact_divide, less_equal, symbol, symbols_of
from tcp_eqsat.lang.float_format import float_limits
from tcp_eqsat.lang.narrow import convert_array
from tcp_eqsat.lang.op import OPS, PROCEDURAL, map_attribute_sizes, regions_of
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.ops.attributes import (
    CaseAttributes,
    CompositeAttributes,
    ConcatenateAttributes,
    IfAttributes,
    MapAttributes,
    PadAttributes,
    ReduceAttributes,
    ReshapeAttributes,
    ScanAttributes,
    SliceAttributes,
    ViewAttributes,
    WhileAttributes,
)
from tcp_eqsat.lang.ops.complex_views import view_as_complex, view_as_real
from tcp_eqsat.lang.ops.quantization import dequantize, quantize, view_as_quantized, view_as_storage
from tcp_eqsat.lang.ops.structure import tuple_of
from tcp_eqsat.lang.program import Function, Node, Program, Region, walk
from tcp_eqsat.lang.quantized import quantized
from tcp_eqsat.lang.scalar import (
    NOT_DIFFERENTIABLE,
    SCALAR_OPS,
    ScalarApply,
    ScalarExpr,
    ScalarFunction,
    ScalarOp,
    apply,
    function_of,
    literal,
    scalar_op_named,
)
from tcp_eqsat.lang.scalar import parameter as scalar_parameter
from tcp_eqsat.lang.types import (
    BOOL,
    DTYPES,
    F8E8M0FNU,
    F32,
    F64,
    I8,
    I16,
    I32,
    U8,
    DType,
    Kind,
    Shape,
    TensorType,
    TupleType,
    integer_range,
)

SYMBOLS: dict[str, Dim] = {
    "b": symbol("b"), "s": symbol("s", 1, 64), "h": symbol("h", 0, 64, 4), "k": symbol("k", 2, 9)}
SYMBOL_VALUES = {"b": (0, 1, 2, 3, 5), "s": (1, 2, 3, 7), "h": (0, 4, 8), "k": (2, 3, 5, 9)}
STATIC_SIZES = (0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 12, 17)
LARGEST_VALUES = {name: max(values) for name, values in SYMBOL_VALUES.items()}
ELEMENTS = 3000
"""No tensor of a random program has more elements, at any sampled sizes."""
ITERATIONS = 20_000
"""No reduction or contraction has more steps."""

EXACT = {
    "abs", "add", "ceil", "divide", "equal", "floor", "fmod", "greater", "greater_equal", "isfinite", "isnan", "less",
    "less_equal", "maximum", "minimum", "multiply", "negative", "not_equal", "round", "sign", "sqrt", "square",
    "subtract", "trunc", "where", "copysign", "count_leading_zeros", "fma", "isinf", "nextafter", "popcount",
    "round_away", "signbit",
} | {name for name in SCALAR_OPS if name.startswith(("bitwise_", "astype_", "bitcast_", "reduce_precision_"))}
"""Scalar operations with one right result; others are computed to some accuracy."""
STEEP = {
    "acosh", "acos", "asin", "atanh", "digamma", "erf_inv", "igamma", "igammac", "igamma_grad_a", "lgamma", "polygamma",
    "tan", "zeta",
}
"""Operations with poles or ends of their domain, where a small change of an operand can change the result a lot."""
OF_NAN_BITS = {"copysign", "signbit"} | {name for name in SCALAR_OPS if name.startswith("bitcast_")}
"""Operations that tell one NaN from another, which programs leave open."""
DRAWN = tuple(name for name in SCALAR_OPS if name not in {*OF_NAN_BITS, "zeta", "polygamma"} and "igamma" not in name)
"""What random programs apply: not the series that take long in the reference either."""


def is_discontinuous(op: ScalarOp, operands: Sequence[DType]) -> bool:
    """Whether a small change of a float operand can change the result a lot."""
    if not any(d.is_float for d in operands):
        return False
    if any(d.is_float and d.bits < 32 for d in operands):
        return True  # the last place of a narrow float is more than other dtypes' tolerance
    if op.name.startswith("astype_"):
        return op.result_dtype(*operands) not in (F32, F64)
    return op.derivative is NOT_DIFFERENTIABLE or op.name == "fmod" or op.name in STEEP


@functools.lru_cache(maxsize=None)
def signatures(op: ScalarOp) -> tuple[tuple[DType, ...], ...]:
    """Every tuple of operand dtypes that the operation accepts."""
    found = []
    for dtypes in itertools.product(DTYPES.values(), repeat=op.arity):
        try:
            op.result_dtype(*dtypes)
        except TypeMismatch:
            continue
        found.append(dtypes)
    return tuple(found)


@functools.lru_cache(maxsize=None)
def reduction_dtypes(op: ScalarOp) -> tuple[DType, ...]:
    """The dtypes that a reduction by the operation works within; none without a start value."""
    return () if op.identity is None else tuple(
        d for d in DTYPES.values() if (d, d) in signatures(op) and op.result_dtype(d, d) == d)


def count(shape: Iterable[Size]) -> int:
    """The number of elements at the largest sampled sizes."""
    total = 1
    for size in shape:
        total *= evaluate(size, LARGEST_VALUES)
    return total


@dataclass
class Maker:
    """Draws operands and attributes. `values` is what operations may use so far.

    stable      constants are tame, and nothing discontinuous is applied to rough values
    parameters  None inside of a region, where new leaves are constants
    rough       nodes whose value depends on how accurately something was computed
    """

    random: random.Random
    dtypes: tuple[DType, ...]
    max_rank: int = 5
    symbolic: bool = True
    stable: bool = False
    values: list[Node] = field(default_factory=list)
    parameters: list[Node] | None = field(default_factory=list)
    rough: set[Node] = field(default_factory=set)

    # Draws

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def dtype(self) -> DType:
        if F32 in self.dtypes and self.chance(0.35):
            return F32
        usual = [d for d in self.dtypes if not d.storage_only]
        return self.random.choice(usual if usual and self.chance(0.85) else self.dtypes)

    def size(self) -> Size:
        if self.symbolic and self.chance(0.3):
            return SYMBOLS[self.random.choice(tuple(SYMBOLS))]
        return self.random.choice(STATIC_SIZES)

    def rank(self) -> int:
        return min(self.max_rank, self.random.choice((0, 1, 1, 2, 2, 2, 3, 3, 4, 5)))

    def shape(self, rank: int | None = None) -> Shape:
        sizes: list[Size] = []
        for _ in range(self.rank() if rank is None else rank):
            size = self.size()
            sizes.append(size if count([*sizes, size]) <= ELEMENTS else 1)
        return tuple(sizes)

    # Operands

    def leaf(self, type_: TensorType) -> Node:
        """A new parameter, constant, ramp or splat of a type."""
        static = all(isinstance(n, int) for n in type_.shape)
        kind = self.random.choice(("parameter",) * 6 + ("constant", "iota", "splat"))
        if kind == "parameter" and self.parameters is not None:
            node = builders.parameter(f"x{len(self.parameters)}", len(self.parameters), type_)
            self.parameters.append(node)
            return node
        if kind == "iota" and type_.rank and type_.dtype is not BOOL:
            return builders.iota(type_.dtype, type_.shape, self.random.randrange(type_.rank))
        if kind != "splat" and static and count(type_.shape) <= 100:
            generator = np.random.default_rng(self.random.getrandbits(32))
            values = "tame" if self.stable else self.random.choice(("tame", "nasty"))
            return builders.constant(random_array(generator, type_.dtype, type_.shape, values))
        number = self.random.choice((0, 1, 1, 0.5)) if type_.dtype.is_float and type_.dtype != F8E8M0FNU else 1
        return builders.splat(number, type_.dtype, type_.shape)

    def tensor(self, dtype: DType | None = None, shape: Shape | None = None,
               wanted: Callable[[Node], bool] = lambda x: True) -> Node:
        """A known value, the later the likelier, or a new leaf."""
        fitting = [x for x in self.values if (dtype is None or x.dtype == dtype)
                   and (shape is None or x.shape == shape) and wanted(x)]
        if fitting and self.chance(0.85):
            return fitting[-1 - min(int(self.random.expovariate(0.5)), len(fitting) - 1)]
        for _ in range(20):
            if shape is not None:
                break
            drawn = self.shape()
            if wanted(_probe(TensorType(dtype or F32, drawn))):
                shape = drawn
        return self.leaf(TensorType(dtype or self.dtype(), self.shape() if shape is None else shape))

    def is_rough(self, node: Node) -> bool:
        return node in self.rough


@functools.lru_cache(maxsize=4096)
def _probe(type_: TensorType) -> Node:
    return builders.parameter("probe", 0, type_)


# Samplers: one a tensor operation

Sampler = Callable[[Maker], Node]
SAMPLERS: dict[str, Sampler] = {}
WEIGHTS = {"map": 20, "parameter": 1, "constant": 1, "iota": 1, "tuple": 1, "project": 1, "composite": 2,
           "if": 0, "case": 0, "while": 0, "scan": 0, "view_as_complex": 0, "quantize": 0, "view_as_quantized": 0}
"""How often an operation is drawn; 4 for the others."""
CONTROL = ("if", "case", "while", "scan")
COMPOUND = ("view_as_complex", "quantize", "view_as_quantized")
"""Operations whose results few others take."""
LONGEST = 9
"""Steps of a scan."""


def sampler(name: str) -> Callable[[Sampler], Sampler]:
    def register(function: Sampler) -> Sampler:
        SAMPLERS[name] = function
        return function

    return register


@sampler("parameter")
def _parameter(maker: Maker) -> Node:
    type_ = TensorType(maker.dtype(), maker.shape())
    if maker.parameters is None:
        return maker.leaf(type_)
    maker.parameters.append(builders.parameter(f"x{len(maker.parameters)}", len(maker.parameters), type_))
    return maker.parameters[-1]


@sampler("constant")
def _constant(maker: Maker) -> Node:
    shape = tuple(n if isinstance(n, int) else 3 for n in maker.shape())
    generator = np.random.default_rng(maker.random.getrandbits(32))
    values = "tame" if maker.stable else "nasty"
    return builders.constant(random_array(generator, maker.dtype(), shape if count(shape) < 200 else (), values))


@sampler("iota")
def _iota(maker: Maker) -> Node:
    dtypes = [d for d in maker.dtypes if d is not BOOL] or [F32]
    shape = maker.shape(max(1, maker.rank()))
    return builders.iota(maker.random.choice(dtypes), shape, maker.random.randrange(len(shape)))


@sampler("map")
def _map(maker: Maker) -> Node:
    if maker.chance(0.7):
        return map_of(maker, maker.random.choice([SCALAR_OPS[name] for name in DRAWN if signatures(SCALAR_OPS[name])]))
    first = maker.tensor()
    operands = [first, *(maker.tensor(shape=first.shape) for _ in range(maker.random.randrange(3)))]
    return builders.map_function(scalar_function(maker, [x.dtype for x in operands]), *operands)


def map_of(maker: Maker, op: ScalarOp, dtypes: tuple[DType, ...] | None = None) -> Node:
    """The scalar operation applied to values of one shape."""
    if dtypes is None:
        dtypes = maker.random.choice([d for d in signatures(op) if set(d) <= {*maker.dtypes, BOOL}] or signatures(op))
    first = maker.tensor(dtypes[0])
    return builders.map_function(
        function_of(op, *dtypes), first, *(maker.tensor(dtype, first.shape) for dtype in dtypes[1:]))


def scalar_function(maker: Maker, dtypes: Sequence[DType], operations: int = 4) -> ScalarFunction:
    """Up to `operations` scalar operations over parameters of these dtypes and literals."""
    known: list[ScalarExpr] = [scalar_parameter(i, d) for i, d in enumerate(dtypes)]
    for _ in range(maker.random.randint(0, operations)):
        op = SCALAR_OPS[maker.random.choice(DRAWN)]
        usable = [s for s in signatures(op) if set(s) <= {x.dtype for x in known}]
        if not usable:
            continue
        arguments = [maker.random.choice([x for x in known if x.dtype == d] + [_literal(maker, d)])
                     for d in maker.random.choice(usable)]
        known.append(apply(op, *arguments))
    return ScalarFunction(tuple(dtypes), known[-1])


def _literal(maker: Maker, dtype: DType) -> ScalarExpr:
    if dtype is BOOL:
        return literal(maker.chance(0.5), dtype)
    if dtype.storage_only:
        return literal(1, dtype)
    if dtype.is_float:
        return literal(maker.random.choice((0.0, -0.0, 1.0, -1.5, 0.1, 1e30, float("inf"))), dtype)
    return literal(maker.random.choice((0, 1, 3, *integer_range(dtype))), dtype)


# Complex and quantised values begin and end within one sample


@sampler("view_as_complex")
def _view_as_complex(maker: Maker) -> Node:
    shape = maker.shape()
    part = maker.random.choice([d for d in (F32, F64) if d in maker.dtypes] or [F64])
    return view_as_complex(maker.tensor(part, (*shape[:maker.max_rank - 1], 2)))


@sampler("view_as_real")
def _view_as_real(maker: Maker) -> Node:
    x = _view_as_complex(maker)
    if maker.chance(0.5):
        return view_as_real(x)
    name = maker.random.choice(("conj", "square", "negative", "multiply", "add"))
    op = SCALAR_OPS[name]
    return view_as_real(builders.map_scalar(op, *(x,) * op.arity))


QUANTIZED = (quantized(I8, F32, 0.5, 3), quantized(U8, F32, 0.1), quantized(I16, F64, 2.0**-7, 100),
             quantized(I8, F32, 1e-3, -5, low=-127, high=127))


@sampler("quantize")
def _quantize(maker: Maker) -> Node:
    dtype = maker.random.choice(QUANTIZED)
    return quantize(maker.tensor(dtype.expressed), dtype)


@sampler("dequantize")
def _dequantize(maker: Maker) -> Node:
    return dequantize(_quantize(maker))


@sampler("view_as_storage")
def _view_as_storage(maker: Maker) -> Node:
    return view_as_storage(_quantize(maker))


@sampler("view_as_quantized")
def _view_as_quantized(maker: Maker) -> Node:
    dtype = maker.random.choice(QUANTIZED)
    return view_as_quantized(maker.tensor(dtype.storage), dtype)


@sampler("view")
def _view(maker: Maker) -> Node:
    x = maker.tensor()
    kept = [a for a, n in enumerate(x.shape) if not (equal(n, 1) and maker.chance(0.6))]
    shape: list[Size] = [x.shape[a] for a in kept]
    for _ in range(maker.random.choice((0, 0, 1, 2))):
        size = maker.size()
        if len(shape) < maker.max_rank and count([*shape, size]) <= ELEMENTS:
            shape.append(size)
    order = list(range(len(shape)))
    if maker.chance(0.7):
        maker.random.shuffle(order)
    labels = [-1] * len(x.shape)
    for n, axis in enumerate(kept):
        labels[axis] = order[n]
    placed: list[Size] = [1] * len(shape)
    for n, position in enumerate(order):
        placed[position] = shape[n]
    return Node.make(OPS["view"], (x,), ViewAttributes(tuple(labels), tuple(placed)))


@sampler("reshape")
def _reshape(maker: Maker) -> Node:
    x = maker.tensor(wanted=lambda n: len(n.shape) > 0)
    shape = list(x.shape)
    if all(isinstance(n, int) for n in shape) and maker.chance(0.3):
        shape = _factors(maker, count(shape))
    for _ in range(maker.random.choice((1, 1, 2, 3))):
        _reshape_move(maker, shape)
    return Node.make(OPS["reshape"], (x,), ReshapeAttributes(tuple(shape)))


def _factors(maker: Maker, total: int) -> list[Size]:
    """A product of numbers that is `total`."""
    if total == 0:
        return [0, *(maker.random.choice((1, 2, 3)) for _ in range(maker.random.randrange(3)))]
    sizes: list[Size] = []
    while total > 1 and len(sizes) + 1 < maker.max_rank:
        factor = maker.random.choice([n for n in range(2, total + 1) if total % n == 0])
        sizes.append(factor)
        total //= factor
    return sizes if total == 1 else [*sizes, total]


def _reshape_move(maker: Maker, shape: list[Size]) -> None:
    move = maker.random.choice(("merge", "split", "insert", "drop"))
    if move == "merge" and len(shape) > 1:
        at = maker.random.randrange(len(shape) - 1)
        shape[at: at + 2] = [shape[at] * shape[at + 1]]
    elif move == "split" and shape and len(shape) < maker.max_rank:
        at = maker.random.randrange(len(shape))
        divisor = maker.random.choice((1, 2, 3, 4))
        quotient = exact_divide(shape[at], divisor)
        if quotient is not None:
            shape[at: at + 1] = [quotient, divisor] if maker.chance(0.5) else [divisor, quotient]
    elif move == "insert" and len(shape) < maker.max_rank:
        shape.insert(maker.random.randint(0, len(shape)), 1)
    elif move == "drop":
        units = [a for a, n in enumerate(shape) if equal(n, 1)]
        if units:
            del shape[maker.random.choice(units)]


@sampler("slice")
def _slice(maker: Maker) -> Node:
    x = maker.tensor(wanted=lambda n: len(n.shape) > 0)
    starts: list[Size] = []
    limits: list[Size] = []
    strides: list[int] = []
    for size in x.shape:
        start, limit = _bounds(maker, size)
        starts.append(start)
        limits.append(limit)
        strides.append(maker.random.choice((1, 1, 1, 2, 3)))
    return Node.make(OPS["slice"], (x,), SliceAttributes(tuple(starts), tuple(limits), tuple(strides)))


def _bounds(maker: Maker, size: Size) -> tuple[Size, Size]:
    """0 <= start <= limit <= size, provably."""
    if isinstance(size, int):
        start = maker.random.randint(0, size) if maker.chance(0.6) else 0
        return start, maker.random.randint(start, size) if maker.chance(0.6) else size
    choices: list[tuple[Size, Size]] = [(0, size), (0, size - 1), (1, size), (1, size - 1), (0, 1), (0, size // 2),
                                        (size // 2, size), (size // 4 * 2, size)]
    proven = [(a, b) for a, b in choices if less_equal(a, b) is True and less_equal(b, size) is True
              and less_equal(0, a) is True]
    return maker.random.choice(proven or [(0, size)])


@sampler("concatenate")
def _concatenate(maker: Maker) -> Node:
    x = maker.tensor(wanted=lambda n: len(n.shape) > 0)
    axis = maker.random.randrange(len(x.shape))
    operands = [x]
    for _ in range(maker.random.choice((0, 1, 1, 2, 3))):
        size = x.shape[axis] if maker.chance(0.4) else maker.size()
        shape = (*x.shape[:axis], size, *x.shape[axis + 1:])
        if count(shape) + sum(count(o.shape) for o in operands) <= ELEMENTS:
            operands.append(maker.tensor(x.dtype, shape))
    maker.random.shuffle(operands)
    return Node.make(OPS["concatenate"], tuple(operands), ConcatenateAttributes(axis))


@sampler("pad")
def _pad(maker: Maker) -> Node:
    x = maker.tensor()
    low: list[Size] = []
    high: list[Size] = []
    for axis, size in enumerate(x.shape):
        choices = (0, 0, 1, 2, size if less_equal(0, size) is True else 3)
        amounts: list[Size] = [maker.random.choice(choices) for _ in range(2)]
        rest = (*(low[a] + x.shape[a] + high[a] for a in range(axis)), *x.shape[axis + 1:])
        if count((*rest, amounts[0] + size + amounts[1])) > ELEMENTS:
            amounts = [0, 0]
        low.append(amounts[0])
        high.append(amounts[1])
    return Node.make(OPS["pad"], (x, maker.tensor(x.dtype, ())), PadAttributes(tuple(low), tuple(high)))


@sampler("reduce")
def _reduce(maker: Maker) -> Node:
    usable = [op for op in SCALAR_OPS.values() if set(reduction_dtypes(op)) & set(maker.dtypes)]
    op = maker.random.choice(usable)
    allowed = [d for d in reduction_dtypes(op) if d in maker.dtypes]
    x = maker.tensor(maker.random.choice(allowed) if maker.chance(0.5) else None, wanted=lambda n: n.dtype in allowed)
    if x.dtype not in allowed:
        x = maker.tensor(maker.random.choice(allowed))
    return reduction_of(maker, op, x)


def reduction_of(maker: Maker, op: ScalarOp, x: Node) -> Node:
    """`x` reduced over some of its axes, with any order of the others and sometimes new ones."""
    rank_of_x = len(x.shape)
    units = {a for a, n in enumerate(x.shape) if equal(n, 1) and maker.chance(0.3)}
    live = [a for a in range(rank_of_x) if a not in units]
    reduced = [a for a in live if maker.chance(0.5)]
    kept: list[int | None] = [a for a in live if a not in reduced]
    new_sizes: list[Size] = []
    while maker.chance(0.15) and len(kept) < maker.max_rank:
        size = maker.size()
        if count([*(x.shape[a] for a in live), *new_sizes, size]) <= ELEMENTS:
            new_sizes.append(size)
            kept.append(None)
    maker.random.shuffle(kept)
    maker.random.shuffle(reduced)
    pending = iter(new_sizes)
    extents = tuple(next(pending) if a is None else x.shape[a] for a in (*kept, *reduced))
    order = {a: label for label, a in enumerate((*kept, *reduced)) if a is not None}
    labels = tuple(order.get(a, -1) for a in range(rank_of_x))
    return Node.make(OPS["reduce"], (x,), ReduceAttributes(op, labels, extents, len(kept)))


@sampler("contract")
def _contract(maker: Maker) -> Node:
    allowed = [d for d in maker.dtypes if d is not BOOL and not d.storage_only] or [F32]
    x = maker.tensor(wanted=lambda n: n.dtype in allowed)
    if x.dtype not in allowed:
        x = maker.tensor(maker.random.choice(allowed))
    extents: list[Size] = []
    lhs: list[int] = []
    for size in x.shape:
        if equal(size, 1) and maker.chance(0.3):
            lhs.append(-1)
        else:
            lhs.append(len(extents))
            extents.append(size)
    shared = [label for label in range(len(extents)) if maker.chance(0.6)]
    rhs = list(shared)
    shape = [extents[label] for label in shared]
    for _ in range(maker.random.choice((0, 1, 1, 2))):
        size = maker.size()
        if len(shape) < maker.max_rank and count([*shape, size]) <= ELEMENTS and count(
                [*extents, size]) <= ITERATIONS:
            rhs.append(len(extents))
            extents.append(size)
            shape.append(size)
    if maker.chance(0.1) and len(shape) < maker.max_rank:
        rhs.append(-1)
        shape.append(1)
    mixed = list(range(len(shape)))
    maker.random.shuffle(mixed)
    y = maker.tensor(x.dtype, tuple(shape[n] for n in mixed))
    return _labelled(maker, x, y, lhs, [rhs[n] for n in mixed], extents)


def _labelled(maker: Maker, x: Node, y: Node, lhs: list[int], rhs: list[int], extents: list[Size]) -> Node:
    """Which labels are contracted, and the order of the others."""
    contracted = [label for label in range(len(extents)) if maker.chance(0.5)]
    free = [label for label in range(len(extents)) if label not in contracted]
    while len(free) > maker.max_rank or count([extents[label] for label in free]) > ELEMENTS:
        contracted.append(free.pop())
    if maker.chance(0.1) and len(free) < maker.max_rank:
        extents.append(2)
        free.append(len(extents) - 1)
    maker.random.shuffle(free)
    order = {label: n for n, label in enumerate((*free, *contracted))} | {-1: -1}
    return builders.contract(
        x, y, tuple(order[n] for n in lhs), tuple(order[n] for n in rhs),
        tuple(extents[n] for n in (*free, *contracted)), len(free))


def _region(maker: Maker) -> tuple[Region, tuple[Node, ...]]:
    """A body of a few operations over some values."""
    operands = [maker.tensor() for _ in range(maker.random.choice((0, 1, 1, 2, 3)))]
    parameters = tuple(builders.parameter(f"p{i}", i, x.tensor_type) for i, x in enumerate(operands))
    inner = Maker(maker.random, maker.dtypes, maker.max_rank, maker.symbolic, maker.stable, list(parameters), None)
    inner.rough = {p for p, x in zip(parameters, operands, strict=True) if maker.is_rough(x)}
    names = [n for n in SAMPLERS if n not in ("parameter", "tuple", "project", "composite", *CONTROL, *COMPOUND)
             and OPS[n].pointful is not PROCEDURAL]
    if maker.parameters is not None:
        names.append("composite")
    for _ in range(maker.random.randint(1, 3)):
        extend(inner, maker.random.choice(names))
    if not inner.values:
        inner.values.append(_constant(inner))
    results = tuple(maker.random.choice(inner.values) for _ in range(maker.random.choice((1, 1, 2, 3))))
    if maker.chance(0.8):
        results = (inner.values[-1], *results[1:])
    return Region(parameters, results), tuple(operands)


@sampler("composite")
def _composite(maker: Maker) -> Node:
    region, operands = _region(maker)
    name = maker.random.choice(("softmax", "gelu", "my.body", "body_2"))
    return Node.make(OPS["composite"], operands, CompositeAttributes(name, region))


# Control flow: regions of a few operations


def _body(maker: Maker, parameters: Sequence[Node], wanted: Sequence[TensorType], rest: int = 0) -> Region:
    """A region whose results are of the wanted types, then up to `rest` small ones of any type."""
    inner = Maker(maker.random, maker.dtypes, maker.max_rank, maker.symbolic, maker.stable, list(parameters), None)
    names = [n for n in SAMPLERS if n not in ("parameter", "tuple", "project", "composite", *CONTROL, *COMPOUND)
             and OPS[n].pointful is not PROCEDURAL]
    for _ in range(maker.random.randint(1, 3)):
        extend(inner, maker.random.choice(names))
    results = [inner.tensor(t.dtype, t.shape) for t in wanted]
    small = [x for x in inner.values if count(x.shape) <= ELEMENTS // LONGEST]
    results += [maker.random.choice(small) for _ in range(maker.random.randint(0, rest)) if small]
    return Region(tuple(parameters), tuple(results) or (inner.leaf(TensorType(maker.dtype(), ())),))


def _parameters(types: Iterable[TensorType]) -> list[Node]:
    return [builders.parameter(f"c{i}", i, t) for i, t in enumerate(types)]


def _some(maker: Maker, counts: Sequence[int], **wishes: Any) -> list[Node]:
    return [maker.tensor(**wishes) for _ in range(maker.random.choice(counts))]


def _branches(maker: Maker, number: int) -> tuple[list[Node], tuple[Region, ...]]:
    captures = _some(maker, (0, 1, 2, 3))
    parameters = _parameters(x.tensor_type for x in captures)
    first = _body(maker, parameters, (), rest=3)
    types = [x.tensor_type for x in first.results]
    return captures, (first, *(_body(maker, parameters, types) for _ in range(number - 1)))


@sampler("if")
def _if(maker: Maker) -> Node:
    captures, regions = _branches(maker, 2)
    return Node.make(OPS["if"], (maker.tensor(BOOL, ()), *captures), IfAttributes(regions))


@sampler("case")
def _case(maker: Maker) -> Node:
    captures, regions = _branches(maker, maker.random.choice((1, 2, 3, 4)))
    return Node.make(OPS["case"], (maker.tensor(I32, ()), *captures), CaseAttributes(regions))


@sampler("while")
def _while(maker: Maker) -> Node:
    """State 0 counts up to a limit."""
    start = builders.scalar_constant(maker.random.choice((0, 1, 3, 9)), I32)
    operands = [start, *_some(maker, (0, 1, 2)), *_some(maker, (0, 1))]
    state = maker.random.randint(1, len(operands))
    parameters = _parameters(x.tensor_type for x in operands)
    limit = builders.scalar_constant(maker.random.choice((3, 4)), I32)
    condition = builders.map_scalar(scalar_op_named("less"), parameters[0], limit)
    types = [x.tensor_type for x in operands[1:state]]
    rest = _body(maker, parameters, types).results[: len(types)]
    following = builders.map_scalar(scalar_op_named("add"), parameters[0], builders.scalar_constant(1, I32))
    return Node.make(OPS["while"], tuple(operands), WhileAttributes(
        Region(tuple(parameters), (condition,)), Region(tuple(parameters), (following, *rest)), state))


@sampler("scan")
def _scan(maker: Maker) -> Node:
    length: Size = maker.random.choice((0, 1, 2, 5, SYMBOLS["b"], SYMBOLS["k"]) if maker.symbolic else (0, 1, 2, 5))
    carries = _some(maker, (0, 1, 1, 2))
    shapes = [maker.shape(maker.random.choice((0, 1, 2))) for _ in range(maker.random.choice((0, 1, 2)))]
    sequences = [maker.leaf(TensorType(maker.dtype(), (length, *shape)))
                 for shape in shapes if count((*shape, LONGEST)) <= ELEMENTS]
    captures = _some(maker, (0, 0, 1))
    slices = [TensorType(x.dtype, x.shape[1:]) for x in sequences]
    parameters = _parameters(
        [*(x.tensor_type for x in carries), *slices, *(x.tensor_type for x in captures)])
    body = _body(maker, parameters, [x.tensor_type for x in carries], rest=2)
    return Node.make(OPS["scan"], (*carries, *sequences, *captures), ScanAttributes(
        body, len(carries), len(sequences), length, maker.chance(0.4)))


@sampler("tuple")
def _tuple(maker: Maker) -> Node:
    return tuple_of(*(maker.tensor() for _ in range(maker.random.choice((0, 1, 2, 3)))))


@sampler("project")
def _project(maker: Maker) -> Node:
    pair = _tuple(maker) if maker.chance(0.5) else _composite(maker)
    if not isinstance(pair.type, TupleType) or not pair.type.items:
        pair = tuple_of(maker.tensor(), maker.tensor())
    assert isinstance(pair.type, TupleType)
    return builders.project(pair, maker.random.randrange(len(pair.type.items)))


# Programs


def extend(maker: Maker, name: str) -> None:
    """One more operation called `name`, where the maker's wishes allow it; its results are values then.

    Sizes that are not provably at least 0 (differences of several floors) are not used any further.
    """
    node = SAMPLERS[name](maker)
    before = set(maker.rough)
    if not _note_rough(maker, node) and maker.stable:
        maker.rough = before
        return
    if isinstance(node.type, TupleType):
        maker.values.extend(builders.project(node, i) for i in range(len(node.type.items)))
        maker.rough.update(v for v in maker.values if v.op.name == "project" and v.operands[0] in maker.rough)
    elif count(node.shape) <= ELEMENTS and all(less_equal(0, n) is True for n in node.shape):
        maker.values.append(node)


def _note_rough(maker: Maker, root: Node) -> bool:
    """Marks what is computed to some accuracy only; False where something discontinuous is applied to it."""
    for node in walk((root,)):
        rough = any(x in maker.rough for x in node.operands)
        match node.attributes:
            case MapAttributes(function=function):
                inexact = {i for i, x in enumerate(node.operands) if x in maker.rough}
                rough, fine = _rough_function(function, inexact)
                if not fine:
                    return False
            case ReduceAttributes(operation=operation):
                rough |= node.dtype.is_float and operation.name in ("add", "multiply")
            case CompositeAttributes(region=region):
                inner = Maker(maker.random, maker.dtypes)
                inner.rough = {p for p, x in zip(region.parameters, node.operands, strict=True) if x in maker.rough}
                if not all(_note_rough(inner, x) for x in region.results):
                    return False
                rough = any(x in inner.rough for x in region.results)
            case IfAttributes() | CaseAttributes() | WhileAttributes() | ScanAttributes():
                rough = _note_rough_control(maker, node)
                if rough is None:
                    return False
            case _:
                types = node.type.items if isinstance(node.type, TupleType) else (node.type,)
                rough |= node.op.name in ROUNDING and any(t.dtype.is_float for t in types)
                inexact = {i for i, x in enumerate(node.operands) if x in maker.rough}
                if inexact and node.op.name in DECIDING:
                    return False
                if inexact and not all(_rough_function(f, set(range(len(f.parameters))))[1]
                                       for f in functions_of(node.attributes)):
                    return False
        if rough:
            maker.rough.add(node)
    return True


def _note_rough_control(maker: Maker, node: Node) -> bool | None:
    """Whether a node with regions has a rough result; None where something discontinuous is applied to a rough value.

    What is rough in one step of a loop may make everything rough in the next.
    """
    chooses = node.op.name in ("if", "case")
    operands = node.operands[1:] if chooses else node.operands
    if chooses and node.operands[0] in maker.rough:
        return None
    all_rough = False
    for _ in range(2):
        rough = False
        for region in regions_of(node.attributes):
            inner = Maker(maker.random, maker.dtypes)
            inner.rough = {p for p, x in zip(region.parameters, operands, strict=True) if all_rough or x in maker.rough}
            if not all(_note_rough(inner, x) for x in region.results):
                return None
            if len(region.results) == 1 and region.results[0].dtype is BOOL and region.results[0] in inner.rough:
                return None
            rough |= any(x in inner.rough for x in region.results)
        if chooses or not rough:
            break
        all_rough = True
    return rough


ROUNDING = frozenset(("contract", "overlap_add", "cholesky", "triangular_solve", "fft"))
"""Operations other than maps and reductions that compute to some accuracy."""
DECIDING = frozenset(("search_sorted", "cholesky"))
"""Operations without functions that a small change of an operand can change a lot."""


def functions_of(attributes: Any) -> tuple[ScalarFunction, ...]:
    """The scalar functions among attributes other than a map's."""
    found = getattr(attributes, "function", getattr(attributes, "functions", ()))
    return found if isinstance(found, tuple) else (found,)


def _rough_function(function: ScalarFunction, inexact: set[int]) -> tuple[bool, bool]:
    """Whether the result is inexact, and whether nothing discontinuous is applied to an inexact value."""
    rough: set[ScalarExpr] = {scalar_parameter(i, function.parameters[i]) for i in inexact}
    for expr in function.walk():
        if isinstance(expr, ScalarApply):
            operands = [x for x in expr.arguments if x in rough]
            if operands and is_discontinuous(expr.op, [x.dtype for x in expr.arguments]):
                return True, False
            if operands or expr.op.name not in EXACT:
                rough.add(expr)
    return function.result in rough, True


@dataclass(frozen=True)
class Sample:
    """A random function, and arrays for it. `rough` are its nodes that are computed to some accuracy only."""

    seed: int
    size: int
    function: Function
    rough: frozenset[Node] = field(repr=False, default=frozenset())

    @property
    def program(self) -> Program:
        return Program({self.function.name: self.function})

    def sizes(self, variant: int = 0) -> dict[str, int]:
        """Values of the symbols; variants differ."""
        generator = random.Random(f"sizes {self.seed} {variant}")
        return {s.name: generator.choice(SYMBOL_VALUES[s.name]) for s in self.function.symbols}

    def arrays(self, variant: int = 0, values: str = "mixed") -> tuple[np.ndarray, ...]:
        """Arrays of the parameters' types; `values` as for `random_array`, or "mixed": one of them an array."""
        sizes = self.sizes(variant)
        generator = np.random.default_rng((self.seed, variant))
        result = []
        for x in self.function.parameters:
            kind = str(generator.choice(("tame", "nasty", "finite"))) if values == "mixed" else values
            result.append(random_array(generator, x.dtype, tuple(evaluate(n, sizes) for n in x.shape), kind))
        return tuple(result)


def random_program(
    seed: int, size: int = 6, *, dtypes: Iterable[DType] = tuple(DTYPES.values()), max_rank: int = 5,
    symbolic: bool = True, stable: bool = False, names: Sequence[str] | None = None,
) -> Sample:
    """A function of at most `size` random operations (and leaves).

    stable  nothing discontinuous is applied to a value that is computed to some accuracy only
    names   the tensor operations to use, but for COMPOUND (default: those that are kernels)
    """
    generator = random.Random(f"program {seed}")
    maker = Maker(generator, tuple(dtypes), max_rank, symbolic, stable)
    if names is not None:
        names = [name for name in names if name not in COMPOUND]
        weights = [WEIGHTS.get(name, 4) or 4 for name in names]
    else:
        names = tuple(n for n in SAMPLERS if OPS[n].pointful is not PROCEDURAL)
        weights = [WEIGHTS.get(name, 4) for name in names]
    for _ in range(size):
        extend(maker, generator.choices(names, weights)[0])
    return Sample(seed, size, _function(maker, random.Random(f"results {seed}")), frozenset(maker.rough))


def assert_sample_computed(sample: Sample, compiled: Callable[..., Any], variants: int = 3) -> None:
    """What a compiled sample gives of tame arrays is close to the reference, dtype by dtype."""
    for variant in range(variants):
        arrays = sample.arrays(variant, "tame")
        found = compiled(*arrays)
        expected = reference.evaluate(sample.function, arrays)
        for x, y in zip(found if isinstance(found, tuple) else (found,), expected, strict=True):
            assert x.dtype == y.dtype
            np.testing.assert_allclose(
                x.astype(np.float64), y.astype(np.float64), rtol=1e-4, atol=1e-4, err_msg=f"{sample.seed} {variant}")


def single_operation(
    seed: int, name: str, *, dtypes: Iterable[DType] = tuple(DTYPES.values()), max_rank: int = 5,
    symbolic: bool = True, stable: bool = False,
) -> Sample:
    """A function whose result is one operation called `name` on leaves."""
    generator = random.Random(f"{name} {seed}")
    maker = Maker(generator, tuple(dtypes), max_rank, symbolic, stable)
    node = SAMPLERS[name](maker)
    maker.values = [builders.project(node, i) for i in range(len(node.type.items))] if isinstance(
        node.type, TupleType) else [node]
    return Sample(seed, 1, _function(maker, None))


def _function(maker: Maker, generator: random.Random | None) -> Function:
    """The function of the maker's last values. Every symbol becomes the size of some parameter."""
    assert maker.parameters is not None
    values = maker.values or [maker.leaf(TensorType(F64, (2,)))]
    results = tuple(values)
    if generator is not None:
        results = (values[-1], *(generator.choice(values) for _ in range(generator.choice((0, 0, 1, 2)))))
    used = {s for x in walk(results) for s in node_symbols(x)} | {
        s for x in maker.parameters for s in symbols_of(*x.shape)}
    told = {n for x in maker.parameters for n in x.shape}
    for each in sorted(used, key=lambda s: s.name):
        if SYMBOLS[each.name] not in told:
            index = len(maker.parameters)
            maker.parameters.append(builders.parameter(f"x{index}", index, TensorType(F32, (SYMBOLS[each.name],))))
    return Function("main", tuple(maker.parameters), results)


def node_symbols(node: Node) -> set:
    """The symbols of a node's types and attributes, regions included."""
    types = node.type.items if isinstance(node.type, TupleType) else (node.type,)
    found = set(symbols_of(*(n for t in types for n in t.shape)))

    def collect(size: Size) -> Size:
        found.update(symbols_of(size))
        return size

    map_attribute_sizes(node.attributes, collect)
    return found


def programs(max_size: int = 8, **options: object) -> st.SearchStrategy[Sample]:
    """Random programs, shrinking towards few operations."""
    return st.builds(
        lambda size, seed: random_program(seed, size, **options),  # type: ignore[arg-type]
        st.integers(1, max_size), st.integers(0, 2**32 - 1))


# Arrays


def random_array(generator: np.random.Generator, dtype: DType, shape: tuple[int, ...],
                 values: str = "nasty") -> np.ndarray:
    """tame: of moderate size; finite: of any size; nasty: also NaN, infinities, zeros, denormals, extremes."""
    if dtype.kind is Kind.BOOL:
        return generator.integers(0, 2, shape).astype(bool)
    if dtype.is_float:
        array = generator.standard_normal(shape)
        if values != "tame":
            array = array * 10.0 ** generator.integers(-4, 5, shape)
        pool = special_values(dtype)
    else:
        least, most = integer_range(dtype)
        array = generator.integers(max(least, -9), min(most + 1, 10), shape)
        pool = special_values(dtype)
    array = convert_array(array, dtype)
    if values == "nasty":
        array = np.where(generator.random(shape) < 0.4, generator.choice(pool, shape), array)
    return np.asarray(array, dtype.numpy)


@functools.lru_cache(maxsize=None)
def special_values(dtype: DType) -> np.ndarray:
    """What breaks careless code."""
    if dtype.kind is Kind.BOOL:
        return np.array([False, True])
    if dtype.is_integer:
        least, most = integer_range(dtype)
        numbers = {least, least + 1, most, most - 1, 0, 1, 2, 3, 7, dtype.bits - 1, dtype.bits, dtype.bits + 1,
                   -1, -2, -3}
        wide = np.int64 if dtype.is_signed else np.uint64
        return convert_array(np.array(sorted(n for n in numbers if least <= n <= most), wide), dtype)
    limits = float_limits(dtype)
    positive = [0.0, limits.least, limits.least * 3, limits.least_normal, limits.epsilon, 1e-3, 0.25, 0.5,
                1 - limits.epsilon / 2, 1.0, 1 + limits.epsilon, 1.5, 2.0, 2.5, 3.0, np.pi / 2, 10.0, 88.5, 127.5,
                128.0, 255.5, 2.0 ** 31, 2.0 ** 32, 2.0 ** 63, 2.0 ** 64, limits.largest, np.inf]
    return convert_array(np.array([*positive, *(-x for x in positive), np.nan]), dtype)


import structured_programs  # noqa: E402, F401  (fills the table further)

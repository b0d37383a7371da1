"""The Python array API's functions over traced tensors: `tcp.numpy`.

Functions take traced tensors, NumPy arrays (which become constants) and Python numbers. Sizes may be symbolic.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np

from tcp_eqsat.errors import ShapeMismatch, TypeMismatch
from tcp_eqsat.frontends.traced import (
    Operand,
    Traced,
    agree,
    as_dtype,
    as_shape,
    as_size,
    elementwise,
    infer_sizes,
    lift,
    lift_together,
    logical,
    resolve_axes,
)
from tcp_eqsat.frontends.traced import broadcast_to as _broadcast_to
from tcp_eqsat.frontends.traced import matmul as matmul
from tcp_eqsat.lang.dims import Size, product
from tcp_eqsat.lang.dims import equal as equal_sizes
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.scalar import scalar_op_named
from tcp_eqsat.lang.types import F32, Kind, Shape

newaxis = None
e, pi, inf, nan = np.e, np.pi, np.inf, np.nan


def _elementwise_function(name: str) -> Any:
    op = scalar_op_named(name)

    def function(*operands: Operand) -> Traced:
        if len(operands) != op.arity:
            raise TypeMismatch(f"{name} requires {op.arity} operands, got {len(operands)}")
        return elementwise(name, *operands)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{op.doc} ({', '.join(op.operands)})"
    return function


add = _elementwise_function("add")
subtract = _elementwise_function("subtract")
multiply = _elementwise_function("multiply")
divide = _elementwise_function("divide")
fmod = _elementwise_function("fmod")
pow = _elementwise_function("pow")
maximum = _elementwise_function("maximum")
minimum = _elementwise_function("minimum")
negative = _elementwise_function("negative")
abs = _elementwise_function("abs")
sign = _elementwise_function("sign")
square = _elementwise_function("square")
sqrt = _elementwise_function("sqrt")
rsqrt = _elementwise_function("rsqrt")
exp = _elementwise_function("exp")
exp2 = _elementwise_function("exp2")
expm1 = _elementwise_function("expm1")
log = _elementwise_function("log")
log2 = _elementwise_function("log2")
log1p = _elementwise_function("log1p")
tanh = _elementwise_function("tanh")
logistic = _elementwise_function("logistic")
erf = _elementwise_function("erf")
sin = _elementwise_function("sin")
cos = _elementwise_function("cos")
floor = _elementwise_function("floor")
ceil = _elementwise_function("ceil")
trunc = _elementwise_function("trunc")
round = _elementwise_function("round")
equal = _elementwise_function("equal")
not_equal = _elementwise_function("not_equal")
less = _elementwise_function("less")
less_equal = _elementwise_function("less_equal")
greater = _elementwise_function("greater")
greater_equal = _elementwise_function("greater_equal")
where = _elementwise_function("where")
isfinite = _elementwise_function("isfinite")
isnan = _elementwise_function("isnan")
bitwise_and = _elementwise_function("bitwise_and")
bitwise_or = _elementwise_function("bitwise_or")
bitwise_xor = _elementwise_function("bitwise_xor")
bitwise_invert = _elementwise_function("bitwise_invert")
bitwise_left_shift = _elementwise_function("bitwise_left_shift")
bitwise_right_shift = _elementwise_function("bitwise_right_shift")


def logical_and(x: Operand, y: Operand) -> Traced:
    """And of operands of dtype bool."""
    return logical("logical_and", x, y)


def logical_or(x: Operand, y: Operand) -> Traced:
    """Or of operands of dtype bool."""
    return logical("logical_or", x, y)


def logical_xor(x: Operand, y: Operand) -> Traced:
    """Exclusive or of operands of dtype bool."""
    return logical("logical_xor", x, y)


def logical_not(x: Operand) -> Traced:
    """Not, of an operand of dtype bool."""
    return logical("logical_not", x)


def clip(x: Operand, lower: Operand, upper: Operand) -> Traced:
    """minimum(maximum(x, lower), upper)."""
    return minimum(maximum(x, lower), upper)


def astype(x: Operand, dtype: Any) -> Traced:
    """Value conversion; float to integer truncates and saturates."""
    return Traced(lift(x)).astype(dtype)


# Creation


def asarray(value: Operand, dtype: Any = None) -> Traced:
    """A constant, or the traced tensor itself."""
    result = Traced(lift(value))
    return result if dtype is None else result.astype(dtype)


def full(shape: Any, value: Any, dtype: Any = F32) -> Traced:
    """The same number everywhere (f32 unless told)."""
    return Traced(builders.splat(value, as_dtype(dtype), as_shape(shape)))


def zeros(shape: Any, dtype: Any = F32) -> Traced:
    """0 everywhere (f32 unless told)."""
    return full(shape, 0, dtype)


def ones(shape: Any, dtype: Any = F32) -> Traced:
    """1 everywhere (f32 unless told)."""
    return full(shape, 1, dtype)


def full_like(x: Operand, value: Any) -> Traced:
    """The same number at every index of x, in its dtype."""
    node = lift(x)
    return full(node.shape, value, node.dtype)


def zeros_like(x: Operand) -> Traced:
    """0 at every index of x, in its dtype."""
    return full_like(x, 0)


def ones_like(x: Operand) -> Traced:
    """1 at every index of x, in its dtype."""
    return full_like(x, 1)


def arange(size: Size, dtype: Any = "i64") -> Traced:
    """0, 1, ..., size - 1."""
    return Traced(builders.iota(as_dtype(dtype), (as_size(size),), 0))


def eye(size: int, dtype: Any = F32) -> Traced:
    """The identity matrix."""
    rows, columns = (Traced(builders.iota(as_dtype("i64"), (size, size), axis)) for axis in (0, 1))
    return where(rows == columns, ones((size, size), dtype), zeros((size, size), dtype))


# Movement


def _axes(axis: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    return resolve_axes(range(rank) if axis is None else axis, rank)


def reshape(x: Operand, shape: Any) -> Traced:
    """Row-major reshape; one size may be -1."""
    node = lift(x)
    return Traced(builders.reshape(node, infer_sizes(node.shape, as_shape(shape))))


def permute_dims(x: Operand, axes: Sequence[int]) -> Traced:
    """Result axis n is axis axes[n] of x."""
    node = lift(x)
    return Traced(builders.transpose(node, resolve_axes(axes, len(node.shape))))


def matrix_transpose(x: Operand) -> Traced:
    """The last two axes swapped."""
    rank = len(lift(x).shape)
    return permute_dims(x, (*range(rank - 2), rank - 1, rank - 2))


def moveaxis(x: Operand, source: int, destination: int) -> Traced:
    """Axis `source` of x becomes axis `destination`, the others keep their order."""
    rank = len(lift(x).shape)
    (source,), (destination,) = _axes(source, rank), _axes(destination, rank)
    order = [a for a in range(rank) if a != source]
    order.insert(destination, source)
    return permute_dims(x, order)


def broadcast_to(x: Operand, shape: Any) -> Traced:
    """x under a shape that NumPy would broadcast it to."""
    return Traced(_broadcast_to(lift(x), as_shape(shape)))


def expand_dims(x: Operand, axis: int = 0) -> Traced:
    """A new axis of size 1 at `axis` of the result."""
    node = lift(x)
    (at,) = _axes(axis, len(node.shape) + 1)
    return Traced(node)[(*([slice(None)] * at), None)]


def squeeze(x: Operand, axis: int | Sequence[int]) -> Traced:
    """Axes of size 1 removed."""
    node = lift(x)
    axes = _axes(axis, len(node.shape))
    for a in axes:
        if not equal_sizes(node.shape[a], 1):
            raise ShapeMismatch(f"squeeze requires size 1 along axis {a} of {node.type}")
    kept = [a for a in range(len(node.shape)) if a not in axes]
    labels = tuple(kept.index(a) if a in kept else -1 for a in range(len(node.shape)))
    return Traced(builders.view(node, labels, tuple(node.shape[a] for a in kept)))


def concat(arrays: Sequence[Operand], axis: int = 0) -> Traced:
    """Arrays one after the other along `axis`."""
    if not arrays:
        raise TypeMismatch("concat requires at least one array")
    nodes = lift_together(arrays)
    (at,) = _axes(axis, len(nodes[0].shape))
    for node in nodes[1:]:
        if len(node.shape) == len(nodes[0].shape):
            for a, (left, right) in enumerate(zip(nodes[0].shape, node.shape, strict=True)):
                if a != at:
                    agree(left, right)
    return Traced(builders.concatenate(tuple(nodes), at))


def stack(arrays: Sequence[Operand], axis: int = 0) -> Traced:
    """Arrays of one shape along a new axis, which is `axis` of the result."""
    return concat([expand_dims(x, axis) for x in arrays], axis)


def split(x: Operand, sections: int, axis: int = 0) -> tuple[Traced, ...]:
    """`sections` equal parts along `axis`; raises ShapeMismatch where the size does not divide."""
    node = lift(x)
    (at,) = _axes(axis, len(node.shape))
    size = node.shape[at]
    if not isinstance(size, int) or sections < 1 or size % sections:
        raise ShapeMismatch(f"split requires a static multiple of {sections} along axis {at} of {node.type}")
    step = size // sections
    lead = (slice(None),) * at
    return tuple(Traced(node)[(*lead, slice(i * step, (i + 1) * step))] for i in range(sections))


def pad(x: Operand, widths: Sequence[tuple[Size, Size]], value: Any = 0) -> Traced:
    """`value` around x: (before, after) for each axis."""
    node = lift(x)
    filling = builders.scalar_constant(value, node.dtype)
    if not isinstance(widths, (tuple, list)) or not builtins.all(
            isinstance(width, (tuple, list)) and len(width) == 2 for width in widths):
        raise TypeMismatch(f"pad requires a pair (before, after) for each axis, got {widths!r}")
    low, high = (tuple(as_size(width[side]) for width in widths) for side in (0, 1))
    return Traced(builders.pad(node, filling, low, high))


# Reductions


def _reduce(name: str, x: Operand, axis: int | Sequence[int] | None, keepdims: bool) -> Traced:
    node = lift(x)
    axes = _axes(axis, len(node.shape))
    result = Traced(builders.reduce_axes(scalar_op_named(name), node, axes))
    if keepdims:
        for a in sorted(axes):
            result = expand_dims(result, a)
    return result


def sum(x: Operand, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Traced:
    """The sum over axes (all unless told), in x's dtype; 0 of nothing."""
    return _reduce("add", x, axis, keepdims)


def prod(x: Operand, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Traced:
    """The product over axes, in x's dtype; 1 of nothing."""
    return _reduce("multiply", x, axis, keepdims)


def max(x: Operand, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Traced:
    """The greatest; NaN if there is one; -inf or the least integer of nothing."""
    return _reduce("maximum", x, axis, keepdims)


def min(x: Operand, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Traced:
    """The least; NaN if there is one; inf or the greatest integer of nothing."""
    return _reduce("minimum", x, axis, keepdims)


def any(x: Operand, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Traced:
    """Whether any element is not 0."""
    return _reduce("bitwise_or", astype(x, "bool"), axis, keepdims)


def all(x: Operand, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Traced:
    """Whether no element is 0."""
    return _reduce("bitwise_and", astype(x, "bool"), axis, keepdims)


def mean(x: Operand, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Traced:
    """The sum over the count (NaN of nothing); of floating-point dtypes only."""
    node = _lift_float("mean", x)
    return sum(node, axis, keepdims) / size_value(_count(node.shape, axis), node.dtype)


def var(x: Operand, axis: int | Sequence[int] | None = None, correction: int = 0, keepdims: bool = False) -> Traced:
    """Two passes: the sum of squared distances from the mean over the count less `correction`."""
    node = _lift_float("var", x)
    centred = Traced(node) - mean(node, axis, keepdims=True)
    return sum(square(centred), axis, keepdims) / (
        size_value(_count(node.shape, axis), node.dtype) - correction)


def _lift_float(name: str, x: Operand) -> Node:
    node = lift(x)
    if not node.dtype.is_float:
        raise TypeMismatch(f"{name} requires a floating-point dtype, got {node.type}: convert with astype")
    return node


def _count(shape: Shape, axis: int | Sequence[int] | None) -> Size:
    return product(tuple(shape[a] for a in _axes(axis, len(shape))))


def size_value(size: Size, dtype: Any) -> Traced:
    """A size as a tensor of rank 0, symbolic sizes included."""
    kind, size = as_dtype(dtype), as_size(size)
    if isinstance(size, int):
        return Traced(builders.scalar_constant(size, kind))
    if kind.kind is Kind.BOOL:
        raise TypeMismatch("a size can't be of dtype bool")
    ramp = Traced(builders.iota(kind, (size + 1,), 0))
    return ramp[size]


# Contractions


def tensordot(x: Operand, y: Operand, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Traced:
    """Sums of products over pairs of axes, or over the last and first `axes` axes."""
    left, right = lift_together([x, y])
    if isinstance(axes, int):
        if not 0 <= axes <= builtins.min(len(left.shape), len(right.shape)):
            raise TypeMismatch(f"tensordot requires at most the axes of {left.type} and {right.type}, got {axes}")
        pairs = (tuple(range(len(left.shape) - axes, len(left.shape))), tuple(range(axes)))
    else:
        pairs = (_axes(tuple(axes[0]), len(left.shape)), _axes(tuple(axes[1]), len(right.shape)))
    for a, b in zip(*pairs, strict=False):
        agree(left.shape[a], right.shape[b])
    return Traced(builders.dot_general(left, right, pairs))


def vecdot(x: Operand, y: Operand, axis: int = -1) -> Traced:
    """Sums of products along one axis of broadcast operands."""
    return sum(multiply(x, y), axis)


def einsum(equation: str, *operands: Operand) -> Traced:
    """Einstein summation of one or two operands, with an explicit result: "bhsd,bhtd->bhst"."""
    left, arrow, out = str(equation).replace(" ", "").partition("->")
    terms = left.split(",")
    if not arrow or len(terms) != len(operands) or len(operands) not in (1, 2):
        raise TypeMismatch(f"einsum requires 'a,b->c' with one or two operands, got {equation!r}")
    nodes = lift_together(operands)
    extents: dict[str, Size] = {}
    for term, node in zip(terms, nodes, strict=True):
        if len(term) != len(node.shape) or len(set(term)) != len(term):
            raise TypeMismatch(f"einsum requires one distinct letter for each axis of {node.type}, got {term!r}")
        for letter, size in zip(term, node.shape, strict=True):
            if not agree(extents.setdefault(letter, size), size):
                raise ShapeMismatch(f"einsum letter {letter} has sizes {extents[letter]} and {size}")
    missing = [letter for letter in out if letter not in extents]
    if missing or len(set(out)) != len(out):
        raise TypeMismatch(f"einsum result {out!r} must have distinct letters of the operands")
    letters = [*out, *(letter for letter in extents if letter not in out)]
    labels = [tuple(letters.index(letter) for letter in term) for term in terms]
    sizes = tuple(extents[letter] for letter in letters)
    if len(nodes) == 2:
        return Traced(builders.contract(nodes[0], nodes[1], labels[0], labels[1], sizes, len(out)))
    reduced = tuple(a for a, letter in enumerate(terms[0]) if letter not in out)
    kept = [letter for letter in terms[0] if letter in out]
    result = Traced(builders.reduce_axes(scalar_op_named("add"), nodes[0], reduced)) if reduced else Traced(nodes[0])
    return permute_dims(result, [kept.index(letter) for letter in out])

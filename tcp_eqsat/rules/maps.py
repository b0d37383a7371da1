"""Attribute functions and conditions on index maps, shapes and numbers, shared by the rules of several themes.

Labels map an operand's axes into an iteration space; -1 is index 0 of an axis of size 1. Functions return None
where they do not apply.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tcp_eqsat.lang.dims import Size, bounds, equal
from tcp_eqsat.lang.scalar import ScalarOp
from tcp_eqsat.lang.types import Shape, TensorType, is_float_array
from tcp_eqsat.rules.attribute import Sort, attribute_function, same_value
from tcp_eqsat.rules.condition import predicate

Labels = tuple[int, ...]
INT, INTS, NUMBER, OPERATION, SHAPE, SIZE, TENSOR = (
    Sort.INT, Sort.INTS, Sort.NUMBER, Sort.OPERATION, Sort.SHAPE, Sort.SIZE, Sort.TENSOR)

# Labels -------------------------------------------------------------------------------------------------------------


def composed(outer: Labels, inner: Labels) -> Labels:
    return tuple(outer[label] if label >= 0 else -1 for label in inner)


@attribute_function(INTS, INTS, result=INTS)
def compose(outer: Labels, inner: Labels) -> Labels:
    """First `inner`, then `outer`: where an axis runs that `inner` sends into the axes of what `outer` maps."""
    return composed(outer, inner)


@attribute_function(INTS, INTS, result=INTS)
def pull_back(labels: Labels, through: Labels) -> Labels | None:
    """The axes of an operand, mapped by `through`, that run along `labels`; None where one does not."""
    if any(label >= 0 and label not in through for label in labels):
        return None
    return tuple(through.index(label) if label >= 0 else -1 for label in labels)


@attribute_function(INTS, INTS, INT, SHAPE, result=INTS)
def relabel(labels: Labels, results: Labels, rank: int, shape: Shape) -> Labels:
    """Labels of a reduction whose result is viewed by `results` into `shape`: summed labels come after it."""
    return tuple(label if label < 0 else results[label] if label < rank else label - rank + len(shape)
                 for label in labels)


@attribute_function(SHAPE, result=INTS)
def axes_of(shape: Shape) -> Labels:
    """0, 1, 2, ...: the axes of a shape as labels."""
    return tuple(range(len(shape)))


# Shapes -------------------------------------------------------------------------------------------------------------


@attribute_function(TENSOR, result=SHAPE)
def shape_of(x: TensorType) -> Shape:
    """The shape of a tensor variable."""
    return x.shape


@attribute_function(SHAPE, INT, result=SHAPE)
def take(shape: Shape, count: int) -> Shape:
    """The first sizes."""
    return shape[:count]


@attribute_function(SHAPE, SHAPE, INT, result=SHAPE)
def extend(shape: Shape, extents: Shape, rank: int) -> Shape:
    """`shape` and the sizes of `extents` from `rank` on: a viewed result and what is summed."""
    return (*shape, *extents[rank:])


@attribute_function(SHAPE, result=INT)
def length(shape: Shape) -> int:
    """How many sizes a shape has."""
    return len(shape)


def with_size(shape: Shape, axis: int, size: Size) -> Shape:
    return (*shape[:axis], size, *shape[axis + 1:])



# Conditions on maps and shapes --------------------------------------------------------------------------------------


@predicate(INTS, SHAPE)
def is_identity(labels: Labels, shape: Shape) -> bool:
    """The map sends every axis to itself and adds none."""
    return labels == tuple(range(len(shape)))


@predicate(INTS, SHAPE, INT)
def covers(labels: Labels, extents: Shape, rank: int) -> bool:
    """Every summed label occurs."""
    return set(range(rank, len(extents))) <= set(labels)


@predicate(INTS, INTS, SHAPE, INT)
def cover(lhs: Labels, rhs: Labels, extents: Shape, rank: int) -> bool:
    """Every contracted label occurs in one of the two."""
    return set(range(rank, len(extents))) <= {*lhs, *rhs}


@predicate(INTS, INT)
def kept(labels: Labels, rank: int) -> bool:
    """No label is summed."""
    return all(label < rank for label in labels)


@predicate(SHAPE, INT)
def nonempty_reduction(extents: Shape, rank: int) -> bool:
    """Something is reduced: no reduced extent is 0."""
    return all(bounds(size)[0] > 0 for size in extents[rank:])


@predicate(SHAPE, INT)
def sums_something(extents: Shape, rank: int) -> bool:
    """There is a summed label, of any extent: the sum starts at +0."""
    return len(extents) > rank


@predicate(SHAPE, INT)
def unit_reduction(extents: Shape, rank: int) -> bool:
    """Only axes of size 1 are reduced, or none."""
    return all(equal(size, 1) for size in extents[rank:])


@predicate(SHAPE, SHAPE)
def same_shape(left: Shape, right: Shape) -> bool:
    """The shapes are provably equal."""
    return same_value(left, right)


@predicate(TENSOR, TENSOR)
def same_dtype(left: TensorType, right: TensorType) -> bool:
    """The tensors have one dtype."""
    return left.dtype == right.dtype


@predicate(INT, INT)
def distinct(left: int, right: int) -> bool:
    """The axes are different ones."""
    return left != right


@predicate(SIZE)
def static(size: Size) -> bool:
    """The size is a number."""
    return type(size) is int


# Conditions on operations and numbers ---------------------------------------------------------------------


@predicate(OPERATION)
def idempotent(operation: ScalarOp) -> bool:
    """Combining a value with itself changes nothing."""
    return operation.name in ("maximum", "minimum", "bitwise_and", "bitwise_or")


@predicate(OPERATION)
def keeps_single(operation: ScalarOp) -> bool:
    """A reduction of one element is that element, for every value (a sum turns -0 into +0)."""
    return operation.name != "add"


@predicate(NUMBER)
def has_exact_reciprocal(number: Any) -> bool:
    """A power of two, of either sign, whose reciprocal is a number of its dtype."""
    value = np.asarray(number)
    if not is_float_array(value) or not np.isfinite(value) or value == 0:
        return False
    with np.errstate(all="ignore"):
        reciprocal = np.asarray(1, value.dtype) / value
    return abs(math.frexp(float(value))[0]) == 0.5 and bool(np.isfinite(reciprocal)) and bool(reciprocal * value == 1)

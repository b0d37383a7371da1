"""Slices, concatenations and paddings: dropped, joined, and moved to where they cost nothing."""

from __future__ import annotations

from tcp_eqsat.lang.dims import Size, equal, less_equal
from tcp_eqsat.lang.types import Shape, TensorType
from tcp_eqsat.rules.attribute import attribute_function, same_value
from tcp_eqsat.rules.condition import predicate
from tcp_eqsat.rules.maps import (
    INT,
    INTS,
    SHAPE,
    TENSOR,
    Labels,
    same_dtype,
    same_shape,
    shape_of,
    with_size,
)
from tcp_eqsat.rules.pattern import (
    concatenate,
    contract,
    int_variables,
    labels_variables,
    monoid_variables,
    pad,
    reduce,
    scalar_operation,
    shape_variables,
    slice_,
    strides_variables,
    variables,
    view,
)
from tcp_eqsat.rules.reduction import axis_label
from tcp_eqsat.rules.rule import Phase, RuleSet, rule

SIMPLIFY = Phase.SIMPLIFY

x, y, z, u, v = variables("x y z u v")
lhs, rhs, m = labels_variables("lhs rhs m")
d, d2 = strides_variables("d d2")
a, b, a2, b2, s, e = shape_variables("a b a2 b2 s e")
k, p, q = int_variables("k p q")
(op,) = monoid_variables("op")
f1, f2, f3 = scalar_operation("f", 1), scalar_operation("f", 2), scalar_operation("f", 3)


def _count(start: Size, limit: Size, step: int) -> Size:
    return (limit - start + (step - 1)) // step


@predicate(TENSOR, SHAPE, SHAPE, INTS)
def takes_all(whole: TensorType, starts: Shape, limits: Shape, steps: Labels) -> bool:
    """The slice is the whole tensor."""
    return (all(equal(start, 0) for start in starts) and all(step == 1 for step in steps)
            and same_value(limits, whole.shape))


@attribute_function(SHAPE, INTS, SHAPE, result=SHAPE)
def inner_starts(outer: Shape, steps: Labels, inner: Shape) -> Shape:
    """Where a slice of a slice begins: outer start + step * inner start."""
    return tuple(start + step * at for start, step, at in zip(outer, steps, inner, strict=True))


@attribute_function(SHAPE, INTS, SHAPE, result=SHAPE)
def inner_limits(outer: Shape, steps: Labels, limits: Shape) -> Shape | None:
    """Where a slice of a slice ends: after the last element it may take. None where that is not known."""
    found: list[Size] = []
    for begin, step, limit in zip(outer, steps, limits, strict=True):
        if step != 1 and less_equal(1, limit) is not True:
            return None
        found.append(begin + limit if step == 1 else begin + step * (limit - 1) + 1)
    return tuple(found)


@predicate(SHAPE, SHAPE, INTS)
def takes_some(starts: Shape, limits: Shape, steps: Labels) -> bool:
    """Along axes with a step, the slice has at least one element."""
    return all(step == 1 or less_equal(start + 1, limit) is True
               for start, limit, step in zip(starts, limits, steps, strict=True))


@attribute_function(INTS, INTS, result=INTS)
def products(left: Labels, right: Labels) -> Labels:
    """Steps multiplied one by one."""
    return tuple(one * other for one, other in zip(left, right, strict=True))


@attribute_function(SHAPE, SHAPE, INTS, result=SHAPE)
def slice_shape(starts: Shape, limits: Shape, steps: Labels) -> Shape:
    """The shape of a slice."""
    return tuple(map(_count, starts, limits, steps))


# Through an index map: each operand axis takes the part of the axis it runs along -----------------------------------


@attribute_function(INTS, SHAPE, result=SHAPE)
def starts_along(labels: Labels, starts: Shape) -> Shape:
    """Starts of an operand's axes when the result is sliced; other labels and index 0 are taken whole."""
    return tuple(starts[label] if 0 <= label < len(starts) else 0 for label in labels)


@attribute_function(INTS, SHAPE, TENSOR, result=SHAPE)
def limits_along(labels: Labels, limits: Shape, operand: TensorType) -> Shape:
    """Limits of an operand's axes when the result is sliced."""
    return tuple(limits[label] if 0 <= label < len(limits) else size
                 for label, size in zip(labels, operand.shape, strict=True))


@attribute_function(INTS, INTS, result=INTS)
def steps_along(labels: Labels, steps: Labels) -> Labels:
    """Steps of an operand's axes when the result is sliced."""
    return tuple(steps[label] if 0 <= label < len(steps) else 1 for label in labels)


@attribute_function(SHAPE, INT, SHAPE, SHAPE, INTS, result=SHAPE)
def sliced_extents(extents: Shape, rank: int, starts: Shape, limits: Shape, steps: Labels) -> Shape:
    """Extents when the result is sliced."""
    return (*map(_count, starts, limits, steps), *extents[rank:])


# Along the axis of a concatenation ----------------------------------------------------------------------------------


@predicate(TENSOR, INT, SHAPE)
def within_first(first: TensorType, axis: int, limits: Shape) -> bool:
    """The slice ends within the first part."""
    return less_equal(limits[axis], first.shape[axis]) is True


@predicate(TENSOR, INT, SHAPE)
def after_first(first: TensorType, axis: int, starts: Shape) -> bool:
    """The slice begins at or after the end of the first part."""
    return less_equal(first.shape[axis], starts[axis]) is True


@predicate(TENSOR, INT, SHAPE, SHAPE, INTS)
def spans_both(first: TensorType, axis: int, starts: Shape, limits: Shape, steps: Labels) -> bool:
    """The slice begins in the first part, ends in the second and has step 1."""
    size = first.shape[axis]
    return (less_equal(starts[axis], size) is True and less_equal(size, limits[axis]) is True and steps[axis] == 1)


@attribute_function(TENSOR, INT, SHAPE, result=SHAPE)
def beyond(first: TensorType, axis: int, places: Shape) -> Shape:
    """Places along the axis counted from the end of the first part."""
    return with_size(places, axis, places[axis] - first.shape[axis])


@attribute_function(SHAPE, INT, TENSOR, result=SHAPE)
def up_to(limits: Shape, axis: int, first: TensorType) -> Shape:
    """Limits that end with the first part."""
    return with_size(limits, axis, first.shape[axis])


@attribute_function(SHAPE, INT, result=SHAPE)
def from_zero(starts: Shape, axis: int) -> Shape:
    """Starts that begin at 0 along the axis."""
    return with_size(starts, axis, 0)


@predicate(SHAPE, SHAPE, SHAPE, SHAPE, INTS, INT)
def adjacent(starts: Shape, limits: Shape, next_starts: Shape, next_limits: Shape, steps: Labels, axis: int) -> bool:
    """The second slice goes on along the axis where the first ends, and is equal along the others."""
    return (axis < len(starts) and steps[axis] == 1 and equal(limits[axis], next_starts[axis])
            and same_value(with_size(starts, axis, 0), with_size(next_starts, axis, 0))
            and same_value(with_size(limits, axis, 0), with_size(next_limits, axis, 0)))


@predicate(TENSOR, INT)
def empty_along(part: TensorType, axis: int) -> bool:
    """The tensor has no elements along the axis."""
    return equal(part.shape[axis], 0)


@attribute_function(INTS, SHAPE, TENSOR, INT, result=SHAPE)
def part_shape(labels: Labels, shape: Shape, part: TensorType, axis: int) -> Shape | None:
    """The view's shape for one part of a concatenation; None where the axis is index 0."""
    return with_size(shape, labels[axis], part.shape[axis]) if labels[axis] >= 0 else None


# Padding ------------------------------------------------------------------------------------------------------------


@predicate(SHAPE, SHAPE)
def nothing(low: Shape, high: Shape) -> bool:
    """No element is added."""
    return all(equal(size, 0) for size in (*low, *high))


@attribute_function(SHAPE, SHAPE, result=SHAPE)
def plus(left: Shape, right: Shape) -> Shape:
    """Sizes added one by one."""
    return tuple(one + other for one, other in zip(left, right, strict=True))


@attribute_function(SHAPE, SHAPE, result=SHAPE)
def minus(left: Shape, right: Shape) -> Shape:
    """Sizes subtracted one by one."""
    return tuple(one - other for one, other in zip(left, right, strict=True))


@predicate(TENSOR, SHAPE, SHAPE, SHAPE)
def inside(whole: TensorType, low: Shape, starts: Shape, limits: Shape) -> bool:
    """The slice of a padded tensor takes nothing of the padding."""
    return all(less_equal(before, start) is True and less_equal(limit, before + size) is True
               for size, before, start, limit in zip(whole.shape, low, starts, limits, strict=True))


slices = RuleSet((
    rule("slice_of_all", slice_(x, a, b, d), x, when=takes_all(x, a, b, d), phase=SIMPLIFY, doc="Nothing is left out."),
    rule("slice_of_slice", slice_(slice_(x, a, b, d), a2, b2, d2),
         slice_(x, inner_starts(a, d, a2), inner_limits(a, d, b2), products(d, d2)), when=takes_some(a2, b2, d),
         phase=SIMPLIFY,
         doc="Offsets add, steps multiply."),
    rule("slice_through_unary", slice_(f1(x), a, b, d), f1(slice_(x, a, b, d)), bidirectional=True,
         doc="Compute only what is used; or compute once what several slices use."),
    rule("slice_through_binary", slice_(f2(x, y), a, b, d), f2(slice_(x, a, b, d), slice_(y, a, b, d)),
         doc="Compute only what is used."),
    rule("slice_through_ternary", slice_(f3(x, y, z), a, b, d),
         f3(slice_(x, a, b, d), slice_(y, a, b, d), slice_(z, a, b, d)), doc="Compute only what is used."),
    rule("slice_of_view", slice_(view(x, m, s), a, b, d),
         view(slice_(x, starts_along(m, a), limits_along(m, b, x), steps_along(m, d)), m, slice_shape(a, b, d)),
         doc="A slice of a transpose or broadcast takes its part of the operand."),
    rule("slice_of_reduce", slice_(reduce(op, x, lhs, e, k), a, b, d),
         reduce(op, slice_(x, starts_along(lhs, a), limits_along(lhs, b, x), steps_along(lhs, d)), lhs,
                sliced_extents(e, k, a, b, d), k), doc="Reduce only what is used."),
    rule("slice_of_contract", slice_(contract(x, y, lhs, rhs, e, k), a, b, d),
         contract(slice_(x, starts_along(lhs, a), limits_along(lhs, b, x), steps_along(lhs, d)),
                  slice_(y, starts_along(rhs, a), limits_along(rhs, b, y), steps_along(rhs, d)), lhs, rhs,
                  sliced_extents(e, k, a, b, d), k), doc="Contract only what is used."),
))

concatenations = RuleSet((
    rule("slice_of_first_part", slice_(concatenate(p, x, y), a, b, d), slice_(x, a, b, d), when=within_first(x, p, b),
         phase=SIMPLIFY, doc="The other part is not needed."),
    rule("slice_of_second_part", slice_(concatenate(p, x, y), a, b, d), slice_(y, beyond(x, p, a), beyond(x, p, b), d),
         when=after_first(x, p, a), phase=SIMPLIFY, doc="The other part is not needed."),
    rule("slice_of_both_parts", slice_(concatenate(p, x, y), a, b, d),
         concatenate(p, slice_(x, a, up_to(b, p, x), d), slice_(y, from_zero(a, p), beyond(x, p, b), d)),
         when=spans_both(x, p, a, b, d), doc="Slices go to the parts."),
    rule("join_adjacent_slices", concatenate(p, slice_(x, a, b, d), slice_(x, a2, b2, d)),
         slice_(x, a, b2, d), when=adjacent(a, b, a2, b2, d, p), phase=SIMPLIFY,
         doc="What was cut and put together again is one slice."),
    rule("flatten_concatenation_on_the_left", concatenate(p, concatenate(p, x, y), z), concatenate(p, x, y, z),
         phase=SIMPLIFY, doc="One copy instead of two."),
    rule("flatten_concatenation_on_the_right", concatenate(p, x, concatenate(p, y, z)), concatenate(p, x, y, z),
         phase=SIMPLIFY, doc="One copy instead of two."),
    rule("concatenation_with_empty_second", concatenate(p, x, y), x, when=empty_along(y, p), phase=SIMPLIFY,
         doc="Nothing to add."),
    rule("concatenation_with_empty_first", concatenate(p, x, y), y, when=empty_along(x, p), phase=SIMPLIFY,
         doc="Nothing to add."),
    rule("concatenation_through_unary", concatenate(p, f1(x), f1(y)), f1(concatenate(p, x, y)),
         when=same_dtype(x, y), bidirectional=True,
         doc="One loop over both parts; or no concatenation before what reads the parts."),
    rule("concatenation_through_binary", concatenate(p, f2(x, y), f2(u, v)),
         f2(concatenate(p, x, u), concatenate(p, y, v)), when=same_dtype(x, u) & same_dtype(y, v),
         doc="One loop over both parts."),
    rule("split_binary_of_concatenations", f2(concatenate(p, x, u), concatenate(p, y, v)),
         concatenate(p, f2(x, y), f2(u, v)),
         when=same_shape(shape_of(x), shape_of(y)),
         doc="Where both are cut at the same place, parts meet parts."),
    rule("view_of_concatenation", view(concatenate(p, x, y), m, s),
         concatenate(axis_label(m, p), view(x, m, part_shape(m, s, x, p)), view(y, m, part_shape(m, s, y, p))),
         doc="Transpose or broadcast the parts where they are."),
))

paddings = RuleSet((
    rule("pad_of_nothing", pad(x, v, a, b), x, when=nothing(a, b), phase=SIMPLIFY, doc="No element is added."),
    rule("pad_of_pad", pad(pad(x, v, a, b), v, a2, b2), pad(x, v, plus(a, a2), plus(b, b2)), phase=SIMPLIFY,
         doc="Amounts add where the value is the same."),
    rule("slice_inside_padding", slice_(pad(x, v, a, b), a2, b2, d), slice_(x, minus(a2, a), minus(b2, a), d),
         when=inside(x, a, a2, b2), phase=SIMPLIFY, doc="The padding is not needed."),
    rule("pad_through_unary", f1(pad(x, v, a, b)), pad(f1(x), f1(v), a, b), when=same_dtype(x, v), bidirectional=True,
         doc="Compute before padding, or fuse the padding into what reads it."),
))

MOVEMENT = slices + concatenations + paddings

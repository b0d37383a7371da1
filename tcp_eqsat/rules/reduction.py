"""Reductions: views absorbed into their index maps, reductions joined, factors and shifts moved out."""

from __future__ import annotations

from collections.abc import Sequence

from tcp_eqsat.lang.dims import bounds
from tcp_eqsat.lang.tiers import REASSOCIATION
from tcp_eqsat.lang.types import Shape, TensorType
from tcp_eqsat.rules.attribute import attribute_function
from tcp_eqsat.rules.condition import predicate
from tcp_eqsat.rules.facts import finite, is_float, is_integer, not_negative_zero, positive
from tcp_eqsat.rules.functions import maximum
from tcp_eqsat.rules.maps import (
    INT,
    INTS,
    SHAPE,
    TENSOR,
    Labels,
    compose,
    covers,
    extend,
    idempotent,
    keeps_single,
    kept,
    length,
    relabel,
    take,
    unit_reduction,
    with_size,
)
from tcp_eqsat.rules.pattern import (
    concatenate,
    int_variables,
    labels_variables,
    monoid_variables,
    reduce,
    shape_variables,
    variables,
    view,
)
from tcp_eqsat.rules.rule import Phase, RuleSet, rule

SIMPLIFY = Phase.SIMPLIFY

x, y, g = variables("x y g")
n, m = labels_variables("n m")
e, f, s, t = shape_variables("e f s t")
j, k, axis = int_variables("j k axis")
(op,) = monoid_variables("op")


def _present(labels: Labels, extents: Shape, rank: int) -> list[int]:
    """All kept labels, and the summed ones that occur."""
    return [label for label in range(len(extents)) if label < rank or label in labels]


@attribute_function(INTS, SHAPE, INT, result=INTS)
def renumber_present(labels: Labels, extents: Shape, rank: int) -> Labels:
    """Labels when summed labels that do not occur are dropped."""
    order = _present(labels, extents, rank)
    return tuple(order.index(label) if label >= 0 else -1 for label in labels)


@attribute_function(INTS, SHAPE, INT, result=SHAPE)
def present_extents(labels: Labels, extents: Shape, rank: int) -> Shape:
    """Extents when summed labels that do not occur are dropped."""
    return tuple(extents[label] for label in _present(labels, extents, rank))


@predicate(INTS, SHAPE, INT)
def only_nonempty_missing(labels: Labels, extents: Shape, rank: int) -> bool:
    """Some summed label does not occur, and none of these has extent 0."""
    missing = [extents[label] for label in range(rank, len(extents)) if label not in labels]
    return bool(missing) and all(bounds(size)[0] > 0 for size in missing)


@attribute_function(INTS, INT, result=INTS)
def drop_summed(labels: Labels, rank: int) -> Labels:
    """Index 0 in place of every summed label."""
    return tuple(label if label < rank else -1 for label in labels)


def _joined(inner: Labels, rank: int, outer: Labels, extents: Shape) -> Labels:
    return tuple(label if label < 0 else outer[label] if label < rank else label - rank + len(extents)
                 for label in inner)


@attribute_function(INTS, INT, INTS, SHAPE, result=INTS)
def join_labels(inner: Labels, rank: int, outer: Labels, extents: Shape) -> Labels:
    """Labels of one reduction in place of an inner one (`rank` kept labels) and an outer one (`outer`, `extents`)."""
    return _joined(inner, rank, outer, extents)


@attribute_function(INTS, TENSOR, INT, SHAPE, result=SHAPE)
def part_extents(labels: Labels, part: TensorType, axis: int, extents: Shape) -> Shape:
    """Extents when an operand is one part of a concatenation along `axis`."""
    return with_size(extents, labels[axis], part.shape[axis]) if labels[axis] >= 0 else extents


@predicate(INTS, INT, INT)
def summed_along(labels: Labels, axis: int, rank: int) -> bool:
    """The axis runs along a summed label."""
    return labels[axis] >= rank


@predicate(INTS, INT, INT)
def kept_along(labels: Labels, axis: int, rank: int) -> bool:
    """The axis runs along a label of the result."""
    return 0 <= labels[axis] < rank


@attribute_function(INTS, INT, result=INT)
def axis_label(labels: Sequence[int], axis: int) -> int:
    """The label that an axis runs along."""
    return labels[axis]


absorption = RuleSet((
    rule("reduce_absorbs_view", reduce(op, view(x, m, s), n, e, k), reduce(op, x, compose(n, m), e, k),
         when=covers(compose(n, m), e, k), phase=SIMPLIFY,
         doc="A transpose or broadcast before a reduction is only another index map."),
    rule("view_absorbed_by_reduce", view(reduce(op, x, n, e, k), m, s),
         reduce(op, x, relabel(n, m, k, s), extend(s, e, k), length(s)),
         doc="A transpose or broadcast after a reduction is only another index map."),
    rule("reduce_of_broadcast", reduce(op, view(x, m, s), n, e, k),
         reduce(op, x, renumber_present(compose(n, m), e, k), present_extents(compose(n, m), e, k), k),
         when=idempotent(op) & only_nonempty_missing(compose(n, m), e, k), phase=SIMPLIFY,
         doc="The maximum of equal values is that value; along an empty axis it would be -infinity."),
    rule("reduce_of_unit_axes", reduce(op, x, n, e, k), view(x, drop_summed(n, k), take(e, k)),
         when=unit_reduction(e, k) & keeps_single(op), phase=SIMPLIFY, doc="Nothing to combine."),
    rule("sum_of_unit_axes_where_never_negative_zero", reduce("add", x, n, e, k),
         view(x, drop_summed(n, k), take(e, k)), when=unit_reduction(e, k) & not_negative_zero(x), phase=SIMPLIFY,
         doc="Nothing to add; a sum starts at +0 and so turns -0 into +0."),
    rule("sum_of_unit_axes", reduce("add", x, n, e, k), view(x, drop_summed(n, k), take(e, k)),
         when=unit_reduction(e, k), needs=REASSOCIATION, phase=SIMPLIFY,
         doc="The same where the sign of zero is free."),
))

joining = RuleSet((
    rule("join_idempotent_reductions", reduce(op, reduce(op, x, n, e, k), m, f, j),
         reduce(op, x, join_labels(n, k, m, f), extend(f, e, k), j),
         when=idempotent(op) & covers(join_labels(n, k, m, f), extend(f, e, k), j), phase=SIMPLIFY,
         doc="A maximum of maxima is one maximum, exactly."),
    rule("join_reductions", reduce(op, reduce(op, x, n, e, k), m, f, j),
         reduce(op, x, join_labels(n, k, m, f), extend(f, e, k), j),
         when=covers(join_labels(n, k, m, f), extend(f, e, k), j), needs=REASSOCIATION, phase=SIMPLIFY,
         doc="A sum of sums is one sum in another order."),
    rule("maximum_of_concatenation", reduce("maximum", concatenate(axis, x, y), n, e, k),
         maximum(reduce("maximum", x, n, part_extents(n, x, axis, e), k),
                 reduce("maximum", y, n, part_extents(n, y, axis, e), k)),
         when=summed_along(n, axis, k), doc="Reduce the parts where they are, without joining them."),
    rule("sum_of_concatenation", reduce("add", concatenate(axis, x, y), n, e, k),
         reduce("add", x, n, part_extents(n, x, axis, e), k) + reduce("add", y, n, part_extents(n, y, axis, e), k),
         when=summed_along(n, axis, k), needs=REASSOCIATION,
         doc="Reduce the parts where they are, without joining them."),
    rule("reduce_parts_of_concatenation", reduce(op, concatenate(axis, x, y), n, e, k),
         concatenate(axis_label(n, axis), reduce(op, x, n, part_extents(n, x, axis, e), k),
                     reduce(op, y, n, part_extents(n, y, axis, e), k)),
         when=kept_along(n, axis, k), doc="A reduction along other axes works on each part."),
))

linearity = RuleSet((
    rule("sum_of_sums", reduce("add", x + y, n, e, k), reduce("add", x, n, e, k) + reduce("add", y, n, e, k),
         needs=REASSOCIATION, bidirectional=True, doc="Splits or joins passes over data."),
    rule("difference_of_sums", reduce("add", x, n, e, k) - reduce("add", y, n, e, k), reduce("add", x - y, n, e, k),
         needs=REASSOCIATION, doc="One pass over data, and what cancels cancels before it is summed."),
    rule("sum_of_negation", reduce("add", -x, n, e, k), -reduce("add", x, n, e, k), needs=REASSOCIATION,
         bidirectional=True, doc="Only the sign of zero differs."),
    rule("sum_of_scaled", reduce("add", x * view(g, m, s), n, e, k),
         reduce("add", x, n, e, k) * view(g, compose(n, m), take(e, k)),
         when=kept(compose(n, m), k), needs=REASSOCIATION,
         doc="A factor that does not vary along the summed axes is applied once per sum."),
    rule("maximum_of_shifted", reduce("maximum", x + view(g, m, s), n, e, k),
         reduce("maximum", x, n, e, k) + view(g, compose(n, m), take(e, k)),
         when=kept(compose(n, m), k) & finite(g) & is_float(x),
         doc="Rounding keeps the order, so a finite shift moves out of a maximum exactly."),
    rule("maximum_of_scaled", reduce("maximum", x * view(g, m, s), n, e, k),
         reduce("maximum", x, n, e, k) * view(g, compose(n, m), take(e, k)),
         when=kept(compose(n, m), k) & positive(g) & finite(g) & is_float(x),
         doc="Rounding keeps the order, so a positive factor moves out of a maximum exactly: the scale of attention."),
    rule("maximum_of_negation", -reduce("maximum", x, n, e, k), reduce("minimum", -x, n, e, k), when=is_float(x),
         bidirectional=True, doc="Negation reverses the order."),
    rule("sum_of_sums_of_integers", reduce("add", x + y, n, e, k),
         reduce("add", x, n, e, k) + reduce("add", y, n, e, k),
         when=is_integer(x), bidirectional=True, doc="Integers wrap, so this is exact."),
))

REDUCTION = absorption + joining + linearity

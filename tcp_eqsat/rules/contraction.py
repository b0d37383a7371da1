"""Contractions: views absorbed, factors moved across, products regrouped, siblings merged.

A contraction sums products over labels: `lhs` and `rhs` map its operands' axes into one iteration space, whose first
`rank` labels are the result's axes. So every transposed, batched or broadcast form is one pattern.
"""

from __future__ import annotations

from dataclasses import dataclass

from tcp_eqsat.lang.dims import Size, equal
from tcp_eqsat.lang.tiers import REASSOCIATION
from tcp_eqsat.lang.types import Shape, TensorType
from tcp_eqsat.rules.attribute import AttributeFunction, Sort
from tcp_eqsat.rules.condition import ordered_originals, predicate
from tcp_eqsat.rules.maps import (
    INT,
    INTS,
    SHAPE,
    TENSOR,
    Labels,
    compose,
    cover,
    extend,
    kept,
    length,
    pull_back,
    relabel,
    shape_of,
    take,
    with_size,
)
from tcp_eqsat.rules.pattern import (
    Pattern,
    concatenate,
    contract,
    int_variables,
    labels_variables,
    reduce,
    shape_variables,
    slice_,
    variables,
    view,
)
from tcp_eqsat.rules.reduction import axis_label, kept_along, part_extents
from tcp_eqsat.rules.rule import Phase, Rule, RuleSet, rule

SIMPLIFY = Phase.SIMPLIFY

x, y, z, g = variables("x y z g")
a, b, c = variables("a b c")
u, v, w = variables("u v w")
lhs, rhs, m, n = labels_variables("lhs rhs m n")
e, e2, e3, f, s, s2, s3 = shape_variables("e e2 e3 f s s2 s3")
j, k, p, q = int_variables("j k p q")

absorption = RuleSet((
    rule("contract_absorbs_left_view", contract(view(x, m, s), y, lhs, rhs, e, k),
         contract(x, y, compose(lhs, m), rhs, e, k),
         when=cover(compose(lhs, m), rhs, e, k), phase=SIMPLIFY,
         doc="A transpose or broadcast of an operand is only another index map."),
    rule("contract_absorbs_right_view", contract(x, view(y, m, s), lhs, rhs, e, k),
         contract(x, y, lhs, compose(rhs, m), e, k),
         when=cover(lhs, compose(rhs, m), e, k), phase=SIMPLIFY,
         doc="A transpose or broadcast of an operand is only another index map."),
    rule("view_absorbed_by_contract", view(contract(x, y, lhs, rhs, e, k), m, s),
         contract(x, y, relabel(lhs, m, k, s), relabel(rhs, m, k, s), extend(s, e, k), length(s)),
         doc="A transpose of the result is only another index map: (AB)^T = B^T A^T."),
    rule("commute_contract", contract(x, y, lhs, rhs, e, k), contract(y, x, rhs, lhs, e, k),
         doc="Which operand comes first does not matter."),
    rule("sum_of_product", reduce("add", x * y, lhs, e, k), contract(x, y, lhs, lhs, e, k), needs=REASSOCIATION,
         bidirectional=True, doc="A sum of products is a contraction, which may fuse multiply and add."),
))

# Factors --------------------------------------------------------------------------------------------------------------

scaling = RuleSet((
    rule("scale_out_of_contract", contract(x * view(g, m, s), y, lhs, rhs, e, k),
         contract(x, y, lhs, rhs, e, k) * view(g, compose(lhs, m), take(e, k)),
         when=kept(compose(lhs, m), k), needs=REASSOCIATION,
         doc="A factor that does not vary along summed axes is applied to the result: after a softmax, or a constant."),
    rule("scale_into_contract", contract(x, y, lhs, rhs, e, k) * view(g, m, s),
         contract(x * view(g, pull_back(m, lhs), shape_of(x)), y, lhs, rhs, e, k), needs=REASSOCIATION,
         doc="A factor of the result is applied to an operand: into weights, where it folds."),
    rule("scale_across_contract", contract(x * view(g, m, s), y, lhs, rhs, e, k),
         contract(x, y * view(g, pull_back(compose(lhs, m), rhs), shape_of(y)), lhs, rhs, e, k), needs=REASSOCIATION,
         doc="A factor along summed axes moves to the other operand: a normalisation's scale into the weights."),
    rule("negation_out_of_contract", contract(-x, y, lhs, rhs, e, k), -contract(x, y, lhs, rhs, e, k),
         needs=REASSOCIATION, bidirectional=True, doc="Only the sign of zero differs."),
))

linearity = RuleSet((
    rule("distribute_contract_over_add", contract(x + y, z, lhs, rhs, e, k),
         contract(x, z, lhs, rhs, e, k) + contract(y, z, lhs, rhs, e, k), needs=REASSOCIATION, bidirectional=True,
         doc="Two contractions with one operand become one, or a cheap part is split off: (W + AB)v."),
    rule("difference_of_contracts", contract(x, z, lhs, rhs, e, k) - contract(y, z, lhs, rhs, e, k),
         contract(x - y, z, lhs, rhs, e, k), needs=REASSOCIATION,
         doc="Two contractions with one operand become one, and what cancels cancels before it is summed."),
))

# (x y) z = x (y z) --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Regrouped:
    """x (y z): the inner contraction of y and z, and the outer one of x with it."""

    inner: tuple[Labels, Labels, Shape, int]
    outer: tuple[Labels, Labels, Shape, int]


def _renumbered(labels: Labels, order: list[int]) -> Labels:
    return tuple(order.index(label) if label >= 0 else -1 for label in labels)


def _regroup(lhs: Labels, rhs: Labels, extents: Shape, rank: int, left: Labels, right: Labels, space: Shape,
             kept: int) -> _Regrouped | None:
    """The other bracketing of contract(contract(x, y, lhs, rhs, extents, rank), z, left, right, space, kept).

    All labels are numbered in one iteration space: the outer one, then what the inner one sums. None where y and z
    have nothing to sum between them, or a summed label is only a broadcast.
    """
    together = (*space, *extents[rank:])

    def outer(labels: Labels) -> Labels:
        return tuple(label if label < 0 else left[label] if label < rank else label - rank + len(space)
                     for label in labels)

    of_x, of_y, of_z = outer(lhs), outer(rhs), right
    summed = set(range(kept, len(together)))
    if not summed <= {*of_x, *of_y, *of_z}:
        return None
    inside = sorted(label for label in summed if label not in of_x)
    if not inside:
        return None
    result = sorted(label for label in {*of_y, *of_z} if label >= 0 and label not in inside)
    inner_order = [*result, *inside]
    outer_order = [*range(kept), *sorted(summed - set(inside))]
    return _Regrouped(
        (_renumbered(of_y, inner_order), _renumbered(of_z, inner_order),
         tuple(together[label] for label in inner_order), len(result)),
        (_renumbered(of_x, outer_order), tuple(outer_order.index(label) for label in result),
         tuple(together[label] for label in outer_order), kept))


_SORTS = (INTS, INTS, SHAPE, INT, INTS, INTS, SHAPE, INT)
_PARTS = (("lhs", INTS), ("rhs", INTS), ("extents", SHAPE), ("rank", INT))


def _part(which: str, index: int) -> AttributeFunction:
    name, result = _PARTS[index]

    def meaning(*arguments: object) -> object:
        found = _regroup(*arguments)  # type: ignore[arg-type]
        return None if found is None else getattr(found, which)[index]

    return AttributeFunction(f"regrouped_{which}_{name}", _SORTS, result, meaning,
                             f"The {name} of the {which} contraction when (x y) z is bracketed as x (y z).")


_INNER = tuple(_part("inner", index) for index in range(4))
_OUTER = tuple(_part("outer", index) for index in range(4))
_both = (lhs, rhs, e, k, m, n, f, j)

grouping = RuleSet((
    rule("associate_contract", contract(contract(x, y, lhs, rhs, e, k), z, m, n, f, j),
         contract(x, contract(y, z, *(part(*_both) for part in _INNER)), *(part(*_both) for part in _OUTER)),
         needs=REASSOCIATION, doc="(AB)C = A(BC), batched and transposed forms included."),
))

# Concatenations -------------------------------------------------------------------------------------------------------


@predicate(INTS, INTS, INT, INT, TENSOR, TENSOR, INT)
def blocks_meet(lhs: Labels, rhs: Labels, left: int, right: int, first: TensorType, other: TensorType,
                rank: int) -> bool:
    """Both axes run along one summed label and are cut at the same place."""
    return (lhs[left] == rhs[right] and lhs[left] >= rank
            and equal(first.shape[left], other.shape[right]))


@predicate(INTS, INTS, INT)
def only_right(lhs: Labels, rhs: Labels, axis: int) -> bool:
    """The right operand's axis runs along a label that the left operand lacks."""
    return rhs[axis] not in lhs


blocks = RuleSet((
    rule("contract_of_blocks", contract(concatenate(p, x, y), concatenate(q, a, b), lhs, rhs, e, k),
         contract(x, a, lhs, rhs, part_extents(lhs, x, p, e), k)
         + contract(y, b, lhs, rhs, part_extents(lhs, y, p, e), k),
         when=blocks_meet(lhs, rhs, p, q, x, a, k), needs=REASSOCIATION,
         doc="[A|B][C;D] = AC + BD: neither concatenation is built."),
    rule("contract_with_concatenation", contract(x, concatenate(q, a, b), lhs, rhs, e, k),
         concatenate(axis_label(rhs, q), contract(x, a, lhs, rhs, part_extents(rhs, a, q, e), k),
                     contract(x, b, lhs, rhs, part_extents(rhs, b, q, e), k)),
         when=kept_along(rhs, q, k) & only_right(lhs, rhs, q), doc="x[A|B] = [xA|xB]."),
))

# Siblings -------------------------------------------------------------------------------------------------------------


def _merge_axis(lhs: Labels, rhs: Labels, rank: int, spaces: tuple[Shape, ...]) -> int | None:
    """The right operand's axis along which siblings are joined: a free one, and the only one to differ in size."""
    first = spaces[0]
    if any(len(space) != len(first) for space in spaces):
        return None
    free = [axis for axis, label in enumerate(rhs) if 0 <= label < rank and label not in lhs]
    differ = {label for space in spaces[1:] for label, (have, want) in enumerate(zip(space, first, strict=True))
              if not equal(have, want)}
    if not free or len(differ) > 1:
        return None
    if not differ:
        return free[-1]
    return next((axis for axis in free if rhs[axis] in differ), None)


def _merged(lhs: Labels, rhs: Labels, rank: int, spaces: tuple[Shape, ...]) -> tuple[int, int, list[Size]] | None:
    """The axis and label along which siblings are joined, and where each begins and the last one ends."""
    axis = _merge_axis(lhs, rhs, rank, spaces)
    if axis is None:
        return None
    label = rhs[axis]
    bounds: list[Size] = [0]
    for space in spaces:
        bounds.append(bounds[-1] + space[label])
    return axis, label, bounds


@dataclass(frozen=True)
class _Siblings:
    """The attribute functions of a merge of `count` siblings."""

    axis: AttributeFunction
    extents: AttributeFunction
    starts: tuple[AttributeFunction, ...]
    limits: tuple[AttributeFunction, ...]
    steps: AttributeFunction


def _siblings(count: int) -> _Siblings:
    sorts = (INTS, INTS, INT, *(SHAPE,) * count)

    def function(name: str, result: Sort, meaning: object, doc: str) -> AttributeFunction:
        def value(lhs: Labels, rhs: Labels, rank: int, *spaces: Shape) -> object:
            found = _merged(lhs, rhs, rank, spaces)
            return None if found is None else meaning(found, rank, spaces)  # type: ignore[operator]

        return AttributeFunction(f"{name}_of_{count}", sorts, result, value, doc)

    def cut(number: int) -> tuple[AttributeFunction, AttributeFunction]:
        return (
            function(f"start_{number}", SHAPE, lambda found, rank, spaces: with_size(
                (0,) * rank, found[1], found[2][number]), f"Where sibling {number} begins in the joined result."),
            function(f"limit_{number}", SHAPE, lambda found, rank, spaces: with_size(
                spaces[0][:rank], found[1], found[2][number + 1]), f"Where sibling {number} ends."))

    starts, limits = zip(*map(cut, range(count)), strict=True)
    return _Siblings(
        function("joined_axis", INT, lambda found, rank, spaces: found[0], "The axis along which siblings are joined."),
        function("joined_extents", SHAPE, lambda found, rank, spaces: with_size(spaces[0], found[1], found[2][-1]),
                 "The extents of the joined contraction."),
        starts, limits,
        function("joined_steps", INTS, lambda found, rank, spaces: (1,) * rank, "Steps of 1."))


def _bias_axis(count: int) -> AttributeFunction:
    """The axis of the siblings' biases that runs along the joined label; none where the biases do not."""

    def value(along: Labels, lhs: Labels, rhs: Labels, rank: int, *spaces: Shape) -> int | None:
        found = _merged(lhs, rhs, rank, spaces)
        return None if found is None or found[1] not in along else along.index(found[1])

    return AttributeFunction(f"bias_axis_of_{count}", (INTS, INTS, INTS, INT, *(SHAPE,) * count), INT, value,
                             "The axis along which the siblings' biases are joined.")


def _merges(count: int, word: str) -> tuple[Rule, Rule]:
    """The rules that merge `count` siblings, without and with biases."""
    names, spaces, biases = (a, b, c)[:count], (e, e2, e3)[:count], (u, v, w)[:count]
    sibling, shapes = _siblings(count), (lhs, rhs, k, *(e, e2, e3)[:count])
    parts = tuple(contract(x, weight, lhs, rhs, space, k) for weight, space in zip(names, spaces, strict=True))
    extents = sibling.extents(*shapes)
    joined = contract(x, concatenate(sibling.axis(*shapes), *names), lhs, rhs, extents, k)
    given = ordered_originals(*names)
    for each in biases:
        given = given & ordered_originals(each)
    bias = view(concatenate(_bias_axis(count)(m, *shapes), *biases), m, take(extents, k))

    def cut(whole: Pattern) -> tuple[Pattern, ...]:
        return tuple(slice_(whole, start(*shapes), limit(*shapes), sibling.steps(*shapes))
                     for start, limit in zip(sibling.starts, sibling.limits, strict=True))

    return (
        rule(f"merge_{word}_siblings", parts, cut(joined), when=ordered_originals(*names),
             doc="x@A and x@B are parts of x@[A|B]: x is read once, and constant weights are joined in advance."),
        rule(f"merge_{word}_biased_siblings",
             tuple(part + view(each, m, shape)
                   for part, each, shape in zip(parts, biases, (s, s2, s3), strict=False)),
             cut(joined + bias), when=given,
             doc="The same with biases, so that one kernel computes q, k and v of an attention block."))


siblings = RuleSet((*_merges(2, "two"), *_merges(3, "three")))

CONTRACTION = absorption + scaling + linearity + grouping + blocks + siblings

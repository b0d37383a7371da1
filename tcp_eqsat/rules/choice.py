"""Comparison, choice, bits and conversion."""

from __future__ import annotations

from tcp_eqsat.lang.scalar import scalar_op_named
from tcp_eqsat.lang.tiers import FINITE_ONLY, REASSOCIATION
from tcp_eqsat.lang.types import DTYPES, TensorType
from tcp_eqsat.rules.attribute import Sort
from tcp_eqsat.rules.condition import Condition, predicate
from tcp_eqsat.rules.facts import is_float, not_nan, not_negative_zero
from tcp_eqsat.rules.functions import (
    bitwise_and,
    bitwise_invert,
    bitwise_or,
    bitwise_xor,
    equal,
    greater,
    greater_equal,
    isfinite,
    isnan,
    less,
    less_equal,
    maximum,
    minimum,
    not_equal,
    where,
)
from tcp_eqsat.rules.pattern import TensorVariable, apply, variables
from tcp_eqsat.rules.rule import Phase, RuleSet, rule

SIMPLIFY = Phase.SIMPLIFY

x, y, z, p, q = variables("x y z p q")

choices = RuleSet((
    rule("choose_equal", where(p, x, x), x, phase=SIMPLIFY, doc="Both branches are the same."),
    rule("choose_by_negation", where(bitwise_invert(p), x, y), where(p, y, x), phase=SIMPLIFY,
         doc="Swapped branches instead of a negated condition."),
    rule("choose_then_choose_left", where(p, where(p, x, y), z), where(p, x, z), phase=SIMPLIFY,
         doc="The inner choice is decided."),
    rule("choose_then_choose_right", where(p, x, where(p, y, z)), where(p, x, z), phase=SIMPLIFY,
         doc="The inner choice is decided."),
    rule("choose_nested", where(p, where(q, x, y), y), where(bitwise_and(p, q), x, y), phase=SIMPLIFY,
         doc="One choice instead of two."),
    rule("choose_truth", where(p, True, False), p, phase=SIMPLIFY, doc="The condition itself, for results of bool."),
    rule("maximum_from_choice_where_ordered", where(greater_equal(x, y), x, y), maximum(x, y),
         when=not_nan(x) & not_negative_zero(x), phase=SIMPLIFY,
         doc="A NaN in x would lose the comparison, and -0 would win its tie with +0; a NaN in y is chosen."),
    rule("maximum_from_choice", where(greater(x, y), x, y), maximum(x, y), needs=REASSOCIATION | FINITE_ONLY,
         phase=SIMPLIFY, doc="The same where values are finite and the sign of zero is free."),
    rule("maximum_from_choice_or_tie", where(greater_equal(x, y), x, y), maximum(x, y),
         needs=REASSOCIATION | FINITE_ONLY, phase=SIMPLIFY, doc="The same with ties to the first."),
    rule("minimum_from_choice", where(less(x, y), x, y), minimum(x, y), needs=REASSOCIATION | FINITE_ONLY,
         phase=SIMPLIFY, doc="The same for the minimum."),
    rule("minimum_from_choice_or_tie", where(less_equal(x, y), x, y), minimum(x, y),
         needs=REASSOCIATION | FINITE_ONLY, phase=SIMPLIFY, doc="The same with ties to the first."),
))

comparisons = RuleSet((
    rule("turn_less", less(x, y), greater(y, x), bidirectional=True, doc="The same comparison read backwards."),
    rule("turn_less_equal", less_equal(x, y), greater_equal(y, x), bidirectional=True,
         doc="The same comparison read backwards."),
    rule("not_equal_from_equal", bitwise_invert(equal(x, y)), not_equal(x, y), phase=SIMPLIFY,
         doc="NaN is unequal to everything, so this is exact."),
    rule("equal_from_not_equal", bitwise_invert(not_equal(x, y)), equal(x, y), phase=SIMPLIFY,
         doc="NaN is unequal to everything, so this is exact."),
    rule("not_less_where_ordered", bitwise_invert(less(x, y)), greater_equal(x, y), when=not_nan(x) & not_nan(y),
         phase=SIMPLIFY, doc="With NaN both comparisons are false."),
    rule("equal_to_self_where_ordered", equal(x, x), True, when=not_nan(x), phase=SIMPLIFY,
         doc="Only NaN is unequal to itself."),
    rule("less_than_self", less(x, x), False, phase=SIMPLIFY, doc="Never, NaN included."),
    rule("isnan_where_never", isnan(x), False, when=not_nan(x), phase=SIMPLIFY, doc="Known from structure."),
    rule("isnan_from_comparison", not_equal(x, x), isnan(x), when=is_float(x), phase=SIMPLIFY,
         doc="The idiom by name."),
    rule("isfinite_of_negation", isfinite(-x), isfinite(x), phase=SIMPLIFY, doc="The sign does not matter."),
))

bits = RuleSet((
    rule("invert_inversion", bitwise_invert(bitwise_invert(x)), x, phase=SIMPLIFY, doc="All bits flipped twice."),
    rule("and_of_self", bitwise_and(x, x), x, phase=SIMPLIFY, doc="Idempotent."),
    rule("or_of_self", bitwise_or(x, x), x, phase=SIMPLIFY, doc="Idempotent."),
    rule("xor_of_self", bitwise_xor(x, x), 0, phase=SIMPLIFY, doc="Equal bits cancel."),
    rule("invert_and", bitwise_invert(bitwise_and(x, y)), bitwise_or(bitwise_invert(x), bitwise_invert(y)),
         bidirectional=True, doc="De Morgan."),
))


def _has_dtype(x: TensorVariable, name: str) -> Condition:
    def meaning(found: TensorType) -> bool:
        return found.dtype.name == name

    meaning.__name__ = f"is_{name}"
    return predicate(Sort.TENSOR)(meaning)(x)


conversions = RuleSet(
    rule(f"convert_to_same_{name}", apply(scalar_op_named(f"astype_{name}"), x), x, when=_has_dtype(x, name),
         phase=SIMPLIFY, doc="A conversion to the dtype that the value has.")
    for name in DTYPES)

CHOICE = choices + comparisons + bits + conversions

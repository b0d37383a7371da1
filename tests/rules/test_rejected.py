"""Rules that look right and are not, some of them shipped by other systems. The check must refuse each."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tcp_eqsat.errors import RuleError
from tcp_eqsat.lang.dims import equal as same_size
from tcp_eqsat.lang.tiers import REASSOCIATION, permissions
from tcp_eqsat.rules import (
    concatenate,
    contract,
    int_variables,
    labels_variables,
    monoid_variables,
    pad,
    reduce,
    shape_variables,
    slice_,
    strides_variables,
    variables,
    view,
)
from tcp_eqsat.rules.attribute import Sort
from tcp_eqsat.rules.check import check, check_fact, rejected
from tcp_eqsat.rules.condition import Condition, OrderedOriginals, predicate
from tcp_eqsat.rules.facts import FactRule, finite, nonnegative, not_nan, positive
from tcp_eqsat.rules.functions import (
    bitwise_invert,
    cos,
    exp,
    greater,
    greater_equal,
    less,
    log,
    maximum,
    minimum,
    pow,
    sin,
    sqrt,
    where,
)
from tcp_eqsat.rules.library import everything
from tcp_eqsat.rules.maps import compose, idempotent, shape_of, take, unit_reduction
from tcp_eqsat.rules.reduction import drop_summed, present_extents, renumber_present
from tcp_eqsat.rules.verdict import Outcome

x, y, z, a, b, v = variables("x y z a b v")
lhs, rhs, m, n = labels_variables("lhs rhs m n")
steps, steps2 = strides_variables("steps steps2")
e, f, s, t, starts, limits = shape_variables("e f s t starts limits")
j, k, p, q = int_variables("j k p q")
(op,) = monoid_variables("op")
nan, inf = float("nan"), float("inf")


@predicate(Sort.SHAPE)
def starts_at_zero(places):
    """A guard that looks at half of what it has to know."""
    return all(same_size(place, 0) for place in places)


SCALAR = (
    rejected("divide_self", x / x, 1, witness={"x": 0.0}),
    rejected("multiply_by_zero", x * 0, 0, witness={"x": inf}),
    rejected("add_zero", x + 0, x, witness={"x": -0.0}),
    rejected("maximum_from_choice", where(greater_equal(x, y), x, y), maximum(x, y), witness={"x": nan, "y": 1.0}),
    rejected("relu_from_choice", where(greater(x, 0), x, 0), maximum(x, 0), witness={"x": nan}),
    rejected("sine_of_sum_with_wrong_pairs", sin(x) * cos(y) + cos(y) * sin(x), sin(x + y),
             witness={"x": 1.0, "y": 2.0}, needs=REASSOCIATION),
    rejected("multiply_then_divide", (x * y) / y, x, witness={"x": 1.0, "y": 0.0}, needs=REASSOCIATION),
    rejected("add_then_subtract", (x + y) - y, x, witness={"x": 1.0, "y": 1e30}),
    rejected("associate_add", (x + y) + z, x + (y + z), witness={"x": 1e30, "y": -1e30, "z": 1.0}),
    rejected("negate_difference", -(x - y), y - x, witness={"x": 1.0, "y": 1.0}),
    rejected("root_of_square", sqrt(x * x), where(less(x, 0), -x, x), witness={"x": 1e30}),
    rejected("root_of_product", sqrt(x * y), sqrt(x) * sqrt(y), witness={"x": -1.0, "y": -1.0}, needs=REASSOCIATION),
    rejected("logarithm_of_product", log(x * y), log(x) + log(y), witness={"x": -1.0, "y": -1.0},
             needs=REASSOCIATION),
    rejected("add_quotients", x / z + y / z, (x + y) / z, witness={"x": 1.0, "y": -2.0, "z": 0.0},
             needs=REASSOCIATION),
    rejected("power_half", pow(x, 0.5), sqrt(x), witness={"x": -inf}),
    rejected("not_less", bitwise_invert(less(x, y)), greater_equal(x, y), witness={"x": nan, "y": 1.0}),
    rejected("absorb_maximum", maximum(x, minimum(x, y)), x, witness={"x": 1.0, "y": nan}),
    rejected("maximum_of_sums", maximum(x + z, y + z), maximum(x, y) + z,
             witness={"x": 1.0, "y": -inf, "z": inf}, when=not_nan(x) & not_nan(y) & not_nan(z)),
    rejected("scale_out_of_maximum", maximum(x * z, y * z), maximum(x, y) * z, witness={"x": 1.0, "y": 2.0, "z": -1.0},
             when=finite(z)),
    rejected("halve_then_double", (x * 0.5) * 2, x, witness={"x": 1e-45}),
    rejected("exponential_of_logarithm", exp(log(x)), x, witness={"x": -1.0}, needs=REASSOCIATION),
    rejected("quotient_of_negations_of_integers", -x / -y, x / y),
    rejected("double_of_integers", (x + x) / 2, x, needs=REASSOCIATION),
)

STRUCTURAL = (
    rejected("compose_views_the_wrong_way", view(view(x, m, s), n, t), view(x, compose(m, n), t)),
    rejected("reduce_absorbs_any_view", reduce(op, view(x, m, s), n, e, k), reduce(op, x, compose(n, m), e, k)),
    rejected("maximum_of_broadcast_along_nothing", reduce(op, view(x, m, s), n, e, k),
             reduce(op, x, renumber_present(compose(n, m), e, k), present_extents(compose(n, m), e, k), k),
             when=idempotent(op)),
    rejected("sum_of_unit_axes", reduce("add", x, n, e, k), view(x, drop_summed(n, k), take(e, k)),
             when=unit_reduction(e, k)),
    rejected("double_out_of_sum", reduce("add", 2 * x, n, e, k), 2 * reduce("add", x, n, e, k)),
    rejected("triple_out_of_sum", reduce("add", 3 * x, n, e, k), 3 * reduce("add", x, n, e, k)),
    rejected("maximum_of_products", reduce("maximum", x * y, n, e, k),
             reduce("maximum", x, n, e, k) * reduce("maximum", y, n, e, k), needs=REASSOCIATION),
    rejected("sum_of_product_exactly", reduce("add", x * y, n, e, k), contract(x, y, n, n, e, k)),
    rejected("distribute_contract_exactly", contract(x + y, z, lhs, rhs, e, k),
             contract(x, z, lhs, rhs, e, k) + contract(y, z, lhs, rhs, e, k)),
    rejected("contract_of_any_blocks", contract(concatenate(p, x, y), concatenate(q, a, b), lhs, rhs, e, k),
             contract(x, a, lhs, rhs, e, k) + contract(y, b, lhs, rhs, e, k), needs=REASSOCIATION),
    rejected("merge_siblings_along_axis_0", (contract(x, a, lhs, rhs, e, k), contract(x, b, lhs, rhs, e, k)),
             (contract(x, b, lhs, rhs, e, k), contract(x, a, lhs, rhs, e, k))),
    rejected("slice_that_starts_at_zero", slice_(x, starts, limits, steps), x, when=starts_at_zero(starts)),
    rejected("pad_moves_nothing", pad(x, v, s, t), x),
    rejected("view_by_shape_only", view(x, m, s), view(x, m, shape_of(x))),
)


@pytest.mark.parametrize("case", SCALAR + STRUCTURAL, ids=lambda case: case.rule.name)
def test_is_refused(case):
    verdict = case.verify()
    assert verdict.outcome is Outcome.FAILS
    assert verdict.counterexamples and "counterexample" in str(verdict)


NOT_SHOWN = {
    "divide_by_constant",            # the reciprocal of a subnormal constant overflows
    "power_one", "power_half",       # compiled functions need not be exact; infinities are only left out
    "concatenation_through_binary",  # comparisons of parts of different dtypes are rarely drawn
}


def _claims():
    """Every rule without one part of its condition, or without one of the permissions it needs."""
    for each in everything:
        if each.name in NOT_SHOWN:
            continue
        for part in each.condition.parts:
            if not isinstance(part, OrderedOriginals):
                rest = Condition(tuple(x for x in each.condition.parts if x != part))
                yield pytest.param(replace(each, condition=rest), id=f"{each.name}-{part}")
        for permission in each.needs:
            fewer = each.needs - permissions(permission)
            yield pytest.param(replace(each, needs=fewer), id=f"{each.name}-{permission.value}")


@pytest.mark.parametrize("weakened", list(_claims()))
def test_everything_a_rule_asks_for_is_needed(weakened):
    assert any(check(weakened, seed=seed).outcome is Outcome.FAILS for seed in range(10))


@pytest.mark.parametrize("wrong", [
    FactRule("exp_is_positive", positive, exp(x)),
    FactRule("square_of_integer", nonnegative, x * x),
    FactRule("product_of_ordered", not_nan, x * y, not_nan(x) & not_nan(y)),
    FactRule("finite_sum", finite, x + y, finite(x) & finite(y)),
    FactRule("maximum_of_nothing", finite, reduce("maximum", x, m, e, k), finite(x)),
], ids=lambda wrong: wrong.name)
def test_wrong_fact_is_refused(wrong):
    with pytest.raises(RuleError, match=r"is wrong"):
        check_fact(wrong)


def test_a_right_rule_is_not_accepted_as_rejected():
    with pytest.raises(RuleError, match="must be refused"):
        rejected("commute", x + y, y + x).verify()


def test_a_witness_must_show_the_difference():
    with pytest.raises(RuleError, match="does not fail on"):
        rejected("add_zero", x + 0, x, witness={"x": 1.0}).verify()

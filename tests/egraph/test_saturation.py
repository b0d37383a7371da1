"""Rules in the e-graph: what matches, what is added, what limits do. The rules here are made for the tests."""

import re

import numpy as np
import pytest
from egraph_programs import arrays, close, disagreements, evaluate_classes, identical, program

from tcp_eqsat.egraph import EGraphError, Stage, StopReason, saturate
from tcp_eqsat.egraph import saturation as saturation_module
from tcp_eqsat.egraph.compile_rules import compile_rule
from tcp_eqsat.errors import RuleError
from tcp_eqsat.frontends import array_api as xp
from tcp_eqsat.frontends.tracing import trace
from tcp_eqsat.lang.budget import Budget
from tcp_eqsat.lang.reference import evaluate
from tcp_eqsat.lang.tiers import EXACT, REASSOCIATE, REASSOCIATION
from tcp_eqsat.rules.attribute import Sort, attribute_function
from tcp_eqsat.rules.condition import ordered_originals, predicate
from tcp_eqsat.rules.facts import finite, nonnegative, not_negative_zero
from tcp_eqsat.rules.functions import abs as absolute
from tcp_eqsat.rules.functions import exp, maximum, square
from tcp_eqsat.rules.pattern import (
    Splat,
    concatenate,
    constant_variables,
    contract,
    full_like,
    int_variables,
    labels_variables,
    monoid_variables,
    reduce,
    scalar_operation,
    shape_variables,
    slice_,
    strides_variables,
    variables,
    view,
)
from tcp_eqsat.rules.rule import Phase, rule

BUDGET = Budget(seconds=60)
x, y, z, w = variables("x y z w")
m, p = labels_variables("m p")
a, b = labels_variables("a b")
s, r, e, f, g = shape_variables("s r e f g")
k, axis = int_variables("k axis")
c, d = constant_variables("c d")
(t,) = strides_variables("t")
(monoid,) = monoid_variables("monoid")
unary, binary = scalar_operation("unary", 1), scalar_operation("binary", 2)


@attribute_function(Sort.INTS, Sort.INTS, result=Sort.INTS)
def composed(outer, inner):
    """The index map `inner` followed by `outer`."""
    return tuple(-1 if label < 0 else outer[label] for label in inner)


@attribute_function(Sort.NUMBER, Sort.NUMBER, result=Sort.NUMBER)
def times(left, right):
    """The product of two numbers, where it is exact."""
    return left * right


@predicate(Sort.INTS, Sort.TENSOR, Sort.SHAPE)
def is_identity(labels, tensor, shape):
    """The view changes nothing."""
    return labels == tuple(range(len(shape))) and tensor.shape == shape


VIEW_VIEW = rule("view_of_view", view(view(x, m, r), p, s), view(x, composed(p, m), s), doc="One view.",
                 phase=Phase.SIMPLIFY)
VIEW_IDENTITY = rule("view_identity", view(x, m, s), x, when=is_identity(m, x, s), doc="Nothing.",
                     phase=Phase.SIMPLIFY)
COMMUTE_ADD = rule("commute_add", x + y, y + x, doc="Commutes.")
ASSOCIATE_ADD = rule("associate_add", (x + y) + z, x + (y + z), needs=REASSOCIATION, bidirectional=True, doc="Real.")
DISTRIBUTE = rule("distribute", x * (y + z), x * y + x * z, needs=REASSOCIATION, bidirectional=True, doc="Real.")
COMMUTE_MULTIPLY = rule("commute_multiply", x * y, y * x, doc="Commutes.")


def run(function, *rules, numerics=EXACT, budget=BUDGET, specs=("f32[b, 3]",)):
    """Saturation of a Python function under rules, and its program."""
    traced = trace(function, *specs).main
    return saturate(traced, rules, numerics, budget, strict=True), traced


def same_class(found, first=0, second=1):
    return found.view.roots[first] == found.view.roots[second]


def test_a_rule_with_computed_attributes_unites_both_sides():
    found, _ = run(
        lambda v: (xp.permute_dims(xp.permute_dims(v, (1, 0)), (1, 0)), v), VIEW_VIEW, VIEW_IDENTITY)
    assert same_class(found)
    assert found.report.stop_reason is StopReason.SATURATED
    assert found.report.matches.keys() == {"view_of_view", "view_identity"}
    (identity,) = [x for x in found.report.rules if x.name == "view_identity"]
    assert (identity.asked, identity.declined) == (4, 2)  # two flips, two identities


def test_rules_of_permissions_not_granted_are_not_loaded():
    def sums(v):
        return (v + xp.exp(v)) + xp.tanh(v), v + (xp.exp(v) + xp.tanh(v))

    assert not same_class(run(sums, ASSOCIATE_ADD)[0])
    assert [x.name for x in run(sums, ASSOCIATE_ADD)[0].report.rules] == []
    assert same_class(run(sums, ASSOCIATE_ADD, numerics=REASSOCIATE)[0])


def test_both_directions_of_a_bidirectional_rule_are_named():
    found, _ = run(lambda v: (v + v) + v, ASSOCIATE_ADD, numerics=REASSOCIATE)
    assert [x.name for x in found.report.rules] == ["associate_add", "associate_add_reversed"]


def test_a_number_is_matched_by_its_bits_however_it_is_built():
    drop = rule("add_minus_zero", x + (-0.0), x, doc="Neutral.")
    assert same_class(run(lambda v: (v + (-0.0), v), drop)[0])
    assert not same_class(run(lambda v: (v + 0.0, v), drop)[0])
    full = np.full((2, 3), -0.0, np.float32)
    assert same_class(run(lambda v: (v + full, v), drop, specs=("f32[2, 3]",))[0])
    assert same_class(run(lambda v: (v + xp.multiply(full, 1.0), v), drop, specs=("f32[2, 3]",))[0])


def test_a_number_that_the_dtype_cannot_hold_does_not_match():
    halve = rule("halves", x * 0.5, x, doc="Not a real rule.")
    found, _ = run(lambda v: (v * 2, v), halve, specs=("i32[b]",))
    assert not same_class(found)


def test_number_variables_are_computed_in_their_dtype():
    merge = rule("merge_scales", (x * c) * d, x * Splat(times(c, d)), needs=REASSOCIATION, doc="One multiply.")
    found, _ = run(lambda v: ((v * 0.1) * 0.7, v * (np.float32(0.1) * np.float32(0.7))), merge, numerics=REASSOCIATE)
    assert same_class(found)


def test_the_same_number_variable_twice_is_the_same_number():
    twice = rule("twice", x * c + y * c, (x + y) * c, needs=REASSOCIATION, doc="Real.")
    sums = [run(lambda v, n=n: (v * 3.0 + xp.exp(v) * n, (v + xp.exp(v)) * 3.0), twice, numerics=REASSOCIATE)[0]
            for n in (3.0, 4.0)]
    assert same_class(sums[0]) and not same_class(sums[1])


def test_a_splat_of_the_replacement_has_the_place_of_its_like():
    cancel = rule("subtract_itself", x - x, full_like(x, 0), when=finite(x), doc="Zero.")
    double = rule("double", x + x, x * 2, doc="Two.")
    found, function = run(lambda v: (xp.sin(3.0) * v, xp.exp(v) + xp.exp(v), xp.exp(v) * 2.0), cancel, double)
    assert same_class(found, 1, 2)
    assert not disagreements(found.view, arrays(function, 3, nasty=True), identical)


def test_operation_variables_stand_for_any_scalar_operation():
    move = rule("map_of_view", unary(view(x, m, s)), view(unary(x), m, s), doc="Structure.", bidirectional=True)
    both = rule("map_of_views", binary(view(x, m, s), view(y, m, s)), view(binary(x, y), m, s), doc="Structure.")

    def transposed(v):
        flip = (1, 0)
        return (xp.exp(xp.permute_dims(v, flip)), xp.permute_dims(xp.exp(v), flip),
                xp.permute_dims(v, flip) > xp.permute_dims(xp.sin(v), flip), xp.permute_dims(v > xp.sin(v), flip))

    found, function = run(transposed, move, both)
    assert same_class(found) and same_class(found, 2, 3)
    assert not disagreements(found.view, arrays(function, 4, nasty=True), identical)


def test_an_instance_that_does_not_type_is_declined_or_an_error():
    wrong = rule("wrong_map", view(view(x, m, r), p, s), view(x, composed(m, p), s), doc="Composes backwards.")

    def flips(v):
        return xp.permute_dims(xp.permute_dims(v, (1, 2, 0)), (0, 2, 1))

    traced = trace(flips, "f32[2, 3, 4]").main
    found = saturate(traced, (wrong,), EXACT, BUDGET)
    assert found.report.rules[0].declined == found.report.rules[0].asked == 1
    with pytest.raises(RuleError, match="wrong_map is ill-typed"):
        saturate(traced, (wrong,), EXACT, BUDGET, strict=True)


@pytest.mark.parametrize("tested", ["condition", "attribute", "type"])
def test_what_a_rule_raises_names_the_rule(tested):
    @predicate(Sort.TENSOR)
    def failing(tensor):
        """Raises."""
        raise ValueError("no idea")

    @attribute_function(Sort.INTS, result=Sort.INTS)
    def turned(labels):
        """Raises, or gives what is no label."""
        return (0.5, 1) if tested == "type" else (labels[2],)

    faulty = (rule("faulty", x + y, y + x, when=failing(x), doc="Fails.") if tested == "condition" else
              rule("faulty", view(x, m, s), view(x, turned(m), s), doc="Fails."))
    with pytest.raises(RuleError, match=r"rule faulty failed on .*(ValueError: no idea|IndexError|TypeError)"):
        run(lambda v: xp.permute_dims(v, (1, 0)) + 1.0, faulty)


def test_facts_follow_from_structure_and_constants():
    drop = rule("abs_of_nonnegative", absolute(x), x, when=nonnegative(x) & not_negative_zero(x), doc="Nothing.")
    table = np.array([1.0, 2.5, 0.0], np.float32)
    assert same_class(run(lambda v: (xp.abs(xp.exp(v) + table), xp.exp(v) + table), drop)[0])
    assert same_class(run(lambda v: (xp.abs(xp.exp(v) * 2.0 + 1.0), xp.exp(v) * 2.0 + 1.0), drop)[0])
    assert not same_class(run(lambda v: (xp.abs(xp.exp(v) + -table), xp.exp(v) + -table), drop)[0])
    assert not same_class(run(lambda v: (xp.abs(v), v), drop)[0])


def test_facts_of_matched_numbers():
    drop = rule("maximum_with_negative", maximum(exp(x), c), exp(x), when=finite(c) & below_zero(c), doc="No effect.")
    assert same_class(run(lambda v: (xp.maximum(xp.exp(v), -1.0), xp.exp(v)), drop)[0])
    assert not same_class(run(lambda v: (xp.maximum(xp.exp(v), 1.0), xp.exp(v)), drop)[0])
    assert not same_class(run(lambda v: (xp.maximum(xp.exp(v), -np.inf), xp.exp(v)), drop)[0])


@predicate(Sort.NUMBER)
def below_zero(number):
    """The number is negative."""
    return bool(number < 0)


def test_no_fact_names_a_variable_twice():
    """egglog 13 matches deleted rows where two columns of one row must be equal."""
    both = rule("both", contract(x * x, y, m, m, e, k), contract(x * x, y, m, m, e, k), doc="Repeats on purpose.")
    (compiled,) = compile_rule(both)
    body = compiled.whole.applying[-1]
    assert body.count("value-eq") == 2
    for fact in re.findall(r"\(= \S+ \((?:Map2|Contract) [^()]*\)\)", body.split("union")[0]):
        names = re.findall(r"\?\w+", fact)
        assert len(names) == len(set(names)), fact


# Rules with several roots, any number of operands ------------------------------------------------------------------


@attribute_function(Sort.TENSOR, Sort.INT, result=Sort.SHAPE)
def zeros_of(tensor, rank):
    """The start of a slice."""
    return (0,) * len(tensor.shape)


@attribute_function(Sort.SHAPE, Sort.SHAPE, result=Sort.SHAPE)
def last_added(left, right):
    """Shapes joined along the last axis of the iteration space before the contracted one."""
    return (left[0], left[1] + right[1], left[2]) if left[0] == right[0] and left[2] == right[2] else None


@attribute_function(Sort.SHAPE, Sort.SHAPE, Sort.INT, result=Sort.SHAPE)
def part(left, right, which):
    """Bounds of a part of a matrix of two joined column blocks."""
    return {0: (0, 0), 1: (left[0], left[1]), 2: (0, left[1]), 3: (left[0], left[1] + right[1])}[which]


MERGE = rule(
    "merge_products",
    (contract(x, y, (0, 2), (2, 1), e, 2), contract(x, z, (0, 2), (2, 1), f, 2)),
    (slice_(contract(x, concatenate(1, y, z), (0, 2), (2, 1), last_added(e, f), 2), part(e, f, 0), part(e, f, 1),
            (1, 1)),
     slice_(contract(x, concatenate(1, y, z), (0, 2), (2, 1), last_added(e, f), 2), part(e, f, 2), part(e, f, 3),
            (1, 1))),
    when=ordered_originals(y, z), doc="One product for two.")


def test_a_rule_with_two_roots_adds_one_shared_value_and_stops():
    def siblings(v, first, second):
        return v @ first, v @ second

    found, function = run(siblings, MERGE, specs=("f64[b, 4]", "f64[4, 3]", "f64[4, 5]"))
    assert found.report.stop_reason is StopReason.SATURATED
    assert found.report.matches == {"merge_products": 1}
    slices = [node for root in found.view.roots for node in found.view.classes[root] if node.op.name == "slice"]
    assert len(slices) == 2 and len({node.operands for node in slices}) == 1
    assert not disagreements(found.view, arrays(function, 5), close)


def test_ordered_originals_are_parameters_and_constants_only():
    def computed(v, first, second):
        return v @ xp.exp(first), v @ second

    found, _ = run(computed, MERGE, specs=("f64[b, 4]", "f64[4, 3]", "f64[4, 5]"))
    assert found.report.matches == {}
    weights = np.arange(20.0).reshape(4, 5)
    found, _ = run(lambda v, first: (v @ first, v @ weights), MERGE, specs=("f64[b, 4]", "f64[4, 3]"))
    assert found.report.matches == {"merge_products": 1}


def test_concatenations_match_by_their_number_of_operands():
    swap = rule("map_of_concatenate", unary(concatenate(axis, x, y)), concatenate(axis, unary(x), unary(y)),
                doc="Structure.")

    def joined(*parts):
        return xp.exp(xp.concat(parts, axis=1)), xp.concat([xp.exp(each) for each in parts], axis=1)

    found, function = run(lambda u, v: joined(u, v), swap, specs=("f32[b, 2]", "f32[b, 3]"))
    assert same_class(found) and not disagreements(found.view, arrays(function, 6, nasty=True), identical)
    assert not same_class(run(lambda u, v: joined(u, v, u), swap, specs=("f32[b, 2]", "f32[b, 3]"))[0])


def test_values_that_no_rule_types_are_typed_with_the_rule():
    move = rule("slice_of_map", slice_(binary(x, y), r, s, t), binary(slice_(x, r, s, t), slice_(y, r, s, t)),
                doc="Less work.")
    further = rule("reduce_of_map", reduce(monoid, unary(x), m, e, k), unary(reduce(monoid, x, m, e, k)),
                   needs=REASSOCIATION, when=never(), doc="Never.")
    found, function = run(lambda u, v: (u + v)[1:, ::2], move, further, specs=("f32[4, 5]", "f32[4, 5]"))
    assert found.report.matches == {"slice_of_map": 1}
    assert not disagreements(found.view, arrays(function, 7), identical)


@predicate()
def never():
    """False."""
    return False


# Limits -------------------------------------------------------------------------------------------------------------


def sum_of(terms):
    """A sum of powers times a sum, a feast for distributivity."""
    def function(v):
        total = v
        for n in range(terms):
            total = total + xp.exp(v * float(n + 2))
        return total * total * (total + 1.0)

    return function


ALGEBRA = (COMMUTE_ADD, ASSOCIATE_ADD, COMMUTE_MULTIPLY, DISTRIBUTE,
           rule("square", x * x, square(x), doc="One operand."))


def test_a_rule_that_explodes_is_dropped_and_the_others_go_on():
    budget = Budget(seconds=60, nodes=3000)
    found, function = run(sum_of(6), *ALGEBRA, numerics=REASSOCIATE, budget=budget, specs=("f64[3]",))
    report = found.report
    assert report.stop_reason is StopReason.NODE_LIMIT
    assert report.dropped and set(report.dropped) < {x.name for x in report.rules}
    assert sum(x.added for x in report.rules) >= report.nodes - report.nodes_before  # one by one, after an overflow
    assert all(each.nodes <= budget.nodes for each in report.iterations)
    assert report.matches["square"] >= 1
    assert not disagreements(found.view, arrays(function, 8), close)


def test_the_same_run_twice_gives_the_same_view_and_report():
    budget = Budget(seconds=60, nodes=2000)
    first, second = (run(sum_of(5), *ALGEBRA, numerics=REASSOCIATE, budget=budget)[0] for _ in range(2))
    assert first.view.classes == second.view.classes and first.view.roots == second.view.roots
    assert first.report.rules == second.report.rules
    assert [x.nodes for x in first.report.iterations] == [x.nodes for x in second.report.iterations]


def test_the_number_of_rounds_is_limited():
    budget = Budget(seconds=60, iterations=2)
    found, _ = run(sum_of(6), COMMUTE_ADD, ASSOCIATE_ADD, numerics=REASSOCIATE, budget=budget)
    assert found.report.stop_reason is StopReason.ITERATION_LIMIT
    assert [each.stage for each in found.report.iterations] == [
        Stage.SIMPLIFY, Stage.STRUCTURE, Stage.SIBLINGS, Stage.ALGEBRA, Stage.ALGEBRA]


def test_time_is_a_safety_net():
    budget = Budget(seconds=1e-9)
    found, function = run(sum_of(6), *ALGEBRA, numerics=REASSOCIATE, budget=budget, specs=("f64[3]",))
    assert found.report.stop_reason is StopReason.TIME_LIMIT
    assert not disagreements(found.view, arrays(function, 9), close)


def test_a_failure_of_egglog_gives_the_program_back(monkeypatch):
    function = program("mlp_full")
    monkeypatch.setattr(saturation_module.analyses, "origins", lambda numbers: ["(vec-get"])
    found = saturate(function, ALGEBRA, REASSOCIATE, BUDGET)
    assert found.report.stop_reason is StopReason.FAILED and "egglog" in found.report.failure
    arguments = arrays(function, 10)
    values = evaluate_classes(found.view, arguments)
    for root, expected in zip(found.view.roots, evaluate(function, arguments), strict=True):
        assert identical(values[root], expected)
    with pytest.raises(EGraphError):
        saturate(function, ALGEBRA, REASSOCIATE, BUDGET, strict=True)


def test_a_panic_of_egglog_is_an_error_of_ours(monkeypatch):
    function = program("mlp_full")
    monkeypatch.setattr(saturation_module.analyses, "origins", lambda numbers: ["(set (original 0) (original 1))"])
    found = saturate(function, (), EXACT, BUDGET)
    assert found.report.stop_reason is StopReason.FAILED


def test_strict_runs_refuse_a_value_of_two_types():
    bad = rule("transposes_silently", exp(x), square(x), doc="Wrong, but of one type.")
    worse = rule("other_type", view(x, m, s), x, doc="Wrong, and of two types.")
    traced = trace(lambda v: xp.exp(xp.permute_dims(v, (1, 0))), "f32[2, 3]").main
    saturate(traced, (bad,), EXACT, BUDGET, strict=True)
    with pytest.raises(EGraphError):
        saturate(traced, (worse,), EXACT, BUDGET, strict=True)


def test_the_report_adds_up():
    found, _ = run(sum_of(4), COMMUTE_ADD, ASSOCIATE_ADD, numerics=REASSOCIATE)
    report = found.report
    assert report.nodes == found.view.size and report.classes == len(found.view.classes)
    assert report.nodes > report.nodes_before
    assert report.matches and all(count > 0 for count in report.matches.values())
    assert not any(x.added for x in report.rules)  # they ran together
    assert set(report.seconds) == {"compile", "encode", "load", "search", "answer", "analyse", "read"}

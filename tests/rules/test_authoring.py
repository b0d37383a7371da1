"""Patterns, rules and rule sets as values: what they print, what they refuse, how they combine."""

from __future__ import annotations

import numpy as np
import pytest

import tcp_eqsat as tcp
from tcp_eqsat.errors import RuleError, UnknownName
from tcp_eqsat.lang.dims import symbol
from tcp_eqsat.lang.scalar import SCALAR_OPS
from tcp_eqsat.lang.tiers import FINITE_ONLY, REASSOCIATION, TIERS, Permission, permissions
from tcp_eqsat.lang.types import BOOL
from tcp_eqsat.rules import (
    Phase,
    RuleSet,
    concatenate,
    constant_variables,
    contract,
    full_like,
    int_variables,
    labels_variables,
    ones_like,
    pad,
    reduce,
    rule,
    scalar_operation,
    shape_variables,
    slice_,
    variables,
    view,
)
from tcp_eqsat.rules import functions as scalar_functions
from tcp_eqsat.rules.attribute import Sort, attribute_function, evaluate_term
from tcp_eqsat.rules.condition import predicate
from tcp_eqsat.rules.facts import finite, nonzero
from tcp_eqsat.rules.functions import exp, less, maximum, tanh, where
from tcp_eqsat.rules.maps import (
    compose,
    covers,
    has_exact_reciprocal,
    pull_back,
    relabel,
    same_shape,
    shape_of,
)
from tcp_eqsat.rules.pattern import Splat, lift, signature
from tcp_eqsat.rules.views import unit_labels

x, y, z = variables("x y z")
m, n = labels_variables("m n")
s, t, e = shape_variables("s t e")
(k,) = int_variables("k")
(c,) = constant_variables("c")
f = scalar_operation("f", arity=2)


@pytest.mark.parametrize(("pattern", "text"), [
    (0.5 * tanh(0.5 * x) + 0.5, "0.5 * tanh(0.5 * x) + 0.5"),
    (x - (y - z), "x - (y - z)"),
    ((x - y) - z, "x - y - z"),
    (-(x + y) * z, "-(x + y) * z"),
    (-x * -2.0, "-x * (-2.0)"),
    (x / (y * z), "x / (y * z)"),
    (where(less(x, 0), -x, x), "where(less(x, 0), -x, x)"),
    (f(view(x, m, s), c), "f(view(x, m, s), c)"),
    (view(x, (), s), "view(x, (), s)"),
    (view(x, (1, 0), s), "view(x, (1, 0), s)"),
    (view(x, (0,), s), "view(x, (0,), s)"),
    (reduce("add", x, compose(n, m), e, k), "reduce(add, x, compose(n, m), e, k)"),
    (contract(x, y, m, n, e, 2), "contract(x, y, m, n, e, 2)"),
    (slice_(x, s, t, m), "slice_(x, s, t, m)"),
    (concatenate(0, x, y), "concatenate(0, x, y)"),
    (pad(x, y, s, t), "pad(x, y, s, t)"),
])
def test_patterns_print_as_they_are_written(pattern, text):
    assert str(pattern) == text


def test_patterns_are_values():
    assert x * (y + 1) == x * (y + 1)
    assert hash(x * (y + 1)) == hash(x * (y + 1))
    assert x * y != y * x
    assert lift(0.0) != lift(-0.0)
    assert lift(1) == lift(1.0)
    assert lift(True) != lift(1)
    assert lift(float("nan")) == lift(float("nan"))


def test_every_scalar_operation_is_a_function():
    names = {name for name, value in vars(scalar_functions).items()
             if isinstance(value, scalar_functions.PatternFunction)}
    families = {name for name in SCALAR_OPS if name.startswith("reduce_precision_")}
    assert names == set(SCALAR_OPS) - families
    assert {scalar_functions.reduce_precision(5, 10).operation.name} <= families


def test_signatures():
    assert signature(SCALAR_OPS["where"]) == ((BOOL, None, None), None)
    assert signature(SCALAR_OPS["less"]) == ((None, None), BOOL)
    assert signature(SCALAR_OPS["exp"]) == ((None,), None)


@pytest.mark.parametrize(("left", "right", "message"), [
    (x + y, x * z, "z is not bound"),
    (x, x + 0, "matches everything"),
    (lift(1), lift(1.0), "matches everything"),
    (view(x, compose(m, n), s), x, "computed attribute"),
    (view(x, m, s), view(x, n, s), "n is not bound"),
    (exp(x), f(x, x), "f is not bound"),
    ((exp(x), exp(y)), exp(x), "as many replacements as patterns"),
    (reduce("add", x, m, e, k), reduce("add", x, m, e, k) * 2 + view(x, m, s), "s is not bound"),
    (reduce("add", x, m, e, k), view(exp(view(x, m, e)) * 2, m, e), "does not follow from its place"),
])
def test_unusable_rules_are_refused(left, right, message):
    with pytest.raises(RuleError, match=message) as raised:
        rule("wrong", left, right, doc="Not a rule.")
    assert "rule wrong" in str(raised.value)
    assert raised.value.where is not None and raised.value.where.file == __file__


def test_names_and_docs_are_required():
    with pytest.raises(RuleError, match="identifier"):
        rule("not a name", x + y, y + x, doc="Words.")
    with pytest.raises(RuleError, match="doc"):
        rule("silent", x + y, y + x, doc=" ")
    with pytest.raises(RuleError, match="two kinds"):
        rule("clash", view(x, *labels_variables("x"), s), x, doc="One name for two things.")
    with pytest.raises(RuleError, match="w is not bound"):
        rule("other", x + y, y + x, when=finite(*variables("w")), doc="A condition on nothing.")


def test_attributes_have_sorts():
    with pytest.raises(RuleError, match="of sort shape where ints is required"):
        view(x, s, m)
    with pytest.raises(RuleError, match="requires a tensor variable"):
        shape_of(x * y)
    with pytest.raises(RuleError, match="2 operands"):
        maximum(x)
    with pytest.raises(RuleError, match="patterns or numbers"):
        x + "1"
    with pytest.raises(RuleError, match="tensor or constant variable"):
        nonzero(x * y)


def _likes(pattern):
    return [str(each.like) for each in pattern.walk() if isinstance(each, Splat)]


def test_numbers_take_their_type_from_their_place():
    assert _likes(rule("a", x - x, 0, doc="Root.").right) == ["x - x"]
    assert _likes(rule("b", x / c, x * (1 / c), doc="Sibling.").right) == ["x", "x"]
    both = rule("c", exp(x) - 1, where(less(x, 2), 3, 4), doc="Both.")
    assert _likes(both.right) == ["x", "exp(x) - 1", "exp(x) - 1"]
    assert _likes(rule("d", reduce("add", x, m, e, k), reduce("add", x * 2, m, e, k), doc="Inner.").right) == ["x"]
    assert _likes(rule("e", x / x, ones_like(x), doc="Said.").right) == ["x"]
    assert full_like(y, 2).like == y


def test_directions():
    both = rule("both", x - y, x + -y, bidirectional=True, doc="Either way.")
    forward, backward = both.directions()
    assert str(both) == "x - y <-> x + -y"
    assert (str(forward), str(backward)) == ("x - y -> x + -y", "x + -y -> x - y")
    assert backward.name == "both_reversed"
    one = rule("one", x + y, y + x, when=finite(x) & nonzero(y), doc="One way.")
    assert one.directions() == (one,)
    assert str(one) == "x + y -> y + x  when finite(x) & nonzero(y)"


def test_rule_sets():
    first = rule("first", x + y, y + x, doc="First.")
    second = rule("second", x * y, y * x, doc="Second.", needs=REASSOCIATION, phase=Phase.SIMPLIFY)
    both = RuleSet((first,)) + second
    assert both.names == ("first", "second")
    assert (both - "first").names == ("second",) == (both - first).names == (both - RuleSet((first,))).names
    assert both.granted(TIERS["exact"]).names == ("first",)
    assert both.phase(Phase.SIMPLIFY).names == ("second",)
    assert both + both == both and hash(both + both) == hash(both)
    assert "first" in both and first in both and both["first"] is first
    with pytest.raises(UnknownName, match="third"):
        both["third"]
    with pytest.raises(UnknownName, match="third"):
        both - "third"
    with pytest.raises(RuleError, match="two rules are called first"):
        both + rule("first", x - y, y - x, doc="Another.")


def test_nothing_is_registered():
    before = len(tcp.rules.default)
    rule("unseen", x + y, y + x, doc="Only a value.")
    assert len(tcp.rules.default) == before


def test_tiers():
    assert permissions("finite") == REASSOCIATION | FINITE_ONLY == permissions({"reassociation", "finite_only"})
    assert permissions("exact") == permissions([]) == permissions(())
    assert permissions(Permission.APPROXIMATION) in permissions("approximate")
    assert permissions("finite").granted(REASSOCIATION) and not REASSOCIATION.granted(FINITE_ONLY)
    assert [str(permissions(name)) for name in TIERS] == list(TIERS)
    assert str(FINITE_ONLY) == "finite_only"
    assert list(permissions("finite") - REASSOCIATION) == [Permission.FINITE_ONLY]
    with pytest.raises(UnknownName, match="unknown numerics 'fast'; known are exact"):
        permissions("fast")


def test_attribute_functions():
    values = {"m": (1, -1, 0), "n": (2, 0), "k": 1, "s": (3, 4, 5), "e": (6, 7)}
    assert evaluate_term(compose(n, m), values) == (0, -1, 2)
    assert pull_back.meaning((0, 2), (2, 1, 0)) == (2, 0)
    assert pull_back.meaning((0, 3), (2, 1, 0)) is None
    assert relabel.meaning((0, 1, -1), (2,), 1, (7, 8, 9)) == (2, 3, -1)
    assert unit_labels.meaning((3, 1, 4), (1, 3, 4, 1)) == (1, -1, 2)
    assert unit_labels.meaning((6,), (2, 3)) is None
    assert unit_labels.meaning((symbol("b"), 1), (1, symbol("b"))) == (1, -1)
    assert str(compose(n, m)) == "compose(n, m)"


def test_a_function_without_a_value_leaves_the_rule_out():
    @attribute_function(Sort.INTS, result=Sort.INTS)
    def never(labels):
        return None

    assert evaluate_term(compose(never(m), n), {"m": (), "n": ()}) is None


class _Facts:
    def __init__(self, **values):
        self.values = values

    def knows(self, fact, name):
        return False

    def original(self, name):
        return None


def test_conditions_answer_no_when_they_do_not_know():
    @predicate(Sort.SHAPE)
    def unknown(shape):
        return None

    b = symbol("b")
    assert not unknown(s).holds(_Facts(s=()))
    assert not finite(x).holds(_Facts())
    assert not same_shape(s, t).holds(_Facts(s=(b,), t=(symbol("d2"),)))
    assert same_shape(s, t).holds(_Facts(s=(2 * b,), t=(b + b,)))
    assert covers(m, e, k).holds(_Facts(m=(1, 0), e=(3, 4), k=1))
    assert not covers(m, e, k).holds(_Facts(m=(0,), e=(3, 4), k=1))
    assert not tcp.rules.ordered_originals(x, y).holds(_Facts())


@pytest.mark.parametrize(("number", "exact"), [
    (2.0, True), (-0.25, True), (3.0, False), (0.0, False), (2.0**-149, False), (2.0**127, True),
    (float("inf"), False), (float("nan"), False)])
def test_exact_reciprocal(number, exact):
    assert has_exact_reciprocal(c).holds(_Facts(c=np.float32(number))) is exact

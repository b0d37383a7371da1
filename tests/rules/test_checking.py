"""The check itself: what it samples, how it shrinks, what it advises, how files of rules are read."""

from __future__ import annotations

import numpy as np
import pytest

from tcp_eqsat.errors import RuleError
from tcp_eqsat.lang.tiers import REASSOCIATION
from tcp_eqsat.rules import default, labels_variables, rule, shape_variables, variables, view
from tcp_eqsat.rules.advice import advise, report
from tcp_eqsat.rules.attribute import Sort, attribute_function
from tcp_eqsat.rules.check import check, differs
from tcp_eqsat.rules.condition import predicate
from tcp_eqsat.rules.enumeration import E4M3, E5M2, enumerate_rule
from tcp_eqsat.rules.facts import finite, nonzero, not_nan, not_negative_zero
from tcp_eqsat.rules.files import load, load_rejected
from tcp_eqsat.rules.functions import equal, greater_equal, maximum, where
from tcp_eqsat.rules.sample import DeadEnd
from tcp_eqsat.rules.sampling import Sampler
from tcp_eqsat.rules.verdict import Outcome

x, y, z = variables("x y z")
(m,) = labels_variables("m")
(s,) = shape_variables("s")


def test_the_verdict_is_deterministic():
    first, second = (check(default["factor_out_of_sum"], seed=3) for _ in range(2))
    assert (first.matches, first.refusals, first.elements) == (second.matches, second.refusals, second.elements)


def test_a_counterexample_is_a_scalar_with_simple_values():
    verdict = check(rule("max_of_select", where(greater_equal(x, y), x, y), maximum(x, y), doc="Wrong for NaN."))
    assert verdict.outcome is Outcome.FAILS
    assert "f32[]   x = nan, y = 1.0: left 1.0, right nan" in str(verdict)
    assert str(verdict).startswith("FAILED max_of_select   where(greater_equal(x, y), x, y) -> maximum(x, y)")


def test_a_rule_that_never_matches_is_untested():
    @predicate(Sort.SHAPE)
    def never(shape):
        return False

    verdict = check(rule("never_used", view(x, m, s), x, when=never(s), doc="Can't match."), attempts=300)
    assert verdict.outcome is Outcome.UNTESTED and not verdict.holds
    assert "only 0 matches found" in str(verdict)


def test_what_a_condition_raises_is_a_counterexample():
    @predicate(Sort.SHAPE)
    def careless(shape):
        return shape[7] == 0

    verdict = check(rule("careless_rule", view(x, m, s), view(x, m, s), when=careless(s), doc="Raises."))
    assert verdict.outcome is Outcome.FAILS
    assert "IndexError" in str(verdict) or "out of range" in str(verdict)


def test_a_right_side_of_another_type_is_a_counterexample():
    @attribute_function(Sort.SHAPE, result=Sort.SHAPE)
    def backwards(shape):
        return shape[::-1]

    verdict = check(rule("turned", view(x, (), s), view(x, (), backwards(s)), doc="Another shape."))
    assert verdict.outcome is Outcome.FAILS
    assert "the left side has type" in str(verdict)


def test_differs():
    shipped = default["add_zero"]
    assert not differs(shipped, {"x": -0.0})
    assert differs(rule("add_zero", x + 0, x, doc="Wrong for -0."), {"x": -0.0})
    assert differs(rule("swap", x - y, y - x, doc="Wrong."), {"x": np.arange(3.0), "y": np.ones(3)})


def test_samples_reach_ranks_sizes_and_dtypes():
    sampler = Sampler("coverage", (x + y,), 0)
    types = []
    for _ in range(400):
        try:
            types.append(sampler.draw()[0].values["x"])
        except DeadEnd:
            continue
    assert {len(found.shape) for found in types} == {0, 1, 2, 3, 4}
    sizes = {str(size) for found in types for size in found.shape}
    assert {"0", "1", "2", "3", "5", "n", "k"} <= sizes
    assert {"f32", "f64", "i32", "bool", "u8"} <= {str(found.dtype) for found in types}


@pytest.mark.parametrize("form", [E4M3, E5M2])
def test_tiny_formats(form):
    assert form.values.size == {"e4m3": 2 * 120 + 2 + 1, "e5m2": 2 * 124 + 2 + 1}[form.name]
    assert np.array_equal(form.round(form.values), form.values, equal_nan=True)
    finite_values = np.sort(np.unique(form.values[np.isfinite(form.values)]))
    middles = (finite_values[1:] + finite_values[:-1]) / 2
    rounded = form.round(middles)
    assert np.isin(rounded, finite_values).all()
    assert np.all(np.abs(rounded - middles) <= np.diff(finite_values) / 2)
    assert form.round(np.array(finite_values[-1] * 1.001)) == finite_values[-1]
    assert np.isinf(form.round(np.array(finite_values[-1] * 2)))
    assert np.signbit(form.round(np.array(-finite_values[finite_values > 0][0] / 4)))


def test_enumeration_refutes_and_confirms():
    assert enumerate_rule(default["absolute_of_product"]) == (243**2 + 251**2, [])
    assert enumerate_rule(default["add_zero_where_never_negative_zero"])[0] == 242 + 250
    compared, failures = enumerate_rule(rule("halve", (x + y) / 2, x / 2 + y / 2, doc="Rounds twice."))
    assert compared and failures
    assert enumerate_rule(default["associate_add"]) == (0, [])
    assert enumerate_rule(default["choose_equal"]) == (0, [])


def test_advice_for_a_wrong_rule():
    verdict = check(rule("max_of_select", where(greater_equal(x, y), x, y), maximum(x, y), doc="Wrong for NaN."))
    found = advise(verdict)
    assert not_negative_zero(x) & not_nan(x) in found.conditions
    assert found.tier == "finite"
    assert "it would hold when" in report(verdict)


@pytest.mark.parametrize(("left", "right", "condition"), [
    (x + 0, x, not_negative_zero(x)),
    (x - x, 0, finite(x)),
    (x / x, 1, nonzero(x) & finite(x)),
    (equal(x, x), True, not_nan(x)),
], ids=str)
def test_advice_finds_the_weakest_condition(left, right, condition):
    assert condition in advise(check(rule("wrong", left, right, doc="Needs a condition."))).conditions


def test_no_advice_where_nothing_helps():
    found = advise(check(rule("minus_is_plus", x - y, x + y, doc="Wrong.")))
    assert found.conditions == () and found.tier is None


def _write(tmp_path, text):
    path = tmp_path / "my_rules.py"
    path.write_text(text, encoding="utf-8")
    return path


GOOD = """
from tcp_eqsat.rules import REASSOCIATION, default, rule, variables
from tcp_eqsat.rules.check import rejected
from tcp_eqsat.rules.functions import exp

x, y = variables("x y")
join = rule("join_exponentials", exp(x) * exp(y), exp(x + y), needs=REASSOCIATION, doc="One function.")
more = (rule("swap", x + y, y + x, doc="Either order."), join)
wrong = (rejected("cancel", x / x, 1, witness={"x": 0.0}),)
"""


def test_a_file_of_rules(tmp_path):
    path = _write(tmp_path, GOOD)
    rules = load(path)
    assert rules.names == ("join_exponentials", "swap")
    assert rules["join_exponentials"].needs == REASSOCIATION
    assert rules["swap"].where.line == 8
    assert all(check(each).holds for each in rules)
    (case,) = load_rejected(path)
    case.verify()


@pytest.mark.parametrize(("text", "line", "message"), [
    ("x = (\n", 1, "not Python"),
    ("\nimport no_such_module\n", 2, "no_such_module"),
    ("from tcp_eqsat.rules import rule, variables\nx, y = variables('x y')\nr = rule('r', x + y, x, doc='d')\n"
     "q = rule('q', x * y, z, doc='d')\n", 4, "NameError"),
    ("from tcp_eqsat.rules import rule, variables\nx, y, z = variables('x y z')\nr = rule('r', x + y, z, doc='d')\n",
     3, "rule r: z is not bound by the left side"),
    ("from tcp_eqsat.rules import rule, variables\nx, y = variables('x y')\na = rule('r', x + y, y + x, doc='d')\n"
     "b = rule('r', x * y, y * x, doc='d')\n", 4, "two rules are called r"),
    ("x = 1\n", None, "declares no rule"),
])
def test_files_that_are_wrong(tmp_path, text, line, message):
    path = _write(tmp_path, text)
    with pytest.raises(RuleError, match=message) as raised:
        load(path)
    if line is not None:
        assert (raised.value.where.file, raised.value.where.line) == (str(path), line)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(RuleError, match="can't read"):
        load(tmp_path / "nowhere.py")

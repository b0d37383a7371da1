"""What is loaded into an e-graph, and when."""

import subprocess
import sys

import numpy as np
import pytest

from tcp_eqsat.egraph import StopReason, saturate
from tcp_eqsat.frontends import array_api as xp
from tcp_eqsat.frontends.tracing import trace
from tcp_eqsat.lang.budget import Budget
from tcp_eqsat.lang.tiers import EXACT
from tcp_eqsat.rules import default
from tcp_eqsat.rules.facts import is_float, is_integer, positive
from tcp_eqsat.rules.functions import exp, maximum, negative, square, tanh
from tcp_eqsat.rules.pattern import variables
from tcp_eqsat.rules.rule import rule

x, y, z = variables("x y z")
DROP = rule("drop_maximum", maximum(x, y) * z, x * z, when=positive(x), doc="Wrong, for the test.")
ASKING = rule("drop_maximum", maximum(x, y) * z, x * z, when=positive(x) & is_float(y), doc="It asks.")


def run(function, *rules, specs=("f32[b, 3]",)):
    return saturate(trace(function, *specs).main, rules, EXACT, Budget(seconds=60), strict=True)


def counts(found):
    return {each.name: each for each in found.report.rules}


def test_rules_whose_operations_appear_late_are_loaded_then():
    first = rule("first", exp(x) + y, tanh(x) + y, doc="Adds a tanh.")
    second = rule("second", tanh(x) + y, square(x) - y, doc="Adds a square and a difference.")
    third = rule("third", square(x) - y, negative(x) * y, doc="Needs both.")
    never = rule("never", maximum(x, y), x, doc="Needs what nothing adds.")
    found = run(lambda v: xp.exp(v) + 1.0, never, third, second, first)
    assert found.report.matches == {"first": 1, "second": 1, "third": 1}
    assert found.report.idle == ("never",) and found.report.stop_reason is StopReason.SATURATED
    assert len(found.view.classes[found.view.roots[0]]) == 4


def test_a_rule_is_watched_for_until_its_shape_occurs():
    elsewhere = rule("square_of_exp", square(exp(x)), exp(x + x), when=is_float(x), doc="Nested.")
    found = counts(run(lambda v: xp.exp(v) + xp.square(v), elsewhere))
    assert not found["square_of_exp"].loaded and found["square_of_exp"].matches == 0
    found = counts(run(lambda v: xp.square(xp.exp(v)), elsewhere))
    assert found["square_of_exp"].loaded and found["square_of_exp"].matches == 1


def test_a_rule_for_dtypes_that_can_not_occur_is_idle():
    whole = rule("of_integers", x + y, y + x, when=is_integer(x), doc="Commutes.")
    assert run(lambda v: v + 1.0, whole).report.idle == ("of_integers",)
    assert run(lambda v: v + 1, whole, specs=("i32[b, 3]",)).report.matches.keys() == {"of_integers"}
    assert run(lambda v: xp.astype(v, "i32") + 1, whole).report.matches.keys() == {"of_integers"}


@pytest.mark.parametrize("drop", [DROP, ASKING])
def test_facts_are_those_of_constants_and_what_follows(drop):
    table = np.array([1.0, 2.5, 4.0], np.float32)
    assert run(lambda v: xp.maximum(table, v) * v, drop).report.matches == {"drop_maximum": 1}
    assert run(lambda v: xp.maximum(-table, v) * v, drop).report.matches == {}
    assert run(lambda v: xp.maximum(xp.exp(v) + table, v) * v, drop).report.matches == {"drop_maximum": 1}
    assert run(lambda v: xp.maximum(xp.exp(v) + -table, v) * v, drop).report.matches == {}
    assert run(lambda v: xp.maximum(xp.maximum(v, table) * v + 2.0, v) * v, drop).report.matches == {}


def test_facts_that_follow_later_count():
    """Constants satisfy one match at first; another one comes to wait for a fact when a rule has added it."""
    added = rule("added", tanh(x) * y, maximum(exp(x) + 1, y) * y, doc="Wrong, for the test.")
    found = run(lambda v: xp.maximum(2.0, v) * v + xp.tanh(v) * v, ASKING, added)
    assert found.report.matches == {"drop_maximum": 2, "added": 1}


def test_few_of_the_rules_are_loaded_for_a_small_program():
    program = trace(lambda v, w: xp.tanh(v @ w), "f32[b, 16]", "f32[16, 10]").main
    report = saturate(program, default, EXACT, Budget(seconds=60)).report
    assert sum(each.loaded for each in report.rules) < len(report.rules) < len(report.idle)


def test_the_package_egglog_is_left_alone_and_works():
    script = (
        "import sys\n"
        "from tcp_eqsat.egraph import engine\n"
        "assert 'egglog.builtins' not in sys.modules\n"
        "engine.Engine().run(['(sort T)'])\n"
        "import egglog\n"
        "assert egglog.bindings.EGraph is engine.EGraph\n"
        "egglog.EGraph().check(egglog.i64(1) + egglog.i64(2) == egglog.i64(3))\n")
    subprocess.run([sys.executable, "-c", script], check=True)

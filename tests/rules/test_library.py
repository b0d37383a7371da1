"""Every rule and fact that ships is checked against the NumPy reference."""

from __future__ import annotations

import pytest

from tcp_eqsat.lang.tiers import TIERS
from tcp_eqsat.rules import THEMES, Phase, default
from tcp_eqsat.rules.check import check, check_fact
from tcp_eqsat.rules.condition import Holds
from tcp_eqsat.rules.facts import FACT_RULES, FACTS, IMPLICATIONS
from tcp_eqsat.rules.library import everything, extra
from tcp_eqsat.rules.oracle import FLOAT_EXAMPLES


@pytest.mark.parametrize("name", everything.names)
def test_rule_holds(name):
    verdict = check(everything[name])
    assert verdict.holds, str(verdict)
    assert verdict.elements > 0


@pytest.mark.parametrize("rule", [
    each for each in everything if any(isinstance(part, Holds) for part in each.condition.parts)], ids=lambda r: r.name)
def test_condition_refuses_something(rule):
    assert any(check(rule, seed=seed, matches=40).refusals for seed in range(8))


@pytest.mark.parametrize("rule", FACT_RULES, ids=lambda r: r.name)
def test_fact_holds(rule):
    assert check_fact(rule) >= 20


@pytest.mark.parametrize(("stronger", "weaker"), IMPLICATIONS, ids=lambda fact: fact.name)
def test_implication_holds(stronger, weaker):
    kept = FLOAT_EXAMPLES[stronger.meaning(FLOAT_EXAMPLES)]
    assert kept.size and weaker.true_of(kept)


def test_fact_names_are_unique():
    assert len({each.name for each in FACT_RULES}) == len(FACT_RULES)
    assert {each.fact for each in FACT_RULES} == set(FACTS)


def test_library_covers_its_themes():
    assert set(THEMES) == {
        "algebra", "transcendental", "choice", "views", "movement", "reduction", "contraction", "fusion"}
    assert sum(map(len, THEMES.values())) == len(everything) >= 150
    assert set(default.names) | set(extra.names) == set(everything.names)
    for numerics in TIERS.values():
        assert len(default.granted(numerics).phase(Phase.EXPLORE)) > 20
    exact, wider = default.granted(TIERS["exact"]), default.granted(TIERS["finite"])
    assert set(exact.names) < set(wider.names)

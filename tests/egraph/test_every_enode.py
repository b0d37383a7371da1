"""Every e-node of every class computes the same value: the shipped rules on programs of every kind."""

import pytest
from egraph_programs import PROGRAMS, arrays, close, disagreements, identical, program

from tcp_eqsat.egraph import StopReason, saturate
from tcp_eqsat.lang.budget import Budget
from tcp_eqsat.lang.tiers import EXACT, REASSOCIATE
from tcp_eqsat.rules.library import default

BUDGET = Budget(seconds=120, nodes=3000, iterations=8)
ROUNDED = frozenset(("reduce", "contract"))
"""Operations that may be computed in any order, so that even exact rules agree up to rounding only."""


def check(name, numerics, *, nasty):
    function = program(name)
    found = saturate(function, default, numerics, BUDGET, strict=True)
    assert found.report.stop_reason in (
        StopReason.SATURATED, StopReason.NODE_LIMIT, StopReason.ITERATION_LIMIT), found.report
    exactly = numerics == EXACT and not any(
        node.op.name in ROUNDED for members in found.view.classes for node in members)
    for seed in (1, 2):
        arguments = arrays(function, seed, nasty=nasty)
        wrong = disagreements(found.view, arguments, identical if exactly else close)
        assert not wrong, "\n".join(wrong[:5])
    return function, found


@pytest.mark.parametrize("name", PROGRAMS)
def test_exact_rules(name):
    check(name, EXACT, nasty=True)


@pytest.mark.parametrize("name", PROGRAMS)
def test_rules_of_real_arithmetic(name):
    check(name, REASSOCIATE, nasty=False)


def test_the_check_can_fail():
    """A view with an e-node in the wrong class is found out."""
    function, found = check("chain", EXACT, nasty=False)
    view = found.view
    first, second = view.roots[1:]
    moved = list(view.classes)
    assert view.types[first] != view.types[second]
    moved[first] = (*moved[first], moved[second][0])
    broken = type(view)(tuple(moved), view.types, view.roots, view.original)
    assert len(disagreements(broken, arrays(function, 1), close)) == 1

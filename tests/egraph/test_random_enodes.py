"""Random programs over the whole operation table: every e-node of every class computes the same value."""

import egraph_programs
import pytest
from egraph_programs import disagreements, identical
from programs import random_program

from tcp_eqsat.compare import compare
from tcp_eqsat.egraph import StopReason, saturate
from tcp_eqsat.lang.apart import take_apart
from tcp_eqsat.lang.budget import Budget
from tcp_eqsat.lang.tiers import EXACT, REASSOCIATE
from tcp_eqsat.pipeline import expanded
from tcp_eqsat.rules.library import default

BUDGET = Budget(seconds=120, nodes=1000, iterations=5)


def rounds(view):
    """Whether a float is a sum in some order, so that even exact rules agree up to rounding only."""
    return any(node.op.name in ("contract", "reduce") and type_.dtype.is_float
               for members, type_ in zip(view.classes, view.types, strict=True) for node in members)


@pytest.mark.parametrize("seed", range(24))
def test_members_of_a_class_are_equal(seed, monkeypatch):
    sample = random_program(seed, size=3 + seed % 6, stable=True)
    function = take_apart(expanded(sample.function)).plain
    monkeypatch.setattr(egraph_programs, "BINDINGS", sample.sizes())
    for numerics in (EXACT, REASSOCIATE):
        found = saturate(function, default, numerics, BUDGET, strict=True)
        assert found.report.stop_reason is not StopReason.FAILED
        exactly = numerics == EXACT and not rounds(found.view)
        nasty = exactly and not sample.rough
        wrong = disagreements(
            found.view, sample.arrays(0, "nasty" if nasty else "tame"),
            identical if exactly else lambda x, y: compare(x, y).agrees)
        assert not wrong, "\n".join(wrong[:3])

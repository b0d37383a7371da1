"""The rules that ship, by theme, and all of them together."""

from __future__ import annotations

from tcp_eqsat.rules.algebra import ALGEBRA
from tcp_eqsat.rules.choice import CHOICE
from tcp_eqsat.rules.contraction import CONTRACTION
from tcp_eqsat.rules.fusion import FUSION
from tcp_eqsat.rules.movement import MOVEMENT
from tcp_eqsat.rules.reduction import REDUCTION
from tcp_eqsat.rules.rule import RuleSet
from tcp_eqsat.rules.transcendental import TRANSCENDENTAL
from tcp_eqsat.rules.views import VIEWS

THEMES: dict[str, RuleSet] = {
    "algebra": ALGEBRA,
    "transcendental": TRANSCENDENTAL,
    "choice": CHOICE,
    "views": VIEWS,
    "movement": MOVEMENT,
    "reduction": REDUCTION,
    "contraction": CONTRACTION,
    "fusion": FUSION,
}

default = sum(THEMES.values(), RuleSet())
"""Every rule that ships. Those that need more permissions than a run grants are left out there."""

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

everything = sum(THEMES.values(), RuleSet())
"""Every rule that ships."""

_JOINING = ("slice_of_both_parts", "concatenation_through_binary", "split_binary_of_concatenations")
_EXPANDING = ("subtract_as_add_negation", "distribute_multiply_over_add", "distribute_multiply_over_subtract")

extra = everything.select(lambda each: each.name in (*_JOINING, *_EXPANDING))
"""Rules to be asked for.

With siblings merged, the joining ones cut and join the same values in ever more ways. The expanding ones are right
under their permission, but round what cancels before it does: the one-pass variance is reached through them.
"""

default = everything - extra
"""The rules of a run that names none. Those that need more permissions than it grants are left out there."""

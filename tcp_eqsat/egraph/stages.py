"""In which order rules join: by what they do to the amount of work."""

from __future__ import annotations

import enum
from collections.abc import Iterable

from tcp_eqsat.rules.pattern import Apply, Operation, Pattern
from tcp_eqsat.rules.rule import Phase, Rule


class Stage(enum.Enum):
    """When a rule joins: every stage runs to a fixed point with all rules so far before the next begins.

    SIMPLIFY   the phase of that name
    STRUCTURE  rules about tensor operations that do not add work, and algebra that gets shorter
    SIBLINGS   rules with several roots. They run once: they could match for ever what they add
    ALGEBRA    what adds work, and laws of scalar operations that keep it: together they may go on for ever
    """

    SIMPLIFY = "simplify"
    STRUCTURE = "structure"
    SIBLINGS = "siblings"
    ALGEBRA = "algebra"


MOVEMENT = frozenset(("view", "reshape", "slice", "concatenate", "pad"))
"""Operations that compute nothing."""


def stage_of(rule: Rule) -> Stage:
    """The stage of one direction of a rule."""
    if rule.phase is Phase.SIMPLIFY:
        return Stage.SIMPLIFY
    if len(rule.lefts) > 1:
        return Stage.SIBLINGS
    before, after = _operations(rule.lefts), _operations(rule.rights)
    is_structural = any(isinstance(x, Operation) for x in before | after)
    work = _work(after) - _work(before)
    return Stage.STRUCTURE if work < 0 or (is_structural and work == 0) else Stage.ALGEBRA


def _operations(patterns: Iterable[Pattern]) -> frozenset[Pattern]:
    return frozenset(x for pattern in patterns for x in pattern.walk() if isinstance(x, (Apply, Operation)))


def _work(operations: frozenset[Pattern]) -> int:
    """How many of the operations compute something."""
    return sum(not isinstance(x, Operation) or x.name not in MOVEMENT for x in operations)

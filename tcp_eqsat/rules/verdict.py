"""What the soundness check says about a rule: counts, and counterexamples as people read them."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tcp_eqsat.lang.types import dtype_of
from tcp_eqsat.rules.rule import Rule


class Outcome(enum.Enum):
    """`UNTESTED` (too few matches could be sampled) is not a success."""

    HOLDS = "holds"
    FAILS = "fails"
    UNTESTED = "untested"


@dataclass(frozen=True, eq=False)
class Counterexample:
    """A match on which the sides disagree at index `at`, or one whose right side has `problem`."""

    sample: str
    inputs: Mapping[str, np.ndarray] = field(default_factory=dict)
    left: np.ndarray | None = None
    right: np.ndarray | None = None
    at: tuple[int, ...] = ()
    problem: str = ""

    @property
    def size(self) -> tuple[int, int]:
        """How large it is, for choosing the one to show."""
        return (sum(x.size for x in self.inputs.values()), len(str(self)))

    def __str__(self) -> str:
        if self.left is None or self.right is None:
            return f"{self.sample}: {self.problem}"
        left, right = _number(self.left[self.at]), _number(self.right[self.at])
        if self.inputs and all(x.ndim == 0 for x in (*self.inputs.values(), self.left)):
            texts = ", ".join(f"{name} = {_number(x)}" for name, x in self.inputs.items())
            return f"{dtype_of(next(iter(self.inputs.values())).dtype)}[]   {texts}: left {left}, right {right}"
        shown = ", ".join(f"{name} = {_array(x)}" for name, x in self.inputs.items())
        place = f"[{', '.join(map(str, self.at))}]" if self.at else ""
        return f"{self.sample}; {shown}: left{place} {left}, right{place} {right}"


def _number(x: Any) -> str:
    return str(np.asarray(x)[()])


def _array(x: np.ndarray) -> str:
    return " ".join(np.array2string(x, threshold=12, edgeitems=2, separator=", ").split())


@dataclass(frozen=True)
class Verdict:
    """What the check found.

    matches     samples whose left side types and whose condition holds
    refusals    samples whose left side types and whose condition does not hold
    elements    results compared
    enumerated  inputs of 8-bit floats compared exhaustively, 0 where that does not apply
    """

    rule: Rule
    outcome: Outcome
    matches: int
    refusals: int
    elements: int
    enumerated: int = 0
    counterexamples: tuple[Counterexample, ...] = ()

    @property
    def holds(self) -> bool:
        return self.outcome is Outcome.HOLDS

    @property
    def method(self) -> str:
        """How the rule was verified: "enumerated" or "tested"."""
        return "enumerated" if self.enumerated else "tested"

    def __str__(self) -> str:
        head = {Outcome.HOLDS: "ok", Outcome.FAILS: "FAILED", Outcome.UNTESTED: "UNTESTED"}[self.outcome]
        lines = [f"{head} {self.rule.name}   {self.rule}     tier claimed: {self.rule.needs}"]
        if self.outcome is Outcome.UNTESTED:
            lines.append(f"  only {self.matches} matches found; the condition refused {self.refusals} more")
        shown = dict.fromkeys(str(each) for each in self.counterexamples)
        lines += [f"  counterexample  {each}" for each in list(shown)[:3]]
        return "\n".join(lines)

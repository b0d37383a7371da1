"""What would make a refused rule right: conditions that exclude its counterexamples, or a weaker tier.

Every proposal is checked before it is made.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass, replace

from tcp_eqsat.lang.tiers import TIERS
from tcp_eqsat.lang.types import is_float_array
from tcp_eqsat.rules.check import check
from tcp_eqsat.rules.condition import Condition, Fact
from tcp_eqsat.rules.facts import FACTS, is_float
from tcp_eqsat.rules.pattern import TensorVariable, tensor_variables
from tcp_eqsat.rules.verdict import Counterexample, Verdict

MAX_PARTS = 3
MAX_PROPOSALS = 2
MAX_TRIES = 60


@dataclass(frozen=True)
class Advice:
    """Conditions under which the rule passes, and the strongest tier at which it passes as it is stated."""

    conditions: tuple[Condition, ...]
    tier: str | None

    def __str__(self) -> str:
        lines = [f"  it would hold when {each}" for each in self.conditions]
        if self.tier is not None:
            lines.append(f"  it holds as stated at tier '{self.tier}'")
        return "\n".join(lines)


def advise(verdict: Verdict) -> Advice:
    """Proposals for a rule that failed; none where nothing listed helps."""
    rule = verdict.rule
    wider = [name for name, tier in TIERS.items() if tier != rule.needs and tier.granted(rule.needs)]
    tier = next((name for name in wider if check(replace(rule, needs=TIERS[name])).holds), None)
    return Advice(tuple(_conditions(verdict)), tier)


def _conditions(verdict: Verdict) -> list[Condition]:
    """Conjunctions, shorter ones first, with which the rule passes. What they fail on is learnt from."""
    variables = tensor_variables(*verdict.rule.lefts)
    tests = [(fact(x), functools.partial(_excludes, fact, x)) for x in variables for fact in FACTS]
    if variables:
        tests.append((is_float(variables[0]), functools.partial(_is_not_float, variables[0])))
    examples = list(verdict.counterexamples)
    found: list[Condition] = []
    tries = 0
    for count in range(1, MAX_PARTS + 1):
        for chosen in itertools.combinations(tests, count):
            condition = functools.reduce(Condition.__and__, (each for each, _ in chosen))
            if any(set(known.parts) <= set(condition.parts) for known in found):
                continue
            if not all(any(excludes(each) for _, excludes in chosen) for each in examples):
                continue
            tries += 1
            again = check(replace(verdict.rule, condition=verdict.rule.condition & condition))
            examples += again.counterexamples
            if again.holds:
                found.append(condition)
            if len(found) == MAX_PROPOSALS or tries == MAX_TRIES:
                return found
    return found


def _excludes(fact: Fact, x: TensorVariable, example: Counterexample) -> bool:
    return x.name in example.inputs and not fact.true_of(example.inputs[x.name])


def _is_not_float(x: TensorVariable, example: Counterexample) -> bool:
    return x.name in example.inputs and not is_float_array(example.inputs[x.name])


def report(verdict: Verdict) -> str:
    """The verdict as people read it, with advice where the rule fails."""
    advice = "" if verdict.holds or not verdict.counterexamples else str(advise(verdict))
    return f"{verdict}\n{advice}" if advice else str(verdict)

"""The soundness check of rules: both sides evaluated by the NumPy reference on sampled matches.

For each direction of a rule, matches of the left side are sampled over dtypes, ranks, sizes (symbolic ones too) and
attributes. Wherever the condition holds, the right side must have the left's type and agree with it in value, in
the sense of the permissions that the rule claims (`oracle`). Scalar rules that claim none are also enumerated over
8-bit floats (`enumeration`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tcp_eqsat.errors import RuleError, TcpError
from tcp_eqsat.lang.dims import evaluate
from tcp_eqsat.lang.program import walk
from tcp_eqsat.lang.tiers import EXACT, Permissions
from tcp_eqsat.lang.types import TensorType, is_float_array
from tcp_eqsat.rules.attribute import same_value
from tcp_eqsat.rules.condition import ALWAYS, Condition, Fact, Known
from tcp_eqsat.rules.enumeration import enumerate_rule
from tcp_eqsat.rules.facts import FactRule
from tcp_eqsat.rules.oracle import Palette, Sides, admissible, draw, palettes
from tcp_eqsat.rules.pattern import TensorVariable, tensor_variables
from tcp_eqsat.rules.rule import Phase, Rule, Side, rule
from tcp_eqsat.rules.sample import DeadEnd, NoValue, Placed, Sample, build_left, build_right
from tcp_eqsat.rules.sampling import SYMBOLS, Sampler
from tcp_eqsat.rules.verdict import Counterexample, Outcome, Verdict

MATCHES = 100
ATTEMPTS = 6000
MAX_ELEMENTS = 3000
MAX_COUNTEREXAMPLES = 12
_SIMPLE = (1.0, 0.0, 2.0, -1.0, -0.0, float("nan"), float("inf"), float("-inf"))


@dataclass
class _Match:
    """A sample as conditions see it. Facts hold because values are drawn so that they do."""

    sample: Sample

    @property
    def values(self) -> Mapping[str, Any]:
        return self.sample.values

    def knows(self, fact: Fact, name: str) -> bool:
        return True

    def original(self, name: str) -> int | None:
        return self.sample.numbering[name]


@dataclass
class _Tally:
    matches: int = 0
    refusals: int = 0
    elements: int = 0
    counterexamples: list[Counterexample] = field(default_factory=list)


def check(rule: Rule, *, seed: int = 0, matches: int = MATCHES, attempts: int = ATTEMPTS) -> Verdict:
    """Whether a rule holds, in each of its directions. Deterministic for a seed.

    A sample is drawn at most `attempts` times for each pattern of the left side.
    """
    tally = _Tally()
    fewest = matches
    for direction in rule.directions():
        before = tally.matches
        _Direction(direction, seed, tally).run(matches, attempts * len(direction.lefts))
        fewest = min(fewest, tally.matches - before)
    enumerated = 0
    if not tally.counterexamples:
        enumerated, failures = enumerate_rule(rule)
        tally.counterexamples += failures
    if tally.counterexamples:
        outcome = Outcome.FAILS
    else:
        outcome = Outcome.HOLDS if fewest >= min(matches, 20) else Outcome.UNTESTED
    found = tuple(sorted(tally.counterexamples, key=lambda each: each.size))
    return Verdict(rule, outcome, tally.matches, tally.refusals, tally.elements, enumerated, found)


class _Direction:
    """The check of one direction of a rule."""

    def __init__(self, rule: Rule, seed: int, tally: _Tally) -> None:
        self.rule = rule
        self.tally = tally
        self.sampler = Sampler(rule.name, rule.lefts, seed)
        self.tensors = tensor_variables(*rule.lefts)
        self.facts = {x.name: facts_about(rule.condition, x) for x in self.tensors}

    def run(self, matches: int, attempts: int) -> None:
        found = 0
        for _ in range(attempts):
            if found >= matches or len(self.tally.counterexamples) >= MAX_COUNTEREXAMPLES:
                return
            try:
                sample, placed = self.sampler.draw()
                sides = self.build_lefts(sample, placed)
            except (DeadEnd, TcpError):
                continue
            if any(_elements(x.tensor_type) > MAX_ELEMENTS for x in walk(sides.lefts)):
                continue
            found += self.try_match(sample, placed, sides)

    def build_lefts(self, sample: Sample, placed: Sequence[Placed]) -> Sides:
        parameters = sample.parameters(self.tensors)
        return Sides(parameters, tuple(build_left(x, sample, parameters) for x in placed), ())

    def build_rights(self, sample: Sample, sides: Sides) -> Sides:
        roots = dict(zip(self.rule.lefts, sides.lefts, strict=True))
        return Sides(sides.parameters, sides.lefts, tuple(
            build_right(x, sample, sides.parameters, roots) for x in self.rule.rights))

    def try_match(self, sample: Sample, placed: Sequence[Placed], sides: Sides) -> bool:
        """Check one sample; whether the condition held."""
        problem = None
        try:
            if not self.rule.condition.holds(_Match(sample)):
                self.tally.refusals += 1
                return False
            sides = self.build_rights(sample, sides)
        except NoValue:
            self.tally.refusals += 1
            return False
        except Exception as error:  # conditions and attribute functions are anyone's code
            problem = f"the right side can't be built: {error}"
        self.tally.matches += 1
        for left, right in zip(sides.lefts, sides.rights, strict=False):
            if left.dtype != right.dtype or not same_value(left.shape, right.shape):
                problem = f"the left side has type {left.type}, the right side {right.type}"
        if problem is not None:
            self.tally.counterexamples.append(Counterexample(str(sample), problem=problem))
            return True
        self.compare(sample, placed, sides)
        return True

    def compare(self, sample: Sample, placed: Sequence[Placed], sides: Sides) -> None:
        for palette in palettes(self.rule.needs, sides):
            arrays = {
                name: admissible(draw(self.sampler.rng, x.tensor_type, palette, SYMBOLS), self.facts[name],
                                 self.rule.needs)
                for name, x in sides.parameters.items()}
            self.tally.elements += sum(_elements(x.tensor_type) for x in sides.lefts)
            found = sides.disagreement(arrays, self.rule.needs, palette, SYMBOLS)
            if found is not None:
                _, at, left, right = found
                shrunk = self.shrink(sample, sides, arrays, at, palette) if sides.elementwise else None
                self.tally.counterexamples.append(
                    shrunk or Counterexample(str(sample), arrays, left, right, at))
                return

    def shrink(self, sample: Sample, sides: Sides, arrays: Mapping[str, np.ndarray], at: tuple[int, ...],
               palette: Palette) -> Counterexample | None:
        """The same disagreement with tensors of rank 0 and simple values."""
        try:
            sample, placed = self.sampler.scalar(sample)
            sides = self.build_rights(sample, self.build_lefts(sample, placed))
        except (DeadEnd, NoValue, TcpError):
            return None
        values = {name: np.asarray(array[at]) for name, array in arrays.items()}
        found = sides.disagreement(values, self.rule.needs, palette, SYMBOLS)
        if found is None:
            return None
        for name, value in values.items():
            for simple in _SIMPLE:
                if not is_float_array(value):
                    break
                tried = {**values, name: np.asarray(simple, value.dtype)}
                changed = admissible(tried[name], self.facts[name], self.rule.needs)
                again = sides.disagreement(tried, self.rule.needs, palette, SYMBOLS)
                if again is not None and changed.tobytes() == tried[name].tobytes():
                    values, found = tried, again
                    break
        return Counterexample(str(sample), values, found[2], found[3])


def _elements(found: TensorType) -> int:
    return int(np.prod([evaluate(size, SYMBOLS) for size in found.shape]))


def facts_about(condition: Condition, x: TensorVariable) -> tuple[Fact, ...]:
    """The facts that a condition asks of a tensor variable."""
    return tuple(part.fact for part in condition.parts if isinstance(part, Known) and part.variable == x)


# Facts ----------------------------------------------------------------------------------------------------------------


def check_fact(rule: FactRule, *, seed: int = 0, matches: int = 40, attempts: int = 4000) -> int:
    """Sample a fact's pattern; the number of matches tried. Raises RuleError with a counterexample, or if too few."""
    sampler = Sampler(rule.name, (rule.pattern,), seed)
    tensors = tensor_variables(rule.pattern)
    found = 0
    for _ in range(attempts):
        if found >= matches:
            break
        try:
            sample, placed = sampler.draw()
            parameters = sample.parameters(tensors)
            node = build_left(placed[0], sample, parameters)
        except (DeadEnd, TcpError):
            continue
        if _elements(node.tensor_type) > MAX_ELEMENTS or not rule.condition.holds(_Match(sample)):
            continue
        found += 1
        sides = Sides(parameters, (node,), ())
        arrays = {
            name: admissible(draw(sampler.rng, x.tensor_type, Palette.SPECIAL, SYMBOLS),
                             facts_about(rule.condition, TensorVariable(name)), EXACT)
            for name, x in parameters.items()}
        value = sides.evaluate(arrays, SYMBOLS)[node]
        if not rule.fact.true_of(value):
            raise RuleError(f"{rule} is wrong: {sample}; {arrays} gives {value}")
    if found < min(matches, 20):
        raise RuleError(f"{rule} is untested: only {found} matches found")
    return found


# Rules that must not pass ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rejected:
    """A rule that looks right and is not, with values of its tensor variables on which it fails, if they are few."""

    rule: Rule
    witness: Mapping[str, Any]

    def verify(self) -> Verdict:
        """The check's verdict; raises RuleError where the check accepts the rule or the witness shows no difference."""
        verdict = check(self.rule)
        if verdict.outcome is not Outcome.FAILS:
            raise RuleError(f"{self.rule.name} must be refused, got {verdict.outcome.value}")
        if self.witness and not differs(self.rule, self.witness):
            raise RuleError(f"{self.rule.name} does not fail on {dict(self.witness)}")
        return verdict


def rejected(name: str, pattern: Side, replacement: Side, *, witness: Mapping[str, Any] | None = None,
             when: Condition = ALWAYS, needs: Permissions = EXACT, doc: str = "Looks right and is not.") -> Rejected:
    """A rule that the check must refuse. `witness` gives scalars (or arrays) of f32 for its tensor variables."""
    return Rejected(rule(name, pattern, replacement, when=when, needs=needs, doc=doc, phase=Phase.EXPLORE),
                    dict(witness or {}))


def differs(rule: Rule, witness: Mapping[str, Any], dtype: Any = np.float32) -> bool:
    """Whether the sides of a rule of scalar operations disagree on given values of its tensor variables."""
    direction = _Direction(rule, 0, _Tally())
    arrays = {name: np.asarray(value, dtype) for name, value in witness.items()}
    sample, placed = direction.sampler.over(arrays)
    sides = direction.build_rights(sample, direction.build_lefts(sample, placed))
    return sides.disagreement(arrays, rule.needs, Palette.SPECIAL, SYMBOLS) is not None

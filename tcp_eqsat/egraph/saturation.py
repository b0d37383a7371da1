"""Equality saturation: rounds of rewriting within a budget, whatever the rules do.

Rules that simplify run first, to a fixed point; then all rules. A round runs them one after the other with a look at
the size in between. When the e-graph is over its limit, the rule that added most in that round is given up and the
run is repeated up to that round, which is the same every time, and goes on without the rule.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tcp_eqsat.egraph import analyses
from tcp_eqsat.egraph.columns import Decoder
from tcp_eqsat.egraph.compile_rules import CompiledRule, compile_rule
from tcp_eqsat.egraph.deferred import Answers, Memo
from tcp_eqsat.egraph.encode import Encoding, encode
from tcp_eqsat.egraph.engine import EGraphError, Engine
from tcp_eqsat.egraph.facts import Facts
from tcp_eqsat.egraph.read import read_view
from tcp_eqsat.egraph.report import Iteration, RuleCounts, SaturationReport, StopReason
from tcp_eqsat.egraph.schema import constructors, declarations
from tcp_eqsat.egraph.view import EGraphView, program_view
from tcp_eqsat.lang.budget import Budget
from tcp_eqsat.lang.program import Function
from tcp_eqsat.lang.tiers import Permissions
from tcp_eqsat.rules.rule import Phase, Rule


@dataclass(frozen=True)
class Saturation:
    """The e-graph as it was left, and how it came about."""

    view: EGraphView
    report: SaturationReport


def saturate(function: Function, rules: Iterable[Rule], permissions: Permissions, budget: Budget,
             *, strict: bool = False) -> Saturation:
    """All programs equal to `function` that the rules find within the budget.

    Only rules whose needs are granted are loaded. Where egglog fails the view is the function as it is and the report
    says so. `strict` checks more: a rule that gives one value two types, or an instance that has none, raises
    EGraphError or RuleError. Raises RuleError for a rule that can't be stated in egglog.
    """
    clock = _Clock(budget.seconds)
    with clock.part("compile"):
        compiled = [each for rule in rules if permissions.granted(rule.needs)
                    for each in compile_rule(rule, strict=strict)]
    with clock.part("encode"):
        encoding = encode(function)
    banned: dict[str, int] = {}
    memo: Memo = {}
    while True:
        try:
            return _Run(encoding, compiled, banned, budget, clock, memo, strict).result()
        except _Explosion as explosion:
            banned[explosion.rule] = explosion.round
        except EGraphError as error:
            if strict:
                raise
            view = program_view(function)
            return Saturation(view, SaturationReport(
                StopReason.FAILED, (), (), view.size, view.size, len(view.classes), dict(clock.seconds), str(error)))


class _Clock:
    """Seconds by part, and whether the time is up."""

    def __init__(self, limit: float) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._end = time.perf_counter() + limit

    @property
    def is_over(self) -> bool:
        return time.perf_counter() > self._end

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - start


class _Explosion(Exception):
    """The e-graph is over its limit, mostly by one rule, in a round of the run."""

    def __init__(self, rule: str, round_: int) -> None:
        super().__init__(rule)
        self.rule = rule
        self.round = round_


class _Run:
    """One saturation in one e-graph. `banned` gives the round from which a rule no longer runs."""

    def __init__(self, encoding: Encoding, rules: Sequence[CompiledRule], banned: Mapping[str, int], budget: Budget,
                 clock: _Clock, memo: Memo, strict: bool) -> None:
        self._encoding = encoding
        self._rules = rules
        self._banned = banned
        self._budget = budget
        self._clock = clock
        self._names = tuple(constructors())
        self._matches: Counter[str] = Counter()
        self._added: Counter[str] = Counter()
        self._iterations: list[Iteration] = []
        self._engine = Engine()
        self._decoder = Decoder(self._engine)
        facts = Facts(frozenset(fact for each in rules for fact in each.facts), encoding)
        with clock.part("load"):
            self._engine.run([
                *declarations(), *analyses.declarations(strict=strict), *facts.declarations,
                *analyses.result_dtypes(encoding.dtypes),
                *analyses.literals(
                    facts.numbers | {key: value for each in rules for key, value in each.numbers.items()},
                    encoding.dtypes),
                *(line for each in rules for line in each.commands),
                *encoding.lines, *analyses.origins(encoding.origins), *facts.lines,
            ])
        self._answers = Answers(
            self._engine, self._decoder,
            [*analyses.FOLDS, *facts.tables, *(each.table for each in rules if each.table is not None)], memo)

    def result(self) -> Saturation:
        """Runs all phases. Raises _Explosion, EGraphError."""
        self._analyse()
        before = self._size()
        reason = self._phase(Phase.SIMPLIFY)
        if reason is StopReason.SATURATED:
            reason = self._phase(Phase.EXPLORE)
        if reason is StopReason.SATURATED and self._banned:
            reason = StopReason.NODE_LIMIT
        with self._clock.part("read"):
            view = read_view(self._engine, self._engine.freeze(), self._decoder, self._encoding)
        return Saturation(view, SaturationReport(
            reason, tuple(self._iterations), tuple(map(self._counts, self._rules)), before, view.size,
            len(view.classes), dict(self._clock.seconds)))

    def _phase(self, phase: Phase) -> StopReason:
        """Rounds until nothing changes or a limit is reached."""
        for _ in range(self._budget.iterations):
            start = time.perf_counter()
            changed = self._round(phase)
            self._iterations.append(Iteration(phase, self._size(), time.perf_counter() - start))
            if not changed:
                return StopReason.SATURATED
            if self._clock.is_over:
                return StopReason.TIME_LIMIT
        return StopReason.ITERATION_LIMIT

    def _round(self, phase: Phase) -> bool:
        """The rules of this phase and of those before it, each once; whether anything changed."""
        number = len(self._iterations)
        active = [x for x in self._rules
                  if number < self._banned.get(x.name, number + 1) and x.phase in (phase, Phase.SIMPLIFY)]
        with self._clock.part("search"):
            for rule in active:
                if rule.asking is not None:
                    self._engine.run_ruleset(f"(run {rule.asking})")
        self._answer()
        changed = False
        added: Counter[str] = Counter()
        size = self._size()
        for rule in active:
            with self._clock.part("search"):
                report = self._engine.run_ruleset(f"(run {rule.ruleset})")
            self._matches[rule.name] += report.num_matches_per_rule.get(rule.name, 0)
            if report.updated:
                changed = True
                grown = self._size()
                added[rule.name] = grown - size
                size = grown
                if size > self._budget.nodes:
                    raise _Explosion(max(added, key=lambda name: added[name]), number)
                if self._clock.is_over:
                    break
        self._added += added
        return self._analyse() or changed

    def _analyse(self) -> bool:
        """The analyses to a fixed point; whether anything changed."""
        changed = False
        while True:
            with self._clock.part("analyse"):
                changed |= self._engine.run_ruleset(f"(saturate (run {analyses.ANALYSE}))").updated
            if not self._answer():
                return changed

    def _answer(self) -> bool:
        """Answers what rules asked; whether there was an answer."""
        with self._clock.part("answer"):
            sizes = self._engine.sizes()
            return self._answers.pending(sizes) and self._answers.give(self._engine.freeze(), sizes) > 0

    def _size(self) -> int:
        """The number of e-nodes."""
        sizes = self._engine.sizes()
        return sum(sizes[name] for name in self._names)

    def _counts(self, rule: CompiledRule) -> RuleCounts:
        asked, declined = (0, 0) if rule.table is None else self._answers.counts(rule.table)
        return RuleCounts(rule.name, rule.phase, self._matches[rule.name], asked, declined, self._added[rule.name],
                          rule.name in self._banned)

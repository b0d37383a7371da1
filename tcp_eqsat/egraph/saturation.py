"""Equality saturation: rounds of rewriting within a budget, whatever the rules do.

Rules join in stages (`stages.Stage`); each stage runs to a fixed point. A round runs the rules one after the
other with a look at the size in between. A round that takes the e-graph over its limit is undone. If the e-graph was
at least half full before, that was all; otherwise the rule that added most is given up and the others go on.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tcp_eqsat.egraph import analyses
from tcp_eqsat.egraph.columns import Decoder
from tcp_eqsat.egraph.compile_rules import CompiledRule, compile_rule
from tcp_eqsat.egraph.deferred import Answers
from tcp_eqsat.egraph.encode import Encoding, encode
from tcp_eqsat.egraph.engine import EGraphError, Engine
from tcp_eqsat.egraph.facts import DERIVE
from tcp_eqsat.egraph.loading import Loader
from tcp_eqsat.egraph.read import read_view
from tcp_eqsat.egraph.report import Iteration, RuleCounts, SaturationReport, StopReason
from tcp_eqsat.egraph.schema import OPAQUE
from tcp_eqsat.egraph.stages import Stage
from tcp_eqsat.egraph.view import EGraphView, program_view
from tcp_eqsat.lang.budget import Budget
from tcp_eqsat.lang.program import Function
from tcp_eqsat.lang.tiers import Permissions
from tcp_eqsat.rules.rule import Rule


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
    EGraphError or RuleError. Raises RuleError for a rule that can't be stated in egglog or whose own functions raise.
    """
    clock = _Clock(budget.seconds)
    with clock.part("encode"):
        encoding = encode(function)
    with clock.part("compile"):
        granted = [each for rule in rules if permissions.granted(rule.needs)
                   for each in compile_rule(rule, strict=strict)]
    try:
        try:
            view, report = _Run(encoding, granted, budget, clock, strict).result()
        except _Overflow:
            view, report = _Run(encode(function), granted, budget, clock, strict, careful=True).result()
    except EGraphError as error:
        if strict:
            raise
        view = program_view(function)
        report = SaturationReport(
            StopReason.FAILED, (), (), (), view.size, view.size, len(view.classes), dict(clock.seconds), str(error))
    return Saturation(view, report)


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


class _Overflow(Exception):
    """The e-graph is over its limit."""


class _Run:
    """One saturation in one e-graph.

    At first rules run together, which is several times quicker, and an e-graph over its limit is _Overflow. A careful
    run keeps the state before each round and runs the rules one by one: it undoes a round that goes over the limit and
    drops the rule that filled the e-graph.

    `_version` is a number for each state of the e-graph; `_settled` says in which state a stage had nothing to add.
    """

    def __init__(self, encoding: Encoding, rules: Sequence[CompiledRule], budget: Budget, clock: _Clock,
                 strict: bool, careful: bool = False) -> None:
        self._encoding = encoding
        self._is_careful = careful
        self._rules = rules
        self._by_stage = {stage: [rule for rule in rules if rule.stage is stage] for stage in Stage}
        self._rounds = budget.iterations
        self._clock = clock
        self._matches: Counter[str] = Counter()
        self._added: Counter[str] = Counter()
        self._dropped: set[str] = set()
        self._iterations: list[Iteration] = []
        self._is_cut = False
        self._version = 0
        self._settled: dict[Stage, int] = {}
        self._engine = Engine()
        self._decoder = Decoder(self._engine)
        self._answers = Answers(self._engine, self._decoder, encoding.vocabulary)
        with clock.part("load"):
            self._loader = Loader(self._engine, self._answers, encoding, strict)
        self._analyse()
        self._before = self._size()
        self._limit = budget.node_limit(self._before)

    def result(self) -> tuple[EGraphView, SaturationReport]:
        """Runs all stages. Raises EGraphError, and _Overflow if it is not careful."""
        reason = StopReason.NODE_LIMIT if self._before > self._limit else self._stages()
        with self._clock.part("read"):
            view = read_view(self._engine, self._engine.freeze(), self._decoder, self._encoding)
        possible = [rule for rule in self._rules if self._loader.can_match(rule)]
        idle = tuple(rule.name for rule in self._rules if not self._loader.can_match(rule))
        return view, SaturationReport(
            reason, tuple(self._iterations), tuple(map(self._counts, possible)), idle, self._before, view.size,
            len(view.classes), dict(self._clock.seconds))

    def _stages(self) -> StopReason:
        """All stages, in order; one that runs out of rounds makes way for the next."""
        reasons = []
        for stage in Stage:
            reasons.append(self._stage(stage))
            if reasons[-1] in (StopReason.TIME_LIMIT, StopReason.NODE_LIMIT):
                return reasons[-1]
        if self._dropped:
            return StopReason.NODE_LIMIT
        return StopReason.ITERATION_LIMIT if StopReason.ITERATION_LIMIT in reasons else StopReason.SATURATED

    def _stage(self, stage: Stage) -> StopReason:
        """Rounds until nothing changes or a limit is reached."""
        stages = list(Stage)[:list(Stage).index(stage) + 1]
        without: frozenset[Stage] = frozenset(() if stage is Stage.SIBLINGS else (Stage.SIBLINGS,))
        for _ in range(self._rounds):
            start = time.perf_counter()
            before = self._size()
            added: Counter[str] = Counter()
            undo = self._mark() if self._is_careful else None
            try:
                changed = self._round([x for x in stages if x not in without], added)
            except _Overflow:
                if undo is None:
                    raise
                undo()
                if 2 * before > self._limit:
                    return StopReason.NODE_LIMIT
                self._dropped.add(max(added, key=lambda name: added[name]))
                changed = True
            else:
                without = frozenset((Stage.SIBLINGS,))
                self._added += added
            self._iterations.append(Iteration(stage, self._size(), time.perf_counter() - start))
            if self._is_cut or self._clock.is_over:
                return StopReason.TIME_LIMIT
            if not changed:
                return StopReason.SATURATED
        return StopReason.ITERATION_LIMIT

    def _mark(self) -> Callable[[], None]:
        """What goes back to the state of now: of egglog, and of what was read from it and named in it."""
        vocabulary, unload = self._encoding.vocabulary, self._loader.mark()
        names, values, requests = len(vocabulary), self._decoder.sizes(), self._answers.sizes()
        self._engine.push()

        def undo() -> None:
            self._engine.pop()
            self._version += 1
            unload()
            vocabulary.forget(names)
            self._decoder.forget(values)
            self._answers.forget(requests)

        return undo

    def _round(self, stages: Sequence[Stage], added: Counter[str]) -> bool:
        """The rules of some stages, each once; whether anything changed. `added` counts e-nodes by rule."""
        changed = False
        for stage in stages:
            if self._settled.get(stage) == self._version:
                continue
            if self._group([rule for rule in self._by_stage[stage] if rule.name not in self._dropped], added):
                self._version += 1
                changed = True
            elif not self._is_cut:
                self._settled[stage] = self._version
            if self._is_cut:
                break
        return changed

    def _group(self, rules: Sequence[CompiledRule], added: Counter[str]) -> bool:
        """Some rules once, and the analyses; whether anything changed. Raises _Overflow."""
        self._load(rules)
        loaded = [rule for rule in rules if self._loader.is_loaded(rule)]
        asking = [rule.asking for rule in loaded if rule.whole.table is not None]
        asked: Mapping[str, int] = {}
        if asking:
            with self._clock.part("search"):
                report = self._engine.run_ruleset(_in_order(asking))
            asked = report.num_matches_per_rule
            if report.updated and self._answer():
                with self._clock.part("load"):
                    self._loader.apply_answers(loaded)
                self._analyse_what_is_new()
        applied = [rule for rule in loaded if self._loader.is_applied(rule)]
        self._derive_facts([rule for rule in applied if rule.whole.facts], asked)
        changed = self._one_by_one(applied, added) if self._is_careful else self._together(applied)
        return self._analyse() or changed

    def _load(self, rules: Sequence[CompiledRule]) -> None:
        """Loads those rules that match something, conditions aside."""
        with self._clock.part("load"):
            watched = self._loader.watch(rules)
        self._analyse_what_is_new()
        if watched:
            with self._clock.part("search"):
                seen = self._engine.run_ruleset(_in_order([rule.watching for rule in watched])).num_matches_per_rule
            with self._clock.part("load"):
                self._loader.load([rule for rule in watched if seen.get(rule.watching)])
            self._analyse_what_is_new()

    def _derive_facts(self, rules: Sequence[CompiledRule], asked: Mapping[str, int]) -> None:
        """Fills the tables of the facts that some rules ask for, some of which just matched (`asked`)."""
        if rules:
            self._saturate(DERIVE)
            matched = [rule for rule in rules if asked.get(rule.asking)]
            if matched and self._loader.derive_facts(matched, self._engine.freeze()):
                self._analyse_what_is_new()
                self._saturate(DERIVE)

    def _analyse_what_is_new(self) -> None:
        """Brings analyses that were loaded up to date."""
        if not self._loader.is_analysed:
            self._analyse()

    def _count_matches(self, rules: Iterable[CompiledRule], report: Any) -> None:
        """Notes which rules matched, and the operations that they added."""
        for rule in rules:
            count = report.num_matches_per_rule.get(rule.name, 0)
            if count:
                self._matches[rule.name] += count
                with self._clock.part("load"):
                    self._loader.add_operations(rule.provides)

    def _together(self, rules: Sequence[CompiledRule]) -> bool:
        """The rules once, in one go; whether anything changed. Raises _Overflow."""
        if not rules:
            return False
        with self._clock.part("search"):
            report = self._engine.run_ruleset(_in_order([rule.ruleset for rule in rules]))
        self._count_matches(rules, report)
        if report.updated and self._size() > self._limit:
            raise _Overflow
        self._is_cut = self._clock.is_over
        return bool(report.updated)

    def _one_by_one(self, rules: Sequence[CompiledRule], added: Counter[str]) -> bool:
        """The rules once, with a look at the size after each; whether anything changed. Raises _Overflow."""
        changed = False
        size = self._size()
        for rule in rules:
            with self._clock.part("search"):
                report = self._engine.run_ruleset(f"(run {rule.ruleset})")
            self._count_matches((rule,), report)
            if report.updated:
                changed = True
                grown = self._size()
                added[rule.name] += grown - size
                size = grown
                if size > self._limit:
                    raise _Overflow
            if self._clock.is_over:
                self._is_cut = True
                break
        return changed

    def _analyse(self) -> bool:
        """The analyses to a fixed point; whether anything changed."""
        self._loader.is_analysed = True
        return self._saturate(analyses.ANALYSE)

    def _saturate(self, ruleset: str) -> bool:
        """A ruleset to a fixed point, with answers to what it asks; whether anything changed."""
        changed = False
        while True:
            with self._clock.part("analyse"):
                updated = self._engine.run_ruleset(f"(saturate (run {ruleset}))").updated
            changed |= updated
            if not updated or not self._answer():
                return changed

    def _answer(self) -> bool:
        """Answers what rules asked; whether there was an answer."""
        with self._clock.part("answer"):
            sizes = self._engine.sizes()
            return self._answers.pending(sizes) and self._answers.give(self._engine.freeze(), sizes) > 0

    def _size(self) -> int:
        """The number of e-nodes."""
        sizes = self._engine.sizes()
        return sum(sizes.get(name, 0) for name in (OPAQUE.name, *self._loader.constructors))

    def _counts(self, rule: CompiledRule) -> RuleCounts:
        loaded = self._loader.is_loaded(rule)
        table = rule.whole.table if loaded else None
        asked, declined = (0, 0) if table is None else self._answers.counts(table)
        return RuleCounts(rule.name, rule.stage, loaded, self._matches[rule.name], asked, declined,
                          self._added[rule.name], rule.name in self._dropped)


def _in_order(rulesets: Iterable[str]) -> str:
    """The schedule that runs each ruleset once."""
    return f"(seq {' '.join(f'(run {each})' for each in rulesets)})"

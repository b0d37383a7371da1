"""What one e-graph has been told: tables, analyses, facts and rules, each only once it has something to do.

Every command takes egglog some microseconds, a rule up to a millisecond, and most rules match nothing in most
programs. An operation can occur if the program has it or a rule that adds it has matched. A rule whose operations
can all occur is watched for (see `compile_rules`), and loaded when the watch finds its shape. A rule loaded late sees
everything that is there already: nothing is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from tcp_eqsat.egraph import analyses
from tcp_eqsat.egraph.columns import truncate
from tcp_eqsat.egraph.compile_rules import Compiled, CompiledRule
from tcp_eqsat.egraph.deferred import Answers
from tcp_eqsat.egraph.encode import Encoding
from tcp_eqsat.egraph.engine import Engine, Tables
from tcp_eqsat.egraph.facts import DERIVE, Facts
from tcp_eqsat.egraph.match import fact_table
from tcp_eqsat.egraph.schema import OPAQUE, SORT_DECLARATIONS, Constructor, constructors_for
from tcp_eqsat.lang.scalar import Number
from tcp_eqsat.lang.types import DType
from tcp_eqsat.rules.attribute import AttributeFunction


class Loader:
    """Loads into one e-graph; a new one holds the program.

    constructors   those of the operations that can occur, by name
    is_analysed    whether the analyses have run since the last one was loaded
    """

    def __init__(self, engine: Engine, answers: Answers, encoding: Encoding, strict: bool) -> None:
        self._engine = engine
        self._answers = answers
        self._encoding = encoding
        self._commands: dict[str, None] = {}
        self._names: dict[str, None] = {}
        self._numbers: dict[str, Number] = {}
        self._asked: dict[str, None] = {}
        self._derived: dict[str, None] = {}
        self._items: dict[int, None] = {}
        self._watched: dict[str, None] = {}
        self._loaded: dict[str, None] = {}
        self._applied: dict[str, None] = {}
        self._tests: dict[AttributeFunction, None] = {}
        self._dtypes: tuple[DType, ...] = ()
        self._can_match: dict[str, bool] = {}
        self._sizes: dict[str, tuple[int, ...]] = {}
        self._facts = Facts((), (), frozenset(), encoding)
        self.constructors: dict[str, Constructor] = {}
        self.is_analysed = True
        for table in analyses.FOLDS.values():
            answers.add(table)
        self._run([*SORT_DECLARATIONS, OPAQUE.declaration, *analyses.tables(strict=strict), f"(ruleset {DERIVE})"])
        self.add_operations(encoding.names)
        self._run([*encoding.lines, *analyses.origins(encoding.origins)])

    def mark(self) -> Callable[[], None]:
        """What goes back to the state of now, for an e-graph that did."""
        tables: tuple[dict[Any, Any], ...] = (
            self._commands, self._names, self._numbers, self._tests, self._asked, self._derived, self._items,
            self._watched, self._loaded, self._applied, self.constructors)
        sizes = [len(table) for table in tables]

        def undo() -> None:
            for table, size in zip(tables, sizes, strict=True):
                truncate(table, size)
            self._update()

        return undo

    # Operations

    def add_operations(self, names: Iterable[str]) -> None:
        """Operations that can occur from now on."""
        new = sorted(set(names).difference(self._names))
        if new:
            self._declare(new)
            self.constructors |= {each.name: each for name in new for each in constructors_for(name)}
            self._names |= dict.fromkeys((*new, *self.constructors))
            self._update()

    def _declare(self, names: Iterable[str]) -> None:
        self._run([each.declaration for name in sorted(names) for each in constructors_for(name)])

    def _update(self) -> None:
        """Everything that the operations and numbers of now, and what is asked of them, call for."""
        names, encoding = self._names.keys(), self._encoding
        if self._is_new("facts", self._names, self._asked, self._derived):
            self._facts = Facts(self._asked, self._derived, names, encoding)
            self._numbers |= self._facts.numbers
            self._tests |= dict.fromkeys(self._facts.tests)
            for table in self._facts.tables:
                self._answers.add(table)
        if self._is_new("dtypes", self._names):
            self._dtypes = analyses.possible_dtypes(names, encoding.dtypes)
            self._can_match = {}
        self._run([
            *analyses.literals(self._numbers, self._dtypes), *analyses.passed_tests(self._tests, self._dtypes)])
        if self._is_new("analyses", self._names, self._items, self._derived):
            items = max((self._facts.items, *self._items), default=0)
            if self._run([
                *analyses.rules(self.constructors), *analyses.items(items, self.constructors),
                *analyses.result_dtypes(names, self._dtypes),
            ]):
                self.is_analysed = False
        self._run([*self._facts.declarations, *self._facts.lines])

    def _is_new(self, what: str, *tables: Collection[Any]) -> bool:
        """Whether something was added to (or dropped from) tables since the last call about the same thing."""
        sizes = tuple(map(len, tables))
        known, self._sizes[what] = self._sizes.get(what), sizes
        return sizes != known

    # Rules

    def can_match(self, rule: CompiledRule) -> bool:
        """Whether all operations that a rule needs can occur, and a dtype of which it is true."""
        known = self._can_match.get(rule.name)
        if known is None:
            known = self._can_match[rule.name] = rule.requires <= self._names.keys() and all(
                any(analyses.passes(test, dtype) for dtype in self._dtypes) for test in rule.dtype_tests)
        return known

    def is_loaded(self, rule: CompiledRule) -> bool:
        """Whether a rule that asks can ask, and another one can apply."""
        return rule.name in self._loaded

    def is_applied(self, rule: CompiledRule) -> bool:
        return rule.name in self._applied

    def watch(self, rules: Iterable[CompiledRule]) -> list[CompiledRule]:
        """Loads those rules that need no watch, and gives those that are watched for."""
        waiting = [each for each in rules if each.name not in self._loaded and self.can_match(each)]
        self.load([each for each in waiting if each.watch is None])
        watches = {each.name: each.watch for each in waiting if each.watch is not None}
        self._add([(watch, watch.applying) for name, watch in watches.items() if name not in self._watched])
        self._watched |= dict.fromkeys(watches)
        return [each for each in waiting if each.watch is not None]

    def load(self, rules: Collection[CompiledRule]) -> None:
        """Loads rules; of those that ask, what asks. Raises RuleError for one that can't be stated in egglog."""
        self._add([(each.whole, each.whole.asking) for each in rules if each.whole.table is not None])
        for each in rules:
            if each.whole.table is not None:
                self._answers.add(each.whole.table)
        self._loaded |= dict.fromkeys(each.name for each in rules)
        self._apply([each for each in rules if each.whole.table is None])

    def apply_answers(self, rules: Iterable[CompiledRule]) -> None:
        """Loads what applies answers, of rules that have some."""
        self._apply([
            each for each in rules if each.name not in self._applied and each.whole.table is not None
            and self._answers.has_answered(each.whole.table)])

    def derive_facts(self, rules: Iterable[CompiledRule], tables: Tables) -> bool:
        """Loads the rules for facts that some match waits for; whether there are any new ones.

        Until then only constants are known to be finite, positive and so on: often those are all that is asked for.
        """
        size = len(self._derived)
        for rule in rules:
            facts = dict.fromkeys(fact for fact, _ in rule.whole.facts)
            if not facts.keys() <= self._derived.keys() and _is_waiting(rule.whole, tables):
                self._derived |= facts
        self._update()
        return len(self._derived) > size

    def _apply(self, rules: Collection[CompiledRule]) -> None:
        self._declare({name for each in rules for name in each.provides})
        for each in rules:
            facts = dict.fromkeys(fact for fact, _ in each.whole.facts)
            self._asked |= facts
            if each.whole.table is None:
                self._derived |= facts
        self._add([(each.whole, each.whole.applying) for each in rules])
        self._applied |= dict.fromkeys(each.name for each in rules)

    def _add(self, commands: Collection[tuple[Compiled, tuple[str, ...]]]) -> None:
        """Runs commands of rules or watches, after what these refer to."""
        for compiled, _ in commands:
            self._numbers |= compiled.numbers
            self._tests |= dict.fromkeys(compiled.tests)
            self._items |= dict.fromkeys((compiled.items,))
        self._update()
        self._run([line for _, lines in commands for line in lines])

    def _run(self, commands: Iterable[str]) -> bool:
        """Runs those commands that have not run yet; whether there were any."""
        new = {command: None for command in commands if command not in self._commands}
        self._commands |= new
        self._engine.run(list(new))
        return bool(new)


def _is_waiting(rule: Compiled, tables: Tables) -> bool:
    """Whether Python allowed a match of which a fact is not known (yet)."""
    assert rule.table is not None
    allowed = {inputs[0] for inputs, _ in tables.rows(rule.table.have)}
    known = {fact: {inputs[0] for inputs, _ in tables.rows(fact_table(fact))} for fact, _ in rule.facts}
    return any(
        inputs[-1] in allowed and any(inputs[column] not in known[fact] for fact, column in rule.facts)
        for inputs, _ in tables.rows(rule.match))

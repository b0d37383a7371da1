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
from tcp_eqsat.egraph.engine import Engine
from tcp_eqsat.egraph.facts import Facts
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
        self._items: dict[int, None] = {}
        self._watched: dict[str, None] = {}
        self._loaded: dict[str, None] = {}
        self._applied: dict[str, None] = {}
        self._tests: dict[AttributeFunction, None] = {}
        self._dtypes: tuple[DType, ...] = ()
        self._passed: dict[str, bool] = {}
        self._state: tuple[int, ...] = ()
        self.constructors: dict[str, Constructor] = {}
        self.is_analysed = True
        self._run([*SORT_DECLARATIONS, OPAQUE.declaration, *analyses.tables(strict=strict)])
        self.add_operations(encoding.names)
        self._run([*encoding.lines, *analyses.origins(encoding.origins)])

    def mark(self) -> Callable[[], None]:
        """What goes back to the state of now, for an e-graph that did."""
        tables: tuple[dict[Any, Any], ...] = (
            self._commands, self._names, self._numbers, self._tests, self._asked, self._items, self._watched,
            self._loaded, self._applied, self.constructors)
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
        state = (len(self._names), len(self._numbers), len(self._tests), len(self._asked), len(self._items))
        if state == self._state:
            return
        self._state = state
        names, encoding = self._names.keys(), self._encoding
        facts = Facts(self._asked, names, encoding)
        self._numbers |= facts.numbers
        self._tests |= dict.fromkeys(facts.tests)
        self._passed = {}
        dtypes = self._dtypes = analyses.possible_dtypes(names, encoding.dtypes)
        for table in (*analyses.FOLDS.values(), *facts.tables):
            self._answers.add(table)
        if self._run([
            *analyses.rules(self.constructors),
            *analyses.items(max((facts.items, *self._items), default=0), self.constructors),
            *analyses.result_dtypes(names, dtypes), *analyses.literals(self._numbers, dtypes),
            *analyses.passed_tests(self._tests, dtypes), *facts.declarations, *facts.lines,
        ]):
            self.is_analysed = False

    # Rules

    def can_match(self, rule: CompiledRule) -> bool:
        """Whether all operations that a rule needs can occur, and a dtype of which it is true."""
        return rule.requires <= self._names.keys() and all(map(self._can_pass, rule.dtype_tests))

    def _can_pass(self, test: AttributeFunction) -> bool:
        """Whether some dtype passes a test."""
        known = self._passed.get(test.name)
        if known is None:
            known = self._passed[test.name] = any(analyses.passes(test, dtype) for dtype in self._dtypes)
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

    def _apply(self, rules: Collection[CompiledRule]) -> None:
        self._declare({name for each in rules for name in each.provides})
        self._asked |= dict.fromkeys(fact for each in rules for fact in sorted(each.whole.facts))
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

"""What one e-graph has been told: tables, analyses, facts and rules, each only once it has something to do.

Every command takes egglog some microseconds, a rule up to a millisecond, and most rules match nothing in most
programs. An operation can occur if the program has it or a rule that adds it has matched. A rule whose operations
can all occur is watched for (see `compile_rules`), and loaded when the watch finds its shape. A rule loaded late sees
everything that is there already: nothing is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from tcp_eqsat.egraph import analyses
from tcp_eqsat.egraph.columns import truncate
from tcp_eqsat.egraph.compile_rules import Compiled, CompiledRule
from tcp_eqsat.egraph.deferred import Answers
from tcp_eqsat.egraph.encode import Encoding
from tcp_eqsat.egraph.engine import Engine
from tcp_eqsat.egraph.facts import Facts
from tcp_eqsat.egraph.schema import OPAQUE, SORT_DECLARATIONS, Constructor, constructors_for
from tcp_eqsat.lang.scalar import Number
from tcp_eqsat.lang.scalars.conversion import conversion
from tcp_eqsat.lang.types import DTYPES


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
        self.constructors: dict[str, Constructor] = {}
        self.is_analysed = True
        self._run([*SORT_DECLARATIONS, OPAQUE.declaration, *analyses.tables(strict=strict)])
        self.add_operations(encoding.names)
        self._run([*encoding.lines, *analyses.origins(encoding.origins)])

    def mark(self) -> Callable[[], None]:
        """What goes back to the state of now, for an e-graph that did."""
        tables = (self._commands, self._names, self._numbers, self._asked, self._items, self._watched, self._loaded,
                  self.constructors)
        sizes = [len(table) for table in tables]

        def undo() -> None:
            for table, size in zip(tables, sizes, strict=True):
                truncate(table, size)

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
        facts = Facts(frozenset(self._asked), names, encoding)
        self._numbers |= facts.numbers
        for table in (*analyses.FOLDS.values(), *facts.tables):
            self._answers.add(table)
        dtypes = encoding.dtypes | {dtype for dtype in DTYPES.values() if conversion(dtype).name in names}
        if self._run([
            *analyses.rules(self.constructors),
            *analyses.items(max((facts.items, *self._items), default=0), self.constructors),
            *analyses.result_dtypes(names, dtypes), *analyses.literals(self._numbers, dtypes),
            *facts.declarations, *facts.lines,
        ]):
            self.is_analysed = False

    # Rules

    def can_match(self, rule: CompiledRule) -> bool:
        """Whether all operations that a rule needs can occur."""
        return rule.requires <= self._names.keys()

    def is_loaded(self, rule: CompiledRule) -> bool:
        return rule.name in self._loaded

    def watch(self, rules: Iterable[CompiledRule]) -> list[CompiledRule]:
        """Loads those rules that need no watch, and gives those that are watched for."""
        waiting = [each for each in rules if each.name not in self._loaded and self.can_match(each)]
        self.load([each for each in waiting if each.watch is None])
        watches = {each.name: each.watch for each in waiting if each.watch is not None}
        self._add([watch for name, watch in watches.items() if name not in self._watched])
        self._watched |= dict.fromkeys(watches)
        return [each for each in waiting if each.watch is not None]

    def load(self, rules: Collection[CompiledRule]) -> None:
        """Loads rules. Raises RuleError for one that can't be stated in egglog."""
        self._declare({name for each in rules for name in each.provides})
        self._add([each.whole for each in rules])
        self._loaded |= dict.fromkeys(each.name for each in rules)

    def _add(self, compiled: Collection[Compiled]) -> None:
        """Runs the commands of rules or watches, after what they refer to."""
        sizes = len(self._numbers), len(self._asked), len(self._items)
        for each in compiled:
            self._numbers |= each.numbers
            self._asked |= dict.fromkeys(each.facts)
            self._items |= dict.fromkeys((each.items,))
            if each.table is not None:
                self._answers.add(each.table)
        if sizes != (len(self._numbers), len(self._asked), len(self._items)):
            self._update()
        self._run([command for each in compiled for command in each.commands])

    def _run(self, commands: Iterable[str]) -> bool:
        """Runs those commands that have not run yet; whether there were any."""
        new = {command: None for command in commands if command not in self._commands}
        self._commands |= new
        self._engine.run(list(new))
        return bool(new)

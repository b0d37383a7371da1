"""Rewrite rules as rules of egglog.

What a pattern says becomes facts: a constructor for each operation, columns for its attributes, `splat` for numbers,
`fact_<name>` for facts, `origin` for values of the input. A rule whose condition or replacement computes attributes
has a deferred table besides: a first rule keeps the match and asks with the attributes and types in it, Python
decides the condition, computes attributes and types the replacement, and a second rule applies what Python answered.
An instance that Python can't type, or types differently from what it replaces, is declined.

Loading a rule takes egglog up to a millisecond. So most rules have a shorter form, a watch, that shows whether
anything in the e-graph has their shape; until something has, they need not be loaded.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tcp_eqsat.egraph.build import Builder
from tcp_eqsat.egraph.deferred import DeferredTable
from tcp_eqsat.egraph.encode import TYPED_BY_RULES
from tcp_eqsat.egraph.engine import quoted
from tcp_eqsat.egraph.match import Matcher, fact_table, operation_names
from tcp_eqsat.egraph.stages import Stage, stage_of
from tcp_eqsat.lang.scalar import Number
from tcp_eqsat.rules.attribute import AttributeApply
from tcp_eqsat.rules.facts import FactRule
from tcp_eqsat.rules.pattern import Operation, Pattern
from tcp_eqsat.rules.rule import Rule


@dataclass(frozen=True)
class Compiled:
    """Commands of one rule or fact rule, or of the watch for one.

    commands  declarations and rules
    asking    the ruleset that asks Python, where there is a table
    table     the deferred table, where something is computed in Python
    numbers   numbers that the patterns mention, by key
    facts     names of the facts that the condition asks for
    items     the most operands of an operation with any number of them
    """

    commands: tuple[str, ...]
    asking: str | None
    table: DeferredTable | None
    numbers: Mapping[str, Number]
    facts: frozenset[str]
    items: int


@dataclass(frozen=True, eq=False)
class CompiledRule:
    """One direction of a rule, compiled as far as it is asked for.

    `requires` are the names of the operations without which nothing matches, `provides` those that it adds.
    """

    rule: Rule
    strict: bool
    requires: frozenset[str]
    provides: frozenset[str]
    stage: Stage

    @property
    def name(self) -> str:
        return self.rule.name

    @property
    def ruleset(self) -> str:
        """The ruleset that applies it."""
        return f"rule_{self.name}"

    @property
    def watching(self) -> str:
        """The ruleset that watches for it."""
        return f"watch_{self.name}"

    @functools.cached_property
    def watch(self) -> Compiled | None:
        """A rule that matches wherever the left sides do, conditions aside, and does nothing; None where the rule
        itself is as short."""
        if self.rule.condition.parts or _computes(self.rule.rights):
            matcher = self._matcher()
            matcher.origins(self.rule.condition)
            return _compiled(matcher, (
                f"(ruleset {self.watching})", _rule(matcher.facts, (), self.watching, self.watching)))
        return None

    @functools.cached_property
    def whole(self) -> Compiled:
        """The rule. Raises RuleError where it can't be stated in egglog."""
        matcher, condition = self._matcher(), self.rule.condition
        matcher.origins(condition)
        matcher.known(condition)
        roots = [matcher.class_of(left) for left in self.rule.lefts]
        equalities = tuple(zip(self.rule.lefts, self.rule.rights, strict=True))
        builder = Builder(matcher, equalities, condition, self.strict)
        terms = [builder.term(right) for right in self.rule.rights]
        heads = [*builder.lets, *(f"(union {root} {term})" for root, term in zip(roots, terms, strict=True))]
        asking, commands, table = _commands(builder, heads, self.ruleset, f"ask_{self.ruleset}")
        rulesets = [f"(ruleset {each})" for each in (self.ruleset, asking) if each]
        return _compiled(matcher, (*rulesets, *commands), asking, table)

    def _matcher(self) -> Matcher:
        matcher = Matcher(self.name, self.rule.where)
        for left in self.rule.lefts:
            matcher.match(left)
        return matcher


@functools.lru_cache(maxsize=1 << 12)
def compile_rule(rule: Rule, *, strict: bool = False) -> tuple[CompiledRule, ...]:
    """One rule for each direction. `strict` makes an instance that can't be typed a RuleError, else it is declined."""
    return tuple(
        CompiledRule(each, strict, operation_names(each.lefts), operation_names(each.rights), stage_of(each))
        for each in rule.directions())


@functools.lru_cache(maxsize=1 << 12)
def compile_fact(rule: FactRule, ruleset: str) -> Compiled:
    """A fact rule within `ruleset`."""
    matcher = Matcher(f"fact_{rule.name}", None)
    root = matcher.match(rule.pattern)
    matcher.origins(rule.condition)
    matcher.known(rule.condition)
    builder = Builder(matcher, ((rule.pattern, None),), rule.condition, strict=False)
    asking, commands, table = _commands(builder, [f"({fact_table(rule.fact.name)} {root})"], ruleset, ruleset)
    return _compiled(matcher, commands, asking, table)


def _computes(rights: Iterable[Pattern]) -> bool:
    """Whether a replacement may need Python: for attributes, or for types that no rule of egglog derives."""
    parts = [part for right in rights for part in right.walk()]
    return any(isinstance(x, Operation) and x.name not in TYPED_BY_RULES for x in parts) or any(
        isinstance(term, AttributeApply) for x in parts for term in x.attributes)


def _compiled(matcher: Matcher, commands: Iterable[str], asking: str | None = None,
              table: DeferredTable | None = None) -> Compiled:
    return Compiled(
        tuple(commands), asking, table, matcher.numbers, frozenset(matcher.fact_names), matcher.items)


def _commands(builder: Builder, heads: list[str], ruleset: str, asking: str,
              ) -> tuple[str | None, list[str], DeferredTable | None]:
    """The ruleset that asks, if any; the rule that applies, after the one that asks; the table."""
    matcher, table = builder.matcher, builder.table()
    if table is None:
        return None, [_rule((*matcher.facts, *builder.facts), heads, ruleset, matcher.name)], None
    key = f"({table.want} {' '.join(builder.inputs())})"
    classes = " ".join(builder.classes())
    match = f"match_{matcher.name}"
    return asking, [
        *table.declarations,
        f"(relation {match} ({' '.join('T' for _ in builder.classes())} Key))",
        _rule(matcher.facts, [f"({match} {classes} {key})"], asking, f"ask_{matcher.name}"),
        _rule((f"({match} {classes} ?key)", f"(= ?key {key})", f"({table.have} ?key {' '.join(builder.outputs())})",
               *builder.facts), heads, ruleset, matcher.name),
    ], table


_VARIABLE = re.compile(r"\?\w+")


def _rule(facts: Iterable[str], heads: Iterable[str], ruleset: str, name: str) -> str:
    body = " ".join(_without_repetitions(dict.fromkeys(facts)))
    return f"(rule ({body}) ({' '.join(heads)}) :ruleset {ruleset} :name {quoted(name)})"


def _without_repetitions(facts: Iterable[str]) -> Iterator[str]:
    """Facts that name no variable twice: egglog 13 matches deleted rows where two columns of one row must be equal."""
    copies = itertools.count()
    for fact in facts:
        seen: set[str] = set()
        equal: list[str] = []

        def renamed(match: re.Match[str], seen: set[str] = seen, equal: list[str] = equal) -> str:
            variable = match.group()
            if variable not in seen:
                seen.add(variable)
                return variable
            copy = f"?copy{next(copies)}"
            equal.append(f"(value-eq {variable} {copy})")
            return copy

        yield _VARIABLE.sub(renamed, fact)
        yield from equal

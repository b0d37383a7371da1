"""Rewrite rules as rules of egglog.

What a pattern says becomes facts: a constructor for each operation, columns for its attributes, `splat` for numbers,
`fact_<name>` for facts, `origin` for values of the input. A rule whose condition or replacement computes attributes
has a deferred table besides: a first rule keeps the match and asks with the attributes and types in it, Python
decides the condition, computes attributes and types the replacement, and a second rule applies what Python answered.
An instance that Python can't type, or types differently from what it replaces, is declined.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tcp_eqsat.egraph.build import Builder
from tcp_eqsat.egraph.deferred import DeferredTable
from tcp_eqsat.egraph.engine import quoted
from tcp_eqsat.egraph.match import Matcher, fact_table, operation_names
from tcp_eqsat.egraph.stages import Stage, stage_of
from tcp_eqsat.lang.scalar import Number
from tcp_eqsat.rules.facts import FactRule
from tcp_eqsat.rules.rule import Rule


@dataclass(frozen=True)
class Compiled:
    """Commands of one rule or fact rule.

    commands  declarations and rules
    table     the deferred table, where something is computed in Python
    numbers   numbers that the patterns mention, by key
    facts     names of the facts that the condition asks for
    requires  names of the operations without which nothing matches
    items     the most operands of an operation with any number of them
    """

    name: str
    commands: tuple[str, ...]
    table: DeferredTable | None
    numbers: Mapping[str, Number]
    facts: frozenset[str]
    requires: frozenset[str]
    items: int


@dataclass(frozen=True)
class CompiledRule(Compiled):
    """One direction of a rule. `ruleset` applies it, `asking` asks Python first, where there is a table.

    `provides` are the names of the operations that it adds.
    """

    provides: frozenset[str]
    stage: Stage
    ruleset: str
    asking: str | None


@functools.lru_cache(maxsize=1 << 12)
def compile_rule(rule: Rule, *, strict: bool = False) -> tuple[CompiledRule, ...]:
    """One compiled rule for each direction.

    `strict` makes an instance that can't be typed a RuleError instead of declining it. Raises RuleError for a rule
    that can't be stated in egglog.
    """
    return tuple(_compile(each, strict) for each in rule.directions())


def _compile(rule: Rule, strict: bool) -> CompiledRule:
    matcher = Matcher(rule.name, rule.where)
    roots = [matcher.match(left) for left in rule.lefts]
    matcher.conditions(rule.condition)
    builder = Builder(matcher, tuple(zip(rule.lefts, rule.rights, strict=True)), rule.condition, strict)
    terms = [builder.term(right) for right in rule.rights]
    ruleset = f"rule_{rule.name}"
    heads = [*builder.lets, *(f"(union {root} {term})" for root, term in zip(roots, terms, strict=True))]
    asking, commands, table = _commands(builder, heads, ruleset, f"ask_{ruleset}")
    rulesets = [f"(ruleset {each})" for each in (ruleset, asking) if each]
    return CompiledRule(
        rule.name, (*rulesets, *commands), table, matcher.numbers, frozenset(matcher.fact_names),
        operation_names(rule.lefts), matcher.items, operation_names(rule.rights), stage_of(rule), ruleset, asking)


@functools.lru_cache(maxsize=1 << 12)
def compile_fact(rule: FactRule, ruleset: str) -> Compiled:
    """A fact rule within `ruleset`."""
    matcher = Matcher(f"fact_{rule.name}", None)
    root = matcher.match(rule.pattern)
    matcher.conditions(rule.condition)
    builder = Builder(matcher, ((rule.pattern, None),), rule.condition, strict=False)
    _, commands, table = _commands(builder, [f"({fact_table(rule.fact.name)} {root})"], ruleset, ruleset)
    return Compiled(rule.name, tuple(commands), table, matcher.numbers, frozenset(matcher.fact_names),
                    operation_names((rule.pattern,)), matcher.items)


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

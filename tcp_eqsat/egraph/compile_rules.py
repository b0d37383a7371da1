"""Rewrite rules as rules of egglog.

What a pattern says becomes facts: a constructor for each operation, columns for its attributes, `splat` for numbers,
`fact_<name>` for facts, `origin` for values of the input. A rule whose condition or replacement computes attributes
has a deferred table besides: a first rule keeps the match and asks with the attributes and types in it, Python
decides the condition, computes attributes and types the replacement, and a second rule applies what Python answered.
An instance that Python can't type, or types differently from what it replaces, is declined.

Loading a rule takes egglog up to a millisecond. So most rules have a shorter form, a watch, that shows whether
anything in the e-graph has their shape; until something has, they need not be loaded. And until Python has answered,
what applies its answers need not be.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from tcp_eqsat.egraph.build import Builder
from tcp_eqsat.egraph.deferred import DeferredTable
from tcp_eqsat.egraph.encode import TYPED_BY_RULES
from tcp_eqsat.egraph.engine import quoted
from tcp_eqsat.egraph.instance import is_decided_in_python
from tcp_eqsat.egraph.match import Matcher, fact_table, is_dtype_test, operation_names
from tcp_eqsat.egraph.stages import Stage, stage_of
from tcp_eqsat.lang.scalar import Number
from tcp_eqsat.rules.attribute import AttributeApply, AttributeFunction
from tcp_eqsat.rules.condition import Condition, Holds, Known
from tcp_eqsat.rules.facts import FactRule
from tcp_eqsat.rules.pattern import Operation, Pattern
from tcp_eqsat.rules.rule import Rule


@dataclass(frozen=True)
class Compiled:
    """Commands of one rule or fact rule, or of the watch for one.

    asking    declarations and the rule that asks Python, where there is a table
    applying  declarations and the rule that applies what was asked, or all there is
    table     the deferred table, where something is computed in Python
    match     the relation of what was matched, where there is a table: classes and the request
    numbers   numbers that the patterns mention, by key
    facts     the facts that the condition asks for when it is applied, with the column of `match` they are asked of
    tests     tests of dtypes that the condition makes
    items     the most operands of an operation with any number of them
    """

    asking: tuple[str, ...]
    applying: tuple[str, ...]
    table: DeferredTable | None
    match: str
    numbers: Mapping[str, Number]
    facts: tuple[tuple[str, int], ...]
    tests: tuple[AttributeFunction, ...]
    items: int


@dataclass(frozen=True, eq=False)
class CompiledRule:
    """One direction of a rule, compiled as far as it is asked for.

    `requires` are the names of the operations without which nothing matches.
    """

    rule: Rule
    strict: bool
    requires: frozenset[str]

    @property
    def name(self) -> str:
        return self.rule.name

    @functools.cached_property
    def provides(self) -> frozenset[str]:
        """The names of the operations that it adds."""
        return operation_names(self.rule.rights)

    @functools.cached_property
    def stage(self) -> Stage:
        return stage_of(self.rule)

    @functools.cached_property
    def dtype_tests(self) -> tuple[AttributeFunction, ...]:
        """Tests that some dtype must pass."""
        return tuple(
            part.test.function for part in self.rule.condition.parts if isinstance(part, Holds) and is_dtype_test(part))

    @property
    def ruleset(self) -> str:
        """The ruleset that applies it."""
        return f"rule_{self.name}"

    @property
    def asking(self) -> str:
        """The ruleset that asks Python."""
        return f"ask_{self.name}"

    @property
    def watching(self) -> str:
        """The ruleset that watches for it."""
        return f"watch_{self.name}"

    @functools.cached_property
    def watch(self) -> Compiled | None:
        """A rule that matches wherever the left sides do, conditions aside, and does nothing; None where the rule
        itself is as short."""
        if _asks(self.rule.condition) or _computes(self.rule.rights):
            matcher = self._matcher()
            matcher.native(self.rule.condition)
            rule = _rule(matcher.facts, (), self.watching, self.watching)
            return Compiled(
                (), (f"(ruleset {self.watching})", rule), None, "", matcher.numbers, (), tuple(matcher.dtype_tests),
                matcher.items)
        return None

    @functools.cached_property
    def whole(self) -> Compiled:
        """The rule. Raises RuleError where it can't be stated in egglog."""
        matcher, condition = self._matcher(), self.rule.condition
        matcher.native(condition)
        roots = [matcher.class_of(left) for left in self.rule.lefts]
        equalities = tuple(zip(self.rule.lefts, self.rule.rights, strict=True))
        builder = Builder(matcher, equalities, condition, self.strict)
        terms = [builder.term(right) for right in self.rule.rights]
        heads = [*builder.lets, *(f"(union {root} {term})" for root, term in zip(roots, terms, strict=True))]
        found = _compiled(builder, heads, self.ruleset, self.asking)
        return replace(found, asking=(f"(ruleset {self.asking})", *found.asking),
                       applying=(f"(ruleset {self.ruleset})", *found.applying))

    def _matcher(self) -> Matcher:
        matcher = Matcher(self.name, self.rule.where)
        for left in self.rule.lefts:
            matcher.match(left)
        return matcher


def compile_rule(rule: Rule, *, strict: bool = False) -> tuple[CompiledRule, ...]:
    """One rule for each direction. `strict` makes an instance that can't be typed a RuleError, else it is declined."""
    return _compile(_Itself(rule), strict)


@dataclass(frozen=True, eq=False)
class _Itself:
    """A rule as a key: equal to itself only, which takes no look at its patterns."""

    rule: Rule

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and other.rule is self.rule

    def __hash__(self) -> int:
        return id(self.rule)


@functools.lru_cache(maxsize=1 << 12)
def _compile(key: _Itself, strict: bool) -> tuple[CompiledRule, ...]:
    return tuple(CompiledRule(each, strict, operation_names(each.lefts)) for each in key.rule.directions())


def compile_fact(rule: FactRule, ruleset: str) -> Compiled:
    """A fact rule within `ruleset`. Tests of dtypes are left to egglog.

    Rules ask Python about them nevertheless: what asks sees the e-graph before any rule of its round ran, and not
    values that are known as soon as the analyses come to them.
    """
    condition = Condition(tuple(part for part in rule.condition.parts if not is_dtype_test(part)))
    matcher = Matcher(f"fact_{rule.name}", None)
    root = matcher.match(rule.pattern)
    matcher.native(rule.condition)
    builder = Builder(matcher, ((rule.pattern, None),), condition, strict=False)
    return _compiled(builder, [f"({fact_table(rule.fact.name)} {root})"], ruleset, ruleset)


def _asks(condition: Condition) -> bool:
    """Whether a condition asks Python or for facts."""
    return any(is_decided_in_python(part) or isinstance(part, Known) for part in condition.parts)


def _computes(rights: Iterable[Pattern]) -> bool:
    """Whether a replacement may need Python: for attributes, or for types that no rule of egglog derives."""
    parts = [part for right in rights for part in right.walk()]
    return any(isinstance(x, Operation) and x.name not in TYPED_BY_RULES for x in parts) or any(
        isinstance(term, AttributeApply) for x in parts for term in x.attributes)


def _compiled(builder: Builder, heads: list[str], ruleset: str, asking: str) -> Compiled:
    """What asks, if anything has to, and what applies."""
    matcher, table = builder.matcher, builder.table()
    match, classes = f"match_{matcher.name}", builder.classes()
    known = matcher.known(builder.condition)
    facts = [f"({fact_table(fact)} {variable})" for fact, variable in known]
    if table is None:
        asks: tuple[str, ...] = ()
        applies = _rule((*matcher.facts, *builder.facts, *facts), heads, ruleset, matcher.name)
    else:
        key = f"({table.want} {' '.join(builder.inputs())})"
        matched = f"({match} {' '.join(classes)} "
        asks = (
            *table.declarations,
            f"(relation {match} ({' '.join('T' for _ in classes)} Key))",
            _rule(matcher.facts, [f"{matched}{key})"], asking, f"ask_{matcher.name}"))
        have = f"({table.have} ?key {' '.join(builder.outputs())})"
        applies = _rule((f"{matched}?key)", f"(= ?key {key})", have, *builder.facts, *facts), heads, ruleset,
                        matcher.name)
    return Compiled(
        asks, (applies,), table, match, matcher.numbers,
        tuple((fact, classes.index(variable)) for fact, variable in known), tuple(matcher.dtype_tests), matcher.items)


_VARIABLE = re.compile(r"\?\w+")


def _rule(facts: Iterable[str], heads: Iterable[str], ruleset: str, name: str) -> str:
    body = " ".join(_without_repetitions(dict.fromkeys(facts)))
    return f"(rule ({body}) ({' '.join(heads)}) :ruleset {ruleset} :name {quoted(name)})"


def _without_repetitions(facts: Iterable[str]) -> Iterator[str]:
    """Facts that name no variable twice: egglog 13 matches deleted rows where two columns of one row must be equal."""
    copies = itertools.count()
    for fact in facts:
        names = _VARIABLE.findall(fact)
        if len(set(names)) == len(names):
            yield fact
            continue
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

"""Rewrite rules as rules of egglog.

What a pattern says becomes facts: a constructor for each operation, columns for its attributes, `splat` for numbers,
`fact_<name>` for facts, `origin` for values of the input. A rule whose condition or replacement computes attributes
has a deferred table besides: a first rule keeps the match and asks with the attributes and types in it, Python
decides the condition, computes attributes and types the replacement, and a second rule applies what Python answered.
An instance that Python can't type, or types differently from what it replaces, is declined.
"""

from __future__ import annotations

import enum
import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tcp_eqsat.egraph.columns import TYPE, Codec, Ints, codec_of, field_codecs
from tcp_eqsat.egraph.deferred import DeferredTable
from tcp_eqsat.egraph.encode import TYPED_BY_RULES
from tcp_eqsat.egraph.engine import quoted
from tcp_eqsat.egraph.schema import MAPS, OPAQUE, SCALAR, constructor_of
from tcp_eqsat.errors import Location, RuleError, TcpError, TypeMismatch
from tcp_eqsat.lang.dims import Size
from tcp_eqsat.lang.op import op_named
from tcp_eqsat.lang.ops.attributes import MapAttributes
from tcp_eqsat.lang.ops.elementwise import map_op
from tcp_eqsat.lang.ops.movement import view_op
from tcp_eqsat.lang.scalar import Number, ScalarOp, encode_number, function_of
from tcp_eqsat.lang.types import DType, Shape, TensorType, Type, dtype_named, dtype_of
from tcp_eqsat.rules.attribute import (
    AttributeConstant,
    AttributeTerm,
    AttributeVariable,
    Sort,
    evaluate_term,
    same_value,
)
from tcp_eqsat.rules.condition import Condition, Holds, Known, OrderedOriginals, Part
from tcp_eqsat.rules.facts import FactRule
from tcp_eqsat.rules.pattern import Apply, Operation, OperationVariable, Pattern, Splat, TensorVariable
from tcp_eqsat.rules.rule import Phase, Rule


def _number_value(dtype: str, bits: str) -> Any:
    return np.frombuffer(bytes.fromhex(bits), dtype_named(dtype).numpy)[0]


NUMBER = Codec(
    ("String", "String"),
    lambda x: (f'"{dtype_of(x.dtype)}"', f'"{encode_number(x, dtype_of(x.dtype)).hex()}"'), _number_value)
_CODEC_OF_SORT: Mapping[Sort, Codec] = {
    Sort.INTS: codec_of(Ints), Sort.SHAPE: codec_of(Shape), Sort.SIZE: codec_of(Size),
    Sort.INT: codec_of(int), Sort.OPERATION: codec_of(ScalarOp), Sort.TYPE: codec_of(TensorType),
    Sort.NUMBER: NUMBER,
}


class Stage(enum.Enum):
    """When a rule joins: every stage runs to a fixed point with all rules so far before the next begins.

    SIMPLIFY   the phase of that name
    STRUCTURE  rules about tensor operations that do not add work, and algebra that gets shorter
    SIBLINGS   rules with several roots. They run once: they could match for ever what they add
    ALGEBRA    what adds work, and laws of scalar operations that keep it: together they may go on for ever
    """

    SIMPLIFY = "simplify"
    STRUCTURE = "structure"
    SIBLINGS = "siblings"
    ALGEBRA = "algebra"


MOVEMENT = frozenset(("view", "reshape", "slice", "concatenate", "pad"))
"""Operations that compute nothing."""


def stage_of(rule: Rule) -> Stage:
    """The stage of one direction of a rule."""
    if rule.phase is Phase.SIMPLIFY:
        return Stage.SIMPLIFY
    if len(rule.lefts) > 1:
        return Stage.SIBLINGS
    before, after = _operations(rule.lefts), _operations(rule.rights)
    is_structural = any(isinstance(x, Operation) for x in before | after)
    work = _work(after) - _work(before)
    return Stage.STRUCTURE if work < 0 or (is_structural and work == 0) else Stage.ALGEBRA


def _operations(patterns: Iterable[Pattern]) -> frozenset[Pattern]:
    return frozenset(x for pattern in patterns for x in pattern.walk() if isinstance(x, (Apply, Operation)))


def _work(operations: frozenset[Pattern]) -> int:
    """How many of the operations compute something."""
    return sum(not isinstance(x, Operation) or x.name not in MOVEMENT for x in operations)


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
    matcher = _Matcher(rule.name, rule.where)
    roots = [matcher.match(left) for left in rule.lefts]
    matcher.conditions(rule.condition)
    builder = _Builder(matcher, tuple(zip(rule.lefts, rule.rights, strict=True)), rule.condition, strict)
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
    matcher = _Matcher(f"fact_{rule.name}", None)
    root = matcher.match(rule.pattern)
    matcher.conditions(rule.condition)
    builder = _Builder(matcher, ((rule.pattern, None),), rule.condition, strict=False)
    _, commands, table = _commands(builder, [f"({fact_table(rule.fact.name)} {root})"], ruleset, ruleset)
    return Compiled(rule.name, tuple(commands), table, matcher.numbers, frozenset(matcher.fact_names),
                    operation_names((rule.pattern,)), matcher.items)


def _commands(builder: _Builder, heads: list[str], ruleset: str, asking: str,
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


def fact_table(name: str) -> str:
    """The relation of the values of which a fact is known."""
    return f"fact_{name}"


# The left side --------------------------------------------------------------------------------------------------------


@dataclass
class _Matcher:
    """Facts that hold where the left sides and the native part of the condition match."""

    name: str
    where: Location | None
    facts: list[str] = field(default_factory=list)
    numbers: dict[str, Number] = field(default_factory=dict)
    fact_names: set[str] = field(default_factory=set)
    tensors: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, tuple[Codec, tuple[str, ...]]] = field(default_factory=dict)
    operations: dict[str, str] = field(default_factory=dict)
    items: int = 0
    _classes: dict[Pattern, str] = field(default_factory=dict)

    def match(self, pattern: Pattern) -> str:
        """The variable of a pattern's class; equal patterns are the same class."""
        pattern = without_likes(pattern)
        known = self._classes.get(pattern)
        if known is None:
            known = self._classes[pattern] = (
                f"?t_{pattern.name}" if isinstance(pattern, TensorVariable) else f"?n{len(self._classes)}")
            self._match_new(pattern, known)
        return known

    def class_of(self, pattern: Pattern) -> str:
        """The variable of a pattern that was matched."""
        return self._classes[without_likes(pattern)]

    def _match_new(self, pattern: Pattern, variable: str) -> None:
        match pattern:
            case TensorVariable(name):
                self.tensors[name] = variable
            case Splat(value):
                self._match_splat(value, variable)
            case Apply(operation, arguments):
                operands = [self.match(x) for x in arguments]
                term = MAPS[len(operands)].text(tuple(operands), (self._name(operation),))
                self.facts.append(f"(= {variable} {term})")
            case Operation(name, arguments, terms):
                constructor = constructor_of(op_named(name))
                operands = [self.match(x) for x in arguments]
                columns = tuple(text for term, (_, codec) in zip(terms, _fields(name), strict=True)
                                for text in self._column(term, codec))
                if constructor.operands is None:
                    items = f"{variable}_items"
                    self.facts.append(f"(= {variable} ({constructor.name} {' '.join((items, *columns))}))")
                    self.facts.append(f"(= {len(operands)} (count {items}))")
                    self.facts += [f"(= {x} (item {items} {n}))" for n, x in enumerate(operands)]
                    self.items = max(self.items, len(operands))
                else:
                    self.facts.append(f"(= {variable} {constructor.text(tuple(operands), columns)})")

    def _match_splat(self, value: AttributeTerm, variable: str) -> None:
        if isinstance(value, AttributeConstant):
            bits = self.literal(value, self.dtype(variable))
        else:
            assert isinstance(value, AttributeVariable)
            dtype, bits = self._bind(value, NUMBER)
            self.facts.append(f"(= {dtype} (dtype {variable}))")
        self.facts.append(f"(= {bits} (splat {variable}))")

    def literal(self, value: AttributeConstant, dtype: str) -> str:
        """The variable of a number's bits in a dtype; no match where the dtype can't hold the number."""
        self.numbers[value.key] = value.value
        bits = f"?l{list(self.numbers).index(value.key)}_{dtype.lstrip('?')}"
        self.facts.append(f"(= {bits} (literal {quoted(value.key)} {dtype}))")
        return bits

    def _name(self, operation: ScalarOp | OperationVariable) -> str:
        if isinstance(operation, ScalarOp):
            return f'"{operation.name}"'
        return self.operations.setdefault(operation.name, f"?o_{operation.name}")

    def _column(self, term: AttributeTerm, codec: Codec) -> tuple[str, ...]:
        if isinstance(term, AttributeConstant):
            return codec.encode(term.value)
        assert isinstance(term, AttributeVariable), term
        return self._bind(term, codec)

    def _bind(self, variable: AttributeVariable, codec: Codec) -> tuple[str, ...]:
        names = tuple(f"?a_{variable.name}{n}" for n in range(len(codec.sorts)))
        bound, names = self.attributes.setdefault(variable.name, (codec, names))
        if bound is not codec:
            raise RuleError(f"rule {self.name}: {variable} is matched as labels and as other integers", self.where)
        return names

    def dtype(self, variable: str) -> str:
        """The variable of a class's dtype."""
        name = f"?dtype_{variable.lstrip('?')}"
        self.facts.append(f"(= {name} (dtype {variable}))")
        return name

    def type(self, variable: str) -> str:
        """The variable of a class's type."""
        name = f"?type_{variable.lstrip('?')}"
        self.facts.append(f"(= {name} (type {variable}))")
        return name

    def shape(self, variable: str) -> str:
        """The variable of a class's shape."""
        name = f"?shape_{variable.lstrip('?')}"
        self.facts.append(f"(= {name} (shape {variable}))")
        return name

    def conditions(self, condition: Condition) -> None:
        """Facts of the parts that egglog decides."""
        for part in condition.parts:
            match part:
                case Known(fact, TensorVariable(name)):
                    self.fact_names.add(fact.name)
                    self.facts.append(f"({fact_table(fact.name)} {self.tensors[name]})")
                case OrderedOriginals(operands):
                    names = [f"?origin_{x.name}" for x in operands]
                    self.facts += [f"(= {n} (origin {self.tensors[x.name]}))"
                                   for n, x in zip(names, operands, strict=True)]
                    self.facts += [f"(< {a} {b})" for a, b in itertools.pairwise(names)]


def operation_names(patterns: Iterable[Pattern]) -> frozenset[str]:
    """Names of the tensor and scalar operations of patterns; a number is a `constant`."""
    names = set()
    for part in (x for pattern in patterns for x in pattern.walk()):
        match part:
            case Splat():
                names.add("constant")
            case Operation(name):
                names.add(name)
            case Apply(ScalarOp(name)):
                names.add(name)
    return frozenset(names)


def without_likes(pattern: Pattern) -> Pattern:
    """The pattern as it is matched: a splat is its number."""
    if isinstance(pattern, Splat):
        return Splat(pattern.value)
    return pattern.with_operands(tuple(map(without_likes, pattern.operands)))


def _fields(name: str) -> tuple[tuple[str, Codec], ...]:
    op = op_named(name)
    fields = () if op.attributes is None else field_codecs(op.attributes)
    if fields is None:
        raise RuleError(f"{name} can't stand in a pattern of the e-graph")
    return fields


# The right side -------------------------------------------------------------------------------------------------------


class _Builder:
    """Terms of the replacements, and the deferred table where something is left to Python."""

    def __init__(self, matcher: _Matcher, equalities: tuple[tuple[Pattern, Pattern | None], ...], condition: Condition,
                 strict: bool) -> None:
        self.matcher = matcher
        self._equalities = equalities
        self._condition = condition
        self._strict = strict
        self.facts: list[str] = []
        self.lets: list[str] = []
        self._computed: dict[AttributeTerm, tuple[Codec, tuple[str, ...], Pattern | None]] = {}
        self._typed: dict[Pattern, tuple[str, str]] = {}
        self._terms: dict[Pattern, str] = {}

    def term(self, pattern: Pattern) -> str:
        """Text that makes the root of a replacement."""
        return self._make(pattern)

    def _operand(self, pattern: Pattern) -> str:
        """A name for an inner value; values that occur twice are made once."""
        if isinstance(pattern, TensorVariable):
            return self.matcher.tensors[pattern.name]
        known = self._terms.get(pattern)
        if known is None:
            text = self._make(pattern)
            known = self._terms[pattern] = f"?r{len(self._terms)}"
            self.lets.append(f"(let {known} {text})")
            if isinstance(pattern, Operation) and pattern.name not in TYPED_BY_RULES:
                dtype, shape = self._typed[pattern] = (f"{known}_dtype", f"{known}_shape")
                self.lets.append(f"(set (dtype {known}) {dtype})")
                self.lets.append(f"(set (shape {known}) {shape})")
        return known

    def _make(self, pattern: Pattern) -> str:
        match pattern:
            case TensorVariable(name):
                return self.matcher.tensors[name]
            case Splat(value, like):
                assert like is not None, pattern
                return self._splat(value, like)
            case Apply(operation, arguments):
                name = (f'"{operation.name}"' if isinstance(operation, ScalarOp)
                        else self.matcher.operations[operation.name])
                return MAPS[len(arguments)].text(tuple(map(self._operand, arguments)), (name,))
            case Operation(name, arguments, terms):
                constructor = constructor_of(op_named(name))
                assert constructor is not OPAQUE
                columns = tuple(text for term, (_, codec) in zip(terms, _fields(name), strict=True)
                                for text in self._columns(term, codec, None))
                return constructor.text(tuple(map(self._operand, arguments)), columns)
        raise RuleError(f"rule {self.matcher.name}: {pattern} can't stand in a replacement", self.matcher.where)

    def _splat(self, value: AttributeTerm, like: Pattern) -> str:
        source = self.matcher.class_of(like)
        matched = len(self.matcher.facts)
        shape = self.matcher.shape(source)
        if isinstance(value, AttributeConstant):
            dtype = self.matcher.dtype(source)
            columns: tuple[str, ...] = (dtype, self.matcher.literal(value, dtype))
        else:
            columns = self._columns(value, NUMBER, like)
        self.facts += self.matcher.facts[matched:]
        del self.matcher.facts[matched:]
        return constructor_of(view_op).text((SCALAR.text((), columns),), ("(vec-of 0)", shape))

    def _columns(self, term: AttributeTerm, codec: Codec, like: Pattern | None) -> tuple[str, ...]:
        if isinstance(term, AttributeConstant):
            return codec.encode(term.value)
        if isinstance(term, AttributeVariable):
            bound, names = self.matcher.attributes[term.name]
            if bound is codec:
                return names
        known = self._computed.get(term)
        if known is None or known[0] is not codec:
            number = len(self._computed)
            names = tuple(f"?c{number}_{n}" for n in range(len(codec.sorts)))
            known = self._computed[term] = (codec, names, like)
        return known[1]

    # The deferred table

    def table(self) -> DeferredTable | None:
        """The table that decides the rest of the condition and computes attributes and types, where there is any."""
        asked = tuple(part for part in self._condition.parts if _in_python(part))
        if not asked and not self._computed and not self._typed:
            return None
        matcher = self.matcher
        inputs = (*(codec for codec, _ in matcher.attributes.values()),
                  *(codec_of(ScalarOp) for _ in matcher.operations),
                  *(TYPE for _ in self._typed_patterns()))
        outputs = (*(codec for codec, _, _ in self._computed.values()), *(codec_of(TensorType) for _ in self._typed))
        return DeferredTable(matcher.name, inputs, outputs, _Instance(
            matcher.name, matcher.where, (*matcher.attributes, *matcher.operations), self._typed_patterns(), asked,
            tuple((term, like) for term, (_, _, like) in self._computed.items()), self._equalities,
            tuple(self._typed), self._strict))

    def _typed_patterns(self) -> tuple[Pattern, ...]:
        """The patterns whose types Python is told: roots and tensor variables."""
        roots = (without_likes(left) for left, _ in self._equalities)
        return tuple(dict.fromkeys((*roots, *map(TensorVariable, self.matcher.tensors))))

    def inputs(self) -> list[str]:
        """Columns of everything that was matched; what binds them is added to the matcher's facts."""
        columns = [name for _, names in self.matcher.attributes.values() for name in names]
        columns += self.matcher.operations.values()
        return columns + [self.matcher.type(self.matcher.class_of(x)) for x in self._typed_patterns()]

    def classes(self) -> list[str]:
        """The classes that were matched and that the heads may speak of."""
        return [self.matcher.class_of(x) for x in self._typed_patterns()]

    def outputs(self) -> list[str]:
        columns = [name for _, names, _ in self._computed.values() for name in names]
        return columns + [name for names in self._typed.values() for name in names]


def _in_python(part: Any) -> bool:
    return isinstance(part, Holds) or (isinstance(part, Known) and isinstance(part.variable, AttributeVariable))


@dataclass(frozen=True)
class _Match:
    """What the condition's Python parts may ask: facts of tensors and originals were decided by egglog."""

    values: Mapping[str, Any]

    def knows(self, fact: Any, name: str) -> bool:
        raise AssertionError("facts of tensors are decided by egglog")

    def original(self, name: str) -> int | None:
        raise AssertionError("originals are decided by egglog")


@dataclass(frozen=True)
class _Instance:
    """The function of a rule's table: what was matched -> computed attributes and types, or None.

    names       attribute and operation variables, the first arguments
    patterns    roots and tensor variables, whose types are the other arguments
    asked       the parts of the condition
    computed    attributes to compute; with the pattern whose dtype a number takes
    equalities  roots with their replacements, whose types must be the same
    typed       inner values of the replacements that no rule of egglog types
    """

    name: str
    where: Location | None
    names: tuple[str, ...]
    patterns: tuple[Pattern, ...]
    asked: tuple[Part, ...]
    computed: tuple[tuple[AttributeTerm, Pattern | None], ...]
    equalities: tuple[tuple[Pattern, Pattern | None], ...]
    typed: tuple[Pattern, ...]
    strict: bool

    def __call__(self, *arguments: Any) -> tuple[Any, ...] | None:
        types = dict(zip(self.patterns, arguments[len(self.names):], strict=True))
        values = dict(zip(self.names, arguments, strict=False))
        values |= {x.name: found for x, found in types.items() if isinstance(x, TensorVariable)}
        match = _Match(values)
        if not all(part.holds(match) for part in self.asked):
            return None
        results: list[Any] = []
        for term, like in self.computed:
            value = evaluate_term(term, values)
            if value is None:
                return None
            results.append(value if like is None else _as_number(value, types[without_likes(like)].dtype))
        typing = _Typing(values, types)
        try:
            for left, right in self.equalities:
                if right is not None:
                    _require_same(left, types[without_likes(left)], right, typing.of(right))
            return (*results, *map(typing.of, self.typed))
        except TcpError as error:
            if self.strict:
                raise RuleError(f"rule {self.name} is ill-typed for {values}: {error}", self.where) from error
            return None


def _require_same(left: Pattern, before: TensorType, right: Pattern, after: TensorType) -> None:
    if not (before.dtype == after.dtype and same_value(before.shape, after.shape)):
        raise TypeMismatch(f"{left} has type {before}, but {right} has type {after}")


def _as_number(value: Any, dtype: DType) -> Any:
    """A computed number as a scalar: of its own dtype if it has one."""
    if isinstance(value, np.generic):
        return value
    return np.frombuffer(encode_number(value, dtype), dtype.numpy)[0]


@dataclass(frozen=True)
class _Typing:
    """Types of replacements: `values` binds attributes by name, `types` tensor variables and roots."""

    values: Mapping[str, Any]
    types: Mapping[Pattern, TensorType]

    def of(self, pattern: Pattern) -> TensorType:
        """The type of a value of the replacement; raises TcpError where it has none."""
        match pattern:
            case TensorVariable():
                return self.types[pattern]
            case Splat(value, like):
                assert like is not None, pattern
                found = self.types[without_likes(like)]
                number = None if isinstance(value, AttributeConstant) else evaluate_term(value, self.values)
                return TensorType(dtype_of(number.dtype), found.shape) if isinstance(number, np.generic) else found
            case Apply(operation, arguments):
                operands = tuple(map(self.of, arguments))
                op = operation if isinstance(operation, ScalarOp) else self.values[operation.name]
                return _tensor(map_op.infer_type(
                    operands, MapAttributes(function_of(op, *(x.dtype for x in operands)))))
            case Operation(name, arguments, terms):
                found_op = op_named(name)
                attributes = [evaluate_term(term, self.values) for term in terms]
                if any(x is None for x in attributes):
                    raise TypeMismatch(f"an attribute of {pattern} has no value")
                return _tensor(found_op.infer_type(
                    tuple(map(self.of, arguments)), found_op.attributes(*attributes) if found_op.attributes else None))
        raise TypeError(f"{pattern} is no pattern")


def _tensor(found: Type) -> TensorType:
    if not isinstance(found, TensorType):
        raise TypeMismatch(f"a rule requires tensors, got {found}")
    return found

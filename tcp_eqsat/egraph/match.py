"""What the left side of a rule says, as facts of egglog."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tcp_eqsat.egraph.columns import Codec, field_codecs
from tcp_eqsat.egraph.engine import quoted
from tcp_eqsat.egraph.schema import MAPS, constructor_of
from tcp_eqsat.errors import Location, RuleError
from tcp_eqsat.lang.op import op_named
from tcp_eqsat.lang.scalar import Number, ScalarOp, encode_number
from tcp_eqsat.lang.types import dtype_named, dtype_of
from tcp_eqsat.rules.attribute import (
    AttributeApply,
    AttributeConstant,
    AttributeFunction,
    AttributeTerm,
    AttributeVariable,
)
from tcp_eqsat.rules.condition import Condition, Holds, Known, OrderedOriginals, Part
from tcp_eqsat.rules.pattern import Apply, Operation, OperationVariable, Pattern, Splat, TensorVariable


def _number_value(dtype: str, bits: str) -> Any:
    return np.frombuffer(bytes.fromhex(bits), dtype_named(dtype).numpy)[0]


NUMBER = Codec(
    ("String", "String"),
    lambda x: (f'"{dtype_of(x.dtype)}"', f'"{encode_number(x, dtype_of(x.dtype)).hex()}"'), _number_value)


def fact_table(name: str) -> str:
    """The relation of the values of which a fact is known."""
    return f"fact_{name}"


def dtype_table(test: AttributeFunction) -> str:
    """The relation of the dtypes of which a test is true."""
    return f"dtype_{test.name}"


@dataclass
class Matcher:
    """Facts that hold where the left sides and the native part of the condition match."""

    name: str
    where: Location | None
    facts: list[str] = field(default_factory=list)
    numbers: dict[str, Number] = field(default_factory=dict)
    dtype_tests: list[AttributeFunction] = field(default_factory=list)
    tensors: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, tuple[Codec, tuple[str, ...]]] = field(default_factory=dict)
    operations: dict[str, str] = field(default_factory=dict)
    items: int = 0
    _classes: dict[Pattern, str] = field(default_factory=dict)

    def match(self, pattern: Pattern) -> str:
        """The variable of a pattern's class; equal patterns are the same class."""
        return self._match(without_likes(pattern))

    def _match(self, pattern: Pattern) -> str:
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
                operands = [self._match(x) for x in arguments]
                term = MAPS[len(operands)].text(tuple(operands), (self._name(operation),))
                self.facts.append(f"(= {variable} {term})")
            case Operation(name, arguments, terms):
                constructor = constructor_of(op_named(name))
                operands = [self._match(x) for x in arguments]
                columns = tuple(text for term, (_, codec) in zip(terms, attribute_fields(name), strict=True)
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

    def known(self, condition: Condition) -> list[tuple[str, str]]:
        """The facts that the condition asks for, and the variables of the values of which it does."""
        return [(part.fact.name, self.tensors[part.variable.name]) for part in condition.parts
                if isinstance(part, Known) and isinstance(part.variable, TensorVariable)]

    def native(self, condition: Condition) -> None:
        """Facts for what the condition says of dtypes, and of parameters and constants."""
        for part in condition.parts:
            match part:
                case Holds(AttributeApply(function, (TensorVariable(name),))) if function.is_of_dtype:
                    self.dtype_tests.append(function)
                    self.facts.append(f"({dtype_table(function)} {self.dtype(self.tensors[name])})")
                case OrderedOriginals(operands):
                    names = [f"?origin_{x.name}" for x in operands]
                    self.facts += [f"(= {n} (origin {self.tensors[x.name]}))"
                                   for n, x in zip(names, operands, strict=True)]
                    self.facts += [f"(< {a} {b})" for a, b in itertools.pairwise(names)]


def is_dtype_test(part: Part) -> bool:
    """Whether a part of a condition asks about nothing but a dtype."""
    return isinstance(part, Holds) and part.test.function.is_of_dtype


def operation_names(patterns: Iterable[Pattern]) -> frozenset[str]:
    """Names of the tensor and scalar operations of patterns.

    A number is a `constant`; an operation variable has the name of the constructor, as has every scalar operation.
    """
    names = set()
    for part in (x for pattern in patterns for x in pattern.walk()):
        match part:
            case Splat():
                names.add("constant")
            case Operation(name):
                names.add(name)
            case Apply(operation, arguments):
                names.add(MAPS[len(arguments)].name)
                if isinstance(operation, ScalarOp):
                    names.add(operation.name)
    return frozenset(names)


def without_likes(pattern: Pattern) -> Pattern:
    """The pattern as it is matched: a splat is its number."""
    if isinstance(pattern, Splat):
        return Splat(pattern.value)
    return pattern.with_operands(tuple(map(without_likes, pattern.operands)))


def attribute_fields(name: str) -> tuple[tuple[str, Codec], ...]:
    op = op_named(name)
    fields = () if op.attributes is None else field_codecs(op.attributes)
    if fields is None:
        raise RuleError(f"{name} can't stand in a pattern of the e-graph")
    return fields

"""What Python decides about one match of a rule: the condition, computed attributes, the types of the replacement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tcp_eqsat.egraph.match import without_likes
from tcp_eqsat.errors import Location, RuleError, TcpError, TypeMismatch
from tcp_eqsat.lang.op import op_named
from tcp_eqsat.lang.ops.attributes import MapAttributes
from tcp_eqsat.lang.ops.elementwise import map_op
from tcp_eqsat.lang.scalar import ScalarOp, encode_number, function_of
from tcp_eqsat.lang.types import DType, TensorType, Type, dtype_of
from tcp_eqsat.rules.attribute import (
    AttributeConstant,
    AttributeTerm,
    AttributeVariable,
    evaluate_term,
    same_value,
)
from tcp_eqsat.rules.condition import Holds, Known, Part
from tcp_eqsat.rules.pattern import Apply, Operation, Pattern, Splat, TensorVariable


def is_decided_in_python(part: Part) -> bool:
    """Whether a part of a condition is no matter of origins and facts of tensors, which egglog knows."""
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
class Instance:
    """The function of a rule's table: what was matched -> computed attributes and types, or None.

    names       attribute and operation variables, the first arguments
    patterns    roots and tensor variables, whose types are the other arguments
    asked       the parts of the condition
    computed    attributes to compute; with the pattern whose dtype a number takes
    equalities  roots with their replacements, whose types must be the same
    typed       inner values of the replacements that no rule of egglog types

    What conditions and attribute functions raise, they raise as a RuleError that names the rule.
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
        try:
            return self._decide(values, types)
        except RuleError:
            raise
        except Exception as error:
            raise RuleError(
                f"rule {self.name} failed on {_shown(values)}: {type(error).__name__}: {error}", self.where) from error

    def _decide(self, values: Mapping[str, Any], types: Mapping[Pattern, TensorType]) -> tuple[Any, ...] | None:
        match = _Match(values)
        if not all(part.holds(match) for part in self.asked):
            return None
        results: list[Any] = []
        for term, like in self.computed:
            value = evaluate_term(term, values)
            if value is None:
                return None
            results.append(value if like is None else _as_number(value, types[without_likes(like)].dtype))
        typing = Typing(values, types)
        try:
            for left, right in self.equalities:
                if right is not None:
                    _require_same(left, types[without_likes(left)], right, typing.of(right))
            return (*results, *map(typing.of, self.typed))
        except TcpError as error:
            if self.strict:
                raise RuleError(f"rule {self.name} is ill-typed for {_shown(values)}: {error}", self.where) from error
            return None


def _shown(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in values.items())


def _require_same(left: Pattern, before: TensorType, right: Pattern, after: TensorType) -> None:
    if not (before.dtype == after.dtype and same_value(before.shape, after.shape)):
        raise TypeMismatch(f"{left} has type {before}, but {right} has type {after}")


def _as_number(value: Any, dtype: DType) -> Any:
    """A computed number as a scalar: of its own dtype if it has one."""
    if isinstance(value, np.generic):
        return value
    return np.frombuffer(encode_number(value, dtype), dtype.numpy)[0]


@dataclass(frozen=True)
class Typing:
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

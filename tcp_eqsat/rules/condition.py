"""Conditions of rules: conjunctions of named predicates over what was matched. Not knowing means False."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from tcp_eqsat.errors import RuleError
from tcp_eqsat.lang.narrow import widened
from tcp_eqsat.lang.types import DType, TensorType
from tcp_eqsat.rules.attribute import (
    AttributeApply,
    AttributeFunction,
    AttributeVariable,
    Sort,
    evaluate_term,
    variables_of,
)
from tcp_eqsat.rules.pattern import Pattern, Splat, TensorVariable


class Matched(Protocol):
    """What a condition may ask of a match."""

    @property
    def values(self) -> Mapping[str, Any]:
        """By name: the value of each attribute variable, the TensorType of each tensor variable."""

    def knows(self, fact: Fact, name: str) -> bool:
        """Whether the fact is known of the tensor variable."""

    def original(self, name: str) -> int | None:
        """The number of the tensor variable's value among the input's parameters and constants, if it is one."""


@dataclass(frozen=True, slots=True)
class Fact:
    """Something an analysis may know of a tensor: `meaning` holds for each element, whatever the inputs are.

    `fact(x)` is the condition that it is known of a tensor variable or true of a constant variable.
    """

    name: str
    meaning: Callable[[np.ndarray], np.ndarray] = field(compare=False, repr=False)
    doc: str = field(compare=False, repr=False)

    def __call__(self, x: Pattern) -> Condition:
        variable = x.value if isinstance(x, Splat) else x
        if not isinstance(variable, (TensorVariable, AttributeVariable)):
            raise RuleError(f"{self.name} requires a tensor or constant variable, got {x}")
        return Condition((Known(self, variable),))

    def true_of(self, array: np.ndarray) -> bool:
        """Whether it holds for every element."""
        with np.errstate(all="ignore"):
            return bool(np.all(self.meaning(widened(np.asarray(array)))))


@dataclass(frozen=True, slots=True)
class Holds:
    """A truth-valued attribute function of terms (of types, shapes, labels, numbers)."""

    test: AttributeApply

    def variables(self) -> Iterator[Any]:
        yield from variables_of(self.test)

    def holds(self, match: Matched) -> bool:
        return evaluate_term(self.test, match.values) is True

    def __str__(self) -> str:
        return str(self.test)


@dataclass(frozen=True, slots=True)
class Known:
    """A fact about one variable."""

    fact: Fact
    variable: TensorVariable | AttributeVariable

    def variables(self) -> Iterator[Any]:
        yield self.variable

    def holds(self, match: Matched) -> bool:
        if isinstance(self.variable, AttributeVariable):
            return self.fact.true_of(match.values[self.variable.name])
        return match.knows(self.fact, self.variable.name)

    def __str__(self) -> str:
        return f"{self.fact.name}({self.variable})"


@dataclass(frozen=True, slots=True)
class OrderedOriginals:
    """The variables are parameters or constants of the input, in increasing order.

    A rule with several roots adds values; with this condition it can't match what it added.
    """

    operands: tuple[TensorVariable, ...]

    def variables(self) -> Iterator[Any]:
        yield from self.operands

    def holds(self, match: Matched) -> bool:
        numbers = [match.original(x.name) for x in self.operands]
        known = [n for n in numbers if n is not None]
        return len(known) == len(numbers) and all(a < b for a, b in itertools.pairwise(known))

    def __str__(self) -> str:
        return f"ordered_originals({', '.join(map(str, self.operands))})"


Part = Holds | Known | OrderedOriginals


@dataclass(frozen=True, slots=True)
class Condition:
    """All of its parts; none is always true. `a & b` has the parts of both."""

    parts: tuple[Part, ...] = ()

    def __and__(self, other: Condition) -> Condition:
        return Condition(tuple(dict.fromkeys((*self.parts, *other.parts))))

    def holds(self, match: Matched) -> bool:
        return all(part.holds(match) for part in self.parts)

    def variables(self) -> tuple[Any, ...]:
        """The variables it speaks of, each once."""
        return tuple(dict.fromkeys(x for part in self.parts for x in part.variables()))

    def __str__(self) -> str:
        return " & ".join(map(str, self.parts))


ALWAYS = Condition()


def ordered_originals(*operands: TensorVariable) -> Condition:
    """The condition that operands are parameters or constants of the input, in increasing order of number."""
    return Condition((OrderedOriginals(operands),))


def predicate(*sorts: Sort) -> Callable[[Callable[..., bool | None]], Callable[..., Condition]]:
    """Decorator: a Python function of values, true, false or None (not known), becomes a named condition."""

    def define(meaning: Callable[..., bool | None]) -> Callable[..., Condition]:
        function = AttributeFunction(
            meaning.__name__, sorts, Sort.TRUTH, meaning, (meaning.__doc__ or "").strip())

        def condition(*arguments: Any) -> Condition:
            return Condition((Holds(function(*arguments)),))

        condition.__name__, condition.__doc__ = meaning.__name__, meaning.__doc__
        return condition

    return define


def dtype_predicate(meaning: Callable[[DType], bool]) -> Callable[..., Condition]:
    """Decorator: a Python function of a dtype becomes a named condition about a tensor variable."""

    def of_type(x: TensorType) -> bool:
        return meaning(x.dtype)

    function = AttributeFunction(
        meaning.__name__, (Sort.TENSOR,), Sort.TRUTH, of_type, (meaning.__doc__ or "").strip(), is_of_dtype=True)

    def condition(x: Pattern) -> Condition:
        return Condition((Holds(function(x)),))

    condition.__name__, condition.__doc__ = meaning.__name__, meaning.__doc__
    return condition

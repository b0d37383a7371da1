"""Facts about values that follow from structure, for conditions that ask what values can't be.

A `FactRule` says: wherever its pattern matches and its condition holds, the fact is true of the root, whatever the
inputs are. The e-graph computes facts from these declarations; the soundness check tests each like a rule.
"""

from __future__ import annotations

import collections
import functools
from dataclasses import dataclass, field

import numpy as np

from tcp_eqsat.lang.types import DType
from tcp_eqsat.rules.condition import ALWAYS, Condition, Fact, dtype_predicate
from tcp_eqsat.rules.functions import (
    abs,
    cos,
    erf,
    exp,
    exp2,
    expm1,
    logistic,
    maximum,
    minimum,
    negative,
    sin,
    sqrt,
    square,
    tanh,
    where,
)
from tcp_eqsat.rules.maps import nonempty_reduction, sums_something
from tcp_eqsat.rules.pattern import (
    Apply,
    Pattern,
    TensorVariable,
    concatenate,
    int_variables,
    labels_variables,
    pad,
    reduce,
    reshape,
    shape_variables,
    slice_,
    strides_variables,
    variables,
    view,
)

not_nan = Fact("not_nan", lambda a: a == a, "No element is NaN.")
finite = Fact("finite", lambda a: np.isfinite(a), "No element is NaN or infinite.")
nonnegative = Fact("nonnegative", lambda a: ~(a < 0), "No element is below zero (NaN and -0 may occur).")
positive = Fact("positive", lambda a: ~(a <= 0), "No element is zero or below (NaN may occur).")
nonzero = Fact("nonzero", lambda a: a != 0, "No element is zero of either sign (NaN may occur).")
not_negative_zero = Fact(
    "not_negative_zero", lambda a: ~((a == 0) & np.signbit(np.asarray(a, np.float64))),
    "No element is -0.")

FACTS: tuple[Fact, ...] = (not_negative_zero, not_nan, nonzero, nonnegative, finite, positive)
"""Weaker ones first."""


@dataclass(frozen=True, slots=True)
class FactRule:
    """`fact` is true of `pattern` where the condition holds."""

    name: str
    fact: Fact
    pattern: Pattern
    condition: Condition = field(default=ALWAYS)

    def __str__(self) -> str:
        text = f"{self.fact.name}({self.pattern})"
        return f"{text}  when {self.condition}" if self.condition.parts else text


@dtype_predicate
def is_float(dtype: DType) -> bool:
    """The tensor is of a floating-point dtype."""
    return dtype.is_float


@dtype_predicate
def is_integer(dtype: DType) -> bool:
    """The tensor is of an integer dtype."""
    return dtype.is_integer


@dtype_predicate
def is_signed(dtype: DType) -> bool:
    """The tensor is of a dtype with negative numbers."""
    return dtype.is_signed


x, y, c, v = variables("x y c v")
(m,) = labels_variables("m")
(t,) = strides_variables("t")
e, p, q = shape_variables("e p q")
k, axis = int_variables("k axis")

_MOVES: tuple[tuple[Pattern, tuple[TensorVariable, ...]], ...] = (
    (view(x, m, p), (x,)),
    (reshape(x, p), (x,)),
    (slice_(x, p, q, t), (x,)),
    (concatenate(axis, x, y), (x, y)),
    (concatenate(axis, x, y, v), (x, y, v)),
    (pad(x, v, p, q), (x, v)),
    (where(c, x, y), (x, y)),
    (maximum(x, y), (x, y)),
    (minimum(x, y), (x, y)),
)

_ALWAYS: tuple[tuple[Fact, tuple[Pattern, ...]], ...] = (
    (nonnegative, (exp(x), exp2(x), logistic(x))),
    (not_negative_zero, (exp(x), exp2(x), logistic(x))),
)

_WHEN: tuple[tuple[Fact, Pattern, Condition], ...] = (
    (not_nan, x + y, finite(x) & not_nan(y)),
    (not_nan, x + y, not_nan(x) & finite(y)),
    (not_nan, x + y, nonnegative(x) & not_nan(x) & nonnegative(y) & not_nan(y)),
    (not_nan, x - y, finite(x) & not_nan(y)),
    (not_nan, x - y, not_nan(x) & finite(y)),
    (not_nan, x * y, finite(x) & finite(y)),
    (not_nan, sqrt(x), not_nan(x) & nonnegative(x)),
    *((not_nan, function(x), not_nan(x)) for function in (negative, abs, exp, exp2, expm1, square)),
    *((finite, function(x), not_nan(x)) for function in (tanh, logistic, erf)),
    *((finite, function(x), finite(x)) for function in (negative, abs, sin, cos)),
    (finite, sqrt(x), finite(x) & nonnegative(x)),
    (nonnegative, abs(x), is_float(x)),
    (nonnegative, square(x), is_float(x)),
    (nonnegative, x * x, is_float(x)),
    (nonnegative, sqrt(x), is_float(x)),
    (nonnegative, x + y, nonnegative(x) & nonnegative(y) & is_float(x)),
    (nonnegative, x * y, nonnegative(x) & nonnegative(y) & is_float(x)),
    (nonnegative, x / y, nonnegative(x) & positive(y) & is_float(x)),
    (nonnegative, maximum(x, y), nonnegative(x)),
    (nonnegative, maximum(x, y), nonnegative(y)),
    (nonnegative, reduce("add", x, m, e, k), nonnegative(x) & is_float(x)),
    (positive, maximum(x, y), positive(x)),
    (positive, maximum(x, y), positive(y)),
    (positive, x + y, positive(x) & nonnegative(y) & is_float(x)),
    (positive, x + y, nonnegative(x) & positive(y) & is_float(x)),
    (positive, sqrt(x), positive(x)),
    *((nonzero, function(x), nonzero(x)) for function in (negative, abs)),
    (not_negative_zero, reduce("add", x, m, e, k), sums_something(e, k)),
    (not_negative_zero, abs(x), is_float(x)),
    (not_negative_zero, square(x), is_float(x)),
    (not_negative_zero, x + y, not_negative_zero(x)),
    (not_negative_zero, x + y, not_negative_zero(y)),
    (not_negative_zero, x - x, is_float(x)),
    (not_negative_zero, maximum(x, y), nonnegative(x) & not_negative_zero(x)),
    (not_negative_zero, maximum(x, y), nonnegative(y) & not_negative_zero(y)),
)

IMPLICATIONS: tuple[tuple[Fact, Fact], ...] = (
    (finite, not_nan), (positive, nonzero), (positive, nonnegative), (nonzero, not_negative_zero),
)
"""Facts that follow from another fact about the same value."""


def _declarations() -> tuple[FactRule, ...]:
    found: list[tuple[Fact, Pattern, Condition]] = []
    for fact in FACTS:
        for pattern, sources in _MOVES:
            found.append((fact, pattern, functools.reduce(Condition.__and__, map(fact, sources))))
        for monoid in ("maximum", "minimum"):
            found.append((fact, reduce(monoid, x, m, e, k), fact(x) & nonempty_reduction(e, k)))
    found += [(fact, pattern, ALWAYS) for fact, patterns in _ALWAYS for pattern in patterns]
    found += _WHEN
    counts = collections.Counter[str]()
    rules = []
    for fact, pattern, condition in found:
        operation = pattern.operation.name if isinstance(pattern, Apply) else getattr(pattern, "name", "")
        stem = f"{fact.name}_of_{operation}"
        counts[stem] += 1
        rules.append(FactRule(stem if counts[stem] == 1 else f"{stem}_{counts[stem]}", fact, pattern, condition))
    return tuple(rules)


FACT_RULES: tuple[FactRule, ...] = _declarations()
"""Every way in which a fact follows from an operation and facts about its operands."""

"""Scalar rules over all inputs of two 8-bit float formats, with IEEE 754's special values.

A rule that claims no permission must agree bit for bit. Each operation is computed in double precision and rounded
to the format, so that every format has its own consistent arithmetic. That refutes wrong claims mechanically: small
formats meet overflow, underflow and rounding at every turn.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tcp_eqsat.lang.scalar import ScalarOp
from tcp_eqsat.lang.types import F64
from tcp_eqsat.rules.attribute import AttributeConstant
from tcp_eqsat.rules.condition import Fact, Holds, Known
from tcp_eqsat.rules.pattern import Apply, Pattern, Splat, TensorVariable, signature, tensor_variables
from tcp_eqsat.rules.rule import Rule
from tcp_eqsat.rules.verdict import Counterexample

MAX_VARIABLES = 2


@dataclass(frozen=True)
class TinyFormat:
    """An IEEE 754 binary format of 1 + exponent_bits + mantissa_bits = 8 bits."""

    name: str
    exponent_bits: int
    mantissa_bits: int

    @functools.cached_property
    def values(self) -> np.ndarray:
        """All values as f64, each zero and infinity and one NaN once."""
        bias = 2 ** (self.exponent_bits - 1) - 1
        scale = 2**self.mantissa_bits
        found = [m * 2.0 ** (1 - bias) / scale for m in range(scale)]
        for e in range(1, 2**self.exponent_bits - 1):
            found += [(1 + m / scale) * 2.0 ** (e - bias) for m in range(scale)]
        positive = np.array([*found, math.inf])
        return np.concatenate([positive, -positive, [math.nan]])

    def round(self, x: np.ndarray) -> np.ndarray:
        """To the nearest value, ties to even; beyond the largest by half a step or more, infinity."""
        bias = 2 ** (self.exponent_bits - 1) - 1
        with np.errstate(all="ignore"):
            exponent = np.frexp(np.where(np.isfinite(x), x, 0))[1] - 1
            step = np.exp2(np.maximum(exponent, 1 - bias) - self.mantissa_bits)
            rounded = np.where(np.isfinite(x), np.round(x / step) * step, x)
            largest = self.values[np.isfinite(self.values)].max()
            return np.where(np.abs(rounded) > largest, np.copysign(math.inf, x), rounded)


E4M3, E5M2 = TinyFormat("e4m3", 4, 3), TinyFormat("e5m2", 5, 2)
FORMATS = (E4M3, E5M2)


def _applies(pattern: Pattern) -> bool:
    """Whether a pattern has only scalar operations on floats and numbers."""
    if isinstance(pattern, TensorVariable):
        return True
    if isinstance(pattern, Splat):
        return isinstance(pattern.value, AttributeConstant)
    if not isinstance(pattern, Apply) or not isinstance(pattern.operation, ScalarOp):
        return False
    if pattern.operation.name.startswith(("astype_", "bitwise_")):
        return False
    return all(map(_applies, pattern.operands))


def _value(pattern: Pattern, inputs: Mapping[str, np.ndarray], form: TinyFormat) -> np.ndarray:
    if isinstance(pattern, TensorVariable):
        return inputs[pattern.name]
    if isinstance(pattern, Splat):
        assert isinstance(pattern.value, AttributeConstant)
        return np.asarray(float(pattern.value.value))
    assert isinstance(pattern, Apply) and isinstance(pattern.operation, ScalarOp)
    operands = [_value(x, inputs, form) for x in pattern.operands]
    with np.errstate(all="ignore"):
        result = np.asarray(pattern.operation.reference(*operands))
    return result if result.dtype == bool else form.round(np.asarray(result, F64.numpy))


def _truth_variables(*patterns: Pattern) -> set[TensorVariable]:
    """Variables in places of dtype bool."""
    found = set()
    for pattern in patterns:
        for x in pattern.walk():
            if isinstance(x, Apply) and isinstance(x.operation, ScalarOp):
                classes, _ = signature(x.operation)
                found |= {operand for operand, fixed in zip(x.operands, classes, strict=True)
                          if fixed is not None and isinstance(operand, TensorVariable)}
    return found


def _numbers_fit(pattern: Pattern, form: TinyFormat) -> bool:
    return all(
        not isinstance(x, Splat) or bool(np.any(form.values == float(x.value.value)))  # type: ignore[union-attr]
        for x in pattern.walk())


def enumerate_rule(rule: Rule) -> tuple[int, list[Counterexample]]:
    """How many inputs were compared (0 where the rule is not of this kind), and where the sides differ."""
    tensors = tensor_variables(*rule.lefts)
    sides = (*rule.lefts, *rule.rights)
    applies = (len(rule.needs) == 0 and 0 < len(tensors) <= MAX_VARIABLES and all(map(_applies, sides))
               and not any(isinstance(part, Holds) and not _is_dtype_test(part) for part in rule.condition.parts))
    if not applies or _truth_variables(*sides):
        return 0, []
    compared = 0
    for form in FORMATS:
        if not all(_numbers_fit(x, form) for x in sides):
            continue
        grids = np.meshgrid(*[_domain(form, rule, x) for x in tensors], indexing="ij")
        inputs = {x.name: grid.reshape(-1) for x, grid in zip(tensors, grids, strict=True)}
        for left, right in zip(rule.lefts, rule.rights, strict=True):
            a, b = np.broadcast_arrays(_value(left, inputs, form), _value(right, inputs, form))
            same = (a == b) | ((a != a) & (b != b))
            if a.dtype.kind == "f":
                same &= (np.signbit(a) == np.signbit(b)) | (a != a)
            compared += same.size
            if not same.all():
                return compared, [
                    Counterexample(form.name, {n: np.asarray(v[i]) for n, v in inputs.items()},
                                   np.asarray(a[i]), np.asarray(b[i]))
                    for i in itertools.islice(np.flatnonzero(~same), 3)]
    return compared, []


def _is_dtype_test(part: Holds) -> bool:
    return part.test.function.name == "is_float"


def _domain(form: TinyFormat, rule: Rule, x: TensorVariable) -> np.ndarray:
    facts: list[Fact] = [part.fact for part in rule.condition.parts if isinstance(part, Known) and part.variable == x]
    keep: Any = np.ones(form.values.shape, bool)
    for fact in facts:
        keep &= np.asarray(fact.meaning(form.values))
    return form.values[keep]

"""Which parts of a rule have the same dtype."""

from __future__ import annotations

from typing import Any

from tcp_eqsat.lang.types import BOOL, DType
from tcp_eqsat.rules.attribute import AttributeConstant, AttributeVariable
from tcp_eqsat.rules.pattern import Apply, Operation, OperationVariable, Pattern, Splat, TensorVariable, signature
from tcp_eqsat.rules.sample import DeadEnd, Sample


class DtypeClasses:
    """Which parts of patterns have the same dtype, by union-find; parts are pattern nodes by identity and variables."""

    def __init__(self, sample: Sample) -> None:
        self.parent: dict[Any, Any] = {}
        self.fixed: dict[Any, DType] = {}
        self.sample = sample

    def key(self, pattern: Pattern) -> Any:
        if isinstance(pattern, TensorVariable):
            return pattern
        if isinstance(pattern, Splat) and isinstance(pattern.value, AttributeVariable):
            return pattern.value
        return id(pattern)

    def find(self, key: Any) -> Any:
        while self.parent.get(key, key) != key:
            key = self.parent[key]
        return key

    def join(self, a: Any, b: Any) -> None:
        a, b = self.find(a), self.find(b)
        if a == b:
            return
        if a in self.fixed and b in self.fixed and self.fixed[a] != self.fixed[b]:
            raise DeadEnd
        if a in self.fixed:
            a, b = b, a
        self.parent[a] = b

    def fix(self, key: Any, dtype: DType) -> None:
        key = self.find(key)
        if self.fixed.setdefault(key, dtype) != dtype:
            raise DeadEnd

    def visit(self, pattern: Pattern) -> None:
        for operand in pattern.operands:
            self.visit(operand)
        key = self.key(pattern)
        if isinstance(pattern, Operation):
            for operand in pattern.operands:
                self.join(key, self.key(operand))
        if isinstance(pattern, Splat) and isinstance(pattern.value, AttributeConstant) \
                and isinstance(pattern.value.value, bool):
            self.fix(key, BOOL)
        if isinstance(pattern, Apply):
            op = pattern.operation
            classes, result = signature(self.sample.operations[op.name] if isinstance(op, OperationVariable) else op)
            chosen: Any = ("chosen", id(pattern))
            for operand, fixed in zip(pattern.operands, classes, strict=True):
                if fixed is None:
                    self.join(chosen, self.key(operand))
                else:
                    self.fix(self.key(operand), fixed)
            if result is None:
                self.join(chosen, key)
            else:
                self.fix(key, result)

"""One match of a rule's left side, and both sides under it as programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tcp_eqsat.lang.op import op_named
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.scalar import ScalarOp
from tcp_eqsat.lang.types import TensorType, dtype_of
from tcp_eqsat.rules.attribute import attribute_sorts, evaluate_term
from tcp_eqsat.rules.pattern import Apply, Operation, OperationVariable, Pattern, Splat, TensorVariable


class DeadEnd(Exception):
    """This draw can't be completed."""


class NoValue(Exception):
    """An attribute function has no value for this match, so the rule does not apply."""


@dataclass(frozen=True)
class Placed:
    """A pattern node of the left side with the type that its place gives it (splats have no other)."""

    pattern: Pattern
    type: TensorType
    operands: tuple[Placed, ...]


@dataclass
class Sample:
    """What the variables of a rule are bound to."""

    values: dict[str, Any] = field(default_factory=dict)
    operations: dict[str, ScalarOp] = field(default_factory=dict)
    numbering: dict[str, int] = field(default_factory=dict)

    def parameters(self, tensors: tuple[TensorVariable, ...]) -> dict[str, Node]:
        """A parameter node for each tensor variable."""
        return {x.name: builders.parameter(x.name, n, self.values[x.name]) for n, x in enumerate(tensors)}

    def __str__(self) -> str:
        shown = {**self.values, **{name: op.name for name, op in self.operations.items()}}
        texts = []
        for name, value in shown.items():
            text = f"({', '.join(map(str, value))})" if isinstance(value, tuple) else str(value)
            texts.append(f"{name} = {getattr(value, 'name', text)}")
        return ", ".join(texts)


def build_left(placed: Placed, sample: Sample, parameters: Mapping[str, Node]) -> Node:
    """The left side as a program; raises TcpError where it does not type."""
    pattern = placed.pattern
    if isinstance(pattern, TensorVariable):
        return parameters[pattern.name]
    if isinstance(pattern, Splat):
        return _splat(pattern, placed.type, sample)
    operands = tuple(build_left(x, sample, parameters) for x in placed.operands)
    return _build(pattern, operands, sample)


def build_right(pattern: Pattern, sample: Sample, parameters: Mapping[str, Node],
                roots: Mapping[Pattern, Node]) -> Node:
    """A replacement as a program. `roots` are the left sides; raises NoValue, or TcpError where it does not type."""
    if isinstance(pattern, TensorVariable):
        return parameters[pattern.name]
    if isinstance(pattern, Splat):
        like = pattern.like
        node = parameters[like.name] if isinstance(like, TensorVariable) else roots[like]  # type: ignore[index]
        return _splat(pattern, node.tensor_type, sample)
    operands = tuple(build_right(x, sample, parameters, roots) for x in pattern.operands)
    return _build(pattern, operands, sample)


def _splat(pattern: Splat, type_: TensorType, sample: Sample) -> Node:
    number = evaluate_term(pattern.value, sample.values)
    dtype = type_.dtype
    if isinstance(number, np.generic):
        dtype = dtype_of(number.dtype)
    return builders.splat(number, dtype, type_.shape)


def _build(pattern: Pattern, operands: tuple[Node, ...], sample: Sample) -> Node:
    if isinstance(pattern, Apply):
        found = pattern.operation
        scalar = sample.operations[found.name] if isinstance(found, OperationVariable) else found
        return builders.map_scalar(scalar, *operands)
    assert isinstance(pattern, Operation)
    values = [evaluate_term(x, sample.values) for x in pattern.terms]
    if any(value is None for value in values):
        raise NoValue
    op, sorts = op_named(pattern.name), attribute_sorts(pattern.name)
    assert op.attributes is not None
    return Node.make(op, operands, op.attributes(**{
        name: value for (name, _), value in zip(sorts, values, strict=True)}))

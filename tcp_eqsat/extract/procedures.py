"""What a procedure costs: its statements, each as often as the loops around it run."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from tcp_eqsat.extract.cost import UNKNOWN_TRIPS, CostModel
from tcp_eqsat.lang.dims import value
from tcp_eqsat.lang.procedural import (
    Compute,
    Constant,
    Extent,
    For,
    Get,
    If,
    Load,
    Procedure,
    Set,
    Statement,
    Store,
    While,
)
from tcp_eqsat.lang.scalar import ScalarOp, scalar_op_named
from tcp_eqsat.lang.types import DType

_ARITHMETIC: Mapping[str, Callable[[float, float], float]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "minimum": min, "maximum": max,
}
"""Operations that are followed to tell how often loops run."""
_BRANCH = 0.5
"""How often a branch is taken."""


def procedure_work(procedure: Procedure, model: CostModel, bindings: Mapping[str, int]) -> float:
    """Microseconds of scalar work, one lane at a time; traffic with memory is not in it.

    Loops run as often as their extents say where arithmetic on sizes and indices (taken at their mean) tells, and
    `UNKNOWN_TRIPS` times otherwise.
    """
    return _Count(procedure, model, bindings).block(procedure.body)


class _Count:
    """`numbers` are what values are known or expected to be."""

    def __init__(self, procedure: Procedure, model: CostModel, bindings: Mapping[str, int]) -> None:
        self.model = model
        self.bindings = bindings
        self.numbers: dict[int, float] = {}
        self.variables: dict[int, float] = {}
        self.sets = Counter(s.variable.number for s in _walk(procedure.body) if isinstance(s, Set))
        self.simple = scalar_op_named("add")

    def alone(self, op: ScalarOp, dtype: DType) -> float:
        """Microseconds of one operation on one lane."""
        return self.model.scalar(op, dtype) * self.model.recomputation(1.0, False, dtype)

    def block(self, statements: tuple[Statement, ...]) -> float:
        return sum(map(self.statement, statements))

    def statement(self, statement: Statement) -> float:
        numbers = self.numbers
        match statement:
            case Compute(result, op, operands):
                known = [numbers.get(x.number) for x in operands]
                follow = _ARITHMETIC.get(op.name)
                if follow is not None and known[0] is not None and known[1] is not None:
                    numbers[result.number] = follow(known[0], known[1])
                return self.alone(op, max((result.dtype, *(x.dtype for x in operands)), key=lambda d: d.bytes))
            case Constant(result, number):
                if result.dtype.is_integer:
                    numbers[result.number] = float(number.value)
            case Extent(result, size):
                numbers[result.number] = float(value(size, self.bindings))
            case Load(array=array) | Store(array=array):
                return self.alone(self.simple, array.type.dtype)
            case Set(variable, found):
                if self.sets[variable.number] == 1 and found.number in numbers:
                    self.variables[variable.number] = numbers[found.number]
            case Get(result, variable):
                if variable.number in self.variables:
                    numbers[result.number] = self.variables[variable.number]
            case For(index, extent, body):
                trips = max(numbers.get(extent.number, UNKNOWN_TRIPS), 0.0)
                numbers[index.number] = max(trips - 1, 0.0) / 2
                return trips * self.block(body)
            case While(head, _, body):
                return (UNKNOWN_TRIPS + 1) * self.block(head) + UNKNOWN_TRIPS * self.block(body)
            case If(_, then, otherwise):
                return _BRANCH * (self.block(then) + self.block(otherwise))
        return 0.0


def _walk(statements: tuple[Statement, ...]) -> Iterator[Statement]:
    for statement in statements:
        yield statement
        match statement:
            case For(body=body):
                yield from _walk(body)
            case While(head, _, body):
                yield from _walk((*head, *body))
            case If(_, then, otherwise):
                yield from _walk((*then, *otherwise))

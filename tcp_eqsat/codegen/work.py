"""How much a step does, roughly: what tells a loop how many turns to take before it asks whether to go on.

A unit is one scalar operation, a nanosecond or less. Amounts end at `MUCH`, so that those of symbolic sizes are
computed without overflow.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping

from tcp_eqsat.lang.dims import Size, maximum, minimum
from tcp_eqsat.lang.plan import Control, Kernel, Plan, Routine, Step
from tcp_eqsat.lang.pointful import Expr, Fold, children, walk_expr
from tcp_eqsat.lang.procedural import Compute, Constant, Extent, For, If, Load, Procedure, Statement, Store, While

MUCH = 1 << 24
"""Units that take some milliseconds."""
_STEP = 16
"""Units that calling a step takes."""
_TRIPS = 16
"""How often loops run whose extents are values."""

_FOLLOWED: Mapping[str, Callable[..., Size]] = {
    "add": maximum, "subtract": lambda x, *_: x, "minimum": minimum, "maximum": maximum}
"""Operations on sizes and indices that extents are computed with, roughly."""


def turn_work(bodies: Iterable[Plan]) -> Size:
    """The units of one run of each of some plans; loops inside of them count for themselves."""
    return _total([_STEP, *(_step_work(step) for body in bodies for step in body.steps)])


def _step_work(step: Step) -> Size:
    match step:
        case Kernel():
            values = (_product([*d.type.shape, _expression(d.expression)]) for d in step.definitions)
            return _total([_STEP, *values])
        case Routine(procedure=procedure):
            return _total([_STEP, _procedure(procedure)])
        case Control():
            return _STEP


def _expression(expression: Expr) -> Size:
    """The units of one value of an expression."""
    known: dict[int, Size] = {}
    for expr in walk_expr(expression):
        total = _total([1, *(known[id(x)] for x in children(expr))])
        known[id(expr)] = _product([*expr.extents, total]) if isinstance(expr, Fold) else total
    return known[id(expression)]


def _procedure(procedure: Procedure) -> Size:
    """The units of a procedure, its loops over triangles taken for squares."""
    sizes: dict[int, Size] = {}

    def block(statements: tuple[Statement, ...]) -> Size:
        return _total(map(one, statements))

    def one(statement: Statement) -> Size:
        match statement:
            case Constant(result, literal) if result.dtype.is_integer:
                sizes[result.number] = max(int(literal.value), 0)
            case Extent(result, size):
                sizes[result.number] = size
            case Compute(result, op, operands):
                known = [sizes[x.number] for x in operands if x.number in sizes]
                if known and op.name in _FOLLOWED:
                    sizes[result.number] = _FOLLOWED[op.name](*known)
                return 1
            case Load() | Store():
                return 1
            case For(index, extent, body):
                trips = sizes[index.number] = sizes.get(extent.number, _TRIPS)
                return _product([trips, block(body)])
            case While(head, _, body):
                return _product([_TRIPS, _total([block(head), block(body)])])
            case If(_, then, otherwise):
                return _total([block(then), block(otherwise)])
        return 0

    return block(procedure.body)


def _product(factors: Iterable[Size]) -> Size:
    one: Size = 1
    return functools.reduce(lambda x, y: minimum(x * minimum(y, MUCH), MUCH), factors, one)


def _total(terms: Iterable[Size]) -> Size:
    none: Size = 0
    return functools.reduce(lambda x, y: minimum(x + y, MUCH), terms, none)

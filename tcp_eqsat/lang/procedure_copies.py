"""Procedures that change a copy of an operand, and the same ones without the copy.

Where nothing needs the operand any more, its memory becomes the result's, and the copy goes away.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Iterator

from tcp_eqsat.lang.dims import Size, equal
from tcp_eqsat.lang.procedural import (
    Array,
    Constant,
    Extent,
    For,
    If,
    Load,
    Name,
    Procedure,
    Statement,
    Store,
    While,
)


def copied_operands(procedure: Procedure) -> tuple[tuple[int, int], ...]:
    """(operand, result) by number: the procedure copies all of the operand into the result before it does anything else
    with the result, and does nothing else with the operand."""
    return tuple((j, k) for j, k, _ in _copies(procedure))


def without_copies(procedure: Procedure, pairs: Collection[tuple[int, int]]) -> Procedure:
    """The procedure for results that hold these operands already; it has those operands no more.

    `pairs` are some of `copied_operands`.
    """
    if not pairs:
        return procedure
    gone = [statement for j, k, statement in _copies(procedure) if (j, k) in pairs]
    dropped = {j for j, _ in pairs}
    return dataclasses.replace(
        procedure, operands=tuple(x for j, x in enumerate(procedure.operands) if j not in dropped),
        body=tuple(x for x in procedure.body if not any(x is each for each in gone)))


def _copies(procedure: Procedure) -> Iterator[tuple[int, int, Statement]]:
    """The copies of whole operands into untouched results, which are the only use of the operand."""
    operands = {x.name: j for j, x in enumerate(procedure.operands)}
    results = {x.name: k for k, x in enumerate(procedure.results)}
    uses = Counter(each.array.name for each in _accesses(procedure.body))
    touched: set[str] = set()
    sizes: dict[int, Size] = {}
    for statement in procedure.body:
        _note(statement, sizes)
        copied = _copied(statement, sizes) if isinstance(statement, For) else None
        if copied is not None:
            source, target = copied
            if (source.name in operands and target.name in results and uses[source.name] == 1
                    and target.name not in touched):
                yield operands[source.name], results[target.name], statement
        touched.update(each.array.name for each in _accesses((statement,)))


def _copied(loop: For, sizes: dict[int, Size]) -> tuple[Array, Array] | None:
    """The arrays of a nest of loops that copies every element of one into another of the same type."""
    indices: list[Name] = []
    extents: list[Size | None] = []
    block: tuple[Statement, ...] = (loop,)
    while block and isinstance(block[-1], For):
        *heads, inner = block
        for head in heads:
            if not _note(head, sizes):
                return None
        assert isinstance(inner, For)
        indices.append(inner.index)
        extents.append(sizes.get(inner.extent.number))
        block = inner.body
    match block:
        case (Load(value, source, read), Store(target, written, stored)):
            whole = (source.type.dtype == target.type.dtype and source.type.rank == target.type.rank
                     and all(map(equal, source.type.shape, target.type.shape))
                     and all(found is not None and equal(found, size)
                             for found, size in zip(extents, source.type.shape, strict=False)))
            if whole and stored == value and read == written == tuple(indices):
                return source, target
    return None


def _note(statement: Statement, sizes: dict[int, Size]) -> bool:
    """Notes a size that a statement names; whether it is such a statement."""
    match statement:
        case Extent(result, size):
            sizes[result.number] = size
        case Constant(result, literal) if result.dtype.is_integer:
            sizes[result.number] = int(literal.value)
        case _:
            return False
    return True


def _accesses(statements: tuple[Statement, ...]) -> Iterator[Load | Store]:
    for statement in statements:
        match statement:
            case Load() | Store():
                yield statement
            case For(body=body):
                yield from _accesses(body)
            case While(head, _, body):
                yield from _accesses((*head, *body))
            case If(_, then, otherwise):
                yield from _accesses((*then, *otherwise))

"""Which loops the values of a nest depend on, and where accumulators are updated."""

from __future__ import annotations

from collections.abc import Iterable

from tcp_eqsat.codegen.loops import (
    Body,
    Choose,
    Each,
    Fold,
    For,
    If,
    IndexValue,
    Let,
    Load,
    Nest,
    Read,
    Update,
    Value,
    operands_of,
    walk_statements,
    walk_values,
)


class Dependence:
    """For names and values of a nest, the axes of the loops they vary with.

    `position_axis` gives the loop's axis for every position. A fold does not depend on the loops inside it.
    """

    def __init__(self, nest: Nest) -> None:
        loops = [s for s in walk_statements(nest.body) if isinstance(s, For)]
        self.position_axis = {x.how.position: x.index for x in loops if x.how.position is not None}
        self.names: dict[str, frozenset[int]] = {}
        self._values: dict[int, frozenset[int]] = {}
        self._find(nest.body)

    def loops(self, axes: Iterable[int]) -> frozenset[int]:
        """The axes with positions replaced by the axes of their loops."""
        return frozenset(self.position_axis.get(a, a) for a in axes)

    def of(self, root: Value) -> frozenset[int]:
        """The axes of the loops that a value depends on."""
        known = self._values
        if id(root) in known:
            return known[id(root)]
        for value in walk_values(root):
            axes = frozenset().union(*(known[id(x)] for x in operands_of(value)))
            match value:
                case Load(offset=index) | IndexValue(index=index):
                    axes |= self.loops(index.axes)
                case Choose(ranges):
                    axes |= self.loops(a for r in ranges for a in r.index.axes)
                case Read(name):
                    axes = self.names[name]
                case _:
                    pass
            known[id(value)] = axes
        return known[id(root)]

    def _find(self, body: Body) -> None:
        """What every name depends on; a fold does not depend on the loops inside it."""
        for statement in body:
            match statement:
                case Let(name, value):
                    self.names[name] = self.of(value)
                case Fold(accumulators, inner):
                    self._find(inner)
                    inside = {s.index for s in walk_statements(inner) if isinstance(s, For)}
                    for accumulator in accumulators:
                        gathered = self._gathered(inner, accumulator.name)
                        self.names[accumulator.name] = gathered - inside
                case For(body=inner) | If(body=inner) | Each(body=inner):
                    self._find(inner)
                case _:
                    pass

    def _gathered(self, body: Body, name: str) -> frozenset[int]:
        """What the updates of an accumulator, and the guards around them, depend on."""
        axes: frozenset[int] = frozenset()
        for statement in body:
            match statement:
                case Update(updated, value) if updated == name:
                    axes |= self.of(value)
                case If(ranges, inner) if loops_to_update(inner, name) is not None:
                    axes |= self._gathered(inner, name) | self.loops(a for r in ranges for a in r.index.axes)
                case For(body=inner) | Fold(body=inner) | Each(body=inner):
                    axes |= self._gathered(inner, name)
                case _:
                    pass
        return axes


def loops_to_update(body: Body, name: str) -> tuple[For, ...] | None:
    """The loops around the update of an accumulator, outermost first; None where there is no update."""
    for statement in body:
        match statement:
            case Update(updated) if updated == name:
                return ()
            case For(body=inner) | Fold(body=inner) | If(body=inner) | Each(body=inner):
                found = loops_to_update(inner, name)
                if found is not None:
                    return (statement, *found) if isinstance(statement, For) else found
            case _:
                pass
    return None

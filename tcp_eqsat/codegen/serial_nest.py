"""Nests whose loops run one iteration after the other: what a schedule for another machine starts from."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from tcp_eqsat.codegen.loops import (
    SERIAL,
    Access,
    Apply,
    Body,
    Choose,
    Constant,
    Each,
    Fold,
    For,
    If,
    IndexValue,
    Let,
    Load,
    Nest,
    Prefetch,
    Read,
    Statement,
    Store,
    Update,
    Value,
    walk_statements,
    walk_values,
)
from tcp_eqsat.lang.dims import Size
from tcp_eqsat.lang.pointful import ZERO, Affine, IndexRange, axis_index


def serial_nest(nest: Nest) -> Nest:
    """The same nest with loops that run one iteration after the other, each with an index of its own.

    Vectors and copies side by side are ways to run a loop, so they go; so do the places that scratch arrays have for
    them.
    """
    loops = [s for s in walk_statements(nest.body) if isinstance(s, For)]
    positions = {loop.how.position: ZERO for loop in loops if loop.how.position is not None}
    body = _Serial(positions, set()).body(nest.body)
    if not positions:
        return replace(nest, body=body)
    sizes = _scratch_sizes(body)
    arrays = tuple(
        replace(a, size=sizes[a.name]) if a.access is Access.SCRATCH and a.name in sizes else a for a in nest.arrays)
    return replace(nest, arrays=arrays, body=body)


def _scratch_sizes(body: Body) -> dict[str, Size]:
    """One more than the greatest offset that is stored to, by array."""
    extents = {s.index: s.extent for s in walk_statements(body) if isinstance(s, For)}
    sizes: dict[str, Size] = {}
    for statement in walk_statements(body):
        if isinstance(statement, Store):
            last = sum((c * (extents[a] - 1) for a, c in statement.offset.terms), start=statement.offset.offset)
            sizes.setdefault(statement.array, last + 1)
    return sizes


class _Serial:
    """Rewrites statements with some indices replaced; `taken` are the indices that loops have so far."""

    def __init__(self, replaced: Mapping[int, Affine], taken: set[int]) -> None:
        self.replaced = replaced
        self.taken = taken
        self.done: dict[int, Value] = {}

    def body(self, body: Body) -> Body:
        return tuple(itertools.chain.from_iterable(map(self._statement, body)))

    def _statement(self, statement: Statement) -> Body:
        match statement:
            case For(index, extent, inner):
                return (self._loop(index, extent, inner),)
            case Each(_, inner):
                return self.body(inner)
            case Fold(accumulators, inner):
                return (Fold(accumulators, self.body(inner)),)
            case If(ranges, inner):
                return (If(tuple(map(self._range, ranges)), self.body(inner)),)
            case Let(name, value):
                return (Let(name, self._value(value)),)
            case Update(name, value, fused):
                return (Update(name, self._value(value), fused),)
            case Store(array, offset, value):
                return (Store(array, self._index(offset), self._value(value)),)
            case Prefetch():
                return ()
        assert_never(statement)

    def _loop(self, index: int, extent: Size, body: Body) -> For:
        new, inside = index, self
        if index in self.taken:
            new = max(self.taken) + 1
            inside = _Serial({**self.replaced, index: axis_index(new)}, self.taken)
        self.taken.add(new)
        return For(new, extent, inside.body(body), SERIAL)

    def _index(self, index: Affine) -> Affine:
        return index.substitute(self.replaced) if self.replaced else index

    def _range(self, r: IndexRange) -> IndexRange:
        return IndexRange(self._index(r.index), r.lower, r.upper)

    def _value(self, root: Value) -> Value:
        if not self.replaced:
            return root
        for value in walk_values(root):
            if id(value) not in self.done:
                self.done[id(value)] = self._rebuilt(value)
        return self.done[id(root)]

    def _rebuilt(self, value: Value) -> Value:
        match value:
            case Load(array, offset, dtype):
                return Load(array, self._index(offset), dtype)
            case IndexValue(index, dtype):
                return IndexValue(self._index(index), dtype)
            case Apply(op, operands, dtype):
                return Apply(op, tuple(self.done[id(x)] for x in operands), dtype)
            case Choose(ranges, inside, outside):
                return Choose(tuple(map(self._range, ranges)), self.done[id(inside)], self.done[id(outside)])
            case Read() | Constant():
                return value

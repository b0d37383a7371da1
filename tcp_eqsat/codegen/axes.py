"""Which axes a kernel's loops run over: axes of one element vanish, loops are shared, neighbours coalesce."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator

from tcp_eqsat.codegen.graph import FoldValue, Graph, Output, all_indices, rewrite
from tcp_eqsat.codegen.loops import Load, Value, walk_values
from tcp_eqsat.lang.dims import Size, equal
from tcp_eqsat.lang.pointful import ZERO, Affine, axis_index

Kernel = tuple[Graph, tuple[Output, ...]]


def simplify_axes(graph: Graph, outputs: tuple[Output, ...]) -> Kernel:
    """The same kernel over as few axes as its accesses allow."""
    return coalesce(*share(*drop_unit_axes(graph, outputs)))


def _replace(graph: Graph, outputs: tuple[Output, ...], mapping: dict[int, Affine]) -> Kernel:
    """The kernel with axes replaced by other indices."""
    memo: dict[Affine, Affine] = {}

    def index(affine: Affine) -> Affine:
        if affine not in memo:
            memo[affine] = affine.substitute(mapping)
        return memo[affine]

    return rewrite(graph, outputs, index, dict(graph.extents))


def drop_unit_axes(graph: Graph, outputs: tuple[Output, ...]) -> Kernel:
    """Axes of extent 1 stay at index 0."""
    units = {axis: ZERO for axis, extent in graph.extents.items() if extent == 1}
    return _replace(graph, outputs, units) if units else (graph, outputs)


# Sharing ---------------------------------------------------------------------------------------------------------

Access = tuple[str, Affine]
"""An array and a flat offset."""


def share(graph: Graph, outputs: tuple[Output, ...]) -> Kernel:
    """Axes of folds and of smaller outputs take the names of axes along which the same elements are read.

    So that `max(x[i, k])`, `sum(exp(x[i, l] - max))` and an output over `[i, j]` speak of one axis j, and what
    they have in common is one value.
    """
    names: dict[int, int] = {}
    settled: set[Access] = set()
    bound = frozenset(axis for fold in graph.folds.values() for axis in fold.axes)
    for output in sorted(outputs, key=lambda o: -len(o.axes)):
        accesses = _accesses(graph, output.value)
        names |= _match(graph, output.axes, accesses, settled, frozenset(), bound)
        settled |= _renamed(accesses, names)
    for fold in graph.reachable_folds(*(o.value for o in outputs)):
        accesses = _renamed(_accesses(graph, fold.body), names)
        names |= _match(graph, fold.axes, accesses, settled, _forbidden(graph, fold, names), frozenset())
        settled |= _renamed(accesses, names)
    if not names:
        return graph, outputs
    return _replace(graph, outputs, {old: axis_index(new) for old, new in names.items()})


def _accesses(graph: Graph, root: Value) -> set[Access]:
    """What the value reads, in its folds too."""
    roots = [root, *(fold.body for fold in graph.reachable_folds(root))]
    return {(x.array, x.offset) for x in walk_values(*roots) if isinstance(x, Load)}


def _renamed(accesses: set[Access], names: dict[int, int]) -> set[Access]:
    if not names:
        return accesses
    mapping = {old: axis_index(new) for old, new in names.items()}
    return {(array, offset.substitute(mapping)) for array, offset in accesses}


def _forbidden(graph: Graph, fold: FoldValue, names: dict[int, int]) -> frozenset[int]:
    """Axes whose name the fold's axes can't take: it depends on them, or they would capture an inner fold's."""
    current = {names.get(axis, axis) for axis in fold.free | frozenset(fold.axes)}
    for inner in graph.reachable_folds(fold.body):
        if not inner.free.isdisjoint(fold.axes):
            current |= {names.get(axis, axis) for axis in inner.axes}
    return frozenset(current)


def _match(graph: Graph, axes: tuple[int, ...], accesses: set[Access], settled: set[Access],
           forbidden: frozenset[int], bound: frozenset[int]) -> dict[int, int]:
    """New names for `axes` under which most of `accesses` are among the settled ones; empty if none are.

    Axes in `bound` are those of folds inside, which may get the names that match later.
    """
    votes: collections.Counter[tuple[tuple[int, int], ...]] = collections.Counter()
    for array, offset in accesses:
        for other_array, other in settled:
            if array == other_array and offset.offset == other.offset and len(offset.terms) == len(other.terms):
                found = _correspondence(graph, frozenset(axes), bound, offset, other)
                if found and forbidden.isdisjoint(found.values()):
                    votes[tuple(sorted(found.items()))] += 1
    if not votes:
        return {}
    best = min(votes, key=lambda names: (-votes[names], -len(names), names))
    return dict(best)


def _correspondence(graph: Graph, axes: frozenset[int], bound: frozenset[int], offset: Affine,
                    other: Affine) -> dict[int, int] | None:
    """The renaming of `axes` that turns `offset` into `other` but for axes in `bound`, where there is one."""
    found: dict[int, int] = {}
    remaining = dict(other.terms)
    for axis, coefficient in offset.terms:
        if axis not in axes and axis not in bound:
            if remaining.pop(axis, None) != coefficient:
                return None
            continue
        twin = next((a for a, c in remaining.items()
                     if c == coefficient and equal(graph.extents[a], graph.extents[axis])), None)
        if twin is None:
            return None
        del remaining[twin]
        if axis in axes and twin in bound:
            return None
        if axis in axes:
            found[axis] = twin
    return {old: new for old, new in found.items() if old != new}


# Coalescing ------------------------------------------------------------------------------------------------------


def coalesce(graph: Graph, outputs: tuple[Output, ...]) -> Kernel:
    """Two axes become one where they are bound together and every index moves along them as along one.

    That is: the index's coefficient of the outer axis is its coefficient of the inner one times the inner extent.
    """
    indices = all_indices(graph, outputs)
    binders = [o.axes for o in outputs] + [f.axes for f in graph.folds.values()]
    coefficients = [dict(index.terms) for index in indices]
    extents = dict(graph.extents)
    live = {axis for binder in binders for axis in binder}
    groups = {axis: frozenset(n for n, binder in enumerate(binders) if axis in binder) for axis in live}
    dropped: dict[int, Affine] = {}
    while pair := _mergeable(live, groups, coefficients, extents):
        outer, inner = pair
        dropped[outer] = ZERO
        live.remove(outer)
        extents[inner] = extents[outer] * extents[inner]
        for terms in coefficients:
            terms.pop(outer, None)
    if not dropped:
        return graph, outputs
    graph = dataclasses.replace(graph, extents=extents)
    return _replace(graph, outputs, dropped)


def _mergeable(live: set[int], groups: dict[int, frozenset[int]], coefficients: list[dict[int, Size]],
               extents: dict[int, Size]) -> tuple[int, int] | None:
    for outer, inner in _pairs(live):
        if groups[outer] != groups[inner]:
            continue
        if all(equal(terms.get(outer, 0), terms.get(inner, 0) * extents[inner]) for terms in coefficients):
            return outer, inner
    return None


def _pairs(live: set[int]) -> Iterator[tuple[int, int]]:
    ordered = sorted(live)
    return ((a, b) for a in ordered for b in ordered if a != b)

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
    they have in common is one value. Folds that become equal let more be seen, so this is repeated.
    """
    while names := _shared_names(graph, outputs):
        new = _replace(graph, outputs, {old: axis_index(new) for old, new in names.items()})
        if _variety(*new) >= _variety(graph, outputs):
            break
        graph, outputs = new
    return graph, outputs


def _variety(graph: Graph, outputs: tuple[Output, ...]) -> int:
    """How many different axes and folds there are."""
    return len({axis for binder in _binders(graph, outputs) for axis in binder}) + len(graph.folds)


def _binders(graph: Graph, outputs: tuple[Output, ...]) -> list[tuple[int, ...]]:
    """What binds axes: outputs and folds."""
    return [o.axes for o in outputs] + [fold.axes for fold in graph.folds.values()]


def _shared_names(graph: Graph, outputs: tuple[Output, ...]) -> dict[int, int]:
    """New names of axes; empty where nothing more can be shared."""
    names: dict[int, int] = {}
    settled: set[Access] = set()
    bound = frozenset(axis for fold in graph.folds.values() for axis in fold.axes)
    uses = collections.Counter(axis for binder in _binders(graph, outputs) for axis in binder)

    def own(axes: tuple[int, ...]) -> frozenset[int]:
        """The axes that nothing else binds: only they may get other names."""
        return frozenset(axis for axis in axes if uses[axis] == 1)

    for output in sorted(outputs, key=lambda o: -len(o.axes)):
        accesses = _accesses(graph, output.value)
        names |= _match(graph, own(output.axes), accesses, settled, bound, bound | frozenset(output.axes))
        settled |= _renamed(accesses, names)
    settled = _renamed({access for o in outputs for access in _own_accesses(o.value)}, names)
    for fold in graph.reachable_folds(*(o.value for o in outputs)):
        if not set(fold.axes).isdisjoint((*names, *names.values())):
            continue
        accesses = _renamed(_accesses(graph, fold.body), names)
        inside = frozenset(
            names.get(axis, axis) for inner in graph.reachable_folds(fold.body) for axis in inner.axes)
        names |= _match(graph, own(fold.axes), accesses, settled, inside, _forbidden(graph, fold, names))
        settled = _renamed(settled | _own_accesses(fold.body), names)
    return names


def _accesses(graph: Graph, root: Value) -> set[Access]:
    """What the value reads, in its folds too."""
    return _own_accesses(root, *(fold.body for fold in graph.reachable_folds(root)))


def _own_accesses(*roots: Value) -> set[Access]:
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


def _match(graph: Graph, axes: frozenset[int], accesses: set[Access], settled: set[Access],
           wild: frozenset[int], forbidden: frozenset[int]) -> dict[int, int]:
    """New names for `axes` under which most of `accesses` are among the settled ones; empty if none are.

    `wild` are axes of folds inside, which may get the names that match later; `forbidden` can't be new names.
    """
    votes: collections.Counter[tuple[tuple[int, int], ...]] = collections.Counter()
    for array, offset in accesses:
        for other_array, other in settled:
            if array == other_array and offset.offset == other.offset and len(offset.terms) == len(other.terms):
                found = _correspondence(graph, axes, wild, offset, other)
                if found and forbidden.isdisjoint(found.values()):
                    votes[tuple(sorted(found.items()))] += 1
    if not votes:
        return {}
    best, _ = min(votes.items(), key=lambda vote: (-vote[1], -len(vote[0]), vote[0]))
    return dict(best)


def _correspondence(graph: Graph, axes: frozenset[int], wild: frozenset[int], offset: Affine,
                    other: Affine) -> dict[int, int] | None:
    """The renaming of `axes` that turns `offset` into `other` but for wild axes, where there is one."""
    found: dict[int, int] = {}
    remaining = dict(other.terms)
    for axis, coefficient in offset.terms:
        if axis not in axes and remaining.get(axis) == coefficient:
            del remaining[axis]
            continue
        if axis not in axes and axis not in wild:
            return None
        twin = next((a for a, c in remaining.items()
                     if c == coefficient and equal(graph.extents[a], graph.extents[axis])), None)
        if twin is None:
            return None
        del remaining[twin]
        if axis in axes:
            found[axis] = twin
    return {old: new for old, new in found.items() if old != new}


# Coalescing ------------------------------------------------------------------------------------------------------


def coalesce(graph: Graph, outputs: tuple[Output, ...]) -> Kernel:
    """Two axes become one where they are bound together and every index moves along them as along one.

    That is: the index's coefficient of the outer axis is its coefficient of the inner one times the inner extent.
    """
    indices = all_indices(graph, outputs)
    binders = _binders(graph, outputs)
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

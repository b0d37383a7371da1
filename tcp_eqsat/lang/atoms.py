"""Axes refined to atoms, so that regular reshapes vanish before the e-graph is built.

An axis that some reshape splits is replaced, everywhere it flows, by the factors it splits into: its atoms. Head
splits, flattened projections and grouped channels then are the same axes on both sides, and their reshapes are
identities. A reshape whose factors do not divide each other stays, as another shape of the same memory.

The refinement is recorded and invertible: `Refinement.restored()` is the same program with the caller's axes again.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tcp_eqsat.lang.dims import Size, equal, exact_divide, product
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.ops.attributes import (
    ContractAttributes,
    IotaAttributes,
    PadAttributes,
    ParameterAttributes,
    ReduceAttributes,
    SliceAttributes,
    ViewAttributes,
)
from tcp_eqsat.lang.ops.structure import inline
from tcp_eqsat.lang.program import Function, Node, Region
from tcp_eqsat.lang.scalar import scalar_op_named
from tcp_eqsat.lang.types import I64, Shape, TensorType

Axis = tuple[object, int]  # a node (or a node and a role) and an axis or label of it


@dataclass(frozen=True)
class Refinement:
    """A function over atoms, and the function it came from.

    `refined` has the same parameters and results, in the same order, with refined shapes: each is the caller's
    array in row-major order under another shape.
    """

    original: Function
    refined: Function

    @property
    def parameter_types(self) -> tuple[TensorType, ...]:
        return tuple(x.tensor_type for x in self.original.parameters)

    @property
    def result_types(self) -> tuple[TensorType, ...]:
        return tuple(x.tensor_type for x in self.original.results)

    def restored(self, function: Function | None = None) -> Function:
        """A function over atoms (default: `refined`) with the caller's axes: reshapes at its border only."""
        inner = self.refined if function is None else function
        operands = tuple(
            builders.reshape(outer, x.shape)
            for outer, x in zip(self.original.parameters, inner.parameters, strict=True))
        results = inline(Region(inner.parameters, inner.results), operands)
        return Function(
            self.original.name, self.original.parameters,
            tuple(builders.reshape(x, t.shape) for x, t in zip(results, self.result_types, strict=True)),
            self.original.names, self.original.locations, self.original.guards)


def refine_axes(function: Function) -> Refinement:
    """The function over atoms. Composites must be expanded."""
    nodes = list(function.nodes())
    boundaries = _Boundaries()
    for node in nodes:
        _link(node, boundaries)
    _spread(nodes, boundaries)
    rewrite = _Rewrite(boundaries)
    for node in nodes:
        rewrite.visit(node)
    values = rewrite.values
    refined = Function(
        function.name, tuple(values[x] for x in function.parameters), tuple(values[x] for x in function.results),
        _carried(function.names, values), _carried(function.locations, values), function.guards)
    return Refinement(function, refined)


def _carried(table: Mapping[Node, object], values: Mapping[Node, Node]) -> dict:
    carried: dict = {}
    for node, entry in table.items():
        if node in values:
            carried.setdefault(values[node], entry)
    return carried


# Which axes are one axis, and where they are cut


@dataclass
class _Boundaries:
    """A union-find over axes; each class has the set of its inner boundaries.

    A boundary is the product of the atoms inside it; the boundaries of a class form a divisibility chain.
    """

    parent: dict[Axis, Axis] = field(default_factory=dict)
    inner: dict[Axis, set[Size]] = field(default_factory=dict)

    def find(self, axis: Axis) -> Axis:
        root = axis
        while (above := self.parent.get(root, root)) != root:
            root = above
        while axis != root:
            self.parent[axis], axis = root, self.parent.get(axis, root)
        return root

    def union(self, a: Axis, b: Axis) -> None:
        a, b = self.find(a), self.find(b)
        if a != b:
            self.parent[b] = a
            self.inner.setdefault(a, set()).update(self.inner.pop(b, ()))

    def of(self, axis: Axis) -> set[Size]:
        return self.inner.setdefault(self.find(axis), set())

    def atoms(self, axis: Axis, extent: Size) -> Shape:
        """The factors of an axis, outermost first."""
        cuts = _chain({b for b in self.of(axis) if _inside(b, extent)}, extent)
        assert cuts is not None, (axis, extent)
        ratios = [exact_divide(outer, inner) for inner, outer in itertools.pairwise(cuts)]
        return tuple(r for r in reversed(ratios) if r is not None) or (extent,)


def _inside(boundary: Size, extent: Size) -> bool:
    return boundary != 1 and not equal(boundary, extent) and exact_divide(extent, boundary) is not None


def _chain(boundaries: Iterable[Size], extent: Size) -> list[Size] | None:
    """1, the boundaries and the extent in order of divisibility, or None where they are no chain."""
    ordered: list[Size] = [1]
    rest = [b for b in boundaries if b != 1 and not equal(b, extent)]
    while rest:
        least = next((b for b in rest if all(exact_divide(o, b) is not None for o in rest)), None)
        if least is None or exact_divide(least, ordered[-1]) is None:
            return None
        ordered.append(least)
        rest = [b for b in rest if not equal(b, least)]
    if exact_divide(extent, ordered[-1]) is None:
        return None
    return [*ordered, extent] if not equal(extent, 1) else [1]


def _link(node: Node, boundaries: _Boundaries) -> None:
    """Axes that an operation maps onto each other are one axis."""
    attributes = node.attributes
    match node.op.name:
        case "map":
            for x in node.operands:
                for axis in range(len(x.shape)):
                    boundaries.union((node, axis), (x, axis))
        case "view":
            _link_labels(node, node.operands[0], attributes.labels, boundaries)
        case "reduce":
            _link_labels(node, node.operands[0], attributes.labels, boundaries)
        case "contract":
            _link_labels(node, node.operands[0], attributes.lhs, boundaries)
            _link_labels(node, node.operands[1], attributes.rhs, boundaries)
        case "slice" | "pad":
            cut = _cut_axes(node)
            for axis in range(len(node.shape)):
                if axis not in cut:
                    boundaries.union((node, axis), (node.operands[0], axis))
        case "concatenate":
            for x in node.operands:
                for axis in range(len(x.shape)):
                    if axis != attributes.axis:
                        boundaries.union((node, axis), (x, axis))
        case _:
            pass


def _link_labels(node: Node, x: Node, labels: Sequence[int], boundaries: _Boundaries) -> None:
    """Labels of the result are its axes; the others are axes of the node's own."""
    for axis, label in enumerate(labels):
        if label >= 0:
            boundaries.union((node, label), (x, axis))


def _cut_axes(node: Node) -> set[int]:
    """The axes along which a slice or pad does not keep the whole operand."""
    (x, *_), attributes = node.operands, node.attributes
    if isinstance(attributes, SliceAttributes):
        return {a for a, (start, limit, stride) in enumerate(
            zip(attributes.starts, attributes.limits, attributes.strides, strict=True))
            if not (start == 0 and stride == 1 and equal(limit, x.shape[a]))}
    assert isinstance(attributes, PadAttributes)
    return {a for a, amounts in enumerate(zip(attributes.low, attributes.high, strict=True))
            if any(n != 0 for n in amounts)}


def _moving_axes(node: Node) -> dict[int, list[Size]]:
    """Axes cut by slice, pad or concatenate, with the sizes that an inner boundary must divide to pass."""
    attributes = node.attributes
    if isinstance(attributes, SliceAttributes):
        x = node.operands[0]
        return {a: [x.shape[a], node.shape[a], attributes.starts[a], attributes.limits[a]]
                for a in _cut_axes(node) if attributes.strides[a] == 1}
    if isinstance(attributes, PadAttributes):
        return {a: [node.operands[0].shape[a], node.shape[a], attributes.low[a], attributes.high[a]]
                for a in _cut_axes(node)}
    axis = attributes.axis
    return {axis: [node.shape[axis], *(x.shape[axis] for x in node.operands)]}


def _spread(nodes: Sequence[Node], boundaries: _Boundaries) -> None:
    """Boundaries flow through reshapes, slices, pads and concatenations until nothing changes."""
    reshapes = [n for n in nodes if n.op.name == "reshape"]
    moving = [n for n in nodes if n.op.name in ("slice", "pad", "concatenate")]
    irregular: set[Node] = set()
    changed = True
    while changed:
        changed = False
        for node in reshapes:
            if node not in irregular:
                found = _push_reshape(node, boundaries)
                if found is None:
                    irregular.add(node)
                changed |= bool(found)
        for node in moving:
            changed |= _push_moving(node, boundaries)


def _push_reshape(node: Node, boundaries: _Boundaries) -> bool | None:
    """Cut both sides of a reshape alike; whether anything is new, or None for an irregular reshape."""
    (x,) = node.operands
    groups = match_axes(x.shape, node.shape)
    if groups is None:
        return None
    changed = False
    for left, right in groups:
        whole = product(tuple(x.shape[a] for a in left))
        cuts: set[Size] = set()
        sides = ((x, left), (node, right))
        for owner, axes in sides:
            scale: Size = 1
            for axis in reversed(axes):
                cuts |= {scale * b for b in boundaries.of((owner, axis))} | {scale}
                scale = scale * owner.shape[axis]
        if _chain(cuts, whole) is None:
            return None
        for owner, axes in sides:
            scale = 1
            for axis in reversed(axes):
                extent = owner.shape[axis]
                within = {q for b in cuts if (q := exact_divide(b, scale)) is not None and _inside(q, extent)}
                changed |= not within <= boundaries.of((owner, axis))
                boundaries.of((owner, axis)).update(within)
                scale = scale * extent
    return changed


def _push_moving(node: Node, boundaries: _Boundaries) -> bool:
    changed = False
    operands = node.operands if node.op.name == "concatenate" else node.operands[:1]
    for axis, sizes in _moving_axes(node).items():
        owners = [(node, axis), *((x, axis) for x in operands)]
        shared = {b for owner in owners for b in boundaries.of(owner)
                  if all(exact_divide(n, b) is not None for n in sizes)}
        for owner in owners:
            extent = owner[0].shape[axis]
            merged = boundaries.of(owner) | {b for b in shared if _inside(b, extent)}
            if merged != boundaries.of(owner) and _chain(
                    {b for b in merged if _inside(b, extent)}, extent) is not None:
                boundaries.of(owner).update(merged)
                changed = True
    return changed


def match_axes(before: Shape, after: Shape) -> list[tuple[list[int], list[int]]] | None:
    """Axes of a reshape in minimal groups of equal product, axes of size 1 left out; None where that fails."""
    left = [a for a, n in enumerate(before) if n != 1]
    right = [a for a, n in enumerate(after) if n != 1]
    if any(n == 0 for n in (*before, *after)):
        return None
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(left) or j < len(right):
        if i == len(left) or j == len(right):
            return None
        own, other = [left[i]], [right[j]]
        x, y = before[left[i]], after[right[j]]
        i, j = i + 1, j + 1
        while not equal(x, y):
            if i < len(left) and (j == len(right) or _smaller(x, y)):
                x, i = x * before[left[i]], i + 1
                own.append(left[i - 1])
            elif j < len(right):
                y, j = y * after[right[j]], j + 1
                other.append(right[j - 1])
            else:
                return None
        groups.append((own, other))
    return groups


def _smaller(x: Size, y: Size) -> bool:
    """Whether the next axis should join x: x divides y, or is the lesser number."""
    if isinstance(x, int) and isinstance(y, int):
        return x < y
    return exact_divide(y, x) is not None


# The program over atoms


class _Rewrite:
    """Rebuilds nodes over atoms; `values` maps each original node to its refined one."""

    def __init__(self, boundaries: _Boundaries) -> None:
        self.boundaries = boundaries
        self.values: dict[Node, Node] = {}

    def parts(self, node: Node) -> list[Shape]:
        """The atoms of each axis of an original node."""
        return [self.boundaries.atoms((node, axis), extent) for axis, extent in enumerate(node.shape)]

    def shape(self, node: Node) -> Shape:
        return tuple(atom for part in self.parts(node) for atom in part)

    def visit(self, node: Node) -> None:
        method = getattr(self, f"_{node.op.name}", self._other)
        self.values[node] = method(node, node.attributes, *(self.values[x] for x in node.operands))

    def _parameter(self, node: Node, attributes: ParameterAttributes) -> Node:
        return builders.parameter(attributes.name, attributes.index, TensorType(node.dtype, self.shape(node)))

    def _constant(self, node: Node, attributes: object) -> Node:
        shape = self.shape(node)
        return node if shape == node.shape else builders.constant(node.attributes.data.array.reshape(shape))

    def _iota(self, node: Node, attributes: IotaAttributes) -> Node:
        """Over several atoms an index is the sum of theirs times their strides."""
        parts, shape, axis = self.parts(node), self.shape(node), attributes.axis
        if len(parts[axis]) == 1:
            return builders.iota(node.dtype, shape, sum(map(len, parts[:axis])))
        first = sum(map(len, parts[:axis]))
        if not all(isinstance(n, int) for n in parts[axis][1:]):
            return builders.reshape(node, shape)
        total: Node | None = None
        for offset in range(len(parts[axis])):
            stride = product(parts[axis][offset + 1:])
            assert isinstance(stride, int)
            term = builders.map_scalar(
                scalar_op_named("multiply"), builders.iota(I64, shape, first + offset),
                builders.splat(stride, I64, shape))
            total = term if total is None else builders.map_scalar(scalar_op_named("add"), total, term)
        assert total is not None
        return total if node.dtype == I64 else builders.map_scalar(scalar_op_named(f"astype_{node.dtype}"), total)

    def _map(self, node: Node, attributes: object, *operands: Node) -> Node:
        return Node.make(node.op, operands, attributes)

    def _expanded(self, x: Node, labels: Sequence[int], parts: Sequence[Shape]) -> tuple[int, ...]:
        """Labels of an operand's atoms, where label l has the atoms parts[l]."""
        first = [0]
        for part in parts:
            first.append(first[-1] + len(part))
        result: list[int] = []
        for axis, label in enumerate(labels):
            count = len(self.boundaries.atoms((x, axis), x.shape[axis]))
            result.extend([-1] * count if label < 0 else range(first[label], first[label] + count))
        return tuple(result)

    def _view(self, node: Node, attributes: ViewAttributes, x: Node) -> Node:
        labels = self._expanded(node.operands[0], attributes.labels, self.parts(node))
        return builders.view(x, labels, self.shape(node))

    def _label_parts(self, node: Node, extents: Shape) -> list[Shape]:
        return [self.boundaries.atoms((node, label), extent) for label, extent in enumerate(extents)]

    def _reduce(self, node: Node, attributes: ReduceAttributes, x: Node) -> Node:
        parts = self._label_parts(node, attributes.extents)
        labels = self._expanded(node.operands[0], attributes.labels, parts)
        extents = tuple(n for part in parts for n in part)
        rank = sum(map(len, parts[: attributes.rank]))
        return Node.make(node.op, (x,), ReduceAttributes(attributes.operation, labels, extents, rank))

    def _contract(self, node: Node, attributes: ContractAttributes, x: Node, y: Node) -> Node:
        parts = self._label_parts(node, attributes.extents)
        lhs = self._expanded(node.operands[0], attributes.lhs, parts)
        rhs = self._expanded(node.operands[1], attributes.rhs, parts)
        extents = tuple(n for part in parts for n in part)
        return builders.contract(x, y, lhs, rhs, extents, sum(map(len, parts[: attributes.rank])))

    def _reshape(self, node: Node, attributes: object, x: Node) -> Node:
        """Equal atoms make it an identity up to axes of size 1, which a view adds and removes."""
        shape = self.shape(node)
        before = [a for a, n in enumerate(x.shape) if n != 1]
        after = [a for a, n in enumerate(shape) if n != 1]
        if len(before) == len(after) and all(equal(x.shape[a], shape[b]) for a, b in zip(before, after, strict=True)):
            labels = [-1] * len(x.shape)
            for a, b in zip(before, after, strict=True):
                labels[a] = b
            return builders.view(x, tuple(labels), shape)
        return builders.reshape(x, shape)

    def _blocks(self, node: Node, axis: int, sizes: Sequence[Size]) -> tuple[Size, set[Node]] | None:
        """The product of an axis's inner atoms, where it divides all sizes and they are the same all around.

        Also the nodes whose whole axis is one such block: they have no atom for the number of blocks.
        """
        owners = (node, *(node.operands if node.op.name == "concatenate" else node.operands[:1]))
        largest = owners[1] if node.op.name == "slice" else node
        inner = self.boundaries.atoms((largest, axis), largest.shape[axis])[1:]
        single: set[Node] = set()
        for owner in owners:
            atoms = self.boundaries.atoms((owner, axis), owner.shape[axis])
            if atoms == inner:
                single.add(owner)
            elif atoms[1:] != inner:
                return None
        block = product(inner)
        return (block, single) if all(exact_divide(n, block) is not None for n in sizes) else None

    def _other(self, node: Node, attributes: object, *operands: Node) -> Node:
        """An operation over its original axes: reshapes around it where they were refined.

        Several results keep their axes, and `project` refines the one it takes.
        """
        plain = tuple(builders.reshape(new, x.shape) if isinstance(x.type, TensorType) else new
                      for x, new in zip(node.operands, operands, strict=True))
        made = Node.make(node.op, plain, attributes)
        return builders.reshape(made, self.shape(node)) if isinstance(node.type, TensorType) else made

    def _slice(self, node: Node, attributes: SliceAttributes, x: Node) -> Node:
        return self._boxed(node, x, attributes)

    def _pad(self, node: Node, attributes: PadAttributes, x: Node, value: Node) -> Node:
        return self._boxed(node, x, attributes, value)

    def _boxed(self, node: Node, x: Node, attributes: SliceAttributes | PadAttributes, *rest: Node) -> Node:
        """Slice or pad: along a cut axis the outermost atom carries the amounts, in units of the inner ones."""
        original, cut = node.operands[0], _cut_axes(node)
        columns: list[list[Size]] = [[], [], []]
        added: list[int] = []  # axes of size 1 that x gets, and that the result loses
        dropped: list[int] = []
        for axis, extent in enumerate(original.shape):
            atoms = self.boundaries.atoms((original, axis), extent)
            if isinstance(attributes, SliceAttributes):
                amounts: list[Size] = [attributes.starts[axis], attributes.limits[axis], attributes.strides[axis]]
                whole: list[list[Size]] = [[0, atom, 1] for atom in atoms]
            else:
                amounts = [attributes.low[axis], attributes.high[axis], 0]
                whole = [[0, 0, 0] for _ in atoms]
            if axis in cut:
                found = self._blocks(node, axis, amounts[:2])
                if found is None or (found[0] != 1 and amounts[2] not in (0, 1)):
                    return self._other(node, attributes, x, *rest)
                block, single = found
                units = [exact_divide(n, block) for n in amounts[:2]]
                assert units[0] is not None and units[1] is not None
                if original in single:
                    added.append(len(columns[0]))
                    whole.insert(0, [])
                if node in single:
                    dropped.append(len(columns[0]))
                whole[0] = [units[0], units[1], amounts[2]]
            for part in whole:
                for column, amount in zip(columns, part, strict=True):
                    column.append(amount)
        x = _with_units(x, added)
        if isinstance(attributes, SliceAttributes):
            strides = tuple(n for n in columns[2] if isinstance(n, int))
            return _without_units(builders.slice_(x, tuple(columns[0]), tuple(columns[1]), strides), dropped)
        return builders.pad(x, rest[0], tuple(columns[0]), tuple(columns[1]))

    def _concatenate(self, node: Node, attributes: object, *operands: Node) -> Node:
        axis = node.attributes.axis
        found = self._blocks(node, axis, [x.shape[axis] for x in node.operands])
        if found is None:
            return self._other(node, attributes, *operands)
        first = sum(map(len, self.parts(node)[:axis]))
        return builders.concatenate(tuple(
            _with_units(new, [first]) if x in found[1] else new
            for x, new in zip(node.operands, operands, strict=True)), first)


def _with_units(x: Node, axes: Sequence[int]) -> Node:
    """The value with axes of size 1 at these places of the result."""
    kept = [a for a in range(len(x.shape) + len(axes)) if a not in axes]
    shape: list[Size] = [1] * (len(x.shape) + len(axes))
    for a, size in zip(kept, x.shape, strict=True):
        shape[a] = size
    return builders.view(x, tuple(kept), tuple(shape))


def _without_units(x: Node, axes: Sequence[int]) -> Node:
    """The value without these axes, which have size 1."""
    kept = [a for a in range(len(x.shape)) if a not in axes]
    labels = tuple(kept.index(a) if a in kept else -1 for a in range(len(x.shape)))
    return builders.view(x, labels, tuple(x.shape[a] for a in kept))

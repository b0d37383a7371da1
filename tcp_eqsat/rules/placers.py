"""How each tensor operation is sampled: asked for a result shape, it chooses attributes and its operands' shapes.

A placer binds the attributes that are free and returns the result's shape and the shapes it asks of its operands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tcp_eqsat.lang.dims import Size, less_equal
from tcp_eqsat.lang.scalar import SCALAR_OPS
from tcp_eqsat.lang.types import Shape, TensorType
from tcp_eqsat.rules.pattern import Operation
from tcp_eqsat.rules.sample import DeadEnd

if TYPE_CHECKING:
    from tcp_eqsat.rules.sampling import Sampler

Placer = Callable[["Sampler", Operation, "Shape | None"], "tuple[Shape, list[Shape]]"]


def _place_view(s: Sampler, pattern: Operation, target: Shape | None) -> tuple[Shape, list[Shape]]:
    labels, shape = pattern.terms
    return s.place_labels(pattern, target, (labels,), shape, None)


def _place_reduce(s: Sampler, pattern: Operation, target: Shape | None) -> tuple[Shape, list[Shape]]:
    operation, labels, extents, rank = pattern.terms
    if s.bound(operation) is None:
        monoids = [op for op in SCALAR_OPS.values() if op.identity is not None]
        s.bind(operation, s.rng.choice([SCALAR_OPS["add"], SCALAR_OPS["maximum"], *monoids]))
    return s.place_labels(pattern, target, (labels,), extents, rank)


def _place_contract(s: Sampler, pattern: Operation, target: Shape | None) -> tuple[Shape, list[Shape]]:
    lhs, rhs, extents, rank = pattern.terms
    return s.place_labels(pattern, target, (lhs, rhs), extents, rank)


def _place_slice(s: Sampler, pattern: Operation, target: Shape | None) -> tuple[Shape, list[Shape]]:
    starts_term, limits_term, strides_term = pattern.terms
    known = s.known_shape(pattern.operands[0])
    starts, limits, strides = s.bound(starts_term), s.bound(limits_term), s.bound(strides_term)
    if target is None and known is None and starts is None and limits is None:
        target = s.sizes()
    rank = len(next(x for x in (target, known, starts, limits) if x is not None))
    whole = s.rng.random() < 0.2
    if strides is None:
        steps = (1,) if whole or (target and not all(type(n) is int for n in target)) else (1, 1, 1, 2, 3)
        strides = tuple(s.rng.choice(steps) for _ in range(rank))
    if any(len(found) != rank for found in (target, known, starts, limits, strides) if found is not None):
        raise DeadEnd
    if starts is None:
        starts = s.near_bound(rank) or tuple(0 if whole else s.rng.choice((0, 0, 1, 2)) for _ in range(rank))
    if limits is None and target is None:
        limits = s.near_bound(rank)
    if limits is None:
        if target is not None:
            limits = tuple(map(_limit, starts, target, strides))
        else:
            assert known is not None
            limits = tuple(size if whole else size - s.rng.choice((0, 0, 1)) for size in known)
    shape = known if known is not None else tuple(n if whole else n + s.rng.choice((0, 0, 1, 2)) for n in limits)
    for start, limit, size in zip(starts, limits, shape, strict=True):
        if less_equal(start, limit) is not True or less_equal(limit, size) is not True:
            raise DeadEnd
    for x, value in ((starts_term, starts), (limits_term, limits), (strides_term, strides)):
        s.bind(x, value)
    result = tuple((limit - start + (stride - 1)) // stride
                   for start, limit, stride in zip(starts, limits, strides, strict=True))
    return result, [shape]


def _limit(start: Size, size: Size, stride: int) -> Size:
    """The least limit of a slice with `size` elements."""
    if stride == 1:
        return start + size
    if not isinstance(size, int):
        raise DeadEnd
    return start + max(0, size - 1) * stride + (size > 0)


def _place_concatenate(s: Sampler, pattern: Operation, target: Shape | None) -> tuple[Shape, list[Shape]]:
    (axis_term,) = pattern.terms
    known = list(map(s.known_shape, pattern.operands))
    base = target if target is not None else next((x for x in known if x is not None), None)
    if base is None:
        base = s.sizes(s.rng.choice((1, 2, 3)))
    if not base:
        raise DeadEnd
    axis = s.bound(axis_term)
    axis = s.rng.randrange(len(base)) if axis is None else axis
    if axis >= len(base):
        raise DeadEnd
    s.bind(axis_term, axis)
    parts: list[Size | None] = [None if x is None or axis >= len(x) else x[axis] for x in known]
    free = [i for i, part in enumerate(parts) if part is None]
    for n, i in enumerate(free):
        if target is not None and n == len(free) - 1:
            rest = target[axis] - sum((p for p in parts if p is not None), 0)
            if less_equal(0, rest) is not True:
                raise DeadEnd
            parts[i] = rest
        else:
            parts[i] = s.size() if target is None else s.rng.choice((0, 1, 2))
    shapes = [(*base[:axis], part, *base[axis + 1:]) for part in parts if part is not None]
    total: Size = sum((shape[axis] for shape in shapes[1:]), shapes[0][axis])
    return (*base[:axis], total, *base[axis + 1:]), shapes


def _place_pad(s: Sampler, pattern: Operation, target: Shape | None) -> tuple[Shape, list[Shape]]:
    low_term, high_term = pattern.terms
    known = s.known_shape(pattern.operands[0])
    low, high = s.bound(low_term), s.bound(high_term)
    base = next((x for x in (known, target, low, high) if x is not None), None)
    rank = len(s.sizes() if base is None else base)
    none = s.rng.random() < 0.2
    choose = (0,) if none else (0, 0, 1, 2)
    low = tuple(s.rng.choice(choose) for _ in range(rank)) if low is None else low
    high = tuple(s.rng.choice(choose) for _ in range(rank)) if high is None else high
    if not len(low) == len(high) == rank:
        raise DeadEnd
    if known is None and target is not None:
        known = tuple(size - a - b for size, a, b in zip(target, low, high, strict=True))
        if any(less_equal(0, size) is not True for size in known):
            raise DeadEnd
    shape = s.sizes(rank) if known is None else known
    s.bind(low_term, low)
    s.bind(high_term, high)
    return tuple(a + size + b for a, size, b in zip(low, shape, high, strict=True)), [shape, ()]


def _place_reshape(s: Sampler, pattern: Operation, target: Shape | None) -> tuple[Shape, list[Shape]]:
    (shape_term,) = pattern.terms
    known = s.known_shape(pattern.operands[0])
    shape = s.bound(shape_term) if target is None else target
    if shape is None:
        shape = _regrouped(s, known if known is not None else s.sizes())
    operand = _regrouped(s, shape) if known is None else known
    s.bind(shape_term, shape)
    return shape, [operand]


def _regrouped(s: Sampler, shape: Shape) -> Shape:
    """The same number of elements under another shape."""
    sizes = list(shape)
    for _ in range(s.rng.choice((0, 1, 1, 2))):
        move = s.rng.choice(("merge", "split", "unit", "drop"))
        at = s.rng.randrange(len(sizes) + 1)
        if move == "unit":
            sizes.insert(at, 1)
        elif at < len(sizes) and move == "drop" and sizes[at] == 1:
            del sizes[at]
        elif at + 1 < len(sizes) and move == "merge":
            sizes[at: at + 2] = [sizes[at] * sizes[at + 1]]
        elif at < len(sizes) and move == "split":
            for factor in (2, 3, 5):
                size = sizes[at]
                if isinstance(size, int) and size > 0 and size % factor == 0:
                    sizes[at: at + 1] = [factor, size // factor]
                    break
    return tuple(sizes)


def _place_iota(s: Sampler, pattern: Operation, target: Shape | None) -> tuple[Shape, list[Shape]]:
    type_term, axis_term = pattern.terms
    found = s.bound(type_term)
    if found is None:
        found = TensorType(s.dtype(pattern), s.sizes(s.rng.choice((1, 2, 3))) if target is None else target)
    axis = s.bound(axis_term)
    if not found.shape:
        raise DeadEnd
    axis = s.rng.randrange(found.rank) if axis is None else axis
    s.bind(type_term, found)
    s.bind(axis_term, axis)
    return found.shape, []


PLACERS: dict[str, Placer] = {
    "view": _place_view, "reduce": _place_reduce, "contract": _place_contract, "slice": _place_slice,
    "concatenate": _place_concatenate, "pad": _place_pad, "reshape": _place_reshape, "iota": _place_iota,
}


def _decided_by_extents(s: Sampler, pattern: Operation) -> Shape | None:
    extents, rank = s.bound(pattern.attribute("extents")), s.bound(pattern.attribute("rank"))
    return None if extents is None or rank is None else extents[:rank]


def _decided_by_type(s: Sampler, pattern: Operation) -> Shape | None:
    found = s.bound(pattern.attribute("type"))
    return None if found is None else found.shape


DECIDED: dict[str, Callable[[Sampler, Operation], Shape | None]] = {
    "view": lambda s, pattern: s.bound(pattern.attribute("shape")),
    "reshape": lambda s, pattern: s.bound(pattern.attribute("shape")),
    "reduce": _decided_by_extents, "contract": _decided_by_extents, "iota": _decided_by_type,
}

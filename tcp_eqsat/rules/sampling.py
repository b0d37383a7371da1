"""Random matches of a rule's left side: dtypes, shapes and attributes under which it types.

Shapes flow from the root down: each operation, asked for a result shape, chooses its attributes and the shapes it
asks of its operands, within what variables already bind. A dead end raises `DeadEnd`, and the caller draws again.
Sizes are 0, 1, 2, odd and symbolic; a sample draws from a few of them, so that many are equal.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tcp_eqsat.errors import RuleError, TcpError
from tcp_eqsat.lang.dims import LARGEST, Size, equal, less_equal, symbol
from tcp_eqsat.lang.op import op_named
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.scalar import SCALAR_OPS, ScalarOp
from tcp_eqsat.lang.types import BOOL, DTYPES, F32, F64, I32, DType, Shape, TensorType, dtype_of
from tcp_eqsat.rules.attribute import (
    AttributeConstant,
    AttributeTerm,
    AttributeVariable,
    attribute_sorts,
    evaluate_term,
    same_value,
)
from tcp_eqsat.rules.pattern import (
    Apply,
    Operation,
    OperationVariable,
    Pattern,
    Splat,
    TensorVariable,
    operation_variables,
    signature,
    tensor_variables,
)

SYMBOLS: dict[str, int] = {"n": 5, "k": 6}
_SYMBOLIC = [symbol(name, 4, LARGEST) for name in SYMBOLS]
_NUMBERS = (0, 1, -1, 2, 0.5, -0.0, 3, -2, 4, 0.25, 10, float("inf"), float("nan"), 1e-3)


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


# Dtypes -------------------------------------------------------------------------------------------------------------


class _DtypeClasses:
    """Which parts of patterns have the same dtype, by union-find; parts are pattern nodes by identity and variables."""

    def __init__(self, sample: Sample) -> None:
        self.parent: dict[Any, Any] = {}
        self.fixed: dict[Any, DType] = {}
        self.sample = sample

    def key(self, pattern: Pattern) -> Any:
        if isinstance(pattern, TensorVariable):
            return pattern
        if isinstance(pattern, Splat) and isinstance(pattern.value, AttributeVariable):
            return pattern.value
        return id(pattern)

    def find(self, key: Any) -> Any:
        while self.parent.get(key, key) != key:
            key = self.parent[key]
        return key

    def join(self, a: Any, b: Any) -> None:
        a, b = self.find(a), self.find(b)
        if a == b:
            return
        if a in self.fixed and b in self.fixed and self.fixed[a] != self.fixed[b]:
            raise DeadEnd
        if a in self.fixed:
            a, b = b, a
        self.parent[a] = b

    def fix(self, key: Any, dtype: DType) -> None:
        key = self.find(key)
        if self.fixed.setdefault(key, dtype) != dtype:
            raise DeadEnd

    def visit(self, pattern: Pattern) -> None:
        for operand in pattern.operands:
            self.visit(operand)
        key = self.key(pattern)
        if isinstance(pattern, Operation):
            for operand in pattern.operands:
                self.join(key, self.key(operand))
        if isinstance(pattern, Splat) and isinstance(pattern.value, AttributeConstant) \
                and isinstance(pattern.value.value, bool):
            self.fix(key, BOOL)
        if isinstance(pattern, Apply):
            op = pattern.operation
            classes, result = signature(self.sample.operations[op.name] if isinstance(op, OperationVariable) else op)
            chosen: Any = ("chosen", id(pattern))
            for operand, fixed in zip(pattern.operands, classes, strict=True):
                if fixed is None:
                    self.join(chosen, self.key(operand))
                else:
                    self.fix(self.key(operand), fixed)
            if result is None:
                self.join(chosen, key)
            else:
                self.fix(key, result)


# Shapes and attributes ------------------------------------------------------------------------------------------------


class Sampler:
    """Draws matches of patterns. `rng` is seeded by the seed and the name."""

    def __init__(self, name: str, patterns: tuple[Pattern, ...], seed: int) -> None:
        self.patterns = patterns
        self.tensors = tensor_variables(*patterns)
        self.rng = random.Random(f"{seed} {name}")
        self._arities: dict[int, list[ScalarOp]] = {}
        for op in SCALAR_OPS.values():
            self._arities.setdefault(op.arity, []).append(op)

    def draw(self) -> tuple[Sample, tuple[Placed, ...]]:
        """A sample and the left sides under it; raises DeadEnd."""
        self.sample = Sample()
        rng = self.rng
        self.pool: list[Size] = [*rng.sample([1, 2, 3, 5], rng.choice((1, 2, 2, 3)))]
        extra = rng.random()
        if extra < 0.25:
            self.pool.append(0)
        elif extra < 0.5:
            self.pool += _SYMBOLIC
        self.sample.operations = {
            x.name: rng.choice(self._arities[x.arity]) for x in operation_variables(*self.patterns)}
        self._find_dtypes()
        placed = tuple(self.place(x, None) for x in self.patterns)
        numbers = list(range(len(self.tensors)))
        if rng.random() < 0.5:
            rng.shuffle(numbers)
        self.sample.numbering = {x.name: n for x, n in zip(self.tensors, numbers, strict=True)}
        return self.sample, placed

    def scalar(self, sample: Sample) -> tuple[Sample, tuple[Placed, ...]]:
        """The same dtypes, numbers and operations for tensors of rank 0; raises DeadEnd."""
        changed = {name: TensorType(value.dtype, ()) if isinstance(value, TensorType) else value
                   for name, value in sample.values.items()}
        self.sample = Sample(changed, sample.operations, sample.numbering)
        return self.sample, tuple(self.place(x, ()) for x in self.patterns)

    def over(self, arrays: Mapping[str, np.ndarray]) -> tuple[Sample, tuple[Placed, ...]]:
        """A sample in which tensor variables have the types of given arrays; raises DeadEnd."""
        self.sample = Sample({
            name: TensorType(dtype_of(array.dtype), array.shape) for name, array in arrays.items()})
        self.pool = [1, 2, 3]
        self._find_dtypes()
        for x in self.tensors:
            self.classes.fix(x, self.sample.values[x.name].dtype)
        return self.sample, tuple(self.place(x, None) for x in self.patterns)

    def _find_dtypes(self) -> None:
        self.classes = _DtypeClasses(self.sample)
        self._dtypes: dict[Any, DType] = {}
        for x in self.patterns:
            self.classes.visit(x)

    def dtype(self, pattern: Pattern) -> DType:
        key = self.classes.find(self.classes.key(pattern))
        if key in self.classes.fixed:
            return self.classes.fixed[key]
        if key not in self._dtypes:
            others = [*DTYPES.values()]
            self._dtypes[key] = self.rng.choice((F32, F32, F32, F64, I32, *self.rng.choices(others, k=2)))
        return self._dtypes[key]

    def size(self) -> Size:
        return self.rng.choice(self.pool)

    def sizes(self, rank: int | None = None) -> Shape:
        return tuple(self.size() for _ in range(self.rng.choice((0, 1, 2, 2, 3, 4)) if rank is None else rank))

    def bound(self, x: AttributeTerm) -> Any:
        """The value of a term, None while its variable is free."""
        return self.sample.values.get(x.name) if isinstance(x, AttributeVariable) else evaluate_term(x, {})

    def bind(self, x: AttributeTerm, value: Any) -> None:
        """Bind a free variable; a bound one or a constant must have the value."""
        known = self.bound(x)
        if known is None:
            assert isinstance(x, AttributeVariable)
            self.sample.values[x.name] = value
        elif not same_value(known, value):
            raise DeadEnd

    def known_shape(self, pattern: Pattern) -> Shape | None:
        """The shape that a pattern must have by what is bound already, where something decides it."""
        if isinstance(pattern, TensorVariable):
            found = self.sample.values.get(pattern.name)
            return None if found is None else found.shape
        if isinstance(pattern, Apply):
            return next((s for s in map(self.known_shape, pattern.operands) if s is not None), None)
        if isinstance(pattern, Operation):
            decide = _DECIDED.get(pattern.name)
            return decide(self, pattern) if decide else None
        return None

    def place(self, pattern: Pattern, target: Shape | None) -> Placed:
        """Choose what is free in `pattern` so that it has shape `target` (None: any)."""
        if target is None:
            target = self.known_shape(pattern)
        if isinstance(pattern, TensorVariable):
            found = self.sample.values.get(pattern.name)
            if found is None:
                found = TensorType(self.dtype(pattern), self.sizes() if target is None else target)
                self.sample.values[pattern.name] = found
            elif target is not None and not same_value(found.shape, target):
                raise DeadEnd
            return Placed(pattern, found, ())
        if isinstance(pattern, Splat):
            return self._place_splat(pattern, self.sizes() if target is None else target)
        if isinstance(pattern, Apply):
            shape = self.sizes() if target is None else target
            operands = tuple(self.place(x, shape) for x in pattern.operands)
            return Placed(pattern, TensorType(self.dtype(pattern), shape), operands)
        assert isinstance(pattern, Operation)
        if pattern.name not in _PLACERS:
            raise RuleError(f"no sampler for {pattern.name}")
        shape, shapes = _PLACERS[pattern.name](self, pattern, target)
        operands = tuple(map(self.place, pattern.operands, shapes))
        return Placed(pattern, TensorType(self.dtype(pattern), shape), operands)

    def _place_splat(self, pattern: Splat, shape: Shape) -> Placed:
        dtype = self.dtype(pattern)
        if isinstance(pattern.value, AttributeVariable) and self.bound(pattern.value) is None:
            try:
                number = builders.scalar_constant(self.rng.choice(_NUMBERS), dtype).attributes.data.array[()]
            except TcpError:
                raise DeadEnd from None
            self.bind(pattern.value, number)
        return Placed(pattern, TensorType(dtype, shape), ())

    def near_bound(self, rank: int) -> Shape | None:
        """Sometimes a shape that is bound already, with one size from another: what meets conditions that compare."""
        bound = [x for x in self.sample.values.values() if isinstance(x, tuple) and len(x) == rank]
        if len(bound) < 2 or rank == 0 or self.rng.random() < 0.5:
            return None
        base, other = self.rng.sample(bound, 2)
        at = self.rng.randrange(rank)
        return (*base[:at], other[at], *base[at + 1:])

    # Index maps ---------------------------------------------------------------------------------------------------

    def place_labels(self, pattern: Operation, target: Shape | None, label_terms: tuple[AttributeTerm, ...],
                     extents_term: AttributeTerm, rank_term: AttributeTerm | None) -> tuple[Shape, list[Shape]]:
        """View (no rank term), reduce and contract: an iteration space and each operand's labels in it."""
        known = list(map(self.known_shape, pattern.operands))
        labels = list(map(self.bound, label_terms))
        extents = self.bound(extents_term)
        rank = None if rank_term is None else self.bound(rank_term)
        if extents is None:
            extents, rank = self._extents(labels, known, rank, target, rank_term is None)
        elif rank_term is None:
            rank = len(extents)
        elif rank is None:
            rank = len(target) if target is not None else self.rng.randint(0, len(extents))
        if rank > len(extents) or (target is not None and not same_value(extents[:rank], target)):
            raise DeadEnd
        free = []
        for i, (found, shape) in enumerate(zip(labels, known, strict=True)):
            if found is None:
                labels[i] = self._labels_of(shape, extents) if shape is not None else self._labels(extents, rank)
                if shape is None:
                    free.append(i)
        covered = {label for found in labels for label in found}
        for label in range(rank, len(extents)):
            if label not in covered:
                if not free:
                    raise DeadEnd
                i = self.rng.choice(free)
                at = self.rng.randint(0, len(labels[i]))
                labels[i] = (*labels[i][:at], label, *labels[i][at:])
        for x, found in zip(label_terms, labels, strict=True):
            self.bind(x, found)
        self.bind(extents_term, extents)
        if rank_term is not None:
            self.bind(rank_term, rank)
        if any(label >= len(extents) for found in labels for label in found):
            raise DeadEnd
        return extents[:rank], [
            tuple(extents[label] if label >= 0 else 1 for label in found) for found in labels]

    def _extents(self, labels: list[Any], known: list[Shape | None], rank: int | None, target: Shape | None,
                 all_kept: bool) -> tuple[Shape, int]:
        if rank is not None and target is not None and rank != len(target):
            raise DeadEnd
        kept = list(target if target is not None else self.sizes(rank))
        summed = [] if all_kept else list(self.sizes(self.rng.choice((0, 1, 1, 2))))
        if summed and self.rng.random() < 0.15:
            summed[0] = 0
        fixed = [found for found in labels if found is not None]
        if fixed:
            needed = max((label + 1 for found in fixed for label in found), default=0)
            if target is None and rank is None:
                kept = kept[:needed] if self.rng.random() < 0.7 else kept
            summed = list(self.sizes(max(0, needed - len(kept))))
            extents = kept + summed
            for found, shape in zip(labels, known, strict=True):
                for label, size in zip(found or (), shape or (), strict=False):
                    if label >= 0:
                        extents[label] = size
            return tuple(extents), len(kept)
        for shape in known:
            spare = kept + summed
            for size in shape or ():
                if size in spare:
                    spare.remove(size)
                elif size == 1 and self.rng.random() < 0.3:
                    continue
                elif not all_kept and (target is not None or rank is not None or self.rng.random() < 0.5):
                    summed.append(size)
                elif target is None and rank is None:
                    kept.append(size)
                else:
                    raise DeadEnd
        self.rng.shuffle(summed)
        if target is None:
            self.rng.shuffle(kept)
        return tuple(kept + summed), len(kept)

    def _labels_of(self, shape: Shape, extents: Shape) -> tuple[int, ...]:
        spare = list(range(len(extents)))
        self.rng.shuffle(spare)
        if self.rng.random() < 0.3:
            spare.sort()
        labels = []
        for size in shape:
            found = next((label for label in spare if equal(extents[label], size)), None)
            if found is None or (size == 1 and self.rng.random() < 0.2):
                if size != 1:
                    raise DeadEnd
                labels.append(-1)
            else:
                spare.remove(found)
                labels.append(found)
        return tuple(labels)

    def _labels(self, extents: Shape, rank: int) -> tuple[int, ...]:
        if self.rng.random() < 0.25:
            return tuple(range(len(extents)))
        chosen = [label for label in range(len(extents)) if self.rng.random() < (0.85 if label >= rank else 0.7)]
        if self.rng.random() < 0.5:
            self.rng.shuffle(chosen)
        if self.rng.random() < 0.1:
            chosen.insert(self.rng.randint(0, len(chosen)), -1)
        return tuple(chosen)


Placer = Callable[[Sampler, Operation, "Shape | None"], "tuple[Shape, list[Shape]]"]


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


_PLACERS: dict[str, Placer] = {
    "view": _place_view, "reduce": _place_reduce, "contract": _place_contract, "slice": _place_slice,
    "concatenate": _place_concatenate, "pad": _place_pad, "reshape": _place_reshape, "iota": _place_iota,
}


def _decided_by_extents(s: Sampler, pattern: Operation) -> Shape | None:
    extents, rank = s.bound(pattern.attribute("extents")), s.bound(pattern.attribute("rank"))
    return None if extents is None or rank is None else extents[:rank]


def _decided_by_type(s: Sampler, pattern: Operation) -> Shape | None:
    found = s.bound(pattern.attribute("type"))
    return None if found is None else found.shape


_DECIDED: dict[str, Callable[[Sampler, Operation], Shape | None]] = {
    "view": lambda s, pattern: s.bound(pattern.attribute("shape")),
    "reshape": lambda s, pattern: s.bound(pattern.attribute("shape")),
    "reduce": _decided_by_extents, "contract": _decided_by_extents, "iota": _decided_by_type,
}


# Building -------------------------------------------------------------------------------------------------------------


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
        dtype = next(d for d in DTYPES.values() if d.numpy == number.dtype)
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


__all__ = ["SYMBOLS", "DeadEnd", "NoValue", "Placed", "Sample", "Sampler", "build_left", "build_right"]

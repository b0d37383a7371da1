"""Random matches of patterns: dtypes, shapes and attributes under which they type.

Shapes flow from the root down: each operation, asked for a result shape, chooses its attributes and the shapes it
asks of its operands, within what variables already bind. A dead end raises `DeadEnd`, and the caller draws again.
Sizes are 0, 1, 2, odd and symbolic; a sample draws from a few of them, so that many are equal.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np

from tcp_eqsat.errors import RuleError, TcpError
from tcp_eqsat.lang.dims import LARGEST, Size, equal, symbol
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.scalar import SCALAR_OPS, ScalarOp
from tcp_eqsat.lang.types import DTYPES, F32, F64, I32, DType, Shape, TensorType, dtype_of
from tcp_eqsat.rules.attribute import AttributeTerm, AttributeVariable, evaluate_term, same_value
from tcp_eqsat.rules.dtype_classes import DtypeClasses
from tcp_eqsat.rules.pattern import (
    Apply,
    Operation,
    Pattern,
    Splat,
    TensorVariable,
    operation_variables,
    tensor_variables,
)
from tcp_eqsat.rules.placers import DECIDED, PLACERS
from tcp_eqsat.rules.sample import DeadEnd, Placed, Sample

SYMBOLS: dict[str, int] = {"n": 5, "k": 6}
_SYMBOLIC = [symbol(name, 4, LARGEST) for name in SYMBOLS]
_COMPUTED = [dtype for dtype in DTYPES.values() if not dtype.storage_only]
_NUMBERS = (0, 1, -1, 2, 0.5, -0.0, 3, -2, 4, 0.25, 10, float("inf"), float("nan"), 1e-3)


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
        self.classes = DtypeClasses(self.sample)
        self._dtypes: dict[Any, DType] = {}
        for x in self.patterns:
            self.classes.visit(x)

    def dtype(self, pattern: Pattern) -> DType:
        key = self.classes.find(self.classes.key(pattern))
        if key in self.classes.fixed:
            return self.classes.fixed[key]
        if key not in self._dtypes:
            others = [*DTYPES.values(), *_COMPUTED, *_COMPUTED]
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
            decide = DECIDED.get(pattern.name)
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
        if pattern.name not in PLACERS:
            raise RuleError(f"no sampler for {pattern.name}")
        shape, shapes = PLACERS[pattern.name](self, pattern, target)
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

"""Random programs over every operation that kernels compute, small and with a symbolic size."""

from __future__ import annotations

import numpy as np

from tcp_eqsat.lang.dims import symbol
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.ops.attributes import ReduceAttributes
from tcp_eqsat.lang.program import Function, Node
from tcp_eqsat.lang.scalar import ScalarFunction, apply, literal, parameter, scalar_op_named
from tcp_eqsat.lang.types import F32, TensorType

B = symbol("b", 0, 100)
SIZES = (B, 1, 2, 3)


class Programs:
    """Random functions of f32 tensors."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def _pick(self, items):
        return items[int(self.random.integers(len(items)))]

    def function(self, operations: int = 12) -> Function:
        shapes = [(B, 3), (3,), (2, 3), (B, 2, 3)]
        parameters = tuple(
            builders.parameter(f"p{i}", i, TensorType(F32, shape)) for i, shape in enumerate(shapes))
        values: list[Node] = [
            *parameters, builders.constant(np.arange(6, dtype=np.float32).reshape(2, 3) - 2),
            builders.scalar_constant(0.5, F32)]
        for _ in range(operations):
            values.append(self._operation(values))
        results = tuple(self._pick(values[-operations // 2:]) for _ in range(int(self.random.integers(1, 4))))
        return Function("random", parameters, results, {values[7]: "named"})

    def _operation(self, values: list[Node]) -> Node:
        for _ in range(50):
            x = self._pick(values)
            made = self._pick((
                self._unary, self._binary, self._binary, self._binary, self._view, self._view, self._reduce,
                self._reduce, self._contract, self._slice, self._concatenate, self._pad, self._reshape, self._iota,
                self._fused))(x, values)
            if made is not None and len(made.shape) <= 4:
                return made
        return builders.map_scalar(scalar_op_named("negative"), values[0])

    def _unary(self, x, values):
        return builders.map_scalar(scalar_op_named(self._pick(("tanh", "negative", "abs", "floor"))), x)

    def _binary(self, x, values):
        op = scalar_op_named(self._pick(("add", "subtract", "multiply", "maximum")))
        y = self._pick(values)
        if x.shape == y.shape:
            return builders.map_scalar(op, x, y)
        if len(y.shape) < len(x.shape) and x.shape[len(x.shape) - len(y.shape):] == y.shape:
            axes = tuple(range(len(x.shape) - len(y.shape), len(x.shape)))
            return builders.map_scalar(op, x, builders.broadcast_in_dim(y, x.shape, axes))
        return None

    def _fused(self, x, values):
        p = parameter(0, F32)
        return builders.map_function(ScalarFunction((F32,), apply("tanh", p) * p + literal(0.25, F32)), x)

    def _view(self, x, values):
        rank = len(x.shape)
        if rank < 4 and self.random.integers(2):
            place = int(self.random.integers(rank + 1))
            shape = (*x.shape[:place], self._pick(SIZES), *x.shape[place:])
            return builders.broadcast_in_dim(x, shape, tuple(a + (a >= place) for a in range(rank)))
        if 1 in x.shape and self.random.integers(2):
            axis = x.shape.index(1)
            shape = (*x.shape[:axis], *x.shape[axis + 1:])
            labels = tuple(-1 if a == axis else a - (a > axis) for a in range(rank))
            return builders.view(x, labels, shape)
        return builders.transpose(x, tuple(int(a) for a in self.random.permutation(rank))) if rank > 1 else None

    def _reduce(self, x, values):
        rank = len(x.shape)
        if not rank:
            return None
        axes = tuple(sorted({int(a) for a in self.random.integers(rank, size=int(self.random.integers(1, 3)))}))
        op = scalar_op_named(self._pick(("add", "maximum")))
        if self.random.integers(4) == 0:
            attributes = ReduceAttributes(op, tuple(range(1, rank + 1)), (2, *x.shape), 1)
            return builders.reduce(op, x, attributes)
        reduced = builders.reduce_axes(op, x, axes)
        if self.random.integers(2):
            kept = tuple(a for a in range(rank) if a not in axes)
            return builders.broadcast_in_dim(reduced, x.shape, kept)
        return reduced

    def _contract(self, x, values):
        y = self._pick(values)
        pairs = [(a, b) for a, m in enumerate(x.shape) for b, n in enumerate(y.shape) if m == n]
        if not pairs:
            return None
        a, b = self._pick(pairs)
        others = [(c, d) for c, d in pairs if c != a and d != b]
        batch = [self._pick(others)] if others and self.random.integers(2) else []
        return builders.dot_general(
            x, y, ((a,), (b,)), (tuple(c for c, _ in batch), tuple(d for _, d in batch)))

    def _slice(self, x, values):
        axes = [a for a, n in enumerate(x.shape) if isinstance(n, int) and n > 1]
        if not axes:
            return None
        axis = self._pick(axes)
        start = int(self.random.integers(x.shape[axis]))
        limit = int(self.random.integers(start + 1, x.shape[axis] + 1))
        strides = tuple(int(self.random.integers(1, 3)) if a == axis else 1 for a in range(len(x.shape)))
        return builders.slice_(
            x, tuple(start if a == axis else 0 for a in range(len(x.shape))),
            tuple(limit if a == axis else n for a, n in enumerate(x.shape)), strides)

    def _concatenate(self, x, values):
        same = [y for y in values if len(y.shape) == len(x.shape) and y.shape[1:] == x.shape[1:]]
        return builders.concatenate((x, self._pick(same)), 0) if x.shape else None

    def _pad(self, x, values):
        if not x.shape:
            return None
        rank = len(x.shape)
        low, high = (tuple(int(n) for n in self.random.integers(2, size=rank)) for _ in range(2))
        scalars = [y for y in values if not y.shape]
        return builders.pad(x, self._pick(scalars), low, high)

    def _reshape(self, x, values):
        if len(x.shape) < 2:
            return None
        place = int(self.random.integers(len(x.shape) - 1))
        return builders.reshape(x, (*x.shape[:place], x.shape[place] * x.shape[place + 1], *x.shape[place + 2:]))

    def _iota(self, x, values):
        return builders.iota(F32, x.shape, int(self.random.integers(len(x.shape)))) if x.shape else None


def arrays_for(function: Function, b: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    random = np.random.default_rng(seed)
    return tuple(
        random.standard_normal([b if n is B else n for n in p.shape]).astype(np.float32) for p in function.parameters)

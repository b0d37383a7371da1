"""Random kernels of several definitions against the reference: views, slices, choices, folds, contractions."""

from __future__ import annotations

import random

import pytest
from plans import PlanWriter, apply, choose, fold, number, position, tensor
from test_compile import TARGETS, check

from tcp_eqsat.lang.dims import Size, symbol
from tcp_eqsat.lang.plan import Plan, Role
from tcp_eqsat.lang.pointful import ZERO, Affine, Expr, axis_index

B = symbol("b")
SIZES: tuple[Size, ...] = (1, 2, 3, 9, 20, B)
DTYPE = "f64"


class RandomKernel:
    """Definitions over operands that are chosen among all that came before."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.writer = PlanWriter()
        self.shapes: dict[str, tuple[Size, ...]] = {}
        for n in range(self.random.randint(1, 3)):
            shape = tuple(self.random.choice(SIZES) for _ in range(self.random.randint(0, 3)))
            self.shapes[f"x{n}"] = shape
            self.writer.parameter(f"x{n}", tensor(DTYPE, *shape))
        self.shapes["b"] = (B,)
        self.writer.parameter("b", tensor(DTYPE, B))

    def plan(self) -> Plan:
        definitions = [self.definition(f"d{n}") for n in range(self.random.randint(1, 6))]
        names = [name for name, _, _ in definitions]
        outputs = {names[-1], *self.random.sample(names, self.random.randint(0, min(2, len(names))))}
        self.writer.kernel({n: Role.RESULT for n in names if n in outputs}, *definitions)
        return self.writer.plan()

    def definition(self, name: str):  # type: ignore[no-untyped-def]
        operand = self.random.choice(list(self.shapes))
        kind = self.random.choice(("map", "map", "fold", "concatenate", "pad", "contract"))
        shape, body = getattr(self, kind)(operand)
        self.shapes[name] = shape
        return name, tensor(DTYPE, *shape), body

    def read(self, at, name: str, shape: tuple[Size, ...]) -> Expr | None:  # type: ignore[no-untyped-def]
        """The operand along axes of equal size, or at its first element; None where that may not exist."""
        indices: list[Affine] = []
        for size in self.shapes[name]:
            axes = [n for n, s in enumerate(shape) if s == size]
            if axes:
                axis = axis_index(self.random.choice(axes))
                turned = isinstance(size, int) and self.random.random() < 0.2
                indices.append(axis.scaled(-1) + (size - 1) if turned else axis)
            elif isinstance(size, int):
                indices.append(ZERO + self.random.randrange(size))
            else:
                return None
        return at(name, *indices)

    def map(self, operand: str):  # type: ignore[no-untyped-def]
        shape = list(self.shapes[operand])
        self.random.shuffle(shape)
        if self.random.random() < 0.3:
            shape.insert(self.random.randint(0, len(shape)), self.random.choice(SIZES))
        shape = tuple(shape)
        others = self.random.sample(list(self.shapes), min(2, len(self.shapes)))
        operation = self.random.choice(("add", "multiply", "maximum", "subtract"))
        unary = self.random.choice(("tanh", "negative", "abs", "exp"))
        state = self.random.getstate()

        def body(at):  # type: ignore[no-untyped-def]
            self.random.setstate(state)
            value = self.read(at, operand, shape)
            assert value is not None
            for other in others:
                second = self.read(at, other, shape)
                if second is not None:
                    value = apply(operation, value, second)
            value = apply("minimum", apply("maximum", value, number(-3, DTYPE)), number(3, DTYPE))
            if shape and self.random.random() < 0.3:
                value = apply("add", value, position(axis_index(self.random.randrange(len(shape))), DTYPE))
            return apply(unary, value)

        return shape, body

    def fold(self, operand: str):  # type: ignore[no-untyped-def]
        full = self.shapes[operand]
        folded = [n for n in range(len(full)) if self.random.random() < 0.5]
        kept = [n for n in range(len(full)) if n not in folded]
        shape = tuple(full[n] for n in kept)
        places = {n: axis_index(kept.index(n)) if n in kept else axis_index(len(kept) + folded.index(n))
                  for n in range(len(full))}
        operation = self.random.choice(("add", "maximum", "minimum"))
        return shape, lambda at: fold(
            operation, len(kept), tuple(full[n] for n in folded), at(operand, *(places[n] for n in range(len(full)))))

    def concatenate(self, operand: str):  # type: ignore[no-untyped-def]
        full = self.shapes[operand]
        if not full:
            return self.map(operand)
        axis = self.random.randrange(len(full))
        shape = tuple(s + s if n == axis else s for n, s in enumerate(full))
        axes = [axis_index(n) for n in range(len(full))]
        moved = [a + -full[axis] if n == axis else a for n, a in enumerate(axes)]
        return shape, lambda at: choose(
            axes[axis], 0, full[axis], at(operand, *axes), apply("negative", at(operand, *moved)))

    def pad(self, operand: str):  # type: ignore[no-untyped-def]
        full = self.shapes[operand]
        if not full:
            return self.map(operand)
        axis, low = self.random.randrange(len(full)), self.random.randint(0, 3)
        shape = tuple(s + low + 2 if n == axis else s for n, s in enumerate(full))
        moved = [axis_index(n) + (-low if n == axis else 0) for n in range(len(full))]
        return shape, lambda at: choose(
            axis_index(axis), low, full[axis] + low, at(operand, *moved), number(7, DTYPE))

    def contract(self, operand: str):  # type: ignore[no-untyped-def]
        """sum over the last axis of x[..., k] * y[k or ..., k]."""
        full = self.shapes[operand]
        second = next((n for n, s in self.shapes.items() if full and s and s[-1] == full[-1]), None)
        if second is None:
            return self.fold(operand)
        rows, columns = full[:-1], self.shapes[second][:-1]
        shape = (*rows, *columns)
        k = axis_index(len(shape))
        left = [axis_index(n) for n in range(len(rows))]
        right = [axis_index(len(rows) + n) for n in range(len(columns))]
        return shape, lambda at: fold(
            "add", len(shape), (full[-1],), apply("multiply", at(operand, *left, k), at(second, *right, k)),
            contraction=True)


@pytest.mark.parametrize("seed", range(80))
def test_random_kernels(seed: int) -> None:
    plan = RandomKernel(seed).plan()
    sizes = ({"b": 0}, {"b": 1}, {"b": 5}, {"b": 18})
    check(plan, *sizes, tolerance=1e-9, target=TARGETS[seed % len(TARGETS)])

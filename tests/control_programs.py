"""Programs with control flow, for tests of their meaning, derivatives, batches and machine code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tcp_eqsat as tcp
from tcp_eqsat.lang.op import bind_sizes, regions_of
from tcp_eqsat.lang.program import Function, Node

xp = tcp.numpy


def loops(function: Function) -> list[Node]:
    """The nodes with regions, those inside of regions included."""
    found = []
    for node in function.nodes():
        regions = regions_of(node.attributes)
        found += [node] if regions else []
        for region in regions:
            found += loops(Function("region", region.parameters, region.results))
    return found


@dataclass(frozen=True)
class Control:
    """A traced function in f64, and the sizes to try it at.

    numpy          the same function of arrays, written without any of our code
    has_gradient   False for loops without a bound
    """

    name: str
    traced: Callable[..., Any]
    specs: tuple[str, ...]
    numpy: Callable[..., Any]
    sizes: tuple[Mapping[str, int], ...] = field(default=({},))
    has_gradient: bool = True

    @property
    def function(self) -> Function:
        return tcp.trace(self.traced, *self.specs, name=self.name).main

    def arrays(self, sizes: Mapping[str, int], seed: int = 0) -> tuple[np.ndarray, ...]:
        random = np.random.default_rng(seed)
        found = []
        for x in self.function.parameters:
            shape = bind_sizes(x.type, sizes).shape
            found.append(random.standard_normal(shape) if x.dtype.is_float else random.integers(-2, 6, shape))
        return tuple(np.asarray(a, x.dtype.numpy) for a, x in zip(found, self.function.parameters, strict=True))


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


# Branches


def branch(x, w):
    return tcp.cond(xp.sum(x) > 0, lambda: xp.sin(x) @ w, lambda: 2 * x)


def branch_numpy(x, w):
    return np.sin(x) @ w if x.sum() > 0 else 2 * x


def nested_branches(x, y):
    hidden = xp.exp(x)

    def inner(z):
        return tcp.cond(y > 0, lambda: (z * hidden, y), lambda: (z - hidden, y * y))

    return tcp.cond(x[0] > 0, inner, lambda z: (z * 3, xp.sum(z)), xp.tanh(x))


def nested_branches_numpy(x, y):
    z = np.tanh(x)
    if x[0] > 0:
        return (z * np.exp(x), y) if y > 0 else (z - np.exp(x), y * y)
    return z * 3, z.sum()


def switched(n, x):
    return tcp.switch(n, [lambda a: a * a, xp.sin, lambda a: a + xp.astype(n, "f64")], x)


def switched_numpy(n, x):
    return (x * x, np.sin(x), x + float(n))[n if 0 <= n <= 2 else 2]


# Loops


def doubling(x):
    return tcp.while_loop(lambda s: xp.sum(s["v"]) < 100.0, lambda s: {"v": s["v"] * 2 + 1, "n": s["n"] + 1},
                          {"v": x * x, "n": 0})["v"]


def bounded(x, limit=6):
    def step(state):
        n, v = state
        return n + 1, xp.sin(v) * 1.5 + x

    return tcp.while_loop(lambda state: xp.sum(state[1]) < 3.0, step, (0, x), bound=limit)


def bounded_numpy(x, limit=6):
    n, v = 0, x
    while v.sum() < 3.0 and n < limit:
        n, v = n + 1, np.sin(v) * 1.5 + x
    return np.int64(n), v


def doubling_numpy(x):
    v = x * x
    while v.sum() < 100.0:
        v = v * 2 + 1
    return v


def recurrence(x, w, h):
    doubled = w + w

    def step(hidden, part):
        hidden = xp.tanh(hidden @ doubled + part)
        return hidden, hidden * part

    return tcp.scan(step, h, x)


def recurrence_numpy(x, w, h):
    outputs = []
    for part in x:
        h = np.tanh(h @ (w + w) + part)
        outputs.append(h * part)
    return h, np.array(outputs).reshape(x.shape)


def backwards(x, y):
    """Two sequences, an integer carry, from the end."""
    def step(state, parts):
        n, total = state
        p, q = parts
        total = total * q + xp.sum(p) * xp.astype(n, "f64")
        return (n + 1, total), {"total": total, "n": n}

    (_, total), outputs = tcp.scan(step, (1, np.float64(0.5)), (x, y), reverse=True)
    return total, outputs["total"], outputs["n"]


def backwards_numpy(x, y):
    n, total = 1, 0.5
    totals, numbers = np.zeros(len(y)), np.zeros(len(y), np.int64)
    for i in reversed(range(len(y))):
        total = total * y[i] + x[i].sum() * n
        totals[i], numbers[i] = total, n
        n += 1
    return np.float64(total), totals, numbers


def mapped(x, w):
    """No carry."""
    return tcp.scan(lambda carry, part: (carry, xp.sin(part) @ w), (), x)[1]


def powers(x):
    """No sequence."""
    return tcp.scan(lambda v, _: (v * x, v), x, None, 4)


def powers_numpy(x):
    return x ** 5, np.array([x ** k for k in range(1, 5)])


def nested_scans(x, w):
    def outer(total, row):
        inner, _ = tcp.scan(lambda v, part: (xp.tanh(v * part + xp.sum(w)), None), total, row)
        return inner + xp.sum(total * w), inner

    return tcp.scan(outer, np.float64(0.1), x)


def nested_scans_numpy(x, w):
    total, outputs = 0.1, []
    for row in x:
        inner = total
        for part in row:
            inner = np.tanh(inner * part + w.sum())
        outputs.append(inner)
        total = inner + (total * w).sum()
    return np.float64(total), np.array(outputs)


def choosing_scan(x, w):
    def step(v, part):
        v = tcp.cond(xp.sum(part) > 0, lambda: xp.sin(v) + part, lambda: v * w)
        return v, xp.sum(v)

    return tcp.scan(step, w, x)


def choosing_scan_numpy(x, w):
    v, outputs = w, []
    for part in x:
        v = np.sin(v) + part if part.sum() > 0 else v * w
        outputs.append(v.sum())
    return v, np.array(outputs)


def lstm(x, w, u, b):
    hidden = w.shape[1] // 4

    def step(state, part):
        h, c = state
        gates = part @ w + h @ u + b
        i, f, g, o = (gates[:, k * hidden: (k + 1) * hidden] for k in range(4))
        c = tcp.nn.sigmoid(f) * c + tcp.nn.sigmoid(i) * xp.tanh(g)
        h = tcp.nn.sigmoid(o) * xp.tanh(c)
        return (h, c), h

    zeros = xp.zeros((x.shape[1], hidden), "f64")
    (h, c), outputs = tcp.scan(step, (zeros, zeros), x)
    return h, c, outputs


def lstm_numpy(x, w, u, b):
    hidden = w.shape[1] // 4
    h = c = np.zeros((x.shape[1], hidden))
    outputs = np.zeros((len(x), x.shape[1], hidden))
    for t, part in enumerate(x):
        i, f, g, o = np.split(part @ w + h @ u + b, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = outputs[t] = sigmoid(o) * np.tanh(c)
    return h, c, outputs


def counted(x):
    return tcp.fori_loop(1, x.shape[0], lambda i, v: v * 0.5 + xp.astype(i, "f64") * x, x)


def counted_numpy(x):
    v = x
    for i in range(1, len(x)):
        v = v * 0.5 + i * x
    return v


def counted_to(n, x):
    return tcp.fori_loop(0, n, lambda i, v: v * x + xp.astype(i, "f64"), x)


def counted_to_numpy(n, x):
    v = x
    for i in range(n):
        v = v * x + i
    return v


LENGTHS = ({"s": 0}, {"s": 1}, {"s": 5})
PROGRAMS = (
    Control("branch", branch, ("f64[3]", "f64[3, 3]"), branch_numpy),
    Control("nested_branches", nested_branches, ("f64[3]", "f64[]"), nested_branches_numpy),
    Control("switched", switched, ("i64[]", "f64[4]"), switched_numpy),
    Control("doubling", doubling, ("f64[3]",), doubling_numpy, has_gradient=False),
    Control("bounded", bounded, ("f64[3]",), bounded_numpy),
    Control("recurrence", recurrence, ("f64[s, 3]", "f64[3, 3]", "f64[3]"), recurrence_numpy, LENGTHS),
    Control("backwards", backwards, ("f64[s, 2]", "f64[s]"), backwards_numpy, LENGTHS),
    Control("mapped", mapped, ("f64[4, s]", "f64[s, 2]"), lambda x, w: np.sin(x) @ w, LENGTHS),
    Control("powers", powers, ("f64[3]",), powers_numpy),
    Control("nested_scans", nested_scans, ("f64[s, b]", "f64[2]"), nested_scans_numpy,
            ({"s": 0, "b": 2}, {"s": 3, "b": 0}, {"s": 3, "b": 4})),
    Control("choosing_scan", choosing_scan, ("f64[s, 3]", "f64[3]"), choosing_scan_numpy, LENGTHS),
    Control("lstm", lstm, ("f64[s, b, 3]", "f64[3, 8]", "f64[2, 8]", "f64[8]"), lstm_numpy,
            ({"s": 4, "b": 2}, {"s": 0, "b": 2}, {"s": 2, "b": 1})),
    Control("counted", counted, ("f64[s]",), counted_numpy, LENGTHS),
    Control("counted_to", counted_to, ("i64[]", "f64[3]"), counted_to_numpy, has_gradient=False),
)

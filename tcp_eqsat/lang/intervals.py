"""Closed intervals of exact numbers, `(lower, upper)`: the arithmetic behind ranges of sizes."""

from __future__ import annotations

import math
from fractions import Fraction

Number = int | Fraction
Interval = tuple[Number, Number]


def add(x: Interval, y: Interval) -> Interval:
    return x[0] + y[0], x[1] + y[1]


def scale(factor: Number, x: Interval) -> Interval:
    low, high = factor * x[0], factor * x[1]
    return (low, high) if factor >= 0 else (high, low)


def multiply(x: Interval, y: Interval) -> Interval:
    if x[0] >= 0 and y[0] >= 0:
        return x[0] * y[0], x[1] * y[1]
    corners = (x[0] * y[0], x[0] * y[1], x[1] * y[0], x[1] * y[1])
    return min(corners), max(corners)


def power(x: Interval, exponent: int) -> Interval:
    """The range of `value ** exponent` for `exponent >= 1`."""
    low, high = x[0] ** exponent, x[1] ** exponent
    if exponent % 2 or x[0] >= 0:
        return low, high
    return (0 if x[1] >= 0 else high), max(low, high)


def floor_divide(x: Interval, y: Interval, step: int = 1) -> Interval:
    """The range of `floor(a / b)`, a in `x` and b in `y` a multiple of `step` other than 0."""
    parts = []
    if y[1] >= step:
        parts.append((max(y[0], step), y[1]))
    if y[0] <= -step:
        parts.append((y[0], min(y[1], -step)))
    corners = [a // b for part in parts for a in x for b in part]
    return (min(corners), max(corners)) if corners else (0, 0)


def intersect(x: Interval, y: Interval) -> Interval:
    return max(x[0], y[0]), min(x[1], y[1])


def integral(x: Interval) -> tuple[int, int]:
    """The integers inside `x`."""
    return math.ceil(x[0]), math.floor(x[1])

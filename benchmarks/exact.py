"""Exact values of the vector math functions, by mpmath: what accuracy is measured against. Needs mpmath."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np


def _erf_inv(mp: Any, x: Any) -> Any:
    size = abs(x)
    if size > 1:
        return mp.nan
    if size == 1 or x == 0:
        return mp.inf * x if size == 1 else x
    if size < 0.9:
        return mp.erfinv(x)
    w = -mp.log(1 - size * size)
    y = mp.sqrt(w - mp.log(mp.pi * w) / 2) if w > 2 else mp.mpf(1)
    for _ in range(12):  # Newton's method on erfc
        y += (mp.erfc(y) - (1 - size)) * mp.sqrt(mp.pi) / 2 * mp.exp(y * y)
    return y * mp.sign(x)


def _is_pole(mp: Any, x: Any) -> bool:
    return bool(x <= 0 and x == mp.floor(x))


def _lgamma(mp: Any, x: Any) -> Any:
    if mp.isinf(x) or _is_pole(mp, x):
        return mp.inf
    return mp.re(mp.loggamma(x))


def _digamma(mp: Any, x: Any) -> Any:
    if _is_pole(mp, x):
        return mp.nan
    return x if mp.isinf(x) else mp.digamma(x)


def _polygamma(mp: Any, n: Any, x: Any) -> Any:
    return mp.polygamma(int(n), x)


def _incomplete(mp: Any, a: Any, x: Any, upper: bool) -> Any:
    limits = (x, mp.inf) if upper else (0, x)
    return mp.gammainc(a, *limits, regularized=True)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "exp2": lambda mp, x: mp.power(2, x),
    "log2": lambda mp, x: mp.log(x, 2),
    "log10": lambda mp, x: mp.log(x, 10),
    "pow": lambda mp, x, y: mp.power(x, y),
    "logistic": lambda mp, x: 1 / (1 + mp.exp(-x)),
    "rsqrt": lambda mp, x: 1 / mp.sqrt(x),
    "cbrt": lambda mp, x: mp.sign(x) * mp.cbrt(abs(x)),
    "fma": lambda mp, x, y, z: x * y + z,
    "erf_inv": _erf_inv,
    "lgamma": _lgamma,
    "digamma": _digamma,
    "zeta": lambda mp, s, q: mp.zeta(s, q),
    "polygamma": _polygamma,
    "bessel_i0e": lambda mp, x: mp.exp(-abs(x)) * mp.besseli(0, x),
    "bessel_i1e": lambda mp, x: mp.exp(-abs(x)) * mp.besseli(1, x),
    "igamma": lambda mp, a, x: _incomplete(mp, a, x, upper=False),
    "igammac": lambda mp, a, x: _incomplete(mp, a, x, upper=True),
    "igamma_grad_a": lambda mp, a, x: mp.diff(lambda t: _incomplete(mp, t, x, upper=False), a),
}
"""Those that mpmath has under another name, or with other special cases."""

def _magnitudes(random: np.random.Generator, count: int, low: float, high: float) -> np.ndarray:
    return np.exp(random.uniform(low, high, count))


def _next_to(random: np.random.Generator, count: int, point: float) -> np.ndarray:
    return point + np.ldexp(random.uniform(-1, 1, count), -random.integers(1, 40, count))


def _near_order(random: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """a and x for the incomplete gamma functions: anywhere, and within a few standard deviations of each other."""
    a = np.concatenate([_magnitudes(random, count, -4, 3), _magnitudes(random, count, 0, 7)])
    near = np.abs(a[count:] + random.normal(0, 3, count) * np.sqrt(a[count:]))
    return a, np.concatenate([_magnitudes(random, count, -4, 4), near])


ARGUMENTS: dict[str, Callable[[np.random.Generator, int], tuple[np.ndarray, ...]]] = {
    "erf": lambda r, n: (np.concatenate([r.uniform(-6, 6, n), _magnitudes(r, n, -40, 2)]),),
    "erfc": lambda r, n: (np.concatenate([r.uniform(-6, 27.5, n), r.uniform(-1, 3, n), _magnitudes(r, n, -40, 2)]),),
    "erf_inv": lambda r, n: (np.concatenate([r.uniform(-1, 1, n), 1 - _magnitudes(r, n, -36, 0)]),),
    "lgamma": lambda r, n: (np.concatenate(
        [r.uniform(-20, 20, n), _magnitudes(r, n, -40, 20), _next_to(r, n, 1.0), _next_to(r, n, 2.0)]),),
    "digamma": lambda r, n: (np.concatenate(
        [r.uniform(-20, 20, n), _magnitudes(r, n, -40, 20), _next_to(r, n, 1.4616321449683622)]),),
    "bessel_i0e": lambda r, n: (np.concatenate([r.uniform(-20, 20, n), _magnitudes(r, n, -20, 8)]),),
    "bessel_i1e": lambda r, n: (np.concatenate([r.uniform(-20, 20, n), _magnitudes(r, n, -20, 8)]),),
    "zeta": lambda r, n: (
        np.concatenate([1 + _magnitudes(r, n, -5, 3.5), r.integers(2, 30, n).astype(float)]),
        np.concatenate([_magnitudes(r, n, -3, 5), r.uniform(0.01, 30, n)])),
    "polygamma": lambda r, n: (
        np.concatenate([r.integers(1, 30, n), r.integers(0, 6, n)]).astype(float),
        np.concatenate([_magnitudes(r, n, -2, 3), r.uniform(2, 30, n)])),
    "igamma": _near_order,
    "igammac": _near_order,
    "igamma_grad_a": lambda r, n: tuple(x[np.arange(0, 2 * n, 4)] for x in _near_order(r, n)),
}
"""Operands, a few times as many as asked for, of functions that are measured against mpmath."""

PRECISION = 160
MORE_PRECISION = {"zeta": 420, "polygamma": 420, "lgamma": 240, "digamma": 240}
"""In bits: mpmath's errors are absolute in places, and results may be tiny."""


def exact_values(name: str, *operands: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The function's values as sums of two f64; NaN where an operand is NaN or the value is not real."""
    mp = importlib.import_module("mpmath").mp
    mp.prec = MORE_PRECISION.get(name, PRECISION)
    function = FUNCTIONS.get(name) or (lambda mp, *x: getattr(mp, name)(*x))
    heads, rests = [], []
    for numbers in zip(*(x.tolist() for x in operands), strict=True):
        value = mp.mpf("nan") if any(x != x for x in numbers) else mp.mpmathify(function(mp, *map(mp.mpf, numbers)))
        value = value if isinstance(value, mp.mpf) else mp.mpf("nan")  # complex: outside the domain
        heads.append(float(value))
        rests.append(float(value - mp.mpf(heads[-1])) if np.isfinite(heads[-1]) else 0.0)
    return np.array(heads), np.array(rests)

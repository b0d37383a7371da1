"""The definitions of special functions in NumPy: f64 in, f64 out, by series and iterations that converge to it.

They are written for accuracy, not for speed, compute in long double where there is one, and share no formula with the
compiled code where there is a choice.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from tcp_eqsat.lang.scalars.functions import elementwise

_LONG = np.longdouble
_PI = _LONG("3.14159265358979323846264338327950288")
_SHIFT = 24
"""Arguments are moved at least this far up, where the asymptotic series below have 20 digits."""

_erf, _erfc = elementwise(math.erf), elementwise(math.erfc)


def _bernoulli(count: int) -> tuple[Fraction, ...]:
    """B(2), B(4), ..., B(2 * count)."""
    numbers = [Fraction(1)]
    for n in range(1, 2 * count + 1):
        numbers.append(-sum((math.comb(n + 1, k) * numbers[k] for k in range(n)), Fraction(0)) / (n + 1))
    return tuple(numbers[2::2])


_BERNOULLI = _bernoulli(12)


def _long(value: Fraction) -> Any:
    return _LONG(value.numerator) / _LONG(value.denominator)


def erf_inv(x: Any) -> np.ndarray:
    """By Halley's method on erf, or on erfc beyond 1/2, from Winitzki's start."""
    size = np.abs(np.asarray(x, np.float64))
    inside = np.where(size < 1, size, 0)
    gap = 1 - inside
    logarithm = np.log(gap * (1 + inside))
    middle = 2 / (math.pi * 0.147) + logarithm / 2
    y = np.sqrt(np.maximum(np.sqrt(middle * middle - logarithm / 0.147) - middle, 0))
    y = np.where(inside < 1e-4, inside * (math.sqrt(math.pi) / 2), y)
    for _ in range(6):
        error = np.where(inside < 0.5, _erf(y) - inside, gap - _erfc(y))
        step = error * np.exp(y * y) * (math.sqrt(math.pi) / 2)
        y = y - step / (1 + y * step)
    y = np.where(size < 1, y, np.where(size == 1, np.inf, np.nan))
    return np.copysign(y, x)


def _lgamma(x: float) -> float:
    try:
        return math.lgamma(x)
    except (ValueError, OverflowError):  # at a pole, and beyond the range
        return math.inf


lgamma = elementwise(_lgamma)


def digamma(x: Any) -> np.ndarray:
    """By recurrence to large arguments and their asymptotic series; by reflection below 0."""
    given = np.asarray(x, _LONG)
    below = given <= 0
    y = np.where(below, 1 - given, given)
    far = y > 2.0**40
    y, total = np.where(far, 1, y), np.zeros_like(y)
    for _ in range(_SHIFT):
        total, y = total - 1 / y, y + 1
    inverse = 1 / (y * y)
    series = sum(_long(value / (2 * k)) * inverse**k for k, value in enumerate(_BERNOULLI, 1))
    result = np.where(far, np.log(np.where(below, -given, given)), total + np.log(y) - 1 / (2 * y) - series)
    distance = given - np.round(given)
    reflected = result - _PI / np.tan(_PI * distance)
    result = np.where(below, np.where(distance == 0, np.nan, reflected), result)
    return np.where(np.isneginf(given), np.nan, result).astype(np.float64)


def _hurwitz(s: Any, q: Any) -> Any:
    """The sum of (q + k)**-s for q > 0 and s > 1, by Euler and Maclaurin's formula."""
    a = q + _SHIFT
    bounded = np.minimum(s, 4096)
    power = a**-s
    total = a ** (1 - s) / (s - 1) + power / 2
    factor = power / a * bounded
    for j, value in enumerate(_BERNOULLI, 1):
        total = total + factor * _long(value / math.factorial(2 * j))
        factor = factor * ((bounded + (2 * j - 1)) / a) * ((bounded + 2 * j) / a)
    for k in reversed(range(_SHIFT)):
        total = total + (q + k) ** -s
    return total


def _zeta(s: Any, q: Any) -> Any:
    s, q = np.broadcast_arrays(np.asarray(s, _LONG), np.asarray(q, _LONG))
    usual, positive = s > 1, q > 0
    whole, odd = np.trunc(s) == s, np.fmod(s, 2) == 1
    safe = np.where(usual, s, 2)
    integral = np.trunc(q) == q
    mirrored = np.where(usual & ~positive & ~integral, q, -_LONG(0.5))
    below = _hurwitz(safe, np.ceil(mirrored) - mirrored) - _hurwitz(safe, 1 - mirrored)
    across = _hurwitz(safe, mirrored - np.floor(mirrored)) + np.where(odd, -below, below)
    result = np.where(positive, _hurwitz(safe, np.where(positive & (q < np.inf), q, 1)), across)
    result = np.where(positive & np.isinf(q), 0, result)
    result = np.where(~positive & ~whole, np.nan, result)
    result = np.where(~positive & integral, np.inf, result)
    result = np.where(s == 1, np.inf, np.where(s < 1, np.nan, result))
    return np.where(np.isnan(s) | np.isnan(q), np.nan, result)


def zeta(s: Any, q: Any) -> np.ndarray:
    """The Hurwitz zeta function; below 0, by the terms on either side of 0."""
    return np.asarray(_zeta(s, q)).astype(np.float64)


def polygamma(n: Any, x: Any) -> np.ndarray:
    """(-1)**(n + 1) * n! * zeta(n + 1, x); digamma for n = 0."""
    n, x = np.broadcast_arrays(np.asarray(n, np.float64), np.asarray(x, np.float64))
    valid = (n >= 0) & (np.trunc(n) == n) & np.isfinite(n)
    order = np.where(valid, n, 0)
    total = _zeta(order + 1, x)
    factorials = _factorials()
    within = (order < factorials.size) & (np.abs(total) > np.finfo(_LONG).tiny)
    product = factorials[np.where(within, order, 0).astype(np.int64)] * total
    # By logarithms, which have fewer digits: of 1 + (1 + 1 / x)**-s + ... and x**-s
    positive = np.where((x > 0) & np.isfinite(x), x, 1).astype(_LONG)
    terms = sum((1 + k / positive) ** -(order + 1) for k in range(4 * _SHIFT))
    logarithm = np.where(x > 0, np.log(terms) - (order + 1) * np.log(positive), np.log(np.abs(total)))
    large = np.exp(lgamma(order + 1) + logarithm) * np.where(x > 0, 1, np.sign(total))
    product = np.where(within | np.isinf(total) | ~np.isfinite(x), product, large)
    sign = np.where(np.fmod(order, 2) == 1, 1, -1)
    result = np.where(order == 0, digamma(x), (sign * product).astype(np.float64))
    return np.where(valid, result, np.nan)


@functools.cache
def _factorials() -> np.ndarray:
    """0!, 1!, ... as far as long double goes."""
    with np.errstate(over="ignore"):
        table = np.cumprod(np.maximum(np.arange(1700, dtype=_LONG), 1))
    return np.asarray(table[np.isfinite(table)])


def _bessel(order: int) -> Callable[[Any], np.ndarray]:
    """exp(-|x|) I(x) of order 0 or 1: by its power series, from 30 on by its asymptotic series."""

    def function(x: Any) -> np.ndarray:
        size = np.abs(np.asarray(x, _LONG))
        inner, outer = np.minimum(size, 30), np.maximum(size, 30)
        term = np.exp(-inner) * (inner / 2) ** order
        near = term
        for k in range(1, 120):
            term = term * (inner / 2) ** 2 / (k * (k + order))
            near = near + term
        term = far = np.ones_like(outer)
        for k in range(1, 40):
            term = term * ((2 * k - 1) ** 2 - 4 * order) / (8 * k * outer)
            far = far + term
        far = far / np.sqrt(2 * _PI * outer)
        result = np.where(size < 30, near, far).astype(np.float64)
        return np.copysign(result, x) if order else result

    return function


bessel_i0e, bessel_i1e = _bessel(0), _bessel(1)


# The incomplete gamma functions

_ITERATIONS = 20_000
_UNIFORM_FROM = 1e4
_GRADIENT_UP_TO = 1e5


def _stirling(x: Any) -> Any:
    """log gamma(x) - ((x - 1/2) log(x) - x + log(2 pi) / 2) for large x."""
    return sum(_long(v / (2 * k * (2 * k - 1))) * x ** (1 - 2 * k) for k, v in enumerate(_BERNOULLI, 1))


def _excess(a: Any, x: Any) -> tuple[Any, Any]:
    """mu = (x - a) / a, and mu - log(1 + mu)."""
    mu = (x - a) / a
    near = np.abs(mu) < 1e-2
    small = np.where(near, mu, 0)
    series = sum((-1) ** k * small**k / k for k in range(2, 12))
    return mu, np.where(near, series, mu - np.log(x / a))


def _density(a: Any, x: Any) -> Any:
    """x**a * exp(-x) / gamma(a) in long double, for positive a and x; gamma is moved up where a is small."""
    product, y = np.ones_like(a), a
    for _ in range(_SHIFT):
        product, y = product * np.where(a < _SHIFT, y, 1), np.where(a < _SHIFT, y + 1, y)
    # x**y exp(-x) / gamma(y) by Stirling, with what a lacks to y
    _, excess = _excess(y, x)
    moved = np.exp(-y * excess - _stirling(y)) * np.sqrt(y / (2 * _PI))
    lacking = np.exp((a - y) * np.log(x)) * product
    by_parts = np.exp(a * np.log(x) - x - (y - _LONG(0.5)) * np.log(y) + y - np.log(2 * _PI) / 2 - _stirling(y))
    return np.where(a < _SHIFT, by_parts * product, moved * lacking)


def _lower_and_upper(a: Any, x: Any) -> tuple[np.ndarray, np.ndarray]:
    """P(a, x) and Q(a, x) for positive finite operands."""
    a, x = np.asarray(a, _LONG), np.asarray(x, _LONG)
    uniform = a > _UNIFORM_FROM
    order, at = np.where(uniform, 1, a), np.where(uniform, 1, x)
    density = _density(order, at)
    below = at < order + 1
    lower = density * _series(order, np.where(below, at, 0))
    upper = density * _fraction(order, np.where(below, order + 2, at))
    p, q = np.where(below, lower, 1 - upper), np.where(below, 1 - lower, upper)
    far_p, far_q = _by_temme(np.where(uniform, a, 1), np.where(uniform, x, 1))
    return np.where(uniform, far_p, p), np.where(uniform, far_q, q)


def _series(a: Any, x: Any) -> Any:
    """The sum of x**n / (a (a + 1) ... (a + n))."""
    term = total = 1 / a
    for n in range(1, _ITERATIONS):
        term = term * x / (a + n)
        total = total + term
        if not np.any(term > total * _LONG(1e-21)):
            break
    return total


def _fraction(a: Any, x: Any) -> Any:
    """1 / (x + 1 - a - (1 - a) / (x + 3 - a - ...)), by its numerators and denominators."""
    before, now = (np.zeros_like(x), np.ones_like(x)), (np.ones_like(x), x + 1 - a)
    value = now[0] / now[1]
    for n in range(1, _ITERATIONS):
        place, numerator = x + 2 * n + 1 - a, n * (a - n)
        top, bottom = (place * new + numerator * old for new, old in zip(now, before, strict=True))
        scale = np.where(bottom == 0, 1, bottom)
        before, now = (now[0] / scale, now[1] / scale), (top / scale, bottom / scale)
        following = now[0] / now[1]
        if not np.any(np.abs(following - value) > np.abs(following) * 8 * np.finfo(_LONG).eps):
            return following
        value = following
    return value


def _by_temme(a: Any, x: Any) -> tuple[Any, Any]:
    """P and Q by three terms of the uniform expansion (DLMF 8.12), enough for a beyond 10,000."""
    mu, excess = _excess(a, x)
    eta = np.copysign(np.sqrt(2 * excess), mu)
    near = np.abs(eta) < 1e-2
    safe_mu, safe_eta = np.where(near, 1, mu), np.where(near, 1, eta)
    first = np.where(
        near, -_LONG(1) / 3 + eta / 12 - 2 * eta**2 / 135 + eta**3 / 864 + eta**4 / 2835, 1 / safe_mu - 1 / safe_eta)
    second = -_LONG(1) / 540 - eta / 288 + eta**2 / 378
    total = first + second / a + _LONG(25) / 6048 / a**2
    correction = np.exp(-a * excess) / np.sqrt(2 * _PI * a) * total
    root = (eta * np.sqrt(a / 2)).astype(np.float64)
    return _erfc(-root) / 2 - correction, _erfc(root) / 2 + correction


def _incomplete(a: Any, x: Any, upper: bool) -> np.ndarray:
    a, x = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(x, np.float64))
    inside = (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
    found = _lower_and_upper(np.where(inside, a, 1), np.where(inside, x, 1))[upper]
    nothing, everything = (1, 0) if upper else (0, 1)
    result = np.where(inside, found, np.where((x == 0) | np.isinf(a), nothing, everything))
    wrong = ~(a > 0) | ~(x >= 0) | (np.isinf(a) & np.isinf(x))
    return np.where(wrong, np.nan, result).astype(np.float64)


def igamma(a: Any, x: Any) -> np.ndarray:
    """The lower regularised incomplete gamma function."""
    return _incomplete(a, x, upper=False)


def igammac(a: Any, x: Any) -> np.ndarray:
    """The upper regularised incomplete gamma function."""
    return _incomplete(a, x, upper=True)


def igamma_grad_a(a: Any, x: Any) -> np.ndarray:
    """By the derivative of the series of x**n / gamma(a + n + 1), whose terms are summed in logarithms."""
    a, x = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(x, np.float64))
    inside = (a > 0) & (x > 0) & (a <= _GRADIENT_UP_TO) & (x - a <= 13 * np.sqrt(np.maximum(a, 0)) + 60)
    order, at = np.where(inside, a, 1).astype(_LONG), np.where(inside, x, 1).astype(_LONG)
    logarithm = np.log(at)
    term = _density(order, at) / order
    psi = digamma(order + 1).astype(_LONG)
    total = term * (logarithm - psi)
    for n in range(1, _ITERATIONS):
        term, psi = term * at / (order + n), psi + 1 / (order + n)
        total = total + term * (logarithm - psi)
        if n > np.max(at - order, initial=0) and not np.any(term > _LONG(1e-24)):
            break
    wrong = ~(a > 0) | ~(x >= 0) | (a > _GRADIENT_UP_TO)
    return np.where(wrong, np.nan, np.where(inside, total, 0)).astype(np.float64)

"""Fits the polynomials of the vector math functions: minimax by the Remez exchange, in 200-bit arithmetic.

    python -m benchmarks.minimax [NAME]...

prints, for each fit, the largest weighted error and the coefficients, lowest power first. They stand in
`tcp_eqsat/codegen/vector_math/` under the same names. Needs mpmath.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import mpmath as mp
import numpy as np

Real = Callable[[mp.mpf], mp.mpf]
mp.mp.prec = 200


@dataclass(frozen=True)
class Fit:
    """Minimises `weight(x) * |p(x) - function(x)|` on [low, high] over polynomials of `degree`."""

    function: Real
    low: mp.mpf
    high: mp.mpf
    degree: int
    weight: Real
    single: bool


def remez(fit: Fit, rounds: int = 20) -> tuple[list[mp.mpf], mp.mpf]:
    """The coefficients, lowest power first, and the largest weighted error on a dense grid."""
    count = fit.degree + 1
    middle, half = (fit.low + fit.high) / 2, (fit.high - fit.low) / 2
    grid = [middle - half * mp.cos(mp.pi * k / (60 * count)) for k in range(60 * count + 1)]
    values = [fit.function(x) for x in grid]
    weights = [abs(fit.weight(x)) for x in grid]
    floor = max(weights) * mp.mpf("1e-9")
    weights = [max(weight, floor) for weight in weights]
    chosen = [round(60 * count * k / count) for k in range(count + 1)]
    best: tuple[list[mp.mpf], mp.mpf] | None = None
    for _ in range(rounds):
        system, right = mp.matrix(count + 1, count + 1), mp.matrix(count + 1, 1)
        for row, k in enumerate(chosen):
            for power in range(count):
                system[row, power] = weights[k] * grid[k] ** power
            system[row, count] = (-1) ** row
            right[row] = weights[k] * values[k]
        solution = mp.lu_solve(system, right)
        coefficients = [solution[power] for power in range(count)]
        errors = [w * (mp.polyval(coefficients[::-1], x) - v) for x, v, w in zip(grid, values, weights, strict=True)]
        largest = max(map(abs, errors))
        if best is None or largest < best[1]:
            best = coefficients, largest
        peaks = _alternating_peaks(errors, count + 1)
        if len(peaks) < count + 1 or peaks == chosen:
            break
        chosen = peaks
    assert best is not None
    return best


def _alternating_peaks(errors: list[mp.mpf], count: int) -> list[int]:
    """The places of the largest error in each run of one sign; of too many, `count` neighbours that matter."""
    peaks: list[int] = []
    start = 0
    for k in range(1, len(errors) + 1):
        if k == len(errors) or mp.sign(errors[k]) != mp.sign(errors[start]):
            peaks.append(max(range(start, k), key=lambda i: abs(errors[i])))
            start = k
    while len(peaks) > count:
        peaks.pop(0 if abs(errors[peaks[0]]) < abs(errors[peaks[-1]]) else -1)
    return peaks


def _near_zero(function: Real, value: Real) -> Real:
    """`function`, which cancels near 0, with `value` there."""
    return lambda x: value(x) if abs(x) < mp.mpf("1e-12") else function(x)


ONE = mp.mpf(1)
HALF_LOG2 = mp.log(2) / 2 * mp.mpf("1.002")
ROOT = mp.sqrt(mp.mpf(1) / 2)
QUARTER_PI = mp.pi / 4 * mp.mpf("1.002")

exp_tail = _near_zero(lambda r: (mp.expm1(r) - r) / r**2, lambda r: mp.mpf(1) / 2 + r / 6)
exp2_tail = _near_zero(lambda r: (mp.power(2, r) - 1) / r, lambda r: mp.log(2))
log_tail = _near_zero(lambda f: (mp.log1p(f) - f + f * f / 2) / f**3, lambda f: mp.mpf(1) / 3 - f / 4)
sin_tail = _near_zero(lambda z: (mp.sin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, lambda z: -mp.mpf(1) / 6)
cos_tail = _near_zero(lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2, lambda z: mp.mpf(1) / 24)
tanh_tail = _near_zero(lambda z: (mp.tanh(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, lambda z: -mp.mpf(1) / 3)
erf_small = _near_zero(lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1, lambda z: 2 / mp.sqrt(mp.pi) - 1)
atanh_tail = _near_zero(lambda z: (2 * mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 2) / z, lambda z: mp.mpf(2) / 3)
pow_log_tail = _near_zero(
    lambda z: (2 * mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 2 - z * 2 / 3) / z**2, lambda z: mp.mpf(2) / 5
)
S2 = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2


def erf_exponent(t: mp.mpf) -> mp.mpf:
    """(log erfc(t) + t) / t: erf(t) = 1 - exp(t * this - t)."""
    return (mp.log(mp.erfc(t)) + t) / t


asin_tail = _near_zero(lambda z: (mp.asin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, lambda z: ONE / 6)
atan_tail = _near_zero(lambda z: (mp.atan(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, lambda z: -ONE / 3)
sinh_tail = _near_zero(lambda z: (mp.sinh(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, lambda z: ONE / 6)


def scaled_erfc(q: mp.mpf) -> mp.mpf:
    """(1 + 2x) * exp(x**2) * erfc(x) with q = (x - 4) / (x + 4), as N. Juffa's erfcx."""
    x = 4 * (1 + q) / (1 - q)
    return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)


def _inverse_erf(w: mp.mpf) -> mp.mpf:
    """erf_inv(x) / x with w = -log(1 - x**2)."""
    if w < mp.mpf("1e-20"):
        return mp.sqrt(mp.pi) / 2
    x = mp.sqrt(-mp.expm1(-w))
    return mp.erfinv(x) / x if w < 20 else _quantile(w) / x


def _quantile(w: mp.mpf) -> mp.mpf:
    """erf_inv(sqrt(1 - exp(-w))) for large w, by Newton's method on erfc."""
    rest = -mp.expm1(mp.log1p(-mp.exp(-w)) / 2)  # 1 - x
    y = mp.sqrt(w - mp.log(mp.pi * w) / 2)
    for _ in range(30):
        y += (mp.erfc(y) - rest) * mp.sqrt(mp.pi) / 2 * mp.exp(y * y)
    return y


def _lgamma_at_two(u: mp.mpf) -> mp.mpf:
    return mp.loggamma(2 + u) / u if abs(u) > mp.mpf("1e-20") else 1 - mp.euler


DIGAMMA_ROOT = mp.findroot(mp.digamma, mp.mpf("1.4616321449683622"))


def _digamma_slope(u: mp.mpf) -> mp.mpf:
    """digamma(x) / (x - root) with x = u + 3/2."""
    x = u + mp.mpf(3) / 2
    return mp.digamma(x) / (x - DIGAMMA_ROOT)


FITS: dict[str, Fit] = {
    "ASIN_F32": Fit(asin_tail, mp.mpf(0), ONE / 4, 4, lambda z: z, True),
    "ASIN_F64": Fit(asin_tail, mp.mpf(0), ONE / 4, 12, lambda z: z, False),
    "ATAN_F32": Fit(atan_tail, mp.mpf(0), ONE, 8, lambda z: z, True),
    "ATAN_F64": Fit(atan_tail, mp.mpf(0), ONE, 19, lambda z: z, False),
    "SINH_F32": Fit(sinh_tail, mp.mpf(0), ONE, 3, lambda z: z, True),
    "SINH_F64": Fit(sinh_tail, mp.mpf(0), ONE, 6, lambda z: z, False),
    "ERFC": Fit(scaled_erfc, -ONE, mp.mpf("0.75"), 23, lambda q: 1 / scaled_erfc(q), False),
    "ERF_INV_NEAR": Fit(lambda t: _inverse_erf(t + mp.mpf("3.125")), mp.mpf("-3.125"), mp.mpf("3.125"), 11,
                        lambda t: ONE, False),
    "ERF_INV_FAR": Fit(lambda t: _inverse_erf((t + mp.mpf("4.25")) ** 2), mp.mpf("-1.75"), mp.mpf("1.8"), 15,
                       lambda t: ONE / 3, False),
    "LGAMMA_NEAR_TWO": Fit(_lgamma_at_two, -ONE / 2, ONE / 2, 18, lambda u: ONE, False),
    "DIGAMMA_NEAR_ROOT": Fit(_digamma_slope, -ONE / 2, ONE / 2, 22, lambda u: ONE, False),
    "EXP_F32": Fit(exp_tail, -HALF_LOG2, HALF_LOG2, 4, lambda r: r * r / mp.exp(r), True),
    "EXP_F64": Fit(exp_tail, -HALF_LOG2, HALF_LOG2, 9, lambda r: r * r / mp.exp(r), False),
    "EXP2_F32": Fit(exp2_tail, -ONE / 2, ONE / 2, 5, lambda r: r / mp.power(2, r), True),
    "EXP2_F64": Fit(exp2_tail, -ONE / 2, ONE / 2, 11, lambda r: r / mp.power(2, r), False),
    "LOG_F32": Fit(log_tail, ROOT - 1, 2 * ROOT - 1, 8, lambda f: f * f, True),
    "LOG_F64": Fit(atanh_tail, mp.mpf(0), S2 * mp.mpf("1.002"), 6, lambda z: z / 2, False),
    "POW_LOG_F64": Fit(pow_log_tail, mp.mpf(0), S2 * mp.mpf("1.002"), 7, lambda z: z**2 / 2, False),
    "SIN_F32": Fit(sin_tail, mp.mpf(0), QUARTER_PI**2, 3, lambda z: z, True),
    "COS_F32": Fit(cos_tail, mp.mpf(0), QUARTER_PI**2, 3, lambda z: z**2, True),
    "SIN_F64": Fit(sin_tail, mp.mpf(0), QUARTER_PI**2, 5, lambda z: z, False),
    "COS_F64": Fit(cos_tail, mp.mpf(0), QUARTER_PI**2, 5, lambda z: z**2, False),
    "TANH_F32": Fit(tanh_tail, mp.mpf(0), mp.mpf("0.64") ** 2, 4, lambda z: z, True),
    "TANH_F64": Fit(tanh_tail, mp.mpf(0), mp.mpf("0.56") ** 2, 10, lambda z: z, False),
    "ERF_SMALL_F32": Fit(erf_small, mp.mpf(0), mp.mpf("0.93") ** 2, 5, lambda z: ONE, True),
    "ERF_LARGE_F32": Fit(erf_exponent, mp.mpf("0.92"), mp.mpf("3.95"), 7, lambda t: t * mp.erfc(t) / mp.erf(t), True),
    "ERF_SMALL_F64": Fit(erf_small, mp.mpf(0), ONE, 11, lambda z: ONE, False),
    "ERF_LARGE_F64": Fit(erf_exponent, mp.mpf("0.99"), mp.mpf("5.95"), 20, lambda t: t * mp.erfc(t) / mp.erf(t), False),
}


def main(names: list[str]) -> None:
    for name in names or FITS:
        fit = FITS[name]
        coefficients, error = remez(fit)
        kind = np.float32 if fit.single else np.float64
        print(
            f"# degree {fit.degree} on [{mp.nstr(fit.low, 6)}, {mp.nstr(fit.high, 6)}], "
            f"error 2**{mp.nstr(mp.log(error, 2), 4)}"
        )
        print(f"{name} = (")
        for coefficient in coefficients:
            print(f"    {float(kind(float(coefficient)))!r},")
        print(")", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

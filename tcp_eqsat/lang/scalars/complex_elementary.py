"""Elementary functions of complex numbers, by real functions of the parts.

Each part is within a few units in the last place, but where a part nearly vanishes in expm1 and logistic (there the
error is small beside the whole number), and for pow, whose error grows with |w log z|. The parts of c64 are computed in
f64 and rounded once; those of c128 by the same formulas in f64. Branch cuts and values at infinities are those of C99's
Annex G, but for a few signs of zeros and of infinities beside NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tcp_eqsat.lang.scalar import Parts, ScalarExpr, apply, literal
from tcp_eqsat.lang.scalars.complex import complex_form
from tcp_eqsat.lang.types import F32, F64

S = ScalarExpr


def elementary(name: str, parts: Callable[..., Parts], reference: Callable[..., Any]) -> None:
    """Define an elementary function; `parts` is given f64, `reference` extended precision where there is one."""

    def by_f64(*operands: Parts) -> Parts:
        if operands[0][0].dtype != F32:
            return parts(*operands)
        wide = [(apply("astype_f64", x), apply("astype_f64", y)) for x, y in operands]
        x, y = parts(*wide)
        return apply("astype_f32", x), apply("astype_f32", y)

    complex_form(name, by_f64, lambda *z: np.asarray(
        reference(*(x.astype(np.clongdouble) for x in z))).astype(np.complex128))


def _number(value: float) -> S:
    return literal(value, F64)


def _where(condition: S, x: S, y: S) -> S:
    return apply("where", condition, x, y)


def _is(x: S, value: float) -> S:
    return apply("equal", x, _number(value))


def _less(x: S, y: S | float) -> S:
    return apply("less", x, y if isinstance(y, ScalarExpr) else _number(y))


def _abs(x: S) -> S:
    return apply("abs", x)


def _fma(x: S, y: S, z: S) -> S:
    return apply("fma", x, y, z)


def _sqrt(x: S) -> S:
    return apply("sqrt", x)


def _copysign(x: S, sign: S) -> S:
    return apply("copysign", x, sign)


def _times(x: S, y: S) -> S:
    """A product in which an exact zero y wins over an infinite x."""
    return _where(_is(y, 0), y, x * y)


# Exponential and hyperbolic functions

_LARGE = 700.0
_STEP = 512.0


def _scaled_exp(x: S, factor: S) -> S:
    """factor * exp(x), where exp(x) alone may overflow."""
    shift = _where(_less(x, _LARGE), _number(0), _number(_STEP))
    return _times(apply("exp", x - shift), factor) * apply("exp", shift)


def _exp(z: Parts) -> Parts:
    x, y = z
    gone = _is(x, -math.inf)  # whatever the angle is
    angle = _where(gone, _number(0), y)
    real = _scaled_exp(x, apply("cos", angle))
    infinite = apply("bitwise_and", _is(x, math.inf), apply("bitwise_invert", apply("isfinite", y)))
    return _where(infinite, x, real), _where(_is(y, 0), y, _scaled_exp(x, apply("sin", angle)))


def _expm1(z: Parts) -> Parts:
    """expm1(x) cos(y) - 2 sin(y/2)**2, exp(x) sin(y)."""
    x, y = z
    half = apply("sin", y * 0.5)
    real = _times(apply("expm1", x), apply("cos", y)) - half * half * 2
    far = apply("greater", _abs(x), _number(_LARGE))
    whole, imag = _exp(z)
    return _where(far, whole - 1, real), imag


def _hyperbolic(name: str, x: S, factor: S) -> S:
    """factor * cosh(x) or factor * sinh(x), which alone may overflow."""
    size = _abs(x)
    half = apply("exp", size * 0.5)
    large = _times(half, factor * 0.5) * half
    if name == "sinh":
        large = _where(_less(x, 0.0), -large, large)
    return _where(_less(size, _LARGE), _times(apply(name, x), factor), large)


def _cosh(z: Parts) -> Parts:
    x, y = z
    return _hyperbolic("cosh", x, apply("cos", y)), _hyperbolic("sinh", x, apply("sin", y))


def _sinh(z: Parts) -> Parts:
    x, y = z
    return _hyperbolic("sinh", x, apply("cos", y)), _hyperbolic("cosh", x, apply("sin", y))


def _tanh(z: Parts) -> Parts:
    """(sinh x cosh x + i sin y cos y) / (sinh(x)**2 + cos(y)**2)."""
    x, y = z
    far = apply("greater", _abs(x), _number(20))
    near = _where(far, _number(0), x)
    sinh, cosh = apply("sinh", near), apply("cosh", near)
    sin, cos = apply("sin", y), apply("cos", y)
    size = _fma(sinh, sinh, cos * cos)
    flat = apply("exp", _abs(x) * -2) * 4
    one = _copysign(_number(1), x)
    angle = _where(_is(flat, 0), _copysign(_number(0), sin * cos), flat * sin * cos)
    return _where(far, one, sinh * cosh / size), _where(far, angle, sin * cos / size)


def _turned(form: Callable[[Parts], Parts]) -> Callable[[Parts], Parts]:
    """f(z) from g(iz) = i f(z): sin from sinh, tan from tanh, asin from asinh and so on."""

    def parts(z: Parts) -> Parts:
        real, imag = form((-z[1], z[0]))
        return imag, -real

    return parts


def _cos(z: Parts) -> Parts:
    return _cosh((-z[1], z[0]))


def _logistic(z: Parts) -> Parts:
    """1 / (1 + exp(-z)); by exp(z) / (1 + exp(z)) where the real part is negative."""
    x, y = z
    size = _abs(x)
    tail = apply("exp", -size)
    real, imag = tail * apply("cos", y), tail * apply("sin", y)
    below = 1 + real
    norm = _fma(below, below, imag * imag)
    negative = _less(x, 0.0)
    top = _where(negative, _fma(tail, tail, real), below)
    return top / norm, imag / norm


# Logarithms and powers


def _two_sum(x: S, y: S) -> Parts:
    """x + y and its rounding error (Knuth)."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


def _square(x: S) -> Parts:
    """x * x and its rounding error."""
    high = x * x
    return high, _fma(x, x, -high)


def _norm_less_one(d: S, y: S) -> S:
    """(1 + d)**2 + y**2 - 1 to full precision: the sum of 2d, d**2 and y**2 with their errors."""
    d2, d2_error = _square(d)
    y2, y2_error = _square(y)
    first, error1 = _two_sum(d * 2, d2)
    second, error2 = _two_sum(first, y2)
    return second + (error1 + error2 + d2_error + y2_error)


def _log_size(x: S, y: S) -> S:
    """log(hypot(x, y)) without overflow, and without cancellation near 1."""
    a, b = _abs(x), _abs(y)
    large, small = apply("maximum", a, b), apply("minimum", a, b)
    near = apply("bitwise_and", _less(large, 2.0), apply("greater", large, _number(0.5)))
    safe = _where(near, large, _number(1))
    close = apply("log1p", _norm_less_one(safe - 1, small)) * 0.5
    ratio = _where(apply("equal", large, small), _number(1), small / large)
    ratio = _where(_is(large, 0), _number(0), ratio)
    far = apply("log", large) + apply("log1p", ratio * ratio) * 0.5
    infinite = apply("bitwise_or", _is(a, math.inf), _is(b, math.inf))
    return _where(infinite, _number(math.inf), _where(near, close, far))


def _log(z: Parts) -> Parts:
    return _log_size(*z), apply("atan2", z[1], z[0])


def _log1p(z: Parts) -> Parts:
    x, y = z
    near = apply("bitwise_and", _less(_abs(x), 4.0), _less(_abs(y), 4.0))
    at_minus_one = apply("bitwise_and", _less(_abs(x + 1), 0.5), _less(_abs(y), 0.5))
    near = apply("bitwise_and", near, apply("bitwise_invert", at_minus_one))
    close = apply("log1p", _norm_less_one(_where(near, x, _number(0)), _where(near, y, _number(0)))) * 0.5
    return _where(near, close, _log_size(x + 1, y)), apply("atan2", y, x + 1)


def _to_base(base: float) -> Callable[[Parts], Parts]:
    def parts(z: Parts) -> Parts:
        real, imag = _log(z)
        return real / math.log(base), imag / math.log(base)

    return parts


def _scaled_root(x: S, y: S) -> tuple[S, S, S]:
    """sqrt((|x| + hypot(x, y)) / 2) and |y| / twice that, over a scale; and the scale."""
    a, b = _abs(x), _abs(y)
    large = apply("maximum", a, b)
    up, down = _less(large, 1e-290), apply("greater", large, _number(1e290))
    factor = _where(up, _number(2.0**108), _where(down, _number(2.0**-108), _number(1)))
    root = _where(up, _number(2.0**-54), _where(down, _number(2.0**54), _number(1)))
    a, b = a * factor, b * factor
    main = _sqrt((a + apply("hypot", a, b)) * 0.5)
    zero = _is(main, 0)
    return main, _where(zero, _number(0), b / (_where(zero, _number(1), main) * 2)), root


def _sqrt_parts(z: Parts) -> Parts:
    x, y = z
    main, other, scale = _scaled_root(x, y)
    main, other = main * scale, other * scale
    right = apply("greater_equal", x, _number(0))
    real, imag = _where(right, main, other), _where(right, other, main)
    infinite = _is(_abs(y), math.inf)
    real = _where(infinite, _number(math.inf), real)
    imag = _where(infinite, _number(math.inf), _where(_is(x, math.inf), _where(_is(y, 0), y, _number(0)), imag))
    real = _where(_is(x, -math.inf), _where(infinite, real, _number(0)), real)
    return real, _copysign(imag, y)


def _rsqrt(z: Parts) -> Parts:
    """conj(sqrt(z)) / |z|."""
    x, y = z
    main, other, scale = _scaled_root(x, y)
    a, b = _abs(x) / scale, _abs(y) / scale
    size = apply("hypot", a, b)  # |z| / scale
    right = apply("greater_equal", x, _number(0))
    real, imag = _where(right, main, other) / size, _where(right, other, main) / size
    zero = apply("bitwise_and", _is(x, 0), _is(y, 0))
    infinite = apply("bitwise_or", _is(_abs(x), math.inf), _is(_abs(y), math.inf))
    real = _where(zero, _number(math.inf), _where(infinite, _number(0), real))
    imag = _where(zero, _number(0), _where(infinite, _number(0), imag))
    return real, _copysign(imag, -y)


def _pow(z: Parts, w: Parts) -> Parts:
    """exp(w log z); 1 where w is 0, and 0 where z is 0 and the real part of w positive."""
    real, imag = _log(z)
    a, b = w
    size, angle = _times(real, a) - _times(imag, b), _times(real, b) + _times(imag, a)
    found = _exp((size, angle))
    whole = apply("bitwise_and", _is(a, 0), _is(b, 0))
    zero = apply("bitwise_and", apply("bitwise_and", _is(z[0], 0), _is(z[1], 0)), apply("greater", a, _number(0)))
    return (_where(whole, _number(1), _where(zero, _number(0), found[0])),
            _where(whole, _number(0), _where(zero, _number(0), found[1])))


# Inverse functions: T. E. Hull, T. F. Fairgrieve and P. T. P. Tang, "Implementing the complex arcsine and arccosine
# functions using exception handling", ACM Trans. Math. Softw. 23(3), 1997.

_HUGE = 2.0**500
_CROSSOVER_A = 1.5
_CROSSOVER_B = 0.6417


def _arc_terms(z: Parts) -> tuple[S, S, S, S]:
    """Of |x| and |y|: B = |x| / A and its complement sqrt(A**2 - x**2), log(A + sqrt(A**2 - 1)), and |x|.

    A is the mean distance from +1 and -1.
    """
    x, y = _abs(z[0]), _abs(z[1])
    far = apply("greater", apply("maximum", x, y), _number(_HUGE))
    x_near, y_near = _where(far, _number(2), x), _where(far, _number(2), y)
    plus, minus = x_near + 1, x_near - 1
    r, s = apply("hypot", plus, y_near), apply("hypot", minus, y_near)
    a = (r + s) * 0.5
    b = x_near / a
    y2 = y_near * y_near
    inner = _less(x_near, 1.0)
    over_plus = y2 / (r + plus)
    left = _where(inner, s - minus, _where(_is(y_near, 0), _number(0), y2 / _where(
        _is(s + minus, 0), _number(1), s + minus)))
    below = _where(_is(s - minus, 0), _number(1), s - minus)
    to_one = _where(inner, _where(_is(y_near, 0), _number(0), y2 / below), s + minus)
    less_one = (over_plus + to_one) * 0.5  # A - 1
    logarithm = _where(
        _less(a, _CROSSOVER_A), apply("log1p", less_one + _sqrt(less_one * (a + 1))),
        apply("log", a + _sqrt(a * a - 1)))
    # sqrt(A**2 - x**2)
    complement = _where(
        apply("greater", x_near, _number(1)),
        y_near * _sqrt(((a + x_near) / (r + plus) + (a + x_near) / _where(
            _is(s + minus, 0), _number(1), s + minus)) * 0.5),
        _sqrt((a + x_near) * 0.5 * (over_plus + left)))
    large, small = apply("maximum", x, y), apply("minimum", x, y)
    ratio = _where(apply("equal", large, small), _number(1), small / large)
    far_log = math.log(2) + (apply("log", large) + apply("log1p", ratio * ratio) * 0.5)
    return b, complement, _where(far, far_log, logarithm), far


def _asin(z: Parts) -> Parts:
    b, complement, logarithm, far = _arc_terms(z)
    x, y = _abs(z[0]), _abs(z[1])
    x_near = _where(far, _number(2), x)
    angle = _where(_less(b, _CROSSOVER_B), apply("asin", _where(_less(b, _CROSSOVER_B), b, _number(0))),
                   apply("atan2", x_near, complement))
    real = _where(far, apply("atan2", x, y), angle)
    return _copysign(real, z[0]), _copysign(logarithm, z[1])


def _acos(z: Parts) -> Parts:
    b, complement, logarithm, far = _arc_terms(z)
    x, y = _abs(z[0]), _abs(z[1])
    x_near = _where(far, _number(2), x)
    signed = _copysign(x_near, z[0])
    safe = _where(_less(b, _CROSSOVER_B), b, _number(0))
    angle = _where(_less(b, _CROSSOVER_B), apply("acos", _copysign(safe, z[0])), apply("atan2", complement, signed))
    real = _where(far, apply("atan2", y, z[0]), angle)
    return real, _copysign(logarithm, -z[1])


def _acosh(z: Parts) -> Parts:
    real, imag = _acos(z)
    return _abs(imag), _copysign(real, z[1])


def _atanh(z: Parts) -> Parts:
    """log1p(4x / ((1-x)**2 + y**2)) / 4, atan2(2y, (1-x)(1+x) - y**2) / 2, of |x| and |y|."""
    x, y = _abs(z[0]), _abs(z[1])
    far = apply("greater", apply("maximum", x, y), _number(_HUGE))
    x_near, y_near = _where(far, _number(2), x), _where(far, _number(2), y)
    short = 1 - x_near
    y2 = y_near * y_near
    at_one = apply("bitwise_and", _is(short, 0), _less(y_near, 1e-150))
    norm = _where(at_one, _number(1), _fma(short, short, y2))
    real = apply("log1p", x_near * 4 / norm) * 0.25
    close = (math.log(2) - apply("log", y_near)) * 0.5  # x is 1, y next to nothing
    imag = apply("atan2", y_near * 2, short * (x_near + 1) - y2) * 0.5
    large, small = apply("maximum", x, y), apply("minimum", x, y)
    ratio = _where(apply("equal", large, small), _number(1), small / large)
    far_real = _where(_is(large, math.inf), _number(0), x / large / large / (ratio * ratio + 1))
    real = _where(far, far_real, _where(at_one, close, real))
    imag = _where(far, _number(math.pi / 2), imag)
    return _copysign(real, z[0]), _copysign(imag, z[1])


def _log1p_reference(z: np.ndarray) -> np.ndarray:
    x, y = z.real, z.imag
    near = (np.abs(x) < 4) & (np.abs(y) < 4) & (np.hypot(x + 1, y) > 0.5)
    close = np.log1p(np.where(near, x * (2 + x) + y * y, 0)) / 2
    found = np.empty(z.shape, np.clongdouble)
    found.real, found.imag = np.where(near, close, np.log(np.hypot(1 + x, y))), np.arctan2(y, 1 + x)
    return found


def _logistic_reference(z: np.ndarray) -> np.ndarray:
    e = np.exp(np.where(z.real < 0, z, -z))
    return np.where(z.real < 0, e, 1) / (1 + e)


def _pow_reference(z: np.ndarray, w: np.ndarray) -> np.ndarray:
    found = np.exp(w * np.log(z))
    return np.where(w == 0, 1, np.where((z == 0) & (w.real > 0), 0, found))


for _name, _parts, _reference in (
    ("exp", _exp, np.exp), ("expm1", _expm1, np.expm1), ("log", _log, np.log), ("log1p", _log1p, _log1p_reference),
    ("log2", _to_base(2), lambda z: np.log(z) / np.log(np.longdouble(2))),
    ("log10", _to_base(10), lambda z: np.log(z) / np.log(np.longdouble(10))),
    ("logistic", _logistic, _logistic_reference),
    ("sqrt", _sqrt_parts, np.sqrt), ("rsqrt", _rsqrt, lambda z: 1 / np.sqrt(z)),
    ("sinh", _sinh, np.sinh), ("cosh", _cosh, np.cosh), ("tanh", _tanh, np.tanh),
    ("sin", _turned(_sinh), np.sin), ("cos", _cos, np.cos), ("tan", _turned(_tanh), np.tan),
    ("asin", _asin, np.arcsin), ("acos", _acos, np.arccos), ("atan", _turned(_atanh), np.arctan),
    ("asinh", _turned(_asin), np.arcsinh), ("acosh", _acosh, np.arccosh), ("atanh", _atanh, np.arctanh),
):
    elementary(_name, _parts, _reference)
elementary("pow", _pow, _pow_reference)

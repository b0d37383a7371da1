"""asin, acos, atan and atan2."""

from __future__ import annotations

import math

from tcp_eqsat.codegen.vector_math.arithmetic import (
    MathBuilder,
    V,
    VectorFunction,
    bits_type,
    is_single,
    number,
    polynomial,
    quick_two_sum,
)
from tcp_eqsat.codegen.vector_math.trigonometric import HALF_PI

# (asin(x) / x - 1) / x**2 in x**2, minimax (benchmarks/minimax.py)
# degree 4 on [0.0, 0.25], error 2**-27.59
ASIN_F32 = (
    0.16666753590106964,
    0.07495242357254028,
    0.04547706991434097,
    0.02414773590862751,
    0.042218346148729324,
)
# degree 12 on [0.0, 0.25], error 2**-59.83
ASIN_F64 = (
    0.16666666666666763,
    0.07499999999970262,
    0.0446428571751202,
    0.030381942683649504,
    0.022372215659390616,
    0.01735160010729471,
    0.013980961283868752,
    0.01139777718601169,
    0.010786523358220978,
    0.0036830596820055005,
    0.02176346482756809,
    -0.02107725497569548,
    0.03267687280844427,
)
# (atan(x) / x - 1) / x**2 in x**2, minimax
# degree 8 on [0.0, 1.0], error 2**-28.69
ATAN_F32 = (
    -0.33333301544189453,
    0.19998638331890106,
    -0.1426524668931961,
    0.1095758005976677,
    -0.08419468998908997,
    0.05823471397161484,
    -0.03145585581660271,
    0.011064518243074417,
    -0.001827229280024767,
)
# degree 19 on [0.0, 1.0], error 2**-57.75
ATAN_F64 = (
    -0.33333333333333093,
    0.19999999999955437,
    -0.1428571428280234,
    0.11111111013654396,
    -0.09090907119313854,
    0.07692281187328467,
    -0.06666415001145208,
    0.05880592571268931,
    -0.05253805609972205,
    0.04723293500875612,
    -0.04221718036908787,
    0.03669352789881084,
    -0.029985564648906286,
    0.022085136297126877,
    -0.013994969008567443,
    0.007263344138467496,
    -0.0029193353063658514,
    0.000843482580747863,
    -0.00015479670477455725,
    1.3489254835806405e-05,
)

# pi/2 as a sum of two f32
HALF_PI_F32 = (1.5707963705062866, -4.371138828673793e-08)


def _half_pi(b: MathBuilder[V], x: V, factor: float = 1.0) -> tuple[V, V]:
    high, low = HALF_PI_F32 if is_single(x) else HALF_PI
    return number(b, x, factor * high), number(b, x, factor * low)


def _arcsine(b: MathBuilder[V], x: V) -> tuple[V, V, V]:
    """For x >= 0: whether x > 1/2; a root s, which is x or sqrt((1 - x) / 2); asin(s) - s."""
    half = number(b, x, 0.5)
    large = b.compare("greater", x, half)
    square = b.select(large, b.multiply(b.subtract(number(b, x, 1.0), x), half), b.multiply(x, x))
    root = b.select(large, b.sqrt(square), x)
    tail = polynomial(b, square, ASIN_F32 if is_single(x) else ASIN_F64)
    return large, root, b.multiply(b.multiply(root, square), tail)


def asin(b: MathBuilder[V], x: V) -> V:
    """Arcsine: pi/2 - 2 asin(sqrt((1 - |x|) / 2)) beyond 1/2; odd, NaN beyond 1."""
    large, root, rest = _arcsine(b, b.absolute(x))
    high, low = _half_pi(b, x)
    two = number(b, x, 2.0)
    total, error = quick_two_sum(b, high, b.negate(b.multiply(root, two)))
    far = b.add(total, b.subtract(b.add(error, low), b.multiply(rest, two)))
    return b.copysign(b.select(large, far, b.add(root, rest)), x)


def acos(b: MathBuilder[V], x: V) -> V:
    """Arccosine: 2 asin(sqrt((1 - x) / 2)) above 1/2, pi minus that of -x below -1/2; NaN beyond 1."""
    large, root, rest = _arcsine(b, b.absolute(x))
    below = b.compare("less", x, number(b, x, 0.0))
    two = number(b, x, 2.0)
    # start - root - rest, with start = pi/2 in the middle, pi below -1/2
    high, low = (b.select(large, *pair) for pair in zip(_half_pi(b, x, 2.0), _half_pi(b, x), strict=True))
    root = b.select(large, b.multiply(root, two), b.copysign(root, x))
    rest = b.select(large, b.multiply(rest, two), b.copysign(rest, x))
    total, error = quick_two_sum(b, high, b.negate(root))
    outer = b.add(total, b.subtract(b.add(error, low), rest))
    near_one = b.bitwise_and(large, b.bitwise_not(below))
    return b.select(near_one, b.add(root, rest), outer)


def _arctangent(b: MathBuilder[V], t: V) -> V:
    """atan(t) for t in [0, 1]."""
    square = b.multiply(t, t)
    tail = polynomial(b, square, ATAN_F32 if is_single(t) else ATAN_F64)
    return b.fma(b.multiply(t, square), tail, t)


def atan(b: MathBuilder[V], x: V) -> V:
    """Arctangent: pi/2 - atan(1 / |x|) beyond 1; odd."""
    size, one = b.absolute(x), number(b, x, 1.0)
    beyond = b.compare("greater", size, one)
    near = _arctangent(b, b.select(beyond, b.divide(one, size), size))
    high, low = _half_pi(b, x)
    return b.copysign(b.select(beyond, b.subtract(high, b.subtract(near, low)), near), x)


def atan2(b: MathBuilder[V], y: V, x: V) -> V:
    """The angle of the point (x, y), in [-pi, pi], with the special cases of C99."""
    height, width = b.absolute(y), b.absolute(x)
    steep = b.compare("greater", height, width)
    ratio = b.divide(b.select(steep, width, height), b.select(steep, height, width))
    zero, one = number(b, x, 0.0), number(b, x, 1.0)
    alike = b.compare("equal", height, width)  # both 0 or infinite, among others
    ratio = b.select(alike, b.select(b.compare("equal", width, zero), zero, one), ratio)
    angle = _arctangent(b, ratio)
    high, low = _half_pi(b, x)
    angle = b.select(steep, b.subtract(high, b.subtract(angle, low)), angle)
    integer = bits_type(x)
    left = b.compare("less", b.bitcast(x, integer), b.constant(0, integer))
    pi_high, pi_low = _half_pi(b, x, 2.0)
    angle = b.select(left, b.subtract(pi_high, b.subtract(angle, pi_low)), angle)
    ordered = b.bitwise_and(b.compare("equal", x, x), b.compare("equal", y, y))
    return b.select(ordered, b.copysign(angle, y), number(b, x, math.nan))


FUNCTIONS: dict[str, VectorFunction] = {"asin": asin, "acos": acos, "atan": atan, "atan2": atan2}

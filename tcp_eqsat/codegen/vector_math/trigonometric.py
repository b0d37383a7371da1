"""sin, cos and tan of every finite number.

|x| = n * pi/2 + r with |r| <= pi/4 (a little more by rounding). Up to a limit n * pi/2 is subtracted in parts
(Cody and Waite); numbers beyond it, and in f64 those close to a multiple of pi/2, take the exact reduction of
Payne and Hanek with 192 bits of 2/pi. That path is a rare branch, so the functions are outlined.
"""

from __future__ import annotations

import math

from tcp_eqsat.codegen.vector_math.arithmetic import (
    MathBuilder,
    V,
    VectorFunction,
    bits_type,
    flip_sign,
    is_single,
    nearest_integer,
    number,
    polynomial,
    quick_two_sum,
    through_double,
    two_product,
    two_sum,
)
from tcp_eqsat.lang.types import F32, F64, I32, I64, U64

# (sin(r) / r - 1) / r**2 in r**2, minimax (benchmarks/minimax.py)
# degree 3 on [0.0, 0.61932], error 2**-37.55
SIN_F32 = (
    -0.1666666716337204,
    0.008333329111337662,
    -0.000198393187019974,
    2.71816293206939e-06,
)
# degree 5 on [0.0, 0.61932], error 2**-57.97
SIN_F64 = (
    -0.16666666666666632,
    0.008333333333322205,
    -0.0001984126982963294,
    2.755731362874528e-06,
    -2.5050747860338028e-08,
    1.5896181544361164e-10,
)
# (cos(r) - 1 + r**2 / 2) / r**4 in r**2, minimax
# degree 3 on [0.0, 0.61932], error 2**-43.17
COS_F32 = (
    0.0416666679084301,
    -0.0013888883404433727,
    2.479950308043044e-05,
    -2.720885277085472e-07,
)
# degree 5 on [0.0, 0.61932], error 2**-64.17
COS_F64 = (
    0.041666666666666595,
    -0.0013888888888873843,
    2.4801587289297785e-05,
    -2.755731429677695e-07,
    2.087571543213007e-09,
    -1.1359227761358035e-11,
)

# pi/2 in parts: of 24 digits each for a fused multiply-add in f32, of 33, 33 and 53 digits in f64 (so that the
# products of the first two with an integer below 2**20 are exact)
HALF_PI_F32 = (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15)
HALF_PI_F64 = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21)
HALF_PI = (1.5707963267948966, 6.123233995736766e-17)
LIMIT_F32 = 2.0**16
LIMIT_F64 = 2.0**20

# The first 1280 binary digits of 2/pi as 32-bit words, after two words of zeros
_TWO_OVER_PI = int(
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e006492eea09d1921cfe1deb1c"
    "b129a73ee88235f52ebb4484e99c7026b45f7e413991d639835339f49c845f8bbdf9283b1ff897ffde05980fef2f118b5a0a6d1f"
    "6d367ecf27cb09b74f463f669e5fea2d7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d0856033046fc7b6babf0cfbc20"
    "9af4361d",
    16,
)
TWO_OVER_PI_WORDS = (0, 0, *(_TWO_OVER_PI >> (32 * (39 - i)) & 0xFFFFFFFF for i in range(40)))


def reduce_exactly(b: MathBuilder[V], x: V) -> tuple[V, V, V]:
    """r, its rounding error, and n modulo 4 (u64), for a finite f64 x >= 1/2. For others they mean nothing.

    x = m * 2**s with an integer m < 2**53. Digits of 2/pi that contribute multiples of 4 are left out, and 192
    digits from there are multiplied by m in 32-bit limbs, modulo 2**192. What is cut off is below 2**-137, and
    no double is closer than 2**-62 to a multiple of pi/2.
    """

    def word(value: int) -> V:
        return b.constant(value, U64)

    low_half = word(0xFFFFFFFF)

    def low(value: V) -> V:
        return b.bitwise_and(value, low_half)

    def high(value: V) -> V:
        return b.shift_right(value, word(32))

    bits = b.bitcast(x, U64)
    exponent = b.maximum(b.shift_right(bits, word(52)), word(1022))
    m = b.bitwise_or(b.bitwise_and(bits, word((1 << 52) - 1)), word(1 << 52))
    # The first digit that matters has index s - 1 = exponent - 1076, counted from 1; 64 zeros stand before.
    position = b.add(exponent, word(64 - 1076 - 1))
    first, shift = b.shift_right(position, word(5)), b.bitwise_and(position, word(31))
    table = [
        b.lookup("tcp.two_over_pi", TWO_OVER_PI_WORDS, U64, b.bitcast(b.add(first, word(i)), I64)) for i in range(7)
    ]
    unshift = b.subtract(word(32), shift)
    window = [low(b.bitwise_or(b.shift_left(table[i], shift), b.shift_right(table[i + 1], unshift))) for i in range(6)]
    m_low, m_high = low(m), high(m)
    by_low = [b.multiply(m_low, limb) for limb in window]
    by_high = [b.multiply(m_high, limb) for limb in window]
    limbs = []
    carry = word(0)
    for i in reversed(range(6)):
        total = b.add(low(by_low[i]), carry)
        if i + 1 < 6:
            total = b.add(total, b.add(high(by_low[i + 1]), low(by_high[i + 1])))
        if i + 2 < 6:
            total = b.add(total, high(by_high[i + 2]))
        limbs.append(low(total))
        carry = high(total)
    limbs.reverse()

    def above_quadrant(i: int) -> V:
        """64 bits of the fraction from limb i on, after the two bits of the quadrant."""
        upper = b.bitwise_or(b.shift_left(limbs[i], word(34)), b.shift_left(limbs[i + 1], word(2)))
        return b.bitwise_or(upper, b.shift_right(limbs[i + 2], word(30)))

    # The fraction as a signed number in [-1/2, 1/2): four pieces of 32 bits, the first signed.
    upper, lower = above_quadrant(0), above_quadrant(2)
    signed = b.bitcast(upper, I64)
    pieces = [
        b.convert(b.shift_right(signed, b.constant(32, I64)), F64),
        *(b.convert(b.bitcast(piece, I64), F64) for piece in (low(upper), high(lower), low(lower))),
    ]
    terms = [
        b.multiply(piece, b.constant(2.0**power, F64))
        for piece, power in zip(pieces, (-32, -64, -96, -128), strict=True)
    ]
    top, top_error = two_sum(b, terms[0], terms[1])
    rest, rest_error = two_sum(b, terms[2], terms[3])
    top, error = two_sum(b, top, rest)
    top, error = quick_two_sum(b, top, b.add(b.add(error, top_error), rest_error))
    n = b.add(b.shift_right(limbs[0], word(30)), b.shift_right(upper, word(63)))
    product, product_error = two_product(b, top, b.constant(HALF_PI[0], F64))
    tail = b.fma(top, b.constant(HALF_PI[1], F64), b.multiply(error, b.constant(HALF_PI[0], F64)))
    r, r_error = quick_two_sum(b, product, b.add(product_error, tail))
    return r, r_error, n


def _reduce_single(b: MathBuilder[V], x: V) -> tuple[V, V]:
    """r and n (i32) for f32 x >= 0."""

    def rare() -> tuple[V, V]:
        r, _, n = reduce_exactly(b, b.convert(x, F64))
        return b.convert(r, F32), b.convert(n, I32)

    if b.has_fma:
        n, whole = nearest_integer(b, x, 2 / math.pi)
        r = x
        for part in HALF_PI_F32:
            r = b.fma(n, number(b, x, -part), r)
    else:
        double = b.convert(x, F64)
        n, whole = nearest_integer(b, double, 2 / math.pi)
        r = b.subtract(double, b.multiply(n, b.constant(HALF_PI_F64[0], F64)))
        r = b.convert(b.subtract(r, b.multiply(n, b.constant(HALF_PI_F64[1], F64))), F32)
        whole = b.convert(whole, I32)
    beyond = _finite_and(b, x, b.compare("greater", x, number(b, x, LIMIT_F32)))
    r, whole = b.where_any(beyond, rare, (r, whole))
    return r, whole


def _reduce_double(b: MathBuilder[V], x: V) -> tuple[V, V, V]:
    """r, its error and n (i64) for f64 x >= 0."""

    def rare() -> tuple[V, V, V]:
        r, error, n = reduce_exactly(b, x)
        return r, error, b.bitcast(n, I64)

    n, whole = nearest_integer(b, x, 2 / math.pi)
    r = b.subtract(x, b.multiply(n, number(b, x, HALF_PI_F64[0])))
    minus = b.negate(b.multiply(n, number(b, x, HALF_PI_F64[1])))
    r, error = quick_two_sum(b, r, minus)
    r, error = quick_two_sum(b, r, b.subtract(error, b.multiply(n, number(b, x, HALF_PI_F64[2]))))
    # Near a multiple of pi/2 the parts above do not have enough digits, and r may be less than `minus`.
    near = b.bitwise_and(
        b.compare("less", b.absolute(r), number(b, x, 2.0**-11)), b.compare("greater", x, number(b, x, 0.5))
    )
    beyond = b.compare("greater", x, number(b, x, LIMIT_F64))
    r, error, whole = b.where_any(_finite_and(b, x, b.bitwise_or(near, beyond)), rare, (r, error, whole))
    return r, error, whole


def _finite_and(b: MathBuilder[V], x: V, condition: V) -> V:
    return b.bitwise_and(condition, b.compare("less", x, number(b, x, math.inf)))


def _sin_and_cos(b: MathBuilder[V], x: V) -> tuple[V, V, V]:
    """sin(r), cos(r) and n (as wide as x) for x >= 0."""
    half, one = number(b, x, 0.5), number(b, x, 1.0)
    if is_single(x):
        r, n = _reduce_single(b, x)
        square = b.multiply(r, r)
        sine = b.fma(b.multiply(r, square), polynomial(b, square, SIN_F32), r)
        tail = b.fma(square, polynomial(b, square, COS_F32), b.negate(half))
        return sine, b.fma(square, tail, one), n
    r, error, n = _reduce_double(b, x)
    square = b.multiply(r, r)
    cube = b.multiply(square, r)
    # sin(r + error) = r + (error + r**3 * P - error * r**2 / 2)
    first, *others = SIN_F64
    tail = polynomial(b, square, others)
    inner = b.subtract(b.multiply(half, error), b.multiply(cube, tail))
    inner = b.subtract(b.multiply(square, inner), error)
    sine = b.subtract(r, b.subtract(inner, b.multiply(cube, number(b, x, first))))
    # cos(r + error) = 1 - r**2 / 2 + (r**4 * Q - r * error), with what 1 - r**2 / 2 loses
    half_square = b.multiply(half, square)
    head = b.subtract(one, half_square)
    lost = b.subtract(b.subtract(one, head), half_square)
    quartic = b.multiply(b.multiply(square, square), polynomial(b, square, COS_F64))
    cosine = b.add(head, b.add(lost, b.subtract(quartic, b.multiply(r, error))))
    return sine, cosine, n


def _is_odd(b: MathBuilder[V], n: V) -> V:
    one = b.constant(1, n.dtype)
    return b.compare("equal", b.bitwise_and(n, one), one)


def _sign_of_bit_one(b: MathBuilder[V], n: V) -> V:
    """The sign bit set where n has its bit of weight 2."""
    return b.shift_left(b.bitwise_and(n, b.constant(2, n.dtype)), b.constant(n.dtype.bits - 2, n.dtype))


def _sin(b: MathBuilder[V], x: V) -> V:
    sine, cosine, n = _sin_and_cos(b, b.absolute(x))
    result = flip_sign(b, b.select(_is_odd(b, n), cosine, sine), _sign_of_bit_one(b, n))
    integer = bits_type(x)
    sign = b.bitwise_and(b.bitcast(x, integer), b.constant(-1 << (integer.bits - 1), integer))
    return flip_sign(b, result, sign)


def _cos(b: MathBuilder[V], x: V) -> V:
    sine, cosine, n = _sin_and_cos(b, b.absolute(x))
    result = b.select(_is_odd(b, n), sine, cosine)
    return flip_sign(b, result, _sign_of_bit_one(b, b.add(n, b.constant(1, n.dtype))))


def _tan(b: MathBuilder[V], x: V) -> V:
    sine, cosine, n = _sin_and_cos(b, b.absolute(x))
    odd = _is_odd(b, n)
    result = b.divide(b.select(odd, b.negate(cosine), sine), b.select(odd, sine, cosine))
    integer = bits_type(x)
    sign = b.bitwise_and(b.bitcast(x, integer), b.constant(-1 << (integer.bits - 1), integer))
    return flip_sign(b, result, sign)


def sin(b: MathBuilder[V], x: V) -> V:
    """Sine; odd, NaN at infinities."""
    return b.outlined("sin", _sin, x)


def cos(b: MathBuilder[V], x: V) -> V:
    """Cosine; even, NaN at infinities."""
    return b.outlined("cos", _cos, x)


@through_double
def tan(b: MathBuilder[V], x: V) -> V:
    """Tangent; odd, NaN at infinities. f32 is computed in f64: a quotient of f32 would be off by 3 units."""
    return b.outlined("tan", _tan, x)


FUNCTIONS: dict[str, VectorFunction] = {"sin": sin, "cos": cos, "tan": tan}

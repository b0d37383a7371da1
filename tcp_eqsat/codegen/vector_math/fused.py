"""x * y + z with a single rounding, on targets without an instruction for it."""

from __future__ import annotations

from tcp_eqsat.codegen.vector_math.arithmetic import (
    MathBuilder,
    V,
    VectorFunction,
    first_that_holds,
    number,
    outlined,
    two_sum,
)
from tcp_eqsat.lang.types import F64, I64, U64


def fma(b: MathBuilder[V], x: V, y: V, z: V) -> V:
    """x * y + z rounded once."""
    if b.has_fma and not x.dtype.is_narrow_float:
        return b.fma(x, y, z)
    return _fused_double(b, x, y, z) if x.dtype is F64 else _fused_in_double(b, x, y, z)


def _fused_in_double(b: MathBuilder[V], x: V, y: V, z: V) -> V:
    """Of f32 and narrower: the product is exact in f64; the sum is rounded to odd there, so that only one rounding
    counts.
    """
    product, addend = b.multiply(b.convert(x, F64), b.convert(y, F64)), b.convert(z, F64)
    total, error = two_sum(b, product, addend)
    zero, one = b.constant(0.0, F64), b.constant(1, I64)
    bits = b.bitcast(total, I64)
    above = b.compare("greater", error, zero)
    inexact = b.bitwise_or(above, b.compare("less", error, zero))
    even = b.compare("equal", b.bitwise_and(bits, one), b.constant(0, I64))
    outward = b.compare("equal", above, b.compare("greater", total, zero))
    odd = b.bitcast(b.select(outward, b.add(bits, one), b.subtract(bits, one)), F64)
    return b.convert(b.select(b.bitwise_and(inexact, even), odd, total), x.dtype)


def _word(b: MathBuilder[V], value: int) -> V:
    return b.constant(value, U64)


def _is_set(b: MathBuilder[V], word: V) -> V:
    """1 where the word is not 0."""
    return b.select(b.compare("not_equal", word, _word(b, 0)), _word(b, 1), _word(b, 0))


def _parts(b: MathBuilder[V], x: V) -> tuple[V, V]:
    """m (u64) in [2**53, 2**54) and e (i64) with |x| = m * 2**e, for finite x other than 0."""
    size = b.absolute(x)
    tiny = b.compare("less", size, number(b, x, 2.0**-1022))
    bits = b.bitcast(b.select(tiny, b.multiply(size, number(b, x, 2.0**63)), size), U64)
    e = b.subtract(b.bitcast(b.shift_right(bits, _word(b, 52)), I64), b.constant(1023 + 53, I64))
    e = b.subtract(e, b.select(tiny, b.constant(63, I64), b.constant(0, I64)))
    m = b.bitwise_or(b.bitwise_and(bits, _word(b, (1 << 52) - 1)), _word(b, 1 << 52))
    return b.shift_left(m, _word(b, 1)), e


def _wide_product(b: MathBuilder[V], x: V, y: V) -> tuple[V, V]:
    """The high and low 64 bits of the product of two numbers below 2**54."""
    low_half, width = _word(b, 0xFFFFFFFF), _word(b, 32)
    x_low, x_high = b.bitwise_and(x, low_half), b.shift_right(x, width)
    y_low, y_high = b.bitwise_and(y, low_half), b.shift_right(y, width)
    bottom = b.multiply(x_low, y_low)
    middle = b.add(b.multiply(x_low, y_high), b.multiply(x_high, y_low))
    low = b.add(bottom, b.shift_left(middle, width))
    carry = b.select(b.compare("less", low, bottom), _word(b, 1), _word(b, 0))
    high = b.add(b.add(b.multiply(x_high, y_high), b.shift_right(middle, width)), carry)
    return high, low


def _aligned(b: MathBuilder[V], high: V, low: V, shift: V) -> tuple[V, V]:
    """128 bits shifted right by `shift` >= 0 (u64), the last bit set if a bit that fell out was."""
    rest = b.subtract(_word(b, 64), shift)
    far = b.compare("greater_equal", shift, _word(b, 64))
    moved = b.bitwise_or(b.shift_left(high, rest), b.shift_right(low, shift))
    moved = b.bitwise_or(moved, _is_set(b, b.shift_left(low, rest)))
    return b.shift_right(high, shift), b.select(far, _word(b, 1), moved)


@outlined
def _fused_double(b: MathBuilder[V], x: V, y: V, z: V) -> V:
    """In integers: a product of 128 bits, the addend aligned to it, one rounding (as musl's fma)."""
    zero, one = _word(b, 0), _word(b, 1)
    none = number(b, x, 0.0)
    (x_part, x_place), (y_part, y_place), (z_part, z_place) = (_parts(b, each) for each in (x, y, z))
    high, low = _wide_product(b, x_part, y_part)
    e = b.add(x_place, y_place)
    distance = b.subtract(z_place, e)
    above = b.compare("greater", distance, b.constant(0, I64))
    far = b.compare("greater_equal", distance, b.constant(64, I64))
    up = b.bitcast(distance, U64)
    down = b.bitcast(b.negate(distance), U64)
    # The addend lies below the product, overlaps it from above, or lies 64 bits or more above its last bit.
    _, below = _aligned(b, zero, z_part, b.select(above, zero, down))
    z_low = b.select(above, b.shift_left(z_part, up), below)
    z_high = b.select(above, b.shift_right(z_part, b.subtract(_word(b, 64), up)), zero)
    z_low, z_high = b.select(far, zero, z_low), b.select(far, z_part, z_high)
    shifted = _aligned(b, high, low, b.select(far, b.subtract(up, _word(b, 64)), zero))
    high, low = (b.select(far, new, old) for new, old in zip(shifted, (high, low), strict=True))
    e = b.select(far, b.subtract(z_place, b.constant(64, I64)), e)

    sign_bit = _word(b, 1 << 63)
    product_sign = b.bitwise_and(b.bitwise_xor(b.bitcast(x, U64), b.bitcast(y, U64)), sign_bit)
    alike = b.compare("equal", product_sign, b.bitwise_and(b.bitcast(z, U64), sign_bit))
    sum_low = b.add(low, z_low)
    carry = b.select(b.compare("less", sum_low, z_low), one, zero)
    sum_high = b.add(b.add(high, z_high), carry)
    rest_low = b.subtract(low, z_low)
    borrow = b.select(b.compare("less", low, z_low), one, zero)
    rest_high = b.subtract(b.subtract(high, z_high), borrow)
    negative = b.compare("not_equal", b.bitwise_and(rest_high, sign_bit), zero)
    turned_high = b.subtract(b.subtract(zero, rest_high), _is_set(b, rest_low))
    rest_high = b.select(negative, turned_high, rest_high)
    rest_low = b.select(negative, b.subtract(zero, rest_low), rest_low)
    high, low = b.select(alike, sum_high, rest_high), b.select(alike, sum_low, rest_low)
    flipped = b.select(b.bitwise_and(negative, b.bitwise_not(alike)), sign_bit, zero)

    # The highest 63 bits, the last of them set if a lower one was; the value is m * 2**e.
    tall = b.compare("not_equal", high, zero)
    upper, lower = b.select(tall, high, low), b.select(tall, low, zero)
    e = b.add(e, b.select(tall, b.constant(64, I64), b.constant(0, I64)))
    room = b.subtract(b.count_leading_zeros(upper), one)
    full = b.compare("equal", room, b.constant((1 << 64) - 1, U64))
    left = b.select(full, zero, room)
    m = b.bitwise_or(b.shift_left(upper, left), b.shift_right(lower, b.subtract(_word(b, 64), left)))
    m = b.bitwise_or(m, _is_set(b, b.shift_left(lower, left)))
    m = b.select(full, b.bitwise_or(b.shift_right(upper, one), b.bitwise_and(upper, one)), m)
    e = b.subtract(e, b.bitcast(room, I64))

    # To 53 bits, or as many as a subnormal number has
    drop = b.bitcast(b.maximum(b.constant(10, I64), b.subtract(b.constant(-1074, I64), e)), U64)
    kept = b.shift_right(m, drop)
    half = b.shift_left(one, b.subtract(drop, one))
    lost = b.subtract(m, b.shift_left(kept, drop))
    odd = b.compare("equal", b.bitwise_and(kept, one), one)
    up_again = b.bitwise_or(
        b.compare("greater", lost, half), b.bitwise_and(b.compare("equal", lost, half), odd)
    )
    kept = b.add(kept, b.select(up_again, one, zero))
    kept = b.select(b.compare("greater", drop, _word(b, 63)), zero, kept)
    size = b.ldexp(b.convert(b.bitcast(kept, I64), F64), b.add(e, b.bitcast(drop, I64)))
    sign = b.bitwise_xor(product_sign, flipped)
    result = b.bitcast(b.bitwise_or(b.bitcast(size, U64), sign), F64)
    nothing = b.compare("equal", b.bitwise_or(high, low), zero)

    product = b.multiply(x, y)
    plain = b.add(product, z)
    empty = b.bitwise_or(b.compare("equal", x, none), b.compare("equal", y, none))
    return first_that_holds(
        b,
        result,
        (b.bitwise_or(empty, b.bitwise_not(b.bitwise_and(_is_finite(b, x), _is_finite(b, y)))), plain),
        (b.bitwise_not(_is_finite(b, z)), z),
        (b.compare("equal", z, none), product),
        (nothing, none),
    )


def _is_finite(b: MathBuilder[V], x: V) -> V:
    return b.compare("less", b.absolute(x), number(b, x, float("inf")))


FUNCTIONS: dict[str, VectorFunction] = {"fma": fma}

"""Conversions between f32 and the floats of 16 bits and less, by integer arithmetic on any target.

A value of a narrow dtype is its bits, in an integer lane of 16 or 8 bits (the low ones of it). Subnormals count
everywhere: no instruction that takes them for zeros is used. Formats are in `lang/float_format.py`.
"""

from __future__ import annotations

from tcp_eqsat.lang.builder import Builder, V
from tcp_eqsat.lang.float_format import FORMATS, FloatFormat, NonFinite
from tcp_eqsat.lang.types import BF16, F8E8M0FNU, F32, F64, I32, U8, U16, U32, DType

_FRACTION = 23
"""Bits of an f32's fraction."""
_BIAS = 127
_INFINITY = 0x7F800000
_QUIET = 0x00400000


def widen(b: Builder[V], x: V) -> V:
    """A float of 16 bits or less as f32, exactly."""
    bits = b.convert(b.bitcast(x, _unsigned(x.dtype)), I32)
    if x.dtype == BF16:
        return b.bitcast(b.shift_left(bits, _number(b, 16)), F32)
    if x.dtype == F8E8M0FNU:
        return b.bitcast(_widened_power(b, bits), F32)
    form = FORMATS[x.dtype]
    size = b.bitwise_and(bits, _number(b, form.sign - 1))
    moved = b.shift_left(size, _number(b, _FRACTION - form.mantissa_bits))
    normal = b.add(moved, _number(b, (_BIAS - form.bias) << _FRACTION))
    subnormal = b.bitcast(b.multiply(b.convert(size, F32), b.constant(form.step, F32)), I32)
    result = b.select(b.compare("less", size, _number(b, 1 << form.mantissa_bits)), subnormal, normal)
    if form.non_finite is NonFinite.IEEE:
        beyond = b.compare("greater_equal", size, _number(b, form.infinity))
        result = b.select(beyond, b.bitwise_or(moved, _number(b, _INFINITY)), result)
    elif form.non_finite is not NonFinite.NONE:
        nan = b.compare("equal", bits if form.non_finite is NonFinite.ZERO else size, _number(b, form.nan))
        result = b.select(nan, _number(b, _INFINITY | _QUIET), result)
    sign = b.bitwise_and(bits, _number(b, form.sign))
    sign = b.shift_left(sign, _number(b, 32 - form.sign.bit_length()))
    return b.bitcast(b.bitwise_or(result, sign), F32)


def narrow(b: Builder[V], x: V, dtype: DType) -> tuple[V, V | None]:
    """An f32 rounded to a float of 16 bits or less, and the rounded value as f32 where that comes for free."""
    bits = b.bitcast(x, I32)
    if dtype == BF16:
        return _to_bf16(b, x, bits)
    if dtype == F8E8M0FNU:
        return b.bitcast(b.convert(_rounded_power(b, bits), U8), dtype), None
    form, unsigned = FORMATS[dtype], _unsigned(dtype)
    size = b.bitwise_and(bits, _number(b, 0x7FFFFFFF))
    number = b.select(
        b.compare("less", size, b.bitcast(b.constant(form.least_normal, F32), I32)),
        _subnormal(b, size, form), _normal(b, size, form))
    number = b.select(b.compare("greater", number, _number(b, form.largest)), _number(b, form.overflow), number)
    number = b.select(b.compare("greater", size, _number(b, _INFINITY)), _number(b, form.nan), number)
    sign = b.shift_right(b.bitcast(x, U32), b.constant(32 - form.sign.bit_length(), U32))
    sign = b.bitcast(b.bitwise_and(sign, b.constant(form.sign, U32)), I32)
    if form.non_finite is NonFinite.ZERO:
        keeps = b.compare("greater", number, _number(b, 0))
        sign = b.select(keeps, sign, _number(b, 0))
    return b.bitcast(b.convert(b.bitwise_or(number, sign), unsigned), dtype), None


def _to_bf16(b: Builder[V], x: V, bits: V) -> tuple[V, V]:
    last = b.bitwise_and(b.shift_right(bits, _number(b, 16)), _number(b, 1))
    rounded = b.add(bits, b.add(last, _number(b, 0x7FFF)))
    rounded = b.select(b.compare("not_equal", x, x), b.bitwise_or(bits, _number(b, _QUIET)), rounded)
    wide = b.bitcast(b.bitwise_and(rounded, _number(b, -0x10000)), F32)
    return b.bitcast(b.convert(b.shift_right(rounded, _number(b, 16)), U16), BF16), wide


def _normal(b: Builder[V], size: V, form: FloatFormat) -> V:
    """The bits of a number from the least normal one on, rounded to nearest even; an overflow counts on."""
    excess = _FRACTION - form.mantissa_bits
    last = b.bitwise_and(b.shift_right(size, _number(b, excess)), _number(b, 1))
    rounded = b.add(size, b.add(last, _number(b, (1 << (excess - 1)) - 1)))
    return b.subtract(b.shift_right(rounded, _number(b, excess)), _number(b, (_BIAS - form.bias) << form.mantissa_bits))


def _subnormal(b: Builder[V], size: V, form: FloatFormat) -> V:
    """The bits of a number below the least normal one: adding 2**23 steps leaves no room for less than a step."""
    large = b.constant(form.step * 2.0**_FRACTION, F32)
    return b.subtract(b.bitcast(b.add(b.bitcast(size, F32), large), I32), b.bitcast(large, I32))


def _widened_power(b: Builder[V], bits: V) -> V:
    """f8e8m0fnu: the exponent of an f32; the least is a subnormal."""
    result = b.shift_left(bits, _number(b, _FRACTION))
    result = b.select(b.compare("equal", bits, _number(b, 0)), _number(b, _QUIET), result)
    return b.select(b.compare("equal", bits, _number(b, 255)), _number(b, _INFINITY | _QUIET), result)


def _rounded_power(b: Builder[V], bits: V) -> V:
    """The exponent of the nearest power of two, ties up; 255 (NaN) for what has none."""
    normal = b.shift_right(b.add(bits, _number(b, _QUIET)), _number(b, _FRACTION))
    least = b.convert(b.compare("greater_equal", bits, _number(b, 0x600000)), I32)
    power = b.select(b.compare("less", bits, _number(b, 1 << _FRACTION)), least, normal)
    none = b.bitwise_or(b.compare("less", bits, _number(b, 1)), b.compare("greater", bits, _number(b, _INFINITY)))
    return b.select(none, _number(b, 255), power)


def odd_f32(b: Builder[V], x: V) -> V:
    """An f64 as f32 rounded to odd (towards zero, then to an odd last bit where inexact): what rounds once later."""
    near = b.convert(x, F32)
    back = b.convert(near, F64)
    beyond = b.convert(b.compare("greater", b.absolute(back), b.absolute(x)), I32)
    bits = b.subtract(b.bitcast(near, I32), beyond)
    odd = b.bitwise_or(bits, _number(b, 1))
    return b.bitcast(b.select(b.compare("not_equal", back, x), odd, bits), F32)


def odd_f64(b: Builder[V], x: V) -> V:
    """An i64 or u64 as f64 rounded to odd."""
    near = b.convert(x, F64)
    low = b.bitwise_and(x, b.constant((1 << 11) - 1, x.dtype))
    some = b.convert(b.compare("not_equal", low, b.constant(0, x.dtype)), x.dtype)
    places = b.constant(11, x.dtype)
    joined = b.shift_left(b.bitwise_or(b.shift_right(x, places), some), places)
    large = b.compare("greater_equal", b.absolute(near), b.constant(2.0**53, F64))
    return b.convert(b.select(large, joined, x), F64)


def _unsigned(dtype: DType) -> DType:
    return U16 if dtype.bits == 16 else U8


def _number(b: Builder[V], value: int) -> V:
    return b.constant(value, I32)

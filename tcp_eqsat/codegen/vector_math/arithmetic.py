"""What the functions share: the builder they need, polynomials, powers of two, sums without error."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tcp_eqsat.lang.builder import Builder, V
from tcp_eqsat.lang.types import F32, F64, I32, I64, DType


class MathBuilder(Builder[V], Protocol[V]):
    """What the functions need beyond scalar expressions."""

    @property
    def has_fma(self) -> bool:
        """Whether `fma` rounds once."""

    @property
    def has_scale(self) -> bool:
        """Whether `ldexp` is one instruction."""

    def lookup(self, name: str, values: tuple[int | float, ...], dtype: DType, index: V) -> V:
        """values[index], from a constant table; the index is an integer within bounds."""

    def outlined(self, name: str, body: Callable[..., V], *operands: V) -> V:
        """`body(builder, *operands)` as a function of its own, for what is large or branches."""

    def where_any(self, condition: V, rare: Callable[[], tuple[V, ...]], usual: tuple[V, ...]) -> tuple[V, ...]:
        """`rare()` where `condition` holds, else `usual`; only in the body of an outlined function."""

    def iterate(self, limit: int, step: Callable[..., tuple[V, ...]], *state: V) -> tuple[V, ...]:
        """`step(*state)` gives a bool, whether to go on, and the next state; at most `limit` (from 1) times.

        A lane keeps the state that its last step gave. Only in the body of an outlined function.
        """


VectorFunction = Callable[..., Any]


def through_double(function: VectorFunction) -> VectorFunction:
    """The function with f32 operands computed in f64 and rounded once."""

    @functools.wraps(function)
    def either(b: MathBuilder[V], *operands: V) -> V:
        if not is_single(operands[0]):
            return function(b, *operands)
        return b.convert(function(b, *(b.convert(x, F64) for x in operands)), F32)

    return either


def outlined(function: VectorFunction) -> VectorFunction:
    """The function as one of its own in the emitted code, called by its Python name."""

    @functools.wraps(function)
    def call(b: MathBuilder[V], *operands: V) -> V:
        return b.outlined(function.__name__, function, *operands)

    return call


def first_that_holds(b: MathBuilder[V], default: V, *cases: tuple[V, V]) -> V:
    """The value of the first case (condition, value) that holds, else `default`."""
    result = default
    for condition, value in reversed(cases):
        result = b.select(condition, value, result)
    return result


def is_single(x: V) -> bool:
    return x.dtype is F32


def number(b: MathBuilder[V], x: V, value: float) -> V:
    """A constant of the dtype of `x`."""
    return b.constant(value, x.dtype)


def bits_type(x: V) -> DType:
    """The signed integer as wide as `x`."""
    return I32 if is_single(x) else I64


def mantissa_bits(x: V) -> int:
    return 23 if is_single(x) else 52


def exponent_bias(x: V) -> int:
    return 127 if is_single(x) else 1023


def polynomial(b: MathBuilder[V], x: V, coefficients: Sequence[float]) -> V:
    """Horner's scheme; coefficients from the lowest power up."""
    *rest, last = (number(b, x, coefficient) for coefficient in coefficients)
    result = last
    for coefficient in reversed(rest):
        result = b.fma(result, x, coefficient)
    return result


def nearest_integer(b: MathBuilder[V], x: V, factor: float) -> tuple[V, V]:
    """x * factor rounded to an integer, as a float and as an integer; for |x * factor| < 2**21.

    Adding 1.5 * 2**(mantissa bits) leaves the integer in the low bits.
    """
    shift = number(b, x, 1.5 * 2.0 ** mantissa_bits(x))
    shifted = b.fma(x, number(b, x, factor), shift)
    bits = bits_type(x)
    whole = b.subtract(b.bitcast(shifted, bits), b.bitcast(shift, bits))
    return b.subtract(shifted, shift), whole


def power_of_two(b: MathBuilder[V], exponent: V, like: V) -> V:
    """2**exponent in the dtype of `like`, for exponents of normal numbers."""
    biased = b.add(exponent, b.constant(exponent_bias(like), exponent.dtype))
    return b.bitcast(b.shift_left(biased, b.constant(mantissa_bits(like), exponent.dtype)), like.dtype)


def scale(b: MathBuilder[V], x: V, exponent: V) -> V:
    """x * 2**exponent rounded once, for x near 1 and |exponent| below twice the bias."""
    if b.has_scale:
        return b.ldexp(x, exponent)
    half = b.shift_right(exponent, b.constant(1, exponent.dtype))
    rest = b.subtract(exponent, half)
    return b.multiply(b.multiply(x, power_of_two(b, half, x)), power_of_two(b, rest, x))


def clamp(b: MathBuilder[V], x: V, low: float, high: float) -> V:
    """x within [low, high]; NaN stays NaN."""
    top, bottom = number(b, x, high), number(b, x, low)
    x = b.select(b.compare("greater", x, top), top, x)
    return b.select(b.compare("less", x, bottom), bottom, x)


def flip_sign(b: MathBuilder[V], x: V, sign: V) -> V:
    """x with the sign bit exclusive-or'ed by that of the integer `sign`, all of whose other bits are 0."""
    return b.bitcast(b.bitwise_xor(b.bitcast(x, sign.dtype), sign), x.dtype)


def two_sum(b: MathBuilder[V], x: V, y: V) -> tuple[V, V]:
    """The rounded sum and its exact error (Knuth)."""
    total = b.add(x, y)
    part = b.subtract(total, x)
    return total, b.add(b.subtract(x, b.subtract(total, part)), b.subtract(y, part))


def quick_two_sum(b: MathBuilder[V], x: V, y: V) -> tuple[V, V]:
    """`two_sum` for |x| >= |y| or x = 0 (Dekker)."""
    total = b.add(x, y)
    return total, b.subtract(y, b.subtract(total, x))


def two_product(b: MathBuilder[V], x: V, y: V) -> tuple[V, V]:
    """The rounded product and its exact error: by a fused multiply-add, or by Dekker's splitting."""
    product = b.multiply(x, y)
    if b.has_fma:
        return product, b.fma(x, y, b.negate(product))
    x_high, x_low = _halves(b, x)
    y_high, y_low = _halves(b, y)
    error = b.subtract(b.multiply(x_high, y_high), product)
    error = b.add(b.add(error, b.multiply(x_high, y_low)), b.multiply(x_low, y_high))
    return product, b.add(error, b.multiply(x_low, y_low))


def _halves(b: MathBuilder[V], x: V) -> tuple[V, V]:
    """x as a sum of two numbers of half its digits (Veltkamp)."""
    spread = b.multiply(x, number(b, x, 2.0**12 + 1 if is_single(x) else 2.0**27 + 1))
    high = b.subtract(spread, b.subtract(spread, x))
    return high, b.subtract(x, high)

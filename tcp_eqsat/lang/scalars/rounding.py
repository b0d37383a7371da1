"""Rounding to integers and to fewer digits."""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np

from tcp_eqsat.lang.scalar import NOT_DIFFERENTIABLE, ScalarOp, apply, scalar_family, scalar_op
from tcp_eqsat.lang.scalars.layout import exponent_bias, exponent_bits, integer_as_wide, mantissa_bits
from tcp_eqsat.lang.scalars.typing import floats
from tcp_eqsat.lang.types import dtype_of

for _name, _reference, _emit, _doc in (
    ("floor", np.floor, lambda b, x: b.floor(x), "The greatest integer that is not above x."),
    ("ceil", np.ceil, lambda b, x: b.ceil(x), "The least integer that is not below x; -0 between -1 and 0."),
    ("trunc", np.trunc, lambda b, x: b.trunc(x), "x without its fraction, with its sign."),
    ("round", np.round, lambda b, x: b.round_even(x), "The nearest integer, ties to even, with x's sign."),
):
    scalar_op(_name, "x", infer=floats(_name), reference=_reference, emit=_emit,
              derivative=NOT_DIFFERENTIABLE, doc=f"{_doc} Zeros, infinities and NaN stay.")


def _round_away(x: Any) -> np.ndarray:
    whole = np.trunc(x)
    return np.copysign(np.where(np.abs(x - whole) >= 0.5, np.abs(whole) + 1, np.abs(whole)), x).astype(x.dtype)


def _emit_round_away(b: Any, x: Any) -> Any:
    size, one = b.absolute(x), b.constant(1, x.dtype)
    whole = b.trunc(size)
    up = b.compare("greater_equal", b.subtract(size, whole), b.constant(0.5, x.dtype))
    return b.copysign(b.select(up, b.add(whole, one), whole), x)


round_away = scalar_op(
    "round_away", "x", infer=floats("round_away"), reference=lambda x: _round_away(np.asarray(x)),
    emit=_emit_round_away, derivative=NOT_DIFFERENTIABLE,
    doc="The nearest integer, ties away from zero, with x's sign. Zeros, infinities and NaN stay.",
)


# Fewer digits


def reduce_precision(exponent: int, mantissa: int) -> ScalarOp:
    """The operation that rounds to `exponent` (1 to 11) bits of exponent and `mantissa` (0 to 52) of fraction."""
    return _reduce_precision(f"reduce_precision_e{exponent}m{mantissa}", exponent, mantissa)


@functools.lru_cache(maxsize=None)
def _reduce_precision(name: str, exponent: int, mantissa: int) -> ScalarOp:
    return scalar_op(
        name, "x", infer=floats(name),
        reference=lambda x: _reduced(np.asarray(x), exponent, mantissa),
        emit=lambda b, x: _emit_reduced(b, x, exponent, mantissa),
        derivative=lambda g, x: (apply(name, g),), takes_narrow=True,
        doc=f"x rounded to {mantissa} bits of fraction, ties to even, and {exponent} bits of exponent: beyond them "
            "infinities, and zeros below the least normal number. NaN stays. The cotangent is rounded in the same way.",
    )


def _named_precision(name: str) -> ScalarOp | None:
    found = re.fullmatch(r"reduce_precision_e([1-9]\d?)m(0|[1-9]\d?)", name)
    if found is None:
        return None
    exponent, mantissa = int(found[1]), int(found[2])
    return reduce_precision(exponent, mantissa) if exponent <= 11 and mantissa <= 52 else None


scalar_family("reduce_precision_eNmN", _named_precision)
for _form in ((5, 10), (8, 7), (8, 23), (4, 3)):
    reduce_precision(*_form)


def _reduced(x: np.ndarray, exponent: int, mantissa: int) -> np.ndarray:
    """By arithmetic: the distance between neighbours of the shorter format, then its range."""
    dtype = dtype_of(x.dtype)
    result = x.astype(np.float64)
    finite = np.where(np.isfinite(result), result, 0)
    if mantissa < mantissa_bits(dtype):
        place = np.maximum(np.frexp(finite)[1] - 1, 1 - exponent_bias(dtype))
        steps = np.round(np.ldexp(np.ldexp(finite, -place // 2), -place - -place // 2 + mantissa))
        result = np.where(np.isfinite(result), np.ldexp(steps, place - mantissa), result)
    if exponent < exponent_bits(dtype):
        bias = (1 << (exponent - 1)) - 1
        size = np.abs(result)
        large, small = size >= 2.0 ** (bias + 1), size < 2.0 ** (1 - bias)
        result = np.where(large, np.copysign(np.inf, result), np.where(small, np.copysign(0, result), result))
    return result.astype(x.dtype)


def _emit_reduced(b: Any, x: Any, exponent: int, mantissa: int) -> Any:
    unsigned = integer_as_wide(x.dtype, signed=False)

    def number(value: int) -> Any:
        return b.constant(value, unsigned)

    width = mantissa_bits(x.dtype)
    sign = number(1 << (unsigned.bits - 1))
    bits = b.bitcast(x, unsigned)
    size = b.bitwise_and(bits, b.bitwise_not(sign))
    infinity = ((1 << exponent_bits(x.dtype)) - 1) << width
    rounded = size
    if mantissa < width:
        drop = width - mantissa
        odd = b.bitwise_and(b.shift_right(size, number(drop)), number(1))
        rounded = b.add(size, b.add(odd, number((1 << (drop - 1)) - 1)))
        rounded = b.bitwise_and(rounded, number((1 << unsigned.bits) - (1 << drop)))
    if exponent < exponent_bits(x.dtype):
        bias, own = (1 << (exponent - 1)) - 1, exponent_bias(x.dtype)
        over = b.compare("greater_equal", rounded, number((own + bias + 1) << width))
        under = b.compare("less", rounded, number((own - bias + 1) << width))
        rounded = b.select(over, number(infinity), b.select(under, number(0), rounded))
    nan = b.compare("greater", size, number(infinity))
    result = b.bitcast(b.bitwise_or(rounded, b.bitwise_and(bits, sign)), x.dtype)
    return b.select(nan, x, result)

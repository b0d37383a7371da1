"""What every scalar operation gives, in plain Python numbers: written without NumPy and without the table.

Floats come as Python floats, integers as ints, bool as bool. `EXPECTED[name](dtype, *operands)` is the exact result
or, for `FUNCTIONS`, one within a few units in the last place; both are rounded or wrapped to the result's dtype.
"""

from __future__ import annotations

import cmath
import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from tcp_eqsat.lang.narrow import convert_array
from tcp_eqsat.lang.types import DTYPES, DType, Kind

Expectation = Callable[..., Any]


def wrap(number: int, dtype: DType) -> int:
    """Two's complement in the dtype's width."""
    low = number & ((1 << dtype.bits) - 1)
    return low - (1 << dtype.bits) if dtype.kind is Kind.INT and low >> (dtype.bits - 1) else low


def _wrapped(function: Callable[..., Any]) -> Expectation:
    return lambda dtype, *operands: function(*operands) if dtype.is_float else wrap(function(*operands), dtype)


def _divide(dtype: DType, x: Any, y: Any) -> Any:
    if not dtype.is_float:
        return wrap(-1 if y == 0 else _truncated(x, y), dtype)
    if y == 0:
        return math.nan if x == 0 or math.isnan(x) else math.copysign(math.inf, x) * math.copysign(1, y)
    return x / y


def _truncated(x: int, y: int) -> int:
    quotient = abs(x) // abs(y)
    return quotient if (x < 0) == (y < 0) else -quotient


def _fmod(dtype: DType, x: Any, y: Any) -> Any:
    if dtype.is_float:
        return math.nan if y == 0 or math.isinf(x) else math.fmod(x, y)
    return x if y == 0 else x - y * _truncated(x, y)


def _maximum(dtype: DType, x: Any, y: Any) -> Any:
    if dtype.is_float and (math.isnan(x) or math.isnan(y)):
        return math.nan
    if x == y and dtype.is_float:
        return x if math.copysign(1, x) > 0 else y
    return max(x, y)


def _minimum(dtype: DType, x: Any, y: Any) -> Any:
    return -_maximum(dtype, -x, -y) if dtype.is_float else min(x, y)


def _sign(dtype: DType, x: Any) -> Any:
    return x if x == 0 or x != x else (1 if x > 0 else -1)


def _sqrt(dtype: DType, x: float) -> float:
    return math.nan if x < 0 else math.sqrt(x)


def _square(dtype: DType, x: Any) -> Any:
    return x * x if dtype.is_float else wrap(x * x, dtype)


def _rounded(function: Callable[[float], float]) -> Expectation:
    """Non-finite numbers are left alone and the sign of zero is kept."""
    return lambda dtype, x: math.copysign(function(x), x) if math.isfinite(x) else x


def _bits(function: Callable[[Any, Any], Any]) -> Expectation:
    return lambda dtype, x, y: function(x, y) if dtype.kind is Kind.BOOL else wrap(function(x, y), dtype)


def _shift_left(dtype: DType, x: int, y: int) -> int:
    amount = y & ((1 << dtype.bits) - 1)
    return wrap(x << amount, dtype) if amount < dtype.bits else 0


def _shift_right(dtype: DType, x: int, y: int) -> int:
    amount = y & ((1 << dtype.bits) - 1)
    return x >> min(amount, dtype.bits)


def _conversion(target: DType) -> Expectation:
    def convert(dtype: DType, x: Any) -> Any:
        if target.kind is Kind.BOOL:
            return x != 0
        if target.is_float:
            return float(x)
        if not dtype.is_float:
            return wrap(int(x), target)
        if math.isnan(x):
            return 0
        low = -(1 << (target.bits - 1)) if target.kind is Kind.INT else 0
        high = (1 << (target.bits - (target.kind is Kind.INT))) - 1
        return high if x >= high else low if x <= low else int(x)

    return convert


def _bitcast(target: DType) -> Expectation:
    def bitcast(dtype: DType, x: Any) -> Any:
        stored = np.array([x], np.float32).astype(dtype.numpy) if x != x else convert_array(np.array([x]), dtype)
        return stored.view(target.numpy)[0]

    return bitcast


def _precision(dtype: DType) -> tuple[int, int]:
    """Bits of exponent and of fraction."""
    return {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}[dtype.name]


def _reduced_precision(exponent: int, mantissa: int) -> Expectation:
    def reduce(dtype: DType, x: float) -> float:
        own_exponent, own_mantissa = _precision(dtype)
        if x == 0 or not math.isfinite(x):
            return x
        result = x
        if mantissa < own_mantissa:
            place = max(math.frexp(x)[1] - 1, 2 - (1 << (own_exponent - 1))) - mantissa
            steps = Fraction(x) / Fraction(2) ** place
            try:
                result = math.copysign(float(round(steps) * Fraction(2) ** place), x)
            except OverflowError:
                return math.copysign(math.inf, x)
        if exponent < own_exponent:
            bias = (1 << (exponent - 1)) - 1
            if abs(result) >= 2.0 ** (bias + 1):
                return math.copysign(math.inf, x)
            if abs(result) < 2.0 ** (1 - bias):
                return math.copysign(0.0, x)
        return result

    return reduce


def _next_after(dtype: DType, x: float, y: float) -> float:
    if math.isnan(x) or math.isnan(y):
        return math.nan
    if x == y:
        return y
    exponent, mantissa = _precision(dtype)
    least = 2.0 ** (2 - (1 << (exponent - 1)) - mantissa) if dtype.bits < 64 else 5e-324
    largest = (2 - 2.0**-mantissa) * 2.0 ** ((1 << (exponent - 1)) - 1)
    if x == 0:
        return math.copysign(least, y)
    if math.isinf(x):
        return math.copysign(largest, x)
    outward = (y > x) == (x > 0)
    m, e = math.frexp(abs(x))
    step = max(math.ldexp(1.0, e - 1 - mantissa), least)
    if not outward and m == 0.5:
        step = max(step / 2, least)
    if outward and abs(x) == largest:
        return math.copysign(math.inf, x)
    return math.copysign(abs(x) + (step if outward else -step), x)


def _integer_pow(dtype: DType, x: Any, y: Any) -> Any:
    if dtype.is_float:
        return _pow(dtype, x, y)
    if y >= 0:
        return wrap(pow(x, y, 1 << dtype.bits), dtype)
    return 1 if x == 1 or (x == -1 and y % 2 == 0) else -1 if x == -1 else 0


def _round_away(dtype: DType, x: float) -> float:
    if not math.isfinite(x):
        return x
    return math.copysign(math.floor(Fraction(abs(x)) + Fraction(1, 2)), x)


def _fma(dtype: DType, x: float, y: float, z: float) -> float:
    """Rounded to odd in double precision, so that rounding to a narrower dtype is the only one that counts."""
    if not (math.isfinite(x) and math.isfinite(y)):
        return x * y + z
    if not math.isfinite(z):
        return z
    total = Fraction(x) * Fraction(y) + Fraction(z)
    if total == 0:
        return x * y + z if x == 0 or y == 0 else 0.0
    try:
        near = float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf
    if dtype.bits == 64 or Fraction(near) == total or int(math.frexp(near)[0] * 2.0**53) % 2:
        return near
    return math.nextafter(near, math.inf if total > Fraction(near) else -math.inf)


EXPECTED: dict[str, Expectation] = {
    "add": _wrapped(operator.add),
    "subtract": _wrapped(operator.sub),
    "multiply": _wrapped(operator.mul),
    "divide": _divide,
    "fmod": _fmod,
    "negative": _wrapped(operator.neg),
    "abs": _wrapped(abs),
    "sign": _sign,
    "maximum": _maximum,
    "minimum": _minimum,
    "square": _square,
    "sqrt": _sqrt,
    "floor": _rounded(math.floor),
    "ceil": _rounded(math.ceil),
    "trunc": _rounded(math.trunc),
    "round": _rounded(round),
    "equal": lambda dtype, x, y: x == y,
    "not_equal": lambda dtype, x, y: x != y,
    "less": lambda dtype, x, y: x < y,
    "less_equal": lambda dtype, x, y: x <= y,
    "greater": lambda dtype, x, y: x > y,
    "greater_equal": lambda dtype, x, y: x >= y,
    "where": lambda dtype, condition, x, y: x if condition else y,
    "isfinite": lambda dtype, x: math.isfinite(x),
    "isnan": lambda dtype, x: math.isnan(x),
    "bitwise_and": _bits(operator.and_),
    "bitwise_or": _bits(operator.or_),
    "bitwise_xor": _bits(operator.xor),
    "bitwise_invert": lambda dtype, x: not x if dtype.kind is Kind.BOOL else wrap(~x, dtype),
    "bitwise_left_shift": _shift_left,
    "bitwise_right_shift": _shift_right,
    "isinf": lambda dtype, x: math.isinf(x),
    "signbit": lambda dtype, x: math.copysign(1, x) < 0,
    "copysign": lambda dtype, x, y: math.copysign(x, y),
    "nextafter": _next_after,
    "round_away": _round_away,
    "fma": _fma,
    "popcount": lambda dtype, x: (x & ((1 << dtype.bits) - 1)).bit_count(),
    "count_leading_zeros": lambda dtype, x: dtype.bits - (x & ((1 << dtype.bits) - 1)).bit_length(),
    **{f"reduce_precision_e{e}m{m}": _reduced_precision(e, m) for e, m in ((5, 10), (8, 7), (8, 23), (4, 3))},
    **{f"bitcast_{dtype}": _bitcast(dtype) for dtype in DTYPES.values() if dtype.name != "bool"},
    **{f"astype_{dtype}": _conversion(dtype) for dtype in DTYPES.values()},
}


def _overflowing(function: Callable[..., float], limit: float = math.inf) -> Expectation:
    """Python raises where IEEE gives an infinity or NaN."""

    def expectation(dtype: DType, *operands: float) -> float:
        try:
            return function(*operands)
        except OverflowError:
            return limit
        except ValueError:
            return math.nan

    return expectation


def _logarithm(function: Callable[[float], float], pole: float = 0.0) -> Expectation:
    return lambda dtype, x: -math.inf if x == pole else math.nan if x < pole else function(x)


def _pow(dtype: DType, x: float, y: float) -> float:
    odd = math.isfinite(y) and y == math.floor(y) and math.fmod(y, 2) != 0
    sign = -1.0 if math.copysign(1, x) < 0 and odd else 1.0
    if x == 0 and y < 0:
        return sign * math.inf
    try:
        return math.pow(x, y)
    except OverflowError:
        return sign * math.inf
    except ValueError:
        return math.nan


def _logistic(dtype: DType, x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def _rsqrt(dtype: DType, x: float) -> float:
    if x == 0:
        return math.copysign(math.inf, x)
    return math.nan if x < 0 else 1 / math.sqrt(x)


def _or_nan(function: Callable[[float], float], x: float) -> float:
    try:
        return function(x)
    except ValueError:
        return math.nan


def _sinh(dtype: DType, x: float) -> float:
    return _overflowing(math.sinh, math.copysign(math.inf, x))(dtype, x)


def _lgamma(dtype: DType, x: float) -> float:
    pole = x <= 0 and (math.isinf(x) or x == math.floor(x))
    return math.inf if pole else _overflowing(math.lgamma)(dtype, x)


FUNCTIONS: dict[str, Expectation] = {
    "pow": _integer_pow,
    "exp": _overflowing(math.exp),
    "exp2": _overflowing(lambda x: math.pow(2, x)),
    "expm1": _overflowing(math.expm1),
    "log": _logarithm(math.log),
    "log2": _logarithm(math.log2),
    "log1p": _logarithm(math.log1p, -1.0),
    "tanh": lambda dtype, x: math.tanh(x),
    "logistic": _logistic,
    "erf": lambda dtype, x: math.erf(x),
    "sin": _overflowing(math.sin),
    "cos": _overflowing(lambda x: cmath.cos(x).real if abs(x) < 1e300 else math.cos(x)),
    "rsqrt": _rsqrt,
    "log10": _logarithm(math.log10),
    "cbrt": lambda dtype, x: math.cbrt(x),
    "hypot": lambda dtype, x, y: math.hypot(x, y),
    "sinh": _sinh,
    "cosh": _overflowing(math.cosh),
    "asinh": lambda dtype, x: math.asinh(x),
    "acosh": _overflowing(math.acosh),
    "atanh": lambda dtype, x: math.copysign(math.inf, x) if abs(x) == 1 else _or_nan(math.atanh, x),
    "tan": _overflowing(math.tan),
    "asin": _overflowing(math.asin),
    "acos": _overflowing(math.acos),
    "atan": lambda dtype, x: math.atan(x),
    "atan2": lambda dtype, y, x: math.atan2(y, x),
    "erfc": lambda dtype, x: math.erfc(x),
    "lgamma": _lgamma,
}

BY_SERIES = (
    "erf_inv", "digamma", "zeta", "polygamma", "bessel_i0e", "bessel_i1e", "igamma", "igammac", "igamma_grad_a",
)
"""Functions that Python lacks: they are compared with mpmath, at fewer arguments; their special values stand in
tests/codegen/test_vector_math.py."""

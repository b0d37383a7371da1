"""What every scalar operation gives, in plain Python numbers: written without NumPy and without the table.

Floats come as Python floats, integers as ints, bool as bool. `EXPECTED[name](dtype, *operands)` is the exact result
or, for `FUNCTIONS`, one within a few units in the last place; both are rounded or wrapped to the result's dtype.
"""

from __future__ import annotations

import cmath
import math
import operator
from collections.abc import Callable
from typing import Any

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


FUNCTIONS: dict[str, Expectation] = {
    "pow": _pow,
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
}

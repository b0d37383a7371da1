"""Arithmetic of all numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tcp_eqsat.lang.scalar import Number, ScalarExpr, apply, literal, scalar_op
from tcp_eqsat.lang.scalars.fused import fused
from tcp_eqsat.lang.scalars.typing import any_dtype, floats, numbers
from tcp_eqsat.lang.types import DType, integer_range


def _maximum(x: Any, y: Any) -> np.ndarray:
    """IEEE 754-2019 maximum: NaN propagates, -0 < +0."""
    result = np.maximum(x, y)
    if result.dtype.kind == "f":
        zeros = (np.asarray(x) == 0) & (np.asarray(y) == 0)
        return np.where(zeros, np.asarray(x) + np.asarray(y), result)
    return result


def _minimum(x: Any, y: Any) -> np.ndarray:
    result = np.minimum(x, y)
    if result.dtype.kind == "f":
        return np.asarray(-_maximum(np.negative(x), np.negative(y)))
    return result


def _divide(x: Any, y: Any) -> np.ndarray:
    """IEEE for floats. Integers truncate; x / 0 has all bits set; the least value / -1 is itself."""
    x, y = np.broadcast_arrays(x, y)
    if x.dtype.kind == "f":
        return np.divide(x, y)
    safe = np.where(y == 0, np.ones_like(y), y)
    if x.dtype.kind == "u":
        return np.where(y == 0, np.invert(np.zeros_like(x)), x // safe)
    overflow = safe == -1
    divisor = np.where(overflow, np.ones_like(safe), safe)
    quotient = x // divisor
    quotient = quotient + ((x % divisor != 0) & ((x < 0) != (divisor < 0))).astype(x.dtype)
    quotient = np.where(overflow, np.negative(x), quotient)
    return np.where(y == 0, np.full_like(x, -1), quotient)


def _fmod(x: Any, y: Any) -> np.ndarray:
    x, y = np.broadcast_arrays(x, y)
    if x.dtype.kind == "f":
        return np.fmod(x, y)
    harmless = np.where((y == 0) | ((y == -1) if x.dtype.kind == "i" else False), np.ones_like(y), y)
    return np.where(y == 0, x, np.fmod(x, harmless))


add = scalar_op(
    "add", "x y", infer=numbers("add"), reference=np.add, emit=lambda b, x, y: b.add(x, y),
    derivative=lambda g, x, y: (g, g), commutative=True,
    identity=lambda dtype: 0,
    doc="Sum. Integers wrap. A reduction starts at +0, so that a sum of nothing but -0 is +0.",
)
subtract = scalar_op(
    "subtract", "x y", infer=numbers("subtract"), reference=np.subtract,
    emit=lambda b, x, y: b.subtract(x, y), derivative=lambda g, x, y: (g, -g),
    doc="Difference. Integers wrap.",
)
multiply = scalar_op(
    "multiply", "x y", infer=numbers("multiply"), reference=np.multiply,
    emit=lambda b, x, y: b.multiply(x, y), derivative=lambda g, x, y: (g * y, g * x),
    commutative=True, identity=lambda dtype: 1, doc="Product. Integers wrap.",
)
divide = scalar_op(
    "divide", "x y", infer=numbers("divide"), reference=_divide,
    emit=lambda b, x, y: b.divide(x, y), derivative=lambda g, x, y: (g / y, -(g * x) / (y * y)),
    doc="Quotient. Floats: IEEE 754. Integers truncate towards zero; x / 0 has all bits set; "
        "the least value / -1 is the least value. Complex: scaled, so that nothing overflows in between.",
)
fmod = scalar_op(
    "fmod", "x y", infer=numbers("fmod"), reference=_fmod, emit=lambda b, x, y: b.remainder(x, y),
    derivative=lambda g, x, y: (g, -(g * apply("trunc", x / y))),
    doc="Remainder with the dividend's sign, exact. Integers: x rem 0 is x. Floats: NaN for y = 0 and for infinite x; "
        "x where y is infinite.",
)
negative = scalar_op(
    "negative", "x", infer=numbers("negative"), reference=np.negative,
    emit=lambda b, x: b.negate(x), derivative=lambda g, x: (-g,),
    doc="Negation. Floats: flips the sign bit. Integers wrap.",
)
absolute = scalar_op(
    "abs", "x", infer=numbers("abs"), reference=np.absolute,
    emit=lambda b, x: b.absolute(x), derivative=lambda g, x: (_of_absolute(g, x),),
    doc="Absolute value. The least signed integer is its own absolute value. Complex: the magnitude, without overflow "
        "in between; infinite where a part is, even beside NaN.",
)
sign = scalar_op(
    "sign", "x", infer=numbers("sign"),
    reference=lambda x: np.where(x == 0, x, np.sign(x)) if np.asarray(x).dtype.kind == "f" else np.sign(x),
    emit=lambda b, x: _emit_sign(b, x), derivative=lambda g, x: (_of_sign(g, x),),
    doc="-1, 0 or 1 by sign; zeros keep their sign, NaN stays NaN. Complex: x / |x|, and 0 at 0.",
)
maximum = scalar_op(
    "maximum", "x y", infer=any_dtype("maximum"), reference=_maximum, emit=lambda b, x, y: b.maximum(x, y),
    derivative=lambda g, x, y: _of_winner(g, x, y, "greater"), commutative=True,
    identity=lambda dtype: _least(dtype),
    doc="IEEE 754-2019 maximum: NaN propagates, -0 < +0. bool: or. Complex: by the real part, then by the imaginary "
        "one. Ties share the cotangent equally.",
)
minimum = scalar_op(
    "minimum", "x y", infer=any_dtype("minimum"), reference=_minimum, emit=lambda b, x, y: b.minimum(x, y),
    derivative=lambda g, x, y: _of_winner(g, x, y, "less"), commutative=True,
    identity=lambda dtype: _greatest(dtype),
    doc="IEEE 754-2019 minimum: NaN propagates, -0 < +0. bool: and. Complex: by the real part, then by the imaginary "
        "one. Ties share the cotangent equally.",
)
square = scalar_op(
    "square", "x", infer=numbers("square"), reference=lambda x: np.multiply(x, x),
    emit=lambda b, x: b.multiply(x, x), derivative=lambda g, x: (g * (x + x),), doc="x * x. Integers wrap.",
)
fma = scalar_op(
    "fma", "x y z", infer=floats("fma"), reference=lambda x, y, z: fused(*np.broadcast_arrays(x, y, z)),
    emit=lambda b, x, y, z: b.function("fma", x, y, z), derivative=lambda g, x, y, z: (g * y, g * x, g),
    takes_narrow=True,
    doc="x * y + z, rounded once on every target. NaN for 0 times an infinity and for opposite infinities.",
)


def _least(dtype: DType) -> Number:
    if dtype.is_complex:
        return complex(-math.inf, -math.inf)
    return -math.inf if dtype.is_float else integer_range(dtype)[0]


def _greatest(dtype: DType) -> Number:
    if dtype.is_complex:
        return complex(math.inf, math.inf)
    return math.inf if dtype.is_float else integer_range(dtype)[1]


def _of_absolute(g: ScalarExpr, x: ScalarExpr) -> ScalarExpr:
    """Complex numbers: in the direction of x, conjugated as cotangents are."""
    if not x.dtype.is_complex:
        return g * apply("sign", x)
    return apply("complex", g, literal(0, g.dtype)) * apply("conj", apply("sign", x))


def _of_sign(g: ScalarExpr, x: ScalarExpr) -> ScalarExpr | None:
    """Complex numbers: what is across x, by the length of x; nothing at 0."""
    if not x.dtype.is_complex:
        return None
    sign, size = apply("sign", x), apply("abs", x)
    zero = literal(0, size.dtype)
    across = apply("imag", g * sign) / apply("where", apply("equal", size, zero), literal(1, size.dtype), size)
    return apply("complex", zero, across) * apply("conj", sign)


def _of_winner(g: ScalarExpr, x: ScalarExpr, y: ScalarExpr, direction: str) -> tuple[ScalarExpr, ScalarExpr]:
    """The cotangent goes to the operand that wins, half to each in a tie."""
    zero = literal(0, g.dtype)
    if x.dtype.is_complex:
        result = apply({"greater": "maximum", "less": "minimum"}[direction], x, y)
        same = apply("equal", x, y)
        of_x, of_y = (apply("where", apply("equal", result, operand), g, zero) for operand in (x, y))
        return apply("where", same, g * 0.5, of_x), apply("where", same, g * 0.5, of_y)
    tie = apply("where", apply("equal", x, y), g * 0.5, zero)
    return apply("where", apply(direction, x, y), g, tie), apply("where", apply(direction, y, x), g, tie)


def _emit_sign(b: Any, x: Any) -> Any:
    zero, one = b.constant(0, x.dtype), b.constant(1, x.dtype)
    above = b.compare("greater", x, zero)
    if not x.dtype.is_signed:
        return b.select(above, one, zero)
    below = b.compare("less", x, zero)
    return b.select(above, one, b.select(below, b.constant(-1, x.dtype), x))

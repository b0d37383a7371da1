"""The scalar operations, grouped by theme. Names are the Python array API's where it has one.

References compute f32 transcendental functions in double precision and round once: the definition is the
correctly rounded value but for double rounding. Accuracy promises of compiled code stand in docs/accuracy.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tcp_eqsat.errors import TypeMismatch
from tcp_eqsat.lang.scalar import (
    NOT_DIFFERENTIABLE,
    ScalarExpr,
    ScalarOp,
    apply,
    literal,
    scalar_op,
    scalar_op_named,
)
from tcp_eqsat.lang.types import BOOL, DTYPES, DType, Kind

# Typing rules


def _same(name: str, allowed: Callable[[DType], bool], required: str) -> Callable[..., DType]:
    def infer(*dtypes: DType) -> DType:
        if any(dtype != dtypes[0] for dtype in dtypes):
            found = ", ".join(map(str, dtypes))
            raise TypeMismatch(f"{name} requires operands of one dtype, got {found}")
        if not allowed(dtypes[0]):
            raise TypeMismatch(f"{name} requires {required}, got {dtypes[0]}")
        return dtypes[0]

    return infer


def _numbers(name: str) -> Callable[..., DType]:
    return _same(name, lambda d: d.kind is not Kind.BOOL, "numbers")


def _floats(name: str) -> Callable[..., DType]:
    return _same(name, lambda d: d.is_float, "a floating-point dtype")


def _any(name: str) -> Callable[..., DType]:
    return _same(name, lambda d: True, "any dtype")


def _bits(name: str) -> Callable[..., DType]:
    return _same(name, lambda d: not d.is_float, "integers or bool")


def _integers(name: str) -> Callable[..., DType]:
    return _same(name, lambda d: d.is_integer, "integers")


def _comparison(name: str) -> Callable[..., DType]:
    same = _any(name)

    def infer(*dtypes: DType) -> DType:
        same(*dtypes)
        return BOOL

    return infer


def _predicate(name: str) -> Callable[..., DType]:
    same = _floats(name)

    def infer(*dtypes: DType) -> DType:
        same(*dtypes)
        return BOOL

    return infer


# References


def _in_double(function: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """f32 operands are computed in double precision and rounded once."""

    def reference(*operands: np.ndarray) -> np.ndarray:
        dtype = np.result_type(*operands)
        return np.asarray(function(*(np.asarray(x, np.float64) for x in operands))).astype(dtype)

    return reference


def _elementwise(function: Callable[[float], float]) -> Callable[[np.ndarray], np.ndarray]:
    vectorised = np.frompyfunc(function, 1, 1)
    return lambda x: np.asarray(vectorised(x), np.float64)


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


def _shift_left(x: Any, y: Any) -> np.ndarray:
    x, y = np.broadcast_arrays(x, y)
    width = x.dtype.itemsize * 8
    amount = y.astype(np.uint64) if y.dtype.kind == "u" else y.astype(np.int64).astype(np.uint64)
    outside = amount >= width
    shifted = np.left_shift(x, np.where(outside, 0, amount).astype(x.dtype))
    return np.where(outside, np.zeros_like(x), shifted)


def _shift_right(x: Any, y: Any) -> np.ndarray:
    x, y = np.broadcast_arrays(x, y)
    width = x.dtype.itemsize * 8
    amount = y.astype(np.uint64) if y.dtype.kind == "u" else y.astype(np.int64).astype(np.uint64)
    outside = amount >= width
    shifted = np.right_shift(x, np.where(outside, width - 1, amount).astype(x.dtype))
    if x.dtype.kind == "u":
        return np.where(outside, np.zeros_like(x), shifted)
    return shifted


def _logistic(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x)), by the form that does not overflow on either side."""
    tail = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + tail), tail / (1 + tail)) + np.where(np.isnan(x), x, 0)


def convert_array(array: Any, dtype: DType) -> np.ndarray:
    """Value conversion: float to integer truncates, saturates, NaN becomes 0; integer to integer wraps."""
    array = np.asarray(array)
    if dtype.kind is Kind.BOOL:
        return array != 0
    if array.dtype.kind == "f" and dtype.is_integer:
        info = np.iinfo(dtype.numpy)
        whole = np.trunc(np.where(np.isnan(array), 0, array).astype(np.float64))
        inside = (whole >= float(info.min)) & (whole < float(info.max) + (dtype.bits <= 32))
        result = np.where(inside, whole, 0).astype(dtype.numpy)
        return np.where(inside, result, np.where(whole < 0, *np.array([info.min, info.max], dtype.numpy)))
    return array.astype(dtype.numpy)


# Arithmetic

add = scalar_op(
    "add", "x y", infer=_numbers("add"), reference=np.add, emit=lambda b, x, y: b.add(x, y),
    derivative=lambda g, x, y: (g, g), commutative=True,
    identity=lambda dtype: 0,
    doc="Sum. Integers wrap. A reduction starts at +0, so that a sum of nothing but -0 is +0.",
)
subtract = scalar_op(
    "subtract", "x y", infer=_numbers("subtract"), reference=np.subtract,
    emit=lambda b, x, y: b.subtract(x, y), derivative=lambda g, x, y: (g, -g),
    doc="Difference. Integers wrap.",
)
multiply = scalar_op(
    "multiply", "x y", infer=_numbers("multiply"), reference=np.multiply,
    emit=lambda b, x, y: b.multiply(x, y), derivative=lambda g, x, y: (g * y, g * x),
    commutative=True, identity=lambda dtype: 1, doc="Product. Integers wrap.",
)
divide = scalar_op(
    "divide", "x y", infer=_numbers("divide"), reference=_divide,
    emit=lambda b, x, y: b.divide(x, y), derivative=lambda g, x, y: (g / y, -(g * x) / (y * y)),
    doc="Quotient. Floats: IEEE 754. Integers truncate towards zero; x / 0 has all bits set; "
        "the least value / -1 is the least value.",
)
fmod = scalar_op(
    "fmod", "x y", infer=_numbers("fmod"), reference=_fmod, emit=lambda b, x, y: b.remainder(x, y),
    derivative=lambda g, x, y: (g, -(g * apply("trunc", x / y))),
    doc="Remainder with the dividend's sign, exact. Integers: x rem 0 is x. Floats: fmod(x, 0) is NaN.",
)
negative = scalar_op(
    "negative", "x", infer=_numbers("negative"), reference=np.negative,
    emit=lambda b, x: b.negate(x), derivative=lambda g, x: (-g,),
    doc="Negation. Floats: flips the sign bit. Integers wrap.",
)
absolute = scalar_op(
    "abs", "x", infer=_numbers("abs"), reference=np.absolute,
    emit=lambda b, x: b.absolute(x), derivative=lambda g, x: (g * apply("sign", x),),
    doc="Absolute value. The least signed integer is its own absolute value.",
)
sign = scalar_op(
    "sign", "x", infer=_numbers("sign"),
    reference=lambda x: np.where(x == 0, x, np.sign(x)) if np.asarray(x).dtype.kind == "f" else np.sign(x),
    emit=lambda b, x: _emit_sign(b, x), derivative=NOT_DIFFERENTIABLE,
    doc="-1, 0 or 1 by sign; zeros keep their sign, NaN stays NaN.",
)
maximum = scalar_op(
    "maximum", "x y", infer=_any("maximum"), reference=_maximum, emit=lambda b, x, y: b.maximum(x, y),
    derivative=lambda g, x, y: _of_winner(g, x, y, "greater"), commutative=True,
    identity=lambda dtype: _least(dtype),
    doc="IEEE 754-2019 maximum: NaN propagates, -0 < +0. bool: or. Ties share the cotangent equally.",
)
minimum = scalar_op(
    "minimum", "x y", infer=_any("minimum"), reference=_minimum, emit=lambda b, x, y: b.minimum(x, y),
    derivative=lambda g, x, y: _of_winner(g, x, y, "less"), commutative=True,
    identity=lambda dtype: _greatest(dtype),
    doc="IEEE 754-2019 minimum: NaN propagates, -0 < +0. bool: and. Ties share the cotangent equally.",
)
square = scalar_op(
    "square", "x", infer=_numbers("square"), reference=lambda x: np.multiply(x, x),
    emit=lambda b, x: b.multiply(x, x), derivative=lambda g, x: (g * (x + x),), doc="x * x.",
)
pow_ = scalar_op(
    "pow", "x y", infer=_floats("pow"), reference=_in_double(np.float_power),  # np.power takes sqrt for 0.5
    emit=lambda b, x, y: b.function("pow", x, y),
    derivative=lambda g, x, y: _derivative_of_pow(g, x, y),
    doc="x to the power y, with the special cases of C99's pow.",
)


def _least(dtype: DType) -> float | int | bool:
    if dtype.is_float:
        return -math.inf
    return False if dtype.kind is Kind.BOOL else int(np.iinfo(dtype.numpy).min)


def _greatest(dtype: DType) -> float | int | bool:
    if dtype.is_float:
        return math.inf
    return True if dtype.kind is Kind.BOOL else int(np.iinfo(dtype.numpy).max)


def _of_winner(g: ScalarExpr, x: ScalarExpr, y: ScalarExpr, direction: str) -> tuple[ScalarExpr, ScalarExpr]:
    """The cotangent goes to the operand that wins, half to each in a tie."""
    zero = literal(0, g.dtype)
    tie = apply("where", apply("equal", x, y), g * 0.5, zero)
    return apply("where", apply(direction, x, y), g, tie), apply("where", apply(direction, y, x), g, tie)


def _derivative_of_pow(g: ScalarExpr, x: ScalarExpr, y: ScalarExpr) -> tuple[ScalarExpr, ScalarExpr]:
    """y * x**(y - 1), which is 0 where y is 0; x**y * log(x), with log(1) at 0, where x**y is flat in y > 0."""
    one = literal(1, x.dtype)
    exponent = apply("where", apply("equal", y, literal(0, y.dtype)), one, y - 1)
    base = apply("where", apply("equal", x, literal(0, x.dtype)), one, x)
    return g * y * apply("pow", x, exponent), g * apply("pow", x, y) * apply("log", base)


def _emit_sign(b: Any, x: Any) -> Any:
    zero, one = b.constant(0, x.dtype), b.constant(1, x.dtype)
    above = b.compare("greater", x, zero)
    if not x.dtype.is_signed:
        return b.select(above, one, zero)
    below = b.compare("less", x, zero)
    return b.select(above, one, b.select(below, b.constant(-1, x.dtype), x))


# Exponential, trigonometric and related functions (floats)


def _function(name: str, reference: Callable[..., Any], derivative: Any, doc: str) -> ScalarOp:
    return scalar_op(
        name, "x", infer=_floats(name), reference=_in_double(reference),
        emit=lambda b, x: b.function(name, x), derivative=derivative, doc=doc,
    )


exp = _function("exp", np.exp, lambda g, x: (g * apply("exp", x),), "e to the power x.")
exp2 = _function("exp2", np.exp2, lambda g, x: (g * apply("exp2", x) * math.log(2),), "2 to the power x.")
expm1 = _function("expm1", np.expm1, lambda g, x: (g * apply("exp", x),), "exp(x) - 1, accurate near 0.")
log = _function("log", np.log, lambda g, x: (g / x,), "Natural logarithm; NaN below 0, -inf at 0.")
log2 = _function("log2", np.log2, lambda g, x: (g / (x * math.log(2)),), "Logarithm to base 2.")
log1p = _function("log1p", np.log1p, lambda g, x: (g / (x + 1),), "log(1 + x), accurate near 0.")
tanh = _function(
    "tanh", np.tanh, lambda g, x: (g * (1 - apply("square", apply("tanh", x))),), "Hyperbolic tangent; odd.")
logistic = _function(
    "logistic", _logistic,
    lambda g, x: (g * apply("logistic", x) * (1 - apply("logistic", x)),), "1 / (1 + exp(-x)).")
erf = _function(
    "erf", _elementwise(math.erf),
    lambda g, x: (g * apply("exp", -(x * x)) * (2 / math.sqrt(math.pi)),), "Error function; odd.")
sin = _function("sin", np.sin, lambda g, x: (g * apply("cos", x),), "Sine of x radians; odd; NaN at infinities.")
cos = _function("cos", np.cos, lambda g, x: (-(g * apply("sin", x)),), "Cosine of x radians; NaN at infinities.")

sqrt = scalar_op(
    "sqrt", "x", infer=_floats("sqrt"), reference=np.sqrt, emit=lambda b, x: b.sqrt(x),
    derivative=lambda g, x: (g / (apply("sqrt", x) * 2),), doc="Square root, correctly rounded; sqrt(-0) is -0.",
)
rsqrt = scalar_op(
    "rsqrt", "x", infer=_floats("rsqrt"), reference=_in_double(lambda x: 1 / np.sqrt(x)),
    emit=lambda b, x: b.function("rsqrt", x), derivative=lambda g, x: (g * apply("rsqrt", x) / x * -0.5,),
    doc="1 / sqrt(x).",
)

# Rounding

for _name, _reference, _emit, _doc in (
    ("floor", np.floor, lambda b, x: b.floor(x), "The greatest integer that is not above x."),
    ("ceil", np.ceil, lambda b, x: b.ceil(x), "The least integer that is not below x."),
    ("trunc", np.trunc, lambda b, x: b.trunc(x), "x without its fraction."),
    ("round", np.round, lambda b, x: b.round_even(x), "The nearest integer, ties to even."),
):
    scalar_op(_name, "x", infer=_floats(_name), reference=_reference, emit=_emit,
              derivative=NOT_DIFFERENTIABLE, doc=_doc)

# Comparison and choice

COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")


def _define_comparison(name: str) -> None:
    sentence = name.replace("_", " ")
    scalar_op(
        name, "x y", infer=_comparison(name), reference=getattr(np, name),
        emit=lambda b, x, y: b.compare(name, x, y), derivative=NOT_DIFFERENTIABLE,
        commutative=name in ("equal", "not_equal"),
        doc=f"True where x is {sentence} y. With NaN only not_equal is true; -0 equals +0.",
    )


for _name in COMPARISONS:
    _define_comparison(_name)


def _infer_where(condition: DType, x: DType, y: DType) -> DType:
    if condition is not BOOL and condition != BOOL:
        raise TypeMismatch(f"where requires a condition of dtype bool, got {condition}")
    if x != y:
        raise TypeMismatch(f"where requires branches of one dtype, got {x} and {y}")
    return x


where = scalar_op(
    "where", "condition x y", infer=_infer_where, reference=np.where,
    emit=lambda b, c, x, y: b.select(c, x, y),
    derivative=lambda g, c, x, y: (
        None, apply("where", c, g, literal(0, g.dtype)), apply("where", c, literal(0, g.dtype), g)),
    doc="x where the condition holds, else y.",
)
isfinite = scalar_op(
    "isfinite", "x", infer=_predicate("isfinite"), reference=np.isfinite,
    emit=lambda b, x: b.compare("less", b.absolute(x), b.constant(math.inf, x.dtype)),
    derivative=NOT_DIFFERENTIABLE, doc="True where x is neither infinite nor NaN.",
)
isnan = scalar_op(
    "isnan", "x", infer=_predicate("isnan"), reference=np.isnan,
    emit=lambda b, x: b.compare("not_equal", x, x), derivative=NOT_DIFFERENTIABLE, doc="True where x is NaN.",
)

# Bits

bitwise_and = scalar_op(
    "bitwise_and", "x y", infer=_bits("bitwise_and"), reference=np.bitwise_and,
    emit=lambda b, x, y: b.bitwise_and(x, y), derivative=NOT_DIFFERENTIABLE, commutative=True,
    identity=lambda dtype: True if dtype.kind is Kind.BOOL else (-1 if dtype.is_signed else (1 << dtype.bits) - 1),
    doc="And of all bits; of bool: and.",
)
bitwise_or = scalar_op(
    "bitwise_or", "x y", infer=_bits("bitwise_or"), reference=np.bitwise_or,
    emit=lambda b, x, y: b.bitwise_or(x, y), derivative=NOT_DIFFERENTIABLE, commutative=True,
    identity=lambda dtype: 0, doc="Or of all bits; of bool: or.",
)
bitwise_xor = scalar_op(
    "bitwise_xor", "x y", infer=_bits("bitwise_xor"), reference=np.bitwise_xor,
    emit=lambda b, x, y: b.bitwise_xor(x, y), derivative=NOT_DIFFERENTIABLE, commutative=True,
    identity=lambda dtype: 0, doc="Exclusive or of all bits; of bool: not equal.",
)
bitwise_invert = scalar_op(
    "bitwise_invert", "x", infer=_bits("bitwise_invert"), reference=np.invert,
    emit=lambda b, x: b.bitwise_not(x), derivative=NOT_DIFFERENTIABLE, doc="All bits flipped; of bool: not.",
)
bitwise_left_shift = scalar_op(
    "bitwise_left_shift", "x y", infer=_integers("bitwise_left_shift"), reference=_shift_left,
    emit=lambda b, x, y: b.shift_left(x, y), derivative=NOT_DIFFERENTIABLE,
    doc="x shifted left by y bits, y read as unsigned; 0 from the width of x on.",
)
bitwise_right_shift = scalar_op(
    "bitwise_right_shift", "x y", infer=_integers("bitwise_right_shift"), reference=_shift_right,
    emit=lambda b, x, y: b.shift_right(x, y), derivative=NOT_DIFFERENTIABLE,
    doc="x shifted right by y bits, y read as unsigned; signed x keeps its sign, and from the width on gives "
        "only sign bits.",
)

# Conversion


def _define_conversion(target: DType) -> None:
    def derivative(g: ScalarExpr, x: ScalarExpr) -> tuple[ScalarExpr | None, ...]:
        return (apply(f"astype_{x.dtype}", g),) if x.dtype.is_float and target.is_float else (None,)

    scalar_op(
        f"astype_{target}", "x", infer=lambda dtype: target,
        reference=lambda x: convert_array(x, target), emit=lambda b, x: b.convert(x, target),
        derivative=derivative,
        doc=f"The value as {target}. Float to integer truncates, saturates, and turns NaN into 0; integer to "
            "integer wraps; to bool is x != 0; to a narrower float rounds to nearest even.",
    )


for _dtype in DTYPES.values():
    _define_conversion(_dtype)


def conversion(dtype: DType) -> ScalarOp:
    """The operation that converts to `dtype`."""
    return scalar_op_named(f"astype_{dtype}")

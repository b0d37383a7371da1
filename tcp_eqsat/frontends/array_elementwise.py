"""The elementwise functions of `tcp.numpy`: the Python array API's, and the scalar operations that it lacks.

Each scalar operation is a function of its name; what is a composition of several stands below them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tcp_eqsat.errors import TypeMismatch
from tcp_eqsat.frontends.traced import Operand, Traced, as_dtype, elementwise, lift, lift_together, logical
from tcp_eqsat.frontends.traced import floor_divide as floor_divide
from tcp_eqsat.frontends.traced import remainder as remainder
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.scalar import scalar_op_named

__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "astype",
    "atan",
    "atan2",
    "atanh",
    "bessel_i0e",
    "bessel_i1e",
    "bitcast",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "cbrt",
    "ceil",
    "clip",
    "complex",
    "conj",
    "copysign",
    "cos",
    "cosh",
    "count_leading_zeros",
    "digamma",
    "divide",
    "equal",
    "erf",
    "erf_inv",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "floor_divide",
    "fma",
    "fmod",
    "greater",
    "greater_equal",
    "hypot",
    "igamma",
    "igamma_grad_a",
    "igammac",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "lgamma",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logistic",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "nextafter",
    "not_equal",
    "polygamma",
    "popcount",
    "positive",
    "pow",
    "real",
    "reciprocal",
    "reduce_precision",
    "remainder",
    "round",
    "round_away",
    "rsqrt",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
    "where",
    "zeta",
]


def _elementwise_function(name: str, of_integers: Callable[[Node], Node] | None = None) -> Any:
    """The function of a scalar operation; `of_integers` is what an operation on floats is on integers."""
    op = scalar_op_named(name)

    def function(*operands: Operand) -> Traced:
        if len(operands) != op.arity:
            raise TypeMismatch(f"{name} requires {op.arity} operands, got {len(operands)}")
        if of_integers is not None and lift(operands[0]).dtype.is_integer:
            return Traced(of_integers(lift(operands[0])))
        return elementwise(name, *operands)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{op.doc} ({', '.join(op.operands)})"
    return function


def _same(x: Node) -> Node:
    return x


def _everywhere(value: bool) -> Callable[[Node], Node]:
    return lambda x: builders.splat(value, as_dtype("bool"), x.shape)


add = _elementwise_function("add")
subtract = _elementwise_function("subtract")
multiply = _elementwise_function("multiply")
divide = _elementwise_function("divide")
fmod = _elementwise_function("fmod")
pow = _elementwise_function("pow")
maximum = _elementwise_function("maximum")
minimum = _elementwise_function("minimum")
negative = _elementwise_function("negative")
abs = _elementwise_function("abs")
sign = _elementwise_function("sign")
square = _elementwise_function("square")
sqrt = _elementwise_function("sqrt")
rsqrt = _elementwise_function("rsqrt")
exp = _elementwise_function("exp")
exp2 = _elementwise_function("exp2")
expm1 = _elementwise_function("expm1")
log = _elementwise_function("log")
log2 = _elementwise_function("log2")
log1p = _elementwise_function("log1p")
tanh = _elementwise_function("tanh")
logistic = _elementwise_function("logistic")
erf = _elementwise_function("erf")
sin = _elementwise_function("sin")
cos = _elementwise_function("cos")
floor = _elementwise_function("floor", _same)
ceil = _elementwise_function("ceil", _same)
trunc = _elementwise_function("trunc", _same)
round = _elementwise_function("round", _same)
equal = _elementwise_function("equal")
not_equal = _elementwise_function("not_equal")
less = _elementwise_function("less")
less_equal = _elementwise_function("less_equal")
greater = _elementwise_function("greater")
greater_equal = _elementwise_function("greater_equal")
where = _elementwise_function("where")
isfinite = _elementwise_function("isfinite", _everywhere(True))
isnan = _elementwise_function("isnan", _everywhere(False))
bitwise_and = _elementwise_function("bitwise_and")
bitwise_or = _elementwise_function("bitwise_or")
bitwise_xor = _elementwise_function("bitwise_xor")
bitwise_invert = _elementwise_function("bitwise_invert")
bitwise_left_shift = _elementwise_function("bitwise_left_shift")
bitwise_right_shift = _elementwise_function("bitwise_right_shift")
log10 = _elementwise_function("log10")
cbrt = _elementwise_function("cbrt")
hypot = _elementwise_function("hypot")
sinh = _elementwise_function("sinh")
cosh = _elementwise_function("cosh")
asinh = _elementwise_function("asinh")
acosh = _elementwise_function("acosh")
atanh = _elementwise_function("atanh")
tan = _elementwise_function("tan")
asin = _elementwise_function("asin")
acos = _elementwise_function("acos")
atan = _elementwise_function("atan")
atan2 = _elementwise_function("atan2")
erfc = _elementwise_function("erfc")
erf_inv = _elementwise_function("erf_inv")
lgamma = _elementwise_function("lgamma")
digamma = _elementwise_function("digamma")
zeta = _elementwise_function("zeta")
polygamma = _elementwise_function("polygamma")
bessel_i0e = _elementwise_function("bessel_i0e")
bessel_i1e = _elementwise_function("bessel_i1e")
igamma = _elementwise_function("igamma")
igammac = _elementwise_function("igammac")
igamma_grad_a = _elementwise_function("igamma_grad_a")
fma = _elementwise_function("fma")
copysign = _elementwise_function("copysign")
signbit = _elementwise_function("signbit")
nextafter = _elementwise_function("nextafter")
isinf = _elementwise_function("isinf", _everywhere(False))
round_away = _elementwise_function("round_away")
popcount = _elementwise_function("popcount")
count_leading_zeros = _elementwise_function("count_leading_zeros")
complex = _elementwise_function("complex")
real = _elementwise_function("real")
imag = _elementwise_function("imag")
conj = _elementwise_function("conj")


# Compositions


def logical_and(x: Operand, y: Operand) -> Traced:
    """And of operands of dtype bool."""
    return logical("logical_and", x, y)


def logical_or(x: Operand, y: Operand) -> Traced:
    """Or of operands of dtype bool."""
    return logical("logical_or", x, y)


def logical_xor(x: Operand, y: Operand) -> Traced:
    """Exclusive or of operands of dtype bool."""
    return logical("logical_xor", x, y)


def logical_not(x: Operand) -> Traced:
    """Not, of an operand of dtype bool."""
    return logical("logical_not", x)


def clip(x: Operand, lower: Operand, upper: Operand) -> Traced:
    """minimum(maximum(x, lower), upper)."""
    return minimum(maximum(x, lower), upper)


def astype(x: Operand, dtype: Any) -> Traced:
    """Value conversion; float to integer truncates and saturates."""
    return Traced(lift(x)).astype(dtype)


def positive(x: Operand) -> Traced:
    """x itself, of a dtype of numbers."""
    node = lift(x)
    scalar_op_named("negative").result_dtype(node.dtype)
    return Traced(node)


def reciprocal(x: Operand) -> Traced:
    """1 / x, of a floating-point dtype."""
    node = lift(x)
    if not node.dtype.is_float:
        raise TypeMismatch(f"reciprocal requires a floating-point dtype, got {node.type}: convert with astype")
    return elementwise("divide", 1, Traced(node))


def logaddexp(x: Operand, y: Operand) -> Traced:
    """log(exp(x) + exp(y)) without overflow in between: the greater, and log1p(exp(-|x - y|))."""
    left, right = map(Traced, lift_together([x, y]))
    distance = where(equal(left, right), 0.0, abs(left - right))  # equal infinities have none
    return maximum(left, right) + log1p(exp(-distance))


def bitcast(x: Operand, dtype: Any) -> Traced:
    """The bits of x read as another dtype of the same width."""
    return elementwise(f"bitcast_{as_dtype(dtype)}", x)


def reduce_precision(x: Operand, exponent_bits: int, mantissa_bits: int) -> Traced:
    """x rounded to fewer bits of exponent (1 to 11) and of fraction (0 to 52); see the scalar operation.

    Raises UnknownName for other numbers of bits.
    """
    return elementwise(f"reduce_precision_e{exponent_bits}m{mantissa_bits}", x)

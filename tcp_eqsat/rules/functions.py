"""The scalar operations as functions over patterns: `from tcp_eqsat.rules.functions import exp, maximum, where`.

One for each name of the scalar table, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

from tcp_eqsat.lang.scalar import ScalarOp, scalar_op_named
from tcp_eqsat.rules.pattern import Apply, Operand, apply


@dataclass(frozen=True, slots=True)
class PatternFunction:
    """A scalar operation to be applied to patterns and numbers."""

    operation: ScalarOp

    def __call__(self, *operands: Operand) -> Apply:
        return apply(self.operation, *operands)


def _function(name: str) -> PatternFunction:
    return PatternFunction(scalar_op_named(name))


add = _function("add")
subtract = _function("subtract")
multiply = _function("multiply")
divide = _function("divide")
fmod = _function("fmod")
negative = _function("negative")
abs = _function("abs")
sign = _function("sign")
maximum = _function("maximum")
minimum = _function("minimum")
square = _function("square")
pow = _function("pow")
exp = _function("exp")
exp2 = _function("exp2")
expm1 = _function("expm1")
log = _function("log")
log2 = _function("log2")
log1p = _function("log1p")
tanh = _function("tanh")
logistic = _function("logistic")
erf = _function("erf")
sin = _function("sin")
cos = _function("cos")
sqrt = _function("sqrt")
rsqrt = _function("rsqrt")
floor = _function("floor")
ceil = _function("ceil")
trunc = _function("trunc")
round = _function("round")
equal = _function("equal")
not_equal = _function("not_equal")
less = _function("less")
less_equal = _function("less_equal")
greater = _function("greater")
greater_equal = _function("greater_equal")
where = _function("where")
isfinite = _function("isfinite")
isnan = _function("isnan")
bitwise_and = _function("bitwise_and")
bitwise_or = _function("bitwise_or")
bitwise_xor = _function("bitwise_xor")
bitwise_invert = _function("bitwise_invert")
bitwise_left_shift = _function("bitwise_left_shift")
bitwise_right_shift = _function("bitwise_right_shift")
astype_bool = _function("astype_bool")
astype_i8 = _function("astype_i8")
astype_i16 = _function("astype_i16")
astype_i32 = _function("astype_i32")
astype_i64 = _function("astype_i64")
astype_u8 = _function("astype_u8")
astype_u16 = _function("astype_u16")
astype_u32 = _function("astype_u32")
astype_u64 = _function("astype_u64")
astype_f32 = _function("astype_f32")
astype_f64 = _function("astype_f64")

"""The target-neutral builder of scalar expressions that a back end implements.

A scalar operation says how it is computed by calling these methods (`ScalarOp.emit`). The same description
serves one lane or many, a CPU or a GPU: a value stands for as many lanes as the implementation pleases.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from tcp_eqsat.lang.types import DType


class Value(Protocol):
    """A value under construction; only its dtype is known."""

    @property
    def dtype(self) -> DType: ...


V = TypeVar("V", bound=Value)


class Builder(Protocol[V]):
    """Operands of a binary method have equal dtypes. Booleans are lanes of dtype bool."""

    def constant(self, value: float | int | bool, dtype: DType) -> V:
        """The same value in every lane. Floats are rounded to `dtype` once."""

    # arithmetic: IEEE for floats (own rounding for each operation), wrapping for integers
    def add(self, x: V, y: V) -> V: ...
    def subtract(self, x: V, y: V) -> V: ...
    def multiply(self, x: V, y: V) -> V: ...

    def divide(self, x: V, y: V) -> V:
        """Floats: IEEE. Integers: truncating; x / 0 is -1 (all bits set), the least value / -1 is itself."""

    def remainder(self, x: V, y: V) -> V:
        """Sign of the dividend (C's fmod and %). Integers: x rem 0 is x, the least value rem -1 is 0."""

    def negate(self, x: V) -> V: ...
    def absolute(self, x: V) -> V: ...

    def fma(self, x: V, y: V, z: V) -> V:
        """x * y + z with a single rounding where the target has it, else with two (floats only)."""

    def maximum(self, x: V, y: V) -> V:
        """IEEE 754-2019 maximum: NaN propagates, -0 < +0. Integers and bool: the greater."""

    def minimum(self, x: V, y: V) -> V: ...
    def sqrt(self, x: V) -> V: ...
    def floor(self, x: V) -> V: ...
    def ceil(self, x: V) -> V: ...
    def trunc(self, x: V) -> V: ...
    def round_even(self, x: V) -> V: ...
    def copysign(self, magnitude: V, sign: V) -> V: ...

    # comparison and choice
    def compare(self, direction: str, x: V, y: V) -> V:
        """direction: equal, not_equal, less, less_equal, greater, greater_equal. Ordered, but not_equal is
        true for NaN. Gives bool."""

    def select(self, condition: V, x: V, y: V) -> V: ...

    # bits (integers and bool)
    def bitwise_and(self, x: V, y: V) -> V: ...
    def bitwise_or(self, x: V, y: V) -> V: ...
    def bitwise_xor(self, x: V, y: V) -> V: ...
    def bitwise_not(self, x: V) -> V: ...

    def shift_left(self, x: V, y: V) -> V:
        """Shift amounts (unsigned) of at least the width give 0, or the sign for shift_right of a signed x."""

    def shift_right(self, x: V, y: V) -> V: ...

    def count_ones(self, x: V) -> V: ...
    def count_leading_zeros(self, x: V) -> V: ...

    def bitcast(self, x: V, dtype: DType) -> V:
        """The same bits read as another dtype of equal width."""

    def convert(self, x: V, dtype: DType) -> V:
        """Value conversion. Float to integer truncates, saturates, and turns NaN into 0; integer to integer
        wraps; anything to bool is `x != 0`; to a narrower float rounds to nearest even."""

    def ldexp(self, x: V, exponent: V) -> V:
        """x * 2**exponent, rounded once; exponent is i32 (f32) or i64 (f64)."""

    def function(self, name: str, *operands: V) -> V:
        """A function of the vector math library (exp, log, tanh, ...), see ScalarOp docs for accuracy."""

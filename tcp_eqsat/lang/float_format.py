"""The bits of the floats of 16 bits and less: what a conversion by integer arithmetic needs to know, and limits."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np

from tcp_eqsat.lang.types import (
    BF16,
    F4E2M1FN,
    F6E2M3FN,
    F6E3M2FN,
    F8E3M4,
    F8E4M3,
    F8E4M3B11FNUZ,
    F8E4M3FN,
    F8E4M3FNUZ,
    F8E5M2,
    F8E5M2FNUZ,
    F8E8M0FNU,
    F16,
    DType,
)


class NonFinite(enum.Enum):
    """Which bit patterns are no finite number.

    IEEE   the largest exponent is infinity and NaN
    ONES   all bits but the sign are NaN, there is no infinity
    ZERO   what would be -0 is NaN, there is no infinity and no -0
    NONE   every pattern is a number: what is too large becomes the largest one, and NaN -0
    """

    IEEE = "ieee"
    ONES = "ones"
    ZERO = "zero"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """A sign bit, exponent bits with a bias, and mantissa bits, with subnormals."""

    exponent_bits: int
    mantissa_bits: int
    bias: int
    non_finite: NonFinite = NonFinite.IEEE

    @property
    def sign(self) -> int:
        """The sign bit."""
        return 1 << (self.exponent_bits + self.mantissa_bits)

    @property
    def largest(self) -> int:
        """The bits of the largest finite number."""
        if self.non_finite is NonFinite.IEEE:
            return self.infinity - 1
        return self.sign - (2 if self.non_finite is NonFinite.ONES else 1)

    @property
    def infinity(self) -> int:
        """The bits of infinity, where the format has it."""
        return self.sign - (1 << self.mantissa_bits)

    @property
    def nan(self) -> int:
        """The bits of a NaN (a quiet one), or of what NaN becomes where there is none."""
        if self.non_finite is NonFinite.IEEE:
            return self.infinity | 1 << (self.mantissa_bits - 1)
        return self.sign - 1 if self.non_finite is NonFinite.ONES else self.sign

    @property
    def overflow(self) -> int:
        """The bits of what is too large, without its sign."""
        if self.non_finite is NonFinite.NONE:
            return self.largest
        return self.infinity if self.non_finite is NonFinite.IEEE else self.nan

    @property
    def least_normal(self) -> float:
        """The least number that is not subnormal."""
        return 2.0 ** (1 - self.bias)

    @property
    def step(self) -> float:
        """The least positive number."""
        return 2.0 ** (1 - self.bias - self.mantissa_bits)


FORMATS: dict[DType, FloatFormat] = {
    F16: FloatFormat(5, 10, 15),
    BF16: FloatFormat(8, 7, 127),
    F8E3M4: FloatFormat(3, 4, 3),
    F8E4M3: FloatFormat(4, 3, 7),
    F8E4M3FN: FloatFormat(4, 3, 7, NonFinite.ONES),
    F8E4M3FNUZ: FloatFormat(4, 3, 8, NonFinite.ZERO),
    F8E4M3B11FNUZ: FloatFormat(4, 3, 11, NonFinite.ZERO),
    F8E5M2: FloatFormat(5, 2, 15),
    F8E5M2FNUZ: FloatFormat(5, 2, 16, NonFinite.ZERO),
    F4E2M1FN: FloatFormat(2, 1, 1, NonFinite.NONE),
    F6E2M3FN: FloatFormat(2, 3, 1, NonFinite.NONE),
    F6E3M2FN: FloatFormat(3, 2, 3, NonFinite.NONE),
}
"""All but f8e8m0fnu, which has neither sign nor zero nor mantissa: bits b stand for 2**(b - 127), 255 for NaN."""


@dataclass(frozen=True, slots=True)
class FloatLimits:
    """The positive numbers of a float dtype: the least, the least with all its digits, the largest; the distance from
    1 to the next; whether there are infinities."""

    least: float
    least_normal: float
    largest: float
    epsilon: float
    has_infinity: bool


def float_limits(dtype: DType) -> FloatLimits:
    """The limits of any float dtype."""
    if dtype == F8E8M0FNU:
        return FloatLimits(2.0**-127, 2.0**-127, 2.0**127, 1.0, False)
    if dtype not in FORMATS:
        info = np.finfo(dtype.numpy)
        return FloatLimits(
            float(info.smallest_subnormal), float(info.tiny), float(info.max), float(info.eps), True)
    form = FORMATS[dtype]
    exponent, fraction = divmod(form.largest, 1 << form.mantissa_bits)
    largest = (1 + fraction * 2.0**-form.mantissa_bits) * 2.0 ** (exponent - form.bias)
    return FloatLimits(
        form.step, form.least_normal, largest, 2.0**-form.mantissa_bits, form.non_finite is NonFinite.IEEE)

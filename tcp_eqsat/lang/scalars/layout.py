"""How floating-point numbers lie in their bits: a sign, `exponent_bits`, `mantissa_bits`."""

from __future__ import annotations

from tcp_eqsat.lang.types import BF16, DType, dtype_named


def mantissa_bits(dtype: DType) -> int:
    """The bits of the fraction that are stored, of a float dtype with arithmetic."""
    return 7 if dtype == BF16 else {16: 10, 32: 23, 64: 52}[dtype.bits]


def exponent_bits(dtype: DType) -> int:
    return dtype.bits - 1 - mantissa_bits(dtype)


def exponent_bias(dtype: DType) -> int:
    return (1 << (exponent_bits(dtype) - 1)) - 1


def integer_as_wide(dtype: DType, *, signed: bool) -> DType:
    """The integer dtype of the same width."""
    return dtype_named(f"{'i' if signed else 'u'}{dtype.bits}")

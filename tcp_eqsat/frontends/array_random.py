"""Random numbers from counters over traced tensors: `tcp.numpy.random`.

A state is u64[2], a key and a counter (for Philox also u64[3]). Each function gives the next state and the numbers.
"""

from __future__ import annotations

from typing import Any

from tcp_eqsat.errors import TypeMismatch
from tcp_eqsat.frontends.array_elementwise import bitcast, erf_inv
from tcp_eqsat.frontends.traced import Operand, Traced, as_dtype, as_shape, lift
from tcp_eqsat.lang.ops import bit_builders
from tcp_eqsat.lang.types import F32, F64, U32, DType, dtype_named

ALGORITHMS = ("threefry", "philox")


def bits(state: Operand, shape: Any, dtype: Any = U32, algorithm: str = "threefry") -> tuple[Traced, Traced]:
    """Random bits as numbers of an integer or floating-point dtype, as XLA's rng_bit_generator gives them."""
    if algorithm not in ALGORITHMS:
        raise TypeMismatch(f"random bits require algorithm {' or '.join(ALGORITHMS)}, got {algorithm!r}")
    after, found = bit_builders.random_bits(lift(state), as_dtype(dtype), as_shape(shape), philox=algorithm == "philox")
    return Traced(after), Traced(found)


def uniform(state: Operand, shape: Any, dtype: Any = F32, algorithm: str = "threefry") -> tuple[Traced, Traced]:
    """Multiples of 2^-23 (f64: 2^-52) in [0, 1), all equally likely."""
    target = _float(dtype)
    after, random = bits(state, shape, dtype_named(f"u{target.bits}"), algorithm)
    mantissa = 23 if target == F32 else 52
    one = (1 << (target.bits - 2)) - (1 << mantissa)  # the bits of 1.0
    return after, bitcast((random >> (target.bits - mantissa)) | one, target) - 1.0


def normal(state: Operand, shape: Any, dtype: Any = F32, algorithm: str = "threefry") -> tuple[Traced, Traced]:
    """The standard normal distribution, by the inverse of erf over (-1, 1)."""
    target = _float(dtype)
    after, random = uniform(state, shape, target, algorithm)
    half_step = 2.0 ** (-24 if target == F32 else -53)
    return after, erf_inv(2.0 * (random + half_step) - 1.0) * 2.0**0.5


def _float(dtype: Any) -> DType:
    target = as_dtype(dtype)
    if target not in (F32, F64):
        raise TypeMismatch(f"random numbers require dtype f32 or f64, got {target}")
    return target

"""Bits of XLA's dialects: `bitcast_convert`, where a truth value is one bit, and random bits."""

from __future__ import annotations

from collections.abc import Mapping

from tcp_eqsat.errors import ShapeMismatch, VerificationError
from tcp_eqsat.frontends.mlir.hlo_elementwise import apply_scalar, convert
from tcp_eqsat.frontends.mlir.scope import tensor_parts
from tcp_eqsat.frontends.mlir.site import Lowering, Site
from tcp_eqsat.lang.dims import exact_divide
from tcp_eqsat.lang.ops.bit_builders import bitcast, random_bits
from tcp_eqsat.lang.ops.builders import iota, reduce_axes, reshape, splat, view
from tcp_eqsat.lang.ops.quantization import view_as_quantized, view_as_storage
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.quantized import QuantizedDType
from tcp_eqsat.lang.scalar import scalar_op_named
from tcp_eqsat.lang.types import BOOL, U8, DType, Shape


def _bitcast_convert(site: Site) -> Node:
    (x,) = site.tensors(1)
    dtype = site.stated()[0]
    if isinstance(x.dtype, QuantizedDType):
        x = view_as_storage(x)
    if isinstance(dtype, QuantizedDType):
        return view_as_quantized(bitcast(x, dtype.storage), dtype)
    if x.dtype == dtype:
        return x
    if x.dtype == BOOL:
        return _from_truth_values(x, dtype)
    return _as_truth_values(x) if dtype == BOOL else bitcast(x, dtype)


def _from_truth_values(x: Node, dtype: DType) -> Node:
    """Numbers whose bits lie along the last axis, the lowest first."""
    count = exact_divide(x.shape[-1], 8) if x.shape and dtype.bits >= 8 else None
    if count is None or not isinstance(count, int) or 8 * count != dtype.bits:
        raise ShapeMismatch(f"bits as {dtype} require a last axis of {dtype.bits} truth values, got {x.type}")
    outer = x.shape[:-1]
    bits = convert(reshape(x, (*outer, count, 8)), U8)
    placed = apply_scalar("bitwise_left_shift", bits, _places(bits.shape))
    octets = reduce_axes(scalar_op_named("bitwise_or"), placed, (len(outer) + 1,))
    return bitcast(reshape(octets, outer) if count == 1 else octets, dtype)


def _as_truth_values(x: Node) -> Node:
    """The bits of each number along a new last axis, the lowest first."""
    octets = bitcast(x, U8)
    octets = octets if len(octets.shape) > len(x.shape) else reshape(octets, (*x.shape, 1))
    *outer, count = octets.shape
    rank = len(octets.shape)
    spread = view(octets, tuple(range(rank)), (*octets.shape, 8))
    bits = apply_scalar("bitwise_right_shift", spread, _places(spread.shape))
    lowest = apply_scalar("bitwise_and", bits, splat(1, U8, bits.shape))
    return reshape(convert(lowest, BOOL), (*outer, count * 8))


def _places(shape: Shape) -> Node:
    """0, 1, ..., 7 along the last axis."""
    return iota(U8, shape, len(shape) - 1)


def _rng_bit_generator(site: Site) -> tuple[Node, ...]:
    (state,) = site.tensors(1)
    algorithm = site.word("rng_algorithm", "DEFAULT")
    if algorithm not in ("DEFAULT", "PHILOX", "THREE_FRY"):
        raise VerificationError(
            f"{site.name} requires an rng_algorithm of DEFAULT, PHILOX or THREE_FRY, got {algorithm!r}")
    if len(site.op.result_types) != 2:
        raise VerificationError(f"{site.name} requires 2 results, got {len(site.op.result_types)}")
    dtype, stated = tensor_parts(site.op.result_types[1])
    shape = tuple(size for size in stated if size is not None)
    if len(shape) != len(stated):
        raise ShapeMismatch(f"{site.name} requires a result with known sizes, got {site.op.result_types[1]}")
    return random_bits(state, dtype, shape, philox=algorithm != "THREE_FRY")


BITS: Mapping[str, Lowering] = {
    "bitcast_convert": _bitcast_convert,
    "rng_bit_generator": _rng_bit_generator,
}

"""`bitcast_convert`: the bits of elements as elements of another dtype, wider or narrower."""

from __future__ import annotations

from collections.abc import Mapping

from tcp_eqsat.errors import ShapeMismatch, TypeMismatch
from tcp_eqsat.frontends.mlir.hlo_elementwise import apply_scalar, convert
from tcp_eqsat.frontends.mlir.site import Lowering, Site
from tcp_eqsat.lang.dims import exact_divide
from tcp_eqsat.lang.ops.builders import iota, map_scalar, reduce_axes, reshape, splat, view
from tcp_eqsat.lang.ops.complex_views import view_as_complex, view_as_real
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.scalar import scalar_op_named
from tcp_eqsat.lang.types import BOOL, DType, Shape, dtype_named


def bit_width(dtype: DType) -> int:
    """The bits of a value; a truth value is one."""
    return 1 if dtype == BOOL else dtype.bits


def bitcast(x: Node, dtype: DType) -> Node:
    """The bits of x as elements of `dtype`, the lowest first: of narrower ones a new last axis holds the
    parts of each element, of wider ones the last axis of x, which has the parts, goes.

    Raises TypeMismatch where no width divides the other, ShapeMismatch where the last axis has other parts.
    """
    own, new = bit_width(x.dtype), bit_width(dtype)
    if x.dtype == dtype:
        return x
    if max(own, new) % min(own, new):
        raise TypeMismatch(f"bits of {x.dtype} as {dtype} require widths of which one divides the other")
    if own < new and (not x.shape or x.shape[-1] != new // own):
        raise ShapeMismatch(f"bits of {x.dtype} as {dtype} require a last axis of {new // own} elements, got {x.type}")
    parts = view_as_real(x) if x.dtype.is_complex else reshape(x, (*x.shape, 1))
    outer = x.shape[:-1] if own < new else x.shape
    if own < new:
        count = parts.shape[-2] * parts.shape[-1]
        parts = reshape(parts, (*outer, count))
    found = _in_parts(parts, dtype.part if dtype.is_complex else dtype)
    if dtype.is_complex:
        pairs = exact_divide(found.shape[-1], 2)
        assert pairs is not None, found.type
        found = view_as_complex(reshape(found, (*outer, pairs, 2)))
    return found if own > new else reshape(found, outer)


def _in_parts(x: Node, dtype: DType) -> Node:
    """Real elements whose bits lie in a row along the last axis as elements of a real dtype."""
    own, new = bit_width(x.dtype), bit_width(dtype)
    if own == new:
        return _from_unsigned(_unsigned(x), dtype)
    *outer, count = x.shape
    last = len(outer) + 1
    if own > new:
        bits, ratio = _unsigned(x), own // new
        shape = (*outer, count, ratio)
        spread = view(bits, tuple(range(last)), shape)
        shifted = apply_scalar("bitwise_right_shift", spread, _offsets(bits.dtype, shape, new))
        return reshape(_from_unsigned(shifted, dtype), (*outer, count * ratio))
    ratio, wide = new // own, _unsigned_of(new)
    wider = exact_divide(count, ratio)
    assert wider is not None, x.type
    shape = (*outer, wider, ratio)
    bits = reshape(convert(_unsigned(x), wide), shape)
    placed = apply_scalar("bitwise_left_shift", bits, _offsets(wide, shape, own))
    joined = reduce_axes(scalar_op_named("bitwise_or"), placed, (last,))
    return _from_unsigned(joined, dtype)


def _offsets(dtype: DType, shape: Shape, width: int) -> Node:
    """How far each part is shifted: its number along the last axis times `width`."""
    ramp = iota(dtype, shape, len(shape) - 1)
    return apply_scalar("multiply", ramp, splat(width, dtype, ramp.shape))


def _unsigned_of(bits: int) -> DType:
    return dtype_named(f"u{max(bits, 8)}")


def _unsigned(x: Node) -> Node:
    """The bits of real elements as unsigned integers of at least 8 bits."""
    if x.dtype == BOOL or (x.dtype.is_integer and not x.dtype.is_signed):
        return convert(x, _unsigned_of(bit_width(x.dtype)))
    bits = map_scalar(scalar_op_named(f"bitcast_u{x.dtype.bits}"), x)
    return convert(bits, _unsigned_of(x.dtype.bits))


def _from_unsigned(bits: Node, dtype: DType) -> Node:
    """The lowest bits of unsigned integers as a real dtype."""
    if dtype == BOOL:
        lowest = apply_scalar("bitwise_and", bits, splat(1, bits.dtype, bits.shape))
        return apply_scalar("not_equal", lowest, splat(0, bits.dtype, bits.shape))
    exact = convert(bits, dtype_named(f"u{dtype.bits}"))
    return exact if exact.dtype == dtype else map_scalar(scalar_op_named(f"bitcast_{dtype}"), exact)


def _bitcast_convert(site: Site) -> Node:
    (x,) = site.tensors(1)
    return bitcast(x, site.stated()[0])


BITS: Mapping[str, Lowering] = {"bitcast_convert": _bitcast_convert}

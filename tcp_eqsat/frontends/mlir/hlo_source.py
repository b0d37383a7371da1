"""Operations of XLA's dialects that make values: constants, ramps, sizes, random bits."""

from __future__ import annotations

from collections.abc import Mapping

from tcp_eqsat.errors import ParseError, TypeMismatch, VerificationError
from tcp_eqsat.frontends.mlir.literals import decode
from tcp_eqsat.frontends.mlir.scope import Extents, tensor_parts
from tcp_eqsat.frontends.mlir.site import Lowering, Site
from tcp_eqsat.frontends.mlir.tree import Dense, DenseResource, Number
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.ops.builders import broadcast_scalar
from tcp_eqsat.lang.ops.quantization import view_as_quantized
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.quantized import QuantizedDType


def constant_of(site: Site, key: str) -> Node:
    """The dense literal of an attribute as a node."""
    literal = site.attribute(key)
    if not isinstance(literal, Dense | DenseResource):
        raise ParseError(f"{site.name} requires a dense literal", site.where)
    array = decode(literal, site.scope.source, site.scope.context.resources)
    value = builders.constant(array)
    shape = tuple(size for size in literal.type.shape if size is not None)
    return value if value.shape == shape else broadcast_scalar(value, shape)


def _constant(site: Site) -> Node:
    """Of a quantised type the literal has what is stored."""
    found = constant_of(site, "value")
    dtype = site.stated()[0]
    if isinstance(dtype, QuantizedDType) and found.dtype == dtype.storage:
        return view_as_quantized(found, dtype)
    return found


def _iota(site: Site) -> Node:
    site.require_operands(0)
    dtype, _ = site.stated()
    return builders.iota(dtype, site.result_shape(), site.integer("iota_dimension"))


def _dynamic_iota(site: Site) -> Node:
    site.require_operands(1)
    dtype, _ = site.stated()
    return builders.iota(dtype, site.known(0), site.integer("iota_dimension"))


def _get_dimension_size(site: Site) -> Extents:
    (x,) = site.tensors(1)
    axis = site.integer("dimension")
    if not 0 <= axis < len(x.shape):
        raise TypeMismatch(f"{site.name} requires an axis of {x.type}, got {axis}")
    (stated,) = site.op.result_types
    tensor_parts(stated)
    return Extents((x.shape[axis],), (), str(getattr(stated, "element", "i32")))


def _constant_like(site: Site) -> Node:
    """One number in the shape of the operand."""
    (x,) = site.tensors(1)
    if not isinstance(site.attribute("value"), Number):
        raise VerificationError(f"{site.name} requires a number as 'value'")
    return builders.splat(site.number("value"), x.dtype, x.shape)


SOURCE: Mapping[str, Lowering] = {
    "constant": _constant,
    "dynamic_iota": _dynamic_iota,
    "get_dimension_size": _get_dimension_size,
    "iota": _iota,
}

CHLO_SOURCE: Mapping[str, Lowering] = {
    "constant": _constant,
    "constant_like": _constant_like,
}

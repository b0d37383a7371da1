"""Quantised operands: what an operation gives is what it gives on the real numbers they stand for, quantised.

Operations that only move elements take quantised tensors as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tcp_eqsat.errors import TypeMismatch
from tcp_eqsat.frontends.mlir.scope import Content, Value, tensor_parts
from tcp_eqsat.frontends.mlir.site import Lowering, Site
from tcp_eqsat.frontends.mlir.tree import QuantizedType, Reference, SyntaxOp, SyntaxType, TensorText
from tcp_eqsat.lang.ops.quantization import dequantize, quantize
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.quantized import QuantizedDType

MOVING = frozenset({
    "bitcast_convert", "broadcast", "broadcast_in_dim", "call", "case", "composite", "concat",
    "concatenate", "constant", "copy", "custom_call", "custom_op", "dynamic_broadcast_in_dim", "dynamic_gather",
    "dynamic_reshape", "dynamic_slice", "dynamic_update_slice", "gather", "gather_nd", "get_dimension_size", "group",
    "if", "isolated_group", "optimization_barrier", "real_dynamic_slice", "reshape", "reverse", "slice",
    "transpose", "tuple", "get_tuple_element", "uniform_dequantize", "uniform_quantize", "while",
})
"""By short names."""


def is_quantized(stated: SyntaxType) -> bool:
    return isinstance(stated, TensorText) and isinstance(stated.element, QuantizedType)


def has_quantized(op: SyntaxOp) -> bool:
    """Whether an operation computes with quantised operands or results."""
    return (any(map(is_quantized, op.operand_types)) or any(map(is_quantized, op.result_types))) and (
        op.name.rpartition(".")[2] not in MOVING)


def _expressed(types: Sequence[SyntaxType]) -> tuple[SyntaxType, ...]:
    return tuple(
        TensorText(x.shape, x.element.expressed, x.encoding)
        if isinstance(x, TensorText) and isinstance(x.element, QuantizedType) else x for x in types)


def lower_quantized(site: Site, lowering: Lowering) -> tuple[Content, ...]:
    """The operation on real numbers, its results quantised to the types that are stated."""
    inner = site.scope.inner(site.where)
    operands: list[Reference] = []
    for number, reference in enumerate(site.op.operands):
        content = site.content(number)
        if isinstance(content, Node) and isinstance(content.dtype, QuantizedDType):
            reference = Reference(f"%({number})", reference.offset)
            inner.values[reference.name] = Value(dequantize(content), reference, site.scope.sizes.version)
        operands.append(reference)
    op = site.op._replace(
        operands=tuple(operands), operand_types=_expressed(site.op.operand_types),
        result_types=_expressed(site.op.result_types))
    found = lowering(Site(inner, op))
    contents = found if isinstance(found, tuple) else (found,)
    return tuple(
        quantized_as(content, stated) for content, stated in zip(contents, site.op.result_types, strict=False))


def quantized_as(content: Content, stated: SyntaxType) -> Content:
    """A value as its stated type quantises it, itself where that does not."""
    if not is_quantized(stated) or not isinstance(content, Node):
        return content
    from_types = _quantized_dtype(stated)
    return content if content.dtype == from_types else quantize(content, from_types)


def _quantized_dtype(stated: SyntaxType) -> QuantizedDType:
    dtype = tensor_parts(stated)[0]
    if not isinstance(dtype, QuantizedDType):
        raise TypeMismatch(f"a quantised type is required, got {stated}")
    return dtype


def _uniform_quantize(site: Site) -> Content:
    """Real numbers, or those that other quantised ones stand for."""
    (x,) = site.tensors(1)
    (stated,) = site.op.result_types
    return quantized_as(dequantize(x) if isinstance(x.dtype, QuantizedDType) else x, stated)


def _uniform_dequantize(site: Site) -> Node:
    (x,) = site.tensors(1)
    return dequantize(x)


QUANTIZED: Mapping[str, Lowering] = {
    "uniform_dequantize": _uniform_dequantize,
    "uniform_quantize": _uniform_quantize,
}

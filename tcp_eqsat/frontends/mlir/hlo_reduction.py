"""Contractions and reductions of XLA's dialects."""

from __future__ import annotations

from collections.abc import Mapping

from tcp_eqsat.errors import TypeMismatch, VerificationError
from tcp_eqsat.frontends.mlir.hlo_elementwise import scalar_of
from tcp_eqsat.frontends.mlir.scope import tensor_parts
from tcp_eqsat.frontends.mlir.site import Lowering, Site
from tcp_eqsat.frontends.mlir.tree import SyntaxOp
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.ops.builders import broadcast_scalar, map_scalar
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.scalar import ScalarOp
from tcp_eqsat.lang.types import DType


def _dot(site: Site) -> Node:
    """The last axis of the first operand with the first of the second; each has rank 1 or 2."""
    x, y = site.tensors(2)
    if not (1 <= len(x.shape) <= 2 and 1 <= len(y.shape) <= 2):
        raise TypeMismatch(
            f"{site.name} requires operands of rank 1 or 2, got {x.type} and {y.type}"
        )
    return _contract(site, ((len(x.shape) - 1,), (0,)), ((), ()))


def _dot_general(site: Site) -> Node:
    numbers = site.attribute("dot_dimension_numbers")
    if not isinstance(numbers, dict):
        raise VerificationError(f"{site.name} requires dot_dimension_numbers = {{...}}")
    site.tensors(2)

    def axes(key: str) -> tuple[int, ...]:
        return site.integers_of(numbers[key]) if key in numbers else ()

    return _contract(
        site,
        (axes("lhs_contracting_dimensions"), axes("rhs_contracting_dimensions")),
        (axes("lhs_batching_dimensions"), axes("rhs_batching_dimensions")),
    )


AxisPairs = tuple[tuple[int, ...], tuple[int, ...]]


def _contract(site: Site, contracted: AxisPairs, batch: AxisPairs) -> Node:
    x, y = site.tensors(2)
    for left, right in (contracted, batch):
        for a, b in zip(left, right, strict=False):
            if 0 <= a < len(x.shape) and 0 <= b < len(y.shape):
                site.assume_equal(x.shape[a], y.shape[b])
    x, y = site.tensors(2)
    return builders.dot_general(x, y, contracted, batch)


MONOIDS = {
    "add": "add",
    "and": "bitwise_and",
    "max": "maximum",
    "maximum": "maximum",
    "min": "minimum",
    "minimum": "minimum",
    "mul": "multiply",
    "multiply": "multiply",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
}


def _reduce(site: Site) -> Node:
    """One tensor and its start value; the region must be a single associative operation of its
    two arguments."""
    x, start = site.tensors(2)
    operation = scalar_of(_monoid(site, x.dtype), x.dtype)
    result = builders.reduce_axes(operation, x, site.integers("dimensions"))
    if start.shape or start.dtype != x.dtype:
        raise TypeMismatch(
            f"{site.name} requires a start value of type {x.dtype}[], got {start.type}"
        )
    if _is_identity(start, operation):
        return result
    return map_scalar(operation, broadcast_scalar(start, result.shape), result)


def _is_identity(start: Node, operation: ScalarOp) -> bool:
    """Whether starting from this value is what our reduction does anyway."""
    assert operation.identity is not None
    return start is builders.scalar_constant(operation.identity(start.dtype), start.dtype)


def _monoid(site: Site, dtype: DType) -> str:
    body = _single_operation(site, dtype)
    name = body.name.rpartition(".")[2]
    if name not in MONOIDS:
        raise VerificationError(
            f"{site.name} requires a region of one operation of {', '.join(MONOIDS)}, "
            f"got {body.name}",
            site.scope.source.location(body.offset, body.length),
        )
    return MONOIDS[name]


def _single_operation(site: Site, dtype: DType) -> SyntaxOp:
    """The operation of a region of the form (x, y) -> op(x, y) or op(y, x) on scalars of
    `dtype`."""
    regions = site.op.regions
    if len(regions) == 1 and len(regions[0].blocks) == 1:
        block = regions[0].blocks[0]
        if len(block.operations) == 2 and len(block.arguments) == 2:
            body, end = block.operations
            arguments = sorted(argument.name.name for argument in block.arguments)
            used = sorted(operand.name for operand in body.operands)
            returned = [operand.name for operand in end.operands]
            results = [result.name for result in body.results]
            scalars = all(tensor_parts(x.type) == (dtype, ()) for x in block.arguments)
            applied = used == arguments and returned == results
            if end.name.endswith("return") and scalars and applied:
                return body
    where = site.scope.source.location(regions[0].offset) if regions else site.where
    raise VerificationError(
        f"{site.name} requires a region that applies one operation to its two arguments "
        "and returns the result",
        where,
    )


REDUCTION: Mapping[str, Lowering] = {
    "dot": _dot,
    "dot_general": _dot_general,
    "reduce": _reduce,
}

"""Shapes as values: they are known, as symbolic sizes, when the program is read, and leave no trace
in it."""

from __future__ import annotations

from collections.abc import Mapping

from tcp_eqsat.errors import ShapeMismatch
from tcp_eqsat.frontends.mlir.hlo_structure import broadcast_along
from tcp_eqsat.frontends.mlir.scope import Extents
from tcp_eqsat.frontends.mlir.site import Lowering, Site
from tcp_eqsat.lang.dims import Size
from tcp_eqsat.lang.program import Node


def _shape_of(site: Site) -> Extents:
    site.require_operands(1)
    shape = site.tensor(0).shape
    return Extents(shape, (len(shape),))


def _broadcast(site: Site) -> Extents:
    """The common shape, axes counted from the last. A size that is not known to be 1 does not
    stretch."""
    shapes = [site.extents(number) for number in range(len(site.op.operands))]
    result: list[Size] = [1] * max(map(len, shapes), default=0)
    for number, shape in enumerate(shapes):
        for back, size in enumerate(reversed(shape), 1):
            known = result[-back]
            if known == 1:
                result[-back] = size
            elif size != 1 and not site.assume_equal(size, known):
                raise ShapeMismatch(
                    f"{site.name} requires sizes that are equal or 1, got {known} and {size} (operand {number}, "
                    f"axis {len(shape) - back})"
                )
    return Extents(tuple(map(site.scope.sizes.resolve, result)), (len(result),))


def _broadcast_in_dim(site: Site) -> Node:
    """A tensor and the shape it is broadcast to."""
    site.require_operands(2)
    return broadcast_along(site, site.extents(1))


SHAPE: Mapping[str, Lowering] = {
    "broadcast": _broadcast,
    "get_ranked_shape": _shape_of,
    "ranked_broadcast_in_dim": _broadcast_in_dim,
    "shape_of": _shape_of,
}
UNNAMED: Mapping[str, Lowering] = {"compute_broadcasted_shape": _broadcast}

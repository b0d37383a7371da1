"""Custom calls, by the names of their targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tcp_eqsat.errors import TypeMismatch, UnknownName, VerificationError
from tcp_eqsat.frontends.mlir.expectations import CHECK_CALLS
from tcp_eqsat.frontends.mlir.hlo_elementwise import CHLO_ELEMENTWISE, ELEMENTWISE
from tcp_eqsat.frontends.mlir.hlo_indexing import CHLO_INDEXING, greatest
from tcp_eqsat.frontends.mlir.scope import Claim, Content
from tcp_eqsat.frontends.mlir.site import Lowering, Site
from tcp_eqsat.frontends.mlir.symbolic import assume, is_false


def _shape_assertion(site: Site) -> tuple[Content, ...]:
    """A claim of sizes, which are learned; the other operands are for the message."""
    found = site.content(0)
    if isinstance(found, Claim):
        if is_false(found):
            message = site.word("error_message", "a shape assertion fails")
            raise VerificationError(f"{site.name}: {message[:200]}")
        assume(site, found)
    return ()


def _by_name(table: Mapping[str, Lowering], name: str) -> Lowering:
    """An operation of another dialect, whose attributes stand in `mhlo.attributes`."""

    def lower(site: Site) -> Content | tuple[Content, ...]:
        attributes = site.op.attributes.get("mhlo.attributes", {})
        if not isinstance(attributes, dict):
            raise VerificationError(f"{site.name} requires a dictionary as 'mhlo.attributes'")
        return table[name](Site(site.scope, site.op._replace(attributes=attributes)))

    return lower


def _mhlo_top_k(site: Site) -> tuple[Content, ...]:
    attributes = site.op.attributes.get("mhlo.attributes", {})
    inner = Site(site.scope, site.op._replace(attributes=attributes if isinstance(attributes, dict) else {}))
    if not inner.flag("largest", True):
        raise VerificationError(f"{site.name} of the least values is not supported")
    (x,) = site.tensors(1)
    return greatest(x, inner.integer("k"))


def _dynamic_top_k(site: Site) -> tuple[Content, ...]:
    site.require_operands(2)
    (count,) = site.known(1)
    return greatest(site.tensor(0), count)


def _same(site: Site) -> tuple[Content, ...]:
    """The operands themselves."""
    return site.contents()


_MHLO = {**ELEMENTWISE, **CHLO_ELEMENTWISE, **CHLO_INDEXING}

TARGETS: Mapping[str, Lowering] = {
    **CHECK_CALLS,
    **{f"mhlo.{name}": _by_name(_MHLO, name) for name in _MHLO},
    "SPMDFullToShardShape": _same,
    "SPMDShardToFullShape": _same,
    "Sharding": _same,
    "annotate_device_placement": _same,
    "mhlo.topk": _mhlo_top_k,
    "shape_assertion": _shape_assertion,
    "stablehlo.dynamic_top_k": _dynamic_top_k,
}


def _custom_call(site: Site) -> Content | tuple[Content, ...]:
    name = site.symbol("call_target_name").name
    target: Callable[[Site], Content | tuple[Content, ...]] | None = TARGETS.get(name)
    if target is None:
        raise UnknownName(f"{site.name} @{name} is not known; known are {', '.join(TARGETS)}")
    try:
        return target(site)
    except TypeMismatch as error:
        raise type(error)(f"@{name}: {error.message}", error.where) from None


CUSTOM: Mapping[str, Lowering] = {"custom_call": _custom_call}

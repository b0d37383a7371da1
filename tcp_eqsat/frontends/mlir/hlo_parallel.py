"""Operations between several processes, of which there is one here: with groups of one participant they have a
meaning; anything else needs more processes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tcp_eqsat.frontends.mlir.literals import extents_of
from tcp_eqsat.frontends.mlir.scope import Content, SeveralProcesses
from tcp_eqsat.frontends.mlir.site import Lowering, Site
from tcp_eqsat.lang.ops.builders import constant, splat
from tcp_eqsat.lang.program import Node


def _alone(site: Site) -> None:
    """Raises SeveralProcesses where a group has more than one participant."""
    attribute = site.op.attributes.get("replica_groups")
    shape = extents_of(attribute) if attribute is not None else None
    if shape and (shape[0] > 1 or shape[-1] > 1):
        raise SeveralProcesses(f"{site.name} needs several processes, its groups are of shape {list(shape)}")


def _same(site: Site) -> tuple[Content, ...]:
    """What one participant gives all is what it gets."""
    _alone(site)
    return site.tensors()


def _permuted(site: Site) -> Node:
    """What process 0 sends to itself, or zeros."""
    (x,) = site.tensors(1)
    pairs = site.integers("source_target_pairs")
    if any(pairs):
        raise SeveralProcesses(f"{site.name} needs several processes, its pairs are {list(pairs)}")
    return x if pairs else splat(0, x.dtype, x.shape)


def _broadcast(site: Site) -> Node:
    _alone(site)
    (x,) = site.tensors(1)
    return x if site.integers("replica_groups", (0,)) else splat(0, x.dtype, x.shape)


def _number(site: Site) -> Node:
    site.require_operands(0)
    return constant(np.zeros((), np.uint32))


def _several(site: Site) -> Content:
    raise SeveralProcesses(f"{site.name} needs several processes")


PARALLEL: Mapping[str, Lowering] = {
    "all_gather": _same,
    "all_reduce": _same,
    "all_to_all": _same,
    "collective_broadcast": _broadcast,
    "collective_permute": _permuted,
    "infeed": _several,
    "outfeed": _several,
    "partition_id": _number,
    "recv": _several,
    "reduce_scatter": _same,
    "replica_id": _number,
    "send": _several,
}

INTERPRETER: Mapping[str, Lowering] = {"run_parallel": _several}

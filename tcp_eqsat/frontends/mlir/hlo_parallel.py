"""Operations between several processes, of which there is one here: with groups of one participant they have a
meaning; anything else needs more processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeGuard

import numpy as np

from tcp_eqsat.frontends.mlir.calls import call
from tcp_eqsat.frontends.mlir.literals import extents_of
from tcp_eqsat.frontends.mlir.scope import Content, SeveralProcesses, Token
from tcp_eqsat.frontends.mlir.site import Lowering, Site
from tcp_eqsat.frontends.mlir.tree import Attribute, Symbol
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


def _run_parallel(site: Site) -> tuple[Content, ...]:
    """One program is called; what it is fed are results of functions, in order."""
    grid = site.attribute("programs")
    programs = [x for row in grid for x in row] if _is_grid(grid) else []
    if len(programs) != 1 or not isinstance(programs[0], Symbol):
        raise SeveralProcesses(f"{site.name} needs several processes, one for each of its programs")
    queue = site.op.attributes.get("infeed", ())
    site.scope.context.fed[:] = [x for x in queue if isinstance(x, Symbol)] if type(queue) is tuple else []
    return call(site, programs[0], site.contents())


def _is_grid(attribute: Attribute) -> TypeGuard[tuple[tuple[Attribute, ...], ...]]:
    return type(attribute) is tuple and all(type(row) is tuple for row in attribute)


def _infeed(site: Site) -> tuple[Content, ...]:
    """What the next function of `run_parallel` gives, and a token."""
    fed = site.scope.context.fed
    if not fed or site.scope.in_region:
        raise SeveralProcesses(f"{site.name} needs a process that feeds it")
    return *call(site, fed.pop(0), ()), Token()


PARALLEL: Mapping[str, Lowering] = {
    "all_gather": _same,
    "all_reduce": _same,
    "all_to_all": _same,
    "collective_broadcast": _broadcast,
    "collective_permute": _permuted,
    "infeed": _infeed,
    "outfeed": _several,
    "partition_id": _number,
    "recv": _several,
    "reduce_scatter": _same,
    "replica_id": _number,
    "send": _several,
}

INTERPRETER: Mapping[str, Lowering] = {
    "print": lambda site: (),
    "run_parallel": _run_parallel,
}

"""What programs expect of their own values: the operations of the `check` dialect, and custom calls
of those names. They leave no trace in a program that is read to be run."""

from __future__ import annotations

from collections.abc import Mapping

from tcp_eqsat.errors import TypeMismatch, VerificationError
from tcp_eqsat.frontends.mlir.hlo_source import constant_of
from tcp_eqsat.frontends.mlir.scope import Content, Expectation, Uninstrumented
from tcp_eqsat.frontends.mlir.site import Lowering, Site
from tcp_eqsat.frontends.mlir.tree import Symbol, SyntaxOp
from tcp_eqsat.lang.program import Node

_ALMOST = 1e-4
_ALMOST_IN_CALLS = 1e-3
_CLOSE = 1
_CLOSE_IN_CALLS = 3


def _expect(relation: str, site: Site, actual: Node, expected: Node, tolerance: float) -> tuple[Content, ...]:
    if actual.type != expected.type:
        raise TypeMismatch(f"{site.name} requires values of one type, got {actual.type} and {expected.type}")
    if site.scope.in_region:
        raise VerificationError(f"{site.name} requires values of a function, not of a region in it")
    name = site.op.operands[0].name
    site.scope.context.expectations.append(
        Expectation(relation, actual, expected, tolerance, name, site.where))
    return ()


def _tolerance(site: Site, relation: str, almost: float, close: float) -> float:
    if relation == "almost":
        return site.number("tolerance", almost)
    return site.integer("max_ulp_difference", int(close)) if relation == "close" else 0.0


def _of_values(relation: str) -> Lowering:
    def lower(site: Site) -> tuple[Content, ...]:
        actual, expected = site.tensors(2)
        return _expect(relation, site, actual, expected, _tolerance(site, relation, _ALMOST, _CLOSE))

    return lower


def _of_literal(relation: str) -> Lowering:
    def lower(site: Site) -> tuple[Content, ...]:
        (actual,) = site.tensors(1)
        return _expect(
            relation, site, actual, constant_of(site, "value"), _tolerance(site, relation, _ALMOST, _CLOSE))

    return lower


def _of_call(relation: str) -> Lowering:
    def lower(site: Site) -> tuple[Content, ...]:
        actual, expected = site.tensors(2)
        tolerance = _tolerance(site, relation, _ALMOST_IN_CALLS, _CLOSE_IN_CALLS)
        return _expect(relation, site, actual, expected, tolerance)

    return lower


def _probe(site: Site) -> Node:
    """The operand, which `expect_serialized_eq` may ask for by the name that is given here."""
    (x,) = site.tensors(1)
    if site.scope.in_region:
        raise Uninstrumented(f"{site.name} in a region sees every value of a loop, which are not kept")
    site.scope.context.probes[site.word("probe_id")] = x
    return x


def _expect_probed(site: Site) -> tuple[Content, ...]:
    (expected,) = site.tensors(1)
    name = site.word("probe_id")
    found = site.scope.context.probes.get(name)
    if found is None or site.integer("iter", 0) != 0:
        raise VerificationError(f"{site.name} requires a value that is probed before as {name!r}, once")
    return _expect("equal", site, found, expected, 0.0)


_RELATIONS = {"eq": "equal", "almost_eq": "almost", "close": "close"}

CHECK: Mapping[str, Lowering] = {
    **{f"expect_{name}": _of_values(relation) for name, relation in _RELATIONS.items()},
    **{f"expect_{name}_const": _of_literal(relation) for name, relation in _RELATIONS.items()},
    "expect_serialized_eq": _expect_probed,
}

PROBES: Mapping[str, Lowering] = {"probe": _probe}

CHECK_CALLS: Mapping[str, Lowering] = {
    f"check.expect_{name}": _of_call(relation) for name, relation in _RELATIONS.items()
}
"""By the target of the custom call."""


def states_expectations(op: SyntaxOp) -> bool:
    """Whether there are expectations in the text of a function."""
    pending = [op]
    while pending:
        found = pending.pop()
        target = found.attributes.get("call_target_name")
        name = target.name if isinstance(target, Symbol) else target
        if found.name.startswith("check.") or (isinstance(name, str) and name in CHECK_CALLS):
            return True
        pending += [inner for region in found.regions for block in region.blocks for inner in block.operations]
    return False

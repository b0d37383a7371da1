"""Variables that a program names and does not define: parameters after the arguments, in textual
order."""

from __future__ import annotations

from collections.abc import Mapping

from tcp_eqsat.errors import TypeMismatch, VerificationError
from tcp_eqsat.frontends.mlir.site import Lowering, Site, format_stated
from tcp_eqsat.frontends.mlir.tree import Symbol
from tcp_eqsat.lang.program import Node


def _variable_load(site: Site) -> Node:
    """One parameter for each variable, however often it is loaded."""
    site.require_operands(0)
    variable = site.attribute("variable")
    if not isinstance(variable, Symbol):
        raise VerificationError(f"{site.name} requires a symbol as its variable")
    site.stated()
    (stated,) = site.op.result_types
    known = site.scope.context.variables.get(variable.name)
    if known is None:
        known = site.scope.add_parameter(
            variable.name, site.scope.tensor_type(stated, site.op.offset)
        )
        site.scope.context.variables[variable.name] = known
    elif not site.scope.agree(stated, known):
        raise TypeMismatch(
            f"variable @{variable.name} is {known.type}, the text states {format_stated(stated)}"
        )
    return known


FLOW: Mapping[str, Lowering] = {"variable.load": _variable_load}

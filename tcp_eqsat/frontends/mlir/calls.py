"""Calls of functions of the module, which become part of the caller."""

from __future__ import annotations

from collections.abc import Mapping

from tcp_eqsat.errors import TypeMismatch, UnknownName, VerificationError
from tcp_eqsat.frontends.mlir.scope import Content
from tcp_eqsat.frontends.mlir.site import Lowering, Site, counted
from tcp_eqsat.frontends.mlir.tree import FunctionType, Symbol


def call(site: Site, symbol: Symbol, arguments: tuple[Content, ...]) -> tuple[Content, ...]:
    """What a function of the module gives on arguments. Raises UnknownName, VerificationError,
    TypeMismatch, LimitError."""
    found = site.scope.symbols.function(symbol)
    if found is None:
        raise UnknownName(f"{site.name} requires a function with a body, there is no @{'::@'.join(symbol.path)}")
    symbols, op = found
    context = site.scope.context
    context.called.add(op.offset)
    type_ = op.attributes.get("function_type")
    region = op.regions[0]
    if not isinstance(type_, FunctionType) or len(region.blocks) != 1:
        raise VerificationError(f"{site.name} requires a function of one block with a type as @{symbol.name}")
    if len(type_.inputs) != len(arguments):
        raise TypeMismatch(
            f"{site.name} requires {counted(len(type_.inputs), 'operand')} for @{symbol.name}, got {len(arguments)}")
    key = (op.offset, arguments, site.scope.sizes.version)
    if key in context.results:
        return context.results[key]
    scope = site.scope.callee(symbols, site.op.offset, site.where)
    expected = len(context.expectations)
    results = context.run(scope, region, arguments)
    if len(context.expectations) == expected and not context.fed:
        context.results[key] = results
    if len(results) != len(type_.results) or not all(map(scope.agree, type_.results, results)):
        raise TypeMismatch(f"function @{symbol.name} requires results of the types that it states")
    return results


def _call(site: Site) -> tuple[Content, ...]:
    return call(site, site.symbol("callee"), site.contents())


CALLS: Mapping[str, Lowering] = {"call": _call}

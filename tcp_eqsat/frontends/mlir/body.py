"""Operations one after the other: every one by its table, checked against the types that the text
states; regions and calls."""

from __future__ import annotations

import difflib

from tcp_eqsat.errors import (
    LimitError,
    Location,
    ShapeMismatch,
    TcpError,
    TypeMismatch,
    UnknownName,
    VerificationError,
)
from tcp_eqsat.frontends.mlir.dialects import DIALECTS
from tcp_eqsat.frontends.mlir.hlo_quantized import has_quantized, lower_quantized
from tcp_eqsat.frontends.mlir.lexer import Source
from tcp_eqsat.frontends.mlir.scope import RETURNS, Content, Extents, Scope, format_content
from tcp_eqsat.frontends.mlir.site import Lowering, Site, counted, format_stated
from tcp_eqsat.frontends.mlir.symbolic import SYMBOLIC
from tcp_eqsat.frontends.mlir.tree import Block, Reference, Region, SyntaxOp, SyntaxType
from tcp_eqsat.lang.program import Node


def place(op: SyntaxOp, source: Source) -> Location:
    return source.location(op.offset, op.length)


def run_region(scope: Scope, region: Region, arguments: tuple[Content, ...]) -> tuple[Content, ...]:
    """The results of a region of one block on arguments, in a scope for it alone."""
    where = scope.source.location(region.offset)
    if len(region.blocks) != 1:
        raise VerificationError(f"a region of one block is required, got {len(region.blocks)}", where)
    return run_block(scope, region.blocks[0], arguments, where)


def run_block(scope: Scope, block: Block, arguments: tuple[Content, ...], where: Location) -> tuple[Content, ...]:
    """Lowers a block's operations and gives what its last one returns."""
    if len(arguments) != len(block.arguments):
        raise TypeMismatch(
            f"a region with {counted(len(arguments), 'argument')} is required, got {len(block.arguments)}", where)
    for argument, content in zip(block.arguments, arguments, strict=True):
        if not scope.agree(argument.type, content):
            raise TypeMismatch(
                f"{argument.name.name} is {format_content(content)}, the text states "
                f"{format_stated(argument.type)}",
                scope.location_of(argument.name),
            )
        scope.define(argument.name, content)
        scope.context.has_sizes_as_values |= not isinstance(content, Node)
        record(scope, content, argument.name.name, scope.location_of(argument.name))
    if not block.operations or block.operations[-1].name not in RETURNS:
        raise VerificationError("a region requires a return as its last operation", where)
    *operations, end = block.operations
    for op in operations:
        lower_operation(scope, op)
    _check_operands(Site(scope, end))
    return tuple(scope.lookup(reference).content for reference in end.operands)


def lower_operation(scope: Scope, op: SyntaxOp) -> None:
    """Defines the results of an operation. Raises TcpError children with a place."""
    site = Site(scope, op)
    lowering = _lowering_of(op, scope.source)
    where = site.where
    scope.context.count(where)
    try:
        _check_operands(site)
        contents = (_symbolic(site) if scope.context.has_sizes_as_values else None) or (
            lower_quantized(site, lowering) if has_quantized(op) else lowering(site))
        contents = contents if isinstance(contents, tuple) else (contents,)
        _check_results(site, contents)
    except TcpError as error:
        if error.where is not None:
            raise
        raise _with_notes(error, site) from None
    except RecursionError:
        raise LimitError("the program is nested too deeply", where) from None
    for reference, content in zip(op.results, contents, strict=False):  # or none is named
        scope.define(reference, content)
        record(scope, content, reference.name, where)
        if not isinstance(content, Node):
            scope.context.has_sizes_as_values = True


def _symbolic(site: Site) -> Content | None:
    """The result where the operation is one of integers that are known as sizes."""
    evaluate = SYMBOLIC.get(site.op.name.rpartition(".")[2])
    if evaluate is None or not any(isinstance(site.content(n), Extents) for n in range(len(site.op.operands))):
        return None
    return evaluate(site)


def record(scope: Scope, content: Content, name: str, where: Location) -> None:
    """Names a node, and places it and what its lowering made on the way to it."""
    if not isinstance(content, Node):
        return
    scope.context.names.setdefault(content, name[1:])
    locations, stack = scope.context.locations, [content]
    while stack:
        found = stack.pop()
        if found not in locations:
            locations[found] = where
            stack += found.operands


def _check_operands(site: Site) -> None:
    """Every operand is defined and has its stated type."""
    stated = site.op.operand_types
    for number, reference in enumerate(site.op.operands):
        content = site.scope.lookup(reference).content
        if number < len(stated):
            check_stated(site.scope, reference, content, stated[number])


def check_stated(
    scope: Scope, reference: Reference, content: Content, stated: SyntaxType, who: str = "the text"
) -> None:
    """Raises TypeMismatch where a value does not have its stated type."""
    where = scope.location_of(reference)
    try:
        agrees = scope.agree(stated, content)
    except TcpError as error:
        raise error.at(where) from None
    if not agrees:
        raise TypeMismatch(
            f"{reference.name} is {format_content(content)}, {who} states {format_stated(stated)}", where
        )


def _check_results(site: Site, contents: tuple[Content, ...]) -> None:
    op = site.op
    if len(contents) != len(op.result_types):
        raise TypeMismatch(
            f"{op.name} gives {counted(len(contents), 'result')}, the text states {len(op.result_types)}"
        )
    for content, stated in zip(contents, op.result_types, strict=True):
        if not site.scope.agree(stated, content):
            kind = ShapeMismatch if isinstance(content, Node) else TypeMismatch
            raise kind(
                f"{op.name} gives {format_content(content)}, the text states {format_stated(stated)}"
            )


def _lowering_of(op: SyntaxOp, source: Source) -> Lowering:
    """Raises UnknownName, with the closest known name."""
    dialect, dot, short = op.name.partition(".")
    if not dot:
        dialect, short = "", op.name
    table = DIALECTS.get(dialect)
    if dot and table is None:
        known = ", ".join(name for name in DIALECTS if name)
        raise UnknownName(f"unknown dialect {dialect!r}; known are {known}", place(op, source))
    found = (table or {}).get(short)
    if found is None:
        near = difflib.get_close_matches(short[:64], list(table or ()), 1)
        hint = f"; did you mean {dialect + dot + near[0]!r}?" if near else ""
        raise UnknownName(f"unknown operation {op.name!r}{hint}", place(op, source))
    return found


def _with_notes(error: TcpError, site: Site) -> TcpError:
    """The error at its operation; where types are at fault, with the place and type of each
    operand."""
    notes: list[str] = []
    if isinstance(error, TypeMismatch):
        for reference in dict.fromkeys(site.op.operands):
            value = site.scope.find(reference.name)
            if value is not None:
                defined = site.scope.source.location(value.defined.offset)
                notes.append(
                    f"{reference.name} is defined at {defined} with type {format_content(value.content)}"
                )
    return type(error)("\n".join([error.message, *notes[:4]]), site.where)

"""A text as modules, each with functions that are lowered when somebody asks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tcp_eqsat.frontends.mlir.forms import FORMS
from tcp_eqsat.frontends.mlir.lexer import Source
from tcp_eqsat.frontends.mlir.lower import Lowered, find_functions, lower_function, symbol_name
from tcp_eqsat.frontends.mlir.parser import Parser
from tcp_eqsat.frontends.mlir.scope import Symbols
from tcp_eqsat.frontends.mlir.tree import Dense, SyntaxOp


@dataclass(frozen=True)
class Definition:
    """One function of a module as text; `lower` gives it a meaning."""

    name: str
    op: SyntaxOp
    symbols: Symbols
    source: Source
    resources: Mapping[str, Dense]

    @property
    def line(self) -> int:
        """The line of the file on which it starts."""
        return self.source.location(self.op.offset).line

    def lower(self) -> Lowered:
        """Raises TcpError children with a place."""
        return lower_function(self.op, self.symbols, self.source, self.resources)


@dataclass(frozen=True)
class Module:
    """What stands between two lines `// -----`."""

    source: Source
    operations: tuple[SyntaxOp, ...]
    resources: Mapping[str, Dense]

    def definitions(self) -> Iterator[Definition]:
        """The functions that have bodies, in order. Raises TcpError children with a place."""
        for symbols, op in find_functions(self.operations, self.source):
            yield Definition(symbol_name(op, self.source), op, symbols, self.source, self.resources)


def parse_module(source: Source) -> Module:
    """The syntax of one module. Raises ParseError or UnknownName with a place."""
    parser = Parser(source, FORMS)
    return Module(source, parser.module(), parser.resources)

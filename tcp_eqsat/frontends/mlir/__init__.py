"""MLIR text as programs of our language: the dialects `xla_hlo`, `shape` and `flow`, functions old
and new.

Text becomes tokens (`lexer`), a syntax tree (`parser`, `forms`, `types`, `literals`), and then
nodes (`lower` and the tables of the dialects). `writer` goes the other way.
"""

from __future__ import annotations

import os

from tcp_eqsat.errors import ArgumentError, ParseError
from tcp_eqsat.frontends.mlir.forms import FORMS
from tcp_eqsat.frontends.mlir.lexer import Source
from tcp_eqsat.frontends.mlir.lower import lower_program
from tcp_eqsat.frontends.mlir.parser import Parser
from tcp_eqsat.frontends.mlir.writer import write
from tcp_eqsat.lang.program import Program

__all__ = ["parse", "read", "write"]


def parse(text: str, file: str = "<text>") -> Program:
    """The program of MLIR `text`; `file` is what messages call it.

    Each `?` becomes a symbol; sizes that must agree become one, and the symbols are called b,
    s, d2, d3, ... in order of appearance. Variables that the text loads are parameters after
    the arguments.

    Raises ParseError, UnknownName, TypeMismatch, ShapeMismatch or VerificationError, with line
    and column.
    """
    source = Source(text, file)
    return lower_program(Parser(source, FORMS).module(), source)


def read(path: str | os.PathLike[str]) -> Program:
    """The program of an MLIR text file in UTF-8. Raises ArgumentError where it can't be read,
    and as `parse`."""
    name = os.fspath(path)
    try:
        with open(name, "rb") as stream:
            raw = stream.read()
    except OSError as error:
        raise ArgumentError(f"can't read {name}: {error.strerror}") from None
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode("utf-8")
        raise ParseError(
            "expected MLIR text in UTF-8 (bytecode is not text)",
            Source(before, name).location(len(before)),
        ) from None
    return parse(text, name)

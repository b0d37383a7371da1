"""MLIR text as programs of our language: StableHLO, CHLO, the TCP dialect and what stands around them.

Text becomes tokens (`lexer`), a syntax tree (`parser`, `forms`, `types`, `literals`), and then
nodes (`lower` and the tables of the dialects). `stablehlo_forms` and `writer` go the other way, to StableHLO
and to the legacy form.
"""

from __future__ import annotations

import os

from tcp_eqsat.errors import ArgumentError, ParseError
from tcp_eqsat.frontends.mlir.lexer import Source
from tcp_eqsat.frontends.mlir.lower import lower_functions, unique_names
from tcp_eqsat.frontends.mlir.modules import parse_module
from tcp_eqsat.frontends.mlir.stablehlo_forms import write as write_stablehlo
from tcp_eqsat.frontends.mlir.syntax_text import module_text
from tcp_eqsat.frontends.mlir.writer import write
from tcp_eqsat.lang.program import Function, Program

__all__ = ["generic_text", "parse", "read", "write", "write_stablehlo"]


def parse(text: str, file: str = "<text>") -> Program:
    """The program of MLIR `text`; `file` is what messages call it.

    Each `?` becomes a symbol; sizes that must agree become one, and the symbols are called b,
    s, d2, d3, ... in order of appearance. Variables that the text loads are parameters after
    the arguments. Private functions that others call are part of these.

    Lines `// -----` separate modules; of functions of one name in several modules, the later
    ones are called name.2, name.3, ...

    Raises ParseError, UnknownName, TypeMismatch, ShapeMismatch, VerificationError or LimitError,
    with line and column.
    """
    source = Source(text, file)
    functions: list[Function] = []
    for part in source.parts():
        module = parse_module(part)
        functions += lower_functions(module.operations, part, module.resources)
    if not functions:
        raise ParseError("the text has no function", source.location(0))
    return Program({function.name: function for function in unique_names(functions)})


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


def generic_text(text: str, file: str = "<text>") -> str:
    """MLIR `text` in generic form, its modules separated by lines `// -----`. Raises ParseError or UnknownName."""
    return "// -----\n".join(module_text(parse_module(part)) for part in Source(text, file).parts())

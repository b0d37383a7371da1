"""A cursor over the tokens of one text: what every part of the parser moves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from tcp_eqsat.errors import ParseError
from tcp_eqsat.frontends.mlir.lexer import Source, tokenize

MAX_DEPTH = 48
NAME = re.compile(r"[A-Za-z_][\w$.]*+\Z", re.ASCII)
_ESCAPE = re.compile(r'\\([0-9A-Fa-f]{2}|["\\nt])', re.ASCII)
_SIMPLE_ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "t": "\t"}


class Cursor:
    """A position in the tokens of one text."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.tokens, self.starts = tokenize(source.text)
        self.index = 0
        self._depth = 0

    @property
    def token(self) -> str:
        """The token ahead; empty at the end of the text."""
        return self.tokens[self.index]

    @property
    def offset(self) -> int:
        return self.starts[self.index]

    def take(self) -> str:
        """The token ahead, moving past it (never past the end)."""
        token = self.tokens[self.index]
        if token:
            self.index += 1
        return token

    def accept(self, token: str) -> bool:
        """Whether `token` is ahead; if so, moves past it."""
        if self.tokens[self.index] == token:
            self.index += 1
            return True
        return False

    def expect(self, token: str, context: str) -> None:
        if self.tokens[self.index] != token:
            raise self.error(f"expected {token!r} {context}")
        self.index += 1

    def error(self, requirement: str) -> ParseError:
        """The error that refuses the token ahead."""
        token = self.token
        if not token:
            found = "the end of the text"
        elif token == '"':
            found = "a string without an end"
        else:
            found = repr(token if len(token) <= 40 else token[:37] + "...")
        raise ParseError(
            f"{requirement}, got {found}", self.source.location(self.offset, width(token))
        )

    @contextmanager
    def nested(self) -> Iterator[None]:
        """One more level of regions, attributes or types; refuses what would exhaust the stack."""
        if self._depth >= MAX_DEPTH:
            raise ParseError(
                f"nested deeper than {MAX_DEPTH} levels", self.source.location(self.offset)
            )
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def unquoted(self, token: str, offset: int) -> str:
        """The text of a string token, its escapes (\\n, \\t, \\\\, \\", two hexadecimal
        digits) resolved."""
        body = token[1:-1]
        if "\\" not in body:
            return body
        position = 0
        parts: list[str] = []
        while (slash := body.find("\\", position)) >= 0:
            match = _ESCAPE.match(body, slash)
            if match is None:
                raise ParseError(
                    f"unknown escape {body[slash : slash + 2]!r} in a string",
                    self.source.location(offset + 1 + slash, 2),
                )
            escape = match[1]
            parts += (body[position:slash], _SIMPLE_ESCAPES.get(escape) or chr(int(escape, 16)))
            position = match.end()
        return "".join(parts) + body[position:]


def width(token: str) -> int:
    """How much of a token a message underlines: its first line."""
    return len(token.partition("\n")[0])

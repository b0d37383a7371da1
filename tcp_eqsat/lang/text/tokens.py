"""Tokens of our text, with the place of each."""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable

from tcp_eqsat.errors import Location, ParseError, TcpError
from tcp_eqsat.lang.text.names import unquoted

_TOKEN = re.compile(r"""
    (?P<space>[ \t\r\n]+|\#[^\n]*)
  | (?P<value>%(?:[A-Za-z0-9_.]+|"(?:[^"\\\n]|\\.)*"))
  | (?P<symbol>@(?:[A-Za-z0-9_.]+|"(?:[^"\\\n]|\\.)*"))
  | (?P<string>"[^"\n]*")
  | (?P<number>-(?:inf|nan)\b|-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)
  | (?P<name>[A-Za-z_][A-Za-z0-9_.]*)
  | (?P<mark>->|==|//|[-+*/%(){}\[\],:;=])
""", re.VERBOSE | re.ASCII)


class Token:
    __slots__ = ("kind", "offset", "text")

    def __init__(self, kind: str, text: str, offset: int) -> None:
        self.kind, self.text, self.offset = kind, text, offset


class Source:
    """A text with a position in it. All errors it raises carry their place."""

    def __init__(self, text: str, file: str) -> None:
        self.text, self.file = text, file
        self.tokens: list[Token] = []
        self._lines: list[int] | None = None
        offset, size = 0, len(text)
        while offset < size:
            match = _TOKEN.match(text, offset)
            if match is None:
                raise ParseError(f"unexpected character {text[offset]!r}", self.location(offset))
            kind = match.lastgroup or ""
            if kind != "space":
                self.tokens.append(Token(kind, match.group(), offset))
            offset = match.end()
        self.tokens.append(Token("end", "end of text", size))
        self.position = 0

    def location(self, offset: int, length: int = 1) -> Location:
        if self._lines is None:
            self._lines = [0, *(m.end() for m in re.finditer("\n", self.text))]
        line = bisect.bisect_right(self._lines, offset)
        return Location(self.file, line, offset - self._lines[line - 1] + 1, length)

    @property
    def token(self) -> Token:
        return self.tokens[self.position]

    @property
    def place(self) -> Location:
        return self.location_of(self.token)

    def location_of(self, token: Token) -> Location:
        return self.location(token.offset, len(token.text))

    def next(self) -> Token:
        token = self.tokens[self.position]
        if token.kind != "end":
            self.position += 1
        return token

    def at(self, *texts: str) -> bool:
        return self.token.text in texts and self.token.kind not in ("string", "end")

    def take(self, text: str) -> bool:
        """Whether the next token is `text`, which is passed then."""
        if self.at(text):
            self.position += 1
            return True
        return False

    def expect(self, text: str) -> Token:
        if not self.at(text):
            raise self.error(f"{text!r} is required, got {self.token.text!r}")
        return self.next()

    def expect_kind(self, kind: str, what: str) -> Token:
        if self.token.kind != kind:
            raise self.error(f"{what} is required, got {self.token.text!r}")
        return self.next()

    def expect_named(self, kind: str, what: str) -> str:
        """The name of the value or symbol ahead, which is passed."""
        token = self.expect_kind(kind, what)
        try:
            return unquoted(token.text[1:])
        except ValueError:
            raise ParseError(
                f"a quoted name requires JSON's escapes, got {token.text}", self.location_of(token)) from None

    def error(self, message: str, kind: Callable[..., TcpError] = ParseError) -> TcpError:
        return kind(message, self.place)

    def between(self, first: Token, last: Token) -> str:
        return self.text[first.offset: last.offset + len(last.text)]

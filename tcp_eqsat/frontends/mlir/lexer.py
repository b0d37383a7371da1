"""Tokens of MLIR text: one compiled expression, offsets only; lines and columns are worked out when
asked for."""

from __future__ import annotations

import bisect
import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tcp_eqsat.errors import Location

STRING = r'"(?:[^"\\\n]++|\\[^\n])*+"'
_ANGLE_LEVELS = 6


def _angle(levels: int) -> str:
    """A balanced `<...>`; arrows and strings inside don't count as brackets."""
    nested = f"|{_angle(levels - 1)}" if levels else ""
    return rf'<(?:[^<>"\-]++|->?+|{STRING}{nested})*+>'


# A type or attribute with a bracketed body (`tensor<?x16xf32>`, `dense<[1, 2]>`, `#a.b<...>`) is
# a single token: most types repeat, so that their text is a cache key, and the elements of a
# large constant are never tokens of their own.
_TOKEN = re.compile(
    rf"""\s*+(?://[^\n]*+\s*+)*+
    ( [%^][\w$.\-]++(?:\#\d++)?+
    | @(?:[\w$.\-]++|{STRING})
    | [!\#]?+[A-Za-z_][\w$.]*+(?:{_angle(_ANGLE_LEVELS)})?+
    | [!\#]\w++
    | {STRING}
    | -?+(?:0x[0-9A-Fa-f]++|\d++(?:\.\d*+(?:[eE][-+]?+\d++)?+)?+)
    | ->
    | ::
    | .
    | \Z
    )""",
    re.VERBOSE | re.ASCII | re.DOTALL,
)


_BLOB = 'dense<"0x'
_NEAR = 80
_SPLIT = "// -----"


@dataclass(frozen=True)
class Source:
    """A text and the name it goes by in messages; `first_line` is the number of its first line in the file."""

    text: str
    file: str
    first_line: int = 1

    @functools.cached_property
    def _line_starts(self) -> Sequence[int]:
        return [0, *(match.end() for match in re.finditer("\n", self.text))]

    def location(self, offset: int, length: int = 1) -> Location:
        """The place of `length` characters at `offset`, which may be the end of the text."""
        line = bisect.bisect_right(self._line_starts, offset)
        column = offset - self._line_starts[line - 1] + 1
        return Location(self.file, line + self.first_line - 1, column, max(length, 1))

    def parts(self) -> Iterator[Source]:
        """The texts between the lines `// -----`, each a module of its own."""
        text, start, line = self.text, 0, self.first_line
        at = text.find(_SPLIT)
        while at >= 0:
            if at == 0 or text[at - 1] == "\n":
                end = text.find("\n", at)
                end = len(text) if end < 0 else end
                part = text[start:end]
                yield Source(part, self.file, line)
                start, line = end, line + part.count("\n")
            at = text.find(_SPLIT, at + 1)
        yield Source(text[start:], self.file, line) if start else self


def tokenize(text: str) -> tuple[list[str], list[int]]:
    """All tokens and where each starts, ending with the empty token. Never fails: a character
    that starts no token is a token itself, which the parser refuses at its place."""
    tokens: list[str] = []
    starts: list[int] = []
    start = 0
    while True:
        blob = _next_blob(text, start)
        for match in _TOKEN.finditer(text, start):
            at = match.start(1)
            if at >= blob[0]:
                break
            tokens.append(match[1])
            starts.append(at)
            if not match[1]:
                return tokens, starts
            if 0 <= blob[0] - match.end() <= _NEAR and blob[1] and not text[match.end() : blob[0]].strip():
                at = blob[0]
                break
        if at == blob[0]:
            tokens.append(text[blob[0] : blob[1]])
            starts.append(at)
            start = blob[1]
        else:  # the text of a blob inside another token
            start = at


def _next_blob(text: str, start: int) -> tuple[int, int]:
    """Where the next `dense<"0x...">` starts and ends. The expression would take it too, but looks
    at every digit."""
    at = text.find(_BLOB, start)
    end = text.find('"', at + len(_BLOB)) if at >= 0 else -1
    return (at, end + 2) if end >= 0 and text[end + 1 : end + 2] == ">" else (len(text) + 1, 0)

"""Tokens of MLIR text: one compiled expression, offsets only; lines and columns are worked out when
asked for."""

from __future__ import annotations

import bisect
import functools
import re
from collections.abc import Sequence
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


@dataclass(frozen=True)
class Source:
    """A text and the name it goes by in messages."""

    text: str
    file: str

    @functools.cached_property
    def _line_starts(self) -> Sequence[int]:
        return [0, *(match.end() for match in re.finditer("\n", self.text))]

    def location(self, offset: int, length: int = 1) -> Location:
        """The place of `length` characters at `offset`, which may be the end of the text."""
        line = bisect.bisect_right(self._line_starts, offset)
        return Location(self.file, line, offset - self._line_starts[line - 1] + 1, max(length, 1))


def tokenize(text: str) -> tuple[list[str], list[int]]:
    """All tokens and where each starts, ending with the empty token. Never fails: a character
    that starts no token is a token itself, which the parser refuses at its place."""
    tokens: list[str] = []
    starts: list[int] = []
    for match in _TOKEN.finditer(text):
        tokens.append(match[1])
        starts.append(match.start(1))
        if not match[1]:
            break
    return tokens, starts

"""Affine maps as text, `affine_map<(d0)[s0, s1] -> (s0, d0 + 2 * s1)>`, applied to sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tcp_eqsat.errors import ParseError
from tcp_eqsat.lang.dims import Size, floor_divide, less_equal

_MAP = re.compile(
    r"affine_map<\s*\(([^()]*)\)\s*(?:\[([^][]*)\])?\s*->\s*\((.*)\)\s*>\Z", re.ASCII | re.DOTALL)
_TOKEN = re.compile(r"\s*(\d+|[A-Za-z_]\w*|[-+*(),])", re.ASCII)
_WORDS = ("floordiv", "ceildiv", "mod")
_MOST_TOKENS = 200
_DEEPEST = 20


def apply_affine_map(text: str, values: Sequence[Size]) -> tuple[Size, ...]:
    """The results of the map for `values` of its dims and symbols, in order. Raises ParseError without a place."""
    match = _MAP.match(text)
    if match is None:
        raise ParseError(f"expected affine_map<(dims)[symbols] -> (expressions)>, got {text[:60]!r}")
    names = [name.strip() for part in (match[1], match[2] or "") for name in part.split(",") if name.strip()]
    if len(names) != len(values):
        raise ParseError(f"an affine map of {len(names)} dims and symbols is given {len(values)} values")
    return _Reader(match[3], dict(zip(names, values, strict=True))).results()


class _Reader:
    """Expressions by precedence: sums of products of factors."""

    def __init__(self, text: str, values: Mapping[str, Size]) -> None:
        self.values = values
        self.tokens: list[str] = []
        position = 0
        while position < len(text.rstrip()):
            match = _TOKEN.match(text, position)
            if match is None or len(self.tokens) >= _MOST_TOKENS:
                raise ParseError(f"unexpected {text[position:].strip()[:20]!r} in an affine map")
            self.tokens.append(match[1])
            position = match.end()
        self.index = 0
        self.depth = 0

    @property
    def token(self) -> str:
        return self.tokens[self.index] if self.index < len(self.tokens) else ""

    def take(self) -> str:
        token = self.token
        self.index += 1
        return token

    def results(self) -> tuple[Size, ...]:
        found: list[Size] = []
        while self.token:
            if found and self.take() != ",":
                raise ParseError("expected ',' between the results of an affine map")
            found.append(self.sum())
        return tuple(found)

    def sum(self) -> Size:
        total = self.product()
        while self.token in ("+", "-"):
            sign = 1 if self.take() == "+" else -1
            total = total + sign * self.product()
        return total

    def product(self) -> Size:
        found = self.factor()
        while self.token == "*" or self.token in _WORDS:
            found = _combined(self.take(), found, self.factor())
        return found

    def factor(self) -> Size:
        token = self.take()
        self.depth += 1
        if self.depth > _DEEPEST:
            raise ParseError(f"an affine map is nested deeper than {_DEEPEST} levels")
        if token == "-":
            found: Size = 0 - self.factor()
        elif token == "(":
            found = self.sum()
            if self.take() != ")":
                raise ParseError("expected ')' in an affine map")
        elif token.isdecimal() and len(token) < 19:
            found = int(token)
        elif token in self.values:
            found = self.values[token]
        else:
            raise ParseError(f"expected a number, dim or symbol in an affine map, got {token!r}")
        self.depth -= 1
        return found


def _combined(operation: str, x: Size, y: Size) -> Size:
    if operation == "*":
        return x * y
    if less_equal(1, y) is not True:
        raise ParseError(f"an affine map requires a positive divisor, got {y}")
    if operation == "ceildiv":
        return floor_divide(x + y - 1, y)
    quotient = floor_divide(x, y)
    return quotient if operation == "floordiv" else x - quotient * y

"""The reader of sizes: what `str(dim)` writes, and the usual freedom around it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from tcp_eqsat.errors import Location, ParseError, TcpError, UnknownName
from tcp_eqsat.lang.polynomial import INT64_MAX, Dim, Size, maximum, minimum

MAX_NESTING = 50
MAX_EXPONENT = 64
_TOKEN = re.compile(
    r"\s*(?:(?P<number>[0-9]+)|(?P<name>[A-Za-z_][A-Za-z0-9_.]*)|(?P<mark>\*\*|//|[-+*%(),])|(?P<end>\Z))"
)
_CHOICES = {"min": minimum, "max": maximum}
Symbols = Mapping[str, Dim] | Callable[[str], Dim]


def parse_size(text: str, symbols: Symbols, where: Location | None = None) -> Size:
    """The size that `text` denotes; `where` is the place of its first character.

    sum     = product {("+" | "-") product}
    product = signed {("*" | "//" | "%") signed}
    signed  = {"-"} primary ["**" number]
    primary = number | name | "(" sum ")" | ("min" | "max") "(" sum {"," sum} ")"

    Raises ParseError for other text, UnknownName for a name that `symbols` lack (a callable raises
    what it likes), each with the column, and what the operations raise.
    """
    reader = _Reader(text, symbols, where or Location("<size>", 1, 1))
    result = reader.sum(0)
    reader.expect("end", "an operator or the end")
    return result


class _Reader:
    def __init__(self, text: str, symbols: Symbols, where: Location) -> None:
        self.text = text
        self.symbols = symbols
        self.where = where
        self.position = 0
        self.advance()

    def advance(self) -> None:
        match = _TOKEN.match(self.text, self.position)
        if match is None:
            rest = self.text[self.position :].lstrip()
            self.start = len(self.text) - len(rest)
            raise ParseError(f"a size has no {rest[0]!r}", self.place())
        self.kind = str(match.lastgroup)
        self.token = match[self.kind]
        self.start = match.start(self.kind)
        self.position = match.end()

    def place(self) -> Location:
        return replace(self.where, column=self.where.column + self.start)

    def fail(self, required: str) -> ParseError:
        found = repr(self.token) if self.token else "the end"
        shown = self.text if len(self.text) <= 60 else f"{self.text[:60]}..."
        return ParseError(f"size {shown!r}: expected {required}, got {found}", self.place())

    def take(self, *tokens: str) -> str | None:
        """The current token if it is one of `tokens`, which is then passed."""
        if self.kind != "mark" or self.token not in tokens:
            return None
        token = self.token
        self.advance()
        return token

    def expect(self, kind: str, required: str) -> str:
        if self.kind != kind:
            raise self.fail(required)
        token = self.token
        if kind != "end":
            self.advance()
        return token

    def sum(self, depth: int) -> Size:
        if depth > MAX_NESTING:
            raise self.fail(f"at most {MAX_NESTING} nested brackets")
        result = self.product(depth)
        while token := self.take("+", "-"):
            operand = self.product(depth)
            result = result + operand if token == "+" else result - operand
        return result

    def product(self, depth: int) -> Size:
        result = self.signed(depth)
        while True:
            place = self.place()
            token = self.take("*", "//", "%")
            if token is None:
                return result
            operand = self.signed(depth)
            try:
                if token == "*":
                    result = result * operand
                elif operand == 0:
                    raise ParseError(f"size {self.text!r}: division by 0", place)
                else:
                    result = result // operand if token == "//" else result % operand
            except TcpError as error:
                raise error.at(place) from None

    def signed(self, depth: int) -> Size:
        negative = False
        while self.take("-"):
            negative = not negative
        size = self.power(depth)
        return -size if negative else size

    def power(self, depth: int) -> Size:
        base = self.primary(depth)
        place = self.place()
        if not self.take("**"):
            return base
        exponent = self.number()
        if exponent > MAX_EXPONENT:
            raise ParseError(f"exponents are at most {MAX_EXPONENT}, got {exponent}", place)
        try:
            return base**exponent
        except TcpError as error:
            raise error.at(place) from None

    def number(self) -> int:
        token = self.token
        if self.kind == "number" and (len(token) > 19 or int(token) > INT64_MAX):
            raise self.fail("a number below 2**63")
        return int(self.expect("number", "a number"))

    def primary(self, depth: int) -> Size:
        if self.kind == "number":
            return self.number()
        if self.take("("):
            result = self.sum(depth + 1)
            self.close()
            return result
        place = self.place()
        name = self.expect("name", "a number, a name or '('")
        if name in _CHOICES:
            return self.choice(name, depth)
        return self.lookup(name, place)

    def choice(self, name: str, depth: int) -> Size:
        if not self.take("("):
            raise self.fail("'('")
        operands = [self.sum(depth + 1)]
        while self.take(","):
            operands.append(self.sum(depth + 1))
        self.close()
        return _CHOICES[name](*operands)

    def close(self) -> None:
        if not self.take(")"):
            raise self.fail("')'")

    def lookup(self, name: str, place: Location) -> Size:
        if not isinstance(self.symbols, Mapping):
            return self.symbols(name)
        found = self.symbols.get(name)
        if found is None:
            known = ", ".join(sorted(self.symbols)) or "none"
            raise UnknownName(f"size {self.text!r} names {name!r}; known are {known}", place)
        return found

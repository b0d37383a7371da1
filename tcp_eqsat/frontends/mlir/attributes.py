"""Types and attributes, which are the same for all operations."""

from __future__ import annotations

from tcp_eqsat.errors import ParseError, TcpError
from tcp_eqsat.frontends.mlir.cursor import NAME, Cursor, width
from tcp_eqsat.frontends.mlir.lexer import Source
from tcp_eqsat.frontends.mlir.tree import (
    UNIT,
    Attribute,
    Dense,
    DenseArray,
    ElementType,
    FunctionType,
    Number,
    OpaqueAttribute,
    Symbol,
    SyntaxType,
    TensorText,
)
from tcp_eqsat.frontends.mlir.types import ELEMENT, parse_type

_DIGITS = frozenset("0123456789")
_TYPES = ("tensor<", "vector<", "memref<", "complex<", "tuple<")
_KEPT_AS_TEXT = ("affine_map<", "affine_set<", "dense_resource<", "sparse<", "opaque<", "strided<")
_OPEN = {"(": ")", "[": "]", "{": "}"}


class AttributeParser(Cursor):
    """Methods named after a construct read it and move past it."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._attribute_aliases: dict[str, Attribute] = {}
        self._type_aliases: dict[str, SyntaxType] = {}

    def _refuse_unclosed(self) -> None:
        """A word and its balanced `<...>` are one token; the bracket stands alone where it is not
        balanced."""
        if self.tokens[self.index] and self.tokens[self.index + 1] == "<":
            word = self.token
            if word[0].isalpha() or word[0] in "!#":
                where = self.source.location(self.offset, len(word))
                raise ParseError(f"expected '>' to close {word + '<'!r}", where)

    def type(self) -> SyntaxType:
        self._refuse_unclosed()
        token = self.token
        if token == "(":
            return self.function_type()
        if token[:1] == "!" and token in self._type_aliases:
            self.index += 1
            return self._type_aliases[token]
        if token[:1].isalpha() or token[:1] == "!":
            try:
                result = parse_type(token)
            except TcpError as error:
                raise error.at(self.source.location(self.offset, width(token))) from None
            self.index += 1
            return result
        raise self.error("expected a type")

    def types(self) -> tuple[SyntaxType, ...]:
        """`T, T` (at least one)."""
        result = [self.type()]
        while self.accept(","):
            result.append(self.type())
        return tuple(result)

    def function_type(self) -> FunctionType:
        """`(T, T) -> T` or `(T) -> (T, T)`."""
        with self.nested():
            inputs = self.parenthesised_types()
            self.expect("->", "in a function's type")
            if self.token == "(":
                return FunctionType(inputs, self.parenthesised_types())
            return FunctionType(inputs, (self.type(),))

    def parenthesised_types(self) -> tuple[SyntaxType, ...]:
        self.expect("(", "before types")
        if self.accept(")"):
            return ()
        result = self.types()
        self.expect(")", "after types")
        return result

    def attribute_dict(self) -> dict[str, Attribute]:
        """`{a = 1, b, "c" = [2]}`."""
        with self.nested():
            self.expect("{", "before attributes")
            result: dict[str, Attribute] = {}
            while not self.accept("}"):
                if result:
                    self.expect(",", "between attributes")
                start, token = self.offset, self.token
                if NAME.match(token):
                    key = token
                elif token[:1] == '"' and len(token) > 1:
                    key = self.unquoted(token, start)
                else:
                    raise self.error("expected an attribute's name")
                self.index += 1
                if key in result:
                    where = self.source.location(start, len(token))
                    raise ParseError(f"attribute {key!r} is given twice", where)
                result[key] = self.attribute() if self.accept("=") else UNIT
            return result

    def attribute(self) -> Attribute:
        self._refuse_unclosed()
        token, offset = self.token, self.offset
        first = token[:1]
        if first in _DIGITS or (first == "-" and token != "->" and len(token) > 1):
            self.index += 1
            return Number(token, self.type() if self.accept(":") else None, offset)
        if first == '"' and len(token) > 1:
            self.index += 1
            text = self.unquoted(token, offset)
            if self.accept(":"):
                self.type()
            return text
        if first == "@":
            return self.symbol()
        if first == "[":
            return self._array()
        if first == "{":
            return self.attribute_dict()
        if first == "(" or first == "!":
            return self.type()
        if first == "#":
            return self._hash_attribute()
        if first.isalpha():
            return self._word_attribute()
        raise self.error("expected an attribute")

    def _word_attribute(self) -> Attribute:
        token, offset = self.token, self.offset
        if token.startswith("dense<"):
            self.index += 1
            return self._dense(token, offset)
        if token in ("true", "false"):
            self.index += 1
            return token == "true"
        if token == "unit":
            self.index += 1
            return UNIT
        if token == "loc":
            return self.location_attribute()
        if token.startswith("array<"):
            self.index += 1
            return self._dense_array(token, offset)
        if token.startswith(_TYPES) or ELEMENT.match(token):
            return self.type()
        if token.startswith(_KEPT_AS_TEXT):
            self.index += 1
            if self.accept(":"):
                self.type()
            return OpaqueAttribute(token, offset)
        raise self.error("expected an attribute")

    def _dense(self, token: str, offset: int) -> Dense:
        self.expect(":", "and a type after a dense literal")
        start = self.offset
        stated = self.type()
        if not isinstance(stated, TensorText) or None in stated.shape:
            raise ParseError(
                f"a dense literal requires a tensor type with known sizes, got {stated}",
                self.source.location(start, width(self.tokens[self.index - 1])),
            )
        return Dense(token[6:-1], stated, offset + 6)

    def _dense_array(self, token: str, offset: int) -> DenseArray:
        element, _, values = token[6:-1].partition(":")
        try:
            stated = parse_type(element.strip())
        except TcpError as error:
            raise error.at(self.source.location(offset, width(token))) from None
        if not isinstance(stated, ElementType):
            raise ParseError(
                f"array<...> requires an integer or float type, got {stated}",
                self.source.location(offset, len(token)),
            )
        return DenseArray(values, stated, offset + len(token) - 1 - len(values))

    def _hash_attribute(self) -> Attribute:
        token, offset = self.token, self.offset
        self.index += 1
        if token in self._attribute_aliases:
            return self._attribute_aliases[token]
        if "<" not in token and "." not in token:
            self.index -= 1
            raise self.error("expected an attribute that is defined before")
        return OpaqueAttribute(token, offset)

    def _array(self) -> tuple[Attribute, ...]:
        with self.nested():
            self.expect("[", "before the elements")
            result: list[Attribute] = []
            while not self.accept("]"):
                if result:
                    self.expect(",", "between the elements of an array")
                result.append(self.attribute())
            return tuple(result)

    def symbol(self) -> Symbol:
        offset = self.offset
        path = [self._symbol_name()]
        while self.accept("::"):
            path.append(self._symbol_name())
        return Symbol(tuple(path), offset)

    def _symbol_name(self) -> str:
        token = self.token
        if token[:1] != "@" or len(token) < 2:
            raise self.error("expected a symbol (@name)")
        offset = self.offset
        self.index += 1
        return self.unquoted(token[1:], offset + 1) if token[1] == '"' else token[1:]

    def location_attribute(self) -> OpaqueAttribute:
        """`loc(...)`, kept as text."""
        start = self.offset
        self.index += 1
        return OpaqueAttribute(self.source.text[start : self._balanced()], start)

    def _balanced(self) -> int:
        """Moves past a bracketed text of any content and returns where it ends."""
        if self.token != "(":
            raise self.error("expected '(' after loc")
        closing: list[str] = []
        while True:
            token = self.token
            if not token:
                raise self.error(f"expected {closing[-1]!r}")
            if token in _OPEN:
                closing.append(_OPEN[token])
            elif token in (")", "]", "}"):
                if token != closing[-1]:
                    raise self.error(f"expected {closing[-1]!r}")
                closing.pop()
            self.index += 1
            if not closing:
                return self.starts[self.index - 1] + 1

    def alias_definition(self) -> bool:
        """`#name = attribute` or `!name = type` at the top of a text."""
        token = self.token
        if token[0] not in "#!" or self.tokens[self.index + 1] != "=":
            return False
        self.index += 2
        if token[0] == "#":
            self._attribute_aliases[token] = self.attribute()
        else:
            self._type_aliases[token] = self.type()
        return True

"""Types and attributes, which are the same for all operations."""

from __future__ import annotations

import re

from tcp_eqsat.errors import ParseError, TcpError
from tcp_eqsat.frontends.mlir.cursor import NAME, Cursor, width
from tcp_eqsat.frontends.mlir.lexer import Source
from tcp_eqsat.frontends.mlir.tree import (
    UNIT,
    Attribute,
    Dense,
    DenseArray,
    DenseResource,
    ElementType,
    FunctionType,
    Number,
    OpaqueAttribute,
    OpaqueType,
    Symbol,
    SyntaxType,
    TensorText,
)
from tcp_eqsat.frontends.mlir.types import ELEMENT, parse_type

_BYTES = TensorText((), ElementType("i8"))
_DIGITS = frozenset("0123456789")
_TYPES = ("tensor<", "vector<", "memref<", "complex<", "tuple<")
_KEPT_AS_TEXT = ("affine_map<", "affine_set<", "sparse<", "opaque<", "strided<")
_TYPED = ("sparse<", "opaque<")
_ALIAS = re.compile(r"![A-Za-z_][\w$]*+(?![\w$.<])", re.ASCII)
_LONGEST_TYPE = 100_000
_OPEN = {"(": ")", "[": "]", "{": "}"}


class AttributeParser(Cursor):
    """Methods named after a construct read it and move past it."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._attribute_aliases: dict[str, Attribute] = {}
        self._type_aliases: dict[str, SyntaxType] = {}
        self.resources: dict[str, Dense] = {}
        """The blobs at the end of the text, by key, as literals without a type of their own."""

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
                result = parse_type(self._without_aliases(token))
            except TcpError as error:
                raise error.at(self.source.location(self.offset, width(token))) from None
            self.index += 1
            return result
        raise self.error("expected a type")

    def _without_aliases(self, text: str) -> str:
        """The text of a type with the names of types in it spelt out."""
        if "!" not in text or not self._type_aliases:
            return text
        aliases = self._type_aliases
        result = _ALIAS.sub(lambda name: str(aliases.get(name[0], name[0])), text)
        if len(result) > _LONGEST_TYPE:
            raise self.error(f"expected a type of at most {_LONGEST_TYPE} characters")
        return result

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
        if token.startswith("dense_resource<"):
            self.index += 1
            return self._dense_resource(token, offset)
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
            if token.startswith(_TYPED) and self.accept(":"):
                self.type()
            return OpaqueAttribute(token, offset)
        raise self.error("expected an attribute")

    def _dense(self, token: str, offset: int) -> Dense:
        return Dense(token[6:-1], self._literal_type(), offset + 6)

    def _dense_resource(self, token: str, offset: int) -> DenseResource:
        key = token[15:-1].strip()
        if key[:1] == '"' and len(key) > 1:
            key = self.unquoted(key, offset + 15)
        return DenseResource(key, self._literal_type(), offset + 15)

    def _literal_type(self) -> TensorText:
        self.expect(":", "and a type after a dense literal")
        start = self.offset
        stated = self.type()
        if isinstance(stated, OpaqueType) and stated.name == "vector":
            stated = parse_type(f"tensor<{stated.body}>")
        if not isinstance(stated, TensorText) or None in stated.shape:
            raise ParseError(
                f"a dense literal requires a tensor type with known sizes, got {stated}",
                self.source.location(start, width(self.tokens[self.index - 1])),
            )
        return stated

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

    def structure(self, end: str) -> dict[str, Attribute]:
        """`a = 1, b = [2], c = word, d = <e = 3>` up to the token `end`, moving past that: the body of
        an attribute as dialects spell them."""
        with self.nested():
            result: dict[str, Attribute] = {}
            while not self.accept(end):
                if result:
                    self.expect(",", "between the parts of an attribute")
                key = self.token
                if not NAME.match(key) or key in result:
                    raise self.error("expected the name of another part")
                self.index += 1
                if self.accept("="):
                    result[key] = self._part()
                else:
                    result[key] = UNIT
            return result

    def _part(self) -> Attribute:
        if self.accept("<"):
            return self.structure(">")
        token = self.token
        if NAME.match(token) and not ELEMENT.match(token) and token not in ("true", "false", "loc"):
            self.index += 1
            return token
        return self.attribute()

    def bare(self) -> Attribute:
        """A number, string, word, list of them or `<...>`, without a type: what stands before `: type`
        in an operation's own form."""
        token, offset = self.token, self.offset
        if token == "[":
            with self.nested():
                self.index += 1
                items: list[Attribute] = []
                while not self.accept("]"):
                    if items:
                        self.expect(",", "between the elements of a list")
                    items.append(self.bare())
                return tuple(items)
        if token[:1] in _DIGITS or (token[:1] == "-" and token[1:2] in _DIGITS):
            self.index += 1
            return Number(token, None, offset)
        if token[:1] == '"' and len(token) > 1:
            self.index += 1
            return self.unquoted(token, offset)
        if token in ("true", "false"):
            self.index += 1
            return token == "true"
        return self._part()

    def number_without_type(self) -> Number:
        found = self.bare()
        if not isinstance(found, Number):
            self.index -= 1
            raise self.error("expected a number")
        return found

    def word(self, what: str) -> str:
        token = self.token
        if not NAME.match(token):
            raise self.error(f"expected {what}")
        self.index += 1
        return token

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

    def resource_section(self) -> bool:
        """`{-# dialect_resources: { builtin: { key: "0x..." } } #-}` at the end of a text."""
        if self.token != "{" or self.tokens[self.index + 1 : self.index + 3] != ["-", "#"]:
            return False
        self.index += 3
        self._entries()
        self.expect("#", "after the resources")
        self.expect("-", "after the resources")
        self.expect("}", "after the resources")
        return True

    def _entries(self) -> None:
        """`key: { ... }, key: "blob"`; blobs are kept by their keys."""
        with self.nested():
            while self.token not in ("}", "#"):
                key = self.token
                if not NAME.match(key) and key[:1] != '"':
                    raise self.error("expected the key of a resource")
                key = self.unquoted(key, self.offset) if key[:1] == '"' else key
                self.index += 1
                self.expect(":", "after the key of a resource")
                if self.accept("{"):
                    self._entries()
                    self.expect("}", "after resources")
                elif self.token[:1] == '"':
                    self.resources[key] = Dense(self.token, _BYTES, self.offset)
                    self.index += 1
                else:
                    raise self.error("expected a resource ('{' or a string)")
                if not self.accept(","):
                    return

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


_STRUCTURE = re.compile(r"#?+[\w$.]*+<(.*)>\Z", re.ASCII | re.DOTALL)
_WORD = re.compile(r"#[\w$.]++<(?:\w++\s++)?+([\w]++)>\Z", re.ASCII)


def fields(attribute: Attribute, source: Source) -> dict[str, Attribute]:
    """The parts of `#dialect.name<a = 1, b = [2]>`, or a dictionary itself. Raises ParseError at the
    attribute."""
    if isinstance(attribute, dict):
        return attribute
    if isinstance(attribute, OpaqueAttribute):
        match = _STRUCTURE.match(attribute.text)
        if match is not None:
            try:
                return AttributeParser(Source(match[1], source.file)).structure("")
            except TcpError as error:
                where = source.location(attribute.offset, width(attribute.text))
                raise ParseError(error.message, where) from None
    raise ParseError("expected an attribute with named parts", None)


def word_of(attribute: Attribute) -> str | None:
    """The word of `"word"`, `#dialect<kind word>`, `#dialect.kind<word>`; None of anything else."""
    if isinstance(attribute, str):
        return attribute
    match = _WORD.match(attribute.text) if isinstance(attribute, OpaqueAttribute) else None
    return match[1] if match else None

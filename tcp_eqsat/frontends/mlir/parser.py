"""The recursive parser: tokens to the syntax tree.

What all of MLIR shares is here: operations in generic form, regions, attributes, types. How an
operation is spelt without quotes is a `Form`, looked up by name in the table the parser is given
(`forms.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from tcp_eqsat.errors import ParseError, TcpError, UnknownName
from tcp_eqsat.frontends.mlir.lexer import Source, tokenize
from tcp_eqsat.frontends.mlir.tree import (
    UNIT,
    Argument,
    Attribute,
    Block,
    Dense,
    DenseArray,
    ElementType,
    FunctionType,
    Number,
    OpaqueAttribute,
    Reference,
    Region,
    Symbol,
    SyntaxOp,
    SyntaxType,
    TensorText,
)
from tcp_eqsat.frontends.mlir.types import parse_type

MAX_DEPTH = 48
_MOST_RESULTS = 100_000
_DIGITS = frozenset("0123456789")
_TYPE_HEADS = ("tensor<", "vector<", "memref<", "complex<", "tuple<", "index", "none")
_TYPE_WORD = re.compile(r"(?:[su]?i\d+|b?f\d\w*|tf32)\Z", re.ASCII)
_NAME = re.compile(r"[A-Za-z_][\w$.]*+\Z", re.ASCII)
_ESCAPE = re.compile(r'\\([0-9A-Fa-f]{2}|["\\nt])', re.ASCII)
_SIMPLE_ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "t": "\t"}
_OPEN = {"(": ")", "[": "]", "{": "}"}
_KEPT_AS_TEXT = ("affine_map<", "affine_set<", "dense_resource<", "sparse<", "opaque<", "strided<")


@dataclass(slots=True)
class Draft:
    """The parts of an operation while its form is read."""

    operands: list[Reference] = field(default_factory=list)
    attributes: dict[str, Attribute] = field(default_factory=dict)
    regions: list[Region] = field(default_factory=list)
    operand_types: tuple[SyntaxType, ...] = ()
    result_types: tuple[SyntaxType, ...] = ()


Form = Callable[["Parser", Draft], None]


class Parser:
    """A cursor over the tokens of one text. Methods named after a construct read it and move
    past it."""

    def __init__(self, source: Source, forms: Mapping[str, Form]) -> None:
        self.source = source
        self.forms = forms
        self.tokens, self.starts = tokenize(source.text)
        self.index = 0
        self._depth = 0
        self._attribute_aliases: dict[str, Attribute] = {}
        self._type_aliases: dict[str, SyntaxType] = {}

    # tokens

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
            f"{requirement}, got {found}", self.source.location(self.offset, _width(token))
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

    # operations and regions

    def module(self) -> tuple[SyntaxOp, ...]:
        """The whole text."""
        operations: list[SyntaxOp] = []
        while self.token:
            if not self._alias_definition():
                operations.append(self.operation())
        return tuple(operations)

    def operation(self) -> SyntaxOp:
        tokens = self.tokens
        packs: list[tuple[str, int, int]] = []
        if tokens[self.index][:1] == "%":
            packs = self._result_packs()
        offset = self.starts[self.index]
        written = tokens[self.index]
        draft = Draft()
        if written[:1] == '"' and len(written) > 1:
            self.index += 1
            name = self._unquoted(written, offset)
            self._generic(draft)
        elif _NAME.match(written):
            name = written
            form = self._form(name)
            self.index += 1
            form(self, draft)
        else:
            raise self.error("expected an operation")
        if tokens[self.index] == "loc":
            self.location_attribute()
        return SyntaxOp(
            name,
            self._result_names(packs, len(draft.result_types)),
            tuple(draft.operands),
            draft.attributes,
            tuple(draft.regions),
            draft.operand_types,
            draft.result_types,
            offset,
            len(written),
        )

    def _form(self, name: str) -> Form:
        form = self.forms.get(name)
        if form is not None:
            return form
        dialect, dot, _ = name.partition(".")
        form = self.forms.get(f"{dialect}.*") if dot else None
        if form is not None:
            return form
        where = self.source.location(self.offset, len(name))
        known = sorted({key.partition(".")[0] for key in self.forms if "." in key})
        if dot and dialect not in known:
            raise UnknownName(f"unknown dialect {dialect!r}; known are {', '.join(known)}", where)
        raise UnknownName(f"no form without quotes is known for operation {name!r}", where)

    def _result_packs(self) -> list[tuple[str, int, int]]:
        """`%a, %b:2 =` as (name, how many, offset)."""
        packs = []
        while True:
            name, offset = self.value_name("a result")
            count = 1
            if self.accept(":"):
                if not self.token.isdigit() or len(self.token) > 6:
                    raise self.error("expected the number of results")
                count = int(self.take())
                if count > _MOST_RESULTS:
                    self.index -= 1
                    raise self.error(f"expected at most {_MOST_RESULTS} results")
            packs.append((name, count, offset))
            if not self.accept(","):
                break
        self.expect("=", "after the names of results")
        return packs

    def _result_names(
        self, packs: list[tuple[str, int, int]], produced: int
    ) -> tuple[Reference, ...]:
        if not packs:
            return ()
        named = sum(count for _, count, _ in packs)
        if named != produced:
            name, _, offset = packs[0]
            raise ParseError(
                f"the operation has {produced} result{'s' * (produced != 1)}, {named} are named",
                self.source.location(offset, len(name)),
            )
        return tuple(
            Reference(name if count == 1 else f"{name}#{number}", offset)
            for name, count, offset in packs
            for number in range(count)
        )

    def _generic(self, draft: Draft) -> None:
        """What follows a quoted name: (operands) <{properties}> (regions) {attributes} :
        function type."""
        self.expect("(", "before the operands")
        if not self.accept(")"):
            self.operands(draft)
            self.expect(")", "after the operands")
        if self.token == "[":
            raise self.error(
                "expected no successor blocks (branches between blocks are not supported)"
            )
        if self.token == "<" and self.tokens[self.index + 1] == "{":
            self.index += 1
            draft.attributes.update(self.attribute_dict())
            self.expect(">", "after the properties")
        if self.token == "(":
            self.index += 1
            while True:
                draft.regions.append(self.region())
                if not self.accept(","):
                    break
            self.expect(")", "after the regions")
        if self.token == "{":
            draft.attributes.update(self.attribute_dict())
        self.expect(":", "before the operation's type")
        signature = self.function_type()
        draft.operand_types, draft.result_types = signature.inputs, signature.results
        if len(signature.inputs) != len(draft.operands):
            raise ParseError(
                f"the operation has {len(draft.operands)} operands, "
                f"its type states {len(signature.inputs)}",
                self.source.location(self.starts[self.index - 1]),
            )

    def operands(self, draft: Draft) -> None:
        """`%a, %b` (at least one)."""
        tokens, starts, add = self.tokens, self.starts, draft.operands.append
        while True:
            index = self.index
            token = tokens[index]
            if token[:1] != "%" or len(token) < 2:
                raise self.error("expected an operand (%name)")
            add(Reference(token, starts[index]))
            if tokens[index + 1] != ",":
                self.index = index + 1
                return
            self.index = index + 2

    def value_name(self, what: str) -> Reference:
        token = self.token
        if token[:1] != "%" or len(token) < 2:
            raise self.error(f"expected {what} (%name)")
        offset = self.offset
        self.index += 1
        return Reference(token, offset)

    def region(self, arguments: tuple[Argument, ...] = ()) -> Region:
        """`{ operations }` or `{ ^label(arguments): operations ... }`; `arguments` are
        those of the entry block when the surrounding form states them."""
        start = self.offset
        with self.nested():
            self.expect("{", "to open a region")
            blocks: list[Block] = []
            label = ""
            while True:
                if self.token[:1] == "^":
                    label = self.take()
                    arguments = self._block_arguments() if self.token == "(" else ()
                    self.expect(":", "after a block's label")
                operations: list[SyntaxOp] = []
                while self.token != "}" and self.token[:1] != "^":
                    if not self.token:
                        raise self.error("expected '}' to close the region")
                    operations.append(self.operation())
                if operations or label or arguments or self.token == "}":
                    blocks.append(Block(label, arguments, tuple(operations)))
                if self.accept("}"):
                    return Region(tuple(blocks), start)

    def _block_arguments(self) -> tuple[Argument, ...]:
        self.expect("(", "before the arguments of a block")
        arguments: list[Argument] = []
        while not self.accept(")"):
            if arguments:
                self.expect(",", "between arguments")
            name = self.value_name("an argument")
            self.expect(":", "before an argument's type")
            arguments.append(Argument(name, self.type()))
            if self.token == "loc":
                self.location_attribute()
        return tuple(arguments)

    # types

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
                raise error.at(self.source.location(self.offset, _width(token))) from None
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

    # attributes

    def attribute_dict(self) -> dict[str, Attribute]:
        """`{a = 1, b, "c" = [2]}`."""
        with self.nested():
            self.expect("{", "before attributes")
            result: dict[str, Attribute] = {}
            while not self.accept("}"):
                if result:
                    self.expect(",", "between attributes")
                start, token = self.offset, self.token
                if _NAME.match(token):
                    key = token
                elif token[:1] == '"' and len(token) > 1:
                    key = self._unquoted(token, start)
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
            text = self._unquoted(token, offset)
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
        if token.startswith(_TYPE_HEADS) or _TYPE_WORD.match(token):
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
                self.source.location(start, _width(self.tokens[self.index - 1])),
            )
        return Dense(token[6:-1], stated, offset + 6)

    def _dense_array(self, token: str, offset: int) -> DenseArray:
        element, _, values = token[6:-1].partition(":")
        try:
            stated = parse_type(element.strip())
        except TcpError as error:
            raise error.at(self.source.location(offset, _width(token))) from None
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
        return self._unquoted(token[1:], offset + 1) if token[1] == '"' else token[1:]

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

    def _alias_definition(self) -> bool:
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

    def _unquoted(self, token: str, offset: int) -> str:
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


def _width(token: str) -> int:
    """How much of a token a message underlines: its first line."""
    return len(token.partition("\n")[0])

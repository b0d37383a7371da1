"""The steps that the forms of operations without quotes are put together from, and the forms of
functions and modules.

Whatever the spelling, the tree holds the attributes of the generic form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tcp_eqsat.errors import ParseError
from tcp_eqsat.frontends.mlir.parser import Draft, Form, Parser
from tcp_eqsat.frontends.mlir.tree import (
    Argument,
    Attribute,
    FunctionType,
    Reference,
    SyntaxType,
)


def sequence(*steps: Form) -> Form:
    """The steps one after the other."""

    def form(parser: Parser, draft: Draft) -> None:
        for step in steps:
            step(parser, draft)

    return form


def operands(parser: Parser, draft: Draft) -> None:
    """`%a, %b`, or nothing."""
    if parser.token[:1] == "%":
        parser.operands(draft)


def attributes(parser: Parser, draft: Draft) -> None:
    """`{a = 1}`, or nothing."""
    if parser.token == "{":
        draft.attributes.update(parser.attribute_dict())


def in_parentheses(parser: Parser, draft: Draft) -> None:
    """`(%a, %b)`."""
    parser.expect("(", "before the operands")
    operands(parser, draft)
    parser.expect(")", "after the operands")


def keyword_attributes(parser: Parser, draft: Draft) -> None:
    """`attributes {a = 1}`, or nothing."""
    if parser.accept("attributes"):
        draft.attributes.update(parser.attribute_dict())


Reader = Callable[[Parser], Mapping[str, Attribute]]


def named(**readers: str | Reader) -> Form:
    """`, name = value` any number of times (the comma only after something else): `name` is kept as
    the attribute that the table gives, or read by its function."""

    def step(parser: Parser, draft: Draft) -> None:
        while True:
            comma = parser.token == ","
            name = parser.tokens[parser.index + comma]
            if name not in readers or parser.tokens[parser.index + comma + 1] != "=":
                return
            parser.index += comma + 2
            reader = readers[name]
            draft.attributes.update({reader: parser.bare()} if isinstance(reader, str) else reader(parser))

    return step


def word(key: str) -> Form:
    """`WORD` and a comma after it if there is one, kept as attribute `key`."""

    def step(parser: Parser, draft: Draft) -> None:
        draft.attributes[key] = parser.word(f"a word for {key}")
        parser.accept(",")

    return step


def text(key: str) -> Form:
    """`"text"`, kept as attribute `key`."""

    def step(parser: Parser, draft: Draft) -> None:
        token = parser.token
        if token[:1] != '"' or len(token) < 2:
            raise parser.error(f"expected a string for {key}")
        draft.attributes[key] = parser.unquoted(token, parser.offset)
        parser.index += 1

    return step


def symbol(key: str) -> Form:
    """`@name`, kept as attribute `key`."""

    def step(parser: Parser, draft: Draft) -> None:
        draft.attributes[key] = parser.symbol()

    return step


def value(parser: Parser, draft: Draft) -> None:
    """An attribute with its type, `dense<1.0> : tensor<f32>`, which is the result's type."""
    start = parser.offset
    literal = parser.attribute()
    draft.attributes["value"] = literal
    stated = getattr(literal, "type", None)
    if stated is None:
        raise ParseError(
            "a constant requires a literal with its type", parser.source.location(start)
        )
    draft.result_types = (stated,)


def signature(parser: Parser, draft: Draft) -> None:
    """`: T` for all operands and the result, or `: T, T -> T`, or `: (T, T) -> T`."""
    parser.expect(":", "before the operation's type")
    stated = parser.types()
    if parser.accept("->"):
        draft.operand_types = stated
        draft.result_types = parser.parenthesised_types() if parser.token == "(" else parser.types()
        return
    if len(stated) != 1:
        raise parser.error("expected '->' and the result's type")
    if isinstance(stated[0], FunctionType):
        draft.operand_types, draft.result_types = stated[0].inputs, stated[0].results
    else:
        draft.operand_types = stated * len(draft.operands)
        draft.result_types = stated


def operand_types(parser: Parser, draft: Draft) -> None:
    """`: T, T`, one for each operand; nothing when there are none."""
    if draft.operands or parser.token == ":":
        parser.expect(":", "before the types of the operands")
        start = parser.offset
        draft.operand_types = parser.types()
        if len(draft.operand_types) != len(draft.operands):
            raise ParseError(
                f"{len(draft.operands)} operands have {len(draft.operand_types)} types",
                parser.source.location(start),
            )


def pairwise_types(parser: Parser, draft: Draft) -> None:
    """`: T, T`, the types of operands and results alike; nothing, or `()`, when there are none."""
    if parser.accept("("):
        parser.expect(")", "after '('")
    operand_types(parser, draft)
    draft.result_types = draft.operand_types


def operand_type(parser: Parser, draft: Draft) -> None:
    """`: T`, of every operand, or `: T, T` of each."""
    parser.expect(":", "before the operand's type")
    stated = parser.types()
    draft.operand_types = stated * len(draft.operands) if len(stated) == 1 else stated


def conversion(parser: Parser, draft: Draft) -> None:
    """`: T, T to T`."""
    parser.expect(":", "before the operation's type")
    draft.operand_types = parser.types()
    parser.expect("to", "and the result's type")
    draft.result_types = parser.types()


def result_type(parser: Parser, draft: Draft) -> None:
    """`: T`."""
    parser.expect(":", "before the result's type")
    draft.result_types = (parser.type(),)


def function(parser: Parser, draft: Draft) -> None:
    """`[private] @name(%a: T {...}, ...) -> (T {...}, ...) attributes {...} { body }`."""
    if parser.token in ("public", "private", "nested"):
        draft.attributes["sym_visibility"] = parser.take()
    draft.attributes["sym_name"] = parser.symbol()
    arguments = _arguments(parser)
    results = _results(parser) if parser.accept("->") else ()
    draft.attributes["function_type"] = FunctionType(
        tuple(type_ for _, type_ in arguments), results
    )
    if parser.accept("attributes"):
        draft.attributes.update(parser.attribute_dict())
    if parser.token == "{":
        draft.regions.append(parser.region(arguments))


def _arguments(parser: Parser) -> tuple[Argument, ...]:
    """The arguments, or types only (a declaration), which have empty names."""
    parser.expect("(", "before a function's arguments")
    arguments: list[Argument] = []
    named = parser.token[:1] == "%"
    while not parser.accept(")"):
        if arguments:
            parser.expect(",", "between arguments")
        name = parser.value_name("an argument") if named else Reference("", parser.offset)
        if named:
            parser.expect(":", "before an argument's type")
        arguments.append(Argument(name, parser.type()))
        if parser.token == "{":
            parser.attribute_dict()
        if parser.token == "loc":
            parser.location_attribute()
    return tuple(arguments)


def _results(parser: Parser) -> tuple[SyntaxType, ...]:
    if parser.token != "(":
        return (parser.type(),)
    parser.take()
    results: list[SyntaxType] = []
    while not parser.accept(")"):
        if results:
            parser.expect(",", "between results")
        results.append(parser.type())
        if parser.token == "{":
            parser.attribute_dict()
    return tuple(results)


def module(parser: Parser, draft: Draft) -> None:
    """`@name attributes {...} { operations }`, the name and the attributes optional."""
    if parser.token[:1] == "@":
        draft.attributes["sym_name"] = parser.symbol()
    if parser.accept("attributes"):
        draft.attributes.update(parser.attribute_dict())
    draft.regions.append(parser.region())



"""The recursive parser of operations: tokens to the syntax tree.

What all of MLIR shares is here and in `attributes`: operations in generic form and regions. How an
operation is spelt without quotes is a `Form`, looked up by name in the table the parser is given
(`forms`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tcp_eqsat.errors import ParseError, UnknownName
from tcp_eqsat.frontends.mlir.attributes import AttributeParser
from tcp_eqsat.frontends.mlir.cursor import NAME
from tcp_eqsat.frontends.mlir.lexer import Source
from tcp_eqsat.frontends.mlir.tree import (
    Argument,
    Attribute,
    Block,
    Reference,
    Region,
    SyntaxOp,
    SyntaxType,
)

_MOST_RESULTS = 100_000


@dataclass(slots=True)
class Draft:
    """The parts of an operation while its form is read."""

    operands: list[Reference] = field(default_factory=list)
    attributes: dict[str, Attribute] = field(default_factory=dict)
    regions: list[Region] = field(default_factory=list)
    operand_types: tuple[SyntaxType, ...] = ()
    result_types: tuple[SyntaxType, ...] = ()


Form = Callable[["Parser", Draft], None]


class Parser(AttributeParser):
    """Reads one text. Methods named after a construct read it and move past it."""

    def __init__(self, source: Source, forms: Mapping[str, Form]) -> None:
        super().__init__(source)
        self.forms = forms

    def module(self) -> tuple[SyntaxOp, ...]:
        """The whole text."""
        operations: list[SyntaxOp] = []
        while self.token:
            if not self.alias_definition() and not self.resource_section():
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
            name = self.unquoted(written, offset)
            self.generic(draft)
        elif NAME.match(written):
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

    def generic(self, draft: Draft) -> None:
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
            index += 1
            self.index = index
            if tokens[index] != "," or tokens[index + 1][:1] != "%":
                return
            self.index = index + 1

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
                    arguments = self.block_arguments() if self.token == "(" else ()
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

    def block_arguments(self) -> tuple[Argument, ...]:
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

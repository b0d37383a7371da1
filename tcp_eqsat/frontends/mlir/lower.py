"""From the syntax tree to our language: functions, values in scope, checks against what the text
states."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tcp_eqsat.errors import (
    LimitError,
    Location,
    ParseError,
    ShapeMismatch,
    TcpError,
    TypeMismatch,
    UnknownName,
    VerificationError,
)
from tcp_eqsat.frontends.mlir.flow import FLOW
from tcp_eqsat.frontends.mlir.hlo import HLO
from tcp_eqsat.frontends.mlir.lexer import Source
from tcp_eqsat.frontends.mlir.shape_dialect import SHAPE, UNNAMED
from tcp_eqsat.frontends.mlir.site import (
    Content,
    Lowering,
    Scope,
    Site,
    counted,
    format_stated,
)
from tcp_eqsat.frontends.mlir.sizes import Answers, Sizes
from tcp_eqsat.frontends.mlir.tree import (
    Block,
    FunctionType,
    Reference,
    Symbol,
    SyntaxOp,
    SyntaxType,
)
from tcp_eqsat.lang.dims import symbols_of
from tcp_eqsat.lang.program import Function, Node, Program

DIALECTS: Mapping[str, Mapping[str, Lowering]] = {
    "": UNNAMED,
    "flow": FLOW,
    "shape": SHAPE,
    "xla_hlo": HLO,
}
_MOST_PASSES = 16
_FUNCTIONS = frozenset({"func", "func.func"})
_MODULES = frozenset({"module", "builtin.module"})
_RETURNS = frozenset({"return", "func.return", "std.return"})


def lower_program(operations: tuple[SyntaxOp, ...], source: Source) -> Program:
    """The functions of a text that have bodies. Raises TcpError children placed in `source`."""
    functions: dict[str, Function] = {}
    for op in _functions(operations, source):
        function = _lower_function(op, source)
        if function.name in functions:
            raise VerificationError(
                f"function {function.name!r} is defined twice", _place(op, source)
            )
        functions[function.name] = function
    if not functions:
        raise ParseError("the text has no function", source.location(0))
    return Program(functions)


def _functions(operations: tuple[SyntaxOp, ...], source: Source) -> Iterator[SyntaxOp]:
    """The function definitions in modules of any depth."""
    for op in operations:
        if op.name in _MODULES:
            for region in op.regions:
                for block in region.blocks:
                    yield from _functions(block.operations, source)
        elif op.name not in _FUNCTIONS:
            raise VerificationError(
                f"a function is required at the top of a text, got operation {op.name}",
                _place(op, source),
            )
        elif op.regions and op.regions[0].blocks:
            yield op


def _place(op: SyntaxOp, source: Source) -> Location:
    return source.location(op.offset, op.length)


def _lower_function(op: SyntaxOp, source: Source) -> Function:
    """Passes over the body until one learns nothing new of the sizes."""
    answers = Answers()
    for _ in range(_MOST_PASSES):
        sizes = Sizes(answers)
        function = _FunctionPass(op, Scope(source, sizes)).run()
        if not sizes.version:
            return dataclasses.replace(function, guards=answers.guards)
        answers = sizes.answers()
    raise LimitError(
        f"the sizes of function {function.name!r} are not settled after {_MOST_PASSES} passes",
        _place(op, source),
    )


class _FunctionPass:
    """One pass over a function's body."""

    def __init__(self, op: SyntaxOp, scope: Scope) -> None:
        self.op, self.scope, self.source = op, scope, scope.source
        symbol = op.attributes.get("sym_name")
        type_ = op.attributes.get("function_type")
        if not isinstance(symbol, Symbol | str) or not isinstance(type_, FunctionType):
            raise VerificationError(
                "a function requires sym_name and function_type", _place(op, self.source)
            )
        self.name = symbol if isinstance(symbol, str) else symbol.name
        self.type = type_

    def run(self) -> Function:
        block = self._body()
        for argument in block.arguments:
            self._define_argument(argument.name, argument.type)
        *operations, end = block.operations
        for op in operations:
            self._lower_operation(op)
        results = self._results(end)
        scope = self.scope
        function = Function(
            self.name,
            tuple(scope.parameters.values()),
            results,
            names=scope.names,
            locations=scope.locations,
        )
        if not scope.sizes.version:
            _check_sizes(function)
        return function

    def _body(self) -> Block:
        region = self.op.regions[0]
        where = self.source.location(region.offset)
        if len(self.op.regions) != 1 or len(region.blocks) != 1:
            raise VerificationError("a function requires a body of one block", where)
        block = region.blocks[0]
        if not block.operations or block.operations[-1].name not in _RETURNS:
            raise VerificationError("a function requires a return as its last operation", where)
        stated = tuple(argument.type for argument in block.arguments)
        if stated != self.type.inputs:
            raise VerificationError("a function's block requires the arguments of its type", where)
        return block

    def _define_argument(self, name: Reference, stated: SyntaxType) -> None:
        where = self.scope.location_of(name)
        if len(name.name) < 2:
            raise VerificationError(
                "a function with a body requires names for its arguments", where
            )
        with _placed(where):
            type_ = self.scope.tensor_type(stated, name.offset)
            node = self.scope.add_parameter(name.name[1:], type_)
        self.scope.define(name, node)
        self._record(node, name.name, where)

    def _lower_operation(self, op: SyntaxOp) -> None:
        site = Site(self.scope, op)
        lowering = _lowering_of(op, self.source)
        try:
            self._check_operands(site)
            contents = lowering(site)
            contents = contents if isinstance(contents, tuple) else (contents,)
            self._check_results(site, contents)
        except TcpError as error:
            if error.where is not None:
                raise
            raise _with_notes(error, site) from None
        where = site.where
        for reference, content in zip(op.results, contents, strict=False):  # or none is named
            self.scope.define(reference, content)
            if isinstance(content, Node):
                self._record(content, reference.name, where)

    def _record(self, node: Node, name: str, where: Location) -> None:
        """Names a node, and places it and what its lowering made on the way to it."""
        self.scope.names.setdefault(node, name[1:])
        locations, stack = self.scope.locations, [node]
        while stack:
            found = stack.pop()
            if found not in locations:
                locations[found] = where
                stack += found.operands

    def _check_operands(self, site: Site) -> None:
        """Every operand is defined and has its stated type."""
        op = site.op
        for number, reference in enumerate(op.operands):
            content = self.scope.lookup(reference).content
            if number == len(op.operand_types):
                return
            if not self.scope.agree(op.operand_types[number], content):
                raise TypeMismatch(
                    f"{reference.name} is {_format(content)}, the text states "
                    f"{format_stated(op.operand_types[number])}",
                    self.scope.location_of(reference),
                )

    def _check_results(self, site: Site, contents: tuple[Content, ...]) -> None:
        op = site.op
        if len(contents) != len(op.result_types):
            raise TypeMismatch(
                f"{op.name} gives {counted(len(contents), 'result')}, the text states {len(op.result_types)}"
            )
        for content, stated in zip(contents, op.result_types, strict=True):
            if not self.scope.agree(stated, content):
                kind = ShapeMismatch if isinstance(content, Node) else TypeMismatch
                raise kind(
                    f"{op.name} gives {_format(content)}, the text states {format_stated(stated)}"
                )

    def _results(self, end: SyntaxOp) -> tuple[Node, ...]:
        stated = self.type.results
        with _placed(_place(end, self.source)):
            if len(end.operands) != len(stated):
                raise TypeMismatch(
                    f"function {self.name!r} requires {counted(len(stated), 'result')}, "
                    f"got {len(end.operands)}"
                )
            self._check_operands(Site(self.scope, end))
            return tuple(map(self._result, end.operands, stated))

    def _result(self, reference: Reference, stated: SyntaxType) -> Node:
        where = self.scope.location_of(reference)
        content = self.scope.lookup(reference).content
        if not isinstance(content, Node):
            raise TypeMismatch("a function's result must be a tensor, got a shape", where)
        if not self.scope.agree(stated, content):
            raise TypeMismatch(
                f"{reference.name} is {content.type}, the function states {format_stated(stated)}",
                where,
            )
        return content


@contextmanager
def _placed(where: Location) -> Iterator[None]:
    """Places errors that have no place yet."""
    try:
        yield
    except TcpError as error:
        raise error.at(where) from None


def _check_sizes(function: Function) -> None:
    """Raises ShapeMismatch where a size does not follow from the parameters' shapes."""
    given = set(function.symbols)
    for node in function.nodes():
        for found in symbols_of(*node.shape):
            if found not in given:
                raise ShapeMismatch(
                    f"the type {node.type} has a size that no parameter determines, {found}",
                    function.locations.get(node),
                )


def _format(content: Content) -> str:
    return (
        str(content.type) if isinstance(content, Node) else f"shape {list(map(str, content.sizes))}"
    )


def _lowering_of(op: SyntaxOp, source: Source) -> Lowering:
    """Raises UnknownName, with the closest known name."""
    dialect, dot, short = op.name.partition(".")
    if not dot:
        dialect, short = "", op.name
    table = DIALECTS.get(dialect)
    if dot and table is None:
        known = ", ".join(name for name in DIALECTS if name)
        raise UnknownName(f"unknown dialect {dialect!r}; known are {known}", _place(op, source))
    found = (table or {}).get(short)
    if found is None:
        near = difflib.get_close_matches(short[:64], list(table or ()), 1)
        hint = f"; did you mean {dialect + dot + near[0]!r}?" if near else ""
        raise UnknownName(f"unknown operation {op.name!r}{hint}", _place(op, source))
    return found


def _with_notes(error: TcpError, site: Site) -> TcpError:
    """The error at its operation; where types are at fault, with the place and type of each
    operand."""
    notes: list[str] = []
    if isinstance(error, TypeMismatch):
        for reference in dict.fromkeys(site.op.operands):
            value = site.scope.values.get(reference.name)
            if value is not None:
                place = site.scope.source.location(value.defined.offset)
                notes.append(
                    f"{reference.name} is defined at {place} with type {_format(value.content)}"
                )
    return type(error)("\n".join([error.message, *notes[:4]]), site.where)

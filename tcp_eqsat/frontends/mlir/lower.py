"""From the syntax tree to our language: modules, functions, what they expect of themselves."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tcp_eqsat.errors import (
    LimitError,
    ParseError,
    ShapeMismatch,
    TcpError,
    TypeMismatch,
    VerificationError,
)
from tcp_eqsat.frontends.mlir.body import check_stated, place, record, run_block, run_region
from tcp_eqsat.frontends.mlir.lexer import Source
from tcp_eqsat.frontends.mlir.scope import (
    FUNCTIONS,
    MODULES,
    Content,
    Context,
    Expectation,
    Extents,
    Pack,
    Scope,
    Symbols,
    Token,
    is_token,
    tensors_of,
)
from tcp_eqsat.frontends.mlir.site import Site, counted
from tcp_eqsat.frontends.mlir.sizes import Answers, Sizes
from tcp_eqsat.frontends.mlir.tree import (
    Argument,
    Block,
    Dense,
    ElementType,
    FunctionType,
    OpaqueType,
    Symbol,
    SyntaxOp,
    SyntaxType,
    TupleText,
)
from tcp_eqsat.lang.dims import symbols_of
from tcp_eqsat.lang.program import Function, Program
from tcp_eqsat.lang.types import BOOL, TensorType

_MOST_PASSES = 16
_MOST_MODULES = 1000


@dataclass(frozen=True, eq=False)
class Lowered:
    """A function with what it expects of itself, and the offsets of the functions it calls."""

    function: Function
    expectations: tuple[Expectation, ...]
    called: frozenset[int]


def lower_program(
    operations: tuple[SyntaxOp, ...], source: Source, resources: Mapping[str, Dense] | None = None
) -> Program:
    """The functions of a text that have bodies. Those that are private and called by others are
    part of these. Raises TcpError children placed in `source`."""
    functions = lower_functions(operations, source, resources)
    if not functions:
        raise ParseError("the text has no function", source.location(0))
    return Program({function.name: function for function in functions})


def lower_functions(
    operations: tuple[SyntaxOp, ...], source: Source, resources: Mapping[str, Dense] | None = None
) -> list[Function]:
    """The functions of a text, in order; of several of one name in different modules the later ones are
    called name.2, name.3, ..."""
    found = list(find_functions(operations, source))
    called: set[int] = set()
    private = [each for each in found if _is_private(each[1])]
    results: dict[int, Lowered] = {}
    for table, op in [*(each for each in found if each not in private), *private]:
        if op.offset in called and _is_private(op):
            continue
        lowered = lower_function(op, table, source, resources or {})
        called |= lowered.called
        results[op.offset] = lowered
    return unique_names(results[op.offset].function for _, op in found if op.offset in results)


def unique_names(functions: Iterable[Function]) -> list[Function]:
    """The functions, of which later ones of a known name get a number after it."""
    count: dict[str, int] = {}
    unique: list[Function] = []
    for function in functions:
        number = count[function.name] = count.get(function.name, 0) + 1
        name = function.name if number == 1 else f"{function.name}.{number}"
        unique.append(function if number == 1 else dataclasses.replace(function, name=name))
    return unique


def _is_private(op: SyntaxOp) -> bool:
    return op.attributes.get("sym_visibility") == "private"


def find_functions(operations: tuple[SyntaxOp, ...], source: Source) -> Iterator[tuple[Symbols, SyntaxOp]]:
    """The function definitions in modules of any depth, with the module around each."""
    pending: list[tuple[tuple[SyntaxOp, ...], Symbols | None]] = [(operations, None)]
    visited = 0
    found: list[tuple[Symbols, SyntaxOp]] = []
    while pending:
        inside, outer = pending.pop()
        visited += 1
        if visited > _MOST_MODULES:
            raise LimitError(f"the text has more than {_MOST_MODULES} modules", source.location(0))
        functions: dict[str, SyntaxOp] = {}
        modules: dict[str, Symbols] = {}
        table = Symbols(functions, modules, outer)
        for op in inside:
            if op.name in MODULES:
                for region in op.regions:
                    for block in region.blocks:
                        pending.append((block.operations, table))
            elif op.name in FUNCTIONS:
                name = symbol_name(op, source)
                if op.regions and op.regions[0].blocks:
                    if name in functions:
                        raise VerificationError(f"function {name!r} is defined twice", place(op, source))
                    functions[name] = op
                    found.append((table, op))
            else:
                raise VerificationError(
                    f"a function is required at the top of a text, got operation {op.name}",
                    place(op, source),
                )
    return iter(sorted(found, key=lambda each: each[1].offset))


def symbol_name(op: SyntaxOp, source: Source) -> str:
    """Raises VerificationError where a function has no name."""
    symbol = op.attributes.get("sym_name")
    if not isinstance(symbol, Symbol | str):
        raise VerificationError("a function requires sym_name and function_type", place(op, source))
    return symbol if isinstance(symbol, str) else symbol.name


def function_type(op: SyntaxOp, source: Source) -> FunctionType:
    """Raises VerificationError where a function has none."""
    type_ = op.attributes.get("function_type")
    if not isinstance(type_, FunctionType):
        raise VerificationError("a function requires sym_name and function_type", place(op, source))
    return type_


def lower_function(
    op: SyntaxOp, symbols: Symbols, source: Source, resources: Mapping[str, Dense]
) -> Lowered:
    """Passes over the body until one learns nothing new of the sizes."""
    answers = Answers()
    for _ in range(_MOST_PASSES):
        sizes = Sizes(answers)
        scope = Scope(Context(source, sizes, resources, run_region), symbols)
        lowered = _run(op, scope)
        if not sizes.version:
            return dataclasses.replace(
                lowered, function=dataclasses.replace(lowered.function, guards=answers.guards))
        answers = sizes.answers()
    raise LimitError(
        f"the sizes of function {lowered.function.name!r} are not settled after {_MOST_PASSES} passes",
        place(op, source),
    )


def _run(op: SyntaxOp, scope: Scope) -> Lowered:
    """One pass over a function."""
    source, context = scope.source, scope.context
    name, type_ = symbol_name(op, source), function_type(op, source)
    block = function_block(op, source)
    contents = tuple(_argument(scope, argument) for argument in block.arguments)
    returned = run_block(scope, block, contents, source.location(op.regions[0].offset))
    end = block.operations[-1]
    check_results(scope, end, returned, type_.results, name)
    try:
        site = Site(scope, end)
        results = tuple(map(site.node_of, tensors_of(returned)))
    except TcpError as error:
        raise error.at(place(end, source)) from None
    function = Function(
        name,
        tuple(context.parameters.values()),
        results,
        names=context.names,
        locations=context.locations,
    )
    if not scope.sizes.version:
        _check_sizes(function, context.expectations)
    return Lowered(function, tuple(context.expectations), frozenset(context.called))


def function_block(op: SyntaxOp, source: Source) -> Block:
    """The body of a function. Raises VerificationError where it is not one block that returns."""
    region = op.regions[0]
    where = source.location(region.offset)
    if len(op.regions) != 1 or len(region.blocks) != 1:
        raise VerificationError("a function requires a body of one block", where)
    block = region.blocks[0]
    if not block.operations or not block.operations[-1].name.endswith("return"):
        raise VerificationError("a function requires a return as its last operation", where)
    stated = tuple(argument.type for argument in block.arguments)
    if stated != function_type(op, source).inputs:
        raise VerificationError("a function's block requires the arguments of its type", where)
    return block


def _argument(scope: Scope, argument: Argument) -> Content:
    """A parameter for each tensor of an argument."""
    where = scope.location_of(argument.name)
    if len(argument.name.name) < 2:
        raise VerificationError("a function with a body requires names for its arguments", where)
    try:
        content = _parameters(scope, argument.type, argument.name.name[1:], argument.name.offset)
    except TcpError as error:
        raise error.at(where) from None
    record(scope, content, argument.name.name, where)
    return content


def _parameters(scope: Scope, stated: SyntaxType, name: str, offset: int) -> Content:
    if isinstance(stated, TupleText):
        return Pack(tuple(
            _parameters(scope, item, f"{name}.{number}", offset - number)
            for number, item in enumerate(stated.items)
        ))
    if is_token(stated):
        return Token()
    if stated == ElementType("index"):
        size = scope.unknown(offset, 0)
        scope.add_parameter(name, TensorType(BOOL, (size,)))
        return Extents((size,), ())
    if isinstance(stated, ElementType):
        raise TypeMismatch(f"a tensor type is required, got {stated}")
    return scope.add_parameter(name, scope.tensor_type(stated, offset))


def check_results(
    scope: Scope, end: SyntaxOp, returned: tuple[Content, ...], stated: tuple[SyntaxType, ...], name: str
) -> None:
    """Raises TypeMismatch where a function returns something else than its type says."""
    if len(returned) != len(stated):
        raise TypeMismatch(
            f"function {name!r} requires {counted(len(stated), 'result')}, got {len(returned)}",
            place(end, scope.source),
        )
    for reference, content, type_ in zip(end.operands, returned, stated, strict=True):
        if isinstance(content, Extents) and isinstance(type_, OpaqueType):
            raise TypeMismatch("a function's result must be a tensor, got a shape", scope.location_of(reference))
        check_stated(scope, reference, content, type_, "the function")


def _check_sizes(function: Function, expectations: list[Expectation]) -> None:
    """Raises ShapeMismatch where a size does not follow from the parameters' shapes."""
    given = set(function.symbols)
    checked = dataclasses.replace(function, results=(
        *function.results, *(x for each in expectations for x in (each.actual, each.expected))))
    for node in checked.nodes():
        if not isinstance(node.type, TensorType):
            continue
        for found in symbols_of(*node.type.shape):
            if found not in given:
                raise ShapeMismatch(
                    f"the type {node.type} has a size that no parameter determines, {found}",
                    function.locations.get(node),
                )

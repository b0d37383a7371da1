"""Programs as MLIR text in the legacy form of the proposal: `func @f`, `xla_hlo`, `flow.variable.load`.

A program is decomposed into operations that `xla_hlo` has (see `decompose`), and a table says how
each is spelt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import count

from tcp_eqsat.errors import ShapeMismatch, TcpError, UnknownName
from tcp_eqsat.frontends.mlir.decompose import axes_of_broadcast, decomposed, is_transpose
from tcp_eqsat.frontends.mlir.dense_text import dense_text, integers_text, is_known, type_text
from tcp_eqsat.frontends.mlir.forms import FORMS
from tcp_eqsat.frontends.mlir.hlo_elementwise import BINARY, COMPARISONS, UNARY
from tcp_eqsat.frontends.mlir.hlo_reduction import MONOIDS
from tcp_eqsat.frontends.mlir.lexer import Source
from tcp_eqsat.frontends.mlir.lower import lower_program
from tcp_eqsat.frontends.mlir.parser import Parser
from tcp_eqsat.lang.dims import Size
from tcp_eqsat.lang.ops.attributes import PadAttributes, SliceAttributes
from tcp_eqsat.lang.ops.builders import scalar_constant
from tcp_eqsat.lang.program import Function, Node, Program
from tcp_eqsat.lang.types import TensorType


def _short_names(table: Mapping[str, str]) -> dict[str, str]:
    """What to call an operation: the first of the names that are read as it."""
    return {meaning: name for name, meaning in reversed(list(table.items()))}


_UNARY = _short_names(UNARY)
_BINARY = _short_names(BINARY)
_DIRECTIONS = _short_names(COMPARISONS)
_MONOIDS = _short_names(MONOIDS)
_VALUE_NAME = re.compile(r"\d+|[A-Za-z_$.\-][\w$.\-]*", re.ASCII)
_SYMBOL_NAME = re.compile(r"[A-Za-z_][\w$.]*", re.ASCII)


def write(program: Program, *, variables: Collection[str] = ()) -> str:
    """The program as MLIR text, functions in order.

    Parameters that `variables` name are loaded by name in the body; when the text is read they
    follow the arguments. Symbolic sizes become `?`: ranges are not kept, and sizes that no
    operation relates are read back as different ones.

    Raises UnknownName for an operation that `xla_hlo` lacks and for a variable that is no
    parameter, ShapeMismatch for sizes that the text can't state.
    """
    functions = program.functions.values()
    known = {name for function in functions for name in function.parameter_names}
    for name in variables:
        if name not in known:
            raise UnknownName(f"no function has a parameter {name!r} to be loaded as a variable")
    return "\n\n".join(_write_function(function, variables) for function in functions) + "\n"


def _write_function(function: Function, variables: Collection[str]) -> str:
    writer = _FunctionWriter(decomposed(function), variables)
    text = writer.text()
    if writer.has_open_sizes:
        _check_open_sizes(function, text)
    return text


def _check_open_sizes(function: Function, text: str) -> None:
    """Raises ShapeMismatch where a `?` of the text follows from nothing else in it."""
    source = Source(text, function.name)
    try:
        lower_program(Parser(source, FORMS).module(), source)
    except ShapeMismatch as error:
        raise ShapeMismatch(
            f"{function.name} requires sizes that MLIR text does not state: {error.message}"
        ) from None


class _FunctionWriter:
    """The text of one decomposed function."""

    def __init__(self, function: Function, variables: Collection[str]) -> None:
        self.function = function
        self.variables = variables
        self.lines: list[str] = []
        self.names: dict[Node, str] = {}
        self.has_open_sizes = False
        """Whether there is a `?` that an operation makes itself, and may not follow from the text."""
        self._fresh: Iterator[str] = iter(())

    def text(self) -> str:
        arguments = self._parameters()
        for node in self.function.nodes():
            try:
                self.operand(node)
            except TcpError as error:
                raise error.at(self.function.locations.get(node)) from None
        types = [type_text(x.tensor_type) for x in self.function.results]
        results = types[0] if len(types) == 1 else f"({', '.join(types)})"
        head = f"func {_symbol(self.function.name)}({', '.join(arguments)}) -> {results} {{"
        returned = ", ".join(self.operand(x) for x in self.function.results)
        end = f"  return {returned} : {', '.join(types)}" if types else "  return"
        return "\n".join([head, *self.lines, end, "}"])

    def _parameters(self) -> list[str]:
        """Names the parameters and loads the variables; the arguments as the head lists them."""
        given = [x for x in self.function.parameters if x.attributes.name not in self.variables]
        for number, x in enumerate(given):
            name = x.attributes.name
            self.names[x] = f"%{name if _VALUE_NAME.fullmatch(name) else f'arg{number}'}"
        taken = set(self.names.values())
        self._fresh = (name for n in count() if (name := f"%{n}") not in taken)
        for x in self.function.parameters:
            if x not in self.names:
                load = f"flow.variable.load {_symbol(x.attributes.name)}"
                self._define(x, f"{load} : {type_text(x.tensor_type)}")
        return [f"{self.names[x]}: {type_text(x.tensor_type)}" for x in given]

    def operand(self, node: Node) -> str:
        """The name of a node, which is written now if it is not yet."""
        if node not in self.names:
            operands = [self.operand(x) for x in node.operands]
            form = _FORMS.get(node.op.name)
            if form is None:
                raise UnknownName(f"xla_hlo has no operation for {node.op.name}")
            self._define(node, form(self, node, operands))
        return self.names[node]

    def _define(self, node: Node, text: str) -> None:
        self.names[node] = self.fresh()
        self.lines.append(f"  {self.names[node]} = {text}")

    def fresh(self) -> str:
        return next(self._fresh)

    def generic(
        self, name: str, node: Node, operands: Sequence[str], *attributes: str, extra: Sequence[Node] = ()
    ) -> str:
        """`"xla_hlo.name"(%a) {attributes} : (T) -> T`; operands of `extra` follow the node's own."""
        types = ", ".join(type_text(x.tensor_type) for x in (*node.operands, *extra))
        listed = f" {{{', '.join(attributes)}}}" if attributes else ""
        head = f'"xla_hlo.{name}"({", ".join(operands)})'
        return f"{head}{listed} : ({types}) -> {type_text(node.tensor_type)}"


def _symbol(name: str) -> str:
    """`@name`, in quotes where it is no plain word."""
    if _SYMBOL_NAME.fullmatch(name):
        return f"@{name}"
    escaped = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\0A")
    return f'@"{escaped}"'


# Elements made and moved


def _constant(writer: _FunctionWriter, node: Node, operands: list[str]) -> str:
    return f"xla_hlo.constant {dense_text(node.attributes.data)}"


def _iota(writer: _FunctionWriter, node: Node, operands: list[str]) -> str:
    writer.has_open_sizes |= not is_known(node.shape)
    return writer.generic("iota", node, operands, f"iota_dimension = {node.attributes.axis} : i64")


def _view(writer: _FunctionWriter, node: Node, operands: list[str]) -> str:
    labels, shape = node.attributes.labels, node.shape
    if is_transpose(labels, len(shape)):
        permutation = [labels.index(axis) for axis in range(len(shape))]
        return writer.generic("transpose", node, operands, f"permutation = {integers_text(permutation)}")
    writer.has_open_sizes |= not is_known(
        tuple(size for axis, size in enumerate(shape) if axis not in labels)
    )
    if not labels:
        sizes = integers_text([size if isinstance(size, int) else -1 for size in shape])
        return writer.generic("broadcast", node, operands, f"broadcast_sizes = {sizes}")
    axes = axes_of_broadcast(labels, len(shape))
    assert axes is not None, "the function is decomposed"
    return writer.generic(
        "broadcast_in_dim", node, operands, f"broadcast_dimensions = {integers_text(axes)}"
    )


def _reshape(writer: _FunctionWriter, node: Node, operands: list[str]) -> str:
    """A single `?` mostly follows from the number of elements; of several, no text says which is
    which."""
    if sum(not isinstance(size, int) for size in node.shape) > 1:
        raise ShapeMismatch(
            f"xla_hlo.reshape requires a result with at most one size that is not a number, "
            f"got {node.operands[0].type} to {node.type}"
        )
    writer.has_open_sizes |= not is_known(node.shape)
    return writer.generic("reshape", node, operands)


def _slice(writer: _FunctionWriter, node: Node, operands: list[str]) -> str:
    """Limits that are not numbers, but a known distance from the end, by padding of negative
    width."""
    attributes: SliceAttributes = node.attributes
    if is_known((*attributes.starts, *attributes.limits)):
        return writer.generic(
            "slice",
            node,
            operands,
            f"limit_indices = {_numbers('slice', attributes.limits)}",
            f"start_indices = {_numbers('slice', attributes.starts)}",
            f"strides = {integers_text(attributes.strides)}",
        )
    cut = [
        size - limit for size, limit in zip(node.operands[0].shape, attributes.limits, strict=True)
    ]
    if not is_known((*attributes.starts, *cut)) or set(attributes.strides) != {1}:
        raise ShapeMismatch(
            f"xla_hlo.slice requires bounds that are numbers, got starts "
            f"{_listed(attributes.starts)}, limits {_listed(attributes.limits)} and strides "
            f"{_listed(attributes.strides)} of {node.operands[0].type}"
        )
    value = scalar_constant(0, node.dtype)
    low, high = ([-amount for amount in amounts] for amounts in (attributes.starts, cut))
    return writer.generic(
        "pad", node, [*operands, writer.operand(value)], *_padding(low, high), extra=[value]
    )


def _pad(writer: _FunctionWriter, node: Node, operands: list[str]) -> str:
    attributes: PadAttributes = node.attributes
    return writer.generic("pad", node, operands, *_padding(attributes.low, attributes.high))


def _padding(low: Sequence[Size], high: Sequence[Size]) -> tuple[str, ...]:
    return (
        f"edge_padding_high = {_numbers('pad', high)}",
        f"edge_padding_low = {_numbers('pad', low)}",
        f"interior_padding = {integers_text([0] * len(low))}",
    )


def _numbers(name: str, sizes: Sequence[Size]) -> str:
    """Sizes that must be numbers as an attribute; raises ShapeMismatch."""
    known = [size for size in sizes if isinstance(size, int)]
    if len(known) != len(sizes):
        raise ShapeMismatch(f"xla_hlo.{name} requires amounts that are numbers, got {_listed(sizes)}")
    return integers_text(known)


def _listed(sizes: Sequence[Size]) -> str:
    return f"[{', '.join(map(str, sizes))}]"


def _concatenate(writer: _FunctionWriter, node: Node, operands: list[str]) -> str:
    return writer.generic("concatenate", node, operands, f"dimension = {node.attributes.axis} : i64")


# Arithmetic


def _map(writer: _FunctionWriter, node: Node, operands: list[str]) -> str:
    op = node.attributes.function.single_op
    assert op is not None, "the function is decomposed"
    if op.name in _BINARY and node.operands[0].dtype != node.dtype:
        return writer.generic(_BINARY[op.name], node, operands)
    if op.name in _BINARY:
        return f"xla_hlo.{_BINARY[op.name]} {', '.join(operands)} : {type_text(node.tensor_type)}"
    if op.name in _DIRECTIONS:
        direction = f'comparison_direction = "{_DIRECTIONS[op.name]}"'
        return writer.generic("compare", node, operands, direction)
    if op.name == "bitwise_right_shift":
        kind = "arithmetic" if node.dtype.is_signed else "logical"
        return f"xla_hlo.shift_right_{kind} {', '.join(operands)} : {type_text(node.tensor_type)}"
    if op.name == "where":
        return writer.generic("select", node, operands)
    if op.name.startswith("astype_"):
        return writer.generic("convert", node, operands)
    if op.name not in _UNARY:
        raise UnknownName(f"xla_hlo has no operation for {op.name}")
    return writer.generic(_UNARY[op.name], node, operands)


def _reduce(writer: _FunctionWriter, node: Node, operands: list[str]) -> str:
    operation, rank = node.attributes.operation, node.attributes.rank
    if operation.name not in _MONOIDS:
        raise UnknownName(f"xla_hlo.reduce has no region for {operation.name}")
    start = scalar_constant(operation.identity(node.dtype), node.dtype)
    initial, scalar = writer.operand(start), type_text(TensorType(node.dtype, ()))
    x, y, result = writer.fresh(), writer.fresh(), writer.fresh()
    axes = [axis for axis, label in enumerate(node.attributes.labels) if label >= rank]
    head = f'"xla_hlo.reduce"({operands[0]}, {initial})'
    region = [
        f"^bb0({x}: {scalar}, {y}: {scalar}):  // no predecessors",
        f"  {result} = xla_hlo.{_MONOIDS[operation.name]} {x}, {y} : {scalar}",
        f'  "xla_hlo.return"({result}) : ({scalar}) -> ()',
    ]
    types = f"({type_text(node.operands[0].tensor_type)}, {scalar}) -> {type_text(node.tensor_type)}"
    tail = f"}}) {{dimensions = {integers_text(axes)}}} : {types}"
    return "\n  ".join([f"{head} ( {{", *region, tail])


def _contract(writer: _FunctionWriter, node: Node, operands: list[str]) -> str:
    lhs, rhs, rank = node.attributes.lhs, node.attributes.rhs, node.attributes.rank
    summed = range(rank, len(node.attributes.extents))
    batch = [label for label in range(rank) if label in lhs and label in rhs]
    if not batch and len(summed) == 1 and max(len(lhs), len(rhs)) <= 2 and lhs[-1] == rhs[0] == rank:
        return writer.generic("dot", node, operands)
    numbers = [
        f"{side}_{role}_dimensions = {integers_text([labels.index(label) for label in chosen])}"
        for role, chosen in (("batching", batch), ("contracting", summed))
        for side, labels in (("lhs", lhs), ("rhs", rhs))
    ]
    return writer.generic(
        "dot_general", node, operands, f"dot_dimension_numbers = {{{', '.join(numbers)}}}"
    )


Form = Callable[[_FunctionWriter, Node, list[str]], str]
_FORMS: Mapping[str, Form] = {
    "concatenate": _concatenate,
    "constant": _constant,
    "contract": _contract,
    "iota": _iota,
    "map": _map,
    "pad": _pad,
    "reduce": _reduce,
    "reshape": _reshape,
    "slice": _slice,
    "view": _view,
}

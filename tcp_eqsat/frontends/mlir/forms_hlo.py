"""How the operations of StableHLO, MHLO, CHLO and the legacy `xla_hlo` are spelt without quotes."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tcp_eqsat.errors import ParseError
from tcp_eqsat.frontends.mlir.form_steps import (
    Reader,
    attributes,
    in_parentheses,
    keyword_attributes,
    named,
    operand_type,
    operand_types,
    operands,
    pairwise_types,
    result_type,
    sequence,
    signature,
    symbol,
    text,
    value,
    word,
)
from tcp_eqsat.frontends.mlir.parser import Draft, Form, Parser
from tcp_eqsat.frontends.mlir.tree import (
    Argument,
    Attribute,
    Block,
    ComplexType,
    Dense,
    DenseResource,
    FunctionType,
    Number,
    OpaqueAttribute,
    Reference,
    Region,
    SyntaxOp,
    TensorText,
    TupleText,
)

_FORMAT = re.compile(r"e(\d{1,6})m(\d{1,6})\Z", re.ASCII)


def with_named(**readers: str | Reader) -> Form:
    """`%a, name = value {attributes} : types`."""
    return sequence(operands, named(**readers), attributes, signature)


def _pair(parser: Parser, key: str) -> dict[str, Attribute]:
    """`[0] x [1]`: the axes of both operands."""
    left = parser.bare()
    parser.expect("x", "between the axes of the operands")
    return {f"lhs_{key}_dimensions": left, f"rhs_{key}_dimensions": parser.bare()}


def _dot_general(parser: Parser, draft: Draft) -> None:
    """`%a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [...], algorithm = <...>`."""
    numbers: dict[str, Attribute] = {}

    def axes(key: str) -> Reader:
        def read(parser: Parser) -> Mapping[str, Attribute]:
            numbers.update(_pair(parser, key))
            return {}

        return read

    form = with_named(
        batching_dims=axes("batching"), contracting_dims=axes("contracting"),
        precision="precision_config", algorithm="algorithm")
    form(parser, draft)
    draft.attributes["dot_dimension_numbers"] = numbers


def _format(parser: Parser) -> dict[str, Attribute]:
    """`e8m10`."""
    start = parser.offset
    match = _FORMAT.match(parser.word("a format as e8m10"))
    if match is None:
        raise ParseError("expected a format as e8m10", parser.source.location(start))
    return {
        key: Number(digits, None, start)
        for key, digits in zip(("exponent_bits", "mantissa_bits"), match.groups(), strict=True)
    }


def _slice(parser: Parser, draft: Draft) -> None:
    """`%x [0:4, 1:9:2] : types`."""
    operands(parser, draft)
    parser.expect("[", "before the ranges of a slice")
    parts: tuple[list[Attribute], ...] = ([], [], [])
    while not parser.accept("]"):
        if parts[0]:
            parser.expect(",", "between ranges")
        offset = parser.offset
        parts[0].append(parser.number_without_type())
        parser.expect(":", "in a range")
        parts[1].append(parser.number_without_type())
        stride = parser.number_without_type() if parser.accept(":") else Number("1", None, offset)
        parts[2].append(stride)
    for key, part in zip(("start_indices", "limit_indices", "strides"), parts, strict=True):
        draft.attributes[key] = tuple(part)
    attributes(parser, draft)
    signature(parser, draft)


def _dimension_numbers(parser: Parser) -> dict[str, Attribute]:
    """`[b, 0, f]x[0, i, o]->[b, 0, f]`, kept as the attribute of the generic form."""
    start = parser.offset
    for separator in ("x", "->", ""):
        parser.expect("[", "before axes")
        while not parser.accept("]"):
            if not parser.take():
                raise parser.error("expected ']' after axes")
        if separator:
            parser.expect(separator, "between axes")
    end = parser.starts[parser.index - 1] + 1
    return {"dimension_numbers": OpaqueAttribute(f"#stablehlo.conv<{parser.source.text[start:end]}>", start)}


_WINDOW = named(
    stride="window_strides", pad="padding", lhs_dilate="lhs_dilation", rhs_dilate="rhs_dilation",
    reverse="window_reversal")


def _window(parser: Parser) -> dict[str, Attribute]:
    """`{stride = [2], pad = [[1, 1]], lhs_dilate = [1], rhs_dilate = [1], reverse = [false]}`."""
    draft = Draft()
    parser.expect("{", "before the parts of a window")
    _WINDOW(parser, draft)
    parser.expect("}", "after the parts of a window")
    return draft.attributes


_CONVOLUTION = sequence(
    in_parentheses, named(dim_numbers=_dimension_numbers, window=_window), attributes, signature)


def _reduce(parser: Parser, draft: Draft) -> None:
    """`(%x init: %a), (%y init: %b) applies op across dimensions = [0] : types`, or with a region
    `reducer(%p: T, %q: T) (...) { ... }` after the types."""
    starts: list[Reference] = []
    while parser.accept("("):
        draft.operands.append(parser.value_name("an operand"))
        parser.expect("init", "and the start value")
        parser.expect(":", "before the start value")
        starts.append(parser.value_name("a start value"))
        parser.expect(")", "after a start value")
        if parser.tokens[parser.index : parser.index + 2] == [",", "("]:
            parser.index += 1
    count = len(starts)
    draft.operands += starts
    applied = offset = None
    if parser.accept("applies"):
        offset = parser.offset
        applied = parser.word("the operation to reduce with")
    parser.expect("across", "and the dimensions")
    named(dimensions="dimensions")(parser, draft)
    attributes(parser, draft)
    signature(parser, draft)
    if applied is not None and offset is not None:
        draft.regions.append(_application(parser, draft, applied, offset))
        return
    parser.expect("reducer", "and the region of a reduction")
    left: list[Argument] = []
    right: list[Argument] = []
    for _ in range(count):
        pair = parser.block_arguments()
        if len(pair) != 2:
            raise parser.error("expected two arguments for each operand of a reduction")
        left.append(pair[0])
        right.append(pair[1])
    draft.regions.append(parser.region((*left, *right)))


def _application(parser: Parser, draft: Draft, name: str, offset: int) -> Region:
    """The region that applies one operation to its two arguments."""
    if len(draft.operands) != 2 or len(draft.operand_types) != 2:
        raise ParseError("expected one operand where an operation is applied", parser.source.location(offset))
    scalar = draft.operand_types[1]
    x, y, result = (Reference(f"%.{role}", offset) for role in ("lhs", "rhs", "result"))
    op = SyntaxOp(name, (result,), (x, y), {}, (), (scalar, scalar), (scalar,), offset, len(name))
    end = SyntaxOp(
        "stablehlo.return", (), (result,), {}, (), (scalar,), (), offset, len(name))
    return Region((Block("", (Argument(x, scalar), Argument(y, scalar)), (op, end)),), offset)


def _while(parser: Parser, draft: Draft) -> None:
    """`(%i = %a, %j = %b) : T, T attributes {...} cond { ... } do { ... }`."""
    parser.expect("(", "before the values of a loop")
    names: list[Reference] = []
    while not parser.accept(")"):
        if names:
            parser.expect(",", "between the values of a loop")
        names.append(parser.value_name("a value of the loop"))
        parser.expect("=", "and its first value")
        draft.operands.append(parser.value_name("a first value"))
    operand_types(parser, draft)
    draft.result_types = draft.operand_types
    keyword_attributes(parser, draft)
    arguments = tuple(map(Argument, names, draft.operand_types))
    parser.expect("cond", "before the condition of a loop")
    draft.regions.append(parser.region(arguments))
    parser.expect("do", "before the body of a loop")
    draft.regions.append(parser.region(arguments))


def _select(parser: Parser, draft: Draft) -> None:
    """`%p, %a, %b : T, U` with the types of the predicate and of the values, or all types."""
    operands(parser, draft)
    attributes(parser, draft)
    parser.expect(":", "before the operation's type")
    stated = parser.types()
    if len(stated) == 1 and isinstance(stated[0], FunctionType):
        draft.operand_types, draft.result_types = stated[0].inputs, stated[0].results
    elif len(stated) == 2:
        draft.operand_types = (stated[0], stated[1], stated[1])
        draft.result_types = (stated[1],)
    else:
        raise parser.error("expected the types of the predicate and of the values")


def _complex(parser: Parser, draft: Draft) -> None:
    """`%a, %b : T` with the type of the result, or all types."""
    operands(parser, draft)
    attributes(parser, draft)
    parser.expect(":", "before the operation's type")
    stated = parser.type()
    if isinstance(stated, FunctionType):
        draft.operand_types, draft.result_types = stated.inputs, stated.results
    else:
        draft.result_types = (stated,)
        if isinstance(stated, TensorText) and isinstance(stated.element, ComplexType):
            part = TensorText(stated.shape, stated.element.element, stated.encoding)
            draft.operand_types = (part,) * len(draft.operands)


def _tuple(parser: Parser, draft: Draft) -> None:
    """`%a, %b : tuple<T, U>`."""
    operands(parser, draft)
    attributes(parser, draft)
    result_type(parser, draft)
    (stated,) = draft.result_types
    if isinstance(stated, TupleText):
        draft.operand_types = stated.items


def _tuple_element(parser: Parser, draft: Draft) -> None:
    """`%t[0] : (T) -> U`."""
    operands(parser, draft)
    parser.expect("[", "before the number of an element")
    draft.attributes["index"] = parser.number_without_type()
    parser.expect("]", "after the number of an element")
    attributes(parser, draft)
    signature(parser, draft)


def _constant(parser: Parser, draft: Draft) -> None:
    """`{attributes} dense<...> : T`, or `() <{value = ...}> : () -> T`."""
    if parser.token != "(":
        attributes(parser, draft)
        if parser.token != ":":
            value(parser, draft)
            return
        result_type(parser, draft)
        return
    parser.generic(draft)


def _trace(parser: Parser, draft: Draft) -> None:
    operands(parser, draft)
    parser.expect(",", "and the tag")
    text("tag")(parser, draft)
    attributes(parser, draft)
    operand_type(parser, draft)


def _top_k(parser: Parser, draft: Draft) -> None:
    """`(%x, k = 2) {attributes} : T -> (T, U)`."""
    parser.expect("(", "before the operands")
    operands(parser, draft)
    named(k="k")(parser, draft)
    parser.expect(")", "after the operands")
    attributes(parser, draft)
    signature(parser, draft)


ELEMENTWISE = sequence(operands, attributes, signature)
RETURN = sequence(operands, attributes, operand_types)
TOKENS = sequence(operands, attributes, signature)
CALL = sequence(in_parentheses, attributes, signature)
_AXIS = {"dim": "dimension"}

HLO_FORMS: Mapping[str, Form] = {
    "*": ELEMENTWISE,
    "broadcast": with_named(sizes="broadcast_sizes"),
    "broadcast_in_dim": with_named(dims="broadcast_dimensions"),
    "cholesky": with_named(lower="lower"),
    "compare": sequence(
        word("comparison_direction"), operands,
        lambda parser, draft: word("compare_type")(parser, draft) if parser.accept(",") else None,
        attributes, signature),
    "complex": _complex,
    "composite": sequence(text("name"), operands, attributes, signature),
    "concatenate": with_named(dim="dimension"),
    "constant": _constant,
    "convolution": _CONVOLUTION,
    "custom_call": sequence(symbol("call_target_name"), CALL),
    "dot": with_named(precision="precision_config"),
    "dot_general": _dot_general,
    "dynamic_broadcast_in_dim": with_named(dims="broadcast_dimensions"),
    "dynamic_conv": _CONVOLUTION,
    "dynamic_iota": with_named(dim="iota_dimension"),
    "dynamic_slice": with_named(sizes="slice_sizes"),
    "einsum": with_named(config="einsum_config"),
    "fft": with_named(type="fft_type", length="fft_length"),
    "get_dimension_size": with_named(**_AXIS),
    "get_tuple_element": _tuple_element,
    "iota": sequence(named(dim="iota_dimension"), attributes, result_type),
    "optimization_barrier": sequence(operands, attributes, pairwise_types),
    "pad": with_named(low="edge_padding_low", high="edge_padding_high", interior="interior_padding"),
    "partition_id": sequence(attributes, result_type),
    "reduce": _reduce,
    "reduce_precision": with_named(format=_format),
    "replica_id": sequence(attributes, result_type),
    "return": RETURN,
    "reverse": with_named(dims="dimensions"),
    "rng": with_named(distribution="rng_distribution"),
    "rng_bit_generator": with_named(algorithm="rng_algorithm"),
    "select": _select,
    "set_dimension_size": with_named(**_AXIS),
    "slice": _slice,
    "torch_index_select": with_named(dim="dim", batch_dims="batch_dims"),
    "trace": _trace,
    "transpose": with_named(dims="permutation"),
    "tuple": _tuple,
    "unary_einsum": with_named(config="einsum_config"),
    "while": _while,
}
"""By short names; `*` is for all others."""

CHLO_FORMS: Mapping[str, Form] = {
    "*": ELEMENTWISE,
    "constant": _constant,
    "top_k": _top_k,
}


def _expectation(parser: Parser, draft: Draft) -> None:
    """`%a, %b, tolerance = 0.1 {attributes} : T`, or a literal in place of `%b`."""
    operands(parser, draft)
    parameters = named(
        tolerance="tolerance", max_ulp_difference="max_ulp_difference",
        min_ulp_difference="min_ulp_difference", probe_id="probe_id", iter="iter")
    parameters(parser, draft)
    if parser.accept(","):
        literal = draft.attributes["value"] = parser.attribute()
        if isinstance(literal, Dense | DenseResource):
            draft.operand_types = (literal.type,) * len(draft.operands)
        parameters(parser, draft)
        attributes(parser, draft)
        return
    attributes(parser, draft)
    operand_type(parser, draft)


CHECK_FORMS: Mapping[str, Form] = {"*": _expectation}

INTERPRETER_FORMS: Mapping[str, Form] = {
    "*": ELEMENTWISE,
    "print": sequence(operands, attributes, operand_type),
    "probe": with_named(probe_id="probe_id"),
}

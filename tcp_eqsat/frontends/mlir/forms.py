"""How the operations of the TCP dialect and of MLIR's small dialects are spelt without quotes, and
the table of all forms.

A key is a whole name or `dialect.*` for the operations of a dialect that have no entry of their
own. The written name is kept; what it means is decided by the lowering.
"""

from __future__ import annotations

from collections.abc import Mapping

from tcp_eqsat.frontends.mlir.form_steps import (
    attributes,
    conversion,
    function,
    in_parentheses,
    keyword_attributes,
    module,
    operand_type,
    operands,
    result_type,
    sequence,
    signature,
    symbol,
    text,
    value,
    word,
)
from tcp_eqsat.frontends.mlir.forms_hlo import (
    CALL,
    CHECK_FORMS,
    CHLO_FORMS,
    ELEMENTWISE,
    HLO_FORMS,
    INTERPRETER_FORMS,
    RETURN,
)
from tcp_eqsat.frontends.mlir.parser import Draft, Form, Parser
from tcp_eqsat.frontends.mlir.tree import ElementType, Number, OpaqueType

# The TCP dialect


def _region(parser: Parser, draft: Draft) -> None:
    draft.regions.append(parser.region())


def _bind(parser: Parser, draft: Draft) -> None:
    """`%x, [%s0, %s1], affine_map<()[s0, s1] -> (s0, s1)> : T`."""
    operands(parser, draft)
    parser.expect(",", "and the symbols of a shape")
    parser.expect("[", "before the symbols of a shape")
    operands(parser, draft)
    parser.expect("]", "after the symbols of a shape")
    parser.expect(",", "and the map of a shape")
    draft.attributes["shape_expressions"] = parser.attribute()
    attributes(parser, draft)
    parser.expect(":", "before the operand's type")
    symbols = (ElementType("i64"),) * (len(draft.operands) - 1)
    draft.operand_types = (parser.type(), *symbols)


def _slice(parser: Parser, draft: Draft) -> None:
    """`%x starts (%a) sizes (%b) strides (%c) {attributes} : T -> T`."""
    operands(parser, draft)
    for part in ("starts", "sizes", "strides"):
        parser.expect(part, "of a slice")
        before = len(draft.operands)
        in_parentheses(parser, draft)
        count = len(draft.operands) - before
        draft.attributes[part] = Number(str(count), ElementType("i64"), parser.offset)
    attributes(parser, draft)
    parser.expect(":", "before the operation's type")
    stated = (parser.type(),)
    parser.expect("->", "and the result's type")
    indices = (ElementType("index"),) * (len(draft.operands) - 1)
    draft.operand_types, draft.result_types = (*stated, *indices), (parser.type(),)


def _custom_op(parser: Parser, draft: Draft) -> None:
    """`("name") %a, %b {attributes} : T, T -> T`."""
    parser.expect("(", "before the name of a custom operation")
    text("op_name")(parser, draft)
    parser.expect(")", "after the name of a custom operation")
    operands(parser, draft)
    attributes(parser, draft)
    signature(parser, draft)


TCP_FORMS: Mapping[str, Form] = {
    "*": ELEMENTWISE,
    "bind_symbolic_shape": _bind,
    "const": sequence(attributes, result_type),
    "custom_op": _custom_op,
    "group": sequence(keyword_attributes, _region, result_type),
    "isolated_group": sequence(operands, keyword_attributes, _region, signature),
    "slice": _slice,
    "symbolic_int": sequence(text("symbol_name"), attributes, result_type),
    "yield": RETURN,
}


# Small dialects


def _constant(parser: Parser, draft: Draft) -> None:
    """`{attributes} 5 : index`, `dense<1> : T`, `true`."""
    attributes(parser, draft)
    if parser.token in ("true", "false"):
        draft.attributes["value"] = parser.attribute()
        draft.result_types = (ElementType("i1"),)
        if parser.accept(":"):
            parser.type()
        return
    value(parser, draft)


def _extract(parser: Parser, draft: Draft) -> None:
    """`%x[%i, %j] : T`."""
    operands(parser, draft)
    parser.expect("[", "before the indices")
    operands(parser, draft)
    parser.expect("]", "after the indices")
    attributes(parser, draft)
    _indexed(parser, draft)
    stated = getattr(draft.operand_types[0], "element", None)
    draft.result_types = () if stated is None else (stated,)


def _dim(parser: Parser, draft: Draft) -> None:
    """`%x, %axis : T`; the result is an index."""
    operands(parser, draft)
    attributes(parser, draft)
    _indexed(parser, draft)
    draft.result_types = (ElementType("index"),)


def _indexed(parser: Parser, draft: Draft) -> None:
    """`: T`, of the first operand; the others are indices."""
    parser.expect(":", "before the operand's type")
    indices = (ElementType("index"),) * (len(draft.operands) - 1)
    draft.operand_types = (parser.type(), *indices)


def _from_elements(parser: Parser, draft: Draft) -> None:
    """`%a, %b : T`, the type of the result."""
    sequence(operands, attributes, result_type)(parser, draft)
    element = getattr(draft.result_types[0], "element", None)
    draft.operand_types = () if element is None else (element,) * len(draft.operands)


ELEMENT_OPERAND = sequence(operands, attributes, operand_type)


def _compare(parser: Parser, draft: Draft) -> None:
    """`slt, %a, %b : T`; the result has truth values."""
    sequence(word("predicate"), operands, attributes, operand_type)(parser, draft)
    draft.result_types = (ElementType("i1"),)


def _witness(parser: Parser, draft: Draft) -> None:
    ELEMENT_OPERAND(parser, draft)
    draft.result_types = (OpaqueType("shape.witness"),)


def _assuming(parser: Parser, draft: Draft) -> None:
    """`%w -> (T) { ... }`."""
    operands(parser, draft)
    if parser.accept("->"):
        draft.result_types = parser.parenthesised_types() if parser.token == "(" else parser.types()
    _region(parser, draft)


def _const_shape(parser: Parser, draft: Draft) -> None:
    draft.attributes["shape"] = parser.bare()
    attributes(parser, draft)
    result_type(parser, draft)


SHAPE_FORMS: Mapping[str, Form] = {
    "*": ELEMENTWISE,
    "assuming": _assuming,
    "assuming_yield": RETURN,
    "const_shape": _const_shape,
    "const_witness": sequence(
        lambda parser, draft: draft.attributes.update(passing=parser.bare()), attributes,
        lambda parser, draft: setattr(draft, "result_types", (OpaqueType("shape.witness"),))),
    "cstr_broadcastable": _witness,
    "cstr_eq": _witness,
    "cstr_require": _witness,
}

TENSOR_FORMS: Mapping[str, Form] = {
    "cast": sequence(operands, attributes, conversion),
    "dim": _dim,
    "extract": _extract,
    "from_elements": _from_elements,
}

_CONVERSIONS = (
    "extf", "extsi", "extui", "fptosi", "fptoui", "index_cast", "index_castui", "sitofp", "truncf",
    "trunci", "uitofp")
ARITH_FORMS: Mapping[str, Form] = {
    "*": ELEMENTWISE,
    **{name: sequence(operands, attributes, conversion) for name in _CONVERSIONS},
    "cmpi": _compare,
    "constant": _constant,
}

DIALECT_FORMS: Mapping[str, Mapping[str, Form]] = {
    "arith": ARITH_FORMS,
    "check": CHECK_FORMS,
    "chlo": CHLO_FORMS,
    "interpreter": INTERPRETER_FORMS,
    "mhlo": HLO_FORMS,
    "shape": SHAPE_FORMS,
    "stablehlo": HLO_FORMS,
    "tcp": TCP_FORMS,
    "tensor": TENSOR_FORMS,
    "xla_hlo": HLO_FORMS,
}

FORMS: Mapping[str, Form] = {
    **{f"{dialect}.{name}": form for dialect, forms in DIALECT_FORMS.items() for name, form in forms.items()},
    "arith.select": ELEMENT_OPERAND,
    "builtin.module": module,
    "builtin.unrealized_conversion_cast": sequence(operands, attributes, conversion),
    "call": sequence(symbol("callee"), CALL),
    "flow.variable.load": sequence(symbol("variable"), attributes, result_type),
    "func": function,
    "func.call": sequence(symbol("callee"), CALL),
    "func.func": function,
    "func.return": RETURN,
    "module": module,
    "return": RETURN,
    "std.return": RETURN,
}

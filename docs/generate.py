"""Writes docs/operations.md, the reference of operations, from their definitions and docs/examples_of_operations.py.

    python -m docs.generate            writes the page
    python -m docs.generate --check    exits with 1 where the page is not what would be written
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import itertools
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tcp_eqsat.lang.ops  # noqa: F401  (fills the tables)
from docs.examples_of_operations import SCALAR, TENSOR, Example, Values
from tcp_eqsat.codegen.vector_math.accuracy import PROMISES
from tcp_eqsat.errors import TypeMismatch
from tcp_eqsat.lang.op import EXPANDED, IN_REGIONS, MOVEMENT, OPS, PROCEDURAL, TAKEN_APART, Op, region_fields
from tcp_eqsat.lang.reference import evaluate
from tcp_eqsat.lang.scalar import (
    NOT_DIFFERENTIABLE,
    SCALAR_OPS,
    ScalarApply,
    ScalarExpr,
    ScalarLiteral,
    ScalarOp,
    ScalarParameter,
    evaluate_op,
    parameter,
    scalar_op_named,
)
from tcp_eqsat.lang.text import write_function
from tcp_eqsat.lang.text.writer import format_number
from tcp_eqsat.lang.types import BOOL, C64, F32, F64, I8, NAMED_DTYPES, U8, DType, dtype_of

PAGE = Path(__file__).with_name("operations.md")

INTRODUCTION = """\
# Operations

Every operation of the language: what it takes, what it means, its edge cases, its derivative, how it is compiled, and
an example. This page is written by `python -m docs.generate` from the definitions in `tcp_eqsat/lang/ops` and
`tcp_eqsat/lang/scalars`; the tests compile the examples and compare. Principles, types and the text format stand in
[language.md](language.md).
"""

TENSOR_INTRODUCTION = """\
## Tensor operations

An operand whose name ends in `*` stands for any number of them. Sizes (`Size`, `Shape`) are integers or expressions
over symbols. An operation is *compiled* as

- an index expression, which becomes part of a kernel together with what is around it;
- a procedure, which reads and writes memory and is a step of its own;
- control flow: a step that calls its regions, each compiled on its own;
- or it is gone before the program is optimised: replaced by its body, by real numbers, by integers, or by another
  shape of the same memory.

What each example prints is what the reference computes, and compiled code agrees. Quantised tensors are shown by
their stored integers.
"""

SCALAR_INTRODUCTION = """\
## Scalar operations

What `map` applies elementwise; the associative ones are what `reduce` combines by. *Integers* are `i8` to `i64` and
`u8` to `u64`, *floats* `f16`, `bf16`, `f32` and `f64`, *complex* numbers `c64` and `c128`; *stored* dtypes are 8-bit
floats and integers of 2 and 4 bits. All operands have one dtype, and the result has it too, unless told. Operations
of `f16` and `bf16` are computed in f32 and rounded.

The derivative is the cotangent of each operand, where `g` is that of the result; constants in it are shown in f32.
Accuracy is the largest error of compiled code in units of the last place (ULP), as in [accuracy.md](accuracy.md); an
operation of real numbers without a bound is exact or correctly rounded. Complex functions are made of real ones, with
the branch cuts of C99: each part is within a few units in the last place, but where a part nearly vanishes. An
operation is printed here as a function; in text it is `%0 = add %x, %y: f32[n]` or part of a `map`.
"""


def page() -> str:
    """The text of docs/operations.md; raises LookupError for an operation without an example, or the reverse."""
    check_complete()
    parts = [INTRODUCTION, "Tensor operations:\n", *index(TENSOR, lambda name: name), "Scalar operations:\n",
             *index(SCALAR, lambda name: family_of(name).title), TENSOR_INTRODUCTION]
    for theme, examples in TENSOR.items():
        parts.append(f"### {theme}\n")
        parts += (tensor_entry(OPS[name], each) for name, each in examples.items())
    parts.append(SCALAR_INTRODUCTION)
    for theme, values in SCALAR.items():
        parts.append(f"### {theme}\n")
        parts += (scalar_entry(family_of(name), each) for name, each in values.items())
    return "\n".join(parts)


def index(themes: Mapping[str, Iterable[str]], title: Callable[[str], str]) -> Iterator[str]:
    """A line for each theme with links to its sections."""
    for theme, names in themes.items():
        links = ", ".join(f"[{title(name)}](#{title(name).lower()})" for name in names)
        yield f"- {theme}: {links}"
    yield ""


def check_complete() -> None:
    """Raises LookupError that names the operations without examples, or the examples without operations."""
    shown = {name for examples in TENSOR.values() for name in examples}
    families = [name for values in SCALAR.values() for name in values]
    covered = {op.name for name in families for op in family_of(name).members}
    for what, missing in (("operations without an example", (OPS.keys() - shown) | (SCALAR_OPS.keys() - covered)),
                          ("examples of no operation", shown - OPS.keys()),
                          ("examples of no operation", {n for n in families if not family_of(n).members})):
        if missing:
            raise LookupError(f"docs/examples_of_operations.py: {what}: {', '.join(sorted(missing))}")


# Tensor operations


def tensor_entry(op: Op, examples: Sequence[Example]) -> str:
    """The section of one tensor operation."""
    lines = [f"#### {op.name}", "", f"`{' '.join((op.name, ', '.join(op.operands))).strip()}`", "", op.doc, ""]
    lines += [f"- Derivative: {derivative_of(op)}", f"- Compiled as: {compiled_as(op)}"]
    if op.name in MOVEMENT:
        lines.append("- Dtypes: any; quantised ones with a scale for all of the tensor")
    lines.append("")
    if op.attributes is not None:
        lines += ["Attributes:", "", "```", *attribute_lines(op.attributes), "```", ""]
    for example in examples:
        lines += example_lines(op.name, example)
    return "\n".join(lines)


def derivative_of(op: Op) -> str:
    """Where the derivative comes from."""
    match op.derivative:
        case found if found is NOT_DIFFERENTIABLE:
            return "none; cotangents stop here"
        case found if found is EXPANDED:
            return "that of its body"
        case found if found is IN_REGIONS:
            return "made of the derivatives of its regions" + (", forward only" if op.name == "while" else "")
        case _:
            return "yes"


def compiled_as(op: Op) -> str:
    """What is left of the operation in a plan."""
    if op.expand is not None:
        return "its body, which takes its place" if op.attributes and region_fields(op.attributes) else (
            "nothing; it only groups and picks results")
    for marker, text in ((PROCEDURAL, "a procedure"), (IN_REGIONS, "control flow"),
                         (TAKEN_APART, "nothing; complex and quantised values are taken apart first"),
                         (EXPANDED, "nothing; axes are refined so that it vanishes, or memory gets another shape")):
        if op.pointful is marker:
            return text
    return "an index expression"


def attribute_lines(attributes: type) -> Iterator[str]:
    """The fields of an attribute class with their types, then what its documentation and its bases' say."""
    for each in dataclasses.fields(attributes):
        yield f"{each.name}: {each.type}"
    for kind in attributes.__mro__:
        if dataclasses.is_dataclass(kind):
            yield ""
            yield from inspect.cleandoc(kind.__doc__ or "").splitlines()


def example_lines(name: str, example: Example) -> Iterator[str]:
    """The program in our text, its arguments and its results."""
    function, arrays = example.function(name), example.arrays()
    results = evaluate(function, arrays)
    if example.note:
        yield from (example.note, "")
    yield from ("```", write_function(function), "")
    for each, array in zip(function.parameter_names, arrays, strict=True):
        yield f"{each} = {format_array(array)}"
    for number, array in enumerate(results):
        yield f"{f'result {number}' if len(results) > 1 else 'result'} = {format_array(array)}"
    yield from ("```", "")


def format_array(array: np.ndarray) -> str:
    """Nested lists of numbers; an array without elements in one dimension at least by its shape."""
    if array.ndim == 0:
        return format_number(array[()], dtype_of(array.dtype))
    if array.size == 0 and array.ndim > 1:
        return f"[] of shape {list(array.shape)}"
    return f"[{', '.join(map(format_array, (array[n, ...] for n in range(len(array)))))}]"


# Scalar operations


@dataclass(frozen=True)
class Family:
    """Scalar operations that are documented together: one, or all whose names begin alike.

    placeholder   what stands for the rest of the name
    """

    name: str
    members: tuple[ScalarOp, ...]
    placeholder: str = ""

    @property
    def title(self) -> str:
        return self.name + self.placeholder


def _of_dtype(op: ScalarOp, rest: str) -> str:
    return re.sub(rf"\bas {rest}\b", "as T", op.doc)


def _of_numbers(op: ScalarOp, rest: str) -> str:
    exponent, mantissa = re.fullmatch(r"e(\d+)m(\d+)", rest).groups()  # type: ignore[union-attr]
    return op.doc.replace(f"to {mantissa} bits", "to M bits").replace(f"and {exponent} bits", "and E bits")


FAMILIES = {"astype_": ("T", _of_dtype), "bitcast_": ("T", _of_dtype), "reduce_precision_": ("eEmM", _of_numbers)}
"""What stands for the rest of the name, and the documentation of a member in the family's terms."""


def family_of(name: str) -> Family:
    """The operation of a name, or the operations whose names begin with it."""
    if name in FAMILIES:
        members = tuple(op for other, op in SCALAR_OPS.items() if other.startswith(name))
        return Family(name, members, FAMILIES[name][0])
    return Family(name, (SCALAR_OPS[name],) if name in SCALAR_OPS else ())


def scalar_entry(family: Family, examples: Sequence[Values]) -> str:
    """The section of a scalar operation or family."""
    op = family.members[0]
    lines = [f"#### {family.title}", "", f"`{family.title}({', '.join(op.operands)})`", "", *docs_of(family), ""]
    lines.append(f"- Dtypes: {dtypes_of(family)}")
    lines.append(f"- Derivative: {scalar_derivative(family)}")
    if op.identity is not None:
        lines.append(f"- Reductions start at {identity_of(op)}")
    promise = PROMISES.get(op.name)
    if promise is not None:
        lines.append(f"- Accuracy: {promise.f32:g} ULP in f32, {promise.f64:g} in f64" + (
            f"; below {format_power(promise.f32_floor)} in f32 and {format_power(promise.f64_floor)} in f64, of these "
            "numbers' last places" if promise.f32_floor else ""))
    lines += ["", "```", *(line for each in examples for line in value_lines(family, each)), "```", ""]
    return "\n".join(lines)


def format_power(value: float) -> str:
    """A power of two as such."""
    exponent = math.frexp(value)[1] - 1
    return f"2**{exponent}" if exponent else "1"


def docs_of(family: Family) -> list[str]:
    """What the documentation of the members says, each text once, as paragraphs."""
    if not family.placeholder:
        return [family.members[0].doc]
    general = FAMILIES[family.name][1]
    texts: dict[str, list[str]] = {}
    for op in family.members:
        rest = op.name.removeprefix(family.name)
        texts.setdefault(general(op, rest), []).append(rest)
    if len(texts) == 1:
        return list(texts)
    common = max(texts, key=lambda text: len(texts[text]))
    paragraphs = [text if text == common else f"{', '.join(f'`{x}`' for x in members)}: {text}"
                  for text, members in sorted(texts.items(), key=lambda item: -len(item[1]))]
    return "\n\n".join(paragraphs).splitlines()


Signature = tuple[tuple[DType, ...], DType]


@functools.lru_cache(maxsize=None)
def signatures(op: ScalarOp) -> tuple[Signature, ...]:
    """Every choice of operand dtypes that the operation takes, with the dtype of the result."""
    found: list[Signature] = []
    for dtypes in itertools.product(NAMED_DTYPES.values(), repeat=op.arity):
        try:
            found.append((dtypes, op.result_dtype(*dtypes)))
        except TypeMismatch:
            continue
    return tuple(found)


GROUPS: Mapping[str, frozenset[DType]] = {
    "bool": frozenset([BOOL]),
    "integers": frozenset(d for d in NAMED_DTYPES.values() if d.is_integer and not d.storage_only),
    "floats": frozenset(d for d in NAMED_DTYPES.values() if d.is_float and not d.storage_only),
    "complex": frozenset(d for d in NAMED_DTYPES.values() if d.is_complex),
    "stored": frozenset(d for d in NAMED_DTYPES.values() if d.storage_only),
}


def format_dtypes(dtypes: Iterable[DType]) -> str:
    """Groups of dtypes by their names, others one by one."""
    left = set(dtypes)
    if left == set(NAMED_DTYPES.values()):
        return "any"
    parts = []
    for name, group in GROUPS.items():
        if group <= left:
            parts.append("`bool`" if name == "bool" else name)
            left -= group
    return ", ".join([*parts, *(f"`{d}`" for d in NAMED_DTYPES.values() if d in left)])


def dtypes_of(family: Family) -> str:
    """What the operation takes, and what it gives where that is not the same."""
    if family.name == "astype_":
        targets = format_dtypes(result for op in family.members for _, result in signatures(op)[:1])
        return f"x of {format_dtypes(x for (x,), _ in signatures(family.members[0]))} dtype, T {targets} dtype"
    if family.name == "bitcast_":
        targets = ", ".join(f"`{op.name.removeprefix(family.name)}`" for op in family.members)
        return f"T one of {targets}; x of one of these as wide"
    found = signatures(family.members[0])
    alike = [(operands[-1], result) for operands, result in found if len({*operands[-1:], *operands}) == 1]
    if len(alike) == len(found):
        return format_dtypes(x for x, _ in alike) + _result_clause(alike)
    leading = {operands[0] for operands, _ in found}
    if len(leading) == 1 and all(len(set(operands[1:])) == 1 for operands, _ in found):
        first = family.members[0].operands[0]
        rest = [(operands[1], result) for operands, result in found]
        return (f"{first} {format_dtypes(leading)}; the others one dtype: {format_dtypes(x for x, _ in rest)}"
                + _result_clause(rest))
    raise LookupError(f"{family.title}: no words for its dtypes")


def _result_clause(pairs: Sequence[tuple[DType, DType]]) -> str:
    """What is said of the result where it is not of the operands' dtype."""
    others = {x: result for x, result in pairs if x != result}
    if not others:
        return ""
    if len({result for _, result in pairs}) == 1:
        return f"; the result is `{pairs[0][1]}`"
    return "; " + ", ".join(f"`{result}` of `{x}`" for x, result in others.items())


def identity_of(op: ScalarOp) -> str:
    """The value that reductions start from, by dtype where it differs."""
    assert op.identity is not None
    accepted = {operands[0] for operands, _ in signatures(op)}
    found = {d: format_number(d.numpy.type(op.identity(d)), d) for d in (F32, I8, U8, BOOL) if d in accepted}
    plain = {text.removesuffix(".0") for text in found.values()}
    return plain.pop() if len(plain) == 1 else ", ".join(f"{text} in `{d}`" for d, text in found.items())


def scalar_derivative(family: Family) -> str:
    """The cotangent of each operand as an expression."""
    op = next((x for x in family.members if x.name.endswith("f32")), family.members[0])
    if op.derivative is NOT_DIFFERENTIABLE:
        return "none; cotangents stop here"
    found = {dtype: text.replace(op.name, family.title) for dtype in (F32, C64)
             for operands, result in signatures(op) if dtype in operands
             for text in [_cotangents(op, operands, result)]}
    plain, complex_ = found.get(F32, found.get(C64, "")), found.get(C64)
    if family.name == "astype_":
        return f"{plain}, of an x of `f32`; none where x or T has none"
    return plain if complex_ in (plain, None) else f"{plain}; of complex numbers {complex_}"


def _cotangents(op: ScalarOp, operands: Sequence[DType], result: DType) -> str:
    assert callable(op.derivative)
    given = [parameter(n + 1, dtype) for n, dtype in enumerate(operands)]
    names = ("g", *op.operands)
    parts = [None if x is None else format_expression(x, names) for x in op.derivative(parameter(0, result), *given)]
    if len(parts) == 1:
        return "none" if parts[0] is None else f"`{parts[0]}`"
    return "; ".join(f"{name}: {'none' if part is None else f'`{part}`'}"
                     for name, part in zip(op.operands, parts, strict=True))


INFIX = {"add": ("+", 1), "subtract": ("-", 1), "multiply": ("*", 2), "divide": ("/", 2)}


def format_expression(expr: ScalarExpr, names: Sequence[str], least: int = 0) -> str:
    """An expression as mathematics, in parentheses where it binds less than `least`."""
    match expr:
        case ScalarParameter():
            return names[expr.index]
        case ScalarLiteral():
            value = expr.value.real if expr.dtype.is_complex and expr.value.imag == 0 else expr.value
            return format_number(value, dtype_of(value.dtype)).removesuffix(".0")
        case ScalarApply() if expr.op.name in INFIX:
            sign, strength = INFIX[expr.op.name]
            left, right = expr.arguments
            text = f"{format_expression(left, names, strength)} {sign} {format_expression(right, names, strength + 1)}"
        case ScalarApply() if expr.op.name == "negative":
            text, strength = f"-{format_expression(expr.arguments[0], names, 2)}", 1
        case ScalarApply():
            return f"{expr.op.name}({', '.join(format_expression(x, names) for x in expr.arguments)})"
        case _:
            raise TypeError(expr)
    return f"({text})" if strength < least else text


def value_lines(family: Family, values: Values) -> Iterator[str]:
    """`add(0.1, 0.2) = 0.3` for each of the values, after their dtype."""
    op = scalar_op_named(family.name + values.member)
    arrays = values.arrays()
    result = evaluate_op(op, op.result_dtype(*(dtype_of(x.dtype) for x in arrays)), *arrays)
    head = " ".join(dict.fromkeys(values.dtypes))
    for row in zip(*arrays, result, strict=True):
        *operands, found = map(format_exactly, row)
        yield f"{head}: {op.name}({', '.join(operands)}) = {found}"


def format_exactly(value: Any) -> str:
    """A number with all its digits where it is of a narrow float."""
    dtype = dtype_of(np.asarray(value).dtype)
    if dtype.is_float and dtype.bits < 32:
        return format_number(np.float64(value), F64)
    return format_number(value, dtype)


def main(arguments: Sequence[str]) -> int:
    text = page()
    if "--check" in arguments:
        same = PAGE.exists() and PAGE.read_text(encoding="utf-8") == text
        print(f"{PAGE.name} is {'up to date' if same else 'not what python -m docs.generate writes'}")
        return 0 if same else 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))


__all__: Sequence[Any] = ("PAGE", "check_complete", "page")

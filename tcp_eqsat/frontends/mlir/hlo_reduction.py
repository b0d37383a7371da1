"""Contractions and reductions of XLA's dialects, over axes and over windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tcp_eqsat.errors import ShapeMismatch, TypeMismatch, VerificationError
from tcp_eqsat.frontends.mlir.hlo_elementwise import apply_scalar, convert
from tcp_eqsat.frontends.mlir.site import Lowering, Site
from tcp_eqsat.lang.dims import Size
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.ops.accumulate_builders import reduce_by
from tcp_eqsat.lang.ops.attributes import ReduceAttributes
from tcp_eqsat.lang.ops.builders import splat
from tcp_eqsat.lang.ops.window_builders import WindowShape, reduce_window, select_and_scatter
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.scalar import ScalarFunction, scalar_op_named
from tcp_eqsat.lang.types import BOOL, F32, I32, DType

# Contractions


def _dot(site: Site) -> Node:
    """The last axis of the first operand with the first of the second; each has rank 1 or 2."""
    x, y = site.tensors(2)
    if not (1 <= len(x.shape) <= 2 and 1 <= len(y.shape) <= 2):
        raise TypeMismatch(
            f"{site.name} requires operands of rank 1 or 2, got {x.type} and {y.type}"
        )
    return _contract(site, ((len(x.shape) - 1,), (0,)), ((), ()))


def _dot_general(site: Site) -> Node:
    numbers = site.parts("dot_dimension_numbers")
    site.tensors(2)

    def axes(key: str) -> tuple[int, ...]:
        return site.integers_of(numbers[key]) if key in numbers else ()

    return _contract(
        site,
        (axes("lhs_contracting_dimensions"), axes("rhs_contracting_dimensions")),
        (axes("lhs_batching_dimensions"), axes("rhs_batching_dimensions")),
    )


AxisPairs = tuple[tuple[int, ...], tuple[int, ...]]


def _contract(site: Site, contracted: AxisPairs, batch: AxisPairs) -> Node:
    x, y = site.tensors(2)
    for left, right in (contracted, batch):
        for a, b in zip(left, right, strict=False):
            if 0 <= a < len(x.shape) and 0 <= b < len(y.shape):
                site.assume_equal(x.shape[a], y.shape[b])
    x, y = site.tensors(2)
    dtype = site.stated()[0]
    work = contraction_dtype(dtype)
    return from_contraction(builders.dot_general(convert(x, work), convert(y, work), contracted, batch), dtype)


def contraction_dtype(result: DType) -> DType:
    """What products are computed and added up in, for a result of a dtype."""
    if result == BOOL:
        return I32
    return (F32 if result.is_float else I32) if result.storage_only else result


def from_contraction(x: Node, dtype: DType) -> Node:
    return apply_scalar("not_equal", x, splat(0, x.dtype, x.shape)) if dtype == BOOL else convert(x, dtype)


def _einsum(site: Site) -> Node:
    """`ab,bc->ac`: letters name the axes of operands and result; those that the result lacks are summed over."""
    x, y = site.tensors(2)
    (left, right), result = _letters(site, 2)
    order = [*result, *dict.fromkeys(letter for letter in left + right if letter not in result)]
    extents = _extents_of_letters(site, ((left, x), (right, y)))
    dtype = site.stated()[0]
    work = contraction_dtype(dtype)
    found = builders.contract(
        convert(x, work), convert(y, work), tuple(map(order.index, left)), tuple(map(order.index, right)),
        tuple(extents[letter] for letter in order), len(result))
    return from_contraction(found, dtype)


def _unary_einsum(site: Site) -> Node:
    (x,) = site.tensors(1)
    (letters,), result = _letters(site, 1)
    order = [*result, *(letter for letter in letters if letter not in result)]
    extents = _extents_of_letters(site, ((letters, x),))
    operation = scalar_op_named("add")
    return builders.reduce(operation, x, ReduceAttributes(
        operation, tuple(map(order.index, letters)), tuple(extents[letter] for letter in order), len(result)))


def _letters(site: Site, count: int) -> tuple[list[str], str]:
    """The letters of the operands and of the result; each operand names every axis once."""
    text = site.word("einsum_config").replace(" ", "")
    given, arrow, result = text.partition("->")
    operands = given.split(",")
    letters = {letter for operand in operands for letter in operand}
    plain = all(each.isalpha() or not each for each in (*operands, result))
    distinct = all(len(set(each)) == len(each) for each in (*operands, result))
    if not arrow or len(operands) != count or not plain or not distinct or not set(result) <= letters:
        raise VerificationError(
            f"{site.name} requires an einsum_config of {count} operands with distinct letters each, got {text[:60]!r}")
    return operands, result


def _extents_of_letters(site: Site, operands: Sequence[tuple[str, Node]]) -> dict[str, Size]:
    extents: dict[str, Size] = {}
    for letters, x in operands:
        if len(letters) != len(x.shape):
            raise TypeMismatch(f"{site.name} requires a letter for each axis of {x.type}, got {letters!r}")
        for letter, size in zip(letters, x.shape, strict=True):
            if not site.assume_equal(extents.setdefault(letter, size), size):
                raise ShapeMismatch(
                    f"{site.name} requires equal sizes along {letter!r}, got {extents[letter]} and {size}")
    return extents


# Reductions


def combined(site: Site, count: int) -> tuple[tuple[Node, ...], tuple[Node, ...], tuple[ScalarFunction, ...]]:
    """The operands and start values of a reduction, in the dtypes that its region combines, and what that does."""
    learn_equal_shapes(site, range(count))
    operands = site.tensors(2 * count)
    inputs, starts = operands[:count], operands[count:]
    for x, start in zip(inputs, starts, strict=True):
        if start.shape:
            raise TypeMismatch(
                f"{site.name} requires a start value of type {x.dtype}[], got {start.type}"
            )
    dtypes = [start.dtype for start in starts]
    functions = site.scalar_functions(0, [*dtypes, *dtypes])
    if [f.dtype for f in functions] != dtypes:
        raise TypeMismatch(
            f"{site.name} requires a region with results {', '.join(map(str, dtypes))}, as its start values, "
            f"got {', '.join(str(f.dtype) for f in functions)}")
    return tuple(convert(x, dtype) for x, dtype in zip(inputs, dtypes, strict=True)), starts, functions


def learn_equal_shapes(site: Site, positions: Sequence[int]) -> None:
    """Learns that operands have one shape."""
    for position in positions[1:]:
        pairs = zip(site.tensor(positions[0]).shape, site.tensor(position).shape, strict=False)
        for left, right in pairs:
            site.assume_equal(left, right)


def _count(site: Site) -> int:
    """How many tensors are reduced together."""
    count, odd = divmod(len(site.op.operands), 2)
    if odd or not count:
        raise TypeMismatch(
            f"{site.name} requires a start value for each operand, got {len(site.op.operands)} of both together")
    return count


def _reduce(site: Site) -> tuple[Node, ...]:
    inputs, starts, functions = combined(site, _count(site))
    axes = site.integers("dimensions")
    rank = len(inputs[0].shape)
    if len(set(axes)) != len(axes) or not all(0 <= axis < rank for axis in axes):
        raise TypeMismatch(f"{site.name} requires distinct axes of {inputs[0].type}, got {list(axes)}")
    return reduce_by(inputs, starts, functions, axes)


def window_shape(site: Site, rank: int, base_dilations: str = "base_dilations") -> WindowShape:
    """The windows that an operation's attributes describe."""
    sizes = site.integers("window_dimensions")
    ones = (1,) * rank
    strides = site.integers("window_strides", ones)
    dilations = site.integers("window_dilations", ones)
    interior = site.integers(base_dilations, ones)
    padding = site.pairs("padding", rank)
    if not all(len(each) == rank for each in (sizes, strides, dilations, interior)):
        raise VerificationError(f"{site.name} requires {rank} numbers for each attribute of the window")
    if any(n < 1 for each in (sizes, strides, dilations, interior) for n in each):
        raise VerificationError(f"{site.name} requires sizes, strides and dilations of at least 1")
    return WindowShape.of(
        sizes, strides, dilations, tuple(low for low, _ in padding), tuple(high for _, high in padding),
        tuple(n - 1 for n in interior))


def _reduce_window(site: Site) -> tuple[Node, ...]:
    inputs, starts, functions = combined(site, _count(site))
    return reduce_window(inputs, starts, functions, window_shape(site, len(inputs[0].shape)))


def _select_and_scatter(site: Site) -> Node:
    x, source, start = site.tensors(3)
    (select,) = _single(site, 0, x.dtype)
    (combine,) = _single(site, 1, x.dtype)
    return select_and_scatter(x, source, start, select, combine, window_shape(site, len(x.shape)))


def _single(site: Site, position: int, dtype: DType) -> tuple[ScalarFunction, ...]:
    functions = site.scalar_functions(position, (dtype, dtype))
    if len(functions) != 1:
        raise VerificationError(f"{site.name} requires regions with 1 result, got {len(functions)}")
    return functions


MONOIDS = {
    "add": "add",
    "and": "bitwise_and",
    "max": "maximum",
    "maximum": "maximum",
    "min": "minimum",
    "minimum": "minimum",
    "mul": "multiply",
    "multiply": "multiply",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
}
"""Operations that a reduction's region may apply, by the names that text has for them."""

REDUCTION: Mapping[str, Lowering] = {
    "dot": _dot,
    "dot_general": _dot_general,
    "einsum": _einsum,
    "reduce": _reduce,
    "reduce_window": _reduce_window,
    "select_and_scatter": _select_and_scatter,
    "unary_einsum": _unary_einsum,
}

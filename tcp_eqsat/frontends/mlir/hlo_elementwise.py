"""Elementwise operations of XLA's dialects. Broadcasting that an operation carries becomes an explicit
view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tcp_eqsat.errors import ShapeMismatch, TypeMismatch, VerificationError
from tcp_eqsat.frontends.mlir.site import Lowering, Site
from tcp_eqsat.lang.dims import Size
from tcp_eqsat.lang.ops.builders import broadcast_in_dim, map_scalar
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.scalar import ScalarOp, scalar_op_named
from tcp_eqsat.lang.scalars.conversion import conversion
from tcp_eqsat.lang.types import BOOL, DTYPES, DType

UNARY = {
    "abs": "abs",
    "ceil": "ceil",
    "cos": "cos",
    "cosine": "cos",
    "exp": "exp",
    "exponential": "exp",
    "exponential_minus_one": "expm1",
    "expm1": "expm1",
    "floor": "floor",
    "is_finite": "isfinite",
    "log": "log",
    "log1p": "log1p",
    "log_plus_one": "log1p",
    "logistic": "logistic",
    "neg": "negative",
    "negate": "negative",
    "not": "bitwise_invert",
    "round_nearest_even": "round",
    "rsqrt": "rsqrt",
    "sign": "sign",
    "sin": "sin",
    "sine": "sin",
    "sqrt": "sqrt",
    "tanh": "tanh",
}
BINARY = {
    "add": "add",
    "and": "bitwise_and",
    "div": "divide",
    "divide": "divide",
    "max": "maximum",
    "maximum": "maximum",
    "min": "minimum",
    "minimum": "minimum",
    "mul": "multiply",
    "multiply": "multiply",
    "or": "bitwise_or",
    "pow": "pow",
    "power": "pow",
    "rem": "fmod",
    "remainder": "fmod",
    "shift_left": "bitwise_left_shift",
    "sub": "subtract",
    "subtract": "subtract",
    "xor": "bitwise_xor",
}
_OF_BOOL = {"add": "bitwise_or", "multiply": "bitwise_and"}
COMPARISONS = {
    "EQ": "equal",
    "NE": "not_equal",
    "LT": "less",
    "LE": "less_equal",
    "GT": "greater",
    "GE": "greater_equal",
}


def scalar_of(name: str, dtype: DType) -> ScalarOp:
    """The scalar operation of an elementwise name. Of truth values the sum is `or`, the product
    `and`."""
    return scalar_op_named(_OF_BOOL.get(name, name) if dtype == BOOL else name)


def aligned(site: Site, count: int) -> tuple[Node, ...]:
    """The `count` operands in the shape of the one of highest rank: scalars everywhere, others
    along the operation's `broadcast_dimensions`, axes of size 1 along all of the other
    operand's."""
    operands = site.tensors(count)
    shapes = [x.shape for x in operands]
    if all(shape == shapes[0] for shape in shapes):
        return operands
    rank = max(map(len, shapes))
    axes_of: list[tuple[int, ...]] = []
    for x in operands:
        if len(x.shape) == rank:
            axes_of.append(tuple(range(rank)))
        elif not x.shape:
            axes_of.append(())
        else:
            axes_of.append(_axes(site, x, rank))
    shape = _joined_shape(site, operands, axes_of, rank)
    return tuple(
        broadcast_in_dim(x, shape, axes) if len(x.shape) < rank or x.shape != shape else x
        for x, axes in zip(site.tensors(), axes_of, strict=True)
    )


def _axes(site: Site, x: Node, rank: int) -> tuple[int, ...]:
    if "broadcast_dimensions" not in site.op.attributes:
        raise TypeMismatch(
            f"{site.name} requires operands of one rank or broadcast_dimensions, "
            f"got {x.type} beside rank {rank}"
        )
    axes = site.integers("broadcast_dimensions")
    if len(axes) != len(x.shape) or not all(0 <= axis < rank for axis in axes):
        raise TypeMismatch(
            f"{site.name} requires broadcast_dimensions below {rank} for each axis of {x.type}, "
            f"got {list(axes)}"
        )
    return axes


def _joined_shape(
    site: Site, operands: Sequence[Node], axes_of: Sequence[tuple[int, ...]], rank: int
) -> tuple[Size, ...]:
    """The common size along each axis: 1 gives way to any other size, other sizes are learned
    to be equal."""
    shape: list[Size] = [1] * rank
    owner = [0] * rank
    for number, (x, axes) in enumerate(zip(operands, axes_of, strict=True)):
        for own, axis in enumerate(axes):
            size = x.shape[own]
            if shape[axis] == 1 and size != 1:
                shape[axis], owner[axis] = size, number
            elif size != 1 and not site.assume_equal(size, shape[axis]):
                raise ShapeMismatch(
                    f"{site.name} requires equal sizes, got {shape[axis]} (operand {owner[axis]}) "
                    f"and {size} (operand {number}) along axis {axis}"
                )
    return tuple(map(site.scope.sizes.resolve, shape))


def _unary(name: str) -> Lowering:
    def lower(site: Site) -> Node:
        (x,) = site.tensors(1)
        return map_scalar(scalar_op_named(name), x)

    return lower


def _binary(name: str) -> Lowering:
    def lower(site: Site) -> Node:
        x, y = aligned(site, 2)
        return map_scalar(scalar_of(name, x.dtype), x, y)

    return lower


def _compare(site: Site) -> Node:
    direction = site.word("comparison_direction")
    if direction not in COMPARISONS:
        raise VerificationError(
            f"{site.name} requires a comparison_direction of {', '.join(COMPARISONS)}, got {direction!r}"
        )
    x, y = aligned(site, 2)
    return map_scalar(scalar_op_named(COMPARISONS[direction]), x, y)


def _select(site: Site) -> Node:
    return map_scalar(scalar_op_named("where"), *aligned(site, 3))


def _clamp(site: Site) -> Node:
    low, x, high = aligned(site, 3)
    above = map_scalar(scalar_op_named("maximum"), low, x)
    return map_scalar(scalar_op_named("minimum"), above, high)


def _convert(site: Site) -> Node:
    (x,) = site.tensors(1)
    dtype, _ = site.stated()
    return x if x.dtype == dtype else map_scalar(conversion(dtype), x)


def _shift_right(signed: bool) -> Lowering:
    """The dtype decides whether our shift keeps the sign; converting between equal widths keeps
    the bits."""

    def lower(site: Site) -> Node:
        x, y = aligned(site, 2)
        if not x.dtype.is_integer:
            raise TypeMismatch(f"{site.name} requires integers, got {x.type}")
        work = conversion(DTYPES[f"{'i' if signed else 'u'}{x.dtype.bits}"])
        shifted = map_scalar(
            scalar_op_named("bitwise_right_shift"), map_scalar(work, x), map_scalar(work, y)
        )
        return map_scalar(conversion(x.dtype), shifted)

    return lower


ELEMENTWISE: Mapping[str, Lowering] = {
    **{name: _unary(meaning) for name, meaning in UNARY.items()},
    **{name: _binary(meaning) for name, meaning in BINARY.items()},
    "clamp": _clamp,
    "compare": _compare,
    "convert": _convert,
    "copy": lambda site: site.tensors(1)[0],
    "select": _select,
    "shift_right_arithmetic": _shift_right(signed=True),
    "shift_right_logical": _shift_right(signed=False),
}

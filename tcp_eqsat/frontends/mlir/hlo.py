"""What the operations of XLA's dialects mean: a table from names to lowerings.

Names are keys without their dialect, in the short form of `xla_hlo` and the long one of its
successors alike. Broadcasting that an operation carries becomes an explicit view.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tcp_eqsat.errors import ParseError, ShapeMismatch, TypeMismatch, VerificationError
from tcp_eqsat.frontends.mlir.literals import decode
from tcp_eqsat.frontends.mlir.site import Lowering, Site, tensor_parts
from tcp_eqsat.frontends.mlir.tree import Dense, SyntaxOp
from tcp_eqsat.lang.dims import Size, exact_divide, product
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.ops.builders import broadcast_in_dim, broadcast_scalar, map_scalar
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.scalar import ScalarOp, scalar_op_named
from tcp_eqsat.lang.scalar_table import conversion
from tcp_eqsat.lang.types import BOOL, DTYPES, DType

# Elementwise

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


def _scalar(name: str, dtype: DType) -> ScalarOp:
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
        return map_scalar(_scalar(name, x.dtype), x, y)

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


# Values and shapes


def _constant(site: Site) -> Node:
    literal = site.attribute("value")
    if not isinstance(literal, Dense):
        raise ParseError(f"{site.name} requires a dense literal", site.where)
    value = builders.constant(decode(literal, site.scope.source))
    shape = tuple(size for size in literal.type.shape if size is not None)
    return value if value.shape == shape else broadcast_scalar(value, shape)


def _iota(site: Site) -> Node:
    site.require_operands(0)
    dtype, _ = site.stated()
    return builders.iota(dtype, site.result_shape(), site.integer("iota_dimension"))


def _broadcast(site: Site) -> Node:
    """`broadcast_sizes` are new leading axes; -1 stands for a size that the result's type
    leaves open."""
    (x,) = site.tensors(1)
    sizes = site.integers("broadcast_sizes")
    rank = len(sizes)
    given: dict[int, Size] = {axis: size for axis, size in enumerate(sizes) if size >= 0}
    given.update({rank + axis: size for axis, size in enumerate(x.shape)})
    stated = site.stated()[1]
    if len(stated) != rank + len(x.shape):
        raise TypeMismatch(
            f"{site.name} gives rank {rank + len(x.shape)}, the text states rank {len(stated)}"
        )
    open_axes = {axis for axis, size in enumerate(sizes) if size < 0}
    result = site.result_shape(given)
    shape = tuple(size if axis in open_axes else given[axis] for axis, size in enumerate(result))
    return broadcast_in_dim(x, shape, tuple(range(rank, len(shape))))


def _broadcast_in_dim(site: Site) -> Node:
    site.require_operands(1)
    return broadcast_along(site, None)


def broadcast_along(site: Site, shape: tuple[Size, ...] | None) -> Node:
    """Operand 0 with its axes at `broadcast_dimensions` of `shape`, or of the stated shape. Where
    the text leaves both sizes open they are equal; only an axis that is stated as 1 stretches."""
    x, axes = site.tensor(0), site.integers("broadcast_dimensions")
    known: dict[int, Size] = {}
    if len(axes) == len(x.shape) and site.op.operand_types:
        _, stated = tensor_parts(site.op.operand_types[0])
        known = {
            axis: size
            for axis, size, given in zip(axes, x.shape, stated, strict=True)
            if given != 1
        }
    if shape is None:
        shape = site.result_shape(known)
    for axis, size in known.items():
        if 0 <= axis < len(shape):
            site.assume_equal(size, shape[axis])
    return broadcast_in_dim(site.tensor(0), tuple(map(site.scope.sizes.resolve, shape)), axes)


def _reshape(site: Site) -> Node:
    """A single open size follows from the number of elements."""
    (x,) = site.tensors(1)
    stated = site.stated()[1]
    known = [size for size in stated if size is not None]
    if stated.count(None) == 1 and 0 not in known:
        rest = exact_divide(product(x.shape), product(known))
        if rest is not None:
            return builders.reshape(x, site.result_shape({stated.index(None): rest}))
    return builders.reshape(x, site.result_shape())


def _transpose(site: Site) -> Node:
    (x,) = site.tensors(1)
    return builders.transpose(x, site.integers("permutation"))


def _slice(site: Site) -> Node:
    (x,) = site.tensors(1)
    starts = site.integers("start_indices")
    limits = site.integers("limit_indices")
    strides = site.integers("strides", (1,) * len(starts))
    for size, limit in zip(x.shape, limits, strict=False):
        site.scope.sizes.assume_at_least(size, limit)
    return builders.slice_(site.tensor(0), starts, limits, strides)


def _concatenate(site: Site) -> Node:
    operands = site.tensors()
    axis = site.integer("dimension")
    if not operands:
        raise TypeMismatch(f"{site.name} requires at least one operand")
    first = operands[0]
    for x in operands[1:]:
        if len(x.shape) == len(first.shape):
            for number, (left, right) in enumerate(zip(first.shape, x.shape, strict=True)):
                if number != axis:
                    site.assume_equal(left, right)
    return builders.concatenate(site.tensors(), axis)


def _pad(site: Site) -> Node:
    """Negative amounts cut; interior padding goes by a view with an inner axis."""
    x, value = site.tensors(2)
    low, high = site.integers("edge_padding_low"), site.integers("edge_padding_high")
    rank = len(x.shape)
    interior = site.integers("interior_padding", (0,) * rank)
    if not len(low) == len(high) == len(interior) == rank:
        raise TypeMismatch(f"{site.name} requires amounts for each axis of {x.type}")
    if any(amount < 0 for amount in interior):
        raise TypeMismatch(
            f"{site.name} requires interior padding of at least 0, got {list(interior)}"
        )
    for axis, amount in enumerate(interior):
        if amount:
            x = _pad_interior(site, x, value, axis, amount)
    x = builders.pad(x, value, tuple(max(0, n) for n in low), tuple(max(0, n) for n in high))
    starts = tuple(max(0, -n) for n in low)
    limits = tuple(size - max(0, -n) for size, n in zip(x.shape, high, strict=True))
    return builders.slice_(x, starts, limits)


def _pad_interior(site: Site, x: Node, value: Node, axis: int, amount: int) -> Node:
    """`amount` times the value between neighbours along `axis`."""
    size = x.shape[axis]
    if not isinstance(size, int):
        raise ShapeMismatch(
            f"{site.name} requires a known size where it pads between elements, got {x.type} axis {axis}"
        )
    if size < 2:
        return x
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    split = builders.reshape(x, (*before, size, 1, *after))
    zeros = (0,) * len(split.shape)
    high = (*zeros[: axis + 1], amount, *zeros[axis + 2 :])
    whole = builders.reshape(
        builders.pad(split, value, zeros, high), (*before, size * (amount + 1), *after)
    )
    limits = (*before, size * (amount + 1) - amount, *after)
    return builders.slice_(whole, (0,) * len(x.shape), limits)


# Contraction and reduction


def _dot(site: Site) -> Node:
    """The last axis of the first operand with the first of the second; each has rank 1 or 2."""
    x, y = site.tensors(2)
    if not (1 <= len(x.shape) <= 2 and 1 <= len(y.shape) <= 2):
        raise TypeMismatch(
            f"{site.name} requires operands of rank 1 or 2, got {x.type} and {y.type}"
        )
    return _contract(site, ((len(x.shape) - 1,), (0,)), ((), ()))


def _dot_general(site: Site) -> Node:
    numbers = site.attribute("dot_dimension_numbers")
    if not isinstance(numbers, dict):
        raise VerificationError(f"{site.name} requires dot_dimension_numbers = {{...}}")
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
    return builders.dot_general(x, y, contracted, batch)


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


def _reduce(site: Site) -> Node:
    """One tensor and its start value; the region must be a single associative operation of its
    two arguments."""
    x, start = site.tensors(2)
    operation = _scalar(_monoid(site, x.dtype), x.dtype)
    result = builders.reduce_axes(operation, x, site.integers("dimensions"))
    if start.shape or start.dtype != x.dtype:
        raise TypeMismatch(
            f"{site.name} requires a start value of type {x.dtype}[], got {start.type}"
        )
    if _is_identity(start, operation):
        return result
    return map_scalar(operation, broadcast_scalar(start, result.shape), result)


def _is_identity(start: Node, operation: ScalarOp) -> bool:
    """Whether starting from this value is what our reduction does anyway."""
    assert operation.identity is not None
    return start is builders.scalar_constant(operation.identity(start.dtype), start.dtype)


def _monoid(site: Site, dtype: DType) -> str:
    body = _single_operation(site, dtype)
    name = body.name.rpartition(".")[2]
    if name not in MONOIDS:
        raise VerificationError(
            f"{site.name} requires a region of one operation of {', '.join(MONOIDS)}, "
            f"got {body.name}",
            site.scope.source.location(body.offset, body.length),
        )
    return MONOIDS[name]


def _single_operation(site: Site, dtype: DType) -> SyntaxOp:
    """The operation of a region of the form (x, y) -> op(x, y) or op(y, x) on scalars of
    `dtype`."""
    regions = site.op.regions
    if len(regions) == 1 and len(regions[0].blocks) == 1:
        block = regions[0].blocks[0]
        if len(block.operations) == 2 and len(block.arguments) == 2:
            body, end = block.operations
            arguments = sorted(argument.name.name for argument in block.arguments)
            used = sorted(operand.name for operand in body.operands)
            returned = [operand.name for operand in end.operands]
            results = [result.name for result in body.results]
            scalars = all(tensor_parts(x.type) == (dtype, ()) for x in block.arguments)
            applied = used == arguments and returned == results
            if end.name.endswith("return") and scalars and applied:
                return body
    where = site.scope.source.location(regions[0].offset) if regions else site.where
    raise VerificationError(
        f"{site.name} requires a region that applies one operation to its two arguments "
        "and returns the result",
        where,
    )


HLO: Mapping[str, Lowering] = {
    **{name: _unary(meaning) for name, meaning in UNARY.items()},
    **{name: _binary(meaning) for name, meaning in BINARY.items()},
    "broadcast": _broadcast,
    "broadcast_in_dim": _broadcast_in_dim,
    "clamp": _clamp,
    "compare": _compare,
    "concatenate": _concatenate,
    "constant": _constant,
    "convert": _convert,
    "copy": lambda site: site.tensors(1)[0],
    "dot": _dot,
    "dot_general": _dot_general,
    "iota": _iota,
    "pad": _pad,
    "reduce": _reduce,
    "reshape": _reshape,
    "select": _select,
    "shift_right_arithmetic": _shift_right(signed=True),
    "shift_right_logical": _shift_right(signed=False),
    "slice": _slice,
    "transpose": _transpose,
}

"""Elementwise operations of XLA's dialects. Broadcasting that an operation carries becomes an explicit
view."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tcp_eqsat.errors import ShapeMismatch, TypeMismatch, VerificationError
from tcp_eqsat.frontends.mlir.site import Lowering, Site
from tcp_eqsat.lang.dims import Size
from tcp_eqsat.lang.ops.builders import broadcast_in_dim, map_function, map_scalar, splat
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.scalar import ScalarOp, scalar_op_named
from tcp_eqsat.lang.scalars.conversion import conversion
from tcp_eqsat.lang.types import BOOL, DTYPES, F32, I8, U8, DType, Kind

UNARY = {
    "abs": "abs",
    "cbrt": "cbrt",
    "ceil": "ceil",
    "cos": "cos",
    "cosine": "cos",
    "count_leading_zeros": "count_leading_zeros",
    "exp": "exp",
    "exponential": "exp",
    "exponential_minus_one": "expm1",
    "expm1": "expm1",
    "floor": "floor",
    "imag": "imag",
    "is_finite": "isfinite",
    "log": "log",
    "log1p": "log1p",
    "log_plus_one": "log1p",
    "logistic": "logistic",
    "neg": "negative",
    "negate": "negative",
    "not": "bitwise_invert",
    "popcnt": "popcount",
    "real": "real",
    "round_nearest_afz": "round_away",
    "round_nearest_even": "round",
    "rsqrt": "rsqrt",
    "sign": "sign",
    "sin": "sin",
    "sine": "sin",
    "sqrt": "sqrt",
    "tan": "tan",
    "tanh": "tanh",
}
CHLO_UNARY = {
    "acos": "acos",
    "acosh": "acosh",
    "asin": "asin",
    "asinh": "asinh",
    "atan": "atan",
    "atanh": "atanh",
    "bessel_i1e": "bessel_i1e",
    "conj": "conj",
    "digamma": "digamma",
    "erf": "erf",
    "erf_inv": "erf_inv",
    "erfc": "erfc",
    "is_inf": "isinf",
    "lgamma": "lgamma",
    "square": "square",
    "tan": "tan",
}
BINARY = {
    "add": "add",
    "and": "bitwise_and",
    "atan2": "atan2",
    "complex": "complex",
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
CHLO_BINARY = {
    "next_after": "nextafter",
    "polygamma": "polygamma",
    "zeta": "zeta",
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


def apply_scalar(name: str, *operands: Node) -> Node:
    """A scalar operation on operands of one shape. Dtypes without arithmetic are computed in a wider one and
    rounded to, once."""
    storage = next((x.dtype for x in operands if x.dtype.storage_only), None)
    if storage is None:
        return map_scalar(scalar_of(name, operands[0].dtype), *operands)
    wide = F32 if storage.is_float else U8 if storage.kind is Kind.UINT else I8
    found = apply_scalar(name, *(convert(x, wide) if x.dtype.storage_only else x for x in operands))
    return convert(found, storage) if found.dtype == wide else found


def convert(x: Node, dtype: DType) -> Node:
    return x if x.dtype == dtype else map_scalar(conversion(dtype), x)


# Operands of one shape


def is_strict(site: Site) -> bool:
    """Whether operands must have one shape: where the dialect has no broadcasting of its own."""
    return site.dialect in ("stablehlo", "mhlo")


def aligned(site: Site, count: int, *, scalars: bool = False) -> tuple[Node, ...]:
    """The `count` operands in the shape of the one of highest rank: scalars everywhere, others
    along the operation's `broadcast_dimensions`, axes of size 1 along all of the other
    operand's. Where the dialect has no broadcasting, only scalars are spread, if they may be."""
    operands = site.tensors(count)
    shapes = [x.shape for x in operands]
    if all(shape == shapes[0] for shape in shapes):
        return operands
    rank = max(map(len, shapes))
    strict = is_strict(site)
    axes_of: list[tuple[int, ...]] = []
    for x in operands:
        if len(x.shape) == rank:
            axes_of.append(tuple(range(rank)))
        elif not x.shape and (scalars or not strict):
            axes_of.append(())
        else:
            axes_of.append(_axes(site, x, rank, strict))
    shape = _joined_shape(site, operands, axes_of, rank, strict)
    return tuple(
        broadcast_in_dim(x, shape, axes) if len(x.shape) < rank or x.shape != shape else x
        for x, axes in zip(site.tensors(), axes_of, strict=True)
    )


def _axes(site: Site, x: Node, rank: int, strict: bool) -> tuple[int, ...]:
    if strict:
        raise ShapeMismatch(f"{site.name} requires operands of one shape, got {x.type} beside rank {rank}")
    if "broadcast_dimensions" not in site.op.attributes:
        if site.dialect == "chlo":
            return tuple(range(rank - len(x.shape), rank))
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
    site: Site, operands: Sequence[Node], axes_of: Sequence[tuple[int, ...]], rank: int, strict: bool
) -> tuple[Size, ...]:
    """The common size along each axis: 1 gives way to any other size (unless `strict`), other sizes
    are learned to be equal."""
    shape: list[Size | None] = [None] * rank
    owner = [0] * rank
    for number, (x, axes) in enumerate(zip(operands, axes_of, strict=True)):
        for own, axis in enumerate(axes):
            size, known = x.shape[own], shape[axis]
            if known is None or (known == 1 and size != 1 and not strict):
                shape[axis], owner[axis] = size, number
            elif (size != 1 or (strict and known != 1)) and not site.assume_equal(size, known):
                raise ShapeMismatch(
                    f"{site.name} requires equal sizes, got {known} (operand {owner[axis]}) "
                    f"and {size} (operand {number}) along axis {axis}"
                )
    return tuple(site.scope.sizes.resolve(1 if size is None else size) for size in shape)


# Operations


def _unary(name: str) -> Lowering:
    def lower(site: Site) -> Node:
        (x,) = site.tensors(1)
        return apply_scalar(name, x)

    return lower


def _binary(name: str) -> Lowering:
    def lower(site: Site) -> Node:
        return apply_scalar(name, *aligned(site, 2))

    return lower


def _of_complex(name: str) -> Lowering:
    """Of real numbers `real` is the number, `imag` zero."""

    def lower(site: Site) -> Node:
        (x,) = site.tensors(1)
        if x.dtype.is_complex:
            return apply_scalar(name, x)
        return x if name == "real" else splat(0, x.dtype, x.shape)

    return lower


def _compare(site: Site) -> Node:
    direction = site.word("comparison_direction")
    if direction not in COMPARISONS:
        raise VerificationError(
            f"{site.name} requires a comparison_direction of {', '.join(COMPARISONS)}, got {direction!r}"
        )
    x, y = aligned(site, 2)
    if site.word("compare_type", "") == "TOTALORDER" and x.dtype.is_float:
        x, y = _ordered_bits(x), _ordered_bits(y)
    return apply_scalar(COMPARISONS[direction], x, y)


def _ordered_bits(x: Node) -> Node:
    """Integers in the total order of floats: -NaN, -inf, ..., -0, +0, ..., inf, NaN."""
    dtype = DTYPES[f"i{x.dtype.bits}"]
    bits = map_scalar(scalar_op_named(f"bitcast_{dtype}"), x)
    zero = splat(0, dtype, x.shape)
    flipped = apply_scalar("bitwise_xor", bits, splat(2 ** (dtype.bits - 1) - 1, dtype, x.shape))
    return map_scalar(scalar_op_named("where"), apply_scalar("less", bits, zero), flipped, bits)


def _select(site: Site) -> Node:
    return map_scalar(scalar_op_named("where"), *aligned(site, 3, scalars=True))


def _clamp(site: Site) -> Node:
    low, x, high = aligned(site, 3, scalars=True)
    return apply_scalar("minimum", apply_scalar("maximum", low, x), high)


def _convert(site: Site) -> Node:
    """Of a complex number to a real one, its real part."""
    (x,) = site.tensors(1)
    dtype = site.stated()[0]
    return convert(apply_scalar("real", x) if x.dtype.is_complex and not dtype.is_complex else x, dtype)


def _atan2(site: Site) -> Node:
    """Of complex numbers -i log((y + i x) / sqrt(y**2 + x**2)), y the second operand."""
    x, y = aligned(site, 2)
    if not x.dtype.is_complex:
        return apply_scalar("atan2", x, y)
    zero, one = (splat(value, x.dtype.part, x.shape) for value in (0, 1))
    i = apply_scalar("complex", zero, one)
    squares = apply_scalar("add", apply_scalar("multiply", x, x), apply_scalar("multiply", y, y))
    direction = apply_scalar("add", y, apply_scalar("multiply", i, x))
    logarithm = apply_scalar("log", apply_scalar("divide", direction, apply_scalar("sqrt", squares)))
    return apply_scalar("negative", apply_scalar("multiply", i, logarithm))


def _shift_right(signed: bool) -> Lowering:
    """The dtype decides whether our shift keeps the sign; converting between equal widths keeps
    the bits."""

    def lower(site: Site) -> Node:
        x, y = aligned(site, 2)
        if not x.dtype.is_integer:
            raise TypeMismatch(f"{site.name} requires integers, got {x.type}")
        work = DTYPES[f"{'i' if signed else 'u'}{x.dtype.bits}"]
        shifted = apply_scalar("bitwise_right_shift", convert(x, work), convert(y, work))
        return convert(shifted, x.dtype)

    return lower


def _reduce_precision(site: Site) -> Node:
    (x,) = site.tensors(1)
    exponent, mantissa = site.integer("exponent_bits"), site.integer("mantissa_bits")
    if exponent < 1 or mantissa < 0:
        raise VerificationError(
            f"{site.name} requires at least 1 bit of exponent and 0 of mantissa, got {exponent} and {mantissa}")
    return apply_scalar(f"reduce_precision_e{min(exponent, 11)}m{min(mantissa, 52)}", x)


def _map(site: Site) -> Node:
    """A scalar function of the operands, along all axes."""
    operands = site.tensors()
    if not operands:
        raise TypeMismatch(f"{site.name} requires at least one operand")
    functions = site.scalar_functions(0, [x.dtype for x in operands])
    if len(functions) != 1:
        raise VerificationError(f"{site.name} requires a region with 1 result, got {len(functions)}")
    return map_function(functions[0], *operands)


ELEMENTWISE: Mapping[str, Lowering] = {
    **{name: _unary(meaning) for name, meaning in UNARY.items()},
    **{name: _binary(meaning) for name, meaning in BINARY.items()},
    "atan2": _atan2,
    "clamp": _clamp,
    "compare": _compare,
    "convert": _convert,
    "copy": lambda site: site.tensors(1)[0],
    "imag": _of_complex("imag"),
    "map": _map,
    "real": _of_complex("real"),
    "reduce_precision": _reduce_precision,
    "select": _select,
    "shift_right_arithmetic": _shift_right(signed=True),
    "shift_right_logical": _shift_right(signed=False),
}


# CHLO


def _is_infinite(sign: int) -> Lowering:
    def lower(site: Site) -> Node:
        (x,) = site.tensors(1)
        return apply_scalar("equal", x, splat(sign * math.inf, x.dtype, x.shape))

    return lower


def _halves(site: Site) -> tuple[Node, Node, DType]:
    """e^x / 2 and e^-x / 2 as CHLO defines them, by log(1/2) in the exponent so that neither overflows
    before the result does; in at least f32, and the dtype they are to be rounded to."""
    (x,) = site.tensors(1)
    work = F32 if x.dtype.bits < 32 else x.dtype
    wide = convert(x, work)
    half = splat(math.log(0.5), work, x.shape)
    rising = apply_scalar("exp", apply_scalar("add", wide, half))
    return rising, apply_scalar("exp", apply_scalar("subtract", half, wide)), x.dtype


def _cosh(site: Site) -> Node:
    (x,) = site.tensors(1)
    if not x.dtype.is_float:
        return apply_scalar("cosh", x)
    rising, falling, dtype = _halves(site)
    return convert(apply_scalar("add", rising, falling), dtype)


def _sinh(site: Site) -> Node:
    """By halves of exponentials where |x| >= 1; they cancel below."""
    (x,) = site.tensors(1)
    if not x.dtype.is_float:
        return apply_scalar("sinh", x)
    rising, falling, dtype = _halves(site)
    large = convert(apply_scalar("subtract", rising, falling), dtype)
    size = apply_scalar("abs", x)
    is_small = apply_scalar("less", size, splat(1, x.dtype, x.shape))
    return map_scalar(scalar_op_named("where"), is_small, apply_scalar("sinh", x), large)


CHLO_ELEMENTWISE: Mapping[str, Lowering] = {
    **{name: _unary(meaning) for name, meaning in CHLO_UNARY.items()},
    **{name: _binary(meaning) for name, meaning in CHLO_BINARY.items()},
    **{
        f"broadcast_{name}": _binary(meaning)
        for name, meaning in {**BINARY, **CHLO_BINARY}.items()
    },
    "broadcast_compare": _compare,
    "broadcast_select": _select,
    "broadcast_shift_right_arithmetic": _shift_right(signed=True),
    "broadcast_shift_right_logical": _shift_right(signed=False),
    "cosh": _cosh,
    "is_neg_inf": _is_infinite(-1),
    "is_pos_inf": _is_infinite(1),
    "sinh": _sinh,
}

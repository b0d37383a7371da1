"""The TCP dialect: its operations, verified with the requirements and in the words of its own definition."""

from __future__ import annotations

from collections.abc import Mapping

from tcp_eqsat.errors import ShapeMismatch, TypeMismatch, VerificationError
from tcp_eqsat.frontends.mlir.affine import apply_affine_map
from tcp_eqsat.frontends.mlir.attributes import word_of
from tcp_eqsat.frontends.mlir.hlo_elementwise import apply_scalar, convert
from tcp_eqsat.frontends.mlir.hlo_source import constant_of
from tcp_eqsat.frontends.mlir.hlo_structure import concatenated
from tcp_eqsat.frontends.mlir.scope import RETURNS, Content, Extents
from tcp_eqsat.frontends.mlir.site import Lowering, Site
from tcp_eqsat.frontends.mlir.tree import OpaqueAttribute, SyntaxType, TensorText
from tcp_eqsat.lang.dims import LARGEST, Size
from tcp_eqsat.lang.ops.attributes import WindowAxes
from tcp_eqsat.lang.ops.builders import broadcast_in_dim, slice_, splat
from tcp_eqsat.lang.ops.index_builders import gather, take_along_axis
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.types import BOOL, DType, dtype_named

UNARY = {
    "abs": "abs",
    "atan": "atan",
    "ceil": "ceil",
    "cos": "cos",
    "exp": "exp",
    "floor": "floor",
    "log": "log",
    "neg": "negative",
    "round": "round_away",
    "round_even": "round",
    "sigmoid": "logistic",
    "sin": "sin",
    "sqrt": "sqrt",
    "tanh": "tanh",
}
BINARY = {
    "add": "add",
    "atan2": "atan2",
    "divf": "divide",
    "mul": "multiply",
    "sub": "subtract",
}


def _refused(site: Site, requirement: str) -> TypeMismatch:
    return TypeMismatch(f"'{site.name}' op {requirement}")


def _require(site: Site, holds: bool, requirement: str) -> None:
    """Raises TypeMismatch in the dialect's words where a property of the operation does not hold."""
    if not holds:
        raise _refused(site, f"failed to verify that {requirement}")


def _tensor_types(site: Site) -> list[TensorText]:
    return [x for x in (*site.op.operand_types, *site.op.result_types) if isinstance(x, TensorText)]


def _verify_elementwise(site: Site, *, same_element: bool = True) -> None:
    types = _tensor_types(site)
    if same_element and len({x.element for x in types}) > 1:
        raise _refused(site, "requires the same element type for all operands and results")
    if not all(_compatible(types[0], x) for x in types[1:]):
        raise _refused(site, "all non-scalar operands/results must have the same shape and base type")


def _compatible(x: TensorText, y: TensorText) -> bool:
    """Whether two types can be of one shape."""
    return len(x.shape) == len(y.shape) and all(
        a is None or b is None or a == b for a, b in zip(x.shape, y.shape, strict=True))


def _equal_shapes(site: Site, count: int) -> tuple[Node, ...]:
    operands = site.tensors(count)
    for x in operands[1:]:
        for a, b in zip(operands[0].shape, x.shape, strict=True):
            if not site.assume_equal(a, b):
                raise ShapeMismatch(
                    f"'{site.name}' op requires operands of one shape, got {operands[0].type} and {x.type}")
    return site.tensors(count)


def _unary(name: str) -> Lowering:
    def lower(site: Site) -> Node:
        _verify_elementwise(site, same_element=name != "sqrt")
        (x,) = site.tensors(1)
        dtype = site.stated()[0]
        return apply_scalar(name, convert(x, dtype) if name == "sqrt" else x)

    return lower


def _binary(name: str) -> Lowering:
    def lower(site: Site) -> Node:
        _verify_elementwise(site)
        return apply_scalar(name, *_equal_shapes(site, 2))

    return lower


def _divide_integers(signed: bool) -> Lowering:
    """Towards zero, or as `rounding_mode` says."""

    def lower(site: Site) -> Node:
        _verify_elementwise(site)
        x, y = _equal_shapes(site, 2)
        if not x.dtype.is_integer:
            raise _refused(site, f"requires integers, got {x.type}")
        work = dtype_named(f"{'i' if signed else 'u'}{x.dtype.bits}")
        mode = site.word("rounding_mode", "Trunc").lower()
        a, b = convert(x, work), convert(y, work)
        quotient = apply_scalar("divide", a, b)
        if mode in ("floor", "ceil"):
            quotient = _rounded(quotient, a, b, mode)
        elif mode != "trunc":
            raise _refused(site, f"requires a rounding_mode of Trunc, Floor or Ceil, got {mode!r}")
        return convert(quotient, x.dtype)

    return lower


def _rounded(quotient: Node, x: Node, y: Node, mode: str) -> Node:
    """A quotient that was rounded towards zero, moved by one where it is inexact and on the other side."""
    zero, one = (splat(n, x.dtype, x.shape) for n in (0, 1))
    inexact = apply_scalar("not_equal", apply_scalar("fmod", x, y), zero)
    differ = apply_scalar("not_equal", apply_scalar("less", x, zero), apply_scalar("less", y, zero))
    if mode == "floor":
        moved = apply_scalar("subtract", quotient, one)
    else:
        moved, differ = apply_scalar("add", quotient, one), apply_scalar("bitwise_invert", differ)
    return apply_scalar("where", apply_scalar("bitwise_and", inexact, differ), moved, quotient)


def _clamp(site: Site) -> Node:
    _verify_elementwise(site)
    (x,) = site.tensors(1)
    given = {key for key in ("min_float", "max_float", "min_int", "max_int") if key in site.op.attributes}
    _require(site, bool(given), "at least one of min / max attributes must be set")
    kind, other = ("float", "int") if x.dtype.is_float else ("int", "float")
    tensor = "a float" if x.dtype.is_float else "an int"
    _require(site, not given & {f"min_{other}", f"max_{other}"},
             f"{other} min / max attributes must not be set when input is {tensor} tensor")
    for key, operation in ((f"min_{kind}", "maximum"), (f"max_{kind}", "minimum")):
        if key in given:
            bound: float | int = site.number(key) if kind == "float" else site.integer(key)
            x = apply_scalar(operation, splat(bound, x.dtype, x.shape), x)
    return x


_SIGNS = {"Signed": True, "Unsigned": False, "Signless": None}


def _cast(site: Site) -> Node:
    """Signs that the types leave open are in attributes."""
    (x,) = site.tensors(1)
    stated = site.stated()[0]
    before = _signed(site, "in", "input", site.op.operand_types[0], x.dtype)
    after = _signed(site, "out", "output", site.op.result_types[0], stated)
    return convert(convert(convert(x, before), after), stated)


def _signed(site: Site, prefix: str, role: str, type_: SyntaxType, dtype: DType) -> DType:
    """The dtype of a side, its sign as the attribute says."""
    key = f"{prefix}_int_signedness"
    attribute = site.op.attributes.get(key)
    word = word_of(attribute) if attribute is not None else None
    if dtype.is_float:
        if attribute is not None:
            raise _refused(site, f"{key} attr should not set when {role} is FP")
        return dtype
    if dtype == BOOL:
        if word != "Signless":
            raise _refused(site, f"{key} attr must be set to Signedness::Signless when {role} is i1")
        return dtype
    if word not in _SIGNS:
        raise _refused(site, f"{key} attr must be set when {role} is INT")
    signed = _SIGNS[word]
    return dtype if signed is None else dtype_named(f"{'i' if signed else 'u'}{dtype.bits}")


def _const(site: Site) -> Node:
    return constant_of(site, "value")


# Movement


def _broadcast(site: Site) -> Node:
    """Axes of size 1 become as long as the operands after the first say."""
    x = site.tensor(0)
    given, stated = _tensor_types(site)
    _require(site, len(given.shape) == len(stated.shape), "all of {in, out} have same rank")
    _require(site, given.element == stated.element, "all of {in, out} have same element type")
    axes = site.integers("axes")
    _require(site, len(axes) == len(site.op.operands) - 1,
             "argument `new_dim_sizes` has the same size as the attribute `axes`")
    _require(site, list(axes) == sorted(axes), "attribute `axes` must be in increasing order")
    _require(site, len(set(axes)) == len(axes), "attribute `axes` must not have any duplicates")
    _require(site, all(0 <= axis < len(given.shape) for axis in axes), "attribute `axes` are in bounds")
    _require(site, all(given.shape[axis] == 1 for axis in axes),
             "dimensions listed in attribute `axes` have a static size of `1`")
    shape: list[Size] = list(x.shape)
    for number, axis in enumerate(axes, 1):
        (shape[axis],) = site.extents(number)
    return broadcast_in_dim(x, tuple(shape), tuple(range(len(shape))))


def _concat(site: Site) -> Node:
    if len({x.element for x in _tensor_types(site)}) > 1:
        raise _refused(site, "requires the same element type for all operands and results")
    return concatenated(site, site.integer("axis"))


def _gather(site: Site) -> Node:
    """result[..., i, ...] = x[..., indices[..., i, ...], ...] along `dim`."""
    x, indices = site.tensors(2)
    axis = site.integer("dim")
    _require(site, len(x.shape) == len(indices.shape), "all of {input, indices} have same rank")
    _require(site, 0 <= axis < len(x.shape), "attribute `dim` is in bounds")
    for other in range(len(x.shape)):
        if other != axis:
            site.assume_equal(x.shape[other], indices.shape[other])
    x, indices = site.tensors(2)
    return take_along_axis(x, indices, axis)


def _gather_nd(site: Site) -> Node:
    """result[i..., rest...] = x[indices[i..., 0], indices[i..., 1], ..., rest...]."""
    x, indices = site.tensors(2)
    count = indices.shape[-1] if indices.shape else None
    if not isinstance(count, int) or count > len(x.shape):
        raise _refused(
            site, f"requires indices with up to {len(x.shape)} components along the last axis, got {indices.type}")
    outer, rank = len(indices.shape) - 1, len(x.shape)
    first = tuple(range(count))
    axes = WindowAxes(tuple(range(outer, outer + rank - count)), first, (), (), first, outer, True)
    sizes = tuple(1 if axis < count else size for axis, size in enumerate(x.shape))
    return gather(x, indices, axes, sizes)


def _slice(site: Site) -> Node:
    """Starts, sizes and strides are operands."""
    x = site.tensor(0)
    counts = [site.integer(part) for part in ("starts", "sizes", "strides")] if "starts" in site.op.attributes else (
        list(site.integers("operandSegmentSizes"))[1:])
    rank = len(x.shape)
    if counts != [rank] * 3:
        raise _refused(site, f"requires {rank} starts, sizes and strides for {x.type}, got {counts}")
    known = [size for position in range(1, 3 * rank + 1) for size in site.extents(position)]
    starts, sizes, strides = known[:rank], known[rank : 2 * rank], known[2 * rank :]
    steps = [n for n in strides if isinstance(n, int)]
    if len(steps) != rank:
        raise _refused(site, f"requires strides that are numbers, got {list(map(str, strides))}")
    limits = tuple(
        start + (size - 1) * step + 1 if size != 0 else start
        for start, size, step in zip(starts, sizes, steps, strict=True))
    for size, limit in zip(x.shape, limits, strict=True):
        if isinstance(limit, int):
            site.scope.sizes.assume_at_least(size, limit)
    return slice_(site.tensor(0), tuple(starts), limits, tuple(steps))


# Groups


def _group(site: Site) -> tuple[Content, ...]:
    """What the region gives; its operations are those of the function around it."""
    region = site.region(0)
    block = region.blocks[0] if region.blocks else None
    _require(site, block is not None and bool(block.operations) and block.operations[-1].name in RETURNS,
             "op region ends with a terminator")
    assert block is not None
    yielded = block.operations[-1].operand_types
    stated = site.op.result_types
    _require(site, len(yielded) == len(stated), "the number of yielded values is same as the number of results")
    for number, (found, required) in enumerate(zip(yielded, stated, strict=True)):
        _require(site, found == required,
                 f"the type of operand #{number} of terminator matches the corresponding result type")
    return site.run(0, *site.contents())


def _custom(site: Site) -> tuple[Content, ...]:
    """What no text defines is an input, by the operation's name."""
    name = site.word("op_name")
    parameters = site.scope.context.parameters
    results: list[Content] = []
    for number, stated in enumerate(site.op.result_types):
        count = sum(known == name or known.startswith(f"{name}.") for known in parameters)
        type_ = site.scope.tensor_type(stated, site.op.offset - number)
        results.append(site.scope.add_parameter(name if not count else f"{name}.{count + 1}", type_))
    return tuple(results)


# Shapes


def _symbolic_int(site: Site) -> Extents:
    """An unknown size in a range."""
    size = site.scope.unknown(site.op.offset, 0)
    site.scope.sizes.assume_within(size, site.integer("min_val", 0), min(site.integer("max_val", LARGEST), LARGEST))
    return Extents((site.scope.sizes.resolve(size),), ())


def _bind_symbolic_shape(site: Site) -> tuple[Content, ...]:
    """Learns that the sizes of operand 0 are what a map gives of the symbols that follow."""
    x = site.tensor(0)
    attribute = site.attribute("shape_expressions")
    if not isinstance(attribute, OpaqueAttribute):
        raise VerificationError(f"'{site.name}' op requires an affine map as shape_expressions")
    symbols = [size for position in range(1, len(site.op.operands)) for size in site.extents(position)]
    sizes = apply_affine_map(attribute.text, symbols)
    if len(sizes) != len(x.shape):
        raise _refused(site, f"requires a map with {len(x.shape)} results for {x.type}, got {len(sizes)}")
    for axis, size in enumerate(sizes):
        if not site.assume_equal(site.tensor(0).shape[axis], size):
            raise ShapeMismatch(
                f"'{site.name}' op requires size {size} along axis {axis}, got {site.tensor(0).type}")
    return ()


TCP: Mapping[str, Lowering] = {
    **{name: _unary(meaning) for name, meaning in UNARY.items()},
    **{name: _binary(meaning) for name, meaning in BINARY.items()},
    "bind_symbolic_shape": _bind_symbolic_shape,
    "broadcast": _broadcast,
    "cast": _cast,
    "clamp": _clamp,
    "concat": _concat,
    "const": _const,
    "custom_op": _custom,
    "divsi": _divide_integers(signed=True),
    "divui": _divide_integers(signed=False),
    "gather": _gather,
    "gather_nd": _gather_nd,
    "group": _group,
    "isolated_group": _group,
    "slice": _slice,
    "symbolic_int": _symbolic_int,
}


def _conversion_cast(site: Site) -> Node:
    """The same bits under another sign."""
    (x,) = site.tensors(1)
    dtype = site.stated()[0]
    if x.dtype != dtype and not (x.dtype.is_integer and dtype.is_integer and x.dtype.bits == dtype.bits):
        raise TypeMismatch(f"{site.name} requires integers of one width, got {x.dtype} and {dtype}")
    return convert(x, dtype)


BUILTIN: Mapping[str, Lowering] = {"unrealized_conversion_cast": _conversion_cast}

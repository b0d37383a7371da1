"""Values under tracing: Python operators, NumPy indexing and NumPy ufuncs build a program.

Broadcasting follows NumPy and becomes explicit views. A Python number takes the dtype of the tensor beside it;
tensors of two float (or two same-signed integer) dtypes meet in the wider one, other mixtures are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from tcp_eqsat.errors import ShapeMismatch, TypeMismatch, UnknownName
from tcp_eqsat.frontends.indexing import as_size as as_size
from tcp_eqsat.frontends.indexing import take_index
from tcp_eqsat.lang.dims import Dim, Size, equal, exact_divide, format_size, product
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.scalar import SCALAR_OPS, scalar_op_named
from tcp_eqsat.lang.types import BOOL, DTYPES, F64, I64, DType, Shape, dtype_of

Operand = Any  # a Traced, a NumPy array or a Python number

_UFUNCS = {
    "true_divide": "divide", "absolute": "abs", "power": "pow", "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift", "right_shift": "bitwise_right_shift", "rint": "round",
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2", "arcsinh": "asinh", "arccosh": "acosh",
    "arctanh": "atanh", "conjugate": "conj",
}
_LOGICAL = {
    "logical_and": "bitwise_and", "logical_or": "bitwise_or", "logical_xor": "bitwise_xor",
    "logical_not": "bitwise_invert",
}


def _binary(name: str, reflected: bool = False) -> Callable[[Traced, Operand], Traced]:
    def method(self: Traced, other: Operand) -> Traced:
        return elementwise(name, other, self) if reflected else elementwise(name, self, other)

    return method


def _unary(name: str) -> Callable[[Traced], Traced]:
    return lambda self: elementwise(name, self)


class Traced:
    """A tensor of the program that is being built. Immutable; `node` is its value in the program."""

    __slots__ = ("node",)
    __hash__ = None  # type: ignore[assignment]  # == builds a comparison

    def __init__(self, node: Node) -> None:
        self.node = node

    @property
    def shape(self) -> Shape:
        return self.node.shape

    @property
    def dtype(self) -> DType:
        return self.node.dtype

    @property
    def ndim(self) -> int:
        return len(self.node.shape)

    @property
    def T(self) -> Traced:
        """The axes reversed."""
        return self.transpose()

    def transpose(self, *axes: int) -> Traced:
        order = axes or tuple(reversed(range(self.ndim)))
        return Traced(builders.transpose(self.node, resolve_axes(order, self.ndim)))

    def reshape(self, *shape: Any) -> Traced:
        """Row-major reshape; one size may be -1."""
        sizes = shape[0] if len(shape) == 1 else shape
        return Traced(builders.reshape(self.node, infer_sizes(self.shape, as_shape(sizes))))

    def astype(self, dtype: Any) -> Traced:
        """Value conversion, see the scalar operation astype_<dtype>."""
        target = as_dtype(dtype)
        return self if target == self.dtype else Traced(
            builders.map_scalar(scalar_op_named(f"astype_{target}"), self.node))

    def __bool__(self) -> bool:
        raise TypeMismatch(
            "a traced tensor has no truth value: use tcp.cond(condition, f, g) or where(condition, x, y) instead of "
            "if, tcp.while_loop or tcp.fori_loop instead of while, & | ~ instead of and or not")

    def __iter__(self) -> Any:
        if not self.ndim or not isinstance(self.shape[0], int):
            raise TypeMismatch(f"iteration requires a static first axis, got {self.node.type}")
        return (self[i] for i in range(self.shape[0]))

    def __len__(self) -> int:
        if not self.ndim or not isinstance(self.shape[0], int):
            raise TypeMismatch(f"len() requires a static first axis, got {self.node.type}")
        return self.shape[0]

    def __float__(self) -> Any:
        raise TypeMismatch("a traced tensor has no values, which float() and int() need: use astype")

    __int__ = __float__

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"a traced tensor has no attribute {name!r}: the functions are in tcp.numpy")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeMismatch("a traced tensor has no values: use the functions of tcp.numpy on it, not NumPy's")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *operands: Any, **options: Any) -> Any:
        name = _UFUNCS.get(ufunc.__name__, ufunc.__name__)
        if method == "__call__" and not options:
            if name == "matmul":
                return matmul(*operands)
            if name in _LOGICAL:
                return logical(name, *operands)
            if name in ("floor_divide", "remainder"):
                return (floor_divide if name == "floor_divide" else remainder)(*operands)
            if name in SCALAR_OPS:
                return elementwise(name, *operands)
        raise TypeMismatch(f"numpy.{ufunc.__name__} can't be traced here; tcp.numpy lists what can")

    def __getitem__(self, index: Any) -> Traced:
        items = index if isinstance(index, tuple) else (index,)
        return Traced(take_index(self.node, tuple(
            lift(x) if isinstance(x, (Traced, np.ndarray, list)) else x for x in items)))

    def __repr__(self) -> str:
        return f"Traced({self.node.type})"

    def __pos__(self) -> Traced:
        return self

    __add__ = _binary("add")
    __radd__ = _binary("add", reflected=True)
    __sub__ = _binary("subtract")
    __rsub__ = _binary("subtract", reflected=True)
    __mul__ = _binary("multiply")
    __rmul__ = _binary("multiply", reflected=True)
    __truediv__ = _binary("divide")
    __rtruediv__ = _binary("divide", reflected=True)
    __and__ = _binary("bitwise_and")
    __rand__ = _binary("bitwise_and", reflected=True)
    __or__ = _binary("bitwise_or")
    __ror__ = _binary("bitwise_or", reflected=True)
    __xor__ = _binary("bitwise_xor")
    __rxor__ = _binary("bitwise_xor", reflected=True)
    __lshift__ = _binary("bitwise_left_shift")
    __rlshift__ = _binary("bitwise_left_shift", reflected=True)
    __rshift__ = _binary("bitwise_right_shift")
    __rrshift__ = _binary("bitwise_right_shift", reflected=True)
    __lt__ = _binary("less")
    __le__ = _binary("less_equal")
    __gt__ = _binary("greater")
    __ge__ = _binary("greater_equal")
    __eq__ = _binary("equal")  # type: ignore[assignment]
    __ne__ = _binary("not_equal")  # type: ignore[assignment]
    __neg__ = _unary("negative")
    __abs__ = _unary("abs")
    __invert__ = _unary("bitwise_invert")

    def __matmul__(self, other: Operand) -> Traced:
        return matmul(self, other)

    def __rmatmul__(self, other: Operand) -> Traced:
        return matmul(other, self)

    def __pow__(self, other: Operand) -> Traced:
        return elementwise("square", self) if isinstance(other, int) and other == 2 else elementwise(
            "pow", self, other)

    def __floordiv__(self, other: Operand) -> Traced:
        return floor_divide(self, other)

    def __rfloordiv__(self, other: Operand) -> Traced:
        return floor_divide(other, self)

    def __mod__(self, other: Operand) -> Traced:
        return remainder(self, other)

    def __rmod__(self, other: Operand) -> Traced:
        return remainder(other, self)

    def __rpow__(self, other: Operand) -> Traced:
        return elementwise("pow", other, self)


# Lifting and broadcasting


def resolve_axes(axes: int | Sequence[int], rank: int) -> tuple[int, ...]:
    """Distinct axes of a tensor, counted from the front; raises TypeMismatch."""
    given = tuple(axes) if isinstance(axes, (tuple, list, range)) else (axes,)
    if not all(isinstance(a, (int, np.integer)) and not isinstance(a, bool) for a in given):
        raise TypeMismatch(f"an axis must be an int, got {axes!r}")
    result = tuple(int(a + rank if a < 0 else a) for a in given)
    if len(set(result)) != len(result) or not all(0 <= a < rank for a in result):
        raise TypeMismatch(f"distinct axes in {-rank}..{rank - 1} are required, got {list(given)}")
    return result


def as_shape(shape: Any) -> Shape:
    """A shape from a size or a sequence of sizes."""
    return tuple(map(as_size, shape)) if isinstance(shape, (tuple, list)) else (as_size(shape),)


def as_dtype(dtype: Any) -> DType:
    """A dtype from ours, its name, or NumPy's (but not None, which NumPy reads as f64); raises UnknownName."""
    if isinstance(dtype, DType):
        return dtype
    if dtype is None:
        raise UnknownName(f"a dtype is required, got None; known are {', '.join(DTYPES)}")
    if isinstance(dtype, str) and dtype in DTYPES:
        return DTYPES[dtype]
    try:
        found = np.dtype(dtype)
    except TypeError:
        raise UnknownName(f"unknown dtype {dtype!r}; known are {', '.join(DTYPES)}") from None
    return dtype_of(found)


def lift(value: Operand) -> Node:
    """The node of a traced tensor, or a constant of an array. Python numbers become i64, f64 or bool."""
    if isinstance(value, Traced):
        return value.node
    if isinstance(value, Node):
        return value
    if isinstance(value, (bool, int, float)):
        dtype = BOOL if isinstance(value, bool) else I64 if isinstance(value, int) else F64
        return builders.scalar_constant(value, dtype)
    if isinstance(value, (np.ndarray, np.generic, list, tuple)):
        return builders.constant(_as_array(value))
    if isinstance(value, Dim):
        raise TypeMismatch(f"size {value} is no tensor: tcp.numpy.size_value(size, dtype) makes one of it")
    raise TypeMismatch(f"a tensor, array or number is required, got {type(value).__name__}")


def _as_array(value: Any) -> np.ndarray:
    try:
        return np.asarray(value)
    except ValueError as error:  # nested lists of several lengths
        raise TypeMismatch(f"a tensor, array or number is required: {error}") from None


def is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float)) and not isinstance(value, np.generic)


def common_dtype(dtypes: Sequence[DType]) -> DType:
    """The widest of dtypes of one kind; raises TypeMismatch for mixtures of kinds, or of equally wide dtypes."""
    widest = max(dtypes, key=lambda d: d.bits)
    if any(d.kind is not widest.kind or (d.bits == widest.bits and d != widest) for d in dtypes):
        raise TypeMismatch(f"operands of dtypes {', '.join(map(str, dtypes))} don't mix: convert with astype")
    return widest


def lift_together(values: Sequence[Operand]) -> list[Node]:
    """Operands as nodes of one dtype: numbers take the dtype of the tensors, tensors meet in the widest."""
    tensors = {i: lift(v) for i, v in enumerate(values) if not is_number(v)}
    if not tensors:
        nodes = [lift(v) for v in values]
        dtype = max((n.dtype for n in nodes), key=lambda d: (d.is_float, d.is_integer))
        return [builders.scalar_constant(v, dtype) for v in values]
    dtype = common_dtype([n.dtype for n in tensors.values()])
    result = []
    for i, value in enumerate(values):
        node = tensors.get(i)
        if node is None:
            if isinstance(value, float) and not dtype.is_float:
                raise TypeMismatch(f"the number {value} does not fit dtype {dtype}: convert the tensor with astype")
            node = builders.scalar_constant(value, dtype)
        elif node.dtype != dtype:
            node = builders.map_scalar(scalar_op_named(f"astype_{dtype}"), node)
        result.append(node)
    return result


Oracle = Callable[[Size, Size], bool]
_oracle: ContextVar[Oracle | None] = ContextVar("sizes_oracle", default=None)


@contextmanager
def assuming(oracle: Oracle) -> Iterator[None]:
    """While tracing inside, sizes that are not provably equal are put to `oracle`."""
    token = _oracle.set(oracle)
    try:
        yield
    finally:
        _oracle.reset(token)


def agree(a: Size, b: Size) -> bool:
    """Whether two sizes are equal, provably or by the oracle's word."""
    if equal(a, b):
        return True
    oracle = _oracle.get()
    return oracle is not None and oracle(a, b)


def broadcast_shapes(*shapes: Shape) -> Shape:
    """NumPy's broadcasting over symbolic sizes; raises ShapeMismatch where sizes are not provably equal."""
    rank = max(map(len, shapes), default=0)
    result: list[Size] = [1] * rank
    for shape in shapes:
        for axis, size in enumerate(shape, rank - len(shape)):
            if equal(result[axis], 1):
                result[axis] = size
            elif not equal(size, 1) and not agree(size, result[axis]):
                shown = " and ".join(f"[{', '.join(map(format_size, s))}]" for s in shapes)
                raise ShapeMismatch(
                    f"shapes {shown} don't broadcast: {format_size(result[axis])} and {format_size(size)} are not "
                    "provably equal")
    return tuple(result)


def broadcast_to(node: Node, shape: Shape) -> Node:
    """The node under a shape that NumPy would broadcast it to."""
    offset = len(shape) - len(node.shape)
    if offset < 0:
        raise ShapeMismatch(f"{node.type} does not broadcast to rank {len(shape)}")
    return builders.broadcast_in_dim(node, shape, tuple(range(offset, len(shape))))


def elementwise(name: str, *operands: Operand) -> Traced:
    """The scalar operation `name` on broadcast operands."""
    op = scalar_op_named(name)
    if name == "where":
        condition = lift(operands[0])
        nodes = [condition, *lift_together(operands[1:])]
    else:
        nodes = lift_together(operands)
    shape = broadcast_shapes(*(n.shape for n in nodes))
    return Traced(builders.map_scalar(op, *(broadcast_to(n, shape) for n in nodes)))


def logical(name: str, *operands: Operand) -> Traced:
    """`logical_and` and its like; raises TypeMismatch for operands that are not of dtype bool."""
    for value in operands:
        dtype = lift(value).dtype
        if dtype is not BOOL:
            raise TypeMismatch(f"{name} requires operands of dtype bool, got {dtype}")
    return elementwise(_LOGICAL[name], *operands)


def floor_divide(x: Operand, y: Operand) -> Traced:
    """The quotient rounded down, as Python's //. Integers by 0: all bits set, as `divide`; floats: x / 0."""
    left, right = map(Traced, lift_together([x, y]))
    rest, quotient = elementwise("fmod", left, right), elementwise("divide", left, right)
    if not left.dtype.is_signed:
        return quotient
    below = (rest != 0) & ((rest < 0) != (right < 0)) & (right != 0)
    if left.dtype.is_integer:
        return elementwise("where", below, quotient - 1, quotient)
    whole = elementwise("round", (left - rest) / right)
    whole = elementwise("where", below, whole - 1, whole)
    whole = elementwise("where", whole == 0, elementwise("copysign", 0.0, quotient), whole)
    return elementwise("where", right == 0, quotient, whole)


def remainder(x: Operand, y: Operand) -> Traced:
    """What `floor_divide` leaves, with the sign of y, as Python's %. Integers by 0: x itself; floats: NaN."""
    left, right = map(Traced, lift_together([x, y]))
    rest = elementwise("fmod", left, right)
    if not left.dtype.is_signed:
        return rest
    moved = elementwise("where", (rest != 0) & ((rest < 0) != (right < 0)), rest + right, rest)
    return moved if left.dtype.is_integer else elementwise(
        "where", moved == 0, elementwise("copysign", moved, right), moved)


# Structure


def infer_sizes(shape: Shape, wanted: tuple[Size, ...]) -> Shape:
    """`wanted` with its one -1 replaced by what is left of `shape`; raises ShapeMismatch."""
    unknown = [i for i, size in enumerate(wanted) if isinstance(size, int) and size == -1]
    if not unknown:
        return wanted
    known = product(size for i, size in enumerate(wanted) if i not in unknown)
    rest = exact_divide(product(shape), known) if len(unknown) == 1 and known != 0 else None
    if rest is None:
        raise ShapeMismatch(f"reshape of [{', '.join(map(format_size, shape))}] can't infer -1 in {list(wanted)}")
    return (*wanted[: unknown[0]], rest, *wanted[unknown[0] + 1:])


def matmul(x: Operand, y: Operand) -> Traced:
    """NumPy's matmul: the last axis of x with the last but one of y, the axes before broadcast together."""
    left, right = lift_together([x, y])
    if not left.shape or not right.shape:
        raise TypeMismatch("matmul requires operands of rank 1 or more")
    a, b = len(left.shape), len(right.shape)
    row, column = a > 1, b > 1
    contracted = (left.shape[-1], right.shape[-2 if column else -1])
    if not agree(*contracted):
        raise ShapeMismatch(
            f"matmul requires equal contracted extents, got {contracted[0]} ({left.type}) and {contracted[1]} "
            f"({right.type})")
    batch = broadcast_shapes(left.shape[: a - 2] if row else (), right.shape[: b - 2] if column else ())
    n = len(batch)
    free = (*left.shape[-2:-1], *(right.shape[-1:] if column else ()))
    rank = n + len(free)

    def batch_labels(shape: Shape) -> tuple[int, ...]:
        return tuple(
            axis if equal(size, batch[axis]) else -1 for axis, size in enumerate(shape, n - len(shape)))

    lhs = (*((*batch_labels(left.shape[:-2]), n) if row else ()), rank)
    rhs = (*batch_labels(right.shape[:-2]), rank, rank - 1) if column else (rank,)
    return Traced(builders.contract(left, right, lhs, rhs, (*batch, *free, contracted[0]), rank))

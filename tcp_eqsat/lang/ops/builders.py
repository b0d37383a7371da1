"""Constructors of nodes, one or more an operation. They look operations up by name when called."""

from __future__ import annotations

import numpy as np

from tcp_eqsat.errors import ShapeMismatch, TypeMismatch
from tcp_eqsat.lang.dims import Size, equal
from tcp_eqsat.lang.op import op_named
from tcp_eqsat.lang.ops.attributes import (
    CompositeAttributes,
    ConcatenateAttributes,
    ConstantAttributes,
    ContractAttributes,
    IotaAttributes,
    MapAttributes,
    PadAttributes,
    ParameterAttributes,
    ProjectAttributes,
    ReduceAttributes,
    ReshapeAttributes,
    SizeAttributes,
    SliceAttributes,
    ViewAttributes,
)
from tcp_eqsat.lang.program import Node, Region, TensorData
from tcp_eqsat.lang.scalar import Number, ScalarFunction, ScalarOp, ScalarParameter, encode_number, function_of
from tcp_eqsat.lang.scalar import parameter as scalar_parameter
from tcp_eqsat.lang.types import I64, DType, Shape, TensorType


def parameter(name: str, index: int, type_: TensorType) -> Node:
    return Node.make(op_named("parameter"), (), ParameterAttributes(name, index, type_))


def constant(array: np.ndarray | TensorData) -> Node:
    """A constant of a NumPy array's dtype, shape and bits."""
    data = array if isinstance(array, TensorData) else TensorData(array)
    return Node.make(op_named("constant"), (), ConstantAttributes(data))


def scalar_constant(value: Number | np.generic, dtype: DType) -> Node:
    """A constant of rank 0."""
    return constant(np.frombuffer(encode_number(value, dtype), dtype.numpy).reshape(()))


def iota(dtype: DType, shape: Shape, axis: int) -> Node:
    return Node.make(op_named("iota"), (), IotaAttributes(TensorType(dtype, shape), axis))


def size_value(size: Size) -> Node:
    """A size as an i64 of rank 0; a constant where it is a number."""
    if isinstance(size, int):
        return scalar_constant(size, I64)
    return Node.make(op_named("size"), (), SizeAttributes(size))


def map_function(function: ScalarFunction, *operands: Node) -> Node:
    return Node.make(op_named("map"), operands, MapAttributes(function))


def map_used(function: ScalarFunction, *operands: Node) -> Node:
    """The function of those operands that it uses; an operand itself where that is all."""
    used = [x for x in function.walk() if isinstance(x, ScalarParameter)]
    if len(used) == 1 and used[0] is function.result:
        return operands[used[0].index]
    indices = sorted(x.index for x in used) or [0]
    dtypes = tuple(function.parameters[i] for i in indices)
    own = {i: scalar_parameter(n, dtype) for n, (i, dtype) in enumerate(zip(indices, dtypes, strict=True))}
    return map_function(ScalarFunction(dtypes, function.applied(own)), *(operands[i] for i in indices))


def map_scalar(op: ScalarOp, *operands: Node) -> Node:
    """One scalar operation applied elementwise, e.g. `map_scalar(add, x, y)`."""
    return map_function(function_of(op, *(x.dtype for x in operands)), *operands)


def reduce(operation: ScalarOp, x: Node, attributes: ReduceAttributes) -> Node:
    """`x` reduced by `operation` along the labels of `attributes` (whose own operation is replaced).

    Without reduced labels it is a view of x.
    """
    if attributes.rank == len(attributes.extents):
        return view(x, attributes.labels, attributes.extents)
    return Node.make(op_named("reduce"), (x,), ReduceAttributes(
        operation, attributes.labels, attributes.extents, attributes.rank))


def reduce_axes(operation: ScalarOp, x: Node, axes: tuple[int, ...]) -> Node:
    """`x` reduced over `axes` (over none it is x itself); the other axes keep their order."""
    axes = tuple(a + len(x.shape) if a < 0 else a for a in axes)
    if len(set(axes)) != len(axes) or not all(0 <= a < len(x.shape) for a in axes):
        raise TypeMismatch(f"reduce requires distinct axes of {x.type}, got {list(axes)}")
    kept = [a for a in range(len(x.shape)) if a not in axes]
    order = [*kept, *sorted(axes)]
    labels = tuple(order.index(a) for a in range(len(x.shape)))
    extents = tuple(x.shape[a] for a in order)
    return reduce(operation, x, ReduceAttributes(operation, labels, extents, len(kept)))


def contract(x: Node, y: Node, lhs: tuple[int, ...], rhs: tuple[int, ...], extents: Shape, rank: int) -> Node:
    return Node.make(op_named("contract"), (x, y), ContractAttributes(lhs, rhs, extents, rank))


def dot_general(x: Node, y: Node, contracted: tuple[tuple[int, ...], tuple[int, ...]],
                batch: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())) -> Node:
    """A contraction by axis pairs. The result has the batch axes, then x's free axes, then y's."""
    for side in (0, 1):
        axes = (*contracted[side], *batch[side])
        if len(set(axes)) != len(axes):
            raise TypeMismatch(f"dot_general requires distinct axes of operand {side}, got {list(axes)}")
    for role, (left, right) in (("contracted", contracted), ("batch", batch)):
        if len(left) != len(right):
            raise TypeMismatch(f"dot_general requires as many lhs as rhs {role} axes, got {left} and {right}")
        for a, b in zip(left, right, strict=True):
            for number, axis, operand in ((0, a, x), (1, b, y)):
                if not 0 <= axis < len(operand.shape):
                    raise TypeMismatch(
                        f"dot_general requires {role} axes of operand {number}, {operand.type}, got {axis}")
            if not equal(x.shape[a], y.shape[b]):
                raise ShapeMismatch(
                    f"dot_general requires equal {role} extents, got {x.shape[a]} (lhs axis {a}) and "
                    f"{y.shape[b]} (rhs axis {b})")
    lhs: dict[int, int] = {}
    rhs: dict[int, int] = {}
    extents: list[Size] = []

    def label(size: Size) -> int:
        extents.append(size)
        return len(extents) - 1

    for a, b in zip(*batch, strict=True):
        lhs[a] = rhs[b] = label(x.shape[a])
    for operand, labels, bound in ((x, lhs, contracted[0]), (y, rhs, contracted[1])):
        for axis, size in enumerate(operand.shape):
            if axis not in labels and axis not in bound:
                labels[axis] = label(size)
    rank = len(extents)
    for a, b in zip(*contracted, strict=True):
        lhs[a] = rhs[b] = label(x.shape[a])
    return contract(
        x, y, tuple(lhs[a] for a in range(len(x.shape))), tuple(rhs[b] for b in range(len(y.shape))),
        tuple(extents), rank)


def view(x: Node, labels: tuple[int, ...], shape: Shape) -> Node:
    """The identity map gives x itself."""
    if labels == tuple(range(len(shape))) and len(labels) == len(x.shape) and all(map(equal, x.shape, shape)):
        return x
    return Node.make(op_named("view"), (x,), ViewAttributes(labels, shape))


def transpose(x: Node, permutation: tuple[int, ...]) -> Node:
    """Result axis n is axis permutation[n] of x."""
    if sorted(permutation) != list(range(len(x.shape))):
        raise TypeMismatch(f"transpose requires a permutation of the axes of {x.type}, got {list(permutation)}")
    labels = tuple(permutation.index(a) for a in range(len(permutation)))
    return view(x, labels, tuple(x.shape[a] for a in permutation))


def broadcast_in_dim(x: Node, shape: Shape, axes: tuple[int, ...]) -> Node:
    """Axis a of x becomes axis axes[a] of the result; an axis of size 1 stretches where the result's is not 1."""
    if len(axes) != len(x.shape) or not all(0 <= axis < len(shape) for axis in axes):
        raise TypeMismatch(
            f"broadcast requires an axis below {len(shape)} for each axis of {x.type}, got {list(axes)}")
    labels = []
    for a, axis in enumerate(axes):
        same = equal(x.shape[a], shape[axis])
        if not same and x.shape[a] != 1:
            raise ShapeMismatch(
                f"broadcast requires size 1 or {shape[axis]} along axis {a} of {x.type}, got {x.shape[a]}")
        labels.append(axis if same else -1)
    return view(x, tuple(labels), shape)


def broadcast_scalar(x: Node, shape: Shape) -> Node:
    """A value of rank 0 at every index of `shape`."""
    return broadcast_in_dim(x, shape, ())


def splat(value: Number | np.generic, dtype: DType, shape: Shape) -> Node:
    """The same number everywhere."""
    return broadcast_scalar(scalar_constant(value, dtype), shape)


def reshape(x: Node, shape: Shape) -> Node:
    """The same elements in row-major order under another shape; the same shape gives x itself."""
    if len(shape) == len(x.shape) and all(map(equal, x.shape, shape)):
        return x
    return Node.make(op_named("reshape"), (x,), ReshapeAttributes(shape))


def slice_(x: Node, starts: Shape, limits: Shape, strides: tuple[int, ...] | None = None) -> Node:
    """Indices start, start + stride, ... below limit along each axis; the whole gives x itself."""
    strides = (1,) * len(starts) if strides is None else strides
    if (all(s == 0 for s in starts) and all(s == 1 for s in strides)
            and len(limits) == len(x.shape) and all(map(equal, limits, x.shape))):
        return x
    return Node.make(op_named("slice"), (x,), SliceAttributes(starts, limits, strides))


def concatenate(operands: tuple[Node, ...], axis: int) -> Node:
    """Operands one after the other along `axis`; a single operand is itself."""
    return operands[0] if len(operands) == 1 else Node.make(
        op_named("concatenate"), operands, ConcatenateAttributes(axis))


def pad(x: Node, value: Node, low: Shape, high: Shape) -> Node:
    """`value` (rank 0) around x; no padding gives x itself."""
    if all(n == 0 for n in (*low, *high)) and len(low) == len(high) == len(x.shape):
        return x
    return Node.make(op_named("pad"), (x, value), PadAttributes(low, high))


def composite(name: str, region: Region, *operands: Node) -> Node:
    return Node.make(op_named("composite"), operands, CompositeAttributes(name, region))


def project(x: Node, index: int) -> Node:
    return Node.make(op_named("project"), (x,), ProjectAttributes(index))


def results_of(x: Node) -> tuple[Node, ...]:
    """The results of a node one by one: the node itself, or its projections."""
    if isinstance(x.type, TensorType):
        return (x,)
    return tuple(project(x, index) for index in range(len(x.type.items)))

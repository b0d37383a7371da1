"""What structured operations refuse: rows of the table in `test_ops`."""

from __future__ import annotations

import dataclasses

from tcp_eqsat.errors import ShapeMismatch, TcpError, TypeMismatch
from tcp_eqsat.lang.dims import symbol
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.ops.attributes import (
    CholeskyAttributes,
    CumulativeAttributes,
    DynamicSliceAttributes,
    FftAttributes,
    GatherAttributes,
    OverlapAddAttributes,
    ReduceGeneralAttributes,
    ReverseAttributes,
    ScatterAttributes,
    SearchSortedAttributes,
    SizeAttributes,
    SortAttributes,
    TriangularSolveAttributes,
    WindowsAttributes,
)
from tcp_eqsat.lang.ops.index_builders import adding
from tcp_eqsat.lang.ops.order_builders import ascending
from tcp_eqsat.lang.ops.structure import tuple_of
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.type_text import parse_type
from tcp_eqsat.lang.types import F32, F64

B = symbol("b")


def _x(text: str, name: str = "x", index: int = 0) -> Node:
    return builders.parameter(name, index, parse_type(text, {"b": B}))


X, V, N = _x("f32[4, 3]"), _x("f32[]", "v", 1), _x("i32[2]", "n", 2)
COLUMN, U = _x("i32[2, 1]", "i", 3), _x("f32[2, 3]", "u", 4)
M = _x("f32[3, 3]", "m", 5)
ROWS = GatherAttributes((1,), (0,), (), (), (0,), 1, True, (1, 3))
ADD_ROWS = ScatterAttributes((1,), (0,), (), (), (0,), 1, True, (adding(F32),))
SUM = CumulativeAttributes((adding(F32),), 0, False)
TOTAL = ReduceGeneralAttributes((adding(F32),), (0,))
PAIRS = WindowsAttributes((0,), (2,), (1,), (1,))
OVERLAP = OverlapAddAttributes((0,), (2,), (1,), (1,), (5,))
SOLVE = TriangularSolveAttributes(True, True, False, False, False)


def _but(attributes: object, **changes: object) -> object:
    return dataclasses.replace(attributes, **changes)  # type: ignore[type-var]


STRUCTURED: list[tuple[str, tuple[Node, ...], object, type[TcpError], str]] = [
    ("gather", (X, V), ROWS, TypeMismatch, "gather requires indices of an integer dtype, got f32[]"),
    ("gather", (X, N), _but(ROWS, component_axis=2), TypeMismatch, "component_axis in 0..1 for i32[2], got 2"),
    ("gather", (X, N), _but(ROWS, dropped_axes=(0, 0)), TypeMismatch, "distinct axes below 2, got [0, 0]"),
    ("gather", (X, N), _but(ROWS, window_axes=(0, 1)), TypeMismatch, "gather requires 1 window_axes"),
    ("gather", (X, N), _but(ROWS, window_axes=(2,)), TypeMismatch, "window_axes requires distinct axes below 2"),
    ("gather", (X, N), _but(ROWS, start_axes=(0, 1)), ShapeMismatch, "each of the 1 components of a start, got [0, 1]"),
    ("gather", (X, N), _but(ROWS, sizes=(1,)), TypeMismatch, "gather requires 2 sizes for f32[4, 3], got 1"),
    ("gather", (X, N), _but(ROWS, sizes=(1, 4)), ShapeMismatch, "windows of 0 to 3 elements along axis 1"),
    ("gather", (X, N), _but(ROWS, sizes=(2, 3)), ShapeMismatch, "size 1 along axis 0, which the windows lack, got 2"),
    ("gather", (X, N), _but(ROWS, batch_axes=(1,), dropped_axes=(0,), window_axes=(), index_batch_axes=(0,)),
     ShapeMismatch, "equal sizes along batch axis 1 of f32[4, 3] and axis 0 of the indices i32[2]"),
    ("gather", (X, COLUMN), _but(ROWS, batch_axes=(1,), window_axes=(), index_batch_axes=(1,)), TypeMismatch,
     "index_batch_axes without component_axis, got [1]"),
    ("gather", (X, N), _but(ROWS, batch_axes=(1,), window_axes=()), TypeMismatch, "as many batch_axes as"),
    ("scatter", (X, N), ADD_ROWS, TypeMismatch, "for 1 functions 3 operands, got 2"),
    ("scatter", (X, N, U), _but(ADD_ROWS, functions=(adding(F64),)), TypeMismatch,
     "scatter requires a function (f32, f32) -> f32 for result 0, got (f64, f64) -> f64"),
    ("scatter", (X, N, V), ADD_ROWS, TypeMismatch, "scatter requires updates of rank 2, got f32[]"),
    ("scatter", (X, N, X), ADD_ROWS, ShapeMismatch, "size 2 along axis 0 of the updates"),
    ("scatter", (X, N, _x("f32[2, 4]", "w")), ADD_ROWS, ShapeMismatch, "windows of 0 to 3 elements along axis 1"),
    ("dynamic_slice", (X, V), DynamicSliceAttributes((1, 1)), TypeMismatch, "start for each axis of f32[4, 3], got 1"),
    ("dynamic_slice", (X, V, V), DynamicSliceAttributes((1, 1)), TypeMismatch, "got f32[] for axis 0"),
    ("dynamic_slice", (), DynamicSliceAttributes(()), TypeMismatch, "at least one operand"),
    ("dynamic_slice", (V,), DynamicSliceAttributes((1,)), TypeMismatch, "requires 0 sizes for f32[], got 1"),
    ("dynamic_update_slice", (X, V), None, TypeMismatch, "an update of the dtype and rank of f32[4, 3], got f32[]"),
    ("dynamic_update_slice", (X, _x("f32[5, 3]", "w")), None, ShapeMismatch, "windows of 0 to 4 elements along axis 0"),
    ("cumulative", (), SUM, TypeMismatch, "cumulative requires at least one operand"),
    ("cumulative", (X, U), SUM, ShapeMismatch, "operands of one shape, got f32[4, 3] (operand 0) and f32[2, 3]"),
    ("cumulative", (X, X), SUM, TypeMismatch, "a function for each operand, got 1 functions and 2 operands"),
    ("cumulative", (X,), _but(SUM, axis=2), TypeMismatch, "cumulative requires an axis of f32[4, 3], got 2"),
    ("reduce_general", (X,), TOTAL, TypeMismatch, "got 1 functions and 1 operands"),
    ("reduce_general", (X, X), TOTAL, TypeMismatch, "initial value 0 of type f32[], got f32[4, 3]"),
    ("reduce_general", (X, V), _but(TOTAL, axes=(1, 0)), TypeMismatch, "axes of f32[4, 3] in order, got [1, 0]"),
    ("sort", (X,), SortAttributes(ascending(F64), 0), TypeMismatch,
     "sort requires a function (f32, f32) -> bool, got (f64, f64) -> bool"),
    ("sort", (X,), SortAttributes(ascending(F32), 2), TypeMismatch, "sort requires an axis of f32[4, 3], got 2"),
    ("search_sorted", (X, V), SearchSortedAttributes(True), TypeMismatch, "a first operand of rank 1, got f32[4, 3]"),
    ("search_sorted", (N, V), SearchSortedAttributes(True), TypeMismatch, "one dtype, got i32[2] and f32[]"),
    ("size", (), SizeAttributes("b"), TypeMismatch, "a size that is an int or symbolic, got 'b'"),
    ("reverse", (X,), ReverseAttributes((2,)), TypeMismatch, "distinct axes of f32[4, 3] in order, got [2]"),
    ("windows", (X,), _but(PAIRS, axes=(2,)), TypeMismatch, "distinct axes of f32[4, 3] in order, got [2]"),
    ("windows", (X,), _but(PAIRS, sizes=()), TypeMismatch, "a size, stride and dilation for each"),
    ("windows", (X,), _but(PAIRS, strides=(0,)), TypeMismatch, "strides and dilations, got 0 and 1 for axis 0"),
    ("windows", (X,), _but(PAIRS, sizes=(0,)), ShapeMismatch, "windows of at least 1 element, got 0 along axis 0"),
    ("overlap_add", (X,), OVERLAP, ShapeMismatch, "requires 4 windows of 2 elements along axis 0, got 4 of 3"),
    ("overlap_add", (V,), OVERLAP, TypeMismatch, "an axis of windows, an axis inside and an extent"),
    ("cholesky", (X,), CholeskyAttributes(True), ShapeMismatch, "cholesky requires square matrices, got f32[4, 3]"),
    ("cholesky", (N,), CholeskyAttributes(True), TypeMismatch, "dtype f32, f64, c64 or c128, got i32[2]"),
    ("cholesky", (V,), CholeskyAttributes(True), TypeMismatch, "an operand of at least rank 2, got f32[]"),
    ("cholesky", (M, X), CholeskyAttributes(True), TypeMismatch, "parts of one floating-point type"),
    ("triangular_solve", (M,), SOLVE, TypeMismatch, "two operands, or two parts of each, got 1"),
    ("triangular_solve", (M, X), SOLVE, ShapeMismatch, "size 3 along axis 0 of the right side, got f32[4, 3]"),
    ("triangular_solve", (M, _x("f64[3, 3]", "w")), SOLVE, ShapeMismatch, "one dtype, rank and batch"),
    ("fft", (X,), FftAttributes(False), TypeMismatch, "a complex operand, or its two parts, got f32[4, 3]"),
    ("fft", (), FftAttributes(False), TypeMismatch, "got 0 operands"),
    ("optimization_barrier", (tuple_of(X),), None, TypeMismatch, "optimization_barrier requires tensors"),
]

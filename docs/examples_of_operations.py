"""Small programs, one or more for each operation: the examples of docs/operations.md, which the tests compile as well.

The order of the page is the order here. `TENSOR` and `SCALAR` are by theme; a scalar operation with a dtype or numbers
in its name stands here by the beginning of its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, nan
from typing import Any

import numpy as np

from tcp_eqsat.lang.dims import symbol, symbols_of
from tcp_eqsat.lang.narrow import convert_array
from tcp_eqsat.lang.ops import builders as b
from tcp_eqsat.lang.ops import quantization as q
from tcp_eqsat.lang.ops.accumulate_builders import cumulative, cumulative_of, reduce_general
from tcp_eqsat.lang.ops.attributes import WindowsAttributes
from tcp_eqsat.lang.ops.complex_views import view_as_complex, view_as_real
from tcp_eqsat.lang.ops.control import case, if_, scan, while_
from tcp_eqsat.lang.ops.index_builders import (
    adding,
    dynamic_slice,
    dynamic_update_slice,
    element_axes,
    replacing,
    scatter,
    take,
)
from tcp_eqsat.lang.ops.linalg_builders import cholesky, fft, triangular_solve
from tcp_eqsat.lang.ops.order_builders import ascending, of_first, search_sorted, sort
from tcp_eqsat.lang.ops.structure import barrier, tuple_of
from tcp_eqsat.lang.ops.window_builders import overlap_add, reverse, windows
from tcp_eqsat.lang.program import Function, Node, Region
from tcp_eqsat.lang.quantized import quantized
from tcp_eqsat.lang.scalar import ScalarFunction, apply, scalar_op_named
from tcp_eqsat.lang.scalar import parameter as scalar_parameter
from tcp_eqsat.lang.type_text import parse_type
from tcp_eqsat.lang.types import F32, I8, I32, dtype_named, numbers


@dataclass(frozen=True)
class Example:
    """A function of nodes, and for each of its parameters the type as text and the value as nested lists.

    note    what this example is about, where there are several
    """

    build: Callable[..., Node | Sequence[Node]]
    arguments: Mapping[str, tuple[str, Any]]
    note: str = ""

    def function(self, name: str) -> Function:
        """The function, called `name`."""
        parameters = tuple(
            b.parameter(each, index, parse_type(text, symbol))
            for index, (each, (text, _)) in enumerate(self.arguments.items()))
        results = self.build(*parameters)
        return Function(name, parameters, (results,) if isinstance(results, Node) else tuple(results))

    def arrays(self) -> tuple[np.ndarray, ...]:
        """The arguments, in order."""
        found = []
        for text, value in self.arguments.values():
            type_ = parse_type(text, symbol)
            array = convert_array(np.array(value, None if value else type_.dtype.numpy), type_.dtype)
            found.append(array if symbols_of(*type_.shape) else array.reshape(numbers(type_.shape)))
        return tuple(found)


@dataclass(frozen=True)
class Values:
    """Values for the operands of a scalar operation, a list for each operand.

    dtypes    of the operands
    member    for a family, the rest of the operation's name
    """

    dtypes: tuple[str, ...]
    operands: tuple[Sequence[Any], ...]
    member: str = ""

    def arrays(self) -> tuple[np.ndarray, ...]:
        """The operands, in order."""
        dtypes = map(dtype_named, self.dtypes)
        return tuple(convert_array(np.array(x), dtype) for x, dtype in zip(self.operands, dtypes, strict=True))


def values(dtypes: str, *operands: Sequence[Any], member: str = "") -> Values:
    """Values in dtypes, "f32" for all operands or "bool f32 f32"."""
    names = dtypes.split()
    return Values(tuple(names * len(operands) if len(names) == 1 else names), operands, member)


# What the examples apply


def _scalar(name: str, *operands: Node) -> Node:
    return b.map_scalar(scalar_op_named(name), *operands)


def _halved(x: Node) -> Node:
    return _scalar("multiply", x, b.splat(0.5, x.dtype, x.shape))


def _softplus() -> ScalarFunction:
    x = scalar_parameter(0, F32)
    return ScalarFunction((F32,), apply("log1p", apply("exp", x)))


def _greatest_with_index() -> tuple[ScalarFunction, ScalarFunction]:
    """Of (value, index) so far and the next one, the greater value's; the first one in a tie."""
    dtypes = (F32, I32, F32, I32)
    value, index, other, at = (scalar_parameter(n, dtype) for n, dtype in enumerate(dtypes))
    better = apply("greater", other, value)
    return (ScalarFunction(dtypes, apply("where", better, other, value)),
            ScalarFunction(dtypes, apply("where", better, at, index)))


def _scaled_square(x: Node) -> Node:
    inner = b.parameter("v", 0, x.tensor_type)
    return b.composite("my.square_of_double", Region((inner,), (_scalar("square", _scalar("add", inner, inner)),)), x)


_INDEX_AND_VALUE = {"x": ("f32[2, 3]", [[1, 5, 5], [-1, -3, -2]]), "i": ("i32[2, 3]", [[0, 1, 2], [0, 1, 2]])}
_QUANTIZED = quantized(I8, F32, 0.5, 3)
_QUANTIZED_TYPE = "quant(i8:f32, 0.5:3)"


TENSOR: dict[str, dict[str, tuple[Example, ...]]] = {
    "Values": {
        "parameter": (Example(lambda x: x, {"x": ("f32[2]", [1, 2])}),),
        "constant": (
            Example(lambda: b.constant(np.array([[1, 0.1, -0.0], [inf, nan, 1e-45]], np.float32)), {}),),
        "iota": (
            Example(lambda: b.iota(F32, (2, 3), 1), {}),
            Example(lambda: b.slice_(b.iota(I8, (300,), 0), (126,), (130,)), {}, "Integers wrap."),),
        "size": (Example(lambda x: b.size_value(x.shape[0] * 2 + 1), {"x": ("f32[n]", [1, 2, 3])}),),
    },
    "Elementwise": {
        "map": (
            Example(lambda x: b.map_function(_softplus(), x), {"x": ("f32[4]", [0, 1, -inf, nan])}),
            Example(lambda x, y: _scalar("add", x, y), {"x": ("i8[3]", [1, 2, 127]), "y": ("i8[3]", [1, -2, 1])},
                    "A single operation."),),
    },
    "Movement": {
        "view": (
            Example(lambda x: b.transpose(x, (1, 0)), {"x": ("i32[2, 3]", [[1, 2, 3], [4, 5, 6]])}, "A transpose."),
            Example(lambda x: b.broadcast_in_dim(x, (2, 3), (1,)), {"x": ("i32[3]", [1, 2, 3])}, "A broadcast."),
            Example(lambda x: b.broadcast_in_dim(x, (2, 2), (0, 1)), {"x": ("i32[2, 1]", [[1], [2]])},
                    "Stretching an axis of size 1."),),
        "reshape": (Example(lambda x: b.reshape(x, (3, 2)), {"x": ("i32[2, 3]", [[1, 2, 3], [4, 5, 6]])}),),
        "slice": (
            Example(lambda x: b.slice_(x, (1,), (6,), (2,)), {"x": ("i32[7]", [0, 1, 2, 3, 4, 5, 6])}),
            Example(lambda x: b.slice_(x, (2,), (2,)), {"x": ("i32[3]", [0, 1, 2])}, "Nothing."),),
        "reverse": (Example(lambda x: reverse(x, (1,)), {"x": ("i32[2, 3]", [[1, 2, 3], [4, 5, 6]])}),),
        "concatenate": (
            Example(lambda x, y: b.concatenate((x, y, x), 0), {"x": ("i32[2]", [1, 2]), "y": ("i32[0]", [])}),),
        "pad": (
            Example(lambda x, v: b.pad(x, v, (1, 0), (0, 2)),
                    {"x": ("i32[2, 2]", [[1, 2], [3, 4]]), "value": ("i32[]", 9)}),),
        "windows": (
            Example(lambda x: windows(x, (0,), (3,), (2,)), {"x": ("i32[6]", [0, 1, 2, 3, 4, 5])}),
            Example(lambda x: windows(x, (0,), (2,), (1,), (3,)), {"x": ("i32[5]", [0, 1, 2, 3, 4])}, "Dilated."),
            Example(lambda x: windows(x, (0,), (3,)), {"x": ("i32[2]", [0, 1])}, "None fits."),),
        "overlap_add": (
            Example(lambda x: overlap_add(x, WindowsAttributes((0,), (3,), (2,), (1,)), (6,)),
                    {"x": ("i32[2, 3]", [[1, 2, 3], [10, 20, 30]])}),),
        "optimization_barrier": (Example(lambda x: barrier(x), {"x": ("f32[2]", [1, 2])}),),
    },
    "Indexing by values": {
        "gather": (
            Example(lambda x, i: take(x, i, 0),
                    {"x": ("f32[3, 2]", [[1, 2], [3, 4], [5, 6]]), "indices": ("i32[4]", [2, 0, 7, -1])},
                    "Rows; with `clamped` those outside are the last and the first."),
            Example(lambda x, i: take(x, i, 0, clamped=False),
                    {"x": ("f32[3]", [1, 2, 3]), "indices": ("i32[4]", [2, 0, 7, -1])},
                    "Elements; those outside are 0."),),
        "scatter": (
            Example(lambda x, i, u: scatter((x,), i, (u,), element_axes(), (adding(F32),)),
                    {"x": ("f32[3]", [1, 1, 1]), "indices": ("i32[4]", [0, 2, 2, 7]),
                     "updates": ("f32[4]", [10, 20, 30, 40])},
                    "Adding; what lies outside is left out."),
            Example(lambda x, i, u: scatter((x,), i, (u,), element_axes(), (replacing(F32),)),
                    {"x": ("f32[3]", [1, 1, 1]), "indices": ("i32[4]", [0, 2, 2, -1]),
                     "updates": ("f32[4]", [10, 20, 30, 40])},
                    "Replacing; the last update stays."),),
        "dynamic_slice": (
            Example(lambda x, s: dynamic_slice(x, (s,), (2,)),
                    {"x": ("i32[4]", [0, 1, 2, 3]), "start": ("i32[]", 9)}, "A start that is moved."),),
        "dynamic_update_slice": (
            Example(lambda x, u, s: dynamic_update_slice(x, u, (s,)),
                    {"x": ("i32[4]", [0, 1, 2, 3]), "update": ("i32[2]", [10, 20]), "start": ("i32[]", -5)},
                    "A start that is moved."),),
    },
    "Along axes": {
        "reduce": (
            Example(lambda x: b.reduce_axes(scalar_op_named("add"), x, (1,)),
                    {"x": ("f32[2, 3]", [[1, 2, 3], [inf, -inf, 0]])}),
            Example(lambda x: b.reduce_axes(scalar_op_named("maximum"), x, (0,)),
                    {"x": ("f32[0, 2]", [])}, "Of nothing."),),
        "reduce_general": (
            Example(lambda x, i, v, n: reduce_general((x, i), (v, n), _greatest_with_index(), (1,)),
                    {**_INDEX_AND_VALUE, "v": ("f32[]", -inf), "n": ("i32[]", -1)},
                    "The greatest value and its index."),
            Example(lambda x, v: reduce_general((x,), (v,), (adding(F32),), (0,)),
                    {"x": ("f32[0]", []), "v": ("f32[]", 7)}, "Of nothing."),),
        "cumulative": (
            Example(lambda x: cumulative_of("add", x, 0), {"x": ("f32[4]", [1, 2, nan, 4])}),
            Example(lambda x: cumulative_of("maximum", x, 0, reverse=True), {"x": ("i32[4]", [1, 4, 3, 2])},
                    "From the last element on."),
            Example(lambda x, i: cumulative((x, i), _greatest_with_index(), 1), _INDEX_AND_VALUE,
                    "Two operands together."),),
        "sort": (
            Example(lambda x, i: sort((x, i), of_first(ascending(F32), (F32, I32)), 0),
                    {"x": ("f32[5]", [2, nan, 0, -1, -0.0]), "i": ("i32[5]", [0, 1, 2, 3, 4])},
                    "Ascending, with the places that elements come from; equal ones keep their order."),),
        "search_sorted": (
            Example(lambda x, v: search_sorted(x, v),
                    {"ordered": ("f32[5]", [1, 2, 2, 3, nan]), "wanted": ("f32[5]", [0, 2, 2.5, 9, nan])}),
            Example(lambda x, v: search_sorted(x, v, right=True),
                    {"ordered": ("f32[5]", [1, 2, 2, 3, nan]), "wanted": ("f32[5]", [0, 2, 2.5, 9, nan])},
                    "Past equal ones."),),
    },
    "Linear algebra": {
        "contract": (
            Example(lambda x, y: b.dot_general(x, y, ((1,), (0,))),
                    {"x": ("f32[2, 3]", [[1, 2, 3], [4, 5, 6]]), "y": ("f32[3, 2]", [[1, 0], [0, 1], [1, 1]])},
                    "A product of matrices."),
            Example(lambda x, y: b.dot_general(x, y, ((1,), (1,)), ((0,), (0,))),
                    {"x": ("f32[2, 2]", [[1, 2], [3, 4]]), "y": ("f32[2, 2]", [[5, 6], [0, inf]])},
                    "A batch of products of vectors."),
            Example(lambda x, y: b.dot_general(x, y, ((1,), (0,))),
                    {"x": ("f32[2, 0]", [[], []]), "y": ("f32[0, 2]", [])}, "Sums of nothing."),),
        "triangular_solve": (
            Example(lambda a, c: triangular_solve(a, c),
                    {"a": ("f32[2, 2]", [[2, 99], [1, 4]]), "b": ("f32[2, 1]", [[2], [9]])},
                    "Only the triangle is read."),
            Example(lambda a, c: triangular_solve(a, c),
                    {"a": ("f32[2, 2]", [[0, 0], [1, 1]]), "b": ("f32[2, 1]", [[1], [1]])},
                    "A 0 on the diagonal."),),
        "cholesky": (
            Example(lambda x: cholesky(x), {"x": ("f32[2, 2]", [[4, 99], [2, 5]])}, "Only the triangle is read."),
            Example(lambda x: cholesky(x), {"x": ("f32[2, 2]", [[1, 2], [2, 1]])}, "Not positive definite."),),
        "fft": (
            Example(lambda x: fft(x), {"x": ("c64[4]", [1, 2, 3, 4])}),
            Example(lambda x: fft(fft(x), inverse=True), {"x": ("c64[4]", [1, 2, 3, 4])},
                    "The inverse does not divide."),),
    },
    "Control flow": {
        "if": (
            Example(lambda p, x: if_(p, lambda: (_halved(x),), lambda: (_scalar("negative", x),)),
                    {"p": ("bool[]", True), "x": ("f32[2]", [1, 2])}),),
        "case": (
            Example(lambda i, x: case(i, [lambda: (x,), lambda: (_scalar("negative", x),),
                                          lambda: (_scalar("square", x),)]),
                    {"i": ("i32[]", -1), "x": ("f32[2]", [3, 4])}, "An index out of range."),),
        "while": (
            Example(lambda x, n: while_(
                        lambda v, count: _scalar("greater", v, b.splat(1, F32, ())),
                        lambda v, count: (_halved(v), _scalar("add", count, b.splat(1, I32, ()))), (x, n)),
                    {"x": ("f32[]", 10), "n": ("i32[]", 0)}, "How often 10 is halved until it is at most 1."),),
        "scan": (
            Example(lambda h, x, w: scan(
                        lambda h, part: (_scalar("add", _scalar("multiply", h, w), part),
                                         _scalar("negative", part)), (h,), (x,), 3),
                    {"h": ("f32[]", 0), "x": ("f32[3]", [1, 2, 3]), "w": ("f32[]", 10)}),
            Example(lambda h, x: scan(lambda h, part: (_scalar("add", h, part), h), (h,), (x,), 0),
                    {"h": ("f32[]", 5), "x": ("f32[0]", [])}, "No steps."),),
    },
    "Structure": {
        "composite": (Example(_scaled_square, {"x": ("f32[2]", [1, 2])}),),
        "tuple": (
            Example(lambda x, y: b.project(tuple_of(x, y), 1), {"x": ("f32[2]", [1, 2]), "y": ("i32[]", 3)}),),
        "project": (
            Example(lambda x: b.project(tuple_of(x, reverse(x, (0,))), 0), {"x": ("f32[2]", [1, 2])}),),
    },
    "Complex tensors": {
        "view_as_real": (Example(view_as_real, {"x": ("c64[2]", [1 + 2j, -3j])}),),
        "view_as_complex": (Example(view_as_complex, {"x": ("f32[2, 2]", [[1, 2], [nan, inf]])}),),
    },
    "Quantised tensors": {
        "quantize": (
            Example(lambda x: q.view_as_storage(q.quantize(x, _QUANTIZED)),
                    {"x": ("f32[6]", [1, 0.25, 0.75, 1000, -inf, nan])}),),
        "dequantize": (Example(q.dequantize, {"x": (f"{_QUANTIZED_TYPE}[3]", [3, 4, -128])}),),
        "view_as_storage": (Example(q.view_as_storage, {"x": (f"{_QUANTIZED_TYPE}[2]", [3, 4])}),),
        "view_as_quantized": (
            Example(lambda x: q.dequantize(q.view_as_quantized(x, _QUANTIZED)), {"x": ("i8[2]", [3, 4])}),),
    },
}


v = values
SCALAR: dict[str, dict[str, tuple[Values, ...]]] = {
    "Arithmetic": {
        "add": (v("f32", [0.1, inf, -0.0], [0.2, -inf, -0.0]), v("i8", [127], [1]), v("c64", [1 + 2j], [3 - 1j])),
        "subtract": (v("f32", [0.3, inf, 0.0], [0.1, inf, 0.0]), v("u8", [0], [1])),
        "multiply": (v("f32", [3, 0, -0.0], [0.1, inf, 5]), v("i8", [100], [2]), v("c64", [1 + 2j], [3 - 1j])),
        "divide": (v("f32", [1, -1, 0, 1], [3, 0, 0, inf]), v("i8", [7, -7, 5, -128], [2, 2, 0, -1]),
                   v("u8", [5], [0]), v("c64", [1 + 2j, 1], [3 - 1j, 0])),
        "fmod": (v("f32", [5.5, -5.5, 1, inf, 5], [2, 2, 0, 2, inf]), v("i8", [-7, 7, -128], [2, 0, -1])),
        "negative": (v("f32", [0, nan, 1.5]), v("i8", [-128]), v("u8", [1])),
        "abs": (v("f32", [-0.0, -inf, -1.5]), v("i8", [-128, -5]), v("c64", [3 + 4j, complex(nan, inf)])),
        "sign": (v("f32", [-2, -0.0, nan]), v("u8", [0, 7]), v("c64", [3 + 4j, 0])),
        "square": (v("f32", [-3, 1e30]), v("i8", [16]), v("c64", [1 + 2j])),
        "fma": (v("f32", [1.0000001, 0], [0.9999999, inf], [-1, 1]),),
        "maximum": (v("f32", [1, -0.0, 1], [2, 0, nan]), v("bool", [False], [True]),
                    v("c64", [1 + 2j], [1 + 3j])),
        "minimum": (v("f32", [1, -0.0, 1], [2, 0, nan]), v("bool", [False], [True]),
                    v("c64", [1 + 2j], [1 + 3j])),
    },
    "Comparison and choice": {
        "equal": (v("f32", [1, 0, nan], [1, -0.0, nan]), v("c64", [1j], [1j])),
        "not_equal": (v("f32", [1, 0, nan], [1, -0.0, nan]),),
        "less": (v("f32", [1, -0.0, nan], [2, 0, 1]), v("u8", [200], [100])),
        "less_equal": (v("f32", [1, 0, nan], [1, -0.0, nan]),),
        "greater": (v("f32", [2, 0, nan], [1, -0.0, 1]),),
        "greater_equal": (v("f32", [1, -0.0, nan], [1, 0, nan]),),
        "where": (v("bool f32 f32", [True, False], [1, nan], [nan, 2]),),
        "isfinite": (v("f32", [1, inf, nan]), v("c64", [complex(1, inf)])),
        "isinf": (v("f32", [1, -inf, nan]), v("c64", [complex(nan, inf)])),
        "isnan": (v("f32", [1, inf, nan]), v("c64", [complex(1, nan)])),
    },
    "Exponential functions, logarithms, powers and roots": {
        "exp": (v("f32", [1, -inf, 100, -104]), v("c64", [1j])),
        "exp2": (v("f32", [0.5, -149, 128]),),
        "expm1": (v("f32", [1e-10, -0.0, -inf]),),
        "log": (v("f32", [2, 0, -1, inf]), v("c64", [-1])),
        "log2": (v("f32", [8, 0, -1]),),
        "log10": (v("f32", [1000, 0, -1]),),
        "log1p": (v("f32", [1e-10, -0.0, -1, -2]),),
        "logistic": (v("f32", [1, -100, inf]),),
        "sqrt": (v("f32", [2, -0.0, -1, inf]), v("c64", [-4])),
        "rsqrt": (v("f32", [4, 0, -0.0, -1, inf]),),
        "cbrt": (v("f32", [27, -8, -0.0]),),
        "hypot": (v("f32", [3, 1e30, inf], [4, 1e30, nan]),),
        "pow": (v("f32", [2, -8, 0, nan, -1], [0.5, 1 / 3, -1, 0, inf]),
                v("i8", [3, 2, -1, 0, 0], [4, 7, -3, 0, -1])),
    },
    "Trigonometric functions": {
        "sin": (v("f32", [1, -0.0, 1e30, inf]),),
        "cos": (v("f32", [1, 0, 1e30, inf]),),
        "tan": (v("f32", [1, -0.0, inf]),),
        "asin": (v("f32", [0.5, -1, 2]),),
        "acos": (v("f32", [0.5, -1, 2]),),
        "atan": (v("f32", [1, -inf]),),
        "atan2": (v("f32", [1, 0, -0.0, 0, inf], [-1, -1, -1, 0, inf]),),
    },
    "Hyperbolic functions": {
        "sinh": (v("f32", [1, -0.0, -100]),),
        "cosh": (v("f32", [1, 0, -100]),),
        "tanh": (v("f32", [0.5, -0.0, -inf]),),
        "asinh": (v("f32", [1, -0.0, -inf]),),
        "acosh": (v("f32", [2, 1, 0.5]),),
        "atanh": (v("f32", [0.5, -1, 2]),),
    },
    "Special functions": {
        "erf": (v("f32", [0.5, -0.0, -inf]),),
        "erfc": (v("f32", [0.5, 9, -inf]),),
        "erf_inv": (v("f32", [0.5, 1, 2]),),
        "lgamma": (v("f32", [0.5, 10, 0, -1, -inf]),),
        "digamma": (v("f32", [0.5, 10, 0, -1]),),
        "polygamma": (v("f32", [1, 2, 0.5], [1, 0.5, 1]),),
        "zeta": (v("f32", [2, 1, 0.5], [1, 1, 1]),),
        "bessel_i0e": (v("f32", [0, 1, -100]),),
        "bessel_i1e": (v("f32", [-0.0, 1, -100]),),
        "igamma": (v("f32", [2, 1, 0, 1], [1, 0, 1, -1]),),
        "igammac": (v("f32", [2, 1, 0, 1], [1, 0, 1, -1]),),
        "igamma_grad_a": (v("f32", [2, 0], [1, 1]),),
    },
    "Rounding": {
        "floor": (v("f32", [-1.5, -0.0, inf]),),
        "ceil": (v("f32", [1.5, -0.5, nan]),),
        "trunc": (v("f32", [1.5, -0.5]),),
        "round": (v("f32", [0.5, 1.5, -0.5]),),
        "round_away": (v("f32", [0.5, 1.5, -0.5]),),
        "reduce_precision_": (v("f32", [0.1, 70000, 1e-6, nan], member="e5m10"), v("f32", [0.1, 250], member="e4m3")),
    },
    "Signs, neighbours and bits": {
        "copysign": (v("f32", [1, 0, nan], [-0.0, -1, 1]),),
        "signbit": (v("f32", [-1, -0.0, 1]),),
        "nextafter": (v("f32", [1, 0, 3.4028235e38, 1], [2, -1, inf, nan]),),
        "bitwise_and": (v("u8", [12], [10]), v("bool", [True], [False])),
        "bitwise_or": (v("u8", [12], [10]), v("bool", [True], [False])),
        "bitwise_xor": (v("u8", [12], [10]), v("bool", [True], [True])),
        "bitwise_invert": (v("i8", [5]), v("bool", [True])),
        "bitwise_left_shift": (v("u8", [1, 200, 1], [3, 1, 8]), v("i8", [1, 1], [7, -1])),
        "bitwise_right_shift": (v("u8", [200, 200], [3, 8]), v("i8", [-56, -56], [3, 100])),
        "popcount": (v("i8", [-1, 6, 0]),),
        "count_leading_zeros": (v("u8", [1, 255, 0]), v("i32", [1])),
        "bitcast_": (v("f32", [1, -0.0], member="u32"), v("u16", [0x7C00], member="f16"),
                     v("u8", [0x80], member="i8")),
    },
    "Complex numbers": {
        "complex": (v("f32", [1, inf], [2, nan]),),
        "real": (v("c64", [1 + 2j]),),
        "imag": (v("c64", [1 + 2j, complex(1, -0.0)]),),
        "conj": (v("c64", [1 + 2j, 1 + 0j]),),
    },
    "Conversion": {
        "astype_": (
            v("f32", [1.9, -1.9, 300, -inf, nan], member="i8"), v("f32", [-1.5, 1e20], member="u8"),
            v("i32", [300, -1], member="u8"), v("f32", [0, nan], member="bool"), v("bool", [True], member="f32"),
            v("f32", [2049, 70000, 1e-8], member="f16"), v("f64", [0.1], member="f32"),
            v("f32", [0.3, 1000], member="f8e4m3fn"), v("f32", [0.3, 1e6], member="f8e5m2"),
            v("f32", [3, 0], member="f8e8m0fnu"), v("f32", [9, -9], member="i4"),
            v("f32", [1.5], member="c64"), v("c64", [1.5 + 2j], member="f32")),
    },
}
"""Functions of floats stand in f32, where the reference rounds once: f64 differs in the last place between machines."""

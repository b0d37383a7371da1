"""Every tensor operation: types, reference, pointful form, derivative, text, interning and refusals, by one table."""

from __future__ import annotations

import dataclasses
import gc
import itertools
import math
import re
import threading

import numpy as np
import pytest
from programs import SAMPLERS, random_array, reduction_dtypes, single_operation
from structured_refusals import STRUCTURED

from tcp_eqsat.errors import ShapeMismatch, TcpError, TypeMismatch, UnknownName
from tcp_eqsat.lang import text
from tcp_eqsat.lang.dims import evaluate as size_of
from tcp_eqsat.lang.dims import symbol, value
from tcp_eqsat.lang.grad import vjp
from tcp_eqsat.lang.op import EXPANDED, OPS, bind_sizes, define_op, map_attribute_sizes, op_named, size_fields
from tcp_eqsat.lang.ops import attributes as attribute_classes
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.ops.attributes import (
    CaseAttributes,
    CompositeAttributes,
    ConcatenateAttributes,
    ContractAttributes,
    IfAttributes,
    IotaAttributes,
    PadAttributes,
    ProjectAttributes,
    QuantizationAttributes,
    ReduceAttributes,
    ReshapeAttributes,
    ScanAttributes,
    SliceAttributes,
    ViewAttributes,
    WhileAttributes,
)
from tcp_eqsat.lang.ops.structure import expand, tuple_of
from tcp_eqsat.lang.pointful import Affine, Apply, Choose, Expr, Fold, Literal, Operand, Position
from tcp_eqsat.lang.program import Function, Node, Program, Region, TensorData
from tcp_eqsat.lang.quantized import quantized
from tcp_eqsat.lang.reference import evaluate, evaluate_nodes
from tcp_eqsat.lang.scalar import NOT_DIFFERENTIABLE, SCALAR_OPS, evaluate_op, scalar_op_named
from tcp_eqsat.lang.scalars.conversion import convert_array
from tcp_eqsat.lang.type_text import parse_type
from tcp_eqsat.lang.types import BOOL, F32, F64, I8, I32, I64, TensorType, TupleType

ADD = SCALAR_OPS["add"]
SEEDS = range(40)
B = symbol("b")


def x_of(text_: str, name: str = "x", index: int = 0) -> Node:
    """A parameter of a static type such as "f32[2, 3]"."""
    return builders.parameter(name, index, parse_type(text_, {"b": B}))


def test_every_operation_has_a_sampler():
    assert set(SAMPLERS) == set(OPS)


def test_every_scalar_operation_and_operation_is_reachable():
    assert {"map", "reduce"} <= set(SAMPLERS)
    assert all(op.infer and op.doc for op in OPS.values())


# One value at one index, by the pointful form: nothing here is shared with the package but the form itself.


class At:
    """Evaluates an expression at one index after another, in Python loops."""

    def __init__(self, operands: list[np.ndarray], bindings: dict[str, int]) -> None:
        self.operands, self.bindings = operands, bindings

    def index(self, affine: Affine, at: dict[int, int]) -> int:
        return value(affine.offset, self.bindings) + sum(
            value(c, self.bindings) * at[axis] for axis, c in affine.terms)

    def __call__(self, expr: Expr, at: dict[int, int]) -> np.generic:
        match expr:
            case Operand(number, indices, dtype):
                array = self.operands[number]
                place = tuple(self.index(i, at) for i in indices)
                assert len(place) == array.ndim and all(0 <= i < n for i, n in zip(place, array.shape, strict=True))
                assert array.dtype == dtype.numpy
                return array[place]
            case Literal(literal):
                return literal.value
            case Position(index, dtype):
                return convert_array(np.int64(self.index(index, at)), dtype)[()]
            case Apply(op, operands, dtype):
                return evaluate_op(op, dtype, *(self(x, at) for x in operands))[()]
            case Choose(ranges, inside, outside):
                chosen = all(value(r.lower, self.bindings) <= self.index(r.index, at) < value(r.upper, self.bindings)
                             for r in ranges)
                return self(inside if chosen else outside, at)
            case Fold(op, extents, first, body):
                ranges = [range(size_of(n, self.bindings)) for n in extents]
                terms = [self(body, at | dict(enumerate(place, first))) for place in itertools.product(*ranges)]
                return self.total(op, expr.dtype, terms)
        raise AssertionError(expr)

    def total(self, op, dtype, terms) -> np.generic:
        """Sums and products of floats in double precision, as the reference has them."""
        work = F64 if dtype.is_float else dtype
        found = np.array(op.identity(dtype), work.numpy)[()]
        for term in terms:
            found = evaluate_op(op, work, found, term)[()]
        with np.errstate(all="ignore"):
            return found.astype(dtype.numpy)


def by_pointful_form(node: Node, operands: list[np.ndarray], bindings: dict[str, int]) -> np.ndarray:
    result = bind_sizes(node.type, bindings)
    expr = node.op.pointful(node.attributes, tuple(x.type for x in node.operands), node.type)
    at = At(operands, bindings)
    array = np.empty(result.shape, result.dtype.numpy)
    for place in np.ndindex(*result.shape):
        array[place] = at(expr, dict(enumerate(place)))
    return array


def same(x: np.ndarray, y: np.ndarray) -> bool:
    """Equal bits but for NaNs."""
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    signs = np.signbit(x) == np.signbit(y) if x.dtype.kind == "f" else True
    return bool((((x == y) & signs) | ((x != x) & (y != y))).all())


def close(x: np.ndarray, y: np.ndarray, scale: float) -> bool:
    with np.errstate(all="ignore"):
        return x.dtype == y.dtype and x.shape == y.shape and (
            same(x, y) or np.allclose(x, y, rtol=1e-5, atol=1e-6 * scale, equal_nan=True))


def values_of(sample, variant: int, values: str) -> tuple[dict[Node, np.ndarray], dict[str, int]]:
    sizes = sample.sizes(variant)
    arrays = sample.arrays(variant, values)
    roots = tuple(expand(sample.function.results).values())
    roots = tuple(x for x in roots if isinstance(x.type, TensorType))
    return evaluate_nodes(roots, dict(zip(sample.function.parameters, arrays, strict=True)), sizes), sizes


@pytest.mark.parametrize("name", OPS)
def test_pointful_form_is_the_reference(name):
    seen = 0
    for seed in SEEDS:
        sample = single_operation(seed, name, max_rank=3)
        values = "nasty" if seed % 2 and name not in ("contract", "reduce") else "tame"
        known, sizes = values_of(sample, seed, values)
        for node, found in known.items():
            if not callable(node.op.pointful) or node.op.name in ("parameter", "tuple") or found.size > 200:
                continue
            operands = [known[x] for x in node.operands]
            if node.op.name == "constant":
                operands = [node.attributes.data.array]
            expected = by_pointful_form(node, operands, sizes)
            rounds = node.op.name in ("contract", "reduce") and node.dtype.is_float
            assert close(found, expected, 100) if rounds else same(found, expected), (seed, node)
            seen += node.op.name == name
    assert seen > 15 or not callable(OPS[name].pointful) or name == "parameter"


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if op.pointful is EXPANDED])
def test_expanded_operations_have_another_meaning(name):
    op = OPS[name]
    if name == "reshape":
        return  # its own test below
    assert op.expand is not None and op.derivative is EXPANDED and (op.reference is EXPANDED or name == "project")


def test_reshape_keeps_row_major_order():
    for seed in range(100):
        sample = single_operation(seed, "reshape")
        (root,) = sample.function.results
        known, _ = values_of(sample, seed, "nasty")
        x, y = known[root.operands[0]], known[root]
        assert y.shape == bind_sizes(root.type, sample.sizes(seed)).shape
        strides = [math.prod(y.shape[a + 1:]) for a in range(y.ndim)]
        flat = [x[place] for place in np.ndindex(*x.shape)]
        for place in itertools.islice(np.ndindex(*y.shape), 50):
            n = flat[sum(i * s for i, s in zip(place, strides, strict=True))]
            assert same(np.asarray(y[place]), np.asarray(n))


def test_composites_mean_their_bodies():
    p, q = x_of("f32[3]", "p", 0), x_of("f32[3]", "q", 1)
    region = Region((p, q), (builders.map_scalar(ADD, p, q), builders.map_scalar(SCALAR_OPS["multiply"], p, q)))
    x, y = x_of("f32[3]"), x_of("f32[3]", "y", 1)
    both = builders.composite("both", region, y, x)
    assert both.type == TupleType((x.type, x.type))
    function = Function("main", (x, y), (builders.project(both, 1), builders.project(both, 0)))
    a, b = np.array([1, 2, 3], np.float32), np.array([4, 5, 6], np.float32)
    product, total = evaluate(function, (a, b))
    assert product.tolist() == [4, 10, 18] and total.tolist() == [5, 7, 9]
    nested = builders.composite("outer", Region((x,), (builders.project(builders.composite(
        "both", region, x, x), 0),)), builders.map_scalar(SCALAR_OPS["exp"], y))
    (found,) = evaluate(Function("main", (x, y), (nested,)), (a, b))
    np.testing.assert_allclose(found, 2 * np.exp(b), rtol=1e-6)


# Types


@pytest.mark.parametrize("name", OPS)
def test_inferred_type_is_numpys(name):
    """`evaluate_nodes` compares each value with the inferred type; here at several sizes of the symbols."""
    for seed in SEEDS:
        sample = single_operation(seed, name)
        for variant in range(3):
            known, sizes = values_of(sample, variant, "mixed")
            for node, found in known.items():
                if isinstance(node.type, TupleType):
                    continue  # its projections are compared
                expected = bind_sizes(node.type, sizes)
                assert found.shape == expected.shape and found.dtype == expected.dtype.numpy, node


@pytest.mark.parametrize("name", OPS)
def test_text_round_trip_gives_the_same_nodes(name):
    for seed in SEEDS:
        function = single_operation(seed, name).function
        written = text.write(Program({"main": function}))
        again = text.parse(written).main
        assert again.parameters == function.parameters and again.results == function.results, written


@pytest.mark.parametrize("name", OPS)
def test_equal_parts_are_one_node(name):
    for seed in range(10):
        assert single_operation(seed, name).function.results == single_operation(seed, name).function.results


# Derivatives


@pytest.mark.parametrize("name", OPS)
def test_derivative_is_the_limit_of_difference_quotients(name):
    if name in ("map", "while"):
        return  # scalar functions have tests of their own; a while has no derivative
    checked = 0
    for seed in SEEDS:
        sample = single_operation(seed, name, dtypes=(F64,), stable=True)
        function = sample.function
        if not any(x.dtype.is_float for x in function.results) or any(
                x.op.name in ("map", "composite") for x in function.nodes()):
            continue
        checked += check_directional(function, sample.sizes(seed), seed)
    assert checked > 5 or name in ("constant", "iota", "composite", "cholesky", "view_as_complex") or (
        OPS[name].derivative is NOT_DIFFERENTIABLE)


def check_directional(function: Function, sizes: dict[str, int], seed: int) -> bool:
    """<gradient, v> against (f(x + h v) - f(x - h v)) / 2h under random cotangents; whether there was any element."""
    random = np.random.default_rng(seed)

    def arrays_of(nodes):
        return [random_array(random, x.dtype, bind_sizes(x.type, sizes).shape, "tame") for x in nodes]

    pulled = vjp(function)
    x = arrays_of(function.parameters)
    g = arrays_of(pulled.parameters[len(x):])
    values = evaluate(pulled, [*x, *g])
    primal, gradients = values[: len(function.results)], values[len(function.results):]
    assert all(map(same, primal, evaluate(function, x)))
    targets = [n for n, p in enumerate(function.parameters) if p.dtype.is_float]
    direction = [random.standard_normal(x[n].shape) for n in targets]
    h = 1e-6
    if not all(np.isfinite(v).all() for v in primal if v.dtype.kind == "f"):
        return False  # the maximum of nothing, say
    shifted = []
    for sign in (h, -h):
        moved = list(x)
        for n, v in zip(targets, direction, strict=True):
            moved[n] = np.asarray(x[n] + sign * v, x[n].dtype)
        shifted.append([r for r in evaluate(function, moved) if r.dtype.kind == "f"])
    slope = sum(float(((above - below) / (2 * h) * c).sum()) for above, below, c in zip(*shifted, g, strict=True))
    found = sum(float((d * v).sum()) for d, v in zip(gradients, direction, strict=True))
    assert found == pytest.approx(slope, rel=1e-5, abs=1e-5), function
    return any(d.size for d in gradients)


@pytest.mark.parametrize("operation", [n for n, op in SCALAR_OPS.items() if F64 in reduction_dtypes(op)])
def test_derivative_of_reductions_with_new_axes_ties_and_zeros(operation):
    x = x_of("f64[2, 3, 1]")
    op = scalar_op_named(operation)
    spread = Node.make(OPS["reduce"], (x,), ReduceAttributes(op, (2, 3, -1), (4, 5, 2, 3), 3))
    assert check_directional(Function("main", (x,), (spread,)), {}, 1)
    flat = x_of("f64[4]")
    function = vjp(Function("main", (flat,), (builders.reduce_axes(op, flat, (0,)),)))
    array = np.array([0.0, 3.0, 0.0, 3.0]) if operation != "multiply" else np.array([0.0, 3.0, 2.0, 5.0])
    gradient = evaluate(function, (array, np.array(2.0)))[1]
    expected = {"add": [2, 2, 2, 2], "maximum": [0, 1, 0, 1], "minimum": [1, 0, 1, 0], "multiply": [60, 0, 0, 0]}
    assert gradient.tolist() == expected[operation]
    if operation == "multiply":
        assert evaluate(function, (np.array([0.0, 3, 0, 5]), np.array(1.0)))[1].tolist() == [0, 0, 0, 0]


def test_derivative_of_strided_slices_of_any_size():
    x = x_of("f64[b]")
    odd = Node.make(OPS["slice"], (x,), SliceAttributes((0,), (B,), (2,)))
    function = vjp(Function("main", (x,), (odd,)))
    for n in range(7):
        ones = np.ones((n + 1) // 2)
        assert evaluate(function, (np.zeros(n), ones))[1].tolist() == [1.0 - i % 2 for i in range(n)]


def test_derivative_of_strided_slices_of_strided_slices():
    x = x_of("f64[b]")
    half = Node.make(OPS["slice"], (x,), SliceAttributes((B // 2,), (B,), (2,)))
    third = Node.make(OPS["slice"], (half,), SliceAttributes((0,), half.shape, (3,)))
    function = vjp(Function("main", (x,), (third,)))
    for n in range(20):
        expected = np.zeros(n)
        expected[n // 2::2][::3] = 1
        assert evaluate(function, (np.zeros(n), expected[n // 2::2][::3]))[1].tolist() == expected.tolist()


def test_derivative_of_pad_ignores_what_is_inside():
    x, v = x_of("f64[2]"), x_of("f64[]", "v", 1)
    function = vjp(Function("main", (x, v), (builders.pad(x, v, (1,), (2,)),)))
    _, dx, dv = evaluate(function, (np.zeros(2), np.array(0.0), np.array([1, np.inf, np.nan, 2, 4.0])))
    assert same(dx, np.array([np.inf, np.nan])) and dv == 7


# Meaning at the edges


def test_sums_start_at_zero():
    x = x_of("f32[2, 3]")
    minus = np.full((2, 3), -0.0, np.float32)
    total = builders.reduce_axes(ADD, x, (1,))
    dot = builders.dot_general(x, x, ((1,), (1,)))
    nothing = Node.make(OPS["reduce"], (x,), ReduceAttributes(ADD, (1, 0), (3, 2), 2))
    product = builders.contract(x, x, (0, 1), (0, 1), (2, 3), 2)
    one, square, same_, scaled = evaluate(
        Function("main", (x,), (total, dot, nothing, product)), (minus,))
    assert not np.signbit(one).any() and not np.signbit(square).any()
    assert np.signbit(same_).all() and not np.signbit(scaled).any()
    (scaled,) = evaluate(Function("main", (x,), (builders.contract(
        x, builders.scalar_constant(1, F32), (0, 1), (), (2, 3), 2),)), (minus,))
    assert np.signbit(scaled).all()


@pytest.mark.parametrize("operation", [n for n, op in SCALAR_OPS.items() if op.identity])
def test_reductions_of_nothing_give_the_start_value(operation):
    op = scalar_op_named(operation)
    for dtype in reduction_dtypes(op):
        x = builders.parameter("x", 0, TensorType(dtype, (0, 2)))
        (found,) = evaluate(Function("main", (x,), (builders.reduce_axes(op, x, (0,)),)), (
            np.empty((0, 2), dtype.numpy),))
        assert found.tolist() == [op.identity(dtype)] * 2


def test_sums_accumulate_in_double_precision_and_integers_wrap():
    x = x_of("f32[3]")
    (total,) = evaluate(Function("main", (x,), (builders.reduce_axes(ADD, x, (0,)),)), (
        np.array([1e8, 1, -1e8], np.float32),))
    assert total == 1
    y = builders.parameter("y", 0, TensorType(I8, (3,)))
    results = (builders.reduce_axes(ADD, y, (0,)), builders.dot_general(y, y, ((0,), (0,))))
    total, dot = evaluate(Function("main", (y,), results), (np.array([100, 100, 3], np.int8),))
    assert total == np.int8(203 - 256) and dot == np.array(20009).astype(np.int8)


def test_iota_wraps_and_rounds():
    found = evaluate(Function("main", (), (
        builders.iota(I8, (300,), 0), builders.iota(F32, (2, 3), 1))), ())
    assert found[0][[127, 128, 256]].tolist() == [127, -128, 0]
    assert found[1].tolist() == [[0, 1, 2], [0, 1, 2]]


@pytest.mark.parametrize("permutation", list(itertools.permutations(range(3))))
def test_transpose_is_numpys(permutation):
    x = x_of("f32[2, 3, 4]")
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    (found,) = evaluate(Function("main", (x,), (builders.transpose(x, permutation),)), (array,))
    assert found.tolist() == array.transpose(permutation).tolist()


@pytest.mark.parametrize(("shape", "axes", "result"), [
    ((3,), (1,), (2, 3)), ((3,), (0,), (3, 2)), ((1, 3), (0, 1), (4, 3)), ((2, 3), (2, 0), (3, 4, 2)), ((), (), (2,)),
    ((1,), (0,), (1,)), ((0,), (0,), (0, 3)),
])
def test_broadcast_in_dim(shape, axes, result):
    x = builders.parameter("x", 0, TensorType(F32, shape))
    array = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    (found,) = evaluate(Function("main", (x,), (builders.broadcast_in_dim(x, result, axes),)), (array,))
    expected = np.empty(result, np.float32)
    for place in np.ndindex(*result):
        expected[place] = array[tuple(place[b] if n != 1 else 0 for b, n in zip(axes, shape, strict=True))]
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize(("left", "right", "contracted", "batch", "equation"), [
    ("f64[2, 3]", "f64[3, 4]", ((1,), (0,)), ((), ()), "ik,kj->ij"),
    ("f64[5, 2, 3]", "f64[5, 3, 4]", ((2,), (1,)), ((0,), (0,)), "bik,bkj->bij"),
    ("f64[3, 2, 5]", "f64[4, 5, 3]", ((2,), (1,)), ((0,), (2,)), "bik,jkb->bij"),
    ("f64[2, 3]", "f64[2, 3]", ((0, 1), (0, 1)), ((), ()), "ij,ij->"),
    ("f64[2]", "f64[3]", ((), ()), ((), ()), "i,j->ij"),
    ("f64[2, 0]", "f64[0, 3]", ((1,), (0,)), ((), ()), "ik,kj->ij"),
])
def test_dot_general_is_einsum(left, right, contracted, batch, equation):
    x, y = x_of(left), x_of(right, "y", 1)
    random = np.random.default_rng(0)
    a, b = random.standard_normal(x.shape), random.standard_normal(y.shape)
    (found,) = evaluate(Function("main", (x, y), (builders.dot_general(x, y, contracted, batch),)), (a, b))
    np.testing.assert_allclose(found, np.einsum(equation, a, b), rtol=1e-12, atol=1e-12)


def test_builders_leave_out_what_does_nothing():
    x = x_of("f32[2, b]")
    assert builders.view(x, (0, 1), x.shape) is x and builders.reshape(x, x.shape) is x
    assert builders.slice_(x, (0, 0), x.shape) is x and builders.concatenate((x,), 1) is x
    assert builders.pad(x, builders.scalar_constant(0, F32), (0, 0), (0, 0)) is x
    assert builders.reduce_axes(ADD, x, ()) is x


# Refusals

X, Y, V = x_of("f32[2, 3]"), x_of("f32[3, 2]", "y", 1), x_of("f32[]", "v", 2)
N, S = x_of("i32[2, 3]", "i", 3), x_of("f32[b, 3]", "s", 4)
P, NUMBER = x_of("bool[]", "p"), x_of("i32[]", "i")
X0, Y0 = x_of("f32[2, 3]", "x0"), x_of("f32[3, 2]", "y0")
NARROW = builders.map_scalar(scalar_op_named("astype_i32"), X0)
NOTHING = Region((), (builders.scalar_constant(0, F32),))
ALWAYS = Region((X0,), (builders.scalar_constant(True, BOOL),))
Q8 = quantized(I8, F32, 0.5, 3)
REFUSED: list[tuple[str, tuple[Node, ...], object, type[TcpError], str]] = [
    ("parameter", (X,), attribute_classes.ParameterAttributes("x", 0, X.type), TypeMismatch,
     "parameter requires 0 operands, got 1"),
    ("constant", (), None, TypeMismatch, "constant requires ConstantAttributes, got None"),
    ("iota", (), IotaAttributes(TensorType(BOOL, (2,)), 0), TypeMismatch, "iota requires a numeric dtype, got bool"),
    ("iota", (), IotaAttributes(TensorType(Q8, (2,)), 0), TypeMismatch, "a numeric dtype, got quant(i8:f32, 0.5:3)"),
    ("iota", (), IotaAttributes(TensorType(F32, (2,)), 1), TypeMismatch, "iota requires an axis of f32[2], got 1"),
    ("iota", (), IotaAttributes(TensorType(F32, ()), -1), TypeMismatch, "iota requires an axis of f32[], got -1"),
    ("map", (), builders.map_scalar(ADD, X, X).attributes, TypeMismatch, "add requires 2 operands, got 0"),
    ("map", (X, N), builders.map_scalar(ADD, X, X).attributes, TypeMismatch,
     "add requires dtype f32 of operand 1, got i32[2, 3]"),
    ("map", (X, Y), builders.map_scalar(ADD, X, X).attributes, ShapeMismatch,
     "add requires operands of one shape, got f32[2, 3] (operand 0) and f32[3, 2] (operand 1)"),
    ("map", (X, S), builders.map_scalar(ADD, X, X).attributes, ShapeMismatch, "f32[b, 3] (operand 1)"),
    ("view", (X,), ViewAttributes((0,), (2, 3)), TypeMismatch, "a label for each axis of f32[2, 3], got [0]"),
    ("view", (X,), ViewAttributes((0, 0), (2, 3)), TypeMismatch, "view requires distinct labels, got [0, 0]"),
    ("view", (X,), ViewAttributes((0, 2), (2, 3)), TypeMismatch, "view requires labels below 2, got 2 for axis 1"),
    ("view", (X,), ViewAttributes((0, -2), (2, 3)), TypeMismatch, "got -2 for axis 1"),
    ("view", (X,), ViewAttributes((0, -1), (2,)), ShapeMismatch, "view requires size 1 along axis 1 of f32[2, 3]"),
    ("view", (X,), ViewAttributes((0, 1), (2, 4)), ShapeMismatch, "view requires size 4 along axis 1 of f32[2, 3]"),
    ("view", (S,), ViewAttributes((0, 1), (2, 3)), ShapeMismatch, "view requires size 2 along axis 0 of f32[b, 3]"),
    ("reshape", (X,), ReshapeAttributes((5,)), ShapeMismatch,
     "reshape requires equal element counts, got f32[2, 3] (6) and f32[5] (5)"),
    ("reshape", (S,), ReshapeAttributes((B, 2)), ShapeMismatch, "got f32[b, 3] (3*b) and f32[b, 2] (2*b)"),
    ("reshape", (X,), ReshapeAttributes((1 << 40, 1 << 40)), ShapeMismatch, "below 2**63"),
    ("reshape", (X,), ReshapeAttributes((-2, -3)), ShapeMismatch, "sizes of at least 0, got [-2, -3]"),
    ("slice", (X,), SliceAttributes((0,), (2,), (1,)), TypeMismatch, "2 starts, limits and strides for f32[2, 3]"),
    ("slice", (X,), SliceAttributes((0, 0), (2, 3), (1, 0)), TypeMismatch, "positive strides, got 0 along axis 1"),
    ("slice", (X,), SliceAttributes((0, 0), (2, 4), (1, 1)), ShapeMismatch, "0 <= start <= limit <= 3 along axis 1"),
    ("slice", (X,), SliceAttributes((-1, 0), (2, 3), (1, 1)), ShapeMismatch, "got start -1 and limit 2"),
    ("slice", (X,), SliceAttributes((2, 0), (1, 3), (1, 1)), ShapeMismatch, "got start 2 and limit 1"),
    ("slice", (S,), SliceAttributes((0, 0), (1, 3), (1, 1)), ShapeMismatch, "0 <= start <= limit <= b along axis 0"),
    ("concatenate", (), ConcatenateAttributes(0), TypeMismatch, "concatenate requires at least one operand"),
    ("concatenate", (X, Y), ConcatenateAttributes(0), ShapeMismatch,
     "concatenate along axis 0 requires equal sizes along axis 1, got 3 and 2 (operand 1)"),
    ("concatenate", (X, N), ConcatenateAttributes(0), TypeMismatch, "got f32[2, 3] and i32[2, 3] (operand 1)"),
    ("concatenate", (X, V), ConcatenateAttributes(0), TypeMismatch, "got f32[2, 3] and f32[] (operand 1)"),
    ("concatenate", (X,), ConcatenateAttributes(2), TypeMismatch, "concatenate requires an axis of f32[2, 3], got 2"),
    ("pad", (X, X), PadAttributes((0, 0), (0, 0)), TypeMismatch, "pad requires a value of type f32[], got f32[2, 3]"),
    ("pad", (N, V), PadAttributes((0, 0), (0, 0)), TypeMismatch, "pad requires a value of type i32[], got f32[]"),
    ("pad", (X, V), PadAttributes((0,), (0, 0)), TypeMismatch, "pad requires 2 amounts before and after"),
    ("pad", (X, V), PadAttributes((0, -1), (0, 0)), ShapeMismatch, "at least 0, got -1 and 0 along axis 1"),
    ("pad", (X, V), PadAttributes((0, 0), (B - 1, 0)), ShapeMismatch, "at least 0, got 0 and b - 1 along axis 0"),
    ("reduce", (X,), ReduceAttributes(SCALAR_OPS["subtract"], (0, 1), (2, 3), 1), TypeMismatch,
     "reduce requires an associative operation with a start value, got subtract"),
    ("reduce", (X,), ReduceAttributes(SCALAR_OPS["bitwise_and"], (0, 1), (2, 3), 1), TypeMismatch,
     "bitwise_and requires integers or bool, got f32"),
    ("reduce", (X,), ReduceAttributes(ADD, (0, 1), (2, 3, 4), 1), TypeMismatch,
     "reduce requires every reduced label in an operand, 2 is missing"),
    ("reduce", (X,), ReduceAttributes(ADD, (0, 1), (2, 4), 1), ShapeMismatch, "size 4 along axis 1 of f32[2, 3]"),
    ("reduce", (X,), ReduceAttributes(ADD, (0, 1), (2, 3), 3), TypeMismatch, "a rank of 0 to 2, got 3"),
    ("contract", (X, N), ContractAttributes((0, 1), (0, 1), (2, 3), 0), TypeMismatch,
     "multiply requires operands of one dtype, got f32, i32"),
    ("contract", (X, Y), ContractAttributes((0, 1), (0, 1), (2, 3), 0), ShapeMismatch,
     "contract rhs requires size 2 along axis 0 of f32[3, 2]"),
    ("contract", (X, Y), ContractAttributes((0, 1), (1,), (2, 3), 0), TypeMismatch, "contract rhs requires a label"),
    ("contract", (X, X), ContractAttributes((0, 1), (0, 1), (2, 3, 4), 2), TypeMismatch,
     "contract requires every reduced label in an operand, 2 is missing"),
    ("contract", (X, X), ContractAttributes((0, 1), (0, 1), (2, 3), -1), TypeMismatch, "a rank of 0 to 2, got -1"),
    ("composite", (X,), CompositeAttributes("f", Region((Y,), (Y,))), TypeMismatch,
     "composite f requires operands (f32[3, 2]), got (f32[2, 3])"),
    ("composite", (X,), CompositeAttributes("f", Region((X,), (Y,))), TypeMismatch,
     "composite f requires a closed body, which reads parameter y of the function around it"),
    ("composite", (), CompositeAttributes("f", Region((), ())), TypeMismatch, "composite f requires a result"),
    ("composite", (X,), CompositeAttributes("f", Region((builders.map_scalar(ADD, X, X),), (X,))), TypeMismatch,
     "composite f requires parameters 0, 1, ..., got map"),
    ("if", (X,), IfAttributes((NOTHING, NOTHING)), TypeMismatch, "if requires bool[] as operand 0, got f32[2, 3]"),
    ("if", (), IfAttributes((NOTHING, NOTHING)), TypeMismatch, "if requires bool[] as operand 0, got no operand"),
    ("if", (P,), IfAttributes((NOTHING,)), TypeMismatch, "if requires 2 branches, got 1"),
    ("if", (P, X), IfAttributes((Region((X0,), (X0,)), Region((Y0,), (Y0,)))), TypeMismatch,
     "branch 1 of if requires parameters (f32[2, 3]), got (f32[3, 2])"),
    ("if", (P, X), IfAttributes((Region((X0,), (X0,)), Region((X0,), (X0, X0)))), TypeMismatch,
     "if requires branches with results of the same types, got (f32[2, 3]) (branch 0) and (f32[2, 3], f32[2, 3]) "
     "(branch 1)"),
    ("if", (P, X), IfAttributes((Region((X0,), (Y,)), Region((X0,), (X0,)))), TypeMismatch,
     "branch 0 of if requires a closed body, which reads parameter y"),
    ("case", (P,), CaseAttributes((NOTHING,)), TypeMismatch, "case requires i32[] as operand 0, got bool[]"),
    ("case", (NUMBER,), CaseAttributes(()), TypeMismatch, "case requires at least 1 branch, got 0"),
    ("case", (NUMBER,), CaseAttributes((Region((), ()),)), TypeMismatch, "branch 0 of case requires a result"),
    ("while", (X,), WhileAttributes(Region((X0,), (X0,)), Region((X0,), (X0,)), 1), TypeMismatch,
     "while requires a condition that gives bool[], got (f32[2, 3])"),
    ("while", (X,), WhileAttributes(ALWAYS, Region((X0,), (NARROW,)), 1), TypeMismatch,
     "while requires a body that keeps the type of state 0, f32[2, 3], got i32[2, 3]"),
    ("while", (X,), WhileAttributes(ALWAYS, Region((X0,), (X0, X0)), 1), TypeMismatch,
     "while requires a body that gives 1 values of state, got 2"),
    ("while", (X,), WhileAttributes(ALWAYS, Region((X0,), (X0,)), 2), TypeMismatch,
     "while requires 1 to 1 values of state, got 2"),
    ("while", (Y,), WhileAttributes(ALWAYS, Region((X0,), (X0,)), 1), TypeMismatch,
     "the condition of while requires parameters (f32[3, 2]), got (f32[2, 3])"),
    ("scan", (X,), ScanAttributes(Region((X0,), (NARROW,)), 1, 0, 4, False), TypeMismatch,
     "scan requires a body that keeps the type of carry 0, f32[2, 3], got i32[2, 3]"),
    ("scan", (X,), ScanAttributes(Region((X0,), (X0,)), 0, 1, 4, False), ShapeMismatch,
     "scan requires sequences with a leading axis of size 4, sequence 0 is f32[2, 3]"),
    ("scan", (X,), ScanAttributes(Region((X0,), (X0,)), 0, 1, 2, False), TypeMismatch,
     "the body of scan requires parameters (f32[3]), got (f32[2, 3])"),
    ("scan", (X,), ScanAttributes(Region((X0,), (X0,)), 1, 1, 2, False), TypeMismatch,
     "scan requires 0 to 0 sequences, got 1"),
    ("scan", (X,), ScanAttributes(Region((X0,), (X0,)), 1, 0, -1, False), ShapeMismatch, "scan requires sizes of at"),
    ("tuple", (tuple_of(X),), None, TypeMismatch, "tuple requires tensors, got (f32[2, 3])"),
    ("tuple", (X,), ConcatenateAttributes(0), TypeMismatch, "tuple takes no attributes"),
    ("project", (X,), ProjectAttributes(0), TypeMismatch, "project requires an operand with more than 0 results"),
    ("project", (tuple_of(X),), ProjectAttributes(1), TypeMismatch, "more than 1 results, got (f32[2, 3])"),
    ("project", (tuple_of(X),), ProjectAttributes(-1), TypeMismatch, "project"),
    *STRUCTURED,
    ("view_as_real", (X,), None, TypeMismatch, "view_as_real requires a complex dtype, got f32[2, 3]"),
    ("view_as_complex", (X,), None, ShapeMismatch, "view_as_complex requires a last axis of size 2, got f32[2, 3]"),
    ("view_as_complex", (N,), None, TypeMismatch, "view_as_complex requires dtype f32 or f64, got i32[2, 3]"),
    ("quantize", (N,), QuantizationAttributes(Q8), TypeMismatch,
     "quantize to quant(i8:f32, 0.5:3) requires dtype f32, got i32[2, 3]"),
    ("dequantize", (X,), QuantizationAttributes(Q8), TypeMismatch,
     "dequantize requires a quantised dtype, got f32[2, 3]"),
    ("view_as_storage", (X,), None, TypeMismatch, "view_as_storage requires a quantised dtype, got f32[2, 3]"),
    ("view_as_quantized", (X,), QuantizationAttributes(Q8), TypeMismatch,
     "view_as_quantized as quant(i8:f32, 0.5:3) requires dtype i8, got f32[2, 3]"),
]


@pytest.mark.parametrize(("name", "operands", "attributes", "error", "message"), REFUSED,
                         ids=[f"{r[0]}-{n}" for n, r in enumerate(REFUSED)])
def test_what_does_not_type_is_refused(name, operands, attributes, error, message):
    with pytest.raises(error, match=re.escape(message)):
        Node.make(OPS[name], operands, attributes)


def test_every_operation_refuses_something():
    assert {row[0] for row in REFUSED} == set(OPS)


@pytest.mark.parametrize("name", OPS)
def test_wrong_operands_and_attributes_are_refused_by_name(name):
    op = OPS[name]
    (root,) = single_operation(0, name).function.results[:1]
    while root.op.name != name and root.operands:
        root = root.operands[0]
    if op.arity is not None:
        with pytest.raises(TypeMismatch, match=f"{name} requires {op.arity} operands, got {op.arity + 1}"):
            op.infer_type((X.type,) * (op.arity + 1), root.attributes)
    if op.arity != 0 and name not in ("project", "composite"):
        with pytest.raises(TypeMismatch, match=r"requires (a value|tensors)"):
            op.infer_type((TupleType((X.type,)),) * (op.arity or len(root.operands) or 1), root.attributes)
    if op.attributes is not None:
        with pytest.raises(TypeMismatch, match=f"{name} requires {op.attributes.__name__}, got"):
            op.infer_type(tuple(x.type for x in root.operands), object())


@pytest.mark.parametrize("build", [
    lambda: builders.transpose(X, (0, 0)), lambda: builders.reduce_axes(ADD, X, (2,)),
    lambda: builders.reduce_axes(ADD, X, (0, -2)), lambda: builders.broadcast_in_dim(X, (2, 3), (0,)),
    lambda: builders.broadcast_in_dim(X, (2, 3), (0, 5)), lambda: builders.broadcast_in_dim(X, (4, 3), (0, 1)),
    lambda: builders.dot_general(X, Y, ((1,), (1,))), lambda: builders.dot_general(X, Y, ((1, 0), (0,))),
    lambda: builders.dot_general(X, Y, ((5,), (0,))), lambda: builders.dot_general(X, X, ((0,), (0,)), ((0,), (0,))),
    lambda: builders.map_scalar(ADD, X, V), lambda: builders.pad(X, V, (1,), (1,)),
])
def test_builders_refuse(build):
    with pytest.raises(TypeMismatch, match="requires"):
        build()


def test_tables():
    with pytest.raises(UnknownName, match="unknown operation 'conv'"):
        op_named("conv")
    with pytest.raises(ValueError, match="map is defined twice"):
        define_op("map", "x*", doc="Again.")
    with pytest.raises(ValueError, match="no documentation"):
        define_op("brand_new", "x", doc="")
    with pytest.raises(TypeError):
        define_op("brand_new", "x", doc="Lacks everything else.")
    assert "brand_new" not in OPS


# Nodes and attributes


def test_attributes_are_frozen_and_hashable():
    for name in OPS:
        (root, *_) = single_operation(1, name).function.results
        if root.attributes is not None:
            assert hash(root.attributes) == hash(dataclasses.replace(root.attributes))
            with pytest.raises((dataclasses.FrozenInstanceError, AttributeError, TypeError)):
                root.attributes.shape = ()


def test_sizes_in_attributes_are_found_by_their_annotations():
    assert size_fields(SliceAttributes) == ("starts", "limits")
    assert size_fields(IotaAttributes) == ("type",) and size_fields(ViewAttributes) == ("shape",)
    assert size_fields(ReduceAttributes) == ("extents",) and size_fields(ProjectAttributes) == ()
    doubled = map_attribute_sizes(SliceAttributes((1,), (B,), (3,)), lambda n: 2 * n)
    assert doubled == SliceAttributes((2,), (2 * B,), (3,))


def test_constants_are_compared_by_bits_dtype_and_shape():
    def data(values, dtype=np.float32):
        return TensorData(np.array(values, dtype))

    assert data([0.0]) != data([-0.0]) and data([1.0]) == data([1.0]) and hash(data([1.0])) == hash(data([1.0]))
    assert data([[1.0, 2.0]]) != data([1.0, 2.0]) and data([0], np.int32) != data([0.0])
    assert data(np.zeros((0, 2))) != data(np.zeros((2, 0)))
    assert data(np.zeros((*(1,) * 30, 2))) != data(np.zeros((2, *(1,) * 30)))
    assert data([0.0, -0.0]).is_splat is False and data([[2.0, 2.0]]).is_splat and not data(np.zeros((0,))).is_splat
    array = np.ones(3, ">f4")
    made = TensorData(array)
    array[0] = 2
    assert made == data([1, 1, 1]) and made.array.dtype == np.dtype("float32") and not made.array.flags.writeable
    assert TensorData(np.arange(6, dtype=np.int64).reshape(2, 3).T).array.flags.c_contiguous


def test_nodes_die_when_nobody_needs_them():
    before = len(Node._interned)
    x = builders.parameter("a parameter of this test", 0, TensorType(F32, (2,)))
    for n in range(200):
        builders.map_scalar(ADD, x, builders.splat(n + 0.123, F32, (2,)))
    gc.collect()
    assert len(Node._interned) - before < 20


def test_deep_programs_are_freed_and_walked_without_recursion():
    x = node = builders.parameter("x", 0, TensorType(F32, (2,)))
    for _ in range(10_000):
        node = builders.map_scalar(SCALAR_OPS["exp"], node)
    function = Function("main", (x,), (node,))
    assert sum(1 for _ in function.nodes()) == 10_001
    del function, node
    gc.collect()


def test_nodes_are_one_between_threads():
    x = builders.parameter("x", 0, TensorType(F32, (2,)))
    found: list[list[Node]] = [[] for _ in range(8)]
    barrier = threading.Barrier(8)

    def build(mine: list[Node]) -> None:
        barrier.wait()
        mine.extend(builders.map_scalar(ADD, x, builders.splat(n / 7, F32, (2,))) for n in range(200))

    threads = [threading.Thread(target=build, args=(mine,)) for mine in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(row == found[0] for row in found)


def test_i64_positions_reach_past_32_bits():
    x = x_of("i64[b]")
    y = builders.map_scalar(ADD, x, builders.iota(I64, (B,), 0))
    (found,) = evaluate(Function("main", (x,), (y,)), (np.full(3, 1 << 40, np.int64),))
    assert found.tolist() == [(1 << 40) + n for n in range(3)]


def test_i32_dtype_is_kept_by_reductions():
    y = builders.parameter("y", 0, TensorType(I32, (2,)))
    assert builders.reduce_axes(ADD, y, (0,)).type == TensorType(I32, ())

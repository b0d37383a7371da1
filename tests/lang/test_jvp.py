"""Derivatives in a direction: against difference quotients, against gradients, and of every operation."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest
from control_programs import PROGRAMS, Control
from hypothesis import given, reject, settings
from lang.test_control_flow import at_all_sizes, in_floats
from lang.test_grad import in_double
from programs import SAMPLERS, programs, random_array, signatures, single_operation

import tcp_eqsat as tcp
from benchmarks.models import attention_block, bert, group_norm, layer_norm, mlp_full, mlp_tanh
from benchmarks.models.model import Model
from tcp_eqsat.errors import ArgumentError, ShapeMismatch, TypeMismatch, UnknownName
from tcp_eqsat.lang import text
from tcp_eqsat.lang.grad import vjp
from tcp_eqsat.lang.jvp import jvp, scalar_jvp
from tcp_eqsat.lang.op import OPS, bind_sizes
from tcp_eqsat.lang.ops.elementwise import scalar_vjp
from tcp_eqsat.lang.program import Function, Program
from tcp_eqsat.lang.reference import evaluate
from tcp_eqsat.lang.scalar import NOT_DIFFERENTIABLE, SCALAR_OPS, function_of
from tcp_eqsat.lang.types import F64, TensorType

xp = tcp.numpy


def drawn(function: Function, arrays, seed: int = 0) -> list[np.ndarray]:
    """A direction: an array for each floating-point parameter."""
    random = np.random.default_rng(seed)
    return [random.standard_normal(a.shape).astype(a.dtype) for a in arrays if a.dtype.kind == "f"]


def check_direction(function: Function, arrays, seed: int = 0, rel: float = 1e-6) -> None:
    """The tangents against central differences, and the results against the function's."""
    direction = drawn(function, arrays, seed)
    found = evaluate(jvp(function), (*arrays, *direction))
    results, tangents = found[: len(function.results)], found[len(function.results):]
    expected = evaluate(function, arrays)
    for y, e in zip(results, expected, strict=True):
        np.testing.assert_array_equal(y, e)
    h = 1e-5
    moved = []
    for step in (h, -h):
        parts = iter(direction)
        moved.append(evaluate(function, [a + step * next(parts) if a.dtype.kind == "f" else a for a in arrays]))
    floats = [i for i, e in enumerate(expected) if e.dtype.kind == "f"]
    for i, tangent in zip(floats, tangents, strict=True):
        np.testing.assert_allclose(tangent, (moved[0][i] - moved[1][i]) / (2 * h), rtol=rel, atol=1e-6)


def check_transpose(function: Function, arrays, seed: int = 0) -> None:
    """<cotangents, jvp of a direction> is <vjp of the cotangents, the direction>."""
    random = np.random.default_rng(seed)
    direction = drawn(function, arrays, seed)
    forward, backward = jvp(function), vjp(function)
    found = evaluate(forward, (*arrays, *direction))
    results, tangents = found[: len(function.results)], found[len(function.results):]
    if not all(np.isfinite(y).all() for y in results if y.dtype.kind == "f"):
        return  # the maximum of nothing, say
    cotangents = [random.standard_normal(t.shape).astype(t.dtype) for t in tangents]
    gradients = evaluate(backward, (*arrays, *cotangents))[len(function.results):]
    left = sum(float((c * t).sum()) for c, t in zip(cotangents, tangents, strict=True))
    right = sum(float((g * d).sum()) for g, d in zip(gradients, direction, strict=True))
    scale = sum(float(np.abs(g * d).sum()) for g, d in zip(gradients, direction, strict=True))
    assert left == pytest.approx(right, rel=1e-9, abs=1e-9 * (1 + scale))


@pytest.mark.parametrize("model", [
    mlp_tanh(), mlp_full(), layer_norm(12), group_norm(8, 2, 3), attention_block(8, 2), bert(1, 8, 2),
], ids=lambda m: m.name)
def test_models(model: Model):
    function = in_double(model.program.main)
    arrays = tuple(x.astype(np.float64) for x in model.arrays(b=2, s=3))
    check_direction(function, arrays, rel=1e-5)
    check_transpose(function, arrays)


@pytest.mark.parametrize("name", [n for n in SAMPLERS if n not in ("map", "tuple", "parameter")])
def test_every_operation_is_the_transpose_of_its_gradient(name):
    """The gradients themselves are tested against difference quotients."""
    seen = 0
    for seed in range(25):
        sample = single_operation(seed, name, dtypes=(F64,), stable=True)
        function = sample.function
        moving = [x for x in function.parameters if x.dtype.is_differentiable]
        if not moving or not any(x.dtype.is_float for x in function.results):
            continue
        arrays = sample.arrays(seed, "tame")
        if name == "while":
            check_direction(function, arrays)
        else:
            check_transpose(function, arrays, seed)
        seen += 1
    assert seen > 5 or not any(callable(each) for each in (OPS[name].derivative, OPS[name].expand)) \
        or OPS[name].arity == 0 or name.startswith("view_as")


@pytest.mark.parametrize("name", [n for n, op in SCALAR_OPS.items()
                                  if op.derivative is not NOT_DIFFERENTIABLE and any(
                                      F64 in s and op.result_dtype(*s) == F64 for s in signatures(op))])
def test_scalar_operations_are_the_transpose_of_their_gradients(name):
    op = SCALAR_OPS[name]
    (signature, *_) = [s for s in signatures(op) if F64 in s and op.result_dtype(*s) == F64]
    random = np.random.default_rng(3)
    arrays = [random_array(random, d, (50,), "tame") for d in signature]
    function = function_of(op, *signature)
    parts = scalar_vjp(function)
    ones = np.ones(50)
    for i, dtype in enumerate(signature):
        if dtype != F64:
            continue
        made = scalar_jvp(function, (i,))
        if parts[i] is None:
            assert made is None
            continue
        np.testing.assert_allclose(
            made.evaluate(ones, *arrays), parts[i].evaluate(ones, *arrays), rtol=1e-12, equal_nan=True)


@at_all_sizes()
def test_control_flow(program: Control, sizes):
    """Loops without a bound too."""
    function = in_floats(program.function)
    for seed in range(3):
        arrays = [a for a in program.arrays(sizes, seed) if a.dtype.kind == "f"]
        check_direction(function, arrays, seed, rel=1e-5)


@pytest.mark.parametrize("program", [p for p in PROGRAMS if p.has_gradient], ids=lambda p: p.name)
def test_control_flow_is_the_transpose_of_its_gradient(program: Control):
    function = in_floats(program.function)
    arrays = [a for a in program.arrays(program.sizes[-1], 1) if a.dtype.kind == "f"]
    check_transpose(function, arrays)
    check_direction(vjp(function), [*arrays, *(np.ones(r.shape) for r in evaluate(function, arrays))], rel=1e-4)


@settings(max_examples=100, deadline=None)
@given(programs(7, dtypes=(F64,), stable=True, names=tuple(SAMPLERS)))
def test_random_programs(sample):
    function = sample.function
    try:
        made = jvp(function)
    except ShapeMismatch:
        assert function.symbols
        reject()
    targets = [x for x in function.parameters if x.dtype.is_differentiable]
    assert [x.type for x in made.parameters] == [x.type for x in (*function.parameters, *targets)]
    again = text.parse(text.write(Program({"f": made}))).main
    assert again.results == made.results
    sizes = sample.sizes(0)
    arrays = sample.arrays(0, "tame")
    ones = [np.ones(bind_sizes(x.type, sizes).shape).astype(x.dtype.numpy) for x in targets]
    found = evaluate(made, (*arrays, *ones))
    for value, expected in zip(found, evaluate(function, arrays), strict=False):
        np.testing.assert_array_equal(value, expected)


def test_programs_are_compact():
    """What a reader would write: one operation of tangents beside one of values."""
    program = tcp.trace(lambda x, w: xp.sum(xp.tanh(x @ w), 1)[1:], "f64[4, 3]", "f64[3, 2]")
    made = jvp(program.main)
    assert Counter(x.op.name for x in made.nodes()) == {
        "parameter": 4, "contract": 3, "map": 3, "reduce": 2, "slice": 2}


def test_what_does_not_move_costs_nothing():
    program = tcp.trace(lambda x, y: (x * y, xp.exp(y), xp.astype(x, "i32")), "f64[3]", "f64[3]")
    made = jvp(program.main, "x")
    assert [x.attributes.name for x in made.parameters] == ["x", "y", "tangent_x"]
    assert [str(x.type) for x in made.results] == ["f64[3]", "f64[3]", "i32[3]", "f64[3]", "f64[3]"]
    x, y, t = np.array([1.0, 2, 3]), np.array([4.0, 5, 6]), np.array([10.0, 20, 30])
    assert [v.tolist() for v in evaluate(made, (x, y, t))[3:]] == [[40, 100, 180], [0, 0, 0]]


def test_conversions_between_floats():
    program = tcp.trace(lambda x: xp.astype(xp.astype(x, "f32") * 3, "f64"), "f64[2]")
    found = evaluate(jvp(program.main), (np.array([1.0, 2.0]), np.array([0.5, 0.25])))
    assert found[1].dtype == np.float64 and found[1].tolist() == [1.5, 0.75]


def test_third_derivatives():
    x = np.array(0.7)
    f = tcp.jvp(lambda x: tcp.jvp(lambda x: tcp.jvp(xp.sin)((x,), (1.0,))[1])((x,), (1.0,))[1])
    program = tcp.trace(lambda x: f((x,), (1.0,))[1], "f64[]")
    assert tcp.reference(program)(x) == pytest.approx(-np.cos(0.7), rel=1e-14)


def test_python_functions():
    def f(point, scale):
        return {"norm": xp.sum(point["x"] * point["y"]) * scale, "count": 3}

    def both(x, y, dx):
        value, tangent = tcp.jvp(f)(({"x": x, "y": y}, 2.0), ({"x": dx, "y": 0.0}, None))
        assert tangent["count"] is None
        return value["norm"], tangent["norm"]

    x, y, dx = np.array([1.0, 2]), np.array([3.0, 4]), np.array([10.0, 100])
    value, tangent = tcp.reference(tcp.trace(both, "f64[2]", "f64[2]", "f64[2]"))(x, y, dx)
    assert value == 22 and tangent == 2 * (30 + 400)


def test_hessian_vector_products():
    """Forward over reverse, around a value that both capture."""
    def product(x, v, a):
        return tcp.jvp(tcp.grad(lambda x: xp.sum(xp.exp(x @ a) * xp.sum(x))))((x,), (v,))[1]

    random = np.random.default_rng(0)
    x, v, a = random.standard_normal(3), random.standard_normal(3), random.standard_normal((3, 3)) * 0.3
    found = tcp.reference(tcp.trace(product, "f64[3]", "f64[3]", "f64[3, 3]"))(x, v, a)

    def gradient(x):
        e = np.exp(x @ a)
        return (a @ e) * x.sum() + e.sum()

    np.testing.assert_allclose(found, (gradient(x + 1e-6 * v) - gradient(x - 1e-6 * v)) / 2e-6, rtol=1e-6)


@pytest.mark.parametrize(("make", "error", "message"), [
    (lambda f: jvp(f, "z"), UnknownName, "f has no parameter 'z'"),
    (lambda f: jvp(f, "n"), TypeMismatch, "a derivative requires floating-point parameters, 'n' is i32[2]"),
    (lambda f: tcp.trace(lambda x: tcp.jvp(xp.sin)((x,), (x, x)), "f64[2]"), ArgumentError, "one of as many tangents"),
    (lambda f: tcp.trace(lambda x: tcp.jvp(xp.sin)(x, x), "f64[2]"), ArgumentError, "a tuple of arguments"),
    (lambda f: tcp.trace(lambda x: tcp.jvp(xp.sin)((x,), (x[0],)), "f64[2]"), TypeMismatch,
     "tangent 0 must be f64[2], got f64[]"),
    (lambda f: tcp.trace(lambda x: tcp.jvp(xp.sin)((x,), ([x],)), "f64[2]"), TypeMismatch,
     "tangent 0 requires a value of the form *, got [*]"),
    (lambda f: tcp.trace(lambda x: tcp.jvp(xp.abs)((x,), (x,)), "i32[2]"), TypeMismatch,
     "a derivative requires floating-point arguments, argument 0 has i32[2]"),
])
def test_refusals(make, error, message):
    function = tcp.trace(lambda x, n: x, "f32[2]", "i32[2]", name="f").main
    with pytest.raises(error, match=re.escape(message)):
        make(function)


def test_names_of_values_are_kept():
    function = text.parse("""tcp 1
func @f(%x: f64[3], %tangent_x: f64[3]) -> f64[3] {
  %hidden = exp %x: f64[3]
  %out = multiply %hidden, %tangent_x: f64[3]
  return %out
}""").main
    made = jvp(function)
    assert {"hidden", "out"} < set(made.names.values())
    assert [x.attributes.name for x in made.parameters] == ["x", "tangent_x", "tangent_x_", "tangent_tangent_x"]
    assert made.results[1].type == TensorType(F64, (3,))

"""Batches: every operation on a batch equals itself on each element, stacked."""

from __future__ import annotations

import random
import re
from collections import Counter

import numpy as np
import pytest
from control_programs import PROGRAMS, Control
from hypothesis import given, settings
from programs import SAMPLERS, SYMBOL_VALUES, Sample, programs, random_array, single_operation

import tcp_eqsat as tcp
from benchmarks.models import attention_block, layer_norm, mlp_full
from benchmarks.models.model import Model
from tcp_eqsat.errors import ArgumentError, ShapeMismatch
from tcp_eqsat.lang import batching, text
from tcp_eqsat.lang.dims import symbol
from tcp_eqsat.lang.op import bind_sizes
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.ops.quantization import dequantize, quantize, view_as_storage
from tcp_eqsat.lang.program import Function, Program
from tcp_eqsat.lang.quantized import quantized
from tcp_eqsat.lang.reference import evaluate
from tcp_eqsat.lang.types import BOOL, F32, F64, I8, I32, I64, U8, TensorType
from tcp_eqsat.lang.vmap import vmap

xp = tcp.numpy
DTYPES = (BOOL, I8, I32, I64, U8, F32, F64)


def equal(x: np.ndarray, y: np.ndarray, scale: float = 1e-6) -> bool:
    """Up to the order of sums."""
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    if x.dtype.kind in "iub":
        return bool((x == y).all())
    wide = np.complex128 if x.dtype.kind == "c" else np.float64
    return bool(np.allclose(x.astype(wide), y.astype(wide), rtol=1e-5, atol=scale, equal_nan=True))


def check_stacking(function: Function, sizes: dict[str, int], axes, out, count: int, seed: int = 0) -> Function:
    """The batched function on `count` elements against the function on each."""
    made = vmap(function, axes, out)
    generator = np.random.default_rng(seed)

    def draw(x) -> np.ndarray:
        return random_array(generator, x.dtype, bind_sizes(x.type, sizes).shape, "tame")

    columns = [draw(x) if axis is None else [draw(x) for _ in range(count)]
               for x, axis in zip(function.parameters, axes, strict=True)]
    arrays = []
    for column, axis, parameter in zip(columns, axes, made.parameters, strict=True):
        shape = bind_sizes(parameter.type, {**sizes, "n": count}).shape
        arrays.append(column if axis is None else np.stack(column, axis) if count else np.zeros(
            shape, parameter.dtype.numpy))
    found = evaluate(made, arrays)
    rows = [evaluate(function, [c if a is None else c[i] for c, a in zip(columns, axes, strict=True)])
            for i in range(count)]
    for number, (y, axis) in enumerate(zip(found, out, strict=True)):
        if rows:
            expected = np.stack([row[number] for row in rows], axis)
            assert equal(y, expected), (text.write(Program({"f": function})), text.write(Program({"f": made})))
        else:
            assert y.size == 0
    return made


def drawn_axes(function: Function, seed: int):
    generator = random.Random(seed)
    axes = [generator.choice([None, *range(len(x.shape) + 1)]) for x in function.parameters]
    if all(axis is None for axis in axes):
        axes[0] = 0
    return axes, [generator.randrange(len(x.shape) + 1) for x in function.results]


def of_operation(seed: int, name: str) -> Sample:
    return single_operation(seed, name, dtypes=DTYPES, max_rank=3)


@pytest.mark.parametrize("name", SAMPLERS)
def test_every_operation(name):
    seen = 0
    for seed in range(20):
        sample = of_operation(seed, name)
        function = sample.function
        if not function.parameters:
            continue
        axes, out = drawn_axes(function, seed)
        made = check_stacking(function, sample.sizes(seed), axes, out, 3, seed)
        assert text.parse(text.write(Program({"f": made}))).main.results == made.results
        seen += 1
    assert seen > 8 or name == "constant"


@pytest.mark.parametrize("name", [n for n in SAMPLERS if n in batching.BATCHING])
def test_rules_need_no_loop(name):
    """An operation with a rule runs once on the whole batch, as far as its operands allow."""
    loops = 0
    for seed in range(20):
        sample = of_operation(seed, name)
        if not sample.function.parameters:
            continue
        made = vmap(sample.function, drawn_axes(sample.function, seed)[0])
        loops += any(x.op.name == "scan" for x in made.nodes())
    assert loops == 0 or name in ("dynamic_slice", "dynamic_update_slice", "reduce_general", "search_sorted")


@pytest.mark.parametrize("name", [n for n in sorted(batching.BATCHING) if n in SAMPLERS])
def test_operations_without_a_rule_run_in_a_scan(name, monkeypatch):
    """What operations get that nobody has thought of."""
    monkeypatch.delitem(batching.BATCHING, name)
    loops = 0
    for seed in range(6):
        sample = of_operation(seed, name)
        axes, out = drawn_axes(sample.function, seed) if sample.function.parameters else ([], [])
        if not axes:
            continue
        made = check_stacking(sample.function, sample.sizes(seed), axes, out, 3, seed)
        loops += any(x.op.name == "scan" for x in made.nodes())
    assert loops > 0


def test_empty_batches():
    for name in ("map", "contract", "gather", "scan", "sort", "pad"):
        for seed in range(4):
            sample = of_operation(seed, name)
            if sample.function.parameters:
                check_stacking(sample.function, sample.sizes(0), *drawn_axes(sample.function, seed), 0)


@settings(max_examples=60, deadline=None)
@given(programs(6, dtypes=(F64, I32, BOOL), stable=True, max_rank=3, names=tuple(SAMPLERS)))
def test_random_programs(sample):
    if not sample.function.parameters:
        return
    axes, out = drawn_axes(sample.function, sample.seed)
    try:
        check_stacking(sample.function, sample.sizes(0), axes, out, 2, sample.seed % 1000)
    except ShapeMismatch:
        assert sample.function.symbols  # an index whose range is not provable


@pytest.mark.parametrize("model", [mlp_full(), layer_norm(12), attention_block(8, 2)], ids=lambda m: m.name)
def test_models(model: Model):
    """Activations of several, weights of one; no operation more than in the model, but for views."""
    function = model.program.main
    axes = [0 if i == 0 else None for i in range(len(function.parameters))]
    made = vmap(function, axes)
    arrays = model.arrays(b=2, s=3)
    batch = np.stack([arrays[0] * k for k in (1, 2, 3)])
    (found,) = evaluate(made, (batch, *arrays[1:]))
    for k in range(3):
        np.testing.assert_allclose(found[k], evaluate(function, (batch[k], *arrays[1:]))[0], rtol=1e-5, atol=1e-6)

    def kinds(f: Function) -> Counter:
        return Counter(x.op.name for x in f.nodes() if x.op.name not in ("view", "composite"))

    assert kinds(made) == kinds(function) or "composite" in {x.op.name for x in function.nodes()}


# Control flow


@pytest.mark.parametrize(("program", "sizes"), [(p, s) for p in PROGRAMS for s in p.sizes],
                         ids=lambda x: getattr(x, "name", None) or "-".join(f"{k}{v}" for k, v in x.items()))
def test_control_flow(program: Control, sizes):
    """Conditions that differ within the batch, loops that end at different steps."""
    function = program.function
    for seed in range(3):
        axes, out = drawn_axes(function, seed)
        columns = [[program.arrays(sizes, 10 * seed + i)[k] for i in range(4)] for k in range(len(axes))]
        arrays = [c[0] if a is None else np.stack(c, a) for c, a in zip(columns, axes, strict=True)]
        found = evaluate(vmap(function, axes, out), arrays)
        rows = [evaluate(function, [c[0] if a is None else c[i] for c, a in zip(columns, axes, strict=True)])
                for i in range(4)]
        for number, (y, axis) in enumerate(zip(found, out, strict=True)):
            np.testing.assert_allclose(y, np.stack([row[number] for row in rows], axis), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("program", [p for p in PROGRAMS if p.name in (
    "branch", "switched", "doubling", "recurrence", "choosing_scan")], ids=lambda p: p.name)
def test_machine_code_of_batches(program: Control):
    made = vmap(program.function, [0] * len(program.function.parameters))
    rows = [program.arrays(program.sizes[-1], seed) for seed in range(3)]
    arrays = [np.stack(column) for column in zip(*rows, strict=True)]
    found = tcp.compile(made)(*arrays)
    for y, e in zip(found if isinstance(found, tuple) else (found,), evaluate(made, arrays), strict=True):
        np.testing.assert_allclose(y, e, rtol=1e-10, atol=1e-12)


def test_what_is_the_same_for_the_batch_is_computed_once():
    program = tcp.trace(lambda x, p, w: tcp.cond(p, lambda: x @ xp.exp(w), lambda: x), "f64[3]", "bool[]", "f64[3, 3]")
    same = vmap(program.main, [0, None, None])
    assert Counter(x.op.name for x in same.nodes()) == {"parameter": 3, "if": 1}
    differs = vmap(program.main, [0, 0, None])
    exps = [x for x in differs.nodes() if x.op.name == "map" and len(x.operands) == 1]
    assert "if" not in {x.op.name for x in differs.nodes()} and [x.shape for x in exps] == [(3, 3)]


def test_a_loop_of_a_batch_with_one_number_of_steps_has_no_masks():
    program = tcp.trace(lambda n, x: tcp.fori_loop(0, n, lambda i, v: v * 2, x), "i64[]", "f64[2]")
    (loop,) = [x for x in vmap(program.main, [None, 0]).nodes() if x.op.name == "while"]
    assert loop.attributes.count == 2 and not any(
        "where" in str(x.attributes) for x in loop.attributes.body.results)
    (loop,) = [x for x in vmap(program.main, [0, 0]).nodes() if x.op.name == "while"]
    assert loop.attributes.count == 3


# Axes and sizes


def test_names_sizes_and_axes():
    function = text.parse("""tcp 1
func @f(%x: f64[b, 3], %y: f64[3]) -> (f64[b, 3], f64[3]) where b in [1, 9] {
  %both = view %y[j] -> [i, j]: f64[b, 3]
  %out = add %x, %both: f64[b, 3]
  return %out, %y
}""").main
    made = vmap(function, (-1, None), (1, None))
    assert str(made) == "f_vmap(x: f64[b, 3, n], y: f64[3]) -> f64[b, n, 3], f64[3]"
    x, y = np.arange(12.0).reshape(2, 3, 2), np.array([10.0, 20, 30])
    found, same = evaluate(made, (x, y))
    np.testing.assert_array_equal(found, np.moveaxis(x, -1, 1) + y)
    assert same is not y and same.tolist() == y.tolist() and made.results[1] is function.parameters[1]
    fixed = vmap(function, (0, None), size=4)
    assert str(fixed.results[0].type) == "f64[4, b, 3]" and str(fixed.results[1].type) == "f64[4, 3]"
    ranged = vmap(function, (0, 0), size=symbol("k", *(min(SYMBOL_VALUES["k"]), max(SYMBOL_VALUES["k"]))))
    assert "k in [2, 9]" in text.write(Program({"f": ranged}))


def test_batches_of_batches():
    program = tcp.trace(lambda x, w: xp.tanh(x @ w), "f64[3]", "f64[3, 2]", name="f")
    twice = tcp.vmap(tcp.vmap(program, (0, None)), (None, 0), 1, size="m")
    assert str(twice.main) == "f_vmap_vmap(x: f64[n, 3], w: f64[m, 3, 2]) -> f64[n, m, 2]"
    x, w = np.random.default_rng(0).standard_normal((4, 3)), np.random.default_rng(1).standard_normal((5, 3, 2))
    np.testing.assert_allclose(tcp.reference(twice)(x, w), np.tanh(np.einsum("nk,mkj->nmj", x, w)), rtol=1e-12)


def test_python_functions_with_values_around_them():
    def model(x, weights, scale):
        def one(row, weights):
            return {"y": xp.tanh(row @ weights["w"] + weights["b"]) * scale, "n": xp.sum(row)}

        found = tcp.vmap(one, in_axes=(1, None), out_axes=0)(x, weights)
        return found["y"], found["n"]

    program = tcp.trace(lambda x, w, b, scale: model(x, {"w": w, "b": b}, scale), "f64[3, b]", "f64[3, 2]", "f64[2]",
                        "f64[]")
    assert Counter(x.op.name for x in program.main.nodes())["contract"] == 1
    x, w, b = np.ones((3, 4)), np.ones((3, 2)), np.array([0.5, -0.5])
    y, n = tcp.reference(program)(x, w, b, np.array(2.0))
    np.testing.assert_allclose(y, np.tanh(x.T @ w + b) * 2)
    assert n.tolist() == [3] * 4


def test_gradients_of_each_element():
    def loss(w, x, y):
        return xp.sum(xp.square(xp.tanh(x @ w) - y))

    each = tcp.trace(tcp.vmap(tcp.grad(loss, "w"), (None, 0, 0)), "f64[3, 2]", "f64[b, 3]", "f64[b, 2]")
    assert str(each.main.results[0].type) == "f64[b, 3, 2]"
    random_ = np.random.default_rng(0)
    w, x, y = random_.standard_normal((3, 2)), random_.standard_normal((5, 3)), random_.standard_normal((5, 2))
    h = np.tanh(x @ w)
    expected = np.einsum("bi,bj->bij", x, 2 * (h - y) * (1 - h * h))
    np.testing.assert_allclose(tcp.reference(each)(w, x, y), expected, rtol=1e-12)


def test_gradients_through_a_batch_and_jacobians():
    def rows(w, x):
        return xp.sum(tcp.vmap(lambda row: xp.sin(row @ w))(x))

    program = tcp.trace(tcp.grad(rows, 0), "f64[3, 2]", "f64[b, 3]")
    w, x = np.ones((3, 2)) * 0.1, np.arange(6.0).reshape(2, 3)
    np.testing.assert_allclose(tcp.reference(program)(w, x), x.T @ np.cos(x @ w), rtol=1e-12)

    def jacobian(x):
        _, pull_back = tcp.vjp(lambda x: xp.sin(x) * xp.sum(x))(x)
        return tcp.vmap(pull_back)(np.eye(3))

    x = np.array([0.1, 0.2, 0.3])
    expected = np.diag(np.cos(x) * x.sum()) + np.sin(x)[:, None]
    np.testing.assert_allclose(tcp.reference(tcp.trace(jacobian, "f64[3]"))(x), expected, rtol=1e-12)


def test_jit_and_vmap():
    found = tcp.jit(tcp.vmap(lambda x, y: xp.sum(x * y)))
    x = np.arange(12.0).reshape(4, 3)
    np.testing.assert_allclose(found(x, x), (x * x).sum(1))


@pytest.mark.parametrize(("make", "error", "message"), [
    (lambda f: vmap(f, None), ArgumentError, "requires an axis for one parameter at least"),
    (lambda f: vmap(f, (0,)), ArgumentError, "vmap of f requires 2 in_axes, got 1"),
    (lambda f: vmap(f, (0, 4)), ArgumentError, "vmap of f requires in_axes in -2..1 or None, got 4"),
    (lambda f: vmap(f, 0, (0, 0)), ArgumentError, "vmap of f requires 1 out_axes, got 2"),
    (lambda f: vmap(f, 0, None), ArgumentError, "an axis in out_axes for a result that differs within the batch"),
    (lambda f: vmap(f, 0, size="b"), ArgumentError, "f has a size 'b' already"),
    (lambda f: vmap(f, 0, size=-1), ArgumentError, "must be a number, a size or a name, got -1"),
    (lambda f: vmap(f, 0, size="a b"), ArgumentError, "must be a number, a size or a name, got 'a b'"),
    (lambda f: tcp.trace(tcp.vmap(xp.add), "f64[3]", "f64[4]"), ShapeMismatch, "batches of one size, got 3 and 4"),
    (lambda f: tcp.trace(tcp.vmap(xp.sin), "f64[]"), ArgumentError, "an axis 0 of argument 0, got f64[]"),
    (lambda f: tcp.trace(tcp.vmap(xp.add, (0,)), "f64[3]", "f64[3]"), ArgumentError, "for each of 2 arguments, got 1"),
    (lambda f: tcp.trace(tcp.vmap(xp.add, None), "f64[3]", "f64[3]"), ArgumentError, "for one argument at least"),
])
def test_refusals(make, error, message):
    function = tcp.trace(lambda x, y: xp.sin(x) * y, "f64[b]", "f64[1]", name="f").main
    with pytest.raises(error, match=re.escape(message)):
        make(function)


def test_scales_along_an_axis_move_with_it():
    dtype = quantized(I8, F32, (0.5, 0.25), (0, 3), axis=0)
    x = builders.parameter("x", 0, TensorType(F32, (2, 3)))
    stored = quantize(x, dtype)
    function = Function("f", (x,), (dequantize(stored), view_as_storage(stored)))
    made = vmap(function)
    arrays = np.random.default_rng(0).standard_normal((4, 2, 3)).astype(np.float32)
    found = evaluate(made, (arrays,))
    for k in range(4):
        for y, e in zip(found, evaluate(function, (arrays[k],)), strict=True):
            np.testing.assert_array_equal(y[k], e)

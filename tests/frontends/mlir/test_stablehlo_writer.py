"""Programs written as StableHLO and read back: the same function, by the reference."""

from __future__ import annotations

import numpy as np
import programs
import pytest
from hypothesis import given, settings

from benchmarks.models import MODELS
from tcp_eqsat.compare import compare
from tcp_eqsat.errors import ShapeMismatch, UnknownName
from tcp_eqsat.frontends.mlir import generic_text, parse, write_stablehlo
from tcp_eqsat.frontends.mlir.stablehlo_forms import FORMS
from tcp_eqsat.lang.dims import symbol
from tcp_eqsat.lang.ops.builders import constant, map_function, map_scalar, parameter, splat
from tcp_eqsat.lang.ops.control import scan, while_
from tcp_eqsat.lang.ops.index_builders import take
from tcp_eqsat.lang.program import Function, Node, Program
from tcp_eqsat.lang.reference import evaluate
from tcp_eqsat.lang.scalar import SCALAR_OPS, function_of, scalar_op_named
from tcp_eqsat.lang.types import C64, F32, I32, TensorType

LACKING = {"bessel_i0e", "igamma", "igammac", "igamma_grad_a"}
"""Scalar operations that StableHLO and CHLO have no operation for."""


def text_of(function: Function) -> str:
    return write_stablehlo(Program({function.name: function}))


def assert_reads_back(function: Function, *inputs: tuple[np.ndarray, ...]) -> str:
    text = text_of(function)
    again = parse(text, function.name).main
    for arrays in inputs:
        for found, expected in zip(evaluate(again, arrays), evaluate(function, arrays), strict=True):
            outcome = compare(found, expected)
            assert outcome.agrees, (outcome, text)
    return text


@pytest.mark.parametrize("name", ["mlp_tanh", "mlp_full", "softmax", "layer_norm", "group_norm", "attention_block"])
def test_models(name):
    model = MODELS[name]()
    sizes = {"b": 2, "s": 3} if name == "attention_block" else {"b": 3}
    text = assert_reads_back(model.program.main, model.arrays(**sizes))
    assert parse(generic_text(text)).main.results == parse(text).main.results


@settings(max_examples=60, deadline=None, database=None)
@given(programs.programs(6, stable=True))
def test_random_programs(sample):
    """What can't be said is refused, by name; what is said is right."""
    try:
        text_of(sample.function)
    except (UnknownName, ShapeMismatch):
        return
    assert_reads_back(sample.function, sample.arrays(0, "tame"))


@pytest.mark.parametrize("name", sorted(set(FORMS) & set(programs.SAMPLERS)))
def test_every_operation(name):
    """Some sample of each operation that has a form is written, and is right."""
    written = 0
    for seed in range(12):
        sample = programs.single_operation(seed, name, stable=True)
        try:
            text_of(sample.function)
        except (UnknownName, ShapeMismatch):
            continue
        assert_reads_back(sample.function, sample.arrays(0, "tame"))
        written += 1
    assert written


@pytest.mark.parametrize("name", [n for n in SCALAR_OPS if not n.startswith(("astype_", "bitcast_"))])
def test_every_scalar_operation(name):
    op = SCALAR_OPS[name]
    plain = [d for d in programs.signatures(op) if not any(x.storage_only or x.bits == 16 for x in d)]
    dtypes = plain[0] if plain else (C64,)  # operations of complex numbers only
    nodes = [parameter(f"x{n}", n, TensorType(d, (4,))) for n, d in enumerate(dtypes)]
    function = Function("f", tuple(nodes), (map_scalar(op, *nodes),))
    if name in LACKING:
        with pytest.raises(UnknownName, match=name):
            text_of(function)
        return
    generator = np.random.default_rng(0)
    arrays = tuple(np.abs(generator.standard_normal(4)).astype(d.numpy) if d.is_float or d.is_complex
                   else generator.integers(0, 2, 4).astype(d.numpy) for d in dtypes)
    assert_reads_back(function, arrays)


def test_sizes_are_computed_from_the_parameters():
    b, s = symbol("b"), symbol("s")
    x = parameter("x", 0, TensorType(F32, (2 * b + 1, s)))
    y = parameter("y", 1, TensorType(F32, (b,)))
    ones = splat(1.0, F32, (b * s,))
    function = Function("f", (x, y), (ones,))
    found = assert_reads_back(function, (np.zeros((7, 4), np.float32), np.zeros(3, np.float32)))
    assert "stablehlo.get_dimension_size" in found
    with pytest.raises(ShapeMismatch, match="requires b as a size"):
        text_of(Function("f", (parameter("x", 0, TensorType(F32, (b * s, s))),), (ones,)))


def test_loops_and_indexing():
    b = symbol("b")
    x = parameter("x", 0, TensorType(F32, (5, b)))
    start = splat(0.0, F32, (b,))

    def step(carry: Node, row: Node) -> tuple[Node, ...]:
        total = map_scalar(scalar_op_named("add"), carry, row)
        return total, map_scalar(scalar_op_named("tanh"), total)

    results = scan(step, (start,), (x,), 5, reverse=True)
    index = constant(np.array([4, 0], np.int32))
    function = Function("f", (x,), (*results, take(x, index, 0)))
    assert_reads_back(function, (np.arange(15, dtype=np.float32).reshape(5, 3),))
    n = parameter("n", 0, TensorType(I32))
    below = function_of(scalar_op_named("less"), I32, I32)
    add = function_of(scalar_op_named("add"), I32, I32)
    hundred = constant(np.array(100, np.int32))
    last = while_(lambda i: map_function(below, i, hundred), lambda i: (map_function(add, i, i),), (n,))
    assert_reads_back(Function("g", (n,), last), (np.array(3, np.int32),))

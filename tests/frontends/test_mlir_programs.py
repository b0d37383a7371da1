"""The proposal's programs and snippets, exactly as they stand, read and evaluated."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tcp_eqsat.frontends.mlir import parse, read
from tcp_eqsat.frontends.mlir.forms import FORMS
from tcp_eqsat.frontends.mlir.lexer import Source
from tcp_eqsat.frontends.mlir.parser import Parser
from tcp_eqsat.lang.program import Function
from tcp_eqsat.lang.reference import reference

PROGRAMS = Path(__file__).resolve().parents[3] / "shared" / "programs"
if not PROGRAMS.is_dir():
    pytest.skip(f"the programs are not at {PROGRAMS}", allow_module_level=True)


def arrays_of(function: Function, seed: int = 0, **sizes: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = [[sizes.get(str(n), n) for n in x.shape] for x in function.parameters]
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def logistic_of_tanh(x: np.ndarray) -> np.ndarray:
    return 0.5 * np.tanh(0.5 * x) + 0.5


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@pytest.mark.parametrize(("file", "name", "activation", "last"), [
    ("mlp_tanh.mlir", "predict_tanh_no_softmax", np.tanh, lambda x: x),
    ("mlp_full.mlir", "predict", logistic_of_tanh, softmax),
])
@pytest.mark.parametrize("b", [0, 1, 5])
def test_mlp(file, name, activation, last, b):
    function = read(PROGRAMS / file).main
    assert str(function) == (
        f"{name}(arg0: f32[b, 16], h2_bias: f32[16], out_bias: f32[10], h1_bias: f32[16], "
        "h2_weights: f32[16, 16], out_weights: f32[16, 10], h1_weights: f32[16, 16]) -> f32[b, 10]")
    assert [x.name for x in function.symbols] == ["b"] and function.guards == ()
    assert {str(n) for node in function.nodes() for n in node.shape} <= {"b", "10", "16"}
    x, b2, b3, b1, w2, w3, w1 = arrays_of(function, b=b)
    y = activation(x.astype(np.float64) @ w1 + b1)
    y = activation(y @ w2 + b2)
    y = activation(y @ w3 + b3)
    expected = last(y) if b else y
    np.testing.assert_allclose(reference(function)(x, b2, b3, b1, w2, w3, w1), expected, rtol=2e-5, atol=1e-6)


def test_values_keep_their_names_and_places():
    function = read(PROGRAMS / "mlp_full.mlir").main
    by_name = {name: node for node, name in function.names.items()}
    dot = by_name["9"]
    assert dot.op.name == "contract"
    assert str(function.locations[dot]).endswith("mlp_full.mlir:11:8")
    assert function.locations[dot].length == len('"xla_hlo.dot"')
    (view,) = [x for x in by_name["10"].operands if x.op.name == "view"]
    assert function.locations[view].line == 12
    assert all(node in function.locations for node in function.nodes())
    assert by_name["arg0"] is function.parameters[0]


def test_equal_values_are_shared():
    """The text broadcasts the same constant twice in the same shape."""
    function = read(PROGRAMS / "mlp_full.mlir").main
    constants = [x for x in function.nodes() if x.op.name == "constant"]
    halves = [x for x in function.nodes() if x.op.name == "view" and x.operands[0] in constants]
    assert [str(x.type) for x in halves] == ["f32[b, 16]", "f32[b, 10]"]


# Snippets ---------------------------------------------------------------------------------------------------------


def segments(text: str) -> list[str]:
    """Runs of lines that are code, not prose or comments."""
    runs, run = [], []
    for line in [*text.split("\n"), ""]:
        if re.match(r'\s*([%^"]|\}\))', line):
            run.append(line)
        elif run:
            runs.append("\n".join(run))
            run = []
    return runs


def wrapped(code: str) -> str:
    """A function around a snippet: names that it doesn't define are arguments of the types that it states."""
    operations = Parser(Source(code, "snippet"), FORMS).module()
    defined = {result.name for op in operations for result in op.results}
    arguments = {
        operand.name: type_
        for op in operations
        for operand, type_ in zip(op.operands, op.operand_types, strict=False)
        if operand.name not in defined
    }
    header = ", ".join(f"{name}: {type_}" for name, type_ in arguments.items())
    last = operations[-1]
    returned, type_ = last.results[0].name, last.result_types[0]
    return f"func @snippet({header}) -> {type_} {{\n{code}\n  return {returned} : {type_}\n}}"


def snippet(file: str, number: int) -> Function:
    return parse(wrapped(segments((PROGRAMS / file).read_text())[number]), file).main


def test_every_snippet_is_covered():
    assert len(segments((PROGRAMS / "snippets.txt").read_text())) == 5
    assert len(segments((PROGRAMS / "shape_dialect_snippet.txt").read_text())) == 1


def test_op_carried_and_explicit_broadcast():
    carried, explicit = snippet("snippets.txt", 0), snippet("snippets.txt", 1)
    x, v = arrays_of(carried, b=3)
    np.testing.assert_array_equal(reference(carried)(x, v), x + v)
    assert str(explicit) == "snippet(2: f32[16], 7: f32[b, 16]) -> f32[b, 16]"
    v, x = arrays_of(explicit, b=4)
    np.testing.assert_array_equal(reference(explicit)(v, x), x + v)


def test_tanh_and_hidden_sigmoid():
    tanh, sigmoid = snippet("snippets.txt", 2), snippet("snippets.txt", 3)
    (x,) = arrays_of(tanh, b=3)
    np.testing.assert_allclose(reference(tanh)(x), np.tanh(x), rtol=1e-6)
    np.testing.assert_allclose(reference(sigmoid)(x), 1 / (1 + np.exp(-x)), rtol=1e-5)


def test_softmax_snippet_combines_start_values_it_does_not_know():
    function = snippet("snippets.txt", 4)
    assert str(function) == "snippet(35: f32[b, 10], 1: f32[], 2: f32[]) -> f32[b]"
    (x, *_), zero = arrays_of(function, b=3), np.float32(0)
    shifted = np.exp(x - x.max(1, keepdims=True)).sum(1)
    np.testing.assert_allclose(reference(function)(x, np.float32(-np.inf), zero), shifted, rtol=1e-5)
    high = np.exp(x - np.float32(9)).sum(1) + 2
    np.testing.assert_allclose(reference(function)(x, np.float32(9), np.float32(2)), high, rtol=1e-5)


def test_shape_dialect():
    function = snippet("shape_dialect_snippet.txt", 0)
    assert str(function) == "snippet(arg0: f32[b, 5], arg1: f32[5]) -> f32[b, 5]"
    x, v = arrays_of(function, b=3)
    np.testing.assert_array_equal(reference(function)(x, v), np.broadcast_to(v, (3, 5)))

"""docs/operations.md: every operation stands in it, is what the generator writes, and holds of compiled code."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tcp_eqsat as tcp
from docs import generate
from docs.examples_of_operations import SCALAR, TENSOR, Example, Values
from tcp_eqsat.agreement import difference
from tcp_eqsat.codegen.vector_math.accuracy import PROMISES
from tcp_eqsat.compare import compare
from tcp_eqsat.lang import text
from tcp_eqsat.lang.op import NOT_DIFFERENTIABLE, OPS, define_op, regions_of
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.program import Function, Node, Program, walk
from tcp_eqsat.lang.reference import evaluate
from tcp_eqsat.lang.scalar import SCALAR_OPS, function_of, scalar_op, scalar_op_named
from tcp_eqsat.lang.types import TensorType, dtype_named

EXAMPLES = [
    pytest.param(name, example, id=f"{name}{number}")
    for theme in TENSOR.values() for name, examples in theme.items() for number, example in enumerate(examples)]


def test_the_page_is_what_the_generator_writes(request):
    written = generate.page()
    if request.config.getoption("--rewrite"):
        generate.PAGE.write_text(written, encoding="utf-8")
    assert generate.PAGE.read_text(encoding="utf-8") == written, "run pytest --rewrite or python -m docs.generate"


def test_an_operation_without_an_example_is_named():
    define_op("made_up", "x", attributes=None, infer=lambda types, attributes: types[0], doc="Nothing.",
              reference=lambda attributes, result, x: x, pointful=lambda *a: None, derivative=NOT_DIFFERENTIABLE)
    try:
        with pytest.raises(LookupError, match=r"operations without an example: made_up$"):
            generate.page()
    finally:
        del OPS["made_up"]
    scalar_op("made_up_too", "x", infer=lambda dtype: dtype, reference=np.abs, emit=lambda b, x: x,
              derivative=NOT_DIFFERENTIABLE, doc="Nothing.")
    try:
        with pytest.raises(LookupError, match=r"operations without an example: made_up_too$"):
            generate.page()
    finally:
        del SCALAR_OPS["made_up_too"]


def test_an_example_of_no_operation_is_named(monkeypatch):
    monkeypatch.setitem(TENSOR["Values"], "gone", ())
    with pytest.raises(LookupError, match="examples of no operation: gone"):
        generate.page()


# Tensor operations


def operations_in(function: Function) -> set[str]:
    """The names of all operations, those in regions as well."""
    nodes = list(function.nodes())
    for node in nodes:
        nodes += [inner for region in regions_of(node.attributes) for inner in walk(region.results)]
    return {node.op.name for node in nodes}


@pytest.mark.parametrize(("name", "example"), EXAMPLES)
def test_compiled_examples_of_tensor_operations(name: str, example: Example):
    function = example.function(name)
    assert name in operations_in(function)
    program = Program({name: function})
    assert text.write(text.parse(text.write(program))) == text.write(program)
    arrays = example.arrays()
    results = tcp.compile(program)(*arrays)
    for found, expected in zip(results if isinstance(results, tuple) else (results,), evaluate(function, arrays),
                               strict=True):
        agreement = compare(np.asarray(found), expected, signs=True)
        assert agreement.agrees, (agreement.message, found, expected)


# Scalar operations


def scalar_program(theme: str) -> tuple[Function, list[tuple[str, Values]]]:
    """All examples of a theme as the results of one function."""
    cases = [(name + each.member, each) for name, examples in SCALAR[theme].items() for each in examples]
    parameters: list[Node] = []
    results = []
    for name, values in cases:
        dtypes = tuple(map(dtype_named, values.dtypes))
        own = [builders.parameter(f"x{len(parameters) + n}", len(parameters) + n, TensorType(dtype, array.shape))
               for n, (dtype, array) in enumerate(zip(dtypes, values.arrays(), strict=True))]
        parameters += own
        results.append(builders.map_function(function_of(scalar_op_named(name), *dtypes), *own))
    return Function("examples", tuple(parameters), tuple(results)), cases


def check_scalar(name: str, found: np.ndarray, expected: np.ndarray) -> None:
    """Within what is promised, a unit more for the reference's own rounding; complex numbers within a tolerance."""
    if expected.dtype.kind == "c":
        assert compare(found, expected).agrees, (name, found, expected)
        return
    promise = PROMISES.get(name)
    relation, tolerance = ("close", math.ceil(promise.f32) + 1) if promise else ("equal", 0)
    assert difference(relation, found, expected, tolerance) is None, name
    if expected.dtype.kind == "f":
        known = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(found[known]), np.signbit(expected[known]), err_msg=name)


@pytest.mark.parametrize("theme", SCALAR)
def test_compiled_examples_of_scalar_operations(theme):
    function, cases = scalar_program(theme)
    arrays = [array for _, values in cases for array in values.arrays()]
    found = tcp.compile(Program({"examples": function}))(*arrays)
    for (name, _), each, expected in zip(cases, found, evaluate(function, arrays), strict=True):
        check_scalar(name, np.asarray(each), expected)

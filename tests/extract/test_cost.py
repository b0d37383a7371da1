"""Cost models: files and their errors, prices that extraction relies on, typical sizes, greedy choices."""

from __future__ import annotations

import importlib.resources
import re
from pathlib import Path

import numpy as np
import pytest
from equal_values import view_of

from tcp_eqsat.codegen.vector_math.accuracy import PROMISES
from tcp_eqsat.errors import ArgumentError, UnknownName
from tcp_eqsat.extract import cost_model_names, load_cost_model
from tcp_eqsat.extract.cost import Access, Contraction, KernelFacts, representative_sizes
from tcp_eqsat.extract.greedy import greedy_choice
from tcp_eqsat.extract.machine import parse_cost_model
from tcp_eqsat.extract.terms import compile_terms
from tcp_eqsat.lang.dims import Symbol, symbol
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.program import Function
from tcp_eqsat.lang.scalar import SCALAR_OPS, scalar_op_named
from tcp_eqsat.lang.types import DTYPES, F32, F64, TensorType

CPU = load_cost_model("cpu")
TEXT = (Path(__file__).parents[2] / "cost_models" / "cpu.toml").read_text("utf-8")


def test_shipped_models_load_and_price_every_operation() -> None:
    assert "cpu" in cost_model_names()
    for name in cost_model_names():
        model = load_cost_model(name)
        assert model.name == name
        assert all(0 < model.scalar(op, dtype) < 1 for op in SCALAR_OPS.values() for dtype in DTYPES.values())


def test_every_function_of_the_vector_math_has_a_cost_of_its_own() -> None:
    priced = {key.removeprefix("scalar.operations.") for key in CPU.numbers}
    assert set(PROMISES) - priced == set()


def test_a_model_is_found_by_its_path(tmp_path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(TEXT.replace('name = "cpu"', 'name = "mine"'))
    assert load_cost_model(str(file)).name == "mine"
    with pytest.raises(UnknownName, match=r"no cost model 'nothing'; shipped are .*cpu"):
        load_cost_model("nothing")


def test_an_installed_package_brings_its_models(tmp_path, monkeypatch) -> None:
    (tmp_path / "_cost_models").mkdir()
    (tmp_path / "_cost_models" / "only.toml").write_text(TEXT)
    monkeypatch.setattr(importlib.resources, "files", lambda package: tmp_path)
    assert cost_model_names() == ("only",)


@pytest.mark.parametrize(("old", "new", "message"), [
    ("schema = 1", "schema = 2", "schema must be 1, got 2"),
    ("schema = 1", "schema = ", "is not TOML"),
    ("[kernel]\ncall", "[kernel]\ncoal", "kernel.coal is not a number that cost models have"),
    (re.search(r"\[kernel\]\ncall.*\n", TEXT).group(), "", "kernel.call is missing"),
    ('value = 0.02, unit = "us"', 'value = 0.02, unit = "ms"', "kernel.call must be in us, got ms"),
    ('value = 0.02, unit = "us"', 'value = -1, unit = "us"', "kernel.call must be a positive number, got -1"),
    ('value = 0.02, unit = "us"', 'value = nan, unit = "us"', "kernel.call must be a positive number, got nan"),
    ('value = 0.02, unit = "us"', 'value = "fast", unit = "us"', "must be a positive number, got 'fast'"),
    ('{ value = 0.02, unit = "us"', '{ unit = "us"', "kernel.call.value is missing"),
    ("\nlog1p = {", "\nlog3 = {", "there is no scalar operation 'log3'"),
    ("{ value = 64, unit", "64 # {", "machine.vector must be a table of value, unit, source and date, got 64"),
])
def test_malformed_models_are_refused(old: str, new: str, message: str) -> None:
    assert old in TEXT
    with pytest.raises(ArgumentError, match=re.escape(message)) as error:
        parse_cost_model(TEXT.replace(old, new, 1), "cpu.toml")
    assert "cpu.toml" in str(error.value)


def test_every_number_has_a_source_and_a_date() -> None:
    for part in ("source", "date"):
        text = re.sub(rf', {part} = "[^"]*"', "", TEXT, count=1)
        with pytest.raises(ArgumentError, match=rf"\.{part} is missing"):
            parse_cost_model(text, "cpu.toml")


def test_prices_order_kernels_as_expected() -> None:
    def price(**facts: object) -> float:
        return CPU.kernel(KernelFacts(**{"loads": (), "stores": (), "scalar": 0.0, **facts}))

    near, far = Access(1e4, 1e4), Access(1e4, 1e9)
    assert price() > 0
    assert price(loads=(near,)) < price(loads=(far,)) < price(loads=(Access(1e4, 1e9, contiguous=False),))
    assert price(loads=(far,)) < price(loads=(Access(1e4, 1e9, uses=2),)) < price(loads=(far, far))
    assert price(loads=(far,)) < price(loads=(far,), scalar=0.1) < price(loads=(far,)) + 0.1
    full, thin = Contraction(F32, 1e6, 64), Contraction(F32, 1e6, 1)
    assert price(contraction=full) < price(contraction=thin)
    assert price(contraction=full) < price(contraction=Contraction(F64, 1e6, 64))
    assert price(loads=(far,), folds=2, row_bytes=1e3) < price(loads=(far,), folds=2, row_bytes=1e8)


def test_recomputation_before_a_contraction() -> None:
    assert CPU.recomputation(1, True, F32) == 1
    assert CPU.recomputation(1024, True, F32) > CPU.recomputation(8, True, F32)
    assert CPU.recomputation(8, False, F32) > CPU.recomputation(8, True, F32)


def test_typical_sizes_are_in_range() -> None:
    symbols = [
        Symbol("a"), Symbol("b", 1, 8), Symbol("c", 500, 600), Symbol("d", 0, 1000, 100), Symbol("e", 0, 130, 65)]
    assert representative_sizes(symbols) == {"a": 128, "b": 8, "c": 500, "d": 200, "e": 130}
    assert representative_sizes(symbols, {"a": 7, "b": 100, "d": 1}) == {"a": 7, "b": 8, "c": 500, "d": 100, "e": 130}


def test_greedy_counts_shared_parts_once() -> None:
    """log(p) * log(p) has one logarithm; log(p * p) has one, too, and p * p besides."""
    p = builders.parameter("p", 0, TensorType(F32, (symbol("b"),)))
    log, multiply, add, exp = map(scalar_op_named, ("log", "multiply", "add", "exp"))
    shared = builders.map_scalar(log, p)
    root = builders.map_scalar(add, shared, builders.map_scalar(multiply, shared, shared))
    other = builders.map_scalar(add, builders.map_scalar(exp, p), builders.map_scalar(log, builders.map_scalar(exp, p)))
    function = Function("f", (p,), (root,))
    view = view_of(function, [(root, other)])
    terms = compile_terms(view, CPU, {"b": 128})
    choice = greedy_choice(terms)
    chosen = terms.terms[view.roots[0]][choice[view.roots[0]]]
    assert chosen.operands == view.classes[view.roots[0]][0].operands
    assert all(index >= 0 for index in choice)


def test_constants_are_free_for_greedy() -> None:
    p = builders.parameter("p", 0, TensorType(F32, (4,)))
    w = builders.constant(np.arange(4, dtype=np.float32))
    exp, add, multiply = map(scalar_op_named, ("exp", "add", "multiply"))
    root = builders.map_scalar(multiply, builders.map_scalar(add, p, p), w)
    other = builders.map_scalar(multiply, p, builders.map_scalar(exp, builders.map_scalar(exp, w)))
    view = view_of(Function("f", (p,), (root,)), [(root, other)])
    terms = compile_terms(view, CPU, {})
    assert greedy_choice(terms)[view.roots[0]] == 1

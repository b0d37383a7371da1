"""The main job: programs in, compiled functions out, equal to the reference, with the kernels they should have."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tcp_eqsat as tcp
from benchmarks.models import MODELS, Model, attention_block, bert
from tcp_eqsat.compare import compare
from tcp_eqsat.demo import PROGRAMS, bundled
from tcp_eqsat.errors import ShapeMismatch
from tcp_eqsat.lang.dims import symbol
from tcp_eqsat.lang.reference import evaluate
from tcp_eqsat.lang.specialise import substitute_symbols
from tcp_eqsat.pipeline import Compiled

SIZES = {"b": 3, "s": 5}


def assert_equal_to_reference(compiled: Compiled, model: Model, **sizes: int) -> None:
    arrays = model.arrays(seed=1, **sizes)
    names = model.program.main.parameter_names
    given = [a for name, a in zip(names, arrays, strict=True) if name in compiled_names(compiled)]
    (expected,) = evaluate(model.program.main, arrays)
    found = compare(compiled(*given), expected)
    assert found.agrees, found


def compiled_names(compiled: Compiled) -> list[str]:
    return [p.name for p in compiled.code.call.signature.parameters]


@pytest.mark.parametrize("name", MODELS)
def test_every_model_equals_the_reference(name: str) -> None:
    model = MODELS[name]()
    assert_equal_to_reference(tcp.compile(model.program, constants=model.weights), model, **SIZES)
    assert_equal_to_reference(tcp.compile(model.program), model, **SIZES)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("extension", ["mlir", "tcp"])
def test_one_compiled_function_serves_every_batch_size(name: str, extension: str) -> None:
    program = tcp.parse(bundled(f"{name}.{extension}"))
    f = tcp.compile(program)
    module = f.code
    for batch in (0, 1, 2, 7, 33, 128, 1000):
        random = np.random.default_rng(batch)
        arrays = [random.standard_normal([batch if n == x.shape[0] and not isinstance(n, int) else n for n in x.shape])
                  .astype(np.float32) for x in program.main.parameters]
        (expected,) = evaluate(program.main, arrays)
        y = f(*arrays)
        assert y.shape == (batch, 10)
        assert np.abs(y - expected).max(initial=0.0) <= 1e-5
    assert f.code is module


def test_mlp_full_becomes_at_most_four_kernels() -> None:
    f = tcp.compile(tcp.parse(bundled("mlp_full.mlir")))
    assert f.report.kernels <= 4
    assert f.report.kernels < f.report.kernels_before
    assert f.report.cost < f.report.cost_before


def test_attention_becomes_at_most_six_kernels_with_one_projection() -> None:
    model = attention_block()
    f = tcp.compile(model.program, constants=model.weights)
    assert f.report.kernels <= 6
    assert "merge_three_biased_siblings" in f.report.saturation.matches
    # q, k and v are one contraction: of the four projections and two products of attention, four are left
    contractions = sum(x.op.name == "contract" for x in f.optimized.function.nodes())
    assert contractions == 4
    for b, s in ((1, 1), (2, 7), (3, 33)):
        assert_equal_to_reference(f, model, b=b, s=s)


def test_normalisations_are_one_kernel() -> None:
    for name in ("softmax", "layer_norm", "gelu_dense"):
        model = MODELS[name]()
        assert tcp.compile(model.program, constants=model.weights).report.kernels == 1, name


@pytest.mark.parametrize("layers", [1, 12])
def test_bert_encoders_equal_the_reference_without_reshapes(layers: int) -> None:
    model = bert(layers)
    f = tcp.compile(model.program, constants=model.weights)
    assert_equal_to_reference(f, model, b=2, s=9)
    view = f.optimized.saturation.view
    assert not any(node.op.name == "reshape" for nodes in view.classes for node in nodes)
    kernels = [part for part in f.code.llvm.split("\ndefine ") if "@entry(" not in part.split("\n")[0]]
    assert kernels and not any(re.search(r"\b[su](div|rem) ", part) for part in kernels)  # sizes are divided before


def test_attention_of_any_size_in_range_is_one_compiled_function() -> None:
    """b in [1, 4096], s in [1, 512]: corners and random sizes, and a size outside is refused with the range."""
    model = attention_block(16, 2)
    ranges = {"b": symbol("b", 1, 4096), "s": symbol("s", 1, 512)}
    f = tcp.compile(substitute_symbols(model.program.main, ranges))
    code = f.code
    random = np.random.default_rng(4)
    drawn = [tuple(int(np.exp(random.uniform(0, np.log(most)))) for most in (64, 128)) for _ in range(17)]
    for b, s in ((1, 1), (4096, 1), (1, 512), *drawn):
        assert_equal_to_reference(f, model, b=b, s=s)
    assert f.code is code and len({*drawn}) > 12
    for b, s, requirement in ((0, 3, "b in [1, 4096]"), (4097, 1, "b in [1, 4096]"), (2, 513, "s in [1, 512]"),
                              (1, 0, "s in [1, 512]")):
        with pytest.raises(ShapeMismatch, match=re.escape(requirement)) as caught:
            f(*model.arrays(b=b, s=s))
        assert f"got f32[{b}, {s}, 16]" in str(caught.value)


@pytest.mark.parametrize("in_branch", [False, True])
def test_numbers_made_of_sizes_do_not_wrap(in_branch: bool) -> None:
    def volume(x):  # type: ignore[no-untyped-def]
        cube = x.shape[0] * x.shape[0] * x.shape[0]
        if in_branch:
            return tcp.cond(tcp.numpy.sum(x) == 0, lambda: tcp.numpy.size_value(cube, "i64"), lambda: np.int64(-1))
        return tcp.numpy.size_value(cube, "i64")

    program = tcp.trace(volume, "f32[b, 0]")
    for f in (tcp.reference(program), tcp.compile(program)):
        assert int(f(np.zeros((2**20, 0), np.float32))) == 2**60
        with pytest.raises(ShapeMismatch, match=r"size b\*\*3 must be in .*overflow of 64 bits.* b = 2097152"):
            f(np.zeros((2**21, 0), np.float32))


def test_emitted_program_reads_back_and_computes_the_same() -> None:
    from tcp_eqsat.lang.text import parse, write

    model = attention_block()
    best = tcp.optimize(model.program)
    again = parse(write(best.program)).main
    arrays = model.arrays(**SIZES)
    (expected,) = evaluate(model.program.main, arrays)
    assert compare(evaluate(again, arrays)[0], expected).agrees


def test_stages_report_their_time() -> None:
    f = tcp.compile(MODELS["mlp_tanh"]().program)
    seconds = f.report.to_json()["seconds"]
    assert {"refine", "saturate", "extract"} <= set(seconds) and len(seconds) >= 5
    assert all(value >= 0 for value in seconds.values())


def test_frozen_parameters_can_be_replaced() -> None:
    program = tcp.trace(lambda x, w: x @ w, tcp.spec("f32[b, 4]"), tcp.spec("f32[4, 3]"))
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    f = tcp.compile(program, constants={"w": np.ones((4, 3), np.float32)})
    assert np.array_equal(f(x), x @ np.ones((4, 3), np.float32))
    g = f.update(w=np.full((4, 3), 2, np.float32))
    assert np.array_equal(g(x), x @ np.full((4, 3), 2, np.float32))
    with pytest.raises(tcp.errors.UnknownName, match="'v' is not frozen"):
        f.update(v=x)


def test_exact_results_have_the_same_bits_on_every_call() -> None:
    model = MODELS["mlp_full"]()
    f = tcp.compile(model.program)
    arrays = model.arrays(b=129)
    first = f(*arrays)
    assert all(np.array_equal(f(*arrays).view(np.uint32), first.view(np.uint32)) for _ in range(3))


def test_jit_traces_once_for_all_sizes() -> None:
    @tcp.jit
    def dense(x, w, b):
        return tcp.numpy.tanh(x @ w + b)

    for m, k, n in ((2, 3, 4), (5, 7, 6), (2, 2, 2)):
        random = np.random.default_rng(m)
        x, w, b = (random.standard_normal(s).astype(np.float32) for s in ((m, k), (k, n), (n,)))
        assert np.allclose(dense(x, w, b), np.tanh(x @ w + b), atol=1e-5)
    assert len(dense.variants) == 1


def test_values_that_share_their_parts_are_visited_once() -> None:
    """As trees these programs have 2**60 values."""
    def doubled(x):
        for _ in range(60):
            x = x + x
        return x

    def spread(x):
        for _ in range(30):
            x = tcp.numpy.sin(x) * tcp.numpy.cos(x)
        return x

    x = np.linspace(-1, 1, 7, dtype=np.float64)
    assert np.array_equal(tcp.compile(tcp.trace(doubled, "f64[n]"))(x), x * 2.0**60)
    program = tcp.trace(spread, "f64[n]")
    assert compare(tcp.compile(program)(x), tcp.reference(program)(x)).agrees


@pytest.mark.parametrize("interface", [
    {"shape": (2,), "typestr": "<f4", "version": 3, "data": (0, "no flag", 1)}, {"shape": "wide"}, 7])
def test_a_wrong_array_interface_is_a_type_mismatch(interface: object) -> None:
    class Given:
        __array_interface__ = interface

    f = tcp.compile(tcp.trace(lambda x: x + x, "f32[2]"))
    with pytest.raises(tcp.errors.TypeMismatch, match="argument 'x' must be"):
        f(Given())

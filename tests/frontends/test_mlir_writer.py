"""Programs printed as MLIR text and read back: the same function, by the reference."""

from __future__ import annotations

import numpy as np
import programs
import pytest
from hypothesis import given, settings

from benchmarks.models import MODELS
from tcp_eqsat.compare import compare
from tcp_eqsat.errors import Location, ShapeMismatch, TcpError, UnknownName
from tcp_eqsat.frontends import array_api as xp
from tcp_eqsat.frontends.mlir import parse, write
from tcp_eqsat.frontends.mlir.decompose import decomposed
from tcp_eqsat.frontends.mlir.dense_text import dense_text
from tcp_eqsat.frontends.mlir.hlo import HLO
from tcp_eqsat.frontends.tracing import trace
from tcp_eqsat.lang.dims import symbol
from tcp_eqsat.lang.op import OPS
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.ops.attributes import ReduceAttributes
from tcp_eqsat.lang.program import Function, Program, TensorData
from tcp_eqsat.lang.reference import evaluate
from tcp_eqsat.lang.scalar import SCALAR_OPS, function_of
from tcp_eqsat.lang.specialise import substitute_symbols
from tcp_eqsat.lang.types import DTYPES, F32, TensorType

LACKING = {
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "bessel_i0e", "bessel_i1e", "conj", "copysign", "cosh",
    "digamma", "erf", "erf_inv", "erfc", "fma", "hypot", "igamma", "igamma_grad_a", "igammac", "isinf",
    "lgamma", "log10", "log2", "nextafter", "polygamma", "signbit", "sinh", "zeta",
} | {name for name in SCALAR_OPS if name.startswith(("bitcast_", "reduce_precision_"))} | (set(OPS) - {
    "concatenate", "constant", "contract", "iota", "map", "pad", "parameter", "reduce", "reshape", "slice", "view"})
"""Operations that xla_hlo has no operation for, and no others that equal them."""
SPEAKABLE = [name for name in SCALAR_OPS if name not in LACKING]


def text_of(function: Function, **options) -> str:
    return write(Program({function.name: function}), **options)


def assert_reads_back(function: Function, *inputs: tuple[np.ndarray, ...]) -> str:
    """The text, whose function has the parameters of `function` and equals it on the inputs."""
    text = text_of(function)
    again = parse(text, function.name).main
    assert again.parameter_names == function.parameter_names
    for arrays in inputs:
        for found, expected in zip(evaluate(again, arrays), evaluate(function, arrays), strict=True):
            outcome = compare(found, expected)
            assert outcome.agrees, (outcome, text)
    return text


def traced(function, *specs: str) -> Function:
    return trace(function, *specs, name="f").main


# Whole programs


@pytest.mark.parametrize("name", ["mlp_tanh", "mlp_full", "softmax", "layer_norm", "group_norm"])
def test_models_with_a_dynamic_batch(name):
    model = MODELS[name]()
    assert_reads_back(model.program.main, model.arrays(b=3), model.arrays(b=0))


@pytest.mark.parametrize("name", ["attention_block", "group_norm"])
def test_models_of_known_sizes(name):
    model = MODELS[name]()
    sizes = {"b": 2, "s": 3}
    assert_reads_back(substitute_symbols(model.program.main, sizes), model.arrays(**sizes))


@settings(max_examples=100, deadline=None, database=None)
@given(programs.programs(6, symbolic=False, stable=True))
def test_random_programs_of_known_sizes(sample):
    """Only what xla_hlo lacks is refused."""
    try:
        text_of(sample.function)
    except UnknownName as error:
        assert any(error.message == f"xla_hlo has no operation for {name}" for name in LACKING)
    else:
        assert_reads_back(sample.function, sample.arrays(0, "tame"), sample.arrays(1, "tame"))


@settings(max_examples=100, deadline=None, database=None)
@given(programs.programs(6, stable=True))
def test_random_programs_with_symbols(sample):
    """What can't be said is refused, by name; what is said is right."""
    try:
        text_of(sample.function)
    except (UnknownName, ShapeMismatch):
        return
    assert_reads_back(sample.function, sample.arrays(0, "tame"))


@pytest.mark.parametrize("name", ["view", "reduce", "contract", "pad", "slice", "concatenate", "reshape"])
def test_movements_keep_every_bit(name):
    for seed in range(40):
        sample = programs.single_operation(seed, name, symbolic=False)
        if name in ("reduce", "contract"):  # their order is free, and the reference's follows the axes
            assert_reads_back(sample.function, sample.arrays(0, "tame"))
            continue
        arrays = sample.arrays(0, "nasty")
        again = parse(text_of(sample.function)).main
        for found, expected in zip(evaluate(again, arrays), evaluate(sample.function, arrays), strict=True):
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
            np.testing.assert_array_equal(found.reshape(-1).view(np.uint8), expected.reshape(-1).view(np.uint8))


@pytest.mark.parametrize("name", SPEAKABLE)
def test_every_scalar_operation_and_dtype(name):
    """Equal on nasty values, NaN for NaN, to the sign of zero."""
    generator = np.random.default_rng(0)
    for dtypes in programs.signatures(SCALAR_OPS[name]):
        parameters = tuple(builders.parameter(f"x{i}", i, TensorType(d, (9, 11))) for i, d in enumerate(dtypes))
        node = builders.map_function(function_of(SCALAR_OPS[name], *dtypes), *parameters)
        function = Function("f", parameters, (node,))
        arrays = [programs.random_array(generator, d, (9, 11), "nasty") for d in dtypes]
        (found,), (expected,) = evaluate(parse(text_of(function)).main, arrays), evaluate(function, arrays)
        tolerance = 4e-16 if name == "exp2" else 0  # a power of 2, by NumPy's other function
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=0)
        if expected.dtype.kind == "f":
            finite = ~np.isnan(expected)
            np.testing.assert_array_equal(np.signbit(found[finite]), np.signbit(expected[finite]))


def test_every_operation_of_a_decomposed_program_is_one_that_the_reader_knows():
    words = set()
    for seed in range(100):
        sample = programs.random_program(seed, 8, symbolic=False, stable=True)
        try:
            text = text_of(sample.function)
        except UnknownName:
            continue
        words |= {word.rstrip('"(') for word in text.replace('"', " ").split() if word.startswith("xla_hlo.")}
    words = {word.removeprefix("xla_hlo.") for word in words} - {"return"}
    assert words <= set(HLO)
    assert {"broadcast", "broadcast_in_dim", "concatenate", "constant", "dot_general", "iota", "pad", "reduce",
            "reshape", "slice", "transpose", "compare", "convert"} <= words


# Forms


def test_the_legacy_form():
    function = traced(lambda x, w: xp.max(xp.tanh(x @ w) * 0.5, -1), "f32[b, 16]", "f32[16, 10]")
    assert text_of(function, variables=["w"]) == """\
func @f(%x: tensor<?x16xf32>) -> tensor<?xf32> {
  %0 = flow.variable.load @w : tensor<16x10xf32>
  %1 = "xla_hlo.dot"(%x, %0) : (tensor<?x16xf32>, tensor<16x10xf32>) -> tensor<?x10xf32>
  %2 = "xla_hlo.tanh"(%1) : (tensor<?x10xf32>) -> tensor<?x10xf32>
  %3 = xla_hlo.constant dense<5.000000e-01> : tensor<f32>
  %4 = "xla_hlo.broadcast"(%3) {broadcast_sizes = dense<[-1, 10]> : tensor<2xi64>} : (tensor<f32>) -> tensor<?x10xf32>
  %5 = xla_hlo.mul %2, %4 : tensor<?x10xf32>
  %6 = xla_hlo.constant dense<0xFF800000> : tensor<f32>
  %10 = "xla_hlo.reduce"(%5, %6) ( {
  ^bb0(%7: tensor<f32>, %8: tensor<f32>):  // no predecessors
    %9 = xla_hlo.max %7, %8 : tensor<f32>
    "xla_hlo.return"(%9) : (tensor<f32>) -> ()
  }) {dimensions = dense<1> : tensor<1xi64>} : (tensor<?x10xf32>, tensor<f32>) -> tensor<?xf32>
  return %10 : tensor<?xf32>
}
"""


def test_variables_follow_the_arguments():
    function = traced(lambda w, x: x @ w, "f32[16, 10]", "f32[b, 16]")
    assert str(parse(text_of(function, variables=["w"])).main) == "f(x: f32[b, 16], w: f32[16, 10]) -> f32[b, 10]"
    with pytest.raises(UnknownName, match="no function has a parameter 'v'"):
        text_of(function, variables=["v"])


def test_unused_parameters_and_several_results():
    function = traced(lambda x, unused, y: (x + y, y, x), "f32[b]", "i8[]", "f32[b]")
    assert str(parse(text_of(function, variables=["unused"])).main) == (
        "f(x: f32[b], y: f32[b], unused: i8[]) -> f32[b], f32[b], f32[b]")


def test_several_functions():
    f, g = traced(lambda x: xp.exp(x), "f32[b]"), trace(lambda x: xp.sin(x), "f64[2, 3]", name="g").main
    again = parse(write(Program({"f": f, "g": g})))
    assert [str(x) for x in again.functions.values()] == ["f(x: f32[b]) -> f32[b]", "g(x: f64[2, 3]) -> f64[2, 3]"]


@pytest.mark.parametrize("name", ["a b", 'quoted "q" \\', "π", "line\nbreak", "1st", "", "plain.name$1"])
def test_odd_names_of_functions_and_variables(name):
    x = builders.parameter(name, 0, TensorType(F32, (2,)))
    function = Function(name or "f", (x,), (x,))
    again = parse(text_of(function, variables=[name] if name else [])).main
    assert again.name == function.name
    assert again.parameter_names == ((name,) if name else ("arg0",))


def test_names_of_values_avoid_those_of_arguments():
    x, y = (builders.parameter(n, i, TensorType(F32, (2,))) for i, n in enumerate(("1", "0")))
    function = Function("f", (x, y), ((xp.tanh(x) + y).node,))
    text = assert_reads_back(function, (np.ones(2, np.float32), np.zeros(2, np.float32)))
    assert "%2 = " in text and "%3 = " in text


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_literals_read_back_to_the_same_bits(dtype):
    special = programs.special_values(dtype)
    generator = np.random.default_rng(0)
    large = programs.random_array(generator, dtype, (7, 30))
    for array in (special, special[:1].reshape(()), special[:6].reshape(special[:6].size // 2, 1, 2), large,
                  special[:0], special[:0].reshape(3, 0, 2), np.broadcast_to(special[-1], (2, 3))):
        node = builders.constant(array)
        (found,) = evaluate(parse(text_of(Function("f", (), (node,)))).main, [])
        assert found.dtype == array.dtype and found.shape == array.shape
        assert np.ascontiguousarray(found).tobytes() == node.attributes.data.array.tobytes()


def test_literals_are_short():
    cases = {0.5: "5.000000e-01", 0.1: "1.000000e-01", 1 / 3: "3.333333433e-01"}
    for value, text in (cases | {np.nan: "0x7FC00000", -np.inf: "0xFF800000"}).items():
        assert dense_text(TensorData(np.float32(value))) == f"dense<{text}> : tensor<f32>"
    assert dense_text(TensorData(np.zeros((2, 2), np.int8))) == "dense<0> : tensor<2x2xi8>"
    assert dense_text(TensorData(np.arange(100, dtype=np.uint8))).startswith('dense<"0x000102')


def test_parts_of_dynamic_tensors_are_cut_by_negative_padding():
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    text = assert_reads_back(traced(lambda x: x[:, 1:], "f32[b, 3]"), (x,))
    assert "edge_padding_low = dense<[0, -1]>" in text


def test_interned_values_are_written_once():
    text = text_of(traced(lambda x: (x * 0.5 + 0.5, xp.exp(x * 0.5)), "f32[b]"))
    assert text.count("xla_hlo.mul") == text.count("xla_hlo.constant") == text.count("xla_hlo.broadcast") == 1


def test_locations_survive_decomposition():
    x = builders.parameter("x", 0, TensorType(F32, (2,)))
    node = xp.square(x).node
    where = Location("a.tcp", 3, 4)
    function = decomposed(Function("f", (x,), (node,), locations={node: where}))
    assert function.locations[function.results[0]] == where


# Refusals


def test_operations_that_the_dialect_lacks_are_named_with_their_place():
    x = builders.parameter("x", 0, TensorType(F32, (2,)))
    node = xp.erf(x).node
    where = Location("a.tcp", 3, 4)
    with pytest.raises(UnknownName, match="xla_hlo has no operation for erf") as caught:
        text_of(Function("f", (x,), (node,), locations={node: where}))
    assert caught.value.where == where


@pytest.mark.parametrize(("make", "message"), [
    (lambda x: x.reshape((*x.shape[:2], 2, 2)), r"reshape requires a result with at most one .* f32\[b, s, 4\] to"),
    (lambda x: x[:, :, ::2], r"slice requires bounds that are numbers, got starts \[0, 0, 0\]"),
    (lambda x: xp.sum(xp.full(x.shape, 2.0), 0), "requires sizes that MLIR text does not state"),
])
def test_sizes_that_the_text_can_not_state(make, message):
    with pytest.raises(ShapeMismatch, match=message):
        text_of(traced(make, "f32[b, s, 4]"))


def test_padding_by_a_symbol():
    b = symbol("b")
    x, value = builders.parameter("x", 0, TensorType(F32, (b,))), builders.scalar_constant(0, F32)
    with pytest.raises(ShapeMismatch, match=r"xla_hlo.pad requires amounts that are numbers, got \[b\]"):
        text_of(Function("f", (x,), (builders.pad(x, value, (b,), (0,)),)))


def test_every_refusal_is_an_error_of_ours():
    for seed in range(150):
        sample = programs.random_program(seed, 6)
        try:
            text_of(sample.function)
        except TcpError:
            continue


def test_reductions_with_axes_of_size_one_and_repeated_results():
    x = builders.parameter("x", 0, TensorType(F32, (1, 3, 2)))
    attributes = ReduceAttributes(SCALAR_OPS["add"], (-1, 2, 0), (2, 4, 3), 2)
    node = builders.reduce(SCALAR_OPS["add"], x, attributes)
    array = np.arange(6, dtype=np.float32).reshape(1, 3, 2)
    assert_reads_back(Function("f", (x,), (node,)), (array,))

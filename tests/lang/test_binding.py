"""Symbols from the shapes of arrays, and programs with symbols or parameters fixed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from programs import Sample, programs

from benchmarks.models import attention_block, mlp_full
from tcp_eqsat.errors import ShapeMismatch, TypeMismatch, UnknownName
from tcp_eqsat.lang import text
from tcp_eqsat.lang.binding import bind_symbols, describe_requirement
from tcp_eqsat.lang.dims import maximum, minimum, symbol
from tcp_eqsat.lang.program import Function
from tcp_eqsat.lang.reference import evaluate, reference
from tcp_eqsat.lang.specialise import freeze, substitute_symbols
from tcp_eqsat.lang.types import F32, F64, TensorType

B, S, C, H = symbol("b", 0, 20), symbol("s", 1, 64), symbol("c", 0, 9), symbol("h", 8, 64, 8)
LONG = symbol("seq.len", 3, 9)


def bind(*pairs):
    """Bind sizes to extents: one argument of rank 1 each."""
    types = [TensorType(F32, (size,)) for size, _ in pairs]
    arrays = [np.zeros((extent,), np.float32) for _, extent in pairs]
    return bind_symbols([f"x{n}" for n in range(len(pairs))], types, arrays)


@pytest.mark.parametrize(("pairs", "expected"), [
    ([(B, 5)], {"b": 5}), ([(B, 0)], {"b": 0}), ([(3, 3)], {}), ([], {}), ([(LONG, 4)], {"seq.len": 4}),
    ([(S + 1, 5)], {"s": 4}), ([(2 * B, 6)], {"b": 3}), ([(S * 3 - 2, 10)], {"s": 4}), ([(20 - B, 5)], {"b": 15}),
    ([(H // 8, 3)], {"h": 24}), ([(H // 4 + 1, 5)], {"h": 16}),
    ([(B * S, 12), (B, 3)], {"b": 3, "s": 4}), ([(B + S, 7), (S + C, 6), (2 * C, 4)], {"c": 2, "s": 4, "b": 3}),
    ([(minimum(B, 5), 5), (B, 9)], {"b": 9}), ([(maximum(B, S), 7), (S, 2), (B, 7)], {"b": 7, "s": 2}),
    ([(B * B, 9), (B, 3)], {"b": 3}), ([(B // 2, 2), (B, 5)], {"b": 5}),
    ([(B * S, 0), (B, 0), (S, 2)], {"b": 0, "s": 2}),
])
def test_symbols_are_solved_in_any_order(pairs, expected):
    for order in itertools.permutations(pairs):
        assert bind(*order) == expected


@pytest.mark.parametrize(("pairs", "message"), [
    ([(B, 21)], r"argument 'x0' must be f32\[b\] with b in \[0, 20\], got f32\[21\] \(axis 0\)"),
    ([(S, 0)], r"s in \[1, 64\], got f32\[0\]"),
    ([(H, 12)], r"h in \[8, 64\], h % 8 == 0, got f32\[12\]"),
    ([(3, 4)], r"argument 'x0' must be f32\[3\], got f32\[4\]"),
    ([(B, 4), (B, 5)], r"argument 'x1' must be f32\[b\] .*, got f32\[5\]"),
    ([(2 * B, 5)], r"must be f32\[2\*b\]"),
    ([(S + 1, 1)], r"must be f32\[s \+ 1\]"),
    ([(B * S, 7), (B, 3)], r"argument 'x0' must be f32\[b\*s\]"),
    ([(B * S, 3), (B, 0)], r"argument 'x0' of type f32\[b\*s\] does not tell s: axis 0 of extent 3 is b\*s"),
    ([(B * B, 9)], r"does not tell b"), ([(B // 2, 2)], r"does not tell b"), ([(minimum(B, 5), 3)], r"does not tell b"),
    ([(B + S, 7)], r"does not tell b and s"),
    ([(minimum(B, 5), 4), (B, 9)], r"argument 'x0' must be f32\[min"),
])
def test_sizes_that_contradict_or_do_not_tell(pairs, message):
    with pytest.raises(ShapeMismatch, match=message):
        bind(*pairs)


@pytest.mark.parametrize(("array", "message"), [
    (np.zeros((8, 16)), r"argument 'x' must be f32\[b, 16\] with b in \[0, 20\], got f64\[8, 16\]"),
    (np.zeros(16, np.float32), r"got f32\[16\]"), (np.zeros((8, 16), np.int32), r"got i32\[8, 16\]"),
    (np.zeros((8, 16), np.float16), r"got f16\[8, 16\]"),
    (np.zeros((8, 16), "M8[s]"), r"got datetime64\[s\]\[8, 16\]"), (3.0, r"got f64\[\]"), ("text", "got <U4"),
])
def test_wrong_dtypes_and_ranks(array, message):
    with pytest.raises(TypeMismatch, match=message):
        bind_symbols(["x"], [TensorType(F32, (B, 16))], [array])


def test_requirements_in_words():
    assert describe_requirement(TensorType(F64, (2,))) == "f64[2]"
    assert describe_requirement(TensorType(F32, (B, S, H))) == (
        "f32[b, s, h] with b in [0, 20], h in [8, 64], h % 8 == 0, s in [1, 64]")


@settings(max_examples=150, deadline=None)
@given(programs(5))
def test_random_shapes_give_their_symbols_back(sample):
    function = sample.function
    types = [x.tensor_type for x in function.parameters]
    for variant in range(3):
        found = bind_symbols(function.parameter_names, types, sample.arrays(variant, "tame"))
        assert found == sample.sizes(variant)


# Specialised programs


def same(x, y):
    return x.dtype == y.dtype and x.shape == y.shape and np.array_equal(x, y, equal_nan=True)


def check_symbols(sample: Sample) -> None:
    function = sample.function
    sizes = sample.sizes(1)
    fixed = substitute_symbols(function, sizes)
    assert fixed.symbols == () and fixed.parameter_names == function.parameter_names
    arrays = sample.arrays(1, "tame")
    assert all(map(same, evaluate(fixed, arrays), evaluate(function, arrays)))


@settings(max_examples=200, deadline=None)
@given(programs(7))
def test_symbols_fixed_to_sizes_change_no_value(sample):
    check_symbols(sample)


def tell_their_sizes(parameters, arrays):
    """Whether the arrays alone decide all symbols of their types, which freezing requires."""
    try:
        bind_symbols([x.attributes.name for x in parameters], [x.tensor_type for x in parameters], arrays)
    except ShapeMismatch as error:
        assert "does not tell" in str(error)
        return False
    return True


@settings(max_examples=200, deadline=None)
@given(programs(7))
def test_parameters_frozen_to_arrays_change_no_value(sample):
    function = sample.function
    arrays = sample.arrays(2, "nasty")
    frozen_names = function.parameter_names[::2]
    assume(tell_their_sizes(function.parameters[::2], arrays[::2]))
    frozen = freeze(function, dict(zip(frozen_names, arrays[::2], strict=True)))
    assert frozen.parameter_names == function.parameter_names[1::2]
    assert [x.attributes.index for x in frozen.parameters] == list(range(len(frozen.parameters)))
    assert all(map(same, evaluate(frozen, arrays[1::2]), evaluate(function, arrays)))


def test_freezing_weights_of_a_model():
    model = mlp_full()
    frozen = freeze(model.program.main, model.weights)
    assert frozen.parameter_names == ("x",) and [s.name for s in frozen.symbols] == ["b"]
    arrays = model.arrays(b=3)
    np.testing.assert_array_equal(evaluate(frozen, arrays[:1])[0], evaluate(model.program.main, arrays)[0])
    assert freeze(model.program.main, {}) is model.program.main


def test_a_frozen_shape_decides_its_symbols():
    function = text.parse("""tcp 1
func @f(%x: f32[b, n], %w: f32[n]) -> f32[b, n] {
  %0 = view %w[j] -> [i, j]: f32[b, n]
  %y = add %x, %0: f32[b, n]
  return %y
}""").main
    frozen = freeze(function, {"w": np.arange(3, dtype=np.float32)})
    assert str(frozen) == "f(x: f32[b, 3]) -> f32[b, 3]"
    assert set(frozen.names.values()) >= {"x", "y"} and frozen.locations[frozen.results[0]].line == 4
    assert evaluate(frozen, (np.zeros((1, 3), np.float32),))[0].tolist() == [[0, 1, 2]]


GUARDED = """tcp 1
func @f(%x: f32[b], %y: f32[c]) -> f32[b] where b == 2*c { return %x }"""


def test_guards_are_kept_decided_or_refused():
    function = text.parse(GUARDED).main
    assert len(substitute_symbols(function, {"b": 4}).guards) == 1
    assert substitute_symbols(function, {"b": 4, "c": 2}).guards == ()
    with pytest.raises(ShapeMismatch, match=r"f requires b == 2\*c, got \{'b': 4, 'c': 3\}"):
        substitute_symbols(function, {"b": 4, "c": 3})
    with pytest.raises(ShapeMismatch, match=r"f requires b == 2\*c"):
        evaluate(function, (np.zeros(3, np.float32), np.zeros(1, np.float32)))


def test_symbols_may_become_other_symbols():
    function = attention_block(8, 2).program.main
    renamed = substitute_symbols(function, {"b": symbol("n", 1, 4), "s": symbol("n", 1, 4) * 2})
    assert str(renamed.parameters[0].type) == "f32[n, 2*n, 8]"
    assert isinstance(renamed, Function) and [s.name for s in renamed.symbols] == ["n"]


@pytest.mark.parametrize(("constants", "error", "message"), [
    ({"nope": np.zeros(1)}, UnknownName, "mlp_full has no parameter 'nope'; its parameters are x, h1_weights"),
    ({"h1_bias": np.zeros(16)}, TypeMismatch, r"'h1_bias' must be f32\[16\], got f64\[16\]"),
    ({"h1_bias": np.zeros(15, np.float32)}, ShapeMismatch, r"'h1_bias' must be f32\[16\], got f32\[15\]"),
])
def test_constants_that_do_not_fit(constants, error, message):
    with pytest.raises(error, match=message):
        freeze(mlp_full().program.main, constants)


def test_the_reference_as_a_callable():
    one = text.parse("tcp 1\nfunc @one(%x: f32[2]) -> f32[2] { return %x }").main
    two = text.parse("tcp 1\nfunc @two(%x: f32[2]) -> (f32[2], f32[2]) { return %x, %x }").main
    x = np.ones(2, np.float32)
    found = reference(one)(x)
    assert isinstance(found, np.ndarray) and found is not x and reference(one).__name__ == "one"
    assert isinstance(reference(two)(x), tuple)
    with pytest.raises(TypeMismatch, match="'x' must be"):
        reference(one)(np.ones(2))
    with pytest.raises(Exception, match="one requires 1 arrays, got 2"):
        reference(one)(x, x)

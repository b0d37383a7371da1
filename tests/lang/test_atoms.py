"""Axes refined to atoms: the same values, no regular reshape left, everything recorded."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from programs import Sample, programs

from benchmarks.models import MODELS, attention_block, bert, group_norm
from tcp_eqsat.errors import Location
from tcp_eqsat.lang import text
from tcp_eqsat.lang.atoms import match_axes, refine_axes
from tcp_eqsat.lang.dims import symbol
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.ops.structure import expand
from tcp_eqsat.lang.program import Function, Node, Program
from tcp_eqsat.lang.reference import evaluate
from tcp_eqsat.lang.scalar import SCALAR_OPS
from tcp_eqsat.lang.type_text import parse_type
from tcp_eqsat.lang.types import F32, I32, TensorType

SYMBOLS = {"b": symbol("b"), "s": symbol("s", 1, 64), "h": symbol("h", 0, 64, 8)}
B, S, H = SYMBOLS.values()
MOVING = ("reshape", "reshape", "reshape", "view", "map", "reduce", "contract", "slice", "pad", "concatenate", "iota",
          "constant")


def of(type_: str, name: str = "x", index: int = 0) -> Node:
    return builders.parameter(name, index, parse_type(type_, SYMBOLS))


def function_of(*results: Node) -> Function:
    parameters = {x for root in results for x in Function("f", (), (root,)).nodes() if x.op.name == "parameter"}
    return Function("main", tuple(sorted(parameters, key=lambda x: x.attributes.index)), results)


def operations(function: Function) -> list[str]:
    return [x.op.name for x in function.nodes()]


def without_composites(function: Function) -> Function:
    values = expand(function.results)
    return Function(function.name, function.parameters, tuple(values[x] for x in function.results),
                    function.names, function.locations, function.guards)


def same(x: np.ndarray, y: np.ndarray) -> bool:
    work = np.complex128 if x.dtype.kind == "c" else np.float64
    return x.dtype == y.dtype and x.shape == y.shape and np.allclose(
        x.astype(work), y.astype(work), rtol=1e-5, atol=1e-5, equal_nan=True)


def assert_refined(function: Function, arrays: tuple[np.ndarray, ...]) -> Function:
    """The refined function computes the same on reshaped arrays, and restoring it gives the original."""
    refinement = refine_axes(function)
    with np.errstate(all="ignore"):
        expected = evaluate(function, arrays)
        restored = refinement.restored()
        assert restored.parameters == function.parameters
        assert [x.type for x in restored.results] == [x.type for x in function.results]
        for found, wanted in zip(evaluate(restored, arrays), expected, strict=True):
            assert same(found, wanted)
    names = [x.attributes.name for x in refinement.refined.parameters]
    assert names == list(function.parameter_names)
    assert [x.attributes.index for x in refinement.refined.parameters] == list(range(len(names)))
    assert [x.dtype for x in refinement.refined.results] == [x.dtype for x in function.results]
    return refinement.refined


@pytest.mark.parametrize("name", MODELS)
def test_models_keep_their_values(name):
    model = MODELS[name]() if name not in ("softmax", "layer_norm", "gelu_dense") else MODELS[name](16)
    for b, s in ((2, 3), (1, 1), (0, 2)):
        assert_refined(model.program.main, model.arrays(b=b, s=s))


@pytest.mark.parametrize("model", [attention_block(), bert(1), bert(2, 32, 2), group_norm()], ids=lambda m: m.name)
def test_reshapes_of_models_vanish(model):
    assert "reshape" in operations(model.program.main)
    refined = refine_axes(model.program.main).refined
    assert "reshape" not in operations(refined)
    assert len(operations(refined)) <= len(operations(model.program.main))


def test_a_large_bert_is_refined_in_linear_work():
    counts = []
    for layers in (1, 4):
        function = bert(layers, 16, 2).program.main
        refined = refine_axes(function).refined
        assert "reshape" not in operations(refined)
        counts.append(len(operations(refined)))
    assert counts[1] < 4.2 * counts[0]


def check(sample: Sample) -> None:
    function = without_composites(sample.function)
    for variant in range(2):
        assert_refined(function, sample.arrays(variant, "tame"))


@settings(max_examples=300, deadline=None)
@given(programs(8, names=MOVING, stable=True))
def test_random_programs_with_reshapes_keep_their_values(sample):
    check(sample)


@settings(max_examples=200, deadline=None)
@given(programs(8, stable=True))
def test_random_programs_keep_their_values(sample):
    check(sample)


@settings(max_examples=200, deadline=None)
@given(programs(8, names=MOVING))
def test_refining_twice_changes_nothing_more(sample):
    once = refine_axes(without_composites(sample.function)).refined
    assert operations(refine_axes(once).refined).count("reshape") <= operations(once).count("reshape")


# One thing at a time


def test_a_head_split_is_an_axis_pair_everywhere():
    x, w = of("f32[b, s, 64]"), of("f32[64, 64]", "w", 1)
    y = builders.contract(x, w, (0, 1, 3), (3, 2), (B, S, 64, 64), 3)
    heads = builders.reshape(y, (B, S, 4, 16))
    refined = refine_axes(function_of(heads)).refined
    assert operations(refined) == ["parameter", "parameter", "contract"]
    assert [str(p.type) for p in refined.parameters] == ["f32[b, s, 64]", "f32[64, 4, 16]"]


def test_symbolic_axes_merge():
    x, w = of("f32[b, s, 8]"), of("f32[8, 3]", "w", 1)
    flat = builders.reshape(x, (B * S, 8))
    y = builders.contract(flat, w, (0, 2), (2, 1), (B * S, 3, 8), 2)
    back = builders.reshape(y, (B, S, 3))
    function = function_of(back)
    refined = assert_refined(function, (np.ones((2, 3, 8), np.float32), np.ones((8, 3), np.float32)))
    assert operations(refined) == ["parameter", "parameter", "contract"]


def test_a_flattened_result_keeps_its_atoms():
    x = of("f32[b, s, 8]")
    refined = assert_refined(
        function_of(builders.map_scalar(SCALAR_OPS["exp"], builders.reshape(x, (B * S * 8,)))),
        (np.ones((2, 3, 8), np.float32),))
    assert operations(refined) == ["parameter", "map"] and refined.results[0].shape == (B, S, 8)


def test_symbols_with_a_divisor_split():
    x = of("f32[h, 2]")
    blocks = builders.reshape(x, (H // 8, 8, 2))
    total = builders.reduce_axes(SCALAR_OPS["add"], blocks, (1,))
    refined = assert_refined(function_of(total), (np.arange(32, dtype=np.float32).reshape(16, 2),))
    assert "reshape" not in operations(refined) and refined.parameters[0].shape == (H // 8, 8, 2)


@pytest.mark.parametrize(("before", "after"), [
    ((6, 4), (4, 6)), ((2, 3), (3, 2)), ((4, 9), (6, 6)), ((0, 3), (0, 2)), ((0,), (2, 0)),
])
def test_irregular_reshapes_stay(before, after):
    x = builders.parameter("x", 0, TensorType(F32, before))
    y = builders.map_scalar(SCALAR_OPS["exp"], builders.reshape(x, after))
    array = np.arange(np.prod(before), dtype=np.float32).reshape(before)
    refined = assert_refined(function_of(y), (array,))
    assert operations(refined).count("reshape") == 1


def test_an_irregular_reshape_beside_regular_ones():
    x = of("f32[6, 8]")
    heads = builders.map_scalar(SCALAR_OPS["exp"], builders.reshape(x, (6, 2, 4)))
    odd = builders.map_scalar(SCALAR_OPS["exp"], builders.reshape(x, (16, 3)))
    refined = assert_refined(function_of(heads, odd), (np.arange(48, dtype=np.float32).reshape(6, 8),))
    assert operations(refined).count("reshape") == 1


def test_two_splits_that_fit_and_two_that_do_not():
    x = of("f32[24]")
    exp = SCALAR_OPS["exp"]
    array = (np.arange(24, dtype=np.float32) / 10,)
    fits = [builders.map_scalar(exp, builders.reshape(x, shape)) for shape in ((4, 6), (2, 12), (4, 2, 3))]
    refined = assert_refined(function_of(*fits), array)
    assert "reshape" not in operations(refined) and refined.parameters[0].shape == (2, 2, 2, 3)
    clash = [builders.map_scalar(exp, builders.reshape(x, shape)) for shape in ((4, 6), (3, 8))]
    assert operations(assert_refined(function_of(*clash), array)).count("reshape") == 1


def test_unit_axes_come_and_go():
    x = of("f32[2, 1, 3]")
    y = builders.reshape(builders.map_scalar(SCALAR_OPS["exp"], builders.reshape(x, (1, 2, 3, 1))), (6, 1))
    refined = assert_refined(function_of(y), (np.arange(6, dtype=np.float32).reshape(2, 1, 3),))
    assert "reshape" not in operations(refined)


@pytest.mark.parametrize(("start", "limit", "stride", "left"), [
    (8, 16, 1, 0), (0, 16, 1, 0), (4, 24, 1, 0), (1, 9, 1, 2), (0, 24, 2, 2), (0, 0, 1, 0), (24, 24, 1, 0),
    (0, 4, 1, 0), (20, 24, 1, 0),
])
def test_slices_of_split_axes(start, limit, stride, left):
    """Whole blocks stay blocks; others are taken from the axis as it was."""
    x = of("f32[24, 2]")
    heads = builders.map_scalar(SCALAR_OPS["exp"], builders.reshape(x, (6, 4, 2)))
    part = builders.slice_(x, (start, 0), (limit, 2), (stride, 1))
    array = np.arange(48, dtype=np.float32).reshape(24, 2) / 50
    refined = assert_refined(function_of(heads, part), (array,))
    assert operations(refined).count("reshape") <= left


def test_slices_of_merged_projections_keep_the_heads():
    """q, k and v side by side: each third is split into heads."""
    x, w = of("f32[b, 8]"), of("f32[8, 48]", "w", 1)
    qkv = builders.dot_general(x, w, ((1,), (0,)))
    parts = [builders.reshape(builders.slice_(qkv, (0, 16 * n), (B, 16 * (n + 1))), (B, 4, 4)) for n in range(3)]
    refined = assert_refined(
        function_of(*parts), (np.ones((2, 8), np.float32), np.arange(384, dtype=np.float32).reshape(8, 48)))
    assert "reshape" not in operations(refined)


@pytest.mark.parametrize(("widths", "left"), [((8, 16), 0), ((4, 4), 0), ((4, 8), 0), ((0, 4), 0), ((3, 5), 3)])
def test_concatenations_on_split_axes(widths, left):
    x, y = (of(f"f32[2, {n}]", name, i) for i, (n, name) in enumerate(zip(widths, "xy", strict=True)))
    both = builders.concatenate((x, y), 1)
    heads = builders.map_scalar(SCALAR_OPS["exp"], builders.reshape(both, (2, sum(widths) // 4, 4)))
    arrays = tuple(np.arange(2 * n, dtype=np.float32).reshape(2, n) / 10 for n in widths)
    assert operations(assert_refined(function_of(heads), arrays)).count("reshape") <= left


@pytest.mark.parametrize("size", [4, 8])
@pytest.mark.parametrize(("low", "high", "left"), [(4, 8, 0), (0, 4, 0), (1, 3, 3)])
def test_pads_on_split_axes(size, low, high, left):
    x = of(f"f32[{size}]")
    padded = builders.pad(x, builders.scalar_constant(2, F32), (low,), (high,))
    heads = builders.map_scalar(SCALAR_OPS["exp"], builders.reshape(padded, ((size + low + high) // 4, 4)))
    refined = assert_refined(function_of(heads), (np.arange(size, dtype=np.float32) / 10,))
    assert operations(refined).count("reshape") <= left


@pytest.mark.parametrize("dtype", ["f32", "i32", "i64", "u8", "f64"])
def test_iota_on_split_axes(dtype):
    x = of(f"{dtype}[300]")
    y = builders.map_scalar(SCALAR_OPS["add"], x, builders.iota(x.dtype, (300,), 0))
    refined = assert_refined(function_of(builders.reshape(y, (3, 4, 25))), (np.zeros(300, x.dtype.numpy),))
    assert "reshape" not in operations(refined)


def test_iota_over_symbolic_atoms():
    ramp = builders.iota(I32, (B * S,), 0)
    x = of("i32[b, s]")
    y = builders.map_scalar(SCALAR_OPS["add"], x, builders.reshape(ramp, (B, S)))
    assert_refined(function_of(y), (np.zeros((3, 4), np.int32),))


def test_constants_take_their_atoms():
    x = of("f32[2, 12]")
    c = builders.constant(np.arange(24, dtype=np.float32).reshape(2, 12))
    y = builders.reshape(builders.map_scalar(SCALAR_OPS["add"], x, c), (2, 3, 4))
    refined = assert_refined(function_of(y), (np.zeros((2, 12), np.float32),))
    assert operations(refined) == ["parameter", "constant", "map"]


def test_transposed_heads_merge_back():
    x = of("f32[b, s, 12]")
    heads = builders.transpose(builders.reshape(x, (B, S, 3, 4)), (0, 2, 1, 3))
    back = builders.reshape(builders.transpose(heads, (0, 2, 1, 3)), (B, S, 12))
    refined = assert_refined(function_of(back), (np.arange(72, dtype=np.float32).reshape(2, 3, 12),))
    assert "reshape" not in operations(refined)


def test_a_transpose_in_between_is_irregular_but_right():
    x = of("f32[b, s, 12]")
    heads = builders.transpose(builders.reshape(x, (B, S, 3, 4)), (0, 2, 1, 3))
    mixed = builders.reshape(heads, (B, S, 12))
    assert_refined(function_of(mixed), (np.arange(72, dtype=np.float32).reshape(2, 3, 12),))


def test_names_places_and_guards_survive():
    program = text.parse("""tcp 1
func @f(%x: f32[b, 12], %n: i32[c]) -> f32[b, 3, 4] where b == c {
  %hidden = exp %x: f32[b, 12]
  %heads = reshape %hidden: f32[b, 3, 4]
  return %heads
}""")
    function = program.main
    refinement = refine_axes(function)
    refined = refinement.refined
    assert refined.name == "f" and refined.guards == function.guards
    assert set(refined.names.values()) >= {"x", "n", "hidden"}
    (root,) = refined.results
    assert refined.locations[root] == Location("<text>", 3, 3, 7)
    assert refinement.parameter_types == tuple(x.type for x in function.parameters)
    assert refinement.result_types == tuple(x.type for x in function.results)
    restored = refinement.restored()
    assert restored.guards == function.guards and restored.names == function.names
    assert text.parse(text.write(Program({"f": refined}))).main.results == refined.results


def test_a_function_without_reshapes_is_left_alone():
    function = MODELS["mlp_full"]().program.main
    refined = refine_axes(function).refined
    assert refined.results == function.results and refined.parameters == function.parameters


@pytest.mark.parametrize(("before", "after", "groups"), [
    ((6, 4), (6, 4), [([0], [0]), ([1], [1])]),
    ((6, 4), (24,), [([0, 1], [0])]),
    ((24,), (2, 3, 4), [([0], [0, 1, 2])]),
    ((2, 1, 3), (6, 1), [([0, 2], [0])]),
    ((4, 6), (6, 4), [([0, 1], [0, 1])]),
    ((B, S, 4), (B * S, 2, 2), [([0, 1], [0]), ([2], [1, 2])]),
    ((B, S), (S, B), [([0, 1], [0, 1])]),
    ((B * S,), (S, B), [([0], [0, 1])]),
    ((1, 1), (), []),
    ((0, 2), (2, 0), None),
])
def test_axes_of_a_reshape_are_matched_in_groups(before, after, groups):
    assert match_axes(before, after) == groups

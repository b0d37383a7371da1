"""Compiled plans against the NumPy reference of plans: many forms of kernels, sizes and targets."""

from __future__ import annotations

import math

import numpy as np
import pytest
from plans import (
    I,
    J,
    K,
    L,
    M,
    PlanWriter,
    apply,
    choose,
    fold,
    number,
    position,
    random_array,
    single,
    tensor,
)

from tcp_eqsat.codegen.compile import CompiledFunction, compile_plan
from tcp_eqsat.codegen.target import CpuTarget, available_targets, cpu_target
from tcp_eqsat.lang.dims import symbol
from tcp_eqsat.lang.op import bind_sizes
from tcp_eqsat.lang.plan import Plan, Role
from tcp_eqsat.lang.plan_reference import evaluate_plan
from tcp_eqsat.lang.pointful import axis_index
from tcp_eqsat.lang.types import DTYPES

B, S = symbol("b"), symbol("s")
TARGETS = available_targets()


def arrays_for(plan: Plan, bindings: dict[str, int], seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [random_array(p.type.dtype, bind_sizes(p.type, bindings).shape, rng) for p in plan.parameters]


def check(plan: Plan, *bindings: dict[str, int], tolerance: float = 0.0,
          target: str | CpuTarget = "native") -> CompiledFunction:
    """One compiled function gives what the reference gives, at all sizes."""
    function = compile_plan(plan, cpu_target(target) if isinstance(target, str) else target)
    for sizes in bindings or ({},):
        arrays = arrays_for(plan, sizes)
        expected = evaluate_plan(plan, arrays, sizes)
        found = function(*arrays)
        for x, y in zip(found if isinstance(found, tuple) else (found,), expected, strict=True):
            assert x.dtype == y.dtype and x.shape == y.shape
            if tolerance:
                np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance, err_msg=str(sizes))
            else:
                np.testing.assert_array_equal(x, y, err_msg=str(sizes))
    return function


SIZES = [{"b": n} for n in (0, 1, 2, 7, 16, 33, 130)]


COMPUTED = [name for name, dtype in DTYPES.items() if not dtype.storage_only]


def pointwise(dtype: str = "f32") -> Plan:
    return single(
        {"x": tensor(dtype, B, 16), "c": tensor(dtype, 16)},
        ("y", tensor(dtype, B, 16), lambda at: apply(
            "add", apply("multiply", at("x", I, J), number(2, dtype)), at("c", J))))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [d for d in COMPUTED if d != "bool"])
def test_pointwise_in_every_dtype(dtype: str, target: str) -> None:
    check(pointwise(dtype), *SIZES, target=target)


@pytest.mark.parametrize("target", TARGETS)
def test_flat_with_a_ragged_tail(target: str) -> None:
    plan = single({"x": tensor("f32", B, 3), "y": tensor("f32", B, 3)},
                  ("z", tensor("f32", B, 3), lambda at: apply("subtract", at("x", I, J), at("y", I, J))))
    check(plan, *({"b": n} for n in range(40)), target=target)


@pytest.mark.parametrize("target", TARGETS)
def test_bool_and_comparisons(target: str) -> None:
    plan = single({"x": tensor("f32", B, 5), "m": tensor("bool", B, 5)},
                  ("z", tensor("bool", B, 5), lambda at: apply(
                      "bitwise_or", at("m", I, J), apply("greater", at("x", I, J), number(0)))))
    check(plan, *SIZES, target=target)


@pytest.mark.parametrize("source", DTYPES)
@pytest.mark.parametrize("to", COMPUTED)
def test_conversions(source: str, to: str) -> None:
    plan = single({"x": tensor(source, B)}, ("z", tensor(to, B), lambda at: apply(f"astype_{to}", at("x", I))))
    check(plan, {"b": 37})


@pytest.mark.parametrize("target", TARGETS)
def test_transpose_and_slices(target: str) -> None:
    plan = single({"x": tensor("f32", B, 7, 40)},
                  ("z", tensor("f32", 18, B, 7), lambda at: at("x", J, K, I.scaled(2) + 3)))
    check(plan, *SIZES, target=target)


def test_reversed_axis() -> None:
    plan = single({"x": tensor("f32", B, 40)}, ("z", tensor("f32", B, 40), lambda at: at("x", I, J.scaled(-1) + 39)))
    check(plan, *SIZES)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("target", TARGETS)
def test_concatenation(axis: int, target: str) -> None:
    index = (I, J)[axis]
    size = (B, 9)[axis]
    shape = (B + B + B, 9) if axis == 0 else (B, 9 + 9 + 9)

    def body(at):  # type: ignore[no-untyped-def]
        def part(name: str, shift: object):  # type: ignore[no-untyped-def]
            moved = index + (-shift)  # type: ignore[operator]
            return at(name, *((moved, J) if axis == 0 else (I, moved)))

        rest = choose(index, size, size + size, part("y", size), part("z", size + size))
        return choose(index, 0, size, part("x", 0), rest)

    plan = single({n: tensor("f32", B, 9) for n in "xyz"}, ("w", tensor("f32", *shape), body))
    check(plan, *SIZES, target=target)


@pytest.mark.parametrize("target", TARGETS)
def test_padding_of_both_axes(target: str) -> None:
    plan = single({"x": tensor("f32", B, 9), "v": tensor("f32")},
                  ("z", tensor("f32", B + 3, 14), lambda at: choose(
                      I, 1, B + 1, choose(J, 2, 11, at("x", I + -1, J + -2), at("v")), at("v"))))
    check(plan, *SIZES, target=target)


@pytest.mark.parametrize("dtype", COMPUTED)
def test_iota(dtype: str) -> None:
    plan = single({"x": tensor(dtype, B, 20)}, ("z", tensor(dtype, B, 20), lambda at: apply(
        "maximum", position(J, dtype), at("x", I, J))))
    check(plan, *SIZES)


def test_iota_of_rows() -> None:
    plan = single({"x": tensor("i32", B, 20)}, ("z", tensor("i32", B, 20), lambda at: apply(
        "add", position(I, "i32"), apply("multiply", at("x", I, J), position(J, "i32")))))
    check(plan, *SIZES)


FOLDS = [("add", "f32"), ("add", "i32"), ("multiply", "i64"), ("maximum", "f32"), ("minimum", "f64"), ("maximum", "u8"),
         ("bitwise_and", "i8"), ("bitwise_or", "bool"), ("bitwise_xor", "u16"), ("minimum", "bool")]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name, dtype", FOLDS)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_folds(name: str, dtype: str, axis: int, target: str) -> None:
    shape = (B, 5, 19)
    kept = [s for n, s in enumerate(shape) if n != axis]
    indices = [[K, I, J], [I, K, J], [I, J, K]][axis]
    plan = single({"x": tensor(dtype, *shape)},
                  ("z", tensor(dtype, *kept), lambda at: fold(name, 2, (shape[axis],), at("x", *indices))))
    check(plan, *SIZES, tolerance=1e-4 if name == "add" and dtype == "f32" else 0, target=target)


@pytest.mark.parametrize("target", TARGETS)
def test_full_reduction(target: str) -> None:
    plan = single({"x": tensor("f64", B, 5, 19)},
                  ("z", tensor("f64"), lambda at: fold("add", 0, (B, 5, 19), at("x", I, J, K))))
    check(plan, *SIZES, tolerance=1e-12, target=target)


def test_reduction_of_outer_and_inner_axes() -> None:
    plan = single({"x": tensor("f64", B, 5, 19)},
                  ("z", tensor("f64", 5), lambda at: fold("add", 1, (B, 19), at("x", J, I, K))))
    check(plan, *SIZES, tolerance=1e-12)


def test_maximum_propagates_nan_and_orders_zeros() -> None:
    plan = single({"x": tensor("f32", 4, 50)},
                  ("z", tensor("f32", 4), lambda at: fold("maximum", 1, (50,), at("x", I, J))))
    x = np.full((4, 50), -1, np.float32)
    x[0, 17] = np.nan
    x[1, :] = -0.0
    x[2, :] = -0.0
    x[2, 48] = 0.0
    z = compile_plan(plan)(x)
    assert np.isnan(z[0]) and np.signbit(z[1]) and z[2] == 0 and not np.signbit(z[2]) and z[3] == -1


def test_sum_of_negative_zeros_is_positive() -> None:
    for extent in (1, 3, 40):
        plan = single({"x": tensor("f32", extent)},
                      ("z", tensor("f32"), lambda at, n=extent: fold("add", 0, (n,), at("x", I))))
        assert not np.signbit(compile_plan(plan)(np.full(extent, -0.0, np.float32)))


def softmax(columns: object, dtype: str = "f32", axis: int = 1, rows: object = B) -> Plan:
    shape = (rows, columns)
    kept, extent = ((rows,), columns) if axis == 1 else ((columns,), rows)
    at_fold = (lambda name, at: at(name, I, J)) if axis == 1 else (lambda name, at: at(name, J, I))
    own = I if axis == 1 else J
    return single(
        {"x": tensor(dtype, *shape)},
        ("m", tensor(dtype, *kept), lambda at: fold("maximum", 1, (extent,), at_fold("x", at))),
        ("e", tensor(dtype, *shape), lambda at: apply("exp", apply("subtract", at("x", I, J), at("m", own)))),
        ("t", tensor(dtype, *kept), lambda at: fold("add", 1, (extent,), at_fold("e", at))),
        ("y", tensor(dtype, *shape), lambda at: apply("divide", at("e", I, J), at("t", own))))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("columns", [1, 10, 16, 100, S])
def test_softmax(columns: object, axis: int, target: str) -> None:
    check(softmax(columns, axis=axis), *({"b": n, "s": 37} for n in (0, 1, 5, 70)), tolerance=1e-5, target=target)


def layer_norm(columns: int, dtype: str = "f32") -> Plan:
    def mean(name: str, at):  # type: ignore[no-untyped-def]
        return apply("divide", fold("add", 1, (columns,), at(name, I, J)), number(columns, dtype))

    return single(
        {"x": tensor(dtype, B, columns), "g": tensor(dtype, columns), "c": tensor(dtype, columns)},
        ("m", tensor(dtype, B), lambda at: mean("x", at)),
        ("d", tensor(dtype, B, columns), lambda at: apply("subtract", at("x", I, J), at("m", I))),
        ("q", tensor(dtype, B, columns), lambda at: apply("square", at("d", I, J))),
        ("v", tensor(dtype, B), lambda at: apply("rsqrt", apply("add", mean("q", at), number(1e-5, dtype)))),
        ("y", tensor(dtype, B, columns), lambda at: apply(
            "add", apply("multiply", apply("multiply", at("d", I, J), at("v", I)), at("g", J)), at("c", J))),
        outputs=("y", "m"))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("columns", [3, 16, 100])
def test_layer_norm_with_two_outputs(columns: int, target: str) -> None:
    check(layer_norm(columns), *SIZES, tolerance=1e-4, target=target)


def product(m: object, n: object, k: object, dtype: str = "f32", lhs: str = "mk", rhs: str = "kn",
            epilogue: bool = False, prologue: bool = False) -> Plan:
    """out[m, n] = sum over k of x * y; `lhs` and `rhs` order the operands' axes."""
    extents, axes = {"m": m, "n": n, "k": k}, {"m": I, "n": J, "k": K}

    def body(at):  # type: ignore[no-untyped-def]
        x, y = at("x", *(axes[a] for a in lhs)), at("y", *(axes[a] for a in rhs))
        x = apply("tanh", x) if prologue else x
        total = fold("add", 2, (k,), apply("multiply", x, y), contraction=True)
        if not epilogue:
            return total
        return apply("maximum", apply("add", total, at("c", J)), number(0, dtype))

    return single(
        {"x": tensor(dtype, *(extents[a] for a in lhs)), "y": tensor(dtype, *(extents[a] for a in rhs)),
         "c": tensor(dtype, n)}, ("z", tensor(dtype, m, n), body))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("lhs", ["mk", "km"])
@pytest.mark.parametrize("rhs", ["kn", "nk"])
@pytest.mark.parametrize("m, n, k", [(B, 16, 16), (B, 10, 16), (33, 70, B), (B, S, 9)])
def test_contractions(m: object, n: object, k: object, lhs: str, rhs: str, target: str) -> None:
    check(product(m, n, k, lhs=lhs, rhs=rhs, epilogue=True), *({"b": n, "s": 21} for n in (0, 1, 2, 7, 8, 9, 70)),
          tolerance=1e-4, target=target)


@pytest.mark.parametrize("m, n, k", [(5, B, 7), (B, 130, 3), (B, S, B), (1, B, 40), (100, 100, 100)])
def test_contractions_of_odd_sizes(m: object, n: object, k: object) -> None:
    check(product(m, n, k), *({"b": n, "s": 21} for n in (0, 1, 7, 70)), tolerance=1e-4)


@pytest.mark.parametrize("dtype", ["f64", "i32", "u8"])
def test_contractions_in_other_dtypes(dtype: str) -> None:
    check(product(B, 33, 20, dtype), *SIZES, tolerance=1e-12 if dtype == "f64" else 0)


@pytest.mark.parametrize("m, n, k", [(B, 40, 50), (30, 40, B)])
def test_contraction_with_a_prologue(m: object, n: object, k: object) -> None:
    check(product(m, n, k, prologue=True), *SIZES, tolerance=1e-4)


def test_matvec_both_ways() -> None:
    for indices, shape in (((I, J), (B, 70)), ((J, I), (70, B))):
        plan = single({"x": tensor("f32", *shape), "v": tensor("f32", 70)},
                      ("z", tensor("f32", B), lambda at, i=indices: fold(
                          "add", 1, (70,), apply("multiply", at("x", *i), at("v", J)), contraction=True)))
        check(plan, *SIZES, tolerance=1e-4)


def test_batched_contraction_with_split_heads() -> None:
    """scores[b, h, i, j] = sum over d of q[b, i, h, d] * k[b, j, h, d]."""
    plan = single(
        {"q": tensor("f32", B, S, 3, 8), "k": tensor("f32", B, S, 3, 8)},
        ("z", tensor("f32", B, 3, S, S), lambda at: fold(
            "add", 4, (8,), apply("multiply", at("q", I, K, J, M), at("k", I, L, J, M)), contraction=True)))
    check(plan, {"b": 0, "s": 4}, {"b": 2, "s": 1}, {"b": 2, "s": 19}, tolerance=1e-4)


def test_attention_in_one_kernel() -> None:
    """Scores, softmax and the weighted sum: rows of scores stay in scratch memory."""
    def scores(at):  # type: ignore[no-untyped-def]
        return fold("add", 2, (8,), apply("multiply", at("q", I, K), at("k", J, K)), contraction=True)

    plan = single(
        {"q": tensor("f32", B, 8), "k": tensor("f32", S, 8), "v": tensor("f32", S, 24)},
        ("s", tensor("f32", B, S), scores),
        ("m", tensor("f32", B), lambda at: fold("maximum", 1, (S,), at("s", I, J))),
        ("e", tensor("f32", B, S), lambda at: apply("exp", apply("subtract", at("s", I, J), at("m", I)))),
        ("t", tensor("f32", B), lambda at: fold("add", 1, (S,), at("e", I, J))),
        ("p", tensor("f32", B, S), lambda at: apply("divide", at("e", I, J), at("t", I))),
        ("o", tensor("f32", B, 24), lambda at: fold(
            "add", 2, (S,), apply("multiply", at("p", I, K), at("v", K, J)), contraction=True)))
    check(plan, *({"b": n, "s": 13} for n in (0, 1, 9)), tolerance=1e-4)


def test_dense_then_softmax_in_one_kernel() -> None:
    plan = single(
        {"x": tensor("f32", B, 16), "w": tensor("f32", 16, 10), "c": tensor("f32", 10)},
        ("z", tensor("f32", B, 10), lambda at: apply("add", fold(
            "add", 2, (16,), apply("multiply", at("x", I, K), at("w", K, J)), contraction=True), at("c", J))),
        ("m", tensor("f32", B), lambda at: fold("maximum", 1, (10,), at("z", I, J))),
        ("e", tensor("f32", B, 10), lambda at: apply("exp", apply("subtract", at("z", I, J), at("m", I)))),
        ("t", tensor("f32", B), lambda at: fold("add", 1, (10,), at("e", I, J))),
        ("y", tensor("f32", B, 10), lambda at: apply("divide", at("e", I, J), at("t", I))))
    check(plan, *SIZES, tolerance=1e-4)


def test_two_layers_in_one_kernel() -> None:
    plan = single(
        {"x": tensor("f32", B, 6), "v": tensor("f32", 6, 20), "w": tensor("f32", 20, 33)},
        ("h", tensor("f32", B, 20), lambda at: apply("tanh", fold(
            "add", 2, (6,), apply("multiply", at("x", I, K), at("v", K, J)), contraction=True))),
        ("y", tensor("f32", B, 33), lambda at: fold(
            "add", 2, (20,), apply("multiply", at("h", I, K), at("w", K, J)), contraction=True)))
    check(plan, *SIZES, tolerance=1e-4)


def test_folds_of_two_axes_in_one_output() -> None:
    plan = single(
        {"x": tensor("f64", B, 9)},
        ("z", tensor("f64", B, 9), lambda at: apply(
            "add", fold("add", 2, (9,), at("x", I, K)), fold("add", 2, (B,), at("x", K, J)))))
    check(plan, *SIZES, tolerance=1e-12)


def test_outputs_of_unrelated_shapes() -> None:
    plan = single(
        {"x": tensor("f64", B, 9)},
        ("r", tensor("f64", B), lambda at: fold("add", 1, (9,), at("x", I, J))),
        ("c", tensor("f64", 9), lambda at: fold("add", 1, (B,), at("x", J, I))),
        ("y", tensor("f64", B, 9), lambda at: apply("negative", at("x", I, J))), outputs=("c", "y", "r"))
    check(plan, *SIZES, tolerance=1e-12)


def test_fold_inside_a_choice_reads_nothing_outside() -> None:
    plan = single(
        {"x": tensor("f64", B, 9), "y": tensor("f64", 4, 9)},
        ("z", tensor("f64", B + 4), lambda at: choose(
            I, 0, B, fold("add", 1, (9,), at("x", I, J)), fold("maximum", 1, (9,), at("y", I + -B, J)))))
    check(plan, *SIZES, tolerance=1e-12)


def test_costly_row_is_computed_once() -> None:
    plan = single(
        {"x": tensor("f32", B, 40), "v": tensor("f32", 40)},
        ("z", tensor("f32", B, 40), lambda at: apply("add", at("x", I, J), apply("exp", at("v", J)))))
    check(plan, *SIZES, tolerance=1e-5)


def test_high_rank() -> None:
    shape = (2, 1) * 12
    axes = [axis_index(n) for n in range(24)]
    plan = single({"x": tensor("f32", *shape), "y": tensor("f32", *reversed(shape))},
                  ("z", tensor("f32", *shape), lambda at: apply("add", at("x", *axes), at("y", *reversed(axes)))))
    check(plan)


def test_long_chain_of_operations() -> None:
    def body(at):  # type: ignore[no-untyped-def]
        value = at("x", I)
        for _ in range(600):
            value = apply("add", value, number(1, "i32"))
        return value

    plan = single({"x": tensor("i32", B)}, ("z", tensor("i32", B), body))
    assert (compile_plan(plan)(np.arange(20, dtype=np.int32)) == np.arange(600, 620)).all()


def test_several_kernels_share_code_and_memory() -> None:
    writer = PlanWriter()
    writer.parameter("x", tensor("f32", B, 16))
    rng = np.random.default_rng(0)
    for n in range(4):
        writer.constant(f"w{n}", rng.standard_normal((16, 16)).astype(np.float32))
        source = "x" if n == 0 else f"h{n - 1}_out"
        role = Role.RESULT if n == 3 else Role.TEMPORARY
        writer.kernel({f"h{n}": role}, (
            f"h{n}", tensor("f32", B, 16), lambda at, n=n, source=source: apply("tanh", fold(
                "add", 2, (16,), apply("multiply", at(source, I, K), at(f"w{n}", K, J)), contraction=True))))
    plan = writer.plan("h3")
    function = compile_plan(plan)
    assert function.kernels == 4 and len(function.nests) == 1
    assert function.llvm.count("call void @kernel0") == 4
    check(plan, *SIZES, tolerance=1e-4)


def test_results_that_no_kernel_owns() -> None:
    """A parameter, a constant and a value returned twice are copied."""
    writer = PlanWriter()
    writer.parameter("x", tensor("f32", B))
    writer.constant("c", np.arange(3, dtype=np.int64))
    writer.kernel({"y": Role.RESULT}, ("y", tensor("f32", B), lambda at: apply("negative", at("x", I))))
    plan = writer.plan("y", "y")
    ports = (*plan.results, plan.parameters[0], type(plan.parameters[0])("c", tensor("i64", 3), "c"))
    plan = type(plan)(plan.name, plan.parameters, ports, plan.buffers, plan.kernels, plan.symbols)
    x = np.arange(5, dtype=np.float32)
    y, again, same, c = compile_plan(plan)(x)
    assert (y == -x).all() and (again == -x).all() and (same == x).all() and c.tolist() == [0, 1, 2]
    assert same is not x and again is not y


def test_aliased_buffers() -> None:
    """A temporary is read under another shape of the same memory."""
    writer = PlanWriter()
    writer.parameter("x", tensor("f32", B, 6))
    writer.kernel({"h": Role.TEMPORARY}, ("h", tensor("f32", B, 6), lambda at: apply("negative", at("x", I, J))))
    writer.buffer("v", tensor("f32", B, 2, 3), Role.TEMPORARY, alias="h_out")
    writer.kernel({"y": Role.RESULT}, ("y", tensor("f32", B, 3, 2), lambda at: at("v", I, K, J)))
    check(writer.plan("y"), *SIZES)


def test_kernels_are_vectors_without_division() -> None:
    text = compile_plan(softmax(100)).llvm + compile_plan(product(B, S, 40)).llvm
    assert not any(word in text for word in ("div i", "rem i"))
    lanes = cpu_target("native").vector_bits // 32
    assert f"<{lanes} x float>" in text and "alloca" not in text


def test_special_values_go_through() -> None:
    x = np.array([math.inf, -math.inf, math.nan, 0.0, -0.0, 1e-45, 3.4e38] * 5, np.float32)
    plan = single({"x": tensor("f32", B)},
                  ("z", tensor("f32", B), lambda at: apply("multiply", at("x", I), number(-1))))
    z = compile_plan(plan)(x)
    np.testing.assert_array_equal(z, -x)
    np.testing.assert_array_equal(np.signbit(z), np.signbit(-x))

"""Accuracy, special values and lane independence of the vector math functions, on every target of this machine."""

from __future__ import annotations

import functools
import math
from pathlib import Path

import numpy as np
import pytest

from benchmarks.accuracy import NUMPY, OPERANDS
from benchmarks.exact import ARGUMENTS, exact_values
from tcp_eqsat.codegen.array_function import ArrayFunction
from tcp_eqsat.codegen.target import available_targets, cpu_target
from tcp_eqsat.codegen.vector_math import FUNCTIONS
from tcp_eqsat.codegen.vector_math.accuracy import PROMISES, error_floor, max_ulp, ulp_errors
from tcp_eqsat.lang.scalars.fused import fused
from tcp_eqsat.lang.types import F32, F64, DType

TARGETS = [choice for choice in available_targets() if choice != "native"]
UNARY = [name for name in PROMISES if name not in OPERANDS]
BY_NUMPY = [name for name in UNARY if name in NUMPY]
"""Those that NumPy has in long double; the others are compared with mpmath, at fewer arguments."""
ODD = (
    "expm1", "log1p", "sinh", "tanh", "asinh", "atanh", "sin", "tan", "asin", "atan", "cbrt", "erf", "erf_inv",
    "bessel_i1e",
)
"""All keep the sign of zero; all but the first two are exactly odd."""
EVEN = ("cos", "cosh", "bessel_i0e")
EXTENDED = np.finfo(np.longdouble).nmant >= 63
INF, NAN = math.inf, math.nan


@functools.cache
def compiled(name: str, dtype: DType, choice: str, lanes: int | None = None) -> ArrayFunction:
    target = cpu_target(choice)
    operands = (dtype,) * OPERANDS.get(name, 1)
    return ArrayFunction(lambda b, *x: b.function(name, *x), operands, dtype, target, lanes or target.lanes(dtype))


@functools.cache
def arguments(dtype: DType) -> np.ndarray:
    """Bit patterns over the whole range, and more of them where the functions are not trivial."""
    random = np.random.default_rng(7)
    if dtype is F32:
        patterns = np.arange(0, 2**32, 61_001, dtype=np.uint64).astype(np.uint32).view(np.float32)
    else:
        patterns = random.integers(0, 2**64, 20_000, dtype=np.uint64).view(np.float64)
    usual = random.choice([-1.0, 1.0], 40_000) * np.exp(random.uniform(-8, 7, 40_000))
    near_multiples = np.round(np.exp(random.uniform(0, 20, 5_000))) * (np.pi / 4)
    return np.concatenate([patterns, usual.astype(dtype.numpy), near_multiples.astype(dtype.numpy)])


@functools.cache
def exact(name: str, dtype: DType) -> np.ndarray:
    with np.errstate(all="ignore"):
        return NUMPY[name](arguments(dtype).astype(np.float64 if dtype is F32 else np.longdouble))


@pytest.mark.parametrize("choice", TARGETS)
@pytest.mark.parametrize("name", BY_NUMPY)
def test_f32_errors_are_within_the_promise(name: str, choice: str) -> None:
    x = arguments(F32)
    errors = ulp_errors(compiled(name, F32, choice)(x), exact(name, F32), F32)
    assert errors.max() <= max_ulp(name, F32), f"at {x[errors.argmax()]!r}"


@pytest.mark.skipif(not EXTENDED, reason="needs a long double of 64 digits as reference")
@pytest.mark.parametrize("choice", TARGETS)
@pytest.mark.parametrize("name", BY_NUMPY)
def test_f64_errors_are_within_the_promise(name: str, choice: str) -> None:
    x = arguments(F64)
    errors = ulp_errors(compiled(name, F64, choice)(x), exact(name, F64), F64)
    assert errors.max() <= max_ulp(name, F64), f"at {x[errors.argmax()]!r}"


@pytest.mark.skipif(not EXTENDED, reason="needs a long double of 64 digits as reference")
@pytest.mark.parametrize("choice", TARGETS)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_pow_errors_are_within_the_promise(dtype: DType, choice: str) -> None:
    random = np.random.default_rng(5)
    x = np.concatenate([np.exp(random.uniform(-40, 40, 20_000)), 1 + random.uniform(-0.01, 0.01, 20_000)])
    y = random.uniform(-1, 1, x.size) * (104 if dtype is F32 else 745) / np.log(x)
    x, y = x.astype(dtype.numpy), y.astype(dtype.numpy)
    with np.errstate(all="ignore"):
        reference = np.power(x.astype(np.longdouble), y.astype(np.longdouble))
    errors = ulp_errors(compiled("pow", dtype, choice)(x, y), reference, dtype)
    assert errors.max() <= max_ulp("pow", dtype), f"at {x[errors.argmax()]!r}, {y[errors.argmax()]!r}"


@pytest.mark.skipif(not EXTENDED, reason="needs a long double of 64 digits as reference")
@pytest.mark.parametrize("choice", TARGETS)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("name", ["atan2", "hypot"])
def test_errors_of_two_operands_are_within_the_promise(name: str, dtype: DType, choice: str) -> None:
    x = arguments(dtype)
    random = np.random.default_rng(9)
    with np.errstate(all="ignore"):
        near = (x * random.uniform(-2, 2, x.size)).astype(dtype.numpy)
        for y in (near, random.permutation(x)):
            wide = np.float64 if dtype is F32 else np.longdouble
            reference = NUMPY[name](x.astype(wide), y.astype(wide))
            errors = ulp_errors(compiled(name, dtype, choice)(x, y), reference, dtype)
            assert errors.max() <= max_ulp(name, dtype), f"at {x[errors.argmax()]!r}, {y[errors.argmax()]!r}"


@functools.cache
def exactly(name: str, dtype: DType) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, np.ndarray]]:
    """Operands, and the exact results by mpmath."""
    operands = tuple(x.astype(dtype.numpy) for x in ARGUMENTS[name](np.random.default_rng(11), 40))
    return operands, exact_values(name, *operands)


@pytest.mark.parametrize("choice", TARGETS)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("name", ARGUMENTS)
def test_errors_against_mpmath_are_within_the_promise(name: str, dtype: DType, choice: str) -> None:
    operands, (heads, rests) = exactly(name, dtype)
    found = compiled(name, dtype, choice)(*operands)
    errors = ulp_errors(found, heads, dtype, rests, error_floor(name, dtype))
    assert errors.max() <= max_ulp(name, dtype), f"at {[x[errors.argmax()] for x in operands]}"


@pytest.mark.parametrize("choice", TARGETS)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_fma_rounds_once(dtype: DType, choice: str) -> None:
    """Where the sum nearly cancels, overflows, or ends in subnormals; exact by rational numbers."""
    random = np.random.default_rng(13)
    count = 2_000

    def numbers(low: int, high: int) -> np.ndarray:
        return np.ldexp(random.standard_normal(count), random.integers(low, high, count)).astype(dtype.numpy)

    top = np.finfo(dtype.numpy).maxexp
    for power in (0, top // 2, -top // 2):
        x, y = numbers(power - 20, power + 20), numbers(power - 20, power + 20)
        with np.errstate(all="ignore"):
            for z in (-(x * y), numbers(2 * power - 80, 2 * power + 80)):
                assert_same(compiled("fma", dtype, choice)(x, y, z), fused(x, y, z))
    special = np.array([0.0, -0.0, 1, -1, INF, -INF, NAN, np.finfo(dtype.numpy).max], dtype.numpy)
    grid = [x.ravel() for x in np.meshgrid(special, special, special)]
    with np.errstate(all="ignore"):
        assert_same(compiled("fma", dtype, choice)(*grid), fused(*grid))


@pytest.mark.parametrize("choice", TARGETS)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_fmod_is_exact(dtype: DType, choice: str) -> None:
    """Over all distances between the operands, subnormal divisors included."""
    x = arguments(dtype)
    random = np.random.default_rng(17)
    tiny = (random.integers(1, 1000, x.size) * np.float64(np.finfo(dtype.numpy).smallest_subnormal)).astype(dtype.numpy)
    function = ArrayFunction(lambda b, x, y: b.remainder(x, y), (dtype, dtype), dtype, cpu_target(choice), 8)
    special = [grid.ravel() for grid in np.meshgrid(*[np.array([0.0, -0.0, 3, -7, INF, -INF, NAN], dtype.numpy)] * 2)]
    with np.errstate(all="ignore"):
        for a, c in ((x, random.permutation(x)), (x, tiny), special):
            assert_same(function(a, c), np.fmod(a, c))


SPECIAL: dict[str, list[tuple[float, float]]] = {
    "exp": [(0.0, 1), (-0.0, 1), (INF, INF), (-INF, 0.0), (1e4, INF), (-1e4, 0.0), (NAN, NAN)],
    "exp2": [(0.0, 1), (10, 1024), (-3, 0.125), (INF, INF), (-INF, 0.0), (2000, INF), (NAN, NAN)],
    "expm1": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -1), (-200, -1), (1e4, INF), (NAN, NAN)],
    "log": [(1, 0.0), (0.0, -INF), (-0.0, -INF), (INF, INF), (-1, NAN), (-INF, NAN), (NAN, NAN)],
    "log2": [(1, 0.0), (8, 3), (2.0**-140, -140), (0.0, -INF), (INF, INF), (-1, NAN), (NAN, NAN)],
    "log10": [(1, 0.0), (1e5, 5), (1e10, 10), (0.0, -INF), (-0.0, -INF), (INF, INF), (-1, NAN), (NAN, NAN)],
    "log1p": [(0.0, 0.0), (-0.0, -0.0), (-1, -INF), (-2, NAN), (INF, INF), (-INF, NAN), (NAN, NAN)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (INF, 1), (-INF, -1), (1e30, 1), (NAN, NAN)],
    "logistic": [(0.0, 0.5), (-0.0, 0.5), (INF, 1), (-INF, 0.0), (1e4, 1), (-1e4, 0.0), (NAN, NAN)],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (INF, 1), (-INF, -1), (30, 1), (NAN, NAN)],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "cos": [(0.0, 1), (-0.0, 1), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "tan": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "sinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (1e4, INF), (-1e4, -INF), (NAN, NAN)],
    "cosh": [(0.0, 1), (-0.0, 1), (INF, INF), (-INF, INF), (-1e4, INF), (NAN, NAN)],
    "asinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (NAN, NAN)],
    "acosh": [(1, 0.0), (0.5, NAN), (-1, NAN), (INF, INF), (-INF, NAN), (NAN, NAN)],
    "atanh": [(0.0, 0.0), (-0.0, -0.0), (1, INF), (-1, -INF), (1.5, NAN), (INF, NAN), (NAN, NAN)],
    "asin": [(0.0, 0.0), (-0.0, -0.0), (1, math.pi / 2), (-1, -math.pi / 2), (1.5, NAN), (-INF, NAN), (NAN, NAN)],
    "acos": [(1, 0.0), (0.0, math.pi / 2), (-1, math.pi), (1.5, NAN), (INF, NAN), (NAN, NAN)],
    "atan": [(0.0, 0.0), (-0.0, -0.0), (INF, math.pi / 2), (-INF, -math.pi / 2), (NAN, NAN)],
    "cbrt": [(0.0, 0.0), (-0.0, -0.0), (8, 2), (-27, -3), (INF, INF), (-INF, -INF), (NAN, NAN)],
    "erfc": [(0.0, 1), (-0.0, 1), (INF, 0.0), (-INF, 2), (30, 0.0), (-30, 2), (NAN, NAN)],
    "erf_inv": [(0.0, 0.0), (-0.0, -0.0), (1, INF), (-1, -INF), (1.5, NAN), (-INF, NAN), (NAN, NAN)],
    "lgamma": [(1, 0.0), (2, 0.0), (0.0, INF), (-0.0, INF), (-3, INF), (INF, INF), (-INF, INF), (NAN, NAN)],
    "digamma": [(0.0, NAN), (-0.0, NAN), (-3, NAN), (INF, INF), (-INF, NAN), (NAN, NAN)],
    "bessel_i0e": [(0.0, 1), (-0.0, 1), (INF, 0.0), (-INF, 0.0), (NAN, NAN)],
    "bessel_i1e": [(0.0, 0.0), (-0.0, -0.0), (INF, 0.0), (-INF, -0.0), (NAN, NAN)],
    "rsqrt": [(4, 0.5), (0.0, INF), (-0.0, -INF), (INF, 0.0), (-1, NAN), (NAN, NAN)],
}


SPECIAL_PAIRS: dict[str, list[tuple[float, float, float]]] = {
    "hypot": [(3, 4, 5), (0.0, -0.0, 0.0), (INF, NAN, INF), (NAN, -INF, INF), (NAN, 1, NAN), (-INF, 2, INF)],
    "zeta": [(1, 2, INF), (0.5, 2, NAN), (2, 0.0, INF), (2, -3, INF), (2.5, -0.5, NAN), (2, INF, 0.0), (NAN, 1, NAN),
             (2, NAN, NAN), (INF, 1, 1), (INF, 2, 0.0)],
    "polygamma": [(0, INF, INF), (1, INF, 0.0), (1.5, 2, NAN), (-1, 2, NAN), (1, 0.0, INF), (1, NAN, NAN)],
    "igamma": [(1, 0.0, 0.0), (1, INF, 1), (0.0, 1, NAN), (-1, 1, NAN), (1, -1, NAN), (INF, 1, 0.0), (INF, INF, NAN),
               (2, 1e30, 1), (NAN, 1, NAN), (1, NAN, NAN)],
    "igammac": [(1, 0.0, 1), (1, INF, 0.0), (0.0, 1, NAN), (-1, 1, NAN), (1, -1, NAN), (INF, 1, 1), (INF, INF, NAN),
                (2, 1e30, 0.0), (NAN, 1, NAN), (1, NAN, NAN)],
    "igamma_grad_a": [(1, 0.0, 0.0), (1, INF, 0.0), (0.0, 1, NAN), (1, -1, NAN), (1e6, 1, NAN), (1, NAN, NAN)],
}


def assert_same(found: np.ndarray, expected: np.ndarray) -> None:
    """Equal values, signs of zero included; a NaN equals any NaN."""
    np.testing.assert_array_equal(found, expected)
    ordered = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[ordered]), np.signbit(expected[ordered]))


@pytest.mark.parametrize("choice", TARGETS)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("name", SPECIAL)
def test_special_values(name: str, dtype: DType, choice: str) -> None:
    x, expected = np.array(SPECIAL[name], dtype.numpy).T
    assert_same(compiled(name, dtype, choice)(x), expected)


@pytest.mark.parametrize("choice", TARGETS)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("name", SPECIAL_PAIRS)
def test_special_values_of_two_operands(name: str, dtype: DType, choice: str) -> None:
    x, y, expected = np.array(SPECIAL_PAIRS[name], dtype.numpy).T
    assert_same(compiled(name, dtype, choice)(x.copy(), y.copy()), expected)


@pytest.mark.parametrize("choice", TARGETS)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_atan2_follows_c99(dtype: DType, choice: str) -> None:
    numbers = np.array([0.0, -0.0, 1, -1, INF, -INF, NAN, 1e-40, -1e30], dtype.numpy)
    y, x = (grid.ravel() for grid in np.meshgrid(numbers, numbers))
    expected = np.arctan2(y.astype(np.float64), x.astype(np.float64)).astype(dtype.numpy)
    found = compiled("atan2", dtype, choice)(y, x)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    ordered = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[ordered]), np.signbit(expected[ordered]))
    np.testing.assert_allclose(found, expected, rtol=2 * np.finfo(dtype.numpy).eps)


def test_every_function_has_special_values_and_a_promise() -> None:
    assert set(SPECIAL) == set(UNARY)
    assert set(SPECIAL_PAIRS) | {"pow", "atan2", "fma"} == set(OPERANDS)
    assert set(PROMISES) == set(FUNCTIONS) - {"integer_pow", "fmod"}  # which are exact
    assert set(BY_NUMPY) | set(ARGUMENTS) | set(OPERANDS) == set(PROMISES)


@pytest.mark.parametrize("choice", TARGETS)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_subnormal_arguments_and_results(dtype: DType, choice: str) -> None:
    least = np.finfo(dtype.numpy).smallest_subnormal
    tiny = np.array([1, 3, 1000], dtype.numpy) * least
    for name in ODD:
        slope = {"erf": 2 / math.sqrt(math.pi), "erf_inv": math.sqrt(math.pi) / 2, "bessel_i1e": 0.5}
        if name == "cbrt":
            continue
        rounded = np.float64(tiny) * slope.get(name, 1.0)
        assert_same(compiled(name, dtype, choice)(tiny), rounded.astype(dtype.numpy))
    logarithm = np.log(tiny.astype(np.longdouble))
    assert ulp_errors(compiled("log", dtype, choice)(tiny), logarithm, dtype).max() <= 1
    low = np.array([-100.0, -103.5] if dtype is F32 else [-740.0, -744.5], dtype.numpy)
    for name in ("exp", "logistic"):
        found = compiled(name, dtype, choice)(low)
        assert (found > 0).all()
        assert ulp_errors(found, np.exp(low.astype(np.longdouble)), dtype).max() <= 1


@pytest.mark.parametrize("choice", TARGETS)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_pow_follows_c99(dtype: DType, choice: str) -> None:
    numbers = [0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, INF, -INF, NAN, 3, -3, 2.5, -2.5, 2.0**53, -(2.0**60), 1e-40, 1e30]
    x, y = (grid.ravel() for grid in np.meshgrid(*[np.array(numbers, dtype.numpy)] * 2))
    # NumPy's pow is the C library's, with its special cases; computed in f64 and then rounded for f32.
    with np.errstate(all="ignore"):
        expected = np.power(x.astype(np.float64), y.astype(np.float64)).astype(dtype.numpy)
        found = compiled("pow", dtype, choice)(x, y)
        exact = ~np.isfinite(expected) | (expected == 0) | (np.abs(expected) == 1)
        assert_same(found[exact], expected[exact])
        np.testing.assert_allclose(found[~exact], expected[~exact], rtol=4 * np.finfo(dtype.numpy).eps)


@pytest.mark.parametrize("choice", TARGETS)
def test_pow_of_small_integers_is_exact(choice: str) -> None:
    x, y = (grid.ravel().astype(np.float64) for grid in np.meshgrid(np.arange(1, 31), np.arange(0, 11)))
    expected = np.array([float(int(a) ** int(k)) for a, k in zip(x, y, strict=True)])
    np.testing.assert_array_equal(compiled("pow", F64, choice)(x, y), expected)


@pytest.mark.parametrize("choice", TARGETS)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_odd_and_even_functions_are_exactly_so(dtype: DType, choice: str) -> None:
    x = arguments(dtype)
    x = np.abs(x[~np.isnan(x)])
    for name in ODD[2:]:
        function = compiled(name, dtype, choice)
        assert_same(function(-x), -function(x))
    for name in EVEN:
        function = compiled(name, dtype, choice)
        assert_same(function(-x), function(x))


@pytest.mark.parametrize("choice", TARGETS)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("name", PROMISES)
def test_every_lane_count_gives_the_same_bits(name: str, dtype: DType, choice: str) -> None:
    x = np.random.default_rng(3).permutation(arguments(dtype))[:1003]
    operands = (x, x[::-1].copy(), np.roll(x, 5))[: OPERANDS.get(name, 1)]
    expected = compiled(name, dtype, choice, 1)(*operands)
    for lanes in (4, 8, 16):
        assert_same(compiled(name, dtype, choice, lanes)(*operands), expected)


@pytest.mark.parametrize("choice", TARGETS)
def test_reduction_of_the_hardest_arguments(choice: str) -> None:
    """The f64 closest to a multiple of pi/2, multiples of pi as f64 sees them, and the greatest numbers."""
    x = np.array([6381956970095103 * 2.0**797, math.pi, 2 * math.pi, 1e22, np.finfo(np.float64).max])
    # correctly rounded, by 2000-bit arithmetic
    sine = [1.0, 1.2246467991473532e-16, -2.4492935982947064e-16, -0.8522008497671888, 0.004961954789184062]
    cosine = [-4.687165924254628e-19, -1.0, 1.0, 0.523214785395139, -0.9999876894265599]
    for name, expected in (("sin", sine), ("cos", cosine)):
        errors = ulp_errors(compiled(name, F64, choice)(x), np.array(expected), F64)
        assert errors.max() <= 1


def test_the_documented_table_is_complete_and_keeps_the_promises() -> None:
    text = (Path(__file__).parents[2] / "docs" / "accuracy.md").read_text(encoding="utf-8")
    samples = text.split("### Samples")[1].split("### All arguments")[0]
    header, *body = (line.strip("| \n").split(" | ") for line in samples.splitlines() if line.startswith("| "))
    assert {(row[0], row[1]) for row in body} == {(name, str(dtype)) for name in PROMISES for dtype in (F32, F64)}
    for row in body:
        cells = dict(zip(header, row, strict=True))
        promised = max_ulp(cells["function"], F32 if cells["dtype"] == "f32" else F64)
        assert float(cells["promised"]) == promised
        for choice in ("x86-64", "x86-64-v3", "x86-64-v4"):
            assert float(cells[choice]) <= promised

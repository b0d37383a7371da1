"""Every scalar operation against plain Python: special values, every dtype, monoid laws, derivatives, refusals."""

from __future__ import annotations

import itertools
import math
import re
import threading

import numpy as np
import pytest
from programs import reduction_dtypes, signatures, special_values
from scalar_expectations import BY_SERIES, EXPECTED, FUNCTIONS, wrap

from benchmarks.exact import ARGUMENTS, exact_values
from tcp_eqsat.codegen.vector_math.accuracy import error_floor
from tcp_eqsat.errors import TypeMismatch, UnknownName
from tcp_eqsat.lang.narrow import convert_array, widened
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.ops.elementwise import scalar_vjp
from tcp_eqsat.lang.program import Function, Program
from tcp_eqsat.lang.scalar import (
    NOT_DIFFERENTIABLE,
    SCALAR_OPS,
    ScalarFunction,
    ScalarOp,
    apply,
    encode_number,
    evaluate_op,
    find_scalar_op,
    function_of,
    literal,
    parameter,
    scalar_op,
    scalar_op_named,
)
from tcp_eqsat.lang.scalars.rounding import reduce_precision
from tcp_eqsat.lang.text import parse, write
from tcp_eqsat.lang.types import (
    BF16,
    BOOL,
    DTYPES,
    F16,
    F32,
    F64,
    I8,
    I32,
    I64,
    U8,
    U64,
    DType,
    TensorType,
    is_float_array,
)

COMPLEX = ("complex", "real", "imag", "conj", "astype_c64", "astype_c128")
"""Operations of complex numbers: tests/lang/test_complex.py."""
OPERATIONS = tuple(op for op in SCALAR_OPS.values() if op.name not in COMPLEX)
ULPS = {F16: 1, BF16: 1, F32: 1, F64: 4}
"""How far NumPy's double-precision functions may be from the C library's; others are rounded from double precision."""


def named(op: ScalarOp) -> str:
    return op.name


def grid(dtypes: tuple[DType, ...]) -> list[np.ndarray]:
    """All combinations of special values; of many, some."""
    every = [x.reshape(-1) for x in np.meshgrid(*map(special_values, dtypes), indexing="ij")]
    return [x[:: max(1, x.size // 5003)] for x in every]


def to_dtype(value: object, dtype: DType) -> np.generic:
    if dtype.bits in (32, 64) or not dtype.is_float:
        with np.errstate(all="ignore"):
            return np.array(value).astype(dtype.numpy)[()] if dtype.is_float else np.array(value, dtype.numpy)[()]
    return convert_array(np.array(float(value)), dtype)[()]


def bits(array: np.ndarray) -> np.ndarray:
    """Bit patterns with one NaN, so that -0 differs from 0."""
    found = array.view(f"u{array.dtype.itemsize}")
    return np.where(np.isnan(array), np.full_like(array, np.nan).view(found.dtype), found) if is_float_array(
        array) else found


def ulps_apart(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Steps between floats of equal sign; 0 for two NaNs, infinitely many between NaN and a number."""
    ordered = [np.where(b >> (8 * b.dtype.itemsize - 1), -(b << 1 >> 1).astype(np.float64), b.astype(np.float64))
               for b in (bits(x), bits(y))]
    gap = np.abs(ordered[0] - ordered[1])
    return np.where(np.isnan(x) != np.isnan(y), np.inf, gap)


def test_every_scalar_operation_has_an_expectation():
    assert set(EXPECTED) | set(FUNCTIONS) | set(BY_SERIES) == {op.name for op in OPERATIONS}
    assert len(EXPECTED) + len(FUNCTIONS) + len(BY_SERIES) == len(OPERATIONS)


@pytest.mark.parametrize("name", BY_SERIES)
def test_references_of_special_functions_are_what_mpmath_computes(name):
    operands = ARGUMENTS[name](np.random.default_rng(3), 24)
    expected, _ = exact_values(name, *operands)
    found = evaluate_op(SCALAR_OPS[name], F64, *operands)
    floor = max(error_floor(name, F64), 1e-300)
    np.testing.assert_allclose(found / np.maximum(floor, abs(expected)), expected / np.maximum(floor, abs(expected)),
                               rtol=0, atol=4e-15)


@pytest.mark.parametrize("op", [op for op in OPERATIONS if op.name not in BY_SERIES], ids=named)
def test_reference_is_what_python_computes(op):
    expectation = EXPECTED.get(op.name) or FUNCTIONS[op.name]
    assert signatures(op)
    for dtypes in signatures(op):
        operands = grid(dtypes)
        dtype = op.result_dtype(*dtypes)
        found = evaluate_op(op, dtype, *operands)
        assert found.dtype == dtype.numpy and found.shape == operands[0].shape
        expected = np.array([to_dtype(expectation(dtypes[-1], *(widened(x).item() for x in row)), dtype)
                             for row in zip(*operands, strict=True)], dtype.numpy)
        if op.name in EXPECTED or not dtype.is_float:
            wrong = bits(found) != bits(expected)
        else:
            sign = (np.signbit(found) != np.signbit(expected)) & ~np.isnan(expected)
            wrong = (ulps_apart(found, expected) > ULPS[dtype]) | sign
        rows = [(*(x[n] for x in operands), found[n], expected[n]) for n in np.flatnonzero(wrong)[:5]]
        assert not rows, f"{op.name}{tuple(map(str, dtypes))}: operands, found, expected: {rows}"


@pytest.mark.parametrize("op", OPERATIONS, ids=named)
def test_reference_of_scalars_empties_and_broadcasts(op):
    dtypes = signatures(op)[-1]
    dtype = op.result_dtype(*dtypes)
    operands = grid(dtypes)
    whole = evaluate_op(op, dtype, *operands)
    assert bits(whole[-3:]).tolist() == [bits(evaluate_op(op, dtype, *(x[n] for x in operands))).item()
                                         for n in (-3, -2, -1)]
    empty = evaluate_op(op, dtype, *(np.empty((0, 2), d.numpy) for d in dtypes))
    assert empty.shape == (0, 2) and empty.dtype == dtype.numpy
    function = function_of(op, *dtypes)
    assert bits(function.evaluate(*operands)).tolist() == bits(whole).tolist()


def test_references_leave_the_floating_point_environment_alone():
    before = np.geterr()
    for op in OPERATIONS:
        dtypes = signatures(op)[-1]
        evaluate_op(op, op.result_dtype(*dtypes), *grid(dtypes))
    assert np.geterr() == before


@pytest.mark.parametrize("op", [op for op in OPERATIONS if op.commutative], ids=named)
def test_commutative_operations_commute(op):
    for dtypes in signatures(op):
        x, y = grid(dtypes)
        dtype = op.result_dtype(*dtypes)
        assert (bits(evaluate_op(op, dtype, x, y)) == bits(evaluate_op(op, dtype, y, x))).all()


def test_operations_that_commute_say_so():
    for op in OPERATIONS:
        if op.arity == 2 and op.name in EXPECTED and not op.commutative:
            witnesses = [d for d in signatures(op) if (bits(evaluate_op(op, op.result_dtype(*d), *grid(d))) != bits(
                evaluate_op(op, op.result_dtype(*d), *reversed(grid(d))))).any()]
            assert witnesses, f"{op.name} commutes on all special values"


@pytest.mark.parametrize("op", [op for op in OPERATIONS if op.identity], ids=named)
def test_start_values_change_nothing(op):
    assert reduction_dtypes(op)
    for dtype in reduction_dtypes(op):
        x = special_values(dtype)
        start = np.full_like(x, op.identity(dtype))
        found = evaluate_op(op, dtype, start, x)
        if op.name == "add" and dtype.is_float:
            x = (x + 0).astype(x.dtype)  # sums start at +0
        assert (bits(found) == bits(x)).all()


@pytest.mark.parametrize("op", [op for op in OPERATIONS if op.identity], ids=named)
def test_reductions_are_by_associative_operations(op):
    for dtype in reduction_dtypes(op):
        if dtype.is_float and op.name in ("add", "multiply"):
            continue  # up to rounding, which is free
        x, y, z = grid((dtype, dtype, dtype))
        left = evaluate_op(op, dtype, evaluate_op(op, dtype, x, y), z)
        right = evaluate_op(op, dtype, x, evaluate_op(op, dtype, y, z))
        assert (bits(left) == bits(right)).all()


# Derivatives

DOMAINS = {
    "log10": (0.2, 3), "acosh": (1.2, 3), "atanh": (-0.8, 0.8), "erf_inv": (-0.8, 0.8), "asin": (-0.8, 0.8),
    "acos": (-0.8, 0.8), "lgamma": (0.2, 3), "digamma": (0.2, 3), "zeta": (1.5, 4), "polygamma": (1.0, 4),
    "igamma": (0.3, 3), "igammac": (0.3, 3), "igamma_grad_a": (0.3, 3), "log": (0.2, 3), "log2": (0.2, 3),
    "log1p": (-0.7, 3), "sqrt": (0.2, 3), "rsqrt": (0.2, 3), "pow": (0.3, 2),
}
"""Where an operation is smooth, if not everywhere but near multiples of 1/2."""
CONSTANT = {"zeta": 0, "polygamma": 0, "igamma_grad_a": 0, "copysign": 1}
"""Operands that get no cotangent, as the documentation says."""
LIKE_IDENTITY = ("nextafter", "bitcast_f64", *(name for name in SCALAR_OPS if name.startswith("reduce_precision")))
"""Steps and bits: their cotangents are none, or what the operation makes of the cotangent."""


def smooth_points(op: ScalarOp, dtypes: tuple[DType, ...], count: int = 64) -> list[np.ndarray]:
    random = np.random.default_rng(len(op.name))
    low, high = DOMAINS.get(op.name, (-3, 3))
    points = []
    for dtype in dtypes:
        if dtype is BOOL:
            points.append(random.integers(0, 2, count).astype(bool))
        else:
            whole, rest = np.divmod(2 * random.uniform(low, high, count), 1)
            points.append((whole + 0.1 + 0.8 * rest) / 2)
    return points


@pytest.mark.parametrize("op", OPERATIONS, ids=named)
def test_derivative_is_the_limit_of_difference_quotients(op):
    signature = next((d for d in signatures(op) if F64 in d and set(d) <= {F64, BOOL}), None)
    if signature is None or op.result_dtype(*signature) not in (F32, F64):
        assert op.derivative is NOT_DIFFERENTIABLE or op.name.startswith("astype_")
        return
    if op.name in LIKE_IDENTITY:
        expected = (evaluate_op(op, F64, np.array(0.1)),) if op.arity == 1 else ()
        assert op.derivative is NOT_DIFFERENTIABLE or [part.evaluate(np.array(0.1), np.array(0.7)) for part in
                                                       scalar_vjp(function_of(op, F64))] == list(expected)
        return
    dtype = op.result_dtype(*signature)
    x = smooth_points(op, signature)
    if op.name == "polygamma":
        x[0] = np.round(x[0])
    parts = scalar_vjp(function_of(op, *signature))
    g = np.random.default_rng(1).standard_normal(x[0].shape).astype(dtype.numpy)
    h = 1e-6 if dtype is F64 else 0.02
    for n, part in enumerate(parts):
        if signature[n] is BOOL:
            assert part is None
            continue
        if CONSTANT.get(op.name) == n:
            assert part is None
            continue
        above, below = ([v + h * sign if i == n else v for i, v in enumerate(x)] for sign in (1, -1))
        slope = (evaluate_op(op, dtype, *above).astype(np.float64) - evaluate_op(op, dtype, *below)) / (2 * h)
        if part is None:
            assert (slope == 0).all()
            continue
        found = part.evaluate(g, *x)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, g * slope, rtol=1e-6 if dtype is F64 else 1e-4, atol=1e-7)


@pytest.mark.parametrize(("name", "operands", "expected"), [
    ("pow", (0.0, 2.0), (0.0, 0.0)),
    ("pow", (3.0, 0.0), (0.0, math.log(3))),
    ("pow", (0.0, 0.0), (0.0, 0.0)),
    ("pow", (-2.0, 3.0), (12.0, None)),
    ("maximum", (1.0, 1.0), (0.5, 0.5)),
    ("maximum", (math.inf, 1.0), (1.0, 0.0)),
    ("minimum", (2.0, 2.0), (0.5, 0.5)),
    ("abs", (0.0,), (0.0,)),
    ("logistic", (1000.0,), (0.0,)),
    ("tanh", (-1000.0,), (0.0,)),
    ("where", (True, 1.0, math.nan), (None, 1.0, 0.0)),
])
def test_derivative_where_care_is_needed(name, operands, expected):
    dtypes = tuple(BOOL if isinstance(x, bool) else F64 for x in operands)
    parts = scalar_vjp(function_of(scalar_op_named(name), *dtypes))
    for part, value in zip(parts, expected, strict=True):
        if value is not None:
            assert part.evaluate(np.array(1.0), *map(np.array, operands)) == pytest.approx(value)


def test_an_infinite_cotangent_does_not_leak_to_the_loser():
    parts = scalar_vjp(function_of(scalar_op_named("maximum"), F64, F64))
    found = [part.evaluate(np.array(math.inf), np.array(2.0), np.array(1.0)) for part in parts]
    assert found == [math.inf, 0]


def test_derivative_of_a_composed_function():
    x, y = parameter(0, F64), parameter(1, F64)
    function = ScalarFunction((F64, F64), apply("tanh", x * y + apply("exp", x)) / (apply("square", y) + 1.5))
    a, b, g = 0.3, -0.7, 1.7
    dx, dy = (part.evaluate(*map(np.array, (g, a, b))) for part in scalar_vjp(function))
    t = math.tanh(a * b + math.exp(a))
    inner = (1 - t * t) / (b * b + 1.5)
    assert dx == pytest.approx(g * inner * (b + math.exp(a)))
    assert dy == pytest.approx(g * (inner * a - t * 2 * b / (b * b + 1.5) ** 2))


# Refusals


@pytest.mark.parametrize("op", OPERATIONS, ids=named)
def test_other_dtypes_are_refused_by_name(op):
    accepted = set(signatures(op))
    for dtypes in itertools.product((BOOL, I8, I64, U8, F32, F64), repeat=op.arity):
        if dtypes not in accepted:
            with pytest.raises(TypeMismatch, match=rf"^{op.name} requires .*, got .*{dtypes[0]}|condition|branches"):
                op.result_dtype(*dtypes)
    with pytest.raises(TypeMismatch, match=rf"{op.name} requires {op.arity} operands, got {op.arity + 1}"):
        op.result_dtype(*(F32,) * (op.arity + 1))


def test_tables_refuse_duplicates_and_gaps():
    with pytest.raises(ValueError, match="add is defined twice"):
        scalar_op("add", "x y", doc="Sum.")
    with pytest.raises(ValueError, match="no documentation"):
        scalar_op("brand_new", "x", doc=" ")
    with pytest.raises(TypeError):
        scalar_op("brand_new", "x", doc="Lacks everything else.")
    assert "brand_new" not in SCALAR_OPS
    with pytest.raises(UnknownName, match="unknown scalar operation 'plus'"):
        scalar_op_named("plus")


def test_operations_with_numbers_in_their_names_come_when_asked_for():
    op = find_scalar_op("reduce_precision_e6m2")
    assert op is scalar_op_named("reduce_precision_e6m2") is reduce_precision(6, 2)
    assert evaluate_op(op, F64, np.array([1.3, -1e30, 1e-30])).tolist() == [1.25, -math.inf, 0.0]
    for name in ("reduce_precision_e0m2", "reduce_precision_e12m2", "reduce_precision_e5m53", "reduce_precision_e05m2"):
        assert find_scalar_op(name) is None
        with pytest.raises(UnknownName, match=f"unknown scalar operation '{name}'"):
            scalar_op_named(name)


@pytest.mark.parametrize("op", [*OPERATIONS, reduce_precision(6, 3)], ids=named)
def test_text_round_trip(op):
    dtypes = signatures(op)[-1]
    operands = tuple(builders.parameter(f"x{n}", n, TensorType(dtype, (3,))) for n, dtype in enumerate(dtypes))
    program = Program({"f": Function("f", operands, (builders.map_scalar(op, *operands),))})
    text = write(program)
    assert op.name in text
    assert write(parse(text)) == text
    assert parse(text).main.results[0] is program.main.results[0]


# Literals and interning


@pytest.mark.parametrize(("value", "dtype", "message"), [
    (300, U8, "must be in 0..255, got 300"), (-1, U64, "must be in 0..18446744073709551615, got -1"),
    (1.5, I32, "must be an integer, got 1.5"), (math.nan, I32, "must be an integer, got nan"),
    (math.inf, I64, "must be an integer, got inf"), (2, BOOL, "must be in 0..1, got 2"),
    (1 << 63, I64, "must be in -9223372036854775808..9223372036854775807"),
])
def test_literals_that_do_not_fit(value, dtype, message):
    with pytest.raises(TypeMismatch, match=re.escape(message)):
        literal(value, dtype)


@pytest.mark.parametrize(("value", "dtype", "expected"), [
    (0.1, F32, np.float32(0.1)), (1e39, F32, np.inf), (-1e39, F32, -np.inf),
    pytest.param(10**400, F64, np.inf, id="huge"), pytest.param(-(10**400), F32, -np.inf, id="huge negative"),
    (2.0, U8, 2), (np.int8(-3), I64, -3), (True, F32, 1.0), ((1 << 64) - 1, U64, 2**64 - 1),
    (np.float32(0.1), F64, float(np.float32(0.1))), (True, BOOL, True),
])
def test_literals(value, dtype, expected):
    found = literal(value, dtype).value
    assert found == expected and found.dtype == dtype.numpy


def test_literals_are_kept_by_their_bits():
    assert literal(0.0, F32) is not literal(-0.0, F32)
    assert literal(math.nan, F32) is literal(-np.float32(np.nan), F32)
    assert literal(1, F32) is literal(1.0, F32) and literal(1, F32) is not literal(1, F64)
    assert encode_number(-math.nan, F64) == np.array(np.nan).tobytes()


def test_equal_expressions_are_one_object_however_many_there_are():
    x = parameter(0, F64)
    kept = x * 0.5 + 0.25
    for n in range(100_000):
        literal(n, F64)
    assert x * 0.5 + 0.25 is kept
    assert ScalarFunction((F64,), kept) == ScalarFunction((F64,), x * 0.5 + 0.25)
    assert kept is not x * 0.25 + 0.5


def test_interning_holds_between_threads():
    x = parameter(0, F64)
    found: list[list[object]] = [[] for _ in range(8)]
    barrier = threading.Barrier(8)

    def build(mine: list[object]) -> None:
        barrier.wait()
        mine.extend(x * (n + 0.125) for n in range(300))

    threads = [threading.Thread(target=build, args=(mine,)) for mine in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(row == found[0] for row in found)


def test_operators_on_expressions():
    x = parameter(0, F64)
    value = ScalarFunction((F64,), -(2 - x) / (x + 1) + 3 * x - 1 / x).evaluate(np.array([0.5, 4.0]))
    np.testing.assert_allclose(value, [-1.5 / 1.5 + 1.5 - 2, 2 / 5 + 12 - 0.25])


@pytest.mark.parametrize("dtype", [d for d in DTYPES.values() if d.is_integer], ids=str)
def test_wrapping_in_the_expectations(dtype):
    for number in (0, 1, -1, 127, 128, 255, 256, 1 << 63, -(1 << 63), (1 << 64) - 1):
        assert wrap(number, dtype) == np.array(number % (1 << 64), np.uint64).astype(dtype.numpy)

"""Every scalar operation of the table as compiled code against its reference, at special and random values."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from programs import EXACT, signatures, special_values

from tcp_eqsat.codegen.array_function import ArrayFunction
from tcp_eqsat.codegen.target import available_targets, cpu_target
from tcp_eqsat.codegen.vector_math.accuracy import PROMISES, error_floor, max_ulp, ulp_errors
from tcp_eqsat.lang.scalar import SCALAR_OPS, ScalarOp, evaluate_op
from tcp_eqsat.lang.types import BOOL, F32, F64, DType

TARGETS = [choice for choice in available_targets() if choice != "native"]
WIDE = {dtype for op in SCALAR_OPS.values() for dtypes in signatures(op) for dtype in dtypes
        if not dtype.is_narrow_float and not dtype.storage_only}
"""f16 and bf16 have tests of their own."""
OPERATIONS = [op for op in SCALAR_OPS.values() if any(
    set(dtypes) <= WIDE and not op.result_dtype(*dtypes).is_complex for dtypes in signatures(op))]
UNBOUNDED = {"zeta", "polygamma", "igamma_grad_a"}
"""What has promises over ranges only that special values leave."""


def random_values(dtype: DType, count: int) -> np.ndarray:
    random = np.random.default_rng(dtype.bits)
    if dtype is BOOL:
        return random.integers(0, 2, count).astype(bool)
    if dtype.is_float:
        sizes = np.exp(random.uniform(-3, 3, count)) * random.choice([-1.0, 1.0], count)
        return np.concatenate([sizes, random.uniform(-1, 1, count)]).astype(dtype.numpy)[::2]
    whole = random.integers(0, 1 << 63, count, dtype=np.uint64).astype(dtype.numpy)
    return np.where(random.integers(0, 2, count) == 0, whole, (whole % 70).astype(dtype.numpy))


@functools.cache
def operands(dtypes: tuple[DType, ...]) -> tuple[np.ndarray, ...]:
    """Some of the combinations of special values, and random numbers; an odd number of them."""
    special = [grid.ravel() for grid in np.meshgrid(*map(special_values, dtypes), indexing="ij")]
    step = max(1, special[0].size // 1009)
    drawn = [np.roll(random_values(dtype, 400), 7 * n) for n, dtype in enumerate(dtypes)]
    joined = [np.concatenate([x[::step], more]) for x, more in zip(special, drawn, strict=True)]
    return tuple(x[: x.size - (x.size % 2 == 0)] for x in joined)


def positive(op: ScalarOp, arrays: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """The operands, without those where the terms of polygamma's sum nearly cancel."""
    if op.name != "polygamma":
        return arrays
    kept = ~((arrays[0] > 5) & (arrays[1] < 0))
    return tuple(x[kept] for x in arrays)


def disagreements(op: ScalarOp, dtype: DType, found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Where the compiled result is not what it may be."""
    nan = np.isnan(expected) if dtype.is_float else np.zeros(expected.shape, bool)
    same = (found == expected) | (nan & np.isnan(found) if dtype.is_float else nan)
    if op.name in EXACT or not dtype.is_float:
        signs = np.signbit(found) == np.signbit(expected) if dtype.is_float else True
        return ~(same & (signs | nan))
    if op.name in UNBOUNDED:
        tolerance = 1e-6 if dtype is F32 else 1e-9
        return ~np.isclose(found, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
    # The reference is rounded once too, and in f64 a few units off.
    slack = 1.0 if dtype is F32 else 4.0
    errors = ulp_errors(found, expected, dtype, floor=error_floor(op.name, dtype))
    return ~same & (errors > max_ulp(op.name, dtype) + slack)


@pytest.mark.parametrize("op", OPERATIONS, ids=lambda op: op.name)
def test_compiled_code_computes_the_reference(op: ScalarOp) -> None:
    assert op.name in EXACT or op.name in PROMISES
    for dtypes in signatures(op):
        if not set(dtypes) <= WIDE:
            continue
        arrays = positive(op, operands(dtypes))
        result = op.result_dtype(*dtypes)
        if result.is_complex or result.storage_only or result.is_narrow_float:
            continue
        expected = evaluate_op(op, result, *arrays)
        # Integers and conversions on one target, floats on every one.
        for choice in TARGETS if set(dtypes) & {F32, F64} and not op.name.startswith("astype_") else TARGETS[-1:]:
            target = cpu_target(choice)
            lanes = target.lanes(max(dtypes, key=lambda dtype: dtype.bits))
            function = ArrayFunction(op.emit, dtypes, result, target, lanes)
            for size in (0, 1, arrays[0].size):
                found = function(*(x[:size] for x in arrays))
                assert found.dtype == result.numpy and found.shape == (size,)
                wrong = np.flatnonzero(disagreements(op, result, found, expected[:size]))[:3]
                rows = [(*(x[n] for x in arrays), found[n], expected[n]) for n in wrong]
                assert not rows, f"{op.name}{tuple(map(str, dtypes))} on {choice}: operands, found, expected: {rows}"

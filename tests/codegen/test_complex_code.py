"""Scalar operations that take or give complex numbers, and bitcasts, compiled: against the references of their parts.

`tests/lang/test_complex.py` compares the parts with what NumPy computes.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from programs import special_values

import tcp_eqsat as tcp
from tcp_eqsat.compare import compare
from tcp_eqsat.errors import TypeMismatch
from tcp_eqsat.lang.complex_functions import function_parts
from tcp_eqsat.lang.dims import symbol
from tcp_eqsat.lang.narrow import widened
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.program import Function
from tcp_eqsat.lang.reference import evaluate
from tcp_eqsat.lang.scalar import SCALAR_OPS, ScalarOp, function_of
from tcp_eqsat.lang.types import C64, C128, DTYPES, NAMED_DTYPES, DType, TensorType

PARTS = (0.0, -0.0, 1.0, -1.5, 0.3, 2.0**-40, -7.0, 1e4, np.inf, -np.inf, np.nan)
NUMBERS = np.array([complex(a, b) for a, b in itertools.product(PARTS, PARTS)])
COMPLEX = (C64, C128)
N = symbol("n")


def complex_signatures(op: ScalarOp) -> list[tuple[DType, ...]]:
    """Operand dtypes with a complex number among them or as result."""
    found = []
    for dtypes in itertools.product(NAMED_DTYPES.values(), repeat=op.arity):
        try:
            result = op.result_dtype(*dtypes)
        except TypeMismatch:
            continue
        if any(d.is_complex for d in (*dtypes, result)) and not any(
                d.storage_only or d.is_narrow_float for d in dtypes):
            found.append(dtypes)
    return found


def operands(dtypes: tuple[DType, ...]) -> list[np.ndarray]:
    """Some combinations of special numbers, an odd number of them."""
    each = [NUMBERS.astype(d.numpy) if d.is_complex else special_values(d) for d in dtypes]
    grid = [x.ravel() for x in np.meshgrid(*each, indexing="ij")]
    step = max(1, grid[0].size // 301)
    return [np.ascontiguousarray(x[::step][: 2 * (x[::step].size // 2) - 1]) for x in grid]


def by_parts(op: ScalarOp, dtypes: tuple[DType, ...], arrays: list[np.ndarray]) -> np.ndarray:
    """The result by the references of what the operation is on real and imaginary parts."""
    flat = [part for x in arrays for part in ((x.real, x.imag) if x.dtype.kind == "c" else (x,))]
    parts = [np.asarray(f.evaluate(*flat)) for f in function_parts(function_of(op, *dtypes))]
    return parts[0] if len(parts) == 1 else np.stack(parts)


@pytest.mark.parametrize("op", [op for op in SCALAR_OPS.values() if complex_signatures(op)], ids=lambda op: op.name)
def test_operations_on_complex_numbers(op: ScalarOp) -> None:
    known = complex_signatures(op)
    names = [(f"x{n}_{i}", d) for n, dtypes in enumerate(known) for i, d in enumerate(dtypes)]
    nodes = [builders.parameter(name, n, TensorType(d, (N,))) for n, (name, d) in enumerate(names)]
    left = iter(nodes)
    results = tuple(builders.map_scalar(op, *(next(left) for _ in dtypes)) for dtypes in known)
    compiled = tcp.compile(Function("f", tuple(nodes), results), budget=tcp.Budget(iterations=1))
    each = [operands(dtypes) for dtypes in known]
    longest = min(x.size for arrays in each for x in arrays)
    for count in (0, 1, longest):
        cut = [[x[len(x) - count:] for x in arrays] for arrays in each]
        found = compiled(*(x for arrays in cut for x in arrays))
        for dtypes, arrays, z in zip(known, cut, found if isinstance(found, tuple) else (found,), strict=True):
            expected = by_parts(op, dtypes, arrays)
            z = np.stack((z.real, z.imag)) if z.dtype.kind == "c" else z
            for n in range(count):  # one by one: the tolerance of an array is that of its median
                if op.name == "pow" and not np.isfinite(expected[..., n]).all():
                    continue  # its error grows with the exponent: near overflow, and in the angle of an infinity
                outcome = compare(z[..., n], expected[..., n])
                assert outcome.agrees, (list(map(str, dtypes)), [x[n] for x in arrays], z[..., n], expected[..., n])


def test_every_bitcast() -> None:
    """All pairs of dtypes of a width, over every value of 8 bits and special values of more."""
    pairs = [(x, y) for x, y in itertools.product(DTYPES.values(), repeat=2)
             if x.bits == y.bits and x != y and "bool" not in (x.name, y.name)]
    sources = list(dict.fromkeys(x for x, _ in pairs))
    nodes = {d: builders.parameter(f"x_{d}", n, TensorType(d, (N,))) for n, d in enumerate(sources)}
    results = tuple(builders.map_scalar(SCALAR_OPS[f"bitcast_{y}"], nodes[x]) for x, y in pairs)
    function = Function("f", tuple(nodes.values()), results)
    compiled = tcp.compile(function, budget=tcp.Budget(iterations=1))
    arrays = [np.random.default_rng(d.bits).integers(0, 256, 251 * d.bytes, np.uint8).view(d.numpy) if d.bits >= 8
              else (np.arange(251, dtype=np.uint8) % (1 << d.bits)).view(d.numpy) for d in sources]
    for count in (0, 1, 251):
        given = [x[:count] for x in arrays]
        for (x, y), found, expected in zip(pairs, compiled(*given), evaluate(function, given), strict=True):
            raw = given[sources.index(x)].tobytes()
            assert found.dtype == y.numpy and found.tobytes() == expected.tobytes() == raw
            assert widened(found).shape == (count,)

"""Operations with a procedure: it does what the reference says, over all of them; texts, types and derivatives are in
`test_ops`, meanings below against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from programs import functions_of, single_operation

from tcp_eqsat.lang.op import OPS, PROCEDURAL
from tcp_eqsat.lang.ops.structure import expand
from tcp_eqsat.lang.procedural import run
from tcp_eqsat.lang.program import walk
from tcp_eqsat.lang.reference import evaluate_nodes
from tcp_eqsat.lang.types import TensorType

STRUCTURED = [name for name, op in OPS.items() if op.pointful is PROCEDURAL]
ROUNDED = frozenset(("overlap_add", "cholesky", "triangular_solve", "fft"))
"""Procedures that round otherwise than their references."""
LARGEST = 600


def same(x: np.ndarray, y: np.ndarray) -> bool:
    """Equal bits but for NaNs."""
    signs = np.signbit(x) == np.signbit(y) if x.dtype.kind == "f" else True
    return x.dtype == y.dtype and x.shape == y.shape and bool((((x == y) & signs) | ((x != x) & (y != y))).all())


@pytest.mark.parametrize("name", STRUCTURED)
def test_procedure_is_the_reference(name):
    seen = 0
    for seed in range(40):
        sample = single_operation(seed, name, max_rank=4, stable=name in ROUNDED)
        sizes = sample.sizes(seed)
        arrays = sample.arrays(seed, "tame" if name in ROUNDED or seed % 2 else "nasty")
        roots = tuple(x for x in expand(sample.function.results).values() if isinstance(x.type, TensorType))
        known = evaluate_nodes(roots, dict(zip(sample.function.parameters, arrays, strict=True)), sizes)
        for node in walk(roots):
            if node.op.name != name or sum(known[x].size for x in node.operands) > LARGEST:
                continue
            results = (node.type,) if isinstance(node.type, TensorType) else node.type.items
            procedure = node.op.procedure(node.attributes, tuple(x.type for x in node.operands), results)
            found = run(procedure, [known[x] for x in node.operands], sizes)
            expected = (known[node],) if isinstance(node.type, TensorType) else known[node]
            inexact = name in ROUNDED or any(
                not x.op.name.startswith(("astype", "bitwise")) for f in functions_of(node.attributes)
                for x in f.walk() if hasattr(x, "op"))
            for got, wanted in zip(found, expected, strict=True):
                assert same(got, wanted) or (inexact and np.allclose(
                    got, wanted, rtol=1e-4, atol=1e-5, equal_nan=True)), (seed, node.attributes, got, wanted)
            seen += any(x.size for x in expected)
    assert seen > 8

"""Square blocks transposed in registers, and kernels that load them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from test_compile import B, check, product

from tcp_eqsat.codegen.llvm_transpose import transpose
from tcp_eqsat.codegen.target import CpuTarget, available_targets, cpu_target
from tcp_eqsat.lang.types import F32, F64, I32, U8, DType

TARGETS = [replace(cpu_target(choice), l1_bytes=0, l2_bytes=0) for choice in available_targets()]


@dataclass
class Vector:
    elements: np.ndarray
    dtype: DType

    @property
    def lanes(self) -> int:
        return len(self.elements)


class Shuffles:
    """A builder of numbers."""

    def shuffle(self, x: Vector, y: Vector, chosen: list[int]) -> Vector:
        assert len(chosen) == x.lanes == y.lanes
        return Vector(np.concatenate([x.elements, y.elements])[chosen], x.dtype)


@pytest.mark.parametrize(("dtype", "lanes"), [
    (F32, 4), (F32, 8), (F32, 16), (F64, 2), (F64, 4), (F64, 8), (I32, 16), (U8, 16), (U8, 32), (U8, 64)])
def test_lanes_and_vectors_change_places(dtype: DType, lanes: int) -> None:
    block = np.arange(lanes * lanes).reshape(lanes, lanes)
    found = transpose(Shuffles(), [Vector(row, dtype) for row in block])  # type: ignore[arg-type, list-item]
    np.testing.assert_array_equal([x.elements for x in found], block.T)


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("dtype", ["f32", "f64", "i32"])
def test_columns_that_lie_apart(dtype: str, target: CpuTarget) -> None:
    """Whole blocks, ragged ones in either direction, and fewer steps than lanes."""
    for m, n, k in ((40, 64, 64), (33, 70, 37), (64, 16, 16), (40, 131, 15), (35, 9, 3), (33, 1, 20), (40, 129, 17)):
        function = check(product(m, n, k, dtype, rhs="nk"), tolerance=0.0 if dtype == "i32" else 1e-4, target=target)
        if k >= 16 and n >= 16:
            assert "shufflevector" in function.llvm
    check(product(B, 70, 37, dtype, rhs="nk"), *({"b": n} for n in (0, 1, 31, 32, 64, 100)),
          tolerance=0.0 if dtype == "i32" else 1e-4, target=target)
    check(product(40, B, 37, dtype, rhs="nk"), *({"b": n} for n in (0, 1, 16, 31, 64, 100)),
          tolerance=0.0 if dtype == "i32" else 1e-4, target=target)

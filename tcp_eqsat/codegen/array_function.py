"""One scalar expression applied to whole arrays: for accuracy sweeps, tests and microbenchmarks."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np

from tcp_eqsat.codegen.jit import compile_module
from tcp_eqsat.codegen.llvm_text import LLVMValue, memory_type
from tcp_eqsat.codegen.llvm_values import LLVMBuilder
from tcp_eqsat.codegen.target import CpuTarget
from tcp_eqsat.lang.types import DType

_NAME = "array_function"


class ArrayFunction:
    """Compiled code that applies an expression to equally long one-dimensional arrays.

    `emit(builder, *operands)` gives the value of `lanes` adjacent elements, of dtype `result`.
    """

    def __init__(
        self,
        emit: Callable[..., LLVMValue],
        operands: tuple[DType, ...],
        result: DType,
        target: CpuTarget,
        lanes: int,
    ) -> None:
        self.operands = operands
        self.result = result
        self.lanes = lanes
        self.module = compile_module(_loop(emit, operands, result, target, lanes), target)
        pointers = [ctypes.c_void_p] * (len(operands) + 1)
        self._call = ctypes.CFUNCTYPE(None, *pointers, ctypes.c_int64)(self.module.address(_NAME))

    def __call__(self, *arrays: np.ndarray) -> np.ndarray:
        """The results, an array as long as each of `arrays`."""
        count = arrays[0].size
        padded = -(-count // self.lanes) * self.lanes
        prepared = [
            np.concatenate([np.asarray(array, dtype.numpy).ravel(), np.zeros(padded - count, dtype.numpy)])
            for array, dtype in zip(arrays, self.operands, strict=True)
        ]
        out = np.empty(padded, self.result.numpy)
        self.run(padded, *prepared, out)
        return out[:count]

    def run(self, count: int, *arrays: np.ndarray) -> None:
        """Computes `count` elements, a multiple of the lanes, of contiguous arrays into the last of them."""
        if count:
            self._call(*(array.ctypes.data for array in arrays), count)


def _loop(
    emit: Callable[..., LLVMValue],
    operands: tuple[DType, ...],
    result: DType,
    target: CpuTarget,
    lanes: int,
) -> str:
    builder = LLVMBuilder(target, lanes)
    loaded = []
    for number, dtype in enumerate(operands):
        builder.line(f"  %at{number} = getelementptr {memory_type(dtype)}, ptr %in{number}, i64 %i")
        loaded.append(builder.load(f"%at{number}", dtype))
    value = emit(builder, *loaded)
    builder.line(f"  %place = getelementptr {memory_type(result)}, ptr %out, i64 %i")
    builder.store(value, "%place")
    parameters = ", ".join(f"ptr noalias %in{number}" for number in range(len(operands)))
    return "\n".join(
        [
            f"define void @{_NAME}({parameters}, ptr noalias %out, i64 %count) {{",
            "entry:",
            "  br label %loop",
            "loop:",
            "  %i = phi i64 [0, %entry], [%next, %loop]",
            *builder.lines,
            f"  %next = add i64 %i, {lanes}",
            "  %more = icmp ult i64 %next, %count",
            "  br i1 %more, label %loop, label %done",
            "done:",
            "  ret void",
            "}",
            *builder.declarations.values(),
            "",
        ]
    )

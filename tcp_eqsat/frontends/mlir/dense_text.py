"""Literals as text: what `literals` reads back to the same bits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tcp_eqsat.frontends.mlir.elements import element_text
from tcp_eqsat.lang.program import TensorData
from tcp_eqsat.lang.types import Shape, TensorType, dtype_of

_MOST_NUMBERS = 64
"""Elements of a constant that is spelt as numbers; larger ones are spelt as bytes."""


def type_text(type_: TensorType) -> str:
    """`tensor<?x16xf32>`, every symbolic size a `?`."""
    sizes = "".join(f"{size if isinstance(size, int) else '?'}x" for size in type_.shape)
    return f"tensor<{sizes}{element_text(type_.dtype)}>"


def dense_text(data: TensorData) -> str:
    """`dense<...> : type`: nested lists, one number for all, or the bytes of a large constant."""
    array = data.array
    if data.is_splat:
        body = _number_text(array.reshape(-1)[0, ...])
    elif array.size <= _MOST_NUMBERS or array.dtype.kind == "b":
        body = _nested_text(array)
    else:
        little = array.astype(array.dtype.newbyteorder("<"))
        body = f'"0x{little.tobytes().hex().upper()}"'
    return f"dense<{body}> : {type_text(TensorType(data.dtype, data.shape))}"


def integers_text(values: Sequence[int]) -> str:
    """`dense<[0, 1]> : tensor<2xi64>`."""
    return dense_text(TensorData(np.array(values, np.int64)))


def is_known(shape: Shape) -> bool:
    """Whether every size is a number."""
    return all(isinstance(size, int) for size in shape)


def _nested_text(array: np.ndarray) -> str:
    if array.ndim == 0:
        return _number_text(array)
    return f"[{', '.join(_nested_text(array[n, ...]) for n in range(len(array)))}]"


def _number_text(element: np.ndarray) -> str:
    """An array of rank 0. Floats in as many digits as they need, by their bits where no digits
    do."""
    dtype = dtype_of(element.dtype)
    if dtype.is_complex:
        return f"({_number_text(element.real)}, {_number_text(element.imag)})"
    if not dtype.is_float:
        return str(bool(element)).lower() if element.dtype.kind == "b" else str(int(element))
    for digits in (6, 9, 17):
        text = f"{float(element):.{digits}e}"
        if np.isfinite(float(element)) and np.float64(text).astype(dtype.numpy).tobytes() == element.tobytes():
            return text
    return f"0x{int(element.view(f'u{dtype.bytes}')):0{2 * dtype.bytes}X}"

"""Element types of MLIR and the dtypes of our language."""

from __future__ import annotations

from collections.abc import Mapping

from tcp_eqsat.lang.types import NAMED_DTYPES, DType, Kind

_PREFIXES = {Kind.INT: "i", Kind.UINT: "ui", Kind.FLOAT: "f", Kind.BOOL: "i"}


def element_text(dtype: DType) -> str:
    """`f32`, `i64`, `ui8`, `i1`, `f8E4M3FN`, `complex<f32>`."""
    return _TEXTS[dtype]


def _text(dtype: DType) -> str:
    if dtype.kind is Kind.BOOL:
        return "i1"
    if dtype.is_complex:
        return f"complex<f{dtype.bits // 2}>"
    if dtype.name == "bf16":
        return "bf16"
    if dtype.is_float:
        width, _, form = dtype.name[1:].partition("e")
        return f"f{width}" + (f"E{form.upper()}" if form else "")
    return f"{_PREFIXES[dtype.kind]}{dtype.bits}"


_TEXTS: Mapping[DType, str] = {dtype: _text(dtype) for dtype in NAMED_DTYPES.values()}

ELEMENT_DTYPES: Mapping[str, DType] = {
    **{text: dtype for dtype, text in _TEXTS.items()},
    **{f"s{text}": dtype for dtype, text in _TEXTS.items() if dtype.kind is Kind.INT},
    "index": NAMED_DTYPES["i64"],
}
"""Our dtypes by the names of MLIR's element types. Integers without a sign in their type are signed."""

"""Typing rules of scalar operations: operand dtypes -> result dtype, or a TypeMismatch that names the operation."""

from __future__ import annotations

from collections.abc import Callable

from tcp_eqsat.errors import TypeMismatch
from tcp_eqsat.lang.types import BOOL, DType, Kind


def same_dtype(name: str, allowed: Callable[[DType], bool], required: str) -> Callable[..., DType]:
    def infer(*dtypes: DType) -> DType:
        if any(dtype != dtypes[0] for dtype in dtypes):
            found = ", ".join(map(str, dtypes))
            raise TypeMismatch(f"{name} requires operands of one dtype, got {found}")
        if dtypes[0].storage_only:
            step = "dequantize" if dtypes[0].kind is Kind.QUANTIZED else "convert"
            raise TypeMismatch(f"{name} requires a dtype with arithmetic, got {dtypes[0]}: {step} it first")
        if not allowed(dtypes[0]):
            raise TypeMismatch(f"{name} requires {required}, got {dtypes[0]}")
        return dtypes[0]

    return infer


def numbers(name: str) -> Callable[..., DType]:
    return same_dtype(name, lambda d: d.kind is not Kind.BOOL, "numbers")


def floats(name: str) -> Callable[..., DType]:
    return same_dtype(name, lambda d: d.is_float, "a floating-point dtype")


def any_dtype(name: str) -> Callable[..., DType]:
    return same_dtype(name, lambda d: True, "any dtype")


def bits(name: str) -> Callable[..., DType]:
    return same_dtype(name, lambda d: not d.is_float, "integers or bool")


def integers(name: str) -> Callable[..., DType]:
    return same_dtype(name, lambda d: d.is_integer, "integers")


def comparison(name: str) -> Callable[..., DType]:
    same = any_dtype(name)

    def infer(*dtypes: DType) -> DType:
        same(*dtypes)
        return BOOL

    return infer


def predicate(name: str) -> Callable[..., DType]:
    same = floats(name)

    def infer(*dtypes: DType) -> DType:
        same(*dtypes)
        return BOOL

    return infer

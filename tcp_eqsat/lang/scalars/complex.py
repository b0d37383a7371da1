"""Complex numbers: their own operations, and what operations on real numbers are on complex ones.

A complex number is a pair of floats. Here stands, for each operation, how the parts of its result follow from the parts
of its operands; `lang/complex_parts.py` replaces complex values of programs by their parts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from tcp_eqsat.errors import TypeMismatch, VerificationError
from tcp_eqsat.lang.narrow import convert_array
from tcp_eqsat.lang.scalar import (
    COMPLEX_FORMS,
    ComplexForm,
    Derivative,
    Parts,
    ScalarExpr,
    _NotDifferentiable,
    apply,
    literal,
    scalar_op,
)
from tcp_eqsat.lang.types import BOOL, C64, C128, DTYPES, DType


def complex_form(name: str, parts: Callable[..., Parts | ScalarExpr], reference: Callable[..., Any],
                 infer: Callable[..., DType] | None = None) -> None:
    """Define what the operation `name` is on complex operands.

    `reference` is given complex128 operands; `infer` defaults to operands and result of one dtype.
    """
    def in_complex128(*operands: Any) -> np.ndarray:
        given = [np.asarray(x) for x in operands]
        found = np.asarray(reference(*(x.astype(np.complex128) if x.dtype.kind == "c" else x for x in given)))
        if any(x.dtype == np.complex128 for x in given) or found.dtype.kind not in "fc":
            return found
        return found.astype(np.complex64 if found.dtype.kind == "c" else np.float32)

    COMPLEX_FORMS[name] = ComplexForm(infer or _same(name), parts, in_complex128)


def _same(name: str) -> Callable[..., DType]:
    def infer(*dtypes: DType) -> DType:
        if any(dtype != dtypes[0] for dtype in dtypes):
            raise TypeMismatch(f"{name} requires operands of one dtype, got {', '.join(map(str, dtypes))}")
        return dtypes[0]

    return infer


def _giving(name: str, result: Callable[[DType], DType]) -> Callable[..., DType]:
    same = _same(name)
    return lambda *dtypes: result(same(*dtypes))


# Operations of complex numbers only


def _taken_apart(*operands: Any) -> NoReturn:
    raise VerificationError("complex values are taken apart before code is generated")


def _infer_complex(x: DType, y: DType) -> DType:
    if x != y or not x.is_float or x.bits not in (32, 64):
        raise TypeMismatch(f"complex requires two operands of f32 or f64, got {x} and {y}")
    return x.of_parts


def _of_complex_only(name: str) -> Callable[..., DType]:
    def infer(dtype: DType) -> NoReturn:
        raise TypeMismatch(f"{name} requires a complex dtype, got {dtype}")

    return infer


def _complex_op(name: str, parts: Callable[..., Parts | ScalarExpr], reference: Callable[..., Any],
                derivative: Derivative | _NotDifferentiable, result: Callable[[DType], DType], doc: str) -> None:
    scalar_op(name, "x", infer=_of_complex_only(name), reference=reference, emit=_taken_apart,
              derivative=derivative, takes_narrow=True, doc=doc)
    complex_form(name, parts, reference, _giving(name, result))


def _make(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    return apply("complex", x, y)


def _zero(x: ScalarExpr) -> ScalarExpr:
    return literal(0, x.dtype)


complex_ = scalar_op(
    "complex", "x y", infer=_infer_complex, reference=lambda x, y: _joined(x, y), emit=_taken_apart,
    derivative=lambda g, x, y: (apply("real", g), -apply("imag", g)), takes_narrow=True,
    doc="x + iy. The parts are set, so that infinities and NaNs stay where they are.",
)
_complex_op("real", lambda x: x[0], np.real, lambda g, x: (_make(g, _zero(g)),), lambda d: d.part, "The real part.")
_complex_op("imag", lambda x: x[1], np.imag, lambda g, x: (_make(_zero(g), -g),), lambda d: d.part,
            "The imaginary part, with its sign of zero.")
_complex_op("conj", lambda x: (x[0], -x[1]), np.conj, lambda g, x: (apply("conj", g),), lambda d: d,
            "The complex conjugate: the sign bit of the imaginary part is flipped.")


def _joined(x: Any, y: Any) -> np.ndarray:
    """Parts are set, not added: i * inf would make a NaN of the real part."""
    x, y = np.broadcast_arrays(x, y)
    z = np.empty(x.shape, np.complex64 if x.dtype == np.float32 else np.complex128)
    z.real, z.imag = x, y
    return z


# Arithmetic


def _multiply(x: Parts, y: Parts) -> Parts:
    return x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]


def _divide(x: Parts, y: Parts) -> Parts:
    """Smith's method: the smaller part of the divisor is divided by the larger (Comm. ACM 5(8), 1962)."""
    steep = apply("less", apply("abs", y[0]), apply("abs", y[1]))

    def choose(a: ScalarExpr, b: ScalarExpr) -> ScalarExpr:
        return apply("where", steep, a, b)

    large, small = choose(y[1], y[0]), choose(y[0], y[1])
    both_zero = apply("equal", large, _zero(large))
    ratio = apply("where", both_zero, small, small / large)
    scale = large + small * ratio
    real = choose(x[0] * ratio + x[1], x[0] + x[1] * ratio) / scale
    imag = choose(x[1] * ratio - x[0], x[1] - x[0] * ratio) / scale
    return real, imag


def magnitude(x: Parts) -> ScalarExpr:
    """sqrt(re**2 + im**2) without overflow; infinite where a part is, even beside NaN."""
    a, b = apply("abs", x[0]), apply("abs", x[1])
    large, small = apply("maximum", a, b), apply("minimum", a, b)
    ratio = apply("where", apply("equal", large, _zero(large)), _zero(large), small / large)
    found = large * apply("sqrt", ratio * ratio + 1)
    infinite = apply("bitwise_or", apply("isinf", a), apply("isinf", b))
    return apply("where", infinite, literal(float("inf"), a.dtype), found)


def _sign(x: Parts) -> Parts:
    """x / |x|; 0 at 0."""
    size = magnitude(x)
    zero = apply("equal", size, _zero(size))
    safe = apply("where", zero, literal(1, size.dtype), size)
    return x[0] / safe, x[1] / safe


def _exceeds(x: Parts, y: Parts) -> ScalarExpr:
    """Whether x is after y, by the real part and then by the imaginary one."""
    tie = apply("bitwise_and", apply("equal", x[0], y[0]), apply("greater", x[1], y[1]))
    return apply("bitwise_or", apply("greater", x[0], y[0]), tie)


def _is_nan(x: Parts) -> ScalarExpr:
    return apply("bitwise_or", apply("isnan", x[0]), apply("isnan", x[1]))


def _extreme(first: Callable[[Parts, Parts], ScalarExpr]) -> Callable[[Parts, Parts], Parts]:
    def parts(x: Parts, y: Parts) -> Parts:
        take_x = apply("bitwise_or", _is_nan(x), apply(
            "bitwise_and", first(x, y), apply("bitwise_invert", _is_nan(y))))
        return apply("where", take_x, x[0], y[0]), apply("where", take_x, x[1], y[1])

    return parts


def _equal(x: Parts, y: Parts) -> ScalarExpr:
    return apply("bitwise_and", apply("equal", x[0], y[0]), apply("equal", x[1], y[1]))


complex_form("add", lambda x, y: (x[0] + y[0], x[1] + y[1]), np.add)
complex_form("subtract", lambda x, y: (x[0] - y[0], x[1] - y[1]), np.subtract)
complex_form("multiply", _multiply, np.multiply)
complex_form("divide", _divide, np.divide)
complex_form("square", lambda x: _multiply(x, x), lambda x: x * x)
complex_form("negative", lambda x: (-x[0], -x[1]), np.negative)
complex_form("abs", magnitude, np.abs, _giving("abs", lambda d: d.part))
complex_form("sign", _sign, lambda x: np.where(x == 0, x, x / np.where(x == 0, 1, np.abs(x))))
complex_form("maximum", _extreme(_exceeds), np.maximum)
complex_form("minimum", _extreme(lambda x, y: _exceeds(y, x)), np.minimum)
complex_form("equal", _equal, np.equal, _giving("equal", lambda d: BOOL))
complex_form("not_equal", lambda x, y: apply("bitwise_invert", _equal(x, y)), np.not_equal,
             _giving("not_equal", lambda d: BOOL))
complex_form("isnan", _is_nan, np.isnan, _giving("isnan", lambda d: BOOL))
complex_form("isinf", lambda x: apply("bitwise_or", apply("isinf", x[0]), apply("isinf", x[1])), np.isinf,
             _giving("isinf", lambda d: BOOL))
complex_form("isfinite", lambda x: apply("bitwise_and", apply("isfinite", x[0]), apply("isfinite", x[1])),
             np.isfinite, _giving("isfinite", lambda d: BOOL))


def _infer_where(condition: DType, x: DType, y: DType) -> DType:
    if condition != BOOL or x != y:
        raise TypeMismatch(f"where requires a condition of dtype bool and branches of one dtype, got {condition}, "
                           f"{x} and {y}")
    return x


complex_form("where", lambda c, x, y: (apply("where", c, x[0], y[0]), apply("where", c, x[1], y[1])), np.where,
             _infer_where)

# Conversion


def _define_conversion(target: DType) -> None:
    """From a real dtype, with an imaginary part of 0, or from the other complex one."""
    part = f"astype_{target.part}"
    scalar_op(
        f"astype_{target}", "x", infer=lambda dtype: target, emit=_taken_apart, takes_narrow=True,
        reference=lambda x: np.asarray(x).astype(np.float64).astype(target.numpy),
        derivative=lambda g, x: (apply(f"astype_{x.dtype}", g) if x.dtype.is_differentiable else None,),
        doc=f"The value as {target}: the parts are rounded to nearest even; of a real number the imaginary part is 0.")
    complex_form(f"astype_{target}", lambda x: (apply(part, x[0]), apply(part, x[1])), lambda x: x,
                 lambda dtype: target)


for _target in (C64, C128):
    _define_conversion(_target)


def _define_real_conversion(target: DType) -> None:
    """The real part, converted; to bool, whether the number is not 0."""
    name = f"astype_{target}"
    if target == BOOL:
        complex_form(name, lambda x: apply("bitwise_or", apply(name, x[0]), apply(name, x[1])), lambda x: x != 0,
                     lambda dtype: target)
        return
    COMPLEX_FORMS[name] = ComplexForm(
        lambda dtype: target, lambda x: apply(name, x[0]), lambda x: convert_array(np.real(x), target))


for _target in DTYPES.values():
    _define_real_conversion(_target)

__all__ = ["complex_", "complex_form", "magnitude"]

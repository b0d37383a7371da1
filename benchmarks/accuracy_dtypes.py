"""Measures what docs/accuracy.md says of 16-bit dtypes, complex numbers and composites.

    python -m benchmarks.accuracy_dtypes

16 bits: all arguments of every function of one operand, in ULP of the dtype, against the f64 functions. Complex: random
numbers of several magnitudes, the error of a number relative to its size, in units of the dtype's epsilon, against
extended precision. Composites: random f32 tensors, the largest error relative to the largest result, and of each result
relative to itself, against the NumPy reference in f64. Beside NumPy and, where they are importable, torch and JAX.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator

import numpy as np

import tcp_eqsat as tcp
from benchmarks.accuracy import NUMPY, OPERANDS
from tcp_eqsat.codegen.vector_math.accuracy import PROMISES
from tcp_eqsat.frontends import neural
from tcp_eqsat.lang.float_format import float_limits
from tcp_eqsat.lang.narrow import convert_array
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.program import Function
from tcp_eqsat.lang.scalar import COMPLEX_FORMS, evaluate_op, scalar_op_named
from tcp_eqsat.lang.types import BF16, C64, C128, F16, F64, DType, TensorType

Unary = Callable[[str, np.ndarray], "np.ndarray | None"]
MAGNITUDES = (1e-3, 1.0, 30.0, 1e4)


def compiled(name: str, dtype: DType, count: int) -> Callable[[np.ndarray], np.ndarray]:
    """One scalar operation as machine code."""
    x = builders.parameter("x", 0, TensorType(dtype, (count,)))
    return tcp.compile(Function(name, (x,), (builders.map_scalar(scalar_op_named(name), x),)))


def peers() -> Iterator[tuple[str, Unary]]:
    """NumPy, torch and JAX as functions of a name and an array; None where they lack the function or dtype."""

    def by_numpy(name: str, x: np.ndarray) -> np.ndarray | None:
        return NUMPY[name](x) if name in NUMPY and x.dtype.name != "bfloat16" else None

    yield "NumPy", by_numpy
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        pass
    else:
        names = {"logistic": torch.sigmoid, "erf_inv": torch.erfinv}

        def by_torch(name: str, x: np.ndarray) -> np.ndarray | None:
            function = names.get(name) or getattr(torch, name, None) or getattr(torch.special, name, None)
            bits = torch.from_numpy(x.view(np.int16)).view(torch.bfloat16) if x.dtype.name == "bfloat16" else (
                torch.from_numpy(x))
            try:
                found = function(bits) if function else None
            except (RuntimeError, TypeError):
                return None
            if found is None:
                return None
            return found.view(torch.int16).numpy().view(x.dtype) if x.dtype.name == "bfloat16" else found.numpy()

        yield "torch", by_torch
    try:
        jax = importlib.import_module("jax")
    except ImportError:
        pass
    else:
        jax.config.update("jax_enable_x64", True)
        jax.config.update("jax_platforms", "cpu")

        def by_jax(name: str, x: np.ndarray) -> np.ndarray | None:
            function = getattr(jax.lax, name, None)
            try:
                return None if function is None else np.asarray(jax.jit(function)(x))
            except TypeError:
                return None

        yield "JAX", by_jax


def steps(found: np.ndarray, exact: np.ndarray, dtype: DType, floor: float = 0.0) -> float:
    """The largest error in ULP of the exact result, or of `floor`; wrong NaNs and infinities count as infinite."""
    limits = float_limits(dtype)
    wide, rounded = found.astype(np.float64), convert_array(exact, dtype).astype(np.float64)
    size = np.maximum(np.maximum(np.abs(exact), limits.least_normal), floor)
    unit = 2.0 ** np.floor(np.log2(np.where(np.isfinite(size), size, 1))) * limits.epsilon
    same = (wide == rounded) | (np.isnan(wide) & np.isnan(rounded))
    errors = np.abs(wide - exact) / unit
    errors = np.where(np.isfinite(wide) & np.isfinite(rounded), errors, np.inf)
    return float(np.max(np.where(same, np.where(np.isfinite(errors), errors, 0), errors)))


def narrow_row(name: str, dtype: DType) -> list[str]:
    """Every value of a 16-bit dtype."""
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy)
    x = x[~np.isnan(x.astype(np.float32))]
    exact = evaluate_op(scalar_op_named(name), F64, x.astype(np.float64))
    promise = PROMISES.get(name)
    floor = promise.f32_floor if promise else 0.0
    found = [compiled(name, dtype, x.size)(x), *(peer(name, x) for _, peer in peers())]
    return [name, str(dtype), *("-" if y is None else f"{steps(y, exact, dtype, floor):.2f}" for y in found)]


def complex_row(name: str, dtype: DType) -> list[str]:
    """Numbers around several magnitudes."""
    random = np.random.default_rng(0)
    pairs = np.concatenate([random.standard_normal((20_000, 2)) * m for m in MAGNITUDES]).astype(dtype.part.numpy)
    x = pairs.view(dtype.numpy)[:, 0]
    exact = evaluate_op(scalar_op_named(name), C128, x.astype(np.complex128))
    unit = np.abs(exact) * np.finfo(dtype.numpy).eps
    limits = np.finfo(dtype.numpy)
    inside = (np.abs(exact) > limits.tiny) & (np.abs(exact) < limits.max / 4)

    def error(y: np.ndarray | None) -> str:
        if y is None:
            return "-"
        return f"{np.max((np.abs(y.astype(np.complex128) - exact) / unit)[inside]):.2g}"

    return [name, str(dtype), error(compiled(name, dtype, x.size)(x)), *(error(peer(name, x)) for _, peer in peers())]


COMPOSITES: dict[str, Callable[..., object]] = {
    "gelu": neural.gelu, "gelu (tanh)": lambda x: neural.gelu(x, approximate=True), "silu": neural.silu,
    "softmax": neural.softmax, "log_softmax": neural.log_softmax, "layer_norm": neural.layer_norm,
    "rms_norm": neural.rms_norm, "logsumexp": lambda x: tcp.numpy.log(tcp.numpy.sum(tcp.numpy.exp(x), axis=-1)),
}


def composite_row(name: str) -> list[str]:
    """Rows of 1024 numbers of standard deviation 3."""
    x = np.random.default_rng(0).standard_normal((512, 1024)).astype(np.float32) * 3
    function = COMPOSITES[name]
    found = tcp.compile(tcp.trace(function, "f32[512, 1024]"))(x).astype(np.float64)
    exact = tcp.reference(tcp.trace(function, "f64[512, 1024]"))(x.astype(np.float64))
    error = np.abs(found - exact)
    return [name, f"{np.max(error):.1e}", f"{np.max(error / np.maximum(np.abs(exact), 1e-30)):.1e}",
            f"{np.quantile(error / np.maximum(np.abs(exact), 1e-30), 0.999):.1e}"]


def table(head: list[str], rows: Iterator[list[str]]) -> None:
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)


def main() -> None:
    names = [name for name, _ in peers()]
    unary = [name for name in PROMISES if OPERANDS.get(name, 1) == 1]
    with np.errstate(all="ignore"):
        table(["function", "dtype", "ULP", *names], (narrow_row(n, d) for n in unary for d in (F16, BF16)))
        print()
        forms = [n for n in PROMISES if n in COMPLEX_FORMS and OPERANDS.get(n, 1) == 1]
        table(["function", "dtype", "epsilons", *names], (complex_row(n, d) for n in forms for d in (C64, C128)))
        print()
        table(["composite", "absolute", "relative", "relative, 99.9 %"], map(composite_row, COMPOSITES))


if __name__ == "__main__":
    main()

"""Measures the errors of the vector math functions on every target that this processor can run.

    python -m benchmarks.accuracy [--step 997] [--samples 200000] [--functions exp,log] > table.md

f32: every `step`-th bit pattern, against NumPy in f64. f64: random bit patterns, magnitudes and neighbourhoods of
1, against long double arithmetic or mpmath. Prints a Markdown table of the largest error in ULP and where it
occurs, beside NumPy and, if they are importable, torch and JAX. docs/accuracy.md holds what it printed.

    python -m benchmarks.accuracy --exhaustive [--functions exp,log] [--target x86-64-v4]

measures all 2**32 arguments of the f32 functions of one operand, against the f64 functions (whose own errors the
table shows to be negligible here): 10 to 30 seconds for each.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks import exact
from tcp_eqsat.codegen.array_function import ArrayFunction
from tcp_eqsat.codegen.llvm_text import LLVMValue
from tcp_eqsat.codegen.llvm_values import LLVMBuilder
from tcp_eqsat.codegen.target import available_targets, cpu_target
from tcp_eqsat.codegen.vector_math.accuracy import PROMISES, error_floor, max_ulp, ulp_errors
from tcp_eqsat.lang.types import F32, F64, U64, DType

EXTENDED = np.finfo(np.longdouble).nmant >= 63
ARRAY_API = {  # names of NumPy's functions
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2",
    "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh",
}
SAME_NAME = "exp exp2 expm1 log log2 log10 log1p tanh sinh cosh sin cos tan cbrt hypot"
NUMPY: dict[str, Callable[..., np.ndarray]] = {
    **{name: getattr(np, name) for name in SAME_NAME.split()},
    **{name: getattr(np, theirs) for name, theirs in ARRAY_API.items()},
    "pow": np.power,
    "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "rsqrt": lambda x: 1 / np.sqrt(x),
}
OPERANDS = {"pow": 2, "atan2": 2, "hypot": 2, "fma": 3, "zeta": 2, "polygamma": 2,
            "igamma": 2, "igammac": 2, "igamma_grad_a": 2}
"""How many operands functions have that have several."""
MPMATH_SAMPLES = 2_000
CHUNK = 1 << 21


@dataclass(frozen=True)
class Worst:
    """The largest error and the arguments it occurs at."""

    ulp: float
    at: tuple[float, ...]

    def __str__(self) -> str:
        return f"{self.ulp:.2f}" if self.ulp < 1000 else f"{self.ulp:.0e}"


def arguments(name: str, dtype: DType, step: int, samples: int) -> tuple[np.ndarray, ...]:
    """What the functions are measured on, one array for each operand."""
    random = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        return _arguments(name, dtype, step, samples, random)


def _arguments(
    name: str, dtype: DType, step: int, samples: int, random: np.random.Generator
) -> tuple[np.ndarray, ...]:
    if name == "pow":
        limit = 104.0 if dtype is F32 else 745.0
        base = np.concatenate(
            [
                np.exp(random.uniform(-3, 3, samples)),
                np.exp(random.uniform(-80, 80, samples)),
                1 + random.standard_normal(samples) * 1e-3,
            ]
        )
        power = random.uniform(-limit, limit, base.size) / np.where(base == 1, 1, np.log(base))
        return base.astype(dtype.numpy), power.astype(dtype.numpy)
    if name in exact.ARGUMENTS:
        chosen = exact.ARGUMENTS[name](random, MPMATH_SAMPLES)
        return tuple(x.astype(dtype.numpy) for x in chosen)
    if name in OPERANDS:
        operands = [_anywhere(dtype, random, samples) for _ in range(OPERANDS[name])]
        operands[-1][::2] = operands[0][::2] * random.uniform(-2, 2, operands[0][::2].size)  # of one size
        return tuple(x.astype(dtype.numpy) for x in operands)
    if dtype is F32:
        return (np.arange(0, 2**32, step, dtype=np.uint64).astype(np.uint32).view(np.float32),)
    return (_anywhere(dtype, random, samples),)


def _anywhere(dtype: DType, random: np.random.Generator, samples: int) -> np.ndarray:
    """Random bit patterns, magnitudes, and neighbourhoods of 1, of multiples of pi/4 and of 0."""
    patterns = random.integers(0, 2**dtype.bits, samples, dtype=np.uint64)
    anything = patterns.view(np.float64) if dtype is F64 else patterns.astype(np.uint32).view(np.float32)
    sizes = random.choice([-1.0, 1.0], samples) * np.exp(random.uniform(-12, 7, samples))
    near_one = 1 + np.ldexp(random.uniform(-1, 1, samples), -random.integers(1, 50, samples))
    near_multiples = np.round(np.exp(random.uniform(0, 30, samples))) * (np.pi / 4)
    return np.concatenate([anything, sizes, near_one, near_multiples, random.uniform(-2, 2, samples)])


def reference(name: str, dtype: DType, operands: tuple[np.ndarray, ...]) -> tuple[np.ndarray, np.ndarray | float]:
    """The exact values as a sum of two arrays."""
    with np.errstate(all="ignore"):
        if name in NUMPY and name not in exact.ARGUMENTS:
            if dtype is F32:
                return NUMPY[name](*(x.astype(np.float64) for x in operands)), 0.0
            if EXTENDED:
                return NUMPY[name](*(x.astype(np.longdouble) for x in operands)), 0.0
    return exact.exact_values(name, *operands)


def worst(
    name: str, found: np.ndarray, right: tuple[np.ndarray, np.ndarray | float], dtype: DType,
    operands: tuple[np.ndarray, ...],
) -> Worst:
    errors = ulp_errors(np.asarray(found, dtype.numpy), right[0], dtype, right[1], error_floor(name, dtype))
    place = int(np.argmax(errors))
    return Worst(float(errors[place]), tuple(float(x[place]) for x in operands))


def measure(
    name: str, dtype: DType, operands: tuple[np.ndarray, ...], candidates: Sequence[Callable[..., np.ndarray | None]]
) -> list[Worst | None]:
    """The worst case of each candidate (None if it lacks the function), a chunk of the operands at a time."""
    results: list[Worst | None] = [None] * len(candidates)
    for start in range(0, operands[0].size, CHUNK):
        part = tuple(x[start : start + CHUNK] for x in operands)
        right = reference(name, dtype, part)
        for number, candidate in enumerate(candidates):
            with np.errstate(all="ignore"):
                found = candidate(*part)
            if found is not None:
                result, before = worst(name, found, right, dtype, part), results[number]
                if before is None or result.ulp > before.ulp:
                    results[number] = result
    return results


def ours(name: str, dtype: DType, choice: str) -> ArrayFunction:
    target = cpu_target(choice)
    operands = (dtype,) * OPERANDS.get(name, 1)
    return ArrayFunction(lambda b, *x: b.function(name, *x), operands, dtype, target, target.lanes(dtype))


def exhaustive(name: str, choice: str) -> Worst:
    """The largest error of an f32 function of one operand over all arguments, measured in compiled code."""
    target = cpu_target(choice)
    single = np.float32

    def error(b: LLVMBuilder, x: LLVMValue) -> LLVMValue:
        found = b.function(name, x)
        reference = b.function(name, b.convert(x, F64))
        rounded = b.convert(reference, F32)
        difference = b.absolute(b.subtract(b.convert(found, F64), reference))
        # 2**23 / the power of two in the reference, at most that of the least normal number
        exponent = b.shift_right(b.bitcast(b.absolute(reference), U64), b.constant(52, U64))
        exponent = b.maximum(exponent, b.constant(1023 - 126, U64))
        scale = b.shift_left(b.subtract(b.constant(2046 + 23, U64), exponent), b.constant(52, U64))
        ulp = b.convert(b.multiply(difference, b.bitcast(scale, F64)), F32)
        zero = b.constant(0.0, F32)
        # A correctly rounded result is off by half an ULP at most, overflow to infinity included.
        ulp = b.select(b.compare("equal", found, rounded), b.constant(0.5, F32), ulp)
        nowhere = b.bitwise_and(b.is_nan(found), b.is_nan(reference))
        infinite = b.bitwise_xor(b.is_nan(found), b.is_nan(reference))
        return b.select(nowhere, zero, b.select(infinite, b.constant(math.inf, F32), ulp))

    function = ArrayFunction(error, (F32,), F32, target, target.lanes(F32))
    patterns = np.arange(CHUNK, dtype=np.uint32)
    errors = np.empty(CHUNK, single)
    result = Worst(0.0, (0.0,))
    for start in range(0, 2**32, CHUNK):
        x = (patterns + np.uint32(start)).view(single)
        function.run(CHUNK, x, errors)
        if not errors.max() <= result.ulp:
            place = int(np.argmax(errors))
            result = Worst(float(errors[place]), (float(x[place]),))
    return result


def peers() -> Iterator[tuple[str, Callable[..., np.ndarray | None]]]:
    """Other implementations: name, and a function that gives None where they lack one."""

    def by_numpy(name: str, *operands: np.ndarray) -> np.ndarray | None:
        return NUMPY[name](*operands) if name in NUMPY and name not in ("logistic", "rsqrt") else None

    yield "NumPy", by_numpy
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        pass
    else:
        in_torch = {
            "logistic": torch.sigmoid, "erf_inv": torch.erfinv, "bessel_i0e": torch.special.i0e,
            "bessel_i1e": torch.special.i1e, "zeta": torch.special.zeta, "igamma": torch.special.gammainc,
            "igammac": torch.special.gammaincc,
        }

        def by_torch(name: str, *operands: np.ndarray) -> np.ndarray | None:
            function = in_torch.get(name) or getattr(torch, name, None)
            if function is None or name in ("polygamma",):  # which takes no tensor of orders
                return None
            return function(*map(torch.from_numpy, operands)).numpy()

        yield "torch", by_torch
    try:
        jax = importlib.import_module("jax")
    except ImportError:
        pass
    else:
        jax.config.update("jax_enable_x64", True)
        jax.config.update("jax_platforms", "cpu")

        def by_jax(name: str, *operands: np.ndarray) -> np.ndarray | None:
            function = getattr(jax.lax, name, None)
            return None if function is None else np.asarray(jax.jit(function)(*operands))

        yield "JAX", by_jax


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--step", type=int, default=997, help="f32: every STEP-th bit pattern (default 997)")
    parser.add_argument("--samples", type=int, default=200_000, help="f64: samples of each kind")
    parser.add_argument("--functions", default=",".join(PROMISES), help="comma-separated names")
    parser.add_argument("--exhaustive", action="store_true", help="all arguments in f32, see above")
    parser.add_argument("--target", default="native", help="for --exhaustive: what TCP_EQSAT_CPU may be")
    options = parser.parse_args()
    if options.exhaustive:
        for name in options.functions.split(","):
            if name not in OPERANDS:
                result = exhaustive(name, options.target)
                print(f"{name:9} {result} at {result.at[0]:.9g}", flush=True)
        return
    choices = [choice for choice in available_targets() if choice != "native"]
    others = list(peers())
    columns = ["function", "dtype", "promised", *choices, "worst at", *(name for name, _ in others)]
    print("| " + " | ".join(columns) + " |")
    print("|" + "---|" * len(columns), flush=True)
    for name in options.functions.split(","):
        for dtype in (F32, F64):
            operands = arguments(name, dtype, options.step, options.samples)
            if name not in exact.ARGUMENTS and (name not in NUMPY or (dtype is F64 and not EXTENDED)):
                chosen = np.random.default_rng(1).permutation(operands[0].size)[:MPMATH_SAMPLES]
                operands = tuple(x[chosen] for x in operands)
            functions = [ours(name, dtype, choice) for choice in choices]
            candidates = [*functions, *(functools.partial(peer, name) for _, peer in others)]
            found = measure(name, dtype, operands, candidates)
            mine = [result for result in found[: len(choices)] if result is not None]
            place = max(mine, key=lambda result: result.ulp).at
            where = ", ".join(f"{x:.9g}" if dtype is F32 else f"{x!r}" for x in place)
            cells = ["-" if result is None else str(result) for result in found]
            cells = [*cells[: len(choices)], where, *cells[len(choices) :]]
            print("| " + " | ".join([name, str(dtype), f"{max_ulp(name, dtype):g}", *cells]) + " |", flush=True)


if __name__ == "__main__":
    main()

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

from tcp_eqsat.codegen.array_function import ArrayFunction
from tcp_eqsat.codegen.llvm_text import LLVMValue
from tcp_eqsat.codegen.llvm_values import LLVMBuilder
from tcp_eqsat.codegen.target import available_targets, cpu_target
from tcp_eqsat.codegen.vector_math.accuracy import MAX_ULP, max_ulp, ulp_errors
from tcp_eqsat.lang.types import F32, F64, U64, DType

EXTENDED = np.finfo(np.longdouble).nmant >= 63
_erf = np.frompyfunc(math.erf, 1, 1)
NUMPY: dict[str, Callable[..., np.ndarray]] = {
    **{name: getattr(np, name) for name in ("exp", "exp2", "expm1", "log", "log2", "log1p")},
    **{name: getattr(np, name) for name in ("tanh", "sin", "cos", "tan")},
    "pow": np.power,
    "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "rsqrt": lambda x: 1 / np.sqrt(x),
}
MPMATH = {
    "exp2": lambda mp, x: mp.power(2, x),
    "log2": lambda mp, x: mp.log(x, 2),
    "pow": lambda mp, x, y: mp.power(x, y),
    "logistic": lambda mp, x: 1 / (1 + mp.exp(-x)),
    "rsqrt": lambda mp, x: 1 / mp.sqrt(x),
}
MPMATH_SAMPLES = 20_000
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
    if dtype is F32:
        return (np.arange(0, 2**32, step, dtype=np.uint64).astype(np.uint32).view(np.float32),)
    patterns = random.integers(0, 2**64, samples, dtype=np.uint64).view(np.float64)
    sizes = random.choice([-1.0, 1.0], samples) * np.exp(random.uniform(-12, 7, samples))
    near_one = 1 + np.ldexp(random.uniform(-1, 1, samples), -random.integers(1, 50, samples))
    near_multiples = np.round(np.exp(random.uniform(0, 30, samples))) * (np.pi / 4)
    return (np.concatenate([patterns, sizes, near_one, near_multiples, random.uniform(-2, 2, samples)]),)


def exact(name: str, dtype: DType, operands: tuple[np.ndarray, ...]) -> tuple[np.ndarray, np.ndarray | float]:
    """The reference as a sum of two arrays."""
    with np.errstate(all="ignore"):
        if dtype is F32:
            wide = [x.astype(np.float64) for x in operands]
            if name == "erf":
                return _erf(*wide).astype(np.float64), 0.0
            return NUMPY[name](*wide), 0.0
        if EXTENDED and name in NUMPY:
            return NUMPY[name](*(x.astype(np.longdouble) for x in operands)), 0.0
    return _by_mpmath(name, operands)


def _by_mpmath(name: str, operands: tuple[np.ndarray, ...]) -> tuple[np.ndarray, np.ndarray]:
    mp = importlib.import_module("mpmath").mp
    mp.prec = 160
    function = MPMATH.get(name) or (lambda mp, x: getattr(mp, name)(x))
    heads, rests = [], []
    for numbers in zip(*(x.tolist() for x in operands), strict=True):
        value = mp.mpf("nan") if any(x != x for x in numbers) else mp.mpmathify(function(mp, *map(mp.mpf, numbers)))
        value = value if isinstance(value, mp.mpf) else mp.mpf("nan")  # complex: outside the domain
        heads.append(float(value))
        rests.append(float(value - mp.mpf(heads[-1])) if np.isfinite(heads[-1]) else 0.0)
    return np.array(heads), np.array(rests)


def worst(
    found: np.ndarray, reference: tuple[np.ndarray, np.ndarray | float], dtype: DType, operands: tuple[np.ndarray, ...]
) -> Worst:
    errors = ulp_errors(np.asarray(found, dtype.numpy), reference[0], dtype, reference[1])
    place = int(np.argmax(errors))
    return Worst(float(errors[place]), tuple(float(x[place]) for x in operands))


def measure(
    name: str, dtype: DType, operands: tuple[np.ndarray, ...], candidates: Sequence[Callable[..., np.ndarray | None]]
) -> list[Worst | None]:
    """The worst case of each candidate (None if it lacks the function), a chunk of the operands at a time."""
    results: list[Worst | None] = [None] * len(candidates)
    for start in range(0, operands[0].size, CHUNK):
        part = tuple(x[start : start + CHUNK] for x in operands)
        reference = exact(name, dtype, part)
        for number, candidate in enumerate(candidates):
            with np.errstate(all="ignore"):
                found = candidate(*part)
            if found is not None:
                result, before = worst(found, reference, dtype, part), results[number]
                if before is None or result.ulp > before.ulp:
                    results[number] = result
    return results


def ours(name: str, dtype: DType, choice: str) -> ArrayFunction:
    target = cpu_target(choice)
    operands = (dtype,) * (2 if name == "pow" else 1)
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
        in_torch = {"logistic": "sigmoid"}

        def by_torch(name: str, *operands: np.ndarray) -> np.ndarray | None:
            return getattr(torch, in_torch.get(name, name))(*map(torch.from_numpy, operands)).numpy()

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
    parser.add_argument("--functions", default=",".join(MAX_ULP), help="comma-separated names")
    parser.add_argument("--exhaustive", action="store_true", help="all arguments in f32, see above")
    parser.add_argument("--target", default="native", help="for --exhaustive: what TCP_EQSAT_CPU may be")
    options = parser.parse_args()
    if options.exhaustive:
        for name in options.functions.split(","):
            if name != "pow":
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
            if dtype is F64 and (name == "erf" or not EXTENDED):
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

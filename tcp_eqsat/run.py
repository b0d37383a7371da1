"""`tcp-eqsat run`: inputs from files or random, one compilation, calls, a comparison with the reference."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape

from tcp_eqsat import pipeline
from tcp_eqsat.compare import Comparison, compare
from tcp_eqsat.errors import ArgumentError
from tcp_eqsat.lang.budget import Budget
from tcp_eqsat.lang.dims import Symbol, evaluate, symbols_of
from tcp_eqsat.lang.program import Function
from tcp_eqsat.lang.reference import evaluate as evaluate_reference
from tcp_eqsat.lang.types import TensorType
from tcp_eqsat.report import Report, json_ready

DEFAULT_SIZE = 8  # of a symbol that nobody sets, where its range allows it


@dataclass(frozen=True)
class Outcome:
    """One run. `comparisons` is None without --check; `seconds` is the median of the calls."""

    report: Report
    sizes: Mapping[str, int]
    defaulted: tuple[str, ...]
    results: tuple[np.ndarray, ...]
    seconds: float
    read_seconds: float
    comparisons: tuple[Comparison, ...] | None

    @property
    def passed(self) -> bool:
        return self.comparisons is None or all(c.agrees for c in self.comparisons)

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {**self.report.to_json(), "sizes": dict(self.sizes)}
        found["seconds"] = {"read": self.read_seconds, **found["seconds"]}
        found["call_us"] = self.seconds * 1e6
        found["results"] = [{"dtype": str(r.dtype), "shape": list(r.shape)} for r in self.results]
        if self.comparisons is not None:
            found["max_abs_error"] = max((c.max_abs_error for c in self.comparisons), default=0.0)
            found["check"] = "passed" if self.passed else "failed"
        ready: dict[str, Any] = json_ready(found)
        return ready


def run_program(
    file: Path, *, entry: str | None = None, dims: Mapping[str, int] | None = None, target: str = "cpu",
    numerics: str = "exact", threads: int = 1, budget: Budget | None = None,
    inputs: Mapping[str, str] | None = None, seed: int = 0, check: bool = False, repeat: int = 1,
) -> Outcome:
    """Read, compile and call a program.

    Symbols get their sizes from the input files, then from `dims`, then DEFAULT_SIZE. Raises TcpError children for
    unusable files and arguments.
    """
    start = time.perf_counter()
    program = pipeline.read(file)
    read_seconds = time.perf_counter() - start
    function = program.function(entry)
    given = {name: _load(name, path) for name, path in (inputs or {}).items()}
    unknown = [name for name in given if name not in function.parameter_names]
    if unknown:
        known = ", ".join(function.parameter_names)
        raise ArgumentError(f"--input {unknown[0]}: {function.name} has no such parameter; it has {known}")
    sizes, defaulted = choose_sizes(function, given, dims or {})
    arrays = random_arrays(function, sizes, seed, given)
    compiled = pipeline.compile(
        function, target=target, numerics=numerics, threads=threads, budget=budget, sizes=sizes)
    returned = compiled(*arrays)
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        compiled(*arrays)
        times.append(time.perf_counter() - start)
    results = returned if isinstance(returned, tuple) else (returned,)
    comparisons = None
    if check:
        expected = evaluate_reference(function, arrays)
        comparisons = tuple(compare(np.asarray(r), e) for r, e in zip(results, expected, strict=True))
    return Outcome(
        compiled.report, sizes, defaulted, results, statistics.median(times), read_seconds, comparisons)


def _load(name: str, path: str) -> np.ndarray:
    try:
        array = np.load(path, allow_pickle=False)
    except OSError as error:
        raise ArgumentError(f"--input {name}: can't read {path}: {error.strerror or error}") from None
    except (ValueError, EOFError) as error:
        raise ArgumentError(f"--input {name}: {path} is not a .npy file: {error}") from None
    if not isinstance(array, np.ndarray):
        raise ArgumentError(f"--input {name}: {path} must hold one array")
    return array


def choose_sizes(function: Function, given: Mapping[str, np.ndarray], dims: Mapping[str, int]
                 ) -> tuple[dict[str, int], tuple[str, ...]]:
    """A size for every symbol, and which of them nobody chose; raises ArgumentError outside a range."""
    symbols = {s.name: s for s in symbols_of(*(n for x in function.parameters for n in x.shape))}
    unknown = [name for name in dims if name not in symbols]
    if unknown:
        raise ArgumentError(
            f"--dim {unknown[0]}: {function.name} has no such size; it has {', '.join(symbols) or 'none'}")
    sizes: dict[str, int] = {}
    for x in function.parameters:
        array = given.get(x.attributes.name)
        if array is not None and array.ndim == len(x.shape):
            sizes.update({str(n): extent for n, extent in zip(x.shape, array.shape, strict=True) if str(n) in symbols})
    for name, value in dims.items():
        if sizes.setdefault(name, value) != value:
            raise ArgumentError(f"--dim {name}={value} contradicts an input, where it is {sizes[name]}")
        _check_range(symbols[name], value)
    defaulted = tuple(name for name in symbols if name not in sizes)
    for name in defaulted:
        sizes[name] = default_size(symbols[name])
    return sizes, defaulted


def _check_range(symbol: Symbol, value: int) -> None:
    if not symbol.lower <= value <= symbol.upper or value % symbol.divisor:
        multiple = f", a multiple of {symbol.divisor}" if symbol.divisor != 1 else ""
        raise ArgumentError(
            f"--dim {symbol.name} must be in {symbol.lower}..{symbol.upper}{multiple}, got {value}")


def default_size(symbol: Symbol) -> int:
    """DEFAULT_SIZE, or the nearest size that the symbol's range and divisor allow."""
    clamped = min(max(DEFAULT_SIZE, symbol.lower), symbol.upper)
    up = -(-clamped // symbol.divisor) * symbol.divisor
    return up if up <= symbol.upper else symbol.upper // symbol.divisor * symbol.divisor


def random_arrays(function: Function, sizes: Mapping[str, int], seed: int,
                  given: Mapping[str, np.ndarray] | None = None) -> list[np.ndarray]:
    """Arrays for all parameters: normal floats, integers in -8..8 or 0..8, fair booleans."""
    random = np.random.default_rng(seed)
    arrays = []
    for x in function.parameters:
        drawn = random_array(random, x.tensor_type, sizes)
        arrays.append((given or {}).get(x.attributes.name, drawn))
    return arrays


def random_array(random: np.random.Generator, type_: TensorType, sizes: Mapping[str, int]) -> np.ndarray:
    shape = [evaluate(n, sizes) for n in type_.shape]
    dtype = type_.dtype
    try:
        if dtype.is_float:
            return random.standard_normal(shape).astype(dtype.numpy)
        low, high = (0, 2) if dtype.name == "bool" else (-8 if dtype.is_signed else 0, 9)
        return random.integers(low, high, shape).astype(dtype.numpy)
    except (MemoryError, ValueError):
        raise ArgumentError(f"an array of type {type_} with sizes {dict(sizes)} is too large") from None


def show_run(outcome: Outcome, console: Console) -> None:
    """The run as a few lines."""
    report = outcome.report
    console.print(f"[bold]{escape(report.name)}[/bold]   {escape(report.signature)}", soft_wrap=True)
    sizes = ", ".join(
        f"{name} = {value}{' (default)' if name in outcome.defaulted else ''}" for name, value in outcome.sizes.items())
    if sizes:
        console.print(f"  sizes    {sizes}")
    console.print(f"  kernels  {report.kernels} (from {report.kernels_before}), modelled {report.cost:.1f} us")
    console.print(f"  call     {outcome.seconds * 1e6:.1f} us")
    for number, result in enumerate(outcome.results):
        shape = ", ".join(map(str, result.shape))
        line = f"  result {number} {result.dtype}[{shape}]"
        if outcome.comparisons is not None:
            found = outcome.comparisons[number]
            verdict = "equal to the reference" if found.agrees else f"[red]differs: {found.message}[/red]"
            line = f"{escape(line)}   max error {found.max_abs_error:.1e}, {verdict}"
            console.print(line)
        else:
            console.print(escape(line))

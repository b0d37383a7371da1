"""`tcp-eqsat run`: inputs from files or random, one compilation, calls, a comparison with the reference."""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape

from tcp_eqsat import pipeline
from tcp_eqsat.codegen.target import is_ptx
from tcp_eqsat.compare import Comparison, compare
from tcp_eqsat.errors import ArgumentError
from tcp_eqsat.lang.binding import bind_symbols
from tcp_eqsat.lang.budget import Budget
from tcp_eqsat.lang.dims import Symbol, evaluate
from tcp_eqsat.lang.narrow import convert_array
from tcp_eqsat.lang.program import Function, Program
from tcp_eqsat.lang.reference import evaluate as evaluate_reference
from tcp_eqsat.lang.types import F32, F64, DType, TensorType, dtype_of, integer_range
from tcp_eqsat.report import Report, json_ready

DEFAULT_SIZE = 8  # of a symbol that nobody sets, where its range allows it
_MEMORY_BYTES = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 1 << 40


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
        found["results"] = [{"dtype": dtype_of(r.dtype).name, "shape": list(r.shape)} for r in self.results]
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

    inputs  parameter -> path of a .npy file; the others are drawn, from `seed`
    dims    symbol -> size, where no input decides it; DEFAULT_SIZE for the rest
    check   whether to compare with the NumPy reference

    Raises TcpError children for unusable files and arguments.
    """
    if seed < 0:
        raise ArgumentError(f"--random must not be negative, got {seed}")
    if is_ptx(target):
        raise ArgumentError(f"target {target} gives text, which can't be run here; `optimize --emit ptx` prints it")
    program, read_seconds = read_timed(file)
    function = program.function(entry)
    paths = inputs or {}
    unknown = [name for name in paths if name not in function.parameter_names]
    if unknown:
        known = ", ".join(function.parameter_names)
        raise ArgumentError(f"--input {unknown[0]}: {function.name} has no such parameter; it has {known}")
    dtypes = {x.attributes.name: x.dtype for x in function.parameters}
    given = {name: _read_as(load_array(name, path), dtypes[name]) for name, path in paths.items()}
    sizes, defaulted = choose_sizes(function, given, dims or {})
    check_memory(function, sizes, check)
    arrays = random_arrays(function, sizes, seed, given)
    compiled = pipeline.compile(
        function, target=target, numerics=numerics, threads=threads, budget=budget, sizes=sizes)
    assert isinstance(compiled, pipeline.Compiled)
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


def read_timed(file: Path) -> tuple[Program, float]:
    """The program in a file, and how many seconds it took to read."""
    start = time.perf_counter()
    program = pipeline.read(file)
    return program, time.perf_counter() - start


_NPY_MAGIC = b"\x93NUMPY"


def load_array(name: str, path: str) -> np.ndarray:
    """The array in a .npy file; raises ArgumentError, with `name` as the input it is for."""
    try:
        with open(path, "rb") as stream:
            is_npy = stream.read(len(_NPY_MAGIC)) == _NPY_MAGIC
            stream.seek(0)
            array: np.ndarray | None = np.lib.format.read_array(stream, allow_pickle=False) if is_npy else None
    except OSError as error:
        raise ArgumentError(f"--input {name}: can't read {path}: {error.strerror or error}") from None
    except Exception as error:  # NumPy lets through whatever it meets in a damaged header
        raise ArgumentError(f"--input {name}: {path} is a .npy file that can't be read: {error}") from None
    if array is None:
        raise ArgumentError(f"--input {name}: {path} is not a .npy file")
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _read_as(array: np.ndarray, dtype: DType) -> np.ndarray:
    """The array; a file has raw bytes in place of the dtypes that NumPy lacks."""
    raw = array.dtype.kind == "V" and array.dtype.fields is None and array.dtype.itemsize == dtype.bytes
    return array.view(dtype.numpy) if raw else array


def choose_sizes(function: Function, given: Mapping[str, np.ndarray], dims: Mapping[str, int]
                 ) -> tuple[dict[str, int], tuple[str, ...]]:
    """A size for every symbol, and which of them nobody chose.

    Raises TypeMismatch or ShapeMismatch for an array that does not fit its parameter, ArgumentError for an unknown
    size, one outside its range or one that contradicts an array.
    """
    check_dims(function, dims)
    fed = [x for x in function.parameters if x.attributes.name in given]
    names = [x.attributes.name for x in fed]
    sizes = bind_symbols(names, [x.tensor_type for x in fed], [given[name] for name in names])
    for name, value in dims.items():
        if sizes.setdefault(name, value) != value:
            raise ArgumentError(f"--dim {name}={value} contradicts an input, where it is {sizes[name]}")
    open_symbols = [each for each in function.symbols if each.name not in sizes]
    sizes.update({each.name: default_size(each) for each in open_symbols})
    return sizes, tuple(each.name for each in open_symbols)


def check_dims(function: Function, dims: Mapping[str, int]) -> None:
    """Raises ArgumentError for a size that the function does not have, or outside its range."""
    symbols = {each.name: each for each in function.symbols}
    for name, value in dims.items():
        found = symbols.get(name)
        if found is None:
            known = ", ".join(symbols) or "none"
            raise ArgumentError(f"--dim {name}: {function.name} has no such size; it has {known}")
        if not found.lower <= value <= found.upper or value % found.divisor:
            multiple = f", a multiple of {found.divisor}" if found.divisor != 1 else ""
            raise ArgumentError(f"--dim {name} must be in [{found.lower}, {found.upper}]{multiple}, got {value}")


def default_size(symbol: Symbol) -> int:
    """DEFAULT_SIZE, or the nearest size that the symbol's range and divisor allow."""
    clamped = min(max(DEFAULT_SIZE, symbol.lower), symbol.upper)
    up = -(-clamped // symbol.divisor) * symbol.divisor
    return up if up <= symbol.upper else symbol.upper // symbol.divisor * symbol.divisor


def check_memory(function: Function, sizes: Mapping[str, int], check: bool = False) -> None:
    """Raises ArgumentError where this machine can't hold a run: inputs, results of two calls, the f64 reference's."""
    def count(types: Iterable[TensorType], item: int | None = None) -> int:
        return sum(math.prod(evaluate(n, sizes) for n in t.shape) * (item or t.dtype.bytes) for t in types)

    results = [x.tensor_type for x in function.results]
    needed = count(x.tensor_type for x in function.parameters) + 2 * count(results) + check * count(results, 8)
    if needed > _MEMORY_BYTES:
        shown = ", ".join(f"{name} = {value}" for name, value in sizes.items()) or "its sizes"
        raise ArgumentError(
            f"{function} with {shown} is too large for this machine: arrays of {needed / 2**30:.1f} GiB, memory of "
            f"{_MEMORY_BYTES / 2**30:.1f} GiB")


def random_arrays(function: Function, sizes: Mapping[str, int], seed: int,
                  given: Mapping[str, np.ndarray] | None = None) -> list[np.ndarray]:
    """Arrays for all parameters: normal floats, integers in -8..8 or 0..8, fair booleans."""
    random = np.random.default_rng(seed)
    arrays = []
    for x in function.parameters:
        array = (given or {}).get(x.attributes.name)
        arrays.append(random_array(random, x.tensor_type, sizes) if array is None else array)
    return arrays


def random_array(random: np.random.Generator, type_: TensorType, sizes: Mapping[str, int]) -> np.ndarray:
    """An array of a type; raises ArgumentError where this machine can't hold it."""
    shape = [evaluate(n, sizes) for n in type_.shape]
    dtype = type_.dtype
    if math.prod(shape) * dtype.bytes > _MEMORY_BYTES:
        raise ArgumentError(f"an array of type {type_} is too large for this machine with sizes {dict(sizes)}")
    if dtype.is_float:
        if dtype in (F32, F64):
            return random.standard_normal(shape, dtype.numpy)
        return convert_array(random.standard_normal(shape, np.float32), dtype)
    least, most = integer_range(dtype)
    drawn = random.integers(max(least, -8), min(most, 8), shape, np.int64, endpoint=True)
    return convert_array(drawn, dtype)


def show_run(outcome: Outcome, console: Console) -> None:
    """The run as a few lines."""
    report = outcome.report
    console.print(f"[bold]{escape(report.signature)}[/bold]")
    sizes = ", ".join(
        f"{name} = {value}{' (default)' if name in outcome.defaulted else ''}" for name, value in outcome.sizes.items())
    if sizes:
        console.print(f"  sizes    {sizes}")
    console.print(f"  kernels  {report.kernels} (from {report.kernels_before}), modelled {report.cost:.1f} us")
    console.print(f"  call     {outcome.seconds * 1e6:.1f} us")
    for number, result in enumerate(outcome.results):
        type_ = TensorType(dtype_of(result.dtype), result.shape)
        verdict = "" if outcome.comparisons is None else f"   {_verdict(outcome.comparisons[number])}"
        console.print(f"  result   {escape(str(type_))}{verdict}")


def _verdict(found: Comparison) -> str:
    outcome = "equal to the reference" if found.agrees else f"[red]not the reference: {escape(found.message)}[/red]"
    return f"max error {found.max_abs_error:.1e}, {outcome}"

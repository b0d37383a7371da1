"""`tcp-eqsat test`: programs that state what they expect of their own values, run in the reference or compiled.

A function with expectations is a test. So is one in whose text `expected-error` stands: it must be refused, on the
line that is meant and with the message that is given, as MLIR's own tests are.
"""

from __future__ import annotations

import dataclasses
import enum
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tcp_eqsat import pipeline
from tcp_eqsat.agreement import difference
from tcp_eqsat.errors import ArgumentError, TcpError, TypeMismatch
from tcp_eqsat.frontends.mlir.expectations import states_expectations
from tcp_eqsat.frontends.mlir.lexer import Source
from tcp_eqsat.frontends.mlir.modules import Definition, parse_module
from tcp_eqsat.frontends.mlir.scope import Expectation, SeveralProcesses, Uninstrumented
from tcp_eqsat.lang.budget import Budget
from tcp_eqsat.lang.ops.builders import parameter
from tcp_eqsat.lang.ops.structure import inline
from tcp_eqsat.lang.program import Function, Region
from tcp_eqsat.lang.reference import evaluate

_BUDGET = Budget(seconds=1.0, nodes=5_000, iterations=4, steps=200)
_EXPECTED_ERROR = re.compile(r"//\s*expected-error\s*(?:@([+-]\d+)|@below|@above)?\s*\{\{(.*)\}\}")


class Mode(enum.StrEnum):
    """How tests are run."""

    REFERENCE = "reference"
    COMPILED = "compiled"
    BOTH = "both"


class Verdict(enum.StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Outcome:
    """One test; `message` says why it failed or was skipped."""

    file: str
    name: str
    verdict: Verdict
    message: str = ""

    def __str__(self) -> str:
        return f"{self.verdict.upper()} {self.file} {self.name}: {self.message}"


def find_files(paths: Sequence[Path]) -> list[Path]:
    """The MLIR files among paths, and in directories at any depth, in order. Raises ArgumentError for others."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += sorted(path.rglob("*.mlir"))
        elif path.is_file():
            found.append(path)
        else:
            raise ArgumentError(f"there is no file or directory {path}")
    return list(dict.fromkeys(found))


def run_file(path: Path, mode: Mode, pattern: str | None = None) -> Iterator[Outcome]:
    """Every test of a file whose name (or the file's) contains `pattern`."""
    file = str(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        yield Outcome(file, "-", Verdict.FAILED, f"can't be read: {error}")
        return
    for part in Source(text, file).parts():
        yield from _run_part(part, mode, None if pattern is not None and pattern in file else pattern)


def _run_part(source: Source, mode: Mode, pattern: str | None) -> Iterator[Outcome]:
    expected = list(_expected_errors(source))
    try:
        definitions = list(parse_module(source).definitions())
    except TcpError as error:
        if pattern is None:
            yield _of_error(source.file, "-", error, expected)
        return
    starts = [*(definition.line for definition in definitions), math.inf]
    for number, definition in enumerate(definitions):
        if pattern is not None and pattern not in definition.name:
            continue
        own = [each for each in expected if starts[number] <= each[0] < starts[number + 1]]
        outcome = _run_definition(definition, mode, own)
        if outcome is not None:
            yield outcome


def _expected_errors(source: Source) -> Iterator[tuple[int, str]]:
    """The line on which each error is expected, and its message."""
    for number, line in enumerate(source.text.split("\n"), source.first_line):
        found = _EXPECTED_ERROR.search(line)
        if found is not None:
            step = int(found[1]) if found[1] else 1 if "@below" in line else -1 if "@above" in line else 0
            yield number + step, found[2]


def _of_error(file: str, name: str, error: TcpError, expected: Sequence[tuple[int, str]]) -> Outcome:
    """What a refusal means where errors are expected."""
    line = error.where.line if error.where is not None else 0
    if any(line == wanted and message in error.message for wanted, message in expected):
        return Outcome(file, name, Verdict.PASSED)
    return Outcome(file, name, Verdict.FAILED, str(error).replace("\n", "; "))


def _run_definition(definition: Definition, mode: Mode, errors: Sequence[tuple[int, str]]) -> Outcome | None:
    """The outcome of one function; None where it expects nothing."""
    file, name = definition.source.file, definition.name
    try:
        lowered = definition.lower()
    except (SeveralProcesses, Uninstrumented) as error:
        return Outcome(file, name, Verdict.SKIPPED, error.message) if states_expectations(definition.op) else None
    except TcpError as error:
        return _of_error(file, name, error, errors)
    if errors:
        return Outcome(file, name, Verdict.FAILED, f"is not refused, with {errors[0][1]!r}")
    if not lowered.expectations:
        return None
    modes = [Mode.REFERENCE, Mode.COMPILED] if mode is Mode.BOTH else [mode]
    for each in modes:
        try:
            message = check(lowered.function, lowered.expectations, each)
        except TcpError as error:
            message = str(error).replace("\n", "; ")
        if message is not None:
            return Outcome(file, name, Verdict.FAILED, f"{each}: {message}")
    return Outcome(file, name, Verdict.PASSED)


def check(function: Function, expectations: Sequence[Expectation], mode: Mode) -> str | None:
    """Runs a function without parameters; how the first expectation fails, or None.

    Compiled, constants of the text are arguments, so that machine code computes what the reference does.

    Raises TypeMismatch for a function with parameters, and what compiling and running raise.
    """
    if function.parameters:
        raise TypeMismatch(f"a function without parameters is required, got {function}")
    wanted = tuple(x for each in expectations for x in (each.actual, each.expected))
    whole = dataclasses.replace(function, results=wanted)
    values = evaluate(whole, []) if mode is Mode.REFERENCE else _compiled(whole)
    for number, each in enumerate(expectations):
        found, expected = values[2 * number], values[2 * number + 1]
        differs = difference(each.relation, found, expected, each.tolerance)
        if differs is not None:
            return f"{each.name} in line {each.where.line} is not {_relation(each)} {differs}"
    return None


def _relation(expectation: Expectation) -> str:
    if expectation.relation == "equal":
        return "as expected"
    unit = "" if expectation.relation == "almost" else " ULP"
    return f"within {expectation.tolerance:g}{unit}"


def _compiled(function: Function) -> tuple[np.ndarray, ...]:
    lifted, arrays = with_constants_as_parameters(function)
    found = pipeline.compile(lifted, budget=_BUDGET)(*arrays)
    return found if isinstance(found, tuple) else (found,)


def with_constants_as_parameters(function: Function) -> tuple[Function, list[np.ndarray]]:
    """A function without parameters that is given its constants, those inside of regions excepted, and these."""
    whole = pipeline.expanded(function)
    constants = tuple(x for x in whole.nodes() if x.op.name == "constant")
    parameters = tuple(parameter(f"constant{n}", n, x.tensor_type) for n, x in enumerate(constants))
    results = inline(Region(constants, whole.results), parameters)
    lifted = dataclasses.replace(whole, parameters=parameters, results=results, names={}, locations={})
    return lifted, [x.attributes.data.array for x in constants]

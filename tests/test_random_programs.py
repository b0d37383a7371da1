"""Random well-typed programs through the whole pipeline, compared with the reference.

`--programs N` compiles N of them instead of the default; `--first-program K` starts elsewhere; `--numerics TIER` grants
more than "exact", and values are then compared as far as other roundings leave them alone.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from disturbed import disturbances
from programs import SAMPLERS, SYMBOLS, Sample, random_program

import tcp_eqsat as tcp
from tcp_eqsat.compare import compare
from tcp_eqsat.lang.op import IN_REGIONS, OPS, PROCEDURAL
from tcp_eqsat.lang.program import Function, Node
from tcp_eqsat.lang.reference import evaluate
from tcp_eqsat.pipeline import expanded

FROZEN_SHARE = 4
"""One program of so many is also compiled with some parameters frozen."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    first, number = (metafunc.config.getoption(name) for name in ("--first-program", "--programs"))
    if "program_seed" in metafunc.fixturenames:
        metafunc.parametrize("program_seed", range(first, first + number))
    if "frozen_seed" in metafunc.fixturenames:
        metafunc.parametrize("frozen_seed", range(first, first + number, FROZEN_SHARE))
    if "numerics" in metafunc.fixturenames:
        metafunc.parametrize("numerics", [metafunc.config.getoption("--numerics")])


def accumulates_floats(function: Function) -> bool:
    """Whether the result depends on the order of sums or products: with extreme values it may overflow or not.

    Products of complex numbers count too: their parts are differences that may cancel.
    """
    return any(node.op.name == "map" and node.dtype.is_complex for node in function.nodes()) or any(
        node.dtype.is_float and (node.op.name == "contract" or node.attributes.operation.name in ("add", "multiply"))
        for node in function.nodes() if node.op.name in ("contract", "reduce"))


def inputs(sample: Sample, numerics: str) -> list[tuple[str, tuple[np.ndarray, ...]]]:
    """Arrays to try, with the kind of values in them."""
    is_firm = numerics == "exact" and not sample.rough and not accumulates_floats(expanded(sample.function))
    return [(values, sample.arrays(variant, values)) for variant, values in enumerate(
        ("tame", "tame", "nasty", "nasty") if is_firm else ("tame", "tame"))]


def check(sample: Sample, numerics: str, values: str, arrays: Sequence[np.ndarray], found: object) -> None:
    """Whether `found` is right for these arrays, as far as the tier says what is right."""
    expected = evaluate(sample.function, arrays)
    results = found if isinstance(found, tuple) else (found,)
    moved = [np.zeros(x.shape) for x in expected] if numerics == "exact" else disturbances(sample.function, arrays)
    if moved is None:
        return
    for number, (y, e, change) in enumerate(zip(results, expected, moved, strict=True)):
        if change is None:
            continue
        outcome = compare(np.asarray(y), e, signs=numerics == "exact")
        if not outcome.agrees and y.dtype == e.dtype and y.shape == e.shape and e.dtype.kind == "f":
            near = np.isfinite(y) & np.isfinite(e) & (np.abs(y.astype(np.float64) - e) <= 4 * change)
            outcome = compare(np.where(near, e, y), e)
        assert outcome.agrees, (number, values, outcome)


def is_frozen(parameter: Node, seed: int) -> bool:
    """Half of the parameters whose sizes are numbers and symbols: of others the symbols can't always be told."""
    plain = all(isinstance(n, int) or n in SYMBOLS.values() for n in parameter.shape)
    return plain and random.Random(f"{parameter.attributes.name} {seed}").random() < 0.5


def test_compiled_program_equals_the_reference(program_seed: int, numerics: str) -> None:
    sample = random_program(program_seed, size=3 + program_seed % 6, stable=True)
    compiled = tcp.compile(sample.function, numerics=numerics)
    for values, arrays in inputs(sample, numerics):
        check(sample, numerics, values, arrays, compiled(*arrays))


def test_program_with_frozen_parameters_equals_the_reference(frozen_seed: int, numerics: str) -> None:
    sample = random_program(frozen_seed, size=3 + frozen_seed % 6, stable=True)
    frozen = {x for x in sample.function.parameters if is_frozen(x, frozen_seed)}
    compiled = None
    for values, arrays in inputs(sample, numerics)[1:3]:
        arguments = list(zip(sample.function.parameters, arrays, strict=True))
        constants = {x.attributes.name: array for x, array in arguments if x in frozen}
        if compiled is None:
            compiled = tcp.compile(sample.function, numerics=numerics, constants=constants)
        else:
            compiled = compiled.update(**constants)
        rest = [array for x, array in arguments if x not in frozen]
        check(sample, numerics, values, arrays, compiled(*rest))


STEPS = tuple(name for name in SAMPLERS if OPS[name].pointful in (PROCEDURAL, IN_REGIONS))


def test_program_of_all_operations_equals_the_reference(frozen_seed: int) -> None:
    """Routines and control flow among kernels, some parameters frozen."""
    sample = random_program(
        frozen_seed, size=4 + frozen_seed % 12, stable=True, names=(*SAMPLERS, *STEPS, *STEPS), max_rank=4)
    frozen = {x for x in sample.function.parameters if is_frozen(x, frozen_seed) and frozen_seed % 8 == 0}
    for variant in range(2):
        arrays = sample.arrays(variant, "tame")
        arguments = list(zip(sample.function.parameters, arrays, strict=True))
        constants = {x.attributes.name: array for x, array in arguments if x in frozen}
        compiled = tcp.compile(sample.function, constants=constants)
        rest = [array for x, array in arguments if x not in frozen]
        check(sample, "exact", "tame", arrays, compiled(*rest))


@pytest.mark.parametrize("limits", [
    {"nodes": 1}, {"nodes": 50}, {"iterations": 1}, {"steps": 1}, {"seconds": 1e-9}, {"seconds": 0.01},
    {"nodes": 1, "growth": 0.01, "iterations": 1, "steps": 1, "seconds": 1e-9},
], ids=str)
def test_whatever_the_budget_the_program_is_right(limits: dict[str, float], numerics: str) -> None:
    for seed in range(100, 104):
        sample = random_program(seed, size=3 + seed % 6, stable=True)
        compiled = tcp.compile(sample.function, numerics=numerics, budget=tcp.Budget(**limits))
        values, arrays = inputs(sample, numerics)[0]
        check(sample, numerics, values, arrays, compiled(*arrays))

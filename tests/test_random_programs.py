"""Random well-typed programs through the whole pipeline, compared with the reference.

`--programs N` compiles N of them instead of the default; `--first-program K` starts elsewhere.
"""

from __future__ import annotations

import numpy as np
import pytest
from programs import random_program

import tcp_eqsat as tcp
from tcp_eqsat.compare import compare
from tcp_eqsat.lang.program import Function
from tcp_eqsat.lang.reference import evaluate
from tcp_eqsat.pipeline import expanded


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "program_seed" in metafunc.fixturenames:
        first = metafunc.config.getoption("--first-program")
        metafunc.parametrize("program_seed", range(first, first + metafunc.config.getoption("--programs")))


def accumulates_floats(function: Function) -> bool:
    """Whether the result depends on the order of sums or products: with extreme values it may overflow or not."""
    return any(
        node.dtype.is_float and (node.op.name == "contract" or node.attributes.operation.name in ("add", "multiply"))
        for node in function.nodes() if node.op.name in ("contract", "reduce"))


def test_compiled_program_equals_the_reference(program_seed: int) -> None:
    sample = random_program(program_seed, size=3 + program_seed % 6, stable=True)
    function = expanded(sample.function)
    compiled = tcp.compile(sample.function)
    for variant, values in enumerate(("tame", "tame", "nasty", "nasty")):
        if values == "nasty" and (accumulates_floats(function) or sample.rough):
            continue
        arrays = sample.arrays(variant, values)
        expected = evaluate(sample.function, arrays)
        found = compiled(*arrays)
        for number, (y, e) in enumerate(zip(found if isinstance(found, tuple) else (found,), expected, strict=True)):
            outcome = compare(np.asarray(y), e)
            assert outcome.agrees, (number, values, outcome)

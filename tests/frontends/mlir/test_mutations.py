"""Texts that somebody damaged are read or refused with a place, fast and in little memory, whatever was done to them.

`--mutations N` takes more of them, of the public test programs too, and checks each one's time.
"""

from __future__ import annotations

import random
import resource
import sys
import time
from pathlib import Path

import pytest
from mutations import mutated
from test_own_forms import PAIRS, program
from test_stablehlo_values import PROGRAMS
from test_tcp_dialect import REFUSED

from tcp_eqsat.errors import TcpError
from tcp_eqsat.frontends.mlir import parse

SHARED = Path(__file__).parents[4] / "shared" / "conformance"
SHORT = 300
MOST_SECONDS = 1.0
MOST_BYTES = 500 << 20

OWN = [
    *(f"func.func @main() {{\n{body}\n  func.return\n}}\n" for body in PROGRAMS.values()),
    *(program(result, text) for result, own, generic in PAIRS for text in (own, generic)),
    REFUSED,
]


def texts(wanted: int) -> list[str]:
    """Our own programs, and for long runs the public ones, where they are at hand."""
    if wanted <= SHORT:
        return OWN
    return OWN + [path.read_text() for path in sorted(SHARED.rglob("*.mlir"))]


def check(text: str) -> None:
    try:
        parse(text, "mutated")
    except TcpError as error:
        assert error.where is not None, error
        assert error.where.file == "mutated" and error.where.line >= 1 and error.where.column >= 1


def test_mutations(request: pytest.FixtureRequest):
    wanted: int = request.config.getoption("--mutations")
    known = texts(wanted)
    parse(OWN[0], "warm")
    before = peak_bytes()
    for seed in range(wanted):
        rng = random.Random(seed)
        text = mutated(rng.choice(known), rng)
        start = time.process_time()
        try:
            check(text)
        except BaseException as error:
            raise AssertionError(f"mutation {seed}") from error
        if wanted > SHORT:
            assert time.process_time() - start < MOST_SECONDS, f"mutation {seed}"
            assert peak_bytes() - before < MOST_BYTES, f"mutation {seed}"


def peak_bytes() -> int:
    """The most memory that this process had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


@pytest.mark.parametrize("text", [
    "func.func @f() { return }\n" + "module {\n" * 5000,
    "func.func @f() {\n" + '  "a.b"() ({\n' * 5000,
    "func.func @f(%x: " + "tuple<" * 5000 + "tensor<f32>" + ">" * 5000 + ") { return }",
    "func.func @f() {\n  %0 = stablehlo.constant dense<" + "[" * 20000 + "]" * 20000 + "> : tensor<f32>\n  return\n}",
    "func.func @f() attributes {a = " + "[" * 20000 + "]" * 20000 + "} { return }",
    "func.func @f() {\n  %0 = stablehlo.constant dense<0> : tensor<9223372036854775807xi8>\n  return\n}",
    "func.func @f(%x: tensor<2x!quant.uniform<i8<-" + "9" * 6000 + ":1>:f32, 0.5>>) { return }",
    "\n".join(f"func.func @f{n}() {{ func.call @f{n + 1}() : () -> () func.call @f{n + 1}() : () -> () return }}"
              for n in range(40)) + "\nfunc.func @f40() { return }",
    "func.func @f() { func.call @f() : () -> () return }",
    "// -----\n" * 20000,
])
def test_texts_that_grow(text):
    check(text)


def test_resources_that_are_missing_or_short():
    for blob in ("", "0x", "0x0400000000", "0x04000000", "04000000"):
        check('func.func @f() -> tensor<2xf32> {\n  %0 = stablehlo.constant dense_resource<a> : tensor<2xf32>\n'
              f'  return %0 : tensor<2xf32>\n}}\n{{-# dialect_resources: {{ builtin: {{ a: "{blob}" }} }} #-}}')

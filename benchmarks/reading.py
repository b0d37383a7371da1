"""How fast MLIR text is read: many operations in generic form, and large constants.

    python benchmarks/reading.py

Goals: at most 0.1 ms for an operation (syntax and meaning), over 200 MB of text a second for hexadecimal constants.
Times are of this process alone (CPU time), the best of several runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from tcp_eqsat.frontends.mlir import parse
from tcp_eqsat.frontends.mlir.lexer import Source
from tcp_eqsat.frontends.mlir.modules import parse_module

OPERATIONS = 10_000
CONSTANT_MEGABYTES = 64
RUNS = 3


def chain(count: int, tag: str) -> str:
    """A function of `count` elementwise operations one after the other, named so that no two texts share nodes."""
    type_ = "tensor<8x16xf32>"
    lines = [f"func.func @main(%a_{tag}: {type_}, %b_{tag}: {type_}) -> {type_} {{"]
    last = f"%a_{tag}"
    for n in range(count):
        name = ("add", "multiply", "subtract")[n % 3]
        lines.append(f'  %{n} = "stablehlo.{name}"({last}, %b_{tag}) : ({type_}, {type_}) -> {type_}')
        last = f"%{n}"
    return "\n".join([*lines, f"  return {last} : {type_}", "}"])


def blob(megabytes: int) -> str:
    """A function that returns a constant of so many MB, in hexadecimal."""
    count = megabytes * 2**20 // 4
    digits = np.random.default_rng(0).standard_normal(count).astype(np.float32).tobytes().hex()
    return (f'func.func @main() -> tensor<{count}xf32> {{\n  %0 = stablehlo.constant dense<"0x{digits}"> : '
            f"tensor<{count}xf32>\n  return %0 : tensor<{count}xf32>\n}}")


def best(run: Callable[[int], object]) -> float:
    """The least CPU seconds of several runs."""
    seconds = []
    for number in range(RUNS):
        start = time.process_time()
        run(number)
        seconds.append(time.process_time() - start)
    return min(seconds)


def main() -> None:
    texts = [chain(OPERATIONS, f"r{n}") for n in range(RUNS)]
    syntax = best(lambda n: parse_module(Source(texts[n], "chain.mlir")))
    whole = best(lambda n: parse(texts[n]))
    print(f"{OPERATIONS} operations: syntax {syntax / OPERATIONS * 1e6:.1f} us each, "
          f"with meaning {whole / OPERATIONS * 1e6:.1f} us each (goal 100)")
    text = blob(CONSTANT_MEGABYTES)
    seconds = best(lambda n: parse(text))
    print(f"constant of {CONSTANT_MEGABYTES} MB: {len(text) / seconds / 1e6:.0f} MB of text a second (goal 200)")


if __name__ == "__main__":
    main()

"""What a call costs: two arrays of 16 floats in, one out, around an entry that does nothing.

    python benchmarks/call_overhead.py [ROUNDS]

prints nanoseconds per call as median and quartiles over ROUNDS (default 40) interleaved rounds, beside NumPy's own
cheapest calls. The sizes are a symbol, so that a call binds, compares and range-checks it.
"""

from __future__ import annotations

import statistics
import sys
import timeit
from collections.abc import Callable

import numpy as np

from tcp_eqsat.codegen.call import CompiledCall, Parameter, Signature, make_call
from tcp_eqsat.codegen.jit import compile_module
from tcp_eqsat.codegen.target import host_target
from tcp_eqsat.lang.dims import symbol, symbols_of
from tcp_eqsat.lang.types import F32, TensorType

ENTRY = "define void @entry(ptr %p, ptr %r, ptr %c, ptr %w, ptr %s) { ret void }\n"
CALLS = 2000


def contestants() -> dict[str, Callable[[], object]]:
    module = compile_module(ENTRY, host_target())
    b = symbol("b", 0, 512)
    vector = TensorType(F32, (b,))
    signature = Signature((Parameter("x", vector), Parameter("y", vector)), (vector,), symbols_of(b))

    def made(workspace_bytes: int = 0, implementation: str = "compiled") -> CompiledCall:
        return make_call(
            signature,
            module.address("entry"),
            workspace_bytes,
            keep_alive=module,
            implementation=implementation,
        )

    call, with_workspace, python = made(), made(4096), made(implementation="python")
    function = call.function
    x, y, out = (np.ones(16, np.float32) for _ in range(3))
    strided = np.ones(32, np.float32)[::2]
    return {
        "call(x, y)": lambda: call(x, y),
        "call(x, y), 4 KiB workspace": lambda: with_workspace(x, y),
        "call(x, y, out=out)": lambda: call(x, y, out=out),
        "call(x=x, y=y)": lambda: call(x=x, y=y),
        "call.function(x, y)": lambda: function(x, y),
        "call.function(x, y, out=out)": lambda: function(x, y, out=out),
        "call(x, strided)": lambda: call(x, strided),
        "interpreted call(x, y)": lambda: python(x, y),
        "np.add(x, y)": lambda: np.add(x, y),
        "np.add(x, y, out=out)": lambda: np.add(x, y, out=out),
        "an empty function": lambda: None,
    }


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    functions = contestants()
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            times[name].append(timeit.timeit(function, number=CALLS) / CALLS * 1e9)
    print(f"{'ns per call, lambda included':32} {'median':>8} {'quartiles':>17}")
    for name, values in times.items():
        low, middle, high = statistics.quantiles(values, n=4)
        print(f"{name:32} {middle:8.0f} {low:8.0f}{high:9.0f}")


if __name__ == "__main__":
    main()

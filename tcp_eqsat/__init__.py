"""Tensor programs, made cheaper by equality saturation and compiled to native code.

    import tcp_eqsat as tcp

    program = tcp.trace(lambda x, w: tcp.numpy.tanh(x @ w), tcp.spec("f32[b, 16]"), tcp.spec("f32[16, 10]"))
    f = tcp.compile(program)
    y = f(x, w)

Everything is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tcp_eqsat import rules
    from tcp_eqsat.errors import TcpError
    from tcp_eqsat.frontends import array_api as numpy
    from tcp_eqsat.frontends import neural as nn
    from tcp_eqsat.frontends.control import call, cond, fori_loop, scan, switch, while_loop
    from tcp_eqsat.frontends.tracing import spec, trace
    from tcp_eqsat.jit import jit
    from tcp_eqsat.lang.budget import Budget
    from tcp_eqsat.lang.program import Function, Program
    from tcp_eqsat.pipeline import compile, grad, jvp, optimize, parse, read, reference, vjp, vmap, write

__version__ = "0.1.0"

_HOME = {
    "Budget": "tcp_eqsat.lang.budget",
    "Function": "tcp_eqsat.lang.program",
    "Program": "tcp_eqsat.lang.program",
    "TcpError": "tcp_eqsat.errors",
    "call": "tcp_eqsat.frontends.control",
    "compile": "tcp_eqsat.pipeline",
    "cond": "tcp_eqsat.frontends.control",
    "fori_loop": "tcp_eqsat.frontends.control",
    "grad": "tcp_eqsat.pipeline",
    "jit": "tcp_eqsat.jit",
    "jvp": "tcp_eqsat.pipeline",
    "optimize": "tcp_eqsat.pipeline",
    "parse": "tcp_eqsat.pipeline",
    "read": "tcp_eqsat.pipeline",
    "reference": "tcp_eqsat.pipeline",
    "scan": "tcp_eqsat.frontends.control",
    "spec": "tcp_eqsat.frontends.tracing",
    "switch": "tcp_eqsat.frontends.control",
    "trace": "tcp_eqsat.frontends.tracing",
    "vjp": "tcp_eqsat.pipeline",
    "vmap": "tcp_eqsat.pipeline",
    "while_loop": "tcp_eqsat.frontends.control",
    "write": "tcp_eqsat.pipeline",
}
_MODULES = {
    "errors": "tcp_eqsat.errors",
    "nn": "tcp_eqsat.frontends.neural",
    "numpy": "tcp_eqsat.frontends.array_api",
    "rules": "tcp_eqsat.rules",
}
__all__ = [
    "Budget", "Function", "Program", "TcpError", "call", "compile", "cond", "fori_loop", "grad", "jit", "jvp", "nn",
    "numpy", "optimize", "parse", "read", "reference", "rules", "scan", "spec", "switch", "trace", "vjp", "vmap",
    "while_loop", "write",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value = importlib.import_module(_MODULES[name])
    elif name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES, "__version__"})

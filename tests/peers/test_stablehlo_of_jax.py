"""StableHLO as JAX writes and reads it. Run with `pytest --peers`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax._src.interpreters import mlir as jax_mlir
from jaxlib.mlir import ir

import tcp_eqsat as tcp
from benchmarks.models import MODELS
from tcp_eqsat.frontends import mlir
from tcp_eqsat.frontends.mlir.lexer import Source
from tcp_eqsat.frontends.mlir.modules import parse_module

F = np.float32
SHARED = Path(__file__).parents[3] / "shared" / "conformance" / "stablehlo" / "testdata"
_WEIGHTS = np.random.default_rng(1)
W1, W2, W3 = (_WEIGHTS.standard_normal(shape).astype(F) * 0.3 for shape in ((16, 32), (32, 4), (8, 8)))
KERNEL = _WEIGHTS.standard_normal((3, 3, 2, 4)).astype(F)


def mlp(x):
    return jax.nn.softmax(jax.nn.gelu(x @ W1) @ W2)


def attention(q, k, v):
    weights = jax.nn.softmax(jnp.einsum("bqd,bkd->bqk", q, k) / 4.0, axis=-1)
    return jnp.einsum("bqk,bkd->bqd", weights, v)


def convolution(x):
    return jax.lax.conv_general_dilated(x, KERNEL, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def recurrence(x, h):
    def step(h, row):
        h = jnp.tanh(h @ W3 + row)
        return h, h

    return jax.lax.scan(step, h, x)


def pooled(x):
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME")


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "mlp": (mlp, ("b, 16",)),
    "attention": (attention, ("b, s, 8",) * 3),
    "convolution": (convolution, ("b, 8, 8, 2",)),
    "scan": (recurrence, ("5, b, 8", "b, 8")),
    "scan over an open length": (recurrence, ("s, b, 8", "b, 8")),
    "pooling": (pooled, ("b, 8, 8, 2",)),
    "cumulative sum": (lambda x: jnp.cumsum(x, 0), ("b, 7",)),
    "sort": (lambda x: jnp.sort(x, -1), ("b, 7",)),
    "top k": (lambda x: jax.lax.top_k(x, 3), ("b, 7",)),
    "argmax": (lambda x: jnp.argmax(x, -1), ("b, 7",)),
    "condition": (lambda x: jax.lax.cond(x.sum() > 0, lambda y: y * 2, lambda y: y - 1, x), ("b, 4",)),
    "reshape": (lambda x: x.reshape(x.shape[0] * x.shape[1], -1) + jnp.arange(4, dtype=F), ("b, s, 4",)),
    "concatenation": (lambda x: jnp.concatenate([x, 2 * x], 0)[1:], ("b, 4",)),
    "gradient": (jax.grad(lambda x: jnp.sum(jnp.tanh(x @ W1) ** 2)), ("b, 16",)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_exports_with_open_sizes_compile_once(name):
    function, shapes = PROGRAMS[name]
    scope = export.SymbolicScope()
    specs = [jax.ShapeDtypeStruct(export.symbolic_shape(shape, scope=scope), F) for shape in shapes]
    program = mlir.parse(export.export(jax.jit(function))(*specs).mlir_module(), name)
    compiled = tcp.compile(program, budget=tcp.Budget(seconds=2))
    generator = np.random.default_rng(0)
    for sizes in ({"b": 1, "s": 2}, {"b": 3, "s": 5}, {"b": 8, "s": 3}):
        arrays = [generator.standard_normal([sizes.get(n.strip(), 0) or int(n) for n in shape.split(",")]).astype(F)
                  for shape in shapes]
        expected = jax.tree.leaves(function(*arrays))
        for run in (tcp.reference(program), compiled):
            found = run(*arrays)
            for a, b in zip(found if isinstance(found, tuple) else (found,), expected, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["mlp_tanh", "mlp_full", "softmax", "layer_norm", "group_norm", "attention_block"])
def test_jax_reads_and_runs_what_is_written(name):
    model = MODELS[name]()
    sizes = {"b": 2, "s": 3} if name == "attention_block" else {"b": 3}
    best = tcp.optimize(model.program, sizes=sizes).program
    for program in (model.program, best):
        text = mlir.write_stablehlo(program)
        with jax_mlir.make_ir_context():
            module = ir.Module.parse(text)
            assert module.operation.verify()


def lowered(text: str, file: str) -> Sequence[Any]:
    return [(d.name, d.lower()) for d in parse_module(Source(text, file)).definitions()]


def test_every_form_that_jax_prints_is_read_alike():
    """The public programs as JAX prints them: generic, with locations, with types spelt out."""
    files = sorted(SHARED.glob("*.mlir"))
    assert files
    for file in files[::5]:
        text = file.read_text()
        expected = dict(lowered(text, file.name))["main"]
        with jax_mlir.make_ir_context():
            module = ir.Module.parse(text)
            printed = [module.operation.get_asm(**options) for options in (
                {"print_generic_op_form": True}, {"enable_debug_info": True}, {"use_local_scope": True})]
        for each in printed:
            found = dict(lowered(each, file.name))["main"]
            assert found.function.results == expected.function.results, file.name
            assert len(found.expectations) == len(expected.expectations)

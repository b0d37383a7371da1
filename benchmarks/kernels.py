"""Row kernels, elementwise code and the MLPs against JAX, PyTorch and Numba, on one pinned core.

    pip install -e ".[peers]" && python -m benchmarks.kernels [--quick] [--json FILE]

Peers that are not installed are left out, and the table says so by not showing them.
"""

from __future__ import annotations

from benchmarks.harness import Table, agree, arguments, finish, pin_to_one_core

if __name__ == "__main__":
    pin_to_one_core()  # before NumPy and the peers are imported

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

import tcp_eqsat as tcp
from benchmarks import programs
from benchmarks.models import layer_norm, mlp_full, mlp_tanh, softmax

Call = Callable[[], object]


def _module(name: str) -> Any:
    """A peer, set to one thread, or None where it is not installed."""
    try:
        module = importlib.import_module(name)
    except ImportError:
        return None
    if name == "torch":
        module.set_num_threads(1)
    return module


def _jax_call(jax: Any, function: Callable[..., Any], *arrays: np.ndarray) -> Call:
    compiled = jax.jit(function)
    inputs = [jax.numpy.asarray(a) for a in arrays]
    return lambda: compiled(*inputs).block_until_ready()


def row_kernels(quick: bool) -> list[Table]:
    """softmax and layer norm of 512 rows of 1024."""
    torch, jax = _module("torch"), _module("jax")
    rows = 32 if quick else 512
    tables = []

    x = np.random.default_rng(0).standard_normal((rows, 1024)).astype(np.float32)
    f = tcp.compile(softmax().program)
    agree(f(x), programs.numpy_softmax({"x": x}), 1e-6)
    peers: dict[str, Call] = {"numpy": lambda: programs.numpy_softmax({"x": x})}
    if torch is not None:
        t = torch.from_numpy(x)
        peers["torch"] = lambda: torch.softmax(t, 1)
    if jax is not None:
        peers["jax"] = _jax_call(jax, lambda v: jax.nn.softmax(v, axis=1), x)
    table = Table("softmax")
    table.add(f"{rows} x 1024", lambda: f(x), peers, rounds=5 if quick else 51)
    tables.append(table)

    model = layer_norm()
    w = dict(model.weights)
    g = tcp.compile(model.program)
    agree(g(x, w["scale"], w["bias"]), programs.numpy_layer_norm({"x": x, **w}), 1e-4)
    peers = {"numpy": lambda: programs.numpy_layer_norm({"x": x, **w})}
    if torch is not None:
        t, scale, bias = torch.from_numpy(x), torch.from_numpy(w["scale"]), torch.from_numpy(w["bias"])
        peers["torch"] = lambda: torch.nn.functional.layer_norm(t, (1024,), scale, bias)
    if jax is not None:
        def normalised(v: Any, scale: Any, bias: Any) -> Any:
            centred = v - v.mean(1, keepdims=True)
            return centred * jax.lax.rsqrt((centred * centred).mean(1, keepdims=True) + 1e-5) * scale + bias

        peers["jax"] = _jax_call(jax, normalised, x, w["scale"], w["bias"])
    table = Table("layer_norm")
    table.add(f"{rows} x 1024", lambda: g(x, w["scale"], w["bias"]), peers, rounds=5 if quick else 51)
    tables.append(table)
    return tables


def elementwise(quick: bool) -> list[Table]:
    """relu(a * b + c) on 1e7 elements, results made anew and in place."""
    numba, jax, torch = _module("numba"), _module("jax"), _module("torch")
    n = 100_000 if quick else 10_000_000
    random = np.random.default_rng(0)
    a, b, c = (random.standard_normal(n).astype(np.float32) for _ in range(3))
    program = tcp.trace(lambda a, b, c: tcp.nn.relu(a * b + c), "f32[n]", "f32[n]", "f32[n]", name="relu")
    f = tcp.compile(program)
    out, other = np.empty_like(a), np.empty_like(a)
    agree(f(a, b, c), np.maximum(a * b + c, 0), 1e-6)

    def numpy_relu() -> np.ndarray:
        np.multiply(a, b, out=other)
        np.add(other, c, out=other)
        return np.maximum(other, 0, out=other)

    peers: dict[str, Call] = {"numpy": numpy_relu}
    if numba is not None:
        @numba.njit(fastmath=False)
        def loop(a: np.ndarray, b: np.ndarray, c: np.ndarray, out: np.ndarray) -> None:
            for i in range(a.size):
                out[i] = max(a[i] * b[i] + c[i], np.float32(0))

        loop(a, b, c, other)
        peers["numba"] = lambda: loop(a, b, c, other)
    if jax is not None:
        peers["jax"] = _jax_call(jax, lambda a, b, c: jax.numpy.maximum(a * b + c, 0), a, b, c)
    if torch is not None:
        ta, tb, tc = map(torch.from_numpy, (a, b, c))
        peers["torch"] = lambda: torch.relu(ta * tb + tc)
    table = Table("relu(a*b+c)")
    table.add(f"{n} elements", lambda: f(a, b, c, out=out), peers, rounds=5 if quick else 31,
              note=lambda seconds: f"{16 * n / seconds / 1e9:.1f} GB/s")
    return [table]


def mlps(quick: bool) -> list[Table]:
    """Both MLPs, weights as arguments, against NumPy and jax.jit compiled for each batch size."""
    jax = _module("jax")
    tables = []
    for model, plain in ((mlp_tanh(), programs.numpy_mlp_tanh), (mlp_full(), programs.numpy_mlp_full)):
        names = model.program.main.parameter_names
        f = tcp.compile(model.program)
        table = Table(model.name)
        for batch in (1, 128) if quick else (1, 128, 4096):
            arrays = model.arrays(b=batch)
            w = dict(zip(names, arrays, strict=True))
            agree(f(*arrays), plain(w), 1e-5)
            peers: dict[str, Call] = {"numpy": lambda p=plain, w=w: p(w)}
            if jax is not None:
                peers["jax"] = _jax_call(jax, _jax_mlp(jax, model.name), *arrays)
            table.add(f"b = {batch}", lambda f=f, a=arrays: f(*a), peers, rounds=5 if quick else 51)
        tables.append(table)
    return tables


def _jax_mlp(jax: Any, name: str) -> Callable[..., Any]:
    def network(x: Any, w1: Any, w2: Any, w3: Any, b1: Any, b2: Any, b3: Any) -> Any:
        for weights, bias in ((w1, b1), (w2, b2), (w3, b3)):
            x = x @ weights + bias
            x = jax.numpy.tanh(x) if name == "mlp_tanh" else jax.numpy.tanh(x * 0.5) * 0.5 + 0.5
        return x if name == "mlp_tanh" else jax.nn.softmax(x, axis=1)

    return network


if __name__ == "__main__":
    options = arguments(__doc__ or "")
    finish([*mlps(options.quick), *row_kernels(options.quick), *elementwise(options.quick)], options)

"""Whole programs against the same programs in NumPy: ratios of interleaved runs on one pinned core.

    python -m benchmarks.programs [--quick] [--json FILE]
"""

from __future__ import annotations

from benchmarks.harness import Table, agree, arguments, finish, pin_to_one_core

if __name__ == "__main__":
    pin_to_one_core()  # before NumPy is imported

import math
from collections.abc import Callable

import numpy as np

import tcp_eqsat as tcp
from benchmarks.models import Model, gelu_dense, layer_norm, mlp_full, mlp_tanh, softmax


def _weights(arrays: tuple[np.ndarray, ...], names: tuple[str, ...]) -> dict[str, np.ndarray]:
    return dict(zip(names, arrays, strict=True))


def _layers(w: dict[str, np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(w[f"{name}_weights"], w[f"{name}_bias"]) for name in ("h1", "h2", "out")]


def numpy_mlp_tanh(w: dict[str, np.ndarray]) -> np.ndarray:
    x = w["x"]
    for weights, bias in _layers(w):
        x = np.tanh(x @ weights + bias)
    return x


def numpy_mlp_full(w: dict[str, np.ndarray]) -> np.ndarray:
    x, half = w["x"], np.float32(0.5)
    for weights, bias in _layers(w):
        x = np.tanh((x @ weights + bias) * half) * half + half
    return numpy_softmax({"x": x})


def numpy_softmax(w: dict[str, np.ndarray]) -> np.ndarray:
    shifted = np.exp(w["x"] - w["x"].max(1, keepdims=True))
    return shifted / shifted.sum(1, keepdims=True)


def numpy_layer_norm(w: dict[str, np.ndarray]) -> np.ndarray:
    x = w["x"]
    centred = x - x.mean(1, keepdims=True)
    variance = np.square(centred).mean(1, keepdims=True)
    return centred / np.sqrt(variance + np.float32(1e-5)) * w["scale"] + w["bias"]


def numpy_gelu_dense(w: dict[str, np.ndarray]) -> np.ndarray:
    """The tanh approximation: NumPy has no error function. It is the cheaper of the two."""
    y = w["x"] @ w["w"] + w["bias"]
    inner = np.float32(math.sqrt(2 / math.pi)) * (y + np.float32(0.044715) * y * y * y)
    return np.float32(0.5) * y * (1 + np.tanh(inner))


CASES: list[tuple[Callable[[], Model], Callable[[dict[str, np.ndarray]], np.ndarray], tuple[int, ...], float]] = [
    (mlp_tanh, numpy_mlp_tanh, (1, 7, 128, 4096), 1e-5),
    (mlp_full, numpy_mlp_full, (1, 7, 128, 4096), 1e-5),
    (softmax, numpy_softmax, (1, 512), 1e-6),
    (layer_norm, numpy_layer_norm, (1, 512), 1e-4),
    (gelu_dense, numpy_gelu_dense, (1, 32, 128), 5e-3),
]


def run(quick: bool = False) -> list[Table]:
    """Every program at its batch sizes; `quick` takes two batch sizes and few rounds."""
    tables = []
    for make, plain, batches, tolerance in CASES:
        model = make()
        names = model.program.main.parameter_names
        f = tcp.compile(model.program, constants=model.weights)
        table = Table(model.name)
        for batch in batches[:2] if quick else batches:
            arrays = model.arrays(b=batch)
            inputs = [a for name, a in zip(names, arrays, strict=True) if name not in model.weights]
            w = _weights(arrays, names)
            agree(f(*inputs), plain(w), tolerance)
            table.add(f"b = {batch}", lambda f=f, i=inputs: f(*i), {"numpy": lambda p=plain, v=w: p(v)},
                      rounds=5 if quick else 31)
        tables.append(table)
    return tables


if __name__ == "__main__":
    options = arguments(__doc__ or "")
    finish(run(options.quick), options)

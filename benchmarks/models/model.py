"""A program with its weights and a way to make inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from tcp_eqsat.frontends.tracing import spec, trace
from tcp_eqsat.lang.dims import evaluate
from tcp_eqsat.lang.program import Program


@dataclass(frozen=True)
class Model:
    """`weights` are the parameters that inference keeps fixed, by name; the others are inputs."""

    name: str
    program: Program
    weights: Mapping[str, np.ndarray] = field(repr=False)

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(n for n in self.program.main.parameter_names if n not in self.weights)

    def arrays(self, seed: int = 0, **sizes: int) -> tuple[np.ndarray, ...]:
        """Every parameter in order: normal random inputs of these sizes, and the weights."""
        random = np.random.default_rng(seed)
        return tuple(
            self.weights[name] if name in self.weights else random.standard_normal(
                [evaluate(n, sizes) for n in parameter.shape]).astype(parameter.dtype.numpy)
            for name, parameter in zip(
                self.program.main.parameter_names, self.program.main.parameters, strict=True))


def glorot(random: np.random.Generator, *shape: int) -> np.ndarray:
    """Weights of variance 2 / (fan in + fan out) (Glorot and Bengio, 2010), f32."""
    return (random.standard_normal(shape) * np.sqrt(2 / sum(shape[-2:]))).astype(np.float32)


def trace_model(name: str, function: Callable[..., object], inputs: Mapping[str, str],
                weights: Mapping[str, np.ndarray], **ranges: tuple[int, int]) -> Model:
    """Trace `function(**inputs, **weights)`: inputs by the text of their types, weights by their arrays."""
    names = [*inputs, *weights]
    texts = [*inputs.values(), *(f"f32[{', '.join(map(str, w.shape))}]" for w in weights.values())]
    specs = [spec(text, **(ranges if i == 0 else {})) for i, text in enumerate(texts)]
    program = trace(
        lambda *arguments: function(**dict(zip(names, arguments, strict=True))), *specs, name=name, names=names)
    return Model(name, program, weights)

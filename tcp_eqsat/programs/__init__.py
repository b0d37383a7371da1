"""The programs of the demo: the two perceptrons of the TCP proposal, 16 -> 16 -> 16 -> 10.

The files beside this module are what `texts` gives: the networks as the package's own printers write them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tcp_eqsat.frontends import array_api as xp
from tcp_eqsat.frontends import mlir
from tcp_eqsat.frontends import neural as nn
from tcp_eqsat.frontends.tracing import trace
from tcp_eqsat.lang import text
from tcp_eqsat.lang.program import Program

VARIABLES = ("h2_bias", "out_bias", "h1_bias", "h2_weights", "out_weights", "h1_weights")
"""The parameters after x, which the MLIR files load by name."""
_TYPES = ("f32[16]", "f32[10]", "f32[16]", "f32[16, 16]", "f32[16, 10]", "f32[16, 16]")


def _perceptron(x: Any, activation: Callable[[Any], Any], *variables: Any) -> Any:
    named = dict(zip(VARIABLES, variables, strict=True))
    for layer in ("h1", "h2", "out"):
        x = activation(x @ named[f"{layer}_weights"] + named[f"{layer}_bias"])
    return x


def mlp_tanh(x: Any, *variables: Any) -> Any:
    """Three dense layers with tanh."""
    return _perceptron(x, xp.tanh, *variables)


def mlp_full(x: Any, *variables: Any) -> Any:
    """Three dense layers with the sigmoid spelt by tanh, then softmax."""
    return nn.softmax(_perceptron(x, lambda y: xp.tanh(y * 0.5) * 0.5 + 0.5, *variables))


def program(network: Callable[..., Any]) -> Program:
    """A network traced for any batch size b."""
    return trace(network, "f32[b, 16]", *_TYPES, names=("x", *VARIABLES))


def texts() -> dict[str, str]:
    """File name -> text, of every file beside this module."""
    found: dict[str, str] = {}
    for network in (mlp_tanh, mlp_full):
        traced = program(network)
        found[f"{network.__name__}.mlir"] = mlir.write(traced, variables=VARIABLES)
        found[f"{network.__name__}.tcp"] = text.write(traced)
    return found

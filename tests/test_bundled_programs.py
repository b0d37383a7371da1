"""The programs of the demo are what the package's own printers write, and the networks they claim to be."""

from __future__ import annotations

from importlib import resources

import numpy as np
import pytest

from tcp_eqsat import demo, pipeline
from tcp_eqsat import programs as bundled_programs
from tcp_eqsat.compare import compare
from tcp_eqsat.lang.reference import evaluate
from tcp_eqsat.run import random_arrays

FILES = [f"{name}.{extension}" for name in demo.PROGRAMS for extension in ("mlir", "tcp")]


def test_files_are_what_the_printers_write():
    """Rewrite a file that fails with the text that is expected here."""
    assert {name: demo.bundled(name) for name in FILES} == bundled_programs.texts()


def test_no_other_files_are_bundled():
    folder = resources.files("tcp_eqsat").joinpath("programs")
    assert {x.name for x in folder.iterdir() if not x.name.startswith("__")} == set(FILES)


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("b", [0, 5])
def test_programs_are_the_networks(file, b):
    program = pipeline.parse(demo.bundled(file), file)
    assert str(program.main) == (
        f"{file.split('.')[0]}(x: f32[b, 16], h2_bias: f32[16], out_bias: f32[10], h1_bias: f32[16], "
        "h2_weights: f32[16, 16], out_weights: f32[16, 10], h1_weights: f32[16, 16]) -> f32[b, 10]")
    arrays = random_arrays(program.main, {"b": b}, seed=1)
    (found,) = evaluate(program.main, arrays)
    assert compare(demo.PROGRAMS[program.main.name](*arrays).astype(np.float32), found).agrees


def test_the_mlir_files_have_the_forms_of_the_proposal():
    text = demo.bundled("mlp_full.mlir")
    for form in ('func @mlp_full(%x: tensor<?x16xf32>) -> tensor<?x10xf32> {', "flow.variable.load @h2_bias",
                 '"xla_hlo.dot"(', '"xla_hlo.tanh"(', "xla_hlo.mul %", "dense<0xFF800000> : tensor<f32>", "^bb0(",
                 "{broadcast_sizes = dense<[-1, 16]> : tensor<2xi64>}"):
        assert form in text

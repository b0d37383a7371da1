"""The runner of programs that test themselves: what is a test, what a verdict says, how the command ends."""

# ruff: noqa: E501 (lines are programs)

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from tcp_eqsat.agreement import difference
from tcp_eqsat.cli import app
from tcp_eqsat.conformance import Mode, Verdict, find_files, run_file
from tcp_eqsat.errors import ArgumentError

TEXT = """func.func private @inputs() -> tensor<2xf32> {
  %0 = stablehlo.constant dense<[1.0, 4.0]> : tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func @good() {
  %0 = call @inputs() : () -> tensor<2xf32>
  %1 = stablehlo.sqrt %0 : tensor<2xf32>
  check.expect_eq_const %1, dense<[1.0, 2.0]> : tensor<2xf32>
  func.return
}
func.func @bad() {
  %0 = call @inputs() : () -> tensor<2xf32>
  %1 = stablehlo.sqrt %0 : tensor<2xf32>
  check.expect_eq_const %1, dense<[1.0, 3.0]> : tensor<2xf32>
  func.return
}
// -----
func.func @several(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "stablehlo.all_reduce"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %c : tensor<f32>
  }) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func @main() {
  %0 = stablehlo.constant dense<[1.0, 4.0]> : tensor<2xf32>
  %1:2 = "interpreter.run_parallel"(%0, %0) {programs = [[@several], [@several]]} : (tensor<2xf32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  check.expect_eq_const %1#0, dense<[2.0, 8.0]> : tensor<2xf32>
  func.return
}
// -----
func.func @unreadable() {
  oops
}
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "t.mlir"
    path.write_text(TEXT)
    return path


@pytest.mark.parametrize("mode", [Mode.REFERENCE, Mode.COMPILED])
def test_verdicts(file, mode):
    good, bad, several, unreadable = run_file(file, mode)
    assert (good.name, good.verdict) == ("good", Verdict.PASSED)
    assert bad.verdict is Verdict.FAILED
    assert bad.message == f"{mode}: %1 in line 14 is not as expected at [1]: got 2.0, expected 3.0"
    assert several.verdict is Verdict.SKIPPED and "several processes" in several.message
    assert unreadable.verdict is Verdict.FAILED and ":34:3:" in unreadable.message


def test_patterns_name_tests_or_files(file):
    assert [o.name for o in run_file(file, Mode.REFERENCE, "good")] == ["good"]
    assert len(list(run_file(file, Mode.REFERENCE, "t.mlir"))) == 4


def test_command(file, tmp_path):
    found = CliRunner().invoke(app, ["test", str(tmp_path), "--mode", "both", "--processes", "1"])
    lines = found.output.strip().splitlines()
    assert found.exit_code == 1 and lines[-1] == "1 passed, 2 failed, 1 skipped"
    assert sum(line.startswith("FAILED") for line in lines) == 2
    as_json = CliRunner().invoke(app, ["test", str(file), "-k", "good", "--json"])
    report = json.loads(as_json.output)
    assert as_json.exit_code == 0 and (report["passed"], report["failed"]) == (1, 0)


def test_files(tmp_path, file):
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "u.mlir").write_text("")
    assert [x.name for x in find_files([tmp_path])] == ["u.mlir", "t.mlir"]
    with pytest.raises(ArgumentError):
        find_files([tmp_path / "nowhere"])


@pytest.mark.parametrize(("relation", "found", "expected", "tolerance", "agrees"), [
    ("equal", [np.nan, -0.0], [np.nan, 0.0], 0, True),
    ("equal", [1.0], [1.0 + 2**-23], 0, False),
    ("close", [1.0], [1.0 + 2**-23], 1, True),
    ("close", [0.0], [-1e-45], 1, True),
    ("close", [1e-45], [-1e-45], 1, False),
    ("almost", [np.inf], [3e38], 1e38, False),
    ("almost", [np.inf], [np.inf], 0, True),
    ("almost", [1.0], [1.00005], 1e-4, True),
])
def test_agreement(relation, found, expected, tolerance, agrees):
    a, b = np.array(found, np.float32), np.array(expected, np.float32)
    assert (difference(relation, a, b, tolerance) is None) is agrees
    assert (difference(relation, a + 0j, b + 0j, tolerance) is None) is agrees


def test_integers_agree_where_they_are_equal():
    assert difference("close", np.array([1, 2]), np.array([1, 3]), 5).index == (1,)
    assert difference("almost", np.array([1]), np.array([1]), 0) is None

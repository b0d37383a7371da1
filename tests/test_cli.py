"""The command: what it prints, its JSON, its exit status, and what it says of input it can't use.

Most runs are in this process (`command`); those of `process` are in another, as people run it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import tcp_eqsat as tcp
from tcp_eqsat import cli, demo, pipeline, run
from tcp_eqsat.compare import Comparison, compare
from tcp_eqsat.lang import text
from tcp_eqsat.lang.reference import evaluate
from tcp_eqsat.lang.types import dtype_named
from tcp_eqsat.report import json_ready
from tcp_eqsat.rules import default as shipped_rules

PROGRAMS = Path(demo.__file__).parent / "programs"
MLP = str(PROGRAMS / "mlp_tanh.tcp")
ORIGINALS = Path(__file__).resolve().parents[2] / "shared" / "programs"

ADD = """tcp 1

func @add(%x: f32[b, 3], %y: f32[b, 3]) -> f32[b, 3] where b in [2, 64], b % 2 == 0 {
  %sum = add %x, %y: f32[b, 3]
  return %sum
}

func @twice(%x: i32[2*n, n]) -> i32[2*n, n] {
  %double = add %x, %x: i32[2*n, n]
  return %double
}
"""


@dataclass(frozen=True)
class Result:
    status: int
    out: str
    err: str

    @property
    def json(self) -> dict:
        assert self.status == 0, self.err
        return json.loads(self.out)


@pytest.fixture
def command(monkeypatch, capsys):
    """Runs `tcp-eqsat` in this process."""

    def run_command(*arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["tcp-eqsat", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        captured = capsys.readouterr()
        return Result(int(stop.value.code or 0), captured.out, captured.err)

    return run_command


def process(*arguments: object, **options) -> Result:
    """Runs `tcp-eqsat` in a process of its own."""
    found = subprocess.run([sys.executable, "-m", "tcp_eqsat.cli", *map(str, arguments)], capture_output=True,
                           text=True, timeout=120, check=False, **options)
    return Result(found.returncode, found.stdout, found.stderr)


@pytest.fixture
def add_file(tmp_path) -> Path:
    path = tmp_path / "add.tcp"
    path.write_text(ADD)
    return path


def saved(folder: Path, name: str, array: np.ndarray) -> Path:
    np.save(folder / f"{name}.npy", array)
    return folder / f"{name}.npy"


# Running


@pytest.mark.skipif(not ORIGINALS.is_dir(), reason=f"the proposal's programs are not at {ORIGINALS}")
@pytest.mark.parametrize("file", ["mlp_full.mlir", "mlp_tanh.mlir"])
def test_the_programs_of_the_proposal_run_and_agree(file):
    found = process("run", ORIGINALS / file, "--dim", "b=33", "--random", 0, "--check")
    assert found.status == 0, found.err
    assert "sizes    b = 33\n" in found.out
    assert "result   f32[33, 10]   max error " in found.out and "equal to the reference" in found.out


@pytest.mark.parametrize(("file", "b"), [
    ("mlp_full.mlir", 5), ("mlp_full.tcp", 0), ("mlp_tanh.mlir", 0), ("mlp_tanh.tcp", 5)])
def test_the_bundled_programs_run_and_agree(command, file, b):
    found = command("run", PROGRAMS / file, "--dim", f"b={b}", "--check", "--json").json
    assert found["schema"] == 1
    assert found["sizes"] == {"b": b}
    assert found["check"] == "passed"
    assert found["max_abs_error"] <= 1e-5
    assert found["results"] == [{"dtype": "f32", "shape": [b, 10]}]


def test_json_of_a_run(command):
    found = command("run", MLP, "--json", "--repeat", 3).json
    assert found["cost_unit"] == "us" and 0 < found["cost"] <= found["cost_before"]
    assert found["kernels"] == len(found["kernel_list"]) < found["kernels_before"]
    assert found["numerics"] == "exact" and found["stop_reason"] == "saturated"
    assert {"read", "saturate", "extract", "emit"} <= set(found["seconds"])
    assert "max_abs_error" not in found and "check" not in found
    assert found["call_us"] > 0


def test_sizes_that_nobody_sets_get_a_stated_default(command, add_file):
    assert "sizes    b = 8 (default)\n" in command("run", MLP).out
    assert command("run", MLP, "--json").json["sizes"] == {"b": run.DEFAULT_SIZE}


def test_a_program_without_results(command, tmp_path):
    (tmp_path / "f.tcp").write_text("tcp 1\nfunc @f(%x: f32[b]) -> () { return }")
    found = command("run", tmp_path / "f.tcp", "--check")
    assert found.status == 0 and found.out.startswith("f(x: f32[b]) -> ()\n")


def test_a_file_may_start_with_a_byte_order_mark(command, tmp_path):
    (tmp_path / "f.tcp").write_text((PROGRAMS / "mlp_tanh.tcp").read_text(), encoding="utf-8-sig")
    assert command("run", tmp_path / "f.tcp", "--check").status == 0


@pytest.mark.parametrize(("condition", "size"), [
    ("", 8), (" where n in [10, 20]", 10), (" where n in [1, 3]", 3), (" where n in [0, 100], n % 3 == 0", 9),
    (" where n in [0, 8], n % 5 == 0", 5), (" where n in [0, 4], n % 5 == 0", 0)])
def test_default_sizes_are_in_range(condition, size):
    function = text.parse(f"tcp 1\nfunc @f(%x: f32[n]) -> f32[n]{condition} {{ return %x }}").main
    assert run.choose_sizes(function, {}, {}) == ({"n": size}, ("n",))


def test_inputs_decide_sizes(command, add_file, tmp_path):
    x = saved(tmp_path, "x", np.ones((4, 3), np.float32))
    found = command("run", add_file, "--input", f"x={x}", "--check", "--json").json
    assert found["sizes"] == {"b": 4} and found["check"] == "passed"


def test_inputs_decide_sizes_of_which_a_shape_is_made(command, add_file, tmp_path):
    x = saved(tmp_path, "x", np.ones((6, 3), np.int32))
    found = command("run", add_file, "--entry", "twice", "--input", f"x={x}", "--json").json
    assert found["sizes"] == {"n": 3} and found["name"] == "twice"


@pytest.mark.parametrize("convert", [
    np.asfortranarray, lambda x: x.astype(">f4"), lambda x: np.lib.stride_tricks.as_strided(x, x.shape, x.strides)],
    ids=["column-major", "big-endian", "plain"])
def test_inputs_of_any_layout(command, add_file, tmp_path, convert):
    random = np.random.default_rng(0)
    x = saved(tmp_path, "x", convert(random.standard_normal((6, 3)).astype(np.float32)))
    assert command("run", add_file, "--input", f"x={x}", "--check").status == 0


@pytest.mark.parametrize("dtype", ["bf16", "f8e4m3fn", "i4", "f16"])
def test_inputs_of_dtypes_that_numpy_lacks(command, tmp_path, dtype):
    file = tmp_path / "narrow.tcp"
    file.write_text(f"tcp 1\nfunc @f(%x: {dtype}[n]) -> f32[n] {{ %0 = astype_f32 %x: f32[n] return %0 }}")
    x = saved(tmp_path, "x", np.array([1, 2, 3]).astype(dtype_named(dtype).numpy))
    assert run.run_program(file, inputs={"x": str(x)}, check=True).results[0].tolist() == [1, 2, 3]
    assert command("run", file, "--input", f"x={x}", "--check").status == 0


def test_inputs_reach_their_parameters(tmp_path, add_file):
    x = saved(tmp_path, "x", np.full((2, 3), 1, np.float32))
    y = saved(tmp_path, "y", np.full((2, 3), 2, np.float32))
    outcome = run.run_program(add_file, inputs={"y": str(y), "x": str(x)}, check=True)
    np.testing.assert_array_equal(outcome.results[0], np.full((2, 3), 3, np.float32))
    assert outcome.passed and outcome.defaulted == ()


def test_random_inputs_follow_their_seed(add_file):
    first, again, other = (run.run_program(add_file, seed=seed).results[0] for seed in (1, 1, 2))
    assert np.array_equal(first, again) and not np.array_equal(first, other)


def test_random_inputs_of_every_dtype():
    dtypes = ("bool", "i8", "u8", "i64", "u64", "f32", "f64")
    types = ", ".join(f"%x{n}: {dtype}[100]" for n, dtype in enumerate(dtypes))
    function = text.parse(f"tcp 1\nfunc @f({types}) -> bool[100] {{ return %x0 }}").main
    arrays = run.random_arrays(function, {}, 0)
    assert [str(a.dtype) for a in arrays] == ["bool", "int8", "uint8", "int64", "uint64", "float32", "float64"]
    assert all(len(np.unique(a)) > 1 for a in arrays)
    assert arrays[1].min() < 0 <= arrays[2].min()


@pytest.mark.parametrize("option", [
    ("--numerics", "reassociate"), ("--numerics", "finite"), ("--budget", "nodes=1000"), ("--budget", "steps=1"),
    ("--budget", "seconds=0.5"), ("--target", "cpu"), ("--threads", "1")])
def test_options_keep_results_right(command, option):
    found = command("run", MLP, "--check", "--json", *option).json
    assert found["check"] == "passed"
    if option[0] == "--numerics":
        assert found["numerics"] == option[1]


def test_a_budget_that_ends_saturation_is_reported(command):
    found = command("run", MLP, "--check", "--json", "--budget", "iterations=1").json
    assert found["stop_reason"] == "iteration_limit" and found["check"] == "passed"


def test_a_failed_check_is_status_1(command, monkeypatch):
    monkeypatch.setattr(run, "compare", lambda found, expected: Comparison(np.inf, np.inf, False, "7 elements differ"))
    found = command("run", MLP, "--check")
    assert found.status == 1
    assert "max error inf, not the reference: 7 elements differ" in found.out
    found = command("run", MLP, "--check", "--json")
    assert found.status == 1
    parsed = json.loads(found.out)
    assert parsed["check"] == "failed" and parsed["max_abs_error"] == "inf"


def test_numbers_that_json_lacks_are_strings():
    assert json_ready({"a": (np.inf, -np.inf, np.nan, 1.5)}) == {"a": ["inf", "-inf", "nan", 1.5]}


# Optimising


@pytest.mark.parametrize(("emit", "parts"), [
    ("tcp", ["tcp 1\n", "func @mlp_tanh(", "contract %"]),
    ("kernels", ["kernel k0", "= add over k < 16 of multiply("]),
    ("loops", ["nest k0(", "parallel for i < b", "fold "]),
    ("llvm", ["define internal void @kernel0(ptr ", "define void @entry(", "ret void"]),
    ("asm", ["kernel0", "entry"]),
])
def test_emitted_texts(command, emit, parts):
    found = command("optimize", MLP, "--emit", emit)
    assert found.status == 0 and found.err == ""
    for part in parts:
        assert part in found.out


def test_the_emitted_program_reads_back_and_computes_the_same(command, tmp_path):
    source = PROGRAMS / "mlp_full.mlir"
    best = tmp_path / "best.tcp"
    shown = command("optimize", source, "--emit", "tcp", "-o", best)
    assert "32 operations" in shown.out and "numerics exact" in shown.out
    assert best.read_text() == command("optimize", source, "--emit", "tcp").out
    before, after = pipeline.read(source).main, pipeline.read(best).main
    arrays = run.random_arrays(before, {"b": 5}, 0)
    (found,), (expected,) = evaluate(after, arrays), evaluate(before, arrays)
    assert compare(found, expected).agrees
    assert command("run", best, "--check").status == 0


def test_json_of_optimize(command, tmp_path):
    found = command("optimize", MLP, "--json").json
    assert found["schema"] == 1 and found["kernels"] == len(found["kernel_list"])
    assert {"cost", "cost_unit", "numerics", "stop_reason", "e_nodes", "iterations"} <= set(found)
    assert {"read", "saturate", "extract"} <= set(found["seconds"])
    assert found["emit"] == "tcp" and text.parse(found["text"]).main.name == "mlp_tanh"
    found = command("optimize", MLP, "--json", "--emit", "loops", "-o", tmp_path / "loops").json
    assert "text" not in found and "nest k0(" in (tmp_path / "loops").read_text()


# The demo


@pytest.fixture(scope="module")
def shown_demo() -> Result:
    return process("demo")


def test_the_demo(shown_demo):
    assert shown_demo.status == 0, shown_demo.err
    assert shown_demo.err == ""
    for name in demo.PROGRAMS:
        assert f"{name}   f32[b, 16] -> f32[b, 10]\n" in shown_demo.out
    lines = [line.split() for line in shown_demo.out.splitlines()]
    assert [line[0] for line in lines if line and line[0].isdecimal() and line[-1].endswith("x")] == [
        str(b) for b in demo.BATCHES] * 2
    assert "numerics tier: exact" in shown_demo.out


def test_json_of_the_demo(command, monkeypatch):
    monkeypatch.setattr(demo, "BATCHES", (1, 7))
    found = command("demo", "--json").json
    assert found["schema"] == 1 and found["passed"] is True
    assert [program["name"] for program in found["programs"]] == list(demo.PROGRAMS)
    for program in found["programs"]:
        assert program["kernels"] <= 4 and program["compile_ms"] > 0
        assert [row["batch"] for row in program["rows"]] == [1, 7]
        assert all(row["max_abs_error"] <= 1e-5 and row["ratio"] > 0 for row in program["rows"])


def test_a_demo_with_too_large_an_error_is_status_1(command, monkeypatch):
    monkeypatch.setattr(demo, "BATCHES", (1,))
    monkeypatch.setattr(demo, "LARGEST_ERROR", -1.0)
    found = command("demo")
    assert found.status == 1 and "an error is above -1.0" in found.out


# Rules


def test_rules_list(command):
    found = command("rules", "list")
    lines = found.out.splitlines()
    assert found.status == 0 and lines[-1] == f"{len(shipped_rules)} rules"
    assert [line.split()[0] for line in lines[:-1]] == list(shipped_rules.names)


def test_json_of_rules_list(command):
    found = command("rules", "list", "--json").json
    assert found["schema"] == 1
    assert [rule["name"] for rule in found["rules"]] == list(shipped_rules.names)
    for rule in found["rules"]:
        assert set(rule) == {"name", "numerics", "verdict", "doc"} and rule["doc"]
    assert {rule["verdict"] for rule in found["rules"]} == {"enumerated", "tested"}


# Input that can't be used: status 2, a message on standard error, no traceback, nothing on standard output


def assert_refused(found: Result, *parts: str) -> None:
    assert found.status == 2, (found.out, found.err)
    assert found.out == ""
    assert "Traceback" not in found.err and "internal" not in found.err
    for part in parts:
        assert part in found.err, found.err


HEAD = "func @f(%x: tensor<?xf32>, %y: tensor<3xf32>) -> tensor<?xf32> {\n"
BAD_PROGRAMS = {
    "no function": ("a.mlir", "", ["the text has no function", "a.mlir:1:1"]),
    "malformed": ("a.mlir", HEAD + "  %0 = xla_hlo.add %x %x\n}", ["expected ", "a.mlir:2:23", "^^"]),
    "unclosed": ("a.mlir", HEAD, ["a.mlir:2:1"]),
    "unknown operation": ("a.mlir", HEAD + '  %0 = "xla_hlo.tanhh"(%x) : (tensor<?xf32>) -> tensor<?xf32>\n'
                          "  return %0 : tensor<?xf32>\n}", ["unknown operation 'xla_hlo.tanhh'", "a.mlir:2:8"]),
    "unknown dialect": ("a.mlir", HEAD + '  %0 = "ylo.tanh"(%x) : (tensor<?xf32>) -> tensor<?xf32>\n'
                        "  return %0 : tensor<?xf32>\n}", ["unknown dialect 'ylo'", "a.mlir:2:8"]),
    "ill-typed operation": ("a.mlir", "func @f(%x: tensor<2xi32>) -> tensor<2xi32> {\n"
                            '  %0 = "xla_hlo.tanh"(%x) : (tensor<2xi32>) -> tensor<2xi32>\n'
                            "  return %0 : tensor<2xi32>\n}", ["tanh requires a floating-point dtype", "a.mlir:2:8"]),
    "contradictory shapes": ("a.mlir", "func @f(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {\n"
                             '  %0 = "xla_hlo.dot"(%x, %x) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>\n'
                             "  return %0 : tensor<2x3xf32>\n}", ["equal contracted extents", "3", "2", "a.mlir:2:8"]),
    "stated type is wrong": ("a.mlir", HEAD + '  %0 = "xla_hlo.tanh"(%y) : (tensor<3xf32>) -> tensor<4xf32>\n'
                             "  return %0 : tensor<4xf32>\n}", ["f32[3]", "f32[4]", "a.mlir:2:8"]),
    "undefined value": ("a.mlir", HEAD + "  return %z : tensor<?xf32>\n}", ["%z", "a.mlir:2:10"]),
    "our text, no version": ("a.tcp", "func @f() -> () { return }", ["'tcp' is required", "a.tcp:1:1"]),
    "our text, other version": ("a.tcp", "tcp 9\nfunc @f() -> () { return }", ["version 1", "a.tcp:1:5"]),
    "our text, unknown operation": ("a.tcp", "tcp 1\nfunc @f(%x: f32[b]) -> f32[b] {\n  %0 = tanhh %x: f32[b]\n"
                                    "  return %0\n}", ["unknown operation 'tanhh'", "a.tcp:3:8"]),
    "our text, ill-typed": ("a.tcp", "tcp 1\nfunc @f(%x: i8[b]) -> i8[b] {\n  %0 = tanh %x: i8[b]\n"
                            "  return %0\n}", ["tanh requires a floating-point dtype", "a.tcp:3:"]),
    "our text, two ranges": ("a.tcp", "tcp 1\nfunc @f(%x: f32[b]) -> f32[b] where b in [1, 5], b in [7, 9] {\n"
                             "  return %x\n}", ["size b must have one range", "a.tcp:2:50"]),
    "our text, contradictory shapes": ("a.tcp", "tcp 1\nfunc @f(%x: f32[b], %y: f32[c]) -> f32[b] {\n"
                                       "  %0 = add %x, %y: f32[b]\n  return %0\n}", ["f32[b]", "f32[c]", "a.tcp:3:"]),
}


@pytest.mark.parametrize("verb", ["run", "optimize"])
@pytest.mark.parametrize("case", BAD_PROGRAMS)
def test_bad_programs(command, tmp_path, monkeypatch, verb, case):
    name, content, parts = BAD_PROGRAMS[case]
    (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    assert_refused(command(verb, name), "error: ", *parts)


def test_bad_files(command, tmp_path):
    assert_refused(command("run", tmp_path / "none.mlir"), "can't read", "none.mlir: No such file or directory")
    assert_refused(command("run", tmp_path), "can't read", "Is a directory")
    (tmp_path / "binary.mlir").write_bytes(b"ML\xefR\x00\xff")
    assert_refused(command("run", tmp_path / "binary.mlir"), "binary.mlir is not UTF-8 text")
    assert_refused(command("run", "a\0b"), "embedded null byte")
    (tmp_path / "long.tcp").write_text("tcp 1\n" + "x" * 1_000_000)
    found = command("run", tmp_path / "long.tcp")
    assert_refused(found, "'func' is required, got 'xxx", "long.tcp:2:1")
    assert len(found.err) < 2000
    if os.geteuid():
        secret = tmp_path / "secret.tcp"
        secret.touch(mode=0)
        assert_refused(command("run", secret), "can't read", "Permission denied")


BAD_OPTIONS = {
    "--dim b": "--dim is written NAME=VALUE, got 'b'",
    "--dim =3": "--dim is written NAME=VALUE, got '=3'",
    "--dim b=x": "--dim b must be an integer, got 'x'",
    "--dim b=1.5": "--dim b must be an integer, got '1.5'",
    "--dim b=-2": "--dim b must not be negative, got -2",
    "--dim b=2 --dim b=4": "--dim b is given twice",
    "--dim q=3": "--dim q: add has no such size; it has b",
    "--dim b=66": "--dim b must be in [2, 64], a multiple of 2, got 66",
    "--dim b=3": "--dim b must be in [2, 64], a multiple of 2, got 3",
    "--dim b=99999999999999999999": "--dim b must be in [2, 64]",
    "--entry f": "no function 'f'; the program has add, twice",
    "--target tpu": "unknown target 'tpu'; known are cpu",
    "--numerics sloppy": "unknown numerics 'sloppy'; known are exact, reassociate",
    "--budget nodes": "--budget is written NAME=VALUE, got 'nodes'",
    "--budget memory=3": "--budget knows seconds, nodes, growth, iterations, steps, got 'memory'",
    "--budget nodes=many": "--budget nodes must be a number, got 'many'",
    "--budget nodes=0": "budget nodes must be positive, got 0",
    "--budget seconds=nan": "budget seconds must be positive, got nan",
    "--threads 0": "'--threads'",
    "--threads x": "'--threads'",
    "--bogus": "--bogus",
}


@pytest.mark.parametrize("verb", ["run", "optimize"])
@pytest.mark.parametrize("options", BAD_OPTIONS)
def test_bad_options(command, add_file, verb, options):
    assert_refused(command(verb, add_file, *options.split()), BAD_OPTIONS[options])


def test_bad_options_of_one_verb(command, add_file):
    assert_refused(command("run", add_file, "--repeat", 0), "'--repeat'")
    assert_refused(command("run", add_file, "--random", "dice"), "'--random'")
    assert_refused(command("run", add_file, "--random", -1), "--random must not be negative, got -1")
    assert_refused(command("optimize", add_file, "--emit", "poetry"), "'--emit'", "'tcp', 'stablehlo', 'kernels'")
    assert_refused(command("optimize", add_file, "-o", add_file / "x", "--emit", "tcp"), "can't write")
    assert_refused(command("test", add_file, "--processes", 9999), "'--processes'")
    assert_refused(command("run"), "Missing argument")
    assert_refused(command("walk"), "No such command 'walk'")
    assert_refused(command("rules", "walk"), "No such command 'walk'")


BAD_ARRAYS = {
    "dtype": (np.zeros((4, 3)), "argument 'x' must be f32[b, 3] with b in ", "got f64[4, 3]"),
    "rank": (np.zeros(3, np.float32), "argument 'x' must be f32[b, 3] with b in ", "got f32[3]"),
    "size": (np.zeros((4, 5), np.float32), "argument 'x' must be f32[b, 3] with b in ", "got f32[4, 5]"),
    "range": (np.zeros((66, 3), np.float32), "argument 'x' must be f32[b, 3] with b in ", "got f32[66, 3]"),
    "multiple": (np.zeros((5, 3), np.float32), "argument 'x' must be f32[b, 3] with b in ", "got f32[5, 3]"),
    "complex": (np.zeros((4, 3), np.complex64), "argument 'x' must be f32[b, 3]", "c64[4, 3]"),
    "text": (np.array([["a"]]), "argument 'x' must be f32[b, 3]"),
    "records": (np.zeros(2, [("a", "f4")]), "argument 'x' must be f32[b, 3]"),
    "objects": (np.array([None]), "--input x: ", "is a .npy file that can't be read"),
}


@pytest.mark.parametrize("case", BAD_ARRAYS)
def test_bad_arrays(command, add_file, tmp_path, case):
    array, *parts = BAD_ARRAYS[case]
    assert_refused(command("run", add_file, "--input", f"x={saved(tmp_path, 'x', array)}"), *parts)


def test_inputs_that_contradict_each_other(command, add_file, tmp_path):
    x, y = (saved(tmp_path, name, np.zeros((n, 3), np.float32)) for name, n in (("x", 4), ("y", 6)))
    assert_refused(command("run", add_file, "--input", f"x={x}", "--input", f"y={y}"),
                   "argument 'y' must be f32[b, 3]", "got f32[6, 3]")
    assert_refused(command("run", add_file, "--input", f"x={x}", "--dim", "b=6"),
                   "--dim b=6 contradicts an input, where it is 4")


def test_bad_inputs(command, add_file, tmp_path):
    x = saved(tmp_path, "x", np.zeros((4, 3), np.float32))
    assert_refused(command("run", add_file, "--input", x), "--input is written NAME=VALUE")
    assert_refused(command("run", add_file, "--input", f"z={x}"), "--input z: add has no such parameter; it has x, y")
    assert_refused(command("run", add_file, "--input", f"x={x}", "--input", f"x={x}"), "--input x is given twice")
    assert_refused(command("run", add_file, "--input", f"x={tmp_path / 'no.npy'}"), "can't read", "No such file")
    assert_refused(command("run", add_file, "--input", f"x={tmp_path}"), "can't read", "Is a directory")
    archive = tmp_path / "both.npz"
    np.savez(archive, x=np.zeros(3))
    assert_refused(command("run", add_file, "--input", f"x={archive}"), "both.npz is not a .npy file")
    whole = x.read_bytes()
    for content in (b"", b"junk", whole[:4], whole[:9], whole[:60], whole[:-1],
                    whole.replace(b"(4, 3)", b"(4, '"), whole.replace(b"(4, 3)", b"(-4,3"),
                    whole.replace(b"<f4", b"<q9"), whole.replace(b"(4, 3), ", b"(9**9,),")):
        x.write_bytes(content)
        assert_refused(command("run", add_file, "--input", f"x={x}"), "--input x: ", ".npy file")


def test_arrays_that_no_machine_holds(command):
    big = "tcp 1\nfunc @f(%x: f32[b, 1000000]) -> f32[b, 1000000] { return %x }"
    function = text.parse(big).main
    with pytest.raises(run.ArgumentError, match=r"f32\[b, 1000000\] is too large for this machine"):
        run.random_arrays(function, {"b": 2**31 - 1}, 0)


def test_runs_that_no_machine_holds(command, tmp_path, monkeypatch):
    (tmp_path / "f.tcp").write_text("tcp 1\nfunc @f(%x: f32[b]) -> f32[b] { return %x }")
    monkeypatch.setattr(run, "_MEMORY_BYTES", 4 * 3 * 1000)
    assert command("run", tmp_path / "f.tcp", "--dim", "b=1000").status == 0
    assert_refused(command("run", tmp_path / "f.tcp", "--dim", "b=1001"), "with b = 1001 is too large for this machine")
    assert_refused(command("run", tmp_path / "f.tcp", "--dim", "b=1000", "--check"), "too large for this machine")


def test_faults_of_ours_are_called_so(command, monkeypatch):
    def fail(*_, **__):
        raise KeyError("lost")

    monkeypatch.setattr(run, "run_program", fail)
    found = command("run", MLP)
    assert found.status == 2 and "error: internal: KeyError: 'lost'" in found.err and "Traceback" not in found.err
    monkeypatch.setattr(sys, "argv", ["tcp-eqsat", "run", MLP, "--debug"])
    with pytest.raises(KeyError):
        cli.main()


def test_debug_shows_the_traceback(tmp_path):
    found = process("run", tmp_path / "none.tcp", "--debug")
    assert found.status == 1 and "Traceback" in found.err and "ArgumentError" in found.err


def test_refusals_in_a_process_of_their_own(tmp_path):
    (tmp_path / "a.mlir").write_text(BAD_PROGRAMS["unknown operation"][1])
    found = process("run", "a.mlir", cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(PROGRAMS.parents[1])})
    assert_refused(found)
    assert found.err == """\
error: unknown operation 'xla_hlo.tanhh'; did you mean 'xla_hlo.tanh'?
  --> a.mlir:2:8
   2 |   %0 = "xla_hlo.tanhh"(%x) : (tensor<?xf32>) -> tensor<?xf32>
     |        ^^^^^^^^^^^^^^^
"""


# Help, and what it costs


def test_version(command):
    found = command("--version")
    assert found.status == 0 and found.out == f"tcp-eqsat {tcp.__version__}\n"


def test_help_names_the_commands(command):
    found = command("--help")
    assert found.status == 0
    assert all(name in found.out for name in ("demo", "run", "optimize", "rules"))


@pytest.mark.parametrize("verb", ["demo", "run", "optimize", "rules list"])
def test_every_command_has_help(command, verb):
    found = command(*verb.split(), "--help")
    assert found.status == 0 and "--json" in found.out and found.err == ""


def test_help_imports_nothing_heavy():
    script = ("import sys; from tcp_eqsat import cli\nsys.argv = ['tcp-eqsat', '--help']\n"
              "try: cli.main()\nexcept SystemExit: pass\n"
              "print([m for m in ('numpy', 'egglog', 'llvmlite', 'networkx') if m in sys.modules], file=sys.stderr)")
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert found.stderr == "[]\n"


def test_a_reader_that_stops_reading_is_no_fault():
    with subprocess.Popen([sys.executable, "-m", "tcp_eqsat.cli", "rules", "list"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stderr is not None
        child.stdout.close()
        assert child.stderr.read() == b""


MY_RULES = '''
from tcp_eqsat.rules import REASSOCIATION, rule, variables
from tcp_eqsat.rules.functions import exp, greater_equal, maximum, where

x, y = variables("x y")
good = rule("join", exp(x) * exp(y), exp(x + y), needs=REASSOCIATION, doc="One exponential.")
bad = rule("max_of_select", where(greater_equal(x, y), x, y), maximum(x, y), doc="Shorter.")
'''


def test_rules_of_a_file_are_checked_and_shown(command, tmp_path):
    file = tmp_path / "my_rules.py"
    file.write_text(MY_RULES)
    found = command("rules", "test", file)
    assert found.status == 1
    assert "FAILED max_of_select" in found.out and "it would hold when" in found.out
    assert found.out.rstrip().endswith("1 passed, 1 failed")
    shown = command("rules", "show", file, "compose_views")
    assert "exp(x) * exp(y) -> exp(x + y)" in shown.out and "compose_views" in shown.out
    as_json = command("rules", "test", "compose_views", "--json").json
    assert (as_json["passed"], as_json["failed"]) == (1, 0)


@pytest.mark.parametrize(("argument", "message"), [
    ("nonsense", "no rule 'nonsense'"), ("missing.py", "can't read missing.py")])
def test_rules_that_are_not_there_are_refused(command, argument, message):
    found = command("rules", "test", argument)
    assert found.status == 2 and message in found.err

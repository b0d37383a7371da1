"""PTX: schedules and code run in an interpreter, ptxas takes the text, what LLVM can't select is an error."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from plans import I, J, K, PlanWriter, apply, choose, fold, number, single, tensor
from programs import random_program
from ptx_interpreter import PtxFault
from ptx_runs import run_artifact
from test_compile import arrays_for, layer_norm, pointwise, product, softmax

import tcp_eqsat as tcp
from benchmarks.models import MODELS
from tcp_eqsat.codegen import ptx_compile
from tcp_eqsat.codegen.gpu_schedule import Level, schedule_launches
from tcp_eqsat.codegen.loops import For, Store, walk_statements
from tcp_eqsat.codegen.ptx import PtxArtifact, emit_plan
from tcp_eqsat.codegen.ptx_compile import compile_ptx
from tcp_eqsat.codegen.ptx_legal import INTRINSICS, Requirement, check_legal
from tcp_eqsat.codegen.target import PtxTarget, known_architectures, ptx_target
from tcp_eqsat.compare import compare
from tcp_eqsat.errors import ArgumentError, LimitError, TargetError, VerificationError
from tcp_eqsat.lang.binding import bind_symbols
from tcp_eqsat.lang.dims import symbol
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.plan import Plan, Role
from tcp_eqsat.lang.plan_reference import evaluate_plan
from tcp_eqsat.lang.program import Function
from tcp_eqsat.lang.reference import evaluate
from tcp_eqsat.lang.scalar import scalar_op_named
from tcp_eqsat.lang.text import write
from tcp_eqsat.lang.types import DTYPES, F64, I32, TensorType

B, S = symbol("b"), symbol("s")
SIZES = [{"b": n, "s": 13} for n in (0, 1, 7, 33)]
NO_RULES = tcp.rules.RuleSet()


# In the interpreter


def check(plan: Plan, *bindings: dict[str, int], tolerance: float = 0.0) -> PtxArtifact:
    """The plan's PTX gives what the reference gives."""
    artifact = emit_plan(plan)
    for sizes in bindings or ({},):
        arrays = arrays_for(plan, sizes)
        found = run_artifact(artifact, arrays, sizes)
        for x, y in zip(found, evaluate_plan(plan, arrays, sizes), strict=True):
            assert x.dtype == y.dtype and x.shape == y.shape
            np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance, err_msg=str(sizes))
    return artifact


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "bool" and not DTYPES[d].storage_only])
def test_pointwise(dtype: str) -> None:
    check(pointwise(dtype), *SIZES)


@pytest.mark.parametrize("name", ["exp", "expm1", "log", "log1p", "tanh", "logistic", "erf", "rsqrt", "exp2", "sqrt"])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_functions(name: str, dtype: str) -> None:
    plan = single({"x": tensor(dtype, B)}, ("y", tensor(dtype, B), lambda at: apply(
        name, apply("add", apply("abs", at("x", I)), number(0.5, dtype)))))
    check(plan, {"b": 50}, tolerance=1e-6 if dtype == "f32" else 1e-14)


@pytest.mark.parametrize("name", ["sin", "cos"])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_functions_with_a_rare_branch(name: str, dtype: str) -> None:
    plan = single({"x": tensor(dtype, B)}, ("y", tensor(dtype, B), lambda at: apply(name, at("x", I))))
    x = np.array([0.0, -0.0, 1.0, -2.5, 3e4, 1e6, -1e15, 1e30, np.inf, np.nan] * 4, DTYPES[dtype].numpy)
    (found,) = run_artifact(emit_plan(plan), [x], {"b": x.size})
    (expected,) = evaluate_plan(plan, [x], {"b": x.size})
    np.testing.assert_allclose(found, expected, rtol=1e-6 if dtype == "f32" else 1e-14)


def test_power() -> None:
    plan = single({"x": tensor("f32", B), "y": tensor("f32", B)},
                  ("z", tensor("f32", B), lambda at: apply("pow", at("x", I), at("y", I))))
    x, y = (a.ravel().astype(np.float32) for a in np.meshgrid([0, -0.0, 1, -2, 2.5, 1e-3, np.inf], [0, 2, 3, -0.5, 30]))
    (found,) = run_artifact(emit_plan(plan), [x, y], {"b": x.size})
    (expected,) = evaluate_plan(plan, [x, y], {"b": x.size})
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("source, to", [
    ("f32", "i32"), ("f64", "u8"), ("i64", "f32"), ("u64", "f64"), ("i8", "i64"), ("bool", "f32"), ("f32", "bool"),
    ("f64", "f32"), ("i32", "u16"), ("f32", "bf16"), ("bf16", "f32"), ("f64", "f16"), ("f16", "f64"), ("i64", "bf16"),
    ("f32", "f8e4m3fn"), ("f8e5m2", "f16"), ("f8e8m0fnu", "f32"), ("i32", "i4"), ("u4", "f16"), ("f16", "i4"),
    ("bf16", "u8")])
def test_conversions(source: str, to: str) -> None:
    plan = single({"x": tensor(source, B)}, ("y", tensor(to, B), lambda at: apply(f"astype_{to}", at("x", I))))
    check(plan, {"b": 37})


@pytest.mark.parametrize("columns", [1, 10, 300, S])
@pytest.mark.parametrize("axis", [0, 1])
def test_softmax(columns: object, axis: int) -> None:
    check(softmax(columns, axis=axis), *SIZES, tolerance=1e-5)


@pytest.mark.parametrize("columns", [3, 100, 700])
def test_layer_norm_with_two_outputs(columns: int) -> None:
    check(layer_norm(columns), *SIZES[:3], tolerance=1e-4)


@pytest.mark.parametrize("lhs, rhs", [("mk", "kn"), ("km", "nk")])
@pytest.mark.parametrize("m, n, k", [(B, 10, 16), (5, B, 7), (B, S, B)])
def test_contractions(m: object, n: object, k: object, lhs: str, rhs: str) -> None:
    check(product(m, n, k, lhs=lhs, rhs=rhs, epilogue=True), *SIZES, tolerance=1e-4)


@pytest.mark.parametrize("name, dtype", [
    ("add", "f32"), ("multiply", "i64"), ("maximum", "f64"), ("maximum", "u8"), ("bitwise_or", "bool"),
    ("minimum", "i16")])
@pytest.mark.parametrize("axis", [0, 1])
def test_folds(name: str, dtype: str, axis: int) -> None:
    shape, indices = ((70, B), (J, I)) if axis == 0 else ((B, 70), (I, J))
    plan = single({"x": tensor(dtype, *shape)},
                  ("y", tensor(dtype, B), lambda at: fold(name, 1, (70,), at("x", *indices))))
    check(plan, *SIZES, tolerance=1e-4 if dtype == "f32" else 1e-12)


def test_full_reduction_in_one_block() -> None:
    plan = single({"x": tensor("f64", B, 40)}, ("y", tensor("f64"), lambda at: fold("add", 0, (B, 40), at("x", I, J))))
    artifact = check(plan, *SIZES, tolerance=1e-12)
    assert [kernel.grid for kernel in artifact.kernels] == [1]


def test_choices_read_only_what_is_chosen() -> None:
    plan = single({"x": tensor("f32", B, 9), "y": tensor("f32", 4, 9)}, ("z", tensor("f32", B + 4), lambda at: choose(
        I, 0, B, fold("add", 1, (9,), at("x", I, J)), fold("maximum", 1, (9,), at("y", I + -B, J)))))
    check(plan, *SIZES, tolerance=1e-5)


def attention(columns: object = S) -> Plan:
    """Rows of scores stay in scratch memory, each made by all threads and read by all."""
    return single(
        {"q": tensor("f32", B, 8), "k": tensor("f32", columns, 8), "v": tensor("f32", columns, 24)},
        ("s", tensor("f32", B, columns), lambda at: fold(
            "add", 2, (8,), apply("multiply", at("q", I, K), at("k", J, K)), contraction=True)),
        ("m", tensor("f32", B), lambda at: fold("maximum", 1, (columns,), at("s", I, J))),
        ("e", tensor("f32", B, columns), lambda at: apply("exp", apply("subtract", at("s", I, J), at("m", I)))),
        ("t", tensor("f32", B), lambda at: fold("add", 1, (columns,), at("e", I, J))),
        ("p", tensor("f32", B, columns), lambda at: apply("divide", at("e", I, J), at("t", I))),
        ("o", tensor("f32", B, 24), lambda at: fold(
            "add", 2, (columns,), apply("multiply", at("p", I, K), at("v", K, J)), contraction=True)))


def test_scratch_rows_of_unknown_size_lie_in_global_memory() -> None:
    artifact = check(attention(), *SIZES, tolerance=1e-4)
    (kernel,) = artifact.kernels
    scratch = [b for b in artifact.buffers.values() if b.role is Role.TEMPORARY]
    assert scratch and all(b.name in kernel.buffers and b.size == B * S for b in scratch)


def test_scratch_rows_of_known_size_lie_in_shared_memory() -> None:
    artifact = check(attention(40), *SIZES, tolerance=1e-4)
    assert not [b for b in artifact.buffers.values() if b.role is Role.TEMPORARY]
    assert artifact.kernels[0].shared_bytes >= 40 * 4


def test_rows_too_large_for_shared_memory() -> None:
    artifact = check(softmax(20_000), {"b": 2}, tolerance=1e-5)
    assert any(b.size == 20_000 * B for b in artifact.buffers.values() if b.role is Role.TEMPORARY)


def test_rows_inside_of_a_fold_are_made_one_after_the_other() -> None:
    """A block makes the row of one i with all its threads, then that of the next."""
    plan = single(
        {"x": tensor("f32", B, 40)},
        ("m", tensor("f32", B), lambda at: fold("maximum", 1, (40,), at("x", I, J))),
        ("e", tensor("f32", B, 40), lambda at: apply("exp", apply("subtract", at("x", I, J), at("m", I)))),
        ("t", tensor("f32", B), lambda at: fold("add", 1, (40,), at("e", I, J))),
        ("p", tensor("f32", B, 40), lambda at: apply("divide", at("e", I, J), at("t", I))),
        ("q", tensor("f32", B), lambda at: fold("add", 1, (40,), apply("square", at("p", I, J)))),
        ("z", tensor("f32"), lambda at: fold("maximum", 0, (B,), at("q", I))))
    (launch,) = schedule_launches(plan.kernels[0], plan, ptx_target())
    assert launch.each is Level.BLOCK and launch.shared
    loops = [s for s in walk_statements(launch.nest.body) if isinstance(s, For)]
    assert launch.level(loops[0]) is Level.SERIAL and launch.level(loops[1]) is Level.LANE
    check(plan, *SIZES, tolerance=1e-4)


def test_outputs_of_unrelated_shapes_are_launches_of_their_own() -> None:
    plan = single(
        {"x": tensor("f64", B, 9)},
        ("r", tensor("f64", B), lambda at: fold("add", 1, (9,), at("x", I, J))),
        ("c", tensor("f64", 9), lambda at: fold("add", 1, (B,), at("x", J, I))),
        ("y", tensor("f64", B, 9), lambda at: apply("negative", at("x", I, J))), outputs=("c", "y", "r"))
    assert len(check(plan, *SIZES, tolerance=1e-12).kernels) == 2


def test_equal_kernels_are_compiled_once_and_results_copied() -> None:
    writer = PlanWriter()
    writer.parameter("x", tensor("f32", B, 16))
    for n, source in enumerate(("x", "h0_out")):
        writer.constant(f"w{n}", np.random.default_rng(n).standard_normal((16, 16)).astype(np.float32))
        writer.kernel({f"h{n}": (Role.TEMPORARY, Role.RESULT)[n]}, (
            f"h{n}", tensor("f32", B, 16), lambda at, n=n, source=source: apply("tanh", fold(
                "add", 2, (16,), apply("multiply", at(source, I, K), at(f"w{n}", K, J)), contraction=True))))
    plan = writer.plan("h1")
    artifact = check(replace(plan, results=(*plan.results, plan.parameters[0])), *SIZES, tolerance=1e-4)
    assert len({kernel.name for kernel in artifact.kernels}) == 1 and len(artifact.kernels) == 2
    assert "copy x -> result_1" in artifact.launch_plan


@pytest.mark.parametrize("name", MODELS)
def test_models(name: str) -> None:
    model = MODELS[name]()
    artifact = emit_plan(tcp.optimize(model.program, rules=NO_RULES).plan)
    sizes = {"b": 2, "s": 3}
    arrays = model.arrays(seed=1, **sizes)
    used = {s.name for s in artifact.symbols}
    (found,) = run_artifact(artifact, arrays, {n: v for n, v in sizes.items() if n in used})
    (expected,) = evaluate(model.program.main, arrays)
    assert compare(found, expected).agrees


@pytest.mark.parametrize("seed", range(30))
def test_random_programs(seed: int) -> None:
    sample = random_program(seed, stable=True)
    artifact = emit_plan(tcp.optimize(sample.function, rules=NO_RULES).plan)
    arrays = sample.arrays(0)
    names, types = zip(*((p.name, p.type) for p in artifact.parameters), strict=True) if arrays else ((), ())
    found = run_artifact(artifact, arrays, bind_symbols(names, types, arrays))
    for x, y in zip(found, evaluate(sample.function, arrays), strict=True):
        assert compare(x, y).agrees


# What the interpreter finds


def faulty(pattern: str, replacement: str) -> None:
    """Runs an elementwise kernel with its text changed."""
    plan, sizes = pointwise(), {"b": 1}
    artifact = emit_plan(plan)
    text, changed = re.subn(pattern, replacement, artifact.text, count=1)
    assert changed
    run_artifact(replace(artifact, text=text), arrays_for(plan, sizes), sizes)


@pytest.mark.parametrize("plan, number", [
    pytest.param(plan, n, id=f"{name}-{n}") for name, plan, needed in (
        ("softmax", softmax(300), (0, 3)), ("attention", attention(40), (1, 4, 6))) for n in needed])
def test_a_missing_barrier_is_found(plan: Plan, number: int) -> None:
    """The other barriers guard what the schedule does not need guarded twice."""
    artifact = emit_plan(plan)
    barrier = "\tbar.sync \t0;\n"
    parts = artifact.text.split(barrier)
    text = barrier.join((*parts[:number], parts[number] + parts[number + 1], *parts[number + 2:]))
    with pytest.raises(PtxFault, match=r"race"):
        run_artifact(replace(artifact, text=text), arrays_for(plan, {"b": 2}), {"b": 2})


def test_a_missing_bound_is_found() -> None:
    with pytest.raises(PtxFault, match="outside"):
        faulty(r"@(%p\d+) bra", r"@!\1 bra")


def test_fused_rounding_is_found() -> None:
    with pytest.raises(PtxFault, match="may be fused"):
        faulty(r"add\.rn\.f32", "add.f32")


# Schedules


def levels(plan: Plan) -> list[tuple[str, list[str]]]:
    launches = [x for kernel in plan.kernels for x in schedule_launches(kernel, plan, ptx_target())]
    return [(x.each.value, sorted({v.value for v in x.levels.values()} - {x.each.value})) for x in launches]


def test_levels_by_kind_of_kernel() -> None:
    assert levels(pointwise()) == [("thread", [])]
    assert levels(product(B, 16, 16)) == [("thread", [])]
    assert levels(softmax(100)) == [("block", ["lane"])]
    assert levels(layer_norm(100)) == [("block", ["lane"])]


def test_threads_are_neighbours_where_memory_is() -> None:
    columns = single({"x": tensor("f32", 70, B)},
                     ("y", tensor("f32", B), lambda at: fold("add", 1, (70,), at("x", J, I))))
    rows = single({"x": tensor("f32", B, 70)},
                  ("y", tensor("f32", B), lambda at: fold("add", 1, (70,), at("x", I, J))))
    assert levels(columns) == [("thread", [])]
    assert levels(rows) == [("block", ["lane"])]
    transposed = single({"x": tensor("f32", B, 7, 40)}, ("y", tensor("f32", 40, B, 7), lambda at: at("x", J, K, I)))
    (launch,) = schedule_launches(transposed.kernels[0], transposed, ptx_target())
    last = launch.domain[-1].index
    stored = next(s for s in walk_statements(launch.nest.body) if isinstance(s, Store))
    assert dict(stored.offset.terms)[last] == 1


# Text


ELEMENTWISE = single(
    {"a": tensor("f32", B), "b": tensor("f32", B), "c": tensor("f32", B)},
    ("y", tensor("f32", B), lambda at: apply("add", apply("multiply", at("a", I), at("b", I)), at("c", I))))

ELEMENTWISE_LLVM = """\
define ptx_kernel void @k0(ptr addrspace(1) noalias readonly %a0, ptr addrspace(1) noalias readonly %a1, \
ptr addrspace(1) noalias readonly %a2, ptr addrspace(1) noalias %a3, i64 %n0) nounwind "nvvm.reqntid"="256" {
entry:
  %p0 = addrspacecast ptr addrspace(1) %a0 to ptr
  %p1 = addrspacecast ptr addrspace(1) %a1 to ptr
  %p2 = addrspacecast ptr addrspace(1) %a2 to ptr
  %p3 = addrspacecast ptr addrspace(1) %a3 to ptr
  br label %start
start:
  %v1 = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %v2 = zext i32 %v1 to i64
  %v3 = mul i64 %v2, 256
  %v4 = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %v5 = zext i32 %v4 to i64
  %v6 = add i64 %v3, %v5
  %v7 = icmp slt i64 %v6, %n0
  br i1 %v7, label %then1, label %join1
then1:
  %v8 = getelementptr float, ptr %p0, i64 %v6
  %v9 = load float, ptr %v8, align 4
  %v10 = getelementptr float, ptr %p1, i64 %v6
  %v11 = load float, ptr %v10, align 4
  %v12 = fmul float %v11, %v9
  %v13 = getelementptr float, ptr %p2, i64 %v6
  %v14 = load float, ptr %v13, align 4
  %v15 = fadd float %v12, %v14
  %v16 = getelementptr float, ptr %p3, i64 %v6
  store float %v15, ptr %v16, align 4
  br label %join1
join1:
  ret void
}
"""


def test_text_of_an_elementwise_kernel() -> None:
    artifact = emit_plan(ELEMENTWISE)
    assert artifact.llvm.split("\n\n")[0] + "\n" == ELEMENTWISE_LLVM
    assert artifact.launch_plan == "k0<<<(b + 255)//256, 256>>>(a, b, c, y_out, b)"
    operations = re.findall(r"^\t(?:@%p\d+ )?([a-z][\w.]*)", artifact.text, re.M)
    assert operations.count("ld.global.nc.b32") == 3 and operations.count("st.global.b32") == 1
    assert "mul.rn.f32" in operations and "add.rn.f32" in operations, "each operation rounds once"
    assert not [x for x in operations if "approx" in x or "ftz" in x]


@pytest.mark.parametrize("sm", known_architectures())
def test_version_is_the_one_that_llvm_picks(sm: str) -> None:
    target = ptx_target(f"ptx:{sm}")
    text = emit_plan(ELEMENTWISE, target).text
    assert f".version {target.ptx[0]}.{target.ptx[1]}\n" in text and f".target {sm}\n" in text


# ptxas


def found_ptxas() -> str | None:
    """The assembler on PATH, or the one of the wheel that the extra `gpu` installs."""
    spec = importlib.util.find_spec("nvidia")
    places = [] if spec is None else [str(Path(p, "cuda_nvcc", "bin")) for p in spec.submodule_search_locations or ()]
    return shutil.which("ptxas") or shutil.which("ptxas", path=os.pathsep.join(places))



@dataclass(frozen=True)
class Use:
    """What ptxas says that a kernel takes: registers of a thread, spilled bytes, shared bytes of a block."""

    registers: int
    spilled: int
    shared: int


def assemble(text: str, sm: str, folder: Path) -> dict[str, Use]:
    ptxas = found_ptxas()
    if ptxas is None:
        pytest.skip("no ptxas: neither on PATH nor in the wheel nvidia-cuda-nvcc-cu12 (the extra `gpu`)")
    source = folder / f"{sm}.ptx"
    source.write_text(text)
    done = subprocess.run(
        [ptxas, "-v", f"-arch={sm}", str(source), "-o", os.devnull], capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    uses = {}
    for part in re.split(r"Compiling entry function '", said)[1:]:
        registers, stores, shared = (
            re.search(p, part) for p in (r"Used (\d+) registers", r"(\d+) bytes spill stores", r"(\d+) bytes smem"))
        assert registers and stores
        uses[part.split("'")[0]] = Use(int(registers[1]), int(stores[1]), int(shared[1]) if shared else 0)
    return uses


@pytest.mark.parametrize("sm", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", MODELS)
def test_ptxas_takes_every_kernel(
        name: str, sm: str, tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    plan = tcp.optimize(MODELS[name]().program, rules=NO_RULES).plan
    artifact = emit_plan(plan, ptx_target("ptx", sm))
    uses = assemble(artifact.text, sm, tmp_path)
    for kernel in artifact.kernels:
        use = uses[kernel.name]
        record_property(kernel.name, f"{use.registers} registers, {use.spilled} bytes spilled, {use.shared} shared")
        assert use.registers <= 64 and use.spilled == 0
        assert use.shared <= kernel.shared_bytes <= artifact.target.shared_bytes


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_ptxas_takes_every_function(dtype: str, tmp_path: Path) -> None:
    writer = PlanWriter()
    writer.parameter("x", tensor(dtype, B))
    for name in ("exp", "expm1", "exp2", "log", "log2", "log1p", "tanh", "logistic", "erf", "sin", "cos", "sqrt",
                 "rsqrt"):
        writer.kernel({name: Role.RESULT}, (name, tensor(dtype, B), lambda at, name=name: apply(name, at("x", I))))
    writer.kernel({"p": Role.RESULT}, ("p", tensor(dtype, B), lambda at: apply("pow", at("x", I), at("x", I))))
    artifact = emit_plan(writer.plan())
    assert len(assemble(artifact.text, "sm_80", tmp_path)) == len(artifact.kernels) == 14


# What can't be compiled


TARGET = ptx_target()
UNSELECTABLE = {
    "sin": "SIGABRT|Cannot select|status",  # LLVM aborts
    "exp": "status 1|libcall|SIG",  # LLVM exits
}


@pytest.mark.parametrize("name", UNSELECTABLE)
def test_what_llvm_dies_of_is_an_error(name: str) -> None:
    text = emit_plan(ELEMENTWISE).llvm.replace("fmul float %v11, %v9", f"call float @llvm.{name}.f32(float %v9)")
    text += f"\ndeclare float @llvm.{name}.f32(float)\n"
    process = os.getpid()
    with pytest.raises(TargetError, match=UNSELECTABLE[name]) as caught:
        compile_ptx(text, TARGET)
    assert "sm_80" in str(caught.value) and "\n" not in str(caught.value)
    assert os.getpid() == process and ".entry k0" in compile_ptx(emit_plan(ELEMENTWISE).llvm, TARGET)


def test_text_that_llvm_rejects() -> None:
    with pytest.raises(VerificationError, match="rejects"):
        compile_ptx("define ptx_kernel void @k( {", TARGET)


def test_a_compilation_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    text = emit_plan(ELEMENTWISE).llvm
    monkeypatch.setattr(ptx_compile, "SECONDS", 0.01)
    with pytest.raises(TargetError, match="did not finish"):
        compile_ptx(text, TARGET)


def test_an_operation_without_a_form_names_itself_and_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = single({"x": tensor("f32", B)}, ("z", tensor("f32", B), lambda at: apply("sqrt", at("x", I))))
    monkeypatch.delitem(INTRINSICS, "llvm.sqrt.f32")
    with pytest.raises(TargetError, match=r"kernel k0: sqrt can't be compiled for ptx:sm_80, which has no llvm\.sqrt"):
        emit_plan(plan)


@pytest.mark.parametrize("name", ["fmod", "zeta", "igamma", "lgamma", "asinh", "cbrt", "popcount", "nextafter"])
def test_functions_with_loops_and_calls(name: str) -> None:
    op = scalar_op_named(name)
    dtype = I32 if name == "popcount" else F64
    parameters = tuple(builders.parameter(f"x{n}", n, TensorType(dtype, (37,))) for n in range(op.arity))
    function = Function("f", parameters, (builders.map_scalar(op, *parameters),))
    random = np.random.default_rng(3)
    arrays = [random.uniform(1.2, 9, 37).astype(dtype.numpy) for _ in parameters]
    (found,) = run_artifact(emit_plan(tcp.optimize(function, rules=NO_RULES).plan), arrays, {})
    (expected,) = evaluate(function, arrays)
    np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_intrinsics_need_their_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["  %v1 = call i32 @llvm.nvvm.redux.sync.add(i32 %v0, i32 -1)"]
    with pytest.raises(TargetError, match=r"no llvm\.nvvm\.redux\.sync\.add"):
        check_legal(lines, TARGET, "k", "a sum")
    needed = {"llvm.nvvm.redux.sync.add": Requirement(80, (7, 0))}
    monkeypatch.setattr("tcp_eqsat.codegen.ptx_legal.INTRINSICS", needed)
    check_legal(lines, TARGET, "k", "a sum")
    with pytest.raises(TargetError, match="sm_75"):
        check_legal(lines, ptx_target("ptx:sm_75"), "k", "a sum")


@pytest.mark.parametrize("sm", [known_architectures()[0], known_architectures()[-1]])
def test_every_listed_intrinsic_can_be_selected(sm: str) -> None:
    lines, declarations = [], []
    for n, name in enumerate(sorted(INTRINSICS)):
        dtype = {"f32": "float", "f64": "double"}.get(name.split(".")[-1], name.split(".")[-1])
        stem = name.split(".")[1]
        if stem == "nvvm":
            continue
        count = {"fma": 3, "copysign": 2, "smax": 2, "smin": 2, "umax": 2, "umin": 2}.get(stem, 1)
        operands = [f"{dtype} %l{n}"] * count + (["i1 false"] if stem == "abs" else [])
        lines += [f"  %l{n} = load {dtype}, ptr addrspace(1) %p",
                  f"  %r{n} = call {dtype} @{name}({', '.join(operands)})",
                  f"  store volatile {dtype} %r{n}, ptr addrspace(1) %p"]
        declarations.append(f"declare {dtype} @{name}({', '.join(o.split()[0] for o in operands)})")
    text = "\n".join(("define ptx_kernel void @k(ptr addrspace(1) %p) {", *lines, "  ret void", "}", *declarations))
    assert ".entry k" in compile_ptx(text, ptx_target("ptx", sm))


def test_architectures() -> None:
    assert ptx_target().sm == "sm_80" and ptx_target("ptx:sm_90") == ptx_target(sm="sm_90")
    assert str(ptx_target("ptx:sm_75")) == "ptx:sm_75" and ptx_target("ptx:sm_100").capability == 100
    with pytest.raises(TargetError, match=r"unknown GPU architecture 'sm_42'; known are sm_70, .*sm_80, .*sm_100"):
        ptx_target("ptx:sm_42")
    with pytest.raises(ArgumentError, match="another"):
        ptx_target("ptx:sm_80", "sm_90")


def test_limits_of_a_launch() -> None:
    (kernel,) = emit_plan(softmax(10)).kernels
    small = PtxTarget("sm_80", (7, 0), most_blocks=100)
    assert kernel.blocks({"b": 100}, small) == 100
    with pytest.raises(LimitError, match="requires 101 blocks"):
        kernel.blocks({"b": 101}, small)


def test_limit_of_parameters() -> None:
    def total(at):  # type: ignore[no-untyped-def]
        value = at("x0", I)
        for n in range(1, 600):
            value = apply("add", value, at(f"x{n}", I))
        return value

    plan = single({f"x{n}": tensor("f32", B) for n in range(600)}, ("y", tensor("f32", B), total))
    with pytest.raises(TargetError, match=r"kernel k0 requires 4816 bytes of parameters"):
        emit_plan(plan)


# The public face


def test_compile_gives_an_artifact() -> None:
    program = tcp.trace(lambda x, w: tcp.numpy.tanh(x @ w), tcp.spec("f32[b, 4]"), tcp.spec("f32[4, 3]"))
    artifact = tcp.compile(program, target="ptx:sm_90")
    assert isinstance(artifact, PtxArtifact) and artifact.target.sm == "sm_90"
    assert [p.name for p in artifact.parameters] == ["x", "w"] and len(artifact.kernels) == 1
    w = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    again = tcp.compile(program, target="ptx", sm="sm_90", constants={"w": w})
    assert again.text.count(".visible .entry") == 1
    assert [b.role for b in again.buffers.values()].count(Role.CONSTANT) == 1
    x = np.arange(8, dtype=np.float32).reshape(2, 4) / 10
    (found,) = run_artifact(again, [x], {"b": 2})
    np.testing.assert_allclose(found, np.tanh(x @ w), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", ["mlp_tanh", "mlp_full", "softmax", "layer_norm"])
def test_every_kernel_of_the_optimised_program(name: str) -> None:
    model = MODELS[name]()
    artifact = tcp.compile(model.program, target="ptx", constants=model.weights)
    kernels = tcp.optimize(model.program, constants=model.weights, target="ptx").kernels
    assert len(artifact.kernels) == len(kernels)
    arrays = model.arrays(seed=2, b=5)
    parameters = [p.name for p in artifact.parameters]
    given = [a for n, a in zip(model.program.main.parameter_names, arrays, strict=True) if n in parameters]
    (found,) = run_artifact(artifact, given, {"b": 5})
    (expected,) = evaluate(model.program.main, arrays)
    assert compare(found, expected).agrees


def test_targets_that_do_not_go_together() -> None:
    program = tcp.trace(lambda x: x + x, tcp.spec("f32[b]"))
    with pytest.raises(TargetError, match=r"unknown GPU architecture 'sm_1'"):
        tcp.compile(program, target="ptx", sm="sm_1")
    with pytest.raises(ArgumentError, match="sm names the architecture of target ptx"):
        tcp.compile(program, target="cpu", sm="sm_80")  # type: ignore[call-overload]
    with pytest.raises(TargetError, match="sm_1"):
        tcp.optimize(program, target="ptx:sm_1")


def test_command(tmp_path: Path) -> None:
    source = tmp_path / "p.tcp"
    source.write_text(write(tcp.trace(lambda x: x * 2 + x, tcp.spec("f32[b]"))))

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "tcp_eqsat.cli", *arguments], capture_output=True, text=True,
                              check=False, cwd=Path(__file__).parents[2])

    done = run("optimize", str(source), "--emit", "ptx", "--target", "ptx:sm_90")
    assert done.returncode == 0 and done.stdout.startswith("// k0<<<(b + 255)//256, 256>>>("), done.stderr
    assert ".target sm_90" in done.stdout
    wrong = run("optimize", str(source), "--emit", "ptx", "--target", "ptx:sm_7")
    assert wrong.returncode == 2 and "known are sm_70" in wrong.stderr and "Traceback" not in wrong.stderr
    ran = run("run", str(source), "--target", "ptx")
    assert ran.returncode == 2 and "--emit ptx" in ran.stderr

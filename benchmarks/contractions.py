"""Contractions against NumPy (OpenBLAS): ratios of interleaved runs on one pinned core, GFLOP/s and share of the peak.

    python -m benchmarks.contractions [--quick] [--json FILE] [--only TEXT]

The peak is that of fused multiply-adds in registers, measured in the same turns as what it is compared with.
"""

from __future__ import annotations

from benchmarks.harness import Table, agree, finish, parser, pin_to_one_core

if __name__ == "__main__":
    pin_to_one_core()  # before NumPy is imported

import ctypes
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

import tcp_eqsat as tcp
from benchmarks.models import gelu_dense
from benchmarks.programs import numpy_gelu_dense
from tcp_eqsat.codegen.jit import compile_module
from tcp_eqsat.codegen.llvm_text import llvm_type
from tcp_eqsat.codegen.target import host_target
from tcp_eqsat.frontends import array_api as xp
from tcp_eqsat.lang.types import F32, F64, DType

CHAINS = 20
"""Independent multiply-adds, more than any processor needs to hide their latency."""
PEAK_STEPS = 5000


@dataclass(frozen=True)
class Peak:
    """A loop of nothing but multiply-adds: a call does `flops` operations."""

    run: Callable[[], None]
    flops: int


@functools.cache
def peak(dtype: DType) -> Peak:
    target = host_target()
    lanes = target.lanes(dtype)
    vector = llvm_type(dtype, lanes)
    name = f"llvm.fma.v{lanes}f{dtype.bits}"
    lines = ["define void @peak(ptr %p) {", "entry:", f"  %x = load {vector}, ptr %p, align {dtype.bytes}",
             "  br label %loop", "loop:", "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]"]
    lines += [f"  %a{n} = phi {vector} [ %x, %entry ], [ %b{n}, %loop ]" for n in range(CHAINS)]
    lines += [f"  %b{n} = call {vector} @{name}({vector} %a{n}, {vector} %x, {vector} %x)" for n in range(CHAINS)]
    lines += ["  %next = add i64 %i, 1", f"  %more = icmp slt i64 %next, {PEAK_STEPS}",
              "  br i1 %more, label %loop, label %done", "done:"]
    total = "%b0"
    for n in range(1, CHAINS):
        lines.append(f"  %t{n} = fadd {vector} {total}, %b{n}")
        total = f"%t{n}"
    lines += [f"  store {vector} {total}, ptr %p, align {dtype.bytes}", "  ret void", "}",
              f"declare {vector} @{name}({vector}, {vector}, {vector})"]
    module = compile_module("\n".join(lines), target)
    memory = np.zeros(lanes, dtype.numpy)
    address = memory.ctypes.data
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(module.address("peak"))

    def run(kept: object = (module, memory)) -> None:
        function(address)

    return Peak(run, 2 * CHAINS * lanes * PEAK_STEPS)


class Contractions:
    """Collects the rows of one table."""

    def __init__(self, title: str, quick: bool, only: str, dtype: DType = F32) -> None:
        self.table = Table(title)
        self.quick = quick
        self.only = only
        self.dtype = dtype
        self.random = np.random.default_rng(0)

    def array(self, *shape: int) -> np.ndarray:
        return self.random.standard_normal(shape).astype(self.dtype.numpy)

    def add(self, name: str, compute: Callable[..., object], arrays: Mapping[str, np.ndarray],
            plain: Callable[..., np.ndarray], flops: int, frozen: tuple[str, ...] = ()) -> None:
        """`compute` traced over the arrays, those in `frozen` as constants; `plain(*arrays, out)` in NumPy."""
        if self.only not in f"{self.table.title} {name}":
            return
        specs = [tcp.spec(f"{self.dtype}[{', '.join(map(str, a.shape))}]") for a in arrays.values()]
        program = tcp.trace(compute, *specs, names=list(arrays))
        f = tcp.compile(program, constants={n: arrays[n] for n in frozen})
        self.time(name, f, [a for n, a in arrays.items() if n not in frozen], list(arrays.values()), plain, flops)

    def time(self, name: str, f: Callable[..., np.ndarray], inputs: list[np.ndarray], arrays: list[np.ndarray],
             plain: Callable[..., np.ndarray], flops: int, tolerance: float = 1e-4) -> None:
        if self.only not in f"{self.table.title} {name}":
            return
        ours = f(*inputs)
        theirs = np.empty_like(ours)
        plain(*arrays, theirs)
        agree(ours / (np.abs(theirs).max(initial=0) + 1), theirs / (np.abs(theirs).max(initial=0) + 1), tolerance)
        limit = peak(self.dtype)
        repeats = max(1, round(flops / limit.flops))

        def at_peak() -> None:
            for _ in range(repeats):
                limit.run()

        self.table.add(name, lambda: f(*inputs, out=ours),
                       {"numpy": lambda: plain(*arrays, theirs), "peak": at_peak}, rounds=5 if self.quick else 41,
                       note=lambda seconds: f"{flops / seconds / 1e9:6.1f} GFLOP/s")
        share = self.table.rows[-1][2]["peak"][1]
        scale = flops / (repeats * limit.flops)
        print(f"{'':41s} {share.median * scale:.2f} of the peak ({share.lower * scale:.2f}-{share.upper * scale:.2f})",
              flush=True)


def matmul(x: object, y: object) -> object:
    return x @ y  # type: ignore[operator]


def numpy_matmul(x: np.ndarray, y: np.ndarray, out: np.ndarray) -> np.ndarray:
    return np.matmul(x, y, out=out)


def square(quick: bool, only: str, dtype: DType) -> Table:
    rows = Contractions(f"square {dtype}", quick, only, dtype)
    for n in (64, 128) if quick else (64, 128, 256, 333, 512, 768, 1024, 2048):
        for frozen in ((), ("y",)):
            rows.add(f"{n}{', y frozen' if frozen else ''}", matmul, {"x": rows.array(n, n), "y": rows.array(n, n)},
                     numpy_matmul, 2 * n ** 3, frozen)
    return rows.table


def skinny(quick: bool, only: str) -> Table:
    rows = Contractions("skinny f32", quick, only)
    for k, n in ((64, 96),) if quick else ((768, 768), (768, 3072), (3072, 768), (3072, 3072)):
        for m in (1, 8, 32, 128):
            for frozen in ((), ("y",)):
                rows.add(f"{m} x {k} x {n}{', y frozen' if frozen else ''}", matmul,
                         {"x": rows.array(m, k), "y": rows.array(k, n)}, numpy_matmul, 2 * m * k * n, frozen)
    return rows.table


def batched(quick: bool, only: str) -> Table:
    rows = Contractions("batched f32", quick, only)
    count, size = (4, 16) if quick else (64, 64)
    rows.add(f"{count} of {size}", matmul,
             {"x": rows.array(count, size, size), "y": rows.array(count, size, size)}, numpy_matmul,
             2 * count * size ** 3)
    rows.add(f"{count} of {size}, q k^T", lambda q, k: xp.einsum("bik,bjk->bij", q, k),
             {"q": rows.array(count, size, size), "k": rows.array(count, size, size)},
             lambda q, k, out: np.matmul(q, k.transpose(0, 2, 1), out=out), 2 * count * size ** 3)
    for n, k in ((32, 16),) if quick else ((128, 64), (512, 64), (1024, 1024)):
        rows.add(f"{n} x {n} x {k}, q k^T", lambda q, k: xp.einsum("ik,jk->ij", q, k),
                 {"q": rows.array(n, k), "k": rows.array(n, k)},
                 lambda q, k, out: np.matmul(q, k.T, out=out), 2 * n * n * k)
    return rows.table


def dense(quick: bool, only: str) -> Table:
    """Dense, bias and gelu with frozen weights, of any batch size."""
    rows = Contractions("dense f32", quick, only)
    model = gelu_dense()
    f = tcp.compile(model.program, constants=model.weights)
    k, n = model.weights["w"].shape
    for m in (1, 8) if quick else (1, 8, 32, 128):
        arrays = model.arrays(b=m)
        names = model.program.main.parameter_names

        def plain(*values: np.ndarray, names: tuple[str, ...] = names) -> np.ndarray:
            *inputs, out = values
            out[...] = numpy_gelu_dense(dict(zip(names, inputs, strict=True)))
            return out

        inputs = [a for name, a in zip(names, arrays, strict=True) if name not in model.weights]
        rows.time(f"{m} x {k} x {n}, gelu", f, inputs, list(arrays), plain, 2 * m * k * n, tolerance=5e-3)
    return rows.table


def run(quick: bool = False, only: str = "") -> list[Table]:
    """Every table; `only` keeps the rows whose title and name contain it."""
    return [square(quick, only, F32), skinny(quick, only), batched(quick, only), dense(quick, only),
            square(quick, only, F64)]


if __name__ == "__main__":
    options = parser(__doc__ or "")
    options.add_argument("--only", default="", help="rows whose title and name contain this text")
    chosen = options.parse_args()
    finish(run(chosen.quick, chosen.only), chosen)

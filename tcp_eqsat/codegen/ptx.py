"""Plans to PTX: the text of all kernels, and what must be launched on which buffers, in order.

Nothing here needs a GPU or a driver. The plan of launches speaks of sizes as expressions over the program's symbols,
so that one artifact serves every size in range.
"""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tcp_eqsat.codegen.distinct import DistinctKernels
from tcp_eqsat.codegen.entry import result_owners
from tcp_eqsat.codegen.gpu_schedule import Launch, format_launch, schedule_launches
from tcp_eqsat.codegen.llvm_ptx import KernelCode, emit_launch
from tcp_eqsat.codegen.loops import Access, verify_nest
from tcp_eqsat.codegen.ptx_compile import compile_ptx
from tcp_eqsat.codegen.target import PtxTarget, ptx_target
from tcp_eqsat.errors import LimitError, TargetError
from tcp_eqsat.lang.dims import Guard, Size, Symbol, evaluate, format_size, product
from tcp_eqsat.lang.plan import Kernel, Plan, Port, Role, Routine, verify_plan
from tcp_eqsat.lang.program import TensorData
from tcp_eqsat.lang.types import DType


@dataclass(frozen=True)
class PtxBuffer:
    """`size` elements of device memory, contiguous. `data` are the values of a constant."""

    name: str
    dtype: DType
    size: Size
    role: Role
    data: TensorData | None = field(default=None, repr=False)


@dataclass(frozen=True)
class PtxKernel:
    """One launch: `grid` blocks of `block` threads (both along x), with nothing to do where `grid` is 0.

    The kernel's parameters are the addresses of `buffers` and then the values of `sizes` as 64-bit integers.
    `shared_bytes` is the static shared memory of a block; no dynamic one is needed.
    """

    name: str
    origin: str
    grid: Size
    block: int
    shared_bytes: int
    buffers: tuple[str, ...]
    sizes: tuple[Size, ...]

    def blocks(self, sizes: Mapping[str, int], target: PtxTarget) -> int:
        """The grid for the values of symbols; raises LimitError where the target can't launch as many blocks."""
        count = evaluate(self.grid, sizes)
        if count > target.most_blocks:
            raise LimitError(
                f"kernel {self.name} requires {count} blocks, {target} launches at most {target.most_blocks}")
        return count


@dataclass(frozen=True)
class PtxCopy:
    """The result buffer `target` gets what is in `source`: a result that no kernel computes."""

    source: str
    target: str


@dataclass(frozen=True)
class PtxArtifact:
    """A program as PTX. It is no function: a driver loads `text`, allocates `buffers` and carries out `steps`.

    Parameters and results are those of the program; their ports name their buffers. Guards must hold before the
    first step. `loops` and `llvm` are the text of the stages before, `seconds` what each took.
    """

    name: str
    target: PtxTarget
    text: str
    buffers: Mapping[str, PtxBuffer]
    steps: tuple[PtxKernel | PtxCopy, ...]
    parameters: tuple[Port, ...]
    results: tuple[Port, ...]
    symbols: tuple[Symbol, ...]
    guards: tuple[Guard, ...]
    loops: str = field(repr=False)
    llvm: str = field(repr=False)
    seconds: Mapping[str, float] = field(repr=False)

    @functools.cached_property
    def kernels(self) -> tuple[PtxKernel, ...]:
        """The launches, in order; several may run the same kernel."""
        return tuple(step for step in self.steps if isinstance(step, PtxKernel))

    @property
    def launch_plan(self) -> str:
        """The steps as text, one a line."""
        lines = []
        for step in self.steps:
            match step:
                case PtxCopy(source, target):
                    lines.append(f"copy {source} -> {target}")
                case PtxKernel():
                    arguments = ", ".join((*step.buffers, *map(format_size, step.sizes)))
                    grid = format_size(step.grid)
                    origin = f"  # {step.origin}" if step.origin else ""
                    lines.append(f"{step.name}<<<{grid}, {step.block}>>>({arguments}){origin}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<PTX of {self.name} for {self.target.sm}: {len(self.kernels)} kernels>"


def emit_plan(plan: Plan, target: PtxTarget | None = None) -> PtxArtifact:
    """The plan as PTX for `target` (by default what `ptx` alone stands for).

    Raises VerificationError for a plan that breaks its invariants, TargetError for what has no form on the target.
    """
    target = ptx_target() if target is None else target
    start = time.perf_counter()
    verify_plan(plan)
    kernels = _kernels(plan, target)
    distinct = DistinctKernels()
    uses = [distinct.use(kernel, plan) for kernel in kernels]
    launches = [schedule_launches(kernel, plan, target) for kernel, _ in distinct.kernels]
    for launch in (x for group in launches for x in group):
        verify_nest(launch.nest)
    scheduled = time.perf_counter()
    declarations: dict[str, str] = {}
    codes = [[emit_launch(x, _symbol(x.nest.name), target, declarations) for x in group] for group in launches]
    llvm = "\n\n".join((*(code.text for group in codes for code in group),
                        "\n".join(line for _, line in sorted(declarations.items()))))
    emitted = time.perf_counter()
    text = compile_ptx(llvm, target) if any(codes) else ""
    compiled = time.perf_counter()
    buffers = _buffers(plan)
    steps: list[PtxKernel | PtxCopy] = []
    for use in uses:
        for launch, code in zip(launches[use.distinct], codes[use.distinct], strict=True):
            steps.append(_step(launch, code, use.buffers, buffers, len(steps)))
    owners = result_owners(plan)
    for number, port in enumerate(plan.results):
        source = plan.root(port.buffer).name
        if owners.get(source) != number:
            copied = f"result_{number}"
            buffers[copied] = PtxBuffer(copied, port.type.dtype, product(port.type.shape), Role.RESULT)
            steps.append(PtxCopy(source, copied))
    return PtxArtifact(
        plan.name, target, text, buffers, tuple(steps), _rooted(plan, plan.parameters), _results(plan, steps),
        plan.symbols, plan.guards, "\n\n".join(format_launch(x) for group in launches for x in group), llvm,
        {"schedule": scheduled - start, "emit": emitted - scheduled, "compile": compiled - emitted})


def _kernels(plan: Plan, target: PtxTarget) -> list[Kernel]:
    """The steps of a plan; raises TargetError where one is no kernel."""
    kernels = []
    for step in plan.steps:
        if not isinstance(step, Kernel):
            what = "procedures" if isinstance(step, Routine) else "control flow"
            raise TargetError(f"{step.op.name} has no form on {target}, which runs kernels only, no {what}")
        kernels.append(step)
    return kernels


def _symbol(name: str) -> str:
    """A name that PTX allows."""
    clean = re.sub(r"\W", "_", name, flags=re.ASCII)
    return clean if clean[:1].isalpha() else f"k_{clean}"


def _buffers(plan: Plan) -> dict[str, PtxBuffer]:
    """The buffers that own their memory."""
    return {b.name: PtxBuffer(b.name, b.type.dtype, product(b.type.shape), b.role, b.data)
            for b in plan.buffers.values() if b.alias is None}


def _step(launch: Launch, code: KernelCode, renamed: Mapping[str, str], buffers: dict[str, PtxBuffer],
          number: int) -> PtxKernel:
    """The launch as a step; scratch arrays in global memory become buffers with a place for every block."""
    places: list[str] = []
    for name in code.arrays:
        array = launch.nest.array(name)
        if array.access is Access.SCRATCH:
            place = f"{name}_of_step_{number}"
            buffers[place] = PtxBuffer(place, array.dtype, array.size * launch.blocks, Role.TEMPORARY)
            places.append(place)
        else:
            places.append(renamed[name])
    return PtxKernel(
        code.symbol, launch.nest.origin, launch.blocks, launch.threads, code.shared_bytes, tuple(places), code.sizes)


def _rooted(plan: Plan, ports: Sequence[Port]) -> tuple[Port, ...]:
    return tuple(Port(p.name, p.type, plan.root(p.buffer).name) for p in ports)


def _results(plan: Plan, steps: Sequence[PtxKernel | PtxCopy]) -> tuple[Port, ...]:
    """The results' ports; a result that is copied has its own buffer."""
    copies = [step.target for step in steps if isinstance(step, PtxCopy)]
    return tuple(
        Port(p.name, p.type, f"result_{n}" if f"result_{n}" in copies else plan.root(p.buffer).name)
        for n, p in enumerate(plan.results))

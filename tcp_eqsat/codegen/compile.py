"""Plans to callables: schedule the kernels, emit each distinct one once, compile, wrap."""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping
from typing import Any

from tcp_eqsat.codegen.call import CompiledCall, Parameter, Signature, callable_class, make_call
from tcp_eqsat.codegen.distinct import Use, distinct_kernels
from tcp_eqsat.codegen.entry import NAME, KernelCall, byte_count, emit_entry, result_owners
from tcp_eqsat.codegen.jit import CompiledModule, compile_module
from tcp_eqsat.codegen.llvm_cpu import NestCode, emit_nest
from tcp_eqsat.codegen.loops import Access, Array, Nest, format_nest, verify_nest
from tcp_eqsat.codegen.memory import ConstantBlock, Layout, Request, lay_out, pack
from tcp_eqsat.codegen.schedule import schedule_kernel
from tcp_eqsat.codegen.target import CpuTarget, host_target
from tcp_eqsat.lang.plan import Plan, Role, verify_plan
from tcp_eqsat.lang.program import TensorData


class CompiledFunction:
    """A plan as machine code: `f(*arrays, out=None)`, see `call.CompiledCall` for what is taken and raised.

    `nests` are the distinct kernels as loops; `times` are the seconds of each stage.
    """

    def __init__(self, plan: Plan, nests: tuple[Nest, ...], llvm: str, module: CompiledModule, call: CompiledCall,
                 times: Mapping[str, float]) -> None:
        self.plan = plan
        self.nests = nests
        self.llvm = llvm
        self.module = module
        self.call = call
        self.times = times

    def __call__(self, /, *arguments: Any, **keywords: Any) -> Any:
        return self.call(*arguments, **keywords)

    @property
    def signature(self) -> Signature:
        return self.call.signature

    @property
    def kernels(self) -> int:
        """How many kernels a call runs."""
        return len(self.plan.kernels)

    @functools.cached_property
    def loops(self) -> str:
        """The distinct kernels as loop nests, in the order of their first call."""
        return "\n\n".join(map(format_nest, self.nests))

    @property
    def assembly(self) -> str:
        """The machine code as assembly text."""
        return self.module.assembly

    def __repr__(self) -> str:
        return f"<compiled {self.plan.name}{self.signature}, {self.kernels} kernels>"


def compile_plan(plan: Plan, target: CpuTarget | None = None) -> CompiledFunction:
    """The plan compiled for `target` (by default the processor that this runs on).

    Raises VerificationError for a plan that breaks its invariants, ArgumentError where a size can't be told from
    the parameters' shapes.
    """
    target = host_target() if target is None else target
    times: dict[str, float] = {}
    clock = _Clock(times)
    verify_plan(plan)
    signature = Signature(
        tuple(Parameter(port.name, port.type) for port in plan.parameters),
        tuple(port.type for port in plan.results), plan.symbols, plan.guards)
    distinct, uses = distinct_kernels(plan)
    nests = tuple(schedule_kernel(kernel, plan, target) for kernel in distinct)
    for nest in nests:
        verify_nest(nest)
    clock.stage("schedule")
    declarations: dict[str, str] = {}
    codes = [emit_nest(nest, f"kernel{n}", target, declarations) for n, nest in enumerate(nests)]
    calls, scratch = _calls(nests, codes, uses)
    workspace = _workspace(plan, calls, scratch)
    constants = ConstantBlock(_constants(plan, nests, uses, calls))
    entry = emit_entry(plan, calls, constants.offsets, workspace, declarations)
    text = "\n\n".join((*(c.text for c in codes), entry, "\n".join(line for _, line in sorted(declarations.items()))))
    clock.stage("emit")
    module = compile_module(text, target)
    clock.stage("compile")
    call = make_call(signature, module.address(NAME), workspace.bytes, constants.address, (module, constants),
                     name=plan.name)
    clock.stage("wrap")
    function: CompiledFunction = callable_class(CompiledFunction, call.function)(
        plan, nests, text, module, call, times)
    return function


class _Clock:
    """Seconds between one stage and the next."""

    def __init__(self, times: dict[str, float]) -> None:
        self.times = times
        self.last = time.perf_counter()

    def stage(self, name: str) -> None:
        now = time.perf_counter()
        self.times[name] = now - self.last
        self.last = now


def _calls(nests: tuple[Nest, ...], codes: list[NestCode],
           uses: list[Use]) -> tuple[list[KernelCall], list[Request]]:
    """The calls in order, and the scratch arrays they need."""
    calls: list[KernelCall] = []
    scratch: list[Request] = []
    for step, use in enumerate(uses):
        nest, code = nests[use.distinct], codes[use.distinct]
        places: list[str] = []
        for array in nest.arrays:
            if array.access is Access.SCRATCH:
                name = f"{array.name} of call {step}"
                scratch.append(Request(name, array.size * array.dtype.bytes, step, step))
                places.append(name)
            else:
                places.append(_buffer(array, use))
        calls.append(KernelCall(f"kernel{use.distinct}", tuple(places), code.sizes))
    return calls, scratch


def _buffer(array: Array, use: Use) -> str:
    """The buffer, or packed copy of one, that an array of a distinct kernel stands for."""
    panels = array.panels
    return use.buffers[array.name] if panels is None else f"{use.buffers[panels.source]} in {panels}"


def _constants(plan: Plan, nests: tuple[Nest, ...], uses: list[Use],
               calls: list[KernelCall]) -> dict[str, TensorData]:
    """The constants that kernels read or that are results, and packed copies, by name."""
    needed = {name for call in calls for name in call.arrays} | {plan.root(p.buffer).name for p in plan.results}
    found = {b.name: b.data for b in plan.buffers.values()
             if b.role is Role.CONSTANT and b.data is not None and b.name in needed}
    for use in uses:
        for array in nests[use.distinct].arrays:
            name = _buffer(array, use) if array.panels is not None else ""
            if array.panels is not None and name not in found:
                data = plan.buffers[use.buffers[array.panels.source]].data
                assert data is not None
                found[name] = pack(data, array.panels)
    return found


def _workspace(plan: Plan, calls: list[KernelCall], scratch: list[Request]) -> Layout:
    """Memory of temporaries, from the kernel that writes them to the last that reads them, and of scratch arrays."""
    results = result_owners(plan)
    steps: dict[str, list[int]] = {}
    for step, call in enumerate(calls):
        for name in call.arrays:
            buffer = plan.buffers.get(name)
            if buffer is not None and name not in results and buffer.role in (Role.TEMPORARY, Role.RESULT):
                steps.setdefault(name, []).append(step)
    temporaries = [
        Request(name, byte_count(plan.buffers[name].type), used[0], used[-1]) for name, used in steps.items()]
    return lay_out([*temporaries, *scratch])

"""The functions of a plan, and of the plans that its control flow runs, as LLVM text.

Kernels that are equal but for names are one function, equal procedures too; every plan has a function that calls the
functions of its steps, and so has control flow.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tcp_eqsat.codegen.control import BodyFunction, emit_control
from tcp_eqsat.codegen.distinct import DistinctKernels, Use
from tcp_eqsat.codegen.entry import NAME, StepCall, emit_entry, result_owners
from tcp_eqsat.codegen.llvm_cpu import NestCode, emit_nest
from tcp_eqsat.codegen.loops import Access, Array, Nest
from tcp_eqsat.codegen.memory import ConstantBlock, Layout, Request, byte_count, lay_out, pack
from tcp_eqsat.codegen.procedures import ProcedureCode, emit_procedure
from tcp_eqsat.codegen.schedule import schedule_kernel
from tcp_eqsat.codegen.target import CpuTarget
from tcp_eqsat.lang.dims import Size
from tcp_eqsat.lang.plan import Control, Kernel, Plan, Role, Routine
from tcp_eqsat.lang.procedural import Procedure
from tcp_eqsat.lang.procedure_copies import without_copies
from tcp_eqsat.lang.program import TensorData


@dataclass(frozen=True)
class Parts:
    """The distinct parts of a plan and of the plans inside of it.

    plans       every plan once, those inside of others first
    uses        for each step of each plan: the distinct kernel that it uses, if it is a kernel
    procedures  numbers of the distinct procedures, without the copies of what is updated in place
    """

    plans: tuple[Plan, ...]
    uses: tuple[tuple[Use | None, ...], ...]
    nests: tuple[Nest, ...]
    procedures: dict[Procedure, int]


def find_parts(plan: Plan, target: CpuTarget) -> Parts:
    """The distinct parts of a plan, its kernels as loops."""
    plans = tuple({id(each): each for each in _every_plan(plan)}.values())
    distinct = DistinctKernels()
    uses = tuple(tuple(distinct.use(step, each) if isinstance(step, Kernel) else None for step in each.steps)
                 for each in plans)
    last = _last(plan, plans, uses)
    nests = tuple(schedule_kernel(kernel, where, target, last[n])
                  for n, (kernel, where) in enumerate(distinct.kernels))
    procedures: dict[Procedure, int] = {}
    for each in plans:
        for step in each.steps:
            if isinstance(step, Routine):
                procedures.setdefault(_procedure(step), len(procedures))
    return Parts(plans, uses, nests, procedures)


def _procedure(step: Routine) -> Procedure:
    """What runs: where the step works in place, the operands in question are not among those of the procedure."""
    return without_copies(step.procedure, step.in_place)


def _last(plan: Plan, plans: Sequence[Plan], uses: Sequence[Sequence[Use | None]]) -> dict[int, frozenset[str]]:
    """For each distinct kernel, the buffers that in every use of it are results of `plan` that no step reads."""
    read = {plan.root(name).name for step in plan.steps for name in step.loads}
    results = [plan.root(port.buffer).name for port in plan.results]
    last = {name for name in results if name not in read and results.count(name) == 1}
    found: dict[int, frozenset[str]] = {}
    for where, each in zip(plans, uses, strict=True):
        for use in each:
            if use is not None:
                here = frozenset(own for own, name in use.buffers.items() if where is plan and name in last)
                found[use.distinct] = found.get(use.distinct, here) & here
    return found


def _every_plan(plan: Plan) -> Iterator[Plan]:
    for step in plan.steps:
        if isinstance(step, Control):
            for body in step.bodies:
                yield from _every_plan(body)
    yield plan


@dataclass(frozen=True)
class ModuleText:
    """LLVM text with the function `entry.NAME`; what it calls of `procedures` is text of its own, to be optimised.

    `is_watched` says that the function may be interrupted.
    """

    text: str
    procedures: str
    workspace: Layout
    constants: ConstantBlock
    is_watched: bool


def emit_module(parts: Parts, target: CpuTarget) -> ModuleText:
    """The functions of all parts."""
    declarations: dict[str, str] = {}
    kernels = [emit_nest(nest, f"kernel{n}", target, declarations) for n, nest in enumerate(parts.nests)]
    outside: dict[str, str] = {}
    procedures = [emit_procedure(each, f"procedure{n}", target, outside) for each, n in parts.procedures.items()]
    functions: list[_PlanFunction] = []
    bodies: dict[int, BodyFunction] = {}
    for number, plan in enumerate(parts.plans):
        symbol = NAME if number == len(parts.plans) - 1 else f"body{number}"
        made = _PlanFunction(plan, symbol, parts, number)
        made.add_calls(kernels, procedures, bodies)
        bodies[id(plan)] = BodyFunction(symbol, made.workspace.bytes, made.is_watched)
        functions.append(made)
    constants = ConstantBlock({
        f"{made.number}.{name}": data for made in functions for name, data in made.constants().items()})
    entries = [
        emit_entry(made.plan, made.calls, made.own(constants.offsets), made.workspace, declarations, made.symbol)
        for made in functions]
    controls = [text for made in functions for text in made.controls]
    for code in procedures:
        declarations[code.symbol] = code.declaration
    return ModuleText(
        _joined([*(code.text for code in kernels), *controls, *entries], declarations),
        _joined([code.text for code in procedures], outside) if procedures else "",
        functions[-1].workspace, constants, functions[-1].is_watched)


def _joined(texts: Sequence[str], declarations: dict[str, str]) -> str:
    return "\n\n".join((*texts, "\n".join(line for _, line in sorted(declarations.items()))))


@dataclass
class _PlanFunction:
    """The calls of one plan's function, in order, and the memory that they need."""

    plan: Plan
    symbol: str
    parts: Parts
    number: int
    calls: list[StepCall] = field(default_factory=list)
    scratch: list[Request] = field(default_factory=list)
    controls: list[str] = field(default_factory=list)

    def add_calls(self, kernels: Sequence[NestCode], procedures: Sequence[ProcedureCode],
                  bodies: dict[int, BodyFunction]) -> None:
        for number, step in enumerate(self.plan.steps):
            match step:
                case Kernel():
                    use = self.parts.uses[self.number][number]
                    assert use is not None
                    self._kernel(number, use, kernels[use.distinct])
                case Routine():
                    code = procedures[self.parts.procedures[_procedure(step)]]
                    sizes = [byte_count(x.type) for x in step.procedure.scratch]
                    kept = [x for n, x in enumerate(step.operands) if n not in {j for j, _ in step.in_place}]
                    arrays = (*self._roots((*kept, *step.results)), *self._scratch(number, sizes))
                    self.calls.append(StepCall(code.symbol, arrays, code.sizes))
                case Control():
                    inside = [bodies[id(body)] for body in step.bodies]
                    control = emit_control(step, self.plan, inside, f"control{self.number}_{number}")
                    self.controls.append(control.text)
                    arrays = (*self._roots((*step.operands, *step.results)), *self._scratch(number, control.scratch))
                    self.calls.append(StepCall(
                        control.symbol, arrays, control.sizes, constants=True, is_watched=control.is_watched))

    def _kernel(self, number: int, use: Use, code: NestCode) -> None:
        nest = self.parts.nests[use.distinct]
        places: list[str] = []
        for array in nest.arrays:
            if array.access is Access.SCRATCH:
                places.append(self._request(f"{array.name} of step {number}", array.size * array.dtype.bytes, number))
            else:
                places.append(_buffer(array, use))
        self.calls.append(StepCall(f"kernel{use.distinct}", tuple(places), code.sizes))

    @property
    def is_watched(self) -> bool:
        """Whether the function may be interrupted."""
        return any(call.is_watched for call in self.calls)

    def _roots(self, names: Sequence[str]) -> Iterator[str]:
        return (self.plan.root(name).name for name in names)

    def _scratch(self, number: int, sizes: Sequence[Size]) -> list[str]:
        """Scratch memory for one step."""
        return [self._request(f"scratch {n} of step {number}", size, number) for n, size in enumerate(sizes)]

    def _request(self, name: str, size: Size, number: int) -> str:
        self.scratch.append(Request(name, size, number, number))
        return name

    @functools.cached_property
    def workspace(self) -> Layout:
        """Memory of temporaries, from the step that writes them to the last that reads them, and of scratch arrays."""
        results = result_owners(self.plan)
        steps: dict[str, list[int]] = {}
        for number, call in enumerate(self.calls):
            for name in call.arrays:
                buffer = self.plan.buffers.get(name)
                if buffer is not None and name not in results and buffer.role in (Role.TEMPORARY, Role.RESULT):
                    steps.setdefault(name, []).append(number)
        temporaries = [
            Request(name, byte_count(self.plan.buffers[name].type), used[0], used[-1]) for name, used in steps.items()]
        return lay_out([*temporaries, *self.scratch])

    def constants(self) -> dict[str, TensorData]:
        """The constants that steps read or that are results, and packed copies, by name."""
        plan = self.plan
        needed = {name for call in self.calls for name in call.arrays}
        needed |= {plan.root(p.buffer).name for p in plan.results}
        found = {b.name: b.data for b in plan.buffers.values()
                 if b.role is Role.CONSTANT and b.data is not None and b.name in needed}
        for use in filter(None, self.parts.uses[self.number]):
            for array in self.parts.nests[use.distinct].arrays:
                name = _buffer(array, use) if array.panels is not None else ""
                if array.panels is not None and name not in found:
                    data = plan.buffers[use.buffers[array.panels.source]].data
                    assert data is not None
                    found[name] = pack(data, array.panels)
        return found

    def own(self, offsets: Mapping[str, int]) -> dict[str, int]:
        """The offsets of this plan's constants, by their own names."""
        prefix = f"{self.number}."
        return {name.removeprefix(prefix): n for name, n in offsets.items() if name.startswith(prefix)}


def _buffer(array: Array, use: Use) -> str:
    """The buffer, or packed copy of one, that an array of a distinct kernel stands for."""
    panels = array.panels
    return use.buffers[array.name] if panels is None else f"{use.buffers[panels.source]} in {panels}"

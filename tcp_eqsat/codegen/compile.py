"""Plans to callables: schedule the kernels, emit each distinct one once, compile, wrap."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator, Mapping
from typing import Any

from tcp_eqsat.codegen.call import CompiledCall, Parameter, Signature, callable_class, make_call
from tcp_eqsat.codegen.entry import NAME
from tcp_eqsat.codegen.functions import ModuleText, Parts, emit_module, find_parts
from tcp_eqsat.codegen.jit import CompiledModule, compile_module
from tcp_eqsat.codegen.loops import format_nest, verify_nest
from tcp_eqsat.codegen.target import CpuTarget, host_target
from tcp_eqsat.lang.dims import INT64_MAX, Size, bounds
from tcp_eqsat.lang.plan import Control, Kernel, Plan, verify_plan
from tcp_eqsat.lang.pointful import Position, walk_expr
from tcp_eqsat.lang.procedure_text import format_procedure


class CompiledFunction:
    """A plan as machine code: `f(*arrays, out=None)`, see `call.CompiledCall` for what is taken and raised.

    `nests` are the distinct kernels as loops, `procedures` the distinct procedures; `times` are the seconds of each
    stage.
    """

    def __init__(self, plan: Plan, parts: Parts, text: ModuleText, module: CompiledModule, call: CompiledCall,
                 times: Mapping[str, float]) -> None:
        self.plan = plan
        self.nests = parts.nests
        self.procedures = tuple(parts.procedures)
        self.llvm = "\n\n".join(filter(None, (text.procedures, text.text)))
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
        """How many kernels and routines a call runs, those in bodies of control flow once."""
        return len(self.plan.kernels)

    @functools.cached_property
    def loops(self) -> str:
        """The distinct kernels as loop nests and the distinct procedures, each in the order of their first call."""
        return "\n\n".join((*map(format_nest, self.nests), *(
            format_procedure(each, f"procedure{n}") for n, each in enumerate(self.procedures))))

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
        tuple(port.type for port in plan.results), plan.symbols, plan.guards, tuple(dict.fromkeys(_numbers(plan))))
    parts = find_parts(plan, target)
    for nest in parts.nests:
        verify_nest(nest)
    clock.stage("schedule")
    made = emit_module(parts, target)
    clock.stage("emit")
    module = compile_module(made.text, target, optimized=made.procedures)
    clock.stage("compile")
    call = make_call(signature, module.address(NAME), made.workspace.bytes, made.constants.address,
                     (module, made.constants), name=plan.name, is_watched=made.is_watched)
    clock.stage("wrap")
    function: CompiledFunction = callable_class(CompiledFunction, call.function)(
        plan, parts, made, module, call, times)
    return function


def _numbers(plan: Plan) -> Iterator[Size]:
    """The sizes that kernels compute with and that may be negative or not fit in 64 bits."""
    for step in plan.steps:
        if isinstance(step, Control):
            for body in step.bodies:
                yield from _numbers(body)
        elif isinstance(step, Kernel):
            for definition in step.definitions:
                for expr in walk_expr(definition.expression):
                    if isinstance(expr, Position) and not expr.index.terms:
                        lower, upper = bounds(expr.index.offset)
                        if lower < 0 or upper > INT64_MAX:
                            yield expr.index.offset


class _Clock:
    """Seconds between one stage and the next."""

    def __init__(self, times: dict[str, float]) -> None:
        self.times = times
        self.last = time.perf_counter()

    def stage(self, name: str) -> None:
        now = time.perf_counter()
        self.times[name] = now - self.last
        self.last = now

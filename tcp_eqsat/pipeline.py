"""From a program to compiled code: the only module that knows every stage.

    freeze -> expand -> raise loops -> take apart -> refine axes -> saturate -> extract -> update in place
    -> schedule -> emit -> compile -> wrap
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np

from tcp_eqsat.codegen.call import callable_class
from tcp_eqsat.codegen.compile import CompiledFunction, compile_plan
from tcp_eqsat.codegen.ptx import PtxArtifact, emit_plan
from tcp_eqsat.codegen.target import host_target, is_ptx, ptx_target
from tcp_eqsat.egraph import Saturation, SaturationReport, saturate
from tcp_eqsat.errors import ArgumentError, ParseError, UnknownName
from tcp_eqsat.extract import Body, Extraction, MachineModel, baseline, extract, load_cost_model
from tcp_eqsat.frontends import mlir, transforms
from tcp_eqsat.lang import grad as gradients
from tcp_eqsat.lang import jvp as directions
from tcp_eqsat.lang import reference as lang_reference
from tcp_eqsat.lang import text
from tcp_eqsat.lang import vmap as batches
from tcp_eqsat.lang.apart import take_apart
from tcp_eqsat.lang.atoms import Refinement, refine_axes
from tcp_eqsat.lang.budget import Budget
from tcp_eqsat.lang.dims import Size, Symbol
from tcp_eqsat.lang.in_place import update_in_place
from tcp_eqsat.lang.loops import capture_unchanged, raise_counted
from tcp_eqsat.lang.op import regions_of
from tcp_eqsat.lang.ops.structure import expand
from tcp_eqsat.lang.plan import Kernel, Plan, Routine, verify_plan
from tcp_eqsat.lang.program import Function, Program, Region
from tcp_eqsat.lang.specialise import freeze
from tcp_eqsat.lang.tiers import Numerics, Permissions, permissions
from tcp_eqsat.report import Report
from tcp_eqsat.rules import RuleSet, default

TARGETS = ("cpu", "ptx")

# Reading


def read(path: str | os.PathLike[str]) -> Program:
    """The program in a file: our own text (`.tcp`) or MLIR. Raises ArgumentError where there is no such file."""
    if not isinstance(path, (str, os.PathLike)):
        raise ArgumentError(f"a path is required, got {type(path).__name__}")
    try:
        content = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ArgumentError(f"can't read {os.fspath(path)}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ParseError(f"{os.fspath(path)} is not UTF-8 text") from None
    except ValueError as error:  # a path that no system call takes
        raise ArgumentError(f"can't read {os.fspath(path)!r}: {error}") from None
    return parse(content, os.fspath(path))


def parse(content: str, file: str = "<text>") -> Program:
    """The program that a text spells: our own, where it starts with `tcp 1` or the file is a .tcp, else MLIR."""
    if not isinstance(content, str):
        raise ArgumentError(f"a text is required, got {type(content).__name__}")
    lines = (line.split("#")[0].strip() for line in content.split("\n"))
    first = next((line for line in lines if line), "")
    own = first.split()[:1] == ["tcp"] or file.endswith(".tcp")
    return text.parse(content, file) if own else mlir.parse(content, file)


def write(program: Program | Function) -> str:
    """The text of a program, which `parse` reads back to the same program."""
    return text.write(Program({program.name: program}) if isinstance(program, Function) else program)


def reference(program: Program | Function, entry: str | None = None) -> Callable[..., Any]:
    """The NumPy definition of a program's function as a Python callable of arrays, by position or name."""
    return lang_reference.reference(_function(program, entry))


# Derivatives and batches, of programs and of Python functions of traced tensors

Wrt = str | Sequence[str] | None
Transformed = Callable[..., Any]


@overload
def grad(program: Program | Function, wrt: Wrt = None, *, entry: str | None = None,
         cotangents: bool = False) -> Program: ...
@overload
def grad(program: Callable[..., Any], wrt: transforms.Wrt = None) -> Transformed: ...
def grad(program: Any, wrt: Any = None, *, entry: str | None = None, cotangents: bool = False) -> Any:
    """The gradients of a function of one floating-point result of rank 0.

    Of a program: a program, see `lang.grad.grad`. Of a Python function of traced tensors: a function again, see
    `frontends.transforms.grad`.
    """
    if _is_python(program):
        return transforms.grad(program, wrt)
    made = gradients.grad(_function(program, entry), wrt, cotangents=cotangents)
    return Program({made.name: made})


@overload
def vjp(program: Program | Function, wrt: Wrt = None, *, entry: str | None = None) -> Program: ...
@overload
def vjp(program: Callable[..., Any], wrt: transforms.Wrt = None) -> Transformed: ...
def vjp(program: Any, wrt: Any = None, *, entry: str | None = None) -> Any:
    """A function's results and its gradients under cotangents of the results.

    Of a program: a program, see `lang.grad.vjp`. Of a Python function: a function, see `frontends.transforms.vjp`.
    """
    if _is_python(program):
        return transforms.vjp(program, wrt)
    made = gradients.vjp(_function(program, entry), wrt)
    return Program({made.name: made})


@overload
def jvp(program: Program | Function, wrt: Wrt = None, *, entry: str | None = None) -> Program: ...
@overload
def jvp(program: Callable[..., Any]) -> Transformed: ...
def jvp(program: Any, wrt: Any = None, *, entry: str | None = None) -> Any:
    """A function's results and their derivatives in a direction.

    Of a program: a program, see `lang.jvp.jvp`. Of a Python function: a function, see `frontends.transforms.jvp`.
    """
    if _is_python(program):
        return transforms.jvp(program)
    made = directions.jvp(_function(program, entry), wrt)
    return Program({made.name: made})


@overload
def vmap(program: Program | Function, in_axes: batches.Axes = 0, out_axes: batches.Axes = 0, *, size: Size | str = "n",
         entry: str | None = None) -> Program: ...
@overload
def vmap(program: Callable[..., Any], in_axes: batches.Axes = 0, out_axes: int | None = 0) -> Transformed: ...
def vmap(program: Any, in_axes: Any = 0, out_axes: Any = 0, *, size: Size | str = "n", entry: str | None = None) -> Any:
    """A function on batches of its arguments.

    Of a program: a program, see `lang.vmap.vmap`. Of a Python function: a function, see `frontends.transforms.vmap`.
    """
    if _is_python(program):
        return transforms.vmap(program, in_axes, out_axes)
    made = batches.vmap(_function(program, entry), in_axes, out_axes, size)
    return Program({made.name: made})


def _is_python(program: Any) -> bool:
    return callable(program) and not isinstance(program, (Program, Function))


def _function(program: Program | Function, entry: str | None) -> Function:
    if isinstance(program, Program):
        return program.function(entry)
    if isinstance(program, Function):
        return program
    raise ArgumentError(
        f"a Program is required, as tcp.trace, tcp.read and tcp.parse give, got {type(program).__name__}")


# Optimising


@dataclasses.dataclass(frozen=True, eq=False)
class Optimized:
    """The cheapest program found, its kernels, and how it was found.

    `program` has the caller's parameters and axes; `plan` is what code generation reads.
    """

    function: Function
    plan: Plan
    report: Report
    saturation: Saturation

    @property
    def program(self) -> Program:
        return Program({self.function.name: self.function})

    @property
    def kernels(self) -> tuple[Kernel | Routine, ...]:
        return self.plan.kernels


class _Stopwatch:
    """Seconds by stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


def optimize(
    program: Program | Function, *, entry: str | None = None, target: str = "cpu", numerics: Numerics = "exact",
    rules: RuleSet | None = None, constants: Mapping[str, np.ndarray] | None = None, budget: Budget | None = None,
    sizes: Mapping[str, int] | None = None,
) -> Optimized:
    """The cheapest equal of a program on a machine.

    entry      which function (default: the main one)
    numerics   what may change in floating point: a tier's name or a set of permissions
    rules      the rewrite rules; those that need more than `numerics` grants are left out
    constants  parameters to freeze: name -> array
    budget     limits of the search
    sizes      typical values of symbols, for costs only

    Raises ArgumentError, UnknownName, TypeMismatch and ShapeMismatch for unusable arguments.
    """
    function = _function(program, entry)
    _check_options(function, target, rules, constants, budget, sizes)
    return _optimize(function, target, permissions(numerics), default if rules is None else rules,
                     constants or {}, budget or Budget(), sizes or {}, _Stopwatch())


def _check_options(
    function: Function, target: str, rules: RuleSet | None, constants: Mapping[str, np.ndarray] | None,
    budget: Budget | None, sizes: Mapping[str, int] | None,
) -> None:
    """Raises ArgumentError for options of another kind, and for sizes that the function does not have."""
    kinds = (("target", target, str), ("rules", rules, RuleSet), ("constants", constants, Mapping),
             ("budget", budget, Budget), ("sizes", sizes, Mapping))
    for name, given, kind in kinds:
        if (given is not None and not isinstance(given, kind)) or given is target is None:
            raise ArgumentError(f"{name} must be a {kind.__name__}, got {given!r}")
    known = [each.name for each in function.symbols]
    for name, size in (sizes or {}).items():
        if name not in known:
            raise ArgumentError(f"{function.name} has no size {name!r}; it has {', '.join(known) or 'none'}")
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 0:
            raise ArgumentError(f"a typical size of {name} must be an int of at least 0, got {size!r}")


def _optimize(
    function: Function, target: str, granted: Permissions, rules: RuleSet, constants: Mapping[str, np.ndarray],
    budget: Budget, sizes: Mapping[str, int], watch: _Stopwatch,
) -> Optimized:
    cost_model = _cost_model(target)
    with watch.stage("refine"):
        frozen = freeze(function, constants)
        apart = take_apart(raise_counted(capture_unchanged(expanded(frozen))))
        refinement = refine_axes(apart.plain)
    options = _Options(granted, rules, cost_model, sizes, frozen.symbols)
    count = len(_every_region(refinement.refined))
    budget = dataclasses.replace(
        budget, seconds=budget.seconds / (count + 1), steps=max(budget.steps // (count + 1), 1))
    if count:
        with watch.stage("regions"):
            _optimize_regions(refinement.refined, options, budget)
    saturation, before, best = _search(refinement, frozen, options, budget, watch)
    with watch.stage("in place"):
        plan = update_in_place(best.plan)
        verify_plan(plan)
    report = Report.of(frozen, granted, saturation.report, tuple(options.reports.values()), before, best, plan,
                       watch.seconds)
    return Optimized(apart.restored(refinement.restored(best.function)), plan, report, saturation)


@dataclasses.dataclass(frozen=True)
class _Options:
    """What every search of one optimisation shares.

    bodies, plain  regions as found, and as they stand; reports: how their saturation went
    """

    granted: Permissions
    rules: RuleSet
    cost_model: MachineModel
    sizes: Mapping[str, int]
    symbols: tuple[Symbol, ...]
    bodies: dict[Region, Body] = dataclasses.field(default_factory=dict)
    plain: dict[Region, Body] = dataclasses.field(default_factory=dict)
    reports: dict[Region, SaturationReport] = dataclasses.field(default_factory=dict)


def _search(refinement: Refinement, seen: Function, options: _Options, budget: Budget, watch: _Stopwatch
            ) -> tuple[Saturation, Extraction, Extraction]:
    """The e-graph of a function whose regions are optimised, its plan as it stands, and the best one.

    `seen` has the parameters and results as the caller sees them: of other shapes and dtypes in the same memory.
    """
    with watch.stage("saturate"):
        saturation = saturate(refinement.refined, options.rules, options.granted, budget)
    with watch.stage("extract"):
        types = {"parameter_types": [x.tensor_type for x in seen.parameters],
                 "result_types": [x.tensor_type for x in seen.results]}
        before = baseline(
            refinement.refined, options.cost_model, sizes=options.sizes, symbols=options.symbols,
            body_of=options.plain.__getitem__, **types)
        left = max(budget.seconds - watch.seconds["saturate"], budget.seconds / 4)
        best = extract(
            saturation.view, refinement.refined, options.cost_model, dataclasses.replace(budget, seconds=left),
            sizes=options.sizes, symbols=options.symbols, body_of=options.bodies.__getitem__, **types)
    return saturation, before, best


def _every_region(function: Function) -> dict[Region, None]:
    """The distinct regions of control flow, those inside of regions first."""
    found: dict[Region, None] = {}
    for node in function.nodes():
        for region in regions_of(node.attributes):
            if region not in found:
                found |= _every_region(_body_function(region))
                found[region] = None
    return found


def _body_function(region: Region) -> Function:
    return Function("region", region.parameters, region.results)


def _optimize_regions(outer: Function, options: _Options, budget: Budget) -> None:
    """Finds the best plan of every region of a function, once each, within the budget each."""
    for node in outer.nodes():
        for region in regions_of(node.attributes):
            if region not in options.bodies:
                function = expanded(_body_function(region))
                refinement = refine_axes(function)
                _optimize_regions(refinement.refined, options, budget)
                saturation, before, best = _search(refinement, function, options, budget, _Stopwatch())
                made = refinement.restored(best.function)
                options.bodies[region] = Body(region, Region(made.parameters, made.results), best.plan, best.cost)
                options.plain[region] = Body(region, region, before.plan, before.cost)
                options.reports[region] = saturation.report


def _cost_model(target: str) -> MachineModel:
    """What programs cost on the target. PTX is costed as the CPU, for want of a model of GPUs."""
    if is_ptx(target):
        ptx_target(target)
    elif target not in TARGETS:
        raise UnknownName(f"unknown target {target!r}; known are {', '.join(TARGETS)}")
    return load_cost_model("cpu")


def expanded(function: Function) -> Function:
    """The function with composites replaced by their bodies."""
    values = expand(function.results)
    return dataclasses.replace(function, results=tuple(values[x] for x in function.results))


# Compiling


class Compiled:
    """A compiled function: `f(*arrays, out=None)`; see `CompiledCall` for what it takes and raises.

    report    how it was found and made; `function` is what it computes, `kernels` how
    """

    __slots__ = ("__weakref__", "_again", "_constants", "code", "function", "optimized", "report")

    def __init__(self, function: Function, optimized: Optimized, code: CompiledFunction,
                 constants: Mapping[str, np.ndarray], again: Callable[..., Compiled]) -> None:
        self.function = function
        self.optimized = optimized
        self.code = code
        self.report = optimized.report
        self._constants = dict(constants)
        self._again = again

    def __call__(self, /, *arrays: Any, **keywords: Any) -> Any:
        return self.code.call(*arrays, **keywords)

    @property
    def kernels(self) -> tuple[Kernel | Routine, ...]:
        return self.optimized.kernels

    def update(self, **constants: np.ndarray) -> Compiled:
        """A compiled function with frozen parameters replaced; raises UnknownName for others."""
        unknown = [name for name in constants if name not in self._constants]
        if unknown:
            raise UnknownName(f"{unknown[0]!r} is not frozen; frozen are {', '.join(self._constants) or 'none'}")
        return self._again({**self._constants, **constants})

    def __repr__(self) -> str:
        count = self.report.kernels
        return f"<compiled {self.function}: {count} {'kernel' if count == 1 else 'kernels'}>"


@overload
def compile(
    program: Program | Function, *, entry: str | None = None, target: Literal["cpu"] = "cpu",
    numerics: Numerics = "exact", rules: RuleSet | None = None, constants: Mapping[str, np.ndarray] | None = None,
    budget: Budget | None = None, sizes: Mapping[str, int] | None = None, threads: int = 1, sm: None = None,
) -> Compiled: ...
@overload
def compile(
    program: Program | Function, *, entry: str | None = None, target: Literal["ptx"],
    numerics: Numerics = "exact", rules: RuleSet | None = None, constants: Mapping[str, np.ndarray] | None = None,
    budget: Budget | None = None, sizes: Mapping[str, int] | None = None, threads: int = 1, sm: str | None = None,
) -> PtxArtifact: ...
@overload
def compile(
    program: Program | Function, *, entry: str | None = None, target: str,
    numerics: Numerics = "exact", rules: RuleSet | None = None, constants: Mapping[str, np.ndarray] | None = None,
    budget: Budget | None = None, sizes: Mapping[str, int] | None = None, threads: int = 1, sm: str | None = None,
) -> Compiled | PtxArtifact: ...
def compile(
    program: Program | Function, *, entry: str | None = None, target: str = "cpu", numerics: Numerics = "exact",
    rules: RuleSet | None = None, constants: Mapping[str, np.ndarray] | None = None, budget: Budget | None = None,
    sizes: Mapping[str, int] | None = None, threads: int = 1, sm: str | None = None,
) -> Compiled | PtxArtifact:
    """A native function of NumPy arrays for a program; arguments are those of `optimize`.

    One compiled function serves every size in the range of its symbols. `threads` is how many cores the code may use;
    so far it uses one. The target `ptx` gives an artifact for a GPU
    (text and launches) in place of a function, for the architecture `sm` ("sm_90"; also as `ptx:sm_90`). Raises what
    `optimize` raises, and TargetError where the processor can't run what TCP_EQSAT_CPU asks for, where the
    architecture is unknown, and where an operation has no form in PTX.
    """
    function = _function(program, entry)
    _check_options(function, target, rules, constants, budget, sizes)
    if not isinstance(threads, int) or threads < 1:
        raise ArgumentError(f"threads must be at least 1, got {threads}")
    if sm is not None and not is_ptx(target):
        raise ArgumentError(f"sm names the architecture of target ptx, and the target is {target}")
    granted, chosen, limits = permissions(numerics), default if rules is None else rules, budget or Budget()
    if is_ptx(target):
        architecture = ptx_target(target, sm)
        found = _optimize(function, target, granted, chosen, constants or {}, limits, sizes or {}, _Stopwatch())
        return emit_plan(found.plan, architecture)

    def build(frozen: Mapping[str, np.ndarray]) -> Compiled:
        watch = _Stopwatch()
        optimized = _optimize(function, target, granted, chosen, frozen, limits, sizes or {}, watch)
        code = compile_plan(optimized.plan, host_target())
        optimized = dataclasses.replace(
            optimized, report=dataclasses.replace(optimized.report, seconds={**watch.seconds, **code.times}))
        made: Compiled = callable_class(Compiled, code.call.function)(function, optimized, code, frozen, build)
        return made

    return build(dict(constants or {}))

"""Plans: what extraction writes and code generation reads.

A plan is a list of steps over buffers. A kernel is a small program in pointful form: definitions, each the value
of one tensor at one index in terms of earlier definitions and buffers, and the definitions it stores. What is
stored between kernels is decided here; what is recomputed, hoisted or kept in registers inside a kernel is the
schedule's decision. A routine is a procedure over whole buffers. Control flow runs plans inside of the plan.

What is updated in place is decided here too (by `in_place`): a buffer may lie in the memory of another one whose value
nothing needs any more.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tcp_eqsat.errors import VerificationError
from tcp_eqsat.lang.dims import Guard, Symbol, equal
from tcp_eqsat.lang.op import Op, regions_of
from tcp_eqsat.lang.ops.attributes import ScanAttributes, WhileAttributes
from tcp_eqsat.lang.pointful import Affine, Apply, Choose, Expr, Fold, Literal, Operand, Position, walk_expr
from tcp_eqsat.lang.procedural import Procedure
from tcp_eqsat.lang.program import TensorData
from tcp_eqsat.lang.types import TensorType, TupleType


class Role(enum.Enum):
    """Who owns a buffer's memory."""

    PARAMETER = "parameter"
    CONSTANT = "constant"
    TEMPORARY = "temporary"
    RESULT = "result"


@dataclass(frozen=True)
class Buffer:
    """C-contiguous memory of one tensor type.

    alias   a buffer of the same value in the same memory, under another shape
    within  a buffer of another value in the same memory: one takes the place of the other
    """

    name: str
    type: TensorType
    role: Role
    alias: str | None = None
    data: TensorData | None = field(default=None, repr=False)
    within: str | None = None


@dataclass(frozen=True)
class Definition:
    """`name[axes] = expression`, where Operand(n, ...) reads operands[n]: a definition or a buffer."""

    name: str
    type: TensorType
    expression: Expr
    operands: tuple[str, ...]


@dataclass(frozen=True)
class Kernel:
    """Definitions, operands first, and what is stored: (definition, buffer) pairs.

    All stored definitions are computed in one pass. `origin` says in a few words what it computes.
    """

    name: str
    definitions: tuple[Definition, ...]
    outputs: tuple[tuple[str, str], ...]
    origin: str = ""

    @property
    def loads(self) -> tuple[str, ...]:
        """The buffers read, in order of first use."""
        own = {d.name for d in self.definitions}
        return tuple(dict.fromkeys(x for d in self.definitions for x in d.operands if x not in own))

    @property
    def stores(self) -> tuple[str, ...]:
        return tuple(buffer for _, buffer in self.outputs)


class _WholeOperation:
    """A step that is one operation over buffers in memory."""

    op: Op
    operands: tuple[str, ...]
    results: tuple[str, ...]

    @property
    def loads(self) -> tuple[str, ...]:
        """The buffers read, once each."""
        return tuple(dict.fromkeys(self.operands))

    @property
    def stores(self) -> tuple[str, ...]:
        return self.results

    @property
    def origin(self) -> str:
        return self.op.name


@dataclass(frozen=True)
class Routine(_WholeOperation):
    """An operation that a procedure computes: `operands` and `results` are the buffers of its arrays, in order.

    in_place  (operand, result) by number: the result takes the operand's place, and what the procedure copies from one
              to the other stays where it is
    """

    name: str
    op: Op
    attributes: Any
    procedure: Procedure = field(repr=False)
    operands: tuple[str, ...]
    results: tuple[str, ...]
    in_place: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Control(_WholeOperation):
    """An operation that runs the regions among its attributes.

    `bodies` are the plans of its regions, in the order of `regions_of(attributes)`. Their parameters and results are
    the regions'; their symbols are symbols of the plan around them, which hands their values down.

    in_place  (operand, result) by number: the result takes the operand's place. A branch has a body that does so with
              its parameter; a loop's body changes the state where it is, and without this the loop copies the operand
              into the result first
    """

    name: str
    op: Op
    attributes: Any
    bodies: tuple[Plan, ...] = field(repr=False)
    operands: tuple[str, ...]
    results: tuple[str, ...]
    in_place: tuple[tuple[int, int], ...] = ()


Step = Kernel | Routine | Control


@dataclass(frozen=True)
class Port:
    """A parameter or result as the caller sees it: its name, its type, and the buffer that holds it.

    The buffer may have another shape of the same memory (axes refined or merged).
    """

    name: str
    type: TensorType
    buffer: str


@dataclass(frozen=True)
class Plan:
    """A whole program as steps in execution order.

    Symbols are every symbol that a size in the plan mentions; guards must hold before the first step runs.

    in_place  (parameter, result) by number: whoever runs the plan gives both the same memory, where the result takes
              the parameter's place. Only for bodies of control flow: the caller's arrays are never written
    """

    name: str
    parameters: tuple[Port, ...]
    results: tuple[Port, ...]
    buffers: Mapping[str, Buffer]
    steps: tuple[Step, ...]
    symbols: tuple[Symbol, ...]
    guards: tuple[Guard, ...] = ()
    in_place: tuple[tuple[int, int], ...] = ()

    @property
    def kernels(self) -> tuple[Kernel | Routine, ...]:
        """The kernels and routines, those in the bodies of control flow included, once each."""
        found: list[Kernel | Routine] = []
        for step in self.steps:
            if isinstance(step, Control):
                found.extend(kernel for body in step.bodies for kernel in body.kernels)
            else:
                found.append(step)
        return tuple(found)

    def root(self, buffer: str) -> Buffer:
        """The buffer that owns the memory."""
        found = self.buffers[buffer]
        while (owner := found.alias or found.within) is not None:
            found = self.buffers[owner]
        return found

    def value(self, buffer: str) -> Buffer:
        """The buffer whose value this one has under another shape, or itself."""
        found = self.buffers[buffer]
        while found.alias is not None:
            found = self.buffers[found.alias]
        return found


def verify_plan(plan: Plan) -> None:
    """Raises VerificationError where a name is unknown, a value is read before it is written or after another one took
    its place, a buffer is used with a wrong type, or memory is written that is not the plan's."""
    held = {plan.root(b.name).name: plan.value(b.name).name for b in plan.buffers.values()
            if b.role in (Role.PARAMETER, Role.CONSTANT)}
    given = {plan.root(plan.parameters[parameter].buffer).name for parameter, _ in plan.in_place}
    for step in plan.steps:
        kind = type(step).__name__.lower()
        for buffer in (*step.loads, *step.stores):
            if buffer not in plan.buffers:
                raise VerificationError(f"{kind} {step.name} uses {buffer}, which nothing defines")
        for buffer in step.loads:
            _verify_held(f"{kind} {step.name} reads {buffer}", buffer, held, plan)
        match step:
            case Kernel():
                _verify_kernel(step, plan)
            case Routine(procedure=procedure):
                _verify_types(step, plan, tuple(x.type for x in procedure.operands),
                              tuple(x.type for x in procedure.results))
            case Control():
                _verify_control(step, plan)
        for buffer in step.stores:
            root = plan.root(buffer)
            if root.role is Role.CONSTANT or (root.role is Role.PARAMETER and root.name not in given):
                raise VerificationError(f"{kind} {step.name} writes {root.name}, a {root.role.value}")
            held[root.name] = plan.value(buffer).name
    for port in plan.results:
        if plan.root(port.buffer).name not in held:
            raise VerificationError(f"result {port.name} is never written")
        _verify_held(f"result {port.name} is {port.buffer}", port.buffer, held, plan)
    for parameter, result in plan.in_place:
        memory, other = plan.parameters[parameter].buffer, plan.results[result].buffer
        if plan.root(memory) is not plan.root(other):
            raise VerificationError(f"{plan.name} requires {other} in the memory of {memory}")


def _verify_held(use: str, buffer: str, held: Mapping[str, str], plan: Plan) -> None:
    """Raises VerificationError unless the buffer's memory holds its value."""
    found = held.get(plan.root(buffer).name)
    if found is None:
        raise VerificationError(f"{use} before any step writes it")
    if found != plan.value(buffer).name:
        raise VerificationError(f"{use}, whose memory holds {found} by then")


def _verify_kernel(kernel: Kernel, plan: Plan) -> None:
    ranks = {buffer: plan.buffers[buffer].type.rank for buffer in kernel.loads}
    for definition in kernel.definitions:
        for operand in _operands(definition.expression):
            name = definition.operands[operand.number]
            if name not in ranks:
                raise VerificationError(f"kernel {kernel.name}: {definition.name} reads {name} too early")
            if len(operand.indices) != ranks[name]:
                raise VerificationError(
                    f"kernel {kernel.name}: {definition.name} reads {name} of rank {ranks[name]} "
                    f"with {len(operand.indices)} indices")
        ranks[definition.name] = definition.type.rank
    for definition_name, buffer in kernel.outputs:
        stored = next((d for d in kernel.definitions if d.name == definition_name), None)
        if stored is None or stored.type != plan.buffers[buffer].type:
            raise VerificationError(f"kernel {kernel.name} can't store {definition_name} in {buffer}")


def _verify_types(step: Routine | Control, plan: Plan, operands: tuple[TensorType, ...],
                  results: tuple[TensorType, ...]) -> None:
    """Buffers have the types that are required, and results lie in memory of their own or take an operand's place."""
    for required, buffers in ((operands, step.operands), (results, step.results)):
        found = tuple(plan.buffers[buffer].type for buffer in buffers)
        if not _agree(required, found):
            raise VerificationError(f"step {step.name} requires {_listed(required)}, got {_listed(found)}")
    roots = [plan.root(buffer).name for buffer in step.results]
    shared = {(j, k) for j, buffer in enumerate(step.operands) for k, root in enumerate(roots)
              if plan.root(buffer).name == root}
    if len({*roots}) != len(roots) or shared != {*step.in_place}:
        raise VerificationError(f"step {step.name} writes memory that it reads, or writes it twice")


def _verify_control(step: Control, plan: Plan) -> None:
    operands = tuple(plan.buffers[buffer].type for buffer in step.operands)
    result = step.op.infer_type(operands, step.attributes)
    _verify_types(step, plan, operands, result.items if isinstance(result, TupleType) else (result,))
    for region, body in zip(regions_of(step.attributes), step.bodies, strict=True):
        verify_plan(body)
        for ports, nodes in ((body.parameters, region.parameters), (body.results, region.results)):
            required, found = tuple(x.tensor_type for x in nodes), tuple(port.type for port in ports)
            if not _agree(required, found):
                raise VerificationError(
                    f"a body of step {step.name} requires {_listed(required)}, got {_listed(found)}")
    if not _places_agree(step):
        raise VerificationError(f"step {step.name} changes other operands in place than its bodies do")


def _places_agree(step: Control) -> bool:
    """Whether the bodies change in place what the step says and, in loops, nothing but state."""
    *others, body = step.bodies
    match step.attributes:
        case WhileAttributes(count=state) | ScanAttributes(carries=state):
            return all(not each.in_place for each in others) and {*step.in_place} <= {*body.in_place} and all(
                j == k < state for j, k in body.in_place)
        case _:
            return all({(j + 1, k) for j, k in each.in_place} == {*step.in_place} for each in step.bodies)


def _agree(required: Sequence[TensorType], found: Sequence[TensorType]) -> bool:
    return len(required) == len(found) and all(
        x.dtype == y.dtype and x.rank == y.rank and all(map(equal, x.shape, y.shape))
        for x, y in zip(required, found, strict=True))


def _listed(types: Sequence[TensorType]) -> str:
    return f"({', '.join(map(str, types))})"


def _operands(expression: Expr) -> Iterator[Operand]:
    return (x for x in walk_expr(expression) if isinstance(x, Operand))


def format_step(step: Step, plan: Plan) -> str:
    """The step as text: a kernel's definitions, a routine's buffers, the steps of the bodies of control flow."""
    if isinstance(step, Kernel):
        return format_kernel(step, plan)
    operands, results = ", ".join(step.operands), ", ".join(step.results)
    kind = "routine" if isinstance(step, Routine) else "control"
    places = _places(step.in_place, step.operands, step.results)
    lines = [f"{kind} {step.name}  {step.origin}({operands}) -> {results}{places}"]
    if isinstance(step, Control):
        for body in step.bodies:
            parameters = ", ".join(f"{port.name}: {port.type}" for port in body.parameters)
            outputs = [port.buffer for port in body.results]
            places = _places(body.in_place, [port.buffer for port in body.parameters], outputs)
            lines.append(f"  body {body.name}({parameters}) -> {', '.join(outputs)}{places}")
            lines += [f"    {line}" for inner in body.steps for line in format_step(inner, body).split("\n")]
    return "\n".join(lines)


def _places(in_place: Sequence[tuple[int, int]], operands: Sequence[str], results: Sequence[str]) -> str:
    """Which results take whose place: ", y in place of x"."""
    return "".join(f", {results[k]} in place of {operands[j]}" for j, k in in_place)


def format_kernel(kernel: Kernel, plan: Plan) -> str:
    """The kernel as text: one line a definition."""
    stored = dict(kernel.outputs)
    lines = [f"kernel {kernel.name}  {kernel.origin}".rstrip()]
    for definition in kernel.definitions:
        axes = ", ".join(_axis(i) for i in range(definition.type.rank))
        text = _format(definition.expression, definition.operands)
        target = f"  -> {stored[definition.name]}" if definition.name in stored else ""
        lines.append(f"  {definition.name}[{axes}]: {definition.type} = {text}{target}")
    return "\n".join(lines)


def _axis(number: int) -> str:
    return "ijklmnopqrst"[number] if number < 12 else f"i{number}"


def _index(index: Affine) -> str:
    parts = [_axis(a) if c == 1 else f"{c}*{_axis(a)}" for a, c in index.terms]
    if index.offset != 0 or not parts:
        parts.append(str(index.offset))
    return " + ".join(parts)


def _format(expr: Expr, operands: tuple[str, ...]) -> str:
    match expr:
        case Operand(number, indices):
            return f"{operands[number]}[{', '.join(map(_index, indices))}]"
        case Literal(literal):
            return str(literal.value)
        case Position(index):
            return f"({_index(index)})"
        case Apply(op, arguments):
            return f"{op.name}({', '.join(_format(x, operands) for x in arguments)})"
        case Fold(op, extents, first, body):
            bounds = ", ".join(f"{_axis(first + n)} < {extent}" for n, extent in enumerate(extents))
            return f"{op.name} over {bounds} of {_format(body, operands)}"
        case Choose(ranges, inside, outside):
            tests = " and ".join(f"{r.lower} <= {_index(r.index)} < {r.upper}" for r in ranges)
            return f"({_format(inside, operands)} if {tests} else {_format(outside, operands)})"

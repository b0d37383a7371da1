"""Plans: what extraction writes and code generation reads.

A plan is a list of kernels over buffers. A kernel is a small program in pointful form: definitions, each the value
of one tensor at one index in terms of earlier definitions and buffers, and the definitions it stores. What is
stored between kernels is decided here; what is recomputed, hoisted or kept in registers inside a kernel is the
schedule's decision.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tcp_eqsat.errors import VerificationError
from tcp_eqsat.lang.dims import Guard, Symbol
from tcp_eqsat.lang.pointful import Affine, Apply, Choose, Expr, Fold, Literal, Operand, Position, walk_expr
from tcp_eqsat.lang.program import TensorData
from tcp_eqsat.lang.types import TensorType


class Role(enum.Enum):
    """Who owns a buffer's memory."""

    PARAMETER = "parameter"
    CONSTANT = "constant"
    TEMPORARY = "temporary"
    RESULT = "result"


@dataclass(frozen=True)
class Buffer:
    """C-contiguous memory of one tensor type. `alias` names a buffer of the same memory under another shape."""

    name: str
    type: TensorType
    role: Role
    alias: str | None = None
    data: TensorData | None = field(default=None, repr=False)


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
    """A whole program as kernels in execution order.

    Symbols are every symbol that a size in the plan mentions; guards must hold before the first kernel runs.
    """

    name: str
    parameters: tuple[Port, ...]
    results: tuple[Port, ...]
    buffers: Mapping[str, Buffer]
    kernels: tuple[Kernel, ...]
    symbols: tuple[Symbol, ...]
    guards: tuple[Guard, ...] = ()

    def root(self, buffer: str) -> Buffer:
        """The buffer that owns the memory, aliases followed."""
        found = self.buffers[buffer]
        while found.alias is not None:
            found = self.buffers[found.alias]
        return found


def verify_plan(plan: Plan) -> None:
    """Raises VerificationError where a name is unknown, read before it is written, or used with a wrong rank."""
    written = {b.name for b in plan.buffers.values() if b.role in (Role.PARAMETER, Role.CONSTANT)}
    for kernel in plan.kernels:
        ranks: dict[str, int] = {}
        for buffer in kernel.loads:
            if buffer not in plan.buffers:
                raise VerificationError(f"kernel {kernel.name} reads {buffer}, which nothing defines")
            if plan.root(buffer).name not in written:
                raise VerificationError(f"kernel {kernel.name} reads {buffer} before any kernel writes it")
            ranks[buffer] = plan.buffers[buffer].type.rank
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
            written.add(plan.root(buffer).name)
    for port in plan.results:
        if plan.root(port.buffer).name not in written:
            raise VerificationError(f"result {port.name} is never written")


def _operands(expression: Expr) -> Iterator[Operand]:
    return (x for x in walk_expr(expression) if isinstance(x, Operand))


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

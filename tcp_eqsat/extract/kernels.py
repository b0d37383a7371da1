"""From a selection to a plan: kernels in pointful form, routines and control flow over named buffers.

A kernel has one definition for each value that it computes. Views, slices, reshapes and index ramps have none: they are
composed into the indices of whoever reads them, numbers into its expression. Reshapes read memory under another shape.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tcp_eqsat.egraph.view import ENode
from tcp_eqsat.extract.constants import attribute_sizes
from tcp_eqsat.extract.partition import Partition
from tcp_eqsat.extract.selection import Selection
from tcp_eqsat.extract.terms import ABSORBED, GIVEN, WRITTEN, Form
from tcp_eqsat.lang.dims import Symbol, symbols_of
from tcp_eqsat.lang.ops.elementwise import map_name, map_op
from tcp_eqsat.lang.plan import Buffer, Control, Definition, Kernel, Plan, Port, Role, Routine, Step, verify_plan
from tcp_eqsat.lang.pointful import Affine, Expr, Literal, Operand, Position, axis_index, rewrite_leaves
from tcp_eqsat.lang.program import Function
from tcp_eqsat.lang.types import TensorType, TupleType


@dataclass(frozen=True)
class Ports:
    """How the caller sees parameters and results: types of the same memory, names of results."""

    parameter_types: tuple[TensorType, ...]
    result_types: tuple[TensorType, ...]
    result_names: tuple[str, ...]


def default_ports(function: Function, parameter_types: Sequence[TensorType] | None = None,
                  result_types: Sequence[TensorType] | None = None) -> Ports:
    """The function's own types unless others are given; results are named as in the source, else by number."""
    results = function.results
    names = []
    for number, root in enumerate(results):
        own = function.names.get(root)
        names.append(own or ("result" if len(results) == 1 else f"result{number}"))
    return Ports(
        tuple(parameter_types or (x.tensor_type for x in function.parameters)),
        tuple(result_types or (x.tensor_type for x in results)), tuple(names))


def form_plan(partition: Partition, function: Function, ports: Ports) -> Plan:
    """The plan of a partition of finite cost, verified."""
    writer = _PlanWriter(partition.selection, function, ports)
    for kernel in partition.kernels():
        writer.step(partition.outputs(kernel))
    plan = writer.plan()
    verify_plan(plan)
    return plan


class _Names:
    """Unique identifiers."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def take(self, wanted: str) -> str:
        """`wanted` itself, or with a number after it."""
        base = re.sub(r"\W", "_", wanted) or "value"
        name, number = base, 1
        while name in self._taken:
            number += 1
            name = f"{base}_{number}"
        self._taken.add(name)
        return name


class _PlanWriter:
    """Buffers and steps, in execution order."""

    def __init__(self, selection: Selection, function: Function, ports: Ports) -> None:
        self.selection = selection
        self.terms = selection.terms
        self.view = selection.terms.view
        self.function = function
        self.buffers: dict[str, Buffer] = {}
        self.steps: list[Step] = []
        self.names = _Names()
        self._source = {c: function.names[node] for node, c in self.view.original.items() if node in function.names}
        self._memory: dict[int, str] = {}
        self._aliases: dict[tuple[str, TensorType], str] = {}
        self._defined: dict[int, str] = {}
        self._copies: dict[int, list[str]] = {}
        self._numbers: dict[int, str] = {}
        self._projections = {
            (term.operands[0], term.node.attributes.index): c for c in selection.reachable()
            if (term := selection.term(c)).form is Form.PROJECT}
        self.parameters = tuple(self._parameters(ports))
        self.results = tuple(self._results(ports))

    def _buffer(self, name: str, type_: TensorType, role: Role) -> str:
        unique = self.names.take(name)
        self.buffers[unique] = Buffer(unique, type_, role)
        return unique

    def _parameters(self, ports: Ports) -> Iterator[Port]:
        for node, type_ in zip(self.function.parameters, ports.parameter_types, strict=True):
            buffer = self._buffer(node.attributes.name, node.tensor_type, Role.PARAMETER)
            self._memory.setdefault(self.view.original[node], buffer)
            yield Port(node.attributes.name, type_, buffer)

    def _results(self, ports: Ports) -> Iterator[Port]:
        for root, type_, name in zip(self.view.roots, ports.result_types, ports.result_names, strict=True):
            target = self.selection.target(root)
            if target in self._copies and self.selection.form(target) in WRITTEN:
                yield Port(name, type_, self._copies[target][0])
                continue
            buffer = self._buffer(name, self.terms.types[target], Role.RESULT)
            self._copies.setdefault(target, []).append(buffer)
            yield Port(name, type_, buffer)

    def memory(self, found: int) -> str:
        """The buffer of a class that is in memory."""
        known = self._memory.get(found)
        if known is not None:
            return known
        if found in self._copies and self.selection.form(found) is not Form.BUFFER:
            buffer = self._copies[found][0]
        elif self.selection.form(found) is Form.BUFFER:
            data = self.terms.constants.data(found)
            buffer = self.names.take(self._source.get(found, "constant"))
            self.buffers[buffer] = Buffer(buffer, self.terms.types[found], Role.CONSTANT, data=data)
        else:
            buffer = self._buffer(f"{self._wanted(found)}_buffer", self.terms.types[found], Role.TEMPORARY)
        self._memory[found] = buffer
        return buffer

    def alias(self, buffer: str, type_: TensorType) -> str:
        """The buffer's memory under another shape."""
        if self.buffers[buffer].type == type_:
            return buffer
        known = self._aliases.get((buffer, type_))
        if known is None:
            known = self._aliases[buffer, type_] = self.names.take(f"{buffer}_reshaped")
            self.buffers[known] = Buffer(known, type_, self.buffers[buffer].role, alias=buffer)
        return known

    def stores(self, found: int) -> list[str]:
        """The buffers that a kernel writes a class to."""
        return list(self._copies.get(found) or [self.memory(found)])

    def _wanted(self, found: int) -> str:
        return self._source.get(found) or _operation(self.selection.term(found).node)

    def definition_name(self, found: int) -> str:
        if found not in self._defined:
            self._defined[found] = self.names.take(self._wanted(found))
        return self._defined[found]

    def step(self, outputs: tuple[int, ...]) -> None:
        """The kernel that stores some classes, or the routine or control flow that one is."""
        form = self.selection.form(outputs[0])
        if form is Form.ROUTINE:
            self._routine(outputs[0])
        elif form is Form.CONTROL:
            self._control(outputs[0])
        else:
            self._kernel(outputs)

    def _routine(self, found: int) -> None:
        term = self.selection.term(found)
        assert term.procedure is not None
        operands = tuple(map(self._operand, term.operands))
        self.steps.append(Routine(
            f"k{len(self.steps)}", term.node.op, term.node.attributes, term.procedure, operands,
            self._written(found)))

    def _control(self, found: int) -> None:
        term = self.selection.term(found)
        operands = tuple(map(self._operand, term.operands))
        bodies = tuple(body.plan for body in term.bodies)
        self.steps.append(Control(
            f"k{len(self.steps)}", term.node.op, term.node.attributes, bodies, operands, self._written(found)))

    def _operand(self, found: int) -> str:
        """The memory of an operand that must have some."""
        base = self.selection.memory_under(found)[-1]
        memory = self._held(base) if self.terms.is_held(base) else self.memory(base)
        return self.alias(memory, self.terms.types[found])

    def _held(self, found: int) -> str:
        """A number at every index, as a constant."""
        if found not in self._numbers:
            buffer = self.names.take("constant")
            self.buffers[buffer] = Buffer(
                buffer, self.terms.types[found], Role.CONSTANT, data=self.terms.constants.data(found))
            self._numbers[found] = buffer
        return self._numbers[found]

    def _written(self, found: int) -> tuple[str, ...]:
        """The memory of each result; those that nothing uses have some too."""
        type_ = self.view.types[found]
        if not isinstance(type_, TupleType):
            return (self.memory(found),)
        return tuple(
            self.memory(self._projections[found, n]) if (found, n) in self._projections
            else self._buffer(f"{self._wanted(found)}_{n}", item, Role.TEMPORARY)
            for n, item in enumerate(type_.items))

    def _kernel(self, outputs: tuple[int, ...]) -> None:
        writer = _KernelWriter(self, outputs)
        computed = writer.computed()
        definitions = tuple(map(writer.definition, computed))
        stored = tuple((self.definition_name(c), buffer) for c in outputs for buffer in self.stores(c))
        self.steps.append(Kernel(f"k{len(self.steps)}", definitions, stored, writer.origin(computed)))

    def plan(self) -> Plan:
        return Plan(
            self.function.name, self.parameters, self.results, self.buffers, tuple(self.steps), self._symbols(),
            self.function.guards)

    def _symbols(self) -> tuple[Symbol, ...]:
        sizes = [size for buffer in self.buffers.values() for size in buffer.type.shape]
        sizes += [size for port in (*self.parameters, *self.results) for size in port.type.shape]
        sizes += [size for guard in self.function.guards for size in (guard.left, guard.right)]
        for found in self.selection.reachable():
            attributes = self.selection.term(found).node.attributes
            sizes += [*self.terms.types[found].shape, *attribute_sizes(attributes)]
        inner = {each for step in self.steps if isinstance(step, Control) for b in step.bodies for each in b.symbols}
        return tuple(sorted({*symbols_of(*sizes), *inner}, key=lambda each: each.key))


class _KernelWriter:
    """The definitions of one kernel."""

    def __init__(self, plan: _PlanWriter, outputs: tuple[int, ...]) -> None:
        self.plan = plan
        self.terms = plan.terms
        self.selection = plan.selection
        self.outputs = outputs

    def _is_read(self, found: int) -> bool:
        """Whether the kernel reads the class from memory."""
        form = self.selection.form(found)
        if form in GIVEN:
            return form is Form.BUFFER
        return self.selection.in_memory(found) and found not in self.outputs

    def _is_computed(self, found: int) -> bool:
        form = self.selection.form(found)
        return found in self.outputs or not (form in GIVEN or form in ABSORBED or self._is_read(found))

    def computed(self) -> list[int]:
        """The classes that get a definition, operands first."""
        order: list[int] = []
        seen: set[int] = set()
        stack: list[tuple[int, bool]] = [(c, False) for c in reversed(self.outputs)]
        while stack:
            current, expanded = stack.pop()
            if expanded:
                order.append(current)
            elif current not in seen:
                seen.add(current)
                computed = self._is_computed(current)
                if computed:
                    stack.append((current, True))
                if self.selection.form(current) not in GIVEN and (computed or not self._is_read(current)):
                    stack.extend((x, False) for x in reversed(self.selection.term(current).operands))
        return order

    def origin(self, computed: Sequence[int]) -> str:
        """The operations of a kernel, in order."""
        counts = Counter(_operation(self.selection.term(c).node) for c in computed)
        return ", ".join(name if n == 1 else f"{n} {name}" for name, n in counts.items())

    def definition(self, found: int) -> Definition:
        term = self.selection.term(found)
        type_ = self.terms.types[found]
        operands: dict[str, int] = {}

        def number(name: str) -> int:
            return operands.setdefault(name, len(operands))

        if term.form in ABSORBED or term.form in GIVEN:
            identity = tuple(map(axis_index, range(type_.rank)))
            expression = self._copied(found, identity, number)
        else:
            expression = rewrite_leaves(self._pointful(found), lambda leaf: (
                leaf if isinstance(leaf, Position)
                else self._read(term.operands[leaf.number], leaf.indices, number)))
        return Definition(self.plan.definition_name(found), type_, expression, tuple(operands))

    def _pointful(self, found: int) -> Expr:
        node = self.selection.term(found).node
        pointful = node.op.pointful
        assert callable(pointful), node.op.name
        return pointful(node.attributes, tuple(self.terms.types[x] for x in node.operands), self.terms.types[found])

    def _read(self, found: int, at: tuple[Affine, ...], number: Callable[[str], int]) -> Expr:
        """The class at an index: from memory, from a definition, or through what is absorbed."""
        dtype = self.terms.types[found].dtype
        if self._is_read(found):
            return Operand(number(self.plan.memory(found)), at, dtype)
        if self._is_computed(found):
            return Operand(number(self.plan.definition_name(found)), at, dtype)
        return self._copied(found, at, number)

    def _copied(self, found: int, at: tuple[Affine, ...], number: Callable[[str], int]) -> Expr:
        """The class at an index, without a definition of its own."""
        term = self.selection.term(found)
        type_ = self.terms.types[found]
        if term.form is Form.LITERAL:
            return Literal(self.terms.constants.literals[found])
        if term.form is Form.BUFFER:
            return Operand(number(self.plan.memory(found)), at, type_.dtype)
        if term.form is Form.RESHAPE:
            return self._reshaped(found, at, number)
        expression = self._pointful(found)
        if isinstance(expression, Position):
            return Position(expression.index.substitute(dict(enumerate(at))), type_.dtype)
        assert isinstance(expression, Operand), expression
        inner = tuple(index.substitute(dict(enumerate(at))) for index in expression.indices)
        return self._read(term.operands[0], inner, number)

    def _reshaped(self, found: int, at: tuple[Affine, ...], number: Callable[[str], int]) -> Expr:
        """Memory under another shape."""
        base = found
        while self.selection.form(base) is Form.RESHAPE and (base == found or not self._is_read(base)):
            (base,) = self.selection.term(base).operands
        if self.selection.form(base) is Form.LITERAL:
            return Literal(self.terms.constants.literals[base])
        assert self._is_read(base), "a reshape reads memory"
        alias = self.plan.alias(self.plan.memory(base), self.terms.types[found])
        return Operand(number(alias), at, self.terms.types[found].dtype)


def _operation(node: ENode) -> str:
    return map_name(node.attributes) if node.op is map_op else node.op.name

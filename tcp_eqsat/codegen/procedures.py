"""Procedures as LLVM text: one function each, scalar, for LLVM's passes to make registers and vectors of.

Variables are stack slots, arrays are addressed by symbolic strides that come as arguments. All arrays are apart from
each other: LLVM may reorder accesses to different ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from tcp_eqsat.codegen.llvm_loops import LoopText
from tcp_eqsat.codegen.llvm_text import LLVMValue, memory_type
from tcp_eqsat.codegen.llvm_values import LLVMBuilder
from tcp_eqsat.codegen.target import CpuTarget
from tcp_eqsat.lang.dims import Size, product
from tcp_eqsat.lang.procedural import (
    Array,
    Compute,
    Constant,
    Extent,
    For,
    Get,
    If,
    Load,
    Name,
    Procedure,
    Set,
    Statement,
    Store,
    Variable,
    While,
)
from tcp_eqsat.lang.types import I64


@dataclass(frozen=True)
class ProcedureCode:
    """A function in LLVM text.

    Its arguments are `arrays` addresses of operands, results and scratch arrays, and then `sizes`, in order.
    """

    symbol: str
    text: str
    arrays: int
    sizes: tuple[Size, ...]

    @property
    def declaration(self) -> str:
        return f"declare void @{self.symbol}({', '.join(['ptr'] * self.arrays + ['i64'] * len(self.sizes))})"


def emit_procedure(procedure: Procedure, symbol: str, target: CpuTarget, declarations: dict[str, str]
                   ) -> ProcedureCode:
    """The function `symbol` that runs the procedure; `declarations` collects the functions it calls."""
    return _Emitter(procedure, target, declarations).function(symbol)


class _Emitter:
    def __init__(self, procedure: Procedure, target: CpuTarget, declarations: dict[str, str]) -> None:
        self.procedure = procedure
        self.builder = LLVMBuilder(target, 1, declarations)
        self.text = LoopText(self.builder, self.builder.scope)
        self.values: dict[int, LLVMValue] = {}
        self.slots: dict[int, str] = {}

    def function(self, symbol: str) -> ProcedureCode:
        procedure = self.procedure
        self._block(procedure.body)
        arguments = [f"ptr noalias readonly %{x.name}" for x in procedure.operands]
        arguments += [f"ptr noalias %{x.name}" for x in (*procedure.results, *procedure.scratch)]
        arrays = len(arguments)
        arguments += [f"i64 {name}" for name in self.text.sizes.values()]
        lines = [f"define void @{symbol}({', '.join(arguments)}) nounwind {{", "entry:",
                 *self.text.entry, "  br label %start", "start:", *self.builder.lines, "  ret void", "}"]
        return ProcedureCode(symbol, "\n".join(lines), arrays, tuple(self.text.sizes))

    def _block(self, statements: tuple[Statement, ...]) -> None:
        for statement in statements:
            self._statement(statement)

    def _statement(self, statement: Statement) -> None:
        values, builder = self.values, self.builder
        match statement:
            case Compute(result, op, operands):
                values[result.number] = op.emit(builder, *(values[x.number] for x in operands))
            case Constant(result, literal):
                values[result.number] = builder.constant(literal.value, literal.dtype)
            case Extent(result, size):
                number = self.text.size(size)
                values[result.number] = builder.constant(number, I64) if isinstance(number, int) else LLVMValue(
                    number, I64, 1)
            case Load(result, array, indices):
                values[result.number] = builder.load(self._element(array, indices), array.type.dtype, 1)
            case Store(array, indices, value):
                builder.store(values[value.number], self._element(array, indices), 1)
            case Set(variable, value):
                builder.store(values[value.number], self._slot(variable), 1)
            case Get(result, variable):
                values[result.number] = builder.load(self._slot(variable), variable.dtype, 1)
            case For():
                self._for(statement)
            case While(head, condition, body):
                self.text.repeat(lambda: self._condition(head, condition), lambda: self._block(body))
            case If(condition, then, ()):
                self.text.branch(values[condition.number].text, [], lambda: self._block(then))
            case If(condition, then, otherwise):
                self.text.fork(
                    values[condition.number].text, lambda: self._block(then), lambda: self._block(otherwise))

    def _condition(self, head: tuple[Statement, ...], condition: Name) -> str:
        self._block(head)
        return self.values[condition.number].text

    def _for(self, loop: For) -> None:
        extent = self.values[loop.extent.number]
        stop = extent.text if extent.literal is None else int(extent.literal)
        if isinstance(stop, int) and stop <= 0:
            return

        def step(index: str) -> None:
            self.values[loop.index.number] = LLVMValue(index, I64, 1)
            self._block(loop.body)

        self.text.loop(0, stop, 1, [], step)

    def _slot(self, variable: Variable) -> str:
        """The variable's place on the stack."""
        slot = self.slots.get(variable.number)
        if slot is None:
            slot = self.slots[variable.number] = f"%slot{variable.number}"
            self.text.entry.append(f"  {slot} = alloca {memory_type(variable.dtype)}")
        return slot

    def _element(self, array: Array, indices: tuple[Name, ...]) -> str:
        """The address of an element. Indices are inside the array, so that no part of the sum overflows."""
        shape = array.type.shape
        total: str | None = None
        for axis, index in enumerate(indices):
            part = self.values[index.number].text
            stride = self.text.size(product(shape[axis + 1:]))
            if stride != 1:
                part = self.builder.instruction(f"mul nsw i64 {part}, {stride}", I64, 1).text
            total = part if total is None else self.builder.instruction(f"add nsw i64 {total}, {part}", I64, 1).text
        if total is None:
            return f"%{array.name}"
        return self.builder.instruction(
            f"getelementptr inbounds {memory_type(array.type.dtype)}, ptr %{array.name}, i64 {total}", I64, 1).text

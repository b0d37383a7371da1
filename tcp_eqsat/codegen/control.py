"""Control flow as LLVM text: a function each, which calls the functions of its bodies.

A body is a plan, whose function takes arrays of pointers (see `entry`). State that a loop's body changes in place lies
in the result's memory, other state in two buffers in turn: the result's own and scratch memory, never in the operand's.
Slices of sequences are pointers into them. Loops can be interrupted between turns (see `interrupts`).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from tcp_eqsat.codegen.interrupts import INTERRUPTED, call_watched, count_down
from tcp_eqsat.codegen.memory import byte_count
from tcp_eqsat.codegen.size_ir import CheckedText, Operand
from tcp_eqsat.codegen.work import turn_work
from tcp_eqsat.lang.dims import Dim, Size, maximum
from tcp_eqsat.lang.ops.attributes import CaseAttributes, IfAttributes, ScanAttributes, WhileAttributes
from tcp_eqsat.lang.ops.control import split_scan
from tcp_eqsat.lang.plan import Control, Plan
from tcp_eqsat.lang.polynomial import symbol_dim
from tcp_eqsat.lang.types import TensorType


@dataclass(frozen=True)
class BodyFunction:
    """The function `symbol` of a body, the bytes of workspace that it needs, and whether it may be interrupted."""

    symbol: str
    workspace: Size
    is_watched: bool


@dataclass(frozen=True)
class ControlCode:
    """A function in LLVM text.

    Its arguments are the address of the constants, operands, results, scratch memory of so many bytes each, then
    `sizes`, in order, and the watch if it may be interrupted.
    """

    symbol: str
    text: str
    scratch: tuple[Size, ...]
    sizes: tuple[Size, ...]
    is_watched: bool


def emit_control(step: Control, plan: Plan, bodies: Sequence[BodyFunction], symbol: str) -> ControlCode:
    """The function `symbol` that runs the control flow of a plan over its bodies."""
    writer = _Writer(step, plan, bodies)
    match step.attributes:
        case IfAttributes():
            writer.if_()
        case CaseAttributes():
            writer.case()
        case WhileAttributes(count=count):
            writer.while_(count)
        case ScanAttributes():
            writer.scan(step.attributes)
        case _:
            raise AssertionError(f"{step.op.name} is no control flow")
    return writer.function(symbol)


class _Writer:
    def __init__(self, step: Control, plan: Plan, bodies: Sequence[BodyFunction]) -> None:
        self.step = step
        self.bodies = bodies
        self.types = tuple(plan.buffers[name].type for name in step.operands)
        self.results = tuple(plan.buffers[name].type for name in step.results)
        self.operands = [f"%x{n}" for n in range(len(step.operands))]
        self.targets = [f"%r{n}" for n in range(len(step.results))]
        self.text = CheckedText("leave")
        self.entry: list[str] = []
        self.sizes: dict[Size, str] = {}
        self.scratch: list[Size] = [functools.reduce(maximum, (body.workspace for body in bodies))]
        is_loop = isinstance(step.attributes, (WhileAttributes, ScanAttributes))
        self.is_watched = is_loop or any(body.is_watched for body in bodies)

    def function(self, symbol: str) -> ControlCode:
        pointers = [*self.operands, *self.targets, *(f"%s{n}" for n in range(len(self.scratch)))]
        arguments = ["ptr %constants", *(f"ptr {x}" for x in pointers), *(f"i64 {n}" for n in self.sizes.values()),
                     *(["ptr %watch"] if self.is_watched else [])]
        result, done = ("i32", "ret i32 0") if self.is_watched else ("void", "ret void")
        lines = [f"define internal {result} @{symbol}({', '.join(arguments)}) nounwind {{", "entry:", *self.entry,
                 "  br label %start", "start:", *self.text.lines, "  br label %leave", "leave:", f"  {done}"]
        if self.is_watched:
            lines += [f"{INTERRUPTED}:", "  ret i32 1"]
        return ControlCode(
            symbol, "\n".join((*lines, "}")), tuple(self.scratch), tuple(self.sizes), self.is_watched)

    # Parts

    def size(self, size: Size) -> Operand:
        """The size's value: a number, or an argument."""
        if not isinstance(size, Dim):
            return size
        return self.sizes.setdefault(size, f"%n{len(self.sizes)}")

    def memory(self, size: Size) -> str:
        """Scratch memory of its own."""
        self.scratch.append(size)
        return f"%s{len(self.scratch) - 1}"

    def array(self, kind: str, values: Sequence[Operand]) -> str:
        """An array on the stack with these values, stored here."""
        name = "%" + self.text.name("array")
        self.entry.append(f"  {name} = alloca [{max(len(values), 1)} x {kind}], align 8")
        for number, value in enumerate(values):
            self.text.store(kind, value, name, 8 * number)
        return name

    def call(self, number: int, parameters: Sequence[str], results: Sequence[str]) -> None:
        """Runs a body on memory."""
        plan, function = self.step.bodies[number], self.bodies[number]
        values = [self.size(symbol_dim(symbol)) for symbol in plan.symbols]
        arguments = [self.array("ptr", parameters), self.array("ptr", results), "%constants", "%s0",
                     self.array("i64", values)]
        call_watched(self.text, function.symbol, [f"ptr {x}" for x in arguments], function.is_watched)

    def count_turn(self) -> None:
        """Counts what a turn of a loop does; leaves where the call is interrupted."""
        count_down(self.text, self.size(turn_work(self.step.bodies)))

    def copy(self, target: str, source: str, type_: TensorType) -> None:
        self.text.copy(target, source, self.size(byte_count(type_)))

    def changed_in_place(self, count: int) -> dict[int, str]:
        """The state that the body changes where it is, in the result's memory, by number; it is brought there first."""
        kept = {k for _, k in self.step.bodies[-1].in_place}
        assert all(k < count for k in kept), self.step.name
        for k in sorted(kept - {k for _, k in self.step.in_place}):
            self.copy(self.targets[k], self.operands[k], self.results[k])
        return {k: self.targets[k] for k in kept}

    def labels(self, *stems: str) -> tuple[str, ...]:
        return tuple(map(self.text.name, stems))

    def jump(self, label: str) -> None:
        self.text.line(f"br label %{label}")

    def branch(self, condition: str, yes: str, no: str) -> None:
        self.text.line(f"br i1 {condition}, label %{yes}, label %{no}")

    def is_true(self, address: str) -> str:
        """Whether the bool at an address is true."""
        return self.text.compare("ne", self.text.load("i8", address), 0, "i8")

    # Branches

    def if_(self) -> None:
        condition = self.is_true(self.operands[0])
        yes, no, done = self.labels("yes", "no", "done")
        self.branch(condition, yes, no)
        self.branches((yes, no), done)

    def case(self) -> None:
        index = self.text.load("i32", self.operands[0])
        labels = self.labels(*("case" for _ in self.bodies))
        (done,) = self.labels("done")
        choices = " ".join(f"i32 {n}, label %{label}" for n, label in enumerate(labels))
        self.text.line(f"switch i32 {index}, label %{labels[-1]} [ {choices} ]")
        self.branches(labels, done)

    def branches(self, labels: Sequence[str], done: str) -> None:
        for number, label in enumerate(labels):
            self.text.label(label)
            self.call(number, self.operands[1:], self.targets)
            self.jump(done)
        self.text.label(done)

    # Loops

    def while_(self, count: int) -> None:
        """The state is where the last turn left it: the operand, the result, or scratch memory."""
        captures = self.operands[count:]
        in_place = self.changed_in_place(count)
        turning = [n for n in range(count) if n not in in_place]
        others = {n: self.memory(byte_count(self.results[n])) for n in turning}
        flag = self.array("i64", [0])
        head, turn, back, done = self.labels("while", "turn", "back", "done")
        self.jump("before")
        self.text.label("before")
        self.jump(head)
        self.text.label(head)
        names, place = self.phis(len(turning))
        moving = dict(zip(turning, names, strict=True))
        now = [in_place.get(n) or moving[n] for n in range(count)]
        self.call(0, [*now, *captures], [flag])
        self.branch(self.is_true(flag), turn, done)
        self.text.label(turn)
        self.count_turn()
        following = {n: self.other(moving[n], self.targets[n], others[n]) for n in turning}
        self.call(1, [*now, *captures], [in_place.get(n) or following[n] for n in range(count)])
        self.jump(back)
        self.text.label(back)
        self.jump(head)
        self.text.lines[place:place] = [
            f"  {moving[n]} = phi ptr [ {self.operands[n]}, %before ], [ {following[n]}, %{back} ]" for n in turning]
        self.text.label(done)
        for n in turning:
            copy, kept = self.labels("copy", "kept")
            self.branch(self.text.compare("eq", moving[n], self.targets[n], "ptr"), kept, copy)
            self.text.label(copy)
            self.copy(self.targets[n], moving[n], self.results[n])
            self.jump(kept)
            self.text.label(kept)

    def phis(self, count: int) -> tuple[list[str], int]:
        """Names of values that change in a loop, and the line where their phis go."""
        return ["%" + self.text.name("now") for _ in range(count)], len(self.text.lines)

    def other(self, now: str, target: str, scratch: str) -> str:
        """Where the next state goes: the target, or scratch memory where that is in use."""
        return self.text.value(f"select i1 {self.text.compare('eq', now, target, 'ptr')}, ptr {scratch}, ptr {target}")

    def scan(self, attributes: ScanAttributes) -> None:
        """Carries that turn are in the result and in scratch memory, so that the last ones are in the result."""
        carries, sequences, captures = split_scan(self.operands, attributes)
        _, sequence_types, _ = split_scan(self.types, attributes)
        count = attributes.carries
        in_place = self.changed_in_place(count)
        turning = [n for n in range(count) if n not in in_place]
        others = {n: self.memory(byte_count(self.results[n])) for n in turning}
        length = self.size(attributes.length)
        head, back, done, empty = self.labels("scan", "back", "done", "empty")
        self.jump("before")
        self.text.label("before")
        self.branch(self.text.compare("sgt", length, 0), head, empty)
        self.text.label(head)
        (index, *names), place = self.phis(len(turning) + 1)
        moving = dict(zip(turning, names, strict=True))
        self.count_turn()
        left = self.text.value(f"sub i64 {self.text.value(f'sub i64 {length}, {index}')}, 1")
        odd = self.text.compare("ne", self.text.value(f"and i64 {left}, 1"), 0)
        following = {n: self.text.value(f"select i1 {odd}, ptr {others[n]}, ptr {self.targets[n]}") for n in turning}
        at = left if attributes.reverse else index
        slices = [self.slice(x, at, t) for x, t in zip(sequences, sequence_types, strict=True)]
        outputs = [self.slice(x, at, t) for x, t in zip(
            self.targets[count:], self.results[count:], strict=True)]
        self.call(0, [*(in_place.get(n) or moving[n] for n in range(count)), *slices, *captures],
                  [*(in_place.get(n) or following[n] for n in range(count)), *outputs])
        after = self.text.value(f"add i64 {index}, 1")
        self.jump(back)
        self.text.label(back)
        self.branch(self.text.compare("slt", after, length), head, done)
        self.text.lines[place:place] = [
            f"  {index} = phi i64 [ 0, %before ], [ {after}, %{back} ]",
            *(f"  {moving[n]} = phi ptr [ {carries[n]}, %before ], [ {following[n]}, %{back} ]" for n in turning)]
        self.text.label(empty)
        for n in turning:
            self.copy(self.targets[n], carries[n], self.results[n])
        self.jump(done)
        self.text.label(done)

    def slice(self, base: str, index: str, type_: TensorType) -> str:
        """The address of the slice at an index along the leading axis."""
        stride = self.size(byte_count(TensorType(type_.dtype, type_.shape[1:])))
        return self.text.at(base, self.text.value(f"mul i64 {index}, {stride}"))

"""Control flow in LLVM text: loops, branches, sizes. Values that change on the way are phis."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from tcp_eqsat.codegen.llvm_text import LLVMValue, memory_type
from tcp_eqsat.codegen.llvm_values import LLVMBuilder
from tcp_eqsat.lang.dims import Dim, Size
from tcp_eqsat.lang.types import I64, DType

State = dict
"""Values by any key, which emitted code replaces: merged by phis where paths meet."""
Integer = str | int
"""An i64: the name of a value, or a number."""

_FOLD = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}


class LoopText:
    """Writes blocks through `builder`. `sizes` are the i64 arguments asked for, `entry` what is computed first.

    Every block that need not run before what follows it is written within a `scope`: what is known only there is
    forgotten after it.
    """

    def __init__(self, builder: LLVMBuilder, scope: Callable[[], AbstractContextManager[None]]) -> None:
        self.builder = builder
        self.scope = scope
        self.block = "start"
        self.sizes: dict[Size, str] = {}
        self.entry: list[str] = []
        self._scaled: dict[tuple[str, int], str] = {}
        self._labels = 0

    # Integers

    def size(self, size: Size) -> Integer:
        """The size's value: a number, or an argument of the function."""
        if not isinstance(size, Dim):
            return size
        return self.sizes.setdefault(size, f"%n{len(self.sizes)}")

    def scaled(self, size: Size, count: int) -> str:
        """`size * count`, computed before all loops."""
        value = str(self.size(size))
        if count == 1:
            return value
        if (value, count) not in self._scaled:
            name = self._scaled[value, count] = f"%m{len(self._scaled)}"
            self.entry.append(f"  {name} = mul i64 {value}, {count}")
        return self._scaled[value, count]

    def integer(self, operation: str, x: Integer, y: Integer) -> Integer:
        """add, sub or mul."""
        if isinstance(x, int) and isinstance(y, int):
            return _FOLD[operation](x, y)
        if y == (1 if operation == "mul" else 0):
            return x
        return self.builder.instruction(f"{operation} i64 {x}, {y}", I64, 1).text

    def product(self, value: str, coefficient: Size) -> str:
        return str(self.integer("mul", value, self.size(coefficient)))

    def compare(self, predicate: str, x: Integer, y: Integer) -> str:
        """An i1, where a number decides nothing."""
        return self.builder.instruction(f"icmp {predicate} i64 {x}, {y}", I64, 1).text

    def element(self, pointer: str, dtype: DType, index: Integer) -> str:
        """The address of an element of an array."""
        return self.builder.instruction(
            f"getelementptr {memory_type(dtype)}, ptr {pointer}, i64 {index}", I64, 1).text

    # Blocks

    def _names(self, *stems: str) -> tuple[str, ...]:
        self._labels += 1
        return tuple(f"{stem}{self._labels}" for stem in stems)

    def _label(self, name: str) -> None:
        self.builder.line(f"{name}:")
        self.block = name

    def _jump(self, target: str) -> None:
        self.builder.line(f"  br label %{target}")

    def _branch(self, condition: str, yes: str, no: str) -> None:
        self.builder.line(f"  br i1 {condition}, label %{yes}, label %{no}")

    def _phi(self, *incoming: tuple[LLVMValue, str]) -> LLVMValue:
        """The value of the block that control came from; no phi where all are one."""
        first = incoming[0][0]
        if all(value.text == first.text for value, _ in incoming):
            return first
        name = self.builder.fresh("phi")
        pairs = ", ".join(f"[ {value.text}, %{block} ]" for value, block in incoming)
        self.builder.line(f"  {name} = phi {first.type_text} {pairs}")
        return LLVMValue(name, first.dtype, first.lanes)

    def loop(self, start: Integer, stop: Integer, step: int, states: Sequence[State],
             emit: Callable[[str], None]) -> str:
        """`emit(index)` for start, start + step, ... while a whole step fits before `stop`; gives where it ended."""
        last = self.integer("sub", stop, step)
        head, done = self._names("loop", "done")
        guarded = not (isinstance(start, int) and isinstance(last, int))
        before = self.block
        entering = [dict(state) for state in states]
        if guarded:
            self._branch(self.compare("sle", start, last), head, done)
        else:
            self._jump(head)
        self._label(head)
        index = self.builder.fresh("i")
        placeholder = len(self.builder.lines)
        self.builder.line("")
        phis: list[tuple[LLVMValue, State, object]] = []
        for state in states:
            for key, value in state.items():
                state[key] = phi = LLVMValue(self.builder.fresh("acc"), value.dtype, value.lanes)
                phis.append((phi, state, key))
        with self.scope():
            emit(index)
            following = self.builder.instruction(f"add i64 {index}, {step}", I64, 1).text
            self._branch(self.compare("sle", following, last), head, done)
        latch = self.block
        lines = [f"  {index} = phi i64 [ {start}, %{before} ], [ {following}, %{latch} ]"]
        for phi, state, key in phis:
            old = next(e[key] for e, s in zip(entering, states, strict=True) if s is state)
            lines.append(f"  {phi.text} = phi {phi.type_text} [ {old.text}, %{before} ], "
                         f"[ {state[key].text}, %{latch} ]")
        self.builder.lines[placeholder] = "\n".join(lines)
        self._label(done)
        if not guarded:
            return following
        for state, old in zip(states, entering, strict=True):
            for key, value in state.items():
                state[key] = self._phi((old[key], before), (value, latch))
        return self._phi((_i64(start), before), (_i64(following), latch)).text

    def covering(self, extent: Integer, counts: Sequence[int], emit: Callable[[str, int], None]) -> None:
        """`emit(index, count)` so that every index below `extent` is covered, by the first count that fits in it.

        A last step that would reach beyond the end starts earlier. Counts end with 1.
        """
        (done,) = self._names("covered")
        with self.scope():  # the tests after the first run only where no count before fitted
            for count in counts:
                self._cover(extent, count, emit, done)
        self._jump(done)
        self._label(done)

    def _cover(self, extent: Integer, count: int, emit: Callable[[str, int], None], done: str) -> None:
        """The steps of `count`, then to `done`, where that fits; else on to what is written next."""
        test, head = self._names("try", "cover")
        self._branch(self.compare("sge", extent, count), head, test)
        before = self.block
        self._label(head)
        index = self.builder.fresh("i")
        placeholder = len(self.builder.lines)
        self.builder.line("")
        with self.scope():
            emit(index, count)
            after = self.builder.instruction(f"add i64 {index}, {count}", I64, 1).text
            least = self.builder.instruction(f"sub i64 {extent}, {count}", I64, 1).text
            self.builder.declare("llvm.smin.i64", "i64", ("i64", "i64"))
            following = self.builder.instruction(
                f"call i64 @llvm.smin.i64(i64 {after}, i64 {least})", I64, 1).text
            self._branch(self.compare("slt", after, extent), head, done)
        self.builder.lines[placeholder] = (
            f"  {index} = phi i64 [ 0, %{before} ], [ {following}, %{self.block} ]")
        self._label(test)

    def repeat(self, condition: Callable[[], str], emit: Callable[[], None]) -> None:
        """`emit()` as long as `condition()`, written before it and after each turn, gives a true i1."""
        head, body, done = self._names("while", "do", "done")
        self._jump(head)
        self._label(head)
        with self.scope():
            self._branch(condition(), body, done)
            self._label(body)
            emit()
            self._jump(head)
        self._label(done)

    def fork(self, condition: str, then: Callable[[], None], otherwise: Callable[[], None]) -> None:
        """`then()` where the i1 `condition` holds, else `otherwise()`."""
        left, right, done = self._names("yes", "no", "join")
        self._branch(condition, left, right)
        for name, emit in ((left, then), (right, otherwise)):
            self._label(name)
            with self.scope():
                emit()
            self._jump(done)
        self._label(done)

    def branch(self, condition: str, states: Sequence[State], emit: Callable[[], None]) -> None:
        """`emit()` where the i1 `condition` holds."""
        then, done = self._names("then", "join")
        before = self.block
        entering = [dict(state) for state in states]
        self._branch(condition, then, done)
        self._label(then)
        with self.scope():
            emit()
        after = self.block
        self._jump(done)
        self._label(done)
        for state, old in zip(states, entering, strict=True):
            for key, value in state.items():
                state[key] = self._phi((old[key], before), (value, after))

    def either(self, condition: str, yes: Callable[[], LLVMValue], no: Callable[[], LLVMValue]) -> LLVMValue:
        """`yes()` where the i1 `condition` holds, else `no()`; only that one runs."""
        left, right, done = self._names("yes", "no", "join")
        self._branch(condition, left, right)
        self._label(left)
        with self.scope():
            x = yes()
        x_block = self.block
        self._jump(done)
        self._label(right)
        with self.scope():
            y = no()
        y_block = self.block
        self._jump(done)
        self._label(done)
        return self._phi((x, x_block), (y, y_block))


def _i64(value: Integer) -> LLVMValue:
    return LLVMValue(str(value), I64, 1)

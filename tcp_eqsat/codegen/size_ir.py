"""Sizes and other 64-bit integers in LLVM text, in code that leaves when a check fails."""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass

from tcp_eqsat.lang import intervals
from tcp_eqsat.lang.dims import INT64_MAX, Atom, Dim, Floor, Maximum, Minimum, Size, Symbol
from tcp_eqsat.lang.intervals import Interval
from tcp_eqsat.lang.monomials import Monomial

Operand = str | int
"""An i64 in LLVM text: a value's name, or a constant."""


class CheckedText:
    """The body of a function as it is written: straight code with exits to the block `exit`."""

    def __init__(self, exit: str) -> None:
        self.exit = exit
        self.lines: list[str] = []
        self._count = 0

    def name(self, stem: str) -> str:
        """A name that was not given before."""
        self._count += 1
        return f"{stem}{self._count}"

    def line(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")

    def value(self, expression: str, stem: str = "v") -> str:
        """Writes `%name = expression`; gives `%name`."""
        name = "%" + self.name(stem)
        self.line(f"{name} = {expression}")
        return name

    def require(self, condition: str) -> None:
        """Leaves for the exit unless the i1 `condition` holds."""
        passed = self.name("ok")
        self.line(f"br i1 {condition}, label %{passed}, label %{self.exit}")
        self.label(passed)

    def compare(self, predicate: str, x: Operand, y: Operand, kind: str = "i64") -> str:
        return self.value(f"icmp {predicate} {kind} {x}, {y}", "c")

    def require_equal(self, x: Operand, y: Operand, kind: str = "i64") -> None:
        self.require(self.compare("eq", x, y, kind))

    def load(self, kind: str, address: str, offset: int = 0) -> str:
        """The `kind` that lies `offset` bytes after `address`."""
        return self.value(f"load {kind}, ptr {self.at(address, offset)}, align {_ALIGNMENT[kind]}")

    def store(self, kind: str, value: Operand, address: str, offset: int = 0) -> None:
        self.line(f"store {kind} {value}, ptr {self.at(address, offset)}, align {_ALIGNMENT[kind]}")

    def at(self, address: str, offset: Operand) -> str:
        if offset == 0:
            return address
        return self.value(f"getelementptr i8, ptr {address}, i64 {offset}", "p")

    def copy(self, target: str, source: str, count: Operand) -> None:
        """Copies `count` bytes between addresses that don't overlap."""
        self.line(f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, i64 {count}, i1 false)")

    def integer(self, operation: str, x: Operand, y: Operand, wraps: bool = False) -> Operand:
        """add, sub or mul. Leaves for the exit where the result does not fit, unless it `wraps`."""
        if isinstance(x, int) and isinstance(y, int):
            return int(_FOLD[operation](x, y))
        if operation != "sub" and isinstance(x, int):
            x, y = y, x
        if y == _NEUTRAL[operation]:
            return x
        if wraps:
            return self.value(f"{operation} i64 {x}, {y}")
        pair = self.value(f"call {{i64, i1}} @llvm.s{operation}.with.overflow.i64(i64 {x}, i64 {y})")
        overflows = self.value(f"extractvalue {{i64, i1}} {pair}, 1")
        self.require(self.value(f"xor i1 {overflows}, true"))
        return self.value(f"extractvalue {{i64, i1}} {pair}, 0")


_ALIGNMENT = {"i8": 1, "i32": 4, "i64": 8, "ptr": 8}
_FOLD = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}
_NEUTRAL = {"add": 0, "sub": 0, "mul": 1}

INTRINSICS = "".join(
    f"declare {{i64, i1}} @llvm.s{operation}.with.overflow.i64(i64, i64)\n" for operation in _FOLD
) + "".join(f"declare i64 @llvm.{name}.i64(i64, i64)\n" for name in ("smin", "smax"))
"""Declarations of what `CheckedText` and `SizeText` call, but for `copy`."""
COPY = "declare void @llvm.memcpy.p0.p0.i64(ptr noalias writeonly, ptr noalias readonly, i64, i1)"
"""The declaration of what `CheckedText.copy` calls."""


@dataclass(frozen=True, slots=True)
class _Ranged:
    """An operand and where its value lies."""

    operand: Operand
    interval: Interval


class SizeText:
    """Evaluates sizes over symbols whose values are written already. Equal parts are written once.

    A part that could overflow by the ranges of its symbols, or divide by less than 1, leaves for the exit when
    it does.
    """

    def __init__(self, text: CheckedText) -> None:
        self._text = text
        self._known: dict[Dim | Atom, _Ranged] = {}

    def bind(self, symbol: Symbol, value: Operand) -> None:
        """Says that `symbol`, whose range was checked, has `value`."""
        self._known[symbol] = _Ranged(value, symbol.interval)

    def value(self, size: Size) -> Operand:
        """`size` as an operand; every symbol in it is bound."""
        return self._size(size).operand

    def symbol(self, symbol: Symbol) -> Operand:
        return self._known[symbol].operand

    def _size(self, size: Size) -> _Ranged:
        if isinstance(size, int):
            return _Ranged(size, (size, size))
        if size not in self._known:
            terms = [self._term(coefficient, monomial) for coefficient, monomial in size.terms]
            self._known[size] = functools.reduce(functools.partial(self._integer, "add"), terms)
        return self._known[size]

    def _term(self, coefficient: int, monomial: Monomial) -> _Ranged:
        factors = [self._atom(atom) for atom, exponent in monomial for _ in range(exponent)]
        multiply = functools.partial(self._integer, "mul")
        return functools.reduce(multiply, [*factors, self._size(coefficient)])

    def _atom(self, atom: Atom) -> _Ranged:
        if atom not in self._known:
            match atom:
                case Floor(dividend, divisor):
                    operand = self._floor(self._size(dividend), self._size(divisor))
                case Minimum(operands) | Maximum(operands):
                    name = "smin" if isinstance(atom, Minimum) else "smax"
                    operand = functools.reduce(
                        lambda x, y: self._text.value(f"call i64 @llvm.{name}.i64(i64 {x}, i64 {y})"),
                        map(self.value, operands),
                    )
                case _:
                    raise AssertionError(f"{atom} is not bound")
            self._known[atom] = _Ranged(operand, atom.interval)
        return self._known[atom]

    def _floor(self, dividend: _Ranged, divisor: _Ranged) -> Operand:
        if divisor.interval[0] < 1:
            self._text.require(self._text.compare("sgt", divisor.operand, 0))
        parts = f"i64 {dividend.operand}, {divisor.operand}"
        if dividend.interval[0] >= 0:
            return self._text.value(f"udiv {parts}")
        below = self._text.compare("slt", self._text.value(f"srem {parts}"), 0)
        step = self._text.value(f"sext i1 {below} to i64")
        return self._text.integer("add", self._text.value(f"sdiv {parts}"), step, wraps=True)

    def _integer(self, operation: str, x: _Ranged, y: _Ranged) -> _Ranged:
        interval = (intervals.add if operation == "add" else intervals.multiply)(x.interval, y.interval)
        fits = _INT64[0] <= interval[0] and interval[1] <= _INT64[1]
        operand = self._text.integer(operation, x.operand, y.operand, wraps=fits)
        return _Ranged(operand, interval if fits else intervals.intersect(interval, _INT64))


_INT64 = (-INT64_MAX - 1, INT64_MAX)

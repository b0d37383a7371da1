"""Integers that a loop counts: which values of a body are known in each turn, and how many turns there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tcp_eqsat.lang.ops.attributes import MapAttributes, SizeAttributes, WhileAttributes
from tcp_eqsat.lang.ops.source import constant_op
from tcp_eqsat.lang.program import Node, Region
from tcp_eqsat.lang.scalar import ScalarApply, ScalarExpr, ScalarLiteral, ScalarParameter
from tcp_eqsat.lang.types import DType, Kind, TensorType, integer_range


@dataclass(frozen=True, slots=True)
class Line:
    """`start + step * turn`, turns counted from 0."""

    start: int
    step: int = 0

    def at(self, turn: int) -> int:
        return self.start + self.step * turn

    def __add__(self, other: Line) -> Line:
        return Line(self.start + other.start, self.step + other.step)

    def __sub__(self, other: Line) -> Line:
        return Line(self.start - other.start, self.step - other.step)

    def __mul__(self, factor: int) -> Line:
        return Line(self.start * factor, self.step * factor)


@dataclass(frozen=True)
class Counted:
    """A `while` that runs a known number of turns, and the state that is counted: by number, its value at the start of
    each turn, and in turn `turns` after the last."""

    turns: int
    state: Mapping[int, Line]


def count_turns(node: Node) -> Counted | None:
    """How a `while` counts; None where that is not known."""
    loop: WhileAttributes = node.attributes
    numbers = {n: value for n, x in enumerate(node.operands) if (value := known_integer(x)) is not None}
    fixed = {n: Line(value) for n, value in numbers.items() if n >= loop.count}
    counted: dict[int, Line] = {}
    for n, start in numbers.items():
        if n < loop.count:
            following = Values(loop.body, {n: Line(0, 1), **fixed}, None).line(loop.body.results[n])
            if following is not None and following.step == 1:
                counted[n] = Line(start, following.start)
    turns = _turns(loop.condition, counted | fixed)
    if turns is None:
        return None
    types = [x.tensor_type for x in node.operands]
    return Counted(turns, {n: line for n, line in counted.items() if _fits(line, types[n].dtype, turns)})


def known_integer(node: Node) -> int | None:
    """The value of an integer of rank 0 that is known when the program is made."""
    if not _is_integer(node):
        return None
    line = Values(Region((), ()), {}, 0).line(node)
    return None if line is None else line.start


def _is_integer(node: Node) -> bool:
    return isinstance(node.type, TensorType) and node.shape == () and node.dtype.kind in (Kind.INT, Kind.UINT)


def _fits(line: Line, dtype: DType, last: int) -> bool:
    low, high = integer_range(dtype)
    return all(low <= line.at(turn) <= high for turn in (0, last))


_TRUE_BELOW = {
    # operation -> how much the difference of its operands, times a sign, must be below 0 by
    "less": (1, 0), "less_equal": (1, -1), "greater": (-1, 0), "greater_equal": (-1, -1),
}


def _turns(condition: Region, lines: Mapping[int, Line]) -> int | None:
    """The first turn in which a condition is false; None if it is not known to be a comparison of lines, or never."""
    (result,) = condition.results
    if not isinstance(result.attributes, MapAttributes) or result.shape != ():
        return None
    compared = result.attributes.function.result
    if not isinstance(compared, ScalarApply) or not all(
            x.dtype.kind in (Kind.INT, Kind.UINT) for x in compared.arguments):
        return None
    sides = Values(condition, lines, None).scalars(result)
    operands = [sides[x] for x in compared.arguments]
    turns = _first_false(compared.op.name, operands)
    if turns is None:
        return None
    exact = Values(condition, lines, turns).scalars(result)
    return turns if [exact[x] for x in compared.arguments] == operands else None


def _first_false(name: str, operands: list[Line | None]) -> int | None:
    """The first turn in which a comparison of two lines is false."""
    if len(operands) != 2 or operands[0] is None or operands[1] is None:
        return None
    difference = operands[0] - operands[1]
    if name == "not_equal":
        if difference.start == 0:
            return 0
        reached = difference.step != 0 and difference.start % difference.step == 0
        turns = -difference.start // difference.step if reached else 0
        return turns if turns > 0 else None
    if name not in _TRUE_BELOW:
        return None
    sign, below = _TRUE_BELOW[name]
    below_zero = difference * sign + Line(below)
    if below_zero.start >= 0:
        return 0
    return -(below_zero.start // below_zero.step) if below_zero.step > 0 else None


_TRUE_FOR = {"less": (-1,), "less_equal": (-1, 0), "greater": (1,), "greater_equal": (1, 0), "equal": (0,),
             "not_equal": (-1, 1)}
"""For which signs of the difference of its operands a comparison is true."""
_SAME = ("view", "reshape")
"""Operations that give a value of rank 0 as it is."""


def _scalars_of(node: Node) -> tuple[Node, ...]:
    """The operands that a value of rank 0 is computed of."""
    if not isinstance(node.type, TensorType) or node.shape != ():
        return ()
    return node.operands if isinstance(node.attributes, MapAttributes) or node.op.name in _SAME else ()


class Values:
    """Integers and truth values of rank 0 in a region, some of whose parameters are lines.

    With a `last` turn everything is known to fit its dtype in turns 0 to `last`. Without one it is known up to
    multiples of 2^bits only, and what depends on more is not known.
    """

    def __init__(self, region: Region, lines: Mapping[int, Line], last: int | None) -> None:
        self._last = last
        self._known: dict[Node, Line | None] = {
            x: self._checked(lines[n], x.dtype) if n in lines else None for n, x in enumerate(region.parameters)}

    def line(self, node: Node) -> Line | None:
        """The value of a node in each turn, where it is known."""
        stack = [node]
        while stack:
            current = stack[-1]
            left = [] if current in self._known else [x for x in _scalars_of(current) if x not in self._known]
            if left:
                stack.extend(left)
            elif stack.pop() not in self._known:
                self._known[current] = self._find(current)
        return self._known[node]

    def _find(self, node: Node) -> Line | None:
        if not isinstance(node.type, TensorType) or node.shape != ():
            return None
        match node.attributes:
            case SizeAttributes(size=int(size)):
                return self._checked(Line(size), node.dtype)
            case MapAttributes(function=function):
                return self.scalars(node)[function.result]
        if node.op is constant_op and (_is_integer(node) or node.dtype.kind is Kind.BOOL):
            return Line(int(node.attributes.data.array[()]))
        return self._known[node.operands[0]] if node.op.name in _SAME else None

    def scalars(self, node: Node) -> dict[ScalarExpr, Line | None]:
        """The parts of the function of a map of rank 0."""
        found: dict[ScalarExpr, Line | None] = {}
        for expr in node.attributes.function.walk():
            match expr:
                case ScalarParameter():
                    found[expr] = self.line(node.operands[expr.index])
                case ScalarLiteral():
                    whole = expr.dtype.kind in (Kind.INT, Kind.UINT, Kind.BOOL)
                    found[expr] = Line(int(expr.value)) if whole else None
                case ScalarApply():
                    operands = [found[x] for x in expr.arguments]
                    made = None if any(x is None for x in operands) else self._applied(
                        expr, [x for x in operands if x is not None])
                    found[expr] = None if made is None else self._checked(made, expr.dtype)
        return found

    def _applied(self, expr: ScalarApply, operands: list[Line]) -> Line | None:
        name = expr.op.name
        match operands:
            case [x] if name == "negative":
                return x * -1
            case [x] if name == f"astype_{expr.dtype}":
                return x if x.step == 0 or self._last is not None else None
            case [x, y] if name == "add":
                return x + y
            case [x, y] if name == "subtract":
                return x - y
            case [x, y] if name == "multiply" and 0 in (x.step, y.step):
                return x * y.start if y.step == 0 else y * x.start
            case [x, y] if name in ("maximum", "minimum"):
                less, greater = (x, y) if name == "minimum" else (y, x)
                signs = self._signs(x, y)
                return less if signs <= {-1, 0} else greater if signs <= {0, 1} else None
            case [condition, x, y] if name == "where":
                return x if condition == Line(1) else y if condition == Line(0) else None
            case [x, y]:
                outcomes = {sign in _TRUE_FOR[name] for sign in self._signs(x, y)} if name in _TRUE_FOR else set()
                return Line(int(outcomes.pop())) if len(outcomes) == 1 else None
        return None

    def _signs(self, x: Line, y: Line) -> set[int]:
        """What signs x - y may have in some turn."""
        if self._last is None and (x.step or y.step):
            return {-1, 0, 1}
        signs = {(d > 0) - (d < 0) for d in map((x - y).at, (0, self._last or 0))}
        return {-1, 0, 1} if signs >= {-1, 1} else signs

    def _checked(self, line: Line, dtype: DType) -> Line | None:
        """The line where it fits the dtype in all turns, or nothing is said about that."""
        if dtype.kind not in (Kind.INT, Kind.UINT, Kind.BOOL):
            return None
        if self._last is None and line.step:
            return line
        return line if _fits(line, dtype, self._last or 0) else None

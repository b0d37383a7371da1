"""What a compiled function takes and gives, and in which order the sizes of its arrays are understood."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tcp_eqsat.errors import ArgumentError
from tcp_eqsat.lang.dims import Dim, Guard, Size, Symbol, substitute, symbols_of
from tcp_eqsat.lang.types import TensorType

WorkspaceBytes = Size | Callable[[Sequence[int]], int]
"""Bytes of workspace: a size over the signature's symbols, or a function of their values in order."""


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    type: TensorType


@dataclass(frozen=True, slots=True)
class Place:
    """One axis of one parameter."""

    parameter: int
    axis: int


@dataclass(frozen=True, slots=True)
class Verify:
    """The extent at `place` must equal `size`, whose symbols are known by now."""

    place: Place
    size: Size


@dataclass(frozen=True, slots=True)
class Solve:
    """The extent at `place` is `rest + slope * (symbol / symbol.divisor)` and tells the symbol.

    `slope` and `rest` mention symbols that are known by now.
    """

    place: Place
    symbol: Symbol
    slope: Size
    rest: Size

    @property
    def is_direct(self) -> bool:
        """Whether the extent is the symbol itself."""
        return self.slope == self.symbol.divisor and self.rest == 0


Step = Verify | Solve


@dataclass(frozen=True)
class Signature:
    """Parameters and results of a compiled function, and the symbols that their sizes are made of.

    `symbols` gives the order of the values that the entry gets; `guards` are equalities of sizes that must hold, and
    `numbers` sizes that the program computes with and that must be at least 0 and fit in 64 bits.
    Raises ArgumentError for two parameters of one name, and for a symbol that no parameter's shape tells.
    """

    parameters: tuple[Parameter, ...]
    results: tuple[TensorType, ...]
    symbols: tuple[Symbol, ...] = ()
    guards: tuple[Guard, ...] = ()
    numbers: tuple[Size, ...] = ()

    def __post_init__(self) -> None:
        names = [parameter.name for parameter in self.parameters]
        for name in names:
            if names.count(name) > 1:
                raise ArgumentError(f"parameters must have different names, got {name!r} twice")
        self.require_known(*self.symbols)
        self.require_known(*symbols_of(*(size for t in self.results for size in t.shape)))
        self.require_known(*symbols_of(*(size for g in self.guards for size in (g.left, g.right)), *self.numbers))

    def require_known(self, *symbols: Symbol) -> None:
        """Raises ArgumentError for a symbol that no parameter's shape tells."""
        known = {step.symbol for step in self.steps if isinstance(step, Solve)}
        for symbol in symbols:
            if symbol not in known:
                raise ArgumentError(f"no parameter's shape tells the size {symbol.name} in {self}")

    @functools.cached_property
    def steps(self) -> tuple[Step, ...]:
        """Each axis of each parameter once: extents that tell a symbol before those that mention it."""
        return tuple(_steps(self.parameters))

    def __str__(self) -> str:
        parameters = ", ".join(f"{p.name}: {p.type}" for p in self.parameters)
        results = ", ".join(map(str, self.results))
        return f"({parameters}) -> {results if len(self.results) == 1 else f'({results})'}"


def _steps(parameters: Sequence[Parameter]) -> Iterator[Step]:
    places: dict[Size, list[Place]] = {}
    for number, parameter in enumerate(parameters):
        for axis, size in enumerate(parameter.type.shape):
            places.setdefault(size, []).append(Place(number, axis))
    known: set[Symbol] = set()
    while places:
        size, step = min(
            ((size, _step(size, at[0], known)) for size, at in places.items()),
            key=lambda each: _difficulty(each[1]),
        )
        if step is None:
            shapes = ", ".join(f"{p.name}: {p.type}" for p in parameters)
            raise ArgumentError(f"the size {size} can't be solved for its symbols in ({shapes})")
        if isinstance(step, Solve):
            known.add(step.symbol)
        yield step
        yield from (Verify(place, size) for place in places.pop(size)[1:])


def _step(size: Size, place: Place, known: set[Symbol]) -> Step | None:
    """How the extent at `place` is understood when `known` symbols are; None if it is too early."""
    unknown = [symbol for symbol in symbols_of(size) if symbol not in known]
    if not unknown:
        return Verify(place, size)
    if len(unknown) > 1 or not _is_linear(size, unknown[0]):
        return None
    symbol = unknown[0]
    rest = substitute(size, {symbol.name: 0})
    return Solve(place, symbol, substitute(size, {symbol.name: symbol.divisor}) - rest, rest)


def _is_linear(size: Size, symbol: Symbol) -> bool:
    """Whether `size` is `a * symbol + b` where a and b don't mention the symbol."""
    if isinstance(size, int):
        return False
    monomials = [m for m in size.polynomial if any(symbol in atom.symbols for atom, _ in m)]
    return all(
        (atom is symbol and exponent == 1) or symbol not in atom.symbols
        for monomial in monomials
        for atom, exponent in monomial
    )


def _difficulty(step: Step | None) -> int:
    """What is done first: constants, symbols standing alone, constant slopes, slopes that may be 0."""
    match step:
        case None:
            return 5
        case Verify(size=Dim()):
            return 4
        case Verify():
            return 0
        case Solve(is_direct=True):
            return 1
        case Solve(slope=int()):
            return 2
        case _:
            return 3

"""What a kernel costs: the facts that extraction collects, and the protocol of the models that price them.

Costs are microseconds on one core. Facts are numbers at representative sizes; legality never depends on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from tcp_eqsat.lang.dims import Symbol
from tcp_eqsat.lang.scalar import ScalarOp
from tcp_eqsat.lang.types import DType

TYPICAL_SIZE = 128
"""What a symbol stands for in costs where its range allows it and the caller says nothing."""
UNKNOWN_TRIPS = 16
"""How often a loop runs, in costs, where only values tell."""


@dataclass(frozen=True, slots=True)
class Access:
    """Memory that a kernel reads or writes.

    bytes       how much of it the kernel touches
    footprint   the bytes that decide which cache level holds it
    contiguous  whether neighbours in memory are neighbours in a vector
    uses        from how many places of the kernel it is read
    """

    bytes: float
    footprint: float
    contiguous: bool = True
    uses: int = 1


@dataclass(frozen=True, slots=True)
class Contraction:
    """A contraction of `flops` floating-point operations (2 a product), with `columns` innermost results."""

    dtype: DType
    flops: float
    columns: float


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """What one kernel does.

    loads, stores  memory traffic
    scalar         microseconds of scalar operations in vector loops, recomputation included
    contraction    the contraction, if there is one
    folds          reductions over rows
    row_bytes      memory of one row, read once more for each fold
    """

    loads: tuple[Access, ...]
    stores: tuple[Access, ...]
    scalar: float
    contraction: Contraction | None = None
    folds: int = 0
    row_bytes: float = 0.0


class CostModel(Protocol):
    """Prices of kernels, in microseconds."""

    @property
    def name(self) -> str: ...

    def scalar(self, op: ScalarOp, dtype: DType) -> float:
        """One scalar operation on one element of `dtype`, in a vector loop."""

    def choice(self, dtype: DType) -> float:
        """One element of a value that is put together from several operands."""

    def recomputation(self, others: float, vectorised: bool, dtype: DType) -> float:
        """How often a scalar operation before a contraction is computed for each element of its operand.

        `others` is the number of results that share the element; `vectorised` says whether the element's axis is
        the one that vectors run along.
        """

    def kernel(self, facts: KernelFacts) -> float:
        """A whole kernel, its call included."""


def representative_sizes(symbols: Iterable[Symbol], hints: Mapping[str, int] | None = None) -> dict[str, int]:
    """A value for every symbol: the caller's hint, else a typical size moved into the symbol's range."""
    sizes: dict[str, int] = {}
    for symbol in symbols:
        wanted = (hints or {}).get(symbol.name, TYPICAL_SIZE)
        low, high = symbol.interval
        size = min(max(wanted, int(low)), int(high))
        up = -(-size // symbol.divisor) * symbol.divisor
        sizes[symbol.name] = up if up <= high else up - symbol.divisor
    return sizes

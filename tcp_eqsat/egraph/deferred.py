"""Attribute arithmetic in Python: egglog asks, Python answers between two runs.

A `DeferredTable` is a partial function of attribute values. Rules of egglog write rows `(want_f inputs...)`; after
the run Python computes each new row once and writes `(have_f inputs... outputs...)`, or nothing where the function
gives None. Rules that need the outputs join with `have_f`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from tcp_eqsat.egraph.columns import Codec, Decoder
from tcp_eqsat.egraph.engine import Engine, Tables


@dataclass(frozen=True)
class DeferredTable:
    """A function of attributes that Python computes.

    inputs, outputs  codecs of the arguments and results
    function         attributes -> results, or None where it is not defined
    """

    name: str
    inputs: tuple[Codec, ...]
    outputs: tuple[Codec, ...]
    function: Callable[..., tuple[Any, ...] | None]

    @property
    def want(self) -> str:
        return f"want_{self.name}"

    @property
    def have(self) -> str:
        return f"have_{self.name}"

    @property
    def declarations(self) -> tuple[str, ...]:
        inputs = " ".join(sort for codec in self.inputs for sort in codec.sorts)
        outputs = " ".join(sort for codec in self.outputs for sort in codec.sorts)
        return f"(relation {self.want} ({inputs}))", f"(relation {self.have} ({inputs} {outputs}))"


Memo = dict[tuple[str, tuple[Any, ...]], "str | None"]
"""Answers by table and arguments; worth keeping for another e-graph with the same tables."""


class Answers:
    """Answers the requests of some deferred tables in one e-graph."""

    def __init__(self, engine: Engine, decoder: Decoder, tables: Iterable[DeferredTable], memo: Memo) -> None:
        self._engine = engine
        self._decoder = decoder
        self._tables = {table.want: table for table in tables}
        self._answered: dict[str, set[tuple[Any, ...]]] = {want: set() for want in self._tables}
        self._declined: Counter[str] = Counter()
        self._memo = memo

    def counts(self, table: DeferredTable) -> tuple[int, int]:
        """How many requests a table had, and how many of them have no answer."""
        return len(self._answered[table.want]), self._declined[table.want]

    def pending(self, sizes: dict[str, int]) -> bool:
        """Whether there are requests without an answer, by the sizes of the tables."""
        return any(sizes.get(want, 0) > len(answered) for want, answered in self._answered.items())

    def give(self, tables: Tables, sizes: dict[str, int]) -> int:
        """Answers every new request and returns how many answers were written."""
        self._decoder.read(tables)
        lines: list[str] = []
        for want, table in self._tables.items():
            answered = self._answered[want]
            if sizes.get(want, 0) <= len(answered):
                continue
            for row, _ in tables.rows(want):
                if row not in answered:
                    answered.add(row)
                    line = self._answer(table, row)
                    if line is None:
                        self._declined[want] += 1
                    else:
                        lines.append(line)
        self._engine.run(lines)
        return len(lines)

    def _answer(self, table: DeferredTable, row: tuple[Any, ...]) -> str | None:
        arguments: list[Any] = []
        position = 0
        for codec in table.inputs:
            columns = [self._decoder.value(sort, value) for sort, value in zip(
                codec.sorts, row[position:position + len(codec.sorts)], strict=True)]
            arguments.append(codec.decode(*columns))
            position += len(codec.sorts)
        key = (table.name, tuple(arguments))
        if key in self._memo:
            return self._memo[key]
        results = table.function(*arguments)
        line = None
        if results is not None:
            texts = [
                text for codec, value in zip((*table.inputs, *table.outputs), (*arguments, *results), strict=True)
                for text in codec.encode(value)]
            line = f"({table.have} {' '.join(texts)})"
        self._memo[key] = line
        return line

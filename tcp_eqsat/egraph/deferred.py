"""Attribute arithmetic in Python: egglog asks, Python answers between two runs.

A `DeferredTable` is a partial function of attribute values. Rules of egglog make terms `(want_f inputs...)`, of sort
Key; after the run Python computes each new one once and writes `(have_f key outputs...)`, or nothing where the
function gives None. Rules that need the outputs join with `have_f`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tcp_eqsat.egraph.columns import Codec, Decoder, Vocabulary, truncate
from tcp_eqsat.egraph.engine import Engine, Tables
from tcp_eqsat.errors import LimitError


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
        inputs, outputs = (" ".join(sort for codec in codecs for sort in codec.sorts)
                           for codecs in (self.inputs, self.outputs))
        return f"(constructor {self.want} ({inputs}) Key)", f"(relation {self.have} (Key {outputs}))"


_Answer = tuple[tuple[str, ...], tuple[str, ...]]
"""The columns of a request and those of its result, as text."""


class Answers:
    """Answers the requests of the deferred tables in one e-graph."""

    def __init__(self, engine: Engine, decoder: Decoder, vocabulary: Vocabulary) -> None:
        self._engine = engine
        self._decoder = decoder
        self._vocabulary = vocabulary
        self._tables: dict[str, DeferredTable] = {}
        self._answered: dict[str, dict[tuple[Any, ...], None]] = {}
        self._computed: dict[str, dict[tuple[Any, ...], _Answer | None]] = {}

    def add(self, table: DeferredTable) -> None:
        """Requests of one more table are answered; of tables with one name the first counts."""
        if table.want not in self._tables:
            self._tables[table.want] = table
            self._answered[table.want], self._computed[table.want] = {}, {}

    def counts(self, table: DeferredTable) -> tuple[int, int]:
        """How many different requests a table had, and how many of them have no answer."""
        computed = self._computed[table.want]
        return len(computed), sum(columns is None for columns in computed.values())

    def has_answered(self, table: DeferredTable) -> bool:
        """Whether some request of a table has an answer."""
        return any(columns is not None for columns in self._computed[table.want].values())

    def sizes(self) -> dict[str, int]:
        """How many requests of each table are answered."""
        return {want: len(answered) for want, answered in self._answered.items()}

    def forget(self, sizes: dict[str, int]) -> None:
        """Only the first so many requests of each table are answered (any more)."""
        for want, answered in self._answered.items():
            truncate(answered, sizes.get(want, 0))

    def pending(self, sizes: Mapping[str, int]) -> bool:
        """Whether there are requests without an answer, by the sizes of the tables."""
        return any(sizes.get(want, 0) > len(answered) for want, answered in self._answered.items())

    def give(self, tables: Tables, sizes: Mapping[str, int]) -> int:
        """Answers every new request and returns how many answers were written."""
        self._decoder.read(tables)
        lines: list[str] = []
        for want, table in self._tables.items():
            answered = self._answered[want]
            if sizes.get(want, 0) <= len(answered):
                continue
            for row, _ in tables.rows(want):
                if row not in answered:
                    answered[row] = None
                    answer = self._answer(table, row)
                    if answer is not None:
                        inputs, outputs = (" ".join(map(self._vocabulary.name, columns)) for columns in answer)
                        lines.append(f"({table.have} ({table.want} {inputs}) {outputs})")
        self._engine.run(self._vocabulary.definitions())
        self._engine.run(lines)
        return len(lines)

    def _answer(self, table: DeferredTable, row: tuple[Any, ...]) -> _Answer | None:
        """The answer to a request, computed once for equal arguments."""
        arguments: list[Any] = []
        position = 0
        for codec in table.inputs:
            columns = [self._decoder.value(sort, value) for sort, value in zip(
                codec.sorts, row[position:position + len(codec.sorts)], strict=True)]
            arguments.append(codec.decode(*columns))
            position += len(codec.sorts)
        key, computed = tuple(arguments), self._computed[table.want]
        if key not in computed:
            computed[key] = _compute(table, arguments)
        return computed[key]


def _compute(table: DeferredTable, arguments: list[Any]) -> _Answer | None:
    results = table.function(*arguments)
    if results is None:
        return None
    try:
        return _columns(table.inputs, arguments), _columns(table.outputs, results)
    except LimitError:
        return None


def _columns(codecs: Iterable[Codec], values: Iterable[Any]) -> tuple[str, ...]:
    return tuple(text for codec, value in zip(codecs, values, strict=True) for text in codec.encode(value))

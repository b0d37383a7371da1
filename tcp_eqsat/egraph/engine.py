"""One egglog e-graph: text goes in, tables come out. The only module that calls egglog.

An `Engine` belongs to the thread that made it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tcp_eqsat.egraph.bindings import EggSmolError, EGraph
from tcp_eqsat.errors import TcpError


class EGraphError(TcpError):
    """egglog refused a text, or failed while running it."""


class Engine:
    """An e-graph and the commands run on it."""

    def __init__(self) -> None:
        self._egraph = EGraph()
        self._sizes: dict[str, int] | None = None

    def run(self, lines: Iterable[str]) -> list[Any]:
        """Runs commands, one or more a line, and gives their outputs.

        Raises EGraphError. Lines before a failing one stay applied. Each line is a text of its own: egglog 13 copies
        the whole text for each part of it.
        """
        self._sizes = None
        outputs: list[Any] = []
        for line in lines:
            outputs += self._guarded(lambda line=line: self._run_text(line))
        return outputs

    def _run_text(self, text: str) -> Any:
        """The outputs of commands; egglog 14 takes them in one step, which saves a fifth of the time."""
        if hasattr(self._egraph, "parse_and_run_program"):
            return self._egraph.parse_and_run_program(text)
        return self._egraph.run_program(*self._egraph.parse_program(text))

    def run_ruleset(self, schedule: str) -> Any:
        """The report of one `run-schedule`."""
        sizes = self._sizes
        (output,) = self.run((f"(run-schedule {schedule})",))
        if not output.report.updated:
            self._sizes = sizes
        return output.report

    def sizes(self) -> Mapping[str, int]:
        """The number of rows of every table."""
        if self._sizes is None:
            (output,) = self.run(("(print-size)",))
            self._sizes = dict(output.sizes)
        return self._sizes

    def freeze(self) -> Tables:
        """A copy of all tables."""
        return Tables(self, self._guarded(lambda: self._egraph.freeze().functions))

    def push(self) -> None:
        """Keeps a copy of the state for `pop`; there may be many."""
        self.run(("(push)",))

    def pop(self) -> None:
        """Back to the last copy. Values read since then mean nothing any more."""
        self.run(("(pop)",))

    def integer(self, value: Any) -> int:
        return self._egraph.value_to_i64(value)

    def string(self, value: Any) -> str:
        return self._egraph.value_to_string(value)

    def items(self, value: Any) -> list[Any]:
        """The elements of a Vec."""
        return self._egraph.value_to_vec(value)

    @staticmethod
    def _guarded(action: Any) -> Any:
        """A Rust panic arrives as a BaseException of a class that has no importable name."""
        try:
            return action()
        except EggSmolError as error:
            raise EGraphError(f"egglog refused a command: {error}") from error
        except BaseException as error:
            if type(error).__name__ != "PanicException":
                raise
            raise EGraphError(f"egglog panicked: {error}") from None


class Tables:
    """The tables of an e-graph at one moment. Rows are (input values, output value)."""

    def __init__(self, engine: Engine, functions: Any) -> None:
        self.engine = engine
        self._functions = functions
        self._rows: dict[str, list[tuple[tuple[Any, ...], Any]]] = {}

    def rows(self, name: str) -> list[tuple[tuple[Any, ...], Any]]:
        """The live rows of a table; none of a table that does not exist."""
        known = self._rows.get(name)
        if known is None:
            function = self._functions.get(name)
            rows: Iterable[Any] = () if function is None else function.rows
            known = self._rows[name] = [(tuple(r.inputs), r.output) for r in rows if not r.subsumed]
        return known


def quoted(text: str) -> str:
    """A string literal of egglog."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'


def vector(texts: Iterable[str]) -> str:
    """A Vec of elements given as text."""
    joined = " ".join(texts)
    return f"(vec-of {joined})" if joined else "(vec-empty)"

"""Files of tests spread over processes: a crash or a test without end is a failed test, and the others go on."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from tcp_eqsat.conformance import Mode, Outcome, Verdict, run_file

_SECONDS = 120.0
"""For one test."""


@dataclass
class _Worker:
    process: BaseProcess
    connection: Connection
    file: Path | None = None
    heard: float = 0.0
    """When it said something last."""


def _work(connection: Connection) -> None:
    """Runs the files it is told, sending every outcome, and None after each file."""
    while True:
        try:
            path, mode, pattern = connection.recv()
        except EOFError:  # there are no more
            return
        try:
            for outcome in run_file(path, mode, pattern):
                connection.send(outcome)
        except Exception as error:  # a fault of ours, which must not end the other tests
            connection.send(Outcome(str(path), "-", Verdict.FAILED, f"internal: {type(error).__name__}: {error}"))
        connection.send(None)


def run_files(
    files: Sequence[Path], mode: Mode, pattern: str | None, processes: int,
    progress: Callable[[int], None] = lambda done: None,
) -> Iterator[Outcome]:
    """The outcomes of all tests, as they come; `progress` hears how many files are done."""
    context = multiprocessing.get_context("spawn")
    pending = list(reversed(files))
    workers = [_start(context) for _ in range(min(processes, len(files)))]
    done = 0
    try:
        for worker in workers:
            _assign(worker, pending, mode, pattern)
        while any(worker.file is not None for worker in workers):
            ready = wait([worker.connection for worker in workers if worker.file is not None], timeout=1.0)
            for worker in workers:
                if worker.file is None:
                    continue
                late = time.monotonic() - worker.heard > _SECONDS
                if worker.connection not in ready and not late:
                    continue
                outcome = _hear(worker) if worker.connection in ready else f"took over {_SECONDS:.0f} s"
                if isinstance(outcome, Outcome):
                    yield outcome
                    continue
                if isinstance(outcome, str):
                    yield Outcome(str(worker.file), "-", Verdict.FAILED, outcome)
                    _end(worker)
                    fresh = _start(context)
                    worker.process, worker.connection = fresh.process, fresh.connection
                done += 1
                progress(done)
                _assign(worker, pending, mode, pattern)
    finally:
        for worker in workers:
            _end(worker)


def _start(context: multiprocessing.context.SpawnContext) -> _Worker:
    here, there = context.Pipe()
    process = context.Process(target=_work, args=(there,), daemon=True)
    process.start()
    there.close()
    return _Worker(process, here)


def _assign(worker: _Worker, pending: list[Path], mode: Mode, pattern: str | None) -> None:
    worker.file = pending.pop() if pending else None
    worker.heard = time.monotonic()
    if worker.file is not None:
        worker.connection.send((worker.file, mode, pattern))


def _hear(worker: _Worker) -> Outcome | str | None:
    """An outcome, None at the end of a file, or how the process died."""
    worker.heard = time.monotonic()
    try:
        heard: Outcome | None = worker.connection.recv()
    except (EOFError, OSError):
        worker.process.join(5)
        return f"the process ended with status {worker.process.exitcode}"
    return heard


def _end(worker: _Worker) -> None:
    worker.connection.close()
    worker.process.kill()
    worker.process.join()

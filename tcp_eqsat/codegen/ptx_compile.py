"""LLVM text to PTX without danger for this process: LLVM runs in a child, and a child that dies is an error.

On Linux the child is forked, which costs some milliseconds; elsewhere, and where other Python threads run (one may
hold a lock that the child would wait for), it is a new interpreter.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path
from typing import IO, NoReturn

from tcp_eqsat.codegen import ptx_child
from tcp_eqsat.codegen.target import PtxTarget
from tcp_eqsat.errors import TargetError, VerificationError

with contextlib.suppress(ImportError):  # not on Windows, where nothing is forked
    import resource

SECONDS = 120.0
"""How long the child may take."""


def compile_ptx(text: str, target: PtxTarget, fork: bool | None = None) -> str:
    """The PTX of an LLVM module.

    `fork` chooses between a forked child and a new interpreter. Raises TargetError where LLVM dies or takes more
    than SECONDS, or was built without NVPTX; VerificationError where it rejects the text.
    """
    if fork is None:
        fork = sys.platform == "linux" and threading.active_count() == 1
    status, ptx, messages = (_in_fork if fork else _in_interpreter)(text, target.sm)
    if status == 0:
        return ptx
    said = _essence(messages)
    if status == ptx_child.REJECTED:
        raise VerificationError(f"LLVM rejects the generated code for {target}: {said}")
    how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
    raise TargetError(f"LLVM can't compile the code for {target}: it {how}: {said}")


def _essence(messages: str) -> str:
    """The lines of LLVM's last words that say what was wrong, without the stack dump."""
    lines = [line.strip() for line in messages.splitlines() if line.strip()]
    stop = next((n for n, line in enumerate(lines) if line.startswith(("PLEASE submit", "Stack dump"))), len(lines))
    return "; ".join(lines[:stop][:4]) or "it left no message"


def _in_interpreter(text: str, sm: str) -> tuple[int, str, str]:
    command = [sys.executable, "-m", ptx_child.__name__, sm]
    package = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(x for x in (package, os.environ.get("PYTHONPATH")) if x)
    try:
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=SECONDS, check=False,
            env={**os.environ, "PYTHONPATH": path})
    except subprocess.TimeoutExpired:
        _too_long()
    except OSError as error:
        _not_started(error)
    return done.returncode, done.stdout, done.stderr


def _in_fork(text: str, sm: str) -> tuple[int, str, str]:
    """As `_in_interpreter`, by a copy of this process, which does nothing but run LLVM and leaves at once."""
    try:
        ptx_child.initialize()
    except RuntimeError as error:
        return ptx_child.REJECTED, "", str(error)
    with tempfile.TemporaryFile() as messages:
        reader, writer = os.pipe()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # on threads of libraries, which LLVM does not need
                child = os.fork()
        except OSError as error:
            os.close(reader)
            os.close(writer)
            _not_started(error)
        if child == 0:
            _child(text, sm, writer, messages)
        os.close(writer)
        try:
            output = _read(reader, child)
        finally:
            os.close(reader)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        messages.seek(0)
        return status, output.decode(), messages.read().decode(errors="replace")


def _child(text: str, sm: str, writer: int, messages: IO[bytes]) -> NoReturn:
    """The life of the forked child. It may not return into the copied program, whatever happens."""
    status = 1
    try:
        os.dup2(messages.fileno(), 2)
        faulthandler.disable()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        try:
            with os.fdopen(writer, "wb") as pipe:
                pipe.write(ptx_child.translate(text, sm).encode())
            status = 0
        except RuntimeError as error:
            os.write(2, str(error).encode())
            status = ptx_child.REJECTED
    finally:
        os._exit(status)


def _read(reader: int, child: int) -> bytes:
    """What the child writes until it ends; it is killed when it takes too long or when this process is interrupted."""
    parts: list[bytes] = []
    deadline = time.monotonic() + SECONDS
    with selectors.DefaultSelector() as selector:
        selector.register(reader, selectors.EVENT_READ)
        try:
            while True:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    _too_long()
                part = os.read(reader, 1 << 16)
                if not part:
                    return b"".join(parts)
                parts.append(part)
        except BaseException:
            os.kill(child, signal.SIGKILL)
            raise


def _too_long() -> NoReturn:
    raise TargetError(f"LLVM did not finish the PTX in {SECONDS:g} s")


def _not_started(error: OSError) -> NoReturn:
    raise TargetError(f"the compiler of PTX can't be started: {error.strerror or error}") from None

"""LLVM text to PTX without danger for this process: LLVM runs in a child, and a child that dies is an error.

The child is a new interpreter, never a forked copy of this process: libraries here have threads of their own, and a
copy can wait forever for a lock that one of them held.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tcp_eqsat.codegen import ptx_child
from tcp_eqsat.codegen.target import PtxTarget
from tcp_eqsat.errors import TargetError, VerificationError

SECONDS = 120.0
"""How long the child may take."""


def compile_ptx(text: str, target: PtxTarget) -> str:
    """The PTX of an LLVM module.

    Raises TargetError where LLVM dies or takes more than SECONDS, or was built without NVPTX; VerificationError where
    it rejects the text.
    """
    status, ptx, messages = _in_child(text, target.sm)
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


def _in_child(text: str, sm: str) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of a child that compiles `text`."""
    command = [sys.executable, "-m", ptx_child.__name__, sm]
    package = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(x for x in (package, os.environ.get("PYTHONPATH")) if x)
    try:
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=SECONDS, check=False,
            env={**os.environ, "PYTHONPATH": path})
    except subprocess.TimeoutExpired:
        raise TargetError(f"LLVM did not finish the PTX in {SECONDS:g} s") from None
    except OSError as error:
        raise TargetError(f"the compiler of PTX can't be started: {error.strerror or error}") from None
    return done.returncode, done.stdout, done.stderr

"""What LLVM text may contain so that LLVM's NVPTX back end can select it.

LLVM ends the process on an operation that the back end has no instruction for, so everything is checked before: an
operation or intrinsic that is not listed here, or not for the architecture and PTX version at hand, is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tcp_eqsat.codegen.target import PtxTarget
from tcp_eqsat.errors import TargetError

OPERATIONS = frozenset({
    "add", "sub", "mul", "sdiv", "udiv", "urem", "shl", "lshr", "ashr", "and", "or", "xor", "icmp", "select",
    "fadd", "fsub", "fmul", "fdiv", "fneg", "fcmp", "zext", "sext", "trunc", "fpext", "fptrunc", "sitofp", "uitofp",
    "fptosi", "fptoui", "bitcast", "addrspacecast", "getelementptr", "load", "store", "phi", "br", "ret", "call",
})
"""Not among them: frem, which the back end expands to something that is not exact."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """The oldest architecture (its number) and PTX version that have an intrinsic."""

    capability: int
    ptx: tuple[int, int]

    def holds(self, target: PtxTarget) -> bool:
        return target.capability >= self.capability and target.ptx >= self.ptx


_ALWAYS = Requirement(20, (1, 4))
_FLOAT = ("fma", "sqrt", "fabs", "floor", "ceil", "trunc", "roundeven", "copysign")
_INTEGER = ("abs", "ctlz", "ctpop", "smax", "smin", "umax", "umin")
INTRINSICS: Mapping[str, Requirement] = {
    **{f"llvm.{name}.{dtype}": _ALWAYS for name in _FLOAT for dtype in ("f32", "f64")},
    **{f"llvm.{name}.{dtype}": _ALWAYS for name in _INTEGER for dtype in ("i8", "i16", "i32", "i64")},
    "llvm.nvvm.read.ptx.sreg.tid.x": _ALWAYS,
    "llvm.nvvm.read.ptx.sreg.ctaid.x": _ALWAYS,
    "llvm.nvvm.barrier0": _ALWAYS,
    "llvm.nvvm.shfl.sync.bfly.i32": Requirement(30, (6, 0)),
}
OWN = "tcp."
"""What the names of functions that the module itself defines start with."""

_OPERATION = re.compile(r"^\s+(?:%[\w.]+ = )?([a-z]+)\b")
_CALLEE = re.compile(r"\bcall [^@]*@([\w.]+)\(")


def check_legal(lines: Iterable[str], target: PtxTarget, kernel: str, what: str) -> None:
    """Raises TargetError where a line of a function's body is not listed above.

    `kernel` and `what` (an operation of the program, or a part of the code) say in the message who asked for it.
    """
    for text in lines:
        for line in text.split("\n"):
            obstacle = _obstacle(line, target)
            if obstacle:
                raise TargetError(f"kernel {kernel}: {what} can't be compiled for {target}, which has no {obstacle}")


def _obstacle(line: str, target: PtxTarget) -> str:
    """What in the line is not allowed; empty if nothing."""
    found = _OPERATION.match(line)
    if found is None:
        return ""
    operation = found.group(1)
    if operation not in OPERATIONS:
        return operation
    if operation != "call":
        return ""
    callee = _CALLEE.search(line)
    if callee is None:
        return "indirect call"
    name = callee.group(1)
    if name.startswith(OWN):
        return ""
    requirement = INTRINSICS.get(name)
    return "" if requirement is not None and requirement.holds(target) else name

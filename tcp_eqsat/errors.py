"""Every error a user can cause: what was required, what was found, and where."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a source text. Lines and columns count from 1."""

    file: str
    line: int
    column: int
    length: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class TcpError(Exception):
    """The root of all errors raised on purpose. `where` names the place when there is one."""

    def __init__(self, message: str, where: Location | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.where = where

    def at(self, where: Location | None) -> TcpError:
        """This error, placed at `where` unless it has a place already."""
        if self.where is None:
            self.where = where
        return self

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


class ParseError(TcpError):
    """A text does not follow its grammar."""


class UnknownName(TcpError):
    """A name (operation, dialect, function, value, option) that nothing defines."""


class TypeMismatch(TcpError):
    """A dtype, rank or number of values is not what an operation or a call requires."""


class ShapeMismatch(TypeMismatch):
    """Sizes contradict each other, or a size is outside the range of its dim."""


class VerificationError(TcpError):
    """A program, plan or loop nest breaks an invariant of its form."""


class ArgumentError(TcpError):
    """A call, option or setting that can't be used as given."""


class RuleError(TcpError):
    """A rewrite rule that is malformed or unsound."""


class TargetError(TcpError):
    """A machine, processor or instruction set that is missing or can't do what is asked."""


class LimitError(TcpError):
    """A budget ran out where no correct result could be given."""

"""Rule files: a person's own Python file that declares rules, read into a RuleSet."""

from __future__ import annotations

import os
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from tcp_eqsat.errors import Location, RuleError, TcpError
from tcp_eqsat.rules.check import Rejected
from tcp_eqsat.rules.rule import Rule, RuleSet


def load(path: str | os.PathLike[str]) -> RuleSet:
    """The rules of a Python file: every Rule and RuleSet that its top level names, in order.

    The file is run. Raises RuleError, with the line, where it can't be read or run, where it declares no rule, and
    where two rules have one name.
    """
    return RuleSet(_rules_of(_run(Path(path)), os.fspath(path)))


def load_rejected(path: str | os.PathLike[str]) -> tuple[Rejected, ...]:
    """The rules that a file says must be refused: every `rejected(...)` that its top level names."""
    found = []
    for value in vars(_run(Path(path))).values():
        members = value if isinstance(value, (tuple, list)) else (value,)
        found += [each for each in members if isinstance(each, Rejected)]
    return tuple(found)


def _run(path: Path) -> ModuleType:
    file = os.fspath(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise RuleError(f"can't read {file}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise RuleError(f"{file} is not UTF-8 text") from None
    module = ModuleType(path.stem)
    module.__file__ = file
    try:
        exec(compile(text, file, "exec"), vars(module))
    except SyntaxError as error:
        where = Location(file, error.lineno or 1, error.offset or 1)
        raise RuleError(f"not Python: {error.msg}", where) from None
    except TcpError as error:
        raise RuleError(error.message, error.where or _line(error, file)) from None
    except Exception as error:
        raise RuleError(f"{type(error).__name__}: {error}", _line(error, file)) from None
    return module


def _line(error: BaseException, file: str) -> Location:
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return Location(file, (lines[-1] if lines else 1) or 1, 1)


def _rules_of(module: ModuleType, file: str) -> list[Rule]:
    found: list[Rule] = []
    for value in vars(module).values():
        found += _own(value, file)
    if not found:
        raise RuleError(f"{file} declares no rule; name one at its top level: mine = rule(...)")
    return list(dict.fromkeys(found))


def _own(value: Any, file: str) -> list[Rule]:
    """The rules in a value that the file itself declares: what it only imports is not its own."""
    if isinstance(value, Rule):
        members: list[Any] = [value]
    else:
        members = list(value) if isinstance(value, (RuleSet, tuple, list)) else []
    return [each for each in members
            if isinstance(each, Rule) and each.where is not None and each.where.file == file]

"""Errors as people read them: the message, the place, the line with the fault underlined, and the
notes.

The first line of an error's message is the headline; further lines are notes and stand below the
picture.
"""

from __future__ import annotations

from tcp_eqsat.errors import Location, TcpError

_WIDEST = 160
_LONGEST = 1000


def render(error: TcpError, source_text: str | None = None) -> str:
    """`error` in plain text of several lines; `source_text` is what its place refers to, if at
    hand."""
    headline, *notes = (
        line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..." for line in error.message.split("\n"))
    lines = [f"error: {headline}"]
    if error.where is not None:
        lines.append(f"  --> {error.where}")
        if source_text is not None:
            lines += _picture(error.where, source_text)
    return "\n".join([*lines, *(f"  {note}" for note in notes)])


def _picture(where: Location, text: str) -> list[str]:
    """The line of `where` and a line of carets below the characters meant; nothing when there
    is no such line."""
    source_lines = text.split("\n")
    if not 1 <= where.line <= len(source_lines):
        return []
    line = source_lines[where.line - 1].rstrip("\r")
    start = min(where.column - 1, len(line))
    length = max(1, min(where.length, len(line) - start))
    line, start, length = _window(line, start, length)
    margin = f"{where.line:>4} | "
    blank = "".join("\t" if character == "\t" else " " for character in line[:start])
    return [margin + line, " " * (len(margin) - 2) + "| " + blank + "^" * length]


def _window(line: str, start: int, length: int) -> tuple[str, int, int]:
    """The part of a long line around the fault."""
    if len(line) <= _WIDEST:
        return line, start, length
    first = max(0, min(start - _WIDEST // 4, len(line) - _WIDEST))
    last = min(len(line), first + _WIDEST)
    before, after = ("..." if first else ""), ("..." if last < len(line) else "")
    start = start - first + len(before)
    return before + line[first:last] + after, start, min(length, _WIDEST - (start - len(before)))

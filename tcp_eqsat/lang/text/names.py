"""The names of indices in text: i, j, k, ... for labels 0, 1, 2, ..."""

from __future__ import annotations

_LETTERS = "ijklmnopqrst"


def index_name(label: int) -> str:
    """The name of a label; "0" for -1, the constant index."""
    return "0" if label < 0 else _LETTERS[label] if label < len(_LETTERS) else f"i{label}"


def index_order(name: str) -> tuple[int, str]:
    """A sort key that puts names in the order of their labels; other names follow, alphabetically."""
    if name in _LETTERS:
        return _LETTERS.index(name), ""
    return (int(name[1:]), "") if name[0] == "i" and name[1:].isdigit() else (1 << 30, name)

"""Names in text: of indices (i, j, k, ... for labels 0, 1, 2, ...), and of values, functions and composites."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from tcp_eqsat.lang.op import region_fields
from tcp_eqsat.lang.ops.attributes import IfAttributes

_BRANCHES: dict[type, tuple[str, ...]] = {IfAttributes: ("then", "else")}
_PLAIN = re.compile(r"[A-Za-z0-9_.]+")
_LETTERS = "ijklmnopqrst"


def index_name(label: int) -> str:
    """The name of a label; "0" for -1, the constant index."""
    return "0" if label < 0 else _LETTERS[label] if label < len(_LETTERS) else f"i{label}"


def index_order(name: str) -> tuple[int, str]:
    """A sort key that puts names in the order of their labels; other names follow, alphabetically."""
    if len(name) == 1 and name in _LETTERS:
        return _LETTERS.index(name), ""
    return (int(name[1:]), "") if name[0] == "i" and name[1:].isdigit() else (1 << 30, name)


def is_plain(name: str) -> bool:
    """Whether a name stands after % or @ without quotes."""
    return _PLAIN.fullmatch(name) is not None


def quoted(name: str) -> str:
    """A name as it stands after % or @: in quotes, with JSON's escapes, where it is no plain word."""
    return name if is_plain(name) else json.dumps(name, ensure_ascii=False)


def unquoted(text: str) -> str:
    """The name that `quoted` spells; raises ValueError for an unknown escape."""
    return str(json.loads(text)) if text[0] == '"' else text


def region_labels(attributes: type) -> Iterator[tuple[str, tuple[str, ...] | None]]:
    """For each field of an attribute class that holds regions its name, and the words that stand before its regions.

    None: the word `branch`, any number of times.
    """
    for name in region_fields(attributes):
        yield name, (name,) if name != "regions" else _BRANCHES.get(attributes)

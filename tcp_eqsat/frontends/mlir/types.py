"""The text of a type, read once for each distinct text."""

from __future__ import annotations

import functools
import re

from tcp_eqsat.errors import ParseError
from tcp_eqsat.frontends.mlir.tree import ElementType, OpaqueType, SyntaxType, TensorText

ELEMENT = re.compile(r"(?:[su]?i[1-9]\d{0,5}|b?f\d\w*|tf32|index|none)\Z", re.ASCII)
_SHAPE = re.compile(r"(?:(?:\?|\d+)x)*+", re.ASCII)
_NAMED = re.compile(r"(!?[A-Za-z_][\w$.]*+)(?:<(.*)>)?+\Z", re.ASCII | re.DOTALL)
_BUILTIN = frozenset({"tensor", "vector", "memref", "complex", "tuple", "array"})
_LARGEST = 2**63 - 1
_DEEPEST = 16
_MOST_AXES = 32


@functools.lru_cache(maxsize=4096)
def parse_type(text: str, depth: int = 0) -> SyntaxType:
    """The type that `text` spells. Function types are the parser's: they are several tokens.
    Raises ParseError without a place."""
    if depth > _DEEPEST:
        raise ParseError(f"types are nested deeper than {_DEEPEST} levels")
    if ELEMENT.match(text):
        return ElementType(text)
    match = _NAMED.match(text)
    if not match:
        raise ParseError(f"expected a type, got {text[:40]!r}")
    name, body = match.groups()
    if name == "tensor" and body is not None:
        return _tensor(body, depth)
    if name[0] == "!" or (name in _BUILTIN and body is not None):
        return OpaqueType(name.removeprefix("!"), body or "")
    raise ParseError(f"unknown type {text[:40]!r}")


def _tensor(body: str, depth: int) -> TensorText:
    sizes = _SHAPE.match(body)
    assert sizes is not None, "the expression matches the empty text"
    element, encoding = _split_encoding(body[sizes.end() :].strip())
    return TensorText(parse_sizes(sizes[0]), parse_type(element, depth + 1), encoding)


def _split_encoding(text: str) -> tuple[str, str | None]:
    """`f32, #encoding` at its first comma outside brackets."""
    level = 0
    for index, character in enumerate(text):
        if character == "," and not level:
            return text[:index].rstrip(), text[index + 1 :].strip()
        level += (character in "<([{") - (character in ">)]}")
    return text, None


def parse_sizes(text: str) -> tuple[int | None, ...]:
    """`?x16x` as (None, 16). Raises ParseError for too many or a size over 2**63 - 1."""
    sizes: list[int | None] = []
    for part in text.split("x")[:-1]:
        if part == "?":
            sizes.append(None)
            continue
        if not part.isdecimal():
            raise ParseError(f"expected a size, got {part[:40]!r}")
        if len(part) > 19 or int(part) > _LARGEST:
            raise ParseError(f"size {part[:24]} is over the largest, {_LARGEST}")
        sizes.append(int(part))
    if len(sizes) > _MOST_AXES:
        raise ParseError(f"at most {_MOST_AXES} sizes are supported, got {len(sizes)}")
    return tuple(sizes)

"""Reading a tensor type such as `f32[b, 16]`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tcp_eqsat.errors import Location, ParseError
from tcp_eqsat.lang.dims import Dim, parse_size
from tcp_eqsat.lang.quantized import parse_quantized
from tcp_eqsat.lang.types import TensorType, dtype_named


def parse_type(
    text: str, symbols: Mapping[str, Dim] | Callable[[str], Dim], where: Location | None = None
) -> TensorType:
    """The tensor type that `text` spells; sizes are ints or expressions over symbols.

    Raises ParseError for malformed text and UnknownName for an unknown dtype or symbol.
    """
    head, bracket, rest = text.strip().partition("[")
    if not bracket or not rest.endswith("]"):
        raise ParseError(f"a tensor type is written like f32[b, 16], got {text.strip()!r}", where)
    name = head.strip()
    dtype = parse_quantized(name.removeprefix("quant")) if name.startswith("quant(") else dtype_named(name)
    return TensorType(dtype, tuple(parse_size(part, symbols, where) for part in split_sizes(rest[:-1])))


def split_sizes(text: str) -> tuple[str, ...]:
    """The comma-separated parts of `text`, commas in parentheses left alone; no parts of blank text."""
    parts: list[str] = []
    depth, start = 0, 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    parts.append(text[start:])
    return () if not text.strip() else tuple(parts)

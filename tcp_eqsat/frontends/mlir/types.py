"""The text of a type, read once for each distinct text."""

from __future__ import annotations

import functools
import re
import struct

from tcp_eqsat.errors import ParseError
from tcp_eqsat.frontends.mlir.tree import (
    ComplexType,
    ElementType,
    OpaqueType,
    QuantizedType,
    SyntaxType,
    TensorText,
    TupleText,
)

ELEMENT = re.compile(r"(?:[su]?i[1-9]\d{0,5}|b?f\d\w*|tf32|index|none)\Z", re.ASCII)
_SHAPE = re.compile(r"(?:(?:\?|\d+)x)*+", re.ASCII)
_NAMED = re.compile(r"(!?[A-Za-z_][\w$.]*+)(?:<(.*)>)?+\Z", re.ASCII | re.DOTALL)
_BUILTIN = frozenset({"tensor", "vector", "memref", "array"})
_NUMBER = r"[-+]?+(?:\d++(?:\.\d*+)?+(?:[eE][-+]?+\d++)?+|0x[0-9A-Fa-f]++)"
_QUANTIZED = re.compile(
    rf"""\s*+(?P<storage>[su]?i\d{{1,3}}+|f8\w*+)\s*+(?:<\s*+(?P<low>-?\d{{1,18}}+)\s*+:\s*+(?P<high>-?\d{{1,18}}+)\s*+>)?+
    \s*+:\s*+(?P<expressed>b?f\d++)\s*+
    (?: ,\s*+(?P<one>{_NUMBER}(?:\s*+:\s*+-?\d++)?+)
      | :\s*+(?P<axis>\d{{1,4}}+)\s*+,\s*+\{{(?P<many>[^{{}}]*+)\}} )\s*+\Z""",
    re.VERBOSE | re.ASCII,
)
_SCALE = re.compile(rf"\s*+({_NUMBER})\s*+(?::\s*+(-?\d++))?+\s*+\Z", re.ASCII)
_LARGEST = 2**63 - 1
_DEEPEST = 16
_LONGEST_SCALE = 200
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
    if name == "complex" and body is not None:
        element = parse_type(body.strip(), depth + 1)
        if not isinstance(element, ElementType) or not element.name.startswith("f"):
            raise ParseError(f"a complex type requires a float type as its parts, got {element}")
        return ComplexType(element)
    if name == "tuple" and body is not None:
        parts = split_top(body) if body.strip() else []
        return TupleText(tuple(parse_type(part.strip(), depth + 1) for part in parts))
    if name == "!quant.uniform" and body is not None:
        return _quantized(body)
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
    first, *rest = split_top(text, 1)
    return first.rstrip(), rest[0].strip() if rest else None


def split_top(text: str, most: int = -1) -> list[str]:
    """`text` split at commas outside brackets, at `most` of them (-1: all)."""
    parts: list[str] = []
    level = start = 0
    for index, character in enumerate(text):
        if character == "," and not level and len(parts) != most:
            parts.append(text[start:index])
            start = index + 1
        elif character != ">" or text[index - 1 : index] != "-":
            level += (character in "<([{") - (character in ">)]}")
    return [*parts, text[start:]]


def _quantized(body: str) -> QuantizedType:
    match = _QUANTIZED.match(body)
    if match is None:
        raise ParseError(
            "a quantized type is written !quant.uniform<i8:f32, scale:zero> or "
            f"!quant.uniform<i8:f32:axis, {{scale:zero, ...}}>, got {body[:60]!r}"
        )
    scales: list[float] = []
    zeros: list[int] = []
    for text in [match["one"]] if match["one"] else match["many"].split(","):
        found = _SCALE.match(text)
        if found is None or len(text) > _LONGEST_SCALE:
            raise ParseError(f"expected a scale or scale:zero of a quantized type, got {text[:40]!r}")
        scales.append(_scale(found[1]))
        zeros.append(int(found[2] or 0))
    storage = match["storage"]
    bounds = (int(match["low"]), int(match["high"])) if match["low"] else _storage_bounds(storage)
    axis = int(match["axis"]) if match["axis"] else None
    return QuantizedType(
        ElementType(storage), bounds, ElementType(match["expressed"]), axis, tuple(scales),
        tuple(zeros), f"!quant.uniform<{body}>",
    )


def _scale(text: str) -> float:
    """A number, or the bits of an f64 in hexadecimal."""
    if "x" not in text:
        return float(text)
    if len(text) > 18:
        raise ParseError(f"expected the 64 bits of a scale, got {text[:40]!r}")
    (value,) = struct.unpack("<d", int(text, 16).to_bytes(8, "little"))
    return float(value)


def _storage_bounds(storage: str) -> tuple[int, int]:
    """What integers of a storage type hold; floats have no bounds of their own."""
    if storage.startswith("f"):
        return (0, 0)
    bits = int(storage.lstrip("sui"))
    return (0, 2**bits - 1) if storage.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


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

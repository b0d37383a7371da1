"""The values of literals: numbers, dense tensors (nested lists, splats, hexadecimal blobs) and
integer vectors.

A literal is decoded when somebody asks, with NumPy doing the work for each element; nothing is ever
as large as its type claims unless its text is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np

from tcp_eqsat.errors import ParseError, TypeMismatch
from tcp_eqsat.frontends.mlir.lexer import Source
from tcp_eqsat.frontends.mlir.tree import (
    Attribute,
    Dense,
    DenseArray,
    ElementType,
    Number,
    SyntaxType,
)

_NUMBER = re.compile(
    r"-?+(?:0x[0-9A-Fa-f]++|\d++(?:\.\d*+(?:[eE][-+]?+\d++)?+)?+)|true|false", re.ASCII
)
_SPACE = str.maketrans("", "", " \t\r\n")
_JUNK = re.compile(r"[^\[\],\s0]")
_BLOB = re.compile(r'"0x([0-9A-Fa-f]*+)"\Z', re.ASCII)
_UNUSUAL = re.compile(r"[a-df-zA-DF-Z]")  # hexadecimal, true, false
_PLAIN_DIGITS = 20
_MOST_DIGITS = 400
_LONGEST_VECTOR = 4096

NUMPY_DTYPES = {
    "i1": np.dtype(bool),
    **{f"{sign}i{bits}": np.dtype(f"int{bits}") for bits in (8, 16, 32, 64) for sign in ("", "s")},
    **{f"ui{bits}": np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64)},
    "index": np.dtype(np.int64),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}


def decode(literal: Dense, source: Source) -> np.ndarray:
    """The elements in the stated shape, or as a rank-0 array when the literal is one element
    for all (a splat). Raises ParseError where the text is no literal of its type, TypeMismatch
    for an element type without values."""
    dtype = numpy_dtype(literal.type.element, source, literal.offset)
    shape = _known(literal.type.shape)
    text = literal.text
    if text.lstrip().startswith('"'):
        return _blob(literal, shape, dtype, source)
    count = math.prod(shape)
    skeleton, found = _NUMBER.subn("0", text)
    skeleton = skeleton.translate(_SPACE)
    if skeleton == "0":
        return _numbers(_NUMBER.findall(text), dtype, literal, source).reshape(())
    if count and found == count and skeleton == _skeleton(shape):
        return _numbers(_NUMBER.findall(text), dtype, literal, source).reshape(shape)
    if not count and not found and not skeleton.strip("[],"):
        return _empty(shape, dtype, literal, source)
    raise _misshapen(literal, source, found, count)


def numpy_dtype(element: SyntaxType, source: Source, offset: int) -> np.dtype:
    """The NumPy dtype of an element type; raises TypeMismatch at `offset`."""
    dtype = NUMPY_DTYPES.get(element.name) if isinstance(element, ElementType) else None
    if dtype is None:
        raise TypeMismatch(
            f"element type {element} is not supported; supported are {', '.join(NUMPY_DTYPES)}",
            source.location(offset),
        )
    return dtype


def number(literal: Number, source: Source) -> int | float | bool:
    """The value of `1 : i32`, read by its type; without one, i64 or f64."""
    element = literal.type or ElementType("f64" if "." in literal.text else "i64")
    dtype = numpy_dtype(element, source, literal.offset)
    return _number(literal.text, dtype, source, literal.offset)


def integers(attribute: Attribute, source: Source, offset: int) -> tuple[int, ...]:
    """The integers of `dense<[0, 1]> : tensor<2xi64>`, `array<i64: 0, 1>`, `[0, 1]` or a lone
    number. Raises ParseError at `offset` for any other attribute."""
    match attribute:
        case Dense() if (
            len(attribute.type.shape) == 1 and (attribute.type.shape[0] or 0) <= _LONGEST_VECTOR
        ):
            values = np.broadcast_to(decode(attribute, source), _known(attribute.type.shape))
            if values.dtype.kind in "iu":
                return tuple(values.tolist())
        case DenseArray():
            dtype = numpy_dtype(attribute.element, source, attribute.offset)
            parts = attribute.text.split(",") if attribute.text.strip() else []
            if dtype.kind in "iu":
                return tuple(
                    int(_number(part.strip(), dtype, source, attribute.offset)) for part in parts
                )
        case Number() if "." not in attribute.text:
            return (int(number(attribute, source)),)
        case tuple() if all(
            isinstance(item, Number) and "." not in item.text for item in attribute
        ):
            return tuple(int(number(item, source)) for item in attribute)
    raise ParseError("expected a vector of integers", source.location(offset))


def _known(shape: Sequence[int | None]) -> tuple[int, ...]:
    return tuple(size for size in shape if size is not None)


def _skeleton(shape: tuple[int, ...]) -> str:
    """The literal of this shape with 0 for each element and no spaces."""
    text = "0"
    for size in reversed(shape):
        text = f"[{','.join([text] * size)}]"
    return text


def _empty(shape: tuple[int, ...], dtype: np.dtype, literal: Dense, source: Source) -> np.ndarray:
    try:
        return np.zeros(shape, dtype)
    except (ValueError, MemoryError):
        raise _refusal(
            literal, source, f"an empty tensor of type {literal.type} is too large"
        ) from None


def _misshapen(literal: Dense, source: Source, found: int, count: int) -> ParseError:
    junk = _JUNK.search(_NUMBER.sub(lambda match: "0" * len(match[0]), literal.text))
    if junk:
        where = source.location(literal.offset + junk.start())
        return ParseError(f"unexpected {junk[0]!r} in the literal of a {literal.type}", where)
    got = f"got {found}" if found != count else "got lists of other lengths"
    return _refusal(
        literal,
        source,
        f"a literal of {literal.type} requires {count} elements in nested lists, {got}",
    )


def _refusal(literal: Dense, source: Source, message: str) -> ParseError:
    width = len(literal.text.partition("\n")[0])
    return ParseError(message, source.location(literal.offset, width))


def _numbers(texts: list[str], dtype: np.dtype, literal: Dense, source: Source) -> np.ndarray:
    """All elements: at once where they are plain numbers in range, else one by one."""
    if len(texts) > 1 and not _UNUSUAL.search(literal.text):
        if dtype.kind == "f":
            with np.errstate(over="ignore"):
                values = np.array(list(map(float, texts))).astype(dtype)
            if np.isfinite(values).all():
                return values
        elif (
            dtype.kind in "iu" and "." not in literal.text and max(map(len, texts)) <= _PLAIN_DIGITS
        ):
            numbers = list(map(int, texts))
            info = np.iinfo(dtype)
            if info.min <= min(numbers) and max(numbers) <= info.max:
                return np.array(numbers, dtype)
    return np.array([_number(text, dtype, source, literal.offset) for text in texts], dtype)


def _number(text: str, dtype: np.dtype, source: Source, offset: int) -> int | float | bool:
    if not _NUMBER.fullmatch(text):
        raise ParseError(f"expected a number, got {text[:40]!r}", source.location(offset))
    if dtype.kind == "b" or text in ("true", "false"):
        if dtype.kind == "b" and text in ("true", "false", "0", "1", "-1"):
            return text not in ("false", "0")
    elif dtype.kind == "f":
        value = _float(text, dtype)
        if value is not None:
            return value
    elif "." not in text and len(text) <= _MOST_DIGITS:
        value = int(text, 0) if "x" in text else int(text)
        least = -(1 << (8 * dtype.itemsize - 1)) if dtype.kind == "i" else 0
        bound = 1 << 8 * dtype.itemsize  # without a sign in the type, all bits may be spelt
        if least <= value < bound:
            return int(np.array(value % bound, f"u{dtype.itemsize}").view(dtype))
    raise ParseError(f"{text[:40]} is not a value of {_mlir_name(dtype)}", source.location(offset))


def _float(text: str, dtype: np.dtype) -> float | None:
    """A decimal number, or the bits of a float in hexadecimal; None when it is neither or out
    of range."""
    if "x" in text:
        bits = int(text, 16)
        if text[0] == "-" or bits >= 1 << (8 * dtype.itemsize):
            return None
        return float(np.array(bits, f"u{dtype.itemsize}").view(dtype))
    if len(text) > _MOST_DIGITS:
        return None
    with np.errstate(over="ignore"):
        value = np.float64(float(text)).astype(dtype)
    return float(value) if np.isfinite(value) else None


def _mlir_name(dtype: np.dtype) -> str:
    return next(name for name, known in NUMPY_DTYPES.items() if known == dtype)


def _blob(literal: Dense, shape: tuple[int, ...], dtype: np.dtype, source: Source) -> np.ndarray:
    """`"0x..."`: the little-endian bytes of all elements, or of one for all."""
    match = _BLOB.match(literal.text.strip())
    if match is None or len(match[1]) % 2 or dtype.kind == "b":
        raise _refusal(literal, source, f"expected numbers or hexadecimal bytes of {literal.type}")
    count = math.prod(shape)
    size = len(match[1])
    if size not in (2 * dtype.itemsize, 2 * dtype.itemsize * count):
        raise _refusal(
            literal,
            source,
            f"a literal of {literal.type} requires {2 * dtype.itemsize * count} "
            f"hexadecimal digits, got {size}",
        )
    values = np.frombuffer(bytes.fromhex(match[1]), dtype.newbyteorder("<")).astype(dtype)
    return values.reshape(shape if len(values) == count else ())

"""The values of literals: numbers, dense tensors (nested lists, splats, hexadecimal blobs) and
vectors of integers.

A literal is decoded when somebody asks, with NumPy doing the work for each element; nothing is ever
as large as its type claims unless its text is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tcp_eqsat.errors import ParseError, TypeMismatch
from tcp_eqsat.frontends.mlir.elements import ELEMENT_DTYPES, element_text
from tcp_eqsat.frontends.mlir.lexer import Source
from tcp_eqsat.frontends.mlir.tree import (
    Attribute,
    Dense,
    DenseArray,
    DenseResource,
    ElementType,
    Number,
    QuantizedType,
    SyntaxType,
)
from tcp_eqsat.lang.narrow import convert_array, has_nan, is_beyond
from tcp_eqsat.lang.types import BOOL, F8E8M0FNU, F32, F64, DType, Kind

_NUMBER = re.compile(
    r"-?+(?:0x[0-9A-Fa-f]++|\d++(?:\.\d*+(?:[eE][-+]?+\d++)?+)?+)|true|false", re.ASCII
)
_SPACE = str.maketrans("", "", " \t\r\n")
_JUNK = re.compile(r"[^\[\](),\s0]")
_UNUSUAL = re.compile(r"[a-df-zA-DF-Z]")  # hexadecimal, true, false
_PLAIN_DIGITS = 20
_MOST_DIGITS = 400
_LONGEST_VECTOR = 4096
_ALIGNMENT_BYTES = 4  # how a resource's blob starts

Resources = Mapping[str, Dense]


def decode(literal: Dense | DenseResource, source: Source, resources: Resources | None = None) -> np.ndarray:
    """The elements in the stated shape, or as a rank-0 array when the literal is one element
    for all (a splat). Raises ParseError where the text is no literal of its type, TypeMismatch
    for an element type without values."""
    dtype = dtype_of_element(literal.type.element, source, literal.offset)
    shape = _known(literal.type.shape)
    if isinstance(literal, DenseResource):
        return _resource(literal, shape, dtype, source, resources or {})
    text = literal.text
    if text.lstrip().startswith('"'):
        return _blob(literal, shape, dtype, source)
    count = math.prod(shape)
    each = 2 if dtype.is_complex else 1
    element = "(0,0)" if dtype.is_complex else "0"
    skeleton, found = _NUMBER.subn("0", text)
    skeleton = skeleton.translate(_SPACE)
    if skeleton == element or (skeleton == "0" and each == 2):
        numbers = _numbers(_NUMBER.findall(text), dtype, literal, source)
        return (numbers if len(numbers) == 1 else _pairs(numbers, dtype)).reshape(())
    if count and found == each * count and skeleton == _skeleton(shape, element):
        numbers = _numbers(_NUMBER.findall(text), dtype, literal, source)
        return (_pairs(numbers, dtype) if each == 2 else numbers).reshape(shape)
    if not count and not found and not skeleton.strip("[],"):
        return _empty(shape, dtype, literal, source)
    raise _misshapen(literal, source, found // each, count)


def dtype_of_element(element: SyntaxType, source: Source, offset: int) -> DType:
    """The dtype of an element type, of what is stored where it is quantized; raises TypeMismatch at `offset`."""
    if isinstance(element, QuantizedType):
        element = element.storage
    dtype = ELEMENT_DTYPES.get(str(element))
    if dtype is None:
        raise TypeMismatch(
            f"element type {element} is not supported; supported are {', '.join(ELEMENT_DTYPES)}",
            source.location(offset),
        )
    return dtype


def number(literal: Number, source: Source) -> int | float | bool:
    """The value of `1 : i32`, read by its type; without one, i64 or f64."""
    element = literal.type or ElementType("f64" if "." in literal.text else "i64")
    dtype = dtype_of_element(element, source, literal.offset)
    value = _number(literal.text, dtype, source, literal.offset)
    return value.item() if isinstance(value, np.generic) else value


def integers(attribute: Attribute, source: Source, offset: int) -> tuple[int, ...]:
    """The integers of `dense<[0, 1]> : tensor<2xi64>`, `array<i64: 0, 1>`, `[0, 1]`, of lists of
    lists in order, or of a lone number; truth values are 0 and 1. Raises ParseError at `offset`
    for any other attribute."""
    match attribute:
        case Dense() if math.prod(_known(attribute.type.shape)) <= _LONGEST_VECTOR:
            values = np.broadcast_to(decode(attribute, source), _known(attribute.type.shape))
            if values.dtype.kind in "iub":
                return tuple(map(int, values.reshape(-1).tolist()))
        case DenseArray():
            dtype = dtype_of_element(attribute.element, source, attribute.offset)
            parts = attribute.text.split(",") if attribute.text.strip() else []
            if dtype.is_integer or dtype == BOOL:
                return tuple(
                    int(_number(part.strip(), dtype, source, attribute.offset)) for part in parts
                )
        case Number() if "." not in attribute.text:
            return (int(number(attribute, source)),)
        case bool():
            return (int(attribute),)
        case tuple() if type(attribute) is tuple:
            return tuple(n for item in attribute for n in integers(item, source, offset))
    raise ParseError("expected a vector of integers", source.location(offset))


def extents_of(attribute: Attribute) -> tuple[int, ...] | None:
    """The shape of a dense literal or of regular nested lists; None of anything else."""
    match attribute:
        case Dense():
            return _known(attribute.type.shape)
        case DenseArray():
            return (attribute.text.count(",") + 1 if attribute.text.strip() else 0,)
        case tuple() if type(attribute) is tuple:
            inner = {extents_of(item) if type(item) is tuple else () for item in attribute}
            return (len(attribute), *(inner.pop() or ())) if len(inner) == 1 else (len(attribute),)
    return None


def _known(shape: Sequence[int | None]) -> tuple[int, ...]:
    return tuple(size for size in shape if size is not None)


def _skeleton(shape: tuple[int, ...], element: str) -> str:
    """The literal of this shape with `element` for each element and no spaces."""
    text = element
    for size in reversed(shape):
        text = f"[{','.join([text] * size)}]"
    return text


def _pairs(numbers: np.ndarray, dtype: DType) -> np.ndarray:
    """Real and imaginary parts in turn as complex numbers."""
    return numbers.view(dtype.numpy)


def _empty(shape: tuple[int, ...], dtype: DType, literal: Dense, source: Source) -> np.ndarray:
    try:
        return np.zeros(shape, dtype.numpy)
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


def _refusal(literal: Dense | DenseResource, source: Source, message: str) -> ParseError:
    text = literal.text if isinstance(literal, Dense) else literal.key
    return ParseError(message, source.location(literal.offset, len(text.partition("\n")[0])))


def _part(dtype: DType) -> DType:
    """The dtype of the numbers that are spelt: of the parts of a complex number."""
    return {64: F32, 128: F64}[dtype.bits] if dtype.is_complex else dtype


def _numbers(texts: list[str], dtype: DType, literal: Dense, source: Source) -> np.ndarray:
    """All numbers, parts of complex ones in turn: at once where they are plain and in range, else
    one by one."""
    dtype = _part(dtype)
    if len(texts) > 1 and not _UNUSUAL.search(literal.text):
        if dtype.is_float:
            values = convert_array(np.array(list(map(float, texts))), dtype)
            if has_nan(dtype) and np.isfinite(values.astype(np.float64)).all():
                return values
        elif (
            dtype.is_integer and "." not in literal.text and max(map(len, texts)) <= _PLAIN_DIGITS
        ):
            numbers = list(map(int, texts))
            low, high = _range(dtype)
            if low <= min(numbers) and max(numbers) <= high:
                wide = np.array(numbers, np.uint64 if dtype.kind is Kind.UINT else np.int64)
                return wide.astype(dtype.numpy)
    found = [_number(text, dtype, source, literal.offset) for text in texts]
    return np.array(found, dtype.numpy)


def _range(dtype: DType) -> tuple[int, int]:
    if dtype.kind is Kind.UINT:
        return 0, (1 << dtype.bits) - 1
    return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1


def _number(text: str, dtype: DType, source: Source, offset: int) -> Any:
    """One number of a real dtype: a Python number, or a NumPy scalar where it is spelt by its bits."""
    if not _NUMBER.fullmatch(text):
        raise ParseError(f"expected a number, got {text[:40]!r}", source.location(offset))
    if dtype == BOOL or text in ("true", "false"):
        if dtype == BOOL and text in ("true", "false", "0", "1", "-1"):
            return text not in ("false", "0")
    elif dtype.is_float:
        value = _float(text, dtype)
        if value is not None:
            return value
    elif dtype.is_integer and "." not in text and len(text) <= _MOST_DIGITS:
        value = int(text, 0) if "x" in text else int(text)
        low, high = _range(dtype)
        if dtype.is_signed:  # without a sign in the type, all bits may be spelt
            high = (1 << dtype.bits) - 1
        if low <= value <= high:
            return value - (1 << dtype.bits) if value > _range(dtype)[1] else value
    raise ParseError(f"{text[:40]} is not a value of {element_text(dtype)}", source.location(offset))


def _float(text: str, dtype: DType) -> Any:
    """A decimal number, or the bits of a float in hexadecimal; None when it is neither or out
    of range."""
    if "x" in text:
        bits = int(text, 16)
        if text[0] == "-" or bits >= 1 << dtype.bits:
            return None
        return np.array(bits, f"u{dtype.bytes}").view(dtype.numpy)[()]
    if len(text) > _MOST_DIGITS:
        return None
    value = float(text)
    if dtype == F8E8M0FNU and value == 0:  # which has no zero
        value = 2.0**-127
    rounded = convert_array(np.float64(value), dtype)[()]
    return rounded if _keeps(value, float(rounded)) and not is_beyond(value, dtype) else None


def _keeps(value: float, rounded: float) -> bool:
    """Whether rounding to a dtype did not overflow."""
    return math.isfinite(value) and math.isfinite(rounded)


def _blob(literal: Dense, shape: tuple[int, ...], dtype: DType, source: Source) -> np.ndarray:
    """`"0x..."`: the little-endian bytes of all elements, or of one for all."""
    raw = _bytes_of(literal.text.strip())
    if raw is None:
        raise _refusal(literal, source, f"expected numbers or hexadecimal bytes of {literal.type}")
    return _elements(raw, literal, shape, dtype, source)


def _bytes_of(text: str) -> bytes | None:
    """The bytes of `"0x..."`, None of anything else."""
    if not text.startswith('"0x') or not text.endswith('"') or len(text) < 4:
        return None
    digits = text[3:-1]
    try:
        raw = bytes.fromhex(digits)
    except ValueError:
        return None
    return raw if 2 * len(raw) == len(digits) else None  # spaces between bytes are no digits


def _resource(
    literal: DenseResource, shape: tuple[int, ...], dtype: DType, source: Source, resources: Resources
) -> np.ndarray:
    blob = resources.get(literal.key)
    if blob is None:
        raise _refusal(literal, source, f"the text has no resource {literal.key!r}")
    raw = _bytes_of(blob.text)
    if raw is None or len(raw) < _ALIGNMENT_BYTES:
        raise _refusal(blob, source, "expected an alignment and bytes in hexadecimal")
    return _elements(memoryview(raw)[_ALIGNMENT_BYTES:], literal, shape, dtype, source)


def _elements(
    raw: bytes | memoryview, literal: Dense | DenseResource, shape: tuple[int, ...], dtype: DType, source: Source
) -> np.ndarray:
    count, size = math.prod(shape), len(raw)
    if dtype == BOOL:
        if size == -(-count // 8) and size != count:
            bits = np.unpackbits(np.frombuffer(raw, np.uint8), bitorder="little")
            return bits[:count].astype(bool).reshape(shape)
        if size in (1, count):
            values = np.frombuffer(raw, np.uint8) != 0
            return values.reshape(shape if size == count else ())
    elif size in (dtype.bytes, dtype.bytes * count):
        values = np.frombuffer(raw, dtype.numpy.newbyteorder("<")).astype(dtype.numpy, copy=False)
        return values.reshape(shape if size == dtype.bytes * count else ())
    raise _refusal(
        literal,
        source,
        f"a literal of {literal.type} requires {2 * dtype.bytes * count} hexadecimal digits, got {2 * size}",
    )


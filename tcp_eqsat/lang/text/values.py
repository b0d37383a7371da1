"""Reading what programs are made of: sizes, types, numbers, constants, scalar functions."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from tcp_eqsat.errors import LimitError, Location, ParseError, ShapeMismatch, TcpError, TypeMismatch, UnknownName
from tcp_eqsat.lang.dims import INT64_MAX, Dim, Size, parse_size, product, symbol
from tcp_eqsat.lang.op import check_sizes
from tcp_eqsat.lang.program import TensorData
from tcp_eqsat.lang.quantized import parse_quantized
from tcp_eqsat.lang.scalar import (
    ScalarExpr,
    ScalarFunction,
    apply,
    encode_number,
    find_scalar_op,
    literal,
)
from tcp_eqsat.lang.scalar import parameter as scalar_parameter
from tcp_eqsat.lang.text.tokens import Source, Token
from tcp_eqsat.lang.types import NAMED_DTYPES, DType, TensorType, TupleType, Type

MAX_DEPTH = 100  # of nested lists, scalar expressions and regions
_MAX_CONSTANT = 1 << 31  # bytes
_LONG_NUMBER = re.compile(r"\d{19,}")


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:30]}... ({len(text)} characters)"


class ValueReader:
    """Reads values that stand in a text, moving past them. Sizes mention the symbols read so far."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.symbols: dict[str, Dim] = {}

    def _integer(self) -> int:
        token = self.source.expect_kind("number", "an integer")
        try:
            number = int(token.text) if len(token.text) <= 20 else INT64_MAX + 1
        except ValueError:
            raise ParseError(
                f"an integer is required, got {token.text}", self.source.location(token.offset)) from None
        if abs(number) > INT64_MAX:
            raise ParseError(f"an integer below 2**63 is required, got {_shortened(token.text)}",
                             self.source.location(token.offset))
        return number

    def _lookup(self, name: str) -> Dim:
        if name not in self.symbols:
            self.symbols[name] = symbol(name)
        return self.symbols[name]

    def _size_tokens(self, *stops: str) -> tuple[Token, Token]:
        """The first and last token of a size, which ends before one of `stops` outside parentheses."""
        source = self.source
        first = last = source.token
        depth = 0
        while source.token.kind != "end" and not (depth == 0 and source.at(*stops)):
            depth += source.at("(") - source.at(")")
            last = source.next()
        if source.token is first:
            raise source.error(f"a size is required, got {first.text!r}")
        return first, last

    def _size_of(self, first: Token, last: Token) -> Size:
        place = self.source.location(first.offset)
        try:
            size = parse_size(self.source.between(first, last), self._lookup)
        except TcpError as error:
            error.where = place
            raise
        if any(int(n) > INT64_MAX for n in _LONG_NUMBER.findall(str(size))):
            raise ShapeMismatch(f"numbers in sizes must be below 2**63, got {_shortened(str(size))}", place)
        return size

    def _size(self, *stops: str) -> Size:
        source = self.source
        token = source.token
        if token.kind in ("number", "name") and source.tokens[source.position + 1].text in stops:
            if token.text.isdecimal() and len(token.text) < 19:
                source.position += 1
                return int(token.text)
            if token.kind == "name" and token.text not in ("min", "max"):
                source.position += 1
                return self._lookup(token.text)
        return self._size_of(*self._size_tokens(*stops))

    def _sizes(self) -> tuple[Size, ...]:
        """`[size, ...]`."""
        source = self.source
        source.expect("[")
        sizes: list[Size] = []
        while not source.at("]"):
            sizes.append(self._size(",", "]"))
            if not source.take(","):
                break
        source.expect("]")
        return tuple(sizes)

    def _tensor_type(self) -> TensorType:
        return TensorType(self._dtype(), self._sizes())

    def _dtype(self) -> DType:
        token = self.source.expect_kind("name", "a dtype")
        if token.text == "quant":
            return self._quantized()
        if token.text not in NAMED_DTYPES:
            raise UnknownName(f"unknown dtype {token.text!r}; known are {', '.join(NAMED_DTYPES)}",
                              self.source.location(token.offset, len(token.text)))
        return NAMED_DTYPES[token.text]

    def _quantized(self) -> DType:
        """What follows `quant` in `quant(i8:f32, 0.5:3)`."""
        source = self.source
        first = source.expect("(")
        while not source.at(")", "end of text"):
            source.next()
        last = source.expect(")")
        try:
            return parse_quantized(source.between(first, last))
        except TcpError as error:
            raise error.at(source.location(first.offset)) from None

    def _type(self) -> Type:
        if not self.source.at("("):
            return self._tensor_type()
        return TupleType(self._result_types())

    def _result_types(self) -> tuple[TensorType, ...]:
        source = self.source
        if not source.take("("):
            return (self._tensor_type(),)
        types: list[TensorType] = []
        while not source.at(")"):
            types.append(self._tensor_type())
            if not source.take(","):
                break
        source.expect(")")
        return tuple(types)

    def _truth(self) -> bool:
        token = self.source.expect_kind("name", "true or false")
        if token.text not in ("true", "false"):
            raise ParseError(f"true or false is required, got {token.text!r}", self.source.location_of(token))
        return token.text == "true"

    def _list(self, read: Callable[[], Any]) -> tuple[Any, ...]:
        source = self.source
        source.expect("[")
        items = []
        while not source.at("]"):
            items.append(read())
            if not source.take(","):
                break
        source.expect("]")
        return tuple(items)

    def _attribute(self, name: str, read: Callable[[], Any]) -> Any:
        self.source.expect(name)
        self.source.expect("=")
        return read()

    def _integers(self) -> tuple[int, ...]:
        return self._list(self._integer)

    def _peek_type(self) -> Type:
        """The type stated at the end of the operation, read ahead."""
        source, start = self.source, self.source.position
        source.expect(":")
        found = self._type()
        source.position = start
        return found

    def _peek_tensor(self) -> TensorType:
        found = self._peek_type()
        if not isinstance(found, TensorType):
            raise self.source.error(f"a tensor type is required, got {found}")
        return found

    def _data(self, stated: TensorType) -> TensorData:
        source = self.source
        shape = tuple(n for n in stated.shape if isinstance(n, int))
        dtype = stated.dtype.numpy
        check_sizes("constant", shape)
        count = product(shape)
        if not isinstance(count, int) or count * stated.dtype.bytes > _MAX_CONSTANT:
            raise source.error(f"a constant of at most {_MAX_CONSTANT} bytes is required, got {stated}", LimitError)
        if source.take("splat"):
            bits = self._number(stated.dtype)
            return TensorData(np.broadcast_to(np.frombuffer(bits, dtype)[0], shape))
        if source.take("base64"):
            token = source.expect_kind("string", "a string")
            try:
                raw = base64.b64decode(token.text[1:-1], validate=True)
                array = np.frombuffer(raw, dtype.newbyteorder("<")).reshape(shape)
            except (binascii.Error, ValueError):
                raise ParseError(f"base64 of the bytes of {stated} is required",
                                 source.location(token.offset)) from None
            return TensorData(array)
        flat: list[bytes] = []
        found = self._nested(stated.dtype, flat, 0)
        if found != shape and not (0 in shape and not flat):
            raise source.error(f"{stated} requires data of shape {list(shape)}, got {list(found)}")
        return TensorData(np.frombuffer(b"".join(flat), dtype).reshape(shape))

    def _nested(self, dtype: DType, flat: list[bytes], depth: int) -> tuple[int, ...]:
        source = self.source
        if depth > MAX_DEPTH:
            raise source.error(f"lists nested deeper than {MAX_DEPTH}")
        if not source.take("["):
            flat.append(self._number(dtype))
            return ()
        inner: tuple[int, ...] | None = None
        count = 0
        while not source.at("]"):
            found = self._nested(dtype, flat, depth + 1)
            if inner is not None and found != inner:
                raise source.error(f"rows of one shape are required, got {list(inner)} and {list(found)}")
            inner, count = found, count + 1
            if not source.take(","):
                break
        source.expect("]")
        return (count, *(inner or ()))

    def _number(self, dtype: DType) -> bytes:
        source = self.source
        if dtype.is_complex:
            source.expect("(")
            real = self._number(dtype.part)
            source.expect(",")
            imag = self._number(dtype.part)
            source.expect(")")
            return real + imag
        token = source.next()
        place = source.location(token.offset, len(token.text))
        if dtype.name == "bool":
            if token.text not in ("true", "false"):
                raise ParseError(f"true or false is required, got {token.text!r}", place)
            return encode_number(token.text == "true", dtype)
        text = token.text
        if token.kind == "name" and text in ("inf", "nan"):
            try:
                return encode_number(float(text) if dtype.is_float else int(text), dtype)
            except (ValueError, TypeMismatch):
                return self._not_a_number(text, dtype, place)
        if token.kind != "number":
            raise ParseError(f"a number of dtype {dtype} is required, got {text!r}", place)
        try:
            bits = encode_number(float(text) if dtype.is_float else int(text), dtype)
        except (ValueError, TypeMismatch):
            return self._not_a_number(text, dtype, place)
        if dtype.is_float and "inf" not in text and np.isinf(np.frombuffer(bits, dtype.numpy)[0]):
            raise ParseError(f"a number within {dtype} is required, got {_shortened(text)}", place)
        return bits

    def _not_a_number(self, text: str, dtype: DType, place: Location) -> bytes:
        raise ParseError(f"a number of dtype {dtype} is required, got {_shortened(text)!r}", place)

    def _scalar_function(self) -> ScalarFunction:
        source = self.source
        known: dict[str, ScalarExpr] = {}
        dtypes: list[DType] = []
        source.expect("(")
        while not source.at(")"):
            name = source.expect_kind("name", "a parameter").text
            source.expect(":")
            dtypes.append(self._dtype())
            known[name] = scalar_parameter(len(dtypes) - 1, dtypes[-1])
            if not source.take(","):
                break
        source.expect(")")
        source.expect("{")
        while True:
            ahead = source.tokens[min(source.position + 1, len(source.tokens) - 1)]
            if ahead.text == "=":
                name = source.expect_kind("name", "a name").text
                source.expect("=")
                known[name] = self._scalar(known, 0)
                source.expect(";")
            else:
                break
        result = self._scalar(known, 0)
        source.expect("}")
        return ScalarFunction(tuple(dtypes), result)

    def _scalar(self, known: dict[str, ScalarExpr], depth: int) -> ScalarExpr:
        source = self.source
        if depth > MAX_DEPTH:
            raise source.error(f"expressions nested deeper than {MAX_DEPTH}")
        token = source.expect_kind("name", "a scalar expression")
        place = source.location(token.offset, len(token.text))
        if token.text in known and not source.at("("):
            return known[token.text]
        if token.text in NAMED_DTYPES:
            dtype = NAMED_DTYPES[token.text]
            return literal(np.frombuffer(self._number(dtype), dtype.numpy)[0], dtype)
        if find_scalar_op(token.text) is None:
            raise UnknownName(f"unknown scalar operation or name {token.text!r}", place)
        source.expect("(")
        arguments: list[ScalarExpr] = []
        while not source.at(")"):
            arguments.append(self._scalar(known, depth + 1))
            if not source.take(","):
                break
        source.expect(")")
        try:
            return apply(token.text, *arguments)
        except TcpError as error:
            raise error.at(place) from None

"""Constructors of nodes that read bits otherwise: bitcasts that change the width, random bits from counters."""

from __future__ import annotations

from typing import Final

from tcp_eqsat.errors import ShapeMismatch, TypeMismatch
from tcp_eqsat.lang.dims import Size, divides, equal, product
from tcp_eqsat.lang.ops.builders import (
    broadcast_scalar,
    concatenate,
    iota,
    map_scalar,
    reduce_axes,
    reshape,
    size_value,
    slice_,
    splat,
    view,
)
from tcp_eqsat.lang.ops.complex_views import view_as_complex, view_as_real
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.scalar import scalar_op_named as _op
from tcp_eqsat.lang.types import BOOL, U8, U32, U64, DType, Shape, dtype_named


def _named(name: str, *operands: Node) -> Node:
    return map_scalar(_op(name), *operands)


def _constant(value: int, like: Node) -> Node:
    return splat(value, like.dtype, like.shape)


def _convert(x: Node, dtype: DType) -> Node:
    return x if x.dtype == dtype else _named(f"astype_{dtype}", x)


# Bitcasts


def bitcast(x: Node, dtype: DType) -> Node:
    """The bits of x as `dtype`. A narrower one gives a last axis of parts, the least significant first; a wider one
    takes the last axis, which must have as many elements as are joined.

    Raises TypeMismatch for bool and quantised dtypes, and for those of 6 bits, which no integer is as wide as (one
    is read as the other); ShapeMismatch for another last axis.
    """
    if BOOL in (x.dtype, dtype):
        raise TypeMismatch(f"bitcast requires numbers, got {x.type} and {dtype}")
    if x.dtype == dtype:
        return x
    if x.dtype.is_complex:
        pairs = view_as_real(x)
        if dtype.bits <= pairs.dtype.bits:
            parts = bitcast(pairs, dtype)
            ratio = x.dtype.bits // dtype.bits
            return reshape(parts, (*x.shape, ratio))
        if dtype.bits > x.dtype.bits and x.shape:
            pairs = reshape(pairs, (*x.shape[:-1], 2 * x.shape[-1]))
        return bitcast(pairs, dtype)
    if dtype.is_complex and x.dtype.bits == dtype.bits:
        return view_as_complex(bitcast(x, dtype.part))
    if dtype.is_complex:
        ratio = dtype.bits // x.dtype.bits
        _check_joined(x, dtype, ratio)
        if x.dtype.bits <= dtype.part.bits and ratio > 2:
            x = reshape(x, (*x.shape[:-1], 2, ratio // 2))
        return view_as_complex(bitcast(x, dtype.part))
    if x.dtype.bits == dtype.bits:
        return _named(f"bitcast_{dtype}", x)
    for each in (x.dtype, dtype):
        if each.bits == 6:
            raise TypeMismatch(f"bitcast requires dtypes of 2, 4, 8 or more bits or of one width, got {x.type} and "
                               f"{dtype}")
    return _split(x, dtype) if x.dtype.bits > dtype.bits else _joined(x, dtype)


def _to_bits(x: Node) -> Node:
    """As an unsigned integer of the same width, one of 4 or 2 bits in a u8."""
    if x.dtype.bits < 8:
        if x.dtype.is_float:
            x = _named(f"bitcast_u{x.dtype.bits}", x)
        whole = _convert(x, U8)
        return _named("bitwise_and", whole, _constant((1 << x.dtype.bits) - 1, whole))
    unsigned = dtype_named(f"u{x.dtype.bits}")
    return x if x.dtype == unsigned else _named(f"bitcast_{unsigned}", x)


def _from_bits(x: Node, dtype: DType) -> Node:
    if dtype.bits < 8:
        low = _convert(x, dtype_named(f"u{dtype.bits}") if dtype.is_float else dtype)
        return _named(f"bitcast_{dtype}", low) if dtype.is_float else low
    return x if x.dtype == dtype else _named(f"bitcast_{dtype}", x)


def _split(x: Node, dtype: DType) -> Node:
    bits = _to_bits(x)
    ratio = x.dtype.bits // dtype.bits
    spread = view(bits, tuple(range(len(x.shape))), (*x.shape, ratio))
    amounts = _named("multiply", iota(spread.dtype, spread.shape, len(x.shape)), _constant(dtype.bits, spread))
    part = _named("bitwise_right_shift", spread, amounts)
    holder = dtype_named(f"u{max(dtype.bits, 8)}")
    return _from_bits(_convert(_named("bitwise_and", part, _constant((1 << dtype.bits) - 1, part)), holder), dtype)


def _check_joined(x: Node, dtype: DType, ratio: int) -> None:
    if not x.shape or not equal(x.shape[-1], ratio):
        raise ShapeMismatch(f"bitcast to {dtype} requires a last axis of {ratio} elements, got {x.type}")


def _joined(x: Node, dtype: DType) -> Node:
    ratio = dtype.bits // x.dtype.bits
    _check_joined(x, dtype, ratio)
    wide = _convert(_to_bits(x), dtype_named(f"u{dtype.bits}"))
    amounts = _named("multiply", iota(wide.dtype, wide.shape, len(x.shape) - 1), _constant(x.dtype.bits, wide))
    placed = _named("bitwise_left_shift", wide, amounts)
    return _from_bits(reduce_axes(_op("add"), placed, (len(x.shape) - 1,)), dtype)


# Random bits (Salmon, Moraes, Dror and Shaw, Parallel random numbers: as easy as 1, 2, 3, 2011)

_ROTATIONS: Final = ((13, 15, 26, 6), (17, 29, 16, 24))


def threefry2x32(key: tuple[Node, Node], counter: tuple[Node, Node]) -> tuple[Node, Node]:
    """Two u32 from two of a counter under a key of two, all of one shape; 20 rounds."""
    parity = _named("bitwise_xor", _named("bitwise_xor", *key), _constant(0x1BD11BDA, key[0]))
    keys = (*key, parity)
    x, y = _named("add", counter[0], keys[0]), _named("add", counter[1], keys[1])
    for n in range(5):
        for amount in _ROTATIONS[n % 2]:
            x = _named("add", x, y)
            y = _named("bitwise_xor", x, _rotated(y, amount))
        x = _named("add", x, keys[(n + 1) % 3])
        y = _named("add", y, _named("add", keys[(n + 2) % 3], _constant(n + 1, y)))
    return x, y


def _rotated(x: Node, amount: int) -> Node:
    left = _named("bitwise_left_shift", x, _constant(amount, x))
    return _named("bitwise_or", left, _named("bitwise_right_shift", x, _constant(x.dtype.bits - amount, x)))


def philox4x32(key: tuple[Node, Node], counter: tuple[Node, Node, Node, Node]) -> tuple[Node, Node, Node, Node]:
    """Four u32 from four of a counter under a key of two, all of one shape; 10 rounds."""
    (k, m), (a, b, c, d) = key, counter
    for _ in range(10):
        (high, low), (other_high, other_low) = _wide_product(0xD2511F53, a), _wide_product(0xCD9E8D57, c)
        a = _named("bitwise_xor", _named("bitwise_xor", other_high, b), k)
        c = _named("bitwise_xor", _named("bitwise_xor", high, d), m)
        b, d = other_low, low
        k, m = _named("add", k, _constant(0x9E3779B9, k)), _named("add", m, _constant(0xBB67AE85, m))
    return a, b, c, d


def _wide_product(factor: int, x: Node) -> tuple[Node, Node]:
    """The upper and the lower half of a product of u32."""
    wide = _convert(x, U64)
    return _halves(_named("multiply", wide, _constant(factor, wide)))


def _halves(x: Node) -> tuple[Node, Node]:
    """The upper and the lower u32 of a u64."""
    return _convert(_named("bitwise_right_shift", x, _constant(32, x)), U32), _convert(
        _named("bitwise_and", x, _constant(0xFFFFFFFF, x)), U32)


def _words(state: Node) -> list[Node]:
    """The elements of a state of u64, as values of rank 0."""
    (count,) = state.shape
    return [reshape(slice_(state, (n,), (n + 1,)), ()) for n in range(count)]


def random_bits(state: Node, dtype: DType, shape: Shape, *, philox: bool = False) -> tuple[Node, Node]:
    """The next state, and bits as numbers of `dtype` in `shape`, as XLA's rng_bit_generator gives them.

    state   u64[2], a key and a counter; for Philox also u64[3], a key and the two halves of a counter

    Raises TypeMismatch for another state, ShapeMismatch where symbolic sizes leave open along which axis Threefry's
    numbers come in pairs.
    """
    allowed = ((2,), (3,)) if philox else ((2,),)
    if state.dtype != U64 or state.shape not in allowed:
        raise TypeMismatch(f"random bits require a state u64[2]{' or u64[3]' if philox else ''}, got {state.type}")
    if dtype == BOOL or dtype.is_complex or dtype.bits < 8:
        raise TypeMismatch(f"random bits require a dtype of 8 to 64 bits that is not bool or complex, got {dtype}")
    words = _words(state)
    if philox:
        return _philox_bits(words, dtype, shape)
    return _threefry_bits(words, dtype, shape)


def _as_dtype(bits: Node, dtype: DType) -> Node:
    """u32 or u64 cut down to the width of a dtype, and read as it."""
    return _from_bits(_convert(bits, dtype_named(f"u{dtype.bits}")), dtype)


def _joined_pair(low: Node, high: Node) -> Node:
    upper = _named("bitwise_left_shift", _convert(high, U64), splat(32, U64, high.shape))
    return _named("bitwise_or", upper, _convert(low, U64))


def _counters(start: Node, count: Size, shape: Shape) -> Node:
    """start + 0, start + 1, ... in row-major order."""
    ramp = iota(U64, (count,), 0)
    return reshape(_named("add", broadcast_scalar(start, (count,)), ramp), shape)


def _advanced(words: list[Node], count: Size) -> Node:
    """The state `count` counters later; a third word takes the carry."""
    step = _convert(size_value(count), U64)
    later = _named("add", words[1], step)
    state = [words[0], later]
    if len(words) == 3:
        carry = _convert(_named("less", later, step), U64)
        state.append(_named("add", words[2], carry))
    return concatenate(tuple(reshape(x, (1,)) for x in state), 0)


def _threefry_bits(words: list[Node], dtype: DType, shape: Shape) -> tuple[Node, Node]:
    key, start = words
    if dtype.bits == 64:
        count = product(shape)
        low, high = _threefry(key, _counters(start, count, shape))
        return _advanced(words, count), _as_dtype(_joined_pair(low, high), dtype)
    if not shape:
        low, _ = _threefry(key, _counters(start, 1, ()))
        return _advanced(words, 1), _as_dtype(low, dtype)
    axis = _paired_axis(shape)
    half = (shape[axis] + 1) // 2
    halves = (*shape[:axis], half, *shape[axis + 1:])
    count = product(halves)
    pair = _threefry(key, _counters(start, count, halves))
    columns = tuple(reshape(x, (*halves[: axis + 1], 1, *halves[axis + 1:])) for x in pair)
    both = reshape(concatenate(columns, axis + 1), (*shape[:axis], half * 2, *shape[axis + 1:]))
    return _advanced(words, count), _as_dtype(slice_(both, (0,) * len(shape), shape), dtype)


def _threefry(key: Node, counters: Node) -> tuple[Node, Node]:
    high, low = _halves(counters)
    key_high, key_low = (broadcast_scalar(x, counters.shape) for x in _halves(key))
    return threefry2x32((key_low, key_high), (low, high))


def _paired_axis(shape: Shape) -> int:
    """The first axis of even size, else the largest."""
    for axis, size in enumerate(shape):
        if divides(2, size):
            return axis
        if not isinstance(size, int):
            raise ShapeMismatch(f"random bits require sizes known to be even, or numbers, got {size} along axis {axis}")
    sizes = [size for size in shape if isinstance(size, int)]
    return sizes.index(max(sizes))


def _philox_bits(words: list[Node], dtype: DType, shape: Shape) -> tuple[Node, Node]:
    """Four words after the other; a u64 takes two of them. Without a third word the key is the upper half of the
    counter, and is left as it is."""
    number = product(shape)
    each = 2 if dtype.bits == 64 else 4
    count = (number + (each - 1)) // each
    low = _counters(words[1], count, (count,))
    upper = words[2] if len(words) == 3 else words[0]
    carry = _convert(_named("less", low, broadcast_scalar(words[1], (count,))), U64)
    high = _named("add", broadcast_scalar(upper, (count,)), carry)
    (b, a), (d, c) = _halves(low), _halves(high)
    key_high, key_low = (broadcast_scalar(x, (count,)) for x in _halves(words[0]))
    found = philox4x32((key_low, key_high), (a, b, c, d))
    numbers = found if each == 4 else (_joined_pair(found[0], found[1]), _joined_pair(found[2], found[3]))
    columns = concatenate(tuple(reshape(x, (count, 1)) for x in numbers), 1)
    flat = slice_(reshape(columns, (count * each,)), (0,), (number,))
    return _advanced(words, count), _as_dtype(reshape(flat, shape), dtype)

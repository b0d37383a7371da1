"""Structured operations and what builders make of them, by their definitions written out one element at a time."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from lang.test_ops import check_directional

import tcp_eqsat as tcp
from tcp_eqsat.errors import ShapeMismatch, TypeMismatch
from tcp_eqsat.lang.dims import symbol
from tcp_eqsat.lang.grad import vjp
from tcp_eqsat.lang.ops import (
    accumulate_builders,
    bit_builders,
    builders,
    index_builders,
    linalg_builders,
    order_builders,
    window_builders,
)
from tcp_eqsat.lang.ops.attributes import WindowAxes
from tcp_eqsat.lang.ops.structure import barrier
from tcp_eqsat.lang.ops.window_builders import ConvolutionAxes, WindowShape
from tcp_eqsat.lang.program import Function, Node, Program
from tcp_eqsat.lang.reference import evaluate
from tcp_eqsat.lang.scalar import ScalarFunction, apply, function_of, scalar_op_named
from tcp_eqsat.lang.scalar import parameter as scalar_parameter
from tcp_eqsat.lang.types import (
    BF16,
    C64,
    C128,
    F4E2M1FN,
    F6E2M3FN,
    F16,
    F32,
    F64,
    I4,
    I8,
    I16,
    I32,
    I64,
    U4,
    U8,
    U16,
    U32,
    U64,
    DType,
    TensorType,
    dtype_of,
)

B = symbol("b")


def x_of(array: np.ndarray, index: int = 0) -> Node:
    return builders.parameter(f"x{index}", index, TensorType(dtype_of(array.dtype), array.shape))


def function(results: Node | tuple[Node, ...], *parameters: Node) -> Function:
    return Function("main", parameters, results if isinstance(results, tuple) else (results,))


def value(result: Node, *arrays: np.ndarray) -> np.ndarray:
    (found,) = evaluate(function(result, *map(x_of, arrays, range(len(arrays)))), arrays)
    return found


def named(name: str, dtype: DType) -> ScalarFunction:
    return function_of(scalar_op_named(name), dtype, dtype)


def number(n: float, dtype: DType = F64) -> Node:
    return builders.scalar_constant(n, dtype)


# Gather and scatter, by the text of the StableHLO specification


def windows_case(seed: int) -> tuple[WindowAxes, tuple[int, ...], tuple[int, ...], list[int]]:
    """Axes, the operand's shape, the indices' shape, the sizes of windows."""
    choose = random.Random(seed)
    rank = choose.randint(1, 4)
    shape = tuple(choose.randint(1, 5) for _ in range(rank))
    roles = [choose.choice(("window", "window", "dropped", "batch")) for _ in range(rank)]
    batch = tuple(a for a in range(rank) if roles[a] == "batch")
    dropped = tuple(a for a in range(rank) if roles[a] == "dropped")
    inside = [a for a in range(rank) if roles[a] == "window"]
    starts = [a for a in (*inside, *dropped) if choose.random() < 0.7]
    lengths = [shape[a] for a in batch] + [choose.randint(1, 3) for _ in range(choose.randint(0, 2))]
    order = list(range(len(lengths)))
    choose.shuffle(order)
    indices = [lengths[n] for n in order]
    component = choose.randint(0, len(indices))
    along = [order.index(n) for n in range(len(batch))]
    if not (len(starts) == 1 and component == len(indices)):
        indices.insert(component, len(starts))
        along = [n + (n >= component) for n in along]
    window_axes = tuple(sorted(choose.sample(range(len(lengths) + len(inside)), len(inside))))
    sizes = [choose.randint(1, shape[a]) if roles[a] == "window" else 1 for a in range(rank)]
    axes = WindowAxes(window_axes, dropped, batch, tuple(along), tuple(starts), component, choose.random() < 0.5)
    return axes, shape, tuple(indices), sizes


def places(axes: WindowAxes, shape, indices: np.ndarray, sizes):
    """For each index of the tensor of windows the operand's index, in order of the windows' numbers."""
    inside = [a for a in range(len(shape)) if a not in axes.dropped_axes and a not in axes.batch_axes]
    numbering = [d for axis, d in enumerate(indices.shape) if axis != axes.component_axis]
    rank = len(numbering) + len(inside)
    for numbers in np.ndindex(*numbering):
        at: list = list(numbers)
        if axes.component_axis < indices.ndim:
            at.insert(axes.component_axis, slice(None))
        start = [0] * len(shape)
        for axis, component in zip(axes.start_axes, np.atleast_1d(indices[tuple(at)]), strict=True):
            start[axis] = int(component)
            if axes.clamped:
                start[axis] = min(max(start[axis], 0), shape[axis] - sizes[axis])
        for axis, along in zip(axes.batch_axes, axes.index_batch_axes, strict=True):
            start[axis] = numbers[along - (along > axes.component_axis)]
        for offsets in np.ndindex(*(sizes[a] for a in inside)):
            place = list(start)
            for axis, offset in zip(inside, offsets, strict=True):
                place[axis] += offset
            window: list[int] = [0] * rank
            rest = iter(numbers)
            for a in range(rank):
                window[a] = offsets[axes.window_axes.index(a)] if a in axes.window_axes else next(rest)
            yield tuple(window), tuple(place) if all(
                0 <= i < n for i, n in zip(place, shape, strict=True)) else None


@pytest.mark.parametrize("seed", range(60))
def test_gather_and_scatter(seed):
    axes, shape, index_shape, sizes = windows_case(seed)
    generator = np.random.default_rng(seed)
    x = generator.integers(-9, 9, shape)
    indices = generator.integers(-2, 6, index_shape).astype(np.int32)
    gathered = value(index_builders.gather(x_of(x), x_of(indices, 1), axes, tuple(sizes)), x, indices)
    expected = np.zeros_like(gathered)
    for window, place in places(axes, shape, indices, sizes):
        expected[window] = 0 if place is None else x[place]
    np.testing.assert_array_equal(gathered, expected)
    updates = generator.integers(-9, 9, gathered.shape)
    mixing = ScalarFunction((I64, I64), apply("subtract", apply(
        "add", scalar_parameter(0, I64), scalar_parameter(0, I64)), scalar_parameter(1, I64)))
    (scattered,) = index_builders.scatter((x_of(x),), x_of(indices, 1), (x_of(updates, 2),), axes, (mixing,))
    result = x.copy()
    for window, place in places(axes, shape, indices, sizes):
        if place is not None:
            result[place] = 2 * result[place] - updates[window]  # the order matters
    np.testing.assert_array_equal(value(scattered, x, indices, updates), result)


def test_scatter_of_several_inputs():
    x, y, i = np.zeros(3), np.full(3, 9, np.int32), np.int8([2, 0, 2, 7])
    u, v = np.array([1.0, 2, 3, 4]), np.int32([5, 6, 7, 8])
    parameters = (F64, I32, F64, I32)
    total = apply("add", scalar_parameter(0, F64), scalar_parameter(2, F64))
    last = scalar_parameter(3, I32)
    results = index_builders.scatter(
        (x_of(x), x_of(y, 1)), x_of(i, 2), (x_of(u, 3), x_of(v, 4)), index_builders.element_axes(),
        (ScalarFunction(parameters, total), ScalarFunction(parameters, last)))
    arrays = (x, y, i, u, v)
    found = evaluate(function(results, *map(x_of, arrays, range(5))), arrays)
    assert found[0].tolist() == [2, 0, 4] and found[1].tolist() == [6, 9, 7]


def test_indices_of_any_integer_dtype_are_clamped():
    x = np.arange(4.0)
    for indices in (np.array([2**64 - 1, 1], np.uint64), np.array([127, 1], np.int8)):
        assert value(index_builders.take(x_of(x), x_of(indices, 1), 0), x, indices).tolist() == [3, 1]
    assert value(index_builders.take(x_of(x), x_of(indices, 1), 0, clamped=False), x, indices).tolist() == [0, 1]


# Windows


def element(x, place, low, interior):
    """An element of the padded operand, or None in the padding."""
    at = []
    for p, lo, gap, n in zip(place, low, interior, x.shape, strict=True):
        q, rest = divmod(p - lo, gap + 1)
        if rest or not 0 <= q < n:
            return None
        at.append(q)
    return tuple(at)


def window_case(seed: int, rank: int):
    choose = random.Random(seed)

    def draw(low: int, high: int) -> list[int]:
        return [choose.randint(low, high) for _ in range(rank)]

    shape, sizes, strides, dilations = draw(1, 5), draw(1, 3), draw(1, 3), draw(1, 2)
    low, high, interior = draw(-1, 2), draw(-1, 2), draw(0, 1)
    whole = [n + (n - 1) * g + a + b for n, g, a, b in zip(shape, interior, low, high, strict=True)]
    counts = [max((n - (k - 1) * d - 1) // s + 1, 0)
              for n, k, d, s in zip(whole, sizes, dilations, strides, strict=True)]
    return shape, sizes, strides, dilations, low, high, interior, whole, counts


@pytest.mark.parametrize("seed", range(40))
def test_reduce_window(seed):
    rank = 1 + seed % 3
    shape, sizes, strides, dilations, low, high, interior, whole, counts = window_case(seed, rank)
    x = np.random.default_rng(seed).integers(-9, 9, shape)
    if min(whole) < 0:
        return
    name = ("add", "maximum", "multiply")[seed % 3]
    start = 3 if seed % 2 else scalar_op_named(name).identity(I64)
    found = value(window_builders.reduce_window(
        (x_of(x),), (number(start, I64),), (named(name, I64),),
        WindowShape.of(tuple(sizes), strides, dilations, tuple(low), tuple(high), interior))[0], x)
    assert found.shape == tuple(counts)
    combine = {"add": lambda a, b: a + b, "maximum": max, "multiply": lambda a, b: a * b}[name]
    for at in np.ndindex(*counts):
        total = start
        for k in np.ndindex(*sizes):
            place = [o * s + j * d for o, s, j, d in zip(at, strides, k, dilations, strict=True)]
            source = element(x, place, low, interior)
            total = combine(total, start if source is None else int(x[source]))
        assert found[at] == total


def test_windows_from_an_end_on_are_cumulative():
    x = np.random.default_rng(0).standard_normal((3, 5))
    for (low, high), expected in (((4, 0), np.cumsum(x, 1)), ((0, 4), np.cumsum(x[:, ::-1], 1)[:, ::-1])):
        shape = WindowShape.of((1, 5), None, None, (0, low), (0, high))
        (found,) = window_builders.reduce_window((x_of(x),), (number(0.0),), (named("add", F64),), shape)
        assert found.op.name == "cumulative"
        np.testing.assert_allclose(value(found, x), expected)


@pytest.mark.parametrize("seed", range(25))
def test_select_and_scatter(seed):
    shape, sizes, strides, _, low, *_ = window_case(seed, 2)
    low, high = [max(n, 0) % k for n, k in zip(low, sizes, strict=True)], [0, 0]
    counts = [(n + a - k) // s + 1 if n + a >= k else 0
              for n, a, k, s in zip(shape, low, sizes, strides, strict=True)]
    generator = np.random.default_rng(seed)
    x, source = generator.integers(0, 4, shape), generator.integers(1, 9, counts)
    found = value(window_builders.select_and_scatter(
        x_of(x), x_of(source, 1), number(-1, I64), named("greater_equal", I64), named("add", I64),
        WindowShape.of(tuple(sizes), strides, None, tuple(low), tuple(high))), x, source)
    expected = np.full(shape, -1)
    for at in np.ndindex(*counts):
        best = None
        for k in np.ndindex(*sizes):
            place = element(x, [o * s + j for o, s, j in zip(at, strides, k, strict=True)], low, (0, 0))
            if place is not None and (best is None or not x[best] >= x[place]):
                best = place
        if best is not None:
            expected[best] += source[at]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("seed", range(40))
def test_general_padding(seed):
    shape, *_, low, high, interior, whole, _ = window_case(seed, 2)
    if min(whole) < 0:
        return
    x = np.random.default_rng(seed).integers(0, 9, shape)
    found = value(window_builders.pad_general(
        x_of(x), number(-7, I64), tuple(low), tuple(high), interior), x)
    assert found.shape == tuple(whole)
    for at in np.ndindex(*whole):
        source = element(x, at, low, interior)
        assert found[at] == (-7 if source is None else x[source])


def test_general_padding_of_symbolic_sizes():
    x = builders.parameter("x", 0, TensorType(F64, (B,)))
    padded = window_builders.pad_general(x, number(-1.0), (2,), (B,), (1,))
    for n in range(4):
        array = np.arange(1.0, n + 1)
        (found,) = evaluate(function(padded, x), (array,))
        inner = [v for e in array for v in (e, -1)][:-1]
        assert found.tolist() == [-1, -1, *inner, *([-1] * n)]
    with pytest.raises(ShapeMismatch, match="amounts of known sign, got b - 3 along axis 0"):
        window_builders.pad_general(x, number(0.0), (B - 3,), (0,))


@pytest.mark.parametrize("seed", range(40))
def test_convolution(seed):
    choose = random.Random(seed)
    spatial = choose.choice((0, 1, 2, 2, 3))
    groups = choose.choice((1, 1, 2, 3))
    of_batch = groups > 1 and choose.random() < 0.4
    batch, features = (groups if of_batch else 1) * choose.randint(1, 2), choose.randint(1, 2)
    out = groups * choose.randint(1, 2)
    _, kernel, strides, dilations, low, high, gaps, _, _ = window_case(seed, spatial)
    shape = [choose.randint(3, 5) for _ in range(spatial)]
    flips = [choose.random() < 0.4 for _ in range(spatial)]

    def shuffled() -> tuple[int, ...]:
        return tuple(choose.sample(range(spatial + 2), spatial + 2))

    axes = ConvolutionAxes(shuffled(), shuffled(), shuffled())
    generator = np.random.default_rng(seed)
    x = generator.integers(-3, 4, (batch, features * (1 if of_batch else groups), *shape))
    w = generator.integers(-3, 4, (features, out, *kernel))

    def laid_out(array, order):
        return np.moveaxis(array, range(array.ndim), order)

    xs, ws = laid_out(x, axes.input), laid_out(w, axes.kernel)
    node = window_builders.convolution(
        x_of(xs), x_of(ws, 1), axes, strides=strides, low=tuple(low), high=tuple(high),
        input_dilation=[g + 1 for g in gaps], kernel_dilation=dilations, reversed_axes=flips,
        feature_groups=1 if of_batch else groups, batch_groups=groups if of_batch else 1)
    found = np.moveaxis(value(node, xs, ws), axes.result, range(spatial + 2))
    whole = [n + (n - 1) * g + a + b for n, g, a, b in zip(shape, gaps, low, high, strict=True)]
    counts = [max((n - (k - 1) * d - 1) // s + 1, 0)
              for n, k, d, s in zip(whole, kernel, dilations, strides, strict=True)]
    rows = batch // groups if of_batch else batch
    assert found.shape == (rows, out, *counts)
    for n, o, *at in np.ndindex(*found.shape):
        group, total = o // (out // groups), 0
        for c, *k in np.ndindex(features, *kernel):
            turned = [kernel[a] - 1 - j if flips[a] else j for a, j in enumerate(k)]
            place = [p * s + j * d for p, s, j, d in zip(at, strides, k, dilations, strict=True)]
            row, channel = (group * rows + n, c) if of_batch else (n, group * features + c)
            source = element(x[0, 0], place, low, gaps)
            if source is not None:
                total += x[(row, channel, *source)] * w[(c, o, *turned)]
        assert found[(n, o, *at)] == total


# Along axes


def test_cumulative_forms_of_any_function():
    """x[n] + a * (value so far), which is not associative."""
    x, y = np.arange(1.0, 7).reshape(2, 3), np.full((2, 3), 2.0)
    parameters = (F64, F64, F64, F64)
    recurrence = apply("add", scalar_parameter(2, F64), apply(
        "multiply", scalar_parameter(3, F64), scalar_parameter(0, F64)))
    functions = (ScalarFunction(parameters, recurrence), ScalarFunction(parameters, scalar_parameter(3, F64)))
    for reverse, expected in ((False, [[1, 4, 11], [4, 13, 32]]), (True, [[17, 8, 3], [38, 17, 6]])):
        total, _ = accumulate_builders.cumulative((x_of(x), x_of(y, 1)), functions, 1, reverse=reverse)
        assert value(total, x, y).tolist() == expected


def test_reductions_from_left_to_right():
    x = np.array([[1, 2], [3, 4]])
    less = function_of(scalar_op_named("subtract"), I64, I64)
    (found,) = accumulate_builders.reduce_general((x_of(x),), (number(100, I64),), (less,), (0,))
    assert value(found, x).tolist() == [96, 94]
    double = ScalarFunction((I64, I64), apply("add", apply(
        "add", scalar_parameter(0, I64), scalar_parameter(0, I64)), scalar_parameter(1, I64)))
    (found,) = accumulate_builders.reduce_general((x_of(x),), (number(1, I64),), (double,), (0, 1))
    assert value(found, x) == ((((1 * 2 + 1) * 2 + 2) * 2 + 3) * 2 + 4)


def test_reductions_by_one_operation_need_no_general_form():
    x = np.arange(6.0).reshape(2, 3)
    swapped = ScalarFunction((F64, F64), apply("add", scalar_parameter(1, F64), scalar_parameter(0, F64)))
    for combine in (named("add", F64), swapped):
        for start, name in ((0.0, "reduce"), (-0.0, "reduce"), (5.0, "map")):
            (found,) = accumulate_builders.reduce_by((x_of(x),), (number(start),), (combine,), (1,))
            assert found.op.name == name
            np.testing.assert_array_equal(value(found, x), x.sum(1) + start)
    (found,) = accumulate_builders.reduce_by((x_of(x),), (number(0.0),), (named("subtract", F64),), (1,))
    assert found.op.name == "reduce_general"


def test_the_index_of_the_most_extreme_value():
    nan, inf = np.nan, np.inf
    for row in ([1, 3, 3], [nan, 1, nan], [1, nan, nan], [-inf, -inf, -inf], [inf, inf, 1], [-0.0, 0.0, 0.0]):
        x = np.array(row)
        assert value(accumulate_builders.extreme_index(x_of(x), 0), x) == np.argmax(x)
        assert value(accumulate_builders.extreme_index(x_of(x), 0, least=True), x) == np.argmin(x)
    empty = np.zeros((2, 0))
    assert value(accumulate_builders.extreme_index(x_of(empty), 1), empty).tolist() == [0, 0]


def test_sorting_is_stable_and_moves_all_operands_together():
    key = np.random.default_rng(0).integers(0, 5, (3, 40)).astype(np.float16)
    key[:, ::7] = np.nan
    place = np.broadcast_to(np.arange(40), (3, 40)).copy()
    order = order_builders.of_first(order_builders.ascending(F16), (F16, I64))
    results = order_builders.sort((x_of(key), x_of(place, 1)), order, 1)
    keys, places_ = evaluate(function(results, x_of(key), x_of(place, 1)), (key, place))
    expected = np.argsort(key, 1, kind="stable")
    np.testing.assert_array_equal(places_, expected)
    np.testing.assert_array_equal(keys, np.take_along_axis(key, expected, 1))
    down = order_builders.sort((x_of(key),), order_builders.descending(F16), 1)[0]
    np.testing.assert_array_equal(value(down, key), np.sort(key, 1)[:, ::-1])


def test_unique_counts_what_does_not_fit():
    x = np.float32([3, 1, np.nan, 1, 2, np.nan, -0.0, 0.0])
    results = order_builders.unique(x_of(x), 3, number(7.0, F32))
    values, counts, inverse, count = evaluate(function(results, x_of(x)), (x,))
    assert values.tolist() == [0, 1, 2] and counts.tolist() == [2, 2, 1] and count == 5
    assert inverse.tolist() == [3, 1, 4, 1, 2, 4, 0, 0]
    values, *_ = evaluate(function(order_builders.unique(x_of(x), 6, number(7.0, F32)), x_of(x)), (x,))
    np.testing.assert_array_equal(values, np.float32([0, 1, 2, 3, np.nan, 7]))


# Bits


@pytest.mark.parametrize(("source", "target"), [*itertools.product(
    (U8, I8, U16, F16, BF16, I32, F32, F64, I64, C64), (U8, I16, BF16, U32, F32, F64, C64, C128))])
def test_bitcasts_keep_memory(source, target):
    raw = np.random.default_rng(0).integers(0, 256, (3, 32), dtype=np.uint8)
    x = raw.view(source.numpy)
    if target.bits > source.bits:
        x = x.reshape(3, -1, target.bits // source.bits)
    parameter = builders.parameter("x", 0, TensorType(source, x.shape))
    node = bit_builders.bitcast(parameter, target)
    (found,) = evaluate(function(node, parameter), (x,))
    assert found.dtype == target.numpy and found.tobytes() == x.tobytes()
    ratio = source.bits // target.bits
    assert found.shape == (x.shape[:-1] if ratio == 0 else x.shape if ratio == 1 else (*x.shape, ratio))


def test_bitcasts_of_half_bytes():
    x = np.uint8([0x12, 0xF0])
    halves = bit_builders.bitcast(x_of(x), U4)
    assert value(halves, x).astype(int).tolist() == [[2, 1], [0, 15]]
    np.testing.assert_array_equal(value(bit_builders.bitcast(halves, U8), x), x)
    numbers = bit_builders.bitcast(x_of(x), F4E2M1FN)
    assert value(numbers, x).astype(float).tolist() == [[1, 0.5], [0, -6]]
    np.testing.assert_array_equal(value(bit_builders.bitcast(numbers, U8), x), x)
    for one_width in (U4, I4):
        assert value(bit_builders.bitcast(numbers, one_width), x).view(np.uint8).tolist() == [[2, 1], [0, 15]]


def test_bitcasts_refuse():
    x = x_of(np.zeros(3, np.uint8))
    with pytest.raises(ShapeMismatch, match=r"a last axis of 4 elements, got u8\[3\]"):
        bit_builders.bitcast(x, F32)
    with pytest.raises(TypeMismatch, match="bitcast requires numbers"):
        bit_builders.bitcast(builders.map_scalar(scalar_op_named("equal"), x, x), U8)
    with pytest.raises(TypeMismatch, match=r"of one width, got u8\[3\] and f6e2m3fn"):
        bit_builders.bitcast(x, F6E2M3FN)


def words(*numbers: int) -> tuple[Node, ...]:
    return tuple(builders.scalar_constant(n, U32) for n in numbers)


def test_random_bits_are_the_published_ones():
    """Known answers of Random123 (threefry2x32 of 20 rounds, philox4x32 of 10)."""
    ones = 0xFFFFFFFF
    for key, counter, expected in (
            ((0, 0), (0, 0), [0x6B200159, 0x99BA4EFE]),
            ((ones, ones), (ones, ones), [0x1CB996FC, 0xBB002BE7]),
            ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), [0xC4923A9C, 0x483DF7A0])):
        found = bit_builders.threefry2x32(words(*key), words(*counter))
        assert [int(v) for v in evaluate(function(found), ())] == expected
    for key, counter, expected in (
            ((0, 0), (0, 0, 0, 0), [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
            ((ones, ones), (ones,) * 4, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
            ((0xA4093822, 0x299F31D0), (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
             [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1])):
        found = bit_builders.philox4x32(words(*key), words(*counter))
        assert [int(v) for v in evaluate(function(found), ())] == expected


def test_random_bits_of_a_state():
    """Values that XLA's rng_bit_generator gives."""
    state = np.array([3, 3], np.uint64)
    for dtype, shape, philox, expected in (
            (U64, (), False, [0x2E7D605246AAC5CF]), (U32, (2, 3), False, [
                0x46AAC5CF, 0x2114E542, 0x4221BC63, 0x2E7D6052, 0xDE37F8BA, 0xD6DC537B]),
            (U16, (5,), False, [0xC5CF, 0x6052, 0xE542, 0xF8BA, 0xBC63]),
            (U32, (3, 2), True, [0xE30973D9, 0xA478F84A, 0x3F952FCD, 0x89AA81FE, 0xBB669018, 0x64F22E6A]),
            (U64, (2,), True, [0xA478F84AE30973D9, 0x89AA81FE3F952FCD])):
        after, bits = evaluate(function(bit_builders.random_bits(x_of(state), dtype, shape, philox=philox),
                                        x_of(state)), (state,))
        assert bits.ravel().tolist() == expected and bits.shape == shape
        pairs = -(-len(expected) // 2) if dtype != U64 else len(expected)
        fours = -(-len(expected) // (2 if dtype == U64 else 4))
        assert after.tolist() == [3, 3 + (fours if philox else pairs)]
    wide = np.array([5, 2**64 - 1, 9], np.uint64)
    after, _ = evaluate(function(bit_builders.random_bits(x_of(wide), U64, (3,), philox=True), x_of(wide)), (wide,))
    assert after.tolist() == [5, 1, 10]
    with pytest.raises(ShapeMismatch, match="sizes known to be even, or numbers, got b along axis 0"):
        bit_builders.random_bits(x_of(state), U32, (B,))


# Linear algebra


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_triangular_solves(dtype):
    generator = np.random.default_rng(0)

    def draw(*shape):
        real = generator.standard_normal(shape)
        return (real + 1j * generator.standard_normal(shape) if dtype[0] == "c" else real).astype(dtype)

    a = draw(2, 4, 4) + 3 * np.eye(4, dtype=dtype)
    for left, lower, unit, transposed, conjugated in itertools.product((False, True), repeat=5):
        b = draw(2, 4, 3) if left else draw(2, 3, 4)
        x = value(linalg_builders.triangular_solve(
            x_of(a), x_of(b, 1), left=left, lower=lower, unit_diagonal=unit, transposed=transposed,
            conjugated=conjugated), a, b)
        matrix = np.tril(a) if lower else np.triu(a)
        matrix = np.where(np.eye(4, dtype=bool), 1, matrix) if unit else matrix
        matrix = matrix.swapaxes(-1, -2) if transposed else matrix
        matrix = matrix.conj() if conjugated else matrix
        product = matrix @ x if left else x @ matrix
        scale = 1 + np.abs(x).max()
        np.testing.assert_allclose(product, b, rtol=0, atol=scale * 1e-5)


def test_cholesky_of_what_is_not_positive_definite():
    x = np.stack([np.eye(3), np.diag([1.0, -1, 1]), np.diag([1.0, np.nan, 1]), np.diag([0.0, 1, 1])])
    found = value(linalg_builders.cholesky(x_of(x)), x)
    np.testing.assert_array_equal(found[0], np.eye(3))
    assert np.isnan(found[1:]).all()
    compiled = tcp.compile(Program({"main": function(linalg_builders.cholesky(x_of(x)), x_of(x))}))
    np.testing.assert_array_equal(compiled(x), found)


def test_cholesky_reads_one_triangle():
    x = np.array([[4.0, 99], [2, 5]])
    np.testing.assert_allclose(value(linalg_builders.cholesky(x_of(x)), x), [[2, 0], [1, 2]])
    np.testing.assert_allclose(value(linalg_builders.cholesky(x_of(x.T), lower=False), x.T), [[2, 1], [0, 2]])


def test_transforms_of_any_length():
    x = builders.parameter("x", 0, TensorType(C128, (2, B)))
    compiled = tcp.compile(Program({"main": function(linalg_builders.fft(x), x)}))
    for n in (0, 1, 2, 3, 5, 8, 12, 17, 64, 100):
        array = np.random.default_rng(n).standard_normal((2, n)) * (1 + 2j) + 1
        expected = np.fft.fft(array) if n else array
        np.testing.assert_allclose(compiled(array), expected, atol=1e-11)
        np.testing.assert_allclose(evaluate(function(linalg_builders.fft(x), x), (array,))[0], expected, atol=1e-11)


# Programs


def test_no_rule_sees_through_a_barrier():
    x = builders.parameter("x", 0, TensorType(F32, (4,)))
    negate = scalar_op_named("negative")
    twice = builders.map_scalar(negate, builders.map_scalar(negate, x))
    apart = builders.map_scalar(negate, barrier(builders.map_scalar(negate, x)))
    best = {node: tcp.optimize(Program({"main": function(node, x)})).program.main for node in (twice, apart)}
    assert sum(n.op.name == "map" for n in best[twice].nodes()) == 0
    assert sum(n.op.name == "map" for n in best[apart].nodes()) == 2
    array = np.float32([1, -2, 0, np.inf])
    np.testing.assert_array_equal(tcp.compile(Program({"main": function(apart, x)}))(array), array)


# Derivatives of compositions


def double(name: str, index: int, *shape) -> Node:
    return builders.parameter(name, index, TensorType(F64, shape))


def test_derivative_of_convolution_and_pooling():
    x, w = double("x", 0, 2, 5, 6, 4), double("w", 1, 3, 2, 2, 6)
    made = window_builders.convolution(
        x, w, ConvolutionAxes.channels_last(2), strides=(1, 2), low=(1, 0), high=(0, 2), feature_groups=2,
        input_dilation=(1, 2))
    pooled = window_builders.reduce_window(
        (made,), (number(-np.inf),), (named("maximum", F64),), WindowShape.of((1, 2, 2, 1), (1, 2, 1, 1)))[0]
    assert check_directional(function(pooled, x, w), {}, 3)


@pytest.mark.parametrize("lower", [True, False])
def test_derivative_of_cholesky(lower):
    x = double("x", 0, 2, 3, 3)
    rows = builders.dot_general(x, x, ((2,), (2,)), ((0,), (0,)))
    eye = builders.constant(np.broadcast_to(3 * np.eye(3), (2, 3, 3)).copy())
    definite = builders.map_scalar(scalar_op_named("add"), rows, eye)
    assert check_directional(function(linalg_builders.cholesky(definite, lower=lower), x), {}, 1)
    plain = function(linalg_builders.cholesky(x, lower=lower), x)
    gradient = evaluate(vjp(plain), (np.broadcast_to(np.eye(3) * 2, (2, 3, 3)).copy(), np.ones((2, 3, 3))))[1]
    unread = np.triu(gradient, 1) if lower else np.tril(gradient, -1)
    assert not unread.any()  # of the triangle that is not read


def test_derivative_of_transforms_of_real_numbers():
    x = double("x", 0, 3, 5)
    spectrum = linalg_builders.rfft_axes(x, (0, 1))
    back = linalg_builders.irfft_axes(spectrum, (0, 1), 4)
    assert check_directional(function(back, x), {}, 2)
    power = builders.map_scalar(scalar_op_named("abs"), spectrum)
    assert check_directional(function(power, x), {}, 2)


def test_derivative_of_orders_and_extremes():
    x = double("x", 0, 4, 6)
    values, _ = order_builders.top_k(x, 3)
    spread = builders.reduce_axes(scalar_op_named("add"), window_builders.roll(values, 1, 1), (0,))
    assert check_directional(function(spread, x), {}, 4)
    logs = accumulate_builders.cumulative((x,), (accumulate_builders.log_add_exp(F64),), 1, reverse=True)[0]
    assert check_directional(function(logs, x), {}, 5)

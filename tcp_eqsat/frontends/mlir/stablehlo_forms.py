"""How each operation of our language is written in StableHLO."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tcp_eqsat.errors import UnknownName
from tcp_eqsat.frontends.mlir.decompose import axes_of_broadcast, is_transpose
from tcp_eqsat.frontends.mlir.dense_text import dense_text
from tcp_eqsat.frontends.mlir.stablehlo_writer import (
    Body,
    Form,
    Operand,
    integers,
    is_known,
    result_types,
    type_text,
    write_stablehlo,
)
from tcp_eqsat.lang.dims import Size
from tcp_eqsat.lang.program import Node, Program
from tcp_eqsat.lang.scalar import ScalarOp, function_of
from tcp_eqsat.lang.types import BOOL, I32, Shape, TensorType

UNARY = {
    "abs": "abs", "bitwise_invert": "not", "cbrt": "cbrt", "ceil": "ceil", "cos": "cosine",
    "count_leading_zeros": "count_leading_zeros", "exp": "exponential", "expm1": "exponential_minus_one",
    "floor": "floor", "imag": "imag", "isfinite": "is_finite", "log": "log", "log1p": "log_plus_one",
    "logistic": "logistic", "negative": "negate", "popcount": "popcnt", "real": "real", "round": "round_nearest_even",
    "round_away": "round_nearest_afz", "rsqrt": "rsqrt", "sign": "sign", "sin": "sine", "sqrt": "sqrt", "tan": "tan",
    "tanh": "tanh",
}
BINARY = {
    "add": "add", "atan2": "atan2", "bitwise_and": "and", "bitwise_left_shift": "shift_left", "bitwise_or": "or",
    "bitwise_xor": "xor", "complex": "complex", "divide": "divide", "fmod": "remainder", "maximum": "maximum",
    "minimum": "minimum", "multiply": "multiply", "pow": "power", "subtract": "subtract",
}
CHLO = {
    "acos": "acos", "acosh": "acosh", "asin": "asin", "asinh": "asinh", "atan": "atan", "atanh": "atanh",
    "bessel_i1e": "bessel_i1e", "cosh": "cosh", "digamma": "digamma", "erf": "erf", "erf_inv": "erf_inv",
    "erfc": "erfc", "lgamma": "lgamma", "nextafter": "next_after", "polygamma": "polygamma", "sinh": "sinh",
    "zeta": "zeta",
}
COMPARISONS = {
    "equal": "EQ", "greater": "GT", "greater_equal": "GE", "less": "LT", "less_equal": "LE", "not_equal": "NE",
}


def write(program: Program) -> str:
    """The program as StableHLO; see `stablehlo_writer.write_stablehlo`."""
    return write_stablehlo(program, FORMS)


def _result(node: Node) -> str:
    return type_text(node.tensor_type)


# Elements made and moved


def _constant(body: Body, node: Node, operands: list[Operand]) -> Operand:
    return body.op("stablehlo.constant", (), _result(node), f"value = {dense_text(node.attributes.data)}")


def _iota(body: Body, node: Node, operands: list[Operand]) -> Operand:
    axis = f"iota_dimension = {node.attributes.axis} : i64"
    if is_known(node.shape):
        return body.op("stablehlo.iota", (), _result(node), axis)
    return body.op("stablehlo.dynamic_iota", (body.shape(node.shape),), _result(node), axis)


def _size(body: Body, node: Node, operands: list[Operand]) -> Operand:
    return body.op("stablehlo.convert", (body.size(node.attributes.size),), _result(node))


def _view(body: Body, node: Node, operands: list[Operand]) -> Operand:
    labels, shape = node.attributes.labels, node.shape
    if is_transpose(labels, len(shape)):
        permutation = [labels.index(axis) for axis in range(len(shape))]
        if permutation == sorted(permutation):
            return operands[0]
        return body.op("stablehlo.transpose", operands, _result(node), f"permutation = {integers(permutation)}")
    axes = axes_of_broadcast(labels, len(shape))
    assert axes is not None, "the function is decomposed"
    dimensions = f"broadcast_dimensions = {integers(axes)}"
    if is_known(shape):
        return body.op("stablehlo.broadcast_in_dim", operands, _result(node), dimensions)
    given = (*operands, body.shape(shape))
    return body.op("stablehlo.dynamic_broadcast_in_dim", given, _result(node), dimensions)


def _reshape(body: Body, node: Node, operands: list[Operand]) -> Operand:
    if is_known(node.shape):
        return body.op("stablehlo.reshape", operands, _result(node))
    return body.op("stablehlo.dynamic_reshape", (*operands, body.shape(node.shape)), _result(node))


def _slice(body: Body, node: Node, operands: list[Operand]) -> Operand:
    a = node.attributes
    if is_known((*a.starts, *a.limits)):
        return body.op(
            "stablehlo.slice", operands, _result(node), f"start_indices = {integers(a.starts)}",
            f"limit_indices = {integers(a.limits)}", f"strides = {integers(a.strides)}")
    bounds = map(body.shape, (a.starts, a.limits, a.strides))
    return body.op("stablehlo.real_dynamic_slice", (*operands, *bounds), _result(node))


def _pad(body: Body, node: Node, operands: list[Operand]) -> Operand:
    low, high, none = node.attributes.low, node.attributes.high, (0,) * len(node.shape)
    if is_known((*low, *high)):
        return body.op(
            "stablehlo.pad", operands, _result(node), f"edge_padding_low = {integers(low)}",
            f"edge_padding_high = {integers(high)}", f"interior_padding = {integers(none)}")
    return body.op("stablehlo.dynamic_pad", (*operands, *map(body.shape, (low, high, none))), _result(node))


def _concatenate(body: Body, node: Node, operands: list[Operand]) -> Operand:
    return body.op("stablehlo.concatenate", operands, _result(node), f"dimension = {node.attributes.axis} : i64")


def _reverse(body: Body, node: Node, operands: list[Operand]) -> Operand:
    return body.op("stablehlo.reverse", operands, _result(node), f"dimensions = {integers(node.attributes.axes)}")


def _view_as_real(body: Body, node: Node, operands: list[Operand]) -> Operand:
    """Both parts along a last axis."""
    dtype, shape = node.dtype, node.shape[:-1]
    parts = [
        _reshaped(body, body.op(f"stablehlo.{name}", operands, type_text(TensorType(dtype, shape))),
                  TensorType(dtype, (*shape, 1)))
        for name in ("real", "imag")]
    return body.op("stablehlo.concatenate", parts, _result(node), f"dimension = {len(shape)} : i64")


def _view_as_complex(body: Body, node: Node, operands: list[Operand]) -> Operand:
    (x,), rank = node.operands, len(node.shape)
    if not is_known(x.shape):
        raise UnknownName("StableHLO has no view_as_complex of sizes that are not numbers")
    parts = []
    for n in (0, 1):
        starts, limits = [*[0] * rank, n], [*node.shape, n + 1]
        part = body.op(
            "stablehlo.slice", operands, type_text(TensorType(x.dtype, (*node.shape, 1))),
            f"start_indices = {integers(starts)}", f"limit_indices = {integers(limits)}",
            f"strides = {integers([1] * (rank + 1))}")
        parts.append(_reshaped(body, part, TensorType(x.dtype, node.shape)))
    return body.op("stablehlo.complex", parts, _result(node))


# Scalar operations


def _map(body: Body, node: Node, operands: list[Operand]) -> Operand:
    op = node.attributes.function.single_op
    assert op is not None, "the function is decomposed"
    return _scalar(body, op, node, operands)


def _scalar(body: Body, op: ScalarOp, node: Node, operands: list[Operand]) -> Operand:
    result, name = _result(node), op.name
    if name in UNARY or name in BINARY:
        return body.op(f"stablehlo.{UNARY.get(name) or BINARY[name]}", operands, result)
    if name in CHLO:
        return body.op(f"chlo.{CHLO[name]}", operands, result)
    if name in COMPARISONS:
        direction = f"comparison_direction = #stablehlo<comparison_direction {COMPARISONS[name]}>"
        return body.op("stablehlo.compare", operands, result, direction)
    if name == "where":
        return body.op("stablehlo.select", operands, result)
    if name == "bitwise_right_shift":
        kind = "arithmetic" if node.dtype.is_signed else "logical"
        return body.op(f"stablehlo.shift_right_{kind}", operands, result)
    if name.startswith("astype_"):
        return body.op("stablehlo.convert", operands, result)
    if name.startswith("bitcast_"):
        return body.op("stablehlo.bitcast_convert", operands, result)
    if name.startswith("reduce_precision_e"):
        exponent, _, mantissa = name.removeprefix("reduce_precision_e").partition("m")
        return body.op(
            "stablehlo.reduce_precision", operands, result, f"exponent_bits = {exponent} : i32",
            f"mantissa_bits = {mantissa} : i32")
    raise UnknownName(f"StableHLO has no operation for {name}")


# Reductions and contractions


def _reduce(body: Body, node: Node, operands: list[Operand]) -> Operand:
    operation, rank, dtype = node.attributes.operation, node.attributes.rank, node.dtype
    axes = [axis for axis, label in enumerate(node.attributes.labels) if label >= rank]
    start = body.constant(np.array(operation.identity(dtype)).astype(dtype.numpy))
    lines = body.scalar_region((function_of(operation, dtype, dtype),))
    (found,) = body.op_with_regions(
        "stablehlo.reduce", (*operands, start), (_result(node),), (lines,), f"dimensions = {integers(axes)}")
    return found


def _reduce_general(body: Body, node: Node, operands: list[Operand]) -> tuple[Operand, ...]:
    lines = body.scalar_region(node.attributes.functions)
    types = [type_text(x) for x in result_types(node)]
    axes = f"dimensions = {integers(node.attributes.axes)}"
    return body.op_with_regions("stablehlo.reduce", operands, types, (lines,), axes)


def _contract(body: Body, node: Node, operands: list[Operand]) -> Operand:
    lhs, rhs, rank = node.attributes.lhs, node.attributes.rhs, node.attributes.rank
    summed = range(rank, len(node.attributes.extents))
    batch = [label for label in range(rank) if label in lhs and label in rhs]
    numbers = ", ".join(
        f"{side}_{role}_dimensions = {[labels.index(label) for label in chosen]}"
        for role, chosen in (("batching", batch), ("contracting", summed))
        for side, labels in (("lhs", lhs), ("rhs", rhs)))
    return body.op(
        "stablehlo.dot_general", operands, _result(node), f"dot_dimension_numbers = #stablehlo.dot<{numbers}>")


def _cumulative(body: Body, node: Node, operands: list[Operand]) -> Operand | tuple[Operand, ...]:
    """A window that reaches from the end to every element, where one operation with a start value combines."""
    a = node.attributes
    op = a.functions[0].single_op
    (type_,), (x,) = result_types(node)[:1], node.operands[:1]
    size = x.shape[a.axis]
    if len(a.functions) > 1 or op is None or op.identity is None or not isinstance(size, int):
        raise UnknownName("StableHLO has no cumulative form but of one operation along an axis of known size")
    start = body.constant(np.array(op.identity(type_.dtype)).astype(type_.dtype.numpy))
    rank = len(x.shape)
    window = [max(size, 1) if axis == a.axis else 1 for axis in range(rank)]
    pairs = np.zeros((rank, 2), np.int64)
    pairs[a.axis, 1 if a.reverse else 0] = max(size - 1, 0)
    padding = f"padding = dense<{pairs.tolist()}> : tensor<{rank}x2xi64>"
    return body.op_with_regions(
        "stablehlo.reduce_window", (*operands, start), (type_text(type_),), (body.scalar_region(a.functions),),
        f"window_dimensions = {integers(window)}", padding)


def _windows(body: Body, node: Node, operands: list[Operand]) -> Operand:
    """A gather of single elements along the axes: window o, place k is at o * stride + k * dilation."""
    a, (x,) = node.attributes, node.operands
    rank, count = len(x.shape), len(a.axes)
    numbers = tuple(node.shape[axis] for axis in a.axes)
    if not is_known((*numbers, *a.sizes)):
        raise UnknownName("StableHLO has no windows of sizes that are not numbers")
    order = sorted(a.axes)
    shape = (*(node.shape[axis] for axis in order), *a.sizes)
    index = np.zeros((*shape, count), np.int64)
    for n, axis in enumerate(a.axes):
        outer, inner = (
            np.arange(shape[at]).reshape([-1 if other == at else 1 for other in range(2 * count)])
            for at in (order.index(axis), count + n))
        index[..., n] = outer * a.strides[n] + inner * a.dilations[n]
    sizes = [1 if axis in a.axes else size for axis, size in enumerate(x.shape)]
    dimensions = (
        f"offset_dims = {[axis for axis in range(rank) if axis not in a.axes]}, collapsed_slice_dims = {order}, "
        f"start_index_map = {list(a.axes)}, index_vector_dim = {2 * count}")
    return _gathered(body, operands[0], body.constant(index), _result(node), dimensions, sizes)


# Indexing by values


def _gathered(body: Body, x: Operand, indices: Operand, type_: str, dimensions: str, sizes: Sequence[Size]) -> Operand:
    numbers = f"dimension_numbers = #stablehlo.gather<{dimensions}>"
    if is_known(sizes):
        return body.op("stablehlo.gather", (x, indices), type_, numbers, f"slice_sizes = {integers(sizes)}")
    return body.op("stablehlo.dynamic_gather", (x, indices, body.shape(tuple(sizes))), type_, numbers)


def _gather(body: Body, node: Node, operands: list[Operand]) -> Operand:
    a = node.attributes
    if not a.clamped:
        raise UnknownName("StableHLO has no gather that gives 0 outside")
    dimensions = (
        f"offset_dims = {list(a.window_axes)}, collapsed_slice_dims = {sorted(a.dropped_axes)}, "
        f"operand_batching_dims = {list(a.batch_axes)}, start_indices_batching_dims = {list(a.index_batch_axes)}, "
        f"start_index_map = {list(a.start_axes)}, index_vector_dim = {a.component_axis}")
    x, indices = operands
    return _gathered(body, x, indices, _result(node), dimensions, a.sizes)


def _scatter(body: Body, node: Node, operands: list[Operand]) -> tuple[Operand, ...]:
    a = node.attributes
    if a.clamped:
        raise UnknownName("StableHLO has no scatter that moves windows inside")
    numbers = (
        f"update_window_dims = {list(a.window_axes)}, inserted_window_dims = {sorted(a.dropped_axes)}, "
        f"input_batching_dims = {list(a.batch_axes)}, scatter_indices_batching_dims = {list(a.index_batch_axes)}, "
        f"scatter_dims_to_operand_dims = {list(a.start_axes)}, index_vector_dim = {a.component_axis}")
    types = [type_text(x) for x in result_types(node)]
    return body.op_with_regions(
        "stablehlo.scatter", operands, types, (body.scalar_region(a.functions),),
        f"scatter_dimension_numbers = #stablehlo.scatter<{numbers}>")


def _dynamic_slice(body: Body, node: Node, operands: list[Operand]) -> Operand:
    x, *starts = operands
    return _window(body, x, node.operands[0].shape, starts, node.tensor_type)


def _window(body: Body, x: Operand, shape: Shape, starts: Sequence[Operand], result: TensorType) -> Operand:
    """A slice at values, which are clamped; where a size is no number, by starts and limits in a vector."""
    sizes = result.shape
    if is_known(sizes):
        return body.op(
            "stablehlo.dynamic_slice", (x, *starts), type_text(result), f"slice_sizes = {integers(sizes)}")
    scalar, single = type_text(TensorType(I32)), type_text(TensorType(I32, (1,)))
    vector = type_text(TensorType(I32, (len(sizes),)))
    parts = [
        body.op("stablehlo.reshape", (start if start.type == scalar else body.op(
            "stablehlo.convert", (start,), scalar),), single)
        for start in starts]
    given = parts[0] if len(parts) == 1 else body.op("stablehlo.concatenate", parts, vector, "dimension = 0 : i64")
    whole, taken = body.shape(shape), body.shape(sizes)
    zeros = body.constant(np.zeros(len(sizes), np.int32))
    last = body.op("stablehlo.subtract", (whole, taken), vector)
    first = body.op("stablehlo.clamp", (zeros, given, last), vector)
    limits = body.op("stablehlo.add", (first, taken), vector)
    ones = body.constant(np.ones(len(sizes), np.int32))
    return body.op("stablehlo.real_dynamic_slice", (x, first, limits, ones), type_text(result))


def _sort(body: Body, node: Node, operands: list[Operand]) -> tuple[Operand, ...]:
    count = len(operands)
    order = [n + side * count for n in range(count) for side in (0, 1)]
    lines = body.scalar_region((node.attributes.function,), order)
    types = [type_text(x) for x in result_types(node)]
    return body.op_with_regions(
        "stablehlo.sort", operands, types, (lines,), f"dimension = {node.attributes.axis} : i64", "is_stable = true")


# Control


def _branches(name: str) -> Form:
    def form(body: Body, node: Node, operands: list[Operand]) -> tuple[Operand, ...]:
        selector, *captures = operands
        regions = []
        for each in node.attributes.regions:
            with body.region(()) as (inner, _, lines):
                inner.end(inner.run(each, captures))
            regions.append(lines)
        types = [type_text(x) for x in result_types(node)]
        return body.op_with_regions(name, (selector,), types, regions)

    return form


def _while(body: Body, node: Node, operands: list[Operand]) -> tuple[Operand, ...]:
    a = node.attributes
    state, captures = operands[: a.count], operands[a.count :]
    types = [x.tensor_type for x in node.operands[: a.count]]
    regions = []
    for each in (a.condition, a.body):
        with body.region(types) as (inner, arguments, lines):
            inner.end(inner.run(each, [*arguments, *captures]))
        regions.append(lines)
    return body.op_with_regions("stablehlo.while", state, [x.type for x in state], regions)


def _scan(body: Body, node: Node, operands: list[Operand]) -> tuple[Operand, ...]:
    """A while loop over a step, the carries and what is stacked."""
    a = node.attributes
    results = result_types(node)
    carries, sequences = operands[: a.carries], operands[a.carries : a.carries + a.sequences]
    captures = operands[a.carries + a.sequences :]
    stacked = results[a.carries :]
    empty = [_zeros(body, x) for x in stacked]
    step = TensorType(I32)
    types = [step, *results[: a.carries], *stacked]
    first = body.constant(np.array(0, np.int32))
    with body.region(types) as (inner, arguments, condition):
        inner.end([inner.op(
            "stablehlo.compare", (arguments[0], inner.size(a.length)), type_text(TensorType(BOOL)),
            "comparison_direction = #stablehlo<comparison_direction LT>")])
    with body.region(types) as (inner, arguments, lines):
        count, *values = arguments
        one = inner.constant(np.array(1, np.int32))
        at = count
        if a.reverse:
            last = inner.op("stablehlo.subtract", (inner.size(a.length), one), one.type)
            at = inner.op("stablehlo.subtract", (last, count), one.type)
        zero = inner.constant(np.array(0, np.int32))
        slices = [
            _at(inner, x, node.operands[a.carries + n].tensor_type, at, zero) for n, x in enumerate(sequences)]
        found = inner.run(a.body, [*values[: a.carries], *slices, *captures])
        updated = [
            _put(inner, x, part, type_, at, zero)
            for x, part, type_ in zip(values[a.carries :], found[a.carries :], stacked, strict=True)]
        following = inner.op("stablehlo.add", (count, one), one.type)
        inner.end([following, *found[: a.carries], *updated])
    whole = body.op_with_regions(
        "stablehlo.while", (first, *carries, *empty), [type_text(x) for x in types], (condition, lines))
    return whole[1:]


def _zeros(body: Body, type_: TensorType) -> Operand:
    return _spread(body, body.constant(np.zeros((), type_.dtype.numpy)), type_)


def _spread(body: Body, x: Operand, type_: TensorType) -> Operand:
    """A value of rank 0 everywhere."""
    none = f"broadcast_dimensions = {integers(())}"
    if is_known(type_.shape):
        return body.op("stablehlo.broadcast_in_dim", (x,), type_text(type_), none)
    return body.op("stablehlo.dynamic_broadcast_in_dim", (x, body.shape(type_.shape)), type_text(type_), none)


def _reshaped(body: Body, x: Operand, type_: TensorType) -> Operand:
    if is_known(type_.shape):
        return body.op("stablehlo.reshape", (x,), type_text(type_))
    return body.op("stablehlo.dynamic_reshape", (x, body.shape(type_.shape)), type_text(type_))


def _at(body: Body, x: Operand, type_: TensorType, at: Operand, zero: Operand) -> Operand:
    """The slice of a sequence at a step."""
    part = TensorType(type_.dtype, (1, *type_.shape[1:]))
    starts = [at, *[zero] * (len(type_.shape) - 1)]
    window = _window(body, x, type_.shape, starts, part)
    return _reshaped(body, window, TensorType(type_.dtype, type_.shape[1:]))


def _put(body: Body, x: Operand, part: Operand, type_: TensorType, at: Operand, zero: Operand) -> Operand:
    whole = _reshaped(body, part, TensorType(type_.dtype, (1, *type_.shape[1:])))
    starts = [at, *[zero] * (len(type_.shape) - 1)]
    return body.op("stablehlo.dynamic_update_slice", (x, whole, *starts), type_text(type_))


# Decompositions


def _whole(form: Callable[[Body, Node, list[Operand], TensorType], Operand]) -> Form:
    """A form of complex numbers that stand as they are, or as their real and imaginary parts side by side."""

    def apply(body: Body, node: Node, operands: list[Operand]) -> Operand | tuple[Operand, ...]:
        if isinstance(node.type, TensorType):
            return form(body, node, operands, node.type)
        part = node.type.items[0]
        wholes = [
            body.op("stablehlo.complex", (real, imag), type_text(TensorType(x.dtype.of_parts, x.shape)))
            for real, imag, x in zip(operands[::2], operands[1::2], node.operands[::2], strict=True)]
        found = form(body, node, wholes, TensorType(part.dtype.of_parts, part.shape))
        return tuple(body.op(f"stablehlo.{name}", (found,), type_text(part)) for name in ("real", "imag"))

    return apply


def _cholesky(body: Body, node: Node, operands: list[Operand], result: TensorType) -> Operand:
    return body.op("stablehlo.cholesky", operands, type_text(result), f"lower = {_flag(node.attributes.lower)}")


def _triangular_solve(body: Body, node: Node, operands: list[Operand], result: TensorType) -> Operand:
    a = node.attributes
    if a.conjugated and not a.transposed:
        raise UnknownName("StableHLO has no triangular_solve of a conjugate that is not transposed")
    word = "ADJOINT" if a.conjugated else "TRANSPOSE" if a.transposed else "NO_TRANSPOSE"
    return body.op(
        "stablehlo.triangular_solve", operands, type_text(result), f"left_side = {_flag(a.left)}",
        f"lower = {_flag(a.lower)}", f"transpose_a = #stablehlo<transpose {word}>",
        f"unit_diagonal = {_flag(a.unit_diagonal)}")


def _flag(value: bool) -> str:
    return str(value).lower()


def _fft(body: Body, node: Node, operands: list[Operand], result: TensorType) -> Operand:
    """Nothing is divided here; there the inverse is."""
    size = result.shape[-1]
    if not isinstance(size, int):
        raise UnknownName("StableHLO has no fft of a length that is not a number")
    kind = "IFFT" if node.attributes.inverse else "FFT"
    found = body.op(
        "stablehlo.fft", operands, type_text(result), f"fft_type = #stablehlo<fft_type {kind}>",
        f"fft_length = {integers((size,))}")
    if kind == "FFT":
        return found
    factor = _spread(body, body.constant(np.array(size, result.dtype.numpy)), result)
    return body.op("stablehlo.multiply", (found, factor), type_text(result))


def _plain(name: str, *attributes: str) -> Form:
    """An operation of one name that has the operands and the result."""
    return lambda body, node, operands: body.op(name, operands, _result(node), *attributes)


FORMS: Mapping[str, Form] = {
    "case": _branches("stablehlo.case"),
    "cholesky": _whole(_cholesky),
    "concatenate": _concatenate,
    "constant": _constant,
    "contract": _contract,
    "cumulative": _cumulative,
    "dequantize": _plain("stablehlo.uniform_dequantize"),
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _plain("stablehlo.dynamic_update_slice"),
    "fft": _whole(_fft),
    "gather": _gather,
    "if": _branches("stablehlo.if"),
    "iota": _iota,
    "map": _map,
    "optimization_barrier": _plain("stablehlo.optimization_barrier"),
    "pad": _pad,
    "quantize": _plain("stablehlo.uniform_quantize"),
    "reduce": _reduce,
    "reduce_general": _reduce_general,
    "reshape": _reshape,
    "reverse": _reverse,
    "scan": _scan,
    "scatter": _scatter,
    "size": _size,
    "slice": _slice,
    "sort": _sort,
    "triangular_solve": _whole(_triangular_solve),
    "view": _view,
    "view_as_complex": _view_as_complex,
    "view_as_quantized": _plain("stablehlo.bitcast_convert"),
    "view_as_real": _view_as_real,
    "view_as_storage": _plain("stablehlo.bitcast_convert"),
    "while": _while,
    "windows": _windows,
}

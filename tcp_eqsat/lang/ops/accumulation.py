"""Operations that combine elements from left to right by any scalar functions: cumulative forms, general reductions.

With k operands the functions have 2k parameters: the k values so far, then the k next elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tcp_eqsat.errors import ShapeMismatch, TypeMismatch
from tcp_eqsat.lang.dims import Size, equal, product
from tcp_eqsat.lang.op import PROCEDURAL, define_op, tensor_types
from tcp_eqsat.lang.ops.accumulate_builders import cumulative
from tcp_eqsat.lang.ops.attributes import CumulativeAttributes, ReduceGeneralAttributes
from tcp_eqsat.lang.ops.builders import (
    broadcast_scalar,
    concatenate,
    map_function,
    map_scalar,
    pad,
    reduce_axes,
    reshape,
    results_of,
    scalar_constant,
    slice_,
    splat,
    transpose,
)
from tcp_eqsat.lang.ops.elementwise import scalar_vjp
from tcp_eqsat.lang.ops.indexing import check_functions
from tcp_eqsat.lang.procedural import Array, Cell, Procedure, Scalar, Writer
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.scalar import (
    ScalarApply,
    ScalarExpr,
    ScalarFunction,
    ScalarLiteral,
    ScalarParameter,
    apply,
    literal,
)
from tcp_eqsat.lang.scalar import parameter as scalar_parameter
from tcp_eqsat.lang.scalar import scalar_op_named as _op
from tcp_eqsat.lang.types import BF16, BOOL, F16, F32, DType, TensorType, TupleType, Type


def check_operands(name: str, types: Sequence[TensorType]) -> None:
    """Raises TypeMismatch where there are none, ShapeMismatch where they have several shapes."""
    if not types:
        raise TypeMismatch(f"{name} requires at least one operand")
    for number, found in enumerate(types):
        if found.rank != types[0].rank or not all(map(equal, found.shape, types[0].shape)):
            raise ShapeMismatch(f"{name} requires operands of one shape, got {types[0]} (operand 0) and {found} "
                                f"(operand {number})")


# Sums and products of 16 bits are carried in f32

_CARRIED = {F16: F32, BF16: F32}
_ARITHMETIC = frozenset(("add", "subtract", "multiply", "negative"))


def _carried_dtype(functions: Sequence[ScalarFunction]) -> DType | None:
    """The wider dtype for functions of nothing but additions, subtractions and products in one dtype."""
    dtypes = {dtype for function in functions for dtype in function.parameters}
    for expr in (expr for function in functions for expr in function.walk()):
        if isinstance(expr, ScalarApply) and expr.op.name not in _ARITHMETIC:
            return None
        dtypes.add(expr.dtype)
    return _CARRIED.get(dtypes.pop()) if len(dtypes) == 1 else None


def _widened(function: ScalarFunction, dtype: DType) -> ScalarFunction:
    """The same function in another dtype."""
    known: dict[ScalarExpr, ScalarExpr] = {}
    for expr in function.walk():
        match expr:
            case ScalarParameter():
                known[expr] = scalar_parameter(expr.index, dtype)
            case ScalarLiteral():
                known[expr] = literal(expr.value, dtype)
            case ScalarApply():
                known[expr] = apply(expr.op, *(known[x] for x in expr.arguments))
    return ScalarFunction((dtype,) * len(function.parameters), known[function.result])


def _carrying(functions: Sequence[ScalarFunction]) -> tuple[tuple[ScalarFunction, ...], DType | None]:
    """The functions as they are carried, and the dtype where it is another one."""
    wide = _carried_dtype(functions)
    return tuple(functions) if wide is None else tuple(_widened(f, wide) for f in functions), wide


def _carried(arrays: Sequence[np.ndarray], wide: DType | None) -> list[np.ndarray]:
    return [x if wide is None else x.astype(wide.numpy) for x in arrays]


def _load_carried(w: Writer, array: Array, at: Sequence[Scalar | int], wide: DType | None) -> Scalar:
    found = w.load(array, at)
    return found if wide is None else w.convert(found, wide)


def one_or_tuple(types: Sequence[TensorType]) -> Type:
    return types[0] if len(types) == 1 else TupleType(tuple(types))


# Cumulative forms


def _infer_cumulative(operands: tuple[Type, ...], a: CumulativeAttributes) -> Type:
    types = tensor_types("cumulative", operands)
    check_operands("cumulative", types)
    if not 0 <= a.axis < types[0].rank:
        raise TypeMismatch(f"cumulative requires an axis of {types[0]}, got {a.axis}")
    if len(a.functions) != len(types):
        raise TypeMismatch(f"cumulative requires a function for each operand, got {len(a.functions)} functions and "
                           f"{len(types)} operands")
    check_functions("cumulative", a.functions, tuple(x.dtype for x in (*types, *types)))
    return one_or_tuple(types)


def _cumulative_reference(a: CumulativeAttributes, result: Type, *arrays: np.ndarray) -> Any:
    functions, wide = _carrying(a.functions)
    moved = [np.moveaxis(x, a.axis, 0) for x in _carried(arrays, wide)]
    moved = [x[::-1] if a.reverse else x for x in moved]
    found = [np.array(x) for x in moved]
    for n in range(1, len(moved[0])):
        new = [f.evaluate(*(x[n - 1] for x in found), *(x[n] for x in moved)) for f in functions]
        for x, values in zip(found, new, strict=True):
            x[n] = values
    results = tuple(np.moveaxis(x[::-1] if a.reverse else x, 0, a.axis).astype(y.dtype)
                    for x, y in zip(found, arrays, strict=True))
    return results[0] if len(results) == 1 else results


def _cumulative_procedure(a: CumulativeAttributes, operands: tuple[TensorType, ...], results: tuple[TensorType, ...]
                          ) -> Procedure:
    w = Writer(operands, results)
    shape = operands[0].shape
    length = w.extent(shape[a.axis])
    with w.loops(shape[: a.axis]) as outer:
        if a.axis + 1 == len(shape):
            _along_last_axis(w, a, outer, length)
        else:
            _along_inner_axis(w, a, outer, length)
    return w.finish()


def _step(w: Writer, a: CumulativeAttributes, length: Scalar, n: Scalar) -> Scalar:
    """The index of step n along the axis."""
    return length - 1 - n if a.reverse else n


def _along_last_axis(w: Writer, a: CumulativeAttributes, outer: Sequence[Scalar], length: Scalar) -> None:
    """The values so far are in variables."""
    functions, wide = _carrying(a.functions)
    cells: list[Cell] = [w.variable(0, wide or x.type.dtype) for x in w.operands]
    with w.loop(w.apply("minimum", length, 1)) as n:
        at = (*outer, _step(w, a, length, n))
        for x, out, cell in zip(w.operands, w.results, cells, strict=True):
            cell.set(_load_carried(w, x, at, wide))
            w.store(out, at, w.load(x, at))
    with w.loop(length - 1) as n:
        at = (*outer, _step(w, a, length, n + 1))
        elements = [_load_carried(w, x, at, wide) for x in w.operands]
        new = w.functions(functions, *(cell.get() for cell in cells), *elements)
        for out, cell, value in zip(w.results, cells, new, strict=True):
            cell.set(value)
            w.store(out, at, w.convert(value, out.type.dtype))


def _along_inner_axis(w: Writer, a: CumulativeAttributes, outer: Sequence[Scalar], length: Scalar) -> None:
    """The values so far are in a row of their own dtype, or are the row of results before."""
    functions, wide = _carrying(a.functions)
    inner = w.operands[0].type.shape[a.axis + 1:]
    rows = [] if wide is None else [w.scratch(wide, *inner) for _ in w.operands]
    with w.loop(w.apply("minimum", length, 1)) as n, w.loops(inner) as rest:
        at = (*outer, _step(w, a, length, n), *rest)
        for number, (x, out) in enumerate(zip(w.operands, w.results, strict=True)):
            w.store(out, at, w.load(x, at))
            if rows:
                w.store(rows[number], rest, _load_carried(w, x, at, wide))
    with w.loop(length - 1) as n, w.loops(inner) as rest:
        before = (*outer, _step(w, a, length, n), *rest)
        at = (*outer, _step(w, a, length, n + 1), *rest)
        known = [w.load(row, rest) for row in rows] if rows else [w.load(out, before) for out in w.results]
        new = w.functions(functions, *known, *(_load_carried(w, x, at, wide) for x in w.operands))
        for number, (out, value) in enumerate(zip(w.results, new, strict=True)):
            w.store(out, at, w.convert(value, out.type.dtype))
            if rows:
                w.store(rows[number], rest, value)


def _cumulative_derivative(node: Node, g: Any) -> tuple[Node | None, ...]:
    """Backwards: h[i] = g[i] + J[i + 1]^T h[i + 1], where J[i] is the Jacobian of step i by the values before it."""
    a: CumulativeAttributes = node.attributes
    cotangents = g if isinstance(g, tuple) else (g,)
    floats = [n for n, each in enumerate(cotangents) if each is not None]
    if not floats:
        return (None,) * len(cotangents)
    own = [cotangents[n] for n in floats]
    if len(node.operands) == 1 and a.functions[0].single_op is _op("add"):
        return (cumulative(own, a.functions, a.axis, reverse=not a.reverse)[0],)
    before = [_shifted(y, a.axis, a.reverse) for y in results_of(node)]
    jacobian, by_elements = _jacobians(node, floats, before)
    total = _backwards(jacobian, own, a)
    first = _is_first(node.operands[0], a)
    parts: list[Node | None] = [None] * len(cotangents)
    for column, n in enumerate(floats):
        later = _sum_of_products([row[column] for row in by_elements], total)
        own_part = total[column]
        parts[n] = map_scalar(_op("where"), first, own_part, later if later is not None else splat(
            0, own_part.dtype, own_part.shape))
    return tuple(parts)


def _jacobians(node: Node, floats: Sequence[int], before: Sequence[Node]
               ) -> tuple[list[list[Node | None]], list[list[Node | None]]]:
    """d (value m after a step) / d (value n before it), and by element n; [m][n], None where it is 0."""
    count = len(node.operands)
    jacobian, by_elements = [], []
    for m in floats:
        function = node.attributes.functions[m]
        one = splat(1, function.dtype, node.operands[0].shape)
        partial = [None if f is None else map_function(f, one, *before, *node.operands) for f in scalar_vjp(function)]
        jacobian.append([partial[n] for n in floats])
        by_elements.append([partial[count + n] for n in floats])
    return jacobian, by_elements


def _sum_of_products(factors: Sequence[Node | None], others: Sequence[Node]) -> Node | None:
    total: Node | None = None
    for factor, other in zip(factors, others, strict=True):
        if factor is not None:
            term = map_scalar(_op("multiply"), factor, other)
            total = term if total is None else map_scalar(_op("add"), total, term)
    return total


def _backwards(jacobian: Sequence[Sequence[Node | None]], g: Sequence[Node], a: CumulativeAttributes) -> list[Node]:
    """h[i][n] = g[i][n] + the sum over m of J[i + 1][m][n] h[i + 1][m], as a cumulative form in the other direction."""
    entries = {(m, n): _shifted(x, a.axis, not a.reverse)
               for m, row in enumerate(jacobian) for n, x in enumerate(row) if x is not None}
    operands = [*g, *entries.values()]
    dtypes = tuple(x.dtype for x in operands)
    place = {key: len(g) + n for n, key in enumerate(entries)}
    parameters = (*dtypes, *dtypes)

    def element(n: int) -> ScalarExpr:
        return scalar_parameter(len(dtypes) + n, dtypes[n])

    functions = []
    for n in range(len(g)):
        total = element(n)
        for m in range(len(g)):
            if (m, n) in place:
                total = total + element(place[m, n]) * scalar_parameter(m, dtypes[m])
        functions.append(ScalarFunction(parameters, total))
    functions += [ScalarFunction(parameters, element(n)) for n in range(len(g), len(operands))]
    return list(cumulative(operands, functions, a.axis, reverse=not a.reverse)[: len(g)])


def _shifted(x: Node, axis: int, reverse: bool) -> Node:
    """Element i - 1 at i (i + 1 for reverse), and 0 where there is none."""
    one = tuple(1 if a == axis else 0 for a in range(len(x.shape)))
    none = (0,) * len(x.shape)
    zero = scalar_constant(0, x.dtype)
    if reverse:
        padded = pad(x, zero, none, one)
        return slice_(padded, one, padded.shape)
    return slice_(pad(x, zero, one, none), none, x.shape)


def _is_first(x: Node, a: CumulativeAttributes) -> Node:
    """Where the first step is: the one without a step before it."""
    before = _shifted(splat(True, BOOL, x.shape), a.axis, a.reverse)
    return map_scalar(_op("bitwise_invert"), before)


cumulative_op = define_op(
    "cumulative", operands="x*", attributes=CumulativeAttributes, infer=_infer_cumulative,
    reference=_cumulative_reference, pointful=PROCEDURAL, procedure=_cumulative_procedure,
    derivative=_cumulative_derivative,
    doc="Everything so far along an axis, combined by scalar functions from the first element on (from the last with "
        "`reverse`): the first value is the first element, every next one the functions of the value before and the "
        "next element. Functions of nothing but additions, subtractions and products in 16 bits are carried in f32, "
        "and rounded where they are stored. Nothing comes of an axis of size 0.",
)

# General reductions


def _infer_reduce(operands: tuple[Type, ...], a: ReduceGeneralAttributes) -> Type:
    types = tensor_types("reduce_general", operands)
    count = len(a.functions)
    if not count or len(types) != 2 * count:
        raise TypeMismatch(f"reduce_general requires an operand and an initial value for each function, got {count} "
                           f"functions and {len(types)} operands")
    inputs, initial = types[:count], types[count:]
    check_operands("reduce_general", inputs)
    for n, (x, start) in enumerate(zip(inputs, initial, strict=True)):
        if start != TensorType(x.dtype, ()):
            raise TypeMismatch(f"reduce_general requires initial value {n} of type {x.dtype}[], got {start}")
    check_functions("reduce_general", a.functions, tuple(x.dtype for x in (*inputs, *inputs)))
    rank = inputs[0].rank
    if list(a.axes) != sorted(set(a.axes)) or not all(0 <= axis < rank for axis in a.axes):
        raise TypeMismatch(f"reduce_general requires distinct axes of {inputs[0]} in order, got {list(a.axes)}")
    shape = tuple(size for axis, size in enumerate(inputs[0].shape) if axis not in a.axes)
    return one_or_tuple([TensorType(x.dtype, shape) for x in inputs])


def _reduce_reference(a: ReduceGeneralAttributes, result: Type, *arrays: np.ndarray) -> Any:
    count = len(a.functions)
    functions, wide = _carrying(a.functions)
    carried = _carried(arrays, wide)
    inputs, initial = carried[:count], carried[count:]
    moved = [np.moveaxis(x, a.axes, range(len(a.axes))) for x in inputs]
    shape = moved[0].shape[len(a.axes):]
    steps = [x.reshape((int(np.prod(x.shape[: len(a.axes)])), *shape)) for x in moved]
    found = [np.broadcast_to(x, shape) for x in initial]
    for n in range(len(steps[0])):
        found = [f.evaluate(*found, *(x[n] for x in steps)) for f in functions]
    rounded = tuple(x.astype(y.dtype) for x, y in zip(found, arrays[:count], strict=True))
    return rounded[0] if count == 1 else rounded


def _reduce_procedure(a: ReduceGeneralAttributes, operands: tuple[TensorType, ...], results: tuple[TensorType, ...]
                      ) -> Procedure:
    """Elements in the order of memory; values are in variables as far as the last axes are reduced."""
    w = Writer(operands, results)
    functions, wide = _carrying(a.functions)
    count = len(a.functions)
    inputs, initial = w.operands[:count], w.operands[count:]
    shape = operands[0].shape
    innermost = len(shape)
    while innermost and innermost - 1 in a.axes:
        innermost -= 1
    totals = w.results if wide is None else tuple(w.scratch(wide, *out.type.shape) for out in w.results)
    with w.loops(results[0].shape) as at:
        for total, start in zip(totals, initial, strict=True):
            w.store(total, at, _load_carried(w, start, (), wide))
    with w.loops(shape[:innermost]) as outer:
        to = [outer[axis] for axis in range(innermost) if axis not in a.axes]
        cells = [w.variable(w.load(total, to)) for total in totals]
        with w.loops(shape[innermost:]) as rest:
            elements = [_load_carried(w, x, (*outer, *rest), wide) for x in inputs]
            for cell, value in zip(cells, w.functions(functions, *(c.get() for c in cells), *elements), strict=True):
                cell.set(value)
        for total, cell in zip(totals, cells, strict=True):
            w.store(total, to, cell.get())
    if wide is not None:
        with w.loops(results[0].shape) as at:
            for out, total in zip(w.results, totals, strict=True):
                w.store(out, at, w.convert(w.load(total, at), out.type.dtype))
    return w.finish()


def _reduce_derivative(node: Node, g: Any) -> tuple[Node | None, ...]:
    """That of the last value of the cumulative form over the initial value and the elements in a row."""
    a: ReduceGeneralAttributes = node.attributes
    count = len(a.functions)
    inputs, initial = node.operands[:count], node.operands[count:]
    cotangents = g if isinstance(g, tuple) else (g,)
    rank = len(inputs[0].shape)
    kept = tuple(axis for axis in range(rank) if axis not in a.axes)
    order = (*a.axes, *kept)
    outer = tuple(inputs[0].shape[axis] for axis in kept)
    length: Size = product(inputs[0].shape[axis] for axis in a.axes)
    rows = [concatenate((broadcast_scalar(start, (1, *outer)), reshape(transpose(x, order), (length, *outer))), 0)
            for x, start in zip(inputs, initial, strict=True)]
    whole = cumulative(rows, a.functions, 0)
    root = whole[0].operands[0] if count > 1 else whole[0]
    at_last = tuple(None if each is None else pad(
        reshape(each, (1, *outer)), scalar_constant(0, each.dtype), (length, *(0,) * len(outer)),
        (0,) * (1 + len(outer))) for each in cotangents)
    parts = _cumulative_derivative(root, at_last if count > 1 else at_last[0])
    back = tuple(order.index(axis) for axis in range(rank))
    of_inputs: list[Node | None] = []
    of_initial: list[Node | None] = []
    for part in parts:
        if part is None:
            of_inputs.append(None)
            of_initial.append(None)
            continue
        none = (0,) * len(outer)
        elements = slice_(part, (1, *none), part.shape)
        permuted = reshape(elements, tuple(inputs[0].shape[axis] for axis in order))
        of_inputs.append(transpose(permuted, back))
        start = slice_(part, (0, *none), (1, *outer))
        of_initial.append(reduce_axes(_op("add"), start, tuple(range(len(start.shape)))))
    return (*of_inputs, *of_initial)


reduce_general_op = define_op(
    "reduce_general", operands="x* initial*", attributes=ReduceGeneralAttributes, infer=_infer_reduce,
    reference=_reduce_reference, pointful=PROCEDURAL, procedure=_reduce_procedure, derivative=_reduce_derivative,
    doc="Elements combined over axes by scalar functions, from initial values on, in row-major order. Operands are the "
        "k inputs, then their initial values of rank 0, which are the results where there are no elements. Sums and "
        "products in 16 bits are carried as in `cumulative`.",
)

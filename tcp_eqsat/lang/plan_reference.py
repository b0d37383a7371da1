"""The NumPy reference of plans: what the steps of a plan compute, kernels definition by definition.

It shares no code with extraction or code generation beyond the plan's own types, so it judges both. Every index that
is really read is checked against its buffer; memory that nothing wrote reads as NaN or as a large number.
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence

import numpy as np

from tcp_eqsat.errors import ArgumentError, ShapeMismatch, VerificationError
from tcp_eqsat.lang.binding import bind_symbols
from tcp_eqsat.lang.dims import evaluate, value
from tcp_eqsat.lang.narrow import convert_array
from tcp_eqsat.lang.op import bind_sizes, regions_of
from tcp_eqsat.lang.ops.reduction import fold_axes
from tcp_eqsat.lang.plan import Buffer, Control, Definition, Kernel, Plan, Routine
from tcp_eqsat.lang.pointful import Affine, Apply, Choose, Expr, Fold, IndexRange, Literal, Operand, Position
from tcp_eqsat.lang.procedural import run
from tcp_eqsat.lang.program import Region
from tcp_eqsat.lang.scalar import evaluate_op
from tcp_eqsat.lang.types import TensorType, TupleType

Bindings = Mapping[str, int]
_LETTERS = string.ascii_letters


def evaluate_plan(
    plan: Plan, arrays: Sequence[np.ndarray], bindings: Bindings | None = None
) -> tuple[np.ndarray, ...]:
    """The plan's results on arrays of its parameters' types, in order.

    `bindings` give every symbol; without them the arrays' shapes decide. Raises ArgumentError for a wrong number of
    arrays, TypeMismatch or ShapeMismatch for wrong arrays or a guard that fails, VerificationError for an index
    outside of its buffer.
    """
    if len(arrays) != len(plan.parameters):
        raise ArgumentError(f"{plan.name} requires {len(plan.parameters)} arrays, got {len(arrays)}")
    if bindings is None:
        bindings = bind_symbols([p.name for p in plan.parameters], [p.type for p in plan.parameters], arrays)
    for guard in plan.guards:
        if not guard.check(bindings):
            raise ShapeMismatch(f"{plan.name} requires {guard}, got {dict(bindings)}")
    memory = _allocate(plan, arrays, bindings)
    for step in plan.steps:
        match step:
            case Kernel():
                _run(step, plan, memory, bindings)
            case Routine(procedure=procedure):
                _write(step, plan, memory, bindings, run(procedure, _read(step, plan, memory, bindings), bindings))
            case Control():
                operands = _read(step, plan, memory, bindings)
                _write(step, plan, memory, bindings, _controlled(step, plan, operands, bindings))
    return tuple(
        np.array(_in_shape(memory[plan.root(port.buffer).name], port.type, bindings)) for port in plan.results)


def evaluate_definitions(
    kernel: Kernel, buffers: Mapping[str, np.ndarray], bindings: Bindings
) -> dict[str, np.ndarray]:
    """The whole value of every definition of a kernel; `buffers` gives what it loads, in the buffers' shapes."""
    known: dict[str, np.ndarray] = dict(buffers)
    values: dict[str, np.ndarray] = {}
    for definition in kernel.definitions:
        known[definition.name] = values[definition.name] = _whole(definition, known, bindings)
    return values


def _allocate(plan: Plan, arrays: Sequence[np.ndarray], bindings: Bindings) -> dict[str, np.ndarray]:
    memory: dict[str, np.ndarray] = {}
    for port, array in zip(plan.parameters, arrays, strict=True):
        memory[plan.root(port.buffer).name] = np.ascontiguousarray(array, port.type.dtype.numpy)
    for buffer in plan.buffers.values():
        if plan.root(buffer.name) is not buffer or buffer.name in memory:
            continue
        memory[buffer.name] = buffer.data.array if buffer.data is not None else _unwritten(buffer, bindings)
    return memory


def _unwritten(buffer: Buffer, bindings: Bindings) -> np.ndarray:
    shape = tuple(evaluate(size, bindings) for size in buffer.type.shape)
    dtype = buffer.type.dtype
    return np.full(shape, np.nan if dtype.is_float else (1 if dtype.bits <= 8 else 0x5A5A), dtype.numpy)


def _in_shape(array: np.ndarray, type_: TensorType, bindings: Bindings) -> np.ndarray:
    return array.reshape(bind_sizes(type_, bindings).shape)


def _run(kernel: Kernel, plan: Plan, memory: dict[str, np.ndarray], bindings: Bindings) -> None:
    loaded = {name: _in_shape(memory[plan.root(name).name], plan.buffers[name].type, bindings)
              for name in kernel.loads}
    values = evaluate_definitions(kernel, loaded, bindings)
    for name, buffer in kernel.outputs:
        owner = plan.root(buffer)
        memory[owner.name] = np.array(_in_shape(values[name], owner.type, bindings))


def _read(step: Routine | Control, plan: Plan, memory: Mapping[str, np.ndarray], bindings: Bindings
          ) -> list[np.ndarray]:
    return [_in_shape(memory[plan.root(name).name], plan.buffers[name].type, bindings) for name in step.operands]


def _write(step: Routine | Control, plan: Plan, memory: dict[str, np.ndarray], bindings: Bindings,
           results: Sequence[np.ndarray]) -> None:
    for name, array in zip(step.results, results, strict=True):
        owner = plan.root(name)
        memory[owner.name] = np.array(_in_shape(array, owner.type, bindings))


def _controlled(step: Control, plan: Plan, operands: list[np.ndarray], bindings: Bindings) -> Sequence[np.ndarray]:
    """What control flow gives by its reference, with the regions' plans in place of the regions."""
    bodies = dict(zip(regions_of(step.attributes), step.bodies, strict=True))

    def run_body(region: Region, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        return evaluate_plan(bodies[region], arrays, bindings)

    reference = step.op.reference
    assert callable(reference), step.op.name
    result = bind_sizes(step.op.infer_type(
        tuple(plan.buffers[name].type for name in step.operands), step.attributes), bindings)
    found = reference(run_body, bind_sizes(step.attributes, bindings), result, *operands)
    return found if isinstance(result, TupleType) else (found,)


def _whole(definition: Definition, known: Mapping[str, np.ndarray], bindings: Bindings) -> np.ndarray:
    shape = tuple(evaluate(size, bindings) for size in definition.type.shape)
    grid = _Grid(dict(enumerate(shape)), definition.operands, known, bindings)
    found = np.asarray(grid.value(definition.expression, None), definition.type.dtype.numpy)
    return np.array(np.broadcast_to(_drop_last(found, found.ndim - len(shape)), shape))


def _drop_last(array: np.ndarray, count: int) -> np.ndarray:
    """Without the last `count` axes, all of size 1."""
    return array.reshape(array.shape[: array.ndim - count]) if count > 0 else array


class _Grid:
    """Expressions over all values of their axes at once: axis n of an index space is axis n of the arrays.

    Arrays have size 1 along axes they don't depend on. `mask` says where a value is needed (None: everywhere).
    """

    def __init__(self, extents: dict[int, int], operands: tuple[str, ...], known: Mapping[str, np.ndarray],
                 bindings: Bindings) -> None:
        self.extents = extents
        self.operands = operands
        self.known = known
        self.bindings = bindings

    @property
    def rank(self) -> int:
        return max(self.extents, default=-1) + 1

    def value(self, expr: Expr, mask: np.ndarray | None) -> np.ndarray:
        match expr:
            case Literal(literal):
                return np.full((1,) * self.rank, literal.value)
            case Position(index, dtype):
                return np.asarray(convert_array(self.index(index), dtype))
            case Apply(op, operands, dtype):
                return evaluate_op(op, dtype, *(self.value(x, mask) for x in operands))
            case Operand(number, indices):
                return self.read(self.operands[number], indices, mask)
            case Choose(ranges, inside, outside):
                chosen = self.within(ranges)
                first = self.value(inside, _both(mask, chosen))
                second = self.value(outside, _both(mask, ~chosen))
                return np.where(chosen, first, second)
            case Fold():
                return self.fold(expr, mask)

    def fold(self, fold: Fold, mask: np.ndarray | None) -> np.ndarray:
        extents = {**self.extents, **{
            axis: evaluate(size, self.bindings) for axis, size in zip(fold.bound, fold.extents, strict=True)}}
        inner = _Grid(extents, self.operands, self.known, self.bindings)
        if mask is not None:
            mask = mask.reshape(*mask.shape, *(1,) * (inner.rank - mask.ndim))
        bound = tuple(fold.bound)
        if fold.contraction and isinstance(fold.body, Apply) and fold.dtype.is_float:
            x, y = (inner.value(operand, mask) for operand in fold.body.operands)
            total = inner.sum_of_products(x, y, bound)
            return _drop_last(convert_array(total, fold.dtype), inner.rank - self.rank)
        body = inner.value(fold.body, mask)
        full = list(body.shape)
        for axis in bound:
            full[axis] = extents[axis]
        total = fold_axes(fold.op, np.broadcast_to(body, full), bound)
        return _drop_last(np.expand_dims(total, bound), inner.rank - self.rank)

    def sum_of_products(self, x: np.ndarray, y: np.ndarray, bound: tuple[int, ...]) -> np.ndarray:
        """In double precision, without the whole product in memory."""
        axes = range(self.rank)
        terms, arrays = [], []
        for array in (x, y):
            full = np.broadcast_to(array, [self.extents[a] if a in bound else array.shape[a] for a in axes])
            kept = [a for a in axes if a in bound or array.shape[a] != 1]
            arrays.append(full.reshape([full.shape[a] for a in kept]).astype(np.float64))
            terms.append("".join(_LETTERS[a] for a in kept))
        out = [a for a in axes if a not in bound and _LETTERS[a] in terms[0] + terms[1]]
        with np.errstate(all="ignore"):
            total = np.einsum(f"{','.join(terms)}->{''.join(_LETTERS[a] for a in out)}", *arrays, optimize=True)
        return np.asarray(total).reshape([self.extents[a] if a in out else 1 for a in axes])

    def index(self, index: Affine) -> np.ndarray:
        found = np.full((1,) * self.rank, value(index.offset, self.bindings), np.int64)
        for axis, coefficient in index.terms:
            shape = [1] * self.rank
            shape[axis] = -1
            found = found + np.arange(self.extents[axis]).reshape(shape) * value(coefficient, self.bindings)
        return found

    def within(self, ranges: tuple[IndexRange, ...]) -> np.ndarray:
        chosen = np.ones((1,) * self.rank, bool)
        for each in ranges:
            at = self.index(each.index)
            chosen = chosen & (at >= value(each.lower, self.bindings)) & (at < value(each.upper, self.bindings))
        return chosen

    def read(self, name: str, indices: tuple[Affine, ...], mask: np.ndarray | None) -> np.ndarray:
        array = self.known[name]
        axes = [x.single_axis for x in indices if x.single_axis is not None]
        if mask is None and len(set(axes)) == len(indices):
            return self.read_axes(name, array, axes)
        at = [self.index(x) for x in indices]
        needed = np.ones((1,) * self.rank, bool) if mask is None else mask
        for axis, positions in enumerate(at):
            outside = (positions < 0) | (positions >= array.shape[axis])
            if (outside & needed).any():
                raise VerificationError(f"{name}: index out of range along axis {axis} of {array.shape}")
        if array.size == 0:
            return np.zeros(np.broadcast_shapes((1,) * self.rank, *(x.shape for x in at)), array.dtype)
        clipped = tuple(np.clip(x, 0, n - 1) for x, n in zip(at, array.shape, strict=True))
        return np.asarray(array[clipped]) if clipped else array.reshape((1,) * self.rank)

    def read_axes(self, name: str, array: np.ndarray, axes: list[int]) -> np.ndarray:
        """The array with operand axis n along axes[n]; an index space smaller than the array reads its start."""
        shape = [1] * self.rank
        for axis, size in zip(axes, array.shape, strict=True):
            if size < self.extents[axis]:
                raise VerificationError(f"{name} of shape {array.shape} is read at {self.extents[axis]} indices")
            shape[axis] = self.extents[axis]
        used = array[tuple(slice(self.extents[axis]) for axis in axes)]
        return used.transpose(np.argsort(axes) if axes else ()).reshape(shape)


def _both(mask: np.ndarray | None, chosen: np.ndarray) -> np.ndarray:
    return chosen if mask is None else mask & chosen

"""The values of one kernel over loop axes, with every definition inlined: what a schedule starts from.

Equal values are one object. Folds have names and are read by them. An axis is a number with an extent; a fold
binds its axes, an output binds its own. Loads and indices are affine in axes, and loads are flat.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field

from tcp_eqsat.codegen.loops import (
    Apply,
    Choose,
    Constant,
    IndexValue,
    Load,
    Read,
    Value,
    walk_values,
)
from tcp_eqsat.lang import pointful
from tcp_eqsat.lang.dims import Size, less_equal
from tcp_eqsat.lang.plan import Definition, Kernel, Plan
from tcp_eqsat.lang.pointful import Affine, Expr, IndexRange, axis_index
from tcp_eqsat.lang.scalar import ScalarLiteral, ScalarOp, literal
from tcp_eqsat.lang.types import DType, TensorType

Guard = tuple[tuple[IndexRange, ...], bool]
"""Ranges, and whether the value is needed where all of them hold (or where not all do)."""

_FOLD_NAMES = {"add": "sum", "multiply": "product", "maximum": "max", "minimum": "min"}


def start_value(op: ScalarOp, dtype: DType) -> ScalarLiteral:
    """What a fold by `op` starts from, and is where there is nothing to fold."""
    assert op.identity is not None, op
    return literal(op.identity(dtype), dtype)


def _starts_at_zero(op: ScalarOp, dtype: DType) -> bool:
    """Whether the start value shows in the result: a sum of nothing but -0 is +0."""
    return op.name == "add" and dtype.is_float


@dataclass(frozen=True, eq=False, slots=True)
class FoldValue:
    """`op` over `body` for all values of `axes`. `free` are the other axes it depends on."""

    name: str
    op: ScalarOp
    axes: tuple[int, ...]
    body: Value
    fused: bool
    free: frozenset[int]

    @property
    def dtype(self) -> DType:
        return self.body.dtype


@dataclass(frozen=True, slots=True)
class Output:
    """`array[offset] = value` for all values of `axes`."""

    array: str
    axes: tuple[int, ...]
    offset: Affine
    value: Value


@dataclass
class Graph:
    """Values by what they are, folds by name (operands first), extents by axis."""

    extents: dict[int, Size] = field(default_factory=dict)
    folds: dict[str, FoldValue] = field(default_factory=dict)
    _values: dict[Hashable, Value] = field(default_factory=dict)
    _free: dict[int, frozenset[int]] = field(default_factory=dict)
    _fold_names: dict[Hashable, str] = field(default_factory=dict)

    def axis(self, extent: Size) -> int:
        """A new axis."""
        number = len(self.extents)
        self.extents[number] = extent
        return number

    def free(self, value: Value) -> frozenset[int]:
        """The axes that the value depends on."""
        return self._free[id(value)]

    def _intern(self, key: Hashable, make: Callable[[], Value], free: Iterable[int]) -> Value:
        found = self._values.get(key)
        if found is None:
            found = self._values[key] = make()
            self._free[id(found)] = frozenset(free)
        return found

    def load(self, array: str, offset: Affine, dtype: DType) -> Value:
        return self._intern(("load", array, offset), lambda: Load(array, offset, dtype), offset.axes)

    def constant(self, value: ScalarLiteral) -> Value:
        return self._intern(("constant", value), lambda: Constant(value), ())

    def index_value(self, index: Affine, dtype: DType) -> Value:
        return self._intern(("index", index, dtype), lambda: IndexValue(index, dtype), index.axes)

    def apply(self, op: ScalarOp, operands: tuple[Value, ...], dtype: DType) -> Value:
        key = ("apply", op, dtype, *map(id, operands))
        free = frozenset().union(*(self.free(x) for x in operands))
        return self._intern(key, lambda: Apply(op, operands, dtype), free)

    def choose(self, ranges: tuple[IndexRange, ...], inside: Value, outside: Value) -> Value:
        """The choice; just one side where the ranges decide it for all indices."""
        needed = tuple(r for r in ranges if not self._always(r))
        if not needed or inside is outside:
            return inside
        if any(self._never(r) for r in needed):
            return outside
        free = self.free(inside) | self.free(outside) | {a for r in needed for a in r.index.axes}
        key = ("choose", needed, id(inside), id(outside))
        return self._intern(key, lambda: Choose(needed, inside, outside), free)

    def fold(self, op: ScalarOp, axes: tuple[int, ...], body: Value, fused: bool) -> Value:
        """What reads the fold; one without axes is its body."""
        if not axes:
            zero = self.constant(start_value(op, body.dtype))
            return self.apply(op, (zero, body), body.dtype) if _starts_at_zero(op, body.dtype) else body
        key = (op, axes, id(body), fused)
        if key not in self._fold_names:
            name = f"{_FOLD_NAMES.get(op.name, op.name)}{len(self.folds) + 1}"
            self._fold_names[key] = name
            self.folds[name] = FoldValue(name, op, axes, body, fused, self.free(body) - frozenset(axes))
        found = self.folds[self._fold_names[key]]
        return self._intern(("read", found.name), lambda: Read(found.name, found.dtype), found.free)

    def read(self, name: str, dtype: DType, free: frozenset[int]) -> Value:
        """What a Let is called."""
        return self._intern(("read", name), lambda: Read(name, dtype), free)

    def row(self, array: str, offset: Affine, dtype: DType, free: frozenset[int]) -> Load:
        """A load from a scratch array, which depends on what the value depends on that it keeps."""
        load = self._intern(("load", array, offset), lambda: Load(array, offset, dtype), free)
        assert isinstance(load, Load)
        return load

    def rebuild(self, value: Value, operands: tuple[Value, ...]) -> Value:
        """The value with other operands."""
        match value:
            case Apply(op, _, dtype):
                return self.apply(op, operands, dtype)
            case Choose(ranges):
                return self.choose(ranges, *operands)
            case _:
                return value

    def _limits(self, index: Affine) -> tuple[Size, Size] | None:
        """The least and greatest value of the index, where all its coefficients are numbers."""
        low = high = index.offset
        for axis, coefficient in index.terms:
            if not isinstance(coefficient, int):
                return None
            most = coefficient * (self.extents[axis] - 1)
            low, high = (low, high + most) if coefficient > 0 else (low + most, high)
        return low, high

    def _always(self, r: IndexRange) -> bool:
        limits = self._limits(r.index)
        return limits is not None and (
            less_equal(r.lower, limits[0]) is True and less_equal(limits[1] + 1, r.upper) is True)

    def _never(self, r: IndexRange) -> bool:
        limits = self._limits(r.index)
        return limits is not None and (
            less_equal(limits[1] + 1, r.lower) is True or less_equal(r.upper, limits[0]) is True)

    def reachable_folds(self, *roots: Value) -> tuple[FoldValue, ...]:
        """The folds that the roots need, at any depth, operands first."""
        needed: set[str] = set()
        pending = list(roots)
        while pending:
            for value in walk_values(pending.pop()):
                if isinstance(value, Read) and value.name in self.folds and value.name not in needed:
                    needed.add(value.name)
                    pending.append(self.folds[value.name].body)
        return tuple(fold for name, fold in self.folds.items() if name in needed)


def rewrite(graph: Graph, outputs: tuple[Output, ...], index: Callable[[Affine], Affine],
            extents: dict[int, Size]) -> tuple[Graph, tuple[Output, ...]]:
    """The same values with every index replaced; `extents` are those of the axes that remain.

    A bound axis that `index` turns into a constant or into another axis is dropped or renamed.
    """
    new = Graph(extents=extents)
    done: dict[int, Value] = {}

    def convert(root: Value) -> Value:
        for value in walk_values(root):
            if id(value) not in done:
                done[id(value)] = _rebuild(new, value, done, index)
        return done[id(root)]

    def bound(axes: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(dict.fromkeys(a for axis in axes for a in index(axis_index(axis)).axes))

    for fold in graph.folds.values():
        read = new.fold(fold.op, bound(fold.axes), convert(fold.body), fold.fused)
        done[id(graph.fold(fold.op, fold.axes, fold.body, fold.fused))] = read
    converted = tuple(
        Output(o.array, bound(o.axes), index(o.offset), convert(o.value)) for o in outputs)
    return new, converted


def _rebuild(new: Graph, value: Value, done: dict[int, Value], index: Callable[[Affine], Affine]) -> Value:
    match value:
        case Load(array, offset, dtype):
            return new.load(array, index(offset), dtype)
        case Constant(number):
            return new.constant(number)
        case IndexValue(place, dtype):
            return new.index_value(index(place), dtype)
        case Apply(op, operands, dtype):
            return new.apply(op, tuple(done[id(x)] for x in operands), dtype)
        case Choose(ranges, inside, outside):
            moved = tuple(IndexRange(index(r.index), r.lower, r.upper) for r in ranges)
            return new.choose(moved, done[id(inside)], done[id(outside)])
        case Read(name):
            raise AssertionError(f"{name} is converted with its fold")


def all_indices(graph: Graph, outputs: tuple[Output, ...]) -> tuple[Affine, ...]:
    """Every distinct index or offset in the graph."""
    found: dict[Affine, None] = dict.fromkeys(o.offset for o in outputs)
    roots = [o.value for o in outputs] + [f.body for f in graph.folds.values()]
    for value in walk_values(*roots):
        match value:
            case Load(offset=offset):
                found[offset] = None
            case IndexValue(index=index):
                found[index] = None
            case Choose(ranges=ranges):
                found.update(dict.fromkeys(r.index for r in ranges))
            case _:
                pass
    return tuple(found)


# Inlining --------------------------------------------------------------------------------------------------------


def strides_of(type_: TensorType) -> tuple[Size, ...]:
    """Elements between neighbours along each axis of C-contiguous memory."""
    strides: list[Size] = []
    step: Size = 1
    for extent in reversed(type_.shape):
        strides.append(step)
        step = step * extent
    return tuple(reversed(strides))


def flat_offset(indices: tuple[Affine, ...], type_: TensorType) -> Affine:
    """The element at `indices` of C-contiguous memory."""
    offset = Affine()
    for index, stride in zip(indices, strides_of(type_), strict=True):
        offset = offset + index.scaled(stride)
    return offset


def inline_kernel(kernel: Kernel, plan: Plan) -> tuple[Graph, tuple[Output, ...]]:
    """The kernel's outputs as values over fresh axes. Arrays are named by the buffers that own the memory."""
    return _Inliner(kernel, plan).run()


_Instance = tuple[str, tuple[Affine, ...], tuple[Guard, ...]]


class _Inliner:
    """Definitions are used at one or more indices each; every such instance is expanded once.

    Users come after operands, so that one pass from the last definition to the first finds all instances, and a
    pass in the other direction builds their values.
    """

    def __init__(self, kernel: Kernel, plan: Plan) -> None:
        self.kernel = kernel
        self.plan = plan
        self.graph = Graph()
        self.definitions = {d.name: d for d in kernel.definitions}
        self.has_fold: dict[str, bool] = {}
        self.requests: dict[str, dict[_Instance, None]] = {d.name: {} for d in kernel.definitions}
        self.built: dict[_Instance, Value] = {}
        self.bound: dict[tuple[_Instance, int], tuple[int, ...]] = {}

    def run(self) -> tuple[Graph, tuple[Output, ...]]:
        for definition in self.kernel.definitions:
            self.has_fold[definition.name] = any(
                isinstance(x, pointful.Fold)
                or (isinstance(x, pointful.Operand) and self.has_fold.get(definition.operands[x.number], False))
                for x in pointful.walk_expr(definition.expression))
        roots = []
        for name, buffer in self.kernel.outputs:
            axes = tuple(self.graph.axis(extent) for extent in self.definitions[name].type.shape)
            roots.append((buffer, axes, self.instance(name, tuple(map(axis_index, axes)), ())))
        for definition in reversed(self.kernel.definitions):
            for instance in tuple(self.requests[definition.name]):
                _Expansion(self, definition, instance).request()
        for definition in self.kernel.definitions:
            for instance in self.requests[definition.name]:
                self.built[instance] = _Expansion(self, definition, instance).value()
        outputs = tuple(
            Output(self.plan.root(buffer).name, axes,
                   flat_offset(tuple(map(axis_index, axes)), self.plan.buffers[buffer].type), self.built[instance])
            for buffer, axes, instance in roots)
        return self.graph, outputs

    def instance(self, name: str, indices: tuple[Affine, ...], guards: tuple[Guard, ...]) -> _Instance:
        """The definition at `indices`, asked for. Guards matter to folds only: they are computed ahead."""
        instance = (name, indices, guards if self.has_fold[name] else ())
        self.requests[name][instance] = None
        return instance

    def fold_axes(self, instance: _Instance, fold: pointful.Fold) -> tuple[int, ...]:
        """The axes that a fold binds in an instance, the same when it is asked again."""
        key = (instance, id(fold))
        if key not in self.bound:
            self.bound[key] = tuple(self.graph.axis(extent) for extent in fold.extents)
        return self.bound[key]


class _Expansion:
    """One definition's expression at one instance's indices."""

    def __init__(self, inliner: _Inliner, definition: Definition, instance: _Instance) -> None:
        self.inliner = inliner
        self.graph = inliner.graph
        self.definition = definition
        self.instance = instance

    def request(self) -> None:
        """Asks for the instances of operands."""
        _, indices, guards = self.instance
        self._request(self.definition.expression, dict(enumerate(indices)), guards)

    def value(self) -> Value:
        _, indices, guards = self.instance
        return self._value(self.definition.expression, dict(enumerate(indices)), guards)

    def _inside_fold(self, fold: pointful.Fold, at: dict[int, Affine]) -> dict[int, Affine]:
        axes = self.inliner.fold_axes(self.instance, fold)
        return {**at, **{fold.first + n: axis_index(a) for n, a in enumerate(axes)}}

    def _request(self, root: Expr, at: dict[int, Affine], guards: tuple[Guard, ...]) -> None:
        for expr in _same_scope(root):
            match expr:
                case pointful.Operand(number, indices):
                    name = self.definition.operands[number]
                    if name in self.inliner.definitions:
                        self.inliner.instance(name, tuple(i.substitute(at) for i in indices), guards)
                case pointful.Choose(ranges, inside, outside):
                    moved = _moved(ranges, at)
                    self._request(inside, at, (*guards, (moved, True)))
                    self._request(outside, at, (*guards, (moved, False)))
                case pointful.Fold(body=body):
                    self._request(body, self._inside_fold(expr, at), guards)
                case _:
                    pass

    def _value(self, root: Expr, at: dict[int, Affine], guards: tuple[Guard, ...]) -> Value:
        done: dict[int, Value] = {}
        for expr in _same_scope(root):
            done[id(expr)] = self._build(expr, at, guards, done)
        return done[id(root)]

    def _build(self, expr: Expr, at: dict[int, Affine], guards: tuple[Guard, ...], done: dict[int, Value]) -> Value:
        graph = self.graph
        match expr:
            case pointful.Operand(number, indices, dtype):
                return self._operand(self.definition.operands[number], tuple(i.substitute(at) for i in indices),
                                     guards, dtype)
            case pointful.Literal(number):
                return graph.constant(number)
            case pointful.Position(index, dtype):
                return graph.index_value(index.substitute(at), dtype)
            case pointful.Apply(op, operands, dtype):
                return graph.apply(op, tuple(done[id(x)] for x in operands), dtype)
            case pointful.Choose(ranges, inside, outside):
                moved = _moved(ranges, at)
                chosen = self._value(inside, at, (*guards, (moved, True)))
                return graph.choose(moved, chosen, self._value(outside, at, (*guards, (moved, False))))
            case pointful.Fold(op, _, _, body, contraction):
                value = self._guarded(self._value(body, self._inside_fold(expr, at), guards), op, guards)
                return graph.fold(op, self.inliner.fold_axes(self.instance, expr), value, contraction)

    def _operand(self, name: str, indices: tuple[Affine, ...], guards: tuple[Guard, ...], dtype: DType) -> Value:
        if name in self.inliner.definitions:
            return self.inliner.built[self.inliner.instance(name, indices, guards)]
        plan = self.inliner.plan
        return self.graph.load(plan.root(name).name, flat_offset(indices, plan.buffers[name].type), dtype)

    def _guarded(self, body: Value, op: ScalarOp, guards: tuple[Guard, ...]) -> Value:
        """The body of a fold that is computed before the choice it stands in: nothing where it isn't needed.

        Only ranges that share an axis with the body can keep its loads inside their arrays.
        """
        nothing = self.graph.constant(start_value(op, body.dtype))
        for ranges, inside in reversed(guards):
            related = tuple(r for r in ranges if not self.graph.free(body).isdisjoint(r.index.axes))
            if inside and related:
                body = self.graph.choose(related, body, nothing)
            elif related:
                body = self.graph.choose(ranges, nothing, body)
        return body


def _moved(ranges: tuple[IndexRange, ...], at: dict[int, Affine]) -> tuple[IndexRange, ...]:
    return tuple(IndexRange(r.index.substitute(at), r.lower, r.upper) for r in ranges)


def _same_scope(root: Expr) -> Iterator[Expr]:
    """The subexpressions of `root`, operands first, without what stands inside folds and choices."""
    seen: set[int] = set()
    stack: list[tuple[Expr, bool]] = [(root, False)]
    while stack:
        expr, expanded = stack.pop()
        if expanded:
            yield expr
        elif id(expr) not in seen:
            seen.add(id(expr))
            stack.append((expr, True))
            if isinstance(expr, pointful.Apply):
                stack.extend((x, False) for x in reversed(expr.operands))

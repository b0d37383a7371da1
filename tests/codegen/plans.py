"""Plans by hand: definitions in pointful form, as extraction writes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tcp_eqsat.lang.dims import Size, symbols_of
from tcp_eqsat.lang.narrow import convert_array
from tcp_eqsat.lang.plan import Buffer, Definition, Kernel, Plan, Port, Role
from tcp_eqsat.lang.pointful import (
    Affine,
    Apply,
    Choose,
    Expr,
    Fold,
    IndexRange,
    Literal,
    Operand,
    Position,
    axis_index,
)
from tcp_eqsat.lang.program import TensorData
from tcp_eqsat.lang.scalar import literal, scalar_op_named
from tcp_eqsat.lang.types import DType, TensorType, dtype_named, integer_range

I, J, K, L, M, N = map(axis_index, range(6))  # noqa: E741


def tensor(dtype: str, *shape: Size) -> TensorType:
    return TensorType(dtype_named(dtype), shape)


def apply(name: str, *operands: Expr) -> Apply:
    op = scalar_op_named(name)
    return Apply(op, operands, op.result_dtype(*(x.dtype for x in operands)))


def number(value: float, dtype: str = "f32") -> Literal:
    return Literal(literal(value, dtype_named(dtype)))


def position(index: Affine, dtype: str) -> Position:
    return Position(index, dtype_named(dtype))


def fold(name: str, first: int, extents: tuple[Size, ...], body: Expr, contraction: bool = False) -> Fold:
    return Fold(scalar_op_named(name), extents, first, body, contraction)


def choose(index: Affine, lower: Size, upper: Size, inside: Expr, outside: Expr) -> Choose:
    return Choose((IndexRange(index, lower, upper),), inside, outside)


Body = Callable[[Callable[..., Operand]], Expr]


class PlanWriter:
    """Collects buffers and kernels. Every name is a definition or a buffer; its type is given once."""

    def __init__(self) -> None:
        self.types: dict[str, TensorType] = {}
        self.buffers: dict[str, Buffer] = {}
        self.kernels: list[Kernel] = []
        self.parameters: list[str] = []

    def parameter(self, name: str, type_: TensorType) -> None:
        self.buffer(name, type_, Role.PARAMETER)
        self.parameters.append(name)

    def constant(self, name: str, array: np.ndarray) -> None:
        data = TensorData(array)
        type_ = TensorType(data.dtype, data.shape)
        self.types[name] = type_
        self.buffers[name] = Buffer(name, type_, Role.CONSTANT, data=data)

    def buffer(self, name: str, type_: TensorType, role: Role, alias: str | None = None) -> None:
        self.types[name] = type_
        self.buffers[name] = Buffer(name, type_, role, alias)

    def define(self, name: str, type_: TensorType, body: Body) -> Definition:
        operands: list[str] = []

        def read(operand: str, *indices: Affine) -> Operand:
            if operand not in operands:
                operands.append(operand)
            return Operand(operands.index(operand), indices, self.types[operand].dtype)

        self.types[name] = type_
        return Definition(name, type_, body(read), tuple(operands))

    def kernel(self, outputs: dict[str, Role], *definitions: tuple[str, TensorType, Body]) -> None:
        """A kernel that stores each definition named in `outputs` in a buffer `NAME_out`."""
        written = tuple(self.define(*d) for d in definitions)
        for name, role in outputs.items():
            self.buffer(f"{name}_out", self.types[name], role)
        stored = tuple((name, f"{name}_out") for name in outputs)
        self.kernels.append(Kernel(f"k{len(self.kernels)}", written, stored))

    def plan(self, *results: str) -> Plan:
        """The plan whose results are the buffers of these definitions, by default all result buffers."""
        names = [f"{name}_out" for name in results] or [
            b.name for b in self.buffers.values() if b.role is Role.RESULT]
        symbols = symbols_of(*(size for b in self.buffers.values() for size in b.type.shape))
        return Plan(
            "plan", tuple(Port(n, self.types[n], n) for n in self.parameters),
            tuple(Port(n, self.types[n], n) for n in names), self.buffers, tuple(self.kernels), symbols)


def single(parameters: dict[str, TensorType], *definitions: tuple[str, TensorType, Body],
           outputs: tuple[str, ...] = ()) -> Plan:
    """A plan of one kernel; its results are `outputs`, by default the last definition."""
    writer = PlanWriter()
    for name, type_ in parameters.items():
        writer.parameter(name, type_)
    names = outputs or (definitions[-1][0],)
    writer.kernel(dict.fromkeys(names, Role.RESULT), *definitions)
    return writer.plan(*names)


def frozen(plan: Plan, arrays: dict[str, np.ndarray]) -> Plan:
    """The plan with some parameters as constants."""
    buffers = {
        name: replace(b, role=Role.CONSTANT, data=TensorData(arrays[name])) if name in arrays else b
        for name, b in plan.buffers.items()}
    return replace(plan, buffers=buffers, parameters=tuple(p for p in plan.parameters if p.name not in arrays))


def random_array(dtype: DType, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    if dtype.is_float:
        return convert_array(rng.standard_normal(shape), dtype)
    least, most = integer_range(dtype)
    return convert_array(rng.integers(max(least, -20), min(most + 1, 20), shape), dtype)

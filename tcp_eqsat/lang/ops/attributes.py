"""The attributes of every operation: frozen, typed, hashable."""

from __future__ import annotations

from dataclasses import dataclass

from tcp_eqsat.lang.program import Region, TensorData
from tcp_eqsat.lang.scalar import ScalarFunction, ScalarOp
from tcp_eqsat.lang.types import Shape, TensorType


@dataclass(frozen=True, slots=True)
class ParameterAttributes:
    """Parameter `index` of the enclosing function or region, with the caller's name for it."""

    name: str
    index: int
    type: TensorType


@dataclass(frozen=True, slots=True)
class ConstantAttributes:
    data: TensorData


@dataclass(frozen=True, slots=True)
class IotaAttributes:
    type: TensorType
    axis: int


@dataclass(frozen=True, slots=True)
class MapAttributes:
    function: ScalarFunction


@dataclass(frozen=True, slots=True)
class ReduceAttributes:
    """Labels 0..rank-1 are the axes of the result, labels from rank on are reduced; `extents` of all labels.

    labels[a] is the label that operand axis a runs along, or -1: index 0 of an axis of size 1.
    """

    operation: ScalarOp
    labels: tuple[int, ...]
    extents: Shape
    rank: int


@dataclass(frozen=True, slots=True)
class ContractAttributes:
    """out[labels < rank] = sum over labels >= rank of x[lhs] * y[rhs]; `extents` of all labels.

    lhs[a], rhs[a] are the labels along which the operands' axes run, or -1: index 0 of an axis of size 1.
    """

    lhs: tuple[int, ...]
    rhs: tuple[int, ...]
    extents: Shape
    rank: int


@dataclass(frozen=True, slots=True)
class ViewAttributes:
    """labels[a] is the result axis that operand axis a runs along, or -1: index 0 of an axis of size 1."""

    labels: tuple[int, ...]
    shape: Shape


@dataclass(frozen=True, slots=True)
class ReshapeAttributes:
    shape: Shape


@dataclass(frozen=True, slots=True)
class SliceAttributes:
    """Per axis the first index, the bound that is not reached, and the step (a positive int)."""

    starts: Shape
    limits: Shape
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ConcatenateAttributes:
    axis: int


@dataclass(frozen=True, slots=True)
class PadAttributes:
    """How many elements to add before and after each axis (not negative)."""

    low: Shape
    high: Shape


@dataclass(frozen=True, slots=True)
class CompositeAttributes:
    """A named operation that carries its own body; `region.parameters` have the operands' types."""

    name: str
    region: Region


@dataclass(frozen=True, slots=True)
class ProjectAttributes:
    """Which result of a node with several."""

    index: int

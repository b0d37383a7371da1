"""The attributes of every operation: frozen, typed, hashable."""

from __future__ import annotations

from dataclasses import dataclass

from tcp_eqsat.lang.dims import Size
from tcp_eqsat.lang.program import Region, TensorData
from tcp_eqsat.lang.quantized import QuantizedDType
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
    """The value: dtype, shape and bits."""

    data: TensorData


@dataclass(frozen=True, slots=True)
class IotaAttributes:
    """The `type` of the result, of any dtype but bool, and the `axis` whose index it holds."""

    type: TensorType
    axis: int


@dataclass(frozen=True, slots=True)
class SizeAttributes:
    """The size, an expression over the symbols of the program."""

    size: Size


@dataclass(frozen=True, slots=True)
class MapAttributes:
    """`function` has a parameter for each operand, of its dtype; its dtype is the result's."""

    function: ScalarFunction


@dataclass(frozen=True, slots=True)
class ReduceAttributes:
    """`operation` is associative and has a start value. Labels 0..rank-1 are the axes of the result, labels from rank
    on are reduced; `extents` of all labels.

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
    """The shape of the result."""

    shape: Shape


@dataclass(frozen=True, slots=True)
class SliceAttributes:
    """Per axis the first index, the bound that is not reached, and the step (a positive int)."""

    starts: Shape
    limits: Shape
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ConcatenateAttributes:
    """The axis along which operands follow each other."""

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


# Indexing by values


@dataclass(frozen=True, slots=True)
class WindowAxes:
    """How windows of an operand, at starts that a tensor of indices gives, lie in a tensor of windows.

    window_axes       axes of the tensor of windows that run inside a window, along the operand axes that are neither
                      in dropped_axes nor in batch_axes; the others number the windows, as those of the indices do
    dropped_axes      operand axes along which a window has size 1 and no axis of its own
    batch_axes        operand axes that run along axes of the indices: window n lies at index n
    index_batch_axes  these axes of the indices
    start_axes        the operand axis that each component of a start is for; along other axes a window starts at 0
    component_axis    the axis of the indices along which the components lie; their rank: a start is one number
    clamped           whether starts are moved so that windows lie inside
    """

    window_axes: tuple[int, ...]
    dropped_axes: tuple[int, ...]
    batch_axes: tuple[int, ...]
    index_batch_axes: tuple[int, ...]
    start_axes: tuple[int, ...]
    component_axis: int
    clamped: bool


@dataclass(frozen=True, slots=True)
class GatherAttributes(WindowAxes):
    """`sizes` of a window along each operand axis."""

    sizes: Shape


@dataclass(frozen=True, slots=True)
class ScatterAttributes(WindowAxes):
    """With k inputs, function n gives result n from the k values that are there and the k updates."""

    functions: tuple[ScalarFunction, ...]


@dataclass(frozen=True, slots=True)
class DynamicSliceAttributes:
    """`sizes` of the window along each axis."""

    sizes: Shape


# Along an axis


@dataclass(frozen=True, slots=True)
class CumulativeAttributes:
    """With k operands, function n gives value n from k values so far and the k next ones along `axis`."""

    functions: tuple[ScalarFunction, ...]
    axis: int
    reverse: bool


@dataclass(frozen=True, slots=True)
class ReduceGeneralAttributes:
    """With k operands, function n gives value n from k values so far and the k next ones along `axes`."""

    functions: tuple[ScalarFunction, ...]
    axes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SortAttributes:
    """With k operands, `function` tells of k left and k right values whether left comes before right."""

    function: ScalarFunction
    axis: int


@dataclass(frozen=True, slots=True)
class SearchSortedAttributes:
    """`right`: past equal values."""

    right: bool


# Windows


@dataclass(frozen=True, slots=True)
class ReverseAttributes:
    """Different axes, in ascending order."""

    axes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WindowsAttributes:
    """Per entry of `axes`: the size of a window, from one window to the next, from one of its elements to the next."""

    axes: tuple[int, ...]
    sizes: Shape
    strides: tuple[int, ...]
    dilations: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OverlapAddAttributes(WindowsAttributes):
    """`extents` of the axes that the windows were taken along."""

    extents: Shape


# Linear algebra


@dataclass(frozen=True, slots=True)
class CholeskyAttributes:
    """`lower`: L with a = L L^H is wanted and the lower triangle is read, otherwise U with a = U^H U and the upper."""

    lower: bool


@dataclass(frozen=True, slots=True)
class TriangularSolveAttributes:
    """op(a) x = b, or x op(a) = b where `left` is false, where a is `lower` triangular or upper.

    op transposes (`transposed`) and conjugates (`conjugated`); with `unit_diagonal` the diagonal counts as 1.
    """

    left: bool
    lower: bool
    unit_diagonal: bool
    transposed: bool
    conjugated: bool


@dataclass(frozen=True, slots=True)
class FftAttributes:
    """`inverse`: with the other sign in the exponent; nothing is divided."""

    inverse: bool


# Control


@dataclass(frozen=True, slots=True)
class IfAttributes:
    """What runs where operand 0 is true, then what runs where it is false.

    The operands after it are captures: the parameters of both regions.
    """

    regions: tuple[Region, ...]


@dataclass(frozen=True, slots=True)
class CaseAttributes:
    """Region n runs where operand 0 is n, the last one where it is out of range.

    The operands after it are captures: the parameters of every region.
    """

    regions: tuple[Region, ...]


@dataclass(frozen=True, slots=True)
class WhileAttributes:
    """The first `count` operands are the state, the others captures; both regions have them all as parameters.

    `condition` gives one bool[], `body` the next state.
    """

    condition: Region
    body: Region
    count: int


@dataclass(frozen=True, slots=True)
class ScanAttributes:
    """Operands are `carries` values, then `sequences` whose leading axis has size `length`, then captures.

    The parameters of `body` are the carries, a slice of each sequence, the captures; its results the next carries, then
    slices that are stacked along a new leading axis. With `reverse` steps go from the last slice to the first.
    """

    body: Region
    carries: int
    sequences: int
    length: Size
    reverse: bool


# Quantisation


@dataclass(frozen=True, slots=True)
class QuantizationAttributes:
    """The quantised dtype: storage, expressed dtype, scales and zero points, one of all or one for each index along an
    axis, and the range of what is stored."""

    dtype: QuantizedDType

"""The table of tensor operations. Everything an operation is, in one place, every field required.

Type inference, the e-graph's constructors, the NumPy reference, the loops, derivatives, text and documentation
all derive from an `Op`.
"""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tcp_eqsat.errors import ShapeMismatch, TypeMismatch, UnknownName
from tcp_eqsat.lang.dims import Dim, Size, bounds, evaluate, substitute
from tcp_eqsat.lang.pointful import Expr
from tcp_eqsat.lang.procedural import Procedure
from tcp_eqsat.lang.program import Node, Region, walk
from tcp_eqsat.lang.scalar import NOT_DIFFERENTIABLE, _NotDifferentiable
from tcp_eqsat.lang.types import Kind, Shape, TensorType, TupleType, Type, format_shape

Vjp = Callable[[Node, Any], tuple["Node | None", ...]]


class _Expanded:
    """In place of a meaning: the operation is defined by what `expand` turns it into."""

    def __repr__(self) -> str:
        return "EXPANDED"


EXPANDED: Final = _Expanded()


class _Procedural:
    """In place of a pointful form: no index expression says the value, `procedure` does."""

    def __repr__(self) -> str:
        return "PROCEDURAL"


PROCEDURAL: Final = _Procedural()


class _InRegions:
    """In place of a pointful form or derivative: the operation runs the regions among its attributes."""

    def __repr__(self) -> str:
        return "IN_REGIONS"


IN_REGIONS: Final = _InRegions()


class _TakenApart:
    """In place of a pointful form: the operation is about complex or quantised values, which `apart` removes."""

    def __repr__(self) -> str:
        return "TAKEN_APART"


TAKEN_APART: Final = _TakenApart()


Pointful = (
    Callable[[Any, tuple[TensorType, ...], TensorType], Expr] | _Expanded | _Procedural | _InRegions | _TakenApart)


@dataclass(frozen=True, eq=False)
class Op:
    """One tensor operation. Equality is identity.

    operands    their names; one that ends in * stands for any number
    attributes  the frozen dataclass of its attributes, or None
    infer       (operand types, attributes) -> result type; raises TypeMismatch or ShapeMismatch
    reference   (attributes, result type, *arrays) -> array (a tuple of arrays where the result type is a TupleType);
                sizes in attributes and type are ints by then. Where the pointful form is IN_REGIONS a function comes
                first that runs a region: (region, *arrays) -> tuple of arrays
    pointful    (attributes, operand types, result type) -> Expr, or PROCEDURAL, IN_REGIONS, TAKEN_APART
    derivative  (node, cotangent of its result) -> cotangent of each operand (None: none), or NOT_DIFFERENTIABLE; where
                there are several results, a tuple of cotangents, None for results that have none by their dtype.
                IN_REGIONS: made of the derivatives of the regions, by `lang.grad`
    expand      node -> an equal node of other operations, for operations defined by a body (reference, pointful
                form and derivative are EXPANDED then)
    procedure   (attributes, operand types, result types) -> Procedure, where the pointful form is PROCEDURAL; operands
                and results are in memory, and dtypes are real (complex values are taken apart before)
    """

    name: str
    operands: tuple[str, ...]
    attributes: type | None
    infer: Callable[[tuple[Type, ...], Any], Type] = field(repr=False)
    reference: Callable[..., Any] | _Expanded = field(repr=False)
    pointful: Pointful = field(repr=False)
    derivative: Vjp | _NotDifferentiable | _Expanded | _InRegions = field(repr=False)
    doc: str = field(repr=False)
    expand: Callable[[Node], Node] | None = field(default=None, repr=False)
    procedure: Callable[[Any, tuple[TensorType, ...], tuple[TensorType, ...]], Procedure] | None = field(
        default=None, repr=False)

    def __post_init__(self) -> None:
        if (self.procedure is None) is (self.pointful is PROCEDURAL):
            raise ValueError(f"operation {self.name} requires a procedure where its pointful form is PROCEDURAL, only")

    @functools.cached_property
    def arity(self) -> int | None:
        """The number of operands, or None for any number."""
        return None if any(name.endswith("*") for name in self.operands) else len(self.operands)

    def _check_quantized(self, operand: TensorType) -> None:
        """Raises TypeMismatch where the operation would compute with a quantised tensor, or move axes with scales."""
        if self.name in MOVEMENT:
            if getattr(operand.dtype, "axis", None) is not None:
                raise TypeMismatch(f"{self.name} requires one scale for all of {operand}: take view_as_storage of it")
        elif self.pointful not in (TAKEN_APART, EXPANDED, IN_REGIONS):
            raise TypeMismatch(f"{self.name} requires arithmetic, which {operand} lacks: dequantize it")

    def infer_type(self, operands: tuple[Type, ...], attributes: Any) -> Type:
        """The result type; raises TypeMismatch for a wrong number of operands or kind of attributes."""
        if self.arity is not None and len(operands) != self.arity:
            raise TypeMismatch(f"{self.name} requires {self.arity} operands, got {len(operands)}")
        if self.attributes is None:
            if attributes is not None:
                raise TypeMismatch(f"{self.name} takes no attributes, got {attributes}")
        elif not isinstance(attributes, self.attributes):
            raise TypeMismatch(f"{self.name} requires {self.attributes.__name__}, got {attributes!r}")
        for found in operands:
            if isinstance(found, TensorType) and found.dtype.kind is Kind.QUANTIZED:
                self._check_quantized(found)
        result = self.infer(operands, attributes)
        for each in (result,) if isinstance(result, TensorType) else result.items:
            check_sizes(self.name, each.shape)
        return result


def check_sizes(name: str, shape: Shape) -> None:
    """Raises TypeMismatch for a size that is no int or Dim, ShapeMismatch for one that is always negative."""
    for size in shape:
        if type(size) is int:
            if size < 0:
                raise ShapeMismatch(f"{name} requires sizes of at least 0, got {format_shape(shape)}")
        elif not isinstance(size, Dim):
            raise TypeMismatch(f"{name} requires sizes that are ints or symbolic, got {size!r}")
        elif bounds(size)[1] < 0:
            raise ShapeMismatch(f"{name} requires sizes of at least 0, got {format_shape(shape)}")


OPS: dict[str, Op] = {}
MOVEMENT = frozenset((
    "view", "reshape", "slice", "concatenate", "pad", "gather", "dynamic_slice", "dynamic_update_slice", "reverse",
    "windows", "optimization_barrier"))
"""Operations that only move elements: of complex tensors they move both parts, of quantised ones the integers."""


def define_op(name: str, operands: str, **definition: Any) -> Op:
    """Define an operation of operands called as in `operands`, "x y", and enter it in the table."""
    if name in OPS:
        raise ValueError(f"operation {name} is defined twice")
    if not definition["doc"].strip():
        raise ValueError(f"operation {name} has no documentation")
    op = Op(name, tuple(operands.split()), **definition)
    OPS[name] = op
    return op


def op_named(name: str) -> Op:
    """The operation called `name`; raises UnknownName."""
    try:
        return OPS[name]
    except KeyError:
        raise UnknownName(f"unknown operation {name!r}") from None


def tensor_types(name: str, operands: tuple[Type, ...]) -> tuple[TensorType, ...]:
    """The operand types, which must all be tensors; raises TypeMismatch."""
    for number, found in enumerate(operands):
        if not isinstance(found, TensorType):
            raise TypeMismatch(f"{name} requires tensors, operand {number} is {found}")
    return typing.cast(tuple[TensorType, ...], operands)


@functools.lru_cache(maxsize=None)
def size_fields(attributes: type) -> tuple[str, ...]:
    """The names of an attribute class's fields that hold sizes (annotated Size, Shape or TensorType)."""
    hints = typing.get_type_hints(attributes)
    return tuple(
        f.name for f in dataclasses.fields(attributes) if hints[f.name] in (Size, Shape, TensorType)
    )


def map_sizes(value: Any, change: Callable[[Size], Size]) -> Any:
    """A size, shape or type with `change` applied to every size."""
    if isinstance(value, tuple):
        return tuple(map(change, value))
    if isinstance(value, TensorType):
        return TensorType(value.dtype, tuple(map(change, value.shape)))
    if isinstance(value, TupleType):
        return TupleType(tuple(map_sizes(item, change) for item in value.items))
    return change(value)


def map_own_sizes(attributes: Any, change: Callable[[Size], Size]) -> Any:
    """Attributes with `change` applied to every size in them, those inside of regions left out."""
    if attributes is None:
        return None
    names = size_fields(attributes.__class__)
    if not names:
        return attributes
    changed = {name: map_sizes(getattr(attributes, name), change) for name in names}
    return dataclasses.replace(attributes, **changed)


def map_attribute_sizes(attributes: Any, change: Callable[[Size], Size]) -> Any:
    """Attributes with `change` applied to every size in them, and in the nodes of their regions."""
    return map_regions(map_own_sizes(attributes, change), lambda region: _with_sizes(region, change))


@functools.lru_cache(maxsize=None)
def region_fields(attributes: type) -> tuple[str, ...]:
    """The names of an attribute class's fields that hold a region or a tuple of regions."""
    hints = typing.get_type_hints(attributes)
    return tuple(f.name for f in dataclasses.fields(attributes)
                 if hints[f.name] is Region or Region in typing.get_args(hints[f.name]))


def regions_of(attributes: Any) -> tuple[Region, ...]:
    """The regions among attributes, in the order of the fields."""
    found: list[Region] = []
    for name in region_fields(attributes.__class__) if dataclasses.is_dataclass(attributes) else ():
        value = getattr(attributes, name)
        found.extend(value if isinstance(value, tuple) else (value,))
    return tuple(found)


def map_regions(attributes: Any, change: Callable[[Region], Region]) -> Any:
    """Attributes with `change` applied to each of their regions."""
    names = region_fields(attributes.__class__) if dataclasses.is_dataclass(attributes) else ()
    if not names:
        return attributes
    values = {name: getattr(attributes, name) for name in names}
    return dataclasses.replace(attributes, **{
        name: tuple(map(change, value)) if isinstance(value, tuple) else change(value)
        for name, value in values.items()})


def _with_sizes(region: Region, change: Callable[[Size], Size]) -> Region:
    values: dict[Node, Node] = {}
    for node in walk((*region.parameters, *region.results)):
        values[node] = Node.make(
            node.op, tuple(values[x] for x in node.operands), map_attribute_sizes(node.attributes, change))
    return Region(tuple(values[x] for x in region.parameters), tuple(values[x] for x in region.results))


def bind_sizes(value: Any, bindings: Mapping[str, int]) -> Any:
    """A shape, type or attributes with symbols replaced by numbers; regions keep theirs, for they run with bindings."""
    change = functools.partial(evaluate, bindings=bindings)
    if dataclasses.is_dataclass(value) and not isinstance(value, (TensorType, TupleType)):
        return map_own_sizes(value, change)
    return map_sizes(value, change)


def substitute_sizes(value: Any, mapping: Mapping[str, Size]) -> Any:
    """A shape, type or attributes with symbols replaced by sizes."""
    change = functools.partial(substitute, mapping=mapping)
    if dataclasses.is_dataclass(value) and not isinstance(value, (TensorType, TupleType)):
        return map_attribute_sizes(value, change)
    return map_sizes(value, change)


__all__ = [
    "EXPANDED", "IN_REGIONS", "NOT_DIFFERENTIABLE", "OPS", "PROCEDURAL", "TAKEN_APART", "Op", "bind_sizes",
    "define_op",
    "map_attribute_sizes", "map_regions", "op_named", "regions_of", "size_fields", "substitute_sizes", "tensor_types",
]

"""Attribute terms of patterns: typed variables, constants, and functions with a Python meaning.

An attribute term stands where an operation has an attribute (labels, a shape, an axis, a scalar operation). The
left side of a rule has variables and constants; replacements and conditions may also apply attribute functions to
what was matched. A function that does not apply gives None, and then the rule does not apply either.
"""

from __future__ import annotations

import enum
import functools
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tcp_eqsat.errors import RuleError
from tcp_eqsat.lang.dims import Size, equal
from tcp_eqsat.lang.op import op_named
from tcp_eqsat.lang.scalar import ScalarOp
from tcp_eqsat.lang.types import Shape, TensorType

if TYPE_CHECKING:
    from tcp_eqsat.rules.pattern import TensorVariable


class Sort(enum.Enum):
    """What an attribute term stands for, with the Python type of its values."""

    INTS = "ints"            # tuple[int, ...]: labels, strides
    SHAPE = "shape"          # tuple[Size, ...]: shapes, extents, starts, limits, paddings
    SIZE = "size"            # Size
    INT = "int"              # int: axes, ranks
    OPERATION = "operation"  # ScalarOp
    TYPE = "type"            # TensorType
    NUMBER = "number"        # the value of a splat, a NumPy scalar of its dtype
    TENSOR = "tensor"        # a tensor variable; functions are given its TensorType
    TRUTH = "truth"          # bool: results of conditions


_SORT_OF_HINT: dict[Any, Sort] = {
    tuple[int, ...]: Sort.INTS, Shape: Sort.SHAPE, int: Sort.INT, ScalarOp: Sort.OPERATION,
    TensorType: Sort.TYPE, Size: Sort.SIZE,
}


@functools.cache
def attribute_sorts(op_name: str) -> tuple[tuple[str, Sort], ...]:
    """Name and sort of each attribute of an operation, in order; raises RuleError where patterns can't hold one."""
    attributes = op_named(op_name).attributes
    if attributes is None:
        return ()
    sorts = []
    for name, hint in typing.get_type_hints(attributes).items():
        if hint not in _SORT_OF_HINT:
            raise RuleError(f"{op_name} can't stand in a pattern: attribute {name} has no sort")
        sorts.append((name, _SORT_OF_HINT[hint]))
    return tuple(sorts)


@dataclass(frozen=True, slots=True)
class AttributeVariable:
    """Stands for any value of its sort; the same variable stands for the same value everywhere in a rule."""

    name: str
    sort: Sort

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class AttributeConstant:
    """A fixed value. Numbers are told apart as they are written in bits: 0.0 is not -0.0, 1 is 1.0, True is not 1."""

    sort: Sort
    key: Any
    value: Any = field(compare=False)

    def __str__(self) -> str:
        if self.sort is Sort.OPERATION:
            return str(self.value.name)
        return repr(self.value) if not isinstance(self.value, tuple) else _tuple_text(map(str, self.value))


@dataclass(frozen=True, slots=True)
class AttributeApply:
    """A function of attribute terms."""

    function: AttributeFunction
    arguments: tuple[AttributeArgument, ...]

    @property
    def sort(self) -> Sort:
        return self.function.result

    def __str__(self) -> str:
        return f"{self.function.name}({', '.join(map(str, self.arguments))})"


AttributeTerm = AttributeVariable | AttributeConstant | AttributeApply
AttributeArgument = typing.Union[AttributeTerm, "TensorVariable"]


def _tuple_text(items: typing.Iterable[str]) -> str:
    texts = list(items)
    return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"


def constant(value: Any, sort: Sort) -> AttributeConstant:
    """The constant term of a Python value."""
    if sort is Sort.NUMBER:
        return AttributeConstant(sort, _number_key(value), value)
    if sort in (Sort.INTS, Sort.SHAPE):
        value = tuple(value)
    return AttributeConstant(sort, value, value)


def _number_key(value: Any) -> str:
    if isinstance(value, bool):
        return str(value)
    number = float(value)
    if number.is_integer() and not (number == 0 and str(number)[0] == "-"):
        return str(int(value))
    return str(number)


def term(value: Any, sort: Sort) -> AttributeTerm:
    """A term of `sort` from a term or a Python value; raises RuleError for a term of another sort."""
    value = getattr(value, "attribute_term", value)
    if isinstance(value, (AttributeVariable, AttributeConstant, AttributeApply)):
        if value.sort is not sort:
            raise RuleError(f"{value} is of sort {value.sort.value} where {sort.value} is required")
        return value
    if sort is Sort.TENSOR or (sort is Sort.OPERATION) != isinstance(value, ScalarOp):
        raise RuleError(f"{value} can't stand where a term of sort {sort.value} is required")
    return constant(value, sort)


@dataclass(frozen=True, slots=True)
class AttributeFunction:
    """A named function of attributes: sorts of arguments and result, and what it means in Python.

    `meaning` takes values (TensorType for a tensor variable) and returns the value, or None where it has none.
    `is_of_dtype` says that it is a truth about one tensor that depends on nothing but the dtype.
    """

    name: str
    sorts: tuple[Sort, ...]
    result: Sort
    meaning: Callable[..., Any] = field(compare=False, repr=False)
    doc: str = field(compare=False, repr=False, default="")
    is_of_dtype: bool = field(compare=False, repr=False, default=False)

    def __call__(self, *arguments: Any) -> AttributeApply:
        if len(arguments) != len(self.sorts):
            raise RuleError(f"{self.name} requires {len(self.sorts)} arguments, got {len(arguments)}")
        return AttributeApply(self, tuple(
            _argument(x, sort, self.name) for x, sort in zip(arguments, self.sorts, strict=True)))


def _argument(value: Any, sort: Sort, name: str) -> AttributeArgument:
    if sort is not Sort.TENSOR:
        return term(value, sort)
    if not getattr(value, "is_tensor_variable", False):
        raise RuleError(f"{name} requires a tensor variable, got {value}")
    return typing.cast("TensorVariable", value)


def attribute_function(*sorts: Sort, result: Sort) -> Callable[[Callable[..., Any]], AttributeFunction]:
    """Decorator: a Python function of values becomes an attribute function of its name."""

    def define(meaning: Callable[..., Any]) -> AttributeFunction:
        return AttributeFunction(meaning.__name__, sorts, result, meaning, (meaning.__doc__ or "").strip())

    return define


def evaluate_term(x: AttributeArgument, values: Mapping[str, Any]) -> Any:
    """The value of a term where `values` binds every variable (tensor variables to types); None where it has none."""
    match x:
        case AttributeConstant():
            return x.value
        case AttributeApply():
            arguments = [evaluate_term(each, values) for each in x.arguments]
            return None if any(each is None for each in arguments) else x.function.meaning(*arguments)
        case _:
            return values[x.name]


def variables_of(x: AttributeArgument) -> Iterator[AttributeVariable | TensorVariable]:
    """Every variable in a term, in order, repeated where it is."""
    match x:
        case AttributeConstant():
            return
        case AttributeApply():
            for each in x.arguments:
                yield from variables_of(each)
        case _:
            yield x


def same_value(left: Any, right: Any) -> bool:
    """Whether two attribute values are provably equal (sizes may be symbolic)."""
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(same_value, left, right))
    if isinstance(left, (ScalarOp, TensorType)) or isinstance(right, (ScalarOp, TensorType)):
        return bool(left == right)
    return bool(equal(left, right))

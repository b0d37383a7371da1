"""Programs from Python functions: `spec`, `trace`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tcp_eqsat.errors import ArgumentError, ParseError, TypeMismatch
from tcp_eqsat.frontends.traced import Traced, lift
from tcp_eqsat.lang.dims import INT64_MAX, LARGEST, Dim, symbol
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.ops.attributes import ParameterAttributes
from tcp_eqsat.lang.program import Function, Node, Program, walk
from tcp_eqsat.lang.type_text import parse_type
from tcp_eqsat.lang.types import TensorType

Range = tuple[int, int] | tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Spec:
    """The type of one argument: `spec("f32[b, 16]", b=(1, 512))`."""

    text: str
    ranges: Mapping[str, Range]


def spec(text: str, **ranges: Range) -> Spec:
    """An argument's type as text. Names are symbolic sizes, shared by all specs of one trace.

    A keyword gives a symbol's range (lower, upper), ends included, or (lower, upper, divisor); the default
    is 0 to 2**31 - 1. Raises ArgumentError for a range of another form.
    """
    for name, given in ranges.items():
        if not isinstance(given, tuple) or len(given) not in (2, 3) or not all(type(n) is int for n in given):
            raise ArgumentError(
                f"the range of {name} must be (lower, upper) or (lower, upper, divisor), got {given!r}")
        if given[0] < 0 or given[1] > INT64_MAX:
            raise ArgumentError(f"the range of {name} must be within 0..2**63 - 1, got {given!r}")
    return Spec(text, ranges)


def spec_types(specs: tuple[Spec | str | TensorType, ...]) -> tuple[TensorType, ...]:
    """The types of specs under one set of symbols.

    Raises ArgumentError where they contradict each other, ParseError and UnknownName for malformed ones.
    """
    ranges: dict[str, Range] = {}
    for item in specs:
        if isinstance(item, Spec):
            for name, given in item.ranges.items():
                if ranges.setdefault(name, given) != given:
                    raise ArgumentError(f"size {name} has two ranges: {ranges[name]} and {given}")
    symbols: dict[str, Dim] = {}

    def lookup(name: str) -> Dim:
        if name not in symbols:
            symbols[name] = symbol(name, *ranges.get(name, (0, LARGEST)))
        return symbols[name]

    types = []
    for item in specs:
        text = item.text if isinstance(item, Spec) else item
        if not isinstance(text, (str, TensorType)):
            raise ArgumentError(f"a spec is written like spec('f32[b, 16]'), got {text!r}")
        types.append(text if isinstance(text, TensorType) else _spelled(text, lookup))
    unused = set(ranges) - set(symbols)
    if unused:
        raise ArgumentError(f"size {min(unused)} has a range but no spec mentions it")
    return tuple(types)


def _spelled(text: str, lookup: Callable[[str], Dim]) -> TensorType:
    """The type that a spec spells; an error within a size names the whole spec."""
    try:
        return parse_type(text, lookup)
    except ParseError as error:
        shown = text if len(text) <= 80 else f"{text[:77]}..."
        raise error if error.where is None else ParseError(f"spec {shown!r}: {error.message}") from None


def trace(function: Callable[..., Any], *specs: Spec | str | TensorType, name: str | None = None,
          names: Sequence[str] | None = None) -> Program:
    """The program that `function` computes on arguments of these types.

    The function is called once, with traced tensors; it returns one tensor, or a tuple or list of them. Parameters
    are named as in its signature, or by `names`. Raises TypeMismatch and ShapeMismatch where an operation does not
    type, ArgumentError for a wrong number of specs.
    """
    types = spec_types(specs)
    names = parameter_names(function, len(types)) if names is None else tuple(names)
    if len(names) != len(types) or len(set(names)) != len(names) or not all(
            isinstance(each, str) and each for each in names):
        raise ArgumentError(f"trace requires {len(types)} distinct names, got {list(names)}")
    if name is not None and not (isinstance(name, str) and name.isidentifier()):
        raise ArgumentError(f"the name of a program must be an identifier, got {name!r}")
    parameters = tuple(builders.parameter(n, i, t) for i, (n, t) in enumerate(zip(names, types, strict=True)))
    returned = function(*map(Traced, parameters))
    results: tuple[Node, ...] = (
        tuple(map(_result, returned)) if isinstance(returned, (tuple, list)) else (_result(returned),))
    _check_closed(parameters, results)
    title: str = name or getattr(function, "__name__", None) or "main"
    title = title if title.isidentifier() else "main"
    return Program({title: Function(title, parameters, results, dict(zip(parameters, names, strict=True)))})


def _check_closed(parameters: tuple[Node, ...], results: tuple[Node, ...]) -> None:
    """Raises TypeMismatch where a value of the body of a loop or branch has left it."""
    foreign = next((x for x in walk(results) if isinstance(x.attributes, ParameterAttributes) and x not in parameters),
                   None)
    if foreign is not None:
        raise TypeMismatch(
            f"a value of type {foreign.type} belongs to the body of a loop, of a transformed function or of another "
            "trace: return it from there to use it outside")


def _result(value: Any) -> Node:
    if not isinstance(value, (Traced, Node)) and not hasattr(value, "__array__") and not isinstance(
            value, (bool, int, float)):
        raise TypeMismatch(f"a traced function must return tensors, got {type(value).__name__}")
    return lift(value)


def parameter_names(function: Callable[..., Any], count: int) -> tuple[str, ...]:
    """The names of `count` positional arguments in the function's signature; raises ArgumentError."""
    try:
        signature = inspect.signature(function)
        bound = signature.bind(*range(count))
    except ValueError:
        return tuple(f"arg{i}" for i in range(count))
    except TypeError as error:
        raise ArgumentError(f"{getattr(function, '__name__', 'function')} does not take {count} arguments: {error}"
                            ) from None
    names: list[str] = []
    for key, value in bound.arguments.items():
        names.extend([f"{key}{i}" for i in range(len(value))] if isinstance(value, tuple) else [key])
    return tuple(names)

"""The NumPy reference: what a program means, one operation at a time.

Sums and contractions of floats accumulate in double precision; f32 transcendental functions are computed in double
precision and rounded once. Results that disagree with this module within the tier's tolerance are wrong.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tcp_eqsat.errors import ArgumentError, ShapeMismatch, TypeMismatch
from tcp_eqsat.lang.binding import bind_symbols
from tcp_eqsat.lang.op import IN_REGIONS, bind_sizes
from tcp_eqsat.lang.ops.structure import expand
from tcp_eqsat.lang.program import Function, Node, Region, walk
from tcp_eqsat.lang.types import TensorType, TupleType, Type


def evaluate_nodes(
    roots: Iterable[Node], values: Mapping[Node, Any], bindings: Mapping[str, int]
) -> dict[Node, Any]:
    """The value of everything the roots depend on: an array, or a tuple of arrays where there are several results.

    `values` gives the parameters (and may give any other node), `bindings` every symbol. Composites must be
    expanded. Raises TypeMismatch where a parameter has no value.
    """
    known: dict[Node, Any] = dict(values)
    pending = tuple(roots)
    for node in walk(pending):
        if node in known:
            continue
        attributes = bind_sizes(node.attributes, bindings) if node.attributes is not None else None
        result: Type = bind_sizes(node.type, bindings)
        reference = node.op.reference
        assert callable(reference), f"{node.op.name} must be expanded before evaluation"
        run = (functools.partial(_run, bindings=bindings),) if node.op.pointful is IN_REGIONS else ()
        with np.errstate(all="ignore"):
            found = reference(*run, attributes, result, *(known[x] for x in node.operands))
        if isinstance(result, TupleType):
            known[node] = tuple(_checked(node, *each) for each in zip(result.items, found, strict=True))
        else:
            known[node] = _checked(node, result, found)
    return known


def _run(region: Region, *arrays: np.ndarray, bindings: Mapping[str, int]) -> tuple[np.ndarray, ...]:
    """The results of a region on arrays for its parameters."""
    known = evaluate_nodes(region.results, dict(zip(region.parameters, arrays, strict=True)), bindings)
    return tuple(known[x] for x in region.results)


def _checked(node: Node, type_: TensorType, found: Any) -> np.ndarray:
    value = np.asarray(found)
    if value.shape != type_.shape or value.dtype != type_.dtype.numpy:
        raise TypeMismatch(f"{node.op.name} has type {type_} but its reference gave {value.dtype}{value.shape}")
    return value


def evaluate(function: Function, arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """The function's results on arrays, in order.

    Raises ArgumentError for a wrong number of arrays, TypeMismatch or ShapeMismatch for a wrong dtype, rank or
    size, and ShapeMismatch where a guard of the function fails.
    """
    if len(arrays) != len(function.parameters):
        raise ArgumentError(f"{function.name} requires {len(function.parameters)} arrays, got {len(arrays)}")
    types = [x.tensor_type for x in function.parameters]
    bindings = bind_symbols(function.parameter_names, types, arrays)
    for guard in function.guards:
        if not guard.check(bindings):
            raise ShapeMismatch(f"{function.name} requires {guard.left} == {guard.right}, got {dict(bindings)}")
    expanded = expand(function.results)
    roots = [expanded[x] for x in function.results]
    values = dict(zip(function.parameters, map(np.asarray, arrays), strict=True))
    known = evaluate_nodes(roots, values, bindings)
    return tuple(np.array(known[root]) for root in roots)


def _in_order(function: Function, arrays: Sequence[np.ndarray], named: Mapping[str, np.ndarray]
              ) -> Sequence[np.ndarray]:
    if not named:
        return arrays
    wanted = function.parameter_names[len(arrays):]
    if set(named) != set(wanted):
        required = ", ".join(wanted) or "no more"
        raise ArgumentError(f"{function.name} requires {required} by name, got {', '.join(named)}")
    return [*arrays, *(named[name] for name in wanted)]


def reference(function: Function) -> Callable[..., np.ndarray | tuple[np.ndarray, ...]]:
    """The function as a Python callable: one array for one result, a tuple for several.

    Arrays go by position or by the parameters' names; raises ArgumentError for other ones, and what `evaluate` raises.
    """

    def call(*arrays: np.ndarray, **named: np.ndarray) -> np.ndarray | tuple[np.ndarray, ...]:
        results = evaluate(function, _in_order(function, arrays, named))
        return results[0] if len(results) == 1 else results

    call.__name__ = function.name
    call.__doc__ = f"NumPy reference of {function}."
    return call

"""Programs with some of their freedom taken away: parameters frozen to arrays, symbols to sizes, and calls of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tcp_eqsat.errors import ShapeMismatch, TypeMismatch, UnknownName
from tcp_eqsat.lang.binding import bind_symbols
from tcp_eqsat.lang.dims import LARGEST, Guard, Size, Symbol, bounds, divides, equal, substitute, symbol_dim, symbols_of
from tcp_eqsat.lang.op import substitute_sizes
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.ops.regions import same_type
from tcp_eqsat.lang.program import Function, Node, Region, walk


def substitute_symbols(function: Function, mapping: Mapping[str, Size]) -> Function:
    """The function with sizes in place of symbols; raises ShapeMismatch where a guard is known to fail."""
    values = _rebuilt(function.parameters + function.results, mapping, {})
    guards = []
    for guard in function.guards:
        changed = Guard(substitute(guard.left, mapping), substitute(guard.right, mapping))
        if isinstance(changed.left, int) and isinstance(changed.right, int):
            if changed.left != changed.right:
                raise ShapeMismatch(f"{function.name} requires {guard.left} == {guard.right}, got {dict(mapping)}")
        else:
            guards.append(changed)
    return Function(
        function.name, tuple(values[x] for x in function.parameters), tuple(values[x] for x in function.results),
        {values[k]: v for k, v in function.names.items() if k in values},
        {values[k]: v for k, v in function.locations.items() if k in values}, tuple(guards))


def _rebuilt(roots: tuple[Node, ...], mapping: Mapping[str, Size], known: dict[Node, Node]) -> dict[Node, Node]:
    for node in walk(roots):
        if node in known:
            continue
        attributes = node.attributes
        if mapping and attributes is not None:
            attributes = substitute_sizes(attributes, mapping)
        known[node] = Node.make(node.op, tuple(known[x] for x in node.operands), attributes)
    return known


def freeze(function: Function, constants: Mapping[str, np.ndarray]) -> Function:
    """The function with the named parameters replaced by constants; the others keep their order.

    Raises UnknownName for a name that is no parameter, TypeMismatch or ShapeMismatch for an array that does not fit
    its parameter. A symbol that a constant's shape decides becomes that size everywhere.
    """
    if not constants:
        return function
    unknown = [name for name in constants if name not in function.parameter_names]
    if unknown:
        known = ", ".join(function.parameter_names)
        raise UnknownName(f"{function.name} has no parameter {unknown[0]!r}; its parameters are {known}")
    frozen = [x for x in function.parameters if x.attributes.name in constants]
    arrays = [np.asarray(constants[x.attributes.name]) for x in frozen]
    bindings = bind_symbols([x.attributes.name for x in frozen], [x.tensor_type for x in frozen], arrays)
    sized = substitute_symbols(function, bindings) if bindings else function
    replacement: dict[Node, Node] = {}
    kept: list[Node] = []
    for x in sized.parameters:
        name = x.attributes.name
        if name in constants:
            replacement[x] = builders.constant(np.asarray(constants[name]))
        else:
            replacement[x] = builders.parameter(name, len(kept), x.tensor_type)
            kept.append(replacement[x])
    values = _rebuilt(sized.results, {}, dict(replacement))
    return Function(
        sized.name, tuple(kept), tuple(values[x] for x in sized.results),
        {values[k]: v for k, v in sized.names.items() if k in values},
        {values[k]: v for k, v in sized.locations.items() if k in values}, sized.guards)


def call(function: Function, *operands: Node) -> tuple[Node, ...]:
    """The function's results on operands, as a composite with its name. Its symbols become the operands' sizes.

    Raises TypeMismatch for operands of other types, ShapeMismatch where an operand's sizes are not provably what the
    function requires of them.
    """
    if len(operands) != len(function.parameters):
        raise TypeMismatch(f"{function.name} requires {len(function.parameters)} operands, got {len(operands)}")
    mapping: dict[str, Size] = {}
    for x, operand in zip(function.parameters, operands, strict=True):
        if x.dtype != operand.dtype or len(x.shape) != len(operand.shape):
            raise TypeMismatch(
                f"argument {x.attributes.name!r} of {function.name} must be {x.type}, got {operand.type}")
        for required, found in zip(x.shape, operand.shape, strict=True):
            for each in symbols_of(required):
                if required is symbol_dim(each) and each.name not in mapping:
                    _check_admitted(function, each, found)
                    mapping[each.name] = found
    untold = [each.name for each in function.symbols if each.name not in mapping]
    if untold:
        raise ShapeMismatch(f"the operands of {function.name} do not tell {' and '.join(untold)}")
    made = substitute_symbols(function, mapping)
    for guard in made.guards:
        if not equal(guard.left, guard.right):
            raise ShapeMismatch(f"{function.name} requires {guard.left} == {guard.right}, which is not provable here")
    for x, operand in zip(made.parameters, operands, strict=True):
        if not same_type(x.type, operand.type):
            raise ShapeMismatch(
                f"argument {x.attributes.name!r} of {function.name} must be {x.type}, got {operand.type}")
    return builders.results_of(builders.composite(function.name, Region(made.parameters, made.results), *operands))


def _check_admitted(function: Function, symbol: Symbol, size: Size) -> None:
    """Raises ShapeMismatch where a size is not provably one that the symbol may have (the default has no upper end)."""
    low, high = bounds(size)
    if low < symbol.lower or (high > symbol.upper != LARGEST) or not divides(symbol.divisor, size):
        raise ShapeMismatch(f"{function.name} requires {symbol.requirement()}, got {size}")

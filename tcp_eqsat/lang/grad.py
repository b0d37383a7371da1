"""Derivatives of functions, by reverse accumulation over the operation table. The result is a function again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tcp_eqsat.errors import TypeMismatch, UnknownName
from tcp_eqsat.lang.ops.builders import map_scalar, parameter, scalar_constant, splat
from tcp_eqsat.lang.ops.structure import expand
from tcp_eqsat.lang.program import Function, Node, walk
from tcp_eqsat.lang.scalar import NOT_DIFFERENTIABLE, scalar_op_named

Wrt = str | Sequence[str] | None


def grad(function: Function, wrt: Wrt = None, *, cotangents: bool = False) -> Function:
    """The gradients of a function of one floating-point result of rank 0.

    The parameters are the function's, the results one gradient for each of `wrt`, of its parameter's type. With
    `cotangents` the function may have any results: a parameter for the cotangent of each floating-point one follows.

    wrt   names of floating-point parameters: one, or several in the order of the gradients; None means all of them

    Gradients of parameters that the result does not depend on are zeros. Raises UnknownName for a name that is no
    parameter, TypeMismatch for one that is not of a floating-point dtype and for results that need `cotangents`, and
    ShapeMismatch where an index into symbolic sizes of some intricacy can't be proven to be in range.
    """
    targets = _targets(function, wrt)
    if cotangents:
        seeds = _seeds(function)
        parameters = (*function.parameters, *(seed for seed in seeds if seed is not None))
    else:
        result = function.results[0] if len(function.results) == 1 else None
        if result is None or result.shape or not result.dtype.is_float:
            found = ", ".join(str(x.type) for x in function.results)
            raise TypeMismatch(
                f"grad requires one floating-point result of rank 0, got ({found}); give cotangents, or sum the result")
        seeds = (scalar_constant(1, result.dtype),)
        parameters = function.parameters
    gradients = accumulate(function.results, seeds, targets)
    return _named(Function(f"{function.name}_grad", parameters, gradients, guards=function.guards), function, targets)


def vjp(function: Function, wrt: Wrt = None) -> Function:
    """The function's results, then the gradients of `wrt` under given cotangents of the results.

    The parameters are the function's, then one for the cotangent of each floating-point result, of its type. `wrt`
    and errors are those of `grad`.
    """
    targets = _targets(function, wrt)
    seeds = _seeds(function)
    gradients = accumulate(function.results, seeds, targets)
    parameters = (*function.parameters, *(seed for seed in seeds if seed is not None))
    made = Function(f"{function.name}_vjp", parameters, (*function.results, *gradients), guards=function.guards)
    return _named(made, function, targets)


def accumulate(
    results: Iterable[Node], seeds: Iterable[Node | None], targets: Sequence[Node]
) -> tuple[Node, ...]:
    """The gradient of each target where `seeds` are the cotangents of `results` (None: none)."""
    results = tuple(results)
    expanded = expand(results)
    roots = tuple(expanded[x] for x in results)
    order = list(walk(roots))
    active = set(targets)
    for node in order:
        if any(x in active for x in node.operands):
            active.add(node)
    add = scalar_op_named("add")
    total: dict[Node, Node] = {}

    def contribute(node: Node, part: Node | None) -> None:
        if part is not None and node in active and node.dtype.is_float:
            known = total.get(node)
            total[node] = part if known is None else map_scalar(add, known, part)

    for root, seed in zip(roots, seeds, strict=True):
        contribute(root, seed)
    for node in reversed(order):
        derivative = node.op.derivative
        if node not in total or not node.operands or derivative is NOT_DIFFERENTIABLE:
            continue
        assert callable(derivative), f"{node.op.name} must be expanded before differentiation"
        for operand, part in zip(node.operands, derivative(node, total[node]), strict=True):
            contribute(operand, part)
    return tuple(total[x] if x in total else splat(0, x.dtype, x.shape) for x in targets)


def _targets(function: Function, wrt: Wrt) -> tuple[Node, ...]:
    if wrt is None:
        return tuple(x for x in function.parameters if x.dtype.is_float)
    known = dict(zip(function.parameter_names, function.parameters, strict=True))
    targets = []
    for name in wrt if isinstance(wrt, Sequence) and not isinstance(wrt, str) else (wrt,):
        if name not in known:
            raise UnknownName(f"{function.name} has no parameter {name!r}; its parameters are {', '.join(known)}")
        if not known[name].dtype.is_float:
            raise TypeMismatch(f"grad requires floating-point parameters, {name!r} is {known[name].type}")
        targets.append(known[name])
    return tuple(targets)


def _seeds(function: Function) -> tuple[Node | None, ...]:
    """A parameter for the cotangent of each floating-point result, None for the others."""
    taken = set(function.parameter_names)
    index = len(function.parameters)
    seeds: list[Node | None] = []
    for number, result in enumerate(function.results):
        if not result.dtype.is_float:
            seeds.append(None)
            continue
        name = "cotangent" if len(function.results) == 1 else f"cotangent{number}"
        while name in taken:
            name += "_"
        taken.add(name)
        seeds.append(parameter(name, index, result.tensor_type))
        index += 1
    return tuple(seeds)


def _named(made: Function, source: Function, targets: Sequence[Node]) -> Function:
    """The function with the source's names and places for what it keeps, and `grad_x` for the gradient of x."""
    kept = set(made.nodes())
    names = {node: name for node, name in source.names.items() if node in kept}
    for target, gradient in zip(targets, made.results[len(made.results) - len(targets):], strict=True):
        names.setdefault(gradient, f"grad_{target.attributes.name}")
    locations = {node: place for node, place in source.locations.items() if node in kept}
    return Function(made.name, made.parameters, made.results, names, locations, made.guards)

"""Derivatives of functions, by reverse accumulation over the operation table. The result is a function again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tcp_eqsat.errors import TypeMismatch, UnknownName
from tcp_eqsat.lang.grad_control import control_vjp, dependents, has_cotangent, with_carries_saved
from tcp_eqsat.lang.loops import raise_counted
from tcp_eqsat.lang.op import IN_REGIONS
from tcp_eqsat.lang.ops.builders import map_scalar, parameter, project, scalar_constant, splat
from tcp_eqsat.lang.ops.control import scan_op
from tcp_eqsat.lang.ops.structure import expand, project_op
from tcp_eqsat.lang.program import Function, Node, result_types, walk
from tcp_eqsat.lang.scalar import NOT_DIFFERENTIABLE, scalar_op_named
from tcp_eqsat.lang.types import TensorType, TupleType

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
    function = raise_counted(function)
    targets = targets_of(function, wrt)
    if cotangents:
        seeds = _seeds(function)
        parameters = (*function.parameters, *(seed for seed in seeds if seed is not None))
    else:
        result = function.results[0] if len(function.results) == 1 else None
        if result is None or result.shape or not result.dtype.is_differentiable:
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
    function = raise_counted(function)
    targets = targets_of(function, wrt)
    seeds = _seeds(function)
    pulled = pull_back(function.results, seeds, targets)
    parameters = (*function.parameters, *(seed for seed in seeds if seed is not None))
    results = tuple(pulled.values.get(x, x) for x in function.results)
    made = Function(f"{function.name}_vjp", parameters, (*results, *pulled.gradients), guards=function.guards)
    return _named(made, function, targets, pulled.values)


@dataclass(frozen=True)
class Pulled:
    """Gradients, and what became of the nodes of the function: scans on the way keep values for the way back."""

    gradients: tuple[Node, ...]
    values: Mapping[Node, Node]


def accumulate(
    results: Iterable[Node], seeds: Iterable[Node | None], targets: Sequence[Node]
) -> tuple[Node, ...]:
    """The gradient of each target where `seeds` are the cotangents of `results` (None: none)."""
    return pull_back(results, seeds, targets).gradients


def pull_back(results: Iterable[Node], seeds: Iterable[Node | None], targets: Sequence[Node]) -> Pulled:
    """`accumulate`, and the nodes that compute the results without doing again what the gradients do."""
    results, seeds = tuple(results), tuple(seeds)
    expanded = expand(results)
    roots = tuple(expanded[x] for x in results)
    changed, saved = _remember([x for x, seed in zip(roots, seeds, strict=True) if seed is not None], targets)
    roots = _rebuilt(roots, changed)
    order = list(walk(roots))
    active = dependents(roots, targets)
    add = scalar_op_named("add")
    total: dict[Node, Node] = {}
    of_results: dict[Node, dict[int, Node]] = {}

    def contribute(node: Node, part: Node | None) -> None:
        if part is not None and node in active and has_cotangent(node.type):
            known = total.get(node)
            total[node] = part if known is None else map_scalar(add, known, part)

    for root, seed in zip(roots, seeds, strict=True):
        contribute(root, seed)
    for node in reversed(order):
        derivative = node.op.derivative
        if node.op is project_op and node in total:
            of_results.setdefault(node.operands[0], {})[node.attributes.index] = total[node]
            continue
        if not (node in total or node in of_results) or not node.operands or derivative is NOT_DIFFERENTIABLE:
            continue
        parts: Sequence[Node | None]
        if derivative is IN_REGIONS:
            known = of_results.get(node) or {0: total[node]}
            cotangents = [known.get(i) for i in range(len(result_types((node,))))]
            needed = [x in active and has_cotangent(x.type) for x in node.operands]
            parts = control_vjp(node, cotangents, needed, saved.get(node, {}), accumulate) if any(needed) else ()
        else:
            assert callable(derivative), f"{node.op.name} must be expanded before differentiation"
            g = _of_all_results(node.type, of_results[node]) if isinstance(node.type, TupleType) else total[node]
            parts = derivative(node, g)
        for operand, part in zip(node.operands, parts, strict=bool(parts)):
            contribute(operand, part)
    gradients = tuple(total[x] if x in total else splat(0, x.dtype, x.shape) for x in targets)
    return Pulled(gradients, {x: changed[y] for x, y in expanded.items() if y in changed})


def _remember(roots: Sequence[Node], targets: Sequence[Node]) -> tuple[dict[Node, Node], dict[Node, dict[int, int]]]:
    """Scans between targets and roots that save what their derivative needs.

    Gives what every node becomes (nothing where nothing changes), and of each new scan which result holds which carry.
    """
    active = dependents(roots, targets)
    if not any(x.op is scan_op for x in active):
        return {}, {}
    values: dict[Node, Node] = {}
    saved: dict[Node, dict[int, int]] = {}
    for node in walk(roots):
        made = Node.make(node.op, tuple(values[x] for x in node.operands), node.attributes)
        needed = [x in active and has_cotangent(x.type) for x in node.operands]
        if node.op is scan_op and any(needed):
            longer, places = with_carries_saved(made, needed, accumulate)
            if places:
                saved[longer] = places
                made = longer if isinstance(node.type, TupleType) else project(longer, 0)
        values[node] = made
    return (values, saved) if saved else ({}, {})


def _rebuilt(roots: Sequence[Node], changed: Mapping[Node, Node]) -> tuple[Node, ...]:
    """The roots over changed nodes; `changed` may lack those that nothing needs to know of."""
    values = dict(changed)
    for node in walk(roots):
        if node not in values:
            values[node] = Node.make(node.op, tuple(values[x] for x in node.operands), node.attributes)
    return tuple(values[x] for x in roots)


def _of_all_results(type_: TupleType, known: Mapping[int, Node]) -> tuple[Node | None, ...]:
    """The cotangent of each result: zeros where nothing depends on it, None where its dtype has none."""
    return tuple(known.get(i) or (splat(0, item.dtype, item.shape) if item.dtype.is_differentiable else None)
                 for i, item in enumerate(type_.items))


def targets_of(function: Function, wrt: Wrt) -> tuple[Node, ...]:
    """The parameters that a derivative is taken in; raises UnknownName, and TypeMismatch where one has none."""
    if wrt is None:
        return tuple(x for x in function.parameters if x.dtype.is_differentiable)
    known = dict(zip(function.parameter_names, function.parameters, strict=True))
    targets = []
    for name in wrt if isinstance(wrt, Sequence) and not isinstance(wrt, str) else (wrt,):
        if name not in known:
            raise UnknownName(f"{function.name} has no parameter {name!r}; its parameters are {', '.join(known)}")
        if not known[name].dtype.is_differentiable:
            raise TypeMismatch(f"a derivative requires floating-point parameters, {name!r} is {known[name].type}")
        targets.append(known[name])
    return tuple(targets)


def _seeds(function: Function) -> tuple[Node | None, ...]:
    """A parameter for the cotangent of each floating-point result, None for the others."""
    single = len(function.results) == 1
    wanted = {number: ("cotangent" if single else f"cotangent{number}", x.tensor_type)
              for number, x in enumerate(function.results) if has_cotangent(x.type)}
    made = dict(zip(wanted, more_parameters(function, tuple(wanted.values())), strict=True))
    return tuple(made.get(number) for number in range(len(function.results)))


def more_parameters(function: Function, wanted: Sequence[tuple[str, TensorType]]) -> tuple[Node, ...]:
    """Parameters after the function's own, of these names or, where one is taken, longer ones."""
    taken = set(function.parameter_names)
    made = []
    for index, (name, type_) in enumerate(wanted, len(function.parameters)):
        while name in taken:
            name += "_"
        taken.add(name)
        made.append(parameter(name, index, type_))
    return tuple(made)


def _named(made: Function, source: Function, targets: Sequence[Node], became: Mapping[Node, Node] = {}) -> Function:
    """The function with the source's names and places for what it keeps, and `grad_x` for the gradient of x."""
    kept = set(made.nodes())
    names = {new: name for node, name in source.names.items() if (new := became.get(node, node)) in kept}
    for target, gradient in zip(targets, made.results[len(made.results) - len(targets):], strict=True):
        names.setdefault(gradient, f"grad_{target.attributes.name}")
    locations = {new: place for node, place in source.locations.items() if (new := became.get(node, node)) in kept}
    return Function(made.name, made.parameters, made.results, names, locations, made.guards)

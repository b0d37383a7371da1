"""Derivatives and batches of Python functions of traced tensors.

Functions take and give tensors, or tuples, lists and dicts of them; they may use traced tensors from around them, which
are held still and are the same for a whole batch.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tcp_eqsat.errors import ArgumentError, ShapeMismatch, TypeMismatch
from tcp_eqsat.frontends.traced import Traced, agree, lift
from tcp_eqsat.frontends.trees import Tree, check_form, flatten, unflatten
from tcp_eqsat.lang import grad as gradients
from tcp_eqsat.lang import jvp as directions
from tcp_eqsat.lang import vmap as batches
from tcp_eqsat.lang.dims import Size
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.ops.regions import close_bodies, trace_body
from tcp_eqsat.lang.ops.structure import inline
from tcp_eqsat.lang.program import Function, Node, Region
from tcp_eqsat.lang.types import TensorType

Wrt = str | int | Sequence[str | int] | None
Axis = int | None


@dataclass(frozen=True)
class _Closed:
    """A Python function as a function of the leaves of its arguments, then of what it captures.

    arguments  the leaves; `groups` says of each which argument it belongs to
    """

    function: Function
    arguments: tuple[Node, ...]
    captures: tuple[Node, ...]
    groups: tuple[int, ...]
    trees: tuple[Tree, ...]
    form: Tree

    def run(self, made: Function, *more: Node) -> list[Traced]:
        """The results of a function made from this one; `more` are the parameters it has besides."""
        operands = (*self.arguments, *self.captures, *more)
        return [Traced(x) for x in inline(Region(made.parameters, made.results), operands)]


def _close(function: Callable[..., Any], arguments: Sequence[Any], types: Sequence[TensorType] | None = None
           ) -> _Closed:
    """The function on arguments; `types` are those of their leaves where the function takes others."""
    flat = [flatten(x) for x in arguments]
    groups = tuple(n for n, (leaves, _) in enumerate(flat) for _ in leaves)
    nodes = tuple(lift(x) for leaves, _ in flat for x in leaves)
    forms: list[Tree] = []

    def body(*parameters: Node) -> Sequence[Node]:
        parts = iter(map(Traced, parameters))
        found = function(*(unflatten(tree, [next(parts) for _ in leaves]) for leaves, tree in flat))
        leaves, form = flatten(found)
        forms.append(form)
        return [lift(x) for x in leaves]

    traced = trace_body(body, [x.tensor_type for x in nodes] if types is None else types, keep=True)
    (region,), captures = close_bodies([traced], [f"x{i}" for i in range(len(nodes))])
    name = getattr(function, "__name__", "function")
    return _Closed(Function(name, region.parameters, region.results), nodes, captures, groups,
                   tuple(tree for _, tree in flat), forms[0])


def _wanted(function: Callable[..., Any], wrt: Wrt, count: int) -> tuple[tuple[int, ...], bool]:
    """The positions of arguments, and whether one is meant, not several."""
    if wrt is None:
        return tuple(range(count)), count == 1
    given = (wrt,) if isinstance(wrt, (str, int)) else tuple(wrt)
    names = list(inspect.signature(function).parameters) if any(isinstance(x, str) for x in given) else []
    positions = []
    for each in given:
        position = names.index(each) if isinstance(each, str) and each in names else each
        if isinstance(position, bool) or not isinstance(position, int) or not -count <= position < count:
            raise ArgumentError(f"wrt must name arguments or give positions below {count}, got {each!r}")
        positions.append(position % count)
    return tuple(positions), isinstance(wrt, (str, int))


def _targets(closed: _Closed, positions: Sequence[int]) -> list[int]:
    """The leaves of arguments, which must be of floating-point dtypes."""
    leaves = [i for position in positions for i, group in enumerate(closed.groups) if group == position]
    for i in leaves:
        if not closed.arguments[i].dtype.is_differentiable:
            raise TypeMismatch(f"a derivative requires floating-point arguments, argument {closed.groups[i]} has "
                               f"{closed.arguments[i].type}")
    return leaves


def _by_argument(closed: _Closed, positions: Sequence[int], leaves: Sequence[Any], single: bool) -> Any:
    """One value for each argument, in its form."""
    parts = iter(leaves)
    found = tuple(unflatten(closed.trees[p], [next(parts) for group in closed.groups if group == p])
                  for p in positions)
    return found[0] if single else found


def _names(closed: _Closed, leaves: Sequence[int]) -> list[str]:
    return [closed.function.parameter_names[i] for i in leaves]


def grad(function: Callable[..., Any], wrt: Wrt = None) -> Callable[..., Any]:
    """A function that gives the gradients of `function`, which gives one floating-point tensor of rank 0.

    wrt   arguments, by name or position: one, or several for a tuple of gradients; None means all of them
    """

    @functools.wraps(function)
    def gradient(*arguments: Any) -> Any:
        closed = _close(function, arguments)
        positions, single = _wanted(function, wrt, len(arguments))
        leaves = _targets(closed, positions)
        made = gradients.grad(closed.function, _names(closed, leaves))
        return _by_argument(closed, positions, closed.run(made), single)

    return gradient


def vjp(function: Callable[..., Any], wrt: Wrt = None) -> Callable[..., tuple[Any, Callable[[Any], Any]]]:
    """A function that gives the results of `function`, and a function from their cotangents to gradients.

    Cotangents have the form of the results; those of results without derivatives are left aside. `wrt` is that of
    `grad`.
    """

    @functools.wraps(function)
    def pulled(*arguments: Any) -> tuple[Any, Callable[[Any], Any]]:
        closed = _close(function, arguments)
        positions, single = _wanted(function, wrt, len(arguments))
        made = gradients.vjp(closed.function, _names(closed, _targets(closed, positions)))
        count = len(closed.function.results)

        def pull_back(cotangents: Any) -> Any:
            values, form = flatten(cotangents)
            check_form("a cotangent", closed.form, form)
            nodes = [_like(f"cotangent {i}", value, x) for i, (value, x) in enumerate(
                zip(values, closed.function.results, strict=True)) if x.dtype.is_differentiable]
            return _by_argument(closed, positions, closed.run(made, *nodes)[count:], single)

        zeros = [builders.splat(0, x.dtype, x.shape) for x in closed.function.results if x.dtype.is_differentiable]
        return unflatten(closed.form, closed.run(replace(made, results=made.results[:count]), *zeros)), pull_back

    return pulled


def jvp(function: Callable[..., Any]) -> Callable[[Sequence[Any], Sequence[Any]], tuple[Any, Any]]:
    """A function of arguments and their tangents that gives the results of `function` and their tangents.

        value, tangent = tcp.jvp(f)((x, y), (dx, dy))

    Tangents have the form of the arguments; None instead of one holds its argument still. Results of dtypes without
    derivatives have None as their tangent.
    """

    def pushed(arguments: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        if not isinstance(arguments, (tuple, list)) or not isinstance(tangents, (tuple, list)) or len(
                arguments) != len(tangents):
            raise ArgumentError("jvp requires a tuple of arguments and one of as many tangents")
        closed = _close(function, tuple(arguments))
        leaves: list[int] = []
        moves: list[Node] = []
        for position, tangent in enumerate(tangents):
            if tangent is None:
                continue
            values, form = flatten(tangent)
            check_form(f"tangent {position}", closed.trees[position], form)
            own = _targets(closed, [position])
            leaves += own
            moves += [_like(f"tangent {position}", value, closed.arguments[i])
                      for i, value in zip(own, values, strict=True)]
        made = directions.jvp(closed.function, _names(closed, leaves))
        found = closed.run(made, *moves)
        count = len(closed.function.results)
        rest = iter(found[count:])
        moved = [next(rest) if x.dtype.is_differentiable else None for x in closed.function.results]
        return unflatten(closed.form, found[:count]), unflatten(closed.form, moved)

    return pushed


def _like(what: str, value: Any, like: Node) -> Node:
    """A value as a node of another's type; numbers are repeated everywhere."""
    if isinstance(value, (bool, int, float)):
        return builders.splat(value, like.dtype, like.shape)
    node = lift(value)
    if node.dtype != like.dtype or len(node.shape) != len(like.shape) or not all(
            map(agree, node.shape, like.shape)):
        raise TypeMismatch(f"{what} must be {like.type}, got {node.type}")
    return node


def vmap(function: Callable[..., Any], in_axes: Axis | Sequence[Axis] = 0, out_axes: Axis = 0) -> Callable[..., Any]:
    """`function` on batches of its arguments.

    in_axes   the axis of each argument (of all tensors in it) that numbers the batch, or None: the same for the
              whole batch; one for all
    out_axes  that axis of the results
    """

    @functools.wraps(function)
    def batched(*arguments: Any) -> Any:
        axes = list(in_axes) if isinstance(in_axes, Sequence) else [in_axes] * len(arguments)
        if len(axes) != len(arguments):
            raise ArgumentError(f"vmap requires an axis for each of {len(arguments)} arguments, got {len(axes)}")
        leaf_axes: list[Axis] = [axis for axis, x in zip(axes, arguments, strict=True) for _ in flatten(x)[0]]
        size = _batch_size(arguments, axes)
        leaves = [lift(x) for argument in arguments for x in flatten(argument)[0]]
        closed = _close(function, arguments, list(map(_type_of_one, leaves, leaf_axes)))
        in_axes_of_all = [*leaf_axes, *(None for _ in closed.captures)]
        made = batches.vmap(closed.function, in_axes_of_all, out_axes, size)
        return unflatten(closed.form, closed.run(made))

    return batched


def _batch_size(arguments: Sequence[Any], axes: Sequence[Axis]) -> Size:
    found: Size | None = None
    for position, (argument, axis) in enumerate(zip(arguments, axes, strict=True)):
        if axis is None:
            continue
        for x in map(lift, flatten(argument)[0]):
            if not -len(x.shape) <= axis < len(x.shape):
                raise ArgumentError(f"vmap requires an axis {axis} of argument {position}, got {x.type}")
            size = x.shape[axis]
            if found is not None and not agree(size, found):
                raise ShapeMismatch(f"vmap requires batches of one size, got {found} and {size} (argument {position})")
            found = size if found is None else found
    if found is None:
        raise ArgumentError("vmap requires an axis for one argument at least, got None for all")
    return found


def _type_of_one(x: Node, axis: Axis) -> TensorType:
    """The type of one element of a batch."""
    shape = list(x.shape)
    if axis is not None:
        del shape[axis]
    return TensorType(x.dtype, tuple(shape))

"""Derivatives of control flow: the cotangents of what an operation with regions takes, by operations with regions.

A branch computes again what its derivative needs. A scan keeps the carries at the start of each step, and a scan the
other way computes each step again from them; what captures contribute adds up in a carry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tcp_eqsat.errors import ArgumentError
from tcp_eqsat.lang.ops.attributes import ScanAttributes
from tcp_eqsat.lang.ops.builders import map_scalar, project, splat
from tcp_eqsat.lang.ops.control import case, if_, if_op, scan, scan_op, split_scan, while_op
from tcp_eqsat.lang.ops.regions import placeholder
from tcp_eqsat.lang.ops.structure import inline
from tcp_eqsat.lang.program import Node, Region, result_types, walk
from tcp_eqsat.lang.scalar import scalar_op_named
from tcp_eqsat.lang.types import TensorType

Cotangents = Sequence[Node | None]
PullBack = Callable[[Sequence[Node], Cotangents, Sequence[Node]], tuple[Node, ...]]
"""(results, their cotangents, targets) -> the cotangent of each target."""


def has_cotangent(type_: object) -> bool:
    """Whether values of a type have derivatives."""
    return isinstance(type_, TensorType) and type_.dtype.is_differentiable


def dependents(roots: Iterable[Node], sources: Iterable[Node]) -> set[Node]:
    """The sources, and the nodes between them and the roots."""
    found = set(sources)
    for node in walk(roots):
        if any(x in found for x in node.operands):
            found.add(node)
    return found


def control_vjp(node: Node, cotangents: Cotangents, active: Sequence[bool], saved: Mapping[int, int],
                pull_back: PullBack) -> Cotangents:
    """The cotangent of each operand (None where it is not active) of an if, case, while or scan.

    cotangents  of each result, None: none
    active      which operands matter
    saved       for a scan that `with_carries_saved` made: which result holds which carry

    Raises ArgumentError for a while.
    """
    if node.op is scan_op:
        return _scan_vjp(node, cotangents, active, saved, pull_back)
    if node.op is while_op:
        raise ArgumentError(
            "while has no derivative, because its number of steps is not known before it runs: give while_loop a bound "
            "(with bound=n at most n steps run), or use scan or fori_loop")
    return _branches_vjp(node, cotangents, active, pull_back)


# If and case


def _branches_vjp(node: Node, cotangents: Cotangents, active: Sequence[bool], pull_back: PullBack) -> Cotangents:
    selector, *captures = node.operands
    given = [g for g in cotangents if g is not None]
    wanted = [i for i in range(len(captures)) if active[i + 1]]

    def branch(region: Region) -> Callable[[], Sequence[Node]]:
        def gradients() -> Sequence[Node]:
            seeds = [None if g is None else placeholder(g.tensor_type) for g in cotangents]
            found = pull_back(region.results, seeds, [region.parameters[i] for i in wanted])
            own = (*region.parameters, *(seed for seed in seeds if seed is not None))
            return inline(Region(own, found), (*captures, *given))

        return gradients

    branches = [branch(region) for region in node.attributes.regions]
    found = if_(selector, *branches) if node.op is if_op else case(selector, branches)
    parts: list[Node | None] = [None] * len(node.operands)
    for i, part in zip(wanted, found, strict=True):
        parts[i + 1] = part
    return parts


# Scan


@dataclass(frozen=True)
class _Step:
    """The derivative of one step: `gradients` of `targets`, over the body's parameters and the seeds.

    seeds    by result of the body; `carries` the numbers of the carries that have a cotangent
    """

    seeds: Mapping[int, Node]
    carries: tuple[int, ...]
    targets: tuple[Node, ...]
    gradients: tuple[Node, ...]


def _step(node: Node, active: Sequence[bool], given: Callable[[int], bool], pull_back: PullBack) -> _Step:
    """The derivative of a step where `given` says which stacked results have a cotangent."""
    attributes: ScanAttributes = node.attributes
    body = attributes.body
    live = {p for p, is_active in zip(body.parameters, active, strict=True) if is_active}
    carries = body.parameters[: attributes.carries]
    while True:  # a carry is active where the step makes it so
        reached = dependents(body.results, live)
        more = {p for p, result in zip(carries, body.results, strict=False) if result in reached} - live
        if not more:
            break
        live |= more
    moving = tuple(i for i, p in enumerate(carries) if p in live and has_cotangent(p.type))
    seeds = {number: placeholder(x.tensor_type) for number, x in enumerate(body.results)
             if (number in moving if number < attributes.carries else has_cotangent(x.type) and given(number))}
    targets = (*(carries[i] for i in moving), *(
        p for p in body.parameters[attributes.carries:] if p in live and has_cotangent(p.type)))
    gradients = pull_back(body.results, [seeds.get(n) for n in range(len(body.results))], targets)
    return _Step(seeds, moving, targets, gradients)


def with_carries_saved(node: Node, active: Sequence[bool], pull_back: PullBack) -> tuple[Node, dict[int, int]]:
    """A scan that stacks besides the carries that its derivative needs, and which result holds which carry."""
    attributes: ScanAttributes = node.attributes
    body = attributes.body
    used = set(walk(_step(node, active, lambda number: True, pull_back).gradients))
    kept = [i for i, p in enumerate(body.parameters[: attributes.carries]) if p in used]
    if not kept:
        return node, {}
    results = (*body.results, *(body.parameters[i] for i in kept))
    made = Node.make(scan_op, node.operands, replace(attributes, body=Region(body.parameters, results)))
    return made, {i: len(body.results) + n for n, i in enumerate(kept)}


def _scan_vjp(node: Node, cotangents: Cotangents, active: Sequence[bool], saved: Mapping[int, int],
              pull_back: PullBack) -> Cotangents:
    attributes: ScanAttributes = node.attributes
    body = attributes.body
    step = _step(node, active, lambda number: cotangents[number] is not None, pull_back)
    types = result_types((node,))
    used = set(walk(step.gradients))
    carried, sliced, captured = split_scan(body.parameters, attributes)
    _, sequences, captures = split_scan(node.operands, attributes)
    outside = dict(zip(captured, captures, strict=True))
    # Carries of the scan back: the cotangents of carries, then what captures have got so far.
    totals = [p for p in step.targets if p in outside]
    start = [_or_zeros(cotangents[i], types[i]) for i in step.carries]
    start += [splat(0, p.dtype, p.shape) for p in totals]
    before = [step.seeds[i] for i in step.carries]
    # Its sequences: the slices, the carries at each step, the cotangents of what was stacked.
    stacks = {p: x for p, x in zip(sliced, sequences, strict=True) if p in used}
    stacks |= {p: project(node, saved[i]) for i, p in enumerate(carried) if p in used}
    stacks |= {seed: g for number, seed in step.seeds.items()
               if number >= attributes.carries and seed in used and (g := cotangents[number]) is not None}
    add = scalar_op_named("add")

    def back(*now: Node) -> tuple[Node, ...]:
        values = dict(zip((*before, *totals, *stacks), now, strict=True))
        own = (*body.parameters, *step.seeds.values())
        found = dict(zip(step.targets, inline(
            Region(own, step.gradients), tuple(outside.get(x) or values.get(x) or x for x in own)), strict=True))
        return (*(found[carried[i]] for i in step.carries),
                *(map_scalar(add, values[p], found[p]) for p in totals),
                *(found[p] for p in step.targets if p in sliced))

    results = scan(back, start, tuple(stacks.values()), attributes.length, not attributes.reverse)
    order = [*(carried[i] for i in step.carries), *totals, *(p for p in step.targets if p in sliced)]
    part = dict(zip(order, results, strict=True))
    return [part.get(p) if is_active else None for p, is_active in zip(body.parameters, active, strict=True)]


def _or_zeros(cotangent: Node | None, type_: TensorType) -> Node:
    return splat(0, type_.dtype, type_.shape) if cotangent is None else cotangent

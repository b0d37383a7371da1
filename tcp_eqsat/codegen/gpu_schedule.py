"""Loop nests to GPU launches: which loops become blocks, which become threads.

A launch takes a nest whose loops run one iteration after the other, and says of each loop at which level it runs:

    THREAD   one thread of the grid an iteration
    BLOCK    one block an iteration
    LANE     iterations spread over the threads of a block, one block size apart
    SERIAL   one after the other, in every thread that comes there

A nest falls into pieces that need nothing of each other; each is one launch. The loops around everything else in a
piece are its domain. Its iterations are threads where only elementwise work or a contraction is inside, or where
threads side by side then read memory with fewer requests; else they are blocks, whose threads share the loops
inside. What a fold gathers in such a loop is combined across the block. Scratch arrays belong to a block: they lie
in shared memory as far as it holds them, the others in global memory, one place a block.
"""

from __future__ import annotations

import enum
import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tcp_eqsat.codegen.loops import (
    Access,
    Array,
    Body,
    Fold,
    For,
    If,
    Let,
    Load,
    Nest,
    Read,
    Store,
    Update,
    Value,
    format_nest,
    value_of_statement,
    walk_statements,
    walk_values,
)
from tcp_eqsat.codegen.schedule import schedule_kernel
from tcp_eqsat.codegen.schedule_cost import estimate
from tcp_eqsat.codegen.serial_nest import serial_nest
from tcp_eqsat.codegen.target import CpuTarget, PtxTarget
from tcp_eqsat.lang.dims import Size, format_size, product
from tcp_eqsat.lang.plan import Kernel, Plan
from tcp_eqsat.lang.pointful import Affine

THREADS = 256
"""Threads of a block that has work for as many."""
SECTOR = 8
"""Elements of four bytes in one 32-byte sector, the least that memory delivers."""
FOLD_BYTES = 1024
"""Shared memory kept for what folds exchange between warps: eight bytes a warp, for every dtype."""
WARP = 32
"""Threads that run one instruction."""
ONE_LANE = CpuTarget(
    name="", features="", vector_bits=1, registers=16, has_fma=True, has_round=True, has_scale=False, has_half=False,
    l1_bytes=48 << 10, l2_bytes=1 << 20)
"""A single thread, as the scheduler of loops sees it."""


class Level(enum.Enum):
    """How a loop runs; see the module's documentation."""

    THREAD = "thread"
    BLOCK = "block"
    LANE = "lane"
    SERIAL = "serial"


@dataclass(frozen=True)
class Launch:
    """A nest with a level for every loop.

    domain   the loops that a thread's or block's number is made of, the slowest first
    each     what one iteration of the domain is: THREAD or BLOCK
    threads  of a block
    shared   the scratch arrays that lie in shared memory
    """

    nest: Nest
    levels: Mapping[int, Level]
    domain: tuple[For, ...]
    each: Level
    threads: int
    shared: tuple[str, ...]

    @property
    def count(self) -> Size:
        """Iterations of the domain."""
        return product(loop.extent for loop in self.domain)

    @property
    def blocks(self) -> Size:
        count = self.count
        if self.each is Level.BLOCK:
            return count
        return -(-count // self.threads) if isinstance(count, int) else (count + (self.threads - 1)) // self.threads

    def level(self, loop: For) -> Level:
        return self.levels.get(loop.index, Level.SERIAL)


def schedule_launches(kernel: Kernel, plan: Plan, target: PtxTarget) -> tuple[Launch, ...]:
    """The kernel as launches, in an order that can run."""
    return map_nest(schedule_kernel(kernel, plan, ONE_LANE), target)


def map_nest(nest: Nest, target: PtxTarget) -> tuple[Launch, ...]:
    """The nest's pieces, each with levels for its loops."""
    nest = serial_nest(nest)
    pieces = _pieces(nest)
    names = [nest.name] if len(pieces) == 1 else [f"{nest.name}_{n}" for n in range(len(pieces))]
    return tuple(
        _map_piece(replace(nest, name=name, arrays=_used(nest, body), body=body), target)
        for name, body in zip(names, pieces, strict=True))


def format_launch(launch: Launch) -> str:
    """The launch as text: a line on blocks and threads, and the nest."""
    loops = f"{len(launch.domain)} outer loop{'s' if len(launch.domain) != 1 else ''}"
    head = f"# {format_size(launch.blocks)} blocks of {launch.threads} threads, a {launch.each.value} an iteration of"
    lanes = sum(level is Level.LANE for level in launch.levels.values())
    shared = f"; in shared memory {', '.join(launch.shared)}" if launch.shared else ""
    return f"{head} {loops}{f'; {lanes} loops over the threads' if lanes else ''}{shared}\n{format_nest(launch.nest)}"


# Pieces ----------------------------------------------------------------------------------------------------------


def _pieces(nest: Nest) -> list[Body]:
    """The statements of the nest, apart where they need nothing of each other. A Let goes to all that need it."""
    body = nest.body
    needs = _needs(nest)
    outputs = {a.name for a in nest.arrays if a.access is Access.WRITE}
    groups: list[set[int]] = []
    for number, statement in enumerate(body):
        if not any(s.array in outputs for s in _stores((statement,))):
            continue
        group = _closure(number, needs)
        shared = {n for n in group if not isinstance(body[n], Let)}
        for other in [g for g in groups if not shared.isdisjoint(g)]:
            groups.remove(other)
            group |= other
        groups.append(group)
    return [tuple(body[n] for n in sorted(group)) for group in groups]


def _needs(nest: Nest) -> list[set[int]]:
    """For each statement of the nest's body, the earlier ones whose names or scratch arrays it reads."""
    scratch = {a.name for a in nest.arrays if a.access is Access.SCRATCH}
    makers: dict[str, set[int]] = {}
    needs: list[set[int]] = []
    for number, statement in enumerate(nest.body):
        found: set[int] = set()
        for value in _values((statement,)):
            if isinstance(value, Read):
                found |= makers.get(value.name, set())
            elif isinstance(value, Load) and value.array in scratch:
                found |= makers.get(value.array, set())
        needs.append(found)
        match statement:
            case Let(name):
                makers[name] = {number}
            case Fold(accumulators):
                makers |= {a.name: {number} for a in accumulators}
            case _:
                pass
        for store in _stores((statement,)):
            if store.array in scratch:
                makers.setdefault(store.array, set()).add(number)
    return needs


def _closure(number: int, needs: list[set[int]]) -> set[int]:
    found: set[int] = set()
    pending = [number]
    while pending:
        current = pending.pop()
        if current not in found:
            found.add(current)
            pending.extend(needs[current])
    return found


def _stores(body: Body) -> Iterator[Store]:
    return (s for s in walk_statements(body) if isinstance(s, Store))


def _values(body: Body) -> Iterator[Value]:
    roots = [value_of_statement(s) for s in walk_statements(body)]
    return walk_values(*(root for root in roots if root is not None))


def _used(nest: Nest, body: Body) -> tuple[Array, ...]:
    """The arrays that the body accesses."""
    names = {s.array for s in _stores(body)} | {v.array for v in _values(body) if isinstance(v, Load)}
    return tuple(a for a in nest.arrays if a.name in names)


# Levels ----------------------------------------------------------------------------------------------------------


def _map_piece(nest: Nest, target: PtxTarget) -> Launch:
    domain, core = domain_of(nest.body)
    scratch = frozenset(a.name for a in nest.arrays if a.access is Access.SCRATCH)
    together = {loop.index: Level.BLOCK for loop in domain} | _cooperate(core, scratch)
    alone = _lane_order(domain, nest)
    if not _has_loops(core):
        by_threads = True
    elif not domain or scratch:
        by_threads = False
    else:
        by_threads = _contracts(core) or _requests(nest, {}, alone[-1]) < _requests(nest, together)
    if by_threads:
        count = product(loop.extent for loop in domain)
        levels = {loop.index: Level.THREAD for loop in domain}
        return Launch(nest, levels, alone, Level.THREAD, _threads([count]), ())
    spread = [product(loop.extent for loop in chain) for chain in lane_chains(core, together)]
    return Launch(nest, together, domain, Level.BLOCK, _threads(spread), _in_shared(nest, target))


def _has_loops(core: Body) -> bool:
    return any(isinstance(s, For) for s in walk_statements(core))


def _contracts(core: Body) -> bool:
    return any(isinstance(s, Update) and s.fused for s in walk_statements(core))


def domain_of(body: Body) -> tuple[tuple[For, ...], Body]:
    """The loops around everything but definitions, and what is inside of them."""
    loops: list[For] = []
    while True:
        rest = [s for s in body if not isinstance(s, Let)]
        if len(rest) != 1 or not isinstance(rest[0], For):
            return tuple(loops), body
        loops.append(rest[0])
        body = rest[0].body


def _cooperate(body: Body, scratch: frozenset[str]) -> dict[int, Level]:
    """Levels for the loops that the threads of a block run together."""
    levels: dict[int, Level] = {}
    for statement in body:
        match statement:
            case For() if _is_private(statement, scratch):
                for loop in (statement, *_inside(statement, scratch)):
                    levels[loop.index] = Level.LANE
            case For(body=inner) | Fold(body=inner) | If(body=inner):
                levels |= _cooperate(inner, scratch)
            case _:
                pass
    return levels


def _is_private(loop: For, scratch: frozenset[str]) -> bool:
    """Whether iterations write different elements of scratch arrays, so that they can run side by side."""
    return all(loop.index in s.offset.axes for s in _stores(loop.body) if s.array in scratch)


def _inside(loop: For, scratch: frozenset[str]) -> Iterator[For]:
    """The loops directly inside of one another that run together with `loop`."""
    for inner in domain_of(loop.body)[0]:
        if not _is_private(inner, scratch):
            return
        yield inner


def lane_chains(body: Body, levels: Mapping[int, Level]) -> Iterator[tuple[For, ...]]:
    """The loops over threads, those directly inside of one another together, outermost first."""
    for statement in body:
        match statement:
            case For() if levels.get(statement.index) is Level.LANE:
                inner = itertools.takewhile(
                    lambda x: levels.get(x.index) is Level.LANE, domain_of(statement.body)[0])
                yield (statement, *inner)
            case For(body=inner_body) | Fold(body=inner_body) | If(body=inner_body):
                yield from lane_chains(inner_body, levels)
            case _:
                pass


def _threads(work: list[Size]) -> int:
    """Threads of a block that has `work` iterations at a time: whole warps."""
    known = [n for n in work if isinstance(n, int)]
    if len(known) < len(work):
        return THREADS
    most = max(known, default=1)
    return min(THREADS, max(1, -(-most // WARP)) * WARP)


def _in_shared(nest: Nest, target: PtxTarget) -> tuple[str, ...]:
    """The scratch arrays that fit into shared memory, beside what folds need there."""
    free = target.shared_bytes - FOLD_BYTES
    found: list[str] = []
    for array in nest.arrays:
        if array.access is Access.SCRATCH and isinstance(array.size, int):
            needed = -(-array.size * array.dtype.bytes // 16) * 16
            if needed <= free:
                free -= needed
                found.append(array.name)
    return tuple(found)


# Memory requests -------------------------------------------------------------------------------------------------


def _lane_order(domain: tuple[For, ...], nest: Nest) -> tuple[For, ...]:
    """The domain with the loop last along which neighbouring threads ask memory for least."""
    if len(domain) < 2:
        return domain
    costs = {loop.index: _requests(nest, {}, loop) for loop in domain}
    best = min(reversed(domain), key=lambda loop: costs[loop.index])
    return (*(loop for loop in domain if loop is not best), best)


def _requests(nest: Nest, levels: Mapping[int, Level], thread: For | None = None) -> float:
    """Sectors of global memory that warps ask for, by estimated extents.

    Threads side by side are neighbours along the loop `thread`, or along the innermost LANE loop around an access.
    """
    arrays = {a.name: a.access for a in nest.arrays}
    total = 0.0
    for loops, array, offset in _accesses(nest.body, ()):
        if arrays[array] is not Access.SCRATCH:
            lane = thread or next((x for x in reversed(loops) if levels.get(x.index) is Level.LANE), None)
            runs = math.prod(estimate(x.extent) for x in loops)
            total += runs * (1.0 if lane is None else _sectors(dict(offset.terms).get(lane.index, 0)) / WARP)
    return total


def _sectors(stride: Size) -> int:
    """Sectors of one access of a warp whose threads are `stride` elements apart."""
    if stride == 0:
        return 1
    return WARP // SECTOR if stride == 1 else WARP


def _accesses(body: Body, loops: tuple[For, ...]) -> Iterator[tuple[tuple[For, ...], str, Affine]]:
    """Loads and stores with the loops around them, outermost first."""
    for statement in body:
        match statement:
            case For(body=inner):
                yield from _accesses(inner, (*loops, statement))
            case Fold(body=inner) | If(body=inner):
                yield from _accesses(inner, loops)
            case _:
                yield from ((loops, s.array, s.offset) for s in _stores((statement,)))
                yield from ((loops, v.array, v.offset) for v in _values((statement,)) if isinstance(v, Load))

"""Greedy extraction of a DAG: for every class the e-node that is cheapest together with all it needs, counted once.

Node costs are additive here, so this is only where the search for kernels starts. The algorithm is the usual one of
e-graph libraries ("faster greedy DAG"): costs of shared parts are counted once within each class's own set.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque

from tcp_eqsat.extract.cost import Access, Contraction, KernelFacts
from tcp_eqsat.extract.terms import GIVEN, STEPS, Form, Term, Terms

_SMALL = 1e-6
"""Microseconds for what costs nothing, so that shorter programs win."""


def node_cost(terms: Terms, found: int, term: Term) -> float:
    """Microseconds of one e-node where all elementwise work is fused and contractions are kernels."""
    model = terms.model
    bytes_of = {c: terms.elements[c] * terms.types[c].dtype.bytes for c in (found, *term.operands)}
    if term.form is Form.POINT:
        return _SMALL + term.work * terms.elements[found]
    if term.form is Form.FOLD:
        return _SMALL + term.work * terms.elements[found] * math.prod(term.extents)
    if term.form is Form.JOIN:
        return model.kernel(KernelFacts(
            tuple(Access(bytes_of[x], terms.value_bytes) for x in term.operands),
            (Access(bytes_of[found], terms.value_bytes),),
            model.choice(terms.types[found].dtype) * terms.elements[found]))
    if term.form is Form.CONTRACT:
        columns = next((n for n in reversed(terms.shapes[found]) if n != 1), 1)
        flops = 2.0 * terms.elements[found] * math.prod(term.extents)
        return model.kernel(KernelFacts(
            tuple(Access(bytes_of[x], terms.leaf_bytes if terms.given(x) else terms.value_bytes)
                  for x in term.operands),
            (Access(bytes_of[found], terms.value_bytes),), 0.0,
            Contraction(terms.types[found].dtype, flops, columns)))
    if term.form in STEPS:
        return model.kernel(KernelFacts(
            tuple(Access(bytes_of[x], terms.leaf_bytes if terms.given(x) else terms.value_bytes)
                  for x in term.operands),
            tuple(Access(size, terms.value_bytes) for size in term.writes), term.work))
    return _SMALL


def greedy_choice(terms: Terms) -> list[int]:
    """The index of the chosen e-node of each class, -1 where nothing computes the class. Choices have no cycles."""
    count = len(terms)
    choice = [-1] * count
    best = [math.inf] * count
    needed: list[dict[int, float] | None] = [None] * count
    users: dict[int, list[int]] = defaultdict(list)
    for c, candidates in enumerate(terms.terms):
        for operand in dict.fromkeys(x for term in candidates.values() for x in _operands(term)):
            users[operand].append(c)
    costs = [{i: node_cost(terms, c, term) for i, term in candidates.items()}
             for c, candidates in enumerate(terms.terms)]
    pending = deque(c for c in range(count) if any(not _operands(t) for t in terms.terms[c].values()))
    queued = set(pending)
    while pending:
        c = pending.popleft()
        queued.discard(c)
        improved = False
        for index, term in terms.terms[c].items():
            total = _together(c, term, needed, costs[c][index])
            if total is not None and sum(total.values()) < best[c] - 1e-12:
                choice[c], best[c], needed[c] = index, sum(total.values()), total
                improved = True
        if improved:
            for user in users[c]:
                if user not in queued:
                    queued.add(user)
                    pending.append(user)
    return choice


def _operands(term: Term) -> tuple[int, ...]:
    return () if term.form in GIVEN else term.operands


def _together(found: int, term: Term, needed: list[dict[int, float] | None], own: float) -> dict[int, float] | None:
    """The cost of every class that the e-node needs, or None where one is unknown or needs `found`."""
    parts = []
    for operand in _operands(term):
        part = needed[operand]
        if part is None or found in part:
            return None
        parts.append(part)
    parts.sort(key=len)
    total = dict(parts.pop()) if parts else {}
    for part in parts:
        total.update(part)
    total[found] = own
    return total

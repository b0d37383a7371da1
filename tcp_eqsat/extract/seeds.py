"""Where the search for kernels starts: choices of e-nodes, and first ideas of what is kept in memory."""

from __future__ import annotations

import math

from tcp_eqsat.extract.evaluate import INFEASIBLE
from tcp_eqsat.extract.greedy import greedy_choice
from tcp_eqsat.extract.partition import Change, Partition
from tcp_eqsat.extract.programs import original_choice
from tcp_eqsat.extract.selection import Selection
from tcp_eqsat.extract.terms import ABSORBED, GIVEN, STEPS, WRITTEN, Form, Term, Terms
from tcp_eqsat.lang.program import Function


def starting_points(terms: Terms, function: Function) -> dict[str, Partition]:
    """Where the search starts: greedy and input e-nodes, each with as much fused as possible, else with nothing."""
    greedy = greedy_choice(terms)
    seeds: dict[str, Partition] = {}
    for name, choice in (("greedy", greedy), ("input", original_choice(terms, function, greedy))):
        if (name == "input" and choice == greedy) or any(choice[root] < 0 for root in terms.view.roots):
            continue
        for start in (fused, separate):
            partition = Partition(start(terms, choice))
            if partition.total() < INFEASIBLE:
                seeds[name] = partition
                break
    return seeds


def separate(terms: Terms, choice: list[int]) -> Selection:
    """Every value that is not absorbed in a kernel of its own: what is possible without fusion."""
    selection = Selection(terms, list(choice))
    for found in selection.reachable():
        term = selection.term(found)
        if term.form not in GIVEN and term.form not in ABSORBED:
            selection.stored.add(found)
        if term.form in STEPS:
            selection.stored.update(in_memory_for(selection, term))
        if term.form is Form.RESHAPE and selection.form(term.operands[0]) in (Form.VIEW, Form.SLICE, Form.RAMP):
            selection.stored.add(term.operands[0])
    selection.stored.update(selection.targets())
    return selection


def fused(terms: Terms, choice: list[int]) -> Selection:
    """As little memory as kernels allow at first sight: contractions, what they read, what is read by offset.

    Classes that the choice does not need are included, for when a move comes to need them.
    """
    selection = Selection(terms, list(choice))

    def base(found: int) -> int:
        seen: set[int] = set()
        while selection.form(found) in (Form.VIEW, Form.SLICE, Form.RESHAPE) and found not in seen:
            seen.add(found)
            (found,) = selection.term(found).operands
        return found

    for found in range(len(terms)):
        if choice[found] < 0:
            continue
        term = selection.term(found)
        if term.form is Form.CONTRACT:
            selection.stored.add(found)
        if term.form in STEPS and all(choice[x] >= 0 for x in term.operands):
            selection.stored.update(in_memory_for(selection, term))
        if term.form in (Form.CONTRACT, Form.SLICE, Form.RESHAPE):
            for operand in term.operands:
                under = operand if term.form is Form.RESHAPE else base(operand)
                if selection.form(under) not in GIVEN:
                    selection.stored.add(under)
    selection.stored.update(selection.targets())
    return _repaired(selection)


def in_memory_for(selection: Selection, term: Term) -> list[int]:
    """The classes that must be kept in memory so that a routine or control flow can read its operands."""
    bases = (selection.memory_under(operand)[-1] for operand in term.operands)
    return [base for base in bases if selection.form(base) not in GIVEN and not selection.in_memory(base)]


def _repaired(selection: Selection) -> Selection:
    """Stores folds, then everything, of kernels that can't exist."""
    partition = Partition(selection)
    for forms in ((Form.FOLD,), tuple(set(Form) - GIVEN - ABSORBED - WRITTEN)):
        for _ in range(len(selection.terms)):
            if partition.total() < INFEASIBLE:
                return selection
            broken = [e for e in partition.evaluations.values() if math.isinf(e.cost)]
            more = {c for e in broken for c in e.visited
                    if selection.form(c) in forms and c not in selection.stored}
            if not more:
                break
            partition.apply(Change(stored=dict.fromkeys(sorted(more), True)))
    return selection

"""From an e-graph to the best plan found: extraction as one function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tcp_eqsat.egraph.view import EGraphView, program_view
from tcp_eqsat.errors import VerificationError
from tcp_eqsat.extract.cost import CostModel, representative_sizes
from tcp_eqsat.extract.evaluate import INFEASIBLE
from tcp_eqsat.extract.kernels import default_ports, form_plan
from tcp_eqsat.extract.partition import Partition, separate
from tcp_eqsat.extract.terms import Terms, compile_terms
from tcp_eqsat.lang.plan import Plan
from tcp_eqsat.lang.program import Function
from tcp_eqsat.lang.types import TensorType


@dataclass(frozen=True)
class Extraction:
    plan: Plan
    function: Function
    cost: float


def baseline(function: Function, model: CostModel, *, sizes: Mapping[str, int] | None = None,
             parameter_types: Sequence[TensorType] | None = None,
             result_types: Sequence[TensorType] | None = None) -> Extraction:
    view = program_view(function)
    terms = compile_terms(view, model, representative_sizes(function.symbols, sizes))
    partition = Partition(separate(terms, [next(iter(t), -1) for t in terms.terms]))
    cost = partition.total()
    if cost == INFEASIBLE:
        raise VerificationError(next(e.reason for e in partition.evaluations.values() if e.reason))
    plan = form_plan(partition.selection, function, partition.kernels, partition.evaluations,
                     default_ports(function, parameter_types, result_types))
    return Extraction(plan, function, cost)

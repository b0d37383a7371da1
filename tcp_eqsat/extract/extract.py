"""From an e-graph to the best plan found.

    compile terms -> choose e-nodes (greedily; as in the input) -> partition each into kernels -> search from the best
"""

from __future__ import annotations

import enum
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING

from tcp_eqsat.egraph.view import EGraphView, program_view
from tcp_eqsat.errors import VerificationError
from tcp_eqsat.extract.bodies import BodyOf
from tcp_eqsat.extract.cost import CostModel, representative_sizes
from tcp_eqsat.extract.evaluate import INFEASIBLE
from tcp_eqsat.extract.kernels import default_ports, form_plan
from tcp_eqsat.extract.partition import Partition
from tcp_eqsat.extract.programs import chosen_function
from tcp_eqsat.extract.search import Effort, Search
from tcp_eqsat.extract.seeds import separate, starting_points
from tcp_eqsat.extract.terms import compile_terms
from tcp_eqsat.lang.budget import Budget
from tcp_eqsat.lang.dims import Symbol
from tcp_eqsat.lang.plan import Plan
from tcp_eqsat.lang.program import Function
from tcp_eqsat.lang.types import TensorType

if TYPE_CHECKING:
    import networkx


class SearchEnd(enum.Enum):
    """Why the search for kernels ended.

    CONVERGED   no move helps
    STEP_LIMIT  the budget of steps ran out
    TIME_LIMIT  the time ran out; the result may differ from run to run
    """

    CONVERGED = "converged"
    STEP_LIMIT = "step_limit"
    TIME_LIMIT = "time_limit"


@dataclass(frozen=True)
class ExtractionReport:
    """How the plan was found.

    seeds         modelled microseconds of each start of the search, by name
    steps         moves evaluated; accepted: moves kept
    sizes         what symbols stood for in costs
    kernel_costs  modelled microseconds of each step of the plan, in order
    seconds       wall-clock seconds
    """

    end: SearchEnd
    seeds: Mapping[str, float]
    steps: int
    accepted: int
    sizes: Mapping[str, int]
    kernel_costs: tuple[float, ...]
    seconds: float


@dataclass(frozen=True)
class Extraction:
    """A program as kernels.

    plan      the kernels
    function  the same program as values, with the input's parameters
    cost      modelled microseconds at the report's sizes
    """

    plan: Plan
    function: Function
    cost: float
    report: ExtractionReport = field(repr=False)

    @property
    def graph(self) -> networkx.DiGraph:
        """Steps and buffers, an edge for each read and write; see `graph.plan_graph`.

        networkx is imported here: that takes longer than most compilations.
        """
        made: networkx.DiGraph = import_module("tcp_eqsat.extract.graph").plan_graph(
            self.plan, self.report.kernel_costs)
        return made


def extract(
    view: EGraphView, function: Function, cost_model: CostModel, budget: Budget | None = None, *,
    sizes: Mapping[str, int] | None = None, parameter_types: Sequence[TensorType] | None = None,
    result_types: Sequence[TensorType] | None = None, symbols: Sequence[Symbol] = (), body_of: BodyOf | None = None,
) -> Extraction:
    """The best plan found for the results of `function` among the programs in `view`.

    sizes            values of symbols for costs, by name; others get a typical size
    parameter_types  the caller's types of parameters and results, where they are the function's memory under other
                     shapes
    symbols          those that sizes may mention besides the parameters'
    body_of          the plan of a region, for control flow

    The same input and steps give the same plan, unless time ran out. Raises VerificationError where nothing in the
    view can be computed by kernels.
    """
    start = time.perf_counter()
    budget = budget or Budget()
    bindings = representative_sizes((*function.symbols, *symbols), sizes)
    terms = compile_terms(view, cost_model, bindings, body_of)
    effort = Effort(budget.steps, start + budget.seconds)
    seeds = starting_points(terms, function)
    if not seeds:
        raise VerificationError(f"{function.name}: no value of the e-graph can be computed by kernels")
    costs = {name: partition.total() for name, partition in seeds.items()}
    searches = [Search(partition, effort) for partition in seeds.values()]
    for search in searches:
        search.partition_moves()
    best = min(searches, key=lambda s: s.cost)
    best.joint_moves()
    ports = default_ports(function, parameter_types, result_types)
    plan = form_plan(best.partition, function, ports)
    report = ExtractionReport(
        _end(effort), costs, effort.tried, effort.accepted, bindings, _kernel_costs(best.partition),
        time.perf_counter() - start)
    return Extraction(plan, chosen_function(best.selection, function), best.cost, report)


def baseline(
    function: Function, cost_model: CostModel, *, sizes: Mapping[str, int] | None = None,
    parameter_types: Sequence[TensorType] | None = None, result_types: Sequence[TensorType] | None = None,
    symbols: Sequence[Symbol] = (), body_of: BodyOf | None = None,
) -> Extraction:
    """The function as it stands, every operation but views a kernel of its own: what costs are compared with."""
    start = time.perf_counter()
    bindings = representative_sizes((*function.symbols, *symbols), sizes)
    terms = compile_terms(program_view(function), cost_model, bindings, body_of)
    for found, usable in enumerate(terms.terms):
        if not usable:
            raise VerificationError(f"{function.name}: nothing computes {terms.view.classes[found][0].op.name}")
    partition = Partition(separate(terms, [next(iter(found)) for found in terms.terms]))
    cost = partition.total()
    if cost == INFEASIBLE:
        raise VerificationError(f"{function.name} can't be computed by kernels: {partition.obstacle()}")
    plan = form_plan(partition, function, default_ports(function, parameter_types, result_types))
    report = ExtractionReport(
        SearchEnd.CONVERGED, {"input": cost}, 0, 0, bindings, _kernel_costs(partition), time.perf_counter() - start)
    return Extraction(plan, function, cost, report)


def _end(effort: Effort) -> SearchEnd:
    if effort.late:
        return SearchEnd.TIME_LIMIT
    return SearchEnd.STEP_LIMIT if effort.cut else SearchEnd.CONVERGED


def _kernel_costs(partition: Partition) -> tuple[float, ...]:
    return tuple(partition.evaluate(kernel).cost for kernel in partition.kernels())

"""A plan as a networkx graph."""

from __future__ import annotations

from collections.abc import Sequence

import networkx

from tcp_eqsat.lang.plan import Plan


def plan_graph(plan: Plan, kernel_costs: Sequence[float]) -> networkx.DiGraph:
    """Steps and buffers of a plan, an edge for each read and write.

    Nodes are `("kernel", name)` with the attributes `origin` and `cost` (microseconds) for every step, and
    `("buffer", name)` with `type` and `role`. Other shapes of a buffer's memory are that buffer.
    """
    graph = networkx.DiGraph(name=plan.name)
    for buffer in plan.buffers.values():
        if buffer.alias is None:
            graph.add_node(("buffer", buffer.name), type=str(buffer.type), role=buffer.role.value)
    for kernel, cost in zip(plan.steps, kernel_costs, strict=True):
        node = ("kernel", kernel.name)
        graph.add_node(node, origin=kernel.origin, cost=cost)
        graph.add_edges_from((("buffer", plan.root(name).name), node) for name in kernel.loads)
        graph.add_edges_from((node, ("buffer", plan.root(name).name)) for name in kernel.stores)
    return graph

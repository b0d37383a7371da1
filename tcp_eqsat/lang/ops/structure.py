"""Operations about programs themselves: composites with a body, and the results of nodes that have several."""

from __future__ import annotations

from tcp_eqsat.errors import TypeMismatch
from tcp_eqsat.lang.op import EXPANDED, define_op, map_regions, tensor_types
from tcp_eqsat.lang.ops.attributes import CompositeAttributes, ProjectAttributes
from tcp_eqsat.lang.ops.regions import check_region, type_of_results
from tcp_eqsat.lang.pointful import Operand, axis_index
from tcp_eqsat.lang.program import Node, Region, walk
from tcp_eqsat.lang.types import TensorType, TupleType, Type


def _infer_composite(operands: tuple[Type, ...], attributes: CompositeAttributes) -> Type:
    region = attributes.region
    required = tuple(x.type for x in region.parameters)
    if operands != required:
        found = ", ".join(map(str, operands))
        raise TypeMismatch(
            f"composite {attributes.name} requires operands ({', '.join(map(str, required))}), got ({found})")
    check_region(f"composite {attributes.name}", region)
    return type_of_results(tuple(x.tensor_type for x in region.results))


def inline(region: Region, operands: tuple[Node, ...]) -> tuple[Node, ...]:
    """The region's results with operands in place of its parameters."""
    values: dict[Node, Node] = dict(zip(region.parameters, operands, strict=True))
    for node in walk(region.results):
        if node not in values:
            values[node] = Node.make(node.op, tuple(values[x] for x in node.operands), node.attributes)
    return tuple(values[x] for x in region.results)


def tuple_of(*items: Node) -> Node:
    """Several values as one."""
    return Node.make(tuple_op, items)


def _expand_composite(node: Node) -> Node:
    results = inline(node.attributes.region, node.operands)
    return results[0] if len(results) == 1 else tuple_of(*results)


composite_op = define_op(
    "composite", operands="x*", attributes=CompositeAttributes, infer=_infer_composite,
    reference=EXPANDED, pointful=EXPANDED, derivative=EXPANDED, expand=_expand_composite,
    doc="A named operation that carries its own body. A back end may meet it by name or expand it.",
)


def _infer_tuple(operands: tuple[Type, ...], attributes: None) -> Type:
    items = []
    for found in operands:
        if not isinstance(found, TensorType):
            raise TypeMismatch(f"tuple requires tensors, got {found}")
        items.append(found)
    return TupleType(tuple(items))


tuple_op = define_op(
    "tuple", operands="x*", attributes=None, infer=_infer_tuple,
    reference=EXPANDED, pointful=EXPANDED, derivative=EXPANDED, expand=lambda node: node,
    doc="Several values as the result of one node; `project` takes it apart.",
)


def _infer_project(operands: tuple[Type, ...], attributes: ProjectAttributes) -> Type:
    (found,) = operands
    if not isinstance(found, TupleType) or not 0 <= attributes.index < len(found.items):
        raise TypeMismatch(f"project requires an operand with more than {attributes.index} results, got {found}")
    return found.items[attributes.index]


def _expand_project(node: Node) -> Node:
    (operand,) = node.operands
    return operand.operands[node.attributes.index] if operand.op is tuple_op else node


project_op = define_op(
    "project", operands="x", attributes=ProjectAttributes, infer=_infer_project,
    reference=lambda attributes, result, items: items[attributes.index],
    pointful=EXPANDED, derivative=EXPANDED, expand=_expand_project,
    doc="One result of a node that has several.",
)


def barrier(x: Node) -> Node:
    """The value itself, which no rule sees through."""
    return Node.make(barrier_op, (x,))


def _infer_barrier(operands: tuple[Type, ...], attributes: None) -> Type:
    return tensor_types("optimization_barrier", operands)[0]


barrier_op = define_op(
    "optimization_barrier", operands="x", attributes=None, infer=_infer_barrier,
    reference=lambda attributes, result, x: x,
    pointful=lambda attributes, operands, result: Operand(
        0, tuple(map(axis_index, range(result.rank))), result.dtype),
    derivative=lambda node, g: (barrier(g),),
    doc="The operand itself, which no rule sees through: what is before it and what is after it are not rewritten "
        "together.",
)


def expand(roots: tuple[Node, ...]) -> dict[Node, Node]:
    """Every node the roots depend on, mapped to its equal without composites, inside of regions as well."""
    values: dict[Node, Node] = {}
    for node in walk(roots):
        operands = tuple(values[x] for x in node.operands)
        attributes = node.attributes if node.op is composite_op else map_regions(node.attributes, _expanded_region)
        new: Node = node if operands == node.operands and attributes is node.attributes else Node.make(
            node.op, operands, attributes)
        if new.op.expand is not None:
            body = new.op.expand(new)
            new = body if body is new else expand((body,))[body]
        values[node] = new
    return values


def _expanded_region(region: Region) -> Region:
    values = expand(region.results)
    return Region(region.parameters, tuple(values[x] for x in region.results))


__all__ = ["barrier", "barrier_op", "composite_op", "expand", "inline", "project_op", "tuple_of", "tuple_op"]

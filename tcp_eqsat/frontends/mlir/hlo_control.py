"""Control flow, tuples, tokens and composites of XLA's dialects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from tcp_eqsat.errors import TypeMismatch, VerificationError
from tcp_eqsat.frontends.mlir.calls import call
from tcp_eqsat.frontends.mlir.hlo_elementwise import convert
from tcp_eqsat.frontends.mlir.scope import Content, Pack, Token, is_token, tensors_of
from tcp_eqsat.frontends.mlir.site import Lowering, Site
from tcp_eqsat.frontends.mlir.tree import SyntaxType, TupleText
from tcp_eqsat.lang.op import op_named
from tcp_eqsat.lang.ops.builders import composite, parameter, results_of
from tcp_eqsat.lang.ops.control import case, if_, while_
from tcp_eqsat.lang.ops.regions import close_bodies, trace_body
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.types import I32, TensorType


def packed(types: Sequence[SyntaxType], nodes: Sequence[Node]) -> tuple[Content, ...]:
    """Nodes as values of types that have tuples and tokens among them."""
    rest = iter(nodes)
    found = tuple(_packed(each, rest) for each in types)
    if next(rest, None) is not None:
        raise TypeMismatch(f"{len(types)} results are stated, of which there are more")
    return found


def _packed(stated: SyntaxType, nodes: Iterator[Node]) -> Content:
    if is_token(stated):
        return Token()
    if isinstance(stated, TupleText):
        return Pack(tuple(_packed(item, nodes) for item in stated.items))
    found = next(nodes, None)
    if found is None:
        raise TypeMismatch(f"a value of type {stated} is stated, of which there is none")
    return found


class _Alike:
    """Results of regions that have the same types, from which sizes are learned to be equal."""

    def __init__(self, site: Site, types: Sequence[TensorType] = ()) -> None:
        self.site = site
        self.types = tuple(types)
        self.version = site.scope.sizes.version

    def __call__(self, results: tuple[Node, ...]) -> tuple[Node, ...]:
        types = tuple(x.tensor_type for x in results)
        for left, right in zip(self.types, types, strict=False):
            if len(left.shape) == len(right.shape):
                for a, b in zip(left.shape, right.shape, strict=True):
                    self.site.assume_equal(a, b)
        self.types = self.types or types
        return results

    def settled(self, make: Callable[[], tuple[Node, ...]]) -> tuple[Node, ...]:
        """What `make` gives; where sizes were learned on the way, which its nodes don't have yet, stand-ins."""
        try:
            return make()
        except TypeMismatch:
            if self.site.scope.sizes.version == self.version:
                raise
            return tuple(parameter("", -1, self.site.scope.sizes.resolve_type(x)) for x in self.types)


def _if(site: Site) -> tuple[Content, ...]:
    (predicate,) = site.tensors(1)
    alike = _Alike(site)
    found = alike.settled(lambda: if_(
        predicate, lambda: alike(site.run_on_tensors(0)), lambda: alike(site.run_on_tensors(1))))
    return packed(site.op.result_types, found)


def _case(site: Site) -> tuple[Content, ...]:
    (index,) = site.tensors(1)
    alike = _Alike(site)
    branches = [
        lambda number=number: alike(site.run_on_tensors(number)) for number in range(len(site.op.regions))]
    return packed(site.op.result_types, alike.settled(lambda: case(convert(index, I32), branches)))


def _while(site: Site) -> tuple[Content, ...]:
    contents = site.contents()
    types = site.op.result_types
    state = tuple(map(site.node_of, tensors_of(contents)))

    def condition(*now: Node) -> Node:
        found = site.run_on_tensors(0, *packed(types, now))
        if len(found) != 1:
            raise VerificationError(f"{site.name} requires a condition with 1 result, got {len(found)}")
        return found[0]

    if not state:
        raise TypeMismatch(f"{site.name} requires at least one value")
    alike = _Alike(site, [x.tensor_type for x in state])

    def body(*now: Node) -> tuple[Node, ...]:
        return alike(site.run_on_tensors(1, *packed(types, now)))

    return packed(types, alike.settled(lambda: while_(condition, body, state)))


def _composite(site: Site) -> tuple[Content, ...]:
    """A call of the function that is the operation's meaning; it keeps its name."""
    name, symbol = site.word("name"), site.symbol("decomposition")
    operands = site.contents()
    if not operands or not all(isinstance(x, Node) for x in operands):
        return call(site, symbol, operands)
    nodes = [site.node_of(x) for x in operands]

    def called(*x: Node) -> tuple[Node, ...]:
        return tuple(map(site.node_of, tensors_of(call(site, symbol, x))))

    body = trace_body(called, [x.tensor_type for x in nodes], keep=True)
    (region,), captures = close_bodies([body], [f"x{n}" for n in range(len(nodes))])
    return packed(site.op.result_types, results_of(composite(name, region, *nodes, *captures)))


def _tuple_element(site: Site) -> Content:
    site.require_operands(1)
    found, index = site.content(0), site.integer("index")
    if not isinstance(found, Pack) or not 0 <= index < len(found.items):
        raise TypeMismatch(f"{site.name} requires a tuple with more than {index} elements")
    return found.items[index]


def _barrier(site: Site) -> tuple[Content, ...]:
    """The operands, which are not optimised together with what uses them."""
    barrier = op_named("optimization_barrier")
    return tuple(Node.make(barrier, (x,)) if isinstance(x, Node) else x for x in site.contents())


def _token(site: Site) -> Content:
    site.contents()
    return Token()


def _nothing(site: Site) -> tuple[Content, ...]:
    site.contents()
    return ()


def _first(site: Site) -> Content:
    return site.content(0)


CONTROL: Mapping[str, Lowering] = {
    "add_dependency": _first,
    "after_all": _token,
    "case": _case,
    "composite": _composite,
    "create_token": _token,
    "domain": _first,
    "get_tuple_element": _tuple_element,
    "if": _if,
    "optimization_barrier": _barrier,
    "trace": _nothing,
    "tuple": lambda site: Pack(site.contents()),
    "while": _while,
}

"""The e-graph as extraction reads it: how a kernel takes each e-node, with its sizes and costs as numbers.

A `Term` stands for one e-node. Index maps are tuples of labels, one per operand axis (see `lang.ops.labels`), so that
legality is a matter of axes and symbolic sizes; numbers are only for costs.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tcp_eqsat.egraph.view import EGraphView, ENode
from tcp_eqsat.extract.constants import Constants, find_constants
from tcp_eqsat.extract.cost import CostModel
from tcp_eqsat.lang.dims import Size, value
from tcp_eqsat.lang.ops.contraction import contract_op
from tcp_eqsat.lang.ops.elementwise import map_op
from tcp_eqsat.lang.ops.movement import concatenate_op, pad_op, reshape_op, slice_op, view_op
from tcp_eqsat.lang.ops.reduction import reduce_op
from tcp_eqsat.lang.ops.source import constant_op, iota_op, parameter_op
from tcp_eqsat.lang.scalar import ScalarApply, ScalarFunction, scalar_op_named
from tcp_eqsat.lang.types import BOOL, TensorType


class Form(enum.Enum):
    """How a kernel takes a value."""

    LITERAL = "literal"
    """One number everywhere."""
    BUFFER = "buffer"
    """Memory that exists before the first kernel: parameters and constants."""
    RAMP = "ramp"
    """An index as a number."""
    VIEW = "view"
    """Another index map of its operand."""
    SLICE = "slice"
    """Offsets and steps into memory."""
    RESHAPE = "reshape"
    """Other axes of the same memory."""
    POINT = "point"
    """A scalar function of its operands at one index each."""
    JOIN = "join"
    """One of its operands, by index."""
    FOLD = "fold"
    """A reduction."""
    CONTRACT = "contract"
    """A sum of products."""


ABSORBED = frozenset((Form.RAMP, Form.VIEW, Form.SLICE, Form.RESHAPE))
"""Forms that are not computed but read through."""
GIVEN = frozenset((Form.LITERAL, Form.BUFFER))
"""Forms that need no kernel."""


@dataclass(frozen=True, slots=True)
class Term:
    """One e-node.

    operands  classes
    maps      for each operand its index map into the labels 0.. of the result's axes, then of `bound`
    bound     symbolic extents of the labels that are summed or reduced
    extents   the same as numbers
    work      microseconds of scalar work for each point (POINT) or each reduced element (FOLD)
    """

    form: Form
    node: ENode
    operands: tuple[int, ...] = ()
    maps: tuple[tuple[int, ...], ...] = ()
    bound: tuple[Size, ...] = ()
    extents: tuple[int, ...] = ()
    work: float = 0.0


@dataclass(frozen=True)
class Terms:
    """All classes of a view.

    terms        the usable e-nodes of each class, by their index in the view; empty: nothing can compute the class
    shapes       sizes as numbers
    elements     their product
    constants    what is known at compile time
    leaf_bytes   memory of all parameters and constants that the input program has
    value_bytes  memory of the largest other value that it has: about how much is touched between a write and a read
    model        prices
    """

    view: EGraphView
    terms: tuple[dict[int, Term], ...]
    types: tuple[TensorType, ...]
    shapes: tuple[tuple[int, ...], ...]
    elements: tuple[int, ...]
    constants: Constants
    leaf_bytes: float
    value_bytes: float
    model: CostModel

    def __len__(self) -> int:
        return len(self.terms)

    def given(self, found: int) -> Form | None:
        """LITERAL or BUFFER where the class needs no kernel, whatever is chosen."""
        form = next((term.form for term in self.terms[found].values()), None)
        return form if form in GIVEN else None



def compile_terms(view: EGraphView, model: CostModel, bindings: Mapping[str, int]) -> Terms:
    """The classes of `view` priced by `model` at the sizes that `bindings` give."""
    constants = find_constants(view)
    compiler = _Compiler(view, model, bindings)
    shapes = tuple(compiler.numbers(compiler.types[c].shape) for c in range(len(view.classes)))
    elements = tuple(map(math.prod, shapes))
    leaves = {c for c in view.original.values() if any(n.op in (parameter_op, constant_op) for n in view.classes[c])}
    bytes_of = [n * compiler.types[c].dtype.bytes for c, n in enumerate(elements)]
    return Terms(
        view, tuple(compiler.terms(c, constants) for c in range(len(view.classes))), compiler.types, shapes, elements,
        constants, float(sum(bytes_of[c] for c in leaves)),
        float(max((bytes_of[c] for c in view.original.values() if c not in leaves), default=0)), model)


class _Compiler:
    def __init__(self, view: EGraphView, model: CostModel, bindings: Mapping[str, int]) -> None:
        self.view = view
        self.model = model
        self.bindings = bindings
        self.types = tuple(t if isinstance(t, TensorType) else TensorType(BOOL) for t in view.types)
        self._point: dict[ScalarFunction, float] = {}

    def numbers(self, sizes: Iterable[Size]) -> tuple[int, ...]:
        return tuple(value(size, self.bindings) for size in sizes)

    def terms(self, found: int, constants: Constants) -> dict[int, Term]:
        """The e-nodes of a class; only one where the class is in memory or a number anyway."""
        nodes = self.view.classes[found]
        if not isinstance(self.view.types[found], TensorType):
            return {}
        if found in constants.literals or found in constants.buffers:
            index = constants.choice[found]
            form = Form.LITERAL if found in constants.literals else Form.BUFFER
            return {index: Term(form, nodes[index])}
        for index, node in enumerate(nodes):
            if node.op is parameter_op:
                return {index: Term(Form.BUFFER, node)}
        return {i: term for i, node in enumerate(nodes) if (term := self.term(found, node)) is not None}

    def term(self, found: int, node: ENode) -> Term | None:
        """None for operations that no kernel computes (composites, tuples)."""
        rank = self.types[found].rank
        identity = tuple(range(rank))
        a = node.attributes
        if node.op is map_op:
            return self._of(Form.POINT, node, (identity,) * len(node.operands), work=self._work(a.function))
        if node.op is view_op:
            return self._of(Form.VIEW, node, (a.labels,))
        if node.op is reduce_op:
            if a.rank == len(a.extents):
                return self._of(Form.VIEW, node, (a.labels,))
            work = self.model.scalar(a.operation, self.types[found].dtype)
            return self._of(Form.FOLD, node, (a.labels,), a.extents[a.rank:], work)
        if node.op is contract_op:
            if a.rank == len(a.extents):
                work = self.model.scalar(scalar_op_named("multiply"), self.types[found].dtype)
                return self._of(Form.POINT, node, (a.lhs, a.rhs), work=work)
            return self._of(Form.CONTRACT, node, (a.lhs, a.rhs), a.extents[a.rank:])
        if node.op is concatenate_op:
            return self._of(Form.JOIN, node, (identity,) * len(node.operands))
        if node.op is pad_op:
            return self._of(Form.JOIN, node, (identity, ()))
        if node.op is slice_op:
            return self._of(Form.SLICE, node, (identity,))
        if node.op is reshape_op:
            return self._of(Form.RESHAPE, node, (identity,))
        if node.op is iota_op:
            return self._of(Form.RAMP, node, ())
        return None

    def _of(self, form: Form, node: ENode, maps: tuple[tuple[int, ...], ...], bound: tuple[Size, ...] = (),
            work: float = 0.0) -> Term:
        return Term(form, node, node.operands, maps, bound, self.numbers(bound), work)

    def _work(self, function: ScalarFunction) -> float:
        """Each operation is priced at its widest operand."""
        known = self._point.get(function)
        if known is None:
            known = self._point[function] = sum(
                self.model.scalar(x.op, max((x.dtype, *(y.dtype for y in x.arguments)), key=lambda d: d.bits))
                for x in function.walk() if isinstance(x, ScalarApply))
        return known

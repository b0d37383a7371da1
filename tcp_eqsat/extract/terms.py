"""The e-graph as extraction reads it: how a kernel takes each e-node, with its sizes and costs as numbers.

A `Term` stands for one e-node. Index maps are tuples of labels, one per operand axis (see `lang.ops.labels`), so that
legality is a matter of axes and symbolic sizes; numbers are only for costs.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tcp_eqsat.egraph.view import EGraphView, ENode
from tcp_eqsat.extract.bodies import Body, BodyOf, control_work
from tcp_eqsat.extract.constants import ALWAYS, Constants, find_constants
from tcp_eqsat.extract.cost import CostModel
from tcp_eqsat.extract.known import Known
from tcp_eqsat.extract.procedures import procedure_work
from tcp_eqsat.lang.dims import Size, value
from tcp_eqsat.lang.op import IN_REGIONS, regions_of
from tcp_eqsat.lang.ops.contraction import contract_op
from tcp_eqsat.lang.ops.elementwise import map_op
from tcp_eqsat.lang.ops.movement import concatenate_op, pad_op, reshape_op, slice_op, view_op
from tcp_eqsat.lang.ops.reduction import reduce_op
from tcp_eqsat.lang.ops.source import constant_op, iota_op, parameter_op, size_op
from tcp_eqsat.lang.ops.structure import barrier_op, project_op
from tcp_eqsat.lang.ops.windows import reverse_op, windows_op
from tcp_eqsat.lang.procedural import Procedure
from tcp_eqsat.lang.scalar import ScalarApply, ScalarFunction, scalar_op_named
from tcp_eqsat.lang.types import BOOL, TensorType, TupleType, Type


class Form(enum.Enum):
    """How a kernel takes a value."""

    __hash__ = object.__hash__  # members are single objects, and looked up in sets all the time

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
    ROUTINE = "routine"
    """A procedure over memory, which writes memory of its own."""
    CONTROL = "control"
    """Plans that run inside of the plan, likewise."""
    PROJECT = "project"
    """One of several results of a routine or of control flow."""


ABSORBED = frozenset((Form.RAMP, Form.VIEW, Form.SLICE, Form.RESHAPE))
"""Forms that are not computed but read through."""
GIVEN = frozenset((Form.LITERAL, Form.BUFFER))
"""Forms that need no kernel."""
STEPS = frozenset((Form.ROUTINE, Form.CONTROL))
"""Forms that are no kernel but a step of their own: operands and results are in memory."""
WRITTEN = STEPS | {Form.PROJECT}
"""Forms whose values are in memory, whatever is chosen to be."""


@dataclass(frozen=True, slots=True)
class Term:
    """One e-node.

    operands  classes
    maps      for each operand its index map into the labels 0.. of the result's axes, then of `bound`
    bound     symbolic extents of the labels that are summed or reduced
    extents   the same as numbers
    work      microseconds of scalar work for each point (POINT), each reduced element (FOLD), or in all (STEPS)
    reshapes  whether the value is the operand's memory under other axes
    procedure, bodies  what a routine or control flow runs
    writes    bytes of each result (STEPS)
    """

    form: Form
    node: ENode
    operands: tuple[int, ...] = ()
    maps: tuple[tuple[int, ...], ...] = ()
    bound: tuple[Size, ...] = ()
    extents: tuple[int, ...] = ()
    work: float = 0.0
    reshapes: bool = False
    procedure: Procedure | None = None
    bodies: tuple[Body, ...] = ()
    writes: tuple[float, ...] = ()


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
    known        what has been found out about kernels of these classes
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
    known: Known[Any] = field(default_factory=Known, compare=False, repr=False)

    def __len__(self) -> int:
        return len(self.terms)

    def given(self, found: int) -> Form | None:
        """LITERAL or BUFFER where the class needs no kernel, whatever is chosen."""
        form = next((term.form for term in self.terms[found].values()), None)
        return form if form in GIVEN else None

    def is_held(self, found: int) -> bool:
        """Whether a number is small enough to lie in memory at every index from the start, where it must."""
        return found in self.constants.literals and all(type(size) is int for size in self.types[found].shape) and (
            self.elements[found] * self.types[found].dtype.bytes <= ALWAYS)



def compile_terms(view: EGraphView, model: CostModel, bindings: Mapping[str, int],
                  body_of: BodyOf | None = None) -> Terms:
    """The classes of `view` priced by `model` at the sizes that `bindings` give.

    `body_of` gives the plans of regions; without it nothing computes control flow.
    """
    constants = find_constants(view)
    compiler = _Compiler(view, model, bindings, body_of)
    shapes = tuple(compiler.numbers(compiler.types[c].shape) for c in range(len(view.classes)))
    elements = tuple(map(math.prod, shapes))
    leaves = {c for c in view.original.values() if any(n.op in (parameter_op, constant_op) for n in view.classes[c])}
    bytes_of = [n * compiler.types[c].dtype.bytes for c, n in enumerate(elements)]
    return Terms(
        view, tuple(compiler.terms(c, constants) for c in range(len(view.classes))), compiler.types, shapes, elements,
        constants, float(sum(bytes_of[c] for c in leaves)),
        float(max((bytes_of[c] for c in view.original.values() if c not in leaves), default=0)), model)


class _Compiler:
    def __init__(self, view: EGraphView, model: CostModel, bindings: Mapping[str, int],
                 body_of: BodyOf | None) -> None:
        self.view = view
        self.model = model
        self.bindings = bindings
        self.body_of = body_of
        self.types = tuple(t if isinstance(t, TensorType) else TensorType(BOOL) for t in view.types)
        self._point: dict[ScalarFunction, float] = {}

    def numbers(self, sizes: Iterable[Size]) -> tuple[int, ...]:
        return tuple(value(size, self.bindings) for size in sizes)

    def terms(self, found: int, constants: Constants) -> dict[int, Term]:
        """The e-nodes of a class; only one where the class is in memory or a number anyway."""
        nodes = self.view.classes[found]
        if found in constants.literals or found in constants.buffers:
            index = constants.choice[found]
            form = Form.LITERAL if found in constants.literals else Form.BUFFER
            return {index: Term(form, nodes[index])}
        for index, node in enumerate(nodes):
            if node.op is parameter_op:
                return {index: Term(Form.BUFFER, node)}
        return {i: term for i, node in enumerate(nodes) if (term := self.term(found, node)) is not None}

    def term(self, found: int, node: ENode) -> Term | None:
        """None for operations that nothing computes (composites, tuples)."""
        rank = self.types[found].rank
        identity = tuple(range(rank))
        a = node.attributes
        if node.op is map_op:
            return self._of(Form.POINT, node, (identity,) * len(node.operands), work=self._work(a.function))
        if node.op is view_op:
            return self._view(found, node, a.labels)
        if node.op is barrier_op:
            return self._view(found, node, identity)
        if node.op is reduce_op:
            if a.rank == len(a.extents):
                return self._view(found, node, a.labels)
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
        if node.op in (slice_op, reverse_op, windows_op):
            return self._of(Form.SLICE, node, (identity,))
        if node.op is reshape_op:
            return dataclasses.replace(self._of(Form.RESHAPE, node, (identity,)), reshapes=True)
        if node.op in (iota_op, size_op):
            return self._of(Form.RAMP, node, ())
        if node.op is project_op:
            return self._of(Form.PROJECT, node, (identity,))
        return self._step(found, node)

    def _view(self, found: int, node: ENode, labels: tuple[int, ...]) -> Term:
        """Axes of size 1 may come and go in the same memory."""
        (operand,) = node.operands
        moved = [label for label, size in zip(labels, self.types[operand].shape, strict=True) if size != 1]
        whole = [axis for axis, size in enumerate(self.types[found].shape) if size != 1]
        return dataclasses.replace(self._of(Form.VIEW, node, (labels,)), reshapes=moved == whole)

    def _step(self, found: int, node: ENode) -> Term | None:
        """A routine or control flow."""
        results = _items(self.view.types[found])
        maps = ((),) * len(node.operands)
        if node.op.procedure is not None:
            procedure = node.op.procedure(
                node.attributes, tuple(self.types[x] for x in node.operands), results)
            term = self._of(Form.ROUTINE, node, maps, work=procedure_work(procedure, self.model, self.bindings))
            term = dataclasses.replace(term, procedure=procedure)
        elif node.op.pointful is IN_REGIONS and self.body_of is not None:
            bodies = tuple(map(self.body_of, regions_of(node.attributes)))
            term = self._of(Form.CONTROL, node, maps, work=control_work(node.attributes, bodies, self.bindings))
            term = dataclasses.replace(term, bodies=bodies)
        else:
            return None
        writes = tuple(float(math.prod(self.numbers(x.shape)) * x.dtype.bytes) for x in results)
        return dataclasses.replace(term, writes=writes)

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


def _items(found: Type) -> tuple[TensorType, ...]:
    return found.items if isinstance(found, TupleType) else (found,)

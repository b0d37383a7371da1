"""The e-graph's tables, derived from the operation table.

A `map` of one scalar operation is `Map1`, `Map2` or `Map3` by its number of operands, with the operation's name.
A constant of rank 0 is `Scalar`, dtype and bits as text; a larger one is `Constant`, a number in a table kept
outside (a splat one is a view of a scalar). Other operations have a constructor of their own, with operands first
and then a column or two for each field of their attributes; those with attributes that no codec knows are `Opaque`,
a number in a table and operands.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from tcp_eqsat.egraph.columns import SORTS, Codec, field_codecs
from tcp_eqsat.lang.op import OPS, Op
from tcp_eqsat.lang.ops.elementwise import map_op
from tcp_eqsat.lang.ops.movement import view_op
from tcp_eqsat.lang.ops.source import constant_op
from tcp_eqsat.lang.scalar import SCALAR_OPS


@dataclass(frozen=True)
class Constructor:
    """One constructor of tensors.

    op        the operation, None for `Opaque`
    operands  number of operands, or None: one Vec of them
    sorts     sorts of the attribute columns, after the operands
    fields    attribute fields with codecs; empty for the special constructors
    """

    name: str
    op: Op | None
    operands: int | None
    sorts: tuple[str, ...]
    fields: tuple[tuple[str, Codec], ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        operands = ("Tensors",) if self.operands is None else ("T",) * self.operands
        return (*operands, *self.sorts)

    @property
    def declaration(self) -> str:
        return f"(constructor {self.name} ({' '.join(self.columns)}) T)"

    def text(self, operands: tuple[str, ...], attributes: tuple[str, ...]) -> str:
        """The term of operands and attribute columns given as text."""
        if self.operands is None:
            operands = (f"(vec-of {' '.join(operands)})" if operands else "(vec-empty)",)
        return f"({' '.join((self.name, *operands, *attributes))})"


SCALAR = Constructor("Scalar", constant_op, 0, ("String", "String"))
CONSTANT = Constructor("Constant", constant_op, 0, ("i64",))
OPAQUE = Constructor("Opaque", None, None, ("i64",))
MAPS = {
    arity: Constructor(f"Map{arity}", map_op, arity, ("String",))
    for arity in sorted({op.arity for op in SCALAR_OPS.values()})
}
"""By number of operands."""


@functools.cache
def constructor_of(op: Op) -> Constructor:
    """The constructor of an operation other than `map` and `constant`."""
    assert op is not map_op and op is not constant_op, op.name
    fields = () if op.attributes is None else field_codecs(op.attributes)
    if fields is None:
        return OPAQUE
    name = "".join(map(str.capitalize, op.name.split("_")))
    return Constructor(name, op, op.arity, tuple(s for _, codec in fields for s in codec.sorts), fields)


def constructors() -> dict[str, Constructor]:
    """Every constructor of tensors, by name."""
    found = [SCALAR, CONSTANT, OPAQUE, *MAPS.values()]
    found += [constructor_of(op) for op in OPS.values() if op not in (map_op, constant_op)]
    return {each.name: each for each in found}


def constructors_for(name: str) -> tuple[Constructor, ...]:
    """The constructors of values of the tensor or scalar operation called `name`.

    Known values become views of scalars, so that constants have the constructor of views as well.
    """
    if name in SCALAR_OPS:
        return (MAPS[SCALAR_OPS[name].arity],)
    op = OPS.get(name)
    if op is None or op is map_op:
        return ()
    return (SCALAR, CONSTANT, constructor_of(view_op)) if op is constant_op else (constructor_of(op),)


SORT_DECLARATIONS = (
    *SORTS, "(sort T)", "(sort Tensors (Vec T))",
    "(sort IntOfInt (UnstableFn (i64) i64))", "(sort DimOfInt (UnstableFn (i64) Dim))",
    "(function original (i64) T :no-merge)",
)
"""Sorts and the table of the program's own values."""

"""`arith`, `tensor` and `shape` as exporters use them around tensor programs: for sizes that are known when a
program is read."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tcp_eqsat.errors import ShapeMismatch, TypeMismatch, VerificationError
from tcp_eqsat.frontends.mlir.hlo_elementwise import apply_scalar, convert
from tcp_eqsat.frontends.mlir.hlo_source import constant_of
from tcp_eqsat.frontends.mlir.hlo_structure import shape_operand
from tcp_eqsat.frontends.mlir.literals import number
from tcp_eqsat.frontends.mlir.scope import Claim, Content, Extents, Token
from tcp_eqsat.frontends.mlir.site import Lowering, Site
from tcp_eqsat.frontends.mlir.tree import Dense, DenseResource, ElementType, Number, TensorText
from tcp_eqsat.lang.dims import Size, product
from tcp_eqsat.lang.ops.builders import constant, reshape
from tcp_eqsat.lang.program import Node

# arith


def _constant(site: Site) -> Content:
    """A tensor, or a number."""
    value = site.attribute("value")
    if isinstance(value, Dense | DenseResource):
        return constant_of(site, "value")
    if isinstance(value, bool):
        return constant(np.array(value))
    if not isinstance(value, Number) or not isinstance(value.type, ElementType):
        raise VerificationError(f"{site.name} requires a literal with its type")
    found = number(value, site.scope.source)
    if not isinstance(found, int):
        raise TypeMismatch(f"{site.name} of a number requires an integer, got {value.text[:40]}")
    return Extents((found,), (), value.type.name)


def _same_integer(site: Site) -> Content:
    """A known integer under another type, or the elements of a tensor converted."""
    site.require_operands(1)
    content = site.content(0)
    if isinstance(content, Extents):
        (stated,) = site.op.result_types
        return Extents(content.sizes, content.shape, str(getattr(stated, "element", stated)))
    return convert(site.tensor(0), site.stated()[0])


def _convert(site: Site) -> Node:
    (x,) = site.tensors(1)
    return convert(x, site.stated()[0])


def _tensors_only(name: str) -> Lowering:
    def lower(site: Site) -> Node:
        x, y = site.tensors(2)
        return apply_scalar(name, x, y)

    return lower


_OPERATIONS = {
    "addf": "add", "addi": "add", "andi": "bitwise_and", "divf": "divide", "divsi": "divide",
    "maximumf": "maximum", "maxsi": "maximum", "minimumf": "minimum", "minsi": "minimum", "mulf": "multiply",
    "muli": "multiply", "ori": "bitwise_or", "remf": "fmod", "remsi": "fmod", "subf": "subtract",
    "subi": "subtract", "xori": "bitwise_xor",
}
_PREDICATES = {"eq": "EQ", "ne": "NE", "slt": "LT", "sle": "LE", "sgt": "GT", "sge": "GE"}


def _compare(site: Site) -> Claim:
    """Of known integers."""
    predicate = site.word("predicate")
    (left,), (right,) = site.extents(0), site.extents(1)
    if predicate not in _PREDICATES:
        raise VerificationError(f"{site.name} requires a predicate of {', '.join(_PREDICATES)}, got {predicate!r}")
    return Claim(_PREDICATES[predicate], left, right)


ARITH: Mapping[str, Lowering] = {
    **{name: _tensors_only(meaning) for name, meaning in _OPERATIONS.items()},
    **dict.fromkeys(("extsi", "extui", "index_cast", "index_castui", "trunci"), _same_integer),
    **dict.fromkeys(("extf", "fptosi", "fptoui", "sitofp", "truncf", "uitofp"), _convert),
    "cmpi": _compare,
    "constant": _constant,
}

# tensor


def _dim(site: Site) -> Extents:
    site.require_operands(2)
    x = site.content(0)
    shape: tuple[Size, ...] = x.shape if isinstance(x, Node | Extents) else ()
    (axis,) = site.extents(1)
    if not isinstance(axis, int) or not 0 <= axis < len(shape):
        raise TypeMismatch(f"{site.name} requires an axis below {len(shape)}, got {axis}")
    return Extents((shape[axis],), ())


def _cast(site: Site) -> Content:
    """The same tensor; what its types say of sizes holds."""
    site.require_operands(1)
    return site.content(0)


def _from_elements(site: Site) -> Extents:
    (stated,) = site.op.result_types
    if not isinstance(stated, TensorText) or len(stated.shape) > 1:
        raise TypeMismatch(f"{site.name} requires a result of rank 0 or 1, got {stated}")
    sizes = tuple(size for position in range(len(site.op.operands)) for size in site.extents(position))
    return Extents(sizes, (len(sizes),) if stated.shape else (), str(stated.element))


def _extract(site: Site) -> Extents:
    content = site.content(0)
    known = site.extents(0)
    shape = content.shape if isinstance(content, Node | Extents) else ()
    at = [n for position in range(1, len(site.op.operands)) for n in site.extents(position)]
    if len(at) != len(shape) or len(at) > 1 or not all(isinstance(n, int) and 0 <= n < len(known) for n in at):
        raise TypeMismatch(f"{site.name} requires an index for each axis of a tensor of rank 0 or 1, got {at}")
    index = at[0] if at else 0
    assert isinstance(index, int)
    return Extents((known[index],), (), str(site.op.result_types[0]))


def _reshape(site: Site) -> Node:
    site.require_operands(2)
    return reshape(site.tensor(0), shape_operand(site, 1))


TENSOR: Mapping[str, Lowering] = {
    "cast": _cast,
    "dim": _dim,
    "extract": _extract,
    "from_elements": _from_elements,
    "reshape": _reshape,
}

# shape


def _const_shape(site: Site) -> Extents:
    sizes = site.integers("shape")
    return Extents(sizes, (len(sizes),))


def _num_elements(site: Site) -> Extents:
    site.require_operands(1)
    return Extents((product(site.extents(0)),), ())


def _get_extent(site: Site) -> Extents:
    site.require_operands(2)
    sizes, (axis,) = site.extents(0), site.extents(1)
    if not isinstance(axis, int) or not 0 <= axis < len(sizes):
        raise TypeMismatch(f"{site.name} requires a number below {len(sizes)}, got {axis}")
    return Extents((sizes[axis],), ())


def _same_sizes(site: Site) -> Content:
    site.require_operands(1)
    return site.content(0)


def _concat(site: Site) -> Extents:
    sizes = tuple(size for position in range(len(site.op.operands)) for size in site.extents(position))
    return Extents(sizes, (len(sizes),))


def _equal_shapes(site: Site) -> Token:
    """Learns that shapes are equal."""
    shapes = [site.extents(position) for position in range(len(site.op.operands))]
    for shape in shapes[1:]:
        if len(shape) != len(shapes[0]) or not all(map(site.assume_equal, shape, shapes[0])):
            raise ShapeMismatch(f"{site.name} requires equal shapes, got {shapes[0]} and {shape}")
    return Token()


def _holds(site: Site) -> Token:
    """What a constraint asks for is asked again where the shapes are used."""
    site.contents()
    return Token()


def _assuming(site: Site) -> tuple[Content, ...]:
    site.contents()
    return site.run(0)


SHAPES: Mapping[str, Lowering] = {
    "assuming": _assuming,
    "concat": _concat,
    "const_shape": _const_shape,
    "const_witness": _holds,
    "cstr_broadcastable": _holds,
    "cstr_eq": _equal_shapes,
    "cstr_require": _holds,
    "dim": _dim,
    "from_extents": _concat,
    "get_extent": _get_extent,
    "index_to_size": _same_sizes,
    "num_elements": _num_elements,
    "size_to_index": _same_sizes,
    "to_extent_tensor": _same_sizes,
    "value_as_shape": _same_sizes,
}

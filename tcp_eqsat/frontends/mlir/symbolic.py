"""Arithmetic of integers that are known, as sizes, when a program is read.

Programs with open sizes compute shapes by operations on small tensors of integers. Where the operands are known, so
is the result, and nothing of it is left in the program.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

from tcp_eqsat.frontends.mlir.known import known_integers
from tcp_eqsat.frontends.mlir.scope import Claim, Content, Extents
from tcp_eqsat.frontends.mlir.site import Site
from tcp_eqsat.frontends.mlir.tree import ElementType, TensorText
from tcp_eqsat.lang.dims import (
    Dim,
    Floor,
    Size,
    equal,
    floor_divide,
    less_equal,
    maximum,
    minimum,
    symbol_dim,
    symbols_of,
)
from tcp_eqsat.lang.program import Node

Symbolic = Callable[[Site], "Content | None"]


def _known(site: Site, position: int) -> Extents | None:
    """An operand as known integers of rank 0 or 1, or None."""
    content = site.content(position)
    if isinstance(content, Extents):
        return content
    if not isinstance(content, Node) or len(content.shape) > 1:
        return None
    found = known_integers(content)
    return None if found is None else Extents(found, (len(found),) if content.shape else (), _element(site))


def _element(site: Site) -> str:
    """The element type that the text states for the result."""
    stated = site.op.result_types[0] if site.op.result_types else None
    if isinstance(stated, TensorText):
        return str(stated.element)
    return stated.name if isinstance(stated, ElementType) else "index"


def _all_known(site: Site) -> list[Extents] | None:
    found = [_known(site, position) for position in range(len(site.op.operands))]
    known = [each for each in found if each is not None]
    return known if len(known) == len(found) else None


def _elementwise(function: Callable[[Size, Size], Size | None]) -> Symbolic:
    def evaluate(site: Site) -> Extents | None:
        known = _all_known(site)
        if known is None or len(known) != 2 or known[0].shape != known[1].shape:
            return None
        sizes = [function(x, y) for x, y in zip(known[0].sizes, known[1].sizes, strict=True)]
        settled = tuple(size for size in sizes if size is not None)
        return Extents(settled, known[0].shape, _element(site)) if len(settled) == len(sizes) else None

    return evaluate


def _quotient(x: Size, y: Size) -> Size | None:
    """Of what is not negative by what is positive."""
    if less_equal(0, x) is True and less_equal(1, y) is True:
        return floor_divide(x, y)
    return None


def _remainder(x: Size, y: Size) -> Size | None:
    quotient = _quotient(x, y)
    return None if quotient is None else x - quotient * y


def _same(site: Site) -> Extents | None:
    known = _known(site, 0)
    return None if known is None else Extents(known.sizes, known.shape, _element(site))


def _reshape(site: Site) -> Extents | None:
    """To rank 0 or 1."""
    known = _known(site, 0)
    stated = site.op.result_types[0] if site.op.result_types else None
    if known is None or not isinstance(stated, TensorText) or len(stated.shape) > 1:
        return None
    shape = (len(known.sizes),) if stated.shape else ()
    return Extents(known.sizes, shape, _element(site))


def _broadcast(site: Site) -> Extents | None:
    """One number as a vector."""
    known = _known(site, 0)
    stated = site.op.result_types[0] if site.op.result_types else None
    if known is None or not isinstance(stated, TensorText) or len(stated.shape) != 1:
        return None
    (size,) = stated.shape
    if size is None or len(known.sizes) not in (1, size):
        return None
    return Extents(known.sizes * (size // len(known.sizes)) if known.sizes else (), (size,), _element(site))


def _concatenate(site: Site) -> Extents | None:
    known = _all_known(site)
    if known is None or any(len(each.shape) != 1 for each in known):
        return None
    sizes = tuple(size for each in known for size in each.sizes)
    return Extents(sizes, (len(sizes),), _element(site))


def _slice(site: Site) -> Extents | None:
    known = _known(site, 0)
    if known is None or len(known.shape) != 1:
        return None
    bounds = [site.integers(key) for key in ("start_indices", "limit_indices")]
    strides = site.integers("strides", (1,))
    if any(len(each) != 1 for each in (*bounds, strides)) or strides[0] < 1:
        return None
    sizes = known.sizes[bounds[0][0] : bounds[1][0] : strides[0]]
    return Extents(sizes, (len(sizes),), _element(site))


def _compare(site: Site) -> Claim | None:
    known = _all_known(site)
    if known is None or len(known) != 2 or any(each.shape for each in known):
        return None
    return Claim(site.word("comparison_direction"), known[0].sizes[0], known[1].sizes[0])


_MIRRORED = {"LT": "GT", "LE": "GE"}


def assume(site: Site, claim: Claim) -> None:
    """Learns what a claim says of sizes, or has it checked when they are known."""
    left, right, direction = claim.left, claim.right, claim.direction
    if direction == "EQ":
        if right != 0 or not _learn_divisor(site, left):
            site.assume_equal(left, right)
        return
    if direction == "NE":
        left, right, direction = maximum(left - right, right - left), 0, "GT"
    if direction in ("LT", "LE"):
        left, right, direction = right, left, _MIRRORED[direction]
    site.scope.sizes.assume_at_least(left - right, int(direction == "GT"))


def _learn_divisor(site: Site, remainder: Size) -> bool:
    """Learns that an unknown is a multiple of what leaves no remainder; whether the size is a remainder."""
    left = site.scope.sizes.resolve(remainder)
    for found in symbols_of(left):
        size = symbol_dim(found)
        for _, monomial in left.terms if isinstance(left, Dim) else ():
            for atom, _ in monomial:
                divisor = atom.divisor if isinstance(atom, Floor) and atom.dividend == size else None
                if isinstance(divisor, int) and left == size - floor_divide(size, divisor) * divisor:
                    site.scope.sizes.assume_multiple(size, divisor)
                    return True
    return False


def is_false(claim: Claim) -> bool:
    """Whether a claim never holds."""
    known = {
        "EQ": lambda x, y: less_equal(x, y) is False or less_equal(y, x) is False,
        "NE": equal,
        "LT": lambda x, y: less_equal(y, x) is True,
        "LE": lambda x, y: less_equal(x, y) is False,
        "GT": lambda x, y: less_equal(x, y) is True,
        "GE": lambda x, y: less_equal(y, x) is False,
    }.get(claim.direction)
    return known is not None and bool(known(claim.left, claim.right))


SYMBOLIC: Mapping[str, Symbolic] = {
    "add": _elementwise(operator.add),
    "addi": _elementwise(operator.add),
    "broadcast_in_dim": _broadcast,
    "ceildivsi": _elementwise(lambda x, y: _quotient(x + y - 1, y)),
    "compare": _compare,
    "concatenate": _concatenate,
    "convert": _same,
    "divide": _elementwise(_quotient),
    "divsi": _elementwise(_quotient),
    "divui": _elementwise(_quotient),
    "maximum": _elementwise(maximum),
    "maxsi": _elementwise(maximum),
    "minimum": _elementwise(minimum),
    "minsi": _elementwise(minimum),
    "muli": _elementwise(operator.mul),
    "multiply": _elementwise(operator.mul),
    "remainder": _elementwise(_remainder),
    "remsi": _elementwise(_remainder),
    "reshape": _reshape,
    "slice": _slice,
    "subi": _elementwise(operator.sub),
    "subtract": _elementwise(operator.sub),
}
"""By short names; each gives None where its operands are not known."""

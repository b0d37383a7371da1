"""Custom calls, by the names of their targets."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping

from tcp_eqsat.errors import TypeMismatch, UnknownName, VerificationError
from tcp_eqsat.frontends.mlir.calls import call
from tcp_eqsat.frontends.mlir.expectations import CHECK_CALLS
from tcp_eqsat.frontends.mlir.hlo_elementwise import CHLO_ELEMENTWISE, ELEMENTWISE
from tcp_eqsat.frontends.mlir.hlo_indexing import CHLO_INDEXING, greatest
from tcp_eqsat.frontends.mlir.known import known_array
from tcp_eqsat.frontends.mlir.scalar_region import scalar_functions
from tcp_eqsat.frontends.mlir.scope import Claim, Content, tensor_parts, tensors_of
from tcp_eqsat.frontends.mlir.site import Lowering, Site
from tcp_eqsat.frontends.mlir.symbolic import assume, is_false
from tcp_eqsat.frontends.mlir.tree import Symbol
from tcp_eqsat.lang.ops.bit_builders import random_bits
from tcp_eqsat.lang.ops.window_builders import WindowShape, reduce_window
from tcp_eqsat.lang.program import Node


def _shape_assertion(site: Site) -> tuple[Content, ...]:
    """A claim of sizes, which are learned or checked; the other operands are for the message."""
    found = site.content(0)
    if isinstance(found, Claim):
        holds = not is_false(found)
    else:
        known = known_array(found) if isinstance(found, Node) else None
        if known is None:
            raise VerificationError(f"{site.name} requires a comparison of sizes that follow from shapes")
        holds = bool(known.all())
    if not holds:
        message = site.word("error_message", "a shape assertion fails")
        raise VerificationError(f"{site.name}: {message[:200]}")
    if isinstance(found, Claim):
        assume(site, found)
    return ()


def _by_name(table: Mapping[str, Lowering], name: str) -> Lowering:
    """An operation of another dialect, whose attributes stand in `mhlo.attributes`."""

    def lower(site: Site) -> Content | tuple[Content, ...]:
        attributes = site.op.attributes.get("mhlo.attributes", {})
        if not isinstance(attributes, dict):
            raise VerificationError(f"{site.name} requires a dictionary as 'mhlo.attributes'")
        return table[name](Site(site.scope, site.op._replace(attributes=attributes)))

    return lower


def _mhlo_top_k(site: Site) -> tuple[Content, ...]:
    attributes = site.op.attributes.get("mhlo.attributes", {})
    inner = Site(site.scope, site.op._replace(attributes=attributes if isinstance(attributes, dict) else {}))
    if not inner.flag("largest", True):
        raise VerificationError(f"{site.name} of the least values is not supported")
    (x,) = site.tensors(1)
    return greatest(x, inner.integer("k"))


def _dynamic_top_k(site: Site) -> tuple[Content, ...]:
    site.require_operands(2)
    (count,) = site.known(1)
    return greatest(site.tensor(0), count)


def _dynamic_reduce_window(site: Site) -> tuple[Content, ...]:
    """Operands, start values, then window dimensions, strides, base dilations, window dilations and padding."""
    count, odd = divmod(len(site.op.operands) - 5, 2)
    called = site.attribute("called_computations")
    symbols = [each for each in called if isinstance(each, Symbol)] if type(called) is tuple else []
    if odd or count < 1 or len(symbols) != 1:
        raise TypeMismatch(f"{site.name} requires a start value for each operand, 5 shapes and one computation")
    inputs = [site.tensor(n) for n in range(count)]
    starts = [site.tensor(n) for n in range(count, 2 * count)]
    sizes, strides, base, dilations, padding = (site.known(n) for n in range(2 * count, 2 * count + 5))
    numbers = [n for each in (strides, base, dilations) for n in each if isinstance(n, int)]
    rank = len(inputs[0].shape)
    if len(numbers) != 3 * rank or len(sizes) != rank or len(padding) != 2 * rank:
        raise TypeMismatch(f"{site.name} requires {rank} numbers as strides and dilations, and as many sizes")
    dtypes = [x.dtype for x in starts]
    functions = scalar_functions(
        lambda *x: tuple(map(site.node_of, tensors_of(call(site, symbols[0], x)))), [*dtypes, *dtypes])
    shape = WindowShape.of(
        sizes, numbers[:rank], numbers[2 * rank :], padding[::2], padding[1::2],
        [n - 1 for n in numbers[rank : 2 * rank]])
    return reduce_window(inputs, starts, functions, shape)


def _dynamic_bits(site: Site) -> tuple[Content, ...]:
    """Random bits of a shape that is an operand."""
    site.require_operands(2)
    if len(site.op.result_types) != 2:
        raise TypeMismatch(f"{site.name} requires 2 results, got {len(site.op.result_types)}")
    dtype = tensor_parts(site.op.result_types[1])[0]
    philox = site.word("rng_algorithm", "DEFAULT") != "THREE_FRY"
    return random_bits(site.tensor(0), dtype, site.known(1), philox=philox)


def _same(site: Site) -> tuple[Content, ...]:
    """The operands themselves."""
    return site.contents()


_MHLO = {**ELEMENTWISE, **CHLO_ELEMENTWISE, **CHLO_INDEXING}

TARGETS: Mapping[str, Lowering] = {
    **CHECK_CALLS,
    **{f"mhlo.{name}": _by_name(_MHLO, name) for name in _MHLO},
    "SPMDFullToShardShape": _same,
    "SPMDShardToFullShape": _same,
    "Sharding": _same,
    "annotate_device_placement": _same,
    "mhlo.topk": _mhlo_top_k,
    "shape_assertion": _shape_assertion,
    "stablehlo.dynamic_reduce_window": _dynamic_reduce_window,
    "stablehlo.dynamic_rng_bit_generator": _dynamic_bits,
    "stablehlo.dynamic_top_k": _dynamic_top_k,
}


def _custom_call(site: Site) -> Content | tuple[Content, ...]:
    name = site.symbol("call_target_name").name
    target: Callable[[Site], Content | tuple[Content, ...]] | None = TARGETS.get(name)
    if target is None:
        near = difflib.get_close_matches(name[:64], list(TARGETS), 1)
        hint = f"; did you mean @{near[0]}?" if near else ""
        raise UnknownName(f"{site.name} @{name} is not known{hint}")
    try:
        return target(site)
    except TypeMismatch as error:
        raise type(error)(f"@{name}: {error.message}", error.where) from None


CUSTOM: Mapping[str, Lowering] = {"custom_call": _custom_call}

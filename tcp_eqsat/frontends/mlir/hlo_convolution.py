"""Convolutions of XLA's dialects."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tcp_eqsat.errors import TypeMismatch, VerificationError
from tcp_eqsat.frontends.mlir.hlo_elementwise import convert
from tcp_eqsat.frontends.mlir.hlo_reduction import contraction_dtype, from_contraction
from tcp_eqsat.frontends.mlir.site import Lowering, Site
from tcp_eqsat.frontends.mlir.tree import OpaqueAttribute
from tcp_eqsat.lang.dims import Size
from tcp_eqsat.lang.ops.window_builders import ConvolutionAxes, convolution
from tcp_eqsat.lang.program import Node

_NUMBERS = re.compile(r"\[([^][]*)\]\s*x\s*\[([^][]*)\]\s*->\s*\[([^][]*)\]", re.ASCII)
_RAW = ("input", "kernel", "output")


def _axes(site: Site) -> ConvolutionAxes:
    """`#stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>`, or `#stablehlo.conv<raw input_batch_dimension = 0, ...>`."""
    attribute = site.attribute("dimension_numbers")
    match = _NUMBERS.search(attribute.text) if isinstance(attribute, OpaqueAttribute) else None
    if match is None:
        return _raw_axes(site)
    roles = [[role.strip() for role in part.split(",")] for part in match.groups()]
    found = []
    for part, (first, second) in zip(roles, (("b", "f"), ("i", "o"), ("b", "f")), strict=True):
        spatial = [str(n) for n in range(len(part) - 2)]
        if sorted(part) != sorted([first, second, *spatial]):
            raise VerificationError(f"{site.name} requires axes {first}, {second}, 0, 1, ... each once, got {part}")
        found.append((part.index(first), part.index(second), *map(part.index, spatial)))
    return ConvolutionAxes(*found)


def _raw_axes(site: Site) -> ConvolutionAxes:
    attribute = site.attribute("dimension_numbers")
    text = attribute.text.replace("<raw", "<") if isinstance(attribute, OpaqueAttribute) else ""
    raw = Site(site.scope, site.op._replace(attributes={"raw": OpaqueAttribute(text, site.op.offset)}))
    parts = raw.parts("raw")

    def axes(name: str) -> tuple[int, ...]:
        if name not in parts:
            raise VerificationError(f"{site.name} requires {name} among the dimension_numbers")
        return site.integers_of(parts[name])

    return ConvolutionAxes(
        (*axes("input_batch_dimension"), *axes("input_feature_dimension"), *axes("input_spatial_dimensions")),
        (*axes("kernel_input_feature_dimension"), *axes("kernel_output_feature_dimension"),
         *axes("kernel_spatial_dimensions")),
        (*axes("output_batch_dimension"), *axes("output_feature_dimension"), *axes("output_spatial_dimensions")))


def _convolve(site: Site, x: Node, kernel: Node, low: tuple[Size, ...], high: tuple[Size, ...]) -> Node:
    axes = _axes(site)
    spatial = len(axes.input) - 2
    if len(x.shape) != spatial + 2 or len(kernel.shape) != spatial + 2:
        raise TypeMismatch(
            f"{site.name} requires operands of rank {spatial + 2}, as its dimension_numbers have, got {x.type} and "
            f"{kernel.type}")
    ones = (1,) * spatial
    windows = {
        key: site.integers(key, ones) for key in ("window_strides", "lhs_dilation", "rhs_dilation")}
    backwards = site.integers("window_reversal", (0,) * spatial)
    if any(len(each) != spatial for each in (*windows.values(), backwards, low, high)):
        raise VerificationError(f"{site.name} requires {spatial} numbers for each attribute of the window")
    if any(n < 1 for each in windows.values() for n in each):
        raise VerificationError(f"{site.name} requires strides and dilations of at least 1")
    dtype = site.stated()[0]
    work = contraction_dtype(dtype)
    return from_contraction(convolution(
        convert(x, work), convert(kernel, work), axes, strides=windows["window_strides"], low=low, high=high,
        input_dilation=windows["lhs_dilation"], kernel_dilation=windows["rhs_dilation"],
        reversed_axes=[bool(n) for n in backwards],
        feature_groups=site.integer("feature_group_count", 1), batch_groups=site.integer("batch_group_count", 1),
    ), dtype)


def _convolution(site: Site) -> Node:
    x, kernel = site.tensors(2)
    padding = site.pairs("padding", max(len(x.shape) - 2, 0))
    return _convolve(site, x, kernel, tuple(n for n, _ in padding), tuple(n for _, n in padding))


def _dynamic_conv(site: Site) -> Node:
    """Padding is an operand: a pair for each spatial axis."""
    site.require_operands(3)
    amounts = site.known(2)
    return _convolve(site, site.tensor(0), site.tensor(1), amounts[::2], amounts[1::2])


CONVOLUTION: Mapping[str, Lowering] = {
    "convolution": _convolution,
    "dynamic_conv": _dynamic_conv,
}

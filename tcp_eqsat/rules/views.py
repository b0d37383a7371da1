"""Views (transposes and broadcasts as index maps) and reshapes: composed, dropped, moved through scalar operations."""

from __future__ import annotations

from tcp_eqsat.lang.dims import equal
from tcp_eqsat.lang.types import Shape, TensorType
from tcp_eqsat.rules.attribute import Sort, attribute_function
from tcp_eqsat.rules.maps import INT, INTS, SHAPE, Labels, compose, is_identity, same_shape, shape_of
from tcp_eqsat.rules.pattern import (
    int_variables,
    iota,
    labels_variables,
    reshape,
    scalar_operation,
    shape_variables,
    type_variables,
    variables,
    view,
)
from tcp_eqsat.rules.rule import Phase, RuleSet, rule

SIMPLIFY = Phase.SIMPLIFY

x, y, z = variables("x y z")
m, n = labels_variables("m n")
s, t = shape_variables("s t")
(axis,) = int_variables("axis")
(found,) = type_variables("found")
f1, f2, f3 = scalar_operation("f", 1), scalar_operation("f", 2), scalar_operation("f", 3)


def _common(left: Labels, right: Labels, shape: Shape) -> Labels | None:
    """The axes of `shape` along which one of two viewed operands varies; None where these are all axes."""
    used = sorted({label for label in (*left, *right) if label >= 0})
    return tuple(used) if len(used) < len(shape) else None


@attribute_function(INTS, INTS, SHAPE, result=INTS)
def common_axes(left: Labels, right: Labels, shape: Shape) -> Labels | None:
    """The axes of `shape` along which one of two viewed operands varies; None where these are all axes."""
    return _common(left, right, shape)


@attribute_function(INTS, INTS, SHAPE, result=SHAPE)
def common_shape(left: Labels, right: Labels, shape: Shape) -> Shape | None:
    """The sizes of `common_axes`."""
    axes = _common(left, right, shape)
    return None if axes is None else tuple(shape[a] for a in axes)


@attribute_function(INTS, INTS, INTS, SHAPE, result=INTS)
def among_common(labels: Labels, left: Labels, right: Labels, shape: Shape) -> Labels | None:
    """`labels` numbered among `common_axes`."""
    axes = _common(left, right, shape)
    return None if axes is None else tuple(axes.index(label) if label >= 0 else -1 for label in labels)


@attribute_function(SHAPE, SHAPE, result=INTS)
def unit_labels(before: Shape, after: Shape) -> Labels | None:
    """The view that a reshape is, where it only adds or drops axes of size 1; else None."""
    targets = [axis for axis, size in enumerate(after) if not equal(size, 1)]
    kept = [axis for axis, size in enumerate(before) if not equal(size, 1)]
    if len(targets) != len(kept) or not all(equal(before[a], after[b]) for a, b in zip(kept, targets, strict=True)):
        return None
    return tuple(targets[kept.index(axis)] if axis in kept else -1 for axis in range(len(before)))


@attribute_function(Sort.TYPE, SHAPE, result=Sort.TYPE)
def reshaped_type(x: TensorType, shape: Shape) -> TensorType:
    """The dtype of a type with another shape."""
    return TensorType(x.dtype, shape)


@attribute_function(INTS, INT, result=INT)
def label_at(labels: Labels, axis: int) -> int | None:
    """Where an axis runs; None for index 0."""
    return labels[axis] if labels[axis] >= 0 else None


composition = RuleSet((
    rule("compose_views", view(view(x, m, s), n, t), view(x, compose(n, m), t), phase=SIMPLIFY,
         doc="Transposes and broadcasts in a row are one index map."),
    rule("identity_view", view(x, m, s), x, when=is_identity(m, s), phase=SIMPLIFY,
         doc="A view that moves and adds nothing; a transpose back and forth ends here."),
    rule("compose_reshapes", reshape(reshape(x, s), t), reshape(x, t), phase=SIMPLIFY,
         doc="Row-major order does not depend on the shape in between."),
    rule("identity_reshape", reshape(x, s), x, when=same_shape(shape_of(x), s), phase=SIMPLIFY,
         doc="The same shape."),
    rule("reshape_of_unit_axes", reshape(x, s), view(x, unit_labels(shape_of(x), s), s), phase=SIMPLIFY,
         doc="Adding and dropping axes of size 1 is a view."),
    rule("view_of_iota", view(iota(found, axis), m, s), iota(reshaped_type(found, s), label_at(m, axis)),
         phase=SIMPLIFY, doc="A ramp along an axis, wherever that axis goes."),
))

movement = RuleSet((
    rule("view_through_unary", f1(view(x, m, s)), view(f1(x), m, s), bidirectional=True,
         doc="Compute before broadcasting; or fuse a transpose into what reads it."),
    rule("view_through_binary", f2(view(x, m, s), view(y, m, s)), view(f2(x, y), m, s), bidirectional=True,
         doc="Compute before broadcasting; or fuse a transpose into what reads it."),
    rule("view_through_ternary", f3(view(x, m, s), view(y, m, s), view(z, m, s)), view(f3(x, y, z), m, s),
         bidirectional=True, doc="Compute before broadcasting; or fuse a transpose into what reads it."),
    rule("view_through_scalar_on_the_right", f2(view(x, m, s), view(y, (), s)),
         view(f2(x, view(y, (), shape_of(x))), m, s),
         doc="A scalar or constant operand looks the same through every view."),
    rule("view_through_scalar_on_the_left", f2(view(y, (), s), view(x, m, s)),
         view(f2(view(y, (), shape_of(x)), x), m, s),
         doc="A scalar or constant operand looks the same through every view."),
    rule("share_broadcast", f2(view(x, m, s), view(y, n, s)),
         view(f2(view(x, among_common(m, m, n, s), common_shape(m, n, s)),
                 view(y, among_common(n, m, n, s), common_shape(m, n, s))), common_axes(m, n, s), s),
         doc="Axes along which neither operand varies are added after computing."),
    rule("reshape_through_unary", f1(reshape(x, s)), reshape(f1(x), s), bidirectional=True,
         doc="Brings elementwise operations together on either side of an opaque reshape."),
    rule("reshape_through_binary", f2(reshape(x, s), reshape(y, s)), reshape(f2(x, y), s),
         when=same_shape(shape_of(x), shape_of(y)), bidirectional=True,
         doc="Brings elementwise operations together on either side of an opaque reshape."),
))

VIEWS = composition + movement

"""Index maps: which label of an iteration space each operand axis runs along.

A label is a number; -1 stands for the constant index 0 of an axis of size 1. The labels of one operand are
distinct, so there are no diagonals, and sizes along a label are equal, so nothing stretches implicitly.
"""

from __future__ import annotations

import numpy as np

from tcp_eqsat.errors import ShapeMismatch, TypeMismatch
from tcp_eqsat.lang.dims import equal
from tcp_eqsat.lang.pointful import ZERO, Affine, axis_index
from tcp_eqsat.lang.types import Shape, TensorType


def check_labels(name: str, operand: TensorType, labels: tuple[int, ...], extents: Shape, role: str = "") -> None:
    """Raises TypeMismatch or ShapeMismatch where `labels` does not map `operand` into `extents`."""
    what = f"{name} {role}".rstrip()
    if len(labels) != operand.rank:
        raise TypeMismatch(f"{what} requires a label for each axis of {operand}, got {list(labels)}")
    used = [label for label in labels if label >= 0]
    if len(set(used)) != len(used):
        raise TypeMismatch(f"{what} requires distinct labels, got {list(labels)}")
    for axis, label in enumerate(labels):
        if not -1 <= label < len(extents):
            raise TypeMismatch(f"{what} requires labels below {len(extents)}, got {label} for axis {axis}")
        required = 1 if label < 0 else extents[label]
        if not equal(operand.shape[axis], required):
            raise ShapeMismatch(f"{what} requires size {required} along axis {axis} of {operand}")


def check_reduced(name: str, rank: int, extents: Shape, *operands: tuple[int, ...]) -> None:
    """Raises TypeMismatch where `rank` is out of range or a label from rank on is in none of the operands."""
    if not 0 <= rank <= len(extents):
        raise TypeMismatch(f"{name} requires a rank of 0 to {len(extents)}, got {rank}")
    for label in range(rank, len(extents)):
        if not any(label in labels for labels in operands):
            raise TypeMismatch(f"{name} requires every reduced label in an operand, {label} is missing")


def label_indices(labels: tuple[int, ...]) -> tuple[Affine, ...]:
    """The operand's index at an index of the iteration space."""
    return tuple(axis_index(label) if label >= 0 else ZERO for label in labels)


def gather_labels(array: np.ndarray, labels: tuple[int, ...], extents: tuple[int, ...]) -> np.ndarray:
    """The operand over the whole iteration space, as a broadcast view."""
    squeezed = array.reshape([n for n, label in zip(array.shape, labels, strict=True) if label >= 0])
    used = [label for label in labels if label >= 0]
    ordered = squeezed.transpose(np.argsort(used)) if used else squeezed
    present = set(used)
    expanded = ordered.reshape([n if label in present else 1 for label, n in enumerate(extents)])
    return np.broadcast_to(expanded, extents)

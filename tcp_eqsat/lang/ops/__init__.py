"""The operations by theme. Importing this package fills the operation and scalar tables."""

from tcp_eqsat.lang import scalars
from tcp_eqsat.lang.ops import contraction, control, elementwise, indexing, movement, reduction, source, structure

__all__ = [
    "contraction", "control", "elementwise", "indexing", "movement", "reduction", "scalars", "source", "structure",
]

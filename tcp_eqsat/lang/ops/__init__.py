"""The operations by theme. Importing this package fills the operation and scalar tables."""

from tcp_eqsat.lang import scalars
from tcp_eqsat.lang.ops import (
    accumulation,
    complex_views,
    contraction,
    control,
    elementwise,
    indexing,
    movement,
    ordering,
    reduction,
    source,
    structure,
)

__all__ = [
    "accumulation", "complex_views", "contraction", "control", "elementwise", "indexing", "movement", "ordering",
    "reduction", "scalars", "source", "structure",
]

"""The operations by theme. Importing this package fills the operation and scalar tables."""

from tcp_eqsat.lang import scalars
from tcp_eqsat.lang.ops import (
    accumulation,
    complex_views,
    contraction,
    control,
    elementwise,
    indexing,
    linalg,
    movement,
    ordering,
    quantization,
    reduction,
    source,
    structure,
    windows,
)

__all__ = [
    "accumulation", "complex_views", "contraction", "control", "elementwise", "indexing", "linalg", "movement",
    "ordering", "quantization", "reduction", "scalars", "source", "structure", "windows",
]

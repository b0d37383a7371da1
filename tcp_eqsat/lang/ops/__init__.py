"""The operations by theme. Importing this package fills the operation and scalar tables."""

from tcp_eqsat.lang import scalars
from tcp_eqsat.lang.ops import contraction, elementwise, movement, reduction, source, structure

__all__ = ["contraction", "elementwise", "movement", "reduction", "scalars", "source", "structure"]

"""What the operations of XLA's dialects mean: a table from names to lowerings.

Names are keys without their dialect, in the short form of `xla_hlo` and the long one of its
successors alike.
"""

from __future__ import annotations

from collections.abc import Mapping

from tcp_eqsat.frontends.mlir.hlo_elementwise import ELEMENTWISE
from tcp_eqsat.frontends.mlir.hlo_reduction import REDUCTION
from tcp_eqsat.frontends.mlir.hlo_structure import STRUCTURE
from tcp_eqsat.frontends.mlir.site import Lowering

HLO: Mapping[str, Lowering] = {**ELEMENTWISE, **STRUCTURE, **REDUCTION}

CHLO: Mapping[str, Lowering] = {}

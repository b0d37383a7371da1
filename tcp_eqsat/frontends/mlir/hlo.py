"""What the operations of XLA's dialects mean: a table from names to lowerings.

Names are keys without their dialect, in the short form of `xla_hlo` and the long one of its
successors alike.
"""

from __future__ import annotations

from collections.abc import Mapping

from tcp_eqsat.frontends.mlir.custom_calls import CUSTOM
from tcp_eqsat.frontends.mlir.hlo_bits import BITS
from tcp_eqsat.frontends.mlir.hlo_control import CONTROL
from tcp_eqsat.frontends.mlir.hlo_convolution import CONVOLUTION
from tcp_eqsat.frontends.mlir.hlo_elementwise import CHLO_ELEMENTWISE, ELEMENTWISE
from tcp_eqsat.frontends.mlir.hlo_indexing import CHLO_INDEXING, INDEXING
from tcp_eqsat.frontends.mlir.hlo_linear import LINEAR
from tcp_eqsat.frontends.mlir.hlo_parallel import PARALLEL
from tcp_eqsat.frontends.mlir.hlo_quantized import QUANTIZED
from tcp_eqsat.frontends.mlir.hlo_reduction import REDUCTION
from tcp_eqsat.frontends.mlir.hlo_source import CHLO_SOURCE, SOURCE
from tcp_eqsat.frontends.mlir.hlo_structure import STRUCTURE
from tcp_eqsat.frontends.mlir.site import Lowering

HLO: Mapping[str, Lowering] = {
    **BITS, **CONTROL, **CONVOLUTION, **CUSTOM, **ELEMENTWISE, **INDEXING, **LINEAR, **PARALLEL, **QUANTIZED,
    **REDUCTION, **SOURCE, **STRUCTURE,
}

CHLO: Mapping[str, Lowering] = {**CHLO_ELEMENTWISE, **CHLO_INDEXING, **CHLO_SOURCE}

MHLO: Mapping[str, Lowering] = {**CHLO_ELEMENTWISE, **HLO, "topk": CHLO_INDEXING["top_k"]}

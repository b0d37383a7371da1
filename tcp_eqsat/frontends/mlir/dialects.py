"""The tables of all dialects: what each operation means."""

from __future__ import annotations

from collections.abc import Mapping

from tcp_eqsat.frontends.mlir.calls import CALLS
from tcp_eqsat.frontends.mlir.expectations import CHECK, PROBES
from tcp_eqsat.frontends.mlir.flow import FLOW
from tcp_eqsat.frontends.mlir.hlo import CHLO, HLO, MHLO
from tcp_eqsat.frontends.mlir.hlo_parallel import INTERPRETER
from tcp_eqsat.frontends.mlir.shape_dialect import SHAPE, UNNAMED
from tcp_eqsat.frontends.mlir.site import Lowering
from tcp_eqsat.frontends.mlir.small_dialects import ARITH, SHAPES, TENSOR
from tcp_eqsat.frontends.mlir.tcp_dialect import BUILTIN, TCP

DIALECTS: Mapping[str, Mapping[str, Lowering]] = {
    "": {**UNNAMED, **CALLS},
    "arith": ARITH,
    "builtin": BUILTIN,
    "check": CHECK,
    "chlo": CHLO,
    "flow": FLOW,
    "func": CALLS,
    "interpreter": {**INTERPRETER, **PROBES},
    "mhlo": MHLO,
    "shape": {**SHAPES, **SHAPE},
    "stablehlo": HLO,
    "tcp": TCP,
    "tensor": TENSOR,
    "xla_hlo": HLO,
}

"""The e-graph: encoding, saturation, and the view that extraction reads. The only package that imports egglog.

`saturate` and what comes with it are loaded at their first use: importing egglog takes a quarter of a second, and
a compiled program from the cache never needs it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tcp_eqsat.egraph.view import EGraphView, ENode, program_view

if TYPE_CHECKING:
    from tcp_eqsat.egraph.engine import EGraphError
    from tcp_eqsat.egraph.report import Iteration, RuleCounts, SaturationReport, StopReason
    from tcp_eqsat.egraph.saturation import Saturation, saturate
    from tcp_eqsat.egraph.stages import Stage

_LATER = {
    "EGraphError": "engine", "Iteration": "report", "RuleCounts": "report", "Saturation": "saturation",
    "SaturationReport": "report", "Stage": "stages", "StopReason": "report", "saturate": "saturation",
}

__all__ = [
    "EGraphError", "EGraphView", "ENode", "Iteration", "RuleCounts", "Saturation", "SaturationReport", "Stage",
    "StopReason", "program_view", "saturate",
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    value = getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    globals()[name] = value
    return value

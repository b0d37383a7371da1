"""Extraction: from the classes of an e-graph to a plan of kernels under a cost model."""

from tcp_eqsat.extract.bodies import Body
from tcp_eqsat.extract.cost import CostModel
from tcp_eqsat.extract.extract import Extraction, ExtractionReport, SearchEnd, baseline, extract
from tcp_eqsat.extract.machine import MachineModel, cost_model_names, load_cost_model

__all__ = [
    "Body", "CostModel", "Extraction", "ExtractionReport", "MachineModel", "SearchEnd", "baseline", "cost_model_names",
    "extract", "load_cost_model",
]

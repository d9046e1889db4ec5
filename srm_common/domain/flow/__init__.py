"""A flow: one directed pair of clusters; its settings, names and start positions."""

from srm_common.domain.flow.flow_name import ARROW, FlowName
from srm_common.domain.flow.graph_flow import GraphFlow
from srm_common.domain.flow.settings import COMPRESSION_TYPES, Compression, FlowSettings, OnDataLoss

__all__ = ["ARROW", "COMPRESSION_TYPES", "Compression", "FlowName", "FlowSettings", "GraphFlow", "OnDataLoss"]

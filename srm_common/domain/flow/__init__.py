"""A flow: one directed pair of clusters; its settings, names and start positions."""

from srm_common.domain.flow.settings import (
    ARROW,
    COMPRESSION_TYPES,
    Compression,
    FlowName,
    FlowSettings,
    GraphFlow,
    OnDataLoss,
)

__all__ = ["ARROW", "COMPRESSION_TYPES", "Compression", "FlowName", "FlowSettings", "GraphFlow", "OnDataLoss"]

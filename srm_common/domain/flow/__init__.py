"""A flow: one directed pair of clusters, its settings and names, and what is said of it."""

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

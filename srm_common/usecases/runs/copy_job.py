"""The job description of a flow's slots."""

from __future__ import annotations

from dataclasses import replace

from srm_common.domain.flow import FlowSettings
from srm_common.domain.runs.copying import LEAST_FETCH_WAIT_MS, CopyJob
from srm_common.domain.schemas.id_mapping import IdMapping
from srm_common.domain.schemas.planning import copies_context
from srm_common.kafka.state.state_topics import StateTopics


def copy_job(flow: FlowSettings, state: StateTopics, function: str | None = None) -> CopyJob:
    """The job description that all slots of the flow share.

    Args:
        function: the digest of the code of the flow's Python function; None where it is not installed here.
    """
    request_timeout_ms = max(
        flow.source.request_timeout_ms or flow.request_timeout_ms,
        flow.target.request_timeout_ms or flow.request_timeout_ms,
    )
    # An answer that is held back as long as a request is waited for never comes; one that is not held back at all has
    # the broker asked again at once.
    most_wait_ms = max(LEAST_FETCH_WAIT_MS, request_timeout_ms // 2)
    return CopyJob(
        flow=str(flow.name),
        source_alias=flow.name.source,
        source=flow.source,
        target=flow.target,
        offsets_topic=state.offsets_topic,
        offsets_partitions=state.offsets_partitions,
        segments_topic=state.segments_topic,
        segments_partitions=state.segments_partitions,
        exactly_once=flow.exactly_once,
        read_committed=flow.read_committed,
        chunk_bytes=flow.chunk_bytes,
        chunk_seconds=flow.chunk_seconds,
        linger_seconds=flow.chunk_linger_ms / 1000,
        fetch_bytes=flow.fetch_bytes,
        fetch_partition_bytes=flow.fetch_partition_bytes,
        transaction_timeout_ms=flow.transaction_timeout_ms,
        request_timeout_ms=request_timeout_ms,
        retry_timeout_seconds=flow.retry_timeout_seconds,
        fetch_max_wait_ms=min(max(flow.fetch_max_wait_ms, LEAST_FETCH_WAIT_MS), most_wait_ms),
        compression=flow.compression,
        transforms=flow.transforms,
        statements=flow.statements,
        python_transform=flow.python_transform and replace(flow.python_transform, digest=function),
        provenance=flow.provenance,
        schemas_context=copies_context(flow),
        id_mapping=IdMapping.of(flow),
    )

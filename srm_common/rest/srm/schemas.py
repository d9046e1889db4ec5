"""JSON of the API, version 1: that of Streams Replication Manager 1.0, field by field. Times are epoch milliseconds.
Unknown numbers are null, where the original had 0 or -1.
"""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class _Camel(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class Status(StrEnum):
    ACTIVE = "ACTIVE"
    WARNING = "WARNING"
    INACTIVE = "INACTIVE"


class TimeRange(_Camel):
    start: int
    end: int
    midpoint: int
    description: str


class Stats(_Camel):
    """``groups``, ``topics`` and ``partitions`` are what the figures cover; empty: all of the flow's."""

    name: str
    min: float | None = None
    max: float | None = None
    sum: float | None = None
    avg: float | None = None
    samples: int = 0
    latest_timestamp: int | None = None
    latest_value: float | None = None
    range: TimeRange
    groups: list[str] = []
    topics: list[str] = []
    partitions: list[int] = []


class ReplicationInfo(_Camel):
    name: str
    source: str
    target: str
    status: Status
    num_topics: int | None
    num_consumer_groups: int | None
    throughput_bps: Stats
    replication_latency_ms: Stats
    checkpoint_latency_ms: Stats


class TopicInfo(_Camel):
    """``num_consumer_groups`` have a position on it; null if there are no checkpoints yet."""

    name: str
    source: str
    upstream_topic: str
    original_topic: str
    num_partitions: int
    num_consumer_groups: int | None = None
    throughput_bps: Stats
    replication_latency_ms: Stats
    checkpoint_latency_ms: Stats


class TimeSeriesResponse(_Camel):
    """``errors``: what could not be queried, such as a cluster that does not return the current lag."""

    metrics: list[Stats]
    errors: list[str] = []
    range: TimeRange


class ClusterInfo(_Camel):
    """Of version 2: a cluster with the flows into it (``sources``) and out of it (``targets``). ``kafka_cluster_id`` is
    null if the cluster was requested by its alias."""

    kafka_cluster_id: str | None
    name: str
    sources: list[ReplicationInfo]
    targets: list[ReplicationInfo]
    errors: list[str] = []
    range: TimeRange

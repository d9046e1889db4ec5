"""JSON of the API about topics and their partitions; see :mod:`srm_common.rest.schemas`."""

from __future__ import annotations

from pydantic import BaseModel, Field

from srm_common.rest.schemas import Answer, Bounds, Page, Range, Stat, Totals


class Topic(Totals):
    """``lag``, ``lag_bounds`` and ``behind_ms`` were measured at ``lag_ms``, as for a flow."""

    topic: str
    remote_topic: str
    partitions: int
    failed_partitions: int = 0
    lag: int | None = None
    lag_bounds: Bounds | None = None
    lag_ms: int | None = None
    behind_ms: float | None = None
    newest_record_ms: int | None = None
    error: str | None = None
    metrics: dict[str, Stat] = Field(default={})
    reported_ms: int


class TopicList(Page):
    """GET /flows/{s}/{t}/topics?search=&order=lag|-lag|topic|...&offset=&limit= and a range."""

    topics: list[Topic]
    range: Range


class TopicDetail(Answer):
    """GET /flows/{s}/{t}/topics/{topic}"""

    topic: Topic
    range: Range


class Difference(BaseModel):
    """Where a copy differs from what was committed, in offsets of both sides, inclusive; null for a side without
    offsets. ``kind`` as in docs/verify.md."""

    kind: str
    downstream_first: int | None = None
    downstream_last: int | None = None
    upstream_first: int | None = None
    upstream_last: int | None = None
    sentence: str


class PartitionVerification(BaseModel):
    """The newest verification of one copy, at ``checked_ms``, according to the newest report (docs/verify.md)."""

    verdict: str = Field(description="different, failed, partly, proved or nothing")
    checked_ms: int
    against: str | None = Field(default=None, description="what it was compared with: map or source")
    sample: float = Field(default=1.0, description="the share of it that was to be compared")
    whole: bool = Field(default=True, description="whether all of it was to be compared, and not a sample or a time")
    proved_from: int | None = Field(default=None, description="source offset")
    proved_to: int | None = Field(default=None, description="source offset up to which no difference was found")
    records: int = Field(default=0, description="records that are proved")
    fault: str | None = Field(default=None, description="why it could not be read to its end")
    difference: Difference | None = Field(default=None, description="the first one")


class Partition(Totals):
    """``position``, ``end``, ``lag`` and ``behind_ms`` were measured at ``lag_ms``, as for a flow. Rates, per second,
    and latencies are of the newest run. ``verified`` is null if no verification has compared the copy."""

    topic: str
    remote_topic: str
    partition: int
    position: int | None = None
    end: int | None = None
    lag: int | None = None
    lag_ms: int | None = None
    behind_ms: float | None = None
    newest_record_ms: int | None = None
    record_rate: float | None = None
    byte_rate: float | None = None
    latency_ms_min: float | None = None
    latency_ms_avg: float | None = None
    latency_ms_p50: float | None = None
    latency_ms_p95: float | None = None
    latency_ms_p99: float | None = None
    latency_ms_max: float | None = None
    error: str | None = None
    error_kind: str | None = None
    verified: PartitionVerification | None = None
    reported_ms: int


class PartitionList(Page):
    """GET /flows/{s}/{t}/partitions?topic=&failed=true&offset=&limit="""

    partitions: list[Partition]

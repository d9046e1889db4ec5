"""What the driver hands to a slot, and what comes back: plain frozen values that travel to Spark workers.

A *range* is one partition from an upstream offset (inclusive) to an upstream offset (exclusive). A *slot* is one
unit of parallel work with a transactional id of its own; it copies its ranges chunk by chunk.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from srm_common.domain.cluster import MAX_MESSAGE_BYTES, ClusterSettings
from srm_common.domain.flow import Compression
from srm_common.domain.runs.latency_histogram import NO_LATENCIES, LatencyHistogram


@dataclass(frozen=True, slots=True)
class CopyRange:
    """One partition's bounded read.

    ``start`` and ``end`` are upstream offsets, start inclusive, end exclusive (the last stable offset when the range
    was cut, or the high watermark for read_uncommitted flows). ``max_message_bytes`` is the target topic's
    ``max.message.bytes``: the largest batch, header included, that its leader accepts. ``generation`` tells source
    topics of the same name apart (:func:`srm_common.domain.offsets.segments.generation_of`). ``leader_epoch`` is that
    of the offset before ``start`` in the source log, -1 when it is not known. ``unmapped``: so many offsets before
    ``start`` were read since the newest segment of the offset map, and held nothing to copy.
    """

    upstream_topic: str
    downstream_topic: str
    partition: int
    start: int
    end: int
    max_message_bytes: int = MAX_MESSAGE_BYTES
    generation: int = 0
    leader_epoch: int = -1
    unmapped: int = 0


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """A transactional id as the driver left it after fencing: only who holds exactly this may write."""

    transactional_id: str
    producer_id: int
    epoch: int


@dataclass(frozen=True)
class CopyJob:
    """What all slots of a pass share. Picklable; credentials are hidden from ``repr``.

    ``pass_seconds``: a slot ends with the first chunk it commits after so long, whatever is left of its ranges; 0 is no
    such limit. ``tail_until`` (Unix time in seconds, 0 for never): until then a slot does not stop at the ends of its
    ranges but continues with what is written behind them; a slot that starts later copies its ranges and ends.
    ``linger_seconds``: how long a record that is read while tailing may wait for its commit. ``compression``: None
    where batches keep their codecs.
    """

    flow: str
    source_alias: str
    source: ClusterSettings
    target: ClusterSettings
    offsets_topic: str
    offsets_partitions: int
    segments_topic: str
    segments_partitions: int
    exactly_once: bool = True
    read_committed: bool = True
    chunk_bytes: int = 64 << 20
    chunk_seconds: float = 5.0
    fetch_bytes: int = 16 << 20
    fetch_partition_bytes: int = 4 << 20
    transaction_timeout_ms: int = 30_000
    request_timeout_ms: int = 30_000
    retry_timeout_seconds: float = 60.0
    pass_seconds: float = 0.0
    tail_until: float = 0.0
    linger_seconds: float = 0.2
    fetch_max_wait_ms: int = 500
    compression: Compression | None = None


@dataclass(frozen=True)
class SlotTask:
    """One slot's share of a pass. ``identity`` is None for at-least-once flows; ``expected_bytes`` is what the ranges
    probably hold, None if the record size of a topic among them was never measured."""

    slot: int
    identity: ProducerIdentity | None
    ranges: tuple[CopyRange, ...]
    expected_bytes: int | None = None


@dataclass(frozen=True)
class RangeResult:
    """What happened to one range. ``position`` is the next upstream offset to copy: everything before it is committed.

    ``bytes`` counts record batches as they lie in the source log (compressed, headers included). Latencies are
    milliseconds from a batch's newest record timestamp to the commit of its chunk; ``latency_samples`` are batches,
    ``latencies`` counts their records. ``error`` is None or one sentence; ``error_kind`` is the name of the class in
    :mod:`srm_common.errors`. ``leader_epoch`` is that of the offset before ``position`` in the source log, -1 when it
    is not known; ``unmapped`` as in :class:`CopyRange`, before ``position``.
    """

    upstream_topic: str
    downstream_topic: str
    partition: int
    start: int
    position: int
    end: int
    records: int = 0
    bytes: int = 0
    batches: int = 0
    reencoded_batches: int = 0
    reencoded_records: int = 0
    latency_ms_min: float | None = None
    latency_ms_max: float | None = None
    latency_ms_sum: float = 0.0
    latency_samples: int = 0
    latencies: LatencyHistogram = NO_LATENCIES
    last_timestamp_ms: int | None = None
    error: str | None = None
    error_kind: str | None = None
    leader_epoch: int = -1
    unmapped: int = 0


@dataclass(frozen=True)
class SlotResult:
    """What a slot reports. ``needs_new_epoch``: it did nothing more because its producer may be in use elsewhere.

    ``identity`` is what the slot's producer is after its last transaction, when sequences start at 0 again with it
    (``transaction.version=2`` changes the epoch at each commit); None when only a new fence makes it usable.
    """

    slot: int
    ranges: tuple[RangeResult, ...]
    identity: ProducerIdentity | None = None
    transactions: int = 0
    retries: int = 0
    needs_new_epoch: bool = False
    fenced: str | None = None
    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_rss_bytes: int = 0
    notes: tuple[str, ...] = field(default_factory=tuple)

"""What the driver passes to a slot, and its results: plain frozen values that are sent to Spark workers.

A *range* is one partition from an upstream offset (inclusive) to an upstream offset (exclusive). A *slot* is a unit of
parallel work with its own transactional id; it copies its ranges chunk by chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heapreplace
from typing import TypeVar

from srm_common.domain.cluster import MAX_MESSAGE_BYTES, ClusterSettings
from srm_common.domain.copied_to import CopiedTo
from srm_common.domain.flow import Compression
from srm_common.domain.flow.settings import Provenance
from srm_common.domain.runs.latency_histogram import NO_LATENCIES, LatencyHistogram
from srm_common.domain.schemas.id_mapping import IdMapping
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.transforms.chain import Chain
from srm_common.domain.transforms.faults import ErrorHandling
from srm_common.domain.transforms.plain_statements import needs_spark
from srm_common.domain.transforms.statements import PythonTransform, Statement

N = TypeVar("N", int, float)

#: The shortest ``max_wait_ms`` of a Fetch. Without any wait, a broker that has nothing would be asked again and again.
LEAST_FETCH_WAIT_MS = 10


@dataclass(frozen=True, slots=True)
class CopyRange:
    """One partition's bounded read.

    ``start`` and ``end`` are upstream offsets, start inclusive, end exclusive (the last stable offset when the range
    was cut, or the high watermark for read_uncommitted flows). ``max_message_bytes`` is the target topic's
    ``max.message.bytes``: the largest batch, header included, that its leader accepts. ``generation`` tells source
    topics of the same name apart (:func:`srm_common.domain.offsets.segments.generation_of`). ``leader_epoch`` is that
    of the offset before ``start`` in the source log, ``leading_epoch`` that of the newest leader that the driver has
    seen; -1 when they are not known. ``unmapped``: so many offsets before
    ``start`` were read since the newest segment of the offset map, and held nothing to copy. ``copied_to``: what the
    flow has committed, None where it does not know. No transform is for ``heartbeats``. ``compacted``: the copy is, by
    its settings, so the source is likely to have holes.
    ``copy_generation``: as ``generation``, of the copy; 0 where its id is not known. ``copy_end``: up to where this run
    has committed the copy, 0 where it has not yet. What earlier runs have committed may be gone, by
    ``on.target.loss``.
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
    heartbeats: bool = False
    copied_to: CopiedTo | None = None
    compacted: bool = False
    leading_epoch: int = -1
    copy_generation: int = 0
    copy_end: int = 0


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
    where batches keep their codecs. ``transforms``: what is done to records, then ``statements``,
    in SQL, and ``python_transform``, the user's function; all empty where batches go unopened. ``provenance``:
    headers that copies get. ``error_handling``: what happens to records that a transform cannot handle.
    ``schemas_context``: of the target's registry, for schemas that are copied or that transforms make.
    ``id_mapping``: which keys and values get ids of the target's registry, before anything else is done to them; None
    where ids stay.
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
    transforms: Chain = ()
    statements: tuple[Statement, ...] = ()
    python_transform: PythonTransform | None = None
    provenance: tuple[Provenance, ...] = ()
    error_handling: ErrorHandling = field(default_factory=ErrorHandling)
    schemas_context: str = ""
    id_mapping: IdMapping | None = None

    @property
    def changes_records(self) -> bool:
        """Whether the flow changes records, so that batches have to be opened."""
        return bool(self.transforms or self.statements or self.python_transform or self.provenance or self.id_mapping)

    @property
    def reads_avro(self) -> bool:
        """Whether statements read values by the schemas of the source's registry."""
        return any(statement.reads_avro for statement in self.statements)

    @property
    def needs_spark_sql(self) -> bool:
        """Whether only Spark can evaluate the statements."""
        return needs_spark(self.statements)


@dataclass(frozen=True)
class SlotTask:
    """One slot's share of a pass. ``identity`` is None for at-least-once flows; ``expected_bytes`` is what the ranges
    probably hold, None if the record size of a topic among them was never measured."""

    slot: int
    identity: ProducerIdentity | None
    ranges: tuple[CopyRange, ...]
    expected_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class CopyStats:
    """What was copied: of a range in a pass, of a partition in a run, or of whatever is added up.

    ``bytes`` counts record batches as they lie in the source log (compressed, headers included). Latencies are
    milliseconds from a batch's newest record timestamp to the commit of its chunk; ``latency_samples`` are batches,
    ``latencies`` counts their records. ``dropped_records`` are those that transforms dropped, ``skipped_records`` those
    that one could not handle and the flow left out, ``dead_letters`` how many of these went to its dead letter topic.
    ``last_timestamp_ms`` is the newest record's.
    """

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
    skipped_records: int = 0
    dead_letters: int = 0
    dropped_records: int = 0

    def __add__(self, other: CopyStats) -> CopyStats:
        return CopyStats(
            records=self.records + other.records,
            bytes=self.bytes + other.bytes,
            batches=self.batches + other.batches,
            reencoded_batches=self.reencoded_batches + other.reencoded_batches,
            reencoded_records=self.reencoded_records + other.reencoded_records,
            latency_ms_min=_known(min, self.latency_ms_min, other.latency_ms_min),
            latency_ms_max=_known(max, self.latency_ms_max, other.latency_ms_max),
            latency_ms_sum=self.latency_ms_sum + other.latency_ms_sum,
            latency_samples=self.latency_samples + other.latency_samples,
            latencies=self.latencies + other.latencies,
            last_timestamp_ms=_known(max, self.last_timestamp_ms, other.last_timestamp_ms),
            skipped_records=self.skipped_records + other.skipped_records,
            dead_letters=self.dead_letters + other.dead_letters,
            dropped_records=self.dropped_records + other.dropped_records,
        )

    @property
    def latency_ms_avg(self) -> float | None:
        """Mean latency of the batches; None when none was measured."""
        return self.latency_ms_sum / self.latency_samples if self.latency_samples else None


def _known(choose: Callable[[N, N], N], one: N | None, other: N | None) -> N | None:
    """The one that ``choose`` takes, of those that there are."""
    if one is None or other is None:
        return other if one is None else one
    return choose(one, other)


NOTHING_COPIED = CopyStats()


@dataclass(frozen=True)
class RangeResult:
    """What happened to one range. ``position`` is the next upstream offset to copy: everything before it is committed.

    ``error`` is None or one sentence; ``error_kind`` is the name of the class in :mod:`srm_common.errors`.
    ``leader_epoch`` is that of the offset before ``position`` in the source log, -1 when it is not known; ``unmapped``
    and ``copied_to`` as in :class:`CopyRange`, at ``position``.
    """

    upstream_topic: str
    downstream_topic: str
    partition: int
    start: int
    position: int
    end: int
    copied: CopyStats = NOTHING_COPIED
    error: str | None = None
    error_kind: str | None = None
    leader_epoch: int = -1
    unmapped: int = 0
    copied_to: CopiedTo | None = None


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


# Cutting the ranges of a pass into slots of about equal work.
#
# Invariant: every range that has something to read, or may have, is in exactly one slot, whole; there are never
# more slots than ``tasks_max`` nor than such ranges; and the result depends on the set of ranges alone, not on their
# order. A partition is never split, since its order must be kept.


DEFAULT_RECORD_BYTES = 256.0
"""Bytes of a record of unknown size; only proportions between topics matter."""

MINIMUM_SLOT_BYTES = 4 << 20
"""Less than this is not worth a second slot: its connections and its transaction cost more than they save."""

_FOLLOWED_PARTITIONS = 2_000
"""Following more than these is worth a second slot, however little is written: each Fetch names all of a broker."""

_FOLLOWING = 16
"""Following a partition as it is written is so much less of a load on a slot than catching up with the same bytes."""


def estimated_bytes(copy_range: CopyRange, record_bytes: Mapping[str, float]) -> int:
    """Bytes the range probably holds: distance in offsets times the topic's observed record size.

    ``record_bytes`` maps an upstream topic to bytes a record, compressed as in the log. At least 1 for a
    range that is not empty, 0 for one that is.
    """
    distance = copy_range.end - copy_range.start
    if distance <= 0:
        return 0
    return max(1, round(distance * record_bytes.get(copy_range.upstream_topic, DEFAULT_RECORD_BYTES)))


def cut_slots(
    ranges: Iterable[CopyRange],
    tasks_max: int,
    record_bytes: Mapping[str, float] | None = None,
    minimum_slot_bytes: int = MINIMUM_SLOT_BYTES,
    recent_bytes: Mapping[TopicPartition, int] | None = None,
) -> tuple[tuple[CopyRange, ...], ...]:
    """Distribute the non-empty ranges, largest first, each to the slot with the least so far.

    No slot ends up with more than 4/3 of the least possible maximum (Graham's bound for this rule). The index
    of a slot in the result is its number. Raises :class:`ValueError` when ``tasks_max`` is below 1.

    With ``recent_bytes`` (what each upstream partition brought in the last pass) the slots will continue with what is
    written behind their ranges: empty ranges are shared out, too.
    """
    if tasks_max < 1:
        raise ValueError(f"tasks.max is {tasks_max}; a flow needs at least one slot")
    sizes = record_bytes or {}
    weighed = [(estimated_bytes(copy_range, sizes), copy_range) for copy_range in ranges]
    if recent_bytes is None:
        weighed = [(weight, one) for weight, one in weighed if weight > 0]
    else:
        weighed = [
            (max(1, weight + recent_bytes.get(TopicPartition(one.upstream_topic, one.partition), 0) // _FOLLOWING), one)
            for weight, one in weighed
        ]
    if not weighed:
        return ()
    total = sum(weight for weight, _ in weighed)
    worthwhile = max(1, -(-total // max(1, minimum_slot_bytes)))
    if recent_bytes is not None:
        worthwhile = max(worthwhile, -(-len(weighed) // _FOLLOWED_PARTITIONS))
    slots: list[list[CopyRange]] = [[] for _ in range(min(tasks_max, len(weighed), worthwhile))]
    loads = [(0, number) for number in range(len(slots))]
    heapify(loads)
    for weight, one in sorted(weighed, key=lambda pair: (-pair[0], _place(pair[1]))):
        load, number = loads[0]
        slots[number].append(one)
        heapreplace(loads, (load + weight, number))
    return tuple(tuple(sorted(slot, key=_place)) for slot in slots)


def _place(copy_range: CopyRange) -> tuple[str, int, int]:
    return (copy_range.upstream_topic, copy_range.partition, copy_range.start)

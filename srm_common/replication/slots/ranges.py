"""The state of one range in a slot: positions and errors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from srm_common.domain.copied_to import CopiedTo
from srm_common.domain.flow import Compression
from srm_common.domain.runs.copying import CopyRange, CopyStats, RangeResult
from srm_common.domain.runs.data_loss import LeaderEpochs
from srm_common.domain.runs.latency_histogram import LatencyHistogram, bucket_of
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import AccessDenied, DataLost, NoSuchPartition, PartitionError, RecordTooLarge, SrmError
from srm_common.replication.slots.share import Share
from srm_common.wire.batches.batch import Packed, SourceBatch

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 2.0
#: While metadata propagate, a topic that exists may seem missing or forbidden; after this time it is believed.
_SPREAD_SECONDS = 5.0
#: As often in a row a connection may be closed during a batch before the batch is taken for the reason.
_CUT_OFF_TIMES = 3


class SentBatch(NamedTuple):
    """A batch for the target: its partition there, and the upstream offset that it begins with. None stands for all
    batches of a chunk with the flow's state, or with dead letters, for that partition."""

    place: TopicPartition
    offset: int | None


Skip = Callable[[int, int, Sequence[Packed]], None]
Transformed = Callable[[Sequence[SourceBatch], int, int, int, Compression | None, Skip], Iterator[Packed]]
"""As :func:`srm_common.wire.reencoding.repack.repack`, with what the flow does to records, and its compression. The
last argument is called for records that are left out: with how many a transform dropped, how many one could not handle,
and batches of them for the dead letter topic."""


class RangeState:
    """A range's way from ``start`` to ``end``.

    ``committed``: everything before it is committed on the target. ``mapped``: where the newest segment of the offset
    map ended, if nothing to copy was read from there to ``committed``. ``copied_to``: where the copy ended then, None
    if that is unknown; ``copy_end`` the same where this run has committed it. ``fetched``: where the next Fetch begins.
    ``tailing``: the end moves with the source log's, until :meth:`stop_at` fixes it. ``held``: it waits until others
    have had their chunk. ``transform``: what becomes of its batches, where the flow changes records. ``clock``:
    measures pauses and patience, in seconds.
    """

    def __init__(
        self,
        spec: CopyRange,
        *,
        tailing: bool = False,
        transform: Transformed | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.spec = spec
        self._clock = clock or time.monotonic
        self.transform = transform
        self.upstream = TopicPartition(spec.upstream_topic, spec.partition)
        self.downstream = TopicPartition(spec.downstream_topic, spec.partition)
        self.committed = self.fetched = spec.start
        self.mapped = spec.start - spec.unmapped
        self.copied_to = spec.copied_to
        self.copy_end = spec.copy_end
        self.end = self._seen_end = spec.end
        self.share: Share | None = None
        self.error: SrmError | None = None
        self.fetching = False
        self.tailing = tailing
        self.held = False
        #: Leader epochs of what was read, and of the offset before the start.
        self.epochs = LeaderEpochs(spec.start, spec.leader_epoch)
        #: Times in a row that the broker had nothing between the position and the end.
        self.empty_answers = 0
        #: Why the source brings nothing, while that is tolerated: one sentence.
        self.waits_for = ""
        #: Counts how often offsets are read again that were fetched, but are in no chunk.
        self.reading = 0
        self._waits_for_schemas = False
        self.pause_until = 0.0
        #: Batches of it that the target has refused as corrupt since its last commit: in chunks that were started over,
        #: and in the current one.
        self._refused_before: set[SentBatch] = set()
        self._refused: set[SentBatch] = set()
        #: The batch that a closed connection has cut off last, the leader that closed it, and how often in a row;
        #: whether that is the fault which is reported next.
        self._cut_off: tuple[SentBatch | None, int, int] = (None, -1, 0)
        self._cut_off_now = False
        self._failures = 0
        self._failing_since = 0.0
        self._absent_since = 0.0
        self._fault_at_source = False
        self._first_fault = self.last_fault = ""
        self._totals = Share(spec.start, spec.start, spec.start)
        self._dead_letters = 0
        self._latency = [0.0, 0.0, 0.0]
        self._latency_buckets: dict[int, int] = {}

    @property
    def settled(self) -> bool:
        """Nothing is left to do: copied up to its end, or given up."""
        return self.committed >= self.end and not self.tailing

    @property
    def behind(self) -> bool:
        """Whether the source has more of it than was fetched."""
        return self.fetched < self.end

    @property
    def wants_fetch(self) -> bool:
        """Whether more of it should be asked for now."""
        return (
            not (self.fetching or self.held)
            and (self.tailing or self.fetched < self.end)
            and self.pause_until <= self._clock()
        )

    @property
    def failing(self) -> bool:
        """Whether it failed since its last commit, or waits for a source that brings nothing, and is neither done nor
        given up."""
        return (self._failures > 0 or bool(self.waits_for)) and not self.settled and self.error is None

    @property
    def paused(self) -> bool:
        """Whether it waits after a fault, or for a source that brings nothing."""
        return self.pause_until > self._clock() or bool(self.waits_for)

    @property
    def acknowledged_only(self) -> bool:
        """Whether the target has data of it whose offset is not written yet (only without transactions)."""
        return self.share is not None and self.share.upstream_end > self.share.upstream_start

    @property
    def chunk_share(self) -> Share:
        """Its share of the current chunk, which it must have."""
        if self.share is None:
            raise AssertionError(f"range {self.upstream} has no share of the chunk")
        return self.share

    def log_ends(self, offset: int) -> None:
        """The source can be read up to ``offset`` now (last stable offset or high watermark)."""
        if self.tailing and offset > self.end:
            self.end = self._seen_end = offset

    def stay(self) -> None:
        """Go no further than the end of the source's log as known now."""
        self.tailing = False

    def open_share(self) -> Share:
        """Its share of the current chunk, opened if there is none."""
        if self.share is None:
            start, opened_ms = self.committed, int(time.time() * 1000)
            self.share = Share(start, start, start, downstream_end=self.copy_end, opened_ms=opened_ms)
        return self.share

    def commit(self, now_ms: float) -> None:
        """The chunk with the share is committed."""
        share = self.share
        self.share = None
        if share is None or share.upstream_end == share.upstream_start:
            # It had nothing of this range.
            return
        self.committed = share.upstream_end
        if share.downstream_start >= 0:
            self.mapped = share.upstream_end
            self.copy_end = share.downstream_end
        self.copied_to = self.copied_with(share)
        self.epochs.forget_before(self.committed - 1)
        self._failures, self._failing_since, self._absent_since = 0, 0.0, 0.0
        self._refused_before.clear()
        self._refused.clear()
        self._cut_off = (None, -1, 0)
        totals = self._totals
        totals.records += share.records
        totals.bytes += share.bytes
        totals.batches += share.batches
        totals.reencoded_batches += share.reencoded_batches
        totals.reencoded_records += share.reencoded_records
        totals.dropped_records += share.dropped_records
        totals.skipped_records += share.skipped_records
        self._dead_letters += sum(letter.record_count for letter in share.dead_letters)
        if share.times:
            lowest, highest = now_ms - share.newest_ms, now_ms - share.oldest_ms
            if totals.times:
                lowest, highest = min(lowest, self._latency[0]), max(highest, self._latency[1])
            self._latency = [
                lowest,
                highest,
                self._latency[2] + share.times * now_ms - share.times_sum_ms,
            ]
            totals.times += share.times
            totals.newest_ms = max(totals.newest_ms, share.newest_ms)
            buckets = self._latency_buckets
            for stamp, records in share.stamps.items():
                bucket = bucket_of(int(now_ms) - stamp)
                buckets[bucket] = buckets.get(bucket, 0) + records

    def copied_with(self, share: Share) -> CopiedTo | None:
        """How far the flow has committed it, once the chunk of ``share`` is committed."""
        return self.copied_to if share.downstream_start < 0 else CopiedTo(share.upstream_end, share.downstream_end)

    def start_over(self, keep_acknowledged: bool) -> None:
        """The chunk failed: read again from the last committed (or, without transactions, acknowledged) offset.

        What was acknowledged beyond the end is not kept: :meth:`stop_at` was called since, because the records of the
        flow's state, or the dead letters, that belong to it were refused. To write them again would end in the same
        refusal; the next run copies it again.
        """
        share = self.share
        if keep_acknowledged and share is not None and share.sound and share.acknowledged <= self.end:
            share.upstream_end = self.fetched = share.acknowledged
        else:
            self.share = None
            self.fetched = self.committed
        self._refused_before |= self._refused
        self._refused.clear()
        self.empty_answers = 0
        self.waits_for = ""

    def read_again(self, offset: int, schemas: str, until: float) -> None:
        """Discard what was fetched from ``offset`` on, until the schemas that it needs have arrived.

        Args:
            schemas: which ones, for messages.
            until: when it is read again at the latest, in monotonic seconds.
        """
        self.reading += 1
        self.fetched = offset
        self.pause_until = until
        self.waits_for = f"waiting for a schema registry: {schemas}"
        self._waits_for_schemas = True

    def schemas_arrived(self) -> None:
        """The schemas that it waits for may have arrived."""
        if self._waits_for_schemas:
            self._waits_for_schemas = False
            self.pause_until = 0.0
            self.waits_for = ""

    def stop_at(self, offset: int, error: SrmError) -> None:
        """Copy only up to ``offset``: the record there cannot be copied."""
        self.tailing = False
        self.end = max(min(self.end, offset), self.committed)
        self.fetched = min(self.fetched, self.end)
        if self.error is None:
            self.error = error

    def stored_before_its_end(self, offset: int, target: str) -> SrmError:
        """The target stored a batch at an offset that lies before another one that it has acknowledged; returns why.

        If only batches of the open chunk are gone, they are copied again. The range stops if any is gone that this run
        has committed: what followed would hide the gap.
        """
        share = self.chunk_share
        share.sound = False
        place = f"{self.downstream[0]}-{self.downstream[1]}"
        if offset >= self.copy_end:
            end = share.downstream_end
            return PartitionError(f"the copy {place} at {target} took a batch at offset {offset}, before its end {end}")
        error = DataLost(
            f"the copy {place} at {target} continues at offset {offset}, although this run has committed it up to "
            f"offset {self.copy_end}: it was cut (an unclean leader election, a lost disk), or deleted and created "
            f"again, while it was written to; nothing more was committed to it"
        )
        self.stop_at(self.committed, error)
        return error

    def refused_as_corrupt(self, batch: SentBatch) -> bool:
        """The target has refused a batch as corrupt. True if it has refused it in an earlier chunk, too: the first time
        everything is read again, since the fault may be on this side."""
        self._refused.add(batch)
        return batch in self._refused_before

    def was_cut_off(self, batch: SentBatch, size: int, leader: int, target: str) -> bool:
        """The leader closed the connection while only this batch, of ``size`` bytes, was being sent. True if that has
        happened so often, without any other fault of the target, that the batch must be why; the range stops before
        it."""
        before, closed_by, times = self._cut_off
        times = (times if (before, closed_by) == (batch, leader) else 0) + 1
        self._cut_off, self._cut_off_now = (batch, leader, times), True
        if times < _CUT_OFF_TIMES or batch.offset is None:
            return False
        error = RecordTooLarge(
            f"partition {self.downstream[0]}-{self.downstream[1]} at {target}: its leader closed the connection each "
            f"time while it was receiving the batch at offset {batch.offset}, which has {size} bytes; raise the "
            f"brokers' socket.request.max.bytes, or the limit of the proxy in front of them"
        )
        self.stop_at(batch.offset, error)
        return True

    def give_up(self, error: SrmError) -> None:
        """Copy nothing beyond what was fetched so far in this pass."""
        self.stop_at(self.fetched, error)

    def reads(self) -> None:
        """The source answered for it: what went wrong there is over."""
        if self._fault_at_source:
            self._failures, self._failing_since, self._absent_since = 0, 0.0, 0.0
            self._fault_at_source = False

    def fault(self, error: SrmError, patience_seconds: float, *, at_source: bool = False) -> bool:
        """Something retriable happened: wait longer each time, give up after ``patience_seconds`` without progress
        (sooner where the topic is missing or may not be seen).

        True when it was given up.
        """
        now = self._clock()
        if not at_source:
            if not self._cut_off_now:
                # A broker that also fails in other ways may close connections for those reasons.
                self._cut_off = (None, -1, 0)
            self._cut_off_now = False
        self._fault_at_source = at_source
        self.last_fault = str(error)
        lasting = isinstance(error, NoSuchPartition | AccessDenied)
        if not lasting:
            self._absent_since = 0.0
        elif not self._absent_since:
            self._absent_since = now
        if not self._failures:
            self._failing_since, self._first_fault = now, str(error)
        elif now - self._failing_since > patience_seconds or (
            self._absent_since and now - self._absent_since > _SPREAD_SECONDS
        ):
            self.give_up(error if lasting else self._retried(error))
            return True
        pause = min(_FIRST_PAUSE_SECONDS * 2**self._failures, _LONGEST_PAUSE_SECONDS)
        self._failures += 1
        self.pause_until = now + pause
        return False

    def _retried(self, error: SrmError) -> PartitionError:
        first = "" if str(error) == self._first_fault else f"; first error: {self._first_fault}"
        return PartitionError(f"{error}; gave up after retrying{first}")

    def result(self) -> RangeResult:
        """What happened to the range."""
        totals = self._totals
        return RangeResult(
            upstream_topic=self.spec.upstream_topic,
            downstream_topic=self.spec.downstream_topic,
            partition=self.spec.partition,
            start=self.spec.start,
            position=self.committed,
            end=self._seen_end,
            copied=CopyStats(
                records=totals.records,
                bytes=totals.bytes,
                batches=totals.batches,
                reencoded_batches=totals.reencoded_batches,
                reencoded_records=totals.reencoded_records,
                latency_ms_min=self._latency[0] if totals.times else None,
                latency_ms_max=self._latency[1] if totals.times else None,
                latency_ms_sum=self._latency[2],
                latency_samples=totals.times,
                latencies=LatencyHistogram.of(self._latency_buckets),
                last_timestamp_ms=totals.newest_ms if totals.newest_ms >= 0 else None,
                dropped_records=totals.dropped_records,
                skipped_records=totals.skipped_records,
                dead_letters=self._dead_letters,
            ),
            error=None if self.error is None else str(self.error),
            error_kind=None if self.error is None else type(self.error).__name__,
            leader_epoch=self.epochs.at(self.committed - 1),
            unmapped=self.committed - self.mapped,
            copied_to=self.copied_to,
        )

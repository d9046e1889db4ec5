"""One range while a slot works on it: positions, the open chunk's share, and what went wrong."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from srm_common.domain.offsets.segments import Run
from srm_common.domain.runs.copying import CopyRange, RangeResult
from srm_common.errors import AccessDenied, NoSuchPartition, PartitionError, SrmError
from srm_common.wire.packed import Packed

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 2.0
#: While metadata spread, what exists may be unknown or not be visible; for longer than this it is a fact.
_SPREAD_SECONDS = 5.0


@dataclass
class Share:
    """What one chunk carries of one range; thrown away when the chunk is started over."""

    upstream_start: int
    upstream_end: int
    #: Everything before it was acknowledged, in order.
    acknowledged: int
    downstream_start: int = -1
    downstream_end: int = -1
    runs: list[Run] = field(default_factory=list)
    records: int = 0
    bytes: int = 0
    batches: int = 0
    reencoded_batches: int = 0
    reencoded_records: int = 0
    newest_ms: int = -1
    oldest_ms: int = -1
    times_sum_ms: int = 0
    times: int = 0

    def acknowledge(self, packed: Packed, base_offset: int) -> None:
        """The target stored a batch at ``base_offset``."""
        if self.downstream_start < 0:
            self.downstream_start = base_offset
        down = base_offset
        runs = self.runs
        for upstream, length, records in packed.runs:
            last = runs[-1] if runs else None
            if (
                last is not None
                and last.upstream + last.upstream_length == upstream
                and last.downstream + last.length == down
                and length == records
                and last.length == last.upstream_length
            ):
                runs[-1] = Run(last.upstream, last.upstream_length + length, last.downstream, last.length + records)
            else:
                runs.append(Run(upstream, length, down, records))
            down += records
        self.downstream_end = down
        self.acknowledged = packed.upstream_end
        self.records += packed.record_count
        self.bytes += packed.size
        self.batches += 1
        if packed.reencoded:
            self.reencoded_batches += 1
            self.reencoded_records += packed.record_count
        if packed.max_timestamp >= 0:
            stamp = packed.max_timestamp
            self.newest_ms = max(self.newest_ms, stamp)
            self.oldest_ms = stamp if self.oldest_ms < 0 else min(self.oldest_ms, stamp)
            self.times_sum_ms += stamp
            self.times += 1


class RangeState:
    """A range's way from ``start`` to ``end``.

    ``committed``: everything before it is committed on the target. ``fetched``: where the next Fetch begins.
    """

    def __init__(self, spec: CopyRange) -> None:
        self.spec = spec
        self.upstream = (spec.upstream_topic, spec.partition)
        self.downstream = (spec.downstream_topic, spec.partition)
        self.committed = self.fetched = spec.start
        self.end = spec.end
        self.share: Share | None = None
        self.error: SrmError | None = None
        self.fetching = False
        #: Times in a row that the broker had nothing between the position and the end.
        self.empty_answers = 0
        self.pause_until = 0.0
        self._failures = 0
        self._failing_since = 0.0
        self._absent_since = 0.0
        self._first_fault = ""
        self._totals = Share(spec.start, spec.start, spec.start)
        self._latency = [0.0, 0.0, 0.0]

    @property
    def settled(self) -> bool:
        """Nothing is left to do: copied up to its end, or given up."""
        return self.committed >= self.end

    @property
    def wants_fetch(self) -> bool:
        """Whether more of it should be asked for now."""
        return not self.fetching and self.fetched < self.end and self.pause_until <= time.monotonic()

    @property
    def paused(self) -> bool:
        """Whether it waits after a fault."""
        return self.pause_until > time.monotonic()

    @property
    def acknowledged_only(self) -> bool:
        """Whether the target has data of it whose offset is not written yet (only without transactions)."""
        return self.share is not None and self.share.upstream_end > self.share.upstream_start

    def open_share(self) -> Share:
        """The share of the chunk in work."""
        if self.share is None:
            self.share = Share(self.committed, self.committed, self.committed)
        return self.share

    def commit(self, now_ms: float) -> None:
        """The chunk with the share is committed."""
        share = self.share
        if share is None:
            return
        self.share = None
        self.committed = share.upstream_end
        self._failures, self._failing_since, self._absent_since = 0, 0.0, 0.0
        totals = self._totals
        totals.records += share.records
        totals.bytes += share.bytes
        totals.batches += share.batches
        totals.reencoded_batches += share.reencoded_batches
        totals.reencoded_records += share.reencoded_records
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

    def start_over(self, keep_acknowledged: bool) -> None:
        """The chunk failed: read again from the last committed (or, without transactions, acknowledged) offset."""
        if keep_acknowledged and self.share is not None:
            self.share.upstream_end = self.share.acknowledged
            self.fetched = self.share.acknowledged
        else:
            self.share = None
            self.fetched = self.committed
        self.empty_answers = 0

    def stop_at(self, offset: int, error: SrmError) -> None:
        """Copy up to ``offset`` only: what lies there cannot be copied."""
        self.end = max(min(self.end, offset), self.committed)
        self.fetched = min(self.fetched, self.end)
        if self.error is None:
            self.error = error

    def give_up(self, error: SrmError) -> None:
        """Nothing beyond what was fetched so far is copied in this pass."""
        self.stop_at(self.fetched, error)

    def fault(self, error: SrmError, patience_seconds: float) -> bool:
        """Something retriable happened: wait longer each time, give up after ``patience_seconds`` without progress
        (sooner where the topic is missing or may not be seen).

        True when it was given up.
        """
        now = time.monotonic()
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
        first = "" if str(error) == self._first_fault else f"; it began with: {self._first_fault}"
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
            end=self.spec.end,
            records=totals.records,
            bytes=totals.bytes,
            batches=totals.batches,
            reencoded_batches=totals.reencoded_batches,
            reencoded_records=totals.reencoded_records,
            latency_ms_min=self._latency[0] if totals.times else None,
            latency_ms_max=self._latency[1] if totals.times else None,
            latency_ms_sum=self._latency[2],
            latency_samples=totals.times,
            last_timestamp_ms=totals.newest_ms if totals.newest_ms >= 0 else None,
            error=None if self.error is None else str(self.error),
            error_kind=None if self.error is None else type(self.error).__name__,
        )

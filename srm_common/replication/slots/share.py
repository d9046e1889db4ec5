"""One range's share of a chunk: what was acknowledged, and its spans for the offset map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from srm_common.domain.offsets.fingerprints import Fingerprint, fingerprint_of, offset_factor
from srm_common.domain.offsets.segments import OffsetSpan
from srm_common.wire.batches.batch import HEADER_SIZE, Packed, UpstreamRun
from srm_common.wire.batches.batch_terms import packed_term
from srm_common.wire.state.stored_runs import StoredRuns

_tuple = tuple.__new__  # as in srm_common/wire/batches/batch.py


@dataclass(slots=True)
class Share:
    """What one chunk carries of one range; discarded when the chunk is started over."""

    upstream_start: int
    upstream_end: int
    #: Everything before it was acknowledged, in order.
    acknowledged: int
    downstream_start: int = -1
    #: The least offset that the next batch can get: the end of the last one, or at first of what was committed before.
    downstream_end: int = 0
    #: Whether all that was acknowledged is still there, as far as is known.
    sound: bool = True
    records: int = 0
    bytes: int = 0
    batches: int = 0
    reencoded_batches: int = 0
    reencoded_records: int = 0
    #: Records that a transform has dropped.
    dropped_records: int = 0
    #: Records that a transform could not handle, and their batches for the dead letter topic.
    skipped_records: int = 0
    dead_letters: list[Packed] = field(default_factory=list)
    newest_ms: int = -1
    oldest_ms: int = -1
    times_sum_ms: int = 0
    times: int = 0
    #: When the chunk began, epoch milliseconds.
    opened_ms: int = 0
    #: Records by their batch's timestamp, which is rounded down by up to 1/32 of its age when the chunk began: few
    #: numbers stand for however many batches, and the latency that they will have at the commit is as exact.
    stamps: dict[int, int] = field(default_factory=dict)
    #: What was acknowledged, batch by batch; dense batches that follow one another as one.
    stored: list[StoredRuns] = field(default_factory=list)
    #: Sums of the fingerprint, not reduced yet.
    _digest: int = 0
    _content: int = 0

    @property
    def runs(self) -> list[OffsetSpan]:
        """What was acknowledged, as runs in order; neighbours that are dense are one."""
        spans: list[OffsetSpan] = []
        up_next = down_next = -1
        for down, runs in self.stored:
            for upstream, length, records in runs:
                if upstream == up_next and down == down_next and length == records and spans[-1].dense:
                    last = spans[-1]
                    spans[-1] = OffsetSpan(last.upstream, last.length + length, last.downstream, last.length + length)
                else:
                    spans.append(_tuple(OffsetSpan, (upstream, length, down, records, False)))
                down += records
                up_next, down_next = upstream + length, down
        return spans

    @property
    def fingerprint(self) -> Fingerprint:
        """Of all batches that were acknowledged."""
        return fingerprint_of(self._digest, self._content)

    def acknowledge(self, packed: Packed, base_offset: int) -> None:
        """The target stored a batch at ``base_offset``; its body is still in memory."""
        (_, _, stamp, count, body, runs, upstream_end, reencoded, _) = packed
        term = packed_term(packed)
        self._digest += term * offset_factor(base_offset)
        self._content += term
        if self.downstream_start < 0:
            self.downstream_start = base_offset
        self.downstream_end = base_offset + count
        self._store(base_offset, runs)
        self.acknowledged = upstream_end
        self.records += count
        self.bytes += HEADER_SIZE + len(body)
        self.batches += 1
        if reencoded:
            self.reencoded_batches += 1
            self.reencoded_records += count
        if stamp >= 0:
            if stamp > self.newest_ms:
                self.newest_ms = stamp
            if stamp < self.oldest_ms or self.oldest_ms < 0:
                self.oldest_ms = stamp
            self.times_sum_ms += stamp
            self.times += 1
            age = self.opened_ms - stamp
            if age > 63:
                shift = age.bit_length() - 6
                stamp = stamp >> shift << shift
            stamps = self.stamps
            stamps[stamp] = stamps[stamp] + count if stamp in stamps else count

    def _store(self, base_offset: int, runs: Sequence[UpstreamRun]) -> None:
        """Note where runs went. Dense batches that follow one another are noted as one: a chunk may have thousands."""
        stored = self.stored
        if len(runs) == 1 and stored and len(stored[-1][1]) == 1:
            place, ((start, length, records),) = stored[-1]
            ((upstream, more, more_records),) = runs
            if (
                upstream == start + length
                and base_offset == place + records
                and length == records
                and more == more_records
            ):
                stored[-1] = place, ((start, length + more, length + more),)
                return
        stored.append((base_offset, runs))

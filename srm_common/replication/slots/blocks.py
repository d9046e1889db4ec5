"""Blocks: the content of one Fetch response, on its way into chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from srm_common.domain.flow import Compression
from srm_common.errors import CorruptBatch, RecordTooLarge, TransformFailed
from srm_common.kafka.client.protocol.buffers import Lease
from srm_common.replication.slots.ranges import RangeState
from srm_common.replication.slots.share import Share
from srm_common.replication.slots.slot_registries import SchemasPending
from srm_common.wire.batches.batch import Packed, SourceBatch
from srm_common.wire.reencoding.repack import recompress, repack


@dataclass
class Portion:
    """What one answer brought for one range: visible batches, and the offset after all batches. ``unproved``: producers
    of transactions whose markers come later, with the offsets of their first batches. ``reading``: that
    of the range when this came; a portion from before the latest one is not wanted any more."""

    state: RangeState
    batches: Sequence[SourceBatch]
    first_offset: int
    next_offset: int
    unproved: dict[int, int] = field(default_factory=dict)
    reading: int = field(init=False)

    def __post_init__(self) -> None:
        self.reading = self.state.reading

    @property
    def stale(self) -> bool:
        """Whether the range restarts from an offset before it."""
        return self.reading != self.state.reading


@dataclass
class Block:
    """One answer. Its lease is held until every batch was acknowledged or the chunk was started over."""

    generation: int
    portions: list[Portion]
    lease: Lease
    pending: int = 0
    taken: bool = field(default=False)
    #: The chunk's place in it: portions that are not at their end.
    turns: list[Turn] | None = None

    def settle(self) -> None:
        """One more request no longer needs its buffer."""
        self.pending -= 1
        if self.taken and not self.pending:
            self.lease.release()

    def finish_taking(self) -> None:
        """No more batches will be taken from it."""
        self.taken = True
        if not self.pending:
            self.lease.release()


class Turn:
    """A portion's way into chunks: ``packed`` is its next batch, None before the first look and at its end."""

    def __init__(self, portion: Portion, compression: Compression | None = None) -> None:
        state = portion.state
        self.portion = portion
        self.state = state
        self.packed: Packed | None = None
        # The range's end may have moved on since the answer, and what lies behind its own end is fetched again.
        end = min(portion.next_offset, state.end)
        wanted = (portion.batches, portion.first_offset, end, state.spec.max_message_bytes)
        self._source: Iterator[Packed]
        #: What was left out since the last batch: dropped, or failed, and the batches for the dead letter topic.
        self._dropped = 0
        self._skipped = 0
        self._dead_letters: list[Packed] = []
        if state.transform is not None:
            self._source = state.transform(*wanted, compression, self._skip)
        else:
            self._source = repack(*wanted) if compression is None else recompress(*wanted, compression)

    def look(self) -> bool:
        """Whether there is a next batch. At the end, or before a batch that cannot be copied, the range's share moves
        up to it."""
        if self.packed is not None:
            return True
        if self.portion.stale:
            return False
        state = self.state
        share = state.share or state.open_share()
        try:
            self.packed = next(self._source, None)
        except (CorruptBatch, RecordTooLarge, TransformFailed) as error:
            name = f"{state.upstream[0]}-{state.upstream[1]}"
            state.stop_at(share.upstream_end, type(error)(f"partition {name}: {error}"))
            return False
        except SchemasPending as pending:
            # What was left out behind the last batch is counted when it is read again.
            state.read_again(share.upstream_end, str(pending), pending.until)
            return False
        if self.packed is None:
            if state.error is None or self.portion.next_offset <= state.end:
                share.upstream_end = max(share.upstream_end, min(self.portion.next_offset, state.end))
                self._pass_skipped(share)
            return False
        return True

    def take(self) -> Packed:
        """The next batch goes into the chunk."""
        packed, self.packed = self.packed, None
        if packed is None:
            raise AssertionError("a batch was requested that the portion does not have")
        state = self.state
        share = state.share or state.open_share()
        share.upstream_end = packed.upstream_end
        if self._skipped or self._dropped:
            self._pass_skipped(share)
        return packed

    def _skip(self, dropped: int, failed: int, dead_letters: Sequence[Packed]) -> None:
        self._dropped += dropped
        self._skipped += failed
        self._dead_letters += dead_letters

    def _pass_skipped(self, share: Share) -> None:
        """Records left out lie before the share's end, so the chunk that advances past them has their dead letters."""
        share.dropped_records += self._dropped
        share.skipped_records += self._skipped
        share.dead_letters += self._dead_letters
        self._dropped = self._skipped = 0
        self._dead_letters = []

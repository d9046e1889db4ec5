"""A copy as the flow would make it, with its map, and twelve ways in which it may break."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from srm_common.domain.copied_to import CopiedTo
from srm_common.domain.offsets.fingerprints import batch_term, fingerprint_of, offset_factor
from srm_common.domain.offsets.joined_segments import joined
from srm_common.domain.offsets.offset_edits import LogRange
from srm_common.domain.offsets.segments import OffsetSpan, Segment, build_segment, in_a_row
from srm_common.domain.verification.copy_batch import CopyBatch
from srm_common.domain.verification.copy_comparison import CopyComparison
from srm_common.domain.verification.differences import DifferenceKind, Findings
from srm_common.domain.verification.unmapped_batches import CopyTraits

FLOW, OTHER = (1000, 0), (7, 3)


@dataclass(frozen=True)
class Content:
    """What a batch holds."""

    crc: int
    timestamp: int
    records: int

    @property
    def term(self) -> int:
        return batch_term(self.crc, self.timestamp, self.records, 3)


@dataclass
class Copy:
    """``chunks`` are indexes of the batches of each segment."""

    batches: list[CopyBatch] = field(default_factory=list)
    contents: list[Content] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    chunks: list[list[int]] = field(default_factory=list)
    upstream: int = 0
    end: int = 0
    #: Whether segments say what was committed before them.
    told: bool = True
    copied_to: CopiedTo | None = None

    def append(self, content: Content, producer: tuple[int, int] = FLOW) -> int:
        """Produce a batch; returns its offset."""
        at = self.end
        self.end += content.records
        self.contents.append(content)
        self.batches.append(CopyBatch(at, self.end, content.records, content.term, producer))
        return at

    def commit(self, contents: list[Content], holes: list[int], most_bytes: int = 999) -> None:
        """A chunk of the flow; ``holes`` are upstream offsets without a record behind each batch."""
        spans, terms, start = [], [], self.upstream
        first = len(self.batches)
        for content, hole in zip(contents, holes, strict=True):
            at = self.append(content)
            spans.append(OffsetSpan(self.upstream, content.records, at, content.records))
            terms.append((content.term, offset_factor(at)))
            self.upstream += content.records + hole
        fingerprint = fingerprint_of(sum(term * factor for term, factor in terms), sum(term for term, _ in terms))
        whole = ("t", 0, start, self.upstream, spans, most_bytes, 1, fingerprint)
        (segment,) = in_a_row([build_segment(*whole)], self.copied_to)
        self.segments.append(segment)
        self.copied_to = CopiedTo(segment.upstream_end, segment.downstream_end) if self.told else None
        self.chunks.append(list(range(first, len(self.batches))))
        self.end += 1  # the marker

    def compare(self, traits: CopyTraits | None = None, *, start: int = 0, end: int | None = None) -> Findings:
        """What a comparison finds."""
        until = self.end if end is None else end
        traits = CopyTraits(position=self.upstream, copied_to=self.copied_to) if traits is None else traits
        comparison = CopyComparison(self.segments, LogRange(start, until), until, traits)
        for batch in sorted(self.batches, key=lambda one: one.base_offset):
            if batch.next_offset > start and batch.base_offset < until:
                comparison.take(batch)
        return comparison.finish()

    def forget_before(self, upstream: int) -> None:
        """Offsets are moved back, and the map forgets what follows once it is copied again."""
        self.upstream = upstream
        kept = [number for number, one in enumerate(self.segments) if one.upstream_start < upstream]
        self.segments = [self.segments[number] for number in kept]
        self.chunks = [self.chunks[number] for number in kept]

    def put(self, at: int, content: Content) -> None:
        """Another content where a batch lies."""
        self.batches[at] = self.batches[at]._replace(term=content.term)


CONTENTS = st.builds(Content, st.integers(0, (1 << 32) - 1), st.integers(0, 1 << 45), st.integers(1, 50))


@st.composite
def copies(draw: st.DrawFn, least: int = 1) -> Copy:
    """Chunks of batches with holes upstream, some joined, of a topic that began before the flow or with it."""
    copy = Copy(upstream=draw(st.sampled_from([0, 100])), told=draw(st.booleans()))
    for _ in range(draw(st.integers(least, 6))):
        contents = draw(st.lists(CONTENTS, min_size=least, max_size=6, unique_by=lambda one: one.crc))
        holes = [draw(st.sampled_from([0, 0, 1])) for _ in contents]
        copy.commit(contents, holes, draw(st.sampled_from([999, 1])))
        copy.end += draw(st.sampled_from([0, 0, 3]))  # a chunk that was aborted
    if len(copy.segments) > 2 and draw(st.booleans()):
        one, other = copy.segments[0], copy.segments[1]
        if other.downstream_start - one.downstream_end == 1:
            copy.segments[:2] = [joined([one, other])]
            copy.chunks[:2] = [copy.chunks[0] + copy.chunks[1]]
    return copy


Fault = Callable[[Copy, int, int], tuple[Copy, CopyTraits | None]]
"""Breaks a copy at a batch of a segment."""


def changed_byte(copy: Copy, segment: int, batch: int) -> tuple[Copy, CopyTraits | None]:
    content = copy.contents[batch]
    copy.put(batch, replace(content, crc=content.crc ^ 4))
    return copy, None


def wrong_checksum(copy: Copy, segment: int, batch: int) -> tuple[Copy, CopyTraits | None]:
    copy.batches[batch] = copy.batches[batch]._replace(term=None)
    return copy, None


def wrong_timestamp(copy: Copy, segment: int, batch: int) -> tuple[Copy, CopyTraits | None]:
    content = copy.contents[batch]
    copy.put(batch, replace(content, timestamp=content.timestamp + 1))
    return copy, None


def dropped_batch(copy: Copy, segment: int, batch: int) -> tuple[Copy, CopyTraits | None]:
    del copy.batches[batch]
    return copy, None


def doubled_batch(copy: Copy, segment: int, batch: int) -> tuple[Copy, CopyTraits | None]:
    copy.append(copy.contents[batch], OTHER)
    return copy, None


def repeated_offsets(copy: Copy, segment: int, batch: int) -> tuple[Copy, CopyTraits | None]:
    copy.batches.append(copy.batches[batch])
    return copy, None


def swapped_batches(copy: Copy, segment: int, batch: int) -> tuple[Copy, CopyTraits | None]:
    one, other = copy.chunks[segment][:2]
    first, second = copy.batches[one], copy.batches[other]
    middle = first.base_offset + second.records
    copy.batches[one] = second._replace(base_offset=first.base_offset, next_offset=middle)
    copy.batches[other] = first._replace(base_offset=middle, next_offset=middle + first.records)
    return copy, None


def foreign_record(copy: Copy, segment: int, batch: int) -> tuple[Copy, CopyTraits | None]:
    copy.append(Content(12345, 6789, 1), OTHER)
    return copy, None


def truncated_log(copy: Copy, segment: int, batch: int) -> tuple[Copy, CopyTraits | None]:
    copy.end = copy.batches[batch].base_offset
    return copy, CopyTraits(position=copy.upstream)


def compaction(copy: Copy, segment: int, batch: int) -> tuple[Copy, CopyTraits | None]:
    copy.batches[batch] = copy.batches[batch]._replace(records=copy.batches[batch].records - 1, thinned=True)
    return copy, None


def lost_map(copy: Copy, segment: int, batch: int) -> tuple[Copy, CopyTraits | None]:
    del copy.segments[max(1, segment)]
    return copy, None


FAULTS: dict[Fault, DifferenceKind] = {
    changed_byte: DifferenceKind.CHANGED,
    wrong_checksum: DifferenceKind.CORRUPT,
    wrong_timestamp: DifferenceKind.CHANGED,
    dropped_batch: DifferenceKind.LOST,
    doubled_batch: DifferenceKind.DOUBLED,
    repeated_offsets: DifferenceKind.DOUBLED,
    swapped_batches: DifferenceKind.REORDERED,
    foreign_record: DifferenceKind.FOREIGN,
    truncated_log: DifferenceKind.TRUNCATED,
    compaction: DifferenceKind.COMPACTED,
    lost_map: DifferenceKind.UNMAPPED,
}

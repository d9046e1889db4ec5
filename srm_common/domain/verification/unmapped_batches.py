"""The origin of batches in a copy that are in no segment of the offset map. The flow's own batches were written twice,
or a record of the map is lost; a batch of another writer is a difference, unless it may belong to a stretch that
MirrorMaker 2 copied.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from srm_common.domain.copied_to import CopiedTo
from srm_common.domain.verification.copy_batch import CopyBatch
from srm_common.domain.verification.differences import Difference, DifferenceKind, Findings, NotProved
from srm_common.domain.verification.map_gaps import GapKind

#: So many batches at least, and twice as many at most, are remembered to tell one that is there twice from others that
#: the flow did not write.
_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class CopyTraits:
    """Facts about the copy other than its log.

    ``compacted``: by its ``cleanup.policy``. ``recompressed``: its ``compression.type`` is not ``producer``.
    ``both_ways``: a flow in the other direction copies what is written to it (start position ``opposite``).
    ``shared``: other flows write to it, too. ``exactly_once``: chunks are transactions. ``position``: next upstream
    offset to copy, and ``copied_to`` what was copied, as committed, None where that is not known.
    """

    compacted: bool = False
    recompressed: bool = False
    shared: bool = False
    both_ways: bool = False
    exactly_once: bool = True
    position: int | None = None
    copied_to: CopiedTo | None = None


@dataclass(slots=True)
class _Others:
    """Records that others wrote between two segments, where the map tells nothing of so many upstream offsets either
    (``untold``, from ``upstream`` on)."""

    upstream: int
    untold: int
    first: int
    last: int = -1
    records: int = 0


class UnmappedBatches:
    """Those of one partition, between the segments that its comparison sees.

    ``writers``: producers of the segment before, with their epochs; whatever else has both is the flow's, too.
    """

    def __init__(self, findings: Findings, traits: CopyTraits) -> None:
        self._findings = findings
        self._traits = traits
        self.writers: frozenset[tuple[int, int]] = frozenset()
        #: Offsets of batches by their terms: of the newest, and of those before.
        self._recent: dict[int, int] = {}
        self._older: dict[int, int] = {}
        self._stray: Difference | None = None
        self._others: _Others | None = None

    @property
    def waiting(self) -> bool:
        """Whether some were taken of which the next batch may be, too."""
        return self._stray is not None or self._others is not None

    def remember(self, terms: Mapping[int, int]) -> None:
        """Offsets of batches in segments, by their terms."""
        self._recent.update(terms)
        if len(self._recent) > _REMEMBERED:
            self._older, self._recent = self._recent, {}

    def take(self, batch: CopyBatch, gap: GapKind, upstream: int, until: int | None) -> None:
        """A batch behind a segment that ends at the offset ``upstream`` of the source, before one that begins at
        ``until``; None where nothing follows and the flow's position is not known. ``gap`` lies between the two."""
        first, last = batch.base_offset, batch.next_offset - 1
        # A flow whose direction is changed begins behind what was written at its target meanwhile.
        left_out = gap is GapKind.UNKNOWN or (self._traits.both_ways and gap is GapKind.NOTHING)
        untold = until - upstream if left_out and until is not None else 0
        if untold > 0 and batch.producer not in self.writers:
            self._count_others(batch, upstream, untold)
            return
        if untold > 0 and gap is GapKind.UNKNOWN:
            stray = Difference(DifferenceKind.UNMAPPED, first, last, upstream, upstream + untold - 1)
        elif batch.term is not None and (first_at := self._seen(batch.term)) is not None:
            detail = f"it was committed at offset {first_at}"
            stray = Difference(DifferenceKind.DOUBLED, first, last, detail=detail)
        elif self._traits.shared:
            self._findings.foreign += batch.records
            return
        else:
            stray = Difference(DifferenceKind.FOREIGN, first, last)
        waiting = self._stray
        if waiting is not None and waiting.kind is stray.kind and stray.kind is not DifferenceKind.DOUBLED:
            self._stray = replace(waiting, downstream_last=last)
        else:
            self.end_stray()
            self._stray = stray

    def end_stray(self) -> None:
        """Everything between two segments is one difference."""
        if self._stray is not None:
            self._findings.add(self._stray)
            self._stray = None

    def end_others(self) -> None:
        """The next segment begins, or the log ends: whether all that others wrote can be of that stretch."""
        others, self._others = self._others, None
        if others is None:
            return
        if others.records <= others.untold:
            self._findings.leave(NotProved.NOT_COPIED, others.records)
        elif self._traits.shared:
            self._findings.foreign += others.records
        else:
            detail = f"{others.records} records, of a stretch of {others.untold} offsets at the most"
            last = others.upstream + others.untold - 1
            self._findings.add(
                Difference(DifferenceKind.FOREIGN, others.first, others.last, others.upstream, last, detail)
            )

    def _count_others(self, batch: CopyBatch, upstream: int, untold: int) -> None:
        others = self._others
        if others is None:
            others = self._others = _Others(upstream, untold, batch.base_offset)
        others.last = batch.next_offset - 1
        others.records += batch.records

    def _seen(self, term: int) -> int | None:
        found = self._recent.get(term)
        return self._older.get(term) if found is None else found

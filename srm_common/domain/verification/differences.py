"""Results of comparing a copy: differences, and how far the copy is proved.

A *difference* is a stretch of one partition where the copy is not what the flow committed. Records that cannot be
compared (no fingerprint, deleted by retention, compacted) are not differences: they count as not proved, with the
reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from srm_common.domain.offsets.fingerprints import NO_BATCHES, Fingerprint


class DifferenceKind(StrEnum):
    """What is wrong with a stretch of a copy."""

    CHANGED = "changed"
    """Keys, values, headers, timestamps or the cut of the batches are others than were committed."""
    CORRUPT = "corrupt"
    """A batch fails its checksum: consumers refuse it."""
    REORDERED = "reordered"
    """The same batches lie in another order."""
    LOST = "lost"
    """Records are missing between others."""
    TRUNCATED = "truncated"
    """The log ends before what was committed."""
    DOUBLED = "doubled"
    """A batch is there twice."""
    FOREIGN = "foreign"
    """Records that the flow did not write."""
    COMPACTED = "compacted"
    """The log cleaner has removed records of a topic that is not compacted by its settings."""
    UNMAPPED = "unmapped"
    """Records that the flow wrote, and of which the offset map does not tell: a record of the map is lost."""
    RECREATED = "recreated"
    """The copy is another topic than the flow has written to."""
    DELETED = "deleted"
    """The copy does not exist any more."""


_SENTENCES = {
    DifferenceKind.CHANGED: "keys, values, headers or timestamps differ from what was committed",
    DifferenceKind.CORRUPT: "a batch that fails its checksum",
    DifferenceKind.REORDERED: "the committed batches are in a different order",
    DifferenceKind.LOST: "committed records are missing",
    DifferenceKind.TRUNCATED: "the log ends before the last committed record",
    DifferenceKind.DOUBLED: "a batch is duplicated",
    DifferenceKind.FOREIGN: "records that the flow did not write",
    DifferenceKind.COMPACTED: "the log cleaner removed records, although the topic is not compacted",
    DifferenceKind.UNMAPPED: "records of the flow itself that the offset map does not cover: a record of it is lost",
    DifferenceKind.RECREATED: "the topic was re-created after it was copied",
    DifferenceKind.DELETED: "the topic was deleted after it was copied",
}


class NotProved(StrEnum):
    """Why records that may well be right are not proved."""

    NO_FINGERPRINT = "no_fingerprint"
    """Copied by an earlier version, or by MirrorMaker 2."""
    RETENTION = "retention"
    """The target has deleted a part of their segment."""
    SOURCE_RETENTION = "source_retention"
    """The source has deleted them, so that there is nothing to compare them with."""
    TRANSFORMED = "transformed"
    """The flow's transforms change them, so that the source has others."""
    COMPACTED = "compacted"
    """The log cleaner has been there, as the topic's settings ask for."""
    RECOMPRESSED = "recompressed"
    """The target's brokers compress batches again (``compression.type``)."""
    COPIED_AGAIN = "copied_again"
    """They were copied again behind them, or a later segment took a part of theirs."""
    BEFORE_MAP = "before_map"
    """They lie before the offset map begins."""
    NOT_COPIED = "not_copied"
    """Not copied by this flow: they lie where the map tells of no stretch of the source either, as MirrorMaker 2 leaves
    them. What versions copied that did not write down where the copy ended looks the same when its record is lost."""
    MIXED = "mixed"
    """Records of others lie among them."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Offsets are inclusive; -1 for those of a side where no record of it belongs to the difference, and for all where
    it is the whole topic. They are those of the whole segment where nothing tells them more exactly. ``detail`` is more
    of the sentence. ``key``: the digest, in hexadecimal, of the key of the first record, where that is known
    (:mod:`srm_common.domain.verification.named_keys`); ``shown_key`` is that key, for users who asked to see it. No
    document contains it."""

    kind: DifferenceKind
    downstream_first: int
    downstream_last: int
    upstream_first: int = -1
    upstream_last: int = -1
    detail: str = ""
    key: str = ""
    shown_key: bytes | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        upstream = f"upstream {_offsets(self.upstream_first, self.upstream_last)}" if self.upstream_first >= 0 else ""
        if self.downstream_last < 0 and not upstream:
            return _SENTENCES[self.kind]
        told = "".join(f"; {one}" for one in (self.detail, self.key and f"key digest {self.key}") if one)
        if self.downstream_last < 0:
            where = upstream
        else:
            where = _offsets(self.downstream_first, self.downstream_last) + (f" ({upstream})" if upstream else "")
        return f"{where}: {_SENTENCES[self.kind]}{told}"

    def shown(self) -> str:
        """The sentence, with the key itself if requested."""
        if self.shown_key is None:
            return str(self)
        return f"{self}; key {self.shown_key.decode(errors='backslashreplace')!r}"

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": str(self.kind),
            "downstream_first": self.downstream_first,
            "downstream_last": self.downstream_last,
            "upstream_first": self.upstream_first,
            "upstream_last": self.upstream_last,
            "detail": self.detail,
            "key": self.key,
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_json`. Raises KeyError, TypeError or ValueError for anything else."""
        return cls(
            DifferenceKind(found["kind"]),
            int(found["downstream_first"]),
            int(found["downstream_last"]),
            int(found["upstream_first"]),
            int(found["upstream_last"]),
            str(found["detail"]),
            str(found.get("key", "")),
        )


def _offsets(first: int, last: int) -> str:
    return f"offset {first}" if first == last else f"offsets {first} to {last}"


@dataclass
class Findings:
    """What was found in one partition. Of differences the first ``MOST`` are kept, and all are counted by kind.

    ``proved``: records of segments whose fingerprint is that of the copy. ``not_proved``: others without a difference.
    ``proved_from`` and ``proved_to``: upstream offsets between which no difference was found, the last one exclusive;
    -1 where no segment was proved. ``fingerprint``: of the batches of all segments that are proved by theirs, together;
    that of no batches where the source proved them. ``foreign``: records of others, where several flows write to the
    topic. ``bytes`` of batches were read.
    """

    MOST = 20

    differences: list[Difference] = field(default_factory=list)
    counts: dict[DifferenceKind, int] = field(default_factory=dict)
    proved: int = 0
    not_proved: dict[NotProved, int] = field(default_factory=dict)
    proved_from: int = -1
    proved_to: int = -1
    proved_to_downstream: int = -1
    segments: int = 0
    foreign: int = 0
    bytes: int = 0
    fingerprint: Fingerprint = NO_BATCHES

    def add(self, difference: Difference) -> None:
        """One more difference."""
        self.counts[difference.kind] = self.counts.get(difference.kind, 0) + 1
        if len(self.differences) < self.MOST:
            self.differences.append(difference)

    def leave(self, reason: NotProved, records: int) -> None:
        """So many more records are not proved."""
        self.not_proved[reason] = self.not_proved.get(reason, 0) + records

    def excuse(self, difference: Difference, reason: NotProved, records: int) -> None:
        """A difference that was added is none after all."""
        self.differences.remove(difference)
        self.counts[difference.kind] -= 1
        if not self.counts[difference.kind]:
            del self.counts[difference.kind]
        self.leave(reason, records)

    def append(self, later: Findings) -> None:
        """What was found in the next stretch of the partition."""
        if not self.different and later.proved_to >= 0:
            self.proved_to, self.proved_to_downstream = later.proved_to, later.proved_to_downstream
        if self.proved_from < 0:
            self.proved_from = later.proved_from
        self.differences += later.differences[: self.MOST - len(self.differences)]
        for kind, count in later.counts.items():
            self.counts[kind] = self.counts.get(kind, 0) + count
        for reason, records in later.not_proved.items():
            self.leave(reason, records)
        self.proved += later.proved
        self.segments += later.segments
        self.foreign += later.foreign
        self.bytes += later.bytes
        self.fingerprint = self.fingerprint.plus(later.fingerprint)

    @property
    def different(self) -> bool:
        return bool(self.counts)

    def to_json(self) -> dict[str, Any]:
        return {
            "proved": self.proved,
            "proved_from": self.proved_from,
            "proved_to": self.proved_to,
            "proved_to_downstream": self.proved_to_downstream,
            "not_proved": {str(reason): records for reason, records in self.not_proved.items()},
            "segments": self.segments,
            "foreign": self.foreign,
            "bytes": self.bytes,
            "fingerprint": self.fingerprint.text(),
            "counts": {str(kind): count for kind, count in self.counts.items()},
            "differences": [difference.to_json() for difference in self.differences],
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_json`. Raises KeyError, TypeError or ValueError for anything else."""
        return cls(
            [Difference.from_json(one) for one in found["differences"]],
            {DifferenceKind(kind): int(count) for kind, count in found["counts"].items()},
            int(found["proved"]),
            {NotProved(reason): int(records) for reason, records in found["not_proved"].items()},
            int(found["proved_from"]),
            int(found["proved_to"]),
            int(found["proved_to_downstream"]),
            int(found["segments"]),
            int(found["foreign"]),
            int(found["bytes"]),
            Fingerprint.from_text(str(found.get("fingerprint", ""))),
        )

"""Verifications of a flow's copies: what was compared with what, when, and with which result."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Self
from zlib import crc32

from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.verification.differences import Difference, DifferenceKind, Findings, NotProved
from srm_common.errors import ConfigError

_SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*%")


def parse_share(text: str) -> float:
    """A percentage like ``5%`` as a number above 0, up to 1. Raises :class:`ConfigError`."""
    found = _SHARE.fullmatch(text.strip())
    if found is None or not 0 < float(found[1]) <= 100:
        raise ConfigError(f"{text!r} is not a percentage like 5%")
    return float(found[1]) / 100


def parse_moment(text: str) -> int:
    """A time in ISO 8601 as epoch milliseconds; without a zone it is UTC. Raises :class:`ConfigError`."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ConfigError(f"{text!r} is not a time like 2026-11-23T18:00") from None
    return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


class Against(StrEnum):
    """What copies are compared with."""

    MAP = "map"
    """The fingerprints in the offset map; the source is not read."""
    SOURCE = "source"
    """The records of the source."""


class Verdict(StrEnum):
    """The result for one partition, from bad to good."""

    DIFFERENT = "different"
    FAILED = "failed"
    """It could not be read to its end."""
    PARTLY = "partly"
    """No difference was found, but not all of it could be, or was to be, compared."""
    PROVED = "proved"
    NOTHING = "nothing"
    """The flow has copied nothing there."""


@dataclass(frozen=True, slots=True)
class VerificationScope:
    """What of the copies is compared.

    ``sample``: the share of the segments, chosen by their offsets, so that the same ones are every time. ``since_ms``:
    only what the target got since then (epoch milliseconds).
    """

    sample: float = 1.0
    since_ms: int | None = None

    @property
    def whole(self) -> bool:
        return self.sample >= 1 and self.since_ms is None

    def chooses(self, place: TopicPartition, upstream_start: int) -> bool:
        """Whether the segment that begins there is in the sample."""
        if self.sample >= 1:
            return True
        return crc32(f"{place.topic} {place.partition} {upstream_start}".encode()) < self.sample * (1 << 32)


@dataclass(frozen=True)
class PartitionVerified:
    """One partition of the upstream ``topic``, whose copy is ``copy``. ``log_start`` and ``log_end`` are those of the
    copy (-1 where it has none). ``whole``: all of it was to be compared. ``fault``: why it could not be read to its
    end, in a sentence. ``against``: what it was compared with, and ``sample`` how much of it was to be; None and all in
    results of versions that did not keep them."""

    topic: str
    partition: int
    copy: str
    findings: Findings
    log_start: int = -1
    log_end: int = -1
    checked_ms: int = 0
    whole: bool = True
    fault: str | None = None
    against: Against | None = None
    sample: float = 1.0

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def verdict(self) -> Verdict:
        """The overall result."""
        findings = self.findings
        if findings.different:
            return Verdict.DIFFERENT
        if self.fault is not None:
            return Verdict.FAILED
        if not findings.segments and not findings.not_proved:
            return Verdict.NOTHING
        # A segment that retention has begun to delete is disappearing, and does not matter.
        left = findings.not_proved.keys() - {NotProved.RETENTION}
        return Verdict.PARTLY if left or not self.whole else Verdict.PROVED

    @property
    def of_topic(self) -> bool:
        """Whether the difference concerns the whole topic: its copy is gone, or was replaced."""
        return self.first is not None and self.first.kind in (DifferenceKind.RECREATED, DifferenceKind.DELETED)

    @property
    def first(self) -> Difference | None:
        """The first difference."""
        return self.findings.differences[0] if self.findings.differences else None

    def to_json(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "partition": self.partition,
            "copy": self.copy,
            "verdict": str(self.verdict),
            "log_start": self.log_start,
            "log_end": self.log_end,
            "checked_ms": self.checked_ms,
            "whole": self.whole,
            "fault": self.fault,
            "against": None if self.against is None else str(self.against),
            "sample": self.sample,
            **self.findings.to_json(),
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_json`. Raises KeyError, TypeError or ValueError for anything else."""
        return cls(
            str(found["topic"]),
            int(found["partition"]),
            str(found["copy"]),
            Findings.from_json(found),
            int(found["log_start"]),
            int(found["log_end"]),
            int(found["checked_ms"]),
            bool(found["whole"]),
            None if found["fault"] is None else str(found["fault"]),
            None if found.get("against") is None else Against(found["against"]),
            float(found.get("sample", 1.0)),
        )


@dataclass(frozen=True)
class Evidence:
    """Which clusters and topics a verification was about, and what made it.

    ``topic_ids`` are those of the copies, ``source_topic_ids`` those of the topics that they were made of when the flow
    looked last, by name. Ids are empty where a broker has none, that of the source where it was never recorded.
    ``configuration``: a digest of the flow's settings, without secrets.
    """

    version: str
    configuration: str
    source_cluster_id: str
    target_cluster_id: str
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    source_topic_ids: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "configuration": self.configuration,
            "source_cluster_id": self.source_cluster_id,
            "target_cluster_id": self.target_cluster_id,
            "topic_ids": dict(self.topic_ids),
            "source_topic_ids": dict(self.source_topic_ids),
        }


@dataclass(frozen=True)
class Verification:
    """One comparison of a flow's copies. ``faults`` are about topics that could not be compared at all."""

    flow: str
    against: Against
    scope: VerificationScope
    evidence: Evidence
    started_ms: int
    ended_ms: int
    partitions: tuple[PartitionVerified, ...]
    faults: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[Verdict, int]:
        """How many partitions have each verdict."""
        return verdicts(self.partitions)

    @property
    def clean(self) -> bool:
        """Whether nothing is different, and all could be read."""
        return not self.faults and not self.counts.keys() & {Verdict.DIFFERENT, Verdict.FAILED}

    @property
    def sample_is_empty(self) -> bool:
        """Whether there are copies with records, and none of them was compared because the sample is too small. Nothing
        new since a time is no such case."""
        some = any(partition.log_end > partition.log_start for partition in self.partitions)
        return self.scope.sample < 1 and self.scope.since_ms is None and some and set(self.counts) == {Verdict.NOTHING}

    @property
    def different(self) -> list[PartitionVerified]:
        """The partitions with differences, in order."""
        return [partition for partition in self.partitions if partition.verdict is Verdict.DIFFERENT]

    def to_json(self) -> dict[str, Any]:
        return {
            "flow": self.flow,
            "against": str(self.against),
            "sample": self.scope.sample,
            "since_ms": self.scope.since_ms,
            "started_ms": self.started_ms,
            "ended_ms": self.ended_ms,
            **self.evidence.to_json(),
            "counts": {str(verdict): count for verdict, count in self.counts.items()},
            "partitions": [partition.to_json() for partition in self.partitions],
            "faults": list(self.faults),
        }


def verdicts(partitions: Iterable[PartitionVerified]) -> dict[Verdict, int]:
    """How many partitions have each verdict, in the order of the verdicts."""
    found = [partition.verdict for partition in partitions]
    return {verdict: found.count(verdict) for verdict in Verdict if verdict in found}

"""Transforms of a row of batches, as a slot carries them out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from srm_common.domain.flow import Compression
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.transforms.faults import ErrorHandling
from srm_common.records.failed import FailedRecords
from srm_common.records.provenance import ProvenanceHeaders
from srm_common.records.transform import Transform
from srm_common.records.transformed import transformed
from srm_common.wire.batches.batch import Packed, SourceBatch

UPSTREAM = TopicPartition("orders", 3)


def come_out(
    batches: Sequence[SourceBatch],
    first: int,
    end: int,
    compression: Compression | None,
    transform: Transform,
    handling: ErrorHandling | None = None,
    skipped: list[tuple[int, Sequence[Packed]]] | None = None,
    dropped: list[int] | None = None,
    provenance: ProvenanceHeaders | None = None,
) -> Iterator[Packed]:
    """As a slot has it."""
    failed = FailedRecords(handling or ErrorHandling(), "a->b", 7, UPSTREAM, transform)

    def skip(gone: int, count: int, letters: Sequence[Packed]) -> None:
        if skipped is not None and count:
            skipped.append((count, letters))
        if dropped is not None:
            dropped.append(gone)

    return transformed(
        batches,
        first,
        end,
        1 << 20,
        compression,
        skip,
        transform=transform,
        failed=failed,
        provenance=provenance,
    )

"""Faults that a test plants in the log of a copy, each by the difference that it is found as."""

from __future__ import annotations

from collections.abc import Callable

from srm_common.domain.verification.differences import DifferenceKind
from srm_common.testing.fake_cluster.log import PartitionLog
from srm_common.testing.fake_cluster.records import Record, StoredBatch, batch_of, records_of, stored
from tests.kafka.flows import write
from tests.kafka.records import delete_topic
from tests.unit.usecases.fakes import Sides

COPY = "a.orders"


def batches(log: PartitionLog) -> list[int]:
    """The indexes of batches with records."""
    return [number for number, one in enumerate(log.batches) if not one.control]


def rewritten(one: StoredBatch, change: Callable[[Record], Record]) -> StoredBatch:
    """The batch as if other records had been produced."""
    records = [change(record) for record in records_of(one)]
    return stored(batch_of(records, like=one.header), one.header.base_offset, one.header.leader_epoch)


def changed(change: Callable[[Record], Record]) -> Callable[[Sides, PartitionLog], None]:
    def plant(sides: Sides, log: PartitionLog) -> None:
        at = batches(log)[2]
        log.batches[at] = rewritten(log.batches[at], change)

    return plant


def wrong_checksum(sides: Sides, log: PartitionLog) -> None:
    at = batches(log)[2]
    broken = bytearray(log.batches[at].data)
    broken[-1] ^= 1
    log.batches[at] = stored(bytes(broken), log.batches[at].header.base_offset, 0)


def dropped(sides: Sides, log: PartitionLog) -> None:
    del log.batches[batches(log)[2]]


def doubled(sides: Sides, log: PartitionLog) -> None:
    one = log.batches[batches(log)[4]]
    codec = one.header.attributes & 7
    plain = one.header._replace(producer_id=-1, producer_epoch=-1, base_sequence=-1, attributes=codec)
    log.append(batch_of(records_of(one), like=plain), 0)


def swapped(sides: Sides, log: PartitionLog) -> None:
    first, second, *_ = batches(log)
    one, other = log.batches[first], log.batches[second]
    log.batches[first] = stored(other.data, one.header.base_offset, 0)
    log.batches[second] = stored(one.data, one.header.base_offset + other.header.record_count, 0)


def foreign(sides: Sides, log: PartitionLog) -> None:
    write(sides.target, COPY, [b"not ours"])


def truncated(sides: Sides, log: PartitionLog) -> None:
    at = batches(log)[3]
    log.end = log.batches[at].header.base_offset
    del log.batches[at:]


def created_again(sides: Sides, log: PartitionLog) -> None:
    delete_topic(sides.target, COPY)
    sides.target.create_topic(COPY, 2)


def deleted(sides: Sides, log: PartitionLog) -> None:
    delete_topic(sides.target, COPY)


def compacted(sides: Sides, log: PartitionLog) -> None:
    at = batches(log)[2]
    one = log.batches[at]
    log.batches[at] = stored(batch_of(records_of(one)[::2], like=one.header), one.header.base_offset, 0)


FAULTS = {
    "changed byte": (changed(lambda one: one._replace(value=b"other")), DifferenceKind.CHANGED),
    "wrong timestamp": (changed(lambda one: one._replace(timestamp_ms=one.timestamp_ms + 1)), DifferenceKind.CHANGED),
    "header lost": (changed(lambda one: one._replace(headers=())), DifferenceKind.CHANGED),
    "key lost": (changed(lambda one: one._replace(key=None)), DifferenceKind.CHANGED),
    "wrong checksum": (wrong_checksum, DifferenceKind.CORRUPT),
    "dropped batch": (dropped, DifferenceKind.LOST),
    "doubled batch": (doubled, DifferenceKind.DOUBLED),
    "swapped batches": (swapped, DifferenceKind.REORDERED),
    "foreign record": (foreign, DifferenceKind.FOREIGN),
    "truncated log": (truncated, DifferenceKind.TRUNCATED),
    "re-created topic": (created_again, DifferenceKind.RECREATED),
    "deleted topic": (deleted, DifferenceKind.DELETED),
    "compaction in the middle": (compacted, DifferenceKind.COMPACTED),
}

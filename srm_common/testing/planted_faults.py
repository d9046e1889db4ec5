"""Faults planted in the log of a partition, as broken disks, brokers and clean-ups leave them.

With its node stopped, :func:`plant` rewrites a segment; :func:`flip_bit` changes a byte of it in place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from srm_common.errors import LocalKafkaError
from srm_common.testing.fake_cluster.records import Record, batch_of, records_of, stored
from srm_common.testing.local_kafka import LocalKafka
from srm_common.wire.batches.batch import CODEC_MASK, CONTROL, HEADER_SIZE, SourceBatch, split, stamp

#: What a broker makes from the log again: its indexes, and what it knows of producers.
_DERIVED = (".index", ".timeindex", ".txnindex", ".snapshot")
#: Without these a broker recovers its logs when it starts, from their beginning.
_CLEAN_STOP = (".kafka_cleanshutdown", "recovery-point-offset-checkpoint", "replication-offset-checkpoint")

Batches = list[SourceBatch]
#: Changes batches of a segment, from the index of one with records on; the offsets that are concerned, both inclusive.
Fault = Callable[[Batches, int], tuple[int, int]]


@dataclass(frozen=True)
class Planted:
    """Where a fault is: the file, and the first and last offset that are concerned."""

    file: Path
    first: int
    last: int


def plant(kafka: LocalKafka, topic: str, fault: Fault, *, partition: int = 0, node: int = 1, batch: int = 2) -> Planted:
    """Change the newest segment of a partition on a node that is stopped; the node recovers its logs when it starts.

    Args:
        fault: one of :data:`FAULTS`, or your own function.
        batch: which batch with records, counted from 0.

    Raises:
        LocalKafkaError: the node runs, or there are too few batches.
    """
    if kafka.running(node):
        raise LocalKafkaError(f"node {node} of {kafka.name} runs: stop it before a fault is planted in its files")
    file = _newest_segment(kafka, topic, partition, node)
    batches = list(split(memoryview(file.read_bytes())))
    first, last = fault(batches, _index(batches, batch, file))
    file.write_bytes(b"".join(bytes(source_batch.data) for source_batch in batches))
    for other in file.parent.iterdir():
        if other.suffix in _DERIVED:
            other.unlink()
    for name in _CLEAN_STOP:
        (file.parents[1] / name).unlink(missing_ok=True)
    return Planted(file, first, last)


def flip_bit(kafka: LocalKafka, topic: str, *, partition: int = 0, node: int = 1, batch: int = 2) -> Planted:
    """Flip the last bit of a batch in its file, so that its checksum is wrong. The node may run: it serves what is in
    the file, as it does from a failing disk. One that is started later, after an unclean stop, cuts its log there.

    Raises:
        LocalKafkaError: there are too few batches.
    """
    file = _newest_segment(kafka, topic, partition, node)
    with file.open("r+b") as log:
        batches = list(split(memoryview(log.read())))
        at = _index(batches, batch, file)
        log.seek(sum(len(source_batch.data) for source_batch in batches[: at + 1]) - 1)
        log.write(bytes([batches[at].data[-1] ^ 1]))
    return Planted(file, *_offsets(batches[at]))


def rewritten(change: Callable[[Record], Record]) -> Fault:
    """Replace the records of a batch by others, with a correct checksum."""

    def fault(found: Batches, at: int) -> tuple[int, int]:
        _replace(found, at, [change(record) for record in _records(found[at])])
        return _offsets(found[at])

    return fault


def changed_byte(found: Batches, at: int) -> tuple[int, int]:
    """The last byte of one value is changed, and the checksum fits: no broker notices it."""
    records = _records(found[at])
    for number, one in enumerate(records):
        if one.value:
            records[number] = one._replace(value=one.value[:-1] + bytes([one.value[-1] ^ 1]))
            _replace(found, at, records)
            return one.offset, one.offset
    raise LocalKafkaError(f"the batch at {found[at].header.base_offset} has no value to change: choose another batch")


def dropped(found: Batches, at: int) -> tuple[int, int]:
    """The batch is gone."""
    return _offsets(found.pop(at))


def doubled(found: Batches, at: int) -> tuple[int, int]:
    """The batch is there once more, at the end of the log, as if a producer without idempotence had sent it again."""
    header, end = found[at].header, found[-1].header.next_offset
    body = bytes(found[at].data[HEADER_SIZE:])
    again = stamp(
        header.attributes & CODEC_MASK,
        header.last_offset_delta,
        header.base_timestamp,
        header.max_timestamp,
        header.record_count,
        body,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
    )
    found.append(stored(again + body, end, header.leader_epoch).source())
    return _offsets(found[-1])


def swapped(found: Batches, at: int) -> tuple[int, int]:
    """The batch and the next one have changed places."""
    while any(batch.header.attributes & CONTROL for batch in found[at : at + 2]):
        at += 1
    if at + 1 >= len(found):
        raise LocalKafkaError("no two batches with records follow each other: choose an earlier batch")
    one, other = found[at], found[at + 1]
    first, epoch = one.header.base_offset, one.header.leader_epoch
    # No checksum covers where a batch is.
    found[at] = stored(bytes(other.data), first, epoch).source()
    found[at + 1] = stored(bytes(one.data), found[at].header.next_offset, epoch).source()
    return first, found[at + 1].header.next_offset - 1


def truncated(found: Batches, at: int) -> tuple[int, int]:
    """The log ends before the batch, as after an unclean leader election."""
    first, last = found[at].header.base_offset, found[-1].header.next_offset - 1
    del found[at:]
    return first, last


def thinned(found: Batches, at: int) -> tuple[int, int]:
    """Every second record of the batch is gone, and the others keep their offsets: what the log cleaner leaves."""
    _replace(found, at, _records(found[at])[::2])
    return _offsets(found[at])


def _later(one: Record) -> Record:
    return one._replace(timestamp_ms=one.timestamp_ms + 1)


#: By name, for :func:`plant`.
FAULTS: Mapping[str, Fault] = MappingProxyType(
    {
        "changed byte": changed_byte,
        "wrong timestamp": rewritten(_later),
        "header lost": rewritten(lambda one: one._replace(headers=())),
        "key lost": rewritten(lambda one: one._replace(key=None)),
        "swapped batches": swapped,
        "compaction in the middle": thinned,
        "dropped batch": dropped,
        "doubled batch": doubled,
        "truncated log": truncated,
    }
)


def _newest_segment(kafka: LocalKafka, topic: str, partition: int, node: int) -> Path:
    files = kafka.segment_files(topic, partition, node)
    if not files:
        raise LocalKafkaError(f"node {node} of {kafka.name} has no log of {topic}-{partition}")
    return files[-1]


def _index(found: Batches, batch: int, file: Path) -> int:
    """Of a batch with records among all batches."""
    data = [number for number, one in enumerate(found) if not one.header.attributes & CONTROL]
    if batch >= len(data):
        raise LocalKafkaError(f"{file} has {len(data)} batches with records, and no batch {batch}: write more of them")
    return data[batch]


def _records(batch: SourceBatch) -> list[Record]:
    return records_of(stored(bytes(batch.data), batch.header.base_offset, batch.header.leader_epoch))


def _replace(found: Batches, at: int, records: list[Record]) -> None:
    header = found[at].header
    found[at] = stored(batch_of(records, like=header), header.base_offset, header.leader_epoch).source()


def _offsets(batch: SourceBatch) -> tuple[int, int]:
    return batch.header.base_offset, batch.header.next_offset - 1

from __future__ import annotations

from collections.abc import Iterator

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.topic_partition import TopicPartition
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.kafka.log import mapped_log
from srm_common.kafka.log.mapped_log import read_mapped
from srm_common.testing import FakeCluster
from srm_common.testing.fake_cluster.log import PartitionLog
from srm_common.wire.batches.batch import TRANSACTIONAL, SourceBatch, split, stamp
from srm_common.wire.state.plain_records import plain_records


class Unmapped:
    """A reader of what the map does not cover, such as what MirrorMaker 2 has copied."""

    def __init__(self) -> None:
        self.taken: list[int] = []

    def is_mapped(self, first: int, end: int) -> bool:
        return False

    def take(self, batch: SourceBatch) -> None:
        self.taken.append(batch.header.base_offset)

    def take_row(self, records: memoryview, position: int, first: int) -> tuple[int, int]:
        return 0, first

    def aborted(self, first: int, last: int) -> None:
        raise AssertionError("nothing is mapped")


def write_transaction(log: PartitionLog, producer: int, sequence: int, *, committed: bool) -> None:
    body = plain_records([(b"k", b"v")])
    log.append(stamp(TRANSACTIONAL, 0, 1, 1, 1, body, producer, 0, sequence) + body, 1)
    log.end_transaction(producer, 0, committed=committed, now_ms=1)


def test_of_small_transactions_each_is_searched_to_its_marker_only(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = 0

    def counted(records: memoryview) -> Iterator[SourceBatch]:
        nonlocal seen
        for batch in split(records):
            seen += 1
            yield batch

    monkeypatch.setattr(mapped_log, "split", counted)
    transactions = 300
    reader, place = Unmapped(), TopicPartition("copy", 0)
    with FakeCluster() as kafka:
        kafka.create_topic("copy")
        log = kafka.log("copy")
        for number in range(transactions):
            write_transaction(log, 1 + number % 3, number // 3, committed=number % 5 > 0)
        with ClusterLink(ClusterSettings.plaintext("b", kafka.bootstrap_servers)) as link:

            async def read() -> None:
                await link.open(["copy"])
                await read_mapped(link, place, 0, log.end, reader, patience_seconds=10.0, fetch_bytes=1 << 20)

            link.run(read)
    assert reader.taken == [2 * number for number in range(transactions) if number % 5]
    assert seen <= 6 * transactions, "each batch itself, and each data batch up to its marker"

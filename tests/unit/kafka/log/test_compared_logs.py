"""Where a log parts from the one that was read, as sources say it whose Fetch does not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.topic_partition import TopicPartition
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.kafka.client.protocol.fetch_request import FetchFrom
from srm_common.kafka.log.compared_logs import ComparedLogs, Comparison
from srm_common.testing import FakeCluster
from srm_common.wire.protocol import fetch
from tests.kafka.records import mixed_records, produce

_NOT_LEADER = 6


@pytest.fixture(params=[fetch.OLDEST_VERSION, fetch.VERSION_BY_NAME])
def kafka(request: pytest.FixtureRequest) -> Iterator[FakeCluster]:
    with FakeCluster(newest={"Fetch": request.param}) as kafka:
        kafka.create_topic("t", 2)
        for partition in range(2):
            produce(kafka, "t", partition, mixed_records(10, partition))
        yield kafka


def source_settings(kafka: FakeCluster) -> ClusterSettings:
    return ClusterSettings.plaintext("a", kafka.bootstrap_servers).of_role(only_read=True)


def older(kafka: FakeCluster) -> bool:
    (version,) = {newest for name, (_, newest) in kafka._server.protocol.versions.items() if name == "Fetch"}
    return version == fetch.OLDEST_VERSION


def questions(kafka: FakeCluster) -> int:
    return sum(call.api == "OffsetForLeaderEpoch" for call in kafka.requests)


def compare(logs: ComparedLogs, link: ClusterLink, *wanted: FetchFrom) -> Comparison:
    async def ask() -> Comparison:
        await link.open({"t"})
        await link.refresh()
        await link.connect(1)
        return await logs.compare(wanted, 1)

    return link.run(ask)


def diverging(logs: ComparedLogs, link: ClusterLink, *wanted: FetchFrom) -> list[tuple[int, tuple[int, int] | None]]:
    compared = compare(logs, link, *wanted)
    assert compared.faults == {}
    return [(part.partition, part.diverging) for part in compared.parted]


def test_a_log_that_was_cut_is_found_once_under_each_leader(kafka: FakeCluster) -> None:
    """Brokers that know Fetch 12 are asked nothing: they say so themselves."""
    kafka._topics.elect("t", 0, keep=6)
    produce(kafka, "t", 0, mixed_records(10, seed=5))
    with ClusterLink(source_settings(kafka)) as link:
        logs = ComparedLogs(link)
        cut, whole = FetchFrom("t", 0, 10, 1, 0), FetchFrom("t", 1, 10, 0, 0)
        unread = FetchFrom("t", 0, 0, 1, -1)
        assert diverging(logs, link, unread) == []
        assert questions(kafka) == 0
        assert diverging(logs, link, cut, whole) == ([(0, (0, 6))] if older(kafka) else [])
        assert diverging(logs, link, whole) == []
        assert questions(kafka) == older(kafka)
        kafka._topics.elect("t", 1)
        assert diverging(logs, link, whole._replace(leader_epoch=1)) == []
        assert questions(kafka) == 2 * older(kafka)
        # Nothing is remembered of one that has parted.
        assert diverging(logs, link, cut) == ([(0, (0, 6))] if older(kafka) else [])


def test_one_that_could_not_be_compared_is_asked_about_again(kafka: FakeCluster) -> None:
    place, wanted = TopicPartition("t", 0), FetchFrom("t", 0, 10, 0, 0)
    with ClusterLink(source_settings(kafka)) as link:
        logs = ComparedLogs(link)
        with kafka.refuse("OffsetForLeaderEpoch", _NOT_LEADER):
            for _ in range(2):
                compared = compare(logs, link, wanted)
                assert ([*compared.faults], compared.parted) == ([place] if older(kafka) else [], [])
        assert diverging(logs, link, wanted) == []


def test_a_leader_of_another_epoch_answers_nothing(kafka: FakeCluster) -> None:
    """It may not know yet that it is no longer the leader, and has not what its successor has."""
    with ClusterLink(source_settings(kafka)) as link:
        compared = compare(ComparedLogs(link), link, FetchFrom("t", 0, 12, 3, 3), FetchFrom("t", 1, 10, 0, 0))
        assert compared.parted == []
        assert [*compared.faults] == ([TopicPartition("t", 0)] if older(kafka) else [])
        assert all("UNKNOWN_LEADER_EPOCH" in str(text) for text in compared.faults.values())

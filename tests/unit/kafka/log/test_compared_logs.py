"""Where a log parts from the one that was read, as sources say it whose Fetch does not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.kafka.client.links.link import ClusterLink, RetriableFault
from srm_common.kafka.client.protocol.fetch_request import FetchFrom
from srm_common.kafka.log.compared_logs import ComparedLogs
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


def older(kafka: FakeCluster) -> bool:
    (version,) = {newest for name, (_, newest) in kafka._server.protocol.versions.items() if name == "Fetch"}
    return version == fetch.OLDEST_VERSION


def questions(kafka: FakeCluster) -> int:
    return sum(call.api == "OffsetForLeaderEpoch" for call in kafka.requests)


def diverging(logs: ComparedLogs, link: ClusterLink, *wanted: FetchFrom) -> list[tuple[int, tuple[int, int] | None]]:
    async def ask() -> list[fetch.FetchedPartition]:
        await link.open({"t"})
        await link.refresh()
        await link.connect(1)
        return await logs.diverging(wanted, 1)

    return [(part.partition, part.diverging) for part in link.run(ask)]


def test_a_log_that_was_cut_is_found_once_under_each_leader(kafka: FakeCluster) -> None:
    """Brokers that know Fetch 12 are asked nothing: they say so themselves."""
    kafka._topics.elect("t", 0, keep=6)
    produce(kafka, "t", 0, mixed_records(10, seed=5))
    with ClusterLink(ClusterSettings.plaintext("a", kafka.bootstrap_servers)) as link:
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


def test_without_an_answer_nothing_is_fetched(kafka: FakeCluster) -> None:
    with (
        ClusterLink(ClusterSettings.plaintext("a", kafka.bootstrap_servers)) as link,
        kafka.refuse("OffsetForLeaderEpoch", _NOT_LEADER),
    ):
        logs, wanted = ComparedLogs(link), FetchFrom("t", 0, 10, 0, 0)
        if not older(kafka):
            assert diverging(logs, link, wanted) == []
            return
        for _ in range(2):  # it is asked again
            with pytest.raises(RetriableFault, match="NOT_LEADER"):
                diverging(logs, link, wanted)

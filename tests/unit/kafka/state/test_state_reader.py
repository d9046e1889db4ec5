from __future__ import annotations

import threading
import tracemalloc

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.errors import AccessDenied, ClusterError, UnreachableCluster
from srm_common.kafka.client.links.link import LATEST
from srm_common.kafka.state.state_reader import StateReader
from srm_common.testing import FakeCluster
from tests.by_link import by_link


def test_a_leader_on_its_move_is_waited_for() -> None:
    with FakeCluster(nodes=2) as kafka:
        kafka.create_topic("state", 2)
        kafka.write("state", [(b"k", b"v")], 1)
        kafka.stop(2)
        back = threading.Timer(0.3, kafka.restart, [2])
        with StateReader(ClusterSettings.plaintext("c", kafka.bootstrap_servers)) as reader:
            back.start()
            try:
                assert reader.offsets("state", [1], LATEST) == {1: 1}
            finally:
                back.join()


def test_a_partition_without_a_leader_is_given_up_in_time() -> None:
    with FakeCluster(nodes=2) as kafka:
        kafka.create_topic("state", 2)
        kafka.stop(2)
        with (
            StateReader(ClusterSettings.plaintext("c", kafka.bootstrap_servers), timeout_seconds=3.0) as reader,
            pytest.raises(ClusterError, match="could not list the offsets of topic state"),
        ):
            reader.offsets("state", [1], LATEST)


@pytest.mark.parametrize("kind", ["librdkafka", "kafka-python"])
def test_brokers_that_restart_are_waited_for(kind: str) -> None:
    with FakeCluster(nodes=2) as kafka:
        kafka.create_topic("state", 2)
        kafka.write("state", [(b"k", b"v")], 1)
        cluster = ClusterSettings.plaintext("c", kafka.bootstrap_servers)
        with StateReader(cluster if kind == "librdkafka" else by_link(cluster)) as reader:
            assert reader.offsets("state", [1], LATEST) == {1: 1}
            kafka.go_away()
            back = threading.Timer(0.3, kafka.come_back)
            back.start()
            try:
                assert reader.offsets("state", [0, 1], LATEST) == {0: 0, 1: 1}
            finally:
                back.join()


@pytest.mark.parametrize("api", ["Fetch", "ListOffsets"])
def test_a_broker_that_falls_silent_is_given_up_when_the_readers_time_is_over(api: str) -> None:
    with FakeCluster() as kafka:
        kafka.create_topic("state")
        kafka.write("state", [(b"k", b"v")])
        cluster = ClusterSettings.plaintext("c", kafka.bootstrap_servers)
        with StateReader(cluster, timeout_seconds=2.0) as reader:
            assert [record.value for record in reader.read("state")] == [b"v"]
            with kafka.silence(api), pytest.raises(UnreachableCluster, match="neither took nor sent a byte for 2 s"):
                reader.read("state", ends={0: 1})


def test_what_was_deleted_within_a_batch_is_not_shown() -> None:
    """Brokers send the whole batch that the log begins in."""
    with FakeCluster() as kafka:
        kafka.create_topic("state")
        kafka.write("state", [(b"k%d" % number, b"v") for number in range(5)])
        kafka.delete_records("state", 3)
        with StateReader(ClusterSettings.plaintext("c", kafka.bootstrap_servers)) as reader:
            assert [record.offset for record in reader.read("state")] == [3, 4]
            assert sorted(reader.newest("state", {0: 5})) == [b"k3", b"k4"]


def test_questions_use_one_connection() -> None:
    with FakeCluster() as kafka:
        kafka.create_topic("state", 2)
        kafka.write("state", [(b"k", b"v")], 1)
        with StateReader(ClusterSettings.plaintext("c", kafka.bootstrap_servers)) as reader:
            assert reader.partitions("state") == 2
            assert len(reader.read("state")) == 1
        assert kafka.connections == {1: 1}


def test_what_a_read_cannot_do_names_cluster_and_topic() -> None:
    with FakeCluster() as kafka:
        cluster = ClusterSettings.plaintext("c", kafka.bootstrap_servers)
        with StateReader(cluster, timeout_seconds=0.2) as reader:
            with pytest.raises(ClusterError, match=r"cluster 'c' .* could not read topic gone: .* does not exist"):
                reader.read("gone", ends={0: 1})
            kafka.create_topic("hidden")
            kafka.write("hidden", [(b"k", b"v")])
            with (
                kafka.refuse("Metadata", 29, when="hidden"),
                pytest.raises(AccessDenied, match="describe topic hidden"),
            ):
                reader.partitions("hidden")
            with kafka.refuse("Fetch", 29, when="hidden"), pytest.raises(AccessDenied, match=r"hidden-0.*Read"):
                reader.read("hidden")


def test_questions_of_a_session_ask_for_leaders_once_and_for_partitions_each_time() -> None:
    with FakeCluster() as kafka:
        kafka.create_topic("state")
        kafka.write("state", [(b"k", b"v")] * 2)
        with StateReader(ClusterSettings.plaintext("c", kafka.bootstrap_servers)) as shared:
            with shared.session() as reader:
                ends = reader.offsets("state", [0], LATEST)
                assert [record.offset for record in reader.read("state", {0: 1}, ends)] == [1]
                assert len(kafka.asked("Metadata")) == 1
                assert reader.partitions("more") == 0
                kafka.create_topic("more", 2)
                assert reader.partitions("more") == 2
            assert shared.partitions("more") == 2
        assert kafka.connections == {1: 1}


def test_where_nothing_is_new_nothing_is_asked() -> None:
    with FakeCluster() as kafka:
        kafka.create_topic("state")
        with StateReader(ClusterSettings.plaintext("c", kafka.bootstrap_servers)) as reader:
            assert reader.read("state", {0: 3}, {0: 3}) == []
        assert kafka.requests == []


def test_the_last_records_are_found_without_holding_those_before() -> None:
    """A topic that MirrorMaker 2 made is compacted only behind its active segment, of 1 GiB."""
    with FakeCluster() as kafka:
        kafka.create_topic("checkpoints")
        for number in range(400):
            kafka.write("checkpoints", [(b"k", number.to_bytes(2, "big") + bytes(100_000))])
        kafka.write("checkpoints", [(b"gone", b"v"), (b"gone", None), (None, b"v")])
        with StateReader(ClusterSettings.plaintext("c", kafka.bootstrap_servers)) as reader:
            tracemalloc.start()
            try:
                found = reader.last_records("checkpoints")
                _, peak = tracemalloc.get_traced_memory()
                tracemalloc.reset_peak()
                assert found == {one.key: one for one in reader.read("checkpoints") if one.key is not None}
                _, whole = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
        assert {key: (one.offset, one.value and one.value[:2]) for key, one in found.items()} == {
            b"k": (399, b"\x01\x8f"),
            b"gone": (401, None),
        }
        assert peak < whole / 2

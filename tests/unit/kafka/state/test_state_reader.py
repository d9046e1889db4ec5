from __future__ import annotations

import threading

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.errors import ClusterError
from srm_common.kafka.client.librdkafka import LATEST
from srm_common.kafka.state.state_reader import StateReader
from srm_common.testing import FakeCluster


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

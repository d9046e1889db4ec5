from __future__ import annotations

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow.heartbeats import Heartbeat
from srm_common.kafka.state.heartbeat_log import newest_heartbeat
from srm_common.kafka.state.state_reader import StateReader
from srm_common.testing import FakeCluster
from srm_common.wire.state.mm2 import encode_heartbeat

BEAT = Heartbeat("a", "b", 1_700_000_000_000)


@pytest.mark.parametrize(("behind", "found"), [(0, True), (9_000, True), (11_000, False)])
def test_a_long_log_of_other_records_is_not_read_as_a_whole(behind: int, found: bool) -> None:
    with FakeCluster() as kafka, StateReader(ClusterSettings.plaintext("b", kafka.bootstrap_servers)) as reader:
        kafka.create_topic("a.device.heartbeats")
        kafka.write("a.device.heartbeats", [encode_heartbeat(BEAT)])
        if behind:
            kafka.write("a.device.heartbeats", [(b"device", b"reading")] * behind)
        newest = newest_heartbeat(reader, "a.device.heartbeats", BEAT.timestamp_ms)
        assert (newest is not None and newest.beat == BEAT) == found

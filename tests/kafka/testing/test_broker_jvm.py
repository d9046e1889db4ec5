"""Nodes of several clusters in one JVM."""

from __future__ import annotations

import socket
import tempfile
from pathlib import Path
from typing import Any

import pytest

from srm_common.errors import LocalKafkaError
from srm_common.testing import BrokerJvm, LocalKafka
from srm_common.testing.brokers.jvm import HostedNode
from tests.kafka.testing.test_local_kafka import produce, values

pytestmark = pytest.mark.kafka


def test_clusters_of_one_jvm_have_records_and_logs_of_their_own_and_come_back_where_they_were(
    broker_jvm: BrokerJvm,
) -> None:
    settings = {"log.retention.hours": "77"}
    with (
        LocalKafka(name="one", jvm=broker_jvm) as one,
        LocalKafka(name="other", jvm=broker_jvm, settings=settings) as other,
    ):
        for kafka in (one, other):
            kafka.create_topic("same", partitions=2)
            produce(kafka, "same", kafka.name.encode())
        logs = {kafka: kafka.log_path().read_text() for kafka in (one, other)}
        assert all("started (kafka.server" in log for log in logs.values())
        assert [one.cluster_id in log for log in logs.values()] == [True, False]
        assert [other.cluster_id in log for log in logs.values()] == [False, True]

        address = one.bootstrap_servers
        one.stop()
        assert (one.running(), other.running()) == (False, True)
        one.start()
        assert one.log_path().read_text().count("started (kafka.server") == 2 * logs[one].count("started (kafka.server")
        assert one.bootstrap_servers == address
        assert [values(kafka, "same", 1) for kafka in (one, other)] == [[b"one"], [b"other"]]
        directory = one.directory
    assert not directory.exists()


def test_what_only_a_node_with_its_own_jvm_can_do_is_refused(broker_jvm: BrokerJvm, source_kafka: LocalKafka) -> None:
    measured = source_kafka.cpu_seconds, source_kafka.peak_rss_bytes
    for done in (source_kafka.kill, source_kafka.pause, source_kafka.fill_disk, source_kafka.pid, *measured):
        with pytest.raises(LocalKafkaError, match="node 1 shares a JVM"):
            done()
    for options in ({"java_options": ["-Xmx1g"]}, {"version": "3.9.1"}, {"tuned_for": "throughput"}, {"nodes": 3}):
        with pytest.raises(LocalKafkaError, match="odd needs JVMs of its own"):
            LocalKafka(name="odd", jvm=broker_jvm, **options)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"settings": {"log.segment.bytes": "nonsense"}}, "log.segment.bytes"),
        # The controller runs by then.
        (
            {"client_protocol": "SSL", "settings": {"listener.name.client.ssl.keystore.location": "/absent"}},
            "key store",
        ),
    ],
)
def test_a_node_that_does_not_start_says_why_and_the_others_go_on(
    options: dict[str, Any],
    why: str,
    broker_jvm: BrokerJvm,
    source_kafka: LocalKafka,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    doomed = LocalKafka(name="doomed", jvm=broker_jvm, **options)
    with pytest.raises(LocalKafkaError, match=rf"(?s)ended while starting.*{why}"), doomed:
        pass
    host, _, port = doomed._nodes[0].controller.address.rpartition(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))
    assert source_kafka.running()


def test_a_node_that_ends_before_anyone_looks_is_missed_all_the_same(
    broker_jvm: BrokerJvm, monkeypatch: pytest.MonkeyPatch
) -> None:
    def launch_and_wait(properties: Path) -> HostedNode:
        node = HostedNode(broker_jvm, broker_jvm._parameters, properties)
        node._starting.join()
        return node

    with LocalKafka(name="doomed", jvm=broker_jvm) as kafka:
        monkeypatch.setattr(broker_jvm, "launch", launch_and_wait)
        with pytest.raises(LocalKafkaError, match=r"(?s)ended while starting.*log\.segment\.bytes"):
            kafka.restart(settings={"log.segment.bytes": "nonsense"})
        with pytest.raises(LocalKafkaError, match=r"(?s)ended while starting.*log\.segment\.bytes"):
            kafka.start()


def test_nodes_end_with_their_jvm() -> None:
    with BrokerJvm() as jvm:
        kafka = LocalKafka(name="orphaned", jvm=jvm).start()
        jvm.end()
        assert not kafka.running()
        with pytest.raises(LocalKafkaError, match=r"the JVM that nodes share does not run \(exit code -9\)"):
            kafka.restart()
        kafka.close()

"""Nodes of several clusters in one JVM."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from srm_common.errors import LocalKafkaError
from srm_common.testing import BrokerJvm, LocalKafka
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
        assert one.bootstrap_servers == address
        assert [values(kafka, "same", 1) for kafka in (one, other)] == [[b"one"], [b"other"]]
        directory = one.directory
    assert not directory.exists()


def test_what_only_a_node_with_its_own_jvm_can_do_is_refused(broker_jvm: BrokerJvm, source_kafka: LocalKafka) -> None:
    for done in (source_kafka.kill, source_kafka.pause, source_kafka.fill_disk, source_kafka.pid):
        with pytest.raises(LocalKafkaError, match="node 1 shares a JVM"):
            done()
    for options in ({"java_options": ["-Xmx1g"]}, {"version": "3.9.1"}, {"tuned_for": "throughput"}):
        with pytest.raises(LocalKafkaError, match="the nodes of odd need a JVM of their own"):
            LocalKafka(name="odd", jvm=broker_jvm, **options)


def test_a_node_that_does_not_start_says_why_and_the_others_go_on(
    broker_jvm: BrokerJvm, source_kafka: LocalKafka, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    doomed = LocalKafka(name="doomed", settings={"log.segment.bytes": "nonsense"}, jvm=broker_jvm)
    with pytest.raises(LocalKafkaError, match=r"ended while starting[^$]*log\.segment\.bytes"), doomed:
        pass
    assert source_kafka.running()


def test_nodes_end_with_their_jvm() -> None:
    with BrokerJvm() as jvm:
        kafka = LocalKafka(name="orphaned", jvm=jvm).start()
        jvm.close()
        assert not kafka.running()
        with pytest.raises(LocalKafkaError, match="the JVM that nodes share does not run"):
            kafka.restart()
        kafka.close()

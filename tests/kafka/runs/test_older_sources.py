"""Sources that are older than any target may be: Kafka 2.4, whose brokers know Fetch 11 and Produce 8, and no ids of
topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from srm_common.cli.main import run as command
from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowSettings
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunRecord, RunState
from srm_common.domain.topic_id import NO_TOPIC_ID
from srm_common.domain.verification.verification import Against, Verdict
from srm_common.errors import UnsupportedBroker
from srm_common.kafka.admin.cluster_admin import ClusterAdmin
from srm_common.kafka.groups.group_offsets import GroupReader
from srm_common.testing import LocalKafka
from srm_common.usecases.offsets.sync_checkpoints import sync_checkpoints
from srm_common.usecases.runs.emit_heartbeat import emit_heartbeat
from srm_common.usecases.runs.replicate import replicate
from srm_common.usecases.verification.verify_copies import verify_copies
from tests.by_link import by_link
from tests.kafka.flows import flow_between, prepare, properties_of
from tests.kafka.group_commits import commit
from tests.kafka.records import eventually, mixed_records, produce, read_all
from tests.slot_worker import here

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def old() -> Iterator[LocalKafka]:
    with LocalKafka(name="old", version="2.4.1") as kafka:
        yield kafka


def source_settings(kafka: LocalKafka) -> ClusterSettings:
    return ClusterSettings.plaintext("old", kafka.internal_servers).of_role(only_read=True)


def run(flow: FlowSettings, run_id: str) -> RunRecord:
    return replicate(flow, RunOptions(run_id=run_id), here)


def write_transactions(kafka: LocalKafka, topic: str) -> None:
    """Every other one is aborted."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": topic, "log_level": 0})
    producer.init_transactions()
    for number in range(10):
        producer.begin_transaction()
        for record in range(5):
            producer.produce(topic, value=b"%d-%d" % (number, record), partition=1)
        producer.flush()
        (producer.abort_transaction if number % 2 else producer.commit_transaction)()


def test_a_flow_from_an_older_source_does_all_that_others_do(
    old: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    flow = flow_between(
        old,
        target_kafka,
        name,
        topics=(name,),
        groups=(name,),
        offset_lag_max=50,
        sync_group_offsets=True,
        sync_group_offsets_interval_seconds=0.0,
    )
    copy = f"{flow.name.source}.{name}"
    old.create_topic(name, 2)
    produce(old, name, 0, mixed_records(300, seed=1))
    write_transactions(old, name)
    commit(old, name, TopicPartition(name, 0, 200), TopicPartition(name, 1, 12))
    prepare(flow)
    record = run(flow, "first")
    assert (record.state, record.records, record.failed_partitions) == (RunState.DONE, 325, ()), record
    assert [len(placed) for placed in read_all(target_kafka, copy).values()] == [300, 25]

    produce(old, name, 0, mixed_records(50, seed=7))
    assert run(flow, "second").records == 50
    emit_heartbeat(flow)
    synced = sync_checkpoints(flow)
    assert (synced.checkpoints, synced.offset_syncs > 0, synced.group_positions) == (2, True, 2), synced
    ((group,), faults) = GroupReader(flow.target).offsets([name])
    # Before offset 12 lie two transactions, of which one was aborted.
    assert ({place: at.offset for place, at in group.offsets.items()}, faults) == ({(copy, 0): 200, (copy, 1): 5}, [])
    for against in Against:
        partitions = verify_copies(flow, against=against).partitions
        assert {one.verdict for one in partitions} == {Verdict.PROVED}, partitions


def test_groups_have_their_states(old: LocalKafka, name: str) -> None:
    """By which a planned failover sees that their consumers have stopped; the list of groups is without them."""
    old.create_topic(name, 1)
    commit(old, f"{name}-empty", TopicPartition(name, 0, 0))
    consumer = Consumer({"bootstrap.servers": old.bootstrap_servers, "group.id": f"{name}-used", "log_level": 0})
    try:
        consumer.subscribe([name])
        reader = GroupReader(source_settings(old))

        def states() -> dict[str, str]:
            consumer.poll(0)
            groups, faults = reader.groups()
            assert faults == []
            return {group.name.removeprefix(name): group.state for group in groups if group.name.startswith(name)}

        eventually(lambda: states() == {"-empty": "empty", "-used": "stable"}, 60, "states are not as they are")
    finally:
        consumer.close()


def test_groups_fail_over_from_an_older_source_and_not_back(
    old: LocalKafka,
    target_kafka: LocalKafka,
    name: str,
    configuration_file: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flow = flow_between(old, target_kafka, name, topics=(name,), groups=(name,))
    monkeypatch.setenv("SRM_CONFIG", str(configuration_file(properties_of(flow))))
    old.create_topic(name, 1)
    produce(old, name, 0, mixed_records(100, seed=1))
    prepare(flow)
    run(flow, "first")
    commit(old, name, TopicPartition(name, 0, 60))
    arguments = ["--flow", str(flow.name), "--no-last-pass", "--wait", "0", "--group", name]
    assert command(["failover", "--mode", "controlled", *arguments]) == 0, capsys.readouterr()
    ((group,), _) = GroupReader(flow.target).offsets([name])
    assert [at.offset for at in group.offsets.values()] == [60]

    commit(target_kafka, name, TopicPartition(f"{flow.name.source}.{name}", 0, 80))
    capsys.readouterr()
    assert command(["failback", *arguments]) == 3
    assert "a target needs Kafka 2.8 or later, upgrade it" in capsys.readouterr().out
    ((group,), _) = GroupReader(flow.source).offsets([name])
    assert [at.offset for at in group.offsets.values()] == [60]


def test_an_older_target_is_refused_before_anything_changes_there(
    old: LocalKafka, source_kafka: LocalKafka, name: str
) -> None:
    flow = flow_between(source_kafka, old, name)
    source_kafka.create_topic(name, 1)
    with pytest.raises(
        UnsupportedBroker, match=r"cannot be used: a broker takes .*; a target needs Kafka 2\.8 or later"
    ):
        replicate(flow, RunOptions(run_id="refused"), here)
    with pytest.raises(UnsupportedBroker, match="a target needs Kafka"):
        prepare(flow)
    assert not [topic for topic in old.admin().list_topics(timeout=60).topics if flow.name.source in topic]


@pytest.mark.parametrize("library", [by_link, lambda settings: settings], ids=["kafka-python", "librdkafka"])
def test_admin_calls_of_both_libraries(
    old: LocalKafka, name: str, library: Callable[[ClusterSettings], ClusterSettings]
) -> None:
    """Clusters with Kerberos are asked by kafka-python."""
    old.create_topic(name, 3)
    admin = ClusterAdmin(library(source_settings(old)))
    described = admin.describe_topics([name])[name]
    assert (described.partitions, described.topic_id) == (3, NO_TOPIC_ID)

"""Faults planted in the log files of a real broker that is down meanwhile, and found from the target alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from srm_common.domain.flow import FlowSettings, names
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.verification.differences import DifferenceKind
from srm_common.domain.verification.repair_plan import repair_plan
from srm_common.domain.verification.verification import Against, Verdict
from srm_common.errors import LocalKafkaError, UnreachableCluster
from srm_common.testing import BrokerJvm, LocalKafka
from srm_common.testing.planted_faults import FAULTS, flip_bit, plant
from srm_common.usecases.flows.flow_clusters import FlowClusters, clusters_of
from srm_common.usecases.flows.idle_flow import idle_flow
from srm_common.usecases.offsets.edit_source_offsets import Request, edit_source_offsets
from srm_common.usecases.offsets.foreign_records import check_copies
from srm_common.usecases.offsets.sync_checkpoints import sync_checkpoints
from srm_common.usecases.runs.replicate import replicate
from srm_common.usecases.verification.verify_copies import verify_copies
from srm_common.wire.state.plain_records import NewRecord
from srm_common.wire.state.segments import segment_key, segment_partition
from tests.kafka.flows import flow_between, prepare, write
from tests.kafka.records import delete_topic, eventually
from tests.slot_worker import here

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def target(broker_jvm: BrokerJvm) -> Iterator[LocalKafka]:
    with LocalKafka(1, name="edited", jvm=broker_jvm) as kafka:
        yield kafka


@dataclass(frozen=True)
class Copied:
    """A flow of one topic with one partition, three chunks of two batches."""

    flow: FlowSettings
    target: LocalKafka

    @property
    def copy(self) -> str:
        return f"{self.flow.name.source}.{self.flow.topics[0].removesuffix('.*')}"

    def edit(self, fault: str) -> None:
        """Change the copy's log; the broker is down. A log that is cut in the middle of a transaction has no marker of
        it, so that no consumer sees what is left."""
        plant(self.target, self.copy, FAULTS[fault], batch=3 if fault == "truncated log" else 2)

    def kinds(self) -> set[DifferenceKind]:
        """What a verification finds."""
        verification = verify_copies(self.flow)
        (one,) = verification.partitions
        assert one.fault is None
        assert (one.verdict is Verdict.DIFFERENT) == bool(one.findings.counts) == (not verification.clean)
        return set(one.findings.counts)


def copied_flow(source: LocalKafka, target: LocalKafka, name: str) -> Copied:
    flow = flow_between(source, target, name)
    source.create_topic(name)
    prepare(flow)
    noise = Random(name)
    for number in range(3):
        for _ in range(2):
            # No codec makes them so small that the flow merges batches.
            write(source, name, [noise.randbytes(800) for _ in range(10)], compression_type="lz4")
        record = replicate(flow, RunOptions(f"r{number}"), here)
        assert not record.error
    return Copied(flow, target)


@pytest.fixture
def copied(source_kafka: LocalKafka, target: LocalKafka, name: str) -> Copied:
    return copied_flow(source_kafka, target, name)


#: What is found of each fault, against the map.
PLANTED: dict[str, set[DifferenceKind]] = {
    "nothing": set(),
    "changed byte": {DifferenceKind.CHANGED},
    "wrong timestamp": {DifferenceKind.CHANGED},
    "header lost": {DifferenceKind.CHANGED},
    "key lost": {DifferenceKind.CHANGED},
    "dropped batch": {DifferenceKind.LOST},
    "doubled batch": {DifferenceKind.DOUBLED},
    "swapped batches": {DifferenceKind.REORDERED},
    "truncated log": {DifferenceKind.TRUNCATED, DifferenceKind.LOST},
    "compaction in the middle": {DifferenceKind.COMPACTED},
    "flipped bit": {DifferenceKind.CORRUPT},
}


#: Those after which the plan has an offset from which the copy can be copied again, and the map stays.
MENDED = sorted(FAULTS.keys() - {"truncated log", "doubled batch"})


@dataclass(frozen=True)
class Edited:
    """Copies by their faults: to be looked at, and to be mended."""

    found: dict[str, Copied]
    mended: dict[str, Copied]


@pytest.fixture(scope="module")
def edited(source_kafka: LocalKafka, target: LocalKafka) -> Edited:
    """The broker is down once for all of them."""
    letters = map(chr, range(ord("a"), ord("z") + 1))
    copieds, mended = (
        {fault: copied_flow(source_kafka, target, f"planted-{next(letters)}") for fault in faults}
        for faults in (PLANTED, MENDED)
    )
    target.stop()
    for copies in (copieds, mended):
        for fault in copies.keys() & FAULTS:
            copies[fault].edit(fault)
    target.start()
    flip_bit(target, copieds["flipped bit"].copy)
    with clusters_of(copieds["nothing"].flow) as clusters:
        eventually(lambda: _is_up(clusters), 60, "its coordinators are not there")
    return Edited(copieds, mended)


@pytest.mark.parametrize("fault", PLANTED)
def test_a_fault_in_the_files_of_a_broker_is_found(edited: Edited, fault: str) -> None:
    copied, kinds = edited.found[fault], PLANTED[fault]
    assert copied.kinds() == kinds
    (one,) = verify_copies(copied.flow, against=Against.SOURCE).partitions
    assert one.verdict is (Verdict.DIFFERENT if kinds else Verdict.PROVED), one


@pytest.mark.parametrize(
    ("settings", "written"),
    [
        ({}, {}),
        ({"message.timestamp.type": "LogAppendTime"}, {}),
        ({"compression.type": "zstd"}, {"compression_type": "lz4"}),
        ({}, {"transactional_id": "writer"}),
    ],
    ids=["plain", "append-time", "zstd", "transactions"],
)
def test_a_source_is_compared_with_its_copy_however_it_is_written(
    source_kafka: LocalKafka, target: LocalKafka, name: str, settings: dict[str, str], written: dict[str, str]
) -> None:
    flow = flow_between(source_kafka, target, name)
    source_kafka.create_topic(name, config=settings)
    prepare(flow)
    for number in range(3):
        producer = Producer(
            {"bootstrap.servers": source_kafka.bootstrap_servers}
            | {key.replace("_", "."): value + name * (key == "transactional_id") for key, value in written.items()}
        )
        if written.get("transactional_id"):
            producer.init_transactions(60)
        for committed in (True, False, True):
            if written.get("transactional_id"):
                producer.begin_transaction()
            for key in range(50):
                producer.produce(name, b"%d %d" % (number, key) * 20, b"%d" % key, headers=[("h", b"v")])
            producer.flush(60)
            if written.get("transactional_id"):
                (producer.commit_transaction if committed else producer.abort_transaction)(60)
        record = replicate(flow, RunOptions(f"r{number}"), here)
        assert not record.error
    (one,) = verify_copies(flow, against=Against.SOURCE).partitions
    records = 300 if written.get("transactional_id") else 450
    assert (one.verdict, one.findings.proved, one.fault) == (Verdict.PROVED, records, None), one


def test_records_of_another_writer_are_found(copied: Copied) -> None:
    write(copied.target, copied.copy, [b"not ours"])
    assert copied.kinds() == {DifferenceKind.FOREIGN}


def again(copied: Copied, offset: int) -> None:
    """Copy everything from ``offset`` on again, and have the map drop what it does not need for translations."""
    place = TopicPartition(copied.flow.topics[0].removesuffix(".*"), 0)
    (edit,) = edit_source_offsets(copied.flow, Request("set", {place: offset}))
    assert not edit.problem
    record = replicate(copied.flow, RunOptions("again"), here)
    assert not record.error
    sync_checkpoints(copied.flow, at_once=True)


def test_what_was_copied_again_raises_no_alarm_and_what_others_write_does(copied: Copied) -> None:
    again(copied, 20)
    again(copied, 20)
    (one,) = verify_copies(copied.flow).partitions
    assert (one.findings.counts, one.findings.proved, one.findings.not_proved) == ({}, 60, {"copied_again": 80})
    assert check_copies(copied.flow).found == ()
    (one,) = verify_copies(copied.flow, against=Against.SOURCE).partitions
    assert (one.findings.counts, one.findings.not_proved) == ({}, {"copied_again": 40})
    write(copied.target, copied.copy, [b"not ours"])
    again(copied, 20)
    assert copied.kinds() == {DifferenceKind.FOREIGN}
    assert len(check_copies(copied.flow).found) == 1


def _is_up(clusters: FlowClusters) -> bool:
    """Whether leaders and coordinators of a cluster that was just started answer."""
    try:
        with idle_flow(clusters, "nothing was changed"):
            return True
    except UnreachableCluster:
        return False


def test_each_fault_of_the_kit_is_found() -> None:
    assert PLANTED.keys() - FAULTS.keys() == {"nothing", "flipped bit"}
    assert FAULTS.keys() <= PLANTED.keys()


def test_faults_are_planted_in_stopped_brokers_alone(target: LocalKafka) -> None:
    with pytest.raises(LocalKafkaError, match="node 1 of edited runs: stop it before"):
        plant(target, "any", FAULTS["dropped batch"])


@pytest.mark.parametrize("fault", MENDED)
def test_a_repair_that_is_proposed_ends_the_alarm(edited: Edited, fault: str) -> None:
    copied = edited.mended[fault]
    for _ in range(2):
        (step, *_) = repair_plan(str(copied.flow.name), verify_copies(copied.flow).partitions)
        assert step.first is not None
        again(copied, step.first)
        if copied.kinds() == set():
            break
    (one,) = verify_copies(copied.flow).partitions
    assert (one.findings.counts, one.verdict) == ({}, Verdict.PARTLY)


def test_a_lost_record_of_the_map_is_told(copied: Copied) -> None:
    """Deleted as the log cleaner would: by a tombstone."""
    topic = names.segments_topic(copied.flow.name.source)
    with clusters_of(copied.flow) as clusters:
        partitions = clusters.target.reader.partitions(topic)
        name = copied.flow.topics[0].removesuffix(".*")
        home, key = segment_partition(name, 0, partitions), segment_key(name, 0, 20)
        clusters.target.writer().write("drop a segment", [NewRecord(topic, home, key, None)])
    (one,) = verify_copies(copied.flow).partitions
    (difference,) = one.findings.differences
    assert (difference.kind, difference.upstream_first, difference.upstream_last) == (DifferenceKind.UNMAPPED, 20, 39)


def test_a_copy_that_was_created_again_or_deleted_is_found(copied: Copied) -> None:
    delete_topic(copied.target, copied.copy)
    assert copied.kinds() == {DifferenceKind.DELETED}
    copied.target.create_topic(copied.copy)
    assert copied.kinds() == {DifferenceKind.RECREATED}


def test_batches_that_the_brokers_compress_again_raise_no_alarm(
    copied: Copied, source_kafka: LocalKafka, name: str
) -> None:
    resource = ConfigResource(ResourceType.TOPIC, copied.copy)
    resource.add_incremental_config(
        ConfigEntry("compression.type", "zstd", incremental_operation=AlterConfigOpType.SET)
    )
    copied.target.admin().incremental_alter_configs([resource])[resource].result(60)

    def compressed() -> bool:
        (future,) = copied.target.admin().describe_configs([resource]).values()
        return bool(future.result(60)["compression.type"].value == "zstd")

    eventually(compressed, 60, "the topic is not compressed")
    write(source_kafka, name, [b"later %d " % n * 100 for n in range(20)])
    replicate(copied.flow, RunOptions("later"), here)
    verified = verify_copies(copied.flow).partitions[0]
    assert (verified.findings.counts, verified.findings.proved) == ({}, 60)
    assert verified.findings.not_proved == {"recompressed": 20}

"""Faults planted in the log files of a real broker that is down meanwhile, and found from the target alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from srm_common.domain.flow import FlowSettings, names
from srm_common.domain.offsets.differences import DifferenceKind
from srm_common.domain.offsets.repair_plan import repair_plan
from srm_common.domain.offsets.verification import Against, Verdict
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import UnreachableCluster
from srm_common.replication.slots.slot import copy_slot
from srm_common.testing import LocalKafka
from srm_common.testing.fake_cluster.records import Record, batch_of, records_of, stored
from srm_common.usecases.flows.flow_clusters import FlowClusters, clusters_of
from srm_common.usecases.flows.idle_flow import idle_flow
from srm_common.usecases.offsets.edit_source_offsets import Request, edit_source_offsets
from srm_common.usecases.offsets.foreign_records import check_copies
from srm_common.usecases.offsets.sync_checkpoints import sync_checkpoints
from srm_common.usecases.offsets.verify_copies import verify_copies
from srm_common.usecases.runs.replicate import replicate
from srm_common.wire.batch import CONTROL, SourceBatch, split
from srm_common.wire.plain_records import NewRecord
from srm_common.wire.segments import segment_key, segment_partition
from tests.kafka.flows import flow_between, prepare, write
from tests.kafka.records import delete_topic, eventually, log_files

pytestmark = pytest.mark.kafka

Batches = list[SourceBatch]
Plant = Callable[[Batches], Batches]


@pytest.fixture(scope="module")
def target() -> Iterator[LocalKafka]:
    with LocalKafka(1, name="edited") as kafka:
        yield kafka


def moved(batch: SourceBatch, offset: int) -> SourceBatch:
    """The batch at another offset; no checksum covers that."""
    return stored(bytes(batch.data), offset, batch.header.leader_epoch).source()


def rewritten(change: Callable[[Record], Record]) -> Plant:
    """The third batch as if other records had been produced."""

    def plant(found: Batches) -> Batches:
        at = data(found)[2]
        header = found[at].header
        records = [change(one) for one in records_of(stored(bytes(found[at].data), header.base_offset, 0))]
        found[at] = stored(batch_of(records, like=header), header.base_offset, header.leader_epoch).source()
        return found

    return plant


def data(found: Batches) -> list[int]:
    """The indexes of batches with records."""
    return [number for number, one in enumerate(found) if not one.header.attributes & CONTROL]


def dropped(found: Batches) -> Batches:
    del found[data(found)[2]]
    return found


def swapped(found: Batches) -> Batches:
    first, second, *_ = data(found)
    one, other = found[first], found[second]
    found[first] = moved(other, one.header.base_offset)
    found[second] = moved(one, one.header.base_offset + other.header.record_count)
    return found


def truncated(found: Batches) -> Batches:
    return found[: data(found)[3]]


def thinned(found: Batches) -> Batches:
    """What the log cleaner leaves of a batch."""
    at = data(found)[2]
    header = found[at].header
    left = records_of(stored(bytes(found[at].data), header.base_offset, 0))[::2]
    found[at] = stored(batch_of(left, like=header), header.base_offset, header.leader_epoch).source()
    return found


@dataclass(frozen=True)
class Copied:
    """A flow of one topic with one partition, three chunks of two batches."""

    flow: FlowSettings
    target: LocalKafka

    @property
    def copy(self) -> str:
        return f"{self.flow.name.source}.{self.flow.topics[0].removesuffix('.*')}"

    def edit(self, plant: Plant) -> None:
        """Change the copy's log; the broker is down."""
        (path,) = log_files(self.target, self.copy)
        found = plant(list(split(memoryview(path.read_bytes()))))
        path.write_bytes(b"".join(bytes(one.data) for one in found))
        # Made from the log again; what is known of producers is, too.
        for other in path.parent.iterdir():
            if other.suffix in (".index", ".timeindex", ".txnindex", ".snapshot"):
                other.unlink()
        forget_clean_stop(path.parent.parent)

    def kinds(self) -> set[DifferenceKind]:
        """What a verification finds."""
        found = verify_copies(self.flow)
        (one,) = found.partitions
        assert one.fault is None
        assert (one.verdict is Verdict.DIFFERENT) == bool(one.findings.counts) == (not found.clean)
        return set(one.findings.counts)


def forget_clean_stop(folder: Path) -> None:
    """A broker recovers its logs when it starts, from their beginning."""
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (folder / name).unlink(missing_ok=True)


def copied_flow(source: LocalKafka, target: LocalKafka, name: str) -> Copied:
    flow = flow_between(source, target, name)
    source.create_topic(name)
    prepare(flow)
    for number in range(3):
        for batch in range(2):
            write(source, name, [b"%d %d %d " % (number, batch, n) * 100 for n in range(10)])
        record = replicate(flow, RunOptions(f"r{number}"), lambda job, tasks: [copy_slot(job, task) for task in tasks])
        assert not record.error
    return Copied(flow, target)


@pytest.fixture
def copied(source_kafka: LocalKafka, target: LocalKafka, name: str) -> Copied:
    return copied_flow(source_kafka, target, name)


PLANTED = {
    "nothing": (lambda found: found, set()),
    "changed byte": (rewritten(lambda one: one._replace(value=b"other")), {DifferenceKind.CHANGED}),
    "wrong timestamp": (
        rewritten(lambda one: one._replace(timestamp_ms=one.timestamp_ms + 1)),
        {DifferenceKind.CHANGED},
    ),
    "header lost": (rewritten(lambda one: one._replace(headers=())), {DifferenceKind.CHANGED}),
    "key lost": (rewritten(lambda one: one._replace(key=None)), {DifferenceKind.CHANGED}),
    "dropped batch": (dropped, {DifferenceKind.LOST}),
    "swapped batches": (swapped, {DifferenceKind.REORDERED}),
    # The marker is gone, so that no consumer sees what is left of its transaction.
    "truncated log": (truncated, {DifferenceKind.TRUNCATED, DifferenceKind.LOST}),
    "compaction in the middle": (thinned, {DifferenceKind.COMPACTED}),
}


@pytest.fixture(scope="module")
def edited(source_kafka: LocalKafka, target: LocalKafka) -> dict[str, Copied]:
    """By fault, a copy that has it; the broker is down once for all of them."""
    found = {
        fault: copied_flow(source_kafka, target, f"planted-{chr(ord('a') + number)}")
        for number, fault in enumerate(PLANTED)
    }
    target.stop()
    for fault, (plant, _) in PLANTED.items():
        found[fault].edit(plant)
    target.start()
    return found


@pytest.mark.parametrize("fault", PLANTED)
def test_a_fault_in_the_files_of_a_broker_is_found(edited: dict[str, Copied], fault: str) -> None:
    copied, (_, kinds) = edited[fault], PLANTED[fault]
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
        record = replicate(flow, RunOptions(f"r{number}"), lambda job, tasks: [copy_slot(job, task) for task in tasks])
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
    record = replicate(copied.flow, RunOptions("again"), lambda job, tasks: [copy_slot(job, task) for task in tasks])
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


@pytest.mark.parametrize("fault", sorted(PLANTED.keys() - {"nothing", "truncated log"}))
def test_a_repair_that_is_proposed_ends_the_alarm(copied: Copied, fault: str) -> None:
    copied.edit(PLANTED[fault][0])
    with clusters_of(copied.flow) as clusters:
        eventually(lambda: _is_up(clusters), 60, "its coordinators are not there")
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
    (found,) = one.findings.differences
    assert (found.kind, found.upstream_first, found.upstream_last) == (DifferenceKind.UNMAPPED, 20, 39)


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
        (found,) = copied.target.admin().describe_configs([resource]).values()
        return bool(found.result(60)["compression.type"].value == "zstd")

    eventually(compressed, 60, "the topic is not compressed")
    write(source_kafka, name, [b"later %d " % n * 100 for n in range(20)])
    replicate(copied.flow, RunOptions("later"), lambda job, tasks: [copy_slot(job, task) for task in tasks])
    found = verify_copies(copied.flow).partitions[0]
    assert (found.findings.counts, found.findings.proved) == ({}, 60)
    assert found.findings.not_proved == {"recompressed": 20}

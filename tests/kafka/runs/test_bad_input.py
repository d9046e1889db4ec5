"""What cannot be copied gives one clear sentence for its own partition, and the others go on."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.runs.copying import CopyRange, SlotTask
from srm_common.errors import AccessDenied
from srm_common.replication.driver.ownership import Ownership
from srm_common.replication.slots import slot
from srm_common.replication.slots.slot import copy_slot
from srm_common.testing import BrokerJvm, LocalKafka
from srm_common.testing.brokers.formatting import random_id
from srm_common.wire.batches.batch import HEADER_SIZE
from tests.kafka.bit_flips import BitFlips
from tests.kafka.engine import Background, Engine, Outcome, wait_for_copies
from tests.kafka.records import delete_topic, eventually, log_batches, mixed_records, produce, read_all

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def engine(source_kafka: LocalKafka, target_kafka: LocalKafka) -> Engine:
    return Engine(source_kafka, target_kafka, "badinput", retry_timeout_seconds=4.0)


def sentence(text: str | None) -> str:
    """Asserts that an error is one line for a person: no trace, no class name, no empty end."""
    assert text
    print(text)
    assert "\n" not in text
    assert "Traceback" not in text
    assert "Error(" not in text
    return text


# ---- records that cannot go on


def test_a_batch_that_the_target_refuses(engine: Engine, name: str) -> None:
    # By default a topic takes no records that are more than an hour ahead of its broker's clock.
    engine.create(name, 2, source={"message.timestamp.after.max.ms": str(1 << 62)})
    ahead = [replace(record, timestamp_ms=record.timestamp_ms + 4 * 3_600_000) for record in mixed_records(50)]
    for partition in range(2):
        produce(engine.source, name, partition, mixed_records(50, 1, 500))
    produce(engine.source, name, 0, ahead)
    produce(engine.source, name, 1, mixed_records(50, 2, 500))
    outcome = engine.copy(name)
    hurt, whole = outcome.ranges[name, 0], outcome.ranges[name, 1]
    assert (whole.position, whole.error) == (100, None)
    assert (hurt.position, hurt.error_kind) == (50, "PartitionError")
    place = f"partition {engine.copy_of(name)}-0 at target"
    assert sentence(hurt.error).startswith(f"{place}: INVALID_TIMESTAMP (32), ")
    assert engine.check(name, complete=False) == 150


def test_a_topic_that_is_created_again_is_not_taken_for_the_one_that_was_copied(
    engine: Engine, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once, so that there is no moment without a topic of this name."""
    monkeypatch.setattr(slot, "_STOP_SECONDS", 0.0)
    engine.create(name)
    produce(engine.source, name, 0, mixed_records(20))
    run = Background(engine, name, tail_until=time.time() + 3600)
    wait_for_copies(engine, name, 0, 20)
    delete_topic(engine.source, name)
    engine.source.create_topic(name)
    produce(engine.source, name, 0, mixed_records(50, seed=1))
    (found,) = run.result().slots[0].ranges
    assert (found.position, found.copied.records, found.error_kind) == (20, 20, "PartitionError")
    assert "was deleted and created again" in sentence(found.error)


# ---- rights


LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


class Guarded:
    """A cluster that asks who you are and what you may; ``copier`` may nothing at first."""

    def __init__(self, kafka: LocalKafka) -> None:
        self.kafka = kafka
        self.settings = ClusterSettings(
            "guarded",
            kafka.bootstrap_servers,
            {
                "bootstrap.servers": kafka.bootstrap_servers,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "copier",
                "sasl.password": "pw",
            },
            {
                "bootstrap_servers": kafka.bootstrap_servers.split(","),
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": "PLAIN",
                "sasl_plain_username": "copier",
                "sasl_plain_password": "pw",
            },
        )

    def allow(self, kind: ResourceType, name: str, *operations: AclOperation, deny: bool = False) -> None:
        permission = AclPermissionType.DENY if deny else AclPermissionType.ALLOW
        bindings = [
            AclBinding(kind, name, ResourcePatternType.LITERAL, "User:copier", "*", operation, permission)
            for operation in operations
        ]
        for future in self.kafka.admin().create_acls(bindings).values():
            future.result(60)


@pytest.fixture(scope="module", params=["newest", "older transactions"])
def guarded(broker_jvm: BrokerJvm, request: pytest.FixtureRequest) -> Iterator[Guarded]:
    with LocalKafka(
        name="guarded",
        features={} if request.param == "newest" else {"transaction.version": "0"},
        client_protocol="SASL_PLAINTEXT",
        settings={
            "listener.name.client.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.client.plain.sasl.jaas.config": f'{LOGIN} required user_copier="pw" user_other="pw";',
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        },
        jvm=broker_jvm,
    ) as kafka:
        yield Guarded(kafka)


def test_no_right_to_the_transactional_ids(source_kafka: LocalKafka, guarded: Guarded, name: str) -> None:
    engine = Engine(source_kafka, guarded.kafka, name)
    flow = replace(engine.flow, target=guarded.settings)
    with pytest.raises(AccessDenied) as caught:
        Ownership.take(flow, 1, 1, timeout_seconds=60)
    text = sentence(str(caught.value))
    assert "cluster guarded does not allow the transactional id" in text
    assert "TRANSACTIONAL_ID_AUTHORIZATION_FAILED" in text
    assert "needs the permission Write on transactional id" in text


ALL = (AclOperation.DESCRIBE, AclOperation.READ, AclOperation.WRITE)


class GuardedFlow:
    """A flow into the guarded cluster with every right but those on its topics."""

    def __init__(self, source: LocalKafka, guarded: Guarded, name: str) -> None:
        self.guarded = guarded
        self.engine = engine = Engine(source, guarded.kafka, name, retry_timeout_seconds=4.0)
        self.flow = replace(engine.flow, target=guarded.settings)
        for kind in (f"{engine.flow.name.source}-mm2-MirrorSourceConnector-0", f"srm.{engine.flow.name}.driver"):
            guarded.allow(ResourceType.TRANSACTIONAL_ID, kind, AclOperation.WRITE, AclOperation.DESCRIBE)
        self.names = [f"{name}-{n}" for n in range(2)]
        for topic in self.names:
            engine.create(topic)
            produce(source, topic, 0, mixed_records(50))
        guarded.allow(ResourceType.TOPIC, engine.copy_of(self.names[0]), *ALL)

    def allow_state(self, *operations: AclOperation) -> None:
        for topic in (self.engine.state.offsets_topic, self.engine.state.segments_topic):
            self.guarded.allow(ResourceType.TOPIC, topic, *operations)

    def copy(self) -> Outcome:
        ranges = tuple(CopyRange(topic, self.engine.copy_of(topic), 0, 0, 50) for topic in self.names)
        with Ownership.take(self.flow, 1, 1) as owner:
            job = replace(self.engine.job(), target=self.guarded.settings)
            return Outcome([copy_slot(job, SlotTask(0, owner.identities[0], ranges))])


@pytest.fixture
def guarded_flow(source_kafka: LocalKafka, guarded: Guarded, name: str) -> GuardedFlow:
    return GuardedFlow(source_kafka, guarded, name)


@pytest.mark.parametrize("seen", [True, False], ids=["describe allowed", "invisible"])
def test_no_right_to_write_one_of_the_topics(guarded_flow: GuardedFlow, seen: bool) -> None:
    guarded_flow.allow_state(*ALL)
    allowed, denied = guarded_flow.names
    copy = guarded_flow.engine.copy_of(denied)
    if seen:
        guarded_flow.guarded.allow(ResourceType.TOPIC, copy, AclOperation.DESCRIBE)
    outcome = guarded_flow.copy()
    assert outcome.ranges[allowed, 0].position == 50
    assert outcome.ranges[allowed, 0].error is None
    broken = outcome.ranges[denied, 0]
    assert (broken.position, broken.error_kind) == (0, "AccessDenied")
    answers = [f"writing is not allowed; User:copier needs the permission Write on topic '{copy}'"]
    if not seen:
        # What the coordinator says comes first where partitions are added to transactions one by one.
        answers.append(f"the topic may not be seen; User:copier needs the permission Describe on topic '{copy}'")
    assert sentence(broken.error).startswith(tuple(f"partition {copy}-0 at guarded: {answer}" for answer in answers))
    assert read_all(guarded_flow.guarded.kafka, copy)[0] == []


def test_no_right_to_write_the_state(guarded_flow: GuardedFlow) -> None:
    guarded_flow.allow_state(AclOperation.DESCRIBE, AclOperation.READ)
    guarded_flow.guarded.allow(ResourceType.TOPIC, guarded_flow.engine.copy_of(guarded_flow.names[1]), *ALL)
    outcome = guarded_flow.copy()
    for result in outcome.ranges.values():
        assert (result.position, result.error_kind) == (0, "AccessDenied")
        text = sentence(result.error)
        assert "at guarded: writing is not allowed; User:copier needs the permission Write on topic 'mm2-offset" in text
    assert read_all(guarded_flow.guarded.kafka, guarded_flow.engine.copy_of(guarded_flow.names[0]))[0] == []


def test_no_right_to_read_one_of_the_topics(target_kafka: LocalKafka, guarded: Guarded, name: str) -> None:
    engine = Engine(guarded.kafka, target_kafka, name, retry_timeout_seconds=4.0)
    topics = [f"{name}-{what}" for what in ("allowed", "denied", "invisible")]
    for topic in topics:
        engine.create(topic)
        produce(guarded.kafka, topic, 0, mixed_records(50))
    guarded.allow(ResourceType.TOPIC, topics[0], AclOperation.READ, AclOperation.DESCRIBE)
    guarded.allow(ResourceType.TOPIC, topics[1], AclOperation.DESCRIBE)
    job = replace(engine.job(), source=guarded.settings)
    with Ownership.take(engine.flow, 1, 1) as owner:
        ranges = tuple(CopyRange(topic, engine.copy_of(topic), 0, 0, 50) for topic in topics)
        result = copy_slot(job, SlotTask(0, owner.identities[0], ranges))
    good, *bad = result.ranges
    assert (good.position, good.error) == (50, None)
    assert [(range_result.position, range_result.error_kind) for range_result in bad] == [(0, "AccessDenied")] * 2
    refusals = [
        f"partition {topics[1]}-0: reading is not allowed at guarded; "
        f"User:copier needs the permission Read on topic '{topics[1]}'",
        f"partition {topics[2]}-0 at guarded: the topic may not be seen; "
        f"User:copier needs the permission Describe on topic '{topics[2]}'",
    ]
    for one, refusal in zip(bad, refusals, strict=True):
        assert sentence(one.error).startswith(refusal)


# ---- damage on disk


def test_batches_damaged_on_the_sources_disk(target_kafka: LocalKafka, name: str) -> None:
    """In a record, and in the header: there the control bit, so that the batch would be dropped."""
    kinds = {f"{name}-{where}-{codec}": (where, codec) for where in ("record", "header") for codec in ("none", "lz4")}
    with LocalKafka(name="breakable") as breakable:
        engine = Engine(breakable, target_kafka, name, retry_timeout_seconds=4.0)
        broken, original = {}, {}
        for topic, (_, codec) in kinds.items():
            engine.create(topic, 2)
            for partition in range(2):
                produce(
                    breakable, topic, partition, mixed_records(1000), compression_type=codec, batch_num_messages=100
                )
            original[topic] = read_all(breakable, topic)
        breakable.stop()
        for topic, (where, _) in kinds.items():
            batches = log_batches(breakable, topic)
            assert len(batches) >= 10
            broken[topic] = batches[4].header.base_offset
            at = sum(len(batch.data) for batch in batches[:4]) + (HEADER_SIZE + 20 if where == "record" else 22)
            (path,) = breakable.segment_files(topic)
            with path.open("r+b") as file:
                file.seek(at)
                byte = file.read(1)[0]
                file.seek(at)
                file.write(bytes([byte ^ 0x20]))
        breakable.start()
        for _ in range(2):  # the second run stops at the same places
            outcome = engine.copy(*kinds)
            for topic in kinds:
                hurt, whole = outcome.ranges[topic, 0], outcome.ranges[topic, 1]
                assert (whole.position, whole.error) == (1000, None)
                assert (hurt.position, hurt.error_kind) == (broken[topic], "CorruptBatch")
                text = sentence(hurt.error)
                assert f"partition {topic}-0: batch at offset {broken[topic]} fails its checksum" in text
    for topic in kinds:
        copied = read_all(target_kafka, engine.copy_of(topic))
        assert len(copied[1]) == 1000
        assert [placed.seen for placed in copied[1]] == [placed.seen for placed in original[topic][1]]
        assert [placed.seen for placed in copied[0]] == [placed.seen for placed in original[topic][0][: broken[topic]]]


# ---- damage in memory


def test_bits_of_every_batch_flip_before_they_are_sent(
    engine: Engine, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.create(name, 2)
    for partition in range(2):
        produce(engine.source, name, partition, mixed_records(1000, seed=partition), batch_num_messages=100)
    with monkeypatch.context() as patch:
        flips = BitFlips(patch, lambda batch: batch.partition == (engine.copy_of(name), 0))
        outcome = engine.copy(name, retry_timeout_seconds=60.0)
    hurt, whole = outcome.ranges[name, 0], outcome.ranges[name, 1]
    assert (whole.position, whole.error) == (1000, None)
    assert (hurt.position, hurt.error_kind) == (0, "CorruptBatch")
    assert f"partition {name}-0: the batch at offset 0 was read and verified twice" in sentence(hurt.error)
    assert max(Counter(flips.sent).values()) == 2, "a batch is read again once, not until a time-out"
    engine.copy(name)
    assert engine.check(name) == 2000


@pytest.mark.parametrize("topic", ["offsets", "segments"])
def test_a_bit_of_the_flows_own_records_flips(
    engine: Engine, name: str, monkeypatch: pytest.MonkeyPatch, topic: str
) -> None:
    engine.create(name)
    produce(engine.source, name, 0, mixed_records(100))
    written = engine.state.offsets_topic if topic == "offsets" else engine.state.segments_topic
    with monkeypatch.context() as patch:
        flips = BitFlips(patch, lambda batch: batch.partition.topic == written)
        outcome = engine.copy(name, retry_timeout_seconds=60.0)
    hurt = outcome.ranges[name, 0]
    assert (hurt.position, hurt.error_kind) == (0, "CorruptBatch")
    assert f"partition {name}-0: the chunk from offset 0 on was written twice" in sentence(hurt.error)
    assert len(flips.sent) == 2, "a chunk is written again once, not until a time-out"
    engine.copy(name)
    assert engine.check(name) == 100


# ---- damage of a disk


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for next to nothing."""
    place = tmp_path / "tiny"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1500k", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a small file system cannot be mounted here (needs root)")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_disk_of_the_target_is_full(source_kafka: LocalKafka, tiny_disk: Path, tmp_path: Path, name: str) -> None:
    directory = tmp_path / "kafka"
    topics = [f"{name}-{n}" for n in range(2)]
    # The state topics and one copy first, on a disk with room. Then a second disk comes; the next topic goes there.
    with LocalKafka(name="full", directory=directory) as kafka:
        engine = Engine(source_kafka, kafka, name)
        Ownership.take(engine.flow, 1, 1).release()
        engine.create(topics[0])
        kafka.stop()
    data = directory / "node-1" / "data"
    properties = dict(line.split("=", 1) for line in (data / "meta.properties").read_text().split() if "=" in line)
    properties["directory.id"] = random_id()
    (tiny_disk / "meta.properties").write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    with LocalKafka(name="full", directory=directory, settings={"log.dirs": f"{data},{tiny_disk}"}) as kafka:
        engine = Engine(source_kafka, kafka, name, retry_timeout_seconds=4.0)
        engine.create(topics[1])
        eventually(lambda: bool(list(tiny_disk.glob(f"{engine.copy_of(topics[1])}-0"))), 300, "it is on the other disk")
        for topic in topics:
            produce(source_kafka, topic, 0, mixed_records(3000, 4, 2000), batch_size=50_000)
        outcome = engine.copy(*topics, fetch_partition_bytes=200_000, chunk_bytes=300_000)
        assert outcome.ranges[topics[0], 0].position == 3000
        assert engine.check(topics[0]) == 3000
        broken = outcome.ranges[topics[1], 0]
        assert broken.position < 3000
        text = sentence(broken.error)
        place = f"partition {engine.copy_of(topics[1])}-0 at target"
        assert text.startswith(f"{place} has no leader; gave up after retrying; first error: {place}: ")
        assert "KAFKA_STORAGE_ERROR (56)" in text

"""What cannot be copied gives one clear sentence for its own partition, and the others go on."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.runs.copying import CopyRange, SlotTask
from srm_common.errors import AccessDenied, UnreachableCluster
from srm_common.kafka.transactions.producer import Producer
from srm_common.replication.driver.ownership import Ownership
from srm_common.replication.slots import chunk
from srm_common.replication.slots.slot import copy_slot
from srm_common.testing import LocalKafka, ReservedPort
from srm_common.testing.formatting import random_id
from srm_common.wire.batch import HEADER_SIZE, Checked, stamp
from tests.kafka.engine import Background, Engine, Outcome
from tests.kafka.records import delete_topic, eventually, log_batches, log_files, mixed_records, produce, read_all

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


# ---- unreachable clusters


@pytest.fixture
def nowhere() -> Iterator[str]:
    port = ReservedPort()
    yield port.address
    port.release()


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_slot_cannot_reach_a_cluster(engine: Engine, name: str, nowhere: str, side: str) -> None:
    engine.create(name, 2)
    produce(engine.source, name, 0, mixed_records(10))
    far = ClusterSettings.plaintext("far", nowhere)
    job = engine.job(retry_timeout_seconds=2.0)
    job = replace(job, source=far) if side == "source" else replace(job, target=far)
    ranges = tuple(CopyRange(name, engine.copy_of(name), partition, 0, 10) for partition in range(2))
    with Ownership.take(engine.flow, 1, 1) as owner:
        result = copy_slot(job, SlotTask(0, owner.identities[0], ranges))
    for one in result.ranges:
        assert (one.position, one.error_kind) == (0, "UnreachableCluster")
        assert f"cluster far is not reachable: no broker of {nowhere} answered" in sentence(one.error)


def test_the_driver_cannot_reach_the_target(engine: Engine, nowhere: str) -> None:
    flow = replace(engine.flow, target=ClusterSettings.plaintext("far", nowhere))
    with pytest.raises(UnreachableCluster, match=f"cluster far is not reachable: no broker of {nowhere}"):
        Ownership.take(flow, 1, 1, timeout_seconds=2)


# ---- topics that vanish


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_topic_deleted_during_a_pass(engine: Engine, name: str, side: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gone, stays = f"{name}-gone", f"{name}-stays"
    for topic in (gone, stays):
        engine.create(topic)
        produce(engine.source, topic, 0, mixed_records(4000, 1, 500), batch_size=5000)
    in_its_midst, deleted = threading.Event(), threading.Event()
    commit = Producer.commit

    async def commit_and_stand_still(self: Producer) -> bool:
        done = await commit(self)
        if not deleted.is_set() and engine.committed().get((gone, 0), 0) > 0:
            in_its_midst.set()
            assert deleted.wait(180)
        return done

    monkeypatch.setattr(Producer, "commit", commit_and_stand_still)
    # Small fetches and chunks: there are many commits.
    copy = Background(engine, gone, stays, fetch_partition_bytes=6000, chunk_bytes=20_000)
    try:
        assert in_its_midst.wait(180), "nothing was committed"
        if side == "source":
            delete_topic(engine.source, gone)
        else:
            delete_topic(engine.target, engine.copy_of(gone))
    finally:
        deleted.set()
    outcome = copy.result()
    assert outcome.ranges[stays, 0].position == 4000
    assert engine.check(stays) == 4000
    broken = outcome.ranges[gone, 0]
    assert 0 < broken.position < 4000
    text = sentence(broken.error)
    assert (gone if side == "source" else engine.copy_of(gone)) in text
    assert f"at {engine.flow.name.source if side == 'source' else 'target'}" in text
    assert "does not exist, or was deleted" in text
    assert broken.error_kind == "NoSuchPartition"


def test_a_topic_that_never_was(engine: Engine, name: str) -> None:
    engine.create(name)
    produce(engine.source, name, 0, mixed_records(10))
    missing = f"{name}-missing"
    with Ownership.take(engine.flow, 1, 1) as owner:
        ranges = (
            CopyRange(name, engine.copy_of(name), 0, 0, 10),
            CopyRange(missing, engine.copy_of(missing), 0, 0, 10),
            CopyRange(name, engine.copy_of(name), 7, 0, 10),
        )
        result = copy_slot(engine.job(), SlotTask(0, owner.identities[0], ranges))
    good, *bad = result.ranges
    assert (good.position, good.error) == (10, None)
    for one, place in zip(bad, (f"{missing}-0", f"{name}-7"), strict=True):
        assert (one.position, one.records) == (0, 0)
        assert f"partition {place}" in sentence(one.error)
        assert "does not exist" in str(one.error)
        assert one.error_kind == "NoSuchPartition"


# ---- records that cannot go on


def test_records_deleted_at_the_source(engine: Engine, name: str) -> None:
    engine.create(name, 2)
    for partition in range(2):
        produce(engine.source, name, partition, mixed_records(50))
    place = TopicPartition(name, 0, 30)
    engine.source.admin().delete_records([place])[place].result(60)
    outcome = engine.copy(name)
    hurt, whole = outcome.ranges[name, 0], outcome.ranges[name, 1]
    assert (whole.position, whole.error) == (50, None)
    assert (hurt.position, hurt.records, hurt.error_kind) == (0, 0, "DataLost")
    assert "offset 0 is not in the source log any more; the next run applies on.data.loss" in sentence(hurt.error)


def test_a_batch_that_the_target_refuses(engine: Engine, name: str) -> None:
    # By default a topic takes no records that are more than an hour ahead of its broker's clock.
    engine.create(name, 2, source={"message.timestamp.after.max.ms": str(1 << 62)})
    ahead = [replace(one, timestamp_ms=one.timestamp_ms + 4 * 3_600_000) for one in mixed_records(50)]
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
def guarded(request: pytest.FixtureRequest) -> Iterator[Guarded]:
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
    for one in outcome.ranges.values():
        assert (one.position, one.error_kind) == (0, "AccessDenied")
        text = sentence(one.error)
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
    assert [(one.position, one.error_kind) for one in bad] == [(0, "AccessDenied")] * 2
    refusals = [
        f"partition {topics[1]}-0: reading is not allowed at guarded; "
        f"User:copier needs the permission Read on topic '{topics[1]}'",
        f"partition {topics[2]}-0 at guarded: the topic may not be seen; "
        f"User:copier needs the permission Describe on topic '{topics[2]}'",
    ]
    for one, refusal in zip(bad, refusals, strict=True):
        assert sentence(one.error).startswith(refusal)


# ---- damage on disk


@pytest.fixture(scope="module")
def breakable() -> Iterator[LocalKafka]:
    """A source that may be stopped and damaged."""
    with LocalKafka(name="breakable") as kafka:
        yield kafka


@pytest.mark.parametrize("codec", ["none", "lz4"])
@pytest.mark.parametrize("where", ["record", "header"])
def test_a_batch_damaged_on_the_sources_disk(
    breakable: LocalKafka, target_kafka: LocalKafka, name: str, codec: str, where: str
) -> None:
    engine = Engine(breakable, target_kafka, name, retry_timeout_seconds=4.0)
    engine.create(name, 2)
    for partition in range(2):
        produce(breakable, name, partition, mixed_records(1000), compression_type=codec, batch_num_messages=100)
    batches = log_batches(breakable, name)
    assert len(batches) >= 10
    broken = batches[4]
    at = sum(len(one.data) for one in batches[:4]) + (HEADER_SIZE + 20 if where == "record" else 22)
    original = read_all(breakable, name)
    breakable.stop()
    (path,) = log_files(breakable, name)
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 0x20]))  # in the header: the control bit, so that the batch would be dropped
    breakable.start()
    for _ in range(2):  # the second run stops at the same place
        outcome = engine.copy(name)
        hurt, whole = outcome.ranges[name, 0], outcome.ranges[name, 1]
        assert (whole.position, whole.error) == (1000, None)
        assert (hurt.position, hurt.error_kind) == (broken.header.base_offset, "CorruptBatch")
        text = sentence(hurt.error)
        assert f"partition {name}-0: batch at offset {broken.header.base_offset} fails its checksum" in text
    copied = read_all(target_kafka, engine.copy_of(name))
    assert len(copied[1]) == 1000
    assert [one.seen for one in copied[1]] == [one.seen for one in original[1]]
    assert [one.seen for one in copied[0]] == [one.seen for one in original[0][: broken.header.base_offset]]


# ---- damage in memory


@pytest.mark.parametrize("times", [1, 10])
def test_a_bit_that_flips_between_verification_and_sending(
    source_kafka: LocalKafka, target_kafka: LocalKafka, name: str, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    engine = Engine(source_kafka, target_kafka, name)
    engine.create(name, 2)
    for partition in range(2):
        produce(
            source_kafka,
            name,
            partition,
            mixed_records(1000, seed=partition),
            compression_type="lz4",
            batch_num_messages=100,
        )
    batches = log_batches(source_kafka, name)
    assert len(batches) >= 10
    victim = batches[4].header
    flips = 0

    def stamp_after_a_flip(*header: Any) -> bytes:
        nonlocal flips
        body, checked = header[5], header[-1]
        if isinstance(checked, Checked) and checked.crc == victim.crc:
            if flips < times:
                body[len(body) // 2] ^= 0x20
            flips += 1
        return stamp(*header)

    with monkeypatch.context() as patch:
        patch.setattr(chunk, "stamp", stamp_after_a_flip)
        outcome = engine.copy(name)
    hurt, whole = outcome.ranges[name, 0], outcome.ranges[name, 1]
    assert (whole.position, whole.error) == (1000, None)
    assert flips == 2, "a batch is read again once, not until a time-out"
    if times == 1:
        assert (hurt.position, hurt.error) == (1000, None)
    else:
        assert (hurt.position, hurt.error_kind) == (victim.base_offset, "CorruptBatch")
        assert f"partition {name}-0: the batch at offset {victim.base_offset} was read" in sentence(hurt.error)
        engine.copy(name)
    assert engine.check(name) == 2000


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
        eventually(lambda: bool(list(tiny_disk.glob(f"{engine.copy_of(topics[1])}-0"))), 120, "it is on the other disk")
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

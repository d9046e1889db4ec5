"""Translations of every position against real logs: what would be read on the target is what was unread at the source.

Exactly that, for every kind of batch; where the source cannot be queried, never less.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowSettings, OnDataLoss, names
from srm_common.domain.offsets.offset_syncs import OffsetSync, SyncState
from srm_common.domain.offsets.segments import OffsetSpan, Segment
from srm_common.domain.offsets.translation import Evidence, NotReplicatedYet, Translated, Translation
from srm_common.domain.runs.copying import CopyJob, SlotResult, SlotTask
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunState
from srm_common.kafka.client.librdkafka import LATEST
from srm_common.kafka.state import sync_log
from srm_common.kafka.state.state_reader import StateReader
from srm_common.kafka.state.state_topics import ensure_state_topics
from srm_common.kafka.state.state_writer import NewRecord, StateWriter
from srm_common.replication.slots.slot import copy_slot
from srm_common.testing import LocalKafka
from srm_common.usecases.offsets.exact_translation import ExactTranslation
from srm_common.usecases.runs.replicate import replicate
from srm_common.wire.mm2 import encode_offset_sync, partition_for, source_offset_key, source_offset_value
from srm_common.wire.segments import encode_segment, segment_partition
from tests.kafka.engine import Engine, assert_same
from tests.kafka.flows import Seen, flow_between, prepare
from tests.kafka.records import Placed, delete_topic, eventually, grow, log_batches, produce, put, read_all, writer

pytestmark = pytest.mark.kafka

Logs = Mapping[int, Sequence[Placed]]


@pytest.fixture(scope="module")
def engine(source_kafka: LocalKafka, target_kafka: LocalKafka) -> Engine:
    return Engine(source_kafka, target_kafka, "exact")


def records(count: int, size: int = 20, keys: int = 0, start: int = 0) -> list[Seen]:
    """``keys``: so many different ones."""
    now = int(time.time() * 1000) - 100_000
    dice = random.Random(start)
    return [
        Seen(b"k%d" % (dice.randrange(keys) if keys else n), b"%d:" % n + b"v" * size, (), now + n)
        for n in range(start, start + count)
    ]


def here(job: CopyJob, tasks: Sequence[SlotTask]) -> list[SlotResult]:
    return [copy_slot(job, task) for task in tasks]


def copy(flow: FlowSettings) -> None:
    prepare(flow)
    assert replicate(flow, RunOptions("r"), here).state is RunState.DONE


def wait_for_markers(cluster: ClusterSettings, *topics: str) -> None:
    """Those of transactions may come later than the answers to their commits."""
    with StateReader(cluster) as reader:
        for topic in topics:
            reader.stable_ends(topic, range(reader.partitions(topic)), within_seconds=120)


def logs(kafka: LocalKafka, topic: str) -> dict[int, list[Placed]]:
    """All records of a topic, once no transaction is open."""
    wait_for_markers(ClusterSettings.plaintext("any", kafka.internal_servers), topic)
    return read_all(kafka, topic)


def translated(flow: FlowSettings, topic: str, upstream: Logs) -> dict[tuple[int, int], Translation]:
    """Every position of a topic, by partition and offset: from its start to behind its end."""
    wanted = [
        (topic, partition, position)
        for partition, log in upstream.items()
        for position in range(log[-1].offset + 2 if log else 0)
    ]
    wait_for_markers(flow.target, names.segments_topic(flow.name.source), names.offsets_topic(flow.name.source))
    with ExactTranslation(flow) as exact:
        answers = exact.translate(wanted)
        assert not exact.away
    return {(partition, position): answer for (_, partition, position), answer in answers.items()}


def check_exact(answers: Mapping[tuple[int, int], Translation], upstream: Logs, downstream: Logs) -> Counter[Evidence]:
    """What the translations are told by; each is exact, and none goes backwards."""
    by: Counter[Evidence] = Counter()
    for partition, log in upstream.items():
        assert_same(log, downstream[partition], f"partition {partition}")
        last = 0
        for position in range(log[-1].offset + 2 if log else 0):
            answer = answers[partition, position]
            assert isinstance(answer, Translated), (partition, position, answer)
            unread = sum(one.offset >= position for one in log)
            would_read = sum(one.offset >= answer.offset for one in downstream[partition])
            assert would_read == unread, (partition, position, answer)
            assert answer.exact, (partition, position, answer)
            assert answer.offset >= last, (partition, position, answer)
            last = answer.offset
            by[answer.by] += 1
    return by


def transactions(kafka: LocalKafka, topic: str, partition: int, count: int, seed: int) -> None:
    """Many small transactions of two producers, between records of others; some are aborted."""
    dice = random.Random(seed)
    producers = [writer(kafka, transactional_id=f"{topic}-{seed}-{n}", linger_ms=0) for n in range(2)]
    for producer in producers:
        producer.init_transactions(60)
    bystander = writer(kafka, linger_ms=0)
    for number in range(count):
        producer = producers[number % 2]
        producer.begin_transaction()
        put(producer, topic, partition, records(dice.randrange(1, 5), start=number * 10))
        producer.flush(60)
        if number % 9 == 0:
            put(bystander, topic, partition, records(2, start=number * 10 + 5))
            bystander.flush(60)
        producer.abort_transaction(60) if dice.random() < 0.35 else producer.commit_transaction(60)


def without_source(flow: FlowSettings) -> FlowSettings:
    """The flow while nobody answers at its source."""
    return replace(flow, source=ClusterSettings.plaintext(flow.source.alias, "127.0.0.1:1"), admin_timeout_ms=3000)


COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.ms": "1000",
    "segment.bytes": str(1 << 20),
    "delete.retention.ms": "100",
}


def compact_and_leave_alone(kafka: LocalKafka, topic: str, partitions: int, fewer_than: int) -> None:
    """Wait until each partition has so few records, then keep the cleaner off and wait for the end of its work."""

    def counts() -> list[int]:
        return [
            sum(one.header.record_count for one in log_batches(kafka, topic, partition))
            for partition in range(partitions)
        ]

    eventually(lambda: all(count < fewer_than for count in counts()), 300, "the cleaner did not run")
    entry = ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    kafka.admin().incremental_alter_configs([resource])[resource].result(60)
    seen: list[list[int]] = []

    def quiet() -> bool:
        seen.append(counts())
        time.sleep(0.4)
        return len(seen) >= 8 and all(one == seen[-1] for one in seen[-8:])

    eventually(quiet, 300, "the cleaner did not stop")


def test_every_kind_of_batch(engine: Engine, name: str) -> None:
    source = engine.source
    topics = {kind: f"{name}-{kind}" for kind in ("compacted", "transactional", "tiny", "cut", "append-time")}
    engine.create(topics["compacted"], 2, source=COMPACTED)
    engine.create(topics["transactional"], 1)
    engine.create(topics["tiny"], 1)
    engine.create(topics["cut"], 1, target={"max.message.bytes": "3000"})
    engine.create(topics["append-time"], 1, source={"message.timestamp.type": "LogAppendTime"})
    for partition in (0, 1):
        produce(
            source, topics["compacted"], partition, records(2500, keys=900), batch_num_messages=100,
            compression_type="lz4" if partition else "none",
        )  # fmt: skip
        late = Seen(b"newest", b"1", (), int(time.time() * 1000) + 60_000)
        produce(source, topics["compacted"], partition, [late])  # the active segment is never cleaned
    produce(source, topics["tiny"], 0, records(300), batch_num_messages=1, linger_ms=0)
    produce(source, topics["cut"], 0, records(60, size=400), compression_type="gzip")
    produce(source, topics["append-time"], 0, records(300), compression_type="zstd")
    for part in (1, 2):
        transactions(source, topics["transactional"], 0, 80, part)
        logs(source, topics["transactional"])
        assert not engine.copy(topics["transactional"]).errors
    compact_and_leave_alone(source, topics["compacted"], 2, fewer_than=1500)
    assert not engine.copy(*topics.values(), chunk_bytes=8000).errors

    by: Counter[Evidence] = Counter()
    for topic in topics.values():
        upstream, downstream = logs(source, topic), logs(engine.target, engine.copy_of(topic))
        by += check_exact(translated(engine.flow, topic, upstream), upstream, downstream)
    assert by[Evidence.MAP] > 1000
    assert by[Evidence.SOURCE] > 100

    # While the source is away: floors that say so, and still nothing is skipped.
    away = without_source(engine.flow)
    topic = topics["compacted"]
    upstream, downstream = logs(source, topic), logs(engine.target, engine.copy_of(topic))
    wanted = [(topic, 0, position) for position in range(upstream[0][-1].offset + 1)]
    with ExactTranslation(away) as exact:
        answers = exact.translate(wanted)
        assert "not reachable" in exact.away[engine.flow.source.alias]
    floors = 0
    for (_, _, position), answer in answers.items():
        assert isinstance(answer, Translated)
        unread = sum(one.offset >= position for one in upstream[0])
        would_read = sum(one.offset >= answer.offset for one in downstream[0])
        assert would_read == unread if answer.exact else would_read >= unread
        if not answer.exact:
            floors += 1
            assert "does not say where" in answer.why
            assert "not reachable" in answer.why
    assert floors > 100

    # The source loses the older half: what it still has is counted, and nothing is skipped for it.
    half = upstream[0][len(upstream[0]) // 2].offset
    source.admin().delete_records([TopicPartition(topic, 0, half)])[TopicPartition(topic, 0)].result(60)
    with ExactTranslation(engine.flow) as exact:
        later = exact.translate(wanted)
        assert not exact.away
    for one, answer in later.items():
        assert isinstance(answer, Translated)
        unread = sum(record.offset >= one[2] for record in upstream[0])
        would_read = sum(record.offset >= answer.offset for record in downstream[0])
        assert would_read == unread if answer.exact else would_read >= unread
        before = answers[one]
        assert isinstance(before, Translated)
        assert answer.offset >= before.offset
    assert sum(isinstance(one, Translated) and one.by is Evidence.SOURCE for one in later.values()) > 20


def test_long_state_topics_are_read_piece_by_piece(engine: Engine, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.target.create_topic(name, 3)
    for partition, count in enumerate((50, 0, 23)):
        produce(engine.target, name, partition, records(count))
    with StateReader(engine.flow.target) as reader:
        ends = reader.offsets(name, range(3), LATEST)
        whole = reader.read(name, {0: 4}, ends)
        monkeypatch.setattr(sync_log, "_WINDOW", 8)
        pieces = list(sync_log.records_between(reader, name, {0: 4}, ends))
    assert [one.offset for one in pieces if one.partition == 0] == list(range(4, 50))
    assert sorted(pieces, key=lambda one: (one.partition, one.offset)) == sorted(
        whole, key=lambda one: (one.partition, one.offset)
    )


def test_growth_and_a_topic_that_is_created_again(
    source_kafka: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    flow = flow_between(source_kafka, target_kafka, name, topics=(name,), on_data_loss=OnDataLoss.RESET)
    remote = f"{flow.name.source}.{name}"
    source_kafka.create_topic(name, 1)
    produce(source_kafka, name, 0, records(120))
    copy(flow)
    grow(source_kafka, name, 3)
    for partition in range(3):
        produce(source_kafka, name, partition, records(50, start=200))
    copy(flow)
    upstream, downstream = logs(source_kafka, name), logs(target_kafka, remote)
    assert {partition: len(log) for partition, log in downstream.items()} == {0: 170, 1: 50, 2: 50}
    check_exact(translated(flow, name, upstream), upstream, downstream)

    delete_topic(source_kafka, name)
    source_kafka.create_topic(name, 3)
    for partition in (0, 1):
        produce(source_kafka, name, partition, records(80, start=1000))
    copy(flow)
    upstream, downstream = logs(source_kafka, name), logs(target_kafka, remote)
    ends = {0: 170, 1: 50}  # what the former topic brought stays, in front of the new one's records
    answers = translated(flow, name, {partition: upstream[partition] for partition in ends})
    anew = {partition: downstream[partition][ends[partition] :] for partition in ends}
    check_exact(answers, {partition: upstream[partition] for partition in ends}, anew)
    # Nothing of the new topic is copied of this one yet: whoever stands in it reads what is to come.
    with ExactTranslation(flow) as exact:
        (answer,) = exact.translate([(name, 2, 5)]).values()
    assert isinstance(answer, NotReplicatedYet)
    assert not [one for one in downstream[2] if one.offset >= answer.offset]


def test_records_of_others_in_the_midst_of_a_chunk(engine: Engine, name: str) -> None:
    """The map of a small chunk has no room for where they lie; their producer tells them."""
    engine.create(name)
    remote = engine.copy_of(name)
    thirty = records(30)
    produce(engine.source, name, 0, thirty)
    chunk = writer(engine.target, transactional_id=name, linger_ms=0)
    chunk.init_transactions(60)
    chunk.begin_transaction()
    others = writer(engine.target, linger_ms=0)
    for start in (0, 10, 20):
        put(chunk, remote, 0, thirty[start : start + 10])
        chunk.flush(60)
        if start < 20:
            put(others, remote, 0, [Seen(b"other", b"%d" % start, (), 1)] * 3)
            others.flush(60)
    chunk.commit_transaction(60)
    segment = Segment(name, 0, 0, 30, 0, 36, (OffsetSpan(0, 30, 0, 36, foreign=True),))
    home = segment_partition(name, 0, engine.state.segments_partitions)
    record = NewRecord(engine.state.segments_topic, home, *encode_segment(segment))
    StateWriter(engine.flow.target).write("write a segment", [record])

    upstream = logs(engine.source, name)
    own = [one for one in logs(engine.target, remote)[0] if one.seen.key != b"other"]
    assert check_exact(translated(engine.flow, name, upstream), upstream, {0: own})[Evidence.TARGET] == 29
    # The source has no hole in it, so that the target alone can tell as well.
    with ExactTranslation(without_source(engine.flow)) as exact:
        answers = exact.translate([(name, 0, position) for position in range(31)])
    check_exact({(0, one[2]): answer for one, answer in answers.items()}, upstream, {0: own})


class MirrorMaker:
    """Copies as MirrorMaker 2 without exactly-once does: one by one, with forced syncs and one at each commit."""

    def __init__(self, flow: FlowSettings, source: LocalKafka, target: LocalKafka, topic: str) -> None:
        self.flow, self.source, self.target, self.topic = flow, source, target, topic
        self.syncs: dict[int, int] = {}
        self._state = SyncState()

    def copy(self, start: int, end: int) -> None:
        flow, topic = self.flow, self.topic
        remote = f"{flow.name.source}.{topic}"
        todo = [one for one in logs(self.source, topic)[0] if start <= one.offset < end]
        with StateReader(flow.target) as reader:
            downstream = reader.offsets(remote, [0], LATEST)[0]
            offsets_topic = names.offsets_topic(flow.name.source)
            partitions = reader.partitions(offsets_topic)
        produce(self.target, remote, 0, [one.seen for one in todo])
        written = []
        for number, one in enumerate(todo):
            forced, self._state = self._state.after(one.offset, downstream + number, 20)
            if forced or number == len(todo) - 1:
                self.syncs[one.offset] = downstream + number
                written.append(OffsetSync(topic, 0, one.offset, downstream + number))
        syncs_topic = names.offset_syncs_topic(flow)
        cluster = flow.source if flow.offset_syncs_topic_location == "source" else flow.target
        syncs = [NewRecord(syncs_topic, 0, *encode_offset_sync(one)) for one in written]
        StateWriter(cluster).write("write syncs", syncs)
        key = source_offset_key(flow.name.source, topic, 0)
        value = source_offset_value(todo[-1].offset)
        progress = NewRecord(offsets_topic, partition_for(key, partitions), key, value)
        StateWriter(flow.target).write("commit", [progress])


@pytest.mark.parametrize("location", ["source", "target"])
def test_what_mirror_maker_2_copied(
    source_kafka: LocalKafka, target_kafka: LocalKafka, name: str, location: str
) -> None:
    """Before our copy and between: by its own syncs and its rule, and never a skip."""
    flow = flow_between(source_kafka, target_kafka, name, topics=(name,), offset_syncs_topic_location=location)
    source_kafka.create_topic(name, 1)
    produce(source_kafka, name, 0, records(100))
    prepare(flow)
    ensure_state_topics(flow)
    mirror_maker = MirrorMaker(flow, source_kafka, target_kafka, name)
    mirror_maker.copy(0, 90)
    copy(flow)
    produce(source_kafka, name, 0, records(60, start=500))
    mirror_maker.copy(100, 150)
    found = [translated(flow, name, logs(source_kafka, name))]
    copy(flow)

    upstream, downstream = logs(source_kafka, name), logs(target_kafka, f"{flow.name.source}.{name}")
    assert_same(upstream[0], downstream[0], name)
    found.append(translated(flow, name, upstream))
    for number, answers in enumerate(found):
        last = floors = 0
        for position in range(161):
            answer = answers[0, position]
            if not number and position > 150:
                assert isinstance(answer, NotReplicatedYet)
                assert answer.behind == position - 150
                continue
            assert isinstance(answer, Translated), (position, answer)
            unread = sum(one.offset >= position for one in upstream[0])
            would_read = sum(one.offset >= answer.offset for one in downstream[0])
            assert would_read == unread if answer.exact else would_read >= unread, (position, answer)
            assert answer.offset >= last, (position, answer)
            last = answer.offset
            if not answer.exact:
                floors += 1
                assert position < 90 or 100 <= position < 150
                assert answer.by is Evidence.SYNCS
                assert "MirrorMaker 2" in answer.why
                before = max(upstream for upstream in mirror_maker.syncs if upstream <= position)
                assert answer.offset == mirror_maker.syncs[before] + 1
        assert floors > 100

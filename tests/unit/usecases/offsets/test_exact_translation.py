"""Translations of every position: of topics that grow, are created again, are shared, or came from MirrorMaker 2."""

from __future__ import annotations

import pytest

from srm_common.domain.flow import FlowSettings, OnDataLoss, names
from srm_common.domain.offsets.offset_syncs import OffsetSync, SyncState
from srm_common.domain.offsets.segments import OffsetSpan, Segment
from srm_common.domain.offsets.translation import Evidence, NotReplicatedYet, Translated
from srm_common.kafka.client.links.link import LATEST
from srm_common.kafka.state import sync_log
from srm_common.kafka.state.state_reader import StateReader
from srm_common.kafka.state.state_topics import ensure_state_topics
from srm_common.kafka.state.state_writer import StateWriter
from srm_common.testing import FakeCluster
from srm_common.usecases.offsets.exact_translation import ExactTranslation
from srm_common.wire.state.mm2 import encode_offset_sync, partition_for, source_offset_key, source_offset_value
from srm_common.wire.state.plain_records import NewRecord
from srm_common.wire.state.segments import encode_segment, segment_partition
from tests.kafka.checkpoint_rounds import copy
from tests.kafka.engine import Engine, assert_same
from tests.kafka.flows import Seen, flow_between, prepare
from tests.kafka.records import delete_topic, grow, produce, put, writer
from tests.kafka.translations import check_exact, logs, records, translated, without_source


@pytest.fixture
def engine(source_kafka: FakeCluster, target_kafka: FakeCluster) -> Engine:
    return Engine(source_kafka, target_kafka, "exact")


def test_long_state_topics_are_read_piece_by_piece(engine: Engine, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.target.create_topic(name, 3)
    for partition, count in enumerate((50, 0, 23)):
        produce(engine.target, name, partition, records(count))
    with StateReader(engine.flow.target) as reader:
        ends = reader.offsets(name, range(3), LATEST)
        whole = reader.read(name, {0: 4}, ends)
        monkeypatch.setattr(sync_log, "_WINDOW", 8)
        pieces = list(sync_log.records_between(reader, name, {0: 4}, ends))
    assert [piece.offset for piece in pieces if piece.partition == 0] == list(range(4, 50))
    assert sorted(pieces, key=lambda one: (one.partition, one.offset)) == sorted(
        whole, key=lambda one: (one.partition, one.offset)
    )


def test_growth_and_a_topic_that_is_created_again(
    source_kafka: FakeCluster, target_kafka: FakeCluster, name: str
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
    assert not [placed for placed in downstream[2] if placed.offset >= answer.offset]


@pytest.mark.usefixtures("impatient")
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
    own = [placed for placed in logs(engine.target, remote)[0] if placed.seen.key != b"other"]
    assert check_exact(translated(engine.flow, name, upstream), upstream, {0: own})[Evidence.TARGET] == 29
    # The source has no hole in it, so that the target alone can tell as well.
    with ExactTranslation(without_source(engine.flow)) as exact:
        answers = exact.translate([(name, 0, position) for position in range(31)])
    check_exact({(0, one[2]): answer for one, answer in answers.items()}, upstream, {0: own})


class MirrorMaker:
    """Copies as MirrorMaker 2 without exactly-once does: one by one, with forced syncs and one at each commit."""

    def __init__(self, flow: FlowSettings, source: FakeCluster, target: FakeCluster, topic: str) -> None:
        self.flow, self.source, self.target, self.topic = flow, source, target, topic
        self.syncs: dict[int, int] = {}
        self._state = SyncState()

    def copy(self, start: int, end: int) -> None:
        flow, topic = self.flow, self.topic
        remote = f"{flow.name.source}.{topic}"
        todo = [placed for placed in logs(self.source, topic)[0] if start <= placed.offset < end]
        with StateReader(flow.target) as reader:
            downstream = reader.offsets(remote, [0], LATEST)[0]
            offsets_topic = names.offsets_topic(flow.name.source)
            partitions = reader.partitions(offsets_topic)
        produce(self.target, remote, 0, [placed.seen for placed in todo])
        written = []
        for number, one in enumerate(todo):
            forced, self._state = self._state.after(one.offset, downstream + number, 20)
            if forced or number == len(todo) - 1:
                self.syncs[one.offset] = downstream + number
                written.append(OffsetSync(topic, 0, one.offset, downstream + number))
        syncs_topic = names.offset_syncs_topic(flow)
        cluster = flow.source if flow.offset_syncs_topic_location == "source" else flow.target
        syncs = [NewRecord(syncs_topic, 0, *encode_offset_sync(sync)) for sync in written]
        StateWriter(cluster).write("write syncs", syncs)
        key = source_offset_key(flow.name.source, topic, 0)
        value = source_offset_value(todo[-1].offset)
        progress = NewRecord(offsets_topic, partition_for(key, partitions), key, value)
        StateWriter(flow.target).write("commit", [progress])


@pytest.mark.parametrize("location", ["source", "target"])
def test_what_mirror_maker_2_copied(
    source_kafka: FakeCluster, target_kafka: FakeCluster, name: str, location: str
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
            unread = sum(placed.offset >= position for placed in upstream[0])
            would_read = sum(placed.offset >= answer.offset for placed in downstream[0])
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

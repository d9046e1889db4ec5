"""Taking over what a MirrorMaker 2 left, in any state, and handing it back; the real one is in tests/faults."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from srm_common.cli.main import run as srm_control
from srm_common.domain.flow import FlowSettings, names
from srm_common.domain.flow.names import ConnectNames
from srm_common.domain.moving.handover import Verdict
from srm_common.domain.offsets.offset_syncs import OffsetSync
from srm_common.domain.offsets.translation import Translated
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunRecord
from srm_common.errors import StateTopicInvalid
from srm_common.kafka.state.segment_log import SegmentLog
from srm_common.kafka.state.state_reader import StateReader
from srm_common.kafka.state.state_topics import ensure_state_topics
from srm_common.kafka.state.state_writer import StateWriter
from srm_common.kafka.state.topic_registry import TopicRegistry
from srm_common.testing import FakeCluster
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.flows.idle_flow import signs_of_life
from srm_common.usecases.mirror_maker import handover_state
from srm_common.usecases.offsets.source_offsets import committed_now
from srm_common.usecases.runs.replicate import raise_if_failed, replicate
from srm_common.wire.state.mm2 import (
    encode_offset_sync,
    parse_source_offset_value,
    partition_for,
    source_offset_key,
    source_offset_value,
)
from srm_common.wire.state.plain_records import NewRecord
from tests.kafka.flows import flow_between, prepare, properties_of, read, write
from tests.slot_worker import here
from tests.unit.usecases.fakes import GROUP_AUTHORIZATION_FAILED

#: Nothing writes: there is no need to wait for it.
NOW = ("--watch", "0")


@dataclass
class Scene:
    """A flow whose copies and offsets somebody else has made."""

    flow: FlowSettings
    source: FakeCluster
    target: FakeCluster
    topic: str
    file: Path
    capsys: pytest.CaptureFixture[str]

    @property
    def remote(self) -> str:
        return f"{self.flow.name.source}.{self.topic}"

    def copy(self, partition: int, count: int) -> None:
        """What MirrorMaker 2 does with the first records of a partition, as far as a consumer can tell."""
        producer = Producer({"bootstrap.servers": self.target.bootstrap_servers, "linger.ms": 5})
        for record in read(self.source, self.topic, partition)[:count]:
            producer.produce(
                self.remote,
                key=record.key,
                value=record.value,
                partition=partition,
                timestamp=record.timestamp_ms,
                headers=list(record.headers),
            )
        assert producer.flush(60) == 0

    def store(self, offsets: dict[int, int], mirror_maker: ConnectNames | None = None, partitions: int = 5) -> None:
        """Its source offsets: the next one to copy, by partition."""
        who = mirror_maker or ConnectNames.dedicated(self.flow.name)
        self.target.create_topic(who.offsets_topic, partitions, config={"cleanup.policy": "compact"})
        producer = Producer({"bootstrap.servers": self.target.bootstrap_servers})
        for partition, offset in offsets.items():
            key = source_offset_key(self.flow.name.source, self.topic, partition, who.connector)
            home = partition_for(key, partitions)
            producer.produce(who.offsets_topic, source_offset_value(offset - 1), key, partition=home)
        assert producer.flush(60) == 0

    def control(self, command: str, *arguments: str) -> tuple[int, Any, str]:
        """Exit code, the answer as JSON, and what was said on standard error."""
        self.capsys.readouterr()
        code = srm_control([command, *arguments, "--config", str(self.file), "--output", "json"])
        said = self.capsys.readouterr()
        return code, json.loads(said.out) if said.out else None, said.err

    def run(self, installation: str | None = None) -> RunRecord:
        prepare(self.flow)
        options = RunOptions("r", installation=installation)
        record = replicate(self.flow, options, here)
        raise_if_failed(record)
        return record

    def committed(self) -> dict[int, int]:
        return {partition: offset for (_, partition), offset in sorted(committed_now(self.flow).items())}


@pytest.fixture
def scene(
    source_kafka: FakeCluster,
    target_kafka: FakeCluster,
    name: str,
    configuration_file: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
) -> Scene:
    flow = flow_between(source_kafka, target_kafka, name)
    return Scene(flow, source_kafka, target_kafka, name, configuration_file(properties_of(flow)), capsys)


def verdicts(answer: dict[str, Any]) -> dict[int, tuple[str, int | None]]:
    return {one["partition"]: (one["verdict"], one["position"]) for one in answer["positions"]}


def values(count: int) -> list[bytes | None]:
    return [b"%d" % number for number in range(count)]


def test_whatever_was_left_the_flow_goes_on_without_gap_or_repetition(scene: Scene) -> None:
    """Six partitions: stopped cleanly; killed before a flush; aborted offset believed; nothing there; offset lost;
    copy expired."""
    scene.source.create_topic(scene.topic, 6)
    scene.target.create_topic(scene.remote, 6)
    copied = {0: 60, 1: 60, 2: 40, 4: 60, 5: 60}
    for partition, count in copied.items():
        write(scene.source, scene.topic, values(100), partition)
        scene.copy(partition, count)
    scene.store({0: 60, 1: 30, 2: 60, 5: 60})
    expired = {TopicPartition(scene.remote, 5, 60): 60}
    for future in scene.target.admin().delete_records(list(expired)).values():
        future.result()

    code, planned, _ = scene.control("takeover", "--dry-run", "--compare", "40", *NOW)
    expected = {
        0: ("proved", 60),
        1: ("ahead", 60),
        2: ("behind", 40),
        3: ("believed", None),
        4: ("ahead", 60),
        5: ("believed", 60),
    }
    assert (code, planned["written"], verdicts(planned)) == (0, False, expected)
    assert scene.committed() == {0: 60, 1: 30, 2: 60, 5: 60}
    code, done, _ = scene.control("takeover", "--compare", "40", *NOW)
    assert (code, done["written"], verdicts(done)) == (0, True, expected)
    assert scene.committed() == {0: 60, 1: 60, 2: 40, 4: 60, 5: 60}
    with TopicRegistry(scene.flow.target) as registry:
        record = registry.read().find(scene.flow.name, scene.topic)
    assert record is not None
    assert (record.downstream_topic, str(record.state)) == (scene.remote, "replicating")

    write(scene.source, scene.topic, values(10), 3)
    scene.run()
    for partition in range(5):
        assert read(scene.target, scene.remote, partition) == read(scene.source, scene.topic, partition)
    assert read(scene.target, scene.remote, 5) == read(scene.source, scene.topic, 5)[60:]
    with StateReader(scene.flow.target) as reader:
        segments = names.segments_topic(scene.flow.name.source)
        log = SegmentLog(reader, segments, reader.partitions(segments))
        log.read_new({})
        for partition in (0, 1, 4):
            # The compared records, the place in between, and what a run of ours copied.
            for position in (20, 45, 60, 61, 100):
                found = log.translate(scene.topic, partition, position)
                assert isinstance(found, Translated), (partition, position, found)
                assert (found.offset, found.exact) == (position, True)
    code, again, _ = scene.control("takeover", *NOW)
    assert code == 0
    assert {verdict for partition, (verdict, _) in verdicts(again).items() if partition != 5} == {str(Verdict.PROVED)}


def test_what_the_logs_do_not_agree_with_is_not_taken_over(scene: Scene) -> None:
    scene.source.create_topic(scene.topic, 2)
    scene.target.create_topic(scene.remote, 2)
    for partition in (0, 1):
        write(scene.source, scene.topic, values(50), partition)
        scene.copy(partition, 30)
    write(scene.target, scene.remote, [b"foreign"], 1)
    scene.store({0: 25, 1: 30})
    code, answer, _ = scene.control("takeover", *NOW)
    assert (code, answer["written"], verdicts(answer)) == (1, False, {0: ("ahead", 30), 1: ("unproved", 30)})
    assert scene.committed() == {0: 25, 1: 30}
    assert f"{scene.topic}-1: the copy's last record is not among the source's" in answer["obstacles"][0]
    code, answer, _ = scene.control("takeover", "--accept-unproved", *NOW)
    assert (code, verdicts(answer)) == (0, {0: ("ahead", 30), 1: ("believed", 30)})
    scene.run()
    assert read(scene.target, scene.remote, 0) == read(scene.source, scene.topic, 0)
    assert [seen.value for seen in read(scene.target, scene.remote, 1)][30:32] == [b"foreign", b"30"]


@contextmanager
def _growing(scene: Scene) -> Iterator[None]:
    ended = threading.Event()

    def grow() -> None:
        while not ended.wait(0.1):
            write(scene.target, scene.remote, [b"more"])

    thread = threading.Thread(target=grow)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_whoever_is_at_work_is_told(scene: Scene) -> None:
    """A copy that grows, and workers in MirrorMaker 2's group; a dry run says the same and goes on."""
    scene.source.create_topic(scene.topic, 1)
    scene.target.create_topic(scene.remote, 1)
    write(scene.source, scene.topic, values(50))
    scene.copy(0, 50)
    scene.store({0: 50})
    with _growing(scene):
        code, _, error = scene.control("takeover")
        assert code == 5
        assert f"{scene.remote} on target got" in error
        code, answer, _ = scene.control("takeover", "--dry-run")
        assert (code, len(answer["obstacles"]) >= 1) == (1, True)
    group = f"{scene.flow.name.source}-mm2"
    worker = Consumer({"bootstrap.servers": scene.target.bootstrap_servers, "group.id": group})
    worker.subscribe([scene.remote])
    while not worker.assignment():
        worker.poll(0.2)
    for command in ("takeover", "handback"):
        code, _, error = scene.control(command)
        assert (code, f"in group '{group}'" in error) == (5, True), error
    notes = scene.run().notes
    worker.close()
    assert any(f"in group '{group}'" in note and "both copy" in note for note in notes), notes
    assert scene.run("one").notes == ()
    (note,) = scene.run("two").notes
    assert "installation 'one' ran flow" in note
    assert scene.run("two").notes == ()


def test_workers_that_may_not_be_seen_are_not_overlooked(scene: Scene) -> None:
    """Brokers leave groups out of their lists that the principal may not describe."""
    scene.source.create_topic(scene.topic, 1)
    scene.target.refuse("DescribeGroups", GROUP_AUTHORIZATION_FAILED)
    for command in ("takeover", "handback"):
        code, _, error = scene.control(command)
        assert (code, f"Describe on group '{scene.flow.name.source}-mm2'" in error) == (3, True), error
    # Whatever else needs an idle flow does without.
    with FlowClusters(scene.flow) as clusters:
        assert signs_of_life(clusters) == []


def test_a_copy_behind_an_open_transaction_is_not_believed(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies behind another producer's transaction would count as not copied, and be copied once more."""
    monkeypatch.setattr(handover_state, "_MARKERS_SECONDS", 0.3)
    scene.source.create_topic(scene.topic, 1)
    scene.target.create_topic(scene.remote, 1)
    write(scene.source, scene.topic, values(100))
    other = Producer({"bootstrap.servers": scene.target.bootstrap_servers, "transactional.id": f"{scene.topic}-other"})
    other.init_transactions(60)
    other.begin_transaction()
    other.produce(scene.remote, b"other")
    other.flush(60)
    scene.copy(0, 100)
    scene.store({0: 100})
    code, found, _ = scene.control("takeover", *NOW)
    assert (code, found["written"]) == (1, False)
    assert f"{scene.remote}-0 on {scene.flow.name.target} cannot be read beyond offset 0" in found["obstacles"][0]
    other.abort_transaction(60)
    code, found, _ = scene.control("takeover", *NOW)
    assert (code, verdicts(found)) == (0, {0: ("proved", 100)})


def test_copies_of_mirror_maker_are_not_copied_again_for_want_of_its_offsets(scene: Scene) -> None:
    """Its offset syncs prove that it copied, its offsets are gone: a run refuses, and a take-over finds the place."""
    scene.source.create_topic(scene.topic, 1)
    scene.target.create_topic(scene.remote, 1)
    write(scene.source, scene.topic, values(50))
    scene.copy(0, 30)
    ensure_state_topics(scene.flow)
    sync = encode_offset_sync(OffsetSync(scene.topic, 0, 0, 0))
    StateWriter(scene.flow.source).write("x", [NewRecord(names.offset_syncs_topic(scene.flow), 0, *sync)])
    with pytest.raises(StateTopicInvalid, match=f"srm-control takeover --flow '{scene.flow.name}'"):
        scene.run()
    code, answer, _ = scene.control("takeover", *NOW)
    assert (code, verdicts(answer)) == (0, {0: ("ahead", 30)})
    scene.run()
    assert read(scene.target, scene.remote) == read(scene.source, scene.topic)


def test_a_mirror_maker_in_a_connect_cluster(scene: Scene, name: str) -> None:
    """Its names are its own: offsets are read from there, its tasks are fenced, and it gets the offsets back. Its
    workers stay in their group when the connectors are stopped."""
    alias = scene.flow.name.source
    connect = ConnectNames(f"connect-{name}", f"mirror-{name}", f"connect-offsets-{name}")
    scene.target.join(connect.group, "connect-worker-1")
    theirs = [
        *("--connect-group", connect.group),
        *("--connector", connect.connector),
        *("--offsets-topic", connect.offsets_topic),
    ]
    scene.source.create_topic(scene.topic, 2)
    scene.target.create_topic(scene.remote, 2)
    for partition in (0, 1):
        write(scene.source, scene.topic, values(50), partition)
        scene.copy(partition, 40)
    scene.target.create_topic(f"other-{name}", 1)
    code, _, error = scene.control("takeover", *theirs, *NOW)
    assert (code, f"has no topic {connect.offsets_topic}" in error) == (2, True)
    scene.store({0: 40, 1: 20}, connect)
    task = Producer(
        {
            "bootstrap.servers": scene.target.bootstrap_servers,
            "transactional.id": f"{connect.task_id_prefix}0",
            "log_level": 0,
        }
    )
    task.init_transactions(120)
    task.begin_transaction()
    task.produce(f"other-{name}", b"x")
    # The coordinator hears of the transaction with its first record.
    assert task.flush(120) == 0
    code, _, error = scene.control("takeover", *theirs, *NOW)
    assert (code, f"a transaction of '{connect.task_id_prefix}0' is open" in error) == (5, True)
    task.commit_transaction(120)
    code, answer, error = scene.control("takeover", *theirs, *NOW)
    assert (code, verdicts(answer)) == (0, {0: ("proved", 40), 1: ("ahead", 40)}), error
    task.begin_transaction()
    task.produce(f"other-{name}", b"x")
    with pytest.raises(KafkaException):
        task.commit_transaction(120)
    scene.run()
    for partition in (0, 1):
        assert read(scene.target, scene.remote, partition) == read(scene.source, scene.topic, partition)

    code, answer, _ = scene.control("handback", *theirs)
    assert (code, answer["written"], verdicts(answer)) == (0, True, {0: ("proved", 50), 1: ("proved", 50)})
    with StateReader(scene.flow.target) as reader:
        last = reader.last_records(connect.offsets_topic)
    stored = {
        partition: parse_source_offset_value(
            last[source_offset_key(alias, scene.topic, partition, connect.connector)].value
        )
        for partition in (0, 1)
    }
    assert stored == {0: 49, 1: 49}


def test_handback_tells_what_it_cannot_prove(scene: Scene) -> None:
    """Offsets that were moved by hand, and foreign records, are told; what somebody accepts is handed over."""
    scene.source.create_topic(scene.topic, 3)
    for partition in (0, 1, 2):
        write(scene.source, scene.topic, values(20), partition)
    scene.run()
    moved = ["set", "--topic", scene.topic, "--partition", "1", "--offset", "5"]
    assert scene.control("source-offsets", *moved)[0] == 0
    write(scene.target, scene.remote, [b"foreign"], 2)
    code, answer, _ = scene.control("handback", "--dry-run")
    assert (code, answer["written"]) == (1, False)
    assert verdicts(answer)[0] == ("proved", 20)
    assert [verdicts(answer)[partition] for partition in (1, 2)] == [("unproved", 5), ("unproved", 20)]
    assert "was the offset moved manually?" in answer["obstacles"][0]
    code, answer, _ = scene.control("handback")
    assert (code, answer["written"]) == (1, False)
    code, answer, _ = scene.control("handback", "--accept-unproved")
    assert (code, answer["written"]) == (0, True)
    assert "checkpoint" in answer["checkpoints"]
    assert scene.committed() == {0: 20, 1: 5, 2: 20}


def test_a_take_over_whose_offsets_are_refused_is_completed_by_the_next_one(scene: Scene) -> None:
    scene.source.create_topic(scene.topic, 1)
    scene.target.create_topic(scene.remote, 1)
    write(scene.source, scene.topic, values(50))
    scene.copy(0, 30)
    scene.store({0: 20})
    with scene.target.refuse("Produce", 29, when=names.offsets_topic(scene.flow.name.source)):
        code, answer, error = scene.control("takeover", *NOW)
    assert code != 0, (answer, error)
    assert scene.committed() == {0: 20}, "nothing is written by halves"
    code, answer, _ = scene.control("takeover", *NOW)
    assert (code, verdicts(answer)) == (0, {0: ("ahead", 30)})
    scene.run()
    assert read(scene.target, scene.remote) == read(scene.source, scene.topic)

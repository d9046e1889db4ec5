"""A replica that lacks records becomes the leader (``unclean.leader.election.enable``), on either side."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

import pytest
from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import NewTopic, OffsetSpec

from srm_common.domain.flow import FlowSettings, OnDataLoss
from srm_common.domain.runs.run_record import RunState
from srm_common.testing import LocalKafka
from srm_common.testing.artifacts import DEFAULT_KAFKA_VERSION
from srm_common.usecases.runs.replicate import raise_if_failed
from tests.faults.live_groups import LiveFlow, copy_once, run_once, wait_for
from tests.kafka.flows import Seen, flow_between
from tests.kafka.records import mixed_records, produce, put, read_all, writer

pytestmark = [pytest.mark.faults, pytest.mark.kafka]

#: The node that lacks records in the end, the one that has them, and the one that keeps the quorum.
STALE, COMPLETE = 2, 1
READ_COMMITTED, READ_UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
#: State topics lose nothing: they lie on the other cluster, or have a replica on the third node.
AWAY = {"offset_syncs_topic_location": "target"}


@pytest.fixture(scope="module")
def three(request: pytest.FixtureRequest) -> Iterator[LocalKafka]:
    """Three nodes, of which the third has none of the tests' records. One replica takes writes alone, so that the other
    one misses some."""
    version: str = getattr(request, "param", DEFAULT_KAFKA_VERSION)
    with LocalKafka(nodes=3, version=version, name="unclean", settings={"min.insync.replicas": "1"}) as kafka:
        yield kafka


@pytest.fixture
def unclean(three: LocalKafka) -> LocalKafka:
    """With all its nodes, whatever an earlier test left when it failed."""
    for node in (STALE, COMPLETE):
        if not three.running(node):
            three.restart(node)
    return three


class Cut:
    """Topics with two replicas each, whose logs are cut by an unclean election. ``at`` is where each log parts."""

    def __init__(self, kafka: LocalKafka, *topics: str) -> None:
        self._kafka = kafka
        self._topics = topics
        self.at: dict[str, int] = {}
        self.ends: dict[str, int] = {}

    def create(self) -> None:
        where, config = [[COMPLETE, STALE]], {"unclean.leader.election.enable": "true"}
        new = [NewTopic(topic, num_partitions=1, replica_assignment=where, config=config) for topic in self._topics]

        def created() -> bool:
            # Young nodes come and go in each other's metadata; the library drops what it asked of one that goes.
            left = [
                new_topic
                for new_topic in new
                if new_topic.topic not in self._kafka.admin().list_topics(timeout=60).topics
            ]
            with contextlib.suppress(KafkaException):
                for done in self._kafka.admin().create_topics(left).values() if left else ():
                    done.result(120)
                return True
            return False

        wait_for("the topics", created)
        self._wait(lambda part: part.leader > 0 and len(part.isrs) == 2, "two replicas in sync")

    def stop_stale(self) -> None:
        """From now on one replica has all records alone."""
        self._wait(lambda part: len(part.isrs) == 2, "two replicas in sync")
        self.at = self._log_ends()
        self._kafka.kill(STALE)
        self._wait(lambda part: part.leader == COMPLETE and part.isrs == [COMPLETE], "one replica in sync")

    def elect_stale(self) -> None:
        """The other one dies and comes back as a follower; returns when it has been cut."""
        self.ends = self._log_ends()
        assert all(self.ends[topic] > self.at[topic] for topic in self._topics)
        self._kafka.kill(COMPLETE)
        self._kafka.restart(STALE)
        self._wait(lambda part: part.leader == STALE, "an unclean election")
        assert self._log_ends() == self.at, "nothing was cut"
        self._kafka.restart(COMPLETE)
        self._wait(lambda part: len(part.isrs) == 2, "two replicas in sync")
        assert self._log_ends() == self.at

    def _log_ends(self) -> dict[str, int]:
        return {topic: log_end(self._kafka, topic) for topic in self._topics}

    def _wait(self, condition: object, what: str) -> None:
        def met() -> bool:
            assert callable(condition)
            with contextlib.suppress(KafkaException):
                shown = self._kafka.admin().list_topics(timeout=10).topics
                # A broker that has just started may not have heard of a topic that another one has created.
                parts = [shown[topic].partitions.get(0) if topic in shown else None for topic in self._topics]
                return all(part is not None and condition(part) for part in parts)
            return False

        wait_for(what, met)


def log_end(kafka: LocalKafka, topic: str) -> int:
    """The high watermark of partition 0, once no transaction is open there: a producer is told of its commit before the
    markers are written, and a replica may get one of them later than all records."""
    place, found = TopicPartition(topic, 0), -1

    def settled() -> bool:
        nonlocal found
        with contextlib.suppress(KafkaException):
            stable, found = (_latest(kafka, place, isolation) for isolation in (READ_COMMITTED, READ_UNCOMMITTED))
            return stable == found
        return False

    wait_for(f"the end of all transactions on {topic}", settled)
    return found


def _latest(kafka: LocalKafka, place: TopicPartition, isolation: IsolationLevel) -> int:
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    return int(kafka.admin().list_offsets({place: latest}, isolation_level=isolation)[place].result(10).offset)


def seen(kafka: LocalKafka, topic: str, start: int = 0) -> list[Seen]:
    """What readers of committed records see from an offset on."""
    return [placed.seen for placed in read_all(kafka, topic)[0] if placed.offset >= start]


def write(kafka: LocalKafka, topic: str, seed: int) -> None:
    """Plain records of all codecs, and transactions of which some are aborted; all of them are ended."""
    for number, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        produce(kafka, topic, 0, mixed_records(60, seed + number), compression_type=codec)
    producer = writer(kafka, transactional_id=f"{topic}-{seed}", linger_ms=1)
    producer.init_transactions(120)
    for number in range(4):
        producer.begin_transaction()
        put(producer, topic, 0, mixed_records(20, seed + number))
        producer.flush(120)
        (producer.abort_transaction if number % 2 else producer.commit_transaction)(120)


# Fetch 11 does not compare logs.
@pytest.mark.parametrize("three", [DEFAULT_KAFKA_VERSION, pytest.param("2.4.1", marks=pytest.mark.soak)], indirect=True)
def test_at_the_source_lost_records_stay_and_new_ones_follow(
    unclean: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    """While a flow runs that goes on by itself (``on.data.loss = skip``), and for one that stops (``fail``).

    The rule: the copy has what was copied before the election, and behind it what the source shows from the offset on
    where the logs part.
    """
    going, stopping = f"{name}-going", f"{name}-stopping"
    cut = Cut(unclean, going, stopping)
    cut.create()
    flow = flow_between(unclean, target_kafka, going, on_data_loss=OnDataLoss.SKIP, **AWAY)
    strict = flow_between(unclean, target_kafka, stopping, **AWAY)
    before: dict[str, list[Seen]] = {}
    with LiveFlow(flow) as live:
        write(unclean, going, 1)
        write(unclean, stopping, 1)
        cut.stop_stale()
        write(unclean, going, 10)
        write(unclean, stopping, 10)
        for topic in (going, stopping):
            before[topic] = seen(unclean, topic)
        assert run_once(strict).state is RunState.DONE
        wait_for("the copy", lambda: _copied(flow, target_kafka, going) == before[going])
        cut.elect_stale()
        rounds = live.rounds
        write(unclean, going, 20)
        write(unclean, going, 30)
        wait_for("more rounds", lambda: live.rounds > rounds + 1)
    assert log_end(unclean, going) > cut.ends[going], "the log has not grown again"

    # Shorter than what was copied, then grown beyond it.
    for grown in (False, True):
        if grown:
            write(unclean, stopping, 20)
            write(unclean, stopping, 30)
        record = run_once(strict)
        assert record.state is RunState.FAILED
        (failed,) = record.failed_partitions
        assert failed.error_kind == "DataLost"
        assert ("has grown again" if grown else "the source log ends at offset") in str(failed.error)
        assert _copied(strict, target_kafka, stopping) == before[stopping]
    strict = replace(strict, on_data_loss=OnDataLoss.SKIP)
    for told, topic in ((flow, going), (strict, stopping)):
        assert run_once(told).state is RunState.DONE
        expected = before[topic] + seen(unclean, topic, cut.at[topic])
        assert _copied(told, target_kafka, topic) == expected
        assert run_once(told).records == 0


def test_on_the_target_lost_copies_stop_the_partition_until_somebody_decides(
    source_kafka: LocalKafka, unclean: LocalKafka, name: str
) -> None:
    source_kafka.create_topic(name)
    flow = flow_between(source_kafka, unclean, name)
    copy = f"{flow.name.source}.{name}"
    cut = Cut(unclean, copy)
    cut.create()
    write(source_kafka, name, 1)
    # The copy is there already, with replicas where the test wants them: taken as it is.
    assert copy_once(flow).state is RunState.DONE
    first = seen(source_kafka, name)
    assert seen(unclean, copy) == first
    cut.stop_stale()
    write(source_kafka, name, 10)
    assert copy_once(flow).state is RunState.DONE
    copied = seen(source_kafka, name)
    assert seen(unclean, copy) == copied
    cut.elect_stale()
    assert seen(unclean, copy) == first

    # Nothing new at the source, then something: either way it is said, and nothing is written behind the gap.
    for number in range(2):
        record = copy_once(flow)
        assert record.state is RunState.FAILED
        (failed,) = record.failed_partitions
        assert failed.error_kind == "DataLost"
        assert f"the copy {copy}-0 ends at offset {cut.at[copy]}, " in str(failed.error)
        # The marker of its last transaction may have come after the run had looked.
        lost = cut.ends[copy] - cut.at[copy]
        assert any(f"{count} offsets before" in str(failed.error) for count in (lost - 1, lost))
        assert log_end(unclean, copy) == cut.at[copy]
        if number == 0:
            write(source_kafka, name, 20)
    assert record.backlog.least > 0

    everything = seen(source_kafka, name)
    record = copy_once(replace(flow, on_target_loss=OnDataLoss.SKIP))
    raise_if_failed(record)
    assert any("on.target.loss = skip" in note for note in record.notes)
    assert seen(unclean, copy) == first + everything[len(copied) :]
    # Decided once and for all.
    raise_if_failed(copy_once(flow))


def _copied(flow: FlowSettings, kafka: LocalKafka, topic: str) -> list[Seen]:
    copy = f"{flow.name.source}.{topic}"
    return seen(kafka, copy) if copy in kafka.admin().list_topics(timeout=60).topics else []

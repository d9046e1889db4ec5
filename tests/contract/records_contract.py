"""Records in logs, as our adapters write and read them: offsets, times, sequences, transactions, markers."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from srm_common.domain.runs.copying import ProducerIdentity
from srm_common.domain.runs.data_loss import EpochEnd
from srm_common.domain.topic_partition import TopicPartition as Place
from srm_common.errors import ConfigError, Fenced
from srm_common.kafka.client.library import EndTxnRequest
from srm_common.kafka.client.links.link import EARLIEST, LATEST, ClusterLink, LogOffset
from srm_common.kafka.client.protocol import codes
from srm_common.kafka.client.protocol.frames import RawProduce
from srm_common.kafka.log.cluster_clock import clock_offset
from srm_common.kafka.log.committed_log import newest_records
from srm_common.kafka.log.log_facts import LogFacts, epoch_ends, log_facts
from srm_common.kafka.log.log_windows import LogWindows, Window
from srm_common.kafka.state.state_reader import StateReader
from srm_common.kafka.state.state_writer import StateWriter
from srm_common.kafka.transactions.hanging_transactions import left_open
from srm_common.kafka.transactions.producer import Producer as LinkProducer
from srm_common.kafka.transactions.producer import UncertainCommit, init_producer
from srm_common.wire.batches.batch import TRANSACTIONAL, stamp
from srm_common.wire.protocol.produce import StoredPartition
from srm_common.wire.state.plain_records import Newest, NewRecord, plain_records
from tests.contract.parts import PATIENCE_SECONDS, Cluster, settings, shown

_V1, _V2 = 9, 12
_NOW_MS = int(time.time() * 1000)


def batch(
    values: Sequence[bytes], producer: tuple[int, int] = (-1, -1), sequence: int = -1, *, transactional: bool = False
) -> bytes:
    """A batch of records with the key ``k``, of now."""
    body = plain_records([(b"k", value) for value in values])
    last = len(values) - 1
    return (
        stamp(TRANSACTIONAL if transactional else 0, last, _NOW_MS, _NOW_MS, len(values), body, *producer, sequence)
        + body
    )


class Writer:
    """Raw requests over one link."""

    def __init__(self, link: ClusterLink, topic: str) -> None:
        self.link, self.topic = link, topic
        self.transactional_id: str | None = None

    def run(self, work: Callable[[], Awaitable[Any]]) -> Any:
        return self.link.run(work)

    async def put(self, data: bytes, partition: int = 0, version: int = _V1) -> StoredPartition:
        leader = self.link.leader(self.topic, partition)
        request = RawProduce(version, self.transactional_id, 30_000, {self.topic: [(partition, [data])]})
        answer = await self.link.send(leader, request)
        return answer.partitions[0]  # type: ignore[no-any-return]

    async def init(self, held: tuple[int, int] = (-1, -1), timeout_ms: int = 60_000) -> tuple[int, int]:
        return await init_producer(
            self.link,
            self.transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=held[0],
            epoch=held[1],
            deadline=time.monotonic() + PATIENCE_SECONDS,
        )

    def producer(self, identity: tuple[int, int], *, newer: bool) -> LinkProducer:
        return LinkProducer(
            self.link,
            ProducerIdentity(self.transactional_id or "", *identity),
            transactions_v2=newer,
            transaction_timeout_ms=60_000,
            retry_seconds=PATIENCE_SECONDS,
        )


@pytest.fixture
def writer(kafka: Cluster, name: str) -> Iterator[Writer]:
    """Writes to a topic of two partitions."""
    kafka.create_topic(name, 2)
    with ClusterLink(settings(kafka)) as link:
        link.run(lambda: link.open([name]))
        # A leader that was just made refuses for a moment.
        places = [Place(name, 0), Place(name, 1)]
        assert link.start_offsets(places) == (dict.fromkeys(places, 0), {})
        writer = Writer(link, name)
        writer.transactional_id = name
        yield writer


def marks(kafka: Cluster, topic: str, partition: int = 0) -> tuple[int, int]:
    """The last stable offset and the end."""
    with StateReader(settings(kafka)) as reader:
        stable = reader.offsets(topic, [partition], LATEST)
        return stable[partition], reader.offsets(topic, [partition], LATEST, committed=False)[partition]


def values(kafka: Cluster, topic: str, *, committed: bool = True) -> list[bytes | None]:
    with StateReader(settings(kafka), committed=committed) as reader:
        ends = reader.offsets(topic, [0], LATEST, committed=committed)
        return [record.value for record in reader.read(topic, None, ends)]


class RecordsContract:
    def test_records_come_back_as_they_were_written(self, kafka: Cluster, name: str) -> None:
        cluster = settings(kafka)
        kafka.create_topic(name, 2)
        records = [NewRecord(name, number % 2, b"k%d" % number, b"v" * number, _NOW_MS + number) for number in range(6)]
        records.append(NewRecord(name, 0, b"k0", None))
        assert StateWriter(cluster, repeats_matter=False).write("write", records) == 7
        with StateReader(cluster) as reader:
            log_records = reader.read(name)
            assert {record.key: (record.partition, record.value) for record in log_records if record.partition} == {
                b"k%d" % number: (1, b"v" * number) for number in (1, 3, 5)
            }
            first = [record for record in log_records if not record.partition]
            assert [(record.offset, record.key, record.value) for record in first] == [
                (0, b"k0", b""),
                (1, b"k2", b"vv"),
                (2, b"k4", b"vvvv"),
                (3, b"k0", None),
            ]
            assert [record.timestamp_ms for record in first[:3]] == [_NOW_MS + number for number in (0, 2, 4)]
            assert [record.offset for record in reader.read(name, {0: 2, 1: 3})] == [2, 3]
            assert reader.newest(name, {0: 4})[b"k0"].value is None
            assert (reader.partitions(name), reader.partitions(f"{name}-none")) == (2, 0)
            assert reader.offsets(name, [0, 1], EARLIEST) == {0: 0, 1: 0}

    def test_offsets_by_time(self, kafka: Cluster, name: str) -> None:
        kafka.create_topic(name)
        records = [NewRecord(name, 0, b"k", b"v", _NOW_MS + 1000 * number) for number in range(5)]
        StateWriter(settings(kafka), repeats_matter=False).write("write", records)
        with ClusterLink(settings(kafka)) as link:
            for ahead, offset in ((-5, 0), (0, 0), (1, 1), (2000, 2), (3999, 4), (4001, -1)):
                found, faults = link.offsets_at([Place(name, 0)], _NOW_MS + ahead)
                assert (found, faults) == ({(name, 0): offset}, {})

    def test_what_is_deleted_is_gone_from_the_start(self, kafka: Cluster, name: str) -> None:
        kafka.create_topic(name)
        StateWriter(settings(kafka), repeats_matter=False).write(
            "write", [NewRecord(name, 0, b"k", b"%d" % n) for n in range(5)]
        )
        place = TopicPartition(name, 0, 3)
        assert kafka.admin().delete_records([place])[place].result(60).low_watermark == 3
        with StateReader(settings(kafka)) as reader:
            assert shown(lambda: reader.offsets(name, [0], EARLIEST), {0: 3}) == {0: 3}
            assert [record.value for record in reader.read(name, {0: 0})] == [b"3", b"4"]
        with ClusterLink(settings(kafka)) as link:

            async def facts() -> LogFacts:
                await link.open([name])
                return await log_facts(link, Place(name, 0), 0)

            assert link.run(facts) == LogFacts(3, 3, 5, False, EpochEnd(0, 5))
        place = TopicPartition(name, 0, 17)
        with pytest.raises(KafkaException) as refused:
            kafka.admin().delete_records([place])[place].result(60)
        assert refused.value.args[0].code() == KafkaError.OFFSET_OUT_OF_RANGE

    def test_deleted_records_of_the_first_batch_say_nothing(self, kafka: Cluster, name: str) -> None:
        """The broker keeps the batch and sends it whole."""
        kafka.create_topic(name, config={"cleanup.policy": "compact,delete"})
        keys = [b"gone", b"kept", b"gone too", b"kept", b"last"]
        records = [NewRecord(name, 0, key, b"%d" % n, headers=((b"h", b"%d" % n),)) for n, key in enumerate(keys)]
        StateWriter(settings(kafka), repeats_matter=False).write("write", records)
        place = TopicPartition(name, 0, 3)
        assert kafka.admin().delete_records([place])[place].result(60).low_watermark == 3
        with ClusterLink(settings(kafka)) as link:

            async def look() -> tuple[Newest, list[bytes]]:
                headers: dict[int, dict[bytes, bytes]] = {}
                await link.open([name])
                return (await newest_records(link, name, {0: 5}, headers=headers))[0], sorted(headers[0])

            assert link.run(look) == ({b"kept": (3, b"3"), b"last": (4, b"4")}, [b"kept", b"last"])

    def test_leader_epochs(self, kafka: Cluster, name: str) -> None:
        kafka.create_topic(name, config={"cleanup.policy": "compact"})
        StateWriter(settings(kafka), repeats_matter=False).write("write", [NewRecord(name, 0, b"k", b"v")])
        with ClusterLink(settings(kafka)) as link:

            async def look() -> tuple[LogFacts, Any, Any]:
                await link.open([name])
                facts, ends = await log_facts(link, Place(name, 0)), await epoch_ends(link, {Place(name, 0): 7})
                return facts, ends, await link.listed({Place(name, 0): LATEST})

            facts, ends, listed = link.run(look)
            assert (facts.start, facts.local_start, facts.end, facts.compacted) == (0, 0, 1, True)
            assert ends == ({(name, 0): EpochEnd(0, 1)}, {})
            assert listed == ({(name, 0): LogOffset(1, -1, 0)}, {})

    def test_windows_count_what_a_consumer_sees(self, kafka: Cluster, name: str) -> None:
        kafka.create_topic(name)
        StateWriter(settings(kafka), repeats_matter=False).write("write", [NewRecord(name, 0, b"k", b"v")] * 4)
        with LogWindows(settings(kafka)) as windows:
            assert (windows.starts([Place(name, 0)]), windows.ends([Place(name, 0)])) == (
                {Place(name, 0): 0},
                {Place(name, 0): 4},
            )
            one = Window(name, 0, 1, 3)
            seen, faults = windows.read([one])
            assert (list(seen[one].offsets), seen[one].complete, faults) == ([1, 2], True, {})

    def test_a_batch_of_nonsense_is_refused(self, writer: Writer) -> None:
        data = bytearray(batch([b"v"]))
        data[-1] ^= 1
        assert writer.run(lambda: writer.put(bytes(data))).error_code == codes.CORRUPT_MESSAGE
        assert writer.run(lambda: writer.put(batch([b"x" * 1_100_000]))).error_code == codes.MESSAGE_TOO_LARGE
        assert writer.run(lambda: writer.put(batch([b"v"]))).error_code == codes.NONE

    def test_sequences_of_an_idempotent_producer(self, writer: Writer) -> None:
        writer.transactional_id = None
        who = writer.run(writer.init)

        def put(sequence: int, values: Sequence[bytes], epoch: int = 0) -> tuple[int, int]:
            data = batch(values, (who[0], who[1] + epoch), sequence)
            answer = writer.run(lambda: writer.put(data))
            return answer.error_code, answer.base_offset

        assert put(0, [b"a", b"b"]) == (codes.NONE, 0)
        assert put(2, [b"c"]) == (codes.NONE, 2)
        assert put(0, [b"a", b"b"]) == (codes.NONE, 0)
        assert put(2, [b"c"]) == (codes.NONE, 2)
        assert put(5, [b"d"])[0] == codes.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert put(3, [b"d"]) == (codes.NONE, 3)
        assert put(4, [b"e"], epoch=1)[0] == codes.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert put(0, [b"e"], epoch=1) == (codes.NONE, 4)
        assert put(4, [b"f"])[0] == codes.INVALID_PRODUCER_EPOCH

    def test_epochs_are_taken_asserted_and_refused(self, writer: Writer) -> None:
        taken = writer.run(writer.init)
        assert taken[1] == 0
        asserted = writer.run(lambda: writer.init(taken))
        assert asserted == (taken[0], 1)
        # The epoch before counts as a repetition: its answer may have been lost.
        assert writer.run(lambda: writer.init(taken)) == asserted
        assert writer.run(writer.init) == (taken[0], 2)
        for held in (taken, asserted):
            with pytest.raises(Fenced):
                writer.run(partial(writer.init, held))
        with pytest.raises(ConfigError):
            writer.run(lambda: writer.init(timeout_ms=2_000_000_000))

    @pytest.mark.parametrize("newer", [False, True], ids=["version-1", "version-2"])
    def test_a_transaction_hides_its_records_until_it_ends(self, kafka: Cluster, writer: Writer, newer: bool) -> None:
        topic, version = writer.topic, _V2 if newer else _V1
        who = writer.run(writer.init)
        producer = writer.producer(who, newer=newer)

        async def begin(value: bytes) -> int:
            await producer.add([Place(topic, 0)])
            data = batch(
                [value], (producer.producer_id, producer.epoch), producer.take(Place(topic, 0), 1), transactional=True
            )
            deadline = time.monotonic() + PATIENCE_SECONDS
            while True:
                answer = await writer.put(data, version=version)
                if answer.error_code != codes.CONCURRENT_TRANSACTIONS or time.monotonic() > deadline:
                    return answer.error_code
                await writer.link.loop.sleep(0.01)

        assert writer.run(lambda: writer.put(batch([b"plain"]))).error_code == codes.NONE
        assert writer.run(lambda: begin(b"committed")) == codes.NONE
        assert marks(kafka, topic) == (1, 2)
        assert writer.run(lambda: left_open(writer.link, [Place(topic, 0), Place(topic, 1)], who[0], 0.0)) == {
            Place(topic, 0): 1
        }
        assert values(kafka, topic) == [b"plain"]
        assert values(kafka, topic, committed=False) == [b"plain", b"committed"]
        assert writer.run(producer.commit) is False
        assert (producer.epoch > who[1]) is newer
        assert shown(lambda: marks(kafka, topic), (3, 3)) == (3, 3)
        assert writer.run(lambda: begin(b"aborted")) == codes.NONE
        held = (producer.producer_id, producer.epoch)
        # Another owner: what is open is aborted, what the old one still asks is refused.
        taken = writer.run(writer.init)
        assert taken[1] > held[1]
        assert shown(lambda: marks(kafka, topic), (5, 5)) == (5, 5)
        with pytest.raises((Fenced, UncertainCommit)):
            writer.run(producer.commit)
        late = batch([b"late"], held, 1, transactional=True)
        assert writer.run(lambda: writer.put(late, version=version)).error_code == codes.INVALID_PRODUCER_EPOCH
        assert values(kafka, topic) == [b"plain", b"committed"]
        with StateReader(settings(kafka)) as reader:
            seen: list[bytes | None] = []
            reader.read_by_markers(topic, {}, {0: 5}, lambda one: seen.append(one.value))
        assert seen == [b"plain", b"committed"]

    @pytest.mark.parametrize("newer", [False, True], ids=["version-1", "version-2"])
    def test_an_end_that_is_asked_for_again_is_recognized(self, kafka: Cluster, writer: Writer, newer: bool) -> None:
        topic, version = writer.topic, _V2 if newer else _V1
        who = writer.run(writer.init)
        producer = writer.producer(who, newer=newer)

        async def begin() -> None:
            await producer.add([Place(topic, 0)])
            assert not (await writer.put(batch([b"v"], who, 0, transactional=True), version=version)).error_code

        def end(committed: bool) -> tuple[int, int]:
            """The answer's code and epoch, once the markers are written."""

            async def ask() -> Any:
                request = EndTxnRequest(
                    version=5 if newer else 3,
                    transactional_id=writer.transactional_id,
                    producer_id=who[0],
                    producer_epoch=who[1],
                    committed=committed,
                )
                return await writer.link.send(await writer.link.coordinator(writer.transactional_id or ""), request)

            deadline = time.monotonic() + PATIENCE_SECONDS
            while True:
                answer = writer.run(ask)
                if answer.error_code != codes.CONCURRENT_TRANSACTIONS or time.monotonic() > deadline:
                    return answer.error_code, getattr(answer, "producer_epoch", -1) if newer else -1
                time.sleep(0.01)

        writer.run(begin)
        ended = end(committed=True)
        assert ended == (codes.NONE, who[1] + 1 if newer else -1)
        assert end(committed=True) == ended
        assert end(committed=False)[0] == codes.INVALID_TXN_STATE
        assert shown(lambda: marks(kafka, topic), (2, 2)) == (2, 2)

    def test_a_batch_outside_of_its_transaction_is_refused(self, writer: Writer) -> None:
        who = writer.run(writer.init)
        stray = batch([b"v"], who, 0, transactional=True)

        # The leader asks the coordinator, which it may have to find first.
        def refused() -> int:
            return int(writer.run(lambda: writer.put(stray)).error_code)

        assert shown(refused, codes.INVALID_TXN_STATE) == codes.INVALID_TXN_STATE

    def test_partitions_that_do_not_exist_are_not_taken_into_a_transaction(self, writer: Writer) -> None:
        producer = writer.producer(writer.run(writer.init), newer=False)
        none = f"{writer.topic}-none"
        refused = writer.run(lambda: producer.add([Place(writer.topic, 0), Place(none, 0)]))
        assert refused == {(none, 0): codes.UNKNOWN_TOPIC_OR_PARTITION}
        with pytest.raises((Fenced, UncertainCommit)):
            writer.run(producer.commit)

    @pytest.mark.parametrize("newer", [False, True], ids=["version-1", "version-2"])
    def test_an_empty_transaction_ends_what_is_open(self, kafka: Cluster, writer: Writer, newer: bool) -> None:
        who = writer.run(writer.init)
        producer = writer.producer(who, newer=newer)
        deadline = time.monotonic() + PATIENCE_SECONDS
        assert writer.run(lambda: producer.end_empty([Place(writer.topic, 1)], deadline=deadline)) is True
        assert producer.epoch > who[1]
        assert shown(lambda: marks(kafka, writer.topic, 1), (1, 1)) == (1, 1)

    def test_librdkafkas_transactions(self, kafka: Cluster, name: str) -> None:
        kafka.create_topic(name)
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": name, "log_level": 0})
        producer.init_transactions(60)
        for value, committed in ((b"a", True), (b"b", False), (b"c", True)):
            producer.begin_transaction()
            producer.produce(name, value, key=b"k")
            producer.flush(60)
            (producer.commit_transaction if committed else producer.abort_transaction)(60)
        assert shown(lambda: marks(kafka, name), (6, 6)) == (6, 6)
        assert values(kafka, name) == [b"a", b"c"]
        assert values(kafka, name, committed=False) == [b"a", b"b", b"c"]

    def test_a_compacted_topic_wants_keys(self, kafka: Cluster, name: str) -> None:
        kafka.create_topic(name, config={"cleanup.policy": "compact"})
        faults: list[KafkaError | None] = []
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
        producer.produce(name, b"v", on_delivery=lambda error, _: faults.append(error))
        assert producer.flush(60) == 0
        (fault,) = faults
        assert fault is not None
        assert fault.code() == KafkaError.INVALID_RECORD

    def test_a_topic_that_keeps_its_own_time(self, kafka: Cluster, name: str) -> None:
        kafka.create_topic(name, config={"message.timestamp.type": "LogAppendTime"})
        StateWriter(settings(kafka), repeats_matter=False).write(
            "write", [NewRecord(name, 0, b"k", b"v", _NOW_MS - 86_400_000)]
        )
        with StateReader(settings(kafka)) as reader:
            (record,) = reader.read(name)
        assert record.timestamp_ms >= _NOW_MS

    def test_the_clusters_clock(self, kafka: Cluster) -> None:
        offset = clock_offset(settings(kafka))
        assert offset is not None
        assert abs(offset.ahead_ms) < 60_000

"""The copy engine driven without Spark and Airflow: own the flow, cut ranges, copy slots, and judge the outcome."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowSettings
from srm_common.domain.offsets.offset_edits import LogRange
from srm_common.domain.offsets.segments import Segment
from srm_common.domain.runs.copying import CopyJob, CopyRange, RangeResult, SlotResult, SlotTask
from srm_common.domain.topic_partition import TopicPartition as Place
from srm_common.domain.verification.copy_comparison import CopyComparison
from srm_common.domain.verification.differences import DifferenceKind
from srm_common.domain.verification.unmapped_batches import CopyTraits
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.kafka.client.links.link_pool import LinkPool
from srm_common.kafka.log.committed_log import read_committed
from srm_common.kafka.state.segment_log import SegmentLog
from srm_common.kafka.state.source_offsets import read_source_offsets
from srm_common.kafka.state.state_reader import StateReader
from srm_common.kafka.state.state_topics import StateTopics, ensure_state_topics
from srm_common.replication.driver.ownership import Ownership
from srm_common.replication.slots.slot import copy_slot
from srm_common.testing import FakeCluster
from srm_common.wire.batches.batch import SourceBatch
from srm_common.wire.batches.batch_terms import copy_batch
from srm_common.wire.state.segment_map import SegmentMap
from tests.contract.parts import Cluster
from tests.kafka.flows import flow_between
from tests.kafka.markers import wait_until_readable
from tests.kafka.records import Placed, read_all

DEFAULT_LIMIT = 1_048_588
_PATIENCE_SECONDS = 240.0
Partition = tuple[str, int]


@dataclass
class Outcome:
    """What a pass brought."""

    slots: list[SlotResult]
    ranges: dict[Partition, RangeResult] = field(init=False)

    def __post_init__(self) -> None:
        self.ranges = {
            (result.upstream_topic, result.partition): result for slot in self.slots for result in slot.ranges
        }

    @property
    def errors(self) -> dict[Partition, str]:
        return {place: one.error for place, one in self.ranges.items() if one.error is not None}

    @property
    def records(self) -> int:
        return self.total("records")

    def total(self, what: str) -> int:
        """The sum of a figure of :class:`CopyStats` over all ranges."""
        return sum(getattr(result.copied, what) for result in self.ranges.values())


class Engine:
    """A flow between two clusters; topics are its own to make, with any settings on either side."""

    def __init__(self, source: Cluster, target: Cluster, alias: str, **settings: Any) -> None:
        self.source, self.target = source, target
        self.flow: FlowSettings = flow_between(source, target, alias, **settings)
        # Where clients need a login, the tests themselves come in by the open listener.
        self.flow = replace(
            self.flow,
            source=ClusterSettings.plaintext(self.flow.source.alias, source.internal_servers),
            target=ClusterSettings.plaintext(self.flow.target.alias, target.internal_servers),
        )
        self.state: StateTopics = ensure_state_topics(self.flow)
        self.limits: dict[str, int] = {}
        self._before: dict[Partition, RangeResult] = {}

    def copy_of(self, topic: str) -> str:
        """The downstream name."""
        return f"{self.flow.name.source}.{topic}"

    def create(
        self,
        topic: str,
        partitions: int = 1,
        source: Mapping[str, str] | None = None,
        target: Mapping[str, str] | None = None,
    ) -> None:
        """A topic and its copy, each with settings of its own."""
        self.source.create_topic(topic, partitions, config=source)
        self.target.create_topic(self.copy_of(topic), partitions, config=target)
        if target and "max.message.bytes" in target:
            self.limits[topic] = int(target["max.message.bytes"])

    def ends(self, *topics: str, committed: bool = True, held: bool = False) -> dict[Partition, int]:
        """Last stable offsets (or high watermarks) at the source, of every partition.

        ``held``: a transaction is open there on purpose.
        """
        known = self.source.admin().list_topics(timeout=60).topics
        places = [Place(topic, partition) for topic in topics for partition in known[topic].partitions]
        for topic in topics if committed and not held else ():
            wait_until_readable(self.source, topic, known[topic].partitions)
        with ClusterLink(self.flow.source) as link:
            found, faults = link.end_offsets(places, committed=committed)
        assert not faults
        return {place: end for place, end in found.items()}

    def committed(self) -> dict[Partition, int]:
        """Next offsets by the offsets topic."""
        offsets = read_source_offsets(self.flow, self.state)
        assert not offsets.faults
        return {place: offset for place, offset in offsets.items()}

    def copy(
        self,
        *topics: str,
        ends: Mapping[Partition, int] | None = None,
        starts: Mapping[Partition, int] | None = None,
        slots: int = 1,
        held: bool = False,
        clock: Callable[[], float] = time.monotonic,
        pool: LinkPool | None = None,
        **job: Any,
    ) -> Outcome:
        """One pass from what is committed (or ``starts``) to ``ends`` (default: all there is). ``clock`` is what
        tailing slots end by, and ``pool`` holds what their process keeps for the next pass."""
        exactly_once = job.get("exactly_once", True)
        targets = self.ends(*topics, committed=job.get("read_committed", True), held=held) | dict(ends or {})
        owner = Ownership.take(self.flow, slots, slots) if exactly_once else None
        try:
            offsets = read_source_offsets(self.flow, self.state)
            assert not offsets.faults
            positions: dict[Partition, int] = {place: offset for place, offset in offsets.items()}
            positions |= starts or {}
            ranges = [
                CopyRange(
                    topic,
                    self.copy_of(topic),
                    partition,
                    positions.get((topic, partition), 0),
                    end,
                    self.limits.get(topic, DEFAULT_LIMIT),
                    leader_epoch=-1 if starts else offsets.epochs.get(Place(topic, partition), -1),
                    unmapped=self._unmapped((topic, partition), positions.get((topic, partition), 0)),
                )
                for (topic, partition), end in sorted(targets.items())
            ]
            identities: Sequence[Any] = owner.identities if owner else [None] * slots
            tasks = [SlotTask(slot, identities[slot], tuple(ranges[slot::slots])) for slot in range(slots)]
            results = [copy_slot(self.job(**job), task, clock=clock, pool=pool) for task in tasks]
        finally:
            if owner is not None:
                owner.release()
        for result in results:
            assert result.fenced is None
            assert not result.needs_new_epoch, result.notes
        outcome = Outcome(results)
        self._before |= outcome.ranges
        return outcome

    def _unmapped(self, place: Partition, start: int) -> int:
        """What the pass before left for the map to tell, as the driver hands it on."""
        before = self._before.get(place)
        return before.unmapped if before is not None and before.position == start else 0

    def job(self, **settings: Any) -> CopyJob:
        """What all slots share."""
        flow, state = self.flow, self.state
        defaults: dict[str, Any] = {"retry_timeout_seconds": flow.retry_timeout_seconds}
        return CopyJob(
            str(flow.name),
            flow.name.source,
            flow.source,
            flow.target,
            state.offsets_topic,
            state.offsets_partitions,
            state.segments_topic,
            state.segments_partitions,
            **defaults | settings,
        )

    def segments(self, topic: str) -> dict[int, list[Segment]]:
        """The offset map of a topic by partition, in the order of the upstream offsets."""
        return self.all_segments().get(topic, {})

    def all_segments(self) -> dict[str, dict[int, list[Segment]]]:
        """The same of all topics."""
        with StateReader(self.flow.target) as reader:
            batch = SegmentLog(reader, self.state.segments_topic, self.state.segments_partitions).read_all()
        assert not batch.unreadable
        maps: dict[str, dict[int, list[Segment]]] = {}
        for (topic, partition), segments in batch.segments.items():
            maps.setdefault(topic, {})[partition] = sorted(segments, key=lambda one: one.upstream_start)
        return maps

    def check(self, topic: str, *, isolation: str = "read_committed", complete: bool = True, held: bool = False) -> int:
        """Assert that the copy is exact, and return how many records it has.

        For every partition: what a consumer of the target sees is what a consumer of the source sees up to the
        committed offset; the offset map covers it without overlap; and each record lies where the map says.
        """
        upstream = read_all(self.source, topic, isolation=isolation, held=held)
        downstream = read_all(self.target, self.copy_of(topic))
        committed = self.committed()
        ends = self.ends(topic, committed=isolation == "read_committed", held=held)
        maps = self.segments(topic)
        for partition, records in upstream.items():
            position = committed.get((topic, partition), 0)
            if complete:
                assert position == ends[topic, partition]
            expected = [record for record in records if record.offset < position]
            copied = downstream.get(partition, [])
            assert_same(expected, copied, f"{topic}-{partition}")
            check_map(maps.get(partition, []), expected, copied, position)
        self.check_fingerprints(topic)
        return sum(map(len, downstream.values()))

    def check_fingerprints(self, topic: str) -> None:
        """Assert that the copy is what the map has fingerprints of; others may have written to it."""
        with StateReader(self.flow.target) as reader, ClusterLink(self.flow.target) as link:
            batch = SegmentLog(reader, self.state.segments_topic, self.state.segments_partitions).read_all()
            for place, committed in batch.segments.items():
                if place.topic != topic:
                    continue
                copy = Place(self.copy_of(topic), place.partition)
                starts, _ = link.start_offsets([copy])
                ends, _ = link.end_offsets([copy])
                log = LogRange(starts[copy], ends[copy])
                comparison = CopyComparison(SegmentMap(committed), log, log.end, CopyTraits())
                show_to = partial(_show, comparison)
                link.run(partial(read_committed, link, copy.topic, {copy.partition: log.end}, show_to))
                findings = comparison.finish()
                # Tests write copies and segments of their own, too, and the copies of compacted topics are compacted.
                wrong = findings.counts.keys() - {
                    DifferenceKind.FOREIGN,
                    DifferenceKind.DOUBLED,
                    DifferenceKind.UNMAPPED,
                    DifferenceKind.COMPACTED,
                }
                assert not wrong, (
                    f"{place.topic}-{place.partition}: {[str(difference) for difference in findings.differences]}"
                )


class TailingTime:
    """A clock by which slots tail until the test says that their time is over."""

    #: For ``tail_until``, far enough for any machine.
    SECONDS = 3600.0

    def __init__(self) -> None:
        self.until = time.time() + self.SECONDS
        self._passed = 0.0

    def __call__(self) -> float:
        return self._passed

    def end(self) -> None:
        self._passed = 2 * self.SECONDS


class Background:
    """A copy in a thread of its own."""

    def __init__(self, engine: Engine, *topics: str, **job: object) -> None:
        self.outcome: Outcome | None = None
        self._error: BaseException | None = None

        def work() -> None:
            try:
                self.outcome = engine.copy(*topics, **job)  # type: ignore[arg-type]
            except BaseException as error:
                self._error = error

        self._thread = threading.Thread(target=work)
        self._thread.start()

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def result(self) -> Outcome:
        """Waits for its end."""
        self._thread.join(180)
        if self._error is not None:
            raise self._error
        assert self.outcome is not None
        return self.outcome


def slot_connections(cluster: FakeCluster) -> int:
    """How many connections slots have made; each begins with a question of kafka-python's for the broker's versions."""
    return sum(
        call.api == "ApiVersions" and call.client_id.startswith("srm.slot-") and call.body.client_software_name != "srm"
        for call in cluster.requests
    )


def _show(comparison: CopyComparison, _: int, batch: SourceBatch, _first: int) -> None:
    comparison.take(copy_batch(batch))


def wait_for_copies(
    engine: Engine, topic: str, partition: int, count: int, meanwhile: Callable[[], None] = lambda: None
) -> None:
    """Until a reader of committed records has seen ``count`` of them; ``meanwhile`` is called again and again."""
    consumer = Consumer(
        {
            "bootstrap.servers": engine.target.internal_servers,
            "group.id": "copies",
            "isolation.level": "read_committed",
            "allow.auto.create.topics": False,
        }
    )
    with contextlib.closing(consumer):
        consumer.assign([TopicPartition(engine.copy_of(topic), partition, 0)])
        deadline, seen = time.monotonic() + _PATIENCE_SECONDS, 0
        while seen < count:
            assert time.monotonic() < deadline, f"{seen} of {count} records were copied"
            meanwhile()
            seen += sum(message.error() is None for message in consumer.consume(count - seen, 0.2))


def assert_same(upstream: Sequence[Placed], downstream: Sequence[Placed], place: str) -> None:
    """The same records in the same order; says where the first difference is, not all of both."""
    for number, (up, down) in enumerate(zip(upstream, downstream, strict=False)):
        assert up.seen == down.seen, f"{place}: record {number} differs"
    assert len(upstream) == len(downstream), f"{place}: {len(upstream)} records upstream, {len(downstream)} downstream"


def check_map(
    segments: Sequence[Segment], upstream: Sequence[Placed], downstream: Sequence[Placed], position: int
) -> None:
    """The segments tile what was copied, and translate the offset of every record exactly."""
    pairs = iter(zip(upstream, downstream, strict=True))
    pair = next(pairs, None)
    end = 0
    for segment in segments:
        assert segment.upstream_start >= end
        assert segment.upstream_end <= position
        end = segment.upstream_end
        for run in segment.runs:
            counted = 0
            while pair is not None and pair[0].offset < run.upstream_end:
                up, down = pair[0].offset, pair[1].offset
                assert up >= run.upstream, f"the record at {up} lies between two runs"
                distance = up - run.upstream if run.dense else counted
                assert down == run.downstream + distance, f"the record at {up} is at {down}, not where the map says"
                counted += 1
                pair = next(pairs, None)
            assert counted == run.length
    assert pair is None, f"no segment covers the record at {pair[0].offset}" if pair else ""

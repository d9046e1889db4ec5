"""Runs of a flow between simulated clusters: the pass loop as it is, in a time that passes only by sleeping."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from srm_common.domain.flow import OnDataLoss
from srm_common.domain.flow.start_position import StartPosition, StartRules, parse_topic_starts
from srm_common.domain.runs.copying import ProducerIdentity
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.topics.selection import CopiedTopic
from srm_common.domain.topics.source_topics import SourceTopics
from srm_common.replication.driver.passes import Passes
from srm_common.replication.driver.starting_points import StartingPoints
from tests.unit.replication.driver.simulated_cluster import JOB, Log, SimulatedSlots, SimulatedSource, SimulatedTarget


class SimulatedFlow:
    """A flow between simulated clusters, over several runs; time passes only by sleeping."""

    def __init__(self, logs: dict[TopicPartition, Log], slots: int = 3) -> None:
        self.source = SimulatedSource(logs)
        self.target = SimulatedTarget(self.source, slots)
        self.slots = SimulatedSlots(self.target)
        self.memory = SourceTopics()
        self.notes: list[str] = []
        self.now = self.cpu = 0.0
        self.while_asleep: Callable[[], Any] = lambda: None

    def passes(self, **changes: Any) -> Passes:
        points = StartingPoints(
            source=self.source,
            memory=self.memory,
            read_committed=self.target.read_offsets,
            on_data_loss=changes.pop("on_data_loss", OnDataLoss.FAIL),
            rules=StartRules(
                parse_topic_starts(changes.pop("start_positions", "")), changes.pop("auto_offset_reset", "earliest")
            ),
            opposite_ends=changes.pop("opposite_ends", lambda places: {}),
            note=self.notes.append,
            now_ms=lambda: 1000 + int(self.now),
            override=(start := changes.pop("start", StartPosition())),
            overridden=set(self.source.logs) if start != StartPosition() else set(),
            last_ends=changes.pop("last_ends", {}),
            find_cut=changes.pop("find_cut", lambda committed: {}),
            on_target_loss=changes.pop("on_target_loss", OnDataLoss.FAIL),
        )
        return Passes(
            job=JOB,
            runner=self.slots,
            points=points,
            topics=self.topics,
            remember=self.remember,
            owner=self.target,
            slots_max=self.target.slots,
            record_bytes={"t": 1e7},
            clock=lambda: self.now,
            wall_clock=lambda: 1000 + self.now,
            sleep=self.sleep,
            cpu_clock=lambda: self.cpu,
            **changes,
        )

    def run(self, **changes: Any) -> Passes:
        passes = self.passes(**changes)
        self.target.refence()
        passes._identities = [*self.target.identities]
        passes.run()
        return passes

    def topics(self) -> Iterable[CopiedTopic]:
        for topic in sorted({topic for topic, _ in self.source.logs}):
            logs = {place.partition: log for place, log in self.source.logs.items() if place.topic == topic}
            yield CopiedTopic(topic, f"a.{topic}", 1 + max(logs), logs[max(logs)].topic_id)

    def remember(self, memory: SourceTopics, identity: ProducerIdentity | None) -> ProducerIdentity | None:
        self.memory = SourceTopics.from_json(memory.to_json())
        return None if self.slots.v1 else identity

    def sleep(self, seconds: float) -> None:
        self.now += max(seconds, 0.01)
        self.while_asleep()


def world(*lengths: int, **options: Any) -> SimulatedFlow:
    return SimulatedFlow(
        {TopicPartition("t", p): Log(records=[1000 * p + n for n in range(n)]) for p, n in enumerate(lengths)},
        **options,
    )


def copied(world: SimulatedFlow) -> dict[TopicPartition, list[int]]:
    return {place: records for place, records in sorted(world.target.records.items()) if records}


def everything(world: SimulatedFlow) -> dict[TopicPartition, list[int]]:
    return {place: log.records for place, log in sorted(world.source.logs.items()) if log.records}

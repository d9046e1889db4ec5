"""What a run does, process by process: the driver with its ownership and its passes, and a worker for each slot.

It is the code of :mod:`srm_common.usecases.runs.replicate` without its journal, which goes through librdkafka.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from srm_common.domain.flow import FlowSettings
from srm_common.domain.runs.copying import CopyJob, ProducerIdentity, SlotResult, SlotTask
from srm_common.domain.runs.partition_track import PartitionTrack
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.topics.selection import CopiedTopic
from srm_common.domain.topics.source_topics import SourceTopics
from srm_common.errors import Fenced, LostProcess, OwnershipError
from srm_common.kafka.client.links.link_pool import LinkPool
from srm_common.kafka.state.source_offsets import read_source_offsets
from srm_common.kafka.state.state_topics import StateTopics
from srm_common.replication.driver.hanging_transactions import Copy, end_hanging_transactions
from srm_common.replication.driver.ownership import Ownership
from srm_common.replication.driver.passes import Passes
from srm_common.replication.driver.source_view import SourceView
from srm_common.replication.driver.starting_points import Committed, StartingPoints
from srm_common.replication.slots.slot import copy_slot
from srm_common.replication.spark.slot_work import copied
from srm_common.usecases.runs.copy_job import copy_job
from tests.simulation.idle_loop import left_in
from tests.simulation.judge import Wrong
from tests.simulation.network import Network
from tests.simulation.world import Process, World


@dataclass
class Remembered:
    """The flow's state topic: it outlives drivers. Where topics start is written by transactions, which only the run
    that has taken the flow last can commit."""

    owner: Ownership | None = None
    topics: dict[str, Any] | None = None
    slots: int = 0


@dataclass
class Run:
    """How a run ended."""

    tracks: list[PartitionTrack]
    retries: int


@dataclass
class Driver:
    """The runs of one flow, as Airflow starts them.

    Args:
        slots: the most of a run.
        max_seconds: how long a run tails; 0 for one pass.
        topic_id: of a source topic, as its cluster lists it now.
        orphans: whether a pass ends as soon as a worker is lost, so that the others continue unwatched.
        keeps: whether workers stay for the next pass, with their connections, or each pass has new ones.
    """

    world: World
    flow: FlowSettings
    state: StateTopics
    topics: list[CopiedTopic]
    slots: int
    max_seconds: float
    job_settings: dict[str, Any]
    network: Network
    topic_id: Callable[[str], str]
    memory: Remembered = field(default_factory=Remembered)
    orphans: Callable[[], bool] = lambda: False
    keeps: bool = False
    #: What runs have noted, those that were killed included.
    notes: list[str] = field(default_factory=list)
    #: Processes of slots.
    workers: list[Process] = field(default_factory=list)
    #: What slots have left under way in workers that go on with others.
    left: set[str] = field(default_factory=set)
    #: Workers that wait for their driver's next pass.
    _idle: dict[Process, list[tuple[Process, LinkPool]]] = field(default_factory=dict)

    def run(self) -> Run:
        """One run, in the process that calls.

        Raises:
            SrmError: as a run does.
        """
        flow, memory = self.flow, self.memory
        with ExitStack() as stack:
            links = stack.enter_context(LinkPool())
            source = stack.enter_context(SourceView(flow, patience_seconds=flow.patience_seconds))
            job = replace(copy_job(flow, self.state), **self.job_settings)
            highest, memory.slots = memory.slots, max(memory.slots, self.slots)
            owner = Ownership.take(flow, self.slots, max(self.slots, highest), pool=links)
            memory.owner = owner
            runs: list[Passes] = []
            stack.push(lambda kind, error, trace: self._disown(owner, kind, job, runs, links))
            self._free(
                owner,
                job,
                [
                    Copy(TopicPartition(topic.upstream, number), TopicPartition(topic.downstream, number))
                    for topic in self.topics
                    for number in range(topic.partitions)
                ],
                links,
            )
            points = StartingPoints(
                source=source,
                memory=SourceTopics.from_json(memory.topics),
                read_committed=lambda: self._committed(links),
                on_data_loss=flow.on_data_loss,
                note=self.notes.append,
            )

            def remember(topics: SourceTopics, identity: ProducerIdentity | None) -> ProducerIdentity | None:
                if memory.owner is not owner:
                    raise Fenced(f"a newer run holds {flow.name}")
                memory.topics = topics.to_json()
                return identity

            passes = Passes(
                job=job,
                runner=self._copy,
                points=points,
                topics=self._listed,
                remember=remember,
                owner=owner,
                slots_max=self.slots,
                record_bytes={},
                max_seconds=self.max_seconds,
                patience_seconds=flow.retry_timeout_seconds,
                clock=lambda: self.world.now,
                wall_clock=self.world.unix_seconds,
                sleep=self.world.sleep,
                cpu_clock=lambda: 0.0,
            )
            runs.append(passes)
            passes.run()
        return Run(list(passes.tracks.values()), passes.retries)

    def _listed(self) -> list[CopiedTopic]:
        return [replace(topic, upstream_topic_id=self.topic_id(topic.upstream)) for topic in self.topics]

    def _committed(self, links: LinkPool) -> Committed:
        offsets = read_source_offsets(self.flow, self.state, patience_seconds=self.flow.patience_seconds, pool=links)
        faults = {place: str(fault) for place, fault in offsets.faults.items()}
        return Committed(offsets, faults, offsets.epochs, offsets.copied_to)

    def _free(self, owner: Ownership, job: CopyJob, copies: list[Copy], links: LinkPool) -> None:
        freed = end_hanging_transactions(job, owner.all_identities, copies, links)
        self.notes += freed.faults
        if freed.found_any:
            owner.refence()

    def _disown(
        self,
        owner: Ownership,
        kind: type[BaseException] | None,
        job: CopyJob,
        runs: list[Passes],
        links: LinkPool,
    ) -> bool:
        passes = runs[0] if runs else None
        untouched = kind is None and passes is not None and passes.count == 0
        if untouched or (kind is not None and issubclass(kind, OwnershipError)):
            owner.abandon()
            return False
        try:
            if kind is None and passes is not None and passes.retries:
                owner.refence()
                tracks = passes.tracks.values()
                copies = [
                    Copy(track.place, TopicPartition(track.downstream_topic, track.partition)) for track in tracks
                ]
                self._free(owner, job, copies, links)
        finally:
            owner.release()
        return False

    def check(self) -> None:
        """Raises Wrong where a slot has left something to the next one."""
        if self.left:
            raise Wrong(f"a slot has left {', '.join(sorted(self.left))} to the next one")

    def _stay(self, driver: Process, pool: LinkPool) -> None:
        """Inside a worker: wait for the driver's next pass, unless it is gone. In the world that is another process,
        which has the sockets of this one."""
        self.left |= left_in(pool.event_loop())
        if not driver.alive:
            pool.close()
        elif driver in self._idle:
            self._idle[driver].append((self.world.me(), pool))
        else:
            self._idle[driver] = [(self.world.me(), pool)]
            driver.ended.append(self._leave)

    def _leave(self, driver: Process) -> None:
        """The workers of a driver end with it."""
        for worker, _ in self._idle.pop(driver):
            self.network.kill(worker)

    def _copy(self, job: CopyJob, tasks: Sequence[SlotTask]) -> list[SlotResult]:
        """A pass, as Spark runs it: a task that was lost is not told what became of it."""
        world = self.world
        me = world.me()
        workers = []
        for task in tasks:
            idle = self._idle.get(me)
            before, pool = idle.pop(0) if idle else (None, LinkPool(one_loop=True) if self.keeps else None)

            def work(task: SlotTask = task, pool: LinkPool | None = pool) -> SlotResult:
                try:
                    return copied(partial(copy_slot, clock=lambda: world.now, pool=pool), job, task)
                finally:
                    if pool is not None and not world.me().killed:
                        self._stay(me, pool)

            worker = world.spawn(f"{me.name}/slot-{task.slot}", work)
            if before is not None:
                self.network.hand_over(before, worker)
            worker.ended.append(lambda _: me.wake())
            workers.append(worker)
        self.workers += workers
        while any(worker.alive for worker in workers):
            if any(worker.killed for worker in workers) and self.orphans():
                break
            me.wait()
        for worker in workers:
            if worker.error is not None:
                raise worker.error
        if any(worker.killed for worker in workers):
            raise LostProcess("a worker was lost")
        return [worker.value for worker in workers]

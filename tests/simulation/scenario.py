"""One seed: a random topology, load and faults, then everything heals, and the judge looks."""

from __future__ import annotations

import logging
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from unittest.mock import patch

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import OnDataLoss, names
from srm_common.domain.topics.selection import CopiedTopic
from srm_common.domain.topics.source_topics import SourceTopics
from srm_common.errors import SrmError
from srm_common.kafka.state.state_topics import StateTopics
from srm_common.replication.driver import passes
from srm_common.testing import FakeCluster
from srm_common.wire.protocol import fetch
from srm_common.wire.state.mm2 import parse_source_offset_key, parse_source_offset_value
from tests.flow_settings import small_flow
from tests.simulation.brokers import Brokers
from tests.simulation.determinism import inside
from tests.simulation.driver import Driver, Run
from tests.simulation.faults import Faults, Planned
from tests.simulation.judge import Judge, Wrong
from tests.simulation.load import Load, Partition
from tests.simulation.memory import Memory
from tests.simulation.network import Network
from tests.simulation.omissions import omit_aborted
from tests.simulation.refusals import Refusals
from tests.simulation.world import BEGIN_SECONDS, Process, World

_LOG = logging.getLogger("tests.simulation")
#: Load and faults happen for so long; afterwards everything has to be copied within this, and every partition has to
#: come forward within that.
LOAD_SECONDS = (3.0, 20.0)
HEALED_SECONDS = 14_400.0
STANDING_SECONDS = 300.0
_OFFSETS_PARTITIONS, _SEGMENTS_PARTITIONS = 3, 2


@dataclass(frozen=True)
class Outcome:
    """What came of a seed. ``wrong`` is None where every promise was kept.

    ``faults``: what was planned; ``struck``: the kinds of those that found something to strike; ``seconds``: of virtual
    time.
    """

    seed: int
    wrong: str | None
    records: int
    runs: int
    digest: str
    faults: tuple[Planned, ...]
    struck: tuple[str, ...] = ()
    seconds: float = 0.0


class _Failures(logging.Handler):
    """What a loop of ours only logs, because nobody waits for it."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        if self._world.current is not None and self._world.current.killed:
            return  # its sockets are gone already
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            text = f"{text}: {record.exc_info[1]!r}"
        self.texts.append(text)


class Scenario:
    """Everything of one seed.

    Args:
        planned: the faults, where the seed does not draw them, too.
    """

    def __init__(self, seed: int, planned: Sequence[Planned] | None = None) -> None:
        self.world = world = World(seed)
        draw = world.chance("topology")
        self._markers = world.chance("markers")
        self._longest_marker = draw.choice((0.0, 0.0, 0.02, 0.2))
        self.network = Network(world, latency=draw.choice((0.0002, 0.001, 0.005, 0.03)))
        #: Whether the source's brokers know neither ids of topics, nor how to compare logs when they are fetched from.
        self.by_name = world.chance("age").random() < 0.2
        older = {"Fetch": fetch.OLDEST_VERSION} if self.by_name else {}
        self.source = self._cluster(1, draw.choice((1, 2, 3)), {}, True, older)
        version = draw.choice((0, 2))
        self.target = self._cluster(2, draw.choice((1, 2, 3)), {"transaction.version": version}, draw.random() < 0.5)
        if draw.random() < 0.3:
            omit_aborted(self.source, draw.choice(self.source.nodes))
        self._pass_seconds = draw.choice((0.5, 2.0, 10.0))
        flow = small_flow(
            ClusterSettings.plaintext("source", self.source.bootstrap_servers),
            ClusterSettings.plaintext("target", self.target.bootstrap_servers),
            ".*",
            retry_timeout_seconds=draw.choice((3.0, 10.0, 30.0)),
            request_timeout_ms=draw.choice((3000, 10_000)),
            transaction_timeout_ms=draw.choice((5000, 15_000)),
            chunk_seconds=draw.choice((0.2, 1.0, 3.0)),
            chunk_bytes=draw.choice((2000, 20_000, 1 << 20)),
            fetch_partition_bytes=draw.choice((1024, 1 << 16)),
            chunk_linger_ms=draw.choice((10, 100)),
            fetch_max_wait_ms=draw.choice((50, 500)),
            on_data_loss=draw.choice((OnDataLoss.FAIL, OnDataLoss.SKIP)),
        )
        self.offsets_topic = names.offsets_topic("source")
        self.flow = replace(flow, tasks_max=draw.choice((1, 2, 3)))
        self.topics = {f"t{number}": draw.randrange(1, 4) for number in range(draw.randrange(1, 3))}
        self.load_seconds = draw.uniform(*LOAD_SECONDS)
        self._pause, self._burst = self.load_seconds / draw.choice((10, 40, 100)), draw.choice((1, 3, 10))
        self._transactional = draw.choice((0.0, 0.3, 0.8))
        self._max_seconds = draw.choice((0.0, 3.0, 30.0))
        self.runs = 0
        self.healed = False
        self._done = False
        #: How far runs have come, and when they got there.
        self._reached: dict[Partition, tuple[int, float]] = {}
        self.drivers: list[Process] = []
        self._failures = _Failures(world)
        self._planned = planned
        # Written by acks=all, a partition of three replicas may lack one, and none while two are away.
        few = len(self.target.nodes) > 1 and world.chance("replicas").random() < 0.4
        self._target_settings = {"min.insync.replicas": "2"} if few else {}

    def _cluster(
        self, number: int, nodes: int, features: dict[str, int], verifies: bool, newest: dict[str, int] | None = None
    ) -> FakeCluster:
        return FakeCluster(
            nodes,
            name=f"cluster-{number}",
            features=features,
            newest=newest,
            settings={
                "transaction.state.log.num.partitions": "3",
                "default.replication.factor": str(nodes),
                "auto.create.topics.enable": "false",
            },
            service=partial(Brokers, self.network, number),
            marker_seconds=self._marker_seconds,
            verifies=verifies,
        )

    def _marker_seconds(self) -> float:
        return self._markers.uniform(0.0, self._longest_marker)

    def play(self) -> Outcome:
        """Never raises: what went wrong is in the outcome."""
        world = self.world
        wrong: str | None = None
        records = 0
        plan: tuple[Planned, ...] = ()
        struck: list[str] = []
        with ExitStack() as stack:
            stack.enter_context(inside(world, self.network))
            log = logging.getLogger("srm_common")
            log.addHandler(self._failures)
            stack.callback(log.removeHandler, self._failures)
            stack.callback(world.end)
            stack.enter_context(patch.object(passes, "PASS_SECONDS", self._pass_seconds))
            memory = Memory(world, stack, self.flow.fetch_bytes, len(self.source.nodes))
            self._begin()
            refusals = Refusals(self.target)
            faults = self._faults = Faults(self, self._planned)
            plan, struck = faults.plan, faults.struck
            try:
                world.run(lambda: self._done, BEGIN_SECONDS + self.load_seconds + HEALED_SECONDS)
                records = self._judge()
                refusals.check(len(plan))
                memory.check()
                self.driver.check()
            except Exception as error:
                wrong = f"{type(error).__name__}: {error}"
        if wrong is None and self._failures.texts:
            wrong = f"logged: {self._failures.texts[0]}"
        return Outcome(world.seed, wrong, records, self.runs, world.digest, plan, tuple(struck), round(self.seconds, 3))

    @property
    def seconds(self) -> float:
        """Since the begin."""
        return self.world.now - BEGIN_SECONDS

    def say(self, what: str) -> None:
        """For whoever watches a seed."""
        _LOG.info("%s", what)

    # ---- inside

    def _begin(self) -> None:
        for cluster in (self.source, self.target):
            cluster.start()
        for topic, partitions in self.topics.items():
            self.source.create_topic(topic, partitions)
            self.target.create_topic(f"source.{topic}", partitions, config=self._target_settings)
        state = StateTopics(
            self.offsets_topic, _OFFSETS_PARTITIONS, names.segments_topic("source"), _SEGMENTS_PARTITIONS
        )
        for name, count in (
            (state.offsets_topic, _OFFSETS_PARTITIONS),
            (state.segments_topic, _SEGMENTS_PARTITIONS),
        ):
            self.target.create_topic(name, count, config={"cleanup.policy": "compact", **self._target_settings})
        self.load = Load(self.world, self.source, self.topics, transactional=self._transactional)
        draw = self.world.chance("driver")
        self.driver = Driver(
            self.world,
            self.flow,
            state,
            [CopiedTopic(topic, f"source.{topic}", partitions) for topic, partitions in self.topics.items()],
            self.flow.tasks_max,
            self._max_seconds,
            {},
            self.network,
            self._topic_id,
            orphans=lambda: draw.random() < 0.5,
            keeps=self.world.chance("workers").random() < 0.5,
        )
        self.judge = Judge(
            self.load, self.target, {topic: f"source.{topic}" for topic in self.topics}, state.segments_topic
        )
        self.start_driver()
        self.world.after(self._pause, self._write)
        self.world.after(self.load_seconds, self._heal)

    def _write(self) -> None:
        if not self.healed:
            for _ in range(self._burst):
                self.load.write()
            self.world.after(self._pause, self._write)

    def _heal(self) -> None:
        self.healed = True
        self.say("healed")
        self._faults.heal()
        self.load.finish()
        self._reached = {place: (0, self.world.now) for place in self.load.written}
        self.world.after(STANDING_SECONDS, self._look_for_standing)

    def has_progress(self, place: Partition) -> bool:
        """Whether the flow has committed a source offset of a partition."""
        return place in self._committed()

    def _topic_id(self, topic: str) -> str:
        return urlsafe_b64encode(self.source._topics.topics[topic].topic_id.bytes).rstrip(b"=").decode()

    def _committed(self) -> dict[Partition, int]:
        """The offset behind the last copied record, by partition."""
        positions = {}
        for number in range(_OFFSETS_PARTITIONS):
            for record in self.target.records(self.offsets_topic, number):
                key, last = parse_source_offset_key(record.key), parse_source_offset_value(record.value)
                if key is not None and last is not None:
                    positions[key[2:]] = last + 1
        return positions

    def start_driver(self) -> Process:
        """Begin a run, as the scheduler does."""
        self.runs += 1
        process = self.world.spawn(f"driver-{self.runs}", self.driver.run)
        process.ended.append(self._ended)
        self.drivers.append(process)
        return process

    def _ended(self, process: Process) -> None:
        if self.world.current is None and process.killed and self._done:
            return
        error = process.error
        if error is not None and not isinstance(error, SrmError):
            self._failures.texts.append(f"a run ended with {error!r}")
            self._done = True
            return
        run = process.value
        self.world.note("run", process.name, repr(error))
        self.say(f"{process.name} ended: {error or run}")
        if isinstance(run, Run):
            self._come_forward({track.place: track.position or 0 for track in run.tracks})
            self._look_for_loss(run)
        if self.healed and isinstance(run, Run) and self._complete(run):
            self._done = True
        elif not any(driver.alive for driver in self.drivers if driver is not process):
            self.world.after(1.0, self._again)

    def _again(self) -> None:
        if not self._done and not any(driver.alive for driver in self.drivers):
            self.start_driver()

    def _look_for_loss(self, run: Run) -> None:
        lost = {(track.upstream_topic, track.partition) for track in run.tracks if track.error_kind == "DataLost"}
        if lost:
            # The operator has read it, and decides.
            self.judge.told |= lost
            self.driver.flow = replace(self.driver.flow, on_data_loss=OnDataLoss.SKIP)

    def _look_for_standing(self) -> None:
        """However slow the network is: no partition may wait until the others have nothing left."""
        self._come_forward(self._committed())
        for (topic, number), (position, since) in self._reached.items():
            if position < self.source.log(topic, number).stable and self.world.now - since > STANDING_SECONDS:
                raise Wrong(f"{topic}-{number} stands at {position} since {since - BEGIN_SECONDS:.0f} s")
        self.world.after(STANDING_SECONDS / 10, self._look_for_standing)

    def _come_forward(self, positions: Mapping[Partition, int]) -> None:
        for place, position in positions.items():
            if position > self._reached.get(place, (0, 0.0))[0]:
                self._reached[place] = position, self.world.now

    def _complete(self, run: Run) -> bool:
        """Whether the run has copied everything; the next one begins where it could not, and finds out about topics
        that were created again in its course."""
        known = SourceTopics.from_json(self.driver.memory.topics)
        return not any(known.is_other(topic, self._topic_id(topic)) for topic in self.topics) and all(
            track.error is None and track.position == self.source.log(*track.place).stable for track in run.tracks
        )

    def _judge(self) -> int:
        if self.source._server.failures or self.target._server.failures:
            raise Wrong((self.source._server.failures + self.target._server.failures)[0])
        for place in self.load.written:
            if any(note.startswith(f"{place[0]}-{place[1]}: ") for note in self.driver.notes):
                self.judge.told.add(place)
        return self.judge.check()

"""A scenario: records are written live, a run copies them, something happens, a last run ends, both sides are equal.

Every random choice comes from the scenario's own dice, so that the seed in a failure's text repeats it (apart from the
operating system's timing).
"""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from confluent_kafka import IsolationLevel, TopicPartition

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.topic_partition import TopicPartition as Place
from srm_common.domain.verification.differences import NotProved
from srm_common.domain.verification.verification import Against, Verdict
from srm_common.errors import SrmError
from srm_common.kafka.state.source_offsets import read_source_offsets
from srm_common.kafka.state.state_topics import StateTopics, ensure_state_topics
from srm_common.testing import LocalKafka
from srm_common.usecases.topics.apply import apply_plan
from srm_common.usecases.topics.plan_topics import plan_topics
from srm_common.usecases.verification.verify_copies import verify_copies
from tests.faults.fork_server import ForkServer
from tests.faults.live_writer import LiveWriter
from tests.faults.run import PATIENCE, Run
from tests.faults.verification import differences, ends, numbered_once, ongoing, read_committed, unstable
from tests.spark.standalone import StandaloneSpark

SOURCE, TARGET = "src", "dst"
DONE, OWNED_ELSEWHERE = 0, 5
#: For targets that are killed: 4.3 skips transaction markers of partitions that have no leader yet (KAFKA-20734), and
#: a cluster of one node has none right after its start.
KEEPS_ITS_MARKERS = "4.1.1"
#: Where the slots of a run are: in worker processes, or in Spark.
WORKERS, SPARK = "tests.faults.copier", "tests.faults.spark_copier"
#: Longer than any fault and all that is waited for meanwhile: a run that is to be killed does not end by itself.
LONG = 900.0
#: A few seconds hold dozens of transactions, and nothing waits for long.
SMALL_CHUNKS: dict[str, Any] = {
    "chunk_bytes": 48 << 10,
    "chunk_seconds": 0.3,
    "fetch_bytes": 1 << 20,
    "fetch_partition_bytes": 16 << 10,
    "transaction_timeout_ms": 10_000,
    "request_timeout_ms": 5_000,
    "retry_timeout_seconds": 60.0,
}


class Scenario:
    """One topic from one cluster to another. ``flow`` has small chunks, so that a few seconds hold many.

    ``clusters`` is how the flow reaches source and target, where that is not by their plain addresses. ``spark``: where
    runs in Spark have their executors, if not in the driver's JVM.
    """

    def __init__(
        self,
        source: LocalKafka,
        target: LocalKafka,
        folder: Path,
        seed: int,
        fork_server: ForkServer,
        *,
        name: str,
        partitions: int = 4,
        module: str = WORKERS,
        aliases: tuple[str, str] = (SOURCE, TARGET),
        target_address: str | None = None,
        clusters: tuple[ClusterSettings, ClusterSettings] | None = None,
        spark: StandaloneSpark | None = None,
        topic_settings: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> None:
        self.source, self.target = source, target
        self.dice = random.Random(seed)
        self.seed = seed
        self.topic = name
        self.remote = f"{aliases[0]}.{name}"
        self.partitions = partitions
        self.folder = folder
        self.fork_server = fork_server
        self.spark = spark
        self._module = SPARK if spark is not None else module
        self._runs = 0
        self._started: list[Run] = []
        self._began = time.monotonic()
        chosen: dict[str, Any] = {
            key: -1 for key in FlowSettings.__dataclass_fields__ if key.endswith("replication_factor")
        }
        chosen |= SMALL_CHUNKS | settings
        self.flow = replace(
            FlowSettings(
                FlowName(*aliases),
                *(
                    clusters
                    or (
                        ClusterSettings.plaintext(aliases[0], source.bootstrap_servers),
                        ClusterSettings.plaintext(aliases[1], target_address or target.bootstrap_servers),
                    )
                ),
            ),
            topics=(re.escape(name),),
            **chosen,
        )
        source.create_topic(name, partitions=partitions, config=topic_settings)
        self._state: StateTopics | None = None
        self.refresh_topics()

    def refresh_topics(self) -> None:
        """Create the remote topic as the flow would."""
        faults = [str(result) for result in apply_plan(self.flow, plan_topics(self.flow)) if result.error]
        assert not faults, faults

    def set(self, **settings: Any) -> None:
        """Change settings of the flow for the runs to come."""
        self.flow = replace(self.flow, **settings)
        self.note(f"settings {settings}")

    @property
    def state(self) -> StateTopics:
        """The flow's state topics."""
        if self._state is None:
            self._state = ensure_state_topics(self.flow)
        return self._state

    def note(self, text: str) -> None:
        """A line of the scenario's diary, shown when the test fails."""
        print(f"{self.topic} {time.monotonic() - self._began:6.2f} s  {text}")

    # ---- runs

    def start_run(self, max_seconds: float, *, until_copying: bool = False, module: str | None = None) -> Run:
        """Start a run as a process; 0: one pass to the end as it is then.

        ``until_copying``: return when its workers are there. A run that finds a cluster away at its start ends.
        """
        self._runs += 1
        run = Run(
            self.fork_server,
            self.flow,
            self.folder / f"run-{self._runs}",
            max_seconds,
            module or self._module,
            self.spark,
        )
        self._started.append(run)
        self.note(f"run {self._runs} started")
        deadline = time.monotonic() + PATIENCE
        while until_copying and not run.workers():
            assert run.process.running, f"the run ended: {run.outcome()}; {run.process.tail()}"
            assert time.monotonic() < deadline, f"it has no workers; {run.process.tail()}"
            time.sleep(0.05)
        return run

    def last_run(self, *, module: str = WORKERS) -> Run:
        """A clean run to the end, which must be done without an error; what earlier runs left is the same to all."""
        run = self.start_run(0, module=module)
        code = run.process.wait(PATIENCE)
        self.note(f"it ended with {code}")
        assert code == DONE, f"the last run ended with {code}: {run.outcome()}; {run.process.tail()}"
        return run

    @contextmanager
    def writing(self, **options: Any) -> Iterator[LiveWriter]:
        """Write live while the block lasts."""
        with LiveWriter(
            self.source.internal_servers, self.topic, self.partitions, self.dice.randrange(1 << 30), **options
        ) as writer:
            yield writer

    def wait_for_copied(self, run: Run, offsets: int = 1, timeout_seconds: float = PATIENCE) -> None:
        """Return when the remote topic has that many offsets, while ``run`` is at work."""
        deadline = time.monotonic() + timeout_seconds
        while self.copied_offsets() < offsets:
            assert run.process.running, f"the run ended: {run.outcome()}; {run.process.tail()}"
            assert time.monotonic() < deadline, f"nothing was copied in {timeout_seconds} s; {run.process.tail()}"
            time.sleep(0.05)

    def copied_offsets(self) -> int:
        """How many offsets the remote topic has, markers included."""
        return sum(self.copied_ends().values())

    def copied_ends(self) -> dict[int, int]:
        """The last stable offset of each partition of the remote topic."""
        return self._ends(self.target, self.remote)

    def _ends(self, kafka: LocalKafka, topic: str) -> dict[int, int]:
        places = [TopicPartition(topic, partition) for partition in range(self.partitions)]
        found = ends(kafka, places, IsolationLevel.READ_COMMITTED)
        return {place.partition: found[f"{topic}-{place.partition}"] for place in places}

    def wait_until_caught_up(self, run: Run, timeout_seconds: float = PATIENCE) -> None:
        """Return when all that was written is committed on the target; ``run`` must do it without ending."""
        deadline = time.monotonic() + timeout_seconds
        while True:
            # Asked again each time: markers of the last transactions may still be on their way.
            wanted = self._ends(self.source, self.topic)
            try:
                committed = read_source_offsets(self.flow, self.state)
            except SrmError as error:
                positions: object = error
            else:
                positions = {one: committed.get(Place(self.topic, one), 0) for one in wanted}
                if positions == wanted:
                    self.note("caught up")
                    return
            assert run.process.running, f"the run ended: {run.outcome()}; {run.process.tail()}"
            assert time.monotonic() < deadline, f"not caught up: {positions}, not {wanted}; {run.process.tail()}"
            time.sleep(0.1)

    def strike(self, run: Run, fault: Fault, before: tuple[float, float]) -> None:
        """The fault, a random moment (from, to; seconds) after the run has copied something more."""
        self.wait_for_copied(run, self.copied_offsets() + 1)
        self.pause(*before)
        self.note(f"fault, {self.copied_offsets()} offsets copied")
        fault(self, run)
        self.note("fault is over")

    def pause(self, low: float, high: float) -> None:
        """A random moment."""
        time.sleep(self.dice.uniform(low, high))

    # ---- the end

    def verify(self, *, exactly: bool = True, alone: bool = True) -> int:
        """Both sides are equal and nothing holds readers back; the number of records.

        Not ``exactly``: repetitions at the target are allowed, but nothing is missing and the order is kept. Not
        ``alone``: MirrorMaker 2 has copied in turns with the flow, of which the offset map has no fingerprints.
        """
        expected = read_committed(self.source.internal_servers, self.topic, self.partitions)
        actual = read_committed(self.target.internal_servers, self.remote, self.partitions)
        if not exactly:
            expected, actual = numbered_once(expected), numbered_once(actual)
        found = differences(expected, actual)
        assert not found, "\n".join(map(str, found))
        left = ongoing(self.target, self.flow.name)
        assert not left, f"the last run left transactions open: {left}"
        held = unstable(self.target, [self.remote, self.state.offsets_topic, self.state.segments_topic])
        assert not held, f"last stable offset is not the high watermark: {held}"
        if exactly:
            self._prove(alone)
        records = sum(map(len, expected.values()))
        self.note(f"{records} records are equal")
        return records

    def _prove(self, alone: bool) -> None:
        """The copy is what the map has fingerprints of, whatever was aborted and copied again; and what others have
        copied is counted."""
        target = ClusterSettings.plaintext(self.flow.target.alias, self.target.internal_servers)
        verification = verify_copies(replace(self.flow, target=target), chosen=lambda topic: topic == self.topic)
        assert verification.clean, [
            str(difference) for partition in verification.partitions for difference in partition.findings.differences
        ]
        if alone:
            assert verification.counts.keys() <= {Verdict.PROVED, Verdict.NOTHING}, verification.counts
            return
        left: Counter[NotProved] = Counter()
        for verified in verification.partitions:
            assert verified.verdict is Verdict.PARTLY, verified
            assert verified.findings.proved, verified
            left.update(verified.findings.not_proved)
        self.note(f"not proved: {dict(left)}")
        assert left.keys() <= {NotProved.NOT_COPIED, NotProved.BEFORE_MAP, NotProved.NO_FINGERPRINT}, left
        assert left[NotProved.NOT_COPIED], left
        source = ClusterSettings.plaintext(self.flow.source.alias, self.source.internal_servers)
        both = replace(self.flow, source=source, target=target)
        compared = verify_copies(both, against=Against.SOURCE, chosen=lambda topic: topic == self.topic)
        for verified in compared.partitions:
            assert verified.verdict is Verdict.PROVED, verified

    def close(self) -> None:
        """End every process of the scenario, orphaned workers included."""
        for run in self._started:
            run.kill_all()


Fault = Callable[[Scenario, Run], None]


def survive(
    scenario: Scenario,
    *faults: Fault,
    before_fault: tuple[float, float] = (0.0, 0.8),
    exactly: bool = True,
    **writing: Any,
) -> int:
    """The run itself must outlive one fault after another and catch up; it is then killed, and a last run finishes."""
    with scenario.writing(**writing):
        run = scenario.start_run(LONG)
        for fault in faults:
            scenario.strike(run, fault, before_fault)
            scenario.pause(0.2, 0.6)
    scenario.wait_until_caught_up(run)
    run.kill_all()
    scenario.last_run()
    return scenario.verify(exactly=exactly)


def take_over(
    scenario: Scenario, *faults: Fault, before_fault: tuple[float, float] = (0.0, 0.8), **writing: Any
) -> int:
    """Each fault ends its run; the next one takes over while records are still written, and a last one finishes."""
    with scenario.writing(**writing):
        for fault in faults:
            scenario.strike(scenario.start_run(LONG, until_copying=True), fault, before_fault)
        if scenario.dice.random() < 0.5:
            scenario.last_run()
    scenario.last_run()
    return scenario.verify()

"""Several faults of random kinds in one scenario, with random settings, on stages of one node and of three.

``SOAK_REPORT`` names a file that gets a line of JSON for each round; ``python -m tests.faults.rounds`` makes a table in
docs/reliability.md of it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from srm_common.testing import LocalKafka, LocalMirrorMaker
from tests.faults.broker_clock import BrokerClock
from tests.faults.certificates import Certificates
from tests.faults.conftest import SOAK_ROUNDS
from tests.faults.lossy_proxy import LossyProxy
from tests.faults.mirror_maker import mirror_maker
from tests.faults.random_faults import ENDS, Stage
from tests.faults.rounds import Round
from tests.faults.run import PATIENCE, Run
from tests.faults.scenario import KEEPS_ITS_MARKERS, LONG, OWNED_ELSEWHERE, SOURCE, TARGET, Scenario
from tests.kafka.flows import read, write
from tests.kafka.records import eventually
from tests.spark.standalone import StandaloneSpark

pytestmark = [pytest.mark.faults, pytest.mark.kafka]

#: All clients of the flow, so that one quota counts for them, and proxies know them.
CLIENT = "srm"
SETTINGS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    # Quotas are about the last two seconds; by default eleven.
    "quota.window.num": "2",
}
#: What MirrorMaker 2 copies beside the flow.
_OTHERS = "others"


def _behind(stack: ExitStack, name: str, folder: Path, **options: object) -> tuple[LocalKafka, LossyProxy, BrokerClock]:
    """A cluster of one node that clients reach through a proxy, and its clock."""
    proxy, clock = LossyProxy(CLIENT), BrokerClock(folder)
    settings = SETTINGS | {"advertised.listeners": f"CLIENT://{proxy.address}"}
    kafka = LocalKafka(name=name, settings=settings, java_options=[clock.java_option], **options)  # type: ignore[arg-type]
    stack.enter_context(proxy.before(kafka.bootstrap_servers))
    stack.enter_context(kafka)
    return kafka, proxy, clock


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Stage]]:
    """One source, and targets of both kinds of transactions."""
    with ExitStack() as stack:
        source, source_proxy, source_clock = _behind(stack, "source", tmp_path_factory.mktemp("source"))
        stages = []
        for number in ("2", "0"):
            target, target_proxy, target_clock = _behind(
                stack,
                f"target-{number}",
                tmp_path_factory.mktemp(f"target-{number}"),
                version=KEEPS_ITS_MARKERS,
                features={"transaction.version": number},
            )
            label = f"one node, transaction.version={number}"
            clocks = {"source": source_clock, "target": target_clock}
            stages.append(Stage(label, source, target, source_proxy, target_proxy, clocks=clocks))
        yield stages


@pytest.fixture(scope="module")
def trios() -> Iterator[Stage]:
    """Three nodes on each side."""
    with (
        LocalKafka(nodes=3, name="source", settings=SETTINGS) as source,
        LocalKafka(nodes=3, name="target", settings=SETTINGS) as target,
    ):
        yield Stage("three nodes", source, target)


@pytest.fixture(scope="module")
def executors(pairs: list[Stage], tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Stage]]:
    """The same, for runs whose slots are in executors of a cluster. It has room for a run that takes over from another
    one, and for one more."""
    with StandaloneSpark(tmp_path_factory.mktemp("spark"), cores=3) as spark:
        yield [replace(pair, label=f"Spark, {pair.label}", spark=spark) for pair in pairs]


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One node on each side, and mutual TLS."""
    certificates = {side: Certificates(tmp_path_factory.mktemp(side)) for side in ("source", "target")}
    settings = {side: SETTINGS | one.settings for side, one in certificates.items()}
    with (
        LocalKafka(name="source", client_protocol="SSL", settings=settings["source"]) as source,
        LocalKafka(
            name="target", version=KEEPS_ITS_MARKERS, client_protocol="SSL", settings=settings["target"]
        ) as target,
    ):
        yield Stage("one node, mutual TLS", source, target, certificates=certificates)


@pytest.fixture(scope="module")
def beside() -> Iterator[tuple[Stage, LocalMirrorMaker]]:
    """One node on each side, and MirrorMaker 2, which copies another topic under the names that the flow has: both have
    their source offsets in one topic."""
    with (
        LocalKafka(name="source", settings=SETTINGS) as source,
        LocalKafka(name="target", version=KEEPS_ITS_MARKERS, settings=SETTINGS) as target,
    ):
        source.create_topic(_OTHERS)
        target.create_topic(f"{SOURCE}.{_OTHERS}")
        with mirror_maker(source, target, _OTHERS, exactly_once=False, offsets_ms=500) as started:
            yield Stage("one node, beside MirrorMaker 2", source, target), started


def _play(stage: Stage, scenario: Callable[..., Scenario], round_: int, transaction_timeouts_ms: list[int]) -> None:
    clusters = (
        stage.cluster("source", SOURCE),
        stage.cluster("target", TARGET),
    )
    for proxy in (stage.source_proxy, stage.target_proxy):
        if proxy is not None:
            proxy.calm()
    one = scenario(
        stage.source,
        stage.target,
        clusters=tuple(replace(cluster, client_id=CLIENT) for cluster in clusters),
        partitions=3 + round_ % 4,
        spark=stage.spark,
    )
    dice = one.dice
    one.set(
        # An executor is a JVM.
        tasks_max=dice.choice([1, 2, 3] if stage.spark is None else [1, 2]),
        chunk_bytes=dice.choice([32 << 10, 96 << 10, 1 << 20]),
        chunk_seconds=dice.choice([0.05, 0.3, 1.0]),
        transaction_timeout_ms=dice.choice(transaction_timeouts_ms),
    )
    kinds = stage.kinds()
    played = Round(one.seed, stage.label)
    began = time.monotonic()
    try:
        with one.writing(rate=3000):
            run = one.start_run(LONG, until_copying=True)
            for _ in range(dice.randrange(2, 4)):
                one.wait_for_copied(run, one.copied_offsets() + 1)
                one.pause(0.0, 0.7)
                kind = dice.choice(list(kinds))
                one.note(f"{stage.label}: {kind}")
                played.faults.append(kind)
                kinds[kind](stage, one, run)
                if kind in ENDS:
                    run = one.start_run(LONG, until_copying=True)
                elif dice.random() < 0.3:
                    run = _other_run(one, run)
            one.pause(0.0, 0.5)
        one.wait_until_caught_up(run)
        one.last_run()
        played.records = one.verify()
    finally:
        played.seconds = round(time.monotonic() - began, 1)
        if report := os.environ.get("SOAK_REPORT"):
            played.append_to(Path(report))


def _other_run(one: Scenario, run: Run) -> Run:
    """Start another run, which takes the flow; whichever of the two goes on.

    Nearly always the new one. Where the answer to the earlier one's assertion was lost with its coordinator, it asks
    again, and may take the flow back before the new one has asserted itself: exactly one of them owns it then, too.
    """
    one.note("another run takes over")
    other = one.start_run(LONG)
    deadline = time.monotonic() + PATIENCE
    while not other.workers():
        assert time.monotonic() < deadline, f"it has no workers; {other.process.tail()}"
        if not other.process.running:
            code = other.process.wait(PATIENCE)
            assert code == OWNED_ELSEWHERE, f"the run ended with {code}: {other.outcome()}; {other.process.tail()}"
            assert run.process.running, f"both runs ended: {run.outcome()}; {run.process.tail()}"
            one.note("the earlier run keeps the flow")
            return run
        time.sleep(0.05)
    return other


@pytest.mark.parametrize("round_", range(4))
def test_several_faults(pairs: list[Stage], scenario: Callable[..., Scenario], round_: int) -> None:
    _play(pairs[round_ % 2], scenario, round_, [10_000])


@pytest.mark.soak
@pytest.mark.parametrize("round_", range(SOAK_ROUNDS))
def test_several_faults_for_long(pairs: list[Stage], scenario: Callable[..., Scenario], round_: int) -> None:
    # Two seconds: a killed broker may time transactions out while it loads, and then lose the markers of their abort.
    # Such a partition is left out with a sentence of its own, which ends the round.
    _play(pairs[round_ % 2], scenario, round_, [2000, 10_000])


@pytest.mark.soak
@pytest.mark.parametrize("round_", range(SOAK_ROUNDS))
def test_several_faults_of_three_nodes(trios: Stage, scenario: Callable[..., Scenario], round_: int) -> None:
    _play(trios, scenario, round_, [10_000])


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.parametrize("round_", range(-(-SOAK_ROUNDS // 4)))
def test_several_faults_with_executors(executors: list[Stage], scenario: Callable[..., Scenario], round_: int) -> None:
    _play(executors[round_ % 2], scenario, round_, [2000, 10_000])


@pytest.mark.soak
@pytest.mark.parametrize("round_", range(-(-SOAK_ROUNDS // 4)))
def test_several_faults_with_certificates(certified: Stage, scenario: Callable[..., Scenario], round_: int) -> None:
    _play(certified, scenario, round_, [10_000])


@pytest.mark.soak
@pytest.mark.parametrize("round_", range(-(-SOAK_ROUNDS // 4)))
def test_several_faults_beside_mirror_maker(
    beside: tuple[Stage, LocalMirrorMaker], scenario: Callable[..., Scenario], round_: int
) -> None:
    """It has to go on, too, and to copy what is written after the faults."""
    stage, other = beside
    _play(stage, scenario, round_, [10_000])
    value = b"after round %d" % round_
    write(stage.source, _OTHERS, [value])
    eventually(lambda: value in {seen.value for seen in read(stage.target, f"{SOURCE}.{_OTHERS}")}, PATIENCE, "no copy")
    assert other.running, other.log_path.read_text()[-3000:]

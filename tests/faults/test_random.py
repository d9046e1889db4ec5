"""Several faults of random kinds in one scenario, with random settings, at targets of both kinds of transactions."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from srm_common.testing import LocalKafka
from tests.faults.conftest import SOAK_ROUNDS
from tests.faults.lossy_proxy import ADD_PARTITIONS, END_TXN, INIT_PRODUCER_ID, PRODUCE, LossyProxy
from tests.faults.scenario import KEEPS_ITS_MARKERS, LONG, Run, Scenario

pytestmark = [pytest.mark.faults, pytest.mark.kafka]

QUICK_TIMEOUTS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}


@dataclass(frozen=True)
class Stage:
    """Where the scenarios play: a source, and targets behind proxies."""

    source: LocalKafka
    targets: dict[str, tuple[LocalKafka, LossyProxy]]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    proxies = {"transaction.version=2": LossyProxy(), "transaction.version=0": LossyProxy()}
    targets = {
        name: LocalKafka(
            name=f"target-{name[-1]}",
            version=KEEPS_ITS_MARKERS,
            settings=QUICK_TIMEOUTS | {"advertised.listeners": f"CLIENT://{proxy.address}"},
            features={"transaction.version": name[-1]},
        )
        for name, proxy in proxies.items()
    }
    newer, older = proxies
    with (
        LocalKafka(name="source") as source,
        proxies[newer].before(targets[newer].bootstrap_servers),
        proxies[older].before(targets[older].bootstrap_servers),
        targets[newer],
        targets[older],
    ):
        yield Stage(source, {name: (targets[name], proxies[name]) for name in proxies})


def _play(stage: Stage, scenario: Callable[..., Scenario], dice_of: int, transaction_timeouts_ms: list[int]) -> None:
    name = list(stage.targets)[dice_of % 2]
    target, proxy = stage.targets[name]
    proxy.calm()
    one = scenario(stage.source, target, target_address=proxy.address, partitions=3 + dice_of % 4)
    dice = one.dice
    one.set(
        tasks_max=dice.choice([1, 2, 3]),
        chunk_bytes=dice.choice([32 << 10, 96 << 10, 1 << 20]),
        chunk_seconds=dice.choice([0.05, 0.3, 1.0]),
        transaction_timeout_ms=dice.choice(transaction_timeouts_ms),
    )

    def lose_answers(run: Run) -> None:
        for kind in (PRODUCE, END_TXN, INIT_PRODUCER_ID, ADD_PARTITIONS):
            proxy.lose_share(kind, 0.1)
        one.pause(0.5, 1.5)
        proxy.calm()

    def stand_still(run: Run) -> None:
        run.signal_all(signal.SIGSTOP)
        one.pause(0.5, 4.0)
        run.signal_all(signal.SIGCONT)

    def kill_worker(run: Run) -> None:
        run.kill_a_worker(dice)

    def kill_target(run: Run) -> None:
        target.kill()
        one.pause(0.0, 1.0)
        target.restart()

    def kill_source(run: Run) -> None:
        stage.source.kill()
        one.pause(0.0, 1.0)
        stage.source.restart()

    def target_stands_still(run: Run) -> None:
        target.pause()
        one.pause(0.5, 3.0)
        target.resume()

    def kill_driver(run: Run) -> None:
        run.kill_driver()

    def kill_all(run: Run) -> None:
        run.kill_all()

    ends: list[Callable[[Run], None]] = [kill_driver, kill_all]
    others: list[Callable[[Run], None]] = [
        lose_answers,
        stand_still,
        kill_worker,
        kill_target,
        kill_source,
        target_stands_still,
    ]
    with one.writing(rate=3000):
        run = one.start_run(LONG, until_copying=True)
        for _ in range(dice.randrange(2, 4)):
            one.wait_for_copied(run, one.copied_offsets() + 1)
            one.pause(0.0, 0.7)
            fault = dice.choice(ends + others)
            one.note(f"{name}: {fault.__name__}")
            fault(run)
            if fault in ends:
                run = one.start_run(LONG, until_copying=True)
            elif dice.random() < 0.3:
                one.note("another run takes over")
                run = one.start_run(LONG, until_copying=True)
        one.pause(0.0, 0.5)
    one.wait_until_caught_up(run)
    one.last_run()
    one.verify()


@pytest.mark.parametrize("round_", range(4))
def test_several_faults(stage: Stage, scenario: Callable[..., Scenario], round_: int) -> None:
    _play(stage, scenario, round_, [10_000])


@pytest.mark.soak
@pytest.mark.parametrize("round_", range(SOAK_ROUNDS))
def test_several_faults_for_long(stage: Stage, scenario: Callable[..., Scenario], round_: int) -> None:
    # Two seconds: a killed broker may time transactions out while it loads, and then lose the markers of their abort.
    # Such a partition is left out with a sentence of its own, which ends the round.
    _play(stage, scenario, round_, [2000, 10_000])

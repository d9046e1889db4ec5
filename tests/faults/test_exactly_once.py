"""Exactly once, whatever is killed or stopped: nothing lost, nothing doubled, order kept.

The slots run in worker processes here instead of Spark's, so that a round takes seconds; test_spark.py has the same
scenario with Spark.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import pytest

from srm_common.domain.transforms.chain import Step, StepKind
from srm_common.testing import LocalKafka
from tests.faults.run import PATIENCE, Run
from tests.faults.scenario import KEEPS_ITS_MARKERS, LONG, OWNED_ELSEWHERE, Scenario, survive, take_over

pytestmark = [pytest.mark.faults, pytest.mark.kafka]

#: A timed-out transaction is looked for every ten seconds by default.
QUICK_TIMEOUTS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}

Clusters = tuple[LocalKafka, LocalKafka]
MakeScenario = Callable[..., Scenario]


@pytest.fixture(scope="module")
def clusters() -> Iterator[Clusters]:
    """A source and a target of this module's own: they are killed again and again."""
    target = LocalKafka(name="target", version=KEEPS_ITS_MARKERS, settings=QUICK_TIMEOUTS)
    with LocalKafka(name="source") as source, target:
        yield source, target


def test_driver_killed(clusters: Clusters, scenario: MakeScenario) -> None:
    """Its workers live on as orphans while the next run takes over."""

    def kill(one: Scenario, run: Run) -> None:
        run.kill_driver()

    take_over(scenario(*clusters), *[kill] * 3)


def test_driver_and_workers_killed(clusters: Clusters, scenario: MakeScenario) -> None:
    """Open transactions are left behind."""

    def kill(one: Scenario, run: Run) -> None:
        run.kill_all()

    take_over(scenario(*clusters), *[kill] * 2)


def test_driver_workers_and_broker_killed_while_batches_are_opened(clusters: Clusters, scenario: MakeScenario) -> None:
    """A transform changes none of these records, but takes each batch apart and puts it together again."""
    opened = (Step("clean", StepKind.DROP_HEADERS, ("absent",)),)

    def kill(one: Scenario, run: Run) -> None:
        run.kill_all()

    def kill_a_worker(one: Scenario, run: Run) -> None:
        run.kill_a_worker(one.dice)

    def kill_target(one: Scenario, run: Run) -> None:
        one.target.kill()
        one.pause(0.0, 1.5)
        one.target.restart()

    take_over(scenario(*clusters, transforms=opened), kill)
    survive(scenario(*clusters, transforms=opened), kill_a_worker, kill_target)


def test_workers_killed(clusters: Clusters, scenario: MakeScenario) -> None:
    """The run notices, fences and goes on."""

    def kill(one: Scenario, run: Run) -> None:
        run.kill_a_worker(one.dice)

    survive(scenario(*clusters), *[kill] * 3)


def test_target_broker_killed(clusters: Clusters, scenario: MakeScenario) -> None:
    """And started again after a moment; the same run goes on."""

    def kill(one: Scenario, run: Run) -> None:
        one.target.kill()
        one.pause(0.0, 1.5)
        one.target.restart()

    survive(scenario(*clusters), *[kill] * 2)


@pytest.mark.soak
def test_target_away_for_longer_than_a_write_is_waited_for(clusters: Clusters, scenario: MakeScenario) -> None:
    """As long as ``retry.timeout.seconds`` allows, the run goes on: what it tells of itself can wait."""

    def stay_away(one: Scenario, run: Run) -> None:
        one.target.kill()
        one.pause(45.0, 50.0)
        one.target.restart()

    survive(scenario(*clusters, retry_timeout_seconds=180.0), stay_away)


def test_source_broker_killed(clusters: Clusters, scenario: MakeScenario) -> None:
    """And started again after a moment; the same run goes on."""

    def kill(one: Scenario, run: Run) -> None:
        one.source.kill()
        one.pause(0.0, 1.5)
        one.source.restart()

    survive(scenario(*clusters), *[kill] * 2)


def test_zombies_are_refused(clusters: Clusters, scenario: MakeScenario) -> None:
    """A run that stood still while another took over, wakes up: it may write nothing, and says who owns the flow."""
    one = scenario(*clusters)
    with one.writing():
        for stopped in ("everything", "driver", "workers"):
            zombie = one.start_run(LONG, until_copying=True)
            one.wait_for_copied(zombie, one.copied_offsets() + 1)
            one.pause(0.0, 0.8)
            one.note(f"{stopped} of it stands still")
            if stopped == "everything":
                zombie.signal_all(signal.SIGSTOP)
            elif stopped == "driver":
                zombie.signal_driver(signal.SIGSTOP)
            else:
                for worker in zombie.workers():
                    os.kill(worker, signal.SIGSTOP)
            one.pause(0.0, 0.3)
            one.last_run()
            zombie.signal_all(signal.SIGCONT)
            assert zombie.process.wait(PATIENCE) == OWNED_ELSEWHERE, zombie.outcome()
            assert "another run took over flow" in zombie.outcome()
    one.last_run()
    one.verify()


def test_transaction_timed_out_without_a_successor(clusters: Clusters, scenario: MakeScenario) -> None:
    """The broker aborted the transaction of a run that stood still; the run goes on with it once more."""
    one = scenario(*clusters, transaction_timeout_ms=1500)

    def stand_still(one: Scenario, run: Run) -> None:
        run.signal_all(signal.SIGSTOP)
        one.pause(2.5, 4.0)
        run.signal_all(signal.SIGCONT)

    survive(one, stand_still)

"""Exactly once with Spark: its driver, JVM and Python workers are killed, or stand still while others take over."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator

import pytest

from srm_common.domain.transforms.statements import Statement
from srm_common.testing import LocalKafka
from tests.faults.run import PATIENCE, Run
from tests.faults.scenario import LONG, OWNED_ELSEWHERE, SPARK, Scenario, survive, take_over

pytestmark = [pytest.mark.faults, pytest.mark.kafka, pytest.mark.spark]

Clusters = tuple[LocalKafka, LocalKafka]
MakeScenario = Callable[..., Scenario]


@pytest.fixture(scope="module")
def clusters() -> Iterator[Clusters]:
    with LocalKafka(name="source") as source, LocalKafka(name="target") as target:
        yield source, target


def test_driver_killed(clusters: Clusters, scenario: MakeScenario) -> None:
    """Python's side of the driver; JVM and workers end by themselves a little later, or copy on meanwhile."""
    take_over(scenario(*clusters, module=SPARK), lambda _, run: run.kill_driver())


def test_jvm_killed(clusters: Clusters, scenario: MakeScenario) -> None:
    def kill(one: Scenario, run: Run) -> None:
        run.jvm().kill()

    take_over(scenario(*clusters, module=SPARK), kill)


def test_workers_killed(clusters: Clusters, scenario: MakeScenario) -> None:
    """Spark starts its task again, which copies nothing; the run fences and goes on."""

    def kill(one: Scenario, run: Run) -> None:
        run.kill_a_worker(one.dice)

    survive(scenario(*clusters, module=SPARK), *[kill] * 2)


def test_zombie_is_refused(clusters: Clusters, scenario: MakeScenario) -> None:
    """The whole application stands still while another one takes over."""
    one = scenario(*clusters, module=SPARK)
    with one.writing():
        zombie = one.start_run(LONG)
        one.wait_for_copied(zombie)
        one.pause(0.0, 0.8)
        zombie.signal_all(signal.SIGSTOP)
        one.last_run(module=SPARK)
        zombie.signal_all(signal.SIGCONT)
        assert zombie.process.wait(PATIENCE) == OWNED_ELSEWHERE, zombie.outcome()
    one.last_run()
    one.verify()


def test_workers_killed_on_the_way_through_spark_sql(clusters: Clusters, scenario: MakeScenario) -> None:
    """Those that copy, and those that lead to Spark SQL; the statement changes none of these records."""
    same = (Statement("transforms.sql", "SELECT substr(value, 1) AS value FROM records WHERE offset >= 0"),)

    def kill(one: Scenario, run: Run) -> None:
        run.kill_a_worker(one.dice)
        # The last run is one without Spark.
        one.set(statements=())

    survive(scenario(*clusters, module=SPARK, statements=same), *[kill] * 2)

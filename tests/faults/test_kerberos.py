"""Exactly once between clusters with Kerberos alone: drivers and workers die, and the next ones need tickets of their
own, while brokers want the login again over the same connections every few seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from srm_common.testing import LocalKafka
from tests.faults.fork_server import ForkServer
from tests.faults.run import Run
from tests.faults.scenario import SOURCE, TARGET, Scenario, survive, take_over
from tests.kafka.access.secured import Secured
from tests.kdc import LocalKdc, needs_kerberos
from tests.kerberized import asked, broker, by_keytab, running

pytestmark = [pytest.mark.faults, pytest.mark.kafka, needs_kerberos]

#: A timed-out transaction is looked for every ten seconds by default.
_QUICK_TIMEOUTS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}

Clusters = tuple[LocalKafka, LocalKafka]
MakeScenario = Callable[..., Scenario]


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKdc]:
    with asked(tmp_path_factory.mktemp("kdc")) as kdc:
        yield kdc


@pytest.fixture(scope="module")
def fork_server(kdc: LocalKdc) -> Iterator[ForkServer]:
    """Of this module: its runs find the KDC by their environment."""
    with ForkServer() as server:
        yield server


@pytest.fixture(scope="module")
def clusters(kdc: LocalKdc) -> Iterator[Clusters]:
    both = broker(kdc, "source", "kafka"), broker(kdc, "target", "kafka", settings=_QUICK_TIMEOUTS)
    with running(*both):
        yield both


@pytest.fixture
def logged_in(kdc: LocalKdc, clusters: Clusters, scenario: MakeScenario, keytab: Path) -> MakeScenario:
    """Makes scenarios whose runs log in with a keytab."""
    login = by_keytab("copier", keytab)
    reached = tuple(
        Secured(kafka, login).cluster(alias) for kafka, alias in zip(clusters, (SOURCE, TARGET), strict=True)
    )
    return lambda **settings: scenario(*clusters, clusters=reached, **settings)


@pytest.fixture(scope="module")
def keytab(kdc: LocalKdc) -> Path:
    return kdc.keytab("copier")


def kill_driver(one: Scenario, run: Run) -> None:
    """Its workers live on as orphans."""
    run.kill_driver()


def kill_all(one: Scenario, run: Run) -> None:
    run.kill_all()


def kill_a_worker(one: Scenario, run: Run) -> None:
    run.kill_a_worker(one.dice)


def test_drivers_that_are_killed(logged_in: MakeScenario) -> None:
    assert take_over(logged_in(), kill_driver, kill_all, kill_driver) > 0


def test_workers_that_are_killed_also_while_there_are_no_tickets(logged_in: MakeScenario, kdc: LocalKdc) -> None:
    def kill_while_the_kdc_is_away(one: Scenario, run: Run) -> None:
        kdc.stop()
        try:
            run.kill_a_worker(one.dice)
            one.pause(3.0, 6.0)
        finally:
            kdc.start()

    assert survive(logged_in(), kill_a_worker, kill_while_the_kdc_is_away, kill_a_worker) > 0

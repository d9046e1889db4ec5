"""Answers that never come, and requests that never arrive: what was carried out twice, or not at all, must not show.

Both ways to end a transaction: with ``transaction.version`` 2 each commit hands out a new epoch and partitions join
by themselves; before, partitions are added by a request of their own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import pytest

from srm_common.testing import LocalKafka
from tests.faults.lossy_proxy import (
    ADD_PARTITIONS,
    END_TXN,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    METADATA,
    PRODUCE,
    LossyProxy,
)
from tests.faults.run import PATIENCE, Run
from tests.faults.scenario import Scenario, survive

pytestmark = [pytest.mark.faults, pytest.mark.kafka]


@dataclass(frozen=True)
class Target:
    """A broker behind a proxy."""

    kafka: LocalKafka
    proxy: LossyProxy


def _behind_proxy(features: dict[str, str]) -> Iterator[Target]:
    proxy = LossyProxy()
    settings = {"advertised.listeners": f"CLIENT://{proxy.address}"}
    kafka = LocalKafka(name="target", settings=settings, features=features)
    with proxy.before(kafka.bootstrap_servers), kafka:
        yield Target(kafka, proxy)


@pytest.fixture(scope="module")
def source() -> Iterator[LocalKafka]:
    with LocalKafka(name="source") as kafka:
        yield kafka


@pytest.fixture(scope="module")
def newest() -> Iterator[Target]:
    """``transaction.version`` as the newest Kafka formats it: 2."""
    yield from _behind_proxy({})


@pytest.fixture(scope="module")
def older() -> Iterator[Target]:
    """``transaction.version`` 0."""
    yield from _behind_proxy({"transaction.version": "0"})


#: At an older target, partitions are added by a request of their own.
ALL = [PRODUCE, END_TXN, INIT_PRODUCER_ID, FIND_COORDINATOR, METADATA]
AT_NEWER = [[PRODUCE], [END_TXN], ALL]
AT_OLDER = [[PRODUCE], [END_TXN], [ADD_PARTITIONS], [*ALL, ADD_PARTITIONS, ADD_PARTITIONS]]
LOSSES = 3
FREQUENT = {PRODUCE, END_TXN, ADD_PARTITIONS}


def test_lost_at_a_new_target(source: LocalKafka, newest: Target, scenario: Callable[..., Scenario]) -> None:
    _lose(source, newest, scenario, AT_NEWER)


def test_lost_at_an_older_target(source: LocalKafka, older: Target, scenario: Callable[..., Scenario]) -> None:
    _lose(source, older, scenario, AT_OLDER)


def _lose(source: LocalKafka, target: Target, scenario: Callable[..., Scenario], rounds: list[list[int]]) -> None:
    one = scenario(source, target.kafka, target_address=target.proxy.address, chunk_seconds=0.1)
    proxy = target.proxy
    proxy.calm()

    def lose(kinds: list[int], one: Scenario, run: Run) -> None:
        before = proxy.lost.total()
        enough, limit = time.monotonic() + 2.5, time.monotonic() + PATIENCE
        # Several at least, however long that takes on a slow machine: a loss may hold a worker up for seconds.
        while time.monotonic() < enough or proxy.lost.total() - before < LOSSES:
            kind = one.dice.choice(kinds)
            if kind not in FREQUENT:
                # It comes after the next loss of another kind.
                proxy.lose_answers(kind)
                kind = END_TXN
            lost = proxy.lost[kind]
            if one.dice.random() < 0.75:
                proxy.lose_answers(kind)
            else:
                proxy.lose_requests(kind)
            # The next loss only after progress, else nothing but new beginnings would be tested.
            while proxy.lost[kind] == lost:
                assert run.process.running, f"the run ended: {run.outcome()}; {run.process.tail()}"
                assert time.monotonic() < limit, f"no request of kind {kind} in {PATIENCE:.0f} s"
                time.sleep(0.01)
            one.pause(0.0, 0.4)
        proxy.calm()
        one.note(f"{proxy.lost.total() - before} of kinds {kinds} lost")

    survive(one, *[partial(lose, kinds) for kinds in rounds])

"""A target whose clock is far from ours: it takes no state records, and the flow says why and loses nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from srm_common.domain.runs.run_record import RunState
from srm_common.errors import ClusterError
from srm_common.testing import LocalKafka
from tests.faults.broker_clock import BrokerClock
from tests.kafka.access.secured import Secured, assert_equal, flow_of, topic_of
from tests.kafka.records import plain, produce
from tests.kafka.topic_pairs import run

pytestmark = pytest.mark.kafka

#: By default brokers take nothing that is more than an hour ahead of their clocks.
BEHIND = -7200.0


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> BrokerClock:
    return BrokerClock(tmp_path_factory.mktemp("clock"))


@pytest.fixture(scope="module")
def target(clock: BrokerClock) -> Iterator[LocalKafka]:
    with LocalKafka(name="behind", java_options=[clock.java_option]) as kafka:
        yield kafka


def _shift(clock: BrokerClock, seconds: float) -> None:
    clock.shift(seconds)
    time.sleep(0.5)


def test_a_target_whose_clock_is_two_hours_behind(
    source_kafka: LocalKafka, target: LocalKafka, clock: BrokerClock, name: str
) -> None:
    flow = flow_of(Secured(source_kafka), Secured(target), name, tasks_max=1, retry_timeout_seconds=600.0)
    copy = topic_of(Secured(source_kafka), flow, name, 2)
    for partition in range(2):
        produce(source_kafka, name, partition, plain(100))
    told = (
        rf"state topic \S+ at cluster '{flow.name.target}' refuses records for their time: the clock of this machine "
        "and that of the broker are too far apart; set both right and run again; nothing is lost"
    )
    try:
        _shift(clock, BEHIND)
        with pytest.raises(ClusterError, match=told):
            run(flow)
    finally:
        _shift(clock, 0.0)
    record = run(flow)
    assert (record.state, record.error) == (RunState.DONE, None), record.notes
    assert assert_equal(Secured(source_kafka), name, Secured(target), copy) == 200

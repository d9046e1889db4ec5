"""Real brokers answer as the fake cluster does: see :mod:`tests.contract`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from srm_common.testing import BrokerJvm, LocalKafka
from tests.contract.access_contract import AccessContract
from tests.contract.groups_contract import GroupsContract
from tests.contract.leaders_contract import LeadersContract, MarkersContract, Moving
from tests.contract.limits_contract import LimitsContract
from tests.contract.records_contract import RecordsContract, writer
from tests.contract.refusals_contract import RefusalsContract
from tests.contract.replicas_contract import Lagging, QuotasContract, ReplicasContract, Throttled
from tests.contract.topics_contract import TopicsContract
from tests.faults.leaders import move_leader
from tests.faults.quotas import quota
from tests.kafka.topic_limits import LIMITING, limits_option

__all__ = ["writer"]

pytestmark = pytest.mark.kafka


@pytest.fixture
def kafka(source_kafka: LocalKafka) -> LocalKafka:
    return source_kafka


@pytest.fixture(scope="module")
def guarded(broker_jvm: BrokerJvm) -> Iterator[LocalKafka]:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with LocalKafka(name="guarded", settings=settings, jvm=broker_jvm) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKafka]:
    option = limits_option(tmp_path_factory.mktemp("topic-limits"))
    with LocalKafka(name="limited", settings=LIMITING, java_options=[option]) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def replicated() -> Iterator[LocalKafka]:
    with LocalKafka(nodes=3, name="replicated") as kafka:
        yield kafka


def _lagging(kafka: LocalKafka, code: int) -> Lagging:
    @contextmanager
    def follow_not(leader: int) -> Iterator[None]:
        follower = next(node for node in kafka.nodes if node != leader)
        kafka.pause(follower)
        try:
            yield
        finally:
            kafka.resume(follower)

    return Lagging(kafka, follow_not, code)


@pytest.fixture(params=[7, 20], ids=["timed-out", "too-few"])
def lagging(request: pytest.FixtureRequest) -> Iterator[Lagging]:
    """Since 3.7 the high watermark waits for enough replicas (KIP-966), and so does the answer."""
    if request.param == 7:
        yield _lagging(request.getfixturevalue("replicated"), 7)
    else:
        with LocalKafka(nodes=3, version="3.3.2", name="replicated-3") as kafka:
            yield _lagging(kafka, 20)


@pytest.fixture
def moving(replicated: LocalKafka) -> Moving:
    @contextmanager
    def away(node: int) -> Iterator[None]:
        replicated.pause(node)
        try:
            yield
        finally:
            replicated.resume(node)

    return Moving(replicated, partial(move_leader, replicated), away)


@pytest.fixture
def throttled(kafka: LocalKafka) -> Throttled:
    keys = {"Produce": "producer_byte_rate", "Fetch": "consumer_byte_rate"}
    return lambda api: quota(kafka, keys[api], 10_000)


class TestTopics(TopicsContract):
    pass


class TestLimits(LimitsContract):
    pass


class TestRecords(RecordsContract):
    pass


class TestGroups(GroupsContract):
    pass


class TestAccess(AccessContract):
    pass


class TestReplicas(ReplicasContract):
    pass


class TestQuotas(QuotasContract):
    pass


class TestRefusals(RefusalsContract):
    pass


class TestLeaders(LeadersContract):
    pass


# On a busy machine it takes many attempts.
@pytest.mark.soak
class TestMarkers(MarkersContract):
    pass

"""The fake cluster answers as real brokers do: see :mod:`tests.contract`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from srm_common.testing import FakeCluster
from tests.contract.access_contract import AccessContract
from tests.contract.groups_contract import GroupsContract
from tests.contract.leaders_contract import LeadersContract, MarkersContract, Moving
from tests.contract.limits_contract import LimitsContract
from tests.contract.records_contract import RecordsContract, writer
from tests.contract.refusals_contract import RefusalsContract
from tests.contract.replicas_contract import Lagging, QuotasContract, ReplicasContract, Throttled
from tests.contract.topics_contract import TopicsContract
from tests.managed_clusters import confluent_cloud

__all__ = ["writer"]


@pytest.fixture(params=[(1, 0.0), (3, 0.0), (1, 0.05)], ids=["one-node", "three-nodes", "late-markers"])
def kafka(request: pytest.FixtureRequest) -> Iterator[FakeCluster]:
    nodes, seconds = request.param
    with FakeCluster(nodes=nodes, marker_seconds=lambda: seconds) as kafka:
        yield kafka
        assert kafka.made_on_demand() == set()


@pytest.fixture
def guarded() -> Iterator[FakeCluster]:
    with FakeCluster(authorizer=True) as kafka:
        yield kafka


@pytest.fixture
def limited() -> Iterator[FakeCluster]:
    with FakeCluster() as kafka:
        kafka.limit_settings(confluent_cloud)
        yield kafka


@pytest.fixture
def replicated() -> Iterator[FakeCluster]:
    with FakeCluster(nodes=3) as kafka:
        yield kafka


@pytest.fixture(params=[7, 20], ids=["timed-out", "too-few"])
def lagging(replicated: FakeCluster, request: pytest.FixtureRequest) -> Lagging:
    return Lagging(replicated, lambda leader: replicated.refuse_after(request.param), request.param)


@pytest.fixture
def moving() -> Iterator[Moving]:
    with FakeCluster(nodes=3, marker_seconds=lambda: 0.001) as kafka:

        @contextmanager
        def away(node: int) -> Iterator[None]:
            kafka.stop(node)
            yield
            kafka.restart(node)

        yield Moving(kafka, kafka.move_leader, away)


@pytest.fixture
def throttled(kafka: FakeCluster) -> Throttled:
    return lambda api: kafka.throttle(api, 0.05)


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


class TestMarkers(MarkersContract):
    pass

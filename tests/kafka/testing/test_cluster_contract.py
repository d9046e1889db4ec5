"""Real brokers answer as the fake cluster does: see :mod:`tests.contract`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from srm_common.testing import LocalKafka
from tests.contract.access_contract import AccessContract
from tests.contract.groups_contract import GroupsContract
from tests.contract.records_contract import RecordsContract, writer
from tests.contract.topics_contract import TopicsContract

__all__ = ["writer"]

pytestmark = pytest.mark.kafka


@pytest.fixture
def kafka(source_kafka: LocalKafka) -> LocalKafka:
    return source_kafka


@pytest.fixture(scope="module")
def guarded() -> Iterator[LocalKafka]:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with LocalKafka(name="guarded", settings=settings) as kafka:
        yield kafka


class TestTopics(TopicsContract):
    pass


class TestRecords(RecordsContract):
    pass


class TestGroups(GroupsContract):
    pass


class TestAccess(AccessContract):
    pass

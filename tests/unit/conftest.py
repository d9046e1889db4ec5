"""No server here: clusters are fakes, a pair of their own for each test that wants them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from srm_common.testing import FakeCluster


def _own(name: str) -> Iterator[FakeCluster]:
    with FakeCluster(name=name) as kafka:
        yield kafka
        assert kafka.made_on_demand() == set(), "a client made topics by asking about them"


@pytest.fixture
def source_kafka() -> Iterator[FakeCluster]:
    """The cluster ``source``: one node, nothing on it."""
    yield from _own("source")


@pytest.fixture
def target_kafka() -> Iterator[FakeCluster]:
    """The cluster ``target``: one node, nothing on it."""
    yield from _own("target")

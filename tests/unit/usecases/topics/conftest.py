from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from srm_common.testing import FakeCluster, LocalRegistry
from tests.unit.usecases.fakes import Sides
from tests.unit.usecases.topics.schema_pair import Pair


@pytest.fixture
def pair(source_kafka: FakeCluster, target_kafka: FakeCluster) -> Iterator[Pair]:
    with (
        LocalRegistry() as source,
        LocalRegistry() as target,
        closing(Sides(source_kafka, target_kafka)) as sides,
    ):
        yield Pair(sides, source, target)

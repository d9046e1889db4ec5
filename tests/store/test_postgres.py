"""The metrics store in a real PostgreSQL."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from srm_common.testing.local_postgres import LocalPostgres
from tests.unit.store.samples import SamplesBehaviour
from tests.unit.store.standing import StandingBehaviour

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def server() -> Iterator[LocalPostgres]:
    programs = LocalPostgres.programs()
    if programs is None:
        pytest.skip("no PostgreSQL server is installed here (apt-get install postgresql)")
    with LocalPostgres(programs) as server:
        yield server


@pytest.fixture
def url(server: LocalPostgres) -> str:
    return server.create(f"metrics{next(_numbers)}")


class TestStanding(StandingBehaviour):
    pass


class TestSamples(SamplesBehaviour):
    pass

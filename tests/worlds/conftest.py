"""Each world is built once for all scenarios that run in it, also by several processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tests.faults.conftest import fork_server as fork_server
from tests.faults.conftest import scenario as scenario
from tests.faults.conftest import seed as seed
from tests.worlds.world import Stage, World
from tests.worlds.worlds import WORLDS

#: The longest first (``--durations=0``), so that no process ends long after the others. Those of ``make soak`` follow.
LONGEST_FIRST = (
    "kafkas-defaults",
    "slow-source",
    "tls-with-scram",
    "silent-bootstrap-hosts",
    "slow-target",
    "racks-and-follower-fetching",
    "tiered-storage-with-a-quota",
    "source-to-read-only",
    "mutual-tls",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if gone := set(LONGEST_FIRST) - WORLDS.keys():
        raise pytest.UsageError(f"{__file__}: LONGEST_FIRST names worlds that are not there: {', '.join(sorted(gone))}")
    place = {name: number for number, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: place.get(_name_of_world(item.nodeid), len(place)))


def _name_of_world(nodeid: str) -> str:
    return nodeid.partition("[")[2].removesuffix("]")


@pytest.fixture(scope="session")
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The world named by the test's parameter."""
    stage = Stage(tmp_path_factory.mktemp(request.param), request.session)
    try:
        yield WORLDS[request.param].build(stage)
    finally:
        stage.close()


class _WorldByWorld(LoadScopeScheduling):  # type: ignore[misc]
    """Hands whole worlds to processes; files would be one piece of work, and single tests build worlds twice."""

    def _split_scope(self, nodeid: str) -> str:
        return _name_of_world(nodeid) or nodeid


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """For runs of this ring (``scripts/test.sh worlds``): those of all rings together keep a file in one process."""
    return _WorldByWorld(config, log)

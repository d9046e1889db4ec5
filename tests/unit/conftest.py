"""No server here: clusters are fakes, a pair of their own for each test that wants them.

With ``--quick``, as in ``make unit`` and ``make quick``, the tests of ``slow_tests.txt`` are left out: one function in
six, which take most of the ring's time. ``--write-slow-tests`` measures all, and writes the file.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from srm_common.testing import FakeCluster

SLOW_TESTS = Path(__file__).with_name("slow_tests.txt")

#: What a case of a test may cost to be quick.
_CPU_SECONDS, _SECONDS = 0.07, 0.7

_Cost = tuple[float, float]
_began = pytest.StashKey[tuple[float, float]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help=f"leave out the tests of {SLOW_TESTS.name}")
    parser.addoption("--write-slow-tests", action="store_true", help=f"measure the tests, and write {SLOW_TESTS.name}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--quick", False) or config.getoption("--write-slow-tests"):
        return
    slow = set(SLOW_TESTS.read_text().split())
    config.hook.pytest_deselected(items=[item for item in items if _function(item.nodeid) in slow])
    items[:] = [item for item in items if _function(item.nodeid) not in slow]


def _function(nodeid: str) -> str:
    """``tests/unit/test_x.py::test_y[z]`` -> ``tests/unit/test_x.py::test_y``."""
    return nodeid.partition("[")[0]


def _now() -> _Cost:
    """CPU-seconds of this process and of those that it has waited for, and seconds."""
    return sum(os.times()[:4]), time.monotonic()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    item.stash[_began] = _now()
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    try:
        return (yield)
    finally:
        cpu, seconds = _now()
        cpu_before, seconds_before = item.stash[_began]
        # On the way to the process that writes the file.
        item.user_properties.append(("cost", (cpu - cpu_before, seconds - seconds_before)))


class _Recorder:
    """Collects the highest cost of each function's cases."""

    def __init__(self) -> None:
        self._costs: dict[str, _Cost] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        cost = dict(report.user_properties).get("cost")
        if isinstance(cost, list | tuple):
            known = self._costs.get(_function(report.nodeid), (0.0, 0.0))
            self._costs[_function(report.nodeid)] = max(known[0], cost[0]), max(known[1], cost[1])

    def pytest_sessionfinish(self) -> None:
        """The slow ones of each folder, the slowest first, but no more than half of its tests."""
        folders: dict[str, list[str]] = {}
        for name in sorted(self._costs, key=lambda name: self._costs[name], reverse=True):
            folders.setdefault(name.partition("::")[0].rpartition("/")[0], []).append(name)
        slow = [
            name
            for names in folders.values()
            for name in names[: (len(names) + 1) // 2]
            if self._costs[name][0] > _CPU_SECONDS or self._costs[name][1] > _SECONDS
        ]
        SLOW_TESTS.write_text("".join(f"{name}\n" for name in sorted(slow)))


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--write-slow-tests", False) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Recorder())


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

"""One stage and one browser for the session; each test looks through a window of its own and leaves no error in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.browser.chromium import ARGUMENTS, HOW, chromium
from tests.browser.stage import Stage, standing
from tests.browser.window import Window, Windows

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "test-logs" / "browser"
_failed = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Iterator[None]:  # what a window showed when its test failed is kept
    report: pytest.TestReport = yield  # type: ignore[assignment]
    if report.failed:
        item.stash[_failed] = True
    return report  # type: ignore[return-value]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program = chromium()
    if program is None:
        pytest.skip(f"no Chromium; {HOW}")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=list(ARGUMENTS))
        yield started
        started.close()


@pytest.fixture(scope="session")
def stage(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with standing(tmp_path_factory.mktemp("stage")) as stage:
        yield stage


@pytest.fixture(scope="session")
def windows(browser: Browser, stage: Stage) -> Windows:
    return Windows(browser, stage.airflow.url)


@pytest.fixture
def open_window(request: pytest.FixtureRequest, windows: Windows) -> Iterator[Callable[..., Window]]:
    """``open_window(user="admin", **what Playwright's new_context takes)``"""
    opened: list[Window] = []

    def make(user: str = "admin", **options: object) -> Window:
        opened.append(windows.take(user, **options))
        return opened[-1]

    yield make
    failed = request.node.stash.get(_failed, False)
    faults = []
    for number, window in enumerate(opened):
        faults += window.faults
        if failed:
            name = re.sub(r"\W+", "-", request.node.name)
            window.picture(PICTURES / f"failed-{name}-{number}.png")
            window.close()
        else:
            windows.give_back(window)
    if not failed:
        assert not faults, "\n".join(faults)


@pytest.fixture
def window(open_window: Callable[..., Window]) -> Window:
    """The administrator's, 1440 x 900, light."""
    return open_window()


@pytest.fixture(scope="session")
def pictures() -> Path:
    PICTURES.mkdir(parents=True, exist_ok=True)
    return PICTURES

"""For people who see little, or use no mouse: axe's rules on every view, light and dark; and the keyboard."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.browser.window import Window

pytestmark = [pytest.mark.browser, pytest.mark.airflow, pytest.mark.kafka]

FLOW = "#/flows/east/west"
VIEWS = (
    "",
    "#/flows/east/backup",
    FLOW,
    *(f"{FLOW}/{tab}" for tab in ("topics", "groups", "decisions", "transforms", "plan", "runs")),
)


def serious(window: Window) -> list[str]:
    """What axe finds: impact, rule, and the places."""
    found = Axe().run(window.frame).response["violations"]
    return [
        f"{one['impact']} {one['id']}: {one['help']}: {[place['html'][:200] for place in one['nodes'][:5]]}"
        for one in found
        if one["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(open_window: Callable[..., Window], scheme: str) -> None:
    window = open_window(color_scheme=scheme)
    found = {}
    for view in VIEWS:
        window.open(view)
        expect(window.inside.locator("main")).to_have_attribute("aria-busy", "false")
        found[view] = serious(window)
    assert not any(found.values()), found


def test_everything_is_in_reach_of_the_keyboard(window: Window) -> None:
    window.open()
    inside, keyboard = window.inside, window.page.keyboard
    expect(inside.get_by_test_id("open-east->west")).to_be_visible()
    expect(inside.locator("main"), "no click is needed first").to_be_focused()
    keyboard.press("/")
    expect(inside.get_by_test_id("search")).to_be_focused()
    keyboard.type("east->west")
    expect(inside.get_by_test_id("open-big->west")).to_have_count(0)
    keyboard.press("Escape")
    keyboard.press("j")
    expect(inside.get_by_test_id("open-east->west")).to_be_focused()
    keyboard.press("Tab")
    expect(inside.get_by_test_id("runs-east->west")).to_be_focused()
    keyboard.press("Enter")
    dialog = inside.get_by_test_id("confirm-runs")
    expect(dialog).to_be_visible()
    keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(inside.get_by_test_id("runs-east->west"), "the focus comes back").to_be_focused()
    inside.get_by_test_id("open-east->west").press("Enter")
    window.page.wait_for_url("**#/flows/east/west*")
    keyboard.press("u")
    expect(inside.get_by_test_id("headline")).to_be_visible()

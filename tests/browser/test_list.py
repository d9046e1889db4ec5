"""The list of flows: what needs somebody, why, and how it is found among the others."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Route, expect

from tests.browser.stage import BIG_PARTITIONS, BIG_TOPICS
from tests.browser.window import Window

pytestmark = [pytest.mark.browser, pytest.mark.airflow, pytest.mark.kafka]

FLOWS = ("east->west", "west->east", "east->backup", "big->west")


def rows(window: Window) -> list[str]:
    """The flows of the table, from top to bottom."""
    return [name.removeprefix("open-") for name in window.test_ids("a[data-testid^='open-']")]


def test_airflows_menu_leads_to_the_page_and_the_worst_flow_stands_first(window: Window, pictures: Path) -> None:
    window.page.goto(window.url)
    window.page.get_by_role("link", name="Replication", exact=True).click()
    window.page.wait_for_url("**/plugin/replications*")
    trouble = window.inside.get_by_test_id("trouble-east->backup")
    expect(trouble).to_contain_text("Failing")
    expect(trouble).to_contain_text("backup")
    expect(trouble, "the cause names what does not respond").to_contain_text(
        re.compile(r"did not respond|does not respond|is not reachable")
    )
    expect(window.inside.get_by_test_id("headline")).to_contain_text("attention")
    assert sorted(rows(window)) == sorted(FLOWS)
    assert rows(window)[0] == "east->backup"
    for flow, word in {"east->west": "Running|Idle|Catching up", "west->east": "Paused", "big->west": "Paused"}.items():
        expect(window.inside.get_by_test_id(f"badge-{flow}")).to_have_text(re.compile(word))
    expect(window.inside.get_by_test_id("flow-big->west")).to_contain_text(f"{BIG_TOPICS:,}")
    expect(window.inside.get_by_test_id("age")).to_be_visible()
    window.picture(pictures / "flows-light.png")
    # The handbook's entry is one step away, and one back.
    trouble.get_by_test_id("more-help").click()
    expect(window.inside.locator("#state-failing")).to_be_in_viewport()
    window.inside.locator(".to-replications").click()
    expect(trouble).to_contain_text("Failing")


def test_filters_narrow_the_list_and_stay_in_the_address(window: Window) -> None:
    window.open()
    inside = window.inside
    expect(inside.get_by_test_id("open-east->west")).to_be_visible()

    inside.get_by_test_id("status-paused").click()
    expect(inside.get_by_test_id("open-east->west")).to_have_count(0)
    assert sorted(rows(window)) == ["big->west", "west->east"]
    inside.get_by_test_id("sources").locator("summary").click()
    inside.get_by_test_id("source-west").check()
    expect(inside.get_by_test_id("open-big->west")).to_have_count(0)
    assert rows(window) == ["west->east"]

    window.page.reload()
    expect(inside.get_by_test_id("status-paused")).to_have_attribute("aria-pressed", "true")
    expect(inside.get_by_test_id("open-west->east")).to_be_visible()
    assert rows(window) == ["west->east"]

    inside.get_by_test_id("clear-filters").click()
    expect(inside.get_by_test_id("open-big->west")).to_be_visible()
    inside.get_by_test_id("search").fill("BACKUP")
    expect(inside.get_by_test_id("open-big->west")).to_have_count(0)
    assert rows(window) == ["east->backup"]
    inside.get_by_test_id("search").fill("no such flow")
    expect(inside.get_by_test_id("empty")).to_contain_text("No flow matches")


def test_range_statistic_and_order_are_chosen(window: Window) -> None:
    window.open()
    inside = window.inside
    expect(inside.get_by_test_id("open-big->west")).to_be_visible()
    cell = inside.get_by_test_id("flow-big->west").locator("td[data-label=Latency]")
    inside.get_by_test_id("stat-max").click()
    expect(inside.get_by_test_id("stat-max")).to_have_attribute("aria-pressed", "true")
    largest = cell.inner_text()
    inside.get_by_test_id("stat-min").click()
    expect(cell).not_to_have_text(largest)
    with window.page.expect_request(lambda request: "/flows?" in request.url and "minutes=15" in request.url):
        inside.get_by_test_id("range-15m").click()
    inside.get_by_test_id("sort-lag").click()
    expect(inside.get_by_test_id("sort-lag").locator("xpath=..")).to_have_attribute("aria-sort", "descending")
    assert "range=15m" in window.page.url
    assert "stat=min" in window.page.url


def test_dark_follows_airflow_and_the_browser(open_window: Callable[..., Window], pictures: Path) -> None:
    window = open_window(color_scheme="dark")
    window.open()
    html = window.inside.locator("html")
    expect(html).to_have_attribute("data-theme", "dark")
    expect(window.inside.get_by_test_id("open-east->west")).to_be_visible()
    window.picture(pictures / "flows-dark.png")
    # What choosing a theme in Airflow's user menu does.
    window.page.evaluate("document.documentElement.classList.replace('dark', 'light')")
    expect(html).to_have_attribute("data-theme", "light")


def test_a_narrow_screen_needs_no_scrolling_sideways(open_window: Callable[..., Window], pictures: Path) -> None:
    window = open_window(viewport={"width": 480, "height": 900})
    window.open()
    expect(window.inside.get_by_test_id("open-east->west")).to_be_visible()
    width = window.frame.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert width[0] <= width[1]
    window.picture(pictures / "flows-narrow.png")


def test_a_dags_tab_shows_its_flow_and_says_so_where_there_is_none(window: Window) -> None:
    window.page.goto(f"{window.url}/dags/srm.east.west/plugin/replication")
    expect(window.inside.get_by_role("heading", name=re.compile("east.*west", re.DOTALL)).first).to_be_visible()
    window.page.goto(f"{window.url}/dags/srm.failover/plugin/replication")
    expect(window.inside.get_by_test_id("empty")).to_contain_text("Not a replication DAG")


def test_first_paint_of_a_large_flow(window: Window, pictures: Path) -> None:
    """Measured and printed; how fast a machine is, is no matter of right or wrong."""
    window.page.goto(f"{window.url}/srm/#/flows/big/west/topics")
    table = window.page.get_by_test_id("topic")
    expect(table.locator("tbody tr").first).to_be_visible()
    found = window.page.evaluate(
        """() => {
            const [paint] = performance.getEntriesByName('first-contentful-paint');
            const calls = performance.getEntriesByType('resource').filter((one) => one.name.includes('/api/'));
            const took = calls.map((one) => [one.name, one.duration]);
            return {paint: paint.startTime, rows: performance.now(), calls: took};
        }"""
    )
    slowest = max(found["calls"], key=lambda call: call[1])
    line = (
        f"{BIG_TOPICS:,} topics of {BIG_PARTITIONS} partitions: first paint {found['paint']:.0f} ms, "
        f"rows after {found['rows']:.0f} ms, slowest request {slowest[1]:.0f} ms ({slowest[0].partition('/api/')[2]})"
    )
    print(line)
    (pictures / "first-paint.txt").write_text(line + "\n")


def test_what_several_responses_lack_is_said_once(window: Window) -> None:
    """The list comes from two, both of which need the metrics history."""

    def without_history(route: Route) -> None:
        response = route.fetch()
        answer = response.json()
        answer["errors"].append({"code": "store_unavailable", "message": "the history cannot be read"})
        route.fulfill(response=response, json=answer)

    for path in ("flows?*", "clusters"):
        window.page.route(f"**/srm/api/v2/{path}", without_history)
    window.open()
    expect(window.inside.get_by_test_id("open-east->west")).to_be_visible()
    expect(window.inside.get_by_test_id("faults").locator("li")).to_have_text(["the history cannot be read"])
    window.page.unroute_all()

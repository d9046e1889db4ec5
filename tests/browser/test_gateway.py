"""The page of a gateway: flows of other services open as its own do, with the service's name, and are not steered."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from bench.scraping import listening
from srm_common.rest.serving.logins import OpenAccess
from tests.browser.window import LIMIT_MS
from tests.unit.rest.peers.gateways import NAMES, OTHER, OWN, SHAPE, gateway_beside, their_history

pytestmark = pytest.mark.browser


def test_a_flow_of_another_service_is_shown_and_not_steered(browser: Browser, tmp_path: Path) -> None:
    flow = NAMES[3]
    access = OpenAccess(this_machine=True)
    with their_history(tmp_path) as theirs, gateway_beside(theirs, tmp_path, access) as app, listening(app) as url:
        context = browser.new_context()
        context.set_default_timeout(LIMIT_MS)
        faults: list[str] = []
        page = context.new_page()
        page.on("console", lambda said: faults.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(url)
        row = page.get_by_test_id(f"flow-{flow}")
        expect(row).to_contain_text(f"via {OTHER}")
        expect(page.get_by_test_id(f"flow-{OWN}")).not_to_contain_text("via")
        page.get_by_test_id(f"open-{flow}").click()

        expect(page.get_by_test_id("teller")).to_have_text(f"via {OTHER}")
        expect(page.get_by_test_id("topic").locator("tbody tr[data-testid]")).to_have_count(SHAPE.topics)
        for button in ("runs", "pause", "filters", "failover"):
            shut = page.get_by_test_id(f"{button}-{flow}")
            expect(shut).to_have_attribute("aria-disabled", "true")
        for tab, rows in (("partitions", "partition"), ("groups", "group"), ("runs", "run")):
            page.get_by_test_id(f"tab-{tab}").click()
            expect(page.get_by_test_id(rows).locator("tbody tr[data-testid]").first).to_be_visible()
        expect(page.get_by_test_id("chart-byte-rate")).to_be_visible()
        assert faults == []
        context.close()

"""The tab for transforms: an edit is tried on the newest records before anything counts."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import expect

from srm_common.testing.airflow_client import wait_until
from tests.browser.window import Window

pytestmark = [pytest.mark.browser, pytest.mark.airflow, pytest.mark.kafka]

EDIT = r"""transforms = quiet, origin
transforms.quiet.type = org.apache.kafka.connect.transforms.Filter
transforms.quiet.predicate = clicks
transforms.origin.type = org.apache.kafka.connect.transforms.InsertHeader
transforms.origin.header = origin
transforms.origin.value.literal = <b>east</b>
predicates = clicks
predicates.clicks.type = org.apache.kafka.connect.transforms.predicates.TopicNameMatches
predicates.clicks.pattern = east\.clicks"""


def preview(window: Window) -> None:
    """Again where the limit of time ended it on a slow machine: the first one in a process also loads what decodes."""
    button = window.inside.get_by_test_id("transforms-preview")

    def complete() -> bool:
        button.click()
        expect(button).to_have_text("Preview")
        return window.inside.get_by_test_id("transforms-ended").count() == 0

    wait_until(complete, 300, "a preview of all records")


def test_an_edit_is_tried_before_it_counts(window: Window, pictures: Path) -> None:
    window.open("#/flows/east/west")
    inside = window.inside
    inside.get_by_test_id("tab-transforms").click()
    text = inside.get_by_test_id("transforms-text")
    expect(text).to_have_value("")
    inside.get_by_test_id("transforms-topics").fill("orders, clicks")
    inside.get_by_test_id("transforms-sample").select_option("10")
    preview(window)
    outcome = inside.get_by_test_id("transforms-outcome")
    expect(outcome).to_contain_text("The newest 20 records")
    expect(inside.get_by_test_id("transforms-count-unchanged")).to_contain_text("20")
    expect(inside.get_by_test_id("transforms-differences")).to_have_count(0)

    text.fill("transforms")
    expect(inside.get_by_test_id("transforms-line")).to_contain_text("Line 1 is not like key = value")
    expect(inside.get_by_test_id("transforms-preview")).to_have_attribute("aria-disabled", "true")
    text.fill(EDIT)
    expect(outcome, "what was shown is not about this edit").to_contain_text("The edit has changed since this preview")
    preview(window)
    expect(inside.get_by_test_id("transforms-differences")).to_contain_text("10 newly dropped")
    expect(inside.get_by_test_id("transforms-differences")).to_contain_text("10 written differently")
    expect(inside.get_by_test_id("transforms-count-dropped")).to_have_text(re.compile(r"dropped\s*0\s*10"))
    changed = inside.get_by_test_id("transforms-example").locator("tbody tr", has_text="orders-").first
    expect(changed).to_contain_text("origin=<b>east</b>")
    lines = inside.get_by_test_id("transforms-lines")
    lines.locator("summary").click()
    expect(lines).to_contain_text(r"east->west.predicates.clicks.pattern = east\\.clicks")
    lines.locator("summary").click()
    text.scroll_into_view_if_needed()
    inside.get_by_test_id("panel-transforms").evaluate("panel => panel.scrollIntoView()")
    window.picture(pictures / "transforms.png")

    inside.get_by_test_id("transforms-reset").click()
    expect(text).to_have_value("")


def test_values_are_not_shown_unless_the_file_says_so(window: Window, pictures: Path) -> None:
    window.open("#/flows/west/east/transforms")
    inside = window.inside
    inside.get_by_test_id("transforms-text").fill("provenance.headers = topic, offset")
    preview(window)
    expect(inside.get_by_test_id("transforms-hidden")).to_contain_text("preview.values.enabled = true")
    expect(inside.get_by_test_id("transforms-differences")).to_contain_text("100 written differently")
    expect(inside.get_by_test_id("transforms-example").locator("tbody tr")).to_have_count(20)
    assert "returns 9" not in inside.get_by_test_id("transforms-outcome").inner_text()
    inside.get_by_test_id("panel-transforms").evaluate("panel => panel.scrollIntoView()")
    window.picture(pictures / "transforms-hidden.png")


def test_what_needs_spark_is_left_to_a_command(window: Window, pictures: Path) -> None:
    window.open("#/flows/big/west/transforms")
    inside = window.inside
    expect(inside.get_by_test_id("transforms-text")).to_have_value(re.compile("^transforms.sql = SELECT key FROM"))
    elsewhere = inside.get_by_test_id("transforms-elsewhere")
    expect(elsewhere).to_contain_text("transforms.sql is evaluated by Spark")
    expect(elsewhere).to_contain_text("srm-control transform --flow 'big->west' --sample 100")
    expect(inside.get_by_test_id("transforms-preview")).to_have_attribute("aria-disabled", "true")
    inside.get_by_test_id("panel-transforms").evaluate("panel => panel.scrollIntoView()")
    window.picture(pictures / "transforms-elsewhere.png")


def test_who_may_not_edit_reads_and_tries_nothing(open_window: Callable[..., Window]) -> None:
    window = open_window("viewer")
    window.open("#/flows/east/west/transforms")
    inside = window.inside
    expect(inside.get_by_test_id("transforms-text")).to_have_attribute("readonly", "")
    expect(inside.get_by_test_id("transforms-preview")).to_have_attribute("title", re.compile("Op in Airflow"))

"""One flow: what is shown of its topics, partitions, groups, decisions, plan and runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from srm_common.testing.airflow_client import wait_until
from tests.browser.stage import BIG_PARTITIONS, BIG_TOPICS, FAILING_DAG_ID, FIRST_RECORDS, MARKUP, Stage
from tests.browser.window import Window

pytestmark = [pytest.mark.browser, pytest.mark.airflow, pytest.mark.kafka]

FLOW = "#/flows/east/west"
BIG = "#/flows/big/west"


def test_topics_are_searched_sorted_and_paged(window: Window) -> None:
    window.open(f"{BIG}/topics")
    inside = window.inside
    expect(inside.get_by_test_id("pager-text")).to_have_text(re.compile(rf"^1.\d+ of {BIG_TOPICS:,}$"))
    first = inside.get_by_test_id("topic").locator("tbody th").first
    before = first.inner_text()
    inside.get_by_test_id("pager-next").click()
    expect(first).not_to_have_text(before)
    inside.get_by_test_id("sort-topic").click()
    expect(inside.get_by_test_id("pager-text")).to_have_text(re.compile("^1\\D"))
    inside.get_by_test_id("topic-search").fill("ORDERS.created.9")
    expect(inside.get_by_test_id("topic").locator("tbody tr")).to_have_count(1)
    expect(first).to_contain_text("orders.created.9")
    expect(first).to_contain_text("east.orders.created.9")
    assert "q=ORDERS.created.9" in window.page.url


def test_a_topic_has_graphs_and_partitions(window: Window, pictures: Path) -> None:
    window.open(f"{BIG}/topics/payments.created")
    inside = window.inside
    expect(inside.get_by_test_id("topic-head")).to_contain_text("payments.created")
    expect(inside.get_by_test_id("partition").locator("tbody tr:not(.under)")).to_have_count(BIG_PARTITIONS)
    verified = [inside.get_by_test_id(f"verified-payments.created-{number}") for number in range(BIG_PARTITIONS)]
    assert [locator.inner_text() for locator in verified[-5:]] == [
        "proved",
        "in part",
        "different",
        "unreadable",
        "\N{EN DASH}",
    ]
    assert inside.locator("[data-testid=partition] .good-text").count() == BIG_PARTITIONS - 4
    expect(inside.get_by_test_id("partition")).to_contain_text("The copy differs: offset 812 (upstream offset 830)")
    for chart in ("replication-records-lag", "byte-rate", "replication-latency-ms"):
        expect(inside.get_by_test_id(f"chart-{chart}").locator("canvas")).to_be_visible()
    window.picture(pictures / "topic.png")
    # A chart that is there moves on with each answer.
    drawn = (
        """figure => ({ shown: figure.state.uplot?.scales.x.max ?? 0, end: figure.state.series.range.end_ms / 1000 })"""
    )
    figure = inside.get_by_test_id("chart-byte-rate")
    first = figure.evaluate(drawn)
    inside.get_by_test_id("refresh").click()
    wait_until(lambda: figure.evaluate(drawn)["end"] > first["end"], 30, "another answer")
    wait_until(lambda: figure.evaluate("figure => figure.state.uplot.scales.x.max") > first["shown"], 10, "its range")
    shown = figure.evaluate(drawn)
    assert shown["shown"] == shown["end"]
    inside.get_by_test_id("all-topics").click()
    expect(inside.get_by_test_id("pager-text")).to_be_visible()


def test_records_that_come_between_runs_are_behind_at_once(window: Window, stage: Stage, pictures: Path) -> None:
    stage.copy()
    stage.write("orders", 25)
    window.open(FLOW)
    lag = window.inside.get_by_test_id("tiles").locator(".tile", has_text="Lag").first
    expect(lag).to_contain_text("25")
    expect(lag).to_contain_text("behind")
    expect(lag.locator("time")).to_have_text(re.compile(r"^\d+ s ago$"))
    window.picture(pictures / "lag-of-now.png")
    window.open()
    expect(window.inside.get_by_test_id("lag-east->west").locator("b")).to_have_text("25")
    expect(window.inside.get_by_test_id("lag-east->west").locator("time")).to_have_text(re.compile("ago$"))
    window.picture(pictures / "lag-in-list.png")
    stage.copy()
    expect(window.inside.get_by_test_id("lag-east->west").locator("b")).to_have_text("0")


def test_names_with_markup_are_text(window: Window) -> None:
    for view in ("topics?q=img", "partitions?failed=true"):
        window.open(f"{BIG}/{view}")
        expect(window.inside.get_by_text(MARKUP).first).to_be_visible()
        assert window.inside.locator("img[src=x]").count() == 0
    window.inside.get_by_text(MARKUP).first.click()
    assert window.frame.title() != "1"


def test_groups_show_where_they_would_go_on(window: Window, stage: Stage, pictures: Path) -> None:
    stage.copy()
    window.open(f"{FLOW}/groups")
    inside = window.inside
    expect(inside.get_by_test_id(f"open-group-{MARKUP}")).to_be_visible()
    inside.get_by_test_id("open-group-billing").click()
    offsets = inside.get_by_test_id("group-offsets")
    for row, offset in {"orders-0": "10", "orders-1": "20"}.items():
        cells = offsets.get_by_test_id(f"offset-{row}").locator("td")
        expect(cells.nth(0)).to_have_text(offset)
        expect(cells.nth(1)).to_have_text(offset)
    window.picture(pictures / "groups.png")


def test_decisions_say_why_a_topic_is_not_copied(window: Window) -> None:
    window.open(f"{FLOW}/decisions")
    inside = window.inside
    expect(inside.get_by_test_id("decision-orders")).to_contain_text("Copied")
    inside.get_by_test_id("decisions-which-false").click()
    expect(inside.get_by_test_id("decision-orders")).to_have_count(0)
    row = inside.get_by_test_id("decision-secrets")
    expect(row).to_contain_text("Not copied")
    expect(row).to_contain_text("topics")
    inside.get_by_test_id("decision-search").fill("SECR")
    expect(inside.get_by_test_id("decision").locator("tbody tr")).to_have_count(1)


def test_the_plan_says_what_the_next_run_would_change(window: Window, stage: Stage) -> None:
    window.open(f"{FLOW}/plan")
    inside = window.inside
    expect(inside.get_by_test_id("plan-last")).to_be_visible()
    stage.east.create_topic("long.planned", partitions=2)
    inside.get_by_test_id("plan-next").click()
    expect(inside.get_by_test_id("plan-next-result")).to_contain_text("east.long.planned")


def test_runs_show_their_errors_and_lead_to_airflow(window: Window) -> None:
    window.open("#/flows/east/backup/runs")
    inside = window.inside
    expect(inside.get_by_test_id("cause")).to_contain_text("backup")
    run = inside.get_by_test_id("run").locator("tbody tr")
    expect(run.first).to_contain_text("Failed")
    expect(run.nth(1)).to_contain_text(re.compile("did not respond|does not respond|is not reachable"))
    run.first.locator("a.airflow-link").click()
    window.page.wait_for_url(f"**/dags/{FAILING_DAG_ID}/runs/**")

    window.open(f"{FLOW}/runs")
    expect(inside.locator("tr[data-testid^='run-']").last).to_contain_text(
        re.compile(rf"{FIRST_RECORDS * 3 // 1000},?\d")
    )


def test_records_that_transforms_could_not_take_are_told(window: Window, pictures: Path) -> None:
    window.open(f"{BIG}/runs")
    inside = window.inside
    run = inside.get_by_test_id("run").locator("tbody tr").first
    expect(run.get_by_title("1,200 in the dead letter topic")).to_have_text("1,234")
    expect(run.get_by_role("cell", name="5,678", exact=True)).to_be_visible()
    expect(inside.get_by_test_id("alarm-skipped_records").first).to_contain_text("could not handle")
    window.picture(pictures / "skipped-records.png")


def test_settings_tell_the_keys_that_do_nothing(window: Window) -> None:
    window.open("#/flows/west/east/settings")
    inside = window.inside
    ignored = inside.get_by_test_id("ignored-settings").locator("li")
    expect(ignored).to_have_count(1)
    expect(ignored).to_contain_text("west->east.producer.linger.ms")
    expect(ignored).to_contain_text("Batches are copied as the producer created them")
    expect(inside.get_by_test_id("setting")).to_contain_text("returns")
    # It is no setting of the other flow.
    window.open(f"{FLOW}/settings")
    expect(inside.get_by_test_id("setting")).to_contain_text("orders, clicks")
    expect(ignored).to_have_count(0)

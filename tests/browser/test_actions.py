"""What can be done from the page: each with a confirmation, and only by those who may."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from playwright.sync_api import expect

from srm_common.testing import LocalKafka
from srm_common.testing.airflow_client import wait_until
from tests.browser.stage import DAG_ID, RUN_SECONDS, Stage
from tests.browser.window import Window

pytestmark = [pytest.mark.browser, pytest.mark.airflow, pytest.mark.kafka]


def is_paused(stage: Stage, dag_id: str) -> bool:
    found = stage.airflow.dag(dag_id)
    assert found is not None
    return bool(found["is_paused"])


def committed(kafka: LocalKafka, group: str) -> dict[tuple[str, int], int]:
    """What the group has committed."""
    asked = kafka.admin().list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result()
    return {(place.topic, place.partition): place.offset for place in asked.topic_partitions or ()}


def test_a_flow_is_paused_and_resumed(window: Window, stage: Stage) -> None:
    window.open()
    inside = window.inside
    inside.get_by_test_id("pause-east->west").click()
    inside.get_by_test_id("confirm-pause-cancel").click()
    expect(inside.get_by_test_id("confirm-pause")).to_have_count(0)
    assert not is_paused(stage, DAG_ID), "cancelled"

    inside.get_by_test_id("pause-east->west").click()
    inside.get_by_test_id("confirm-pause-ok").click()
    expect(inside.get_by_test_id("toast")).to_contain_text("paused")
    expect(inside.get_by_test_id("badge-east->west")).to_have_text(re.compile("Paused"))
    assert is_paused(stage, DAG_ID)

    inside.get_by_test_id("resume-east->west").click()
    inside.get_by_test_id("confirm-resume-ok").click()
    expect(inside.get_by_test_id("badge-east->west")).not_to_have_text(re.compile("Paused"))
    assert not is_paused(stage, DAG_ID)


def test_a_run_that_is_started_here_copies(window: Window, stage: Stage) -> None:
    before = {run["dag_run_id"] for run in stage.airflow.runs(DAG_ID)}
    stage.write("orders", 300)
    window.open()
    inside = window.inside
    inside.get_by_test_id("runs-east->west").click()
    inside.get_by_test_id("confirm-runs-ok").click()
    expect(inside.get_by_test_id("toast")).to_contain_text("started run")
    (run_id,) = {run["dag_run_id"] for run in stage.airflow.runs(DAG_ID)} - before
    assert stage.airflow.wait_for_run(DAG_ID, run_id, RUN_SECONDS) == "success"

    window.open("#/flows/east/west/runs")
    newest = inside.get_by_test_id("run").locator("tbody tr").first
    expect(newest, "and a heartbeat").to_contain_text(re.compile(r"30[0-9]"))


def test_an_edit_of_filters_is_looked_at_before_it_counts(window: Window, stage: Stage, pictures: Path) -> None:
    window.open("#/flows/east/west")
    inside = window.inside
    inside.get_by_test_id("filters-east->west").click()
    topics = inside.get_by_test_id("filter-topics")
    expect(topics).to_have_value(re.compile("orders"))
    topics.fill("orders\nsecrets\nlong\\..*")
    inside.get_by_test_id("filter-note").fill("secrets are wanted <b>now</b>")
    expect(inside.get_by_test_id("filter-save")).to_have_attribute("aria-disabled", "true")
    inside.get_by_test_id("filter-preview").click()
    outcome = inside.get_by_test_id("filter-outcome")
    expect(outcome).to_contain_text("secrets")
    expect(outcome).to_contain_text("clicks")
    window.picture(pictures / "filter-editor.png")
    inside.get_by_test_id("filter-save").click()
    expect(inside.get_by_test_id("filter-editor")).to_have_count(0)
    kept = json.loads(stage.airflow.get("/api/v2/variables/srm_filters__east__west")["value"])
    assert kept["topics"] == ["orders", "secrets", r"long\..*"]

    # Back to the file, by the button of the list.
    inside.get_by_test_id("filters-east->west").click()
    inside.get_by_test_id("filter-history").locator("summary").click()
    expect(inside.get_by_test_id("filter-history")).to_contain_text("secrets are wanted <b>now</b>")
    inside.get_by_test_id("filter-reset-topics").click()
    inside.get_by_test_id("filter-preview").click()
    expect(inside.get_by_test_id("filter-outcome")).to_contain_text("clicks")
    inside.get_by_test_id("filter-save").click()
    expect(inside.get_by_test_id("filter-editor")).to_have_count(0)
    inside.get_by_test_id("filters-east->west").click()
    expect(inside.get_by_test_id("filter-topics")).to_have_value(re.compile("clicks"))


def test_a_failover_is_tried_and_then_done(window: Window, stage: Stage, pictures: Path) -> None:
    window.open("#/flows/east/west")
    inside = window.inside
    inside.get_by_test_id("failover-east->west").click()
    inside.get_by_test_id("move-mode-disaster").check()
    inside.get_by_test_id("move-groups").fill("billing")
    inside.get_by_test_id("move-dry-run").click()
    row = inside.get_by_test_id("position-billing orders-0")
    expect(row).to_be_visible(timeout=RUN_SECONDS * 1000)
    expect(row).to_contain_text("10")
    window.picture(pictures / "failover-dry-run.png")
    assert committed(stage.west, "billing") == {}, "nothing is changed yet"
    assert not is_paused(stage, DAG_ID)

    inside.get_by_test_id("move-continue").click()
    start = inside.get_by_test_id("move-start")
    expect(start).to_have_attribute("aria-disabled", "true")
    inside.get_by_test_id("move-typed").fill("west")
    start.click()
    # Whoever typed the name has approved: the run asks nobody.
    expect(inside.get_by_test_id("move-result")).to_contain_text("Done", timeout=RUN_SECONDS * 1000)
    assert committed(stage.west, "billing") == {("east.orders", 0): 10, ("east.orders", 1): 20}
    inside.get_by_test_id("move-close").click()
    stage.airflow.unpause(DAG_ID)


@pytest.mark.parametrize(("user", "may"), [("viewer", set()), ("user", {"trigger"}), ("op", {"trigger", "edit"})])
def test_who_may_not_is_told_so_and_refused(open_window: Callable[..., Window], user: str, may: set[str]) -> None:
    window = open_window(user)
    window.open("#/flows/east/west")
    for button, right in {"pause": "trigger", "runs": "trigger", "failover": "edit"}.items():
        expected = None if right in may else "true"
        place = window.inside.get_by_test_id(f"{button}-east->west")
        expect(place).to_be_visible()
        wait_until(lambda: place.get_attribute("aria-disabled") == expected, 180, f"{button} for {user}")  # noqa: B023
    # The server decides, whatever the page shows.
    answers = window.frame.evaluate(
        """async () => {
            const send = (path, body) => fetch(`/srm/api/v2/flows/east/west/${path}`, {
                method: 'POST', headers: {'Content-Type': 'application/json'}, body: JSON.stringify(body)});
            const asked = {runs: await send('runs', {note: 1}), moves: await send('moves', {kind: 'nonsense'})};
            return Object.fromEntries(Object.entries(asked).map(([name, answer]) => [name, answer.status]));
        }"""
    )
    assert (answers["runs"] == 403) == ("trigger" not in may), answers
    assert (answers["moves"] == 403) == ("edit" not in may), answers
    window.faults.clear()  # The refusals.

"""The DAG srm.watch in a real scheduler: runs that do not go on, and a watch that gets no slot itself."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from srm_common.testing.airflow_client import wait_until
from srm_common.testing.local_airflow import LocalAirflow
from tests.airflow.mailbox import Mailbox
from tests.airflow.scheduler.scheduled_flow import DAG_ID

pytestmark = [pytest.mark.airflow, pytest.mark.kafka, pytest.mark.spark]


@pytest.mark.timeout(1500)
def test_a_flow_whose_run_waits_for_ever_is_told_once_and_once_when_it_came_right(
    airflow: LocalAirflow, mailbox: Mailbox
) -> None:
    """By the DAG srm.watch, since a run that hangs reports nothing."""
    file = Path(airflow.environment["SRM_CONFIG"])
    text = file.read_text()

    def mails() -> list[str]:
        return [subject for subject in mailbox.subjects if "has succeeded" in subject]

    def pool_is(name: str) -> Callable[[], bool]:
        return lambda: airflow.get(f"/api/v2/dags/{DAG_ID}/tasks/replicate")["pool"] == name

    def look() -> None:
        run_id = airflow.trigger("srm.watch")
        assert airflow.wait_for_run("srm.watch", run_id) == "success", airflow.log("srm.watch", run_id, "watch")

    pool = f"{text}airflow.pool = not_there_yet\n"
    try:
        file.write_text(pool)
        airflow.reparse(DAG_ID)
        wait_until(pool_is("not_there_yet"), 300, "the DAG with another pool")
        run_id = airflow.trigger(DAG_ID, {"topics": ["nothing-of-this-name"]})

        def waiting() -> bool:
            return airflow.task_states(DAG_ID, run_id)["replicate"] == "scheduled"

        # The run before it ends first.
        wait_until(waiting, 600, "a task that waits for its pool")
        file.write_text(f"{pool}stalled.after.seconds = 1\n")
        # The one that sees it first lets it be: it might be between two tasks.
        for _ in range(3):
            look()
        (subject,) = mails()
        assert subject.startswith("no run of a->b has succeeded for ")
        assert subject.endswith("; task replicate waits for a slot of pool 'not_there_yet' or of the executor")
        (mail,) = [mail for mail in mailbox.mails if mail["Subject"] == subject]
        body = mail.get_body()
        assert body is not None
        assert "watch of " in body.get_content()

        airflow.create_pool("not_there_yet", 1)
        assert airflow.wait_for_run(DAG_ID, run_id, 600) == "success", airflow.task_states(DAG_ID, run_id)
        assert mails() == [subject]
        file.write_text(f"{pool}stalled.after.seconds = 3600\n")
        for _ in range(2):
            look()
        assert mails() == [subject, f"over: {subject}"]
    finally:
        file.write_text(text)
        airflow.reparse(DAG_ID)


def test_that_nothing_is_watched_is_told_although_no_task_gets_a_slot(airflow: LocalAirflow, mailbox: Mailbox) -> None:
    airflow.pause("srm.watch")
    try:
        run_id = airflow.trigger("srm.watch")
        subject = f"no flow is watched: run {run_id} of srm.watch has not ended within 5 min"

        def mails() -> list[str]:
            return [told for told in mailbox.subjects if subject in told]

        # Five minutes would be too long for a test.
        with contextlib.closing(sqlite3.connect(airflow.directory / "airflow.db", timeout=120)) as database, database:
            mine = "dagrun_id = (SELECT id FROM dag_run WHERE dag_id = 'srm.watch' AND run_id = ?)"
            changed = database.execute(
                f"UPDATE deadline SET deadline_time = '2026-01-01 00:00:00.000000' WHERE {mine}", (run_id,)
            )
            assert changed.rowcount == 1
        wait_until(mails, 300, "a mail by the triggerer")
    finally:
        airflow.unpause("srm.watch")
    for one in (run_id, airflow.trigger("srm.watch")):
        assert airflow.wait_for_run("srm.watch", one) == "success"
    assert mails() == [subject, f"over: {subject}"]

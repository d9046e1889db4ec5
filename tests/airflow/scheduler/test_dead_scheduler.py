"""The scheduler dies in the middle of a run, alone or with everything that it started, and is started again."""

from __future__ import annotations

import contextlib

import psutil
import pytest

from srm_common.testing import LocalKafka
from srm_common.testing.local_airflow import LocalAirflow
from tests.airflow.scheduler.scheduled_flow import DAG_ID, copy_for_long, read, run, write

pytestmark = [pytest.mark.airflow, pytest.mark.kafka, pytest.mark.spark, pytest.mark.soak]


@pytest.mark.parametrize("with_its_tasks", [False, True], ids=["alone", "with its tasks"])
def test_the_scheduler_dies_while_a_run_copies(
    airflow: LocalAirflow, clusters: tuple[LocalKafka, LocalKafka], topic: str, with_its_tasks: bool
) -> None:
    """A task that outlives the scheduler may go on beside the try that replaces it, until Airflow ends it."""
    source, target = clusters
    write(source, topic, 1000)
    run_id = copy_for_long(airflow, topic, target)
    tasks = psutil.Process(airflow.process("scheduler").pid).children(recursive=True)
    assert tasks
    airflow.process("scheduler").kill()
    for process in tasks if with_its_tasks else ():
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    write(source, topic, 500, first=1000)
    airflow.start()
    # Airflow looks for tasks of dead schedulers every five minutes.
    assert airflow.wait_for_run(DAG_ID, run_id) == "success", airflow.task_states(DAG_ID, run_id)
    assert read(target, f"a.{topic}") == read(source, topic)
    write(source, topic, 500, first=1500)
    assert run(airflow, {"topics": [topic]})[1] == "success"
    assert read(target, f"a.{topic}") == read(source, topic)

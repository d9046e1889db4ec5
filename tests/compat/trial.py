"""What is tried in an environment: all modules, the DAGs, one flow in a scheduler, one pass in Spark."""

from __future__ import annotations

import json
import shutil
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from srm_common.testing import LocalKafka
from srm_common.testing.local_airflow import LocalAirflow
from tests.compat.environment import ROOT, run
from tests.kafka.flows import read, write

RECORDS = 1000
DAG_ID = "srm.east.west"
_IMPORT_ALL = """
import importlib, pkgutil, sys, traceback
import srm_common
failed = 0
for found in pkgutil.walk_packages(srm_common.__path__, "srm_common."):
    # Alembic runs its scripts itself, within a migration; a __main__ would run.
    if ".migrations." in found.name or found.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(found.name)
    except Exception:
        failed += 1
        print(found.name, traceback.format_exc(limit=-1).strip().splitlines()[-1])
sys.exit(failed > 0)
"""
_VERSIONS = """
from importlib.metadata import version
for name in ("apache-airflow", "apache-airflow-providers-apache-spark", "pyspark", "pyspark-client", "kafka-python",
             "confluent-kafka", "SQLAlchemy"):
    print(name, version(name))
"""


#: All that the DAG files make, which is more if flows have a notifier: a watch, with a deadline.
DAG_IDS = (DAG_ID, "srm.failover", "srm.failback", "srm.switch_direction", "srm.verify", "srm.watch")
#: What is tried, in this order.
STEPS = ("modules", "DAGs", "flow", "Spark")


@dataclass
class Trial:
    """``verdicts``: by step, None for good, else what went wrong."""

    versions: dict[str, str]
    verdicts: dict[str, str | None] = field(default_factory=dict)

    def step(self, name: str, work: Callable[[], None]) -> bool:
        """Whatever happens in it is a verdict on the environment."""
        try:
            work()
        except Exception as error:
            traceback.print_exc()
            self.verdicts[name] = " ".join(str(error).split())[-400:] or type(error).__name__
        else:
            self.verdicts[name] = None
        print(f"  {name}: {self.verdicts[name] or 'good'}", flush=True)
        return self.verdicts[name] is None


def tried(python: Path, folder: Path) -> Trial:
    """All steps in the environment of an interpreter; ``folder`` is for what they leave."""
    trial = Trial(dict(line.split() for line in run([str(python), "-c", _VERSIONS], folder).splitlines()))
    trial.step("modules", lambda: _modules(python, folder))
    with LocalKafka(name="east") as east, LocalKafka(name="west") as west:
        east.create_topic("orders")
        write(east, "orders", (b"%d" % number for number in range(RECORDS)))
        dags = folder / "dags"
        shutil.copytree(ROOT / "dags", dags)
        (folder / "srm.properties").write_text(properties(east.bootstrap_servers, west.bootstrap_servers))
        environment = {
            "SRM_CONFIG": str(folder / "srm.properties"),
            "AIRFLOW_CONN_SPARK": json.dumps({"conn_type": "spark", "host": "local[2,4]"}),
        }
        airflow = LocalAirflow(dags_folder=dags, directory=folder / "home", python=python, environment=environment)
        try:
            if trial.step("DAGs", lambda: _parse(airflow)):
                trial.step("flow", lambda: _flow(airflow, east, west))
        finally:
            airflow.close()
        write(east, "orders", (b"more %d" % number for number in range(RECORDS)))
        trial.step("Spark", lambda: _spark(python, folder, east, west))
    return trial


def properties(east: str, west: str) -> str:
    """The configuration that is tried. Spark copies whatever there is. Nothing is sent: no alarm is raised."""
    return f"""\
clusters = east, west
east.bootstrap.servers = {east}
west.bootstrap.servers = {west}
east->west.enabled = true
east->west.topics = orders
schedule.interval.seconds = 86400
spark.min.bytes = 0
replication.factor = 1
alarm.notifiers = mail
alarm.notifier.mail.class = airflow.providers.smtp.notifications.smtp.SmtpNotifier
alarm.notifier.mail.to = ["ops@example.com"]
"""


def _modules(python: Path, folder: Path) -> None:
    run([str(python), "-c", _IMPORT_ALL], folder)


def _parse(airflow: LocalAirflow) -> None:
    airflow.start()
    for dag_id in DAG_IDS:
        airflow.wait_for_dag(dag_id)
    errors = airflow.get("/api/v2/importErrors")["import_errors"]
    assert not errors, errors
    plugins = airflow.get("/api/v2/plugins")
    assert any(one["name"] == "srm" for one in plugins["plugins"]), plugins


def _flow(airflow: LocalAirflow, east: LocalKafka, west: LocalKafka) -> None:
    run_id = airflow.trigger(DAG_ID)
    state = airflow.wait_for_run(DAG_ID, run_id)
    states = airflow.task_states(DAG_ID, run_id)
    if state != "success":
        failed = [task for task, of_task in states.items() if of_task == "failed"]
        print("\n".join(airflow.log(DAG_ID, run_id, task) for task in failed))
        raise AssertionError(f"the run is {state}: {states}")
    assert "srm_common/spark_jobs/replicate.py" in airflow.log(DAG_ID, run_id, "replicate"), "Spark was not started"
    _equal(east, west)
    (flow,) = airflow.get("/srm/api/v2/flows")["flows"]
    assert flow["last_run"]["ok"], flow


def _spark(python: Path, folder: Path, east: LocalKafka, west: LocalKafka) -> None:
    command = ["run", "--flow", "east->west", "--config", str(folder / "srm.properties"), "--output", "json"]
    printed = run([str(python.with_name("srm-control")), *command, "--no-report"], folder)
    try:
        answer = json.loads(printed)
    except json.JSONDecodeError as error:
        raise AssertionError(f"not JSON alone: {printed[:500]}") from error
    assert answer["state"] == "done", answer
    _equal(east, west)


def _equal(east: LocalKafka, west: LocalKafka) -> None:
    here, there = read(east, "orders"), read(west, "east.orders")
    assert len(here) >= RECORDS
    assert here == there, f"{len(there)} of {len(here)} records, or others"

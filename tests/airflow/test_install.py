"""docs/install.md, followed in an Airflow that has nothing else: its own environment, its own home, the wheel alone."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import sysconfig
import urllib.error
import urllib.request
import venv
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from srm_common.testing import LocalKafka
from srm_common.testing.local_airflow import LocalAirflow

pytestmark = [pytest.mark.airflow, pytest.mark.kafka, pytest.mark.spark]

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "install.md").read_text()


def code_blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the repository, without the network."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment: Airflow and Spark are those of this one, this project comes from the wheel."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True, symlinks=True)
    interpreter = folder / "bin" / "python"
    site = subprocess.run(
        [interpreter, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    # A path line, not a site directory: the checkout that this environment points to stays out of sight.
    (Path(site) / "shared.pth").write_text(sysconfig.get_path("purelib") + "\n")
    install = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--ignore-installed", str(wheel)]
    subprocess.run([interpreter, *install], check=True, capture_output=True, text=True, timeout=300)
    return interpreter


def run_python(python: Path, code: str, folder: Path) -> str:
    done = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True, cwd=folder, timeout=300)
    return done.stdout.strip()


def test_the_wheel_has_all_that_runs_outside_python(python: Path, tmp_path: Path) -> None:
    found = run_python(
        python,
        "from srm_common.airflow_bridge.spark_job_operator import job_path, submit_wrapper; "
        "import os; print(job_path('replicate.py'), submit_wrapper(), os.access(submit_wrapper(), os.X_OK))",
        tmp_path,
    )
    job, wrapper, executable = found.splitlines()[-1].split()
    assert Path(job).is_file()
    environment = str(python.parent.parent)
    assert job.startswith(environment)
    assert wrapper.startswith(environment)
    assert executable == "True"
    handbook = Path(wrapper).parents[1] / "rest" / "pages" / "handbook_text"
    assert {file.name for file in handbook.glob("*.md")} == {file.name for file in (ROOT / "docs").glob("*.md")}


def test_the_dag_file_of_the_guide_is_that_of_the_repository() -> None:
    dag_file, with_arguments = code_blocks("python")
    assert (ROOT / "dags" / "replicate_flows.py").read_text().endswith("\n\n" + dag_file)
    compile(with_arguments, "docs/install.md", "exec")


def test_a_flow_runs_in_an_airflow_that_has_nothing_else(
    python: Path,
    tmp_path: Path,
    source_kafka: LocalKafka,
    target_kafka: LocalKafka,
    name: str,
    configuration_file: Callable[..., Path],
) -> None:
    source_kafka.create_topic(name)
    producer = Producer({"bootstrap.servers": source_kafka.bootstrap_servers, "enable.idempotence": True})
    for number in range(100):
        producer.produce(name, value=str(number))
    assert producer.flush(60) == 0

    home = tmp_path / "home"
    dags = home / "dags"
    dags.mkdir(parents=True)
    (dags / "replicate_flows.py").write_text(code_blocks("python")[0])
    (home / "srm.properties").write_text(
        f"clusters = east, west\n"
        f"east.bootstrap.servers = {source_kafka.bootstrap_servers}\n"
        f"west.bootstrap.servers = {target_kafka.bootstrap_servers}\n"
        f"east->west.enabled = true\n"
        f"east->west.topics = {name}\n"
        f"schedule.interval.seconds = 86400\n"
        f"spark.min.bytes = 0\n"
    )
    environment = {"AIRFLOW_CONN_SPARK": json.dumps({"conn_type": "spark", "host": "local[2,4]"})}
    with LocalAirflow(
        dags_folder=dags, directory=home, python=python, environment=environment, refresh_seconds=600
    ) as airflow:
        assert airflow.wait_for_dag("srm.east.west")["is_paused"] is False
        assert airflow.get("/api/v2/importErrors")["import_errors"] == []
        (plugin,) = [one for one in airflow.get("/api/v2/plugins")["plugins"] if one["name"] == "srm"]
        assert plugin["source"].startswith("srm-kafka==")
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(airflow.url + "/srm/api/v2/flows", timeout=120)

        run_id = airflow.trigger("srm.east.west")
        assert airflow.wait_for_run("srm.east.west", run_id) == "success", airflow.task_states("srm.east.west", run_id)
        (flow,) = airflow.get("/srm/api/v2/flows")["flows"]
        assert flow["last_run"]["ok"]
        assert flow["lag"] == 0
        loaded_from = {
            line for line in airflow.log("srm.east.west", run_id, "replicate").splitlines() if "replicate.py" in line
        }
        assert loaded_from
        assert not [line for line in loaded_from if str(ROOT) in line]

        # Removal, as the guide says it: pause, take the file away, delete the DAG.
        airflow.pause("srm.east.west")
        (dags / "replicate_flows.py").unlink()
        airflow.command("dags", "delete", "--yes", "srm.east.west")
        assert airflow.dag("srm.east.west") is None

    subprocess.run([python, "-m", "pip", "uninstall", "--quiet", "--yes", "srm-kafka"], check=True, timeout=300)
    gone = run_python(python, "import importlib.util; print(importlib.util.find_spec('srm_common'))", tmp_path)
    assert gone == "None"

"""What scheduler and DAG processor import ahead, for the processes that are forked from them."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

import srm_common
from srm_common.airflow_bridge.preload import VARIABLE

pytestmark = pytest.mark.airflow

PACKAGE = Path(srm_common.__file__).parent
#: Whose functions import what a task needs.
FILES = (
    "__init__.py",
    "alarms.py",
    "variables.py",
    "lag_report.py",
    "moves/move_operators.py",
    "operators.py",
    "replicate_operator.py",
    "spark_job_operator.py",
    "verification/verify_operator.py",
)
#: Airflow is imported once, and each case is a fork of that process, as Airflow's own children are.
_PRELOADED = """
import os, sys
from airflow.listeners.listener import get_listener_manager
from airflow.jobs.job import Job

for arguments, environment in {cases!r}:
    child = os.fork()
    if not child:
        sys.argv = ["airflow", *arguments]
        os.environ.update(environment)
        Job()
        exec({then!r})
        sys.stdout.flush()
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        sys.exit(1)
"""
Case = tuple[tuple[str, ...], Mapping[str, str]]


def run_all(folder: Path, then: str, cases: Sequence[Case], package: Path = PACKAGE) -> list[str]:
    """The lines that ``then`` prints in processes in each of which one of Airflow's commands has begun."""
    (folder / "srm.properties").write_text(
        "clusters = a, b\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\na->b.enabled = true\na->b.topics = x\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", _PRELOADED.format(cases=list(cases), then=then)],
        env={
            **os.environ,
            "AIRFLOW_HOME": str(folder),
            "SRM_CONFIG": str(folder / "srm.properties"),
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "PYTHONPATH": str(package.parent),
        },
        capture_output=True,
        text=True,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    return [line.removeprefix("told ") for line in done.stdout.splitlines() if line.startswith("told ")]


def run(folder: Path, then: str, command: str, package: Path = PACKAGE) -> list[str]:
    """The lines that ``then`` prints in a process in which one of Airflow's commands has begun."""
    return run_all(folder, then, [((command,), {})], package)


def imported_by_functions(file: Path) -> set[str]:
    tree = ast.parse(file.read_text())
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    found = (node for function in functions for node in ast.walk(function) if isinstance(node, ast.ImportFrom))
    return {node.module for node in found if node.module and node.module.startswith("srm_common")}


def test_a_task_finds_its_imports_done(tmp_path: Path) -> None:
    wanted = set().union(*(imported_by_functions(PACKAGE / "airflow_bridge" / file) for file in FILES))
    assert len(wanted) > 10
    then = f"print('told', sorted({wanted!r} - set(sys.modules)))"
    assert run(tmp_path, then, "scheduler") == ["[]"]


def test_the_dag_processor_has_what_a_parse_needs_and_no_kafka_client(tmp_path: Path) -> None:
    then = """
before = set(sys.modules)
from srm_common.airflow_bridge import flow_dags, move_dags, verify_dags
assert flow_dags() and move_dags() and verify_dags()
print("told", [name for name in set(sys.modules) - before if name.startswith("srm_common")])
print("told", {"kafka", "confluent_kafka"} & before)
"""
    assert run(tmp_path, then, "dag-processor") == ["[]", "set()"]


def test_others_import_nothing(tmp_path: Path) -> None:
    cases: dict[str, Case] = {
        "api-server": (("api-server",), {}),
        "triggerer": (("triggerer",), {}),
        "none": ((), {}),
        "tasks run elsewhere": (
            ("scheduler",),
            {"AIRFLOW__CORE__EXECUTOR": "airflow.executors.base_executor.BaseExecutor"},
        ),
        "switched off": (("scheduler",), {VARIABLE: "0"}),
        "preloaded": (("dag-processor",), {}),
    }
    then = "print('told', any(name.startswith(('srm_common.domain', 'kafka.')) for name in sys.modules))"
    found = dict(zip(cases, run_all(tmp_path, then, list(cases.values())), strict=True))
    assert found == dict.fromkeys(cases, "False") | {"preloaded": "True"}


def test_code_that_was_upgraded_in_place_counts_at_once(tmp_path: Path) -> None:
    package = tmp_path / "code" / "srm_common"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    then = f"""
import srm_common.errors
from srm_common.airflow_bridge import flow_dags
before = srm_common.errors
assert flow_dags() and sys.modules["srm_common.errors"] is before
with open({str(package / "errors.py")!r}, "a") as file:
    file.write("UPGRADED = True\\n")
assert flow_dags()
import srm_common.errors as after
from srm_common.airflow_bridge.dag_factory import build_dags
known = build_dags.__globals__["FlowName"].parse.__globals__["ConfigError"]
print("told", before is after, after.UPGRADED, known is after.ConfigError)
"""
    assert run(tmp_path, then, "scheduler", package=package) == ["False True True"]

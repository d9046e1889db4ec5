"""What the wheel installs: one name, typed, with what runs outside of Python; and the bounds that go with it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import srm_common
from srm_common.errors import installing
from tests.compat.environment import ENVIRONMENTS, lower_bounds, project
from tests.compat.table import COLUMNS, rows
from tests.compat.trial import STEPS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def names(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_it_installs_no_name_that_others_may_have(names: list[str]) -> None:
    tops = {name.split("/", 1)[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"srm_common"}


def test_it_is_typed_and_has_the_spark_job(names: list[str]) -> None:
    assert {"srm_common/py.typed", "srm_common/spark_jobs/replicate.py", "srm_common/spark_jobs/verify.py"} <= set(
        names
    )
    assert "srm_common/airflow_bridge/srm-spark-submit" in names


def test_its_version_is_above_that_of_the_last_release() -> None:
    """Else pip takes the wheel of a later build for the released one, and installs nothing."""
    unreleased, _, released = (
        (ROOT / "CHANGELOG.md").read_text().partition("\n## [Unreleased]\n")[2].partition("\n## [")
    )
    if unreleased.strip():
        assert Version(srm_common.__version__) > Version(released.partition("]")[0])


def test_messages_advise_to_install_this_file(wheel: Path) -> None:
    assert installing("spark", "transforms") == f"pip install '{wheel.name}[spark,transforms]'"


def test_an_upgrade_as_documented_replaces_a_build_of_the_same_version(wheel: Path, tmp_path: Path) -> None:
    later = tmp_path / "later" / wheel.name
    later.parent.mkdir()
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(later, "w") as new:
        for name in old.namelist():
            added = b"LATER = True\n" if name == "srm_common/__init__.py" else b""
            new.writestr(name, old.read(name) + added)
    venv.create(tmp_path / "environment", with_pip=True, symlinks=True)
    python = str(tmp_path / "environment/bin/python")
    upgrade = (ROOT / "docs/install.md").read_text().partition("\n## Upgrade\n")[2]
    (documented,) = re.findall(r"^ *pip install (.*) 'srm_kafka-<version>-py3-none-any\.whl'$", upgrade, re.MULTILINE)
    for one in (wheel, later):
        command = [python, "-m", "pip", "install", "--quiet", "--no-index", *documented.split(), str(one)]
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    asked = [python, "-I", "-c", "import srm_common; print(srm_common.LATER)"]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_the_checkouts_job_for_spark_submit_is_the_same() -> None:
    command = [sys.executable, str(ROOT / "spark_jobs" / "replicate.py"), "--help"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "--selection" in done.stdout


def test_each_dependency_has_a_lower_bound_and_none_is_pinned() -> None:
    assert {bound.split("==")[0] for bound in lower_bounds()} >= {
        "confluent-kafka",
        "pyspark",
        "apache-airflow",
        "fastapi",
    }
    for wanted in [*project()["dependencies"], *project()["optional-dependencies"]["airflow"]]:
        assert "==" not in wanted
    # One version of PySpark works with one of pyspark-client alone: both have the same bounds, each published for both.
    spark = [Requirement(one) for one in project()["optional-dependencies"]["spark"] if one.startswith("pyspark")]
    assert [requirement.name for requirement in spark] == ["pyspark", "pyspark-client"]
    assert spark[0].specifier == spark[1].specifier


def test_what_is_tried_has_each_lower_bound_and_each_version_that_is_supported() -> None:
    (oldest,) = [environment for environment in ENVIRONMENTS if environment.oldest]
    bounds = dict(bound.split("==") for bound in lower_bounds())
    assert Version(bounds["apache-airflow"]) == Version(".".join(oldest.airflow.split(".")[:2]))
    assert bounds["pyspark"] == oldest.spark
    for airflow in {environment.airflow[:3] for environment in ENVIRONMENTS}:
        its_own = [environment for environment in ENVIRONMENTS if environment.airflow.startswith(airflow)]
        assert len({environment.python for environment in its_own}) > 1
        assert len({environment.spark[:3] for environment in its_own}) > 1
    assert {environment.spark[:3] for environment in ENVIRONMENTS} == {"4.0", "4.1", "4.2"}
    named = [one.rpartition(" ")[2] for one in project()["classifiers"] if ":: Python :: 3." in one]
    assert {environment.python for environment in ENVIRONMENTS} == set(named)


def test_the_table_says_of_each_that_it_works() -> None:
    found = rows((ROOT / "docs" / "compatibility.md").read_text())
    assert [row.name for row in found] == [one.name for one in ENVIRONMENTS]
    for row, environment in zip(found, ENVIRONMENTS, strict=True):
        assert row.good
        assert len(row.cells) == len(COLUMNS) + len(STEPS) + 1
        assert row.cells[1:3] == (environment.python, environment.airflow)

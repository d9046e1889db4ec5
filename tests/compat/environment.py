"""An environment as somebody has it: an Airflow of some day, then this project's wheel by its own bounds."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from srm_common.testing.artifacts import cache_folder

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = ("airflow", "spark", "serve")
#: Whatever would lead an interpreter, pip or Airflow out of its environment.
_FOREIGN = ("AIRFLOW", "PYTHON", "SRM_", "SPARK_", "PYSPARK", "VIRTUAL_ENV", "MAKE", "MFLAGS")
_INSTALL_SECONDS = 3600


class CannotBuild(Exception):
    """The environment cannot be had; says why."""


@dataclass(frozen=True)
class Environment:
    """``airflow`` and ``spark`` are exact versions. ``installed``: the day on which its owner installed Airflow, from
    what there was until then, as Airflow's own constraints do it; None: today, together with the wheel. ``oldest``:
    with the lower bound of each dependency of the wheel."""

    name: str
    python: str
    airflow: str
    spark: str
    installed: str | None = None
    oldest: bool = False

    @property
    def requirements(self) -> list[str]:
        """What the wheel is installed with."""
        if self.oldest:
            return [
                bound for bound in lower_bounds() if not bound.startswith(("apache-airflow==", "pyspark"))
            ] + self._spark
        return self._spark

    @property
    def _spark(self) -> list[str]:
        return [f"pyspark=={self.spark}", f"pyspark-client=={self.spark}"]


#: Each Airflow meets two versions of Python and two of Spark, and each of these is in one of them at least.
ENVIRONMENTS = (
    Environment("oldest", "3.11", "3.2.0", "4.0.0", installed="2026-04-15", oldest=True),
    Environment("airflow-3.2-spark-4.1", "3.13", "3.2.2", "4.1.3", installed="2026-06-30"),
    Environment("airflow-3.2-spark-4.2", "3.12", "3.2.2", "4.2.0", installed="2026-08-15"),
    Environment("airflow-3.3-spark-4.0", "3.12", "3.3.2", "4.0.4", installed="2026-10-01"),
    Environment("airflow-3.3-spark-4.1", "3.11", "3.3.2", "4.1.3"),
    Environment("newest", "3.13", "3.3.2", "4.2.0"),
)


def project() -> dict[str, Any]:
    """pyproject.toml's table of that name."""
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return found


def lower_bounds() -> list[str]:
    """``name==version`` for each bound of pyproject.toml that somebody who installs the wheel with extras meets."""
    wanted = [*project()["dependencies"]]
    for extra in EXTRAS:
        wanted += project()["optional-dependencies"][extra]
    found = []
    for one in wanted:
        match = re.fullmatch(r"([\w.-]+)(?:\[[\w,]+\])?[^>=]*>=([\w.]+).*", one)
        if match is None:
            raise ValueError(f"pyproject.toml: '{one}' has no lower bound")
        found.append(f"{match[1]}=={match[2]}")
    return found


@contextmanager
def built(environment: Environment, wheel: Path) -> Iterator[Path]:
    """Its interpreter; the environment is removed afterwards.

    Raises:
        CannotBuild: no such Python, or it cannot be installed.
    """
    folder = cache_folder() / "compat" / environment.name
    shutil.rmtree(folder, ignore_errors=True)
    try:
        uv = _uv()
        run([uv, "venv", "--quiet", "--python", str(_interpreter(environment.python)), str(folder)])
        python = folder / "bin" / "python"
        install = [uv, "pip", "install", "--quiet", "--python", str(python)]
        airflow = f"apache-airflow=={environment.airflow}"
        if environment.installed is not None:
            run([*install, "--exclude-newer", environment.installed, airflow])
        # Wheels of PySpark that were built once for all clones.
        install += ["--find-links", str(cache_folder() / "wheels")]
        run([*install, f"srm-kafka[{','.join(EXTRAS)}] @ {wheel.as_uri()}", airflow, *environment.requirements])
        run([uv, "pip", "check", "--python", str(python)])
        yield python
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _uv() -> str:
    """uv, installed once into the cache: pip takes minutes to choose Airflow's two hundred packages."""
    folder = cache_folder() / "compat" / ".uv"
    uv = folder / "bin" / "uv"
    if not uv.exists():
        venv.create(folder, with_pip=True, clear=True)
        run([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "uv"])
    return str(uv)


def run(command: list[str], folder: Path | None = None) -> str:
    """What a command prints. Raises CannotBuild with its last words when it fails."""
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=folder or ROOT.parent, env=clean(), timeout=_INSTALL_SECONDS
    )
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise CannotBuild("; ".join(lines[-6:]))
    return done.stdout


def clean() -> dict[str, str]:
    """This process's environment without what belongs to its own Python."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    return own | {"UV_CACHE_DIR": str(downloads())}


def downloads() -> Path:
    """What uv keeps from one environment to the next, 3 GB for each Spark; on the disk of the environments, so that it
    can link instead of copy."""
    return cache_folder() / "compat" / ".downloads"


def _interpreter(version: str) -> Path:
    """``python3.12`` of the PATH, or of pyenv."""
    pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    on_path = shutil.which(f"python{version}")
    for candidate in (*([Path(on_path)] if on_path else []), *pyenv):
        told = subprocess.run([candidate, "-c", "import sys, venv; print(sys.version)"], capture_output=True, text=True)
        if told.returncode == 0 and told.stdout.startswith(version + "."):
            return candidate
    raise CannotBuild(f"there is no Python {version} with venv; install it, or put it on the PATH as python{version}")


def built_wheel(folder: Path) -> Path:
    """This checkout's wheel."""
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    run(command)
    (wheel,) = folder.glob("*.whl")
    return wheel

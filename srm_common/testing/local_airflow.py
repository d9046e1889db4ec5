"""A real Airflow on this machine, for tests and demos: API server, scheduler, DAG processor and triggerer.

    with LocalAirflow(dags_folder=Path("dags"), environment={"SRM_CONFIG": "srm.properties"}) as airflow:
        airflow.unpause("srm.a.b")
        run = airflow.trigger("srm.a.b")
        assert airflow.wait_for_run("srm.a.b", run) == "success"

Four processes on SQLite, as one user's machine needs; about 750 MB, ready in some fifteen seconds. Every process it
starts, and everything those start, ends with it, whatever happens to either side.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import secrets
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Self

import psutil

from srm_common.errors import LocalAirflowError
from srm_common.testing.airflow_client import AirflowClient
from srm_common.testing.artifacts import cache_folder
from srm_common.testing.java import LocalProcess
from srm_common.testing.local_server import LocalServer
from srm_common.testing.ports import LOOPBACK, ReservedPort, without_proxy

COMPONENTS = ("api-server", "scheduler", "dag-processor", "triggerer")
START_TIMEOUT_SECONDS = 300.0
STOP_TIMEOUT_SECONDS = 5.0
END_TIMEOUT_SECONDS = 60.0
_DATABASE = "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"
#: How long a writer waits for SQLite's lock: as long as a slow machine needs; sqlite3's default is 5 seconds.
_WRITER_SECONDS = 60
#: The API server writes its log of actions on its event loop (``action_logging``), and a request that has the lock may
#: need that loop to release it: then both wait until this time is over, and the request can be repeated.
_API_SERVER_SECONDS = 10
#: Sections of Airflow's settings on which the content of an empty database depends.
_IN_DATABASE = ("AIRFLOW__CORE__", "AIRFLOW__DATABASE__", "AIRFLOW__LOGGING__")
MARKER = "SRM_LOCAL_AIRFLOW"


class LocalAirflow(AirflowClient, LocalServer):
    """One Airflow with a home of its own. A context manager; or ``start()`` and ``close()``.

    ``environment`` is added for all processes (``AIRFLOW__SECTION__KEY``, ``AIRFLOW_CONN_...``, ``SRM_CONFIG``); no
    ``AIRFLOW`` variable of the caller is passed on. ``port`` is the API server's, a free one by default. ``users``
    are logins of Airflow's simple auth manager, name to (role, password). ``connections`` are in Airflow's database
    before anything runs: id to the fields of the REST API (``conn_type``, ``password``, ...). ``refresh_seconds`` is
    the time between two parses of a DAG file, each of which takes about 0.2 CPU-seconds; ``reparse`` asks for one at
    once. Without ``triggerer``, which costs a fifth of the CPU of a start, nobody is asked and no deadline is noticed.
    ``idle_seconds`` is the scheduler's pause between two passes, each of which takes 20 ms of CPU: a short one makes
    tests faster, but one below the default slows them down where several Airflows share two cores. ``directory`` is
    kept when it is given.
    ``python`` is the interpreter of another environment that has Airflow, which then finds this package only if it is
    installed there.
    """

    def __init__(
        self,
        *,
        dags_folder: Path,
        directory: Path | None = None,
        python: Path | None = None,
        port: int | None = None,
        environment: Mapping[str, str] | None = None,
        users: Mapping[str, tuple[str, str]] | None = None,
        connections: Mapping[str, Mapping[str, str]] | None = None,
        refresh_seconds: int = 5,
        idle_seconds: float = 0.4,
        parallelism: int = 4,
        triggerer: bool = True,
    ) -> None:
        self._components = [one for one in COMPONENTS if triggerer or one != "triggerer"]
        self._python = Path(sys.executable) if python is None else python
        # -P: not from the current folder, where a checkout may lie.
        self._airflow = [str(self._python), "-P", "-m", "airflow"]
        self._keep_directory = directory is not None
        self.directory = Path(tempfile.mkdtemp(prefix="srm-airflow-")) if directory is None else directory.absolute()
        self._reserved = [ReservedPort(), ReservedPort()]
        if port is None:
            self._reserved.append(ReservedPort())
            port = self._reserved[-1].number
        self.port = port
        self._users = dict(users or {"admin": ("admin", "admin")})
        self._connections = dict(connections or {})
        self._usual_database = python is None and not any(name.startswith(_IN_DATABASE) for name in environment or ())
        name, (_, password) = next(iter(self._users.items()))
        super().__init__(f"http://{LOOPBACK}:{port}", name, password)
        self._prepared = False
        self._marker = secrets.token_hex(16)
        self._processes: dict[str, LocalProcess] = {}
        self.environment = self._environment(
            dags_folder.absolute(), refresh_seconds, idle_seconds, parallelism, environment or {}
        )

    # ---- life

    def prepare(self) -> None:
        """Makes the database; ``start`` does it too, unless it was done before. An empty one is kept in the download
        cache for each version of Airflow, since the migration takes three CPU-seconds."""
        if not self._prepared:
            self.directory.mkdir(parents=True, exist_ok=True)
            passwords = {name: password for name, (_, password) in self._users.items()}
            (self.directory / "passwords.json").write_text(json.dumps(passwords))
            self._make_database()
            self._prepared = True

    def start(self) -> Self:
        """Starts what does not run; returns when all are healthy."""
        self.prepare()
        for component in self._components:
            self.start_component(component)
            # Tasks that find no API server fail without a message, so nothing runs before it answers.
            self._wait_for_health(lambda status: True)
            if component == "api-server":
                for connection_id, fields in self._connections.items():
                    self._create("/api/v2/connections", {"connection_id": connection_id, **fields})
        self._wait_for_health(lambda status: status == "healthy")
        return self

    def start_component(self, component: str) -> None:
        """Starts one of :data:`COMPONENTS` unless it runs."""
        process = self._processes.get(component)
        if process is None or not process.running:
            command = [*self._airflow, component]
            environment = dict(self.environment)
            if component == "api-server" and environment[_DATABASE] == self._database(_WRITER_SECONDS):
                environment[_DATABASE] = self._database(_API_SERVER_SECONDS)
            self._processes[component] = LocalProcess(command, output=self.log_path(component), environment=environment)

    def process(self, component: str) -> LocalProcess:
        return self._processes[component]

    def stop(self) -> None:
        """Asks all processes to end, and ends those that do not within 5 s, with everything they started."""
        for process in self._processes.values():
            process.terminate()
        deadline = time.monotonic() + STOP_TIMEOUT_SECONDS
        while any(process.running for process in self._processes.values()) and time.monotonic() < deadline:
            time.sleep(0.05)
        # The scheduler waits for running tasks, and sometimes for nothing at all.
        for process in self._processes.values():
            if process.running:
                process.kill()
        self._processes.clear()
        self._end_descendants()

    def close(self, *, failed: bool = False) -> None:
        """Stops, and removes a temporary directory; with ``failed`` it stays and is named."""
        self.stop()
        for port in self._reserved:
            port.release()
        if self._keep_directory:
            return
        if failed:
            print(f"logs of Airflow are kept in {self.directory}", file=sys.stderr)
        else:
            shutil.rmtree(self.directory, ignore_errors=True)

    def log_path(self, component: str) -> Path:
        return self.directory / f"{component}.log"

    def command(self, *arguments: str) -> str:
        """Runs ``airflow <arguments>`` and returns what it prints. Raises LocalAirflowError when it fails."""
        done = subprocess.run([*self._airflow, *arguments], env=self.environment, capture_output=True, text=True)
        if done.returncode:
            raise LocalAirflowError(f"airflow {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def descendants(self) -> list[psutil.Process]:
        """Every living process that this Airflow started, directly or not, its tasks' Spark jobs among them."""
        found = []
        for process in psutil.process_iter():
            # Others' processes refuse to show their environment; ended ones have none.
            with contextlib.suppress(psutil.Error, OSError):
                if process.environ().get(MARKER) == self._marker and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    # ---- inside

    def _make_database(self) -> None:
        file = self.directory / "airflow.db"
        empty = cache_folder() / f"airflow-{version('apache-airflow-core')}.db"
        kept = self._usual_database and not file.exists()
        if kept and empty.exists():
            shutil.copyfile(empty, file)
            return
        self.command("db", "migrate")
        if kept:
            # A cache that this user may only read takes none: the next Airflow migrates again.
            with contextlib.suppress(OSError, sqlite3.Error):
                _keep(file, empty)

    def _end_descendants(self) -> None:
        deadline = time.monotonic() + END_TIMEOUT_SECONDS
        while left := self.descendants():
            for process in left:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            if time.monotonic() > deadline:
                raise LocalAirflowError(f"processes of Airflow do not end: {[process.pid for process in left]}")
            time.sleep(0.05)

    def _wait_for_health(self, enough: Callable[[str | None], bool]) -> None:
        """Until the API server answers with an ``enough`` status of every component, and of its database."""
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException, LocalAirflowError):
                # Without patience, since a component that ended would be noticed late.
                health = self._send("GET", "/api/v2/monitor/health", None, None)
                absent = {"triggerer"} - {*self._components}
                if all(enough(health[part]["status"]) for part in health.keys() - absent):
                    return
            for component, process in self._processes.items():
                if not process.running:
                    raise LocalAirflowError(f"Airflow's {component} ended while starting:\n{process.tail()}")
            if time.monotonic() > deadline:
                raise LocalAirflowError(f"Airflow is not healthy in time; see the logs in {self.directory}")
            time.sleep(0.2)

    def _database(self, seconds: int) -> str:
        return f"sqlite:///{self.directory}/airflow.db?timeout={seconds}"

    def _environment(
        self, dags_folder: Path, refresh: int, idle: float, parallelism: int, extra: Mapping[str, str]
    ) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
        own["PATH"] = os.pathsep.join((str(self._python.parent), own.get("PATH", os.defpath)))
        # A task is a process of its own: without kept bytecode, each compiles what it imports.
        own.pop("PYTHONDONTWRITEBYTECODE", None)
        if self._python == Path(sys.executable):
            package_root = str(Path(__file__).resolve().parents[2])
            own["PYTHONPATH"] = os.pathsep.join(filter(None, (package_root, own.get("PYTHONPATH"))))
        log_port, trigger_log_port = (str(port.number) for port in self._reserved[:2])
        url = f"http://{LOOPBACK}:{self.port}"
        airflow = {
            "HOME": str(self.directory),
            "_CORE__DAGS_FOLDER": str(dags_folder),
            "_CORE__LOAD_EXAMPLES": "False",
            "_CORE__EXECUTOR": "LocalExecutor",
            "_CORE__PARALLELISM": str(parallelism),
            "_CORE__FERNET_KEY": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
            "_CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{n}:{role}" for n, (role, _) in self._users.items()),
            "_CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self.directory / "passwords.json"),
            "_CORE__MIN_SERIALIZED_DAG_UPDATE_INTERVAL": "1",
            # A task whose file cannot be parsed in time fails, and logs nothing.
            "_CORE__DAGBAG_IMPORT_TIMEOUT": "300",
            _DATABASE.removeprefix("AIRFLOW_"): self._database(_WRITER_SECONDS),
            "_DAG_PROCESSOR__REFRESH_INTERVAL": str(refresh),
            "_DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": str(refresh),
            "_SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": str(idle),
            "_API__HOST": LOOPBACK,
            "_API__PORT": str(self.port),
            # Workers call the API server by this address; the port alone would leave them at 8080.
            "_API__BASE_URL": url,
            "_API__SECRET_KEY": secrets.token_hex(32),
            # Of one try of a task's request to the API server; a busy machine needs more than 5 seconds now and then.
            "_WORKERS__EXECUTION_API_TIMEOUT": "60",
            # A worker that sees its task's pipes closed a moment before the task's end looks for it only when the next
            # heartbeat is due: until then the worker takes no other task, and one that was skipped or failed goes on.
            "_WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
            "_API_AUTH__JWT_SECRET": secrets.token_hex(48),
            "_LOGGING__WORKER_LOG_SERVER_PORT": log_port,
            "_LOGGING__TRIGGER_LOG_SERVER_PORT": trigger_log_port,
            "_USAGE_DATA_COLLECTION__ENABLED": "False",
        }
        # Airflow's processes overwrite their environment, and the marker in it, with their titles unless configured.
        own["SPT_NOENV"] = "1"
        own |= without_proxy(own)
        return own | {f"AIRFLOW_{key}": value for key, value in airflow.items()} | {MARKER: self._marker} | dict(extra)


def _keep(database: Path, empty: Path) -> None:
    """Complete from the moment it has its name: another process may look for it."""
    empty.parent.mkdir(parents=True, exist_ok=True)
    unfinished = empty.with_name(f"{empty.name}.{os.getpid()}")
    with (
        contextlib.closing(sqlite3.connect(database)) as made,
        contextlib.closing(sqlite3.connect(unfinished)) as copy,
    ):
        made.backup(copy)
    unfinished.replace(empty)

"""Everything the demo runs: two clusters, the writer, Airflow. Ends what it started, and only that."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import psutil

from demo import trouble
from demo.readers import Readers
from demo.topics import RETURNS, TOPICS, DemoTopic
from srm_common.domain.flow import FlowSettings
from srm_common.domain.moving.moves import MoveKind
from srm_common.errors import SrmError
from srm_common.settings_files.configuration import load_configuration
from srm_common.testing import LocalKafka
from srm_common.testing.java import LocalProcess
from srm_common.testing.local_airflow import LocalAirflow
from srm_common.testing.ports import LOOPBACK, ReservedPort

ROOT = Path(__file__).resolve().parents[1]
FOLDER = Path(os.environ.get("SRM_DEMO_FOLDER", ROOT / ".demo"))
FLOW = "east->west"
DAG_ID = "srm.east.west"
LOGIN = ("admin", "admin")
FIRST_PORT = 8080
MARKER = "SRM_DEMO"
STOP_SECONDS = 30.0
#: Flows in trouble run this many times less often.
SELDOM = 3

CONFIGURATION = """\
# The demo's clusters and the flow between them.
clusters = east, west{more_clusters}
east.bootstrap.servers = {east}
west.bootstrap.servers = {west}

east->west.enabled = true
east->west.topics = .*
schedule.interval.seconds = {interval}

# One Airflow pool per target cluster bounds how many Spark jobs write into it at once.
airflow.pool = srm_{{target}}

# One broker each: nothing to put further replicas on.
replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
config.storage.replication.factor = 1
heartbeats.topic.replication.factor = 1
checkpoints.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
"""


class DemoError(SrmError):
    """The demo cannot be started or stopped."""


@dataclass(frozen=True)
class Stage:
    """The running demo: the flow's settings, the API client of its Airflow, and the two clusters."""

    flow: FlowSettings
    airflow: LocalAirflow
    east: LocalKafka
    west: LocalKafka
    configuration: Path

    @property
    def replications(self) -> str:
        """Where the Replications page is."""
        return f"{self.airflow.url}/plugin/replications"


@dataclass(frozen=True)
class Clusters:
    """The running parts of a demo without Airflow."""

    flow: FlowSettings
    east: LocalKafka
    west: LocalKafka
    configuration: Path


@contextmanager
def running(interval_seconds: int = 30, *, more_keys: str = "", alive: bool = True) -> Iterator[Stage]:
    """Starts the demo in ``.demo``; everything ends with the block. Raises DemoError when another one runs,
    or LocalKafkaError or LocalAirflowError, which say what was waited for, or what ended.

    ``more_keys`` go to the end of the properties file. ``alive``: topics are written and read all the time, and flows
    have the troubles of :mod:`demo.trouble`.
    """
    _claim()
    unused = ReservedPort()
    if alive:
        more_keys += trouble.KEYS.format(backup=unused.address, seldom=interval_seconds * SELDOM)
    east, west = _pair()
    configuration = _configured(east, west, interval_seconds, more_keys, ", backup" if alive else "")
    airflow = LocalAirflow(
        dags_folder=ROOT / "dags",
        directory=FOLDER / "airflow",
        port=_free_port(),
        environment={
            "SRM_CONFIG": str(configuration),
            "AIRFLOW_CONN_SPARK": json.dumps({"conn_type": "spark", "host": "local[2,4]"}),
            # The user as which the DAGs that move groups pause and resume flows.
            "AIRFLOW_CONN_SRM_AIRFLOW": json.dumps({"conn_type": "http", "login": LOGIN[0], "password": LOGIN[1]}),
        },
        users={LOGIN[0]: ("admin", LOGIN[1])},
    )
    with ExitStack() as ending:
        # The last one entered ends first: Airflow, then the writer, then the clusters.
        ending.push(_tidy)
        ending.callback(unused.release)
        ending.callback(east.close)
        ending.callback(west.close)
        with ThreadPoolExecutor() as together:
            for done in [together.submit(start) for start in (east.start, west.start, airflow.prepare)]:
                done.result()
        if alive:
            for cluster, topics in ((east, TOPICS), (west, (RETURNS,))):
                ending.callback(_writer(cluster, topics).kill)
            ending.enter_context(Readers(east.bootstrap_servers))
        ending.callback(airflow.close)
        airflow.start()
        for target in ("west", "east", "backup"):
            airflow.create_pool(f"srm_{target}", slots=1, description=f"Spark jobs that write into {target}")
        configured = load_configuration(configuration)
        # Only DAGs that have been parsed can be viewed and started: Airflow answers 404 about others.
        for dag_id in (*(flow.dag_id for flow in configured.flows), *(kind.dag_id for kind in MoveKind)):
            airflow.wait_for_dag(dag_id)
        if alive:
            ending.enter_context(trouble.TooShortRetention(configured.flow(trouble.FLOW), west))
        yield Stage(configured.flow(FLOW), airflow, east, west, configuration)


@contextmanager
def clusters(*, more_keys: str = "") -> Iterator[Clusters]:
    """The two clusters alone, without Airflow; they end with the block, and so does ``.demo``. Raises the same
    as :func:`running`."""
    _claim()
    east, west = _pair()
    configuration = _configured(east, west, 30, more_keys)
    with ExitStack() as ending:
        ending.push(_tidy)
        ending.callback(east.close)
        ending.callback(west.close)
        with ThreadPoolExecutor() as together:
            for done in [together.submit(start) for start in (east.start, west.start)]:
                done.result()
        yield Clusters(load_configuration(configuration).flow(FLOW), east, west, configuration)


def _pair() -> tuple[LocalKafka, LocalKafka]:
    east, west = (LocalKafka(name=name, directory=FOLDER / name) for name in ("east", "west"))
    return east, west


def _configured(
    east: LocalKafka, west: LocalKafka, interval_seconds: int, more_keys: str, more_clusters: str = ""
) -> Path:
    """The properties file of the flows between them."""
    path = FOLDER / "srm.properties"
    text = CONFIGURATION.format(
        east=east.bootstrap_servers,
        west=west.bootstrap_servers,
        more_clusters=more_clusters,
        interval=interval_seconds,
    )
    path.write_text(text + more_keys)
    return path


def _writer(cluster: LocalKafka, topics: Sequence[DemoTopic]) -> LocalProcess:
    """Makes the topics, and starts a process that writes them."""
    for topic in topics:
        cluster.create_topic(topic.name, topic.partitions, config=topic.config)
    return LocalProcess(
        [sys.executable, "-m", "demo.producer", cluster.bootstrap_servers, *(topic.name for topic in topics)],
        output=FOLDER / f"producer-{topics[0].name}.log",
        environment={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def stop() -> bool:
    """Ends the demo that runs, or what is left of one; False when there is none."""
    found = _noted()
    if found is None:
        return False
    process = _main_process(found)
    if process is not None:
        process.terminate()
        with suppress(psutil.TimeoutExpired):
            process.wait(STOP_SECONDS)
    _end_marked(str(found["marker"]))
    shutil.rmtree(FOLDER, ignore_errors=True)
    return True


def _tidy(kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
    """The folder goes with the demo; the logs of one that failed stay, for whoever wants to know why."""
    if kind is None or issubclass(kind, KeyboardInterrupt):
        shutil.rmtree(FOLDER, ignore_errors=True)
    else:
        (FOLDER / "demo.json").unlink(missing_ok=True)


def _claim() -> None:
    """Notes this process as the demo and empties the folder. What it starts inherits the marker."""
    found = _noted()
    if found is not None:
        if _main_process(found) is not None:
            raise DemoError(f"a demo is already running (process {found['pid']}); end it with: make demo-stop")
        _end_marked(str(found["marker"]))
    shutil.rmtree(FOLDER, ignore_errors=True)
    # Whatever is killed leaves its temporary files here, too.
    temporary = FOLDER.absolute() / "tmp"
    temporary.mkdir(parents=True)
    os.environ["TMPDIR"], tempfile.tempdir = str(temporary), None
    os.environ[MARKER] = secrets.token_hex(16)
    note = {"pid": os.getpid(), "started": psutil.Process().create_time(), "marker": os.environ[MARKER]}
    (FOLDER / "demo.json").write_text(json.dumps(note))


def _noted() -> dict[str, int | float | str] | None:
    with suppress(FileNotFoundError, ValueError):
        loads: dict[str, int | float | str] = json.loads((FOLDER / "demo.json").read_text())
        return loads
    return None


def _main_process(note: dict[str, int | float | str]) -> psutil.Process | None:
    """The noted process, if it still runs: a process id alone may belong to another process by now."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(int(note["pid"]))
        if process.create_time() == note["started"] and process.status() != psutil.STATUS_ZOMBIE:
            return process
    return None


def _end_marked(marker: str) -> None:
    """Kills every process that inherited the marker; more may appear while it looks."""
    deadline = time.monotonic() + STOP_SECONDS
    while left := list(_marked(marker)):
        for process in left:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        if time.monotonic() > deadline:
            raise DemoError(f"these processes of the demo do not end: {[process.pid for process in left]}")
        time.sleep(0.1)


def _marked(marker: str) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if (
                process.pid != os.getpid()
                and process.environ().get(MARKER) == marker
                and process.status() != psutil.STATUS_ZOMBIE
            ):
                yield process


def _free_port() -> int:
    """SRM_DEMO_PORT, else 8080 if it is free, else the next free port."""
    chosen = os.environ.get("SRM_DEMO_PORT")
    if chosen is not None:
        if not chosen.isdecimal() or not 0 < int(chosen) < 65536:
            raise DemoError(f"SRM_DEMO_PORT is {chosen!r}, which is not a port; set it to a number from 1 to 65535")
        return int(chosen)
    for port in range(FIRST_PORT, FIRST_PORT + 100):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(OSError):
                probe.bind((LOOPBACK, port))
                return port
    raise DemoError(f"no port from {FIRST_PORT} to {FIRST_PORT + 99} is free")

"""What the browser looks at: two real clusters, an Airflow with the plugin, and a flow for every kind of state.

east->west      copies by itself once at the start, then when a test says so
west->east      paused since it was made, with records that wait
east->backup    fails: nobody listens at backup
big->west       paused; its history, 1,000 topics of 10 partitions, was made up and written to the metrics store
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from confluent_kafka import Producer, TopicPartition

from bench.history import Shape, reports
from srm_common.domain.moving.moves import MoveKind
from srm_common.domain.verification.differences import Difference, DifferenceKind, Findings
from srm_common.domain.verification.summary import results_table
from srm_common.domain.verification.verification import Against, PartitionVerified
from srm_common.store.metrics_store import MetricsStore
from srm_common.testing import BrokerJvm, LocalKafka
from srm_common.testing.airflow_client import wait_until
from srm_common.testing.local_airflow import LocalAirflow
from srm_common.testing.ports import ReservedPort
from tests.kafka.group_commits import commit

ROOT = Path(__file__).resolve().parents[2]
FLOW, DAG_ID = "east->west", "srm.east.west"
FAILING_DAG_ID = "srm.east.backup"
LONG_TOPIC = "long." + "x" * 230
#: Kafka takes any text as the name of a group.
MARKUP = '<img src="x" onerror="document.title=1">'
BIG_TOPICS, BIG_PARTITIONS = 1000, 10
#: Name, and role in Airflow; the password is the name.
USERS = {"admin": "admin", "op": "op", "user": "user", "viewer": "viewer"}
FIRST_RECORDS = 1000
START_SECONDS = RUN_SECONDS = 300.0

CONFIGURATION = """\
clusters = east, west, backup, big
east.bootstrap.servers = {east}
west.bootstrap.servers = {west}
backup.bootstrap.servers = {backup}
big.bootstrap.servers = {east}
east->west.enabled = true
east->west.topics = orders, clicks, long\\\\..*
east->west.preview.values.enabled = true
west->east.enabled = false
west->east.topics = returns
# Acts in MirrorMaker 2, and not here.
west->east.producer.linger.ms = 50
east->backup.enabled = true
big->west.enabled = false
big->west.transforms.sql = SELECT key FROM records WHERE length(value) > 0
# Once, at the start; then the tests say when.
schedule.interval.seconds = 86400
emit.checkpoints.interval.seconds = 0
refresh.topics.interval.seconds = 0
# Nobody is there.
east->backup.admin.timeout.ms = 5000
task.retries = 0
replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
config.storage.replication.factor = 1
heartbeats.topic.replication.factor = 1
checkpoints.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
"""


def _verified(now_ms: int) -> Iterator[PartitionVerified]:
    """One partition of a topic in each state that a verification leaves it in, and one that none has compared."""
    topic, hour = "payments.created", 3_600_000
    proved = Findings(proved=1_200_000, proved_from=0, proved_to=1_250_000, segments=40)
    different = Findings(proved=1_100_000, proved_from=0, proved_to=812, segments=41)
    different.add(Difference(DifferenceKind.CHANGED, 812, 812, 830, 830))
    verifieds = [
        *[PartitionVerified(topic, number, f"big.{topic}", proved, whole=True) for number in range(BIG_PARTITIONS - 4)],
        PartitionVerified(topic, BIG_PARTITIONS - 4, f"big.{topic}", proved, whole=False, sample=0.05),
        PartitionVerified(topic, BIG_PARTITIONS - 3, f"big.{topic}", different),
        PartitionVerified(topic, BIG_PARTITIONS - 2, f"big.{topic}", Findings(), fault="no broker responds"),
    ]
    yield from (replace(verified, checked_ms=now_ms - hour, against=Against.MAP) for verified in verifieds)


@dataclass(frozen=True)
class Stage:
    airflow: LocalAirflow
    east: LocalKafka
    west: LocalKafka
    configuration: Path

    def write(self, topic: str, count: int) -> None:
        """``count`` records more at east."""
        write(self.east, topic, count)

    def copy(self) -> str:
        """Another run of east->west, to its end; its id."""
        run = self.airflow.trigger(DAG_ID)
        ended = self.airflow.wait_for_run(DAG_ID, run, RUN_SECONDS)
        assert ended == "success", self.airflow.task_states(DAG_ID, run)
        return run


@contextmanager
def standing(folder: Path) -> Iterator[Stage]:
    """Returns when east->west has copied and east->backup has failed; ends everything with the block."""
    with ExitStack() as ending:
        nobody = ReservedPort()
        ending.callback(nobody.release)
        jvm = ending.enter_context(BrokerJvm())
        east, west = (LocalKafka(name=name, jvm=jvm) for name in ("east", "west"))
        configuration = folder / "srm.properties"
        configuration.write_text(
            CONFIGURATION.format(east=east.bootstrap_servers, west=west.bootstrap_servers, backup=nobody.address)
        )
        airflow = LocalAirflow(
            dags_folder=ROOT / "dags",
            environment={
                "SRM_CONFIG": str(configuration),
                "SRM_DATABASE": f"sqlite:///{folder}/srm-metrics.db",
                "AIRFLOW_CONN_SPARK": json.dumps({"conn_type": "spark", "host": "local[2,4]"}),
                # As whom the DAGs that move groups pause and resume flows.
                "AIRFLOW_CONN_SRM_AIRFLOW": json.dumps({"conn_type": "http", "login": "admin", "password": "admin"}),
            },
            users={name: (role, name) for name, role in USERS.items()},
            # The file stays as it is.
            refresh_seconds=600,
        )
        for each in (east, west, airflow):
            ending.callback(each.close)
        with ThreadPoolExecutor() as together:
            for done in [together.submit(start) for start in (east.start, west.start, airflow.prepare)]:
                done.result()
        _fill(east, west)
        make_up_history(f"sqlite:///{folder}/srm-metrics.db")
        airflow.start()
        for dag_id in (DAG_ID, FAILING_DAG_ID, *(kind.dag_id for kind in MoveKind)):
            airflow.wait_for_dag(dag_id, START_SECONDS)
        _wait_for_first_run(airflow, DAG_ID, "success")
        _wait_for_first_run(airflow, FAILING_DAG_ID, "failed")
        yield Stage(airflow, east, west, configuration)


def write(kafka: LocalKafka, topic: str, count: int) -> None:
    producer = Producer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "enable.idempotence": True,
            "compression.type": "lz4",
            "linger.ms": 20,
        }
    )
    for number in range(count):
        producer.produce(topic, key=str(number), value=f"{topic} {number} " + "." * 200)
    assert producer.flush(60) == 0


def make_up_history(url: str) -> None:
    """Of a flow that is too large to be run here; one of its topics and one of its errors hold markup, and some records
    were skipped."""
    shape = Shape(1, BIG_TOPICS, BIG_PARTITIONS, 50, 0.05, 900, int(time.time() * 1000), 7)
    store = MetricsStore(url, timeout_seconds=60)
    for report in reports(shape):
        run = report.run
        assert run is not None
        strange = [
            replace(partition, upstream_topic=MARKUP, downstream_topic=f"big.{MARKUP}", error=f"so {MARKUP}")
            for partition in run.partitions[:BIG_PARTITIONS]
        ]
        strange[0] = replace(strange[0], skipped_records=1234, dead_letters=1200, dropped_records=5678)
        run = replace(run, flow="big->west", partitions=(*strange, *run.partitions[BIG_PARTITIONS:]))
        store.write(replace(report, flow="big->west", run=run, verified=results_table(_verified(report.reported_ms))))
    store.close()


def _fill(east: LocalKafka, west: LocalKafka) -> None:
    for topic, partitions in {"orders": 2, "clicks": 3, "secrets": 1, LONG_TOPIC: 1}.items():
        east.create_topic(topic, partitions=partitions)
        write(east, topic, FIRST_RECORDS)
    west.create_topic("returns", partitions=1)
    write(west, "returns", FIRST_RECORDS)
    for group in ("billing", MARKUP):
        commit(east, group, TopicPartition("orders", 0, 10), TopicPartition("orders", 1, 20))
    # A place that was not copied has no translation.
    commit(east, "auditors", TopicPartition("secrets", 0, 5))


def _wait_for_first_run(airflow: LocalAirflow, dag_id: str, state: str) -> None:
    run = wait_until(lambda: airflow.runs(dag_id), START_SECONDS, f"a first run of {dag_id}")[-1]["dag_run_id"]
    ended = airflow.wait_for_run(dag_id, run, START_SECONDS)
    assert ended == state, f"{dag_id}: {ended}, {airflow.task_states(dag_id, run)}"

"""A run in Spark between clusters with Kerberos alone: its workers take tickets of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from srm_common.testing import LocalKafka
from tests.kafka.flows import Seen
from tests.kafka.records import produce, read_all
from tests.kdc import LocalKdc, needs_kerberos
from tests.kerberized import asked, brokers, by_keytab, by_ticket_cache

pytestmark = [pytest.mark.kafka, pytest.mark.spark, needs_kerberos]

ROOT = Path(__file__).parents[2]
_RECORDS = 500


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKdc]:
    with asked(tmp_path_factory.mktemp("kdc")) as kdc:
        yield kdc


@pytest.fixture(scope="module")
def kafkas(kdc: LocalKdc) -> Iterator[tuple[LocalKafka, LocalKafka]]:
    with brokers(kdc) as both:
        yield both


def test_workers_log_in_by_keytab_and_ticket_cache(
    kdc: LocalKdc, kafkas: tuple[LocalKafka, LocalKafka], tmp_path: Path, name: str
) -> None:
    source, target = kafkas
    source.create_topic(name, 2)
    for partition in (0, 1):
        record = Seen(b"k", b"value" * 20, (), int(time.time() * 1000))
        produce(source, name, partition, [record] * _RECORDS)
    reader, copier = kdc.keytab("reader"), kdc.keytab("copier")
    cache = kdc.ticket_cache("copier", copier, tmp_path / "cache")
    properties: dict[str, object] = {
        "clusters": "a, b",
        "a.bootstrap.servers": source.bootstrap_servers,
        "b.bootstrap.servers": target.bootstrap_servers,
        **{f"a.{key}": value for key, value in by_keytab("reader", reader).items()},
        **{f"b.{key}": value for key, value in by_ticket_cache(cache, "otherkafka").items()},
        "a->b.enabled": "true",
        "a->b.topics": name,
        "tasks.max": 2,
        "replication.factor": -1,
        "spark.min.bytes": 0,
        "emit.heartbeats.enabled": "false",
    }
    configuration = tmp_path / "srm.properties"
    configuration.write_text("".join(f"{key} = {value}\n" for key, value in properties.items()))
    events, settings = tmp_path / "events", tmp_path / "conf"
    for folder in (events, settings):
        folder.mkdir()
    (settings / "spark-defaults.conf").write_text(
        f"spark.eventLog.enabled true\nspark.eventLog.dir {events.as_uri()}\nspark.eventLog.rolling.enabled false\n"
        "spark.eventLog.compress false\n"
    )
    logins = kdc.logins("reader")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "srm_common.cli.main", "run", "--config", str(configuration)),
            *("--flow", "a->b", "--master", "local[2]", "--output", "json", "--no-report"),
        ],
        env={one: value for one, value in os.environ.items() if not one.startswith(("PYSPARK", "SPARK"))}
        | {"PYTHONPATH": str(ROOT), "SPARK_CONF_DIR": str(settings)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    answer = json.loads(done.stdout)
    assert (answer["state"], answer["records"], answer["lag"]) == ("done", 2 * _RECORDS, 0), answer
    (log,) = events.iterdir()
    copied = [json.loads(line) for line in log.read_text().splitlines()]
    ends = [event for event in copied if event["Event"] == "SparkListenerTaskEnd"]
    assert {event["Task End Reason"]["Reason"] for event in ends} == {"Success"}
    # The driver's, and a worker's.
    assert kdc.logins("reader") > logins + 1
    seen = [
        {one: [record.seen for record in records] for one, records in read_all(kafka, topic).items()}
        for kafka, topic in ((source, name), (target, f"a.{name}"))
    ]
    assert seen[0] == seen[1]

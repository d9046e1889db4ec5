"""A broker's certificate on its whole way: handshake, report, history, REST, the page's data, a notifier; and what they
say when it is wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from srm_common.airflow_bridge.alarms import send_alarms
from srm_common.domain.flow import FlowSettings
from srm_common.domain.flow.settings import AlarmNotifier
from srm_common.domain.monitoring.certificates import DAY_MS
from srm_common.errors import SrmError
from srm_common.rest.app import AppContext, create_app
from srm_common.rest.serving.watched_files import WatchedConfiguration
from srm_common.settings_files.configuration import load_configuration
from srm_common.store.metrics_store import MetricsStore
from srm_common.testing import BrokerJvm, LocalKafka
from srm_common.usecases.flows.flow_clusters import clusters_of
from srm_common.usecases.monitoring.report_run import keep_report, make_report
from tests.kafka.access.secured import Secured, flow_of, topic_of
from tests.kafka.access.test_certificates import DAY, Certified
from tests.kafka.flows import properties_of
from tests.kafka.records import plain, produce
from tests.kafka.topic_pairs import run
from tests.unit.rest.airflow_stand_in import MemoryScheduler
from tests.unit.rest.people import HEADER, HeaderAccess

#: What :class:`Told` was called with.
told: list[Mapping[str, Any]] = []


class Told:
    """A notifier."""

    def __call__(self, context: Mapping[str, Any]) -> None:
        told.append(context["alarm"])


@dataclass
class AssetState:
    """What Airflow keeps of a flow between its runs."""

    values: dict[str, Any] = field(default_factory=dict)

    def get(self, key: str) -> Any:
        return self.values.get(key)

    def set(self, key: str, value: Any) -> None:
        self.values[key] = value


@pytest.fixture(scope="module")
def certified(broker_jvm: BrokerJvm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Certified]:
    made = Certified(tmp_path_factory.mktemp("certificates"), broker_jvm)
    with made.kafka:
        yield made


@dataclass
class Watched:
    """A flow whose runs are reported as its DAG does."""

    flow: FlowSettings
    store: MetricsStore
    client: TestClient
    state: AssetState = field(default_factory=AssetState)
    runs: int = 0

    def run(self) -> list[Mapping[str, Any]]:
        """One run with its report; returns what the notifier was sent."""
        self.runs += 1
        run_id, unable = f"r{self.runs}", None
        try:
            run(self.flow, run_id=run_id)
        except SrmError as error:
            unable = str(error)
        with clusters_of(self.flow) as clusters:
            report = make_report(clusters, run_id, unable=unable)
        assert keep_report(report, self.store) is None
        told.clear()
        send_alarms(self.flow, report, {}, self.state)
        return [*told]

    def served(self) -> dict[str, Any]:
        """What the page's list of flows is made of."""
        (listed,) = self.client.get("/api/v2/flows").json()["flows"]
        shown: dict[str, Any] = self.client.get(f"/api/v2/flows/{listed['source']}/{listed['target']}").json()["flow"]
        for named in ("health", "alarms"):
            assert _without_ages(shown[named]) == _without_ages(listed[named])
        return shown


def _without_ages(told: Any) -> str:
    """What is told, without its times: a second may pass between two answers."""
    return re.sub(r"\b\d+ (s|min|h|d)\b", "-", json.dumps(told))


@pytest.fixture
def watched(certified: Certified, target_kafka: LocalKafka, tmp_path: Path, name: str) -> Iterator[Watched]:
    own = certified.authority.vouch_for("copier", ends=35 * DAY, file="copier-of-alarms")
    tls = {
        "security.protocol": "SSL",
        "ssl.truststore.location": str(certified.authority.pem),
        "ssl.keystore.location": str(own),
    }
    source = Secured(certified.kafka, tls)
    flow = flow_of(source, Secured(target_kafka), name, retry_timeout_seconds=3.0, admin_timeout_ms=5_000, tasks_max=1)
    flow = replace(flow, alarm_notifiers=(AlarmNotifier("pager", f"{__name__}.Told", {}),))
    topic_of(source, flow, name, 1)
    produce(certified.kafka, name, 0, plain(10))
    file = tmp_path / "srm.properties"
    written = {**properties_of(flow), **{f"{flow.name.source}.{key}": value for key, value in tls.items()}}
    file.write_text("".join(f"{key} = {value}\n" for key, value in written.items()))
    store = MetricsStore(f"sqlite:///{tmp_path / 'metrics.db'}")
    context = AppContext(
        HeaderAccess(),
        lambda: store,
        MemoryScheduler(flow.name),
        WatchedConfiguration(lambda: file, load=load_configuration),
    )
    yield Watched(flow, store, TestClient(create_app(context), headers={HEADER: "viewer"}))
    context.lag.close(0)
    store.close()


def test_the_end_of_a_certificate_is_told_everywhere(certified: Certified, watched: Watched) -> None:
    server = certified.kafka.bootstrap_servers
    alias = watched.flow.name.source
    certified.show(certified.authority.vouch_for("127.0.0.1", ends=10 * DAY, file="ten-days"))
    try:
        (sent,) = watched.run()
        holder = rf"the certificate of broker {server} \(CN=127\.0\.0\.1\) of cluster '{alias}'"
        sentence = rf"{holder} ends in (9|10) d.*, on \d{{4}}-"
        assert (sent["kind"], sent["severity"]) == ("certificate_expiry", "warning")
        assert re.search(sentence, sent["text"]), sent
        served = watched.served()
        (alarm,) = served["alarms"]
        assert (alarm["kind"], alarm["severity"]) == ("certificate_expiry", "warning")
        assert re.search(sentence, alarm["text"]), alarm
        assert alarm["help"]["text"]
        left = served["metrics"]["certificate-remaining-ms"]["latest"] / DAY_MS
        assert 9.9 < left < 10
        assert watched.run() == []  # it was told
    finally:
        certified.show(certified.first)


def test_the_last_days_are_critical_and_a_renewal_ends_the_alarm(certified: Certified, watched: Watched) -> None:
    try:
        certified.show(certified.authority.vouch_for("127.0.0.1", ends=2 * DAY, file="two-days"))
        (sent,) = watched.run()
        assert (sent["kind"], sent["severity"]) == ("certificate_expiry", "critical")
        assert watched.served()["alarms"][0]["severity"] == "critical"
        certified.show(certified.authority.vouch_for("127.0.0.1", ends=34 * DAY, file="renewed-for-long"))
        (sent,) = watched.run()
        assert (sent["kind"], sent["severity"]) == ("certificate_expiry", "info")
        assert watched.served()["alarms"] == []
    finally:
        certified.show(certified.first)


@pytest.mark.parametrize("wrong", ["expired", "host", "authority"])
def test_what_is_wrong_with_a_certificate_is_told_everywhere(
    certified: Certified, watched: Watched, wrong: str
) -> None:
    server = re.escape(certified.kafka.bootstrap_servers)
    shown, expected = {
        "expired": (
            certified.authority.vouch_for("127.0.0.1", ends=-DAY, file="has-ended"),
            "certificate has expired; renew it on the broker",
        ),
        "host": (
            certified.authority.vouch_for("other.example", file="of-another-host"),
            "(IP address|Hostname) mismatch, .*; let bootstrap.servers and the broker's advertised",
        ),
        "authority": (
            certified.stranger.vouch_for("127.0.0.1", file="of-another-authority"),
            "unable to get local issuer certificate; set ssl.truststore.location",
        ),
    }[wrong]
    expected = f"the certificate of {server} is not trusted: {expected}"
    certified.show(shown)
    try:
        watched.run()
        served = watched.served()
        assert served["health"]["state"] == "failing", served["health"]
        assert re.search(expected, served["health"]["cause"]), served["health"]
        assert "\n" not in served["health"]["cause"]
    finally:
        certified.show(certified.first)
    watched.run()
    assert not re.search("not trusted", str(watched.served()["health"]["cause"]))

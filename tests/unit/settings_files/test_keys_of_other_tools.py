"""Every key that other tools document, at every level it may be written at: it acts, or something is said about it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from srm_common.domain.cluster import Client
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.settings.key import Key, Kind, Level
from srm_common.domain.settings.layers import Entry, Layers
from srm_common.domain.settings.table import BY_NAME, CLIENT_SETTINGS
from srm_common.errors import ConfigError
from srm_common.settings_files.checks import findings, notices
from srm_common.settings_files.configuration import Configuration, load_configuration
from srm_common.settings_files.explanations import Explainer
from srm_common.settings_files.fates import Fate, fates
from srm_common.settings_files.findings import Severity
from srm_common.settings_files.key_findings import key_findings

BASE = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
FLOW = FlowName("A", "B")
NAMES = sorted({name.removeprefix(f"{client}.") for key in fates() for name in key.names for client in ("", *Client)})
FORMS = (
    *("{}", "workers.{}", "connectors.{}", "A.{}", "B.{}", "A->B.{}", "A->B.worker.{}", "cluster.A.{}"),
    *("connector.A->B.{}", "A->B.source.cluster.{}", "A->B.target.cluster.{}", "A->B.producer.override.{}"),
    *(f"{place}{client}.{{}}" for client in Client for place in ("", "connectors.", "A.", "B.", "A->B.")),
    *(f"A->B.{side}.{client}.{{}}" for client in Client for side in ("source", "target")),
)


def value_of(name: str) -> str:
    """One that the key takes, and that is not its default."""
    key = BY_NAME.get(name) or CLIENT_SETTINGS.get(name)
    if key is None:
        return "7" if name.endswith(".ms") else "x"
    return _other_value(key)


def _other_value(key: Key) -> str:
    if key.name == "enabled":
        return "false"
    if key.kind is Kind.SWITCH:
        return "false" if key.default == "true" else "true"
    if key.kind in (Kind.CHOICE, Kind.CHOICES):
        return next(choice for choice in key.choices if choice != key.default)
    if key.kind in (Kind.WHOLE, Kind.WHOLE_OR_NONE, Kind.NUMBER, Kind.NUMBER_OR_AUTO):
        return "7000"
    return {"replication.policy.class": "IdentityReplicationPolicy"}.get(key.name, "x")


#: What a key acts beside, by its first word.
_BESIDE = {
    "consumer": "\nexactly.once.source.support = disabled",
    "predicates": "\ntransforms = rename",
    "transforms": "\ntransforms = rename",
    "errors": "\ntransforms = all\ntransforms.all.type = Filter",
}


def loaded(path: Path, line: str) -> Configuration:
    path.write_text(f"{BASE}{line}\n")
    return load_configuration(path)


@pytest.fixture
def plain(tmp_path: Path) -> FlowSettings:
    return loaded(tmp_path / "plain.properties", "").flow(FLOW)


def acts(plain: FlowSettings, configuration: Configuration) -> bool:
    """Whether it made a flow that is not like the plain one, or stops it."""
    if configuration.faults or configuration.cluster_faults:
        return True
    flow = configuration.flow(FLOW)
    return flow != plain or any(
        flow_side.of_client(client) != plain_side.of_client(client)
        for flow_side, plain_side in ((flow.source, plain.source), (flow.target, plain.target))
        for client in Client
    )


def untold(form: str) -> Iterator[str]:
    """Keys of which the names alone tell nothing."""
    entries = [
        Entry(form.format(name), value_of(name), "f", number)
        for number, name in enumerate(NAMES, 1)
        if form.format(name) not in ("clusters", "streams.replication.manager.driver.target.cluster")
    ]
    layers = Layers.of([Entry("clusters", "A, B", "f", 0), *entries], ("A", "B"))
    told = {finding.key for finding in key_findings(layers, entries, [FLOW])}
    yield from (name for name, entry in ((e.written, e) for e in entries) if entry.written not in told)


@pytest.mark.parametrize("form", FORMS)
def test_no_key_is_silently_without_effect(tmp_path: Path, plain: FlowSettings, form: str) -> None:
    silent = []
    for written in untold(form):
        name = next(name for name in NAMES if form.format(name) == written)
        try:
            configuration = loaded(tmp_path / "srm.properties", f"{written} = {value_of(name)}")
        except ConfigError:
            continue  # stops everything
        if not acts(plain, configuration) and not any(found.key == written for found in findings(configuration)):
            silent.append(written)
    assert silent == []


def test_what_the_table_says_to_act_acts(tmp_path: Path, plain: FlowSettings) -> None:
    idle = []
    for key in fates():
        if key.fate in (Fate.ACTS, Fate.RENAMED):
            name = key.names[0]
            plain_name = name.removeprefix("consumer.").removeprefix("producer.").removeprefix("admin.")
            known = BY_NAME.get(name)
            if known is not None and known.levels == (Level.TOP,):
                continue  # of the installation, not of flows
            if plain_name.startswith(("ssl.", "sasl.", "client.rack")) or plain_name == "bootstrap.servers":
                continue  # with TLS and logins: test_client_keys.py
            value = value_of(plain_name if name not in BY_NAME else name)
            lines = [f"A->B.{one} = {value}{_BESIDE.get(name.partition('.')[0], '')}" for one in key.names]
            if not any(acts(plain, loaded(tmp_path / "srm.properties", line)) for line in lines):
                idle.append(name)
    assert idle == []


@pytest.mark.parametrize(
    "line",
    [
        "key.converter = org.apache.kafka.connect.json.JsonConverter",
        "A->B.predicates = isTombstone",
        "errors.tolerance = all",
        "A->B.producer.override.linger.ms = 100",
        "A.consumer.fetch.min.bytes = 100000",
        "A->B.consumer.max.poll.records = 10",
        "B.client.rack = x",
        "A->B.source.cluster.alias = C",
    ],
)
def test_a_run_says_what_would_have_changed_the_copy(tmp_path: Path, line: str) -> None:
    configuration = loaded(tmp_path / "srm.properties", line)
    (notice,) = notices(configuration)[FLOW]
    assert (notice.severity, notice.key) == (Severity.WARNING, line.partition(" ")[0])


@pytest.mark.parametrize(
    "line",
    [
        "key.converter = org.apache.kafka.connect.converters.ByteArrayConverter",
        "errors.tolerance = none",
        "offset.flush.timeout.ms = 5000",
    ],
)
def test_a_run_does_not_say_what_makes_no_difference(tmp_path: Path, line: str) -> None:
    configuration = loaded(tmp_path / "srm.properties", line)
    assert notices(configuration)[FLOW] == ()
    assert [found.severity for found in findings(configuration)] == [Severity.NOTE]


@pytest.mark.parametrize(
    ("lines", "key", "text"),
    [
        (
            "consumer.isolation.level = read_uncommitted",
            "consumer.isolation.level",
            "has no effect for A->B: aborted records are never copied",
        ),
        (
            "config.providers.vault.class = x.FileConfigProvider",
            "config.providers.vault.class",
            "has no effect, as config.providers does not list 'vault'",
        ),
        (
            "config.providers = file\nconfig.providers.file.param.allowed.path = /x",
            "config.providers.file.param.allowed.path",
            "is unknown and has no effect; a provider has class, ",
        ),
        (
            "alarm.notifier.x.class = a.B",
            "alarm.notifier.x.class",
            "has no effect, as alarm.notifiers does not list 'x'",
        ),
        ("A.ssl.keystore.password = x", "A.ssl.keystore.password", "has no effect, as security.protocol is PLAINTEXT"),
        ("A.sasl.username = x", "A.sasl.username", "has no effect, as security.protocol is PLAINTEXT"),
        (
            "security.protocol = SSL\nssl.ca.location = /a\nssl.truststore.certificates = X\nssl.truststore.type = PEM",
            "ssl.truststore.type",
            "has no effect, since other settings of this connection",
        ),
        ("A->B.consumer.flarp = x", "A->B.consumer.flarp", "is not a known setting of Kafka's clients"),
        ("A->B.admin.bootstrap.servers = x:1", "A->B.admin.bootstrap.servers", "has no effect; write A.bootstrap"),
        (
            "workers.consumer.fetch.max.bytes = 5",
            "workers.consumer.fetch.max.bytes",
            "has no effect at this level; write",
        ),
    ],
)
def test_a_key_that_does_nothing_beside_others_is_told(tmp_path: Path, lines: str, key: str, text: str) -> None:
    found = {finding.key: finding for finding in findings(loaded(tmp_path / "srm.properties", lines))}
    assert found[key].severity is Severity.WARNING
    assert found[key].text.startswith(text)


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("consumer.fetch.max.bytes", "fetch.bytes"),
        ("producer.override.linger.ms", "linger.ms"),
        ("source.consumer.client.id", "client.id"),
        ("metrics.jetty.server.auth.username", "metrics.*"),
    ],
)
def test_each_is_explained(tmp_path: Path, name: str, first: str) -> None:
    explanations = Explainer(loaded(tmp_path / "srm.properties", ""), FLOW).explain(name)
    assert explanations[0].name == first


def test_the_spellings_of_kip_382_act(tmp_path: Path) -> None:
    path = tmp_path / "srm.properties"
    path.write_text(
        "clusters = primary, backup\ncluster.primary.broker.list = p:1\ncluster.backup.bootstrap.servers = b:1\n"
        "connector.primary->backup.topics = x\nconnector.primary->backup.emit.heartbeats = false\n"
        "connector.primary->backup.enabled = true\nemit.checkpoints = false\nsync.topic.configs = false\n"
        "connector.primary->backup.groups = old\nprimary->backup.groups = new\n"
    )
    configuration = load_configuration(path)
    flow = configuration.flow("primary->backup")
    assert (flow.source.bootstrap_servers, flow.target.bootstrap_servers) == ("p:1", "b:1")
    assert (flow.enabled, flow.topics, flow.groups) == (True, ("x",), ("new",))
    assert (flow.emit_heartbeats, flow.emit_checkpoints, flow.sync_topic_configs) == (False, False, False)
    told = {finding.key: finding.text for finding in findings(configuration)}
    assert told["cluster.primary.broker.list"] == "is an older spelling of primary.bootstrap.servers; both act"
    assert told["connector.primary->backup.groups"].startswith("has no effect: primary->backup.groups in ")


TRANSFORMS = "transforms = all\ntransforms.all.type = DropHeaders\ntransforms.all.headers = h\n"


@pytest.mark.parametrize(
    ("lines", "severity", "text"),
    [
        ("errors.tolerance = none", Severity.NOTE, "has no effect for A->B, which has no transforms"),
        ("errors.log.enable = true", Severity.WARNING, "has no effect for A->B, which has no transforms"),
        (
            f"{TRANSFORMS}errors.deadletterqueue.topic.name = dead",
            Severity.WARNING,
            "has no effect for A->B without errors.tolerance = all",
        ),
    ],
)
def test_error_handling_that_handles_nothing_is_told(tmp_path: Path, lines: str, severity: Severity, text: str) -> None:
    (finding,) = findings(loaded(tmp_path / "srm.properties", lines))
    assert (finding.severity, finding.text.startswith(text)) == (severity, True), finding.text


@pytest.mark.parametrize("path", ["orders", "orders.clean", "orders:", ":clean", "my orders:clean", "orders:clean()"])
def test_a_function_is_named_with_its_module(tmp_path: Path, path: str) -> None:
    (error,) = loaded(tmp_path / "srm.properties", f"transforms.python = {path}").faults.values()
    assert f"transforms.python must name a Python function as package.module:function, but is '{path}'" in str(error)


def test_a_transform_of_connect_may_be_called_python(tmp_path: Path) -> None:
    lines = "transforms = python\ntransforms.python.type = DropHeaders\ntransforms.python.headers = h\n"
    lines += "transforms.python = orders:clean"
    configuration = loaded(tmp_path / "srm.properties", lines)
    assert findings(configuration) == ()
    flow = configuration.flow(FLOW)
    assert ([step.alias for step in flow.transforms], flow.transforms_python) == (["python"], "orders:clean")


@pytest.mark.parametrize("name", ["dead letters", "a" * 250, "..", "tote-Briefe-ü"])
def test_a_dead_letter_topic_has_a_name_that_kafka_takes(tmp_path: Path, name: str) -> None:
    lines = f"{TRANSFORMS}errors.tolerance = all\nerrors.deadletterqueue.topic.name = {name}"
    (error,) = loaded(tmp_path / "srm.properties", lines).faults.values()
    assert "errors.deadletterqueue.topic.name must be the name of a topic (at most 249 of" in str(error)

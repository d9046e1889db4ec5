"""Configurations as a whole: files of other tools, levels of keys, and what flows get of them."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import FrameType

import pytest

from srm_common.domain.flow import Compression, FlowName, OnDataLoss
from srm_common.domain.policy import DefaultReplicationPolicy, IdentityReplicationPolicy
from srm_common.domain.settings.key import Level
from srm_common.kafka.state.state_topics import StateTopics
from srm_common.settings_files.checks import findings, notices
from srm_common.usecases.runs.copy_job import copy_job
from tests.unit.settings_files.conftest import BASE, Load

STATE = StateTopics("offsets", 25, "segments", 25)

# The sample that Kafka ships as config/connect-mirror-maker.properties, shortened to its settings.
SHIPPED = """
# specify any number of cluster aliases
clusters = A, B

# connection information for each cluster
# This is a comma separated host:port pairs for each cluster
A.bootstrap.servers = A_host1:9092, A_host2:9092, A_host3:9092
B.bootstrap.servers = B_host1:9092, B_host2:9092, B_host3:9092

# enable and configure individual replication flows
A->B.enabled = true

# regex which defines which topics gets replicated. For eg "foo-.*"
A->B.topics = .*

B->A.enabled = true
B->A.topics = .*

# Setting replication factor of newly created remote topics
replication.factor=1

checkpoints.topic.replication.factor=1
heartbeats.topic.replication.factor=1
offset-syncs.topic.replication.factor=1

offset.storage.replication.factor=1
status.storage.replication.factor=1
config.storage.replication.factor=1

# customize as needed
# replication.policy.separator = _
# sync.topic.acls.enabled = false
# emit.heartbeats.interval.seconds = 5
"""

THREE_SITES = r"""
clusters=us-west,us-east,eu-central
us-west.bootstrap.servers=w:9092
us-east.bootstrap.servers=e:9092
eu-central.bootstrap.servers=c1:9093,\
                             c2:9093
eu-central.security.protocol=SASL_SSL
eu-central.sasl.mechanism=PLAIN
eu-central.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
  username="mm" \
  password="top-hush";
eu-central.ssl.truststore.type=PEM
eu-central.ssl.truststore.location=/etc/kafka/ca.pem
us-west->us-east.enabled=true
us-west->us-east.topics=orders\\..*, payments
us-west->us-east.topics.blacklist=orders\\.tmp
us-east\ ->\ eu-central.enabled = true
us-west -> eu-central.enabled = true
us-east->eu-central.exactly.once.source.support = enabled
us-east.exactly.once.source.support = disabled
topics.exclude=
groups.blacklist = none-.*
sync.group.offsets.enabled=true
tasks.max = 8
key.converter=org.apache.kafka.connect.converters.ByteArrayConverter
us-west->us-east.consumer.fetch.max.bytes=1000
dedicated.mode.enable.internal.rest = true
eu-central->us-west.emit.heartbeats.enabled = false
"""

TLS_EVERYWHERE = """
clusters: src dst
clusters = src,dst
security.protocol=SSL
ssl.truststore.type=PEM
ssl.truststore.location=/ca.pem
src.bootstrap.servers=s:1
dst.bootstrap.servers=d:1
dst.security.protocol = PLAINTEXT
src->dst.enabled=TRUE
replication.policy.class=org.apache.kafka.connect.mirror.IdentityReplicationPolicy
src.consumer.auto.offset.reset=latest
"""


def test_the_file_that_kafka_ships(load: Load) -> None:
    configuration = load(SHIPPED)
    assert not configuration.faults
    assert [str(flow.name) for flow in configuration.enabled_flows] == ["A->B", "B->A"]
    flow = configuration.flow("A->B")
    assert flow.source.bootstrap_servers == "A_host1:9092,A_host2:9092,A_host3:9092"
    assert flow.topics == (".*",)
    assert (flow.replication_factor, flow.internal_replication_factor, flow.offset_syncs_replication_factor) == (
        1,
        1,
        1,
    )
    assert flow.exactly_once
    assert flow.policy == DefaultReplicationPolicy()


def test_three_sites(load: Load) -> None:
    configuration = load(THREE_SITES)
    assert not configuration.faults
    assert not configuration.cluster_faults
    assert [str(flow.name) for flow in configuration.enabled_flows] == [
        "us-west->us-east",
        "us-east->eu-central",
        "us-west->eu-central",
    ]
    west = configuration.flow("us-west -> us-east")
    assert west.topics == (r"orders\..*", "payments")
    assert west.topics_exclude == (r"orders\.tmp",)
    assert west.groups_exclude == ("none-.*",)
    assert (west.tasks_max, west.exactly_once, west.sync_group_offsets) == (8, False, True)
    central = configuration.flow("us-east->eu-central")
    assert central.exactly_once
    assert central.topics_exclude == ()
    assert central.target.confluent["sasl.password"] == "top-hush"
    assert central.target.kafka_python["ssl_cafile"] == "/etc/kafka/ca.pem"
    assert not configuration.flow("eu-central->us-west").enabled
    assert not configuration.flow("eu-central->us-west").disabled, "not a word about it"
    assert not configuration.flow("eu-central->us-west").emit_heartbeats


def test_tls_for_all_clusters_and_identity(load: Load) -> None:
    flow = load(TLS_EVERYWHERE).flow("src->dst")
    assert flow.source.confluent["security.protocol"] == "SSL"
    assert flow.target.confluent["security.protocol"] == "PLAINTEXT"
    assert flow.policy == IdentityReplicationPolicy(source_alias="src")
    assert flow.auto_offset_reset == "latest"


def test_defaults_override_by_presence(load: Load) -> None:
    flow = load(
        BASE + "emit.heartbeats.enabled = true\nA->B.emit.heartbeats.enabled = false\nrun.max.seconds = 9\n"
        "A->B.run.max.seconds = 0\non.data.loss = skip\ntopics = x\nA->B.topics =\n"
    ).flow("A->B")
    assert not flow.emit_heartbeats
    assert flow.run_max_seconds == 0
    assert flow.topics == ()
    assert flow.on_data_loss is OnDataLoss.SKIP
    assert not flow.enabled


@pytest.mark.parametrize(("line", "says"), [("true", (True, False)), ("FALSE", (False, True))])
def test_a_flow_is_disabled_where_the_file_says_so(load: Load, line: str, says: tuple[bool, bool]) -> None:
    for key in ("A->B.enabled", "A->B"):
        flow = load(BASE + f"A->B.topics = x\n{key} = {line}\n").flow("A->B")
        assert (flow.enabled, flow.disabled) == says


def test_exactly_once_levels(load: Load) -> None:
    support = "exactly.once.source.support"
    assert load(BASE + "A->B.enabled=true").flow("A->B").exactly_once
    assert not load(BASE + f"A->B.enabled=true\n{support}=disabled").flow("A->B").exactly_once
    assert not load(BASE + f"A->B.enabled=true\nB.{support}=disabled").flow("A->B").exactly_once
    assert load(BASE + f"A->B.enabled=true\nA.{support}=disabled").flow("A->B").exactly_once
    assert load(BASE + f"B.{support}=disabled\nA->B.{support}=enabled").flow("A->B").exactly_once
    assert not load(BASE + f"A->B.{support}=preparing").flow("A->B").exactly_once
    flow = load(BASE + "A->B.enabled=true\nconsumer.isolation.level=read_uncommitted").flow("A->B")
    assert flow.read_committed
    text = BASE + f"{support}=disabled\nA->B.enabled=true\nA.consumer.isolation.level=read_uncommitted"
    assert not load(text).flow("A->B").read_committed


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("", None),
        ("producer.compression.type = producer", None),
        ("producer.compression.type = zstd", Compression("zstd", 3)),
        ("B.producer.compression.type = GZIP", Compression("gzip", -1)),
        ("A.producer.compression.type = zstd", None),
        ("A->B.target.producer.compression.type = lz4\nproducer.compression.lz4.level = 12", Compression("lz4", 12)),
        ("producer.compression.type = zstd\nA->B.producer.override.compression.type = none", Compression("none")),
        ("A->B.compression.type = zstd\nA->B.compression.zstd.level = -7", Compression("zstd", -7)),
        # A level alone asks for nothing.
        ("producer.compression.gzip.level = 9", None),
    ],
)
def test_the_codec_of_copies(load: Load, lines: str, expected: Compression | None) -> None:
    flow = load(BASE + f"A->B.enabled = true\n{lines}\n").flow("A->B")
    assert flow.compression == expected
    assert copy_job(flow, STATE).compression == expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("", 500),
        ("consumer.fetch.max.wait.ms = 2000", 2000),
        ("A->B.source.consumer.fetch.max.wait.ms = 0", 10),
        ("A->B.fetch.max.wait.ms = 90000", 15_000),
        ("A->B.fetch.max.wait.ms = 90000\nrequest.timeout.ms = 4000", 2000),
        ("request.timeout.ms = 1", 10),
    ],
)
def test_brokers_hold_answers_back_for_less_than_they_are_waited_for(load: Load, lines: str, expected: int) -> None:
    flow = load(BASE + f"A->B.enabled = true\n{lines}\n").flow("A->B")
    assert copy_job(flow, STATE).fetch_max_wait_ms == expected


def test_the_origin_of_a_value(load: Load) -> None:
    configuration = load(BASE + "tasks.max = 1\nA->B.tasks.max = 3\n")
    found = configuration.find("A->B", "tasks.max")
    assert found.level is Level.FLOW
    assert found.entry is not None
    assert found.entry.place.endswith("srm.properties:5")
    assert [(level, entry.line) for level, entry in found.overridden] == [(Level.TOP, 4)]
    assert configuration.find("A->B", "chunk.bytes").entry is None


def test_a_flow_may_reach_a_cluster_its_own_way(load: Load) -> None:
    configuration = load(BASE + "A->B.enabled=true\nA->B.source.cluster.bootstrap.servers=proxy:1\n")
    assert configuration.flow("A->B").source.bootstrap_servers == "proxy:1"
    assert configuration.flow("A->B").target.bootstrap_servers == "b:1"
    assert configuration.clusters["A"].bootstrap_servers == "a:1"


def test_alarms_of_one_flow(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SRM_HOOK", "https://chat/secret")
    configuration = load(
        BASE
        + """
alarm.notifiers = mail
alarm.notifier.mail.class = airflow.providers.smtp.notifications.smtp.SmtpNotifier
alarm.notifier.mail.to = ["a@x", "b@x"]
alarm.notifier.mail.subject = {{ alarm.text }}
A->B.alarm.notifiers = chat, mail
A->B.alarm.notifier.chat.class = my.Chat
A->B.alarm.notifier.chat.url = ${env:SRM_HOOK}
A->B.alarm.notifier.mail.subject = A is late
A->B.lag.objective.records = 500
A->B.stalled.after.seconds = 90
B->A.enabled = true
"""
    )
    flow, back = configuration.flow("A->B"), configuration.flow("B->A")
    assert [(notifier.name, notifier.path) for notifier in flow.alarm_notifiers] == [
        ("chat", "my.Chat"),
        ("mail", "airflow.providers.smtp.notifications.smtp.SmtpNotifier"),
    ]
    assert flow.alarm_notifiers[0].arguments == {"url": "https://chat/secret"}
    assert flow.alarm_notifiers[1].arguments == {"to": ["a@x", "b@x"], "subject": "A is late"}
    assert [notifier.arguments for notifier in back.alarm_notifiers] == [
        {"to": ["a@x", "b@x"], "subject": "{{ alarm.text }}"}
    ]
    assert (flow.lag_objective_records, flow.stalled_after_seconds) == (500, 90.0)
    assert (back.lag_objective_records, back.stalled_after_seconds) == (None, None)
    assert "secret" not in repr(flow)


def test_secrets_by_reference(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secrets.properties").write_text("kafka.password = file\\ hush\n")
    (tmp_path / "user").write_text("dir-user")
    monkeypatch.setenv("SRM_TEST_HOST", "a:7")
    text = (
        "clusters = A, B\nconfig.providers = file, vault\n"
        "config.providers.file.class = org.apache.kafka.common.config.provider.FileConfigProvider\n"
        "config.providers.vault.class = org.apache.kafka.common.config.provider.DirectoryConfigProvider\n"
        "A.bootstrap.servers = ${env:SRM_TEST_HOST}\nB.bootstrap.servers = b:1\nB.security.protocol=SASL_PLAINTEXT\n"
        f"B.sasl.mechanism=PLAIN\nB.sasl.username=${{vault:{tmp_path}:user}}\n"
        f"B.sasl.password=${{file:{tmp_path}/secrets.properties:kafka.password}}\nA->B.enabled=true\n"
        "A->B.topics = ${unknown:x}-[ab]\n"
    )
    configuration = load(text.replace("${unknown:x}-", ""))
    flow = configuration.flow("A->B")
    assert flow.source.bootstrap_servers == "a:7"
    assert flow.target.confluent["sasl.username"] == "dir-user"
    assert flow.target.confluent["sasl.password"] == "file hush"
    assert "hush" not in repr(configuration)
    assert "hush" not in str(flow)
    # As it is sent to other processes: without the way to clusters of other flows.
    assert pickle.loads(pickle.dumps(replace(flow, graph=()))) == flow

    missing = load(text.replace(":kafka.password", ":other"))
    assert "has no key other" in str(missing.faults[FlowName("A", "B")])
    limited = load(text + f"config.providers.file.param.allowed.paths = {tmp_path}/none\n")
    assert "allowed.paths does not allow" in str(limited.faults[FlowName("A", "B")])


def test_fifty_flows_load_without_the_libraries_of_clusters(tmp_path: Path) -> None:
    aliases = [f"c{number}" for number in range(51)]
    lines = ["clusters = " + ", ".join(aliases)]
    lines += [f"{alias}.bootstrap.servers = {alias}:9092" for alias in aliases]
    for number in range(50):
        flow = f"c{number}->c{number + 1}"
        lines += [f"{flow}.enabled = true", f"{flow}.topics = t{number}.*, u{number}-[a-z]+", f"{flow}.tasks.max = 3"]
    path = tmp_path / "srm.properties"
    path.write_text("\n".join(lines))
    command = (
        "import sys; from pathlib import Path; from srm_common.settings_files.configuration import load_configuration; "
        f"print(len(load_configuration(Path({str(path)!r})).enabled_flows)); "
        "print(sorted({m.split('.')[0] for m in sys.modules} & {'kafka', 'confluent_kafka', 'airflow', 'pyspark'}))"
    )
    answer = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True, timeout=300)
    assert answer.stdout.split() == ["50", "[]"]


def test_flows_know_all_enabled_flows_in_the_order_of_the_clusters(load: Load) -> None:
    configuration = load(
        """
        clusters = b, a, c
        b.bootstrap.servers = b:1
        a.bootstrap.servers = a:1
        c.bootstrap.servers = c:1
        a->b.enabled = true
        b->c.enabled = true
        b->a.enabled = true
        a->c.enabled = false
        a->c.replication.policy.class = nowhere.Policy
        c->b.enabled = true
        c->b.replication.policy.class = nowhere.Policy
        replication.policy.switch = force
        """
    )
    assert {str(name) for name in configuration.faults} == {"a->c", "c->b"}
    fault = str(configuration.faults[FlowName("c", "b")])
    assert "c->b.replication.policy.class = 'nowhere.Policy' cannot be imported" in fault
    for flow in configuration.flows.values():
        assert [str(graph_flow.name) for graph_flow in flow.graph] == ["b->a", "b->c", "a->b"]
        assert flow.aliases == ("b", "a", "c")
        assert flow.policy_switch == "force"


def test_a_file_of_twice_the_clusters_takes_twice_the_work(load: Load) -> None:
    def work(clusters: int) -> int:
        """Calls of functions while a file of that many clusters is loaded and judged."""
        aliases = [f"c{number:03}" for number in range(clusters)]
        servers = "".join(f"{alias}.bootstrap.servers = {alias}.example:1\n" for alias in aliases)
        flows = "".join(f"c000->{alias}.enabled = true\nc000->{alias}.topics = x\n" for alias in aliases[1:])
        calls = 0

        def count(frame: FrameType, event: str, _: object) -> None:
            nonlocal calls
            calls += event.endswith("call")

        sys.setprofile(count)
        try:
            configuration = load(f"clusters = {', '.join(aliases)}\n{servers}{flows}")
            findings(configuration)
            notices(configuration)
        finally:
            sys.setprofile(None)
        assert len(configuration.flows) == clusters - 1
        return calls

    work(2)
    assert work(80) < 2.1 * work(40)

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.policy import IdentityReplicationPolicy
from srm_common.domain.transforms.chain import StepKind
from srm_common.domain.transforms.formats import Format, FormatKind
from srm_common.errors import ConfigError
from srm_common.settings_files.checks import findings
from srm_common.settings_files.configuration import Configuration, load_configuration
from srm_common.settings_files.conversion.conversion import Conversion, Tool, convert
from srm_common.settings_files.sources.properties import parse_properties, property_line

JAAS = "org.apache.kafka.common.security.scram.ScramLoginModule required"

MIRROR_MAKER = rf"""
clusters = A, B
A.bootstrap.servers = a:1
A.security.protocol = SASL_PLAINTEXT
A.sasl.mechanism = SCRAM-SHA-256
A.sasl.jaas.config = {JAAS} username="me" password="hush;\\"hush";
B.bootstrap.servers = b:1
A->B.enabled = true
A->B.topics = orders\\.(a|b), .*x
topics.blacklist = t
emit.heartbeats.interval.seconds = 5
key.converter = org.apache.kafka.connect.converters.ByteArrayConverter
A->B.tasks_max = 3
B.topics = nothing
B->A = false
"""


def loaded(made: Conversion, tmp_path: Path) -> Configuration:
    path = tmp_path / "converted.properties"
    path.write_text(made.text)
    return load_configuration(path)


def made_of(tmp_path: Path, text: str, name: str = "mm2.properties", tool: Tool | None = None) -> Conversion:
    path = tmp_path / name
    path.write_text(text)
    return convert(path, tool)


def test_a_login_in_an_address_is_a_secret(tmp_path: Path) -> None:
    made = made_of(
        tmp_path,
        MIRROR_MAKER + "B.schema.registry.url = https://me:hush@b:8081\nA.schema.registry.url = http://a:8081\n",
    )
    assert "hush" not in made.text
    assert "A.schema.registry.url = http://a:8081" in made.text
    assert "B.schema.registry.url = ${env:B_SCHEMA_REGISTRY_URL}" in made.text


def test_only_secrets_become_variables(tmp_path: Path) -> None:
    lines = "B.schema.registry.url = http://b:8081\nB.basic.auth.credentials.source = USER_INFO\n"
    made = made_of(tmp_path, f"{MIRROR_MAKER}{lines}B.basic.auth.user.info = me:hush\n")
    assert "B.basic.auth.credentials.source = USER_INFO" in made.text
    assert "B.basic.auth.user.info = ${env:B_BASIC_AUTH_USER_INFO}" in made.text


def test_mirror_maker_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = made_of(tmp_path, MIRROR_MAKER)
    assert made.tool is Tool.MIRROR_MAKER
    assert "hush" not in made.text
    ((variable, holds),) = made.variables
    assert (variable, holds.partition(":")[0]) == ("A_SASL_JAAS_CONFIG_PASSWORD", "password")
    monkeypatch.setenv(variable, "other-hush")
    configuration = loaded(made, tmp_path)
    flow = configuration.flow("A->B")
    assert flow.source.confluent["sasl.password"] == "other-hush"
    assert flow.topics == (r"orders\.(a|b)", ".*x")
    assert flow.topics_exclude == ("t",)
    assert flow.emit_heartbeats_interval_seconds == 5
    assert not configuration.flow("B->A").enabled
    assert findings(configuration) == ()
    assert [sentence.partition(" ")[0] for sentence in made.lost] == ["B.topics", "A->B.tasks_max"]
    assert "# key.converter = " in made.text  # asks for what happens anyway
    assert "# A->B.tasks_max = 3" in made.text.splitlines()


def test_the_new_name_wins_over_the_older_one(tmp_path: Path) -> None:
    made = made_of(tmp_path, MIRROR_MAKER + "topics.exclude = u\nB->A.enabled = true\n")
    assert "blacklist" not in made.text
    assert "topics.exclude = u" in made.text.splitlines()
    assert "B->A.enabled = true" in made.text.splitlines()


SRM = r"""
clusters=P,Q,R
streams.replication.manager.config=P->Q.enabled=true|P->Q.topics=a|b.*|Q.bootstrap.servers=q:1|P->R = true
streams.replication.manager.service.target.cluster=Q
P.bootstrap.servers=p:1
"""


def test_streams_replication_manager(tmp_path: Path) -> None:
    made = made_of(tmp_path, SRM)
    assert made.tool is Tool.SRM
    assert any(sentence.startswith("R has no address") for sentence in made.lost)
    # R's address is not in the file: SRM keeps it in a credential.
    text = made.text.replace("# R.bootstrap.servers = host:9092", "R.bootstrap.servers = r:1")
    path = tmp_path / "converted.properties"
    path.write_text(text)
    configuration = load_configuration(path)
    assert [str(flow.name) for flow in configuration.enabled_flows] == ["P->Q", "P->R"]
    assert configuration.flow("P->Q").topics == ("a|b.*",)
    assert configuration.flow("P->R").topics == ()  # SRM copies nothing until somebody chooses
    assert configuration.flow("P->Q").groups == ()
    assert "# streams.replication.manager.driver.target.cluster = Q" in text.splitlines()


def resource(**changes: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "connectCluster": "b",
        "replicas": 3,
        "clusters": [
            {
                "alias": "a",
                "bootstrapServers": "a:1",
                "tls": {"trustedCertificates": [{"secretName": "s", "pattern": "*.crt"}]},
                "authentication": {
                    "type": "scram-sha-512", "username": "u", "passwordSecret": {"secretName": "s", "password": "pw"}
                },
            },
            {
                "alias": "b",
                "bootstrapServers": "b:1",
                "tls": {},
                "authentication": {
                    "type": "tls", "certificateAndKey": {"secretName": "u", "certificate": "u.crt", "key": "u.key"}
                },
                "config": {"offset.storage.replication.factor": -1},
            },
        ],
        "mirrors": [
            {
                "sourceCluster": "a",
                "targetCluster": "b",
                "sourceConnector": {
                    "tasksMax": 4,
                    "config": {
                        "replication.factor": -1,
                        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
                    },
                },
                "checkpointConnector": {"config": {"sync.group.offsets.enabled": True}},
                "topicsPattern": "one|two\\d+",
                "groupsExcludePattern": "g.*",
            }
        ],
    }  # fmt: skip
    spec.update(changes)
    return {"kind": "KafkaMirrorMaker2", "apiVersion": "kafka.strimzi.io/v1beta2", "spec": spec}


def strimzi(tmp_path: Path, document: object) -> Conversion:
    return made_of(tmp_path, yaml.safe_dump(document), "mm2.yaml")


def test_strimzi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = strimzi(tmp_path, {"kind": "List", "items": [{"kind": "Other"}, resource()]})
    assert made.tool is Tool.STRIMZI
    variables = dict(made.variables)
    assert variables == {
        "A_CA": "PEM text of CA certificates, from '*.crt' of the Kubernetes Secret 's'",
        "A_PASSWORD": "password, from 'pw' of the Kubernetes Secret 's'",
        "B_CERTIFICATE": "PEM text of the client certificate, from 'u.crt' of the Kubernetes Secret 'u'",
        "B_KEY": "PEM text of its private key, from 'u.key' of the Kubernetes Secret 'u'",
    }
    for name in variables:
        monkeypatch.setenv(name, f"<{name}>")
    configuration = loaded(made, tmp_path)
    flow = configuration.flow("a->b")
    assert flow.enabled
    assert flow.source.confluent["security.protocol"] == "SASL_SSL"
    assert flow.source.confluent["sasl.password"] == "<A_PASSWORD>"
    assert flow.source.confluent["ssl.ca.pem"] == "<A_CA>"
    assert (flow.target.confluent["ssl.key.pem"], flow.target.confluent["security.protocol"]) == ("<B_KEY>", "SSL")
    assert (flow.tasks_max, flow.replication_factor, flow.internal_replication_factor) == (4, -1, -1)
    assert flow.topics == (r"one|two\d+",)
    assert flow.groups_exclude == ("g.*",)
    assert flow.sync_group_offsets
    assert not flow.emit_heartbeats  # no heartbeatConnector
    assert flow.policy == IdentityReplicationPolicy(source_alias="a")
    assert findings(configuration) == ()
    assert "items[1].spec.replicas: it configures Strimzi's pods" in made.lost


def test_strimzi_v1(tmp_path: Path) -> None:
    """In v1 the target stands by itself, and each mirror names its source."""
    document = resource()
    spec = document["spec"]
    source, target = ({"alias": alias, "bootstrapServers": f"{alias}:1"} for alias in "ab")
    del spec["clusters"], spec["connectCluster"]
    mirror = {**spec["mirrors"][0], "source": source}
    del mirror["sourceCluster"], mirror["targetCluster"]
    spec["mirrors"] = [mirror]
    spec["target"] = {**target, "groupId": "g", "offsetStorageTopic": "o"}
    made = strimzi(tmp_path, document)
    assert loaded(made, tmp_path).flow("a->b").target.bootstrap_servers == "b:1"
    assert any("offsetStorageTopic: state topics keep MirrorMaker 2's names" in sentence for sentence in made.lost)


@pytest.mark.parametrize(
    ("connector", "enabled"), [({"state": "paused"}, False), ({"pause": True}, False), ({"state": "running"}, True)]
)
def test_a_paused_mirror_is_not_enabled(tmp_path: Path, connector: dict[str, Any], enabled: bool) -> None:
    clusters = [{"alias": alias, "bootstrapServers": f"{alias}:1"} for alias in "ab"]
    mirror = {"sourceCluster": "a", "targetCluster": "b", "sourceConnector": connector}
    made = strimzi(tmp_path, resource(clusters=clusters, mirrors=[mirror]))
    assert loaded(made, tmp_path).flow("a->b").enabled is enabled


def test_connectors_that_contradict_each_other_and_kubernetes_references(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clusters = [{"alias": alias, "bootstrapServers": f"{alias}:1"} for alias in "ab"]
    mirror = {
        "sourceCluster": "a", "targetCluster": "b",
        "sourceConnector": {"config": {"replication.policy.separator": "_", "offset.lag.max": "${configmaps:n/c:l}"}},
        "heartbeatConnector": {"config": {"replication.policy.separator": "."}},
    }  # fmt: skip
    made = strimzi(tmp_path, resource(clusters=clusters, mirrors=[mirror]))
    assert any("replication.policy.separator = .: another connector says _" in sentence for sentence in made.lost)
    monkeypatch.setenv("A_B_OFFSET_LAG_MAX", "7")
    flow = loaded(made, tmp_path).flow("a->b")
    assert (flow.offset_lag_max, flow.emit_heartbeats, flow.emit_checkpoints) == (7, True, False)


def test_secrets_beside_references_and_in_contradictions(tmp_path: Path) -> None:
    path = tmp_path / "mm2.properties"
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    path.write_text(
        "clusters = a, b\na->b.enabled = true\na.bootstrap.servers = h:1\nb.bootstrap.servers = i:1\n"
        'a.sasl.jaas.config = x.PlainLoginModule required username="${env:USER}" password="hush1";\n'
        f'b.sasl.jaas.config = {module} required oauth.client.id="me" oauth.client.secret="hush2";\n'
    )
    made = convert(path)
    assert "hush" not in made.text
    assert 'username="${env:USER}"' in made.text
    assert 'oauth.client.id="me"' in made.text
    names = [name for name, _ in made.variables]
    assert names == ["A_SASL_JAAS_CONFIG_PASSWORD", "B_SASL_JAAS_CONFIG_OAUTH_CLIENT_SECRET"]
    connectors = [
        {
            "name": kind,
            "config": {
                "connector.class": f"org.apache.kafka.connect.mirror.Mirror{kind}Connector",
                "source.cluster.alias": "a",
                "target.cluster.alias": "b",
                "target.cluster.sasl.password": f"hush-{kind}",
                "offset.lag.max": len(kind),
            },
        }
        for kind in ("Source", "Checkpoint")
    ]
    path = tmp_path / "connectors.json"
    path.write_text(json.dumps(connectors))
    made = convert(path)
    assert "hush" not in made.text
    assert any("b.sasl.password: another connector gives it another value" in lost for lost in made.lost)
    assert any("offset.lag.max = 10: another connector says 6" in lost for lost in made.lost)


def test_flows_with_transforms_that_are_not_carried_out_stay_stopped(tmp_path: Path) -> None:
    made = made_of(tmp_path, MIRROR_MAKER + "A->B.transforms = mask\nA->B.transforms.mask.type = MaskField$Value\n")
    (fault,) = (error for error in loaded(made, tmp_path).faults.values() if "transforms.mask.fields" in str(error))
    assert "asks for transforms.mask.fields, which is missing: the fields to mask" in str(fault)


def test_converters_go_along_with_transforms_of_fields(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SASL_JAAS_CONFIG_PASSWORD", "x")
    lines = "transforms = mask\nA->B.transforms.mask.type = MaskField$Value\ntransforms.mask.fields = card\n"
    lines += "A->B.value.converter = org.apache.kafka.connect.json.JsonConverter\n"
    made = made_of(tmp_path, MIRROR_MAKER + lines + "value.converter.schemas.enable = false\n")
    configuration = loaded(made, tmp_path)
    (step,) = configuration.flow("A->B").transforms
    assert step.fields is not None
    assert step.fields.format == Format(FormatKind.JSON)
    assert not [finding for finding in findings(configuration) if "converter" in finding.key]


def test_transforms_go_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SASL_JAAS_CONFIG_PASSWORD", "x")
    lines = "A->B.transforms = all\nA->B.transforms.all.type = org.apache.kafka.connect.transforms.Filter\n"
    made = made_of(tmp_path, MIRROR_MAKER + lines)
    (step,) = loaded(made, tmp_path).flow("A->B").transforms
    assert (step.alias, step.kind) == ("all", StepKind.FILTER)


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("none.properties", "x = 1\n", "none.properties: it names no clusters"),
        ("a.yaml", "a: [", "a.yaml:1: is not YAML: "),
        ("a.yaml", "kind: Kafka\n", "a.yaml: contains no KafkaMirrorMaker2 resources; name a file with exactly one"),
        ("a.yaml", "kind: KafkaMirrorMaker2\n", "a.yaml: spec is missing"),
        ("a.yaml", "kind: KafkaMirrorMaker2\nspec: {clusters: [{alias: a}]}\n",
         "a.yaml: spec.clusters[0].bootstrapServers is missing"),
    ],
)  # fmt: skip
def test_what_cannot_be_converted(tmp_path: Path, name: str, text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as raised:
        made_of(tmp_path, text, name)
    assert sentence in str(raised.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("spec: []", "spec must be a map, but is a list"),
        ("spec: {clusters: {alias: a}}", "spec.clusters must be a list, but is a map"),
        ("spec: {clusters: [a]}", "spec.clusters[0] must be a map, but is text"),
        ("spec: {clusters: [null]}", "spec.clusters[0] must be a map, but is null"),
        ("spec: {clusters: [{alias: 1}]}", "spec.clusters[0].alias must be text, but is a number; put it in quotes"),
        ("spec: {clusters: [{alias: null}]}", "spec.clusters[0].alias is missing"),
        ("spec: {clusters: [{alias: ' '}]}", "spec.clusters[0].alias is empty"),
        ("spec: {1: x}", "the key 1 in spec must be text; put it in quotes"),
        ("spec: {target: 5}", "spec.target must be a map, but is a number"),
        ("spec: {mirrors: x}", "spec.mirrors must be a list, but is text"),
        ("spec: {mirrors: [{source: a}]}", "spec.mirrors[0].source must be a map, but is text"),
        ("spec: {mirrors: [{}]}", "spec.mirrors[0].sourceCluster is missing"),
        (
            "items: [{kind: KafkaMirrorMaker2, spec: x}]",
            "contains 2 KafkaMirrorMaker2 resources; name a file with exactly one",
        ),
    ],
)
def test_parts_of_another_type_are_named(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as raised:
        made_of(tmp_path, f"kind: KafkaMirrorMaker2\n{text}", "a.yaml")
    assert raised.value.reason == sentence


def test_a_list_of_resources_is_a_list(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        made_of(tmp_path, "kind: List\nitems: {kind: KafkaMirrorMaker2}", "a.yaml")
    assert raised.value.reason == "items must be a list, but is a map"


@pytest.mark.parametrize(
    ("part", "value", "sentence"),
    [
        ("tls", True, "tls must be a map, but is true"),
        ("tls", {"trustedCertificates": "c"}, "tls.trustedCertificates must be a list, but is text"),
        ("tls", {"trustedCertificates": [{"secretName": "s"}]}, "tls.trustedCertificates[0].certificate is missing"),
        ("authentication", "plain", "authentication must be a map, but is text"),
        ("authentication", {"type": 5}, "authentication.type must be text, but is a number; put it in quotes"),
        ("authentication", {"type": "tls"}, "authentication.certificateAndKey is missing"),
        ("authentication", {"type": "plain", "passwordSecret": "p"},
         "authentication.passwordSecret must be a map, but is text"),
        ("authentication", {"type": "plain", "username": 7, "passwordSecret": {"secretName": "s", "password": "p"}},
         "authentication.username must be text, but is a number; put it in quotes"),
        ("authentication", {"type": "custom", "sasl": "yes"},
         "authentication.sasl must be true or false, but is text"),
        ("authentication", {"type": "custom", "config": []}, "authentication.config must be a map, but is a list"),
        ("config", ["a"], "config must be a map, but is a list"),
        ("config", {"a": {"b": 1}}, "config.a must be text, a number, true or false, but is a map"),
        ("config", {"a": 2**64}, "config.a must be a whole number of 64 bits, but is a larger one"),
    ],
)  # fmt: skip
def test_parts_of_a_cluster_of_another_type_are_named(tmp_path: Path, part: str, value: object, sentence: str) -> None:
    cluster = {"alias": "a", "bootstrapServers": "a:1", part: value}
    with pytest.raises(ConfigError) as raised:
        strimzi(tmp_path, {"kind": "KafkaMirrorMaker2", "spec": {"clusters": [cluster]}})
    assert raised.value.reason == f"spec.clusters[0].{sentence}"


@pytest.mark.parametrize(
    ("part", "value", "sentence"),
    [
        ("sourceConnector", ["x"], "sourceConnector must be a map, but is a list"),
        ("sourceConnector", {"pause": "false"}, "sourceConnector.pause must be true or false, but is text"),
        ("sourceConnector", {"tasksMax": True},
         "sourceConnector.tasksMax must be a whole number of 64 bits, but is true"),
        ("sourceConnector", {"config": "x"}, "sourceConnector.config must be a map, but is text"),
        ("heartbeatConnector", {"config": {"a": [1]}},
         "heartbeatConnector.config.a must be text, a number, true or false, but is a list"),
        ("topicsPattern", ["a", "b"], "topicsPattern must be text, but is a list"),
    ],
)  # fmt: skip
def test_parts_of_a_mirror_of_another_type_are_named(tmp_path: Path, part: str, value: object, sentence: str) -> None:
    clusters = [{"alias": alias, "bootstrapServers": f"{alias}:1"} for alias in "ab"]
    mirror = {"sourceCluster": "a", "targetCluster": "b", part: value}
    with pytest.raises(ConfigError) as raised:
        strimzi(tmp_path, {"kind": "KafkaMirrorMaker2", "spec": {"clusters": clusters, "mirrors": [mirror]}})
    assert raised.value.reason == f"spec.mirrors[0].{sentence}"


def test_null_is_absent(tmp_path: Path) -> None:
    """As Kubernetes has it: a connector that is null does not run."""
    clusters = [
        {"alias": alias, "bootstrapServers": f"{alias}:1", "tls": None, "authentication": None, "config": None}
        for alias in "ab"
    ]
    mirror = {"sourceCluster": "a", "targetCluster": "b", "sourceConnector": None, "topicsPattern": None}
    made = strimzi(tmp_path, resource(clusters=clusters, mirrors=[mirror]))
    flow = loaded(made, tmp_path).flow("a->b")
    assert (flow.enabled, flow.source.confluent["security.protocol"]) == (False, "PLAINTEXT")
    assert "None" not in made.text


def test_a_client_of_oauth_without_a_secret(tmp_path: Path) -> None:
    """It logs in with a token, which is not carried over."""
    login = {"type": "oauth", "tokenEndpointUri": "https://t", "clientId": "c", "accessToken": {"secretName": "s"}}
    clusters = [
        {"alias": "a", "bootstrapServers": "a:1", "authentication": login}, {"alias": "b", "bootstrapServers": "b:1"}
    ]  # fmt: skip
    made = strimzi(tmp_path, resource(clusters=clusters))
    assert dict(made.variables) == {"A_CLIENT_SECRET": "secret of the OAuth client"}
    assert "a.sasl.oauthbearer.client.credentials.client.id = c" in made.text
    assert any("authentication.accessToken: only the client-credentials" in sentence for sentence in made.lost)


TEXT = st.text(st.characters(codec="utf-8"), max_size=20)


@given(TEXT.filter(lambda key: key.strip() == key and key), TEXT.filter(lambda value: value.strip() == value))
def test_a_line_reads_back_as_it_was_written(key: str, value: str) -> None:
    (found,) = parse_properties(property_line(key, value))
    assert (found.key, found.value) == (key, value)

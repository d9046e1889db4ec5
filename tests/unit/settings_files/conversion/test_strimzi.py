"""Strimzi's resources of MirrorMaker 2, and what is said of parts that are not as they should be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from srm_common.domain.policy import IdentityReplicationPolicy
from srm_common.errors import ConfigError
from srm_common.settings_files.checks import findings
from srm_common.settings_files.conversion.conversion import Conversion, Tool
from tests.unit.settings_files.conversion.conversions import loaded, made_of


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


def positions_of(tmp_path: Path, document: object) -> list[str]:
    return [sentence for sentence in strimzi(tmp_path, document).lost if sentence.startswith("Positions:")]


@pytest.mark.parametrize(
    ("names", "options"),
    [
        ({}, "--connect-group mirrormaker2-cluster --offsets-topic mirrormaker2-cluster-offsets"),
        (
            {"config": {"group.id": "g", "offset.storage.topic": "o"}},
            "--connect-group g --offsets-topic o",
        ),
        ({"groupId": "g1", "offsetStorageTopic": "o1"}, "--connect-group g1 --offsets-topic o1"),
    ],
    ids=["defaults", "settings", "fields"],
)
def test_the_command_that_continues_from_its_positions(tmp_path: Path, names: dict[str, Any], options: str) -> None:
    document = resource()
    document["spec"]["clusters"][1].update(names)
    (sentence,) = positions_of(tmp_path, document)
    flow = "--flow 'a->b' --connector 'a->b.MirrorSourceConnector'"
    assert f"srm-control takeover {flow} {options}; otherwise" in sentence


def test_positions_on_another_cluster_cannot_be_taken_over(tmp_path: Path) -> None:
    (sentence,) = positions_of(tmp_path, resource(connectCluster="a"))
    assert "keep those of a->b on a, and srm-control takeover looks for them on b" in sentence


@pytest.mark.parametrize(("server", "location"), [(None, "target"), ("a:1", "source"), ("b:1", "target")])
def test_heartbeats_go_where_connect_writes_them(tmp_path: Path, server: str | None, location: str) -> None:
    document = resource()
    config = {} if server is None else {"producer.override.bootstrap.servers": server}
    document["spec"]["mirrors"][0]["heartbeatConnector"] = {"config": config}
    assert f"a->b.heartbeats.topic.location = {location}" in strimzi(tmp_path, document).text

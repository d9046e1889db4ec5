"""Files of MirrorMaker 2 and of Streams Replication Manager, converted: secrets, older names, and what is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from srm_common.domain.transforms.chain import StepKind
from srm_common.domain.transforms.formats import Format, FormatKind
from srm_common.errors import ConfigError
from srm_common.settings_files.checks import findings
from srm_common.settings_files.configuration import load_configuration
from srm_common.settings_files.conversion.conversion import Tool, convert
from tests.unit.settings_files.conversion.conversions import loaded, made_of

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

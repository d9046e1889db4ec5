"""A secret of each kind that a properties file may have, looked for in what is shown of the file: by the API, to every
caller, on the command line, and where settings are printed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from srm_common.cli.main import run
from srm_common.rest.live import TAG
from srm_common.settings_files.configuration import load_configuration
from srm_common.settings_files.service_settings import service_settings
from srm_common.settings_files.transform_settings import transform_keys
from tests.unit.rest.conftest import NAMES, Stage, configuration_text, opened
from tests.unit.rest.test_routes import ROUTES, address

FLOW = NAMES[0]
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
#: What is written, with a secret where ``{}`` stands; ``s`` and ``t`` are the aliases of the flow's source and target.
SECRETS = {
    "password of a user": f's.sasl.jaas.config = {_SCRAM} required username="me" password="{{}}";',
    "password of a user of one flow": "f.producer.sasl.password = {}",
    "password of a truststore": "s.ssl.truststore.password = {}",
    "password of a keystore": "s.ssl.keystore.password = {}",
    "password of a key": "s.ssl.key.password = {}",
    "client secret": f't.sasl.jaas.config = {_OAUTH} required clientId="me" clientSecret="{{}}";',
    "login in the address of a token endpoint": "t.sasl.oauthbearer.token.endpoint.url = https://me:{}@tokens/x",
    "key as text": "t.ssl.keystore.key = -----BEGIN PRIVATE KEY-----\\n{}\\n-----END PRIVATE KEY-----",
    "login in the address of a registry": "s.schema.registry.url = https://me:{}@registry:8081, https://other",
    "login of the other registry": "t.basic.auth.user.info = me:{}",
    "token of a registry": "b.schema.registry.bearer.auth.token = {}",
    "login of a converter's registry": "value.converter.schema.registry.url = http://me:{}@registry",
    "password of a converter": "f.value.converter.basic.auth.user.info = me:{}",
    "password of a service": "service.peer.east.example.password = {}",
    "token of a service": "service.peer.west.example.token = {}",
    "token for metrics": "metrics.prometheus.token = {}",
    "database": "metrics.database.url = postgresql+psycopg2://me:{}@db/srm",
    "address of a notifier": "alarm.notifier.chat.url = https://hooks.example/{}",
    "key of a notifier": "alarm.notifier.pager.routing_key = {}",
}
CANARIES = {kind: f"c4n4ry{number:02}q7" for number, kind in enumerate(SECRETS)}
#: Read from files that the properties file names.
REFERENCES = {"transforms.hash.salt": "c4n4ry-of-a-file", "t.sasl.password": "c4n4ry-of-another"}


def found_in(text: str) -> list[str]:
    return [kind for kind, secret in (CANARIES | REFERENCES).items() if secret in text]


def properties(folder: Path) -> str:
    """What is not about a secret is not there: it does not matter whether a flow could use it."""
    lines = [line.replace("{}", CANARIES[kind]) for kind, line in SECRETS.items()]
    lines.append("service.peer.east.example.user = me")
    for number, (key, secret) in enumerate(REFERENCES.items()):
        (folder / f"{number}.properties").write_text(f"it = {secret}\n")
        lines.append(f"{key} = ${{file:{folder}/{number}.properties:it}}")
    names = {"s": FLOW.source, "t": FLOW.target, "f": str(FLOW)}
    lines = [re.sub(r"^([stf])\.", lambda letter: f"{names[letter[1]]}.", line) for line in lines]
    return configuration_text() + "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def stage(history: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("secrets")
    with opened(history, folder) as stage:
        stage.file.write_text(properties(folder))
        yield stage


def test_no_answer_of_the_api_has_one(stage: Stage) -> None:
    client = stage.client("op")
    described = client.get("/openapi.json").json()["paths"]
    asked = 0
    for method, path in ROUTES:
        if TAG in described.get(path, {}).get(method.lower(), {}).get("tags", ()):
            continue  # asks clusters, which are not there
        whole = path.replace("{source}", FLOW.source).replace("{target}", FLOW.target)
        answer = client.request(method, address(whole), json=None if method == "GET" else {})
        asked += 1
        assert found_in(answer.text + str(answer.headers)) == [], (method, path)
    assert asked > 20
    # What there is of settings is really looked at.
    settings = client.get(f"/api/v2/flows/{FLOW.source}/{FLOW.target}").json()["settings"]
    assert settings["source.schema.registry.url"] == "https://***@registry:8081, https://other"
    assert settings["source.sasl.jaas.config"] == settings["target.ssl.keystore.key"] == "***"
    found = client.get(f"/api/v2/flows/{FLOW.source}/{FLOW.target}/transforms").json()
    assert "transforms.hash.salt" in json.dumps(found)


@pytest.mark.parametrize(
    "words",
    [
        ["check", "--without-airflow"],
        ["show", "--flow", str(FLOW)],
        *(
            ["explain", "--flow", str(FLOW), re.sub(r"^[stf]\.", "", line.partition(" = ")[0])]
            for line in SECRETS.values()
        ),
    ],
    ids=" ".join,
)
def test_no_command_prints_one(stage: Stage, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for form in ("text", "json"):
        run(["config", *words, "--config", str(stage.file), "--output", form])
        printed = capsys.readouterr()
        assert printed.out + printed.err
        assert found_in(printed.out + printed.err) == []


def test_nothing_that_is_printed_has_one(stage: Stage) -> None:
    configuration = load_configuration(stage.file, connections=None)
    assert FLOW in {*configuration.flows, *configuration.faults}
    assert found_in(repr(configuration)) == []
    assert found_in("".join(f"{flow!r}{flow}" for flow in configuration.flows.values())) == []
    assert found_in(" ".join(map(str, configuration.faults.values()))) == []
    assert found_in(repr(service_settings(configuration))) == []
    assert found_in(repr(transform_keys(configuration, FLOW))) == []

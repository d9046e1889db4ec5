"""Schema registries in configuration files."""

from __future__ import annotations

from pathlib import Path

import pytest

from srm_common.domain.cluster import JavaStore, RegistrySettings
from srm_common.domain.flow import FlowSettings
from srm_common.errors import ConfigError
from srm_common.settings_files.checks import findings
from srm_common.settings_files.configuration import Configuration, load_configuration
from srm_common.settings_files.explanations import is_secret

CLUSTERS = """
clusters = a, b
a.bootstrap.servers = a:9092
b.bootstrap.servers = b:9092
a->b.enabled = true
a.schema.registry.url = http://a:8081
"""


def loaded(folder: Path, *lines: str) -> Configuration:
    file = folder / "srm.properties"
    file.write_text(CLUSTERS + "\n".join(lines))
    return load_configuration(file, None)


def flow_of(folder: Path, *lines: str) -> FlowSettings:
    return loaded(folder, *lines).flow("a->b")


def registry(folder: Path, *lines: str) -> RegistrySettings | None:
    return flow_of(folder, *lines).target.schema_registry


def test_addresses_and_logins_are_read_as_by_confluents_clients(tmp_path: Path) -> None:
    assert registry(tmp_path) is None
    two = registry(tmp_path, "b.schema.registry.url = http://b1:8081, https://b2/path/")
    assert two == RegistrySettings(("http://b1:8081", "https://b2/path"))
    settings = registry(
        tmp_path,
        "b.schema.registry.url = http://b:8081",
        "b.basic.auth.credentials.source = USER_INFO",
        "b.basic.auth.user.info = srm:ge:heim",
    )
    assert settings is not None
    assert (settings.user, settings.password) == ("srm", "ge:heim")
    prefixed = registry(
        tmp_path, "b.schema.registry.url = http://b:8081", "b.schema.registry.basic.auth.user.info = srm:ge:heim"
    )
    assert prefixed == settings
    in_address = registry(tmp_path, "b.schema.registry.url = http://srm:ge%3Aheim@b:8081")
    assert in_address == settings
    assert "heim" not in repr(flow_of(tmp_path, "b.schema.registry.url = http://srm:ge%3Aheim@b:8081"))
    token = registry(
        tmp_path,
        "b.schema.registry.url = http://b:8081",
        "b.bearer.auth.credentials.source = STATIC_TOKEN",
        "b.bearer.auth.token = geheim",
    )
    assert token is not None
    assert token.token == "geheim"
    assert "geheim" not in repr(token)


def test_secrets_come_from_providers(tmp_path: Path) -> None:
    (tmp_path / "secrets").write_text("login = srm:geheim\n")
    settings = registry(
        tmp_path,
        "config.providers = file",
        "config.providers.file.class = org.apache.kafka.common.config.provider.FileConfigProvider",
        "b.schema.registry.url = http://b:8081",
        f"b.basic.auth.user.info = ${{file:{tmp_path}/secrets:login}}",
    )
    assert settings is not None
    assert settings.password == "geheim"


def test_the_line_end_of_a_file_is_no_part_of_a_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("geheim\n")
    settings = registry(
        tmp_path,
        "config.providers = directory",
        "config.providers.directory.class = org.apache.kafka.common.config.provider.DirectoryConfigProvider",
        "b.schema.registry.url = http://b:8081",
        f"b.bearer.auth.token = ${{directory:{tmp_path}:token}}",
    )
    assert settings is not None
    assert settings.token == "geheim"


def test_tls_is_that_of_the_registry_and_not_of_the_brokers(tmp_path: Path) -> None:
    settings = registry(
        tmp_path,
        "b.security.protocol = SSL",
        "b.ssl.truststore.location = /brokers.pem",
        "b.schema.registry.url = https://b:8081",
        "b.schema.registry.ssl.truststore.location = /registry.jks",
        "b.schema.registry.ssl.truststore.password = geheim",
        "b.schema.registry.ssl.certificate.location = /own.pem",
        "b.schema.registry.ssl.key.location = /own.key",
        "b.schema.registry.ssl.endpoint.identification.algorithm =",
    )
    assert settings is not None
    assert settings.truststore == JavaStore("/registry.jks", "geheim")
    assert settings.tls is not None
    assert (settings.tls.chain_file, settings.tls.key_file, settings.tls.check_hostname) == (
        "/own.pem",
        "/own.key",
        False,
    )
    plain = registry(tmp_path, "b.schema.registry.url = https://b:8081", "b.schema.registry.ssl.ca.location = /ca.pem")
    assert plain is not None
    assert plain.tls is not None
    assert plain.tls.certificate_authority_file == "/ca.pem"


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["b.schema.registry.url = b:8081"], "b.schema.registry.url: must be one or more addresses such as https://"),
        (["b.schema.registry.url = http://u:geheim@b:x"], "b.schema.registry.url: must be one or more addresses"),
        (["b.bearer.auth.token = ge\\nheim"], "b.bearer.auth.token: must consist of printable ASCII characters"),
        (["b.bearer.auth.token = gehe\u00efm"], "b.bearer.auth.token: must consist of printable ASCII characters"),
        (["b.basic.auth.user.info = geheim"], "b.basic.auth.user.info: must be <user>:<password>"),
        (["b.basic.auth.credentials.source = SASL_INHERIT"], "must be URL or USER_INFO, but is 'SASL_INHERIT'"),
        (["b.basic.auth.credentials.source = USER_INFO"], "is USER_INFO, but there is no basic.auth.user.info"),
        (["b.bearer.auth.credentials.source = OAUTHBEARER"], "must be STATIC_TOKEN, but is 'OAUTHBEARER'"),
        (
            ["b.schema.registry.url = http://b/contexts/.east, http://c/contexts/.west"],
            "must have the same context in each address",
        ),
        (["b.schema.registry.url = http://b/contexts/.east, http://c"], "must have the same context in each address"),
        (["b.schema.registry.url = http://b/contexts/.east/subjects"], "must end with the name of a context"),
        (["b.schema.registry.url = http://b/contexts/:*:"], "must end with the name of a context"),
        (["b.bearer.auth.token = t", "b.basic.auth.user.info = u:p"], "cannot be combined with a user name"),
        (["b.schema.registry.ssl.keystore.key = geheim"], "go together"),
        (["a->b.sync.schemas.enabled = perhaps"], "must be true or false"),
        (["a->b.schemas.ids = map"], "schemas.ids needs sync.schemas.enabled = true"),
        (["a->b.schemas.subjects = ("], "has an expression that cannot be used"),
        (["a->b.sync.schemas.enabled = true", "a->b.schemas.context = :.a:"], "without dots and colons, but is ':.a:'"),
        (["a->b.schemas.compatibility = some"], "must be one of none, subjects, all, but is 'some'"),
    ],
)
def test_what_cannot_be_used_is_one_sentence_without_secrets(tmp_path: Path, lines: list[str], reason: str) -> None:
    address = [] if "schema.registry.url" in lines[0] else ["b.schema.registry.url = http://b:8081"]
    with pytest.raises(ConfigError) as caught:
        flow_of(tmp_path, *address, *lines)
    assert reason in str(caught.value)
    assert "geheim" not in str(caught.value)


def test_a_flow_that_copies_schemas_needs_two_registries(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"needs b\.schema\.registry\.url, which is not set"):
        flow_of(tmp_path, "a->b.sync.schemas.enabled = true")
    with pytest.raises(ConfigError, match="to copy the registry http://a:8081 to itself: a and b both have it"):
        flow_of(tmp_path, "a->b.sync.schemas.enabled = true", "b.schema.registry.url = http://a:8081")
    for address in ("http://a:8081/contexts/.", "http://a:8081/contexts/.a"):
        lines = ("a->b.sync.schemas.enabled = true", f"b.schema.registry.url = {address}")
        if not address.endswith("a"):
            with pytest.raises(ConfigError, match="to copy the registry http://a:8081 to itself: a and b both have it"):
                flow_of(tmp_path, *lines)
        else:
            assert flow_of(tmp_path, *lines).sync_schemas
    settings = flow_of(
        tmp_path,
        "sync.schemas.enabled = true",
        "a->b.schemas.context = east",
        "b.schema.registry.url = http://b:8081",
    )
    assert settings.sync_schemas
    assert settings.graph[0].schemas_context == "east"


@pytest.mark.parametrize(
    ("converter", "title"), [("avro.AvroConverter", "Avro"), ("json.JsonSchemaConverter", "JSON Schema")]
)
def test_transforms_need_two_registries_for_schemas(tmp_path: Path, converter: str, title: str) -> None:
    lines = (
        "transforms = names",
        "transforms.names.type = ReplaceField$Value",
        "transforms.names.renames = a:b",
        f"value.converter = io.confluent.connect.{converter}",
        "value.converter.basic.auth.user.info = srm:geheim",
    )
    with pytest.raises(
        ConfigError, match=rf"transforms asks for fields of {title}, which needs b.schema.registry.url, which is not"
    ):
        flow_of(tmp_path, *lines)
    assert flow_of(tmp_path, *lines, "b.schema.registry.url = http://b:8081").transforms
    assert is_secret("a->b.value.converter.basic.auth.user.info")


def test_a_statement_that_reads_avro_needs_the_registry_of_the_source(tmp_path: Path) -> None:
    lines = ("transforms.sql.a = SELECT key FROM records WHERE avro IS NULL", "b->a.enabled = true")
    assert flow_of(tmp_path, *lines).statements
    with pytest.raises(
        ConfigError, match=r"transforms\.sql\.a reads avro, which needs b\.schema\.registry\.url, which is not set"
    ):
        loaded(tmp_path, *lines).flow("b->a")


def test_keys_are_known_and_a_misspelt_one_is_not(tmp_path: Path) -> None:
    known = loaded(tmp_path, "a.basic.auth.user.info = u:p")
    assert [finding.text for finding in findings(known) if "registry" in finding.key] == []
    misspelt = loaded(tmp_path, "b.schema.registry.urls = http://b:8081")
    (finding,) = [finding for finding in findings(misspelt) if finding.key == "b.schema.registry.urls"]
    assert "did you mean b.schema.registry.url?" in finding.text
    lonely = loaded(tmp_path, "b.basic.auth.user.info = u:p")
    (finding,) = [finding for finding in findings(lonely) if finding.key == "b.basic.auth.user.info"]
    assert finding.text == "has no effect, as the cluster has no schema.registry.url"

"""Logins that are read again from the files that have them."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.errors import ConfigError
from srm_common.settings_files.configuration import load_configuration

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


def east(folder: Path, **settings: str) -> ClusterSettings:
    """What a file says of a cluster with SASL."""
    named = {key.replace("_", "."): value for key, value in settings.items()}
    named = {"bootstrap.servers": "h:9092", "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", **named}
    lines = [f"east.{key} = {value}" for key, value in named.items()]
    (folder / "srm.properties").write_text("\n".join(["clusters = east", *lines]))
    return load_configuration(folder / "srm.properties").clusters["east"]


def test_a_reference_is_resolved_again_also_in_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret.properties"
    secret.write_text("password = first-secret")
    monkeypatch.setenv("COPIER", "copier")
    cluster = east(
        tmp_path,
        sasl_jaas_config=f'{_PLAIN} required username="${{env:COPIER}}" password="${{file:{secret}:password}}";',
    )
    source = cluster.login_source
    assert source is not None
    assert source.read() == cluster.login
    assert source.place == str(secret)
    monkeypatch.delenv("COPIER")
    travelled = pickle.dumps(source)
    assert b"first-secret" not in travelled
    there = pickle.loads(travelled)
    assert (there, hash(there)) == (source, hash(source))
    secret.write_text("password = second-secret")
    assert there.read().kafka_python["sasl_plain_password"] == "second-secret"
    assert there.read().confluent["sasl.password"] == "second-secret"
    assert there.read().kafka_python["sasl_plain_username"] == "copier"
    assert "secret" not in repr(there.read()) + repr(there).replace(str(secret), "")


def test_a_password_of_the_file_itself(tmp_path: Path) -> None:
    before = east(tmp_path, sasl_username="copier", sasl_password="first-secret")
    east(tmp_path, sasl_username="copier", sasl_password="second-secret")
    assert before.login_source is not None
    assert before.login_source.place == str(tmp_path / "srm.properties")
    assert before.login_source.read().confluent["sasl.password"] == "second-secret"


def test_an_oauth_secret(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("first-secret")
    cluster = east(
        tmp_path,
        sasl_mechanism="OAUTHBEARER",
        sasl_oauthbearer_token_endpoint_url="https://login",
        sasl_jaas_config=f'{_OAUTH} required clientId="c" clientSecret="${{dir:{tmp_path}:secret}}";',
    )
    assert cluster.login_source is not None
    assert cluster.login_source.read() == cluster.login
    assert cluster.login_source.place == str(tmp_path / "secret")
    (tmp_path / "secret").write_text("second-secret")
    assert cluster.login_source.read().kafka_python["sasl_oauth_token_provider"].client_secret == "second-secret"


@pytest.mark.parametrize("left", ["", "other = 1", None])
def test_a_file_that_is_gone_or_half_written(tmp_path: Path, left: str | None) -> None:
    secret = tmp_path / "secret.properties"
    secret.write_text("password = first-secret")
    cluster = east(tmp_path, sasl_username="copier", sasl_password=f"${{file:{secret}:password}}")
    assert cluster.login_source is not None
    if left is None:
        secret.unlink()
    else:
        secret.write_text(left)
    with pytest.raises(ConfigError, match="password"):
        cluster.login_source.read()
    own = east(tmp_path, sasl_username="copier", sasl_password="first-secret").login_source
    assert own is not None
    (tmp_path / "srm.properties").write_text("clusters = east")
    with pytest.raises(ConfigError, match=r"east\.sasl\.(mechanism|username|password) is no longer there"):
        own.read()


def test_there_is_none_without_a_secret_or_where_airflow_keeps_it(tmp_path: Path) -> None:
    assert east(tmp_path, security_protocol="PLAINTEXT").login_source is None
    kerberos = 'com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true serviceName="kafka";'
    assert east(tmp_path, sasl_mechanism="GSSAPI", sasl_jaas_config=kerberos).login_source is None

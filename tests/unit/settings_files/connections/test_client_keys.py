from __future__ import annotations

import pickle

import pytest
from confluent_kafka.admin import AdminClient

from srm_common.domain.cluster import NO_AUTO_CREATION, ClusterSettings, KerberosLogin, OauthClient, PemTexts
from srm_common.domain.flow.principals import login_principal
from srm_common.domain.settings.layers import Entry
from srm_common.errors import ConfigError
from srm_common.settings_files.connections.client_keys import cluster_settings
from srm_common.settings_files.connections.login_keys import parse_jaas

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required username='u' password='hush';"


def translate(**settings: str) -> ClusterSettings:
    named = {key.replace("__", "-").replace("_", "."): value for key, value in settings.items()}
    named.setdefault("bootstrap.servers", "h:9092")
    written = {key: Entry(f"A.{key}", value, "f", number) for number, (key, value) in enumerate(named.items(), 1)}
    return cluster_settings("A", written, lambda entry: entry.value)


def test_plain_text() -> None:
    cluster = translate(bootstrap_servers=" h1:9092 , h2:9093 ", client_dns_lookup="use_all_dns_ips")
    assert cluster.bootstrap_servers == "h1:9092,h2:9093"
    assert cluster.confluent == {
        **NO_AUTO_CREATION,
        "client.id": "srm",
        "socket.connection.setup.timeout.ms": "10000",  # librdkafka has 30 s
        "bootstrap.servers": "h1:9092,h2:9093",
        "security.protocol": "PLAINTEXT",
        "client.dns.lookup": "use_all_dns_ips",
    }
    assert cluster.kafka_python == {
        "bootstrap_servers": ["h1:9092", "h2:9093"],
        "security_protocol": "PLAINTEXT",
        "client_dns_lookup": "use_all_dns_ips",
    }
    assert ClusterSettings.plaintext("A", "h:9092") == translate()


@pytest.mark.parametrize(
    ("written", "protocol", "servers"),
    [
        ("PLAINTEXT://h1:9092,h2:9093", "", "h1:9092,h2:9093"),
        (" ssl://h1:9092 , SSL://[::1]:9093", "SSL", "h1:9092,[::1]:9093"),
        ("Ssl://h1:9092", "ssl", "h1:9092"),
        ("EXTERNAL://h1:9092, kafka-1.local://h2:9092, ://h3:1", "SSL", "h1:9092,h2:9092,h3:1"),
    ],
)
def test_a_protocol_before_an_address_is_left_out(written: str, protocol: str, servers: str) -> None:
    cluster = translate(bootstrap_servers=written, **({"security_protocol": protocol} if protocol else {}))
    assert cluster.bootstrap_servers == cluster.confluent["bootstrap.servers"] == servers
    assert ",".join(cluster.kafka_python["bootstrap_servers"]) == servers


@pytest.mark.parametrize(("protocol", "default"), [("", ", its default"), ("plaintext", "")])
def test_a_protocol_before_an_address_that_is_not_that_of_the_connection(protocol: str, default: str) -> None:
    """Java would go by security.protocol; librdkafka would leave the broker out."""
    settings = {"security_protocol": protocol} if protocol else {}
    with pytest.raises(ConfigError) as caught:
        translate(bootstrap_servers="h1:9092, sasl_ssl://h2:9092", **settings)
    assert str(caught.value) == (
        f"f:1: A.bootstrap.servers: 'sasl_ssl://h2:9092' contradicts security.protocol, which is PLAINTEXT{default}; "
        "set security.protocol = SASL_SSL, or remove the prefix"
    )


@pytest.mark.parametrize(
    ("key", "value", "librdkafka", "kafka_python"),
    [
        ("socket_connection_setup_timeout_ms", "500", "1000", 500),
        ("metadata_max_age_ms", "604800000", "86400000", 604_800_000),
        ("reconnect_backoff_ms", "9999999999", "3600000", 9_999_999_999),
        ("connections_max_idle_ms", "-1", "0", 2**31 - 1),
        ("client_dns_lookup", "default", "use_all_dns_ips", "use_all_dns_ips"),
    ],
)
def test_what_java_takes_and_librdkafka_does_not(key: str, value: str, librdkafka: str, kafka_python: object) -> None:
    cluster = translate(**{key: value})
    assert cluster.confluent[key.replace("_", ".")] == librdkafka
    assert cluster.kafka_python[key] == kafka_python
    AdminClient({**cluster.confluent, "log_level": 0})  # it checks all values


def test_a_lookup_that_no_library_has() -> None:
    with pytest.raises(ConfigError, match="must be one of use_all_dns_ips"):
        translate(client_dns_lookup="sometimes")


def test_the_rack_is_that_of_the_reader_and_no_setting_of_a_connection() -> None:
    cluster = translate(client_rack="east-1a")
    assert cluster.rack == "east-1a"
    assert "client_rack" not in cluster.kafka_python
    assert translate().rack == ""


def test_scram_over_tls_with_pem_files() -> None:
    cluster = translate(
        security_protocol="sasl_ssl",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_jaas_config=SCRAM,
        ssl_truststore_type="PEM",
        ssl_truststore_location="/ca",
        ssl_keystore_type="PEM",
        ssl_keystore_location="/me",
        ssl_key_password="hush2",
        ssl_endpoint_identification_algorithm="",
    )
    assert cluster.confluent == {
        **NO_AUTO_CREATION,
        "client.id": "srm",
        "socket.connection.setup.timeout.ms": "10000",  # librdkafka has 30 s
        "bootstrap.servers": "h:9092",
        "security.protocol": "SASL_SSL",
        "ssl.endpoint.identification.algorithm": "none",
        "ssl.ca.location": "/ca",
        "ssl.certificate.location": "/me",
        "ssl.key.location": "/me",
        "ssl.key.password": "hush2",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "u",
        "sasl.password": "hush",
    }
    assert cluster.kafka_python == {
        "bootstrap_servers": ["h:9092"],
        "security_protocol": "SASL_SSL",
        "ssl_check_hostname": False,
        "ssl_cafile": "/ca",
        "ssl_certfile": "/me",
        "ssl_keyfile": "/me",
        "ssl_password": "hush2",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "u",
        "sasl_plain_password": "hush",
    }
    assert "hush" not in repr(cluster)
    assert pickle.loads(pickle.dumps(cluster)) == cluster


def test_certificates_as_text() -> None:
    cluster = translate(
        security_protocol="SSL",
        ssl_truststore_certificates="CA",
        ssl_keystore_certificate_chain="CHAIN",
        ssl_keystore_key="KEY",
    )
    assert cluster.confluent["ssl.ca.pem"] == "CA"
    assert cluster.confluent["ssl.certificate.pem"] == "CHAIN"
    assert cluster.confluent["ssl.key.pem"] == "KEY"
    assert cluster.confluent["ssl.endpoint.identification.algorithm"] == "https"
    texts = cluster.kafka_python["ssl_context"]
    assert texts == PemTexts(certificate_authority="CA", chain="CHAIN", key="KEY")
    assert "KEY" not in repr(texts)


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        ({"ssl_keystore_location": "/own.jks", "ssl_keystore_password": "hush"}, "/own.jks"),
        ({"ssl_keystore_location": "/own.pem"}, "/own.pem"),
        ({"ssl_certificate_location": "/own.crt", "ssl_key_location": "/own.key"}, "/own.crt"),
        ({"ssl_keystore_certificate_chain": "CHAIN", "ssl_keystore_key": "KEY"}, "ssl.keystore.certificate.chain"),
        ({"ssl_truststore_location": "/ca.jks", "ssl_truststore_password": "hush"}, None),
    ],
)
def test_whose_certificate_a_client_shows_only_brokers_know(settings: dict[str, str], place: str | None) -> None:
    found = translate(security_protocol="SSL", **settings)
    assert (found.own_certificate and found.own_certificate.place) == place
    assert login_principal(found) == ("User:ANONYMOUS" if place is None else None)
    if found.own_certificate is not None and place != "ssl.keystore.certificate.chain":
        assert found.own_certificate.subject() is None  # there is no such file


def test_oauth() -> None:
    cluster = translate(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauthbearer_token_endpoint_url="https://t",
        sasl_jaas_config="x.OAuthBearerLoginModule required clientId='i' clientSecret='hush' scope='s' "
        "extension_a='b';",
    )
    assert cluster.confluent["sasl.oauthbearer.method"] == "oidc"
    assert cluster.confluent["sasl.oauthbearer.extensions"] == "a=b"
    provider = cluster.kafka_python["sasl_oauth_token_provider"]
    assert provider == OauthClient("https://t", "i", "hush", "s", (("a", "b"),))
    assert "hush" not in repr(provider)


@pytest.mark.parametrize(
    ("encoded", "sent"), [("true", ("i%40x%3Ay", "a%2Fb+c")), ("FALSE", ("i@x:y", "a/b c")), (None, ("i@x:y", "a/b c"))]
)
def test_oauth_with_an_encoded_id_and_secret(encoded: str | None, sent: tuple[str, str]) -> None:
    cluster = translate(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauthbearer_token_endpoint_url="https://t",
        sasl_jaas_config="x.OAuthBearerLoginModule required clientId='i@x:y' clientSecret='a/b c';",
        **({} if encoded is None else {"sasl_oauthbearer_header_urlencode": encoded}),
    )
    provider = cluster.kafka_python["sasl_oauth_token_provider"]
    assert (provider.client_id, provider.client_secret) == sent
    assert [cluster.confluent[f"sasl.oauthbearer.client.{key}"] for key in ("id", "secret")] == [*sent]
    with pytest.raises(ConfigError, match=r"sasl.oauthbearer.header.urlencode.*must be true or false, but is 'yes'"):
        translate(
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauthbearer_token_endpoint_url="https://t",
            sasl_jaas_config="x.OAuthBearerLoginModule required clientId='i' clientSecret='s';",
            sasl_oauthbearer_header_urlencode="yes",
        )


def test_a_delegation_token() -> None:
    """kafka-python serves the cluster alone: librdkafka does not know them. The broker knows whose a token is."""
    by_token = SCRAM.replace(";", " tokenauth='true';")
    for mechanism, jaas, expected in (("SCRAM-SHA-256", by_token, True), ("SCRAM-SHA-512", SCRAM, False)):
        cluster = translate(security_protocol="SASL_SSL", sasl_mechanism=mechanism, sasl_jaas_config=jaas)
        assert (cluster.by_token, cluster.kafka_python_alone) == (expected, expected)
        assert login_principal(cluster) == (None if expected else "User:u")
        assert cluster.kafka_python["sasl_plain_password"] == "hush"


KRB5 = "com.sun.security.auth.module.Krb5LoginModule required"
KERBEROS = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "GSSAPI",
    "sasl_jaas_config": f'{KRB5} useKeyTab=true storeKey=true keyTab="/etc/srm.keytab" principal="srm/h@R" '
    'serviceName="kafka";',
}


@pytest.mark.parametrize(
    ("jaas", "login"),
    [
        (KERBEROS["sasl_jaas_config"], KerberosLogin("kafka", "srm/h@R", "/etc/srm.keytab")),
        (f'{KRB5} useKeyTab=true keyTab="file:///k" principal="p@R" serviceName="s";', KerberosLogin("s", "p@R", "/k")),
        (f'{KRB5} useTicketCache=true serviceName="s";', KerberosLogin("s")),
        (
            f'{KRB5} useTicketCache=true ticketCache="/run/srm/cc" principal="p@R" serviceName="s";',
            KerberosLogin("s", "p@R", None, "/run/srm/cc"),
        ),
        (
            f'{KRB5} useTicketCache=true useKeyTab=yes keyTab="/k" principal="p@R" serviceName="s";',
            KerberosLogin("s", "p@R", "/k"),
        ),
    ],
)
def test_kerberos(jaas: str, login: KerberosLogin) -> None:
    settings = translate(**{**KERBEROS, "sasl_jaas_config": jaas})
    assert settings.kerberos == login
    assert settings.kafka_python["sasl_mechanism"] == "GSSAPI"
    who = login_principal(settings)
    assert who == (None if login.principal is None else f"User:{login.principal.split('@')[0].split('/')[0]}")


@pytest.mark.parametrize(
    ("options", "key", "confluent", "trusted"),
    [
        ("", "/c.pem", {"https.ca.location": "/c.pem"}, ("/c.pem", None)),
        (" ssl.truststore.location='/j.pem'", "", {"https.ca.location": "/j.pem"}, ("/j.pem", None)),
        (" ssl.truststore.certificates='CA'", "", {"https.ca.pem": "CA"}, (None, "CA")),
        ("", "", {}, (None, None)),
    ],
)
def test_whom_to_trust_at_the_token_endpoint(
    options: str, key: str, confluent: dict[str, str], trusted: tuple[str | None, str | None]
) -> None:
    cluster = translate(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauthbearer_token_endpoint_url="https://t",
        sasl_jaas_config=f"x.OAuthBearerLoginModule required clientId='i' clientSecret='hush'{options};",
        https_ca_location=key,
    )
    assert {name: value for name, value in cluster.confluent.items() if name.startswith("https.")} == confluent
    provider = cluster.kafka_python["sasl_oauth_token_provider"]
    assert (provider.certificate_authority_file, provider.certificate_authority) == trusted


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"bootstrap_servers": " "}, "cluster A has no address"),
        ({"bootstrap_servers": "h"}, "'h' is not host:port"),
        ({"bootstrap_servers": "h:0"}, "'h:0' is not host:port"),
        ({"bootstrap_servers": "SASL_SSL://h"}, "'SASL_SSL://h' is not host:port"),
        ({"bootstrap_servers": "a://b://h:1"}, "'a://b://h:1' is not host:port"),
        ({"bootstrap_servers": "SSL://"}, "'SSL://' is not host:port"),
        ({"bootstrap_servers": f"h:{'9' * 5000}"}, "is not host:port"),
        ({"request_timeout_ms": "2147483648"}, "request.timeout.ms: must be at most 2147483647 milliseconds"),
        ({"metadata_max_age_ms": "9" * 5000}, "metadata.max.age.ms: must be at most 9223372036854775807 milliseconds"),
        ({"security_protocol": "TLS"}, "must be one of PLAINTEXT, SSL"),
        (
            {"security_protocol": "SSL", "ssl_truststore_location": "/a", "ssl_truststore_type": "BCFKS"},
            "BCFKS truststore can be read only by Java.*set ssl.truststore.type=PKCS12",
        ),
        (
            {"security_protocol": "SSL", "ssl_keystore_location": "/a.pem", "ssl_keystore_password": "hush"},
            "a PEM keystore has no password .that of the private key is ssl.key.password.",
        ),
        ({"security_protocol": "SSL", "ssl_keystore_key": "K"}, "go together"),
        (
            {
                "security_protocol": "SASL_SSL",
                "sasl_mechanism": "SCRAM-SHA-512",
                "sasl_login_callback_handler_class": "com.example.Vault",
            },
            "sasl.login.callback.handler.class: login handlers that are Java classes are not available",
        ),
        ({"security_protocol": "SASL_SSL"}, r"login by GSSAPI, Java's default where.*needs sasl.jaas.config"),
        (
            {**KERBEROS, "sasl_kerberos_service_name": "hdfs"},
            "'hdfs', but sasl.jaas.config has serviceName=\"kafka\"",
        ),
        ({**KERBEROS, "sasl_jaas_config": f'{KRB5} useKeyTab=true principal="p" serviceName="k";'}, "needs keyTab"),
        ({**KERBEROS, "sasl_jaas_config": f'{KRB5} useKeyTab=true keyTab="/k" serviceName="k";'}, "needs principal"),
        ({**KERBEROS, "sasl_jaas_config": f'{KRB5} serviceName="k";'}, "neither a keytab nor a ticket cache"),
        ({**KERBEROS, "sasl_jaas_config": f"{KRB5} useTicketCache=true;"}, "needs sasl.kerberos.service.name"),
        ({**KERBEROS, "sasl_jaas_config": SCRAM}, "sasl.mechanism=GSSAPI takes Krb5LoginModule"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "DIGEST-MD5"}, "login by DIGEST-MD5 is not available"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"}, "needs username and password"),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_jaas_config": SCRAM},
            "names ScramLoginModule, but sasl.mechanism=PLAIN takes PlainLoginModule",
        ),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"},
            "needs sasl.oauthbearer.token.endpoint.url",
        ),
        ({"metadata_max_age_ms": "1s"}, "whole number of milliseconds"),
    ],
)
def test_what_cannot_be_translated_is_refused_with_the_way_out(settings: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        translate(**settings)
    assert "hush" not in str(caught.value)
    assert caught.value.file == "f"


PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f'{PLAIN} required username="alice" password="a;b=\\"c\\"";', {"username": "alice", "password": 'a;b="c"'}),
        (f"{PLAIN} required\n  username='alice'\n  password='p w' ;", {"username": "alice", "password": "p w"}),
        (f'{PLAIN} REQUIRED username=alice password="" ;', {"username": "alice", "password": ""}),
        (f"{PLAIN} required;", {}),
    ],
)
def test_login_modules(text: str, options: dict[str, str]) -> None:
    module = parse_jaas(text)
    assert module.name == "PlainLoginModule"
    assert module.options == options
    assert "alice" not in repr(module)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f'{PLAIN} required username="secret"', "must end with a semicolon"),
        (f'{PLAIN} username="secret";', "must read"),
        (f'{PLAIN} required username="secret;', "quote is not closed"),
        (f"{PLAIN} required username secret;", "not written name="),
        (f"{PLAIN} required username=;", "not written name="),
        (f"{PLAIN} required; {PLAIN} required;", "one login module"),
        (";", "must read"),
    ],
)
def test_a_broken_text_is_refused_without_quoting_it(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        parse_jaas(text)
    assert "secret" not in str(caught.value)

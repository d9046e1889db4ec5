from __future__ import annotations

from pathlib import Path

import pytest

from srm_common.cli.flow_choice import ClientOverrides
from srm_common.domain.cluster import ClusterSettings
from srm_common.errors import ConfigError

FILE = ClusterSettings(
    "b",
    "in-file:1",
    {"bootstrap.servers": "in-file:1", "security.protocol": "SSL", "ssl.ca.location": "/ca.pem"},
    {"bootstrap_servers": ["in-file:1"], "security_protocol": "SSL", "ssl_cafile": "/ca.pem"},
)


def test_another_address_keeps_the_files_security() -> None:
    settings = ClientOverrides("x:1, y:2").read_from(FILE)
    assert settings.bootstrap_servers == "x:1,y:2"
    assert settings.confluent == {**FILE.confluent, "bootstrap.servers": "x:1,y:2"}
    assert settings.kafka_python["bootstrap_servers"] == ["x:1", "y:2"]
    assert settings.kafka_python["ssl_cafile"] == "/ca.pem"
    assert not ClientOverrides()
    assert ClientOverrides("x:1")


def test_properties_replace_the_files_for_reading_and_writing(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("sasl.username = reader\n")
    login = 'sasl.jaas.config=org.x.PlainLoginModule required username="u" password="a,b=c";'
    overrides = ClientOverrides(
        None,
        (f"security.protocol=SASL_PLAINTEXT,sasl.mechanism=PLAIN,{login}",),
        producer_props=("client.dns.lookup=use_all_dns_ips",),
        consumer_props=("metadata.max.age.ms=5000",),
    )
    reads, writes = overrides.read_from(FILE), overrides.written_to(FILE)
    assert reads.bootstrap_servers == "in-file:1"
    assert reads.confluent["sasl.username"] == "u"
    assert reads.confluent["sasl.password"] == "a,b=c"
    assert "ssl.ca.location" not in reads.confluent
    assert reads.confluent["metadata.max.age.ms"] == "5000"
    assert "metadata.max.age.ms" not in writes.confluent
    assert writes.confluent["client.dns.lookup"] == "use_all_dns_ips"
    assert "a,b=c" not in repr(reads)


@pytest.mark.parametrize(
    ("props", "said"),
    [
        ("nothing", "'nothing' is neither key=value nor a file"),
        ("linger.ms=5", "the command line: linger.ms does not describe how to reach a cluster"),
        ("security.protocol=TLS", "security.protocol: must be one of PLAINTEXT"),
    ],
)
def test_what_cannot_be_used_is_refused(props: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        ClientOverrides(None, (props,)).read_from(FILE)

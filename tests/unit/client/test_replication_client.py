from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from srm_common.client import ReplicationClient
from srm_common.errors import ConfigError


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({}, "bootstrap.servers is missing"),
        ({"bootstrap.servers": " "}, "bootstrap.servers is missing"),
        ({"bootstrap.servers": "h:1", "security.protocol": "PLAIN"}, "security.protocol"),
        ({"bootstrap.servers": "h:1", "replication.policy.separator": ""}, "separator must not be empty"),
        ({"bootstrap.servers": "h:1", "replication.policy.class": "Nothing"}, "there is no policy 'Nothing'"),
    ],
)
def test_bad_properties_are_said(properties: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        ReplicationClient(properties)


def test_passwords_are_not_shown() -> None:
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="secret";'
    client = ReplicationClient(
        {
            "bootstrap.servers": "h:1",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": login,
        }
    )
    assert "secret" not in repr(vars(client))


def test_a_cluster_of_a_file(configuration_file: Callable[..., Path]) -> None:
    file = configuration_file({"clusters": "a, b", "a.bootstrap.servers": "h:1", "b.bootstrap.servers": "h:2"})
    ReplicationClient.of_cluster(file, "b").close()
    with pytest.raises(ConfigError, match=r"srm\.properties: 'c' is not one of the clusters \(a, b\)"):
        ReplicationClient.of_cluster(str(file), "c")

"""Flows between clusters whose clients need a login or TLS; the tests themselves come in by the open listeners."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowSettings
from srm_common.domain.settings.layers import Entry
from srm_common.settings_files.configuration import load_configuration
from srm_common.settings_files.connections.client_keys import cluster_settings
from srm_common.testing import LocalKafka
from tests.kafka.flows import flow_between, prepare
from tests.kafka.records import eventually, read_all

_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_MECHANISMS = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}


@dataclass(frozen=True)
class Secured:
    """One side. ``properties`` are what a configuration file says of it behind the alias."""

    kafka: LocalKafka
    properties: Mapping[str, str] = field(default_factory=dict)

    def cluster(self, alias: str) -> ClusterSettings:
        """What a flow is given."""
        written = {"bootstrap.servers": self.kafka.bootstrap_servers, **self.properties}
        entries = {key: Entry(f"{alias}.{key}", value, "srm.properties", 1) for key, value in written.items()}
        return cluster_settings(alias, entries, lambda entry: entry.value)

    def in_file(self, alias: str, folder: Path) -> ClusterSettings:
        """The same as a new file in ``folder`` has it, whose references are resolved."""
        file = folder / f"{alias}.properties"
        written = {"bootstrap.servers": self.kafka.bootstrap_servers, **self.properties}
        lines = [f"clusters = {alias}", *(f"{alias}.{key} = {value}" for key, value in written.items())]
        file.write_text("\n".join(lines))
        return load_configuration(file).clusters[alias]


def flow_of(source: Secured, target: Secured, name: str, **settings: Any) -> FlowSettings:
    """A flow that copies the topics whose names begin with ``name``."""
    made = flow_between(source.kafka, target.kafka, name, **settings)
    return replace(made, source=source.cluster(made.name.source), target=target.cluster(made.name.target))


def topic_of(source: Secured, flow: FlowSettings, name: str, partitions: int) -> str:
    """A new topic of the source that the flow is ready to copy; returns the name of its copy."""
    source.kafka.create_topic(name, partitions)
    prepare(flow)
    return f"{flow.name.source}.{name}"


def assert_equal(source: Secured, topic: str, target: Secured, copy: str) -> int:
    """The copy has what the topic has, record by record; returns how many there are."""
    seen = [
        {partition: [record.seen for record in records] for partition, records in read_all(kafka, name).items()}
        for kafka, name in ((source.kafka, topic), (target.kafka, copy))
    ]
    assert seen[0] == seen[1]
    return sum(map(len, seen[0].values()))


def tls_listener(certificate: Path) -> dict[str, str]:
    """Settings of a broker that shows a certificate."""
    return {
        "listener.name.client.ssl.keystore.type": "PEM",
        "listener.name.client.ssl.keystore.location": str(certificate),
    }


def scram_listener(mechanism: str) -> dict[str, str]:
    """Settings of a broker that takes logins by it."""
    return {
        "listener.name.client.sasl.enabled.mechanisms": mechanism,
        f"listener.name.client.{mechanism.lower()}.sasl.jaas.config": f"{_SCRAM} required;",
    }


def scram_login(user: str, password: str, mechanism: str, *, tls: bool = False) -> dict[str, str]:
    """What a properties file says."""
    return {
        "security.protocol": "SASL_SSL" if tls else "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{_SCRAM} required username="{user}" password="{password}";',
    }


def let_in(kafka: LocalKafka, user: str, password: str, mechanism: str) -> None:
    """Make a user, or give it another password."""
    how = ScramCredentialInfo(_MECHANISMS[mechanism], 4096)
    made = UserScramCredentialUpsertion(user, how, password.encode())
    kafka.admin().alter_user_scram_credentials([made])[user].result(60)
    eventually(lambda: user in _users(kafka), 300, f"{kafka.name} does not know {user}")


def shut_out(kafka: LocalKafka, user: str, mechanism: str) -> None:
    """Take a user's login away."""
    gone = UserScramCredentialDeletion(user, _MECHANISMS[mechanism])
    kafka.admin().alter_user_scram_credentials([gone])[user].result(60)
    eventually(lambda: user not in _users(kafka), 300, f"{kafka.name} still knows {user}")


def _users(kafka: LocalKafka) -> set[str]:
    credentials: Any = kafka.admin().describe_user_scram_credentials()
    return set(credentials.result(60))

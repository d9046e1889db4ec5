"""Mutual TLS between a flow and a cluster of one broker, whose certificates are replaced while records are copied."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.settings.layers import Entry
from srm_common.settings_files.connections.client_keys import cluster_settings
from srm_common.testing import LocalKafka
from tests.kafka.authority import Authority
from tests.kafka.records import eventually

_KEYSTORE = "listener.name.client.ssl.keystore.location"


class Certificates:
    """What the broker and the flow show each other, in PEM files of ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = 0
        self._authority = Authority(folder, "authority-0")
        self._own, self._trusted = folder / "own.pem", folder / "trusted.pem"
        os.replace(self._authority.vouch_for("copier"), self._own)
        self._trusted.write_bytes(self._authority.pem.read_bytes())
        #: Of the broker.
        self.settings = {
            "listener.name.client.ssl.keystore.type": "PEM",
            _KEYSTORE: str(self._authority.vouch_for("127.0.0.1")),
            "listener.name.client.ssl.truststore.type": "PEM",
            "listener.name.client.ssl.truststore.location": str(self._authority.pem),
            "listener.name.client.ssl.client.auth": "required",
            "ssl.allow.san.changes": "true",
            "ssl.allow.dn.changes": "true",
        }

    def cluster(self, alias: str, servers: str) -> ClusterSettings:
        """How the flow reaches the broker."""
        written = {
            "bootstrap.servers": servers,
            "security.protocol": "SSL",
            "ssl.truststore.location": str(self._trusted),
            "ssl.keystore.location": str(self._own),
        }
        entries = {key: Entry(f"{alias}.{key}", value, "f", 1) for key, value in written.items()}
        return cluster_settings(alias, entries, lambda entry: entry.value)

    def replace_own(self) -> None:
        """Another certificate for the flow, in the file of the last one."""
        os.replace(self._authority.vouch_for("copier", file="next"), self._own)

    def replace_brokers(self, kafka: LocalKafka) -> None:
        """Another certificate for the broker, of another authority, which the flow trusts a moment before (KIP-226)."""
        self._number += 1
        authority = Authority(self._folder, f"authority-{self._number}")
        both = self._folder / "both.pem"
        both.write_bytes(self._trusted.read_bytes() + authority.pem.read_bytes())
        os.replace(both, self._trusted)
        shown = authority.vouch_for("127.0.0.1", file=f"broker-{self._number}")
        entry = ConfigEntry(_KEYSTORE, str(shown), incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
        kafka.admin().incremental_alter_configs([resource])[resource].result(60)
        expected = ssl.PEM_cert_to_DER_cert(shown.read_text().partition("-----END PRIVATE KEY-----")[2].strip())
        host, _, port = kafka.bootstrap_servers.rpartition(":")
        eventually(
            lambda: ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate((host, int(port)))) == expected,
            300,
            f"the broker does not show {shown}",
        )

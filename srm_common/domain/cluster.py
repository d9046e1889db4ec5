"""How to reach one cluster, in the words of both Kafka clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

#: In every client of librdkafka. Its admin clients and producers ask for metadata as Kafka's producer does, and brokers
#: whose ``auto.create.topics.enable`` is on then create each topic that is asked about. kafka-python's connections are
#: told the same by :class:`~srm_common.kafka.link.ClusterLink`.
NO_AUTO_CREATION: Mapping[str, str] = MappingProxyType({"allow.auto.create.topics": "false"})
#: Where Kafka's clients have another default: librdkafka tries each address of a name for 30 s.
LIBRDKAFKA_DEFAULTS: Mapping[str, str] = {"socket.connection.setup.timeout.ms": "10000"}


@dataclass(frozen=True)
class ClusterSettings:
    """One cluster alias and its connection settings. Picklable; ``repr`` shows no credentials.

    ``bootstrap_servers`` is a comma separated list of ``host:port``. ``confluent`` holds librdkafka settings
    (``bootstrap.servers`` and security included, and :data:`NO_AUTO_CREATION`). ``kafka_python`` holds keyword
    arguments of ``kafka.net.manager.KafkaConnectionManager`` (``bootstrap_servers`` as a list); a value of
    :class:`PemTexts` or :class:`OauthClient` in it becomes a live object in
    :func:`srm_common.kafka.security.connection_arguments`. ``rack`` is where the readers of the cluster are (KIP-392).
    """

    alias: str
    bootstrap_servers: str
    confluent: Mapping[str, str] = field(repr=False, hash=False)
    kafka_python: Mapping[str, Any] = field(repr=False, hash=False)
    rack: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "confluent", {**self.confluent, **NO_AUTO_CREATION})

    @classmethod
    def plaintext(cls, alias: str, bootstrap_servers: str) -> ClusterSettings:
        """A cluster without TLS and without a login."""
        servers = [server.strip() for server in bootstrap_servers.split(",") if server.strip()]
        return cls(
            alias=alias,
            bootstrap_servers=",".join(servers),
            confluent={
                **LIBRDKAFKA_DEFAULTS,
                "bootstrap.servers": ",".join(servers),
                "security.protocol": "PLAINTEXT",
            },
            kafka_python={"bootstrap_servers": servers, "security_protocol": "PLAINTEXT"},
        )


@dataclass(frozen=True)
class PemTexts:
    """Certificates given as text instead of files; kafka-python takes them only as an ``ssl.SSLContext``.

    ``certificate_authority`` may also be a path in ``certificate_authority_file``; likewise the own chain and key.
    """

    certificate_authority: str | None = field(default=None, repr=False)
    certificate_authority_file: str | None = None
    chain: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)
    chain_file: str | None = None
    key_file: str | None = None
    key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True
    ciphers: str | None = None
    revoked_file: str | None = None


@dataclass(frozen=True)
class OauthClient:
    """The OAuth 2 client-credentials grant of ``OAuthBearerLoginCallbackHandler`` (KIP-768).

    ``certificate_authority`` (text) or ``certificate_authority_file``: whom to trust at the endpoint, in place of the
    system's authorities.
    """

    token_endpoint_url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None
    extensions: tuple[tuple[str, str], ...] = ()
    certificate_authority_file: str | None = None
    certificate_authority: str | None = field(default=None, repr=False)

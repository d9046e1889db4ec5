"""Connection settings of one cluster, in the terms of both Kafka clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Protocol
from urllib.parse import unquote

#: In every client of librdkafka. Its admin clients and producers ask for metadata as Kafka's producer does, and brokers
#: whose ``auto.create.topics.enable`` is on then create each topic that is asked about. kafka-python's connections are
#: given the same by :class:`~srm_common.kafka.client.links.link.ClusterLink`.
NO_AUTO_CREATION: Mapping[str, str] = MappingProxyType({"allow.auto.create.topics": "false"})
#: Where Kafka's clients have another default: librdkafka tries each address of a name for 30 s.
LIBRDKAFKA_DEFAULTS: Mapping[str, str] = {"socket.connection.setup.timeout.ms": "10000"}

#: Of librdkafka's settings about logins by SASL.
_LOGIN_PREFIXES = ("sasl.", "https.")
#: kafka-python's default is the same; Kafka's clients have it, too.
REQUEST_TIMEOUT_MS = 30_000
#: What comes before the name of a context in the address of a registry.
_CONTEXTS = "/contexts/"
#: The function that gives tokens for Amazon MSK.
MSK_IAM = "srm_common.kafka.client.logins.msk_iam:token"
#: Kafka's default of ``max.message.bytes``, the largest record batch of a topic.
MAX_MESSAGE_BYTES = 1_048_588
#: In its place where a topic's own limit may not be read: no batch is divided; brokers refuse what is too large.
UNLIMITED_MESSAGE_BYTES = (1 << 31) - 1


class Client(StrEnum):
    """The kinds of Kafka clients, which may have settings of their own: ``consumer.``, ``producer.``, ``admin.``."""

    CONSUMER = "consumer"
    PRODUCER = "producer"
    ADMIN = "admin"


@dataclass(frozen=True)
class JavaStore:
    """A file of keys or certificates, JKS or PKCS12. ``key_password`` is None where it is the store's."""

    location: str
    password: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)


class OwnCertificate(Protocol):
    """The certificate by which TLS shows who the client is. It is read when asked for, where the client is."""

    @property
    def place(self) -> str:
        """Where it comes from, for sentences."""

    def chain(self) -> str:
        """With those that come with it, as PEM. Raises OSError and ValueError."""

    def subject(self) -> str | None:
        """Whose it is, as Java writes it, None where that cannot be read."""


@dataclass(frozen=True)
class LoginSettings:
    """A SASL login in the terms of both libraries: the part of :class:`ClusterSettings` that concerns it."""

    confluent: Mapping[str, str] = field(repr=False)
    kafka_python: Mapping[str, Any] = field(repr=False)


class LoginSource(Protocol):
    """Where a login comes from that may change while clients use it: files, an Airflow connection. Picklable and
    hashable."""

    @property
    def place(self) -> str:
        """The files and the connection, for sentences."""

    @property
    def is_quick(self) -> bool:
        """Whether :meth:`read` takes milliseconds, as for files; otherwise it may take seconds."""

    def read(self) -> LoginSettings:
        """The login as it is there now. Raises ConfigError where it cannot be read here."""


@dataclass(frozen=True)
class ClusterSettings:
    """One cluster alias and its connection settings. Picklable; ``repr`` shows no credentials.

    ``bootstrap_servers`` is a comma separated list of ``host:port``. ``confluent`` holds librdkafka settings
    (``bootstrap.servers`` and security included, and :data:`NO_AUTO_CREATION`). ``kafka_python`` holds keyword
    arguments of ``kafka.net.manager.KafkaConnectionManager`` (``bootstrap_servers`` as a list); a value of
    :class:`PemTexts`, :class:`OauthClient`, :class:`TokenFunction` or :class:`KerberosLogin` in it becomes a live
    object in :func:`srm_common.kafka.client.logins.security.connection_arguments`; a :class:`DelegationToken` is for
    :mod:`srm_common.kafka.client.logins.scram`. ``rack`` is where the readers of the cluster are (KIP-392).

    ``client_id`` is the name that the file gives to clients; without one they are named after their ``owner``, a flow,
    and what they do. ``request_timeout_ms`` is None where the file says nothing about this cluster.

    ``truststore`` and ``keystore`` are Java's, which neither library can read: what is in them is added when a client
    is made (:mod:`srm_common.kafka.client.logins.security`).

    ``own_certificate`` is the client's, of whichever of these kinds it is; None where it shows none.

    ``login_source`` is where the password or the client's secret can be read again; None where there is none, or
    neither comes from a file.

    ``clients`` holds the settings of the kinds of clients that have others than these.

    ``schema_registry`` is the registry of the schemas of the cluster's records, None where the file names none.

    ``only_read``: it is a flow's source, whose brokers may be older than a target's.

    ``files``: contents of the files that these settings name, by path, for a process on another machine: they count
    where there is no such file (:mod:`srm_common.kafka.client.logins.shipped_files`).
    """

    alias: str
    bootstrap_servers: str
    confluent: Mapping[str, str] = field(repr=False, hash=False)
    kafka_python: Mapping[str, Any] = field(repr=False, hash=False)
    rack: str = ""
    client_id: str = ""
    owner: str = "srm"
    request_timeout_ms: int | None = None
    truststore: JavaStore | None = None
    keystore: JavaStore | None = None
    own_certificate: OwnCertificate | None = None
    login_source: LoginSource | None = None
    clients: Mapping[Client, ClusterSettings] = field(default_factory=dict, repr=False, hash=False)
    schema_registry: RegistrySettings | None = field(default=None, hash=False)
    only_read: bool = field(default=False, compare=False, repr=False)
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False, hash=False)

    def __post_init__(self) -> None:
        named = {"client.id": self.client_id or self.owner}
        object.__setattr__(self, "confluent", {**self.confluent, **named, **NO_AUTO_CREATION})

    @property
    def kerberos(self) -> KerberosLogin | None:
        """The login by Kerberos (GSSAPI), None where another one is used."""
        found = self.kafka_python.get("sasl_oauth_token_provider")
        return found if isinstance(found, KerberosLogin) else None

    @property
    def token_function(self) -> TokenFunction | None:
        """The function that gives the tokens of the login, None where no function does."""
        found = self.kafka_python.get("sasl_oauth_token_provider")
        return found if isinstance(found, TokenFunction) else None

    @property
    def login(self) -> LoginSettings:
        """The settings of the SASL login."""
        return LoginSettings(
            {key: value for key, value in self.confluent.items() if key.startswith(_LOGIN_PREFIXES)},
            {key: value for key, value in self.kafka_python.items() if key.startswith("sasl_")},
        )

    @property
    def by_token(self) -> bool:
        """Whether the user name is the id of a delegation token."""
        return isinstance(self.kafka_python.get("sasl_oauth_token_provider"), DelegationToken)

    @property
    def kafka_python_alone(self) -> bool:
        """Whether librdkafka lacks the login: it is distributed without Kerberos, and knows no delegation tokens."""
        return self.kerberos is not None or self.by_token

    def of_client(self, client: Client) -> ClusterSettings:
        """The settings for one kind of client."""
        return self.clients.get(client, self)

    def client_name(self, part: str) -> str:
        """What a client calls itself to the brokers; ``part`` is what it does, such as ``slot-0``."""
        return self.client_id or (f"{self.owner}.{part}" if part else self.owner)

    def of_role(self, *, only_read: bool) -> ClusterSettings:
        """The same, as a flow's source or as its target."""
        clients = {client: replace(settings, only_read=only_read) for client, settings in self.clients.items()}
        return replace(self, only_read=only_read, clients=clients)

    def at(self, bootstrap_servers: str) -> ClusterSettings:
        """The same, reached by other addresses."""
        plain = ClusterSettings.plaintext(self.alias, bootstrap_servers)
        return replace(
            self,
            bootstrap_servers=plain.bootstrap_servers,
            confluent={**self.confluent, "bootstrap.servers": plain.confluent["bootstrap.servers"]},
            kafka_python={**self.kafka_python, "bootstrap_servers": plain.kafka_python["bootstrap_servers"]},
            clients={client: settings.at(bootstrap_servers) for client, settings in self.clients.items()},
        )

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
    revoked: str | None = field(default=None, repr=False)

    @classmethod
    def named(cls, arguments: Mapping[str, Any]) -> PemTexts:
        """Of kafka-python's arguments that name files."""
        return cls(
            certificate_authority_file=arguments.get("ssl_cafile"),
            chain_file=arguments.get("ssl_certfile"),
            key_file=arguments.get("ssl_keyfile"),
            key_password=arguments.get("ssl_password"),
            check_hostname=arguments.get("ssl_check_hostname", True),
            revoked_file=arguments.get("ssl_crlfile"),
        )

    @property
    def files(self) -> tuple[str, ...]:
        """Paths of the files."""
        named = (self.certificate_authority_file, self.chain_file, self.key_file, self.revoked_file)
        return tuple(path for path in named if path)


@dataclass(frozen=True)
class RegistrySettings:
    """A schema registry with Confluent's API. ``urls`` are tried in turn, and hold no credentials. If they end with
    ``/contexts/.east``, the registry is that context of it.

    ``user`` and ``password`` are for HTTP basic authentication, ``token`` is a bearer token. ``tls`` is None where
    nothing is configured about TLS.
    """

    urls: tuple[str, ...]
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    tls: PemTexts | None = None
    truststore: JavaStore | None = None
    keystore: JavaStore | None = None

    @property
    def context(self) -> str | None:
        """The context that the addresses name, without its dot, empty for the default one; None if they name none."""
        return registry_and_context(self.urls[0])[1]


def registry_and_context(url: str) -> tuple[str, str | None]:
    """The address of a registry as a whole, and the context that it names (Confluent's ``ContextFilter``), without its
    dot: ``http://registry:8081`` and ``east`` for ``http://registry:8081/contexts/.east``."""
    whole, marker, name = url.partition(_CONTEXTS)
    if not marker:
        return url, None
    return whole, unquote(name).strip(":").removeprefix(".")


def common_registries(one: RegistrySettings, other: RegistrySettings) -> list[str]:
    """Addresses, without their contexts, that both name: any of them makes the two the same registry."""
    return sorted(
        {registry_and_context(url)[0] for url in one.urls} & {registry_and_context(url)[0] for url in other.urls}
    )


@dataclass(frozen=True)
class KerberosLogin:
    """Where the tickets of a client come from, as ``Krb5LoginModule`` is told; the realm and its KDCs are in the
    system's ``krb5.conf``.

    ``service_name`` is the first part of the brokers' principals. ``principal`` is the client's own, ``keytab`` the
    file with its keys; without one, tickets are taken from ``ticket_cache``, which another program fills and renews.
    Where that is None, it is the one that Kerberos uses by itself (``KRB5CCNAME``). The files are read where the client
    is: on the workers, too.
    """

    service_name: str
    principal: str | None = None
    keytab: str | None = None
    ticket_cache: str | None = None


@dataclass(frozen=True)
class DelegationToken:
    """Says of a login by SCRAM that it is by a delegation token (KIP-48): the name is its id, the password its HMAC."""


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


@dataclass(frozen=True)
class TokenFunction:
    """A Python function that returns tokens for OAUTHBEARER. It is imported where the client is: on the workers, too.

    ``path`` is ``package.module:function``, ``key`` the one that asks for it, for messages. The function is called with
    ``alias`` and ``options``, those of the login module.
    """

    path: str
    alias: str
    key: str
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

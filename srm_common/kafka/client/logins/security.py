"""Security settings for the clients: live objects, made from values that can be pickled."""

from __future__ import annotations

import logging
import os
import secrets
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srm_common.domain.cluster import Client, ClusterSettings, JavaStore, KerberosLogin, OauthClient, PemTexts
from srm_common.errors import ConfigError
from srm_common.kafka.client.logins.client_credentials import ClientCredentials
from srm_common.kafka.client.logins.current_login import current_login, with_current_login
from srm_common.kafka.client.logins.kerberos import KerberosTickets, require_gssapi
from srm_common.kafka.client.logins.shipped_files import shipped_contents, with_shipped_texts
from srm_common.kafka.client.logins.token_function import function_tokens

if TYPE_CHECKING:
    from srm_common.wire.keystores.java_stores import JavaStoreTexts

_LOG = logging.getLogger(__name__)


def connection_arguments(cluster: ClusterSettings) -> dict[str, Any]:
    """Keyword arguments for :class:`~srm_common.kafka.client.connections.connections.FrameConnectionManager`.

    Raises:
        ConfigError: a certificate or key cannot be read, or a library or function for the login is missing.
    """
    arguments = dict(cluster.kafka_python)
    texts = arguments.get("ssl_context")
    if texts is None and cluster.files and "SSL" in str(arguments.get("security_protocol")):
        texts = PemTexts.named(arguments)
    if isinstance(texts, PemTexts):
        arguments["ssl_context"] = TlsContexts(cluster, texts)
    login = arguments.get("sasl_oauth_token_provider")
    current = current_login(cluster)
    if current is not None:
        arguments["login"] = current
    elif isinstance(login, OauthClient):
        arguments["sasl_oauth_token_provider"] = ClientCredentials(login)
    elif isinstance(login, KerberosLogin):
        require_gssapi(cluster.alias)
        arguments["sasl_oauth_token_provider"] = KerberosTickets(login, cluster.alias)
    elif (tokens := function_tokens(cluster)) is not None:
        arguments["sasl_oauth_token_provider"] = tokens
    return arguments


class TlsContexts:
    """The TLS context for each new connection to a cluster: another one when a file has changed, such as a keystore
    with a new certificate. PEM files that kafka-python takes by name are read for each connection anyway.

    Raises ConfigError when it is made and a certificate or key cannot be read.
    """

    def __init__(self, cluster: ClusterSettings, texts: PemTexts) -> None:
        self._cluster, self._texts = cluster, texts
        stores = [store.location for store in (cluster.truststore, cluster.keystore) if store is not None]
        self._files = [Path(place) for place in (*stores, *texts.files)]
        self._seen = self._look()
        #: What was there when the log last said that it cannot be used.
        self._told: list[tuple[int, ...] | None] | None = None
        self._context = self._make()

    def current(self) -> ssl.SSLContext:
        """The context for a new connection. While a changed file cannot be used, it is the former one."""
        seen = self._look()
        if seen != self._seen:
            try:
                self._context = self._make()
            except ConfigError as error:
                if seen != self._told:
                    _LOG.warning("%s; new connections use what was there before", error)
                self._told = seen
            else:
                self._seen = seen
        return self._context

    def _look(self) -> list[tuple[int, ...] | None]:
        """What tells that a file, or what a link leads to, is another one."""
        found: list[tuple[int, ...] | None] = []
        for file in self._files:
            try:
                stat = file.stat()
            except OSError:
                found.append(None)
            else:
                found.append((stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns))
        return found

    def _make(self) -> ssl.SSLContext:
        whose = f"of cluster '{self._cluster.alias}'"
        return _context(self._texts, _stores(self._cluster), whose, self._cluster.files)


def own_chain(cluster: ClusterSettings) -> str:
    """The client certificate for a cluster with those that come with it, as PEM; empty where there is none.

    Raises:
        ConfigError: it cannot be read.
    """
    own = cluster.own_certificate
    if own is None:
        return ""
    try:
        return own.chain()
    except OSError as error:
        raise ConfigError(f"{own.place} of cluster '{cluster.alias}' cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{own.place} of cluster '{cluster.alias}' cannot be used: {error}") from error


def registry_tls(cluster: ClusterSettings) -> ssl.SSLContext:
    """The TLS context for the cluster's schema registry.

    Raises:
        ConfigError: a certificate or key cannot be read.
    """
    registry = cluster.schema_registry
    texts = (registry and registry.tls) or PemTexts()
    stores = (None, None) if registry is None else _read_stores(cluster, registry.truststore, registry.keystore)
    return _context(texts, stores, f"for the schema registry of cluster '{cluster.alias}'", cluster.files)


def librdkafka_settings(cluster: ClusterSettings, client: Client) -> dict[str, str]:
    """Settings for one kind of librdkafka's clients.

    Raises:
        ConfigError: a certificate or key cannot be read.
    """
    settings = with_current_login(cluster.of_client(client))
    trusted, own = _stores(settings)
    found = dict(settings.confluent)
    if trusted is not None:
        found["ssl.ca.pem"] = trusted.trusted
    if own is not None and own.chain is not None and own.key is not None:
        found |= {"ssl.certificate.pem": own.chain, "ssl.key.pem": own.key}
    return found


def _stores(cluster: ClusterSettings) -> tuple[JavaStoreTexts | None, JavaStoreTexts | None]:
    return _read_stores(cluster, cluster.truststore, cluster.keystore)


def _read_stores(
    cluster: ClusterSettings, truststore: JavaStore | None, keystore: JavaStore | None
) -> tuple[JavaStoreTexts | None, JavaStoreTexts | None]:
    """What Java's truststore and keystore hold; their keys stay in memory."""
    alias = cluster.alias
    trusted, own = _store(cluster, truststore), _store(cluster, keystore)
    for store, found, what in (
        (truststore, trusted is None or trusted.trusted, "trusted certificate"),
        (keystore, own is None or own.key, "private key"),
    ):
        if store is not None and not found:
            raise ConfigError(f"{store.location} of cluster '{alias}' holds no {what}")
    return trusted, own


def _store(cluster: ClusterSettings, store: JavaStore | None) -> JavaStoreTexts | None:
    if store is None:
        return None
    alias, shipped = cluster.alias, shipped_contents(store.location, cluster.files)
    from srm_common.wire.keystores.java_stores import read_java_store  # few links need its library, which takes a while

    try:
        contents = Path(store.location).read_bytes() if shipped is None else shipped
        return read_java_store(contents, store.password, store.key_password)
    except OSError as error:
        raise ConfigError(f"{store.location} of cluster '{alias}' cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{store.location} of cluster '{alias}' cannot be used: {error}") from None


def _context(
    texts: PemTexts,
    stores: tuple[JavaStoreTexts | None, JavaStoreTexts | None],
    whose: str,
    files: Mapping[str, bytes],
) -> ssl.SSLContext:
    """The context from what was configured as PEM and the contents of truststore and keystore."""
    trusted, own = stores
    texts = with_shipped_texts(texts, files)
    if trusted is not None:
        texts = replace(texts, certificate_authority=trusted.trusted)
    if own is not None:
        texts = replace(texts, chain=own.chain, key=own.key)
    try:
        return tls_context(texts)
    except (OSError, ssl.SSLError, ValueError) as error:
        if (unreadable := _unreadable(texts)) is not None:
            raise ConfigError(f"{unreadable.filename} {whose} cannot be read: {unreadable.strerror}") from error
        raise ConfigError(f"the certificates {whose} cannot be used: {error}") from error


def _unreadable(texts: PemTexts) -> OSError | None:
    """Of the first file that cannot be read: OpenSSL does not say which it is."""
    for path in texts.files:
        try:
            Path(path).read_bytes()
        except OSError as error:
            return error
    return None


def tls_context(texts: PemTexts) -> ssl.SSLContext:
    """A client context as kafka-python makes it, from text or files."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = texts.check_hostname
    if texts.ciphers:
        context.set_ciphers(texts.ciphers)
    if texts.certificate_authority:
        context.load_verify_locations(cadata=texts.certificate_authority)
    elif texts.certificate_authority_file:
        context.load_verify_locations(texts.certificate_authority_file)
    else:
        context.load_default_certs()
    if texts.revoked:
        with tempfile.NamedTemporaryFile("w", prefix="srm-tls-", suffix=".pem") as file:  # no function takes the text
            file.write(texts.revoked)
            file.flush()
            context.load_verify_locations(file.name)
    elif texts.revoked_file:
        context.load_verify_locations(texts.revoked_file)
    if texts.revoked or texts.revoked_file:
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    if texts.chain and texts.key:
        # OpenSSL takes a chain and a key from files only; these are readable by us alone, and gone at once, and the
        # key in them has a password that only this process knows.
        from srm_common.wire.keystores.java_stores import with_password

        password = secrets.token_hex(32)
        hidden = with_password(texts.key, texts.key_password, password)
        with tempfile.TemporaryDirectory(prefix="srm-tls-") as folder:
            both = Path(folder) / "both.pem"
            with os.fdopen(os.open(both, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
                file.write(f"{hidden}\n{texts.chain}\n")
            context.load_cert_chain(both, password=password)
    elif texts.chain_file:
        context.load_cert_chain(texts.chain_file, texts.key_file, texts.key_password)
    return context

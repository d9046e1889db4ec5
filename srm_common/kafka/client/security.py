"""The last step of security settings for kafka-python: objects that must be live, from values that can be pickled;
among them the tokens of logins by OAUTHBEARER, from an OAuth 2 server (KIP-768)."""

from __future__ import annotations

import os
import secrets
import ssl
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srm_common.domain.cluster import Client, ClusterSettings, JavaStore, KerberosLogin, OauthClient, PemTexts
from srm_common.errors import ConfigError

if TYPE_CHECKING:
    from srm_common.wire.java_stores import JavaStoreTexts
import base64
import json
import random
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

from srm_common.errors import AccessDenied, UnreachableCluster
from srm_common.kafka.client.kerberos import KerberosTickets, require_gssapi
from srm_common.kafka.client.library import AbstractTokenProvider

#: One request to the token endpoint.
_REQUEST_SECONDS = 10.0
#: Java's sasl.login.retry.backoff.ms and sasl.login.retry.backoff.max.ms, which is also how long Java continues.
_BACKOFF_SECONDS, _LONGEST_BACKOFF_SECONDS, _PATIENCE_SECONDS = 0.1, 10.0, 10.0
#: A token is renewed when this share of its life is over (Java's sasl.login.refresh.window.factor).
_RENEW_AT = 0.8
#: The endpoint identified the client and refused; other errors may be temporary.
_REFUSED = (400, 401, 403)


class ClientCredentials(AbstractTokenProvider):  # type: ignore[misc]
    """Tokens of the client-credentials grant (RFC 6749, 4.4), kept until most of their life is over. Thread-safe."""

    def __init__(self, client: OauthClient) -> None:
        super().__init__()
        self._client = client
        self._lock = threading.Lock()
        self._token = ""
        self._renew_at = self._ends_at = 0.0

    def token(self, patience_seconds: float = _PATIENCE_SECONDS) -> str:
        """A token that is good for a while. Blocks, and asks again when the endpoint fails; to be called in a thread.

        Raises:
            AccessDenied: the endpoint refuses this client.
            UnreachableCluster: it gave no token in time.
            ConfigError: the certificates for it cannot be read.
        """
        deadline = time.monotonic() + patience_seconds
        if not self._lock.acquire(timeout=patience_seconds):
            raise UnreachableCluster(f"{self._client.token_endpoint_url} gave no token in {patience_seconds:g} s")
        try:
            if time.monotonic() >= self._renew_at:
                self._renew(deadline)
            return self._token
        finally:
            self._lock.release()

    def extensions(self) -> dict[str, str]:
        return dict(self._client.extensions)

    def _renew(self, deadline: float) -> None:
        pause = _BACKOFF_SECONDS
        while True:
            began = time.monotonic()
            try:
                self._token, lifetime = self._ask(max(deadline - began, 0.1))
            except UnreachableCluster:
                if began < self._ends_at:
                    return  # the token at hand still counts
                if time.monotonic() + pause >= deadline:
                    raise
                time.sleep(pause * random.uniform(0.8, 1.2))
                pause = min(pause * 2, _LONGEST_BACKOFF_SECONDS)
            else:
                self._renew_at, self._ends_at = began + _RENEW_AT * lifetime, began + lifetime
                return

    def _ask(self, seconds: float) -> tuple[str, float]:
        client = self._client
        form = {"grant_type": "client_credentials"} | ({"scope": client.scope} if client.scope else {})
        login = base64.b64encode(f"{client.client_id}:{client.client_secret}".encode()).decode()
        request = urllib.request.Request(
            client.token_endpoint_url,
            data=urllib.parse.urlencode(form).encode(),
            headers={"Authorization": f"Basic {login}", "Accept": "application/json"},
        )
        context = self._tls()
        try:
            with urllib.request.urlopen(request, timeout=min(seconds, _REQUEST_SECONDS), context=context) as response:
                answer: Any = json.load(response)
            return str(answer["access_token"]), float(answer.get("expires_in", 300))
        except urllib.error.HTTPError as error:
            with error:
                text = f"{client.token_endpoint_url} gave no token: status {error.code}"
            if error.code in _REFUSED:
                raise AccessDenied(f"{text}; check the client's id, secret and scope") from error
            raise UnreachableCluster(text) from error
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            raise UnreachableCluster(f"{client.token_endpoint_url} gave no token: {reason}") from error

    def _tls(self) -> ssl.SSLContext | None:
        client = self._client
        if client.certificate_authority is None and client.certificate_authority_file is None:
            return None
        try:
            return ssl.create_default_context(
                cafile=client.certificate_authority_file, cadata=client.certificate_authority
            )
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"the certificates for {client.token_endpoint_url} cannot be used: {error}") from error


class FetchedToken(AbstractTokenProvider):  # type: ignore[misc]
    """One token for one login: what the library asks for inside the event loop is there already."""

    def __init__(self, token: str, extensions: dict[str, str]) -> None:
        super().__init__()
        self._token = token
        self._extensions = extensions

    def token(self) -> str:
        """The token."""
        return self._token

    def extensions(self) -> dict[str, str]:
        return self._extensions


def connection_arguments(cluster: ClusterSettings) -> dict[str, Any]:
    """Keyword arguments for ``kafka.net.manager.KafkaConnectionManager``.

    Raises:
        ConfigError: a certificate or key cannot be read, or a library for the login is missing.
    """
    arguments = dict(cluster.kafka_python)
    texts = arguments.get("ssl_context")
    if isinstance(texts, PemTexts):
        trusted, own = _stores(cluster)
        if trusted is not None:
            texts = replace(texts, certificate_authority=trusted.trusted)
        if own is not None:
            texts = replace(texts, chain=own.chain, key=own.key)
        try:
            arguments["ssl_context"] = tls_context(texts)
        except (OSError, ssl.SSLError, ValueError) as error:
            raise ConfigError(f"the certificates of cluster '{cluster.alias}' cannot be used: {error}") from error
    login = arguments.get("sasl_oauth_token_provider")
    if isinstance(login, OauthClient):
        arguments["sasl_oauth_token_provider"] = ClientCredentials(login)
    elif isinstance(login, KerberosLogin):
        require_gssapi(cluster.alias)
        arguments["sasl_oauth_token_provider"] = KerberosTickets(login, cluster.alias)
    return arguments


def own_chain(cluster: ClusterSettings) -> str:
    """The client certificate for a cluster with those that come with it, as PEM; empty where there is none.

    Raises:
        ConfigError: it cannot be read.
    """
    _, own = _stores(cluster)
    texts = cluster.kafka_python.get("ssl_context")
    if own is not None:
        return own.chain or ""
    if isinstance(texts, PemTexts) and texts.chain:
        return texts.chain
    file = texts.chain_file if isinstance(texts, PemTexts) else cluster.kafka_python.get("ssl_certfile")
    if file is None:
        return ""
    try:
        return Path(file).read_text()
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file} of cluster '{cluster.alias}' cannot be read: {error}") from error


def registry_tls(cluster: ClusterSettings) -> ssl.SSLContext:
    """The TLS context for the cluster's schema registry.

    Raises:
        ConfigError: a certificate or key cannot be read.
    """
    registry = cluster.schema_registry
    texts = (registry and registry.tls) or PemTexts()
    if registry is not None:
        trusted, own = _read_stores(cluster.alias, registry.truststore, registry.keystore)
        if trusted is not None:
            texts = replace(texts, certificate_authority=trusted.trusted)
        if own is not None:
            texts = replace(texts, chain=own.chain, key=own.key)
    try:
        return tls_context(texts)
    except (OSError, ssl.SSLError, ValueError) as error:
        raise ConfigError(
            f"the certificates for the schema registry of cluster '{cluster.alias}' cannot be used: {error}"
        ) from error


def librdkafka_settings(cluster: ClusterSettings, client: Client) -> dict[str, str]:
    """Settings for one kind of librdkafka's clients.

    Raises:
        ConfigError: a certificate or key cannot be read.
    """
    settings = cluster.of_client(client)
    trusted, own = _stores(settings)
    found = dict(settings.confluent)
    if trusted is not None:
        found["ssl.ca.pem"] = trusted.trusted
    if own is not None and own.chain is not None and own.key is not None:
        found |= {"ssl.certificate.pem": own.chain, "ssl.key.pem": own.key}
    return found


def _stores(cluster: ClusterSettings) -> tuple[JavaStoreTexts | None, JavaStoreTexts | None]:
    return _read_stores(cluster.alias, cluster.truststore, cluster.keystore)


def _read_stores(
    alias: str, truststore: JavaStore | None, keystore: JavaStore | None
) -> tuple[JavaStoreTexts | None, JavaStoreTexts | None]:
    """What Java's truststore and keystore hold; their keys stay in memory."""
    trusted, own = _store(alias, truststore), _store(alias, keystore)
    for store, found, what in (
        (truststore, trusted is None or trusted.trusted, "trusted certificate"),
        (keystore, own is None or own.key, "private key"),
    ):
        if store is not None and not found:
            raise ConfigError(f"{store.location} of cluster '{alias}' holds no {what}")
    return trusted, own


def _store(alias: str, store: JavaStore | None) -> JavaStoreTexts | None:
    if store is None:
        return None
    from srm_common.wire.java_stores import read_java_store  # few links need its library, which takes a while

    try:
        return read_java_store(Path(store.location).read_bytes(), store.password, store.key_password)
    except OSError as error:
        raise ConfigError(f"{store.location} of cluster '{alias}' cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{store.location} of cluster '{alias}' cannot be used: {error}") from None


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
    if texts.revoked_file:
        context.load_verify_locations(texts.revoked_file)
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    if texts.chain and texts.key:
        # OpenSSL takes a chain and a key from files only; these are readable by us alone, and gone at once, and the
        # key in them has a password that only this process knows.
        from srm_common.wire.java_stores import with_password

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

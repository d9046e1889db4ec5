"""The last step of security settings for kafka-python: objects it wants alive, made from values that travel."""

from __future__ import annotations

import base64
import json
import os
import ssl
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from kafka.net.sasl.oauth import AbstractTokenProvider

from srm_common.domain.cluster import ClusterSettings, OauthClient, PemTexts
from srm_common.errors import AccessDenied, ConfigError

_TOKEN_SECONDS = 10.0
#: A token is renewed when this share of its life is over (Java's sasl.login.refresh.window.factor).
_RENEW_AT = 0.8


def connection_arguments(cluster: ClusterSettings) -> dict[str, Any]:
    """Keyword arguments for ``kafka.net.manager.KafkaConnectionManager``.

    Raises:
        ConfigError: a certificate or key cannot be read.
    """
    arguments = dict(cluster.kafka_python)
    texts = arguments.get("ssl_context")
    if isinstance(texts, PemTexts):
        try:
            arguments["ssl_context"] = tls_context(texts)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"the certificates of cluster '{cluster.alias}' cannot be used: {error}") from error
    oauth = arguments.get("sasl_oauth_token_provider")
    if isinstance(oauth, OauthClient):
        arguments["sasl_oauth_token_provider"] = ClientCredentials(oauth)
    return arguments


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
        # OpenSSL takes a chain and a key from files only; these are readable by us alone, and gone at once.
        with tempfile.TemporaryDirectory(prefix="srm-tls-") as folder:
            both = Path(folder) / "both.pem"
            with os.fdopen(os.open(both, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
                file.write(f"{texts.key}\n{texts.chain}\n")
            context.load_cert_chain(both, password=texts.key_password)
    elif texts.chain_file:
        context.load_cert_chain(texts.chain_file, texts.key_file, texts.key_password)
    return context


class ClientCredentials(AbstractTokenProvider):  # type: ignore[misc]
    """Tokens of the OAuth 2 client-credentials grant (RFC 6749, 4.4), kept until most of their life is over."""

    def __init__(self, client: OauthClient) -> None:
        super().__init__()
        self._client = client
        self._lock = threading.Lock()
        self._token = ""
        self._renew_at = 0.0

    def token(self) -> str:
        """Raises :class:`AccessDenied` when the endpoint gives none."""
        with self._lock:
            if time.monotonic() >= self._renew_at:
                self._token, lifetime = self._ask()
                self._renew_at = time.monotonic() + _RENEW_AT * lifetime
            return self._token

    def extensions(self) -> dict[str, str]:
        return dict(self._client.extensions)

    def _ask(self) -> tuple[str, float]:
        client = self._client
        form = {"grant_type": "client_credentials"} | ({"scope": client.scope} if client.scope else {})
        login = base64.b64encode(f"{client.client_id}:{client.client_secret}".encode()).decode()
        request = urllib.request.Request(
            client.token_endpoint_url,
            data=urllib.parse.urlencode(form).encode(),
            headers={"Authorization": f"Basic {login}", "Accept": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=_TOKEN_SECONDS) as response:
                answer = json.load(response)
            return str(answer["access_token"]), float(answer.get("expires_in", 300))
        except urllib.error.HTTPError as error:
            raise AccessDenied(f"{client.token_endpoint_url} gave no token: status {error.code}") from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise AccessDenied(f"{client.token_endpoint_url} gave no token: {error}") from error

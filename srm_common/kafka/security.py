"""The last step of security settings for kafka-python: objects it wants alive, made from values that travel."""

from __future__ import annotations

import os
import ssl
import tempfile
from pathlib import Path
from typing import Any

from srm_common.domain.cluster import ClusterSettings, OauthClient, PemTexts
from srm_common.errors import ConfigError
from srm_common.kafka.oauth_tokens import ClientCredentials


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

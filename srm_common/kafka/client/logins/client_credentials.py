"""Tokens for logins by OAUTHBEARER, from an OAuth 2 server (KIP-768)."""

from __future__ import annotations

import base64
import http.client
import math
import ssl
import urllib.error
import urllib.parse
import urllib.request

from srm_common.domain.cluster import OauthClient
from srm_common.errors import AccessDenied, ConfigError, UnreachableCluster
from srm_common.http_answers import AnswerTooLarge, fetch, json_of
from srm_common.kafka.client.logins.kept_tokens import KeptTokens

#: One request to the token endpoint.
_REQUEST_SECONDS = 10.0
#: How long a token is valid whose answer does not say so.
_USUAL_SECONDS = 300.0
#: Tokens are a few kilobytes.
_LARGEST_ANSWER = 1 << 20
#: The endpoint identified the client and refused; other errors may be temporary.
_REFUSED = (400, 401, 403)


class ClientCredentials(KeptTokens):
    """Tokens of the client-credentials grant (RFC 6749, 4.4)."""

    def __init__(self, client: OauthClient) -> None:
        super().__init__(client.token_endpoint_url, dict(client.extensions))
        self._client = client

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
            limit = min(seconds, _REQUEST_SECONDS)
            return token_in(fetch(request, seconds=limit, most_bytes=_LARGEST_ANSWER, context=context))
        except urllib.error.HTTPError as error:
            with error:
                text = f"{client.token_endpoint_url} gave no token: status {error.code}"
            if error.code in _REFUSED:
                raise AccessDenied(f"{text}; check the client's id, secret and scope") from error
            if 300 <= error.code < 400:
                text += f", a redirection to {error.headers.get('Location')}, which is not followed; give that address"
            raise UnreachableCluster(text) from error
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise UnreachableCluster(f"{client.token_endpoint_url} gave no token: {_reason(error)}") from error

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


def _reason(error: Exception) -> str:
    if isinstance(error, http.client.RemoteDisconnected):
        return "it closed the connection without an answer"
    if isinstance(error, AnswerTooLarge):
        return str(error)
    if isinstance(error, http.client.HTTPException):  # whose text is what was received
        return "its answer is not HTTP, or was cut off"
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    return str(reason) or type(reason).__name__


def token_in(answer: bytes) -> tuple[str, float]:
    """(token, lifetime in seconds) of an answer (RFC 6749, 5.1). Raises ValueError, whose text shows nothing of it."""
    try:
        found = json_of(answer)
    except ValueError:
        raise ValueError("its answer is not JSON") from None
    token = found.get("access_token") if isinstance(found, dict) else None
    if not isinstance(token, str) or not token:
        raise ValueError("its answer has no access_token")
    try:
        seconds = float(found.get("expires_in", _USUAL_SECONDS))
    except (TypeError, ValueError, OverflowError):
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise ValueError("its answer has an expires_in that is not a number of seconds")
    return token, seconds

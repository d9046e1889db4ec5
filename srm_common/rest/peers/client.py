"""Queries another service: one GET within a time limit, and a validated response."""

from __future__ import annotations

import base64
import http.client
import ssl
from collections.abc import Sequence
from typing import TypeVar
from urllib.parse import urlencode

from pydantic import BaseModel, ValidationError

from srm_common import http_answers
from srm_common.domain.flow.service_advertisement import Advertisement
from srm_common.errors import PeerError, PeerSilent
from srm_common.rest.faults import Faults
from srm_common.rest.schemas import Fault
from srm_common.settings_files.service_settings import Login, ServiceSettings

#: More than a page of 1,000 flows with all figures.
_MOST_BYTES = 32 << 20
#: Statuses whose bodies are not read: the status says enough.
_STATUS_ALONE = frozenset({401, 403, *range(300, 400)})
_LONGEST_SENTENCE = 2000

Answer = TypeVar("Answer", bound=BaseModel)


class PeerRefusal(PeerError):
    """It responds with errors instead of data, which are in ``faults``."""

    def __init__(self, status: int, faults: Sequence[Fault], message: str) -> None:
        super().__init__(message)
        self.status = status
        self.faults = faults


def ask(
    peer: Advertisement,
    path: str,
    query: Sequence[tuple[str, str]],
    model: type[Answer],
    settings: ServiceSettings,
) -> Answer:
    """GET ``path`` below the peer's address.

    No redirection is followed: a login is for the host that it was given for.

    Raises:
        PeerSilent: it does not respond within ``service.peers.timeout.seconds``.
        PeerRefusal: it says what is wrong with the request, or with itself.
        PeerError: it may not be queried, refuses, or returns something else.
    """
    return read(peer, fetch(peer, path, query, settings), model)


def read(peer: Advertisement, body: bytes, model: type[Answer]) -> Answer:
    """Parse a service's response. Raises PeerError if it is not what was requested."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise PeerError(
            f"service '{peer.name}' ({peer.url}) returned an unreadable response: {place or 'the text'}: {first['msg']}"
        ) from None


def fetch(peer: Advertisement, path: str, query: Sequence[tuple[str, str]], settings: ServiceSettings) -> bytes:
    """The body of the response. Raises as :func:`ask`."""
    who = f"service '{peer.name}' ({peer.url})"
    if not settings.may_ask(peer.host):
        raise PeerError(f"{who} is not queried, since service.peers.hosts does not allow its host")
    seconds = settings.peers_timeout_seconds
    target = f"{peer.root_path}{path}" + (f"?{urlencode(query)}" if query else "")
    connection = _connection(peer, settings)
    try:
        headers = {"Accept": "application/json", **_login(settings, peer.host)}
        status, body = http_answers.ask(
            connection, "GET", target, None, headers, seconds=seconds, most_bytes=_MOST_BYTES
        )
        if status in _STATUS_ALONE:
            raise PeerError(f"{who} {_refusal(status, peer.host)}")
        if status != 200:
            raise _refused(who, status, body)
        return body
    except http_answers.AnswerTooLarge:
        raise PeerError(f"{who} returns more than {_MOST_BYTES >> 20} MB") from None
    except TimeoutError:
        raise PeerSilent(f"{who} did not respond within {seconds:g} s") from None
    except ssl.SSLCertVerificationError as error:
        trusted = settings.peers_ca_location or "those of this system"
        raise PeerError(
            f"{who} has a certificate that is not trusted: {error.verify_message.rstrip('.')}; the authorities are "
            f"{trusted}, see service.peers.ca.location"
        ) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        # The error repeats an answer that is not HTTP, line ends included.
        raise PeerError(f"{who} cannot be queried: {' '.join(str(error).split()) or type(error).__name__}") from None
    finally:
        connection.close()


def _connection(peer: Advertisement, settings: ServiceSettings) -> http.client.HTTPConnection:
    if peer.protocol == "http":
        return http.client.HTTPConnection(peer.host, peer.port, timeout=settings.peers_timeout_seconds)
    try:
        trust = ssl.create_default_context(cafile=settings.peers_ca_location)
    except OSError as error:
        raise PeerError(f"service.peers.ca.location {settings.peers_ca_location} cannot be read: {error}") from None
    return http.client.HTTPSConnection(peer.host, peer.port, timeout=settings.peers_timeout_seconds, context=trust)


def _login(settings: ServiceSettings, host: str) -> dict[str, str]:
    login = settings.logins.get(host.lower(), Login())
    if login.token is not None:
        return {"Authorization": f"Bearer {login.token}"}
    if login.user is None:
        return {}
    pair = base64.b64encode(f"{login.user}:{login.password}".encode()).decode()
    return {"Authorization": f"Basic {pair}"}


def _refused(who: str, status: int, body: bytes) -> PeerError:
    """With the message of a service such as this one; other texts are not repeated."""
    try:
        faults = Faults.model_validate_json(body).errors
    except ValidationError:
        faults = []
    if not faults:
        return PeerError(f"{who} responds with HTTP {status}")
    return PeerRefusal(status, faults, f"{who} responds with HTTP {status}: {faults[0].message[:_LONGEST_SENTENCE]}")


def _refusal(status: int, host: str) -> str:
    if status in (401, 403):
        return f"refuses the login (HTTP {status}); see service.peer.{host}.user and .password"
    return f"redirects (HTTP {status}); it should advertise the address at which it responds"

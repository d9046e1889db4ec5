"""Why a connection could not be made, in one sentence that names the server and what to do."""

from __future__ import annotations

import ssl

from srm_common.kafka.client.library import Errors

#: What a server that accepted a connection has to answer: ApiVersions.
FIRST_REQUEST = "the first request"
_PLAIN = "PLAINTEXT or SASL_PLAINTEXT"
_TLS = "SSL or SASL_SSL"
_REFUSALS = (Errors.SaslAuthenticationFailedError, Errors.UnsupportedSaslMechanismError)
#: TLS records begin with their kind (20 to 23; 21 is an alert, 22 a handshake) and a version 3.x (RFC 8446, 5.1).
_TLS_RECORDS = range(20, 24)
#: Why a listener with the right protocol closes a connection that it has accepted.
_ALSO = "it may also be restarting, or have as many connections as it takes (max.connections, max.connections.per.ip)"

#: By codes of OpenSSL (``X509_V_ERR_...``).
_UNKNOWN_AUTHORITY = (
    "set ssl.truststore.location (or ssl.ca.location) to the certificate of the authority that vouches for it"
)
_OTHER_NAME = (
    "let bootstrap.servers and the broker's advertised.listeners use a name that is in its certificate, or have this "
    "one added to it (subject alternative name)"
)
_REMEDIES = {
    2: _UNKNOWN_AUTHORITY,
    9: "check the clock of this host",
    10: "renew it on the broker, or the authority's above it",
    18: _UNKNOWN_AUTHORITY,
    19: _UNKNOWN_AUTHORITY,
    20: _UNKNOWN_AUTHORITY,
    21: _UNKNOWN_AUTHORITY,
    62: _OTHER_NAME,
    64: _OTHER_NAME,
}
_OURS = "ssl.keystore.location (or ssl.certificate.location)"
#: By the alert in OpenSSL's reason: what the server says about the client's certificate.
_ALERTS = {
    "CERTIFICATE_REQUIRED": f"requires a client certificate, but none is set; set {_OURS}",
    "CERTIFICATE_EXPIRED": f"refuses the client certificate, as it has expired; renew what {_OURS} names",
    "CERTIFICATE_REVOKED": f"refuses the client certificate, as it is revoked; renew what {_OURS} names",
    "CERTIFICATE_UNKNOWN": f"refuses the client certificate; see the reason in the broker's log, and check {_OURS}",
    "UNKNOWN_CA": (
        f"refuses the client certificate, as it does not know its authority; check what {_OURS} names, or have the "
        "authority added to the broker's truststore"
    ),
    "BAD_CERTIFICATE": f"refuses the client certificate, or wants one and got none; check what {_OURS} names",
}


def is_refusal(error: BaseException) -> bool:
    """Whether the server did not take the login; waiting does not help."""
    return isinstance(error, _REFUSALS)


def fault_text(error: BaseException) -> str:
    """An error without the name of its class."""
    if isinstance(error, Errors.KafkaError) and error.args and isinstance(error.args[0], (str, OSError)):
        return str(error.args[0])
    return str(error) or type(error).__name__


def foreign_answer(server: str, head: bytes) -> str:
    """What a server speaks whose response begins with these bytes; one of Kafka begins with a frame's length."""
    if len(head) >= 2 and head[0] in _TLS_RECORDS and head[1] == 3:
        return f"{server} speaks TLS; set security.protocol to {_TLS}"
    if head.startswith(b"HTTP"):
        return f"{server} speaks HTTP, so it is not a Kafka listener; correct bootstrap.servers"
    head_text = head[:4].hex()
    return f"{server} does not speak Kafka's protocol (its response begins with 0x{head_text}); correct the address"


def handshake_fault(server: str, error: BaseException) -> str:
    """Why a TLS handshake failed."""
    if isinstance(error, ssl.SSLCertVerificationError):
        remedy = _REMEDIES.get(error.verify_code)
        text = f"the certificate of {server} is not trusted: {error.verify_message.rstrip('.')}"
        return text if remedy is None else f"{text}; {remedy}"
    if (refusal := certificate_refusal(server, error)) is not None:
        return refusal
    reason = error.reason if isinstance(error, ssl.SSLError) else None
    closed = isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionError))
    if closed or reason in ("WRONG_VERSION_NUMBER", "UNEXPECTED_MESSAGE", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"):
        how, also = ("closed the connection", f"; {_ALSO}") if closed else ("did not respond with TLS", "")
        hint = f"if its listener has no TLS, set security.protocol to {_PLAIN}{also}"
        return f"{server} {how} during the TLS handshake; {hint}"
    return f"the TLS handshake with {server} failed: {reason or error}"


def certificate_refusal(server: str, error: BaseException) -> str | None:
    """The message about an alert by which the server refuses our certificate (RFC 8446, 6.2); None for other errors.

    With TLS 1.3 the alert comes after the handshake, in place of the first response.
    """
    reason = str(error.reason) if isinstance(error, ssl.SSLError) else ""
    what = next((text for alert, text in _ALERTS.items() if alert in reason), None)
    return None if what is None else f"{server} {what}"


def silence(server: str, step: str | None) -> str:
    """The message about a silent server; ``step`` is what it does not respond to, None for the connection itself."""
    if step is None:
        return f"{server} does not accept connections"
    return f"{server} accepts connections, but does not respond to {step}"


def explained(server: str, step: str | None, seconds: float, tls: bool, error: Exception) -> Exception:
    """A fault of a connection that was not ready yet.

    Args:
        step: what was waited for, as in :func:`silence`.
        seconds: for how long it was tried.
        tls: whether the connection has TLS.
    """
    if isinstance(error, (Errors.RequestTimedOutError, Errors.KafkaTimeoutError)):
        return _fault(f"{silence(server, step)} (waited {seconds:.1f} s)")
    if type(error) is not Errors.KafkaConnectionError:
        return error
    cause = next(iter(error.args), None)
    if isinstance(cause, ssl.SSLError) and (refusal := certificate_refusal(server, cause)) is not None:
        return _fault(refusal)
    text = fault_text(error)
    if was_closed_by_peer(error):
        hint = (
            f"if its listener has TLS, set security.protocol to {_TLS}; " if step == FIRST_REQUEST and not tls else ""
        )
        return _fault(f"{server} closed the connection at {step}; {hint}{_ALSO}")
    return error if server in text else _fault(f"{server}: {text}")


def was_closed_by_peer(error: BaseException) -> bool:
    """Whether a fault of a connection says that the other side has closed it."""
    cause = next(iter(error.args), None)
    return cause == "socket disconnected" or isinstance(cause, ConnectionError | ssl.SSLEOFError)


def _fault(text: str) -> Exception:
    error: Exception = Errors.KafkaConnectionError(text)
    return error
